"""``rowfall pipeline``: start, stop, pause, resume, status, test, install, retry, skip."""

from __future__ import annotations

import shlex
from typing import Any

import click

from rowfall.cli.app import F, command, complete, group, option
from rowfall.cli.output import CommandOutput, error_document
from rowfall.cli.watch import opened
from rowfall.core.errors import Exit, RowfallError

# Rows that are shown are held in memory, as texts.
_MOST_SHOWN = 1_000


@group
def pipeline() -> None:
    """Run pipelines of rowfall.toml as services.

    \b
      rowfall pipeline test orders
      rowfall pipeline start orders
      rowfall pipeline status orders

    A pipeline follows its source for ever: files and objects that come, topics, tables that grow.
    'rowfall watch' does so in the foreground.
    """


def _named(function: F) -> F:
    named = click.argument("name", metavar="NAME", shell_complete=complete("named_pipelines"))
    return named(function)


@command
@_named
@click.pass_obj
def start(output: CommandOutput, /, name: str) -> None:
    """Follow a pipeline in the background: one watcher on each machine."""
    with opened(output, name) as found:
        from rowfall.service import background

        # The file that was found here: the watcher may find another one where it runs.
        path = str(found.named.path)
        running = background.start(found, ["watch", name, "--config", path])
        output.talk(f"pipeline {name}: started (pid {running.pid})")
        output.talk(f"  log: {running.log}")


@command
@_named
@click.pass_obj
def stop(output: CommandOutput, /, name: str) -> int:
    """End the watcher that runs in the background here, within ten seconds."""
    with opened(output, name) as found:
        from rowfall.service import background

        if background.stop(found):
            output.talk(f"pipeline {name}: stopped")
            return Exit.DONE
    output.talk(f"pipeline {name} does not run in the background here; status tells who follows")
    return Exit.DONE


@command
@_named
@click.pass_obj
def pause(output: CommandOutput, /, name: str) -> None:
    """Let no further batch begin, whoever follows, also after a restart."""
    _pause(output, name, paused=True)


@command
@_named
@click.pass_obj
def resume(output: CommandOutput, /, name: str) -> None:
    """Go on after pause."""
    _pause(output, name, paused=False)


def _pause(output: CommandOutput, name: str, *, paused: bool) -> None:
    with opened(output, name) as found:
        from rowfall.service.state import set_paused

        done = "paused" if paused else "goes on"
        changed = set_paused(found, paused=paused)
        was = "paused already" if paused else "not paused"
        output.talk(f"pipeline {name}: {done if changed else was}")


@command
@click.argument(
    "name", metavar="[NAME]", required=False, shell_complete=complete("named_pipelines")
)
@click.pass_obj
def status(output: CommandOutput, /, name: str | None) -> int:
    """Tell who follows a pipeline, what it has loaded, how far it is behind, and what failed.

    Without NAME a line for each pipeline of rowfall.toml.
    """
    if name is None:
        return _all_states(output)
    with opened(output, name) as found:
        from rowfall.report.pipelines import pipeline_text
        from rowfall.service.state import state_document, state_of

        document = state_document(state_of(found))
        if output.json:
            output.document(document)
        else:
            output.data(pipeline_text(document, width=output.columns))
    return Exit.DONE


def _all_states(output: CommandOutput) -> int:
    """Show every pipeline in a line; return the exit code of the first that cannot be asked."""
    from rowfall.project import find_project
    from rowfall.report.pipelines import pipelines_text
    from rowfall.service.state import state_document, state_of

    found: list[dict[str, Any]] = []
    code = int(Exit.DONE)
    names = find_project(output.config).names("pipelines")
    for name in names:
        try:
            with opened(output, name) as pipeline:
                found.append(state_document(state_of(pipeline)))
        except RowfallError as error:  # its target is away: that of others may not be
            code, message = code or error.exit, f"pipeline {name}: {error.message}"
            if output.json:
                found.append({"name": name, **error_document(message, error.hint, error.exit)})
            else:
                output.error(message, error.hint, code=error.exit)
    if output.json:
        output.document({"rowfall_pipelines": 1, "pipelines": found})
    elif found:
        output.data(pipelines_text(found))
    elif not names:
        output.talk("rowfall.toml names no pipeline; rowfall config shows what it names")
    return code


@command
@_named
@option(
    "--limit", type=click.IntRange(1, _MOST_SHOWN), default=10, metavar="N", group="Pipeline",
    help=f"Rows to read, at most {_MOST_SHOWN:,}. Default: 10.",
)  # fmt: skip
@click.pass_obj
def test(output: CommandOutput, /, name: str, limit: int) -> None:
    """Read the first rows of a pipeline and show what would be stored; write nothing."""
    with opened(output, name) as found, output.listener() as emit:
        from rowfall.report.pipelines import preview_document, preview_text
        from rowfall.service.preview import preview

        made = preview(found, limit, emit)
        document = preview_document(
            name, found.table_text, made.file, made.files, (made.columns, made.rows),
            (made.creates, made.refused),
        )  # fmt: skip
    if output.json:
        output.document(document)
    else:
        output.data(preview_text(document, width=output.columns))


@command
@_named
@option("--print", "printed", is_flag=True, group="Pipeline", help="Print the unit, write nothing.")
@click.pass_obj
def install(output: CommandOutput, /, name: str, printed: bool) -> None:
    """Write a unit for systemd that runs a pipeline as this user."""
    with opened(output, name) as found:
        from rowfall.service import systemd

        if printed:
            output.data(systemd.unit(found).rstrip("\n"))
            return
        path = systemd.install(found)
        output.talk(f"written: {path}")
        output.talk(f"start it: systemctl --user enable --now {systemd.unit_name(name)}")
        output.talk(f"without a login, too: loginctl enable-linger {shlex.quote(_user())}")


def _user() -> str:
    import getpass

    return getpass.getuser()


@command
@_named
@click.argument("file", metavar="FILE")
@click.pass_obj
def retry(output: CommandOutput, /, file: str, **values: Any) -> None:
    """Try a file once more that has failed, as it is."""
    _ask(output, file, again=True, **values)


@command
@_named
@click.argument("file", metavar="FILE")
@click.pass_obj
def skip(output: CommandOutput, /, file: str, **values: Any) -> None:
    """Leave a file out that has failed; a new version of it is loaded."""
    _ask(output, file, again=False, **values)


def _ask(output: CommandOutput, file: str, name: str, *, again: bool) -> None:
    with opened(output, name) as found:
        from rowfall.service.state import leave_out, try_again

        known = (try_again if again else leave_out)(found, file)
        output.talk(f"{known.file}: {'is tried again' if again else 'is left out'}")


for _command in (start, stop, pause, resume, status, test, install, retry, skip):
    pipeline.add_command(_command)
