"""``rowfall load`` without click, which with what it imports takes 30 CPU-ms of a small load.

Most command lines need nothing of it: sources, and options of the table with their values. What is
not plainly one of these (a mistake, an abbreviation, help, a profile) is click's to read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rowfall.cli.output import Output
from rowfall.core.dataclass import dataclass
from rowfall.core.masked import Secret
from rowfall.core.options import LOAD, Options, flags_of

# Common options that only set an attribute of the output.
_OUTPUT = {
    "--json": "json", "--quiet": "quiet", "-q": "quiet", "--verbose": "verbose", "-v": "verbose",
    "--no-color": "no_color", "--debug": "debug",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainLoad:
    """The arguments of a load.

    Attributes:
        output: attributes of the output to set.
    """

    sources: tuple[str, ...]
    to: str | None
    table: str | None
    options: Options
    output: frozenset[str]

    def run(self, output: Output) -> int:
        """Carry it out and return the exit code."""
        for name in self.output:
            setattr(output, name, True)
        return load(output, self.sources, self.to, self.table, self.options, None)


def read(arguments: Sequence[str]) -> PlainLoad | None:
    """Return what a command line asks for; None where click has to read it."""
    if arguments[:1] != [LOAD]:
        return None
    flags = {flag: found for found in flags_of(LOAD) for flag in found[1].flags}
    places: dict[str, str] = {}
    values: dict[str, Any] = {}
    sources: list[str] = []
    said: set[str] = set()
    left = iter(arguments[1:])
    for argument in left:
        if argument in _OUTPUT:
            said.add(_OUTPUT[argument])
            continue
        if not argument.startswith("-") or argument == "-":
            sources.append(argument)
            continue
        name, equals, value = argument.partition("=")
        item, flag = flags.get(name, (None, None))
        if item is not None and item.default is False:
            if equals:
                return None
            values[item.name] = True
            continue
        value = value if equals else next(left, "")
        if not value or value.startswith("-"):
            return None  # a value is missing, or an option may have been taken for it
        if name in ("--to", "--table") and name not in places:
            places[name] = value
        elif item is None or flag is None:
            return None
        elif flag.many:
            values[item.name] = (*values.get(item.name, ()), value)
        elif str(item.type).startswith("str") and item.name not in values:
            values[item.name] = value
        else:
            return None  # numbers have bounds; of two values click takes the last
    to = places.get("--to")
    # One without these may be the name of a profile, and the environment may name another.
    known = "ROWFALL_TO" not in os.environ if to is None else "/" in to or ":" in to
    if not sources or not known:
        return None
    return PlainLoad(
        tuple(sources), to, places.get("--table"), Options(**values), frozenset(said)
    )  # fmt: skip


def load(
    output: Output, sources: tuple[str, ...], to: str | None, table: str | None,
    options: Options, password: Secret | None,
) -> int:  # fmt: skip
    """Carry out ``rowfall load`` and return its exit code."""
    from rowfall.engines.prestart import prestart

    prestart(sources, to)  # before the imports below, which take as long
    from rowfall import api

    with output.listener() as listener:
        result = api.load(
            sources, to=to, table=table, options=options, on_event=listener, password=password,
            began=output.began,
        )  # fmt: skip
    return output.ended(result)
