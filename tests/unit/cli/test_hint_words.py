"""Commands and options that hints name exist; e2e/test_hints.py runs those that can be typed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from rowfall.cli import COMMANDS
from rowfall.cli.app import cli

SOURCE = Path(__file__).parents[3] / "src/rowfall"
# Of kafka-topics and pip.
FOREIGN = {"--list", "--upgrade"}
# What follows the name of the program where no command does.
WORDS = {"cannot", "does", "loads", "may", "needs", "to"}


def flags(command: click.Command, context: click.Context) -> set[str]:
    own = {flag for p in command.get_params(context) for flag in (*p.opts, *p.secondary_opts)}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            own |= flags(found, click.Context(found, parent=context))
    return own


def hints() -> Iterator[tuple[str, str]]:
    """Yield (where, text) of each hint; what is filled in is left out."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            for given in node.keywords:
                if given.arg == "hint":
                    texts = [
                        part.value for part in ast.walk(given.value)
                        if isinstance(part, ast.Constant) and isinstance(part.value, str)
                    ]  # fmt: skip
                    yield f"{file.relative_to(SOURCE)}:{node.lineno}", " ".join(texts)


def test_what_hints_name_exists() -> None:
    known = flags(cli, click.Context(cli)) | FOREIGN
    found = list(hints())
    assert len(found) > 300
    for where, text in found:
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text):
            assert flag in known, f"{where}: {flag}"
        for name in re.findall(r"\browfall ([a-z-]+)\b(?= |$|['.;,])", text):
            assert name in COMMANDS or name in WORDS, f"{where}: rowfall {name}"
