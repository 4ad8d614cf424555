"""``rowfall explain``."""

from __future__ import annotations

import click

from rowfall.cli.app import command, complete, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret


@command
@click.argument("load_id", metavar="LOAD", shell_complete=complete("loads"))
@target_option
@click.pass_obj
def explain(output: CommandOutput, load_id: str, to: str | None, password: Secret | None) -> None:
    """Show the plan of a load beside what really happened.

    Its last run, attempt by attempt: rows, bytes, seconds, who waited; and the SQL, secrets masked.
    LOAD is the id of a load, its first digits, or 'last'. -v adds the settings.
    """
    from rowfall import api
    from rowfall.report.explain import explain_document, explain_text

    found = api.explain(load_id, to=to)
    if output.json:
        output.document(explain_document(found))
        return
    output.data(explain_text(
        found, color=output.data_color, width=output.columns, verbose=output.verbose
    ))  # fmt: skip
