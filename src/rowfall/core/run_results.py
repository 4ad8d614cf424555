"""Values of ``rowfall run``: what became of named loads and of their hooks."""

from __future__ import annotations

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit
from rowfall.core.results import Report
from rowfall.core.tables import TablesReport

LoadReport = Report | TablesReport
"""What a named load reports: of one table, or of the many that its ``tables`` choose."""

DONE, FAILED, PARTIAL, SKIPPED, INTERRUPTED = (
    "done", "failed", "partial", "skipped", "interrupted",
)  # fmt: skip
"""Outcomes of a named load; ``partial`` and ``failed`` as of its report, or before it had one."""


@dataclass(frozen=True, slots=True)
class HookRun:
    """One hook that has run.

    Attributes:
        when: ``before``, ``after`` or ``on_error``. ``what``: its SQL or command, shortened.
        error: why it failed; "" where it has not.
        seconds: that it took.
    """

    when: str
    what: str
    error: str
    seconds: float


@dataclass(frozen=True, slots=True)
class NamedRun:
    """One load of ``rowfall run``.

    Attributes:
        outcome: one of the above.
        exit: the code that it alone would end with; of a skipped one that of what it needs.
        report: None where the load itself has not begun.
        error, hint: why it is not done; "" where it is, or where the report says so.
        rows: that this run has loaded. ``seconds``: with its hooks.
    """

    name: str
    outcome: str
    exit: int
    report: LoadReport | None
    error: str
    hint: str
    hooks: tuple[HookRun, ...]
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """All loads of one ``rowfall run``, in the order in which they were to run.

    Attributes:
        at_once: loads that ran at the same time at most. ``memory``: bytes for all of them, 0 where
            each was left to its own.
        seconds: from start to end.
    """

    loads: tuple[NamedRun, ...]
    at_once: int
    memory: int
    seconds: float

    @property
    def exit(self) -> int:
        """Return the exit code: that of the worst load, which is the highest number."""
        return max((one.exit for one in self.loads), default=int(Exit.DONE))

    @property
    def outcome(self) -> str:
        """Return ``done``, ``interrupted`` or ``failed``."""
        if self.exit == Exit.INTERRUPTED:
            return INTERRUPTED
        return DONE if self.exit == Exit.DONE else FAILED
