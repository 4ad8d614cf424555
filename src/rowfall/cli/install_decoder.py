"""``rowfall install-decoder``."""

from __future__ import annotations

import click

from rowfall.cli.app import command, option, target_option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit
from rowfall.core.masked import Secret


@command
@target_option
@option(
    "--folder",
    metavar="FOLDER",
    group="Target",
    help="The server's user_scripts_path. Default: as the server says.",
)
@click.pass_obj
def install_decoder(
    output: CommandOutput, to: str | None, password: Secret | None, folder: str | None
) -> int:
    """Let a server parse with rowfall-decode what it pulls.

    Copies the program into the server's folder of user scripts, if that is on this machine, and
    checks that the server can run it. Loads that the server pulls then take a fraction of the CPU.
    """
    from rowfall import api

    done = api.install_decoder(to=to, folder=folder or "", password=password)
    if output.json:
        output.document({
            "rowfall_install": 1, "path": done.path, "changed": done.changed, "away": done.away,
        })  # fmt: skip
    else:
        word = "installed" if done.changed else "is installed already, and the server can run it"
        output.talk(f"{done.path} {word}")
        if done.away:
            output.talk(f"{', '.join(done.away)} did not answer: run this again when they are up")
    return Exit.DONE
