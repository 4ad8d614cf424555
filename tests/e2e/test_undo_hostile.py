"""rowfall undo where others meddle: nothing is lost, doubled or kept that should be gone."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from e2e.lake import Lake
from e2e.test_to_mysql import Database, db  # noqa: F401 - a fixture
from e2e.test_undo import KILLER, SUMS, files, load
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from rowfall.core.errors import EngineError
from rowfall.destinations.clickhouse import undo as undoing
from rowfall.ledger import leases

pytestmark = pytest.mark.long
COLUMN = ("--add-column", "file=_path")
NAMES = "SELECT name FROM system.parts WHERE active AND table = 't' ORDER BY name"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def write(shell: Shell, *statements: str) -> None:
    for text in statements:
        shell.ok("query", "--write", text)


def test_a_copy_of_the_table_has_the_same_parts(shell: Shell) -> None:
    files(shell)
    load(shell, "a0.csv")
    second = load(shell, "a1.csv")
    write(shell, "CREATE TABLE a AS t", "ALTER TABLE a ATTACH PARTITION ALL FROM t")
    shell.ok("undo", second, "--yes")
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    assert shell.rows("SELECT count() FROM a") == [[200]]


@pytest.mark.parametrize("option", [("--replace",), ("--upsert", "id", "--force")])
def test_rows_of_a_later_load_of_the_same_file(shell: Shell, option: tuple[str, ...]) -> None:
    files(shell)
    first = load(shell, "a0.csv", *COLUMN)
    load(shell, "a0.csv", *COLUMN, *option)
    before = shell.rows(SUMS)
    shell.ends(3, "undo", first, "--yes")
    assert shell.rows(SUMS) == before == [[100, 100, sum(range(100))]]
    assert "nothing to load" in shell.ok("load", "a0.csv", "--table", "t", *COLUMN).err


def test_the_second_of_two_loads_of_a_file(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv")
    second = load(shell, "a0.csv", "--force")
    assert shell.rows("SELECT count() FROM t") == [[200]]
    shell.ok("undo", second, "--yes")
    load(shell, "a0.csv")
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    second, third = (load(shell, "a0.csv", "--force") for _ in range(2))
    for one in (second, third):
        shell.ok("undo", one, "--yes")
    load(shell, "a0.csv")
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    shell.ok("undo", first, "--yes")
    load(shell, "a0.csv")
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    third = load(shell, "a0.csv", "--force")
    write(shell, "DELETE FROM t WHERE id = 1 AND _part = 'none'", "DELETE FROM t WHERE id = 7")
    assert "before" in shell.ends(3, "undo", third, "--yes").talk


def test_detached_parts_of_others(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv")
    ((name,),) = shell.rows(NAMES)
    ((path,),) = shell.rows("SELECT path FROM system.parts WHERE active AND table = 't'")
    other = os.path.join(os.path.dirname(path.rstrip("/")), "detached", name)
    os.makedirs(other, exist_ok=True)
    assert "detached part" in shell.ends(3, "undo", first, "--yes").talk
    assert os.path.isdir(other)
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    os.rmdir(other)
    shell.ok("undo", first, "--yes")
    assert shell.rows("SELECT count() FROM t") == [[0]]


@pytest.mark.parametrize("step", ["look", "statement"])
def test_a_merge_between_the_look_and_the_last_part(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    files(shell)
    load(shell, "a0.csv", "--partition-by", "k")
    second = load(shell, "a1.csv")
    done: list[str] = []
    alter, active = undoing._alter, undoing._active

    def merge(engine: Any) -> None:
        if not done and engine.ask("SELECT count() FROM system.detached_parts") == [[1]]:
            done.append("merged")
            engine.run(undoing.Statement(undoing.SqlText.of("OPTIMIZE TABLE t FINAL")))

    def altering(engine: Any, part: Any, what: str, *more: Any) -> None:
        if step == "statement" and what == "DETACH PART":
            merge(engine)
        alter(engine, part, what, *more)

    def asking(engine: Any, at: Any, uuids: Any) -> Any:
        if step == "look" and len(uuids) == 1:
            merge(engine)
        return active(engine, at, uuids)

    monkeypatch.setattr(undoing, "_alter", altering)
    monkeypatch.setattr(undoing, "_active", asking)
    assert "merged just now" in shell.ends(3, "undo", second, "--yes").talk
    assert done
    assert shell.rows(SUMS) == [[200, 200, sum(range(200))]]
    assert shell.rows("SELECT count() FROM system.detached_parts") == [[0]]
    assert "nothing to load" in shell.ok("load", "a1.csv", "--table", "t").err


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_server_that_dies_in_between(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    files(shell)
    load(shell, "a0.csv", "--partition-by", "k")
    second = load(shell, "a1.csv")
    left, alter = [at], undoing._alter

    def dying(engine: Any, part: Any, what: str, *more: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise EngineError("the server is gone", transient=True)
        alter(engine, part, what, *more)

    with monkeypatch.context() as patched:
        patched.setattr(undoing, "_alter", dying)
        shell.ends(6, "undo", second, "--yes")
    assert "rowfall undo" in shell.ends(3, "load", "a1.csv", "--table", "t").err
    if at == 3:  # somebody helps himself: the part has another name then
        ((name,), *_) = shell.rows("SELECT name FROM system.detached_parts ORDER BY name")
        write(shell, f"ALTER TABLE t ATTACH PART '{name}'")
    shell.ok("undo", second, "--yes")
    assert shell.rows(SUMS) == [[100, 100, sum(range(100))]]
    assert shell.rows("SELECT count() FROM system.detached_parts") == [[0]]
    load(shell, "a*.csv")
    assert shell.rows(SUMS) == [[300, 300, sum(range(300))]]


def test_another_table_takes_the_name_in_between(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(shell)
    first = load(shell, "a0.csv", "--partition-by", "k")
    names = shell.rows(NAMES)
    left, alter = [2], undoing._alter

    def dying(engine: Any, part: Any, what: str, *more: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise EngineError("the server is gone", transient=True)
        alter(engine, part, what, *more)

    with monkeypatch.context() as patched:
        patched.setattr(undoing, "_alter", dying)
        shell.ends(6, "undo", first, "--yes")
    write(shell, "CREATE TABLE n AS t", "INSERT INTO n SELECT number + 500, number % 3 FROM "
          "numbers(90)", "DROP TABLE t", "RENAME TABLE n TO t")  # fmt: skip
    assert shell.rows(NAMES) == names
    assert "replaced" in shell.ends(3, "undo", first, "--yes").talk
    assert shell.rows("SELECT count() FROM t") == [[90]]
    # Nobody is told again to let it come to its end.
    assert "half taken out" not in shell.run("load", "a1.csv", "--table", "t").err


def test_what_was_taken_out_does_not_come_back_by_itself(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv")
    shell.ok("undo", first, "--yes")
    assert "no load is unfinished" in shell.ends(2, "resume").err
    assert shell.rows("SELECT count() FROM t") == [[0]]


def test_a_ledger_of_before(shell: Shell) -> None:
    files(shell)
    first = load(shell, "a0.csv")
    ledger = shell.folder / "rowfall-data/rowfall.ledger"
    backup = {p: p.read_bytes() for p in ledger.parent.glob("rowfall.ledger*")}
    shell.ok("undo", first, "--yes")
    for path in ledger.parent.glob("rowfall.ledger*"):
        path.unlink()
    for path, data in backup.items():
        path.write_bytes(data)
    shell.ends(3, "load", "a0.csv", "--table", "t")


def test_an_undo_of_another_container(shell: Shell) -> None:
    """Its PID says nothing here: the kernel tells whether it lives, by its lock."""
    files(shell)
    first = load(shell, "a0.csv", *COLUMN)
    path = shell.folder / "rowfall-data/rowfall.ledger"
    boot = leases.machine_id().partition("/")[0]
    with closing(sqlite3.connect(path)) as ledger, ledger:
        ((load_id,),) = ledger.execute("SELECT id FROM load").fetchall()
        claim = (load_id, f"undoing {boot}/pid:[1] 7 123")
        ledger.execute("INSERT INTO step VALUES (?, ?, 'started')", claim)
    lock = path.with_name(f"{path.name}.undo-{load_id}")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another process is doing that" in shell.ends(3, "undo", first, "--yes").err
    shell.ok("undo", first, "--yes")
    assert shell.rows("SELECT count() FROM t") == [[0]]
    assert not lock.exists()


STOPPER = KILLER.replace("signal.SIGKILL", "signal.SIGSTOP").replace(
    "rowfall.systems.clickhouse.embedded import Embedded",
    "rowfall.systems.clickhouse.server import Server as Embedded",
).replace('"--yes"', '"--yes", "--to", sys.argv[3]')  # fmt: skip


@pytest.mark.parametrize("at", [3, 7, 8])
def test_two_at_once(lake: Lake, at: int) -> None:
    shell = lake.shell
    files(shell)
    lake.load("a0.csv", "--table", "t", "--partition-by", "k")
    second = lake.load("a1.csv", "--table", "t")["load_id"]
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPER, str(at), second, lake.to], cwd=shell.folder,
        env=shell.cli._environment(None), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert process.poll() is None
        assert "another process" in lake.ends(3, "undo", second, "--yes").talk
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    lake.ok("undo", second, "--yes")
    sums = SUMS.replace("FROM t", "FROM {db}.t")
    assert lake.rows(sums) == [[100, 100, sum(range(100))]]
    lake.load("a*.csv", "--table", "t")
    assert lake.rows(sums) == [[300, 300, sum(range(300))]]


def test_a_copy_of_the_ledger_on_another_machine(lake: Lake) -> None:
    """Two ledgers know the load: the journal keeps them apart; the second one finds nothing."""
    shell = lake.shell
    files(shell)
    lake.load("a0.csv", "--table", "t", "--partition-by", "k")
    second = lake.load("a1.csv", "--table", "t")["load_id"]
    home = shell.folder / "other"
    shutil.copytree(shell.cli.home / "state", home)
    other = {"XDG_STATE_HOME": str(home)}
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPER, "4", second, lake.to], cwd=shell.folder,
        env=shell.cli._environment(None), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert process.poll() is None
        done = lake.ends(3, "undo", second, "--yes", env=other)
        assert "another process" in done.talk
    finally:
        process.send_signal(signal.SIGCONT)
        process.wait()
    assert process.returncode == 0
    lake.ends(3, "undo", second, "--yes", env=other)
    sums = SUMS.replace("FROM t", "FROM {db}.t")
    assert lake.rows(sums) == [[100, 100, sum(range(100))]]
    lake.load("a*.csv", "--table", "t")
    assert lake.rows(sums) == [[300, 300, sum(range(300))]]


@pytest.mark.xdist_group("mariadb")
def test_mariadb(db: Database) -> None:  # noqa: F811
    shell = db.shell
    files(shell)
    db.load("a0.csv", *COLUMN)
    db.load("a1.csv", *COLUMN)
    undo = ("undo", "last", "--yes", "--to", db.uri())
    db.shell.ok(*undo)
    assert db.run("SELECT COUNT(*), MAX(id) FROM t") == [(100, 99)]
    assert "was undone" in db.shell.ends(2, *undo).talk
    db.load("a*.csv", *COLUMN)
    assert db.loaded() == [(300, sum(range(300)), 300)]
    db.run("UPDATE t SET file = 'x' WHERE id = 150")
    assert "199 rows have the names" in db.shell.ends(3, *undo).talk
    db.run("DELETE FROM t WHERE id = 150")
    assert db.loaded() == [(299, sum(range(300)) - 150, 299)]


@pytest.mark.xdist_group("mariadb")
def test_mariadb_stopped_while_another_machine_loads(
    db: Database,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rowfall.destinations import undo as by_column

    shell = db.shell
    files(shell)
    db.load("a0.csv", *COLUMN)

    def dying(*_: object) -> None:
        raise EngineError("gone", transient=True)

    undo = ("undo", "last", "--yes", "--to", db.uri())
    with monkeypatch.context() as patched:
        patched.setattr(by_column, "record_undone", dying)
        shell.ends(6, *undo)
    assert db.run("SELECT COUNT(*) FROM t") == [(0,)]
    other = {"ROWFALL_HOME": str(shell.folder / "other")}
    shell.ok("load", "a0.csv", "--to", db.uri(), "--table", "t", *COLUMN, env=other)
    shell.ok(*undo)
    assert db.loaded() == [(100, sum(range(100)), 100)]
