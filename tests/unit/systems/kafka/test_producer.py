"""Properties that producers are made with."""

from __future__ import annotations

from contextlib import closing

import pytest

from rowfall.core.errors import TargetError
from rowfall.systems.kafka.client import Client, Direction
from rowfall.systems.kafka.producer import SHORT_MS, Producer


@pytest.mark.parametrize("more", [(), (SHORT_MS,)], ids=["rows", "record"])
def test_patience_may_be_longer_than_a_transaction(more: tuple[int, ...]) -> None:
    """librdkafka refuses messages that may wait for longer than theirs."""
    servers = {"bootstrap.servers": "127.0.0.1:9"}
    direction = Direction(error=TargetError, does="", needs="", needs_all="", fixed={})
    with closing(Client(servers, (), "2h", direction)) as client:
        Producer(servers, client, "id", *more).close()
