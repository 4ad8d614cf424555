"""Ask the user about a table whose loaded rows are gone, while its record still counts them.

TRUNCATE leaves the identity of a table. Files that count as loaded would be skipped without a
word, and nobody would miss their rows.
"""

from __future__ import annotations

from collections.abc import Collection

from rowfall.contracts.destination import Session
from rowfall.core.errors import LedgerError
from rowfall.core.events import Note
from rowfall.core.listing import MARK, without_salt
from rowfall.core.options import ALL, NONE
from rowfall.destinations import older_record
from rowfall.destinations.questions import LATER_ROWS, check_emptied_answer, emptied_table
from rowfall.engines.database import Database, NoticesEmptied


def find(session: Session, database: Database, loaded: Collection[str]) -> LedgerError | None:
    """Return the question about files of this load whose rows are gone; None where there is none.

    Args:
        loaded: ids of splits that count as loaded, and marks of files that were cut.
    """
    options = session.options
    if options.replace or options.force or options.cursor is not None or not loaded:
        return None  # it is loaded anew, or compared with what is there
    if options.follow or session.listing.continued:
        return None  # nobody is there to answer; and what follows in a stream is all there is to do
    if not isinstance(database, NoticesEmptied):
        return None
    splits = session.listing.splits(session.target_key)
    ids = [(without_salt(one.id), one.whole) for one in splits]
    marks = {without_salt(i.removeprefix(MARK)) for i in loaded if i.startswith(MARK)}
    known = {*map(without_salt, loaded)}
    count = sum(i in known or i in marks or whole in known for i, whole in ids)
    if not count or not database.is_emptied():
        return None
    return emptied_table(session, count, LATER_ROWS)


def resolve(session: Session, database: Database, loaded: Collection[str]) -> bool:
    """Do what ``--loaded`` says about rows that are gone; return whether there was a question.

    Raises:
        LedgerError: there is one, and nobody has answered.
        UsageError: what ``--loaded`` says is no answer here.
    """
    found = find(session, database, loaded)
    if found is None:
        return False
    assert isinstance(database, NoticesEmptied)  # noqa: S101 - or nothing was found
    answer = session.options.loaded
    if answer is None:
        raise found
    check_emptied_answer(answer, found)
    if answer == NONE:
        database.forget_all()
        older_record.forget(session, older_record.unconfirmed(session, database))
    if answer == ALL or database.unrecorded():
        database.accept()  # whatever rows are there are those of others
    what = "what was loaded is loaded again" if answer == NONE else "what was loaded stays away"
    session.emit(Note("info", f"--loaded {answer}: {session.table_text} was emptied, and {what}"))
    return True
