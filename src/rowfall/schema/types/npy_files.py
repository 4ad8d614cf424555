"""Arrays of NumPy, whose reader in the engine converts numbers without a check.

It keeps as many bits as the column has, takes no types but those of arrays, and keeps one byte of
each character of a text (``U``). So the column is read as what the array holds, and each file's
header is compared with that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.patterns import regex
from rowfall.schema.avro_blocks import BROKEN, HasPieces, begins
from rowfall.schema.text.long_records import unpacked
from rowfall.schema.types.footers import supertype
from rowfall.sources.compression import compression_of

FORMAT = "Npy"
_MAGIC = b"\x93NUMPY"
_KIND = regex(r"""['"]descr['"]\s*:\s*['"]([<>|=]?)([a-zA-Z])(\d*)['"]""")
_SHAPE = regex(r"""['"]shape['"]\s*:\s*\(([^)]*)\)""")
_MOST = 1 << 16
"""Bytes of a header that are looked at; NumPy reads as many as 10,000."""
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """Hold type and shape of an array, as its header has them.

    Attributes:
        kind: one letter, as NumPy has it. ``size``: bytes of an element; characters of ``U``.
        lengths: of its dimensions.
        begin: where the elements begin.
        big: the first byte of a number is its largest.
    """

    kind: str
    size: int
    lengths: tuple[int, ...]
    begin: int
    big: bool

    @property
    def type(self) -> str:
        """Return the type that the elements are read as without a loss; "" for none."""
        if self.kind == "i" or (self.kind == "u" and self.size < 8):
            return "Int64"
        return {"b": "UInt8", "u": "UInt64", "f": "Float64", "S": "String", "U": "String"}.get(
            self.kind, ""
        )

    @property
    def whole(self) -> str:
        """Return the type of a row."""
        more = len(self.lengths) - 1
        return f"{'Array(' * more}{self.type}{')' * more}" if self.type else ""

    def __str__(self) -> str:
        name = {"i": "int", "u": "uint", "f": "float", "b": "bool"}.get(self.kind)
        shown = f"{name}{8 * self.size if self.kind != 'b' else ''}" if name else self.kind
        return f"{shown} of {len(self.lengths)} dimensions" if len(self.lengths) > 1 else shown


def header(source: object, split: Split, encoding: Encoding) -> ArrayHeader | None:
    """Return the header of an array; None of one that cannot be read."""
    if not isinstance(source, HasPieces):
        return None
    for pieces in begins(source, split, encoding):
        with suppress(*BROKEN, struct.error):
            begin = b""
            for piece in pieces:
                begin += piece
                if (found := _parsed(begin)) is not None or len(begin) > _MOST:
                    return found
    return None


def _parsed(data: bytes) -> ArrayHeader | None:
    """Return the header that bytes begin with; None where they hold not all of it."""
    if len(data) < 12 or not data.startswith(_MAGIC):
        return None
    form, start = ("<H", 10) if data[6] == 1 else ("<I", 12)
    end = start + int(struct.unpack_from(form, data, 8)[0])
    text = data[start:end].decode("utf-8", errors="replace")
    kind, shape = _KIND.search(text), _SHAPE.search(text)
    if len(data) < end or kind is None or shape is None:
        return None
    lengths = tuple(int(n) for n in shape[1].split(",") if n.strip())
    return ArrayHeader(kind[2], int(kind[3] or 1), lengths, end, kind[1] == ">")


def misfit(source: object, split: Split, encoding: Encoding, read: str) -> str:
    """Return a clause on a file that the engine would not read as it is; "" for none.

    A hint may stand in a second line.

    Args:
        read: the type that its column is read as.
    """
    own = header(source, split, encoding)
    if own is None or not isinstance(source, HasPieces):
        return ""  # a broken file: the INSERT says so
    leaf = read.rpartition("(")[2].rstrip(")")
    if own.type and supertype(_exact(own), leaf) != leaf:
        return f"the array is {own}, which is not read as {read}"
    if own.kind == "U" and (row := _row_beyond_ascii(source, split, encoding, own)) is not None:
        return (
            f"the array is U, and row {row:,} of it has a character of which the engine's reader "
            "keeps one byte\n"
            "Save its bytes instead: numpy.save(file, numpy.char.encode(array, 'utf-8'))."
        )
    return ""


def _exact(own: ArrayHeader) -> str:
    """Return the type that holds an element, and no more."""
    names = {"i": "Int", "u": "UInt", "f": "Float"}
    if own.kind not in names:
        return own.type
    return f"{names[own.kind]}{max(8 * own.size, 32 if own.kind == 'f' else 8)}"


def _row_beyond_ascii(
    source: HasPieces, split: Split, encoding: Encoding, own: ArrayHeader
) -> int | None:
    """Return the number of the first row with a text that is not ASCII; None for none."""
    each = 4 * own.size
    for count in own.lengths[1:]:
        each *= count
    at = 0
    with suppress(*BROKEN):
        for piece in _pieces(unpacked(source.pieces(split), compression_of(split.uri, encoding)),
                             own.begin):  # fmt: skip
            columns = [piece[n::4] for n in range(4)]
            low = columns.pop(3 if own.big else 0)
            if not low.isascii() or any(map(any, columns)):
                places = range(len(low))
                first = next(p for p in places if low[p] > 127 or any(c[p] for c in columns))
                return (at + 4 * first) // max(each, 1) + 1
            at += len(piece)
    return None


def _pieces(data: Iterable[bytes], begin: int) -> Iterator[bytes]:
    """Give what stands behind a header in pieces of whole characters."""
    left = b""
    for piece in data:
        left += piece
        if begin:
            cut = min(begin, len(left))
            left, begin = left[cut:], begin - cut
        whole = len(left) - len(left) % 4
        if whole >= _PIECE:
            yield left[:whole]
            left = left[whole:]
    yield left[: len(left) - len(left) % 4]
