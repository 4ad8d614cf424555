"""``rowfall report``."""

from __future__ import annotations

import click

from rowfall.cli.options import command, target_option
from rowfall.cli.output import Output
from rowfall.core.masked import Secret


@command
@click.argument("load_id", metavar="LOAD")
@target_option
@click.pass_obj
def report(output: Output, load_id: str, to: str | None, password: Secret | None) -> None:
    """Show the end report of a load again.

    LOAD is the id of a load, its first digits, or 'last'. With -v the settings are shown too.
    """
    from rowfall import api
    from rowfall.report.loads import report_document, report_text

    found = api.report(load_id, to=to)
    if output.json:
        output.document(report_document(found))
        return
    output.data(
        report_text(found, color=output.data_color, verbose=output.verbose, width=output.columns)
    )
