"""``rowfall status``."""

from __future__ import annotations

from typing import Any

import click

from rowfall.cli.app import command, complete, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret


@command
@click.argument("load_id", required=False, metavar="[LOAD]", shell_complete=complete("loads"))
@target_option
@option("--all", "everywhere", is_flag=True, group="Target", help="Loads of all targets.")
@option(
    "--web", is_flag=True, group="Output",
    help="Serve a page that shows a running load, on 127.0.0.1, until it has ended. Its address, "
    "which holds a secret, is printed.",
)  # fmt: skip
@option(
    "--watch-port", type=click.IntRange(0, 65_535), default=0, metavar="N", group="Output",
    help="Port of --web. Default: a free one.",
)  # fmt: skip
@click.pass_obj
def status(
    output: CommandOutput,
    /,
    load_id: str | None,
    to: str | None,
    password: Secret | None,
    everywhere: bool,
    **web: Any,
) -> None:
    """List the loads of a target, newest first, or show one.

    Without --to it is ./rowfall-data, and files that were written from here. LOAD is the id of a
    load, its first digits, or 'last'; with --to also the name that --fleet has given, from any
    machine. --web shows one that runs, the newest unless LOAD is given.
    """
    from rowfall import api
    from rowfall.report.loads import loads_document, loads_text

    more = {"everywhere": True} if everywhere else {}
    if web["web"]:
        _serve(output, load_id, to, web["watch_port"])
    elif load_id is not None:
        output.report(api.status(load_id, to=to, password=password))
    elif output.json:
        output.document(loads_document(api.loads(to=to, **more)))
    else:
        output.data(
            loads_text(api.loads(to=to, **more), verbose=output.verbose, width=output.columns)
        )
        if to is None and not everywhere:
            output.talk("loads of other targets: rowfall status --to TARGET, or --all")


def _serve(output: CommandOutput, load_id: str | None, to: str | None, port: int) -> None:
    """Serve the page of a load that another process runs.

    Raises:
        UsageError: it does not run, or none does.
    """
    from rowfall import api

    if load_id is None:
        found = [each for each in api.loads(to=to) if each.outcome == "running"]
        if not found:
            raise UsageError(
                "no load runs now",
                hint="rowfall report last --html FILE writes the page of one that has ended.",
            )
        known = found[0]
    else:
        known = api.report(load_id, to=to)
        if known.outcome != "running":
            raise UsageError(
                f"load {known.load_id[:8]} does not run: {known.outcome}",
                hint=f"rowfall report {known.load_id[:8]} --html FILE writes its page.",
            )
    from rowfall.cli.live import serve

    serve(output, port, known.load_id, to)
