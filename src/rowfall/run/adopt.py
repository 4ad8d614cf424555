"""``rowfall adopt`` records files as loaded whose rows are in the table already."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime

from rowfall.contracts.destination import Session
from rowfall.core.errors import LedgerError, TargetError, UsageError
from rowfall.core.listing import Split, without_salt
from rowfall.core.results import Adopted, Report
from rowfall.core.version import __version__
from rowfall.ledger import Ledger
from rowfall.sources.base import HasModificationTimes
from rowfall.stores.objects import REQUESTS

ADOPTED = "adopted"
"""Outcome in the report of what was adopted."""


def adopt(session: Session, before: datetime | None, *, dry: bool) -> Adopted:
    """Record the files of a session's source as loaded; see :func:`rowfall.api.adopt`."""
    _check(session)
    splits = list(session.listing.splits(session.target_key))
    newer: list[Split] = []
    if before is not None:
        splits, newer = _divided(session, splits, before)
    known = {without_salt(i) for i in session.destination.loaded_ids(session)}
    new = [split for split in splits if split.id not in known]
    made = Adopted(
        "", session.source.text, session.target.text, session.table_text,
        tuple(split.name for split in new), len(splits) - len(new), len(newer),
        session.listing.unit,
    )  # fmt: skip
    if dry or session.ledger is None:
        return made
    load_id = secrets.token_hex(5)
    _record(session, session.ledger, load_id, new)
    return made.recorded_as(load_id if new else "")


def _check(session: Session) -> None:
    """Check that the target has a table whose record can be kept.

    Raises:
        UsageError: the target keeps no record of tables.
        TargetError: there is no such table.
        LedgerError: rows of a stopped load are about to become visible in it.
    """
    if not session.destination.adopts(session.target):
        raise UsageError(
            f"{session.target.text} has no table, and what is adopted is in one already",
            hint="Name a folder, a server, a database, a topic or a table of Iceberg with --to.",
        )
    if not session.destination.table_exists(session):
        raise TargetError(
            f"there is no table {session.table_text} in {session.target.text}",
            hint="Check --to and --table; a table that does not exist holds no rows to adopt.",
        )
    ledger = session.ledger
    stopped = [] if ledger is None else ledger.open_attempts()
    stopped = [attempt for attempt in stopped if attempt.target_key == session.target_key]
    # An older ledger may hold open what came to its end long ago.
    if stopped and not session.destination.is_older(session):
        raise LedgerError(
            f"a stopped load into {session.table_text} has rows that are neither visible nor gone",
            hint="Run the command of that load again first: it settles them.",
        )


def _divided(
    session: Session, splits: Sequence[Split], before: datetime
) -> tuple[list[Split], list[Split]]:
    """Return the files that were changed last at a time or before, and those that are newer.

    Raises:
        UsageError: the source does not know times.
    """
    source = session.source
    if not isinstance(source, HasModificationTimes):
        raise UsageError(
            f"--before: {source.text} does not say when its {session.listing.unit}s were changed",
            hint="Name what is in the table already, without --before.",
        )
    old: list[Split] = []
    new: list[Split] = []
    with ThreadPoolExecutor(REQUESTS) as pool:  # a store takes a request for each
        times = list(pool.map(source.modified, splits))
    for split, changed in zip(splits, times, strict=True):
        if changed is None:
            raise UsageError(
                f"--before: nobody says when {split.uri} was changed",
                hint="Name the files that are in the table already, without --before.",
            )
        (old if changed <= before.timestamp() else new).append(split)
    return old, new


def _record(session: Session, ledger: Ledger, load_id: str, splits: Sequence[Split]) -> None:
    """Write splits into the record beside the table, and into the ledger."""
    key = session.target_key
    if session.destination.is_older(session):
        for open_one in ledger.open_attempts():
            if open_one.target_key == key:
                ledger.attempt_ended(open_one.id, "lost", "the ledger was older than the table")
    session.destination.accept(session, ledger, load_id)
    if not splits:
        return
    request = json.dumps({
        "sources": list(session.sources), "folder": "", "to": session.target.text,
        "table": session.table_text, "options": {},
    })  # fmt: skip
    ledger.begin(load_id, "", session.source.text, session.target.text, key, request)
    record_splits(session, ledger, load_id, f"{load_id}_1", splits)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    report = Report(
        load_id, ADOPTED, session.source.text, session.target.text, session.table_text, now,
        splits=len(splits), splits_loaded=len(splits), unit=session.listing.unit,
        rowfall_version=__version__,
    )  # fmt: skip
    ledger.end(load_id, "done", json.dumps(asdict(report)))


def record_splits(
    session: Session, ledger: Ledger, load_id: str, attempt: str, splits: Sequence[Split]
) -> None:
    """Record splits as loaded by an attempt of a load that brings no rows itself."""
    ledger.add_splits(load_id, splits)
    ledger.attempt_started(attempt, load_id, "", session.target_key, splits)
    session.destination.record_adopted(session, ledger, attempt, splits)
    ledger.attempt_committed(attempt, 0, ())
    ledger.attempt_published(attempt, session.target_key)
