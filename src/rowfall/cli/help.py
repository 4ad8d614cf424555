"""``rowfall help``."""

from __future__ import annotations

import click

from rowfall.cli.app import GroupedCommand, command, complete
from rowfall.cli.output import CommandOutput


@command
@click.argument("words", nargs=-1, metavar="[COMMAND]...", shell_complete=complete("commands"))
@click.pass_context
def help(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of rowfall or of a command.

    'rowfall help load source' lists the options of one topic, 'rowfall help load all' all of them.
    """
    context = ctx.find_root()
    for word in words:
        group = context.command
        if isinstance(group, GroupedCommand) and group.set_topic(context, word):
            continue
        if not isinstance(group, click.Group):
            raise click.UsageError(f"{context.command_path} has no command {word!r}", ctx)
        found = group.get_command(context, word)
        if found is None:
            raise click.exceptions.NoSuchCommand(
                word, possibilities=group.list_commands(context), ctx=context
            )
        context = click.Context(found, info_name=word, parent=context)
    output = ctx.find_object(CommandOutput)
    if output is not None:
        output.data(context.get_help())
