"""Plans a listing of N synthetic objects, as a process of its own so that its memory is its own.

    python bench/plan_probe.py 1000000

Prints one JSON object: seconds to build the listing, seconds to plan, peak bytes of the process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rowfall.contracts.facts import LoadFacts, WriterFacts
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Facts, Kind, Schema, TableLayout
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.destinations import open_destination
from rowfall.plan.planner import make_plan
from rowfall.systems.clickhouse.target import embedded

_SIZE = 25_000_000
_SCHEMA = Schema(
    (Column("a", "UInt32"), Column("b", "DateTime"), Column("c", "String")),
    layout=TableLayout(order_by="b"),
)


class Objects:
    """The smallest source: what a bucket's listing would have said."""

    text = "s3://bucket/year=*/month=*/*.csv.gz"
    remote = True
    replayable = True
    secrets: tuple[Secret, ...] = ()
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    notes: tuple[str, ...] = ()

    def __init__(self, count: int) -> None:
        self.count = count

    def listing(self) -> Listing:
        listing = Listing()
        for n in range(self.count):
            month = n * 12 // self.count + 1
            uri = f"s3://bucket/year=2024/month={month:02}/part-{n:06}.csv.gz"
            # 32 hex digits, all different, as ETags are.
            etag = f"{n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"
            listing.add(uri, etag, _SIZE + n % 1000)
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        return Encoding("CSV", "gzip", Kind.TEXT)

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return list(listing.splits("", range(min(most, len(listing)))))

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        return SqlText.of("s3(", ", ".join(quote(split.uri) for split in splits), ")")

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        return []


def main() -> None:
    count = int(sys.argv[1])
    source = Objects(count)
    start = time.perf_counter()
    listing = source.listing()
    listed = time.perf_counter()
    target = embedded(Path("/data"), "default", "t")
    facts = Facts("26.9.2.1", 8, 16 << 30)
    known = LoadFacts(
        source, target, open_destination(target), listing, source.encoding(listing), _SCHEMA,
        (WriterFacts(facts),),
        remote=True,
    )  # fmt: skip
    plan = make_plan(known, Options())
    planned = time.perf_counter()
    if sum(len(group.indexes) for group in plan.work.groups) != count:
        raise SystemExit("the plan does not hold every object once")
    print(
        json.dumps(
            {
                "objects": count,
                "attempts": len(plan.work.groups),
                "listing_seconds": listed - start,
                "plan_seconds": planned - listed,
                "peak": _peak(),
            }
        )
    )


def _peak() -> int:
    """The kernel's high-water mark of this process; getrusage would know the parent's as well."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("the kernel does not tell the peak memory")


if __name__ == "__main__":
    main()
