"""A cluster put together from what its nodes answer."""

from __future__ import annotations

from typing import Any

import pytest

from rowfall.cluster.topology import causes, discover
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.model import Ask

SHAPE = [
    [1, 1, "a", 9000, 1],
    [1, 2, "b", 9000, 1],
    [2, 1, "a", 9001, 1],
    [2, 2, "b", 9001, 1],
]
FACTS = ["24.10.2.80", 8, 0, 0, "UTC", 8123]


def answers(
    facts: list[list[Any]] | RowfallError,
    *,
    shape: list[list[Any]] = SHAPE,
    more: list[list[Any]] | RowfallError = [],  # noqa: B006 - never changed
) -> Ask:
    """What a server would say to each question."""

    def asks(text: str) -> list[list[Any]]:
        answer: list[list[Any]] | RowfallError
        if "FROM system.clusters WHERE" in text:
            return shape
        if "view(" not in text:
            answer = EngineError("All connection tries failed", code=279)
        else:
            answer = facts if "version()" in text else more
        if isinstance(answer, RowfallError):
            raise answer
        return answer

    return asks


def test_answers_in_any_order_reach_their_nodes() -> None:
    facts = [[n, "24.10.2.80", n, 0, 0, f"zone{n}", 8000 + n] for n in (3, 1, 4, 2)]
    more = [[n, "macro", "shard", f"s{n}"] for n in (2, 4, 1, 3)]
    cluster = discover(answers(facts, more=more), "c")
    assert [
        (
            n.shard,
            n.replica,
            n.address,
            n.facts.cores,
            n.facts.timezone,
            n.http_port,
            n.facts.macros["shard"],
        )
        for n in cluster.nodes
    ] == [
        (1, 1, "a:9000", 1, "zone1", 8001, "s1"),
        (1, 2, "b:9000", 2, "zone2", 8002, "s2"),
        (2, 1, "a:9001", 3, "zone3", 8003, "s3"),
        (2, 2, "b:9001", 4, "zone4", 8004, "s4"),
    ]
    assert cluster.nodes[2].name == "shard 2 replica 1 (a:9001)"


@pytest.mark.parametrize(
    ("more", "memory"),
    [
        ([], 8 << 30),  # nothing is known: 1 GiB a core
        ([["limit", "1000"], ["held", "-24"], ["free", "4000"]], 512),
        ([["limit", "0"], ["held", "300"], ["free", "4000"]], 2000),
        ([["limit", "9000"], ["held", "300"], ["free", "4000"]], 2000),
    ],
)
def test_memory_is_half_of_what_is_left(more: list[list[str]], memory: int) -> None:
    rows = [[1, "memory", *row] for row in more]
    asks = answers([[1, *FACTS]], shape=SHAPE[:1], more=rows)
    assert discover(asks, "c").nodes[0].facts.memory == memory


def test_nodes_without_an_answer() -> None:
    cluster = discover(answers([[2, *FACTS]]), "c")
    assert [bool(node.error) for node in cluster.nodes] == [True, False, True, True]
    assert cluster.lost == (2,)
    assert cluster.up == (cluster.nodes[1],)


def test_no_node_answers() -> None:
    with pytest.raises(TargetError, match="no node of the cluster 'c' answers") as caught:
        discover(answers(EngineError("nobody", code=519)), "c")
    assert caught.value.transient


def test_different_versions() -> None:
    facts = [[n, f"24.{7 + n}.1.1", *FACTS[1:]] for n in (1, 2, 3, 4)]
    assert [node.facts.version for node in discover(answers(facts), "c").up] == [
        "24.8.1.1", "24.9.1.1", "24.10.1.1", "24.11.1.1"
    ]  # fmt: skip
    facts[2][1] = "24.3.2.1"
    with pytest.raises(TargetError, match=r"shard 2 replica 1 \(a:9001\) is 24\.3\.2\.1") as caught:
        discover(answers(facts), "c")
    assert "24.8" in (caught.value.hint or "")


def test_a_server_with_two_shards() -> None:
    shape = [[1, 1, "a", 9000, 1], [2, 1, "a", 9000, 1]]
    with pytest.raises(TargetError, match="more than once: shard 1 replica 1, shard 2 replica 1"):
        discover(answers([], shape=shape), "c")


def test_shards_that_replicate_differently() -> None:
    shape = [[1, 1, "a", 9000, 1], [2, 1, "b", 9000, 0]]
    asks = answers([[1, *FACTS], [2, *FACTS]], shape=shape)
    assert discover(asks, "c").internal_replication is None


def test_https_only_where_the_user_wants_tls() -> None:
    asked = []

    def asks(text: str) -> list[list[Any]]:
        if "getServerPort" in text:
            asked.append("https" if "https_port" in text else "http")
            if "https_port" not in text:
                raise EngineError("There is no port named http_port", code=701)
        return answers([[n, *FACTS[:-1], 8443] for n in (1, 2, 3, 4)])(text)

    assert discover(asks, "c", tls=True).nodes[0].tls
    assert asked == ["https"]
    assert discover(asks, "c").nodes[3].http_port == 8443
    assert asked == ["https", "http", "https"]


def test_why_nodes_do_not_answer() -> None:
    # As 24.10 says it.
    text = (
        "All attempts to get table structure failed. Log: \n\n"
        "Code: 279. DB::NetException: All connection tries failed. Log: \n\n"
        "Code: 210. DB::NetException: Connection refused (127.0.0.1:1). (NETWORK_ERROR)\n\n"
        "Code: 198. DB::NetException: Not found address of host: nosuch: (nosuch:9000). (DNS)\n"
        "Timeout exceeded while reading from socket (socket (10.0.0.7:9000), receive timeout 1 ms)"
    )
    assert causes(text) == {
        "127.0.0.1:1": "connection refused",
        "nosuch:9000": "not found address of host: nosuch",
        "10.0.0.7:9000": "timeout exceeded while reading from socket",
    }
