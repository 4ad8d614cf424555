"""SingleStore as a target: what its tests are against a live server, else against MariaDB.

``make test-singlestore`` runs them against ROWFALL_SINGLESTORE_URL; without it a MariaDB stands in,
which speaks the same protocol and is loaded by the same statements but for the keys of the table.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from conftest import Cli
from e2e.tools import Shell
from lab.mariadb import MariaDB
from lab.process import let_pass
from rowfall.core import uri

pytestmark = pytest.mark.xdist_group("mysql")
_URL = os.environ.get("ROWFALL_SINGLESTORE_URL", "")


@dataclass(frozen=True, slots=True)
class Target:
    """A database, and a table name in it that nobody else uses."""

    text: str
    table: str

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        import pymysql

        at = uri.parse(self.text)
        with (
            pymysql.connect(
                host=at.host, port=at.port or 3306, user=at.user, autocommit=True,
                password=at.password.reveal() if at.password else "",
                database=at.path.strip("/"),
            ) as connection,
            connection.cursor() as cursor,
        ):  # fmt: skip
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def to(self) -> tuple[str, ...]:
        return ("--to", self.text, "--table", self.table)

    def sums(self) -> list[int]:
        look = f"SELECT COUNT(*), SUM(id), COUNT(DISTINCT id) FROM {self.table}"
        return [int(value) for value in self.run(look)[0]]


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    text = _URL
    if not text:
        server: MariaDB = request.getfixturevalue("mariadb")
        name = f"db_{secrets.token_hex(4)}"
        server.query(f"CREATE DATABASE {name}")
        text = server.uri(name, scheme="singlestore")
    found = Target(text, f"t_{secrets.token_hex(4)}")
    yield found
    found.run(f"DROP TABLE IF EXISTS {found.table}")
    if _URL:
        found.run("DROP TABLE IF EXISTS _rowfall_loaded")


def lines(start: int, stop: int) -> str:
    return "id,name\n" + "".join(f"{n},x{n}\n" for n in range(start, stop))


def test_files_are_loaded_once(shell: Shell, target: Target) -> None:
    for number in range(3):
        shell.write(f"in/{number}.csv", lines(number * 1000, number * 1000 + 1000))
    load = ("load", "in/*.csv", *target.to(), "--json")
    assert shell.ok(*load).document["rows"] == 3_000
    assert shell.ok(*load).document["rows"] == 0
    shell.write("in/3.csv", lines(3_000, 4_000))
    assert shell.ok(*load).document["rows"] == 1_000
    assert target.sums() == [4_000, 4_000 * 3_999 // 2, 4_000]


def test_text_arrives_as_it_is(shell: Shell, target: Target) -> None:
    text = "tab\\t feed\\f quote' back\\\\ null\\\\N é😀"
    shell.write("a.jsonl", f'{{"id": 1, "name": "{text}"}}\n{{"id": 2, "name": null}}\n')
    shell.ok("load", "a.jsonl", *target.to())
    found = target.run(f"SELECT name FROM {target.table} ORDER BY id")
    assert found == [("tab\t feed\f quote' back\\ null\\N é😀",), (None,)]


@pytest.mark.parametrize("more", [(), ("--prefill", "--streams", "2")])
def test_the_program_of_the_article(shell: Shell, target: Target, more: tuple[str, ...]) -> None:
    rows = "generate://random?rows=20000&bytes=512"
    done = shell.ok("load", rows, *target.to(), *more, "--json")
    assert done.document["rows"] == 20_000
    look = f"SELECT COUNT(*), COUNT(DISTINCT document_id), SUM(LENGTH(payload)) FROM {target.table}"
    assert [int(v) for v in target.run(look)[0]] == [20_000, 20_000, 20_000 * 512]


def test_rows_whose_key_is_there(shell: Shell, target: Target) -> None:
    target.run(f"CREATE TABLE {target.table} (id INT PRIMARY KEY, name VARCHAR(20))")
    target.run(f"INSERT INTO {target.table} VALUES (5, 'old')")
    shell.write("a.csv", lines(0, 10))
    assert shell.run("load", "a.csv", *target.to()).code == 3  # a question: whose row is it?
    assert shell.run("load", "a.csv", *target.to(), "--force-append").code == 1
    assert target.sums()[0] == 1
    shell.ok("load", "a.csv", *target.to(), "--on-conflict", "skip")
    assert target.sums() == [10, 45, 10]


def test_a_value_that_is_too_long_is_not_clipped(shell: Shell, target: Target) -> None:
    target.run(f"CREATE TABLE {target.table} (id INT, name VARCHAR(3))")
    shell.write("a.csv", "id,name\n1,abcd\n")
    assert shell.run("load", "a.csv", *target.to()).code == 1
    assert target.run(f"SELECT * FROM {target.table}") == []


def test_rowfall_is_killed_and_resumes(rowfall: Cli, target: Target) -> None:
    (rowfall.cwd / "in").mkdir()
    for number in range(6):
        (rowfall.cwd / f"in/{number}.csv").write_text(lines(number * 5000, number * 5000 + 5000))
    load = ("load", "in/*.csv", *target.to(), "--attempt-bytes", "50kB")
    process = rowfall.start(*load)
    while process.poll() is None:
        there = target.run(f"SHOW TABLES LIKE '{target.table}'")
        if there and target.run(f"SELECT 1 FROM {target.table} LIMIT 1"):
            break
        let_pass(0.01, "the server is asked so often")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = rowfall(*load)
    assert done.returncode == 0, done.stderr
    assert target.sums() == [30_000, 30_000 * 29_999 // 2, 30_000]


if _URL:  # keys that only SingleStore has

    def test_its_keys_are_made(shell: Shell, target: Target) -> None:
        shell.write("a.csv", lines(0, 10))
        shell.ok("load", "a.csv", *target.to(), "--shard-key", "id", "--order-by", "name")
        ((_, made),) = target.run(f"SHOW CREATE TABLE {target.table}")
        assert "SHARD KEY" in made
        assert "SORT KEY" in made
