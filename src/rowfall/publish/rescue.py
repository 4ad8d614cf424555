"""Ends the attempts that dead processes left on a shared target, by what the journal says."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import EngineError, LedgerError, TargetError
from rowfall.core.events import Listener, Note
from rowfall.core.model import Pair, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.ask import ask
from rowfall.engines.base import Engine
from rowfall.engines.codes import GONE, UNKNOWN_TABLE
from rowfall.ledger import Ledger
from rowfall.ledger.journal import Entry, Journal
from rowfall.ledger.leases import Move
from rowfall.publish.publisher import Publisher
from rowfall.publish.reconcile import with_tables
from rowfall.targets import staging
from rowfall.targets.base import STAGING_PREFIX

# An ATTACH takes milliseconds a part; one that runs longer than this is stuck on a lock.
MOST_WAIT = 120.0
LOOK_SECONDS = 0.2
# A table that is being renamed is listed under one of its names; this often it is not missed.
LOOKS = 5


class Rescue:
    """Takes over, on one node, what dead processes have staged there.

    Args:
        journal: of the table whose attempts are looked after.
        emit: hears what was done.
        place: the node that ``engine`` is; only attempts that stage there are looked after.
        check: raises TargetError when the journal's table has another one in its place.
    """

    def __init__(
        self, engine: Engine, ledger: Ledger, journal: Journal, database: str, emit: Listener,
        place: str = "", check: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.place = place
        self._engine = engine
        self._journal = journal
        self._database = database
        self.emit = emit
        self._check = check
        self._publisher = Publisher(engine, ledger)

    def discard_ended(self, entries: Sequence[Entry]) -> None:
        """Drop what is left of attempts that died between their last line and the drop."""
        ended = {e.attempt for e in entries if self.place in e.nodes and _over(e)}
        for attempt in ended & with_tables(self._engine):
            self.discard(attempt)

    def table_gone(self) -> None:
        """Drop what dead processes had staged for a table that does not exist any more."""
        entries = [e for e in self._journal.entries() if self.place in e.nodes]
        there = with_tables(self._engine)
        for entry in entries:
            staged = entry.attempt in there
            if not entry.dead or entry.landed or not (staged or entry.binding):
                continue
            self.kill(entry.attempt)
            # Killed before it could see that another table had come in the place of this one.
            self._publisher.take_back(entry.moves_on(self.place))
            if staged:
                self.discard(entry.attempt)

    def kill(self, attempt: str) -> None:
        """What a dead process started may still run on the server."""
        mine = (
            f"query_id = {quote(attempt)} OR startsWith(query_id, {quote(attempt + '_')}) "
            # What another node sends here on its behalf has an id of its own.
            f"OR initial_query_id = {quote(attempt)}"
        )
        for (query_id,) in self._ask(f"SELECT query_id FROM system.processes WHERE {mine}"):
            if "_into_" in query_id:
                self._wait_for(query_id)  # a publishing statement is let finish
            else:
                self._engine.kill(query_id)

    def _wait_for(self, query_id: str) -> None:
        deadline = time.monotonic() + MOST_WAIT
        while self._ask(f"SELECT 1 FROM system.processes WHERE query_id = {quote(query_id)}"):
            if time.monotonic() > deadline:
                raise EngineError(f"the statement {query_id} of a stopped load does not end")
            time.sleep(LOOK_SECONDS)

    def publish(self, attempt: str, moves: Sequence[Move]) -> None:
        """Make visible what :meth:`fence` has put aside, as far as it is not."""
        others = partial(self._journal.added, attempt, node=self.place)
        settled = self._publisher.settle(attempt, moves, others)
        self._publisher.publish(attempt, settled, self._check)

    def drop(self, moves: Sequence[Move]) -> None:
        """Drop the staging tables that :meth:`fence` has put aside."""
        for database, name in dict.fromkeys((m.database, m.staging) for m in moves):
            self._engine.run(Statement(staging.drop(database, name)))

    def fence(self, entry: Entry) -> list[Move]:
        """The moves under new names of their staging tables.

        A process that was only slow finds its staging table gone and can do no harm: what it has
        sent before is waited for, what it sends after fails.

        Raises:
            EngineError: another one has renamed some of them at the same moment (codes.GONE).
            LedgerError: some of them are gone, and nobody has said that the attempt has landed.
        """
        self._drop_views([s for s in self._tables(entry.attempt) if s[1]])
        moves = entry.moves_on(self.place)
        names: dict[Pair, str] = {}
        for pair in dict.fromkeys(m.pair for m in moves):
            old = self._present(entry, pair)
            names[pair] = f"{pair.staging}_x{secrets.token_hex(3)}"
            self._run(
                f"RENAME TABLE {sql.qualified(pair.database, old)} "
                f"TO {sql.qualified(pair.database, names[pair])}"
            )
        for pair in names:
            self._quiet(entry.attempt, pair.table)
        return [replace(m, staging=names[m.pair]) for m in moves]

    def _present(self, entry: Entry, pair: Pair) -> str:
        """What a staging table is called now: others may have renamed it before."""
        for _ in range(LOOKS):
            found = self._ask(
                f"SELECT name FROM system.tables WHERE database = {quote(pair.database)} AND "
                f"match(name, {quote(f'^{re.escape(pair.staging)}(_x[0-9a-f]{{6}})?$')})"
            )
            if found:
                return str(found[0][0])
            if _has_landed(self._journal, entry.attempt):
                raise EngineError("the attempt has landed meanwhile", code=UNKNOWN_TABLE)
            time.sleep(LOOK_SECONDS)
        raise LedgerError(
            f"the staging table {pair.database}.{pair.staging} of attempt {entry.attempt} with "
            f"{entry.rows:,} loaded rows was dropped by somebody else",
            hint="Check whether the target holds them; rowfall forget makes the load's files "
            "be loaded again.",
        )

    def _quiet(self, attempt: str, table: str) -> None:
        for (query_id,) in self._ask(
            "SELECT query_id FROM system.processes WHERE "
            f"startsWith(query_id, {quote(attempt + '_into_')}) AND endsWith(query_id, "
            f"{quote('.' + table)})"
        ):
            self._wait_for(query_id)

    def _tables(self, attempt: str) -> list[tuple[str, bool]]:
        """Tables of an attempt: (name, is a view)."""
        prefix = f"{STAGING_PREFIX}{attempt}"
        rows = self._ask(
            f"SELECT name, engine LIKE '%View' FROM system.tables WHERE "
            f"database = {quote(self._database)} AND "
            f"(name = {quote(prefix)} OR startsWith(name, {quote(prefix + '_')}))"
        )
        return [(str(name), bool(view)) for name, view in rows]

    def _drop_views(self, tables: Sequence[tuple[str, bool]]) -> None:
        for name, _ in tables:
            self._run(f"DROP TABLE IF EXISTS {sql.qualified(self._database, name)} SYNC")

    def discard(self, attempt: str) -> None:
        """Drop everything that an attempt has staged here."""
        for statement in staging.discard(self._ask, f"{STAGING_PREFIX}{attempt}"):
            self._engine.run(Statement(statement))

    def _ask(self, text: str) -> list[list[Any]]:
        return ask(self._engine, text)

    def _run(self, text: str) -> None:
        self._engine.run(Statement(SqlText.of(text)))


class Rescuers:
    """Ends attempts of dead processes, each on every node that it may have staged on; two that do
    it at once do not harm each other.

    Args:
        rescues: of the nodes that load.
        more: of any other place, None where no such node answers.
    """

    def __init__(
        self,
        journal: Journal,
        rescues: Sequence[Rescue],
        more: Callable[[str], Rescue | None] = lambda place: None,
    ) -> None:
        self._journal = journal
        self._rescues = {rescue.place: rescue for rescue in rescues}
        self._more = more

    def all_dead(self) -> None:
        """End every attempt of a dead process.

        Raises:
            LedgerError: journal and target contradict each other.
            TargetError: a node is away that holds rows which are bound to be published.
        """
        entries = self._journal.entries()
        # Another replica may have staged while the one that loads now was away.
        for place in {place for e in entries for place in e.nodes}:
            self._at(place)
        here = set(self._rescues)
        # First those that can be ended: one whose node is away is an error.
        for away in (False, True):
            self.these([
                e.attempt for e in entries
                if _open(e) and e.dead and away is not here.issuperset(e.nodes)
            ])  # fmt: skip
        for rescue in self._rescues.values():
            rescue.discard_ended(entries)

    def table_gone(self) -> None:
        """Drop what dead processes had staged for a table that does not exist any more."""
        for rescue in self._rescues.values():
            rescue.table_gone()

    def these(self, attempts: Sequence[str]) -> None:
        """End named attempts, each where it has staged: publish what was committed, drop what was
        not."""
        for attempt in attempts:
            entry = self._journal.expire(attempt)
            if not _open(entry) and not entry.expired:
                continue  # it has ended by itself in the meantime
            found = {place: self._at(place) for place in entry.nodes}
            there = [rescue for rescue in found.values() if rescue is not None]
            bound = entry.binding and not entry.landed
            if bound:
                # Before anything becomes visible: of an attempt on several nodes all of it can.
                _check_there(entry, [place for place, rescue in found.items() if rescue is None])
            for rescue in there:
                rescue.kill(attempt)
            if bound:
                self._go_on(entry, there)
            # A load that finds another node of it drops what is there.
            for rescue in there:
                rescue.discard(attempt)

    def _at(self, place: str) -> Rescue | None:
        if place not in self._rescues:
            found = self._more(place)
            if found is not None:
                self._rescues[place] = found
        return self._rescues.get(place)

    def _go_on(self, entry: Entry, rescues: Sequence[Rescue]) -> None:
        """Publish what a dead process had committed. Others may do the same at this moment: who
        fences last goes on, the one before finds its tables gone and looks again."""
        deadline = time.monotonic() + MOST_WAIT
        while not _has_landed(self._journal, entry.attempt):
            try:
                self._publish(entry, rescues)
                return
            except EngineError as error:
                if error.code not in GONE or time.monotonic() > deadline:
                    raise
            # Of two that take turns, one has to be faster than the other's look.
            time.sleep(LOOK_SECONDS * (1 + secrets.randbelow(10)))

    def _publish(self, entry: Entry, rescues: Sequence[Rescue]) -> None:
        fenced = [(rescue, rescue.fence(entry)) for rescue in rescues]
        for rescue, moves in fenced:
            rescue.publish(entry.attempt, moves)
        self._journal.landed(entry.attempt)
        for rescue, moves in fenced:
            rescue.drop(moves)
        for rescue in rescues[:1]:
            text = f"published {entry.rows:,} rows that a stopped run had loaded"
            rescue.emit(Note("info", text))


def _check_there(entry: Entry, away: Sequence[str]) -> None:
    """Raises TargetError when a node is away that holds rows of an attempt that is bound."""
    for place in away:
        if rows := sum(move.rows for move in entry.moves_on(place)):
            raise TargetError(
                f"the node {place or 'that was loaded alone'} does not answer here, and holds "
                f"{rows:,} rows that a stopped load has staged and must make visible",
                hint="Start it and run the same command again. Only where its disk is gone and its "
                "rows never reached another replica: rowfall forget, and load again.",
            )


def _has_landed(journal: Journal, attempt: str) -> bool:
    return any(e.attempt == attempt and e.landed for e in journal.entries())


def _open(entry: Entry) -> bool:
    return bool(entry.claimed) and not (entry.ended or entry.landed or entry.forgotten)


def _over(entry: Entry) -> bool:
    """Whether it needs its staging tables no more, and nobody else looks after them."""
    return not _open(entry) and bool(entry.dead or entry.expired)
