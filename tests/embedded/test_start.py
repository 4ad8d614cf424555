"""When the engine's process starts, and what is said when it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.engines import prestart
from rowfall.engines.embedded import Embedded
from rowfall.errors import EngineError
from rowfall.model import Statement
from rowfall.sqltext import SqlText

ONE = Statement(SqlText.of("SELECT 1"), format="TSV")


def test_an_idle_engine_starts_with_its_first_statement() -> None:
    engine = Embedded(None, memory=1 << 30, idle=True)
    try:
        assert engine.pid == 0
        assert engine.cpu_seconds() == 0
        assert engine.run(ONE).data == b"1\n"
        assert engine.pid > 0
    finally:
        engine.close()


def test_an_idle_engine_that_nobody_needed_closes() -> None:
    engine = Embedded(None, memory=1 << 30, idle=True)
    engine.abandon()
    engine.close()
    assert engine.pid == 0


def test_a_folder_that_cannot_be_opened_is_said_by_every_statement(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder")
    engine = Embedded(tmp_path, memory=1 << 30)
    try:
        for _ in range(2):
            with pytest.raises(EngineError, match="cannot open the data folder"):
                engine.run(ONE)
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("sources", "to", "early"),
    [
        (["a.csv"], None, True),
        (["s3://bucket/a.csv"], "./folder", True),
        (["a.csv"], "clickhouse://host", True),
        (["s3://bucket/a.csv", "b.csv"], "clickhouse://host", True),
        (["s3://bucket/a.csv"], "clickhouse://host", False),
        (["generate://trips"], "clickhouses://host", False),
        (["-"], None, False),
    ],
)
def test_a_child_starts_early_where_it_will_be_wanted(
    sources: list[str], to: str | None, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[prestart.Child] = []
    monkeypatch.setattr(prestart, "_waiting", waiting)
    prestart.prestart(sources, to)
    try:
        assert bool(waiting) == early
    finally:
        for child in waiting:
            child.process.kill()
            child.process.wait()
            for end in (child.stdin, child.stdout, child.stderr):
                end.close()
