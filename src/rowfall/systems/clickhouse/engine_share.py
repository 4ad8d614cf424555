"""A part of an embedded engine, for loads of one process that run at the same time."""

from __future__ import annotations

from typing import Any

from rowfall.core.model import Outcome, Statement
from rowfall.engines.base import Body, Tick
from rowfall.systems.clickhouse.embedded import CONTROL_LANE, Embedded
from rowfall.systems.clickhouse.prestart import PrestartedChild

# A load uses lanes up to 100 and as many as its attempts; those of two loads must not be the same,
# or they would wait for each other.
_LANES = 1_000
# What each part has for itself: the bytes that its load may take, its lanes, and who hears of its
# statements.
_OWN = frozenset({"_whole", "_memory", "_first_lane", "_log"})


class EngineShare(Embedded):
    """An engine that others use as well: its process, its folder and what it knows are theirs, too.

    Args:
        whole: the engine; whoever has opened it closes it.
        memory: bytes that this part may take. ``number``: no other part has it at the same time.
    """

    def __init__(self, whole: Embedded, memory: int, number: int) -> None:
        self._whole, self._memory = whole, memory
        self._first_lane = _LANES * number

    def __getattr__(self, name: str) -> Any:
        """Return what is the whole engine's."""
        return getattr(self._whole, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set what is the whole engine's there: it is one process, however many use it."""
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._whole, name, value)

    def run(
        self,
        statement: Statement,
        *,
        lane: int = 0,
        on_tick: Tick | None = None,
        body: Body | None = None,
        encoding: str = "",
        out_fd: int | None = None,
    ) -> Outcome:
        """See :class:`rowfall.engines.base.Engine`; in a lane of its own."""
        own = lane if lane == CONTROL_LANE else self._first_lane + lane
        return super().run(
            statement, lane=own, on_tick=on_tick, body=body, encoding=encoding, out_fd=out_fd
        )

    def close(self) -> None:
        """Do nothing: others use it."""

    def _start(self) -> PrestartedChild:
        return self._whole._start()
