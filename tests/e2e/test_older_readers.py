"""Files with types that the reader of an older server cannot read, or nobody can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def avro(path: Path, start: int) -> None:
    schema: dict[str, Any] = {"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "long"}, {"name": "s", "type": "string"},
    ]}  # fmt: skip
    with path.open("wb") as out:
        rows = [{"id": i, "s": f"name {i * 7919 % 1000}"} for i in range(start, start + 1000)]
        fastavro.writer(out, schema, rows, codec="deflate")


def parquet(path: Path, start: int) -> None:
    rows = {"id": list(range(start, start + 1000)), "s": [f"n{i * 7919}" for i in range(1000)]}
    pq.write_table(pa.table(rows), path)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 3
    data[middle : middle + 200] = bytes(byte ^ 0x5A for byte in data[middle : middle + 200])
    path.write_bytes(data)


@pytest.mark.parametrize("format_", ["avro", pytest.param("parquet", marks=pytest.mark.long)])
def test_a_damaged_file_is_named_and_the_others_are_loaded(
    shell: Shell, lake: Lake, format_: str
) -> None:
    make = {"avro": avro, "parquet": parquet}[format_]
    for number in range(4):
        make(shell.write(f"{number}.{format_}", ""), number * 1000)
    damage(shell.folder / f"2.{format_}")
    for failed in (
        shell.ends(1, "load", f"*.{format_}", "--table", "t"),
        lake.ends(1, "load", f"*.{format_}", "--table", "t"),
    ):
        assert f"2.{format_}" in failed.talk
    expected = [3000, sum(i for i in range(4000) if i // 1000 != 2)]
    assert shell.row("SELECT count(), sum(id) FROM t") == expected
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == expected
    # Fetched again, it is loaded by the same command.
    make(shell.folder / f"2.{format_}", 2000)
    assert lake.load(f"*.{format_}", "--table", "t")["rows"] == 1000


@pytest.mark.parametrize("what", ["half", "split stream"])
def test_newer_kinds_of_parquet(lake: Lake, what: str) -> None:
    """24.10 knows neither; the reader here does."""
    path = lake.shell.folder / "a.parquet"
    if what == "half":
        pq.write_table(pa.table({"v": pa.array(np.array([1.5, -2.25, 65504], np.float16))}), path)
    else:
        options = {"use_dictionary": False, "column_encoding": {"v": "BYTE_STREAM_SPLIT"}}
        pq.write_table(pa.table({"v": pa.array([1, -2, 65504], pa.int32())}), path, **options)
    done = lake.ok("load", "a.parquet", "--table", "t")
    assert lake.row("SELECT sum(v), count() FROM {db}.t") == [
        65503.25 if what == "half" else 65503,
        3,
    ]
    assert "the engine here reads it instead" in " ".join(done.talk.split())


def test_uuids_of_parquet(lake: Lake) -> None:
    """24.10 reads them as sixteen bytes."""
    texts = ["00000000-0000-0000-0000-000000000001", "fedcba98-7654-3210-fedc-ba9876543210"]
    raw = [bytes.fromhex(text.replace("-", "")) for text in texts]
    table = pa.table({"u": pa.array(raw, pa.binary(16)).cast(pa.uuid())})
    pq.write_table(table, lake.shell.folder / "a.parquet")
    lake.ok("load", "a.parquet", "--table", "t")
    assert lake.rows("SELECT toString(u) FROM {db}.t ORDER BY toString(u)") == [[t] for t in texts]
