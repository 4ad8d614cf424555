"""``rowfall tables``."""

from __future__ import annotations

from dataclasses import asdict

import click

from rowfall.cli.app import command, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret


@command
@target_option
@click.pass_obj
def tables(output: CommandOutput, to: str | None, password: Secret | None) -> None:
    """List the tables of a target.

    With their rows and bytes, and the loads that have filled them.
    """
    from rowfall import api
    from rowfall.report.tables import target_tables_text

    found = api.tables(to=to, password=password)
    if output.json:
        document = {"rowfall_target_tables": 1, "tables": [asdict(table) for table in found]}
        output.document(document)
    else:
        output.data(target_tables_text(found, width=output.columns))
