"""A data folder belongs to one rowfall at a time, and to the engine that it has started."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from rowfall.core.errors import TargetError

LOCK_NAME = "rowfall.lock"
# The engine of a rowfall that was killed ends when it notices its closed stdin: at once, unless
# the kernel is still writing out its memory.
ORPHAN_SECONDS = 15.0


def take_folder(folder: Path) -> int:
    """Create the folder and lock it for this process. Returns the lock's descriptor."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise TargetError(
            f"cannot write to the target folder {folder}: {error.strerror}",
            hint="Give a folder that you may write to with --to.",
        ) from None
    deadline = time.monotonic() + ORPHAN_SECONDS
    # The lock of the open file is rowfall's, the record lock is its engine's: it is held until
    # the engine of a killed rowfall has gone, too.
    for take_lock in (_lock_file, _lock_record):
        while not take_lock(lock):
            holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
            if _alive(holder) or time.monotonic() > deadline:
                os.close(lock)
                raise TargetError(
                    f"the target folder {folder} is in use by another rowfall process"
                    + (f" (pid {holder})" if holder else ""),
                    hint="Wait for it to end, or load into another folder.",
                )
            time.sleep(0.05)
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def _lock_file(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _lock_record(lock: int) -> bool:
    """Whether no engine holds it; the new engine takes it when it opens the folder."""
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(lock, fcntl.LOCK_UN)
    except OSError:
        return False
    return True


def _alive(pid: str) -> bool:
    """Whether the process that wrote its number into the lock still runs (a zombie does not)."""
    if not pid.isdigit() or int(pid) == os.getpid():
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False
