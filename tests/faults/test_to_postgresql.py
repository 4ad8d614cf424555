"""Faults of loads into PostgreSQL: afterwards each row is in the table once."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from faults.kills import CODES, sample
from lab.disk import SmallDisk
from lab.postgresql import PostgresqlServer
from lab.process import let_pass, wait_until
from lab.proxy import Proxy
from rowfall.core.errors import TargetError
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.engines.database import BusyError, SplitRecord, UnknownEndError
from rowfall.systems.postgresql.database import PostgresDatabase

pytestmark = pytest.mark.xdist_group("postgresql")

STEPPER = Path(__file__).with_name("stepper.py")
FILES, ROWS = 4, 500
WIDE = 2000  # a file of 1 MB: more than sockets and pipes hold
_TRIES = 3


class Target:
    """A schema of its own, some files, and the command that loads them."""

    def __init__(self, rowfall: Any, server: PostgresqlServer, port: int = 0) -> None:
        self.rowfall, self.server = rowfall, server
        self.schema = f"f{secrets.token_hex(4)}"
        server.run(f"CREATE SCHEMA {self.schema}")
        uri = server.uri.replace(f":{server.port}", f":{port or server.port}")
        self.command = (
            "load", "in/*.csv", "--table", "t", "--to", f"{uri}?schema={self.schema}",
            "--attempt-bytes", "1KB", "--streams", "2", "--threads", "2", "--memory", "1GiB",
        )  # fmt: skip
        for number in range(FILES):
            self._write(f"in/{number}.csv", range(number * ROWS, (number + 1) * ROWS))

    def _write(self, name: str, ids: range) -> None:
        path = self.rowfall.cwd / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("id,pad\n" + "".join(f"{i},{'x' * WIDE}\n" for i in ids))

    def fresh(self) -> None:
        self.server.run(
            f"DROP TABLE IF EXISTS {self.schema}.t",
            f"DROP TABLE IF EXISTS {self.schema}._rowfall_loaded",
        )

    def load(self, *more: str) -> str:
        """Run until it succeeds, a few times at most; then everything is there once."""
        said = []
        for _ in range(_TRIES):
            done = self.rowfall(*self.command, *more)
            said.append(f"[{done.returncode}] {done.stderr}")
            assert "Traceback" not in done.stderr
            if done.returncode == 0:
                break
        else:
            raise AssertionError("\n".join(said))
        try:
            self.check()
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *said])) from None
        return "\n".join(said)

    def check(self) -> None:
        count = FILES * ROWS
        found = self.server.ask(
            f"SELECT count(*), count(DISTINCT id), sum(id) FROM {self.schema}.t"
        )
        assert found == [(count, count, count * (count - 1) // 2)]
        splits = f"SELECT count(*), count(DISTINCT split) FROM {self.schema}._rowfall_loaded"
        assert self.server.ask(splits) == [(FILES, FILES)]

    def close(self) -> None:
        self.server.run(f"DROP SCHEMA {self.schema} CASCADE")

    @contextlib.contextmanager
    def during_copy(self, do: Callable[[Any], None], times: int = 1) -> Iterator[list[int]]:
        """Do something, from another thread, to a backend that copies."""
        met: list[int] = []
        over = threading.Event()

        def run() -> None:
            with self.server.connect() as connection:
                while not over.is_set() and len(met) < times:
                    rows = connection.execute(
                        "SELECT pid FROM pg_stat_activity WHERE query LIKE %s AND state = 'active'",
                        [f'COPY "{self.schema}"%'],
                    ).fetchall()
                    for (pid,) in rows[:1]:
                        met.append(pid)
                        do(connection)
                        return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield met
        finally:
            over.set()
            thread.join()


@pytest.fixture(autouse=True)
def _password(postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", postgresql.password)


@pytest.fixture
def target(rowfall: Any, postgresql: PostgresqlServer) -> Iterator[Target]:
    target = Target(rowfall, postgresql)
    yield target
    target.close()


def opened(server: PostgresqlServer, port: int, schema: str) -> PostgresDatabase:
    """Return the table ``t`` of a schema, as a load opens it."""
    options = {"database": server.database}
    at = ServerAt("127.0.0.1", port, False, server.user, Secret(server.password), options)
    return PostgresDatabase(at, schema, "t", Options())


def _stepped(target: Target, number: int, side: str, kind: str) -> tuple[list[str], str]:
    steps = target.rowfall.cwd / "steps"
    steps.unlink(missing_ok=True)
    process = target.rowfall.start(
        *target.command,
        program=[sys.executable, str(STEPPER), str(steps), str(number), side, kind],
    )
    out, err = process.communicate(timeout=100)
    assert process.returncode in CODES, f"{process.returncode}\n{out}\n{err}"
    return steps.read_text().splitlines(), f"step {number} {side}, {kind}\n{err}"


@pytest.mark.parametrize(
    "kind",
    [
        "kill -9 rowfall",
        *(pytest.param(k, marks=pytest.mark.long) for k in ("kill -9 engine child", "Ctrl-C")),
    ],
)
def test_a_kill_at_any_step(target: Target, kind: str) -> None:
    steps, _ = _stepped(target, 0, "before", "")
    target.check()
    database = [s for s in steps if "database:" in s]
    assert len(database) >= 4 * FILES
    places = [(n, side) for n in range(1, len(steps) + 1) for side in ("before", "after")]
    chosen = sample(kind, places)
    # Always: around the commit.
    last = next(int(s.split()[0]) for s in steps if s.endswith("database: commit"))
    for number, side in [*chosen, (last, "before"), (last, "after")]:
        target.fresh()
        _, said = _stepped(target, number, side, kind)
        try:
            target.load()
        except AssertionError as error:
            raise AssertionError(f"{said}\n{error}") from None


def test_a_backend_is_killed_in_copy(target: Target) -> None:
    """The transaction of one attempt is lost, and is made again by the same run."""

    def kill(connection: Any) -> None:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s",
            [f'COPY "{target.schema}"%'],
        )

    with target.during_copy(kill) as met:
        done = target.rowfall(*target.command)
    assert done.returncode == 0, done.stderr
    assert met
    target.check()


@pytest.mark.long
def test_the_server_is_killed_in_copy(target: Target) -> None:
    def kill(connection: Any) -> None:
        target.server.kill()
        target.server.start()

    with target.during_copy(kill) as met:
        first = target.rowfall(*target.command)
    assert met
    assert first.returncode in (0, 1, 5, 6), first.stderr
    target.load()


@pytest.mark.parametrize(
    "up",
    [600_000, *(pytest.param(n, marks=pytest.mark.long) for n in (20_000, 1_300_000, 2_600_000))],
)
def test_a_cut_connection(rowfall: Any, postgresql: PostgresqlServer, up: int) -> None:
    """In the lease, in COPY, about the commit: nothing is lost, nothing is there twice."""
    with Proxy(postgresql.port) as proxy:
        target = Target(rowfall, postgresql, proxy.port)
        try:
            proxy.drop_after(up=up)
            done = target.rowfall(*target.command)
            assert done.returncode in (0, 1, 5, 6), done.stderr
            assert proxy.dropped.is_set()
            target.load()
        finally:
            target.close()


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_commit_whose_answer_is_lost(
    rowfall: Any, postgresql: PostgresqlServer, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up: the server has never heard of it. Down: it has committed. Both are found out."""
    with Proxy(postgresql.port) as proxy:
        schema = f"f{secrets.token_hex(4)}"
        postgresql.run(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.t (id int)")
        database = opened(postgresql, proxy.port, schema)
        try:
            database.prepare(())
            transaction = database.transaction("l_1")
            assert not transaction.lease("l_1", "l", [SplitRecord("a", "a")])
            assert transaction.write(["id"], iter([b"1\n2", b"\n"])) == 2
            assert transaction.finish(2) == 2
            proxy.drop_after(**({"up": 1} if way == "up" else {"down": 1}))
            with pytest.raises(UnknownEndError):
                transaction.commit()
            assert database.settled("l_1") is (way == "down")
            database.ended("l_1")
            rows = 2 if way == "down" else 0
            assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(rows,)]
            again = database.transaction("l_2")
            assert again.lease("l_2", "l", [SplitRecord("a", "a")]) == ({"a"} if rows else set())
            database.ended("l_2")
        finally:
            database.close()
            postgresql.run(f"DROP SCHEMA {schema} CASCADE")


def test_a_table_that_is_made_anew_during_a_load_gets_no_rows(postgresql: PostgresqlServer) -> None:
    """They would be recorded for the table that is gone, and loaded again by the next load."""
    schema = f"f{secrets.token_hex(4)}"
    postgresql.run(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.t (id int)")
    database = opened(postgresql, postgresql.port, schema)
    try:
        database.prepare(())
        transaction = database.transaction("l_1")
        assert not transaction.lease("l_1", "l", [SplitRecord("a", "a")])
        postgresql.run(f"DROP TABLE {schema}.t", f"CREATE TABLE {schema}.t (id int)")
        assert transaction.write(["id"], iter([b"1\n"])) == 1
        with pytest.raises(TargetError, match="made anew during this load"):
            transaction.finish(1)
        database.ended("l_1")
        assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(0,)]
        assert not database.loaded()
    finally:
        database.close()
        postgresql.run(f"DROP SCHEMA {schema} CASCADE")


def test_two_loads_of_the_same_files(target: Target) -> None:
    """Each file is loaded by one of them; the other one waits, and then leaves it out."""
    first, second = (target.rowfall.start(*target.command) for _ in range(2))
    for process in (first, second):
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, f"{out}\n{err}"
    target.check()


def test_ranges_of_a_file_and_the_file_exclude_each_other(postgresql: PostgresqlServer) -> None:
    """Two runs that cut a file in different ways; and streams, which belong to one process."""
    schema = f"f{secrets.token_hex(4)}"
    postgresql.run(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.t (id int)")
    one, two = (opened(postgresql, postgresql.port, schema) for _ in range(2))
    whole, first, second = (
        SplitRecord("w", "w", large=True), SplitRecord("r1", "r1", "w"),
        SplitRecord("r2", "r2", "w"),
    )  # fmt: skip
    try:
        one.prepare(())
        assert two.existing_table() is not None
        assert not one.transaction("a").lease("a", "l", [first])
        assert not two.transaction("b").lease("b", "l", [second])  # beside the other one
        two.ended("b")
        with pytest.raises(BusyError):
            two.transaction("c").lease("c", "m", [whole])
        one.transaction("a").commit()
        one.ended("a")
        assert two.transaction("c").lease("c", "m", [whole]) == {"w"}
        two.ended("c")
        assert two.loaded() == {"r1", "~w"}
        assert one.hold(["s"])
        assert one.hold(["s"])
        assert not two.hold(["s"])
        one.close()
        wait_until(lambda: two.hold(["s"]), 10, "the stream to be free")
    finally:
        one.close()
        two.close()
        postgresql.run(f"DROP SCHEMA {schema} CASCADE")


@pytest.mark.long
def test_a_locked_table_is_waited_for(target: Target) -> None:
    target.load()
    target.fresh()
    target.server.run(f"CREATE TABLE {target.schema}.t (id int, pad text)")
    with target.server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"LOCK TABLE {target.schema}.t")
        process = target.rowfall.start(*target.command)
        let_pass(2, "it would have ended if it did not wait for the lock")
        assert process.poll() is None
        other.execute("ROLLBACK")
        _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    target.check()


@pytest.mark.long
def test_a_deadlock_is_tried_again(target: Target) -> None:
    """Another session takes the same keys in the other order: one of the two is rolled back."""
    schema = target.schema
    target.server.run(
        "ALTER SYSTEM SET deadlock_timeout = '100ms'", "SELECT pg_reload_conf()",
        f"CREATE TABLE {schema}.t (id int PRIMARY KEY, pad text)",
        f"INSERT INTO {schema}.t VALUES (0, ''), (1, '')",
    )  # fmt: skip
    try:
        with target.server.connect() as other:
            other.execute("BEGIN")
            other.execute(f"UPDATE {schema}.t SET pad = 'o' WHERE id = 1")
            process = target.rowfall.start(*target.command, "--on-conflict", "replace")
            waiting = (
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                f'AND query LIKE \'INSERT INTO "{schema}"."t"%\''
            )
            wait_until(lambda: bool(target.server.ask(waiting)), 30, "the load to wait for key 1")
            # The load holds key 0 and waits for key 1.
            with contextlib.suppress(Exception):  # either of the two is the victim
                other.execute(f"UPDATE {schema}.t SET pad = 'o' WHERE id = 0")
            other.execute("ROLLBACK")
            _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        target.check()
    finally:
        target.server.run("ALTER SYSTEM RESET deadlock_timeout", "SELECT pg_reload_conf()")


@pytest.mark.long
def test_a_full_disk_stops_the_load_until_there_is_room(target: Target) -> None:
    server, schema = target.server, target.schema
    with closing(SmallDisk(server.folder / f"small{secrets.token_hex(3)}", 16)) as disk:
        if os.geteuid() == 0:
            shutil.chown(disk.path, "nobody", "nogroup")
        space = f"small_{secrets.token_hex(3)}"
        server.run(
            f"CREATE TABLESPACE {space} LOCATION '{disk.path}'",
            f"CREATE TABLE {schema}.t (id int, pad text) TABLESPACE {space}",
        )
        try:
            disk.fill(leave=64 << 10)
            done = target.rowfall(*target.command)
            assert done.returncode == 5, done.stderr
            assert "Free some space there" in done.stderr, done.stderr
            disk.empty()
            done = target.rowfall(*target.command)
            assert done.returncode == 0, done.stderr
            target.check()
        finally:
            disk.empty()
            server.run(f"DROP TABLE {schema}.t", f"DROP TABLESPACE {space}")
