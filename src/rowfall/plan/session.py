"""Everything that is open during one load: source, target, writers, ledger."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rowfall.cluster.open import OpenCluster, Writer
from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.core import sql
from rowfall.core.events import Listener
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.engines.base import Engine
from rowfall.engines.embedded import Embedded
from rowfall.ledger import Ledger, target_key
from rowfall.plan.reach import Reach
from rowfall.sources.base import Source
from rowfall.targets.base import Target

if TYPE_CHECKING:
    pass

__all__ = ["Session", "Writer"]


@dataclass(slots=True)
class Session:
    """One request with everything that had to be opened for it.

    Attributes:
        engine: stores the rows; of a cluster, the node that keeps the journal. ``reader`` reads
            the source from here; the same when embedded.
        writers: every engine that stores rows; ``engine`` is that of the first.
        shards: the cluster that they are of, None where there is none.
        sharding_key: which of them a row belongs on, None where any will do.
        scout: looks at the source where servers read it; of a cluster, one that is reached from
            here (see :attr:`rowfall.cluster.open.OpenCluster.scout`), otherwise ``engine``.
        home: the table whose columns count when it exists: the target, or its shadow.
        cpu_before: :attr:`cpu_here` when the plan was made.
        how: whether a server reads the source itself, and why; None for the embedded engine.
    """

    sources: tuple[str, ...]
    to: str | None
    options: Options
    source: Source
    target: Target
    listing: Listing
    encoding: Encoding | None
    engine: Engine
    reader: Embedded
    ledger: Ledger | None
    emit: Listener
    home: str = ""
    how: Reach | None = None
    cpu_before: float = 0.0
    writers: tuple[Writer, ...] = ()
    shards: OpenCluster | None = None
    sharding_key: ShardingKey | None = None
    scout: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.writers = self.writers or (Writer(0, "", self.engine, self.target),)
        self.scout = self.shards.scout if self.shards else self.engine

    @property
    def into(self) -> str:
        if self.target.table:
            # Two Distributed tables over one local table are two names of the same rows.
            return target_key(self.local.database, self.local.table)
        return target_key(self.target.text)

    @property
    def local(self) -> Target:
        """The target as it is on ``engine``: of a cluster, the first shard's own table."""
        return self.writers[0].target

    @property
    def far(self) -> str:
        """Which node gets statements, but no rows from here; "" when all of them get both."""
        far = [w for w in self.writers if w.engine.rows_refused is not None]
        return f"{far[0].place} {far[0].engine.rows_refused}" if far else ""

    @property
    def all_rows(self) -> str:
        """SQL that reads the whole target: the table, or those of all shards."""
        shards, table = self.shards, sql.qualified(self.target.database, self.target.table)
        if shards is None or not shards.tables.direct:
            return table
        return f"cluster({sql.name(shards.cluster.name)}, {table})"

    @property
    def table_text(self) -> str:
        """``database.table`` for people, "" where there is no table."""
        return f"{self.target.database}.{self.target.table}" if self.target.table else ""

    @property
    def cpu_here(self) -> float:
        """CPU seconds of this process and of the engine that reads here."""
        return self.reader.cpu_seconds() + time.process_time()

    @property
    def puller(self) -> Source:
        """The source as the engine that stores has to name it, where it reads it itself."""
        return self.how.source if self.how is not None and self.how.pull else self.source

    @property
    def remote(self) -> bool:
        return self.sources[0].startswith(("s3://", "gs://", "az://", "http://", "https://"))
