"""What is asked of an engine while a load runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowfall.deliver.watch import Watch
from rowfall.systems.clickhouse import prestart
from rowfall.systems.clickhouse.embedded import Embedded


def test_an_engine_that_nothing_has_needed_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text went into a database without one, but where it took longer than a question waits."""
    monkeypatch.setattr(prestart, "_spawn", lambda fds: pytest.fail("an engine was started"))
    engine = Embedded(None, idle="late")
    try:
        watch = Watch(engine, lambda event: None, None)
        watch.ticker("1", None)  # a statement that does not say how many bytes it has read
        watch._ask_once()
        assert engine.idle
    finally:
        engine.close()
