"""Take the rows of a load out of a table again: what is refused everywhere, and by a column."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from rowfall.contracts.undo import Undo
from rowfall.core import units
from rowfall.core.errors import LedgerError, UsageError
from rowfall.core.results import Undone
from rowfall.engines.small_tables import SmallTables
from rowfall.ledger import Ledger, target_key
from rowfall.ledger.ledger import UNDO

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


def begun(asked: Undo, ledger: Ledger) -> Mapping[str, Any] | None:
    """Return what an undo of this load has written down that was stopped; None for none."""
    steps = ledger.steps(asked.load_id)
    for name, state in steps.items():
        word, _, text = name.partition(" ")
        if word == UNDO and state != "done":
            away = AWAY in steps
            return {**json.loads(text), "away": away, "step": name}
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


def stopped_undo(ledger: Ledger, key: str) -> LedgerError | None:
    """Return the error of a load into a table from which rows are half taken out; None for none."""
    for load_id, _ in ledger.steps_begun(UNDO, key):
        return LedgerError(
            f"the rows of load {load_id[:8]} are half taken out of the table: rowfall undo was "
            "stopped",
            hint=f"Let it come to its end first: rowfall undo {load_id[:8]} --yes",
        )
    return None


def record_undone(asked: Undo, ledger: Ledger, step: str) -> None:
    """Record that an undo is at its end."""
    for row in ledger.loads("WHERE id = ?", asked.load_id):
        if row.report is not None:
            ledger.end(row.id, "done", json.dumps({**json.loads(row.report), "outcome": "undone"}))
    ledger.step(asked.load_id, step, "done")


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
        files = marked_files(asked, ledger, target_key(tables.place, table))
        rows = asked.report.rows
    else:
        files, rows = list(stopped["files"]), int(stopped["rows"])
    where = f"{tables.dialect.name(asked.column)} IN ({', '.join(map(tables.value, files))})"
    if stopped is None:
        ((count,),) = tables.ask(f"SELECT count(*) FROM {tables.name(table)} WHERE {where}")
        check_count(asked, int(count or 0), rows)
    result = asked.undone(len(files), rows=rows, by=asked.column)
    if asked.dry:
        return result
    step = f"{UNDO} {json.dumps({'files': files, 'rows': rows})}"
    step = step if stopped is None else str(stopped["step"])
    ledger.step(asked.load_id, step, "started")
    tables.delete(table, where)
    forget()
    record_undone(asked, ledger, step)
    return result


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
