"""What every target can say. Targets are text and facts; they never run a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Schema
from rowfall.core.sqltext import SqlText

STAGING_PREFIX = "_rowfall_"
"""Start of the name of every table that a load makes for itself."""

SHADOW_SUFFIX = "_whole"
"""End of the name of the table that gathers a load until its end (``--atomic``, ``--replace``)."""


class Publish(StrEnum):
    """How rows of a finished attempt become visible."""

    ATTACH = "attach"  # staging table, ATTACH PARTITION ALL FROM it
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


@dataclass(frozen=True, slots=True)
class ServerAt:
    """Where a server is and who asks.

    Attributes:
        options: settings for every statement.
        cluster: name of the cluster whose shards are the target, "" for this server alone.
        sharing: servers of the cluster that load at the same time on its machine.
    """

    host: str
    port: int
    tls: bool
    user: str
    password: Secret | None
    options: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    sharing: int = 1


class Target(Protocol):
    """One place for rows. At most five methods; differences are data.

    Attributes:
        text: as typed, without secrets.
        caps: see :class:`Caps`.
        database, table: where rows go, empty where there is no table.
        folder: data folder of the embedded engine, None where the engine needs none.
        server: the server that holds the table, None where the embedded engine does.
        ledger_path: where this target's ledger is kept.
        secrets: values to mask in foreign text.
    """

    text: str
    caps: Caps
    database: str
    table: str
    folder: Path | None
    server: ServerAt | None
    ledger_path: Path
    secrets: tuple[Secret, ...]

    def create(self, schema: Schema, table: str = "") -> tuple[SqlText, ...]:
        """Statements that make the target, or a table like it by another name; each may be
        repeated without harm."""

    def into(self, staging: str, schema: Schema) -> SqlText:
        """The INTO part of the attempt's INSERT."""

    def staging_name(self, attempt_id: str, number: int, encoding: Encoding | None) -> str:
        """Name of the staging table or file: holds the attempt's id, so a late zombie of an
        older attempt writes into a dead place. ``number`` is the group's, from 0."""
