"""What every engine can do: it is the only thing that runs statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rowfall.core.model import Facts, Outcome, Statement

Tick = Callable[[Mapping[str, int]], None]
"""Called a few times a second with ``read_rows``, ``read_bytes`` and ``written_rows`` so far, and
with ``source_bytes`` where they are known."""

# Often enough for a steady line of progress. A look costs a server 3 ms of CPU, most of it for a
# statement of its own.
LOOK_SECONDS = 0.5
SOURCE_BYTES = "source_bytes"
# Which counters hold bytes of a source as stored, by how the engine reads.
READ_EVENTS = (
    "ReadBufferFromFileDescriptorReadBytes",
    "ReadBufferFromS3Bytes",
    "ReadWriteBufferFromHTTPBytes",
)


class Engine(Protocol):
    """One place where statements run.

    Attributes:
        facts: version, cores, memory and known settings of the machine it runs on.
        pause: seconds between two looks at what runs.
    """

    pause: float

    @property
    def facts(self) -> Facts: ...

    def run(self, statement: Statement, *, lane: int = 0, on_tick: Tick | None = None) -> Outcome:
        """Run one statement and wait for it.

        Statements on different lanes run at the same time; one lane runs one at a time.

        Raises:
            EngineError: with the engine's code; ``transient`` says whether again may help.
        """

    def kill(self, query_id: str) -> None:
        """End a running statement; returns when it has ended or was not there."""

    def resident(self) -> tuple[int, int]:
        """Bytes of memory the engine's process holds now, and its highest so far."""

    def finished(self, query_id: str) -> bool | None:
        """Whether a past statement ended well, as the engine's own log has it; None: not known."""

    def revive(self) -> None:
        """After an error without a code: be usable again (a new process, a server that is back).

        Raises:
            RowfallError: it cannot be.
        """

    def abandon(self) -> None:
        """Let go of everything that runs, at once and without asking; what it did may stay."""

    def cpu_seconds(self) -> float:
        """User and system seconds used so far, as far as they can be seen."""

    def close(self) -> None:
        """Release everything; safe to call twice."""
