"""The versions of followed objects by their names, for ``--on-change error``.

They stand in a small table beside the target, where it has such tables, so that whoever takes over
knows them; else in the ledger of this machine. A row says that a version was about to be loaded, or
that it was loaded when somebody looked: whether it is, says the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowfall.core.errors import RowfallError
from rowfall.engines.small_tables import DIGEST, INTEGER, TIME, SmallTables

if TYPE_CHECKING:
    import sqlite3

TABLE = "_rowfall_versions"
# Rows of one statement: ClickHouse parses 256 KiB of a SELECT, and a row here has 90 bytes.
_MOST = 1_000
_NAMES = ("name", "split", "size", "modified")


class SeenVersion(NamedTuple):
    """One version of an object.

    Attributes:
        name: :func:`name_digest` of the object. ``split``: id of its split in the record.
        size: bytes as stored. ``modified``: milliseconds since 1970; None where nobody says so.
    """

    name: str
    split: str
    size: int
    modified: int | None


def name_digest(target_key: str, name: str) -> str:
    """Return 32 hex digits for the name of an object that is loaded into a target."""
    text = f"{target_key}\0{name}".encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=16, person=b"versions").hexdigest()


class SeenVersions(Protocol):
    """The versions that were seen of each name."""

    def of(self, names: Sequence[str]) -> dict[str, list[SeenVersion]]:
        """Return the versions of some names; those of which there is none are left out."""

    def add(self, versions: Sequence[SeenVersion]) -> None:
        """Remember versions that are not there, before this returns."""

    def prune(self, before: int) -> None:
        """Forget versions that were modified before a time, in milliseconds since 1970."""


class SharedVersions:
    """Versions in a small table beside the target."""

    def __init__(self, tables: SmallTables) -> None:
        self._tables = tables
        tables.make_keyed(
            TABLE,
            (("name", DIGEST), ("split", DIGEST), ("size", INTEGER), ("modified", INTEGER),
             ("at", TIME)),
            ("name", "split"),
        )  # fmt: skip

    def of(self, names: Sequence[str]) -> dict[str, list[SeenVersion]]:
        found: dict[str, list[SeenVersion]] = {}
        quote = self._tables.dialect.name
        columns = ", ".join(map(quote, _NAMES))
        for start in range(0, len(names), _MOST):
            asked = ", ".join(map(self._tables.value, names[start : start + _MOST]))
            rows = self._tables.ask(
                f"SELECT DISTINCT {columns} FROM {self._tables.name(TABLE)} "
                f"WHERE {quote('name')} IN ({asked})"
            )
            _collect(found, rows)
        return found

    def add(self, versions: Sequence[SeenVersion]) -> None:
        for start in range(0, len(versions), _MOST):
            some = versions[start : start + _MOST]
            try:
                self._tables.insert(TABLE, _NAMES, some)
            except RowfallError:
                # A watcher that has lost its lease may write the same ones at the same moment, and
                # of a statement whose answer was lost nobody knows whether it has written them.
                there = self.of([version.name for version in some])
                left = [v for v in some if v not in there.get(v.name, ())]
                if left == list(some):
                    raise
                self.add(left)

    def prune(self, before: int) -> None:
        name = self._tables.dialect.name("modified")
        self._tables.delete(TABLE, f"{name} < {int(before)}")


class LocalVersions:
    """Versions in a ledger.

    Args:
        rows: of the ledger: runs a query. ``change``: begins a transaction.
    """

    def __init__(
        self,
        rows: Callable[..., list[tuple[object, ...]]],
        change: Callable[[], AbstractContextManager[sqlite3.Connection]],
    ) -> None:
        self._rows, self._change = rows, change

    def of(self, names: Sequence[str]) -> dict[str, list[SeenVersion]]:
        import json

        found: dict[str, list[SeenVersion]] = {}
        for start in range(0, len(names), _MOST):
            _collect(found, self._rows(
                "SELECT lower(hex(v.name)), lower(hex(v.split)), v.size, v.modified FROM "
                "json_each(?) a JOIN seen_version v ON v.name = bytes_of(a.value)",
                json.dumps(names[start : start + _MOST]),
            ))  # fmt: skip
        return found

    def add(self, versions: Sequence[SeenVersion]) -> None:
        if not versions:
            return
        with self._change() as db:
            db.executemany(
                "INSERT OR IGNORE INTO seen_version VALUES (?, ?, ?, ?)",
                [(bytes.fromhex(v.name), bytes.fromhex(v.split), v.size, v.modified)
                 for v in versions],
            )  # fmt: skip

    def prune(self, before: int) -> None:
        with self._change() as db:
            db.execute("DELETE FROM seen_version WHERE modified < ?", (before,))


def _collect(found: dict[str, list[SeenVersion]], rows: Iterable[Sequence[object]]) -> None:
    """Add rows of a table of versions to those of each name."""
    for name, split, size, modified in rows:
        when = None if modified is None else int(str(modified))
        version = SeenVersion(str(name), str(split), int(str(size)), when)
        found.setdefault(version.name, []).append(version)
