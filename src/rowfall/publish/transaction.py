"""Publishes attempts by a commit of the database that has their rows.

The record of the splits is written in the same transaction, so the database itself says what is
loaded: no staging tables, no journal. The key of the record is the lease of a split; see
:meth:`rowfall.engines.database.Transaction.lease`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from rowfall.contracts.destination import ReceiverInputs
from rowfall.contracts.receiver import Counted, StagedAttempt
from rowfall.core import retry, units
from rowfall.core.errors import EngineError, TargetError
from rowfall.core.events import Listener, Note
from rowfall.core.listing import CUT_LEAST, MARK, Split, overlap, partial_mark, without_salt
from rowfall.core.options import ERROR
from rowfall.core.patterns import regex
from rowfall.engines.database import (
    BusyError,
    Database,
    RolledBackError,
    SplitRecord,
    UnknownEndError,
)
from rowfall.ledger import Ledger
from rowfall.ledger.leases import Lease, Leases, NoLeases
from rowfall.publish.protocol import Action, Evidence, Recorded, after_crash
from rowfall.publish.receiver import BaseReceiver
from rowfall.schema.text.records import APART
from rowfall.targets.base import STAGING_PREFIX

IN_TABLES = "Load files of different columns into tables of their own, with --table."
# What only tables of ClickHouse can do.
_WIDEN = regex(r"Load it (as JSON )?with --widen( --type '[^']*')+( --short-rows null)?")


def hint_of_database(text: str) -> str:
    """Return a hint about a column without what only tables of ClickHouse can do."""

    def change(found: re.Match[str]) -> str:
        load = f", and load with{found[3]}" if found[3] else ""
        return f"Change the type of the column in the table{load}"

    return _WIDEN.sub(change, text).replace(APART, IN_TABLES)


Among = Callable[[Sequence[str]], set[str]]
"""Returns those of some ids, and marks of files, that are loaded."""

# Ids of one question.
_MOST_ASKED = 10_000


def _listed(among: Among, splits: Iterable[Split]) -> set[str]:
    """Return the ids of listed files that are loaded, and the marks of those that were cut."""
    found: set[str] = set()
    asked: list[str] = []
    for split in splits:
        asked += [split.id, partial_mark(split.id)]
        if (split.size or 0) >= CUT_LEAST:
            asked.append(f"{MARK}{split.id}")
        if len(asked) >= _MOST_ASKED:
            found |= among(asked)
            asked = []
    return found | among(asked) if asked else found


def hold_streams(database: Database, splits: Iterable[Split]) -> None:
    """Keep streams to this process, whose ranges another one may cut at other places.

    Raises:
        TargetError: another one has them.
    """
    streams = {split.whole: split.uri for split in splits if split.continued}
    if streams and not database.hold(sorted(streams)):
        raise TargetError(
            f"another rowfall loads {next(iter(streams.values()))} into this table",
            hint="Run the same command again when it has ended.",
            transient=True,
        )


def _is_large(split: Split) -> bool:
    return split.part is None and not split.continued and (split.size or 0) >= CUT_LEAST


class TransactionLeases(NoLeases):
    """Leases that are rows of open transactions.

    Args:
        salt: added to the ids of a load that loads again what is loaded (``--force``).
    """

    def __init__(self, database: Database, load_id: str, salt: str) -> None:
        self._database, self._load_id, self._salt = database, load_id, salt

    def lease(self, attempt: str, splits: Sequence[Split], nodes: str = "") -> Lease:
        """Begin the transaction of an attempt with the record of its splits."""
        ids = {f"{split.id}{self._salt}": split.id for split in splits}
        records = [
            SplitRecord(f"{s.id}{self._salt}", s.name, s.whole if s.part else "", _is_large(s))
            for s in splits
        ]
        hold_streams(self._database, splits)
        if not self._salt and any(split.continued for split in splits):
            # Others may have cut the stream at other places.
            taken = overlap(list(ids), self._database.loaded())
            if taken:
                return Lease(loaded=frozenset(ids[i] for i in taken))
        try:
            loaded = self._begin(attempt, records)
        except BusyError:
            self.release(attempt)
            return Lease(busy=frozenset(ids.values()))
        if loaded:
            self.release(attempt)
        return Lease(loaded=frozenset(ids[i] for i in loaded))

    def _begin(self, attempt: str, records: Sequence[SplitRecord]) -> frozenset[str]:
        """Begin, again where the connection was lost: it may have waited since the last attempt."""
        tries = 0
        while True:
            try:
                return self._database.transaction(attempt).lease(attempt, self._load_id, records)
            except BusyError:
                raise
            except EngineError as error:
                self.release(attempt)
                tries += 1
                if not error.transient or tries > retry.MOST_TRANSIENT:
                    raise
                time.sleep(retry.pause(tries))

    def release(self, attempt: str) -> None:
        """Roll the transaction back, if it is open."""
        self._database.ended(attempt)


class TransactionReceiver(BaseReceiver):
    """Publishes attempts each of which is one transaction of a database.

    The lease has begun the transaction, the database makes room by itself, and a commit is on disk
    as far as the database's settings say so.
    """

    def __init__(self, given: ReceiverInputs, database: Database, leases: Leases) -> None:
        super().__init__(given, leases)
        self._database = database
        self.skips_refused_rows = database.marks

    def hint(self, text: str) -> str:
        return hint_of_database(text)

    def count(self, delivered: StagedAttempt, *, checksum: bool) -> Counted:
        """Return the rows that have arrived, and finish what is left before the commit.

        Whoever has sent them has compared their number with those that were read.
        """
        rows = delivered.outcome.rows_written
        taken = self._database.transaction(delivered.attempt).finish(rows)
        wish = self._given.load.session.options.on_conflict
        if taken < rows and wish != ERROR:
            text = f"{units.counted(rows - taken, 'row')} had the key of another one"
            self._given.notes.add("info", f"{text}: --on-conflict {wish}")
        return Counted(rows, checked=True)

    def publish(self, delivered: StagedAttempt, counted: Counted) -> int:
        """Commit; where the answer is lost, ask how it has ended.

        Raises:
            RolledBackError: it was rolled back.
        """
        try:
            self._database.transaction(delivered.attempt).commit()
        except UnknownEndError as error:
            if not self._database.settled(delivered.attempt):
                raise RolledBackError(
                    f"{error.message}, which has taken the rows back", transient=True
                ) from None
        return 0

    def discard(self, staging: str) -> None:
        """Roll back what is not committed, and give the connection back."""
        self._database.ended(staging.removeprefix(STAGING_PREFIX))


def end_open_transactions(
    database: Database, ledger: Ledger, keys: Collection[str], running: Collection[str],
    emit: Listener,
) -> None:  # fmt: skip
    """End what dead processes have left open in the ledger: the database knows how it ended.

    Args:
        keys: of the target table, and of what this load gathers beside it.
        running: other loads of this process.
    """
    for attempt in ledger.open_attempts():
        if attempt.target_key not in keys or attempt.load_id in running:
            continue
        recorded = Recorded.COMMITTED if attempt.committed else Recorded.STARTED
        # One that was never to be committed may still hold its splits.
        there = database.settled(attempt.id)
        evidence = Evidence.ALL_PARTS if there else Evidence.ROLLED_BACK
        if after_crash(recorded, evidence) is Action.RECORD:
            ledger.attempt_published(attempt.id, attempt.target_key)
            rows = units.counted(attempt.rows or 0, "row")
            emit(Note("info", f"{rows} that a stopped run had loaded are committed"))
        else:
            ledger.attempt_ended(attempt.id, "lost", "rowfall or the database was stopped")


def loaded_in(
    database: Database, load_id: str, *, force: bool, among: Among | None = None,
    splits: Callable[[], Iterable[Split]] = tuple,
) -> frozenset[str]:  # fmt: skip
    """Return the ids of splits that the database has recorded as loaded.

    Args:
        force: only those that this load itself has loaded again.
        among: answers for some ids without reading the whole record; None where nothing does.
        splits: gives the listed files; of a stream ``among`` is None.
    """
    found: set[str] = set()
    if among is not None and not force:
        found = _listed(among, splits())
        if not any(i.startswith(MARK) for i in found):
            return frozenset(found)
    ids = database.loaded()
    if force:
        return frozenset(f for i in ids if (f := without_salt(i)) != i and i == f + load_id)
    return frozenset({*map(without_salt, ids), *found})
