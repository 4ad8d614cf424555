"""The first rows of a load as they will be stored, for its plan."""

from __future__ import annotations

import json
from dataclasses import replace

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core.errors import RowfallError
from rowfall.core.model import Plan, Statement
from rowfall.core.sqltext import SqlText
from rowfall.plan import statements
from rowfall.schema.projection import Scan
from rowfall.sources.base import Ranged, Streamed

ROWS = 3
_NULL = "ᴺᵁᴸᴸ"  # what the engine writes for NULL among strings
# The engine stops at the first block that holds the rows, so blocks are short.
_SHORT = {
    "max_threads": 1, "max_block_size": 100, "input_format_parallel_parsing": 0,
    "input_format_parquet_max_block_size": 100,
}  # fmt: skip


def first_rows(
    session: Session, facts: LoadFacts, plan: Plan, rows: int = ROWS, *, strict: bool = False
) -> tuple[tuple[str | None, ...], ...]:
    """Return some rows of the first file as text, as they will be stored.

    Return () where they cannot be read twice, where they come from a connection, where no engine is
    installed that shows them, and where they do not fit: the load says why.

    Args:
        rows: how many at most.
        strict: raise what is wrong with them.

    Raises:
        RowfallError: they do not fit, or cannot be read, where that is asked for.
    """
    group, source = next((g for g in plan.work.groups if g.indexes), None), facts.source
    connected = isinstance(source, Streamed) and not isinstance(source, Ranged)
    if group is None or connected or not (plan.schema.columns and source.replayable):
        return ()
    (split,) = plan.listing.splits("", group.indexes[:1])
    if split.of_text:
        split = replace(split, start=None, stop=None, part=None)
    settings = {s.name: s.value for s in plan.work.settings} | _SHORT
    try:
        known = session.reader.facts.settings
        scan = Scan(source, [split], facts.encoding, plan.schema)
        query = statements.select_handed_over(scan)
        outcome = session.reader.run(Statement(
            SqlText.of(query, f" LIMIT {rows}"),
            {name: value for name, value in settings.items() if not known or name in known},
            format="JSONCompactStringsEachRow", alters=None,
        ))  # fmt: skip
    except RowfallError:
        if strict:
            raise
        return ()
    lines = outcome.data.decode(errors="replace").splitlines()
    return tuple(tuple(None if v == _NULL else str(v) for v in json.loads(line)) for line in lines)
