"""Ends the attempts that dead processes left on a shared target, by what the journal says."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rowfall import sql, staging
from rowfall.engines.base import Engine
from rowfall.errors import EngineError, LedgerError
from rowfall.events import Listener, Note
from rowfall.journal import Entry, Journal
from rowfall.ledger import Ledger, Move
from rowfall.model import Statement
from rowfall.publish import Publisher, ask
from rowfall.sqltext import SqlText, quote
from rowfall.targets.base import STAGING_PREFIX

# An ATTACH takes milliseconds a part; one that runs longer than this is stuck on a lock.
MOST_WAIT = 120.0
LOOK_SECONDS = 0.2
UNKNOWN_TABLE = 60


class Rescue:
    """Takes over from dead processes; two that do it at once do not harm each other.

    Args:
        journal: of the table whose attempts are looked after.
        emit: hears what was done.
    """

    def __init__(
        self, engine: Engine, ledger: Ledger, journal: Journal, database: str, emit: Listener
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._database = database
        self._emit = emit
        self._publisher = Publisher(engine, ledger)

    def all_dead(self) -> None:
        """End every attempt of a dead process.

        Raises:
            LedgerError: journal and target contradict each other.
        """
        self.these([e.attempt for e in self._journal.entries() if _open(e) and e.dead])

    def these(self, attempts: Sequence[str]) -> None:
        """End named attempts: publish what was committed, drop what was not."""
        for attempt in attempts:
            entry = self._journal.expire(attempt)
            if not _open(entry) and not entry.expired:
                continue  # it has ended by itself in the meantime
            self._kill(attempt)
            if entry.binding and not entry.landed:
                self._go_on(entry)
            self._discard(attempt)

    def _kill(self, attempt: str) -> None:
        """What a dead process started may still run on the server."""
        mine = f"query_id = {quote(attempt)} OR startsWith(query_id, {quote(attempt + '_')})"
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

    def _go_on(self, entry: Entry) -> None:
        moves = self._fence(entry)
        if moves or not entry.moves:
            self._publisher.publish(entry.attempt, self._publisher.settle(entry.attempt, moves))
        elif not self._landed_meanwhile(entry.attempt):
            raise LedgerError(
                f"the staging tables of attempt {entry.attempt} with {entry.rows:,} loaded rows "
                f"were dropped from {self._database} by somebody else",
                hint="Check whether the target holds them; rowfall forget makes the load's files "
                "be loaded again.",
            )
        self._journal.landed(entry.attempt)
        for database, name in dict.fromkeys((m.database, m.staging) for m in moves):
            self._engine.run(Statement(staging.drop(database, name)))
        self._emit(Note("info", f"published {entry.rows:,} rows that a stopped run had loaded"))

    def _fence(self, entry: Entry) -> list[Move]:
        """The moves under new names of their staging tables.

        A process that was only slow finds its staging table gone and can do no harm: what it has
        sent before is waited for, what it sends after fails.
        """
        self._drop([s for s in self._tables(entry.attempt) if s[1]])
        names: dict[str, str] = {}
        for old in dict.fromkeys(m.staging for m in entry.moves):
            database = next(m.database for m in entry.moves if m.staging == old)
            found = self._ask(
                f"SELECT name FROM system.tables WHERE database = {quote(database)} AND "
                f"(name = {quote(old)} OR startsWith(name, {quote(old + '_x')}))"
            )
            for (name,) in found:
                new = f"{old}_x{secrets.token_hex(3)}"
                try:
                    self._run(
                        f"RENAME TABLE {sql.qualified(database, name)} "
                        f"TO {sql.qualified(database, new)}"
                    )
                except EngineError as error:
                    if error.code != UNKNOWN_TABLE:
                        raise
                    continue  # another rescuer was faster
                names[old] = new
        for _, table in {(m.database, m.table) for m in entry.moves}:
            self._quiet(entry.attempt, table)
        return [replace(m, staging=names[m.staging]) for m in entry.moves if m.staging in names]

    def _quiet(self, attempt: str, table: str) -> None:
        for (query_id,) in self._ask(
            "SELECT query_id FROM system.processes WHERE "
            f"startsWith(query_id, {quote(attempt + '_into_')}) AND endsWith(query_id, "
            f"{quote('.' + table)})"
        ):
            self._wait_for(query_id)

    def _landed_meanwhile(self, attempt: str) -> bool:
        return any(e.attempt == attempt and e.landed for e in self._journal.entries())

    def _tables(self, attempt: str) -> list[tuple[str, bool]]:
        """Tables of an attempt: (name, is a view)."""
        prefix = f"{STAGING_PREFIX}{attempt}"
        rows = self._ask(
            f"SELECT name, engine LIKE '%View' FROM system.tables WHERE "
            f"database = {quote(self._database)} AND "
            f"(name = {quote(prefix)} OR startsWith(name, {quote(prefix + '_')}))"
        )
        return [(str(name), bool(view)) for name, view in rows]

    def _drop(self, tables: Sequence[tuple[str, bool]]) -> None:
        for name, _ in tables:
            self._run(f"DROP TABLE IF EXISTS {sql.qualified(self._database, name)} SYNC")

    def _discard(self, attempt: str) -> None:
        for statement in staging.discard(self._ask, f"{STAGING_PREFIX}{attempt}"):
            self._engine.run(Statement(statement))

    def _ask(self, text: str) -> list[list[Any]]:
        return ask(self._engine, text)

    def _run(self, text: str) -> None:
        self._engine.run(Statement(SqlText.of(text)))


def _open(entry: Entry) -> bool:
    return bool(entry.claimed) and not (entry.ended or entry.landed or entry.forgotten)
