"""Tables with a sharding key: after a load each row is on the shard that ClickHouse itself would
have put it on, once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.fleet import Fleet
from e2e.tools import Shell, csv
from lab.cluster import Cluster
from lab.seaweed import Seaweed

HEAD = ("id", "small", "name", "code")
SCHEMA = ("--schema", "id Int64, small Int32, name String, code Nullable(Int16)")
PULL = ("--pull", "--decoder", "never")
WAYS = ("filter", "distributed")
FILES, ROWS = 6, 700
# A shard that gets no rows of the key, and one that gets three times as many as another.
_HEAVY = """\
<clickhouse><remote_servers><heavy><secret>heavy</secret>{shards}</heavy></remote_servers>
</clickhouse>
"""
_SHARD = (
    "<shard><weight>{weight}</weight><internal_replication>true</internal_replication>"
    "<replica><host>127.0.0.1</host><port>{port}</port></replica></shard>"
)
WEIGHTS = (3, 1, 0, 2)


@pytest.fixture
def fleet(shell: Shell, cluster4: Cluster) -> Iterator[Fleet]:
    fleet = Fleet(shell, cluster4)
    yield fleet
    fleet.drop()


@pytest.fixture
def heavy(fleet: Fleet) -> Fleet:
    """The same nodes as a cluster of other weights."""
    shards = "".join(
        _SHARD.format(weight=weight, port=node.tcp)
        for weight, node in zip(WEIGHTS, fleet.cluster.nodes, strict=True)
    )
    for number, node in enumerate(fleet.cluster.nodes, 1):
        extra = fleet.cluster.folder / f"node{number}" / "config.d"
        extra.mkdir(exist_ok=True)
        extra.chmod(0o755)
        (extra / "heavy.xml").write_text(_HEAVY.format(shards=shards))
        node.query("SYSTEM RELOAD CONFIG")
    fleet.to = fleet.to.replace("cluster=lab", "cluster=heavy")
    return fleet


def rows(start: int, stop: int) -> str:
    return csv(
        [(i - 2_000, -i * 7919 % 2**31 - 2**30, f"n{i % 97}", "" if i % 5 else -i % 300)
         for i in range(start, stop)],
        *HEAD,
    )  # fmt: skip


def objects(s3: Seaweed, bucket: str) -> str:
    for n in range(FILES):
        s3.put(bucket, f"in/f{n}.csv", rows(n * ROWS, (n + 1) * ROWS).encode())
    return f"s3://{bucket}/in/*.csv"


def held(fleet: Fleet, table: str) -> list[list[int]]:
    """Rows of each shard, and a sum of their hashes."""
    question = f"SELECT count(), sum(cityHash64(id, small, name, ifNull(code, -9))) FROM {table}"
    return [list(map(int, fleet.ask(node, question)[0])) for node in fleet.first()]


def check(fleet: Fleet, key: str, tables: tuple[str, ...], cluster: str = "lab") -> None:
    """Compare with what ClickHouse makes of the same rows and key."""
    first, on = fleet.cluster.nodes[0], f"ON CLUSTER {cluster}"
    fleet.do(f"CREATE TABLE {{db}}.ref_local {on} AS {{db}}.{tables[0]}_local "
             "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    fleet.do(f"CREATE TABLE {{db}}.ref {on} AS {{db}}.ref_local "
             f"ENGINE = Distributed({cluster}, '{{db}}', ref_local, {key})")  # fmt: skip
    fleet.do(f"INSERT INTO {{db}}.ref SELECT * FROM {{db}}.{tables[0]} "
             "SETTINGS distributed_foreground_insert = 1", first)  # fmt: skip
    wanted = held(fleet, "{db}.ref_local")
    assert sum(count for count, _ in wanted) == FILES * ROWS
    for table in tables:
        assert held(fleet, f"{{db}}.{table}_local") == wanted, table
        assert fleet.numbers(table) == [FILES * ROWS, FILES * ROWS]
    assert not fleet.left()


@pytest.mark.parametrize(
    "key",
    [
        "id",
        *(
            pytest.param(key, marks=pytest.mark.long)
            for key in (
                "cityHash64(name)", "ifNull(code, -1)", "small", "intHash64(id)",
                "toLowCardinality(toInt8(id % 100))",
            )
        ),
    ],
)  # fmt: skip
def test_rows_are_where_clickhouse_puts_them(
    fleet: Fleet, s3: Seaweed, bucket: str, key: str
) -> None:
    source = objects(s3, bucket)
    for way in WAYS:
        report = fleet.load(source, "--table", way, "--shard-key", key, "--method", way, *SCHEMA,
                            *PULL, "--verify", env=s3.env)  # fmt: skip
        assert report["rows"] == FILES * ROWS
        assert [s["rows"] for s in report["shards"]] == fleet.counts(f"{way}_local")
        again = fleet.load(source, "--table", way, *SCHEMA, *PULL, env=s3.env)
        assert (again["splits_loaded"], again["splits_skipped"]) == (0, FILES)
    check(fleet, key, WAYS)


@pytest.mark.long
def test_weights_count(heavy: Fleet, s3: Seaweed, bucket: str) -> None:
    source, key = objects(s3, bucket), "cityHash64(id)"
    for way in WAYS:
        heavy.load(source, "--table", way, "--shard-key", key, "--method", way, *SCHEMA, *PULL,
                   env=s3.env)  # fmt: skip
    counts = heavy.counts("filter_local")
    assert counts[2] == 0
    assert counts[0] > 2 * counts[1]
    check(heavy, key, WAYS, "heavy")


@pytest.mark.long
def test_reading_skips_the_other_shards(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    """What the key is for: a question about one name goes to one shard, and finds all its rows."""
    for way in WAYS:
        fleet.load(objects(s3, bucket), "--table", way, "--shard-key", "cityHash64(name)",
                   "--method", way, *SCHEMA, *PULL, env=s3.env)  # fmt: skip
        for name in ("n0", "n41", "n96"):
            all_rows = f"SELECT count() FROM {{db}}.{way} WHERE name = '{name}'"
            skip = (
                f"SELECT * FROM ({all_rows}) SETTINGS optimize_skip_unused_shards = 1, "
                "force_optimize_skip_unused_shards = 1"
            )
            text = skip.replace("{db}", fleet.database)
            one = int(fleet.cluster.nodes[0].query(text))
            assert one == len([i for i in range(FILES * ROWS) if f"n{i % 97}" == name])


@pytest.mark.long
def test_rows_that_are_pushed_find_their_shard(fleet: Fleet) -> None:
    """From files of this machine, by the decoder and by the engine here, and from stdin."""
    for n in range(FILES):
        fleet.shell.write(f"in/f{n}.csv", rows(n * ROWS, (n + 1) * ROWS))
    tables = ("decoded", "read")
    for table, decoder in zip(tables, ("always", "never"), strict=True):
        report = fleet.load("in/*.csv", "--table", table, "--shard-key", "small", *SCHEMA,
                            "--decoder", decoder, "--verify")  # fmt: skip
        assert report["rows"] == FILES * ROWS
    planned = fleet.ok("plan", "in/*.csv", "--table", "read", *SCHEMA, "--json").document
    assert planned["spread"] == "distributed"
    assert "each would be sent to every shard" in planned["why_spread"]
    check(fleet, "small", tables)


@pytest.mark.long
def test_decoders_inside_the_shards(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(s3, bucket)
    fleet.ok("install-decoder")
    try:
        for way in WAYS:
            report = fleet.load(source, "--table", way, "--shard-key", "id", "--method", way,
                                *SCHEMA, "--pull", "--decoder", "always", env=s3.env)  # fmt: skip
            assert report["rows"] == FILES * ROWS
        check(fleet, "id", WAYS)
    finally:
        for path in fleet.cluster.folder.rglob("rowfall-decode"):
            path.unlink()


@pytest.mark.long
def test_the_plan_says_what_both_ways_cost(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(s3, bucket)
    args = ("plan", source, "--table", "t", "--shard-key", "id", *SCHEMA, *PULL, "--json")
    planned = fleet.ok(*args, env=s3.env).document
    assert planned["spread"] in WAYS
    assert "4.0x parsing" in planned["why_spread"]
    assert "75% of the rows" in planned["why_spread"]
    kept = fleet.ok(*args, "--method", "filter", env=s3.env).document
    assert "reinterpretAsUInt64(id) % 4 = 0" in kept["example"]
    assert [writer["splits"] for writer in kept["writers"]] == [FILES] * 4
    sent = fleet.ok(*args, "--method", "distributed", env=s3.env).document
    assert "FUNCTION cluster('lab'" in sent["example"]
    assert sum(writer["splits"] for writer in sent["writers"]) == FILES


@pytest.mark.long
@pytest.mark.parametrize("way", [pytest.param("filter", marks=pytest.mark.long), "distributed"])
def test_views_of_the_local_tables_get_every_row_once(
    fleet: Fleet, s3: Seaweed, bucket: str, way: str
) -> None:
    on = "ON CLUSTER lab"
    fleet.do(f"CREATE DATABASE {{db}} {on}")
    fleet.do(f"CREATE TABLE {{db}}.t_local {on} (id Int64, small Int32, name String, "
             "code Nullable(Int16)) ENGINE = MergeTree ORDER BY id")  # fmt: skip
    fleet.do(f"CREATE TABLE {{db}}.t {on} AS {{db}}.t_local "
             "ENGINE = Distributed(lab, '{db}', t_local, id)")  # fmt: skip
    fleet.do(f"CREATE TABLE {{db}}.seen {on} (n Int64) ENGINE = MergeTree ORDER BY n")
    fleet.do(f"CREATE MATERIALIZED VIEW {{db}}.sees {on} TO {{db}}.seen AS "
             "SELECT id AS n FROM {db}.t_local WHERE id % 2 = 0")  # fmt: skip
    fleet.load(objects(s3, bucket), "--table", "t", "--method", way, *PULL, env=s3.env)
    assert fleet.numbers("t") == [FILES * ROWS, FILES * ROWS]
    seen = [fleet.ask(node, "SELECT count() FROM {db}.seen")[0][0] for node in fleet.first()]
    assert sum(seen) == FILES * ROWS / 2
    assert not fleet.left()


@pytest.mark.long
def test_bad_rows_are_left_out_once(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(s3, bucket)
    s3.put(bucket, "in/f0.csv", (rows(0, ROWS) + "x,y,z,w\n").encode())
    args = (source, "--table", "t", "--shard-key", "id", *SCHEMA, *PULL, "--max-errors", "1")
    done = fleet.ends(2, "load", *args, "--method", "filter", env=s3.env)
    assert "each shard would have to count them" in done.talk
    report = fleet.load(*args, env=s3.env)
    assert (report["rows"], report["rows_rejected"]) == (FILES * ROWS, 1)
    check(fleet, "id", ("t",))


@pytest.mark.long
def test_shards_that_are_added_get_what_comes_later(heavy: Fleet, s3: Seaweed, bucket: str) -> None:
    """What is loaded is not loaded again when the key means other shards than before."""
    source = objects(s3, bucket)
    to = heavy.to
    heavy.to = to.replace("cluster=heavy", "cluster=lab")
    heavy.load(f"s3://{bucket}/in/f[0-2].csv", "--table", "t", "--shard-key", "id", *SCHEMA, *PULL,
               env=s3.env)  # fmt: skip
    heavy.do("DROP TABLE {db}.t ON CLUSTER lab SYNC")
    heavy.do("CREATE TABLE {db}.t ON CLUSTER heavy AS {db}.t_local "
             "ENGINE = Distributed(heavy, '{db}', t_local, id)")  # fmt: skip
    heavy.to = to
    report = heavy.load(source, "--table", "t", *SCHEMA, *PULL, env=s3.env)
    assert (report["splits_loaded"], report["splits_skipped"]) == (FILES - 3, 3)
    assert heavy.numbers("t") == [FILES * ROWS, FILES * ROWS]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--shard-key", "name"), "cityHash64(name)"),
        (("--shard-key", "code"), "Nullable(Int16)"),
        (("--shard-key", "nothing"), "--shard-key nothing does not fit the table"),
        (("--shard-key", "id", "--direct"), "--direct"),
        (("--method", "filter"), "tables with a sharding key"),
        (("--shard-key", "id + rand()", "--method", "filter"), "another value each time"),
    ],
)
def test_what_cannot_be_is_refused(
    fleet: Fleet, s3: Seaweed, bucket: str, args: tuple[str, ...], said: str
) -> None:
    done = fleet.ends(2, "load", objects(s3, bucket), "--table", "t", *SCHEMA, *PULL, *args,
                      env=s3.env)  # fmt: skip
    assert said in done.talk


def test_servers_that_disagree_are_named(heavy: Fleet, s3: Seaweed, bucket: str) -> None:
    path = heavy.cluster.folder / "node2" / "config.d" / "heavy.xml"
    path.write_text(path.read_text().replace("<weight>3<", "<weight>5<"))
    heavy.cluster.nodes[1].query("SYSTEM RELOAD CONFIG")
    done = heavy.ends(5, "load", objects(s3, bucket), "--table", "t", "--shard-key", "id", *SCHEMA,
                      env=s3.env)  # fmt: skip
    assert "do not agree on the shards" in done.talk


@pytest.mark.long
def test_a_shard_that_is_away_cannot_be_left_out(fleet: Fleet, s3: Seaweed, bucket: str) -> None:
    source = objects(s3, bucket)
    args = ("load", source, "--table", "t", "--shard-key", "id", *SCHEMA, *PULL)
    fleet.cluster.nodes[3].kill9()
    try:
        done = fleet.ends(5, *args, "--skip-unavailable-shards", env=s3.env)
        assert "shard 4 of the cluster 'lab' does not answer" in done.talk
    finally:
        fleet.cluster.nodes[3].start()
    fleet.ok(*args, env=s3.env)
    assert json.loads(fleet.ok("verify", "last", "--json", env=s3.env).out)["ok"]


@pytest.mark.long
@pytest.mark.parametrize(
    "key",
    [
        "id", "small", "cityHash64(name)", "cityHash64(small)", "intHash32(small)", "small % 7",
        "sipHash64(id)", "xxHash64(name)", "intHash64(id)", "ifNull(code, -1)",
    ],
)  # fmt: skip
def test_parts_for_each_shard(heavy: Fleet, key: str) -> None:
    """They are built here, and no row passes between nodes."""
    for n in range(FILES):
        heavy.shell.write(f"in/f{n}.csv", rows(n * ROWS, (n + 1) * ROWS))
    given = ("in/*.csv", "--table", "t", "--shard-key", key, *SCHEMA, "--build", "on")
    planned = heavy.ok("plan", *given, "--json").document
    assert planned["delivery"] == "build"
    assert "finds the shard of each row" in planned["why_spread"]
    report = heavy.load(*given, "--verify")
    assert (report["rows"], report["notes"]) == (FILES * ROWS, [])
    assert [s["rows"] for s in report["shards"]] == heavy.counts("t_local")
    again = heavy.load(*given)
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, FILES)
    check(heavy, key, ("t",), "heavy")


@pytest.mark.long
def test_parts_of_partitions_for_each_shard(heavy: Fleet) -> None:
    """Each shard gets those of its own partitions, also where a value sends the rows elsewhere."""
    heavy.shell.write("in/a.csv", rows(0, FILES * ROWS))
    given = ("in/*.csv", "--table", "t", "--shard-key", "cityHash64(name)", *SCHEMA)
    given = (*given, "--partition-by", "small % 3", "--order-by", "(name, id)")
    assert heavy.load(*given, "--build", "on", "--verify")["notes"] == []
    parts = (
        "SELECT uniqExact(partition_id), count() FROM system.parts WHERE active AND "
        "database = '{db}' AND table = 't_local'"
    )
    found = [heavy.ask(node, parts)[0] for node in heavy.first()]
    assert [one[0] > 1 for one in found] == [True, True, False, True]
    assert all(one[0] == one[1] for one in found)
    check(heavy, "cityHash64(name)", ("t",), "heavy")


@pytest.mark.long
def test_sharding_keys_that_are_not_built(fleet: Fleet) -> None:
    fleet.shell.write("in/a.csv", rows(0, ROWS))
    for key in ("cityHash64(id, name)", "murmurHash3_64(name)", "length(name)"):
        given = ("in/*.csv", "--table", "t", "--shard-key", key, *SCHEMA)
        refused = fleet.ends(2, "load", *given, "--build", "on")
        assert f"rowfall-decode does not compute the sharding key {key}" in refused.talk
    given = ("in/*.csv", "--table", "t", "--shard-key", "id", *SCHEMA, "--build", "on")
    refused = fleet.ends(2, "load", *given, "--method", "distributed")
    assert "--method distributed says how rows get to their shards" in refused.talk


@pytest.mark.long
def test_parts_for_tables_with_other_primary_keys(fleet: Fleet) -> None:
    """Their indices have other columns: the rows are sent, and all of them can be read."""
    on = "ON CLUSTER lab"
    fleet.do(f"CREATE DATABASE {{db}} {on}")
    for number, node in enumerate(fleet.first()):
        primary = "PRIMARY KEY small" if number == 1 else ""
        columns = "id Int64, small Int32, name String, code Nullable(Int16)"
        made = f"ENGINE = MergeTree {primary} ORDER BY (small, id)"
        fleet.do(f"CREATE TABLE {{db}}.t_local ({columns}) {made}", node)
    fleet.do(f"CREATE TABLE {{db}}.t {on} AS {{db}}.t_local "
             "ENGINE = Distributed(lab, '{db}', t_local, id)")  # fmt: skip
    fleet.shell.write("in/a.csv", rows(0, FILES * ROWS))
    args = ("in/*.csv", "--table", "t")
    refused = fleet.ends(5, "load", *args, "--build", "on")
    assert "the tables of the shards differ in more than their columns" in refused.talk
    assert fleet.load(*args, "--spare-servers")["rows"] == FILES * ROWS
    found = "SELECT count() FROM {db}.t WHERE small < 0"
    assert fleet.ask(fleet.cluster.nodes[0], found) == [[
        sum(-i * 7919 % 2**31 - 2**30 < 0 for i in range(FILES * ROWS))
    ]]  # fmt: skip
    assert fleet.numbers("t") == [FILES * ROWS, FILES * ROWS]
