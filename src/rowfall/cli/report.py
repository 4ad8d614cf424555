"""``rowfall report``."""

from __future__ import annotations

import click

from rowfall.cli.options import command, complete, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret


@command
@click.argument("load_id", metavar="LOAD", shell_complete=complete("loads"))
@target_option
@click.pass_obj
def report(output: CommandOutput, load_id: str, to: str | None, password: Secret | None) -> None:
    """Show the report of a load again.

    LOAD is the id of a load, its first digits, or 'last'. -v adds the settings.
    """
    from rowfall import api

    output.report(api.report(load_id, to=to))
