"""Rows of a pipeline as they would be stored; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.events import Listener
from rowfall.core.options import Options
from rowfall.plan.first_rows import first_rows
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.run.session import Request, open_session
from rowfall.service.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Preview:
    """The first rows of the first file of a pipeline.

    Attributes:
        file: its name. ``files``: how many the source has now.
        columns: (name, type) of the table; ``rows``: as texts, None for NULL.
        creates: the table is not there yet; ``refused``: why a load would fail, "" if not.
    """

    file: str
    files: int
    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[str | None]]
    creates: bool
    refused: str


def preview(pipeline: Pipeline, limit: int, emit: Listener) -> Preview:
    """Read the first rows of a pipeline's source.

    Raises:
        RowfallError: source or target are away, a value does not fit, or the options make no sense.
    """
    asked = pipeline.request
    options = _once(asked.options)
    request = Request(asked.sources, asked.to, asked.table, options, asked.password)
    with open_session(request, emit, dry=True) as session:
        facts = survey(session, None, "", thorough=False)  # nothing counts as loaded
        plan = make_plan(facts, options)
        refused = session.destination.refusal(session) or session.destination.contradiction(session)
        rows = first_rows(session, facts, plan, limit, strict=True)
        return Preview(
            plan.listing.uri(0) if len(plan.listing) else "", len(plan.listing),
            [(column.name, column.type) for column in plan.schema.columns], rows,
            not plan.schema.exists, "" if refused is None else refused.message,
        )  # fmt: skip


def _once(options: Options) -> Options:
    """Return the options of a load that comes to an end."""
    from dataclasses import fields, replace

    from rowfall.core.options import FOLLOW_ONLY

    ended: dict[str, Any] = {
        item.name: item.default for item in fields(Options) if item.name in FOLLOW_ONLY
    }
    return replace(options, follow=False, **ended)
