"""Files with types that the reader of an older server cannot read, or nobody can."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.http import Web
from rowfall import api


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


def test_a_day_at_which_the_reader_of_a_server_raises(lake: Lake, web: Web) -> None:
    """Before any check of ours can leave its row out: 24.10 has no year 1."""
    days = [dt.date(2024, 2, 29), dt.date(1, 1, 1)]
    path = lake.shell.folder / "a.arrow"
    pa.feather.write_feather(pa.table({"n": [1, 2], "v": days}), path, compression="uncompressed")
    load = ("load", web.put("older/a.arrow", path.read_bytes()), "--table", "t", "--type", "v Date")
    left_out = ("--max-errors", "1")
    for more in ((), left_out):
        told = lake.ends(4, *load, "--pull", *more).talk  # it is read for a sample
        assert "With --push the engine here reads the file" in " ".join(told.split())
    pa.feather.write_feather(pa.table({"n": [0], "v": days[:1]}), path, compression="uncompressed")
    both = (web.put("older/0.arrow", path.read_bytes()), *load[1:])
    known = ("--type", "n Int64", "--order-by", "n")  # nothing is to be sampled
    told = lake.ends(1, "load", *both, *known, "--pull", *left_out).talk
    assert "With --push the engine here reads the file" in " ".join(told.split())
    assert 'row 2 column "v": "0001-01-01"' in " ".join(lake.ends(1, *load, "--push").talk.split())
    lake.ok(*load, "--push", *left_out)
    assert lake.row("SELECT count(), min(v) FROM {db}.t") == [2, "2024-02-29"]


def test_blanks_around_decimals_are_taken_away_by_functions_that_it_knows(
    lake: Lake, web: Web
) -> None:
    """trimBoth has one argument there, which was asked about only where a column was a float."""
    url = web.put("older/blanks.csv", b"id,m\n1, 1.50\n2,2.25 \n3,\t4.00\n4, x\n")
    more = ("--type", "m Decimal(9, 2)", "--decoder", "never", "--pull")
    lake.ok("load", url, "--table", "t", *more, "--max-errors", "1")
    assert lake.rows("SELECT id, toString(m) FROM {db}.t ORDER BY id") == [
        [1, "1.5"], [2, "2.25"], [3, "4"],
    ]  # fmt: skip
    assert "line 5" in lake.ends(1, "load", url, "--table", "u", *more).talk


def test_statements_of_many_columns_fit_a_request(lake: Lake) -> None:
    """As a file is pushed, each column is written with its check; of 128 KiB it was refused."""
    columns = 230
    names = ",".join(f"c{n}" for n in range(columns))
    row = ",".join("1.50" for _ in range(columns))
    lake.shell.write("wide.csv", f"{names}\n{row}\n{row}\n")
    given = [part for n in range(columns) for part in ("--type", f"c{n} Decimal(9, 2)")]
    lake.ok("load", "wide.csv", "--table", "t", "--push", "--decoder", "never", *given)
    assert lake.rows("SELECT count(), toString(sum(c7)) FROM {db}.t") == [[2, "3"]]


def test_structs_of_a_file_with_bad_rows_are_sent_to_an_older_server(lake: Lake) -> None:
    """The engine here reads structs that may be NULL, of which 24.10 has no type."""
    table = pa.table({"n": [1, 2], "s": [{"x": "a"}, {"x": "b"}], "v": ["1", "x"]})
    pa.feather.write_feather(table, lake.shell.folder / "a.arrow", compression="uncompressed")
    types = ("--type", "v Int32", "--type", "s Tuple(x Nullable(String))")
    lake.ok("load", "a.arrow", "--table", "t", *types, "--max-errors", "1")
    assert lake.rows("SELECT n, s.x, v FROM {db}.t") == [[1, "a", 1]]


@pytest.mark.parametrize("what", ["half", "split stream"])
def test_newer_kinds_of_parquet(lake: Lake, what: str) -> None:
    """24.10 knows neither; rowfall-decode does."""
    path = lake.shell.folder / "a.parquet"
    if what == "half":
        pq.write_table(pa.table({"v": pa.array(np.array([1.5, -2.25, 65504], np.float16))}), path)
    else:
        options = {"use_dictionary": False, "column_encoding": {"v": "BYTE_STREAM_SPLIT"}}
        pq.write_table(pa.table({"v": pa.array([1, -2, 65504], pa.int32())}), path, **options)
    lake.ok("load", "a.parquet", "--table", "t")
    assert lake.row("SELECT sum(v), count() FROM {db}.t") == [
        65503.25 if what == "half" else 65503,
        3,
    ]


def test_uuids_of_parquet(lake: Lake) -> None:
    """24.10 reads them as sixteen bytes."""
    texts = ["00000000-0000-0000-0000-000000000001", "fedcba98-7654-3210-fedc-ba9876543210"]
    raw = [bytes.fromhex(text.replace("-", "")) for text in texts]
    table = pa.table({"u": pa.array(raw, pa.binary(16)).cast(pa.uuid())})
    pq.write_table(table, lake.shell.folder / "a.parquet")
    lake.ok("load", "a.parquet", "--table", "t")
    assert lake.rows("SELECT toString(u) FROM {db}.t ORDER BY toString(u)") == [[t] for t in texts]


ARROW: dict[str, tuple[pa.Array, list[Any], list[Any]]] = {
    "half": (pa.array([1.5, -2.25, None], pa.float16()), [1.5, -2.25, None], []),
    "halves": (
        pa.array([[1.5], [-2.25, None], []], pa.list_(pa.float16())),
        [[1.5], [-2.25, None], []], [],
    ),
    "view": (pa.array(["a", "b", None], pa.string_view()), ["a", "b", None], []),
    "short decimal": (
        pa.array([Decimal("1.25"), Decimal("-999.99"), None], pa.decimal32(5, 2)),
        [1.25, -999.99, None], [],
    ),
    "time": (
        pa.array([1, 86_399_999_999, None], pa.time64("us")),
        ["00:00:00.000001", "23:59:59.999999", None], ["Nullable(Time64(6))", "Nullable(String)"],
    ),
    "dictionary": (
        pa.array([5, 7, None], pa.dictionary(pa.int8(), pa.int64())), [5, 7, None],
        ["Nullable(Int64)", "Nullable(Int64)"],
    ),
}  # fmt: skip
"""Values, what is stored, and the types of the column here and on the server."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ARROW)
def test_newer_kinds_of_arrow(lake: Lake, kind: str) -> None:
    """24.10 stored other numbers for half floats, and ended loads with the others."""
    values, stored, types = ARROW[kind]
    table = pa.table({"id": [1, 2, 3], "v": values})
    pa.feather.write_feather(table, lake.shell.folder / "a.arrow", compression="uncompressed")
    lake.shell.ok("load", "a.arrow", "--table", "t")
    lake.ok("load", "a.arrow", "--table", "t")
    places = (lake.shell.rows, "t"), (lake.rows, "{db}.t")
    for n, (rows, name) in enumerate(places):
        assert [row[0] for row in rows(f"SELECT v FROM {name} ORDER BY id")] == stored
        if types:
            assert rows(f"SELECT DISTINCT toTypeName(v) FROM {name}") == [[types[n]]]


@pytest.mark.long
def test_times_of_day_in_parquet(lake: Lake, web: Web) -> None:
    """They became moments of 1970, and those of Arrow times of day; frames were refused."""
    values, stored, types = ARROW["time"]
    lists = pa.array([[v] for v in values.to_pylist()], pa.list_(values.type))
    table = pa.table({"id": [1, 2, 3], "v": values, "l": lists})
    pq.write_table(table, lake.shell.folder / "a.parquet")
    shell = lake.shell
    shell.ok("load", "a.parquet", "--table", "t")
    shell.ok("load", "a.parquet", "--table", "n", "--decoder", "never")
    api.load(table, to=str(shell.folder / "rowfall-data"), table="f")
    lake.ok("load", "a.parquet", "--table", "t")
    data = (shell.folder / "a.parquet").read_bytes()
    lake.ok("load", web.put("older/times.parquet", data), "--table", "w")
    piped = ("load", "-", "--table", "p")
    shell.ok(*piped, stdin=data.decode(errors="surrogateescape"))
    lake.ok(*piped, stdin=data.decode(errors="surrogateescape"))
    asked = "SELECT v, arrayMap(x -> toString(x), l), toTypeName(v) FROM {} ORDER BY id"
    wanted = [[v, [v], types[0]] for v in stored]
    for name in ("t", "n", "f", "p"):
        assert shell.rows(asked.format(name)) == wanted, name
    for name in ("t", "w", "p"):
        texts = [[*row[:2], types[1]] for row in wanted]
        assert lake.rows(asked.format(f"{{db}}.{name}")) == texts, name


def test_a_server_that_reads_other_numbers_does_not_pull(lake: Lake, web: Web) -> None:
    """Half floats of Arrow; of Parquet 24.10 took them, and split streams, for damage."""
    folder = lake.shell.folder
    table = pa.table({"v": pa.array([1.5, -2.25], pa.float16())})
    pa.feather.write_feather(table, folder / "a.arrow", compression="uncompressed")
    pq.write_table(table, folder / "half.parquet")
    options = {"use_dictionary": False, "column_encoding": {"v": "BYTE_STREAM_SPLIT"}}
    whole = pa.table({"v": pa.array([1, -2], pa.int32())})
    pq.write_table(whole, folder / "split.parquet", **options)
    for name, code, said, sum_ in (
        ("a.arrow", 5, "the server cannot pull: v of", -0.75),
        ("half.parquet", 4, "With --push the engine here reads the file", -0.75),
        ("split.parquet", 4, "With --push the engine here reads the file", -1),
    ):
        load = ("load", web.put(name, (folder / name).read_bytes()), "--table", name.split(".")[0])
        assert said in lake.ends(code, *load, "--pull").talk
        lake.ok(*load)
        assert lake.row(f"SELECT sum(v) FROM {{db}}.{load[-1]}") == [sum_]


def encrypted(path: Path, *, footer: bool) -> None:
    """Write the columns a and b; b, and the footer or not, with keys that nobody gives."""
    import pyarrow.parquet.encryption as keys

    class Store(keys.KmsClient):  # type: ignore[misc]
        def __init__(self, _config: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _master: str) -> str:
            return key.hex()

    config = keys.EncryptionConfiguration(
        "f", column_keys={"c": ["b"]}, plaintext_footer=not footer
    )
    factory = keys.CryptoFactory(Store)
    given = factory.file_encryption_properties(keys.KmsConnectionConfig(), config)
    table = pa.table({"a": [1], "b": [2]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=given) as writer:
        writer.write_table(table)


def test_what_no_reader_knows_is_named_with_a_hint_that_works(shell: Shell) -> None:
    folder = shell.folder
    times = pa.array([dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31)], pa.timestamp("us"))
    pq.write_table(
        pa.table({"id": [1, 2], "t": times}), folder / "old.parquet",
        use_deprecated_int96_timestamps=True,
    )  # fmt: skip
    told = " ".join(shell.ends(4, "load", "old.parquet").talk.split())
    assert "old.parquet has a time in t" in told
    assert "--skip t" in told
    shell.ok("load", "old.parquet", "--skip", "t")
    assert shell.row("SELECT count(), sum(id) FROM old") == [2, 3]
    encrypted(folder / "column.parquet", footer=False)
    assert "--skip b" in shell.ends(4, "load", "column.parquet").talk
    shell.ok("load", "column.parquet", "--skip", "b")
    assert shell.row("SELECT * FROM `column`") == [1]
    encrypted(folder / "whole.parquet", footer=True)
    assert "whose footer is encrypted" in shell.ends(4, "load", "whole.parquet").talk
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array([7]))
    pa.feather.write_feather(pa.table({"r": runs}), folder / "runs.arrow", "uncompressed")
    told = shell.ends(4, "load", "runs.arrow").talk
    assert "runs.arrow cannot be read" in told
    assert "have the column written as another one" in told
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, folder / "twice.parquet")
    assert "two columns of the name a" in shell.ends(4, "load", "twice.parquet").talk
    pq.write_table(pa.table({"_block_number": [7]}), folder / "block.parquet")
    rename = "_block_number=block_number"
    assert f"--rename {rename}" in shell.ends(2, "load", "block.parquet").talk
    shell.ok("load", "block.parquet", "--rename", rename)
    assert shell.row("SELECT block_number FROM block") == [7]


def test_uuids_in_orc_are_text(shell: Shell) -> None:
    """The engine writes none, at no depth."""
    uuid = "00112233-4455-6677-8899-aabbccddeeff"
    shell.write("a.csv", f"id,u\n1,{uuid}\n2,{uuid}\n")
    shell.ok("load", "a.csv", "--to", "a.orc")
    assert pyarrow.orc.read_table(shell.folder / "a.orc")["u"].to_pylist() == [uuid, uuid]


def test_a_null_that_a_server_meets_while_the_file_is_sampled(lake: Lake, web: Web) -> None:
    """ "Make the column Nullable with --type", and nobody knew which."""
    table = pa.table({"id": [1, 2], "n": pa.array([1, None], pa.int64())})
    pyarrow.orc.write_table(table, lake.shell.folder / "n.orc")
    url = web.put("n.orc", (lake.shell.folder / "n.orc").read_bytes())
    given = ("load", url, "--table", "t", "--schema", "id Int64, n Int64")
    refused = lake.ends(4, *given, "--pull")
    assert "holds a NULL where the table takes none" in refused.talk
    assert "With --push the engine here reads the file: it names rows" in refused.talk
    named = lake.ends(1, *given, "--push")
    assert 'n.orc row 2 column "n" is NULL' in named.talk
    assert "--widen --type 'n Nullable(Int64)'" in named.talk
    lake.ok("load", url, "--table", "t", "--widen", "--type", "n Nullable(Int64)", "--push")
    assert lake.row("SELECT count(), count(n) FROM {db}.t") == [2, 1]
