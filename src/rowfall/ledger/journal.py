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
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import LedgerError, RowfallError
from rowfall.core.listing import MARK, Split
from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.ledger import owner
from rowfall.ledger.entries import LEASE_SECONDS, QUIT, RUNNING, Entry, added, read_entries
from rowfall.ledger.leases import Claim, Fate
from rowfall.ledger.rows import Move

TABLE = "_rowfall_journal"
# Three of these lines may get lost before a lease ends.
RENEW_SECONDS = LEASE_SECONDS / 4
# 32 digits a split id: a line of some 350 KB, far below max_query_size.
SPLITS_PER_LINE = 10_000
# A line whose fate is unknown after a lost connection is looked for, then written again.
MOST_APPENDS = 3
PAUSE_SECONDS = 0.2
JOURNAL_LANE = 97
# Part of the two seconds after Ctrl-C.
QUIT_SECONDS = 0.4


class Journal:
    """The journal of one target table.

    Args:
        database: where the target and its journal are.
        into: uuid of the target table: a table of the same name made later starts anew.
        load_id: of the load that writes, "" to only read.
        salt: added to the ids of a load that loads again what has landed (``--force``).
        shard_of: of a cluster, the shard of each place.
    """

    def __init__(
        self, engine: Engine, database: str, into: str, load_id: str = "", salt: str = "",
        shard_of: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self._shard_of = shard_of or {}
        self._engine = engine
        self._database = database
        self._into = into
        self._owner = f"{owner.me()} {load_id} {secrets.token_hex(4)}"
        self._salt = salt
        self._held: set[str] = set()
        self._stop = threading.Event()
        self._beat: threading.Thread | None = None

    @property
    def _name(self) -> str:
        return sql.qualified(self._database, TABLE)

    def create(self) -> None:
        """Make the table where it is missing.

        Raises:
            RowfallError: no right to; the server's message names it.
        """
        # Blocks keep their numbers through merges only with enable_block_number_column.
        self._engine.run(Statement(SqlText.of(
            f"CREATE TABLE IF NOT EXISTS {self._name} (at DateTime64(3, 'UTC') DEFAULT now64(3), "
            "event LowCardinality(String), into UUID, owner String, attempt String, "
            "splits Array(String), rows UInt64, detail String) ENGINE = MergeTree "
            "ORDER BY (into, attempt) SETTINGS enable_block_number_column = 1 "
            "COMMENT 'rowfall: which files have landed here, and who is loading'"
        )), lane=JOURNAL_LANE)  # fmt: skip

    # --- claims -------------------------------------------------------------------------------

    def claim(self, attempt: str, splits: Sequence[Split], place: str = "") -> Claim:
        """Ask for splits. Only a claim that is ``whole`` may be used; release any other.

        Args:
            place: the node of a cluster that the attempt stages on, or several with commas between
                them; "" where there is only one.
        """
        RUNNING.add(self._owner)
        self._held.add(attempt)
        # Marks first: were they behind the lines of a long claim, another's claim on the file in
        # between would be later than the ranges and earlier than the marks.
        marks = dict.fromkeys(s.mark for s in splits if s.whole)
        ids = [self._id(i) for i in (*marks, *(s.id for s in splits))]
        for start in range(0, len(ids), SPLITS_PER_LINE):
            lines = ids[start : start + SPLITS_PER_LINE]
            self._append("claim", attempt, splits=lines, detail=place)
        return self._judge(attempt, splits)

    def _judge(self, attempt: str, splits: Sequence[Split]) -> Claim:
        # Who holds a file holds its ranges, and the other way round.
        wanted: dict[str, list[str]] = {}
        for split in splits:
            for id_ in (split.id, *split.rivals):
                wanted.setdefault(self._id(id_), []).append(self._id(split.id))
        entries = self._entries(touching=wanted)
        mine = entries.pop(attempt, None)
        if mine is None:
            raise LedgerError(
                f"the journal {self._database}.{TABLE} has lost a line that was written",
                hint="Nobody but rowfall may change that table.",
            )
        landed: set[str] = set()
        busy: set[str] = set()
        lost = []
        for other in entries.values():
            if other.forgotten or other.ended:
                continue
            if other.landed:
                _no_ranges(other)
                landed |= {own for i in other.splits for own in wanted[i]}
                continue
            # Split by split: of two long claims, whose lines alternate, neither is the earlier.
            held = {
                own for i, at in other.splits.items() for own in wanted[i]
                if other.binding or at < mine.splits[own]
            }  # fmt: skip
            if held and other.dead:
                lost.append(other.attempt)
            else:
                busy |= held
        strip = len(self._salt)
        back = [frozenset(i[: len(i) - strip] for i in found) for found in (landed, busy - landed)]
        return Claim(back[0], back[1], tuple(lost))

    def counting(self, attempt: str) -> None:
        """Say that what the target holds is counted next: it holds what has landed before."""
        self._append("count", attempt)

    def commit(self, attempt: str, rows: int, moves: Sequence[Move]) -> bool:
        """The point of no return: True when the attempt's rows are now bound to be published.

        False: somebody took this process for dead and expired the attempt before.
        """
        detail = json.dumps([
            [m.database, m.table, m.staging, m.partition_id, m.rows, m.rows_before,
             m.highest_block, m.state, *([m.place] if m.place else [])] for m in moves
        ])  # fmt: skip
        self._append("commit", attempt, rows=rows, detail=detail)
        entry = self._entries(attempts=[attempt]).get(attempt)
        bound = entry is not None and entry.binding and not entry.released
        if not bound:
            self._held.discard(attempt)
        return bound

    def landed(self, attempt: str) -> None:
        """All rows of a committed attempt are visible."""
        self._append("landed", attempt)
        self._held.discard(attempt)

    def release(self, attempt: str) -> None:
        """Give up what an attempt holds; its rows are not and will not be visible."""
        self._append("release", attempt)
        self._held.discard(attempt)

    def added(self, attempt: str, move: Move, place: str = "") -> tuple[int, int]:
        """See :func:`rowfall.ledger.entries.added`.

        Args:
            place: which of the attempt's places is meant.
        """
        entries = self._entries()
        mine = entries.pop(attempt)
        return added(mine, entries.values(), move, place or mine.place, self._shard_of)

    def fate(self, attempt: str) -> Fate:
        entry = self._entries(attempts=[attempt]).get(attempt, Entry(attempt, ""))
        return Fate.LANDED if entry.landed else Fate.TAKEN if entry.expired else Fate.OWN

    def expire(self, attempt: str) -> Entry:
        """End an attempt of a dead process. If the entry is ``binding``, publish it instead."""
        self._append("expire", attempt)
        return self._entries(attempts=[attempt])[attempt]

    def forget(self, load_id: str) -> int:
        """Make what a load has landed count as not landed. Returns the number of attempts."""
        found = [e.attempt for e in self.entries() if e.attempt.startswith(f"{load_id}_")]
        for attempt in found:
            self._append("forget", attempt)
        return len(found)

    # --- reading ------------------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Every attempt into this table, without the splits."""
        return list(self._entries().values())

    def there(self) -> bool:
        """Whether the journal exists."""
        found = self._ask(
            f"SELECT count() FROM system.tables WHERE database = {quote(self._database)} "
            f"AND name = {quote(TABLE)}"
        )
        return bool(found[0][0])

    def landed_ids(self) -> set[str]:
        """Ids of the splits that are in the table."""
        ended = "event = 'landed' AND attempt NOT IN (SELECT attempt FROM {0} WHERE into = {1} "
        ended += "AND event = 'forget')"
        into = f"toUUID({quote(self._into)})"
        rows = self._ask(
            f"SELECT DISTINCT arrayJoin(splits) FROM {self._name} WHERE into = {into} AND "
            f"event = 'claim' AND attempt IN (SELECT attempt FROM {self._name} WHERE "
            f"into = {into} AND {ended.format(self._name, into)})"
        )
        return {str(i) for (i,) in rows}

    def forgotten_ids(self) -> set[str]:
        """Ids of splits whose landing has been forgotten and that have not landed again."""
        into = f"toUUID({quote(self._into)})"
        rows = self._ask(
            f"SELECT DISTINCT arrayJoin(splits) FROM {self._name} WHERE into = {into} AND "
            f"event = 'claim' AND attempt IN (SELECT attempt FROM {self._name} WHERE "
            f"into = {into} AND event = 'forget')"
        )
        return {str(i) for (i,) in rows} - self.landed_ids()

    def _entries(
        self, *, touching: Collection[str] = (), attempts: Collection[str] = ()
    ) -> dict[str, Entry]:
        """Attempts of this table: all, those that claim any of some splits, or named ones."""
        into = f"into = toUUID({quote(self._into)})"
        hits = "[]"
        if touching:
            # A constant array would be folded into every row; WITH keeps it once.
            hits = "arrayIntersect(splits, asked)"
            chosen = (
                f"attempt IN (SELECT attempt FROM {self._name} WHERE {into} AND event = 'claim' "
                "AND hasAny(splits, asked))"
            )
        elif attempts:
            chosen = f"attempt IN ({', '.join(map(quote, attempts))})"
        else:
            chosen = "1"
        asked = ", ".join(map(quote, touching))
        rows = self._ask(
            (f"WITH [{asked}] AS asked " if touching else "")
            + "SELECT event, attempt, owner, _block_number, rows, detail, "
            # The last line's time, not the latest: after a jump back of the server's clock the
            # older lines of a living owner lie in the future.
            f"{hits}, dateDiff('millisecond', argMax(at, _block_number) OVER (PARTITION BY owner), "
            "now64(3)) / 1000 "
            f"FROM {self._name} WHERE {into} AND ({chosen} OR event IN ('alive', 'quit')) "
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
                    if self._written(event, attempt, splits):
                        return

    def _line(
        self, event: str, attempt: str, splits: Sequence[str] = (), rows: int = 0, detail: str = ""
    ) -> str:
        ids = ", ".join(map(quote, splits))
        return (
            f"INSERT INTO {self._name} (event, into, owner, attempt, splits, rows, detail) SELECT "
            f"{quote(event)}, toUUID({quote(self._into)}), {quote(self._owner)}, "
            f"{quote(attempt)}, CAST([{ids}], 'Array(String)'), {rows}, {quote(detail)}"
        )

    def _run(self, text: str, lane: int = JOURNAL_LANE) -> None:
        self._engine.run(Statement(SqlText.of(text)), lane=lane)

    def _written(self, event: str, attempt: str, splits: Sequence[str]) -> bool:
        first = f" AND has(splits, {quote(splits[0])})" if splits else ""
        found = self._ask(
            f"SELECT count() FROM {self._name} WHERE into = toUUID({quote(self._into)}) AND "
            f"attempt = {quote(attempt)} AND event = {quote(event)}{first}"
        )
        return bool(found[0][0])

    def _ask(self, text: str) -> list[list[Any]]:
        statement = Statement(
            SqlText.of(text),
            {"output_format_json_quote_64bit_integers": 0},
            format="JSONCompactEachRow",
        )
        tries, data = 0, None
        while data is None:
            try:
                data = self._engine.run(statement, lane=JOURNAL_LANE).data
            except RowfallError as error:
                tries += 1
                if not error.transient or tries == MOST_APPENDS:
                    raise
                self._recover(error)
        return [json.loads(line) for line in data.splitlines() if line]

    def _recover(self, error: RowfallError) -> None:
        """The journal decides what becomes of committed rows: it waits for a server that is
        away rather than to leave that open."""
        time.sleep(PAUSE_SECONDS)
        if not error.code:
            self._engine.revive()

    # --- the lease ----------------------------------------------------------------------------

    def __enter__(self) -> Journal:
        self._beat = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._beat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        RUNNING.discard(self._owner)
        if self._held:
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


def _no_ranges(other: Entry) -> None:
    """Raises LedgerError: another process has landed ranges of a file that this one takes whole."""
    if any(i.startswith(MARK) for i in other.splits):
        raise LedgerError(
            "another rowfall has cut a file into ranges that this one was going to load whole",
            hint="Run the same command again: it goes on with the ranges that are left.",
        )
