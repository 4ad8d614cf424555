"""Which tables are loaded at a time, and when no more begin."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rowfall.core import events
from rowfall.core.errors import RowfallError, SourceError, TargetError
from rowfall.core.events import Event, Listener
from rowfall.core.options import Options
from rowfall.core.results import Report
from rowfall.core.tables import FoundTable, TableReport
from rowfall.run import many
from rowfall.sources.many import Readers
from rowfall.targets import open_target

DONE = Report("id", "done", "s", "t", "x", "now", splits=1, splits_loaded=1, rows=5)
MB = 1 << 20


class Scripted:
    """A source whose tables are in the script: name -> bytes."""

    text = "db"

    def __init__(self, sizes: dict[str, int], most: int | None = None) -> None:
        self.sizes, self.most = sizes, most

    def list_tables(self) -> list[FoundTable]:
        return [FoundTable("", name, bytes=size) for name, size in self.sizes.items()]

    def measure(self, tables: Any) -> Any:
        return tables

    def readers(self) -> Readers:
        return Readers(self.most, f"the server has {self.most} connections left")

    def address(self, table: FoundTable) -> str:
        return f"db/{table.name}"

    def moment(self) -> str:
        return "now"

    def begin(self, tables: Any, streams: int) -> str:
        return "now"

    def remarks(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Do nothing."""


Script = Callable[[str, Callable[[], None]], Report]


class Loads:
    """Loads that do what a script says; ``order`` in which they began, ``most`` at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, source: Scripted, script: Script) -> None:
        self.order: list[str] = []
        self.most = self._now = 0
        self._guard = threading.Lock()
        monkeypatch.setattr(many, "open_tables", lambda text, options: source)

        def load(run: Any, job: Any, heard: Any) -> Report:
            with self._guard:
                self.order.append(job.found.name)
                self._now += 1
                self.most = max(self.most, self._now)
            try:
                return script(
                    job.found.name,
                    lambda: run._hear(job, heard, events.AttemptStarted("1", 1, None)),
                )
            finally:
                with self._guard:
                    self._now -= 1

        monkeypatch.setattr(many._Run, "_load", load)

    def run(self, **given: Any) -> list[TableReport]:
        request = many.TablesRequest("db", "null:", None, Options(tables="*", **given))
        heard: list[Event] = []

        @contextmanager
        def watch(emit: Listener) -> Iterator[Listener]:
            yield emit

        return list(many.load_tables(request, heard.append, watch).tables)


def test_the_first_load_runs_alone_until_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes what all need in the target, and meets what all would meet."""
    began, others = threading.Event(), threading.Event()

    def script(name: str, begin: Callable[[], None]) -> Report:
        if name == "big":
            assert not others.wait(0.3)
            began.set()
            begin()
            assert others.wait(10)
        else:
            assert began.is_set()
            others.set()
        return DONE

    sizes = {"a": 1, "big": 900 * MB, "b": 2}
    loads = Loads(monkeypatch, Scripted(sizes), script)
    assert [t.outcome for t in loads.run(threads=2, memory="4GiB")] == ["done"] * 3
    assert loads.order == ["big", "b", "a"]


@pytest.mark.parametrize(
    ("good", "error", "text"),
    [
        ("", lambda name: TargetError(f"cannot write {name}: no right"), "first 3 tables failed"),
        ("a", lambda name: SourceError(f"{name} is away", transient=True), "3 tables one after"),
    ],
)
def test_what_all_would_meet_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, good: str, error: Callable[[str], RowfallError], text: str
) -> None:
    def script(name: str, begin: Callable[[], None]) -> Report:
        if name == good:
            return DONE
        raise error(name)

    loads = Loads(monkeypatch, Scripted(dict.fromkeys("abcdefgh", 1)), script)
    found = loads.run(memory="512MiB")  # one after the other
    begun = 3 + len(good)
    assert len(loads.order) == begun
    assert [t.outcome for t in found].count("not begun") == 8 - begun
    problem = found[-1].problem
    assert problem is not None
    assert text in problem.error


def test_tables_that_fail_by_themselves_stop_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))

    def script(name: str, begin: Callable[[], None]) -> Report:
        raise SourceError(f"reason {next(numbers)}") if name != "h" else ValueError("a bug")

    loads = Loads(monkeypatch, Scripted(dict.fromkeys("abcdefgh", 1)), script)
    found = {t.source: t for t in loads.run()}
    assert {t.outcome for t in found.values()} == {"failed"}
    bug = found["h"].problem
    assert bug is not None
    assert (bug.error, bug.exit) == ("ValueError: a bug", 70)
    assert "Traceback" in (bug.hint or "")


@pytest.mark.parametrize(
    ("memory", "most", "to", "slots", "why"),
    [
        ("64GiB", None, "null:", 4, "2 for each of 2 cores"),
        ("1GiB", None, "null:", 2, "each needs 512 MiB of 1.00 GiB"),
        ("64GiB", 6, "null:", 2, "the server has 6 connections left"),
        ("64GiB", 1, "null:", 1, "the server has 1 connections left"),
        ("64GiB", None, "x.duckdb", 1, "a file takes one writer, which uses all cores"),
    ],
)
def test_how_many_at_a_time(
    memory: str, most: int | None, to: str, slots: int, why: str
) -> None:  # fmt: skip
    options = Options(threads=2, memory=memory)
    source: Any = Scripted({}, most)
    size = int(memory.removesuffix("GiB")) << 30
    found, reason = many._slots(source, options, size, open_target(to, "t", options), 50)
    assert (found, reason) == (slots, why)


def test_large_tables_leave_room_for_small_ones() -> None:
    table = FoundTable("s", "t", bytes=900 * MB)
    assert many._weight(table, 4) == 3
    assert many._weight(table, 1) == 1
    assert many._weight(FoundTable("s", "t", rows=10), 4) == 1
    assert many._weight(FoundTable("s", "t", rows=2_000_000), 4) == 3
