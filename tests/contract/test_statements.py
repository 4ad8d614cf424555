"""How many statements a small load runs on a server: each is a round trip, and work for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rowfall
from lab.clickhouse import ClickHouse
from rowfall.core.errors import EngineError
from rowfall.core.model import Outcome, Statement
from rowfall.systems.clickhouse.http import Exchange
from rowfall.systems.clickhouse.server import Server

CONNECT = ("version, limits, memory that is left, settings of the profile",)
OPEN = ("the catalogue", "databases", "grants with roles")
SURVEY = ("the file on the server", "disks")
ATTEMPT = (
    "journal: claim", "journal: lines", "make staging", "insert", "other journals",
    "journal: count", "definitions now", "count staging", "sync", "staging is whole",
    "journal: commit", "journal: lines", "attach", "definitions now", "sync", "parts arrived",
    "journal: landed", "drop staging",
)  # fmt: skip
END = ("parts to merge",)
NEW = (
    *CONNECT, *OPEN, "the catalogue", *SURVEY, "make the table",
    "the catalogue", "make the journal", *ATTEMPT, *END,
)  # fmt: skip
# The catalogue once more than that when it was opened: settled, and before rows are staged.
SECOND = (
    *CONNECT, *(w for w in OPEN if w != "databases"), "the catalogue", "journal: lines",
    "staging tables", "journal: ids", "journal: tables", "columns", *SURVEY, "definitions now",
    "the catalogue", *ATTEMPT, *END,
)  # fmt: skip

# What statements are for, by what they begin with or hold; the first that fits.
PURPOSES = (
    (r"SELECT 'own'.* groupArray", "version, limits, memory that is left, settings of the profile"),
    (r"SELECT database, name, toString\(uuid\).*startsWith", "the catalogue"),
    (r"SELECT database, name, toString\(uuid\)", "definitions now"),
    (r"SELECT name, engine FROM system.databases", "databases"),
    (r"SHOW GRANTS FINAL", "grants with roles"),
    (r"SELECT toString\(_size\)", "the file on the server"),
    (r"SELECT create_table_query", "columns"),
    (r"SELECT count\(\), sum\(toFloat64\(unreserved", "disks"),
    (r"CREATE TABLE IF NOT EXISTS .*_rowfall_journal", "make the journal"),
    (r"CREATE TABLE IF NOT EXISTS", "make the table"),
    (r"INSERT INTO .*_rowfall_journal.* SELECT '(\w+)'", r"journal: \1"),
    (r"(WITH .*)?SELECT event, attempt", "journal: lines"),
    (r"SELECT splits, attempt IN", "journal: ids"),
    (r"SELECT toString\(into\)", "journal: tables"),
    (r"SELECT DISTINCT name FROM system.tables", "staging tables"),
    (r"CREATE TABLE .*_rowfall_", "make staging"),
    (r"INSERT INTO .*FORMAT Native", "insert"),
    (r"SELECT database FROM system.tables", "other journals"),
    (r"SELECT partition_id", "count staging"),
    (r"SYSTEM SYNC", "sync"),
    (r"SELECT sum\(rows\) FROM system.parts", "staging is whole"),
    (r"ALTER TABLE .* ATTACH", "attach"),
    (r"SELECT count\(\) FROM system.parts", "parts arrived"),
    (r"DROP TABLE", "drop staging"),
    (r"SELECT sum\(n\)", "parts to merge"),
)


def purpose(text: str) -> str:
    """Return what a statement is for; itself where nobody has said so."""
    flat = " ".join(text.split())
    for shape, name in PURPOSES:
        if found := re.match(shape, flat):
            return found.expand(name) if "\\" in name else name
    return flat


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that this process asks servers, in order."""
    seen: list[str] = []
    original = Exchange.__init__

    def note(self: Exchange, connections: Any, parameters: Any, body: Any, **more: Any) -> None:
        text = parameters.get("query") or body.decode()
        # Else progress, or the journals that other tests keep on this server.
        progress = "query_id" in text.partition(" FROM ")[0]
        if not progress and not text.startswith("SELECT max(_block_number)"):
            seen.append(purpose(text))
        original(self, connections, parameters, body, **more)

    monkeypatch.setattr(Exchange, "__init__", note)
    return seen


def test_a_small_load_asks_a_server_few_questions(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    database = "few_statements"
    clickhouse.query(f"CREATE DATABASE {database}")
    try:
        for name, expected in (("a.csv", NEW), ("b.csv", SECOND)):
            Path(name).write_text("a,b\n" + "".join(f"{n},{name}{n}\n" for n in range(100)))
            asked.clear()
            rowfall.load(name, to=clickhouse.uri(database), table="t")
            assert sorted(asked) == sorted(expected), "\n".join(asked)
    finally:
        clickhouse.query(f"DROP DATABASE {database} SYNC")


def test_a_staging_table_that_is_not_dropped_at_once(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    """It may be larger than the server lets be dropped: then it is asked how large it is."""
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    run, refused = Server.run, list[str]()

    def refusing(self: Server, statement: Statement, **more: Any) -> Outcome:
        text = str(statement.sql)
        if text.startswith("DROP TABLE") and not refused:
            refused.append(text)
            raise EngineError("table or partition is too large", code=359)
        return run(self, statement, **more)

    monkeypatch.setattr(Server, "run", refusing)
    database = "large_staging"
    clickhouse.query(f"CREATE DATABASE {database}")
    try:
        Path("a.csv").write_text("a\n" + "".join(f"{n}\n" for n in range(100)))
        rowfall.load("a.csv", to=clickhouse.uri(database), table="t")
        assert len(refused) == 1
        assert asked.count("drop staging") == 1
        left = f"SELECT name FROM system.tables WHERE database = '{database}' ORDER BY name"
        assert clickhouse.query(left).split() == ["_rowfall_journal", "t"]
    finally:
        clickhouse.query(f"DROP DATABASE {database} SYNC")
