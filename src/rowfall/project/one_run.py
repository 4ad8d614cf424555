"""One named load with its hooks, whoever loads its rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rowfall.core.errors import Exit, Interrupted, RowfallError
from rowfall.core.results import LoadError
from rowfall.core.run_results import (
    DONE,
    FAILED,
    INTERRUPTED,
    PARTIAL,
    HookRun,
    LoadReport,
    NamedRun,
)
from rowfall.core.tables import TablesReport
from rowfall.project import hooks
from rowfall.project.file import AFTER, BEFORE, ON_ERROR
from rowfall.project.values import NamedLoad
from rowfall.report.loads import report_document
from rowfall.report.tables import tables_document


def run_load(
    load: NamedLoad, load_rows: Callable[[NamedLoad], LoadReport], say: Callable[[str], None]
) -> NamedRun:
    """Run the hooks before a load, the load, and the hooks behind it.

    A hook before it that fails keeps it from loading anything. Those of ``on_error`` run where
    something was not loaded, and after nothing that a user has stopped.

    Args:
        load_rows: loads, and returns the report or raises as :func:`rowfall.load` or
            :func:`rowfall.load_tables` does.
        say: gets lines for people.
    """
    began = time.monotonic()
    ran: list[HookRun] = []
    report: LoadReport | None = None
    error: RowfallError | None = None
    outcome = DONE

    def ended(code: int, error: str = "", hint: str = "") -> NamedRun:
        seconds = round(time.monotonic() - began, 3)
        rows = report.rows if report is not None else 0
        return NamedRun(load.name, outcome, code, report, error, hint, tuple(ran), rows, seconds)

    def hooked(when: str, document: Mapping[str, Any] | None) -> HookRun | None:
        """Run the hooks of one moment and return the one that has failed."""
        ran.extend(hooks.run(when, load, document, say))
        return ran[-1] if ran and ran[-1].error else None

    try:
        hooks.check(load)
        if (failed := hooked(BEFORE, None)) is not None:
            outcome = FAILED
            return ended(Exit.HOOK, failed.error, "Nothing was loaded: the hook comes first.")
        try:
            report = load_rows(load)
        except LoadError as some:
            report = some.report
            error = some
        if isinstance(report, TablesReport) and report.exit:
            error = _of_tables(report)
        if error is not None:
            outcome = PARTIAL if report.outcome == PARTIAL else FAILED
    except (Interrupted, KeyboardInterrupt) as stop:
        outcome = INTERRUPTED
        hint = stop.hint if isinstance(stop, Interrupted) else None
        return ended(Exit.INTERRUPTED, "interrupted", hint or "")
    except RowfallError as some:
        outcome, error = FAILED, some
    if report is not None and report.outcome == INTERRUPTED:
        outcome = INTERRUPTED
        return ended(Exit.INTERRUPTED, "interrupted")
    try:
        if error is not None:
            # What the report of a load says is not repeated.
            said = "" if report is not None else error.message
            failed = hooked(ON_ERROR, _document(report, error))
            if failed is not None:
                said = f"{error.message}; {failed.error}"
            return ended(
                report.exit if isinstance(report, TablesReport) else error.exit_code,
                said,
                error.hint or "",
            )
        if (failed := hooked(AFTER, _document(report, None))) is not None:
            outcome = FAILED
            return ended(
                Exit.HOOK, failed.error,
                "The rows are loaded. The same command runs the hook again and no row twice.",
            )  # fmt: skip
    except (Interrupted, KeyboardInterrupt):
        outcome = INTERRUPTED
        return ended(Exit.INTERRUPTED, "interrupted in a hook; the rows are loaded"
                     if error is None else "interrupted in a hook")  # fmt: skip
    return ended(Exit.DONE)


def _of_tables(report: TablesReport) -> RowfallError:
    """Return the error of the first of many tables that is not loaded."""
    problem = next(table.problem for table in report.tables if table.problem is not None)
    return RowfallError(problem.error, hint=problem.hint)


def _document(report: LoadReport | None, error: RowfallError | None) -> Mapping[str, Any]:
    """Return what a hook reads about its load."""
    if isinstance(report, TablesReport):
        return tables_document(report)
    if report is not None:
        return report_document(report)
    assert error is not None  # noqa: S101 - a load ends with a report or an error
    return {"rowfall_error": 1, "outcome": FAILED, "error": error.message, "hint": error.hint,
            "exit": error.exit_code}  # fmt: skip
