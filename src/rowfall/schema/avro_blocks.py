"""Finds the block of an Avro file that no memory holds, and the array that has no end.

The reader of Avro unpacks a whole block, and takes a value out of it: 700 MB may be 0.9 MB of
deflate. Elements that take no bytes (nulls, records without fields) are only counted in the file,
and the reader makes one after the other: 2^40 of them, which are a file of 200 bytes, in hours.
"""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from rowfall.core import units
from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.pieces import Pieces
from rowfall.schema.text.long_records import UNREADABLE, unpacked
from rowfall.sources.base import Ranged
from rowfall.sources.compression import compression_of
from rowfall.stores.first_bytes import HEAD
from rowfall.stores.objects import ObjectSource

BROKEN = (RowfallError, *UNREADABLE, zlib.error, LookupError, RecursionError)
"""Errors of a file that is damaged, or cannot be read: who loads it says why."""
# Behind that an error without a place is given, as for records of text.
_MOST_SECONDS = 30.0
_MAGIC, _SYNC = b"Obj\x01", 16
# Names and schema stand in front; libraries write them in kilobytes.
_MOST_METADATA = 64 << 20
# Bytes that codecs make of one byte at most (measured on zeros; deflate by its definition).
_MOST_RATIO = {"deflate": 1032, "bzip2": 50_000, "xz": 10_000, "zstandard": 50_000}
# Elements without bytes of one file: the engine makes them in a second or two.
_MOST_EMPTY = 1 << 27
# Bytes of a block, stored and unpacked, that are looked through for them: writers make blocks of
# 16 KiB to some MiB, and this is a fraction of the least --memory.
_MOST_BLOCK = 16 << 20
_BY_NAME = {"zstandard": "zstd", "xz": "xz", "bzip2": "bz2"}


def endless(
    source: ObjectSource, splits: Iterable[Split], encoding: Encoding
) -> SourceError | None:
    """Return the error about a file with more elements that take no bytes than there may be.

    Files are looked through only where the schema of the first one has such elements, for half a
    minute at most; those that cannot be read are left out: who loads them says why.
    """
    until = time.monotonic() + _MOST_SECONDS
    for split in splits:
        packed = compression_of(split.uri, encoding)
        with (
            suppress(RowfallError, *UNREADABLE, zlib.error, LookupError, TypeError, RecursionError),
            _Counted(Pieces(unpacked(source.pieces(split), packed))) as file,
        ):
            if _take(file, len(_MAGIC)) != _MAGIC:
                return None
            words = _metadata(file)
            values = _Values(json.loads(words[b"avro.schema"]), until)
            if not values.may_be_endless:
                return None
            _take(file, _SYNC)
            while time.monotonic() < until and file.peek(1):
                at, count = file.at, _number(file)
                block = _take(file, _checked(_number(file), _MOST_BLOCK))
                if values.pass_by(_plain(block, words.get(b"avro.codec", b"null")), count):
                    return SourceError(
                        f"{split.name}: the block at byte {at:,} has an array of more than "
                        f"{_MOST_EMPTY:,} elements that take no bytes (null, or records without "
                        "fields), which are made one after the other",
                        hint="See how the file was written: it is damaged, or made to keep its "
                        "readers busy.",
                    )
                _take(file, _SYNC)
    return None


@runtime_checkable
class HasPieces(Protocol):
    """A source that gives the bytes of an object, or those that it begins with."""

    def pieces(self, split: Split) -> Iterable[bytes]:
        """Give bytes from the beginning on."""


def begins(source: HasPieces, split: Split, encoding: Encoding) -> Iterator[Iterable[bytes]]:
    """Give what an object begins with, unpacked, and the whole of it, for who needs more.

    So no more is read of what is far away than has to be. Broken streams raise as they are read.
    """
    packed = compression_of(split.uri, encoding)
    if isinstance(source, Ranged):
        yield unpacked([source.part(split, 0, min(HEAD, split.size or HEAD))], packed)
    yield unpacked(source.pieces(split), packed)


def first_bytes(source: HasPieces, split: Split, encoding: Encoding, length: int) -> bytes:
    """Return the first bytes of an object, unpacked; b"" where they cannot be read."""
    for begin in begins(source, split, encoding):
        with suppress(*BROKEN), _Counted(Pieces(begin)) as file:
            return _take(file, length)
    return b""


def schema_of(source: HasPieces, split: Split, encoding: Encoding) -> Mapping[str, Any] | None:
    """Return the schema of a file of records; None where it cannot be read, or is of no record."""
    for begin in begins(source, split, encoding):
        with suppress(*BROKEN), _Counted(Pieces(begin)) as file:
            if _take(file, len(_MAGIC)) == _MAGIC:
                found = json.loads(_metadata(file)[b"avro.schema"])
                return found if isinstance(found, dict) else None
    return None


def _plain(block: bytes, codec: bytes) -> bytes:
    """Unpack a block; one that is larger is cut off."""
    if codec == b"null":
        return block
    if codec == b"deflate":
        return zlib.decompressobj(wbits=-15).decompress(block, _MOST_BLOCK)
    found = bytearray()
    for piece in unpacked([block], _BY_NAME[codec.decode()]):
        found += piece
        if len(found) >= _MOST_BLOCK:
            break
    return bytes(found[:_MOST_BLOCK])


class _Values:
    """Passes values of a schema by, one after the other.

    Args:
        until: monotonic time of the end of it.
    """

    def __init__(self, schema: Any, until: float) -> None:
        self._schema, self._until, self._named = schema, until, dict[str, Any]()
        self._data, self._at, self._empty = b"", 0, 0
        self._name(schema)

    @property
    def may_be_endless(self) -> bool:
        """Tell whether some array has elements that take no bytes."""
        return any(self._is_empty(items) for items in _items(self._schema))

    def pass_by(self, block: bytes, count: int) -> bool:
        """Pass ``count`` rows by, and tell whether too many elements without bytes have passed.

        Raises:
            IndexError: the block ends before its rows do.
            ValueError: a length is less than zero.
            TimeoutError: it takes too long.
        """
        self._data, self._at = block, 0
        for _ in range(count):
            self._pass(self._schema)
            if self._empty > _MOST_EMPTY:
                return True
        return False

    def _name(self, type_: Any) -> None:
        for part in type_ if isinstance(type_, list) else [type_]:
            if isinstance(part, dict):
                if name := part.get("name"):
                    self._named[name.rpartition(".")[2]] = part
                for inner in _inner(part):
                    self._name(inner)

    def _known(self, type_: Any) -> Any:
        """Return what a name stands for, or a type in a type's place."""
        while isinstance(type_, dict) and not isinstance(type_["type"], str):
            type_ = type_["type"]
        return self._named.get(type_.rpartition(".")[2], type_) if isinstance(type_, str) else type_

    def _is_empty(self, type_: Any) -> bool:
        kind = _kind(type_ := self._known(type_))
        if kind == "record":
            return all(self._is_empty(field["type"]) for field in type_["fields"])
        return kind == "null" or (kind == "fixed" and not type_["size"])

    def _pass(self, type_: Any) -> None:
        if time.monotonic() > self._until:
            raise TimeoutError
        if isinstance(type_ := self._known(type_), list):
            type_ = self._known(type_[self._number()])
        kind = _kind(type_)
        if kind == "record":
            for field in type_["fields"]:
                self._pass(field["type"])
        elif kind in ("array", "map"):
            self._pass_items(type_.get("items", type_.get("values")), keys=kind == "map")
        elif kind in ("int", "long", "enum"):
            self._number()
        elif kind in ("string", "bytes"):
            self._pass_bytes()
        else:
            size = type_["size"] if kind == "fixed" else 0
            self._at += {"boolean": 1, "float": 4, "double": 8}.get(kind, size)

    def _pass_items(self, items: Any, *, keys: bool) -> None:
        empty = not keys and self._is_empty(items)
        while count := self._number():
            if count < 0:
                self._number()  # the bytes of these
            if empty:
                self._empty += abs(count)
                if self._empty > _MOST_EMPTY:
                    return
                continue
            for _ in range(abs(count)):
                if keys:
                    self._pass_bytes()
                self._pass(items)

    def _pass_bytes(self) -> None:
        length = self._number()
        self._at += _checked(length, len(self._data))

    def _number(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)


def _kind(type_: Any) -> str:
    """Return the word for a type; that of a union is its first."""
    if isinstance(type_, dict):
        return str(type_["type"])
    return type_ if isinstance(type_, str) else "union"


def _inner(type_: Mapping[str, Any]) -> list[Any]:
    """Return the types that a record, an array or a map consists of."""
    fields = [field["type"] for field in type_.get("fields", ())]
    return fields + [type_[word] for word in ("items", "values") if word in type_]


def _items(type_: Any) -> Iterator[Any]:
    """Give the types of the elements of all arrays in a schema."""
    for part in type_ if isinstance(type_, list) else [type_]:
        if isinstance(part, dict):
            if "items" in part:
                yield part["items"]
            for inner in _inner(part):
                yield from _items(inner)


class _Counted(io.BufferedReader):
    """A stream that is read once, and how many bytes of it have been taken."""

    at = 0


def too_large(
    source: ObjectSource, splits: Sequence[Split], memory: int, most: int
) -> list[tuple[Split, RowfallError]]:
    """Return the files with a block that unpacks to more than ``most`` bytes, and the errors.

    Those that cannot be read are left out: who loads them says why. All of a file passes, 1 GB in
    a second; blocks are unpacked only where they may be so large. Ends after half a minute.
    """
    found: list[tuple[Split, RowfallError]] = []
    until = time.monotonic() + _MOST_SECONDS
    for split in splits:
        with (
            suppress(RowfallError, *UNREADABLE, zlib.error),
            _Counted(Pieces(source.pieces(split))) as file,
        ):
            for at, size in _large_blocks(file, most, until):
                error = SourceError(
                    f"{split.name}: a block of {size} begins at byte {at:,}, which takes more "
                    f"memory than --memory allows ({units.memory(memory)})",
                    hint="Give more with --memory, or write the file with smaller values.",
                )
                found.append((split, error))
    return found


def _large_blocks(file: _Counted, most: int, until: float) -> Iterator[tuple[int, str]]:
    """Give offset and size of the first block that is too large."""
    if _take(file, len(_MAGIC)) != _MAGIC:
        return
    codec = _metadata(file).get(b"avro.codec", b"null").decode(errors="replace")
    _take(file, _SYNC)
    while time.monotonic() < until and file.peek(1):
        at = file.at
        _number(file)  # of its values
        size = _checked(_number(file), 1 << 62)
        if size > most:
            yield at, f"{units.memory(size)} or more"
            return
        block = _take(file, size)
        if _unpacks_to_more(block, codec, most):
            yield at, f"more than {units.memory(most)}"
            return
        _take(file, _SYNC)


def _unpacks_to_more(block: bytes, codec: str, most: int) -> bool:
    if codec == "snappy":
        return _number(_Counted(io.BytesIO(block[:10])), zigzag=False) > most
    total = 0
    if len(block) * _MOST_RATIO.get(codec, 0) <= most:
        return False
    if codec == "deflate":
        stream = zlib.decompressobj(wbits=-15)
        while block and not stream.eof and total <= most:
            total += len(stream.decompress(block, 1 << 20))
            block = stream.unconsumed_tail
    else:
        for piece in unpacked([block], _BY_NAME[codec]):
            total += len(piece)
            if total > most:
                break
    return total > most


def _metadata(file: _Counted) -> dict[bytes, bytes]:
    """Read the metadata, which is a map in blocks."""
    found, left = dict[bytes, bytes](), _MOST_METADATA
    while count := _number(file):
        if count < 0:
            _number(file)  # the bytes of the map's block
        for _ in range(abs(count)):
            key, value = (_take(file, _checked(_number(file), left)) for _ in range(2))
            left -= len(key) + len(value)
            found[key] = value
    return found


def _checked(length: int, most: int) -> int:
    if not 0 <= length <= most:
        raise ValueError(length)
    return length


def _number(file: _Counted, *, zigzag: bool = True) -> int:
    found = shift = 0
    while True:
        byte = _take(file, 1)[0]
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1) if zigzag else found
        if shift > 63:
            raise ValueError(found)


def _take(file: _Counted, length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise EOFError
    file.at += length
    return data
