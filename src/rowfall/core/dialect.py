"""Finds out how text is written: delimiter, quotes, header, lines that are not data. Pure.

Every delimiter that occurs is tried on the first bytes of several files. The best one gives the
same number of fields in most records; where two do, the one whose columns are numbers and times
wins. Then the first record is compared with those below it: names above numbers, a word above
values that repeat. What the user has said is not looked for.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice, pairwise
from threading import Lock

from rowfall.core import charsets
from rowfall.core.dataclass import dataclass
from rowfall.core.header_line import FileRecords, body_of, has_header, unique_names
from rowfall.core.patterns import regex
from rowfall.core.unit_lines import are_units
from rowfall.core.value_kinds import NULL_WORDS, kind, kind_of

_CONTROLS = ("\x01", "\x1f", "\x1e", "\x1d", "\x1c", "\x02", "\x05", "\x07")
STRONG = (",", ";", "\t", "|", "^", "~", *_CONTROLS, "\u00a6", "\u00ac")
"""Delimiters that hardly any text holds in each line; in doubt the first one wins."""
PAIRS = ("::",)
"""Delimiters of several characters that are looked for, of which half alone splits times."""
WEAK = (" ", ":", "\u00a7")
"""Delimiters that split times, sentences and laws, too: only where the columns then have types."""
COMMENTS = ("#", "//", "--")

TRIED = 1 << 15
"""Characters of all samples together that every delimiter is tried on; the best one reads all."""
_LEAST_LINES = 8  # of each file, however long they are
MOST_LINES = 8192
"""Lines that are looked at of all samples: 29,000 narrow ones took 0.09 s, and say no more."""
_JUNK_LINES = 50  # before the header; more is another kind of file
_LEAST_EVEN = 2 / 3  # of the records have to have as many fields as most
_SWALLOWED = "\x1f"  # stands for a delimiter of several characters while a sample is parsed


@dataclass(frozen=True, slots=True)
class TextMarks:
    """The marks of text; ``quote``, ``escape`` and ``comment`` are "" for none."""

    delimiter: str
    quote: str = '"'
    escape: str = '"'
    comment: str = ""


@dataclass(frozen=True, slots=True)
class MarkOptions:
    """The marks of text, as the user gave them: "" for none, None for not given."""

    delimiter: str | None = None
    quote: str | None = None
    escape: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Options about lines that are no rows like others; None for not given.

    Attributes:
        skip_lines: before the header or the first row.
        blanks: around fields: "keep" or "trim".
        short_rows: "null" fills rows that have fewer fields than there are columns.
        blank_lines: "skip" leaves them out, wherever they stand.
        as_they_are: text is not rewritten but by an option: servers read it, or names of columns
            that differ from file to file.
    """

    skip_lines: int | None = None
    blanks: str | None = None
    short_rows: str | None = None
    blank_lines: str | None = None
    as_they_are: bool = False


@dataclass(frozen=True, slots=True)
class DialectOptions:
    """Options about the dialect, as the user gave them; None leaves it to the sample.

    Attributes:
        fixed: the format was named, so TSV stays TSV.
        columns: names, in the order of the file.
        charset: what it is written in.
        decimal: the mark before decimals, which hardly is the delimiter, too.
        bad_bytes: bytes that are not UTF-8 make bad rows, and say nothing about the charset.
        by_format: it was the name of the format that said whether there is a header.
        most_columns: of a file.
    """

    fixed: bool = False
    marks: MarkOptions = MarkOptions()
    lines: LineOptions = LineOptions()
    header: bool | None = None
    columns: tuple[str, ...] = ()
    charset: str | None = None
    decimal: str = "."
    bad_bytes: bool = False
    by_format: bool = False
    most_columns: int = 1 << 31


@dataclass(frozen=True, slots=True)
class TextSample:
    """The first bytes of one file; ``whole`` where these are all."""

    uri: str
    data: bytes
    whole: bool = False


@dataclass(frozen=True, slots=True)
class FoundDialect:
    """Dialect of the samples: marks, header, records, and what is unsure about them.

    Attributes:
        line_end: ``\\n``, ``\\r\\n`` or ``\\r``.
        charset: ``utf-8``, ``utf-16le``, ``windows-1252``, ...
        bom: some file begins with a byte order mark.
        skip_lines: before the header or the first row; ``titles`` where some of them are neither
            blank nor comments.
        leads: each file with comment lines begins with one.
        header: the first record names the columns; ``why`` it is taken for that or not.
        sure: False where the first record may as well be the other.
        width: fields of most records; ``even`` is the share of records that have as many.
        ends: how often a delimiter stands behind the last field: "" never, ``all`` records,
            ``rows`` where the header alone has none, ``header`` where only the header has some.
        names: of the columns: those of the header, trimmed and made unique, or c1, c2, ...
        given: the fields of the header as they are; () without one. ``row_names``: it has one field
            fewer than the rows, whose first one may name the row.
        files: records of each file that holds any.
        others: (delimiter, fields) that would also split most records.
        null_words: (index of a column, words) of columns that hold numbers or times besides.
        trim: blanks around fields, in quotes or not, are no part of them.
        behind: all delimiters have a blank behind them, which is part of the fields.
        blank_lines: between rows, in any file.
        short: the header has more fields than any row, so the last columns hold nothing.
        ruled: a table as psql and MySQL draw it; its rulers are none of its lines.
        bare: there is no header, and what the lines are split by stands in times and sentences,
            too.
    """

    marks: TextMarks
    line_end: str = "\n"
    charset: str = "utf-8"
    bom: bool = False
    skip_lines: int = 0
    titles: bool = False
    leads: bool = True
    header: bool = False
    why: str = ""
    sure: bool = True
    width: int = 0
    even: float = 1.0
    ends: str = ""
    names: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    row_names: bool = False
    files: tuple[FileRecords, ...] = ()
    others: tuple[tuple[str, int], ...] = ()
    null_words: tuple[tuple[int, tuple[str, ...]], ...] = ()
    trim: bool = False
    blank_lines: int = 0
    short: bool = False
    bare: bool = False
    behind: bool = False
    ruled: bool = False


def sniff(samples: Sequence[TextSample], asked: DialectOptions | None = None) -> FoundDialect:
    """Find out how the samples are written.

    Raises:
        UsageError: some files have a header and others do not.
    """
    asked = asked or DialectOptions()
    charset, texts = _decoded(samples, asked)
    marked = any(text.startswith(charsets.BOM) for text in texts)
    texts = [text.removeprefix(charsets.BOM) for text in texts]
    line_end = _line_end(texts)
    if line_end == "\r":
        texts = [text.replace("\r", "\n") for text in texts]
    sources = [
        (s.uri, text, s.whole) for s, text in zip(samples, texts, strict=True) if text.strip("\n\r")
    ]
    ruled = asked.marks == MarkOptions() and asked.lines == LineOptions() and not asked.fixed
    ruled = ruled and bool(sources) and all(is_ruled(text) for _, text, _ in sources)
    if ruled:
        sources = [(uri, _without_rulers(text), whole) for uri, text, whole in sources]
        asked = replace(asked, marks=MarkOptions("|", "", "", ""), lines=LineOptions(blanks="trim"))
    asked = _of_excel([text for _, text, _ in sources], asked)
    thousands = asked.marks.delimiter is None and _are_thousands([text for _, text, _ in sources])
    if thousands:
        # Which is in none of the lines: one column.
        asked = replace(asked, marks=replace(asked.marks, delimiter=";"))
    best, others = _best(_beginnings(sources), asked)
    below = _below_report(sources, best, asked)
    if below is not None:
        asked = below
        best, others = _best(_beginnings(sources), asked)
    others = () if thousands else others
    best = _try(_shortened(sources), best.marks, asked)
    found = FoundDialect(
        best.marks, line_end, charset, marked,
        max((f.skipped for f in best.files), default=0), any(f.titles for f in best.files),
        leads=best.leads, width=best.width, even=round(best.even, 4), ends=best.ends,
        files=best.files, others=others, trim=best.trim,
        blank_lines=0 if ruled else max((f.blank for f in best.files), default=0),
        ruled=ruled,
        behind=best.width > 1 and best.marks.delimiter in STRONG and not best.trim and any(
            # The names of a header may have none.
            _are_set_off(
                [(f.uri, [(0, row) for row in f.rows[first:]]) for f in best.files], both=False
            )
            for first in (0, 1)
        ),
    )  # fmt: skip
    found = _named(found, asked)
    return found if below is None else replace(found, why=BELOW_REPORT)


# A ruler: of MySQL, psql, SAP. And what stands below a table.
_TABLE_RULER = regex(r"[ \t]*[-+|=:]*(?:-{3,}|={3,})[-+|=: ]*")
_ROW_COUNT = regex(r"[ \t]*(?:\(\d+ rows?\)|\d+ rows? in set.*)[ \t]*")
_DRAWN = 4096  # characters, among which the ruler below the names stands


def is_ruled(text: str) -> bool:
    """Tell whether a text is a table as it is drawn: names, a ruler, and rows of as many fields."""
    lines = [line.rstrip() for line in text[:_DRAWN].split("\n")[:-1] if line.strip()]
    rows = [line for line in lines if not _TABLE_RULER.fullmatch(line)]
    rows = [line for line in rows if not _ROW_COUNT.fullmatch(line)]
    ruled = next((n for n, line in enumerate(lines[1:3], 1) if _TABLE_RULER.fullmatch(line)), 0)
    if len(rows) < _LEAST_ROWS or not ruled or "|" not in lines[ruled - 1] or '"' in rows[0]:
        return False
    if "|" in lines[ruled]:
        return False  # of Markdown, in which text may stand around the table
    counts = {line.count("|") for line in rows}
    # A cell that goes on in the next line, as psql writes it, is none of one line.
    return len(counts) == 1 and counts != {0} and not any(_GOES_ON.search(line) for line in rows)


_GOES_ON = regex(r"\+ *(?:\||$)")


def _without_rulers(text: str) -> str:
    """Return a drawn table with blank lines in place of rulers, and without the marks at its sides.

    Lines stay where they are.
    """
    lines = []
    for line in text.split("\n"):
        bare = line.rstrip()
        if _TABLE_RULER.fullmatch(bare) or _ROW_COUNT.fullmatch(bare):
            bare = ""
        elif bare.startswith("|") and bare.endswith("|") and len(bare) > 1:
            bare = bare[1:-1]
        lines.append(bare)
    return "\n".join(lines)


BELOW_REPORT = "it stands directly above columns of numbers"
"""The reason for a header below a text that says what the table is about."""


# --- bytes to text -------------------------------------------------------------------------------


def _decoded(samples: Sequence[TextSample], asked: DialectOptions) -> tuple[str, list[str]]:
    """Return the charset of all samples and their text.

    Bytes that are not UTF-8 in some samples only are errors of their files, which fail alone.
    """
    data = [s.data for s in samples]
    guessed = [charsets.guess(d) for d in data if d]
    wide = next((c for c in guessed if c.startswith(("utf-16", "utf-32"))), None)
    same = guessed[0] if len(set(guessed)) == 1 and not asked.bad_bytes else "utf-8"
    charset = asked.charset or wide or same
    return charset, [charsets.decode(d, charset) for d in data]


def _line_end(texts: Iterable[str]) -> str:
    joined = "".join(text[: 1 << 14] for text in texts)
    both, new = joined.count("\r\n"), joined.count("\n")
    if joined.count("\r") - both > new:
        return "\r"
    return "\r\n" if 0 < new < 2 * both else "\n"


# The line in which Excel is told the delimiter of all others.
_EXCEL = regex(r'"?sep=([^\r\n])"?\r?\n', re.I)


def _of_excel(texts: Sequence[str], asked: DialectOptions) -> DialectOptions:
    """Return ``asked`` with the delimiter of a first line ``sep=;``, where all samples have one."""
    said = {found[1] if (found := _EXCEL.match(text)) else "" for text in texts}
    if len(said) != 1 or "" in said or asked.lines.skip_lines is not None:
        return asked
    marks = replace(asked.marks, delimiter=asked.marks.delimiter or said.pop())
    return replace(asked, marks=marks, lines=replace(asked.lines, skip_lines=1))


_THOUSANDS = regex(r"[-+$]?(?:\d{1,3}(?:,\d{3})+|\d{1,3})(?:\.\d+)?\s*")


def _are_thousands(texts: Sequence[str]) -> bool:
    """Tell whether lines are single numbers with commas between thousands: ``68,527.00``.

    Below one name, or where decimals or the number of commas show that they split no columns.
    """
    for text in texts:
        lines = [line for line in text.split("\n")[:_SOME_LINES] if line.strip()]
        named = bool(lines) and not _THOUSANDS.fullmatch(lines[0])
        body = lines[named:]
        if len(body) < 2 or (named and "," in lines[0]):
            return False
        if not all(map(_THOUSANDS.fullmatch, body)) or not any("," in line for line in body):
            return False
        counts = {line.count(",") for line in body}
        if not (named or len(counts) > 1 or all("." in line for line in body)):
            return False
    return bool(texts)


_SOME_LINES = 100  # the last may be cut: so few are hardly all there is of 256 KiB


def _below_report(sources: _Sources, best: _Try, asked: DialectOptions) -> DialectOptions | None:
    """Return ``asked`` for a table of numbers below a text that says what they are.

    Names stand directly above the numbers, or above a ruler or a blank line; they may be set apart
    otherwise than the numbers: by two blanks, as some are of several words, or by commas. None
    where the files differ, and where lines above look like rows, too: they may be another table.
    """
    if asked.fixed or asked.header is not None or asked.columns or asked.lines != LineOptions():
        return None
    mark = best.marks.delimiter
    strong = best.width > 1 and mark in STRONG
    if best.width > 1 and best.even == 1 and not any(f.titles for f in best.files):
        return None  # but for comments, which are none of it
    if not strong and asked.marks != MarkOptions():
        return None
    found = {_report_end(text, mark if strong else " ", whole=whole) for _, text, whole in sources}
    if len(found) != 1 or (end := found.pop()) is None:
        return None
    marks = MarkOptions(" ", comment=end.ruler)
    if strong:
        marks = replace(asked.marks, delimiter=mark, comment=end.ruler or asked.marks.comment)
    return replace(
        asked, marks=marks, header=end.header, columns=end.names,
        lines=replace(asked.lines, skip_lines=end.lines, blanks=None if strong else "trim"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _ReportEnd:
    """The lines above a table of numbers, or above the names that stand there as its rows do.

    Attributes:
        ruler: the line below these names; "" for none.
        names: those that are set apart otherwise.
    """

    lines: int
    ruler: str = ""
    header: bool = False
    names: tuple[str, ...] = ()


def _report_end(text: str, mark: str, *, whole: bool) -> _ReportEnd | None:
    """Return where a table of numbers begins; None where there is none.

    The table goes to the end of the text, as do rows that a report has at its end.
    """
    plain = text.split("\n")[: None if whole else -1]
    while plain and not plain[-1].strip():
        plain.pop()
    lines = _split_lines(plain, mark)
    rows = lines[-_LEAST_TABLE:]
    width = len(rows[-1]) if rows else 0
    columns = [*zip(*(row for row in rows if len(row) == width), strict=True)]
    typed = [n for n, column in enumerate(columns) if kind(column, " ") in ("number", "time")]
    if width < 2 or len(typed) * 2 < width or (width == 2 and len(typed) < width):
        return None
    top = len(lines)
    while top and len(lines[top - 1]) == width and _are_typed(lines[top - 1], typed):
        top -= 1
    table = len(lines) - top
    first, ruler = top, ""
    if top and len(lines[top - 1]) == 1 and _RULER.fullmatch(lines[top - 1][0]):
        top, ruler = top - 1, lines[top - 1][0]
    above = lines[: max(top - 1, 0)]
    if all(line.startswith(COMMENTS) for line in plain[:first] if line.strip()):
        return None  # they are comments, one of which may hold the names
    # Lines with a label say something of the table: "Sample rate:,10,10".
    numbers = [
        len(row) if sum(map(bool, map(kind_of, row))) * 2 >= len(row) > 1
        and not row[0].endswith(":") else 0
        for row in above
    ]  # fmt: skip
    most = _REPORT_LINES * (2 if table >= len(above) else 1)
    if not top or len(above) > most or any(a == b != 0 for a, b in pairwise(numbers)):
        return None
    # Below names alone a few rows are a table.
    if table < (_LEAST_TABLE if any(above) else _LEAST_NAMED) or (mark == " " and table < 2):
        return None
    if mark != " " and (names := _names_and_units(lines[:top], width)):
        return _ReportEnd(first, names=names)
    if above and _are_names(lines[top - 1], width):
        return _ReportEnd(top - 1, ruler, header=True)
    between = next((n for n in range(first - 1, -1, -1) if plain[n].strip()), 0)
    if plain[between].startswith(COMMENTS):
        return None
    if ruler or first - between > _BLANK_BELOW:
        return _ReportEnd(first) if not ruler else None
    if between < first - 1 and _are_names(lines[between], width):
        return _ReportEnd(first, names=tuple(name.strip() for name in lines[between]))
    if names := _names_apart(plain[between].rstrip("\r"), mark, width):
        return _ReportEnd(first, names=names)
    # A URL is in no name.
    return _ReportEnd(first) if "://" in plain[between] or between < first - 1 else None


def _split_lines(lines: Sequence[str], mark: str) -> list[list[str]]:
    """Return the fields of lines, each by itself."""
    if mark == " ":
        return [line.split() for line in lines]
    found = []
    for line in lines:
        with _fields_of(len(line)), suppress(csv.Error):
            found.append(next(csv.reader([line.rstrip("\r")], delimiter=mark), []))
            continue
        found.append([line])
    return found


def _are_names(row: Sequence[str], width: int) -> bool:
    return len(row) == len(set(row)) == width and all(f.strip() and not kind_of(f) for f in row)


def _names_and_units(lines: Sequence[Sequence[str]], width: int) -> tuple[str, ...]:
    """Return the names above lines of units, all as wide as the rows below them; () for none."""
    at = len(lines)
    while at and len(lines) - at < _LINES_OF_NAMES and len(lines[at - 1]) == width and not any(
        map(kind_of, lines[at - 1])
    ):  # fmt: skip
        at -= 1
    # Lines that go on as wide above them say something of the table.
    above = width < _LEAST_TITLED or (at and len(lines[at - 1]) == width)
    named = at < len(lines) - 1 and not above and _are_names(lines[at], width)
    named = named and are_units(lines[at + 1])
    return tuple(name.strip() for name in lines[at]) if named else ()


_LINES_OF_NAMES = 3  # names, units, and how a logger has measured


def _names_apart(line: str, mark: str, width: int) -> tuple[str, ...]:
    """Return so many names that are set apart otherwise than numbers by a mark; () for none."""
    for apart in (r"\s{2,}", r"\t", ",", ";", r"\|", " +"):
        if apart in (mark, re.escape(mark), f"{mark}+"):
            continue
        names = [name.strip().strip('"') for name in re.split(apart, line.strip())]
        if len(names) == width + 1 and names[0].endswith(":"):
            del names[0]  # "Data:  y  x"
        if _are_names(names, width) and not any(_is_prose(name, width) for name in names):
            return tuple(names)
    return ()


def _is_prose(name: str, width: int) -> bool:
    """Tell whether what a comma cuts off is part of a sentence: it has too many words, or a URL."""
    return "://" in name or name.count(" ") > (_WORDS_OF_TWO if width == 2 else _WORDS_OF_NAMES)


_WORDS_OF_TWO = 3  # blanks in a name: one comma of a sentence makes two columns by chance
_WORDS_OF_NAMES = 6


def _are_typed(row: Sequence[str], columns: Sequence[int]) -> bool:
    return all(kind_of(row[n]) or row[n] in NULL_WORDS for n in columns)


_RULER = regex(r"[*=_+~-]{3,}")
_LEAST_TABLE = 10  # rows; of fewer a report may show some for each thing that it is about
_LEAST_NAMED = 3  # rows, where nothing but names stands above them
_REPORT_LINES = 100  # above a table that is shorter; actigraphs wrote 150 above 20,000 rows
_BLANK_BELOW = 2  # names stand directly above the numbers, or with one blank line between


# --- delimiter and quotes ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Try:
    """Records that one delimiter makes of the samples, and their score.

    Attributes:
        apart: lines with runs of blanks or tabs between two words.
    """

    marks: TextMarks
    leads: bool
    width: int
    even: float
    ends: str
    files: tuple[FileRecords, ...]
    trim: bool
    score: float
    apart: int = 0


_Sources = Sequence[tuple[str, str, bool]]
_Numbered = list[tuple[int, tuple[str, ...]]]


def _best(sources: _Sources, asked: DialectOptions) -> tuple[_Try, tuple[tuple[str, int], ...]]:
    """Return the best reading of the samples, and other delimiters that split most records."""
    present = [m for m in (*STRONG, *PAIRS, *WEAK) if _occurs(m, sources)]
    marks = present if asked.marks.delimiter is None else [asked.marks.delimiter]
    quotes = _quotes(sources, asked)
    tries = _tries(sources, marks, quotes, asked)
    single = _try(sources, TextMarks(asked.marks.delimiter or ",", *quotes[0]), asked)
    useful = [t for t in tries if t.width > 1 and t.even >= _LEAST_EVEN]
    if asked.marks.delimiter is None:
        strong = [t for t in useful if t.marks.delimiter in STRONG or
                  (t.marks.delimiter in PAIRS and t.width > 2)]  # fmt: skip
        useful = strong or [t for t in useful if _splits(t)]
        if useful and not strong and _typed(single.files, ",", 1):
            useful = []
    useful = [t for t in useful if t.marks.delimiter != asked.decimal] or useful
    # In "€ 12,50" a comma splits rows, too: what splits the header as well leaves no line out.
    useful = [t for t in useful if t.even == 1 and not any(f.skipped for f in t.files)] or useful
    best = max(useful or tries or [single], key=lambda t: t.score)
    if not useful and asked.marks.delimiter is None:
        # What splits nothing is no better than what splits some lines.
        best = single if single.width == 1 or best.width == 1 or not tries else best
    best = _by_runs(sources, _doubled(sources, best, asked), asked)
    if best.width > 1:
        return best, ()
    if asked.marks.delimiter is not None:
        # One column: what has been named is not what splits the lines, if anything does.
        unnamed = replace(asked.marks, delimiter=None, quote=asked.marks.quote or None)
        plain = replace(asked, marks=unnamed)
        tries = _tries(sources, [m for m in present if m in STRONG], _quotes(sources, plain), plain)
    others = {t.marks.delimiter: t.width for t in sorted(tries, key=lambda t: t.score)
              if t.width > 1 and t.even >= _LEAST_EVEN}  # fmt: skip
    others.pop(best.marks.delimiter, None)
    if (":" in others or "::" in others) and all(map(_ONE_VALUE.fullmatch, _lines_of(single))):
        others = {mark: width for mark, width in others.items() if mark.strip(":")}
    return best, tuple(reversed(others.items()))


def _by_runs(sources: _Sources, best: _Try, asked: DialectOptions) -> _Try:
    """Return the reading by blanks and tabs, where tabs alone leave the header out, or rows.

    Numbers in columns of blanks may have a tab in front of the text at their end, and words blanks
    behind their tabs.
    """
    if best.marks.delimiter != "\t" or asked.marks.delimiter is not None or not best.files:
        return best
    first = best.files[0].rows[0]
    whole = len(first) == best.width and not best.files[0].skipped
    tabs = whole or any(" " not in row[0] for row in best.files[0].rows[1:9])
    if tabs and (best.even == 1 or "  " not in "".join(r[-1] for r in best.files[0].rows[:9])):
        return best
    runs = _try(sources, TextMarks(" ", best.marks.quote, best.marks.escape), asked)
    even = runs.trim and runs.even == 1 and not any(f.skipped for f in runs.files)
    return runs if even and _splits(runs) else best


# Addresses (IPv6 and MAC, too), paths of Windows, times: nobody means several columns.
_ONE_VALUE = regex(
    r"\s*|\w+://\S*|[A-Za-z]:\\.*|[-+]?\d{1,2}:[0-5]\d(:[0-5]\d(\.\d+)?)?( ?[ap]m)?|"
    r"(?=.*::)[0-9a-f:]{2,39}(%\w+)?(/\d{1,3})?|([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|"
    r"([0-9a-f]{2}:){5}[0-9a-f]{2}", re.I,
)  # fmt: skip


def _lines_of(found: _Try) -> list[str]:
    """Return the only fields of rows; the first of a file may be a name, which holds no colon."""
    return [row[0] for file in found.files for n, row in enumerate(file.rows) if n or ":" in row[0]]


def _occurs(mark: str, sources: _Sources) -> bool:
    return any(mark in text[: 1 << 13] for _, text, _ in sources)


def _tries(
    sources: _Sources,
    marks: Sequence[str],
    quotes: Sequence[tuple[str, str]],
    asked: DialectOptions,
) -> list[_Try]:
    """Read the samples by each delimiter, the strong ones first, until some split the lines."""
    tries: list[_Try] = []
    for group in (STRONG, PAIRS, WEAK, marks):
        # What occurs in times and sentences is not even tried where something better splits.
        tried = {t.marks.delimiter for t in tries}
        tries += [
            _try(sources, TextMarks(mark, *quote), asked)
            for mark in marks
            if mark in group and mark not in tried
            for quote in quotes
        ]
        if any(t.width > 1 and t.even >= _LEAST_EVEN for t in tries):
            break
    return tries


_LEAST_SPLIT = 10  # lines of as many words; fewer may happen to have

# Digits and hexadecimal digits between colons: times, offsets, ratios, scores, addresses.
_COLONS = regex(r"[-+]?[\dA-Fa-f.%]{0,6}")


def _splits(found: _Try) -> bool:
    """Tell whether a delimiter that stands in times and sentences splits these lines all the same.

    The columns have types then. Lines like 16:9, 12 mm and 2001:db8::1 have them, too: one column
    is what is meant by two, unless names stand above them.
    """
    rows = body_of(found.files, found.width) or [f.rows[0] for f in found.files]
    typed = _typed(found.files, found.marks.delimiter, found.width)
    first = found.files[0].rows[0]
    named = (
        len(first) == found.width and all(f.strip() and not kind_of(f) for f in first)
        and bool(body_of(found.files, found.width))
    )  # fmt: skip
    count = sum(len(file.rows) for file in found.files)
    even = found.even == 1 and count >= _LEAST_SPLIT
    if found.width == 2:
        apart = even and found.trim and found.apart * 2 > count
        return (typed == 1 or apart) and found.marks.delimiter == " "
    if found.marks.delimiter == ":" and not named:
        numbers = sum(all(map(_COLONS.fullmatch, row)) for row in rows)
        return (typed >= 0.5 or (even and typed > 0)) and numbers * 2 < len(rows)
    # Sentences have not all as many words, and no column of numbers.
    return typed >= 0.5 or (even and typed > 0 and (named or found.marks.delimiter == " "))


def _beginnings(sources: _Sources) -> list[tuple[str, str, bool]]:
    """Return less of the samples, on which all delimiters are tried, but some lines of each."""
    found = []
    for uri, text, whole in sources:
        stop, lines = TRIED // len(sources), 0
        while lines < _LEAST_LINES and text.count("\n", 0, stop) < _LEAST_LINES < len(text):
            stop, lines = 2 * stop, lines + 1
        found.append((uri, text[:stop], whole and stop >= len(text)))
    return found


def _shortened(sources: _Sources) -> list[tuple[str, str, bool]]:
    """Return the samples without the lines that are more than :data:`MOST_LINES`."""
    found = []
    for uri, text, whole in sources:
        lines = text.split("\n", MOST_LINES // len(sources))
        rest = lines.pop() if len(lines) > MOST_LINES // len(sources) else ""
        found.append((uri, text[: len(text) - len(rest)], whole and not rest))
    return found


def _quotes(sources: _Sources, asked: DialectOptions) -> list[tuple[str, str]]:
    """Return the (quote, escape) that may be meant, the usual one first."""
    quote, escape = asked.marks.quote, asked.marks.escape
    if quote is not None:
        return [(quote, escape or quote)]
    if escape is not None:
        return [('"', escape or '"')]
    found = [('"', '"')]
    texts = [text for _, text, _ in sources]
    if any('\\"' in text for text in texts):
        found.append(('"', "\\"))
    single = sum(len(_SINGLE.findall(text[: 1 << 14])) for text in texts)
    if single > 1 and single > sum(text[: 1 << 14].count('"') for text in texts) // 2:
        found.append(("'", "'"))
        if any("\\'" in text for text in texts):
            found.append(("'", "\\"))
    # One line alone is a quote that somebody forgot to close: its file fails.
    odd = (line for text in texts for line in text.split("\n") if line.count('"') % 2)
    if any(text.count('"') % 2 for text in texts) and len(list(islice(odd, 2))) > 1:
        found.append(("", ""))
    return found


_SINGLE = regex(r"(?:^|[,;\t|]) *'(?:[^']|''){,400}'(?= *(?:[,;\t|\r\n]|\Z))", re.M)


def _doubled(sources: _Sources, best: _Try, asked: DialectOptions) -> _Try:
    """Return the reading with the delimiter twice, where every second field holds nothing.

    Or the same mark in each row, as in ``a|~|b``.
    """
    if asked.marks.delimiter is not None or best.width < 3 or best.width % 2 == 0:
        return best
    rows = [row for file in best.files for row in file.rows if len(row) == best.width]
    between = {field for row in rows for field in row[1::2]}
    if len(rows) > 1 and len(between) == 1 and not re.search(r"[\w\s]", inner := between.pop()):
        mark = best.marks.delimiter + inner + best.marks.delimiter
        return _try(sources, replace(best.marks, delimiter=mark), asked)
    return best


def _try(sources: _Sources, marks: TextMarks, asked: DialectOptions) -> _Try:
    """Read the samples by one delimiter and its quotes, and judge what comes out."""
    mark, quote, escape = marks.delimiter, marks.quote, marks.escape
    trim = asked.lines.blanks == "trim"
    parsed = [
        (uri, _records(text, mark, quote, escape, whole, trim=trim)) for uri, text, whole in sources
    ]
    if mark == " " and asked.lines.blanks is None and escape == quote:
        runs = [(u, _records(text, mark, quote, escape, w, trim=True)) for u, text, w in sources]
        if _are_runs(parsed, runs) and not _have_empty_cells(sources, runs):
            trim, parsed = True, runs
    if asked.lines.blanks is None and (
        (quote and _has_blanks_before_quotes(sources, parsed, mark, quote))
        or (mark in STRONG and mark != "\t" and _are_set_off(parsed, both=True))
    ):
        trim = True
        parsed = [
            (uri, _records(text, mark, quote, escape, whole, trim=True))
            for uri, text, whole in sources
        ]
    comment = asked.marks.comment
    if comment is None:
        begun = any(f"\n{c}" in text or text.startswith(c) for _, text, _ in sources
                    for c in COMMENTS)  # fmt: skip
        comment = _comment(parsed, mark) if begun else ""
    leads = True
    blank: dict[str, list[int]] = {}
    kept: list[tuple[str, list[tuple[int, tuple[str, ...]]]]] = []
    for uri, records in parsed:
        own = [r for r in records if len(r[1]) > 1 or not _is_empty(r[1])]
        blank[uri] = [line for line, row in records if len(row) < 2 and _is_empty(row)]
        if asked.lines.skip_lines:
            own = [(line, row) for line, row in own if line >= asked.lines.skip_lines]
        if comment:
            told = [r for r in own if not r[1][0].startswith(comment)]
            leads &= len(told) == len(own) or own[0][1][0].startswith(comment)
            own = told
        kept.append((uri, own))
    widths = Counter(len(row) for _, records in kept for _, row in records)
    width = max(widths, key=lambda w: (widths[w], w), default=1)
    files, hits, total, skips = [], 0, 0, 0
    rows_of = [[row for _, row in records] for _, records in kept]
    ends = _ends(rows_of, width, mark, header=asked.header)
    for uri, records in kept:
        start = 0
        if asked.lines.skip_lines is None:
            start = _first_row(records, width, ends) or _below_titles(records, width, mark)
        skipped = records[start][0] if start < len(records) else 0
        rows = tuple(row for _, row in records[start:])
        hits += sum(len(row) == width for row in rows)
        hits += bool(ends == "rows" and rows and len(rows[0]) == width - 1)
        total += len(rows)
        skips += start > 0
        if rows:
            titles = start > 0 or bool(asked.lines.skip_lines)
            last = records[-1][0]
            between = sum(records[start][0] < line < last for line in blank[uri])
            files.append(FileRecords(uri, rows, asked.lines.skip_lines or skipped, titles, between))
    even = hits / total if total else 0.0
    score = 100 * even - 6 * (skips > 0) + 15 * _typed(files, mark, width) + min(width, 20) / 2
    score -= STRONG.index(mark) * 0.4 if mark in STRONG else 4
    score -= {('"', '"'): 0.0, ("", ""): 12.0}.get((quote, escape), 0.0)
    if quote == "'":
        score += 2 if _quoted(files) == 0 else -1
    elif escape == "\\" and quote:
        score += 1 if _escapes(sources, mark) else -2
    marks = replace(marks, comment=comment)
    apart = sum(len(_APART.findall(text)) for _, text, _ in sources) if trim and width == 2 else 0
    return _Try(marks, leads, width, even, ends, tuple(files), trim, score, apart)


_APART = regex(r"^[ \t]*\S+(?:[ \t]{2,}|\t)\S+[ \t]*\r?$", re.M)


def _are_runs(
    parsed: Sequence[tuple[str, _Numbered]], runs: Sequence[tuple[str, _Numbered]]
) -> bool:
    """Tell whether runs of blanks and tabs divide lines that single blanks do not divide as well.

    A column that is always empty stands between two blanks, or in front of the first value.
    """
    one, many = (
        [row for _, records in found for _, row in records if not _is_head(row)]
        for found in (parsed, runs)
    )
    widths, wider = Counter(map(len, many)), Counter(map(len, one))
    if len(many) < _LEAST_ROWS or not widths or (width := widths.most_common(1)[0][0]) < 2:
        return False
    usual = wider.most_common(1)[0][0]
    empty = [n for n in range(usual) if not any(row[n] for row in one if len(row) == usual)]
    return widths[width] >= _NEARLY_ALL * len(many) and (
        bool(empty) or wider[usual] < widths[width]
    )


_LEAST_ROWS = 2
_NEARLY_ALL = 0.95  # of the lines have as many fields: sentences have not


def _have_empty_cells(sources: _Sources, runs: Sequence[tuple[str, _Numbered]]) -> bool:
    """Tell whether lines that stand in columns leave some empty: runs of blanks would hide that.

    Where as many columns as lines have fields, or more, never touch, and lines show that they mean
    them, each field has to stand in its own. Other lines have no fixed columns.
    """
    widths = Counter(len(row) for _, records in runs for _, row in records if not _is_head(row))
    width = widths.most_common(1)[0][0]
    for _, text, whole in sources:
        lines = [
            # Where a field stands behind a tab, nobody knows.
            line.rstrip().partition("\t")[0] for line in text.split("\n")
            if line.strip() and not line.lstrip().startswith(COMMENTS)
        ]  # fmt: skip
        # The first may be a header, whose names reach over the columns, and the last may be cut.
        lines = lines[1 : None if whole else -1]
        filled = 0
        for line in lines:
            marked = _FIELD.sub(lambda found: "1" * len(found[0]), line)
            filled |= int(marked[::-1].replace(" ", "0") or "0", 2)
        columns = [found.start() for found in regex("1+").finditer(f"{filled:b}"[::-1])]
        if len(columns) < width:
            continue
        taken = [
            [bisect_right(columns, found.start()) - 1 for found in _FIELD.finditer(line)]
            for line in lines
        ]
        # A line may end early, which is an error of its own, as is one field too many.
        gaps = sum(own != [*range(len(own))] and len(own) <= width for own in taken)
        uses = Counter(n for own in taken for n in set(own))
        aligned = gaps * 2 < len(lines) if len(columns) == width else min(uses.values()) > 1
        if gaps and aligned:
            return True
    return False


_FIELD = regex(r'"(?:[^"]|"")*"|\S+')


def _is_head(row: Sequence[str]) -> bool:
    """Tell whether a record holds nothing, or is a comment."""
    return _is_empty(row) or row[0].startswith(COMMENTS) or not any(row)


def _are_set_off(parsed: Sequence[tuple[str, _Numbered]], *, both: bool) -> bool:
    """Tell whether all delimiters have blanks behind them, and in front where ``both``."""
    rows = [row for _, records in parsed for _, row in records if len(row) > 1]
    return len(rows) > 1 and all(
        all(field[:1] == " " for field in row[1:])
        and (not both or all(field[-1:] == " " for field in row[:-1]))
        for row in rows
    )


def _has_blanks_before_quotes(
    sources: _Sources, parsed: Sequence[tuple[str, _Numbered]], mark: str, quote: str
) -> bool:
    """Tell whether quotes that open or close a field have blanks outside of them."""
    if mark[0] in " \t" or not any(
        f" {quote}" in text or f"{quote} " in text for _, text, _ in sources
    ):
        return False
    one, around = re.escape(mark), re.escape(quote)
    closed = re.compile(rf"(?:^|{one}){around}[^{around}]*{around} +(?={one}|\r?$)", re.M)
    if any(closed.search(text) for _, text, _ in sources):
        return True  # behind a quote: no reader takes it
    opened = re.compile(rf"(?:^|{one}) +{around}", re.M)
    if not any(opened.search(text) for _, text, _ in sources):
        return False
    # Inside of quotes that looks the same: only in front of a field does a value begin so.
    return any(
        field[:1] == " " and field.lstrip(" ").startswith(quote)
        for _, records in parsed for _, row in records for field in row
    )  # fmt: skip


def _quoted(files: Iterable[FileRecords]) -> int:
    """Return the number of fields that still begin with a quote."""
    return sum(f[:1] in "'\"" for file in files for row in file.rows for f in row if len(f) > 1)


def _escapes(sources: _Sources, mark: str) -> bool:
    """Tell whether a backslash in front of a quote is followed by more of the field."""
    ends = (mark, "\n", "\r", "")
    return any(
        text[m.end() : m.end() + 1] not in ends for _, text, _ in sources
        for m in re.finditer(r'[^\\"]\\"', text)
    )  # fmt: skip


def _records(
    text: str, mark: str, quote: str, escape: str, whole: bool, *, trim: bool = False
) -> _Numbered:
    """Return (lines before it, fields) of each record; the last one only where it is whole."""
    one = mark
    if mark == " " and trim:
        text = _one_blank(text, quote)
    if len(mark) > 1:
        one, text = _SWALLOWED, text.replace(mark, _SWALLOWED)
    lines = [line + "\n" for line in text.split("\n")]
    if lines and lines[-1] == "\n":
        lines.pop()
    if quote:
        reader = csv.reader(
            lines, delimiter=one, quotechar=quote,
            doublequote=escape == quote, escapechar=None if escape == quote else escape,
            skipinitialspace=trim,
        )  # fmt: skip
    else:
        reader = csv.reader(lines, delimiter=one, quoting=csv.QUOTE_NONE)
    found: list[tuple[int, tuple[str, ...]]] = []
    before = 0
    # What came before an error is enough.
    with _fields_of(max(map(len, lines), default=0)), suppress(csv.Error):
        for row in reader:
            found.append((before, tuple(f.strip(" ") for f in row) if trim else tuple(row)))
            before = reader.line_num
    if not whole and len(found) > 1:
        found.pop()
    return found


_FIELDS = Lock()


@contextmanager
def _fields_of(size: int) -> Iterator[None]:
    """Let the parser of the standard library take fields of so many characters.

    It stops at 131,072. The limit is one of the process, which may be somebody's own program.
    """
    if size <= csv.field_size_limit():
        yield
        return
    with _FIELDS:
        before = csv.field_size_limit(size)
        try:
            yield
        finally:
            csv.field_size_limit(before)


_RUN = regex(r'("(?:[^"]|"")*")|[ \t]+')


def _one_blank(text: str, quote: str) -> str:
    """Return lines whose runs of blanks and tabs, but those in quotes, are one blank."""
    if quote == '"' and '"' in text:
        text = _RUN.sub(lambda found: found[1] or " ", text)
    else:
        text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r"^ | (?=\r?$)", "", text, flags=re.M)


def _is_empty(row: Sequence[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _comment(parsed: Iterable[tuple[str, _Numbered]], mark: str) -> str:
    """Return what lines begin with that differ from others in their number of fields; "" for none.

    Args:
        mark: the delimiter.
    """
    rows = [row for _, records in parsed for _, row in records if row]
    for begin in COMMENTS:
        marked = [row for row in rows if row[0].startswith(begin)]
        if not marked:
            continue
        widths = Counter(len(row) for row in rows if not row[0].startswith(begin))
        usual = widths.most_common(1)[0][0] if widths else 0
        wide = [row for row in marked if len(row) == usual]
        if usual > 1 and not wide:
            return begin
        if usual < 2 or begin != "#" or len(wide) == len(marked):
            continue
        body = [row for row in rows if not row[0].startswith(begin)]
        # Many of them between the rows may name the parts of a file, whose rows say little then.
        between = len(marked) - rows.index(body[0])
        if mark == " " and between * 10 < len(body) and _are_words(wide, body, usual):
            return begin
        # In front of the rows, sentences may have as many commas; and one may hold the names.
        sentences = (row[0].strip("# ").count(" ") > _NAME_BLANKS for row in wide)
        if rows[: len(marked)] == marked and all(sentences):
            return begin
        if len(wide) == 1 and marked[-1] is not wide[0] and commented_names(wide[0]):
            return begin
        if all(row[0].strip("# ").startswith("@") for row in wide):
            return begin  # as Unicode writes what holds for all others
    return ""


def _are_words(marked: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Tell whether lines of so many words are sentences among rows that hold numbers.

    Most columns of the rows do, and no such word of any of these lines.
    """
    body = [row for row in rows if len(row) == width]
    kinds = [kind(column, " ") for column in zip(*body, strict=True)]
    typed = [n for n, own in enumerate(kinds) if own in ("number", "time")]
    words = all(not kind_of(row[n]) for row in marked for n in typed)
    return len(body) >= _LEAST_TABLE and len(typed) * 2 > width and words


def commented_names(row: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a comment line of so many fields holds; () where it holds none."""
    names = tuple(name.strip("# ") for name in row)
    named = len(set(names)) == len(names) and all(n and not kind_of(n) for n in names)
    named = named and not any(n.startswith("@") or ": " in n for n in names)  # a remark
    return names if named and all(len(n) <= _LONG_NAME for n in names) else ()


_LONG_NAME = 40  # letters: a sentence with a comma has more
_NAME_BLANKS = 3  # of a name; a sentence has more in front of its first comma


def _first_row(records: Sequence[tuple[int, tuple[str, ...]]], width: int, ends: str) -> int:
    """Return the index of the first record that is no title: narrower ones before it are."""
    if width < 2:
        return 0
    wanted = (width, width - 1) if ends == "rows" else (width,)
    for n, (line, row) in enumerate(records):
        if len(row) in wanted or (len(row) == width + 1 and not row[-1] and all(row[:-1])):
            return n  # or a header that alone ends in a delimiter
        if len(row) > width or line > _JUNK_LINES or sum(map(bool, row)) > max(1, width // 2):
            return 0
    return 0


def _below_titles(records: Sequence[tuple[int, tuple[str, ...]]], width: int, mark: str) -> int:
    """Return the index of the header below rows with one text at most, as sheets have titles.

    0 where there is none: a name has to stand in each column, some above numbers or times.
    """
    if width < _LEAST_TITLED:
        return 0
    for n, (line, row) in enumerate(records):
        filled = [field for field in row if field.strip()]
        if len(filled) == width == len(row):
            if not n or any(map(kind_of, filled)):
                return 0
            rows = [row for _, row in records[n + 1 :]]
            return n if _typed([FileRecords("", ((), *rows))], mark, width) else 0
        if len(row) != width or len(filled) > 1 or line > _JUNK_LINES or any(map(kind_of, filled)):
            return 0
    return 0


_LEAST_TITLED = 3  # columns: of two, one may well be empty


def _ends(
    tables: Sequence[Sequence[tuple[str, ...]]], width: int, mark: str, *, header: bool | None
) -> str:
    """Tell whether a delimiter stands behind the last field: of all records, or of rows alone."""
    if width < 2:
        return ""
    last = [row[-1] for rows in tables for row in rows[1:] if len(row) == width]
    if not last or any(last):
        return ""
    first = [rows[0] for rows in tables if rows]
    if all(len(row) == width - 1 and width > 2 for row in first):
        return "rows"
    bare = all(len(row) == width and not row[-1] for row in first)
    # Without a header the last column may just be empty; pipes are what databases end lines with.
    # The first name may be empty, above an index.
    named = header or all(
        all(f.strip() and not kind_of(f) for f in row[not row[0].strip() : -1]) for row in first
    )
    return "all" if bare and (mark == "|" or named) else ""


# --- kinds of values -----------------------------------------------------------------------------


def _typed(files: Sequence[FileRecords], mark: str, width: int) -> float:
    """Return the share of columns that hold no text."""
    rows = body_of(files, width)[:100] or [f.rows[0] for f in files if len(f.rows[0]) == width]
    if not rows:
        return 0.0
    kinds = [kind(column, mark) for column in zip(*rows, strict=True)]
    return sum(k not in ("", "?") for k in kinds) / width


# --- header --------------------------------------------------------------------------------------


def _named(found: FoundDialect, asked: DialectOptions) -> FoundDialect:
    """Return the finding with its header and the names of the columns."""
    if not found.files:
        return found
    header, why, sure = asked.header, "as --header says", True
    if header is None and found.ends == "rows":
        header, why = True, "it has no delimiter at its end, the rows have"
    row_names = header is not False and _has_row_names(found)
    widest = max(len(row) for file in found.files for row in file.rows)
    filled = asked.lines.short_rows == "null"
    if header is None and row_names:
        header, why = True, "it has one field fewer than the rows"
    if header is None:
        header, why, sure = has_header(found.files, found.marks.delimiter, found.width)
        if header and not sure and filled and len(found.files[0].rows[0]) < widest:
            header, why = False, "the first line has fewer fields than others: a row"
    first = found.files[0].rows[0]
    fields = tuple(first)
    if found.ends == "all" and len(fields) == found.width:
        fields = fields[:-1]
    if header and not found.ends and _ends_empty(found):
        # Titles above it, and names that are numbers, have hidden that from _ends.
        found, fields = replace(found, ends="all"), fields[:-1]
    if header and len(fields) > found.width:
        found, fields = _with_long_header(found, fields)
    if filled and not header and not found.ends:
        found = replace(found, width=widest)
    if filled:
        names_first = int(bool(header))
        files = tuple(_filled(f, found.width, names_first) for f in found.files)
        found = replace(found, files=files)
    width = found.width - (found.ends in ("all", "rows"))
    given = fields if header else ()
    names = asked.columns or (unique_names(given) if header else ())
    if not names:
        names = tuple(f"c{n + 1}" for n in range(width if found.files else 0))
    rows = body_of(found.files, found.width)
    words: list[tuple[int, tuple[str, ...]]] = []
    for n, column in enumerate(zip(*rows, strict=True)):
        values = dict.fromkeys(map(str.strip, column))
        held = tuple(v for v in values if v in NULL_WORDS and v != "\\N")
        own = kind(values, found.marks.delimiter) if held else ""
        if own == "?":  # nothing else in these rows: those below them may show what it is
            own = kind(_column_of(found, n), found.marks.delimiter)
        if held and own not in ("", "?"):
            words.append((n, held))
    return replace(
        found,
        header=header,
        why=why,
        sure=sure,
        given=given,
        row_names=row_names,
        names=names,
        null_words=tuple(words),
        bare=not header
        and found.marks.delimiter in WEAK
        and asked.marks.delimiter is None
        and found.width > 1,
    )


def _column_of(found: FoundDialect, number: int) -> list[str]:
    """Return the values of a column below the first line, of all rows that were looked at."""
    rows = (row for file in found.files for row in file.rows[1:])
    return [row[number] for row in rows if len(row) == found.width]


def _ends_empty(found: FoundDialect) -> bool:
    """Tell whether nothing stands behind the last delimiter, of any record.

    Blanks are a field, of a column without a name: no reader takes them for the end of a line.
    """
    rows = [row for file in found.files for row in file.rows if len(row) == found.width]
    return found.width > 2 and len(rows) > 1 and not any(row[-1] for row in rows)


def _with_long_header(
    found: FoundDialect, fields: tuple[str, ...]
) -> tuple[FoundDialect, tuple[str, ...]]:
    """Return the finding and the names for a header with more fields than most rows.

    Behind the names there may be delimiters alone; else the rows lack fields.
    """
    if not any(f.strip() for f in fields[found.width :]):
        return replace(found, ends="header"), fields[: found.width]
    return replace(found, width=len(fields), short=True), fields


def _filled(file: FileRecords, width: int, first: int) -> FileRecords:
    """Return the records of a file with those that are short filled up, from ``first`` on."""
    rows = (row + ("",) * (width - len(row)) for row in file.rows[first:])
    return replace(file, rows=(*file.rows[:first], *rows))


def _has_row_names(found: FoundDialect) -> bool:
    """Tell whether the header has one field fewer than all rows, the first of which differs."""
    first, width = found.files[0].rows[0], found.width
    rows = [row for f in found.files for row in f.rows[1:]]
    if (
        found.ends
        or width < 2
        or len(rows) < 2
        or any(len(f.rows[0]) != width - 1 for f in found.files)
    ):
        return False
    if any(len(row) != width for row in rows) or any(not f.strip() or kind_of(f) for f in first):
        return False
    kinds = [kind([row[n] for row in rows], found.marks.delimiter) for n in range(width)]
    keys = [[row[0] for row in f.rows[1:]] for f in found.files]
    return any(k not in ("", "?") for k in kinds[1:]) and all(
        len(set(own)) == len(own) for own in keys
    )
