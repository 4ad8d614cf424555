"""PostgreSQL, MySQL and Kafka: rows are committed together with the record of their files."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.contracts.destination import Opened, Opening, Query, Receiving
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, LoadRun, Settled
from rowfall.contracts.session import Session
from rowfall.core import units
from rowfall.core.errors import LedgerError, TargetError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Split
from rowfall.core.model import Plan
from rowfall.core.options import Options
from rowfall.core.results import Leftover, Verification
from rowfall.destinations.base import BaseDestination, BasePrepared, ledger_of
from rowfall.destinations.notes import add_splits, created, dropped
from rowfall.destinations.options_check import DATABASE, TOPIC, check_options
from rowfall.engines import database_class
from rowfall.engines.database import Database, Record
from rowfall.ledger import Ledger
from rowfall.plan.memory import find_contradiction
from rowfall.publish.transaction import (
    TransactionLeases,
    TransactionReceiver,
    end_open_transactions,
    hold_streams,
    landed_in,
)
from rowfall.targets.base import ServerAt, Target
from rowfall.targets.transactional import TransactionalTable


def open_database(at: ServerAt, target: Target, options: Options) -> Database:
    """Return the database that holds the table of a target; nothing is connected yet."""
    opened = database_class(at.kind)  # its driver takes time that others save
    return opened(
        at.host, at.port, at.user, at.password, at.options, target.database, target.table, options
    )


def address_of(target: Target) -> ServerAt:
    """Return the address of the database that a target is in."""
    assert target.address is not None  # noqa: S101 - by its kind
    return target.address


def only_loads(target: Target, attempt: str) -> UsageError:
    """Return the error of who would give up a single attempt."""
    return UsageError(
        f"{target.text} has no attempts that cannot become visible",
        hint=f"rowfall forget {attempt.partition('_')[0]} forgets the whole load.",
    )


def forget(target: Target, load_id: str, options: Options) -> int:
    """Take a load out of the record beside the table and out of the ledger."""
    database = open_database(address_of(target), target, options)
    ledger = Ledger(target.ledger_path)
    try:
        gone = database.forget(load_id)
        if gone:
            database.accept()  # whoever forgets says that its rows are not to be asked about
        return max(gone, ledger.forget(load_id))
    finally:
        ledger.close()
        database.close()


def open_with_reader(opening: Opening) -> Opened:
    """Open a database and, where the source allows it, the engine that reads here.

    Raises:
        TargetError: the database is out of reach, or refuses.
    """
    at = address_of(opening.target)
    reader = opening.reader() if opening.reader is not None else None
    database = open_database(at, opening.target, opening.options)
    opening.stack.callback(database.close)
    database.check(dry=opening.dry)
    return Opened(database=database, reader=reader)


def refusal(database: Database) -> TargetError | None:
    """Return which right a load would lack; None where it has all."""
    try:
        database.check(dry=False)
    except TargetError as error:
        return error
    return None


def database_of(session: Session) -> Database:
    """Return the database that the session has opened for its target."""
    database = session.database
    assert database is not None  # noqa: S101 - opened for targets of this kind
    return database


def resolve(session: Session, database: Database) -> None:
    """Stop at rows that no record tells of, or do what the user says about them.

    Raises:
        LedgerError: there are some, and nobody has said what they are.
    """
    found = find_contradiction(session)
    if found is not None:
        if not session.options.force_append:
            raise found.error
        database.accept()
    elif session.options.loaded is not None:
        said = f"--loaded {session.options.loaded} changes nothing: record and table agree"
        session.emit(Note("info", said))


class PreparedTransactions(BasePrepared):
    """A load each attempt of which is a transaction."""

    def __init__(self, load: LoadRun, database: Database) -> None:
        self._load, self._database = load, database
        self._leases = TransactionLeases(database, load.id, load.salt)

    def pull(self, plan: Plan) -> Done | None:
        """Let a pipeline of SingleStore read the source, where ``--pull`` asks for it."""
        session = self._load.session
        if not session.options.pull:
            return None
        from rowfall.destinations.pipelines import run_pipelines  # with the client of MySQL: 8 ms

        return run_pipelines(self._load, plan)

    def receiver(self, given: Receiving) -> TransactionReceiver:
        return TransactionReceiver(given, self._database, self._leases)


class TransactionalDatabase(BaseDestination):
    """A table, or a topic, of a database that commits transactions."""

    writes = "database"
    offers = frozenset({DATABASE})

    def check(self, target: Target, options: Options) -> None:
        assert isinstance(target, TransactionalTable)  # noqa: S101 - by its kind
        # Rows are pushed in any case.
        takes = ("streams", "push", *target.takes)
        offers = {*self.offers, TOPIC} if target.caps.topic else self.offers
        check_options(target, options, offers, takes)

    def open(self, opening: Opening) -> Opened:
        """Connect while the engine of this machine opens, 0.1 s either."""
        return open_with_reader(opening)

    def refusal(self, session: Session) -> TargetError | None:
        return refusal(database_of(session))

    def verify(self, session: Session, load_id: str) -> Verification:
        from rowfall.destinations.verify import verify_database

        if session.target.caps.topic:
            raise UsageError(
                f"load {load_id} went into a topic, whose messages are not compared",
                hint=f"Read and count them: rowfall load '{session.target.text}' --table t",
            )
        return verify_database(session, ledger_of(session, load_id), load_id, database_of(session))

    def query(self, target: Target, query: Query) -> None:
        from rowfall.destinations.query import query_database

        query_database(target, address_of(target), query)

    def clean(self, target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
        """Do nothing: what is not committed ends with its connection."""
        return []

    def forget(self, target: Target, load_id: str, options: Options) -> int:
        return forget(target, load_id, options)

    def forget_attempt(self, target: Target, attempt: str) -> int:
        raise only_loads(target, attempt)

    def join_loads(self, session: Session, ledger: Ledger, load_id: str, older: str) -> bool:
        """Leave them: the table keeps a record of its own."""
        return False

    def adopts(self, target: Target) -> bool:
        return not target.caps.topic

    def table_exists(self, session: Session) -> bool:
        return database_of(session).existing_table() is not None

    def accept(self, session: Session, ledger: Ledger, load_id: str) -> None:
        database_of(session).accept()

    def record_adopted(
        self, session: Session, ledger: Ledger, attempt: str, splits: Sequence[Split]
    ) -> None:
        database, load_id = database_of(session), attempt.partition("_")[0]
        transaction = database.transaction(attempt)
        try:
            taken = transaction.lease(
                attempt, load_id,
                [Record(s.id, s.name, s.whole if s.part else "", large=False) for s in splits],
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
        resolve(session, database)
        landed = landed_in(database, load.id, force=session.options.force)
        return Settled(session, session.target.table, landed)

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
        todo = [i for g in plan.groups for i in g.indexes]
        # Before anything is read: the other one may take hours.
        hold_streams(database, plan.listing.splits(session.target_key, todo))
        add_splits(load, plan)
        return PreparedTransactions(load, database)
