"""Rows that DuckDB computes are made in a process of limited memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.sources.limited_rows import limited_rows
from rowfall.systems.duckdb import client
from rowfall.systems.duckdb.source import DuckDBSource


def _asked(path: str, query: str, options: Options) -> Any:
    request = {"path": path, "rows": query}
    return limited_rows(client.__name__, request, "a", options)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("computed") / "a.duckdb"
    with client.driver().connect(str(path)) as file:
        file.execute("CREATE TABLE t AS FROM range(20000) t(a)")
    return str(path)


def test_batches_are_small_and_errors_come_through(path: str) -> None:
    with _asked(path, "SELECT a, a / 4 AS b FROM t", Options()) as rows:
        assert rows.schema.names == ["a", "b"]
        batches = list(rows)
    assert sum(batch.num_rows for batch in batches) == 20_000
    assert max(batch.num_rows for batch in batches) == client.BATCH_ROWS
    query = "SELECT error('no ' || a) FROM t"
    asked = _asked(path, query, Options(query=query))
    with pytest.raises(SourceError, match=r"cannot read a: .*no 0"), asked as rows:
        list(rows)


def test_a_value_that_takes_more_than_the_memory(path: str) -> None:
    """A list of 200 million numbers took 11 GB; DuckDB counted none of it."""
    query = "SELECT range(200000000) AS a"
    asked = _asked(path, query, Options(memory="512MiB"))
    with pytest.raises(SourceError, match="take more than the 512MiB of --memory"), asked as rows:
        list(rows)


def test_what_is_computed(path: str, tmp_path: Path) -> None:
    made = tmp_path / "b.duckdb"
    with client.driver().connect(str(made)) as file:
        file.execute("CREATE TABLE t (n BIGINT)")
        file.execute("CREATE TABLE g (n BIGINT, l BIGINT[] AS (range(n)))")
        file.execute("CREATE VIEW v AS FROM t")
    for table, is_computed in (("t", False), ("g", True), ("v", True)):
        source = DuckDBSource([f"duckdb://{made}/{table}"], Options())
        source.listing()
        assert source._computed is is_computed, table
        source.close()
