"""Files and folders that rowfall makes for itself: no source takes them for data. Stdlib only."""

from __future__ import annotations

from collections.abc import Collection

LEDGER_NAME = "rowfall.ledger"
REJECTS_NAME = "rowfall-rejects.tsv"
MANIFEST_SUFFIX = ".rowfall"
# What the embedded engine keeps in its folder, also where somebody has taken the ledger away.
_ENGINE = frozenset({"metadata", "store", "status"})


def is_data_folder(names: Collection[str]) -> bool:
    """Tell whether a folder that holds these names is a data folder, whose files are tables."""
    return LEDGER_NAME in names or set(names) >= _ENGINE


def is_own(name: str) -> bool:
    """Tell whether a file of this name is a record of rowfall (ledger, manifest, rejected rows)."""
    return (
        name == REJECTS_NAME
        or name.endswith((MANIFEST_SUFFIX, ".ledger", ".ledger-wal", ".ledger-shm"))
        or (name.startswith("rowfall.ledger.") and name.endswith(".running"))
    )
