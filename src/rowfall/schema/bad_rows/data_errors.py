"""Errors about data in plain words: file, line, column, cause, remedy. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote, urlsplit

from rowfall.core import formats, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import DataError, RowfallError, headline, ready_to_paste
from rowfall.core.listing import Split
from rowfall.core.model import Column, Dialect, Encoding, Kind, Schema
from rowfall.core.patterns import regex
from rowfall.core.type_names import Type, parse_type
from rowfall.core.units import counted
from rowfall.schema.bad_rows.queries import (
    LONG,
    MALFORMED,
    OPEN,
    SHOWN,
    UNKNOWN,
    BadRow,
    TriedRemedies,
)
from rowfall.schema.text.other_headers import hint_of
from rowfall.schema.text.records import APART
from rowfall.schema.text.text_format import FILLING, OTHERWISE
from rowfall.schema.text.whole_rows import LAST_EMPTY
from rowfall.schema.types import json_objects
from rowfall.schema.types.strict_reading import SIGN, TAG
from rowfall.sources.compression import compression_of
from rowfall.systems.clickhouse.codes import (
    NO_NULL,
    NOT_IMPLEMENTED,
    UNKNOWN_TYPE,
    VIOLATED_CONSTRAINT,
)

_URI = regex(r"\(in file/uri (.+?)\)(?:[:.,\s]|$)")
_AT_ROW = regex(r"\(at row (\d+)\)")
_FIELD = regex(r"Unknown field found [\w ]+?: ?'?([^':]*)")

CONTAINERS = {
    354: ("is not a whole gzip file", "It was cut off, or is not gzip: test it with gzip -t."),
    561: ("is not a whole zstd file", "It was cut off, or is not zstd: test it with zstd -t."),
    554: ("is not a whole xz file", "It was cut off, or is not xz: test it with xz -t."),
    618: ("is not a whole lz4 file", "It was cut off, or is not lz4: test it with lz4 -t."),
    594: ("is not a whole bzip2 file", "It was cut off, or is not bzip2: test it with bzip2 -t."),
}
# Files of zstd --long=31 and of xz with a dictionary of gigabytes, which are whole.
_LARGE_WINDOW = regex(r"requires too much memory for decoding|LZMA_MEMLIMIT_ERROR")
_UNPACKERS = {561: "zstd -d --long=31", 554: "xz -dk"}
# What the engine says where an object has other keys, or a value of another type, than the column.
_NESTED = regex(r"tuple element|elements in named tuple|while reading the value of (nested )?key")
_AT_KEY = regex(r"while reading the value of key ([^):]+)")
# What the engine says of typed formats that are cut off or damaged: nothing of a value.
_BROKEN = regex(
    r"Not an? (Parquet|ORC|Arrow) file|file too short|file is too small|to be an Arrow file|"
    r"metadata size in parquet|Expected a record batch|"
    r"structure cannot be extracted from an? \w+ format file\. Error|avro::Exception: "
    r"(EOF|Sync|Cannot have negative|Snappy|Checksum|Invalid)|Malformed \w+ compressed page|"
    r"Failed to read \w+ data: (bad |\S+ stream not found)",
    re.I,
)
_CODEC = regex(r"Unknown codec in data file: (\S+)")
_NULL_FIELD = regex(r"does not support the `null` type in schema inference \(field '([^']*)'\)")
_TWICE = regex(r"Cannot add column (\S+): column with this name already exists")
_READ_STAGE = regex(r"read stage: ColumnData: column: ([^:\s]+)")
_FETCH = "Fetch the file again, or see how it was written."
_PLAIN = regex(r"[A-Za-z_]\w*", re.ASCII)
_EXPANDED = regex(r'["$`\\!]')
CORRECT = "Correct the file."
EMPTY_LISTS = "--null-lists empty stores an empty list or map in its place."
_UNKNOWN_TYPE = "The engine does not read this type: have the column written as another one."
_AS_LINES = "Correct the file; --table NAME --format LineAsString loads its lines as text."
READ_HERE = (
    "With --push the engine here reads the file: it names rows, and leaves bad ones out with "
    "--max-errors N."
)
"""The hint where the reader of an older server raises at a value before any check can see it."""

_OUT = "Correct the file, or leave bad rows out with --max-errors N."
_CLOSE = "Close the quote. Where values do hold line breaks, one must be among the first rows."
_ENCODING = "--encoding binary loads the bytes as they are; --encoding names how text is written."
_ONLY_TEXT = (
    "Texts of the table are UTF-8, and a column of the type binary takes any bytes: all texts of a "
    "new table are such columns with --encoding binary (into another --to), or leave the column "
    "out with --skip {}."
)


def header_error(
    split: Split, schema: Schema, header: Sequence[str], encoding: Encoding
) -> DataError | None:
    """Return the error for a file whose header does not name the same columns; None if it does."""
    if not header:
        return None
    wanted = [c.source for c in schema.columns]
    optional = {c.source for c in schema.columns if c.optional}
    missing = [n for n in wanted if n not in header and n not in optional]
    extra = [n for n in header if n not in wanted]
    if not missing and not extra and encoding.header in ((), tuple(header)):
        return None
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    if not missing and not extra:
        parts = ["has the columns in another order, and not all names can be used"]
    parts += [f"has {', '.join(extra)} besides"] if extra else []
    return DataError(
        f"{split.name} line 1: the header differs: it {' and '.join(parts)}",
        uri=split.uri, line=1,
        hint=hint_of(encoding.header or encoding.names or wanted, header) if missing else APART,
    )  # fmt: skip


def named_object(message: str) -> str | None:
    """Return the object that an engine's error names, None where it names none."""
    named = _URI.search(message)
    return named[1] if named else None


def same_object(uri: str, said: str) -> bool:
    """Tell whether the engine's name for an object (without scheme and bucket) is ``uri``.

    Objects of ``gs://`` and ``az://`` are named by the address that they were read from.
    """
    if uri.startswith(("gs://", "az://")) and said.startswith(("http://", "https://")):
        return unquote(urlsplit(said).path).endswith(uri.partition(":/")[2])
    return uri == said or uri.endswith("/" + said.lstrip("/")) or said.endswith("/" + uri)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The place of a row.

    Attributes:
        line: in the file, None where it is not known.
        named: what names the row; by default its line or number in the split.
    """

    split: Split
    line: int | None
    named: str = ""

    def name(self, row: int) -> str:
        """Return the place of a row for people: file and line, or the row's number.

        Args:
            row: number of the row in the file, from 0.
        """
        number = f"line {self.line}" if self.line else f"row {row + 1}"
        return self.named or f"{self.split.name} {number}"


def bad_row_error(
    place: RowPlace, encoding: Encoding, schema: Schema, bad: BadRow,
    trial: TriedRemedies | None = None, width: int = 0,
) -> DataError:  # fmt: skip
    """Return the error for one bad row.

    Args:
        trial: what helps; by default it can be left out, and nothing is known of types.
        width: number of fields a row should have.
    """
    split, line, where = place.split, place.line, place.name(bad.row)
    width = width or len(schema.columns)
    shown = None if bad.value is None else shorten(bad.value)
    trial = trial or TriedRemedies()
    out = _OUT if trial.left_out else CORRECT
    if bad.which == LONG:
        count = f"{counted(bad.fields, 'field')} instead of" if bad.fields > width else "more than"
        text, hint = f"{where} has {count} {width}" + " fields" * (count == "more than"), out
        if (OTHERWISE, FILLING) in schema.notes and not schema.exists:
            # It was tried on the sample, and a warning has named it.
            hint = f"{FILLING} reads rows as long as this one, with NULL in all others. {out}"
    elif bad.which == OPEN:
        mark = encoding.delimiter
        text, hint = f"{where} does not end with a delimiter {mark!r}, as other rows do", out
    elif bad.which == MALFORMED and is_foreign(bad.value):
        text, hint = f"{where} is not UTF-8: {shorten(bad.value or '')}", _encodings(bad.value)
    elif bad.which == MALFORMED:
        return broken_json(split, line, bad.value or "", where, others=trial.left_out)
    elif bad.which == UNKNOWN:
        text = f"{where} has a key that the table lacks: {shown or EMPTY_KEY}"
        hint = _with_key(schema, bad.value or "")
    elif encoding.kind is Kind.TEXT and bad.fields < width and not bad.breaks:
        text, hint = f"{where} has {counted(bad.fields, 'field')} instead of {width}", out
        form = encoding.dialect.lines[:1] if encoding.dialect else ()
        if form:
            text = f"{where} is no line of {_FORMS[form[0]]}" + (f": {shown}" if shown else "")
            trial = replace(trial, filled=None)
        elif encoding.dialect and encoding.dialect.trim and encoding.dialect.delimiter == " ":
            # Which of them it lacks nobody knows: an empty cell is a blank more.
            trial = replace(trial, filled=None)
        if _is_comment(bad.value, encoding.dialect):
            mark = encoding.dialect.comment if encoding.dialect else ""
            text = (
                f"{where} begins with {mark} as comments do, and has the fields of a row: {shown}"
            )
            hint = (
                f"--comment {shlex.quote(mark)} leaves such lines out, --comment none keeps them."
            )
        elif bad.fields == 0 and trial.rewritten:
            hint = "Load it with --blank-lines skip, which leaves blank lines out."
        elif trial.filled is not None and not (encoding.dialect and encoding.dialect.fill):
            hint = _filling(trial.filled, schema, out)
    else:
        column = column_of(bad, schema.columns, width)
        text, hint = _value_error(where, column, bad, schema, trial, encoding)
        named = (column.source or column.name) == bad.value
        if named and encoding.kind is Kind.TEXT and encoding.has_header:
            text, hint = f"{where} is the header again ({shown})", out
        if hint is _ENCODING and (encoding.kind is Kind.TYPED or encoding.binary):
            hint = _ONLY_TEXT.format(column.source or column.name)
        elif hint is _ENCODING:
            hint = _encodings(bad.value)
        return DataError(text, uri=split.uri, line=line, column=column.name, value=shown, hint=hint)
    return DataError(text, uri=split.uri, line=line, value=shown, hint=hint)


_FORMS = {
    "widths": "these widths", "logfmt": "logfmt with the keys of the first lines, each once",
    "common": "an access log without referer and agent", "combined": "an access log with referer "
    "and agent",
}  # fmt: skip


def _is_comment(line: str | None, dialect: Dialect | None) -> bool:
    """Tell whether a line that was taken as a whole begins with a mark that nobody has given."""
    found = dialect is not None and dialect.comment_found
    return found and dialect is not None and (line or "").startswith(dialect.comment)


def _filling(types: Mapping[str, str], schema: Schema, out: str) -> str:
    """Return the hint that fills a short row with NULL, by the types that columns need for it."""
    if not types:
        return f"--short-rows null fills the fields that a row lacks with NULL. {out}"
    remedy = _remedy(types, schema, " --short-rows null")
    return f"{remedy}: that fills the fields that a row lacks with NULL. {out}"


def column_of(bad: BadRow, columns: Sequence[Column], width: int = 0) -> Column:
    """Return the column that a value of a bad row does not fit.

    Args:
        width: number of fields a row should have.
    """
    short = 0 < bad.fields < (width or len(columns))
    return columns[bad.fields - 1 if short else bad.which - 1]


def broken_json(
    split: Split, line: int | None, text: str, where: str = "", *, others: bool
) -> DataError:
    """Return the error for a line that is not a row of JSON.

    Args:
        text: of the line.
        where: what names it; by default its number.
        others: some lines are rows.
    """
    fault = json_objects.find_fault(text) or "is not a JSON object"
    hint = _OUT if others else _AS_LINES
    name, packed = split.uri, compression_of(split.uri, formats.AUTO)
    if json_objects.find_fault(json_objects.with_nulls(text)) is None and "://" not in name:
        command = f"sed -E {shlex.quote(json_objects.NULLS)} {shlex.quote(name)}"
        if packed == "none":
            # What is piped in cannot be read again with another type when a NULL comes.
            types = [(key, "Nullable(Float64)") for key in json_objects.keys_of_constants(text)]
            named = f"{command} | rowfall load - --format JSONEachRow --table NAME"
            named += f" {type_options(types)}" if types else ""
            left = "Leave bad rows out with --max-errors N, or write" if others else "Write"
            hint = f"{left} null in its place: {named}"
    shown = shorten(text)
    where = where or f"{name} line {line}"
    whole = f": {shown}" if json_objects.is_no_object(fault) else ""
    return DataError(f"{where} {fault}{whole}", uri=name, line=line, value=shown, hint=hint)


EMPTY_KEY = '""'
MOST_COLUMNS = 20
"""Columns of a table that a hint names one by one."""


def _with_key(schema: Schema, keys: str) -> str:
    """Return the hint for keys that a table lacks: without them, or with a column for each."""
    hint = "Leave such keys out with --on-new-column ignore"
    columns = [(c.name, c.type) for c in schema.columns]
    if "" in keys.split(", "):
        return f"{hint}."  # no column can have that name
    if len(columns) > MOST_COLUMNS or len(keys) > SHOWN:
        return f"{hint}, or name all columns with --schema in a new table."
    columns += [(key, "Nullable(String)") for key in keys.split(", ")]
    listed = ", ".join(f"{plain_name(name)} {type_}" for name, type_ in columns)
    return f"{hint}, or load all into a new table with --table NAME --schema {shlex.quote(listed)}."


def _value_error(
    row: str, column: Column, bad: BadRow, schema: Schema, trial: TriedRemedies, encoding: Encoding
) -> tuple[str, str]:
    where = f'{row} column "{column.name}"'
    shown = None if bad.value is None else shorten(bad.value)
    target = parse_type(column.type)
    bad = replace(bad, value=without_null_mark(bad.value, target))
    if target.base == "String" and (is_foreign(bad.value) or (bad.value and not bad.breaks)):
        return f'{where}: "{shown}" is not UTF-8', _ENCODING
    if bad.breaks:
        return (
            f"{where}: a quote is opened here and not closed in this line (the value goes on "
            f"for {bad.breaks:,} more lines)",
            _CLOSE,
        )
    if SIGN in column.expression and bad.value:
        return f'{where}: "{shown}" is {SIGN} of a table that collapses rows', _OUT
    lost, as_value = _lost(column, target, bad.value)
    hint = remedies(column, schema, trial, as_value if trial.as_value else None)
    misfits = trial.misfits
    others = [_no_fit(m.column, m.value) for m in misfits if m.column.name != column.name]
    more = f"; further columns do not fit: {', '.join(others)}" if others else ""
    empty, apart = bad.value is None or bad.value == "", encoding.kind is Kind.JSON
    if empty and target.nullable and not apart:
        hint = "NULL is nothing between delimiters, without quotes; end the file with a line end."
        return f"{where} is empty text, which is no {column.type}{more}", hint
    if bad.value == "" and apart:
        return f'{where}: "" is no {column.type}{more}', hint
    if empty:
        # A text may be empty; what else is nothing in a line may be a mark of NULL as well.
        null = encoding.kind is Kind.TYPED or target.text
        kind = "NULL or missing" if apart else "NULL" if null else "empty or NULL"
        return f"{where} is {kind}, and {column.type} takes no NULL{more}", hint
    return f'{where}: "{shown}" does not fit {column.type}{lost}{more}', hint


def remedies(
    column: Column, schema: Schema, trial: TriedRemedies, as_value: str | None = None
) -> str:
    """Return the hint that names what has been tried on a value.

    Args:
        as_value: the option by which the type of the column takes it.
    """
    types = {m.column.name: m.types for m in trial.misfits if m.types}
    chosen = {name: found[0] for name, found in types.items()}
    if chosen.get(column.name) == "JSON" and column.name in schema.layout.keys:
        found = [t for t in types[column.name] if t != "JSON"]
        chosen = {**chosen, column.name: found[0]} if found else {}
    ways = []
    if trial.word:
        ways.append(f"--null {shlex.quote(trial.word)} reads it as NULL, in columns of text, too")
    elif column.name in chosen:
        remedy = _remedy(chosen, schema)
        json = chosen[column.name] == "JSON"
        ways.append(remedy.replace("Load it with", "Load it as JSON with", 1) if json else remedy)
    if as_value:
        ways.append(f"take it as a value with {as_value}")
    if trial.left_out:
        ways.append("leave bad rows out with --max-errors N")
    if not ways:
        return CORRECT
    text = ", or ".join(ways)
    return text[0].upper() + text[1:] + "."


_LED = regex(r"-?0\d")


def _lost(column: Column, target: Type, value: str | None) -> tuple[str, str | None]:
    """Return a clause on what ``value`` would lose in the type, and the option that reads it so.

    "" for no loss; None where no option reads it.
    """
    if not (column.notation and column.notation.canonical and value):
        return "", None
    if target.base == "Bool":
        lost = " where all others are true or false" if value in ("0", "1") else ""
    elif re.fullmatch(r"[-+]?\d+", value):
        lost = ", which would lose " + (
            "its plus" if value[0] == "+" else "leading zeros" if _LED.match(value) else "digits"
        )
        signed = target.base.startswith("Int")
        low, high = (
            (-(2 ** (target.bits - 1)), 2 ** (target.bits - signed))
            if signed
            else (0, 2**target.bits)
        )
        if target.bits and not low <= int(value) < high:
            lost = ""
    else:
        lost = ", which would lose leading zeros" if _LED.match(value) else ""
    return lost, type_options([(column.name, column.type)]) if lost else None


def _no_fit(column: Column, value: str | None) -> str:
    shown = "an empty value" if value is None else f'"{shorten(value)}"'
    return f'{shown} in "{column.name}" {column.type}'


def _remedy(types: Mapping[str, str], schema: Schema, more: str = "") -> str:
    """Return the advice that changes columns to ``types``; a table's key columns keep theirs.

    Args:
        more: options behind those of the types.
    """
    options = type_options(list(types.items())) + more
    keys = [name for name in types if name in schema.layout.keys]
    if not keys:
        return f"Load it with --widen {options}"
    if not schema.exists:
        return f"Load all files into a new table with --table NAME {options}"
    verb = "is in a key" if len(keys) == 1 else "are in keys"
    return (
        f"Load it into a new table with --table NAME {options} ({', '.join(keys)} {verb}, which "
        "the engine does not change)"
    )


def type_options(columns: Sequence[tuple[str, str]]) -> str:
    """Return ``--type`` options for a shell, of (name, type)."""
    pairs = ((plain_name(name), type_) for name, type_ in columns)
    return " ".join(f"--type {shell_word(f'{name} {type_}')}" for name, type_ in pairs)


def plain_name(name: str) -> str:
    """Return a name as it is where it needs no quotes, which words of SQL do all the same."""
    return name if _PLAIN.fullmatch(name) else sql.name(name)


def shell_word(text: str) -> str:
    """Return a text in quotes for a shell; one with quotes itself stays readable if it can."""
    if "'" in text and not _EXPANDED.search(text):
        return f'"{text}"'
    return shlex.quote(text)


def without_null_mark(value: str | None, target: Type) -> str | None:
    """Return None for ``\\N`` of a text column that takes no NULL; any other value as it is."""
    return None if value == "\\N" and target.text and not target.nullable else value


def _encodings(value: str | None) -> str:
    """Return the hint about a value that is not UTF-8, with what encodings make of it."""
    if value is None or not is_foreign(value):
        return _ENCODING
    from rowfall.core.charset_guess import CONVERTED, shown_readings  # only what fails needs it

    data = value.encode("utf-8", "surrogateescape")[:SHOWN]
    found = [(c, shown) for c, shown in shown_readings(data, data) if c not in CONVERTED]
    if not found:
        return _ENCODING
    reads = ", ".join(f'--encoding {charset} reads "{shown}"' for charset, shown in found)
    return f"Name the encoding of the file: {reads}; --encoding binary loads the bytes as they are."


def is_foreign(value: str | None) -> bool:
    """Tell whether a value holds bytes that are not text, which became surrogates."""
    return any("\udc80" <= letter <= "\udcff" for letter in value or "")


def shorten(text: str) -> str:
    """Return a value on one line, of at most :data:`SHOWN` characters."""
    clean = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    clean = clean.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return clean if len(clean) <= SHOWN else clean[: SHOWN - 3] + "..."


def explain_engine_error(code: int, message: str, uri: str = "") -> DataError:
    """Return the engine's error about data in plain words, where no row could be found.

    Args:
        code: the engine's error code; ``message`` its text.
        uri: the object, when the message does not say.
    """
    uri = uri or named_object(message) or "the source"
    row = _AT_ROW.search(message)
    place = f"{uri} row {row[1]}" if row else uri
    if code in CONTAINERS:
        cause, hint = CONTAINERS[code]
        if code in _UNPACKERS and _LARGE_WINDOW.search(message):
            cause = "looks back further than its reader does: it was packed with a larger window"
            hint = f"Unpack it, and load that: {_UNPACKERS[code]} {shlex.quote(uri)}"
        return DataError(f"{uri} {cause}", uri=uri, hint=hint)
    unknown = _FIELD.search(message)
    text, hint = _cause_and_hint(code, message)
    if unknown:
        key = unknown[1].strip() or EMPTY_KEY
        text = f"has the key {key}, which the table lacks"
        hint = "Name all columns with --schema, or remove the key."
        if key == EMPTY_KEY:  # no column can have that name
            hint = "Leave such keys out with --on-new-column ignore."
    return DataError(f"{place} {text}", uri=uri, hint=hint)


def unreadable(name: str, error: RowfallError) -> DataError:
    """Return the error of a file at which a library of the engine has failed."""
    before, _, said = headline(error.message).partition("e.what() = ")
    text = (said or before).removesuffix(" (STD_EXCEPTION)").rstrip(". ")
    return DataError(f"{name} cannot be read: {text.lower()}", uri=name, hint=_FETCH)


# The row is counted in a block, of which nobody knows the place in the file; values may be long.
_VIOLATED = regex(
    r"Constraint `?(.*?)`? for table .*? is violated(?: at row \d+)?\. "
    r"Expression: \((.*?)\)\.(?: Column values: (.{1,200}))?",
    re.DOTALL,
)


def _cause_and_hint(code: int, message: str) -> tuple[str, str]:
    if code == VIOLATED_CONSTRAINT and (broken := _VIOLATED.search(message)):
        values = (broken[3] or "").removesuffix(". (VIOLATED_CONSTRAINT)").rstrip(". ")
        shown = f": {values}" if values else ""
        return (
            f"has a row that breaks the constraint {broken[1]} of the table, {broken[2]}{shown}",
            "Correct the row, or drop the constraint of the table.",
        )
    first = headline(_URI.sub("", _AT_ROW.sub("", message)).strip(" :.\n")).strip(" :.")
    misfit, variant = nested_misfit_column(message), null_in_variant(message)
    if variant is not None:
        told = f'column "{variant}": holds a NULL, which the engine does not read there'
        return told, of_variant(variant, objects=False)
    if misfit is not None:
        return _nested_misfit(misfit, first)
    if TAG in message:
        guard = message[message.index(TAG) + len(TAG) :].split(":")[0]
        if guard == LAST_EMPTY:
            return (
                "ends in a delimiter without a line end, and other rows end in an empty string",
                "Add a line end behind its last line.",
            )
        if guard.startswith("line break in "):
            column, _, _ = guard.removeprefix("line break in ").rpartition(" ")
            return (
                f'column "{column}": a quote is opened and not closed in its line',
                _CLOSE,
            )
        if " takes none (list " in guard:
            return f"was refused: {guard}", EMPTY_LISTS
        return f"was refused: {guard}", _OUT
    if twice := _TWICE.search(message):
        return f"has two columns of the name {twice[1]}", "Rename one of them where it is written."
    if "INT96 timestamp out of range" in message and (at := _READ_STAGE.search(message)):
        return (
            f"has a time in {at[1]} that INT96 is not read for: beyond the years 1677 to 2262",
            f"Leave the column out with --skip {at[1]}, or write it again: Spark's "
            "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS.",
        )
    if "Failed to parse Parquet Thrift metadata" in message and (at := _READ_STAGE.search(message)):
        return (
            f"has a column {at[1]} that is damaged or encrypted",
            f"Leave it out with --skip {at[1]}, or have it written without encryption.",
        )
    if codec := _CODEC.search(message):
        return (
            f"is packed with {codec[1]}, which the engine's reader of Avro does not know",
            "Write it with the codec deflate, snappy or zstandard.",
        )
    if field := _NULL_FIELD.search(message):
        return (
            f"has a column {field[1]} of the type null, which the engine does not read from Arrow",
            "Write it as Parquet, of which such columns are loaded, or leave the column out.",
        )
    if _BROKEN.search(message):
        return "is not a whole file of its format", _FETCH
    if "CRC checksum" in message or "while uncompressing" in message.lower():
        return f"is damaged: {first[:200]}", _FETCH
    if "Not enough columns" in message or "Line feed found where delimiter" in message:
        return "has too few fields", _OUT
    if "Unexpected end of stream" in message or code in (32, 33):
        return "breaks off in the middle", _FETCH
    if "delimiter" in message or "Expected end of line" in message:
        return "has another number of fields, or text after a closing quote", _OUT
    if code == NO_NULL:
        return "holds a NULL where the table takes none", CORRECT
    if code in (8, 16) or ("Column" in message and "not presented" in message):
        return f"lacks a column: {first[:200]}", APART
    if code in (6, 27, 38, 41, 69, 70, 72, 117, 321, 376, 407, 441, 467, 675, 676, 691):
        years = "[-25567, 120530]" in first  # the days of releases before 26.7
        return f"holds a value that does not fit: {first[:200]}", READ_HERE if years else _OUT
    if code in (NOT_IMPLEMENTED, UNKNOWN_TYPE):
        return f"cannot be read: {first[:200]}", _UNKNOWN_TYPE
    return f"cannot be read: {first[:200]}", _OUT


def nested_misfit_column(message: str) -> str | None:
    """Return the column whose objects have other keys or types by an engine's error; else None."""
    key = _AT_KEY.search(message)
    return key[1].strip("'` ") if key and _NESTED.search(message) else None


def null_in_variant(message: str) -> str | None:
    """Return the column of a Variant that holds a NULL by an engine's error; else None."""
    key = _AT_KEY.search(message)
    return key[1].strip("'` ") if key and "not allowed inside Variant type" in message else None


def of_variant(column: str, *, objects: bool) -> str:
    """Return the hint about a NULL in a column of a Variant.

    Args:
        objects: all its values are objects, which JSON takes.
    """
    other = "JSON" if objects else "Nullable(String)"
    kept = "" if objects else ", which keeps the text"
    return f"Load it into a new table with --table NAME {type_options([(column, other)])}{kept}."


def names_column(message: str, column: Column) -> bool:
    """Tell whether an engine's error names a column."""
    names = {column.name, column.source}
    return any(f"{mark}{n}{mark}" in message for n in names if n for mark in ("`", "'", '"'))


def as_text(column: str) -> str:
    """Return the hint that loads a column of JSON as text, where not all values are objects."""
    kept = type_options([(column, "String")])
    return f"Load all files into a new table with --table NAME {kept}, which keeps the text."


def without_file(error: DataError) -> DataError:
    """Return an error whose hint does not ask for a file to be corrected: there is none."""
    if error.hint == ready_to_paste(_OUT):
        error.hint = ready_to_paste("Leave bad rows out with --max-errors N.")
    elif error.hint == ready_to_paste(CORRECT):
        error.hint = None
    return error


def without_leaving_out(error: DataError) -> DataError:
    """Return an error whose hint names no --max-errors, where no row can be left out."""
    if error.hint == ready_to_paste(_OUT):
        error.hint = ready_to_paste(CORRECT)
    return error


def _nested_misfit(column: str, first: str) -> tuple[str, str]:
    """Return cause and hint for an object whose keys or types are not those of its column."""
    cause = re.split(r"\.? ?If you want| \(consider|: \(while|\(while", first)[0].strip(" :.,")
    as_json = type_options([(column, "JSON")])
    return f'column "{column}": {cause[:200]}', (
        f"Load it as JSON with --widen {as_json}, or all files into a new table with --table NAME "
        f"{as_json}; {type_options([(column, 'String')])} there keeps the text."
    )
