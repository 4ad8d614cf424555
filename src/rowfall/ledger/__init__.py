"""The ledger: every state change one function and one transaction.

Intent is written before an action, the outcome after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rowfall.core.listing import Split
from rowfall.ledger import owner
from rowfall.ledger.rows import Attempt, LoadRow, Move, into_key
from rowfall.ledger.store import Store
from rowfall.targets.base import SHADOW_SUFFIX


class Ledger:
    """One ledger file.

    Args:
        path: the file; created with its folder when missing.

    Raises:
        LedgerError: damaged, not a ledger, locked, not writable, or written by a newer rowfall.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = Store(path)

    # --- loads -------------------------------------------------------------------------------

    def unfinished(self, fingerprint: str) -> LoadRow | None:
        """The newest load of the same sources into the same table that is not done and that no
        other living process works on."""
        for row in self.loads("WHERE fingerprint = ? AND state <> 'done'", fingerprint):
            if row.state != "running" or row.owner == owner.me() or owner.dead(row.owner):
                return row
        return None

    def begin(
        self, load_id: str, fingerprint: str, source: str, target: str, into: str, request: str
    ) -> None:
        """Write a new load. ``request``: JSON, no secrets."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._store.change() as db:
            db.execute(
                "INSERT INTO load VALUES (?, ?, ?, ?, ?, 'running', ?, ?, NULL, ?)",
                (load_id, fingerprint, source, target, into, now, request, owner.me()),
            )

    def take_up(self, old: LoadRow, request: str) -> bool:
        """Go on with an unfinished load; False when another process has just done so."""
        with self._store.change() as db:
            taken = db.execute(
                "UPDATE load SET state = 'running', request = ?, owner = ? "
                "WHERE id = ? AND state = ? AND owner = ?",
                (request, owner.me(), old.id, old.state, old.owner),
            )
            return taken.rowcount == 1

    def others_load(self, load_id: str, into: str) -> bool:
        """Whether another living process, or another load of this one, loads into a table."""
        rows = self.loads("WHERE into_table = ? AND state = 'running' AND id <> ?", into, load_id)
        return any(not owner.dead(row.owner) for row in rows)

    def end(self, load_id: str, state: str, report: str) -> None:
        with self._store.change() as db:
            db.execute(
                "UPDATE load SET state = ?, report = ? WHERE id = ?", (state, report, load_id)
            )

    def loads(self, where: str = "", *values: object) -> list[LoadRow]:
        """All loads, or those of a WHERE clause, newest first."""
        rows = self._store.rows(
            "SELECT id, source, target, into_table, state, started, request, report, owner "
            f"FROM load {where} ORDER BY started DESC, rowid DESC",
            *values,
        )
        return [LoadRow(*row) for row in rows]

    # --- steps -------------------------------------------------------------------------------

    def step(self, load_id: str, name: str, state: str) -> None:
        with self._store.change() as db:
            db.execute(
                "INSERT INTO step VALUES (?, ?, ?) "
                "ON CONFLICT (load_id, name) DO UPDATE SET state = excluded.state",
                (load_id, name, state),
            )

    def steps(self, load_id: str) -> dict[str, str]:
        rows = self._store.rows("SELECT name, state FROM step WHERE load_id = ?", load_id)
        return {str(name): str(state) for name, state in rows}

    def steps_called(self, word: str) -> list[tuple[str, str, str]]:
        """(load, table, rest of the name) of every finished step whose name begins with a word."""
        rows = self._store.rows(
            "SELECT l.id, l.into_table, substr(s.name, ?) FROM step s "
            "JOIN load l ON l.id = s.load_id "
            "WHERE s.name LIKE ? AND s.state = 'done' ORDER BY l.id, s.name",
            len(word) + 2, f"{word} %",
        )  # fmt: skip
        return [(str(load_id), str(into), str(rest)) for load_id, into, rest in rows]

    # --- what has landed ----------------------------------------------------------------------

    def landed(self, into: str) -> set[str]:
        """Split ids that are in the target table."""
        return {
            str(i) for (i,) in self._store.rows("SELECT id FROM landed WHERE into_table = ?", into)
        }

    def landed_by(self, load_id: str) -> set[str]:
        """Split ids that this load has landed, whatever others landed before it."""
        rows = self._store.rows(
            "SELECT id FROM split WHERE load_id = ? AND state = 'landed'", load_id
        )
        return {str(i) for (i,) in rows}

    def landed_uris(self, into: str) -> set[str]:
        """Objects (with their ranges) of which some version is in the target table."""
        rows = self._store.rows(
            "SELECT DISTINCT s.uri FROM landed l JOIN split s "
            "ON s.attempt_id = l.attempt_id AND s.id = l.id WHERE l.into_table = ?",
            into,
        )
        return {str(uri) for (uri,) in rows}

    def table_uuid(self, into: str) -> str | None:
        rows = self._store.rows("SELECT uuid FROM target_table WHERE into_table = ?", into)
        return str(rows[0][0]) if rows else None

    def set_table(self, into: str, uuid: str) -> int:
        """Remember which table ``into`` is. A new uuid forgets what its predecessor held.

        Returns the number of splits forgotten.
        """
        with self._store.change() as db:
            forgotten = 0
            old = db.execute(
                "SELECT uuid FROM target_table WHERE into_table = ?", (into,)
            ).fetchone()
            if old is not None and old[0] != uuid:
                forgotten = db.execute("DELETE FROM landed WHERE into_table = ?", (into,)).rowcount
            db.execute(
                "INSERT INTO target_table VALUES (?, ?) "
                "ON CONFLICT (into_table) DO UPDATE SET uuid = excluded.uuid",
                (into, uuid),
            )
            return forgotten

    # --- splits and attempts ------------------------------------------------------------------

    def add_splits(self, load_id: str, splits: Iterable[Split]) -> None:
        """Record the splits of a load as pending; those it knows keep their state."""
        with self._store.change() as db:
            db.executemany(
                "INSERT OR IGNORE INTO split (id, load_id, uri, state) VALUES (?, ?, ?, 'pending')",
                ((s.id, load_id, s.name) for s in splits),
            )
            db.execute(
                "UPDATE split SET state = 'pending', error = NULL, hint = NULL "
                "WHERE load_id = ? AND state = 'failed'",
                (load_id,),
            )

    def attempt_started(
        self, attempt_id: str, load_id: str, staging: str, into: str, splits: Iterable[Split]
    ) -> None:
        """Written before anything reaches the target: the staging name is known from here on."""
        with self._store.change() as db:
            db.execute(
                "INSERT INTO attempt VALUES (?, ?, ?, ?, 'started', NULL, NULL)",
                (attempt_id, load_id, staging, into),
            )
            db.executemany(
                "UPDATE split SET attempt_id = ? WHERE load_id = ? AND id = ?",
                ((attempt_id, load_id, s.id) for s in splits),
            )

    def attempt_loaded(self, attempt_id: str, rows: int, moves: Sequence[Move]) -> None:
        """All rows are in staging and counted; from here on only publishing may happen."""
        with self._store.change() as db:
            db.execute(
                "UPDATE attempt SET state = 'loaded', rows = ? WHERE id = ?", (rows, attempt_id)
            )
            db.executemany(
                "INSERT INTO move VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (attempt_id, m.database, m.table, m.staging, m.partition_id, m.rows,
                     m.rows_before, m.highest_block, m.state)
                    for m in moves
                ),
            )  # fmt: skip

    def attached(self, attempt_id: str, staging: str) -> None:
        """All parts of one staging table are in its target."""
        with self._store.change() as db:
            db.execute(
                "UPDATE move SET state = 'attached' WHERE attempt_id = ? AND staging = ?",
                (attempt_id, staging),
            )

    def attempt_published(self, attempt_id: str, into: str) -> None:
        """Every row is visible: the attempt's splits have landed."""
        with self._store.change() as db:
            db.execute("UPDATE attempt SET state = 'published' WHERE id = ?", (attempt_id,))
            db.execute("UPDATE split SET state = 'landed' WHERE attempt_id = ?", (attempt_id,))
            db.execute(
                "INSERT OR REPLACE INTO landed "
                "SELECT ?, id, attempt_id FROM split WHERE attempt_id = ?",
                (into, attempt_id),
            )
            load_id, staging = db.execute(
                "SELECT load_id, staging FROM attempt WHERE id = ?", (attempt_id,)
            ).fetchone()
            if staging.endswith(SHADOW_SUFFIX):
                # A shadow whose rows the target has: one that outlives a crash is only dropped.
                shadow = into_key(into, load_id)
                db.execute("DELETE FROM landed WHERE into_table = ?", (shadow,))
                db.execute("UPDATE target_table SET uuid = '' WHERE into_table = ?", (shadow,))

    def landed_elsewhere(self, load_id: str, ids: Iterable[str]) -> None:
        """Another process has landed these splits of the load."""
        with self._store.change() as db:
            db.executemany(
                "UPDATE split SET state = 'landed' WHERE load_id = ? AND id = ?",
                ((load_id, i) for i in ids),
            )

    def swapped(self, shadow: str, into: str, uuid: str) -> None:
        """What landed in ``shadow`` is in ``into`` now, whose table has ``uuid``."""
        with self._store.change() as db:
            db.execute("DELETE FROM landed WHERE into_table = ?", (into,))
            db.execute("UPDATE OR REPLACE landed SET into_table = ? WHERE into_table = ?",
                       (into, shadow))  # fmt: skip
            db.execute("DELETE FROM target_table WHERE into_table = ?", (shadow,))
            db.execute("INSERT OR REPLACE INTO target_table VALUES (?, ?)", (into, uuid))

    def forget(self, load_id: str) -> int:
        """What this load landed counts as not landed. Returns the number of splits."""
        with self._store.change() as db:
            gone = db.execute(
                "DELETE FROM landed WHERE attempt_id IN (SELECT id FROM attempt WHERE load_id = ?)",
                (load_id,),
            ).rowcount
            db.execute(
                "UPDATE split SET state = 'pending', attempt_id = NULL WHERE load_id = ?",
                (load_id,),
            )
            # A forgotten load is over: the same command makes a new one.
            db.execute("UPDATE load SET fingerprint = '' WHERE id = ?", (load_id,))
            return gone

    def attempt_ended(self, attempt_id: str, state: str, error: str) -> None:
        """``failed`` or ``lost``: its staging is gone and nothing of it is visible."""
        with self._store.change() as db:
            db.execute(
                "UPDATE attempt SET state = ?, error = ? WHERE id = ?", (state, error, attempt_id)
            )

    def split_failed(self, load_id: str, split_id: str, error: str, hint: str | None) -> None:
        with self._store.change() as db:
            db.execute(
                "UPDATE split SET state = 'failed', error = ?, hint = ? "
                "WHERE load_id = ? AND id = ?",
                (error, hint, load_id, split_id),
            )

    def attempts(self, load_id: str) -> int:
        """How many attempts a load has made: the next one's number continues from here."""
        rows = self._store.rows("SELECT count(*) FROM attempt WHERE load_id = ?", load_id)
        return int(str(rows[0][0]))

    def attempts_into(self, staging: str) -> int:
        """How many attempts, this one included, have written to a place."""
        rows = self._store.rows("SELECT count(*) FROM attempt WHERE staging = ?", staging)
        return int(str(rows[0][0]))

    def attempt_state(self, attempt_id: str) -> str:
        rows = self._store.rows("SELECT state FROM attempt WHERE id = ?", attempt_id)
        return str(rows[0][0]) if rows else ""

    def open_attempts(self) -> list[Attempt]:
        """Attempts of any load that were started or loaded and then left: of loads that have
        ended, that this process runs, or whose process is dead."""
        rows = self._store.rows(
            "SELECT a.id, a.load_id, a.staging, a.state, a.rows, a.into_table, "
            "CASE l.state WHEN 'running' THEN l.owner ELSE '' END "
            "FROM attempt a JOIN load l ON l.id = a.load_id "
            "WHERE a.state IN ('started', 'loaded') ORDER BY a.rowid"
        )
        found = [Attempt(*row) for row in rows]
        mine = owner.me()
        return [a for a in found if a.owner in ("", mine) or owner.dead(a.owner)]

    def moves(self, attempt_id: str) -> list[Move]:
        rows = self._store.rows(
            "SELECT database, table_name, staging, partition_id, rows, rows_before, "
            "highest_block, state FROM move WHERE attempt_id = ? ORDER BY staging, partition_id",
            attempt_id,
        )
        return [Move(*row) for row in rows]

    def landed_rows(self, into: str) -> int:
        """Rows of all published attempts whose splits count as landed in ``into``."""
        rows = self._store.rows(
            "SELECT coalesce(sum(rows), 0) FROM attempt WHERE state = 'published' AND id IN "
            "(SELECT attempt_id FROM landed WHERE into_table = ?)",
            into,
        )
        return int(str(rows[0][0]))

    def landed_attempts(self, into: str) -> list[tuple[int, list[str]]]:
        """(rows, split ids) of the attempts whose splits count as landed in ``into``."""
        found: dict[str, tuple[int, list[str]]] = {}
        rows = self._store.rows(
            "SELECT l.id, a.id, a.rows FROM landed l JOIN attempt a ON a.id = l.attempt_id "
            "WHERE l.into_table = ? AND a.state = 'published'",
            into,
        )
        for split, attempt, count in rows:
            found.setdefault(str(attempt), (int(str(count)), []))[1].append(str(split))
        return list(found.values())

    def close(self) -> None:
        self._store.close()
