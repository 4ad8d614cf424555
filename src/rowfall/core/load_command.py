"""Writes the command of a load, as a person would type it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from rowfall.core.options import LOAD, Options, flags_of

DEFAULT_TARGETS = ("", "rowfall-data", "./rowfall-data")
"""Targets that a command without --to means."""


def load_command(sources: Sequence[str], to: str, table: str, options: Options, more: str) -> str:
    """Return ``rowfall load`` with sources, target, the options that were given, and others.

    Args:
        to: the target as shown; ``more`` are options for a shell, which win over those given.
    """
    words = ["rowfall", "load", *map(_near, sources)]
    if (target := _near(to)) not in DEFAULT_TARGETS:
        words += ["--to", target]
    if table:
        words += ["--table", table]
    named = set(shlex.split(more))
    for item, flag in flags_of(LOAD):
        value = getattr(options, item.name)
        if value == item.default or named & set(flag.flags):
            continue
        for one in value if flag.many else (value,):
            words += [flag.flags[0]] if isinstance(one, bool) else [flag.flags[0], str(one)]
    return f"{shlex.join(words)} {more}"


def quoted(text: str) -> str:
    """Return a text for a shell, within double quotes where nothing in it means something there."""
    special = set('"$`\\!') & set(text.replace("!=", ""))  # bash keeps != as it is
    return shlex.quote(text) if special else f'"{text}"'


def _near(path: str) -> str:
    """Return a path below the folder here as it is typed here."""
    return os.path.relpath(path) if path.startswith(f"{os.getcwd()}{os.sep}") else path
