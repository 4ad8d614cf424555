"""Moments of a load that are functions take what the protocol of destinations gives."""

from __future__ import annotations

import inspect

import pytest

from rowfall.contracts.destination import Destination
from rowfall.core.registry import LateMethod
from rowfall.destinations.clickhouse.tables import ClickHouseTables

LATE = [name for name, value in vars(ClickHouseTables).items() if isinstance(value, LateMethod)]


def _told(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    given = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.annotation) for p in given if p.name != "self"]


@pytest.mark.parametrize("name", LATE)
def test_a_function_takes_what_the_protocol_gives(name: str) -> None:
    assert _told(getattr(ClickHouseTables, name)) == _told(getattr(Destination, name))


def test_the_moments_of_a_load_are_functions() -> None:
    assert {"settle", "survey", "prepare"} <= set(LATE)
