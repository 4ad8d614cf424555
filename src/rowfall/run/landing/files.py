"""Attempts that are files, objects, or nothing at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rowfall.core.errors import TargetError
from rowfall.engines.ask import ask
from rowfall.publish.publisher import PUBLISH_LANE
from rowfall.run.landing.base import Done, Landed, Means
from rowfall.targets.base import Publish

if TYPE_CHECKING:
    from rowfall.run.executor import Executor


class Files:
    """Attempts that are files, objects, or nothing at all."""

    def __init__(self, executor: Executor, means: Means) -> None:
        self._executor, self._means = executor, means
        self._renames = means.target.caps.publish is Publish.RENAME

    def stage(self, place: str, lane: int) -> None:
        """Nothing: the INSERT makes the file."""

    def bound(self, attempt: str) -> bool:
        return False

    def finish(self, done: Done) -> Landed:
        means = self._means
        final = means.target.staging_name("", done.work.number, self._executor.plan.encoding)
        if self._renames and self._writes_failed():
            raise TargetError(
                f"cannot write {final}: the disk is full, or took only a part of it",
                hint="Free some space and run the same command again.",
            )
        rows = done.outcome.rows_written or done.outcome.rows_read
        means.ledger.attempt_loaded(done.attempt, rows, ())
        written = _rename(Path(done.staging), Path(final)) if self._renames else 0
        means.ledger.attempt_published(done.attempt, means.into)
        return Landed(rows, 0, written)

    def _writes_failed(self) -> bool:
        """Whether a write to a file has failed since this engine started: its INSERT INTO file()
        ends well even on a full disk."""
        event = "event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0"
        ((failed,),) = ask(
            self._means.engine,
            f"SELECT count() FROM system.events WHERE {event}",
            lane=PUBLISH_LANE,
        )
        return bool(failed)

    def discard(self, place: str) -> None:
        if self._renames and place:
            Path(place).unlink(missing_ok=True)


def _rename(place: Path, final: Path) -> int:
    """Make a finished file visible under its name, durably. Returns its bytes."""
    if not place.exists():
        return 0  # no rows, no file
    with place.open("rb+") as file:
        os.fsync(file.fileno())
    size = place.stat().st_size
    place.replace(final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size
