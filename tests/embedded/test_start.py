"""When the engine's process starts, and what is said when it cannot."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rowfall.core.errors import EngineError
from rowfall.core.model import Statement
from rowfall.core.sql import tables_called
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import table_uuid
from rowfall.systems.clickhouse import prestart
from rowfall.systems.clickhouse.chdb_child import STATUS
from rowfall.systems.clickhouse.embedded import Embedded, FolderInUseError

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


def test_an_engine_that_is_about_to_let_go_is_waited_for(tmp_path: Path) -> None:
    with held(tmp_path) as status:
        threading.Timer(0.3, fcntl.flock, (status, fcntl.LOCK_UN)).start()
        engine = Embedded(tmp_path, memory=1 << 30)
        try:
            assert engine.run(ONE).data == b"1\n"
        finally:
            engine.close()


def test_a_folder_that_another_engine_keeps_is_said_to_be_in_use(tmp_path: Path) -> None:
    with held(tmp_path):
        engine = Embedded(tmp_path, memory=1 << 30)
        try:
            with pytest.raises(FolderInUseError, match=r"by another engine \(pid 4242\)"):
                engine.run(ONE)
        finally:
            engine.close()


@contextmanager
def held(folder: Path) -> Iterator[int]:
    """Lock a folder as an engine does that has it open."""
    with (folder / STATUS).open("w+") as status:
        status.write("PID: 4242\n")
        status.flush()
        fcntl.flock(status, fcntl.LOCK_EX)
        yield status.fileno()


@pytest.mark.parametrize(
    ("sources", "to", "early"),
    [
        (["a.csv"], None, True),
        (["s3://bucket/a.csv"], "./folder", True),
        (["a.parquet"], "clickhouse://host", False),
        (["s3://bucket/a.csv", "b.avro"], "clickhouse://host", True),
        (["a.csv", "b.TSV.gz", "c.jsonl"], "clickhouse://host", False),
        (["s3://bucket/a.csv"], "clickhouse://host", False),
        (["generate://trips"], "clickhouses://host", False),
        (["-"], None, False),
    ],
)
def test_a_child_starts_early_where_it_will_be_wanted(
    sources: list[str], to: str | None, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting_children(monkeypatch) as waiting:
        prestart.prestart(sources, to)
        assert bool(waiting) == early


@pytest.mark.parametrize(
    ("line", "early"),
    [
        ("load a.csv --to ./folder", True),
        ("plan s3://bucket/a.csv", True),
        ("load s3://bucket/a.csv --to clickhouse://host", False),
        ("load s3://bucket/a.csv --to=clickhouses://host", False),
        ("load - --format CSV", False),
        ("load --help", False),
        ("load", False),
        ("status", False),
        ("--version", False),
        ("", False),
    ],
)
def test_a_child_starts_before_the_command_line_is_parsed(
    line: str, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with waiting_children(monkeypatch) as waiting:
        prestart.prestart_early(line.split())
        assert bool(waiting) == early


@contextmanager
def waiting_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[prestart.PrestartedChild]]:
    waiting: list[prestart.PrestartedChild] = []
    monkeypatch.setattr(prestart, "_waiting", waiting)
    yield waiting
    for child in waiting:
        child.process.kill()
        child.process.wait()
        for end in (child.stdin, child.stdout, child.stderr):
            end.close()


def test_what_was_answered_is_there_for_whoever_opens_the_folder_next(tmp_path: Path) -> None:
    """Closing does not wait until the engine's process has given its memory back."""
    for number in range(1, 6):
        engine = Embedded(tmp_path, memory=1 << 30)
        try:
            run(engine, "CREATE TABLE IF NOT EXISTS t (a UInt64) ENGINE = MergeTree ORDER BY a")
            run(engine, f"INSERT INTO t SELECT {number} FROM numbers(1_000_000)")
            found = run(engine, "SELECT count(), sum(a) FROM t")
        finally:
            pid = engine.pid
            engine.close()
        assert not runs(pid)
        assert found == f"{number * 1_000_000}\t{number * (number + 1) // 2 * 1_000_000}\n"


def run(engine: Embedded, text: str) -> str:
    return engine.run(Statement(SqlText.of(text), format="TSV")).data.decode()


def runs(pid: int) -> bool:
    """Whether a thread of the process may still run code of its own."""
    try:
        tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(not int(task.rpartition(")")[2].split()[6]) & 0x4 for task in tasks)


def test_a_child_that_waits_in_another_folder_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative names of a statement would mean files of the folder of an earlier call."""
    monkeypatch.setattr(prestart, "_waiting", [])
    taken = []
    for name in ("before", "now", "now"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        prestart.prestart(("rows.csv",), None)
        (waiting,) = prestart._waiting
        taken.append(waiting)
    assert taken[0] is taken[1]
    child = prestart.take(())
    try:
        assert child is not taken[0]
        assert taken[0].process.poll() is not None
        assert os.readlink(f"/proc/{child.process.pid}/cwd") == str(tmp_path / "now")
        prestart._waiting.append(child)
        assert prestart.take(()) is child
    finally:
        child.drop()


def test_a_new_folder_has_no_tables_until_one_is_made(tmp_path: Path) -> None:
    make = Statement(SqlText.of("CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a"))
    list_all = tables_called("t")
    engine = Embedded(tmp_path, memory=1 << 30)
    try:
        assert table_uuid(engine, "default", "t") == ""
        assert engine.ask(list_all) == []
        assert engine.ask("SELECT count() FROM system.tables WHERE name = 't'") == [[0]]
        engine.run(make)
        made = table_uuid(engine, "default", "t")
        assert made
        assert ["t"] in engine.ask(list_all)
    finally:
        engine.close()
    again = Embedded(tmp_path, memory=1 << 30)
    try:
        assert table_uuid(again, "default", "t") == made
        assert ["t"] in again.ask(list_all)
    finally:
        again.close()
