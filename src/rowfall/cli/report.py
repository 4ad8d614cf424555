"""``rowfall report``."""

from __future__ import annotations

import click

from rowfall.cli.app import command, complete, target_option
from rowfall.cli.html_file import check_html, html_option, write_page
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret


@command
@click.argument("load_id", metavar="LOAD", shell_complete=complete("loads"))
@target_option
@html_option
@click.pass_obj
def report(
    output: CommandOutput, load_id: str, to: str | None, password: Secret | None, html: str | None
) -> None:
    """Show the report of a load again.

    LOAD is the id of a load, its first digits, or 'last'. -v adds the settings. --html FILE writes
    it as a page: rows, memory and parts over time, where the time went, the slowest files, SQL.
    """
    from rowfall import api

    check_html(html)
    if html is None:
        output.report(api.report(load_id, to=to))
        return
    from rowfall.report.load_page import load_page

    found = api.explain(load_id, to=to)
    output.report(found.report)
    write_page(output, html, load_page(found))
