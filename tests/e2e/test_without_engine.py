"""Loads that need no embedded engine: rowfall itself reads and infers."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import datetime
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowfall
from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from rowfall.run import remedies
from rowfall.systems.clickhouse import embedded, prestart
from rowfall.systems.clickhouse.embedded import Embedded

ROWS = "id,name,price,at\n" + "".join(
    f'{n},"n ""{n}""",{n / 8},2024-02-{n % 28 + 1:02} 10:00:00\n' for n in range(1000)
)


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("an embedded engine was started")

    monkeypatch.setattr(Embedded, "_start", refused)
    monkeypatch.setattr(prestart, "_spawn", refused)
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide chDB, as in an installation without the extra."""

    def started(self: Embedded) -> None:
        embedded._check_installed(self.folder)

    monkeypatch.setattr(Embedded, "_start", started)
    for module in (prestart, embedded, remedies):
        monkeypatch.setattr(module, "is_installed", lambda: False)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "mark.csv", "a.tsv"])
def test_text_into_a_server(clickhouse: ClickHouse, tmp_path: Path, name: str) -> None:
    text = ROWS.replace(",", "\t").replace('"', "") if name.endswith(".tsv") else ROWS
    data = (b"\xef\xbb\xbf" if name == "mark.csv" else b"") + text.encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    table = f"default.engineless_{name.replace('.', '_')}"
    report = rowfall.load(str(path), to=clickhouse.uri("default"), table=table)
    assert report.rows == 1000
    found = clickhouse.query(
        f"SELECT count(), sum(id), sum(price), any(toTypeName(at)) LIKE 'DateTime%' FROM {table}"
    )
    assert found == "1000\t499500\t62437.5\t1\n"


def test_lines_of_json_into_a_server(clickhouse: ClickHouse, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    rows = ({"id": n, "name": f"n{n}", "tags": [n, n + 1], "o": {"k": "é"}} for n in range(1000))
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    rowfall.load(str(path), to=clickhouse.uri("default"), table="default.engineless_json")
    found = clickhouse.query("SELECT count(), sum(tags[2]), any(o.k) FROM default.engineless_json")
    assert found == "1000\t500500\té\n"


def _parquet(path: Path, *, lists: bool) -> None:
    rows = range(20_000)
    columns: dict[str, pa.Array] = {
        "id": pa.array(rows, pa.int64()),
        "name": pa.array(f"n{n % 50}" for n in rows),
        "at": pa.array([datetime(2024, 2, 1 + n % 28) for n in rows], pa.timestamp("us")),
        "part": pa.array([n if n % 3 else None for n in rows], pa.int32()),
    }
    if lists:
        columns["tags"] = pa.array([[n, None] for n in rows], pa.list_(pa.int32()))
        kind = pa.struct([("x", pa.int32()), ("y", pa.string())])
        columns["place"] = pa.array([{"x": n, "y": None} for n in rows], kind)
    pq.write_table(pa.table(columns), path, row_group_size=7000)


@pytest.mark.parametrize("pieces", [1, 3])
def test_parquet_into_a_server(clickhouse: ClickHouse, tmp_path: Path, pieces: int) -> None:
    """Files that the server cannot reach: types, rows and lists are as in the file."""
    for number in range(pieces):
        _parquet(tmp_path / f"{number}.parquet", lists=True)
    table = f"default.engineless_parquet_{pieces}"
    load = partial(rowfall.load, str(tmp_path / "*.parquet"), to=clickhouse.uri("default"))
    assert load(table=table).rows == 20_000 * pieces
    found = clickhouse.query(f"SELECT name, type FROM system.columns WHERE table = '{table[8:]}'")
    assert found.replace("\\n", "").replace("    ", "") == (
        "id\tInt64\nname\tLowCardinality(String)\nat\tDateTime64(6, \\'UTC\\')\n"
        "part\tNullable(Int32)\ntags\tArray(Nullable(Int32))\n"
        "place\tTuple(x Nullable(Int32), y Nullable(String))\n"
    )
    sums = "sum(id), sum(part), sum(tags[1]), sum(length(tags)), sum(place.x), uniqExact(name, at)"
    wanted = [sum(range(20_000)), sum(n for n in range(20_000) if n % 3), sum(range(20_000)),
              40_000, sum(range(20_000))]  # fmt: skip
    told = "\t".join(str(n * pieces) for n in wanted)
    assert clickhouse.query(f"SELECT {sums} FROM {table}") == f"{told}\t700\n"
    assert load(table=table).rows == 0


def test_a_null_list_is_refused_without_an_engine(
    clickhouse: ClickHouse, tmp_path: Path, not_installed: None
) -> None:
    lists = pa.array([[1], None, [2]], pa.list_(pa.int32()))
    pq.write_table(pa.table({"tags": lists}), tmp_path / "nulls.parquet")
    with pytest.raises(rowfall.RowfallError, match="tags"):
        rowfall.load(
            str(tmp_path / "nulls.parquet"), to=clickhouse.uri("default"), table="default.null_list"
        )


def test_a_bad_row_is_named_without_an_engine(
    clickhouse: ClickHouse, postgresql: PostgresqlServer, tmp_path: Path, not_installed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """File, line, column and value, whether a server has judged it or nobody could."""
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    rows = "".join(f"{n},x\n" for n in range(30_000))
    path = tmp_path / "bad.csv"
    path.write_text(f"id,name\n{rows}oops,x\n{rows}")
    for to, verb in ((clickhouse.uri("default"), "does not"), (postgresql.uri, "may not")):
        with pytest.raises(rowfall.RowfallError) as refused:
            rowfall.load(str(path), to=to, table="bad_row")
        said = str(refused.value)
        assert f'{path} line 30002 column "id": "oops" {verb} fit Int64' in said, said
        assert "rowfall[embedded]" in f"{refused.value.hint} {said}"


def test_each_bad_file_is_named_without_an_engine(tmp_path: Path, not_installed: None) -> None:
    """The third one ended the load, and what was good was not loaded."""
    for number in range(8):
        rows = "".join(f"{n},x\n" for n in range(20_000))
        bad = "oops,x\n" if number % 2 else ""
        (tmp_path / f"{number}.csv").write_text(f"id,name\n{rows}{bad}{rows}")
    to = f"duckdb://{tmp_path}/own.duckdb"
    with pytest.raises(rowfall.RowfallError) as refused:
        rowfall.load(str(tmp_path / "*.csv"), to=to, table="t")
    assert "4 of 8 files" in str(refused.value) or "4 files" in str(refused.value)
    with duckdb.connect(str(tmp_path / "own.duckdb")) as database:
        assert database.sql("SELECT count(*) FROM t").fetchall() == [(4 * 40_000,)]


def test_a_value_of_another_kind_in_the_sample_starts_no_engine(tmp_path: Path) -> None:
    """It was looked for rows that repeat the header, which would break the ids as well."""
    days = "".join(f"{n},2024-01-{n % 28 + 1:02}\n" for n in range(50))
    (tmp_path / "a.csv").write_text(f"id,day\n{days}50,2024-13-45\n")
    to = f"duckdb://{tmp_path}/own.duckdb"
    assert rowfall.load(str(tmp_path / "a.csv"), to=to, table="t").rows == 51


def test_types_are_chosen_without_an_engine(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    load = partial(rowfall.load, str(_text(tmp_path, "a.csv")), to=postgresql.uri)
    assert load(table="typed_here", type=["id Int16", "price Decimal(10,3)"]).rows == 1000
    columns = "id Int32, name String, price Float64, at DateTime64(3)"
    assert load(table="schema_here", schema=columns).rows == 1000


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv", "a.jsonl"])
def test_text_into_postgresql(
    postgresql: PostgresqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    table = f"engineless_{name.replace('.', '_')}"
    report = rowfall.load(str(_text(tmp_path, name)), to=postgresql.uri, table=table)
    assert report.rows == 1000
    with postgresql.connect() as connection, connection.cursor() as cursor:
        row = cursor.execute(f"SELECT count(*), sum(id), sum(price), max(at) FROM {table}")
        (found,) = row.fetchall()
        counted, ids, prices, last = found
    assert (counted, ids, prices) == (1000, 499_500, 62_437.5)
    assert str(last).startswith("2024-02-28 10:00:00")


def test_text_into_mariadb(mariadb: MariaDB, tmp_path: Path) -> None:
    mariadb.query("CREATE DATABASE engineless")
    report = rowfall.load(str(_text(tmp_path, "a.csv.gz")), to=mariadb.uri("engineless"), table="t")
    assert report.rows == 1000
    ((counted, ids),) = mariadb.query("SELECT count(*), sum(id) FROM engineless.t")
    assert (int(counted), int(ids)) == (1000, 499_500)


def test_text_into_duckdb(tmp_path: Path) -> None:
    to = f"duckdb://{tmp_path}/own.duckdb"
    assert rowfall.load(str(_text(tmp_path, "a.csv")), to=to, table="t").rows == 1000


def _text(folder: Path, name: str) -> Path:
    path, text = folder / name, ROWS
    if ".tsv" in name:
        text = ROWS.replace(",", "\t").replace('"', "")
    elif ".jsonl" in name:
        rows = csv.DictReader(ROWS.splitlines())
        text = "".join(
            json.dumps(row | {"id": int(row["id"]), "price": float(row["price"])}) + "\n"
            for row in rows
        )
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_a_database_into_a_server(
    clickhouse: ClickHouse, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    postgresql.run(
        "CREATE TABLE engineless AS SELECT g AS id, 'x' || g AS name FROM generate_series(1, 500) g"
    )
    rowfall.load(
        f"{postgresql.uri}/engineless", to=clickhouse.uri("default"), table="default.from_pg"
    )
    assert clickhouse.query("SELECT count(), sum(id) FROM default.from_pg") == "500\t125250\n"
