"""Read a data folder that a running load holds: a second engine gets a copy made of hard links.

An engine removes and merges parts in its folder as it likes, so two must never share one. Files of
parts never change, so links to them are a copy that costs no bytes: what the second engine removes
is its link. Everything else is small and copied.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rowfall.core.errors import TargetError
from rowfall.core.own_files import COPIES

_FOLDERS = ("metadata", "data", "store")
# What an engine makes or removes at this moment, and what it does not show.
_PASSING = ("tmp", "delete_tmp", "deleting", "moving", "detached")
# Below ``store/b6f/UUID`` of a table are its parts.
_PART_DEPTH = 3
# Publishing takes milliseconds; one copy of a thousand parts takes a second.
TRIES, PAUSE_SECONDS = 10, 0.1


@contextmanager
def snapshot(folder: Path, state: Callable[[], object]) -> Iterator[Path]:
    """Give a copy of the folder that holds whole attempts, and remove it afterwards.

    Args:
        state: differs whenever more is visible; None while something becomes so: its parts get
            their names one after the other.

    Raises:
        TargetError: it changes too often, or no copy can be made.
    """
    remove_stale(folder)
    try:
        place, held = _held_folder(folder)
    except OSError as error:
        raise TargetError(f"cannot write to {folder}: {error.strerror}") from None
    try:
        for _ in range(TRIES):
            before = state()
            copy = place / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            copy.mkdir()
            for name in _FOLDERS:
                _copy(folder / name, copy / name, 0)
            if before is not None and before == state():
                break
            time.sleep(PAUSE_SECONDS)
        else:
            raise TargetError(
                f"the tables in {folder} change too fast to be read",
                hint="Run the query again when the load has ended; rowfall status shows it.",
            )
        yield copy
    except OSError as error:
        raise TargetError(
            f"{folder} is being loaded, and cannot be copied by links: {error.strerror}",
            hint="Run the query again when the load has ended; rowfall status shows it.",
        ) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(held)


def _held_folder(folder: Path) -> tuple[Path, int]:
    """Make a folder for a copy, and lock it: in another container its process has no number."""
    while True:
        place = Path(tempfile.mkdtemp(prefix=f"{COPIES}{os.getpid()}-", dir=folder))
        held = -1
        with suppress(FileNotFoundError):
            held = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
            with suppress(OSError):  # NFS locks no folders
                fcntl.flock(held, fcntl.LOCK_EX)
            if place.exists():
                return place, held
        if held >= 0:  # taken for one that was left, before it was locked
            os.close(held)


def remove_stale(folder: Path) -> None:
    """Remove the copies of processes that were killed: their links keep files from being freed."""
    for place in folder.glob(f"{COPIES}*"):
        pid = place.name.removeprefix(COPIES).partition("-")[0]
        # A number of a living process may be that of an older version, which locks nothing.
        ended = pid.isdigit() and (pid == str(os.getpid()) or not Path("/proc", pid).exists())
        if not ended or place.is_symlink():
            continue
        with suppress(OSError):  # gone meanwhile, or held
            held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place, ignore_errors=True)
            finally:
                os.close(held)


def _copy(source: Path, place: Path, depth: int) -> None:
    place.mkdir()
    try:
        entries = list(os.scandir(source))
    except FileNotFoundError:  # dropped meanwhile
        return
    for entry in entries:
        to = place / entry.name
        with suppress(FileNotFoundError):
            if entry.is_symlink():
                to.symlink_to(os.readlink(entry.path))
            elif not entry.is_dir():
                shutil.copyfile(entry.path, to)
            elif depth < _PART_DEPTH - 1 or source.parts[-depth - 1] != "store":
                _copy(Path(entry.path), to, depth + 1)
            elif not entry.name.startswith(_PASSING):
                _link(Path(entry.path), to)


def _link(part: Path, place: Path) -> None:
    """Link all files of a part; nothing of one that is removed at this moment."""
    try:
        shutil.copytree(part, place, copy_function=os.link)
    except (FileNotFoundError, shutil.Error):
        shutil.rmtree(place, ignore_errors=True)
        if part.exists():
            raise
