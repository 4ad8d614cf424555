"""Make statements harmless that were sent for an attempt and may still reach the server.

A lost connection says nothing about a request: a balancer may deliver it a minute later, and a
process that was taken for dead may wake up. An ATTACH or EXCHANGE that is carried out twice doubles
rows or brings old ones back. So nothing is sent a second time before the table that the first
statement names has got another name: what arrives later fails, what runs already is waited for.
Names are never used again.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.errors import EngineError, LedgerError
from rowfall.core.model import StagingPair, Statement
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.ledger.leases import StagedPartition
from rowfall.systems.clickhouse.codes import UNKNOWN_TABLE

# An ATTACH takes milliseconds a part; one that runs longer than this is stuck on a lock.
MOST_WAIT = 120.0
POLL_SECONDS = 0.2
# A table that is being renamed is listed under one of its names; this often it is not missed.
RENAME_TRIES = 5
_RENAMED = regex(r"_x[0-9a-f]{6}\Z")


def publish_id(attempt_id: str, pair: StagingPair) -> str:
    """Return the query id of the statement that attaches one table of an attempt."""
    return f"{attempt_id}_into_{pair.database}.{pair.table}"


def new_name(name: str) -> str:
    """Return a name for a table that no statement has ever been sent for; see :func:`renamed`."""
    return f"{_RENAMED.sub('', name)}_x{secrets.token_hex(3)}"


def renamed(name: str) -> str:
    """Return a regular expression for the first name of a table and those of :func:`new_name`.

    All begin with the first name, so a search by that prefix finds the renamed tables as well.
    """
    return f"^{re.escape(_RENAMED.sub('', name))}(_x[0-9a-f]{{6}})?$"


def fence(
    engine: Engine, attempt: str, moves: Sequence[StagedPartition], published: Callable[[], bool],
    lane: int = 0,
) -> list[StagedPartition]:  # fmt: skip
    """Rename the staging tables of an attempt that are not attached yet; return its moves.

    Statements that use the old names fail from now on; this waits for those that run already.

    Args:
        published: tells whether somebody has published the attempt.

    Raises:
        EngineError: another one has renamed some of them at the same moment (codes.GONE).
        LedgerError: some of them are gone, and nobody has said that the attempt is loaded.
    """
    rows = sum(m.rows for m in moves)
    names: dict[StagingPair, str] = {}
    for pair in dict.fromkeys(m.pair for m in moves if m.state == "pending"):
        old = _present_name(engine, attempt, pair, rows, published, lane)
        names[pair] = new_name(pair.staging)
        rename(engine, pair.database, old, names[pair], lane)
    for pair in names:
        wait_for(engine, publish_id(attempt, pair))
    return [replace(m, staging=names.get(m.pair, m.staging)) for m in moves]


def rename(engine: Engine, database: str, old: str, new: str, lane: int = 0) -> None:
    """Rename a table within its database."""
    text = f"RENAME TABLE {sql.qualified(database, old)} TO {sql.qualified(database, new)}"
    engine.run(Statement(SqlText.of(text)), lane=lane)


def wait_for(engine: Engine, query_id: str) -> None:
    """Wait until a statement has ended.

    Raises:
        EngineError: it does not end.
    """
    deadline = time.monotonic() + MOST_WAIT
    while engine.runs(query_id):
        if time.monotonic() > deadline:
            raise EngineError(f"the statement {query_id} of a stopped load does not end")
        time.sleep(POLL_SECONDS)


def _present_name(
    engine: Engine,
    attempt: str,
    pair: StagingPair,
    rows: int,
    published: Callable[[], bool],
    lane: int,
) -> str:
    """Return the present name of a staging table, which another process may have renamed.

    Raises:
        EngineError: there is none, because the attempt has been published (UNKNOWN_TABLE).
        LedgerError: there is none, although the attempt has not been published.
    """
    for _ in range(RENAME_TRIES):
        found = engine.ask(
            f"SELECT name FROM system.tables WHERE database = {quote(pair.database)} AND "
            f"match(name, {quote(renamed(pair.staging))})",
            lane=lane,
        )
        if found:
            return str(found[0][0])
        if published():
            raise EngineError("the attempt has been published meanwhile", code=UNKNOWN_TABLE)
        time.sleep(POLL_SECONDS)
    raise LedgerError(
        f"the staging table {pair.database}.{pair.staging} of attempt {attempt} with "
        f"{rows:,} loaded rows was dropped by somebody else",
        hint="Check whether the target holds them; after rowfall forget the load's files are "
        "loaded again.",
    )
