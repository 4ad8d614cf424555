"""The tables that a load needs and does not find: made before its first attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rowfall.core.errors import EngineError, UsageError
from rowfall.core.events import Note
from rowfall.core.model import Plan, Statement
from rowfall.engines.codes import ACCESS_DENIED, READONLY
from rowfall.ledger import Ledger
from rowfall.plan.session import Session

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

# The user may not create tables (497) or is read-only (164): what the server says is the cause.
RIGHTS = (ACCESS_DENIED, READONLY)


def create(session: Session, ledger: Ledger, load_id: str, made: Plan, table: str) -> None:
    """Make the target where it is missing, on all shards of a cluster.

    Args:
        table: that rows gather in: the target's, or its shadow.

    Raises:
        UsageError: the engine does not take its definition.
        RowfallError: it may not be made here.
    """
    target = session.target
    if not target.table:
        for statement in target.create(made.schema):
            session.engine.run(Statement(statement))
        return
    if session.shards is not None:
        _on_cluster(session, session.shards, ledger, load_id, made)
        return
    statements = () if made.schema.exists else target.create(made.schema, table)
    if not statements:
        return
    ledger.step(load_id, "create", "started")
    if made.ddl:
        session.emit(Note("info", f"creating the table:\n{made.ddl}"))
    try:
        for statement in statements:
            session.engine.run(Statement(statement))
    except EngineError as error:
        if error.transient or error.code in RIGHTS:
            raise
        cause = error.message.split(", required columns", 1)[0]
        raise UsageError(
            f"the table cannot be created: {cause}",
            hint="Check --order-by, --engine and the other options of the table.",
        ) from None
    ledger.step(load_id, "create", "done")


def _on_cluster(
    session: Session, shards: OpenCluster, ledger: Ledger, load_id: str, made: Plan
) -> None:
    # As it is now: planning took its time, and others load too.
    missing = replace(shards, tables=shards.find_tables()).missing(made.schema, session.options)
    if not missing:
        return
    if not made.schema.exists:
        ledger.step(load_id, "create", "started")
        session.emit(Note("info", f"creating the tables:\n{made.ddl}"))
    for ddl in missing:
        shards.create(ddl, session.emit)
    if not made.schema.exists:
        ledger.step(load_id, "create", "done")
