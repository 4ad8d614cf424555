"""Says how to install what rowfall can do without, by the tool that this rowfall came with."""

from __future__ import annotations

import sys
from pathlib import Path

from rowfall.core.errors import UsageError


def command(extra: str) -> str:
    """Return the command that installs one of the optional dependencies of pyproject.toml.

    pipx and uv keep a tool in an environment that pip does not reach, and uv makes environments
    without pip: each is told by the folder, and by ``pyvenv.cfg`` in it.
    """
    prefix = Path(sys.prefix)
    folders = prefix.parts[-3:-1]
    if folders == ("uv", "tools"):
        tool = "uv tool install"
    elif folders == ("pipx", "venvs"):
        tool = "pipx install --force"
    else:
        try:
            lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        except OSError:
            lines = []
        by_uv = any(line.partition("=")[0].strip() == "uv" for line in lines)
        tool = "uv pip install" if by_uv else "pip install"
    return f"{tool} 'rowfall[{extra}]'"


def missing(what: str, extra: str) -> UsageError:
    """Return the error about a library that is not installed.

    Args:
        what: the message, which names the library and what needs it.
        extra: one of the optional dependencies in pyproject.toml.
    """
    return UsageError(what, hint=f"Install it: {command(extra)}")
