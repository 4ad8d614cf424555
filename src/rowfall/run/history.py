"""What the ledgers know of past loads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rowfall.core.errors import LedgerError
from rowfall.core.options import Options
from rowfall.core.results import Report
from rowfall.ledger import Ledger, LoadRow
from rowfall.run import summary
from rowfall.targets import open_target
from rowfall.targets.base import state_folder


def reports(to: str | None) -> list[Report]:
    """Reports of all loads of target ``to`` (None: the default folder and the user's ledgers)."""
    found = [r for path in _ledgers(to) for r in _reports(path)]
    return sorted(found, key=lambda r: r.started, reverse=True)


def _ledgers(to: str | None) -> list[Path]:
    if to is not None:
        return [open_target(to, "any", Options()).ledger_path]
    here = open_target(None, "any", Options()).ledger_path
    return [here, *sorted(state_folder().glob("*.ledger"))]


def _rows(path: Path) -> list[LoadRow]:
    if not path.exists():
        return []
    ledger = Ledger(path)
    try:
        return ledger.loads()
    finally:
        ledger.close()


def _reports(path: Path) -> Iterator[Report]:
    for row in _rows(path):
        if row.report is not None:
            found = summary.from_json(row.report)
            # "running" with a report: a later run of the same load was killed.
            yield dataclasses.replace(found, outcome="lost") if row.state == "running" else found
        else:
            parts = json.loads(row.target_key)
            yield Report(row.id, "lost", row.source, row.target, ".".join(parts), row.started)


def request(load_id: str, to: str | None) -> dict[str, Any]:
    for path in _ledgers(to):
        for row in _rows(path):
            if row.id == load_id:
                found: dict[str, Any] = json.loads(row.request)
                return found
    raise LedgerError(f"load {load_id} is in no ledger")
