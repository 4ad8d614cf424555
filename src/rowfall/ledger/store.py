"""The file of a ledger, a database of SQLite: how it is made, checked and opened; its errors."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from rowfall.core import disk
from rowfall.core.errors import LedgerError
from rowfall.core.own_files import SIDE_FILES
from rowfall.targets.base import kept_in

# 2: publishing by ATTACH, owners of loads.
VERSION = 2
# Stands in schema.sql before what later versions have added, each with IF NOT EXISTS.
_ADDED = "-- ADDED since then: made in older ledgers when they are opened.\n"
# Another process writes for milliseconds; longer means that it hangs inside a transaction.
BUSY_SECONDS = 10.0
# Instructions of SQLite between two looks at signals: some 20 ms, and a look costs microseconds.
_BETWEEN_LOOKS = 1_000_000


class LedgerStore:
    """Holds the connection to one file; :class:`Ledger` says what is raised."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Worker, publisher and main thread share the connection: transactions take turns.
        self._guard = threading.RLock()
        self._read_only = disk.is_read_only(path)
        try:
            if self._read_only:
                self._open_read_only()
                return
            disk.make_folder(path.parent, 0o700)
            if kept_in(path.parent):
                _check_own(path.parent)
            for name in SIDE_FILES:
                _refuse_link(path.with_name(path.name + name))
            _make_file(path)
            # The publisher runs on a thread of its own; SQLite itself is in serialised mode.
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.create_function("bytes_of", 1, bytes.fromhex, deterministic=True)
            # Ctrl-C and SIGTERM are heard as Python is called, and break the statement off.
            self._db.set_progress_handler(_look, _BETWEEN_LOOKS)
            # WAL keeps its index in memory that processes of one machine share: over a network two
            # machines would not see each other's lines (https://sqlite.org/wal.html).
            shared = disk.is_shared(path.parent)
            if shared and not disk.gives_locks(path.parent):
                raise _no_locks(path)
            mode = "DELETE" if shared else "WAL"
            self._db.execute(f"PRAGMA journal_mode={mode}")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA fullfsync=ON")  # macOS: fsync alone stops at the drive's cache
            self._db.execute("PRAGMA foreign_keys=ON")
            self._prepare()
        except OSError as error:
            raise LedgerError(
                f"cannot create the ledger {path}: {error.strerror}",
                hint="Name another place: export ROWFALL_HOME=/path/of/a/folder",
            ) from None
        except sqlite3.Error as error:
            raise _explain(path, error) from None

    def _open_read_only(self) -> None:
        """Open a file that nobody can write, for commands that only read."""
        self._db = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?immutable=1", uri=True, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        self._prepare()

    def _prepare(self) -> None:
        schema = _schema()
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found == VERSION:
            if not self._read_only:
                self._db.executescript(schema.partition(_ADDED)[2])
            return
        if found:
            age = "a newer" if found > VERSION else "an older"
            raise LedgerError(
                f"the ledger {self.path} was written by {age} rowfall (format {found}, this "
                f"one knows {VERSION})",
                hint="Use that version, or another target.",
            )
        try:
            self._db.executescript(
                f"BEGIN IMMEDIATE;{schema};PRAGMA user_version={VERSION};COMMIT;"
            )
        except sqlite3.OperationalError:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if self._db.execute("PRAGMA user_version").fetchone() != (VERSION,):
                raise
            # Another process has made it at the same moment.

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Enter a transaction: on disk when it is left, undone by an exception."""
        with self._guard:
            try:
                try:
                    self._db.execute("BEGIN IMMEDIATE")
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    # Ctrl-C comes as a statement returns: after BEGIN or COMMIT, too.
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                _raise_interrupt(error)
                raise _explain(self.path, error) from None

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT."""
        try:
            with self._guard:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            _raise_interrupt(error)
            raise _explain(self.path, error) from None

    def close(self) -> None:
        # A worker that is left behind by an error may be in the middle of a statement: SQLite does
        # not survive that its connection is closed under it.
        with self._guard:
            self._db.close()


def _look() -> int:
    """Tell SQLite to go on; a signal that has come is heard before."""
    return 0


def _raise_interrupt(error: sqlite3.Error) -> None:
    """Raise what has broken a statement off: an exception does not come through SQLite.

    Raises:
        KeyboardInterrupt: it was a signal; nothing else breaks one off.
    """
    # What Python's module raises by itself has no code.
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        raise KeyboardInterrupt from None


@cache
def _schema() -> str:
    return Path(__file__).with_name("schema.sql").read_text()


def _make_file(path: Path) -> None:
    """Make an empty file for this user alone, where there is none; -wal and -shm get its mode.

    Raises:
        OSError: it cannot be made. LedgerError: another user has put a link in its place.
    """
    if not os.path.lexists(path):
        with suppress(FileExistsError):
            # Not opened: closing it would end what locks this process has on it (POSIX).
            os.mknod(path, stat.S_IFREG | 0o600)
    _refuse_link(path)


def _check_own(folder: Path) -> None:
    """Check that nobody else can put files into the folder of this user's ledgers.

    Raises:
        LedgerError: everybody may write to it, or it belongs to another user.
    """
    found, me = folder.stat(), os.geteuid()
    if found.st_uid not in (me, 0) and me != 0:
        raise LedgerError(
            f"{folder}, where rowfall keeps what is loaded, belongs to another user",
            hint="Give a folder of your own with ROWFALL_HOME.",
        )
    if found.st_mode & stat.S_IWOTH:
        raise LedgerError(
            f"everybody may write to {folder}, where rowfall keeps what is loaded",
            hint=f"chmod o-w {shlex.quote(str(folder))}; or give a folder of your own with "
            "ROWFALL_HOME.",
        )


def _refuse_link(path: Path) -> None:
    """Check that no other user has put a link in place of a file of ours.

    Raises:
        LedgerError: one has.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (os.geteuid(), 0):
        raise LedgerError(
            f"the ledger {path} is a symbolic link of another user",
            hint="Find out who has put it there, and remove it.",
        )


def _no_locks(path: Path) -> LedgerError:
    return LedgerError(
        f"the file system of {path.parent} has no locks, which the ledger {path.name} needs",
        hint=f"Name another place: {_other_place(path)}",
    )


def _other_place(path: Path) -> str:
    return "export ROWFALL_HOME=/path/of/a/folder" if kept_in(path.parent) else "--to FOLDER"


def _explain(path: Path, error: sqlite3.Error) -> LedgerError:
    text = str(error)
    if "locked" in text or "busy" in text:
        # SQLite takes a refused lock for one that another process has.
        if not disk.gives_locks(path.parent):
            return _no_locks(path)
        return LedgerError(
            f"the ledger {path} is locked by another process",
            hint=f"Wait for the other rowfall to end (waited {BUSY_SECONDS:.0f} seconds).",
            transient=True,
        )
    if "not a database" in text or "malformed" in text:
        return LedgerError(
            f"the ledger {path} is damaged: {text}",
            hint="Restore it from a backup. Without it rowfall cannot tell what is loaded; if "
            "you move it away, check the target table before you load again.",
        )
    if "readonly" in text or "unable to open" in text:
        why = (
            "it is on a read-only file system" if disk.is_read_only(path)
            else f"this user may not write to it and to {path.parent}"
        )  # fmt: skip
        return LedgerError(
            f"cannot write to the ledger {path}: {why}",
            hint=f"Name another place: {_other_place(path)}",
        )
    return LedgerError(f"cannot use the ledger {path}: {text}", hint="Check space and rights.")
