"""The survey: every question that is asked before a load. Its answers are what a plan is made of.

Nothing is decided here, and nothing written. Some questions cost requests: they are asked where
:func:`rowfall.plan.planner.make_plan` may need the answer.
"""

from __future__ import annotations

import math
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import Session
from rowfall.contracts.facts import (
    FirstFacts,
    LoadFacts,
    PossibleRanges,
    Reach,
    SourceColumns,
    Space,
    WriterFacts,
)
from rowfall.core import charsets, disk, sql, units, uri
from rowfall.core.errors import (
    LedgerError,
    RowfallError,
    UsageError,
)
from rowfall.core.events import Note
from rowfall.core.listing import MARK, Listing, Split, partial_mark, split_id
from rowfall.core.machine import usable_cores
from rowfall.core.model import (
    Dialect,
    Encoding,
    Kind,
    Schema,
    Statement,
)
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.time_range import WIDE, TimeRange, time_range
from rowfall.core.version import __version__
from rowfall.decoder import installed, rewriting
from rowfall.engines.base import Engine, ExistingTable, on_all
from rowfall.plan import attempts, cutting, links, transport
from rowfall.plan.continued import continue_streams
from rowfall.plan.partial import first_files
from rowfall.plan.planner import check_clauses
from rowfall.plan.reach import (
    decoder_refused,
    network_rate,
    reach,
    source_reader,
    way_back,
)
from rowfall.plan.rewritten_files import loaded_in_other_files
from rowfall.plan.settings import ENGINE_BASE, LEAST_MEMORY, chosen_settings
from rowfall.plan.statements import FLOAT_PROBE, is_read_by_release
from rowfall.schema import sampling
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.projection import Scan
from rowfall.schema.sampling import FILES
from rowfall.schema.schema_search import SAMPLE_SECONDS, SchemaSearch
from rowfall.schema.table_changes import TargetColumns
from rowfall.sources.base import (
    Addressed,
    Pinned,
    Ranged,
    Renamed,
    Source,
    any_version,
)
from rowfall.stores.files import LocalFiles

# The first that was tried; 24.10 refuses it.
NULL_TUPLES_RELEASE = (26, 9)
# Time and Time64 came with it; where they are off, the engine says which setting allows them.
TIME_TYPES_RELEASE = (25, 6)


def survey(
    session: Session,
    known: Collection[str] | None = None,
    table: str | None = "",
    *,
    thorough: bool = False,
    load_id: str = "",
) -> LoadFacts:
    """Ask everything that a plan depends on.

    Args:
        known: ids of splits that are loaded; None to ask ledger and journal.
        table: on the first writer, the table whose columns the rows have to fit; "" for the
            target's own. ``--replace`` names the one that it fills in its place. None: it was
            looked for just now, and there is none.
        thorough: ask also what only a forecast needs.
        load_id: of the load that asks; "" for a plan.

    Raises:
        UsageError: options that contradict each other, the source or the target.
        TargetError: the table does not fit the source, or rows cannot be brought to it.
        SourceError: the source cannot be read.
    """
    options = session.options
    check_clauses(options)
    _check_settings(session)
    destination = session.destination
    listing, known = continue_streams(
        session, set(destination.loaded_ids(session) if known is None else known)
    )
    if wrong := installed.wrong():
        again = f"pip install --force-reinstall --no-cache-dir {installed.PROGRAM}=={__version__}"
        text = f"{wrong}: the engine parses text instead. To have the right one: {again}"
        session.emit(Note("warning", text))
    reached = _ask_reach(session, listing)
    transport.check_pull(reached, options)  # before anything is read
    name = None if table is None else table or session.first_target.table
    stored = destination.stored_columns(session, name)
    try:
        encoding, schema = _ask_schema(session, listing, reached, stored)
    except RowfallError as error:
        here = _reach_by_newer_reader(session, reached, error)
        if here is None:
            raise
        if options.pull:
            with suppress(RowfallError):
                _ask_schema(session, listing, here, stored)
                error.hint = data_errors.READ_HERE
            raise
        encoding, schema = _ask_schema(session, listing, here, stored)
        reached = here
    if session.options.select and encoding is not None and encoding.format == "Native":
        # The engine asks for the columns that are selected, and would refuse all others.
        encoding = replace(encoding, ignores=True)
    schema = replace(schema, layout=replace(schema.layout, keys=_keys(stored.table, schema)))
    found = SourceColumns(listing, encoding, schema, reached)
    schema, there = destination.survey(session, stored.table, found, thorough=thorough)
    if reached is not None and encoding is not None and encoding.dialect is not None:
        reached = _rewritten_here(session, encoding.dialect)
        transport.check_pull(reached, options)
    known = {*known, *loaded_under_other_names(session, listing, known)}
    known |= loaded_in_other_files(session, listing, known)
    listing = first_files(session, listing, encoding, schema, known)
    first = FirstFacts(
        source=session.source,
        target=session.target,
        destination=destination,
        listing=listing,
        encoding=encoding,
        schema=schema,
        writers=_ask_writers(session, encoding, schema),
        table=there,
        reach=reached,
        remote=session.remote,
        cores_here=usable_cores(),
        program=installed.program(),
        no_program=installed.absence(),
        rows_per_byte=_ask_density(session, listing, encoding, thorough=thorough),
    )
    first = replace(first, writers=_ask_decoders(session, first))
    first = replace(first, writers=_ask_ways_back(session, first))
    unpinned, unpinned_there = _ask_versions(first, options)
    cuts = PossibleRanges()
    if cutting.cuts_files(first):
        cuts = cutting.ask_ranges(session, first, known)
    export = destination.export(session, listing, schema, load_id)
    loaded = loaded_indexes(session, listing, known) if export is None else export.loaded
    todo = [i for i in range(len(listing)) if i not in loaded]
    space = None
    if destination.makes_parts:  # of other targets nobody can know what rows take there
        space = ask_space(session, first, attempts.rows(first, todo), sample=thorough)
    return LoadFacts(
        source=first.source,
        target=first.target,
        destination=destination,
        listing=listing,
        encoding=encoding,
        schema=schema,
        writers=_with_room(_ask_links(session, first), space),
        table=first.table,
        reach=reached,
        remote=first.remote,
        cores_here=first.cores_here,
        program=first.program,
        no_program=first.no_program,
        rows_per_byte=first.rows_per_byte,
        loaded=loaded,
        known=frozenset(known),
        key=session.target_key,
        cuts=cuts,
        unpinned=unpinned,
        unpinned_there=unpinned_there,
        stored_row_bytes=None if space is None else space.row_bytes,
        export=export,
    )


def _times(session: Session) -> TimeRange:
    """Return the days and points in time that all engines hold that store rows."""
    oldest = min((w.engine.facts.release for w in session.writers), default=())
    return time_range(oldest) if oldest else WIDE


def _ask_density(
    session: Session, listing: Listing, encoding: Encoding | None, *, thorough: bool
) -> float | None:
    """Return the rows in a stored byte, by some of the files.

    Args:
        thorough: ask also where a load does not wait for it: elsewhere for up to 8 requests, and
            for footers of what is not text, which an engine reads (20 ms here). Without, the rows
            of objects are a guess by their bytes, up to 71 % off (trips, csv.gz in S3).
    """
    source = session.source
    if encoding is None or (session.remote and not thorough) or not isinstance(source, Ranged):
        return None
    count = len(listing)
    some = list(listing.splits(session.target_key, range(0, count, max(1, -(-count // FILES)))))
    if encoding.format != "Parquet":
        return rows_per_byte(source, some, encoding)
    stored = sum(split.size or 0 for split in some)
    if not thorough or not stored:
        return None
    try:
        relation = any_version(source).relation(some, encoding, "")
        ((rows,),) = session.reader.ask(SqlText.of("SELECT count() FROM ", relation))
    except RowfallError:  # whoever loads it says what is wrong with it
        return None
    return int(rows) / stored


# --- what is loaded -----------------------------------------------------------------------------


def loaded_indexes(
    session: Session, listing: Listing, known: Collection[str]
) -> frozenset[int]:  # fmt: skip
    """Return the indexes of the listing that are in the target already.

    Args:
        known: ids of splits that are loaded.
    """
    if not known:
        return frozenset()
    splits = listing.splits(session.target_key)
    loaded = {i for i, split in enumerate(splits) if split.id in known}
    if len(known) > len(loaded) and not session.options.force:
        _warn_of_new_versions(session, listing, loaded, known)
    return frozenset(loaded)


def _warn_of_new_versions(
    session: Session, listing: Listing, loaded: set[int], known: Collection[str]
) -> None:
    """Warn of objects overwritten since they loaded: they are other splits, added to the old."""
    if session.ledger is None or not session.source.replayable:
        return  # a stream is not a version of another one
    if session.options.partial:
        return  # of which the load of all rows is no version
    uris, key = session.ledger.loaded_uris(session.target_key), session.target_key
    again = [
        s.name for i, s in enumerate(listing.splits(key))
        if i not in loaded and s.name in uris and partial_mark(s.id) not in known
    ]  # fmt: skip
    if again:
        some = ", ".join(again[:3]) + (f" and {len(again) - 3:,} more" if len(again) > 3 else "")
        session.emit(
            Note(
                "warning",
                f"loaded before with another --select or --where: {some}; what this one selects is "
                "added"
                if listing.projection
                else f"changed since an earlier version of it was loaded: {some}; "
                "the rows of the new version are added, the old ones stay",
            )
        )


def _ask_versions(facts: FirstFacts, options: Options) -> tuple[str, str]:
    """Return two reasons, of the engine here and of servers that pull, "" for none each.

    A reason says why objects may be read in another version than the one listed.
    """
    if not transport.engine_may_parse(facts, options):
        return "", ""

    def of(source: Source) -> str:
        if not isinstance(source, Pinned):
            return ""
        return source.unpinned(facts.listing, facts.encoding) or ""

    pulled = facts.reach is not None and facts.reach.pull and not options.push
    there = of(facts.reach.source) if facts.reach is not None and pulled else ""
    pushed = facts.reach is None or transport.may_push(facts, options)
    return of(facts.source) if pushed else "", there


# --- engines -------------------------------------------------------------------------------------


def _check_settings(session: Session) -> None:
    """Check that the engine takes the values of ``--set``, before anything is created.

    Raises:
        UsageError: it does not.
    """
    chosen = chosen_settings(session.options.set)
    known = {name: value for name, value in chosen.items() if name in session.engine.facts.settings}
    if not known:
        return
    try:
        session.engine.run(Statement(SqlText.of("SELECT 1"), known, alters=None))
    except RowfallError as error:
        cause = error.message.removeprefix(f"Code: {error.code}. DB::Exception: ")
        raise UsageError(
            f"the engine refuses --set {' '.join(session.options.set)}: {cause.split(' (')[0]}",
            hint="See its type: rowfall query 'SELECT name, type FROM system.settings'.",
        ) from None


def _ask_reach(session: Session, listing: Listing) -> Reach | None:
    """Ask what servers can read of the source; None where the embedded engine stores the rows."""
    if session.engine.kind == "embedded":
        return None
    declared = session.declared
    if declared is not None and declared.dialect is not None:
        return _rewritten_here(session, declared.dialect)
    if session.options.push:
        return Reach(False, "the server was not asked", session.source)
    # FROM clauses that the oldest node understands in full are safe on all of them.
    oldest = min((w.engine.facts for w in session.writers), key=lambda facts: facts.release)
    return reach(
        session.source_engine, session.source, listing, session.declared,
        oldest=oldest.version,
    )  # fmt: skip


def _reach_by_newer_reader(
    session: Session, reached: Reach | None, error: RowfallError
) -> Reach | None:
    """Return the way round a server that cannot read files with types; None where there is none.

    24.10 takes logical types of Parquet that it does not know for damage.
    """
    declared = session.declared
    if reached is None or not reached.pull or declared is None or declared.kind is not Kind.TYPED:
        return None
    said = error.message.partition(" (version")[0]
    return Reach(False, f"the server cannot read the source: {said[:150]}", session.source)


def _rewritten_here(session: Session, dialect: Dialect) -> Reach:
    why = f"{rewriting.describe(dialect)} is rewritten here first"
    return Reach(False, why, session.source, hint="Leave out --pull.")


def _ask_writers(
    session: Session, encoding: Encoding | None, schema: Schema
) -> tuple[WriterFacts, ...]:
    """Describe the engines that store rows."""
    text = encoding is not None and encoding.kind is not Kind.TYPED
    text = text and is_read_by_release(schema)

    def one(writer: Writer) -> WriterFacts:
        engine = writer.engine
        server = engine.kind == "server"
        exact = not (server and text) or _reads_exactly(writer)
        return WriterFacts(
            engine.facts, engine.kind, writer.shard, writer.node, engine.rows_refused,
            exact_floats=exact, sync_refused=engine.sync_refused(),
        )  # fmt: skip

    return tuple(map(one, session.writers))


def _reads_exactly(writer: Writer) -> bool:
    """Ask whether the engine reads text as the one here: 24.10, for one, does not."""
    probe = Statement(
        SqlText.of(FLOAT_PROBE), {"precise_float_parsing": 1}, format="TSV", alters=None
    )
    try:
        return writer.engine.run(probe).data == b"1\n"
    except RowfallError:  # a right is missing that a load needs, too
        return False


def _ask_decoders(session: Session, facts: FirstFacts) -> tuple[WriterFacts, ...]:
    """Ask where rowfall-decode can run, as far as that matters: a server has to start it."""
    options, reached = session.options, facts.reach
    if options.decoder == "never" or reached is None or not reached.pull:
        return facts.writers
    if transport.why_not_decoded(facts) is not None:
        return facts.writers
    writers = list(facts.writers)
    if isinstance(reached.source, Addressed):
        for number, writer in enumerate(session.writers):
            why = decoder_refused(writer.engine)
            writers[number] = replace(writers[number], no_decoder=why)
            if why is not None:
                break
        else:
            return tuple(writers)
    if facts.program is not None:
        writers[0] = replace(
            writers[0], link=replace(writers[0].link, near=session.engine.same_machine())
        )
    return tuple(writers)


def _ask_ways_back(session: Session, facts: FirstFacts) -> tuple[WriterFacts, ...]:
    """Ask servers whether they reach this machine, where they are to take over parts from it."""
    if facts.reach is None or not transport.spares_servers(session.options):
        return facts.writers
    address = session.options.build_address

    def one(number: int) -> WriterFacts:
        known = facts.writers[number]
        why = way_back(session.writers[number].engine, address)
        return replace(known, link=replace(known.link, back=why))

    return tuple(on_all(one, range(len(facts.writers))))


def _ask_links(session: Session, facts: FirstFacts) -> tuple[WriterFacts, ...]:
    """Measure the network to servers that rows may be pushed to, if compression depends on it."""
    if facts.rows_refused or not links.measures_link(session.options):
        return facts.writers
    if not transport.may_push(facts, session.options):
        return facts.writers
    near = [writer.engine.same_machine() for writer in session.writers]
    rates = [
        None if here else network_rate(writer.engine)
        for writer, here in zip(session.writers, near, strict=True)
    ]
    return tuple(
        replace(
            known,
            link=replace(known.link, near=here, rate=rate),
        )
        for known, here, rate in zip(facts.writers, near, rates, strict=True)
    )


def _with_room(writers: tuple[WriterFacts, ...], space: Space | None) -> tuple[WriterFacts, ...]:
    """Return the writers with what is free on their disks."""
    if space is None:
        return writers
    free = zip(writers, space.free, strict=True)
    return tuple(replace(writer, disk_free=bytes_) for writer, bytes_ in free)


# --- the data ------------------------------------------------------------------------------------


def _ask_schema(
    session: Session,
    listing: Listing,
    reached: Reach | None,
    stored: TargetColumns,
) -> tuple[Encoding | None, Schema]:
    """Return encoding and columns: of the existing table, of the generator, or of the data."""
    engine, source = source_reader(session, reached)
    here = engine is session.reader
    most = units.parse_size(session.options.max_record)
    limits = _sample_limits(session, most) if here else {}

    def asks(text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        return engine.ask(text, {**limits, **settings})

    target = replace(
        stored,
        null_tuples=_stores_null_tuples(session),
        time_types=all(w.engine.facts.release[:2] >= TIME_TYPES_RELEASE for w in session.writers),
        times=_times(session),
        alone=(here and session.reader.idle) or transport.spares_servers(session.options),
    )  # fmt: skip
    search = SchemaSearch(
        # One that changes while it is looked at fails alone, in its attempt.
        any_version(source), session.declared, session.destination.options_here(session), asks,
        target, session.engine.facts.timezone, most, session.reader.memory if here else None,
    )  # fmt: skip
    return search.find(listing)


# Python, its libraries and what it holds of a sample, beside an engine (measured 90-150 MB).
_HERE = 160 << 20
# Copies of a record while an engine finds out about columns: a buffer that has grown to twice its
# size, a column of lines, and one of their fields.
_COPIES = 8


def _sample_limits(session: Session, most: int) -> dict[str, int]:
    """Return the settings of statements about a sample in the engine here.

    Bytes that nobody has looked at may be one record of gigabytes.
    """
    room = session.reader.memory - ENGINE_BASE // 2 - _HERE
    declared = session.declared
    if declared is not None and declared.kind in (Kind.TEXT, Kind.JSON):
        room = min(room, _COPIES * most)
    limits = {"max_memory_usage": max(room, LEAST_MEMORY // 4)}
    if not session.source.remote:
        limits["max_execution_time"] = SAMPLE_SECONDS
    else:
        # The beginning of a file has come before; who hangs now would take the engine minutes.
        limits |= {"http_max_tries": 3, "http_receive_timeout": 9}
    return limits


def _keys(listed: ExistingTable | None, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the table that its sorting or partition key names."""
    texts = (schema.layout.order_by, schema.layout.partition_by)
    if listed is not None and schema.exists:
        texts = (listed.sorting_key, listed.partition_key)
    named = {sql.identifier(word) for text in texts for word in sql.tokens(text)}
    return tuple(column.name for column in schema.columns if column.name in named)


def _stores_null_tuples(session: Session) -> bool:
    """Tell whether new tables can have columns of the type Nullable(Tuple)."""
    return all(w.engine.facts.release[:2] >= NULL_TUPLES_RELEASE for w in session.writers)


# --- what is loaded under another name of the same object: older names, links ---------------------

# The name of an object behind HTTP holds a digest of the secrets in its address (uri.object_name).
# Names of older ledgers hold none, and signatures in full, or show all parameters that do not sound
# like secrets (uri.former_name).

_RANGE = regex(r"(.*)\[(\d+):(\d+)\]")


def loaded_under_other_names(
    session: Session, listing: Listing, known: Collection[str]
) -> set[str]:  # fmt: skip
    """Return the ids of listed objects, and of ranges of them, that are loaded by another name.

    Args:
        known: ids that are loaded.

    Raises:
        LedgerError: a name of an older ledger may be that of several objects.
    """
    key = session.target_key
    if isinstance(session.source, LocalFiles):
        return _by_other_paths(session, listing, known)
    if not len(listing) or uri.scheme_of(listing.uri(0)) not in ("http", "https"):
        return set()
    from rowfall.stores.http import has_validator  # 15 ms that others save

    _warn_of_sizes(session, listing)
    if not known:
        return set()
    listed: dict[tuple[str, str], list[Split]] = defaultdict(list)
    for split in listing.splits(key):
        listed[uri.without_secrets(split.uri), split.version].append(split)
    names = _names(session)
    former = session.source.former_name if isinstance(session.source, Renamed) else str
    found: dict[str, Split] = {}
    ids: set[str] = set()

    def loaded(split: Split, name: str, start: int | None, stop: int | None) -> set[str]:
        """Return the ids of a split, or of a range of it, where that is loaded by a name."""
        version, more = split.version, listing.projection
        if split_id(name, version, start, stop, key, more) not in known or name == split.uri:
            return set()
        whole = split_id(name, version, None, None, key, more)
        marked = {f"{MARK}{split.id}"} if f"{MARK}{whole}" in known else set()
        return {split_id(split.uri, version, start, stop, key, more), *marked}

    for (shared, version), splits in listed.items():
        for split in splits:
            # That is this object and no other: the parameters that are hidden now were in clear.
            exact = former(split.uri)
            ranges = names.get(uri.without_secrets(exact), ())
            spans = {(start, stop) for name, start, stop in ranges if name == exact}
            for start, stop in spans | {(None, None)}:
                ids |= loaded(split, exact, start, stop)
        first = former(splits[0].uri)
        before = uri.without_secrets(first)
        by_name: dict[str, set[str]] = {}
        others = names.get(shared, []) if shared != before else []
        others = others + names.get(before, [(first.partition("#")[0], None, None)])
        for name, start, stop in others:
            if name != first and (own := loaded(splits[0], name, start, stop)):
                by_name.setdefault(name, set()).update(own)
        if not by_name or all(s.id in known or s.id in ids for s in splits):
            continue
        older = any("#" not in name for name in by_name)
        if len(splits) > 1 and older and "#" in first:
            raise _ambiguous(shared, len(splits))
        # Equal validators of several addresses tell nothing: none of them counts for another.
        if len(splits) == 1 and (older or (len(by_name) == 1 and has_validator(version))):
            ids |= set().union(*by_name.values())
            found[shared] = splits[0]
    if found:
        session.emit(Note("warning", _counted(list(found))))
    return ids


def _names(session: Session) -> dict[str, list[tuple[str, int | None, int | None]]]:
    """Return names and ranges of what is loaded, by what :func:`uri.without_secrets` leaves."""
    names = defaultdict(list)
    if session.ledger is not None:
        for text in session.ledger.loaded_uris(session.target_key):
            cut = _RANGE.fullmatch(text)
            name = cut[1] if cut else text
            start, stop = (int(cut[2]), int(cut[3])) if cut else (None, None)
            names[uri.without_secrets(name)].append((name, start, stop))
    return names


def _warn_of_sizes(session: Session, listing: Listing) -> None:
    """Warn of objects that their server tells nothing about but a size."""
    from rowfall.stores.http import has_validator

    count = sum(not has_validator(s.version) for s in listing.splits(""))
    if count:
        session.emit(Note(
            "warning",
            "the web server sends neither ETag nor Last-Modified for "
            f"{units.counted(count, 'file')}: one that changes and keeps its size counts as "
            "loaded, and a change while it is read is not noticed",
        ))  # fmt: skip


def _by_other_paths(session: Session, listing: Listing, known: Collection[str]) -> set[str]:
    """Return the ids of local files that are listed twice, or are loaded, by another path.

    Only symbolic links are followed; with the same size and time they are the same rows.
    """
    key = session.target_key
    more = listing.projection
    folder = lru_cache(maxsize=None)(os.path.realpath)  # one question for each folder

    def real(path: str) -> str:
        if os.path.islink(path):
            return os.path.realpath(path)
        return os.path.join(folder(os.path.dirname(path)), os.path.basename(path))

    # By index: a million files must not be held as splits.
    links = {i: path for i in range(len(listing)) if (path := real(name := listing.uri(i))) != name}
    loaded = _loaded_paths(session, real) if known else {}
    wanted = {*links.values(), *loaded}
    if not wanted:
        return set()
    found: dict[str, str] = {}
    ids: set[str] = set()
    first: dict[str, str] = {}
    # A file by its own path comes before links to it.
    for index in sorted(range(len(listing)), key=lambda i: i in links):
        path = links.get(index) or listing.uri(index)
        if path not in wanted:
            continue
        split = listing.split(index, key)
        others = [n for n in dict.fromkeys((path, *loaded.get(path, ()))) if n != split.uri]
        twin = next(
            (n for n in others if split_id(n, split.version, None, None, key, more) in known), None
        ) or first.get(path)
        if split.id not in known and twin is not None:
            found[split.uri] = twin
            ids.add(split.id)
        first.setdefault(path, split.uri)
    if found:
        session.emit(Note("warning", "; ".join(
            f"{name} is the same file as {twin}, which is loaded by that path"
            for name, twin in list(found.items())[:3]
        ) + (f"; and {len(found) - 3:,} more" if len(found) > 3 else "")))  # fmt: skip
    return ids


def _loaded_paths(session: Session, real: Callable[[str], str]) -> dict[str, list[str]]:
    """Return the paths that this ledger has loaded which are not those of the files themselves."""
    paths: dict[str, list[str]] = defaultdict(list)
    if session.ledger is not None:
        for name in session.ledger.loaded_uris(session.target_key):
            path = real(name)
            if path != name:
                paths[path].append(name)
    return paths


def _counted(names: Sequence[str]) -> str:
    some = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
    return (
        f"{some}: loaded before from an address that differs in its secrets or signature only, "
        "with the same ETag or size and time; counts as loaded"
    )


def _ambiguous(name: str, count: int) -> LedgerError:
    return LedgerError(
        f"one of {count} addresses {name} was loaded by an older rowfall, which did not tell apart "
        "what differs in secrets only",
        hint="Look at the table which one it was. Then load the others one by one with --force, or "
        "rowfall forget that load, delete its rows, and load all.",
    )


# --- what a row takes on disk, and what is free there ---------------------------------------------

# Rows of a table that is there say better than any sample what the next ones take.
KNOWN_ROWS = 100_000


# A sample that zlib packs in 0.1 s.
_SAMPLE_ROWS, _SAMPLE_BYTES, _SAMPLE_FILES = 65_536, 8 << 20, 4


# LZ4 of the engine makes this much more of columns than zlib's first level: 97 MB of taxi rows that
# were foretold as 80 by 1.25. No column gets longer by it.
_LZ4 = 1.5


# More rows make runs of equal keys longer: the rows of a sample that has eight times as many take
# less each. It is not foretold that they go on to do so for ever.
_STEEPEST, _STEP = 0.5, 8


# LZ4 packs nothing better, marks included: 133 to 222 bytes into one, of 2 to 5 M rows of few
# values that are sorted by all of them. They were foretold as down to a sixth of what they took.
_LZ4_BEST = 150


# A guess at first, where nothing is asked: rows in memory are never smaller than on disk.
_SURELY = 1.2


def ask_space(session: Session, facts: FirstFacts, rows: int | None, *, sample: bool) -> Space:
    """Ask what is free for each writer, and what a row takes on disk.

    Args:
        rows: about how many there are to load.
        sample: look at the data in any case, not only where they may not fit.
    """
    free = tuple(_free(session, writer) for writer in session.writers)
    least = min((f for f in free if f is not None), default=None)
    if rows is None or least is None or session.options.no_space_check:
        return Space(free)
    if not sample and rows * facts.schema.row_bytes * _SURELY < least:
        return Space(free)
    return Space(free, _of_table(session) or _of_sample(session, facts, rows))


def _free(session: Session, writer: Writer) -> int | None:
    """Return the bytes that are free for the table of a writer; None where that is not known."""
    if writer.engine.kind == "embedded":
        return disk.free_bytes(session.target.folder)
    target = writer.target
    policy = (
        "SELECT any(storage_policy) FROM system.tables WHERE database = "
        f"{quote(target.database)} AND name = {quote(target.table)}"
    )
    try:
        # A new table gets the policy "default". Object storage has no end: 2^63 and more.
        ((there, free),) = writer.engine.ask(
            "SELECT count(), sum(toFloat64(unreserved_space)) FROM system.disks WHERE name IN "
            "(SELECT arrayJoin(disks) FROM system.storage_policies WHERE policy_name = "
            f"ifNull(nullIf(({policy}), ''), 'default'))"
        )
    except RowfallError:  # a right that a load does not need
        return None
    return int(free) if there and free < 1 << 60 else None


def _of_table(session: Session) -> float | None:
    """Return the bytes on disk of a row that is in the table; None where it has too few."""
    target = session.first_target
    if session.options.replace:
        return None
    try:
        ((rows, stored),) = session.engine.ask(
            "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = "
            f"{quote(target.database)} AND table = {quote(target.table)}"
        )
    except RowfallError:
        return None
    return float(stored) / float(rows) if rows >= KNOWN_ROWS else None


def _of_sample(session: Session, facts: FirstFacts, rows: int) -> float | None:
    """Return the bytes on disk of a row by a sample, sorted by the key and packed."""
    encoding, schema = facts.encoding, facts.schema
    engine, source = source_reader(session, facts.reach)
    source = any_version(source)
    most = int(max(1_000, min(_SAMPLE_ROWS, _SAMPLE_BYTES / schema.row_bytes)))
    try:
        splits = list(source.sample(facts.listing, _SAMPLE_FILES))[:_SAMPLE_FILES]
        taken = _packed(engine, [
            SqlText.of("SELECT ", sql.projection(schema.columns), " FROM ",
                       Scan(source, [split], encoding, schema).relation(),
                       f" LIMIT {max(1, most // len(splits))}")
            for split in splits
        ], encoding, schema, most)  # fmt: skip
    except (RowfallError, OSError, ZeroDivisionError):
        return None  # whoever loads it says what is wrong with it
    if taken is None:
        return None
    few, many, count, raw = taken
    steep = min(_STEEPEST, math.log(few / many, _STEP)) if few > many > 0 else 0.0
    foretold: float = many * (count / max(rows, count)) ** steep
    return max(foretold, raw / _LZ4_BEST)


def _packed(
    engine: Engine, parts: Sequence[SqlText], encoding: Encoding | None, schema: Schema, most: int
) -> tuple[float, float, int, float] | None:
    """Return the packed bytes of a row in an eighth of the sample and in all of it; its rows, and
    the bytes of one that is not packed."""
    settings = sampling.probe_settings(encoding, strict=True) if encoding is not None else {}
    inner: list[str | SqlText] = []
    for part in parts:
        inner += [" UNION ALL " if inner else "", "(", part, ")"]
    order = (
        "" if schema.layout.order_by in ("", "tuple()") else f" ORDER BY {schema.layout.order_by}"
    )
    found = []
    for limit in (max(1, most // _STEP), most):
        text = SqlText.of("SELECT * FROM (SELECT * FROM (", *inner, f") LIMIT {limit}){order}")
        known = engine.facts.known({**settings, "max_block_size": most})
        counted = SqlText.of("SELECT count() FROM (", text, ")")
        ((rows,),) = engine.ask(counted, known)
        if not rows:
            return None
        data = engine.run(Statement(text, known, format="Native", alters=None)).data
        packed = min(len(zlib.compress(data, 1)) * _LZ4, len(data))
        found.append((packed / rows, int(rows), len(data) / rows))
    return found[0][0], *found[1]


# --- rows in a stored byte ------------------------------------------------------------------------

# Evenly over the listing: files of one day differ less than those of a year.
DENSITY_FILES = 4
# Of a packed file from its beginning: 1 MB of text, unpacked in 5 ms. Of a plain one a third of
# it at the beginning, in the middle and at the end.
PIECE = 1 << 18
# The last four bytes of gzip are the length of its last member. Where that is far from what the
# sample foretells, the file has several.
SAME = 1.5


def rows_per_byte(source: Ranged, splits: Sequence[Split], encoding: Encoding) -> float | None:
    """Return the rows in a stored byte; None where this cannot tell.

    Args:
        splits: files as a whole, some of which are read.
    """
    if encoding.kind not in (Kind.TEXT, Kind.JSON) or encoding.compression not in ("none", "gzip"):
        return None
    estimate = _of_gzip if encoding.compression == "gzip" else _of_plain
    rows = stored = 0.0
    for split in splits[:: max(1, -(-len(splits) // DENSITY_FILES))]:
        size = split.size
        if not size or split.part is not None:
            continue
        with suppress(RowfallError, zlib.error):  # whoever loads it says what is wrong with it
            found = estimate(source, split, size, encoding)
            if found is not None:
                rows += max(found - encoding.has_header, 0)
                stored += size
    return rows / stored if stored and rows else None


def _of_plain(source: Ranged, split: Split, size: int, encoding: Encoding) -> float | None:
    if size <= PIECE:
        return _count_rows(source.part(split, 0, size), encoding, whole=True)
    length = PIECE // 3
    first, *others = (source.part(split, at, length) for at in (0, size // 2, size - length))
    # Inside of a file nobody knows which quotes are open: line breaks count as in the first piece.
    breaks = first.count(b"\n")
    if not breaks:  # also of a server without ranges
        return None
    share = _count_rows(first, encoding) / breaks
    pieces = (first, *others)
    lines = sum(piece.count(b"\n") for piece in pieces)
    return lines * share / max(1, sum(map(len, pieces))) * size


# Text is packed 3 to 20 to 1. What has more in a piece is nothing to guess rows by.
_MOST_TEXT = 64 << 20


def _of_gzip(source: Ranged, split: Split, size: int, encoding: Encoding) -> float | None:
    data = source.part(split, 0, min(size, PIECE))
    if not data:  # of a server without ranges
        return None
    whole = len(data) >= size
    text, rest, members = bytearray(), data, 0
    while rest:
        unpacker = zlib.decompressobj(31)
        text += unpacker.decompress(rest, _MOST_TEXT + 1 - len(text))
        if len(text) > _MOST_TEXT:
            return None
        rest, members = unpacker.unused_data, members + 1
        if not unpacker.eof:
            break
    rows = _count_rows(bytes(text), encoding, whole=whole)
    if whole or not text:
        return rows
    raw = len(text) / len(data) * size
    if members == 1:
        last = int.from_bytes(source.part(split, size - 4, 4), "little")
        # A length of 4 GiB and more is given without its upper bits.
        last += max(0, round((raw - last) / (1 << 32))) << 32
        if raw / SAME < last < raw * SAME:
            raw = last
    return rows / len(text) * raw


def _count_rows(text: bytes, encoding: Encoding, *, whole: bool = False) -> float:
    """Count rows of a file's beginning: line breaks outside of quotes, and what ends without."""
    if encoding.dialect is not None and encoding.is_csv:
        text = _lines_of_data(text, encoding.dialect)
    outside = text
    if encoding.is_csv and b'"' in text:
        outside = b"".join(text.split(b'"')[::2])
    last = whole and bool(text) and not text.endswith(b"\n")
    return outside.count(b"\n") + last


def _lines_of_data(text: bytes, dialect: Dialect) -> bytes:
    """Return the lines that hold rows, or the header, of the beginning of foreign text."""
    plain = charsets.decode(text, dialect.charset).removeprefix(charsets.BOM)
    if dialect.quote not in ("", '"'):
        plain = plain.replace('"', "").replace(dialect.quote, '"')
    ended = plain.endswith(("\n", "\r"))
    lines = plain.replace("\r\n", "\n").replace("\r", "\n").split("\n")[dialect.skip_lines :]
    comment = dialect.comment
    kept = [line for line in lines if line and not (comment and line.startswith(comment))]
    return ("\n".join(kept) + "\n" * ended).encode()
