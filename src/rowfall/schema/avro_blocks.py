"""Finds the block of an Avro file that no memory holds, where an engine has met its limit.

The reader of Avro unpacks a whole block, and takes a value out of it: 700 MB may be 0.9 MB of
deflate.
"""

from __future__ import annotations

import io
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from rowfall.core import units
from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.listing import Split
from rowfall.core.pieces import Pieces
from rowfall.schema.text.long_records import UNREADABLE, unpacked
from rowfall.stores.objects import ObjectSource

# Behind that an error without a place is given, as for records of text.
_MOST_SECONDS = 30.0
_MAGIC, _SYNC = b"Obj\x01", 16
# Names and schema stand in front; libraries write them in kilobytes.
_MOST_METADATA = 64 << 20
# Bytes that codecs make of one byte at most (measured on zeros; deflate by its definition).
_MOST_RATIO = {"deflate": 1032, "bzip2": 50_000, "xz": 10_000, "zstandard": 50_000}
_BY_NAME = {"zstandard": "zstd", "xz": "xz", "bzip2": "bz2"}


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
    codec = _codec(file)
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


def _codec(file: _Counted) -> str:
    """Read the metadata, which is a map in blocks, and return the codec that it names."""
    codec, left = "null", _MOST_METADATA
    while count := _number(file):
        if count < 0:
            _number(file)  # the bytes of the map's block
        for _ in range(abs(count)):
            key, value = (_take(file, _checked(_number(file), left)) for _ in range(2))
            left -= len(key) + len(value)
            if key == b"avro.codec":
                codec = value.decode(errors="replace")
    return codec


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
