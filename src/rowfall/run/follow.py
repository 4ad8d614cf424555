"""Follow streams: load what comes into them, batch after batch, until somebody stops it.

Each batch is a load of its own, as exact as any other; the engine and the connections stay open
between them, and what is loaded is known. The ledger keeps the last batches one by one; older ones
become a single load, so it does not grow.
"""

from __future__ import annotations

import time
from dataclasses import fields, replace

from rowfall.contracts.session import Session
from rowfall.core.errors import LedgerError, SourceError, UsageError
from rowfall.core.events import Lagged, Note
from rowfall.core.listing import Listing
from rowfall.core.results import Report
from rowfall.core.units import parse_duration
from rowfall.run.history import record
from rowfall.run.load import run_next
from rowfall.sources.base import Continued

# The brokers are asked so often whether there is something new: three small requests.
POLL_SECONDS = 0.5
# A batch begins so long after its first message was seen, or with so many messages: a batch costs
# 0.3 to 1 second besides its rows, and one part for each partition of the table.
BATCH_SECONDS = 2.0
BATCH_ROWS = 500_000
# Between tries while brokers are away.
AWAY_SECONDS = 2.0
# Batches that ledger and ``rowfall status`` tell of one by one: the last minutes.
KEPT = 100
_SUMS = frozenset((
    "splits_loaded", "rows", "rows_rejected", "bytes_source", "bytes_raw", "bytes_written",
    "seconds", "cpu_seconds", "cpu_seconds_here", "parts_written", "attempts", "retries",
))  # fmt: skip


def check_follow(session: Session) -> None:
    """Check that a source can be followed, with these options.

    Raises:
        UsageError: it cannot.
    """
    if not isinstance(session.source, Continued) or not session.listing.continued:
        raise UsageError(
            f"--follow is for topics, and {session.source.text} is none",
            hint="Run the command again when there is more to load.",
        )
    for name in ("until", "force", "atomic", "replace"):
        if getattr(session.options, name):
            raise UsageError(f"--follow and --{name} exclude each other")
    if not session.destination.follows:
        raise UsageError(
            f"--follow needs a table, and {session.target.text} is none",
            hint="What has been loaded is remembered with the table.",
        )


def follow(session: Session) -> Report:
    """Load batches until Ctrl-C, or until a range cannot be loaded.

    Returns:
        The report of all batches together; that of the last one where it is not done.

    Raises:
        Interrupted: by Ctrl-C in the middle of a batch, which is loaded by the next run.
        RowfallError: any of :func:`rowfall.run.load.run_load`, or brokers have been away for
            longer than ``--patience``.
    """
    check_follow(session)
    patience = parse_duration(session.options.patience)
    total: Report | None = None
    kept: list[Report] = []
    known: frozenset[str] | None = None
    seen: dict[str, int] = {}
    away: float | None = None
    while True:
        try:
            listing = _wait(session, seen)
            if listing is None:
                return total or _nothing(session)
            batch = session.for_batch(listing, session.source.encoding(listing))
            report, known = run_next(batch, known)
        except (SourceError, LedgerError) as error:
            if not error.transient or (away and time.monotonic() - away > patience):
                raise
            if not away:
                session.emit(Note("warning", f"{error.message}; trying again"))
            away, known = away or time.monotonic(), None
            time.sleep(AWAY_SECONDS)
            continue
        away = None
        total = report if total is None else _added(total, report)
        if report.outcome != "done":
            return total
        seen |= _ends(listing)
        kept.append(report)
        _join_oldest(session, kept)


def _join_oldest(session: Session, kept: list[Report]) -> None:
    """Make one load of the two oldest batches, where there are more than are kept."""
    ledger = session.ledger
    if len(kept) <= KEPT or ledger is None:
        return
    first, second = kept[:2]
    if session.destination.join_loads(session, ledger, second.load_id, first.load_id):
        kept[:2] = [replace(_added(first, second), load_id=first.load_id)]
        record(ledger, kept[0])
    else:
        del kept[0]  # it stays as it is


def _wait(session: Session, seen: dict[str, int]) -> Listing | None:
    """Return the listing of a batch as soon as there is one; None after Ctrl-C."""
    first: float | None = None
    try:
        while True:
            listing = session.source.listing()
            ends = _ends(listing)
            new = sum(end - seen.get(uri, 0) for uri, end in ends.items())
            ahead = any(end > seen.get(uri, -1) for uri, end in ends.items())
            if ahead:
                first = first or time.monotonic()
            waits = time.monotonic() - first if first else 0.0
            if seen or not ahead:  # how much of the first batch is new, its plan tells
                session.emit(_lag(ends, seen, waits))
            if ahead and (new >= BATCH_ROWS or waits >= BATCH_SECONDS or not seen):
                return listing
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        return None


def _lag(ends: dict[str, int], seen: dict[str, int], seconds: float) -> Lagged:
    """Return how far a stream is ahead of what is loaded, by partition."""
    offsets = tuple((uri, max(0, end - seen.get(uri, 0))) for uri, end in sorted(ends.items()))
    return Lagged(sum(1 for _, behind in offsets if behind), None, seconds, offsets)


def _ends(listing: Listing) -> dict[str, int]:
    """Return the end of each stream that is not empty."""
    ends: dict[str, int] = {}
    for split in listing.splits(""):
        if (split.stop or 0) > (split.start or 0):
            ends[split.uri] = max(split.stop or 0, ends.get(split.uri, 0))
    return ends


def _added(total: Report, batch: Report) -> Report:
    sums = {
        f.name: getattr(total, f.name) + getattr(batch, f.name)
        for f in fields(Report) if f.name in _SUMS
    }  # fmt: skip
    # What earlier batches are loaded is not a file that was skipped.
    return replace(
        batch, **sums, splits_skipped=total.splits_skipped, started=total.started,
        splits=total.splits_skipped + sums["splits_loaded"] + batch.splits_failed,
    )  # fmt: skip


def _nothing(session: Session) -> Report:
    return Report("", "done", session.source.text, session.target.text, session.table_text, "")
