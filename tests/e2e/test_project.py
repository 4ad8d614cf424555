"""Loads by their names, as a user runs them: rowfall run, init, config; hooks; layers."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.values import duckdb_at
from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from rowfall.ledger import Ledger

pytestmark = pytest.mark.xdist_group("project")  # one server for the module
ORDERS = "id,name,total\n1,a,2.5\n2,b,3\n"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def program(shell: Shell, name: str, text: str) -> Path:
    path = shell.write(name, f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def loads(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The loads of a ``rowfall_run`` document by their names."""
    assert document["rowfall_run"] == 1
    return {one["name"]: one for one in document["loads"]}


def test_a_named_load_is_the_same_load(shell: Shell) -> None:
    """Whether it is run by its name from a folder below, or typed: each row is there once."""
    for number in range(3):
        shell.write(f"in/{number}.csv", ORDERS)
    shell.write("rowfall.toml", '[loads.orders]\nsource = "in/*.csv"\ntable = "orders"\n')
    (shell.folder / "below").mkdir()
    shell.cli.cwd = shell.folder / "below"
    one = loads(shell.ok("run", "orders", "--json").document)["orders"]
    assert (one["outcome"], one["rows"], one["report"]["splits_loaded"]) == ("done", 6, 3)
    assert loads(shell.ok("run", "orders", "--json").document)["orders"]["rows"] == 0
    shell.cli.cwd = shell.folder.parent
    assert shell.ok("load", "in/*.csv", "--table", "orders", "--json").document["rows"] == 0
    shell.write("in/3.csv", ORDERS)
    assert shell.ok("load", "in/*.csv", "--table", "orders", "--json").document["rows"] == 2
    assert loads(shell.ok("run", "orders", "--json").document)["orders"]["rows"] == 0
    assert shell.row("SELECT count(), sum(total) FROM orders") == [8, 22]
    assert not (shell.folder / "below" / "rowfall-data").exists()


def test_a_load_with_a_parameter_loads_each_value_once(shell: Shell) -> None:
    for day, rows in (("2026-01-01", "1\n"), ("2026-01-02", "2\n3\n")):
        shell.write(f"in/{day}.csv", f"id\n{rows}")
    shell.write(
        "rowfall.toml",
        '[loads.events]\nparams = "day"\nsource = "in/{day}.csv"\ntable = "events"\n'
        "select = \"id, '{day}' AS day\"\n"
        '[loads.others]\nsource = "in/2026-01-01.csv"\ntable = "others"\n',
    )
    for arguments in (["events"], ["events"], ["--all"]):  # the second finds it loaded
        shell.ok("run", *arguments, "--param", "day=2026-01-02")
    assert shell.row("SELECT count(), sum(id), any(day), uniq(day) FROM events") == [
        2, 5, "2026-01-02", 1
    ]  # fmt: skip
    assert shell.row("SELECT count(), sum(id) FROM others") == [1, 1]
    done = shell.run("run", "--all")
    assert done.code == 2
    assert "rowfall run events --param day=VALUE" in done.err


@pytest.mark.long
def test_layers_of_a_command(shell: Shell) -> None:
    """Flags win over variables, these over the connection, that over [defaults]."""
    shell.write("a.csv", ORDERS)
    shell.write(
        "rowfall.toml",
        '[defaults]\nto = "lake"\nmax_errors = 1\ntype = "id Int64"\n'
        '[connections.lake]\nuri = "lake"\ntable = "orders"\n',
    )
    shell.write("bad.csv", ORDERS + "x,c,1\n")
    assert shell.ok("load", "bad.csv", "--json").document["rows_rejected"] == 1
    assert shell.row("SELECT count() FROM orders") == [2]
    assert (shell.folder / "lake").is_dir()
    shell.write("worse.csv", ORDERS + "x,c,1\ny,d,1\n")
    done = shell.ok("load", "worse.csv", "--json", env={"ROWFALL_MAX_ERRORS": "2"})
    assert done.document["rows_rejected"] == 2
    shell.write("third.csv", ORDERS + "x,c,1\ny,d,1\n")
    shell.ends(1, "load", "third.csv", "--max-errors", "1", env={"ROWFALL_MAX_ERRORS": "2"})
    done = shell.ends(2, "load", "a.csv", env={"ROWFALL_THREADS": "two"})
    assert "ROWFALL_THREADS=two: it is a whole number of 1 or more" in done.talk
    shell.ok("load", "a.csv", env={"ROWFALL_TO": "./elsewhere"})
    assert (shell.folder / "elsewhere").is_dir()
    shell.write("other.toml", '[connections.lake]\nuri = "other-lake"\n')
    shell.ok("load", "a.csv", "--to", "lake", "--config", "other.toml")
    assert (shell.folder / "other-lake").is_dir()


def test_a_variable_that_wins_over_a_load_is_said(shell: Shell) -> None:
    shell.write("a.csv", ORDERS)
    shell.write("rowfall.toml", '[loads.a]\nsource = "a.csv"\nto = "./data"\nthreads = 1\n')
    done = shell.ok("run", "a", env={"ROWFALL_TO": "other", "ROWFALL_PATIENCE": "2m"})
    assert "ROWFALL_TO is set and wins over to of [loads.a]" in done.talk
    assert "PATIENCE" not in done.talk
    assert (shell.folder / "other").is_dir()
    assert not (shell.folder / "data").exists()


def test_what_is_wrong_with_the_file_is_said_before_anything_is_loaded(shell: Shell) -> None:
    shell.write("a.csv", ORDERS)
    where = shell.write("rowfall.toml", '[loads.a]\nsource = "a.csv"\nthread = 2\n')
    done = shell.ends(2, "run", "a")
    assert f"{where} line 3, [loads.a]: thread is no key of a load" in done.talk
    assert "hint: Did you mean threads?" in done.talk
    assert shell.ends(2, "load", "a.csv", "--json").document["exit"] == 2
    assert not (shell.folder / "rowfall-data").exists()
    where.chmod(0)
    assert f"cannot read {where}: permission denied" in shell.powerless("run", "a").err
    where.chmod(0o600)
    shell.write("rowfall.toml", '[loads.a]\nsource = "a.csv"\n')
    assert "--config no.toml: the file is not there" in shell.ends(
        2, "run", "a", "--config", "no.toml").talk  # fmt: skip
    done = shell.ends(2, "run", "a", "--config", "x.toml", "--config", "rowfall.toml")
    assert "--config is given twice" in done.talk
    done = shell.ends(2, "--config", "x.toml", "run", "a", "--config", "rowfall.toml")
    assert "--config is given twice: x.toml and rowfall.toml" in done.talk
    for names, said in (
        ((), "no load is named"), (("--all", "a"), "--all runs all loads, and some are named"),
        (("b",), "has no load b"),
    ):  # fmt: skip
        assert said in shell.ends(2, "run", *names).talk


@pytest.mark.long
def test_a_password_that_a_program_has(shell: Shell, lake: Lake) -> None:
    """It is in no ledger, and the server takes it; a wrong one is refused by the server."""
    shell.write("a.csv", ORDERS)
    program(shell, "secret", f'test "$1" = lake && echo {lake.server.password}')
    to = lake.server.uri(lake.database).replace(f":{lake.server.password}@", "@")
    assert lake.server.password not in to
    shell.write(
        "rowfall.toml",
        f'[connections.lake]\nuri = "{to}"\npassword = "cmd:./secret lake"\n'
        '[loads.a]\nsource = "a.csv"\nto = "lake"\ntable = "t"\n'
        'before = { sql = "CREATE TABLE IF NOT EXISTS done (n UInt8) ENGINE = Memory" }\n'
        'after = { sql = "INSERT INTO done VALUES (1)" }\n',
    )
    env = {"ROWFALL_PASSWORD": "", "CLICKHOUSE_PASSWORD": ""}
    done = shell.ok("run", "a", env=env)
    assert lake.server.password not in done.out + done.err
    shell.ok("run", "a", env=env)
    assert lake.row("SELECT (SELECT count() FROM {db}.t), (SELECT count() FROM {db}.done)") == [
        2, 2]  # fmt: skip
    shown = shell.ok("config", "a").out
    assert "cmd:./secret lake" in shown
    assert lake.server.password not in shown
    for ledger in shell.cli.home.rglob("*.ledger*"):
        assert lake.server.password.encode() not in ledger.read_bytes()
    program(shell, "secret", "exit 1")
    done = shell.ends(2, "run", "a", env=env)
    assert "./secret has ended with 1 and no password" in done.talk


# --- hooks ----------------------------------------------------------------------------------------


def test_hooks_of_commands_get_the_report(shell: Shell) -> None:
    shell.write("a.csv", ORDERS)
    program(
        shell, "hook",
        'echo "$ROWFALL_HOOK $ROWFALL_LOAD $ROWFALL_OUTCOME $ROWFALL_ROWS" >> said\n'
        'test -z "$ROWFALL_REPORT" || cp "$ROWFALL_REPORT" report.json\n'
        'stat -c %a "$ROWFALL_REPORT" >> modes 2>/dev/null; true',
    )  # fmt: skip
    hook = '{ command = ["./hook"] }'
    shell.write(
        "rowfall.toml",
        f'[loads.a]\nsource = "a.csv"\nbefore = {hook}\nafter = {hook}\non_error = {hook}\n'
        f'[loads.b]\nsource = "b.csv"\nafter = {hook}\non_error = {hook}\n'
        f'[loads.c]\nsource = "none/*.csv"\non_error = {hook}\n',
    )
    shell.write("b.csv", "id,n\n1,2\n3,x\n")
    said = shell.folder / "said"
    shell.ok("run", "a")
    assert said.read_text() == "before a  \nafter a done 2\n"
    report = json.loads((shell.folder / "report.json").read_text())
    assert (report["rowfall_report"], report["rows"]) == (2, 2)
    assert (shell.folder / "modes").read_text() == "600\n"
    shell.ok("run", "a")
    assert said.read_text().endswith("before a  \nafter a done 0\n")
    said.unlink()
    shell.ends(1, "run", "b", "--type", "n UInt8")
    assert said.read_text() == "on_error b failed 0\n"
    shell.ends(4, "run", "c")
    assert said.read_text() == "on_error b failed 0\non_error c failed 0\n"
    document = json.loads((shell.folder / "report.json").read_text())
    assert (document["rowfall_error"], document["exit"]) == (1, 4)


def test_a_hook_that_fails(shell: Shell) -> None:
    """Before a load it keeps it from beginning; behind it the rows stay, and it runs again."""
    shell.write("a.csv", ORDERS)
    text = '[loads.a]\nsource = "a.csv"\n{} = {{ command = ["sh", "-c", "{}"] }}\n'
    where = shell.write("rowfall.toml", text.format("before", "echo no room >&2; exit 3"))
    done = shell.ends(8, "run", "a")
    assert (f"the before hook of a ({where} line 3, [loads.a]) has ended with exit code 3: no room "
            "hint: Nothing was loaded") in done.talk  # fmt: skip
    assert not (shell.folder / "rowfall-data").exists()
    shell.write("rowfall.toml", text.format("after", "test -e ready"))
    document = shell.ends(8, "run", "a", "--json").document
    one = loads(document)["a"]
    assert (one["outcome"], one["rows"], one["exit"], document["exit"]) == ("failed", 2, 8, 8)
    assert one["report"]["outcome"] == "done"
    assert "has ended with exit code 1" in one["hooks"][0]["error"]
    assert shell.row("SELECT count() FROM a") == [2]
    shell.write("ready", "")
    one = loads(shell.ok("run", "a", "--json").document)["a"]
    assert (one["outcome"], one["rows"]) == ("done", 0)
    assert [(hook["when"], hook["error"]) for hook in one["hooks"]] == [("after", "")]
    shell.write("rowfall.toml", text.format("before", "true").replace('"sh"', '"./gone"'))
    assert "cannot run ./gone: no such file" in shell.ends(8, "run", "a").talk


@pytest.mark.long
def test_a_hook_that_hangs_is_ended_with_what_it_has_started(shell: Shell) -> None:
    shell.write("a.csv", ORDERS)
    program(shell, "hook", "sleep 100 & echo $! > pid; wait")
    shell.write(
        "rowfall.toml",
        '[loads.a]\nsource = "a.csv"\nafter = { command = ["./hook"], timeout = "0.5s" }\n',
    )
    done = shell.ends(8, "run", "a")
    assert "has not ended within 0.50 s and was stopped" in done.talk
    assert shell.row("SELECT count() FROM a") == [2]
    pid = (shell.folder / "pid").read_text().strip()
    wait_until(lambda: gone(int(pid)), 10, "what the hook has started goes on")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.long
def test_sql_hooks_run_in_the_target(shell: Shell) -> None:
    """In a data folder and in a file of DuckDB; other targets are refused before anything."""
    shell.write("a.csv", ORDERS)
    text = (
        '[loads.a]\nsource = "a.csv"\nto = "{to}"\n{table}'
        'before = {{ sql = "CREATE TABLE IF NOT EXISTS done (n INT){engine}" }}\n'
        'after = {{ sql = ["INSERT INTO done SELECT count(*) FROM t", "SELECT 1"] }}\n'
    )
    shell.write("rowfall.toml", text.format(to="./data", table='table = "t"\n',
                                            engine=" ORDER BY n"))  # fmt: skip
    shell.ok("run", "a")
    shell.ok("run", "a")
    assert shell.rows("SELECT n FROM done", "--to", "data") == [[2], [2]]
    shell.write("rowfall.toml", text.format(to="shop.duckdb", table='table = "t"\n', engine=""))
    shell.ok("run", "a")
    with duckdb_at(shell.folder / "shop.duckdb") as do:
        assert do("SELECT n FROM done").fetchall() == [(2,)]
    shell.write("rowfall.toml", text.format(to="./out.parquet", table="", engine=""))
    done = shell.ends(2, "run", "a")
    assert "the hook is SQL, and " in done.talk
    assert "out.parquet runs none" in done.talk
    assert not (shell.folder / "out.parquet").exists()
    shell.write("rowfall.toml", text.format(to="./data", table='table = "t"\n', engine=" WRONG"))
    done = shell.ends(8, "run", "a")
    assert "has failed: " in done.talk
    assert "WRONG" in done.talk


@pytest.fixture
def schema(postgresql: PostgresqlServer) -> Iterator[str]:
    name = f"hooks{os.getpid()}"
    postgresql.run(f"CREATE SCHEMA {name}")
    yield name
    postgresql.run(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.long
def test_sql_hooks_run_in_postgresql(
    shell: Shell, postgresql: PostgresqlServer, schema: str
) -> None:
    """With the password of the connection; a hook without an end is ended there, too."""
    shell.write("a.csv", ORDERS)
    shell.write("pw", f"{postgresql.password}\n")
    text = (
        f'[connections.shop]\nuri = "{postgresql.uri}?schema={schema}"\npassword = "file:pw"\n'
        '[loads.a]\nsource = "a.csv"\nto = "shop"\ntable = "t"\n'
        'before = { sql = ["CREATE TABLE IF NOT EXISTS done (n bigint)", "SELECT pg_sleep(0)"] }\n'
        'after = { sql = "INSERT INTO done SELECT count(*) FROM t" }\n'
    )
    shell.write("rowfall.toml", text)
    for _ in range(2):
        done = shell.ok("run", "a")
        assert postgresql.password not in done.out + done.err
    assert postgresql.ask(f"SELECT n FROM {schema}.done") == [(2,), (2,)]
    shell.write("rowfall.toml", text.replace(
        "INSERT INTO done SELECT count(*) FROM t\"",
        "SELECT 'the hook', pg_sleep(100)\", timeout = \"2s\""))  # fmt: skip
    done = shell.ends(8, "run", "a")
    assert "has not ended within 2.0 s and was stopped" in done.talk
    alive = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%the hook%'"
    wait_until(lambda: postgresql.ask(alive) == [(0,)], 30, "the statement goes on")
    done = shell.ends(8, "run", "a", "--json")
    shell.write("rowfall.toml", text.replace('FROM t"', 'FROM gone"'))
    done = shell.ends(8, "run", "a")
    assert "has failed: " in done.talk
    assert 'relation "gone" does not exist' in done.talk


@pytest.mark.long
def test_the_password_of_a_source(shell: Shell, postgresql: PostgresqlServer, schema: str) -> None:
    """It is that of its connection, and not part of the address that is remembered and shown."""
    postgresql.run(f"CREATE TABLE {schema}.t AS SELECT n AS id FROM generate_series(1, 1000) g(n)")
    shell.write("pw", f"{postgresql.password}\n")
    shell.write(
        "rowfall.toml",
        f'[connections.shop]\nuri = "{postgresql.uri}?schema={schema}"\npassword = "file:pw"\n'
        '[loads.a]\nconnection = "shop"\nsource = "t"\nto = "./data"\ntable = "t"\n',
    )
    env = {"PGPASSWORD": "", "PGPASSFILE": "/nowhere"}
    done = shell.ok("run", "a", "--json", env=env)
    one = loads(done.document)["a"]
    assert (one["rows"], "HIDDEN" in one["report"]["source"]) == (1000, False)
    assert loads(shell.ok("run", "a", "--json", env=env).document)["a"]["rows"] == 0
    assert loads(shell.ok("run", "--all", "--json", env=env).document)["a"]["rows"] == 0
    assert postgresql.password not in done.out + done.err


@pytest.mark.long
def test_sql_hooks_run_in_mariadb(shell: Shell, mariadb: MariaDB) -> None:
    name = f"hooks{os.getpid()}"
    mariadb.query(f"CREATE DATABASE {name}")
    shell.write("a.csv", ORDERS)
    shell.write("pw", f"{mariadb.password}\n")
    shell.write(
        "rowfall.toml",
        f'[connections.shop]\nuri = "mariadb://{mariadb.user}@127.0.0.1:{mariadb.port}/{name}"\n'
        'password = "file:pw"\n[loads.a]\nsource = "a.csv"\nto = "shop"\ntable = "t"\n'
        'before = { sql = "CREATE TABLE IF NOT EXISTS done (n bigint)" }\n'
        'after = { sql = ["INSERT INTO done SELECT count(*) FROM t", "SELECT 1"] }\n',
    )
    for _ in range(2):
        done = shell.ok("run", "a")
        assert mariadb.password not in done.out + done.err
    assert list(mariadb.query("SELECT n FROM done", database=name)) == [(2,), (2,)]
    mariadb.query(f"DROP DATABASE {name}")


@pytest.mark.long
def test_loads_into_one_server_run_at_once(shell: Shell, lake: Lake) -> None:
    """Each row is there once, also in the table that two of them fill."""
    to = lake.server.uri(lake.database).replace(f":{lake.server.password}@", "@")
    text = f'[connections.lake]\nuri = "{to}"\npassword = "env:LAKE_PW"\n'
    for name in ("a", "b", "c"):
        for number in range(20):
            shell.write(f"{name}/{number}.csv", ORDERS)
        table = "c" if name == "c" else "both"
        text += f'[loads.{name}]\nsource = "{name}/*.csv"\nto = "lake"\ntable = "{table}"\n'
    shell.write("rowfall.toml", text)
    env = {"LAKE_PW": lake.server.password, "ROWFALL_PASSWORD": "", "CLICKHOUSE_PASSWORD": ""}
    first = shell.ok("run", "--all", "--json", "--at-once", "3", env=env)
    assert {one["rows"] for one in loads(first.document).values()} == {40}
    again = shell.ok("run", "--all", "--json", env=env)
    assert {one["rows"] for one in loads(again.document).values()} == {0}
    assert lake.row("SELECT (SELECT count() FROM {db}.both), (SELECT count() FROM {db}.c)") == [
        80, 40]  # fmt: skip
    for done in (first, again):
        assert lake.server.password not in done.out + done.err


# --- several loads --------------------------------------------------------------------------------


def project(shell: Shell) -> None:
    """Five loads: one fails, one needs it, two need each other in a row, one is alone."""
    for name in ("a", "b", "c", "e"):
        shell.write(f"{name}.csv", ORDERS)
    shell.write("d.csv", "id,n\n1,x\n")
    shell.write(
        "rowfall.toml",
        '[loads.e]\nsource = "e.csv"\nto = "./e"\nneeds = ["d", "b"]\n'
        '[loads.b]\nsource = "b.csv"\nto = "./b"\nneeds = "a"\n'
        '[loads.a]\nsource = "a.csv"\nto = "./a"\n'
        '[loads.c]\nsource = "c.csv"\nto = "./a"\n'
        '[loads.d]\nsource = "d.csv"\nto = "./d"\ntype = "n UInt8"\n',
    )


@pytest.mark.long
def test_all_loads_in_the_order_of_their_needs(shell: Shell) -> None:
    """A failed one is named, what needs it is skipped, the others go on, and a re-run does it."""
    project(shell)
    done = shell.ends(1, "run", "--all", "--json")
    found = loads(done.document)
    assert list(found) == ["d", "a", "b", "e", "c"]
    assert {name: one["outcome"] for name, one in found.items()} == {
        "a": "done", "b": "done", "c": "done", "d": "failed", "e": "skipped"}  # fmt: skip
    assert found["e"]["error"] == "it needs d, which is not done"
    assert "does not fit UInt8" in found["d"]["report"]["failures"][0]["error"]
    assert done.document["exit"] == 1
    shell.write("d.csv", "id,n\n1,2\n")
    again = loads(shell.ok("run", "--all", "--json").document)
    assert {name: one["rows"] for name, one in again.items()} == {
        "a": 0, "b": 0, "c": 0, "d": 1, "e": 2}  # fmt: skip
    text = shell.ok("run", "--all").talk
    assert "5 loads in " in text
    assert ": 5 done, 0 rows" in text
    for name in ("a", "b", "d", "e"):
        assert shell.row(f"SELECT count() FROM {name}", "--to", name) == [1 if name == "d" else 2]


@pytest.mark.long
def test_loads_into_one_folder_take_turns(shell: Shell) -> None:
    """Also where they name it in two ways; others run meanwhile."""
    text = '[connections.one]\nuri = "data"\n'
    for name, to in (("a", "one"), ("b", "./data"), ("c", "./x/../data"), ("d", "./other")):
        shell.write(f"{name}.csv", ORDERS)
        (shell.folder / "x").mkdir(exist_ok=True)
        log = "log-of-d" if name == "d" else "log"
        text += (
            f'[loads.{name}]\nsource = "{name}.csv"\nto = "{to}"\n'
            f'before = {{ command = ["sh", "-c", "echo begin >> {log}; sleep 0.7"] }}\n'
            f'after = {{ command = ["sh", "-c", "echo end >> {log}"] }}\n'
        )
    shell.write("rowfall.toml", text)
    document = shell.ok("run", "--all", "--json", "--at-once", "4").document
    assert {one["rows"] for one in loads(document).values()} == {2}
    assert (shell.folder / "log").read_text().split() == ["begin", "end"] * 3


@pytest.mark.long
def test_some_loads_and_their_options(shell: Shell) -> None:
    project(shell)
    found = loads(shell.ok("run", "b", "a", "--json", "--to", "./all").document)
    assert list(found) == ["a", "b"]
    assert shell.row("SELECT count() FROM a", "--to", "all") == [2]
    assert shell.row("SELECT count() FROM b", "--to", "all") == [2]
    assert not (shell.folder / "a").exists()
    # Each load of two gets a half of --memory; of what holds one load only they take turns.
    for memory, at_once, shares in (("1300MiB", 2, {650 << 20}), ("900MiB", 1, {900 << 20})):
        document = shell.ok("run", "a", "c", "--json", "--memory", memory, "--to", "null:").document
        assert document["at_once"] == at_once
        ids = {one["report"]["load_id"] for one in document["loads"]}
        assert {int(memory) for load_id, memory in given(shell, "memory") if load_id in ids
                } == shares  # fmt: skip


@pytest.mark.long
def test_many_tables_are_one_load(shell: Shell) -> None:
    """As with ``rowfall load --tables``; the report names the table that is not loaded."""
    shell.write("in/orders/1.csv", ORDERS)
    shell.write("in/items/1.csv", "id,n\n" + "1,2\n" * 50_000 + "1,2,3\n")
    hook = program(shell, "hook", 'echo "$ROWFALL_LOAD $ROWFALL_OUTCOME $ROWFALL_ROWS" >> said')
    shell.write(
        "rowfall.toml",
        '[loads.all]\nsource = "in"\ntables = "*"\nto = "./data"\n'
        f'after = {{ command = ["{hook}"] }}\non_error = {{ command = ["{hook}"] }}\n'
        '[loads.more]\nsource = "in/orders/*.csv"\nto = "./more"\nneeds = "all"\n',
    )
    assert "2 tables" in shell.ok("run", "all", "--dry-run").out
    found = loads(shell.ends(1, "run", "--all", "--json").document)
    assert (found["all"]["outcome"], found["all"]["rows"], found["more"]["outcome"]) == (
        "partial", 2, "skipped")  # fmt: skip
    assert found["all"]["report"]["rowfall_tables"] == 1
    text = shell.ends(1, "run", "--all").talk
    assert "all: items: " in text
    assert "line 50002" in text
    assert "line 50002" in shell.ends(1, "run", "all").talk
    assert (shell.folder / "said").read_text().splitlines()[0] == "all partial 2"
    shell.write("in/items/1.csv", "id,n\n1,2\n")
    found = loads(shell.ok("run", "--all", "--json").document)
    assert {name: one["rows"] for name, one in found.items()} == {"all": 1, "more": 2}
    assert "2 of 2 tables" in shell.ok("run", "--all").talk


def given(shell: Shell, option: str) -> list[tuple[str, Any]]:
    """Id and an option of each load that is remembered with the user's state."""
    found = []
    for path in shell.cli.home.rglob("*.ledger"):
        ledger = Ledger(path)
        found += [(row.id, json.loads(row.request)["options"].get(option))
                  for row in ledger.loads()]  # fmt: skip
        ledger.close()
    return found


@pytest.mark.long
def test_plans_of_all_loads(shell: Shell) -> None:
    project(shell)
    text = shell.ok("run", "a", "b", "--dry-run").out
    assert text.index("load a\n") < text.index("load b\n")
    assert text.count("CREATE TABLE") == 2
    plans = shell.ok("run", "a", "--dry-run", "--json").document
    assert [one["name"] for one in plans["loads"]] == ["a"]
    assert plans["loads"][0]["plan"]["rowfall_plan"]
    assert not (shell.folder / "a").exists()


def test_a_process_that_is_killed_is_named(shell: Shell) -> None:
    shell.write("a.csv", ORDERS)
    shell.write("b.csv", ORDERS)
    shell.write(
        "rowfall.toml",
        '[loads.a]\nsource = "a.csv"\nto = "./a"\n'
        'before = { command = ["sh", "-c", "kill -9 $(ps -o ppid= -p $$)"] }\n'
        '[loads.b]\nsource = "b.csv"\nto = "./b"\n',
    )
    document = shell.ends(70, "run", "--all", "--json").document
    found = loads(document)
    assert found["a"]["error"] == "its process has ended by signal 9 and has said nothing"
    assert found["b"]["outcome"] == "done"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.long
def test_ctrl_c_ends_all_of_them_and_a_re_run_goes_on(shell: Shell, how: signal.Signals) -> None:
    """Also where rowfall itself is killed, which can ask nobody to stop."""
    rows = "".join(f"{i},name {i},{i}.5\n" for i in range(1000))
    for name in ("a", "b"):
        for number in range(3):
            shell.write(f"{name}/{number}.csv", f"id,name,total\n{rows}")
    # The second file of each is a pipe that nobody writes: both loads wait in the middle.
    text = "".join(
        f'[loads.{name}]\nsource = "{name}/*.csv"\nto = "./to-{name}"\n'
        f'before = {{ command = ["sh", "-c", "echo > begun-{name}; test -e go || sleep 100"] }}\n'
        for name in ("a", "b")
    )
    shell.write("rowfall.toml", text + '[loads.c]\nsource = "a/*.csv"\nneeds = ["a", "b"]\n')
    process = shell.cli.start("run", "--all", "--json", "--at-once", "2")
    for name in ("a", "b"):
        wait_until((shell.folder / f"begun-{name}").exists, 30, f"{name} has not begun")
    children = [int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children")
                .read_text().split()]  # fmt: skip
    assert len(children) == 2
    process.send_signal(how)
    out, _ = process.communicate(timeout=60)
    wait_until(lambda: all(map(gone, children)), 30, "a load goes on without its rowfall")
    if how is not signal.SIGKILL:
        assert process.returncode == 130
        assert {one["outcome"] for one in json.loads(out)["loads"]} == {"interrupted"}
    shell.write("go", "")
    found = loads(shell.ok("run", "--all", "--json").document)
    assert {name: one["rows"] for name, one in found.items()} == {"a": 3000, "b": 3000, "c": 3000}


# --- init and config ------------------------------------------------------------------------------


def test_init_writes_a_load_that_runs(shell: Shell) -> None:
    shell.write("in/a.csv", "id;n\n1;x\n2;y\n")
    shell.ok("load", "in/*.csv", "--table", "orders", "--order-by", "n", "--skip", "id",
             "--type", "n LowCardinality(String)")  # fmt: skip
    done = shell.ok("init")
    text = (shell.folder / "rowfall.toml").read_text()
    assert text == (
        '#:schema ./rowfall.schema.json\n\n[loads.orders]\nsource = "in/*.csv"\ntable = "orders"\n'
        'type = ["n LowCardinality(String)"]\nskip = ["id"]\norder_by = "n"\n'
    )
    assert json.loads((shell.folder / "rowfall.schema.json").read_text())["title"]
    assert "run it: rowfall run orders" in done.talk
    assert loads(shell.ok("run", "orders", "--json").document)["orders"]["rows"] == 0
    shell.write("rowfall.toml", f"# mine\n{text}# behind\n")
    assert "has orders already" in shell.ends(2, "init").talk
    shell.ok("init", "--name", "again")
    text = (shell.folder / "rowfall.toml").read_text()
    assert text.startswith("# mine\n#:schema")
    assert "# behind\n" in text
    assert loads(shell.ok("run", "again", "--json").document)["again"]["rows"] == 0
    document = shell.ok("init", "last", "--name", "third", "--json").document
    assert (document["load"], document["to_set"]) == ("third", [])
    shell.write("piped.csv", ORDERS)
    shell.ok("load", "-", "--table", "piped", stdin=ORDERS)
    assert "which cannot be read again" in shell.ends(2, "init", "last").talk
    shell.ok("init", "--name", "fourth", "--config", "other.toml")
    assert "[loads.fourth]" in (shell.folder / "other.toml").read_text()
    assert "no load is done yet" in shell.ends(2, "init", "--to", "nowhere").talk


@pytest.mark.long
def test_init_makes_references_of_secrets(shell: Shell, lake: Lake) -> None:
    shell.write("a.csv", ORDERS)
    lake.ok("load", "a.csv", "--table", "t")
    done = shell.ok("init", "--to", lake.to)
    text = (shell.folder / "rowfall.toml").read_text()
    assert lake.server.password not in text
    assert 'password = "env:CLICKHOUSE_PASSWORD"' in text
    assert "to be set: CLICKHOUSE_PASSWORD" in done.talk
    env = {"ROWFALL_PASSWORD": "", "CLICKHOUSE_PASSWORD": ""}
    done = shell.ends(2, "run", "t", env=env)
    assert "in the variable CLICKHOUSE_PASSWORD, which is not set" in done.talk
    env["CLICKHOUSE_PASSWORD"] = lake.server.password
    assert loads(shell.ok("run", "t", "--json", env=env).document)["t"]["rows"] == 0
    # A second load into the same server takes the connection that is there.
    shell.write("b.csv", ORDERS)
    lake.ok("load", "b.csv", "--table", "t2")
    shell.ok("init", "--to", lake.to)
    assert (shell.folder / "rowfall.toml").read_text().count("[connections.") == 1


def test_config_says_where_values_come_from(shell: Shell) -> None:
    where = shell.write(
        "rowfall.toml",
        '[defaults]\nmemory = "2GiB"\n[connections.lake]\nuri = "lake"\n'
        'password = "env:PW"\n[loads.a]\nsource = "a.csv"\nto = "lake"\n',
    )
    values = {v["key"]: v for v in shell.ok("config", "--json", "a").document["values"]}
    assert values["memory"] == {
        "key": "memory", "value": "2GiB", "layer": "project",
        "origin": f"{where} line 2, [defaults]"}  # fmt: skip
    assert values["password"]["value"] == "env:PW"
    assert (values["threads"]["layer"], values["threads"]["value"]) == ("default", None)
    env = {"ROWFALL_THREADS": "3", "ROWFALL_THREDS": "4"}
    text = shell.ok("config", env=env).out
    assert "ROWFALL_THREADS" in text
    assert "did you mean ROWFALL_THREADS?" in " ".join(text.split())
    assert "no load, pipeline or connection is named b" in shell.ends(2, "config", "b").talk
    assert json.loads(shell.ok("config", "--schema").out)["title"] == "rowfall.toml"
    for wide in ("config", "a"), ("config",):
        assert max(map(len, shell.ok(*wide).out.splitlines())) <= 80 or str(where) in shell.ok(
            *wide).out  # fmt: skip


def test_migrating_keeps_what_people_wrote(shell: Shell) -> None:
    old = (
        "# ours\n[profiles.lake]  # all rows\nto = 'lake' # here\npassword_env = \"PW\"\n"
        "order-by = 'id'\n\n[loads.a]\nsource = 'a.csv'\nto = 'lake'\n# end\n"
        "[profiles.other]\nto = 'b'\n"
    )
    path = shell.write("rowfall.toml", old)
    path.chmod(0o640)
    shell.write("a.csv", ORDERS)
    shell.ok("run", "a", env={"PW": "x"})
    said = shell.ok("config", "--migrate").talk
    assert "[profiles.lake] is [connections.lake], to is uri, password_env is password" in said
    assert path.read_text() == (
        "# ours\n[connections.lake]  # all rows\nuri = 'lake' # here\npassword = \"env:PW\"\n"
        "order_by = 'id'\n\n[loads.a]\nsource = 'a.csv'\nto = 'lake'\n# end\n"
        "[connections.other]\nuri = 'b'\n"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "nothing to do" in shell.ok("config", "--migrate").talk
    assert loads(shell.ok("run", "a", "--json", env={"PW": "x"}).document)["a"]["rows"] == 0
    both = "[connections]\na.uri = 'a'\n[profiles]\nb.to = 'b'\n"
    path.write_text(both)
    assert "in one piece with other tables" in shell.ends(2, "config", "--migrate").talk
    assert path.read_text() == both
