"""rowfall tables lists what a target holds, and the loads that have filled it."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.lake import Lake
from e2e.test_to_postgresql import Into
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def put(shell: Shell) -> None:
    shell.write("a.csv", "id,name\n" + "".join(f"{n},x\n" for n in range(50)))


def listed(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(t["name"], t["rows"], t["there"], t["loads"], t["source"]) for t in
            document["tables"]]  # fmt: skip


def test_a_folder(shell: Shell) -> None:
    assert shell.ok("tables").out.strip() == "no tables yet"
    put(shell)
    shell.ok("load", "a.csv", "--table", "t")
    shell.ok("load", "a.csv", "--table", "t")  # brings nothing
    shell.ok("load", "a.csv", "--table", "t", "--force")
    shell.ok("load", "a.csv", "--table", "gone")
    shell.ok("query", "--write", "DROP TABLE gone")
    shell.ok("query", "--write", "CREATE TABLE own (n Int64) ENGINE = MergeTree ORDER BY n")
    found = shell.ok("tables", "--json").document
    assert listed(found) == [
        ("default.gone", None, False, 1, "a.csv"),
        ("default.own", 0, True, 0, ""),
        ("default.t", 100, True, 2, "a.csv"),
    ]
    assert found["tables"][2]["bytes"] > 0
    head, *lines = shell.ok("tables").out.splitlines()
    assert head.split()[:4] == ["table", "rows", "bytes", "loads"]
    assert [line.split()[0] for line in lines] == ["default.gone", "default.own", "default.t"]
    assert max(map(len, lines)) < 80


@pytest.mark.long
def test_a_file_of_duckdb_and_files(shell: Shell) -> None:
    put(shell)
    shell.ok("load", "a.csv", "--to", "x.duckdb", "--table", "t")
    found = shell.ok("tables", "--to", "x.duckdb", "--json").document
    assert listed(found) == [("main.t", 50, True, 1, "a.csv")]
    shell.ok("load", "a.csv", "--to", "out.csv")
    ((name, rows, there, loads, _),) = listed(
        shell.ok("tables", "--to", "out.csv", "--json").document
    )
    assert (name.endswith("out.csv"), rows, there, loads) == (True, None, None, 1)


@pytest.mark.long
def test_a_server(lake: Lake) -> None:
    put(lake.shell)
    lake.load("a.csv", "--table", "t")
    found = lake.ok("tables", "--json").document
    assert listed(found) == [(f"{lake.database}.t", 50, True, 1, "a.csv")]


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_postgresql(shell: Shell, postgresql: PostgresqlServer) -> None:
    into = Into(shell, postgresql)
    put(shell)
    into.ends(0, "load", "a.csv", "--table", "t")
    into.do("ANALYZE {s}.t")
    found = into.ends(0, "tables", "--json").document
    assert listed(found) == [(f"{into.schema}.t", 50, True, 1, "a.csv")]
    assert found["tables"][0]["bytes"] > 0
