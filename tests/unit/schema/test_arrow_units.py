"""Durations in the schema of Arrow, which files of Parquet keep in their footer."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.schema import arrow_units
from rowfall.schema.arrow_units import durations
from rowfall.schema.file_units import units_of
from rowfall.sources import open_source
from rowfall.stores.objects import ObjectSource

S, MS, US, NS = (pa.duration(unit) for unit in ("s", "ms", "us", "ns"))
SCHEMA = pa.schema([
    ("id", pa.int64()), ("s", S), ("ms", MS), ("us", US), pa.field("ns", NS, nullable=False),
    ("list", pa.list_(US)), ("map", pa.map_(pa.string(), MS)),
    ("struct", pa.struct([("a", pa.timestamp("ms")), ("b", pa.list_(NS)), ("c", S)])),
])  # fmt: skip
FOUND = {
    "id": [], "s": ["duration[s]"], "ms": ["duration[ms]"], "us": ["duration[us]"],
    "ns": ["duration[ns]"], "list": ["duration[us]"], "map": ["duration[ms]"],
    "struct": ["duration[ns]", "duration[s]"],
}  # fmt: skip


def units(path: Path, format_: str, compression: str = "none") -> object:
    source = open_source([str(path)], Options(format=format_))
    assert isinstance(source, ObjectSource)
    split = next(iter(source.listing().splits("")))
    return units_of(source, split, Encoding(format_, compression, Kind.TYPED))


def test_durations_at_any_depth() -> None:
    assert durations(SCHEMA.serialize().to_pybytes()) == FOUND


@pytest.mark.parametrize("form", ["parquet", "parquet.gz", "arrow", "arrows"])
def test_those_of_a_file(tmp_path: Path, form: str) -> None:
    path, table = tmp_path / f"a.{form}", SCHEMA.empty_table()
    if form.startswith("parquet"):  # the longest footer is beyond what is read first
        more = {f"c{n}": pa.array([], pa.int64()) for n in range(2000)}
        for name, column in more.items():
            table = table.append_column(name, column)
        parquet.write_table(table, path)
        assert path.stat().st_size > 1 << 16
    elif form == "arrow":
        with ipc.new_file(path, SCHEMA) as out:
            out.write_table(table)
    else:
        with ipc.new_stream(path, SCHEMA) as out:
            out.write_table(table)
    format_ = {"arrow": "Arrow", "arrows": "ArrowStream"}.get(form, "Parquet")
    packed = form.endswith(".gz")
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = units(path, format_, "gzip" if packed else "none")
    assert isinstance(found, dict)
    assert {name: found[name] for name in FOUND} == FOUND


def test_intervals_of_spark(tmp_path: Path) -> None:
    """It stores microseconds as INT64 and says so in a schema of its own."""
    fields = [
        {"name": "d", "type": "interval day to second"},
        {"name": "m", "type": "interval year to month"},
        {"name": "l", "type": {"type": "array", "elementType": "interval hour to minute"}},
    ]
    key = "org.apache.spark.sql.parquet.row.metadata"
    plain = pa.schema(
        [("d", pa.int64()), ("m", pa.int32()), ("l", pa.list_(pa.int64()))],
        metadata={key: json.dumps({"type": "struct", "fields": fields})},
    )
    parquet.write_table(plain.empty_table(), tmp_path / "a.parquet")
    expected = {"d": ["duration[us]"], "m": [], "l": ["duration[us]"]}
    assert units(tmp_path / "a.parquet", "Parquet") == expected


def test_files_that_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(SCHEMA.empty_table(), path, store_schema=False)
    assert units(path, "Parquet") == {}
    for data in (
        b"",
        b"PAR1",
        b"PAR1\xff\xff\xff\x7fPAR1",
        b"\x10\0\0\0PAR1",
        path.read_bytes()[:-9],
    ):
        path.write_bytes(data)
        if data:
            assert units(path, "Parquet") == {}


def test_a_schema_that_is_one_field_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that each hold the next one ten times are 10^20 fields in a kilobyte."""
    monkeypatch.setattr(arrow_units, "_MOST_FIELDS", 1000)
    data = bytearray()

    def put(form: str, *values: int) -> int:
        at = len(data)
        data.extend(struct.pack(f"<{form}", *values))
        return at

    def point(at: int, to: int) -> None:
        struct.pack_into("<I", data, at, to - at)

    put("I", 0)
    children = put("HH6H", 16, 8, 0, 0, 0, 0, 0, 4)  # one with children only
    schema = put("HH2H", 8, 8, 0, 4)
    message = put("HH3H", 10, 12, 0, 8, 4)
    root = put("iIB3x", 0, 0, 1)
    struct.pack_into("<i", data, root, root - message)
    struct.pack_into("<I", data, 0, root)
    table = put("iI", 0, 0)
    struct.pack_into("<i", data, table, table - schema)
    point(root + 4, table)
    place, count = table + 4, 1
    for _ in range(20):
        vector = put(f"I{count}I", count, *([0] * count))
        point(place, vector)
        field = put("iI", 0, 0)
        struct.pack_into("<i", data, field, field - children)
        for n in range(count):
            point(vector + 4 + 4 * n, field)
        place, count = field + 4, 10
    last = put("I", 0)
    point(place, last)
    with pytest.raises(ValueError, match="too many"):
        durations(struct.pack("<Ii", 0xFFFFFFFF, len(data)) + bytes(data))
