"""The planner: a pure function of what the survey has found and the options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.facts import LoadFacts
from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import (
    BUILD,
    ENGINE,
    PUSH,
    Facts,
    Group,
    Plan,
    PlannedTarget,
    PlannedWork,
    PlannedWriter,
    PlanTexts,
    Schema,
    Setting,
    Transport,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.patterns import regex
from rowfall.plan import attempts, balance, cutting, statements, upserts
from rowfall.plan.settings import LoadShape, not_allowed
from rowfall.plan.space import with_space
from rowfall.plan.transport import choose_reading, choose_transport, sent_as
from rowfall.schema.projection import Scan
from rowfall.schema.types import strict_reading
from rowfall.sources.base import ReadOnce
from rowfall.systems.clickhouse.target import Table
from rowfall.targets.base import Target

_QUOTED = regex(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`""", re.S)


def make_plan(facts: LoadFacts, options: Options) -> Plan:
    """Decide how rows travel, which files are cut, attempts, settings and forecast.

    Nothing is asked or opened here: the same facts and options give the same plan.

    Raises:
        UsageError: options that contradict each other, the source or the target.
        TargetError: rows have to be sent from here to a server that takes none; or the profile of
            its user does not allow what the load needs.
    """
    _check_atomic(facts, options)
    upserts.check_upsert(facts, options)
    reading = choose_reading(facts, options)
    cut = cutting.cut(facts, options, reading[1])
    facts = _with_ranges(facts, cut.listing)
    transport = choose_transport(facts, options, reading, cut.notes)
    _check_profiles(facts, transport)
    facts = replace(facts, schema=_schema_as_read(facts, options))
    todo = facts.todo
    work = [
        attempts.plan_writer(facts, options, transport, number, share)
        for number, share in enumerate(_shares(facts, transport, todo))
    ]
    groups = tuple(group for own in work for group in own.groups)
    first = work[0]
    return Plan(
        source=facts.source.text,
        to=PlannedTarget(
            text=facts.target.text,
            database=facts.target.database,
            table=facts.target.table,
            placement=facts.placement,
            promise=_promise(facts, options),
            views=facts.table.views.names,
            visibility=facts.destination.visibility(facts, transport, options),
            upkeep=facts.table.database.upkeep,
            upsert=upserts.said(facts, options, attempts.rows(facts, facts.todo)),
            deliveries=attempts.expect_deliveries(facts, transport, len(groups)),
        ),
        transport=transport,
        encoding=facts.encoding,
        schema=facts.schema,
        texts=PlanTexts(
            ddl=facts.destination.ddl(facts),
            example=_example(facts, options, transport, groups, first.settings),
        ),
        listing=facts.listing,
        work=PlannedWork(
            groups=groups,
            lanes=first.lanes,
            settings=first.settings,
            writers=_planned(facts, transport, work),
            loaded=len(facts.loaded),
        ),
        forecast=with_space(
            attempts.side_by_side([own.forecast for own in work]),
            facts,
            [own.forecast.rows for own in work],
            by_key=transport.sharding.value in (FILTER, DISTRIBUTED),
        ),
        facts=facts.engine,
    )


def _with_ranges(facts: LoadFacts, listing: Listing) -> LoadFacts:
    """Return the facts with another listing, in which ranges replace files."""
    if listing is facts.listing:
        return facts
    return replace(facts, listing=listing, loaded=facts.loaded_of(listing))


def _check_atomic(facts: LoadFacts, options: Options) -> None:
    """Check that ``--atomic`` can make the rows of the load visible in one moment.

    A replicated table commits the parts of each partition by a transaction of Keeper, one partition
    after the other. There is no other way: an exchange with a table that holds the old and the new
    rows would lose what others insert meanwhile, and each replica renames its tables by itself.

    Raises:
        UsageError: not in a replicated table with partitions.
    """
    for table in facts.table.filled if options.atomic else ():
        if table.replicated and table.partitioned:
            raise UsageError(
                f"--atomic cannot make a load visible in one moment in {table.name}: it is a "
                f"{table.engine} table with partitions, and Keeper commits one partition after "
                "the other",
                hint="Leave out --atomic: each partition of a statement is then seen in one "
                "moment. A replicated table without PARTITION BY takes --atomic, and --replace "
                "exchanges tables of any kind.",
            )


def _check_profiles(facts: LoadFacts, transport: Transport) -> None:
    """Check that no user's profile forbids a setting that this table cannot be loaded without.

    Raises:
        TargetError: one does.
    """
    needed: dict[str, int] = {}
    if any(table.collapses for table in facts.table.filled):
        needed["optimize_on_insert"] = 0  # else rows are gone before they are counted
    if facts.table.views.names:
        needed["materialized_views_ignore_errors"] = 0
    if attempts.sends_rows(transport):
        needed |= {setting.name: int(setting.value) for setting in attempts.FOREGROUND}
    for writer in facts.writers:
        for name, value in needed.items():
            if not writer.engine.allows(name, value):
                raise not_allowed(writer.engine, name, value)


def _schema_as_read(facts: LoadFacts, options: Options) -> Schema:
    """Return the schema as the writers' engines have to read it.

    Raises:
        UsageError: bad rows of a source that can be read only once are to be left out.
    """
    schema, encoding = facts.schema, facts.encoding
    if not facts.source.replayable:
        if options.max_errors or options.max_error_ratio:
            raise UsageError(
                "bad rows of stdin cannot be left out: they are found by reading again",
                hint="Write the data to a file first, or leave out --max-errors.",
            )
        if encoding is not None:
            schema = strict_reading.with_integers_as_text(schema, encoding)
    if facts.placement != "embedded" and encoding is not None:
        exact = all(writer.exact_floats for writer in facts.writers)
        schema = statements.for_server(schema, encoding, exact=exact)
    return schema


def _shares(facts: LoadFacts, transport: Transport, todo: Sequence[int]) -> list[Sequence[int]]:
    """Return the indexes of the splits of each writer, shared out by bytes to end together."""
    if len(facts.writers) < 2:
        return [todo]
    if transport.sharding.value == FILTER or facts.schema.limit:
        # The first one's attempts run on all of them at the same time; of one there is a single.
        return [todo, *([] for _ in facts.writers[1:])]
    listing, row_bytes = facts.listing, facts.schema.row_bytes
    speeds = [float(writer.engine.cores) for writer in facts.writers]
    files, ranges = listing.whole_and_ranges(todo)
    found = balance.assign((attempts.weight(listing, i, row_bytes) or None for i in files), speeds)
    weights = [attempts.weight(listing, i, row_bytes) for i in ranges]
    owners = balance.fill(weights, found.loads, speeds)
    return [
        [files[at] for at in members]
        + [i for i, own in zip(ranges, owners, strict=True) if own == n]
        for n, members in enumerate(found.members())
    ]


def statement_of(facts: LoadFacts, plan: Plan) -> tuple[Facts, LoadShape]:
    """Return what a statement of the first writer has of its engine, and the shape of its load."""
    groups = [group for group in plan.work.groups if group.writer == 0]
    todo = [i for group in groups for i in group.indexes]
    facts = replace(facts, listing=plan.listing, schema=plan.schema)
    share = attempts.share_of(facts.writers[0].engine, max(plan.work.lanes, plan.transport.streams))
    return share, attempts.shape_of(facts, plan.transport, groups, todo)


def _planned(
    facts: LoadFacts, transport: Transport, work: Sequence[attempts.PlannedShare]
) -> tuple[PlannedWriter, ...]:
    found = []
    for writer, own in zip(facts.writers, work, strict=True):
        groups = work[0].groups if transport.sharding.value == FILTER else own.groups
        sizes = [group.size for group in groups]
        engine = writer.engine
        found.append(PlannedWriter(
            writer.shard, writer.node, engine.version, engine.cores, engine.memory,
            sum(len(group.indexes) for group in groups),
            None if None in sizes else sum(size or 0 for size in sizes),
            len(groups), own.settings,
        ))  # fmt: skip
    return tuple(found)


def check_clauses(options: Options) -> None:
    """Check that no clause given as text ends its statement and begins another.

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


def _promise(facts: LoadFacts, options: Options) -> str:
    if isinstance(facts.source, ReadOnce):
        return (
            "at most once: the source can be read only once, so nothing is visible until all of "
            "it is staged, and a crash before that means sending it again"
        )
    if options.direct:
        return "none: rows go straight into the table, and a crash may lose or repeat them"
    promise = facts.table.promise or facts.target.caps.promise
    if not facts.destination.flushes:
        return promise
    unsure = [writer.sync_refused for writer in facts.writers if writer.sync_refused]
    if options.no_sync or unsure:
        why = "--no-sync" if options.no_sync else unsure[0]
        return f"{promise}; but a power cut may take what counts as loaded ({why})"
    return f"{promise}; what counts as loaded is on disk and survives a power cut"


def _example(
    facts: LoadFacts, options: Options, transport: Transport, groups: Sequence[Group],
    settings: Sequence[Setting],
) -> str:  # fmt: skip
    group = next((g for g in groups if g.indexes), None)
    if group is None:
        return ""
    schema, encoding = facts.schema, facts.encoding
    splits = list(map(_readable, facts.listing.splits("", group.indexes[:3])))
    staging = facts.table.name or facts.target.table or "staging"
    if transport.delivery.value == BUILD:
        table = sql.qualified(facts.target.database, staging)
        note = "of parts that rowfall-decode has made"
        if facts.reach is not None:
            return f"RESTORE TABLE rowfall.parts AS {table} FROM S3(...)\n-- {note}"
        return f"ALTER TABLE {table} ATTACH PARTITION ALL\n-- {note}"
    clause = sql.settings_clause({s.name: s.value for s in settings})
    target, only = _target_and_condition(facts, transport)
    if transport.delivery.value == PUSH:
        into = target.into(staging, schema)
        raw = False
        if transport.parser.value == ENGINE:
            once = not facts.source.replayable
            raw = bool(sent_as(splits, encoding, schema, stream=once).raw)
        if raw and encoding is not None:
            text = statements.insert_raw(into, encoding, schema)
        else:
            text = statements.insert_decoded_blocks(into, schema)
            if schema.projection is None:
                text = statements.insert_sent_blocks(into, schema.columns)
        return f"{text}\n-- sent with the rows; settings:{clause.removeprefix(' SETTINGS')}"
    source = facts.source_for(transport)
    if other := facts.destination.example(facts, options, transport, splits):
        return other
    scan = Scan(source, splits, encoding, schema)
    text = statements.insert_select(scan, target.into(staging, schema), only)
    more = len(group.indexes) - len(splits)
    note = f"\n-- and {more} more objects in the same statement" if more > 0 else ""
    return f"{text}\n{clause.strip()}{note}"


def _target_and_condition(facts: LoadFacts, transport: Transport) -> tuple[Target, str | None]:
    """Return where the first writer inserts, and which rows it keeps (None for all)."""
    target, sharding = facts.target, facts.sharding
    if sharding is not None and transport.sharding.value == FILTER:
        first = facts.writers[0].shard  # the one whose node keeps the journal
        return target, sharding.key.condition(sorted(w.shard for w in facts.writers).index(first))
    if sharding is not None and isinstance(target, Table):
        return target.distributed(sharding.key.cluster, sharding.key.expression), None
    return target, None


def _readable(split: Split) -> Split:
    """Return the file in place of a range of text, which no SQL names."""
    return replace(split, start=None, stop=None, part=None) if split.of_text else split
