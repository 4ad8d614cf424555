"""Finds the columns of Parquet and Arrow whose numbers are durations, by the schema of Arrow.

Parquet has no type for them: what writes Arrow stores them as INT64, and keeps its own schema among
the words of the footer. Spark does the same with its intervals, in a schema of its own. The engine
reads neither.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.schema.avro_blocks import BROKEN, HasPieces, begins
from rowfall.schema.text.long_records import unpacked
from rowfall.schema.time_units import Units
from rowfall.schema.types.parquet_files import whole_file
from rowfall.sources.base import Ranged
from rowfall.sources.compression import compression_of
from rowfall.stores.first_bytes import HEAD

_MAGIC, _END = b"ARROW1\0\0", b"PAR1"
_MOST = 32 << 20
"""Bytes of a footer or of a schema that are looked at: 100,000 columns take 15 MB."""
_MOST_FIELDS = 300_000
"""Fields of a schema that are looked at, in about two seconds: a table may stand in many places."""
_DURATION, _SCHEMA = 18, 1
_UNITS = ("s", "ms", "us", "ns")
# Fields of the tables of Arrow's Message, Schema, Field and Duration.
_HEADER_TYPE, _HEADER, _FIELDS, _NAME, _TYPE_TYPE, _TYPE, _CHILDREN, _UNIT = 1, 2, 1, 0, 2, 3, 5, 0
_ARROW, _SPARK = b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata"
_BROKEN = (*BROKEN, struct.error, TypeError, AttributeError)


def of_parquet(source: HasPieces, split: Split, encoding: Encoding) -> Units:
    """Return the units of durations in the columns of a file of Parquet; {} where it says none."""
    with suppress(*_BROKEN):
        end = _footer(source, whole_file(split), compression_of(split.uri, encoding))
        found: dict[str, list[str]] = {}
        if schema := _value(end, _SPARK):
            for field in json.loads(schema)["fields"]:
                found[str(field["name"])] = list(_intervals(field["type"]))
        if schema := _value(end, _ARROW):
            found = {**durations(b64decode(schema)), **{n: own for n, own in found.items() if own}}
        return found
    return {}


def of_arrow(source: HasPieces, split: Split, encoding: Encoding) -> Units:
    """Return the units of durations in the columns of a file or stream of Arrow."""
    with suppress(*_BROKEN):
        for pieces in begins(source, split, encoding):
            begin = b""
            for piece in pieces:
                begin += piece
                stream = begin.removeprefix(_MAGIC)
                if len(stream) >= 8 and len(stream) >= _message(stream)[1]:
                    return durations(stream)
                if len(begin) > _MOST:
                    return {}
    return {}


def durations(message: bytes) -> dict[str, list[str]]:
    """Return the units of all durations in each column, as ``duration[ms]``.

    Args:
        message: the schema as Arrow sends it: the length in front of a table of FlatBuffers.

    Raises:
        struct.error, LookupError, ValueError: it is none, or has too many fields.
    """
    start, stop = _message(message)
    data = message[start:stop]
    root = _Table(data, struct.unpack_from("<I", data)[0])
    if root.number("B", _HEADER_TYPE) != _SCHEMA:
        return {}
    schema = root.table(_HEADER)
    fields = schema.tables(_FIELDS) if schema else []
    left = iter(range(_MOST_FIELDS))
    return {field.text(_NAME): list(_of_field(field, left)) for field in fields}


def _of_field(field: _Table, left: Iterator[int]) -> Iterator[str]:
    if next(left, None) is None:
        raise ValueError("too many fields")
    if field.number("B", _TYPE_TYPE) == _DURATION and (kind := field.table(_TYPE)):
        yield f"duration[{_UNITS[kind.number('h', _UNIT, 1)]}]"
    for child in field.tables(_CHILDREN):
        yield from _of_field(child, left)


def _message(data: bytes) -> tuple[int, int]:
    """Return where the table of a message begins and ends."""
    length, more = struct.unpack_from("<Ii", data)
    # Before version 1.0 the length stood first.
    start, length = (8, more) if length == 0xFFFFFFFF else (4, length)
    return start, start + length


class _Table:
    """A table of FlatBuffers: fields by their number, those at their default left out."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - struct.unpack_from("<i", data, at)[0]
        self._size = struct.unpack_from("<H", data, self._fields)[0]

    def _place(self, field: int) -> int:
        """Return where a field is; 0 where it is left out."""
        entry = 4 + 2 * field
        if entry >= self._size:
            return 0
        offset: int = struct.unpack_from("<H", self._data, self._fields + entry)[0]
        return offset and self._at + offset

    def number(self, form: str, field: int, default: int = 0) -> int:
        at = self._place(field)
        return int(struct.unpack_from(f"<{form}", self._data, at)[0]) if at else default

    def _pointer(self, at: int) -> int:
        return at + int(struct.unpack_from("<I", self._data, at)[0])

    def table(self, field: int) -> _Table | None:
        at = self._place(field)
        return _Table(self._data, self._pointer(at)) if at else None

    def text(self, field: int) -> str:
        if not (at := self._place(field)):
            return ""
        at = self._pointer(at)
        length = struct.unpack_from("<I", self._data, at)[0]
        return self._data[at + 4 : at + 4 + length].decode(errors="replace")

    def tables(self, field: int) -> list[_Table]:
        if not (at := self._place(field)):
            return []
        at = self._pointer(at)
        count = struct.unpack_from("<I", self._data, at)[0]
        return [_Table(self._data, self._pointer(at + 4 + 4 * n)) for n in range(count)]


def _intervals(type_: Any) -> Iterator[str]:
    """Give the units of Spark's intervals of days and parts of days, which are microseconds."""
    if isinstance(type_, str):
        if type_.startswith("interval") and "year" not in type_ and "month" not in type_:
            yield "duration[us]"
    elif isinstance(type_, dict):
        inner = (type_.get(word) for word in ("elementType", "keyType", "valueType"))
        fields = (field["type"] for field in type_.get("fields", ()))
        for part in chain(inner, fields):
            yield from _intervals(part)


# --- bytes of a file ------------------------------------------------------------------------------


def _value(data: bytes, key: bytes) -> bytes:
    """Return the value of a key of a footer; b"" where there is none.

    Both are bytes behind their length in groups of seven bits, and in front of each length stands
    0x18, the next field of a struct.
    """
    marked = bytes((0x18, len(key))) + key + b"\x18"
    at, length, shift = data.rfind(marked) + len(marked), 0, 0
    while at >= len(marked):
        byte = data[at]
        at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return data[at : at + length]
    return b""


def _footer(source: HasPieces, split: Split, packed: str) -> bytes:
    """Return what a file of Parquet ends with, from its footer on if that is not very long."""
    tail, size = b"", split.size
    if packed == "none" and isinstance(source, Ranged) and size:
        tail = source.part(split, max(0, size - HEAD), min(HEAD, size))
        wanted = _length(tail)
        if len(tail) < wanted <= _MOST:
            tail = source.part(split, max(0, size - wanted), wanted)
    if not tail:
        for piece in _pieces(source, split, packed):
            tail = (tail + piece)[-_MOST:]
    return tail[-_length(tail) :] if _length(tail) else b""


def _length(tail: bytes) -> int:
    """Return the bytes of a footer with what stands behind it; 0 of what is no Parquet."""
    return int.from_bytes(tail[-8:-4], "little") + 8 if tail.endswith(_END) else 0


def _pieces(source: HasPieces, split: Split, packed: str) -> Iterable[bytes]:
    return unpacked(source.pieces(split), packed)
