"""Put files on disk, so that a power cut does not take them back.

The kernel keeps what was written in memory for up to 30 seconds, names of files included. Who
records that something is there flushes it first.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Callable
from pathlib import Path


def sync_file_system(folder: Path) -> None:
    """Flush the file system that a folder is on: what has been written to it, whoever wrote it.

    One call for thousands of files. Where there is no ``syncfs`` (macOS), ``sync`` flushes every
    file system.

    Raises:
        OSError: some of it could not be written (Linux 5.8 and newer say so).
    """
    syncfs = _syncfs()
    if syncfs is None:
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(opened):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
    finally:
        os.close(opened)


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    """Return the C library's ``syncfs``, which Python does not have."""
    try:
        found = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None
    found.argtypes, found.restype = (ctypes.c_int,), ctypes.c_int
    return found


def sync_file(path: Path) -> None:
    """Flush one file; its name is flushed with :func:`sync_folder`."""
    _sync(path, os.O_RDWR)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder."""
    _sync(folder, os.O_RDONLY)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, and flush their names."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in reversed(missing):
        with contextlib.suppress(PermissionError):  # one that may be written and not be read
            sync_folder(one.parent)


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
