"""``rowfall load``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from rowfall.cli.app import (
    command,
    destination_options,
    option,
    options_of,
    sources_argument,
    table_options,
)
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import UsageError
from rowfall.core.load_command import hints_into
from rowfall.core.masked import Secret
from rowfall.core.results import LoadError

if TYPE_CHECKING:
    from rowfall.cli.live import LiveLoad
    from rowfall.core.events import Event


@command
@sources_argument
@destination_options
@table_options("load")
@option(
    "--watch-port", type=click.IntRange(0, 65_535), metavar="N", group="Run",
    help="Serve a page that shows the load while it runs, on 127.0.0.1 and this port; 0 is a free "
    "one. Its address, which holds a secret, is printed.",
)  # fmt: skip
@option("--yes", is_flag=True, group="Run", help="Do not ask what is unsure about text.")
@click.pass_obj
def load(
    output: CommandOutput, /, sources: tuple[str, ...], to: str | None, table: str | None,
    password: Secret | None, yes: bool, watch_port: int | None, **values: Any,
) -> int:  # fmt: skip
    """Load files or generated rows into a table, exactly once.

    \b
      rowfall load 's3://bucket/trips/*.csv.gz' --table trips
      rowfall load orders.csv --to clickhouse://me@host:8123/shop
      rowfall load postgresql://me@host/shop/orders --to 'orders_{n}.parquet'

    SOURCE is a path, a pattern, a URI, or - for stdin. Running the same command again resumes a
    load and skips what is loaded. With --tables many tables of a source are loaded, each by a load
    of its own; {table} in --table or --to stands for the name of each.
    """
    if options_of(values).many_tables:
        return _load_tables(output, sources, (to, table), password, watch_port, values)
    with _live(output, watch_port, to) as live:
        from rowfall.systems.clickhouse.prestart import prestart

        prestart(sources, to)  # before the imports below, which take as long
        from rowfall import api

        follow = values["follow"]
        listened = output.listener("" if follow else None, ask=not yes)
        with hints_into(to), listened as listener:
            if follow:
                from rowfall.core.events import Note

                listener(Note("info", "follows the source until Ctrl-C or SIGTERM"))

            def hear(event: Event) -> None:
                listener(event)
                if live is not None:
                    live.hear(event)

            try:
                result = api.load(
                    sources, to=to, table=table, options=options_of(values),
                    on_event=listener if live is None else hear, password=password,
                    began=output.began,
                )  # fmt: skip
            except LoadError as error:  # its report says everything
                result = error.report
    return output.ended(result)


def _load_tables(
    output: CommandOutput, sources: tuple[str, ...], into: tuple[str | None, str | None],
    password: Secret | None, watch_port: int | None, values: dict[str, Any],
) -> int:  # fmt: skip
    """Load many tables; ``into`` is the target and the name of each table there."""
    from rowfall import api

    if watch_port is not None:
        raise UsageError(
            "--tables and --watch-port exclude each other: the page shows one load",
            hint="rowfall status --web shows the one that began last.",
        )
    with output.listener(busy="looking at the tables of the source") as listener:
        report = api.load_tables(
            sources, to=into[0], table=into[1], options=options_of(values), on_event=listener,
            password=password,
        )  # fmt: skip
    return output.tables_ended(report)


@contextmanager
def _live(output: CommandOutput, port: int | None, to: str | None) -> Iterator[LiveLoad | None]:
    """Serve the page of the load meanwhile, where that was asked for."""
    if port is None:
        yield None
        return
    from rowfall.cli.live import LiveLoad

    live = LiveLoad(output, port, to)
    try:
        yield live
    finally:
        live.close()
