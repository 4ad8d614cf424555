"""Materialized views of a table, and the staging tables and views that stand in for them.

ATTACH PARTITION makes rows visible without firing views. So an attempt has a staging table for
every table that the views fill, and a staging view for every view that reads from a table of these
and fills another. The INSERT into staging fires these block by block, as an INSERT into the table
would fire the real ones; then the parts of all staging tables are attached.

A staging view is the view's own SELECT with the table's name replaced. The engine confirms it: its
query tree of both texts must be the same. What cannot be replaced for sure is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import NoReturn

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import Ask, StagingPair
from rowfall.core.patterns import regex
from rowfall.core.sql import identifier, tokens
from rowfall.core.sqltext import SqlText
from rowfall.systems.clickhouse.staging import HIDDEN, TableFacts, clone, lookup

Name = tuple[str, str]
"""Database and table."""

# Tables that these read are not among those that the INSERT fires, or hide behind a pattern.
_FUNCTIONS = frozenset(
    {"remote", "remoteSecure", "cluster", "clusterAllReplicas", "merge", "view", "loop"}
)
_NOT_FROM = regex(
    "SELECT|WHERE|PREWHERE|GROUP|HAVING|QUALIFY|WINDOW|ORDER|LIMIT|OFFSET|SETTINGS|UNION|EXCEPT|"
    "INTERSECT|ARRAY|ON|USING"
)
_HINT = (
    "Drop or detach the view while loading and fill its table afterwards, or load with --direct, "
    "where a crash may lose or repeat rows."
)
# Words before an asterisk that is not a multiplication; ``count(*)`` is no matter.
_TAKES_ALL = frozenset(("SELECT", "DISTINCT", ",", ".", "("))
# Left out of a query tree: constants may be of the moment (now(), today()), and aliases of tables
# mean nothing once all names are resolved.
_PASSING = regex(
    r"constant_value: .*(?=, constant_value_type)|(?<=\d), alias: .*(?=, table_name: )"
)


@dataclass(frozen=True, slots=True)
class View:
    """One view that an INSERT fires.

    Attributes:
        source: index of the staging table that it reads from; -1 is that of the loaded table.
        target: index of the staging table that it fills.
        pieces: its SELECT, cut where the name of what it reads from belongs.
    """

    name: Name
    source: int
    target: int
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Views:
    """Every view that an INSERT into ``database.table`` fires, and the tables that these fill.

    Equal to what a later :func:`discover` finds unless a view was changed meanwhile.
    """

    database: str
    table: str
    tables: tuple[TableFacts, ...] = ()
    views: tuple[View, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.views)

    @property
    def names(self) -> tuple[str, ...]:
        """Return ``database.view`` for the plan, those on the loaded table first."""
        return tuple(".".join(view.name) for view in self.views)

    @property
    def collapses(self) -> bool:
        """True when a table that the views fill unites rows of equal keys."""
        return any(table.collapses for table in self.tables)

    @property
    def settings(self) -> Mapping[str, int]:
        """Return the settings that the INSERT into staging needs; none where there are no views."""
        if not self.views:
            return {}
        return {
            # A view that fails must fail the attempt: its rows would be missing for ever.
            "materialized_views_ignore_errors": 0,
            # Staging holds the rows of one attempt only: an equal block is not a repetition.
            "deduplicate_blocks_in_dependent_materialized_views": 0,
            # Three views on 8 million rows: 2.5 s one after another, 1.7 s side by side (24.10).
            "parallel_view_processing": 1,
        }

    def names_in_selects(self) -> frozenset[str] | None:
        """Return all names in the SELECTs of the loaded table's own views: columns, and others.

        None where one takes columns without their names: ``*``, ``COLUMNS('...')``.
        """
        found: set[str] = set()
        for view in self.views:
            words = [w for w in tokens(" ".join(view.pieces)) if not w.isspace()]
            starred = (words[at - 1] for at, word in enumerate(words) if word == "*")
            if view.source < 0 and ("COLUMNS" in words or _TAKES_ALL.intersection(starred)):
                return None
            if view.source < 0:
                found.update(filter(None, map(identifier, words)))
        return frozenset(found)

    def create_tables(self, prefix: str, *, gathers: bool = False) -> tuple[SqlText, ...]:
        """Return the statements that make the staging tables of the views' tables, or shadows."""
        made = (
            clone(table, _staging_name(prefix, k), gathers=gathers)
            for k, table in enumerate(self.tables)
        )
        return tuple(statement for statements in made for statement in statements)

    def create(self, prefix: str, staging: str, *, fed: bool = False) -> tuple[SqlText, ...]:
        """Return the statements that make all staging tables and views, once ``staging`` is there.

        They take no settings: an engine that appends them would write them into the views.

        Args:
            staging: the staging table of the loaded table.
            fed: views of the loaded table read from another one, which is there as well; see
                :func:`fed_name`.
        """
        source = fed_name(staging) if fed else staging
        return (
            *self.create_tables(prefix),
            *(self._view(prefix, source, k) for k in range(len(self.views))),
        )

    def _view(self, prefix: str, loaded: str, number: int) -> SqlText:
        view = self.views[number]
        source = sql.qualified(self.database, loaded)
        if view.source >= 0:
            source = self._staging(prefix, view.source)
        target = self._staging(prefix, view.target)
        name = sql.qualified(self.database, f"{prefix}_v{number}")
        return SqlText.of(
            f"CREATE MATERIALIZED VIEW {name} TO {target} AS {source.join(view.pieces)}"
        )

    def _staging(self, prefix: str, number: int) -> str:
        return sql.qualified(self.tables[number].database, _staging_name(prefix, number))

    def staging_names(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the staging tables, in the order that :attr:`View.source` counts."""
        return tuple(_staging_name(prefix, k) for k in range(len(self.tables)))

    def pairs(self, prefix: str) -> tuple[StagingPair, ...]:
        """Return the tables that get parts, each with its staging table."""
        return tuple(
            StagingPair(table.database, table.table, _staging_name(prefix, k))
            for k, table in enumerate(self.tables)
            if table.publish_kind == "attach"
        )


def fed_name(staging: str) -> str:
    """Return the name of the table that keeps nothing and fires the views of ``staging``.

    Parts that are attached fire none. Their rows are inserted there, once they are in staging.
    """
    return f"{staging}_fed"


def _staging_name(prefix: str, number: int) -> str:
    return f"{prefix}_t{number}"


def discover(ask: Ask, database: str, table: str, root: TableFacts | None = None) -> Views:
    """Find the views that an INSERT into a table fires, also those on the tables that these fill.

    One query where there are none, and no query where the table is known.

    Args:
        root: the table, as it was found just now.

    Raises:
        TargetError: a view cannot be staged; the message names it.
    """
    loaded = (database, table)
    root = root or lookup(ask, [loaded]).get(loaded)
    if root is None or not root.views:
        return Views(database, table)
    numbers: dict[Name, int] = {loaded: -1}
    tables: list[TableFacts] = []
    views: list[View] = []
    reads: dict[Name, set[Name]] = {}
    level = [root]
    while level:
        found = _found(ask, level)
        targets = {view: facts.fills for view, facts in found.items()}
        known = lookup(ask, set(targets.values()) - set(numbers))
        fresh: list[TableFacts] = []
        for source in level:
            here = (source.database, source.table)
            for name in (view for view in source.views if view in found):
                if targets[name] not in numbers:
                    fresh.append(_stageable(name, targets[name], known))
                    numbers[targets[name]] = len(tables) + len(fresh) - 1
                if targets[name] == loaded:
                    _refuse(name, "it fills the table that is loaded")
                pieces, others = _rewritten(ask, found[name], here)
                views.append(View(name, numbers[here], numbers[targets[name]], pieces))
                reads[name] = others
        tables += fresh
        level = fresh
    _no_other_reads(ask, reads, {*numbers, *reads})
    return Views(database, table, tuple(tables), tuple(views))


def _found(ask: Ask, tables: Sequence[TableFacts]) -> dict[Name, TableFacts]:
    """Return the views of some tables that fire on INSERT.

    Raises:
        TargetError: this user may not see one, or it is of a kind that cannot be staged.
    """
    names = sorted({view for table in tables for view in table.views})
    found = lookup(ask, names)
    for name in names:
        if name not in found:
            raise TargetError(
                f"the view {'.'.join(name)} reads from the table that is loaded, but this user "
                "may not see it",
                hint=f"GRANT SHOW COLUMNS, SELECT ON {sql.qualified(*name)}",
            )
        if found[name].engine != "MaterializedView":
            _refuse(name, f"its engine is {found[name].engine}")
    return {name: facts for name, facts in found.items() if not facts.refreshes}


def _stageable(view: Name, target: Name, known: Mapping[Name, TableFacts]) -> TableFacts:
    table = known.get(target)
    if table is None:
        _refuse(view, f"it fills {'.'.join(target)}, which is missing or may not be seen")
    try:
        kind = table.publish_kind
    except TargetError:
        kind = "direct"
    if kind == "direct":
        _refuse(view, f"it fills {'.'.join(target)}, and {table.engine} tables cannot be staged")
    return table


def _rewritten(ask: Ask, view: TableFacts, source: Name) -> tuple[tuple[str, ...], set[Name]]:
    """Return the view's SELECT, cut at ``source``, and the other tables that it names."""
    name = (view.database, view.table)
    if HIDDEN in view.view.select:
        _refuse(name, "its text holds a secret that the server does not show")
    text = Select(view.view.select, name)
    pieces = text.cut(source)
    if len(pieces) > 2 and ask("SELECT getSetting('allow_experimental_analyzer')") == [[False]]:
        # There only the leftmost means the inserted block, the others the whole table.
        _refuse(name, f"it names {'.'.join(source)} twice, and the new analyzer is switched off")
    try:
        ask(f"DESCRIBE TABLE ({view.view.select})")  # the tree does not ask for rights
        before = _tree(ask, view.view.select)
        after = _tree(ask, sql.qualified(*source).join(pieces))
    except RowfallError as error:
        _refuse(name, error.message)
    if before != after:
        _refuse(name, f"its text is ambiguous where it names {'.'.join(source)} or its columns")
    return pieces, {table for _, table in text.tables()} - {source}


def _tree(ask: Ask, select: str) -> list[str]:
    """Return the query tree of a SELECT: every name resolved, aliases of tables numbered."""
    rows = ask(
        f"EXPLAIN QUERY TREE passes = 1 SELECT * FROM ({select}) "
        "SETTINGS allow_experimental_analyzer = 1"
    )
    return [_PASSING.sub("", str(line)) for (line,) in rows]


def _no_other_reads(ask: Ask, reads: Mapping[Name, set[Name]], filled: set[Name]) -> None:
    """Refuse views that look up what the same INSERT fills: staging would show them other rows.

    Plain views are looked through; dictionaries, Distributed and Merge tables are not.
    """
    for view, tables in reads.items():
        seen: set[Name] = set()
        queue = set(tables)
        while queue:
            if queue & filled:
                other = ".".join(min(queue & filled))
                _refuse(view, f"it also reads {other}, which the same rows change")
            seen |= queue
            behind: set[Name] = set()
            for name, facts in lookup(ask, queue).items():
                if facts.engine == "View":
                    behind |= {table for _, table in Select(facts.view.select, name).tables()}
                elif facts.engine == "MaterializedView":
                    behind.add(facts.fills)
            queue = behind - seen


# --- the text of a view ------------------------------------------------------------------------


def _refuse(view: Name, reason: str) -> NoReturn:
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
        """Return the token at a position in ``solid``, "" outside of the text."""
        return self.words[self.solid[at]] if 0 <= at < len(self.solid) else ""

    def dotted(self) -> Iterator[tuple[int, list[str]]]:
        """Yield every ``a.b`` and ``a.b.c`` with its position; the last name of ``a.*`` is ""."""
        at = 0
        while at < len(self.solid):
            names = []
            start = at
            while (name := identifier(self.word(at))) and self.word(at + 1) == ".":
                names.append(name)
                at += 2
            if names:
                yield start, [*names, name or ""]
            at += 1

    def tables(self) -> Iterator[tuple[int, Name]]:
        """Yield every position at which a table is named."""
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
        """Return the positions of commas between the tables of a FROM."""
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
                if identifier(self.word(at + 1)) in _FUNCTIONS and self.word(at + 2) == "(":
                    _refuse(self.view, f"it reads tables by way of {self.word(at + 1)}()")
            elif _NOT_FROM.fullmatch(word):
                inside[-1] = False
            elif word == "," and inside[-1]:
                commas.add(at)
        return commas

    def cut(self, source: Name) -> tuple[str, ...]:
        """Cut the text at every mention of ``source``; joined with another name it reads that.

        Columns may go on to be qualified with the old name: it becomes an alias.

        Raises:
            TargetError: there is no mention, or one that may be something else.
        """
        places = [at for at, table in self.tables() if table == source]
        shown = ".".join(source)
        if not places:
            _refuse(self.view, f"its text does not name {shown}; was that renamed?")
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
                _refuse(self.view, f"{shown} in it may be the table or a column")
            elif tuple(names[:2]) == source:
                if not bare and own is None:
                    _refuse(self.view, f"it names {shown} under several aliases")
                words[self.solid[at]] = sql.name(own or source[1])
                self._blank(words, at + 1, 2)
            elif names[0] == source[1] and not bare and source[1] not in self._names(places):
                if own is None:
                    _refuse(self.view, f"it names {shown} under several aliases")
                words[self.solid[at]] = sql.name(own)
        return _pieces(words)

    def _blank(self, words: list[str | None], at: int, count: int) -> None:
        for place in range(at, at + count):
            words[self.solid[place]] = ""

    def _alias(self, at: int) -> str | None:
        return identifier(self.word(at + 1)) if self.word(at) == "AS" else None

    def _names(self, places: Sequence[int]) -> set[str]:
        """Return names that may stand before a column: aliases, and tables at other positions."""
        named = {self._alias(at) or "" for at in range(len(self.solid))}
        ends = [at for at in range(len(self.solid)) if self.word(at) == "AS"]
        named |= {identifier(self.word(at - 1)) or "" for at in ends if self.word(at + 1) == "("}
        return named | {table for at, (_, table) in self.tables() if at not in places}


def _pieces(words: Sequence[str | None]) -> tuple[str, ...]:
    pieces = [""]
    for word in words:
        if word is None:
            pieces.append("")
        else:
            pieces[-1] += word
    return tuple(pieces)
