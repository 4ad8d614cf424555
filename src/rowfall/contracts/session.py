"""Session: everything that is open during one load."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rowfall.cluster.writer import Writer
from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.events import Listener
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.engines.base import Engine
from rowfall.engines.database import Database
from rowfall.ledger import Ledger, target_key
from rowfall.sources.base import Source
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster
    from rowfall.contracts.destination import Destination

__all__ = ["Session", "Writer"]


@dataclass(frozen=True, slots=True)
class Session:
    """One load with everything that was opened for it; nothing of it is replaced meanwhile.

    Attributes:
        destination: the moments of a load into a target of this kind.
        listing: what the source held when it was opened.
        declared: the encoding by options and file names, None for generators; what the data says
            besides is in :class:`rowfall.contracts.facts.LoadFacts`.
        reader: the embedded engine that reads the source here; without a server it is the only
            writer's engine, too.
        writers: every engine that stores rows; the first one keeps the journal.
        database: that holds the target table where an engine of ClickHouse does not; else None.
        shards: the cluster that the writers are of, None where there is none.
        began: when the user began to wait, as of ``time.monotonic``.
        derived: the table has its name from the source.
        scratch: the target is one of its own, in which loads are measured and nothing stays.
    """

    sources: tuple[str, ...]
    to: str | None
    options: Options
    source: Source
    target: Target
    destination: Destination
    listing: Listing
    declared: Encoding | None
    reader: Embedded
    writers: tuple[Writer, ...]
    ledger: Ledger | None
    emit: Listener
    shards: OpenCluster | None = None
    began: float = 0.0
    database: Database | None = None
    derived: bool = False
    scratch: bool = False

    @property
    def engine(self) -> Engine:
        """Return the first writer's engine."""
        return self.writers[0].engine

    @property
    def first_target(self) -> Target:
        """Return the first writer's target: of a cluster, its local table."""
        return self.writers[0].target

    @property
    def source_engine(self) -> Engine:
        """Return the engine that is asked about the source where servers read it.

        Of a cluster, the oldest of the nodes that are reached from here: such questions hold keys.
        """
        return self.shards.source_engine if self.shards else self.engine

    @property
    def target_key(self) -> str:
        """Return the ledger's key of the target table."""
        if self.target.table:
            # Two Distributed tables over one local table are two names of the same rows.
            return target_key(self.first_target.database, self.first_target.table)
        return target_key(self.target.text)

    @property
    def all_rows(self) -> str:
        """Return SQL that reads the whole target: the table, or those of all shards."""
        shards, table = self.shards, sql.qualified(self.target.database, self.target.table)
        if shards is None or not shards.tables.direct:
            return table
        return f"cluster({sql.name(shards.cluster.name)}, {table})"

    @property
    def table_text(self) -> str:
        """Return ``database.table`` or the topic for people, "" where there is none."""
        return ".".join(filter(None, (self.target.database, self.target.table)))

    @property
    def remote(self) -> bool:
        """True where the source is read over the network."""
        return self.source.remote

    def for_batch(
        self, listing: Listing, declared: Encoding | None, source: Source | None = None
    ) -> Session:
        """Return the session of the next load of a stream, over the same connections.

        Args:
            source: where it is read, which for tables with snapshots is a newer one.
        """
        return replace(self, source=source or self.source, listing=listing, declared=declared)

    def heard_by(self, emit: Listener) -> Session:
        """Return the session whose events another listener hears."""
        return replace(self, emit=emit)

    def cpu_seconds_here(self) -> float:
        """Return the CPU seconds used so far by this process and the engine that reads here."""
        return self.reader.cpu_seconds() + time.process_time()
