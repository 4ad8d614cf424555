"""The survey: every question that is asked before a load. Its answers are what a plan is made of.

Nothing is decided here but what need not be asked; nothing is written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.facts import (
    FilledTable,
    Link,
    LoadFacts,
    Reach,
    ShardingFacts,
    TargetFacts,
    WriterFacts,
)
from rowfall.contracts.session import Session, Writer
from rowfall.core import charsets, sql, units
from rowfall.core.errors import (
    DataError,
    EngineError,
    RecordTooLongError,
    RowfallError,
    SourceError,
    TargetError,
    UsageError,
)
from rowfall.core.events import Note
from rowfall.core.listing import Listing, Split, without_salt
from rowfall.core.model import (
    ENGINE,
    PUSH,
    Choice,
    Column,
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
from rowfall.core.type_names import parse_type
from rowfall.engines.base import ExistingTable
from rowfall.engines.codes import DATA_CODES, GONE, MEMORY_LIMIT, TIMEOUT_EXCEEDED
from rowfall.engines.database import FileTable, Packing, TakingBinary
from rowfall.engines.embedded import usable_cores
from rowfall.plan import attempts, cutting, keys, memory, table_definition, transport
from rowfall.plan.continued import continue_streams
from rowfall.plan.other_names import landed_under_other_names
from rowfall.plan.planner import check_clauses, chosen_settings
from rowfall.plan.reach import decoder_refused, network_rate, rate_of, reach, source_reader
from rowfall.plan.rewritten_files import landed_in_other_files
from rowfall.plan.settings import ENGINE_BASE, LEAST_MEMORY
from rowfall.plan.space import ask_space
from rowfall.plan.statements import FLOAT_PROBE
from rowfall.plan.upserts import ask_stored
from rowfall.schema import bytes_columns, data_errors, footers, inference, long_records
from rowfall.schema.density import FILES, rows_per_byte
from rowfall.schema.projection import read_relation
from rowfall.schema.strict_reading import only_utf8, with_sign, with_whole_tuples, within
from rowfall.schema.table_changes import TableQuestions
from rowfall.schema.table_options import read_table_options
from rowfall.sources import pipes, rewriting
from rowfall.sources.base import (
    Addressed,
    Pinned,
    Queried,
    Ranged,
    Source,
    TellingBytes,
    any_version,
)
from rowfall.targets import views
from rowfall.targets.base import Declaring, Publish

# Partition keys that make no partitions.
UNPARTITIONED = ("", "tuple()")
# The first release whose type JSON is no experiment.
JSON_RELEASE = (25, 3)
# The first that was tried; 24.10 refuses it.
NULL_TUPLES_RELEASE = (26, 9)
# What a Distributed table takes for a key when it inserts (StorageDistributed::createSelector).
_INTEGER = regex(r"(LowCardinality\()?U?Int(8|16|32|64)\)?")


def survey(
    session: Session,
    known: Collection[str] | None = None,
    table: str = "",
    *,
    thorough: bool = False,
    load_id: str = "",
) -> LoadFacts:
    """Ask everything that a plan depends on.

    Args:
        known: ids of splits that have landed; None to ask ledger and journal.
        table: on the first writer, the table whose columns the rows have to fit; "" for the
            target's own. ``--replace`` names the one that it fills in its place.
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
    session, known = continue_streams(session, set(landed_ids(session) if known is None else known))
    reached = _ask_reach(session)
    transport.choose_delivery(reached, options)  # --pull is refused before anything is read
    listed = _ask_table(session, table or session.first_target.table)
    stored = _stored_key(session, listed)
    encoding, schema = _ask_schema(session, reached, _columns(session, listed), stored)
    schema = _checked(session, encoding, schema)
    if session.options.select and encoding is not None and encoding.format == "Native":
        # The engine asks for the columns that are selected, and would refuse all others.
        encoding = replace(encoding, ignores=True)
    schema = replace(schema, keys=_keys(listed, schema))
    if session.database is None:
        schema = with_sign(schema, _engine_of(session, listed, schema))
    if session.database is not None:
        # Nothing sorts the rows.
        notes = tuple(note for note in schema.notes if note[0] != "ORDER BY")
        schema = replace(schema, order_by="tuple()", notes=notes)
    if isinstance(session.target, Declaring):
        schema = _with_bytes(session, reached, encoding, schema, listed)
    if isinstance(session.database, FileTable):
        but = session.database.of_bytes(schema.columns)
        schema = replace(schema, columns=only_utf8(schema.columns, encoding, but))
    _check_changes(session, schema)
    if reached is not None and encoding is not None and encoding.dialect is not None:
        reached = _rewritten_here(session, encoding.dialect)
        transport.choose_delivery(reached, options)
    known = {*known, *landed_under_other_names(session, known)}
    known |= landed_in_other_files(session, known)
    found = _ask_views(session, schema)
    facts = LoadFacts(
        source=session.source,
        target=session.target,
        listing=session.listing,
        encoding=encoding,
        schema=schema,
        writers=_ask_writers(session, encoding),
        table=TargetFacts(
            session.first_target.table,
            listed,
            found.names if found else (),
            _ddl(session, schema),
            _filled(session, listed, schema, found),
            session.shards is not None and session.shards.cluster.replicated,
            session.database.promise() if session.database is not None else "",
            ask_stored(session),
            session.database.upkeep() if session.database is not None and thorough else "",
            thorough and _takes_binary(session),
            _link(session),
            _ask_key_types(session, listed, schema),
            _viewed(listed, found),
        ),
        reach=reached,
        sharding=_ask_sharding(session, schema),
        remote=session.remote,
        cores_here=usable_cores(),
        program=rewriting.program(),
        rows_per_byte=_ask_density(session, encoding),
    )
    facts = _ask_decoders(session, facts)
    delivery, parser = transport.choose_reading(facts, options)
    if delivery.value == PUSH:
        facts = _ask_links(session, facts)
    facts = replace(facts, unpinned=_ask_versions(facts, delivery, parser))
    cut = cutting.cut(session, facts, parser, known)
    facts = replace(facts, listing=cut.listing, ranges=cut.notes)
    if session.target.caps.one_file_per_group:
        from rowfall.plan import exports  # 5 ms that loads into tables save

        state = exports.look(session, facts.listing, schema, load_id)
        facts = replace(facts, export=state, landed=state.landed)
    else:
        facts = replace(facts, landed=_landed(session, facts, known))
    return ask_space(session, facts, attempts.rows(facts, facts.todo), sample=thorough)


def _with_bytes(
    session: Session, reached: Reach | None, encoding: Encoding | None, schema: Schema,
    listed: ExistingTable | None,
) -> Schema:  # fmt: skip
    """Return the schema with marks at columns whose strings are bytes, for a database.

    A new table gets columns for bytes where the source, or ``--encoding binary``, says that it has
    such. In one that is there they take whatever has a type; of files of text they take what the
    database itself reads as bytes.
    """
    options = session.options
    if charsets.names_binary(options.encoding):
        columns = tuple(replace(column, binary=True) for column in schema.columns)
        return replace(schema, columns=columns)
    if listed is not None:
        typed = session.source.made is not None or encoding is None or encoding.kind is Kind.TYPED
        return bytes_columns.as_in_table(schema, listed.binary) if typed else schema
    names = _bytes_of_source(session, reached, encoding, schema)
    if names and (options.type or options.schema or options.schema_file):
        asked = read_table_options(options, session.engine.ask)
        schema = bytes_columns.with_bytes(schema, names)
        return bytes_columns.without(schema, {c.name for c in schema.columns}
                                     - {*asked.types, *dict(asked.columns)})  # fmt: skip
    return bytes_columns.with_bytes(schema, names)


def _bytes_of_source(
    session: Session, reached: Reach | None, encoding: Encoding | None, schema: Schema
) -> frozenset[str]:
    """Ask for the names of columns whose strings are bytes."""
    engine, source = source_reader(session, reached)
    if isinstance(source, TellingBytes):
        return source.bytes_columns()
    if encoding is None or encoding.kind is not Kind.TYPED:
        return frozenset()
    splits = list(source.sample(session.listing, FILES))
    if encoding.format == "Parquet":
        found = engine.ask(footers.question(source, splits, encoding), {})
        return bytes_columns.of_footers(footer.columns for footer in footers.read_answer(found))
    strings = [c for c in schema.reads if c.source and bytes_columns.holds_strings(c.type)]
    if not (splits and strings and source.replayable):
        return frozenset()
    relation = read_relation(source, splits[:1], encoding, schema)
    ((*counts,),) = engine.ask(bytes_columns.question(strings, relation), {})
    return frozenset(c.source for c, count in zip(strings, counts, strict=True) if int(count))


def _checked(session: Session, encoding: Encoding | None, schema: Schema) -> Schema:
    """Return the schema with what all its columns together, and the engine that stores, ask for."""
    kind = encoding.kind if encoding is not None else Kind.MADE
    if encoding is not None:
        schema = with_whole_tuples(schema, encoding)
    times, zone = _times(session), session.engine.facts.timezone
    schema = replace(schema, times=times)
    checked = schema.with_reads(within(schema.reads, times, kind, zone))
    if schema.projection is not None and times != WIDE:
        # What is selected may be computed.
        columns = within(checked.columns, times, Kind.TYPED, zone)
        checked = replace(checked, columns=columns)
    return checked


def _times(session: Session) -> TimeRange:
    """Return the days and points in time that all engines hold that store rows."""
    oldest = min((w.engine.facts.release for w in session.writers), default=())
    return time_range(oldest) if oldest else WIDE


def _link(session: Session) -> Link | None:
    """Return the network to a database whose protocol can be compressed; None for others."""
    database = session.database
    if not isinstance(database, Packing):
        return None
    if not transport.measures_link(session.options):
        return Link()
    near = database.same_machine()
    return Link(near, None if near else rate_of(database.send_seconds))


def _takes_binary(session: Session) -> bool:
    """Tell whether rows may be sent in binary: again as text where they are refused so."""
    database = session.database
    return isinstance(database, TakingBinary) and (
        session.source.replayable and database.takes_binary()
    )


def _ask_density(session: Session, encoding: Encoding | None) -> float | None:
    """Return the rows in a stored byte of local text.

    Elsewhere up to 16 requests would make every load wait for the forecast of a plan.
    """
    source = session.source
    if encoding is None or session.remote or not isinstance(source, Ranged):
        return None
    count = len(session.listing)
    some = session.listing.splits(session.target_key, range(0, count, max(1, -(-count // FILES))))
    return rows_per_byte(source, list(some), encoding)


# --- what has landed -----------------------------------------------------------------------------


def landed_ids(session: Session) -> set[str]:
    """Return the ids of the splits that the target holds, as far as ledger and journal know."""
    if not session.target.caps.remembers:
        return set()
    if session.database is not None:
        return set(map(without_salt, session.database.landed()))
    if not session.target.table:
        return set()  # the manifest of an export knows, see rowfall.plan.exports
    return memory.remembered(session).landed


def _landed(session: Session, facts: LoadFacts, known: Collection[str]) -> frozenset[int]:
    """Return the indexes of the listing that are in the target already."""
    if not known or (session.ledger is None and session.database is None):
        return frozenset()
    splits = facts.listing.splits(session.target_key)
    landed = {i for i, split in enumerate(splits) if split.id in known}
    if len(known) > len(landed) and not session.options.force:
        _warn_of_new_versions(session, facts.listing, landed)
    return frozenset(landed)


def _warn_of_new_versions(session: Session, listing: Listing, landed: set[int]) -> None:
    """Warn of objects overwritten since they landed: they are other splits, added to the old."""
    if session.ledger is None:
        return
    known, key = session.ledger.landed_uris(session.target_key), session.target_key
    again = [
        s.name for i, s in enumerate(listing.splits(key)) if i not in landed and s.name in known
    ]
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


def _ask_versions(facts: LoadFacts, delivery: Choice, parser: Choice) -> str:
    """Return why an engine may read objects in another version than the one listed, or ""."""
    pulled = facts.reach is not None and delivery.value != PUSH
    source = facts.reach.source if facts.reach and pulled else facts.source
    if parser.value != ENGINE or not isinstance(source, Pinned):
        return ""
    return source.unpinned(facts.listing, facts.encoding) or ""


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
        session.engine.run(Statement(SqlText.of("SELECT 1"), known))
    except RowfallError as error:
        cause = error.message.removeprefix(f"Code: {error.code}. DB::Exception: ")
        raise UsageError(
            f"the engine refuses --set {' '.join(session.options.set)}: {cause.split(' (')[0]}",
            hint="See its type: rowfall query 'SELECT name, type FROM system.settings'.",
        ) from None


def _ask_reach(session: Session) -> Reach | None:
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
        session.source_engine, session.source, session.listing, session.declared,
        oldest=oldest.version,
    )  # fmt: skip


def _rewritten_here(session: Session, dialect: Dialect) -> Reach:
    why = f"{rewriting.describe(dialect)} is rewritten here first"
    return Reach(False, why, session.source, hint="Leave out --pull.")


def _ask_writers(session: Session, encoding: Encoding | None) -> tuple[WriterFacts, ...]:
    """Describe the engines that store rows."""
    text = encoding is not None and encoding.kind is not Kind.TYPED

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
    """Ask whether the engine takes floats of text exactly: 24.10, for one, does not."""
    probe = Statement(SqlText.of(FLOAT_PROBE), {"precise_float_parsing": 1}, format="TSV")
    try:
        return writer.engine.run(probe).data == b"1\n"
    except RowfallError:  # a right is missing that a load needs, too
        return False


def _ask_decoders(session: Session, facts: LoadFacts) -> LoadFacts:
    """Ask where rowfall-decode can run, as far as that matters: a server has to start it."""
    options, reached = session.options, facts.reach
    if options.decoder == "never" or reached is None or not reached.pull:
        return facts
    if transport.unparsed(facts) is not None:
        return facts
    writers = list(facts.writers)
    if isinstance(reached.source, Addressed):
        for number, writer in enumerate(session.writers):
            why = decoder_refused(writer.engine)
            writers[number] = replace(writers[number], no_decoder=why)
            if why is not None:
                break
        else:
            return replace(facts, writers=tuple(writers))
    if facts.program is not None:
        writers[0] = replace(writers[0], near=session.engine.same_machine())
    return replace(facts, writers=tuple(writers))


def _ask_links(session: Session, facts: LoadFacts) -> LoadFacts:
    """Measure the network to servers that rows are pushed to, where compression depends on it."""
    if not transport.measures_link(session.options):
        return facts
    near = [writer.engine.same_machine() for writer in session.writers]
    rates = [
        None if here else network_rate(writer.engine)
        for writer, here in zip(session.writers, near, strict=True)
    ]
    writers = tuple(
        replace(known, near=here, rate=rate)
        for known, here, rate in zip(facts.writers, near, rates, strict=True)
    )
    return replace(facts, writers=writers)


# --- the table -----------------------------------------------------------------------------------


def _ask_table(session: Session, name: str) -> ExistingTable | None:
    """Ask the first writer for a table's definition; return None where there is no such table."""
    if session.database is not None:
        return session.database.existing_table()
    if not session.target.table:
        return None
    return session.engine.existing_table(session.first_target.database, name)


def _columns(session: Session, table: ExistingTable | None) -> list[list[Any]] | None:
    """Return (name, type, default_kind) of the table's columns; None where no node has it."""
    if session.target.table and session.shards is not None:
        like = session.shards.tables.like
        if like is not None:  # on some node, not only the first
            return [list(column) for column in like.columns]
    if table is None or not table.columns:
        return None
    return _as_asked(session, [list(column) for column in table.columns])


def _as_asked(session: Session, columns: list[list[Any]]) -> list[list[Any]]:
    """Return the columns of a database's table with the types that ``--type`` and ``--schema`` say,
    where these are what a new table would have had: the same command is run again.
    """
    options, database, target = session.options, session.database, session.target
    table, columns = columns, _with_literals(session, columns)
    given = options.type or options.schema or options.schema_file
    if database is None or not given or not isinstance(target, Declaring):
        return columns
    asked = read_table_options(options, session.engine.ask)
    wanted = {**dict(asked.columns), **asked.types}
    names = [name for name, type_, _ in columns if wanted.get(name, type_) != type_]
    declared = [target.declared(Column(name, wanted[name])) for name in names]
    shown = dict(zip(names, database.shown(declared) if names else (), strict=True))
    same = {
        name for name, type_, _ in table
        if name in shown and _is_shown(shown[name], wanted[name], type_)
    }  # fmt: skip
    return [[name, wanted[name] if name in same else type_, kind] for name, type_, kind in columns]


def _with_literals(session: Session, columns: list[list[Any]]) -> list[list[Any]]:
    """Return the columns of a database; arrays as text where fields of CSV and TSV are loaded.

    These hold what the database itself writes and reads: ``{1,2}``. ``--type`` says otherwise.
    """
    encoding = session.declared
    if session.database is None or encoding is None or isinstance(session.source, Queried):
        return columns
    if not encoding.format.startswith(("CSV", "TSV", "TabSeparated")):
        return columns
    return [
        [name, "Nullable(String)" if type_.startswith("Array(") else type_, kind]
        for name, type_, kind in columns
    ]


def _is_shown(shown: str, wanted: str, there: str) -> bool:
    """Tell whether a column that was made with a type is shown as the one that is there."""
    null = parse_type(wanted).nullable == parse_type(there).nullable
    return null and parse_type(shown).bare == parse_type(there).bare


def _ask_views(session: Session, schema: Schema) -> views.Views | None:
    """Ask for the materialized views that read what is inserted."""
    attaches = session.target.caps.publish is Publish.ATTACH
    if not attaches or not schema.exists or session.options.direct:
        return None
    target = session.first_target
    return views.discover(session.engine.ask, target.database, target.table)


def _viewed(listed: ExistingTable | None, found: views.Views | None) -> tuple[str, ...]:
    """Return the columns that views use; () where the definition of the table is not understood."""
    definition = table_definition.parse(listed.create_query) if listed and found else None
    if found is None or definition is None:
        return ()
    return table_definition.stored_columns(definition, found.names_in_selects())


def _filled(
    session: Session, listed: ExistingTable | None, schema: Schema, found: views.Views | None
) -> tuple[FilledTable, ...]:
    """Return the tables that get rows, as they are or as they will be made."""
    target = session.first_target
    if not target.caps.tables:
        return ()
    engine, partition_by = schema.engine, schema.partition_by
    shards = session.shards
    if shards is not None and shards.tables.like is not None:
        engine, partition_by = shards.tables.engine.name, shards.tables.like.partition_by
    elif shards is not None and (session.options.replicated or shards.cluster.replicated):
        engine = f"Replicated{engine.removeprefix('Replicated')}"
    elif listed is not None:
        engine, partition_by = listed.engine, listed.partition_key
    own = FilledTable(
        f"{target.database}.{target.table}", _engine_name(engine), partition_by not in UNPARTITIONED
    )
    behind = found.tables if found else ()
    return own, *(
        FilledTable(
            f"{t.database}.{t.table}", t.engine,
            t.partitioned and "PARTITION BY tuple()" not in t.engine_full,
            _computed(t.create_query),
        )
        for t in behind
    )  # fmt: skip


def _computed(create_query: str) -> tuple[str, ...]:
    definition = table_definition.parse(create_query)
    return table_definition.computed_columns(definition) if definition is not None else ()


def _engine_name(text: str) -> str:
    """Return the name in front of an engine's arguments."""
    return "".join(re.findall(r"\A\s*(\w+)", text))


def _ddl(session: Session, schema: Schema) -> str:
    """Return what makes the tables of a cluster; "" where there is no cluster, or nothing to do."""
    if session.shards is None:
        return ""
    missing = session.shards.missing(schema, session.options)
    return ";\n".join(ddl.on_cluster for ddl in missing)


def _ask_sharding(session: Session, schema: Schema) -> ShardingFacts | None:
    """Ask which rows belong on which shard; None where any will do.

    Raises:
        UsageError: the key is none; or options contradict the tables.
        TargetError: the nodes do not agree on it, or one that it needs is away.
    """
    shards = session.shards
    key = shards.sharding_key(session.options) if shards is not None else None
    if shards is None or key is None:
        return None
    doubled = shards.cluster.replicated and not shards.cluster.internal_replication
    return ShardingFacts(key, _refused_key(session, schema, key), doubled)


def _refused_key(session: Session, schema: Schema, key: ShardingKey) -> str | None:
    """Return why the key of an existing table cannot be computed from what is loaded.

    Raises:
        UsageError: a Distributed table could not have this key.
    """
    values = ", ".join(
        f"defaultValueOfTypeName({quote(c.type)}) AS {sql.name(c.name)}" for c in schema.columns
    )
    try:
        ((kind,),) = session.engine.ask(
            f"SELECT toTypeName({key.expression}) FROM (SELECT {values})"
        )
    except RowfallError as error:
        if schema.exists:
            return f"{key.expression} cannot be computed from the columns that are loaded"
        raise UsageError(
            f"--shard-key {key.expression} does not fit the table: {error.message}",
            hint="Write an expression of its columns, like cityHash64(name).",
        ) from None
    if _INTEGER.fullmatch(str(kind)):
        return None
    raise UsageError(
        f"the sharding key {key.expression} is a {kind}, and a shard is found by a whole number",
        hint=f"Take a hash of it: --shard-key {shlex.quote(f'cityHash64({key.expression})')}.",
    )


# --- the data ------------------------------------------------------------------------------------


def _engine_of(session: Session, table: ExistingTable | None, schema: Schema) -> str:
    """Return the engine of the table that rows end in, with its arguments."""
    if session.target.table and session.shards is not None and session.shards.tables.like:
        engine = session.shards.tables.like.engine
        return f"{engine.name}({', '.join(engine.arguments)})"
    return table.engine if table else schema.engine


def _stored_key(session: Session, table: ExistingTable | None) -> str:
    """Return the partition key of a table of ClickHouse that is there; "" for none."""
    if session.database is not None:
        return ""
    key = table.partition_key if table else ""
    if session.target.table and session.shards is not None and session.shards.tables.like:
        key = session.shards.tables.like.partition_by
    return "" if key in UNPARTITIONED else key


def _ask_schema(
    session: Session, reached: Reach | None, existing: Sequence[Sequence[Any]] | None, stored: str
) -> tuple[Encoding | None, Schema]:
    """Return encoding and columns: of the existing table, of the generator, or of the data."""
    engine, source = source_reader(session, reached)
    # One that changes while it is looked at fails alone, in its attempt.
    source = any_version(source)

    most = units.parse_size(session.options.max_record)
    limits = _sample_limits(session, most) if engine is session.reader else {}

    def asks(text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        return engine.ask(text, {**limits, **settings})

    listing = session.listing
    while True:
        try:
            if limits and (long := _begins_long(source, listing, session.declared, most)):
                raise long
            return inference.schema_for(
                source, listing, session.declared, _options(session), asks, existing,
                json_type=_stores_json(session), null_tuples=_stores_null_tuples(session),
                table=_questions(session), stored=stored,
                times=_times(session),
            )  # fmt: skip
        except RowfallError as error:
            if isinstance(error, EngineError):
                _check_sample(source, listing)
            if error.code in (MEMORY_LIMIT, TIMEOUT_EXCEEDED) and limits:
                error = _too_much(session, source, listing, most, error.code)
            listing = _without_broken(listing, error)


# Python, its libraries and what it holds of a sample, beside an engine (measured 90-150 MB).
_HERE = 160 << 20
# Copies of a record while an engine finds out about columns: a buffer that has grown to twice its
# size, a column of lines, and one of their fields.
_COPIES = 8


# A sample of files here takes a second; gigabytes of commas in a line take minutes and no memory.
_SAMPLE_SECONDS = 20


def _sample_limits(session: Session, most: int) -> dict[str, int]:
    """Return the settings of statements about a sample in the engine here.

    Bytes that nobody has looked at may be one record of gigabytes.
    """
    room = session.reader.facts.memory - ENGINE_BASE // 2 - _HERE
    declared = session.declared
    if declared is not None and declared.kind in (Kind.TEXT, Kind.JSON):
        room = min(room, _COPIES * most)
    limits = {"max_memory_usage": max(room, LEAST_MEMORY // 4)}
    if not session.source.remote:
        limits["max_execution_time"] = _SAMPLE_SECONDS
    return limits


def _begins_long(
    source: Source, listing: Listing, encoding: Encoding | None, most: int
) -> RecordTooLongError | None:
    """Return the error about a sampled file whose first rows hold one that is too long.

    The engine would skip two thousand million fields without looking at its limits in between.
    """
    if encoding is None or encoding.kind is Kind.TYPED or not source.replayable:
        return None
    doubtful = [s for s in source.sample(listing, FILES) if _may_be_long(source, s, encoding, most)]
    return long_records.find(source, doubtful, encoding, most) if doubtful else None


def _may_be_long(source: Source, split: Split, encoding: Encoding, most: int) -> bool:
    packed = pipes.packing(split.uri, encoding)
    if packed == "none" and split.size is not None and split.size <= most:
        return False
    # Of what is far away the engine's own limits have to do: each look is a request.
    return not source.remote and long_records.may_begin(source, split, packed)


def _too_much(
    session: Session, source: Source, listing: Listing, most: int, code: int
) -> RowfallError:  # fmt: skip
    """Return the error about a sample that takes more memory, or longer, than it may."""
    splits = source.sample(listing, FILES)
    found = long_records.find(source, splits, session.declared, most)
    if found is not None:
        return found
    names = splits[0].uri + (f" and {len(splits) - 1} more" if len(splits) > 1 else "")
    if code == TIMEOUT_EXCEEDED:
        return SourceError(
            f"a sample of {names} takes longer than {_SAMPLE_SECONDS} s",
            hint="Millions of empty lines in front of the rows may be the reason: look at the "
            "beginning of the file. --skip-lines leaves lines out.",
            code=code,
        )
    return SourceError(
        f"a sample of {names} takes more memory than --memory allows "
        f"({units.memory(session.reader.facts.memory)})",
        hint="One value, block or page of it is very large: give more with --memory, or write the "
        "file with smaller ones.",
        code=MEMORY_LIMIT,
    )


def _options(session: Session) -> Options:
    """Return the options without the keys of other databases, which no engine here understands."""
    if session.database is None:
        return session.options
    return replace(session.options, engine=None, order_by=None, partition_by=None)


def _check_sample(source: Source, listing: Listing) -> None:
    """Check that what an engine could not read is still there.

    Raises:
        SourceError: it is gone, or another version.
    """
    for split, what in source.changed(source.sample(listing, FILES)):
        raise SourceError(f"cannot read {split.uri}: {what}")


def _questions(session: Session) -> TableQuestions | None:
    """Return how the target table is asked before its columns change; None where they may not."""
    if not session.target.caps.tables or session.options.replace:
        return None

    def keys() -> frozenset[str]:
        target = session.first_target
        rows = session.engine.ask(
            f"SELECT name FROM system.columns WHERE {sql.table_is(target.database, target.table)} "
            "AND (is_in_partition_key OR is_in_sorting_key OR is_in_primary_key "
            "OR is_in_sampling_key)"
        )
        return frozenset(str(name) for (name,) in rows)

    def keeps(column: str, type_: str) -> bool:
        x = sql.name(column)
        for writer in session.writers:
            at = sql.qualified(writer.target.database, writer.target.table)
            # As text: a cast back to the old type may wrap, and NULL equals nothing.
            same = f"ifNull(toString(CAST(CAST({x}, {quote(type_)}), toTypeName({x}))), '') = "
            same += f"ifNull(toString({x}), '')"
            try:
                lost = writer.engine.ask(f"SELECT 1 FROM {at} WHERE NOT ({same}) LIMIT 1")
            except RowfallError as error:
                if error.code in GONE:  # it is made by this load
                    continue
                if error.transient:
                    raise
                return False
            if lost:
                return False
        return True

    return TableQuestions(keys, keeps)


def _keys(listed: ExistingTable | None, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the table that its sorting or partition key names."""
    texts = (schema.order_by, schema.partition_by)
    if listed is not None and schema.exists:
        texts = (listed.sorting_key, listed.partition_key)
    named = {sql.identifier(word) for text in texts for word in sql.tokens(text)}
    return tuple(column.name for column in schema.columns if column.name in named)


def _ask_key_types(
    session: Session, listed: ExistingTable | None, schema: Schema
) -> tuple[str, ...]:
    """Return the types of the elements of the sorting key, where rowfall-decode might sort."""
    if session.target.folder is None or session.options.build == "off":
        return ()
    key = transport.sorting_key(schema, listed)
    question = keys.question_of_types(key, schema.columns)
    if question is None:
        return ()
    try:
        return tuple(str(row[1]) for row in session.engine.ask(question))
    except EngineError as error:
        if error.transient:
            raise
        return ()  # it uses a column that the load does not fill, or is no key at all


def _check_changes(session: Session, schema: Schema) -> None:
    """Check that nobody converts the values of columns that become wider.

    Raises:
        TargetError: views read the table; what they hold has types of its own.
    """
    widened = [change for change in schema.changes if change.before]
    found = _ask_views(session, schema) if widened else None
    if found:
        new = data_errors.type_options([(c.name, c.type) for c in widened])
        raise TargetError(
            f"{session.table_text} feeds materialized views ({', '.join(found.names)}), whose own "
            f"tables would cut the values of {', '.join(c.name for c in widened)} to their types",
            hint=f"Load into a new table with --table NAME {new}.",
        )


def _stores_json(session: Session) -> bool:
    """Tell whether new tables can have columns of the type JSON; files are exported with text."""
    old = (writer.engine.facts.release[:2] < JSON_RELEASE for writer in session.writers)
    return session.target.caps.tables and not any(old)


def _stores_null_tuples(session: Session) -> bool:
    """Tell whether new tables can have columns of the type Nullable(Tuple)."""
    return all(w.engine.facts.release[:2] >= NULL_TUPLES_RELEASE for w in session.writers)


def _without_broken(listing: Listing, error: RowfallError) -> Listing:
    """Return the listing for another sample, without the object that cannot be read.

    Its split will fail with a reason of its own, and the others land.

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
