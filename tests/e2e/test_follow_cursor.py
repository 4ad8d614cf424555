"""Tables of databases that are followed (``--cursor COLUMN --follow``): each row once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from e2e.following import Follower
from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from rowfall.core.errors import SourceError

# One server for all of them, which one of these tests stops.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("postgresql")]

START = "'2024-01-01 UTC'::timestamptz"


class Orders:
    """A table of orders, a second apart."""

    def __init__(self, shell: Shell, server: PostgresqlServer) -> None:
        self.shell, self.server = shell, server
        self.name = f"followed{os.getpid()}"
        shell.env["PGPASSWORD"] = server.password
        server.run(
            f"DROP TABLE IF EXISTS {self.name}",
            f"CREATE TABLE {self.name} (id bigint PRIMARY KEY, at timestamptz NOT NULL, v int)",
        )
        self.add(1, 100)

    @property
    def uri(self) -> str:
        return f"{self.server.uri}/{self.name}"

    def add(self, first: int, last: int, late: float = 0.0) -> None:
        self.server.run(
            f"INSERT INTO {self.name} SELECT i, {START} + (i - {late}) * interval '1 s', 1 "
            f"FROM generate_series({first}, {last}) i"
        )

    def counted(self) -> list[Any]:
        return self.shell.row("SELECT count(), uniqExact(id), max(id) FROM t", "--to", "d")


@pytest.fixture
def orders(
    shell: Shell, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Orders]:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)
    found = Orders(shell, postgresql)
    yield found
    postgresql.run(f"DROP TABLE {found.name}")


def test_new_late_and_changed_rows(orders: Orders) -> None:
    def changed() -> None:  # to the value of the last one: neither it nor the count says so
        orders.server.run(
            f"UPDATE {orders.name} SET at = (SELECT max(at) FROM {orders.name}) WHERE id = 103"
        )

    held: list[tuple[Any, ...]] = []

    def asked() -> None:  # a snapshot that stays open keeps the server from clearing old rows
        held.extend(orders.server.ask(
            "SELECT pid FROM pg_stat_activity WHERE datname = 'lab' AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ))  # fmt: skip

    follower = Follower(
        lambda: orders.add(101, 104),
        lambda: orders.add(900, 900, late=850),  # late ones alone
        asked,
        lambda: orders.add(901, 901, late=850),
        changed,
        lambda: orders.server.run(f"DELETE FROM {orders.name} WHERE id = 900"),  # not noticed
        lambda: orders.add(105, 105),
    )
    report = follower.run(orders.uri, orders.shell.folder / "d", cursor="at")
    assert (report.outcome, report.rows) == ("done", 108)
    # Only what there is something in: the deleted row has had the overlap compared once.
    assert follower.batches == [100, 4, 1, 1, 1, 0, 1]
    assert held == []
    assert orders.counted() == [108, 107, 901]
    again = Follower(lambda: orders.add(106, 106))
    again.run(orders.uri, orders.shell.folder / "d", cursor="at")
    assert again.batches[1:] == [1]
    assert orders.counted() == [109, 108, 901]


def test_a_server_that_restarts_is_waited_for(orders: Orders) -> None:
    def comes() -> None:
        orders.server.start()
        orders.add(101, 105)

    follower = Follower(orders.server.kill, comes, lambda: orders.add(106, 106))
    follower.run(orders.uri, orders.shell.folder / "d", cursor="id")
    assert follower.away
    assert orders.counted() == [106, 106, 106]


def test_a_table_that_is_set_back_ends_it(orders: Orders) -> None:
    orders.add(101, 5000)

    def emptied() -> None:
        orders.server.run(f"TRUNCATE {orders.name}")
        orders.add(1, 5)

    with pytest.raises(SourceError, match=r"set back|made anew"):
        Follower(emptied).run(orders.uri, orders.shell.folder / "d", cursor="id")
    assert orders.counted() == [5000, 5000, 5000]


def test_a_file_of_duckdb_is_free_between_two_looks(shell: Shell) -> None:
    path = shell.folder / "shop.duckdb"

    def write(*statements: str) -> None:
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)

    write("CREATE TABLE s (id bigint PRIMARY KEY)", "INSERT INTO s FROM range(1, 4)")
    follower = Follower(lambda: write("INSERT INTO s FROM range(4, 6)"))
    follower.run(f"duckdb://{path}/s", shell.folder / "d", cursor="id")
    assert follower.batches == [3, 2]


def test_killed_in_the_middle_the_same_command_goes_on(
    orders: Orders, clickhouse: ClickHouse
) -> None:
    """While a writer adds rows, half of them late; kill -9 three times."""
    lake = Lake(orders.shell, clickhouse)
    command = [
        sys.executable, "-m", "rowfall", "load", orders.uri, "--to", lake.to, "--table", "t",
        "--cursor", "id", "--follow", "--poll", "0.05s",
    ]  # fmt: skip
    last = 100

    def wait_for(rows: int) -> None:
        found = "SELECT ifNull(sum(total_rows), 0) FROM system.tables WHERE database = '{db}' "
        found += "AND name = 't'"
        wait_until(lambda: lake.row(found) == [rows], 60, f"{rows} rows to be loaded")

    for kill in (True, True, True, False):
        process = subprocess.Popen(
            command, cwd=orders.shell.folder, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "HOME": str(orders.shell.cli.home), **orders.shell.env},
        )  # fmt: skip
        assert process.stderr is not None
        for _ in range(5):
            orders.add(last + 51, last + 100)
            wait_for(last + 50)
            orders.add(last + 1, last + 50)
            last += 100
            if not kill:
                wait_for(last)
        if kill:
            for line in process.stderr:
                if line.startswith("load "):  # a batch has begun
                    break
            process.kill()
            process.communicate()
        else:
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=30)[1]
            assert process.returncode in (0, 130), said  # 130: at the end of the last batch
    assert lake.row("SELECT count(), uniqExact(id), max(id) FROM {db}.t") == [last, last, last]
    assert lake.staging() == set()
    lake.do("DROP DATABASE {db} SYNC")
