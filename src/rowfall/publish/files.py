"""Files and objects of an export, and ``null:``: no tables, so no staging tables.

A file is written under another name and renamed when it is complete. A store shows only complete
objects: what is written is published, and removed again where its attempt fails afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from rowfall.contracts.destination import ReceiverInputs
from rowfall.contracts.receiver import Counted, CountError, StagedAttempt
from rowfall.core import disk
from rowfall.core.errors import TargetError
from rowfall.core.patterns import regex
from rowfall.ledger import Ledger
from rowfall.publish.attach import PUBLISH_LANE
from rowfall.publish.export_record import ExportRecord
from rowfall.publish.protocol import Action, Evidence, Recorded, after_crash
from rowfall.publish.receiver import BaseReceiver

_OF_TABLES = regex(r"(?:into a new table )?with (?:--widen|--table NAME) (?=--)")


def hint_of_file(text: str) -> str:
    """Return a hint without what is about tables: a file is written anew, with whatever types."""
    return _OF_TABLES.sub("with ", text)


class NothingReceiver(BaseReceiver):
    """Counts rows of which nothing is kept."""

    def hint(self, text: str) -> str:
        return hint_of_file(text)

    def count(self, delivered: StagedAttempt, *, checksum: bool) -> Counted:
        """Return the rows of the INSERT; there is nothing to compare them with."""
        outcome = delivered.outcome
        if self._given.plan.schema.filters or delivered.skips_bad_rows:
            return Counted(outcome.rows_written, checked=True)
        return Counted(outcome.rows_written or outcome.rows_read, checked=True)

    def publish(self, delivered: StagedAttempt, counted: Counted) -> int:
        """Do nothing: nothing becomes visible."""
        return 0

    def discard(self, staging: str) -> None:
        """Do nothing: nothing was kept."""


class ObjectReceiver(NothingReceiver):
    """Publishes attempts that are visible when their INSERT has ended.

    Args:
        export: the record of the files; None where none are to be written.
    """

    output_files = True

    def __init__(self, given: ReceiverInputs, export: ExportRecord | None) -> None:
        super().__init__(given)
        self._export = export
        self._open: set[str] = set()  # what attempts write that have not ended

    def settings(self, staging: str) -> Mapping[str, int]:
        # Whatever was there when the export began is its own to overwrite, and so is what an
        # earlier attempt has written; what has come since is somebody else's.
        load = self._given.load
        known = self._export is not None and self._export.there(staging)
        own = load.overwrites or known or load.ledger.attempts_into(staging) > 1
        return {"s3_truncate_on_insert": int(own)}

    def stage(self, staging: str, lane: int) -> None:
        """Note what the INSERT is about to make."""
        self._open.add(staging)

    def count(self, delivered: StagedAttempt, *, checksum: bool) -> Counted:
        """Compare the rows that the INSERT has written with those that it has read.

        Raises:
            CountError: they differ. TargetError: a write to a local file has failed.
        """
        if "://" not in delivered.staging and self._writes_failed():
            raise TargetError(
                f"cannot write {self._final(delivered)}: the disk is full, or took only a part",
                hint="Free some space and run the same command again.",
            )
        outcome, ranges = delivered.outcome, delivered.ranges
        written, expected = outcome.rows_written, outcome.rows_read if ranges is None else ranges
        if ranges is None and (delivered.skips_bad_rows or self._given.plan.schema.filters):
            expected = written  # what was left out was read, too
        if written != expected:
            raise CountError(
                f"{expected:,} rows were read and {written:,} were written", transient=True
            )
        return Counted(written, checked=True)

    def record(self, delivered: StagedAttempt) -> None:
        """Record it in the manifest first: the ledger of an export decides nothing."""
        if self._export is not None:
            rows = delivered.outcome.rows_written
            self._export.wrote(delivered.number, delivered.splits, rows)
        self._open.discard(delivered.staging)
        super().record(delivered)

    def discard(self, staging: str) -> None:
        """Remove the object that a failed attempt may have made visible."""
        if staging in self._open and self._export is not None:
            self._export.take_back(staging)
        self._open.discard(staging)

    def _final(self, delivered: StagedAttempt) -> Path:
        target = self._given.writer.target
        return Path(target.staging_name("", delivered.number, self._given.plan.encoding))

    def _writes_failed(self) -> bool:
        """Tell whether a write to a file has failed since this engine started.

        Its INSERT INTO file() ends well even on a full disk.
        """
        event = "event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0"
        ((failed,),) = self._given.writer.engine.ask(
            f"SELECT count() FROM system.events WHERE {event}",
            lane=PUBLISH_LANE,
        )
        return bool(failed)


class FileReceiver(ObjectReceiver):
    """Publishes attempts that are local files."""

    def settings(self, staging: str) -> Mapping[str, int]:
        return {}

    def sync(self, delivered: StagedAttempt) -> None:
        """Flush the file, while it has its other name, and the names in its folder."""
        if self._given.load.session.options.no_sync:
            return
        staged = Path(delivered.staging)
        try:
            if staged.exists():
                disk.sync_file(staged)
            disk.sync_folder(staged.parent)
        except OSError as error:
            raise TargetError(
                f"{self._final(delivered)} cannot be flushed to disk: {error.strerror}",
                hint="Check the disk, then run the same command again.",
            ) from None

    def publish(self, delivered: StagedAttempt, counted: Counted) -> int:
        """Rename a finished file. Returns its bytes."""
        staged = Path(delivered.staging)
        if not staged.exists():
            return 0  # no rows, no file
        size = staged.stat().st_size
        staged.replace(self._final(delivered))
        return size

    def discard(self, staging: str) -> None:
        if staging:
            Path(staging).unlink(missing_ok=True)


def end_open_files(ledger: Ledger, running: Collection[str] = ()) -> None:
    """End the attempts of dead processes: another one writes their files as a whole.

    Args:
        running: other loads of this process.
    """
    for attempt in ledger.open_attempts():
        if attempt.load_id in running:
            continue
        recorded = Recorded.COMMITTED if attempt.committed else Recorded.STARTED
        if after_crash(recorded, Evidence.OVERWRITES) is Action.DISCARD:
            ledger.attempt_ended(attempt.id, "lost", "rowfall or its engine was stopped")
