"""The protocol of targets: text and facts for a load; they never run a statement."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Schema
from rowfall.core.own_files import LEDGER_NAME, home
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText

STAGING_PREFIX = "_rowfall_"
"""Start of the name of every table that a load makes for itself."""

SHADOW_SUFFIX = "_whole"
"""End of the name of the table that gathers a load until its end (``--atomic``, ``--replace``)."""


def state_folder() -> Path:
    """Return the folder of the ledgers of targets that have no folder of their own."""
    own = os.environ.get("ROWFALL_HOME")
    if own:
        return Path(own)
    state = os.environ.get("XDG_STATE_HOME") or home("ROWFALL_HOME") / ".local/state"
    return Path(state) / "rowfall"


def kept_in(folder: Path) -> bool:
    """Tell whether a folder is that of :func:`state_folder`; a user without a home has none."""
    try:
        return folder == state_folder()
    except UsageError:
        return False


def state_ledgers() -> list[Path]:
    """Return the ledgers of targets that have no folder of their own; none without a home."""
    try:
        return sorted(state_folder().glob("*.ledger"))
    except UsageError:
        return []


def state_ledger() -> Path:
    """Return the ledger of targets that are no database."""
    return state_folder() / LEDGER_NAME


class Publish(StrEnum):
    """Way in which rows of a finished attempt become visible."""

    ATTACH = "attach"  # staging table, ATTACH PARTITION ALL FROM it
    ATTACH_ALONE = "attach alone"  # the same in a data folder, which one process has to itself
    RENAME = "rename"  # one local file per attempt, renamed when complete
    AT_ONCE = "at once"  # the object store shows an object only when it is complete
    TRANSACTION = "transaction"  # rows and the record of their splits are committed together
    MESSAGES = "messages"  # the same in a topic, where no rows can be asked for
    COMMIT = "commit"  # files of all attempts, by one commit at the end of the load
    STREAM = "stream"  # given to a program of this process
    NONE = "none"  # nothing is kept


@dataclass(frozen=True, slots=True)
class Caps:
    """Facts of a kind of target.

    Attributes:
        publish: see :class:`Publish`; it names the target's :mod:`rowfall.destinations`.
        promise: what is guaranteed after a crash, one sentence for the plan.
        noun: what the target is, for people.
        takes_table_name: ``--table`` names the table; elsewhere the address says where rows go.
        folds_case: names that differ in case only are one.
        alone: why one table is loaded after the other, a clause; "" where several may be at a time.
    """

    publish: Publish
    promise: str
    noun: str = "a table"
    takes_table_name: bool = True
    folds_case: bool = False
    alone: str = ""


@runtime_checkable
class DeclaresTypes(Protocol):
    """A target whose new tables have types of their own.

    Attributes:
        zeros_in_text: its texts may have zero bytes.
    """

    @property
    def zeros_in_text(self) -> bool: ...

    def declared(self, column: Column) -> str:
        """Return the type of a column in a new table, for :meth:`Database.shown`.

        Raises:
            UsageError: there is none.
        """


@runtime_checkable
class TakesNativeTypes(Protocol):
    """A target whose new tables can have the types of a table in a database of the same kind.

    Attributes:
        native: the name of that kind, see :class:`rowfall.core.native.NativeTable`.
    """

    native: str


@dataclass(frozen=True, slots=True)
class Scratch:
    """A place of its own beside a target, where loads are measured and nothing stays.

    Attributes:
        target: of the same kind, on the same disk, server or bucket.
        folder: is removed afterwards with all that is in it; None where nothing lies on this
            machine.
        like: name of the table whose definition the new one gets, "" for none.
    """

    target: Target
    folder: Path | None = None
    like: str = ""


def scratch_folder(path: Path, name: str) -> Path:
    """Return a hidden folder on the disk of ``path``: in its nearest parent that is there."""
    there = next(parent for parent in path.absolute().parents if parent.is_dir())
    return there / f".{name}"


class Target(Protocol):
    """One place for rows; how targets differ is data in :class:`Caps`.

    Attributes:
        text: as typed, without secrets.
        caps: see :class:`Caps`.
        database, table: where rows go, empty where there is no table.
        folder: data folder of the embedded engine, None where the engine needs none.
        server: the ClickHouse server that holds the table; None where there is none.
        address: of another database that holds it: an engine here writes the rows as text, and
            they are committed there. None where there is none.
        ledger_path: where this target's ledger is kept.
        secrets: values to mask in foreign text.
    """

    text: str
    caps: Caps
    database: str
    table: str
    folder: Path | None
    server: ServerAt | None
    address: ServerAt | None
    ledger_path: Path
    secrets: tuple[Secret, ...]

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        """Return the statements that make the target, or a table like it by another name.

        Each may be repeated without harm.
        """

    def into(self, staging: str, schema: Schema) -> SqlText:
        """Return the INTO part of the attempt's INSERT."""

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        """Return the name of the staging table or file.

        It holds the attempt's id, so an older attempt that still runs cannot write into it.

        Args:
            number: of the group, from 0.
        """

    def scratch(self, name: str, ledger: Path) -> Scratch:
        """Return a place beside this one that nobody else uses; nothing is made yet.

        Args:
            name: of its table, topic or folder. ``ledger``: of its loads.
        """


@runtime_checkable
class FileTarget(Target, Protocol):
    """A target whose rows are files of a table, see :class:`rowfall.engines.database.FileTable`."""

    def laid_out(self, partition_by: str) -> Target:
        """Return the target with files of one partition each.

        Args:
            partition_by: SQL that is the same for all rows of a file, "" for none.
        """
