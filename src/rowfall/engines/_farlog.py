"""What the log of a server says that only another server can reach."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from rowfall.core.sqltext import quote

# The far log is written every 7.5 s by default (a busy server is late); after a flush it is
# complete.
LOG_SECONDS, FLUSHED_SECONDS = 20.0, 1.0
PAUSE_SECONDS = 0.25


class UnsaidError(Exception):
    """A question of our own got no rows; ``final``: nor will it later."""

    def __init__(self, *, final: bool) -> None:
        super().__init__()
        self.final = final


class FarLog:
    """Looks into it.

    Args:
        said: asks the far server with parameters and a statement, returns what it answers, and
            raises :class:`UnsaidError` when that is no answer.
    """

    def __init__(self, said: Callable[[Mapping[str, str], str], bytes]) -> None:
        self._said = said

    def look_up(self, query_id: str, *, failed: bool) -> list[Any] | None:
        """How a statement ended, from the far log; None when that does not say.

        Returns:
            Code and text of its exception, then rows and bytes read, rows written, memory and
            milliseconds.
        """
        deadline = time.monotonic() + (FLUSHED_SECONDS if self._flush() else LOG_SECONDS)
        sql = (
            "SELECT exception_code, exception, read_rows, read_bytes, written_rows, memory_usage, "
            "query_duration_ms FROM system.query_log WHERE event_date >= today() - 1 "
            f"AND type != 'QueryStart' AND query_id = {quote(query_id)} "
            f"AND (exception_code {'!=' if failed else '='} 0) "
            "ORDER BY event_time_microseconds DESC LIMIT 1"
        )
        while True:
            try:
                rows = self._rows(sql)
            except UnsaidError as unsaid:
                if unsaid.final:
                    return None
                rows = []  # a server makes its log with the first entry that it writes
            if rows or time.monotonic() > deadline:
                return rows[0] if rows else None
            time.sleep(PAUSE_SECONDS)

    def may(self, sql: str) -> bool:
        """Whether a small SELECT of our own succeeds."""
        try:
            self._rows(sql)
        except UnsaidError:
            return False
        return True

    def _rows(self, sql: str) -> list[list[Any]]:
        parameters = {"default_format": "JSONCompactEachRow", "wait_end_of_query": "1"}
        text = self._said(parameters, sql)
        return [json.loads(line) for line in text.splitlines()]

    def _flush(self) -> bool:
        try:
            self._said({}, "SYSTEM FLUSH LOGS")
        except UnsaidError:
            return False
        return True
