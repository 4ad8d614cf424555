"""Lines and ledger entries that loads into several kinds of destinations share."""

from __future__ import annotations

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.events import Note
from rowfall.core.model import Plan


def dropped(session: Session, forgotten: int) -> Note:
    """Return the line that says why what was loaded is loaded again."""
    return Note("info", f"{session.table_text} was dropped since the last load: "
                        f"loading {units.counted(forgotten, 'split')} again")  # fmt: skip


def created(session: Session, plan: Plan) -> Note:
    """Return the line that says which table is made; its DDL is for ``-v``."""
    columns = units.counted(len(plan.schema.columns), "column")
    order = " ".join(
        line[9:] for line in plan.texts.ddl.split("\n") if line.startswith("ORDER BY ")
    )
    sorted_by = f", sorted by {order.replace('`', '')}" if order not in ("", "tuple()") else ""
    return Note("info", f"creating {session.table_text}: {columns}{sorted_by}", plan.texts.ddl)
