"""Behaviours of earlier versions, put back one by one to see whether the simulator finds them.

What is a matter of the model (``no sync``) is asked for where it belongs; here are those that
replace functions of rowfall.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import rowfall.publish.attach
import rowfall.publish.evidence
import rowfall.publish.tables
import rowfall.run.finish
from rowfall.publish.protocol import Evidence, Traces


def _moves_as_they_are(engine: Any, attempt: str, moves: Any, *_: Any) -> Any:
    return moves


def _nothing(*_: Any) -> bool:
    return False


def _judge_by_counts(traces: Traces) -> Evidence:
    if not traces.hidden or traces.counted is False:
        return Evidence.NO_PARTS
    return Evidence.ALL_PARTS if traces.counted else Evidence.UNDECIDED


REPLACED: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "retry without rename": [(rowfall.publish.tables, "fence", _moves_as_they_are)],
    "staging as it was": [
        (rowfall.publish.attach, "alter_alike", _nothing),
        (rowfall.publish.tables, "alter_alike", _nothing),
    ],
    "dead loads leave their shadows": [(rowfall.run.finish, "end_dead_loads", _nothing)],
    "row counts alone": [(rowfall.publish.evidence, "judge", _judge_by_counts)],
}
"""By name: module or class, attribute, and what it was."""


@contextmanager
def put_back(names: Iterable[str]) -> Iterator[None]:
    """Let some behaviours be those of earlier versions."""
    changed = [change for name in names for change in REPLACED.get(name, ())]
    kept = [(where, name, getattr(where, name)) for where, name, _ in changed]
    for where, name, value in changed:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in kept:
            setattr(where, name, value)
