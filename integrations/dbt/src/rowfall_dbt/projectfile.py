"""The ``rowfall.toml`` that loads tables of sources: one load for each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rowfall_dbt.project import ProjectError, SourceTable
from rowfall_dbt.targets import Target

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def text_of(loads: Sequence[tuple[SourceTable, Target]]) -> str:
    """Return the file. It holds no password: those of targets are in ``ROWFALL_PASSWORD``.

    Raises:
        ProjectError: a block needs a table that is not loaded, or has a value that is none.
    """
    names = {table.name: _name(table.name) for table, _ in loads}
    parts = []
    for table, target in loads:
        values = dict(table.values)
        # Without those that are not selected, which are loaded at other times.
        needs = values.pop("needs", None)
        needed = [needs] if isinstance(needs, str) else list(needs or ())
        lines = [f"# {table.name}, {table.file}", f"[loads.{names[table.name]}]"]
        lines += [f"{_key(k)} = {_value(v, table)}" for k, v in values.items() if v is not None]
        lines += [f"to = {_value(target.url, table)}", f"table = {_value(target.table, table)}"]
        if found := [names[name] for name in needed if name in names]:
            lines.append(f"needs = {_value(found, table)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _name(text: str) -> str:
    """Return a name for a load, which is a word: shop.orders is shop--orders."""
    word = re.sub(r"[^A-Za-z0-9_.-]", "_", text).replace(".", "--")
    return word if word[:1].isalpha() else f"s{word}"


def _value(value: Any, table: SourceTable) -> str:
    """Return a value as TOML has it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            # What JSON escapes, TOML escapes in the same way, but for the character DEL.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            items = (f"{_key(str(k))} = {_value(v, table)}" for k, v in value.items())
            return f"{{ {', '.join(items)} }}"
        case list() | tuple():
            return f"[{', '.join(_value(one, table) for one in value)}]"
        case _:
            raise ProjectError(
                f"{table.file}: meta.rowfall of {table.name} holds {value!r}, which is no text, "
                "number, truth value, list or mapping; quote it"
            )


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
