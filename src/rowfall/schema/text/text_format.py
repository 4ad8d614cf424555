"""Reads the first bytes of text files and says how they are read: encoding, names of columns.

What the bytes show is found by :mod:`rowfall.core.dialect`; here is where they come from, what
files that differ mean, and what of it the two readers take as it is.
"""

from __future__ import annotations

import base64
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from rowfall.core import charsets, formats
from rowfall.core.dialect import (
    BELOW_REPORT,
    MOST_LINES,
    DialectOptions,
    FoundDialect,
    LineOptions,
    MarkOptions,
    TextMarks,
    TextSample,
    commented_names,
    sniff,
)
from rowfall.core.errors import (
    RowfallError,
    SourceError,
    UnclosedQuoteError,
    UsageError,
    without_letters,
)
from rowfall.core.header_line import body_of, brief, has_header, unique_names
from rowfall.core.listing import Split
from rowfall.core.model import Dialect, Encoding
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.core.unit_lines import are_units
from rowfall.core.value_kinds import MISSING_WORDS, NULL_WORDS, kind, kind_of, value_class
from rowfall.decoder import installed, rewriting
from rowfall.engines.base import on_all
from rowfall.schema.text import log_lines, marked_values
from rowfall.schema.text.last_rows import find_last_rows
from rowfall.schema.text.log_lines import TextFormat
from rowfall.schema.text.other_headers import hint_of
from rowfall.schema.text.records import APART, lines_relation
from rowfall.schema.text.shown_values import ShownValues, find_shown, plain_rows
from rowfall.schema.text.tsv_marks import with_tsv_marks
from rowfall.sources.base import ReadOnce, SampledInFile, Source
from rowfall.stores.first_bytes import UNPACKED_HERE, beginning, unpack

RunSelect = Callable[[SqlText, Mapping[str, str | int | float]], list[list[Any]]]

UNSURE = "unsure"
"""Subject of notes about what may as well be otherwise."""

ROW_NAME = "row_name"
"""The column of the names of rows, which have no name in headers that R has written."""

OTHERWISE = "otherwise"
"""Subject of notes that hold options by which a load reads the text in the other way."""

FILLING = "--short-rows null"
"""The option that reads rows of which some are longer than most."""

TOLD = frozenset({"blank lines", "blanks", "names", "short rows", "words"})
"""Subjects of notes about what is left out or NULL, which a load says, too."""

SAMPLE = 1 << 18
"""Bytes of all samples together; each file gives at least a sixteenth."""
LONG_SAMPLE = 4 << 20
"""Bytes of a file whose first lines are longer: 8,000 names of columns took 490 kB."""
_LEAST_LINES = 2  # a header and a row
LINES = 256
"""Lines of each file, where only the engine can read it."""
# Rows, from all over the sample, in which numbers and dates with other marks are looked for: nine
# of ten have to have them. All 29,000 rows of narrow files took 0.2 s of each load.
_FOR_HINTS = 1000


def asked_of(options: Options) -> DialectOptions:
    """Return the options about text: header, delimiter, quotes; None for those not given.

    Raises:
        UsageError: options contradict each other.
    """
    header: bool | None = None
    by_format = False
    if options.header is not None:
        if options.header.lower() not in _ANSWERS:
            raise UsageError(f"--header {options.header}: say yes or no")
        header = _ANSWERS[options.header.lower()]
    named = formats.find(options.format).name if options.format else ""
    if named in ("CSV", "CSVWithNames", "TSV", "TSVWithNames") and header is None:
        header, by_format = named.endswith("WithNames"), True
    elif named.endswith("WithNames") and header is False:
        raise UsageError(f"--header no contradicts --format {named}", hint="Leave one of them out.")
    names = tuple(name.strip() for name in (options.columns or "").split(",") if name.strip())
    if len(set(names)) < len(names):
        raise UsageError(f"--columns names a column twice: {options.columns}")
    delimiter = None if options.delimiter is None else formats.characters(options.delimiter)
    comment = "" if options.comment == "none" else options.comment
    for flag, given, known in (
        ("--blanks", options.blanks, ("keep", "trim")),
        ("--short-rows", options.short_rows, ("error", "null")),
        ("--blank-lines", options.blank_lines, ("skip",)),
    ):
        if given is not None and given not in known:
            raise UsageError(f"{flag} {given}: say {' or '.join(known)}")
    return DialectOptions(
        bool(options.format),
        MarkOptions(
            delimiter, _mark("--quote", options.quote, 1), _mark("--escape", options.escape, 1),
            comment,
        ),
        LineOptions(
            options.skip_lines, options.blanks, options.short_rows, options.blank_lines,
            as_they_are=options.pull,
        ),
        header, names,
        decimal=options.decimal or ".",
        bad_bytes=bool(options.max_errors or options.max_error_ratio),
        by_format=by_format,
        most_columns=options.max_columns,
    )  # fmt: skip


_ANSWERS = {"yes": True, "true": True, "no": False, "false": False}


def _mark(flag: str, text: str | None, most: int) -> str | None:
    if text is None or len(text) == most:
        return text
    if text.lower() == "none":
        return ""
    raise UsageError(f"{flag} {text}: give one character, or none")


def find_text_format(
    source: Source,
    splits: Sequence[Split],
    encoding: Encoding,
    ask: RunSelect,
    asked: DialectOptions,
) -> TextFormat:
    """Find out how the files are written.

    Args:
        encoding: by extension or option.

    Raises:
        SourceError: there are no rows, or more columns.
        UsageError: files differ in header or column count; or cannot be read as they are written.
        UnclosedQuoteError: a stream is here as a whole, and a quote of it is never closed.
    """
    each = max(SAMPLE // len(splits), SAMPLE // 16)
    samples = _read(source, splits, encoding, ask, each, LINES)
    if encoding.dialect is not None and encoding.dialect.lines:
        return log_lines.find_format(samples, encoding, asked)
    if encoding.dialect is not None:
        asked = _of_dialect(encoding.dialect, asked)
    elif encoding.binary:
        asked = replace(asked, charset="latin-1")
    if encoding.is_tsv:
        asked = with_tsv_marks(samples, asked)
    found = sniff(samples, asked)
    counted = counts_of(found, samples, asked)
    if counted:
        asked = replace(_skipping(asked, 1), header=False)
        found = sniff(samples, asked)
    lacking = lacking_rows(found, samples, asked)
    if lacking:
        asked = replace(asked, lines=replace(asked.lines, short_rows="null"))
        found = sniff(samples, asked)
    commented = _names_in_comment(found, samples, asked)
    if commented:
        asked = replace(asked, header=False, columns=commented)
        found = sniff(samples, asked)
    found_lines = found.skip_lines + 1
    below = lines_of_units(found, samples, asked)
    left = found.files[0].rows[1] if below is not None else ()
    if below is not None:
        asked, found = below, sniff(samples, below)
    row_names = found.row_names and not asked.columns and _is_of_r(found, samples)
    if row_names:
        asked = replace(asked, columns=unique_names((ROW_NAME, *found.given)))
        found = sniff(samples, asked)
    if not found.files:
        for split, what in source.changed(splits):
            raise SourceError(
                f"{split.uri}: {what}", hint="Fetch the file again, or see how it was written."
            )
        raise SourceError(
            f"{splits[0].uri} holds no rows to infer columns from",
            hint="Check what writes it, and whether it has finished.",
        )
    if found.marks.delimiter == "\x1f" and all(_ASCII_RECORDS.fullmatch(s.data) for s in samples):
        name = shlex.quote(found.files[0].uri)
        raise UsageError(
            f"{found.files[0].uri} ends its records with \\x1e and has no lines",
            hint=f"Make lines of them: tr '\\036' '\\n' <{name} | rowfall load - --table NAME",
        )
    if all(map(_ends_twice, samples)):
        name = shlex.quote(found.files[0].uri)
        text = f"gzip -dc {name} | tr -d '\\r'" if name.endswith(".gz") else f"tr -d '\\r' <{name}"
        raise UsageError(
            f"{found.files[0].uri} ends its lines with \\r\\r\\n, which is two line ends",
            hint=f"Make one of them: {text} | rowfall load - --table NAME",
        )
    if not source.replayable and encoding.is_csv:
        # Of files rowfall-decode says it, of each by itself. A stream may be left to the engine,
        # which takes all that follows for one value.
        name = "stdin" if source.text == "-" else source.text
        _check_closed(name, samples, found, asked)
    _check_above(found, samples, asked)
    check_width(splits, columns_of(found), asked.most_columns)
    if asked.columns and len(asked.columns) != columns_of(found):
        raise UsageError(
            f"--columns names {len(asked.columns)} columns, {found.files[0].uri} has "
            f"{columns_of(found)}",
            hint="Name all of them, in their order.",
        )
    if found.row_names and not asked.columns:
        raise UsageError(
            f"{found.files[0].uri} names {found.width - 1} columns, its rows have {found.width} "
            "fields",
            hint="R writes the names of rows so, without a name of their own: --columns "
            f"{shlex.quote(','.join((ROW_NAME, *found.given)))}.",
        )
    _check_alike(found)
    _check_long_header(found, asked, samples)
    raw = encoding.is_tsv and asked.marks.escape == ""
    encoding = _encoding(found, encoding, raw=raw, renamed=bool(asked.columns) and found.header)
    whole = all(sample.whole for sample in samples)
    # A server that reads a large file itself is faster than what is rewritten here.
    here = (whole or not source.remote) and not asked.lines.as_they_are
    body = _rows_in_order(found)
    shown = _shown(found, encoding, source, body) if here else ShownValues()
    body = plain_rows(body, shown)
    missing = _missing(found, encoding, source, body, rewritten=bool(shown)) if here else ()
    body = _without_words(body, dict(missing))
    order = _date_order(found, encoding, source, body) if here else ""
    odd = unplain(found) or _wanted(asked)
    odd = odd or ("has words for NULL" if missing else None)
    odd = odd or ("has dates" if order or shown.dates else None)
    odd = odd or ("has marks in numbers" if shown else None)
    notes = [*_notes(found, asked, samples, whole=whole, tsv=encoding.is_tsv)]
    if counted:
        notes.append(("names", f"the first line counts {counted}, and is left out"))
    if lacking:
        rows = "1 row lacks" if lacking == 1 else f"{lacking:,} rows lack"
        why = f"{rows} fields at their end: empty ones; --short-rows error refuses such rows"
        notes.append(("short rows", why))
    if commented:
        notes.append(("names", "one of the comment lines names the columns"))
    if below is not None:
        lines = (below.lines.skip_lines or 0) - found_lines
        which = f"line {found_lines + 1} holds"
        which = which if lines == 1 else f"the {lines} lines below the names hold"
        why = f"{which} units or questions, left out: {brief(left)}"
        notes.append((UNSURE, f"{why}; --header yes keeps what stands below the first line"))
        notes.append((OTHERWISE, "--header yes"))
    if row_names:
        why = f"the header has no name for the first column, called {ROW_NAME} here"
        notes.append(("names", f"{why}: R writes the names of rows so"))
    if encoding.is_tsv and (
        found.blank_lines or found.ends or found.line_end == "\r" or _wanted(asked)
        or missing or order or shown or found.skip_lines or found.marks.comment or found.trim
    ):  # fmt: skip
        # No reader of TSV leaves out lines or blanks, fills rows or knows CR: it is made plain CSV.
        odd = odd or "has blank lines"
        found = replace(found, marks=TextMarks("\t", "", "\\", found.marks.comment))
        encoding = replace(
            encoding,
            format=encoding.format.replace("TSV", "CSV"),
            names=found.names if found.header else (),
        )
    if odd and not encoding.is_tsv:
        encoding = _rewritten(found, odd, encoding, asked, seen=_all_seen(samples, asked))
        if isinstance(source, ReadOnce):
            source.spool()  # its lines are counted by reading it again
            notes.append((UNSURE, f"stdin {odd}, so it {source.notes[-1].removeprefix('stdin ')}"))
    elif encoding.dialect is not None and encoding.is_csv:
        encoding = _with_marks(
            found, encoding, encoding.dialect, asked, seen=_all_seen(samples, asked)
        )
    if missing and encoding.dialect is not None:
        header = found.names if encoding.has_header and not encoding.header else ()
        dialect = replace(encoding.dialect, missing=missing, header=header)
        encoding = replace(encoding, dialect=dialect)
    if order and encoding.dialect is not None:
        dialect = replace(encoding.dialect, dates=((-1, order),))
        encoding = replace(encoding, dialect=dialect)
    nulls = (encoding.dialect or Dialect()).nulls
    classes = [
        # A column may hold nothing in its first rows.
        value_class([row[n] for row in body[:512]], nulls)
        or value_class([row[n] for row in body], nulls)
        for n in range(len(found.names))
    ]
    narrow = [row[: len(found.names)] for row in body]
    marked = marked_values.find_columns(encoding, found.names, narrow)
    if order and marked.dialect is not None:
        dates = tuple(own for own in marked.dialect.dates if own[0] >= 0)  # by no option
        marked = replace(marked, dialect=replace(marked.dialect, dates=dates))
    if shown:
        marked = marked_values.with_shown(marked, found.names, shown)
    if marked != encoding:
        # Their numbers and dates have been seen as they were written.
        encoding, classes = marked, [""] * len(classes)
    named = tuple(zip(found.names, classes, strict=True))
    some = narrow[:: 1 + len(narrow) // _FOR_HINTS]
    seen = marked_values.suggest(
        encoding.dialect or Dialect(), found.names, some, narrow,
        {n: words for n, words in found.null_words if n not in dict(missing)},
        narrow[0] if narrow and _has_units(found) else found.names,
    )  # fmt: skip
    # A name with a comma shows a delimiter that was not taken: its commas stand before no decimals.
    unsplit = any(mark == "," for mark, _ in found.others) and "," in "".join(found.names)
    for said in () if encoding.binary or unsplit else seen:
        notes.append((UNSURE, said.text))
        notes += [(OTHERWISE, said.flags)] if said.flags is not None else []
    return TextFormat(encoding, named, found.bom, tuple(notes))


def _ends_twice(sample: TextSample) -> bool:
    """Tell whether all lines end so, as of programs that write the line ends of Windows twice."""
    lines = sample.data.count(b"\n")
    return 0 < lines == sample.data.count(b"\r\r\n")


def counts_of(found: FoundDialect, samples: Sequence[TextSample], asked: DialectOptions) -> str:
    """Return what the first line of the file counts: the rows below it, and columns perhaps.

    The last column, of classes, is not always counted. What may be a row is left out by no chance:
    the line is narrower, or differs in kind from those below it, and counts more than a few rows.
    "" for other lines.
    """
    if asked.lines.skip_lines is not None or asked.header is not None or asked.columns:
        return ""
    if len(samples) != 1 or not samples[0].whole or found.skip_lines > 1 or not found.files:
        return ""
    rows = len(found.files[0].rows) - (found.skip_lines == 0)
    line = charsets.decode(samples[0].data, found.charset).partition("\n")[0].strip()
    first = [field.strip() for field in line.split(found.marks.delimiter)]
    if rows < _COUNTED or not (len(first) < found.width or found.header) or first[0] != str(rows):
        return ""
    if len(first) == 1:
        return "rows" if found.even == 1 and not found.header else ""
    return "rows and columns" if first[1] in (str(found.width - 1), str(found.width)) else ""


def _all_seen(samples: Sequence[TextSample], asked: DialectOptions) -> bool:
    """Tell whether every line of every file has been looked at."""
    lines = sum(sample.data.count(b"\n") for sample in samples)
    seen = all(sample.whole for sample in samples) and not asked.lines.as_they_are
    return seen and lines < MOST_LINES


def lacking_rows(found: FoundDialect, samples: Sequence[TextSample], asked: DialectOptions) -> int:
    """Return the number of rows between tabs that end before columns which need not be filled.

    Editors and scripts leave out the tabs at the end of a row. 0 where not all rows were looked at,
    and where a row may be cut: by a line break, or with its file; or be none.
    """
    if asked.lines.short_rows is not None or found.marks.delimiter != "\t" or asked.columns:
        return 0
    if not found.files or found.ends or found.row_names or not _all_seen(samples, asked):
        return 0
    every = [row for file in found.files for row in file.rows]
    width = max(map(len, every))
    named = found.header and len(every[0]) == width
    if (found.header and found.sure and not named) or found.titles:
        return 0
    full = [row for row in every[int(named) :] if len(row) == width]
    short = [row for row in every if len(row) < width]
    if not short or width < _LEAST_LACKING or any(len(row) < 2 for row in short):
        return 0
    least = min(map(len, short))
    left_empty = any(not row[n].strip() for row in full for n in range(least, width))
    usual = min(len(short), len(full)) * _SOME > len(every) and len(full) > 1
    kinds = [kind(column, "\t") for column in zip(*full, strict=True)]
    odd = any(
        value.strip() and own not in ("", "?") and kind_of(value, "\t") != own
        for row in short for value, own in zip(row, kinds, strict=False)
    )  # fmt: skip
    data = {sample.uri: sample.data for sample in samples}
    for file in found.files:
        sizes = [len(row) for row in file.rows]
        odd = odd or any(a < width > b and a + b == width + 1 for a, b in pairwise(sizes))
        odd = odd or (sizes[-1] < width and not data[file.uri].endswith((b"\n", b"\r")))
    return len(short) if (left_empty or usual) and not odd else 0


_LEAST_LACKING = 3  # columns: of two, what lacks one is a line of text
_SOME = 20  # one row in so many lacks fields: a habit of the file


_COUNTED = 10  # rows; fewer are what any small number counts


def _names_in_comment(
    found: FoundDialect, samples: Sequence[TextSample], asked: DialectOptions
) -> tuple[str, ...]:
    """Return the names that one comment line of each file holds; () where none does."""
    if asked.header is not None or asked.columns or asked.marks.comment is not None:
        return ()
    if found.header or found.marks.comment != "#" or found.width < _LEAST_LINES:
        return ()
    heads = set()
    for sample in samples:
        text = charsets.decode(sample.data, found.charset)
        lines = [line for line in text.splitlines() if line.startswith("#")]
        heads.add(_fields_named(lines, found) or _names_among(lines, found))
    return heads.pop() if len(heads) == 1 else ()


def _names_among(lines: Sequence[str], found: FoundDialect) -> tuple[str, ...]:
    """Return the names in the only comment line with as many fields as the rows; () for none."""
    mark = found.marks.delimiter
    if found.trim:
        return ()
    if mark == "\t\t" and not any(mark in line for line in lines):
        mark = "\t"  # rows are aligned by more tabs than names
    rows = [line.split(mark) for line in lines if line.count(mark) == found.width - 1]
    return commented_names(rows[0]) if len(rows) == 1 else ()


def _fields_named(lines: Sequence[str], found: FoundDialect) -> tuple[str, ...]:
    """Return the names behind ``#Fields:``, as servers and BLAST write them; () for none."""
    said = {named[1].strip() for named in map(_FIELDS_OF_LOG.match, lines) if named}
    if len(said) != 1:
        return ()
    listed = said.pop()
    for mark in dict.fromkeys((found.marks.delimiter, "\t", ", ", " ")):
        row = listed.split(mark)
        if len(row) == found.width:
            return commented_names(row)
    return ()


_FIELDS_OF_LOG = regex(r"# ?Fields:\s*(.+)")

# Records of ASCII's own delimiters, without line ends but one perhaps behind all of them.
_ASCII_RECORDS = regex(rb"[^\r\n]*\x1e[^\r\n]*[\r\n]*")


def _check_closed(
    name: str, samples: Sequence[TextSample], found: FoundDialect, asked: DialectOptions
) -> None:
    """Check that each quote which begins a field is closed, in text that is here as a whole."""
    marks = found.marks
    plain = marks.quote and marks.escape == marks.quote and found.charset == "utf-8"
    for sample in samples if plain else ():
        quote, text = marks.quote.encode(), sample.data
        # A field that is not closed has an odd number of quotes.
        if not sample.whole or text.count(quote) % 2 == 0:
            continue
        at, before = text.find(quote), (b"\n", b"\r", marks.delimiter.encode())
        while at >= 0:
            if at and not text.endswith(before, 0, at):
                at = text.find(quote, at + 1)  # a letter of its value
                continue
            end = text.find(quote, at + 1)
            while end >= 0 and text[end + 1 : end + 2] == quote:
                end = text.find(quote, end + 2)
            if end < 0:
                line = text.count(b"\n", 0, at) + 1
                error = UnclosedQuoteError(
                    f"line {line}", uri=name, split_id="", line=line, column=None
                )
                letters = replace(asked, marks=replace(asked.marks, quote=""))
                if not _reads(samples, letters, found.width):
                    error.hint = without_letters(error.hint)
                raise error
            at = text.find(quote, end + 1)


def _check_above(found: FoundDialect, samples: Sequence[TextSample], asked: DialectOptions) -> None:
    """Check that the line which is taken for the names has more than one field where rows have.

    Raises:
        UsageError: it has not: there are more lines above the table than are left out.
    """
    first = found.files[0].rows
    if asked.lines.skip_lines is not None or asked.header is not None or asked.columns:
        return
    if found.width < _LEAST_ABOVE or len(first[0]) > 1 or asked.lines.short_rows == "null":
        return
    lines = charsets.decode(samples[0].data, found.charset).split("\n")
    last = max((n for n, row in enumerate(first[:_HEAD]) if len(row) != found.width), default=0)
    hint = "Take the lines above the table out of the file."
    if last + 1 < len(first):
        row = first[last + 1]
        at = next((n for n, line in enumerate(lines)
                   if all(field in line for field in row) and line.strip()), None)  # fmt: skip
        if at is not None and _reads(samples, _skipping(asked, at), found.width):
            hint = f"--skip-lines {at} reads what stands below them."
    what = f"begins with lines of one field, most of its lines have {found.width}"
    raise UsageError(f"{found.files[0].uri} {what}", hint=hint)


_LEAST_ABOVE = 3  # fields; of two, a line may well lack one
_HEAD = 400  # records among which the last one of the lines above is looked for


def check_width(splits: Sequence[Split], count: int, most: int) -> None:
    """Check that a file has no more columns than it may.

    Raises:
        SourceError: it has.
    """
    if count > most:
        raise SourceError(
            f"{splits[0].uri} has {count:,} columns or more, and at most {most:,} are read",
            hint="Is the delimiter another one? If not, rows of an id, a name and a value are "
            "better. All columns are read, which takes long, with --max-columns "
            f"{10 ** len(str(count))}",
        )


def _reads(
    samples: Sequence[TextSample], asked: DialectOptions, width: int, *, odd: int = 0
) -> bool:
    """Tell whether samples are rows of so many fields as options would have them read.

    What a note names is tried so, a millisecond for text that is not clear.

    Args:
        odd: rows that may have another number, see :func:`_odd_rows`.
    """
    try:
        found = sniff(samples, asked)
        # They are refused without a header below them.
        titles = found.titles and asked.lines.skip_lines is None
        if not found.files or found.row_names or (titles and not found.header):
            return False
        _check_alike(found)
        _check_long_header(found, asked, samples)
    except RowfallError:
        return False
    rows = [row for file in found.files for row in file.rows]
    return found.width == width and sum(len(row) != width for row in rows) <= odd


def _skipping(asked: DialectOptions, count: int) -> DialectOptions:
    return replace(asked, lines=replace(asked.lines, skip_lines=count))


def _split_by(asked: DialectOptions, delimiter: str) -> DialectOptions:
    return replace(asked, marks=replace(asked.marks, delimiter=delimiter))


def _keeping(asked: DialectOptions, short_rows: str | None) -> DialectOptions:
    """Return ``asked`` where lines that begin like comments are rows."""
    marks = replace(asked.marks, comment="")
    return replace(asked, marks=marks, lines=replace(asked.lines, short_rows=short_rows))


def _notes(
    found: FoundDialect,
    asked: DialectOptions,
    samples: Sequence[TextSample],
    *,
    whole: bool,
    tsv: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield subjects and sentences about the files, of which all has been read where ``whole``.

    Options that change where fields end are tried on the samples.
    """
    odd = _odd_rows(found, asked)
    if asked.header is None:
        other = replace(asked, header=not found.header)
        if found.sure:
            yield "header", found.why
        elif found.others:  # other columns have another first line
            yield UNSURE, found.why.partition("; ")[0]
        elif _reads(samples, other, found.width, odd=odd):
            yield UNSURE, found.why
            yield OTHERWISE, f"--header {'no' if found.header else 'yes'}"
        else:
            yield UNSURE, found.why.partition("; ")[0]
    elif asked.by_format:
        with suppress(UsageError):  # only some files have one: those fail alone
            named, why, sure = has_header(found.files, found.marks.delimiter, found.width)
            if sure and named != found.header:
                way = "--header yes" if named else f"--format {'TSV' if tsv else 'CSV'}"
                reads = _reads(samples, replace(asked, header=named), found.width, odd=odd)
                yield UNSURE, f"{why}; {way} reads it so" if reads else why
    titles = {_titles(file.rows) for file in found.files}
    if asked.lines.skip_lines is None and len(titles) == 1 and titles != {0}:
        count = titles.pop()
        lines = "line holds" if count == 1 else f"{count} lines hold"
        why = f"the first {lines} one value at most"
        if _reads(samples, _skipping(asked, count), found.width):
            yield UNSURE, f"{why}; --skip-lines {count} leaves them out"
            yield OTHERWISE, f"--skip-lines {count}"
        else:
            yield UNSURE, why
    if (_has_units(found) or _fills_gaps(found)) and asked.lines.skip_lines is None:
        yield from _units(found, asked, samples, odd)
    if found.header and whole and all(len(file.rows) == 1 for file in found.files):
        yield UNSURE, "there is no row below the header, so nothing shows the types of the columns"
    yield from _last_rows(found, samples)
    if found.marks.comment and asked.marks.comment is None and found.why != BELOW_REPORT:
        mark = found.marks.comment
        # In front of the rows it is a comment, among them it may be a row that is not whole.
        subject = "comment" if mark == "#" and found.leads else UNSURE
        why = f"lines that begin with {mark} are left out"
        if parts := _parts(found, samples):
            subject, why = UNSURE, f"{why}, {parts} of them between rows, which may name parts"
        filled = {
            "--comment none": asked.lines.short_rows,
            "--comment none --short-rows null": "null",
        }
        ways = (
            way for way, short in filled.items()
            if _reads(samples, _keeping(asked, short), found.width, odd=odd)
        )  # fmt: skip
        keeps = next(ways, None)
        yield subject, f"{why}; {keeps} keeps them" if keeps else why
        if keeps and subject == UNSURE:
            yield OTHERWISE, keeps
    for mark, fields in found.others[:1]:
        said = formats.spelled(mark)
        why = f"one column only, but {said} splits most lines into {fields}"
        if mark == " " and any("  " in row[0].strip() for file in found.files for row in file.rows):
            yield (
                UNSURE,
                (
                    "one column only, but runs of blanks split its lines: --widths N,N,... reads "
                    "columns of fixed widths"
                ),
            )
            break
        if not _reads(samples, _split_by(asked, mark), fields):
            yield UNSURE, f"{why}, and not all of them: no delimiter is right for each line"
            break
        if asked.fixed and tsv:
            csv = "CSVWithNames" if asked.header else "CSV"
            yield UNSURE, f"{why}: --format {csv} --delimiter {shlex.quote(said)}"
        else:
            yield UNSURE, f"{why}: --delimiter {shlex.quote(said)}"
            yield OTHERWISE, f"--delimiter {shlex.quote(said)}"
    if found.bare and _reads(samples, _split_by(asked, ","), 1):
        said = formats.spelled(found.marks.delimiter)
        what = "a blank" if said == "blank" else said
        yield UNSURE, f"{what} splits the lines into {found.width}; --delimiter comma keeps them"
        yield OTHERWISE, "--delimiter comma"
    if found.why == BELOW_REPORT:
        above = f"{found.skip_lines} lines" if found.skip_lines > 1 else "line"
        are = "are" if found.skip_lines > 1 else "is"
        if found.header:
            yield "names", f"the {above} above the names {are} left out"
        elif found.names[:1] == ("c1",):
            yield "names", f"the {above} above the rows {are} left out"
        elif found.skip_lines == 1:
            yield "names", "the line above the rows names the columns"
        else:
            yield "names", f"the last of the {above} above the rows names the columns"
    longer = [*_longer_rows(found, asked, samples)]
    yield from longer or _uneven_rows(found, asked)
    yield from _lines_about(found, asked, samples)
    if found.blank_lines and asked.lines.blank_lines is None:
        lines = f"{found.blank_lines} blank line" + "s" * (found.blank_lines > 1)
        if found.width > 1:
            yield "blank lines", f"{lines} between the rows, left out"
        else:
            yield (
                UNSURE,
                f"{lines} between the rows, each a NULL; --blank-lines skip leaves them out",
            )
            yield OTHERWISE, "--blank-lines skip"
    if found.titles and not found.header and asked.lines.skip_lines is None and (
        found.why != BELOW_REPORT
    ):  # fmt: skip
        left = "line" if found.skip_lines == 1 else f"{found.skip_lines} lines"
        yield UNSURE, f"the {left} above the rows, of fewer fields, left out"
    if found.ruled:
        yield "names", "lines of rulers, and a count of rows below them, are left out"
    elif found.trim and asked.lines.blanks is None:
        yield "blanks", "blanks around fields are left out, as delimiters or quotes have some"
    if found.behind and asked.lines.blanks is None and _holds_text(found):
        yield UNSURE, "texts begin with the blank behind a delimiter; --blanks trim leaves it out"
        yield OTHERWISE, "--blanks trim"
    elif begun := _begin_with_blanks(found, asked):
        trimmed = replace(asked, lines=replace(asked.lines, blanks="trim"))
        why = f"texts of {found.names[0]} begin with a blank, the first of a line"
        if _reads(samples, trimmed, found.width, odd=odd):
            yield UNSURE, f"{why}, in {begun:,} rows; --blanks trim leaves it out"
            yield OTHERWISE, "--blanks trim"
        else:
            yield UNSURE, f"{why}, in {begun:,} rows"
    elif ended := _filled_with_blanks(found, asked):
        trimmed = replace(asked, lines=replace(asked.lines, blanks="trim"))
        why = f"texts of {', '.join(ended)} end with blanks"
        if _reads(samples, trimmed, found.width, odd=odd):
            yield UNSURE, f"{why}; --blanks trim leaves them out"
            yield OTHERWISE, "--blanks trim"
        else:
            yield UNSURE, why
    renamed = [
        f"{repr(given.strip()) if given.strip() else 'the empty name'} is {name}"
        for given, name in zip(found.given, found.names, strict=False)
        if given.strip() != name
    ]
    if renamed and not asked.columns:
        listed = ", ".join(renamed[:8]) + (", ..." if len(renamed) > 8 else "")
        yield "names", f"columns whose name is empty or stands twice get one: {listed}"


def _parts(found: FoundDialect, samples: Sequence[TextSample]) -> int:
    """Return the number of places between rows where comments stand; 0 of fewer than two."""
    mark, most = found.marks.comment, 0
    for sample in samples:
        lines = charsets.decode(sample.data, found.charset).split("\n")
        marked = [line.startswith(mark) for line in lines if line.strip()]
        ends = sum(a and not b for a, b in pairwise(marked))
        most = max(most, ends - (bool(marked) and marked[0]))
    return most if most > 1 else 0


def _odd_rows(found: FoundDialect, asked: DialectOptions) -> int:
    """Return the number of records seen whose fields are not as many, and which end no load.

    Headers may have a delimiter more or less than rows. A row is refused, with whatever option a
    note would name, unless the load may leave rows out.
    """
    if asked.bad_bytes:
        return sum(len(row) != found.width for file in found.files for row in file.rows)
    if found.ends not in ("rows", "header") and asked.lines.short_rows != "null":
        return 0
    return sum(len(file.rows[0]) != found.width for file in found.files)


def _is_of_r(found: FoundDialect, samples: Sequence[TextSample]) -> bool:
    """Tell whether R has written the text: it puts texts alone into quotes, and the names of rows.

    Others may have left out the last name as well as the first.
    """
    for sample in samples:
        lines = charsets.decode(sample.data, found.charset).splitlines()
        first, *rest = [line for line in lines[: None if sample.whole else -1] if line.strip()]
        if not first.startswith('"') or _BARE.search(first):
            return False
        if not all(line.startswith('"') and _BARE.search(line) for line in rest):
            return False
    return True


# A number or one of R's words that stands in no quotes.
_BARE = regex(r'"[ ,;\t](?:[^"]*[ ,;\t])?(?:-?[\d.,]+(?:e[-+]?\d+)?|TRUE|FALSE|NA)(?=[ ,;\t]|\Z)')


def lines_of_units(
    found: FoundDialect, samples: Sequence[TextSample], asked: DialectOptions
) -> DialectOptions | None:
    """Return ``asked`` without the lines of units or questions below the header, beyond doubt.

    Units are known as such; below questions, Qualtrics writes where each column comes from. None
    where there are no such lines.
    """
    if asked.header is not None or asked.columns or asked.lines.skip_lines is not None:
        return None
    if len(samples) != 1 or not found.files or found.row_names or found.why == BELOW_REPORT:
        return None
    first, *body = found.files[0].rows[:512]
    rows = [row for row in body if len(row) == found.width]
    # Of two columns, the line may say something of the table: "made by,hand".
    if found.ends or len(first) != found.width or found.width < _LEAST_ABOVE:
        return None
    names = {name.strip() for name in first}
    if len(names) < found.width or "" in names:
        return None  # the next line may name columns, too
    mark = found.marks.delimiter
    asked_of = [n for n, row in enumerate(rows[:2]) if all(v.startswith(_IMPORTED) for v in row)]
    count = asked_of[0] + 1 if asked_of else 1
    if len(rows) < count + _LEAST_VALUES:
        return None
    kinds = [kind(column, mark) for column in zip(*rows[count:], strict=True)]
    typed = [n for n, own in enumerate(kinds) if own not in ("", "?")]
    if any(kind_of(value, mark) for row in (first, *rows[:count]) for value in row):
        return None
    if not asked_of and not are_units([rows[0][n] for n in typed]):
        return None
    return _below_names(found, samples, asked, rows[count])


_IMPORTED = '{"ImportId"'


def _below_names(
    found: FoundDialect, samples: Sequence[TextSample], asked: DialectOptions, row: Sequence[str]
) -> DialectOptions | None:
    """Return ``asked`` for a table whose first row is ``row``, with the names that were found."""
    above, names = found.files[0].skipped, unique_names(found.files[0].rows[0])
    for lines in range(above + 2, above + 2 + _MOST_LINES_OF_NAMES):
        below = replace(_skipping(asked, lines), header=False, columns=names)
        read = sniff(samples, below)
        if read.files and read.files[0].rows[0] == tuple(row):
            return below if read.width == found.width and read.marks == found.marks else None
    return None


_MOST_LINES_OF_NAMES = 40  # questions of surveys have line ends


def _units(
    found: FoundDialect, asked: DialectOptions, samples: Sequence[TextSample], odd: int
) -> Iterator[tuple[str, str]]:
    """Yield the notes about a line of units below the names.

    Tables of Orange have types there, and a third line of one mark, which is no row either.
    """
    rows = found.files[0].rows
    count = 3 if len(rows[2]) == 1 < found.width else 2
    given = shlex.quote(",".join(found.names))
    flags = f"--skip-lines {count} --header no --columns {given}"
    why = "line 2 holds no values as those below it, units perhaps"
    skips = "skips it" if count == 2 else "skips it and line 3, which is no row either"
    without = replace(_skipping(asked, count), header=False, columns=found.names)
    named = "," not in "".join(found.names) and _reads(samples, without, found.width, odd=odd)
    # Lines are counted: a blank one, or a name of two lines, stands between.
    if named and sniff(samples, without).files[0].rows[0] == rows[count]:
        yield UNSURE, f"{why}; {flags} {skips}"
        yield OTHERWISE, flags
    else:
        yield UNSURE, why


def _longer_rows(
    found: FoundDialect, asked: DialectOptions, samples: Sequence[TextSample]
) -> Iterator[tuple[str, str]]:
    """Yield notes about rows that have more fields than most, which an option reads."""
    sizes = Counter(len(row) for file in found.files for row in file.rows)
    most = max(sizes, default=0)
    if found.header or asked.lines.short_rows is not None or most <= found.width or found.ends:
        return
    filled = replace(asked, lines=replace(asked.lines, short_rows="null"))
    longer = sum(count for size, count in sizes.items() if size > found.width)
    if _reads(samples, filled, most):
        rows = "1 row has" if longer == 1 else f"{longer:,} rows have"
        yield (
            UNSURE,
            (
                f"{rows} more fields than most, {most} and {found.width}; --short-rows null reads "
                "them, with NULL in all others"
            ),
        )
        yield OTHERWISE, FILLING


def _uneven_rows(found: FoundDialect, asked: DialectOptions) -> Iterator[tuple[str, str]]:
    """Yield a note about rows of the sample that end the load, as it says it before the first."""
    if asked.bad_bytes or asked.lines.short_rows == "null" or found.short or found.width < 2:
        return
    first = int(found.header or found.ends in ("rows", "header"))
    odd = [row for file in found.files for row in file.rows[first:] if len(row) != found.width]
    if odd:
        rows = "1 row has" if len(odd) == 1 else f"{len(odd):,} rows have"
        why = f"{rows} not {found.width} fields, and the first ends the load"
        yield UNSURE, f"{why}: {brief(odd[0])}"


def _lines_about(
    found: FoundDialect, asked: DialectOptions, samples: Sequence[TextSample]
) -> Iterator[tuple[str, str]]:
    """Yield notes about lines as wide as the numbers below them, which may say what they are."""
    rows = found.files[0].rows
    if len(found.files) > 1 or asked.lines.skip_lines is not None or asked.header is not None:
        return
    if found.blank_lines or found.marks.comment or found.titles or found.width < 2:
        return
    texts = [n for n, row in enumerate(rows) if any(map(_is_text, row))]
    last = texts[-1] if texts else 0
    # Of one line below the names, of units, another note says it.
    if not 1 < last <= _ABOUT or len(texts) <= last or len(rows) - last <= max(last, _COUNTED):
        return
    skipping = _skipping(asked, last)
    if _reads(samples, skipping, found.width):
        yield (
            UNSURE,
            (
                f"below line {last + 1} all values are numbers or times, above it are others; "
                f"--skip-lines {last} reads those below"
            ),
        )
        yield OTHERWISE, f"--skip-lines {last}"
    else:
        yield UNSURE, f"below line {last + 1} all values are numbers or times, above it are others"


_ABOUT = 50  # lines


def _is_text(value: str) -> bool:
    return bool(value.strip()) and value.strip() not in NULL_WORDS and not kind_of(value)


def _last_rows(found: FoundDialect, samples: Sequence[TextSample]) -> Iterator[tuple[str, str]]:
    """Yield notes about totals and notes below the rows of files that were read to their ends."""
    ends = {sample.uri for sample in samples if sample.whole}
    for file in found.files:
        wide = [row for row in file.rows[int(found.header) :] if len(row) == found.width]
        rows = [row[: len(found.names)] for row in wide]
        said = find_last_rows(found.names, rows) if file.uri in ends and found.header else None
        if said is not None:
            why, flags = said
            yield UNSURE, f"{why}; {flags} leaves out such rows" if flags else why
            if flags:
                yield OTHERWISE, flags
            return


def _begin_with_blanks(found: FoundDialect, asked: DialectOptions) -> int:
    """Return the number of rows whose first field is text that begins with a blank."""
    if found.trim or found.width == 1 or found.marks.delimiter == " " or asked.lines.blanks:
        return 0
    rows = [row for file in found.files for row in file.rows[int(found.header) :]]
    first = [row[0] for row in rows if len(row) == found.width]
    begun = sum(field[:1] == " " and bool(field.strip()) for field in first)
    return begun if begun and kind(first, found.marks.delimiter) == "" else 0


def _filled_with_blanks(found: FoundDialect, asked: DialectOptions) -> list[str]:
    """Return the columns of texts of which most end with blanks, as programs fill up fields."""
    if found.trim or found.width == 1 or found.marks.delimiter == " " or asked.lines.blanks:
        return []
    rows = [row for file in found.files for row in file.rows[int(found.header) :]]
    columns = zip(*(row for row in rows if len(row) == found.width), strict=True)
    filled = []
    for name, column in zip(found.names, columns, strict=False):
        values = [value for value in column if value.strip()]
        ended = sum(value.endswith(" ") for value in values)
        if ended > 1 and ended * 2 > len(values) and kind(column, found.marks.delimiter) == "":
            filled.append(name)
    return filled


def _holds_text(found: FoundDialect) -> bool:
    """Tell whether a column but the first holds texts, whose blanks are part of them."""
    rows = [row for row in found.files[0].rows[1:512] if len(row) == found.width]
    return any(
        kind(column, found.marks.delimiter) == "" for column in [*zip(*rows, strict=True)][1:]
    )


def _has_units(found: FoundDialect) -> bool:
    """Tell whether the line below the header is text where the lines below it hold numbers."""
    if not found.header or found.skip_lines or len(found.files) > 1 or found.marks.comment:
        return False
    rows = [row for row in found.files[0].rows[1:512] if len(row) == found.width]
    if len(rows) < 1 + _LEAST_VALUES or rows[0] != found.files[0].rows[1]:
        return False
    columns = [(one, kind(rest, found.marks.delimiter)) for one, *rest in zip(*rows, strict=True)]
    mark = found.marks.delimiter
    typed = [(one, kind_of(one, mark)) for one, rest in columns if rest not in ("", "?")]
    text = [one for one, own in typed if one.strip() not in ("", *NULL_WORDS) and own == ""]
    return bool(text) and len(text) * 2 > len(typed)


def _fills_gaps(found: FoundDialect) -> bool:
    """Tell whether the line below the header names what that does not, and holds no number."""
    if not found.header or found.ends or len(found.files) > 1:
        return False
    names, *rows = found.files[0].rows[:512]
    gaps = [n for n, name in enumerate(names) if not name.strip()]
    if not gaps or len(rows) < 1 + _LEAST_VALUES or {len(row) for row in rows} != {len(names)}:
        return False
    mark = found.marks.delimiter
    first, *below = rows
    kinds = [kind(column, mark) for column in zip(*below, strict=True)]
    typed = [n for n, own in enumerate(kinds) if own not in ("", "?")]
    return (
        bool(typed) and all(first[n].strip() and not kind_of(first[n], mark) for n in gaps)
        and not any(first[n].strip() for n in typed)
        and all(any(row[n].strip() for n in typed) for row in below)
    )  # fmt: skip


_LEAST_VALUES = 2  # below a line of units: one number may just be the first of a column of text


def _titles(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of title rows, of one value at most, before the first row without gaps."""
    for number, row in enumerate(rows):
        filled = sum(1 for field in row if field.strip())
        if filled > 1 or len(row) < _LEAST_WIDTH:
            return number if filled == len(row) >= _LEAST_WIDTH else 0
    return 0


_LEAST_WIDTH = 3  # of two columns, one may well be empty


def _encoding(found: FoundDialect, encoding: Encoding, *, raw: bool, renamed: bool) -> Encoding:
    """Return the encoding by which the readers take what was found.

    Args:
        raw: TSV whose backslashes are letters.
    """
    tsv = (
        encoding.is_tsv
        and not raw
        and (found.width < 2 or (found.marks.delimiter == "\t" and not found.marks.quote))
    )
    name = ("TSV" if tsv else "CSV") + ("WithNames" if found.header else "")
    return replace(
        encoding,
        format=name,
        delimiter="," if tsv else found.marks.delimiter,
        header=found.names if _odd(found) or renamed else (),
        renamed=renamed,
        fields=0 if tsv else columns_of(found),
        names=found.names if found.header and not tsv else (),
        # A first row that is shorter is none: then the longer ones are wrong.
        trailing=found.ends == "all" or (found.ends == "rows" and found.header),
    )


def _rewritten(
    found: FoundDialect, what: str, encoding: Encoding, asked: DialectOptions, *, seen: bool
) -> Encoding:
    """Return the encoding of text that is rewritten to plain CSV first.

    Raises:
        UsageError: it cannot be.
    """
    uri = found.files[0].uri
    if found.charset != (encoding.dialect or Dialect()).charset:
        raise UsageError(f"{uri} {what}", hint=f"Say so: --encoding {found.charset}.")
    if found.titles and asked.lines.skip_lines is None and found.why != BELOW_REPORT:
        counts = {f.skipped for f in found.files}
        if len(counts) > 1 or not (found.header or _are_titles(found)):
            raise UsageError(
                f"{uri} {what}" + (", others have not as many" if len(counts) > 1 else ""),
                hint=f"Say --skip-lines {found.skip_lines} if that is so in all files.",
            )
    dialect = encoding.dialect or Dialect()
    return rewriting.check(_with_marks(found, encoding, dialect, asked, seen=seen))


def _are_titles(found: FoundDialect) -> bool:
    """Tell whether rows without a header are one table beyond doubt: as wide all, with numbers."""
    rows = body_of(found.files, found.width)
    kinds = [kind(column, found.marks.delimiter) for column in zip(*rows, strict=True)]
    return (
        found.width >= _LEAST_ABOVE and found.even == 1 and found.skip_lines <= _TITLES
        and len(rows) >= _LEAST_VALUES and any(own not in ("", "?") for own in kinds)
    )  # fmt: skip


_TITLES = 3  # lines


def _with_marks(
    found: FoundDialect, encoding: Encoding, dialect: Dialect, asked: DialectOptions, *, seen: bool
) -> Encoding:
    """Return the encoding with the marks of the text in its dialect: it is read as plain CSV.

    Args:
        seen: all lines have been looked at, so none of those with the mark of comments is a row.
    """
    dialect = replace(
        dialect,
        delimiter=found.marks.delimiter,
        quote=found.marks.quote,
        escape=found.marks.escape,
        comment=found.marks.comment,
        comment_found=bool(found.marks.comment) and asked.marks.comment is None and not seen,
        skip_lines=found.skip_lines if found.titles else 0,
        trailing=bool(found.ends),
        trim=found.trim,
        columns=len(found.names)
        if found.ends == "header" or asked.lines.short_rows == "null"
        else 0,
        fill=asked.lines.short_rows == "null",
        skip_blank=asked.lines.blank_lines == "skip",
        ruled=found.ruled,
    )
    return replace(
        encoding, delimiter=",", fields=len(found.names), dialect=dialect, trailing=False
    )


def _of_dialect(dialect: Dialect, asked: DialectOptions) -> DialectOptions:
    """Return ``asked`` with character set, delimiter and quotes of text that is rewritten."""
    tabs = dialect.delimiter == "\t" and not dialect.quote  # TSV, read as CSV
    return replace(
        asked,
        charset=dialect.charset,
        marks=MarkOptions("\t", "", dialect.escape, asked.marks.comment) if tabs else asked.marks,
    )


def unplain(found: FoundDialect) -> str | None:
    """Return a predicate on why text has to be rewritten; None where readers take it as it is."""
    if found.charset not in ("utf-8", "latin-1"):
        return f"is written in {found.charset}"
    if found.line_end == "\r":
        return "has line ends of old Macs (CR alone)"
    if found.ruled:
        return "is drawn as a table, with rulers"
    if found.skip_lines:
        return f"has {found.skip_lines} lines before the header or the first row"
    if found.marks.comment:
        return f"has comment lines that begin with {found.marks.comment}"
    if found.marks.quote == '"' and found.marks.escape != '"':
        return "has quotes behind a backslash"
    if found.marks.quote != '"':
        return (
            f"has {found.marks.quote} around its fields"
            if found.marks.quote
            else "has quotes as letters"
        )
    if len(found.marks.delimiter.encode()) > 1:
        return f"has the delimiter {found.marks.delimiter!r}"
    if found.ends and found.marks.delimiter == "\t":
        return f"has a {formats.spelled(found.marks.delimiter)} at the end of its lines"
    if found.ends == "header":
        return "has a delimiter at the end of its header only"
    if found.trim:
        return "has blanks around its fields"
    if found.blank_lines and found.width > 1:
        return "has blank lines between its rows"
    return None


def _missing(
    found: FoundDialect,
    encoding: Encoding,
    source: Source,
    rows: Sequence[tuple[str, ...]],
    *,
    rewritten: bool,
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the columns of numbers and times, and words that mean NULL in these alone.

    Args:
        rows: with numbers and times as readers take them.

    A word counts where one of them holds it and nothing else that is no number or time. () where
    nothing can be rewritten, or options name such words.
    """
    dialect = encoding.dialect or Dialect()
    if dialect.nulls or encoding.binary:
        return ()
    words = tuple(sorted({w for _, own in found.null_words for w in own} & MISSING_WORDS))
    reordered = found.header and len({file.rows[0] for file in found.files}) > 1
    if reordered or rewritten:  # those were looked for by place, in columns of plain values
        words = tuple(sorted({v.strip() for row in rows for v in row} & MISSING_WORDS))
    if not words or not source.replayable or installed.program() is None:
        return ()
    columns = {
        n: column for n, column in enumerate(zip(*rows, strict=True))
        if n < len(found.names) and value_class(column, words) not in ("", "text")
    }  # fmt: skip
    held = any(not {*map(str.strip, column)}.isdisjoint(words) for column in columns.values())
    return tuple((n, words) for n in columns) if held else ()


def _date_order(
    found: FoundDialect, encoding: Encoding, source: Source, rows: Sequence[Sequence[str]]
) -> str:
    """Return the order of day, month and year that the samples show; "" for none or by option.

    "" where nothing can be rewritten, too.
    """
    dialect = encoding.dialect or Dialect()
    if dialect.dates or encoding.binary or not source.replayable or installed.program() is None:
        return ""
    narrow = [row[: len(found.names)] for row in rows]
    return marked_values.shown_order(found.names, narrow) if narrow else ""


def _shown(
    found: FoundDialect, encoding: Encoding, source: Source, rows: Sequence[Sequence[str]]
) -> ShownValues:
    """Return the columns whose numbers and dates are rewritten, as the sample shows them.

    None where nothing can be rewritten.
    """
    dialect = encoding.dialect or Dialect()
    if encoding.binary or not source.replayable or installed.program() is None or not rows:
        return ShownValues()
    return find_shown(
        rows, len(found.names), found.marks.delimiter, (*MISSING_WORDS, *dialect.nulls),
        order=next((order for _, order in dialect.dates), ""),
        marked=(dialect.decimal, dialect.thousands) != (".", ""),
    )  # fmt: skip


def _without_words(
    rows: Sequence[tuple[str, ...]], missing: Mapping[int, Sequence[str]]
) -> list[tuple[str, ...]]:
    return [
        tuple("" if v.strip() in missing.get(n, ()) else v for n, v in enumerate(row))
        for row in rows
    ]


def _wanted(asked: DialectOptions) -> str | None:
    """Return a predicate on text that options allow and no reader takes; None for nothing."""
    if asked.lines.short_rows == "null":
        return "may have short rows"
    return "may have blank lines" if asked.lines.blank_lines == "skip" else None


def _rows_in_order(found: FoundDialect) -> list[tuple[str, ...]]:
    """Return the rows of all files with their values in the order of the first header."""
    body: list[tuple[str, ...]] = []
    first = unique_names(found.files[0].rows[0])
    for file in found.files:
        rows = [row for row in file.rows[int(found.header) :] if len(row) == found.width]
        names = unique_names(file.rows[0])
        if found.header and names != first and sorted(names) == sorted(first):
            # Behind the last name of a header that is shorter there may be one more field.
            places = [names.index(name) for name in first] + [*range(len(first), found.width)]
            rows = [tuple(row[n] for n in places) for row in rows]
        body += rows
    return body


def columns_of(found: FoundDialect) -> int:
    """Return the number of columns, without an empty one behind a delimiter at the end of rows."""
    return found.width - (found.ends in ("all", "rows"))


def _check_alike(found: FoundDialect) -> None:
    """Check that all sampled files have the same columns.

    Raises:
        UsageError: they do not.
    """
    one = found.files[0]
    first = unique_names(one.rows[0])
    for other in found.files[1:]:
        names = unique_names(other.rows[0])
        same = sorted(names) == sorted(first)
        if same and names != first and _odd(found):
            raise UsageError(
                f"{other.uri} has its columns in another order than {one.uri}, and some names "
                "can be told apart by their place only",
                hint="Load files of different orders on their own, or correct the names.",
            )
        if found.header and not same:
            odd = f"{other.uri} has another header than {one.uri}: {brief(other.rows[0])}"
            raise UsageError(odd, hint=hint_of(found.names, other.rows[0]))
        if len(names) != len(first):
            odd = f"{other.uri} has {len(names)} columns, {one.uri} has {len(first)}"
            raise UsageError(odd, hint=APART)


def _check_long_header(
    found: FoundDialect, asked: DialectOptions, samples: Sequence[TextSample]
) -> None:
    """Check that the header has no more names than most rows have fields.

    Raises:
        UsageError: it has, and nothing says what becomes of such rows.
    """
    widths = Counter(len(row) for file in found.files for row in file.rows[1:])
    if not found.short or not widths or asked.lines.short_rows == "null":
        return
    most = widths.most_common(1)[0][0]
    fields = "1 field" if most == 1 else f"{most} fields"
    filled = replace(asked, lines=replace(asked.lines, short_rows="null"))
    hint = "Correct the header, or the rows."
    if found.trim and found.marks.delimiter == " ":
        # A name of two words, or an empty cell: what is filled up at the end is shifted.
        skip = found.files[0].skipped + 1
        hint = (
            f"Where names hold blanks, --skip-lines {skip} --columns NAME,... gives {most}; where "
            "cells are empty, --widths N,N,... reads columns of fixed widths."
        )
    elif _reads(samples, filled, found.width):
        hint = "--short-rows null fills the columns that a row lacks with NULL."
    raise UsageError(
        f"{found.files[0].uri} names {found.width} columns, most of its rows have {fields}",
        hint=hint,
    )


def _odd(found: FoundDialect) -> bool:
    """Tell whether some header holds names that the readers do not take as they are."""
    firsts = [f.rows[0] for f in found.files]
    if found.ends == "all":
        firsts = [row[:-1] if not row[-1] else row for row in firsts]
    return found.header and any(unique_names(row) != row for row in firsts)


# --- first bytes ---------------------------------------------------------------------------------


def _read(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: RunSelect, each: int,
    lines: int,
) -> list[TextSample]:  # fmt: skip
    """Return the first bytes of each file, unpacked; of those that only an engine reads, lines."""
    encoding = replace(encoding, dialect=None)  # as they are written

    def here(split: Split) -> TextSample | None:
        if split.start is not None:
            return None
        with suppress(RowfallError, OSError):  # who reads all of it says why
            if isinstance(source, SampledInFile):
                return _of_file(split.uri, *source.sample_file(split, encoding), lines)
            found = beginning(source, split, encoding, each)
            # Where nothing can be unpacked, the engine says whether it is damaged or empty.
            if found is not None and found.text:
                text = found.text
                whole = found.stored >= (split.size or 0) and len(text) <= each
                if not whole and _lines_in(text[:each]) < _LEAST_LINES:
                    more = beginning(source, split, encoding, LONG_SAMPLE)
                    text = (_first_lines(more.text) if more else b"") or text
                    return TextSample(split.uri, text, whole=False)
                return TextSample(split.uri, text[:each], whole)
        return None

    found = on_all(here, splits)
    missing = [n for n, sample in enumerate(found) if sample is None]
    if missing:
        by_engine = _by_engine(source, [splits[n] for n in missing], encoding, ask, lines)
        for n, sample in zip(missing, by_engine, strict=True):
            found[n] = sample
    return [sample for sample in found if sample is not None]


def _of_file(uri: str, path: str, encoding: Encoding, most: int) -> TextSample | None:
    """Return the first lines of a file; None where it cannot be unpacked here."""
    if encoding.compression not in UNPACKED_HERE:
        return None
    with open(path, "rb") as file:
        data, more = file.read(LONG_SAMPLE), file.read(1)
    lines = unpack(data, encoding.compression, LONG_SAMPLE).split(b"\n", most)
    lines = lines[:most] if lines[-1] else lines[:-1]
    text = b"".join(b"%b\n" % line for line in lines)
    return TextSample(uri, text, len(lines) < most and not more)


def _lines_in(text: bytes) -> int:
    return max(text.count(b"\n"), text.count(b"\r"))


def _first_lines(text: bytes) -> bytes:
    """Return the first lines, which are very long; nothing where they are longer than the text."""
    end, at = b"\n" if b"\n" in text else b"\r", 0
    for _ in range(_LEAST_LINES):
        at = text.find(end, at) + 1
        if not at:
            return b""
    return text[:at]


def _by_engine(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: RunSelect, most: int
) -> list[TextSample]:
    parts: list[str | SqlText] = []
    for number, split in enumerate(splits):
        relation = lines_relation(source, [split], encoding)
        parts += [" UNION ALL " if parts else ""]
        parts += [f"SELECT {number} AS n, base64Encode(line) AS line FROM ", relation]
        parts += [f" LIMIT {most}"]
    quick = {"max_block_size": most, "input_format_parallel_parsing": 0, "max_threads": 4}
    lines: list[list[bytes]] = [[] for _ in splits]
    for number, line in ask(SqlText.of(*parts), quick):
        lines[int(number)].append(base64.b64decode(str(line)) + b"\n")
    return [
        TextSample(split.uri, b"".join(own), len(own) < most)
        for split, own in zip(splits, lines, strict=True)
    ]
