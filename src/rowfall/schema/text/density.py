"""Estimate how many rows a stored byte of text holds, from pieces of a few files."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress

from rowfall.core import charsets
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Split
from rowfall.core.model import Dialect, Encoding, Kind
from rowfall.sources.base import Ranged

# Evenly over the listing: files of one day differ less than those of a year.
FILES = 4
# Of a packed file from its beginning: 1 MB of text, unpacked in 5 ms. Of a plain one a third of
# it at the beginning, in the middle and at the end.
PIECE = 1 << 18
# The last four bytes of gzip are the length of its last member. Where that is far from what the
# sample foretells, the file has several.
SAME = 1.5


def rows_per_byte(source: Ranged, splits: Sequence[Split], encoding: Encoding) -> float | None:
    """Return the rows in a stored byte; None where this cannot tell.

    Args:
        splits: files as a whole, some of which are read.
    """
    if encoding.kind not in (Kind.TEXT, Kind.JSON) or encoding.compression not in ("none", "gzip"):
        return None
    estimate = _of_gzip if encoding.compression == "gzip" else _of_plain
    rows = stored = 0.0
    for split in splits[:: max(1, -(-len(splits) // FILES))]:
        size = split.size
        if not size or split.part is not None:
            continue
        with suppress(RowfallError, zlib.error):  # whoever loads it says what is wrong with it
            found = estimate(source, split, size, encoding)
            if found is not None:
                rows += max(found - encoding.has_header, 0)
                stored += size
    return rows / stored if stored and rows else None


def _of_plain(source: Ranged, split: Split, size: int, encoding: Encoding) -> float | None:
    if size <= PIECE:
        return _rows(source.part(split, 0, size), encoding, whole=True)
    length = PIECE // 3
    first, *others = (source.part(split, at, length) for at in (0, size // 2, size - length))
    # Inside of a file nobody knows which quotes are open: line breaks count as in the first piece.
    breaks = first.count(b"\n")
    if not breaks:  # also of a server without ranges
        return None
    share = _rows(first, encoding) / breaks
    pieces = (first, *others)
    lines = sum(piece.count(b"\n") for piece in pieces)
    return lines * share / max(1, sum(map(len, pieces))) * size


# Text is packed 3 to 20 to 1. What has more in a piece is nothing to guess rows by.
_MOST_TEXT = 64 << 20


def _of_gzip(source: Ranged, split: Split, size: int, encoding: Encoding) -> float | None:
    data = source.part(split, 0, min(size, PIECE))
    if not data:  # of a server without ranges
        return None
    whole = len(data) >= size
    text, rest, members = bytearray(), data, 0
    while rest:
        unpacker = zlib.decompressobj(31)
        text += unpacker.decompress(rest, _MOST_TEXT + 1 - len(text))
        if len(text) > _MOST_TEXT:
            return None
        rest, members = unpacker.unused_data, members + 1
        if not unpacker.eof:
            break
    rows = _rows(bytes(text), encoding, whole=whole)
    if whole or not text:
        return rows
    raw = len(text) / len(data) * size
    if members == 1:
        last = int.from_bytes(source.part(split, size - 4, 4), "little")
        # A length of 4 GiB and more is given without its upper bits.
        last += max(0, round((raw - last) / (1 << 32))) << 32
        if raw / SAME < last < raw * SAME:
            raw = last
    return rows / len(text) * raw


def _rows(text: bytes, encoding: Encoding, *, whole: bool = False) -> float:
    """Count rows of a file's beginning: line breaks outside of quotes, and what ends without."""
    if encoding.dialect is not None and encoding.is_csv:
        text = _lines_of_data(text, encoding.dialect)
    outside = text
    if encoding.is_csv and b'"' in text:
        outside = b"".join(text.split(b'"')[::2])
    last = whole and bool(text) and not text.endswith(b"\n")
    return outside.count(b"\n") + last


def _lines_of_data(text: bytes, dialect: Dialect) -> bytes:
    """Return the lines that hold rows, or the header, of the beginning of foreign text."""
    plain = charsets.decode(text, dialect.charset).removeprefix(charsets.BOM)
    if dialect.quote not in ("", '"'):
        plain = plain.replace('"', "").replace(dialect.quote, '"')
    ended = plain.endswith(("\n", "\r"))
    lines = plain.replace("\r\n", "\n").replace("\r", "\n").split("\n")[dialect.skip_lines :]
    comment = dialect.comment
    kept = [line for line in lines if line and not (comment and line.startswith(comment))]
    return ("\n".join(kept) + "\n" * ended).encode()
