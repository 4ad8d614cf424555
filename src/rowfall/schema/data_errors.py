"""What an engine's complaint about data means to people: file, line, column, cause, remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from urllib.parse import unquote, urlsplit

from rowfall.core import uri
from rowfall.core.errors import DataError, RowfallError, SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind, Schema
from rowfall.schema import bad_row_sql
from rowfall.schema.bad_row_sql import LONG, MALFORMED, SHOWN, UNKNOWN, BadRow
from rowfall.schema.codec import TAG, Type, parse_type
from rowfall.schema.header import Ask
from rowfall.schema.records import header_names
from rowfall.sources.base import Ranged, Source

_URI = re.compile(r"\(in file/uri (.+?)\)(?:[:.,\s]|$)")
_AT_ROW = re.compile(r"\(at row (\d+)\)")
_FIELD = re.compile(r"Unknown field found [\w ]+:? '?([^':]+)")
_PATHS = 50
"""Splits that one search reads side by side."""
NEAR, FAR, _PIECE = 1 << 30, 64 << 20, 8 << 20
"""Bytes before a range that are read to count lines, of a file here and of one far away: about a
second each for every error."""

_CONTAINERS = {
    354: ("is not a whole gzip file", "It was cut off, or is no gzip: test it with gzip -t."),
    561: ("is not a whole zstd file", "It was cut off, or is no zstd: test it with zstd -t."),
    554: ("is not a whole xz file", "It was cut off, or is no xz: test it with xz -t."),
    618: ("is not a whole lz4 file", "It was cut off, or is no lz4: test it with lz4 -t."),
    594: ("is not a whole bzip2 file", "It was cut off, or is no bzip2: test it with bzip2 -t."),
}
_OUT = "Correct the file, or leave bad rows out with --max-errors N."


def explain(
    source: Source,
    splits: Sequence[Split],
    encoding: Encoding,
    schema: Schema,
    error: RowfallError,
    ask: Ask,
) -> list[tuple[Split, DataError]]:
    """The splits that hold what the engine complained about, each with the place.

    Args:
        error: of the engine; its ``code`` (0 without one) and text are looked at.
        ask: runs a SELECT with settings and gives its rows.

    An empty list: nobody can tell which split it was.
    """
    code = int(getattr(error, "code", 0))
    named = _URI.search(error.message)
    suspects = [s for s in splits if named and same_object(s.uri, named[1])] or list(splits)
    if len(suspects) == 1 and (code in _CONTAINERS or encoding.kind is Kind.TYPED):
        known = None
        if code not in _CONTAINERS:
            known = _typed(source, suspects[0], encoding, schema, ask)
        return [(suspects[0], known or explain_engine_error(code, error.message, suspects[0].uri))]
    found: list[tuple[Split, DataError]] = []
    for start in range(0, len(suspects), _PATHS):
        for split in _guilty(source, suspects[start : start + _PATHS], encoding, schema, ask):
            place = find_first(source, split, encoding, schema, ask)
            if place is not None:
                found.append((split, place))
    if not found and len(suspects) == 1:
        return [(suspects[0], explain_engine_error(code, error.message, suspects[0].uri))]
    return found


def find_first(
    source: Source, split: Split, encoding: Encoding, schema: Schema, ask: Ask
) -> DataError | None:
    """The first bad row of a split as an error; None when all rows fit.

    Raises:
        RowfallError: the split cannot be read to its first bad row.
    """
    chosen = bad_row_sql.settings(encoding, schema)
    header = header_of(source, split, encoding, ask)
    wrong = _header_differs(split, encoding, schema, header)
    if wrong is not None:
        return wrong
    rows = bad_row_sql.read_bad(
        ask(bad_row_sql.diagnose(source, split, encoding, schema, header), chosen)
    )
    if not rows:
        return None
    before = 0
    query = bad_row_sql.breaks_query(source, split, encoding, schema, rows[0].row, header)
    if query is not None:
        ((before,),) = ask(query, chosen)
    line = bad_row_sql.line_of(rows[0].row, int(before or 0), encoding)
    place = ""
    if split.of_text and line is not None:
        own = int(encoding.kind is Kind.TEXT and encoding.has_names)
        line, place = in_file(source, split, line - own)
    return bad_row_error(split, encoding, schema, rows[0], line, len(header), place)


def in_file(source: Source, split: Split, line: int) -> tuple[int, str]:
    """A line of a range of text as people look for it: its number in the whole file, or else from
    which byte on it is counted; and the place in words.

    Args:
        line: without the header.
    """
    start, near = split.start or 0, uri.scheme_of(split.uri) == uri.FILE
    if isinstance(source, Ranged) and split.part and start <= (NEAR if near else FAR):
        whole = replace(split, size=split.part.size)
        try:
            pieces = range(0, start, _PIECE)
            line += sum(
                source.part(whole, at, min(_PIECE, start - at)).count(b"\n") for at in pieces
            )
            return line, f"{split.uri} line {line}"
        except SourceError:
            pass  # what is wrong with the file is another matter; this is about the row
    return line, f"{split.uri} line {line} from byte {start:,} on"


def header_of(source: Source, split: Split, encoding: Encoding, ask: Ask) -> tuple[str, ...]:
    """Column names of one file with a header, () for files without."""
    query = bad_row_sql.header_query(source, split, encoding)
    if query is None:
        return ()
    rows = ask(query, {"max_threads": 1, "max_block_size": 16, "input_format_parallel_parsing": 0})
    return header_names(str(rows[0][0]), encoding) if rows else ()


def _header_differs(
    split: Split, encoding: Encoding, schema: Schema, header: Sequence[str]
) -> DataError | None:
    if not header:
        return None
    wanted = [c.source for c in schema.columns]
    missing = [n for n in wanted if n not in header]
    extra = [n for n in header if n not in wanted]
    if not missing and not extra:
        return None
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"has {', '.join(extra)} besides"] if extra else []
    return DataError(
        f"{split.name} line 1: the header differs: it {' and '.join(parts)}",
        uri=split.uri, line=1,
        hint="Load files of different columns on their own.",
    )  # fmt: skip


def _guilty(
    source: Source, splits: Sequence[Split], encoding: Encoding, schema: Schema, ask: Ask
) -> list[Split]:
    """Splits with bad rows; a single suspect is taken as guilty without reading it twice."""
    if len(splits) == 1:
        return list(splits)
    headers = [header_of(source, split, encoding, ask) for split in splits]
    differ = [
        s for s, h in zip(splits, headers, strict=True) if _header_differs(s, encoding, schema, h)
    ]
    if differ:
        return differ
    # Splits are read side by side here, each by one thread: only counts are asked for.
    chosen = {**bad_row_sql.settings(encoding, schema), "max_threads": 4}
    query = bad_row_sql.guilty_query(source, splits, encoding, schema, headers)
    return [splits[int(i)] for i, n in sorted(ask(query, chosen)) if n]


def _typed(
    source: Source, split: Split, encoding: Encoding, schema: Schema, ask: Ask
) -> DataError | None:
    try:
        return find_first(source, split, encoding, schema, ask)
    except RowfallError:
        return None  # the file itself cannot be read: the engine's own words are better


def same_object(uri: str, said: str) -> bool:
    """Whether the engine's name for an object (without scheme and bucket) is ``uri``.

    Objects of ``gs://`` and ``az://`` are named by the address that they were read from.
    """
    if uri.startswith(("gs://", "az://")) and said.startswith(("http://", "https://")):
        return unquote(urlsplit(said).path).endswith(uri.partition(":/")[2])
    return uri == said or uri.endswith("/" + said.lstrip("/")) or said.endswith("/" + uri)


def bad_row_error(
    split: Split,
    encoding: Encoding,
    schema: Schema,
    bad: BadRow,
    line: int | None,
    width: int = 0,
    place: str = "",
) -> DataError:
    """The error for one bad row.

    Args:
        width: number of fields a row should have.
        place: where it is, in words; by default its line of the split.
    """
    place = place or (f"{split.name} line {line}" if line else f"{split.name} row {bad.row + 1}")
    width = width or len(schema.columns)
    shown = None if bad.value is None else _shorten(bad.value)
    if bad.which == LONG:
        text, hint = f"{place} has more than {width} fields", _OUT
    elif bad.which == MALFORMED:
        text, hint = f"{place} is not a JSON object: {shown}", _OUT
    elif bad.which == UNKNOWN:
        text = f"{place} has a key that the table lacks: {shown}"
        hint = "Name all columns with --schema, or remove the key."
    elif encoding.kind is Kind.TEXT and bad.fields < width and not bad.breaks:
        text, hint = f"{place} has {bad.fields} fields instead of {width}", _OUT
    else:
        at = bad.fields - 1 if 0 < bad.fields < width else bad.which - 1
        column = schema.columns[at]
        text, hint = _value_error(place, column, bad, shown, exists=schema.exists)
        return DataError(text, uri=split.uri, line=line, column=column.name, value=shown, hint=hint)
    return DataError(text, uri=split.uri, line=line, value=shown, hint=hint)


def _value_error(
    place: str, column: Column, bad: BadRow, shown: str | None, *, exists: bool
) -> tuple[str, str]:
    where = f'{place} column "{column.name}"'
    target = parse_type(column.type)
    if bad.breaks:
        return (
            f"{where}: a quote is opened here and not closed in this line (the value goes on "
            f"for {bad.breaks:,} more lines)",
            "Close the quote. Where values do hold line breaks, one must be among the first rows.",
        )
    wider = _wider(target, bad.value)
    change = f"--type '{column.name} {wider}'"
    if exists:
        change = f"ALTER TABLE ... MODIFY COLUMN {column.name} {wider}"
    hint = f"Load it with {change}, or leave bad rows out with --max-errors N."
    if bad.value is None or bad.value == "":
        return f"{where} is empty, and {column.type} takes no NULL", hint
    return f'{where}: "{shown}" does not fit {column.type}', hint


def _wider(target: Type, value: str | None) -> str:
    """A type that takes ``value`` and what ``target`` took."""
    bare = target.bare
    if not value:
        return f"Nullable({bare})"
    wider = "String"
    if target.bits and re.fullmatch(r"[-+]?\d+", value):
        number, signed = int(value), target.base.startswith("Int") or value.startswith("-")
        for bits in (b for b in (8, 16, 32, 64, 128, 256) if b > target.bits):
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
            if low <= number < high:
                wider = f"{'' if signed else 'U'}Int{bits}"
                break
    elif target.bits and re.fullmatch(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?", value):
        wider = "Float64"
    elif target.base == "Date" and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        wider = "Date32" if _real_day(value) else "String"
    return f"Nullable({wider})" if target.nullable else wider


def _real_day(text: str) -> bool:
    try:
        return 1900 <= date.fromisoformat(text).year <= 2299
    except ValueError:
        return False


def _shorten(text: str) -> str:
    clean = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return clean if len(clean) <= SHOWN else clean[: SHOWN - 3] + "..."


def explain_engine_error(code: int, message: str, uri: str = "") -> DataError:
    """The engine's complaint in other words, where the row itself could not be found.

    Args:
        code: the engine's error code; ``message`` its text.
        uri: the object, when the message does not say.
    """
    named = _URI.search(message)
    uri = uri or (named[1] if named else "the source")
    row = _AT_ROW.search(message)
    place = f"{uri} row {row[1]}" if row else uri
    if code in _CONTAINERS:
        cause, hint = _CONTAINERS[code]
        return DataError(f"{uri} {cause}", uri=uri, hint=hint)
    unknown = _FIELD.search(message)
    text, hint = _words(code, message)
    if unknown:
        text = f"has the key {unknown[1]}, which the table lacks"
        hint = "Name all columns with --schema, or remove the key."
    return DataError(f"{place} {text}", uri=uri, hint=hint)


def _words(code: int, message: str) -> tuple[str, str]:
    first = _URI.sub("", _AT_ROW.sub("", message)).split("\n")[0].strip(" :.")
    if TAG in message:
        guard = message[message.index(TAG) + len(TAG) :].split(":")[0]
        return f"was refused: {guard}", _OUT
    if "Not enough columns" in message or "Line feed found where delimiter" in message:
        return "has too few fields", _OUT
    if "Unexpected end of stream" in message or code in (32, 33):
        return "breaks off in the middle", "Fetch the file again, or see how it was written."
    if "delimiter" in message or "Expected end of line" in message:
        return "has another number of fields, or text after a closing quote", _OUT
    if code == 349:
        return "holds a NULL where the table takes none", "Make the column Nullable with --type."
    if code in (8, 16) or ("Column" in message and "not presented" in message):
        return f"lacks a column: {first[:200]}", "Load files of different columns on their own."
    if code in (6, 27, 38, 41, 69, 70, 72, 117, 321, 376, 407, 441, 467, 675, 676, 691):
        return f"holds a value that does not fit: {first[:200]}", _OUT
    return f"cannot be read: {first[:200]}", _OUT
