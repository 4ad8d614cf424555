"""Finds zstd and lz4 streams that were cut off, which the engine takes for short ones.

gzip, xz and the bz2 of :mod:`rowfall.sources.pipes` raise when they are cut; the engine's zstd and
lz4 readers end silently (chDB 26.9: 391,401 of 1,000,000 rows and no error). Frames are walked from
header to header, so the payload is neither read nor unpacked: 1 GB of zstd in 128 KiB blocks is
some 10,000 to 40,000 reads of 3 bytes.

What cannot be seen: a file cut exactly between two frames, and bytes that were changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Read = Callable[[int, int], bytes]
"""(offset, length) -> bytes; fewer only where the object ends."""

LEAST_PADDING = 16  # more zeros than whole gzip ends with
REMOTE_MOST = 64 << 20
"""Bytes. Larger zstd objects behind a network are not walked: block headers are at most 128 KiB
apart, so walking means fetching the object once more. Uploads to S3 are atomic: cut objects come
from copying a cut file."""

_WINDOW = 1 << 20  # 32 objects are checked side by side: 32 MiB of windows
_MAGIC = {"zstd": 0xFD2FB528, "lz4": 0x184D2204}
_SKIPPABLE = 0x184D2A50  # and the 15 numbers after it, in both formats
_ID_BYTES = (0, 1, 2, 4)  # of a zstd dictionary number, by two bits of the frame header
_RLE = 1  # zstd's block of one repeated byte


def check(read: Read, size: int, compression: str) -> str | None:
    """Return the damage of a packed object, as a predicate; None if it is whole or not judged.

    Trailing bytes that are no frame are not judged: the engine raises for them.
    """
    walk = {"zstd": _zstd, "lz4": _lz4}.get(compression)
    if walk is None:
        return None
    at = 0
    try:
        while at < size:
            magic = _number(read, at, 4)
            if magic & ~0xF == _SKIPPABLE:
                at += 8 + _number(read, at + 4, 4)
            elif magic == _MAGIC[compression]:
                at = walk(read, at + 4)
            else:
                return None
    except EOFError:
        at = size + 1
    return None if at == size else f"its {compression} stream ends in the middle"


def check_file(path: str, size: int, compression: str) -> str | None:
    """Check a local file, see :func:`check`.

    Raises:
        OSError: it cannot be read.
    """
    if compression not in _MAGIC:
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return check(lambda at, length: os.pread(descriptor, length, at), size, compression)
    finally:
        os.close(descriptor)


def is_padded(read: Read, size: int | None, compression: str) -> bool:
    """Tell whether zeros follow the last member of a gzip file, as tapes and disks leave them.

    gzip takes them for no data, the engine for a broken member. A whole member can end with nine:
    of an empty one length and checksum are zero, and the byte before them.
    """
    if compression != "gzip" or size is None or size <= LEAST_PADDING:
        return False
    return ends_padded(read(size - LEAST_PADDING, LEAST_PADDING))


def ends_padded(data: bytes) -> bool:
    """Tell whether the end of gzip is padding."""
    return data.endswith(bytes(LEAST_PADDING))


def check_remote(read: Read, size: int | None, compression: str) -> str | None:
    """Check an object with few requests: two small ones for lz4, zstd up to :data:`REMOTE_MOST`.

    An lz4 object whose end does not look like one is walked whatever its size before it is
    refused: it may end with a skippable frame.
    """
    if size is None or compression not in _MAGIC:
        return None
    if compression == "lz4":
        if _lz4_ends(read, size):
            return None
    elif size > REMOTE_MOST:
        return None
    return check(_ahead(read, size), size, compression)


def _number(read: Read, at: int, length: int) -> int:
    return int.from_bytes(_bytes(read, at, length), "little")


def _bytes(read: Read, at: int, length: int) -> bytes:
    data = read(at, length)
    if len(data) < length:
        raise EOFError
    return data


def _zstd(read: Read, at: int) -> int:
    """Return where the frame whose magic ends at ``at`` ends; may lie behind the object's end."""
    flags = _number(read, at, 1)
    single = flags >> 5 & 1
    content = (single, 2, 4, 8)[flags >> 6]  # bytes that hold the length of the content
    at += 1 + (1 - single) + _ID_BYTES[flags & 3] + content
    last = 0
    while not last:
        header = _number(read, at, 3)
        last = header & 1
        at += 3 + (1 if header >> 1 & 3 == _RLE else header >> 3)
    return at + 4 * (flags >> 2 & 1)  # the checksum of the content


def _lz4(read: Read, at: int) -> int:
    """Return where a frame ends: blocks until the one of length 0, then perhaps a checksum."""
    flags = _number(read, at, 1)
    at += 3 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)
    while length := _number(read, at, 4):
        at += 4 + (length & 0x7FFFFFFF) + 4 * (flags >> 4 & 1)
    return at + 4 + 4 * (flags >> 2 & 1)


def _lz4_ends(read: Read, size: int) -> bool:
    """Check that head and tail fit each other: the end mark is where the flags put it."""
    head, tail = read(0, 5), read(max(0, size - 8), min(8, size))
    if len(head) < 5 or len(tail) < 8 or int.from_bytes(head[:4], "little") != _MAGIC["lz4"]:
        return False
    mark = tail[:4] if head[4] >> 2 & 1 else tail[4:]
    return not any(mark)


def _ahead(read: Read, size: int) -> Read:
    """Return ``read`` through a window that moves forward, so that near headers share a request."""
    start, window = 0, b""

    def through(at: int, length: int) -> bytes:
        nonlocal start, window
        if not start <= at or at + length > start + len(window):
            wanted = min(max(length, _WINDOW), size - at)
            start, window = at, read(at, wanted) if wanted > 0 else b""
        return window[at - start : at - start + length]

    return through
