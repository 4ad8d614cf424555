"""``rowfall resume``."""

from __future__ import annotations

import click

from rowfall.cli.app import command, complete, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.masked import Secret
from rowfall.core.results import LoadError


@command
@click.argument(
    "load_id", required=False, default="", metavar="[LOAD]", shell_complete=complete("loads")
)
@target_option
@click.pass_obj
def resume(output: CommandOutput, load_id: str, to: str | None, password: Secret | None) -> int:
    """Resume an unfinished load as it was started.

    LOAD is the id of a load or its first digits; by default the newest that is not done. This does
    what the same command would do, and works from any folder.
    """
    from rowfall import api

    with output.listener() as listener:
        try:
            result = api.resume(
                load_id, to=to, on_event=listener, password=password, began=output.began
            )
        except LoadError as error:  # its report says everything
            result = error.report
    return output.ended(result)
