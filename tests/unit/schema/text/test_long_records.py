"""Where a record is too long, found without holding it."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Iterator

import pytest

from rowfall.core.long_records import PIECE, RecordPlace
from rowfall.core.model import Encoding, Kind
from rowfall.schema.text.long_records import in_pieces, unpacked

CSV = Encoding("CSV", "none", Kind.TEXT)
JSON = Encoding("JSONEachRow", "none", Kind.JSON)


def cut(text: bytes, size: int) -> Iterator[bytes]:
    return (text[at : at + size] for at in range(0, len(text), size))


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_the_first_record_that_is_too_long(size: int) -> None:
    text = b"a,b\n1,2\n" + b"x" * 5000 + b"\n1,2\n"
    assert in_pieces(cut(text, size), CSV, 3000) == RecordPlace(3, 8)
    assert in_pieces(cut(text, size), CSV, 6000) is None
    assert in_pieces(cut(b"1,2\n" * 5000, size), CSV, 3000) is None


@pytest.mark.parametrize("size", [7, 64, 1000])
def test_quotes_hold_line_breaks_in_csv_alone(size: int) -> None:
    text = b'a,b\n1,"' + b"x\n" * 3000
    assert in_pieces(cut(text, size), CSV, 3000) == RecordPlace(2, 4)
    assert in_pieces(cut(text, size), JSON, 3000) is None
    closed = b'1,"x\ny"\n' * 2000
    assert in_pieces(cut(closed, size), CSV, 3000) is None


def test_objects_of_an_array_are_records() -> None:
    """Told by the first byte, behind a byte order mark and blanks; an object may be too long."""
    text = b"\xef\xbb\xbf [" + b'{"a":1},' * 1000 + b'{"a":2}]'
    assert in_pieces(cut(text, 100), JSON, 3000) is None
    assert in_pieces(cut(text[4:], 100), CSV, 3000) == RecordPlace(1, 0)
    assert in_pieces(cut(b'{"b":' + text[4:], 100), JSON, 3000) == RecordPlace(1, 0)
    late = text[:-1] + b',{"a":"' + b"x" * 4000
    assert in_pieces(cut(late, 100), JSON, 3000) == RecordPlace(1, late.rindex(b"{") - 1)


@pytest.mark.parametrize(
    ("packed", "pack"),
    [("gzip", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)],
)
def test_packed_bytes_come_in_small_pieces(packed: str, pack: object) -> None:
    """45 bytes of bz2 may hold 900 KB, and a megabyte of it 20 GB."""
    text = b"x" * (50 * PIECE) + b"end"
    stored = pack(text[:-3]) + pack(text[-3:])  # type: ignore[operator]
    found = list(unpacked(cut(stored, 1 << 16), packed))
    assert max(map(len, found)) <= PIECE
    assert b"".join(found) == text
