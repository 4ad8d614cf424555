"""Publishes all attempts of a load by one commit of a table of files.

Each attempt brings its data files to their places, where nobody reads them yet: it is *gathered*,
under the key of the load. The commit at the end of the load is an attempt of its own, of all
splits that were gathered, with the key of the table. What a stopped run has gathered the next run
of the same load takes up; the table says whether the commit itself has come through.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rowfall.contracts.destination import ReceiverInputs
from rowfall.contracts.receiver import Counted, CountError, Notes, StagedAttempt
from rowfall.core import units
from rowfall.core.errors import LedgerError, TargetError
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Split, without_salt
from rowfall.engines.database import FileTable, NewFile, TakenError, UnknownEndError
from rowfall.ledger import Ledger, leases, target_key, target_key_parts
from rowfall.ledger.leases import StagedPartition
from rowfall.publish.protocol import Action, Evidence, Recorded, after_crash
from rowfall.publish.receiver import BaseReceiver
from rowfall.publish.transaction import hint_of_database
from rowfall.targets.base import SHADOW_SUFFIX, STAGING_PREFIX, Target


class CommitReceiver(BaseReceiver):
    """Gathers attempts; :func:`commit_gathered` makes them visible.

    A store has no merges, and a file that has its place is on disk.
    """

    def __init__(self, given: ReceiverInputs, table: FileTable) -> None:
        super().__init__(given)
        self._table = table
        self._files: dict[str, list[NewFile]] = {}

    def hint(self, text: str) -> str:
        return hint_of_database(text)

    def stage(self, staging: str, lane: int) -> None:
        """Make the folder that the engine writes in."""
        try:
            Path(staging).mkdir(parents=True)
        except OSError as error:
            raise TargetError(
                f"cannot make the folder {staging}: {error.strerror}",
                hint="Data files are written there first; TMPDIR names another place for those of "
                "tables that are not on this machine.",
            ) from None

    def count(self, delivered: StagedAttempt, *, checksum: bool) -> Counted:
        """Count the rows of the files.

        Raises:
            CountError: there are not as many as were written.
        """
        files = self._table.written(delivered.attempt, Path(delivered.staging))
        rows, wanted = sum(one.rows for one in files), delivered.outcome.rows_written
        if rows != wanted:
            raise CountError(
                f"{wanted:,} rows were written, and the data files hold {rows:,}", transient=True
            )
        self._files[delivered.attempt] = files
        return Counted(rows, len(files), sum(one.size for one in files), checked=True)

    def commit(self, delivered: StagedAttempt, counted: Counted) -> bool:
        """Record the names of the files, so that they can be removed after a crash."""
        moves = [StagedPartition("", "", one.name, one.local, one.rows, 0, one.size)
                 for one in self._files[delivered.attempt]]  # fmt: skip
        self._given.load.ledger.attempt_committed(delivered.attempt, counted.rows, moves)
        return True

    def publish(self, delivered: StagedAttempt, counted: Counted) -> int:
        """Bring the files to their places. Returns their bytes."""
        return self._table.add(Path(delivered.staging), self._files.pop(delivered.attempt))

    def discard(self, staging: str) -> None:
        shutil.rmtree(staging, ignore_errors=True)


def _files_of(ledger: Ledger, attempt: str) -> list[NewFile]:
    return [
        NewFile(move.staging, move.partition_id, move.highest_block, move.rows)
        for move in ledger.moves(attempt)
    ]


def commit_gathered(
    database: FileTable, ledger: Ledger, load_id: str, key: str, splits: Sequence[Split],
    notes: Notes, *, loaded: int, salt: str, replace: bool,
) -> None:  # fmt: skip
    """Commit everything that a load has gathered.

    Args:
        key: of the table. ``splits``: of the plan, with their names.
        loaded: rows of this run, for the report.
        salt: added to the ids of a load by force.
        replace: in place of all that is there.

    Raises:
        TargetError: it cannot be committed; what was gathered stays.
        LedgerError: another load has committed some of it, and the rest has to be loaded again.
    """
    gathered = ledger.gathered(target_key(key, load_id))
    if not gathered and not replace:
        return
    ids = [id_ for some in gathered.values() for id_ in some]
    wanted = set(ids)
    attempt = f"{load_id}_whole{ledger.attempts(load_id) + 1}"
    staging = f"{STAGING_PREFIX}{load_id}{SHADOW_SUFFIX}"
    # Before the commit: after a crash the next run asks the table for this name.
    known = [split for split in splits if split.id in wanted]
    ledger.attempt_started(attempt, load_id, staging, key, known)
    files = [file for name in gathered for file in _files_of(ledger, name)]
    rows = sum(file.rows for file in files)
    ledger.attempt_committed(attempt, rows, ())
    try:
        database.commit(attempt, load_id, [f"{id_}{salt}" for id_ in ids], files, replace=replace)
    except TakenError as error:
        ledger.attempt_ended(attempt, "lost", error.message)
        taken = set(map(without_salt, error.taken))
        again = _drop_taken(database, ledger, target_key(key, load_id), gathered, taken)
        ledger.loaded_elsewhere(load_id, taken)
        text = f"{error.message}, so what was gathered of them is dropped"
        if again:
            raise LedgerError(
                text, hint="Run the same command again: it loads the other files.", transient=True
            ) from error
        notes.add("warning", text)
        return
    except UnknownEndError as error:
        if not database.settled(attempt):
            ledger.attempt_ended(attempt, "lost", error.message)
            raise TargetError(error.message, hint=error.hint, transient=True) from error
    _record(ledger, attempt, key, gathered)
    if rows > loaded:
        text = units.counted(rows - loaded, "row")
        notes.add("info", f"{text} that a stopped run had written are visible now, too")


def _record(ledger: Ledger, attempt: str, key: str, gathered: Mapping[str, Sequence[str]]) -> None:
    """Record that a commit has come through."""
    for name in gathered:
        for move in ledger.moves(name):
            ledger.attached(name, move.staging)
    ledger.attempt_published(attempt, key)


def _drop_taken(
    table: FileTable, ledger: Ledger, key: str, gathered: Mapping[str, Sequence[str]],
    taken: Collection[str],
) -> bool:  # fmt: skip
    """Drop the attempts that hold rows of splits which another load has committed.

    Args:
        key: that they were gathered under.

    Returns:
        True where others are to be loaded again.
    """
    hit = {name: ids for name, ids in gathered.items() if not set(ids).isdisjoint(taken)}
    for name, ids in hit.items():
        drop_gathered(table, ledger, name, key, ids)
    return len(hit) < len(gathered) or any(set(ids) - set(taken) for ids in hit.values())


def drop_gathered(
    table: FileTable, ledger: Ledger, attempt: str, key: str, ids: Sequence[str]
) -> None:
    """Remove the data files of an attempt that no commit has.

    Args:
        key: that it was gathered under.
    """
    names = [move.staging for move in ledger.moves(attempt) if move.state == "pending"]
    ledger.forget_splits(key, ids)
    table.remove(names)
    ledger.attempt_ended(attempt, "lost", "its files are not needed")


def end_open_commits(
    database: FileTable, ledger: Ledger, target: Target, key: str, running: Collection[str],
    emit: Listener,
) -> None:  # fmt: skip
    """End what dead processes have left open in the ledger; the table says how commits ended.

    Args:
        key: of the table. ``running``: other loads of this process.
    """
    for attempt in ledger.open_attempts():
        if attempt.load_id in running:
            continue
        if attempt.target_key == key:
            recorded = Recorded.COMMITTED if attempt.committed else Recorded.STARTED
            there = database.settled(attempt.id)
            evidence = Evidence.ALL_PARTS if there else Evidence.ROLLED_BACK
            if after_crash(recorded, evidence) is Action.RECORD:
                gathered = ledger.gathered(target_key(key, attempt.load_id))
                _record(ledger, attempt.id, key, gathered)
                rows = units.counted(attempt.rows or 0, "row")
                emit(Note("info", f"{rows} that a stopped run had loaded are committed"))
            else:
                ledger.attempt_ended(attempt.id, "lost", "rowfall was stopped before its commit")
        elif target_key_parts(attempt.target_key)[0] == key:
            database.remove([move.staging for move in ledger.moves(attempt.id)])
            shutil.rmtree(attempt.staging, ignore_errors=True)
            ledger.attempt_ended(attempt.id, "lost", "rowfall was stopped")
    # Of an attempt that is recorded, the folder may be there still.
    pattern = Path(target.staging_name("*_*", 0, None))
    for folder in pattern.parent.glob(pattern.name):
        attempt_id = folder.name.removeprefix(pattern.name.removesuffix("*_*"))
        load_id = attempt_id.partition("_")[0]
        owners = [load.owner for load in ledger.loads("WHERE id = ?", load_id)]
        lives = load_id in running or not all(leases.has_ended(o, ledger.path) for o in owners)
        if ledger.attempt_state(attempt_id) in ("published", "failed", "lost") and not lives:
            shutil.rmtree(folder, ignore_errors=True)
