"""Tells by the first bytes what a file holds whose name does not say it. Pure.

A table of text is one whose lines a delimiter splits alike, or short lines without any. Logs,
sentences, scripts and documents hold delimiters, too, and are refused: whoever names a format gets
what it makes of them.
"""

from __future__ import annotations

import json
from contextlib import suppress

from rowfall.core import charsets
from rowfall.core.dialect import PAIRS, STRONG, FoundDialect, TextSample, is_ruled, sniff
from rowfall.core.errors import UsageError
from rowfall.core.header_line import body_of
from rowfall.core.patterns import regex
from rowfall.core.value_kinds import kind
from rowfall.stores.boxes import box_in

LINES = "--format LineAsString loads each line as it is."
TABLE = "--format LineAsString loads each line as it is. Of a table name the format: --format CSV."
_LEAST_EVEN = 0.9  # of the lines of a table have as many fields as most
_HALF_EVEN = 0.5  # of rows between tabs, below comments: others end before the last column
_LEAST_ROWS, _FEW = 8, 2  # rows and fields below comments that are no document, whatever they hold
_MOST_WORDS = 3  # of a line of one column: more is a sentence
_SHORT = 60  # characters of such a line

_LOG = regex(
    r'\S+ \S+ \S+ \[[^\]]+\] "|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S|'
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?\S*[ \]]+\S*"
    r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|ERROR|FATAL|CRITICAL)\b|<\d{1,3}>\d? ?\S"
)
_YAML = regex(r"\s*(?:- )?[\w./-]+:(?: .*)?\Z|\s*- .*\Z")
_INI = regex(r"\[[\w .:-]+\]\s*\Z")
_MARKDOWN = regex(r"#{1,6} \S|```|\|? ?:?-{3,}:? ?\|")
_RULE = regex(r"(?:\|? ?:?-{3,}|\| ?:?-+):? ?\|[-:| ]*\Z")
_ELEMENT = regex(r"\s*</?[A-Za-z_!][^>]*(?:>|\Z)")
_SECTIONS = ("---", "%YAML")
_CONTROL = frozenset(range(32)) - frozenset(b"\t\n\r\x01\x1f\x1e\x1d\x1c\x0c\x1b")


def format_of(name: str, text: bytes, *, whole: bool) -> str:
    """Return the format of text: JSONEachRow, TSV or CSV.

    Args:
        text: its unpacked beginning; ``whole`` where it is all of it.

    Raises:
        UsageError: it is not a table, as far as its first bytes show.
    """
    wide = charsets.guess(text).startswith("utf-16")
    if not wide and sum(byte in _CONTROL for byte in text[:4096]) * 50 > len(text[:4096]):
        raise UsageError(
            f"{name} does not end with the extension of a known format, and its bytes are not text",
            hint="Name its format with --format, or convert it first.",
        )
    if box := box_in(text):
        raise UsageError(f"{name} is {box[0]}, not a table that can be read", hint=box[1])
    plain = charsets.decode(text, charsets.guess(text)).removeprefix(charsets.BOM)
    if plain.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):
            json.loads(plain.lstrip().partition("\n")[0])
            return "JSONEachRow"
        if plain.lstrip()[:2].rstrip() in ("{", "[", '{"', "[{"):
            return "JSONEachRow"  # over several lines
    if is_ruled(plain.replace("\r\n", "\n")):
        return "CSV"
    found = sniff([TextSample(name, text, whole)])
    strong = found.marks.delimiter in (*STRONG, *PAIRS)
    count = sum(len(file.rows) for file in found.files)
    commented = (
        # Comments, or a line of names behind one, above rows with types, or rows that a delimiter
        # splits alike.
        (found.marks.comment == "#" or plain.startswith("#"))
        and found.width > 1
        and (
            ((found.even >= _LEAST_EVEN or _lacks_ends(found)) and _has_types(found))
            # Sentences have commas, but no other delimiter in each line.
            or (
                found.even == 1
                and strong
                and count >= _LEAST_ROWS
                and (found.width > _FEW or found.marks.delimiter != ",")
            )
        )
    )
    hint = TABLE if found.even == 1 and not found.blank_lines and not found.titles else LINES
    if what := _is_markdown_table(plain.splitlines()[:200]):
        raise _no_table(name, what, hint)
    if not commented and (what := _is_document(plain.splitlines()[:200])):
        raise _no_table(name, what, hint)
    marks = (*STRONG, *PAIRS)
    if found.row_names and found.sure:
        return "CSV"
    if found.width > 1 and (found.even >= _LEAST_EVEN or found.short or _lacks_ends(found)):
        if _is_prose(found):
            raise _no_table(name, "its lines look like sentences", hint)
        if found.marks.delimiter in marks or not found.bare:
            return "TSV" if found.marks.delimiter == "\t" and found.marks.quote == '"' else "CSV"
        # Runs of blanks that divide each of the lines alike are hardly those of sentences.
        if found.sure or (
            found.trim and found.even == 1 and count >= _LEAST_ROWS and found.width == _FEW
        ):
            return "CSV"
    rows = [row for file in found.files for row in file.rows]
    lines = [" ".join(row) for row in rows]
    strong = any(mark in marks for mark, _ in found.others)
    if found.width == 1 and rows and not strong and all(map(_is_value, lines)):
        return "CSV"
    raise _no_table(name, "no delimiter splits its lines into fields", hint)


def _has_types(found: FoundDialect) -> bool:
    """Tell whether a column holds numbers or times alone, which no document has."""
    rows = body_of(found.files, found.width)
    return any(
        kind(column, found.marks.delimiter) not in ("", "?") for column in zip(*rows, strict=True)
    )


def _lacks_ends(found: FoundDialect) -> bool:
    """Tell whether rows between tabs, below comments, end before the last column or at it."""
    sizes = {len(row) for file in found.files for row in file.rows}
    tabs = found.marks.delimiter == "\t" and found.marks.comment == "#"
    return tabs and found.even >= _HALF_EVEN and sizes == {found.width - 1, found.width}


def _is_prose(found: FoundDialect) -> bool:
    """Tell whether commas are those of sentences: blanks behind them, and words everywhere."""
    rows = [row for file in found.files for row in file.rows]
    if found.marks.delimiter != "," or (found.header and found.sure) or found.trim:
        return False
    fields = [field for row in rows for field in row]
    behind = [field for row in rows for field in row[1:]]
    words = sum(field.strip().count(" ") > 1 for field in fields)
    return all(f.startswith(" ") for f in behind if f) and words * 3 > len(fields)


def _is_value(line: str) -> bool:
    return len(line) <= _SHORT and line.count(" ") < _MOST_WORDS


def _is_document(lines: list[str]) -> str:
    """Return a clause on what shows that lines are no table; "" where nothing does."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return ""
    if sum(bool(_LOG.match(line)) for line in filled) * 2 > len(filled):
        return "its lines look like those of a log"
    if filled[0].startswith(_SECTIONS) and len(filled) > 1:
        return "it looks like YAML"
    if any(_MARKDOWN.match(line) for line in filled[:3]) and "," not in filled[0]:
        return "it looks like Markdown"
    if _ELEMENT.match(filled[0]):
        return "it looks like XML"
    if _INI.match(filled[0]):
        return "it looks like a file of settings"
    if sum(bool(_YAML.match(line)) for line in filled) * 10 > 9 * len(filled) > 9:
        return "it looks like YAML"
    return ""


def _is_markdown_table(lines: list[str]) -> str:
    """Return a clause on the line of dashes below the names of such a table; "" without one."""
    return "it holds a table of Markdown" if any(map(_RULE.match, lines)) else ""


def _no_table(name: str, why: str, hint: str) -> UsageError:
    return UsageError(
        f"{name} does not end with the extension of a known format, and {why}", hint=hint
    )
