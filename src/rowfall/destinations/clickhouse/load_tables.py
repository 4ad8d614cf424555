"""The tables of a load, and the leases that guard it, once they are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field

from rowfall.contracts.destination import LoadRun, ReceiverInputs
from rowfall.contracts.load import Settled
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import Leases, NoLeases
from rowfall.publish.recover import Recovery
from rowfall.publish.shadow import Shadow
from rowfall.publish.table_writer import TableWriter
from rowfall.publish.tables import TableReceiver
from rowfall.publish.target_tables import TargetTables
from rowfall.systems.clickhouse.codes import GONE


@dataclass(frozen=True, slots=True)
class LoadTables:
    """Tables of a load and the leases that guard it.

    Attributes:
        leases: of the splits, where attempts are published; ``recovery`` ends those of dead
            processes, None where nobody else can have died.
        whole: the same for the target of a load that gathers in a shadow.
        together: a sharding key says on which writer each row belongs, so that each attempt is
            staged on all of them.
    """

    load: LoadRun
    settled: Settled
    tables: TargetTables
    shadow: Shadow | None = None
    writers: tuple[TableWriter, ...] = ()
    leases: Leases = field(default_factory=NoLeases)
    recovery: Recovery | None = None
    whole: Leases = field(default_factory=NoLeases)
    whole_recovery: Recovery | None = None
    together: bool = False

    @contextmanager
    def leased(self) -> Iterator[None]:
        """Renew the leases until the load has ended."""
        with ExitStack() as stack:
            for leases in (self.leases, self.whole):
                if isinstance(leases, Journal):
                    stack.enter_context(leases)
            yield

    def receiver(self, given: ReceiverInputs) -> TableReceiver:
        """Return the receiver that stages attempts on one writer, or on all of them together."""
        own, writers = given.writer.number, self.writers
        if not self.together:
            own, writers = 0, (writers[own],)
        return TableReceiver(
            given, self.leases, self.recovery, writers, own, together=self.together
        )

    def end_dead(self) -> None:
        """End what dead processes have staged for these tables, or left of what is published."""
        if self.recovery is not None:
            self.recovery.end_all()

    def cause(self, error: RowfallError) -> RowfallError:
        """Return the error to report: that the target is gone, where this caused ``error``."""
        if isinstance(error, EngineError) and error.code in GONE:
            try:
                self.tables.check()
            except RowfallError as gone:
                return gone
        return error
