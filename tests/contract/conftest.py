"""Engines for the contract suites; the server is started once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contract.engines import Guarded, connect
from lab.clickhouse import ClickHouse
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server


@pytest.fixture(scope="session")
def service() -> Iterator[Guarded]:
    with Guarded() as service:
        yield service


@pytest.fixture(scope="module", params=["embedded", "server"])
def engine(request: pytest.FixtureRequest) -> Iterator[Embedded | Server]:
    engine = (
        Embedded(None, memory=1 << 30)
        if request.param == "embedded"
        else connect(request.getfixturevalue("service"))
    )
    yield engine
    engine.close()


@pytest.fixture
def server(service: Guarded) -> Iterator[Server]:
    server = connect(service)
    yield server
    server.close()


@pytest.fixture(scope="module")
def keeper() -> Iterator[Server]:
    """A server with a Keeper inside, for replicated tables."""
    with ClickHouse(keeper=True) as service:
        server = connect(service)
        yield server
        server.close()
