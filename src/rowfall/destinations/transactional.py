"""PostgreSQL, MySQL and Kafka: rows are committed together with the record of their files."""

from __future__ import annotations

from rowfall.contracts.destination import Receiving
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import LoadRun, Settled
from rowfall.contracts.session import Session
from rowfall.core.events import Note
from rowfall.core.model import Plan
from rowfall.destinations.base import BaseDestination, BasePrepared
from rowfall.destinations.notes import add_splits, created, dropped
from rowfall.engines.database import Database
from rowfall.plan.memory import find_contradiction
from rowfall.publish.transaction import (
    TransactionLeases,
    TransactionReceiver,
    end_open_transactions,
    hold_streams,
    landed_in,
)


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
