"""Parts that are built here and taken over by real servers: the same rows as if they were sent."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.fleet import Fleet
from e2e.lake import RIGHTS, SYSTEM, Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.disk import SmallDisk
from lab.faulty import Fault, Faulty, Request, exception
from lab.process import wait_until
from lab.seaweed import Seaweed
from rowfall.decoder import installed
from rowfall.deliver.server_build import FOLDER

pytestmark = pytest.mark.xdist_group("server")
long = pytest.mark.long
HASH = "SELECT count(), sum(cityHash64(toString(tuple(*)))) FROM {db}."
CHECKED = "CHECK TABLE {db}.%s SETTINGS check_query_single_value_result = 1"


@pytest.fixture(scope="module")
def server() -> Iterator[ClickHouse]:
    assert installed.program(), "make test builds it: make decoder"
    with ClickHouse(keeper=True) as service:
        yield service


def write(shell: Shell, files: int = 2, rows: int = 5_000) -> str:
    """``in/f0.csv.gz`` and so on; returns the source."""
    for number in range(files):
        lines = ["id,kind,day,price,maybe"]
        lines += [
            f"{i * 7919 % 1_000_003},k{i % 11},2024-{i % 12 + 1:02}-0{i % 9 + 1},{i % 997}.25,"
            f"{'' if i % 3 else i}"
            for i in range(number * rows, number * rows + rows)
        ]
        path = shell.folder / "in" / f"f{number}.csv.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress("\n".join([*lines, ""]).encode(), 1, mtime=0))
    return "in/*.csv.gz"


def same(lake: Lake, one: str, other: str) -> None:
    """Assert that two tables hold the same rows, and that no part is broken."""
    assert lake.row(HASH + one) == lake.row(HASH + other)
    assert lake.row(CHECKED % one) == [1]


def taken_over(lake: Lake) -> int:
    """Return the number of attempts that the server has restored."""
    lake.do("SYSTEM FLUSH LOGS")
    ((found,),) = lake.rows(
        "SELECT count() FROM system.query_log WHERE type = 'QueryFinish' AND "
        "query LIKE 'RESTORE TABLE rowfall.parts AS {db}.%' AND query NOT LIKE '%_probe FROM%'"
    )
    return int(found)


KEYS = {
    "columns": ("--order-by", "(kind, id)"),
    "expressions": ("--order-by", "(toStartOfMonth(day), cityHash64(kind))"),
    "partitions": ("--order-by", "id", "--partition-by", "toYYYYMM(day)"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", KEYS)
def test_parts_hold_the_rows_that_would_be_sent(lake: Lake, key: str) -> None:
    source = write(lake.shell)
    planned = lake.ok("plan", source, "--table", "t", "--build", "on", "--json", *KEYS[key])
    assert (planned.document["delivery"], planned.document["why_unbuilt"]) == ("build", "")
    small = ("--set", "min_insert_block_size_rows=1000")
    report = lake.load(source, "--table", "t", "--build", "on", "--verify", *small, *KEYS[key])
    assert (report["rows"], report["notes"]) == (10_000, [])
    lake.load(source, "--table", "sent", "--build", "off", *KEYS[key])
    same(lake, "t", "sent")
    assert taken_over(lake) == 1
    # Blocks of 2,000 rows, sorted one by one, and nothing is left to merge.
    parts = "SELECT count(), max(rows) FROM system.parts WHERE active AND database = '{db}' "
    parts += "AND table = 't'"
    assert lake.row(parts) == ([12, 834] if key == "partitions" else [1, 10_000])
    assert lake.staging() == set()
    again = lake.load(source, "--table", "t", "--build", "on", *KEYS[key])
    assert (again["rows"], again["splits_skipped"]) == (0, 2)


TYPES = (
    "id UInt32, b Bool, e Enum8('a' = 1, 'b' = 2), d Date, d32 Date32, t DateTime, "
    "t3 DateTime64(3, 'UTC'), x Decimal(18, 4), f Float32, g Float64, u UUID, i4 IPv4, i6 IPv6, "
    "s String, fs FixedString(5), l LowCardinality(String), ln LowCardinality(Nullable(String)), "
    "n Nullable(Int64), ns Nullable(String), a Array(Nullable(Int32)), p Tuple(x Int8, y String), "
    "m Map(String, UInt64), i128 Int128, u256 UInt256, al Array(LowCardinality(String)), "
    "z String CODEC(ZSTD(3)), dd DateTime CODEC(Delta, LZ4)"
)
VALUES = """SELECT number AS id, number % 2 AS b, if(number % 3, 'a', 'b') AS e,
toDate(number % 300) AS d, toDate32(number) AS d32, toDateTime(number * 99991) AS t,
toDateTime64(number * 1.125, 3, 'UTC') AS t3, number / 16 AS x, number / 8 AS f, number / 16 AS g,
toUUID(concat('00000000-0000-4000-8000-', leftPad(toString(number), 12, '0'))) AS u,
toIPv4(toUInt32(number)) AS i4, toIPv6(concat('::', hex(number))) AS i6, toString(number) AS s,
leftPad(toString(number), 5, 'x') AS fs, toString(number % 7) AS l,
if(number % 5, toString(number % 7), NULL) AS ln, if(number % 4, number, NULL) AS n,
if(number % 4, toString(number), NULL) AS ns, [number % 9, NULL] AS a, (number % 100, 'y') AS p,
map('k', number, toString(number % 3), 1) AS m, number * number AS i128, number AS u256,
['a', toString(number % 2)] AS al, repeat('z', number % 9) AS z, toDateTime(number) AS dd
FROM numbers(4000)"""


@long
def test_every_kind_of_value(lake: Lake) -> None:
    lake.do(
        f"CREATE TABLE {{db}}.sent ({TYPES}) ENGINE = MergeTree ORDER BY id "
        "PARTITION BY toYYYYMM(d)",
        "CREATE TABLE {db}.t AS {db}.sent", f"INSERT INTO {{db}}.sent {VALUES}",
    )  # fmt: skip
    text = lake.server.query(f"SELECT * FROM {lake.database}.sent FORMAT JSONEachRow")
    lake.shell.write("all.ndjson", text)
    assert lake.load("all.ndjson", "--table", "t", "--build", "on", "--verify")["notes"] == []
    same(lake, "t", "sent")
    assert taken_over(lake) == 1


@long
def test_the_server_adds_what_the_builder_cannot_make(lake: Lake) -> None:
    """Defaults, computed columns, indices, projections and times to live; and it feeds views."""
    lake.do(
        "CREATE TABLE {db}.t (id UInt32, kind LowCardinality(String), day Date, price Float64, "
        "maybe Nullable(UInt32), twice Float64 MATERIALIZED price * 2, "
        "note String DEFAULT concat('of ', kind), other UInt32 ALIAS id + 1, "
        "INDEX days day TYPE minmax GRANULARITY 1, "
        "PROJECTION kinds (SELECT kind, count() GROUP BY kind), "
        "CONSTRAINT few CHECK price < 1000) ENGINE = MergeTree PARTITION BY kind ORDER BY id "
        "TTL day + INTERVAL 50 YEAR",
        "CREATE TABLE {db}.sent AS {db}.t",
        "CREATE TABLE {db}.sums (kind String, n UInt64) ENGINE = SummingMergeTree ORDER BY kind",
        "CREATE MATERIALIZED VIEW {db}.mv TO {db}.sums AS SELECT kind, count() AS n FROM {db}.t "
        "GROUP BY kind",
    )
    source = write(lake.shell)
    assert lake.load(source, "--table", "t", "--build", "on")["notes"] == []
    lake.load(source, "--table", "sent", "--build", "off")
    assert taken_over(lake) == 1
    same(lake, "t", "sent")
    sums = "SELECT sum(twice), sum(cityHash64(note)), sum(other) FROM {db}."
    assert lake.row(f"{sums}t") == lake.row(f"{sums}sent")
    assert lake.row("SELECT sum(n) FROM {db}.sums") == [10_000]
    parts = (
        "SELECT min(secondary_indices_compressed_bytes > 0), min(length(projections)), "
        "min(delete_ttl_info_min > now()) FROM system.parts WHERE active AND database = '{db}' "
        "AND table = 't'"
    )
    assert lake.row(parts) == [1, 1, 1]


@long
def test_rows_of_versions_are_in_the_order_that_merges_ask_for(lake: Lake) -> None:
    """VersionedCollapsingMergeTree sorts by the version, too, and takes it for granted."""
    lake.do(
        "CREATE TABLE {db}.t (k UInt32, v UInt32, s Int8 DEFAULT if(cityHash64(x) % 2, 1, -1), "
        "x String) ENGINE = VersionedCollapsingMergeTree(s, v) ORDER BY k",
        "CREATE TABLE {db}.sent AS {db}.t",
    )
    rows = "SELECT number % 50 AS k, cityHash64(number) % 100 AS v, toString(number) AS x"
    text = lake.server.query(f"{rows} FROM numbers(20000) FORMAT JSONEachRow")
    lake.shell.write("all.ndjson", text)
    for table, build in (("t", "on"), ("sent", "off")):
        lake.load("all.ndjson", "--table", table, "--build", build)
        lake.do(f"OPTIMIZE TABLE {{db}}.{table} FINAL")
    assert taken_over(lake) == 1
    counts = "SELECT count(), sum(s), uniqExact(k, v) FROM {db}."
    assert lake.row(f"{counts}t") == lake.row(f"{counts}sent")


@long
def test_a_server_that_allows_one_restore_at_a_time(watched: Watched) -> None:
    """Attempts wait for their turn."""
    lake, refused = watched.lake, [0]

    def script(request: Request) -> Fault | None:
        if RESTORE in request.sql and refused[0] < 4:
            refused[0] += 1
            return exception(587, "Concurrent restores not supported")
        return None

    watched.proxy.script = script
    source = write(lake.shell)
    given = ("load", source, "--table", "t", "--build", "on", "--to", watched.to, "--json")
    assert lake.shell.ok(*given).document["notes"] == []
    assert refused == [4]
    assert taken_over(lake) == 1
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [10_000, 10_000]


@long
def test_a_server_gives_up_a_builder_that_is_gone(watched: Watched, tmp_path: Path) -> None:
    """By default it would ask for hours, and KILL QUERY does not end that."""
    lake = watched.lake
    process: list[subprocess.Popen[str]] = []

    def kill() -> None:
        process[0].send_signal(signal.SIGKILL)
        process[0].wait()

    watched.at_first(Fault(before=kill))
    given = (write(lake.shell), "--table", "t", "--build", "on")
    process.append(watched.start(*given, temporary=tmp_path))
    process[0].communicate(timeout=60)
    runs = "SELECT count() FROM system.processes WHERE query LIKE 'RESTORE %{db}%'"
    wait_until(lambda: lake.row(runs) == [0], 20, "the end of the RESTORE")


@long
def test_what_is_declined_is_named(lake: Lake) -> None:
    """And loaded in another way, unless parts are asked for."""
    lake.do(
        "CREATE TABLE {db}.e (id UInt32, kind String, day Date, price Float64, maybe String, "
        "made UInt8 EPHEMERAL) ENGINE = MergeTree ORDER BY id"
    )
    source = write(lake.shell, rows=1_000)
    few = lake.ok("plan", source, "--table", "t", "--spare-servers", "--json").document
    assert few["why_unbuilt"] == "there are few rows"
    reasons = {
        "the column made is EPHEMERAL": (source, "--table", "e"),
        "--pull has the server read the source": (source, "--table", "t", "--pull"),
        "rowfall-decode does not parse here: the rows are made by the engine": (
            "generate://trips?rows=10",
            "--table",
            "t",
        ),
    }
    for why, asked in list(reasons.items())[::2]:
        refused = lake.ends(2, "load", *asked, "--build", "on")
        assert f"parts cannot be built: {why}" in refused.talk
        assert "Leave out --build on" in refused.talk
    lake.shell.ends(2, "plan", source, "--to", "folder", "--spare-servers")
    many = " ".join(lake.ok("plan", source, "--table", "t", "--build", "on").out.split())
    assert "and the server takes them over" in many
    assert "server CPU from source to servers build " in many
    plan = " ".join(lake.ok("plan", source, "--table", "e", "--spare-servers").out.split())
    assert "parts the engine's: the column made is EPHEMERAL" in plan
    assert lake.load(source, "--table", "e", "--spare-servers")["rows"] == 2_000
    assert taken_over(lake) == 0


@long
def test_a_server_that_does_not_reach_this_machine(lake: Lake) -> None:
    source = write(lake.shell)
    at = ("--build-address", "no-such-host.invalid")
    refused = lake.ends(2, "load", source, "--table", "t", "--build", "on", *at)
    assert "parts cannot be built: the server cannot reach no-such-host.invalid:" in refused.talk
    assert lake.load(source, "--table", "t", "--spare-servers", *at)["rows"] == 10_000
    named = ("--table", "u", "--build", "on", "--build-address", "localhost")  # another name of it
    report = lake.load(source, *named)
    assert (report["rows"], report["notes"], taken_over(lake)) == (10_000, [], 1)
    wrong = lake.ends(2, "plan", source, "--build", "on", "--build-address", "http://here")
    assert "no address of this machine" in wrong.talk


@long
def test_a_right_that_is_missing_is_named(lake: Lake) -> None:
    source = write(lake.shell)
    account = lake.server.add_user("builder", f"{RIGHTS} ON {lake.database}.*", *SYSTEM)
    given = (source, "--table", "t", "--build", "on")
    refused = lake.ends(2, "load", *given, account=account)
    assert "its user may not read from here: GRANT " in refused.talk
    right = refused.talk.partition("from here: GRANT ")[2].partition(" TO ")[0]
    lake.do(f"GRANT {right} TO builder")
    assert lake.load(*given, account=account)["rows"] == 10_000
    assert taken_over(lake) == 1


@long
def test_no_room_on_the_server(shell: Shell) -> None:
    with ClickHouse(disk=220) as server:
        lake = Lake(shell, server)
        source = write(shell, rows=20_000)
        server.refuse_space()
        failed = lake.ends(5, "load", source, "--table", "t", "--build", "on", "--no-space-check")
        assert "space" in failed.talk.lower()
        server.allow_space()
        assert lake.load(source, "--table", "t", "--build", "on")["rows"] == 40_000
        assert lake.staging() == set()


RESTORE = "RESTORE TABLE rowfall.parts AS"


def restores(request: Request) -> bool:
    """Tell whether a request hands over the rows of an attempt."""
    return RESTORE in request.sql and "_probe` FROM" not in request.sql


class Watched:
    """A lake behind a proxy that does something to the first statement that hands over rows."""

    def __init__(self, lake: Lake) -> None:
        self.lake, self.proxy, self.seen = lake, Faulty(lake.server.http_port), 0
        self.to = lake.server.uri(lake.database, port=self.proxy.port)

    def at_first(self, fault: Fault) -> None:
        def script(request: Request) -> Fault | None:
            if not restores(request):
                return None
            self.seen += 1
            return fault if self.seen == 1 else None

        self.proxy.script = script

    def start(self, *args: str, temporary: Path) -> subprocess.Popen[str]:
        shell = self.lake.shell
        env = {**os.environ, **shell.env, "HOME": str(shell.cli.home), "TMPDIR": str(temporary)}
        command = [sys.executable, "-m", "rowfall", "load", *args, "--to", self.to]
        return subprocess.Popen(
            command, cwd=shell.folder, env=env, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def watched(lake: Lake) -> Iterator[Watched]:
    watched = Watched(lake)
    with watched.proxy:
        yield watched


@long
def test_killed_while_the_server_takes_over(watched: Watched, tmp_path: Path) -> None:
    """The same command goes on, and removes the staging tables and the parts of the dead one."""
    lake, source, own = watched.lake, write(watched.lake.shell), tmp_path / "tmp"
    own.mkdir()
    given = (source, "--table", "t", "--build", "on")
    process: list[subprocess.Popen[str]] = []

    def kill() -> None:
        process[0].send_signal(signal.SIGKILL)
        process[0].wait()

    watched.at_first(Fault(before=kill))
    process.append(watched.start(*given, temporary=own))
    process[0].communicate(timeout=60)
    assert process[0].returncode == -signal.SIGKILL
    assert [path.name[: len(FOLDER)] for path in own.iterdir()] == [FOLDER]
    watched.proxy.script = None
    again = watched.start(*given, temporary=own)
    said, _ = again.communicate(timeout=90)
    assert again.returncode == 0, said
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [10_000, 10_000]
    assert lake.row(CHECKED % "t") == [1]
    assert lake.staging() == set()
    assert list(own.iterdir()) == []


@long
def test_no_room_here(watched: Watched, tmp_path: Path) -> None:
    """The parts of a file have no room: it is sent, and the note names the variable."""
    lake, small = watched.lake, SmallDisk(tmp_path / "small", 64)
    try:
        given = (write(lake.shell), "--table", "t", "--build", "on")
        process = watched.start(*given, temporary=small.path)
        said, _ = process.communicate(timeout=90)
    finally:
        small.close()
    assert process.returncode == 0, said
    assert "TMPDIR names another folder" in " ".join(said.split())
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [10_000, 10_000]


@long
@pytest.mark.parametrize("side", ["before", "after"])
def test_the_server_is_killed_while_it_takes_over(watched: Watched, side: str) -> None:
    lake, server = watched.lake, watched.lake.server

    def restart() -> None:
        server.kill()
        server.start()

    if side == "before":
        watched.at_first(Fault(before=restart, reset="before"))
    else:
        watched.at_first(Fault(after=restart, reset="after"))
    source = write(lake.shell)
    lake.to = watched.to
    shell = lake.shell
    done = shell.ok("load", source, "--table", "t", "--build", "on", "--json", "--to", watched.to)
    assert done.document["rows"] == 10_000
    assert watched.seen >= 1
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [10_000, 10_000]
    assert lake.staging() == set()


@long
def test_a_column_is_added_while_parts_are_built(watched: Watched) -> None:
    lake = watched.lake
    lake.do(
        "CREATE TABLE {db}.t (id UInt32, kind String, day Date, price Float64, maybe "
        "Nullable(UInt32)) ENGINE = MergeTree ORDER BY id"
    )
    text = "ALTER TABLE {db}.t ADD COLUMN more UInt8 DEFAULT 7"
    watched.at_first(Fault(before=lambda: lake.do(text)))
    source = write(lake.shell)
    lake.shell.ok("load", source, "--table", "t", "--build", "on", "--to", watched.to)
    assert lake.row("SELECT count(), uniqExact(id), sum(more) FROM {db}.t") == [
        10_000, 10_000, 70_000
    ]  # fmt: skip


# --- clusters -------------------------------------------------------------------------------------


@long
def test_every_shard_takes_over_its_own_parts(fleet: Fleet) -> None:
    """Of replicated tables one replica does, and the other one fetches them."""
    source = write(fleet.shell, files=4)
    given = (source, "--table", "t", "--build", "on")
    assert fleet.ok("plan", *given, "--json").document["delivery"] == "build"
    report = fleet.load(*given, "--verify", "--wait", "replicas")
    assert [(s["shard"], s["rows"]) for s in report["shards"]] == [(1, 10_000), (2, 10_000)]
    assert report["notes"] == []
    assert fleet.counts("t_local") == [10_000, 10_000]
    fleet.sync("t_local")
    for node in fleet.cluster.nodes:
        assert node.query((CHECKED % "t_local").format(db=fleet.database)) == "1\n"
        assert fleet.ask(node, "SELECT count() FROM {db}.t_local") == [[10_000]]
    assert fleet.numbers("t") == [20_000, 20_000]
    assert not fleet.left()
    again = fleet.load(*given)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, 4)


@long
def test_rows_of_a_sharding_key(fleet: Fleet) -> None:
    """Each shard takes over the parts of its own rows, and what is declined is sent to it."""
    source = write(fleet.shell)
    given = (source, "--table", "t", "--shard-key", "cityHash64(id)", "--build", "on")
    report = fleet.load(*given, "--verify", "--wait", "replicas")
    assert (report["rows"], report["notes"]) == (10_000, [])
    own = "SELECT count(), countIf(cityHash64(id) % 2 = {at}) FROM {db}.t_local"
    for at, node in enumerate(fleet.first()):
        ((count, there),) = fleet.ask(node, own.replace("{at}", str(at)))
        assert 4_000 < count == there
    fleet.shell.write("odd.csv", "id,kind,day,price,maybe\n10000001,k,2024-01-01,1e-1,\n")
    fleet.shell.write("null.csv", "id,kind,day,price,maybe\n10000002,k,2024-01-01,0x1p3,\n")
    assert fleet.load("odd.csv", *given[1:])["rows"] == 1
    refused = fleet.shell.run("load", "null.csv", *given[1:], "--to", fleet.to)
    assert refused.code not in (0, 5)
    assert 'line 2 column "price": "0x1p3" does not fit Float64' in refused.talk
    assert fleet.numbers("t") == [10_001, 10_001]
    assert not fleet.left()


@long
def test_a_server_that_cannot_read_the_layout(watched: Watched) -> None:
    """The probe tells before the first rows; they come in another way, or not with --build on."""
    lake, source = watched.lake, write(watched.lake.shell)
    probed: list[int] = []

    def script(request: Request) -> Fault | None:
        if RESTORE in request.sql and not restores(request):
            probed.append(request.number)
            return exception(33, "Cannot read all data: parts are of a newer version")
        assert not restores(request)
        return None

    watched.proxy.script = script
    given = ("load", source, "--table", "t", "--to", watched.to, "--json")
    refused = lake.shell.ends(5, *given, "--build", "on")
    assert "the server does not take parts that are built here: Cannot read" in refused.talk
    assert "Leave out --build on" in refused.talk
    # Less than 10 MiB of rows for each core of the server are not worth it.
    enough = write(lake.shell, files=3, rows=200_000), "--threads", "1"
    report = lake.shell.ok(*given[:1], *enough, *given[2:], "--spare-servers").document
    assert report["rows"] == 600_000
    assert any("parts cannot be handed over: Cannot read" in note for note in report["notes"])
    assert len(probed) >= 2
    assert lake.row("SELECT count(), uniqExact(id) FROM {db}.t") == [600_000, 600_000]
    assert lake.staging() == set()


@long
def test_a_proof_is_remembered_until_the_server_refuses_parts(watched: Watched) -> None:
    """Later loads trust it; one whose parts are refused asks anew, and says what comes of it."""
    lake, broken, short, probed = watched.lake, [False], [False], [0]

    def leave_aside() -> None:
        """Do what a server does in silence with parts that it cannot read."""
        for name in lake.staging():
            lake.do(f"TRUNCATE TABLE {{db}}.`{name}`")

    def script(request: Request) -> Fault | None:
        if RESTORE not in request.sql:
            return None
        probed[0] += not restores(request)
        if short[0] and restores(request):
            short[0] = False
            return Fault(after=leave_aside)
        newer = exception(33, "Cannot read all data: parts are of a newer version")
        return newer if broken[0] else None

    watched.proxy.script = script
    given = ("load", write(lake.shell), "--to", watched.to, "--build", "on", "--json")
    for table in ("t", "again"):
        assert lake.shell.ok(*given, "--table", table).document["rows"] == 10_000
    assert probed == [1]
    broken[0] = True
    refused = lake.shell.ends(5, *given, "--table", "refused")
    assert "the server does not take parts that are built here: Cannot read" in refused.talk
    assert probed == [2]
    broken[0] = False
    assert lake.shell.ok(*given, "--table", "refused").document["rows"] == 10_000
    assert probed == [3]
    short[0] = True
    assert lake.shell.ok(*given, "--table", "short").document["rows"] == 10_000
    assert probed == [4]
    for table in ("again", "refused", "short"):
        same(lake, "t", table)
    assert lake.staging() == set()


# --- object stores --------------------------------------------------------------------------------

POLICY = """\
<clickhouse><storage_configuration>
  <disks><bucket>
    <type>s3</type><endpoint>{endpoint}/{bucket}/disk/</endpoint>
    <access_key_id>{key}</access_key_id><secret_access_key>{secret}</secret_access_key>
    <skip_access_check>true</skip_access_check>
  </bucket></disks>
  <policies><bucket><volumes><main><disk>bucket</disk></main></volumes></bucket></policies>
</storage_configuration></clickhouse>
"""


@long
def test_a_table_on_a_disk_in_s3(lake: Lake, s3: Seaweed, bucket: str) -> None:
    """The server puts the files into the bucket once; attaching and publishing copy nothing."""
    folder = lake.server.folder / "config.d"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    policy = POLICY.format(
        endpoint=s3.endpoint, bucket=bucket, key=s3.access_key, secret=s3.secret_key
    )
    (folder / "bucket.xml").write_text(policy)
    lake.do("SYSTEM RELOAD CONFIG")
    lake.do(
        "CREATE TABLE {db}.t (id UInt32, kind String, day Date, price Float64, maybe "
        "Nullable(UInt32)) ENGINE = MergeTree PARTITION BY toYYYYMM(day) ORDER BY id "
        "SETTINGS storage_policy = 'bucket'"
    )
    source = write(lake.shell)
    report = lake.load(source, "--table", "t", "--build", "on", "--verify")
    assert (report["rows"], report["notes"]) == (10_000, [])
    lake.load(source, "--table", "sent", "--build", "off")
    same(lake, "t", "sent")
    lake.do("SYSTEM FLUSH LOGS")
    moved = lake.row(
        "SELECT sumIf(ProfileEvents['WriteBufferFromS3Bytes'], query LIKE 'RESTORE%') > 0, "
        "sumIf(ProfileEvents['S3CopyObject'], 1), "
        "sumIf(ProfileEvents['S3PutObject'], query LIKE '%ATTACH PARTITION%') "
        "FROM system.query_log WHERE type = 'QueryFinish' AND query LIKE '%{db}%'"
    )
    assert moved[:2] == [1, 0]
    # A file of its own for each part that says how it is attached, at most.
    assert moved[2] <= 3 * 12, moved
    again = lake.load(source, "--table", "t", "--build", "on")
    assert (again["rows"], again["splits_skipped"]) == (0, 2)
    lake.do("DROP TABLE {db}.t SYNC")
    assert lake.staging() == set()
