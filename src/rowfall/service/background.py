"""Start and stop the watcher of a pipeline in the background: one for each machine and user.

The watcher locks a file as long as it lives, so that nobody has to believe a number; beside it lie
a document that says who it is, and its log.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError, UsageError
from rowfall.service.pipeline import Pipeline

# A batch that runs has five seconds to end, and what stops it takes two more; what has not ended by
# then is killed, which loses nothing: the next watcher goes on.
STOP_SECONDS = 9.0
# Python, the imports and the first answer of a target; a target that is away is no reason to wait.
START_SECONDS = 20.0
_POLL = 0.05
# Whoever asks whether a watcher runs has the lock for a moment, as the start does every _POLL.
_LOOKED_SECONDS = 1.0
# A line for each batch is a megabyte a day; the file before is kept.
MOST_LOG_BYTES = 10_000_000
_TAIL_BYTES = 4_000
# Processes that outlive this one: nobody waits for them.
_STARTED: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class BackgroundWatcher:
    """A watcher in the background.

    Attributes:
        since: UTC, ISO 8601. ``log``: the file that it writes.
    """

    pid: int
    since: str
    log: str


def running(pipeline: Pipeline) -> BackgroundWatcher | None:
    """Return the watcher that runs in the background here; None where there is none."""
    if not _is_locked(_lock(pipeline)):
        return None
    with suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads(_document(pipeline).read_text(encoding="utf-8"))
        return BackgroundWatcher(int(said["pid"]), str(said["since"]), str(said["log"]))
    return None  # it is just starting


def start(pipeline: Pipeline, command: Sequence[str]) -> BackgroundWatcher:
    """Start a watcher in the background, and return once it stands by or follows.

    Args:
        command: arguments of rowfall; this process's folder is its own.

    Raises:
        UsageError: one runs already.
        RowfallError: it has ended at once; its last words are in the message.
    """
    if _is_locked(_lock(pipeline)):
        found = running(pipeline)
        raise UsageError(
            f"pipeline {pipeline.name} runs already" + (f" (pid {found.pid})" if found else ""),
            hint=f"rowfall pipeline stop {pipeline.name} ends it.",
        )
    path = log_file(pipeline)
    _make_folder(path.parent)
    with suppress(FileNotFoundError):
        _document(pipeline).unlink()
    _turn(path)
    opened = disk.open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    begin = os.fstat(opened).st_size
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "rowfall", *command, "--background"],
            stdin=subprocess.DEVNULL, stdout=opened, stderr=opened, start_new_session=True,
        )  # fmt: skip
    finally:
        os.close(opened)
    _STARTED.append(process)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if (found := running(pipeline)) is not None:
            return found
        if (code := process.poll()) is not None:
            raise _ended(pipeline, path, begin, code)
        time.sleep(_POLL)
    return BackgroundWatcher(process.pid, "", str(path))


def _make_folder(folder: Path) -> None:
    try:
        disk.make_folder(folder, 0o700)
    except OSError as error:
        raise LedgerError(
            f"cannot make {folder}, where the log of a pipeline is: {error.strerror}",
            hint="Name another place: export ROWFALL_HOME=/path/of/a/folder",
        ) from None


def _ended(pipeline: Pipeline, path: Path, begin: int, code: int) -> RowfallError:
    with path.open("rb") as file:
        file.seek(begin)
        said = file.read()[-_TAIL_BYTES:].decode(errors="replace").strip()
    error = LedgerError if code == LedgerError.exit else UsageError
    return error(
        f"pipeline {pipeline.name} has ended at once (exit code {code}):\n{said}",
        hint=f"All that it said is in {path}.",
    )


def stop(pipeline: Pipeline) -> bool:
    """End the watcher in the background; return False where none runs.

    Raises:
        LedgerError: it cannot be ended: another user's.
    """
    lock = _lock(pipeline)
    if not _is_locked(lock):
        return False
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        if (found := running(pipeline)) is not None:
            try:
                os.kill(found.pid, number)
            except ProcessLookupError:
                return True
            except OSError as error:
                raise LedgerError(
                    f"cannot end process {found.pid}: {(error.strerror or '').lower()}"
                ) from None
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not _is_locked(lock):
                return True
            time.sleep(_POLL)
    raise LedgerError(f"pipeline {pipeline.name} does not end")


@contextmanager
def as_background(pipeline: Pipeline, since: str) -> Iterator[None]:
    """Be the watcher in the background of this machine, while the context is open.

    Raises:
        UsageError: another one is.
    """
    path = _lock(pipeline)
    _make_folder(path.parent)
    with os.fdopen(disk.open_own(path, os.O_WRONLY | os.O_CREAT), "w") as lock:
        until = time.monotonic() + _LOOKED_SECONDS
        while not _locks(lock):
            # One that has said who it is, is no look: nobody waits for its end to take its place.
            if running(pipeline) is not None or time.monotonic() > until:
                raise UsageError(f"pipeline {pipeline.name} runs already on this machine")
            time.sleep(_POLL)
        document = _document(pipeline)
        half = document.with_suffix(".half")
        said: dict[str, Any] = {
            "pid": os.getpid(), "since": since, "log": str(log_file(pipeline)),
        }  # fmt: skip
        half.write_text(json.dumps(said), encoding="utf-8")
        half.replace(document)
        try:
            yield
        finally:
            with suppress(OSError):
                document.unlink()


def turn_log(pipeline: Pipeline) -> None:
    """Begin the log of this process anew where it has become long; the one before is kept."""
    _turn(log_file(pipeline))


def _turn(path: Path) -> None:
    with suppress(OSError):
        if path.stat().st_size > MOST_LOG_BYTES:
            # Copied and emptied: the descriptor appends, so it goes on at the beginning.
            shutil.copyfile(path, path.with_suffix(".log.1"))
            os.truncate(path, 0)


def log_file(pipeline: Pipeline) -> Path:
    """Return the file that the watcher in the background writes."""
    return Path(f"{pipeline.files}.log")


def _document(pipeline: Pipeline) -> Path:
    return Path(f"{pipeline.files}.json")


def _lock(pipeline: Pipeline) -> Path:
    return Path(f"{pipeline.files}.lock")


def _locks(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    try:
        with path.open("r") as file:
            return not _locks(file)
    except FileNotFoundError:
        return False
