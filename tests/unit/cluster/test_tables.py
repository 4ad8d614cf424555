"""Engines as the server writes them, and what is made of what the nodes have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.cluster.ddl import Ddl, create_statements, local_schema, run_on_cluster
from rowfall.cluster.tables import (
    ClusterTables,
    Distributed,
    TableEngine,
    distributed,
    expand_macros,
    find_tables,
    literal_value,
    macros_of,
    parse_engine,
)
from rowfall.cluster.topology import Cluster, Node, NodeFacts
from rowfall.core.errors import TargetError
from rowfall.core.model import Ask, Column, Schema, TableLayout
from rowfall.core.sqltext import quote

SCHEMA = Schema((Column("a", "UInt8"),))
LOCAL = "ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}')"


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("MergeTree", TableEngine("MergeTree")),
        ("MergeTree() ORDER BY a", TableEngine("MergeTree", (), "ORDER BY a")),
        ("MergeTree ORDER BY (a, b)", TableEngine("MergeTree", (), "ORDER BY (a, b)")),
        (
            "Distributed('c,)', 'd', 't\\'(', cityHash64(a, 'x,)'), 'p') SETTINGS fsync = 1",
            TableEngine(
                "Distributed",
                ("'c,)'", "'d'", "'t\\'('", "cityHash64(a, 'x,)')", "'p'"),
                "SETTINGS fsync = 1",
            ),
        ),
        ("Distributed(c, `d(`, \"t,\")", TableEngine("Distributed", ("c", "`d(`", '"t,"'))),
        (
            "ReplacingMergeTree(tupleElement(a, 1), [b, {c:2}][1]) ORDER BY ()",
            TableEngine(
                "ReplacingMergeTree", ("tupleElement(a, 1)", "[b, {c:2}][1]"), "ORDER BY ()"
            ),
        ),
    ],
)  # fmt: skip
def test_engines_are_taken_apart(text: str, engine: TableEngine) -> None:
    assert parse_engine(text) == engine


@pytest.mark.parametrize("text", ["", "  ", "(a)", "Distributed('c', 'd'", "Distributed('c, d)"])
def test_what_is_no_engine(text: str) -> None:
    with pytest.raises(ValueError, match="engine"):
        parse_engine(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_literals_come_back(names: list[str]) -> None:
    engine = parse_engine(f"Distributed({', '.join(map(quote, names))}) SETTINGS a = 'b'")
    assert [literal_value(argument) for argument in engine.arguments] == names
    assert engine.rest == "SETTINGS a = 'b'"


def test_what_a_distributed_table_stands_for() -> None:
    text = "Distributed('{cluster}', 'd', 'it''s', rand(), 'policy')"
    assert distributed(parse_engine(text)) == Distributed("{cluster}", "d", "it's", "rand()")
    assert distributed(parse_engine("Distributed('c', '', 't')")) == Distributed("c", "", "t", "")
    with pytest.raises(ValueError, match="no Distributed engine"):
        distributed(parse_engine("Distributed('c', 'd')"))


def test_macros() -> None:
    assert macros_of("/{a}/{b}/{a}/x{") == ("a", "b")
    assert expand_macros("{cluster}-{other}", {"cluster": "lab"}) == "lab-{other}"


def test_replicated_engines() -> None:
    path, replica = "'/p'", "'{replica}'"
    assert parse_engine("ReplacingMergeTree(v)").replicate(path, replica).text == (
        "ReplicatedReplacingMergeTree('/p', '{replica}', v)"
    )
    own = parse_engine("ReplicatedSummingMergeTree('/q', 'r', (a, b))")
    assert own.replicate(path, replica) is own
    assert own.meaning == "ReplicatedSummingMergeTree((a, b))"
    assert parse_engine("SharedMergeTree('/q', 'r')").replicated
    assert not parse_engine("Memory").merge_tree


def cluster(*macros: dict[str, str] | None) -> Cluster:
    """Two shards of two replicas; None is a node that is down."""
    nodes = [
        Node(at // 2 + 1, at % 2 + 1, f"h{at}", 9000, facts=NodeFacts(macros=has or {}),
             error=None if has is not None else "gone")
        for at, has in enumerate(macros)
    ]  # fmt: skip
    return Cluster("c", tuple(nodes), True)


def macros(shard: str, replica: str) -> dict[str, str]:
    return {"shard": shard, "replica": replica}


GOOD = [macros("1", "a"), macros("1", "b"), macros("2", "a"), macros("2", "b")]


def test_macros_that_are_right() -> None:
    tables = ClusterTables("d", "t", ("d", "t_local"))
    made = local_schema(tables, cluster(*GOOD[:3], None), SCHEMA, replicated=True)
    assert made.layout.engine == LOCAL
    assert local_schema(tables, cluster({}, {}, {}, {}), SCHEMA, replicated=False) == SCHEMA


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        ([*GOOD[:3], {"shard": "2"}], r"shard 2 replica 2 .* no macro 'replica'", "Add <macros>"),
        ([{}, {}, {}, {}], r"shard 1 replica 1 .* no macro 'shard'", "system.macros"),
        ([*GOOD[:2], macros("1", "c"), GOOD[3]], "the same macro shard = '1'", "every shard"),
        ([GOOD[0], *GOOD[:1], *GOOD[2:]], "the same macro replica = 'a'", "every replica"),
        ([*GOOD[:3], macros("3", "b")], "different macros shard: 2, 3", "the same macro"),
    ],
)
def test_macros_that_are_wrong(wrong: list[dict[str, str]], message: str, hint: str) -> None:
    tables = ClusterTables("d", "t", ("d", "t_local"))
    with pytest.raises(TargetError, match=message) as caught:
        local_schema(tables, cluster(*wrong), SCHEMA, replicated=True)
    assert hint in (caught.value.hint or "")


def test_an_old_database_names_its_tables_in_keeper() -> None:
    whole = cluster(*GOOD)
    tables = ClusterTables(
        "d", "t", ("d", "t_local"), databases={"d": {whole.nodes[1]: "Ordinary"}}
    )
    made = local_schema(tables, whole, SCHEMA, replicated=True)
    assert (
        made.layout.engine
        == "ReplicatedMergeTree('/clickhouse/tables/{shard}/d/t_local', '{replica}')"
    )


def test_an_engine_that_is_no_merge_tree() -> None:
    schema = Schema(SCHEMA.columns, TableLayout("Log"))
    with pytest.raises(TargetError, match="engine Log cannot be loaded into a cluster"):
        local_schema(ClusterTables("d", "t", ("d", "t")), cluster(*GOOD), schema, replicated=True)


def answers(
    engines: dict[int, str], local: dict[int, str], base: str = "Atomic", uuids: str = "1111"
) -> Ask:
    """Nodes with tables of these engines; their uuids end in these digits."""

    def asks(text: str) -> list[list[Any]]:
        if "system.replicas" in text:
            return [[n, f"/path/{(n + 1) // 2}"] for n in local]
        rows: list[list[Any]] = []
        for number in (1, 2, 3, 4):
            rows += [
                [number, "node", *[""] * 7, "0"],
                [number, "database", "d", "", base, *[""] * 4, "0"],
            ]
            for table, has in (("t", engines.get(number)), ("t_local", local.get(number))):
                if not has:
                    continue
                definition = f"CREATE TABLE d.`{table}` (`a` UInt8) ENGINE = {has}"
                uuid = f"00000000-0000-0000-0000-00000000000{uuids[number - 1]}"
                rows += [
                    [number, "column", "d", table, "a", "UInt8", "", "", "", "1"],
                    [number, "table", "d", table, has, uuid, definition, "", "", "0"],
                ]
        return rows

    return asks


def over(cluster: str = "c", database: str = "d", table: str = "t_local") -> str:
    return f"Distributed('{cluster}', '{database}', '{table}', rand())"


@pytest.mark.parametrize(
    ("engines", "message"),
    [
        ([over("other")] * 4, "shows the cluster 'other', not 'c'"),
        ([over("{shard}")] * 4, "shows the cluster '1', not 'c'"),
        ([over("{x}")] * 4, "is unknown on shard 1 replica 1"),
        ([over(database="")] * 4, "names no database"),
        ([over(), over(), over(), "MergeTree"], "engine is MergeTree on shard 2 replica 2"),
        ([over(), over(), over(table="z"), over()], "local table is d.z on shard 2 replica 1"),
    ],
)
def test_distributed_tables_that_cannot_be_used(engines: list[str], message: str) -> None:
    there = dict(enumerate(engines, 1))
    with pytest.raises(TargetError, match=message):
        find_tables(answers(there, {}), cluster(*GOOD), "d", "t")


def test_a_node_that_stops_answering_has_not_lost_its_table() -> None:
    asks = answers({}, dict.fromkeys((1, 2, 3, 4), LOCAL))
    with pytest.raises(
        TargetError, match=r"shard 1 replica 2 .*does not answer any more"
    ) as caught:
        find_tables(
            lambda text: [row for row in asks(text) if row[0] != 2], cluster(*GOOD), "d", "t"
        )
    assert caught.value.transient


def test_a_replica_gets_the_uuid_of_the_others() -> None:
    asks = answers(dict.fromkeys((1, 2, 3, 4), over()), dict.fromkeys((1, 2, 3), LOCAL))
    whole = cluster(*GOOD)
    (ddl,) = create_statements(find_tables(asks, whole, "d", "t"), whole)
    uuid = "UUID '00000000-0000-0000-0000-000000000001'"
    rest = f"(`a` UInt8) ENGINE = {LOCAL}"
    assert ddl.on_cluster == (
        f"CREATE TABLE IF NOT EXISTS `d`.`t_local` {uuid} ON CLUSTER `c` {rest}"
    )
    assert ddl.alone == f"CREATE TABLE IF NOT EXISTS `d`.`t_local` {uuid} {rest}"


def test_a_replica_that_could_not_find_the_others() -> None:
    asks = answers(
        dict.fromkeys((1, 2, 3, 4), over()), dict.fromkeys((1, 2, 3), LOCAL), uuids="1221"
    )
    whole = cluster(*GOOD)
    with pytest.raises(TargetError, match=r"different ones .*0001, .*0002"):
        create_statements(find_tables(asks, whole, "d", "t"), whole)


def test_a_definition_with_a_secret() -> None:
    secret = "MergeTree SETTINGS disk = disk(type = s3, secret_access_key = '[HIDDEN]')"
    whole = Cluster("c", cluster(*GOOD).nodes[::2], True)

    def asks(text: str) -> list[list[Any]]:
        rows = [row for row in answers({1: secret}, {})(text) if row[0] in (1, 3)]
        return [[(row[0] + 1) // 2, *row[1:]] for row in rows]

    with pytest.raises(TargetError, match="its definition holds a secret"):
        create_statements(find_tables(asks, whole, "d", "t"), whole)


def test_a_database_that_replicates_itself() -> None:
    whole = cluster(*GOOD)
    tables = find_tables(answers({}, {}, base="Replicated"), whole, "d", "t")
    with pytest.raises(TargetError, match="the database d is Replicated"):
        create_statements(tables, whole, SCHEMA)


def test_a_host_that_is_not_of_the_cluster_as_it_was_seen() -> None:
    """Whoever has not done it is waited for, by whatever name."""
    rows = [["h0", 9000, 0, "", 1, 0], ["moved", 9000, None, None, 1, 0]]
    with pytest.raises(TargetError, match="not made in time ON CLUSTER c by moved:9000"):
        run_on_cluster(
            lambda *_: rows, lambda _: [], cluster(*GOOD), Ddl("table d.t", "", ""), patience=-1
        )
