"""Table engines as ``system.tables`` writes them: ``Name('a', f(b, 'c,)')) ORDER BY ...``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rowfall.core.sql_tokens import closing, items, tokens

_CALL = re.compile(r"\s*(\w+)\s*(\(?)")
_QUOTED = re.compile(r"\s*'((?:[^'\\]|\\.|'')*)'\s*\Z", re.DOTALL)
_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)|''", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_MACRO = re.compile(r"\{(\w+)\}")
_FAMILY = re.compile(r"(Replicated|Shared)?(\w*MergeTree)\Z")
# The path in Keeper and the name of the replica.
_OWN_ARGUMENTS = 2


@dataclass(frozen=True, slots=True)
class Engine:
    """A table engine: its name and its arguments as they are written.

    Attributes:
        rest: what follows: ORDER BY, SETTINGS and so on.
    """

    name: str
    arguments: tuple[str, ...] = ()
    rest: str = ""

    @property
    def replicated(self) -> bool:
        """Whether all replicas of a shard get what one of them has."""
        match = _FAMILY.match(self.name)
        return match is not None and bool(match[1])

    @property
    def merge_tree(self) -> bool:
        return _FAMILY.match(self.name) is not None

    @property
    def meaning(self) -> str:
        """The engine without the arguments that differ from replica to replica."""
        own = _OWN_ARGUMENTS if self.replicated and _is_path(self.arguments) else 0
        return f"{self.name}({', '.join(self.arguments[own:])})"

    @property
    def text(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name

    def replicate(self, path: str, replica: str) -> Engine:
        """The replicated engine of the same family; itself when it is one."""
        if self.replicated:
            return self
        return Engine(f"Replicated{self.name}", (path, replica, *self.arguments), self.rest)


@dataclass(frozen=True, slots=True)
class Spread:
    """What a Distributed table stands for.

    Attributes:
        cluster: may hold macros.
        database: "" for each server's own default.
        sharding_key: "" when there is none.
    """

    cluster: str
    database: str
    table: str
    sharding_key: str = ""


def parse(text: str) -> Engine:
    """Parse ``engine_full`` of a table, or the engine of a schema.

    Raises:
        ValueError: it does not look like an engine.
    """
    match = _CALL.match(text)
    if match is None:
        raise ValueError(f"no table engine: {text[:80]!r}")
    if not match[2]:
        return Engine(match[1], (), text[match.end() :].strip())
    words = tokens(text[match.end() - 1 :])
    try:
        end = closing(words, 0)
    except ValueError:
        raise ValueError(f"a table engine without an end: {text[:80]!r}") from None
    return Engine(match[1], tuple(items(words[1:end])), "".join(words[end + 1 :]).strip())


def spread(engine: Engine) -> Spread:
    """The arguments of a Distributed engine.

    Raises:
        ValueError: there are too few, or they are no names.
    """
    if engine.name != "Distributed" or len(engine.arguments) < 3:
        raise ValueError(f"no Distributed engine: {engine.text[:80]!r}")
    cluster, database, table = (value(argument) for argument in engine.arguments[:3])
    return Spread(cluster, database, table, engine.arguments[3] if engine.arguments[3:] else "")


def value(argument: str) -> str:
    """What a string literal or a name stands for."""
    quoted = _QUOTED.match(argument)
    if quoted is None:
        return argument.strip().strip('`"')
    return _ESCAPED.sub(_unescape, quoted[1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code is None:
        return "'"
    return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPES.get(code, code)


def macros_of(text: str) -> tuple[str, ...]:
    """Names of the macros in a text."""
    return tuple(dict.fromkeys(_MACRO.findall(text)))


def expand(text: str, macros: Mapping[str, str]) -> str:
    """The text with the macros of a node; unknown ones stay."""
    return _MACRO.sub(lambda match: macros.get(match[1], match[0]), text)


def _is_path(arguments: tuple[str, ...]) -> bool:
    return len(arguments) >= _OWN_ARGUMENTS and all(
        _QUOTED.match(argument) for argument in arguments[:_OWN_ARGUMENTS]
    )
