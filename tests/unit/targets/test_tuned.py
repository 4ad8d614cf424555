"""Combinations that were saved: what a load takes of them, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.options import Options
from rowfall.targets import tuned
from rowfall.targets.tuned import Tuned

MINE = Tuned("mine", {"streams": 4, "set": ("max_insert_threads=2",)}, "CSV", "table (embedded)",
             2, 1e6, "connections 4", "2026-11-27T12:00:00+00:00")  # fmt: skip


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path))
    return tmp_path


def test_what_is_saved_is_found_and_replaced(home: Path) -> None:
    assert tuned.names() == []
    assert tuned.save(MINE) == home / "tuned/mine.json"
    assert tuned.find("mine") == replace(
        MINE, options={**MINE.options, "set": ["max_insert_threads=2"]}
    )
    tuned.save(replace(MINE, cores=8))
    assert tuned.find("mine").cores == 8
    assert [path.name for path in (home / "tuned").iterdir()] == ["mine.json"]


def test_what_is_given_wins() -> None:
    tuned.save(MINE)
    taken = tuned.applied(Options(tuned="mine"))
    assert (taken.streams, taken.set) == (4, ("max_insert_threads=2",))
    given = Options(tuned="mine", streams=1, set=("max_insert_threads=8", "max_threads=3"))
    assert tuned.applied(given) == given
    assert tuned.applied(Options()) == Options()


def test_kinds() -> None:
    tuned.save(MINE)
    tuned.check_kinds("mine", "CSV", "table (embedded)")
    with pytest.raises(UsageError, match="another kind of source: CSV, and this is Parquet"):
        tuned.check_kinds("mine", "Parquet", "table (embedded)")
    with pytest.raises(UsageError, match="another kind of target"):
        tuned.check_kinds("mine", "CSV", "database (postgresql)")


@pytest.mark.parametrize("name", ["", "../x", "a b", ".hidden", "x" * 65])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name"):
        tuned.check_name(name)


def test_a_file_of_a_newer_version(home: Path) -> None:
    path = tuned.save(MINE)
    path.write_text(path.read_text().replace('"rowfall_tuned": 1', '"rowfall_tuned": 2'))
    with pytest.raises(UsageError, match="it is of version 2"):
        tuned.find("mine")


@pytest.mark.parametrize(
    "text", ["", '{"rowfall_tuned": 1', "[]", "\0" * 90, '{"rowfall_tuned": 1, "options": 5}']
)
def test_a_file_that_is_damaged(home: Path, text: str) -> None:
    tuned.save(MINE).write_text(text)
    with pytest.raises(UsageError, match="cannot read"):
        tuned.find("mine")


def test_an_option_that_there_is_not(home: Path) -> None:
    tuned.save(replace(MINE, options={"streems": 4}))
    with pytest.raises(UsageError, match="there is no option streems"):
        tuned.applied(Options(tuned="mine"))
