"""``rowfall completion``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rowfall.cli.app import command, option
from rowfall.cli.output import CommandOutput
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.own_files import home

SHELLS = ("bash", "zsh", "fish")


@command
@click.argument("shell", required=False, type=click.Choice(SHELLS), metavar="[bash|zsh|fish]")
@option("--install", is_flag=True, group="Completion", help="Write it where the shell finds it.")
@click.pass_context
def completion(ctx: click.Context, shell: str | None, install: bool) -> None:
    """Print or install the completion of a shell.

    It knows commands, options, paths, connections, tables and loads. Default: the shell in SHELL.
    """
    from click.shell_completion import get_completion_class

    output = ctx.find_object(CommandOutput) or CommandOutput()
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    found = get_completion_class(name) if name in SHELLS else None
    if found is None:
        raise UsageError(
            f"there is no completion for {name or 'a shell that is not named'}",
            hint="Name one: rowfall completion bash, zsh or fish.",
        )
    text = found(ctx.find_root().command, {}, "rowfall", "_ROWFALL_COMPLETE").source()
    # That is so for the first time only that zsh calls the file; the second TAB would do nothing.
    text = text.replace("$zsh_eval_context[-1] == loadautofunc", "$funcstack[1] == _rowfall")
    if not install:
        output.data(text)
        return
    path, more = _place(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TargetError(f"cannot write {path}: {error.strerror}") from None
    output.talk(f"{path} written: open a new {name}{more}")


def _place(shell: str) -> tuple[Path, str]:
    """Return the user's file that a shell loads completions from, and what it needs besides."""
    data = Path(os.environ.get("XDG_DATA_HOME") or home("XDG_DATA_HOME") / ".local/share")
    if shell == "bash":
        return data / "bash-completion/completions/rowfall", " (it needs bash-completion)"
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home("XDG_CONFIG_HOME") / ".config")
        return config / "fish/completions/rowfall.fish", ""
    folder = data / "zsh/site-functions"
    return folder / "_rowfall", (
        f"; .zshrc needs 'fpath+=({folder})' in front of 'autoload -Uz compinit && compinit'"
    )
