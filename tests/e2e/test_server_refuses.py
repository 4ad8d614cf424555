"""What a server target refuses: every kind of wrong address, user, right, table and ledger."""

from __future__ import annotations

import itertools
import os
import re
import socket
import sqlite3
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

import rowfall.ledger.store
from e2e.lake import RIGHTS, SYSTEM, Lake
from e2e.tools import csv
from lab.clickhouse import Account, ClickHouse
from lab.http import SilentServer, Web

pytestmark = pytest.mark.xdist_group("refusing server")
_numbers = itertools.count()
TEN = "generate://trips?rows=10"


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    with ClickHouse(tls=True) as service:
        yield service


class Fake:
    """Passes on to a real HTTP port of a server, with changed words."""

    def __init__(self, real: str, words: Mapping[str, str] = {}) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = urllib.request.Request(real + self.path, body)
                request.add_header("Authorization", self.headers["Authorization"])
                with urllib.request.urlopen(request) as said:
                    data = said.read()
                    headers = {k: v for k, v in said.headers.items()
                               if k.startswith("X-ClickHouse-")}  # fmt: skip
                for old, new in words.items():
                    data = data.replace(old.encode(), new.encode())
                self.send_response(200)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = SilentServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Fake:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


# --- where and who --------------------------------------------------------------------------------

# Target, exit code, pieces of the error, a piece of the hint. {http}: the good address.
ADDRESSES = {
    "password": ("clickhouse://lab:wrong-password@127.0.0.1:{http}/{db}", 5,
                 ("refuses the user 'lab'", "the password is wrong"), "Check the user name"),
    "user": ("clickhouse://nobody:wrong-password@127.0.0.1:{http}/{db}", 5,
             ("refuses the user 'nobody'",), "Check the user name"),
    "nothing there": ("clickhouse://lab@127.0.0.1:{closed}/{db}", 5,
                      ("cannot connect", "127.0.0.1:{closed}", "refused"), "8123 by default"),
    "native port": ("clickhouse://lab@127.0.0.1:{native}/{db}", 5,
                    ("does not answer like the HTTP port",), "belong to the native protocol"),
    "host": ("clickhouse://lab@no-such-host.invalid/{db}", 5,
             ("'no-such-host.invalid' is not known",), "Check the spelling"),
    "web server": ("clickhouse://lab@127.0.0.1:{web}/{db}", 5,
                   ("does not answer like the HTTP port of a ClickHouse",), "The HTTP port is"),
    "TLS to plain": ("clickhouses://lab@127.0.0.1:{http}/{db}", 5,
                     ("does not speak TLS there",), "clickhouses:// wants the HTTPS port"),
    "plain to TLS": ("clickhouse://lab@127.0.0.1:{https}/{db}", 5,
                     ("does not answer like the HTTP port",), "8443 with TLS (clickhouses://)"),
    "certificate": ("clickhouses://lab@127.0.0.1:{https}/{db}", 5,
                    ("its certificate is not trusted",), "SSL_CERT_FILE"),
    "database": ("clickhouse://lab:{password}@127.0.0.1:{http}/nosuch", 5,
                 ("has no database 'nosuch'",), "{db}"),
    "setting": ("clickhouse://lab:{password}@127.0.0.1:{http}/{db}?max_thread=1", 2,
                ("does not know the setting 'max_thread'",), "settings of the server"),
    "value": ("clickhouse://lab:{password}@127.0.0.1:{http}/{db}?max_threads=few", 2,
              ("does not take ?max_threads=few",), "settings of the server"),
    "no host": ("clickhouse://", 2, ("does not say which server",), "clickhouse://user@host:8123"),
    "two databases": ("clickhouse://lab@127.0.0.1:{http}/{db}/x", 2,
                      ("'{db}/x' is not the name of a database",), "clickhouse://user@host:8123"),
    "port": ("clickhouse://lab@127.0.0.1:99999/{db}", 2, ("a port is a number up to 65535",),
             "looks like"),
    "scheme": ("click://127.0.0.1/{db}", 2, ("click:// is not a target",), "clickhouse://host"),
}  # fmt: skip


@pytest.mark.parametrize("case", ADDRESSES)
def test_addresses(lake: Lake, web: Web, case: str) -> None:
    to, code, says, hint = ADDRESSES[case]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        known = {
            "http": lake.server.http_port, "https": lake.server.https_port, "db": lake.database,
            "native": lake.server.tcp_port, "web": web.endpoint.rpartition(":")[2],
            "closed": free.getsockname()[1], "password": lake.server.password,
        }  # fmt: skip
        done = lake.shell.ends(code, "load", TEN, "--to", to.format(**known))
    for piece in says:
        assert piece.format(**known) in done.talk
    assert re.search(r"^  hint: ", done.err, re.M), "the hint stands on its own line"
    assert hint.format(**known) in done.talk.partition("hint: ")[2]
    assert "password-0123456789" not in done.err + done.out
    assert "wrong-password" not in done.err + done.out
    assert lake.tables() == set()


def test_a_trusted_certificate(lake: Lake) -> None:
    to = lake.to.replace("clickhouse://", "clickhouses://").replace(
        f":{lake.server.http_port}/", f":{lake.server.https_port}/"
    )
    env = {"SSL_CERT_FILE": str(lake.server.certificate)}
    done = lake.shell.ok("load", TEN, "--to", to, "--json", env=env)
    assert done.document["target"].startswith("clickhouses://lab@127.0.0.1")
    lake.shell.write("a.csv", csv([(1, 2)], "a", "b"))
    lake.shell.ok("load", "a.csv", "--to", to, "--table", "pushed", env=env)
    assert lake.row("SELECT count(), (SELECT count() FROM {db}.pushed) FROM {db}.trips") == [10, 1]


def test_a_version_that_is_too_old(lake: Lake) -> None:
    version = lake.server.query("SELECT version()").strip()
    with Fake(real=lake.server.endpoint, words={version: "23.8.16.40"}) as old:
        to = lake.server.uri(lake.database, port=old.port)
        done = lake.shell.ends(5, "load", TEN, "--to", to)
    assert "is ClickHouse 23.8.16.40, which is too old" in done.talk
    assert "needs ClickHouse 24.8 or newer" in done.talk.partition("hint: ")[2]


def test_a_server_of_another_version_is_asked_again(lake: Lake) -> None:
    real, version = lake.server.endpoint, lake.server.query("SELECT version()").strip()
    with Fake(real=real) as fake:
        to = lake.server.uri(lake.database, port=fake.port)
        first = lake.shell.ok("load", TEN, "--to", to, "--json").document
    later = {version: "25.8.1.1"}
    with Fake(real=real, words=later) as fake:
        to = lake.server.uri(lake.database, port=fake.port)
        second = lake.shell.ok("load", TEN, "--to", to, "--json").document
    assert (first["engine_version"], second["engine_version"]) == (version, "25.8.1.1")
    assert (second["splits_loaded"], second["splits_skipped"]) == (0, 1)


# --- rights ---------------------------------------------------------------------------------------


def account(lake: Lake, *without: str, settings: str = "") -> Account:
    """A user with the rights that the guide names, less some."""
    granted = [right for right in RIGHTS.split(", ") if right not in without]
    system = [right for right in SYSTEM if right not in without]
    grants = [f"{right} ON {lake.database}.*" for right in granted] + system
    return lake.server.add_user(f"u{os.getpid()}_{next(_numbers)}", *grants, settings=settings)


def test_the_documented_rights_are_enough(lake: Lake) -> None:
    lake.shell.write("a.csv", csv([(1, 2), (3, 4)], "a", "b"))
    user = account(lake)
    lake.ok("load", "a.csv", "--table", "t", "--verify", account=user)
    lake.ok("load", TEN, account=user)
    lake.ok("load", "a.csv", "--table", "t", "--replace", account=user)
    lake.ok("load", TEN, "--table", "u", "--atomic", account=user)
    lake.ok("clean", account=user)
    assert lake.row("SELECT count() FROM {db}.t") == [2]


_ON_NEW = [right for right in RIGHTS.split(", ") if right != "CREATE TABLE"]


@pytest.mark.parametrize(
    ("right", "exists"),
    [
        *((right, True) for right in RIGHTS.split(", ")),
        ("CREATE TABLE", False),
        *(pytest.param(right, False, marks=pytest.mark.long) for right in _ON_NEW),
    ],
    ids=lambda value: {False: "new", True: "existing"}.get(value, value),
)
@pytest.mark.sampled(1)
def test_a_missing_right_is_named_before_rows_are_read(
    lake: Lake, right: str, exists: bool
) -> None:
    lake.shell.write("a.csv", "a,b\n1,2\n")
    if exists:
        lake.do("CREATE TABLE {db}.t (a UInt8, b UInt8) ENGINE = MergeTree ORDER BY a")
    user = account(lake, right)
    done = lake.ends(5, "load", "a.csv", "--table", "t", account=user)
    granted = re.search(rf"hint: .*(GRANT {right} ON {lake.database}\.\S+ TO {user.user})",
                        done.talk)  # fmt: skip
    assert granted, done.err
    assert lake.tables() == ({"t"} if exists else set())
    assert "load " not in done.err.partition("rowfall:")[0], "nothing had begun"
    plan = lake.ok("plan", "a.csv", "--table", "t", account=user)
    assert f"It would fail: the user '{user.user}' lacks the grant {right}" in " ".join(
        plan.out.split()
    )
    # What the hint says is what helps.
    lake.do(granted[1])
    lake.ok("load", "a.csv", "--table", "t", account=user)


def test_all_missing_rights_are_named_at_once(lake: Lake) -> None:
    user = account(lake, "ALTER DELETE", "DROP TABLE", *SYSTEM)
    done = lake.ends(5, "load", TEN, account=user)
    for right in ("DROP TABLE, ALTER DELETE ON", *SYSTEM):
        assert right in done.talk.partition("hint: ")[2]
    lake.do(done.talk.partition("can run: ")[2])
    lake.ok("load", TEN, account=user)


@pytest.mark.parametrize("level", [1, 2])
def test_a_read_only_user(lake: Lake, level: int) -> None:
    user = account(lake, settings=f"readonly = {level}")
    lake.do("CREATE TABLE {db}.t (a UInt8) ENGINE = MergeTree ORDER BY a",
            "INSERT INTO {db}.t VALUES (7)")  # fmt: skip
    done = lake.ends(5, "load", TEN, "--table", "t", account=user)
    assert f"the user '{user.user}' may only read" in done.talk
    assert f"its profile sets readonly = {level}" in done.talk
    assert lake.ok("query", "SELECT a FROM t", "--format", "TSV", account=user).out == "7\n"


# Settings of a profile; exit code of a load of 1,000 rows, and what it says.
PROFILES = {
    "limit": ("limit = 100", 0, ""),
    "fixed limit": ("limit = 100 READONLY", 5, "does not allow limit = 0"),
    "offset": ("offset = 5", 0, ""),
    "fixed offset": ("offset = 5 READONLY", 5, "sets offset"),
    "cut": ("max_rows_to_read = 100, read_overflow_mode = 'break', max_block_size = 10", 0, ""),
    "fixed cut": ("max_rows_to_read = 100, read_overflow_mode = 'break' READONLY", 5,
                  "read_overflow_mode = break"),
    "answers": ("max_result_rows = 2, result_overflow_mode = 'break', max_block_size = 1", 0, ""),
    "nulls": ("join_use_nulls = 1", 0, ""),
    "cache": ("use_query_cache = 1", 0, ""),
    "no DDL": ("allow_ddl = 0", 5, "allow_ddl = 0"),
    "threads": ("max_threads = 1 MAX 1, max_insert_threads = 1 MAX 1", 0, ""),
    "memory": ("max_memory_usage = 1500000000 MAX 1500000000", 0, ""),
    "blocks": ("max_partitions_per_insert_block = 100 MIN 1", 0, ""),
    "asynchronous": ("async_insert = 1, wait_for_async_insert = 0 READONLY", 0, ""),
    "fixed asynchronous": ("async_insert = 1 READONLY", 5, "async_insert = 1"),
    "deduplication": ("insert_deduplicate = 1 READONLY", 0, ""),
    "reading": ("date_time_overflow_behavior = 'saturate' READONLY", 5,
                "date_time_overflow_behavior = throw"),
    "same reading": ("date_time_overflow_behavior = 'throw' READONLY", 0, ""),
    "old types": ("allow_suspicious_low_cardinality_types = 0 MAX 0", 0, ""),
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", [
    pytest.param(name, marks=[] if name in ("nulls", "fixed limit", "threads", "reading")
                 else [pytest.mark.long]) for name in PROFILES
])  # fmt: skip
def test_what_a_profile_allows(lake: Lake, case: str) -> None:
    """What a load needs is sent; what may not be sent is named before anything is made."""
    settings, code, says = PROFILES[case]
    lake.shell.write("a.csv", csv([(i, i) for i in range(1000)], "a", "b"))
    user = account(lake, settings=settings)
    done = lake.ends(code, "load", "a.csv", "--table", "t", account=user)
    assert says in done.talk
    if code:
        assert "hint: " in done.err
        assert lake.tables() <= {"t", "_rowfall_journal"}
    else:
        assert lake.row("SELECT count(), uniqExact(a) FROM {db}.t") == [1000, 1000]
        again = lake.ok("load", "a.csv", "--table", "t", "--json", account=user).document
        assert (again["splits_loaded"], again["splits_skipped"]) == (0, 1)


def test_a_table_that_collapses_rows_under_a_profile_that_fixes_it(lake: Lake) -> None:
    lake.do("CREATE TABLE {db}.t (a UInt64, b UInt64) ENGINE = ReplacingMergeTree ORDER BY b")
    lake.shell.write("a.csv", csv([(i, i % 3) for i in range(9)], "a", "b"))
    user = account(lake, settings="optimize_on_insert = 1 READONLY")
    done = lake.ends(5, "load", "a.csv", "--table", "t", account=user)
    assert "optimize_on_insert = 1 and does not allow" in done.talk
    assert lake.row("SELECT count() FROM {db}.t") == [0]


def test_a_setting_in_the_address_that_cuts_answers(lake: Lake) -> None:
    lake.shell.write("a.csv", "a\n1\n")
    done = lake.shell.ends(2, "load", "a.csv", "--to", f"{lake.to}?limit=5", "--table", "t")
    assert "?limit=5 cannot be had for a load" in done.talk
    lake.ok("load", "a.csv", "--table", "t")
    rows = lake.shell.rows("SELECT number FROM numbers(9)", "--to", f"{lake.to}?limit=5")
    assert len(rows) == 5, "a query is the user's own"


def test_a_right_on_what_views_fill_is_missing(lake: Lake) -> None:
    other = f"{lake.database}_behind"
    lake.do(
        f"CREATE DATABASE {other}",
        "CREATE TABLE {db}.t (a UInt8) ENGINE = MergeTree ORDER BY a",
        f"CREATE TABLE {other}.o (a UInt8) ENGINE = MergeTree ORDER BY a",
        f"CREATE MATERIALIZED VIEW {{db}}.v TO {other}.o AS SELECT a FROM {{db}}.t",
    )
    lake.shell.write("a.csv", "a\n1\n")
    user = account(lake)
    lake.do(f"GRANT SELECT, INSERT, CREATE TABLE, DROP TABLE ON {other}.* TO {user.user}")
    done = lake.ends(5, "load", "a.csv", "--table", "t", account=user)
    grant = f"GRANT ALTER DELETE ON {other}.* TO {user.user}"
    assert grant in done.talk.partition("hint: ")[2]
    assert lake.tables() == {"t", "v"}
    lake.do(grant)
    lake.ok("load", "a.csv", "--table", "t", account=user)
    assert lake.row(f"SELECT count() FROM {other}.o") == [1]
    lake.do(f"DROP DATABASE {other} SYNC")


def test_a_read_only_query(lake: Lake) -> None:
    lake.ok("load", TEN, "--table", "t")
    refused = lake.ends(2, "query", "DROP TABLE t")
    assert "--write" in refused.talk
    missing = lake.ends(6, "query", "SELECT 1 FROM nosuch")
    assert "nosuch" in missing.talk
    assert "SHOW TABLES" in missing.talk.partition("hint: ")[2]
    wrong = lake.ends(5, "query", "SELEC 1")
    assert "Syntax error" in wrong.talk
    assert len(wrong.err) < 400, "not every word that might have come"
    lake.ok("query", "DROP TABLE t", "--write")
    assert lake.tables() == {"_rowfall_journal"}


# --- tables ---------------------------------------------------------------------------------------

OTHER_ENGINES = {
    "Distributed": ("CREATE TABLE {db}.t AS {db}.base ENGINE = Distributed('default', "
                    "'{db}', base)", "?cluster=NAME"),
    "View": ("CREATE VIEW {db}.t AS SELECT * FROM {db}.base", "table that the view reads"),
    "MaterializedView": ("CREATE MATERIALIZED VIEW {db}.t ENGINE = MergeTree ORDER BY tuple() AS "
                         "SELECT * FROM {db}.base", "into the one it fills"),
    "Buffer": ("CREATE TABLE {db}.t AS {db}.base ENGINE = Buffer('{db}', base, 1, 10, 100, 1000, "
               "10000, 10000, 100000)", "the table behind the buffer"),
    "Kafka": ("CREATE TABLE {db}.t (a UInt8) ENGINE = Kafka('127.0.0.1:1', 't', 'g', 'CSV')",
              "MergeTree family"),
    "Merge": ("CREATE TABLE {db}.t AS {db}.base ENGINE = Merge('{db}', 'base')", "unites"),
}  # fmt: skip


@pytest.mark.parametrize("engine", OTHER_ENGINES)
def test_engines_that_take_no_rows(lake: Lake, engine: str) -> None:
    lake.do("CREATE TABLE {db}.base (a UInt8) ENGINE = MergeTree ORDER BY a")
    sql, hint = OTHER_ENGINES[engine]
    if engine == "Distributed":
        define_cluster(lake.server)
    lake.do(sql)
    before = lake.tables()
    lake.shell.write("a.csv", "a\n1\n")
    for command in ("load", "plan"):
        done = lake.ends(5, command, "a.csv", "--table", "t")
        assert f"cannot load into {lake.database}.t: its engine is {engine}" in done.talk
        assert hint in done.talk.partition("hint: ")[2]
    assert lake.tables() == before


def define_cluster(server: ClickHouse) -> None:
    """The cluster ``default`` of one shard, as a packaged server has it."""
    path = server.folder / "config.xml"
    text = path.read_text()
    if "<remote_servers>" not in text:
        shard = f"<shard><replica><host>127.0.0.1</host><port>{server.tcp_port}</port></replica>"
        new = f"<remote_servers><default>{shard}</shard></default></remote_servers></clickhouse>"
        path.write_text(text.replace("</clickhouse>", new))
        server.query("SYSTEM RELOAD CONFIG")


def test_columns_that_do_not_fit(lake: Lake) -> None:
    lake.do("CREATE TABLE {db}.t (a String, b UInt8) ENGINE = MergeTree ORDER BY a")
    cases = {
        "names": ("a,c\nx,1\n", 5, "lacks b, which the table needs; the table lacks c", "by name"),
        "more": ("x,1,2\ny,2,3\n", 5, "the table takes 2 columns", "the table has a, b"),
        "fewer": ("x\ny\n", 5, "the table takes 2 columns", "the table has a, b"),
        "type": ("a,b\nx,1\ny,300\n", 1, '"300" does not fit UInt8', "--widen --type 'b UInt16'"),
        "order": (
            "1,x\n2,y\n",
            1,
            'column "b": "x" does not fit UInt8',
            "--widen --type 'b String'",
        ),
    }
    for name, (content, code, says, hint) in cases.items():
        path = lake.shell.write(f"{name}.csv", content)
        done = lake.ends(code, "load", path.name, "--table", "t")
        assert says in done.talk, name
        assert hint in done.talk.partition("hint: ")[2], name
        assert str(path) in done.talk, name
    generated = lake.ends(5, "load", TEN, "--table", "t")
    assert "the generator lacks a, b" in generated.talk
    typed = lake.ends(2, "load", "type.csv", "--table", "t", "--schema", "a String, b UInt16")
    assert "its types cannot be chosen: b is UInt8, not UInt16" in typed.talk
    assert lake.row("SELECT count() FROM {db}.t") == [0]
    assert lake.staging() == set()


def test_a_database_that_does_not_exist(lake: Lake) -> None:
    for command in ("load", "plan"):
        done = lake.ends(5, command, TEN, "--table", "nosuch.t")
        assert "has no database 'nosuch'" in done.talk
        assert lake.database in done.talk.partition("hint: ")[2]
    other = f"{lake.database}_other"
    lake.do(f"CREATE DATABASE {other}")
    lake.ok("load", TEN, "--table", f"{other}.t")
    assert lake.row(f"SELECT count() FROM {other}.t") == [10]
    lake.do(f"DROP DATABASE {other} SYNC")


def test_the_same_command_again_with_its_schema(lake: Lake) -> None:
    lake.shell.write("a.csv", "id,name\n1,x\n")
    lake.shell.write("b.csv", "id,name\nx,y\n")
    command = ("load", "?.csv", "--table", "t", "--schema", "id UInt8, name String")
    lake.ends(1, *command)
    lake.shell.write("b.csv", "id,name\n2,y\n")
    lake.ok(*command)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [2, 3]
    assert lake.ok("verify", "last").out.count("equal") == 1


def test_a_staging_name_that_is_taken(lake: Lake) -> None:
    """All names that begin with _rowfall_ are rowfall's: it is said, dropped and gone around."""
    lake.shell.write("a.csv", "id\n1\n")
    lake.shell.write("b.csv", "id\nx\n")
    command = ("load", "?.csv", "--table", "t", "--schema", "id UInt8")
    report = lake.ends(1, *command, "--json").document
    lake.shell.write("b.csv", "id\n2\n")
    taken = f"_rowfall_{report['load_id']}_{report['attempts'] + 1}"
    lake.do(f"CREATE TABLE {{db}}.{taken} (other String) ENGINE = MergeTree ORDER BY other")
    refused = lake.ends(5, *command)
    assert f"{lake.database}.{taken} already exists" in refused.talk
    assert "run again: each attempt takes another name" in refused.talk.partition("hint: ")[2]
    lake.ok(*command)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [2, 3]


# --- the ledger -----------------------------------------------------------------------------------


def ledger(lake: Lake) -> Path:
    (found,) = (lake.shell.cli.home / "state").rglob("*.ledger")
    return Path(found)


def test_a_damaged_ledger(lake: Lake) -> None:
    lake.ok("load", TEN)
    path = ledger(lake)
    whole = path.read_bytes()
    path.write_bytes(os.urandom(5000))
    for command in (("load", TEN), ("status",), ("resume",), ("clean",)):
        done = lake.ends(3, *command)
        assert f"the ledger {path} is damaged" in done.talk
        assert "hint: Restore it from a backup" in done.talk
    path.write_bytes(whole)
    assert lake.load(TEN)["splits_skipped"] == 1


def test_a_ledger_of_a_newer_rowfall(lake: Lake) -> None:
    lake.ok("load", TEN)
    with sqlite3.connect(ledger(lake)) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    done = lake.ends(3, "load", TEN)
    assert "was written by a newer rowfall (format 99" in done.talk


def test_a_locked_ledger(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.ok("load", TEN)
    monkeypatch.setattr(rowfall.ledger.store, "BUSY_SECONDS", 1.0)
    db = sqlite3.connect(ledger(lake), isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    try:
        done = lake.ends(3, "load", TEN, "--table", "u")
    finally:
        db.close()
    assert "is locked by another process" in done.talk
    assert (
        "Wait for the other rowfall to end (waited 1 seconds)" in done.talk.partition("hint: ")[2]
    )
