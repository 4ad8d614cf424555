"""The plan of a job: schema, what has landed before, who reads and who parses."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall import attempts, building, complaint, infer, link, pieces, planner, spread, sql, views
from rowfall.engines.codes import DATA_CODES
from rowfall.engines.machine import usable_cores
from rowfall.errors import DataError, RowfallError, TargetError, UsageError
from rowfall.events import Note
from rowfall.inputs import Inputs, SeatFacts
from rowfall.jobs import Job
from rowfall.journal import Journal
from rowfall.ledger import Ledger
from rowfall.listing import Listing
from rowfall.model import Plan, Schema, Statement
from rowfall.parsing import choose, presort, reads_exactly
from rowfall.publish import ask, asker, read_rows
from rowfall.shadow import table_uuid
from rowfall.sqltext import SqlText
from rowfall.targets.base import Publish
from rowfall.ways import BY_HAND


def plan_job(job: Job, known: Collection[str] | None = None) -> tuple[Plan, set[int]]:
    """The plan, and the indexes of splits that have landed before.

    Args:
        known: ids of landed splits; None to ask ledger and journal.
    """
    planner.check_clauses(job.options)
    _check_settings(job)
    schema = _schema(job)
    if known is None:
        known = landed_ids(job)
    fed: tuple[str, ...] = ()
    if job.target.table and schema.exists and not job.options.direct:
        database, table = job.local.database, job.local.table
        fed = views.discover(asker(job.engine), database, table).names
    parsing = choose(job, schema)
    job.how = parsing.how
    _check_streams(job)
    cutting = pieces.cut(job, schema, known, fed, parsing.engine)
    job.listing = cutting.listing
    landed: set[int] = set()
    if known and job.ledger is not None:
        splits = job.listing.splits(job.into)
        landed = {i for i, split in enumerate(splits) if split.id in known}
        if len(known) > len(landed) and not job.options.force:
            _warn_of_new_versions(job, job.ledger, landed)
    if landed and job.target.caps.publish is Publish.RENAME:
        landed -= _missing_files(job)
    pulls = job.how is None or job.how.pull
    inputs = Inputs(
        source=job.puller,
        target=job.target,
        listing=job.listing,
        encoding=job.encoding,
        schema=schema,
        facts=job.engine.facts,
        options=job.options,
        landed=frozenset(landed),
        remote=job.remote,
        placement=_placement(job),
        delivery="pull" if pulls else "push",
        why=job.how.reason if job.how else "",
        views=fed,
        undecoded=parsing.engine,
        sorted_by=presort(job, schema, parsing.engine),
        exact=reads_exactly(job),
        seats=_seat_facts(job),
        home=job.local.table,
        ddl=_cluster_ddl(job, schema),
        cutting=cutting.notes,
        cores_here=usable_cores(),
        link=link.look(job),
    )
    unbuilt = building.choose(job, inputs)
    delivery = inputs.delivery if unbuilt else "build"
    inputs = replace(inputs, unbuilt=unbuilt, delivery=delivery)
    made = planner.make_plan(spread.spread(job, inputs) if job.keyed else inputs)
    job.cpu_before = job.cpu_here
    return made, landed


def _check_streams(job: Job) -> None:
    """Rows that are read here go straight to each node.

    Raises:
        TargetError: one of them is only reached by way of another server.
    """
    if job.how is not None and not job.how.pull and job.far:
        raise TargetError(
            f"the rows have to be sent from here ({job.how.reason}), and {job.far}, which passes "
            "no rows on",
            hint="Let the servers read the source, or load from where all of them are reached.",
        )


def _placement(job: Job) -> str:
    if job.shards is not None and job.options.method not in BY_HAND:
        return "shards"
    return "server" if job.target.server else "embedded"


def _seat_facts(job: Job) -> tuple[SeatFacts, ...]:
    if job.shards is None or job.options.method in BY_HAND:
        return ()
    nodes = job.shards.nodes
    return tuple(SeatFacts(n.shard, n.address, server.facts) for n, server, _ in nodes)


def _cluster_ddl(job: Job, schema: Schema) -> str:
    if job.shards is None:
        return ""
    return ";\n".join(ddl.on_cluster for ddl in job.shards.missing(schema, job.options))


def landed_ids(job: Job) -> set[str]:
    """Ids of the splits that the target holds, as far as ledger and journal know."""
    if not job.target.caps.remembers:
        return set()
    known = job.ledger.landed(job.into) if job.ledger is not None else set()
    if job.target.server is None:
        return known
    uuid = table_uuid(job.engine, job.local.database, job.local.table)
    journal = Journal(job.engine, job.local.database, uuid)
    if not uuid:
        return set()
    if not journal.there():
        return known
    # The journal knows what other machines have landed and forgotten, too.
    return (known | journal.landed_ids()) - journal.forgotten_ids()


def _check_settings(job: Job) -> None:
    """A value of --set that the engine does not take is said before anything is created."""
    chosen = planner.chosen_settings(job.options.set)
    known = {name: value for name, value in chosen.items() if name in job.engine.facts.settings}
    if not known:
        return
    try:
        job.engine.run(Statement(SqlText.of("SELECT 1"), known))
    except RowfallError as error:
        cause = error.message.removeprefix(f"Code: {error.code}. DB::Exception: ")
        raise UsageError(
            f"the engine refuses --set {' '.join(job.options.set)}: {cause.split(' (')[0]}",
            hint="See its type: rowfall query 'SELECT name, type FROM system.settings'.",
        ) from None


def _missing_files(job: Job) -> set[int]:
    """Pieces of exported files that somebody has removed since: they are written again."""
    missing: set[int] = set()
    bounds = attempts.file_bounds(len(job.listing), job.options.files or 1)
    for number, (start, stop) in enumerate(bounds):
        if not Path(job.target.staging_name("", number, job.encoding)).exists():
            missing.update(range(start, stop))
    return missing


def _warn_of_new_versions(job: Job, ledger: Ledger, landed: set[int]) -> None:
    """An object that was overwritten since it landed is another split: its rows come on top."""
    known = ledger.landed_uris(job.into)
    again = [s.name for i, s in enumerate(job.listing.splits(job.into))
             if i not in landed and s.name in known]  # fmt: skip
    if again:
        some = ", ".join(again[:3]) + (f" and {len(again) - 3:,} more" if len(again) > 3 else "")
        job.emit(
            Note(
                "warning",
                f"changed since an earlier version of it was loaded: {some}; "
                "the rows of the new version are added, the old ones stay",
            )
        )


def _schema(job: Job) -> Schema:
    """The existing table's columns, the generator's own, or what the data says."""

    # What a server pulls it can look at, too: the engine here is then not even started.
    pulls = job.how is not None and job.how.pull and job.source.made is None
    engine, source = (job.scout, job.puller) if pulls else (job.reader, job.source)

    def asks(text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        fixed = {"output_format_json_quote_64bit_integers": 0}
        known = engine.facts.settings
        values = {k: v for k, v in {**settings, **fixed}.items() if not known or k in known}
        statement = Statement(text, values, format="JSONCompactEachRow")
        return read_rows(engine.run(statement).data)

    listing, existing = job.listing, _existing(job)
    while True:
        try:
            job.encoding, schema = infer.schema_for(
                source, listing, job.encoding, job.options, asks, existing
            )
            return schema
        except RowfallError as error:
            listing = _without_broken(listing, error)


def _without_broken(listing: Listing, error: RowfallError) -> Listing:
    """The listing for another sample without the object that cannot be read: its split will fail
    with a reason of its own, and the others land.

    Raises:
        RowfallError: ``error``, in better words where it is about the only object.
    """
    if isinstance(error, DataError):
        said = error
    elif error.code in DATA_CODES:
        said = complaint.explain_engine_error(error.code, error.message)
        inner = re.search(r"Code: (\d+)\. DB::Exception: (.+)", error.message)
        if inner:
            said = complaint.explain_engine_error(int(inner[1]), inner[2], said.uri)
    else:
        raise error
    rest = Listing()
    for split in listing.splits(""):
        if not complaint.same_object(split.uri, said.uri):
            rest.add(split.uri, split.version, split.size)
    if not 0 < len(rest) < len(listing):
        raise said from None
    return rest


def _existing(job: Job) -> list[list[Any]] | None:
    """Rows of system.columns of the target table, None when it does not exist."""
    if not job.target.table:
        return None
    shards = job.shards
    if shards is not None and shards.tables.like is not None:  # on some node, not only the first
        return [list(column) for column in shards.tables.like.columns]
    where = sql.table_is(job.local.database, job.home)
    rows = ask(
        job.engine,
        f"SELECT name, type, default_kind FROM system.columns WHERE {where} ORDER BY position",
    )
    return rows or None
