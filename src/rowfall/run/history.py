"""Past and running loads: reports and records of them, and what they were asked for."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rowfall.core import uri
from rowfall.core.errors import (
    DataError,
    Interrupted,
    LedgerError,
    RowfallError,
    SourceError,
    TargetError,
    UsageError,
)
from rowfall.core.load_record import PartSizes
from rowfall.core.masked import MASK, redact
from rowfall.core.model import MergeWork
from rowfall.core.options import Options
from rowfall.core.own_files import LEDGER_NAME
from rowfall.core.results import (
    ClearedFiles,
    Explanation,
    Failure,
    Report,
    ShardReport,
    WorkerReport,
)
from rowfall.core.steering import SteeringStep
from rowfall.core.version import __version__
from rowfall.ledger import Ledger, LoadRow, recorder
from rowfall.ledger.leases import has_ended
from rowfall.ledger.recorder import known
from rowfall.run import explained
from rowfall.targets import open_target
from rowfall.targets.base import kept_in, state_ledgers

# Fields of a stored report that had another name in version 1 of the document.
_RENAMED = {"splits_landed": "splits_loaded"}


def reports(to: str | None, *, everywhere: bool = False) -> list[Report]:
    """Return the reports of all loads of a target, newest first.

    Args:
        to: the target; None for the default folder, and for files that were written from here.
        everywhere: with ``to`` None, all loads that this user's ledgers know.
    """
    found: list[Report] = []
    for path in _ledgers(to, everywhere=everywhere):
        of = None
        if path.name == LEDGER_NAME and kept_in(path.parent) and not everywhere:
            of = _from_here if to is None else _into(open_target(to, "any", Options()).text)
        found += _reports(path, of)
    return sorted(found, key=lambda r: r.started, reverse=True)


def _from_here(row: LoadRow) -> bool:
    """Return True where a load was started in this folder."""
    return bool(json.loads(row.request).get("folder") == os.getcwd())


def _into(text: str) -> Callable[[LoadRow], bool]:
    return lambda row: row.target == text


def _ledgers(to: str | None, *, everywhere: bool = False) -> list[Path]:
    if to is not None:
        return [open_target(to, "any", Options()).ledger_path]
    here = open_target(None, "any", Options()).ledger_path
    kept = state_ledgers()
    return [here, *(path for path in kept if everywhere or path.name == LEDGER_NAME)]


def _rows(path: Path) -> list[LoadRow]:
    if not path.exists():
        return []
    ledger = Ledger(path)
    try:
        return ledger.loads()
    finally:
        ledger.close()


def _reports(path: Path, of: Callable[[LoadRow], bool] | None = None) -> Iterator[Report]:
    for row in _rows(path):
        if of is not None and not of(row):
            continue
        if row.state == "running" and row.owner and not has_ended(row.owner, path):
            yield _running_report(path, row)
        elif row.report is not None and row.state != "running":
            yield from_json(row.report)
        else:
            yield _stopped_report(path, row, "lost")


def _stopped_report(path: Path, row: LoadRow, outcome: str) -> Report:
    """Return the report of a load whose last run has not come to one.

    The figures are those of the run before it, where there was one.
    """
    if row.report is not None:
        return dataclasses.replace(from_json(row.report), outcome=outcome)
    # It has said how many files are loaded; its rows are those that were read.
    return dataclasses.replace(
        _running_report(path, row), outcome=outcome, rows=0, bytes_source=0, progress=None
    )  # fmt: skip


def _running_report(path: Path, row: LoadRow) -> Report:
    """Return a report of a running load, with the progress that its process has written last."""
    says = recorder.read_progress(path, row.id)
    table = ".".join(json.loads(row.target_key))
    return Report(
        row.id, "running", row.source, row.target, table, row.started,
        splits=int(says.get("splits", 0)),
        splits_loaded=int(says.get("loaded", 0)),
        splits_skipped=int(says.get("skipped", 0)),
        rows=int(says.get("rows", 0)),
        bytes_source=int(says.get("bytes", 0)),
        seconds=says.get("seconds", 0.0),
        progress=says.get("share"),
        tables=json.loads(row.request).get("options", {}).get("tables") or "",
    )  # fmt: skip


def request(load_id: str, to: str | None) -> dict[str, Any]:
    """Return the recorded request of a load: its sources, target and options.

    Raises:
        LedgerError: no ledger has a load of this id.
    """
    path = _ledger_of(load_id, to)
    row = None if path is None else _row_of(path, load_id)
    if row is None:
        raise LedgerError(f"load {load_id} is in no ledger")
    found: dict[str, Any] = json.loads(row.request)
    return found


def explanation(report: Report, to: str | None) -> Explanation:
    """Return the plan of a load and what its attempts did.

    Of one that runs, or whose process is gone, what it has written down last.
    """
    path = _ledger_of(report.load_id, to)
    return explained.read(None, report) if path is None else explanation_in(path, report)


def explanation_in(path: Path, report: Report) -> Explanation:
    """Return the plan of a load that a ledger has, and what its attempts did."""
    if report.unfinished:
        return unfinished(path, report)
    ledger = Ledger(path)
    try:
        return explained.read(ledger.explained(report.load_id), report)
    finally:
        ledger.close()


def unfinished(path: Path, report: Report) -> Explanation:
    """Return what a load has recorded in the file beside its ledger, which a killed one leaves."""
    found = recorder.read_record(path, report.load_id)
    plan = explained.plan_of(found.plan)
    return Explanation(report, plan, found.attempts, found.others, found.record)


def _ledger_of(load_id: str, to: str | None) -> Path | None:
    """Return the ledger that has a load; None where none has."""
    paths = _ledgers(to, everywhere=True)
    return next((path for path in paths if _row_of(path, load_id) is not None), None)


def _row_of(path: Path, load_id: str) -> LoadRow | None:
    """Return a load of a ledger; None where it has none of this id."""
    return next((row for row in _rows(path) if row.id == load_id), None)


class WatchedLoad:
    """A load that is looked at while it runs, by its own process or by another one.

    Args:
        path: of its ledger. ``load_id``: in full.
    """

    def __init__(self, path: Path, load_id: str) -> None:
        self._path, self._id = path, load_id
        self._row: LoadRow | None = None

    @classmethod
    def find(cls, load_id: str, to: str | None) -> WatchedLoad | None:
        """Return a load of a target; None where no ledger has it."""
        path = _ledger_of(load_id, to)
        return None if path is None else cls(path, load_id)

    def now(self) -> Explanation | None:
        """Return what is known of the load; None where it is in the ledger no more.

        While it runs only a small file is read: the ledger itself is asked once, and at the end.
        """
        row = self._row or _row_of(self._path, self._id)
        if row is None:
            return None
        alive = row.state == "running" and not has_ended(row.owner, self._path)
        if alive and recorder.path_of(self._path, self._id).exists():
            self._row = row
            return unfinished(self._path, _running_report(self._path, row))
        self._row = None
        report = next(_reports(self._path, lambda row: row.id == self._id), None)
        return None if report is None else explanation_in(self._path, report)


def sources(asked: Mapping[str, Any], load_id: str, instead: str) -> list[str]:
    """Return the sources of a request.

    Args:
        instead: a command that does the same with the sources in full.

    Raises:
        UsageError: they had secrets, which are not kept.
    """
    found = [str(text) for text in asked["sources"]]
    for text in found:
        if MASK in text and uri.scheme_of(text) != uri.FILE:
            raise UsageError(
                f"load {load_id} read {text}, whose secrets are not kept",
                hint=f"Give the sources once more: {instead}",
            )
    return found


def record(ledger: Ledger, report: Report) -> None:
    """Record that a run has ended, with its report."""
    ledger.end(report.load_id, report.outcome, json.dumps(dataclasses.asdict(report)))


def record_stopped(ledger: Ledger, load_id: str, error: BaseException) -> None:
    """Record how a run of this process has ended that has not come to its report.

    Nothing is recorded of one that has, or that was forgotten because it had done nothing yet.

    Args:
        error: what has ended it. What is no ``Exception``, as of Ctrl-C, interrupts it.
    """
    row = ledger.running_here(load_id)
    if row is None:
        return
    interrupted = isinstance(error, Interrupted) or not isinstance(error, Exception)
    report = _stopped_report(ledger.path, row, "interrupted" if interrupted else "failed")
    # Those of single files are still true; what ended the run before as a whole is not.
    failures = report.failures if report.splits_failed else ()
    if not interrupted:
        failures = (_failure(report.source, error),)
    record(ledger, dataclasses.replace(report, failures=failures, rowfall_version=__version__))


def _failure(source: str, error: BaseException) -> Failure:
    """Return the failure of a whole load, which names its source in place of a file."""
    if not isinstance(error, RowfallError):
        return Failure(source, redact(f"{type(error).__name__}: {error}"))
    lasting = isinstance(error, UsageError | DataError | SourceError | TargetError)
    return Failure(
        source, error.message, error.hint, lasting and not error.transient, error.code
    )  # fmt: skip


def from_json(text: str) -> Report:
    """Return a stored report of any version; fields that a newer rowfall added are left out.

    Raises:
        LedgerError: the text is not a report.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        values = known(Report, {_RENAMED.get(k, k): v for k, v in found.items()})
        values["failures"] = tuple(Failure(**f) for f in values.get("failures", ()))
        values["notes"] = tuple(values.get("notes", ()))
        if values.get("merges") is not None:
            values["merges"] = MergeWork(**values["merges"])
        if (parts := values.get("part_sizes")) is not None:
            sizes = tuple((int(most), int(n)) for most, n in parts.pop("bytes"))
            values["part_sizes"] = PartSizes(sizes, **parts)
        steps = values.get("steering", ())
        values["steering"] = tuple(SteeringStep(**step) for step in steps)
        if values.get("after") is not None:
            values["after"] = ClearedFiles(**values["after"])
        values["shards"] = tuple(ShardReport(**s) for s in values.get("shards", ()))
        values["workers"] = tuple(WorkerReport(**w) for w in values.get("workers", ()))
        return Report(**values)
    except (ValueError, TypeError) as error:
        raise LedgerError(f"the ledger holds a report that cannot be read: {error}") from None
