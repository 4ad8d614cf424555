"""``null:`` reads rows and drops them, to measure the source."""

from __future__ import annotations

from rowfall.contracts.destination import LoadRun, ReceiverInputs
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Settled
from rowfall.core.model import Plan
from rowfall.destinations.base import BaseDestination, BasePrepared
from rowfall.publish.files import NothingReceiver, end_open_files


class PreparedNothing(BasePrepared):
    """A load of which nothing is kept."""

    def receiver(self, given: ReceiverInputs) -> NothingReceiver:
        return NothingReceiver(given)


class Nothing(BaseDestination):
    """Counts rows; nothing is remembered of them."""

    rows_become = "nothing"
    follows = False
    keeps = False

    def settle(self, load: LoadRun) -> Settled:
        end_open_files(load.ledger, load.others)
        return Settled("", frozenset())

    def prepare(
        self, load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan
    ) -> PreparedNothing:
        return PreparedNothing(load)
