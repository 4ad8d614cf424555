"""PostgreSQL, MySQL and Kafka: rows are committed together with the record of their files."""

from __future__ import annotations

from rowfall.contracts.destination import Opened, Opening, Receiving
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import LoadRun, Settled
from rowfall.contracts.session import Session
from rowfall.core.errors import TargetError
from rowfall.core.events import Note
from rowfall.core.model import Plan
from rowfall.core.options import Options
from rowfall.destinations.base import BaseDestination, BasePrepared
from rowfall.destinations.notes import add_splits, created, dropped
from rowfall.destinations.options_check import DATABASE, TOPIC, check_options
from rowfall.engines import database_class
from rowfall.engines.database import Database
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


def open_with_reader(opening: Opening) -> Opened:
    """Open a database and, where the source allows it, the engine that reads here.

    Raises:
        TargetError: the database is out of reach, or refuses.
    """
    at = opening.target.address
    assert at is not None  # noqa: S101 - by its kind
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
        self._database = database
        self._leases = TransactionLeases(database, load.id, load.salt)

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
