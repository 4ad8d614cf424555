"""``rowfall load``."""

from __future__ import annotations

from typing import Any

import click

from rowfall.cli.options import (
    command,
    complete,
    destination_options,
    option,
    options_of,
    table_options,
)
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import LoadError
from rowfall.core.masked import Secret


@command
@click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete("paths")
)
@destination_options
@table_options("load")
@option("--yes", is_flag=True, group="Run", help="Do not ask what is unsure about text.")
@click.pass_obj
def load(
    output: CommandOutput, /, sources: tuple[str, ...], to: str | None, table: str | None,
    password: Secret | None, yes: bool, **values: Any,
) -> int:  # fmt: skip
    """Load files or generated rows into a table, exactly once.

    \b
      rowfall load 's3://bucket/trips/*.csv.gz' --table trips
      rowfall load orders.csv --to clickhouse://me@host:8123/shop
      rowfall load postgresql://me@host/shop/orders --to 'orders_{n}.parquet'

    SOURCE is a path, a pattern, a URI, or - for stdin. Running the same command again resumes a
    load and skips what is loaded.
    """
    from rowfall.systems.clickhouse.prestart import prestart

    prestart(sources, to)  # before the imports below, which take as long
    from rowfall import api

    with output.listener(ask=not yes) as listener:
        try:
            result = api.load(
                sources, to=to, table=table, options=options_of(values), on_event=listener,
                password=password, began=output.began,
            )  # fmt: skip
        except LoadError as error:  # its report says everything
            result = error.report
    return output.ended(result)
