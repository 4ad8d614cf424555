"""``rowfall adopt`` records files as loaded whose rows are in the table already."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime

from rowfall.contracts.session import Session
from rowfall.core import chance, units
from rowfall.core.errors import LedgerError, TargetError, UsageError
from rowfall.core.listing import Split, without_salt
from rowfall.core.results import Adopted, Report
from rowfall.core.version import __version__
from rowfall.destinations.clickhouse.doubts import accept
from rowfall.engines.base import table_uuid
from rowfall.engines.database import Database, FileTable, Record
from rowfall.ledger import Ledger
from rowfall.plan.memory import find_older
from rowfall.plan.survey import landed_ids
from rowfall.sources.base import Dated
from rowfall.sources.objects import REQUESTS

ADOPTED = "adopted"
"""Outcome in the report of what was adopted."""


def adopt(session: Session, before: datetime | None, *, dry: bool) -> Adopted:
    """Record the files of a session's source as loaded; see :func:`rowfall.api.adopt`."""
    uuid = _table(session)
    splits = list(session.listing.splits(session.target_key))
    newer: list[Split] = []
    if before is not None:
        splits, newer = _divided(session, splits, before)
    known = {without_salt(i) for i in landed_ids(session)}
    new = [split for split in splits if split.id not in known]
    made = Adopted(
        "", session.source.text, session.target.text, session.table_text,
        tuple(split.name for split in new), len(splits) - len(new), len(newer),
        session.listing.unit,
    )  # fmt: skip
    if dry or session.ledger is None:
        return made
    load_id = chance.token_hex(5)
    _record(session, session.ledger, load_id, uuid, new)
    return made.recorded_as(load_id if new else "")


def _table(session: Session) -> str:
    """Return the UUID of the target table; "" where a database keeps the record.

    Raises:
        UsageError: the target keeps no record of tables.
        TargetError: there is no such table.
        LedgerError: rows of a stopped load are about to become visible in it.
    """
    target = session.target
    if not target.table or target.caps.topic or not target.caps.remembers:
        raise UsageError(
            f"{target.text} has no table, and what is adopted is in one already",
            hint="Name a folder, a server, a database or a table of Iceberg with --to.",
        )
    database = session.database
    first = session.first_target
    if database is not None:
        uuid, there = "", database.existing_table() is not None
    else:
        uuid = table_uuid(session.engine, first.database, first.table)
        there = bool(uuid)
    if not there:
        raise TargetError(
            f"there is no table {session.table_text} in {target.text}",
            hint="Check --to and --table; a table that does not exist holds no rows to adopt.",
        )
    ledger = session.ledger
    stopped = [] if ledger is None else ledger.open_attempts()
    stopped = [attempt for attempt in stopped if attempt.target_key == session.target_key]
    # An older ledger may hold open what came to its end long ago.
    if stopped and find_older(session) is None:
        raise LedgerError(
            f"a stopped load into {session.table_text} has rows that are neither visible nor gone",
            hint="Run the command of that load again first: it settles them.",
        )
    return uuid


def _divided(
    session: Session, splits: Sequence[Split], before: datetime
) -> tuple[list[Split], list[Split]]:
    """Return the files that were changed last at a time or before, and those that are newer.

    Raises:
        UsageError: the source does not know times.
    """
    source = session.source
    if not isinstance(source, Dated):
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


def _record(
    session: Session, ledger: Ledger, load_id: str, uuid: str, splits: Sequence[Split]
) -> None:
    """Write splits into the record beside the table, and into the ledger."""
    key = session.target_key
    if find_older(session) is not None:
        for open_one in ledger.open_attempts():
            if open_one.target_key == key:
                ledger.attempt_ended(open_one.id, "lost", "the ledger was older than the table")
    accept(session, ledger, load_id, uuid)
    if not splits:
        return
    attempt = f"{load_id}_1"
    request = json.dumps({
        "sources": list(session.sources), "folder": "", "to": session.target.text,
        "table": session.table_text, "options": {},
    })  # fmt: skip
    ledger.begin(load_id, "", session.source.text, session.target.text, key, request)
    ledger.add_splits(load_id, splits)
    ledger.attempt_started(attempt, load_id, "", key, splits)
    if session.database is not None:
        _record_in_database(session.database, load_id, attempt, splits)
        ledger.set_table(key, session.database.table_id())
    elif session.target.caps.journal:
        from rowfall.ledger.journal import Journal

        journal = Journal(session.engine, session.first_target.database, uuid, load_id)
        marks = dict.fromkeys(s.mark for s in splits if s.whole and not s.continued)
        journal.keep(load_id, [*marks, *(split.id for split in splits)], 0)
    ledger.attempt_loaded(attempt, 0, ())
    ledger.attempt_published(attempt, key)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    report = Report(
        load_id, ADOPTED, session.source.text, session.target.text, session.table_text, now,
        splits=len(splits), splits_landed=len(splits), unit=session.listing.unit,
        rowfall_version=__version__,
    )  # fmt: skip
    ledger.end(load_id, "done", json.dumps(asdict(report)))


def _record_in_database(
    database: Database, load_id: str, attempt: str, splits: Sequence[Split]
) -> None:
    if isinstance(database, FileTable):
        database.commit(attempt, load_id, [split.id for split in splits], (), replace=False)
        return
    transaction = database.transaction(attempt)
    try:
        taken = transaction.lease(
            attempt, load_id,
            [Record(s.id, s.name, s.whole if s.part else "", large=False) for s in splits],
        )  # fmt: skip
        if taken:
            raise LedgerError(
                f"another rowfall has just recorded {units.counted(len(taken), 'file')} of these",
                hint="Run the same command again.",
                transient=True,
            )
        transaction.finish(0)
        transaction.commit()
    finally:
        database.ended(attempt)
