"""PostgreSQL, MySQL and Kafka: rows are committed together with the record of their files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import Delivery
from rowfall.contracts.destination import LoadRun, Query, ReceiverInputs, Session
from rowfall.contracts.facts import FirstFacts, LoadFacts, SourceColumns, TargetFacts
from rowfall.contracts.load import Done, Finished, Settled
from rowfall.contracts.receiver import Notes
from rowfall.core import sql, units
from rowfall.core.errors import LedgerError, RowfallError, SourceError, UsageError
from rowfall.core.events import Listener
from rowfall.core.listing import Split, without_salt
from rowfall.core.model import ENGINE, SEND, Choice, Group, Plan, Schema, Transport
from rowfall.core.options import ERROR, Options
from rowfall.core.results import Leftover, Verification
from rowfall.core.tuned import Cell
from rowfall.decoder.installed import PROGRAM
from rowfall.deliver.route import open_sending
from rowfall.destinations import emptied, older_record
from rowfall.destinations.base import BasePrepared, ledger_of
from rowfall.destinations.beside import of_database
from rowfall.destinations.database import (
    RecordedDatabase,
    among,
    database_of,
    open_database,
    resolve,
    unrecorded,
)
from rowfall.destinations.notes import created, dropped
from rowfall.destinations.older_record import OlderRecord
from rowfall.destinations.options_check import DATABASE, TOPIC, check_options
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import Database, SplitRecord, SupportsGathering
from rowfall.engines.small_tables import SmallTables
from rowfall.ledger import Ledger, target_key
from rowfall.plan import attempts
from rowfall.plan.links import pack_by_link
from rowfall.plan.transport import choose_text_writer
from rowfall.plan.upserts import key_of
from rowfall.publish.transaction import (
    TransactionLeases,
    TransactionReceiver,
    end_open_transactions,
    hold_streams,
    loaded_in,
)
from rowfall.schema.projection import Scan
from rowfall.systems.mysql import pipelines
from rowfall.targets.base import SHADOW_SUFFIX, STAGING_PREFIX, Target
from rowfall.targets.transactional import TransactionalTable

# Connections: one sends while the other commits; each loads the server, which others use, too.
_LEAST, _MOST = 2, 8
# Attempts for each of them, and their least bytes: a commit and what is around it take 20 ms.
_EACH, _LEAST_ATTEMPT = 4, 4e6


def table_of(target: Target) -> TransactionalTable:
    """Return the target as the table of a database that it is."""
    assert isinstance(target, TransactionalTable)  # noqa: S101 - by its kind
    return target


def _gathers(options: Options) -> bool:
    """Return True where the rows of a load gather beside the table until its end."""
    return options.gathers or options.replace


class PreparedTransactions(BasePrepared):
    """A load each attempt of which is a transaction."""

    def __init__(self, load: LoadRun, database: Database, *, replaced: bool = False) -> None:
        super().__init__(load)
        self._database, self._replaced = database, replaced
        self._leases = TransactionLeases(database, load.id, load.salt)

    def pull(self, plan: Plan) -> Done | None:
        """Let a pipeline of SingleStore read the source, where ``--pull`` asks for it."""
        session = self._load.session
        if not session.options.pull:
            return None
        from rowfall.destinations.pipelines import run_pipelines  # with the client of MySQL: 8 ms

        return run_pipelines(self._load, plan)

    def delivery(self, session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        target = table_of(writer.target)
        return open_sending(session, facts, plan, writer, target, self._database)

    def receiver(self, given: ReceiverInputs) -> TransactionReceiver:
        return TransactionReceiver(given, self._database, self._leases)

    def finish(self, plan: Plan, done: Done) -> Finished:
        """Make visible what has gathered beside the table, where the options ask for that."""
        if done.problem is not None or not isinstance(self._database, SupportsGathering):
            return Finished(problem=done.problem)
        session, notes, problem = self._load.session, Notes(self._load.session.emit), None
        gathered = self._load.ledger.loaded(self._load.key)
        if done.total.failures and _gathers(session.options):
            notes.add("warning", f"nothing is visible in {session.table_text}: some files failed")
        elif _gathers(session.options):
            try:
                if self._replaced or not (gathered or session.options.replace):
                    self._database.drop_gathered()  # a stopped run has made everything visible
                else:
                    self._publish_gathered(self._database, plan, gathered)
            except RowfallError as error:
                problem = error
        return Finished(tuple(notes.texts), problem=problem)

    def _publish_gathered(
        self, database: SupportsGathering, plan: Plan, gathered: Collection[str]
    ) -> None:
        load, options = self._load, self._load.session.options
        ledger, key = load.ledger, load.session.target_key
        splits = [s for s in plan.listing.splits(key) if s.id in gathered]
        rows = ledger.loaded_rows(load.key)
        attempt = f"{load.id}_whole{ledger.attempts(load.id) + 1}"
        # Before the commit: after a crash the next run asks the record for this attempt.
        staging = f"{STAGING_PREFIX}{load.id}{SHADOW_SUFFIX}"
        ledger.attempt_started(attempt, load.id, staging, key, splits)
        ledger.attempt_committed(attempt, rows, ())
        try:
            database.publish_gathered(attempt, key_of(options), replace=options.replace)
        except RowfallError as error:
            ledger.attempt_ended(attempt, "lost", error.message)
            if isinstance(error, SourceError):  # its rows will never do
                database.drop_gathered()
                ledger.forget_splits(load.key, gathered)
            raise
        ledger.set_table(key, database.table_id())  # that of replaced rows held other files
        ledger.attempt_published(attempt, key)


class TransactionalDatabase(RecordedDatabase):
    """A table of a database that commits transactions."""

    rows_become = "database"
    takes_text = True
    runs_sql = True
    visible_when = "all rows of a transaction in one moment, one after the other"

    def check(self, target: Target, options: Options) -> None:
        # Rows are pushed in any case.
        takes = ("streams", "push", *table_of(target).takes)
        check_options(target, options, self.offers, takes)
        key_of(options)
        if options.gathers and options.on_conflict != ERROR:
            raise UsageError(
                f"--on-conflict {options.on_conflict} looks at each attempt, and --atomic and "
                "--upsert gather all of them first",
                hint="Leave one of them out.",
            )

    def key(self, session: Session, load_id: str) -> str:
        key = super().key(session, load_id)
        return target_key(key, load_id) if _gathers(session.options) else key

    def visibility(self, facts: LoadFacts, transport: Transport, options: Options) -> str:
        if options.replace or options.upsert is not None:
            return "the old rows or the new ones: exchanged in one moment at the end of the load"
        if options.atomic:
            return "nothing until the end of the load, then all rows in one moment"
        return super().visibility(facts, transport, options)

    def contradiction(self, session: Session) -> LedgerError | None:
        found = super().contradiction(session)
        if found is not None:
            return found
        database, key = database_of(session), session.target_key
        older = self.older_record(session, database)
        if older is not None:
            return older.error
        ids = [split.id for split in session.listing.splits(key)]
        return emptied.find(session, database, self.loaded_among(session, ids))

    def older_record(self, session: Session, database: Database) -> OlderRecord | None:
        """Return the question about a record that knows less than the ledger; None for none."""
        return older_record.find(session, database)

    def survey(
        self, session: Session, listed: ExistingTable | None, found: SourceColumns, *,
        thorough: bool,
    ) -> tuple[Schema, TargetFacts]:  # fmt: skip
        schema, asked = super().survey(session, listed, found, thorough=thorough)
        if session.options.pull and pipelines.pulls(session.target, session.options):
            asked = replace(asked, promise=pipelines.PROMISE)
        return schema, asked

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

    def cells(self, facts: LoadFacts, plan: Plan, options: Options, rows: int) -> list[Cell]:
        """Offer connections, and the bytes of one transaction."""
        from rowfall.plan.tuning import of_connections

        most = 1 if options.transactional else None
        return of_connections(facts, plan, options, most=most)

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
        target, encoding = table_of(facts.target), facts.encoding
        parts, parser = choose_text_writer(facts, target, transport.parser), transport.parser
        if parts.value == ENGINE and encoding is not None and encoding.format == "Parquet":
            # Where the engine has to start, a pipe in front of it saves nothing.
            parser = parser if options.decoder == "always" else Choice(ENGINE, parts.reason)
        by = PROGRAM if parts.value == PROGRAM else "the engine"
        binary = facts.table.database.binary and target.writes_binary(facts.schema)
        binary = binary and parts.value == PROGRAM
        form = "in binary" if binary else f"as {target.rows.name}"
        compression = transport.compression
        if facts.todo and facts.table.database.link is not None:
            compression = pack_by_link(facts.table.database.link, options, facts.cores_here)
        delivery = Choice(SEND, f"rows are taken {form}, which {by} writes")
        return replace(
            transport, delivery=delivery, parser=parser, parts=parts, compression=compression,
            binary=binary,
        )  # fmt: skip

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
        command, form = target.command(schema), target.rows.name
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
        """Remove what dead loads have gathered; what is not committed ends with its connection."""
        if not target.ledger_path.exists() or not table_of(target).takes & {"atomic", "replace"}:
            return []
        with closing(open_database(target, Options())) as database:
            assert isinstance(database, SupportsGathering)  # noqa: S101 - for targets that take it
            with closing(Ledger(target.ledger_path)) as ledger:
                alive = {
                    row.id for row in ledger.loads("WHERE state = 'running'")
                    if ledger.runs(row)
                }  # fmt: skip
            found = [
                Leftover("", name, load_id, rows, 0, False)
                for name, load_id, rows in database.gathered_tables()
                if load_id not in alive
            ]
            for left in found if not dry else ():
                database.drop_left(left.name)
            return found

    def small_tables(self, session: Session) -> SmallTables | None:
        at = session.target.address
        return None if at is None else of_database(database_of(session), at.kind)

    @contextmanager
    def beside(self, target: Target) -> Iterator[SmallTables | None]:
        at = target.address
        if at is None or table_of(target).in_process:
            yield None
            return
        with closing(open_database(target, Options())) as database:
            yield of_database(database, at.kind)

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
        gathered = None
        if _gathers(session.options):
            assert isinstance(database, SupportsGathering)  # noqa: S101 - or the option is refused
            gathered = database.gather(load.id)
        end_open_transactions(database, ledger, {key, load.key}, load.others, session.emit)
        known, there = ledger.table_uuid(key), database.table_id()
        forgotten = ledger.set_table(key, there) if known and known != there else 0
        if forgotten and not session.options.replace:  # or its own stopped run has done that
            session.emit(dropped(session, forgotten))

        def recorded() -> frozenset[str]:
            return loaded_in(
                database, load.id, force=session.options.force, among=among(session, database),
                splits=lambda: session.listing.splits(key),
            )  # fmt: skip

        loaded = recorded()
        if emptied.resolve(session, database, loaded):
            loaded = recorded()
        else:
            asked = unrecorded(session, database) is not None
            older = None if asked else self.older_record(session, database)
            if older is not None:
                older_record.resolve(session, older)
            else:
                resolve(session, database)
            if asked:  # and answered: what the ledger knows is not a row of this table
                older_record.forget(session, older_record.unconfirmed(session, database))
        if gathered is None or not isinstance(database, SupportsGathering):
            return Settled(session.target.table, loaded)
        if session.options.replace:
            loaded = frozenset(map(without_salt, database.loaded_by(load.id)))
        ids = frozenset(map(without_salt, gathered))
        replaced = session.options.replace and bool(loaded) and not gathered
        return Settled(session.target.table, loaded | ids, replaced=replaced)

    def settle_again(self, load: LoadRun, known: frozenset[str]) -> Settled | None:
        database, key = database_of(load.session), load.session.target_key
        same = load.ledger.table_uuid(key) == database.table_id()
        if not same or load.ledger.open_attempts() or load.session.listing.continued:
            return None
        return Settled(load.session.target.table, known)

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
        return PreparedTransactions(load, database, replaced=settled.replaced)


class Topic(TransactionalDatabase):
    """A topic of Kafka: each row becomes a message."""

    runs_sql = False
    offers = frozenset({DATABASE, TOPIC})

    def table_exists(self, session: Session) -> bool:
        """Return whether the topic is there: it has no columns that would say so."""
        return bool(database_of(session).table_id())

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
