"""Packs a statement as the rows behind it are packed. Pure.

A server unpacks a body as a whole, and joins what was packed in pieces: a long statement, which no
parameter takes, stands in front of packed rows as a piece of its own.
"""

from __future__ import annotations

import gzip
import lzma

# Bytes of one piece that is not compressed, which both formats have: LZ4 takes 64 KiB with this
# header, Zstandard 128 KiB. A statement is a few hundred kilobytes, once for each load.
_PIECE = 1 << 16


def packed(text: bytes, compression: str) -> bytes | None:
    """Return text as a file of its own of a compression; None where files cannot be joined."""
    if compression == "gzip":
        return gzip.compress(text, 1)
    if compression == "xz":
        return lzma.compress(text, preset=0)
    if compression == "zstd":
        return _zstd(text)
    return _lz4(text) if compression == "lz4" else None


def _zstd(text: bytes) -> bytes:
    """Return a frame of RFC 8878 whose blocks are raw."""
    # One segment, its size in four bytes, no checksum.
    head = b"\x28\xb5\x2f\xfd" + b"\xa0" + len(text).to_bytes(4, "little")
    blocks, starts = [], range(0, len(text), _PIECE)
    for start in starts:
        data = text[start : start + _PIECE]
        last = start == starts[-1]
        blocks.append((len(data) << 3 | last).to_bytes(3, "little") + data)
    return head + b"".join(blocks)


def _lz4(text: bytes) -> bytes:
    """Return a frame of LZ4 whose blocks are not compressed."""
    # Version 1, independent blocks of 64 KiB, no checksums; the last byte is that of the header.
    blocks = [b"\x04\x22\x4d\x18\x60\x40\x82"]
    for start in range(0, len(text), _PIECE):
        data = text[start : start + _PIECE]
        blocks += [(len(data) | 1 << 31).to_bytes(4, "little"), data]
    return b"".join([*blocks, bytes(4)])
