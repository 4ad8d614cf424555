"""Render ``rowfall config``: each value and where it comes from."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rowfall.core.config_results import ShownProject, ShownValue
from rowfall.report.layout import WIDTH, grid, render, wrap

CONFIG_VERSION = 1
_ONE = {"connections": "connection", "loads": "load", "pipelines": "pipeline"}
_LONGEST = 40


def config_document(shown: ShownProject) -> dict[str, Any]:
    """Return the JSON document of ``rowfall config``, see docs/reference/json.md."""
    return {
        "rowfall_config": CONFIG_VERSION, "files": list(shown.files), "name": shown.name,
        "kind": _ONE.get(shown.kind, ""), "values": [asdict(value) for value in shown.values],
        "names": [{"kind": _ONE[kind], "name": name, "where": where}
                  for kind, name, where in shown.names],
        "unknown_variables": [name for name, _ in shown.unknown],
    }  # fmt: skip


def config_text(
    shown: ShownProject, *, defaults: bool = False, color: bool = False, width: int = WIDTH
) -> str:
    """Return the settings as a table of key, value and origin.

    Args:
        defaults: also those that nobody has set.
    """
    from rich.text import Text

    parts: list[Any] = []
    if shown.name:
        parts += [f"{_ONE[shown.kind]} {shown.name}", ""]
    else:
        for number, file in enumerate(shown.files):
            parts.append(f"{'file' if not number else '    '}  {file}")
        if not shown.files:
            parts.append("no rowfall.toml is here or in a folder above")
        parts.append("")
    own = f", [{shown.kind}.{shown.name}]"
    values = [value for value in shown.values if defaults or value.layer != "default"]
    rows = [
        (Text(value.key), Text(_text(value)), Text(_short(value.origin or value.layer, own), "dim"))
        for value in values
    ]
    if rows:
        parts.append(grid(rows))
    else:
        parts.append("  nothing is set: all options are defaults")
    if not shown.name and shown.names:
        parts.append("")
        named = [(Text(_ONE[kind], "dim"), Text(name), Text(_short(where), "dim"))
                 for kind, name, where in shown.names]  # fmt: skip
        parts.append(grid(named))
    for name, near in shown.unknown:
        said = f"note: nothing reads the variable {name}"
        parts += ["", wrap(said + (f"; did you mean {near}?" if near else ""), width=width)]
    for file in shown.legacy:
        said = f"note: {file} has [profiles]: rowfall config --migrate makes connections of them"
        parts += ["", wrap(said, width=width)]
    return render(parts, color=color, width=width)


def _text(value: ShownValue) -> str:
    """Return a value about as the file has it; a long one is cut, and --json has all of it."""
    shown = value.value
    if isinstance(shown, list) and len(shown) == 1:
        shown = shown[0]
    text = shown if isinstance(shown, str) else json.dumps(shown)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _short(origin: str, own: str = "") -> str:
    """Return an origin without the folders of its file, and without the table that is shown."""
    origin = origin.removesuffix(own) if own else origin
    head, line, rest = origin.partition(" line ")
    return f"{head.rpartition('/')[2]}{line}{rest}" if line else origin
