"""Loads of Iceberg and Delta tables: what lands is what other readers of these tables give."""

from __future__ import annotations

import importlib
import json
import uuid
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import rowfall
from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.tools import Shell
from lab import lake_tables
from lab.clickhouse import ClickHouse
from lab.lake_tables import DictCatalog, by_engine, delete_by_vector, delete_equal, iceberg
from lab.process import let_pass
from lab.seaweed import Seaweed
from rowfall.run.load import _prepare as prepare

ROWS = 3_000


def rows(start: int, stop: int, **more: Any) -> pa.Table:
    """Rows with the ids from ``start`` on."""
    ids = range(start, stop)
    columns: dict[str, Any] = {
        "id": pa.array(ids, pa.int64()),
        "name": [f"n{i % 7}" if i % 11 else None for i in ids],
        "price": pa.array([Decimal(i) / 4 for i in ids], pa.decimal128(12, 2)),
        "day": pa.array([date(2024, 1, 1 + i % 3) for i in ids], pa.date32()),
        "at": pa.array([datetime(2024, 1, 1, i % 24, i % 60) for i in ids], pa.timestamp("us")),
        "tags": pa.array([[f"t{i % 2}"] for i in ids], pa.list_(pa.string())),
    }
    return pa.table({**columns, **more})


def loaded(shell: Shell, columns: str = "*", table: str = "t") -> list[list[Any]]:
    done = shell.ok(
        "query", f"SELECT {columns} FROM {table} ORDER BY ALL", "--format", "JSONCompactEachRow"
    )
    return [json.loads(line) for line in done.out.splitlines()]


def counts(shell: Shell, table: str = "t") -> list[int]:
    """Rows, different ids, and their sum."""
    return [int(v) for v in loaded(shell, "count(), uniqExact(id), sum(id)", table)[0]]


def exact(stop: int, start: int = 0) -> list[int]:
    return [stop - start, stop - start, sum(range(start, stop))]


def plain(value: Any) -> Any:
    """A value of pyarrow as ClickHouse writes it in JSON."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return value


def same(shell: Shell, wanted: pa.Table, table: str = "t") -> None:
    """Check that a table holds exactly these rows, value for value."""
    listed = [[plain(v) for v in row.values()] for row in wanted.to_pylist()]
    names = ", ".join(f"`{name}`" for name in wanted.column_names)
    found = [[float(v) if isinstance(w, float) else v for v, w in zip(row, like, strict=True)]
             for row, like in zip(sorted(loaded(shell, names, table), key=str),
                                  sorted(listed, key=str), strict=True)]  # fmt: skip
    assert sorted(found, key=str) == sorted(listed, key=str)


# --- Iceberg -------------------------------------------------------------------------------------


def test_an_iceberg_table_lands_once_and_what_is_added_later_too(shell: Shell) -> None:
    table = iceberg(str(shell.folder / "t"), rows(0, ROWS))
    done = shell.ok("load", "iceberg+t")
    assert f"{ROWS:,} rows from 1 file into default.t" in done.err
    same(shell, table.scan().to_arrow())
    table.append(rows(ROWS, ROWS + 10))
    first, last = (s.snapshot_id for s in table.metadata.snapshots)
    assert "10 rows from 1 of 2 files (1 loaded before)" in shell.ok("load", "iceberg+t").talk
    assert counts(shell) == exact(ROWS + 10)
    assert "nothing to load" in shell.ok("load", "iceberg+t").err
    shell.ok("load", f"iceberg+file://{shell.folder}/t", "--snapshot", str(first), "--table", "old")
    assert counts(shell, "old") == exact(ROWS)
    shell.ok("load", "iceberg+t", "--since", str(first), "--table", "new")
    assert counts(shell, "new") == exact(ROWS + 10, ROWS)
    wrong = shell.ends(2, "load", "iceberg+t", "--snapshot", "17")
    assert "has no snapshot 17" in wrong.err
    assert str(last) in wrong.talk


def test_columns_of_iceberg_that_were_added_renamed_dropped_and_widened(shell: Shell) -> None:
    small = pa.table({"id": pa.array(range(100), pa.int32()), "a": ["x"] * 100, "b": ["y"] * 100})
    table = iceberg(str(shell.folder / "t"), small)
    with table.update_schema() as change:
        change.add_column("c", StringType())
        change.update_column("id", LongType())
    more = pa.table({"id": pa.array([1 << 40]), "a": ["x"], "b": ["y"], "c": ["z"]})
    table.append(more)
    done = shell.ok("load", "iceberg+t", "--table", "added")
    assert "renamed" not in done.err
    same(shell, table.scan().to_arrow(), "added")
    with table.update_schema() as change:
        change.rename_column("a", "c2")
        change.delete_column("b")
    with table.update_schema() as change:
        change.add_column("a", StringType())  # the name of another column once
    table.append(pa.table({"id": [7], "c": ["z"], "c2": ["renamed"], "a": ["new"]}))
    done = shell.ok("load", "iceberg+t", "--table", "moved")
    assert "read by the engine's Iceberg reader" in done.talk
    same(shell, table.scan().to_arrow(), "moved")


def test_rows_that_were_changed_are_never_loaded_beside_the_old_ones(shell: Shell) -> None:
    table = iceberg(str(shell.folder / "t"), rows(0, 100))
    table.append(rows(100, 200))
    shell.ok("load", "iceberg+t")
    table.delete("id < 10")  # one file is written anew without them
    wrong = shell.ends(4, "load", "iceberg+t")
    assert "changed or removed rows that are loaded" in wrong.talk
    assert counts(shell) == exact(200)
    last = table.metadata.current_snapshot_id
    table.append(rows(200, 230))
    shell.ok("load", "iceberg+t", "--since", str(last))
    assert counts(shell) == exact(230)
    shell.ok("load", "iceberg+t", "--replace")
    assert counts(shell) == exact(230, 10)


def test_a_table_of_a_catalogue(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    table = iceberg(str(shell.folder / "w"), rows(0, 50))
    lake_tables.PLACES["sales.orders"] = table.metadata_location
    real = pyiceberg.catalog.load_catalog
    monkeypatch.setattr(
        pyiceberg.catalog, "load_catalog",
        lambda name: DictCatalog(name) if name == "lab" else real(name),
    )  # fmt: skip
    done = shell.ok("load", "iceberg://lab/sales.orders")
    assert "50 rows" in done.err
    assert counts(shell, "orders") == exact(50)
    assert "has no table sales.none" in shell.ends(4, "load", "iceberg://lab/sales.none").err
    wrong = shell.ends(4, "load", "iceberg://nowhere/sales.orders")
    assert "PYICEBERG_CATALOG__NOWHERE__URI" in wrong.talk


# --- Delta ---------------------------------------------------------------------------------------


def test_a_delta_table_lands_once_through_growth_and_compaction(shell: Shell) -> None:
    at = str(shell.folder / "t")
    for start in (0, 100, 200):
        write_deltalake(at, rows(start, start + 100), mode="append")
    shell.ok("load", "delta+t", "--snapshot", "1")
    assert counts(shell) == exact(200)
    DeltaTable(at).optimize.compact()
    wrong = shell.ends(4, "load", "delta+t")
    assert "version 3 (OPTIMIZE) of delta+t merged files that are loaded with others" in wrong.talk
    assert "--snapshot 2" in wrong.talk
    shell.ok("load", "delta+t", "--snapshot", "2")
    assert counts(shell) == exact(300)
    assert "1 file made of others that are loaded (compaction)" in shell.ok("load", "delta+t").talk
    write_deltalake(at, rows(300, 310), mode="append")
    shell.ok("load", "delta+t")
    assert counts(shell) == exact(310)
    same(shell, DeltaTable(at).to_pyarrow_table())
    DeltaTable(at).delete("id < 5")
    assert "(DELETE) of delta+t changed or removed rows" in shell.ends(4, "load", "delta+t").talk
    write_deltalake(at, rows(310, 320), mode="append")
    shell.ok("load", "delta+t", "--since", "5")
    assert counts(shell) == exact(320)
    shell.ok("load", "delta+t", "--replace")
    assert counts(shell) == exact(320, 5)


def test_partition_values_of_delta_are_in_the_log_alone(shell: Shell) -> None:
    at = str(shell.folder / "t")
    odd = ["a b", "x/y%", "é=1", None, "it's"]
    table = rows(0, 500, part=[odd[i % 5] for i in range(500)])
    write_deltalake(at, table, partition_by=["part", "day"])
    shell.ok("load", "delta+t", "--table", "parts")
    same(shell, DeltaTable(at).to_pyarrow_table(), "parts")
    shell.ok("load", "delta+t", "--table", "few", "--select", "part, day", "--where", "id < 50")
    assert loaded(shell, "count(), uniqExact(part)", "few") == [[50, 4]]


@pytest.mark.long
def test_a_delta_log_that_is_read_from_a_checkpoint(shell: Shell) -> None:
    at = str(shell.folder / "t")
    for start in range(0, 50, 10):
        write_deltalake(at, rows(start, start + 10), mode="append", partition_by=["day"])
    DeltaTable(at).create_checkpoint()
    write_deltalake(
        at, rows(50, 60, more=pa.array(range(10), pa.int32())), mode="append", schema_mode="merge"
    )
    for number in range(5):
        (shell.folder / f"t/_delta_log/{number:020}.json").unlink()
    shell.ok("load", "delta+t")
    same(shell, DeltaTable(at).to_pyarrow_table())
    assert "its commit is not in the log" in shell.ends(4, "load", "delta+t", "--snapshot", "2").err


# --- deletes, and other writers ------------------------------------------------------------------


def test_deleted_rows_of_iceberg_do_not_land(shell: Shell) -> None:
    at = shell.folder / "t"
    table = iceberg(str(at), rows(0, 100))
    table.append(rows(100, 200))
    by_engine("IcebergLocal", at, "ALTER TABLE t DELETE WHERE id < 7")  # by positions
    shell.ok("load", "iceberg+t", "--table", "positions")
    kept = StaticTable.from_metadata(str(at / "metadata/v3.metadata.json")).scan().to_arrow()
    assert kept.num_rows == 193
    same(shell, kept, "positions")
    equal = delete_equal(iceberg(str(shell.folder / "e"), rows(0, 100)), [3, 5])
    equal.append(rows(3, 4))  # younger than the delete
    shell.ok("load", "iceberg+e", "--table", "equal")
    assert counts(shell, "equal") == [99, 99, sum(range(100)) - 5]
    equal = delete_equal(equal, [50])
    more = shell.ends(4, "load", "iceberg+e", "--table", "equal")  # other deletes than those loaded
    assert "changed or removed rows that are loaded" in more.talk
    shell.ok("load", "iceberg+e", "--table", "equal", "--replace")
    assert counts(shell, "equal") == [98, 98, sum(range(100)) - 55]
    first = shell.ok(
        "load", "iceberg+e", "--snapshot", str(equal.metadata.snapshots[0].snapshot_id)
    )
    assert "100 rows" in first.err
    wrong = shell.ends(4, "load", "iceberg+e")  # the same file, now with deletes
    assert "a delete of rows of" in wrong.talk
    assert "changed or removed rows that are loaded" in wrong.talk
    assert counts(shell, "e") == exact(100)


def test_deletion_vectors_of_delta_are_applied(shell: Shell) -> None:
    at = shell.folder / "t"
    write_deltalake(str(at), rows(0, 100).select(["id", "name"]))
    shell.ok("load", "delta+t")
    delete_by_vector(at, [0, 5, 99])
    assert "version 1 of delta+t changed or removed" in shell.ends(4, "load", "delta+t").talk
    shell.ok("load", "delta+t", "--replace")
    assert counts(shell) == [97, 97, sum(range(100)) - 104]
    assert "nothing to load" in shell.ok("load", "delta+t").err


@pytest.mark.long
def test_tables_that_the_engine_has_written(shell: Shell) -> None:
    for kind, engine in (("iceberg", "IcebergLocal"), ("delta", "DeltaLakeLocal")):
        at = shell.folder / kind
        if kind == "iceberg":
            iceberg(str(at), rows(0, 10).select(["id", "name"]))
        else:
            write_deltalake(str(at), rows(0, 10).select(["id", "name"]))
        by_engine(engine, at, "INSERT INTO t SELECT number + 10, 'x' FROM numbers(90)")
        shell.ok("load", f"{kind}+{kind}")
        assert counts(shell, kind) == exact(100)


# --- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", ["rowfall.run.load.survey", "rowfall.run.load._prepare"])
def test_a_snapshot_that_expires_while_it_is_loaded(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = iceberg(str(shell.folder / "t"), rows(0, 100))
    table.append(rows(100, 200))
    first = table.metadata.snapshots[0].snapshot_id
    shell.ok("load", "iceberg+t", "--snapshot", str(first))
    old, new = ({file.file.file_path for file in table.scan(snapshot_id=number).plan_files()}
                for number in (first, None))  # fmt: skip
    (victim,) = map(Path, new - old)
    module, _, name = step.rpartition(".")
    real = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(step, before(real, victim.unlink))
    wrong = shell.ends(4, "load", "iceberg+t")
    assert str(victim) in wrong.talk
    assert "has been expired or vacuumed" in wrong.talk
    assert counts(shell) == exact(100)


def before(method: Any, action: Any) -> Any:
    """A function that does something else first."""

    def called(*args: Any, **named: Any) -> Any:
        action()
        return method(*args, **named)

    return called


# --- stores, servers, clusters -------------------------------------------------------------------


@pytest.fixture
def lakes_in_s3(s3: Seaweed, bucket: str) -> str:
    """``s3://bucket`` with the tables ``ice``, ``delta`` and ``flat`` of ROWS rows each."""
    io = {"s3.endpoint": s3.endpoint, "s3.access-key-id": s3.access_key,
          "s3.secret-access-key": s3.secret_key, "s3.region": s3.region}  # fmt: skip
    table = iceberg(f"s3://{bucket}/ice", rows(0, 1000), io=io)
    table.append(rows(1000, ROWS))
    options = {**s3.env, "AWS_ALLOW_HTTP": "true"}
    for start, stop in ((0, 1000), (1000, ROWS)):
        write_deltalake(f"s3://{bucket}/delta", rows(start, stop), mode="append",
                        storage_options=options, partition_by=["day"])  # fmt: skip
        write_deltalake(f"s3://{bucket}/flat", rows(start, stop).drop_columns(["tags"]),
                        mode="append", storage_options=options)  # fmt: skip
    return f"s3://{bucket}"


@pytest.mark.long
def test_tables_in_s3(
    shell: Shell, s3: Seaweed, lakes_in_s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kind in (("ice", "iceberg"), ("delta", "delta")):
        shell.ok("load", f"{kind}+{lakes_in_s3}/{name}", env=s3.env)
        assert counts(shell, name) == exact(ROWS)
        assert (
            "nothing to load" in shell.ok("load", f"{kind}+{lakes_in_s3}/{name}/", env=s3.env).err
        )
        wrong = shell.ends(4, "load", f"{kind}+{lakes_in_s3}/none", env=s3.env)
        assert "none" in wrong.err
    # Files that need nothing but to be read are copied by the decoder, row group by row group.
    built = ["load", f"delta+{lakes_in_s3}/flat", "--build", "on", "--json"]
    done = shell.ok(*built, env=s3.env).document
    assert (done["rows"], done["notes"]) == (ROWS, [])
    shell.ok(*built, "--table", "other", "--decoder", "never", "--build", "off", env=s3.env)
    everything = "SELECT count(), sum(cityHash64(*)) FROM {}"
    assert shell.row(everything.format("flat")) == shell.row(everything.format("other"))
    # One that goes while it is loaded is named, and nothing of it lands.
    name = lakes_in_s3.removeprefix("s3://")
    (*_, key) = (key for key in s3.list(name, "flat/") if key.endswith(".parquet"))
    monkeypatch.setattr("rowfall.run.load._prepare", before(prepare, lambda: s3.delete(name, key)))
    gone = shell.ends(4, *built, "--table", "gone", env=s3.env)
    assert "the data file is gone" in gone.talk


@pytest.mark.long
def test_a_server_reads_the_files_itself(
    shell: Shell, clickhouse: ClickHouse, s3: Seaweed, lakes_in_s3: str
) -> None:
    lake = Lake(shell, clickhouse)
    for name, kind in (("ice", "iceberg"), ("delta", "delta")):
        done = lake.ok("load", f"{kind}+{lakes_in_s3}/{name}", "--pull", env=s3.env)
        assert f"{ROWS:,} rows" in done.err
        found = lake.row(f"SELECT count(), uniqExact(id), sum(id) FROM {{db}}.{name}")
        assert found == exact(ROWS)
    table = iceberg(str(shell.folder / "here"), rows(0, 100))
    with table.update_schema() as change:
        change.rename_column("name", "title")
    lake.ok("load", "iceberg+here", "--push")
    assert lake.row("SELECT count(), uniqExact(title) FROM {db}.here") == [100, 7]
    lake.do("DROP DATABASE {db} SYNC")


@pytest.mark.long
def test_a_cluster_loads_a_table_once(
    shell: Shell, fleet: Fleet, s3: Seaweed, lakes_in_s3: str
) -> None:
    for name, kind in (("ice", "iceberg"), ("delta", "delta")):
        fleet.ok("load", f"{kind}+{lakes_in_s3}/{name}", env=s3.env)
        again = fleet.ok("load", f"{kind}+{lakes_in_s3}/{name}", env=s3.env)
        assert "nothing to load" in again.err
        count = f"SELECT count(), uniqExact(id), sum(id) FROM {{db}}.{name}"
        assert all(fleet.ask(node, count) == [exact(ROWS)] for node in fleet.first())


def test_a_table_with_deletes_is_read_here_for_a_server(
    shell: Shell, clickhouse: ClickHouse, s3: Seaweed, bucket: str
) -> None:
    lake = Lake(shell, clickhouse)
    io = {"s3.endpoint": s3.endpoint, "s3.access-key-id": s3.access_key,
          "s3.secret-access-key": s3.secret_key, "s3.region": s3.region}  # fmt: skip
    table = iceberg(f"s3://{bucket}/t", rows(0, 100), io=io)
    with table.update_schema() as change:
        change.rename_column("name", "title")
    lake.ok("load", f"iceberg+s3://{bucket}/t", env=s3.env)
    assert lake.row("SELECT count(), uniqExact(title) FROM {db}.t") == [100, 7]
    wrong = lake.ends(5, "load", f"iceberg+s3://{bucket}/t", "--pull", "--force", env=s3.env)
    assert "no server reads such a source itself" in wrong.talk
    lake.do("DROP DATABASE {db} SYNC")


@pytest.mark.long
def test_a_killed_load_of_a_table_goes_on(shell: Shell) -> None:
    for number in range(30):
        write_deltalake(
            str(shell.folder / "t"), rows(1000 * number, 1000 * number + 1000), mode="append"
        )
    command = ("load", "delta+t", "--attempt-bytes", "40k")
    for seconds in (0.6, 0.9, 1.2, 1.6):
        running = shell.cli.start(*command)
        let_pass(seconds, "a moment of the load")
        running.kill()
        running.communicate()
    shell.ok(*command)
    assert counts(shell) == exact(30_000)
    assert "nothing to load" in shell.ok(*command).err


@pytest.mark.long
def test_a_store_that_goes_away_and_comes_back(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Seaweed() as own:
        own.create_bucket("lake-away")
        options = {**own.env, "AWS_ALLOW_HTTP": "true"}
        for start in range(0, 5000, 1000):
            write_deltalake("s3://lake-away/t", rows(start, start + 1000), mode="append",
                            storage_options=options)  # fmt: skip
        command = ("load", "delta+s3://lake-away/t")
        with monkeypatch.context() as patched:
            patched.setattr("rowfall.run.load._prepare", before(prepare, own.kill))
            assert shell.run(*command, env=own.env).code in (1, 4, 6)
        assert "no connection to" in shell.ends(4, *command, env=own.env).err
        own.start()
        shell.ok(*command, env=own.env)
        assert counts(shell) == exact(5000)


def test_every_type_arrives_unchanged(shell: Shell) -> None:
    number = uuid.UUID("12345678-1234-5678-1234-567812345678")
    zone = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(3)),
        NestedField(4, "b", BinaryType()), NestedField(5, "z", TimestamptzType()),
        NestedField(6, "ok", BooleanType()), NestedField(7, "x", FloatType()),
        NestedField(8, "s", StructType(NestedField(11, "p", IntegerType()),
                                       NestedField(12, "q", StringType()))),
        NestedField(9, "m", MapType(13, StringType(), 14, IntegerType())),
        NestedField(10, "clock", TimeType()),
    )  # fmt: skip
    row = {"id": 1, "u": number.bytes, "f": b"abc", "b": b"\x00x", "z": zone, "ok": True, "x": 0.5,
           "s": {"p": 7, "q": "r"}, "m": [("k", 1)], "clock": time_of_day(1, 2)}  # fmt: skip
    empty = dict.fromkeys(row) | {"id": 2, "s": {"p": None, "q": None}, "m": []}
    data = pa.Table.from_pylist([row, empty], schema=schema_to_pyarrow(schema))
    iceberg(str(shell.folder / "t"), data, schema=schema)
    wrong = shell.ends(4, "load", "iceberg+t")
    assert "no type for clock (time)" in wrong.talk
    assert "--skip clock" in wrong.talk
    shell.ok("load", "iceberg+t", "--skip", "clock")
    types = {name: type_ for name, type_, *_ in loaded_types(shell)}
    assert types["id"] == "Int64"
    assert types["u"] == "Nullable(UUID)"
    first, second = loaded(shell, "id, u, f, hex(b), z, ok, x, s, m")
    assert first == [1, str(number), "abc", "0078", "2024-05-06 07:08:09.123456", True, 0.5,
                     {"p": 7, "q": "r"}, {"k": 1}]  # fmt: skip
    assert second == [2, *[None] * 6, {"p": None, "q": None}, {}]


def loaded_types(shell: Shell) -> list[list[str]]:
    done = shell.ok("query", "DESCRIBE t", "--format", "JSONCompactEachRow")
    return [json.loads(line) for line in done.out.splitlines()]


def test_tables_that_are_not_whole_are_refused(shell: Shell) -> None:
    at = shell.folder / "t"
    table = iceberg(str(at), rows(0, 10))
    empty = DictCatalog("lab", warehouse=str(shell.folder)).create_table(
        "lab.empty", rows(0, 3).schema, location=str(shell.folder / "empty")
    )
    assert "it has no snapshot" in shell.ends(4, "load", "iceberg+empty").err
    assert empty.current_snapshot() is None
    first = table.metadata.snapshots[0].snapshot_id
    none = shell.ends(4, "load", "iceberg+t", "--since", str(first))
    assert "holds no rows that were added since" in none.talk
    (at / "metadata/00001-other.metadata.json").write_text("{}")
    twice = shell.ends(4, "load", "iceberg+t")
    assert "2 metadata files of number 1" in twice.talk
    assert "no metadata of an Iceberg table" in shell.ends(
        4, "load", "iceberg+t/metadata/00001-other.metadata.json"
    ).talk  # fmt: skip
    (at / "metadata/00001-other.metadata.json").unlink()
    for manifest in at.glob("metadata/snap-*.avro"):
        manifest.unlink()
    gone = shell.ends(4, "load", "iceberg+t")
    assert "there is no such file" in gone.talk


def test_partitions_whose_folders_have_percent_signs(shell: Shell) -> None:
    """Locations of Iceberg are no encoded URIs: pyiceberg's folder of São Paulo has %."""
    folder = shell.folder / "a b"
    cities = ["Oslo", "São Paulo", "a/b", "50% x"]
    data = pa.table({"id": [1, 2, 3, 4], "city": cities})
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))
    for place in (str(folder / "t"), f"file://{folder}/u"):
        lake_tables.iceberg(place, data, schema=schema, partition_spec=spec)
        name = place.rpartition("/")[2]
        done = shell.ok("load", f"iceberg+{folder}/{name}", "--table", name, "--verify", "--json")
        assert done.document["rows"] == 4
        assert shell.rows(f"SELECT city FROM {name} ORDER BY id") == [[city] for city in cities]


def test_deletion_vectors_of_version_3(shell: Shell) -> None:
    """No deleted row is loaded: what nobody here reads is refused, and the hint's reader is."""
    folder = shell.folder / "t"
    table = lake_tables.iceberg(str(folder), pa.table({"id": list(range(10))}))
    newest = lake_tables.delete_by_puffin(table, [1, 3, 5])
    refused = shell.ends(4, "load", f"iceberg+{folder}", "--table", "t")
    said = " ".join(refused.talk.split())
    assert "deleted by the deletion vector" in said
    assert f"StaticTable.from_metadata('{newest}').scan().to_arrow_batch_reader()" in said
    rows = StaticTable.from_metadata(str(newest)).scan().to_arrow_batch_reader()
    report = rowfall.load(rows, table="t", to=shell.folder / "rowfall-data")
    assert report.rows == 7
    assert shell.row("SELECT groupArraySorted(10)(id) FROM t") == [[0, 2, 4, 6, 7, 8, 9]]
    # The snapshot before them holds no vector.
    first = str(table.current_snapshot().snapshot_id)
    shell.ok("load", f"iceberg+{folder}", "--table", "before", "--snapshot", first)
    assert shell.row("SELECT count() FROM before") == [10]
