"""Tables that somebody alters while a load runs, or between a crash and the next run."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest

from conftest import Cli
from e2e.fleet import Fleet
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.cluster import Cluster
from lab.faulty import Fault, Faulty, Request
from lab.rows import leftovers
from rowfall.core.errors import EngineError
from rowfall.publish.attach import Publisher

ROWS = 1000
_numbers = itertools.count()
long = pytest.mark.long
# Requests before which the table is altered.
STAGE, COUNT, COMMIT = " AS `{db}`.`t`", "SELECT 'count', ", "SELECT 'commit', "
ATTACH = " ATTACH PARTITION ALL "


class Scene:
    """A table, two files for it, and the command, which reaches its server through a proxy."""

    def __init__(self, rowfall: Cli, server: ClickHouse, proxy: Faulty) -> None:
        self.rowfall, self.server, self.proxy = rowfall, server, proxy
        self.database = f"altered_{os.getpid()}_{next(_numbers)}"
        self.do("CREATE DATABASE {db}")
        self.do("CREATE TABLE {db}.t (k UInt64, name String) ENGINE = MergeTree ORDER BY k")
        for number in range(2):
            first = number * ROWS // 2
            lines = "".join(f"{i},n{i}\n" for i in range(first, first + ROWS // 2))
            (rowfall.cwd / f"rows{number}.csv").write_text("k,name\n" + lines)

    def do(self, sql: str) -> str:
        text = ""
        for one in sql.split("; "):
            text = self.server.query(one.replace("{db}", self.database)).strip()
        return text

    def load(self, *options: str, files: str = "rows*.csv") -> CompletedProcess[str]:
        to = self.server.uri(self.database, port=self.proxy.port)
        return self.rowfall.inside(
            "load", files, "--to", to, "--table", "t", "--attempt-bytes", "1KB", *options
        )

    def clean(self) -> CompletedProcess[str]:
        to = self.server.uri(self.database, port=self.proxy.port)
        return self.rowfall.inside("clean", "--yes", "--to", to)

    def alter_before(self, words: str, sql: str) -> None:
        """Alter the table before the first request that holds some words reaches the server."""
        words, done = words.replace("{db}", self.database), iter([None])

        def script(request: Request) -> Fault | None:
            if words in request.sql and next(done, 1) is None:
                return Fault(before=lambda: self.do(sql))
            return None

        self.proxy.script = script

    def left(self) -> list[str]:
        return leftovers(self.server, self.database)


@pytest.fixture
def scene(rowfall: Cli, clickhouse: ClickHouse) -> Iterator[Scene]:
    with Faulty(clickhouse.http_port) as proxy:
        scene = Scene(rowfall, clickhouse, proxy)
        yield scene
        assert proxy.errors == []
        scene.do("DROP DATABASE {db} SYNC")


VIEW = (
    "CREATE TABLE {db}.u (k UInt64, name String) ENGINE = MergeTree ORDER BY k; "
    "CREATE MATERIALIZED VIEW {db}.v TO {db}.u AS SELECT k, name FROM {db}.t"
)
ADD = "ALTER TABLE {db}.t ADD COLUMN c UInt8 DEFAULT 7"
EACH_ONCE = f"{ROWS}\t{ROWS}\t{7 * ROWS}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ((), ATTACH),
        (("--atomic",), ATTACH),
        *(pytest.param(kind, before, marks=long)
          for kind in [(), ("--atomic",)] for before in (STAGE, COUNT, COMMIT)),
    ],
    ids=str,
)  # fmt: skip
def test_a_column_is_added_during_a_load(scene: Scene, kind: tuple[str, ...], before: str) -> None:
    scene.alter_before(before, ADD)
    done = scene.load(*kind)
    assert done.returncode == 0, done.stderr
    assert scene.do("SELECT count(), uniqExact(k), sum(c) FROM {db}.t") == EACH_ONCE
    assert scene.left() == []


@pytest.mark.parametrize("kind", [(), pytest.param(("--atomic",), marks=long)], ids=str)
def test_a_table_behind_a_view_is_altered(scene: Scene, kind: tuple[str, ...]) -> None:
    scene.do(VIEW)
    scene.alter_before(ATTACH, "ALTER TABLE {db}.u RENAME COLUMN name TO label; "
                       "ALTER TABLE {db}.u ADD COLUMN c UInt8 DEFAULT 7")  # fmt: skip
    # One attempt: the view fits the table no more, so the next one fails.
    assert scene.load(*kind, files="rows0.csv").returncode == 0
    found = scene.do("SELECT count(), uniqExact(k), sum(c), countIf(label = concat('n', toString("
                     "k))) FROM {db}.u")  # fmt: skip
    assert found == "500\t500\t3500\t500"
    assert scene.do("SELECT count() FROM {db}.t") == "500"
    assert scene.left() == []


@pytest.mark.parametrize("before", [STAGE, pytest.param(COUNT, marks=long),
                                    pytest.param(ATTACH, marks=long)])  # fmt: skip
def test_a_key_grows_during_a_load(scene: Scene, before: str) -> None:
    """Staging is made with the key that the table has then."""
    scene.alter_before(before, "ALTER TABLE {db}.t ADD COLUMN z UInt8, MODIFY ORDER BY (k, z)")
    done = scene.load()
    assert done.returncode == 0, done.stderr
    assert scene.do("SELECT count(), uniqExact(k), sum(z) FROM {db}.t") == f"{ROWS}\t{ROWS}\t0"
    assert scene.left() == []


@long
@pytest.mark.parametrize("alter", ["ADD INDEX i name TYPE minmax", "ADD PROJECTION p (SELECT name, "
                                   "count() GROUP BY name)", "MODIFY COLUMN k UInt128 CODEC(ZSTD)",
                                   "ADD COLUMN c UInt8, DROP COLUMN d"])  # fmt: skip
@pytest.mark.parametrize("before", [STAGE, COUNT, COMMIT, ATTACH])
def test_other_changes_during_a_load(scene: Scene, before: str, alter: str) -> None:
    scene.do("DROP TABLE {db}.t SYNC; CREATE TABLE {db}.t (k UInt64, name String, d UInt8 "
             "DEFAULT 1) "
             "ENGINE = MergeTree ORDER BY tuple()")  # fmt: skip
    scene.alter_before(before, f"ALTER TABLE {{db}}.t {alter}")
    done = scene.load()
    assert done.returncode == 0, done.stderr
    assert scene.do("SELECT count(), uniqExact(k), uniqExact(name) FROM {db}.t") == (
        f"{ROWS}\t{ROWS}\t{ROWS}"
    )
    assert scene.left() == []


# --- rows that cannot follow ----------------------------------------------------------------------

NUMBERS = "ALTER TABLE {db}.t MODIFY COLUMN name UInt64"


@pytest.mark.long
def test_rows_that_cannot_follow_stand_in_nobodys_way(scene: Scene) -> None:
    scene.alter_before(ATTACH, NUMBERS)
    first = scene.load(files="rows0.csv")
    assert first.returncode == 5, first.stderr
    assert "cannot follow" in first.stderr
    assert "rowfall forget" in first.stderr
    # Others load into the table, and are told.
    (scene.rowfall.cwd / "more.csv").write_text("k,name\n5000,1\n5001,2\n")
    other = scene.load(files="more.csv")
    assert other.returncode == 0, other.stderr
    assert "cannot follow" in other.stderr
    assert scene.do("SELECT count() FROM {db}.t") == "2"
    # The file of those rows stays taken; all others of the same load are loaded.
    (scene.rowfall.cwd / "rows1.csv").write_text("k,name\n6000,3\n")
    again = scene.load()
    assert again.returncode == 1, again.stderr
    assert "rows0.csv" in again.stderr
    assert scene.do("SELECT count() FROM {db}.t") == "3"
    # What is committed is not dropped.
    cleaned = scene.clean()
    assert cleaned.returncode == 0, cleaned.stderr
    assert "cannot follow" in cleaned.stderr
    assert len(scene.left()) == 1
    # Altered back, the rows arrive.
    scene.do("ALTER TABLE {db}.t MODIFY COLUMN name String")
    done = scene.load()
    assert done.returncode == 0, done.stderr
    assert scene.do("SELECT count(), uniqExact(k) FROM {db}.t") == "503\t503"
    assert scene.left() == []


@pytest.mark.long
def test_rows_that_cannot_follow_are_given_up(scene: Scene) -> None:
    scene.alter_before(ATTACH, NUMBERS)
    first = scene.load(files="rows0.csv")
    assert first.returncode == 5, first.stderr
    (attempt,) = set(re.findall(r"rowfall forget (\w+)", first.stderr))
    to = scene.server.uri(scene.database, port=scene.proxy.port)
    done = scene.rowfall.inside("forget", "--yes", attempt, "--to", to)
    assert done.returncode == 0, done.stderr
    assert "1 file will be loaded again; its staged rows were dropped" in done.stderr
    assert scene.left() == []
    assert scene.rowfall.inside("forget", "--yes", attempt, "--to", to).returncode == 2
    scene.do("ALTER TABLE {db}.t MODIFY COLUMN name String")
    assert scene.load(files="rows0.csv").returncode == 0
    assert scene.do("SELECT count(), uniqExact(k) FROM {db}.t") == "500\t500"


@pytest.mark.long
def test_rows_that_are_not_committed_are_staged_anew(scene: Scene) -> None:
    scene.alter_before(COUNT, NUMBERS)
    done = scene.load(files="rows0.csv")
    # Loaded once more, the file does not fit the table.
    assert done.returncode == 1, done.stderr
    assert scene.do("SELECT count() FROM {db}.t") == "0"
    assert scene.left() == []
    scene.do("ALTER TABLE {db}.t MODIFY COLUMN name String")
    assert scene.load().returncode == 0
    assert scene.do("SELECT count(), uniqExact(k) FROM {db}.t") == f"{ROWS}\t{ROWS}"


# --- between a crash and the next run -------------------------------------------------------------


@long
@pytest.mark.parametrize("kind", [(), ("--atomic",)], ids=str)
def test_a_server_s_table_is_altered_after_a_crash(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, kind: tuple[str, ...]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", _crash)
        assert scene.load(*kind).returncode != 0
    scene.do("ALTER TABLE {db}.t MODIFY COLUMN name LowCardinality(String)")
    scene.do(ADD)
    done = scene.load(*kind)
    assert done.returncode == 0, done.stderr
    assert scene.do("SELECT count(), uniqExact(k), sum(c) FROM {db}.t") == EACH_ONCE
    assert scene.left() == []


def _crash(*_: object) -> None:
    raise EngineError("as if it had been killed")


def test_a_folder_s_table_is_altered_after_a_crash(
    rowfall: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rowfall.cwd / "a.csv").write_text("k,name\n" + "".join(f"{i},n{i}\n" for i in range(ROWS)))
    (rowfall.cwd / "b.csv").write_text("k,name\n1,n1\n")
    first = ("load", "b.csv", "--table", "t", "--type", "k UInt64")
    assert rowfall.inside(*first).returncode == 0
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", _crash)
        assert rowfall.inside("load", "a.csv", "--table", "t").returncode != 0
    for alter in ("ADD COLUMN c UInt8 DEFAULT 7", "RENAME COLUMN name TO label"):
        assert rowfall.inside("query", "--write", f"ALTER TABLE t {alter}").returncode == 0
    done = rowfall.inside("clean", "--yes")
    assert done.returncode == 0, done.stderr
    select = "SELECT count(), sum(c), uniqExact(label) FROM t"
    found = rowfall.inside("query", select, "--format", "TSV").stdout
    assert found == f"{ROWS + 1}\t{7 * ROWS + 7}\t{ROWS}\n"


# --- a load that alters the table itself ----------------------------------------------------------

NEW = ("--widen", "--on-new-column", "add")
STEPS = ["ALTER TABLE `{db}`.`t` ", STAGE, COMMIT, ATTACH]


def widening(scene: Scene) -> None:
    """Files that need another column, and a wider one."""
    scene.do("ALTER TABLE {db}.t ADD COLUMN n Int32")
    for number in range(2):
        first = number * ROWS // 2
        lines = "".join(f"{i},n{i},{2**40},c\n" for i in range(first, first + ROWS // 2))
        (scene.rowfall.cwd / f"rows{number}.csv").write_text("k,name,n,city\n" + lines)


WIDENED = f"{ROWS}\t{ROWS}\t{ROWS * 2**40}\t{ROWS}"
SUMS = "SELECT count(), uniqExact(k), sum(n), countIf(city = 'c') FROM {db}.t"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", [STEPS[0], *(pytest.param(s, marks=long) for s in STEPS[1:])])
@pytest.mark.parametrize("kind", [(), pytest.param(("--atomic",), marks=long)], ids=str)
def test_a_load_that_is_killed_around_its_alter(
    scene: Scene, step: str, when: str, kind: tuple[str, ...]
) -> None:
    """By ``kill -9``, before the server has the statement or after it has answered."""
    widening(scene)
    words, killed = step.replace("{db}", scene.database), []

    def kill() -> None:
        process.kill()
        process.wait()
        killed.append(words)

    def script(request: Request) -> Fault | None:
        if killed or words not in request.sql:
            return None
        at = {"before": kill} if when == "before" else {"after": kill}
        return Fault(reset=when, **at)  # type: ignore[arg-type]

    scene.proxy.script = script
    to = scene.server.uri(scene.database, port=scene.proxy.port)
    command = ("rows*.csv", "--to", to, "--table", "t", "--attempt-bytes", "1KB", *NEW, *kind)
    process = scene.rowfall.start("load", *command)
    process.wait(60)
    assert killed
    scene.proxy.script = lambda request: None
    done = scene.load(*NEW, *kind)
    assert done.returncode == 0, done.stderr
    assert scene.do(SUMS) == WIDENED
    assert scene.left() == []


def test_a_folder_s_table_is_altered_by_a_load_that_dies(
    rowfall: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rowfall.cwd / "a.csv").write_text("k,n\n1,1\n")
    assert rowfall.inside("load", "a.csv", "--table", "t", "--type", "n Int32").returncode == 0
    lines = "".join(f"{i},{2**40},c\n" for i in range(2, ROWS + 1))
    (rowfall.cwd / "b.csv").write_text("k,n,city\n" + lines)
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", _crash)
        assert rowfall.inside("load", "b.csv", "--table", "t", *NEW).returncode != 0
    done = rowfall.inside("load", "b.csv", "--table", "t", *NEW)
    assert done.returncode == 0, done.stderr
    select = "SELECT count(), uniqExact(k), sum(n), countIf(city = 'c') FROM t"
    found = rowfall.inside("query", select, "--format", "TSV").stdout
    assert found == f"{ROWS}\t{ROWS}\t{1 + (ROWS - 1) * 2**40}\t{ROWS - 1}\n"


@pytest.mark.long
@pytest.mark.parametrize("before", [ATTACH, pytest.param(STAGE, marks=long),
                                    pytest.param(COMMIT, marks=long)])  # fmt: skip
def test_another_load_alters_the_table_meanwhile(scene: Scene, before: str) -> None:
    """The staged rows of the load that was first follow."""
    scene.do("ALTER TABLE {db}.t ADD COLUMN n Int32 DEFAULT 1")
    (scene.rowfall.cwd / "wide.csv").write_text(f"k,name,city,n\n5000,x,c,{2**40}\n")
    words, once = before.replace("{db}", scene.database), iter([None])

    def other() -> None:
        to = scene.server.uri(scene.database)
        done = scene.rowfall("load", "wide.csv", "--to", to, "--table", "t", *NEW)
        assert done.returncode == 0, done.stderr

    def script(request: Request) -> Fault | None:
        if words in request.sql and next(once, 1) is None:
            return Fault(before=other)
        return None

    scene.proxy.script = script
    done = scene.load()
    assert done.returncode == 0, done.stderr
    found = scene.do("SELECT count(), uniqExact(k), sum(n), countIf(city = 'c') FROM {db}.t")
    assert found == f"{ROWS + 1}\t{ROWS + 1}\t{ROWS + 2**40}\t1"
    assert scene.left() == []


# --- clusters -------------------------------------------------------------------------------------


@long
def test_a_table_of_a_cluster_is_altered_after_a_crash(
    rowfall: Cli, cluster22: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(Shell(rowfall), cluster22)
    for number in range(4):
        lines = "".join(f"{i},n{i}\n" for i in range(number * 250, number * 250 + 250))
        fleet.shell.write(f"in/f{number}.csv", "k,name\n" + lines)
    options = ("--table", "t", "--attempt-bytes", "1KB")
    fleet.ok("load", "in/f0.csv", *options)
    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "publish", _crash)
        assert fleet.shell.run("load", "in/*.csv", *options, "--to", fleet.to).code != 0
    for name in ("t_local", "t"):
        fleet.do(f"ALTER TABLE {{db}}.{name} ON CLUSTER lab ADD COLUMN c UInt8 DEFAULT 7")
    fleet.ok("load", "in/*.csv", *options)
    select = "SELECT count(), uniqExact(k), sum(c) FROM {db}.t"
    assert fleet.ask(cluster22.nodes[0], select) == [[ROWS, ROWS, 7 * ROWS]]
    assert not fleet.left()
    fleet.drop()
