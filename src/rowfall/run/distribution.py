"""What each shard of a cluster did in one run: what this process counted, and the shards' logs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from rowfall.core.errors import RowfallError
from rowfall.core.model import Statement
from rowfall.core.results import ShardReport
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.ask import ask
from rowfall.plan.session import Writer
from rowfall.run.tally import Tally

# Each shard is asked by itself; 16 at once ask 1,000 of them in seconds.
AT_ONCE = 16
# Requests that an engine sends to a store, whatever the way it reads.
_REQUESTS = ("S3GetObject", "S3HeadObject", "S3ListObjects", "ReadWriteBufferFromHTTPRequestsSent")


def distribution(
    writers: Sequence[Writer], shards: Sequence[int], tallies: Sequence[Tally], load_id: str,
    seconds: float,
) -> tuple[ShardReport, ...]:  # fmt: skip
    """One row a shard.

    Args:
        shards: their numbers.
        tallies: what each writer's executor has counted.
        seconds: since the run began: statements of earlier runs do not count.
    """

    def one(at: int) -> ShardReport:
        tally = tallies[at]
        cpu, memory, requests, received, busy = _logged(writers[at], load_id, seconds)
        return ShardReport(
            shards[at], writers[at].node, tally.rows, tally.landed, tally.stored, tally.written,
            tally.parts, round(busy, 3), round(cpu, 3), memory, requests, received,
        )  # fmt: skip

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return tuple(pool.map(one, range(len(writers))))


def _logged(writer: Writer, load_id: str, since: float) -> tuple[float, int, int, int, float]:
    """CPU seconds, bytes of memory, requests, bytes from other nodes, and seconds from the first
    statement's start to the last one's end; zeros where the log may not be read."""
    with suppress(RowfallError):
        # Otherwise lines reach the log up to 7.5 s later; ordinary users may not.
        writer.engine.run(Statement(SqlText.of("SYSTEM FLUSH LOGS")))
    requests = " + ".join(f"ProfileEvents[{quote(event)}]" for event in _REQUESTS)
    rows: list[list[Any]] = []
    with suppress(RowfallError):
        rows = ask(
            writer.engine,
            "SELECT sum(ProfileEvents['UserTimeMicroseconds'] + "
            "ProfileEvents['SystemTimeMicroseconds']) / 1e6, max(memory_usage), "
            f"sum({requests}), sum(ProfileEvents['NetworkReceiveBytes']), "
            "if(count() = 0, 0, (max(toUnixTimestamp64Micro(event_time_microseconds)) - "
            "min(toUnixTimestamp64Micro(query_start_time_microseconds))) / 1e6) "
            f"FROM system.query_log WHERE event_date >= toDate(now() - {since:.0f}) AND "
            f"type != 'QueryStart' AND query_start_time >= now() - {since + 1:.0f} AND "
            # Of rows that other shards have sent, the statement has an id of its own.
            f"startsWith(initial_query_id, {quote(load_id + '_')})",
        )
    if not rows:
        return 0.0, 0, 0, 0, 0.0
    cpu, memory, count, received, busy = rows[0]
    return float(cpu), int(memory), int(count), int(received), float(busy)


def imbalance(shards: Sequence[ShardReport]) -> float:
    """How much more than the average the fullest shard has got, by bytes of the source where they
    are known and by rows otherwise; 0.03 is 3 %."""
    loads = [shard.bytes_source for shard in shards]
    if not all(loads):
        loads = [shard.rows for shard in shards]
    total = sum(loads)
    return max(loads) * len(loads) / total - 1 if total else 0.0
