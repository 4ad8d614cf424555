"""Take the rows of a load out of a table again: what is refused everywhere, and by a column."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.contracts.undo import Undo
from rowfall.core import disk, units
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.results import Undone
from rowfall.destinations.questions import about_load
from rowfall.engines.small_tables import SmallTables
from rowfall.ledger import Ledger
from rowfall.ledger.ledger import UNDO, UNDOING

AWAY = "rows away"
"""Step of a load none of whose rows is in the table any more."""
# A statement names each file of the load.
MOST_FILES = 10_000
KEEP = (
    "A load that has --add-column file=_path keeps the name of its file with each row, by which "
    "its rows are known for good."
)


def check_undo(asked: Undo, ledger: Ledger) -> None:
    """Check what does not depend on the kind of the target.

    Raises:
        LedgerError: the load runs, has replaced what was there, or has not come to its end.
        UsageError: it has brought nothing that could be taken out.
    """
    report, options = asked.report, asked.request.get("options", {})
    name = report.load_id[:8]
    if report.outcome == "running":
        raise LedgerError(
            f"load {name} is running", hint=f"Wait for its end: rowfall status {name}"
        )
    if any(a.load_id == report.load_id for a in ledger.open_attempts()):
        raise LedgerError(
            f"load {name} was stopped, and some of its rows are neither visible nor gone",
            hint=f"Let it come to its end first: rowfall resume {name}",
        )
    if ledger.joined_to(report.load_id):
        raise asked.refused(
            "it stands for many loads of a followed source, whose files are not remembered one "
            "by one",
            "Load all of it with --replace.",
        )
    for option in ("replace", "upsert"):
        if options.get(option):
            raise asked.refused(
                f"with --{option} they have taken the place of others, which are gone",
                "Load what is to be there with --replace.",
            )
    if not ledger.loaded_by(report.load_id) and not begun(asked, ledger):
        raise UsageError(
            f"load {name} has brought nothing into {report.table or report.target}, or it was "
            "undone or forgotten",
            hint=f"rowfall report {name} shows what it did.",
        )


@contextmanager
def alone(asked: Undo, ledger: Ledger) -> Iterator[None]:
    """Keep other processes of this ledger from taking out the rows of the same load.

    Raises:
        LedgerError: one does so now.
    """
    with _locked(ledger.path.with_name(f"{ledger.path.name}.undo-{asked.load_id}")) as locked:
        if not ledger.claim(asked.load_id, UNDOING, locked=locked):
            raise asked.refused("another process is doing that", "Wait until it has ended.")
        try:
            yield
        finally:
            ledger.unclaim(asked.load_id, UNDOING)


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold the lock of a file, and remove the file; False where another process has it locked.

    False as well where the file system knows no locks: what the ledger says has to do.
    """
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        locked = disk.try_lock(opened) is True
        # Not one that was removed before it was locked: another process may have made it anew.
        locked = locked and path.exists() and os.path.samestat(path.stat(), os.fstat(opened))
        try:
            yield locked
        finally:
            if locked:
                path.unlink(missing_ok=True)
    finally:
        os.close(opened)


def begun(asked: Undo, ledger: Ledger) -> Mapping[str, Any] | None:
    """Return what an undo of this load has written down that was stopped; None for none."""
    steps = ledger.steps(asked.load_id)
    for name, state in steps.items():
        word, _, text = name.partition(" ")
        if word == UNDO and state != "done":
            away = steps.get(AWAY) == "done"
            return {**json.loads(text), "away": away}
    return None


def marked_files(asked: Undo, ledger: Ledger, key: str) -> list[str]:
    """Return the names that the rows of a load have in :attr:`Undo.column`.

    Args:
        key: of the target.

    Raises:
        LedgerError: rows of other loads have them, too.
    """
    names = sorted(ledger.sources_of(asked.load_id))
    others = ledger.loads_of_sources(key, names) - {asked.load_id}
    if others:
        some = " and ".join(sorted(other[:8] for other in others)[:3])
        raise asked.refused(
            f"load {some} has brought rows of the same files",
            "Undo the later one first where that can be done, or load all of it with --replace.",
        )
    if ledger.counts_no_more(asked.load_id, key):
        raise asked.refused(
            "other loads have taken the place of its rows since, or files of them count as theirs",
            "Load all of it with --replace.",
        )
    if len(names) > MOST_FILES:
        raise asked.refused(
            f"{units.counted(len(names), 'file')} are more than a statement can name",
            "Load all of it with --replace.",
        )
    if any(name.endswith("]") for name in names):
        raise asked.refused(
            "it has loaded ranges of files, and others may have loaded the rest of them",
            "Load all of it with --replace.",
        )
    return names


def _key_of(asked: Undo, ledger: Ledger) -> str:
    """Return the key of the target of a load: of a database, not what its tables are named by."""
    (row,) = ledger.loads("WHERE id = ?", asked.load_id)
    return row.target_key


def stopped_undo(session: Session, ledger: Ledger) -> LedgerError | None:
    """Return the error of a load into a table from which rows are half taken out; None for none."""
    for load_id in ledger.begun(UNDO, session.target_key):
        return LedgerError(
            f"the rows of load {load_id[:8]} are half taken out of the table: rowfall undo was "
            "stopped",
            hint="Let it come to its end first: "
            f"{about_load(session, 'undo', load_id[:8], '--yes')}",
        )
    return None


def begin(asked: Undo, ledger: Ledger, plan: Mapping[str, Any]) -> str:
    """Write down what is going to be taken out; return the name of the step."""
    step = f"{UNDO} {json.dumps(plan)}"
    ledger.step(asked.load_id, AWAY, "started")
    ledger.step(asked.load_id, step, "started")
    return step


def give_up(asked: Undo, ledger: Ledger, but: str = "") -> None:
    """Record that nothing more is going to be taken out, so that loads go on.

    Args:
        but: the step of what is, nevertheless.
    """
    for name in ledger.steps(asked.load_id):
        if name.startswith(f"{UNDO} ") and name != but:
            ledger.step(asked.load_id, name, "done")


def record_undone(asked: Undo, ledger: Ledger) -> None:
    """Record that an undo is at its end."""
    for row in ledger.loads("WHERE id = ?", asked.load_id):
        if row.report is not None:
            ledger.end(row.id, "done", json.dumps({**json.loads(row.report), "outcome": "undone"}))
    give_up(asked, ledger)


def undo_by_column(
    asked: Undo, ledger: Ledger, tables: SmallTables, table: str, forget: Callable[[], int]
) -> Undone:
    """Delete the rows of a load from a table of a database, by the names of its files.

    Args:
        forget: makes the load count as not loaded; returns its splits.

    Raises:
        LedgerError: they cannot be told from others.
    """
    check_undo(asked, ledger)
    stopped = begun(asked, ledger)
    if not asked.column:
        raise asked.refused("nothing tells them from others", f"Load all with --replace. {KEEP}")
    if stopped is None:
        files = marked_files(asked, ledger, _key_of(asked, ledger))
        rows = asked.report.rows
    else:
        files, rows = list(stopped["files"]), int(stopped["rows"])
    where = f"{tables.dialect.name(asked.column)} IN ({', '.join(map(tables.value, files))})"
    counted = f"SELECT count(*) FROM {tables.name(table)} WHERE {where}"

    def count() -> int:
        ((found,),) = tables.ask(counted)
        return int(found or 0)

    away = bool(stopped and stopped["away"])
    if not away:
        found = count()
        if stopped is None or found:
            # A statement deletes all or nothing: other rows have come since it was stopped.
            _check_stopped(asked, ledger, found, rows)
    result = asked.undone(len(files), rows=rows, by=asked.column)
    if asked.dry:
        return result
    if stopped is None:
        begin(asked, ledger, {"files": files, "rows": rows})
    if not away:
        # Counted in the same statement: what others have brought since is not deleted. A table of
        # its own, because MySQL reads no table that it deletes from.
        same = f"(SELECT * FROM ({counted}) AS counted) = {rows}"
        tables.delete(table, f"{where} AND {same}")
        # Fewer have come behind it.
        if (left := count()) >= rows > 0:
            give_up(asked, ledger)
            raise asked.refused(
                f"others have brought rows of its files just now: {left:,} have their names in "
                f"{asked.column}; none was taken out",
                "Load all of it with --replace.",
            )
        # Before the record: who is stopped behind it must not delete what others load then.
        ledger.step(asked.load_id, AWAY, "done")
    forget()
    record_undone(asked, ledger)
    return result


def _check_stopped(asked: Undo, ledger: Ledger, found: int, rows: int) -> None:
    """Check the rows that have the names of a load's files; where they are others, go no further.

    Raises:
        LedgerError: they are more or fewer.
    """
    try:
        check_count(asked, found, rows)
    except LedgerError:
        if not asked.dry:
            give_up(asked, ledger)
        raise


def check_count(asked: Undo, found: int, rows: int, why: str = "") -> None:
    """Check that as many rows have the names of a load's files as it has brought.

    Raises:
        LedgerError: they are more or fewer.
    """
    if found != rows:
        raise asked.refused(
            f"{why}{found:,} rows have the names of its files in {asked.column}, and it has "
            f"brought {rows:,}",
            "Rows were changed since, or others have brought rows of these files: load all of it "
            "with --replace.",
        )
