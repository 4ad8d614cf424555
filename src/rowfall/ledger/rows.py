"""What the ledger gives back: loads, attempts and moves, and the key of a target table."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rowfall.core.model import Pair
from rowfall.targets.base import SHADOW_SUFFIX


def into_key(*parts: str) -> str:
    """The ledger's key of a target table: database and table, or the pattern of an export."""
    return json.dumps(parts)


def into_parts(key: str) -> list[str]:
    """The parts that :func:`into_key` was given."""
    return [str(part) for part in json.loads(key)]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as the ledger knows it."""

    id: str
    load_id: str
    staging: str
    state: str
    rows: int | None
    into_table: str
    owner: str

    @property
    def gathers(self) -> bool:
        """Whether it publishes what other attempts have gathered in a shadow table."""
        return self.staging.endswith(SHADOW_SUFFIX)


@dataclass(frozen=True, slots=True)
class Move:
    """One partition of a loaded attempt on its way from ``staging`` into ``database.table``.

    ``place``: the node of a cluster that holds both, where the attempt has others as well.
    """

    database: str
    table: str
    staging: str
    partition_id: str
    rows: int
    rows_before: int
    highest_block: int
    state: str = "pending"
    place: str = ""

    @property
    def pair(self) -> Pair:
        return Pair(self.database, self.table, self.staging)


@dataclass(frozen=True, slots=True)
class LoadRow:
    """One load; ``report`` is JSON or None while it runs for the first time."""

    id: str
    source: str
    target: str
    into_table: str
    state: str
    started: str
    request: str
    report: str | None
    owner: str
