"""Follow sources: load what comes into them, batch after batch, until somebody stops it.

Each batch is a load of its own, as exact as any other; the engine and the connections stay open
between them. The ledger keeps the last batches one by one; older ones become a single load, so it
does not grow. What is new in a batch says a feed: :class:`_Topics` here,
:class:`rowfall.run.follow_objects.ObjectFeed`, :class:`rowfall.run.follow_snapshots.SnapshotFeed`,
:class:`rowfall.run.follow_cursor.CursorFeed`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace

from rowfall.contracts.destination import Session
from rowfall.contracts.following import AfterFailure, FollowControl, FollowObserver, Lag
from rowfall.core import units
from rowfall.core.after import NOTHING
from rowfall.core.errors import (
    DataError,
    Interrupted,
    LockLostError,
    RowfallError,
    SourceError,
    TargetError,
    UsageError,
)
from rowfall.core.events import Lagged, Note, noted
from rowfall.core.listing import Listing
from rowfall.core.options import ERROR, IGNORE, LOAD, Options
from rowfall.core.results import Failure, Report
from rowfall.core.units import parse_duration, parse_size
from rowfall.run.feeds import (
    BATCH_SECONDS,
    POLL_SECONDS,
    Batch,
    Feed,
    WholeFeed,
    pause,
)
from rowfall.run.history import from_json, record
from rowfall.run.load import followed_loads, run_next
from rowfall.sources.base import (
    ByCursor,
    Continued,
    HasFolderTables,
    HearsQueue,
    ListedSource,
    Snapshotted,
)

BATCH_ROWS = 500_000
# Between tries while brokers, a store or the target are away; twice as long each time, up to the
# second: one that has only lost a connection is there again at once.
AWAY_SECONDS, MOST_AWAY = 0.5, 30.0
# While something is away that is said so often.
SAY_SECONDS = 300.0
# Batches that ledger and ``rowfall status`` tell of one by one: the last minutes.
KEPT = 100
# Files of these batches: the first batch of the next run asks for all of them, at 500 bytes each.
KEPT_FILES = 100_000
# Batches after which the record of what was loaded long ago is made smaller: that rewrites what the
# journal has, some 0.2 s. What is pruned is asked for so often.
JOINED_AT_ONCE, PRUNE_SECONDS = 50, 3600.0
# Files that fail one after the other by an error of the target: then it is the target that fails.
MOST_REFUSED = 20
_SUMS = frozenset((
    "splits_loaded", "rows", "rows_rejected", "bytes_source", "bytes_raw", "bytes_written",
    "seconds", "cpu_seconds", "cpu_seconds_here", "parts_written", "attempts", "retries",
))  # fmt: skip
_RANGE = re.compile(r"\[-?\d+:-?\d+\]\Z")
_QUEUE = re.compile(r"https?://[^/?#@\s]+/[^?#\s]+")


def check_follow(session: Session) -> None:
    """Check that a source can be followed, with these options.

    Raises:
        UsageError: it cannot.
    """
    check_options(session.options)
    source = session.source
    if isinstance(source, HasFolderTables):  # read by an engine that this session has opened
        raise UsageError(
            f"--follow is not for data folders of rowfall, and {source.text} is one",
            hint="Run the command again when there is more: with --cursor COLUMN each run loads "
            "what is at or behind the last value.",
        )
    if isinstance(source, ByCursor) and source.cursor is None:
        raise UsageError(
            f"--follow needs a column whose values grow, and {source.text} is followed by none",
            hint="Give --cursor COLUMN as well: an id, or the time of the last change.",
        )
    hears = isinstance(source, HearsQueue) and source.hears_queue
    if session.options.queue is not None and not hears:
        raise UsageError(
            f"--queue is for buckets of S3, and {source.text} is none",
            hint="Leave it out: folders, topics and tables tell of what is new without it.",
        )
    continued = isinstance(source, Continued) and session.listing.continued
    if not continued and not isinstance(source, ListedSource | Snapshotted):
        raise UsageError(
            "--follow is for topics, files, objects of stores, lake tables, and tables of "
            f"databases with --cursor, and {source.text} is none",
            hint="Run the command again when there is more to load.",
        )
    if not session.destination.follows:
        raise UsageError(
            f"--follow needs a table, and {session.target.text} is none",
            hint="What has been loaded is remembered with the table.",
        )


def check_options(options: Options) -> None:
    """Check the options of following by themselves.

    Raises:
        UsageError: one makes no sense, or excludes another.
    """
    for name in ("until", "snapshot", "force", "atomic", "replace", "upsert", "on", "fleet"):
        if getattr(options, name):
            raise UsageError(f"--follow and --{name} exclude each other")
    if options.on_change not in (LOAD, IGNORE, ERROR):
        raise UsageError(f"--on-change {options.on_change} is not one of load, ignore, error")
    for text in (options.at_rest, options.batch_seconds):
        pause(text, 0.0)
    for text in (options.poll, options.rescan):
        if text is not None:
            parse_duration(text)
    if options.forget_after is not None and parse_duration(options.forget_after) < 3600:
        raise UsageError(
            f"--forget-after {options.forget_after} is less than an hour",
            hint="Give how long objects stay in the source, e.g. --forget-after 90d",
        )
    if options.batch_bytes is not None:
        parse_size(options.batch_bytes)
    if options.queue is not None and not _QUEUE.fullmatch(options.queue):
        raise UsageError(
            f"--queue {options.queue} is not the URL of a queue",
            hint="Give what this says: aws sqs get-queue-url --queue-name NAME",
        )
    if options.marker is not None and ("/" in options.marker or not options.marker.strip()):
        raise UsageError(
            f"--marker {options.marker} is not the name of an object in the same folder",
            hint="Give --marker '{name}.done', or --marker _SUCCESS",
        )


def follow(
    session: Session, observer: FollowObserver | None = None, control: FollowControl | None = None
) -> Report:
    """Load batches until Ctrl-C or :meth:`FollowControl.stop`, or until something fails for good.

    Without an observer it stops at the first file that cannot be loaded.

    Returns:
        The report of all batches together; that of the last one where it is not done.

    Raises:
        Interrupted: by Ctrl-C in the middle of a batch, which is loaded by the next run.
        RowfallError: any of :func:`rowfall.run.load.run_load`, or something has been away for
            longer than ``--patience``, where that is given.
    """
    check_follow(session)
    if session.options.after_load != NOTHING:
        from rowfall.run.after import check_after

        check_after(session)
    control = control or FollowControl()
    feed = _feed(session, observer)
    try:
        return _Following(session, feed, observer, control).run()
    finally:
        feed.close()


def _feed(session: Session, observer: FollowObserver | None) -> Feed:
    if isinstance(session.source, ListedSource):
        from rowfall.run.follow_objects import ObjectFeed

        return ObjectFeed(session, session.source, observer)
    if isinstance(session.source, Snapshotted):
        from rowfall.run.follow_snapshots import SnapshotFeed

        return SnapshotFeed(session, session.source)
    if isinstance(session.source, ByCursor):
        from rowfall.run.follow_cursor import CursorFeed

        return CursorFeed(session)
    return _Topics(session)


class _Following:
    """One run of a followed load."""

    def __init__(
        self, session: Session, feed: Feed, observer: FollowObserver | None, control: FollowControl
    ) -> None:
        self._session, self._feed = session, feed
        self._observer, self._control = observer, control
        self._total: Report | None = None
        ledger = session.ledger
        old = [] if ledger is None else followed_loads(session, ledger)
        self._kept: list[Report] = list(map(from_json, old))
        self._joins, self._told = 0, False
        self._pruned = 0.0
        self._away = _Away(session, observer)
        self._refused = 0
        self._succeeded = self._noted = self._asks = False

    def run(self) -> Report:
        """Load batches until the end."""
        caught_up = False
        while not self._control.stopped:
            self._asks = False
            try:
                if not caught_up:
                    self._catch_up()
                    caught_up = True
                batch = self._next()
                if batch is None:
                    continue
                ended = self._load(batch)
            except KeyboardInterrupt:
                break
            except Interrupted:
                raise
            except RowfallError as error:
                # What a load says about its files is no outage of the source.
                answered = self._succeeded and self._asks and self._feed.splits
                self._away.after(error, answered=answered)
                self._feed.begin_anew(error)
                self._wait_away()
                continue
            self._away.back()
            if ended is not None:
                return ended
        return self._total or _nothing(self._session)

    def _catch_up(self) -> None:
        """Join what an older version, which counted batches alone, has left one by one."""
        while not self._control.stopped and _join_oldest(self._session, self._kept):
            pass

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Note that it is the source, or the record, that is asked."""
        self._asks = True
        yield
        self._asks = False

    def _wait_away(self) -> None:
        try:
            self._control.wait(self._away.pause())
        except KeyboardInterrupt:
            self._control.stop()

    def _next(self) -> Batch | None:
        """Return a batch as soon as there is one; None to look at ``control`` again."""
        control, feed = self._control, self._feed
        if control.paused:
            control.wait(POLL_SECONDS)
            return None
        if names := control.asked_again():
            feed.retry(names)
        with self._asking():
            batch = feed.next()
        self._succeeded = True
        for failure, version in feed.tired():
            if self._ends(failure, version):
                raise _failed(failure)
        lag = feed.lag()
        if feed.splits:  # a stream has told it; of others, what is behind this batch
            self._session.emit(Lagged(lag.objects, lag.bytes, lag.seconds))
        if batch is None:
            if self._observer is not None:
                self._observer.idle(lag)
            feed.wait(control)
        return batch

    def _load(self, batch: Batch) -> Report | None:
        """Load a batch; return the report of the end where nothing may follow.

        Raises:
            RowfallError: something is away, or fails for good.
        """
        try:
            report, known = run_next(self._opened(batch.session), batch.known, check=batch.check)
        except (DataError, UsageError, SourceError, TargetError) as error:
            if error.transient or self._observer is None or not self._feed.splits:
                raise
            self._whole(batch, error)
            return None
        self._refused = 0
        if not self._feed.splits and report.outcome != "done":
            self._add(report)
            return report
        with self._asking():
            lasting = self._feed.loaded(batch, known, report.failures)
        versions = dict(batch.names)
        ends = [f for f in lasting if self._ends(f, versions.get(_RANGE.sub("", f.split), ""))]
        if ends:
            self._add(report)
            return report
        # What is tried again, or was given up, is no unfinished load of these sources.
        self._add(replace(report, outcome="done"))
        if self._observer is not None:
            self._observer.on_batch(report, self._feed.lag())
        return None

    def _opened(self, session: Session) -> Session:
        """Return the session of a batch with the encoding of its splits."""
        source = session.source
        found = session.for_batch(session.listing, source.encoding(session.listing))
        if self._feed.splits and not self._noted:  # a stream has said it when it was opened
            self._noted = True
            for note in source.notes:
                session.emit(noted(note))
        return found

    def _whole(self, batch: Batch, error: RowfallError) -> None:
        """Take up a batch that has failed as a whole: one of its files may be the reason.

        Raises:
            RowfallError: ``error``, where the target seems to be.
        """
        with self._asking():
            failure = self._feed.smaller(batch, error)
        if failure is None:
            return
        self._refused += isinstance(error, TargetError)
        if self._refused > MOST_REFUSED or self._ends(failure, batch.names[0][1]):
            raise error

    def _ends(self, failure: Failure, version: str) -> bool:
        """Tell whether a failed file ends everything; otherwise it is given up."""
        if self._observer is None:
            return True
        if self._observer.on_failed(failure, version) is AfterFailure.STOP:
            return True
        self._feed.give_up(failure)
        return False

    def _add(self, report: Report) -> None:
        """Add a batch to those before; the ledger keeps the last ones apart."""
        self._total = report if self._total is None else _added(self._total, report)
        kept, ledger = self._kept, self._session.ledger
        if kept and kept[-1].load_id == report.load_id:
            kept[-1] = _added(kept[-1], report)  # an unfinished one was taken up again
        else:
            kept.append(report)
        if ledger is not None and report.failures:
            record(ledger, kept[-1])
        while _join_oldest(self._session, kept):
            self._joins += 1
            if self._joins % JOINED_AT_ONCE == 0:
                self._join_record()

    def _join_record(self) -> None:
        """Let the record of what was loaded long ago take less room, and forget what may be."""
        session, bound = self._session, self._session.options.forget_after
        try:
            session.destination.join_record(session)
            if bound is not None and time.monotonic() - self._pruned > PRUNE_SECONDS:
                # A day more: the clocks of store and target may differ.
                days = int(parse_duration(bound) // 86_400) + 2
                session.destination.prune_record(session, days)
                self._feed.prune(days)
                self._pruned = time.monotonic()
        except RowfallError as error:
            if error.transient:
                return  # the next time will do
            if not self._told:
                self._told = True
                session.emit(Note(
                    "warning",
                    f"the record of what is loaded is not made smaller: {error.message}",
                ))  # fmt: skip


def _failed(failure: Failure) -> SourceError:
    """Return the error of a file that has failed for too long."""
    return SourceError(f"{failure.split}: {failure.error}", hint=failure.hint)


class _Away:
    """Counts how long source or target have been away, and says so."""

    def __init__(self, session: Session, observer: FollowObserver | None) -> None:
        self._session, self._observer = session, observer
        given = session.options.patience
        # A service outlives an outage of any length, unless it is told when to give up.
        self._most = None if given == Options().patience else parse_duration(given)
        self._since: float | None = None
        self._said = 0.0
        self._tries = 0

    def after(self, error: RowfallError, *, answered: bool) -> None:
        """Count an error; return where it is worth waiting.

        Args:
            answered: source and target have answered before, so that they are there.

        Raises:
            RowfallError: ``error``, where it lasts, or has lasted for too long.
        """
        gone = isinstance(error, SourceError) and answered  # a bucket, a mount, credentials
        if not (error.transient or gone) or isinstance(error, LockLostError):
            raise error
        now = time.monotonic()
        seconds = 0.0 if self._since is None else now - self._since
        if self._most is not None and self._since is not None and seconds > self._most:
            raise error
        if self._since is None:
            self._since, self._said, self._tries = now, now, 0
            self._session.emit(Note("warning", f"{error.message}; trying again"))
        elif now - self._said > SAY_SECONDS:
            self._said = now
            away = units.duration(seconds)
            self._session.emit(Note("warning", f"{error.message}, for {away}; trying again"))
        self._tries += 1
        if self._observer is not None:
            self._observer.on_away(error, seconds)

    def pause(self) -> float:
        """Return the seconds until the next try."""
        return min(AWAY_SECONDS * 2.0 ** min(self._tries - 1, 10), MOST_AWAY)

    def back(self) -> None:
        """Say that it is over."""
        if self._since is not None:
            seconds = time.monotonic() - self._since
            if seconds > SAY_SECONDS:
                self._session.emit(Note("info", f"back after {units.duration(seconds)}"))
            self._since = None


# --- topics -------------------------------------------------------------------------------------


class _Topics(WholeFeed):
    """The feed of a stream: ranges of numbers behind those that are loaded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: frozenset[str] | None = None
        self._seen: dict[str, int] = {}
        self._listing: Listing | None = None

    def next(self) -> Batch | None:
        """Wait for the next messages.

        Raises:
            KeyboardInterrupt: by Ctrl-C.
        """
        listing = _wait(self._session, self._seen)
        if listing is None:
            raise KeyboardInterrupt
        self._listing = listing
        return Batch(self._session.for_batch(listing, None), self._known)

    def wait(self, control: FollowControl) -> None:
        """Do nothing: :meth:`next` waits."""

    def lag(self) -> Lag:
        return Lag()

    def loaded(
        self, batch: Batch, known: frozenset[str], failures: Sequence[Failure]
    ) -> list[Failure]:
        self._known = known
        if self._listing is not None:
            self._seen |= _ends(self._listing)
        return [f for f in failures if f.lasting]

    def begin_anew(self, error: RowfallError) -> None:
        self._known = None

    def close(self) -> None:
        """Do nothing: the session has the connections."""


def _wait(session: Session, seen: dict[str, int]) -> Listing | None:
    """Return the listing of a batch as soon as there is one; None after Ctrl-C."""
    first: float | None = None
    given = session.options
    gathers = pause(given.batch_seconds, BATCH_SECONDS)
    most = given.batch_rows or BATCH_ROWS
    poll = parse_duration(given.poll) if given.poll else POLL_SECONDS
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
            if ahead and (new >= most or waits >= gathers or not seen):
                return listing
            time.sleep(poll)
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


# --- reports ------------------------------------------------------------------------------------


def _join_oldest(session: Session, kept: list[Report]) -> bool:
    """Make one load of the two oldest batches; return False where there are not too many."""
    ledger = session.ledger
    # The first stands for those that were joined, and the last one may go on.
    files = sum(report.splits_loaded for report in kept[1:])
    many = len(kept) > KEPT or (len(kept) > 2 and files > KEPT_FILES)
    if not many or ledger is None:
        return False
    first, second = kept[:2]
    if session.destination.join_loads(session, ledger, second.load_id, first.load_id):
        kept[:2] = [replace(_added(first, second), load_id=first.load_id)]
        record(ledger, kept[0])
    else:
        del kept[0]  # it stays as it is
    return True


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
