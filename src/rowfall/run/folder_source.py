"""Open a data folder as a source: an engine of its own reads a copy of it made of links."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rowfall.core.errors import SourceError, TargetError, UsageError
from rowfall.core.machine import free_memory
from rowfall.core.own_files import LEDGER_NAME
from rowfall.ledger import Ledger
from rowfall.systems.clickhouse.embedded import QUERY, Embedded, FolderInUseError, take_folder
from rowfall.systems.clickhouse.folder_reader import FolderReader
from rowfall.systems.clickhouse.snapshot import snapshot
from rowfall.targets.base import Target

# Of what a load may take. Its scans need some 2 MiB for each column and thread, and what they read
# is written again by an engine that needs more.
_SHARE = 4
_LEAST_MEMORY = 128 << 20


def split_memory(memory: int) -> tuple[int, int]:
    """Return the bytes of the engine that reads the folder, and what is left of ``memory``."""
    here = max(_LEAST_MEMORY, memory // _SHARE)
    return here, memory - here


def check_other(source: Path, target: Target) -> None:
    """Check that a folder is not loaded into itself.

    Raises:
        UsageError: it is.
    """
    folder = target.folder
    if folder is not None and folder.resolve() == source.resolve():
        raise UsageError(
            f"{source} is the source and the target of this load",
            hint="Name a file, a server or another folder with --to.",
        )


@contextmanager
def open_reader(folder: Path, memory: int | None, threads: int | None) -> Iterator[FolderReader]:
    """Give a reader of the folder as it is now: loads, and parts of loads that are published.

    Args:
        memory: bytes for it; None for its share of what is free.

    Raises:
        SourceError: it changes too fast, it cannot be copied, or a load was killed while its rows
            became visible.
    """
    allowed = memory or split_memory(free_memory() // 2)[0]
    with ExitStack() as stack:
        try:
            copy = _copy(folder, stack)
            engine = Embedded(copy, memory=allowed, threads=threads, reads=QUERY, durable=False)
        except TargetError as error:
            raise SourceError(f"cannot read {folder}: {error.message}", hint=error.hint) from None
        stack.callback(engine.close)
        yield FolderReader(engine, allowed)


def _copy(folder: Path, stack: ExitStack) -> Path:
    """Return a copy of the folder; its lock is held only while the links are made."""
    path = folder / LEDGER_NAME
    with ExitStack() as during:
        ledger = Ledger(path) if path.exists() else None
        if ledger is not None:
            during.callback(ledger.close)
        try:
            during.callback(take_folder(folder, QUERY).give_back)
        except FolderInUseError:
            if ledger is None:
                raise
            return stack.enter_context(snapshot(folder, ledger.published_attempts))
        if ledger is not None and ledger.half_published():
            resume = f"rowfall resume --to {shlex.quote(str(folder))}"
            raise SourceError(
                f"cannot read {folder}: a load into it was killed while its rows became visible, "
                "so some of a file may be there and the rest not",
                hint=f"Bring it to an end first: {resume}",
            )
        return stack.enter_context(snapshot(folder, lambda: 0))
