"""Options and commands of other tools: what their hints name is there, and they are not ours."""

from __future__ import annotations

import re

import click
import pytest

from rowfall.cli.app import COMMANDS, cli
from rowfall.core.other_tools import COMMANDS as OF_OTHERS
from rowfall.core.other_tools import OPTIONS, SHORT, command_hint, option_hint

HINTS = [*OPTIONS.values(), *SHORT.values(), *OF_OTHERS.values()]


def _flags(*commands: str) -> set[str]:
    context = click.Context(cli, info_name="rowfall")
    found = [cli.get_command(context, name) for name in commands]
    return {flag for one in found if one for param in one.params for flag in param.opts}


@pytest.mark.parametrize("hint", sorted(set(HINTS)))
def test_what_a_hint_names_is_there(hint: str) -> None:
    named = re.findall(r"rowfall ([a-z-]+)", hint)
    flags = set(re.findall(r"--[a-z-]+", hint))
    assert set(named) <= {*COMMANDS, "--version"}
    assert flags - {"--version"} <= _flags("load", "query")


def test_they_are_no_options_and_commands_of_ours() -> None:
    ours = _flags("load", "plan")
    assert not ours & {f"--{name}" for name in OPTIONS}
    assert not ours & {f"-{name}" for name in SHORT}
    assert not set(COMMANDS) & set(OF_OTHERS)


def test_spelling_does_not_matter() -> None:
    assert option_hint("--dry_run") == option_hint("--dry-run") != ""
    assert option_hint("--nonsense") == option_hint("-z") == command_hint("nonsense") == ""
    assert command_hint("LS").startswith("To list tables: rowfall tables")
