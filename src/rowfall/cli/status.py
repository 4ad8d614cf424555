"""``rowfall status``."""

from __future__ import annotations

import click

from rowfall.cli.options import command, complete, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret


@command
@click.argument("load_id", required=False, metavar="[LOAD]", shell_complete=complete("loads"))
@target_option
@option("--all", "everywhere", is_flag=True, group="Target", help="Loads of all targets.")
@click.pass_obj
def status(
    output: CommandOutput,
    load_id: str | None,
    to: str | None,
    password: Secret | None,
    everywhere: bool,
) -> None:
    """List the loads of a target, newest first, or show one.

    Without --to it is ./rowfall-data, and files that were written from here. LOAD is the id of a
    load, its first digits, or 'last'.
    """
    from rowfall import api
    from rowfall.report.loads import loads_document, loads_text

    more = {"everywhere": True} if everywhere else {}
    if load_id is not None:
        output.report(api.report(load_id, to=to))
    elif output.json:
        output.document(loads_document(api.loads(to=to, **more)))
    else:
        output.data(loads_text(api.loads(to=to, **more)))
        if to is None and not everywhere:
            output.talk("loads of other targets: rowfall status --to TARGET, or --all")
