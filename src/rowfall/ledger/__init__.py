"""The memory of loads: the ledger (SQLite), the journal beside a shared target, leases.

How rows become visible lives in publish, and which table is the target in targets.
Imports systems, stores, targets, engines, core.
"""

from rowfall.ledger.leases import StagedPartition
from rowfall.ledger.ledger import Attempt, Ledger, LoadRow, target_key, target_key_parts

__all__ = ["Attempt", "Ledger", "LoadRow", "StagedPartition", "target_key", "target_key_parts"]
