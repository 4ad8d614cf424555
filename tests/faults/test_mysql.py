"""Faults of a MariaDB that is a source: each row is in the target once afterwards."""

from __future__ import annotations

import contextlib
import secrets
import signal
import subprocess
import threading
from collections.abc import Generator, Iterator

import pytest

from conftest import Cli
from lab.mariadb import MariaDB
from lab.process import let_pass
from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.sources import open_source
from rowfall.systems.mysql.source import MySQLSource

pytestmark = pytest.mark.xdist_group("mysql")
_ROWS = 60_000
_WIDTH = 500  # 30 MB: more than sockets and pipes hold
_READING = (
    "SELECT ID FROM information_schema.PROCESSLIST "
    "WHERE INFO REGEXP '^SELECT (CONCAT|`id`)' AND DB = '{}'"
)


def filled(server: MariaDB) -> str:
    """Make a database with a table ``t``; return its name."""
    name = f"db_{secrets.token_hex(4)}"
    server.query(
        f"CREATE DATABASE {name}",
        f"CREATE TABLE {name}.t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR({_WIDTH}))",
        f"INSERT INTO {name}.t SELECT seq, REPEAT('x', {_WIDTH}) FROM {name}.seq_1_to_{_ROWS}",
        f"ANALYZE TABLE {name}.t",
    )
    return name


def wait_for_reading(server: MariaDB, database: str, process: subprocess.Popen[str]) -> None:
    """Wait until a load reads, or has ended: ranges are read in milliseconds."""
    with server.connect() as connection, connection.cursor() as cursor:
        while process.poll() is None and not cursor.execute(_READING.format(database)):
            let_pass(0.002, "ranges are read in milliseconds")


def check(rowfall: Cli) -> None:
    done = rowfall("query", "SELECT count(), sum(id), uniqExact(id) FROM t", "--format", "TSV")
    assert done.stdout.split() == [str(_ROWS), str(_ROWS * (_ROWS + 1) // 2), str(_ROWS)]


@contextlib.contextmanager
def killer(server: MariaDB, database: str, most: int) -> Iterator[list[int]]:
    """Kill connections that read, one after the other."""
    killed: list[int] = []
    over = threading.Event()

    def run() -> None:
        with server.connect() as connection, connection.cursor() as cursor:
            while not over.wait(0.005) and len(killed) < most:
                cursor.execute(_READING.format(database))
                for (number,) in cursor.fetchall()[:1]:
                    with contextlib.suppress(Exception):  # it has just ended
                        cursor.execute(f"KILL CONNECTION {number}")
                        killed.append(number)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_a_killed_connection_is_no_end_of_the_rows(mariadb: MariaDB) -> None:
    """In the middle of a range: what was read is not taken for all, and the next try reads all."""
    database = filled(mariadb)
    source = open_source([mariadb.uri(f"{database}/t?key=none")], Options())
    assert isinstance(source, MySQLSource)
    (split,) = source.listing().splits("t")
    for how in ("KILL CONNECTION", "KILL QUERY"):
        stream = source.stream(split)
        next(stream)
        got = len(next(stream))
        ((number,),) = mariadb.query(_READING.format(database))
        mariadb.query(f"{how} {number}")
        rest: list[bytes] = []
        with pytest.raises(SourceError) as error:
            rest.extend(stream)
        assert error.value.transient
        assert got + sum(map(len, rest)) < _ROWS * _WIDTH
    assert sum(map(len, source.stream(split))) > _ROWS * _WIDTH


def read_to_the_end(stream: Generator[bytes]) -> int:
    """Read packets until nothing has come for a fifth of a second, go, and return their bytes."""
    got = silent = 0
    for piece in stream:
        got, silent = got + len(piece), 0 if piece else silent + 1
        if silent > 15:
            break
    stream.close()
    return got


def test_a_killed_connection_is_no_end_of_the_packets(mariadb: MariaDB) -> None:
    """rowfall-decode has gone at the error, and this process tells it; the next try reads all."""
    database = filled(mariadb)
    source = open_source([mariadb.uri(f"{database}/t?key=none")], Options())
    assert isinstance(source, MySQLSource)
    (split,) = source.listing().splits("t")
    for how in ("KILL CONNECTION", "KILL QUERY"):
        stream = source.packets(split)
        assert isinstance(stream, Generator)
        next(stream)
        ((number,),) = mariadb.query(_READING.format(database))
        mariadb.query(f"{how} {number}")
        with pytest.raises(SourceError) as error:
            read_to_the_end(stream)
        assert error.value.transient
    stream = source.packets(split)
    assert isinstance(stream, Generator)
    assert read_to_the_end(stream) > _ROWS * _WIDTH
    assert len(source._sessions)  # the connection can be used again


@pytest.mark.long
def test_connections_are_killed_while_a_load_reads(rowfall: Cli, mariadb: MariaDB) -> None:
    database = filled(mariadb)
    with killer(mariadb, database, 3) as killed:
        done = rowfall("load", mariadb.uri(f"{database}/t"))
    assert done.returncode == 0, done.stderr
    assert killed
    check(rowfall)


def test_rowfall_is_killed_and_resumes(rowfall: Cli, mariadb: MariaDB) -> None:
    database = filled(mariadb)
    uri = mariadb.uri(f"{database}/t")
    command = ("load", uri, "--attempt-bytes", "4M")
    process = rowfall.start(*command)
    wait_for_reading(mariadb, database, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # The table has grown meanwhile, so that its ranges are cut at other places.
    mariadb.query(f"INSERT INTO {database}.t SELECT NULL, 'more' FROM {database}.seq_1_to_1000")
    done = rowfall(*command)
    assert done.returncode == 0, done.stderr
    mariadb.query(f"DELETE FROM {database}.t WHERE name = 'more'")
    found = rowfall("query", "SELECT count(), uniqExact(id) FROM t", "--format", "TSV")
    assert found.stdout.split() == [str(_ROWS + 1000)] * 2
    done = rowfall(*command)
    assert done.returncode == 0
    assert (
        rowfall("query", "SELECT count() FROM t", "--format", "TSV").stdout == f"{_ROWS + 1000}\n"
    )


@pytest.mark.long
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_server_is_started_again_while_a_load_reads(rowfall: Cli, end: str) -> None:
    with MariaDB() as server:
        database = filled(server)
        # Slow, so that the server ends in the middle of it: about 10 s.
        slow = f"CREATE VIEW {database}.v AS SELECT * FROM {database}.t WHERE SLEEP(0.0001) = 0"
        server.query(slow)
        process = rowfall.start("load", server.uri(f"{database}/v"), "--table", "t")
        wait_for_reading(server, database, process)
        assert process.poll() is None
        getattr(server, end)()
        let_pass(1, "a second without a server")
        server.start()
        _, said = process.communicate(timeout=90)
        assert process.returncode == 0, said
        check(rowfall)
