"""The tables of a cluster: what is there, what is made, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from contract.clusters import Login, add_user, down, new_database, paused
from lab.clickhouse import Account, ClickHouse
from lab.cluster import Cluster as Lab
from lab.cluster import Node as Started
from lab.process import ServiceError, wait_until
from rowfall.cluster.ddl import Ddl, create_statements, run_on_cluster
from rowfall.cluster.tables import ClusterTables, find_tables
from rowfall.cluster.topology import Cluster, Node, discover
from rowfall.core.errors import TargetError
from rowfall.core.model import Column, Schema, TableLayout

SCHEMA = Schema(
    (Column("a", "UInt64"), Column("s", "LowCardinality(String)"), Column("v", "UInt32")),
    layout=TableLayout(order_by="a"),
)
Log = Callable[..., Login]


@pytest.fixture
def login() -> Iterator[Log]:
    logins: list[Login] = []

    def open_(node: Started | ClickHouse, account: Account | None = None) -> Login:
        logins.append(Login(node, account))
        return logins[-1]

    yield open_
    for one in logins:
        one.server.close()


def make(
    at: Login, database: str, schema: Schema | None = SCHEMA, **options: object
) -> tuple[ClusterTables, tuple[Ddl, ...]]:
    """What a load would do before it begins; gives what is there afterwards."""
    cluster = at.cluster()
    done = create_statements(
        find_tables(at.asks, cluster, database, "t"), cluster, schema, **options
    )  # type: ignore[arg-type]
    for ddl in done:
        assert run_on_cluster(at.run, at.asks, cluster, ddl) == ()
    return find_tables(at.asks, cluster, database, "t"), done


def healthy(lab: Lab) -> bool:
    sql = "DROP TABLE IF EXISTS default._probe ON CLUSTER lab"
    try:
        return len(lab.nodes[0].query(sql).splitlines()) == len(lab.nodes)
    except ServiceError as error:
        raise OSError(str(error)) from None


def engines(lab: Lab, database: str, table: str) -> list[str]:
    sql = (
        f"SELECT engine_full FROM system.tables WHERE database = '{database}' AND name = '{table}'"
    )
    found = [node.query(sql).partition(" ORDER BY")[0].strip() for node in lab.nodes]
    return [text.replace("\\'", "'") for text in found]


def test_replicated_tables_are_made(cluster22: Lab, login: Log) -> None:
    at, database = login(cluster22.nodes[0]), new_database()
    before = find_tables(at.asks, at.cluster(), database, "t")
    assert [len(before.own.missing), len(before.over.missing)] == [4, 4]
    assert not before.exists
    assert before.local == (database, "t_local")
    tables, done = make(at, database)
    assert [ddl.what for ddl in done] == [
        f"database {database}", f"table {database}.t_local", f"table {database}.t"
    ]  # fmt: skip
    assert tables.complete
    assert tables.exists
    assert tables.own.engine.replicated
    assert tables.columns == tuple((c.name, c.type) for c in SCHEMA.columns)
    assert tables.over.sharding_key == "rand()"
    assert make(at, database)[1] == ()
    for number, node in enumerate(cluster22.nodes[::2]):
        node.query(f"INSERT INTO {database}.t_local VALUES ({number}, 'x', 1)")
    count = f"SELECT count() FROM {database}.t_local"
    others = cluster22.nodes[1::2]
    wait_until(lambda: {node.query(count) for node in others} == {"1\n"}, 10, "the replicas")
    for node in cluster22.nodes:
        assert node.query(f"SELECT sum(a), count() FROM {database}.t") == "1\t2\n"


def test_engines_keep_their_family_and_arguments(cluster22: Lab, login: Log) -> None:
    database = new_database()
    schema = Schema(
        SCHEMA.columns,
        TableLayout("ReplacingMergeTree(v)", order_by="(a, s)", partition_by="a % 2"),
    )
    tables, _ = make(login(cluster22.nodes[3]), database, schema)
    path = "'/clickhouse/tables/{uuid}/{shard}'"
    full = f"ReplicatedReplacingMergeTree({path}, '{{replica}}', v) PARTITION BY a % 2"
    assert engines(cluster22, database, "t_local") == [full] * 4
    assert tables.own.engine.meaning == "ReplicatedReplacingMergeTree(v)"


def test_tables_of_single_servers(cluster4: Lab, login: Log) -> None:
    at, database = login(cluster4.nodes[2]), new_database()
    tables, _ = make(at, database, sharding_key="cityHash64(a, s)")
    assert engines(cluster4, database, "t_local") == ["MergeTree"] * 4
    assert tables.over.sharding_key == "cityHash64(a, s)"
    cluster4.nodes[0].query(
        f"INSERT INTO {database}.t SELECT number, '', 0 FROM numbers(1000) "
        "SETTINGS distributed_foreground_insert = 1"
    )
    counts = [int(n.query(f"SELECT count() FROM {database}.t_local")) for n in cluster4.nodes]
    assert sum(counts) == 1000
    assert min(counts) > 150


def test_replicated_on_demand(cluster4: Lab, login: Log) -> None:
    tables, _ = make(login(cluster4.nodes[0]), new_database(), replicated=True)
    assert tables.own.engine.name == "ReplicatedMergeTree"


def test_a_merge_tree_is_the_local_table(cluster4: Lab, login: Log) -> None:
    at, database = login(cluster4.nodes[0]), new_database()
    at.run(f"CREATE DATABASE {database} ON CLUSTER lab")
    columns = "a UInt64, b UInt8 DEFAULT 7, c UInt8 MATERIALIZED 1, d UInt8 ALIAS 2"
    at.run(f"CREATE TABLE {database}.t ON CLUSTER lab ({columns}) ENGINE = MergeTree ORDER BY a")
    tables = find_tables(at.asks, at.cluster(), database, "t")
    assert tables.direct
    assert tables.complete
    assert tables.local == (database, "t")
    assert tables.columns == (("a", "UInt64"), ("b", "UInt8"))
    assert create_statements(tables, at.cluster()) == ()
    cluster4.nodes[3].query(f"DROP TABLE {database}.t SYNC")
    tables, (ddl,) = make(at, database, None)
    assert ddl.what == f"table {database}.t"
    assert tables.direct
    assert tables.complete


def test_what_is_missing_is_made_like_the_rest(cluster22: Lab, login: Log) -> None:
    """A replica that lost its tables gets them and the rows back, whatever made the others."""
    at, database = login(cluster22.nodes[0]), new_database()
    at.run(f"CREATE DATABASE {database} ON CLUSTER lab")
    at.run(
        f"CREATE TABLE {database}.rows ON CLUSTER lab (a UInt64 CODEC(Delta, ZSTD), s String, "
        "INDEX i s TYPE bloom_filter) "
        "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') "
        "ORDER BY a TTL toDateTime(a) + toIntervalYear(100)"
    )
    at.run(
        f"CREATE TABLE {database}.t ON CLUSTER lab (a UInt64, s String) "
        f"ENGINE = Distributed('{{cluster}}', {database}, 'rows', a)"
    )
    first, last = cluster22.nodes[2:]
    first.query(f"INSERT INTO {database}.rows SELECT number, 'x' FROM numbers(100)")
    definition = f"SHOW CREATE TABLE {database}.rows"
    wanted = last.query(definition)
    last.query(f"DROP DATABASE {database} SYNC")
    cluster = at.cluster()
    tables = find_tables(at.asks, cluster, database, "t")
    assert tables.own.missing == tables.over.missing == cluster.nodes[3:]
    assert tables.local == (database, "rows")
    assert tables.over.sharding_key == "a"
    tables, done = make(at, database, None)
    assert len(done) == 3
    assert tables.complete
    assert last.query(definition) == wanted
    wait_until(lambda: last.query(f"SELECT sum(a) FROM {database}.rows") == "4950\n", 10, "rows")


def test_a_local_table_without_its_distributed_one(cluster4: Lab, login: Log) -> None:
    at, database = login(cluster4.nodes[0]), new_database()
    make(at, database)
    at.run(f"DROP TABLE {database}.t ON CLUSTER lab SYNC")
    cluster4.nodes[1].query(f"DROP TABLE {database}.t_local SYNC")
    tables, done = make(at, database, None)
    assert [ddl.what.rpartition(".")[2] for ddl in done] == ["t_local", "t"]
    assert tables.complete


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("MODIFY COLUMN v UInt64", "column v is UInt64 on shard 3 .* and UInt32 on shard 1"),
        ("DROP COLUMN v", "column v is missing on shard 3 replica 1"),
        ("ADD COLUMN w String", "column w is String on shard 3 .* and missing on shard 1"),
        ("MODIFY ORDER BY (a, w)", "ORDER BY is a, w on shard 3"),
    ],
)
def test_tables_that_differ(cluster4: Lab, login: Log, change: str, message: str) -> None:
    at, database = login(cluster4.nodes[0]), new_database()
    make(at, database)
    if "ORDER BY" in change:
        change = f"ADD COLUMN w UInt8, {change}"
        at.run(f"ALTER TABLE {database}.t_local ON CLUSTER lab ADD COLUMN v2 UInt8")
    cluster4.nodes[2].query(f"ALTER TABLE {database}.t_local {change}")
    if "ORDER BY" in change:
        for node in (*cluster4.nodes[:2], cluster4.nodes[3]):
            node.query(f"ALTER TABLE {database}.t_local ADD COLUMN w UInt8")
    with pytest.raises(TargetError, match=message):
        find_tables(at.asks, at.cluster(), database, "t")


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("MergeTree ORDER BY a", "shard 1 has 2 replicas, but .* is a MergeTree"),
        ("ReplicatedMergeTree('/same/{db}', '{shard}-{replica}') ORDER BY a", "in both shards"),
        (
            "ReplicatedMergeTree('/{db}/{shard}/{replica}', '1') ORDER BY a",
            "missing on one of them",
        ),
        ("Memory", "is a Memory on shard 1 replica 1"),
        ("View", "is a View on shard 1 replica 1"),
    ],
)
def test_tables_that_cannot_be_loaded(
    cluster22: Lab, login: Log, engine: str, message: str
) -> None:
    at, database = login(cluster22.nodes[0]), new_database()
    at.run(f"CREATE DATABASE {database} ON CLUSTER lab")
    engine = engine.replace("{db}", database)
    if engine == "View":
        at.run(f"CREATE VIEW {database}.t ON CLUSTER lab AS SELECT 1 AS a")
    else:
        at.run(f"CREATE TABLE {database}.t ON CLUSTER lab (a UInt64) ENGINE = {engine}")
    with pytest.raises(TargetError, match=message):
        find_tables(at.asks, at.cluster(), database, "t")


def test_no_right_for_on_cluster(cluster4: Lab, login: Log) -> None:
    database = new_database()
    account = add_user(
        cluster4.nodes, "no_cluster", "REMOTE ON *.*", "SELECT ON system.*", f"ALL ON {database}.*"
    )
    at = login(cluster4.nodes[0], account)
    with pytest.raises(TargetError, match=r"lacks the grant CLUSTER ON \*\.\*") as caught:
        make(at, database)
    assert f"database {database}" in caught.value.message
    assert "GRANT CLUSTER ON *.* TO no_cluster" in (caught.value.hint or "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["never_throw", "throw"])
def test_a_node_that_hangs_is_named(cluster4: Lab, login: Log, mode: str) -> None:
    """``throw`` ends in error 159, as where a profile does not let the mode be chosen."""
    at, database = login(cluster4.nodes[0]), new_database()

    def run(sql: str, settings: Mapping[str, str | int | float]) -> list[list[object]]:
        return at.run(sql, {**settings, "distributed_ddl_output_mode": mode,
                            "distributed_ddl_task_timeout": 2})  # fmt: skip

    cluster = at.cluster()
    (ddl, *_) = create_statements(find_tables(at.asks, cluster, database, "t"), cluster, SCHEMA)
    with paused(cluster4.nodes[3]):
        with pytest.raises(
            TargetError, match=r"not made in time .* by shard 4 replica 1"
        ) as caught:
            run_on_cluster(run, at.asks, cluster, ddl, patience=4)
        assert "shard 1" not in caught.value.message
        assert caught.value.transient
    assert run_on_cluster(run, at.asks, cluster, ddl, patience=20) == ()
    show = f"SELECT count() FROM system.databases WHERE name = '{database}'"
    assert cluster4.nodes[3].query(show) == "1\n"


def test_a_node_that_was_slow_is_waited_for(cluster4: Lab, login: Log) -> None:
    at, database, cluster = login(cluster4.nodes[0]), new_database(), None
    cluster = at.cluster()
    (ddl, *_) = create_statements(find_tables(at.asks, cluster, database, "t"), cluster, SCHEMA)

    def run(sql: str, settings: Mapping[str, str | int | float]) -> list[list[object]]:
        with paused(cluster4.nodes[3]):
            return at.run(sql, {**settings, "distributed_ddl_task_timeout": 1})

    assert run_on_cluster(run, at.asks, cluster, ddl, patience=20) == ()
    show = f"SELECT count() FROM system.databases WHERE name = '{database}'"
    assert cluster4.nodes[3].query(show) == "1\n"


@pytest.mark.long
def test_a_node_that_is_down_is_left_behind(cluster4: Lab, login: Log) -> None:
    at, database = login(cluster4.nodes[0]), new_database()
    show = f"SELECT count() FROM system.databases WHERE name = '{database}'"
    with down(cluster4.nodes[2]):
        cluster = at.cluster()
        tables = find_tables(at.asks, cluster, database, "t")
        assert len(tables.own.missing) == 3
        (ddl, *_) = create_statements(tables, cluster, SCHEMA)
        assert run_on_cluster(at.run, at.asks, cluster, ddl) == (cluster.nodes[2],)
    wait_until(lambda: cluster4.nodes[2].query(show) == "1\n", 20, "the queue")


def test_a_node_that_refuses_is_named(cluster4: Lab, login: Log) -> None:
    at, database = login(cluster4.nodes[0]), new_database()
    cluster4.nodes[1].query(f"CREATE DATABASE {database}")
    make_it = f"CREATE DATABASE {database} ON CLUSTER lab"
    with pytest.raises(TargetError, match=r"made on shard 2 replica 1 .*already exists") as caught:
        run_on_cluster(at.run, at.asks, at.cluster(), Ddl("database", make_it, ""))
    assert caught.value.code == 82


def test_what_a_dead_server_left_in_keeper_is_told(cluster22: Lab, login: Log) -> None:
    at, database = login(cluster22.nodes[0]), new_database()
    cluster22.nodes[0].query(f"CREATE DATABASE {database} ON CLUSTER lab")
    columns = "(a UInt8) ENGINE = ReplicatedMergeTree('/left/{database}/{shard}', '{replica}')"
    cluster22.nodes[3].query(f"CREATE TABLE {database}.other {columns} ORDER BY a")
    make_it = f"CREATE TABLE {database}.t ON CLUSTER lab {columns} ORDER BY a"
    with pytest.raises(TargetError, match="cannot be made on shard 2 replica 2") as caught:
        run_on_cluster(at.run, at.asks, at.cluster(), Ddl("table", make_it, ""))
    assert caught.value.code == 253
    assert "SYSTEM DROP REPLICA" in (caught.value.hint or "")
    cluster22.nodes[0].query(f"DROP DATABASE {database} ON CLUSTER lab SYNC")


def test_keeper_is_away(cluster22: Lab, login: Log) -> None:
    """It runs in the first node."""
    at, database = login(cluster22.nodes[1]), new_database()
    with down(cluster22.nodes[0]):
        cluster = at.cluster()
        assert [bool(node.error) for node in cluster.nodes] == [True, False, False, False]
        (ddl, *_) = create_statements(find_tables(at.asks, cluster, database, "t"), cluster, SCHEMA)
        with pytest.raises(TargetError, match="Keeper does not answer") as caught:
            run_on_cluster(at.run, at.asks, cluster, ddl)
        assert caught.value.transient
    wait_until(lambda: healthy(cluster22), 30, "ON CLUSTER to work again")
    assert make(at, database)[0].complete


@pytest.fixture(scope="module")
def loose() -> Iterator[list[ClickHouse]]:
    """Two servers that know each other, without a Keeper but with HTTPS."""
    nodes = [ClickHouse(memory=1_000_000_000, tls=True) for _ in range(2)]
    shards = "".join(
        f"<shard><replica><host>127.0.0.1</host><port>{node.tcp_port}</port></replica></shard>"
        for node in nodes
    )
    servers = f"<lab><secret>between-servers-0123</secret>{shards}</lab>"
    more = f"<remote_servers>{servers}</remote_servers></clickhouse>"
    try:
        for node in nodes:
            node._config.write_text(node._config.read_text().replace("</clickhouse>", more))
            node.start()
        yield nodes
    finally:
        for node in nodes:
            node.close()


def test_without_a_keeper_each_node_is_told(loose: list[ClickHouse], login: Log) -> None:
    at, database = login(loose[0]), new_database()
    cluster: Cluster = at.cluster()
    done = create_statements(find_tables(at.asks, cluster, database, "t"), cluster, SCHEMA)
    with pytest.raises(TargetError, match="no Zookeeper") as caught:
        run_on_cluster(at.run, at.asks, cluster, done[0])
    assert "each node" in (caught.value.hint or "")

    def each(node: Node, sql: str) -> None:
        loose[node.shard - 1].query(sql)

    for ddl in done:
        assert run_on_cluster(at.run, at.asks, cluster, ddl, each=each) == ()
    tables = find_tables(at.asks, cluster, database, "t")
    assert tables.complete
    assert tables.own.engine.name == "MergeTree"
    replicated = find_tables(at.asks, cluster, database, "r")
    (ddl, _) = create_statements(replicated, cluster, SCHEMA, replicated=False)
    assert ddl.what == f"table {database}.r_local"


def test_whoever_wants_tls_gets_no_other_port(
    loose: list[ClickHouse], cluster4: Lab, login: Log
) -> None:
    at = login(loose[1])
    secure = discover(at.asks, "lab", tls=True)
    assert [(node.http_port, node.tls) for node in secure.nodes] == [
        (node.https_port, True) for node in loose
    ]
    assert [(node.http_port, node.tls) for node in at.cluster().nodes] == [
        (node.http_port, False) for node in loose
    ]
    plain = discover(login(cluster4.nodes[0]).asks, "lab", tls=True)
    assert [(node.http_port, node.error) for node in plain.nodes] == [(0, None)] * 4
