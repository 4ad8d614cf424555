"""Make what a load needs before its first attempt: tables, shadow, journal, staging tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, TargetError, UsageError
from rowfall.core.events import Note
from rowfall.core.model import BUILD, Plan, Statement
from rowfall.core.patterns import regex
from rowfall.engines.base import table_uuid
from rowfall.engines.codes import ACCESS_DENIED, READONLY
from rowfall.engines.database import Committing, Database
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import Leases, NoLeases
from rowfall.plan.facts import LoadFacts
from rowfall.plan.session import Session, Writer
from rowfall.publish.merges import Merges
from rowfall.publish.receiver import TableWriter
from rowfall.publish.recover import Recovery, open_journal, open_recovery
from rowfall.publish.staging_tables import StagingTables
from rowfall.publish.target_tables import TargetTables, table_dropped
from rowfall.run.alter import alter_target
from rowfall.run.settle import LoadRun, Settled, remember_made
from rowfall.targets import staging, views

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster
    from rowfall.publish.export_record import ExportRecord

# The user may not create tables (497) or is read-only (164): what the server says is the cause.
RIGHTS = (ACCESS_DENIED, READONLY)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Staging tables of a load and the leases that guard it.

    Attributes:
        writers: () where the target has no tables.
        leases: of the splits, where attempts are published; ``recovery`` ends those of dead
            processes, None where nobody else can have died.
        whole: the same for the target of a load that gathers in a shadow.
        export: the record of the files of an export that are to be written.
        together: a sharding key says on which writer each row belongs, so that each attempt is
            staged on all of them.
    """

    tables: TargetTables
    writers: tuple[TableWriter, ...] = ()
    leases: Leases = field(default_factory=NoLeases)
    recovery: Recovery | None = None
    whole: Leases = field(default_factory=NoLeases)
    whole_recovery: Recovery | None = None
    together: bool = False
    export: ExportRecord | None = None

    @contextmanager
    def leased(self) -> Iterator[None]:
        """Renew the leases until the load has ended."""
        with ExitStack() as stack:
            for leases in (self.leases, self.whole):
                if isinstance(leases, Journal):
                    stack.enter_context(leases)
            yield


def prepare(settled: Settled, load: LoadRun, facts: LoadFacts, plan: Plan) -> Prepared:
    """Make the target where it is missing, the shadow of a load that gathers, and the journal.

    Raises:
        UsageError: the engine does not take the table's definition.
        TargetError: a file is in the way, or the table cannot be staged.
        RowfallError: it may not be made here.
    """
    session, ledger = settled.session, load.ledger
    if session.database is not None:
        return _prepare_database(settled, load, plan, session.database)
    _create(settled, load, plan)
    if session.target.table and not session.options.replace:
        alter_target(session, plan)
    tables = TargetTables(session, ledger)
    prepared = Prepared(tables)
    if session.target.table:
        if not session.options.replace:
            tables = tables.remembered()
            if not plan.schema.exists:
                remember_made(ledger, load.id, tables.first, session.shards)
        whole = _announce(load, tables)
        fed = plan.transport.delivery.value == BUILD
        writers = tuple(
            _table_writer(settled, load, tables, writer, fed=fed) for writer in session.writers
        )
        prepared = _open_leases(
            settled, load,
            Prepared(tables, writers, whole=whole, together=facts.sharding is not None),
        )  # fmt: skip
    prepared = replace(prepared, export=_open_export(session, load, facts))
    todo = (i for g in plan.groups for i in g.indexes)
    ledger.add_splits(load.id, plan.listing.splits(session.target_key, todo))
    return prepared


def _prepare_database(
    settled: Settled, load: LoadRun, plan: Plan, database: Database
) -> Prepared:  # fmt: skip
    """Make the table of a database where it is missing, and the record of what is loaded."""
    from rowfall.publish.transaction import TransactionLeases, hold_streams

    session, ledger = settled.session, load.ledger
    statements = () if plan.schema.exists else session.target.create(plan.schema)
    if statements:
        session.emit(_created(session, plan))
    if isinstance(database, Committing):
        if statements:
            database.make(plan.schema.columns)
        else:
            database.mend()
    else:
        database.prepare(statements)
    ledger.set_table(session.target_key, database.table_id())
    todo = [i for g in plan.groups for i in g.indexes]
    # Before anything is read: the other one may take hours.
    hold_streams(database, plan.listing.splits(session.target_key, todo))
    ledger.add_splits(load.id, plan.listing.splits(session.target_key, todo))
    if isinstance(database, Committing):
        return Prepared(TargetTables(session, ledger))  # the commit says what others have loaded
    leases = TransactionLeases(database, load.id, load.salt)
    return Prepared(TargetTables(session, ledger), leases=leases)


def _create(settled: Settled, load: LoadRun, plan: Plan) -> None:
    """Make the target where it is missing, on all shards of a cluster."""
    session, ledger = settled.session, load.ledger
    target = session.target
    if not target.table:
        for statement in target.create(plan.schema):
            session.engine.run(Statement(statement))
        return
    if session.shards is not None:
        _create_on_cluster(session, session.shards, load, plan)
        return
    statements = () if plan.schema.exists else target.create(plan.schema, settled.table)
    if not statements:
        return
    ledger.step(load.id, "create", "started")
    if plan.ddl:
        session.emit(_created(session, plan))
    try:
        for statement in statements:
            session.engine.run(Statement(statement))
    except EngineError as error:
        if error.transient or error.code in RIGHTS:
            raise
        cause = error.message.split(", required columns", 1)[0]
        raise UsageError(
            f"the table cannot be created: {cause}",
            hint=_hint_of_table(cause),
        ) from None
    ledger.step(load.id, "create", "done")


_RESERVED = regex(r"column '(\w+)' .*reserved for")


def _hint_of_table(cause: str) -> str:
    """Return what helps where an engine refuses to create a table."""
    if found := _RESERVED.search(cause):
        name = found[1]
        return f"Give the column another name: --rename {name}={name.strip('_')}"
    return "Check --order-by, --engine and the other options of the table."


def _created(session: Session, plan: Plan) -> Note:
    """Return the line that says which table is made; its DDL is for ``-v``."""
    columns = units.counted(len(plan.schema.columns), "column")
    order = " ".join(line[9:] for line in plan.ddl.split("\n") if line.startswith("ORDER BY "))
    sorted_by = f", sorted by {order.replace('`', '')}" if order not in ("", "tuple()") else ""
    return Note("info", f"creating {session.table_text}: {columns}{sorted_by}", plan.ddl)


def _create_on_cluster(session: Session, shards: OpenCluster, load: LoadRun, plan: Plan) -> None:
    # As it is now: planning took its time, and others load too.
    missing = replace(shards, tables=shards.find_tables()).missing(plan.schema, session.options)
    if not missing:
        return
    if not plan.schema.exists:
        load.ledger.step(load.id, "create", "started")
        session.emit(_created(session, plan))
    for ddl in missing:
        shards.create(ddl, session.emit)
    if not plan.schema.exists:
        load.ledger.step(load.id, "create", "done")


def _table_writer(
    settled: Settled, load: LoadRun, tables: TargetTables, writer: Writer, *, fed: bool
) -> TableWriter:
    """Return how attempts are staged on one writer; ``fed`` as of :class:`StagingTables`."""
    session, engine = tables.session, writer.engine
    settings: Mapping[str, int] = {}
    if session.engine.ddl_settings:
        facts = session.engine.facts
        settings = staging.allowances(name for name in facts.settings if facts.allows(name, 1))
    staged = _staging_tables(settled, tables, writer)
    staged = replace(staged, fed=fed and bool(staged.views))
    if session.options.gathers and load.shadow is not None:
        staged = replace(staged, shadow=load.shadow.name)
        load.shadow.create(staged, settings)
    # Nobody else is slowed down by the parts of a table that only this process uses.
    merges = Merges(engine, session.emit) if engine.shared else None
    return TableWriter(writer, staged, tables.of(writer), merges, settings)


def _staging_tables(settled: Settled, tables: TargetTables, writer: Writer) -> StagingTables:
    """Return the staging tables of one writer.

    Raises:
        TargetError: the target is gone, or cannot be loaded into.
        UsageError: views read from a table that is to be replaced.
    """
    session, asks = tables.session, writer.engine.ask
    database, table = writer.target.database, writer.target.table
    if session.options.direct:
        facts = staging.lookup(asks, [(database, table)]).get((database, table))
    else:
        name = settled.table if session.options.replace else table
        facts = staging.facts(asks, database, name)
    if facts is None:
        raise table_dropped(tables.text(writer))
    if session.options.direct:
        return StagingTables(facts, views.Views(database, table), straight=True)
    found = views.discover(asks, database, table)
    if session.options.replace and found:
        raise UsageError(
            f"{session.table_text} feeds materialized views ({', '.join(found.names)}): what "
            "they hold of the old rows cannot be replaced",
            hint="Drop the views, or truncate the tables and load without --replace.",
        )
    return StagingTables(facts, found)


def _announce(load: LoadRun, tables: TargetTables) -> Leases:
    """Return the leases of the target of a load that gathers, in whose journal it is known now.

    Its shadow outlives its attempts: others can tell by the journal whether it is still used.
    """
    session = tables.session
    if not (session.options.gathers and session.target.caps.journal):
        return NoLeases()
    journal = open_journal(session, tables.first, load.id, load.salt)
    journal.create()
    journal.announce()
    return journal


def _open_leases(settled: Settled, load: LoadRun, prepared: Prepared) -> Prepared:
    """Record which table the rows gather in, and open the journals of a shared target."""
    session, tables = settled.session, prepared.tables
    database = session.first_target.database
    uuid = tables.first or table_uuid(session.engine, database, session.first_target.table)
    if load.shadow is not None and not settled.replaced:
        uuid = table_uuid(session.engine, database, load.shadow.name)
        known = load.ledger.table_uuid(load.key)
        if known and known != uuid:
            # An exchange that a stopped run had sent has come, or somebody has changed the table.
            raise TargetError(
                f"the table {database}.{load.shadow.name} that rows of this load gather in was "
                "exchanged just now",
                hint="Run the same command again.",
                transient=True,
            )
        load.ledger.set_table(load.key, uuid)
    if not session.target.caps.journal:
        return prepared
    journal = open_journal(session, uuid, load.id, load.salt)
    journal.create()
    prepared = replace(prepared, leases=journal, recovery=open_recovery(tables, journal))
    if not isinstance(prepared.whole, Journal):
        return prepared
    return replace(prepared, whole_recovery=open_recovery(tables, prepared.whole))


def _open_export(session: Session, load: LoadRun, facts: LoadFacts) -> ExportRecord | None:
    """Take the files of an export over; return None where there is none, or nothing to write.

    Raises:
        TargetError, LedgerError: what is there is not this export's to overwrite.
    """
    state = facts.export
    if state is None:
        return None
    if state.refusal is not None:
        raise state.refusal
    for note in state.notes:
        session.emit(Note("info", note))
    if state.finished:
        return None
    from rowfall.publish.export_record import ExportRecord  # 3 ms that loads into tables save

    record = ExportRecord(state, load.id)
    record.begin()
    return record
