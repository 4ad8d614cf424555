"""Cut what an engine writes into messages, in bulk: numpy finds where each begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = tuple[NDArray[np.uint8], NDArray[Any], NDArray[Any]] | None
    Batch = tuple[NDArray[np.uint8], NDArray[Any], NDArray[Any], Keys]
    """Data, starts and sizes of values; data, starts and sizes of keys, -1 for none."""

# Bytes that are cut at a time: they stay in the cache, and numpy's calls cost nothing.
_PIECE = 1 << 20
_LINE_END, _QUOTE = 10, 34


def lines(pieces: Iterator[bytes], *, quoted: bool) -> Iterator[Batch]:
    """Give the lines of text without their ends.

    Args:
        quoted: a line end between double quotes is part of a value, as in CSV.
    """
    import numpy as np

    held: list[bytes] = []
    size, wanted = 0, _PIECE
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size < wanted:
            continue
        data = np.frombuffer(b"".join(held), np.uint8)
        ends = _ends(data, quoted=quoted)
        # Of one long row the next search begins at twice its length, so that it is not looked at
        # again with every piece.
        rest = bytes(data[ends[-1] + 1 :]) if len(ends) else bytes(data)
        held, size = [rest], len(rest)
        wanted = max(_PIECE, 2 * size)
        if len(ends):
            yield _batch(data, ends)
    data = np.frombuffer(b"".join(held), np.uint8)
    ends = _ends(data, quoted=quoted)
    if len(ends):
        yield _batch(data, ends)


def _ends(data: NDArray[np.uint8], *, quoted: bool) -> NDArray[Any]:
    import numpy as np

    ends = np.flatnonzero(data == _LINE_END)
    if quoted and len(ends):
        quotes = np.flatnonzero(data == _QUOTE)
        if len(quotes):
            # An odd number of quotes before it: it is inside of a value.
            ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends


def _batch(data: NDArray[np.uint8], ends: NDArray[Any]) -> Batch:
    import numpy as np

    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    return data, starts, ends - starts, None


def keyed(pieces: Iterator[bytes]) -> Iterator[Batch]:
    """Give the values and keys of Native blocks of four columns.

    Size of the key (Int32, -1 for NULL), key, size of the value (UInt32), value: the sizes come
    before the texts, so that no text has to be walked through.
    """
    import numpy as np

    reader = _MessageReader(pieces)
    while reader.more():
        _, rows = reader.number(), reader.number()
        found: list[tuple[NDArray[np.uint8], NDArray[Any], NDArray[Any]]] = []
        for _ in range(2):
            reader.header()
            sizes = np.frombuffer(reader.take(4 * rows), np.int32).astype(np.int64)
            reader.header()
            lengths = np.maximum(sizes, 0)
            prefixes = 1 + sum((lengths >= 1 << bits).astype(np.int64) for bits in (7, 14, 21, 28))
            ends = np.cumsum(lengths + prefixes)
            data = np.frombuffer(reader.take(int(ends[-1]) if rows else 0), np.uint8)
            found.append((data, ends - lengths, sizes))
        keys, (data, starts, sizes) = found
        yield data, starts, sizes, keys


class _MessageReader:
    """Takes bytes off pieces of any length."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held, self._at = pieces, b"", 0

    def more(self) -> bool:
        while self._at >= len(self._held):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._held, self._at = piece, 0
        return True

    def take(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            if not self.more():
                raise EOFError("a block ends in its middle")
            part = self._held[self._at : self._at + size]
            self._at += len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def number(self) -> int:
        """Return an unsigned LEB128."""
        found, shift = 0, 0
        while True:
            (byte,) = self.take(1)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def header(self) -> None:
        """Pass over name and type of a column."""
        for _ in range(2):
            self.take(self.number())
