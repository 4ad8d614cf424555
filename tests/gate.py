"""How much is tried: ``make test`` takes a part of long lists of cases, ``make test-all`` all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ALL = os.environ.get("ROWFALL_TESTS") == "all"


def part(cases: Sequence[T], each: int, start: int) -> list[T]:
    """Return every ``each``-th case; with another ``start``, others. All of them in test-all."""
    return list(cases) if ALL else list(cases[start % each :: each])
