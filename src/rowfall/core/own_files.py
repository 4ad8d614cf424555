"""Files and folders that rowfall makes for itself, which no source takes for data."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex

LEDGER_NAME = "rowfall.ledger"
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite keeps beside a ledger."""
REJECTS_NAME = "rowfall-rejects.tsv"
REJECTS_OF = "rowfall-rejects-"
"""Begins the name of such a file where many tables are loaded; the table follows."""
MANIFEST_SUFFIX = ".rowfall"
COPIES = "rowfall.query-"
"""Begins the name of each copy of a data folder that another process has made to read it."""
# What the embedded engine keeps in its folder, also where somebody has taken the ledger away.
_ENGINE = frozenset({"metadata", "store", "status"})


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Parts of tables, also where links were followed when they were copied.
_IN_TABLE = regex(
    rf"(?:^|/)store/[0-9a-f]{{3}}/{_UUID}/|"
    r"(?:^|/)data/[^/]+/[^/]+/(?:detached/)?[^/]+(?:_\d+){3,4}/"
    r"(?:serialization\.json|[a-z_]+\.(?:txt|dat|c?idx|bin|c?mrk\d?))\Z"
)


def is_own_path(path: str) -> bool:
    """Tell whether a file is rowfall's own by its path alone: of an archive, of a bucket.

    There nobody can look beside it for a ledger before all is listed.
    """
    return is_own(path.rpartition("/")[2]) or _IN_TABLE.search(path) is not None


def is_data_folder(names: Collection[str]) -> bool:
    """Tell whether a folder that holds these names is a data folder, whose files are tables."""
    return LEDGER_NAME in names or set(names) >= _ENGINE


def is_data_folder_at(path: str) -> bool:
    """Tell whether there is a data folder at a path, without listing it."""
    names = (LEDGER_NAME, *_ENGINE)
    return os.path.isdir(path) and is_data_folder(
        {name for name in names if os.path.lexists(os.path.join(path, name))}
    )


def is_own(name: str) -> bool:
    """Tell whether a file of this name is a record of rowfall (ledger, manifest, rejected rows)."""
    return (
        name == REJECTS_NAME
        or (name.startswith(REJECTS_OF) and name.endswith(".tsv"))
        or name.endswith((MANIFEST_SUFFIX, *(f".ledger{end}" for end in ("", *SIDE_FILES))))
        or (name.startswith("rowfall.ledger.") and name.endswith(".running"))
    )


def home(variable: str) -> Path:
    """Return the folder of the user.

    Args:
        variable: that says where to go without it.

    Raises:
        UsageError: HOME is not set, and the system does not know the user (containers, mostly).
    """
    try:
        return Path.home()
    except RuntimeError:
        raise UsageError(
            f"the user {os.geteuid()} has no home folder: HOME is not set, and the system does not "
            "know the user",
            hint=f"Name a folder that stays: export {variable}=/path/of/a/folder",
        ) from None
