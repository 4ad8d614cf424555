"""What every engine promises, embedded or server."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from contract.engines import Guarded, connect, new_id, new_table, run, running, slow, text
from lab.process import wait_until
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.masked import Secret
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server

# One worker of a parallel run starts the server.
pytestmark = pytest.mark.xdist_group("engine")


def test_facts_are_plausible(engine: Embedded | Server) -> None:
    facts = engine.facts
    assert int(facts.version.split(".")[0]) >= 24
    assert 1 <= facts.cores <= (os.cpu_count() or 1)
    assert 100 << 20 < facts.memory < 1 << 42
    assert {"max_threads", "max_insert_threads", "min_insert_block_size_rows"} <= facts.settings
    assert "no_such_setting" not in facts.settings


def test_a_result_has_the_asked_format(engine: Embedded | Server) -> None:
    out = run(engine, "SELECT 1 AS a, 'x\ty' AS b", format="JSONEachRow")
    assert json.loads(out.data) == {"a": 1, "b": "x\ty"}
    assert run(engine, "SELECT 1 AS a", format="CSVWithNames").data == b'"a"\n1\n'
    assert text(engine, "SELECT 'héß☃'") == "héß☃"


def test_an_insert_select_counts_rows(engine: Embedded | Server) -> None:
    table = new_table(engine)
    out = run(engine, f"INSERT INTO {table} SELECT number FROM numbers(100000)")
    assert (out.rows_read, out.rows_written) == (100_000, 100_000)
    assert out.bytes_read == 800_000
    assert 0 < out.seconds < 60
    assert out.data == b""
    assert text(engine, f"SELECT count(), sum(a) FROM {table}") == "100000\t4999950000"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT 1 +", 62),
        ("SELECT * FROM contract.no_such_table", 60),
        ("SELECT no_such_function()", 46),
        ("SELECT throwIf(number = 3000000) FROM numbers(10000000) FORMAT Null", 395),
    ],
)
def test_an_error_has_the_engines_code(engine: Embedded | Server, sql: str, code: int) -> None:
    run(engine, "CREATE DATABASE IF NOT EXISTS contract")
    with pytest.raises(RowfallError) as caught:
        run(engine, sql, format="TabSeparated")
    assert caught.value.code == code
    assert not caught.value.transient
    assert text(engine, "SELECT 1") == "1"


def test_rows_of_a_failed_statement_are_not_in_the_next_result(engine: Embedded | Server) -> None:
    sql = "SELECT throwIf(number = 3000000) FROM numbers(10000000) SETTINGS max_threads = 1"
    with pytest.raises(RowfallError):
        text(engine, sql, lane=77)
    assert text(engine, "SELECT 1", lane=77) == "1"


def test_memory_limit_is_transient(engine: Embedded | Server) -> None:
    with pytest.raises(EngineError) as caught:
        run(
            engine,
            "SELECT groupArray(number) FROM numbers(10000000)",
            format="Null",
            settings={"max_memory_usage": 20_000_000},
        )
    assert caught.value.code == 241
    assert caught.value.transient


def test_lanes_run_at_the_same_time(engine: Embedded | Server) -> None:
    ids = [new_id(), new_id()]
    sql = "SELECT sleepEachRow(0.1) FROM numbers(600)"
    settings = {"max_block_size": 1}
    with ThreadPoolExecutor(2) as pool:
        work = [
            pool.submit(run, engine, sql, lane=lane, query_id=name, settings=settings)
            for lane, name in enumerate(ids, 1)
        ]
        wait_until(lambda: all(running(engine, name) for name in ids), 30, "both lanes at work")
        for name, session in zip(ids, work, strict=True):
            engine.kill(name)
            with pytest.raises(EngineError):
                session.result()


def test_kill_ends_a_running_statement(engine: Embedded | Server) -> None:
    table, query_id = new_table(engine), new_id()
    sql, settings = slow(table, 60)
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(run, engine, sql, lane=3, query_id=query_id, settings=settings)
        wait_until(lambda: running(engine, query_id), 30, "the statement to run")
        start = time.monotonic()
        engine.kill(query_id)
        assert time.monotonic() - start < 2
        assert not running(engine, query_id)
        with pytest.raises(EngineError) as caught:
            session.result(2)
    assert caught.value.code == 394


def test_kill_of_what_does_not_run_is_quiet(engine: Embedded | Server) -> None:
    engine.kill(new_id())


def test_ticks_show_progress(engine: Embedded | Server) -> None:
    seen: list[int] = []
    table, query_id = new_table(engine), new_id()
    sql, settings = slow(table, 2)
    run(
        engine,
        sql,
        settings=settings,
        query_id=query_id,
        on_tick=lambda tick: seen.append(tick["read_rows"]),
    )
    assert len(seen) >= 2
    assert seen == sorted(seen)
    assert 0 < seen[-1] <= 20


def test_a_large_result_is_whole(engine: Embedded | Server) -> None:
    data = run(engine, "SELECT number FROM numbers(3000000)", format="RowBinary").data
    assert len(data) == 24_000_000
    assert int.from_bytes(data[-8:], "little") == 2_999_999


def test_a_result_can_go_to_a_descriptor(service: Guarded, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        engines = [connect(service), Embedded(None, memory=1 << 30, fds=(out.fileno(),))]
        for engine in engines:
            done = run(
                engine,
                "SELECT number FROM numbers(300000)",
                format="RowBinary",
                out_fd=out.fileno(),
            )
            assert done.data == b""
            engine.close()
    assert (tmp_path / "out").stat().st_size == len(engines) * 2_400_000


def test_settings_are_applied(engine: Embedded | Server) -> None:
    settings = {"max_block_size": 777, "date_time_input_format": "best_effort"}
    sql = "SELECT getSetting('max_block_size'), getSetting('date_time_input_format')"
    assert text(engine, sql, settings=settings) == "777\tbest_effort"
    assert text(engine, sql) != "777\tbest_effort"


def test_long_statements_are_accepted(engine: Embedded | Server) -> None:
    names = ",".join(f"'file-number-{number:020}'" for number in range(20_000))
    assert text(engine, f"SELECT length([{names}])") == "20000"


def test_resident_memory(engine: Embedded | Server) -> None:
    now, highest = engine.resident()
    assert 0 <= now <= highest or isinstance(engine, Server)


@pytest.mark.parametrize("secret", ["s3cr3t-value-1", "it's \\ se\ncret"], ids=["plain", "escapes"])
def test_secrets_do_not_show_in_errors(
    engine: Embedded | Server, secret: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(RowfallError) as caught:
        run(engine, "SELECT throwIf(1, ", Secret(secret), ")")
    assert secret not in str(caught.value)
    assert repr(secret)[1:-1] not in str(caught.value)
    assert "HIDDEN" in str(caught.value)
