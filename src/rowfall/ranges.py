"""Cuts big plain files for rowfall-decode, so that a single one keeps all writers busy.

A cut is made behind any line end near its place, without a look at what is before: inside of quotes
it would be wrong. That is found out while decoding: a range that is right at its start and wrong at
its end ends inside of quotes, which the decoder declines. So if no range is declined, every range
begins where a record begins, the first one at the beginning of the file.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rowfall.codec import BOM
from rowfall.fastpath import holds_breaks
from rowfall.model import Column, Encoding, Kind, Split

# Ranges of less would spend their time at the ends: a block is about this long as text.
LEAST = 16 << 20
# Ranges for each writer: when one has ended, the others have little left.
EACH = 4
# Where no line ends within this, there is no cut: records so long are rare.
LOOK = 1 << 20
HEADER = 1 << 16

Read = Callable[[str, int, int], bytes]
"""``(path, offset, length)``: the bytes of a file, fewer at its end."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """What the decoder is to read instead of the files.

    Attributes:
        splits: ranges, each with ``start`` and ``stop``.
        encoding: without a header: it is not in the ranges.
        names: of the columns in the files, () where the files never had names.
    """

    splits: tuple[Split, ...]
    encoding: Encoding
    names: tuple[str, ...] = ()


def ranges(
    splits: Sequence[Split], encoding: Encoding, columns: Sequence[Column], writers: int,
    read: Read, *, least: int = LEAST,
) -> Ranges | None:  # fmt: skip
    """Cut the files of an attempt for ``writers``; None where they are better left whole.

    Files with a header are cut when all have the same one.

    Args:
        least: bytes of the smallest range.
    """
    sizes = [split.size or 0 for split in splits]
    plain = encoding.compression == "none" and encoding.kind in (Kind.TEXT, Kind.JSON)
    local = all(os.path.isabs(split.uri) and split.start is None for split in splits)
    every = max(least, sum(sizes) // (writers * EACH))
    if not plain or not local or writers < 2 or max(sizes, default=0) < every + least:
        return None
    if encoding.format.startswith("CSV") and holds_breaks(columns):
        return None  # most cuts would be wrong
    names: tuple[str, ...] = ()
    skip = 0
    if encoding.format.endswith("WithNames"):
        heads = {_head(read(split.uri, 0, HEADER)) for split in splits}
        head = heads.pop()
        if heads or head is None:
            return None
        names, skip = _names(head, encoding), len(head)
        if len(set(names)) < len(names) or not {c.source or c.name for c in columns} <= set(names):
            return None  # the decoder, or the engine, says what is wrong with it
        encoding = replace(encoding, format=encoding.format.removesuffix("WithNames"))
    cut = [
        piece for split in splits for piece in _pieces(split, skip, (every, least), encoding, read)
    ]
    return Ranges(tuple(cut), encoding, names)


def _head(data: bytes) -> bytes | None:
    """The first line with its end; None where it is not plain."""
    line, end, _ = data.partition(b"\n")
    odd = not end or line.startswith(BOM.encode()) or b'"' in line or b"\\" in line
    return None if odd else line + end


def _names(head: bytes, encoding: Encoding) -> tuple[str, ...]:
    text = head.decode("utf-8", "replace").rstrip("\r\n")
    if encoding.format.startswith("TSV"):
        return tuple(text.split("\t"))
    return tuple(next(csv.reader([text], delimiter=encoding.delimiter), ()))


def _pieces(
    split: Split, skip: int, lengths: tuple[int, int], encoding: Encoding, read: Read
) -> Iterator[Split]:
    size, (every, least) = split.size or 0, lengths
    start = min(skip, size)
    while size - start >= every + least:
        stop = _behind_line(split.uri, start + every, encoding, read)
        if stop is None or size - stop < least:
            break
        yield replace(split, start=start, stop=stop)
        start = stop
    yield replace(split, start=start, stop=size)


def _behind_line(path: str, at: int, encoding: Encoding, read: Read) -> int | None:
    """The first place from ``at`` on where a line begins; a backslash in front of a line end is
    one of TSV's escapes."""
    data = read(path, at - 1, LOOK)
    found = data.find(b"\n")
    while found >= 0:
        if not (encoding.format.startswith("TSV") and data[found - 1 : found] in (b"\\", b"")):
            return at + found
        found = data.find(b"\n", found + 1)
    return None
