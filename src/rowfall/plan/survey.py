"""The plan of a session: schema, what has landed before, who reads and who parses."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import DataError, RowfallError, TargetError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import Listing
from rowfall.core.model import Plan, Schema, Statement
from rowfall.core.sqltext import SqlText
from rowfall.engines.ask import ask, asker, read_rows, table_uuid
from rowfall.engines.codes import DATA_CODES
from rowfall.engines.machine import usable_cores
from rowfall.ledger import Ledger
from rowfall.ledger.journal import Journal
from rowfall.plan import attempts, building, link, pieces, planner, sharding
from rowfall.plan.inputs import Inputs, WriterFacts
from rowfall.plan.parsing import choose, presort, reads_exactly
from rowfall.plan.session import Session
from rowfall.schema import data_errors, infer
from rowfall.targets import views
from rowfall.targets.base import Publish


def plan_session(session: Session, known: Collection[str] | None = None) -> tuple[Plan, set[int]]:
    """The plan, and the indexes of splits that have landed before.

    Args:
        known: ids of landed splits; None to ask ledger and journal.
    """
    planner.check_clauses(session.options)
    _check_settings(session)
    schema = _schema(session)
    if known is None:
        known = landed_ids(session)
    fed: tuple[str, ...] = ()
    if session.target.table and schema.exists and not session.options.direct:
        database, table = session.local.database, session.local.table
        fed = views.discover(asker(session.engine), database, table).names
    parsing = choose(session, schema)
    session.how = parsing.how
    _check_streams(session)
    cutting = pieces.cut(session, schema, known, fed, parsing.engine)
    session.listing = cutting.listing
    landed: set[int] = set()
    if known and session.ledger is not None:
        splits = session.listing.splits(session.into)
        landed = {i for i, split in enumerate(splits) if split.id in known}
        if len(known) > len(landed) and not session.options.force:
            _warn_of_new_versions(session, session.ledger, landed)
    if landed and session.target.caps.publish is Publish.RENAME:
        landed -= _missing_files(session)
    pulls = session.how is None or session.how.pull
    inputs = Inputs(
        source=session.puller,
        target=session.target,
        listing=session.listing,
        encoding=session.encoding,
        schema=schema,
        facts=session.engine.facts,
        options=session.options,
        landed=frozenset(landed),
        remote=session.remote,
        placement=_placement(session),
        delivery="pull" if pulls else "push",
        why=session.how.reason if session.how else "",
        views=fed,
        undecoded=parsing.engine,
        sorted_by=presort(session, schema, parsing.engine),
        exact=reads_exactly(session),
        writers=_writer_facts(session),
        home=session.local.table,
        ddl=_cluster_ddl(session, schema),
        cutting=cutting.notes,
        cores_here=usable_cores(),
        link=link.look(session),
    )
    unbuilt = building.choose(session, inputs)
    delivery = inputs.delivery if unbuilt else "build"
    inputs = replace(inputs, unbuilt=unbuilt, delivery=delivery)
    made = planner.make_plan(sharding.spread(session, inputs) if session.sharding_key else inputs)
    session.cpu_before = session.cpu_here
    return made, landed


def _check_streams(session: Session) -> None:
    """Rows that are read here go straight to each node.

    Raises:
        TargetError: one of them is only reached by way of another server.
    """
    if session.how is not None and not session.how.pull and session.far:
        raise TargetError(
            f"the rows have to be sent from here ({session.how.reason}), and "
            f"{session.far}, which passes no rows on",
            hint="Let the servers read the source, or load from where all of them are reached.",
        )


def _placement(session: Session) -> str:
    if session.shards is not None:
        return "shards"
    return "server" if session.target.server else "embedded"


def _writer_facts(session: Session) -> tuple[WriterFacts, ...]:
    if session.shards is None:
        return ()
    return tuple(WriterFacts(w.shard, w.place, w.engine.facts) for w in session.writers)


def _cluster_ddl(session: Session, schema: Schema) -> str:
    if session.shards is None:
        return ""
    return ";\n".join(ddl.on_cluster for ddl in session.shards.missing(schema, session.options))


def landed_ids(session: Session) -> set[str]:
    """Ids of the splits that the target holds, as far as ledger and journal know."""
    if not session.target.caps.remembers:
        return set()
    known = session.ledger.landed(session.into) if session.ledger is not None else set()
    if session.target.server is None:
        return known
    uuid = table_uuid(session.engine, session.local.database, session.local.table)
    journal = Journal(session.engine, session.local.database, uuid)
    if not uuid:
        return set()
    if not journal.there():
        return known
    # The journal knows what other machines have landed and forgotten, too.
    return (known | journal.landed_ids()) - journal.forgotten_ids()


def _check_settings(session: Session) -> None:
    """A value of --set that the engine does not take is said before anything is created."""
    chosen = planner.chosen_settings(session.options.set)
    known = {name: value for name, value in chosen.items() if name in session.engine.facts.settings}
    if not known:
        return
    try:
        session.engine.run(Statement(SqlText.of("SELECT 1"), known))
    except RowfallError as error:
        cause = error.message.removeprefix(f"Code: {error.code}. DB::Exception: ")
        raise UsageError(
            f"the engine refuses --set {' '.join(session.options.set)}: {cause.split(' (')[0]}",
            hint="See its type: rowfall query 'SELECT name, type FROM system.settings'.",
        ) from None


def _missing_files(session: Session) -> set[int]:
    """Pieces of exported files that somebody has removed since: they are written again."""
    missing: set[int] = set()
    bounds = attempts.file_bounds(len(session.listing), session.options.files or 1)
    for number, (start, stop) in enumerate(bounds):
        if not Path(session.target.staging_name("", number, session.encoding)).exists():
            missing.update(range(start, stop))
    return missing


def _warn_of_new_versions(session: Session, ledger: Ledger, landed: set[int]) -> None:
    """An object that was overwritten since it landed is another split: its rows come on top."""
    known = ledger.landed_uris(session.into)
    again = [s.name for i, s in enumerate(session.listing.splits(session.into))
             if i not in landed and s.name in known]  # fmt: skip
    if again:
        some = ", ".join(again[:3]) + (f" and {len(again) - 3:,} more" if len(again) > 3 else "")
        session.emit(
            Note(
                "warning",
                f"changed since an earlier version of it was loaded: {some}; "
                "the rows of the new version are added, the old ones stay",
            )
        )


def _schema(session: Session) -> Schema:
    """The existing table's columns, the generator's own, or what the data says."""

    # What a server pulls it can look at, too: the engine here is then not even started.
    pulls = session.how is not None and session.how.pull and session.source.made is None
    engine, source = (session.scout, session.puller) if pulls else (session.reader, session.source)

    def asks(text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        fixed = {"output_format_json_quote_64bit_integers": 0}
        known = engine.facts.settings
        values = {k: v for k, v in {**settings, **fixed}.items() if not known or k in known}
        statement = Statement(text, values, format="JSONCompactEachRow")
        return read_rows(engine.run(statement).data)

    listing, existing = session.listing, _existing(session)
    while True:
        try:
            session.encoding, schema = infer.schema_for(
                source, listing, session.encoding, session.options, asks, existing
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
        said = data_errors.explain_engine_error(error.code, error.message)
        inner = re.search(r"Code: (\d+)\. DB::Exception: (.+)", error.message)
        if inner:
            said = data_errors.explain_engine_error(int(inner[1]), inner[2], said.uri)
    else:
        raise error
    rest = Listing()
    for split in listing.splits(""):
        if not data_errors.same_object(split.uri, said.uri):
            rest.add(split.uri, split.version, split.size)
    if not 0 < len(rest) < len(listing):
        raise said from None
    return rest


def _existing(session: Session) -> list[list[Any]] | None:
    """Rows of system.columns of the target table, None when it does not exist."""
    if not session.target.table:
        return None
    shards = session.shards
    if shards is not None and shards.tables.like is not None:  # on some node, not only the first
        return [list(column) for column in shards.tables.like.columns]
    where = sql.table_is(session.local.database, session.home)
    rows = ask(
        session.engine,
        f"SELECT name, type, default_kind FROM system.columns WHERE {where} ORDER BY position",
    )
    return rows or None
