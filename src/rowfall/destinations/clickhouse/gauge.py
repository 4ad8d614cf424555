"""How full a server of ClickHouse is, asked between attempts."""

from __future__ import annotations

from typing import Any

from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.sqltext import quote
from rowfall.core.steering import Pressure
from rowfall.engines.base import Engine
from rowfall.publish.merges import LANE, Merges
from rowfall.systems.clickhouse.codes import ACCESS_DENIED
from rowfall.targets.base import Target

# The limit of a server that names none is this share of the memory of its machine.
_OF_MACHINE = 0.9
_MEMORY = """\
SELECT (SELECT value FROM system.metrics WHERE metric = 'MemoryTracking'),
(SELECT toUInt64OrZero(value) FROM system.server_settings WHERE name = 'max_server_memory_usage'),
(SELECT min(value) FROM system.asynchronous_metrics
WHERE metric IN ('OSMemoryTotal', 'CGroupMemoryTotal') AND value > 0)"""


class ServerGauge:
    """Asks a server; what its user may not read is left out from then on."""

    def __init__(self, engine: Engine, target: Target) -> None:
        self._engine, self._target = engine, target
        self._limits = Merges(engine, lambda event: None)
        self._refused: set[str] = set()

    def look(self) -> Pressure:
        database, table = self._target.database, self._target.table
        here = f"database = {quote(database)} AND table = {quote(table)}"
        parts = self._asked(
            "parts", "SELECT max(n) FROM (SELECT count() AS n FROM system.parts WHERE active AND "
            f"{sql.table_is(database, table)} GROUP BY partition_id)",
        )  # fmt: skip
        merges = self._asked("merges", f"SELECT count() FROM system.merges WHERE {here}")
        memory = self._asked("memory", _MEMORY)
        replica = self._asked(
            "replicas",
            f"SELECT max(absolute_delay), max(queue_size) FROM system.replicas WHERE {here}",
        )
        held, limit, machine = memory or (0, 0, 0)
        lag, queue = replica or (0, 0)
        count = int(parts[0] or 0) if parts else 0
        return Pressure(
            count, self._limits.limit(database, table) if count else 0,
            int(held or 0), int(limit or 0) or int(_OF_MACHINE * float(machine or 0)),
            float(lag or 0), int(queue or 0), int(merges[0]) if merges else 0,
        )  # fmt: skip

    def _asked(self, what: str, question: str) -> list[Any] | None:
        """Return the row of an answer; None where the user may not ask."""
        if what in self._refused:
            return None
        try:
            rows = self._engine.ask(question, lane=LANE)
        except RowfallError as error:
            if error.code != ACCESS_DENIED:
                raise
            self._refused.add(what)
            return None
        return list(rows[0]) if rows else None
