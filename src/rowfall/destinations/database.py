"""Destinations in a database that itself keeps the record of what is loaded into a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from typing import Any

from rowfall.contracts.destination import Opened, OpenRequest, Session
from rowfall.contracts.facts import SourceColumns, TargetFacts
from rowfall.contracts.undo import Undo
from rowfall.core.errors import LedgerError, TargetError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import without_salt
from rowfall.core.model import Schema
from rowfall.core.options import ERROR, Options
from rowfall.core.results import Link, Undone
from rowfall.destinations import cursor_rows, database_survey
from rowfall.destinations.base import BaseDestination
from rowfall.destinations.network_links import network_links
from rowfall.destinations.options_check import DATABASE
from rowfall.destinations.questions import answers, unrecorded_rows
from rowfall.engines import database_class
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import RECORD, Database, FileTable, IndexedRecord, OverNetwork
from rowfall.ledger import Ledger
from rowfall.schema.table_changes import TargetColumns
from rowfall.sources.cursor import CursorRows
from rowfall.targets.base import Target


def open_database(target: Target, options: Options) -> Database:
    """Return the database that holds the table of a target; nothing is connected yet."""
    at = target.address
    assert at is not None  # noqa: S101 - by its kind
    opened = database_class(at.kind)  # its driver takes time that others save
    return opened(at, target.database, target.table, options)


def database_of(session: Session) -> Database:
    """Return the database that the session has opened for its target."""
    database = session.database
    assert database is not None  # noqa: S101 - opened for targets of this kind
    return database


def among(session: Session, database: Database) -> Callable[[Sequence[str]], set[str]] | None:
    """Return what answers for some files without reading the whole record; None for nothing."""
    if session.listing.continued or not isinstance(database, IndexedRecord):
        return None
    return database.loaded_among


def unrecorded(session: Session, database: Database) -> LedgerError | None:
    """Return the question what the rows of a table are of which no record tells; None for none."""
    options = session.options
    if options.replace or options.upsert or options.on_conflict != ERROR:
        return None
    if not database.unrecorded():
        return None
    if isinstance(database, FileTable) and (gone := database.gone()):
        return LedgerError(
            f"the record of what is loaded into {session.table_text} is gone: {gone}",
            hint=answers(session, f"the record {gone}"),
        )
    return unrecorded_rows(session, f"the record {RECORD}", "rows")


def resolve(session: Session, database: Database) -> None:
    """Stop at rows that no record tells of, or do what the user says about them.

    Raises:
        LedgerError: there are some, and nobody has said what they are.
    """
    found = unrecorded(session, database)
    if found is not None:
        if not session.options.force_append:
            raise found
        database.accept()
    elif session.options.loaded is not None and session.options.cursor is None:
        said = f"--loaded {session.options.loaded} changes nothing: record and table agree"
        session.emit(Note("info", said))


class RecordedDatabase(BaseDestination):
    """A table whose database knows what is loaded; the ledger only follows it."""

    offers = frozenset({DATABASE})

    def open(self, request: OpenRequest) -> Opened:
        """Connect; the engine of this machine starts when something asks it."""
        late = request.options.decoder != "never" and not request.options.set
        reader = request.reader(late=late) if request.reader is not None else None
        database = open_database(request.target, request.options)
        request.stack.callback(database.close)
        database.check(dry=request.dry)
        return Opened(database=database, reader=reader)

    def refusal(self, session: Session) -> TargetError | None:
        try:
            database_of(session).check(dry=False)
        except TargetError as error:
            return error
        return None

    def loaded_ids(self, session: Session) -> set[str]:
        return set(map(without_salt, database_of(session).loaded()))

    def loaded_among(self, session: Session, ids: Sequence[str]) -> set[str]:
        database = database_of(session)
        if isinstance(database, IndexedRecord):
            return database.loaded_among(ids)
        return self.loaded_ids(session).intersection(ids)

    def join_record(self, session: Session) -> None:
        database = database_of(session)
        if isinstance(database, IndexedRecord):
            database.join_record()

    def prune_record(self, session: Session, days: int) -> None:
        database = database_of(session)
        if isinstance(database, IndexedRecord):
            database.prune_record(days)

    def stored_rows(self, session: Session, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
        database = database_of(session)
        listed = database.existing_table()
        if listed is None:
            return ()
        if not listed.columns:
            return None
        cursor_rows.check_columns(session, listed, wanted)
        return self.ask_rows(session, wanted)

    def ask_rows(self, session: Session, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
        """Ask the database; None where it cannot be asked."""
        return cursor_rows.of_database(database_of(session), wanted)

    def contradiction(self, session: Session) -> LedgerError | None:
        return unrecorded(session, database_of(session))

    def stored_columns(self, session: Session, table: str | None) -> TargetColumns:
        if table is None:
            return TargetColumns(json_type=False)
        return database_survey.stored_columns(session, database_of(session))

    def options_here(self, session: Session) -> Options:
        return database_survey.options_here(session)

    def survey(
        self, session: Session, listed: ExistingTable | None, found: SourceColumns, *,
        thorough: bool,
    ) -> tuple[Schema, TargetFacts]:  # fmt: skip
        database = database_of(session)
        schema = database_survey.fit(session, found, listed)
        if listed is None:
            schema = database_survey.with_native(session, database, found.reach, schema)
        return schema, database_survey.ask(session, database, listed, thorough=thorough)

    def make_scratch(self, session: Session, like: str) -> None:
        if like:
            database_of(session).make_like(like)

    def erase(self, session: Session) -> None:
        database_of(session).erase()

    def network(self, session: Session) -> Sequence[Link]:
        database = database_of(session)
        if not isinstance(database, OverNetwork):
            return ()
        return network_links(
            database.host, database.ping, database.send_seconds, database.fetch_seconds
        )

    def forget(self, target: Target, load_id: str, options: Options) -> int:
        """Take a load out of the record beside the table and out of the ledger."""
        with (
            closing(open_database(target, options)) as database,
            closing(Ledger(target.ledger_path)) as ledger,
        ):
            gone = database.forget(load_id)
            if isinstance(database, IndexedRecord):
                gone += database.forget_loads(ledger.joined_to(load_id))
            if gone:
                database.accept()  # whoever forgets says that its rows are not to be asked about
            return max(gone, ledger.forget(load_id))

    def tables_query(self, target: Target) -> str | None:
        database = open_database(target, Options())
        return getattr(type(database), "LIST_TABLES", None)

    def undo(self, target: Target, asked: Undo) -> Undone:
        from rowfall.destinations.undo import alone, undo_by_column

        with self.beside(target) as tables, closing(Ledger(target.ledger_path)) as ledger:
            if tables is None:
                return super().undo(target, asked)
            with nullcontext() if asked.dry else alone(asked, ledger):
                return undo_by_column(
                    asked, ledger, tables, target.table,
                    lambda: self.forget(target, asked.load_id, asked.options),
                )  # fmt: skip

    def forget_attempt(self, target: Target, attempt: str) -> int:
        raise UsageError(
            f"{target.text} has no attempts that cannot become visible",
            hint=f"rowfall forget {attempt.partition('_')[0]} forgets the whole load.",
        )

    def join_loads(self, session: Session, ledger: Ledger, load_id: str, older: str) -> bool:
        """Join them in the ledger, where the table's own record knows what was loaded."""
        if not isinstance(database_of(session), IndexedRecord) or session.listing.continued:
            return False
        return ledger.join_load(load_id, older, session.target_key, ranges=False)

    def adopts(self, target: Target) -> bool:
        return True

    def table_exists(self, session: Session) -> bool:
        return database_of(session).existing_table() is not None

    def accept(self, session: Session, ledger: Ledger, load_id: str) -> None:
        database_of(session).accept()
