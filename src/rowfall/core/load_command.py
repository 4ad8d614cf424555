"""Writes the command of a load, as a person would type it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rowfall.core.errors import RowfallError
from rowfall.core.masked import MASK
from rowfall.core.options import LOAD, Options, flags_of
from rowfall.core.patterns import regex
from rowfall.core.uri import mask

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


def with_target(hint: str | None, to: str) -> str | None:
    """Return a hint whose ``rowfall load`` names the target of the load that it is about.

    Args:
        to: the target as shown; without it the command would load into the folder here.
    """
    if not hint or "--to " in hint or (target := _near(to)) in DEFAULT_TARGETS:
        return hint
    named = f"rowfall load --to {shlex.quote(target)} "
    return _COMMAND.sub(lambda _: named, hint)


_COMMAND = regex(r"\browfall load (?=[-'\w./])")


@contextmanager
def hints_into(to: str | None) -> Iterator[None]:
    """Let the commands in hints of errors name a target, see :func:`with_target`."""
    try:
        yield
    except RowfallError as error:
        shown = mask(to or "").replace(f":{MASK}@", "@")
        error.hint = with_target(error.hint, shown)
        raise


def quoted(text: str) -> str:
    """Return a text for a shell, within double quotes where nothing in it means something there."""
    special = set('"$`\\!') & set(text.replace("!=", ""))  # bash keeps != as it is
    return shlex.quote(text) if special else f'"{text}"'


def _near(path: str) -> str:
    """Return a path below the folder here as it is typed here."""
    return os.path.relpath(path) if path.startswith(f"{os.getcwd()}{os.sep}") else path
