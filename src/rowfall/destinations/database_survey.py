"""Questions about a table of another database before a load: columns, bytes, connection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import DatabaseFacts, NetworkLink, Reach, SourceColumns, TargetFacts
from rowfall.core import charsets, sql
from rowfall.core.model import Column, Kind, Schema, ValueCheck
from rowfall.core.native import NativeTable, NativeType
from rowfall.core.options import ERROR, Options
from rowfall.core.type_names import parse_type
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import Database, HasNativeTypes, SupportsCompression
from rowfall.plan import links
from rowfall.plan.reach import rate_of, source_reader
from rowfall.plan.survey import DENSITY_FILES
from rowfall.schema.projection import Scan
from rowfall.schema.table_changes import TargetColumns
from rowfall.schema.table_options import read_column_options, read_table_options
from rowfall.schema.types import (
    arrow_files,
    bytes_columns,
    footers,
    nested_reading,
    parquet_files,
)
from rowfall.sources.base import KnowsBinaryColumns, KnowsNativeTypes, Queried
from rowfall.targets.base import DeclaresTypes, TakesNativeTypes


def stored_columns(session: Session, database: Database) -> TargetColumns:
    """Return the columns of the table, with the types that the user asks for."""
    table = database.existing_table()
    if table is None or not table.columns:
        return TargetColumns(json_type=False, table=table)
    existing = _as_asked(session, database, [list(column) for column in table.columns])
    return TargetColumns(existing, json_type=False, clocks=table.clocks, table=table)


def options_here(session: Session) -> Options:
    """Return the options without the keys of other databases, which no engine here understands."""
    return replace(session.options, engine=None, order_by=None, partition_by=None)


def fit(session: Session, found: SourceColumns, listed: ExistingTable | None) -> Schema:
    """Return the schema as the database takes it: nothing sorts the rows, and bytes are marked."""
    schema = found.schema
    notes = tuple(note for note in schema.notes if note[0] != "ORDER BY")
    schema = replace(schema, layout=replace(schema.layout, order_by="tuple()"), notes=notes)
    if isinstance(session.target, DeclaresTypes):
        schema = _with_bytes(session, found, schema, listed)
    return replace(schema, columns=tuple(_as_json(c) for c in schema.columns))


def _as_json(column: Column) -> Column:
    """Return a column of text with nested values as JSON, which new tables get, too.

    The engine's own text of them (``[1,NULL]``, ``('a',1)``) is read by no database.
    """
    type_, read = parse_type(column.type), parse_type(column.read_type or column.type)
    if not type_.text or not nested_reading.is_nested(read.full):
        return column
    x = sql.name(column.source or column.name)
    value = f"toJSONString({x})"
    if read.nullable and type_.nullable:
        value = f"if(isNull({x}), NULL, {value})"
    return replace(column, expression=value, check=ValueCheck(value))


def with_native(
    session: Session, database: Database, reached: Reach | None, schema: Schema
) -> Schema:
    """Return the schema with types and key of a table in a database of the target's kind.

    Of columns that are loaded as they are: whose type nobody asks for, and nothing computes.
    """
    options, (engine, source) = session.options, source_reader(session, reached)
    if not isinstance(source, KnowsNativeTypes) or not isinstance(session.target, TakesNativeTypes):
        return schema
    found, made, own = source.native(), source.made, read_column_options(options)
    # What is added, and what is renamed, may have the name of another column of the source.
    moved = schema.projection is not None and (own.renames or own.added)
    if not _speaks(database, session.target, found) or made is None or own.select or moved:
        return schema
    asked = read_table_options(options, engine.ask)
    given, was = {*asked.types, *dict(asked.columns)}, {c.name: c.type for c in made.columns}
    same = [
        c for c in schema.columns
        if c.name not in given and was.get(c.source) == c.type
    ]  # fmt: skip
    # What refers to other columns holds where all of them are there, by their names.
    whole = {c.name for c in same if c.name == c.source} >= {c.name for c in made.columns}
    types = {
        c.name: found.types[c.source] if whole else _alone(found.types[c.source])
        for c in same if c.source in found.types
    }  # fmt: skip
    names = {c.source: c.name for c in same}
    # Rows that a cursor finds again follow their older versions where they do not replace them.
    repeats = options.cursor is not None and options.on_conflict == ERROR
    key = found.key if set(found.key) <= set(names) and not repeats else ()
    keys = tuple(one for one in found.keys if whole and not (repeats and one.unique))
    native = replace(
        found, types=types, key=tuple(names[name] for name in key), keys=keys,
        options=found.options if whole else "",
    )  # fmt: skip
    return replace(schema, layout=replace(schema.layout, native=native))


def _speaks(database: Database, target: TakesNativeTypes, found: NativeTable) -> bool:
    """Tell whether the server of a target knows the words in which a table is described."""
    if isinstance(database, HasNativeTypes):
        return found.system == database.native and found.version <= database.native_version
    return found.system == target.native


def _alone(type_: NativeType) -> NativeType:
    return replace(type_, declared=type_.plain) if type_.plain else type_


def ask(
    session: Session, database: Database, listed: ExistingTable | None, *, thorough: bool
) -> TargetFacts:
    """Ask what a plan has to know of the table, besides its columns.

    Args:
        thorough: also what only a forecast needs.
    """
    return TargetFacts(
        name=session.first_target.table,
        existing=listed,
        promise=database.promise(),
        database=DatabaseFacts(
            upkeep=database.upkeep() if thorough else "",
            binary=thorough and _takes_binary(session, database),
            link=_link(session, database),
        ),
    )


def _link(session: Session, database: Database) -> NetworkLink | None:
    """Return the network to a database whose protocol can be compressed; None for others."""
    if not isinstance(database, SupportsCompression):
        return None
    if not links.measures_link(session.options):
        return NetworkLink()
    near = database.same_machine()
    return NetworkLink(near, None if near else rate_of(database.send_seconds))


def _takes_binary(session: Session, database: Database) -> bool:
    """Tell whether rows may be sent in binary: again as text where they are refused so."""
    return session.source.replayable and database.takes_binary()


def _with_bytes(
    session: Session, found: SourceColumns, schema: Schema, listed: ExistingTable | None
) -> Schema:
    """Return the schema with marks at columns whose strings are bytes, for a database.

    A new table gets columns for bytes where the source, or ``--encoding binary``, says that it has
    such. In one that is there they take whatever has a type; of files of text they take what the
    database itself reads as bytes.
    """
    options, encoding = session.options, found.encoding
    typed = session.source.made is not None or encoding is None or encoding.kind is Kind.TYPED
    if listed is not None and typed:
        schema = bytes_columns.as_in_table(schema, listed.binary)
    if charsets.names_binary(options.encoding):
        columns = tuple(replace(column, binary=True) for column in schema.columns)
        return replace(schema, columns=columns)
    if listed is not None:
        return schema
    names = _bytes_of_source(session, found, schema)
    if names and (options.type or options.schema or options.schema_file):
        asked = read_table_options(options, session.engine.ask)
        schema = bytes_columns.with_bytes(schema, names)
        return bytes_columns.without(schema, {c.name for c in schema.columns}
                                     - {*asked.types, *dict(asked.columns)})  # fmt: skip
    return bytes_columns.with_bytes(schema, names)


def _bytes_of_source(session: Session, found: SourceColumns, schema: Schema) -> frozenset[str]:
    """Ask for the names of columns whose strings are bytes."""
    encoding = found.encoding
    engine, source = source_reader(session, found.reach)
    if isinstance(source, KnowsBinaryColumns):
        return source.bytes_columns()
    if encoding is None or encoding.kind is not Kind.TYPED:
        return frozenset()
    splits = list(source.sample(found.listing, DENSITY_FILES))
    if encoding.format == "Parquet":
        if session.options.decoder != "never":
            sample = parquet_files.read(source, splits, encoding)
            if sample is not None:
                named = parquet_files.footers_of(sample.files)
                return bytes_columns.of_footers(footer.columns for footer in named)
        rows = engine.ask(footers.question(source, splits, encoding), {})
        return bytes_columns.of_footers(footer.columns for footer in footers.read_answer(rows))
    held = bytes_columns.holds_strings
    # What is a number in the file is text of it in the table.
    strings = [c for c in schema.reads if c.source and held(c.type) and held(c.read_type or c.type)]
    if not (splits and strings and source.replayable):
        return frozenset()
    zeros = isinstance(session.target, DeclaresTypes) and session.target.zeros_in_text
    nested = any(parse_type(c.read_type or c.type).nested for c in strings)
    if not nested and session.options.decoder != "never":
        names = [c.source for c in strings]
        here = arrow_files.no_texts(source, splits[0], encoding, names, zeros=zeros)
        if here is not None:
            return here
    relation = Scan(source, splits[:1], encoding, schema).relation()
    ((*counts,),) = engine.ask(bytes_columns.question(strings, relation, zeros=zeros), {})
    return frozenset(c.source for c, count in zip(strings, counts, strict=True) if int(count))


def _as_asked(session: Session, database: Database, columns: list[list[Any]]) -> list[list[Any]]:
    """Return the columns of a database's table with the types that ``--type`` and ``--schema`` say,
    where these are what a new table would have had: the same command is run again.
    """
    options, target = session.options, session.target
    columns = _with_computed(session, database, columns)
    table, columns = columns, _with_literals(session, columns)
    given = options.type or options.schema or options.schema_file
    if not given or not isinstance(target, DeclaresTypes):
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


def _with_computed(
    session: Session, database: Database, columns: list[list[Any]]
) -> list[list[Any]]:
    """Return the columns of a database; what both databases compute is no column too many.

    So a table that was made like the source takes what comes later, too.
    """
    source, target = session.source, session.target
    if not any(kind == "MATERIALIZED" for _, _, kind in columns):
        return columns
    if not isinstance(source, KnowsNativeTypes) or not isinstance(target, TakesNativeTypes):
        return columns
    found = source.native()
    if not _speaks(database, target, found):
        return columns
    both = {name for name, one in found.types.items() if one.computed}
    return [[name, type_, "DEFAULT" if name in both else kind] for name, type_, kind in columns]


def _with_literals(session: Session, columns: list[list[Any]]) -> list[list[Any]]:
    """Return the columns of a database; arrays as text where fields of CSV and TSV are loaded.

    These hold what the database itself writes and reads: ``{1,2}``. ``--type`` says otherwise.
    """
    encoding = session.declared
    if encoding is None or isinstance(session.source, Queried):
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
