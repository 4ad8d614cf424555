"""The tables of a load into ClickHouse: what it needs is made, guarded by leases, and finished.

Tables, shadow, journal and staging tables are made before the first attempt; at the end what was
gathered becomes visible, and replicas and merges are waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import LoadRun, ReceiverInputs, Session
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, Finished, Settled
from rowfall.contracts.receiver import Notes, Revivals, first_line
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, LedgerError, RowfallError, TargetError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import Split
from rowfall.core.model import BUILD, Plan
from rowfall.deliver.route import open_delivery
from rowfall.destinations.clickhouse.nodes import nodes_of
from rowfall.destinations.clickhouse.own_tables import remember_made
from rowfall.destinations.clickhouse.record import record_of
from rowfall.destinations.clickhouse.settle import open_shadow
from rowfall.engines.base import table_uuid
from rowfall.ledger.journal import TABLE as JOURNAL
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import Lease, Leases, NoLeases
from rowfall.plan.upserts import key_of
from rowfall.publish.merges import Merges, Waited
from rowfall.publish.recover import Recovery, open_recovery
from rowfall.publish.shadow import Shadow
from rowfall.publish.tables import CommittedParts, StagingTables, TableReceiver, TableWriter
from rowfall.publish.target_tables import TargetTables, table_dropped
from rowfall.publish.upsert import Upsert
from rowfall.systems.clickhouse import staging, views
from rowfall.systems.clickhouse.codes import GONE
from rowfall.systems.clickhouse.staging import CatalogueTables, ask_catalogue

# Somebody else loads the last files: asking again costs two small SELECTs.
BUSY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PreparedTables:
    """Tables that take the attempts of a load, and the leases that guard it.

    Attributes:
        leases: of the splits, where attempts are published; ``recovery`` ends those of dead
            processes, None where nobody else can have died.
        whole: the same for the target of a load that gathers in a shadow.
        together: a sharding key says on which writer each row belongs, so that each attempt is
            staged on all of them.
    """

    load: LoadRun
    settled: Settled
    tables: TargetTables
    shadow: Shadow | None = None
    writers: tuple[TableWriter, ...] = ()
    leases: Leases = field(default_factory=NoLeases)
    recovery: Recovery | None = None
    whole: Leases = field(default_factory=NoLeases)
    whole_recovery: Recovery | None = None
    together: bool = False

    delivery = staticmethod(open_delivery)

    @contextmanager
    def leased(self) -> Iterator[None]:
        """Renew the leases until the load has ended."""
        with ExitStack() as stack:
            for leases in (self.leases, self.whole):
                if isinstance(leases, Journal):
                    stack.enter_context(leases)
            yield

    def receiver(self, given: ReceiverInputs) -> TableReceiver:
        """Return the receiver that stages attempts on one writer, or on all of them together."""
        own, writers = given.writer.number, self.writers
        if not self.together:
            own, writers = 0, (writers[own],)
        return TableReceiver(
            given, self.leases, self.recovery, writers, own, together=self.together
        )

    def end_dead(self) -> None:
        """End what dead processes have staged for these tables, or left of what is published."""
        if self.recovery is not None:
            self.recovery.end_all()

    def cause(self, error: RowfallError) -> RowfallError:
        """Return the error to report: that the target is gone, where this caused ``error``."""
        if isinstance(error, EngineError) and error.code in GONE:
            try:
                self.tables.check()
            except RowfallError as gone:
                return gone
        return error

    def pull(self, plan: Plan) -> Done | None:
        return None  # servers pull by attempts

    def finish(self, plan: Plan, done: Done) -> Finished:
        """Make a gathered load visible, and wait for what ``--wait`` names."""
        if done.problem is not None:
            return Finished(problem=done.problem)
        session, shadow = self.load.session, self.shadow
        notes = Notes(session.emit)
        waited = problem = None
        try:
            if shadow is not None:
                if done.total.failures:
                    what = f"nothing is visible in {session.table_text}: some files failed"
                    notes.add("warning", what)
                elif session.options.replace:
                    if not self.settled.replaced:
                        shadow.swap()
                else:
                    _show_gathered(self, shadow, plan, notes)
            self._end_dead_loads()
            waited = _wait(session)
        except RowfallError as error:
            problem = self.cause(error)
        return Finished(tuple(notes.texts), waited.seconds if waited else 0.0, problem)

    def _end_dead_loads(self) -> None:
        """End what dead loads have left beside the target; where it fails, the next load does."""
        session = self.load.session
        if session.options.replace:
            return
        try:
            record_of(session).end_dead_loads(self.tables, self.load.id)
        except RowfallError as error:
            text = f"what dead loads have left could not be removed: {first_line(error)}"
            session.emit(Note("warning", text))


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
    return _open_leases(replace(prepared, writers=writers), found[0])


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


# --- the end of a load ---------------------------------------------------------------------------


def _show_gathered(prepared: PreparedTables, shadow: Shadow, plan: Plan, notes: Notes) -> None:
    """Make visible what attempts have gathered in the shadow, as one attempt.

    Raises:
        LedgerError: another process has loaded some of it meanwhile.
    """
    load, session = prepared.load, prepared.load.session
    gathered = load.ledger.loaded(load.key)
    if not gathered:
        shadow.drop()  # a stopped run had made everything visible
        return
    splits = [s for s in plan.listing.splits(session.target_key) if s.id in gathered]
    attempt, lease = _lease_gathered(prepared, shadow, splits)
    if lease.loaded:
        _give_up_gathered(load, shadow, splits, lease, notes)
        return
    (at,) = prepared.writers
    at.own.check()
    if session.options.upsert is not None:
        whole = prepared.whole if isinstance(prepared.whole, Journal) else None
        Upsert(
            session, load.ledger, shadow, at, key_of(session.options), load.id, load.salt, whole,
            prepared.whole_recovery,
        ).run(attempt, splits)  # fmt: skip
        return
    given = ReceiverInputs(load, plan, at.writer, notes, Revivals(notes), threading.Event())
    committed = CommittedParts(given, prepared.whole, prepared.whole_recovery)
    staged = shadow.publish(attempt, at, committed)
    at.wait_for_room(staged.moves, staged.parts)


def _lease_gathered(
    prepared: PreparedTables, shadow: Shadow, splits: Sequence[Split]
) -> tuple[str, Lease]:
    """Lease everything that was gathered, as one attempt; return its id, too.

    Whoever holds some of it is waited for: what was gathered becomes visible, or was in vain.

    Raises:
        AlteredTableError: some of it is staged by a dead process, and cannot become visible.
    """
    load, session = prepared.load, prepared.load.session
    ledger, recovery, told = load.ledger, prepared.whole_recovery, False
    while True:
        attempt = f"{load.id}_whole{ledger.attempts(load.id) + 1}"
        # Before the lease: after a crash the next run's attempt must have another name.
        ledger.attempt_started(attempt, load.id, shadow.name, session.target_key, splits)
        lease = prepared.whole.lease(attempt, splits)
        if lease.whole:
            return attempt, lease
        prepared.whole.release(attempt)
        ledger.attempt_ended(attempt, "lost", "other processes hold some of its files")
        if lease.loaded:
            return attempt, lease
        if lease.lost and recovery is not None:
            recovery.end(lease.lost)
            for name in lease.lost:
                if name in recovery.kept:
                    raise recovery.kept[name]
        if lease.busy:
            if not told:
                files = units.counted(len(lease.busy), "file")
                session.emit(
                    Note("info", f"waiting for another rowfall that loads {files} of these")
                )
            told = True
            time.sleep(BUSY_SECONDS)


def _give_up_gathered(
    load: LoadRun, shadow: Shadow, splits: Sequence[Split], lease: Lease, notes: Notes
) -> None:
    """Drop what was gathered: another load has made some of these files visible.

    Raises:
        LedgerError: not all of them.
    """
    shadow.drop()
    load.ledger.set_table(load.key, "")
    load.ledger.loaded_elsewhere(load.id, lease.loaded)
    text = (
        f"{units.counted(len(lease.loaded), 'file')} of this load were loaded into "
        f"{load.session.table_text} by another rowfall meanwhile, so what was gathered is dropped"
    )
    if len(lease.loaded) == len(splits):
        notes.add("warning", text)
        return
    raise LedgerError(
        text, hint="Run the same command again: it loads the other files.", transient=True
    )


def _wait(session: Session) -> Waited | None:
    """Wait as ``--wait`` says: for replicas first, then for merges."""
    wished = (session.options.wait or "").split(",")
    if "replicas" in wished:
        nodes_of(session).wait_for_replicas(session.emit)
    limits = [int(one.partition("=")[2]) for one in wished if one.startswith("merges=")]
    if not limits or not session.target.table:
        return None
    found = [
        Merges(writer.engine, session.emit).wait_until_fewer(
            writer.target.database, writer.target.table, min(limits)
        )
        for writer in session.writers
    ]
    parts, reached = sum(f.parts for f in found), all(f.reached for f in found)
    if not reached:
        text = f"{parts:,} parts are still active, and the server merges none of them at present"
        session.emit(Note("warning", text))
    return Waited(sum(f.seconds for f in found), parts, reached)
