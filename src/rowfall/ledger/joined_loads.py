"""Makes one load of the batches of a followed source, and remembers which these were.

The ids of their files are kept in 20 bytes each, in no other answer of the ledger: they may be
millions. The record beside a table names the load of each file, and whoever forgets the load that
stands for older batches has to name all of them: the ids of loads stand where those of files do.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rowfall.core.listing import continued_id, joined, ranges_by_stream

Rows = Callable[..., Sequence[Sequence[Any]]]
"""Runs a question to the ledger with its values."""

# In place of the key of a table.
PLACE = "joined loads"
_OF = f"number IN (SELECT number FROM joined_into WHERE into_table = '{PLACE}' AND load_id = ?)"
QUERY = f"SELECT id FROM joined WHERE {_OF}"
# Ids of one question.
_MOST_ASKED = 10_000


# --- files ----------------------------------------------------------------------------------------


def numbers(rows: Rows, key: str) -> list[int]:
    """Return the numbers under which ids of a target are kept."""
    found = rows("SELECT number FROM joined_into WHERE into_table = ?", key)
    return [int(number) for (number,) in found]


def among(rows: Rows, key: str, ids: Iterable[str]) -> set[str]:
    """Return those of some ids that are kept here for a target."""
    there = numbers(rows, key)
    found: set[str] = set()
    plain = [i for i in ids if len(i) == 32] if there else []
    for start in range(0, len(plain), _MOST_ASKED):
        some = json.dumps(plain[start : start + _MOST_ASKED])
        for number in there:
            # CROSS: the ids that are asked about come first. SQLite, which has no statistics here,
            # would compare each of millions that are kept with all of them.
            ids_here = rows(
                "SELECT a.value FROM json_each(?) a CROSS JOIN joined j ON j.number = ? AND "
                "j.id = bytes_of(a.value)",
                some, number,
            )  # fmt: skip
            found |= {str(i) for (i,) in ids_here}
    return found


def prune(db: sqlite3.Connection, key: str, days: int) -> None:
    """Forget what came to the ids of a target more than so many days ago."""
    db.execute(
        "DELETE FROM joined WHERE day < ? AND number IN "
        "(SELECT number FROM joined_into WHERE into_table = ?)",
        (_today() - days, key),
    )


def drop(db: sqlite3.Connection, column: str, value: str) -> int:
    """Forget the ids of long ago of a table or of a load; return how many they were."""
    which = f"number IN (SELECT number FROM joined_into WHERE {column} = ?)"
    gone = db.execute(f"DELETE FROM joined WHERE {which}", (value,)).rowcount
    db.execute(f"DELETE FROM joined_into WHERE {column} = ?", (value,))
    return gone


def _today() -> int:
    return int(datetime.now(UTC).timestamp() // 86_400)


# --- loads ----------------------------------------------------------------------------------------


def join(db: sqlite3.Connection, load_id: str, into: str, key: str, *, ranges: bool) -> bool:
    """Record what a load has loaded as loaded by another one, and forget the load.

    See :meth:`rowfall.ledger.ledger.Ledger.join_load`.
    """
    first = db.execute(
        "SELECT min(rowid), id FROM attempt WHERE load_id = ? AND state = 'published'",
        (into,),
    ).fetchone()[1]
    more = db.execute(
        "SELECT 1 FROM load WHERE id = ? AND state <> 'done' UNION ALL "
        "SELECT 1 FROM step WHERE load_id = ? UNION ALL SELECT 1 FROM attempt WHERE "
        "load_id = ? AND (state IN ('started', 'loaded', 'lost') OR into_table <> ?)",
        (load_id, load_id, load_id, key),
    ).fetchone()
    if first is None or more is not None:
        return False
    db.execute(
        "UPDATE attempt SET rows = rows + (SELECT coalesce(sum(rows), 0) FROM attempt "
        "WHERE load_id = ? AND state = 'published') WHERE id = ?",
        (load_id, first),
    )
    db.execute(
        "UPDATE landed SET attempt_id = ? WHERE into_table = ? AND id IN (SELECT id FROM "
        "split WHERE load_id = ?) AND attempt_id IN (SELECT id FROM attempt WHERE "
        "load_id = ?)",
        (first, key, load_id, load_id),
    )
    if ranges:
        _join_ranges(db, key, first)
    else:
        add(db, load_id, into)
    _join_files(db, key, into, first, keep=ranges)
    for table in ("move", "staged_files", "staged_part"):
        db.execute(
            f"DELETE FROM {table} WHERE attempt_id IN (SELECT id FROM attempt WHERE load_id = ?)",
            (load_id,),
        )
    for table in ("explained", "split", "attempt"):
        db.execute(f"DELETE FROM {table} WHERE load_id = ?", (load_id,))
    db.execute("DELETE FROM load WHERE id = ?", (load_id,))
    return True


def _join_ranges(db: sqlite3.Connection, key: str, attempt_id: str) -> None:
    """Let one id stand for ranges of a stream that touch, among what an attempt is loaded."""
    rows = db.execute(
        "SELECT id FROM landed WHERE into_table = ? AND attempt_id = ?", (key, attempt_id)
    )
    ids = [str(i) for (i,) in rows]
    for stream, ranges in ranges_by_stream(ids).items():
        whole = joined(ranges)
        if len(whole) < len(ranges):
            db.executemany(
                "DELETE FROM landed WHERE into_table = ? AND id = ?",
                ((key, continued_id(stream, *one)) for one in ranges),
            )
            db.executemany(
                "INSERT INTO landed VALUES (?, ?, ?)",
                ((key, continued_id(stream, *one), attempt_id) for one in whole),
            )


def _join_files(
    db: sqlite3.Connection, key: str, load_id: str, attempt_id: str, *, keep: bool
) -> None:  # fmt: skip
    """Take whole files out of what an attempt is loaded.

    Args:
        keep: keep their ids apart; otherwise the journal of the table has them.
    """
    plain = "into_table = ? AND attempt_id = ? AND length(id) = 32"
    if keep:
        db.execute(
            "INSERT OR IGNORE INTO joined_into (into_table, load_id) VALUES (?, ?)", (key, load_id)
        )
        db.execute(
            "INSERT OR IGNORE INTO joined SELECT (SELECT number FROM joined_into WHERE "
            f"into_table = ? AND load_id = ?), bytes_of(id), ? FROM landed WHERE {plain}",
            (key, load_id, _today(), key, attempt_id),
        )
    db.execute(f"DELETE FROM landed WHERE {plain}", (key, attempt_id))


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
    loads = {load_id, *names(db.execute(QUERY, (load_id,)).fetchall())}
    db.executemany(
        "INSERT OR IGNORE INTO joined VALUES (?, ?, ?)",
        [(number, one.encode(), _today()) for one in loads],
    )
    remove(db, load_id)


def remove(db: sqlite3.Connection, load_id: str) -> None:
    """Forget the loads that were joined to one."""
    db.execute(f"DELETE FROM joined WHERE {_OF}", (load_id,))
    db.execute("DELETE FROM joined_into WHERE into_table = ? AND load_id = ?", (PLACE, load_id))
