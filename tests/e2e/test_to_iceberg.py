"""Tables of Iceberg as targets: read back by the engine and by pyiceberg, refusals, commands."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pyiceberg.catalog
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from e2e.test_adopt import answers
from e2e.tools import Shell, csv, made
from lab.lake_tables import DictCatalog, engine_rows, iceberg
from lab.seaweed import Seaweed
from rowfall.systems.lakes.files import DiskFiles
from rowfall.systems.lakes.folder_catalogue import FolderCatalog


class Into:
    """A table, and the commands that load into it."""

    def __init__(self, shell: Shell, place: str, store: Seaweed | None = None) -> None:
        self.shell, self.place, self.store = shell, place, store
        self.to = f"iceberg+{place}"
        if store is not None:
            shell.env |= {**store.environment(), "AWS_ENDPOINT_URL": store.endpoint}

    def load(self, *args: str) -> dict[str, Any]:
        return self.shell.ends(0, "load", *args, "--to", self.to, "--json").document

    def table(self) -> Table:
        """The table as pyiceberg opens it, by its folder alone."""
        store = self.store
        io = {} if store is None else {
            "s3.endpoint": store.endpoint, "s3.access-key-id": store.access_key,
            "s3.secret-access-key": store.secret_key, "s3.region": store.region,
        }  # fmt: skip
        return StaticTable.from_metadata(self.place, io)

    def rows(self, columns: str) -> list[list[Any]]:
        return engine_rows(self.place, columns, self.store)


@pytest.fixture
def into(shell: Shell) -> Into:
    return Into(shell, f"{shell.folder}/lake/t")


@pytest.fixture(params=["local", "s3"])
def anywhere(request: pytest.FixtureRequest, shell: Shell) -> Into:
    if request.param == "local":
        return Into(shell, f"{shell.folder}/lake/t")
    bucket = request.getfixturevalue("bucket")
    return Into(shell, f"s3://{bucket}/lake/t", request.getfixturevalue("s3"))


@pytest.mark.sampled(1)
def test_files_are_loaded_once(anywhere: Into) -> None:
    into, shell = anywhere, anywhere.shell
    for number in range(3):
        rows = [(i, f"n{i}") for i in range(number * 1000, (number + 1) * 1000)]
        shell.write(f"in/{number}.csv", csv(rows, "id", "name"))
    plan = " ".join(shell.ends(0, "plan", "in/*.csv", "--to", into.to).out.split())
    assert "exactly once: one commit" in plan
    assert "nothing until the end of the load" in plan
    report = into.load("in/*.csv", "--attempt-bytes", "1KB")
    assert (report["rows"], report["splits_loaded"]) == (3000, 3)
    assert into.rows("count(), sum(id), uniqExact(name)") == [[3000, 4498500, 3000]]
    table = into.table()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(3000))
    assert len(table.metadata.snapshots) == 1
    assert len(list(table.scan().plan_files())) == 3
    assert into.load("in/*.csv")["rows"] == 0
    # Another machine knows nothing but what the table tells it, whatever became of snapshots.
    for ledger in shell.cli.home.rglob("*.ledger*"):
        ledger.unlink()
    shell.write("in/3.csv", csv([(9000, "n9000")], "id", "name"))
    again = into.load("in/*.csv")
    assert (again["rows"], again["splits_skipped"]) == (1, 3)
    shell.ends(0, "forget", again["load_id"], "--yes", "--to", into.to)
    assert into.load("in/*.csv")["rows"] == 1
    assert into.rows("count()") == [[3002]]
    assert into.load("in/3.csv", "--force")["rows"] == 1
    assert into.rows("count()") == [[3003]]
    replaced = into.load("in/0.csv", "--replace")
    assert replaced["rows"] == 1000
    assert into.rows("count(), sum(id)") == [[1000, 499500]]
    assert into.table().scan().count() == 1000
    assert into.load("in/0.csv")["rows"] == 0
    assert into.load("in/1.csv")["rows"] == 1000


def test_what_is_loaded_outlives_its_snapshot(into: Into) -> None:
    into.shell.write("a.csv", "id\n1\n2\n")
    into.shell.write("b.csv", "id\n3\n")
    into.load("a.csv")
    into.load("b.csv")
    table = FolderCatalog(into.place, DiskFiles()).table()
    assert table is not None
    first = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert len(into.table().metadata.snapshots) == 1
    for ledger in into.shell.cli.home.rglob("*.ledger*"):
        ledger.unlink()
    assert into.load("a.csv")["rows"] == 0
    assert into.rows("count()") == [[3]]


def test_a_table_that_is_made_anew_gets_everything_again(into: Into) -> None:
    into.shell.write("a.csv", "id\n1\n2\n")
    into.load("a.csv")
    (Path(into.place)).rename(into.shell.folder / "old")
    report = into.load("a.csv")
    assert report["rows"] == 2
    assert into.rows("count()") == [[2]]


TYPES = {
    "i8": ("toInt8(-5)", "int", -5),
    "u8": ("toUInt8(200)", "int", 200),
    "u16": ("toUInt16(65535)", "int", 65535),
    "i32": ("toInt32(-7)", "int", -7),
    "u32": ("toUInt32(4294967295)", "long", 4294967295),
    "i64": ("toInt64(-9)", "long", -9),
    "u64": ("toUInt64(18446744073709551615)", "decimal(20, 0)", Decimal(18446744073709551615)),
    "f32": ("toFloat32(1.5)", "float", 1.5),
    "f64": ("toFloat64(0.1)", "double", 0.1),
    "dec": ("toDecimal64('12.34', 2)", "decimal(18, 2)", Decimal("12.34")),
    "s": ("'naïve'", "string", "naïve"),
    "fs": ("toFixedString('abc', 3)", "fixed[3]", b"abc"),
    "u": ("toUUID('f79c3e09-677c-4bbd-a479-3f349cb785e7')", "uuid", None),
    "d": ("toDate32('1950-03-04')", "date", date(1950, 3, 4)),
    "dt": ("toDateTime('2024-01-02 03:04:05', 'UTC')", "timestamptz",
           datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "d3": ("toDateTime64('1925-01-02 03:04:05.678', 3, 'UTC')", "timestamptz",
           datetime(1925, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)),
    "b": ("true", "boolean", True),
    "n": ("CAST(NULL, 'Nullable(Int32)')", "int", None),
    "lc": ("CAST('x', 'LowCardinality(Nullable(String))')", "string", "x"),
    "arr": ("CAST([1, NULL], 'Array(Nullable(UInt8))')", "list<int>", [1, None]),
    "m": ("CAST(map('k', 2), 'Map(String, UInt32)')", "map<string, long>", [("k", 2)]),
    "t": ("CAST((1, 'y'), 'Tuple(a Int16, b Nullable(String))')", None, {"a": 1, "b": "y"}),
}  # fmt: skip


def test_types_of_a_new_table(into: Into) -> None:
    values = ", ".join(f"{sql} AS {name}" for name, (sql, *_) in TYPES.items())
    into.shell.write("a.native", made(f"SELECT {values} FROM numbers(2)", "Native"))
    into.load("a.native")
    table = into.table()
    found = {field.name: str(field.field_type) for field in table.schema().fields}
    for name, (_, type_, _) in TYPES.items():
        assert type_ is None or found[name] == type_, name
    row = table.scan().to_arrow().to_pylist()[0]
    for name, (_, _, value) in TYPES.items():
        if name != "u":
            assert row[name] == value, name
    assert str(row["u"]).replace("-", "") in (
        "f79c3e09677c4bbda4793f349cb785e7", str(bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7")),
    )  # fmt: skip
    back, _ = into.rows("toString(u), arr, m, t, toString(d), toString(d3), toString(u64)")
    assert back[0] == "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    assert back[4:] == ["1950-03-04", "1925-01-02 03:04:05.678000", 18446744073709551615]
    # Every column, those inside others too, is known by its id.
    import pyarrow.parquet as parquet

    (file,) = Path(into.place, "data").iterdir()
    assert "field_id=-1" not in str(parquet.read_metadata(file).schema).split("{", 1)[1].replace(
        "field_id=-1 list", ""
    ).replace("field_id=-1 key_value", "")
    assert into.shell.ends(0, "verify", "last", "--to", into.to).out.startswith("load ")


@pytest.mark.parametrize(
    ("value", "what", "hint"),
    [
        ("toInt128(1)", "column x: Int128", "--type 'x String'"),
        ("toDateTime64('2024-01-01', 9, 'UTC')", "column x: DateTime64(9", "--type 'x String'"),
        pytest.param("toDecimal256(1, 50)", "38 digits", "--type 'x String'",
                     marks=pytest.mark.long),
        pytest.param("(1, 2)", "need names", "--type 'x String'", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_types_that_iceberg_lacks(into: Into, value: str, what: str, hint: str) -> None:
    into.shell.write("a.native", made(f"SELECT {value} AS x", "Native"))
    done = into.shell.ends(2, "load", "a.native", "--to", into.to)
    assert what in done.talk
    assert hint in done.talk
    assert not Path(into.place, "metadata").exists()
    into.load("a.native", "--type", "x String")


PARTITIONS = (
    "year(d)", "month(d)", "day(d)", "d", "year(t)", "months(t)", "toDate(t)", "hour(t)",
    "bucket(5, id)", "bucket(5, s)", "bucket(5, d)", "bucket(5, t)", "bucket(5, dec)",
    "bucket(5, u)", "truncate(2, s)", "truncate(10, id)", "truncate(50, dec)", "s", "dec",
)  # fmt: skip
_PARTITIONED = (
    "SELECT toInt64(number) - 50 AS id, if(number % 10 = 0, NULL, concat(char(97 + number % 3), "
    "'é', toString(number))) AS s, toDate32('1969-06-01') + number * 7 AS d, "
    "toDateTime64('1969-12-31 20:00:00.5', 6, 'UTC') + number * 1000 AS t, "
    "toDecimal64(number - 20, 2) / 7 AS dec, CAST(reinterpret(sipHash128(number), 'UUID'), 'UUID') "
    "AS u FROM numbers(100)"
)


@pytest.mark.parametrize("by", [
    "day(t), bucket(5, s)", *(pytest.param(one, marks=pytest.mark.long) for one in PARTITIONS)
])  # fmt: skip
def test_partitions_and_order(into: Into, by: str) -> None:
    """Each row lies in the partition that pyiceberg computes for it, sorted."""
    import pyarrow.parquet as parquet
    from pyiceberg.partitioning import partition_record_value

    into.shell.write("a.native", made(_PARTITIONED, "Native"))
    into.load("a.native", "--partition-by", by, "--order-by", "s DESC, id")
    table = into.table()
    spec, schema = table.spec(), table.schema()
    total = 0
    for task in table.scan().plan_files():
        rows = parquet.read_table(task.file.file_path).to_pylist()
        total += len(rows)
        for number, field in enumerate(spec.fields):
            name = schema.find_column_name(field.source_id) or ""
            transform = field.transform.transform(schema.find_field(field.source_id).field_type)
            for row in rows:
                value = transform(partition_record_value(field, row[name], schema))
                assert task.file.partition[number] == value, (name, row[name])
        order = [(row["s"] is None, row["s"] or "") for row in rows]
        keys = [(not none, text) for none, text in order]
        assert keys == sorted(keys, reverse=True)
    assert total == 100
    assert table.sort_order().fields[0].source_id == 2
    assert into.rows("count(), sum(id), uniqExact(u)") == [[100, -50, 100]]
    again = into.shell.ends(2, "load", "a.native", "--to", into.to, "--order-by", "id", "--force")
    assert "another layout" in again.talk


def test_a_table_that_is_there_keeps_its_definition(into: Into) -> None:
    """Columns by other ids and names than those of their place, times on no clock."""
    schema = Schema(
        NestedField(7, "at", TimestampType(), required=False),
        NestedField(3, "id", LongType(), required=True),
        NestedField(5, "more", StringType(), required=False),
    )
    first = pa.table(
        {"at": [datetime(2020, 1, 1)], "id": [1], "more": ["x"]},
        schema=pa.schema([
            pa.field("at", pa.timestamp("us")), pa.field("id", pa.int64(), nullable=False),
            pa.field("more", pa.string()),
        ]),
    )  # fmt: skip
    table = iceberg(f"{into.place}", first, schema=schema)
    # As a table without a catalogue has it.
    folder = Path(into.place, "metadata")
    newest = max(folder.glob("*.metadata.json"))
    newest.rename(folder / "v1.metadata.json")
    for other in folder.glob("0*.metadata.json"):
        other.unlink()
    del table
    into.shell.write("a.csv", "id,at\n2,2021-02-03 04:05:06\n")
    asked = into.shell.ends(3, "load", "a.csv", "--to", into.to)
    assert "holds rows that nobody has on record" in asked.talk
    done = into.shell.ends(5, "load", "a.csv", "--to", into.to, "--force-append")
    assert "lacks more" in done.talk
    report = into.load("a.csv", "--on-missing-column", "default")
    assert report["rows"] == 1
    rows = sorted(into.table().scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert rows == [
        {"at": datetime(2020, 1, 1), "id": 1, "more": "x"},
        {"at": datetime(2021, 2, 3, 4, 5, 6), "id": 2, "more": None},
    ]
    into.shell.write("b.csv", "id,at,more\nx,2021-02-03 04:05:06,y\n")
    done = into.shell.ends(1, "load", "b.csv", "--to", into.to)
    assert "b.csv" in done.talk
    assert "line 2" in done.talk
    into.shell.write("c.csv", "at,id,more,strange\n2021-02-03 04:05:06,1,x,y\n")
    done = into.shell.run("load", "c.csv", "--to", into.to)
    assert done.code in (2, 4, 5)
    assert "strange" in done.talk
    assert into.rows("count()") == [[2]]


def test_a_table_of_a_catalogue_is_not_changed_beside_it(into: Into) -> None:
    iceberg(into.place, pa.table({"id": [1]}))
    into.shell.write("a.csv", "id\n2\n")
    done = into.shell.ends(5, "load", "a.csv", "--to", into.to)
    assert "one of a catalogue" in done.talk
    assert "iceberg://CATALOG/namespace.table" in done.talk


def test_a_table_of_a_catalogue(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made, appended to and replaced through its catalogue, with what others commit beside."""
    catalogue = DictCatalog("lab", warehouse=str(shell.folder / "wh"))
    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", lambda name, **more: catalogue)
    name = f"sales.{shell.folder.parent.name}"
    to = ("--to", f"iceberg://lab/{name}")
    shell.write("a.csv", csv([(i, i % 3) for i in range(100)], "id", "k"))
    shell.write("b.csv", csv([(i, i % 3) for i in range(100, 150)], "id", "k"))
    done = shell.ends(0, "load", "a.csv", *to, "--partition-by", "k", "--order-by", "id")
    assert "100 rows" in done.talk
    assert shell.ends(0, "load", "a.csv", *to, "--json").document["rows"] == 0
    table = catalogue.load_table(name)
    table.append(table.scan("id < 10").to_arrow())
    assert shell.ends(0, "load", "*.csv", *to, "--json").document["rows"] == 50
    table = catalogue.load_table(name)
    assert table.scan().count() == 160
    assert len(list(table.scan("k = 1").plan_files())) < len(list(table.scan().plan_files()))
    short = name.partition(".")[2]
    assert shell.row(f"SELECT count(), sum(id) FROM {short}", *to) == [160, 11175 + 45]
    assert shell.ends(0, "load", "b.csv", *to, "--replace", "--json").document["rows"] == 50
    assert catalogue.load_table(name).scan().count() == 50


def test_refusals(into: Into) -> None:
    shell = into.shell
    shell.write("a.csv", "id,t\n1,2024-01-01\n")
    for args, what in (
        (("--to", "iceberg+gs://bucket/t"), "local folders and s3://"),
        (("--to", "iceberg+s3://bucket"), "names no folder"),
        (("--to", "iceberg://lab"), "names no table"),
        (("--to", f"{into.to}/metadata/v1.metadata.json"), "one state of a table"),
        (("--to", into.to, "--engine", "Log"), "--engine is not for tables of Iceberg"),
        (("--to", into.to, "--on-conflict", "skip"), "have no keys"),
        (("--to", into.to, "--table", "x"), "--table x"),
        (("--to", into.to, "--atomic"), "--atomic"),
        (("--to", into.to, "--order-by", "abs(id)"), "one of columns"),
        (("--to", into.to, "--order-by", "ids"), "Did you mean id?"),
        (("--to", into.to, "--partition-by", "id % 3"), "no such transform"),
        (("--to", into.to, "--partition-by", "day(id)"), "does not take"),
    ):
        done = shell.ends(2, "load", "a.csv", *args)
        assert what in done.talk, (args, done.talk)
    assert not Path(into.place, "data").exists()


def test_commands_on_the_target(into: Into) -> None:
    shell = into.shell
    shell.write("a.csv", csv([(i, i / 2) for i in range(100)], "id", "x"))
    done = shell.ends(0, "load", "a.csv", "--to", into.to)
    assert "rowfall query 'SELECT * FROM t LIMIT 5'" in done.talk
    assert shell.row("SELECT count(*), sum(id) FROM t", "--to", into.to) == [100, 4950]
    shell.ends(0, "verify", "last", "--to", into.to)
    assert "1/1" in shell.ends(0, "status", "--to", into.to).out
    done = shell.ends(2, "query", "INSERT INTO t VALUES (1, 2)", "--write", "--to", into.to)
    assert "only read" in done.talk
    done = shell.ends(5, "query", "SELECT 1", "--to", f"{into.to}-other")
    assert "no table" in done.talk
    assert "nothing to clean" in shell.ends(0, "clean", "--to", into.to, "--yes").talk
    # A row that is gone from the table is missed.
    table = FolderCatalog(into.place, DiskFiles()).table()
    assert table is not None
    table.delete("id = 7")
    done = shell.run("verify", "last", "--to", into.to)
    assert done.code == 7
    assert "99" in done.out


def test_bad_rows_are_named_and_left_out(into: Into) -> None:
    into.shell.write("a.csv", "id,x\n1,2\nbad,3\n4,5\n")
    into.shell.write("b.csv", "id,x\n6,7\n")
    done = into.shell.ends(1, "load", "*.csv", "--to", into.to, "--type", "id Int64")
    assert "a.csv" in done.talk
    assert "line 3" in done.talk
    assert into.rows("id, x") == [[6, 7]]
    report = into.load("*.csv", "--type", "id Int64", "--max-errors", "1")
    assert report["rows"] == 2
    assert sorted(into.rows("id, x")) == [[1, 2], [4, 5], [6, 7]]


def test_texts_are_utf8(into: Into) -> None:
    """Columns of text whose bytes are none are refused with the place."""
    good, bad = ["fine", "ä"], b"\xff\xfe"
    texts = pa.array([good[0].encode(), bad]).view(pa.utf8())  # nobody looks at them here
    table = pa.table({"id": [1, 2], "s": texts, "l": [[text] for text in good]})
    parquet.write_table(table, into.shell.folder / "flat.parquet")
    inner = pa.table({"id": [1, 2], "s": good, "l": pa.ListArray.from_arrays([0, 2, 2], texts)})
    parquet.write_table(inner, into.shell.folder / "nested.parquet")
    for name, column, row in (("flat", "s", 2), ("nested", "l", 1)):
        done = into.shell.ends(1, "load", f"{name}.parquet", "--to", into.to)
        assert f"{name}.parquet row {row}" in done.talk
        assert f'"{column}"' in done.talk
        assert name != "flat" or "leave the column out with --skip s " in done.talk
    report = into.load("flat.parquet", "--max-errors", "1")
    assert (report["rows"], into.rows("id, s")) == (1, [[1, "fine"]])
    into.shell.ok("load", "flat.parquet", "--skip", "s", "--to", f"{into.to}_of_ids")


def test_columns_of_bytes_take_any(into: Into) -> None:
    (into.shell.folder / "rows.csv").write_bytes(b"id,s\n1,fine\n2,\xff\xfe\n")
    assert "is not UTF-8" in into.shell.run("load", "rows.csv", "--to", into.to).talk
    into.load("rows.csv", "--encoding", "binary")
    made = pa.table({"id": [3], "s": pa.array([b"\xfd"])})
    parquet.write_table(made, into.shell.folder / "more.parquet")
    into.load("more.parquet")
    assert sorted(into.rows("id, hex(s)")) == [[1, "66696E65"], [2, "FFFE"], [3, "FD"]]


@pytest.mark.parametrize("answer", ["adopt", "load", "put back"])
def test_a_record_that_is_gone_is_a_question(into: Into, answer: str) -> None:
    """It was an error with "put it back" and no other way out."""
    shell = into.shell
    shell.write("a.csv", "id\n1\n")
    into.load("a.csv")
    (record,) = Path(into.place, "_rowfall").glob("*.ids")
    kept = record.read_bytes()
    record.unlink()
    words = ("a.csv", "--to", into.to)
    assert "It would fail" in shell.ok("plan", *words).out
    for _ in range(2):
        done = shell.ends(3, "load", *words)
    assert f"is gone: {record}" in " ".join(done.talk.split())
    assert into.rows("count()") == [[1]]
    if answer == "put back":
        record.write_bytes(kept)
    else:
        shell.ok(*answers(done.err)[answer])
    count = 2 if answer == "load" else 1
    assert into.rows("count()") == [[count]]
    assert "nothing to load" in shell.ok("load", *words).talk
    assert into.rows("count()") == [[count]]


def test_what_is_left_of_a_record_still_counts(into: Into) -> None:
    """The newest file is there, and the one before it is gone."""
    shell = into.shell
    for name in "ab":
        shell.write(f"{name}.csv", f"id\n{ord(name)}\n")
        into.load(f"{name}.csv")
    chain = {path: json.loads(path.read_bytes().splitlines()[1])["before"]
             for path in Path(into.place, "_rowfall").glob("*.ids")}  # fmt: skip
    (oldest,) = (path for path, before in chain.items() if not before)
    oldest.unlink()
    done = shell.ends(3, "load", "[ab].csv", "--to", into.to)
    adopted = shell.ok(*answers(done.err)["adopt"], "--json").document["splits"]
    assert adopted == [str(shell.folder / "a.csv")]
    assert "nothing to load" in shell.ok("load", "[ab].csv", "--to", into.to).talk
    assert into.rows("count()") == [[2]]


def test_a_hint_that_is_behind_is_mended_by_the_next_load(into: Into) -> None:
    """As a load leaves it that is killed right behind its commit; who only reads writes nothing."""
    into.shell.write("a.csv", "id\n1\n2\n")
    into.load("a.csv")
    hint = Path(into.place) / "metadata/version-hint.text"
    newest = hint.read_text()
    hint.write_text("1")
    into.shell.ok("plan", "a.csv", "--to", into.to)
    into.shell.ok("query", "SELECT count() FROM t", "--to", into.to)
    assert hint.read_text() == "1"
    assert into.load("a.csv")["rows"] == 0
    assert hint.read_text() == newest != "1"


def test_clean_removes_what_was_written_and_not_committed(into: Into) -> None:
    """Two files of three are written when the third is found to be bad: with --replace nothing is
    visible, and what was written waits for the next run."""
    for name in "ab":
        into.shell.write(f"{name}.csv", csv([(i, name) for i in range(10)], "id", "x"))
    into.shell.write("c.csv", "id,x\nbad,1\n")
    into.shell.ends(1, "load", "*.csv", "--to", into.to, "--replace", "--type", "id Int64",
                    "--attempt-bytes", "1")  # fmt: skip
    assert not into.table().metadata.snapshots
    assert len(list(Path(into.place, "data").iterdir())) == 2
    next(Path(into.place, "data").iterdir()).unlink()
    into.shell.write("c.csv", "id,x\n11,1\n")
    args = ("load", "*.csv", "--to", into.to, "--replace", "--type", "id Int64")
    done = into.shell.ends(5, *args)
    assert "is not there as it was written" in done.talk
    assert "rowfall clean" in done.talk
    done = into.shell.ends(0, "clean", "--to", into.to, "--yes", "--json")
    assert len(json.loads(done.out)["leftovers"]) == 3
    assert not list(Path(into.place, "data").iterdir())
    assert into.load(*args[1:2], *args[4:])["rows"] == 21
    assert into.rows("count()") == [[21]]


def test_bytes_of_parquet_into_binary_columns(shell: Shell) -> None:
    """So are those in lists; the second file into such a table was refused."""
    values = {
        "id": pa.array([1, 2]), "b": pa.array([b"\x00\xff", b"ab"]),
        "l": pa.array([[b"\xff\x00", None], []]),
        "f": pa.array([[b"\xff\x00"], [b"\x00\x00", b"ab"]], pa.list_(pa.binary(2))),
        "n": pa.array([[[b"\xff"]], [[b"\x00"], []]]),
    }  # fmt: skip
    for name in ("a", "b"):
        parquet.write_table(pa.table(values), shell.folder / f"{name}.parquet")
    refused = shell.ends(1, "load", "a.parquet", "--to", "iceberg+text", "--type", "b String")
    assert "--encoding binary" in refused.talk
    for name, more in (("by_footer", ()), ("asked", ("--encoding", "binary"))):
        for number, file in enumerate(("a.parquet", "b.parquet"), 1):
            shell.ok("load", file, "--to", f"iceberg+{name}", *more)
            newest = max((shell.folder / name / "metadata").glob("*.metadata.json"))
            table = StaticTable.from_metadata(str(newest)).scan().to_arrow()
            assert table.num_rows == 2 * number
            for column, given in values.items():
                found = sorted(map(str, table[column].to_pylist()))
                assert found == sorted(map(str, given.to_pylist() * number))
    # Values of one length into columns of bytes of any length: no zero byte at their end is cut.
    fixed = {"b": pa.array([b"\xfe\x00"], pa.binary(2)), "l": pa.array([[b"\xfe\x00"]],
             pa.list_(pa.binary(2)))}  # fmt: skip
    whole = parquet.read_table(shell.folder / "a.parquet").slice(0, 1).drop_columns(["b", "l"])
    parquet.write_table(pa.table({**dict(zip(whole.column_names, whole.columns, strict=True)),
                                  **fixed}), shell.folder / "c.parquet")  # fmt: skip
    for name, more in (("by_footer", ()), ("asked", ("--encoding", "binary"))):
        shell.ok("load", "c.parquet", "--to", f"iceberg+{name}", *more)
        newest = max((shell.folder / name / "metadata").glob("*.metadata.json"))
        table = StaticTable.from_metadata(str(newest)).scan().to_arrow()
        assert b"\xfe\x00" in table["b"].to_pylist()
        assert [b"\xfe\x00"] in table["l"].to_pylist()
