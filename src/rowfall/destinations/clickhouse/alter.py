"""Change the columns of a table that is there, before rows that need it are loaded.

Each statement may be repeated: a column that is there is not added, one that is as wide stays. So
a load that was killed in between goes on, and two loads may add the same column. Staged rows of
other loads follow by themselves, see :mod:`rowfall.publish.altered`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowfall.contracts.destination import Session
from rowfall.core import sql
from rowfall.core.errors import RowfallError, TargetError, headline
from rowfall.core.model import ColumnChange, Statement
from rowfall.core.options import ADD
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.schema.bad_rows.data_errors import type_options
from rowfall.schema.types.wider_types import lossless
from rowfall.systems.clickhouse.codes import ACCESS_DENIED

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

# How often another load that alters the table at the same moment is let by.
_MOST_TRIES = 3


def alter_table(session: Session, changes: Sequence[ColumnChange]) -> None:
    """Alter the table of one engine."""
    engine, at = session.engine, (session.first_target.database, session.first_target.table)
    for tries in range(_MOST_TRIES):
        found = engine.existing_table(*at)
        there = {name: type_ for name, type_, _ in found.columns} if found is not None else {}
        commands = alter_commands(changes, there, session.table_text)
        if not commands:
            return
        try:
            text = f"ALTER TABLE {sql.qualified(*at)} {', '.join(commands)}"
            engine.run(Statement(SqlText.of(text)))
        except RowfallError as error:
            if tries + 1 < _MOST_TRIES and not error.transient and _is_done(engine, at, changes):
                return
            raise _refused(error, changes, session.table_text) from None


def _is_done(engine: Engine, at: tuple[str, str], changes: Sequence[ColumnChange]) -> bool:
    """Tell whether another load has made the same changes at this moment."""
    found = engine.existing_table(*at)
    there = {name: type_ for name, type_, _ in found.columns} if found is not None else {}
    return all(there.get(change.name) == change.type for change in changes)


def alter_commands(
    changes: Sequence[ColumnChange], there: Mapping[str, str], table: str
) -> list[str]:
    """Return the commands of the ALTER TABLE that is left to do.

    Args:
        there: names and types of the columns as they are now.

    Raises:
        TargetError: a column has become something else since the changes were planned.
    """
    commands = []
    for change in changes:
        now = there.get(change.name)
        if now == change.type:
            continue
        if now is None and not change.before:
            commands.append(f"ADD COLUMN IF NOT EXISTS {_added(change)}")
        elif now is not None and (now == change.before or lossless(now, change.type)):
            commands.append(f"MODIFY COLUMN {sql.name(change.name)} {change.type}")
        else:
            became = "dropped it" if now is None else f"made it {now}"
            raise TargetError(
                f"the column {change.name} of {table} was to become {change.type}, and somebody "
                f"else has {became} meanwhile",
                hint="Run the same command again.",
                transient=True,
            )
    return commands


def _added(change: ColumnChange) -> str:
    """Return a new column, which later files may lack: then it takes its default."""
    text = f"{sql.name(change.name)} {change.type}"
    nullable = change.type.startswith(("Nullable(", "LowCardinality(Nullable("))
    value = "NULL" if nullable else f"defaultValueOfTypeName({quote(change.type)})"
    return f"{text} DEFAULT {value}"


def _refused(error: RowfallError, changes: Sequence[ColumnChange], table: str) -> RowfallError:
    if error.transient or error.code == ACCESS_DENIED:
        return error
    cause = headline(error.message).removeprefix(f"Code: {error.code}. DB::Exception: ")
    return TargetError(
        f"the engine does not alter {table}: {cause}",
        hint="Load into a new table with --table NAME "
        f"{type_options([(c.name, c.type) for c in changes])}.",
        code=error.code,
    )


# --- clusters -------------------------------------------------------------------------------------


def alter_cluster(session: Session, shards: OpenCluster, changes: Sequence[ColumnChange]) -> None:
    """Alter the local tables of all nodes, then the Distributed one, as far as that is left to do.

    What an earlier load has altered on some nodes only is made alike first.
    """
    if not (changes or session.options.widen or session.options.on_new_column == ADD):
        return
    from rowfall.cluster.ddl import Ddl  # 13 ms that loads without a cluster save
    from rowfall.cluster.tables import FILLED

    tables = shards.find_tables()
    if tables.own.like is None:
        return
    wanted = {n: ColumnChange(n, t) for n, t, kind in tables.own.like.columns if kind in FILLED}
    wanted |= {change.name: change for change in changes}
    for at, nodes in shards.columns(tables).items():
        name = ".".join(at)
        text = ", ".join(dict.fromkeys(
            command
            for there in nodes.values()
            for command in alter_commands(tuple(wanted.values()), there, name)
        ))  # fmt: skip
        if not text:
            continue
        both = [
            f"ALTER TABLE {sql.qualified(*at)}{on} {text}"
            for on in (f" ON CLUSTER {sql.name(shards.cluster.name)}", "")
        ]
        try:
            shards.create(Ddl(f"change of {name}", *both), session.emit)
        except RowfallError as error:
            raise _refused(error, changes, name) from None
