"""``rowfall verify``."""

from __future__ import annotations

import click

from rowfall.cli.app import command, complete, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret


@command
@click.argument("load_id", metavar="LOAD", shell_complete=complete("loads"))
@target_option
@click.pass_obj
def verify(output: CommandOutput, load_id: str, to: str | None, password: Secret | None) -> int:
    """Read the source of a load again and compare.

    LOAD is the id of a load, its first digits, or 'last'. Files that differ are listed, with -v
    all files. Exit code 7 means that source and target differ.
    """
    from rowfall import api
    from rowfall.report.loads import verification_document, verification_text

    with output.listener("reading the source again") as listener:
        result = api.verify(load_id, to=to, on_event=listener, password=password)
    if output.json:
        output.document(verification_document(result))
    else:
        output.data(
            verification_text(
                result, color=output.data_color, verbose=output.verbose, width=output.columns
            )
        )
    return Exit.DONE if result.ok else Exit.VERIFY
