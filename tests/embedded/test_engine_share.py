"""Several loads of one process use one engine: its parts do not wait for each other."""

from __future__ import annotations

import threading
from pathlib import Path

from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.engine_share import EngineShare


def test_parts_of_an_engine(tmp_path: Path) -> None:
    whole = Embedded(tmp_path / "data", memory=2 << 30)
    one, other = EngineShare(whole, 1 << 30, 1), EngineShare(whole, 600 << 20, 2)
    assert (one.memory, other.memory, whole.memory) == (1 << 30, 600 << 20, 2 << 30)
    assert one.facts.memory == 1 << 30
    assert one.facts.version == whole.facts.version
    ended: list[str] = []

    def sleep() -> None:
        one.ask("SELECT sleep(2)")
        ended.append("slow")

    slow = threading.Thread(target=sleep)
    slow.start()
    assert other.ask("SELECT 1") == [[1]]  # the same lane, and not its thread
    ended.append("fast")
    slow.join()
    assert ended == ["fast", "slow"]
    heard: list[Statement] = []
    one.log_statements(heard.append)
    make = Statement(SqlText.of("CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a"))
    other.run(make)
    assert not heard
    one.run(Statement(SqlText.of("INSERT INTO t VALUES (1)")))
    assert len(heard) == 1
    one.close()
    # What one has changed the other sees, and each can start the process anew.
    assert other.ask("SELECT count() FROM t") == [[1]]
    whole.abandon()
    other.revive()
    assert one.ask("SELECT count() FROM t") == [[1]]
    whole.close()
    assert not (tmp_path / "data/rowfall.lock").read_bytes()
