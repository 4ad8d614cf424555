"""Whether blocks are compressed: what the network carries against what the cores here make."""

from __future__ import annotations

import pytest

from rowfall.contracts.facts import (
    DatabaseFacts,
    LoadFacts,
    NetworkLink,
    Reach,
    TargetFacts,
    WriterFacts,
)
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import Choice, Column, Encoding, Facts, Kind, Schema, Transport
from rowfall.core.options import Options
from rowfall.destinations import open_destination
from rowfall.destinations.clickhouse.server import ServerTables
from rowfall.plan.transport import choose_reading, choose_transport
from rowfall.targets import open_target
from unit.plan.test_planner import CSV_GZ, Files

FACTS = Facts("26.9.2.1", 8, 8 << 30)
PARQUET = Encoding("Parquet", "none", Kind.TYPED)


def _transport(facts: LoadFacts, options: Options) -> Transport:
    return choose_transport(facts, options, choose_reading(facts, options))


def choose(
    *rates: float | None, near: bool = False, cores: int = 1, wish: str = "auto",
    encoding: Encoding = PARQUET, todo: bool = True,
) -> Choice:  # fmt: skip
    """What is chosen for files that are read here and sent to servers with these links."""
    source = Files([1, 2])
    listing = source.listing()
    facts = LoadFacts(
        source, open_target("clickhouse://h/d", "t", Options()), ServerTables(),
        listing if todo else Listing(), encoding, Schema((Column("a", "UInt32"),)),
        tuple(WriterFacts(FACTS, "server", link=NetworkLink(near, rate)) for rate in rates),
        reach=Reach(False, "it cannot", source), cores_here=cores,
    )  # fmt: skip
    return _transport(facts, Options(compress=wish, streams=8)).compression


@pytest.mark.parametrize(
    ("rate", "cores", "chosen"),
    [
        (118e6, 2, "lz4"),  # 1 Gbit/s
        (118e6, 1, "none"),
        (1.25e9, 8, "none"),
        (0.9e9, 64, "lz4"),
        (1.25e9, 64, "none"),  # no more than 8 streams
        (None, 1, "lz4"),
    ],
)
def test_the_slower_one_decides(rate: float | None, cores: int, chosen: str) -> None:
    found = choose(rate, cores=cores)
    assert found.value == chosen
    assert found.reason


def test_on_this_machine_there_is_no_network() -> None:
    assert choose(None, near=True) == Choice("none", "the server is on this machine")


def test_the_slowest_of_several_servers_counts() -> None:
    assert choose(1.25e9, 50e6).value == "lz4"
    assert choose(1.25e9, None).value == "lz4"


def test_the_reason_has_both_rates() -> None:
    reason = choose(118e6, cores=2).reason
    assert reason == "the network takes 118 MB/s, 2 cores make 230 MB/s of blocks"


@pytest.mark.parametrize(
    ("link", "wish", "found"),
    [
        (NetworkLink(near=True), "auto", ("none", "the server is on this machine")),
        (NetworkLink(), "auto", ("none", "the network could not be measured")),
        (NetworkLink(rate=50e6), "auto", ("zlib", "the network takes 50.0 MB/s, 2 cores pack 70")),
        (NetworkLink(rate=1.25e9), "auto", ("none", "the network takes 1.25 GB/s, 2 cores pack")),
        (NetworkLink(near=True), "zlib", ("zlib", "as asked for")),
        (NetworkLink(), "none", ("none", "as asked for")),
    ],
)
def test_the_protocol_of_mysql(link: NetworkLink, wish: str, found: tuple[str, str]) -> None:
    source = Files([1, 2])
    target = open_target("mysql://u:p@h/d", "t", Options())
    facts = LoadFacts(
        source, target, open_destination(target), source.listing(), CSV_GZ,
        Schema((Column("a", "UInt32"),)), (WriterFacts(FACTS, "embedded"),),
        TargetFacts("t", database=DatabaseFacts(link=link)), cores_here=2,
    )  # fmt: skip
    chosen = _transport(facts, Options(compress=wish)).compression
    assert (chosen.value, chosen.reason[: len(found[1])]) == found


def test_zlib_is_for_the_protocol_of_mysql() -> None:
    with pytest.raises(UsageError, match="only the protocol of MySQL"):
        choose(None, wish="zlib")


@pytest.mark.parametrize("wish", ["lz4", "none"])
def test_a_wish_counts(wish: str) -> None:
    assert choose(None, wish=wish) == Choice(wish, f"as asked for with --compress {wish}")


def test_there_may_be_no_blocks() -> None:
    as_is = "files go as they are, the server unpacks and parses them"
    one = Encoding("CSV", "gzip", CSV_GZ.kind)
    assert choose(None, encoding=one, todo=False).value == ""
    big = Files([50_000_000])
    facts = LoadFacts(
        big, open_target("clickhouse://h/d", "t", Options()), ServerTables(),
        big.listing(), one, Schema((Column("a", "UInt32"),)), (WriterFacts(FACTS, "server"),),
        reach=Reach(False, "it cannot", big),
    )  # fmt: skip
    for wish in ("auto", "none"):
        assert _transport(facts, Options(compress=wish)).compression == Choice("", as_is)
    with pytest.raises(UsageError, match=f"no blocks to compress: {as_is}"):
        _transport(facts, Options(compress="lz4"))
