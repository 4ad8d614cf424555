"""Parquet into databases: rowfall-decode writes the rows that the engine writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowfall
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from rowfall.core.events import Event, Note

_MOMENT = dt.datetime(2024, 1, 31, 23, 59, 59, 999_999)
TABLE = pa.table({
    "i8": pa.array([1, None, -128], pa.int8()),
    "i64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "f64": pa.array([1.5, -0.1, None], pa.float64()),
    "f32": pa.array([0.1, None, 3.4e38], pa.float32()),
    "day": pa.array([dt.date(2024, 2, 29), None, dt.date(1970, 1, 1)]),
    "micro": pa.array([_MOMENT, None, dt.datetime(1970, 1, 1)], pa.timestamp("us")),
    "milli": pa.array([1, None, 1_700_000_000_123], pa.timestamp("ms")),
    "zoned": pa.array([_MOMENT, None, dt.datetime(2100, 7, 1)], pa.timestamp("us", "Asia/Tokyo")),
    "yes": pa.array([True, None, False]),
    "text": pa.array(["a\tb\\n\n'\"", "ü😀", None]),
    "empty": pa.array(["", None, "NULL"]),
    "bytes": pa.array([b"\x00\xff", None, b""], pa.binary()),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "price": pa.array([Decimal("1.23"), None, Decimal("-99999999.99")], pa.decimal128(10, 2)),
    "wide": pa.array([Decimal("12345678901234567890123456789012.123456"), None, Decimal(0)],
                     pa.decimal128(38, 6)),
    "word": pa.array(["x", "y", None]).dictionary_encode(),
})  # fmt: skip


def _rows(path: Path, to: str, decoder: str) -> list[str]:
    """Load into a table of the decoder's name; returns what was said about the engine."""
    said: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Note) and "the engine reads it" in event.text:
            said.append(event.text)

    made = rowfall.load(str(path), to=to, table=f"by_{decoder}", decoder=decoder, on_event=listen)
    assert made.rows == len(TABLE)
    return said


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    pq.write_table(TABLE, tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def _compare(path: Path, to: str, asked: Any) -> None:
    """Load twice, and compare what ``asked`` gives for the name of each table."""
    for decoder in ("always", "never"):
        assert _rows(path, to, decoder) == []
    one, other = asked("by_always"), asked("by_never")
    assert len(one) >= len(TABLE)
    assert one == other


def test_duckdb(path: Path) -> None:
    to = path.with_name("a.duckdb")

    def asked(table: str) -> list[Any]:
        with duckdb.connect(str(to)) as database:
            rows = database.execute(f"FROM {table} ORDER BY ALL").fetchall()
            return rows + database.execute(f"DESCRIBE {table}").fetchall()

    _compare(path, f"duckdb://{to}", asked)


def test_postgresql(
    path: Path, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In binary, as far as the server takes it."""
    monkeypatch.setenv("PGPASSWORD", postgresql.password)

    def asked(table: str) -> list[Any]:
        columns = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name"
        rows = postgresql.ask(f"SELECT t::text FROM {table} t ORDER BY 1")
        return rows + postgresql.ask(f"{columns} = '{table}' ORDER BY ordinal_position")

    _compare(path, postgresql.uri, asked)


def test_mariadb(path: Path, mariadb: MariaDB) -> None:
    mariadb.query("CREATE DATABASE parquet_here")
    names = ", ".join(
        f"hex({n})" if n in ("bytes", "fixed") else f"`{n}`" for n in TABLE.column_names
    )

    def asked(table: str) -> list[Any]:
        rows = mariadb.query(f"SELECT {names} FROM parquet_here.{table} ORDER BY 1")
        return [*rows, *mariadb.query(f"SHOW COLUMNS FROM parquet_here.{table}")]

    _compare(path, mariadb.uri("parquet_here"), asked)
