"""Says how a file is loaded whose header is not that of the others. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rowfall.core.patterns import regex
from rowfall.core.value_kinds import kind_of
from rowfall.schema.text.records import APART

_BY_ITSELF = "Load it by itself into the same --table, with "
_MARKS = regex(r"[\s_.-]+")


def hint_of(names: Sequence[str], fields: Sequence[str]) -> str:
    """Return the hint about a file whose first line is another one.

    Args:
        names: the columns of the other files, in order. ``fields``: of the first line of this one.
    """
    if renames := _renames(names, fields):
        return f"{_BY_ITSELF}{' '.join(renames)}."
    if _is_row(names, fields):
        named = shlex.quote(",".join(names))
        return f"If that line is a row: {_BY_ITSELF.lower()}--header no --columns {named}."
    return APART


def _is_row(names: Sequence[str], fields: Sequence[str]) -> bool:
    """Tell whether a first line looks like a row below the names of other files."""
    found = [field.strip() for field in fields]
    return (
        len(found) == len(names)
        and not {*found} & {*names}
        and not any("," in name for name in names)  # --columns takes them apart there
        and any(map(kind_of, found))
    )


def _renames(names: Sequence[str], fields: Sequence[str]) -> list[str]:
    """Return --rename options that make the same columns; [] where names differ otherwise."""
    ours = {_key(name): name for name in names}
    theirs = {_key(field): field for field in fields}
    unlike = len(ours) < len(names) or len(theirs) < len(fields) or ours.keys() != theirs.keys()
    if unlike or any(
        "=" in own or own != own.strip() for own in (*ours.values(), *theirs.values())
    ):
        return []
    pairs = [(theirs[key], own) for key, own in ours.items() if theirs[key] != own]
    return [f"--rename {shlex.quote(f'{old}={new}')}" for old, new in pairs]


def _key(name: str) -> str:
    return _MARKS.sub("", name).casefold()
