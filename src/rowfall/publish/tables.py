"""Tables of the MergeTree family: attempts are staged in tables like the target, and attached.

An attempt is staged on the one writer that inserts it. With a sharding key, or replicas that do not
copy from one another, it is staged on all writers together: one commit covers all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import ReceiverInputs
from rowfall.contracts.receiver import Counted, CountError, Staged, StagedAttempt, first_line
from rowfall.core import retry, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.model import PULL, Ask, StagingPair, Statement
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import on_all, started_within
from rowfall.ledger import Ledger
from rowfall.ledger.leases import Leases, Ownership, StagedPartition
from rowfall.plan import table_definition
from rowfall.publish.altered import AlteredTableError, alter_alike
from rowfall.publish.attach import MOST_IDS, PUBLISH_LANE, Publisher, StagingLostError
from rowfall.publish.fence import fence
from rowfall.publish.merges import Merges
from rowfall.publish.receiver import BaseReceiver
from rowfall.publish.recover import Recovery
from rowfall.publish.target_tables import OwnTable, table_dropped
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.codes import GONE
from rowfall.systems.clickhouse.staging import TableFacts
from rowfall.systems.clickhouse.views import Views, fed_name
from rowfall.targets.base import STAGING_PREFIX


@dataclass(frozen=True, slots=True)
class StagingTables:
    """Staging tables of one target table and of the views that read from it.

    Attributes:
        facts: of the target table.
        views: the materialized views that an INSERT into it would fire.
        shadow: name of the table that gathers all attempts until the end of the load
            (``--atomic``, ``--replace``), "" when each attempt becomes visible by itself.
        straight: rows go into the table without staging (``--direct``).
        fed: no INSERT brings rows into staging, so views read from a table that keeps nothing,
            into which staged rows are inserted once more; see :func:`views.fed_name`.
    """

    facts: TableFacts
    views: Views
    shadow: str = ""
    straight: bool = False
    fed: bool = False

    @property
    def direct(self) -> bool:
        """Tell whether rows go straight into the table, wished or for want of parts to attach."""
        return self.straight or self.facts.publish_kind == "direct"

    @property
    def definitions(self) -> tuple[str, ...]:
        """Return the definitions of the target and of the tables behind its views."""
        return tuple(table.create_query for table in (self.facts, *self.views.tables))

    def now(self, ask: Ask) -> StagingTables:
        """Return them as their tables are defined now: somebody may have altered these.

        Raises:
            TargetError: the shadow is gone.
        """
        tables = (self.facts, *self.views.tables)
        shadow = (self.facts.database, self.shadow)
        names = [(t.database, t.table) for t in tables]
        found = staging.lookup(ask, [*names, shadow] if self.shadow else names)
        if self.shadow and shadow not in found:
            raise TargetError(
                f"the rows that this load had gathered in {'.'.join(shadow)} are gone: another "
                "rowfall has loaded some of these files meanwhile, or somebody has dropped it",
                hint="Run the same command again: it loads what is missing.",
            )
        own, *behind = (found.get(name, t) for name, t in zip(names, tables, strict=True))
        if names[0] not in found:
            own = replace(own, id=replace(own.id, uuid=""))  # it is gone
        return replace(self, facts=own, views=replace(self.views, tables=tuple(behind)))

    def read(self, rows: Mapping[str, int], prefix: str) -> int | None:
        """Return the rows that the engine says it has read when an attempt is complete.

        Each view reads again what comes into its source, so 100 rows into a table with two views
        count as 300.

        Args:
            rows: in each staging table.

        Returns:
            None where a table that views read from keeps no rows to count.
        """
        total = rows[prefix]
        names = self.views.staging_names(prefix)
        for view in self.views.views:
            source = prefix if view.source < 0 else names[view.source]
            if source not in rows:
                return None
            total += rows[source]
        return total

    def projected(self, rows: Mapping[str, int], prefix: str) -> int:
        """Return the rows that servers count as read once more, for the tables' projections.

        24.10 does: 100 rows into a table with two projections are 300. Newer versions do not.

        Args:
            rows: in each staging table.
        """
        staged = self._staged(prefix)
        return sum(rows.get(name, 0) * facts.projections for name, facts in staged)

    @property
    def settings(self) -> dict[str, int]:
        """Settings that every INSERT of an attempt needs, so that its rows can be counted."""
        found = dict(self.views.settings)
        if self.facts.collapses or self.views.collapses:
            # The family unites rows of equal keys already in the block that is written.
            found["optimize_on_insert"] = 0
        return found

    def fixed(self, prefix: str) -> tuple[str, ...]:
        """Return the staging tables of an attempt in which a merge would unite or expire rows."""
        return tuple(
            name for name, facts in self._staged(prefix)
            if facts.collapses or "TTL" in facts.create_query
        )  # fmt: skip

    @property
    def databases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.facts.database, *(t.database for t in self.views.tables))))

    def stage(self, prefix: str) -> tuple[SqlText, ...]:
        """Return the statements that make one attempt's staging tables; the first is ``prefix``."""
        if self.direct:
            return ()
        return (
            *staging.clone(self.facts, prefix),
            *((self._fed(prefix),) if self.fed else ()),
            *self.views.create(prefix, prefix, fed=self.fed),
        )

    def _fed(self, prefix: str) -> SqlText:
        """Return the statement that makes the table from which views are fed.

        Raises:
            TargetError: somebody has altered the table since the plan was made.
        """
        definition = table_definition.parse(self.facts.create_query)
        if definition is None:
            raise TargetError(
                f"the definition of {self.facts.qualified} has changed and is not understood",
                hint="Run the same command again: it makes another plan.",
            )
        name = sql.qualified(self.facts.database, fed_name(prefix))
        columns = table_definition.without_expressions(definition)
        return SqlText.of(f"CREATE TABLE {name} ({columns}) ENGINE = Null")

    def pairs(self, prefix: str) -> tuple[StagingPair, ...]:
        """Return where the parts of an attempt go: the target's own pair first, then of views."""
        behind = self.views.pairs(prefix)
        table = self.facts.table
        if self.shadow:
            table = self.shadow
            shadows = self.views.pairs(self.shadow)
            behind = tuple(
                StagingPair(b.database, s.staging, b.staging)
                for b, s in zip(behind, shadows, strict=True)
            )
        return (*self._own(table, prefix), *behind)

    @property
    def keeps(self) -> bool:
        """Tell whether the target's own rows can be counted: a Null table keeps none."""
        return not self.straight and self.facts.publish_kind == "attach"

    def gathered(self) -> tuple[StagingPair, ...]:
        """Return where the parts of the shadow tables go at the end of an atomic load."""
        return (*self._own(self.facts.table, self.shadow), *self.views.pairs(self.shadow))

    def _staged(self, prefix: str) -> list[tuple[str, TableFacts]]:
        """Return the staging tables of an attempt, and the tables that these are made like."""
        tables = {(t.database, t.table): t for t in (self.facts, *self.views.tables)}
        pairs = (*self._own(self.facts.table, prefix), *self.views.pairs(prefix))
        return [(pair.staging, tables[pair.database, pair.table]) for pair in pairs]

    def _own(self, table: str, staged: str) -> tuple[StagingPair, ...]:
        if not self.keeps:
            return ()  # only the views of a Null table get rows that stay
        return (StagingPair(self.facts.database, table, staged),)


@dataclass(frozen=True, slots=True)
class TableWriter:
    """One writer, and how attempts are staged and published there.

    Attributes:
        own: the target table as the load began with it.
        merges: waits for merges of its target, None where nobody else is slowed down.
        settings: for CREATE TABLE: what the target has, its staging tables may have.
    """

    writer: Writer
    staging: StagingTables
    own: OwnTable
    merges: Merges | None
    settings: Mapping[str, int]

    def wait_for_room(self, moves: Sequence[StagedPartition], parts: int) -> None:
        """Wait until the target can take more parts; see :meth:`Receiver.wait_for_room`."""
        if self.merges is not None:
            self.merges.wait_for_room(moves, parts)


_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


# --- attempts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommittedParts:
    """Attaches what attempts have committed, whatever it takes.

    Attributes:
        leases: among which the attempts have committed; ``recovery`` ends those of dead processes.
    """

    given: ReceiverInputs
    leases: Leases
    recovery: Recovery | None

    def attach(
        self, attempt: str, moves: Sequence[StagedPartition], at: TableWriter
    ) -> Sequence[StagedPartition]:
        """Attach an attempt's parts on one writer.

        Engine and connection may be lost meanwhile. Before the next try the statement that was sent
        is made harmless, because it may still arrive, and what the target has is found out.

        Returns:
            The moves with the present names of their staging tables; () where others went on.

        Raises:
            RowfallError: it cannot be done now; the next run goes on.
        """
        given, engine = self.given, at.writer.engine
        publisher = Publisher(engine, given.load.ledger, PUBLISH_LANE)
        tries = 0
        while True:
            try:
                if tries:
                    if engine.shared:  # the embedded engine forgets a statement when it dies
                        moves = fence(
                            engine, attempt, moves, partial(self._loaded, attempt), PUBLISH_LANE
                        )
                    publisher.check_own(moves, at.own)
                    moves = publisher.settle(attempt, moves, self.leases, at.writer.node)
                publisher.publish(attempt, moves, at.own, self.leases, at.writer.node)
                given.revivals.worked()
                return moves
            except RowfallError as error:
                if error.code in GONE and self._published_by_others(attempt):
                    return ()
                last = tries == retry.MOST_TRANSIENT or given.stopped.is_set()
                if not error.transient or last:
                    raise
                given.notes.add("warning", f"{first_line(error)}; going on")
                time.sleep(retry.pause(tries))
                given.revivals.revive(error, engine)
            tries += 1

    def check(self, attempt: str, moves: Sequence[StagedPartition], at: TableWriter) -> None:
        """Check, after a sync, that what was attached is still there.

        Raises:
            EngineError: it is not; the next run goes on.
        """
        if at.writer.engine.shared:  # without power this process would have ended, too
            publisher = Publisher(at.writer.engine, self.given.load.ledger, PUBLISH_LANE)
            publisher.check_attached(attempt, moves, self.leases, at.writer.node)

    def _published_by_others(self, attempt: str) -> bool:
        """Tell whether the attempt is visible although its staging tables have got other names.

        Then another process has taken over its lease. That one may have died since, so this one
        does not wait for it.
        """
        if self.leases.ownership(attempt) is Ownership.TAKEN and self.recovery is not None:
            self.recovery.end([attempt])
        return self._loaded(attempt)

    def _loaded(self, attempt: str) -> bool:
        return self.leases.ownership(attempt) is Ownership.LOADED


class TableReceiver(BaseReceiver):
    """Publishes attempts that are staged in tables.

    Args:
        writers: those that each attempt is staged on. ``own``: position of the one that sends the
            INSERT.
        together: they are all writers of the load: rows of one attempt belong on each of them.
    """

    in_background = True

    def __init__(
        self, given: ReceiverInputs, leases: Leases, recovery: Recovery | None,
        writers: Sequence[TableWriter], own: int, *, together: bool,
    ) -> None:  # fmt: skip
        super().__init__(given, leases, recovery)
        self._writers, self._own, self._number = writers, writers[own], own
        self._together = together
        self._settings = self._own.staging.settings
        self.nodes = ",".join(at.writer.node for at in writers)
        target = given.writer.target
        self.watched = target.database, (target.table, STAGING_PREFIX)
        self._committed = CommittedParts(given, leases, recovery)
        # Where the cluster writes to each replica of a shard, they hold the same rows.
        shards = [at.writer.shard for at in self._writers]
        self._first = [shards.index(shard) for shard in shards]
        # Of each writer as they are known to be defined; and as they were when an attempt was
        # staged, by the name of its staging table.
        self._tables = [at.staging for at in self._writers]
        self._staged: dict[str, Sequence[StagingTables]] = {}
        self._began: dict[str, float] = {}  # and when
        # Moves of attempts that are attached and not recorded, one for each writer.
        self._attached: dict[str, Sequence[Sequence[StagedPartition]]] = {}
        # Staging tables that have other names since an ATTACH whose answer was lost.
        self._renamed: set[str] = set()

    @property
    def unstaged(self) -> bool:  # type: ignore[override]
        return self._own.staging.direct

    def insert_into(self, staging: str) -> str:
        return self._given.writer.target.table if self.unstaged else staging

    def settings(self, staging: str) -> Mapping[str, int]:
        return self._settings

    def stage(self, staging: str, lane: int) -> None:
        tables = self._staged[staging] = tuple(self._tables)
        # On ``lane`` an attempt of another writer may be running.
        lane = PUBLISH_LANE if self._together else lane

        def one(number: int) -> None:
            at = self._writers[number]
            for statement in tables[number].stage(staging):
                made = Statement(statement, at.settings, alters=_altered(at, staging))
                at.writer.engine.run(made, lane=lane)

        for at in filter(self._fires_views, self._writers):
            # For two seconds at most: then this start is not taken for one that comes later.
            while started_within(at.writer.engine, 0.0, lane=lane):
                time.sleep(0.25)
        self._began[staging] = time.monotonic()
        self._on_each(one, range(len(self._writers)))

    def _on_each(self, do: Callable[[_Item], _Found], items: Sequence[_Item]) -> Sequence[_Found]:
        """Call ``do`` for what belongs to each writer, of several at the same time."""
        return [do(items[0])] if len(items) == 1 else on_all(do, items)

    def _fires_views(self, at: TableWriter) -> bool:
        """Tell whether rows that are staged on a server fire views, which nothing counts."""
        return bool(at.staging.views) and at.writer.engine.shared and not self.unstaged

    def discard(self, staging: str) -> None:
        self._staged.pop(staging, None)
        self._began.pop(staging, None)

        named = staging not in self._renamed

        def one(at: TableWriter) -> None:
            try:
                _drop(at, staging, named=named)
            except RowfallError as error:
                if not self._together or error.code or not error.transient:
                    raise
                at.writer.engine.revive()  # it may be the one that the attempt has failed for
                _drop(at, staging, named=named)

        self._on_each(one, self._writers)
        self._renamed.discard(staging)

    # --- counting -----------------------------------------------------------------------------

    def count(self, delivered: StagedAttempt, *, checksum: bool) -> Counted:
        self.leases.counting(delivered.attempt)
        numbers = range(len(self._writers))
        self._on_each(partial(self._follow, delivered.staging), numbers)
        shares = self._on_each(partial(self._share, delivered), numbers)
        check = self._check_together if self._together else self._check_alone
        checked = check(delivered, shares)
        hashes = self._checksum(delivered) if checksum else None
        return Counted(
            sum(share.rows for share in self._once(shares)),
            sum(share.parts for share in shares),
            sum(share.bytes for share in shares),
            tuple(shares),
            checked,
            hashes,
        )

    def _follow(self, staging: str, number: int) -> None:
        """Alter what is staged on one writer like its tables, if somebody has altered these.

        Raises:
            AlteredTableError: it cannot follow; another attempt is staged as the tables are now.
            TargetError: the shadow is gone.
        """
        at, then = self._writers[number], self._staged[staging][number]
        engine = at.writer.engine
        if self.unstaged or not engine.shared:
            at.own.check()
            return  # of a folder only this process can alter the tables
        # Asked anew for each attempt: somebody may have altered the table, or put another one in
        # its place, for which nothing must be committed.
        now = then.now(partial(engine.ask, lane=PUBLISH_LANE))
        if at.own.uuid and now.facts.id.uuid != at.own.uuid:
            raise table_dropped(at.own.text)
        if now.definitions == then.definitions:
            return
        self._tables[number] = now
        try:
            for pair in now.pairs(staging):
                alter_alike(engine, pair, PUBLISH_LANE)
        except AlteredTableError as error:
            raise AlteredTableError(
                error.message, hint=error.hint, transient=True, code=error.code
            ) from None

    def _projected(self, staging: str, rows: Mapping[str, int]) -> Collection[int]:
        """Return the possible numbers of rows read by projections: :meth:`StagingTables.projected`.

        Staging was made like its table at that moment, which may have been altered just before.
        """
        own = self._number
        return {t.projected(rows, staging) for t in (self._staged[staging][own], self._tables[own])}

    def _share(self, delivered: StagedAttempt, number: int) -> Staged:
        """Count what one writer has got."""
        at, tables = self._writers[number], self._tables[number]
        pairs, fixed = tables.pairs(delivered.staging), tables.fixed(delivered.staging)
        row_bytes = self._given.plan.schema.row_bytes
        staged = _publisher(at, self._given.load.ledger).staged(pairs, row_bytes, fixed)
        moves, rows = staged.moves, staged.rows
        if self._together:
            moves = tuple(replace(move, node=at.writer.node) for move in moves)
        elif not tables.keeps:
            # A Null table keeps nothing to count, and a Log holds other rows as well.
            outcome, views = delivered.outcome, tables.views.views
            rows = outcome.rows_read // (1 + sum(view.source < 0 for view in views))
            if self._given.plan.schema.filters or (tables.straight and tables.facts.projections):
                rows = outcome.rows_written  # servers may count what projections read
        return replace(staged, rows=rows, moves=moves)

    def _once(self, found: Sequence[_Found]) -> Sequence[_Found]:
        """Return the findings of one replica of each shard."""
        return [found[at] for at in dict.fromkeys(self._first)]

    def _checksum(self, delivered: StagedAttempt) -> tuple[int, int]:
        columns = self._given.plan.schema.columns

        def one(at: TableWriter) -> tuple[int, int]:
            database = at.writer.target.database
            return _publisher(at, self._given.load.ledger).checksum(
                database, delivered.staging, columns
            )

        found = self._once(self._on_each(one, self._writers))
        return sum(rows for rows, _ in found), sum(total for _, total in found) % (1 << 64)

    def _check_alone(self, delivered: StagedAttempt, shares: Sequence[Staged]) -> bool:
        """Compare the rows of one writer with those that were read.

        Returns:
            False where they could not be compared, see :attr:`Counted.checked`.

        Raises:
            CountError: they differ.
        """
        tables, outcome, (share,) = self._own.staging, delivered.outcome, shares
        if not tables.keeps:
            return False
        if delivered.ranges is not None:
            # Where the engine filters, it may read more rows than there are in the ranges.
            if share.rows != delivered.ranges:
                raise CountError(
                    f"{delivered.ranges:,} rows are in the ranges and {share.rows:,} were stored",
                    transient=True,
                )
            return False
        staged = _by_staging(tables.pairs(delivered.staging), share.moves)
        expected = tables.read(staged, delivered.staging)
        read = outcome.rows_read
        if self._given.plan.schema.filters:
            # What --where has left out was read, too; the engine counts what it wrote.
            read = (expected or share.rows) if tables.views else outcome.rows_written
        if delivered.skips_bad_rows:
            # With views bad rows were read, too: only their finder can count them.
            read = (expected or share.rows) if tables.views else outcome.rows_written
        along = self._counted_along(delivered, self._projected(delivered.staging, staged))
        if expected is not None and read - expected not in along:
            raise CountError(
                f"{read:,} rows were read and {expected:,} were stored", transient=True
            )
        return True

    def _check_together(self, delivered: StagedAttempt, shares: Sequence[Staged]) -> bool:
        """Compare the rows of all writers with those that were read, see :meth:`_check_alone`."""
        for at, first in enumerate(self._first):
            one, other = shares[first].rows, shares[at].rows
            if one != other:
                nodes = self._writers[first].writer.node, self._writers[at].writer.node
                raise CountError(
                    f"{one:,} rows were stored on {nodes[0]} and {other:,} on {nodes[1]}, which is "
                    "a replica of it",
                    transient=True,
                )
        if delivered.skips_bad_rows:
            return True
        rows = sum(share.rows for share in self._once(shares))
        own = shares[self._number]
        # The statement's own shard reads again for views what it has got; others count their own.
        tables = self._own.staging
        staged = _by_staging(tables.pairs(delivered.staging), own.moves)
        again = tables.read(staged, delivered.staging)
        read = delivered.outcome.rows_read - ((again or own.rows) - own.rows)
        # A shard that gets rows from another does not tell it what it reads for projections.
        projected = self._projected(delivered.staging, staged)
        if read - rows not in self._counted_along(delivered, projected):
            raise CountError(
                f"{read:,} rows were read and {rows:,} were stored on all shards", transient=True
            )
        return True

    def _counted_along(
        self, delivered: StagedAttempt, projected: Collection[int]
    ) -> frozenset[int]:
        """Return the possible numbers of rows that an attempt has read besides those of its files.

        Servers before 25.1 skip objects that are missing; there the statement counts the objects
        itself, and that reads one row each (sources/_relation.py).

        Args:
            projected: see :meth:`_projected`.
        """
        if not self._own.writer.engine.shared:
            return frozenset((0,))
        pulls = self._given.plan.transport.delivery.value == PULL
        objects = (0, len(delivered.splits)) if pulls else (0,)
        return frozenset(more + again for more in objects for again in (0, *projected))

    # --- publishing ---------------------------------------------------------------------------

    def wait_for_room(self, counted: Counted) -> None:
        for at, share in zip(self._writers, counted.shares, strict=True):
            if share.fullest > 1:  # one part, or none, leaves room for any
                at.wait_for_room(share.moves, share.parts)

    def sync(self, delivered: StagedAttempt) -> None:
        for why in self._on_each(lambda at: at.writer.engine.sync(), self._writers):
            text = f"{why}: a power cut there may take rows that count as loaded"
            if why and text not in self._given.notes.texts:
                self._given.notes.add("warning", text)

    def commit(self, delivered: StagedAttempt, counted: Counted) -> bool:
        for at in self._writers:
            at.writer.engine.check_alone()
        for at, share in zip(self._writers, counted.shares, strict=True):
            if not at.writer.engine.shared:
                continue
            publisher = _publisher(at, self._given.load.ledger)
            try:
                publisher.check_staged(share.moves)
                if self._fires_views(at):
                    publisher.check_not_restarted(time.monotonic() - self._began[delivered.staging])
            except StagingLostError:
                # Another process took this one for dead, and has dropped what was staged.
                if self.leases.ownership(delivered.attempt) is Ownership.TAKEN:
                    return False
                raise
        moves = [move for share in counted.shares for move in share.moves]
        if not self.leases.commit(delivered.attempt, counted.rows, moves):
            return False
        # Moves on several writers are in the journal: the ledger's do not name nodes.
        own = () if self._together else moves
        ledger = self._given.load.ledger
        uuid = ledger.table_uuid(self._given.load.key) or ""
        marks = bool(own) and self._own.writer.engine.keeps_mark(uuid)
        parts = [part for share in counted.shares for part in share.part_ids]
        ledger.attempt_committed(
            delivered.attempt, counted.rows, own, marks=uuid if marks else "",
            once=not self._given.load.overwrites,
            parts=parts if own and len(parts) <= MOST_IDS else (),
        )  # fmt: skip
        return True

    def publish(self, delivered: StagedAttempt, counted: Counted) -> int:
        def one(pair: tuple[TableWriter, Staged]) -> Sequence[StagedPartition]:
            return self._committed.attach(delivered.attempt, pair[1].moves, pair[0])

        attached = self._on_each(one, list(zip(self._writers, counted.shares, strict=True)))
        self._attached[delivered.attempt] = attached
        names = {move.staging for share in counted.shares for move in share.moves}
        if any(move.staging not in names for moves in attached for move in moves):
            self._renamed.add(delivered.staging)
        return 0

    def record(self, delivered: StagedAttempt) -> None:
        for at, moves in zip(self._writers, self._attached.pop(delivered.attempt), strict=True):
            self._committed.check(delivered.attempt, moves, at)
        self.leases.loaded(delivered.attempt)
        self._given.load.ledger.attempt_published(delivered.attempt, self._given.load.key)


def _publisher(at: TableWriter, ledger: Ledger) -> Publisher:
    return Publisher(at.writer.engine, ledger, PUBLISH_LANE)


def _drop(at: TableWriter, staged: str, *, named: bool) -> None:
    """Remove what an attempt left on one writer.

    Args:
        named: its tables have the names that they were made with.
    """
    engine, tables = at.writer.engine, at.staging

    def run(statements: Iterable[SqlText]) -> None:
        for statement in statements:
            engine.run(Statement(statement, alters=_altered(at, staged)), lane=PUBLISH_LANE)

    if named and not tables.views:
        # One table, whose name is known. No profile of a folder forbids what a large one needs.
        size = 0 if engine.shared else staging.LARGE
        try:
            run([staging.drop(tables.databases[0], staged, size=size)])
            return
        except EngineError:
            if not engine.shared:
                raise
            # It may be larger than the server lets be dropped without a setting.
    asks = partial(engine.ask, lane=PUBLISH_LANE)
    run(staging.discard(asks, staged, tables.databases))


def _altered(at: TableWriter, staged: str) -> str:
    """Return the prefix of the names of tables that a statement about staging may change.

    "", any table, where there are views: they have other tables, which something may read from.
    """
    return "" if at.staging.views else staged


def _by_staging(pairs: Sequence[StagingPair], moves: Sequence[StagedPartition]) -> dict[str, int]:
    """Return the rows in each staging table."""
    rows = dict.fromkeys((pair.staging for pair in pairs), 0)
    for move in moves:
        rows[move.staging] += move.rows
    return rows
