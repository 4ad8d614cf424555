"""Put a table that was filled beside another one into its place, in one transaction.

The new one is made like the old one (``LIKE ... INCLUDING ALL``: types, defaults, NOT NULL, CHECK,
identity, keys and indexes). What that leaves out is carried over: names of indexes, foreign keys of
the table, owner, grants, the comment, storage parameters, and sequences that belong to a column.
What hangs on the old table and would go with it is refused before anything is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import TargetError
from rowfall.core.sqltext import identifier, literal, qualified
from rowfall.engines.file_database import GATHERS

if TYPE_CHECKING:
    from psycopg import Connection

Ask = Callable[..., list[tuple[Any, ...]]]
"""Takes a statement and its values, and returns all rows."""

# Bytes of a name in PostgreSQL.
_NAME_BYTES = 63
_INDEX = re.compile(r"\ACREATE (UNIQUE )?INDEX .*? ON .*? (USING .*)\Z", re.S)
# What is left in the way: who it is, and the words for it.
_HANGS = (
    ("the view", "SELECT DISTINCT v.oid::regclass::text FROM pg_depend d "
     "JOIN pg_rewrite r ON r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class "
     "WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass "
     "AND d.refobjid = %s::oid AND v.oid <> d.refobjid ORDER BY 1"),
    ("the foreign key of", "SELECT conrelid::regclass::text FROM pg_constraint "
     "WHERE contype = 'f' AND confrelid = %s::oid AND conrelid <> confrelid ORDER BY 1"),
    ("the trigger", "SELECT tgname::text FROM pg_trigger WHERE tgrelid = %s::oid "
     "AND NOT tgisinternal ORDER BY 1"),
    ("the policy", "SELECT polname::text FROM pg_policy WHERE polrelid = %s::oid ORDER BY 1"),
    ("the publication", "SELECT p.pubname::text FROM pg_publication_rel r JOIN pg_publication p "
     "ON p.oid = r.prpubid WHERE r.prrelid = %s::oid ORDER BY 1"),
    ("the partition or heir", "SELECT inhrelid::regclass::text FROM pg_inherits "
     "WHERE inhparent = %s::oid ORDER BY 1"),
    ("the parent", "SELECT inhparent::regclass::text FROM pg_inherits "
     "WHERE inhrelid = %s::oid ORDER BY 1"),
)  # fmt: skip


def name_beside(load: str, table: str) -> str:
    """Return the name of the table that gathers the rows of a load."""
    return f"{GATHERS}{load}_{table}".encode()[:_NAME_BYTES].decode(errors="ignore")


def check_replaceable(ask: Ask, oid: int, name: str) -> None:
    """Check that another table can be put into the place of one.

    Raises:
        TargetError: something hangs on it that would be lost, or it belongs to another user.
    """
    ((own, owner, user, kind),) = ask(
        "SELECT pg_has_role(relowner, 'USAGE'), pg_get_userbyid(relowner), current_user, relkind "
        "FROM pg_class WHERE oid = %s::oid", oid,
    )  # fmt: skip
    if not own:
        raise TargetError(
            f"--replace puts another table into the place of {name}, which belongs to {owner}, "
            f"and {user} may not drop it",
            hint=f"Load as {owner}, or let its owner run: ALTER TABLE {name} OWNER TO {user};",
        )
    if kind == "p":
        raise TargetError(
            f"--replace cannot replace {name}: it is partitioned",
            hint="TRUNCATE it, then load with --force.",
        )
    for words, query in _HANGS:
        if found := [str(one) for (one,) in ask(query, oid)]:
            raise TargetError(
                f"--replace puts another table into the place of {name}, and {words} "
                f"{', '.join(found[:5])} hangs on the one that is there",
                hint="Drop it and make it again after the load; or TRUNCATE the table, then load "
                "with --force.",
            )


def make_beside(connection: Connection[Any], schema: str, table: str, beside: str) -> None:
    """Make a table that takes and refuses the same rows as another one, where it is missing."""
    ((kept,),) = connection.execute(
        "SELECT relpersistence FROM pg_class WHERE oid = to_regclass(%s)",
        [qualified(schema, table)],
    ).fetchall()
    kind = "UNLOGGED " if kept == "u" else ""
    connection.execute(
        f"CREATE {kind}TABLE IF NOT EXISTS {qualified(schema, beside)} "
        f"(LIKE {qualified(schema, table)} INCLUDING ALL)".encode()
    )


def take_place(connection: Connection[Any], schema: str, table: str, beside: str) -> None:
    """Put a table into the place of another one, within the open transaction.

    Readers of the old one are waited for, and see it until the commit.
    """
    at, new = qualified(schema, table), qualified(schema, beside)

    def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
        return connection.execute(text.encode(), values or None).fetchall()

    connection.execute(f"LOCK TABLE {at} IN ACCESS EXCLUSIVE MODE".encode())
    ((old_oid, new_oid),) = ask("SELECT to_regclass(%s)::oid, to_regclass(%s)::oid", at, new)
    check_replaceable(ask, old_oid, f"{schema}.{table}")  # once more: it may have come since
    before = [*_sequences(ask, old_oid, new), *_identities(ask, old_oid, new_oid)]
    names = _index_names(ask, old_oid, new_oid)
    after = [
        *(f"ALTER INDEX {qualified(schema, made)} RENAME TO {identifier(old)}"
          for made, old in names),
        *_carried(ask, old_oid, at),
    ]  # fmt: skip
    for statement in (
        *before,
        f"DROP TABLE {at}",
        f"ALTER TABLE {new} RENAME TO {identifier(table)}",
        *after,
    ):
        connection.execute(statement.encode())


def _sequences(ask: Ask, oid: int, new: str) -> list[str]:
    """Return statements that give sequences of serial columns to the new table."""
    rows = ask(
        "SELECT d.objid::regclass::text, a.attname FROM pg_depend d JOIN pg_class s ON s.oid = "
        "d.objid AND s.relkind = 'S' JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = "
        "d.refobjsubid WHERE d.classid = 'pg_class'::regclass AND d.refobjid = %s::oid AND "
        "d.deptype = 'a'", oid,
    )  # fmt: skip
    return [f"ALTER SEQUENCE {s} OWNED BY {new}.{identifier(column)}" for s, column in rows]


def _identities(ask: Ask, old: int, new: int) -> list[str]:
    """Return statements that have identity columns go on where those of the old table are."""
    rows = ask(
        "SELECT pg_get_serial_sequence(%s::oid::regclass::text, attname), "
        "pg_get_serial_sequence(%s::oid::regclass::text, attname) FROM pg_attribute "
        "WHERE attrelid = %s::oid AND attidentity <> '' AND NOT attisdropped", old, new, old,
    )  # fmt: skip
    return [
        f"SELECT setval({literal(ours)}, greatest(o.last_value, n.last_value), "
        f"o.is_called OR n.is_called) FROM {theirs} o, {ours} n"
        for theirs, ours in rows if theirs and ours
    ]  # fmt: skip


def _index_names(ask: Ask, old: int, new: int) -> list[tuple[str, str]]:
    """Return the names that indexes of the new table have, and those of the same of the old one."""

    def listed(oid: int) -> list[tuple[str, str]]:
        rows = ask(
            "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON "
            "c.oid = i.indexrelid WHERE i.indrelid = %s::oid ORDER BY i.indexrelid", oid,
        )  # fmt: skip
        found = []
        for name, text in rows:
            parts = _INDEX.match(text)
            found.append((str(name), f"{parts[1] or ''}{parts[2]}" if parts else str(text)))
        return found

    theirs: dict[str, list[str]] = {}
    for name, text in listed(old):
        theirs.setdefault(text, []).append(name)
    return [(name, theirs[text].pop(0)) for name, text in listed(new) if theirs.get(text)]


def _carried(ask: Ask, oid: int, at: str) -> Sequence[str]:
    """Return statements that give a table what belongs to another one: keys, owner, grants."""
    ((owner, comment, options),) = ask(
        "SELECT pg_get_userbyid(relowner), obj_description(oid, 'pg_class'), "
        "array_to_string(reloptions, ', ') FROM pg_class WHERE oid = %s::oid", oid,
    )  # fmt: skip
    made = [
        f"ALTER TABLE {at} ADD CONSTRAINT {identifier(name)} {text}"
        for name, text in ask(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = "
            "%s::oid AND contype = 'f'", oid,
        )
    ]  # fmt: skip
    made.append(f"ALTER TABLE {at} OWNER TO {identifier(owner)}")
    grants = ask(
        "SELECT NULL, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid("
        "a.grantee)) END, a.privilege_type, a.is_grantable FROM pg_class c, aclexplode(c.relacl) a "
        "WHERE c.oid = %s::oid AND a.grantee <> c.relowner UNION ALL "
        "SELECT quote_ident(t.attname), CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident("
        "pg_get_userbyid(a.grantee)) END, a.privilege_type, a.is_grantable FROM pg_attribute t, "
        "aclexplode(t.attacl) a WHERE t.attrelid = %s::oid", oid, oid,
    )  # fmt: skip
    for column, grantee, right, again in grants:
        of = f" ({column})" if column else ""
        words = ["GRANT", f"{right}{of}", "ON", at, "TO", grantee]
        made.append(" ".join([*words, *(["WITH", "GRANT", "OPTION"] if again else [])]))
    if comment is not None:
        made.append(f"COMMENT ON TABLE {at} IS {literal(comment)}")
    if options:
        made.append(f"ALTER TABLE {at} SET ({options})")
    return made
