"""``rowfall forget``."""

from __future__ import annotations

import click

from rowfall.cli.options import command, target_option
from rowfall.cli.output import Output
from rowfall.core.masked import Secret


@command
@click.argument("load_id", metavar="LOAD")
@target_option
@click.pass_obj
def forget(output: Output, load_id: str, to: str | None, password: Secret | None) -> None:
    """Forget what a load has loaded, to load it again.

    LOAD is the id of a load, its first digits, or 'last'. Rows in the table stay where they are.
    LOAD_N is one attempt, whose rows are staged and cannot become visible: they are dropped.
    """
    from rowfall import api
    from rowfall.core import units

    unit = api.report(load_id.partition("_")[0], to=to).unit
    splits = api.forget(load_id, to=to, password=password)
    if output.json:
        output.document({"rowfall_forget": 1, "load": load_id, "splits": splits})
    else:
        what = "its staged rows were dropped" if "_" in load_id else "no row was deleted"
        output.talk(f"{units.counted(splits, unit)} will be loaded again; {what}")
