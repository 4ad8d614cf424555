"""Rounds by seed, and a count of what was survived.

``ROWFALL_FAULT_ROUNDS`` is the number of rounds of each random test, ``ROWFALL_FAULT_SEED`` what
they are drawn from: with the same seed, a round does the same.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

SEED = "ROWFALL_FAULT_SEED"
_SURVIVED = "survived"

Survived = Callable[[str], None]


def pytest_configure() -> None:
    # Parallel workers inherit the variable.
    os.environ.setdefault(SEED, str(random.randrange(1 << 30)))


def pytest_report_header() -> str:
    return f"faults: seed {os.environ[SEED]}"


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test, the same for the same seed."""
    seed = os.environ[SEED]
    print(f"{SEED}={seed}")  # noqa: T201 - shown by pytest when the test fails
    return random.Random(f"{seed} {request.node.name}")


@pytest.fixture
def survived(record_property: Callable[[str, object], None]) -> Survived:
    """``survived("kill -9 rowfall")``: counted when the test passes."""
    return lambda kind: record_property(_SURVIVED, kind)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", ()):
        counts.update(str(kind) for name, kind in report.user_properties if name == _SURVIVED)
    if not counts:
        return
    width = max(map(len, counts))
    terminalreporter.section("faults survived")
    for kind, count in sorted(counts.items()):
        terminalreporter.write_line(f"{kind:{width}}  {count:6,}")
    terminalreporter.write_line(f"{'all':{width}}  {counts.total():6,}")
    terminalreporter.write_line(f"seed {os.environ[SEED]}: {SEED}={os.environ[SEED]} repeats it")
