"""The identity of the tables that a load makes rows visible in, one for each writer.

A server knows tables by their names. What is loaded is known for one table, so a load remembers
UUIDs and stops when a name has come to mean another table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import Session
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import Ledger, target_key
from rowfall.systems.clickhouse.staging import CatalogueTables
from rowfall.targets.base import STAGING_PREFIX


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table that was loaded into, recognised by its UUID.

    Attributes:
        uuid: "" until it is known, and where the table is replaced: then any table will do.
        text: its name for people.
    """

    engine: Engine
    database: str
    table: str
    uuid: str
    text: str

    def check(self) -> None:
        """Check that the name still means this table.

        Raises:
            TargetError: somebody has dropped it, or replaced it.
        """
        if self.uuid and table_uuid(self.engine, self.database, self.table) != self.uuid:
            raise table_dropped(self.text)


@dataclass(frozen=True, slots=True)
class TargetTables:
    """The target tables of one load.

    Attributes:
        uuids: one for each writer; () until :meth:`remembered`, and where the table is replaced.
        beside: names of what rowfalls had made beside the first one by then, where it is shared.
    """

    session: Session
    ledger: Ledger
    uuids: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        """UUID of the first writer's table: the journal's lines are about that one."""
        return self.uuids[0] if self.uuids else ""

    def of(self, writer: Writer) -> OwnTable:
        database, table = writer.target.database, writer.target.table
        uuid = self.uuids[writer.number] if self.uuids else ""
        return OwnTable(writer.engine, database, table, uuid, self.text(writer))

    def check(self) -> None:
        """Check all of them.

        Raises:
            TargetError: see :meth:`OwnTable.check`.
        """
        for writer in self.session.writers:
            self.of(writer).check()

    def remembered(self, seen: str, found: Sequence[CatalogueTables]) -> TargetTables:
        """Record the UUIDs of the tables as they are now; return the tables with them.

        Args:
            seen: UUID of the first one when it was asked what it holds; "" where there was none.
            found: the tables of each writer, asked just now.

        Raises:
            TargetError: it is another one now.
        """
        uuids = tuple(
            there.uuid(writer.target.table)
            for writer, there in zip(self.session.writers, found, strict=True)
        )
        for writer in self.session.writers:
            if writer.node:
                self.ledger.set_table(self._key(writer), uuids[writer.number])
        known = self.ledger.table_uuid(self.session.target_key) or seen
        if known and known != uuids[0]:
            # It was another one when the load asked what is in it. The ledger of a machine that
            # has not loaded into it does not know which.
            raise table_dropped(self.text(self.session.writers[0]))
        self.ledger.set_table(self.session.target_key, uuids[0])
        beside = tuple(name for name in found[0].tables if name.startswith(STAGING_PREFIX))
        return replace(self, uuids=uuids, beside=beside)

    def check_together(self) -> None:
        """Check that either all shards have the tables of the last load, or none has.

        What is loaded is known for the whole table: a shard that has lost its own would be taken
        for full, or the others would be filled twice.

        Raises:
            TargetError: some shards have lost their table, and others have not.
        """
        same: list[Writer] = []
        other: list[Writer] = []
        for writer in self.session.writers:
            known = self.ledger.table_uuid(self._key(writer)) if writer.node else None
            if known:
                (same if self._uuid(writer) == known else other).append(writer)
        if same and other:
            raise TargetError(
                f"{self.text(other[0])} is not the table that was loaded before, and "
                f"{self.text(same[0])} is: what had been loaded into the first is gone",
                hint="Bring it back; or drop the table on all nodes, and load everything again.",
            )

    def text(self, writer: Writer) -> str:
        """Return the name of a writer's table for people."""
        node = f" on {writer.node}" if writer.node else ""
        return f"{writer.target.database}.{writer.target.table}{node}"

    def _uuid(self, writer: Writer) -> str:
        return table_uuid(writer.engine, writer.target.database, writer.target.table)

    def _key(self, writer: Writer) -> str:
        """Return the ledger's key of one node's table."""
        return target_key(self.session.target_key, writer.node)


def table_dropped(table: str) -> TargetError:
    """Return the error of a load whose table is gone."""
    return TargetError(
        f"the table {table} was dropped by somebody else during the load",
        hint="Run the same command again: it loads everything into the table that is there then, "
        "or into a new one.",
    )
