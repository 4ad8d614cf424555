"""Lines from the middle and the end of files, which a sample of first rows does not show.

Ids grow and columns are filled in later: types chosen by the first rows alone fail at the end.
Only files that are read as they are have a middle: others would have to be unpacked up to it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from rowfall.core.errors import SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.engines.base import on_all
from rowfall.schema.text.records import header_line, header_names
from rowfall.schema.types import json_objects
from rowfall.sources.base import Ranged, Source

LEAST = 1 << 20
"""Bytes of a file whose first rows are not most of it: 20,000 of them are about as much."""
FILES, PIECE = 4, 12 << 10
"""Files, and bytes from each place. They travel inside a statement, which may have 256 KiB."""
_MOST = 128 << 10
_HEADER = 32 << 10


def excerpts(
    source: Source, splits: Sequence[Split], encoding: Encoding, names: Sequence[str]
) -> str:
    """Return whole lines from the middle and the end of some files, as one text without header.

    Args:
        names: of the columns; files that have them in another order are left out.
    """
    plain = encoding.compression == "none" and encoding.dialect is None
    if not isinstance(source, Ranged) or not plain or encoding.kind is Kind.TYPED:
        return ""
    large = [s for s in splits if (s.size or 0) >= LEAST and s.part is None]
    step = -(-len(large) // FILES) or 1
    # Some 20 ms a request to a store far away.
    found = on_all(lambda s: _of_file(source, s, encoding, names), large[::step])
    text = "\n".join(line for lines in found for line in lines)
    return text if len(text) <= _MOST else ""


def _of_file(source: Ranged, split: Split, encoding: Encoding, names: Sequence[str]) -> list[str]:
    size = split.size or 0
    try:
        if encoding.has_header:
            line = header_line(source.part(split, 0, _HEADER))
            if line is None or header_names(line, encoding) != tuple(names):
                return []
        middle = source.part(split, size // 2, PIECE)
        end = source.part(split, size - PIECE, PIECE)
    except (SourceError, csv.Error):
        return []  # the sample of its first rows says what is wrong
    return [*_lines(middle, encoding, len(names), last=False),
            *_lines(end, encoding, len(names), last=True)]  # fmt: skip


def _lines(data: bytes, encoding: Encoding, width: int, *, last: bool) -> Iterator[str]:
    """Give the whole lines of a piece that have ``width`` fields; none where records are torn."""
    lines = data.split(b"\n")
    lines = lines[1:] if last else lines[1:-1]
    # Line breaks inside quotes, or behind a backslash: nobody knows where a record begins.
    torn = b'"' if encoding.is_csv else b""
    if b"\0" in data or any(torn and line.count(torn) % 2 for line in lines):
        return
    for line in lines:
        try:
            text = line.decode().removesuffix("\r")
        except UnicodeDecodeError:
            continue
        if text and _fits(text, encoding, width):
            yield text


def _fits(text: str, encoding: Encoding, width: int) -> bool:
    if encoding.kind is Kind.JSON:
        return json_objects.is_object(text)
    if encoding.is_csv:
        try:
            fields = next(csv.reader([text], delimiter=encoding.delimiter, strict=True), [])
        except csv.Error:
            return False
        return len(fields) == width
    return len(text.split("\t")) == width and not text.endswith("\\")
