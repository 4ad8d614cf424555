"""Tables of Spider: rows go over several connections into shards, each row into one of them.

The nearest thing to a sharded SingleStore that can be had: a MariaDB whose table has its partitions
on two others.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from conftest import Cli
from lab.mariadb import MariaDB
from lab.proxy import Proxy

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("mysql"), pytest.mark.timeout(600)]
_FILES, _EACH = 6, 5_000
_ROWS = _FILES * _EACH
_COLUMNS = "id INT NOT NULL PRIMARY KEY, name VARCHAR(100)"
_LOOK = "SELECT COUNT(*), SUM(id), COUNT(DISTINCT id) FROM t"


@dataclass(frozen=True, slots=True)
class Sharded:
    """A table ``d.t`` over shards."""

    head: MariaDB
    shards: tuple[MariaDB, ...]
    proxy: Proxy
    rowfall: Cli

    @property
    def command(self) -> tuple[str, ...]:
        to = self.head.uri("d").replace(f":{self.head.port}/", f":{self.proxy.port}/")
        return ("load", "in/*.csv", "--to", to, "--table", "t", "--attempt-bytes", "100kB",
                "--streams", "3", "--patience", "20s")  # fmt: skip

    def check(self) -> None:
        done = self.rowfall(*self.command)
        assert done.returncode == 0, done.stderr
        whole = (_ROWS, _ROWS * (_ROWS - 1) // 2, _ROWS)
        assert self.head.query(_LOOK, database="d") == [whole]
        parts = [shard.query(_LOOK, database="d")[0] for shard in self.shards]
        assert all(part[0] for part in parts)
        assert tuple(map(sum, zip(*parts, strict=True))) == whole


@pytest.fixture
def sharded(rowfall: Cli) -> Iterator[Sharded]:
    with ExitStack() as stack:
        # Spider knows the members of a transaction by their hosts, without their ports.
        hosts = ("127.0.0.1", "127.0.0.2")
        shards = tuple(
            stack.enter_context(MariaDB(bind_address="127.0.0.1,127.0.0.2")) for _ in hosts
        )
        # Both shards of a transaction are committed, or none.
        head = stack.enter_context(MariaDB(spider=True))
        for shard in shards:
            shard.query("CREATE DATABASE d", f"CREATE TABLE d.t ({_COLUMNS}) ENGINE=InnoDB")
        parts = []
        for number, shard in enumerate(shards):
            head.query(
                f"CREATE SERVER s{number} FOREIGN DATA WRAPPER mysql OPTIONS ("
                f"HOST '{hosts[number]}', "
                f"DATABASE 'd', USER '{shard.user}', PASSWORD '{shard.password}', "
                f"PORT {shard.port})"
            )
            parts.append(f"PARTITION p{number} COMMENT = 'srv \"s{number}\"'")
        head.query(
            "SET GLOBAL spider_internal_xa = ON",
            "CREATE DATABASE d",
            f'CREATE TABLE d.t ({_COLUMNS}) ENGINE=Spider COMMENT=\'wrapper "mysql", table "t"\' '
            f"PARTITION BY KEY (id) ({', '.join(parts)})",
        )
        (rowfall.cwd / "in").mkdir()
        for number in range(_FILES):
            rows = range(number * _EACH, (number + 1) * _EACH)
            text = "id,name\n" + "".join(f"{n},{'x' * 40}{n}\n" for n in rows)
            (rowfall.cwd / "in" / f"{number}.csv").write_text(text)
        proxy = stack.enter_context(Proxy(head.port))
        yield Sharded(head, shards, proxy, rowfall)


def test_rows_go_into_their_shards_once(sharded: Sharded) -> None:
    plan = sharded.rowfall("plan", *sharded.command[1:-2], "-v")
    assert "3, each with transactions of its own" in plan.stdout, plan.stderr
    done = sharded.rowfall(*sharded.command)
    assert done.returncode == 0, done.stderr
    sharded.check()


def test_without_transactions_over_shards_the_plan_says_so(sharded: Sharded) -> None:
    sharded.head.query("SET GLOBAL spider_internal_xa = OFF")
    plan = sharded.rowfall("plan", *sharded.command[1:-2])
    assert "at least once: Spider commits on one server after the other" in " ".join(
        plan.stdout.split()
    )


@pytest.mark.parametrize("bytes_", [60_000, 300_000, 700_000, 1_200_000])
def test_rowfall_is_killed(sharded: Sharded, bytes_: int) -> None:
    sharded.proxy.drop_after(up=bytes_)
    process = sharded.rowfall.start(*sharded.command)
    assert sharded.proxy.dropped.wait(60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    sharded.check()


@pytest.mark.parametrize("number", [0, 1])
def test_a_shard_is_killed(sharded: Sharded, number: int) -> None:
    sharded.proxy.drop_after(up=500_000)
    process = sharded.rowfall.start(*sharded.command)
    assert sharded.proxy.dropped.wait(60)
    sharded.shards[number].kill()
    sharded.shards[number].start()
    process.communicate(timeout=200)
    sharded.check()
