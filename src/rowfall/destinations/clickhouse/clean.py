"""``rowfall clean`` drops what dead loads left; after ``forget`` files are loaded again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.events import Listener, silent
from rowfall.core.model import Statement
from rowfall.core.options import Options
from rowfall.core.results import Leftover
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import quote
from rowfall.destinations.clickhouse.opening import connect, shards_of
from rowfall.destinations.clickhouse.own_tables import drop_order, is_own_and_empty, made_tables
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import Ledger, leases, scratches, target_key
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.ledger.journal import Journal
from rowfall.publish.recover import (
    NodeRecovery,
    Recovery,
    end_open_attempts,
    follow_journal,
    give_up_alone,
    staging_of,
)
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.staging import REBUILT_PREFIX
from rowfall.targets.base import STAGING_PREFIX, Target

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

_PREFIXES = (STAGING_PREFIX, scratches.DOCTOR, scratches.TUNE)


@dataclass(frozen=True, slots=True)
class OpenedTables:
    """Tables that are opened for what is done besides loads.

    Attributes:
        engine: the one that has the journal; of a cluster, its first writer.
        nodes: every engine that may hold tables of loads, by its name in the journal.
        shards: the cluster, None where there is none.
    """

    engine: Engine
    nodes: Mapping[str, Engine]
    ledger: Ledger
    shards: OpenCluster | None = None

    @property
    def journal(self) -> bool:
        """True where journals say what is loaded: others may load, too."""
        return self.engine.shared

    def check_writes(self) -> None:
        for engine in self.nodes.values():
            engine.check_writes()


@dataclass(frozen=True, slots=True)
class _Loads:
    """Loads of a target, as ledger and journals know them.

    Attributes:
        alive: ids of loads whose process runs. ``known``: of all that ledger or journals name.
        committed: attempts of dead processes whose rows must be published.
    """

    alive: frozenset[str]
    known: frozenset[str]
    committed: frozenset[str]


def clean(opened: OpenedTables, *, dry: bool, emit: Listener) -> list[Leftover]:
    """Drop what dead loads have left in a folder, a server or a cluster."""
    engine, ledger = opened.engine, opened.ledger
    # First what there is, then what the journals say of it: a lease comes before its tables.
    tables = [left for node, there in opened.nodes.items() for left in _found(there, node)]
    journals = _journals(engine) if opened.journal else []
    loads = _loads(opened, journals)
    found = [
        replace(left, committed=_is_of(left, loads.committed))
        for left in tables
        # What no journal here knows may be of a load whose journal is on another node.
        if left.load_id not in loads.alive
        and (
            not opened.journal
            or left.load_id in loads.known
            or scratches.is_old(left.name, left.load_id)
        )
    ]
    found.sort(key=lambda left: scratches.is_scratch(left.name))  # made before what was staged
    waiting = _exchanged(engine, journals)
    found = [left for left in found if not left.name.startswith(waiting)]
    if dry:
        return [*found, *_empty_tables(opened, loads.alive)]
    opened.check_writes()
    kept: set[str] = set()
    if not opened.journal:
        kept.update(end_open_attempts(engine, ledger, emit))
    for database, uuid, table in journals:
        journal = Journal(engine, database, uuid)
        if table:
            recovery = Recovery(journal, [
                NodeRecovery(there, ledger, journal, database, emit, node)
                for node, there in opened.nodes.items()
            ])  # fmt: skip
            recovery.end_all()
            kept.update(recovery.kept)
            follow_journal(ledger, journal, target_key(database, table))
    # Rows that a load has committed are dropped only when they are visible.
    found = [left for left in found if not _is_of(left, kept)]
    # Only now: what was published has come into its table.
    empty = list(_empty_tables(opened, loads.alive))
    for left in (*found, *empty):
        there = opened.nodes[left.node]
        there.run(Statement(staging.drop(
            left.database, left.name, view=_is_view(there, left), size=left.bytes,
            if_empty=left in empty,
        )))  # fmt: skip
    return [*found, *empty]


def _loads(opened: OpenedTables, journals: Sequence[tuple[str, str, str]]) -> _Loads:
    """Return the ids of loads that ledger and journals know: running, ended and committed ones."""
    alive: set[str] = set()
    known: set[str] = set()
    committed: set[str] = set()
    for row in opened.ledger.loads():
        # One that gathers makes its shadow before it takes a lease.
        lives = row.owner != leases.this_process() and opened.ledger.runs(row)
        (alive if lives else known).add(row.id)
    for database in {database for database, *_ in journals}:
        # One that gathers lives between its attempts, too.
        for load_id, lives in Journal(opened.engine, database, "").loads().items():
            (alive if lives else known).add(load_id)
    for database, uuid, _ in journals:
        for entry in Journal(opened.engine, database, uuid).entries():
            load_id = entry.attempt.split("_")[0]
            known.add(load_id)
            if entry.over:
                continue
            if not entry.dead:
                alive.add(load_id)
            elif entry.binding:
                committed.add(entry.attempt)
    if not opened.journal:
        committed |= {a.id for a in opened.ledger.open_attempts() if a.committed}
    alive |= scratches.in_use()
    known |= scratches.known()
    return _Loads(frozenset(alive), frozenset(known), frozenset(committed))


def forget(opened: OpenedTables, target: Target, load_id: str) -> int:
    """Forget what a load has loaded; see :func:`rowfall.api.forget`."""
    opened.check_writes()
    if opened.journal:
        local = (target.database, target.table)
        if opened.shards is not None:
            local = opened.shards.tables.local
        # Of a table that was restored or made anew, its predecessor's lines may still count.
        uuids = {
            table_uuid(opened.engine, *local),
            opened.ledger.table_uuid(target_key(*local)),
        }
        for uuid in filter(None, uuids):
            journal = Journal(opened.engine, local[0], uuid, load_id)
            if journal.there():
                journal.forget(load_id, opened.ledger.joined_to(load_id))
    return opened.ledger.forget(load_id)


def forget_attempt(opened: OpenedTables, target: Target, attempt: str) -> int:
    """Give up an attempt whose rows cannot become visible; see :func:`rowfall.api.forget`."""
    engine, ledger = opened.engine, opened.ledger
    splits = len(ledger.split_names(attempt))
    if not opened.journal:
        give_up_alone(engine, ledger, attempt)
        return splits
    for database, uuid, _ in _journals(engine):
        journal = Journal(engine, database, uuid)
        if any(entry.attempt == attempt for entry in journal.entries()):
            Recovery(journal, [
                NodeRecovery(there, ledger, journal, database, silent, node)
                for node, there in opened.nodes.items()
            ]).give_up(attempt)  # fmt: skip
            break
    else:
        raise UsageError(f"no journal of {target.text} knows an attempt {attempt}")
    if ledger.attempt_state(attempt):
        ledger.attempt_ended(attempt, "failed", "given up by the user")
    return splits


@contextmanager
def open_folder(target: Target, folder: Path) -> Iterator[OpenedTables]:
    """Open a data folder, for as long as the context is.

    Raises:
        TargetError: there is none.
    """
    if not folder.is_dir():
        raise TargetError(f"there is no data folder {target.text}")
    with closing(Embedded(folder)) as engine, closing(Ledger(target.ledger_path)) as ledger:
        yield OpenedTables(engine, {"": engine}, ledger)


@contextmanager
def open_servers(target: Target, at: ServerAt) -> Iterator[OpenedTables]:
    """Connect to a server, or to the nodes of a cluster that answer.

    Raises:
        TargetError: it is out of reach.
    """
    with ExitStack() as stack:
        server = connect(at, Options())
        stack.callback(server.close)
        chosen = Options(skip_unavailable_shards=True)
        shards = shards_of(server, target, chosen, stack, silent)
        ledger = stack.enter_context(closing(Ledger(target.ledger_path)))
        if shards is None:
            yield OpenedTables(server, {"": server}, ledger)
            return
        # Other replicas may hold what was staged there before they were away.
        nodes = {node.address: shards.connect(node) for node in shards.cluster.up}
        yield OpenedTables(shards.writers[0].engine, nodes, ledger, shards)


def _journals(engine: Engine) -> list[tuple[str, str, str]]:
    """Return (database, UUID, name) of the tables that a server's journals are about.

    The name is "" when the table is gone.
    """
    asks = engine.ask
    found: list[tuple[str, str, str]] = []
    for (database,) in asks(f"SELECT database FROM system.tables WHERE name = {quote(JOURNAL)}"):
        journal = sql.qualified(str(database), JOURNAL)
        rows = asks(
            f"SELECT toString(j.into), t.name FROM (SELECT DISTINCT into FROM {journal}) j "
            f"LEFT JOIN (SELECT uuid, name FROM system.tables WHERE database = {quote(database)}) "
            "t ON t.uuid = j.into"
        )
        found += [(str(database), str(uuid), str(name)) for uuid, name in rows]
    return found


def _exchanged(engine: Engine, journals: Sequence[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the names of tables that were exchanged, and may hold rows to be carried over.

    The next load into the table does that.
    """
    return tuple(
        followed.name for database, uuid, table in journals if table
        for followed in Journal(engine, database, uuid).followed() if not followed.done
    )  # fmt: skip


def _found(engine: Engine, node: str) -> Iterator[Leftover]:
    rows = engine.ask(
        "SELECT database, name, ifNull(total_rows, 0), ifNull(total_bytes, 0) FROM system.tables "
        f"WHERE {' OR '.join(f'startsWith(name, {quote(x)})' for x in _PREFIXES)} "
        "ORDER BY engine LIKE '%View' DESC, database, name"
    )
    for database, name, count, size in rows:
        name = str(name)
        load_id = name.removeprefix(REBUILT_PREFIX).removeprefix(STAGING_PREFIX).split("_")[0]
        if name == JOURNAL:
            continue
        if scratches.is_scratch(name):
            load_id = scratches.load_id(name)
        elif not name.startswith(STAGING_PREFIX):
            continue  # somebody's own table
        yield Leftover(str(database), name, load_id, int(count), int(size), False, node)


def _empty_tables(opened: OpenedTables, alive: Collection[str]) -> Iterator[Leftover]:
    """Yield tables that dead loads have made and left empty, on every node, in drop order."""
    shards, ledger = opened.shards, opened.ledger
    if shards is not None and len(shards.cluster.up) < len(shards.cluster.nodes):
        return  # a node that is away would keep its own
    nodes = opened.nodes
    for load_id, database, table, uuid in made_tables(ledger):
        if load_id in alive or table_uuid(opened.engine, database, table) != uuid:
            continue
        if not is_own_and_empty(nodes, ledger, database, table):
            continue
        for node, base, name in drop_order(nodes, ledger, database, table, uuid):
            yield Leftover(base, name, load_id, 0, 0, False, node)


def _is_of(left: Leftover, attempts: Collection[str]) -> bool:
    """Tell whether a table is one of these attempts'."""
    prefixes = {staging_of(attempt) for attempt in attempts}
    return any(left.name == one or left.name.startswith(f"{one}_") for one in prefixes)


def _is_view(engine: Engine, left: Leftover) -> bool:
    rows = engine.ask(
        f"SELECT engine LIKE '%View' FROM system.tables WHERE database = {quote(left.database)} "
        f"AND name = {quote(left.name)}"
    )
    return bool(rows and rows[0][0])
