"""Ids of what was loaded long ago: a UUID each in a table of their own, 110 bytes with its key.

A row of the record has the name of its file, its load and its attempt: 256 bytes with its key.
After an hour nobody asks for these any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rowfall.core.sqltext import qualified

TABLE = "_rowfall_joined"
# How a commit has ended is asked by the attempt, by whoever comes back within this time.
AGE = "1 hour"
# Rows of one statement: some seconds, in which nobody waits for anything.
MOST = 100_000

Rows = Callable[..., list[tuple[Any, ...]]]


class JoinedUuids:
    """The ids of one table.

    Args:
        rows: runs a statement and returns its rows.
        oid: of the table, which is part of what an id is made of.
    """

    def __init__(self, rows: Rows, schema: str, oid: int) -> None:
        self._rows, self._oid = rows, oid
        self.name = qualified(schema, TABLE)

    @property
    def definition(self) -> str:
        """Return the statement that makes the table where it is missing."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name} (id uuid PRIMARY KEY, table_id oid NOT NULL, "
            "day smallint NOT NULL, load text NOT NULL)"
        )

    def exists(self) -> bool:
        """Tell whether the ids of any table are kept."""
        return bool(self._rows("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", self.name))

    def holds_any(self) -> bool:
        """Tell whether there are ids of this table."""
        return self.exists() and bool(
            self._rows(f"SELECT 1 FROM {self.name} WHERE table_id = %s LIMIT 1", self._oid)
        )

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that are here."""
        if not self.exists():
            return set()
        rows = self._rows(
            f"SELECT s FROM unnest(%s::text[]) AS u(s) JOIN {self.name} ON id = "
            "md5(%s::text || s)::uuid",
            list(ids), self._oid,
        )  # fmt: skip
        return {str(split) for (split,) in rows}

    def take(self, record: str) -> int:
        """Move older rows of the record here; return how many.

        One statement: at no moment is an id in neither of the two, or seen in none.
        """
        rows = self._rows(
            f"WITH old AS (SELECT split FROM {record} WHERE table_id = %s AND whole = '' AND "
            f"rows IS NOT NULL AND length(split) = 32 AND at < now() - interval '{AGE}' "
            f"LIMIT {MOST}), gone AS (DELETE FROM {record} WHERE table_id = %s AND split IN "
            f"(SELECT split FROM old) RETURNING split, load), taken AS (INSERT INTO {self.name} "
            "SELECT md5(%s::text || split)::uuid, %s, current_date - '2020-01-01'::date, "
            "load FROM gone ORDER BY 1 ON CONFLICT DO NOTHING) SELECT count(*) FROM gone",
            self._oid, self._oid, self._oid, self._oid,
        )  # fmt: skip
        return int(rows[0][0])

    def prune(self, days: int) -> None:
        """Remove the ids that came here more than so many days ago, by the server's clock."""
        if self.exists():
            self._rows(
                f"WITH gone AS (DELETE FROM {self.name} WHERE table_id = %s AND day < "
                "current_date - '2020-01-01'::date - %s RETURNING 1) SELECT count(*) FROM gone",
                self._oid, days,
            )  # fmt: skip
