"""One writer of a load into tables of ClickHouse, with its staging tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowfall.cluster.writer import Writer
from rowfall.core.dataclass import dataclass
from rowfall.ledger.leases import StagedPartition
from rowfall.publish.merges import Merges
from rowfall.publish.staging_tables import StagingTables
from rowfall.publish.target_tables import OwnTable


@dataclass(frozen=True, slots=True)
class TableWriter:
    """One writer, and how attempts are staged and published there.

    Attributes:
        own: the target table as the load began with it.
        merges: waits for merges of its target, None where nobody else is slowed down.
        settings: for CREATE TABLE: what the target has, its staging tables may have.
    """

    writer: Writer
    staging: StagingTables
    own: OwnTable
    merges: Merges | None
    settings: Mapping[str, int]

    def wait_for_room(self, moves: Sequence[StagedPartition], parts: int) -> None:
        """Wait until the target can take more parts; see :meth:`Receiver.wait_for_room`."""
        if self.merges is not None:
            self.merges.wait_for_room(moves, parts)
