"""Cutting big plain files for the decoder."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind
from rowfall.deliver.ranges import FIRST_READ, LEAST, Ranges, cut_files, length

CSV = Encoding("CSV", "none", Kind.TEXT)
NAMED = Encoding("CSVWithNames", "none", Kind.TEXT)
TSV = Encoding("TSV", "none", Kind.TEXT)
JSON = Encoding("JSONEachRow", "none", Kind.JSON)
# As strict_column guards a column in which no line break was seen.
GUARDED = Column("b", "String", expression="throwIf(1, 'line break in b')")
COLUMNS = (Column("a", "UInt8"), GUARDED)


class Files(dict[str, bytes]):
    def read(self, split: Split, offset: int, length: int) -> bytes:
        return self[split.uri][offset : offset + length]

    def splits(self) -> list[Split]:
        return [Split(path, path, "", len(data)) for path, data in self.items()]

    def cut(self, encoding: Encoding, writers: int = 2) -> Ranges | None:
        return cut_files(self.splits(), encoding, COLUMNS, writers, self.read, least=20)

    def text(self, found: Ranges, path: str) -> list[bytes]:
        return [self[path][s.start : s.stop] for s in found.splits if s.uri == path]


LINES = st.lists(st.sampled_from([b"1,x\n", b"22,yy\r\n", b'3,"q\nq"\n', b"\n", b"4,z\\\n"]),
                 min_size=30, max_size=60)  # fmt: skip


@given(LINES, st.sampled_from([CSV, TSV, JSON]), st.integers(2, 4))
def test_the_ranges_are_the_file(lines: list[bytes], encoding: Encoding, writers: int) -> None:
    files = Files({"/f": b"".join(lines) + b"9,last"})
    found = files.cut(encoding, writers)
    if found is None:
        return
    parts = files.text(found, "/f")
    assert b"".join(parts) == files["/f"]
    assert [length(s) for s in found.splits] == [len(part) for part in parts]
    assert all(part.endswith(b"\n") for part in parts[:-1])
    if encoding is TSV:
        assert not any(part.endswith(b"\\\n") for part in parts[:-1])
    assert found.encoding == encoding
    assert found.names == ()


def test_headers_are_left_out_and_named() -> None:
    head = b"b,a,more\n"
    files = Files({"/f": head + b"x,1,\n" * 50, "/g": head + b"y,2,\n"})
    found = files.cut(NAMED)
    assert found is not None
    assert found.names == ("b", "a", "more")
    assert found.encoding == Encoding("CSV", "none", Kind.TEXT)
    assert b"".join(files.text(found, "/f")) == b"x,1,\n" * 50
    assert files.text(found, "/g") == [b"y,2,\n"]


@pytest.mark.parametrize(
    ("encoding", "files"),
    [
        pytest.param(CSV, {"/f": b"1,x\n" * 5}, id="small"),
        pytest.param(Encoding("CSV", "gzip", Kind.TEXT), {"/f": b"1,x\n" * 50}, id="compressed"),
        pytest.param(NAMED, {"/f": b"a,b\n" * 50, "/g": b"b,a\n"}, id="other headers"),
        pytest.param(NAMED, {"/f": b'"a,b\n' * 50}, id="an open quote in the header"),
        pytest.param(NAMED, {"/f": b"\xef\xbb\xbfa,b\n" * 50}, id="byte order mark"),
        pytest.param(NAMED, {"/f": b"a,c\n" * 50}, id="a column is missing"),
        pytest.param(NAMED, {"/f": b"a,b,a\n" * 50}, id="a name twice"),
        pytest.param(NAMED, {"/f": b"a,b" * 50}, id="no line end"),
        pytest.param(CSV, {"/f": b"x" * 200}, id="a record without end"),
    ],
)
def test_what_stays_whole(encoding: Encoding, files: dict[str, bytes]) -> None:
    assert Files(files).cut(encoding) is None


def test_a_file_without_a_cut_is_not_asked_for_ranges() -> None:
    files = Files({"/f": b"1,x\n" * 50, "/g": b"2,y\n"})
    found = files.cut(CSV)
    assert found is not None
    assert [(s.start, s.stop) for s in found.splits if s.uri == "/g"] == [(None, None)]
    assert files.text(found, "/g") == [b"2,y\n"]


def test_servers_without_ranges() -> None:
    files = Files({"/f": b"a,b\n" * 50})
    for encoding in (CSV, NAMED):
        assert cut_files(files.splits(), encoding, COLUMNS, 2, lambda *_: b"", least=20) is None


def test_a_file_of_unknown_size_keeps_all_whole() -> None:
    files = Files({"/f": b"1,x\n" * 50, "/g": b"2,y\n"})
    first, second = files.splits()
    splits = [first, Split("g", "/g", "", None)]
    assert cut_files([first, second], CSV, COLUMNS, 2, files.read, least=20) is not None
    assert cut_files(splits, CSV, COLUMNS, 2, files.read, least=20) is None


def test_a_record_longer_than_the_first_look() -> None:
    row = b"1," + b"x" * (3 * FIRST_READ) + b"\n"
    files = Files({"/f": row * 4})
    found = cut_files(files.splits(), CSV, COLUMNS, 2, files.read, least=FIRST_READ)
    assert found is not None
    assert b"".join(files.text(found, "/f")) == files["/f"]
    assert {len(part) % len(row) for part in files.text(found, "/f")} == {0}


def test_strings_with_line_breaks_keep_a_file_whole() -> None:
    files = Files({"/f": b"1,x\n" * 50})
    columns = (COLUMNS[0], Column("b", "String"))
    assert cut_files(files.splits(), CSV, columns, 2, files.read, least=20) is None
    assert cut_files(files.splits(), TSV, columns, 2, files.read, least=20) is not None


def test_few_bytes_are_not_worth_it() -> None:
    size = 2 * LEAST - 1
    split = Split("f", "/f", "", size)
    assert cut_files([split], CSV, COLUMNS, 2, lambda *_: b"\n") is None


def test_an_array_of_objects_stays_whole() -> None:
    rows = b'{"a":1},\n' * 90
    assert Files({"/f": b" \n[" + rows, "/g": rows}).cut(JSON) is None
    assert Files({"/f": rows, "/g": b"[]"}).cut(JSON) is not None
