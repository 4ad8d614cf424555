"""Tables that are restored, exchanged, renamed or set back, and memories that do not fit them.

Nobody kills anything here. What ledger and journal remember is not true of the table any more, so
rowfall stops with exit code 3 and says how to go on; nothing is loaded twice, nothing is missing.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lake import JOURNAL, Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.http import Web

_numbers = itertools.count()
COUNT = "SELECT count(), uniqExact(name) FROM {db}.t"
LINES = f"SELECT count() FROM {{db}}.{JOURNAL} WHERE event = 'landed'"


@pytest.fixture
def shell(rowfall: object) -> Shell:
    return Shell(rowfall)


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


@pytest.fixture
def lake(shell: Shell, clickhouse: ClickHouse) -> Iterator[Lake]:
    lake = Lake(shell, clickhouse)
    lake.database = f"set_back_{os.getpid()}_{next(_numbers)}"
    lake.to = clickhouse.uri(lake.database)
    lake.do("CREATE DATABASE {db}")
    yield lake
    lake.do("DROP DATABASE IF EXISTS {db} SYNC")


def write(shell: Shell, *names: str) -> None:
    for name in names:
        rows = "".join(f"{number},{name}{number}\n" for number in range(100))
        shell.write(f"in/{name}.csv", f"id,name\n{rows}")


def backup(lake: Lake) -> str:
    name = f"{lake.database}_{next(_numbers)}"
    lake.do(f"BACKUP DATABASE {{db}} TO File('{name}')")
    return name


def restore(lake: Lake, name: str, what: str = "DATABASE {db}") -> None:
    if what == "DATABASE {db}":
        lake.do("DROP DATABASE {db} SYNC")
    lake.do(f"RESTORE {what} FROM File('{name}')")


def elsewhere(tmp_path: Path, name: str = "other") -> dict[str, str]:
    """The environment of another machine: its ledger knows nothing."""
    return {"XDG_STATE_HOME": str(tmp_path / name)}


LOAD = ("load", "in", "--table", "t")


# --- another table with rows ----------------------------------------------------------------------


@pytest.mark.long
def test_a_restored_database_is_a_question(lake: Lake, tmp_path: Path) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    restore(lake, backup(lake))
    stopped = lake.ends(3, *LOAD)
    assert "is not the table that was loaded before" in stopped.talk
    assert "the table holds 100 rows" in stopped.talk
    assert "--loaded all" in stopped.talk
    assert "--loaded none" in stopped.talk
    assert "It would fail" in lake.ok("plan", *LOAD[1:]).out
    # The journal came along: whoever has another ledger is asked as well.
    assert lake.ends(3, *LOAD, env=elsewhere(tmp_path)).talk
    assert lake.row(COUNT) == [100, 100]
    assert "nothing to load" in lake.ok(*LOAD, "--loaded", "all").talk
    write(lake.shell, "b")
    lake.ok(*LOAD, env=elsewhere(tmp_path))
    lake.ok(*LOAD)
    assert lake.row(COUNT) == [200, 200]


@pytest.mark.long
@pytest.mark.parametrize("first", [pytest.param("here", marks=pytest.mark.long), "elsewhere"])
def test_a_table_is_restored_without_its_journal(lake: Lake, tmp_path: Path, first: str) -> None:
    """Then only ledgers know; one that knows nothing appends, as to any table with rows."""
    write(lake.shell, "a")
    lake.ok(*LOAD)
    name = backup(lake)
    lake.do("DROP DATABASE {db} SYNC", "CREATE DATABASE {db}")
    restore(lake, name, "TABLE {db}.t")
    if first == "elsewhere":
        shutil.copytree(lake.shell.cli.home / "state", tmp_path / "other")
    env = None if first == "here" else elsewhere(tmp_path)
    lake.ends(3, *LOAD, env=env)
    lake.ok(*LOAD, "--loaded", "all", env=env)
    assert lake.row(COUNT) == [100, 100]
    # The journal was written anew.
    assert lake.row(LINES) == [1]
    assert "nothing to load" in lake.ok(*LOAD, env=elsewhere(tmp_path, "third")).talk
    lake.ok(*LOAD)
    assert lake.row(COUNT) == [100, 100]


@pytest.mark.long
def test_a_backup_that_is_older_than_the_ledger(lake: Lake) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    name = backup(lake)
    write(lake.shell, "b")
    lake.ok(*LOAD)
    restore(lake, name)
    stopped = lake.ends(3, *LOAD)
    numbers = "holds 100 rows, the loads in this ledger brought 200, those in the journal 100"
    assert numbers in stopped.talk
    assert "--loaded journal" in stopped.talk
    lake.ok(*LOAD, "--loaded", "journal")
    assert lake.row(COUNT) == [200, 200]
    assert "nothing to load" in lake.ok(*LOAD).talk


@pytest.mark.long
def test_a_load_that_the_backup_lacks_is_forgotten(lake: Lake) -> None:
    """Only the table is restored, from before the second load; the journal knows both."""
    write(lake.shell, "a")
    lake.ok(*LOAD)
    name = backup(lake)
    write(lake.shell, "b")
    second = lake.load("in", "--table", "t")["load_id"]
    lake.do("DROP TABLE {db}.t SYNC")
    restore(lake, name, "TABLE {db}.t")
    lake.ends(3, *LOAD)
    lake.ok("forget", "--yes", second)
    lake.ok(*LOAD, "--loaded", "all")
    assert lake.row(COUNT) == [200, 200]


@pytest.mark.long
def test_a_rebuilt_copy_takes_the_place(lake: Lake) -> None:
    write(lake.shell, "a", "b")
    lake.ok(*LOAD)
    lake.do(
        "CREATE TABLE {db}.t_new (id Int64, name String) ENGINE = MergeTree ORDER BY name",
        "INSERT INTO {db}.t_new SELECT id, name FROM {db}.t",
        "EXCHANGE TABLES {db}.t AND {db}.t_new",
        "DROP TABLE {db}.t_new SYNC",
    )
    lake.ends(3, *LOAD)
    write(lake.shell, "c")
    assert lake.load("in", "--table", "t", "--loaded", "all")["rows"] == 100
    assert lake.row(COUNT) == [300, 300]
    lake.ok("forget", "--yes", "last")  # each load can still be forgotten by itself
    lake.ok(*LOAD)
    assert lake.row(COUNT) == [400, 300]


@pytest.mark.long
def test_rows_that_are_not_those_of_earlier_loads(lake: Lake) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    lake.do(
        "CREATE OR REPLACE TABLE {db}.t (id Int64, name String) ENGINE = MergeTree ORDER BY name",
        "INSERT INTO {db}.t SELECT number, concat('own', toString(number)) FROM numbers(10)",
    )
    lake.ends(3, *LOAD)
    lake.ends(3, *LOAD, "--force")
    lake.ok(*LOAD, "--loaded", "none")
    assert lake.row(COUNT) == [110, 110]
    assert "nothing to load" in lake.ok(*LOAD).talk


@pytest.mark.long
def test_replace_is_no_question_and_keeps_it_until_its_end(lake: Lake) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    restore(lake, backup(lake))
    lake.shell.write("in/b.csv", "id,name\nbroken,b\n")
    lake.ends(1, *LOAD, "--replace", "--schema", "id Int64, name String")
    lake.ends(3, "load", "in/a.csv", "--table", "t")
    write(lake.shell, "b")
    lake.ok(*LOAD, "--replace", "--schema", "id Int64, name String")
    lake.ok(*LOAD)
    assert lake.row(COUNT) == [200, 200]


@pytest.mark.long
def test_no_question_where_nothing_can_be_doubled(lake: Lake, tmp_path: Path) -> None:
    """A table made anew, rows of loads of another rowfall; only rows of others are asked about."""
    lake.do(
        "CREATE TABLE {db}.t (id Int64, name String) ENGINE = MergeTree ORDER BY name",
        "INSERT INTO {db}.t SELECT number, concat('own', toString(number)) FROM numbers(10)",
    )
    write(lake.shell, "a")
    assert "that nobody has on record" in lake.ends(3, *LOAD).talk
    lake.ok(*LOAD, "--force-append")
    assert lake.row(COUNT) == [110, 110]
    lake.do("CREATE OR REPLACE TABLE {db}.t (id Int64, name String) ENGINE = MergeTree "
            "ORDER BY name")  # fmt: skip
    lake.ok(*LOAD, env=elsewhere(tmp_path))
    assert "nothing to load" in lake.ok(*LOAD).talk
    lake.ok(*LOAD, "--replace", env=elsewhere(tmp_path))
    lake.do("INSERT INTO {db}.t SELECT number, 'hand' FROM numbers(1)")
    lake.ok(*LOAD, env=elsewhere(tmp_path, "third"))
    assert lake.row(COUNT) == [101, 101]


# --- another table with rows, after a load that was killed ------------------------------------

# Ends when it has committed, or when all is attached and nobody has been told.
KILLED = """
import os, signal, sys
from rowfall.cli import main
from rowfall.ledger import Ledger
from rowfall.ledger.journal import Journal

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv.pop(1) == "attached":
    Journal.loaded = Ledger.attempt_published = die
else:
    loaded = Ledger.attempt_committed
    Ledger.attempt_committed = lambda *args, **more: (loaded(*args, **more), die())
sys.exit(main())
"""
COPY = (
    "CREATE TABLE {db}.t_new AS {db}.t ENGINE = MergeTree ORDER BY name",
    "INSERT INTO {db}.t_new SELECT * FROM {db}.t",
    "EXCHANGE TABLES {db}.t AND {db}.t_new",
)
GONE = "DROP TABLE {db}.t_new SYNC"
OTHERS = "INSERT INTO {db}.t SELECT number, concat('own', toString(number)) FROM numbers(10)"


def killed(shell: Shell, where: str, *args: str) -> None:
    program = [sys.executable, "-c", KILLED, where]
    process = shell.cli.start(*args, program=program)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -9, err


@pytest.mark.parametrize("where", ["attached", pytest.param("committed", marks=pytest.mark.long)])
def test_a_copy_takes_the_place_after_a_kill(lake: Lake, tmp_path: Path, where: str) -> None:
    """A machine that has never loaded into the table asks as well what the copy holds."""
    write(lake.shell, "a")
    lake.do("CREATE TABLE {db}.t (id Int64, name String) ENGINE = MergeTree ORDER BY name", OTHERS)
    # The ten rows that others wrote are nobody's on record: the user says that they stay.
    killed(lake.shell, where, *LOAD, "--to", lake.to, "--force-append")
    lake.do(*COPY, GONE)
    other = elsewhere(tmp_path)
    stopped = lake.ends(3, *LOAD, env=other)
    assert "a stopped load was about to make 100 more rows visible" in stopped.talk
    answer = "all" if where == "attached" else "none"
    assert f"--loaded {answer}" in stopped.talk
    lake.ok(*LOAD, "--loaded", answer, env=other)
    assert lake.row(COUNT) == [110, 110]
    # Those of the copy are more than are known: the machine of the old table is asked for itself.
    lake.ends(3, *LOAD)
    lake.ok(*LOAD, "--loaded", answer)
    for env in (other, None):
        assert "nothing to load" in lake.ok(*LOAD, env=env).talk
    assert lake.row(COUNT) == [110, 110]


@pytest.mark.long
@pytest.mark.parametrize("first", [pytest.param("here", marks=pytest.mark.long), "elsewhere"])
def test_a_backup_is_restored_after_a_kill(lake: Lake, tmp_path: Path, first: str) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    write(lake.shell, "b")
    killed(lake.shell, "attached", *LOAD, "--to", lake.to)
    restore(lake, backup(lake))
    machines = [None, elsewhere(tmp_path)]
    env = machines[first == "elsewhere"]
    stopped = lake.ends(3, *LOAD, env=env)
    assert "a stopped load was about to make 100 more rows visible" in stopped.talk
    assert "--loaded journal (it holds what the journal knows, without those" in stopped.talk
    lake.ok(*LOAD, "--loaded", "all", env=env)
    write(lake.shell, "c")
    for one in machines:
        lake.ok(*LOAD, env=one)
    assert lake.row(COUNT) == [300, 300]


def test_a_backup_lacks_what_a_killed_load_has_staged(lake: Lake) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    write(lake.shell, "b")
    killed(lake.shell, "committed", *LOAD, "--to", lake.to)
    restore(lake, backup(lake))
    lake.ends(3, *LOAD)
    lake.ok(*LOAD, "--loaded", "journal")
    assert lake.row(COUNT) == [200, 200]
    assert "nothing to load" in lake.ok(*LOAD).talk


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "answer"),
    [pytest.param("attached", "all", marks=pytest.mark.long), ("committed", "journal")],
)
def test_a_copy_in_a_folder_after_a_kill(shell: Shell, where: str, answer: str) -> None:
    write(shell, "a")
    shell.ok(*INTO)
    write(shell, "b")
    killed(shell, where, *INTO)
    change(
        shell, "CREATE TABLE t_new (id Int64, name String) ENGINE = MergeTree ORDER BY name",
        "INSERT INTO t_new SELECT id, name FROM t", "RENAME TABLE t TO t_old, t_new TO t",
    )  # fmt: skip
    stopped = shell.ends(3, *INTO)
    assert "a stopped load was about to make 100 more rows visible" in stopped.talk
    assert f"--loaded {answer}" in stopped.talk
    shell.ok(*INTO, "--loaded", answer)
    assert rows(shell) == "200\t200"
    assert "nothing to load" in shell.ok(*INTO).talk


@pytest.mark.long
def test_a_copy_takes_the_place_and_the_old_table_stays(lake: Lake, tmp_path: Path) -> None:
    write(lake.shell, "a")
    lake.ok(*LOAD)
    lake.do(*COPY)
    other = elsewhere(tmp_path)
    lake.ends(3, *LOAD, env=other)
    assert "nothing to load" in lake.ok(*LOAD, "--loaded", "all", env=other).talk
    assert lake.row(COUNT) == [100, 100]


@pytest.mark.long
def test_a_loaded_copy_takes_the_place(lake: Lake) -> None:
    """The new table was loaded under the name that it had before."""
    write(lake.shell, "a")
    lake.ok(*LOAD)
    lake.ok("load", "in", "--table", "t_new")
    lake.do("EXCHANGE TABLES {db}.t AND {db}.t_new")
    stopped = lake.ends(3, *LOAD)
    assert "loaded into this table when it was called" in stopped.talk
    assert "nothing to load" in lake.ok(*LOAD, "--loaded", "all").talk
    write(lake.shell, "b")
    lake.ok(*LOAD)
    assert lake.row(COUNT) == [200, 200]


# --- the same table, set back ---------------------------------------------------------------------


def set_back(lake: Lake) -> None:
    """Take the second load out of table and journal, as a snapshot of the disk would."""
    lake.do(
        "ALTER TABLE {db}.t DELETE WHERE startsWith(name, 'b') SETTINGS mutations_sync = 2",
        f"ALTER TABLE {{db}}.{JOURNAL} DELETE WHERE attempt IN (SELECT attempt FROM "
        f"{{db}}.{JOURNAL} WHERE event = 'landed' ORDER BY at DESC LIMIT 1) "
        "SETTINGS mutations_sync = 2, allow_nondeterministic_mutations = 1",
    )


def two_loads(lake: Lake) -> None:
    for name in "ab":
        write(lake.shell, name)
        lake.ok(*LOAD)


def test_the_server_is_set_back(lake: Lake) -> None:
    two_loads(lake)
    set_back(lake)
    stopped = lake.ends(3, *LOAD)
    assert "1 file" in stopped.talk
    assert "was set back" in stopped.talk
    assert "--loaded journal" in stopped.talk
    assert "It would fail" in lake.ok("plan", *LOAD[1:]).out
    lake.ok(*LOAD, "--loaded", "journal")
    assert lake.row(COUNT) == [200, 200]
    assert "nothing to load" in lake.ok(*LOAD).talk


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    ["DROP TABLE {db}.J SYNC", pytest.param("TRUNCATE TABLE {db}.J", marks=pytest.mark.long)],
)
def test_the_journal_is_lost(lake: Lake, tmp_path: Path, how: str) -> None:
    two_loads(lake)
    lake.do(how.replace("J", JOURNAL))
    lake.ends(3, *LOAD)
    assert "nothing to load" in lake.ok(*LOAD, "--loaded", "all").talk
    assert "nothing to load" in lake.ok(*LOAD, env=elsewhere(tmp_path)).talk
    assert "changes nothing" in lake.ok(*LOAD, "--loaded", "all").talk
    assert lake.row(COUNT) == [200, 200]


@pytest.mark.long
def test_nothing_of_all_loads_is_there(lake: Lake, tmp_path: Path) -> None:
    two_loads(lake)
    set_back(lake)
    lake.do("TRUNCATE TABLE {db}.t SYNC")
    lake.ok(*LOAD, "--loaded", "none")
    assert lake.row(COUNT) == [200, 200]
    assert "nothing to load" in lake.ok(*LOAD, env=elsewhere(tmp_path)).talk


@pytest.mark.long
def test_forced_and_forgotten_loads_are_no_contradiction(lake: Lake, tmp_path: Path) -> None:
    two_loads(lake)
    lake.ok(*LOAD, "--force")
    lake.ok(*LOAD)
    shutil.copytree(lake.shell.cli.home / "state", tmp_path / "other")
    lake.ok("forget", "--yes", "last", env=elsewhere(tmp_path))
    lake.ok(*LOAD)


@pytest.mark.long
def test_the_ledger_is_set_back_while_a_load_is_unfinished(lake: Lake) -> None:
    """The load would go on with names of attempts that the journal has known for long."""
    write(lake.shell, "a")
    lake.shell.write("in/b.csv", "id,name\nbroken,b\n")
    lake.ends(1, *LOAD, "--schema", "id Int64, name String")
    state = lake.shell.cli.home / "state"
    kept = state.with_name("kept")
    shutil.copytree(state, kept)
    write(lake.shell, "b")
    lake.ok(*LOAD)
    shutil.rmtree(state)
    kept.rename(state)
    write(lake.shell, "c")
    again = lake.ok(*LOAD)
    assert "it was set back" in again.talk
    assert lake.row(COUNT) == [300, 300]


def test_the_ledger_of_a_server_is_deleted(lake: Lake) -> None:
    two_loads(lake)
    shutil.rmtree(lake.shell.cli.home / "state")
    assert "nothing to load" in lake.ok(*LOAD).talk
    assert lake.row(COUNT) == [200, 200]


@pytest.mark.long
@pytest.mark.timeout(120)
def test_the_disk_of_a_server_is_set_back(shell: Shell) -> None:
    """A snapshot of the data folder, as storage systems make it; then without a load after it."""
    with ClickHouse() as server:
        lake = Lake(shell, server)
        write(shell, "a")
        lake.ok(*LOAD)
        data, kept = server.folder / "data", server.folder / "kept"
        server.stop()
        shutil.copytree(data, kept, symlinks=True)
        server.start()
        write(shell, "b")
        lake.ok(*LOAD)
        server.stop()
        data.rename(server.folder / "gone")
        shutil.copytree(kept, data, symlinks=True)
        for path in (data, *data.rglob("*")):
            if not path.is_symlink():
                server._own(path)
        server.start()
        lake.ends(3, *LOAD)
        lake.ok(*LOAD, "--loaded", "journal")
        assert lake.row(COUNT) == [200, 200]


# --- renamed --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("who", [pytest.param("here", marks=pytest.mark.long), "elsewhere"])
def test_a_renamed_table(lake: Lake, tmp_path: Path, who: str) -> None:
    two_loads(lake)
    env = None if who == "here" else elsewhere(tmp_path)
    lake.do("RENAME TABLE {db}.t TO {db}.t2", "CREATE TABLE {db}.t AS {db}.t2")
    stopped = lake.ends(3, "load", "in", "--table", "t2", env=env)
    assert f"2 files of this load were loaded into this table when it was called {lake.database}.t"
    assert "--loaded all" in stopped.talk
    write(lake.shell, "c")
    assert lake.load("in/c.csv", "--table", "t2", env=env)["rows"] == 100
    lake.ends(3, "load", "in", "--table", "t2", env=env)
    assert "nothing to load" in lake.ok("load", "in", "--table", "t2", "--loaded", "all",
                                        env=env).talk  # fmt: skip
    lake.ok("load", "in", "--table", "t2")
    assert lake.row("SELECT count(), uniqExact(name) FROM {db}.t2") == [300, 300]
    lake.ok("load", "in", "--table", "t", env=env)  # the new table of the old name has nothing
    assert lake.row(COUNT) == [300, 300]


@pytest.mark.long
def test_a_renamed_table_is_loaded_again_if_wished(lake: Lake) -> None:
    two_loads(lake)
    lake.do("RENAME TABLE {db}.t TO {db}.t2", "TRUNCATE TABLE {db}.t2 SYNC")
    lake.ends(3, "load", "in", "--table", "t2")
    lake.ok("load", "in", "--table", "t2", "--loaded", "none")
    lake.ok("load", "in", "--table", "t2")
    assert lake.row("SELECT count(), uniqExact(name) FROM {db}.t2") == [200, 200]


@pytest.mark.long
def test_a_database_is_restored_under_another_name(lake: Lake) -> None:
    two_loads(lake)
    name, other = backup(lake), f"{lake.database}_copy"
    try:
        lake.do(f"RESTORE DATABASE {{db}} AS {other} FROM File('{name}')")
        to = ("load", "in", "--table", f"{other}.t")
        lake.ends(3, *to)
        assert "nothing to load" in lake.ok(*to, "--loaded", "all").talk
        write(lake.shell, "c")
        lake.ok(*to)
        assert lake.row(f"SELECT count(), uniqExact(name) FROM {other}.t") == [300, 300]
    finally:
        lake.do(f"DROP DATABASE IF EXISTS {other} SYNC")


# --- databases without UUIDs ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Ordinary", "Memory", "Lazy(10)"])
def test_a_database_whose_tables_have_no_uuids_is_refused(lake: Lake, kind: str) -> None:
    write(lake.shell, "a")
    other, engine = f"{lake.database}_plain", kind.partition("(")[0]
    settings = {"allow_deprecated_database_ordinary": 1}
    try:
        lake.server.query(f"CREATE DATABASE {other} ENGINE = {kind}", settings=settings)
        refused = lake.ends(5, "load", "in", "--table", f"{other}.t")
        assert f"has the engine {engine}, whose tables have no UUIDs" in refused.talk
        assert "ENGINE = Atomic" in refused.talk
        assert "no UUIDs" in lake.ends(5, "plan", "in", "--table", f"{other}.t").talk
        if engine == "Ordinary":
            lake.do(
                f"CREATE TABLE {other}.t (id Int64, name String) ENGINE = MergeTree ORDER BY id",
                f"RENAME TABLE {other}.t TO {{db}}.t",  # as the hint says
            )
            lake.ok(*LOAD)
    finally:
        lake.do(f"DROP DATABASE IF EXISTS {other} SYNC")


# --- a data folder --------------------------------------------------------------------------------

INTO = ("load", "in", "--to", "data", "--table", "t")
ROWS = ("query", "SELECT count(), uniqExact(name) FROM t", "--to", "data")


def rows(shell: Shell) -> str:
    return shell.ok(*ROWS).out.splitlines()[-1]


def change(shell: Shell, *statements: str) -> None:
    for text in statements:
        shell.ok("query", text, "--to", "data", "--write")


@pytest.mark.long
def test_a_rebuilt_copy_in_a_folder(shell: Shell) -> None:
    write(shell, "a")
    shell.ok(*INTO)
    change(
        shell, "CREATE TABLE t_new (id Int64, name String) ENGINE = MergeTree ORDER BY name",
        "INSERT INTO t_new SELECT id, name FROM t", "RENAME TABLE t TO t_old, t_new TO t",
    )  # fmt: skip
    assert "--loaded all" in shell.ends(3, *INTO).talk
    assert "no journal" in shell.ends(2, *INTO, "--loaded", "journal").talk
    assert "nothing to load" in shell.ok(*INTO, "--loaded", "all").talk
    write(shell, "b")
    shell.ok(*INTO)
    assert rows(shell) == "200\t200"
    old = ("load", "in", "--to", "data", "--table", "t_old")
    # No ledger knows a table of this UUID any more.
    assert "that nobody has on record" in shell.ends(3, *old).talk
    shell.ok(*old, "--force-append")
    change(shell, "RENAME TABLE t TO t_two")
    two = ("load", "in", "--to", "data", "--table", "t_two")
    shell.ends(3, *two)
    assert "nothing to load" in shell.ok(*two, "--loaded", "all").talk


def test_a_folder_that_is_set_back(shell: Shell) -> None:
    """Its ledger lies in it: both are set back together."""
    write(shell, "a")
    shell.ok(*INTO)
    shutil.copytree(shell.folder / "data", shell.folder / "kept", symlinks=True)
    write(shell, "b")
    shell.ok(*INTO)
    shutil.rmtree(shell.folder / "data")
    (shell.folder / "kept").rename(shell.folder / "data")
    shell.ok(*INTO)
    assert rows(shell) == "200\t200"


def test_a_folder_has_two_paths(shell: Shell) -> None:
    write(shell, "a")
    shell.ok(*INTO)
    (shell.folder / "link").symlink_to("data")
    again = shell.ok("load", "in", "--to", "link", "--table", "t")
    assert "nothing to load" in again.talk


def test_the_ledger_of_a_folder_is_deleted(shell: Shell) -> None:
    write(shell, "a")
    shell.ok(*INTO)
    for path in (shell.folder / "data").glob("rowfall.ledger*"):
        path.unlink()
    stopped = shell.ends(3, *INTO)
    assert "holds 100 rows that nobody has on record" in stopped.talk
    assert rows(shell) == "100\t100"
    # What the hint offers works: the files count as loaded.
    assert "rowfall adopt in --to data --table t" in stopped.talk
    shell.ok("adopt", "in", "--to", "data", "--table", "t")
    assert "nothing to load" in shell.ok(*INTO).talk
    assert rows(shell) == "100\t100"


# --- sources --------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_file_by_another_path(shell: Shell) -> None:
    write(shell, "a", "b")
    (shell.folder / "link").symlink_to("in")
    (shell.folder / "in" / "c.csv").symlink_to("a.csv")
    first = shell.ok("load", "in/a.csv", "in/c.csv", "--to", "data", "--table", "t")
    assert "is the same file as" in first.talk
    again = shell.ok("load", "link", "--to", "data", "--table", "t")
    assert "is the same file as" in again.talk
    assert rows(shell) == "200\t200"
    shell.ok("load", "in", "--to", "data", "--table", "t")
    assert rows(shell) == "200\t200"
    shell.ok("load", "link/a.csv", "--to", "data", "--table", "t", "--force")
    assert rows(shell) == "300\t200"


def test_a_web_server_without_validators(shell: Shell, web: Web) -> None:
    """Only the size tells that a file has changed."""
    name = f"plain-{os.getpid()}.csv"
    web.put(name, b"id,name\n1,a\n")
    web.bare.add(f"/{name}")
    said = shell.ok("load", web.url(name), "--to", "data", "--table", "t")
    assert "neither ETag nor Last-Modified" in said.talk
