"""The text of a materialized view: the tables it names, and where to cut it to name others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from rowfall.core import sql
from rowfall.core.errors import TargetError
from rowfall.targets.staging import ident, tokens

Name = tuple[str, str]
"""Database and table."""

# Tables that these read are not among those that the INSERT fires, or hide behind a pattern.
_FUNCTIONS = frozenset(
    {"remote", "remoteSecure", "cluster", "clusterAllReplicas", "merge", "view", "loop"}
)
_NOT_FROM = re.compile(
    "SELECT|WHERE|PREWHERE|GROUP|HAVING|QUALIFY|WINDOW|ORDER|LIMIT|OFFSET|SETTINGS|UNION|EXCEPT|"
    "INTERSECT|ARRAY|ON|USING"
)
_HINT = (
    "Drop or detach the view while loading and fill its table afterwards, or load with --direct, "
    "where a crash may lose or repeat rows."
)


def refuse(view: Name, reason: str) -> NoReturn:
    """Raise the TargetError that names the view."""
    raise TargetError(f"cannot stage the view {'.'.join(view)}: {reason}", hint=_HINT)


@dataclass(slots=True)
class Select:
    """The text of a SELECT as the engine formats it: words of the grammar in upper case, tables
    with their database.

    Attributes:
        words: all tokens; joined they are the text.
        solid: where ``words`` are no blanks or comments.
    """

    text: str
    view: Name
    words: list[str] = field(init=False)
    solid: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.words = tokens(self.text)
        self.solid = [
            i
            for i, word in enumerate(self.words)
            if not word.isspace() and not word.startswith(("--", "/*"))
        ]

    def word(self, at: int) -> str:
        """The token at a solid place, "" outside of the text."""
        return self.words[self.solid[at]] if 0 <= at < len(self.solid) else ""

    def dotted(self) -> Iterator[tuple[int, list[str]]]:
        """Every ``a.b`` and ``a.b.c`` with its place; the last name is "" for an asterisk."""
        at = 0
        while at < len(self.solid):
            names = []
            start = at
            while (name := ident(self.word(at))) and self.word(at + 1) == ".":
                names.append(name)
                at += 2
            if names:
                yield start, [*names, name or ""]
            at += 1

    def tables(self) -> Iterator[tuple[int, Name]]:
        """Every place where a table is named."""
        lists = self._lists()
        for at, names in self.dotted():
            if len(names) == 2 and names[1] and self._names_table(at, lists):
                yield at, (names[0], names[1])

    def _names_table(self, at: int, lists: set[int]) -> bool:
        before, earlier = self.word(at - 1), self.word(at - 2)
        if before == "(":
            return earlier == "IN" and self.word(at + 3) == ")"
        joined = before == "JOIN" and earlier != "ARRAY"
        return joined or before in ("FROM", "IN") or at - 1 in lists

    def _lists(self) -> set[int]:
        """Where commas separate the tables of a FROM."""
        commas = set()
        inside = [False]
        for at in range(len(self.solid)):
            word = self.word(at)
            if word in ("(", "["):
                inside.append(False)
            elif word in (")", "]"):
                inside.pop()
            elif word in ("FROM", "JOIN"):
                inside[-1] = word == "FROM" or self.word(at - 1) != "ARRAY"
                if ident(self.word(at + 1)) in _FUNCTIONS and self.word(at + 2) == "(":
                    refuse(self.view, f"it reads tables by way of {self.word(at + 1)}()")
            elif _NOT_FROM.fullmatch(word):
                inside[-1] = False
            elif word == "," and inside[-1]:
                commas.add(at)
        return commas

    def cut(self, source: Name) -> tuple[str, ...]:
        """The text around every mention of ``source``; joined with a table's name it reads that.

        What the table's columns are qualified with goes on to work: it becomes an alias.

        Raises:
            TargetError: there is no mention, or one that may be something else.
        """
        places = [at for at, table in self.tables() if table == source]
        shown = ".".join(source)
        if not places:
            refuse(self.view, f"its text does not name {shown}; was that renamed?")
        scoped = [at for at in places if self.word(at - 1) not in ("IN", "(")]
        aliases = {at: self._alias(at + 3) for at in scoped}
        bare = [at for at, alias in aliases.items() if alias is None]
        own = aliases[scoped[0]] if len(scoped) == 1 else None
        words: list[str | None] = list(self.words)
        for at, names in self.dotted():
            if at in places:
                words[self.solid[at]] = None
                self._blank(words, at + 1, 2)
                if at in bare:
                    words[self.solid[at + 2]] = f" AS {sql.name(source[1])}"
            elif tuple(names) == source:
                refuse(self.view, f"{shown} in it may be the table or a column")
            elif tuple(names[:2]) == source:
                if not bare and own is None:
                    refuse(self.view, f"it names {shown} under several aliases")
                words[self.solid[at]] = sql.name(own or source[1])
                self._blank(words, at + 1, 2)
            elif names[0] == source[1] and not bare and source[1] not in self._names(places):
                if own is None:
                    refuse(self.view, f"it names {shown} under several aliases")
                words[self.solid[at]] = sql.name(own)
        return _pieces(words)

    def _blank(self, words: list[str | None], at: int, count: int) -> None:
        for place in range(at, at + count):
            words[self.solid[place]] = ""

    def _alias(self, at: int) -> str | None:
        return ident(self.word(at + 1)) if self.word(at) == "AS" else None

    def _names(self, places: Sequence[int]) -> set[str]:
        """Names that may stand in front of a column: aliases, and tables at other places."""
        named = {self._alias(at) or "" for at in range(len(self.solid))}
        ends = [at for at in range(len(self.solid)) if self.word(at) == "AS"]
        named |= {ident(self.word(at - 1)) or "" for at in ends if self.word(at + 1) == "("}
        return named | {table for at, (_, table) in self.tables() if at not in places}


def _pieces(words: Sequence[str | None]) -> tuple[str, ...]:
    pieces = [""]
    for word in words:
        if word is None:
            pieces.append("")
        else:
            pieces[-1] += word
    return tuple(pieces)
