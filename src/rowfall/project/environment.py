"""Options from the environment: ``ROWFALL_THREADS=4`` is ``--threads 4``.

Every option of a load has such a variable but those that answer what one load has asked. What may
be given more than once takes a line each; switches take 1 and 0.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import fields
from typing import Any

from rowfall.core.errors import UsageError
from rowfall.core.option_values import from_text
from rowfall.core.options import ANSWERS, Options
from rowfall.project.values import ENVIRONMENT, Origin

PREFIX = "ROWFALL_"
TO = "ROWFALL_TO"
# What is no option: the target and its password, where rowfall keeps its state, its own messages.
OTHERS = frozenset((TO, "ROWFALL_PASSWORD", "ROWFALL_HOME", "ROWFALL_DEBUG", "ROWFALL_CONFIG"))


def variable(option: str) -> str:
    return f"{PREFIX}{option.upper()}"


def option_values(names: Collection[str] | None = None) -> dict[str, tuple[Any, Origin]]:
    """Return the options that the environment sets, by their names in Python.

    Args:
        names: those that are asked for; None for all.

    Raises:
        UsageError: a value makes no sense.
    """
    # Most often there is none: the table of options is not looked at then.
    if not any(name.startswith(PREFIX) for name in os.environ):
        return {}
    found: dict[str, tuple[Any, Origin]] = {}
    for item in fields(Options):
        name = variable(item.name)
        text = os.environ.get(name)
        if not text or item.name in ANSWERS or (names is not None and item.name not in names):
            continue
        try:
            found[item.name] = from_text(item, text), Origin(ENVIRONMENT, name)
        except ValueError as error:
            raise UsageError(f"{name}={text}: {error}", hint=f"Set it otherwise, or unset {name}.")\
                from None  # fmt: skip
    return found


def unknown() -> list[str]:
    """Return the variables that begin like ours and that nothing reads."""
    known = OTHERS | {variable(item.name) for item in fields(Options)}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
