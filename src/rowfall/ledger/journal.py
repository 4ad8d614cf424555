"""The journal: a small append-only table beside the target, for all rowfalls that load into it.

Its order decides, never a clock. MergeTree numbers inserted blocks under the lock that makes them
visible, so whoever has written a line sees every line before it. From the lines alone follows

* who holds a split: the earliest claim on it that has not ended (released or expired);
* whether an attempt may publish: its ``commit`` stands before any ``expire`` of it. From then on
  its rows can only be published, by its owner or, when that one is dead, by anybody else.

A lease is only about when to write ``expire``: a clock that jumps costs an attempt, never a row.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.listing import MARK, Split, range_of, without_salt
from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.engines.base import Engine
from rowfall.ledger import leases
from rowfall.ledger.joined_ids import JOINED, JoinedIds
from rowfall.ledger.leases import AddedRows, Lease, Ownership, StagedPartition
from rowfall.systems.clickhouse.codes import ACCESS_DENIED
from rowfall.systems.clickhouse.staging import TableFacts

TABLE = "_rowfall_journal"
# A process of another machine that has written nothing for so long counts as dead.
LEASE_SECONDS = 60
# Settings of the table.
_DURABLE = "fsync_after_insert = 1, fsync_part_directory = 1"
QUIT = "quit"
# In the names of attempts that only say what a table holds.
KEPT = "kept"
_IS_KEPT = f"attempt LIKE '%\\_{KEPT}%'"
# In the detail of a line: UUIDs of tables whose rows are in this one.
_FOLLOWS = "follows"
# The same, of the load whose rows are being taken out.
_UNDO = "undo"
# The same, of rows that were there before the first load.
ACCEPTED = "accepted"
_ACCEPTS = json.dumps({ACCEPTED: True})
# An event, and the field of EventBlocks that holds its block.
_EVENTS = {
    "claim": "claimed",
    "count": "counted",
    "commit": "committed",
    "expire": "expired",
    "release": "released",
    "landed": "loaded",  # on disk the word of the first version, which others may still run
    "forget": "forgotten",
}

# Attempts that are joined at once, and the fewest that are worth it: a mutation of the journal.
MOST_JOINED, LEAST_JOINED = 2000, 50
# In place of a load, in the name of the attempt that stands for those that were joined.
_WHOLE = "joined"
# Who has asked about partitions counts in seconds, and in minutes where a process hangs.
JOIN_AGE_SECONDS = 60

# Owners of the loads that this process runs now. A load that has ended in another way than by
# the end of its process is as dead as any.
RUNNING: set[str] = set()
# Three of these lines may get lost before a lease ends.
RENEW_SECONDS = LEASE_SECONDS / 4
# 32 digits a split id: a line of some 350 KB, far below max_query_size.
SPLITS_PER_LINE = 10_000
# After a lost connection it is unknown whether a line was written: it is looked for, then
# written again.
MOST_APPENDS = 3
PAUSE_SECONDS = 0.2
JOURNAL_LANE = 97
# Part of the two seconds after Ctrl-C.
QUIT_SECONDS = 0.4


@dataclass(slots=True)
class EventBlocks:
    """The block number of the first line of each event of an attempt, 0 where there is none.

    After ``counted`` the attempt asked what the target holds, to write it into its commit.
    """

    claimed: int = 0
    counted: int = 0
    committed: int = 0
    expired: int = 0
    released: int = 0
    loaded: int = 0
    forgotten: int = 0


@dataclass(slots=True)
class JournalEntry:
    """One attempt as the journal knows it.

    Attributes:
        nodes: those that it stages on, and on which it becomes visible; "" is the journal's own.
        splits: those that were asked about, each with the block of the line that claims it.
        idle: seconds since its owner's last line, by the server's clock.
        quit: its owner has ended and said so.
        seen: of other databases, the last line of their journals when the count was made.
    """

    attempt: str
    owner: str
    blocks: EventBlocks = field(default_factory=EventBlocks)
    idle: float = 0.0
    rows: int = 0
    moves: tuple[StagedPartition, ...] = ()
    nodes: tuple[str, ...] = ("",)
    splits: dict[str, int] = field(default_factory=dict)
    quit: bool = False
    seen: dict[str, int] = field(default_factory=dict)

    def moves_on(self, node: str) -> tuple[StagedPartition, ...]:
        return tuple(m for m in self.moves if m.node in ("", node))

    @property
    def binding(self) -> bool:
        """True when its commit counts: its rows can only be published.

        Without its claim the journal was set back in between, and nobody else knows its splits.
        """
        at = self.blocks
        return bool(at.claimed and at.committed) and not 0 < at.expired < at.committed

    @property
    def ended(self) -> bool:
        """True when the attempt holds nothing any more and never will."""
        at = self.blocks
        return not at.loaded and bool(at.released or (at.expired and not self.binding))

    @property
    def over(self) -> bool:
        """True when nothing is to be done about the attempt any more."""
        return bool(self.blocks.loaded or self.ended or self.blocks.forgotten)

    @property
    def dead(self) -> bool:
        """True when the attempt's owner has ended, or has been silent for longer than a lease."""
        here = self.owner.startswith(f"{leases.this_process()} ") and self.owner not in RUNNING
        # A last line from the far future: the clock has jumped back, and a living owner would
        # have written since, or will lose an attempt.
        silent = abs(self.idle) > LEASE_SECONDS
        over = leases.has_ended(self.owner) or leases.is_presumed_ended(self.owner)
        return self.quit or here or over or silent


@dataclass(frozen=True, slots=True)
class LastLoaded:
    """The attempt that was the last to bring rows into a table.

    Attributes:
        at: when it was visible, by the server's clock, as UTC.
        moves: its partitions, with the numbers that they had before.
    """

    at: str
    moves: tuple[StagedPartition, ...]


@dataclass(frozen=True, slots=True)
class FollowedExchange:
    """A table whose place another one has taken, with its rows.

    Attributes:
        before: its UUID. ``name``: that it has since. ``done``: it is dropped.
        lives: the process that has exchanged the two still runs.
    """

    before: str
    name: str
    done: bool
    lives: bool


@dataclass(frozen=True, slots=True)
class TableLoads:
    """Attempts that are loaded into one table, or were to be, under the same names.

    Attributes:
        into: UUID of the table. ``tables``: (database, name) of those that got the rows; the
            tables behind views are among them.
        rows: of them. ``last``: time of the last line, for the order only.
    """

    into: str
    tables: frozenset[tuple[str, str]]
    rows: int
    last: str


class Journal:
    """The journal of one target table.

    Args:
        database: where the target and its journal are.
        target_uuid: of the target table: a table of the same name made later starts anew.
        load_id: of the load that writes, "" to only read.
        salt: added to the ids of a load that loads again what is loaded (``--force``).
        shard_of: of a cluster, the shard of each node.
    """

    def __init__(
        self, engine: Engine, database: str, target_uuid: str, load_id: str = "", salt: str = "",
        shard_of: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self._shard_of = shard_of or {}
        self._engine = engine
        self._database = database
        self._target_uuid = target_uuid
        self._owner = f"{leases.this_process()} {load_id} {secrets.token_hex(4)}"
        self._salt = salt
        self._held: set[str] = set()
        self._announced = False
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None

    @property
    def _name(self) -> str:
        return sql.qualified(self._database, TABLE)

    @property
    def joined(self) -> JoinedIds:
        """Return the ids that are not in the lines any more."""
        return JoinedIds(self._ask, self._run, self._database, self._target_uuid)

    def create(self) -> None:
        """Make the journal where it is missing.

        Raises:
            RowfallError: no right to; the server's message names it.
        """
        # Blocks keep their numbers through merges only with enable_block_number_column. A line is
        # on disk when it is written: rows whose commit was lost would be loaded twice.
        self._engine.run(Statement(SqlText.of(
            f"CREATE TABLE IF NOT EXISTS {self._name} (at DateTime64(3, 'UTC') DEFAULT now64(3), "
            "event LowCardinality(String), into UUID, owner String, attempt String, "
            "splits Array(String), rows UInt64, detail String) ENGINE = MergeTree "
            f"ORDER BY (into, attempt) SETTINGS enable_block_number_column = 1, {_DURABLE} "
            "COMMENT 'rowfall: which files are loaded here, and who is loading'"
        )), lane=JOURNAL_LANE)  # fmt: skip

    # --- leases -------------------------------------------------------------------------------

    def announce(self) -> None:
        """Record that this load lives, before it makes a table that outlives an attempt."""
        RUNNING.add(self._owner)
        self._announced = True
        self._append("alive", "")

    def lease(self, attempt: str, splits: Sequence[Split], nodes: str = "") -> Lease:
        """Lease splits. Only a lease that is ``whole`` may be used; release any other.

        Args:
            nodes: of a cluster, those that the attempt stages on, with commas between them; ""
                where there is only one.
        """
        RUNNING.add(self._owner)
        self._held.add(attempt)
        # Marks first: were they behind the lines of a long claim, another's claim on the file in
        # between would be later than the ranges and earlier than the marks.
        marks = dict.fromkeys(s.mark for s in splits if s.whole and not s.continued)
        ids = [self._id(i) for i in (*marks, *(s.id for s in splits))]
        for start in range(0, len(ids), SPLITS_PER_LINE):
            lines = ids[start : start + SPLITS_PER_LINE]
            self._append("claim", attempt, splits=lines, detail=nodes)
        return self._judge(attempt, splits)

    def _judge(self, attempt: str, splits: Sequence[Split]) -> Lease:
        # Who holds a file holds its ranges, and the other way round.
        wanted: dict[str, list[str]] = {}
        for split in splits:
            for id_ in (split.id, *split.overlapping):
                wanted.setdefault(self._id(id_), []).append(self._id(split.id))
        # Who claims ranges of a stream may have cut it at other places. What is loaded before
        # the first of these cannot touch them.
        lows: dict[str, int] = {}
        for split in splits:
            if split.continued:
                start = split.start or 0
                lows[split.whole] = min(start, lows.get(split.whole, start))
        entries = self._entries(touching=[*wanted, JOINED], lows=lows)
        mine = entries.pop(attempt, None)
        if mine is None:
            raise self._lost_line()
        loaded: set[str] = set()
        if any(JOINED in entry.splits for entry in entries.values()):
            # After the lines: what was moved since they were read is there already.
            here = self.joined.among(wanted)
            loaded |= {own for i in here for own in wanted[i]}
        busy: set[str] = set()
        lost: dict[str, set[str]] = {}
        for other in entries.values():
            if other.blocks.forgotten or other.ended or JOINED in other.splits:
                continue
            shared = _shared(other.splits, wanted, self._salt) if lows else wanted
            if other.blocks.loaded:
                _no_ranges(other, shared, wanted)
                loaded |= {own for i in other.splits for own in shared.get(i, ())}
                continue
            # Split by split: of two long claims, whose lines alternate, neither is the earlier.
            held = {
                own for i, at in other.splits.items() for own in shared.get(i, ())
                if other.binding or at < mine.splits[own]
            }  # fmt: skip
            if held and other.dead:
                lost[other.attempt] = held
            else:
                busy |= held
        strip = len(self._salt)

        def back(ids: set[str]) -> frozenset[str]:
            return frozenset(i[: len(i) - strip] for i in ids)

        of_lost = {name: back(held) for name, held in lost.items()}
        return Lease(back(loaded), back(busy - loaded), tuple(lost), of_lost)

    def _lost_line(self) -> LedgerError:
        return LedgerError(
            f"the journal {self._database}.{TABLE} has lost a line that was written",
            hint="Only rowfall may change that table.",
        )

    def counting(self, attempt: str) -> None:
        """Record that what the target holds is counted next, with what is loaded before.

        Lines of other journals have an order of their own: the last one of each is recorded.
        """
        seen = {}
        for database in self._other_journals():
            with suppress(RowfallError):  # one that may not be read tells nothing later, either
                name = sql.qualified(database, TABLE)
                seen[database] = self._ask(f"SELECT max(_block_number) FROM {name}")[0][0]
        self._append("count", attempt, detail=json.dumps(seen) if seen else "")

    def commit(self, attempt: str, rows: int, moves: Sequence[StagedPartition]) -> bool:
        """Record the rows and moves of an attempt: the point of no return.

        Returns:
            True when the rows are now bound to be published. False when another took this
            process for dead and has expired the attempt.
        """
        detail = json.dumps([
            [m.database, m.table, m.staging, m.partition_id, m.rows, m.rows_before,
             m.highest_block, m.state, *([m.node] if m.node else [])] for m in moves
        ])  # fmt: skip
        self._append("commit", attempt, rows=rows, detail=detail)
        entry = self._entries(attempts=[attempt]).get(attempt)
        bound = entry is not None and entry.binding and not entry.blocks.released
        if not bound:
            self._held.discard(attempt)
        return bound

    def loaded(self, attempt: str) -> None:
        """Record that all rows of a committed attempt are visible."""
        self._append("landed", attempt)
        self._held.discard(attempt)

    def release(self, attempt: str) -> None:
        """Give up what an attempt holds; its rows are not and will not be visible."""
        self._append("release", attempt)
        self._held.discard(attempt)

    def added(self, attempt: str, move: StagedPartition, node: str = "") -> AddedRows:
        """Return what others have added to the partition of a move since this attempt counted it.

        Others are all that any journal of this server knows: loads into another table may fill this
        one through views.

        Args:
            node: which of the attempt's nodes is meant.
        """
        mine = self._entries(attempts=[attempt])[attempt]
        others = self._entries(naming=move.table)
        others.pop(attempt, None)
        found = list(others.values())
        for database in self._other_journals():
            seen = mine.seen.get(database, 0)
            try:
                entries = self._entries(naming=move.table, database=database).values()
            except RowfallError as error:
                if error.transient:
                    raise
                continue  # not for this user to read: a sample of the rows has to do
            found += [
                _unordered(e) for e in entries if e.binding and not 0 < e.blocks.loaded <= seen
            ]
        return added(mine, found, move, node or mine.nodes[0], self._shard_of)

    def ownership(self, attempt: str) -> Ownership:
        """Return LOADED or TAKEN where others have ended an attempt, by the journal; else OWN."""
        entry = self._entries(attempts=[attempt]).get(attempt, JournalEntry(attempt, ""))
        return (
            Ownership.LOADED
            if entry.blocks.loaded
            else Ownership.TAKEN
            if entry.blocks.expired
            else Ownership.OWN
        )

    def expire(self, attempt: str) -> JournalEntry:
        """End an attempt of a dead process and return it; publish it if it is ``binding``."""
        self._append("expire", attempt)
        entry = self._entries(attempts=[attempt]).get(attempt)
        if entry is None:
            raise self._lost_line()
        return entry

    def forget_attempt(self, attempt: str) -> None:
        """Make a committed attempt hold nothing any more, whose rows nobody can publish."""
        self._append("forget", attempt)

    def forget(self, load_id: str, loads: Collection[str] = ()) -> int:
        """Make what a load has loaded count as not loaded.

        Args:
            loads: that were joined to it, see :mod:`rowfall.ledger.joined_loads`.

        Returns:
            The number of attempts, and of the ids that are not in the lines any more.
        """
        whose = {load_id, *loads}
        found = [e.attempt for e in self.entries() if e.attempt.split("_")[0] in whose]
        for attempt in found:
            self._append("forget", attempt)
        return len(found) + (self.joined.forget(whose) if self.has_joined() else 0)

    # --- a table that keeps its rows and has another UUID or name -----------------------------

    def carry_over(self, before: str) -> None:
        """Write once more about this table what has loaded in another one, whose rows it holds."""
        into = f"into = toUUID({quote(before)})"
        self._run(
            f"INSERT INTO {self._name} (event, into, owner, attempt, splits, rows, detail) SELECT "
            f"event, toUUID({quote(self._target_uuid)}), {quote(self._owner)}, attempt, splits, "
            f"rows, detail FROM {self._name} WHERE {into} AND event IN ('claim', 'commit', "
            f"'landed') AND attempt IN (SELECT attempt FROM {self._name} WHERE {into} AND "
            f"event = 'landed') AND attempt NOT IN (SELECT attempt FROM {self._name} WHERE {into} "
            "AND event = 'forget') ORDER BY _block_number"
        )
        if self.has_joined():
            self.joined.carry_over(before)

    def keep(self, load_id: str, ids: Sequence[str], rows: int) -> None:
        """Record that splits of a load are in this table, of which no line tells any more."""
        if not ids:
            return
        attempt = f"{load_id}_{KEPT}{secrets.token_hex(3)}"
        for start in range(0, len(ids), SPLITS_PER_LINE):
            self._append("claim", attempt, splits=ids[start : start + SPLITS_PER_LINE])
        self._append("commit", attempt, rows=rows, detail="[]")
        self._append("landed", attempt)

    def follows(self, before: str, name: str) -> None:
        """Record that this table takes the place of another one, whose rows it holds.

        A line that tells of life may hold more: older versions do not look at it.

        Args:
            before: UUID of the other one. ``name``: that it has afterwards.
        """
        older = Journal(self._engine, self._database, before).predecessors()
        detail = json.dumps({_FOLLOWS: [before, *sorted(older)], "name": name})
        self._append("alive", "", detail=detail)

    def follows_no_more(self, name: str) -> None:
        """Record that the table before this one is dropped, with all that was to be done."""
        self._append("alive", "", detail=json.dumps({"done": name}))

    def predecessors(self) -> set[str]:
        """Return the UUIDs of tables whose rows this one holds."""
        return {uuid for line, _ in self._details() for uuid in line.get(_FOLLOWS, ())}

    def followed(self) -> list[FollowedExchange]:
        """Return the tables that this one has taken the place of, oldest first."""
        lines = self._details()
        done = {line["done"] for line, _ in lines if "done" in line}
        return [
            FollowedExchange(line[_FOLLOWS][0], line["name"], line["name"] in done, lives)
            for line, lives in lines if _FOLLOWS in line
        ]  # fmt: skip

    def _details(self) -> list[tuple[dict[str, Any], bool]]:
        """Return the details in "alive" events, each with whether its owner is alive."""
        into = f"into = toUUID({quote(self._target_uuid)})"
        rows = self._ask(
            f"SELECT detail, owner, countIf(event = '{QUIT}') OVER (PARTITION BY owner), "
            "dateDiff('millisecond', argMax(at, _block_number) OVER (PARTITION BY owner), "
            f"now64(3)) / 1000, event FROM {self._name} WHERE {into} AND owner IN "
            f"(SELECT owner FROM {self._name} WHERE {into} AND event = 'alive' AND detail != '') "
            "ORDER BY _block_number"
        )
        return [
            (json.loads(detail), not JournalEntry("", str(owner), idle=idle, quit=bool(quits)).dead)
            for detail, owner, quits, idle, event in rows
            if event == "alive" and detail
        ]

    def forget_names(self, names: Collection[tuple[str, str]] | None) -> None:
        """Make what is loaded into this table count as not loaded.

        Args:
            names: of attempts that went to a table of one of these names; None for all.
        """
        wanted = None if names is None else set(names)
        if wanted is None and self.has_joined():
            self.joined.forget_all()
        for entry in self.entries():
            tables = {(m.database, m.table) for m in entry.moves}
            at = entry.blocks
            if at.loaded and not at.forgotten and (wanted is None or tables & wanted):
                self._append("forget", entry.attempt)

    # --- reading ------------------------------------------------------------------------------

    def entries(self) -> list[JournalEntry]:
        """Return every attempt into this table, without its splits."""
        return list(self._entries().values())

    def loads(self) -> dict[str, bool]:
        """Return the loads into any table of the database, each with whether its process lives."""
        rows = self._ask(
            f"SELECT owner, countIf(event = '{QUIT}'), dateDiff('millisecond', "
            f"argMax(at, _block_number), now64(3)) / 1000 FROM {self._name} GROUP BY owner"
        )
        found: dict[str, bool] = {}
        for owner, quits, idle in rows:
            load_id = str(owner).split(" ")[-2]
            alive = not JournalEntry("", str(owner), idle=idle, quit=bool(quits)).dead
            found[load_id] = alive or found.get(load_id, False)
        return found

    def announce_undo(self, load_id: str) -> bool:
        """Record that this process takes out the rows of a load; return True where others do, too.

        Of two that begin at the same moment both are told so.
        """
        RUNNING.add(self._owner)
        self._announced = True
        self._append("alive", "", detail=json.dumps({_UNDO: load_id}))
        return self.is_undone_now(load_id)

    def is_undone_now(self, load_id: str) -> bool:
        """Tell whether another living process takes out the rows of a load."""
        said = quote(json.dumps({_UNDO: load_id}))
        rows = self._ask(
            f"SELECT owner, countIf(event = '{QUIT}'), dateDiff('millisecond', "
            f"argMax(at, _block_number), now64(3)) / 1000 FROM {self._name} WHERE owner IN "
            f"(SELECT owner FROM {self._name} WHERE event = 'alive' AND detail = {said}) "
            "GROUP BY owner"
        )
        return any(
            owner != self._owner
            and not JournalEntry("", str(owner), idle=idle, quit=bool(quits)).dead
            for owner, quits, idle in rows
        )

    def tables_of(self, loads: Collection[str]) -> list[str]:
        """Return the UUIDs of the tables that attempts of some loads are for."""
        names = quoted_list(loads)
        rows = self._ask(
            f"SELECT DISTINCT toString(into) FROM {self._name} WHERE event = 'claim' AND "
            f"splitByChar('_', attempt)[1] IN ({names})"
        )
        return [str(uuid) for (uuid,) in rows]

    def place(self) -> int:
        """Return the number of the newest line."""
        return int(self._ask(f"SELECT max(_block_number) FROM {self._name}")[0][0])

    def loaded_by(self, loads: Collection[str], behind: int) -> dict[str, tuple[int, int]]:
        """Return the rows and splits that each of some loads has brought into this table.

        Args:
            behind: what was loaded by the line of this number is left out.
        """
        if not loads:
            return {}
        found = self._ask(
            "SELECT splitByChar('_', attempt)[1] AS load, sum(count), sum(files) FROM (SELECT "
            "attempt, argMinIf(rows, _block_number, event = 'commit') AS count, arrayCount(s -> "
            f"NOT startsWith(s, {quote(MARK)}), groupUniqArrayArrayIf(splits, event = 'claim')) "
            f"AS files FROM {self._name} WHERE into = toUUID({quote(self._target_uuid)}) AND "
            f"splitByChar('_', attempt)[1] IN ({quoted_list(loads)}) GROUP BY attempt HAVING "
            f"minIf(_block_number, event = 'landed') > {behind} AND countIf(event = 'forget') = 0) "
            "GROUP BY load"
        )
        return {str(load): (int(rows), int(files)) for load, rows, files in found}

    def attempts_of(self, load_id: str) -> list[str]:
        """Return the attempts of a load into any table, without what was only kept."""
        rows = self._ask(
            f"SELECT DISTINCT attempt FROM {self._name} WHERE "
            f"startsWith(attempt, {quote(load_id + '_')}) AND NOT {_IS_KEPT}"
        )
        return [str(attempt) for (attempt,) in rows]

    def there(self) -> bool:
        """Tell whether the journal exists."""
        # With a column: without one 24.10 takes ten times the CPU (17 ms).
        found = self._ask(
            f"SELECT name FROM system.tables WHERE database = {quote(self._database)} "
            f"AND name = {quote(TABLE)}"
        )
        return bool(found)

    def tells(self) -> bool:
        """Return True where any line is about the table."""
        into = f"into = toUUID({quote(self._target_uuid)})"
        return bool(self._ask(f"SELECT 1 FROM {self._name} WHERE {into} LIMIT 1"))

    def accept(self) -> None:
        """Record that the rows which the table holds are none of a load's: a line about it."""
        self._append("alive", "", detail=_ACCEPTS)

    def accepts_since(self) -> bool:
        """Return True where :meth:`accept` was called since rows were loaded last."""
        into = f"into = toUUID({quote(self._target_uuid)})"
        ((accepted, loaded),) = self._ask(
            f"SELECT maxIf(_block_number, event = 'alive' AND detail = {quote(_ACCEPTS)}), "
            f"maxIf(_block_number, event = 'landed' AND NOT {_IS_KEPT}) FROM {self._name} "
            f"WHERE {into}"
        )
        return int(accepted) > int(loaded)

    def last_loaded(self) -> LastLoaded | None:
        """Return the last attempt that has brought rows; None where no line tells of one."""
        rows = self._ask(
            "SELECT toString(argMinIf(at, _block_number, event = 'landed')) AS last, "
            "argMinIf(detail, _block_number, event = 'commit') AS moves, "
            "argMinIf(rows, _block_number, event = 'commit') AS count, "
            "minIf(_block_number, event = 'landed') AS block "
            f"FROM {self._name} WHERE into = toUUID({quote(self._target_uuid)}) AND NOT {_IS_KEPT} "
            "GROUP BY attempt HAVING countIf(event = 'landed') > 0 AND countIf(event = 'forget') = "
            "0 AND count > 0 ORDER BY block DESC LIMIT 1"
        )
        if not rows:
            return None
        at, moves, *_ = rows[0]
        return LastLoaded(
            str(at), tuple(StagedPartition(*move) for move in json.loads(moves or "[]"))
        )

    def loaded_ids(self) -> set[str]:
        """Return the ids of the splits that are in the table."""
        ended = "event = 'landed' AND attempt NOT IN (SELECT attempt FROM {0} WHERE into = {1} "
        ended += "AND event = 'forget')"
        into = f"toUUID({quote(self._target_uuid)})"
        rows = self._ask(
            f"SELECT DISTINCT arrayJoin(splits) FROM {self._name} WHERE into = {into} AND "
            f"event = 'claim' AND attempt IN (SELECT attempt FROM {self._name} WHERE "
            f"into = {into} AND {ended.format(self._name, into)})"
        )
        return {str(i) for (i,) in rows}

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids of splits that are in the table."""
        into = f"into = toUUID({quote(self._target_uuid)})"
        of = f"(SELECT attempt FROM {self._name} WHERE {into} AND event ="
        # A constant array would be folded into every row; WITH keeps it once.
        rows = self._ask(
            f"WITH [{quoted_list([*ids, JOINED])}] AS asked SELECT DISTINCT "
            f"arrayJoin(arrayIntersect(splits, asked)) FROM {self._name} WHERE {into} AND "
            f"event = 'claim' AND hasAny(splits, asked) AND attempt IN {of} 'landed') AND "
            f"attempt NOT IN {of} 'forget')"
        )
        found = {str(i) for (i,) in rows}
        if JOINED in found:
            found.remove(JOINED)
            found |= self.joined.among(set(ids) - found)
        return found

    def join(self) -> bool:
        """Move the ids that older attempts have loaded out of the lines; see ``joined_ids.py``.

        An attempt that is open reckons with those that were loaded since it began: they stay.

        Returns:
            False where there are too few.
        """
        into = f"into = toUUID({quote(self._target_uuid)})"
        for database in (self._database, *self._other_journals()):
            if database != self._database and self._open_in(database):
                return False
        rows = self._ask(
            "SELECT attempt, minIf(_block_number, event = 'claim'), minIf(_block_number, event = "
            "'landed'), argMinIf(rows, _block_number, event = 'commit'), argMinIf(detail, "
            "_block_number, event = 'commit'), countIf(event = 'claim' AND NOT arrayAll(s -> "
            f"match(s, '^[0-9a-f]{{32}}$') OR s = {quote(JOINED)}, splits)), "
            "countIf(event = 'forget'), countIf(event IN ('release', 'expire')), "
            f"dateDiff('second', max(at), now64(3)) FROM {self._name} WHERE {into} AND "
            "attempt != '' GROUP BY attempt ORDER BY max(_block_number)"
        )
        opened = [claim for _, claim, landed, *_, ended, _ in rows if not landed and not ended]
        before = min(opened, default=1 << 62)
        chosen = [
            (attempt, int(count), detail)
            for attempt, _, landed, count, detail, odd, forgotten, _, age in rows
            if landed and landed < before and not odd and not forgotten and age > JOIN_AGE_SECONDS
        ][:MOST_JOINED]  # fmt: skip
        if len(chosen) < LEAST_JOINED:
            return False
        attempts = quoted_list([name for name, _, _ in chosen])
        self.joined.create()
        self.joined.take(self._name, attempts)
        # One attempt stands for all: it brings no rows that anybody has to reckon with.
        tables = {(m[0], m[1]) for _, _, detail in chosen for m in json.loads(detail or "[]")}
        moves = [[*one, "", "", 0, 0, 0, "attached"] for one in sorted(tables)]
        # It is no load's: who forgets one of them leaves the ids of the others.
        whole = f"{_WHOLE}_{KEPT}{secrets.token_hex(3)}"
        rows_of = sum(count for _, count, _ in chosen)
        # In one block: half of it would be an attempt that somebody has to bring to an end.
        self._run(
            f"INSERT INTO {self._name} (event, into, owner, attempt, splits, rows, detail) SELECT "
            f"t.1, toUUID({quote(self._target_uuid)}), {quote(self._owner)}, {quote(whole)}, "
            f"CAST(t.2, 'Array(String)'), t.3, t.4 FROM (SELECT arrayJoin([('claim', "
            f"[{quote(JOINED)}], toUInt64(0), ''), ('commit', [], toUInt64({rows_of}), "
            f"{quote(json.dumps(moves))}), ('landed', [], toUInt64(0), '')]) AS t)"
        )
        self._run(
            f"ALTER TABLE {self._name} DELETE WHERE {into} AND attempt IN ({attempts}) "
            "SETTINGS mutations_sync = 1"
        )
        return True

    def _open_in(self, database: str) -> bool:
        """Tell whether an attempt is open in another journal, into whatever table."""
        rows = self._ask(
            f"SELECT 1 FROM {sql.qualified(database, TABLE)} WHERE attempt != '' GROUP BY into, "
            "attempt HAVING countIf(event IN ('landed', 'release', 'expire', 'forget')) = 0 LIMIT 1"
        )
        return bool(rows)

    def has_joined(self) -> bool:
        """Tell whether ids of this table are not in the lines any more."""
        into = f"into = toUUID({quote(self._target_uuid)})"
        return bool(self._ask(
            f"SELECT 1 FROM {self._name} WHERE {into} AND event = 'claim' AND "
            f"has(splits, {quote(JOINED)}) LIMIT 1"
        ))  # fmt: skip

    def remembered_ids(self) -> tuple[set[str], set[str]]:
        """Return the results of :meth:`loaded_ids` and :meth:`forgotten_ids`, by one query."""
        into = f"into = toUUID({quote(self._target_uuid)})"
        of = f"(SELECT attempt FROM {self._name} WHERE {into} AND event"
        rows = self._ask(
            f"SELECT splits, attempt IN {of} = 'forget') FROM {self._name} "
            f"WHERE {into} AND event = 'claim' AND attempt IN {of} IN ('landed', 'forget'))"
        )
        loaded = {str(id_) for ids, forgotten in rows if not forgotten for id_ in ids}
        return loaded, {str(id_) for ids, forgotten in rows if forgotten for id_ in ids} - loaded

    def table_loads(self) -> list[TableLoads]:
        """Return the loads into every table that the journal knows, without forgotten ones."""
        return self._table_loads("countIf(event = 'landed') > 0")

    def stopped(self) -> list[TableLoads]:
        """Return, of every table, what was committed, and of which no line says that it loaded."""
        # As Entry.binding and Entry.over say it.
        expired, committed = (
            f"minIf(_block_number, event = '{event}')" for event in ("expire", "commit")
        )
        return self._table_loads(
            "countIf(event = 'claim') > 0 AND countIf(event = 'commit') > 0 AND "
            "countIf(event IN ('landed', 'release')) = 0 AND "
            f"(countIf(event = 'expire') = 0 OR {expired} > {committed})"
        )

    def _table_loads(self, having: str) -> list[TableLoads]:
        rows = self._ask(
            "SELECT toString(into), names, sum(count), toString(max(last)) FROM (SELECT into, "
            "attempt, argMinIf(rows, _block_number, event = 'commit') AS count, max(at) AS last, "
            "arraySort(arrayDistinct(arrayMap(m -> (JSONExtractString(m, 1), JSONExtractString("
            "m, 2)), JSONExtractArrayRaw(argMinIf(detail, _block_number, event = 'commit'))))) "
            f"AS names FROM {self._name} GROUP BY into, attempt HAVING {having} "
            "AND countIf(event = 'forget') = 0) GROUP BY into, names"
        )
        return [
            TableLoads(
                str(into), frozenset((str(d), str(t)) for d, t in names), int(count), str(last)
            )
            for into, names, count, last in rows
        ]

    def splits_of(self, attempts: Collection[str]) -> dict[str, list[str]]:
        """Return the ids of the splits that attempts into this table have claimed, by attempt."""
        if not attempts:
            return {}
        rows = self._ask(
            f"SELECT attempt, splits FROM {self._name} WHERE "
            f"into = toUUID({quote(self._target_uuid)}) AND event = 'claim' AND "
            f"attempt IN ({', '.join(map(quote, attempts))})"
        )
        found: dict[str, list[str]] = {}
        for attempt, ids in rows:
            found.setdefault(str(attempt), []).extend(map(str, ids))
        return found

    def forgotten_ids(self, loaded: Collection[str] | None = None) -> set[str]:
        """Return the ids of forgotten splits that are not loaded again.

        Args:
            loaded: what :meth:`loaded_ids` has returned.
        """
        into = f"toUUID({quote(self._target_uuid)})"
        rows = self._ask(
            f"SELECT DISTINCT arrayJoin(splits) FROM {self._name} WHERE into = {into} AND "
            f"event = 'claim' AND attempt IN (SELECT attempt FROM {self._name} WHERE "
            f"into = {into} AND event = 'forget')"
        )
        return {str(i) for (i,) in rows} - set(self.loaded_ids() if loaded is None else loaded)

    def _other_journals(self) -> list[str]:
        """Return the other databases of the server that have a journal."""
        rows = self._ask(
            f"SELECT database FROM system.tables WHERE name = {quote(TABLE)} AND "
            f"database != {quote(self._database)}"
        )
        return [str(database) for (database,) in rows]

    def _entries(
        self, *, touching: Collection[str] = (), attempts: Collection[str] = (), naming: str = "",
        database: str = "", lows: Mapping[str, int] | None = None,
    ) -> dict[str, JournalEntry]:  # fmt: skip
        """Return attempts into this table: all, those that claim some splits, or named ones.

        Args:
            lows: by stream, the first number of interest: attempts that claim any behind it.
            naming: in place of these, attempts into any table that bring rows into one of this
                name.
            database: of another journal.
        """
        journal = sql.qualified(database or self._database, TABLE)
        into = f"into = toUUID({quote(self._target_uuid)})"
        hits = "[]"
        if touching:
            # A constant array would be folded into every row; WITH keeps it once.
            hits, claims = "arrayIntersect(splits, asked)", "hasAny(splits, asked)"
            if lows:
                hits = f"arrayFilter(s -> has(asked, s) OR {_behind(lows)}, splits)"
                claims += f" OR arrayExists(s -> {_behind(lows)}, splits)"
            chosen = (
                f"attempt IN (SELECT attempt FROM {journal} WHERE {into} AND event = 'claim' "
                f"AND ({claims}))"
            )
        elif attempts:
            chosen = f"attempt IN ({', '.join(map(quote, attempts))})"
        elif naming:
            # What was never published into a table that is gone stays so. Of a cluster the tables
            # may have other UUIDs on other nodes.
            alive = f"({into} OR into IN (SELECT uuid FROM system.tables))"
            into = "1" if self._shard_of else alive
            chosen = (
                f"attempt IN (SELECT attempt FROM {journal} WHERE event = 'commit' AND "
                f"position(detail, {quote(json.dumps(naming))}) > 0)"
            )
        else:
            chosen = "1"
        asked = quoted_list(touching)
        rows = self._ask(
            (f"WITH [{asked}] AS asked " if touching else "")
            + "SELECT event, attempt, owner, _block_number, rows, detail, "
            f"{hits}, dateDiff('millisecond', at, now64(3)) / 1000 "
            f"FROM {journal} WHERE {into} AND ({chosen} OR (event IN ('alive', 'quit') AND "
            # An older one says nothing that the silence since then does not say.
            f"dateDiff('millisecond', at, now64(3)) < {10_000 * LEASE_SECONDS})) "
            "ORDER BY _block_number"
        )
        return read_entries(rows)

    # --- writing ------------------------------------------------------------------------------

    def _id(self, split_id: str) -> str:
        return split_id + self._salt

    def _append(
        self, event: str, attempt: str, *, splits: Sequence[str] = (), rows: int = 0,
        detail: str = "",
    ) -> None:  # fmt: skip
        text = self._line(event, attempt, splits, rows, detail)
        for left in reversed(range(MOST_APPENDS)):
            try:
                self._run(text)
                return
            except RowfallError as error:
                if not error.transient or not left:
                    raise
                self._recover(error)
                # Twice the same line changes nothing: the first one of a kind counts.
                with suppress(RowfallError):
                    if self._written(event, attempt, splits, detail):
                        return

    def _line(
        self, event: str, attempt: str, splits: Sequence[str] = (), rows: int = 0, detail: str = ""
    ) -> str:
        ids = quoted_list(splits)
        return (
            f"INSERT INTO {self._name} (event, into, owner, attempt, splits, rows, detail) SELECT "
            f"{quote(event)}, toUUID({quote(self._target_uuid)}), {quote(self._owner)}, "
            f"{quote(attempt)}, CAST([{ids}], 'Array(String)'), {rows}, {quote(detail)}"
        )

    def _run(self, text: str, lane: int = JOURNAL_LANE) -> None:
        self._engine.run(Statement(SqlText.of(text)), lane=lane)

    def _written(self, event: str, attempt: str, splits: Sequence[str], detail: str) -> bool:
        """Tell whether a line is there; signs of life of others are none of this process."""
        first = f" AND has(splits, {quote(splits[0])})" if splits else ""
        own = f" AND owner = {quote(self._owner)} AND detail = {quote(detail)}"
        found = self._ask(
            f"SELECT count() FROM {self._name} WHERE into = toUUID({quote(self._target_uuid)}) AND "
            f"attempt = {quote(attempt)} AND event = {quote(event)}{own}{first}"
        )
        return bool(found[0][0])

    def _ask(self, text: str) -> list[list[Any]]:
        tries = 0
        while True:
            try:
                return self._engine.ask(text, lane=JOURNAL_LANE)
            except RowfallError as error:
                tries += 1
                if not error.transient or tries == MOST_APPENDS:
                    raise
                self._recover(error)

    def _recover(self, error: RowfallError) -> None:
        """Wait for a server that is away: the journal decides what becomes of committed rows."""
        time.sleep(PAUSE_SECONDS)
        if not error.code:
            self._engine.revive()

    # --- renewal ----------------------------------------------------------------------------

    def __enter__(self) -> Journal:
        self._beat = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._beat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        RUNNING.discard(self._owner)
        if self._held or self._announced:
            # Others may have at once what this load still holds. They find out by themselves
            # when this does not get through.
            last = threading.Thread(target=self._quit, name="quit", daemon=True)
            last.start()
            last.join(QUIT_SECONDS)

    def _quit(self) -> None:
        with suppress(RowfallError):
            self._run(self._line(QUIT, ""), lane=JOURNAL_LANE + 1)

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            # Without a connection the lease runs out, and the commit will notice.
            with suppress(RowfallError):
                self._append("alive", "")


def make_durable(engine: Engine, journal: TableFacts) -> None:
    """Let the lines of a journal that an older version has made be flushed as they are written.

    A user who may not change its settings leaves it as it is.
    """
    if "fsync_after_insert" in journal.engine_full:
        return
    change = f"ALTER TABLE {journal.qualified} MODIFY SETTING {_DURABLE}"
    try:
        engine.run(Statement(SqlText.of(change)))
    except RowfallError as error:
        if error.code != ACCESS_DENIED:  # no load needs ALTER SETTINGS otherwise
            raise


def _behind(lows: Mapping[str, int]) -> str:
    """Return SQL that tells whether the id ``s`` is of a range that ends behind a number."""
    pairs = ", ".join(f"({quote(stream)}, toInt64({low}))" for stream, low in lows.items())
    stop = "toInt64OrZero(extract(s, ':(-?[0-9]+)[]]'))"
    return f"arrayExists(p -> startsWith(s, concat(p.1, '[')) AND {stop} > p.2, [{pairs}])"


def _shared(
    ids: Iterable[str], wanted: Mapping[str, Sequence[str]], salt: str
) -> dict[str, Sequence[str]]:
    """Return ids that another attempt claims, each with the wanted ones that have rows of it."""
    ranges = [(i, one) for i in wanted if (one := range_of(i)) is not None]
    found: dict[str, Sequence[str]] = {}
    for id_ in ids:
        theirs = range_of(id_)
        if theirs is None:
            found[id_] = wanted.get(id_, ())
        elif id_ == without_salt(id_) + salt:
            stream, start, stop = theirs
            found[id_] = [i for i, (s, a, b) in ranges if s == stream and a < stop and start < b]
    return found


def _no_ranges(
    other: JournalEntry, shared: Mapping[str, Sequence[str]], wanted: Collection[str]
) -> None:
    """Raise LedgerError where another process has loaded other ranges of the same rows."""
    if any(shared.get(i) and i not in wanted for i in other.splits):
        raise LedgerError(
            "another rowfall has loaded some of the numbers that this one was going to load",
            hint="Run the same command again: it goes on behind them.",
            transient=True,
        )
    if any(i.startswith(MARK) for i in other.splits):
        raise LedgerError(
            "another rowfall has cut a file into ranges that this one was going to load whole",
            hint="Run the same command again: it goes on with the ranges that are left.",
        )


def read_entries(rows: Iterable[Sequence[Any]]) -> dict[str, JournalEntry]:
    """Return the attempts that lines of the journal tell of, by id.

    Args:
        rows: event, attempt, owner, block number, rows, detail, splits, and the seconds since the
            line; by block number.
    """
    found: dict[str, JournalEntry] = {}
    # An owner may write expire and loaded for another's attempt: the claim says whose it is.
    idle: dict[str, float] = {}
    quit: set[str] = set()
    for event, attempt, who, block, count, detail, splits, seconds in rows:
        # That of the last line, not the least: after a jump back of the server's clock the older
        # lines of a living owner lie in the future.
        idle[who] = seconds
        if event == QUIT:
            quit.add(who)
        if event in ("alive", QUIT):
            continue
        entry = found.get(attempt)
        if entry is None:
            entry = found[attempt] = JournalEntry(attempt, who)
        name = _EVENTS[event]
        # The first line of a kind counts; a repeated one is the echo of a lost connection.
        setattr(entry.blocks, name, getattr(entry.blocks, name) or int(block))
        if event == "claim":
            entry.owner = who
            entry.nodes = tuple(detail.split(","))
            for split in splits:
                entry.splits.setdefault(split, int(block))
        elif event == "count":
            entry.seen = entry.seen or json.loads(detail or "{}")
        elif event == "commit":
            entry.rows = int(count)
            entry.moves = tuple(StagedPartition(*move) for move in json.loads(detail))
    for entry in found.values():
        entry.idle = idle.get(entry.owner, 0.0)
        entry.quit = entry.owner in quit
    return found


def _unordered(entry: JournalEntry) -> JournalEntry:
    """Return a binding entry of another journal, whose lines have no order with those of this one.

    Its rows may have come after the count; that they did only their blocks can say.
    """
    loaded = (1 << 63) * bool(entry.blocks.loaded)
    return replace(entry, blocks=replace(entry.blocks, committed=1, expired=0, loaded=loaded))


def added(
    mine: JournalEntry,
    others: Iterable[JournalEntry],
    move: StagedPartition,
    node: str,
    shard_of: Mapping[str, int],
) -> AddedRows:
    """Return what other attempts have added to a partition since a move of this one counted it.

    Args:
        node: the one that holds the partition.
        shard_of: of a cluster, the shard of each node.
    """
    least, whole, part = 0, list[int](), 0
    shard = shard_of.get(node)
    partition = (move.database, move.table, move.partition_id)
    for other in others:
        own = node in other.nodes
        # Of an attempt on several replicas, each of which has a table of its own, this one counts.
        # Of one on another replica it may be the same table; other shards have other ones.
        near = [n for n in other.nodes if shard is None or shard_of.get(n, shard) == shard]
        moves = [
            m for n in ([node] if own else near) for m in other.moves_on(n)
            if (m.database, m.table, m.partition_id) == partition
        ]  # fmt: skip
        # What is loaded on another replica is seen here a while later.
        ours, theirs = mine.blocks, other.blocks
        seen = ours.counted if own and ours.counted else ours.claimed
        if not other.binding or 0 < theirs.loaded < seen:
            continue
        rows = sum(m.rows for m in moves)
        # The blocks of an attempt are above the highest one that it has written down.
        after = theirs.committed > ours.committed or all(
            m.highest_block >= move.highest_block for m in moves
        )
        if own and theirs.loaded and after:
            least += rows
        elif own and theirs.loaded:
            whole.append(rows)
        else:
            part += rows
    return AddedRows(least, tuple(filter(None, whole)), part)
