"""The client: opening a file, and what errors mean."""

from __future__ import annotations

import os
import shlex
import sqlite3
from contextlib import closing
from typing import Any
from urllib.parse import quote

from rowfall.core.errors import SourceError
from rowfall.core.options import Options
from rowfall.core.units import parse_duration, parse_size
from rowfall.sources.file_database import FileReader

_MOST_LENGTH = 1_000_000_000  # SQLite's own
_LOCKED = "End what holds it, or wait longer: --patience 10m"
_HINTS = (
    ("locked", _LOCKED),
    ("busy", _LOCKED),
    ("not a database",
     "It is damaged, or encrypted. With SQLCipher: ATTACH 'plain.db' AS plain KEY ''; SELECT "
     "sqlcipher_export('plain'), and load plain.db."),
    ("malformed", "What can be saved of it: sqlite3 FILE .recover | sqlite3 saved.db"),
    ("readonly", "A program that was killed has left its journal: open the file once where it can "
     "be written, sqlite3 FILE .tables, then load it."),
    ("too big", "A row, or a value on the way to it, is longer than --max-record. Leave such a "
     "column of a table out by a --query that does not name it, or give more: --max-record 1GiB, "
     "and a --memory of several times that."),
    ("unable to open", "Check the path, and the right to read it."),
    ("no such module", "Name the other tables with --tables, or leave this one out: --exclude."),
)  # fmt: skip


def said(error: Exception, path: str) -> tuple[str, str | None]:
    """Return the text of a driver's error and a hint; None for none."""
    text = str(error)
    hint = next((hint for word, hint in _HINTS if word in text), None)
    return text, hint.replace("FILE", shlex.quote(path)) if hint else None


def connect(path: str, options: Options) -> Any:
    """Open a file for reading, in one transaction: all that is asked of it is of one moment.

    A process that has locked the file is waited for as long as ``--patience`` says. In WAL mode
    others go on writing; otherwise they wait with their commits until the file is closed.

    Raises:
        SourceError: it cannot be opened.
    """
    if not os.path.isfile(path):  # SQLite says the same of a missing file and of a folder
        raise SourceError(f"cannot open {path}: no such file", hint="Check the path.")
    found: Any = None
    try:
        found = _opened(path, options)
        # Before its first question a transaction has no moment yet.
        found.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return found
    except sqlite3.Error as error:
        if found is not None:
            found.close()
        text, hint = said(error, path)
        raise SourceError(f"cannot open {path}: {text}", hint=hint) from error


def _opened(path: str, options: Options) -> Any:
    mode = "ro"
    if not os.access(os.path.dirname(path) or ".", os.W_OK) and not os.path.exists(f"{path}-wal"):
        with open(path, "rb") as file:
            # A file in WAL mode needs two more beside it, which nobody makes or writes by there.
            if file.read(20)[18:] == b"\2\2":
                mode = "ro&immutable=1"
    # No thread uses a connection at the same time as another one: SQLite itself takes turns.
    found = sqlite3.connect(
        f"file:{quote(path)}?mode={mode}", uri=True, isolation_level=None,
        check_same_thread=False, timeout=parse_duration(options.patience),
    )  # fmt: skip
    found.text_factory = bytes  # they go out as they are stored, without being decoded
    # A view of some bytes may make a value of a gigabyte, which is in memory several times.
    found.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(parse_size(options.max_record), _MOST_LENGTH))
    for pragma in ("trusted_schema = OFF", "temp_store = MEMORY"):
        found.execute(f"PRAGMA {pragma}")
    found.execute("BEGIN")
    return found


def rows(connection: Any, query: str, *values: object) -> list[tuple[Any, ...]]:
    """Return the rows of a query, their texts as str."""
    with closing(connection.execute(query, values)) as cursor:
        return [tuple(map(_text, row)) for row in cursor]


def _text(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


READER = FileReader(
    "sqlite", ("table", "key"), connect, lambda: sqlite3.Error, said, "the sqlite3 shell",
    ("locked", "busy"),
)  # fmt: skip
