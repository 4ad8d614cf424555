"""How many statements a small load runs on a server: each is a round trip, and work for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rowfall
from lab.clickhouse import ClickHouse
from rowfall.core.model import Statement
from rowfall.systems.clickhouse.server import Server


def test_a_small_load_asks_a_server_few_questions(
    clickhouse: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    original = Server.run

    def note(self: Server, statement: Statement, **more: Any) -> Any:
        seen.append(statement.sql.reveal())
        return original(self, statement, **more)

    monkeypatch.setattr(Server, "run", note)
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    database = "few_statements"
    clickhouse.query(f"CREATE DATABASE {database}")
    try:
        for name, most in (("a.csv", 43), ("b.csv", 52)):
            Path(name).write_text("a,b\n" + "".join(f"{n},{name}{n}\n" for n in range(100)))
            del seen[:]
            rowfall.load(name, to=clickhouse.uri(database), table="t")
            assert len(seen) <= most, "\n".join(seen)
            assert sum("dependencies_table" in text for text in seen) <= 10, "\n".join(seen)
    finally:
        clickhouse.query(f"DROP DATABASE {database} SYNC")
