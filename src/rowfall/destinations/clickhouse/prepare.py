"""Make what a load into tables of ClickHouse needs: tables, shadow, journal, staging tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import Delivery
from rowfall.contracts.destination import LoadRun, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, Finished, Settled
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.events import Note
from rowfall.core.model import BUILD, Plan
from rowfall.destinations.clickhouse.load_tables import LoadTables
from rowfall.destinations.clickhouse.nodes import nodes_of
from rowfall.destinations.clickhouse.own_tables import remember_made
from rowfall.destinations.clickhouse.record import record_of
from rowfall.destinations.clickhouse.settle import open_shadow
from rowfall.destinations.notes import add_splits
from rowfall.engines.base import table_uuid
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import Leases, NoLeases
from rowfall.publish.merges import Merges
from rowfall.publish.recover import open_recovery
from rowfall.publish.shadow import Shadow
from rowfall.publish.staging_tables import StagingTables
from rowfall.publish.table_writer import TableWriter
from rowfall.publish.target_tables import TargetTables, table_dropped
from rowfall.systems.clickhouse import staging, views
from rowfall.systems.clickhouse.staging import CatalogueTables, ask_catalogue


class PreparedTables(LoadTables):
    """Tables that take the attempts of a load."""

    __slots__ = ()

    def pull(self, plan: Plan) -> Done | None:
        return None  # servers pull by attempts

    def delivery(self, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        from rowfall.deliver.route import open_delivery  # 5 ms, used when tables are made

        return open_delivery(self.load.session, facts, plan, writer)

    def finish(self, plan: Plan, done: Done) -> Finished:
        """Make a gathered load visible, and wait for what ``--wait`` names."""
        from rowfall.destinations.clickhouse.finish import finish

        return finish(self, plan, done)


def prepare(load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan) -> PreparedTables:
    """Make the table where it is missing, the shadow of a load that gathers, and the journal.

    Raises:
        UsageError: the engine does not take the table's definition.
        TargetError: the table cannot be staged.
        RowfallError: it may not be made here.
    """
    session, ledger = load.session, load.ledger
    nodes_of(session).create(load, settled.table, plan)
    tables = TargetTables(session, ledger)
    if not session.options.replace:
        _alter_target(session, plan)
    # Asked anew: the tables have just been made or altered, and while the source was surveyed
    # somebody may have put another one in the place of the one that was settled.
    found = tuple(
        ask_catalogue(
            w.engine,
            w.target.database,
            w.target.table,
            settled.table,
            *[JOURNAL] * w.engine.shared,
        )
        for w in session.writers
    )
    if not session.options.replace:
        tables = tables.remembered(settled.seen, found)
        if not plan.schema.exists:
            remember_made(ledger, load.id, tables.first, nodes_of(session).made_over())
    prepared = PreparedTables(
        load, settled, tables, _settled_shadow(load, settled), whole=_announce(load, tables),
        together=facts.sharding is not None,
    )  # fmt: skip
    fed = plan.transport.delivery.value == BUILD
    writers = tuple(
        _table_writer(prepared, writer, there, fed=fed)
        for writer, there in zip(session.writers, found, strict=True)
    )
    prepared = _open_leases(replace(prepared, writers=writers), found[0])
    add_splits(load, plan)
    return prepared


def _alter_target(session: Session, plan: Plan) -> None:
    """Alter the table as the plan says, on all nodes of a cluster.

    Raises:
        TargetError: the engine refuses, or somebody else has given a column another type since
            the plan was made.
    """
    nodes_of(session).alter(plan.schema.fit.changes)
    if plan.schema.fit.text:
        session.emit(Note("info", f"{session.table_text}: {plan.schema.fit.text}"))


def _table_writer(
    prepared: PreparedTables, writer: Writer, found: CatalogueTables, *, fed: bool
) -> TableWriter:
    """Return the staging tables and settings of attempts on one writer.

    Args:
        found: the tables of this server now. ``fed``: see :class:`StagingTables`.
    """
    tables, shadow = prepared.tables, prepared.shadow
    session, engine = tables.session, writer.engine
    settings: Mapping[str, int] = {}
    if session.engine.ddl_settings:
        facts = session.engine.facts
        settings = staging.allowances(name for name in facts.settings if facts.allows(name, 1))
    staged = _staging_tables(prepared.settled, tables, writer, found)
    staged = replace(staged, fed=fed and bool(staged.views))
    if session.options.gathers and shadow is not None:
        staged = replace(staged, shadow=shadow.name)
        shadow.create(staged, settings)
    # Nobody else is slowed down by the parts of a table that only this process uses.
    merges = Merges(engine, session.emit) if engine.shared else None
    return TableWriter(writer, staged, tables.of(writer), merges, settings)


def _staging_tables(
    settled: Settled, tables: TargetTables, writer: Writer, found: CatalogueTables
) -> StagingTables:
    """Return the staging tables of one writer.

    Raises:
        TargetError: the target is gone, or cannot be loaded into.
        UsageError: views read from a table that is to be replaced.
    """
    session, asks = tables.session, writer.engine.ask
    database, table = writer.target.database, writer.target.table
    name = settled.table if session.options.replace and not session.options.direct else table
    facts = found.tables.get(name)
    if facts is None:
        raise table_dropped(tables.text(writer))
    if not session.options.direct:
        _ = facts.publish_kind  # raises where it takes no rows
    if session.options.direct:
        return StagingTables(facts, views.Views(database, table), straight=True)
    # What is to be replaced has views of its own, not those of the table that replaces it.
    viewed = views.discover(asks, database, table, None if session.options.replace else facts)
    if session.options.replace and viewed:
        raise UsageError(
            f"{session.table_text} feeds materialized views ({', '.join(viewed.names)}): what "
            "they hold of the old rows cannot be replaced",
            hint="Drop the views, or truncate the tables and load without --replace.",
        )
    return StagingTables(facts, viewed)


def _settled_shadow(load: LoadRun, settled: Settled) -> Shadow | None:
    """Return the shadow by the name that it has: settling renames one that was to be exchanged."""
    shadow = open_shadow(load)
    if shadow is not None and load.session.options.replace and not settled.replaced:
        shadow.name = settled.table
    return shadow


def _announce(load: LoadRun, tables: TargetTables) -> Leases:
    """Return the leases of the target of a load that gathers, in whose journal it is known now.

    Its shadow outlives its attempts: others can tell by the journal whether it is still used.
    """
    if not tables.session.options.gathers:
        return NoLeases()
    return record_of(tables.session).announce(load, tables.first)


def _open_leases(prepared: PreparedTables, found: CatalogueTables) -> PreparedTables:
    """Record which table the rows gather in, and open the journals of a shared target."""
    load, settled, tables = prepared.load, prepared.settled, prepared.tables
    session, shadow = load.session, prepared.shadow
    database = session.first_target.database
    uuid = tables.first or table_uuid(session.engine, database, session.first_target.table)
    if shadow is not None and not settled.replaced:
        uuid = table_uuid(session.engine, database, shadow.name)
        known = load.ledger.table_uuid(load.key)
        if known and known != uuid:
            # An exchange that a stopped run had sent has come, or somebody has changed the table.
            raise TargetError(
                f"the table {database}.{shadow.name} that rows of this load gather in was "
                "exchanged just now",
                hint="Run the same command again.",
                transient=True,
            )
        load.ledger.set_table(load.key, uuid)
    leases, recovery = record_of(session, found).leases(load, tables, uuid)
    prepared = replace(prepared, leases=leases, recovery=recovery)
    if not isinstance(prepared.whole, Journal):
        return prepared
    return replace(prepared, whole_recovery=open_recovery(tables, prepared.whole))
