"""The group of commands: it parses the command line and maps errors to exit codes.

It imports click and nothing heavy: ``--help`` answers before an engine or a driver is loaded. Each
command is one file of this package, imported when it is asked for.
"""

from __future__ import annotations

import os
import signal
import stat

import click

from rowfall.cli.options import Commands, common_options
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit, Interrupted, RowfallError
from rowfall.core.nearest import did_you_mean
from rowfall.core.other_tools import command_hint, option_hint
from rowfall.core.version import __version__


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="rowfall", message="%(prog)s %(version)s")
@common_options
def cli() -> None:
    """Load data into ClickHouse as fast as the hardware allows, exactly once.

    \b
      rowfall load 's3://bucket/trips/*.csv.gz' --table trips
      rowfall query 'SELECT count() FROM trips'

    The table is created from the data when it is missing. To resume a load
    that was interrupted, run the same command again. 'rowfall plan' with the
    same arguments shows what would happen.
    """


def run(arguments: list[str], began: float = 0.0) -> int:
    """Run one command line and return its exit code.

    Args:
        began: when the process did, as of ``time.monotonic``; 0 for now.
    """
    if "_ROWFALL_COMPLETE" in os.environ:
        # Shell completion is the only thing that click's own entry point is needed for.
        cli.main(arguments, prog_name="rowfall")
    output = CommandOutput(began)
    # Exit codes and messages are ours, so click's standalone mode, which ends the process with
    # its own, is not used.
    try:
        with cli.make_context("rowfall", arguments, obj=output) as context:
            code = cli.invoke(context)
        output.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except BrokenPipeError:
        # `rowfall plan ... | head`: whoever read our output has seen enough.
        output.abandon()
        return Exit.DONE
    except Exception as error:
        # A command line that cannot be parsed has set nothing yet.
        output.json = output.json or "--json" in arguments
        return _failed(error, output)
    except KeyboardInterrupt:
        # Nothing is left to stop: a second one must not change the exit code.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        output.error("interrupted", None, label="", code=Exit.INTERRUPTED)
        return Exit.INTERRUPTED
    finally:
        if output.log_file is not None:
            output.log_file.close()
    return code if isinstance(code, int) else Exit.DONE


def _failed(error: Exception, output: CommandOutput) -> int:
    """Say what went wrong and return the exit code for it."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        output.help(error.format_message())
        return Exit.USAGE
    if isinstance(error, click.Abort):
        output.error("interrupted", None, label="", code=Exit.INTERRUPTED)
        return Exit.INTERRUPTED
    if isinstance(error, click.ClickException):
        output.error(*_usage(error), code=Exit.USAGE)
        return Exit.USAGE
    if output.debug:
        import traceback

        output.help("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, RowfallError):
        label = "" if isinstance(error, Interrupted) else "error: "
        output.error(error.message, error.hint, label=label, code=error.exit)
        return error.exit
    output.error(
        f"this is a bug in rowfall: {type(error).__name__}: {error}",
        "Run it again with --debug and report what it prints.",
    )
    return Exit.BUG


def _is_piped() -> bool:
    """Return True where another program or a file gives stdin."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _form(error: click.exceptions.BadOptionUsage, context: click.Context) -> str:
    """Return "Write --option VALUE. " for the option whose value is missing; "" if unknown."""
    for param in context.command.get_params(context):
        if error.option_name in param.opts and (metavar := getattr(param, "metavar", "")):
            return f"Write {error.option_name} {metavar}. "
    return ""


def _uncapped(message: str) -> str:
    """Return click's sentence in our form: lower case, no full stop."""
    return (message[:1].lower() + message[1:]).removesuffix(".")


def _usage(error: click.ClickException) -> tuple[str, str | None]:
    """Return the message and the hint of a command line that makes no sense."""
    context: click.Context | None = getattr(error, "ctx", None)
    if context is None:
        return _uncapped(error.format_message()), None
    help_ = f"'{context.command_path} --help' lists what is accepted."
    if isinstance(error, click.exceptions.NoSuchCommand):
        name, group = error.command_name, context.command
        guess = command_hint(name) if context.parent is None else ""
        if isinstance(group, click.Group) and not guess:
            guess = did_you_mean(name, group.list_commands(context), f"{context.command_path} ")
        if context.parent is None and ("://" in name or os.path.exists(name)):
            import shlex

            guess = f"To load it: rowfall load {shlex.quote(name)}. "
        return _uncapped(error.message), guess + help_
    if isinstance(error, click.exceptions.NoSuchOption):
        name = error.option_name
        known = [flag for param in context.command.get_params(context) for flag in param.opts]
        # What another tool calls an option says more than the spelling that is nearest to it.
        guess = option_hint(name) or did_you_mean(name, known)
        return _uncapped(error.message), guess + help_
    if isinstance(error, click.MissingParameter) and _is_piped():
        piped = "To load what is piped in: rowfall load - --table NAME. "
        return _uncapped(error.format_message()), piped + help_
    if isinstance(error, click.MissingParameter) and context.info_name == "adopt":
        named = "Name the files whose rows the table holds: rowfall adopt SOURCE... --table NAME. "
        return _uncapped(error.format_message()), named + help_
    if isinstance(error, click.exceptions.BadOptionUsage):
        return _uncapped(error.format_message()), _form(error, context) + help_
    return _uncapped(error.format_message()), help_
