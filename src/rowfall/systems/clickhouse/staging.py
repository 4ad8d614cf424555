"""Facts about a table, and the statements that make and drop a staging table for it.

A staging table has the columns, codecs, indices, projections, constraints, keys, TTL and storage
policy of its table, because ATTACH PARTITION FROM demands them, and settings that keep its parts
as they were written. That of a replicated table is a plain one: it needs no Keeper, and its parts
can be attached to the replicated table all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.model import Ask
from rowfall.core.patterns import regex
from rowfall.core.sql import closing, find_last, identifier, items, tokens
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine, identity
from rowfall.targets.base import STAGING_PREFIX

REBUILT_PREFIX = f"{STAGING_PREFIX}upsert_"
"""Begins the names of tables that ``--upsert`` makes beside its target."""
HIDDEN = "[HIDDEN]"
"""The text that the server shows in place of a secret."""

# Parts in staging must stay as they were written until they are attached: a merge would mix rows
# that a crash has already published with rows that it has not, and collapse or expire rows before
# they are counted. SYSTEM STOP MERGES is forgotten at a restart, table settings are not.
_KEEP: Mapping[str, int] = {
    # Part uuids stay in the checksums: evidence after a crash, and a replicated table does not
    # take the second of two equal parts for a repetition.
    "assign_part_uuids": 1,
    # No merge may be larger than one byte. OPTIMIZE still works.
    "max_bytes_to_merge_at_max_space_in_pool": 1,
    "max_bytes_to_merge_at_min_space_in_pool": 1,
    # Merges of old parts and of expired rows know no such limit in every version.
    "min_age_to_force_merge_seconds": 0,
    "max_number_of_merges_with_ttl_in_pool": 0,
    # Of parts that are built the engine computes when their rows expire, and drops none of them.
    "materialize_ttl_recalculate_only": 1,
    # Equal blocks of one attempt are rows like any others.
    "non_replicated_deduplication_window": 0,
    # Rows of a queue would come in after the statement has ended.
    "async_insert": 0,
    # A power cut breaks the parts of an attempt that was not committed; with more than 100 of them
    # a table is not opened, and the embedded engine opens nothing then.
    "max_suspicious_broken_parts": 1_000_000_000,
    "max_suspicious_broken_parts_bytes": 1 << 60,
    # Without merges these limits only stand in the way; the table's own hold for what is attached.
    "parts_to_delay_insert": 1_000_000,
    "parts_to_throw_insert": 1_000_000,
}

# What a table may have been made with, and CREATE TABLE ... AS asks for once more.
_ALLOWANCE = regex(
    r"allow_suspicious_\w+|allow_experimental_\w+_(type|types|index|codecs)|"
    r"allow_(experimental_)?statistics|enable_\w+_(type|codec)"
)
_NO_UUID = "00000000-0000-0000-0000-000000000000"
_FAMILY = regex(
    r"(Replicated)?((?:Replacing|Summing|Aggregating|Collapsing|VersionedCollapsing|Graphite|"
    r"Coalescing)?MergeTree)\Z"
)
_PROJECTION = regex(r"PROJECTION\s+(?:`(?:[^`\\]|\\.|``)*`|\w+)\s*\(\s*(?:SELECT|WITH)\b")
# Comment of a shadow, before the name of the table that it gathers rows for.
_GATHERS = "rowfall gathers rows for "
_DIRECT = frozenset({"Memory", "Log", "TinyLog", "StripeLog"})
_HINTS: Mapping[str, str] = {
    "Distributed": "Name its cluster: --to 'clickhouse://host:8123/database?cluster=NAME'. Each "
    "shard then loads its own share.",
    "MaterializedView": "Load into the table that the view reads from, or into the one it fills.",
    "View": "Load into a table that the view reads from.",
    "Buffer": "Load into the table behind the buffer.",
    "Merge": "Load into one of the tables that it unites.",
    "Dictionary": "Load into the table that the dictionary reads from.",
}
_HINT = "Give a table of the MergeTree family, or a Null, Memory or Log table."


@dataclass(frozen=True, slots=True)
class TableId:
    """Identity of a table among others that have had its name.

    Attributes:
        uuid: zeros in databases that give none.
        folder: of its parts; "" where it has none.
    """

    uuid: str
    folder: str = ""


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """Definition of a materialized view.

    Attributes:
        select: "" for tables.
        inner: name of the table of a view that has one of its own, where no uuid tells it.
    """

    select: str = ""
    inner: str = ""


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table as the server describes it.

    Attributes:
        id: tells it from another table of its name.
        engine_full: the engine with its arguments, keys, TTL and settings, as the server puts it.
        partitioned: the table has a partition key.
        views: database and name of every view that an INSERT into this table fires.
        view: what it is as a view; nothing of that for tables.
    """

    database: str
    table: str
    id: TableId
    engine: str
    engine_full: str
    storage_policy: str
    partitioned: bool
    create_query: str
    views: tuple[tuple[str, str], ...] = ()
    view: ViewDefinition = ViewDefinition()

    @property
    def qualified(self) -> str:
        return sql.qualified(self.database, self.table)

    @property
    def replicated(self) -> bool:
        return self.engine.startswith("Replicated")

    @property
    def collapses(self) -> bool:
        """True when it unites rows of equal keys: ``optimize_on_insert = 0`` keeps counts."""
        match = _FAMILY.match(self.engine)
        return match is not None and match[2] != "MergeTree"

    @property
    def projections(self) -> int:
        """Return the number of projections."""
        words = tokens(self.create_query)
        if "(" not in words:
            return 0
        start = words.index("(")
        listed = items(words[start + 1 : closing(words, start)])
        # A column of that name is followed by its type.
        return sum(bool(_PROJECTION.match(item)) for item in listed)

    @property
    def publish_kind(self) -> str:
        """Return ``attach`` (by staging tables), ``null`` (nothing stays) or ``direct`` (unstaged).

        Raises:
            TargetError: rows cannot be loaded into such a table.
        """
        if _FAMILY.match(self.engine):
            return "attach"
        if self.engine in _DIRECT:
            return "direct"
        if self.engine == "Null":
            return "null"
        raise TargetError(
            f"cannot load into {self.database}.{self.table}: its engine is {self.engine}",
            hint=_HINTS.get(self.engine, _HINT),
        )

    @property
    def refreshes(self) -> bool:
        """True for a refreshable view, which runs by the clock: no INSERT fires it."""
        return self._head()[:1] == ["REFRESH"]

    @property
    def fills(self) -> tuple[str, str]:
        """Return the table that a materialized view fills: named after TO, or its own inner one."""
        head, uuid = self._head(), self.id.uuid
        if head[:1] == ["TO"] and head[1] != "INNER":
            if head[2:3] == ["."]:
                return identifier(head[1]) or "", identifier(head[3]) or ""
            return self.database, identifier(head[1]) or ""
        if head[:1] == ["TO"]:  # TO INNER UUID '...': a profile may ask for this form
            uuid = head[3].strip("'")
        if self.view.inner:
            return self.database, self.view.inner
        return self.database, f".inner.{self.table}" if uuid == _NO_UUID else f".inner_id.{uuid}"

    @property
    def hides_inner(self) -> bool:
        """True for a view with a table of its own in the embedded engine's default database.

        That shows no uuids, by which such a table is called.
        """
        unnamed = self.engine == "MaterializedView" and self.id.uuid == _NO_UUID
        return unnamed and self._head()[:1] not in (["TO"], ["REFRESH"])

    def _head(self) -> list[str]:
        """Return the tokens after a view's name in its CREATE statement."""
        words = [w for w in tokens(self.create_query) if not w.isspace()]
        words = words[words.index("VIEW") + 1 :]
        words = words[3:] if words[1:2] == ["."] else words[1:]
        return words[2:] if words[:1] == ["UUID"] else words


def facts(ask: Ask, database: str, table: str) -> TableFacts | None:
    """Return the facts about one table, None where there is none that the user may see.

    Raises:
        TargetError: rows cannot be loaded into such a table.
    """
    found = lookup(ask, [(database, table)]).get((database, table))
    if found is not None:
        _ = found.publish_kind
    return found


def lookup(ask: Ask, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], TableFacts]:
    """Return the facts about tables and views of any engine, by database and name, in one query."""
    wanted = set(names)
    if not wanted:
        return {}
    rows = ask(sql.about_tables(*zip(*wanted, strict=True)))
    found = {}
    for row in rows:
        name = (str(row[0]), str(row[1]))
        if name in wanted:
            found[name] = _facts(row)
            if found[name].hides_inner:
                found[name] = replace(
                    found[name], view=replace(found[name].view, inner=_inner(ask, *name))
                )
    return found


def _facts(row: Sequence[Any]) -> TableFacts:
    """Return one row of the answer to :func:`rowfall.core.sql.about_tables` as a value."""
    return TableFacts(
        str(row[0]), str(row[1]), TableId(row[2], str(row[11])), engine=row[3],
        engine_full=row[4], storage_policy=row[5], partitioned=bool(row[6]), create_query=row[7],
        views=tuple(sorted(zip(row[8], row[9], strict=True))), view=ViewDefinition(row[10]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class CatalogueTables:
    """The tables of a load as one engine describes them at one moment, by one question.

    Attributes:
        tables: by name: those that were asked for and are there; of servers also all that
            rowfall has made beside them.
    """

    database: str
    tables: Mapping[str, TableFacts]

    def __contains__(self, name: str) -> bool:
        return name in self.tables

    def uuid(self, name: str) -> str:
        """Return the uuid of a table, also in databases that show none; "" without a table."""
        found = self.tables.get(name)
        return identity(found.id.uuid, found.id.folder) if found is not None else ""


def ask_catalogue(engine: Engine, database: str, *names: str) -> CatalogueTables:
    """Ask an engine about named tables; a server also about all that rowfall has made there."""
    if not engine.shared:  # what its ledger does not know of, nobody has made; and it remembers
        found = lookup(engine.ask, [(database, name) for name in names])
        return CatalogueTables(database, {name: facts for (_, name), facts in found.items()})
    rows = engine.ask(sql.about_tables_beside(database, names, STAGING_PREFIX))
    return CatalogueTables(database, {str(row[1]): _facts(row) for row in rows})


def _inner(ask: Ask, database: str, view: str) -> str:
    """Return the name of a view's own table by the folder that both name; "" where none does."""
    here = f"database = {quote(database)}"
    rows = ask(
        f"SELECT name FROM system.tables WHERE {here} AND startsWith(name, '.inner_id.') AND "
        f"data_paths = (SELECT data_paths FROM system.tables WHERE {here} AND name = {quote(view)})"
    )
    return str(rows[0][0]) if rows else ""


def clone(table: TableFacts, staging: str, *, gathers: bool = False) -> tuple[SqlText, ...]:
    """Return the statements that make the empty table ``staging`` in the table's database.

    Args:
        gathers: it is a shadow; see :func:`gathers_for`.

    Raises:
        TargetError: the table cannot be staged.
    """
    at = sql.qualified(table.database, staging)
    if table.publish_kind == "direct":
        raise TargetError(
            f"{table.database}.{table.table} cannot be staged: {table.engine} tables have no parts"
        )
    create = f"CREATE TABLE {at} AS {table.qualified}"
    comment = f" COMMENT {quote(_GATHERS + table.qualified)}" if gathers else ""
    if table.publish_kind == "null":
        return (SqlText.of(create),)
    if HIDDEN in table.engine_full:  # the keys of a disk: only the server can copy them
        if table.replicated:
            raise TargetError(
                f"{table.database}.{table.table} cannot be staged: its definition holds a secret "
                "that the server does not show",
                hint="Name the disk in the server's configuration, not in the table's settings.",
            )
        kept = ", ".join(f"{name} = {value}" for name, value in _KEEP.items())
        return SqlText.of(create + comment), SqlText.of(f"ALTER TABLE {at} MODIFY SETTING {kept}")
    return (SqlText.of(f"{create} ENGINE = {plain_engine(table)}{comment}"),)


def gathers_for(comment: str) -> str:
    """Return the name of the table that a shadow with this comment gathers for; "" for others.

    It is in the shadow's database. A shadow that is to replace its table is like no other one.
    """
    if not comment.startswith(_GATHERS):
        return ""
    words = tokens(comment.removeprefix(_GATHERS))
    return identifier(words[2]) or "" if len(words) == 3 else ""


def allowances(known: Iterable[str]) -> dict[str, int]:
    """Return settings for the statements of :func:`clone`, among those that the engine knows.

    A table with ``LowCardinality(UInt8)`` and the like cannot be made without.
    """
    return {name: 1 for name in sorted(known) if _ALLOWANCE.fullmatch(name)}


def plain_engine(table: TableFacts) -> str:
    """Return the ENGINE clause of a staging table: not replicated, and it keeps parts as they are.

    Raises:
        TargetError: the table was made in the syntax of 2017.
    """
    words = tokens(table.engine_full)
    engine = words[0].removeprefix("Replicated")
    end = closing(words, 1) + 1 if words[1:2] == ["("] else 1
    arguments = items(words[2 : end - 1]) if end > 1 else []
    # Path in Keeper and name of the replica: two literals in front of the engine's own arguments.
    if table.replicated and [item[:1] for item in arguments[:2]] == ["'", "'"]:
        del arguments[:2]
    rest = words[end:]
    at = find_last(rest, "SETTINGS")
    if find_last(rest[:at], "ORDER") == len(rest[:at]):
        raise TargetError(
            f"{table.database}.{table.table} cannot be staged: it was made in the old syntax, "
            "without ORDER BY",
            hint="Make it again as ENGINE = MergeTree PARTITION BY ... ORDER BY ...",
        )
    settings = dict(_setting(item) for item in items(rest[at + 1 :]))
    settings |= {name: str(value) for name, value in _KEEP.items()}
    written = ", ".join(f"{name} = {value}" for name, value in settings.items())
    given = f"({', '.join(arguments)})" if arguments else ""
    return f"{engine}{given}{''.join(rest[:at]).rstrip()} SETTINGS {written}"


LARGE = 1 << 33
"""Bytes of a table from which on a server may refuse to drop it (by default from 50 GB on)."""


def discard(ask: Ask, prefix: str, databases: Sequence[str] = ()) -> tuple[SqlText, ...]:
    """Return the statements that drop ``prefix`` and all ``prefix_...``, views first.

    Args:
        databases: those to look into. All by default: staging tables of views' tables are in the
            databases of those tables.
    """
    where = f"(name = {quote(prefix)} OR startsWith(name, {quote(prefix + '_')}))"
    if databases:
        where += f" AND database IN ({', '.join(map(quote, databases))})"
    rows = ask(
        "SELECT database, name, engine LIKE '%View' AS view, ifNull(total_bytes, 0) "
        f"FROM system.tables WHERE {where} ORDER BY view DESC, database, name"
    )
    return tuple(drop(*row[:2], view=bool(row[2]), size=row[3]) for row in rows)


def drop(
    database: str, name: str, *, view: bool = False, size: int = 0, if_empty: bool = False,
    there: bool = False,
) -> SqlText:  # fmt: skip
    """Return the statement that drops a table or view and waits until its space is free.

    Args:
        if_empty: for tables whose name is used again: the statement may arrive late, when the next
            table of that name has been loaded.
        there: that there is none is an error: somebody else has renamed it.
    """
    kind = "VIEW" if view else "TABLE"
    exists = "IF EXISTS IF EMPTY " if if_empty else "" if there else "IF EXISTS "
    # Parts that the target has as well count fully against the guard of tables above 50 GB.
    # Profiles may forbid the setting, so it is sent only where it could matter.
    huge = " SETTINGS max_table_size_to_drop = 0" if size >= LARGE else ""
    return SqlText.of(f"DROP {kind} {exists}{sql.qualified(database, name)} SYNC{huge}")


def _setting(item: str) -> tuple[str, str]:
    name, _, value = item.partition("=")
    return name.strip(), value.strip()
