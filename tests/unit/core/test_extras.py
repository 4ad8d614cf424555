"""How a missing library is installed: by the tool that has made the environment."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from rowfall.core import extras


@pytest.mark.parametrize(
    ("folder", "config", "tool"),
    [
        ("home/.local/share/uv/tools/rowfall", "uv = 0.13.8", "uv tool install"),
        ("home/.local/share/pipx/venvs/rowfall", "home = /usr/bin", "pipx install --force"),
        ("work/.venv", "home = /usr/bin\nuv = 0.13.8\n", "uv pip install"),
        ("work/.venv", "home = /usr/bin\ncommand = /opt/uv/python -m venv\n", "pip install"),
        ("usr", None, "pip install"),
    ],
)
def test_the_tool_that_made_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, config: str | None, tool: str
) -> None:
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    if config is not None:
        (prefix / "pyvenv.cfg").write_text(config)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(metadata, "requires", lambda _: [])
    assert extras.command("mysql") == f"{tool} 'rowfall[mysql]'"
    assert str(extras.missing("no driver", "mysql").hint) == f"Install it: {tool} 'rowfall[mysql]'"


@pytest.mark.parametrize(
    ("folder", "named"),
    [("uv/tools/rowfall", "kafka,arrow"), ("pipx/venvs/rowfall", "kafka,arrow"), ("venv", "kafka")],
)
def test_a_tool_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, named: str
) -> None:
    """uv and pipx make the environment of a tool anew: its other extras were gone."""
    (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / folder))
    required = [
        "click>=8.4.2", "confluent-kafka>=2.6; extra == 'kafka'", "nothing-like-it; extra == 'ray'",
        "pyarrow>=18; extra == 'arrow'", "pyarrow>=18; extra == 'lake'",
        "none-yet>=1; extra == 'lake'",
    ]  # fmt: skip
    monkeypatch.setattr(metadata, "requires", lambda _: required)
    assert extras.command("kafka").endswith(f" 'rowfall[{named}]'")
