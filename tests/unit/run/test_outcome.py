"""Costs of a load whose server does not tell what its statements have used."""

from __future__ import annotations

from typing import Any

import pytest

from rowfall.contracts.load import Counts, Tries
from rowfall.core.errors import EngineError
from rowfall.run.outcome import _Run


class Engine:
    """A server whose log of statements nobody may look up."""

    query_log = True

    def ask(self, *_: object) -> Any:
        raise EngineError("not enough privileges to read system.query_log", code=497)

    run = ask

    def resident(self) -> tuple[int, int]:
        return 0, 7


class Session:
    engine = Engine()
    writers = ()

    def cpu_seconds_here(self) -> float:
        return 0.0


class Load:
    session = Session()
    id = "a" * 8


class Target:
    placement = "server"


class Transport:
    reads_here = False


class Planned:
    transport = Transport()
    to = Target()


class Began:
    cpu_here = 0.0


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
    counts = Counts(tries=Tries(query_ids=tuple(map(str, range(statements)))))
    of: Any = (Load(), Planned(), Began(), counts, wall)
    costs = _Run(*of).costs(seen)
    assert (costs.cpu, costs.here, costs.peak) == (said, 0.0, 7)
