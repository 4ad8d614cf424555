"""Questions about a table of ClickHouse before a load: definition, views, shards, keys."""

from __future__ import annotations

import shlex

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.destination import Session
from rowfall.contracts.facts import (
    ClusterFacts,
    FilledTable,
    ShardingFacts,
    SourceColumns,
    TargetFacts,
    ViewFacts,
)
from rowfall.core import sql
from rowfall.core.errors import EngineError, RowfallError, TargetError, UsageError
from rowfall.core.model import Schema
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.destinations.clickhouse.nodes import UNPARTITIONED, engine_name, nodes_of
from rowfall.engines.base import ExistingTable
from rowfall.plan import keys, sorting, table_definition, transport
from rowfall.plan.upserts import ask_stored
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.table_changes import TableQuestions, TargetColumns
from rowfall.schema.types.strict_reading import with_sign
from rowfall.systems.clickhouse import views
from rowfall.systems.clickhouse.codes import GONE

# The first release whose type JSON is no experiment.
JSON_RELEASE = (25, 3)
# What a Distributed table takes for a key when it inserts (StorageDistributed::createSelector).
_INTEGER = regex(r"(LowCardinality\()?U?Int(8|16|32|64)\)?")


def stored_columns(session: Session, table: str | None) -> TargetColumns:
    """Return the columns of the table, None where no node has it, and the questions to it."""
    listed = None
    if table is not None:
        listed = session.engine.existing_table(session.first_target.database, table)
    found = nodes_of(session).definition(listed)
    key = "" if found is None or found.partition_key in UNPARTITIONED else found.partition_key
    return TargetColumns(
        [list(column) for column in found.columns] if found and found.columns else None,
        None if session.options.replace else _questions(session),
        key,
        json_type=all(w.engine.facts.release[:2] >= JSON_RELEASE for w in session.writers),
        table=listed,
    )


def survey(
    session: Session, listed: ExistingTable | None, found: SourceColumns, *, thorough: bool
) -> tuple[Schema, TargetFacts]:
    """Ask what a plan has to know of the table; return the schema as the table takes it, too.

    Raises:
        TargetError: views read the table whose columns would become wider.
    """
    nodes, first = nodes_of(session), session.first_target
    definition = nodes.definition(listed)
    engine = found.schema.layout.engine if definition is None else definition.engine
    schema = with_sign(found.schema, engine)
    viewed = _ask_views(session, schema)
    _check_changes(session, schema, viewed)
    ddl = nodes.ddl(schema)
    if nodes.alone and not schema.exists:
        ddl = sql.create_table(first.database, first.table, schema)
    return schema, TargetFacts(
        name=first.table,
        existing=listed,
        views=ViewFacts(viewed.names if viewed else (), _viewed(listed, viewed)),
        cluster=ClusterFacts(nodes.replicated, _ask_sharding(session, schema)),
        filled=_filled(session, listed, schema, viewed),
        stored=ask_stored(session),
        key_types=_ask_key_types(session, listed, schema),
        ddl=ddl,
    )


def _ask_views(session: Session, schema: Schema) -> views.Views | None:
    """Ask for the materialized views that read what is inserted."""
    if not schema.exists or session.options.direct:
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
    nodes, target = nodes_of(session), session.first_target
    definition = nodes.definition(listed)
    engine, key = nodes.new_engine(schema), schema.layout.partition_by
    if definition is not None:
        engine, key = definition.engine, definition.partition_key
    name = f"{target.database}.{target.table}"
    behind = found.tables if found else ()
    return FilledTable(name, engine_name(engine), key not in UNPARTITIONED), *(
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


def _ask_sharding(session: Session, schema: Schema) -> ShardingFacts | None:
    """Ask which rows belong on which shard; None where any will do.

    Raises:
        UsageError: the key is none; or options contradict the tables.
        TargetError: the nodes do not agree on it, or one that it needs is away.
    """
    nodes = nodes_of(session)
    key = nodes.sharding_key()
    if key is None:
        return None
    return ShardingFacts(key, _refused_key(session, schema, key), nodes.doubles())


def _refused_key(session: Session, schema: Schema, key: ShardingKey) -> str | None:
    """Return a clause: why the loaded columns do not give the sharding key; None if they do.

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


def _questions(session: Session) -> TableQuestions:
    """Return the questions about the table before its columns change."""

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

    def defaults() -> dict[str, str]:
        target = session.first_target
        rows = session.engine.ask(
            "SELECT name, default_expression FROM system.columns "
            f"WHERE {sql.table_is(target.database, target.table)} AND default_expression != '' "
            "AND default_kind != 'EPHEMERAL' ORDER BY position"
        )
        return {str(name): str(expression) for name, expression in rows}

    return TableQuestions(keys, keeps, defaults)


def _ask_key_types(
    session: Session, listed: ExistingTable | None, schema: Schema
) -> tuple[str, ...]:
    """Return the types of the elements of the sorting key, where rowfall-decode might sort."""
    options, server = session.options, session.engine.kind == "server"
    if not (transport.spares_servers(options) if server else session.destination.builds_parts):
        return ()
    if options.build == "off":
        return ()
    key = sorting.sorting_key(schema, listed)
    question = keys.question_of_types(key, schema.columns)
    if question is None:
        return ()
    try:
        return tuple(str(row[1]) for row in session.engine.ask(question))
    except EngineError as error:
        if error.transient:
            raise
        return ()  # it uses a column that the load does not fill, or is not a key at all


def _check_changes(session: Session, schema: Schema, found: views.Views | None) -> None:
    """Check that nobody converts the values of columns that become wider.

    Raises:
        TargetError: views read the table; what they hold has types of its own.
    """
    widened = [change for change in schema.fit.changes if change.before]
    if widened and found:
        new = data_errors.type_options([(c.name, c.type) for c in widened])
        raise TargetError(
            f"{session.table_text} feeds materialized views ({', '.join(found.names)}), whose own "
            f"tables would cut the values of {', '.join(c.name for c in widened)} to their types",
            hint=f"Load into a new table with --table NAME {new}.",
        )
