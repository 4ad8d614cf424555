"""Decides whether rowfall-decode writes the parts of a table, or says why an engine does. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.contracts.facts import LoadFacts, ShardingFacts
from rowfall.core.errors import UsageError
from rowfall.core.model import (
    ENGINE,
    HERE,
    NOT_SPARED,
    Choice,
    Schema,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.type_names import parse_type, without_nested
from rowfall.decoder.installed import PROGRAM
from rowfall.engines.base import ExistingTable
from rowfall.plan import attempts, decoding, keys, table_definition
from rowfall.plan.sharding import no_distributed
from rowfall.plan.sorting import sorting_key
from rowfall.plan.statements import is_json
from rowfall.sources.base import Streamed

# Fewer rows take as long both ways (docs/decisions/0035-default-layout.md).
_LEAST_BUILT_BYTES = 10 << 20
# Files of wide parts that are smaller cost more than their rows.
_LEAST_FILE_BYTES = 64 << 10
_NEW_TABLE = table_definition.Definition((), "MergeTree")
# Settings of an INSERT that apply to parts that are made here, too.
_PART_SETTINGS = frozenset(
    {
        "max_insert_threads",
        "max_partitions_per_insert_block",
        "min_insert_block_size_rows",
        "min_insert_block_size_bytes",
    }
)


def choose_parts(facts: LoadFacts, options: Options, parser: Choice) -> Choice:
    """Decide whether rowfall-decode writes the parts of the table, so that they are only attached.

    The parts are what the embedded engine would write for the same blocks. What it would make
    besides the columns of the load it makes in staging (:mod:`rowfall.plan.table_definition`);
    tables that ask for anything else are left to it.

    Raises:
        UsageError: ``--build on``, and it cannot.
    """
    wish = options.build
    if facts.reach is not None and wish == "auto" and not options.spare_servers:
        return Choice(ENGINE, NOT_SPARED)
    why = not_built(facts, options, parser)
    if wish == "on" and why is not None:
        raise UsageError(f"parts cannot be built: {why}", hint="Leave out --build on.")
    if wish == "off":
        return Choice(ENGINE, "--build off")
    why = why or why_too_few(facts, options)
    if parser.value == ENGINE and wish == "auto" and why is None:
        # CPU seconds, handed over and not: 20 M trips of three numbers 0.6 and 1.2, 1 M taxi rows
        # of 51 columns, 20 of them strings, 2.4 and 1.8.
        texts = [c.name for c in facts.schema.columns if decoding.holds_text(c)]
        why = f"strings ({texts[0]}) would be copied once more" if texts else None
    if why is not None:
        return Choice(ENGINE, why)
    return Choice(PROGRAM, "the engine then neither sorts nor compresses a row")


def why_too_few(facts: LoadFacts, options: Options) -> str | None:
    """Return the reason (few rows, small files) to let the engine write the parts; None if none."""
    rows = attempts.rows(facts, facts.todo) if options.build == "auto" else None
    if rows is None:
        return None
    schema, size = facts.schema, rows * facts.schema.row_bytes
    files = schema.layout.partitions * len(schema.columns)
    if schema.layout.partitions > 1 and size < _LEAST_FILE_BYTES * files:
        table, filled = facts.table.existing, {column.name for column in schema.columns}
        # What a new table asks for is the default.
        found = table_definition.parse(table.create_query) if table else _NEW_TABLE
        each = (size / schema.layout.partitions, rows / schema.layout.partitions)
        if found is None or not table_definition.are_compact(found, filled, *each):
            return "its partitions are small"
    return "there are few rows" if size < _LEAST_BUILT_BYTES * facts.engine.cores else None


def not_built(facts: LoadFacts, options: Options, parser: Choice) -> str | None:
    """Return a clause: why only the engine can write the parts of the table; None if none."""
    schema = facts.schema
    if facts.reach is not None and facts.destination.makes_parts:
        if why := _not_handed_over(facts, options, parser):
            return why
    elif not facts.destination.builds_parts:
        return "rows go into no table of the embedded engine"
    elif facts.engine.release[:2] != table_definition.LAYOUT:
        return f"the parts of version {facts.engine.version} are not known to {PROGRAM}"
    if parser.value == ENGINE:
        if facts.program is None or options.decoder == "never":
            return f"{PROGRAM} does not parse: {parser.reason}"
        if not facts.source.replayable:
            return f"what {PROGRAM} declines could not be read again"
    if options.direct:
        return "rows go straight into the table"
    if schema.projection is not None and parser.value != ENGINE:
        return "the engine selects the columns"
    if facts.table.views.names and facts.table.computed:
        # The setting by which views get the values that are in staging holds for what they fill,
        # too: a value of theirs would then be in place of a computed one.
        for table in facts.table.filled[1:]:
            if table.computed:
                return f"views fill the MATERIALIZED column {table.computed[0]} of {table.name}"
    for column in schema.columns:
        if not column.name.isprintable():
            return f"the definition of the table has {column.name!r} in another form"
        if not decoding.stores(column, facts.common_engine) or is_json(column):
            return f"only the engine writes {column.type} (column {column.name})"
        if parse_type(column.type).nested and "." in column.name:
            return f"columns of a Nested share sizes ({column.name})"
        if column.type != without_nested(column.type):
            return f"only the engine writes {column.type} (column {column.name})"
    # Other settings mean nothing where no INSERT runs.
    for text in options.set:
        name = text.partition("=")[0]
        if name not in _PART_SETTINGS:
            return f"--set {name} is the engine's"
    moves = facts.reach is None
    why = (
        _not_known(schema, facts.table.existing, moves=moves)
        if schema.exists
        else _not_simple(schema)
    )
    if why is not None:
        return why
    return _not_sorted(facts, options)


def _not_handed_over(facts: LoadFacts, options: Options, parser: Choice) -> str | None:
    """Return a clause: why servers cannot take over parts that are made here; None if they can."""
    if options.pull:
        return "--pull has the server read the source"
    if facts.sharding is not None and (why := _not_sharded(facts, options, facts.sharding)):
        return why
    if parser.value != HERE:
        return f"{PROGRAM} does not parse here: {parser.reason}"
    if facts.program is None:
        return facts.no_program
    encoding = decoding.read_encoding(facts.source, facts.encoding)
    if encoding is None:
        return f"{PROGRAM} does not make these rows"
    if not facts.source.replayable:
        return f"what {PROGRAM} declines could not be read again"
    if why := decoding.refusal(
        facts.listing, encoding, facts.schema, facts.common_engine,
        streamed=isinstance(facts.source, Streamed),
    ):  # fmt: skip
        return why
    if facts.rows_refused:
        return facts.rows_refused
    return next((w.link.back for w in facts.writers if w.link.back is not None), None)


def _not_sharded(facts: LoadFacts, options: Options, sharding: ShardingFacts) -> str | None:
    """Return a clause: why parts for each shard cannot be made here; None if they can."""
    key: ShardingKey = sharding.key
    if options.method in (FILTER, DISTRIBUTED):
        return f"--method {options.method} says how rows get to their shards"
    if key.unreplicated:
        return "each replica has a table of its own"
    if sharding.refused is not None:
        return sharding.refused
    if facts.table.views.names:
        return f"views read a table with the sharding key {key.expression}"
    if no_distributed(sharding) is not None:
        return "the cluster has internal_replication = 0"
    found = keys.shard_use(key.expression, facts.schema.columns)
    return found if isinstance(found, str) else None


def _not_sorted(facts: LoadFacts, options: Options) -> str | None:
    """Return a clause: why only the engine can sort rows by the table's key; None if none."""
    table = facts.table.existing
    key = sorting_key(facts.schema, table)
    if not keys.sorting_elements(key):
        return None
    if options.presort == "off":
        return f"blocks are not sorted by its key ({key})"
    others = [column[0] for column in table.columns] if table else []
    found = keys.sorting_key(key, facts.schema.columns, others, facts.table.key_types)
    return found if isinstance(found, str) else None


def _not_simple(schema: Schema) -> str | None:
    """Return a clause: what a new table has that rowfall-decode cannot write; None if nothing."""
    engine = schema.layout.engine.partition("(")[0].strip()
    if engine not in table_definition.ENGINES:
        return f"its engine is {engine}"
    if schema.layout.clauses:
        return "it has settings or a primary key of its own"
    return _not_partitioned(schema.layout.partition_by, schema)


def _not_partitioned(key: str, schema: Schema, others: Sequence[str] = ()) -> str | None:
    """Return a clause: why only the engine can compute the partitions of rows; None if none."""
    if not keys.elements(key):
        return None
    found = keys.partition_key(key, schema.columns, others)
    return found if isinstance(found, str) else None


def _not_known(schema: Schema, table: ExistingTable | None, *, moves: bool) -> str | None:
    """Return a clause: what neither rowfall-decode nor mutations can make of an existing table.

    None where there is nothing of the kind.

    Args:
        moves: see :func:`rowfall.plan.table_definition.refusal`.
    """
    if table is None:
        return "the table is not there"
    if schema.fit.changes:
        return "the load changes the table's columns first"
    definition = table_definition.parse(table.create_query)
    if definition is None:
        return "its definition is not understood"
    filled = {c.name for c in schema.columns}
    why = table_definition.refusal(definition, filled, moves=moves)
    return why or _not_partitioned(table.partition_key, schema, [c[0] for c in table.columns])


def spares_servers(options: Options) -> bool:
    """Tell whether parts for servers are built here where that can be done."""
    return options.build == "on" or (options.spare_servers and options.build != "off")
