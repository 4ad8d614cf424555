"""NULL lists, maps and structs of every format with types: stored in one way, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

import rowfall
from e2e.lake import Lake
from e2e.tools import Done, Shell
from lab.clickhouse import ClickHouse

FORMATS = ("parquet", "orc", "arrow", "avro")
LISTS: list[Any] = [[1], None, []]
MAPS: list[Any] = [{"k": 1}, None, {}]
STRUCTS: list[Any] = [{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}]
DEEP: list[Any] = [[[1], None], None, [[]]]
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
EMPTY_LIST = "a list or map in l, m, deep that is NULL is stored as an empty one"
NO_STRUCT = "a struct in s that is NULL is stored as a tuple of NULLs"


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def table() -> pa.Table:
    return pa.table({
        "id": [1, 2, 3],
        "l": pa.array(LISTS, pa.list_(pa.int64())),
        "m": pa.array([None if m is None else list(m.items()) for m in MAPS],
                      pa.map_(pa.string(), pa.int64())),
        "deep": pa.array(DEEP, pa.list_(pa.list_(pa.int64()))),
        "s": pa.array(STRUCTS, STRUCT),
    })  # fmt: skip


def write(path: Path, format_: str) -> None:
    """Write the rows; pyarrow and fastavro are not the readers of rowfall."""
    if format_ == "parquet":
        pyarrow.parquet.write_table(table(), path)
    elif format_ == "orc":
        pyarrow.orc.write_table(table(), path)
    elif format_ == "arrow":
        pyarrow.feather.write_feather(table(), path, compression="uncompressed")
    else:
        struct = {"type": "record", "name": "s", "fields": [
            {"name": "x", "type": ["null", "long"]}, {"name": "y", "type": ["null", "string"]},
        ]}  # fmt: skip
        longs = {"type": "array", "items": "long"}
        types = {
            "l": longs, "m": {"type": "map", "values": "long"},
            "deep": {"type": "array", "items": ["null", longs]}, "s": struct,
        }  # fmt: skip
        fields: list[Any] = [{"name": "id", "type": "long"}]
        fields += [{"name": name, "type": ["null", type_]} for name, type_ in types.items()]
        rows = [
            dict(zip(("id", *types), row, strict=True))
            for row in zip((1, 2, 3), LISTS, MAPS, DEEP, STRUCTS, strict=True)
        ]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, rows)


def options(format_: str) -> tuple[str, ...]:
    """Return what loads the rows: Avro tells a NULL list, and it is refused otherwise."""
    return ("--null-lists", "empty") if format_ == "avro" else ()


def check(rows: list[Any], done: Done, format_: str) -> None:
    """Compare ``l, m, deep, s.x, s.y``, and what was said before the first row."""
    assert rows == [
        [[1], {"k": 1}, [[1], []], 1, "a"], [[], {}, [], None, None], [[], {}, [[]], None, "b"],
    ]  # fmt: skip
    said = " ".join(done.talk.split())
    assert (EMPTY_LIST in said) is (format_ != "avro")
    assert format_ == "avro" or said.index(EMPTY_LIST) < said.index("done in")


QUERY = "SELECT l, m, deep, tupleElement(s, 'x'), tupleElement(s, 'y') FROM {} ORDER BY id"


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("more", [(), pytest.param(("--decoder", "never"), marks=pytest.mark.long)])
def test_into_a_folder(shell: Shell, format_: str, more: tuple[str, ...]) -> None:
    write(shell.folder / f"a.{format_}", format_)
    done = shell.ok("load", f"a.{format_}", "--table", "t", *options(format_), *more)
    check(shell.rows(QUERY.format("t")), done, format_)
    # Where the reader keeps a NULL struct, so does the table.
    null = shell.row("SELECT isNull(s) FROM t WHERE id = 2")
    said = " ".join(done.talk.split())
    assert null == [0 if NO_STRUCT in said else 1]
    assert (NO_STRUCT in said) is (format_ == "parquet")


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("more", [(), pytest.param(("--decoder", "never"), marks=pytest.mark.long)])
def test_into_an_older_server(lake: Lake, format_: str, more: tuple[str, ...]) -> None:
    """24.10 has no Nullable(Tuple), and reads no union of null and array strictly."""
    write(lake.shell.folder / f"a.{format_}", format_)
    done = lake.ok("load", f"a.{format_}", "--table", "t", *options(format_), *more)
    check(lake.rows(QUERY.format("{db}.t")), done, format_)
    assert NO_STRUCT in " ".join(done.talk.split())


def test_a_struct_whose_fields_take_no_null(shell: Shell) -> None:
    """Nothing would tell it from a struct of zeros."""
    for format_ in ("parquet", "orc", "avro"):
        write(shell.folder / f"a.{format_}", format_)
        refused = shell.ends(
            1, "load", f"a.{format_}", "--table", format_, "--type", "s Tuple(x Int64, y String)",
            *options(format_),
        )  # fmt: skip
        assert "NULL" in refused.talk


def test_what_is_told_is_refused(shell: Shell) -> None:
    """The hints are options that load the rows."""
    write(shell.folder / "a.avro", "avro")
    refused = shell.ends(1, "load", "a.avro", "--table", "t")
    assert "a.avro was refused: a NULL in a column that takes none (list " in refused.talk
    assert "--null-lists empty" in refused.talk
    shell.ok("load", "a.avro", "--table", "t", "--null-lists", "empty")
    assert shell.row("SELECT count() FROM t") == [3]
    assert "known" in shell.ends(2, "load", "a.avro", "--table", "t", "--null-lists", "x").talk


def test_frames(shell: Shell) -> None:
    to = shell.folder / "d"
    with pytest.raises(rowfall.SourceError, match="'l' holds a NULL") as caught:
        rowfall.load(table(), to=to, table="t")
    assert "null_lists='empty'" in (caught.value.hint or "")
    rowfall.load(table(), to=to, table="t", null_lists="empty")
    found = [list(row) for row in rowfall.query("SELECT l, m, deep FROM t ORDER BY id", to=to)]
    assert found == [[[1], [("k", 1)], [[1], []]], [[], [], []], [[], [], [[]]]]
    assert [list(r) for r in rowfall.query("SELECT isNull(s) FROM t ORDER BY id", to=to)] == [
        [0], [1], [0],
    ]  # fmt: skip


def test_footers_that_count_no_null_are_believed(shell: Shell) -> None:
    pyarrow.parquet.write_table(pa.table({"id": [1], "l": [[1, 2]]}), shell.folder / "a.parquet")
    assert "is stored as" not in shell.ok("load", "a.parquet", "--table", "t").talk
