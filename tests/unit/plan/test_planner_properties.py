"""The planner is fed made-up facts: whatever they are, the plan holds what it promises.

Nothing is read, asked or measured meanwhile: everything that could is made to fail.
"""

from __future__ import annotations

import builtins
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gate import ALL
from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.facts import (
    ClusterFacts,
    LoadFacts,
    NetworkLink,
    Reach,
    ShardingFacts,
    TargetFacts,
    ViewFacts,
    WriterFacts,
)
from rowfall.core.errors import RowfallError
from rowfall.core.listing import Listing, Part, Split
from rowfall.core.masked import Secret
from rowfall.core.model import (
    BUILD,
    HERE,
    INSIDE,
    PULL,
    PUSH,
    Choice,
    Encoding,
    Facts,
    Kind,
    Plan,
    Schema,
    TableLayout,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.destinations import open_destination
from rowfall.engines.base import ExistingTable
from rowfall.plan.planner import make_plan
from rowfall.plan.settings import ENGINE_BASE, LEAST_MEMORY
from rowfall.schema.types.strict_reading import strict_column
from rowfall.sources.base import HttpAddress
from rowfall.targets import open_target
from unit.plan.test_planner import Files

ENCODINGS = (
    Encoding("CSV", "gzip", Kind.TEXT),
    Encoding("CSVWithNames", "none", Kind.TEXT),
    Encoding("CSVWithNames", "zstd", Kind.TEXT),
    Encoding("TSV", "none", Kind.TEXT),
    Encoding("JSONEachRow", "none", Kind.JSON),
    Encoding("Parquet", "none", Kind.TYPED),
    Encoding("ORC", "gzip", Kind.TYPED),
)
TYPES = ("UInt32", "String", "Float64", "Nullable(Int64)", "DateTime", "Array(UInt8)", "Int256")
TARGETS = ("./data", "./data", "null:", "clickhouse://h/d", "clickhouse://h/d?cluster=c")


class Stored(Files):
    """Files that other machines read by plain HTTP."""

    def __init__(self, sizes: Sequence[int], scheme: str) -> None:
        super().__init__(sizes)
        self.scheme = scheme

    def listing(self) -> Listing:
        listing = Listing()
        for number, size in enumerate(self.sizes):
            listing.add(f"{self.scheme}{number:06}.csv", f"etag{number}", size)
        return listing

    def addresses(self, splits: Sequence[Split]) -> list[HttpAddress]:
        return [HttpAddress(Secret(f"https://h/{split.uri}")) for split in splits]


@st.composite
def listings(draw: st.DrawFn, sizes: Sequence[int], source: Files, encoding: Encoding) -> Listing:
    """Whole files, some of them cut into ranges of bytes or of rows."""
    found = Listing()
    for split in source.listing().splits(""):
        size = split.size or 0
        if size < 100 or not draw(st.booleans()):
            found.add(split.uri, split.version, split.size)
            continue
        edges = sorted({0, size, *draw(st.lists(st.integers(1, size - 1), max_size=4))})
        column = "a" if encoding.kind is Kind.TYPED else ""
        for start, stop in pairwise(edges):
            part = Part(size, column, str(start), str(stop))
            found.add(split.uri, split.version, stop - start, start, stop, part)
    return found


@st.composite
def writers(draw: st.DrawFn, target: str) -> tuple[WriterFacts, ...]:
    """One engine, or some of a cluster, with whatever cores and memory they have."""
    count = draw(st.integers(1, 6)) if "cluster" in target else 1
    kind = "server" if "clickhouse" in target else "embedded"

    def engine() -> Facts:
        return Facts(
            draw(st.sampled_from(("24.8.1.1", "24.10.2.80", "26.9.2.1"))),
            draw(st.integers(1, 128)),
            draw(st.integers(LEAST_MEMORY, 1 << 40)),
            timezone=draw(st.sampled_from(("UTC", "Europe/Berlin", ""))),
        )

    return tuple(
        WriterFacts(
            engine(), kind, n + 1 if "cluster" in target else 0, f"n{n}:9000" if count > 1 else "",
            draw(st.sampled_from((*[None] * 8, "is only reached through the entry"))),
            draw(st.sampled_from((None, "the server has no rowfall-decode"))),
            NetworkLink(draw(st.booleans()), draw(st.sampled_from((None, 1e6, 118e6, 3e9)))),
            draw(st.booleans()),
        )
        for n in range(count)
    )  # fmt: skip


@st.composite
def tables(draw: st.DrawFn, schema: Schema, target: str) -> TargetFacts:
    if target == "null:":
        return TargetFacts()
    columns = ", ".join(f"`{c.name}` {c.type}" for c in schema.columns)
    engine = "MergeTree ORDER BY c0 SETTINGS index_granularity = 8192"
    existing = ExistingTable(
        f"CREATE TABLE d.t ({columns}) ENGINE = {engine}",
        engine,
        draw(st.sampled_from(("c0", "cityHash64(c0)", ""))),
        tuple((c.name, c.type, "") for c in schema.columns),
    )
    views = draw(st.sampled_from(((), ("d.v",))))
    return TargetFacts("t", existing if schema.exists else None, ViewFacts(views))


@st.composite
def loads(draw: st.DrawFn) -> LoadFacts:
    target = draw(st.sampled_from(TARGETS))
    encoding = draw(st.sampled_from(ENCODINGS))
    sizes = draw(st.lists(st.integers(0, 60_000_000_000), min_size=1, max_size=60))
    scheme = draw(st.sampled_from(("/data/", "s3://b/", "https://h/")))
    source = Stored(sizes, scheme) if draw(st.booleans()) else Files(sizes)
    listing = draw(listings(sizes, source, encoding))
    loaded = draw(st.sets(st.integers(0, len(listing) - 1)))
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=8))
    schema = Schema(
        tuple(strict_column(f"c{n}", f"c{n}", t, encoding.kind) for n, t in enumerate(types)),
        layout=TableLayout(
            order_by=draw(st.sampled_from(("c0", "tuple()", "(c0)", "cityHash64(c0)"))),
            partitions=draw(st.sampled_from((1, 12, 5000))),
        ),
        exists=draw(st.booleans()),
        row_bytes=draw(st.floats(1, 100_000)),
    )
    stored = draw(writers(target))
    reach = sharding = None
    if "clickhouse" in target:
        pull = draw(st.booleans())
        reach = Reach(pull, "the server says so", source)
    if "cluster" in target and draw(st.booleans()):
        weights = tuple(draw(st.integers(1, 3)) for _ in stored)
        sharding = ShardingFacts(
            ShardingKey("c", draw(st.sampled_from(("c0", "rand() + c0"))), weights),
            draw(st.sampled_from((None, "it cannot be computed"))),
            draw(st.booleans()),
        )
    opened = open_target(target, "t", Options())
    return LoadFacts(
        source, opened, open_destination(opened), listing, encoding, schema, stored,
        replace(draw(tables(schema, target)), cluster=ClusterFacts(sharding=sharding)), reach,
        loaded=frozenset(loaded),
        remote=not scheme.startswith("/"), cores_here=draw(st.integers(1, 64)),
        program=draw(st.sampled_from((None, "/usr/bin/rowfall-decode"))),
    )  # fmt: skip


wishes = st.builds(
    Options,
    decoder=st.sampled_from(("auto", "auto", "auto", "auto", "never", "always")),
    presort=st.sampled_from(("auto", "auto", "auto", "auto", "off", "on")),
    build=st.sampled_from(("auto", "auto", "auto", "auto", "off", "on")),
    compress=st.sampled_from(("auto", "auto", "auto", "auto", "lz4", "none")),
    method=st.sampled_from(("local", "local", FILTER, DISTRIBUTED)),
    streams=st.sampled_from((None, 1, 12)),
    attempt_bytes=st.sampled_from((None, "1", "10MB", "3GB")),
    max_errors=st.sampled_from((None, 3)),
    direct=st.booleans(),
    pull=st.sampled_from((False, False, True)),
)


@contextmanager
def nothing_outside() -> Iterator[None]:
    """Everything that would read, ask or measure something raises."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"the planner has gone outside: {args}")

    names: list[tuple[Any, str]] = [
        (builtins, "open"), (os, "open"), (os, "stat"), (os, "getenv"), (os, "listdir"),
        (os, "sched_getaffinity"), (os, "cpu_count"), (os, "urandom"), (shutil, "which"),
        (socket, "socket"), (subprocess, "Popen"), (time, "time"), (time, "monotonic"),
        (time, "perf_counter"), (time, "process_time"), (Path, "exists"), (Path, "is_file"),
    ]  # fmt: skip
    with ExitStack() as stack:
        for owner, name in names:
            stack.enter_context(mock.patch.object(owner, name, refuse))
        yield


def planned(facts: LoadFacts, options: Options) -> Plan | str:
    """The plan, or what is said in its place."""
    try:
        with nothing_outside():
            return make_plan(facts, options)
    except RowfallError as error:
        return error.message


@settings(max_examples=300 if ALL else 100, deadline=None)
@given(facts=loads(), options=wishes)
def test_a_plan_of_any_facts(facts: LoadFacts, options: Options) -> None:
    plan = planned(facts, options)
    assert planned(facts, options) == plan, "the same facts give the same plan"
    assume(not isinstance(plan, str))
    assert isinstance(plan, Plan)
    covers_everything_once(facts, plan)
    fits_the_machines(facts, plan)
    travels_as_it_can(facts, plan)


def covers_everything_once(facts: LoadFacts, plan: Plan) -> None:
    indexes = [i for group in plan.work.groups for i in group.indexes]
    assert sorted(indexes) == facts.todo
    spans: dict[str, list[tuple[int, int]]] = {}
    for index in (*indexes, *facts.loaded):
        split = plan.listing.split(index, "")
        start, stop = split.start or 0, split.size or 0
        spans.setdefault(split.uri, []).append((start, split.stop or stop))
    for own in spans.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(own))), "ranges overlap"
    assert {group.writer for group in plan.work.groups} <= set(range(len(plan.work.writers)))
    assert [w.node for w in plan.work.writers] == [w.node for w in facts.writers]
    for group in plan.work.groups:
        ranges = {plan.listing.part(i) is not None for i in group.indexes}
        assert len(ranges) == 1, "rows of ranges are checked in another way than those of files"
    if plan.transport.sharding.value == FILTER:
        assert {group.writer for group in plan.work.groups} <= {0}
    elif len(facts.writers) > 1:
        assert sum(writer.splits for writer in plan.work.writers) == len(facts.todo)


def fits_the_machines(facts: LoadFacts, plan: Plan) -> None:
    assert plan.forecast.memory <= max(writer.engine.memory for writer in facts.writers)
    for writer, known in zip(plan.work.writers, facts.writers, strict=True):
        values = {s.name: s.value for s in writer.settings}
        assert all(s.reason for s in writer.settings)
        engine = known.engine
        streams = max(1, plan.transport.streams)
        share = ENGINE_BASE + max(0, engine.memory - ENGINE_BASE) // streams
        assert 0 < int(values["max_memory_usage"]) <= share
        threads = int(values["max_insert_threads"])
        assert 1 <= threads <= engine.cores
        assert 1 <= int(values["max_threads"]) <= engine.cores
        least = 8 << 20
        blocks = threads * int(values["min_insert_block_size_bytes"])
        assert blocks <= max(threads * least, share - ENGINE_BASE)


def travels_as_it_can(facts: LoadFacts, plan: Plan) -> None:
    transport = plan.transport
    choices = [getattr(transport, f.name) for f in fields(transport)]
    assert all(choice.reason for choice in choices if isinstance(choice, Choice))
    delivery, parser = transport.delivery.value, transport.parser.value
    on_server = facts.placement != "embedded"
    assert delivery in ((PULL, PUSH) if on_server else (PULL, BUILD))
    if parser == INSIDE:
        assert on_server
        assert delivery == PULL
        assert all(writer.no_decoder is None for writer in facts.writers)
    if parser == HERE:
        assert facts.program
        assert delivery == PUSH or not on_server
    if delivery == PUSH:
        assert not facts.rows_refused
        assert transport.streams >= 1
        assert transport.fallback.value == PUSH
    else:
        assert transport.streams == 0
        assert not transport.compression.value
    if delivery == BUILD:
        assert facts.program  # it writes the parts, whoever has parsed
    if delivery != BUILD:  # parts are sorted by expressions, too
        assert set(transport.sort.by) <= {column.name for column in plan.schema.columns}
    assert bool(transport.sort.by) == (transport.sort.value == "sorted")
    assert (transport.sharding.value in (FILTER, DISTRIBUTED)) == (facts.sharding is not None)
