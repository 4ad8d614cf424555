"""Combinations that ``rowfall tune --save NAME`` has found, one file each in the state folder.

They are not part of ``rowfall.toml``, which is written by people and shared; these were
measured on one machine, and a later sweep replaces them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.nearest import nearest
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.targets.base import state_folder

_VERSION = 1
_NAME = regex(r"[A-Za-z0-9][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Tuned:
    """A combination and what it was measured with.

    Attributes:
        options: as of :func:`rowfall.core.options.changed`; {} where the defaults are fastest.
        source, target: kinds, which a load that takes it has to have.
        cores: of the engine that stores the rows. ``rows_per_second``: of the sample.
        text: the choices, for people. ``when``: UTC, ISO 8601.
    """

    name: str
    options: Mapping[str, Any]
    source: str
    target: str
    cores: int
    rows_per_second: float
    text: str
    when: str


def check_name(name: str) -> None:
    """Check the name of a combination, before anything is measured for it.

    Raises:
        UsageError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--save {name!r} is not a name",
            hint="Take letters, digits, '.', '-' and '_', as in --save nightly-trips.",
        )


def save(tuned: Tuned) -> Path:
    """Write a combination, over an older one of the same name; return its path.

    Raises:
        TargetError: it cannot be written.
    """
    path = _folder() / f"{tuned.name}.json"
    document = {"rowfall_tuned": _VERSION}
    document |= {item.name: getattr(tuned, item.name) for item in fields(Tuned)}
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise TargetError(
            f"cannot write {path}: {error.strerror}",
            hint="Name another place: export ROWFALL_HOME=/path/of/a/folder",
        ) from None
    return path


def find(name: str) -> Tuned:
    """Return the combination of a name.

    Raises:
        UsageError: there is none, or its file cannot be read.
    """
    known = names()
    if name not in known:
        near = nearest(name, known)
        hint = f"Did you mean --tuned {near}?" if near else (
            "There are: " + ", ".join(known) if known
            else f"Make it first: rowfall tune SOURCE --save {name}"
        )  # fmt: skip
        raise UsageError(f"nothing was saved under the name {name}", hint=hint)
    path = _folder() / f"{name}.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["rowfall_tuned"] != _VERSION:
            raise ValueError(f"it is of version {found['rowfall_tuned']}")
        if odd := set(found["options"]) - {item.name for item in fields(Options)}:
            raise ValueError(f"there is no option {min(odd)}")
        replace(Options(), **found["options"])
        return Tuned(**{item.name: found[item.name] for item in fields(Tuned)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"cannot read {path}: {error}", hint="Measure it anew with rowfall tune --save."
        ) from None


def names() -> list[str]:
    """Return the names of all combinations."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def applied(options: Options) -> Options:
    """Return the options with those of ``--tuned``; what is given besides wins.

    Raises:
        UsageError: nothing has that name.
    """
    if options.tuned is None:
        return options
    return with_cell(options, find(options.tuned).options)


def with_cell(options: Options, cell: Mapping[str, Any]) -> Options:
    """Return options with those of a combination where they are not given."""
    default = Options()
    given = {text.partition("=")[0] for text in options.set}
    more = tuple(text for text in cell.get("set", ()) if text.partition("=")[0] not in given)
    found = {
        name: value for name, value in cell.items()
        if name != "set" and getattr(options, name) == getattr(default, name)
    }  # fmt: skip
    return replace(options, **found, set=(*options.set, *more))


def check_kinds(tuned: str, source: str, target: str) -> None:
    """Check that a load is of the kinds that a combination was measured with.

    Raises:
        UsageError: it is of others.
    """
    if tuned not in names():
        return  # a load that goes on has its options on record
    found = find(tuned)
    for what, measured, here in (("source", found.source, source),
                                 ("target", found.target, target)):  # fmt: skip
        if measured != here:
            raise UsageError(
                f"--tuned {tuned} was measured with another kind of {what}: {measured}, and this "
                f"is {here}",
                hint=f"Leave it out, or measure this one: rowfall tune SOURCE --save {tuned}-2",
            )


def _folder() -> Path:
    return state_folder() / "tuned"
