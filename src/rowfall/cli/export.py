"""``rowfall export``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from rowfall.cli.app import command, complete, option, options_of, table_options
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import UsageError
from rowfall.core.results import LoadError

# More than one table is meant by these.
_SEVERAL = frozenset("*?[,")
_PLACES = ("{table}", "{schema}")


@command
@click.argument("name", metavar="TABLE", required=False, shell_complete=complete("tables"))
@click.argument("file", metavar="FILE", required=False, shell_complete=complete("paths"))
@option(
    "--from", "source", metavar="SOURCE", group="Source", shell_complete=complete("targets"),
    help="Where the table is: a data folder, a connection of rowfall.toml, "
    "clickhouse://host/database, postgresql://host/database, mysql://host/database, a file of "
    "DuckDB or SQLite. Default: where loads go, ./rowfall-data.",
)  # fmt: skip
@table_options("export")
@click.pass_context
def export(
    ctx: click.Context, /, name: str | None, file: str | None, source: str | None, **_: Any
) -> int:  # fmt: skip
    """Write a table to a file, or to several.

    \b
      rowfall export trips trips.parquet
      rowfall export trips 'trips/{n}.csv.gz' --files 8
      rowfall export orders orders.csv --from postgresql://me@host/shop
      rowfall export '*' 's3://bucket/{table}.parquet' --from shop.duckdb
      rowfall export --query 'SELECT count() FROM trips' count.csv

    The end of FILE names the format; {n} in it is the number of a file. TABLE may be a pattern,
    with {table} in FILE for the name of each. It is 'rowfall load SOURCE --to FILE': the same
    command again writes what is missing and does nothing where all is there.
    """
    output = ctx.ensure_object(CommandOutput)
    query = ctx.params["query"]
    if query and file is None:
        name, file = None, name
    _check(name, file, query)
    from rowfall.cli.settings import apply_settings, source_of

    ctx.params["to"] = file
    apply_settings(ctx)
    options, place = options_of(ctx.params), source_of(ctx, source)
    from rowfall import api

    if name and (_SEVERAL & set(name) or any(place in str(file) for place in _PLACES)):
        with output.listener(busy="looking at the tables of the source") as listener:
            tables = api.load_tables(
                place, to=file, options=replace(options, tables=name), on_event=listener
            )
        return output.tables_ended(tables)
    with output.listener() as listener:
        address = api.exported(name, place, str(file), options)
        try:
            report = api.load(
                address, to=file, options=options, on_event=listener, began=output.began
            )
        except LoadError as error:  # its report says everything
            report = error.report
    return output.ended(report)


def _check(name: str | None, file: str | None, query: str | None) -> None:
    """Check that a table, or a query in its place, and a file are named.

    Raises:
        UsageError: one is missing, or both are there.
    """
    if query and name:
        raise UsageError(
            f"--query and the table {name} exclude each other",
            hint="Name the file alone: rowfall export --query 'SELECT ...' FILE",
        )
    if file is None:
        raise UsageError(
            f"no file is named to write {name} to" if name else "no table and no file is named",
            hint=f"Write rowfall export {name or 'TABLE'} {name or 'out'}.parquet; rowfall tables "
            "lists the tables.",
        )
