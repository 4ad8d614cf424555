"""Files of DuckDB as sources: which table, what is new, what is refused."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from contract.values import duckdb_at
from e2e.tools import Shell


@pytest.fixture
def file(shell: Shell) -> Path:
    with duckdb_at(shell.folder / "shop.duckdb") as do:
        do("CREATE SEQUENCE numbers")
        do("CREATE TABLE orders (id BIGINT PRIMARY KEY DEFAULT nextval('numbers'), name VARCHAR)")
        do("INSERT INTO orders (name) SELECT 'x' || n FROM generate_series(1, 1000) AS g(n)")
    return shell.folder / "shop.duckdb"


def test_the_only_table_of_a_file(shell: Shell, file: Path) -> None:
    """A later run loads what has come: the key grows."""
    assert shell.ok("load", "shop.duckdb", "--json").document["rows"] == 1000
    assert shell.ok("load", "duckdb:///shop.duckdb", "--table", "shop", "--json").document[
        "rows"] == 0  # fmt: skip
    with duckdb_at(file) as do:
        do("INSERT INTO orders (name) VALUES ('new'), ('newer')")
    assert shell.ok("load", "shop.duckdb", "--json").document["rows"] == 2
    found = shell.ok("query", "SELECT count(), uniqExact(id), max(id) FROM shop", "--format", "TSV")
    assert found.out.split() == ["1002", "1002", "1002"]


def test_what_is_no_table_of_a_file(shell: Shell, file: Path) -> None:
    """Each hint names what loads it."""
    assert "as a local file: rowfall load " in shell.ends(4, "load", "*.duckdb").talk
    with duckdb_at(file) as do:
        do("CREATE TABLE sales (id INT, took INTERVAL)")
        do("INSERT INTO sales VALUES (1, INTERVAL 2 HOUR)")
    done = shell.ends(2, "load", "shop.duckdb")
    assert "has 2 tables" in done.talk
    words = shlex.split(done.err.partition("Name one of them: ")[2].replace(",", ""))
    done = shell.ends(4, "load", words[1])
    assert "no column is like took INTERVAL" in done.talk
    cast = shlex.split(done.err.partition("rowfall load ")[2])
    shell.ok("load", *cast)
    assert shell.ok("query", "SELECT * FROM sales", "--format", "TSV").out == "1\t02:00:00\n"
    for text, code, said in (
        (f"duckdb://{file}/sale", 4, "Did you mean sales?"),
        (f"duckdb://{file}/sales?tabel=x", 2, "Did you mean table?"),
        (f"duckdb://{file}/orders?key=name", 2, "Integers: id."),
        ("duckdb://host/shop.duckdb", 2, "names no file"),
        ("duckdb:///no/where.duckdb", 4, "There is no folder /no."),
    ):
        assert said in shell.ends(code, "load", text, "--to", "null:").talk
    (shell.folder / "half.duckdb").write_bytes(file.read_bytes()[:3000])
    assert "half.duckdb: Could not read" in shell.ends(4, "load", "half.duckdb").talk


def test_other_loads_never_import_it(shell: Shell) -> None:
    shell.write("a.csv", "id\n1\n")
    done = shell.cli("load", "a.csv", "--to", "out.csv", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert "rowfall.run" in done.stderr
    assert "duckdb" not in done.stderr
