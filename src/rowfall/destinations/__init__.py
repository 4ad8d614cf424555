"""Destinations of rows: each kind is one class with all moments of a load.

``clickhouse`` stages rows in tables beside the target and attaches them; ``transactional`` commits
them in a database together with the record of their files; ``lake`` gathers data files for one
commit; ``files`` writes files and objects; ``arrow_stream`` gives the rows to a program of this
process; ``nothing`` drops them.
Imports deliver, publish, plan, contracts, cluster, ledger, schema, systems, stores, sources,
targets, engines, decoder, core.
"""

from __future__ import annotations

from typing import cast

from rowfall.contracts.destination import Destination
from rowfall.core.registry import find
from rowfall.targets.base import Publish, Target

__all__ = ["REGISTRY", "open_destination"]

REGISTRY = {
    Publish.ATTACH: "destinations.clickhouse.server:ServerTables",
    Publish.ATTACH_ALONE: "destinations.clickhouse.folder:FolderTables",
    Publish.TRANSACTION: "transactional:TransactionalDatabase",
    Publish.MESSAGES: "transactional:Topic",
    Publish.COMMIT: "lake:LakeTable",
    Publish.RENAME: "files:WrittenFiles",
    Publish.AT_ONCE: "files:WrittenObjects",
    Publish.STREAM: "arrow_stream:StreamedRows",
    Publish.NONE: "nothing:Nothing",
}
"""How rows become visible -> module in this package and class."""


def open_destination(target: Target) -> Destination:
    """Return the destination of a target's kind; its module is imported only now."""
    return cast("Destination", find(REGISTRY[target.caps.publish], "destinations")())
