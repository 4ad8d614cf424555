"""Faults of a load into MariaDB: each row is there once afterwards, at whatever byte it was cut.

A proxy cuts the connections at a byte of one direction, and so at every step of the protocol:
while the lease is asked for, in the middle of LOAD DATA, before COMMIT, and where its answer is
lost. Then rowfall or the server is killed, or nothing else happens.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from conftest import Cli
from e2e.tools import decoder_of
from lab.disk import SmallDisk
from lab.kafka import Kafka
from lab.mariadb import SINGLESTORE_URL, GivenServer, MariaDB
from lab.process import let_pass, wait_until
from lab.proxy import Proxy
from rowfall.core.masked import Secret
from rowfall.core.options import Options
from rowfall.core.server_address import ServerAt
from rowfall.systems.mysql.database import MySQLDatabase

pytestmark = pytest.mark.xdist_group("mysql")
_FILES, _EACH = 3, 2_000
_ROWS = _FILES * _EACH
_ATTEMPTS = ("--attempt-bytes", "100kB")
"""One for each file."""
_COMMIT = "\x03COMMIT"
"""With the byte of a query in front: not of READ COMMITTED."""
# Statements of a load, in their order: the record is made, a lease is asked for, rows are announced
# (as parameters, and as text), the record is completed, all is committed.
_STEPS = (
    "CREATE TABLE", "\x03BEGIN", "loaded) VALUES", "VALUES (?", "LOAD DATA", "UPDATE `",
    _COMMIT,
)  # fmt: skip
if SINGLESTORE_URL:  # which takes no rows of parameters
    _STEPS = tuple(step for step in _STEPS if step != "VALUES (?")
_CASES = [(step, passes) for step in _STEPS for passes in (False, True)] + [("rows", False)]
_IN_THE_ROWS = 60_000


@dataclass(frozen=True, slots=True)
class Place:
    """A database behind a proxy, and files to load."""

    server: MariaDB | GivenServer
    proxy: Proxy
    name: str
    rowfall: Cli

    @property
    def command(self) -> tuple[str, ...]:
        direct = self.server.uri(self.name)
        at = f"{self.server.host}:{self.server.port}/"
        to = direct.replace(at, f"127.0.0.1:{self.proxy.port}/")
        more = ("--table", "t", "--patience", "20s", *_ATTEMPTS)
        return ("load", "in/*.csv", "--to", to, *more)

    def cut(self, step: str, *, passes: bool) -> tuple[str, ...]:
        """Cut the connection at a statement: it does not arrive, or its answer is lost.

        Returns:
            The options of a load that has this statement.
        """
        if step == "rows":
            self.proxy.drop_after(up=_IN_THE_ROWS)
        else:
            self.proxy.drop_at(step.encode(), passes=passes)
        more = ("--decoder", "never") if step == "LOAD DATA" else ()
        return ("--streams", "1", *more)

    def check(self) -> None:
        """Check the table, after one more run that has nothing left to do."""
        again = self.rowfall(*self.command)
        assert again.returncode == 0, again.stderr
        self.check_rows()

    def check_rows(self) -> None:
        """Check that each row is there once, and that no transaction is open."""
        look = "SELECT COUNT(*), SUM(id), COUNT(DISTINCT id) FROM t"
        assert self.server.query(look, database=self.name) == [
            (_ROWS, _ROWS * (_ROWS - 1) // 2, _ROWS)
        ]
        if isinstance(self.server, GivenServer):
            return
        (left,) = self.server.query(
            f"SELECT COUNT(*) FROM information_schema.INNODB_TRX t JOIN "
            f"information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id "
            f"WHERE p.DB = '{self.name}'"
        )
        assert left == (0,)


def place(server: MariaDB | GivenServer, rowfall: Cli, proxy: Proxy) -> Place:
    name = f"db_{secrets.token_hex(4)}"
    server.query(f"CREATE DATABASE {name}")
    (rowfall.cwd / "in").mkdir()
    for number in range(_FILES):
        rows = range(number * _EACH, (number + 1) * _EACH)
        text = "id,name\n" + "".join(f"{n},{'x' * 60}{n}\n" for n in rows)
        (rowfall.cwd / "in" / f"{number}.csv").write_text(text)
    return Place(server, proxy, name, rowfall)


@pytest.fixture
def here(request: pytest.FixtureRequest, rowfall: Cli) -> Iterator[Place]:
    if not SINGLESTORE_URL:
        mariadb: MariaDB = request.getfixturevalue("mariadb")
        with Proxy(mariadb.port) as proxy:
            yield place(mariadb, rowfall, proxy)
        return
    server = GivenServer(SINGLESTORE_URL)
    with Proxy(server.port, server.host) as proxy:
        made = place(server, rowfall, proxy)
        yield made
        server.query(f"DROP DATABASE {made.name}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("step", "passes"), _CASES)
def test_a_connection_is_cut(here: Place, step: str, passes: bool) -> None:
    """The load tries again by itself, or asks how its commit has ended."""
    more = here.cut(step, passes=passes)
    done = here.rowfall(*here.command, *more)
    assert here.proxy.dropped.is_set()
    assert done.returncode == 0, done.stderr
    here.check()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("step", "passes"), _CASES)
def test_rowfall_is_killed(here: Place, step: str, passes: bool) -> None:
    more = here.cut(step, passes=passes)
    process = here.rowfall.start(*here.command, *more)
    assert here.proxy.dropped.wait(60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    here.check()


_MADE = 40_000


@pytest.mark.sampled(2)
@pytest.mark.parametrize("who", ["decoder", "rowfall", "connection", "session"])
def test_rows_that_go_from_a_pipe_into_the_socket_stop(here: Place, who: str) -> None:
    """rowfall-decode makes them: somebody is killed in the middle of LOAD DATA."""
    here.server.query(
        "CREATE TABLE t (document_id BIGINT PRIMARY KEY, payload VARCHAR(520))", database=here.name
    )
    rows = f"generate://random?rows={_MADE}&bytes=512"
    # Where rows of the same key are left out they are not sent as parameters.
    load = ("load", rows, *here.command[2:-2], "--attempt-bytes", "10MB", "--on-conflict", "skip")
    here.proxy.throttle(4_000_000)
    if who == "connection":
        here.proxy.drop_after(up=5_000_000)
    process = here.rowfall.start(*load)
    look = (
        "SELECT ID FROM information_schema.PROCESSLIST "
        f"WHERE INFO LIKE 'LOAD%' AND DB = '{here.name}'"
    )
    wait_until(lambda: bool(here.server.query(look)), 60, "rows are loaded")
    if who == "rowfall":
        process.send_signal(signal.SIGKILL)
    elif who == "decoder":
        os.kill(decoder_of(process), signal.SIGKILL)
    elif who == "session":
        ((session,), *_) = here.server.query(look)
        here.server.query(f"KILL CONNECTION {session}")
    else:
        assert here.proxy.dropped.wait(60)
    here.proxy.throttle(None)
    _, err = process.communicate(timeout=120)
    assert who == "rowfall" or process.returncode == 0, err
    assert who == "rowfall" or "trying again" in err
    again = here.rowfall(*load)
    assert again.returncode == 0, again.stderr
    look = "SELECT COUNT(*), SUM(document_id), SUM(LENGTH(payload)) FROM t"
    assert here.server.query(look, database=here.name) == [
        (_MADE, _MADE * (_MADE - 1) // 2, _MADE * 512)
    ]


@pytest.mark.parametrize(
    ("step", "passes"),
    [
        pytest.param(*case, marks=() if case == (_COMMIT, True) else pytest.mark.long)
        for case in _CASES
    ],
)
@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_server_is_killed(rowfall: Cli, step: str, passes: bool, both: bool) -> None:
    with MariaDB() as server, Proxy(server.port) as proxy:
        here = place(server, rowfall, proxy)
        more = here.cut(step, passes=passes)
        process = rowfall.start(*here.command, *more)
        assert proxy.dropped.wait(60)
        server.kill()
        if both:
            process.send_signal(signal.SIGKILL)
        server.start()
        _, err = process.communicate(timeout=120)
        assert both or process.returncode == 0, err
        here.check()


def test_two_loads_of_the_same_files_share_them(here: Place) -> None:
    """The record is their lease: what one loads, the other one waits for and leaves out."""
    both = [here.rowfall.start(*here.command) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    here.check()


@pytest.mark.parametrize("question", ["record", "rows"])
def test_two_loads_of_a_table_made_anew_share_the_files(here: Place, question: str) -> None:
    """One asks whether what the record says is still true, and the other one loads meanwhile."""
    here.server.query("CREATE TABLE t (id INT, name VARCHAR(100))", database=here.name)
    first = here.rowfall(*here.command)
    assert first.returncode == 0, first.stderr
    here.server.query("DROP TABLE t", database=here.name)
    # The record is asked for by the plan, too, before there is a table.
    mark, at = ("SELECT split, attempt, whole", 2) if question == "record" else (
        f"SELECT 1 FROM `{here.name}`.`t` LIMIT 1", 1,
    )  # fmt: skip
    here.proxy.hold_at(mark.encode(), at=at)
    slow = here.rowfall.start(*here.command)
    assert here.proxy.held.wait(60)
    port, direct = str(here.proxy.port), str(here.server.port)
    quick = here.rowfall(*(word.replace(f":{port}/", f":{direct}/") for word in here.command))
    assert quick.returncode == 0, quick.stderr
    here.proxy.resume()
    _, err = slow.communicate(timeout=120)
    assert slow.returncode == 0, err
    here.check()


def test_a_lock_is_waited_for(here: Place) -> None:
    """Somebody has rows of the table locked for a while: the load goes on behind them."""
    database = here.name
    here.server.query(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(100)) ENGINE=InnoDB", database=database
    )
    with here.server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (100, 'theirs')")
        process = here.rowfall.start(*here.command)
        waiting = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        wait_until(
            lambda: here.server.query(waiting) != [(0,)] or process.poll() is not None, 60,
            "the load to wait",
        )  # fmt: skip
        assert process.poll() is None, process.communicate()
        cursor.execute("ROLLBACK")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    here.check()


@pytest.mark.long
def test_a_transaction_that_the_server_ends_is_tried_again(here: Place) -> None:
    """As for a deadlock: LOAD DATA waits for a lock, and is killed there."""
    database = here.name
    here.server.query(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(100)) ENGINE=InnoDB", database=database
    )
    with here.server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t VALUES (100, 'theirs')")
        process = here.rowfall.start(*here.command)
        waiting = (
            "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX "
            "WHERE trx_state = 'LOCK WAIT'"
        )
        found: list[Any] = []

        def waits() -> bool:
            found[:] = here.server.query(waiting)
            return bool(found) or process.poll() is not None

        wait_until(waits, 60, "the load to wait")
        assert process.poll() is None, process.communicate()
        here.server.query(f"KILL QUERY {found[0][0]}")
        let_pass(0.2, "the killed statement is repeated")
        cursor.execute("ROLLBACK")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    here.check()


def test_a_deadlock_is_tried_again(here: Place) -> None:
    """The server ends the transaction that costs least, which is the load's first rows."""
    database = here.name
    here.server.query(
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(100)) ENGINE=InnoDB",
        "CREATE TABLE big (id INT PRIMARY KEY)",
        "INSERT INTO big SELECT seq FROM seq_1_to_20000",
        database=database,
    )
    with here.server.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("DELETE FROM big")  # dear to roll back
        cursor.execute("INSERT INTO t VALUES (1000, 'theirs')")
        process = here.rowfall.start(*here.command)
        waiting = (
            "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX "
            "WHERE trx_state = 'LOCK WAIT'"
        )
        while not here.server.query(waiting):
            assert process.poll() is None, process.communicate()
            let_pass(0.2, "the server answers the same until nobody has asked for 0.1 s")
        # Row 1 is the load's by now: each waits for the other.
        cursor.execute("SELECT * FROM t WHERE id = 1 FOR UPDATE")
        cursor.execute("ROLLBACK")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    here.check()


def opened(server: MariaDB, port: int, database: str) -> MySQLDatabase:
    at = ServerAt("127.0.0.1", port, False, server.user, Secret(server.password))
    return MySQLDatabase(at, database, "t", Options(patience="10s"))


def test_a_stream_belongs_to_one_process(here: Place) -> None:
    """Of two that load a topic into one table one stops; other tables are another matter."""
    port = here.proxy.port
    one, two = (opened(here.server, port, here.name) for _ in range(2))
    at = ServerAt("127.0.0.1", port, False, here.server.user, Secret(here.server.password))
    other = MySQLDatabase(at, here.name, "u", Options())
    try:
        assert one.hold(["s", "q"])
        assert one.hold(["s"])
        assert not two.hold(["s"])
        assert other.hold(["s"])
        assert two.hold(["free"])
        # With its connection it is lost: whoever is first has it then.
        here.proxy.cut()
        wait_until(lambda: two.hold(["s"]), 10, "the stream to be free")
        assert not one.hold(["s"])
        two.close()
        wait_until(lambda: one.hold(["s"]), 10, "the stream to be free")
    finally:
        for database in (one, two, other):
            database.close()


@pytest.mark.long  # the start of a broker
def test_two_loads_of_one_topic_do_not_double_it(here: Place, kafka: Kafka) -> None:
    topic = kafka.create(partitions=2)
    kafka.send(topic, [f'{{"id": {i}}}'.encode() for i in range(_ROWS)])
    command = [*here.command, "--format", "JSONEachRow"]
    command[1] = f"kafka://{kafka.servers}/{topic}"
    for _ in range(3):
        both = [here.rowfall.start(*command) for _ in range(2)]
        for process in both:
            _, err = process.communicate(timeout=120)
            assert process.returncode == 0 or "another rowfall loads" in err, err
    here.check_rows()


@pytest.mark.long
def test_a_full_disk_stops_the_load_until_there_is_room(here: Place) -> None:
    """InnoDB grows a table by megabytes: that of the table is on a disk of its own."""
    with closing(SmallDisk(here.server.folder / f"small{secrets.token_hex(3)}", 24)) as disk:
        if os.geteuid() == 0:
            shutil.chown(disk.path, "nobody", "nogroup")
        here.server.query(
            "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(2000)) ENGINE=InnoDB "
            f"DATA DIRECTORY = '{disk.path}'",
            database=here.name,
        )
        for file in (here.rowfall.cwd / "in").iterdir():
            file.write_text(file.read_text().replace("x" * 60, "x" * 1500))
        disk.fill(leave=0)
        done = here.rowfall(*here.command)
        assert done.returncode == 5, done.stderr
        assert "error 11" in done.stderr or "error 10" in done.stderr, done.stderr
        disk.empty()
        done = here.rowfall(*here.command)
        assert done.returncode == 0, done.stderr
        here.check()
        here.server.query("DROP TABLE t", database=here.name)
