"""Costs of a load whose server does not tell what its statements have used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rowfall.contracts.load import Counts, Tries
from rowfall.core.errors import EngineError
from rowfall.run.outcome import _Run


def _refused(*_: object, **__: object) -> Any:
    raise EngineError("not enough privileges to read system.query_log", code=497)


@pytest.mark.parametrize(
    ("seen", "wall", "statements", "said"),
    [
        (0.1, 6.3, 1, 0.0),  # a statement of a second that waited for a core
        (4.0, 60.0, 1, 0.0),
        (12.0, 8.0, 1, 12.0),
        (12.0, 8.0, 4, 0.0),  # each has ended behind its last tick
    ],
)
def test_what_ticks_have_seen_counts_where_they_see_most(
    seen: float, wall: float, statements: int, said: float
) -> None:
    engine = SimpleNamespace(query_log=True, ask=_refused, run=_refused, resident=lambda: (0, 7))
    session = SimpleNamespace(engine=engine, cpu_seconds_here=lambda: 0.0, writers=())
    load = SimpleNamespace(session=session, id="a" * 8)
    transport = SimpleNamespace(reads_here=False)
    plan = SimpleNamespace(transport=transport, to=SimpleNamespace(placement="server"))
    counts = Counts(tries=Tries(query_ids=tuple(map(str, range(statements)))))
    of: Any = (load, plan, SimpleNamespace(cpu_here=0.0), counts, wall)
    costs = _Run(*of).costs(seen)
    assert (costs.cpu, costs.here, costs.peak) == (said, 0.0, 7)
