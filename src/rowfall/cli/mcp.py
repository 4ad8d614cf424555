"""``rowfall mcp``."""

from __future__ import annotations

import click

from rowfall.cli.app import command, option
from rowfall.cli.output import CommandOutput


@command
@option(
    "--to", metavar="TARGET", group="Target",
    help="Target of tools that are not told one: a URI, a folder or a connection of rowfall.toml. "
    "Default: ./rowfall-data.",
)  # fmt: skip
@click.pass_obj
def mcp(output: CommandOutput, to: str | None) -> None:
    """Serve an agent over stdin and stdout.

    \b
      claude mcp add rowfall -- rowfall mcp --to warehouse

    The Model Context Protocol: tools to plan, load, ask why a load is slow, and read what was
    loaded. A load needs the id of a plan that was shown; queries only read; passwords come from the
    environment or rowfall.toml, never from the agent.
    """
    from rowfall.core import extras

    try:
        from rowfall.agents.server import serve
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        raise extras.missing("mcp, the SDK of the protocol, is not installed", "mcp") from None
    output.streamed = True  # stdout belongs to the protocol
    serve(to)
