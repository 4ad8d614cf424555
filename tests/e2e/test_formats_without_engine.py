"""Which formats are loaded where without the embedded engine: each with each target, by a list."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from deltalake import write_deltalake

import rowfall
from lab import lake_tables
from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from rowfall.run import remedies
from rowfall.systems.clickhouse import embedded, prestart
from rowfall.systems.clickhouse.embedded import Embedded

COUNT = 200
ROWS = [{"id": n, "name": f"n{n % 9}", "price": n / 8} for n in range(COUNT)]
TABLE = pa.Table.from_pylist(ROWS)
LISTS = pa.table({"id": range(COUNT), "tags": pa.array([[n] for n in range(COUNT)])})
AVRO = {"type": "record", "name": "r", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
    {"name": "price", "type": "double"},
]}  # fmt: skip


def _text(between: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        lines = (between.join(map(str, row)) for row in (ROWS[0], *(r.values() for r in ROWS)))
        path.write_text("".join(f"{line}\n" for line in lines))

    return write


def _lines(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))


def _arrow(path: Path, table: pa.Table = TABLE) -> None:
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def _avro(path: Path) -> None:
    with path.open("wb") as file:
        fastavro.writer(file, AVRO, ROWS)


def _book(path: Path) -> None:
    with xlsxwriter.Workbook(str(path)) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate([ROWS[0], *(row.values() for row in ROWS)]):
            sheet.write_row(number, 0, list(row))


def _log(path: Path) -> None:
    said = '127.0.0.1 - - [10/Oct/2024:13:55:{:02} +0000] "GET /{} HTTP/1.1" 200 7 "-" "curl"\n'
    path.write_text("".join(said.format(n % 60, n) for n in range(COUNT)))


def _wide(path: Path) -> None:
    rows = (f"{r['id']:<6}{r['name']:<6}{r['price']:<8}" for r in ROWS)
    path.write_text("".join(f"{row}\n" for row in rows))


FILES: dict[str, Callable[[Path], object]] = {
    "csv": _text(","),
    "tsv": _text("\t"),
    "jsonl": _lines,
    "json": lambda path: path.write_text(json.dumps(ROWS)),
    "parquet": lambda path: pq.write_table(TABLE, path),
    "lists.parquet": lambda path: pq.write_table(LISTS, path),
    "arrow": _arrow,
    "lists.arrow": lambda path: _arrow(path, LISTS),
    "orc": lambda path: orc.write_table(TABLE, path),
    "avro": _avro,
    "xlsx": _book,
    "log": _log,
    "fwf": _wide,
}
OPTIONS: dict[str, dict[str, Any]] = {"log": {"format": "nginx"}, "fwf": {"widths": "6,6,8"}}


def _sqlite(folder: Path) -> str:
    path = folder / "s.db"
    database = sqlite3.connect(path)
    with database:
        database.execute("CREATE TABLE a (id INTEGER NOT NULL, name TEXT, price REAL)")
        database.executemany("INSERT INTO a VALUES (:id, :name, :price)", ROWS)
    database.close()
    return f"sqlite://{path}/a"


def _duckdb(folder: Path) -> str:
    path = folder / "s.duckdb"
    with duckdb.connect(str(path)) as database:
        database.register("given", TABLE)
        database.execute("CREATE TABLE a AS FROM given")
    return f"duckdb://{path}/a"


def _delta(folder: Path) -> str:
    write_deltalake(folder / "delta", TABLE)
    return f"delta+{folder}/delta"


def _iceberg(folder: Path) -> str:
    lake_tables.iceberg(str(folder / "lake"), TABLE)
    return f"iceberg+{folder}/lake"


OTHERS: dict[str, Callable[[Path], Any]] = {
    "sqlite": _sqlite, "duckdb": _duckdb, "delta": _delta, "iceberg": _iceberg,
    "table of pyarrow": lambda _: TABLE, "frame of polars": lambda _: pl.from_arrow(TABLE),
    "frame of pandas": lambda _: TABLE.to_pandas(), "reader of Arrow": lambda _: TABLE.to_reader(),
}  # fmt: skip

DATABASES = ("postgresql", "mariadb")
TARGETS = {"clickhouse", "postgresql", "mariadb", "duckdb"}
# docs/guides/install.md says the same in words.
NEEDS_ENGINE = {
    "orc": TARGETS, "avro": TARGETS, "delta": TARGETS, "iceberg": TARGETS,
    "lists.parquet": TARGETS - {"clickhouse"}, "lists.arrow": TARGETS - {"clickhouse"},
    "stdin": TARGETS - {"clickhouse"}, "reader of Arrow": TARGETS,
}  # fmt: skip


@pytest.fixture
def targets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clickhouse: ClickHouse,
    postgresql: PostgresqlServer, mariadb: MariaDB,
) -> dict[str, str]:  # fmt: skip
    """Each target, in a process without the engine."""

    def started(self: Embedded) -> None:
        embedded._check_installed(self.folder)

    monkeypatch.setattr(Embedded, "_start", started)
    for module in (prestart, embedded, remedies):
        monkeypatch.setattr(module, "is_installed", lambda: False)
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    mariadb.query("CREATE DATABASE IF NOT EXISTS without_engine")
    return {
        "clickhouse": clickhouse.uri("default"), "postgresql": postgresql.uri,
        "mariadb": mariadb.uri("without_engine"), "duckdb": f"duckdb://{tmp_path}/own.duckdb",
    }  # fmt: skip


# Excel and SQLite are systems with tests of their own; Parquet is what most have besides text.
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kind", ["parquet", *(k for k in FILES if k != "parquet"), *OTHERS, *DATABASES]
)
def test_what_needs_the_engine(
    kind: str, targets: dict[str, str], tmp_path: Path, postgresql: PostgresqlServer,
    mariadb: MariaDB, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path / "in"
    folder.mkdir()
    if kind in FILES:
        path = folder / f"a.{kind}"
        FILES[kind](path)
        source: Any = str(path)
    elif kind == "postgresql":
        postgresql.run(f"CREATE TABLE without AS SELECT * FROM generate_series(1, {COUNT}) AS id")
        source = f"{postgresql.uri}/without"
    elif kind == "mariadb":
        ids = ", ".join(f"({n})" for n in range(COUNT))
        mariadb.query(
            "CREATE OR REPLACE TABLE without_engine.without (id BIGINT NOT NULL)",
            f"INSERT INTO without_engine.without VALUES {ids}",
        )
        source = mariadb.uri("without_engine/without")
    else:
        source = OTHERS[kind](folder)
    table = "without_" + "".join(c if c.isalnum() else "_" for c in kind)
    asked = set()
    for name, to in targets.items():
        if kind == "reader of Arrow":
            source = OTHERS[kind](folder)  # it is read once
        if kind == "stdin":
            FILES["csv"](folder / "stdin")
            monkeypatch.setattr(sys, "stdin", (folder / "stdin").open())
        try:
            made = rowfall.load(source, to=to, table=table, progress=False, **OPTIONS.get(kind, {}))
        except rowfall.RowfallError as error:
            asked.add((name, "rowfall[embedded]" in f"{error} {error.hint}" or str(error)))
        else:
            assert made.rows == COUNT, name
    assert asked == {(name, True) for name in NEEDS_ENGINE.get(kind, set())}
