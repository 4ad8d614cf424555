"""Load samples into places of their own beside a target, and leave nothing there.

A trial is a load as any other: the same plan, deliveries and steps. Its table, topic, folder or
prefix has a name that nobody else uses, its ledger lies in a temporary folder, and no journal is
kept: nobody else loads there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from rowfall.contracts.session import Session
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.events import silent
from rowfall.core.listing import Listing
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.results import Report
from rowfall.measure.machine import Contention, contention
from rowfall.run.load import run_load
from rowfall.run.session import Request, open_session
from rowfall.targets.base import Target

PREFIX = "rowfall_doctor_"
"""Begins the name of everything that is made to measure with."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A load into a scratch, which is still there.

    Attributes:
        session: of the load, open.
        machine: how busy this one was meanwhile. ``cpu``: seconds that the load used on it.
    """

    session: Session
    report: Report
    machine: Contention
    cpu: float


class Trials:
    """Makes trials; use as a context manager, which removes what they need on this machine.

    Args:
        to, password: of the target, for connections. ``target``: itself.
    """

    def __init__(self, to: str | None, target: Target, password: Secret | None) -> None:
        self._to, self._target, self._password = to, target, password
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def load(
        self, sources: Sequence[str], options: Options, *, listing: Listing | None = None,
        target: Target | None = None,
    ) -> Iterator[Trial]:  # fmt: skip
        """Load into a new scratch; it is removed when the block is left.

        Args:
            listing: of the source, what is loaded of it; None for all.
            target: in place of the one that the load is for.

        Raises:
            RowfallError: as a load of the same.
        """
        name = f"{PREFIX}{secrets.token_hex(4)}"
        scratch = (target or self._target).scratch(name, self.folder / f"{name}.ledger")
        request = Request(sources, self._to, None, options, self._password, scratch=scratch.target)
        try:
            if scratch.folder is not None:
                _make(scratch.folder)
            with (
                open_session(request, silent, dry=False) as session,
                _erased(session),
            ):
                session.destination.make_scratch(session, scratch.like)
                if listing is not None:
                    session = session.for_batch(listing, session.declared)
                with contention() as machine:
                    report = run_load(session)
                if report.outcome != "done":
                    first = report.failures[0] if report.failures else None
                    raise EngineError(first.error if first else report.outcome,
                                      hint=first.hint if first else None)  # fmt: skip
                yield Trial(session, report, machine, _used(session, report))
        finally:
            if scratch.folder is not None:
                shutil.rmtree(scratch.folder, ignore_errors=True)

    def copies(self, path: Path, count: int) -> list[str]:
        """Return the paths of as many files with the same rows; they take no room."""
        found = [str(path)]
        for number in range(1, count):
            other = path.with_name(f"{number}-{path.name}")
            os.link(path, other)
            found.append(str(other))
        return found


def _make(folder: Path) -> None:
    """Make the folder of a scratch.

    Raises:
        TargetError: it cannot be made, and neither can what it stands for.
    """
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise TargetError(
            f"cannot make a folder in {folder.parent}: {error.strerror}",
            hint="Give a place that you may write to with --to.",
        ) from None


def _used(session: Session, report: Report) -> float:
    """Return the CPU seconds that a load has used on this machine."""
    here = report.cpu_seconds_here
    return here + (report.cpu_seconds if session.engine.same_machine() else 0.0)


@contextmanager
def _erased(session: Session) -> Iterator[None]:
    """Erase what a scratch holds when the block is left, however."""
    try:
        yield
    finally:
        try:
            session.destination.erase(session)
        except RowfallError:
            # An engine whose load was interrupted was left alone.
            for writer in session.writers:
                with suppress(RowfallError):
                    writer.engine.revive()
            session.destination.erase(session)
