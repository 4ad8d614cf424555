"""What is sent when rows are pushed to a server: files as they are, pieces of them, or blocks.

Pure but for reading through a function that is passed in. Big plain text is cut where a record
ends; the rules are those of the server's readers, and where a file does not show a place beyond
doubt it stays in one piece.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rowfall.core import formats, sql
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Facts, Kind, Schema
from rowfall.core.sqltext import SqlText
from rowfall.core.units import memory as bytes_text
from rowfall.schema.codec import MISSING, TAG, parse_type
from rowfall.schema.reader_settings import reader_settings
from rowfall.schema.records import SCAN, Read, header_names, record_starts
from rowfall.sources.base import Source

Values = Mapping[str, str | int | float]

# A piece costs a statement and a part per partition, about 10 ms, so it should last a second (the
# server parses 50 to 100 MB/s of a core); it bounds what one stream still sends at the end.
PIECE_BYTES = 128 << 20
# Halves of less than this are not worth a second statement.
LEAST_PIECE = 16 << 20
# Raw files that are smaller on average go as blocks: a statement and its part cost the server 6 to
# 12 ms. 2,000 files of 30 KB took 14 CPU-seconds raw and 1.3 as blocks, 60 files of 1 MB 1.7 and
# 1.1; at 4 MiB it is 15 % of parsing plain text and 4 % of what is packed.
SMALL_FILE = 4 << 20
# The server holds a whole Parquet, ORC or Arrow file in memory before it reads the first row.
WHOLE_MOST = 64 << 20
# The server refuses longer statements (max_query_size 256 KiB) and longer URLs (1 MiB, escaped).
LONGEST_SQL = 200 << 10

_HELD = frozenset({"Parquet", "ORC", "Arrow"})
# Their first bytes cannot be unpacked by the standard library of Python 3.11.
_SEALED = frozenset({"zstd", "lz4"})
FLOAT_PROBE = "SELECT x = toFloat64('1.239') FROM format('TSV', 'x Float64', '1.239')"
"""Says 1 where the reader of text takes floats exactly; see :func:`for_server`."""

_TRIM_END = ", ' \\t')"  # of what codec writes around padded values
# What belongs to the server's machine and not to the one that reads for it.
_NOT_LOCAL = frozenset({"max_memory_usage", "max_threads", "max_insert_threads"})


@dataclass(frozen=True, slots=True)
class Delivery:
    """How the splits of one attempt go.

    Attributes:
        raw: sent as they are; the server unpacks and parses them.
        blocks: read by the local engine, sent as blocks of columns.
        reason: for the plan, half a sentence.
    """

    raw: tuple[Split, ...]
    blocks: tuple[Split, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes ``start`` to ``stop`` of a file, with ``head`` (its header line) in front.

    Attributes:
        last: it ends where the file ends.
    """

    start: int
    stop: int
    head: bytes = b""
    last: bool = True


def deliver(
    splits: Sequence[Split], encoding: Encoding | None, schema: Schema, *, stream: bool
) -> Delivery:
    """Decide how each split goes.

    Args:
        stream: the source is one that is read once (stdin).
    """
    everything = tuple(splits)
    if encoding is None:
        return Delivery((), everything, "rows are made here and sent as blocks")
    if stream:
        return Delivery(everything, (), "stdin goes on as it comes in")
    if any(not is_local(split) for split in everything):
        return Delivery((), everything, "the source is read here and sent as blocks")
    size = sum(split.size or 0 for split in everything)
    if len(everything) > 1 and size < SMALL_FILE * len(everything):
        why = f"files of {bytes_text(size // len(everything))} on average would be a part each"
        return Delivery((), everything, f"{why}: read here, sent as blocks")
    if len(str(raw_statement(SqlText.of("``"), encoding, schema))) > LONGEST_SQL:
        return Delivery((), everything, "too many columns for one URL: read here, sent as blocks")
    raw = tuple(split for split in everything if not _why_not(split, encoding))
    kept = frozenset(raw)
    blocks = tuple(split for split in everything if split not in kept)
    as_is = "files go as they are, the server unpacks and parses them"
    if not blocks:
        return Delivery(raw, (), as_is)
    why = f"{_why_not(blocks[0], encoding)}: read here, sent as blocks"
    return Delivery(raw, blocks, f"{as_is}; {why}" if raw else why)


def is_local(split: Split) -> bool:
    """Whether the split is a file of this machine."""
    return os.path.isabs(split.uri) and split.start is None


def packing(split: Split, encoding: Encoding) -> str:
    """The compression of one file, ``none`` for none."""
    if encoding.compression == formats.AUTO:
        return formats.by_name(split.uri)[1]
    return encoding.compression


def _why_not(split: Split, encoding: Encoding) -> str:
    """Why the server should not get the file as it is, "" when it should."""
    packed = packing(split, encoding)
    if encoding.kind is Kind.TYPED and packed != "none":
        return f"{encoding.format} inside {packed}"
    if encoding.format in _HELD and (split.size or 0) > WHOLE_MOST:
        return f"the server would hold {bytes_text(split.size or 0)} of {encoding.format} in memory"
    if encoding.has_header and packed in _SEALED:
        # input() does not apply DEFAULT, so a column that the header lacks would be filled in
        # without a word: the header is looked at first, see header_fits.
        return f"a header inside {packed} cannot be checked beforehand"
    return ""


# --- statements ----------------------------------------------------------------------------------


def raw_statement(into: SqlText, encoding: Encoding, schema: Schema) -> SqlText:
    """The INSERT whose data are a file: the server applies the same checks as a local engine."""
    relation = SqlText.of(f"input({sql.literal(_structure(schema))})")
    return SqlText.of(
        sql.insert_select(into, schema.columns, relation), f"\nFORMAT {encoding.format}"
    )


def for_server(schema: Schema, encoding: Encoding, *, exact: bool) -> Schema:
    """The schema as an older server has to read it.

    Args:
        exact: its reader of text takes floats exactly. Releases such as 24.10 read 1.239 as
            1.2389999999999999 and ``-`` as 0, whatever ``precise_float_parsing`` says; there,
            floats are read as text, whose conversion is exact.
    """
    if exact or encoding.kind not in (Kind.TEXT, Kind.JSON):
        return schema
    return replace(schema, columns=tuple(_carefully(c) for c in schema.columns))


def _carefully(column: Column) -> Column:
    read, expression = column.read_type, column.expression
    if read.startswith("Nullable(Float"):
        # The lenient way is a conversion of text. With one argument trimBoth is fast; a tab
        # around a number is an error then.
        value, bad = (x.replace(_TRIM_END, ")") for x in (column.lenient, column.bad))
        value = value if parse_type(column.type).nullable else f"assumeNotNull({value})"
        message = sql.literal(f"{TAG}a value does not fit {column.name} {column.type}")
        expression = f"tupleElement(({value}, throwIf({bad}, {message})), 1)"
        # Infinity stood for a column that the header lacks; it has to be wrong as text, too.
        lacking = f" DEFAULT {sql.literal(MISSING)}" if " DEFAULT " in read else ""
        read = f"Nullable(String){lacking}"
    elif _TRIM_END in expression:
        # The same servers know trimBoth with one argument only; TRIM is a slow regular expression.
        expression = expression.replace("trimBoth(", "trim(BOTH ' \\t' FROM ")
        expression = expression.replace(_TRIM_END, ")")
    return replace(column, read_type=read, expression=expression)


def blocks_statement(into: SqlText, columns: Sequence[Column]) -> SqlText:
    """The INSERT whose data are blocks.

    Through input(), because only an INSERT SELECT writes with ``max_insert_threads``.
    """
    structure = sql.structure((c.name, c.type) for c in columns)
    names = ", ".join(sql.name(c.name) for c in columns)
    return SqlText.of(
        "INSERT INTO ", into, f" ({names})\nSELECT {names}\nFROM input({sql.literal(structure)})"
        "\nFORMAT Native",
    )  # fmt: skip


def local_select(
    source: Source, splits: Sequence[Split], encoding: Encoding | None, schema: Schema
) -> SqlText:
    """What the local engine runs to make blocks of ``splits``."""
    relation = source.relation(splits, encoding, _structure(schema))
    return SqlText.of(f"SELECT {sql.projection(schema.columns)}\nFROM ", relation)


def _structure(schema: Schema) -> str:
    """The columns as they are read."""
    return sql.structure((c.source or c.name, c.read_type or c.type) for c in schema.columns)


def into_file(query: SqlText, path: str, packed: str = "none") -> SqlText:
    """The same, written to the named pipe ``path`` as blocks, compressed if ``packed`` says how."""
    # One of both has to be said of a file that is there; a pipe has nothing to cut off.
    how = f"TRUNCATE COMPRESSION {sql.literal(packed)}" if packed != "none" else "APPEND"
    return SqlText.of(query, f"\nINTO OUTFILE {sql.literal(path)} {how} FORMAT Native")


def local_settings(
    settings: Values, encoding: Encoding | None, columns: Sequence[Column], facts: Facts, share: int
) -> dict[str, str | int | float]:
    """Settings of the local engine that makes one of ``share`` streams of blocks.

    Its reader gets what the server's would get, and what only its own version knows.
    """
    reading = reader_settings(encoding, columns) if encoding is not None else ()
    wanted: dict[str, str | int | float] = {s.name: s.value for s in reading}
    wanted |= {name: value for name, value in settings.items() if name not in _NOT_LOCAL}
    wanted["max_threads"] = max(1, facts.cores // share)
    return {n: v for n, v in wanted.items() if not facts.settings or n in facts.settings}


def piece_settings(settings: Values, piece: Piece) -> dict[str, str | int | float]:
    """Settings of one piece's INSERT: only the file's last line may be empty, not a piece's."""
    values = dict(settings)
    if not piece.last:
        for name in values:
            if name.endswith("_skip_trailing_empty_lines"):
                values[name] = 0
    return values


def header_fits(head: bytes, encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Check that the first line of ``head`` names all columns; False also where that is unclear."""
    try:
        names = header_names(head, encoding, strict=True)
    except (UnicodeDecodeError, csv.Error):
        return False
    return {c.source or c.name for c in columns} <= set(names)


# --- cutting -------------------------------------------------------------------------------------


def pieces(
    read: Read, size: int, encoding: Encoding, settings: Values, every: int
) -> Iterator[Piece]:
    """A plain file of ``size`` bytes in pieces of about ``every`` bytes, found as they are taken.

    Together they are the file; each starts where a record starts. What is left after the last
    place beyond doubt is one piece.
    """
    head, start = b"", 0
    if size >= every + LEAST_PIECE and _cuttable(encoding, settings):
        if encoding.has_header:
            first = next(record_starts(read, min(size, SCAN), encoding, 1), 0)
            head = read(0, first)
        if head or not encoding.has_header:
            for cut in record_starts(read, size, encoding, every):
                if size - cut < LEAST_PIECE:
                    break
                yield Piece(start, cut, head if start else b"", last=False)
                start = cut
    yield Piece(start, size, head if start else b"")


def piece_size(splits: Sequence[Split], streams: int) -> int:
    """Bytes at which a plain file is cut; 0: no file has to be.

    Cutting costs a look at every byte (5 s of a core per GB where all is quoted, 0.4 s where
    nothing is), so it is for files that would keep one stream busy when the others have ended.
    """
    total = sum(split.size or 0 for split in splits)
    biggest = max((split.size or 0 for split in splits), default=0)
    if streams < 2 or biggest * streams * 2 < total or biggest < 2 * LEAST_PIECE:
        return 0
    return max(LEAST_PIECE, min(PIECE_BYTES, -(-biggest // streams)))


def _cuttable(encoding: Encoding, settings: Values) -> bool:
    if encoding.kind is Kind.JSON:
        return encoding.format == "JSONEachRow"
    if encoding.kind is not Kind.TEXT:
        return False
    # Other settings, other rules: a user may have given them.
    return (
        int(settings.get("format_csv_allow_double_quotes", 1)) == 1
        and int(settings.get("format_csv_allow_single_quotes", 0)) == 0
    )
