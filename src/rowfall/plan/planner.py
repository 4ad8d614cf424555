"""The planner: a pure function of listing, schema, target facts, engine facts and options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.listing import Split
from rowfall.core.model import (
    Encoding,
    Facts,
    Forecast,
    Group,
    Plan,
    PlannedWriter,
    Schema,
    Setting,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.sqltext import SqlText
from rowfall.plan import attempts, balance, bodies, compression, forecast
from rowfall.plan.inputs import Inputs
from rowfall.plan.settings import ENGINE_BASE, Shape, tune
from rowfall.schema import fast_path
from rowfall.sources.base import Source
from rowfall.targets.base import Target

FOREGROUND = (
    Setting("distributed_foreground_insert", 1, "rows are on their shards when it ends"),
    # The source is read where the statement runs, not by a statement on each shard.
    Setting("parallel_distributed_insert_select", 0, "one shard's share", routine=True),
    # Its own shard's share is written by the statement itself, and counted with it.
    Setting("prefer_localhost_replica", 1, "rows of the shard itself stay there", routine=True),
)
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`""", re.S)


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
            zip(_writers(inputs), _shares(inputs, todo), strict=True)
        )
    ]
    groups = tuple(group for cut in cuts for group in cut.groups)
    first = cuts[0]
    compress, why_compress = _compress(inputs, schema, groups, first.streams)
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
        forecast=forecast.side_by_side([cut.forecast for cut in cuts]),
        facts=inputs.facts,
        example=_example(inputs, schema, groups, first.settings),
        landed=len(inputs.landed),
        why=_why(inputs, schema, groups),
        streams=first.streams,
        writers=_planned(inputs, cuts),
        decoder="engine" if inputs.undecoded else "rowfall-decode",
        why_decoder=inputs.undecoded,
        sorted_by=inputs.sorted_by,
        why_unbuilt=inputs.unbuilt,
        compress=compress,
        why_compress=why_compress,
        views=inputs.views,
        spread=inputs.spread,
        why_spread=inputs.why_spread,
        cutting=inputs.cutting,
    )


@dataclass(frozen=True, slots=True)
class _Cut:
    """What one writer is to do."""

    groups: tuple[Group, ...]
    lanes: int
    streams: int
    settings: tuple[Setting, ...]
    forecast: Forecast


def _writers(inputs: Inputs) -> list[Facts]:
    return [writer.facts for writer in inputs.writers] or [inputs.facts]


def _shares(inputs: Inputs, todo: Sequence[int]) -> list[Sequence[int]]:
    """Which writer gets which splits: by bytes, so that all of them end at the same time."""
    if len(inputs.writers) < 2:
        return [todo]
    if inputs.spread == FILTER:  # the first one's attempts run on all of them at the same time
        return [todo, *([] for _ in inputs.writers[1:])]
    speeds = [float(facts.cores) for facts in _writers(inputs)]
    files, ranges = inputs.listing.apart(todo)
    found = balance.assign((attempts.weight(inputs, i) or None for i in files), speeds)
    writers = balance.fill([attempts.weight(inputs, i) for i in ranges], found.loads, speeds)
    return [
        [files[at] for at in members]
        + [i for i, own in zip(ranges, writers, strict=True) if own == n]
        for n, members in enumerate(found.members())
    ]


def _cut(inputs: Inputs, schema: Schema, writer: int, todo: Sequence[int]) -> _Cut:
    """Attempts, settings and forecast of one writer.

    Args:
        inputs: with the facts of its engine.
        todo: indexes of its splits.
    """
    listing, options = inputs.listing, inputs.options
    groups = tuple(replace(group, writer=writer) for group in attempts.cut(inputs, todo))
    lanes = attempts.lanes(inputs, groups)
    facts = inputs.facts
    streams = attempts.streams(inputs) if inputs.delivery == "push" else 0
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
    if inputs.spread == DISTRIBUTED:
        settings += FOREGROUND
    expected = forecast.expect(inputs, todo, groups, facts, shape, lanes)
    return _Cut(groups, lanes, streams, settings, expected)


def _planned(inputs: Inputs, cuts: Sequence[_Cut]) -> tuple[PlannedWriter, ...]:
    found = []
    for writer, own in zip(inputs.writers, cuts, strict=False):
        cut = replace(cuts[0], settings=own.settings) if inputs.spread == FILTER else own
        sizes = [group.size for group in cut.groups]
        found.append(PlannedWriter(
            writer.shard, writer.node, writer.facts.version, writer.facts.cores,
            writer.facts.memory,
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
    return fast_path.careful(inputs.schema, inputs.encoding)


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
    if inputs.ddl or inputs.writers:
        return inputs.ddl
    if inputs.schema.exists or not inputs.target.table:
        return ""
    return sql.create_table(inputs.target.database, inputs.target.table, inputs.schema)


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


def _compress(
    inputs: Inputs, schema: Schema, groups: Sequence[Group], streams: int
) -> tuple[str, str]:
    """How the blocks that are sent are compressed, and why."""
    group = next((g for g in groups if g.indexes), None)
    if group is None:
        return "", ""  # nothing is left to load
    obstacle = "" if inputs.delivery == "push" else "no rows are sent to a server"
    if not obstacle and inputs.undecoded:
        sends = _sends(inputs, schema, list(inputs.listing.splits("", group.indexes)))
        obstacle = "" if sends.blocks else sends.reason
    return compression.choose(inputs, obstacle, streams)


def _example(
    inputs: Inputs, schema: Schema, groups: Sequence[Group], settings: Sequence[Setting]
) -> str:
    group = next((g for g in groups if g.indexes), None)
    if group is None:
        return ""
    splits = list(map(_readable, inputs.listing.splits("", group.indexes[:3])))
    staging = inputs.home or inputs.target.table or "staging"
    if inputs.delivery == "build":
        table = sql.qualified(inputs.target.database, staging)
        note = "of parts that rowfall-decode has made"
        return f"ALTER TABLE {table} ATTACH PARTITION tuple()\n-- {note}"
    clause = sql.settings_clause({s.name: s.value for s in settings})
    if inputs.delivery == "push":
        into = inputs.target.into(staging, schema)
        raw = inputs.undecoded and _sends(inputs, schema, splits).raw
        if raw and inputs.encoding is not None:
            text = bodies.raw_statement(into, inputs.encoding, schema)
        else:
            text = bodies.blocks_statement(into, schema.columns)
        return f"{text}\n-- sent with the rows; settings:{clause.removeprefix(' SETTINGS')}"
    text = statement(
        inputs.source, inputs.target, schema, inputs.encoding, splits, staging, inputs.only
    )
    more = len(group.indexes) - len(splits)
    note = f"\n-- and {more} more objects in the same statement" if more > 0 else ""
    return f"{text}\n{clause.strip()}{note}"


def _readable(split: Split) -> Split:
    """For an example: a range of text has no SQL, its file has."""
    return replace(split, start=None, stop=None, part=None) if split.of_text else split


def statement(
    source: Source,
    target: Target,
    schema: Schema,
    encoding: Encoding | None,
    splits: Sequence[Split],
    staging: str,
    only: str = "",
) -> SqlText:
    """The INSERT SELECT of one attempt.

    Args:
        only: a condition on the rows that are kept, "" for all of them.
    """
    structure = sql.structure((c.source or c.name, c.read_type or c.type) for c in schema.columns)
    rows = sql.select(schema.columns, source.relation(splits, encoding, structure))
    if only:
        rows = sql.only(rows, schema.columns, only)
    return sql.insert(target.into(staging, schema), schema.columns, rows)
