"""The engine's process dies while several threads wait for it: a worker, a publisher, a watch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

import pytest

from lab.process import let_pass
from rowfall.core.errors import EngineError, MemoryOverrunError
from rowfall.core.model import Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.systems.clickhouse import embedded
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.prestart import PrestartedChild

ONE = Statement(SqlText.of("SELECT 1"), format="TSV")
LONG = Statement(SqlText.of("SELECT sleep(2)"), format="TSV")
LANE, OTHER_LANE = 100, 1
_WAIT = 20.0


def kill(engine: Embedded) -> None:
    assert engine._process is not None
    os.kill(engine.pid, signal.SIGKILL)
    engine._process.process.wait()


def begun(engine: Embedded) -> bool:
    """Whether a statement of LONG runs."""
    count = "SELECT count() FROM system.processes WHERE query LIKE '%sleep(2)%' AND query NOT LIKE "
    found = engine.run(Statement(SqlText.of(count + "'%processes%'"), format="TSV"), lane=99).data
    return found != b"0\n"


def wait_for(true: Callable[[], bool]) -> None:
    ticks = threading.Event()
    assert any(true() or ticks.wait(0.02) for _ in range(500))


def test_who_hears_of_a_death_later_does_not_end_the_next_process(engine: Embedded) -> None:
    """A worker and a publisher meet the same death; the slower one finds an engine that lives."""
    engine.run(ONE)
    kill(engine)
    engine.revive()
    going = start(engine, LONG, LANE)
    wait_for(lambda: begun(engine))
    engine.revive()
    assert going.result(timeout=_WAIT).data == b"0\n"


def start(engine: Embedded, statement: Statement, lane: int) -> Future[Outcome]:
    """On a daemon thread: one that hangs fails its test and no more."""
    done: Future[Outcome] = Future()

    def work() -> None:
        try:
            done.set_result(engine.run(statement, lane=lane))
        except EngineError as error:
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return done


class LateEnd:
    """A pipe whose end is noticed when ``told`` is set: its reader had no turn before."""

    def __init__(self, out: IO[bytes], told: threading.Event) -> None:
        self._out, self._told = out, told

    def __iter__(self) -> Iterator[bytes]:
        yield from self._out
        self._told.wait(_WAIT)

    def read(self, size: int) -> bytes:
        return self._out.read(size)


def test_a_death_is_told_to_those_who_waited_for_that_process_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late: the next process is started and used meanwhile."""
    told = threading.Event()
    listen = Embedded._listen

    ends = iter([told])

    def late(out: Any, *waiting: Any) -> None:
        end = next(ends, None)
        listen(LateEnd(out, end) if end else out, *waiting)

    monkeypatch.setattr(Embedded, "_listen", staticmethod(late))
    engine = Embedded(folder, memory=1 << 30)
    try:
        waiting = start(engine, LONG, LANE)
        wait_for(lambda: begun(engine))
        kill(engine)
        engine.revive()
        going = start(engine, LONG, OTHER_LANE)
        wait_for(lambda: begun(engine))
        told.set()
        with pytest.raises(EngineError, match="killed by signal 9"):
            waiting.result(timeout=_WAIT)
        assert going.result(timeout=_WAIT).data == b"0\n"
    finally:
        told.set()
        engine.close()


# Opens, then dies in the middle of the first result.
_HALF = """
import json, sys
sizes = sys.stdin.buffer.readline().split()[2:]
sys.stdin.buffer.read(sum(map(int, sizes)))
print(json.dumps({"id": 0, "ok": {}, "size": 8}), "26.9\\tUTC", sep="\\n", end="", flush=True)
tag = int(sys.stdin.buffer.readline().split()[1])
sys.stdout.write(json.dumps({"id": tag, "ok": {}, "size": 9}) + "\\n123")
"""


def test_half_a_result_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(fds: Sequence[int]) -> PrestartedChild:
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", _HALF], stdin=pipe, stdout=pipe)
        return PrestartedChild(process, tempfile.TemporaryFile())

    monkeypatch.setattr(embedded, "take", spawn)
    engine = Embedded(None)
    try:
        with pytest.raises(EngineError, match="ended with status 0"):
            engine.run(ONE)
    finally:
        engine.close()


def test_whoever_waits_while_the_engine_is_closed_hears_that_it_has_ended() -> None:
    engine = Embedded(None)
    slow = Statement(SqlText.of("SELECT sleepEachRow(0.5) FROM numbers(40)"), format="TSV")
    heard: list[BaseException] = []

    def wait() -> None:
        try:
            engine.run(slow, lane=3)
        except BaseException as error:
            heard.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    let_pass(0.5, "the engine is closed while the statement runs, which it does not tell")
    engine.close()
    waiting.join(30)
    assert [type(error) for error in heard] == [EngineError]


def test_a_statement_that_takes_all_memory_is_named(folder: Path) -> None:
    """Others that ran beside it hear that they were not the reason; a new process goes on."""
    many = "SELECT length(groupArray(number)) FROM numbers(100000000) SETTINGS max_threads = 1"
    engine = Embedded(folder, memory=512 << 20)
    try:
        hours = "SELECT sleep(2) FROM numbers(9999) SETTINGS max_block_size = 1"
        going = start(engine, Statement(SqlText.of(hours), format="TSV"), OTHER_LANE)
        wait_for(lambda: begun(engine))
        with pytest.raises(MemoryOverrunError, match=r"than --memory allows \(512 MiB\)") as own:
            engine.run(Statement(SqlText.of(many), format="TSV"), lane=LANE)
        with pytest.raises(MemoryOverrunError) as other:
            going.result(timeout=_WAIT)
        assert [own.value.own, other.value.own] == [True, False]
        assert engine.run(ONE).data == b"1\n"
    finally:
        engine.close()
