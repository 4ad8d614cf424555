"""Objects of a store that shows only complete ones, and ``null:``: written is published."""

from __future__ import annotations

from rowfall.publish.receiver import Counted, Delivered, Receiving
from rowfall.targets.base import Publish


class ObjectReceiver:
    """Publishes attempts that are visible when their INSERT has ended."""

    unstaged = False
    in_background = False

    def __init__(self, given: Receiving) -> None:
        self._given = given

    def destination(self, staging: str) -> str:
        return staging

    def settings(self, staging: str) -> dict[str, int]:
        if self._given.target.caps.publish is not Publish.AT_ONCE:
            return {}
        # An object that an earlier attempt of ours may have written is ours to overwrite.
        own = self._given.overwrite or self._given.ledger.attempts_into(staging) > 1
        return {"s3_truncate_on_insert": int(own)}

    def stage(self, staging: str, lane: int) -> None:
        """Do nothing: the INSERT makes the file or object."""

    def count(self, delivered: Delivered, *, checksum: bool) -> Counted:
        """Return the rows of the INSERT; there is nothing to compare them with."""
        return Counted(delivered.outcome.rows_written or delivered.outcome.rows_read)

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
        self._given.ledger.attempt_published(delivered.attempt, self._given.key)

    def discard(self, staging: str) -> None:
        """Do nothing: the next attempt writes the same object again."""
