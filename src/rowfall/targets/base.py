"""What every target can say. Targets are text and facts; they never run a statement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from rowfall.model import Encoding, Schema
from rowfall.secrets import Secret
from rowfall.sqltext import SqlText


class Publish(StrEnum):
    """How rows of a finished attempt become visible."""

    MOVE = "move"  # staging table, MOVE PARTITION
    RENAME = "rename"  # one local file per attempt, renamed when complete
    AT_ONCE = "at once"  # the object store shows an object only when it is complete
    NONE = "none"  # nothing is kept


@dataclass(frozen=True, slots=True)
class Caps:
    """Facts of a target that the planner and the executor read.

    Attributes:
        publish: see :class:`Publish`.
        promise: what is guaranteed after a crash, one sentence for the plan.
        one_file_per_group: an attempt is an output file, so groups are cut by ``--files``.
        remembers: landed splits are skipped on the next run.
    """

    publish: Publish
    promise: str
    one_file_per_group: bool = False
    remembers: bool = True


class Target(Protocol):
    """One place for rows. At most five methods; differences are data.

    Attributes:
        text: as typed, without secrets.
        caps: see :class:`Caps`.
        database, table: where rows go, empty where there is no table.
        folder: data folder of the embedded engine, None where the engine needs none.
        ledger_path: where this target's ledger is kept.
        secrets: values to mask in foreign text.
    """

    text: str
    caps: Caps
    database: str
    table: str
    folder: Path | None
    ledger_path: Path
    secrets: tuple[Secret, ...]

    def create(self, schema: Schema) -> tuple[SqlText, ...]:
        """Statements that make the target; each may be repeated without harm."""

    def stage(self, staging: str, schema: Schema) -> tuple[SqlText, ...]:
        """Statements that make the empty staging place of one attempt."""

    def into(self, staging: str, schema: Schema) -> SqlText:
        """The INTO part of the attempt's INSERT."""

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        """Name of the staging table or file: holds the attempt's id, so a late zombie of an
        older attempt writes into a dead place. ``number`` is the group's, from 0."""

    def discard(self, staging: str) -> tuple[SqlText, ...]:
        """Statements that remove what an attempt left; harmless when there is nothing."""
