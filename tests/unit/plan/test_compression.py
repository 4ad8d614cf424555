"""Whether blocks are compressed: what the network carries against what the cores here make."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.model import Column, Facts, Listing, Schema
from rowfall.core.options import Options
from rowfall.plan import compression
from rowfall.plan.inputs import Inputs, Link
from rowfall.targets.table import embedded
from unit.plan.test_planner import CSV_GZ, Files


def choose(
    link: Link | None, obstacle: str = "", *, cores: int = 1, wish: str = "auto"
) -> tuple[str, str]:
    source, options = Files([1]), Options(compress=wish)
    target, schema = embedded(Path("/data"), "default", "t"), Schema((Column("a", "UInt32"),))
    facts = Facts("26.9.2.1", 4, 8 << 30)
    inputs = Inputs(
        source, target, Listing(), CSV_GZ, schema, facts, options, cores_here=cores, link=link
    )
    return compression.choose(inputs, obstacle, 8)


@pytest.mark.parametrize(
    ("link", "cores", "chosen"),
    [
        (Link(near=True), 1, "none"),
        (Link(rate=118e6), 2, "lz4"),  # 1 Gbit/s
        (Link(rate=118e6), 1, "none"),
        (Link(rate=1.25e9), 8, "none"),
        (Link(rate=0.9e9), 64, "lz4"),
        (Link(rate=1.25e9), 64, "none"),  # no more than 8 streams
        (Link(), 1, "lz4"),
    ],
)
def test_the_slower_one_decides(link: Link, cores: int, chosen: str) -> None:
    compress, why = choose(link, cores=cores)
    assert compress == chosen
    assert why


def test_the_reason_has_both_rates() -> None:
    _, why = choose(Link(rate=118e6), cores=2)
    assert why == "the network takes 118 MB/s, 2 cores make 230 MB/s of blocks"


@pytest.mark.parametrize("wish", ["lz4", "none"])
def test_a_wish_counts(wish: str) -> None:
    assert choose(None, wish=wish) == (wish, f"as asked for with --compress {wish}")


def test_there_may_be_no_blocks() -> None:
    assert choose(None, "files go as they are") == ("", "")
    assert choose(None, "files go as they are", wish="none") == ("", "")
    with pytest.raises(UsageError, match="no blocks to compress: files go as they are"):
        choose(None, "files go as they are", wish="lz4")
