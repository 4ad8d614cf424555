"""Ask the user what rows are that no record tells of, with the commands that answer."""

from __future__ import annotations

from rowfall.contracts.session import Session
from rowfall.core import uri
from rowfall.core.errors import LedgerError
from rowfall.core.options import ADOPT, LOAD, command_line


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


def command_of(session: Session, command: str, *more: str) -> str:
    """Return a command about the same sources and the same table, to be pasted."""
    to, table = session.destination.named(session)
    named = ["--to", to] if session.to is not None else []
    if session.target.caps.takes_table_name:
        named += ["--table", table]
    return command_line(
        command, [uri.mask(text) for text in session.sources], session.options, *named, *more
    )
