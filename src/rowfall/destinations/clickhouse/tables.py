"""Tables of ClickHouse with all moments of a load; those of every load are a file each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from rowfall.contracts.undo import Undo
from rowfall.core import sql, units
from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Split
from rowfall.core.load_record import PartSizes
from rowfall.core.model import MergeWork, Plan, Transport
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.registry import LateMethod
from rowfall.core.results import Leftover, Link, Undone, Verification
from rowfall.core.sqltext import quote
from rowfall.core.tuned import Cell
from rowfall.destinations.base import BaseDestination, ledger_of
from rowfall.engines.base import table_uuid
from rowfall.ledger import target_key
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.cluster.writer import Writer
    from rowfall.contracts.destination import Gauge, LoadRun, Session
    from rowfall.contracts.facts import (
        LoadFacts,
    )
    from rowfall.contracts.load import Done
    from rowfall.destinations.clickhouse.clean import OpenedTables
    from rowfall.engines.small_tables import SmallTables
    from rowfall.ledger import Ledger
    from rowfall.sources.cursor import CursorRows

_HERE = "destinations.clickhouse"


def _uuid(session: Session) -> str:
    """Return the UUID of the target table; "" where there is none."""
    first = session.first_target
    return table_uuid(session.engine, first.database, first.table)


class ClickHouseTables(BaseDestination):
    """Tables of the MergeTree family and those that take rows as they do, wherever they are."""

    rows_become = "table"
    replaces = True
    flushes = True
    runs_sql = True
    makes_parts = True

    # The moments of a load, each in a file of its own: 55 ms that other commands save.
    settle: Any = LateMethod(f"{_HERE}.settle:settle")
    settle_again: Any = LateMethod(f"{_HERE}.settle:settle_again")
    stored_columns: Any = LateMethod(f"{_HERE}.survey:stored_columns")
    survey: Any = LateMethod(f"{_HERE}.survey:survey")
    prepare: Any = LateMethod(f"{_HERE}.prepare:prepare")

    def key(self, session: Session, load_id: str) -> str:
        gathers = session.options.gathers or session.options.replace
        return target_key(session.target_key, load_id) if gathers else session.target_key

    def has_unknown_attempts(self, session: Session, load_id: str) -> bool:
        """Tell whether the journal knows attempts of an unfinished load that its ledger does not.

        Then the ledger was set back, or another machine goes on with a copy of it. The next attempt
        would have the name of one that the journal has known for long.
        """
        ledger = session.ledger
        if ledger is None:
            return False
        from rowfall.destinations.clickhouse.record import record_of

        ahead = record_of(session).unknown_attempts(load_id)
        if ahead:
            session.emit(Note(
                "warning",
                f"the ledger {ledger.path} does not know {units.counted(ahead, 'attempt')} of "
                f"its own load {load_id} that the journal knows: it was set back, or there are two "
                "of it; what the journal knows counts, under a new load",
            ))  # fmt: skip
        return ahead > 0

    def verify_loaded(self, load: LoadRun, facts: LoadFacts, plan: Plan, done: Done) -> None:
        """Compare what was staged, whose checksum each attempt has added up."""
        counts = done.total
        if counts.checksum is None or not counts.loaded:
            return
        from rowfall.destinations.verify import compare_staged  # only few loads need it

        loaded = {split_id for ids in counts.loaded_ids for split_id in ids}
        compare_staged(load.session, facts, plan, counts.checksum, loaded, load.id)

    def loaded_ids(self, session: Session) -> set[str]:
        from rowfall.destinations.clickhouse.record import remembered

        return remembered(session).loaded

    def loaded_among(self, session: Session, ids: Sequence[str]) -> set[str]:
        from rowfall.destinations.clickhouse.record import record_of

        uuid = _uuid(session)
        return record_of(session).among(uuid, ids) if uuid else set()

    def stored_rows(self, session: Session, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
        """Ask the table, of a cluster all shards."""
        from rowfall.destinations import cursor_rows

        first = session.first_target
        listed = session.engine.existing_table(first.database, first.table)
        if listed is None:
            return ()
        cursor_rows.check_columns(session, listed, wanted)
        if not cursor_rows.keeps_rows(listed):
            return None
        return cursor_rows.of_engine(session.engine, session.all_rows, wanted)

    def contradiction(self, session: Session) -> LedgerError | None:
        from rowfall.destinations.clickhouse.loaded_state import find_contradiction
        from rowfall.destinations.clickhouse.record import remembered

        if session.options.replace:
            return None
        found = find_contradiction(session, remembered(session))
        return found.error if found is not None else None

    def is_older(self, session: Session) -> bool:
        from rowfall.destinations.clickhouse.loaded_state import find_older_ledger

        return find_older_ledger(session) is not None

    def visibility(self, facts: LoadFacts, transport: Transport, options: Options) -> str:
        """Say what queries see.

        One ATTACH makes all parts of an attempt visible under one lock in a MergeTree table.
        """
        if options.replace:
            return "the old rows or the new ones: the tables are exchanged at the end of the load"
        tables = facts.table.filled
        if options.direct or any(not (t.merge_tree or t.engine == "Null") for t in tables[:1]):
            return "rows as they are inserted, also those of a statement that fails later"
        tables = tuple(table for table in tables if table.merge_tree)
        if any(table.replicated and table.partitioned for table in tables):
            moments = (
                "the rows of a statement partition by partition, because Keeper commits one after "
                "the other; a crash may leave it so until the next run"
            )
        elif options.upsert is not None:
            moments = "the old rows or the new ones: the table is exchanged at the end of the load"
        elif options.atomic:
            moments = "nothing until the end of the load, then all rows in one moment"
        else:
            moments = "all rows of a statement in one moment, one statement after the other"
        parts = [moments]
        if len(tables) > 1:
            parts.append("the tables behind views follow, each by itself")
        if transport.sharding.value in (FILTER, DISTRIBUTED):
            parts.append("one shard or node after the other")
        if facts.table.cluster.replicas and any(table.replicated for table in tables):
            parts.append("other replicas show rows as they fetch them")
        return "; ".join(parts)

    def ddl(self, facts: LoadFacts) -> str:
        return facts.table.ddl

    def verify(self, session: Session, load_id: str) -> Verification:
        from rowfall.destinations.verify import verify_tables

        return verify_tables(session, ledger_of(session, load_id), load_id)

    def opened(self, target: Target) -> AbstractContextManager[OpenedTables]:
        """Open a target for what is done besides loads.

        Raises:
            TargetError: there is none, or it is out of reach.
        """
        raise NotImplementedError

    def tables_query(self, target: Target) -> str | None:
        # A folder has all that its databases hold; a server has others' databases, too.
        where = f"database = {quote(target.database)}" if target.folder is None else (
            "database NOT IN ('system', 'information_schema', 'INFORMATION_SCHEMA')"
        )  # fmt: skip
        return (
            "SELECT database, name, total_rows, total_bytes FROM system.tables WHERE "
            f"{where} AND NOT is_temporary AND NOT startsWith(name, '_rowfall_') AND "
            "NOT startsWith(name, '.inner') AND engine NOT LIKE '%View' AND "
            "engine != 'Dictionary' ORDER BY database, name"
        )

    def clean(self, target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
        from rowfall.destinations.clickhouse.clean import clean

        with self.opened(target) as opened:
            return clean(opened, dry=dry, emit=emit)

    def forget(self, target: Target, load_id: str, options: Options) -> int:
        from rowfall.destinations.clickhouse.clean import forget

        with self.opened(target) as opened:
            return forget(opened, target, load_id)

    def undo(self, target: Target, asked: Undo) -> Undone:
        from rowfall.destinations.clickhouse.undo import undo

        with self.opened(target) as opened:
            return undo(opened, target, asked)

    def forget_attempt(self, target: Target, attempt: str) -> int:
        from rowfall.destinations.clickhouse.clean import forget_attempt

        with self.opened(target) as opened:
            return forget_attempt(opened, target, attempt)

    def join_loads(self, session: Session, ledger: Ledger, load_id: str, older: str) -> bool:
        # A journal joins ranges by itself.
        ranges = not session.engine.shared
        return ledger.join_load(load_id, older, session.target_key, ranges=ranges)

    def join_record(self, session: Session) -> None:
        from rowfall.destinations.clickhouse.record import record_of

        if uuid := _uuid(session):
            record_of(session).join(uuid)

    def prune_record(self, session: Session, days: int) -> None:
        from rowfall.destinations.clickhouse.record import record_of

        if uuid := _uuid(session):
            record_of(session).prune(uuid, days)

    def cells(self, facts: LoadFacts, plan: Plan, options: Options, rows: int) -> list[Cell]:
        """Offer insert threads, block sizes, who writes parts, and connections to a server."""
        from rowfall.plan.tuning import of_blocks

        return of_blocks(facts, plan, options, rows)

    def gauge(self, session: Session, writer: Writer) -> Gauge | None:
        if not writer.engine.shared:
            return None  # a data folder is one process's
        from rowfall.destinations.clickhouse.gauge import ServerGauge

        return ServerGauge(writer.engine, writer.target)

    def make_scratch(self, session: Session, like: str) -> None:
        from rowfall.destinations.clickhouse.scratch import make_scratch

        make_scratch(session, like)

    def erase(self, session: Session) -> None:
        from rowfall.destinations.clickhouse.scratch import erase

        erase(session)

    def merging(self, session: Session) -> Link | None:
        from rowfall.destinations.clickhouse.scratch import merging

        return merging(session)

    def engine_times(self, session: Session, load_id: str) -> Mapping[str, float] | None:
        from rowfall.destinations.clickhouse.scratch import engine_times

        return engine_times(session, load_id)

    def adopts(self, target: Target) -> bool:
        return True

    def table_exists(self, session: Session) -> bool:
        return bool(_uuid(session))

    def accept(self, session: Session, ledger: Ledger, load_id: str) -> None:
        from rowfall.destinations.clickhouse.doubts import accept

        accept(session, ledger, load_id, _uuid(session))

    def record_adopted(
        self, session: Session, ledger: Ledger, attempt: str, splits: Sequence[Split]
    ) -> None:
        from rowfall.destinations.clickhouse.record import record_of

        record_of(session).adopt(attempt.partition("_")[0], _uuid(session), splits)

    def small_tables(self, session: Session) -> SmallTables | None:
        """Return those of the first writer, which has the journal, too."""
        from rowfall.destinations.beside import of_engine  # for loads that are followed

        return of_engine(session.engine, session.first_target.database)

    def merge_work(self, session: Session) -> tuple[int, MergeWork | None]:
        """Ask all writers, which merge side by side; (0, None) where parts may not be seen."""
        parts, left = 0, []
        for writer in session.writers:
            with suppress(RowfallError):
                ((own, several, into, size, most),) = writer.engine.ask(
                    "SELECT sum(n), sumIf(n, n > 1), countIf(n > 1), sumIf(size, n > 1), "
                    "maxIf(size, n > 1) FROM (SELECT count() AS n, "
                    "sum(data_uncompressed_bytes) AS size FROM system.parts WHERE "
                    "active AND rows > 0 AND "
                    f"{sql.table_is(writer.target.database, writer.target.table)} "
                    "GROUP BY partition_id)",
                )
                parts += int(own)
                cores = writer.engine.facts.cores
                left.append(MergeWork.of(int(several), int(into), int(size), int(most), cores))
        return parts, MergeWork.together(left)

    def part_sizes(self, session: Session) -> PartSizes | None:
        """Ask all writers; None where parts may not be seen."""
        from rowfall.destinations.clickhouse.parts import part_sizes  # for loads that took a while

        return part_sizes(session)
