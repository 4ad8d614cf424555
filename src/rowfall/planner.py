"""The planner: a pure function of listing, schema, target facts, engine facts and options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rowfall import balance, bodies, fastpath, sql
from rowfall.errors import UsageError
from rowfall.model import (
    Encoding,
    Facts,
    Forecast,
    Group,
    Kind,
    Listing,
    Plan,
    PlannedSeat,
    Schema,
    Setting,
    Split,
)
from rowfall.options import Options
from rowfall.sources.base import Source
from rowfall.sqltext import SqlText
from rowfall.targets.base import Publish, Target
from rowfall.tune import ENGINE_BASE, Shape, block, insert_threads, tune
from rowfall.units import parse_size

# Stored bytes that one core turns into table rows per second, by kind of source (measured on
# trips and taxi data, chDB 26.9; text is compressed or not). Used for forecasts and for cutting
# attempts, never for anything that has to be exact.
_RATES: dict[tuple[Kind, bool], float] = {
    (Kind.TEXT, True): 25e6,
    (Kind.TEXT, False): 90e6,
    (Kind.JSON, True): 15e6,
    (Kind.JSON, False): 80e6,
    (Kind.TYPED, True): 60e6,
    (Kind.TYPED, False): 60e6,
}
# Raw bytes per stored byte of compressed text, for the forecast only (trips 4.6, taxi 2.9).
_RATIO = 4.0
# Memory bytes that one core generates, sorts and writes per second.
_MADE_RATE = 120e6
# An attempt's fixed cost (staging, count, publish, idle threads at its end) is 0.1 to 0.4 s: at
# 20 s of work it stays under 2 %. More would only mean more to repeat after a crash.
ATTEMPT_SECONDS = 20.0
# Files are not taken apart, so at the end of an attempt cores wait for the last ones: of 1,000 of
# 210 MB, 16 cores get 38 in 20 s, which take 3 rounds where 2.4 would do. Four rounds at least
# make that 6 % at most.
ATTEMPT_ROUNDS = 4
# The statement names every object of its attempt; beyond this the text is slow to parse.
MOST_SPLITS = 2_000
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`""", re.S)
# More parts than this in one partition and MergeTree delays inserts (parts_to_delay_insert).
DELAY_PARTS = 1_000


@dataclass(frozen=True, slots=True)
class SeatFacts:
    """One shard's node, ``host:port``, and what its engine can do."""

    shard: int
    node: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything the planner looks at."""

    source: Source
    target: Target
    listing: Listing
    encoding: Encoding | None
    schema: Schema
    facts: Facts
    options: Options
    landed: frozenset[int] = frozenset()
    """Indexes of the listing that are in the target already."""
    remote: bool = False
    placement: str = "embedded"
    delivery: str = "pull"
    why: str = ""
    views: tuple[str, ...] = ()
    undecoded: str = "the rows are not text on this machine"
    """Why rowfall-decode does not parse them; "" if it does."""
    exact: bool = True
    """The engine that stores takes floats of text exactly (see bodies.for_server)."""
    seats: tuple[SeatFacts, ...] = ()
    """The shards of a cluster; ``facts`` are then those of the first."""
    home: str = ""
    """Of a cluster: the table on each shard that gets the rows."""
    ddl: str = ""
    """What makes the tables of a cluster; "" when they are there."""


def make_plan(inputs: Inputs) -> Plan:
    """Cut the listing into attempts, compute settings and forecast, write the example SQL.

    Raises:
        UsageError: options that contradict each other or the target.
    """
    listing, schema = inputs.listing, inputs.schema
    if not inputs.source.replayable:
        schema = _once_only(inputs)
    if inputs.placement != "embedded" and inputs.encoding is not None:
        schema = bodies.for_server(schema, inputs.encoding, exact=inputs.exact)
    todo = [i for i in range(len(listing)) if i not in inputs.landed]
    cuts = [
        _cut(replace(inputs, facts=facts), schema, number, share)
        for number, (facts, share) in enumerate(
            zip(_seats(inputs), _shares(inputs, todo), strict=True)
        )
    ]
    groups = tuple(group for cut in cuts for group in cut.groups)
    first = cuts[0]
    return Plan(
        source=inputs.source.text,
        target=inputs.target.text,
        database=inputs.target.database,
        table=inputs.target.table,
        delivery=inputs.delivery,
        placement=inputs.placement,
        promise=_promise(inputs),
        encoding=inputs.encoding,
        schema=schema,
        ddl=_ddl(inputs),
        listing=listing,
        groups=groups,
        lanes=first.lanes,
        settings=first.settings,
        forecast=_together([cut.forecast for cut in cuts]),
        facts=inputs.facts,
        example=_example(inputs, schema, groups, first.settings),
        landed=len(inputs.landed),
        why=_why(inputs, schema, groups),
        streams=first.streams,
        seats=_planned(inputs, cuts),
        decoder="engine" if inputs.undecoded else "rowfall-decode",
        why_decoder=inputs.undecoded,
        views=inputs.views,
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    """What one seat is to do."""

    groups: tuple[Group, ...]
    lanes: int
    streams: int
    settings: tuple[Setting, ...]
    forecast: Forecast


def _seats(inputs: Inputs) -> list[Facts]:
    return [seat.facts for seat in inputs.seats] or [inputs.facts]


def _shares(inputs: Inputs, todo: Sequence[int]) -> list[Sequence[int]]:
    """Which seat gets which splits: by bytes, so that all of them end at the same time."""
    if len(inputs.seats) < 2:
        return [todo]
    speeds = [float(facts.cores) for facts in _seats(inputs)]
    found = balance.assign((_weight(inputs, i) or None for i in todo), speeds)
    return [[todo[at] for at in members] for members in found.members()]


def _cut(inputs: Inputs, schema: Schema, seat: int, todo: Sequence[int]) -> _Cut:
    """Attempts, settings and forecast of one seat.

    Args:
        inputs: with the facts of its engine.
        todo: indexes of its splits.
    """
    listing, options = inputs.listing, inputs.options
    groups = tuple(replace(group, seat=seat) for group in _groups(inputs, todo))
    lanes = _lanes(inputs, groups)
    facts = inputs.facts
    streams = _streams(inputs) if inputs.delivery == "push" else 0
    share = max(lanes, streams)
    if share > 1:
        # Lanes and streams share the machine: each statement gets its part of cores and memory.
        facts = Facts(
            facts.version,
            max(1, facts.cores // share),
            ENGINE_BASE + max(0, facts.memory - ENGINE_BASE) // share,
            facts.settings,
        )
    shape = Shape(
        files=max((len(g.indexes) for g in groups), default=1),
        biggest=max((listing.size(i) or 0 for i in todo), default=0),
        row_bytes=schema.row_bytes,
        partitions=schema.partitions,
        columns=schema.columns,
        encoding=inputs.encoding,
        remote=inputs.remote,
        decoded=not inputs.undecoded,
    )
    settings = tune(facts, shape, chosen_settings(options.set))
    if inputs.placement != "embedded":
        # The log of a server hides keys, and is the evidence after a lost connection.
        settings = tuple(s for s in settings if s.name != "log_queries" or not s.routine)
    forecast = _forecast(inputs, todo, groups, facts, shape, lanes)
    return _Cut(groups, lanes, streams, settings, forecast)


def _together(forecasts: Sequence[Forecast]) -> Forecast:
    """What all seats are expected to do at the same time."""
    rows = [f.rows for f in forecasts]
    seconds = [f.seconds for f in forecasts]
    return Forecast(
        None if None in rows else sum(r or 0 for r in rows),
        None if None in seconds else max(s or 0.0 for s in seconds),
        max(f.memory for f in forecasts),
        sum(f.parts for f in forecasts),
        tuple(dict.fromkeys(advice for f in forecasts for advice in f.advice)),
    )


def _planned(inputs: Inputs, cuts: Sequence[_Cut]) -> tuple[PlannedSeat, ...]:
    found = []
    for seat, cut in zip(inputs.seats, cuts, strict=False):
        sizes = [group.size for group in cut.groups]
        found.append(PlannedSeat(
            seat.shard, seat.node, seat.facts.version, seat.facts.cores, seat.facts.memory,
            sum(len(group.indexes) for group in cut.groups),
            None if None in sizes else sum(size or 0 for size in sizes),
            len(cut.groups), cut.settings,
        ))  # fmt: skip
    return tuple(found)


def _once_only(inputs: Inputs) -> Schema:
    """The schema for a source that cannot be read again: nothing that counts on a second look.

    Raises:
        UsageError: bad rows are to be left out, which takes a second reading.
    """
    if inputs.options.max_errors or inputs.options.max_error_ratio:
        raise UsageError(
            "bad rows of stdin cannot be left out: they are found by reading again",
            hint="Write the data to a file first, or leave out --max-errors.",
        )
    if inputs.encoding is None:
        return inputs.schema
    return fastpath.careful(inputs.schema, inputs.encoding)


def chosen_settings(texts: Sequence[str]) -> dict[str, str | int | float]:
    """``--set name=value`` as a mapping; numbers become numbers.

    Raises:
        UsageError: no ``=``, or a name that is not a setting's.
    """
    chosen: dict[str, str | int | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--set {text!r} has no value", hint="Write it as --set max_threads=8."
            )
        sql.settings_clause({name: 0})
        try:
            chosen[name] = int(value)
        except ValueError:
            chosen[name] = value
    return chosen


def check_clauses(options: Options) -> None:
    """No clause given as text may end its statement and begin another.

    Raises:
        UsageError: a semicolon outside quotes.
    """
    for flag in ("schema", "order_by", "partition_by", "engine"):
        text = getattr(options, flag) or ""
        if ";" in _QUOTED.sub("", text):
            raise UsageError(
                f"--{flag.replace('_', '-')} holds a semicolon: {text}",
                hint="It takes one expression, no statements.",
            )


def _promise(inputs: Inputs) -> str:
    if not inputs.source.replayable:
        return (
            "at most once: the source can be read only once, so nothing is visible until all of "
            "it is staged, and a crash before that means sending it again"
        )
    if inputs.options.direct:
        return "none: rows go straight into the table, and a crash may lose or repeat them"
    return inputs.target.caps.promise


def _ddl(inputs: Inputs) -> str:
    if inputs.ddl or inputs.seats:
        return inputs.ddl
    if inputs.schema.exists or not inputs.target.table:
        return ""
    return sql.create_table(inputs.target.database, inputs.target.table, inputs.schema)


# --- attempts ------------------------------------------------------------------------------------


def core_rate(encoding: Encoding | None) -> float:
    """Stored bytes (generators: bytes in memory) that one core loads in a second."""
    if encoding is None:
        return _MADE_RATE
    packed = encoding.compression not in ("none", "auto")
    return _RATES.get((encoding.kind, packed), 30e6)


def _weight(inputs: Inputs, index: int) -> float:
    """Bytes of a split in the unit of :func:`core_rate`: stored, or made in memory."""
    rows = inputs.listing.rows(index)
    if rows is not None:
        return rows * inputs.schema.row_bytes
    return float(inputs.listing.size(index) or 0)


def _groups(inputs: Inputs, todo: Sequence[int]) -> tuple[Group, ...]:
    """Neighbouring splits in equal attempts; what is near by name is often near by key."""
    if inputs.target.caps.one_file_per_group:
        return _file_groups(inputs, todo)
    weights = [_weight(inputs, i) for i in todo]
    if inputs.options.attempt_bytes:
        most = float(parse_size(inputs.options.attempt_bytes))
    else:
        mean = sum(weights) / max(1, len(weights))
        most = attempt_bytes(core_rate(inputs.encoding), inputs.facts.cores, mean)
    parts = balance.cut(weights, most, MOST_SPLITS)
    return tuple(_group(inputs, [todo[n] for n in part]) for part in parts)


def attempt_bytes(rate: float, cores: int, mean: float) -> float:
    """Bytes of one attempt.

    Args:
        rate: bytes a second of one core. ``mean``: bytes of a file.
    """
    return max(ATTEMPT_SECONDS * rate, ATTEMPT_ROUNDS * mean) * cores


def _group(inputs: Inputs, indexes: Sequence[int]) -> Group:
    sizes = [inputs.listing.size(i) for i in indexes]
    known = None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)
    # Largest first: the last thread to finish then has little left (longest processing time).
    if inputs.listing.rows(0) is None:
        indexes = sorted(indexes, key=lambda i: -(inputs.listing.size(i) or 0))
    return Group(tuple(indexes), known)


def _file_groups(inputs: Inputs, todo: Sequence[int]) -> tuple[Group, ...]:
    """Exports: one group per output file, over the whole listing so that numbers stay."""
    files = inputs.options.files or 1
    total = len(inputs.listing)
    if files > total:
        raise UsageError(
            f"--files {files} is more than the {total} pieces of the source",
            hint="A file is written from whole pieces (source files or generated ranges).",
        )
    wanted = set(todo)
    groups = []
    for start, stop in file_bounds(total, files):
        # A file whose pieces have all landed keeps its (empty) place, so that n stays n.
        missing = [i for i in range(start, stop) if i in wanted]
        groups.append(_group(inputs, range(start, stop)) if missing else Group((), 0))
    return tuple(groups)


def file_bounds(pieces: int, files: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of the pieces that go into each file of an export."""
    return pairwise(pieces * n // files for n in range(files + 1))


def _lanes(inputs: Inputs, groups: Sequence[Group]) -> int:
    """Attempts at once. A table is fed by one statement that uses every core; a file is written
    by one thread (compression is a single stream), so as many files as cores are written."""
    if not inputs.target.caps.one_file_per_group:
        return 1
    return max(1, min(inputs.facts.cores, sum(1 for g in groups if g.indexes)))


def _streams(inputs: Inputs) -> int:
    """Connections to push over: one a core of the server, where parsing and sorting happen; more
    than eight fill any network (1.2 GB/s of text at 150 MB/s a core)."""
    if not inputs.source.replayable:
        return 1
    # This machine serves the streams of all shards.
    most = max(1, 8 // max(1, len(inputs.seats)))
    return inputs.options.streams or max(1, min(most, inputs.facts.cores))


# --- forecast ------------------------------------------------------------------------------------


def _forecast(
    inputs: Inputs,
    todo: Sequence[int],
    groups: Sequence[Group],
    facts: Facts,
    shape: Shape,
    lanes: int,
) -> Forecast:
    rows = _rows(inputs, todo)
    weight = sum(_weight(inputs, i) for i in todo)
    unknown = inputs.encoding is not None and inputs.listing.total_size is None
    seconds = None if unknown else 0.3 + weight / (core_rate(inputs.encoding) * inputs.facts.cores)
    block_rows, block_bytes = block(facts, shape)
    writers = insert_threads(facts, shape)
    block_size = min(block_bytes, int(block_rows * shape.row_bytes))
    if rows is not None and groups:
        block_size = min(block_size, int(rows * shape.row_bytes / writers))
    memory = ENGINE_BASE + lanes * 3 * writers * block_size
    parts = 0
    if rows is not None and inputs.target.caps.publish is Publish.ATTACH:
        for group in groups:
            share = rows * len(group.indexes) / max(1, len(todo))
            blocks = max(1, round(share / block_rows + writers / 2))
            parts += blocks * shape.partitions
    return Forecast(rows, seconds, min(memory, inputs.facts.memory), parts, _advice(inputs, parts))


def _rows(inputs: Inputs, todo: Sequence[int]) -> int | None:
    made = [inputs.listing.rows(i) for i in todo]
    if todo and all(r is not None for r in made):
        return sum(r or 0 for r in made)
    if not todo:
        return 0
    sizes = [inputs.listing.size(i) for i in todo]
    if inputs.encoding is None or any(s is None for s in sizes):
        return None
    stored = float(sum(s or 0 for s in sizes))
    packed = inputs.encoding.compression not in ("none", "auto")
    # Text is about as long as its row in memory and a half; Parquet stores a third of it.
    raw = stored * (_RATIO if packed else 1.0)
    if inputs.encoding.kind is Kind.TYPED:
        raw = stored * 3.0
    return int(raw / max(1.0, inputs.schema.row_bytes * 1.2))


def _advice(inputs: Inputs, parts: int) -> tuple[str, ...]:
    advice = []
    partitions = inputs.schema.partitions
    if partitions > 100:
        advice.append(
            f"The partition key {inputs.schema.partition_by} has about {partitions:,} values: "
            f"every block is cut into as many parts ({parts:,} in all). A coarser key "
            "(toYYYYMM of a date) or none loads and reads faster."
        )
    if partitions and parts / partitions > DELAY_PARTS:
        advice.append(
            f"About {parts // partitions:,} parts per partition are more than MergeTree likes "
            f"({DELAY_PARTS:,}); give the load more --memory, so that blocks get larger."
        )
    return tuple(advice)


def _sends(inputs: Inputs, schema: Schema, splits: Sequence[Split]) -> bodies.Delivery:
    once = not inputs.source.replayable
    return bodies.deliver(splits, inputs.encoding, schema, stream=once)


def _why(inputs: Inputs, schema: Schema, groups: Sequence[Group]) -> str:
    """Why rows are pulled or pushed, and in which form they are sent."""
    group = next((g for g in groups if g.indexes), None)
    if inputs.delivery != "push" or group is None:
        return inputs.why
    if not inputs.undecoded:
        return f"{inputs.why}; parsed here and sent as blocks of columns"
    splits = list(inputs.listing.splits("", group.indexes))
    return f"{inputs.why}; {_sends(inputs, schema, splits).reason}"


def _example(
    inputs: Inputs, schema: Schema, groups: Sequence[Group], settings: Sequence[Setting]
) -> str:
    group = next((g for g in groups if g.indexes), None)
    if group is None:
        return ""
    splits = list(inputs.listing.splits("", group.indexes[:3]))
    staging = inputs.home or inputs.target.table or "staging"
    clause = sql.settings_clause({s.name: s.value for s in settings})
    if inputs.delivery == "push":
        into = inputs.target.into(staging, schema)
        raw = inputs.undecoded and _sends(inputs, schema, splits).raw
        if raw and inputs.encoding is not None:
            text = bodies.raw_statement(into, inputs.encoding, schema)
        else:
            text = bodies.blocks_statement(into, schema.columns)
        return f"{text}\n-- sent with the rows; settings:{clause.removeprefix(' SETTINGS')}"
    text = statement(inputs.source, inputs.target, schema, inputs.encoding, splits, staging)
    more = len(group.indexes) - len(splits)
    note = f"\n-- and {more} more objects in the same statement" if more > 0 else ""
    return f"{text}\n{clause.strip()}{note}"


def statement(
    source: Source,
    target: Target,
    schema: Schema,
    encoding: Encoding | None,
    splits: Sequence[Split],
    staging: str,
) -> SqlText:
    """The INSERT SELECT of one attempt."""
    structure = sql.structure((c.source or c.name, c.read_type or c.type) for c in schema.columns)
    relation = source.relation(splits, encoding, structure)
    return sql.insert_select(target.into(staging, schema), schema.columns, relation)
