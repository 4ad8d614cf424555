"""Load samples into places of their own beside a target, and leave nothing there.

A trial is a load as any other: the same plan, deliveries and steps. Its table, topic, folder or
prefix has a name that nobody else uses, its ledger lies in a temporary folder, and no journal is
kept: nobody else loads there.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, Interrupted, RowfallError, TargetError
from rowfall.core.events import silent
from rowfall.core.listing import Listing
from rowfall.core.masked import Secret
from rowfall.core.options import Options, changed, restored
from rowfall.core.results import Leftover, Report
from rowfall.core.signals import stopped_by
from rowfall.ledger import scratches
from rowfall.measure.machine import Contention, contention
from rowfall.run.load import run_load
from rowfall.run.session import Request, open_session
from rowfall.targets.base import Scratch, Target


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
        prefix: begins the name of everything that is made.
        to, password: of the target, for connections. ``target``: itself.
    """

    def __init__(
        self, prefix: str, to: str | None, target: Target, password: Secret | None
    ) -> None:
        self._prefix, self._to, self._target, self._password = prefix, to, target, password
        self.folder = Path(tempfile.mkdtemp(prefix=prefix))
        self._record = scratches.ScratchRecord(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._record.close()

    @contextmanager
    def load(
        self, sources: Sequence[str], options: Options, *, listing: Listing | None = None,
        target: Target | None = None, most: float | None = None,
    ) -> Iterator[Trial]:  # fmt: skip
        """Load into a new scratch; it is removed when the block is left.

        Args:
            listing: of the source, what is loaded of it; None for all.
            target: in place of the one that the load is for.
            most: seconds after which it is ended, as by Ctrl-C.

        Raises:
            TooSlowError: it was.
            RowfallError: as a load of the same.
        """
        name = scratches.new_name(self._prefix)
        ledger, at = self.folder / f"{name}.ledger", target or self._target
        scratch = at.scratch(name, ledger)
        request = Request(sources, self._to, None, options, self._password, scratch=scratch.target)
        if target is None:
            self._record.add(name, at.text, changed(options), ledger)
        made = False
        try:
            if scratch.folder is not None:
                _make(scratch.folder)
            with (
                open_session(request, silent, dry=False) as session,
                self._erased(session, name),
            ):
                made = True
                session.destination.make_scratch(session, scratch.like)
                if listing is not None:
                    session = session.for_batch(listing, session.declared)
                with contention() as machine, _ended_after(most):
                    report = run_load(session)
                if report.outcome != "done":
                    first = report.failures[0] if report.failures else None
                    raise EngineError(first.error if first else report.outcome,
                                      hint=first.hint if first else None)  # fmt: skip
                yield Trial(session, report, machine, _used(session, report))
        finally:
            if scratch.folder is not None:
                shutil.rmtree(scratch.folder, ignore_errors=True)
            if not made or scratch.folder is not None:
                self._record.removed(name)

    @contextmanager
    def _erased(self, session: Session, name: str) -> Iterator[None]:
        """Erase what a scratch holds when the block is left, however."""
        try:
            yield
        finally:
            _erase(session)
            self._record.removed(name)


class TooSlowError(RowfallError):
    """A trial was ended because it took too long."""


@contextmanager
def _ended_after(seconds: float | None) -> Iterator[None]:
    """End the load of the block after so many seconds; None for never.

    Raises:
        TooSlowError: it was ended.
    """
    if seconds is None:
        yield
        return
    over = threading.Event()
    timer = threading.Timer(seconds, over.set)
    timer.daemon = True
    timer.start()
    try:
        with stopped_by(over):
            yield
    except (KeyboardInterrupt, Interrupted):
        if not over.is_set():
            raise  # Ctrl-C
        raise TooSlowError(
            f"a sample was ended, as it took more than {units.duration(seconds)}"
        ) from None
    finally:
        timer.cancel()


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


def _erase(session: Session) -> None:
    """Remove everything that loads into a scratch have made."""
    try:
        session.destination.erase(session)
    except RowfallError:
        # An engine whose load was interrupted was left alone.
        for writer in session.writers:
            with suppress(RowfallError):
                writer.engine.revive()
        session.destination.erase(session)


def remove_left(
    to: str | None, target: Target, password: Secret | None, known: Collection[str], *, dry: bool
) -> list[Leftover]:
    """Remove what measuring processes have left at a target, and on this machine, after kill -9.

    Args:
        to, password: of the target. ``known``: names that others have found and removed.

    Returns:
        The scratches at the target (``dry``: which would be removed), without those of ``known``.

    Raises:
        RowfallError: the target does not answer.
    """
    found = []
    for gone in scratches.left():
        # One address may be written in several ways.
        here = [x for x in gone.scratches if x.to == target.text or x.name in known]
        for left in here:
            scratch = target.scratch(left.name, left.ledger)
            place = str(scratch.folder or scratch.target.text)
            if left.name not in known and (scratch.folder is None or scratch.folder.exists()):
                database = scratch.target.database if scratch.folder is None else ""
                name = scratch.target.table if database else place
                found.append(Leftover(database, name, scratches.load_id(left.name), 0, 0, False))
            if not dry:
                _remove_scratch(to, scratch, restored(dict(left.options)), password)
                scratches.removed(gone, left.name)
        if not dry and len(here) == len(gone.scratches):
            shutil.rmtree(gone.folder, ignore_errors=True)
            scratches.forget(gone)
    return found


def _remove_scratch(
    to: str | None, scratch: Scratch, options: Options, password: Secret | None
) -> None:
    if scratch.folder is not None:
        shutil.rmtree(scratch.folder, ignore_errors=True)
        return
    # Any source will do; nothing is read.
    request = Request(
        ["generate://trips?rows=1"], to, None, _of_target(options), password, scratch=scratch.target
    )
    scratch.target.ledger_path.parent.mkdir(parents=True, exist_ok=True)
    with open_session(request, silent, dry=False) as session:
        _erase(session)


def _of_target(options: Options) -> Options:
    """Return the options that say how a target is reached."""
    names = ("s3_endpoint", "s3_region", "s3_profile", "s3_anonymous", "partitions", "files",
             "to_format", "skip_unavailable_shards")  # fmt: skip
    return replace(Options(), **{name: getattr(options, name) for name in names})
