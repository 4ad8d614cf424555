"""Cutting text files: every cut is where a record starts, whatever is in the records."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.plan import cutting

CSV = Encoding("CSV", "none", Kind.TEXT)
TSV = Encoding("TSV", "none", Kind.TEXT)
JSON = Encoding("JSONEachRow", "none", Kind.JSON)

nasty = st.text(st.sampled_from(list('a1",\n\r\\\t}{: ')), max_size=12)


def cuts(data: bytes, encoding: Encoding, width: int = 3, head: bytes = b"") -> list[int]:
    split = Split("", "/data/a", "1-1", len(data))
    found = cutting.text_ranges(
        split, encoding, head, width, 16, lambda _, at, length: data[at : at + length]
    )
    if isinstance(found, str):
        return []
    assert found[0].start == len(head)
    assert found[-1].stop == len(data)
    assert all(one.stop == two.start for one, two in pairwise(found))
    assert sum(s.size or 0 for s in found) == len(data) - len(head)
    assert {s.part.size for s in found if s.part} == {len(data)}
    return [s.start or 0 for s in found[1:]]


def starts(records: list[bytes]) -> set[int]:
    at, found = 0, set()
    for record in records:
        found.add(at)
        at += len(record)
    return found


@given(st.lists(st.tuples(nasty, nasty, st.integers()), min_size=1, max_size=60))
def test_quoted_csv_is_cut_between_records_only(rows: list[tuple[str, str, int]]) -> None:
    records = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerow(row)
        records.append(out.getvalue().encode())
    assert set(cuts(b"".join(records), CSV)) <= starts(records)


@given(st.lists(st.tuples(nasty, nasty), min_size=1, max_size=60))
def test_tsv_is_cut_between_records_only(rows: list[tuple[str, str]]) -> None:
    table = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\\n", "\r": "\\r"})
    records = ["\t".join(x.translate(table) for x in row).encode() + b"\n" for row in rows]
    assert set(cuts(b"".join(records), TSV)) <= starts(records)


@given(st.lists(st.dictionaries(nasty.filter(bool), st.one_of(nasty, st.lists(
    st.dictionaries(nasty, nasty, max_size=2), max_size=3)), min_size=1, max_size=3),
    min_size=1, max_size=60), st.sampled_from([None, 0]))  # fmt: skip
def test_json_is_cut_between_records_only(
    rows: list[dict[str, object]], indent: int | None
) -> None:
    records = [json.dumps(row, indent=indent).encode() + b"\n" for row in rows]
    assert set(cuts(b"".join(records), JSON)) <= starts(records)


@pytest.mark.parametrize(("line", "encoding"), [
    (b"1,2024-01-01,abc\n", CSV), (b'1,"x, y",abc\n', CSV), (b'"1","2",""\r\n', CSV),
    (b"1\t2\tabc\n", TSV), (b'{"id": 1, "name": "x"}\n', JSON),
])  # fmt: skip
def test_plain_files_are_cut_everywhere(line: bytes, encoding: Encoding) -> None:
    data = line * 200
    found = cuts(data, encoding)
    assert len(found) >= len(data) // 32 - 2
    assert all(at % len(line) == 0 for at in found)


def test_the_header_is_in_no_range() -> None:
    head = b"id,at,name\n"
    assert cuts(head + b"1,2,abcdef\n" * 20, CSV, head=head)[0] >= len(head) + 11


def test_lines_without_quotes_have_to_have_the_fields_of_a_record() -> None:
    assert cuts(b"one line\nof a poem, it seems\n" * 20, CSV) == []
    value = b'1,"' + b"no row\n" * 40 + b'",2\n'
    assert set(cuts(value * 3, CSV)) <= {0, len(value), 2 * len(value)}
