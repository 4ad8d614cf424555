"""The plan of a load and what really happened: kept when a run ends, read when somebody asks."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from heapq import nlargest
from typing import Any

from rowfall.core.errors import LedgerError
from rowfall.core.load_record import LoadRecord
from rowfall.core.model import Choice, Plan
from rowfall.core.results import AttemptRecord, Explanation, PlannedLoad, Report
from rowfall.ledger import Ledger, recorder
from rowfall.ledger.recorder import SLOWEST, known

# Attempts that are kept of a run, 300 bytes each: a load of 20 s an attempt has them after 5 h.
_MOST = 1_000
# Letters of an SQL statement that are kept: a definition of 10,000 columns has 500,000.
_MOST_TEXT = 20_000


def keep(
    ledger: Ledger, load_id: str, plan: Mapping[str, Any], attempts: Sequence[AttemptRecord],
    record: LoadRecord,
) -> None:  # fmt: skip
    """Keep the plan of a run, its attempts and what was recorded of it.

    Of many attempts those that have failed, the slowest and the first ones are kept.

    Args:
        plan: see :func:`planned`.
    """
    kept: Sequence[AttemptRecord] = attempts
    if len(attempts) > _MOST:
        order = {attempt.id: at for at, attempt in enumerate(attempts)}
        slowest = nlargest(SLOWEST, attempts, key=lambda attempt: attempt.seconds)
        first = {a.id: a for a in (*(a for a in attempts if a.error), *slowest, *attempts)}
        kept = sorted([*first.values()][:_MOST], key=lambda attempt: order[attempt.id])
    ledger.explain(load_id, json.dumps({
        "plan": plan,
        "attempts": [dataclasses.asdict(attempt) for attempt in kept],
        "left_out": len(attempts) - len(kept),
        "record": recorder.to_json(record),
    }))  # fmt: skip


def planned(plan: Plan) -> dict[str, Any]:
    """Return what is kept of a plan, for JSON: 3 KB, and 40 KB of a table of many columns."""
    forecast, transport = plan.forecast, plan.transport
    named = {f.name: getattr(transport, f.name) for f in dataclasses.fields(transport)}
    choices = {name: each for name, each in named.items() if isinstance(each, Choice)}
    return dataclasses.asdict(PlannedLoad(
        forecast.rows, forecast.seconds, forecast.memory, forecast.parts, forecast.disk,
        tuple((name, each.value, each.reason) for name, each in choices.items() if each.value),
        tuple((s.name, str(s.value), s.reason) for s in plan.work.settings),
        plan.work.lanes, sum(1 for group in plan.work.groups if group.indexes), plan.facts.cores,
        plan.texts.ddl[:_MOST_TEXT], plan.texts.example[:_MOST_TEXT],
    ))  # fmt: skip


def plan_of(found: Mapping[str, Any] | None) -> PlannedLoad | None:
    """Return a plan from its JSON; None for none, and for that of another version of rowfall."""
    try:
        return None if found is None else _plan(found)
    except (ValueError, TypeError, KeyError):
        return None


def _plan(found: Mapping[str, Any]) -> PlannedLoad:
    plan = known(PlannedLoad, found)
    for name in ("choices", "settings"):
        plan[name] = tuple(tuple(map(str, each)) for each in plan[name])
    return PlannedLoad(**plan)


def read(text: str | None, report: Report) -> Explanation:
    """Parse the kept plan and attempts of a load, without fields that only a newer rowfall knows.

    Args:
        text: JSON from the ledger; None where none was kept, which gives the report alone.

    Raises:
        LedgerError: the text cannot be read.
    """
    if text is None:
        return Explanation(report, None)
    try:
        found: dict[str, Any] = json.loads(text)
        attempts = tuple(AttemptRecord(**known(AttemptRecord, a)) for a in found["attempts"])
        return Explanation(
            report, _plan(found["plan"]), attempts, int(found.get("left_out", 0)),
            recorder.from_json(found.get("record", {})),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError) as error:
        raise LedgerError(
            f"the ledger holds a plan of load {report.load_id} that cannot be read: {error}"
        ) from None
