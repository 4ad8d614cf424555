"""The process that follows a pipeline: it has the lease, or stands by until it has.

While it follows, a thread of its own gives signs of life, and hears of pauses, of files to be tried
again and of a lease that is lost. The load runs in the main thread, which alone hears of signals.
"""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.contracts.following import AfterFailure, FollowControl, Lag
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    HookError,
    Interrupted,
    RowfallError,
    SourceError,
    UsageError,
    headline,
)
from rowfall.core.events import Event, Listener, Note, RunBegan, SplitFailed
from rowfall.core.masked import redact
from rowfall.core.results import Failure, Report
from rowfall.ledger.error_table import ErrorTable, FileError
from rowfall.ledger.pipeline_lease import BEAT_SECONDS, LOOK_SECONDS, LeaseState, PipelineLease
from rowfall.ledger.pipeline_log import ASKED, PipelineLog
from rowfall.project import hooks
from rowfall.project.file import AFTER, BEFORE, ON_ERROR
from rowfall.report.loads import report_document
from rowfall.run.follow import follow
from rowfall.run.session import open_session
from rowfall.service.file_marks import FileMarks
from rowfall.service.pipeline import Pipeline

STANDS_BY, PAUSED, FOLLOWS, WAITS = "standing by", "paused", "following", "waiting"
"""States of a watcher; who waits, waits for a source or target that is away."""

# Between two tries while source or target are away: one that is back is noticed within a minute.
AWAY_SECONDS, MOST_AWAY_SECONDS = 2.0, 60.0
_RANGE = re.compile(r"\[-?\d+:-?\d+\]\Z")


@dataclass(frozen=True, slots=True)
class Health:
    """How a watcher is, as its signs of life tell.

    Attributes:
        since, last_batch: when it began to follow, and when the last batch ended; UTC, ISO 8601, ""
            for never.
        files, rows: loaded since then. ``failed``: files that need somebody.
        lag: see :class:`rowfall.contracts.following.Lag`.
    """

    state: str
    since: str = ""
    files: int = 0
    rows: int = 0
    last_batch: str = ""
    failed: int = 0
    lag: Lag = Lag()
    last_error: str = ""
    last_error_at: str = ""

    def failing(self, error: str) -> Health:
        """Return it with an error that has come just now."""
        return replace(self, last_error=error, last_error_at=now())


class FollowEndedError(SourceError):
    """Something cannot be loaded that nothing may pass by."""


def now() -> str:
    """Return the time as it is written down."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Watcher:
    """Follows one pipeline until :meth:`stop`.

    Args:
        emit: hears of the loads, and of what the watcher does.
        stop_on_error: a file that cannot be loaded ends it.
    """

    def __init__(self, pipeline: Pipeline, emit: Listener, *, stop_on_error: bool = False) -> None:
        self._pipeline, self._listener = pipeline, emit
        self.load_id = ""  # of the batch that runs, or ran last
        self.told_of = ""  # the file whose error was said last
        self.pipeline_name, self.stop_on_error = pipeline.name, stop_on_error
        self._stopped = threading.Event()
        self._control = FollowControl()
        self._guard = threading.Lock()
        self.health = Health(STANDS_BY)
        self._said = ""
        self._followed = False  # source and target have answered once

    def _emit(self, event: Event) -> None:
        if isinstance(event, RunBegan):
            self.load_id = event.load_id
        elif isinstance(event, SplitFailed):
            self.told_of = event.split
        self._listener(event)

    @property
    def stopping(self) -> bool:
        """Tell whether :meth:`stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """End after the batch that runs now; from any thread."""
        self._stopped.set()
        self._control.stop()

    def run(self) -> None:
        """Stand by, follow, and take over, until :meth:`stop`.

        Raises:
            Interrupted: by Ctrl-C in the middle of a batch, which is loaded by the next run.
            RowfallError: what lasts: a wrong option, a table that somebody has dropped, a file that
                cannot be loaded with ``stop_on_error``.
        """
        tries = 0
        while not self._stopped.is_set():
            try:
                with self._pipeline.log() as log:
                    tries = 0
                    self._run(log)
            except RowfallError as error:
                if not self._passes(error):
                    raise
                tries += 1
                self._away(error, tries)

    def _run(self, log: PipelineLog) -> None:
        later = (*self._pipeline.named.hooks.after, *self._pipeline.named.hooks.on_error)
        if not log.shared and any(hook.sql for hook in later):
            raise UsageError(
                f"pipeline {self.pipeline_name}: the watcher has {self._pipeline.target.text} to "
                "itself, so that no SQL of a hook can run there beside it",
                hint='Take a command: after = { command = ["PROGRAM", "ARGUMENT"] }',
            )
        hooks.check(self._pipeline.named)
        lease = PipelineLease(log)
        why: dict[str, object] | None = None
        try:
            while not self._stopped.is_set():
                standing = lease.stand()
                if not standing.mine:
                    self._say(STANDS_BY, f"stands by: {holder_text(standing)} follows")
                    self._stopped.wait(LOOK_SECONDS)
                else:
                    self._lead(log, lease)
        except RowfallError as error:
            if not self._passes(error) and not isinstance(error, Interrupted):
                why = {"last_error": headline(error.message), "last_error_at": now()}
            raise
        finally:
            with suppress(RowfallError):
                lease.quit(why)

    def _lead(self, log: PipelineLog, lease: PipelineLease) -> None:
        """Follow, as long as the lease is this process's."""
        marks = FileMarks(log)
        self._control = FollowControl()
        if self._stopped.is_set():
            return
        self.health = Health(FOLLOWS, now(), failed=len(marks.failed))
        beat = _Beat(self, lease, marks, self._control)
        beat.start()
        tries = 0
        try:
            while not self._control.stopped:
                if beat.paused:
                    self._say(PAUSED, "paused: rowfall pipeline resume goes on")
                    self._control.wait(LOOK_SECONDS)
                    continue
                try:
                    self._follow(marks, beat)
                    tries = 0
                except RowfallError as error:
                    if not self._passes(error):
                        raise
                    tries += 1
                    self._away(error, tries)
        finally:
            beat.end()
        if not self._stopped.is_set():
            self._emit(Note("warning", "the lease is another watcher's: this one stands by"))

    def _follow(self, marks: FileMarks, beat: _Beat) -> None:
        pipeline = self._pipeline
        if error := self.run_hooks(BEFORE, None):
            raise HookError(error)
        with open_session(pipeline.request, self._emit, dry=False) as session:
            table = _error_table(session)
            observer = _Observer(self, session, marks, table)
            self._say(FOLLOWS, f"follows {pipeline.source_text} into {pipeline.table_text}")
            self._followed = True
            control = self._control
            if beat.paused:
                control.pause()
            try:
                report = follow(session, observer, control)
            except SourceError as ended:
                # No outage of the source, which would be waited for: a file that ends it.
                if observer.ended and not ended.transient:
                    raise FollowEndedError(
                        f"{ended.message}; the pipeline stops", hint=ended.hint
                    ) from None
                raise
        if control.stopped:
            return
        # A file with stop_on_error, or a message that cannot be passed by.
        failure = report.failures[0] if report.failures else None
        if failure is not None and not observer.told:
            observer.on_failed(failure, "")
        if failure is None:
            raise FollowEndedError(f"the pipeline has ended: {report.outcome}")
        raise FollowEndedError(
            f"{about(failure.split, failure.error)}; the pipeline stops", hint=failure.hint
        )

    # --- what is said -------------------------------------------------------------------------

    def _say(self, state: str, text: str) -> None:
        with self._guard:
            if self.health.state != state:
                self.health = replace(self.health, state=state)
        if self._said != text:
            self._said = text
            self._emit(Note("info", text))

    def _passes(self, error: RowfallError) -> bool:
        """Tell whether it is worth waiting for an error to pass."""
        if self._stopped.is_set() or isinstance(error, Interrupted):
            return False
        # A bucket, a mount or credentials that are gone for a while.
        gone = isinstance(error, SourceError) and self._followed
        return error.transient or (gone and not isinstance(error, FollowEndedError))

    def _away(self, error: RowfallError, tries: int) -> None:
        self.change(lambda health: replace(health.failing(headline(error.message)), state=WAITS))
        pause = min(AWAY_SECONDS * tries, MOST_AWAY_SECONDS)
        if tries == 1:
            self._emit(Note("warning", f"{error.message}; trying again"))
        self._said = ""
        until = time.monotonic() + pause
        while time.monotonic() < until and not self._control.stopped and not self._stopped.is_set():
            self._stopped.wait(LOOK_SECONDS)

    def run_hooks(self, when: str, document: Mapping[str, Any] | None) -> str:
        """Run the hooks of one moment; return what is wrong with the one that has failed, or "".

        Before a pipeline is followed, after each batch, and after each file that has failed.
        """
        named = self._pipeline.named
        if not named.hooks:
            return ""

        def say(line: str) -> None:
            self._emit(Note("info", line))

        error = next((one.error for one in hooks.run(when, named, document, say) if one.error), "")
        if error:
            self._emit(Note("warning", error))
            self.change(lambda health: health.failing(error))
        return error

    def change(self, how: Callable[[Health], Health]) -> None:
        """Change what the next sign of life tells; from any thread."""
        with self._guard:
            self.health = how(self.health)


class _Beat:
    """Signs of life, in a thread of their own."""

    def __init__(
        self, watcher: Watcher, lease: PipelineLease, marks: FileMarks, control: FollowControl
    ) -> None:
        self._watcher, self._lease, self._marks, self._control = watcher, lease, marks, control
        self._ended = threading.Event()
        self._asked = 0
        self.paused = False
        self._first = self._look()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._look()

    def _look(self) -> bool:
        """Give a sign of life and hear what others have asked for; False where the log is away."""
        try:
            found = self._lease.sign(asdict(self._watcher.health))
        except RowfallError:
            return False  # others may follow by now; the next sign tells
        if not found.mine:
            self._control.stop()
            return True
        if found.paused != self.paused:
            self.paused = found.paused
            (self._control.pause if found.paused else self._control.resume)()
            state = PAUSED if found.paused else FOLLOWS
            self._watcher.change(lambda health: replace(health, state=state))
        asked = max((line.number for line in found.lines if line.event == ASKED), default=0)
        if asked > self._asked:
            first, self._asked = not self._asked, asked
            if not first or self._watcher.health.failed:
                with suppress(RowfallError):
                    for name in self._marks.read():
                        self._control.retry(name)
                failed = len(self._marks.failed)
                self._watcher.change(lambda health: replace(health, failed=failed))
        return True


class _Observer:
    """Hears of a followed load, see :class:`rowfall.contracts.following.FollowObserver`."""

    def __init__(
        self, watcher: Watcher, session: Session, marks: FileMarks, table: ErrorTable | None
    ) -> None:
        self._watcher, self._session, self._marks, self._table = watcher, session, marks, table
        self.told = self.ended = False

    def takes(self, name: str, version: str) -> bool:
        return self._marks.takes(name, version)

    def wants(self, name: str, version: str) -> bool:
        return self._marks.wants(name, version)

    def ways_out(self, name: str) -> str:
        words = shlex.join([self._watcher.pipeline_name, name])
        return (
            f"rowfall pipeline retry {words} adds the rows of the new version to those of the old "
            f"one; rowfall pipeline skip {words} leaves it out."
        )

    def on_failed(self, failure: Failure, version: str) -> AfterFailure:
        self.told = True
        session, watcher = self._session, self._watcher
        secrets = session.source.secrets
        name = _RANGE.sub("", failure.split)
        failure = replace(
            failure,
            error=redact(failure.error, *secrets),
            hint=redact(failure.hint or "", *secrets),
            value=redact(failure.value or "", *secrets),
        )
        what = "the pipeline ends" if watcher.stop_on_error else "the others go on"
        why = "" if watcher.told_of == failure.split else f": {about(name, failure.error)}"
        session.emit(Note("warning", f"{name} is left out, and {what}{why}", failure.hint or ""))
        # First the mark, which decides: a row that is missing in the table of errors is told by it.
        self._marks.add(failure, name, version)
        if self._table is not None:
            self._table.add([FileError(
                watcher.pipeline_name, watcher.load_id, name, version, failure.line or 0,
                failure.column or "", failure.value or "", failure.error, failure.hint or "",
                failure.code,
            )])  # fmt: skip
        failed = len(self._marks.failed)
        watcher.change(lambda health: replace(
            health.failing(about(name, headline(failure.error))), failed=failed
        ))  # fmt: skip
        watcher.run_hooks(ON_ERROR, {"outcome": "failed", "file": name, **asdict(failure)})
        self.ended = watcher.stop_on_error
        return AfterFailure.STOP if self.ended else AfterFailure.GO_ON

    def on_batch(self, report: Report, lag: Lag) -> None:
        failed = len(self._marks.failed)
        self._watcher.change(lambda health: replace(
            health, state=FOLLOWS, files=health.files + report.splits_loaded,
            rows=health.rows + report.rows, last_batch=now(), lag=lag, failed=failed,
        ))  # fmt: skip
        if report.splits_loaded:
            self._watcher.run_hooks(AFTER, report_document(report))

    def on_away(self, error: RowfallError, seconds: float) -> None:
        said = headline(error.message)
        if seconds >= 1:
            said += f" (for {units.duration(seconds)})"
        self._watcher.change(lambda health: replace(health.failing(said), state=WAITS))

    def idle(self, lag: Lag) -> None:
        health = self._watcher.health
        if health.lag != lag or health.state == WAITS:
            self._watcher.change(lambda health: replace(health, state=FOLLOWS, lag=lag))


def _error_table(session: Session) -> ErrorTable | None:
    """Return the table of errors beside the target; None where there can be none."""
    tables = session.destination.small_tables(session)
    return None if tables is None else ErrorTable(tables)


def about(name: str, error: str) -> str:
    """Return an error with the file that it is about, named once."""
    return error if error.startswith(name) else f"{name}: {error}"


def holder_text(standing: LeaseState) -> str:
    """Return the watcher that has the lease, for people."""
    who = standing.sign
    return f"{who.get('host', 'another machine')} (pid {who.get('pid', '?')})"
