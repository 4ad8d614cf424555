"""Loads into a server that need no embedded engine: rowfall reads and infers by itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import rowfall
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer
from rowfall.systems.clickhouse import prestart
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
