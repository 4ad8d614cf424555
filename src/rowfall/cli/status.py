"""``rowfall status``."""

from __future__ import annotations

import click

from rowfall.cli.options import command, complete, target_option
from rowfall.cli.output import Output
from rowfall.core.masked import Secret


@command
@click.argument("load_id", required=False, metavar="[LOAD]", shell_complete=complete("loads"))
@target_option
@click.pass_obj
def status(output: Output, load_id: str | None, to: str | None, password: Secret | None) -> None:
    """List the loads of a target, newest first, or show one.

    LOAD is the id of a load, its first digits, or 'last'.
    """
    from rowfall import api
    from rowfall.report.loads import loads_document, loads_text

    if load_id is not None:
        output.report(api.report(load_id, to=to))
    elif output.json:
        output.document(loads_document(api.loads(to=to)))
    else:
        output.data(loads_text(api.loads(to=to)))
