"""Whether rowfall-decode may write the parts of a table itself, so that they are only attached.

The parts are what the embedded engine would write for the same blocks: wide, sorted, in LZ4. Only
tables that ask for nothing else are built; whatever the engine would do besides writing columns
(indices, projections, codecs, constraints, expiry, views) is left to it.
"""

from __future__ import annotations

import re

from rowfall.core import sql
from rowfall.core.errors import UsageError
from rowfall.core.model import Schema
from rowfall.core.sqltext import quote
from rowfall.engines.ask import ask
from rowfall.plan import forecast
from rowfall.plan.decoder import NESTED, PROGRAM
from rowfall.plan.inputs import Inputs
from rowfall.plan.parsing import sorting_key
from rowfall.plan.session import Session
from rowfall.schema.codec import parse_type
from rowfall.targets.base import Publish

# Smaller blocks become compact parts, one file each (min_bytes_for_wide_part): with a file for
# each column the engine would have to merge them all the sooner.
_LEAST_BYTES = 10 << 20
# File names are those of the columns: others are escaped, and long ones hashed.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
# Settings of an INSERT that hold here, too.
_OURS = frozenset(
    {"max_insert_threads", "min_insert_block_size_rows", "min_insert_block_size_bytes"}
)
_PLAIN = "SETTINGS index_granularity = 8192"


def choose(session: Session, inputs: Inputs) -> str:
    """Why the engine writes the parts of a load; "" when rowfall-decode does.

    Raises:
        UsageError: ``--build on``, and it cannot.
    """
    wish = session.options.build
    why = obstacle(session, inputs)
    if wish == "on" and why:
        raise UsageError(f"parts cannot be built: {why}", hint="Leave out --build on.")
    if wish == "off":
        return "--build off"
    if wish == "auto" and not why:
        todo = [i for i in range(len(inputs.listing)) if i not in inputs.landed]
        rows = forecast.count(inputs, todo)
        if rows is not None and rows * inputs.schema.row_bytes < _LEAST_BYTES * inputs.facts.cores:
            return "there are few rows"
    return why


def obstacle(session: Session, inputs: Inputs) -> str:
    """Why only the engine can write the parts of the table, as half a sentence; "" if not."""
    target, schema = inputs.target, inputs.schema
    if target.folder is None or target.caps.publish is not Publish.ATTACH:
        return "rows go into no table of the embedded engine"
    if inputs.undecoded:
        return f"{PROGRAM} does not parse: {inputs.undecoded}"
    if inputs.options.direct:
        return "rows go straight into the table"
    if inputs.views:
        return "materialized views read the rows that are inserted"
    for column in schema.columns:
        if not _NAME.match(column.name):
            return f"the files of a column named {column.name} have names of their own"
        if parse_type(column.type).base in NESTED:
            return f"only the engine writes {column.type} (column {column.name})"
    why = _of_settings(inputs) or (_of_table(session, schema) if schema.exists else _of_new(schema))
    if why:
        return why
    if not inputs.sorted_by and (key := sorting_key(session, schema)):
        return f"blocks are not sorted by its key ({key})"
    keys = [c for c in schema.columns if c.name in inputs.sorted_by]
    if any("Nullable" in c.type for c in keys):
        return "a column of its key may be NULL"
    return ""


def _of_settings(inputs: Inputs) -> str:
    """Of settings that were asked for and mean nothing where no INSERT runs."""
    names = [text.partition("=")[0] for text in inputs.options.set]
    others = [name for name in names if name not in _OURS]
    return f"--set {others[0]} is the engine's" if others else ""


def _of_new(schema: Schema) -> str:
    if schema.engine != "MergeTree":
        return f"its engine is {schema.engine}"
    return "it has a partition key" if schema.partition_by else ""


def _of_table(session: Session, schema: Schema) -> str:
    """Of a table that is there: it has to be what its columns and its key make of it."""
    at = sql.table_is(session.local.database, session.home)
    rows = ask(
        session.engine,
        "SELECT create_table_query, engine_full, sorting_key, (SELECT groupArray((name, type)) "
        f"FROM (SELECT name, type FROM system.columns WHERE {at} ORDER BY position)) "
        f"FROM system.tables WHERE database = {quote(session.local.database)} "
        f"AND name = {quote(session.home)}",
    )
    if not rows:
        return "the table is not there"
    create, engine, key, columns = rows[0]
    if [(c.name, c.type) for c in schema.columns] != [tuple(column) for column in columns]:
        return "the load does not fill all columns of the table in their order"
    # Codecs, defaults, indices, constraints and whatever else would stand among the columns.
    listed = ", ".join(f"`{c.name}` {c.type}" for c in schema.columns)
    orders = (f"({key})", key) if key else ("tuple()",)
    if create.endswith(f" ({listed}) ENGINE = {engine}") and engine in (
        f"MergeTree ORDER BY {order} {_PLAIN}" for order in orders
    ):
        return ""
    return "its definition says more than columns and ORDER BY"
