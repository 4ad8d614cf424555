"""Remembers which batches of a followed source have become one load.

The record beside a table names the load of each file, and whoever forgets the load that stands for
older batches has to name all of them. The ids of loads stand where the joined ids of files do, 20
bytes each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

# In place of the key of a table.
PLACE = "joined loads"
_OF = f"number IN (SELECT number FROM joined_into WHERE into_table = '{PLACE}' AND load_id = ?)"
QUERY = f"SELECT id FROM joined WHERE {_OF}"


def names(rows: Iterable[Sequence[bytes]]) -> set[str]:
    """Return the ids of loads that :data:`QUERY` has found."""
    return {bytes(one).decode() for (one,) in rows}


def add(db: sqlite3.Connection, load_id: str, into: str) -> None:
    """Note that a load, with all that were joined to it, is a part of another one now."""
    db.execute("INSERT OR IGNORE INTO joined_into (into_table, load_id) VALUES (?, ?)",
               (PLACE, into))  # fmt: skip
    ((number,),) = db.execute(
        "SELECT number FROM joined_into WHERE into_table = ? AND load_id = ?", (PLACE, into)
    ).fetchall()
    today = int(datetime.now(UTC).timestamp() // 86_400)
    loads = {load_id, *names(db.execute(QUERY, (load_id,)).fetchall())}
    db.executemany(
        "INSERT OR IGNORE INTO joined VALUES (?, ?, ?)",
        [(number, one.encode(), today) for one in loads],
    )
    remove(db, load_id)


def remove(db: sqlite3.Connection, load_id: str) -> None:
    """Forget the loads that were joined to one."""
    db.execute(f"DELETE FROM joined WHERE {_OF}", (load_id,))
    db.execute("DELETE FROM joined_into WHERE into_table = ? AND load_id = ?", (PLACE, load_id))
