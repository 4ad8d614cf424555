"""Materialized views of a table, and their staging twins.

ATTACH PARTITION makes rows visible without firing views. So an attempt has a twin of every table
that the views fill, and a twin of every view that reads from a twin and fills one. The INSERT into
staging fires these block by block, as an INSERT into the table would fire the real ones; then the
parts of all twins are attached.

The twin of a view is the view's own SELECT with the table's name replaced. The engine confirms it:
its query tree of both texts must be the same. What cannot be replaced for sure is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowfall.core import sql
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import Ask, Pair
from rowfall.core.sqltext import SqlText
from rowfall.targets.staging import HIDDEN, TableFacts, clone, lookup
from rowfall.targets.view_text import Name, Select, refuse

# Of a query tree: constants may be of the moment (now(), today()), and aliases of tables mean
# nothing once all names are resolved.
_PASSING = re.compile(
    r"constant_value: .*(?=, constant_value_type)|(?<=\d), alias: .*(?=, table_name: )"
)


@dataclass(frozen=True, slots=True)
class View:
    """One view that an INSERT fires.

    Attributes:
        source: index of the twin it reads from; -1 is the loaded table.
        target: index of the twin it fills.
        pieces: its SELECT, cut where the name of what it reads from belongs.
    """

    name: Name
    source: int
    target: int
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Views:
    """Every view that an INSERT into ``database.table`` fires, and the tables that these fill.

    Equal to what a later :func:`discover` finds unless somebody has changed a view meanwhile.
    """

    database: str
    table: str
    tables: tuple[TableFacts, ...] = ()
    views: tuple[View, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.views)

    @property
    def names(self) -> tuple[str, ...]:
        """``database.view`` for the plan, those on the loaded table first."""
        return tuple(".".join(view.name) for view in self.views)

    @property
    def collapses(self) -> bool:
        """Whether a table that the views fill unites rows of equal keys."""
        return any(table.collapses for table in self.tables)

    @property
    def settings(self) -> Mapping[str, int]:
        """What the INSERT into staging needs; nothing where there are no views."""
        if not self.views:
            return {}
        return {
            # A view that fails must fail the attempt: its rows would be missing for ever.
            "materialized_views_ignore_errors": 0,
            # Staging holds the rows of one attempt only: an equal block is no repetition.
            "deduplicate_blocks_in_dependent_materialized_views": 0,
            # Three views on 8 million rows: 2.5 s one after another, 1.7 s side by side (24.10).
            "parallel_view_processing": 1,
        }

    def twins(self, prefix: str) -> tuple[SqlText, ...]:
        """Statements that make the twins of the views' tables, without any view."""
        made = (clone(table, _twin(prefix, k)) for k, table in enumerate(self.tables))
        return tuple(statement for statements in made for statement in statements)

    def statements(self, prefix: str, staging: str) -> tuple[SqlText, ...]:
        """Statements that make all twins, once ``staging`` is there.

        They take no settings: an engine that appends them would write them into the views.

        Args:
            staging: the twin of the loaded table.
        """
        return (
            *self.twins(prefix),
            *(self._view(prefix, staging, k) for k in range(len(self.views))),
        )

    def _view(self, prefix: str, staging: str, number: int) -> SqlText:
        view = self.views[number]
        source = sql.qualified(self.database, staging)
        if view.source >= 0:
            source = sql.qualified(self.tables[view.source].database, _twin(prefix, view.source))
        target = sql.qualified(self.tables[view.target].database, _twin(prefix, view.target))
        name = sql.qualified(self.database, f"{prefix}_v{number}")
        return SqlText.of(
            f"CREATE MATERIALIZED VIEW {name} TO {target} AS {source.join(view.pieces)}"
        )

    def twin_names(self, prefix: str) -> tuple[str, ...]:
        """The twins' names, in the order that :attr:`View.source` counts."""
        return tuple(_twin(prefix, k) for k in range(len(self.tables)))

    def pairs(self, prefix: str) -> tuple[Pair, ...]:
        """The tables that get parts, each with its twin."""
        return tuple(
            Pair(table.database, table.table, _twin(prefix, k))
            for k, table in enumerate(self.tables)
            if table.publish_kind == "attach"
        )


def _twin(prefix: str, number: int) -> str:
    return f"{prefix}_t{number}"


def discover(ask: Ask, database: str, table: str) -> Views:
    """The views that an INSERT into a table fires, those on the tables they fill included.

    One query where there are none.

    Raises:
        TargetError: a view cannot be staged; the message names it.
    """
    home = (database, table)
    root = lookup(ask, [home]).get(home)
    places: dict[Name, int] = {home: -1}
    tables: list[TableFacts] = []
    views: list[View] = []
    reads: dict[Name, set[Name]] = {}
    level = [root] if root else []
    while level:
        found = _found(ask, level)
        targets = {view: facts.fills for view, facts in found.items()}
        known = lookup(ask, set(targets.values()) - set(places))
        fresh: list[TableFacts] = []
        for source in level:
            here = (source.database, source.table)
            for name in (view for view in source.views if view in found):
                if targets[name] not in places:
                    fresh.append(_stageable(name, targets[name], known))
                    places[targets[name]] = len(tables) + len(fresh) - 1
                if targets[name] == home:
                    refuse(name, "it fills the table that is loaded")
                pieces, others = _rewritten(ask, found[name], here)
                views.append(View(name, places[here], places[targets[name]], pieces))
                reads[name] = others
        tables += fresh
        level = fresh
    _no_other_reads(ask, reads, {*places, *reads})
    return Views(database, table, tuple(tables), tuple(views))


def _found(ask: Ask, tables: Sequence[TableFacts]) -> dict[Name, TableFacts]:
    """The views of some tables that fire on INSERT."""
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
            refuse(name, f"its engine is {found[name].engine}")
    return {name: facts for name, facts in found.items() if not facts.refreshes}


def _stageable(view: Name, target: Name, known: Mapping[Name, TableFacts]) -> TableFacts:
    table = known.get(target)
    if table is None:
        refuse(view, f"it fills {'.'.join(target)}, which is missing or may not be seen")
    try:
        kind = table.publish_kind
    except TargetError:
        kind = "direct"
    if kind == "direct":
        refuse(view, f"it fills {'.'.join(target)}, and {table.engine} tables cannot be staged")
    return table


def _rewritten(ask: Ask, view: TableFacts, source: Name) -> tuple[tuple[str, ...], set[Name]]:
    """The view's SELECT, cut at ``source``; the other tables that it names."""
    name = (view.database, view.table)
    if HIDDEN in view.select:
        refuse(name, "its text holds a secret that the server does not show")
    text = Select(view.select, name)
    pieces = text.cut(source)
    if len(pieces) > 2 and ask("SELECT getSetting('allow_experimental_analyzer')") == [[False]]:
        # There only the leftmost means the inserted block, the others the whole table.
        refuse(name, f"it names {'.'.join(source)} twice, and the new analyzer is switched off")
    try:
        ask(f"DESCRIBE TABLE ({view.select})")  # the tree does not ask for rights
        before = _tree(ask, view.select)
        after = _tree(ask, sql.qualified(*source).join(pieces))
    except RowfallError as error:
        refuse(name, error.message)
    if before != after:
        refuse(name, f"its text is ambiguous where it names {'.'.join(source)} or its columns")
    return pieces, {table for _, table in text.tables()} - {source}


def _tree(ask: Ask, select: str) -> list[str]:
    """How the engine understands a SELECT: every name resolved, aliases of tables numbered."""
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
                refuse(view, f"it also reads {other}, which the same rows change")
            seen |= queue
            behind: set[Name] = set()
            for name, facts in lookup(ask, queue).items():
                if facts.engine == "View":
                    behind |= {table for _, table in Select(facts.select, name).tables()}
                elif facts.engine == "MaterializedView":
                    behind.add(facts.fills)
            queue = behind - seen
