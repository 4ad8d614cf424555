"""What is done about an attempt that failed: again, otherwise, in halves, or without the guilty."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rowfall.core import retry
from rowfall.core.errors import DataError, EngineError, RowfallError, SourceError, TargetError
from rowfall.core.listing import Split
from rowfall.deliver.decode import DeclinedError
from rowfall.engines.codes import DATA_CODES, GONE, MEMORY_LIMIT, QUERY_WAS_CANCELLED
from rowfall.ledger.leases import Move, Ownership
from rowfall.plan.settings import lower
from rowfall.publish.publisher import PUBLISH_LANE, Publisher
from rowfall.run.work_queue import Work
from rowfall.schema import strict_reading
from rowfall.schema.bad_rows import TooManyBadRowsError

if TYPE_CHECKING:
    from rowfall.run.executor import Executor
    from rowfall.run.landing.base import Means

# The engine quotes whole buffers of data in some messages; a page is enough for anybody.
MOST_TEXT = 2_000
TAKEN_CODES = GONE | {QUERY_WAS_CANCELLED}


class ChangedError(SourceError):
    """Objects that are not what was listed, each with what happened to it."""

    def __init__(self, changed: Sequence[tuple[Split, str]]) -> None:
        super().__init__("the source changed during the load")
        self.changed = changed


class CountError(EngineError):
    """Not as many rows were stored as were read."""


class Recovery:
    """Decides for one executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._means = executor.means
        self._deaths = 0
        self._declined = 0

    def publish(self, attempt: str, moves: Sequence[Move], means: Means) -> None:
        """Attach a committed attempt, whatever it takes: engine and connection may be lost
        meanwhile, and what the target has already is found out before the next try.

        Args:
            means: with the claims among which the attempt has committed, and the engine that
                has staged the parts.

        Raises:
            RowfallError: it cannot be done now; the next run goes on.
        """
        publisher = Publisher(means.engine, means.ledger, PUBLISH_LANE)
        for tries in range(retry.MOST_TRANSIENT + 1):
            try:
                if tries:
                    others = partial(means.claims.added, attempt, node=means.place)
                    moves = publisher.settle(attempt, moves, others)
                publisher.publish(attempt, moves, means.check)
                self._deaths = 0
                return
            except RowfallError as error:
                if error.code in GONE and _rescued(attempt, means):
                    return
                if not error.transient or tries == retry.MOST_TRANSIENT or self._executor.stopping:
                    raise
                self._executor.note("warning", f"{_line(error)}; going on")
                time.sleep(retry.pause(tries))
                self._revive(error, means)

    def failed(self, work: Work, attempt: str, place: str, error: RowfallError) -> None:
        """Clear away a failed attempt and decide what of it is tried again, and how."""
        executor, means = self._executor, self._means
        if executor.stopping:
            return  # the interrupt clears away; the engine may be gone already
        self._revive(error, means)
        if error.code in TAKEN_CODES and means.claims.ownership(attempt) is Ownership.TAKEN:
            # Whoever took this process for dead has ended its INSERT and dropped what it staged.
            executor.lost(work, attempt, place)
            return
        if isinstance(error, SourceError) or error.code in DATA_CODES:
            # Half of a file that is being written looks like bad data.
            changed = means.source.changed(work.splits)
            error = ChangedError(changed) if changed else error
        executor.discard(place)
        means.claims.release(attempt)
        executor.ledger.attempt_ended(attempt, "failed", shown(error.message))
        if means.twins is not None and means.twins.direct:
            executor.without(work, [(s, _half_visible(s, error)) for s in work.splits])
        elif not means.source.replayable:
            # What was read of stdin is gone: another try would load the rest as if it were all.
            executor.without(work, [(s, error) for s in work.splits])
        elif isinstance(error, DeclinedError):
            self._read_by_engine(work, error)
        elif isinstance(error, ChangedError):
            executor.without(work, [(s, _changed_error(s, what)) for s, what in error.changed])
        elif error.code == MEMORY_LIMIT:
            self._lower(work, error)
        elif error.code in DATA_CODES or isinstance(error, DataError):
            self._bad_data(work, error)
        elif error.transient and work.tries < retry.MOST_TRANSIENT:
            work.tries += 1
            executor.note("warning", f"{_line(error)}; trying again")
            time.sleep(retry.pause(work.tries))
            executor.again(work)
        elif isinstance(error, SourceError) and not error.transient:
            self._bisect(work, error)
        elif isinstance(error, SourceError):
            executor.without(work, [(s, error) for s in work.splits])
        else:
            raise error

    def _revive(self, error: RowfallError, means: Means) -> None:
        """Get back an engine whose process or connection was lost, a few times; then the error is
        final."""
        lost = isinstance(error, EngineError | TargetError) and not isinstance(error, CountError)
        if error.code or not error.transient or not lost:
            return
        self._deaths += 1
        if self._deaths > retry.MOST_DEATHS:
            raise type(error)(error.message, hint=error.hint)
        self._executor.note("warning", f"{_line(error)}; starting again")
        means.engine.revive()

    def _read_by_engine(self, work: Work, error: DeclinedError) -> None:
        """What the decoder declined is read by the engine, which has the last word."""
        self._declined += 1
        executor = self._executor
        executor.note("info", f"{_line(error)}: read by the engine instead")
        rest = [s for s in work.splits if s != error.split]
        if self._declined > retry.MOST_DECLINED or error.split is None or not rest:
            # The next ones would be declined, too.
            executor.decodes = executor.decodes and self._declined <= retry.MOST_DECLINED
            executor.again(replace(work, engine_reads=True))
            return
        own = replace(work, splits=[error.split], engine_reads=True)
        executor.again(replace(work, splits=rest), own)

    def _lower(self, work: Work, error: RowfallError) -> None:
        if work.lowered >= retry.MOST_LOWERED:
            raise error
        executor, means = self._executor, self._means
        executor.note("warning", "out of memory: blocks are made smaller, trying once more")
        executor.tally.settings = work.settings = lower(work.settings or means.settings)
        work.lowered += 1
        executor.again(work)

    def _bad_data(self, work: Work, error: RowfallError) -> None:
        """Try another way of reading, then around the bad rows, then without the bad objects."""
        executor, bad_rows = self._executor, self._means.bad_rows
        if changed := self._means.source.changed(work.splits):
            # A cut or overwritten object explains any complaint about its last row.
            executor.without(work, [(s, _changed_error(s, what)) for s, what in changed])
            return
        schema = work.schema or executor.schema
        other = None if work.tolerant else bad_rows.other_reading(work.splits, schema)
        if other is not None:
            work.schema = other
            if strict_reading.reads_numbers(schema):
                # A zero in one object: the others will hold some, too. Line breaks are different:
                # whether all quotes are closed is asked for each group.
                executor.schema = other
            executor.again(work)
            return
        if bad_rows.may_be_left_out and not work.tolerant:
            work.tolerant = True
            executor.again(work)
            return
        guilty: Sequence[tuple[Split, RowfallError]] = bad_rows.explain(work.splits, error)
        if isinstance(error, TooManyBadRowsError):
            # The count is the news; where the first one is stands in it, too.
            guilty = [(split, error) for split, _ in guilty]
        if guilty:
            executor.without(work, guilty)
        else:
            self._bisect(work, error)

    def _bisect(self, work: Work, error: RowfallError) -> None:
        """Nobody can say which object it was: halves of the group find out."""
        if len(work.splits) == 1:
            self._executor.without(work, [(work.splits[0], error)])
            return
        half = len(work.splits) // 2
        first, second = work.splits[:half], work.splits[half:]
        self._executor.again(replace(work, splits=first), replace(work, splits=second))


def _rescued(attempt: str, means: Means) -> bool:
    """Whether the attempt is published although its staging tables have got other names: somebody
    took this process for dead. He may have died since, so it is not waited for."""
    if means.claims.ownership(attempt) is Ownership.TAKEN:
        means.rescue([attempt])
    return means.claims.ownership(attempt) is Ownership.LANDED


def _line(error: RowfallError) -> str:
    return error.message.splitlines()[0][:200]


def _half_visible(split: Split, error: RowfallError) -> RowfallError:
    return TargetError(
        f"{split.name}: {_line(error)}; some of its rows may be in the table",
        hint="A table without parts cannot take half a load back: truncate it and load again.",
    )


def _changed_error(split: Split, what: str) -> SourceError:
    return SourceError(
        f"{split.name}: {what}",
        hint="Nothing of it is visible. Run the same command again when it is whole and at rest.",
    )


def shown(text: str) -> str:
    """An error's text as it is recorded: of bounded length, bytes that are no text escaped."""
    return text[:MOST_TEXT].encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
