"""Fixtures on the real embedded engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import forking
from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText
from rowfall.ledger import Ledger
from rowfall.systems.clickhouse import prestart
from rowfall.systems.clickhouse.embedded import Embedded

Run = Callable[[str], list[list[str]]]


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's process is started here as users start it, see tests/forking.py."""
    monkeypatch.setattr(prestart, "_spawn", forking.started)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def engine(folder: Path) -> Iterator[Embedded]:
    """An engine of its own on an empty folder."""
    engine = Embedded(folder, memory=1 << 30)
    yield engine
    engine.close()


@pytest.fixture
def ledger(folder: Path, engine: Embedded) -> Iterator[Ledger]:
    ledger = Ledger(folder / "rowfall.ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def run(engine: Embedded) -> Run:
    """Run SQL; rows as lists of text."""

    def run(text: str) -> list[list[str]]:
        data = engine.run(Statement(SqlText.of(text), format="TabSeparatedRaw")).data
        return [line.split("\t") for line in data.decode().splitlines()]

    return run
