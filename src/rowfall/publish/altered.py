"""Alter a staging table like its table, which somebody has altered since staging was made.

The server attaches parts only where both tables have the same columns, indices, projections and
sorting key. What a load has committed must become visible all the same: otherwise it would stand
in everybody's way until somebody repairs it by hand.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, TargetError
from rowfall.core.model import StagingPair, Statement
from rowfall.core.sql import closing, identifier, items, tokens
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.engines.base import Engine
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, GONE, TABLES_DIFFER
from rowfall.targets.base import STAGING_PREFIX

# Columns of these kinds are in no part.
_VIRTUAL = ("ALIAS", "EPHEMERAL")
# What became of columns counts from the moment when staging was made. Replicas may have different
# clocks, and servers that replicate one table are seconds apart at most.
_CLOCK_SECONDS = 60
# Indices that go, columns that are renamed, all the rest, and one that another process was
# faster with.
_MOST_STATEMENTS = 6
# The values of an attempt, about 20 seconds of work, are written once more; longer is a server
# whose merges are stopped.
MOST_WAIT = 600.0
POLL_SECONDS = 0.1

Became = tuple[str, str]
"""Name of a column and its new one; "" where it was dropped."""


class AlteredTableError(TargetError):
    """A table was altered in a way that the rows in staging cannot follow."""


class UnclearError(Exception):
    """It cannot be known how the rows in staging have to change."""


@dataclass(frozen=True, slots=True)
class StoredDefinition:
    """Definition of one table, as far as parts depend on it.

    Attributes:
        columns: name and type of those that parts hold; ``written`` as CREATE TABLE has them.
        indices, projections: by name, as CREATE TABLE has them.
        changed: when it was changed last, by the server's clock; of a table with ``replicas``
            others may have changed it, by theirs.
        comment: of the table. ``views``: those that an INSERT fires.
    """

    columns: Mapping[str, str]
    written: Mapping[str, str]
    indices: Mapping[str, str]
    projections: Mapping[str, str]
    sorting_key: str
    changed: int = 0
    replicas: bool = False
    comment: str = ""
    views: tuple[tuple[str, str], ...] = ()


def alter_alike(engine: Engine, pair: StagingPair, lane: int = 0) -> bool:
    """Alter the staging table of a pair like its table.

    Where rows gather in a shadow, both are altered like the table that the shadow gathers for.

    Returns:
        False where they are alike already.

    Raises:
        AlteredTableError: that cannot be done.
    """
    found = _definitions(engine, pair.database, (pair.table, pair.staging), lane)
    table = found.get(pair.table)
    if table is None or pair.staging not in found:
        return False  # somebody has dropped one: who attaches finds that out
    model = staging.gathers_for(table.comment) or pair.table
    if model == pair.table:
        return _follow(engine, pair, lane)
    shadow = _follow(engine, StagingPair(pair.database, model, pair.table), lane)
    return _follow(engine, StagingPair(pair.database, model, pair.staging), lane) or shadow


def wait_for_mutations(engine: Engine, pair: StagingPair, lane: int = 0) -> None:
    """Wait until the parts of a staging table are what its definition says.

    A server that is killed while it alters staging goes on with that when it is back, and a part
    that is attached before holds the old columns.

    Raises:
        AlteredTableError: the server cannot do it, or it takes too long.
    """
    deadline = time.monotonic() + MOST_WAIT
    select = (
        "SELECT latest_fail_reason FROM system.mutations WHERE "
        f"{sql.table_is(pair.database, pair.staging)} AND NOT is_done"
    )
    while found := _mutations(engine, select, lane):
        reason = next((reason for (reason,) in found if reason), "")
        if reason or time.monotonic() > deadline:
            raise _cannot(pair, str(reason) or f"it takes longer than {MOST_WAIT:.0f} seconds")
        time.sleep(POLL_SECONDS)


def _mutations(engine: Engine, select: str, lane: int) -> list[list[Any]]:
    """Return the rows of a SELECT from system.mutations; [] where the user may not read it."""
    try:
        return engine.ask(select, lane=lane)
    except RowfallError as error:
        if error.code != ACCESS_DENIED:
            raise
        return []


def _follow(engine: Engine, pair: StagingPair, lane: int) -> bool:
    """Alter one table like another; return False where they are alike already."""
    altered, refused, since = False, "", 0
    for _ in range(_MOST_STATEMENTS):
        found = _definitions(engine, pair.database, (pair.table, pair.staging), lane)
        table, own = found.get(pair.table), found.get(pair.staging)
        if table is None or own is None:
            return altered
        # Our own statement makes it newer than what happened to the table before.
        since = since or own.changed
        try:
            commands = changes(table, own, _history(engine, pair, table, own, since, lane))
        except UnclearError as error:
            raise _cannot(pair, str(error)) from None
        if not commands:
            wait_for_mutations(engine, pair, lane)
            return altered
        name = sql.qualified(pair.database, pair.staging)
        statement = f"ALTER TABLE {name} {', '.join(commands)}"
        try:
            _check_values(engine, pair, table, own, lane)
            _run(engine, statement, lane, own.views)
        except RowfallError as error:
            if error.transient or error.code in GONE:
                raise
            if refused == statement:
                by_hand = statement if error.code == ACCESS_DENIED else ""
                raise _cannot(pair, error.message, by_hand) from None
            refused = statement  # another process may have done the same at this moment
            continue
        altered = True
    raise _cannot(pair, "it is altered again and again")


def _run(engine: Engine, statement: str, lane: int, views: Sequence[tuple[str, str]]) -> None:
    """Alter a table; its staging views, which hold its columns, are needed no more."""
    for view in views:
        if view[1].startswith(STAGING_PREFIX):
            engine.run(Statement(staging.drop(*view, view=True)), lane=lane)
    engine.run(Statement(SqlText.of(statement)), lane=lane)


def _check_values(
    engine: Engine, pair: StagingPair, table: StoredDefinition, own: StoredDefinition, lane: int
) -> None:
    """Make sure that the values of columns fit their new types.

    The server finds it out too late: when the table is altered and its parts are written anew.

    Raises:
        RowfallError: the server's, about the first one that does not.
    """
    casts = [
        f"max(toString(CAST({sql.name(name)}, {quote(type_)})))"
        for name, type_ in table.columns.items()
        if own.columns.get(name, type_) != type_
    ]
    if casts:
        name = sql.qualified(pair.database, pair.staging)
        engine.ask(f"SELECT {', '.join(casts)} FROM {name}", lane=lane)


def _cannot(pair: StagingPair, why: str, statement: str = "") -> AlteredTableError:
    """Return the error of rows that cannot be made visible because their table was altered."""
    own = sql.qualified(pair.database, pair.staging)
    remedy = (
        f"Let somebody who may do it run {statement}"
        if statement
        else f"Alter {pair.database}.{pair.table} back, or {own} by hand, so that both have the "
        "same columns, indices and sorting key"
    )
    for rest in (". Note: ", ": while executing "):  # it names our own statement
        why = why.partition(rest)[0]
    return AlteredTableError(
        f"{pair.database}.{pair.table} was altered after rows were staged for it, and the rows in "
        f"{pair.database}.{pair.staging} cannot follow: {why}",
        code=TABLES_DIFFER,
        hint=f"{remedy}. Then run the same command again.",
    )


# --- how a table has to change --------------------------------------------------------------------


def changes(table: StoredDefinition, own: StoredDefinition, history: Sequence[Became]) -> list[str]:
    """Return the commands of the next ALTER TABLE that makes a table like another one.

    Indices go first, and columns are renamed in a statement of its own: call it again after it.

    Args:
        table: like which ``own`` becomes.
        history: which columns of ``table`` were renamed and dropped since ``own`` was made.

    Raises:
        UnclearError: values could come into the wrong column, or be lost.
    """
    dropped = [
        f"DROP {kind} {sql.name(name)}"
        for kind, there, wanted in (
            ("INDEX", own.indices, table.indices),
            ("PROJECTION", own.projections, table.projections),
        )
        for name, written in there.items()
        if wanted.get(name) != written
    ]
    if dropped:
        return dropped
    became = what_became(table, own, history)
    renamed = {old: new for old, new in became.items() if new and new != old}
    if taken := sorted(set(renamed.values()) & set(own.columns)):
        raise UnclearError(f"columns have changed places, {', '.join(taken)} among them")
    if renamed:
        return [f"RENAME COLUMN {sql.name(old)} TO {sql.name(new)}" for old, new in renamed.items()]
    found = [f"DROP COLUMN {sql.name(name)}" for name, new in became.items() if not new]
    found += [f"ADD COLUMN {table.written[n]}" for n in table.columns if n not in own.columns]
    found += [
        f"MODIFY COLUMN {table.written[name]}"
        for name, type_ in table.columns.items()
        if own.columns.get(name, type_) != type_
    ]
    if table.sorting_key != own.sorting_key:
        # The server takes only what leaves the rows in their order: columns that are added here.
        found.append(f"MODIFY ORDER BY ({table.sorting_key})")
    found += [f"ADD {w}" for n, w in table.indices.items() if n not in own.indices]
    return found + [f"ADD {w}" for n, w in table.projections.items() if n not in own.projections]


def what_became(
    table: StoredDefinition, own: StoredDefinition, history: Sequence[Became]
) -> dict[str, str]:
    """Return the present name in ``table`` of each column of ``own``; "" for a dropped one.

    Raises:
        UnclearError: the history fits more than one course of events.
    """
    names = {name: name for name in own.columns}
    gone: set[str] = set()
    for old, new in history:
        first = next((first for first, name in names.items() if name == old), None)
        if first is None and old in gone:
            # Was it made again before staging was, or after?
            raise UnclearError(f"the column {old} was dropped, made again and renamed")
        # A name that is taken: both columns were there when it was renamed, so it was before.
        if first is None or (new and new in names.values()):
            continue
        names[first] = new
        if not new:
            gone.add(old)
    for first, name in names.items():
        if not name and first in table.columns and first not in names.values():
            names[first] = first  # dropped and made again: it gets the values
    unknown = [first for first, name in names.items() if name and name not in table.columns]
    added = set(table.columns) - set(names.values())
    if unknown and added:
        raise UnclearError(
            f"the column {', '.join(unknown)} is gone, and {', '.join(sorted(added))} has come: "
            "the server does not say whether it was renamed"
        )
    return {first: "" if first in unknown else name for first, name in names.items()}


# --- what the server says -------------------------------------------------------------------------


def _definitions(
    engine: Engine, database: str, names: Sequence[str], lane: int
) -> dict[str, StoredDefinition]:
    """Return the definitions of some tables of a database, as far as they are there."""
    base, wanted = quote(database), quoted_list(names)
    columns: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    for table, name, type_, kind in engine.ask(
        "SELECT table, name, type, default_kind FROM system.columns "
        f"WHERE database = {base} AND table IN ({wanted}) ORDER BY position",
        lane=lane,
    ):
        if kind not in _VIRTUAL:
            columns[table].append((str(name), str(type_)))
    rows = engine.ask(
        "SELECT name, create_table_query, sorting_key, toUnixTimestamp("
        "metadata_modification_time), engine, comment, dependencies_database, dependencies_table "
        f"FROM system.tables WHERE database = {base} AND name IN ({wanted})",
        lane=lane,
    )
    return {
        name: StoredDefinition(
            dict(columns[name]), *_written(create), str(key), int(changed),
            str(kind).startswith(("Replicated", "Shared")), str(comment),
            tuple(zip(view_bases, views, strict=True)),
        )
        for name, create, key, changed, kind, comment, view_bases, views in rows
    }  # fmt: skip


def _written(create: str) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return columns, indices and projections as CREATE TABLE has them, by name."""
    columns: dict[str, str] = {}
    indices: dict[str, str] = {}
    projections: dict[str, str] = {}
    words = tokens(create)
    if "(" not in words:
        return columns, indices, projections
    start = words.index("(")
    for item in items(words[start + 1 : closing(words, start)]):
        first, *rest = [word for word in tokens(item) if not word.isspace()]
        # The server quotes the names of columns, so these words begin nothing else.
        kind = {"INDEX": indices, "PROJECTION": projections}.get(first)
        if kind is None and first[:1] == "`":
            columns[identifier(first) or ""] = item
        elif kind is not None:
            kind[identifier(rest[0]) or ""] = item
    return columns, indices, projections


def _history(
    engine: Engine,
    pair: StagingPair,
    table: StoredDefinition,
    own: StoredDefinition,
    since: int,
    lane: int,
) -> list[Became]:
    """Return the renames and drops of columns of a table since its staging table was made.

    They come from system.mutations, where the server keeps the last hundred.
    """
    if table.columns == own.columns:
        return []
    since -= _CLOCK_SECONDS if table.replicas else 0
    rows = _mutations(
        engine,
        f"SELECT command FROM system.mutations WHERE {sql.table_is(pair.database, pair.table)} AND "
        f"toUnixTimestamp(create_time) >= {since} "
        "ORDER BY create_time, length(mutation_id), mutation_id",
        lane,
    )
    return [found for (command,) in rows if (found := _of_column(str(command)))]


def _of_column(command: str) -> Became | None:
    """Return the column that a mutation renames or drops; None for any other one."""
    words = [word for word in tokens(command) if not word.isspace() and word not in "()"]
    if words[1:4] == ["COLUMN", "IF", "EXISTS"]:
        del words[2:4]
    if words[:2] == ["DROP", "COLUMN"] and len(words) == 3:
        return identifier(words[2]) or "", ""
    if words[:2] == ["RENAME", "COLUMN"] and len(words) == 5:
        return identifier(words[2]) or "", identifier(words[4]) or ""
    return None
