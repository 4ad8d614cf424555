"""What is sent when rows are pushed to a server: files as they are, pieces of them, or blocks.

Pure but for reading through a function that is passed in. Big plain text is cut where a record
ends; the rules are those of the server's readers, and where a file does not show a place beyond
doubt it stays in one piece.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowfall.core import sql
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Facts, Kind, Schema
from rowfall.core.sqltext import SqlText
from rowfall.plan.statements import read_structure
from rowfall.schema.records import SCAN, Read, header_names, record_starts
from rowfall.schema.strict_reading import reader_settings
from rowfall.sources.base import Source

Values = Mapping[str, str | int | float]

# A piece costs a statement and a part per partition, about 10 ms, so it should last a second (the
# server parses 50 to 100 MB/s of a core); it bounds what one stream still sends at the end.
PIECE_BYTES = 128 << 20
# Halves of less than this are not worth a second statement.
LEAST_PIECE = 16 << 20
# What belongs to the server's machine and not to the one that reads for it.
_NOT_LOCAL = frozenset({"max_memory_usage", "max_threads", "max_insert_threads"})


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


# --- statements ----------------------------------------------------------------------------------


def local_select(
    source: Source, splits: Sequence[Split], encoding: Encoding | None, schema: Schema
) -> SqlText:
    """What the local engine runs to make blocks of ``splits``."""
    relation = source.relation(splits, encoding, read_structure(schema))
    return SqlText.of(f"SELECT {sql.projection(schema.columns)}\nFROM ", relation)


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
    return facts.known(wanted)


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
