"""What is known of the tables of a folder is not asked again, until a statement may change it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowfall
from rowfall.core.errors import EngineError
from rowfall.core.model import Statement
from rowfall.core.sql import about_tables, tables_called
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import table_uuid
from rowfall.systems.clickhouse.embedded import Embedded

TABLE = "ENGINE = MergeTree ORDER BY a"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that get to the engine's process."""
    seen: list[str] = []
    original = Embedded._sent

    def note(self: Embedded, statement: Statement, sql: str, *args: Any) -> Any:
        seen.append(sql)
        return original(self, statement, sql, *args)

    monkeypatch.setattr(Embedded, "_sent", note)
    return seen


@pytest.fixture
def engine(tmp_path: Path, sent: list[str]) -> Iterator[Embedded]:
    found = Embedded(tmp_path / "data", memory=1 << 30)
    yield found
    found.close()


def run(engine: Embedded, text: str, alters: str | None = "") -> None:
    engine.run(Statement(SqlText.of(text), alters=alters))


def test_a_new_folder_has_no_tables_and_those_of_the_system(
    engine: Embedded, sent: list[str]
) -> None:
    assert engine.ask(about_tables(["default"], ["t"])) == []
    assert engine.ask(tables_called("_rowfall_")) == []
    assert engine.existing_table("default", "t") is None
    assert sent == []
    assert engine.ask(about_tables(["system"], ["tables"]))[0][1] == "tables"


def test_a_table_is_asked_for_once_until_it_may_have_changed(
    engine: Embedded, sent: list[str]
) -> None:
    run(engine, f"CREATE TABLE default.t (a UInt8) {TABLE}")
    before = table_uuid(engine, "default", "t")
    run(engine, "INSERT INTO default.t SELECT 1", alters=None)
    del sent[:]
    assert table_uuid(engine, "default", "t") == before
    assert sent == []
    run(engine, "DROP TABLE default.t SYNC")
    assert table_uuid(engine, "default", "t") == ""
    run(engine, f"CREATE TABLE default.t (a UInt8) {TABLE}")
    assert table_uuid(engine, "default", "t") not in ("", before)
    run(engine, "ALTER TABLE default.t ADD COLUMN b UInt8")
    assert "`b` UInt8" in engine.ask(about_tables(["default"], ["t"]))[0][7]


def test_tables_of_an_attempt_leave_others_as_they_are(engine: Embedded, sent: list[str]) -> None:
    run(engine, f"CREATE TABLE default.t (a UInt8) {TABLE}")
    both = about_tables(["default"], ["t", "_rowfall_x_1"])
    known = table_uuid(engine, "default", "t")
    assert len(engine.ask(both)) == 1
    assert engine.ask(tables_called("_rowfall_")) == []
    run(engine, f"CREATE TABLE default._rowfall_x_1 (a UInt8) {TABLE}", alters="_rowfall_x_1")
    del sent[:]
    assert table_uuid(engine, "default", "t") == known
    assert sent == []
    assert len(engine.ask(both)) == 2
    assert engine.ask(tables_called("_rowfall_")) == [["_rowfall_x_1"]]
    run(engine, "DROP TABLE default._rowfall_x_1 SYNC", alters="_rowfall_x_1")
    assert len(engine.ask(both)) == 1
    assert engine.ask(tables_called("_rowfall_")) == []


def test_a_statement_that_fails_may_have_changed_something(
    engine: Embedded, sent: list[str]
) -> None:
    run(engine, f"CREATE TABLE default.t (a UInt8) {TABLE}")
    table_uuid(engine, "default", "t")
    with pytest.raises(EngineError):
        run(engine, "ALTER TABLE default.t DROP COLUMN z")
    del sent[:]
    table_uuid(engine, "default", "t")
    assert len(sent) == 1


def test_what_is_known_cannot_be_changed_by_whoever_asks(engine: Embedded) -> None:
    run(engine, f"CREATE TABLE default.t (a UInt8) {TABLE}")
    question = about_tables(["default"], ["t"])
    engine.ask(question)[0].clear()
    assert engine.ask(question)[0][1] == "t"


def test_another_process_of_the_engine_is_asked_anew(engine: Embedded, sent: list[str]) -> None:
    run(engine, f"CREATE TABLE default.t (a UInt8) {TABLE}")
    known = table_uuid(engine, "default", "t")
    engine.abandon()
    engine.revive()
    del sent[:]
    assert table_uuid(engine, "default", "t") == known
    assert len(sent) == 1


def test_a_small_load_runs_few_statements(
    tmp_path: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes 1 to 5 ms of the 200 that a thousand rows take."""
    monkeypatch.chdir(tmp_path)
    counts = []
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("a,b\n" + "".join(f"{n},{name}{n}\n" for n in range(100)))
        del sent[:]
        rowfall.load(name, to=tmp_path / "data", table="t")
        counts.append(len(sent))
    assert counts[0] <= 10, "into a new table"
    assert counts[1] <= 11, "into one that is there"
