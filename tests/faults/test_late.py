"""Requests of our own that are lost and arrive late, as a balancer delivers them.

The connection is reset and the request is kept back. It reaches the server around a later request:
the retry, or a drop. Whatever it says must not change the table any more.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Cli
from lab.clickhouse import ClickHouse
from lab.faulty import Fault, Faulty, Request
from lab.process import ServiceError
from rowfall.systems.clickhouse.staging import drop

ROWS = 1000
_numbers = itertools.count()


class Late:
    """Keeps the first request of a kind back, and delivers it around another one.

    Attributes:
        said: what the server answered to the late one.
    """

    def __init__(self, server: ClickHouse, lost: str, around: str, side: str) -> None:
        self._server, self._lost, self._around, self._side = server, lost, around, side
        self._kept: Request | None = None
        self.said = ""

    def __call__(self, request: Request) -> Fault | None:
        text = request.sql.lstrip()
        if self._kept is None and text.startswith(self._lost):
            self._kept = request
            return Fault(reset="before")
        if self._kept is not None and not self.said and text.startswith(self._around):
            return Fault(**{self._side: self._deliver})  # type: ignore[arg-type]
        return None

    def _deliver(self) -> None:
        assert self._kept is not None
        self.said = "nothing"
        try:
            self._server.query(self._kept.sql, settings={"query_id": self._kept.query["query_id"]})
            self.said = "done"
        except ServiceError as error:
            self.said = str(error)


@pytest.fixture
def load(rowfall: Cli, clickhouse: ClickHouse, tmp_path: Path) -> Callable[..., Late]:
    """``load(database, lost, around, side, *options)``: a load that loses one request."""

    def run(database: str, lost: str, around: str, side: str, *options: str) -> Late:
        late = Late(clickhouse, lost, around, side)
        with Faulty(clickhouse.http_port, late) as proxy:
            done = rowfall.inside(
                "load", "rows.csv", "--to", clickhouse.uri(database, port=proxy.port),
                "--table", "t", *options,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert proxy.errors == []
        assert late.said, "nothing arrived late"
        return late

    return run


@pytest.fixture
def database(clickhouse: ClickHouse, rowfall: Cli) -> str:
    name = f"late_{os.getpid()}_{next(_numbers)}"
    clickhouse.query(f"CREATE DATABASE {name}")
    lines = "".join(f"{i},n{i}\n" for i in range(ROWS))
    (rowfall.cwd / "rows.csv").write_text("k,name\n" + lines)
    return name


def holds(server: ClickHouse, name: str) -> str:
    return server.query(f"SELECT count(), uniqExact(k) FROM {name}").strip()


EACH_ONCE = f"{ROWS}\t{ROWS}"
long = pytest.mark.long


# At the retry: before it, after it; and when staging is dropped, after everything is recorded.
@pytest.mark.parametrize(
    ("around", "side", "kind"),
    [
        ("ALTER", "after", ()),
        pytest.param("ALTER", "before", (), marks=long),
        pytest.param("DROP", "before", (), marks=long),
        pytest.param("ALTER", "after", ("--atomic",), marks=long),
        pytest.param("ALTER", "before", ("--atomic",), marks=long),
        pytest.param("DROP", "before", ("--atomic",), marks=long),
    ],
)
def test_an_attach_that_arrives_after_its_retry(
    load: Callable[..., Late], database: str, clickhouse: ClickHouse, around: str, side: str,
    kind: tuple[str, ...],
) -> None:  # fmt: skip
    table = f"CREATE TABLE {database}.t (k UInt64, name String) ENGINE = MergeTree ORDER BY k"
    clickhouse.query(table)
    attach = f"ALTER TABLE `{database}`.`t` ATTACH"
    late = load(database, attach, around, side, *kind)
    assert holds(clickhouse, f"{database}.t") == EACH_ONCE, late.said
    assert "UNKNOWN_TABLE" in late.said


@pytest.mark.parametrize(
    ("around", "side"),
    [("EXCHANGE", "after"), pytest.param("DROP", "before", marks=long)],
)
def test_an_exchange_that_arrives_after_its_retry(
    load: Callable[..., Late], database: str, clickhouse: ClickHouse, around: str, side: str
) -> None:
    """Twice brings the old rows back, and the new ones are dropped as if they were the old ones."""
    table = f"CREATE TABLE {database}.t (k UInt64, name String) ENGINE = MergeTree ORDER BY k"
    clickhouse.query(table)
    clickhouse.query(f"INSERT INTO {database}.t SELECT 7, 'old' FROM numbers(5)")
    late = load(database, "EXCHANGE", around, side, "--replace")
    assert holds(clickhouse, f"{database}.t") == EACH_ONCE, late.said
    assert "UNKNOWN_TABLE" in late.said


def test_the_drop_of_an_empty_table_that_arrives_when_its_successor_is_loaded(
    database: str, clickhouse: ClickHouse
) -> None:
    """The table that a failed load has made and left empty is made anew, under the same name."""
    late = drop(database, "t", if_empty=True).reveal()
    table = f"CREATE TABLE {database}.t (k UInt64) ENGINE = MergeTree ORDER BY k"
    clickhouse.query(table)
    clickhouse.query(late)
    clickhouse.query(table)
    clickhouse.query(f"INSERT INTO {database}.t SELECT number FROM numbers({ROWS})")
    with pytest.raises(ServiceError, match="NOT_EMPTY"):
        clickhouse.query(late)
    assert holds(clickhouse, f"{database}.t") == EACH_ONCE


class Replaced:
    """Puts another table in the target's place before an ATTACH, and loses a request afterwards.

    Attributes:
        lost: the second request that takes a part back was lost.
    """

    def __init__(self, server: ClickHouse, create: str, table: str) -> None:
        self._server, self._create, self._table = server, create, table
        self._drops = 0
        self._replaced = self.lost = False

    def __call__(self, request: Request) -> Fault | None:
        text = request.sql.lstrip()
        if not self._replaced and text.startswith(f"ALTER TABLE {self._table} ATTACH"):
            self._replaced = True
            return Fault(before=self._replace)
        if text.startswith(f"ALTER TABLE {self._table} DROP PART "):
            self._drops += 1
            if self._drops == 2:
                self.lost = True
                return Fault(reset="before")
        return None

    def _replace(self) -> None:
        self._server.query(f"DROP TABLE {self._table} SYNC")
        self._server.query(self._create)


def test_parts_are_taken_back_from_a_new_table_though_a_request_is_lost(
    rowfall: Cli, database: str, clickhouse: ClickHouse
) -> None:
    """Half of the parts are taken back: the other half is no evidence of what the table holds."""
    table = f"`{database}`.`t`"
    create = (f"CREATE TABLE {table} (k UInt64, name String) ENGINE = MergeTree "
              "PARTITION BY k % 2 ORDER BY k")  # fmt: skip
    clickhouse.query(create)
    replaced = Replaced(clickhouse, create, table)
    command = ("load", "rows.csv", "--table", "t", "--to")
    with Faulty(clickhouse.http_port, replaced) as proxy:
        done = rowfall.inside(*command, clickhouse.uri(database, port=proxy.port))
        assert proxy.errors == []
    assert replaced.lost, done.stderr
    assert done.returncode == 5, done.stderr
    assert holds(clickhouse, table) == "0\t0"
    done = rowfall.inside(*command, clickhouse.uri(database))
    assert done.returncode == 0, done.stderr
    assert holds(clickhouse, table) == EACH_ONCE
