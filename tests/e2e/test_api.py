"""The library: what the command does, as functions, with events."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import rowfall
from rowfall.core import errors
from rowfall.core.events import (
    AttemptPublished,
    AttemptStarted,
    Event,
    LoadEnded,
    LoadStarted,
    Note,
    Progressed,
    RunBegan,
    RunEnded,
    SplitFailed,
    StageEnded,
)
from rowfall.core.results import Report
from rowfall.run import load
from rowfall.run.attempts import AttemptRunner


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A data folder of its own, and no state of anybody else."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "data")


def ask(sql: str, to: str) -> list[list[Any]]:
    with tempfile.TemporaryFile() as out:
        rowfall.query(sql, to=to, format="JSONCompactEachRow", out_fd=out.fileno())
        out.seek(0)
        return [json.loads(line) for line in out.read().splitlines()]


def write_files(folder: Path, count: int, rows: int) -> None:
    folder.mkdir()
    for number in range(count):
        lines = "".join(f"{number * rows + i},n{i % 9}\n" for i in range(rows))
        (folder / f"f{number}.csv").write_text("id,name\n" + lines)


def test_a_connection_is_no_target_of_the_library(data: str, tmp_path: Path) -> None:
    """It would become a folder of that name."""
    (tmp_path / "rowfall.toml").write_text('[connections.prod]\nuri = "clickhouse://me@host/db"\n')
    with pytest.raises(
        errors.UsageError, match=r"prod is a connection of rowfall\.toml"
    ) as refused:
        rowfall.load("generate://trips?rows=9", to="prod")
    assert "./prod" in str(refused.value.hint)
    assert not (tmp_path / "prod").exists()
    with pytest.raises(errors.UsageError, match="is a connection"):
        rowfall.query("SELECT 1", to="prod")
    assert rowfall.loads(to="./prod") == rowfall.loads(to=Path("prod")) == []


def test_events_tell_the_load(data: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 6, 1000)
    heard: list[Event] = []
    report = rowfall.load(
        "in/*.csv", to=data, table="t", options=rowfall.Options(attempt_bytes="20kB"),
        on_event=heard.append,
    )  # fmt: skip
    assert report.outcome == "done"
    (first,) = [event for event in heard if isinstance(event, LoadStarted)]
    (ended,) = [event for event in heard if isinstance(event, LoadEnded)]
    began, last = heard[0], heard[-1]
    assert isinstance(began, RunBegan)
    assert (began.load_id, began.table, began.resumed) == (report.load_id, "default.t", False)
    assert (first.load_id, first.splits, first.resumed) == (report.load_id, 6, 0)
    assert first.total_bytes == report.bytes_source
    assert ended == LoadEnded(report.load_id, "done")
    assert last == RunEnded(report.load_id, report)
    stages = [event.stage for event in heard if isinstance(event, StageEnded)]
    assert stages == ["plan", "prepare", "attempts", "finish"]
    started = {e.attempt_id: n for n, e in enumerate(heard) if isinstance(e, AttemptStarted)}
    published = {e.attempt_id: n for n, e in enumerate(heard) if isinstance(e, AttemptPublished)}
    assert len(started) == report.attempts > 1
    assert started.keys() == published.keys()
    assert all(started[attempt] < published[attempt] for attempt in started)
    done = [e for e in heard if isinstance(e, AttemptPublished)]
    assert sum(e.rows for e in done) == report.rows == 6000
    assert sum(e.splits for e in done) == report.splits_loaded == 6
    progress = [e for e in heard if isinstance(e, Progressed)]
    for before, after in itertools.pairwise(progress):
        assert before.seconds <= after.seconds
        assert before.rows <= after.rows <= 6000
    assert any(isinstance(e, Note) and "CREATE TABLE" in e.detail for e in heard)
    assert ask("SELECT count(), uniqExact(id) FROM t", data) == [[6000, 6000]]


def test_a_resumed_load_says_what_had_loaded(data: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 3, 10)
    (tmp_path / "in/f9.csv").write_text("id,name\nx,y\n")
    options = rowfall.Options(schema="id UInt32, name String")
    heard: list[Event] = []
    with pytest.raises(rowfall.LoadError, match=r"1 file of 4 could not be loaded") as error:
        rowfall.load("in/*.csv", to=data, table="t", options=options, on_event=heard.append)
    report = error.value.report
    assert (error.value.exit_code, error.value.hint) == (1, report.failures[0].hint)
    assert (report.outcome, report.rows) == ("partial", 30)
    (failed,) = [e for e in heard if isinstance(e, SplitFailed)]
    (failure,) = report.failures
    assert (failed.split, failed.error, failed.hint) == (
        failure.split, failure.error, failure.hint
    )  # fmt: skip
    assert failed.split == str(tmp_path / "in/f9.csv")
    assert LoadEnded(report.load_id, "partial") in heard
    assert heard[-1] == RunEnded(report.load_id, report)
    assert (failed.exit, failed.code) == (4, 0)
    (tmp_path / "in/f9.csv").write_text("id,name\n999,y\n")
    heard.clear()
    again = rowfall.load("in/*.csv", to=data, table="t", on_event=heard.append)
    (started,) = [event for event in heard if isinstance(event, LoadStarted)]
    assert isinstance(heard[0], RunBegan)
    assert heard[0].resumed
    assert (started.resumed, again.splits_skipped, again.splits_loaded) == (3, 3, 1)
    assert again.load_id == report.load_id, "an unfinished load goes on"


def test_plan_writes_nothing(data: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 3, 10)
    made = rowfall.plan(["in/f0.csv", "in/f1.csv"], to=data, table="t")
    assert isinstance(made, rowfall.Plan)
    assert not Path(data).exists()
    assert len(made.listing) == 2
    assert [c.name for c in made.schema.columns] == ["id", "name"]
    assert made.texts.ddl.startswith("CREATE TABLE")
    assert made.texts.example.startswith("INSERT INTO")
    assert all(setting.reason for setting in made.work.settings if not setting.routine)


def test_loads_report_and_verify(data: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 2, 10)
    one = rowfall.load("in/f0.csv", to=data, table="one")
    two = rowfall.load("in", to=data, table="two")
    assert [r.load_id for r in rowfall.loads(to=data)] == [two.load_id, one.load_id]
    assert rowfall.report("last", to=data) == two
    assert rowfall.report(one.load_id[:7], to=data) == one
    found = rowfall.verify(two.load_id, to=data)
    assert isinstance(found, rowfall.Verification)
    assert (found.ok, found.source_rows, found.target_rows) == (True, 20, 20)
    (tmp_path / "in/f1.csv").unlink()
    with pytest.raises(rowfall.RowfallError):
        rowfall.report("ffffffffff", to=data)


def test_a_notebook_says_it_in_one_line(data: str, tmp_path: Path) -> None:
    """Paths, keyword options, and rows as a program wants them."""
    write_files(tmp_path / "in", 3, 10)
    files = sorted((tmp_path / "in").glob("*.csv"))
    made = rowfall.plan(files, to=Path(data), table="t", type={"id": "UInt32"})
    assert "`id`   UInt32" in made.texts.ddl
    assert "CREATE TABLE" in made._repr_html_()  # type: ignore[attr-defined]
    report = rowfall.load(files, to=Path(data), table="t", type={"id": "UInt32"}, order_by="id")
    assert "done" in report._repr_html_()  # type: ignore[attr-defined]
    rows = rowfall.query("SELECT id, name FROM t ORDER BY id LIMIT 25", to=Path(data))
    assert list(rows)[:2] == [(0, "n0"), (1, "n1")]
    there = rowfall.plan(files, to=Path(data), table="t")
    assert there.texts.ddl == "", "the table is there"
    assert (len(rows), rows.columns) == (25, ["id", "name"])
    assert rows.arrow().num_rows == 25
    assert list(rows.df()["id"]) == list(range(25))
    assert "first 20 of 25 rows" in rows._repr_html_()
    assert repr(rows).startswith("id  name\n0   n0\n")
    checked = rowfall.verify(report.load_id, to=Path(data))
    assert "equal" in checked._repr_html_()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="order_by"):
        rowfall.load(files, to=Path(data), oder_by="id")  # type: ignore[call-arg]
    with pytest.raises(errors.UsageError):
        rowfall.query("SELECT 1", format="CSV")  # type: ignore[call-overload]
    with pytest.raises(errors.UsageError, match="Arrow"):
        rowfall.query("SELECT 1 FORMAT CSV").df()
    assert len(rowfall.query("SET max_threads = 1", write=True)) == 0


def test_rows_keep_the_types_that_arrow_lacks() -> None:
    """A time is no bare number, and an Enum has its name; also inside of others."""
    (row,) = rowfall.query(
        "SELECT toDateTime(0, 'UTC'), [toDateTime(60, 'Asia/Tokyo')],"
        " CAST('a)', 'Enum8(\\'a)\\' = 1)'), toIPv4('1.2.3.4'),"
        " toInt128('-170141183460469231731687303715884105728'), unhex('FF'),"
        " toNullable(toDate('2024-01-02')), NULL, generateUUIDv4() -- a comment"
    )
    at, (later,), *rest, uuid = row
    assert at == datetime(1970, 1, 1, tzinfo=UTC)
    assert (later.hour, later.minute) == (9, 1)
    low = "-170141183460469231731687303715884105728"
    assert rest == ["a)", "1.2.3.4", low, b"\xff", date(2024, 1, 2), None]
    assert len(str(uuid)) == 36


def test_errors_are_of_their_kind(data: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 1, 10)
    with pytest.raises(errors.SourceError) as missing:
        rowfall.load("nothing/*.csv", to=data)
    assert missing.value.exit == errors.Exit.SOURCE
    assert missing.value.hint
    with pytest.raises(errors.UsageError):
        rowfall.load("in/f0.csv", to=data, options=rowfall.Options(format="nonsense"))
    with pytest.raises(errors.UsageError):
        rowfall.load([], to=data)
    with pytest.raises(errors.UsageError):
        rowfall.load("in/f0.csv", to="mongodb://somewhere")
    with pytest.raises(errors.TargetError):
        rowfall.query("SELECT 1", to="no/such/folder")
    rowfall.load("in/f0.csv", to=data, table="t")
    with pytest.raises(rowfall.RowfallError):
        rowfall.query("DROP TABLE t", to=data, out_fd=os.open(os.devnull, os.O_WRONLY))
    with pytest.raises(errors.EngineError):
        ask("SELECT nothing FROM t", data)
    assert ask("SELECT count() FROM t", data) == [[10]]


def test_a_listener_that_fails_ends_the_load(data: str, tmp_path: Path) -> None:
    write_files(tmp_path / "in", 2, 10)

    def listen(event: Event) -> None:
        if isinstance(event, AttemptStarted):
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        rowfall.load("in/*.csv", to=data, table="t", on_event=listen)
    assert rowfall.load("in/*.csv", to=data, table="t").outcome == "done"
    assert ask("SELECT count() FROM t", data) == [[20]]


def test_load_from_a_thread(data: str, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    write_files(tmp_path / "in", 2, 10)
    with ThreadPoolExecutor(2) as pool:
        reports = list(
            pool.map(lambda n: rowfall.load(f"in/f{n}.csv", to=f"{data}{n}", table="t"), (0, 1))
        )
    assert [r.rows for r in reports] == [10, 10]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
@pytest.mark.parametrize("moment", ["the workers start", "the report is made"])
def test_a_signal_is_an_interrupt_at_any_moment(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, number: signal.Signals
) -> None:
    write_files(tmp_path / "in", 2, 10)
    start, make = AttemptRunner.start, load.make_report

    def starting(runner: AttemptRunner) -> None:
        start(runner)
        signal.raise_signal(number)

    def making(*given: Any) -> Report:
        signal.raise_signal(number)
        return make(*given)

    heard: list[Event] = []
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with monkeypatch.context() as patched:
            if moment == "the workers start":
                patched.setattr(AttemptRunner, "start", starting)
            else:
                patched.setattr(load, "make_report", making)
            with pytest.raises(errors.Interrupted) as caught:
                rowfall.load("in/*.csv", to=data, table="t", on_event=heard.append)
    finally:
        after = {each: signal.getsignal(each) for each in before}
        for each, handler in before.items():
            signal.signal(each, handler)
    assert after == before, "a program goes on, and its next Ctrl-C has to work"
    assert "same command again" in (caught.value.hint or "")
    if moment == "the workers start":
        (ended,) = [event for event in heard if isinstance(event, LoadEnded)]
        assert ended.outcome == rowfall.loads(to=data)[0].outcome == "interrupted"
    assert rowfall.load("in/*.csv", to=data, table="t").outcome == "done"
    assert ask("SELECT count(), uniqExact(id) FROM t", data) == [[20, 20]]


PROGRAM = """
import sys
import rowfall
from rowfall.core.errors import Interrupted
from rowfall.core.events import AttemptStarted, LoadEnded

def listen(event):
    if isinstance(event, (AttemptStarted, LoadEnded)):
        print(type(event).__name__, getattr(event, "outcome", ""), flush=True)

try:
    rowfall.load("generate://taxi?rows=20_000_000", to=sys.argv[1], table="t",
                 options=rowfall.Options(threads=2, memory="1GiB"), on_event=listen)
except Interrupted as error:
    print("Interrupted", error.hint, flush=True)
    try:
        for _ in range(3):
            print("the program goes on", flush=True)
    finally:
        sys.exit(7)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_ctrl_c_is_an_exception(data: str, number: signal.Signals) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, data], stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("AttemptStarted")
        program.send_signal(number)
        said, _ = program.communicate(timeout=60)
    finally:
        program.kill()
        program.communicate()
    lines = said.splitlines()
    assert "LoadEnded interrupted" in lines
    assert lines[-4].startswith("Interrupted Run the same command again")
    assert lines[-1] == "the program goes on"
    assert program.returncode == 7
    (report,) = rowfall.loads(to=data)
    assert report.outcome == "interrupted"
