"""Tells a table from another one that was made by its name: by rows that it had.

MySQL has no id of a table that everybody may see (that of InnoDB takes the right PROCESS, and
changes with an ALTER that copies), and the time of its CREATE changes with each ALTER. Both tables
may have the same keys. So a load remembers a few rows, and a later one asks for them where the
time is another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.sources.key_ranges import Key, KeyKind
from rowfall.systems.mysql.catalogue import MySQLColumn, is_table
from rowfall.systems.mysql.client import name, quote

# Rows at each end of the key, and columns of each: enough that a table which is the same has one
# row as it was, and some 2 kB in the ledger.
ROWS, COLUMNS = 10, 8
_BYTES = 64  # of a value; more would be read from other pages
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table whose rows are known by a key.

    Attributes:
        columns: of the catalogue. ``binary``: the key is a UUID of 16 bytes.
    """

    database: str
    table: str
    index: str
    key: Key
    columns: Sequence[MySQLColumn]
    binary: bool

    @property
    def sql(self) -> str:
        return f"{name(self.database)}.{name(self.table)}"

    def shown(self) -> str:
        """Return SQL for the key as text that :meth:`literal` takes."""
        return f"HEX({self.key.sql})" if self.binary else f"CAST({self.key.sql} AS CHAR)"

    def literal(self, text: str) -> str:
        """Return a value of the key as SQL."""
        if self.binary:
            return f"UNHEX({quote(text)})"
        return str(int(text)) if self.key.kind is KeyKind.INTEGER else quote(text)


Ask = Callable[[str], Sequence[Sequence[Any]]]
"""Asks the server a question."""


def remember(table: KeyedTable, ask: Ask) -> str:
    """Return when a table was made and what some rows of it are, as JSON; "" where it has none."""
    columns = [c for c in table.columns if c.name != table.key.name][:COLUMNS]
    made = _made(table, ask)
    if not columns or not made:
        return ""
    listed = ", ".join([table.shown(), *(_digest(column.name) for column in columns)])
    # A column that --cursor names may have none.
    index = f" FORCE INDEX ({name(table.index)})" if table.index else ""
    rows: dict[str, list[str]] = {}
    for order in ("ASC", "DESC"):
        found = ask(
            f"SELECT {listed} FROM {table.sql}{index} "
            f"WHERE {table.key.sql} IS NOT NULL ORDER BY {table.key.sql} {order} LIMIT {ROWS}"
        )
        rows |= {_text(key): [*map(_text, digests)] for key, *digests in found}
    types = {column.name: column.whole for column in columns}
    return json.dumps({"made": made, "types": types, "rows": rows}) if rows else ""


def is_another(table: KeyedTable, known: str, ask: Ask) -> str:
    """Return when a table was made that is not the one that was remembered; "" where it may be.

    It is another one where the server has another time for it, some row has a key of then, and no
    row is what it was. Columns that an ALTER has changed are not compared.

    Args:
        known: what :func:`remember` has returned.
    """
    then: Mapping[str, Any] = json.loads(known)
    made = _made(table, ask)
    if made in ("", then["made"]):
        return ""
    now = {column.name: column.whole for column in table.columns}
    names = [*then["types"]]
    same = [n for n in names if now.get(n) == then["types"][n]]
    if not same:
        return ""
    listed = ", ".join([table.shown(), *map(_digest, same)])
    keys = ", ".join(map(table.literal, then["rows"]))
    found = ask(f"SELECT {listed} FROM {table.sql} WHERE {table.key.sql} IN ({keys})")
    rows = {_text(key): [*map(_text, digests)] for key, *digests in found}
    places = [names.index(n) for n in same]
    known_rows = {key: [own[place] for place in places] for key, own in then["rows"].items()}
    # A value of the key may be written in two ways, as a time is after an ALTER.
    compared = [own == known_rows[key] for key, own in rows.items() if key in known_rows]
    return made if compared and not any(compared) else ""


def _made(table: KeyedTable, ask: Ask) -> str:
    where = is_table(table.database, table.table)
    rows = ask(f"SELECT CREATE_TIME FROM information_schema.TABLES WHERE {where}")
    return str(rows[0][0] or "") if rows else ""


def _digest(column: str) -> str:
    text = f"IFNULL(LEFT(CAST({name(column)} AS BINARY), {_BYTES}), '~')"
    return f"LEFT(MD5({text}), {_DIGITS})"


def _text(value: object) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
