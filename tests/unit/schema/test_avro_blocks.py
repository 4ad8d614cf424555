"""Blocks of Avro files that are too large, found before an engine reads them."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import fastavro
import pytest

from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.schema import avro_blocks
from rowfall.schema.avro_blocks import endless, too_large
from rowfall.sources import open_source
from rowfall.stores.objects import ObjectSource

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}
SMALL, LARGE = 1 << 20, 4 << 20
AVRO = Encoding("Avro", "none", Kind.TYPED)


def said(path: Path) -> str | None:
    source = open_source([str(path)], Options())
    assert isinstance(source, ObjectSource)
    split = source.listing().split(0, "")
    found = too_large(source, [split, split], 1 << 30, 2 << 20)
    assert found in ([], [(split, one) for _, one in found])
    return found[0][1].message if found else None


def written(codec: str, sizes: list[int]) -> bytes:
    data = io.BytesIO()
    rows = [{"a": "y" * size} for size in sizes]
    fastavro.writer(data, SCHEMA, rows, codec=codec, sync_interval=SMALL // 2)
    return data.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_the_first_large_block_is_named(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(written(codec, [SMALL, SMALL, SMALL]))
    assert said(path) is None
    whole = written(codec, [SMALL, LARGE, SMALL])
    path = tmp_path / "b.avro"
    path.write_bytes(whole)
    sync = whole[-16:]
    # Behind the header and behind each block stands the same mark.
    begins = whole.index(sync, whole.index(sync) + 16) + 16
    size = "4.00 MiB or more" if codec == "null" else "more than 2.00 MiB"
    found = said(path)
    assert found is not None
    assert f"b.avro: a block of {size} begins at byte {begins:,}, which takes" in found


def test_snappy_says_what_it_unpacks_to(tmp_path: Path) -> None:
    whole = written("null", [10])
    sync = whole[-16:]
    head = whole[: whole.index(sync) + 16].replace(b"\x08null", b"\x0csnappy")
    path = tmp_path / "a.avro"
    for length, large in ((b"\x80\x80\x40", False), (b"\x80\x80\x80\x02", True)):
        block = length + b"x" * 20
        path.write_bytes(head + b"\x02" + bytes([2 * len(block)]) + block + sync)
        assert (said(path) is not None) == large


@pytest.mark.parametrize("cut", [0, 3, 30, 90, -20])
def test_what_cannot_be_read_is_left_to_the_load(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(written("deflate", [SMALL])[:cut] or b"x")
    assert said(path) is None


# Each kind of type in front of the elements that take no bytes, so that each is passed by.
BEFORE = [
    ("boolean", True), ("int", -300), ("long", 1 << 40), ("float", 1.5), ("double", 2.5),
    ("bytes", b"ab"), ("string", "x" * 200), ("null", None),
    ({"type": "enum", "name": "e", "symbols": ["u", "v"]}, "v"),
    ({"type": "fixed", "name": "f", "size": 3}, b"abc"), ("f", b"abc"),
    ({"type": "array", "items": "f"}, [b"abc"] * 2),
    ({"type": "map", "values": {"type": "array", "items": "long"}}, {"k": [1, 2], "l": []}),
    (["null", "string"], None), (["null", "string"], "y"),
    ({"type": "record", "name": "s", "fields": [{"name": "t", "type": "int"}]}, {"t": 1}),
    ({"type": "long", "logicalType": "timestamp-micros"}, 5),
]  # fmt: skip
EMPTY = {"type": "record", "name": "none", "fields": [{"name": "n", "type": "null"}]}


def counted(path: Path) -> str | None:
    source = open_source([str(path)], Options())
    assert isinstance(source, ObjectSource)
    error = endless(source, [source.listing().split(0, "")], AVRO)
    return None if error is None else error.message


@pytest.mark.parametrize("codec", ["null", "deflate", "xz"])
@pytest.mark.parametrize(
    ("items", "rows"),
    [
        ("null", [[None] * 2, [], [None] * 2]),
        (EMPTY, [[{"n": None}] * 2, [], [{"n": None}] * 2]),
        ({"type": "array", "items": "null"}, [[[None], [None]], [], [[None] * 2]]),
    ],
)
def test_elements_without_bytes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, items: object, rows: list[object]
) -> None:
    types = [*BEFORE, ({"type": "array", "items": items}, None)]
    fields = [{"name": f"c{n}", "type": type_} for n, (type_, _) in enumerate(types)]
    values = {f"c{n}": value for n, (_, value) in enumerate(BEFORE)}
    last = f"c{len(BEFORE)}"
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        schema = {"type": "record", "name": "r", "fields": fields}
        records = [{**values, last: row} for row in rows]
        fastavro.writer(file, fastavro.parse_schema(schema), records, codec=codec)
    monkeypatch.setattr(avro_blocks, "_MOST_EMPTY", 4)
    assert counted(path) is None
    monkeypatch.setattr(avro_blocks, "_MOST_EMPTY", 3)
    found = counted(path)
    assert found is not None
    assert "an array of more than 3 elements that take no bytes" in found


def test_no_file_is_looked_through_whose_elements_take_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(written("null", [10])[:-30] + b"no block at all")
    assert counted(path) is None


TEXT_AND_NULLS = {
    "type": "record", "name": "r",
    "fields": [
        {"name": "s", "type": "string"},
        {"name": "n", "type": {"type": "array", "items": "null"}},
    ],
}  # fmt: skip


def test_a_length_below_zero_does_not_lead_back(tmp_path: Path) -> None:
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(TEXT_AND_NULLS), [])
    head = file.getvalue()
    # 2^34 rows in a block of two bytes: a text of -2 bytes leads to the end, which is an array
    # without elements, and behind that to the text again.
    path = tmp_path / "a.avro"
    path.write_bytes(head + b"\x80\x80\x80\x80\x80\x01" + b"\x04" + b"\x03\x00" + head[-16:])
    assert counted(path) is None


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_no_more_of_a_block_than_its_bound_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(avro_blocks, "_MOST_BLOCK", SMALL)
    lengths = []

    class Passed(avro_blocks._Values):
        def pass_by(self, block: bytes, count: int) -> bool:
            lengths.append(len(block))
            return super().pass_by(block, count)

    monkeypatch.setattr(avro_blocks, "_Values", Passed)
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        rows = [{"s": "x" * LARGE, "n": [None]}]
        fastavro.writer(file, fastavro.parse_schema(TEXT_AND_NULLS), rows, codec=codec)
    assert counted(path) is None
    assert lengths == [SMALL]


def test_the_time_for_it_ends_within_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.avro"
    rows = [{"s": "x", "n": []}] * 50 + [{"s": "x", "n": [None] * 4}]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(TEXT_AND_NULLS), rows)
    monkeypatch.setattr(avro_blocks, "_MOST_EMPTY", 3)
    assert counted(path) is not None
    seconds = itertools.count()
    monkeypatch.setattr(avro_blocks.time, "monotonic", lambda: next(seconds))
    assert counted(path) is None
