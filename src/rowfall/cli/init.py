"""``rowfall init``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rowfall.cli.app import GroupedCommand, common_options, complete, option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import UsageError

if TYPE_CHECKING:
    from rowfall.core.results import Report


class _InitCommand(GroupedCommand):
    layered = False


@click.command(name="init", cls=_InitCommand)
@common_options
@click.argument("load_id", required=False, metavar="[LOAD]", shell_complete=complete("loads"))
@option("--to", metavar="TARGET", group="Target", shell_complete=complete("targets"),
        help="Target whose loads are looked at. Default: those of this folder, else the newest of "
        "all.")  # fmt: skip
@option("--name", metavar="NAME", group="Init", help="Name of the load. Default: by its table.")
@click.pass_context
def init(ctx: click.Context, load_id: str | None, to: str | None, name: str | None) -> None:
    """Write a load that has worked into rowfall.toml.

    The file is the one of the project, or a new one here; comments in it stay. LOAD is the id of a
    load, its first digits, or 'last'; by default the newest that is done. Secrets become references
    to variables. 'rowfall run NAME' then does what the load did, and finds it done.
    """
    from rowfall import api
    from rowfall.cli.settings import project_of
    from rowfall.core.config_files import NAME
    from rowfall.project.editing import add_load
    from rowfall.run import history

    output = ctx.ensure_object(CommandOutput)
    # A file that --config names may be about to be made.
    named = output.config
    if named and not Path(named).expanduser().exists():
        output.config = None
    project = project_of(ctx)
    if to is not None and (found := project.described_connection(to)) is not None:
        to = found.uri
    if load_id is not None:
        known: Report | None = api.report(load_id, to=to)
    else:
        known = _done(api.loads(to=to))
        if known is None and to is None:
            known = _done(api.loads(everywhere=True))
    if known is None or known.outcome not in ("done", "adopted"):
        what = "no load is done yet" if known is None else f"load {known.load_id[:8]} is not done"
        raise UsageError(
            what,
            hint="Name its target with --to, or make one: rowfall load FILE --table NAME",
        )
    asked = history.request(known.load_id, to)
    path = project.files[0].path if project.loads_here() or project.files else Path.cwd() / NAME
    if project.files and path == Path(project.user_path):
        path = Path.cwd() / NAME
    if named:
        path = Path(named).expanduser().absolute()
    written = add_load(project, path, name or "", asked)
    if output.json:
        output.document({
            "rowfall_init": 1, "file": str(written.path), "load": written.name,
            "did": list(written.did), "to_set": [one for one, _ in written.to_set],
        })  # fmt: skip
        return
    output.talk(f"{written.path}")
    for line in written.did:
        output.talk(f"  {line}")
    for variable, what in written.to_set:
        output.talk(f"  to be set: {variable}, {what}")
    output.talk(f"run it: rowfall run {written.name}")


def _done(reports: list[Report]) -> Report | None:
    """Return the newest load that is done and that can be read again."""
    return next((r for r in reports if r.outcome == "done" and r.source != "-"), None)
