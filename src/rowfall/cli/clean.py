"""``rowfall clean``."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from rowfall.cli.app import command, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret


@command
@target_option
@option("--yes", "-y", is_flag=True, group="Clean", help="Do not ask.")
@option("--dry-run", is_flag=True, group="Clean", help="Only show what would be dropped.")
@click.pass_obj
def clean(
    output: CommandOutput, to: str | None, password: Secret | None, yes: bool, dry_run: bool
) -> int:
    """Drop what dead loads have left, after asking.

    Rows that a load has committed become visible first. Loads that are still running are left
    alone.
    """
    from rowfall import api
    from rowfall.report.loads import leftovers_text

    found = api.leftovers(to=to, password=password)
    if found and not output.json:
        output.data(leftovers_text(found))
    drop = bool(found) and not dry_run
    if drop and not yes:
        if output.json or not sys.stdin.isatty():
            output.talk("nothing was dropped: run it again with --yes")
            drop = False
        else:
            drop = click.confirm("Drop them?", err=True)
    if drop:
        with output.listener() as listener:
            found = api.clean(to=to, password=password, on_event=listener)
        output.talk(f"{len(found):,} dropped")
    elif not found:
        output.talk("nothing to clean")
    if output.json:
        output.document(
            {"rowfall_clean": 1, "dropped": drop, "leftovers": [asdict(x) for x in found]}
        )
    return Exit.DONE
