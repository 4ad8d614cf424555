"""Loading into a real ClickHouse server as a user does it: what lands, is shown, is left behind."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.lake import JOURNAL, RIGHTS, SYSTEM, Lake
from e2e.test_hint_commands import typed
from e2e.tools import Shell, csv, made
from lab.clickhouse import ClickHouse
from lab.http import Web
from lab.process import let_pass, wait_until
from lab.proxy import Proxy
from lab.seaweed import Seaweed

pytestmark = pytest.mark.xdist_group("server")
_numbers = itertools.count()
HEAD = ("id", "name")


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    with ClickHouse(keeper=True) as service:
        yield service


def rows(start: int, stop: int, *names: str) -> str:
    return csv([(i, f"n{i}") for i in range(start, stop)], *names)


def three_files(lake: Lake) -> None:
    """in/f1.csv .. in/f3.csv: file n holds the one row with id n."""
    for number in (1, 2, 3):
        lake.shell.write(f"in/f{number}.csv", rows(number, number + 1, *HEAD))


# --- sources --------------------------------------------------------------------------------------


def test_generated_rows_are_made_by_the_server(lake: Lake) -> None:
    done = lake.ok("load", "generate://trips?rows=1_000_000", "--verify")
    assert f"1,000,000 rows into {lake.database}.trips" in done.err
    assert f"note: creating {lake.database}.trips: 3 columns" in done.err
    assert "verified: 1,000,000 rows" in done.err
    assert f"rowfall query 'SELECT * FROM {lake.database}.trips LIMIT 5'" in done.talk
    assert lake.row("SELECT count(), uniqExact(vehicle_id) FROM {db}.trips") == [1_000_000, 10]
    again = lake.load("generate://trips?rows=1_000_000")
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, 1)
    assert lake.tables() == {"trips", JOURNAL}


def files_of(kind: str, lake: Lake) -> str:
    """10,000 rows as files of one kind; returns the source."""
    write, sql = lake.shell.write, "SELECT number AS id, concat('n', toString(number)) AS name"
    if kind == "many":
        for n in range(40):
            write(f"in/f{n:02}.csv", rows(n * 250, n * 250 + 250, *HEAD))
        return "in/*.csv"
    whole = rows(0, 10_000, *HEAD)
    content = {
        "csv": lambda: whole.encode(),
        "csv.gz": lambda: gzip.compress(whole.encode()),
        "ndjson": lambda: made(f"{sql} FROM numbers(10000)", "JSONEachRow"),
        "parquet": lambda: made(f"{sql} FROM numbers(10000)", "Parquet"),
    }[kind]()
    write(f"in.{kind}", content)
    return f"in.{kind}"


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "ndjson", "parquet", "many"])
@pytest.mark.sampled(1)
def test_local_files_are_pushed(lake: Lake, kind: str) -> None:
    source = files_of(kind, lake)
    report = lake.load(source, "--table", "t", "--verify", "--streams", "2")
    assert (report["outcome"], report["rows"]) == ("done", 10_000)
    assert lake.row("SELECT count(), sum(id), uniqExact(name) FROM {db}.t") == [
        10_000, 49_995_000, 10_000
    ]  # fmt: skip
    checked = lake.ok("verify", report["load_id"], "--json").document
    assert (checked["ok"], checked["source_rows"], checked["target_rows"]) == (True, 10_000, 10_000)


def test_a_small_load_imports_no_more_than_it_needs(lake: Lake) -> None:
    """These take 1 to 8 ms of CPU each, and such a load some 300."""
    lake.shell.write("in.csv", rows(0, 9, *HEAD))
    said = lake.ok("load", "in.csv", "--table", "t", env={"PYTHONPROFILEIMPORTTIME": "1"}, stdin="")
    imported = {line.rpartition("|")[2].strip() for line in said.err.splitlines()}
    assert "rowfall.systems.clickhouse.http" in imported
    costly = {
        "ctypes", "concurrent.futures", "logging", "urllib.request", "rich", "asyncio", "decimal",
        "difflib",
    }  # fmt: skip
    assert not imported & costly


def test_the_engine_here_reads_what_the_decoder_may_not(lake: Lake) -> None:
    source = files_of("csv", lake)
    assert lake.load(source, "--table", "t", "--decoder", "never")["rows"] == 10_000
    assert lake.load(source, "--table", "u", "--push", "--streams", "1")["rows"] == 10_000
    sums = "SELECT (SELECT sum(cityHash64(id, name)) FROM {{db}}.{}) FROM system.one"
    assert lake.row(sums.format("t")) == lake.row(sums.format("u"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("type_", ["String", "Nullable(Float64)"])
def test_a_server_refuses_short_rows_of_files_that_are_sent_as_they_are(
    lake: Lake, type_: str
) -> None:
    lake.shell.write("a.csv", "id,x\n" + "1,\n" * 30 + "2\n")
    given = ("--schema", f"id Int64, x {type_}", "--format", "CSVWithNames", "--decoder", "never")
    lake.ends(1, "load", "a.csv", "--table", "t", *given)
    assert lake.row("SELECT count() FROM {db}.t") == [0]


def test_more_memory_than_the_server_has_is_refused(lake: Lake) -> None:
    lake.shell.write("a.csv", rows(1, 5, *HEAD))
    refused = lake.ends(2, "load", "a.csv", "--memory", "100TB")
    assert "lets a load use" in refused.talk
    assert not lake.tables()


def test_stdin(lake: Lake) -> None:
    assert lake.load("-", "--table", "t", stdin=rows(1, 5, *HEAD))["rows"] == 4
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [4, 10]
    refused = lake.shell.ends(5, "load", "-", "--pull", "--to", lake.to, stdin="1,2\n")
    assert "only this process can read its stdin" in refused.talk


@pytest.mark.parametrize(
    "packer",
    ["gzip", *(pytest.param(p, marks=pytest.mark.long) for p in ("xz", "zstd", "lz4", "cat"))],
)
def test_a_long_statement_goes_in_front_of_packed_stdin(lake: Lake, packer: str) -> None:
    """It went as a parameter, which a server refuses: HTTP 400, "Field value too long"."""
    count = 200
    names = [f"a_column_with_a_long_name_{n}_{'x' * 200}" for n in range(count)]
    rows = [",".join(str(row * n) for n in range(count)) for row in range(3)]
    lake.shell.write("a.csv", "\n".join([",".join(names), *rows]) + "\n")
    pack = "cat" if packer == "cat" else f"{packer} -c"
    # What these two pack cannot be looked at before the engine unpacks it.
    named = " --format CSVWithNames" if packer in ("zstd", "lz4") else ""
    done = typed(lake.shell, f"{pack} a.csv | rowfall load - --to {lake.to} --table t{named}")
    assert done.code == 0, done.err
    total = " + ".join((names[0], names[1], names[-1]))
    assert lake.row(f"SELECT count(), sum({total}) FROM {{db}}.t") == [3, 3 * count]


def test_http_is_pulled(lake: Lake, web: Web) -> None:
    body = gzip.compress(rows(0, 1000, *HEAD).encode())
    urls = [web.put(f"{lake.database}/f{n}.csv.gz", body) for n in (1, 2)]
    plan = lake.ok("plan", *urls, "--table", "t", "--pull", "--json").document
    assert (plan["delivery"], plan["placement"], plan["streams"]) == ("pull", "server", 0)
    report = lake.load(*urls, "--table", "t", "--pull", "--verify")
    assert (report["rows"], report["splits_loaded"]) == (2000, 2)
    pushed = lake.load(*urls, "--table", "u", "--push")
    assert pushed["rows"] == 2000
    assert lake.row("SELECT count(), (SELECT count() FROM {db}.u) FROM {db}.t") == [2000, 2000]


def test_s3_is_pulled(lake: Lake, s3: Seaweed, bucket: str) -> None:
    for number in (1, 2, 3):
        s3.put(bucket, f"in/{number}.csv", rows(number, number + 1, *HEAD).encode())
    source = f"s3://{bucket}/in/*.csv"
    report = lake.load(source, "--table", "t", "--pull", "--verify", env=s3.env)
    assert (report["rows"], report["splits"]) == (3, 3)
    assert lake.row("SELECT sum(id) FROM {db}.t") == [6]
    plan = lake.ok("plan", source, "--table", "fresh", "--pull", env=s3.env).out
    assert s3.secret_key not in plan
    lake.do("SYSTEM FLUSH LOGS")
    assert lake.row(f"SELECT countIf(position(query, '{s3.secret_key[:12]}') > 0 AND "
                    "query NOT LIKE '%countIf%') FROM system.query_log") == [0]  # fmt: skip


@pytest.mark.long
def test_a_big_object_is_pushed_in_ranges(lake: Lake, s3: Seaweed, bucket: str) -> None:
    count = 2_000_000
    s3.put(bucket, "big.csv", b"".join(b"%09d,%010d\n" % (i, i) for i in range(1, count + 1)))
    source = (f"s3://{bucket}/big.csv", "--format", "CSV", "--schema", "id UInt32, n UInt64")
    lake.load(*source, "--table", "t", "--push", "--streams", "2", env=s3.env)
    assert lake.row("SELECT count(), sum(id), uniqExact(n) FROM {db}.t") == [
        count, count * (count + 1) // 2, count,
    ]  # fmt: skip
    lake.do("SYSTEM FLUSH LOGS")
    # What one of the two streams of its only object has brought.
    assert lake.row(
        "SELECT count(), min(written_rows) > 0 FROM system.query_log WHERE type = 'QueryFinish' "
        "AND query_kind = 'Insert' AND position(query, '{db}') > 0 AND query LIKE '%FORMAT Native%'"
    ) == [2, 1]  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("options", "delivery", "decoder"),
    [((), "push", "rowfall-decode"), (("--decoder", "never"), "pull", "engine"),
     (("--pull",), "pull", "engine"), (("--decoder", "always"), "push", "rowfall-decode")],
    ids=" ".join,
)  # fmt: skip
def test_a_server_of_this_machine_is_spared_parsing(
    lake: Lake, s3: Seaweed, bucket: str, options: tuple[str, ...], delivery: str, decoder: str
) -> None:
    for number in (1, 2, 3):
        s3.put(bucket, f"in/{number}.csv", rows(number, number + 1, *HEAD).encode())
    source = f"s3://{bucket}/in/*.csv"
    plan = lake.ok("plan", source, "--table", "t", *options, "--json", env=s3.env).document
    assert (plan["delivery"], plan["decoder"]) == (delivery, decoder)
    assert ("on this machine" in plan["why"]) == (not options)
    report = lake.load(source, "--table", "t", *options, "--verify", env=s3.env)
    assert (report["rows"], report["splits"]) == (3, 3)
    assert lake.row("SELECT sum(id) FROM {db}.t") == [6]


@pytest.mark.parametrize("decoder", ["always", pytest.param("never", marks=pytest.mark.long)])
def test_blocks_are_compressed_on_their_way(lake: Lake, decoder: str) -> None:
    """Those of the decoder in the server's own frames, those of the engine here as LZ4 of HTTP."""
    for n in range(2):
        lake.shell.write(f"in/f{n}.csv", rows(n * 40_000, n * 40_000 + 40_000, *HEAD))
    source, sent = "in/*.csv", {}
    with Proxy(lake.server.http_port) as cable:
        for way in ("none", "lz4"):
            to = lake.server.uri(lake.database, port=cable.port)
            args = (source, "--to", to, "--table", way, "--decoder", decoder, "--compress", way)
            planned = lake.shell.ok("plan", *args, "--json").document
            assert planned["compress"] == way
            assert planned["why_compress"] == f"as asked for with --compress {way}"
            before = cable.passed["up"]
            lake.shell.ok("load", *args)
            sent[way] = cable.passed["up"] - before
            assert lake.row(f"SELECT count(), sum(id), uniqExact(name) FROM {{db}}.{way}") == [
                80_000, 3_199_960_000, 80_000,
            ]  # fmt: skip
    assert sent["lz4"] < 0.7 * sent["none"]
    lake.ok("load", source, "--table", "lz4", "--compress", "lz4")  # nothing is left to do


@pytest.mark.long
def test_a_server_that_stays_away_ends_the_load_after_its_patience(lake: Lake) -> None:
    """And the same command loads the rest, and nothing twice."""
    for n in range(2):
        lake.shell.write(f"in/f{n}.csv", rows(n * 100_000, n * 100_000 + 100_000, *HEAD))
    with Proxy(lake.server.http_port) as cable:
        to = lake.server.uri(lake.database, port=cable.port)
        command = ("load", "in/*.csv", "--to", to, "--table", "t", "--patience", "1s")
        cable.throttle(1_000_000)

        def leave() -> None:
            wait_until(lambda: cable.passed["up"] > 500_000, 30, "rows on their way")
            cable.refuse()
            cable.cut()

        thread = threading.Thread(target=leave)
        thread.start()
        done = lake.shell.ends(5, *command)
        thread.join()
        assert "did not come back within 1.0 s" in done.talk
        assert "--patience 10m waits for longer" in done.talk
        cable.accept()
        cable.throttle(1_000_000_000)
        lake.shell.ok(*command)
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [200_000, 200_000]


def test_the_network_decides_about_compression(lake: Lake) -> None:
    """By an address that does not say that it is this machine's."""
    source = files_of("csv", lake)

    def planned(port: int, host: str) -> tuple[str, str]:
        to = lake.server.uri(lake.database, port=port).replace("127.0.0.1", host)
        made = lake.shell.ok("plan", source, "--to", to, "--table", "t", "--json").document
        return made["compress"], made["why_compress"]

    with Proxy(lake.server.http_port) as cable:
        assert planned(cable.port, "127.0.0.1") == ("none", "the server is on this machine")
        cable.throttle(1_000_000)
        compress, why = planned(cable.port, "127.1")
        assert compress == "lz4"
        rates = r"the network takes (\d+(?:\.\d+)?) ([kM])B/s, \d+ cores? makes? \d+ MB/s of blocks"
        took = re.fullmatch(rates, why)
        assert took, why
        # Where others have the cores it takes longer.
        assert float(took[1]) < 2 or took[2] == "k"


def test_what_is_not_sent_as_blocks_is_not_compressed(lake: Lake) -> None:
    source = files_of("csv", lake)
    planned = lake.ok("plan", source, "--table", "t", "--decoder", "never", "--json").document
    assert (planned["compress"], planned["why_compress"]) == ("", "")
    done = lake.ends(2, "load", source, "--table", "t", "--decoder", "never", "--compress", "lz4")
    assert "no blocks to compress: files go as they are" in done.talk
    lake.ends(2, "load", "generate://trips?rows=9", "--table", "t", "--compress", "lz4")
    lake.ends(2, "load", source, "--table", "t", "--compress", "zip")


# --- tables ---------------------------------------------------------------------------------------


def test_an_existing_table_keeps_its_columns(lake: Lake) -> None:
    lake.do("CREATE TABLE {db}.t (name Nullable(String), at DateTime DEFAULT 7, id Int64) "
            "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    lake.shell.write("named.csv", "id,name\n1,x\n2,\n")
    lake.ok("load", "named.csv", "--table", "t", "--verify")
    lake.shell.write("other.csv", "name,id\ny,3\n")
    lake.ok("load", "other.csv", "--table", "t", "--verify")
    assert lake.rows("SELECT id, name, toUInt32(at) FROM {db}.t ORDER BY id") == [
        [1, "x", 7], [2, None, 7], [3, "y", 7],
    ]  # fmt: skip
    plan = lake.ok("plan", "named.csv", "--table", "t").out
    assert "exists and keeps its definition" in plan


# The engine, and what a SELECT ... FINAL shows of ids 0-9, each there 10 times.
ENGINES = {
    "MergeTree PARTITION BY id % 3 ORDER BY id": (100, 100),
    "ReplacingMergeTree ORDER BY id": (100, 10),
    "SummingMergeTree ORDER BY id": (100, 10),
    "AggregatingMergeTree ORDER BY id": (100, 10),
    "CollapsingMergeTree(sign) ORDER BY id": (100, 10),
    "ReplicatedMergeTree('/e2e/{db}/t', '{{replica}}') ORDER BY id": (100, 100),
    "ReplicatedReplacingMergeTree('/e2e/{db}/t', '{{replica}}') ORDER BY id": (100, 10),
    "Log": (100, 100),
    "Memory": (100, 100),
    "Null": (100, 0),
}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: str(re.split(r"\W", e)[0]))
@pytest.mark.sampled(1)
def test_table_engines(lake: Lake, engine: str) -> None:
    lake.do(f"CREATE TABLE {{db}}.t (id UInt32, amount UInt32, sign Int8) ENGINE = {engine}")
    for number in range(10):
        lake.shell.write(f"in/f{number}.csv", csv([(i, 1, 1) for i in range(10)],
                                                  "id", "amount", "sign"))  # fmt: skip
    report = lake.load("in/*.csv", "--table", "t")
    told, left = ENGINES[engine]
    assert (report["rows"], report["splits_loaded"]) == (told, 10)
    if "MergeTree" in engine and "Merge" in engine[:25]:
        final = " FINAL" if left == 10 else ""
        assert lake.row(f"SELECT count() FROM {{db}}.t{final}") == [left]
    else:
        assert lake.row("SELECT count() FROM {db}.t") == [left]
    if "Summing" in engine:
        assert lake.row("SELECT sum(amount) FROM {db}.t") == [100]
    assert lake.staging() == set()
    again = lake.load("in/*.csv", "--table", "t")
    assert (again["rows"], again["splits_skipped"]) == (0, 10)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["MergeTree ORDER BY tuple()", "Null"], ids=["table", "null"])
def test_views_get_every_row_once(lake: Lake, engine: str) -> None:
    lake.do(
        "CREATE TABLE {db}.t (id UInt32, name String) ENGINE = " + engine,
        "CREATE TABLE {db}.sums (k UInt8, n UInt64, s UInt64) ENGINE = SummingMergeTree ORDER BY k",
        "CREATE TABLE {db}.copy (id UInt32) ENGINE = MergeTree ORDER BY id",
        "CREATE MATERIALIZED VIEW {db}.v1 TO {db}.sums AS "
        "SELECT id % 10 AS k, count() AS n, sum(id) AS s FROM {db}.t GROUP BY k",
        "CREATE MATERIALIZED VIEW {db}.v2 TO {db}.copy AS SELECT id FROM {db}.t WHERE id < 500",
    )
    lake.shell.write("a.csv", rows(0, 600, *HEAD))
    lake.shell.write("b.csv", rows(600, 1000, *HEAD))
    plan = lake.ok("plan", "?.csv", "--table", "t", "--json").document
    assert sorted(plan["views"]) == [f"{lake.database}.v1", f"{lake.database}.v2"]
    assert lake.load("?.csv", "--table", "t")["rows"] == 1000
    assert lake.row("SELECT sum(n), sum(s), uniqExact(k) FROM {db}.sums") == [1000, 499_500, 10]
    assert lake.row("SELECT count(), uniqExact(id), max(id) FROM {db}.copy") == [500, 500, 499]
    assert lake.row("SELECT count() FROM {db}.t") == [1000 if "Merge" in engine else 0]
    assert lake.staging() == set()


def test_nulls_are_verified(lake: Lake) -> None:
    lake.shell.write("a.csv", "id,maybe\n1,5\n2,\n3,\n")
    lake.ok("load", "a.csv", "--table", "t", "--schema", "id UInt8, maybe Nullable(Int32)",
            "--verify")  # fmt: skip
    assert lake.ok("verify", "last", "--json").document["ok"]
    lake.do("ALTER TABLE {db}.t UPDATE maybe = NULL WHERE id = 1 SETTINGS mutations_sync = 2")
    differ = lake.ends(7, "verify", "last")
    assert "different" in differ.out


# --- what becomes visible when --------------------------------------------------------------------


def test_replace_keeps_readers_whole(lake: Lake) -> None:
    lake.ok("load", "generate://trips?rows=500_000", "--table", "t")
    counts: set[int] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            counts.add(lake.row("SELECT count() FROM {db}.t")[0])

    reader = threading.Thread(target=read)
    reader.start()
    try:
        lake.ok("load", "generate://trips?rows=2_000_000", "--table", "t", "--replace",
                "--attempt-bytes", "1MB")  # fmt: skip
    finally:
        stop.set()
        reader.join()
    assert counts <= {500_000, 2_000_000}
    assert lake.row("SELECT count() FROM {db}.t") == [2_000_000]
    assert lake.staging() == set()


def test_atomic_shows_all_or_nothing(lake: Lake, tmp_path: Path) -> None:
    three_files(lake)
    lake.shell.write("in/f2.csv", "id,name\nx,y\n")
    command = ("load", "in/*.csv", "--table", "t", "--schema", "id UInt8, name String")
    failed = lake.ends(1, *command, "--atomic")
    assert f"nothing is visible in {lake.database}.t: some files failed" in failed.talk
    assert lake.row("SELECT count() FROM {db}.t") == [0]
    # Half a load in each way is not a load.
    other = lake.ends(2, *command)
    assert "was run with other options: --atomic was given, now it is not" in other.talk
    assert "rowfall forget" in other.talk
    lake.shell.write("in/f2.csv", rows(2, 3, *HEAD))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    resumed = lake.shell.cli("resume", "--to", lake.to, "--json", cwd=elsewhere)
    assert resumed.returncode == 0, resumed.stderr
    report = json.loads(resumed.stdout)
    assert (report["splits_loaded"], report["splits_skipped"]) == (1, 2)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [3, 6]
    assert lake.tables() == {"t", JOURNAL}
    (known,) = lake.ok("status", "--json").document["loads"]
    assert (known["load_id"], known["outcome"]) == (report["load_id"], "done")


def states_while(lake: Lake, *load: str) -> tuple[set[tuple[tuple[int, int], ...]], str]:
    """What a reader sees of (partition, rows) in ``t`` during a load, and what its report says."""
    seen: set[tuple[tuple[int, int], ...]] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            rows = lake.rows("SELECT p, count() FROM {db}.t GROUP BY p ORDER BY p")
            seen.add(tuple((p, count) for p, count in rows))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        report = lake.load(*load)
    finally:
        done.set()
        reader.join()
    return seen, str(report["visibility"])


REPLICATED = "ReplicatedMergeTree('/tables/{db}', 'r')"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("engine", "partition_by", "options"),
    [
        (REPLICATED, "p", ()),
        (REPLICATED, "tuple()", ("--atomic",)),
        pytest.param(REPLICATED, "tuple()", (), marks=pytest.mark.long),
        pytest.param("MergeTree", "p", (), marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_readers_see_what_the_plan_says(
    lake: Lake, engine: str, partition_by: str, options: tuple[str, ...]
) -> None:
    lake.do(f"CREATE TABLE {{db}}.t (id UInt64, p UInt8) ENGINE = {engine} ORDER BY id "
            f"PARTITION BY {partition_by}")  # fmt: skip
    partitions, each = 50, 20
    lake.shell.write("a.csv", csv([(i, i % partitions) for i in range(partitions * each)],
                                  "id", "p"))  # fmt: skip
    planned = lake.ok("plan", "a.csv", "--table", "t", *options, "--json").document
    seen, said = states_while(lake, "a.csv", "--table", "t", *options)
    assert said == planned["visibility"]
    everything = tuple((p, each) for p in range(partitions))
    if "partition by partition" in said:
        assert (engine, partition_by) == (REPLICATED, "p")
        assert {count for state in seen for _, count in state} <= {each}
    else:
        assert "in one moment" in said
        assert seen <= {(), everything}
    assert lake.rows("SELECT p, count() FROM {db}.t GROUP BY p ORDER BY p") == [
        list(one) for one in everything
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("exists", [True, pytest.param(False, marks=pytest.mark.long)])
def test_atomic_is_refused_where_keeper_commits_partitions(lake: Lake, exists: bool) -> None:
    three_files(lake)
    table = f"ENGINE = {REPLICATED} ORDER BY id PARTITION BY id"
    options: tuple[str, ...] = (
        "--engine", REPLICATED.format(db=lake.database), "--order-by", "id", "--partition-by", "id",
        "--schema", "id UInt8, name String",
    )  # fmt: skip
    if exists:
        lake.do(f"CREATE TABLE {{db}}.t (id UInt8, name String) {table}")
        options = ()
    for command in ("plan", "load"):
        refused = lake.ends(2, command, "in/*.csv", "--table", "t", "--atomic", *options)
        assert "Keeper commits one partition after the other" in refused.talk
        assert "Leave out --atomic" in refused.talk.partition("hint: ")[2]
    assert lake.tables() == ({"t"} if exists else set())
    lake.ok("load", "in/*.csv", "--table", "t", *options)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [3, 6]


def test_rows_of_a_generator_are_pushed(lake: Lake) -> None:
    """rowfall-decode makes them here, the server there: the same."""
    rows = "generate://random?rows=30_000&bytes=70"
    lake.ok("load", rows, "--table", "pushed", "--push")
    lake.ok("load", rows, "--table", "pulled")
    look = "SELECT count(), sum(cityHash64(document_id, payload)) FROM {db}."
    assert lake.row(f"{look}pushed") == lake.row(f"{look}pulled")


@pytest.mark.long
def test_wait_for_merges(lake: Lake) -> None:
    for number in range(6):
        lake.shell.write(f"f{number}.csv", rows(number, number + 1, *HEAD))
        lake.ok("load", f"f{number}.csv", "--table", "t", "-q")
    last = lake.load("generate://random?rows=10", "--table", "r", "--wait", "merges=3")
    assert last["parts_active"] < 3
    lake.do("SYSTEM STOP MERGES {db}.t")
    lake.shell.write("last.csv", rows(6, 7, *HEAD))
    wrong = lake.ends(2, "load", "last.csv", "--table", "t", "--wait", "parts=2")
    assert "--wait merges=3000" in wrong.talk

    def merge() -> None:
        wait_until(lambda: lake.row("SELECT count() FROM {db}.t") == [7], 60, "the last row")
        let_pass(1, "the load waits for merges by then")
        lake.do("SYSTEM START MERGES {db}.t", "OPTIMIZE TABLE {db}.t FINAL")

    merging = threading.Thread(target=merge)
    merging.start()
    report = lake.load("last.csv", "--table", "t", "--wait", "merges=2")
    merging.join()
    assert report["parts_active"] == 1
    assert report["merges"] is None
    assert report["merge_seconds"] > 0.5
    assert lake.row("SELECT count() FROM {db}.t") == [7]


def test_direct(lake: Lake) -> None:
    three_files(lake)
    plan = lake.ok("plan", "in/*.csv", "--table", "t", "--direct", "--json").document
    assert "lose or repeat" in plan["promise"]
    assert lake.load("in/*.csv", "--table", "t", "--direct")["rows"] == 3
    assert lake.load("in/*.csv", "--table", "t", "--direct")["splits_skipped"] == 3
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [3, 6]


# --- afterwards -----------------------------------------------------------------------------------


@pytest.mark.long
def test_forget_then_load_again(lake: Lake) -> None:
    three_files(lake)
    lake.ok("load", "in/*.csv", "--table", "t")
    nothing = lake.shell.ends(2, "resume", "--to", lake.to)
    assert "no load is unfinished" in nothing.talk
    asked = lake.shell.ends(2, "forget", "last", "--to", lake.to)
    assert "3 rows that are in" in asked.talk
    forgotten = lake.ok("forget", "--yes", "last")
    assert "3 files will be loaded again; no row was deleted" in forgotten.talk
    assert lake.row("SELECT count() FROM {db}.t") == [3]
    assert lake.load("in/*.csv", "--table", "t")["splits_loaded"] == 3
    assert lake.row("SELECT count() FROM {db}.t") == [6]
    assert lake.load("in/*.csv", "--table", "t")["splits_skipped"] == 3


def test_another_machine_skips_what_is_loaded(lake: Lake) -> None:
    three_files(lake)
    lake.ok("load", "in/*.csv", "--table", "t")
    lake.shell.env["XDG_STATE_HOME"] = str(lake.shell.folder / "another")
    assert lake.ok("status").out == "no loads yet\n"
    again = lake.load("in/*.csv", "--table", "t")
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, 3)


def test_clean_shows_and_drops_what_a_killed_load_left(lake: Lake) -> None:
    process = lake.shell.cli.start("load", "generate://taxi?rows=40_000_000", "--to", lake.to)
    wait_until(lambda: bool(lake.staging()), 60, "a staging table")
    process.kill()
    process.wait()
    (left,) = lake.staging()
    shown = lake.ok("clean")
    assert f"{lake.database}.{left}" in shown.out
    assert "nothing was dropped: run it again with --yes" in shown.talk
    document = lake.ok("clean", "--dry-run", "--json").document
    assert [x["name"] for x in document["leftovers"]] == [left, "taxi"]
    assert not document["dropped"]
    assert lake.staging() == {left}
    assert "2 dropped" in lake.ok("clean", "--yes").talk
    assert lake.tables() == {JOURNAL}
    assert "nothing to clean" in lake.ok("clean").talk
    (known,) = lake.ok("status", "--json").document["loads"]
    assert known["outcome"] == "lost"
    assert "its process is gone" in lake.ok("report", "last").out


@pytest.mark.long
def test_an_empty_table_that_a_failed_load_has_made_goes_away(lake: Lake) -> None:
    lake.shell.write("bad.csv", rows(0, 3, *HEAD) + "x,y\n")
    wrong = ("load", "bad.csv", "--table", "t", "--schema", "id UInt64, name String")
    lake.ends(1, *wrong)
    assert lake.tables() == {"t", JOURNAL}
    lake.ok("clean", "--yes")
    assert lake.tables() == {JOURNAL}
    lake.ends(1, *wrong)
    lake.do("INSERT INTO {db}.t VALUES (7, 'of somebody else')")
    assert "nothing to clean" in lake.ok("clean", "--yes").talk
    assert lake.row("SELECT count() FROM {db}.t") == [1]


@pytest.mark.long
def test_clean_of_a_folder(shell: Shell) -> None:
    process = shell.cli.start("load", "generate://taxi?rows=40_000_000")
    folder = shell.folder / "rowfall-data"
    wait_until(lambda: any(folder.glob("store/*/*/_rowfall_*.sql")), 60, "a table to load into")
    process.kill()
    process.wait()
    shown = shell.ok("clean", "--json").document
    assert [x["committed"] for x in shown["leftovers"]] == [False, False]
    assert shown["leftovers"][1]["name"] == "taxi"
    assert "2 dropped" in shell.ok("clean", "-y").talk
    assert "nothing to clean" in shell.ok("clean").talk


def test_reports(lake: Lake) -> None:
    three_files(lake)
    report = lake.load("in/*.csv", "--table", "t")
    password = lake.server.password
    to = lake.to.replace(f":{password}@", "@")
    assert (report["target"], report["table"]) == (to, f"{lake.database}.t")
    assert report["engine_version"].startswith("24.")
    # What was printed works when it is pasted, with the password where it belongs.
    text = lake.ok("report", "last").out
    assert f"--to '{to}'" in text or f"--to {to}" in text
    lake.shell.env["ROWFALL_PASSWORD"] = password
    assert lake.shell.row("SELECT count() FROM t", "--to", to) == [3]
    assert lake.shell.ok("report", report["load_id"][:5], "--to", to, "--json").document == report
    assert report["load_id"][:8] in lake.shell.ok("status", "--to", to).out
    assert report["load_id"][:8] in lake.shell.ok("status", "--all").out
    quiet = lake.ok("load", "in/*.csv", "--table", "u", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")


@pytest.mark.long
def test_costs_are_the_servers(lake: Lake) -> None:
    """From its query_log; without the right to read that, nothing is said instead of zero."""
    report = lake.load("generate://taxi?rows=300_000")
    assert report["cpu_seconds"] > 0.2
    assert report["cpu_seconds_here"] == 0
    assert report["peak_memory"] > 10_000_000
    account = lake.server.add_user(
        f"{lake.database}_blind", f"{RIGHTS} ON {lake.database}.*", *SYSTEM
    )
    done = lake.ok("load", "generate://taxi?rows=300_001", "--table", "t", "-v", account=account)
    assert "CPU second" not in done.err
    assert "may not read the server's query_log" in done.talk or "Start-up" in done.talk
    lake.shell.write("a.csv", rows(0, 400_000, *HEAD))
    pushed = lake.load("a.csv", "--table", "u", "--decoder", "never")
    assert pushed["cpu_seconds"] > 0
    assert pushed["bytes_source"] == (lake.shell.folder / "a.csv").stat().st_size


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [
        *(pytest.param(how, marks=pytest.mark.long) for how in ("push as it is", "push read here")),
        "pull",
        "push decoded",
    ],
)
def test_progress(lake: Lake, web: Web, how: str) -> None:
    """Rows and bytes of the source grow before anything is published."""
    body = rows(0, 1_000_000, *HEAD).encode()
    source = str(lake.shell.write("in.csv", body))
    # A block counts when it has gone: ten of them.
    small = ["--set", "min_insert_block_size_rows=100000"]
    options = small if "decoded" in how else ["--decoder", "never"]
    service = lake.server.http_port
    if how == "pull":
        web.put(f"{lake.database}/in.csv", body)
        service = int(web.endpoint.rpartition(":")[2])
    elif how == "push read here":  # a type that only the engine here reads safely
        source = str(lake.shell.write("in.csv.bz2", bz2.compress(body)))
        body = Path(source).read_bytes()
    with Proxy(service) as network:
        network.throttle(10_000_000)
        to = lake.to
        if how == "pull":
            source = f"http://127.0.0.1:{network.port}/{lake.database}/in.csv"
        else:
            to = lake.server.uri(lake.database, port=network.port)
        seen = progress(lake, to, source, *options)
    assert any(size and count < 1_000_000 for size, count in seen), seen
    if how != "push read here":  # reads ahead of what it sends
        assert any(0 < size < len(body) for size, _ in seen), seen
    if how == "push decoded":  # not what has been read, but what of it the server has
        assert all(size <= len(body) * (count + 100_000) / 1e6 for size, count in seen), seen
    assert seen[-1] == (len(body), 1_000_000)


def progress(lake: Lake, to: str, source: str, *options: str) -> list[tuple[int, int]]:
    """(bytes, rows) that a load tells, as the library's events have it."""
    script = (
        "import sys, rowfall\nfrom rowfall.core.events import Progressed\n"
        "def hear(e):\n"
        "    if isinstance(e, Progressed): print(e.bytes, e.rows)\n"
        "from rowfall.cli.load import load\n"
        "from rowfall.cli.output import CommandOutput\n"
        "CommandOutput.listener = lambda self, busy=None, ask=False: Heard()\n"
        "class Heard:\n"
        "    def __enter__(self): return hear\n"
        "    def __exit__(self, *_): pass\n"
        "load.main(sys.argv[1:], obj=CommandOutput(), standalone_mode=False)\n"
    )
    path = lake.shell.write("progress.py", script)
    done = lake.shell.script(path, source, "--to", to, "--table", f"p{next(_numbers)}",
                             "--quiet", *options)  # fmt: skip
    return [(int(a), int(b)) for a, b in (x.split() for x in done.splitlines())]


# --- before ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_plan_touches_nothing(lake: Lake) -> None:
    three_files(lake)
    text = lake.ok("plan", "in/*.csv", "--table", "t", "-v").out
    for piece in ("server, ClickHouse 24.", "push: this machine reads", "CREATE TABLE", "because"):
        assert piece in text
    lake.ok("plan", "generate://trips?rows=10", "--atomic", "--wait", "merges=3")
    lines = lake.ok("plan", "generate://trips?rows=10", "--replace", "--force").out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lake.tables() == set()
    assert not (lake.shell.cli.home / "state").exists()
    lake.ok("load", "in/f1.csv", "--table", "t")
    assert lake.ok("plan", "in/*.csv", "--table", "t", "--json").document["loaded"] == 1
    assert lake.tables() == {"t", JOURNAL}


def test_options_that_are_about_servers(lake: Lake) -> None:
    three_files(lake)
    for option in (["--push"], ["--pull"], ["--streams", "2"]):
        done = lake.shell.ends(2, "load", "in/*.csv", *option)
        assert f"{option[0]} needs a server" in done.talk
    both = lake.ends(2, "load", "in/*.csv", "--pull", "--push")
    assert "--pull and --push exclude each other" in both.talk
    alone = lake.ends(5, "load", "in/*.csv", "--pull")
    assert "the server cannot pull" in alone.talk
    assert "hint:" in alone.err
    assert lake.tables() == set()


def test_a_password_that_is_asked_for(lake: Lake) -> None:
    to = f"clickhouse://{lake.server.user}@127.0.0.1:{lake.server.http_port}/{lake.database}"
    command = ("query", "SELECT 40 + 2", "--to", to, "--ask-password", "--format", "TSV")
    shown = lake.shell.typed(f"{lake.server.password}\n", *command)
    assert "42" in shown
    assert "Password:" in shown
    assert lake.server.password not in shown
    env = {"CLICKHOUSE_PASSWORD": lake.server.password}
    assert lake.shell.ok(*command[:4], "--format", "TSV", env=env).out == "42\n"


def test_no_process_shows_the_password(lake: Lake) -> None:
    # A password of its own: other tests type theirs.
    grants = [f"{RIGHTS} ON {lake.database}.*", *SYSTEM]
    user = lake.server.add_user(f"{lake.database}_user", *grants)
    to = f"clickhouse://{user.user}@127.0.0.1:{lake.server.http_port}/{lake.database}"
    lake.shell.write("a.csv", rows(0, 500_000, *HEAD))
    process = lake.shell.cli.start("load", "a.csv", "--to", to, "--table", "t",
                                   env={"ROWFALL_PASSWORD": user.password})  # fmt: skip
    found: set[str] = set()
    while process.poll() is None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = path.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if user.password in text:
                found.add(text.replace("\0", " "))
        let_pass(0.01, "a look takes as long: the load has the other half of a processor")
    assert process.returncode == 0, process.stderr and process.stderr.read()
    assert found == set()


def test_the_plan_says_what_the_disks_of_the_server_have(lake: Lake) -> None:
    found = lake.ok("plan", "generate://trips?rows=1e5", "--table", "t", "--json")
    forecast = found.document["forecast"]
    assert forecast["disk"] < 1e7 < forecast["disk_free"]
