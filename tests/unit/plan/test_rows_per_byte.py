"""The rows of a stored byte, from pieces of a few files: the forecast of a plan comes from it."""

from __future__ import annotations

import gzip
import random
import zlib
from dataclasses import replace

import pytest

from rowfall.core.listing import Split
from rowfall.core.model import Dialect, Encoding, Kind
from rowfall.plan import survey

ROWS = 60_000
CSV = Encoding("CSVWithNames", "none", Kind.TEXT)


def text(rows: int = ROWS) -> bytes:
    chance = random.Random(3)
    lines = [
        f'{n},"{chance.choice(["plain", "two" + chr(10) + "lines", "a, b"])}",{chance.random()}'
        for n in range(rows)
    ]
    return ("id,words,value\n" + "\n".join(lines) + "\n").encode()


class Files(dict[str, bytes]):
    """A source whose objects are in memory."""

    def part(self, split: Split, start: int, length: int) -> bytes:
        return self[split.uri][start : start + length]

    def expected(self, encoding: Encoding) -> float:
        """The rows of all files, as the forecast would say."""
        splits = [Split("id", name, "", len(content)) for name, content in self.items()]
        found = survey.rows_per_byte(self, splits, encoding)
        assert found is not None
        return found * sum(map(len, self.values()))


@pytest.mark.parametrize("piece", [1 << 15, 1 << 20, 1 << 24])
def test_rows_of_plain_and_packed_files(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "PIECE", piece)
    raw = text()
    packed = Encoding("CSVWithNames", "gzip", Kind.TEXT)
    # Of several members only the length of the last stands at the end.
    half = len(raw) // 2
    members = gzip.compress(raw[:half]) + gzip.compress(raw[half:])
    for files, encoding in (
        (Files(a=raw), CSV),
        (Files(a=raw, b=raw), CSV),
        (Files(a=gzip.compress(raw)), packed),
        (Files(a=members), packed),
    ):
        assert files.expected(encoding) == pytest.approx(ROWS * len(files), rel=0.1)


def test_a_small_file_is_counted() -> None:
    assert Files(a=b"id\n1\n2\n3").expected(CSV) == 3


def test_what_tells_nothing() -> None:
    splits = [Split("id", "a", "", 10)]
    lz4 = Encoding("CSV", "lz4", Kind.TEXT)
    assert survey.rows_per_byte(Files(a=b"0123456789"), splits, lz4) is None
    broken = Encoding("CSV", "gzip", Kind.TEXT)
    assert survey.rows_per_byte(Files(a=b"0123456789"), splits, broken) is None
    cut = Files(a=zlib.compress(text(10))[:-9])
    assert survey.rows_per_byte(cut, splits, broken) is None


@pytest.mark.parametrize("charset", ["utf-8", "utf-16le"])
def test_what_is_no_row_of_foreign_text_is_not_counted(charset: str) -> None:
    dialect = Dialect(charset=charset, delimiter=";", quote="'", comment="#", skip_lines=2)
    encoding = replace(CSV, dialect=dialect)
    raw = "Report\n\n# by hand\nid;name\r\n1;'a\nb'\r\n# half\n\n2;it is 5\"\n"
    assert Files(a=raw.encode(charset)).expected(encoding) == 2
