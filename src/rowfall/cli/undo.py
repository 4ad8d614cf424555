"""``rowfall undo``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from rowfall.cli.app import command, complete, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core import units
from rowfall.core.errors import Exit, UsageError
from rowfall.core.masked import Secret

if TYPE_CHECKING:
    from rowfall.core.results import Undone


@command
@click.argument("load_id", metavar="LOAD", shell_complete=complete("loads"))
@target_option
@option("--dry-run", is_flag=True, group="Undo", help="Only show what would be taken out.")
@option(
    "--views", is_flag=True, group="Undo",
    help="Take out as well what views have made of the rows, where its parts are known.",
)  # fmt: skip
@option("--yes", is_flag=True, group="Undo", help="Do not ask.")
@click.pass_obj
def undo(
    output: CommandOutput, /, load_id: str, to: str | None, password: Secret | None, yes: bool,
    **how: bool,
) -> int:  # fmt: skip
    """Take the rows of a load out of its table again.

    Exactly those: by their parts while these are not merged, else by the column that
    '--add-column file=_path' has kept. Where they cannot be told from others, nothing is changed
    (exit code 3). The same load command loads the files again. LOAD is the id of a load, its first
    digits, or 'last'.
    """
    from rowfall import api
    from rowfall.core.options import load_command

    dry_run, views = how["dry_run"], how["views"]
    found = api.undo(load_id, to=to, dry=True, views=views, password=password)
    if not dry_run and not yes:
        if output.json or not sys.stdin.isatty():
            name = found.load_id[:8]
            raise UsageError(
                f"nothing was taken out: {_summary(found, 'would be taken out')}",
                hint=f"Run it again with --yes: {load_command('undo', name, to, '--yes')}",
            )
        output.help(_summary(found, "would be taken out"))
        if not click.confirm("Take them out?", err=True):
            return Exit.DONE
    if not dry_run:
        found = api.undo(found.load_id, to=to, views=views, password=password)
    if output.json:
        output.document({"rowfall_undo": 1, "done": not dry_run, **asdict(found)})
    else:
        output.talk(_summary(found, "would be taken out" if dry_run else "are taken out"))
    return Exit.DONE


def _summary(found: Undone, verb: str) -> str:
    how = f"by {found.by}" if found.by != "parts" else units.counted(found.parts, "part")
    more = f", and those of {', '.join(found.views)}" if found.views else ""
    files = units.counted(found.splits, found.unit)
    return (
        f"{units.counted(found.rows, 'row')} of load {found.load_id[:8]} {verb} of "
        f"{found.table} ({how}){more}; {files} can be loaded again"
    )
