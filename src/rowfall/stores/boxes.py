"""Tells what clients of databases show on a terminal and no reader takes. Pure."""

from __future__ import annotations

from rowfall.core.dialect import is_ruled
from rowfall.core.patterns import regex

_PSQL = (
    "Have psql write CSV: psql --csv -c 'SELECT ...' | rowfall load - --format CSVWithNames "
    "--table NAME"
)
_MYSQL = (
    "Have it written without the box: mysql --batch -e 'SELECT ...' | rowfall load - --format "
    "TSVWithNames --null NULL --table NAME"
)
_LINES = (
    "Have CSV written, with clickhouse-client --format CSVWithNames or duckdb -csv, and pipe it "
    "into rowfall load - --table NAME"
)
# What stands in the first two lines that are not empty.
_BOXES = (
    (regex(r"\+(?:-+\+)+\s*\n\s*\|"), "a box as mysql draws it", _MYSQL),
    (regex(r"\*{10,} 1\. row \*{10,}\s*\n"), "rows as mysql shows them with \\G", _MYSQL),
    (regex(r"-\[ RECORD 1 \]-*\+?-*\s*\n"), "rows as psql shows them with \\x", _PSQL),
    (regex(r"[^\n|]+(?:\|[^\n|]+)+\n-+(?:\+-+)+\s*\n"), "a table as psql shows it", _PSQL),
    (regex(r"[^\n|,;\t]+\n-{3,}\n(?:[^\n]*\n)*\(\d+ rows?\)"), "a table as psql shows it", _PSQL),
    (regex("[┌┏╭╔]"), "a box as clients of databases draw it", _LINES),
)
# With which all of them begin, but those that have a line of dashes below the first.
_BEGINNINGS = ("+-", "*" * 10, "-[", "┌", "┏", "╭", "╔")


def box_in(head: bytes) -> tuple[str, str] | None:
    """Return what a text shows that is drawn for a terminal, and a hint; None for other texts.

    Args:
        head: its beginning, in UTF-8.
    """
    text = head[:_LOOKED_AT].decode("utf-8", "replace").lstrip("\ufeff\r\n").replace("\r\n", "\n")
    if not text.startswith(_BEGINNINGS) and "\n-" not in text:
        return None  # making the patterns takes a millisecond of each load
    if is_ruled(text):
        return None  # its rows are read
    for pattern, what, hint in _BOXES:
        if pattern.match(text):
            return what, hint
    return None


_LOOKED_AT = 1 << 14  # bytes: the first two lines of a wide table, or all of a narrow one
