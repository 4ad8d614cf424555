"""``rowfall forget``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rowfall.cli.app import command, complete, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core import units
from rowfall.core.errors import Exit, UsageError
from rowfall.core.masked import Secret

if TYPE_CHECKING:
    from rowfall.core.results import Report


@command
@click.argument("load_id", metavar="LOAD", shell_complete=complete("loads"))
@target_option
@option("--yes", is_flag=True, group="Forget", help="Do not ask.")
@click.pass_obj
def forget(
    output: CommandOutput, load_id: str, to: str | None, password: Secret | None, yes: bool
) -> int:
    """Forget what a load has loaded, to load it again.

    It says what the next load will do, and asks. LOAD is the id of a load, its first digits, or
    'last'. Rows in the table stay where they are.
    LOAD_N is one attempt, whose rows are staged and cannot become visible: they are dropped.
    """
    from rowfall import api
    from rowfall.core.options import load_command

    asked, attempt, number = load_id.partition("_")
    known = api.report(asked, to=to)
    unit = known.unit
    if not yes:
        if output.json or not sys.stdin.isatty():
            # By its id: 'last' is another one after another load.
            name = f"{known.load_id[:8]}{attempt}{number}"
            raise UsageError(
                f"nothing of load {name} into {known.target} was forgotten: "
                f"{_consequence(known, load_id)}",
                hint=f"Run it again with --yes: {load_command('forget', name, to, '--yes')}",
            )
        output.help(_consequence(known, load_id))
        if not click.confirm("Forget it?", err=True):
            return Exit.DONE
    splits = api.forget(load_id, to=to, password=password)
    if output.json:
        output.document({"rowfall_forget": 1, "load": load_id, "splits": splits})
    else:
        what = "its staged rows were dropped" if "_" in load_id else "no row was deleted"
        output.talk(f"{units.counted(splits, unit)} will be loaded again; {what}")
    return Exit.DONE


def _consequence(known: Report, load_id: str) -> str:
    """Return a sentence on the next load after splits are forgotten: which it loads again."""
    if "_" in load_id:
        return "the staged rows of this attempt are dropped, and its files are loaded again"
    loaded = units.counted(known.splits_loaded, known.unit)
    return (
        f"the next load of {known.source} loads {loaded} again, and {units.exact(known.rows)} "
        f"rows that are in {known.table or known.target} stay there: they would be there twice"
    )
