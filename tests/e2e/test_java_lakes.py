"""Loads of lake tables that Spark has written, and of those that a REST catalogue names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from e2e.tools import Shell
from lab.java_lakes import RestCatalogue, by_spark

# Java starts: 30 s of CPU for the tables, and packages of 270 MB once for each machine.
pytestmark = [
    pytest.mark.long, pytest.mark.xdist_group("java-lakes"), pytest.mark.timeout(600),
]  # fmt: skip


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of Spark: Delta with both modes of column mapping, Iceberg with deletes."""
    folder = tmp_path_factory.mktemp("spark")
    statements = []
    for mode in ("name", "id"):
        table = f"delta.`{folder}/{mode}`"
        statements += [
            f"CREATE TABLE {table} (id BIGINT, name STRING, gone INT, part STRING) USING delta "
            f"PARTITIONED BY (part) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')",
            f"INSERT INTO {table} SELECT id, concat('n', id % 7), 1, concat('p', id % 3) "
            "FROM range(100)",
            f"ALTER TABLE {table} RENAME COLUMN name TO title",
            f"ALTER TABLE {table} DROP COLUMN gone",
            # The name of a column that was dropped is taken by another one.
            f"ALTER TABLE {table} ADD COLUMN gone STRING",
            f"INSERT INTO {table} SELECT id, concat('n', id % 7), concat('p', id % 3), 'new' "
            "FROM range(100, 200)",
        ]
    deleted = f"delta.`{folder}/deleted`"
    statements += [
        f"CREATE TABLE {deleted} (id BIGINT, s STRUCT<a: INT, b: STRING>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableDeletionVectors' = 'true')",
        f"INSERT INTO {deleted} SELECT id, struct(int(id), concat('b', id)) FROM range(100)",
        f"DELETE FROM {deleted} WHERE id < 5",
        "CREATE TABLE ice.db.t (id BIGINT, name STRING, at TIMESTAMP) USING iceberg "
        "PARTITIONED BY (bucket(2, id)) "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')",
        "INSERT INTO ice.db.t SELECT id, concat('n', id % 7), timestamp'2024-01-01 00:00:00' "
        "FROM range(100)",
        "CREATE TABLE ice.db.plain (id BIGINT, name STRING, price DECIMAL(9, 2)) USING iceberg",
        "INSERT INTO ice.db.plain SELECT id, concat('n', id % 7), id / 4 FROM range(100)",
        "DELETE FROM ice.db.t WHERE id < 5",
        "ALTER TABLE ice.db.t RENAME COLUMN name TO title",
    ]
    by_spark(folder, *statements)
    return folder


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_of_delta(mode: str, shell: Shell, spark: Path) -> None:
    for snapshot, stop in (("1", 100), ("", 200)):
        asked = ["--snapshot", snapshot, "--select", "id"] if snapshot else []
        table = f"t{snapshot}"
        shell.ok("load", f"delta+{spark}/{mode}", "--table", table, *asked)
        assert shell.row(f"SELECT count(), uniqExact(id), sum(id) FROM {table}") == [
            stop, stop, stop * (stop - 1) // 2
        ]  # fmt: skip
    assert shell.rows(
        "SELECT part, uniqExact(title), countIf(isNull(gone)), countIf(gone = 'new') "
        "FROM t GROUP BY part ORDER BY part"
    ) == [["p0", 7, 34, 33], ["p1", 7, 33, 34], ["p2", 7, 33, 33]]
    assert shell.row("SELECT countIf(title = concat('n', toString(id % 7))) FROM t") == [200]
    assert "nothing to load" in shell.ok("load", f"delta+{spark}/{mode}", "--table", "t").err


def test_deletion_vectors_and_structs_of_spark(shell: Shell, spark: Path) -> None:
    shell.ok("load", f"delta+{spark}/deleted", "--table", "t")
    assert shell.row(
        "SELECT count(), sum(id), countIf(s.a = id AND s.b = concat('b', toString(id))) FROM t"
    ) == [95, 4940, 95]


def test_iceberg_tables_of_spark(shell: Shell, spark: Path) -> None:
    shell.ok("load", f"iceberg+{spark}/db/t", "--table", "t")
    assert shell.row("SELECT count(), uniqExact(id), sum(id), uniqExact(title) FROM t") == [
        95, 95, 4940, 7
    ]  # fmt: skip
    shell.ok("load", f"iceberg+{spark}/db/plain", "--table", "plain")
    assert shell.row("SELECT count(), sum(id), sum(price) FROM plain") == [100, 4950, 1237.5]


@pytest.fixture
def catalogue() -> Iterator[RestCatalogue]:
    with RestCatalogue() as service:
        yield service


def test_a_table_of_a_rest_catalogue(shell: Shell, catalogue: RestCatalogue) -> None:
    """It lands once, and what the catalogue says later is what the next load takes."""
    named = load_catalog("lab", type="rest", uri=catalogue.uri)
    named.create_namespace("sales")

    def rows(start: int, stop: int) -> pa.Table:
        return pa.table(
            {"id": pa.array(range(start, stop)), "name": [f"n{i}" for i in range(start, stop)]}
        )

    table = named.create_table("sales.orders", rows(0, 1).schema)
    table.append(rows(0, 50))
    # A process of its own: pyiceberg reads its configuration when it is imported.
    env = {"PYICEBERG_CATALOG__LAB__TYPE": "rest", "PYICEBERG_CATALOG__LAB__URI": catalogue.uri}
    command = ("load", "iceberg://lab/sales.orders", "--json")

    def load() -> int:
        done = shell.cli(*command, env=env)
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["rows"])

    assert load() == 50
    table.append(rows(50, 80))
    assert load() == 30
    assert shell.row("SELECT count(), uniqExact(name), sum(id) FROM orders") == [80, 80, 3160]
    # All tables of the namespace are the same loads.
    every = ("load", "iceberg://lab/sales", "--tables", "*", "--json")
    done = shell.cli(*every, env=env)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["tables"]
    assert (found["source"], found["loaded_before"]) == ("sales.orders", True)
    catalogue.stop()
    done = shell.cli(*command, env=env)
    assert done.returncode == 4
    assert "lab" in done.stderr
