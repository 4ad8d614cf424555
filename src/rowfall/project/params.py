"""Parameters of a load: ``{day}`` in its texts, with the value that the command line gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex
from rowfall.project.file import PARAMS, WORD, ProjectFile, Section
from rowfall.project.values import Hook, Origin

# A value becomes part of paths, of patterns and of SQL between quotes: nothing that means something
# there may stand in it. ``..`` would lead out of the folder that the file names, and what begins
# with a dash is an option to the command of a hook.
_VALUE = regex(r"(?!.*\.\.)(?:-?[0-9]|[A-Za-z_.:+])[A-Za-z0-9_.:+-]*")


def parse(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of ``--param NAME=VALUE``, by their names.

    Raises:
        UsageError: one is no ``NAME=VALUE``, is given twice, or its value holds something else than
            letters, digits and ``_ . : + -``.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not WORD.fullmatch(name):
            raise UsageError(f"--param {text} is no NAME=VALUE", hint="As --param day=2026-01-31.")
        if name in found:
            raise UsageError(f"--param {name} is given twice", hint="A load has one value of each.")
        if not _VALUE.fullmatch(value):
            raise UsageError(
                f"--param {name}: {value!r} cannot stand in a path or a statement",
                hint="Values hold letters, digits and _ . : + - and no two dots in a row, and "
                "begin with no dash, except that of a number.",
            )
        found[name] = value
    return found


def given(flags: Mapping[str, tuple[Any, Origin]] | None) -> Mapping[str, str]:
    """Return the values of parameters that the command line gives."""
    values: Mapping[str, str] = (flags or {}).get(PARAMS, ({}, None))[0]
    return values


def filled(section: Section, values: Mapping[str, str]) -> Section:
    """Return a load with ``{NAME}`` replaced in all its texts, for each name of its ``params``."""
    names = [name for name in section.values.get(PARAMS, ()) if name in values]
    if not names:
        return section

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            for name in names:
                value = value.replace(f"{{{name}}}", values[name])
            return value
        if isinstance(value, (tuple, list)):
            return type(value)(map(fill, value))
        if isinstance(value, Hook):
            return Hook(fill(value.sql), fill(value.command), value.timeout, value.where)
        return value

    made = {key: value if key == PARAMS else fill(value) for key, value in section.values.items()}
    return Section(section.kind, section.name, made, section.spelled)


def check_given(file: ProjectFile, section: Section, values: Mapping[str, str]) -> None:
    """Check that every parameter of a load has a value.

    Raises:
        UsageError: one has none.
    """
    for name in section.values.get(PARAMS, ()):
        if name not in values:
            raise file.wrong(
                section, PARAMS, f"has {name}, and no value is given for it",
                f"Give one: rowfall run {section.name} --param {name}=VALUE",
            )  # fmt: skip
