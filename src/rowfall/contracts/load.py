"""Define what each step of a load returns, and the figures of its attempts."""

from __future__ import annotations

from dataclasses import fields

from rowfall.contracts.receiver import Staged
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.model import HelperSeconds, Setting, Summed
from rowfall.core.results import AttemptRecord, Failure
from rowfall.core.steering import SteeringStep


@dataclass(frozen=True, slots=True)
class Settled:
    """Starting point of a run, after earlier ones were brought to an end.

    Attributes:
        table: that rows gather in on the first writer: the target's own, or the one that
            ``--replace`` fills in its place.
        known: ids of splits that need not be loaded again.
        replaced: a stopped run has brought ``--replace`` to its end, but for the report.
        seen: identity of the table that was asked what it holds; "" where there was none.
        absent: ``table`` was looked for just now, and there is none.
    """

    table: str
    known: frozenset[str]
    replaced: bool = False
    seen: str = ""
    absent: bool = False


@dataclass(frozen=True, slots=True)
class Amounts(Summed):
    """Rows, bytes and parts that attempts have read and made visible.

    Attributes:
        rows, parts, written: published rows and parts, their bytes on disk; ``rejected`` bad rows.
        stored, raw: bytes of the source as stored and after decompression.
    """

    rows: int = 0
    rejected: int = 0
    stored: int = 0
    raw: int = 0
    written: int = 0
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Tries(Summed):
    """Attempts that have begun.

    Attributes:
        retries: works that were put back to be tried again.
        query_ids: of the statements that have ended well.
        ended: what attempts have done, for those who ask afterwards.
    """

    attempts: int = 0
    retries: int = 0
    query_ids: tuple[str, ...] = ()
    ended: tuple[AttemptRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures of attempts; ``+`` adds them up.

    Attributes:
        loaded: splits of this run; ``elsewhere`` those that another process has loaded meanwhile.
        helper: see :class:`rowfall.core.model.Outcome`.
        loaded_ids: of splits, kept only where a checksum is wanted.
        checksum: None where it is not wanted.
        shares: of each published attempt, what each writer has got.
    """

    amounts: Amounts = Amounts()
    tries: Tries = Tries()
    loaded: int = 0
    elsewhere: int = 0
    publish_seconds: float = 0.0
    helper: HelperSeconds = HelperSeconds()
    failures: tuple[Failure, ...] = ()
    loaded_ids: tuple[tuple[str, ...], ...] = ()
    shares: tuple[tuple[Staged, ...], ...] = ()
    checksum: tuple[int, int] | None = None

    def __add__(self, other: Counts) -> Counts:
        names = [f.name for f in fields(Counts) if f.name != "checksum"]
        checksum = self.checksum or other.checksum
        if self.checksum and other.checksum:
            rows, total = (a + b for a, b in zip(self.checksum, other.checksum, strict=True))
            checksum = rows, total % (1 << 64)
        return Counts(
            **{name: getattr(self, name) + getattr(other, name) for name in names},
            checksum=checksum,
        )


@dataclass(frozen=True, slots=True)
class Done:
    """Result of the attempts of one run.

    Attributes:
        counts: one for each runner of attempts, see :func:`rowfall.run.attempts.run_attempts`.
        settings: as they were sent last.
        problem: what stopped everything; failed splits alone are in ``counts``.
        started: when the first attempt began, as of ``time.monotonic``.
        engine_cpu, cpu_here: CPU seconds that engine and this machine had used before.
        steering: what was changed between attempts.
    """

    counts: tuple[Counts, ...]
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]
    problem: RowfallError | None
    started: float
    engine_cpu: float
    cpu_here: float
    steering: tuple[SteeringStep, ...] = ()

    @property
    def total(self) -> Counts:
        """Return the counts of all runners together."""
        return sum(self.counts, Counts())


@dataclass(frozen=True, slots=True)
class Finished:
    """End of a load.

    Attributes:
        notes: for the report.
        merge_seconds: waited for merges, 0 where nobody asked for it.
        problem: what stopped the load, here or before; None where nothing did.
    """

    notes: tuple[str, ...] = ()
    merge_seconds: float = 0.0
    problem: RowfallError | None = None
