"""The command line: commands with their options, made of the option table, and how a run ends.

It imports click and nothing heavy: ``--help`` answers before an engine or a driver is loaded. Each
command is one file of this package, imported when it is asked for. :func:`run` parses a command
line and maps errors to exit codes.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable
from dataclasses import Field, fields
from importlib import import_module
from typing import Any, TypeVar

import click

from rowfall.cli.output import CommandOutput
from rowfall.core.errors import Exit, Interrupted, RowfallError, UsageError
from rowfall.core.masked import Secret
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import MAIN, Flag, Options, flags_of
from rowfall.core.other_tools import command_hint, option_hint
from rowfall.core.version import __version__

# In the order in which they are listed.
COMMANDS = (
    "load", "export", "worker", "run", "watch", "pipeline", "plan", "query", "status", "tables",
    "report", "explain", "verify", "resume", "adopt", "forget", "undo", "clean", "init", "config",
    "doctor", "tune", "scale", "bench", "mcp", "install-decoder", "lab", "completion", "help",
)  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def complete(name: str) -> Callable[..., Any]:
    """Return a function of :mod:`rowfall.cli.complete`, which only shells wait for."""

    def values(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        from rowfall.cli import complete as values_of

        return getattr(values_of, name)(ctx, param, incomplete)

    return values


class GroupedOption(click.Option):
    """An option that knows its heading in the help."""

    def __init__(self, *args: Any, group: str = "General", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Add nothing: the help sentence says the default, and the error says the range."""
        return {}


_TOPIC = "rowfall.help"  # in a context's meta: the heading whose options the help lists
ALL_TOPICS = "all"


class NarrowContext(click.Context):
    """A context whose help fits terminals that are narrower than click's least of 50 columns."""

    def make_formatter(self) -> click.HelpFormatter:
        """Return click's formatter, as wide as the terminal where that is less."""
        import shutil  # 2 ms that only help takes

        here = shutil.get_terminal_size((_NARROW, 24)).columns
        if here < _NARROW and self.terminal_width is None:
            return self.formatter_class(width=max(here - 1, 20))
        return super().make_formatter()


class GroupedCommand(click.Command):
    """Lists the options of a command under headings in its help; takes names for targets.

    ``--help`` of a command with many options lists those that most loads need, ``--help TOPIC``
    those below one heading, ``--help all`` all of them.

    Attributes:
        layered: what the command line leaves out comes from the environment and ``rowfall.toml``;
            False where the command asks for it itself.
    """

    layered = True
    context_class = NarrowContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            click.UsageError: --to or --table is given twice with different values: the rows would
                be missing in one of them.
        """
        for at, word in enumerate(args[:-1]):
            if word in ctx.help_option_names and self.set_topic(ctx, args[at + 1]):
                break
        _check_once(self, ctx, list(args))
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            error.ctx = error.ctx or ctx  # click's parser leaves it out
            raise

    def invoke(self, ctx: click.Context) -> Any:
        if "to" in ctx.params and self.layered:
            from rowfall.cli.settings import apply_settings

            apply_settings(ctx)
        return super().invoke(ctx)

    def set_topic(self, ctx: click.Context, topic: str) -> bool:
        """Make the help list the options of one topic; return False where there is none such."""
        known = topic in self._topics(ctx)
        if known:
            ctx.meta[_TOPIC] = topic
        return known

    def _topics(self, ctx: click.Context) -> list[str]:
        """Return the headings of a command with many options as one word each; else nothing."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        if len(options) < _MANY:
            return []
        groups = dict.fromkeys(getattr(param, "group", "General") for param in options)
        return [*map(_topic_of, groups), ALL_TOPICS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        topics, topic = self._topics(ctx), ctx.meta.get(_TOPIC, "")
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or not isinstance(param, click.Option):
                continue
            name = getattr(param, "group", "General")
            shown = topic in (ALL_TOPICS, _topic_of(name)) or (not topic and param.name in MAIN)
            if shown or not topics:
                groups.setdefault(name, []).append(record)
        width = max(len(flags) for records in groups.values() for flags, _ in records)
        most = _FLAGS if formatter.width >= _NARROW else _FLAGS_NARROW
        width = min(width, most)
        # What a command is about comes first, what all of them share comes last.
        general = groups.pop("General", [])
        for name, records in [*groups.items(), ("General", general)]:
            if not records:
                continue
            with formatter.section(f"{name} options"):
                # One column for all headings, or every section is aligned on its own.
                formatter.write_dl([(flags.ljust(width), text) for flags, text in records], most)
        if topics and topic != ALL_TOPICS:
            formatter.write_paragraph()
            formatter.write_text(
                f"More options: '{ctx.command_path} --help TOPIC', where TOPIC is "
                f"{', '.join(topics[:-1])} or {topics[-1]}."
            )


# Options of a command that its help lists without being asked.
_MANY = 30
# Columns of the help for the spelling of options: longer ones have a line of their own.
_FLAGS = 24
# The same in terminals that are narrower than these columns: the text needs some, too.
_FLAGS_NARROW, _NARROW = 6, 60


def _topic_of(group: str) -> str:
    return group.lower().replace(" ", "-")


def _check_once(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Raise where two places for the rows are named, see :meth:`GroupedCommand.parse_args`.

    click keeps the last value and does not tell how many there were. Of the other options the last
    value wins, as in aliases and scripts that append to what they are given.
    """
    where = [param for param in command.get_params(ctx) if param.name in ("to", "table", "config")]
    spelled = {flag: param for param in where for flag in param.opts}
    flags = [word.partition("=")[0] for word in args]
    if len(flags) == len(set(flags)):  # the usual case: nothing stands there twice
        return
    given: dict[str, list[str]] = {}
    words = iter(args)
    for word in words:
        if word == "--":
            break
        flag, equals, value = word.partition("=")
        if (param := spelled.get(flag)) is not None and param.name:
            given.setdefault(param.name, []).append(value if equals else next(words, ""))
            if len(set(given[param.name])) > 1:
                both = " and ".join(given[param.name])
                shown = "" if "://" in both else f": {both}"  # a URL may hold a password
                raise click.UsageError(f"{flag} is given twice{shown}", ctx)


class GroupOfCommands(GroupedCommand, click.Group):
    """A command whose commands are listed below its options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


class Commands(GroupOfCommands):
    """The commands in the order of a first use, each imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"rowfall.cli.{name}"), name)
        return command


def command(function: Callable[..., Any]) -> click.Command:
    """Return ``@click.command`` with grouped help and the options that all commands have."""
    return click.command(name=function.__name__, cls=GroupedCommand)(common_options(function))


def group(function: Callable[..., Any]) -> click.Group:
    """Return ``@click.group`` with grouped help and the options that all commands have."""
    return click.group(name=function.__name__, cls=GroupOfCommands)(common_options(function))


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that may stand anywhere: in front of the command and behind it."""
    for add in reversed(_COMMON):
        function = add(function)
    return function


def option(*flags: str, **attributes: Any) -> Callable[[F], F]:
    """Return ``click.option`` with a ``group``."""
    return click.option(*flags, cls=GroupedOption, **attributes)


def table_options(name: str) -> Callable[[F], F]:
    """Add every option of the table that command ``name`` takes."""

    def add(function: F) -> F:
        for item, flag in reversed(list(flags_of(name))):
            function = click.option(*flag.flags, item.name, **_attributes(item, flag))(function)
        return function

    return add


def options_of(values: dict[str, Any]) -> Options:
    """Return the :class:`Options` of a parsed command line."""
    names = {item.name for item in fields(Options)}
    return Options(**{name: value for name, value in values.items() if name in names})


def sources_argument(function: F) -> F:
    """Add ``SOURCE...``: the command gets ``sources``, at least one."""
    return click.argument(
        "sources", nargs=-1, required=True, metavar="SOURCE...", shell_complete=complete("paths")
    )(function)


def target_option(function: F) -> F:
    """Add ``--to TARGET``."""
    return option(
        "--to",
        metavar="TARGET",
        group="Target",
        shell_complete=complete("targets"),
        help="Folder of the embedded ClickHouse, or clickhouse://user@host:8123/database. "
        "Default: ./rowfall-data.",
    )(password_option(function))


def password_option(function: F) -> F:
    """Add ``--ask-password``: the command gets ``password``, a Secret or None."""
    return option(
        "--ask-password",
        "password",
        is_flag=True,
        group="Target",
        callback=_ask_password,
        help="Ask for the password of the server's user. Default: ROWFALL_PASSWORD, "
        "CLICKHOUSE_PASSWORD, or the one in the target.",
    )(function)


def _ask_password(ctx: click.Context, param: click.Parameter, value: bool) -> Secret | None:
    return Secret(click.prompt("Password", hide_input=True, err=True)) if value else None


def destination_options(function: F) -> F:
    """Add ``--to TARGET`` and ``--table NAME`` of the commands that write or plan to."""
    table = option(
        "--table",
        metavar="NAME",
        shell_complete=complete("tables"),
        group="Target",
        help="Table to load into, created when missing. Default: by the name of the source.",
    )
    to = option(
        "--to",
        metavar="TARGET",
        group="Target",
        shell_complete=complete("targets"),
        help="A folder for embedded ClickHouse, clickhouse://user@host:8123/database "
        "(clickhouses:// for TLS), a file pattern to export to, or null: to only read. "
        "Default: ./rowfall-data.",
    )
    return to(table(password_option(function)))


def _attributes(item: Field[Any], flag: Flag) -> dict[str, Any]:
    """Return the attributes of the click option; its type follows from the field's."""
    attributes: dict[str, Any] = {"cls": GroupedOption, "group": flag.group, "help": flag.help}
    if item.default is False:
        return attributes | {"is_flag": True}
    attributes |= {"metavar": flag.metavar, "default": item.default}
    if item.name in ("format", "to_format"):
        attributes["shell_complete"] = complete("formats")
    elif flag.metavar == "FILE" or "|" in flag.metavar:
        attributes["shell_complete"] = complete("paths" if flag.metavar == "FILE" else "words")
    annotation = str(item.type)
    if flag.many:
        return attributes | {"multiple": True}
    if flag.metavar == "PORT":
        return attributes | {"type": click.IntRange(0, 65_535)}
    if annotation.startswith("int"):
        return attributes | {"type": click.IntRange(min=0 if item.default == 0 else 1)}
    if annotation.startswith("float"):
        return attributes | {"type": click.FloatRange(0, 1)}
    return attributes


def _set(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Record a common option in the context's :class:`CommandOutput` before the command runs."""
    if value and param.name:
        setattr(ctx.ensure_object(CommandOutput), param.name, True)


def _set_format(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value:
        ctx.ensure_object(CommandOutput).log_format = value


def _open_log(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Open the log file of the context's :class:`CommandOutput` before the command runs."""
    output = ctx.ensure_object(CommandOutput)
    if not value or output.log_file is not None:
        return
    from pathlib import Path  # 4 ms that only logs need

    from rowfall.core import disk

    try:
        opened = disk.open_own(Path(value), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except OSError as error:
        raise UsageError(
            f"cannot write the log {value}: {error.strerror}",
            hint="Give another file with --log-file.",
        ) from None
    # What file names hold need not be text.
    output.log_file = os.fdopen(opened, "a", encoding="utf-8", errors="backslashreplace")


def _set_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Record the project file.

    Raises:
        UsageError: two different ones are named.
    """
    output = ctx.ensure_object(CommandOutput)
    if value and output.config not in (None, value):
        raise UsageError(
            f"--config is given twice: {output.config} and {value}", hint="Name one file."
        )
    output.config = value or output.config


def _common(*flags: str, text: str) -> Callable[[F], F]:
    return option(*flags, is_flag=True, expose_value=False, is_eager=True, callback=_set, help=text)


_COMMON = (
    _common("--json", text="One JSON document on stdout, no progress."),
    _common("--quiet", "-q", text="Print warnings and errors only."),
    _common("--verbose", "-v", text="Print every attempt and the reason for every decision."),
    _common("--no-color", text="No colours. NO_COLOR does the same."),
    option(
        "--log-file",
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_open_log,
        shell_complete=complete("paths"),
        help="Append what is said to a file, with times and levels.",
    ),
    option(
        "--log-format",
        metavar="text|json",
        type=click.Choice(("text", "json")),
        expose_value=False,
        is_eager=True,
        callback=_set_format,
        shell_complete=complete("words"),
        help="Lines of the log, or of stderr without --log-file: text, or a JSON document each.",
    ),
    option(
        "--config",
        metavar="FILE",
        expose_value=False,
        is_eager=True,
        callback=_set_config,
        shell_complete=complete("paths"),
        help="Project file in place of the rowfall.toml that is found here or in a folder above.",
    ),
    _common("--debug", text="Show tracebacks. ROWFALL_DEBUG=1 does the same."),
)


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
