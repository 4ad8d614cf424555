"""Small tables beside targets, on every system with SQL: the log of pipelines, and errors."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from rowfall.core.events import silent
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.destinations import open_destination
from rowfall.engines.small_tables import SmallTables
from rowfall.ledger import error_table
from rowfall.ledger.error_table import ErrorTable, FileError
from rowfall.ledger.pipeline_lease import PipelineLease
from rowfall.ledger.pipeline_log import ALIVE, ASKED, FAILED, PAUSE, RETRY, SharedLog
from rowfall.run.session import Request, open_session
from rowfall.targets import open_target

_numbers = itertools.count()
SHARED = ["clickhouse", "postgresql", "mariadb"]


def _uri(request: pytest.FixtureRequest, kind: str, folder: Path) -> tuple[str, Secret | None]:
    name = f"small{os.getpid()}_{next(_numbers)}"
    if kind == "clickhouse":
        server: ClickHouse = request.getfixturevalue("clickhouse")
        server.query(f"CREATE DATABASE {name}")
        return server.uri(name), None
    if kind == "postgresql":
        postgres: PostgresqlServer = request.getfixturevalue("postgresql")
        postgres.run(f"CREATE SCHEMA {name}")
        return f"{postgres.uri}?schema={name}", Secret(postgres.password)
    if kind == "mariadb":
        maria: MariaDB = request.getfixturevalue("mariadb")
        maria.query(f"CREATE DATABASE {name}")
        return maria.uri(name), None
    return str(folder / ("d.duckdb" if kind == "duckdb" else "data")), None


@pytest.fixture(params=SHARED)
def beside(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallTables]:
    uri, password = _uri(request, request.param, tmp_path)
    target = open_target(uri, "t", Options(), password)
    with open_destination(target).beside(target) as tables:
        assert tables is not None
        yield tables


TEXT = "a 'quoted' \\ \"text\"\twith\nlines, é, {} and %s"


def test_the_log_keeps_the_last_line_of_each_event(beside: SmallTables) -> None:
    log = SharedLog(beside, "p into t")
    lease = PipelineLease(log)
    assert lease.stand().mine
    other = PipelineLease(SharedLog(beside, "p into t"))
    assert not other.stand().mine
    for rows in range(3):
        found = lease.sign({"rows": rows, "text": TEXT})
    assert (found.sign["rows"], found.sign["text"]) == (2, TEXT)
    assert 0 <= found.idle < 5
    assert [one.event for one in log.lines() if one.owner == lease.owner] == ["claim", ALIVE]
    log.append(FAILED, item=TEXT, detail=TEXT)
    log.append(RETRY, item=TEXT)
    log.append(ASKED)
    about = log.lines(files=True)
    assert [(one.event, one.item) for one in about] == [(FAILED, TEXT), (RETRY, TEXT)]
    assert about[0].detail == TEXT
    other.quit()
    log.forget([other.owner])
    assert other.owner not in {one.owner for one in log.lines()}
    # Another pipeline, or the same one into another table, has lines of its own.
    assert SharedLog(beside, "q into t").lines() == []
    log.append(PAUSE)
    assert lease.stand().paused


@pytest.mark.parametrize("kind", ["embedded", "duckdb", *SHARED])
def test_errors_are_kept_and_bounded(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_table, "MOST_ROWS", 3)
    uri, password = _uri(request, kind, tmp_path)
    source = tmp_path / "a.csv"
    source.write_text("id\n1\n")
    with ExitStack() as stack:
        asked = Request(str(source), uri, "t", Options(), password)
        session = stack.enter_context(open_session(asked, silent, dry=False))
        tables = session.destination.small_tables(session)
        assert tables is not None
        errors = ErrorTable(tables)
        for number in range(5):
            errors.add([FileError("p", "l", f"{number} {TEXT}", "v", number, "c", "x" * 9999, TEXT,
                                  "", 27)])  # fmt: skip
        ErrorTable(tables)  # a watcher that starts looks how many there are
    found = _rows(uri, password, f"SELECT file, line, length(value) FROM {error_table.TABLE}")
    assert sorted(found) == [[f"{n} {TEXT}", n, error_table.MOST_VALUE] for n in (2, 3, 4)]


def _rows(uri: str, password: Secret | None, sql: str) -> list[list[object]]:
    import json
    import tempfile

    import rowfall

    with tempfile.TemporaryFile() as out:
        rowfall.query(sql, to=uri, format="JSONCompactEachRow", out_fd=out.fileno(),
                      password=password)  # fmt: skip
        out.seek(0)
        rows = [json.loads(one) for one in out.read().splitlines()]
    return [[int(x) if str(x).isdigit() else x for x in row] for row in rows]
