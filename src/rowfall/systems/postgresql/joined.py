"""Ids of what was loaded long ago, see :mod:`rowfall.engines.packed_ids`: a digest of table and id.

A row of the record has the name of its file, its load and its attempt: 256 bytes with its key.
After an hour nobody asks for these any more. An earlier version kept a row for each id in
``_rowfall_joined``, 110 bytes with its key: they are read there, and packed as time goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import md5
from typing import Any

from rowfall.core.sqltext import literal, qualified
from rowfall.engines import packed_ids
from rowfall.engines.packed_ids import PackedId, PackedIds, PackedTables

TABLE = "_rowfall_joined"
# How a commit has ended is asked by the attempt, by whoever comes back within this time.
AGE = "1 hour"
# Rows of one transaction: some seconds, in which nobody waits for anything, and 30 MB here.
MOST = 50_000
_2020 = "'2020-01-01'::date"

Rows = Callable[..., list[tuple[Any, ...]]]


class JoinedUuids:
    """The ids of one table.

    Args:
        rows: runs a statement, and returns its rows.
        alone: begins a transaction, and gives what runs statements in it; None where another
            process changes these ids, unless told to wait.
        oid: of the table, which is part of what an id is made of.
    """

    def __init__(
        self, rows: Rows, alone: Callable[[bool], AbstractContextManager[Rows | None]],
        schema: str, oid: int,
    ) -> None:  # fmt: skip
        self._rows, self._alone, self._oid = rows, alone, oid
        self._older = qualified(schema, TABLE)
        self._ids, self._runs = (
            qualified(schema, name) for name in (packed_ids.IDS, packed_ids.RUNS)
        )
        self._packed = PackedIds(self.tables(rows), self._is_packed, self._changing)

    def tables(self, rows: Rows) -> PackedTables:
        """Return statements about what is packed."""
        of = literal(str(self._oid))
        return PackedTables(rows, self._ids, self._runs, of, lambda d: f"decode('{d}', 'hex')")

    @contextmanager
    def _changing(self, waits: bool) -> Iterator[PackedTables | None]:
        with self._alone(waits) as rows:
            yield None if rows is None else self.tables(rows)

    def _is_there(self, name: str) -> bool:
        return bool(self._rows("SELECT 1 WHERE to_regclass(%s) IS NOT NULL", name))

    def _is_packed(self) -> bool:
        return self._is_there(self._runs)

    def _digest(self, split: str) -> bytes:
        return md5(f"{self._oid}{split}".encode(), usedforsecurity=False).digest()

    def holds_any(self) -> bool:
        """Tell whether there are ids of this table."""
        older = f"SELECT 1 FROM {self._older} WHERE table_id = %s LIMIT 1"
        return self._packed.holds_any() or (
            self._is_there(self._older) and bool(self._rows(older, self._oid))
        )

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that are here."""
        splits = {self._digest(split): split for split in ids}
        if not splits:
            return set()
        found: set[bytes] = set()
        # The older table first: what is packed meanwhile is found behind it.
        if self._is_there(self._older):
            asked = f"SELECT uuid_send(id) FROM {self._older} WHERE id = ANY(%s::uuid[])"
            found |= {bytes(i) for (i,) in self._rows(asked, [digest.hex() for digest in splits])}
        found |= self._packed.among(splits.keys() - found)
        return {splits[digest] for digest in found}

    # --- changes ------------------------------------------------------------------------------

    def take(self, record: str) -> None:
        """Pack older rows of the record, and those of the older table.

        In one transaction: at no moment is an id in neither of the two, or seen in none.
        """
        if not self._is_packed():
            with self._alone(True) as rows:
                assert rows is not None  # noqa: S101 - it was waited for
                self._make(rows)
        older = self._is_there(self._older)
        with self._alone(False) as rows:
            if rows is None:
                return
            taken = rows(
                # By their places: of a table that nobody has analyzed yet a plan by keys may read
                # all of it for each line.
                f"DELETE FROM {record} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {record} WHERE "
                "table_id = %s AND whole = '' AND rows IS NOT NULL AND length(split) = 32 AND "
                f"at < now() - interval '{AGE}' LIMIT {MOST})) "
                "RETURNING split, load, current_date - '1970-01-01'::date",
                self._oid,
            )
            packed = [PackedId(self._digest(split), load, int(day)) for split, load, day in taken]
            if older:
                taken = rows(
                    f"DELETE FROM {self._older} WHERE ctid = ANY(ARRAY(SELECT ctid FROM "
                    f"{self._older} WHERE table_id = %s LIMIT {MOST})) "
                    f"RETURNING uuid_send(id), load, {_2020} + day - '1970-01-01'::date",
                    self._oid,
                )
                packed += [PackedId(bytes(id_), load, int(day)) for id_, load, day in taken]
            packed_ids.add(self.tables(rows), packed)
        self._packed.merge()

    def _make(self, rows: Rows) -> None:
        """Make the tables where they are missing."""
        rows(
            f"CREATE TABLE IF NOT EXISTS {self._ids} (place bigint PRIMARY KEY, "
            "ids bytea NOT NULL, marks bytea NOT NULL)"
        )
        rows(
            f"CREATE TABLE IF NOT EXISTS {self._runs} (run bigint PRIMARY KEY, target text NOT "
            "NULL, bits integer NOT NULL, ids bigint NOT NULL, oldest integer NOT NULL, "
            "merged_into bigint NOT NULL, steps bigint NOT NULL)"
        )

    def forget(self, loads: Collection[str]) -> int:
        """Remove the ids of loads; return how many there were."""
        gone = self._packed.forget(loads)
        if self._is_there(self._older):
            gone += len(self._rows(
                f"DELETE FROM {self._older} WHERE load = ANY(%s) AND table_id = %s RETURNING 1",
                list(loads), self._oid,
            ))  # fmt: skip
        return gone

    def prune(self, days: int) -> None:
        """Remove ids that came here more than so many days ago."""
        self._packed.prune(days)
        if self._is_there(self._older):
            self._rows(
                f"DELETE FROM {self._older} WHERE table_id = %s AND day < current_date - {_2020} "
                "- %s RETURNING 1", self._oid, days,
            )  # fmt: skip

    def remove_all(self, rows: Rows) -> None:
        """Remove all ids of the table, in a transaction that has begun."""
        if self._is_packed():
            packed_ids.remove_runs(self.tables(rows))
        if self._is_there(self._older):
            rows(f"DELETE FROM {self._older} WHERE table_id = %s RETURNING 1", self._oid)
