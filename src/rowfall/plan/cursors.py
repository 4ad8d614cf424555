"""Go on behind the last value of a column (``--cursor``): what came late, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.errors import UsageError
from rowfall.core.events import Note
from rowfall.core.options import ALL
from rowfall.schema.table_options import read_column_options
from rowfall.sources.base import ByCursor
from rowfall.sources.cursor import STEPS, Cursor, Overlap, late

Range = tuple[int, int]


def go_on(
    session: Session, source: ByCursor, loaded: Sequence[Range], visible: Sequence[Range]
) -> None:
    """Compare the last values with the target, and have the source read what came late.

    Args:
        loaded: ranges that are loaded. ``visible``: those whose rows are in the table; others wait
            beside it for the end of the load.

    Raises:
        SourceError: the table was set back. UsageError: the target cannot be compared.
    """
    cursor = source.cursor
    if cursor is None or not loaded:
        return
    end, found = loaded[-1][1], 0
    back = cursor.went_back(end)
    if back and session.options.loaded != ALL:
        raise cursor.question_back(end)
    if list(visible) != list(loaded):
        # Rows that came late in front of the gathered ones are compared when these are visible.
        # Newer ones would move the end from which that overlap is counted.
        cursor.stop_at(end)
        text = (
            f"rows up to {cursor.name} {cursor.describe_end(end)} that a stopped run has gathered "
            "are made visible; the same command again goes on behind them"
        )
        source.tell(text)
        session.emit(Note("info", text))
        return
    for overlap in () if back else cursor.overlaps(loaded):
        found += _compare(session, source, cursor, overlap)
    text = _told(cursor, end, found)
    source.tell(text)
    session.emit(Note("info", text))


def _compare(session: Session, source: ByCursor, cursor: Cursor, overlap: Overlap) -> int:
    """Have the rows of an overlap that the target lacks read; return their number."""
    renamed = read_column_options(session.options).renames
    names = [*(one.name for one in cursor.keys), cursor.name]
    wanted = cursor.wanted([renamed.get(name, name) for name in names], max(1, overlap.low - STEPS))
    stored = session.destination.stored_rows(session, wanted)
    if stored is None:
        raise UsageError(
            f"--cursor {cursor.name}: rows of {session.target.text} cannot be compared with those "
            "that come late",
            hint="Only a column of which no two rows have the same value, and whose values are "
            "committed in order, can do without: --cursor-overlap 0",
        )
    rows = set(cursor.rows(stored))
    overlap = cursor.settled(overlap, rows)
    found = late(overlap, cursor.key.step, source.overlap_rows(overlap), rows)
    cursor.read_late(found)
    return found.count


def _told(cursor: Cursor, end: int, found: int) -> str:
    """Return from which value on rows are read, for people."""
    text = f"rows behind {cursor.name} {cursor.describe_end(end)} are read"
    if cursor.compares:
        what = f"{units.counted(found, 'row')} that came late" if found else "no row came late"
        text += f", and {what} at or below it (the overlap is {cursor.said}); rows that come "
        text += "later below the overlap are not seen"
    return text
