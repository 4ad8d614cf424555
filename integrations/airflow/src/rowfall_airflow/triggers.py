"""What waits for a load that was started by a worker: the trigger of a deferred task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from rowfall_airflow.process import END_SECONDS, LoadProcess

ENDED, UNSEEN, LATE = "ended", "unseen", "late"
"""What an event says: the load runs no more, its folder is not here, it takes too long."""


class RowfallTrigger(BaseTrigger):
    """Wait until a load has ended.

    Args:
        folder: of the load, which worker and triggerer both see.
        poll_seconds: between two looks.
        deadline: seconds since the epoch after which the task has run for too long; None for never.
    """

    def __init__(
        self, folder: str, poll_seconds: float = 2.0, deadline: float | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.folder, self.poll_seconds, self.deadline = folder, poll_seconds, deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger anew, in a triggerer that was restarted, too."""
        return "rowfall_airflow.triggers.RowfallTrigger", {
            "folder": self.folder, "poll_seconds": self.poll_seconds, "deadline": self.deadline,
        }  # fmt: skip

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at the lock of the load; in a thread, as the folder may be on a slow volume."""
        load = LoadProcess(self.folder)
        if not await asyncio.to_thread(load.is_here):
            yield TriggerEvent({"state": UNSEEN})
            return
        while await asyncio.to_thread(load.running):
            if self.deadline is not None and time.time() >= self.deadline:
                yield TriggerEvent({"state": LATE})
                return
            await asyncio.sleep(self.poll_seconds)
        yield TriggerEvent({"state": ENDED})

    async def on_kill(self) -> None:
        """End the load: somebody has cleared the task or set its state while it was deferred."""
        load = LoadProcess(self.folder)
        if await asyncio.to_thread(load.end, END_SECONDS):
            await asyncio.to_thread(load.remove)
