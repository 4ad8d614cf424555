"""``rowfall plan``."""

from __future__ import annotations

from typing import Any

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
from rowfall.core.load_command import hints_into
from rowfall.core.masked import Secret


@command
@sources_argument
@destination_options
@table_options("plan")
@option("--all", "every_split", is_flag=True, group="Plan", help="List every file or range.")
@click.pass_obj
def plan(
    output: CommandOutput,
    /,
    sources: tuple[str, ...],
    to: str | None,
    table: str | None,
    password: Secret | None,
    every_split: bool,
    **values: Any,
) -> None:
    """Show what a load would do, and write nothing.

    Takes the arguments of 'rowfall load'; prints the table, the settings with their reasons, a
    forecast and the SQL. With -v every column says why it got its type.
    """
    if options_of(values).many_tables:
        _plan_tables(output, sources, (to, table), password, every=every_split, values=values)
        return
    from rowfall.systems.clickhouse.prestart import prestart

    prestart(sources, to)  # before the imports below, which take as long
    from rowfall import api
    from rowfall.report.plan import plan_document, plan_text

    # The listener says that it still looks where that takes long.
    with hints_into(to), output.listener():
        made = api.plan(sources, to=to, table=table, options=options_of(values), password=password)
    if output.json:
        output.document(plan_document(made, every_split=every_split))
        return
    output.data(
        plan_text(
            made,
            every_split=every_split,
            verbose=output.verbose,
            color=output.data_color,
            width=output.columns,
        )
    )


def _plan_tables(
    output: CommandOutput, sources: tuple[str, ...], into: tuple[str | None, str | None],
    password: Secret | None, *, every: bool, values: dict[str, Any],
) -> None:  # fmt: skip
    """Show which tables would be loaded, and where to; ``into``: target and name of each there."""
    from rowfall import api
    from rowfall.report.tables import tables_plan_document, tables_plan_text

    with output.listener(busy="looking at the tables of the source"):
        made = api.plan_tables(
            sources, to=into[0], table=into[1], options=options_of(values), password=password
        )
    if output.json:
        output.document(tables_plan_document(made))
        return
    output.data(tables_plan_text(made, color=output.data_color, every=every, width=output.columns))
