"""PostgreSQL, MySQL and Kafka: rows are committed together with the record of their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.delivery import Delivery
from rowfall.contracts.destination import Query, Receiving
from rowfall.contracts.facts import FirstFacts, LoadFacts, TargetFacts
from rowfall.contracts.load import Done, LoadRun, Settled
from rowfall.contracts.session import Session, Writer
from rowfall.core import sql, units
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.events import Listener
from rowfall.core.listing import Split
from rowfall.core.model import SEND, Choice, Group, Plan, Schema, Transport
from rowfall.core.options import Options
from rowfall.core.results import Leftover, Verification
from rowfall.decoder.installed import PROGRAM
from rowfall.deliver.route import open_sending
from rowfall.destinations import older_record
from rowfall.destinations.base import BasePrepared, ledger_of
from rowfall.destinations.database import RecordedDatabase, database_of, resolve, unrecorded
from rowfall.destinations.notes import add_splits, created, dropped
from rowfall.destinations.older_record import OlderRecord
from rowfall.destinations.options_check import DATABASE, TOPIC, check_options
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import Database, SplitRecord
from rowfall.ledger import Ledger
from rowfall.plan import attempts
from rowfall.plan.transport import choose_text_writer, pack_by_link
from rowfall.publish.transaction import (
    TransactionLeases,
    TransactionReceiver,
    end_open_transactions,
    hold_streams,
    loaded_in,
)
from rowfall.schema.projection import Scan
from rowfall.systems.mysql import pipelines
from rowfall.targets.base import Target
from rowfall.targets.transactional import TransactionalTable

# Connections: one sends while the other commits; each loads the server, which others use, too.
_LEAST, _MOST = 2, 8
# Attempts for each of them, and their least bytes: a commit and what is around it take 20 ms.
_EACH, _LEAST_ATTEMPT = 4, 4e6


def table_of(target: Target) -> TransactionalTable:
    """Return the target as the table of a database that it is."""
    assert isinstance(target, TransactionalTable)  # noqa: S101 - by its kind
    return target


class PreparedTransactions(BasePrepared):
    """A load each attempt of which is a transaction."""

    def __init__(self, load: LoadRun, database: Database) -> None:
        super().__init__(load)
        self._database = database
        self._leases = TransactionLeases(database, load.id, load.salt)

    def pull(self, plan: Plan) -> Done | None:
        """Let a pipeline of SingleStore read the source, where ``--pull`` asks for it."""
        session = self._load.session
        if not session.options.pull:
            return None
        from rowfall.destinations.pipelines import run_pipelines  # with the client of MySQL: 8 ms

        return run_pipelines(self._load, plan)

    def delivery(self, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        target = table_of(writer.target)
        return open_sending(self._load.session, facts, plan, writer, target, self._database)

    def receiver(self, given: Receiving) -> TransactionReceiver:
        return TransactionReceiver(given, self._database, self._leases)


class TransactionalDatabase(RecordedDatabase):
    """A table of a database that commits transactions."""

    rows_become = "database"
    takes_text = True
    visible_when = "all rows of a transaction in one moment, one after the other"

    def check(self, target: Target, options: Options) -> None:
        # Rows are pushed in any case.
        takes = ("streams", "push", *table_of(target).takes)
        check_options(target, options, self.offers, takes)

    def contradiction(self, session: Session) -> LedgerError | None:
        found = super().contradiction(session)
        older = None if found else self.older_record(session, database_of(session))
        return older.error if older is not None else found

    def older_record(self, session: Session, database: Database) -> OlderRecord | None:
        """Return the question about a record that knows less than the ledger; None for none."""
        return older_record.find(session, database)

    def survey(
        self, session: Session, listed: ExistingTable | None, schema: Schema, *, thorough: bool
    ) -> TargetFacts:
        found = super().survey(session, listed, schema, thorough=thorough)
        if session.options.pull and pipelines.pulls(session.target, session.options):
            return replace(found, promise=pipelines.PROMISE)
        return found

    def cut(
        self, facts: LoadFacts, options: Options, cores: int, todo: Sequence[int]
    ) -> tuple[Group, ...]:
        """Make attempts so that connections which begin together end together."""
        count = _EACH * self.connections(facts, options)

        def limit(usual: float, total: float) -> float:
            return max(_LEAST_ATTEMPT, min(usual, total / count))

        return attempts.cut_evenly(facts, options, cores, todo, limit)

    def lanes(self, facts: LoadFacts, options: Options, cores: int, busy: int) -> int:
        """Run an attempt on each connection: it is one transaction there."""
        return max(1, min(self.connections(facts, options), busy))

    def connections(self, facts: FirstFacts, options: Options) -> int:
        """Return the number of connections that rows are sent over, if there are enough rows.

        Each is a process or thread of the server that parses text and writes rows: the cores there
        are not known, so those here stand for them.
        """
        if options.transactional:
            return 1  # a topic has one open transaction, so that another rowfall can fence it
        if table_of(facts.target).in_process and not options.streams:
            # Two cut row groups short, which are written again: 2 million lineitem rows take 3.6
            # CPU seconds and 92 MB in place of 2.5 and 67.
            return 1
        return options.streams or max(_LEAST, min(_MOST, facts.cores_here))

    def adapt_transport(
        self, facts: LoadFacts, options: Options, transport: Transport
    ) -> Transport:
        """Send rows as text, or in binary where rowfall-decode writes it."""
        target = table_of(facts.target)
        parts = choose_text_writer(facts, target, transport.parser)
        by = PROGRAM if parts.value == PROGRAM else "the engine"
        binary = facts.table.database.binary and parts.value == PROGRAM
        form = "in binary" if binary else f"as {target.form}"
        compression = transport.compression
        if facts.todo and facts.table.database.link is not None:
            compression = pack_by_link(facts.table.database.link, options, facts.cores_here)
        delivery = Choice(SEND, f"rows are taken {form}, which {by} writes")
        return replace(
            transport, delivery=delivery, parts=parts, compression=compression, binary=binary
        )

    def example(
        self, facts: LoadFacts, options: Options, transport: Transport, splits: Sequence[Split]
    ) -> str:
        """Return the command that takes the rows, and the SELECT that gives them."""
        target, schema = table_of(facts.target), facts.schema
        if options.pull and pipelines.pulls(target, options):
            create = pipelines.create_pipeline(
                facts.source, target, options, facts.encoding, schema
            )
            own = pipelines.pipeline_name(facts.source, target)
            return f"{create};\nSTART PIPELINE `{own}` FOREGROUND;\nDROP PIPELINE `{own}`"
        scan = Scan(facts.source_for(transport), splits, facts.encoding, schema)
        rows = sql.select(schema.columns, scan.relation())
        command, form = target.command(schema), target.form
        if transport.binary:
            command, form = target.command_of_binary(schema), "values in binary"
        return f"{command}\n-- of the rows that are read here, as {form}:\n{rows}"

    def verify(self, session: Session, load_id: str) -> Verification:
        from rowfall.destinations.verify import verify_database

        return verify_database(session, ledger_of(session, load_id), load_id, database_of(session))

    def query(self, target: Target, query: Query) -> None:
        from rowfall.destinations.query import query_database

        query_database(target, query)

    def clean(self, target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
        """Do nothing: what is not committed ends with its connection."""
        return []

    def record_adopted(
        self, session: Session, ledger: Ledger, attempt: str, splits: Sequence[Split]
    ) -> None:
        database, load_id = database_of(session), attempt.partition("_")[0]
        transaction = database.transaction(attempt)
        try:
            taken = transaction.lease(
                attempt, load_id,
                [SplitRecord(s.id, s.name, s.whole if s.part else "", large=False) for s in splits],
            )  # fmt: skip
            if taken:
                raise LedgerError(
                    f"another rowfall has just recorded {units.counted(len(taken), 'file')} of "
                    "these",
                    hint="Run the same command again.",
                    transient=True,
                )
            transaction.finish(0)
            transaction.commit()
        finally:
            database.ended(attempt)
        ledger.set_table(session.target_key, database.table_id())

    def settle(self, load: LoadRun) -> Settled:
        session, ledger = load.session, load.ledger
        database, key = database_of(session), session.target_key
        end_open_transactions(database, ledger, key, load.others, session.emit)
        known, there = ledger.table_uuid(key), database.table_id()
        if known and known != there and (forgotten := ledger.set_table(key, there)):
            session.emit(dropped(session, forgotten))
        asked = unrecorded(session, database) is not None
        older = None if asked else self.older_record(session, database)
        if older is not None:
            older_record.resolve(session, older)
        else:
            resolve(session, database)
        if asked:  # and answered: what the ledger knows is not a row of this table
            older_record.forget(session, older_record.unconfirmed(session, database))
        loaded = loaded_in(database, load.id, force=session.options.force)
        return Settled(session.target.table, loaded)

    def prepare(
        self, load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan
    ) -> PreparedTransactions:
        """Make the table where it is missing, and the record of what is loaded."""
        session = load.session
        database = database_of(session)
        statements = () if plan.schema.exists else session.target.create(plan.schema)
        if statements:
            session.emit(created(session, plan))
        database.prepare(statements)
        load.ledger.set_table(session.target_key, database.table_id())
        todo = [i for g in plan.work.groups for i in g.indexes]
        # Before anything is read: the other one may take hours.
        hold_streams(database, plan.listing.splits(session.target_key, todo))
        add_splits(load, plan)
        return PreparedTransactions(load, database)


class Topic(TransactionalDatabase):
    """A topic of Kafka: each row becomes a message."""

    offers = frozenset({DATABASE, TOPIC})

    def older_record(self, session: Session, database: Database) -> OlderRecord | None:
        """Return None: messages cannot be counted against what the ledger knows."""
        return None

    def visibility(self, facts: LoadFacts, transport: Transport, options: Options) -> str:
        return (
            self.visible_when
            if options.transactional
            else "each row as soon as its message is written"
        )

    def verify(self, session: Session, load_id: str) -> Verification:
        raise UsageError(
            f"load {load_id} went into a topic, whose messages are not compared",
            hint=f"Read and count them: rowfall load '{session.target.text}' --table t",
        )

    def adopts(self, target: Target) -> bool:
        return False
