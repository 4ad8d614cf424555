"""The ledger: an SQLite file that remembers loads, attempts and what has been loaded.

Every state change is one function and one transaction. Intent is written before an action, the
outcome after it. ``synchronous=FULL`` because a ledger that forgets its last line after a power
cut would load rows twice; one commit costs about a millisecond and an attempt needs five.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LockLostError
from rowfall.core.listing import Split
from rowfall.ledger import joined_loads, leases
from rowfall.ledger.leases import StagedPartition
from rowfall.ledger.seen_versions import LocalVersions
from rowfall.ledger.store import LedgerStore
from rowfall.targets.base import SHADOW_SUFFIX

REBUILT = "upsert"
"""Step of a load with ``--upsert``, followed by the name of the table that it has rebuilt."""
AGAIN = "again"
"""Step of a load by force, followed by a split and the attempt that had brought it before."""
UNDOING = "undoing"
"""Step of a load whose rows a process takes out now, followed by the process."""
UNDO = "undo"
"""Step of a load whose rows are being taken out again, followed by JSON about them."""


_IDENTITY = "identity"  # first word of the steps that hold one

# What is loaded with its splits, each found by its key. By the attempt alone, which SQLite prefers,
# all splits of an attempt are looked through for each of them: 10,000 for each of a million.
_LANDED_SPLITS = (
    "landed l CROSS JOIN attempt a ON a.id = l.attempt_id CROSS JOIN split s "
    "ON s.load_id = a.load_id AND s.id = l.id AND +s.attempt_id = l.attempt_id"
)


def target_key(*parts: str) -> str:
    """Return the key of a target: database and table (and node), or the pattern of an export."""
    return json.dumps(parts)


def target_key_parts(key: str) -> list[str]:
    """Return the parts that :func:`target_key` was given."""
    return [str(part) for part in json.loads(key)]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as the ledger knows it."""

    id: str
    load_id: str
    staging: str
    state: str
    rows: int | None
    target_key: str
    owner: str

    @property
    def gathers(self) -> bool:
        """True for one that publishes what other attempts have gathered in a shadow table."""
        return self.staging.endswith(SHADOW_SUFFIX)

    @property
    def committed(self) -> bool:
        """True when all rows are staged and counted, so that they can only be published."""
        return self.state == "loaded"  # on disk, since the first version


@dataclass(frozen=True, slots=True)
class LoadedParts:
    """Rows and parts of an attempt in one table: the target, or one behind a view.

    Attributes:
        attempt_rows: rows of the attempt in the target. ``rows``: those in this table.
        uuids: of the parts; () where they are not remembered.
    """

    attempt: str
    attempt_rows: int
    database: str
    table: str
    rows: int
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadRow:
    """One load; ``report`` is JSON or None while it runs for the first time."""

    id: str
    source: str
    target: str
    target_key: str
    state: str
    started: str
    request: str
    report: str | None
    owner: str


def coming(attempt: str) -> str:
    """Return the mark of a table to which rows of an attempt are being attached."""
    return f"{attempt}?"


class Ledger:
    """One ledger file.

    Args:
        path: the file; created with its folder when missing.

    Raises:
        LedgerError: damaged, not a ledger, locked, not writable, or written by a newer rowfall.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = LedgerStore(path)

    # --- loads -------------------------------------------------------------------------------

    def unfinished(self, fingerprint: str) -> LoadRow | None:
        """Return the newest unfinished load of these sources that no living process works on."""
        for row in self.loads("WHERE fingerprint = ? AND state <> 'done'", fingerprint):
            if row.owner == leases.this_process() or not self.runs(row):
                return row
        return None

    def begin(
        self, load_id: str, fingerprint: str, source: str, target: str, key: str, request: str
    ) -> None:
        """Record a new load.

        Args:
            key: of the target.
            request: JSON without secrets.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._store.change() as db:
            db.execute(
                "INSERT INTO load VALUES (?, ?, ?, ?, ?, 'running', ?, ?, NULL, ?)",
                (load_id, fingerprint, source, target, key, now, request, leases.this_process()),
            )

    def never_began(self, load_id: str) -> None:
        """Forget a load that has done nothing yet: its command was wrong."""
        with self._store.change() as db:
            # The engine has refused the CREATE TABLE: there is no table.
            db.execute(
                "DELETE FROM step WHERE load_id = ? AND name = 'create' AND state = 'started'",
                (load_id,),
            )
            unused = (
                "FROM load WHERE id = ? AND report IS NULL AND NOT EXISTS (SELECT 1 FROM "
                "step WHERE load_id = load.id) AND NOT EXISTS (SELECT 1 FROM attempt WHERE "
                "load_id = load.id) AND NOT EXISTS (SELECT 1 FROM split WHERE load_id = load.id)"
            )
            db.execute(f"DELETE FROM explained WHERE load_id IN (SELECT id {unused})", (load_id,))
            db.execute(f"DELETE {unused}", (load_id,))

    def take_up(self, old: LoadRow, request: str) -> bool:
        """Go on with an unfinished load; False when another process has just done so."""
        with self._store.change() as db:
            taken = db.execute(
                "UPDATE load SET state = 'running', request = ?, owner = ? "
                "WHERE id = ? AND state = ? AND owner = ?",
                (request, leases.this_process(), old.id, old.state, old.owner),
            )
            return taken.rowcount == 1

    def runs(self, row: LoadRow) -> bool:
        """Tell whether a load may still run: it has not ended, and nor has its process for sure."""
        return row.state == "running" and not leases.has_ended(row.owner, self.path)

    def others_load(self, load_id: str, key: str) -> bool:
        """Tell whether another living process, or another load of this one, loads into a target."""
        rows = self.loads("WHERE into_table = ? AND state = 'running' AND id <> ?", key, load_id)
        return any(map(self.runs, rows))

    def running_beside(self, load_id: str) -> LoadRow | None:
        """Return a load that another process of this machine runs now; None where there is none."""
        me = leases.this_process()
        for row in self.loads("WHERE state = 'running' AND id <> ? AND owner <> ?", load_id, me):
            if leases.is_running_here(row.owner):
                return row
        return None

    def end_loads_of_other_containers(self, load_id: str) -> None:
        """Record that loads of other containers, whose PIDs say nothing here, have ended.

        Only for the process that holds the lock of the folder with this ledger: each of them held
        it while it ran.

        Args:
            load_id: of the load that has it locked now.
        """
        for row in self.loads("WHERE state = 'running' AND id <> ?", load_id):
            if leases.is_of_other_pid_namespace(row.owner, self.path):
                self.stopped_running(row.id)

    def running_here(self, load_id: str) -> LoadRow | None:
        """Return a load of this process of which nothing says yet how it has ended; else None."""
        rows = self.loads(
            "WHERE id = ? AND state = 'running' AND owner = ?", load_id, leases.this_process()
        )
        return rows[0] if rows else None

    def stopped_running(self, load_id: str) -> None:
        """Record that a load has ended, if nothing else says how."""
        with self._store.change() as db:
            db.execute(
                "UPDATE load SET state = 'interrupted' WHERE id = ? AND state = 'running'",
                (load_id,),
            )

    def end(self, load_id: str, state: str, report: str) -> None:
        with self._store.change() as db:
            db.execute(
                "UPDATE load SET state = ?, report = ? WHERE id = ?", (state, report, load_id)
            )

    def loads(self, where: str = "", *values: object) -> list[LoadRow]:
        """Return all loads, or those of a WHERE clause, newest first."""
        rows = self._store.rows(
            "SELECT id, source, target, into_table, state, started, request, report, owner "
            f"FROM load {where} ORDER BY started DESC, rowid DESC",
            *values,
        )
        return [LoadRow(*row) for row in rows]

    def other_sources(self, key: str, source: str, folder: str) -> list[str]:
        """Return the other sources that have been loaded into a target table, newest first.

        Args:
            folder: of the process: a path that begins there is another one elsewhere.
        """
        rows = self._store.rows(
            "SELECT source, coalesce(json_extract(request, '$.folder'), '') FROM load "
            "WHERE into_table = ? AND id IN (SELECT load_id FROM attempt WHERE "
            "state = 'published' AND rows > 0) ORDER BY started DESC, rowid DESC",
            key,
        )
        own = _source_at(source, folder)
        found = dict.fromkeys(_source_at(str(text), str(where)) for text, where in rows)
        return [text for text in found if text != own]

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
        """Return (load, target key, rest of the name) of finished steps that begin with a word."""
        rows = self._store.rows(
            "SELECT l.id, l.into_table, substr(s.name, ?) FROM step s "
            "JOIN load l ON l.id = s.load_id "
            "WHERE s.name LIKE ? AND s.state = 'done' ORDER BY l.id, s.name",
            len(word) + 2, f"{word} %",
        )  # fmt: skip
        return [(str(load_id), str(key), str(rest)) for load_id, key, rest in rows]

    def begun(self, word: str, key: str) -> list[str]:
        """Return the loads with a step that begins with a word and is not done.

        Args:
            key: of the target of their loads.
        """
        rows = self._store.rows(
            "SELECT DISTINCT l.id FROM step s JOIN load l ON l.id = s.load_id "
            "WHERE s.name LIKE ? AND s.state <> 'done' AND l.into_table = ?",
            f"{word} %", key,
        )  # fmt: skip
        return [str(load_id) for (load_id,) in rows]

    def claim(self, load_id: str, word: str, *, locked: bool) -> bool:
        """Claim a load for what this process does with it; False while another one claims it.

        Args:
            word: that the step begins with; the process follows.
            locked: this process holds the lock that every other one holds while it claims, so
                those of other containers, whose PIDs say nothing here, have ended.
        """
        with self._store.change() as db:
            of, like = "FROM step WHERE load_id = ? AND name LIKE ?", f"{word} %"
            names = db.execute(f"SELECT name {of}", (load_id, like)).fetchall()
            owners = [name.partition(" ")[2] for (name,) in names]
            if any(
                not leases.has_ended(owner, self.path)
                and not (locked and leases.is_of_other_pid_namespace(owner, self.path))
                for owner in owners
            ):
                return False
            db.execute(f"DELETE {of}", (load_id, like))
            me = leases.this_process()
            db.execute("INSERT INTO step VALUES (?, ?, 'started')", (load_id, f"{word} {me}"))
            return True

    def unclaim(self, load_id: str, word: str) -> None:
        """End what :meth:`claim` has begun."""
        with self._store.change() as db:
            db.execute("DELETE FROM step WHERE load_id = ? AND name LIKE ?", (load_id, f"{word} %"))

    def sources_of(self, load_id: str) -> set[str]:
        """Return the names of the files and ranges that a load has brought in itself."""
        rows = self._store.rows(
            "SELECT s.uri FROM split s JOIN attempt a ON a.id = s.attempt_id WHERE s.load_id = ? "
            "AND s.state = 'landed' AND a.state = 'published' AND s.id NOT LIKE '~%'",
            load_id,
        )
        return {str(uri) for (uri,) in rows}

    def loads_of_sources(self, key: str, names: Collection[str]) -> set[str]:
        """Return the loads that have brought files of some names into a target.

        By whichever attempts: those with ``--replace`` or ``--upsert`` have keys of their own.
        """
        rows = self._store.rows(
            "SELECT DISTINCT l.id FROM split s JOIN load l ON l.id = s.load_id WHERE "
            "l.into_table = ? AND s.state = 'landed' AND s.id NOT LIKE '~%' AND "
            "s.uri IN (SELECT value FROM json_each(?))",
            key, json.dumps(list(names)),
        )  # fmt: skip
        return {str(load_id) for (load_id,) in rows}

    def counts_no_more(self, load_id: str, key: str) -> int:
        """Return how many splits that a load has brought do not count as loaded by it any more.

        Another load has brought them since, or has taken the place of all rows.
        """
        ((count,),) = self._store.rows(
            "SELECT count(*) FROM split s JOIN attempt a ON a.id = s.attempt_id WHERE "
            "s.load_id = ? AND s.state = 'landed' AND a.state = 'published' AND "
            "s.id NOT LIKE '~%' AND NOT EXISTS (SELECT 1 FROM landed l JOIN attempt b ON "
            "b.id = l.attempt_id WHERE l.into_table = ? AND l.id = s.id AND b.load_id = s.load_id)",
            load_id, key,
        )  # fmt: skip
        return int(count)

    def brought_before(self, load_id: str, key: str) -> dict[str, str]:
        """Return the attempts of other loads that had brought splits before this one did, by force.

        Only of splits that count as loaded by this one, and without loads that are forgotten.

        Args:
            key: of the target.
        """
        rows = self._store.rows(
            "SELECT s.load_id, s.name FROM step s JOIN load l ON l.id = s.load_id WHERE "
            "l.into_table = ? AND substr(s.name, 1, ?) = ?",
            key, len(AGAIN) + 1, f"{AGAIN} ",
        )  # fmt: skip
        before = {(str(load), (two := str(name).split(" "))[1]): two[2] for load, name in rows}
        found = {}
        for split, attempt in before.items():
            if split[0] == load_id and self.is_loaded_by(load_id, key, split[1]):
                # Of a load that was forgotten since, what was there before that counts.
                seen = {load_id}
                while attempt and not self._counts(attempt, split[1]):
                    other = attempt.partition("_")[0]
                    attempt = "" if other in seen else before.get((other, split[1]), "")
                    seen.add(other)
                if attempt:
                    found[split[1]] = attempt
        return found

    def is_loaded_by(self, load_id: str, key: str, split: str) -> bool:
        """Tell whether a split counts as loaded by a load."""
        rows = self._store.rows(
            "SELECT 1 FROM landed l JOIN attempt a ON a.id = l.attempt_id WHERE l.into_table = ? "
            "AND l.id = ? AND a.load_id = ?",
            key, split, load_id,
        )  # fmt: skip
        return bool(rows)

    def _counts(self, attempt: str, split: str) -> bool:
        rows = self._store.rows(
            "SELECT 1 FROM split s JOIN attempt a ON a.id = s.attempt_id WHERE s.id = ? AND "
            "s.attempt_id = ? AND s.state = 'landed' AND a.state = 'published'",
            split, attempt,
        )  # fmt: skip
        return bool(rows)

    def staged_parts(self, attempt: str) -> list[str]:
        """Return the UUIDs of the parts of an attempt; [] where they are not remembered."""
        rows = self._store.rows("SELECT uuid FROM staged_part WHERE attempt_id = ?", attempt)
        return [str(uuid) for (uuid,) in rows]

    def give_back(self, key: str, attempts: Mapping[str, str]) -> None:
        """Record splits as loaded by the attempts that have brought them before a load by force."""
        with self._store.change() as db:
            db.executemany(
                "INSERT OR IGNORE INTO landed VALUES (?, ?, ?)",
                ((key, split, attempt) for split, attempt in attempts.items()),
            )

    def identify(self, load_id: str, stream: str, text: str) -> None:
        """Record what tells a stream of a load from another one of its name."""
        self.step(load_id, f"{_IDENTITY} {stream} {text}", "done")

    def identity(self, key: str, stream: str) -> str | None:
        """Return what the newest load into a target has recorded of a stream; None for nothing."""
        begins = f"{_IDENTITY} {stream} "
        rows = self._store.rows(
            "SELECT substr(s.name, ?) FROM step s JOIN load l ON l.id = s.load_id "
            "WHERE l.into_table = ? AND substr(s.name, 1, ?) = ? "
            "ORDER BY l.started DESC, l.rowid DESC, s.rowid DESC LIMIT 1",
            len(begins) + 1, key, len(begins), begins,
        )  # fmt: skip
        return str(rows[0][0]) if rows else None

    # --- what is loaded ----------------------------------------------------------------------

    def loaded(self, key: str) -> set[str]:
        """Return the ids of the splits that are in the target."""
        return {
            str(i) for (i,) in self._store.rows("SELECT id FROM landed WHERE into_table = ?", key)
        }

    def loaded_among(self, key: str, ids: Sequence[str]) -> set[str]:
        """Return those of some ids of splits that are in the target, by their index."""
        rows = self._store.rows(
            "SELECT id FROM landed WHERE into_table = ? AND id IN (SELECT value FROM json_each(?))",
            key, json.dumps(list(ids)),
        )  # fmt: skip
        return {str(i) for (i,) in rows} | self.joined_among(key, ids)

    def joined_among(self, key: str, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that followed loads have loaded long ago.

        These are in no other answer of this class: they may be millions.
        """
        return joined_loads.among(self._store.rows, key, ids)

    def holds(self, key: str) -> bool:
        """Tell whether any split is in the target."""
        rows = self._store.rows("SELECT 1 FROM landed WHERE into_table = ? LIMIT 1", key)
        return bool(rows or joined_loads.numbers(self._store.rows, key))

    def prune_joined(self, key: str, days: int) -> None:
        """Forget what came to the ids of long ago more than so many days ago."""
        with self._store.change() as db:
            joined_loads.prune(db, key, days)

    def seen_versions(self) -> LocalVersions:
        """Return the versions of followed objects that this machine remembers."""
        return LocalVersions(self._store.rows, self._store.change)

    def loaded_by(self, load_id: str) -> set[str]:
        """Return the ids of the splits that this load has brought in itself."""
        rows = self._store.rows(
            "SELECT id FROM split WHERE load_id = ? AND state = 'landed'", load_id
        )
        return {str(i) for (i,) in rows}

    def loaded_uris(self, key: str) -> set[str]:
        """Return the objects (with their ranges) of which some version is in the target."""
        rows = self._store.rows(
            f"SELECT DISTINCT s.uri FROM {_LANDED_SPLITS} WHERE l.into_table = ?", key
        )
        return {str(uri) for (uri,) in rows}

    def table_uuid(self, key: str) -> str | None:
        rows = self._store.rows("SELECT uuid FROM target_table WHERE into_table = ?", key)
        return str(rows[0][0]) if rows else None

    def keys_of(self, uuid: str) -> list[str]:
        """Return the keys of the targets whose table has this UUID; of shadows and nodes, too."""
        rows = self._store.rows("SELECT into_table FROM target_table WHERE uuid = ?", uuid)
        return [str(key) for (key,) in rows]

    def set_table(self, key: str, uuid: str, *, keep: bool = False) -> int:
        """Record the uuid of the target's table; a new one forgets what its predecessor held.

        Args:
            keep: it holds the same rows, so nothing is forgotten.

        Returns:
            The number of splits forgotten.
        """
        with self._store.change() as db:
            forgotten = 0
            old = db.execute(
                "SELECT uuid FROM target_table WHERE into_table = ?", (key,)
            ).fetchone()
            if old is not None and old[0] != uuid:
                _forget_stopped(db, key)
                if not keep:
                    forgotten = db.execute(
                        "DELETE FROM landed WHERE into_table = ?", (key,)
                    ).rowcount + joined_loads.drop(db, "into_table", key)
            db.execute(
                "INSERT INTO target_table VALUES (?, ?) "
                "ON CONFLICT (into_table) DO UPDATE SET uuid = excluded.uuid",
                (key, uuid),
            )
            return forgotten

    def loaded_by_load(self, key: str, ids: Collection[str]) -> dict[str, tuple[int, list[str]]]:
        """Return, of some loaded splits, (rows, ids) by the load that has brought them.

        The rows are those of whole attempts.
        """
        found: dict[str, tuple[int, list[str]]] = {}
        counted: set[str] = set()
        rows = self._store.rows(
            "SELECT a.load_id, a.id, a.rows, l.id FROM landed l "
            "JOIN attempt a ON a.id = l.attempt_id WHERE l.into_table = ?",
            key,
        )
        for load_id, attempt, count, split in rows:
            if split not in ids:
                continue
            total, splits = found.get(load_id, (0, []))
            total += 0 if attempt in counted else int(count or 0)
            counted.add(attempt)
            splits.append(split)
            found[load_id] = total, splits
        return found

    def forget_splits(self, key: str, ids: Iterable[str]) -> None:
        """Record that some splits are not in the target."""
        with self._store.change() as db:
            db.executemany(
                "DELETE FROM landed WHERE into_table = ? AND id = ?", ((key, i) for i in ids)
            )

    def ids_by_uri(self, ids: Collection[str]) -> dict[str, frozenset[str]]:
        """Return the objects that some loaded splits are of, or are ranges of, and their ids."""
        found: dict[str, set[str]] = {}
        for id_, uri in self._store.rows(f"SELECT DISTINCT l.id, s.uri FROM {_LANDED_SPLITS}"):
            if id_ in ids:
                name = str(uri)
                name = name.rpartition("[")[0] if name.endswith("]") else name  # a range of it
                found.setdefault(name, set()).add(str(id_))
        return {uri: frozenset(known) for uri, known in found.items()}

    def rename_splits(self, old: str, key: str, names: Mapping[str, str]) -> None:
        """Record that what is loaded by one key is loaded by another.

        Args:
            names: ids by the old key, and by the new one.
        """
        with self._store.change() as db:
            db.executemany(
                "INSERT OR IGNORE INTO landed SELECT ?, ?, attempt_id FROM landed "
                "WHERE into_table = ? AND id = ?",
                ((key, new, old, was) for was, new in names.items()),
            )

    def explain(self, load_id: str, document: str) -> None:
        """Keep the plan of a load's last run and what came of it, as JSON without secrets."""
        with self._store.change() as db:
            db.execute("INSERT OR REPLACE INTO explained VALUES (?, ?)", (load_id, document))

    def explained(self, load_id: str) -> str | None:
        """Return the JSON that :meth:`explain` has kept; None for loads of an older rowfall."""
        rows = self._store.rows("SELECT document FROM explained WHERE load_id = ?", load_id)
        return str(rows[0][0]) if rows else None

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
        self, attempt_id: str, load_id: str, staging: str, key: str, splits: Iterable[Split]
    ) -> None:
        """Record an attempt and the name of its staging, before anything reaches the target."""
        with self._store.change() as db:
            db.execute(
                "INSERT INTO attempt VALUES (?, ?, ?, ?, 'started', NULL, NULL)",
                (attempt_id, load_id, staging, key),
            )
            db.executemany(
                "UPDATE split SET attempt_id = ? WHERE load_id = ? AND id = ?",
                ((attempt_id, load_id, s.id) for s in splits),
            )

    def attempt_committed(
        self, attempt_id: str, rows: int, moves: Sequence[StagedPartition], *, marks: str = "",
        once: bool = False, parts: Collection[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        """Record that all rows are staged and counted: from here on only publishing may happen.

        Args:
            marks: UUID of the table whose mark it is going to be, see :meth:`expected_marks`.
            once: check in the same transaction that no other attempt has loaded these splits.
            parts: staging table and UUID of each part, by which its rows can be taken out again.

        Raises:
            LedgerError: one has; nothing is recorded.
        """
        with self._store.change() as db:
            if once:
                _check_first(db, attempt_id, self.path)
                # Of one key: what is gathered beside it is never followed.
                ((key,),) = db.execute(
                    "SELECT into_table FROM attempt WHERE id = ?", (attempt_id,)
                ).fetchall()
                splits = db.execute(
                    "SELECT id FROM split WHERE attempt_id = ?", (attempt_id,)
                ).fetchall()
                if self.joined_among(key, (i for (i,) in splits)):
                    raise _taken_meanwhile("of a followed load", self.path)
            db.execute(
                "UPDATE attempt SET state = 'loaded', rows = ? WHERE id = ?", (rows, attempt_id)
            )
            if marks:
                db.execute(
                    "INSERT INTO data_mark VALUES (?, '', ?) "
                    "ON CONFLICT (uuid) DO UPDATE SET coming = excluded.coming",
                    (marks, attempt_id),
                )
            db.executemany(
                "INSERT INTO move VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (attempt_id, m.database, m.table, m.staging, m.partition_id, m.rows,
                     m.rows_before, m.highest_block, m.state)
                    for m in moves
                ),
            )  # fmt: skip
            db.executemany(
                "INSERT INTO staged_files VALUES (?, ?, ?, ?)",
                (
                    (attempt_id, m.staging, m.partition_id, m.staged_at)
                    for m in moves if m.staged_at
                ),
            )  # fmt: skip
            db.executemany(
                "INSERT INTO staged_part VALUES (?, ?, ?)",
                ((attempt_id, staging, uuid) for staging, uuid in parts),
            )

    def attached(self, attempt_id: str, staging: str) -> None:
        """Record that all parts of one staging table are in its target."""
        with self._store.change() as db:
            db.execute(
                "UPDATE move SET state = 'attached' WHERE attempt_id = ? AND staging = ?",
                (attempt_id, staging),
            )
            # The mark was written before: a table without it is an earlier state.
            db.execute(
                "UPDATE data_mark SET mark = ? WHERE coming = ?", (coming(attempt_id), attempt_id)
            )

    def attempt_published(self, attempt_id: str, key: str) -> None:
        """Record that every row is visible: the attempt's splits are loaded."""
        with self._store.change() as db:
            db.execute("UPDATE attempt SET state = 'published' WHERE id = ?", (attempt_id,))
            db.execute("UPDATE split SET state = 'landed' WHERE attempt_id = ?", (attempt_id,))
            # By force: when these rows are taken out again, the first ones are still there.
            db.execute(
                f"INSERT OR IGNORE INTO step SELECT s.load_id, '{AGAIN} ' || s.id || ' ' || "
                "l.attempt_id, 'done' FROM split s JOIN landed l ON l.into_table = ? AND "
                "l.id = s.id WHERE s.attempt_id = ? AND "
                "substr(l.attempt_id, 1, length(s.load_id) + 1) <> s.load_id || '_'",
                (key, attempt_id),
            )
            db.execute(
                "INSERT OR REPLACE INTO landed "
                "SELECT ?, id, attempt_id FROM split WHERE attempt_id = ?",
                (key, attempt_id),
            )
            db.execute("UPDATE data_mark SET mark = coming WHERE coming = ?", (attempt_id,))
            load_id, staging = db.execute(
                "SELECT load_id, staging FROM attempt WHERE id = ?", (attempt_id,)
            ).fetchone()
            if staging.endswith(SHADOW_SUFFIX):
                # A shadow whose rows the target has: one that outlives a crash is only dropped.
                shadow = target_key(key, load_id)
                db.execute("DELETE FROM landed WHERE into_table = ?", (shadow,))
                db.execute("UPDATE target_table SET uuid = '' WHERE into_table = ?", (shadow,))

    def expected_marks(self, uuid: str) -> frozenset[str]:
        """Return the possible texts of a table's mark: only "" where none was written.

        The mark lies with the rows and names the attempt that brought the last of them. A ledger
        that does not know it is older than the rows, or of another table; see
        :meth:`rowfall.engines.base.Engine.marked`.
        """
        rows = self._store.rows("SELECT mark, coming FROM data_mark WHERE uuid = ?", uuid)
        if not rows:
            return frozenset(("",))
        last, next_ = map(str, rows[0])
        return frozenset((last,) if last == next_ else (last, coming(next_), next_))

    def parts_of(self, load_id: str, key: str) -> list[LoadedParts]:
        """Return the parts that the attempts of a load have brought into a target, and its views.

        Args:
            key: of the target.
        """
        rows = self._store.rows(
            "SELECT a.id, a.rows, m.database, m.table_name, (SELECT sum(n.rows) FROM move n WHERE "
            "n.attempt_id = a.id AND n.staging = m.staging), (SELECT json_group_array(p.uuid) FROM "
            "staged_part p WHERE p.attempt_id = a.id AND p.staging = m.staging) FROM attempt a "
            "LEFT JOIN (SELECT DISTINCT attempt_id, database, table_name, staging FROM move) m ON "
            "m.attempt_id = a.id WHERE a.load_id = ? AND a.into_table = ? AND a.rows > 0 AND "
            "a.state = 'published' ORDER BY a.rowid",
            load_id, key,
        )  # fmt: skip
        return [
            LoadedParts(str(attempt), int(count), str(database or ""), str(table or ""),
                        int(own or 0), tuple(json.loads(uuids or "[]")))
            for attempt, count, database, table, own, uuids in rows
        ]  # fmt: skip

    def marks(self, attempt_id: str) -> str:
        """Return the UUID of the table whose mark an attempt is going to be; "" for none."""
        rows = self._store.rows("SELECT uuid FROM data_mark WHERE coming = ?", attempt_id)
        return str(rows[0][0]) if rows else ""

    def accept_mark(self, uuid: str, mark: str) -> None:
        """Record that what the mark of a table says now is right."""
        with self._store.change() as db:
            db.execute("INSERT OR REPLACE INTO data_mark VALUES (?, ?, ?)", (uuid, mark, mark))

    def loaded_elsewhere(self, load_id: str, ids: Iterable[str]) -> None:
        """Record that another process has loaded these splits of the load."""
        with self._store.change() as db:
            db.executemany(
                "UPDATE split SET state = 'landed' WHERE load_id = ? AND id = ?",
                ((load_id, i) for i in ids),
            )

    def swapped(self, shadow: str, key: str, uuid: str) -> None:
        """Record that a shadow table has become the target.

        Args:
            shadow: its key until now.
            key: of the target.
            uuid: of the table.
        """
        with self._store.change() as db:
            _forget_stopped(db, key)
            db.execute("DELETE FROM landed WHERE into_table = ?", (key,))
            joined_loads.drop(db, "into_table", key)
            db.execute("UPDATE OR REPLACE landed SET into_table = ? WHERE into_table = ?",
                       (key, shadow))  # fmt: skip
            db.execute("DELETE FROM target_table WHERE into_table = ?", (shadow,))
            db.execute("INSERT OR REPLACE INTO target_table VALUES (?, ?)", (key, uuid))

    def upserted(self, load_id: str, shadow: str, key: str, uuid: str) -> None:
        """Record that the target has another table, with what a load has gathered in its shadow.

        Args:
            shadow: the shadow's key. ``key``: of the target. ``uuid``: of its table.
        """
        with self._store.change() as db:
            _forget_stopped(db, key)
            gathered = "id IN (SELECT id FROM landed WHERE into_table = ?)"
            db.execute(
                "UPDATE attempt SET state = 'published' WHERE id IN (SELECT attempt_id FROM split "
                f"WHERE load_id = ? AND {gathered})",
                (load_id, shadow),
            )
            db.execute(
                "INSERT OR REPLACE INTO landed SELECT ?, id, attempt_id FROM split WHERE "
                f"load_id = ? AND {gathered}",
                (key, load_id, shadow),
            )
            db.execute("DELETE FROM landed WHERE into_table = ?", (shadow,))
            # A shadow that outlives a crash is only dropped.
            db.execute("UPDATE target_table SET uuid = '' WHERE into_table = ?", (shadow,))
            db.execute("INSERT OR REPLACE INTO target_table VALUES (?, ?)", (key, uuid))

    def forget(self, load_id: str) -> int:
        """Record that what this load loaded counts as not loaded; return the number of splits."""
        with self._store.change() as db:
            whose = "FROM landed WHERE attempt_id IN (SELECT id FROM attempt WHERE load_id = ?)"
            # Marks of files are no splits.
            ((gone,),) = db.execute(f"SELECT count(*) {whose} AND id NOT LIKE '~%'", (load_id,))
            db.execute(f"DELETE {whose}", (load_id,))
            joined_loads.remove(db, load_id)
            gone += joined_loads.drop(db, "load_id", load_id)
            db.execute(
                "UPDATE split SET state = 'pending', attempt_id = NULL WHERE load_id = ?",
                (load_id,),
            )
            # A forgotten load is over: the same command makes a new one.
            db.execute("UPDATE load SET fingerprint = '' WHERE id = ?", (load_id,))
            return int(gone)

    def join_load(self, load_id: str, into: str, key: str, *, ranges: bool) -> bool:
        """Record what a load has loaded as loaded by another one, and forget the load.

        For the batches of a source that is followed: one load for each would fill the ledger.

        Args:
            into: the other load, of the same source and target.
            key: of the target.
            ranges: join ranges of a stream that touch, and keep whole files in the room of their
                ids, where no journal knows them one by one; otherwise the journal has them.

        Returns:
            False where that cannot be done: it has made tables, or is not done.
        """
        with self._store.change() as db:
            return joined_loads.join(db, load_id, into, key, ranges=ranges)

    def joined_to(self, load_id: str) -> set[str]:
        """Return the loads that were joined to one, which the record beside a table names."""
        return joined_loads.names(self._store.rows(joined_loads.QUERY, load_id))

    def give_up(self, load_id: str) -> None:
        """Record that no command goes on with an unfinished load; what it loaded stays loaded."""
        with self._store.change() as db:
            db.execute("UPDATE load SET fingerprint = '' WHERE id = ?", (load_id,))

    def attempt_ended(self, attempt_id: str, state: str, error: str) -> None:
        """Record that an attempt is ``failed`` or ``lost``: it has neither staging nor rows."""
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

    def published_attempts(self) -> tuple[int, int] | None:
        """Return two numbers, rows and last attempt, that change when an attempt becomes visible.

        None while a living process publishes one.
        """
        owners = self._store.rows(
            "SELECT l.owner FROM attempt a JOIN load l ON l.id = a.load_id "
            "WHERE a.state = 'loaded' AND l.state = 'running'"
        )
        if any(not leases.has_ended(owner, self.path) for (owner,) in owners):
            return None
        # Not their number: of loads that were joined only one attempt is left.
        ((rows, last),) = self._store.rows(
            "SELECT coalesce(sum(rows), 0), coalesce(max(rowid), 0) FROM attempt "
            "WHERE state = 'published'"
        )
        return int(rows), int(last)

    def half_published(self) -> bool:
        """Tell whether an attempt may have been killed while its rows became visible."""
        ((count,),) = self._store.rows("SELECT count(*) FROM attempt WHERE state = 'loaded'")
        return bool(count)

    def attempts(self, load_id: str) -> int:
        """Return the number of the last attempt of a load, which is in its name; 0: there is none.

        Of two that began at once, only the later one may have been written down.
        """
        number = "CAST(ltrim(substr(id, length(load_id) + 2), 'whole') AS INTEGER)"
        rows = self._store.rows(
            f"SELECT coalesce(max({number}), 0) FROM attempt WHERE load_id = ?",
            load_id,
        )
        return int(str(rows[0][0]))

    def split_names(self, attempt_id: str) -> list[str]:
        """Return the files and ranges of an attempt."""
        rows = self._store.rows("SELECT uri FROM split WHERE attempt_id = ?", attempt_id)
        return [str(name) for (name,) in rows]

    def attempts_into(self, staging: str) -> int:
        """Return the number of attempts that have written to one staging table or file."""
        rows = self._store.rows("SELECT count(*) FROM attempt WHERE staging = ?", staging)
        return int(str(rows[0][0]))

    def ended_in_vain(self, load_id: str) -> dict[str, str]:
        """Return the staging of each lost or failed attempt of a load, by the attempt's id."""
        rows = self._store.rows(
            "SELECT id, staging FROM attempt WHERE load_id = ? AND state IN ('lost', 'failed')",
            load_id,
        )
        return {str(attempt): str(staging) for attempt, staging in rows}

    def attempt_state(self, attempt_id: str) -> str:
        rows = self._store.rows("SELECT state FROM attempt WHERE id = ?", attempt_id)
        return str(rows[0][0]) if rows else ""

    def open_attempts(self) -> list[Attempt]:
        """Return the attempts that were left unfinished.

        They belong to loads that have ended, that this process runs, or whose process is dead.
        """
        rows = self._store.rows(
            "SELECT a.id, a.load_id, a.staging, a.state, a.rows, a.into_table, "
            "CASE l.state WHEN 'running' THEN l.owner ELSE '' END "
            "FROM attempt a JOIN load l ON l.id = a.load_id "
            "WHERE a.state IN ('started', 'loaded') ORDER BY a.rowid"
        )
        found = [Attempt(*row) for row in rows]
        mine = leases.this_process()
        return [
            a for a in found
            if a.owner in ("", mine) or leases.has_ended(a.owner, self.path)
        ]  # fmt: skip

    def moves(self, attempt_id: str) -> list[StagedPartition]:
        rows = self._store.rows(
            "SELECT database, table_name, staging, partition_id, rows, rows_before, "
            "highest_block, state, '', coalesce(changed_at, 0) FROM move "
            "LEFT JOIN staged_files USING (attempt_id, staging, partition_id) "
            "WHERE attempt_id = ? ORDER BY staging, partition_id",
            attempt_id,
        )
        return [StagedPartition(*row) for row in rows]

    def stopped(self, key: str) -> dict[str, int]:
        """Return the rows of attempts that were committed for a table that is gone now."""
        rows = self._store.rows(
            "SELECT id, rows FROM attempt WHERE into_table = ? AND state = 'lost' AND rows > 0 "
            "AND id IN (SELECT attempt_id FROM split)",  # not forgotten, and not tried again
            key,
        )
        return {str(id_): int(str(count)) for id_, count in rows}

    def loaded_rows(self, key: str) -> int:
        """Return the rows of all published attempts whose splits count as loaded."""
        rows = self._store.rows(
            "SELECT coalesce(sum(rows), 0) FROM attempt WHERE state = 'published' AND id IN "
            "(SELECT attempt_id FROM landed WHERE into_table = ?)",
            key,
        )
        return int(str(rows[0][0]))

    def last_loaded(self, key: str) -> str:
        """Return the last attempt that has brought rows which count as loaded; "" for none."""
        rows = self._store.rows(
            "SELECT id FROM attempt WHERE state = 'published' AND rows > 0 AND id IN "
            "(SELECT attempt_id FROM landed WHERE into_table = ?) ORDER BY rowid DESC LIMIT 1",
            key,
        )
        return str(rows[0][0]) if rows else ""

    def last_blocks(self, key: str, database: str, table: str) -> dict[str, int]:
        """Return the highest number that a part of a load may have got, by partition.

        Of the attempts whose splits count as loaded; empty where that is not known of each of them.
        """
        landed = (
            "SELECT id FROM attempt WHERE state = 'published' AND rows > 0 AND id IN "
            "(SELECT attempt_id FROM landed WHERE into_table = ?)"
        )
        rows = self._store.rows(
            # The first part of a table has the number 1, and one without parts notes -1.
            f"SELECT m.partition_id, max(m.highest_block, 0) + p.count FROM ({landed}) a "
            "LEFT JOIN move m ON m.attempt_id = a.id AND m.database = ? AND m.table_name = ? "
            # Which of them is in which partition is not recorded.
            "LEFT JOIN (SELECT attempt_id, staging, count(*) AS count FROM staged_part GROUP BY "
            "attempt_id, staging) p ON p.attempt_id = a.id AND p.staging = m.staging",
            key, database, table,
        )  # fmt: skip
        found: dict[str, int] = {}
        for partition, highest in rows:
            if highest is None:
                return {}
            found[str(partition)] = max(found.get(str(partition), 0), int(str(highest)))
        return found

    def has_staged(self, uuids: Iterable[str]) -> bool:
        """Tell whether one of some parts is as an attempt has staged it."""
        staged = {str(uuid) for (uuid,) in self._store.rows("SELECT uuid FROM staged_part")}
        return not staged.isdisjoint(uuids)

    def loaded_attempts(self, key: str) -> list[tuple[int, list[str]]]:
        """Return (rows, split ids) of the published attempts whose splits count as loaded."""
        found: dict[str, tuple[int, list[str]]] = {}
        rows = self._store.rows(
            "SELECT l.id, a.id, a.rows FROM landed l JOIN attempt a ON a.id = l.attempt_id "
            "WHERE l.into_table = ? AND a.state = 'published'",
            key,
        )
        for split, attempt, count in rows:
            found.setdefault(str(attempt), (int(str(count)), []))[1].append(str(split))
        return list(found.values())

    def gathered(self, key: str) -> dict[str, list[str]]:
        """Return the ids of the splits that are loaded by a key, by their attempts."""
        found: dict[str, list[str]] = {}
        rows = self._store.rows(
            "SELECT attempt_id, id FROM landed WHERE into_table = ? ORDER BY attempt_id, id", key
        )
        for attempt, split in rows:
            found.setdefault(str(attempt), []).append(str(split))
        return found

    def attempts_gathered(self, key: str) -> list[tuple[str, str, list[str]]]:
        """Return (load, attempt, ids of loaded splits) of what was gathered beside a target.

        Args:
            key: of the target; attempts of a forgotten load have no ids any more.
        """
        rows = self._store.rows(
            "SELECT a.load_id, a.id, a.into_table FROM attempt a WHERE a.state = 'published' "
            "ORDER BY a.rowid"
        )
        loaded: dict[str, dict[str, list[str]]] = {}
        found = []
        for load_id, attempt, into in rows:
            own = target_key(key, str(load_id))
            if into == own:
                if own not in loaded:
                    loaded[own] = self.gathered(own)
                known = loaded[own]
                found.append((str(load_id), str(attempt), known.get(str(attempt), [])))
        return found

    def close(self) -> None:
        self._store.close()


def _check_first(db: sqlite3.Connection, attempt_id: str, path: Path) -> None:
    """Check that no other attempt has loaded the splits of an attempt, or is about to.

    One process at a time uses a folder, so this never happens while its lock holds.

    Raises:
        LedgerError: one has.
    """
    taken = db.execute(
        "SELECT l.attempt_id FROM split s JOIN attempt a ON a.id = s.attempt_id "
        "JOIN landed l ON l.into_table = a.into_table AND l.id = s.id WHERE s.attempt_id = ? "
        # In this order: hardly ever is there another one, and its splits need not be looked for.
        "UNION ALL SELECT o.id FROM attempt a CROSS JOIN attempt o ON o.into_table = a.into_table "
        "AND o.state = 'loaded' AND o.id <> a.id CROSS JOIN split t ON t.attempt_id = o.id "
        "CROSS JOIN split s ON s.load_id = a.load_id AND s.id = t.id AND +s.attempt_id = a.id "
        "WHERE a.id = ? LIMIT 1",
        (attempt_id, attempt_id),
    ).fetchone()
    if taken is not None:
        raise _taken_meanwhile(str(taken[0]), path)


def _taken_meanwhile(attempt: str, path: Path) -> LockLostError:
    return LockLostError(
        f"another rowfall has loaded the same files meanwhile (attempt {attempt}): two of "
        f"them use {path.parent} at once, so its lock file was removed, or locks are not "
        "shared on this file system",
        hint="Nothing was loaded twice. Wait until the other one has ended, then run the same "
        "command again.",
    )


def _forget_stopped(db: sqlite3.Connection, key: str) -> None:
    """Let nobody ask any more what became of attempts that a table of the past was to get."""
    db.execute(
        "UPDATE attempt SET state = 'failed' WHERE into_table = ? AND state = 'lost'", (key,)
    )


def _source_at(source: str, folder: str) -> str:
    return source if "://" in source or source == "-" else os.path.join(folder, source)
