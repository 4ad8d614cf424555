"""--replace into MariaDB, killed at each step: the old rows or the new ones, nothing left."""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Cli
from faults.kills import CODES, sample
from lab.mariadb import MariaDB
from lab.process import wait_until
from lab.proxy import Proxy

pytestmark = pytest.mark.xdist_group("mysql")

STEPPER = Path(__file__).with_name("stepper.py")
OLD, NEW = [(10, "old", "old")], [(300, "new", "new")]
_TRIES = 3
_PARTS = 8
"""Of the steps, so that each test ends in time."""
# Statements of a replacement in their order: the line that says it, the number of AUTO_INCREMENT,
# the rename, the record in one transaction, and the end of the old table.
_STEPS = (
    "'_rowfall_replacing', ", "FOR UPDATE", "AUTO_INCREMENT = ", "RENAME TABLE", "\x03BEGIN",
    "DELETE FROM", "SET target", "\x03COMMIT", "DROP TABLE IF EXISTS `",
)  # fmt: skip


class Replaced:
    """A table with old rows, three files with new ones, and the command that replaces it."""

    def __init__(self, rowfall: Cli, server: MariaDB, port: int) -> None:
        self.rowfall, self.server, self.name = rowfall, server, f"r{secrets.token_hex(4)}"
        for number in range(3):
            rows = "".join(f"{number * 100 + i},new\n" for i in range(100))
            (rowfall.cwd / f"{number}.csv").write_text(f"id,v\n{rows}")
        to = server.uri(self.name).replace(f":{server.port}/", f":{port}/")
        self.command = (
            "load", "*.csv", "--to", to, "--table", "t", "--attempt-bytes", "500",
            "--threads", "2", "--memory", "1GiB", "--patience", "20s", "--replace",
        )  # fmt: skip

    def fresh(self) -> None:
        self.server.query(f"DROP DATABASE IF EXISTS {self.name}", f"CREATE DATABASE {self.name}")
        self.server.query(
            "CREATE TABLE t (id bigint PRIMARY KEY AUTO_INCREMENT, v varchar(9))",
            "INSERT INTO t SELECT seq, 'old' FROM seq_1_to_10",
            database=self.name,
        )

    def rows(self) -> list[tuple[object, ...]]:
        return self.server.query("SELECT COUNT(*), MIN(v), MAX(v) FROM t", database=self.name)

    def tables(self) -> list[str]:
        return sorted(str(t) for (t,) in self.server.query("SHOW TABLES", database=self.name))

    def stepped(self, number: int, side: str, kind: str) -> list[str]:
        """Run the command, hurt at a step; return the steps that it has come to."""
        steps = self.rowfall.cwd / "steps"
        steps.unlink(missing_ok=True)
        process = self.rowfall.start(
            *self.command,
            program=[sys.executable, str(STEPPER), str(steps), str(number), side, kind],
        )
        out, err = process.communicate(timeout=100)
        assert process.returncode in CODES, f"{out}\n{err}"
        assert "Traceback" not in err
        return steps.read_text().splitlines()

    def check(self, what: object) -> None:
        """Check the rows, and that the same command brings the new ones and leaves nothing."""
        assert self.rows() in (OLD, NEW)
        said = []
        for _ in range(_TRIES):
            done = self.rowfall(*self.command)
            said.append(f"[{done.returncode}] {done.stderr}")
            if done.returncode == 0:
                break
        assert self.rows() == NEW, (what, said)
        assert self.tables() == ["_rowfall_loaded", "t"], (what, said)
        # The record is that of the new rows: an ordinary load of the same files has nothing to do.
        done = self.rowfall(*self.command[:-1])
        assert done.returncode == 0, done.stderr
        assert self.rows() == NEW, (what, done.stderr)
        assert self.server.query(
            "SELECT COUNT(*), SUM(target LIKE '%.t'), SUM(split = '_rowfall_replacing'), "
            "SUM(split = '_rowfall_replaced_by') FROM _rowfall_loaded", database=self.name,
        ) == [(4, 4, 0, 1)]  # fmt: skip


@pytest.fixture
def replaced(rowfall: Cli, mariadb: MariaDB) -> Iterator[Replaced]:
    found = Replaced(rowfall, mariadb, mariadb.port)
    yield found
    mariadb.query(f"DROP DATABASE {found.name}")


@pytest.mark.long
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("kind", ["kill -9 rowfall", "Ctrl-C"])
def test_a_kill_at_each_step(replaced: Replaced, kind: str, part: int) -> None:
    replaced.fresh()
    steps = replaced.stepped(0, "before", "")
    assert replaced.rows() == NEW
    assert any("RENAME" in step for step in steps)
    places = [(n, side) for n in range(1, len(steps) + 1) for side in ("before", "after")]
    first = next(int(s.split()[0]) for s in steps if "publish_gathered" in s)
    around = [place for place in places if place[0] >= first]
    before = sample(f"replace mysql {kind}", [p for p in places if p not in around], least=4)
    for number, side in [*before, *around][part::_PARTS]:
        replaced.fresh()
        replaced.stepped(number, side, kind)
        replaced.check((number, side))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("step", _STEPS)
@pytest.mark.parametrize("killed", [False, True])
def test_a_connection_is_cut(
    rowfall: Cli, mariadb: MariaDB, step: str, passes: bool, killed: bool
) -> None:
    """The statement does not arrive, or its answer is lost; the load goes on, or is killed."""
    with Proxy(mariadb.port) as proxy:
        replaced = Replaced(rowfall, mariadb, proxy.port)
        replaced.fresh()
        # Of the transactions of rows before there are BEGIN and COMMIT, too.
        first = {"\x03BEGIN": 4, "\x03COMMIT": 4}.get(step, 1)
        proxy.drop_at(step.encode(), passes=passes, at=first)
        process = rowfall.start(*replaced.command)
        assert proxy.dropped.wait(60)
        if killed:
            process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        assert killed or process.returncode == 0, err
        replaced.check((step, passes))
        mariadb.query(f"DROP DATABASE {replaced.name}")


@pytest.mark.long
@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("step", _STEPS)
def test_the_server_is_killed(rowfall: Cli, step: str, passes: bool) -> None:
    with MariaDB() as server, Proxy(server.port) as proxy:
        replaced = Replaced(rowfall, server, proxy.port)
        replaced.fresh()
        first = {"\x03BEGIN": 4, "\x03COMMIT": 4}.get(step, 1)
        proxy.drop_at(step.encode(), passes=passes, at=first)
        process = rowfall.start(*replaced.command)
        assert proxy.dropped.wait(60)
        server.kill()
        server.start()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        replaced.check((step, passes))


@pytest.mark.parametrize(
    "step", ["RENAME TABLE", pytest.param("AUTO_INCREMENT = ", marks=pytest.mark.long)]
)
def test_another_load_meets_a_replacement(rowfall: Cli, mariadb: MariaDB, step: str) -> None:
    """It waits while the other one is alive; what one that was killed has begun, it ends itself.

    Before the rename the rows go into the old table, behind it into the new one.
    """
    with Proxy(mariadb.port) as proxy:
        replaced = Replaced(rowfall, mariadb, proxy.port)
        replaced.fresh()
        (rowfall.cwd / "more.txt").write_text("id,v\n1000,more\n")
        direct = replaced.command[3].replace(f":{proxy.port}/", f":{mariadb.port}/")
        other = ("load", "more.txt", "--format", "CSVWithNames", "--to", direct, "--table", "t",
                 "--on-conflict", "skip")  # fmt: skip
        proxy.hold_at(step.encode())
        process = rowfall.start(*replaced.command)
        assert proxy.held.wait(60)
        ordinary = rowfall.start(*other)
        look = "SELECT SUM(split = '_rowfall_replacing') FROM _rowfall_loaded"
        assert mariadb.query(look, database=replaced.name) == [(1,)]
        process.send_signal(signal.SIGKILL)
        process.communicate()
        proxy.close()
        _, err = ordinary.communicate(timeout=120)
        assert ordinary.returncode == 0, err
        wait_until(
            lambda: mariadb.query(look, database=replaced.name) == [(0,)], 10, "it is settled"
        )
        more = [(1, "more")]
        rows = "SELECT COUNT(*), v FROM t GROUP BY v ORDER BY v DESC"
        before = [(10, "old"), *more] if step != "RENAME TABLE" else [(300, "new"), *more]
        assert mariadb.query(rows, database=replaced.name) == before
        again = rowfall(*other)
        assert again.returncode == 0, again.stderr
        assert mariadb.query(rows, database=replaced.name) == before
        mariadb.query(f"DROP DATABASE {replaced.name}")


@pytest.mark.long
def test_two_replacements_at_once(rowfall: Cli, mariadb: MariaDB) -> None:
    """One after the other: the rows are those of one of them, and the record says whose."""
    replaced = Replaced(rowfall, mariadb, mariadb.port)
    replaced.fresh()
    (rowfall.cwd / "other.txt").write_text("id,v\n" + "".join(f"{i},other\n" for i in range(50)))
    other = ("load", "other.txt", "--format", "CSVWithNames", *replaced.command[2:])
    both = [rowfall.start(*command) for command in (replaced.command, other)]
    for process in both:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    assert replaced.rows() in (NEW, [(50, "other", "other")])
    for command, rows in ((other, [(50, "other", "other")]), (replaced.command, NEW)):
        done = rowfall(*command)
        assert done.returncode == 0, done.stderr
        assert replaced.rows() == rows
    assert replaced.tables() == ["_rowfall_loaded", "t"]
    mariadb.query(f"DROP DATABASE {replaced.name}")


def test_an_open_attempt_of_another_load_is_waited_for(rowfall: Cli, mariadb: MariaDB) -> None:
    """It has its lines in the record and no rows yet: they would go into the new table."""
    with Proxy(mariadb.port) as proxy:
        replaced = Replaced(rowfall, mariadb, mariadb.port)
        replaced.fresh()
        (rowfall.cwd / "more.txt").write_text("id,v\n1000,more\n")
        behind = replaced.command[3].replace(f":{mariadb.port}/", f":{proxy.port}/")
        proxy.hold_at(b"VALUES (?")
        ordinary = rowfall.start(
            "load", "more.txt", "--format", "CSVWithNames", "--to", behind, "--table", "t",
            "--force-append",
        )  # fmt: skip
        assert proxy.held.wait(60)
        process = rowfall.start(*replaced.command)
        waiting = "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        wait_until(lambda: mariadb.query(waiting) != [(0,)], 60, "the replacement to wait")
        assert replaced.rows() == OLD
        proxy.resume()
        for one in (ordinary, process):
            _, err = one.communicate(timeout=120)
            assert one.returncode == 0, err
        assert replaced.rows() == NEW
        # The old table is gone with the row, and so is what the record said of it.
        look = "SELECT COUNT(*) FROM _rowfall_loaded"
        assert mariadb.query(look, database=replaced.name) == [(4,)]
        mariadb.query(f"DROP DATABASE {replaced.name}")


def _killed_at(replaced: Replaced, proxy: Proxy, step: str) -> None:
    """Kill the load when the server has a statement of it, and before the next one."""
    proxy.hold_at(step.encode())
    process = replaced.rowfall.start(*replaced.command)
    assert proxy.held.wait(60)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    proxy.close()
    replaced.command = tuple(
        word.replace(f":{proxy.port}/", f":{replaced.server.port}/") for word in replaced.command
    )


def test_a_rename_that_has_stopped_half_way_is_ended_first(rowfall: Cli, mariadb: MariaDB) -> None:
    """Before MariaDB 10.6 a server renames one by one. The table is missing then, and an ordinary
    load would make an empty one in its place."""
    with Proxy(mariadb.port) as proxy:
        replaced = Replaced(rowfall, mariadb, proxy.port)
        replaced.fresh()
        _killed_at(replaced, proxy, "AUTO_INCREMENT = ")
    look = "SELECT name, whole FROM _rowfall_loaded WHERE split = '_rowfall_replacing'"
    ((_, old),) = mariadb.query(look, database=replaced.name)
    mariadb.query(f"RENAME TABLE t TO `{old}`", database=replaced.name)
    (rowfall.cwd / "more.txt").write_text("id,v\n1000,more\n")
    done = rowfall("load", "more.txt", "--format", "CSVWithNames", *replaced.command[2:-1])
    assert done.returncode == 0, done.stderr
    assert mariadb.query(
        "SELECT COUNT(*), v FROM t GROUP BY v ORDER BY v DESC", database=replaced.name
    ) == [(300, "new"), (1, "more")]  # fmt: skip
    assert replaced.tables() == ["_rowfall_loaded", "t"]
    mariadb.query(f"DROP DATABASE {replaced.name}")


def test_a_table_that_is_altered_meanwhile_stays_altered(rowfall: Cli, mariadb: MariaDB) -> None:
    """The table that gathers is made like it when a load begins, and may be older then."""
    with Proxy(mariadb.port) as proxy:
        replaced = Replaced(rowfall, mariadb, proxy.port)
        replaced.fresh()
        replaced.command += ("--on-missing-column", "default")
        proxy.hold_at(b"SHOW GRANTS", at=2)  # what is looked at before the rename
        process = rowfall.start(*replaced.command)
        assert proxy.held.wait(60)
        mariadb.query(
            "ALTER TABLE t ADD COLUMN note TEXT DEFAULT 'kept', ADD KEY by_v (v)",
            database=replaced.name,
        )
        proxy.resume()
        _, err = process.communicate(timeout=120)
        assert process.returncode == 5, err
        assert "was altered while" in err
        assert replaced.rows() == OLD
        done = rowfall(*replaced.command)
    assert done.returncode == 0, done.stderr
    assert replaced.rows() == NEW
    assert mariadb.query(
        "SELECT COUNT(*) FROM t FORCE INDEX (by_v) WHERE note = 'kept'", database=replaced.name
    ) == [(300,)]  # fmt: skip
    assert replaced.tables() == ["_rowfall_loaded", "t"]
    mariadb.query(f"DROP DATABASE {replaced.name}")


@pytest.mark.long
def test_names_that_a_server_writes_small(rowfall: Cli) -> None:
    """A rename is seen to be done, and rights are found, where T and t are one table."""
    with MariaDB(lower_case_table_names="1") as server, Proxy(server.port) as proxy:
        replaced = Replaced(rowfall, server, proxy.port)
        replaced.name = replaced.name.upper()
        replaced.fresh()
        password = server.add_user("small", f"ALL PRIVILEGES ON {replaced.name}.*")
        to = f"mariadb://small:{password}@127.0.0.1:{proxy.port}/{replaced.name}"
        replaced.command = tuple(
            to if "://" in word else "T" if word == "t" else word for word in replaced.command
        )
        _killed_at(replaced, proxy, "RENAME TABLE")
        wait_until(lambda: replaced.rows() == NEW, 10, "the rename")
        (rowfall.cwd / "more.txt").write_text("id,v\n1000,more\n")
        done = rowfall("load", "more.txt", "--format", "CSVWithNames", *replaced.command[2:-1])
        assert done.returncode == 0, done.stderr
        assert replaced.tables() == ["_rowfall_loaded", "t"]
        done = rowfall(*replaced.command[:-1])
        assert done.returncode == 0, done.stderr
        assert server.query("SELECT COUNT(*) FROM t", database=replaced.name) == [(301,)]
