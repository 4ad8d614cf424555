"""``rowfall worker``."""

from __future__ import annotations

from typing import Any

import click

from rowfall.cli.app import command, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret
from rowfall.core.results import LoadError


@command
@click.argument("load", metavar="LOAD")
@target_option
@option(
    "--wait", default="1m", metavar="DURATION", group="Run",
    help="Time to wait for the load to begin: 30s, 10m. Default: 1m.",
)  # fmt: skip
@option(
    "--memory", metavar="SIZE", group="Run", help="Memory for this worker. Default: half of what "
    "is free.",
)  # fmt: skip
@option("--threads", "-j", type=click.IntRange(1), metavar="N", group="Run",
        help="Threads of this worker. Default: as many as there are cores.")  # fmt: skip
@click.pass_obj
def worker(
    output: CommandOutput, /, load: str, to: str | None, password: Secret | None, wait: str,
    **own: Any,
) -> int:  # fmt: skip
    """Load a part of a load that another machine has begun.

    \b
      rowfall load 's3://lake/*.csv' --to clickhouse://h/db --fleet night
      rowfall worker night --to clickhouse://h/db         on other machines

    LOAD is the name that --fleet has given, or the id of the load. Each file is loaded by one
    worker; files of a worker that dies are loaded by the others. Passwords and keys are not
    shared: each worker has its own, from its environment or rowfall.toml.
    """
    from rowfall import api
    from rowfall.core.options import Options

    with output.listener() as listener:
        try:
            result = api.worker(
                load, to=to, wait=wait, options=Options(**own), on_event=listener,
                password=password,
            )  # fmt: skip
        except LoadError as error:  # its report says everything
            result = error.report
    return Exit.DONE if result is None else output.ended(result)
