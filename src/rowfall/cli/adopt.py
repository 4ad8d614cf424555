"""``rowfall adopt``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rowfall.cli.app import (
    command,
    destination_options,
    option,
    options_of,
    sources_argument,
    table_options,
)
from rowfall.cli.output import CommandOutput
from rowfall.core import units
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret
from rowfall.core.options import load_command

if TYPE_CHECKING:
    from rowfall.core.results import Adopted

MOST_SHOWN = 20


@command
@sources_argument
@destination_options
@option(
    "--before",
    metavar="TIME",
    group="Adopt",
    help="Only files that were changed last at this time or before it: ISO 8601, UTC without a "
    "zone. Those that are newer are left to be loaded.",
)
@option("--dry-run", is_flag=True, group="Adopt", help="Only show what would be recorded.")
@table_options("adopt")
@click.pass_obj
def adopt(
    output: CommandOutput, /, sources: tuple[str, ...], to: str | None, table: str | None,
    password: Secret | None, before: str | None, dry_run: bool, **values: Any,
) -> int:  # fmt: skip
    """Record files as loaded whose rows are in a table already.

    For a table whose record was lost, or that was filled without rowfall: no row is read or
    written, and the next load of the same SOURCE loads what is not recorded. 'rowfall forget' takes
    it back.
    """
    from rowfall import api

    found = api.adopt(
        sources, to=to, table=table, before=before, dry=dry_run, options=options_of(values),
        password=password,
    )  # fmt: skip
    if output.json:
        output.document({"rowfall_adopted": 1, "recorded": not dry_run, **asdict(found)})
        return Exit.DONE
    for name in found.splits[:MOST_SHOWN]:
        output.data(name)
    more = len(found.splits) - MOST_SHOWN
    if more > 0:
        output.talk(f"and {more:,} more; --json lists all of them")
    output.talk(_summary(found, to, dry=dry_run))
    return Exit.DONE


def _summary(found: Adopted, to: str | None, *, dry: bool) -> str:
    count = len(found.splits)
    verb = ("would count" if dry else "counts" if count == 1 else "count") + " as loaded"
    told = [f"{units.counted(count, found.unit)} {verb} into {found.table}"]
    if found.known:
        told.append(f"{found.known:,} did before")
    if found.newer:
        told.append(f"{found.newer:,} newer than --before left to be loaded")
    taken = f"; {load_command('forget', found.load_id, to)} takes it back" if found.load_id else ""
    return f"{', '.join(told)}{taken}"
