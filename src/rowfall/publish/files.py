"""Files of an export: each is written under another name and renamed when it is complete."""

from __future__ import annotations

from pathlib import Path

from rowfall.core import disk
from rowfall.core.errors import TargetError
from rowfall.publish.attach import PUBLISH_LANE
from rowfall.publish.objects import ObjectReceiver
from rowfall.publish.receiver import Counted, Delivered


class FileReceiver(ObjectReceiver):
    """Publishes attempts that are local files."""

    def settings(self, staging: str) -> dict[str, int]:
        return {}

    def count(self, delivered: Delivered, *, checksum: bool) -> Counted:
        """Count the rows of the INSERT, and make sure that all of them were written.

        Raises:
            TargetError: a write has failed.
        """
        if self._writes_failed():
            raise TargetError(
                f"cannot write {self._final(delivered)}: the disk is full, or took only a part",
                hint="Free some space and run the same command again.",
            )
        return super().count(delivered, checksum=checksum)

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
