"""``rowfall doctor``: each link is measured, nothing stays, and bad input says what it is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.tools import Shell, tables, three_files
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.proxy import Proxy
from lab.seaweed import Seaweed
from rowfall.ledger.scratches import DOCTOR as PREFIX
from rowfall.ledger.scratches import ScratchRecord, new_name

ROWS = 3_000


@pytest.fixture
def files(shell: Shell) -> str:
    return three_files(shell)


def doctor(shell: Shell, *args: str) -> dict[str, Any]:
    """The document of a run, in which everything that is measured makes sense."""
    found = shell.ok("doctor", *args, "--json").document
    assert found["rowfall_doctor"] == 1
    assert found["predicted_rows_per_second"] > 0
    assert found["predicted_seconds"] > 0
    assert found["rows"] == ROWS
    assert found["sample"]["rows"] == ROWS
    names = [(link["part"], link["name"]) for link in found["links"]]
    assert len(names) == len(set(names))
    # In the order in which people look for what is slow.
    order = ["source", "network", "target", "protocol"]
    assert names == sorted(names, key=lambda name: order.index(name[0]))
    for link in found["links"]:
        assert link["figure"] > 0
        assert link["unit"] in ("seconds", "bytes/s", "rows/s")
        assert link["rows_per_second"] is None or link["rows_per_second"] > 0
    slow = found["slowest"]
    limits = [x["rows_per_second"] for x in found["links"] if x["rows_per_second"]]
    # Where the network is about as slow as what is behind it, it is the network.
    assert min(limits) <= slow["rows_per_second"] < min(limits) * 1.3
    assert slow["figure"] > 0
    assert slow["why"]
    assert all(change["gain"] > 1 for change in found["changes"])
    assert len(found["changes"]) <= 2
    return found


def links(found: dict[str, Any]) -> set[str]:
    return {f"{link['part']}: {link['name']}" for link in found["links"]}


HERE = {"source: listing", "source: request", "source: reading", "source: parsing",
        "target: ready rows", "protocol: one row"}  # fmt: skip
SERVER = {"network: round trip", "network: to the target", "network: from the target"}


def test_a_new_folder(shell: Shell, files: str, untouched: Callable[[], None]) -> None:
    untouched()
    found = doctor(shell, files)
    untouched()
    assert not (shell.folder / "rowfall-data").exists()
    assert links(found) >= HERE
    assert found["engine"]["working"] > 0
    assert (found["table"], found["target"]) == ("default.in", str(shell.folder / "rowfall-data"))


@pytest.mark.long
def test_a_folder_with_the_table(shell: Shell, files: str, untouched: Callable[[], None]) -> None:
    """Its rows, its definition and what is known of its loads stay."""
    shell.ok("load", "in/0.csv", "--table", "t", "--order-by", "name")
    count = shell.ok("query", "SELECT count(), max(id) FROM t", "--format", "TSV").out
    status = shell.ok("status", "--all", "--json").document
    tables = shell.ok("query", "SHOW TABLES", "--format", "TSV").out
    doctor(shell, files, "--table", "t")
    assert shell.ok("query", "SELECT count(), max(id) FROM t", "--format", "TSV").out == count
    assert shell.ok("query", "SHOW TABLES", "--format", "TSV").out == tables
    assert shell.ok("status", "--all", "--json").document == status
    assert not list(shell.folder.rglob(f"*{PREFIX}*"))
    assert shell.ok("load", files, "--table", "t", "--json").document["rows"] == ROWS - 1000


@pytest.fixture
def database(clickhouse: ClickHouse, tmp_path: Path) -> str:
    name = f"doctor_{abs(hash(tmp_path)) % 10**9}"
    clickhouse.query(f"CREATE DATABASE {name}")
    return name


def test_a_server(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str, untouched: Callable[[], None]
) -> None:
    untouched()
    found = doctor(shell, files, "--to", clickhouse.uri(database), "--table", "t")
    untouched()
    assert tables(clickhouse, database) == []  # no journal either
    assert links(found) >= HERE | SERVER
    assert found["engine"]["working"] > 0
    ways = {one["delivery"]: one for one in found["deliveries"]}
    assert set(ways) == {"build", "push", "pull"}
    assert all(one["cpu_servers"] > 0 for one in ways.values())


@pytest.mark.long
def test_parts_for_a_server(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str
) -> None:
    """Its samples are built, and it takes them over."""
    to = ("--to", clickhouse.uri(database), "--table", "t", "--build", "on")
    doctor(shell, files, *to)
    assert tables(clickhouse, database) == []
    clickhouse.query("SYSTEM FLUSH LOGS")
    restored = (
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND query LIKE "
        f"'RESTORE TABLE rowfall.parts AS %{database}%' AND query NOT LIKE '%_probe FROM%'"
    )
    assert int(clickhouse.query(restored)) >= 1
    text = shell.ok("doctor", files, *to).out
    assert "Ways into the servers (estimated)" in text
    assert "build" in text.partition("Ways into the servers")[2]


@pytest.mark.long
def test_a_server_with_the_table(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str
) -> None:
    to = ("--to", clickhouse.uri(database), "--table", "t")
    shell.ok("load", "in/0.csv", *to, "--order-by", "name")
    before = tables(clickhouse, database)
    doctor(shell, files, *to)
    assert tables(clickhouse, database) == before
    assert shell.ok("load", files, *to, "--json").document["rows"] == ROWS - 1000


def test_a_user_without_rights_to_system_tables(
    shell: Shell, files: str, clickhouse: ClickHouse, database: str
) -> None:
    """What a load needs is asked for; without the rest it is measured all the same."""
    needed = ("parts", "merge_tree_settings", "processes")
    grants = (f"SELECT, INSERT, CREATE TABLE, DROP TABLE, ALTER, TRUNCATE ON {database}.*",)
    user = clickhouse.add_user(f"u_{database}", *grants)
    to = ("--to", clickhouse.uri(database, account=user), "--table", "t")
    assert "GRANT SELECT ON system.parts" in shell.ends(5, "doctor", files, *to).talk
    clickhouse.add_user(f"u_{database}", *grants, *(f"SELECT ON system.{t}" for t in needed))
    found = doctor(shell, files, *to)
    assert found["engine"] == {}
    assert any("counters" in note for note in found["notes"])
    assert tables(clickhouse, database) == []


@pytest.mark.xdist_group("postgresql")
def test_postgresql(
    shell: Shell, files: str, postgresql: PostgresqlServer, untouched: Callable[[], None]
) -> None:
    schema = f"doctor_{abs(hash(shell.folder)) % 10**9}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    shell.env["PGPASSWORD"] = postgresql.password
    untouched()
    found = doctor(shell, files, "--to", f"{postgresql.uri}?schema={schema}", "--table", "t")
    untouched()
    assert links(found) >= HERE | SERVER
    left = postgresql.ask(
        f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace"
    )
    assert left == []
    postgresql.run(f"DROP SCHEMA {schema}")


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_a_table_of_postgresql(shell: Shell, files: str, postgresql: PostgresqlServer) -> None:
    """The scratch has the keys of the table; its record is not that of the loads."""
    schema = f"doctor_{abs(hash(shell.folder)) % 10**9}"
    postgresql.run(
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.t (id BIGINT PRIMARY KEY, name TEXT, price DOUBLE PRECISION)",
    )
    shell.env["PGPASSWORD"] = postgresql.password
    to = ("--to", f"{postgresql.uri}?schema={schema}", "--table", "t")
    shell.ok("load", "in/0.csv", *to)
    record = f"SELECT split, load, rows FROM {schema}._rowfall_loaded ORDER BY 1"
    before = postgresql.ask(record)
    doctor(shell, files, *to)
    assert postgresql.ask(record) == before
    assert postgresql.ask(f"SELECT count(*) FROM {schema}.t") == [(1000,)]
    left = postgresql.ask(
        f"SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = "
        f"'{schema}'::regnamespace ORDER BY 1"
    )
    assert left == [("_rowfall_loaded",), ("t",)]
    postgresql.run(f"DROP SCHEMA {schema} CASCADE")


@pytest.mark.long
@pytest.mark.xdist_group("mysql")
def test_mariadb(shell: Shell, files: str, mariadb: MariaDB, untouched: Callable[[], None]) -> None:
    name = f"doctor_{abs(hash(shell.folder)) % 10**9}"
    mariadb.query(f"CREATE DATABASE {name}")
    untouched()
    found = doctor(shell, files, "--to", mariadb.uri(name), "--table", "t")
    untouched()
    assert links(found) >= HERE | SERVER
    assert not list(mariadb.query("SHOW TABLES", database=name))
    # A table that is there, with a key: the scratch is like it.
    mariadb.query("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, price DOUBLE)", database=name)
    doctor(shell, files, "--to", mariadb.uri(name), "--table", "t")
    assert mariadb.query("SHOW TABLES", database=name) == [("t",)]


@pytest.mark.long
@pytest.mark.xdist_group("kafka")
def test_kafka(shell: Shell, files: str, kafka: Kafka, untouched: Callable[[], None]) -> None:
    topic = kafka.create(partitions=2)
    before = {name for name in kafka.admin.list_topics(timeout=10).topics if name != topic}
    untouched()
    found = doctor(shell, files, "--to", f"kafka://{kafka.servers}/{topic}")
    untouched()
    assert links(found) >= HERE

    left = set(kafka.admin.list_topics(timeout=10).topics) - before
    # The brokers' own, which they make for the first consumer that there is.
    assert {name for name in left if not name.startswith("__")} == {topic}


@pytest.mark.long
@pytest.mark.parametrize("place", ["out/rows_{n}.parquet", "new.duckdb", "iceberg+lake/t", "null:"])
def test_files_of_other_kinds(
    shell: Shell, files: str, untouched: Callable[[], None], place: str
) -> None:
    untouched()
    table = ("--table", "t") if place.endswith("duckdb") else ()
    found = doctor(shell, files, "--to", place, *table)
    untouched()
    assert links(found) >= HERE


@pytest.mark.long
@pytest.mark.parametrize("place", ["s3://{b}/out/rows_{n}.parquet", "iceberg+s3://{b}/lake/t"])
def test_places_in_a_bucket(
    shell: Shell, files: str, s3: Seaweed, bucket: str, untouched: Callable[[], None], place: str
) -> None:
    shell.env |= {**s3.environment(), "AWS_ENDPOINT_URL": s3.endpoint}
    untouched()
    doctor(shell, files, "--to", place.replace("{b}", bucket))
    untouched()
    assert s3.list(bucket) == []


@pytest.mark.long
def test_sources_of_other_kinds(
    shell: Shell, s3: Seaweed, bucket: str, postgresql: PostgresqlServer
) -> None:
    shell.ok("load", f"generate://trips?rows={ROWS}", "--to", "made/{n}.csv.gz", "--files", "3")
    shell.env |= {**s3.environment(), "AWS_ENDPOINT_URL": s3.endpoint}
    for path in sorted((shell.folder / "made").glob("*.gz")):
        s3.put(bucket, path.name, path.read_bytes())
    found = doctor(shell, f"s3://{bucket}/*.csv.gz")
    assert "source: reading" in links(found)
    found = shell.ok("doctor", "generate://trips?rows=3000000", "--json").document
    assert "source: making rows" in links(found)
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(
        "DROP TABLE IF EXISTS doctor_source", "CREATE TABLE doctor_source AS SELECT i AS id, "
        f"'n' || i AS name FROM generate_series(1, {ROWS}) AS i",
        "ALTER TABLE doctor_source ADD PRIMARY KEY (id)", "ANALYZE doctor_source",
    )  # fmt: skip
    found = shell.ok("doctor", f"{postgresql.uri}/doctor_source", "--json").document
    assert "source: reading" in links(found)
    assert found["predicted_rows_per_second"] > 0
    postgresql.run("DROP TABLE doctor_source")


# --- what cannot be measured ----------------------------------------------------------------------


def test_bad_input(shell: Shell, files: str) -> None:
    done = shell.ends(4, "doctor", "missing/*.csv")
    assert "missing/*.csv" in done.talk
    shell.write("empty.csv", "")
    assert "are empty" in shell.ends(4, "doctor", "empty.csv").talk
    shell.write("names.csv", "id,name,price\n")
    assert "names.csv is empty" in shell.ends(4, "doctor", "names.csv").talk
    with Proxy(1) as nobody:
        nobody.refuse()
        port = nobody.port
        done = shell.ends(5, "doctor", files, "--to", f"clickhouse://u@127.0.0.1:{port}/default")
        assert str(port) in done.talk
    done = shell.ends(2, "doctor", "-", stdin="a,b\n1,2\n")
    assert "only once" in done.talk
    assert not list(shell.folder.rglob(f"*{PREFIX}*"))


@pytest.mark.parametrize("moment", ["measuring the source", "loading samples"])
def test_ctrl_c_leaves_nothing(
    shell: Shell, clickhouse: ClickHouse, database: str, untouched: Callable[[], None], moment: str
) -> None:
    """While a sample is loaded into the server, and before."""
    shell.ok("load", "generate://trips?rows=2000000", "--to", "in/{n}.csv", "--files", "2")
    untouched()
    process = shell.cli.start(
        "doctor", "in/*.csv", "--to", clickhouse.uri(database), "--table", "t", env=shell.env
    )
    said = ""
    while moment not in said:
        piece = process.stderr.readline()
        assert piece, said
        said += piece
    if moment == "loading samples":
        wait_until(lambda: bool(tables(clickhouse, database)), 20, "a scratch is there")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 130, said + rest
    assert tables(clickhouse, database) == []
    untouched()


# --- what a kill leaves ---------------------------------------------------------------------------


def killed(shell: Shell, *to: str, there: Callable[[], bool]) -> None:
    """Kill a doctor that has begun to load a sample, by a signal that nobody can answer."""
    process = shell.cli.start("doctor", "in/*.csv", *to, env=shell.env)
    wait_until(there, 30, "a scratch is there")
    process.kill()
    process.communicate(timeout=30)


def test_clean_removes_what_a_kill_leaves_on_a_server(
    shell: Shell, clickhouse: ClickHouse, database: str, untouched: Callable[[], None]
) -> None:
    """Also what another machine has left, when it is a day old; nothing of one that measures."""
    shell.ok("load", "generate://trips?rows=2000000", "--to", "in/{n}.csv", "--files", "2")
    to = ("--to", clickhouse.uri(database))
    shell.ok("clean", *to)  # which has a ledger
    untouched()

    def staged() -> bool:
        return any(row.startswith("_rowfall_") for row in tables(clickhouse, database))

    killed(shell, *to, "--table", "t", there=staged)
    made = {row.split("\t")[0] for row in tables(clickhouse, database)}
    assert any(name.startswith(PREFIX) for name in made)
    ids = {f"{int(time.time()) - 90_000:08x}abcd", f"{int(time.time()):08x}abcd", "0123abcd"}
    for number in ids:
        clickhouse.query(f"CREATE TABLE {database}.{PREFIX}{number} (a Int8) ENGINE = Null")
    mine = f"{PREFIX}of_my_own"
    clickhouse.query(f"CREATE TABLE {database}.{mine} (a Int8) ENGINE = Null")
    recent = f"{PREFIX}{max(ids)}"

    def left() -> set[str]:
        document = shell.ok("clean", *to, "--json", "--dry-run").document
        return {x["name"] for x in document["leftovers"] if x["database"] == database}

    wanted = made | {f"{PREFIX}{number}" for number in ids} - {recent}
    assert left() == wanted
    shell.ok("clean", *to, "--yes")
    found = {row.split("\t")[0] for row in tables(clickhouse, database)}
    assert found == {recent, mine}
    for name in found:
        clickhouse.query(f"DROP TABLE {database}.{name}")
    untouched()


def test_clean_leaves_a_doctor_alone_that_measures(
    shell: Shell, clickhouse: ClickHouse, database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    to = ("--to", clickhouse.uri(database))
    monkeypatch.setenv("ROWFALL_HOME", str(tmp_path / "home"))
    shell.env["ROWFALL_HOME"] = str(tmp_path / "home")
    record, name = ScratchRecord(tmp_path / "samples"), new_name(PREFIX)
    record.add(name, clickhouse.uri(database), {}, tmp_path / "none")
    for table in (name, f"_rowfall_{name.rpartition('_')[2]}_1"):
        clickhouse.query(f"CREATE TABLE {database}.{table} (a Int8) ENGINE = Null")
    shell.ok("clean", *to, "--yes")
    assert len(tables(clickhouse, database)) == 2
    record.close()  # it could not remove it, and says so
    shell.ok("clean", *to, "--yes")
    assert tables(clickhouse, database) == []
    assert not (tmp_path / "home/measuring").exists()


def test_clean_removes_what_a_kill_leaves_in_folders(shell: Shell, tmp_path: Path) -> None:
    """A folder beside the files, and that of the samples; the last one to clean up ends it."""
    (tmp_path / "samples").mkdir()
    shell.env |= {"TMPDIR": str(tmp_path / "samples"), "ROWFALL_HOME": str(tmp_path / "home")}
    shell.ok("load", "generate://trips?rows=2000000", "--to", "in/{n}.csv", "--files", "2")

    def hidden() -> bool:
        return bool(list(shell.folder.glob(f".{PREFIX}*")))

    killed(shell, "--to", "out/{n}.parquet", there=hidden)
    shell.ok("clean", "--to", "out/{n}.parquet", "--dry-run")
    assert hidden()
    shell.ok("clean", "--to", "out/{n}.parquet", "--yes")
    assert not hidden()
    shell.ends(2, "clean", "--to", "out/{n}.parquet")  # nothing is left, and it holds no tables
    assert not list((tmp_path / "samples").glob("rowfall_*"))
    assert not (tmp_path / "home/measuring").exists()


@pytest.mark.long
@pytest.mark.xdist_group("postgresql")
def test_clean_removes_what_a_kill_leaves_in_postgresql(
    shell: Shell, postgresql: PostgresqlServer
) -> None:
    """The table and its record, by what is written down on this machine."""
    schema = f"doctor_{abs(hash(shell.folder)) % 10**9}"
    postgresql.run(f"CREATE SCHEMA {schema}")
    shell.env["PGPASSWORD"] = postgresql.password
    shell.ok("load", "generate://trips?rows=2000000", "--to", "in/{n}.csv", "--files", "2")
    to = ("--to", f"{postgresql.uri}?schema={schema}")

    def made() -> list[Any]:
        return postgresql.ask(
            f"SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace"
        )

    killed(shell, *to, "--table", "t", there=lambda: bool(made()))
    assert len(shell.ok("clean", *to, "--json", "--dry-run").document["leftovers"]) == 1
    shell.ok("clean", *to, "--yes")
    assert made() == []
    assert shell.ok("clean", *to, "--json", "--dry-run").document["leftovers"] == []
    postgresql.run(f"DROP SCHEMA {schema}")


def test_the_text(shell: Shell, files: str) -> None:
    found = shell.ok("doctor", files, "--to", "null:")
    lines = found.out.splitlines()
    assert max(map(len, lines)) <= 80
    for heading in ("Links, each by itself", "Slowest", "Prediction"):
        assert heading in lines
    assert "nothing was left" in lines[-1]
