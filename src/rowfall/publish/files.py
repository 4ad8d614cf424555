"""Files and objects of an export, and ``null:``: no tables, so no staging tables.

A file is written under another name and renamed when it is complete. A store shows only complete
objects: what is written is published, and removed again where its attempt fails afterwards.
"""

from __future__ import annotations

from pathlib import Path

from rowfall.core import disk
from rowfall.core.errors import TargetError
from rowfall.publish.attach import PUBLISH_LANE
from rowfall.publish.receiver import Counted, CountError, Delivered, Receiving
from rowfall.targets.base import Publish


class ObjectReceiver:
    """Publishes attempts that are visible when their INSERT has ended."""

    unstaged = False
    in_background = False

    def __init__(self, given: Receiving) -> None:
        self._given = given
        self._open: set[str] = set()  # what attempts write that have not ended

    def destination(self, staging: str) -> str:
        return staging

    def settings(self, staging: str) -> dict[str, int]:
        if self._given.target.caps.publish is not Publish.AT_ONCE:
            return {}
        # Whatever was there when the export began is its own to overwrite, and so is what an
        # earlier attempt has written; what has come since is somebody else's.
        record = self._given.export
        known = record is not None and record.there(staging)
        own = self._given.overwrite or known or self._given.ledger.attempts_into(staging) > 1
        return {"s3_truncate_on_insert": int(own)}

    def stage(self, staging: str, lane: int) -> None:
        """Note what the INSERT is about to make."""
        self._open.add(staging)

    def count(self, delivered: Delivered, *, checksum: bool) -> Counted:
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

    def wait_for_room(self, counted: Counted) -> None:
        """Do nothing: files have no merges."""

    def sync(self, delivered: Delivered) -> None:
        """Do nothing: a store that has taken an object keeps it."""

    def commit(self, delivered: Delivered, counted: Counted) -> bool:
        self._given.ledger.attempt_loaded(delivered.attempt, counted.rows, ())
        return True

    def publish(self, delivered: Delivered, counted: Counted) -> int:
        """Do nothing: it is visible."""
        return 0

    def record(self, delivered: Delivered) -> None:
        """Record it in the manifest first: the ledger of an export decides nothing."""
        if self._given.export is not None:
            rows = delivered.outcome.rows_written
            self._given.export.wrote(delivered.number, delivered.splits, rows)
        self._open.discard(delivered.staging)
        self._given.ledger.attempt_published(delivered.attempt, self._given.key)

    def discard(self, staging: str) -> None:
        """Remove the object that a failed attempt may have made visible."""
        if staging in self._open and self._given.export is not None:
            self._given.export.take_back(staging)
        self._open.discard(staging)

    def _final(self, delivered: Delivered) -> Path:
        given = self._given
        return Path(given.target.staging_name("", delivered.number, given.plan.encoding))

    def _writes_failed(self) -> bool:
        """Tell whether a write to a file has failed since this engine started.

        Its INSERT INTO file() ends well even on a full disk.
        """
        event = "event = 'WriteBufferFromFileDescriptorWriteFailed' AND value > 0"
        ((failed,),) = self._given.engine.ask(
            f"SELECT count() FROM system.events WHERE {event}",
            lane=PUBLISH_LANE,
        )
        return bool(failed)


class FileReceiver(ObjectReceiver):
    """Publishes attempts that are local files."""

    def settings(self, staging: str) -> dict[str, int]:
        return {}

    def sync(self, delivered: Delivered) -> None:
        """Flush the file, while it has its other name, and the names in its folder."""
        if not self._given.durable:
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

    def publish(self, delivered: Delivered, counted: Counted) -> int:
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


class NullReceiver(ObjectReceiver):
    """Counts rows of which nothing is kept."""

    def settings(self, staging: str) -> dict[str, int]:
        return {}

    def count(self, delivered: Delivered, *, checksum: bool) -> Counted:
        """Return the rows of the INSERT; there is nothing to compare them with."""
        outcome = delivered.outcome
        if self._given.plan.schema.filters or delivered.skips_bad_rows:
            return Counted(outcome.rows_written, checked=True)
        return Counted(outcome.rows_written or outcome.rows_read, checked=True)
