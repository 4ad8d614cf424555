"""NULL lists, maps and structs of every format with types: stored in one way, and said."""

from __future__ import annotations

import signal
import subprocess
import sys
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


EMPTY = ("--null-lists", "empty")


def check(rows: list[Any], done: Done) -> None:
    """Compare ``l, m, deep, s.x, s.y``; what was asked for is not said."""
    assert rows == [
        [[1], {"k": 1}, [[1], []], 1, "a"], [[], {}, [], None, None], [[], {}, [[]], None, "b"],
    ]  # fmt: skip
    assert "is stored as an empty one" not in " ".join(done.talk.split())


QUERY = "SELECT l, m, deep, tupleElement(s, 'x'), tupleElement(s, 'y') FROM {} ORDER BY id"


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("more", [(), pytest.param(("--decoder", "never"), marks=pytest.mark.long)])
def test_into_a_folder(shell: Shell, format_: str, more: tuple[str, ...]) -> None:
    write(shell.folder / f"a.{format_}", format_)
    done = shell.ok("load", f"a.{format_}", "--table", "t", *EMPTY, *more)
    check(shell.rows(QUERY.format("t")), done)
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
    done = lake.ok("load", f"a.{format_}", "--table", "t", *EMPTY, *more)
    check(lake.rows(QUERY.format("{db}.t")), done)
    assert NO_STRUCT in " ".join(done.talk.split())


def test_a_struct_whose_fields_take_no_null(shell: Shell) -> None:
    """Nothing would tell it from a struct of zeros."""
    for format_ in ("parquet", "orc", "avro"):
        write(shell.folder / f"a.{format_}", format_)
        refused = shell.ends(
            1, "load", f"a.{format_}", "--table", format_, "--type", "s Tuple(x Int64, y String)",
            *EMPTY,
        )  # fmt: skip
        assert "NULL" in refused.talk


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("more", [(), pytest.param(("--decoder", "never"), marks=pytest.mark.long)])
def test_a_null_list_is_refused(shell: Shell, format_: str, more: tuple[str, ...]) -> None:
    """Nothing of such a file is loaded, and all of others. The hints load the rows."""
    write(shell.folder / f"a.{format_}", format_)
    ways = ("--table", "t", *more)
    for skipped in ("", "l", "m", "deep"):
        only = [w for name in ("l", "m", "deep") if name != skipped for w in ("--skip", name)]
        refused = shell.ends(1, "load", f"a.{format_}", "--table", f"t{skipped}", *more,
                             *(only if skipped else ()))  # fmt: skip
        assert f"a.{format_} was refused: " in refused.talk
        assert "NULL" in refused.talk
        assert "--null-lists empty" in refused.talk
        if format_ != "avro":
            assert f"in {skipped or 'deep, l, m'} is NULL" in refused.talk
    shell.ok("load", f"a.{format_}", *ways, "--null-lists", "empty")
    assert shell.row("SELECT count() FROM t") == [3]
    assert "known" in shell.ends(2, "load", f"a.{format_}", *ways, "--null-lists", "x").talk


def test_lists_that_are_not_null(shell: Shell) -> None:
    """Empty ones, NULLs inside of lists, and lists in a struct that is NULL are none."""
    inner = pa.struct([("l", pa.list_(pa.int64())), ("x", pa.int8())])
    fine = pa.table({
        "l": pa.array([[], [None], [1]], pa.list_(pa.int64())),
        "s": pa.array([None, {"l": [], "x": 1}, {"l": [2], "x": None}], inner),
    })  # fmt: skip
    wrong = fine.set_column(1, "s", pa.array([{"l": None, "x": 1}] * 3, inner))
    for format_ in ("parquet", "orc", "arrow"):
        for name, content in (("fine", fine), ("wrong", wrong)):
            path = shell.folder / f"{name}.{format_}"
            if format_ == "parquet":
                pyarrow.parquet.write_table(content, path, row_group_size=1)
            elif format_ == "orc":
                pyarrow.orc.write_table(content, path)
            else:
                pyarrow.feather.write_feather(content, path, compression="lz4")
        shell.ok("load", f"fine.{format_}", "--table", format_)
        both = shell.ends(1, "load", f"*.{format_}", "--table", f"{format_}2")
        assert f"wrong.{format_} was refused: a list or a map in s is NULL" in both.talk
        assert shell.row(f"SELECT count() FROM {format_}2") == [3]


def test_null_lists_of_lakes(shell: Shell) -> None:
    from deltalake import write_deltalake

    from lab.lake_tables import iceberg

    lists = pa.table({"id": pa.array([1, 2], pa.int32()),
                      "l": pa.array([[1], None], pa.list_(pa.int64()))})  # fmt: skip
    write_deltalake(shell.folder / "d", lists)
    iceberg(str(shell.folder / "i"), lists)
    for source in (f"delta+{shell.folder}/d", f"iceberg+{shell.folder}/i"):
        refused = shell.ends(1, "load", source, "--table", source[:5])
        assert "was refused: a list or a map in l is NULL" in refused.talk
        shell.ok("load", source, "--table", source[:5], "--null-lists", "empty")
        assert shell.row(f"SELECT count(), sum(length(l)) FROM {source[:5]}") == [2, 1]


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


def test_a_footer_that_contradicts_itself_ends_no_process(shell: Shell) -> None:
    """pyarrow's C++ exception ended the command itself (SIGABRT), without a word of the file."""
    path = shell.folder / "a.parquet"
    table = pa.table({"id": range(3), "l": pa.array([[1], [], [2]], pa.list_(pa.int64()))})
    pa.parquet.write_table(table, path)
    data = path.read_bytes()
    # The list is optional; as a required one it has fewer levels than its column counts.
    named = b"\x35%b\x18\x01l"
    assert data.count(named % b"\x02") == 1
    path.write_bytes(data.replace(named % b"\x02", named % b"\x00"))
    script = "import pyarrow.parquet as p; p.read_metadata('a.parquet').row_group(0).column(1)"
    done = subprocess.run([sys.executable, "-c", script], cwd=shell.folder, capture_output=True)
    assert done.returncode == -signal.SIGABRT  # else pyarrow has learnt it
    words = [sys.executable, "-m", "rowfall", "load", "a.parquet", "--table", "t"]
    done = subprocess.run(words, cwd=shell.folder, capture_output=True)
    assert done.returncode in (0, 1, 4), done.stderr.decode()
