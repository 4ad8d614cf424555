"""Ask the user what rows are that no record tells of, with the commands that answer."""

from __future__ import annotations

from rowfall.contracts.destination import Session
from rowfall.core import units, uri
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.options import ADOPT, ALL, LOAD, NONE, command_line, load_command

# What the question about an emptied table adds where there are rows, or may be.
LATER_ROWS = ", and any rows that it holds came later"


def unrecorded_rows(session: Session, where: str, rows: str) -> LedgerError:
    """Return the question what the rows of a table are of which no record tells.

    Args:
        where: what remembers loads into the target, for people.
        rows: what the table holds, in words.
    """
    return LedgerError(
        f"{session.table_text} holds {rows} that nobody has on record: {where} does not know the "
        "table, so files that were loaded before would be loaded again",
        hint=answers(session, where),
    )


def emptied_table(session: Session, count: int, also: str = "") -> LedgerError:
    """Return the question what is to count of a table whose loaded rows are gone.

    Args:
        count: of the files, ranges or messages of this load that count as loaded.
        also: a clause about rows that the table holds.
    """
    return LedgerError(
        f"{units.counted(count, session.listing.unit)} of this load count as loaded, but the rows "
        f"that were loaded into {session.table_text} are gone: it was emptied since (TRUNCATE)"
        f"{also}",
        hint="Say what is to count.\n"
        f"The rows are missing: {command_of(session, LOAD, '--loaded', NONE)}\n"
        f"They were removed on purpose: {command_of(session, LOAD, '--loaded', ALL)}",
    )


def check_emptied_answer(answer: str, question: LedgerError) -> None:
    """Check that ``--loaded`` answers the question about an emptied table.

    Raises:
        UsageError: it does not.
    """
    if answer not in (ALL, NONE):
        raise UsageError(
            f"--loaded {answer} is no answer here: the record still counts rows that are gone",
            hint=question.hint,
        )


def answers(session: Session, where: str) -> str:
    """Return the commands that say what rows are which nobody has on record.

    Args:
        where: what remembers loads into the target, for people.
    """
    lines = [
        "Say what these rows are.",
        f"Other rows, to append to: {command_of(session, LOAD, '--force-append')}",
        f"Those of these files, which then count as loaded: {command_of(session, ADOPT)}",
        f"Loaded before, and {where} was lost or is an older copy: put it back.",
    ]
    if not session.source.replayable or not session.destination.adopts(session.target):
        del lines[2]  # nothing to name, or a target without a record
    return "\n".join(lines)


def about_load(session: Session, command: str, load_id: str, *more: str) -> str:
    """Return a command about a load into the target of a session, to be pasted."""
    to = session.destination.named(session)[0] if session.to is not None else None
    return load_command(command, load_id, to, *more)


def command_of(session: Session, command: str, *more: str) -> str:
    """Return a command about the same sources and the same table, to be pasted."""
    to, table = session.destination.named(session)
    named = ["--to", to] if session.to is not None else []
    if session.target.caps.takes_table_name:
        named += ["--table", table]
    return command_line(
        command, [uri.mask(text) for text in session.sources], session.options, *named, *more
    )
