"""Find out whether the rows that were loaded into a table of ClickHouse were removed by TRUNCATE.

A table without parts shows it, and so does the server's log of statements where others have put
rows in since. Numbers of parts alone prove nothing: what is detached and attached again, restored
or replaced gets new ones. They tell when the log need not be read; and in a folder, which has none,
they are believed where fewer rows are left than were loaded.
"""

from __future__ import annotations

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import Session
from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.listing import MARK
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote, quoted_list
from rowfall.destinations.clickhouse.record import LoadedState, record_of
from rowfall.engines.base import Engine
from rowfall.ledger import Ledger
from rowfall.ledger.journal import LastLoaded
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, UNKNOWN_TABLE
from rowfall.systems.clickhouse.staging import CatalogueTables, ask_catalogue

_KEEPS_ROWS = regex(r"\A(Replicated|Shared)?(Replacing)?MergeTree\Z")
_TTL = regex(r"\bTTL\b")
# Behind comments. The log names the table in full, whichever way the statement does.
_TRUNCATE = r"(?is)^\s*(--[^\n]*\n\s*|/\*.*?\*/\s*)*TRUNCATE\b"
# A log of months is read in this time on a laptop; who waits longer is not asked.
_LOG_SECONDS = 5


def count_gone(
    session: Session, memory: LoadedState, found: CatalogueTables | None, brought: int
) -> tuple[int, bool]:
    """Return how many splits of this load count as loaded although their rows were removed.

    Args:
        brought: rows that the journal says were loaded into the table.

    Returns:
        With whether others have put rows in since; (0, False) where nothing shows a TRUNCATE, or
        somebody has said that the rows stay away.
    """
    options, first = session.options, session.first_target
    if options.force or options.cursor is not None or session.listing.continued:
        return 0, False
    if options.follow:  # nobody is there to answer, and each batch of a lake table lists all files
        return 0, False
    loaded = memory.loaded
    ids = {split.id for split in session.listing.splits(session.target_key)}
    count = sum(i in loaded or f"{MARK}{i}" in loaded for i in ids)
    ledger = session.ledger
    own = ledger.loaded_rows(session.target_key) if ledger is not None else 0
    if not count or not (own or brought):
        return 0, False
    asked = found or ask_catalogue(session.engine, first.database, first.table)
    facts = asked.tables.get(first.table)
    if facts is None or "MergeTree" not in facts.engine:
        return 0, False
    record = record_of(session, found)
    # By the parts: rows that a lightweight DELETE has marked are not gone at once.
    filled = [w for w in session.writers if _has_parts(w)]
    # Rows of others may expire, or cancel each other out.
    keeps = bool(_KEEPS_ROWS.search(facts.engine)) and not _TTL.search(facts.create_query)
    if filled and ledger is not None and record.alone:
        # Merges that unite rows leave fewer than were loaded.
        if not keeps or facts.engine != "MergeTree":
            return 0, False
        if not _is_left_by_others(session.writers[0], ledger, session.target_key):
            return 0, False
    elif filled or not keeps:
        journal = record.journal(memory.uuid)
        last = journal.last_loaded() if journal is not None else None
        if last is None or not all(_is_truncated(w, last) for w in session.writers):
            return 0, False
    if record.accepts_emptied(memory.uuid) or any(map(_waits_for_parts, session.writers)):
        return 0, False
    return count, bool(filled)


def _has_parts(writer: Writer) -> bool:
    ((parts,),) = writer.engine.ask(
        f"SELECT count() FROM system.parts WHERE {_of(writer)} AND active AND rows > 0"
    )
    return bool(parts)


def _is_left_by_others(writer: Writer, ledger: Ledger, key: str) -> bool:
    """Tell whether no part came from a load, and all hold fewer rows than these brought.

    A part of others has a number above those of all loads, or it is as an INSERT has made it: where
    a table without parts is opened anew, its numbers begin again. Parts that were detached and
    attached have new numbers, too, and all of their rows; only where people have deleted some, and
    merged the rest, it is asked about in vain.
    """
    at = writer.target
    last = ledger.last_blocks(key, at.database, at.table)
    if not last:
        return False
    parts = writer.engine.ask(
        "SELECT partition_id, min_block_number, level = 0 AND data_version = min_block_number, "
        f"rows, toString(uuid) FROM system.parts WHERE {_of(writer)} AND active AND rows > 0"
    )
    for partition, lowest, is_inserted, *_ in parts:
        if not int(is_inserted) and int(lowest) <= last.get(str(partition), -1):
            return False
    if sum(int(rows) for *_, rows, _ in parts) >= ledger.loaded_rows(key):
        return False
    return not ledger.has_staged(str(uuid) for *_, uuid in parts)


def _of(writer: Writer) -> str:
    return sql.table_is(writer.target.database, writer.target.table)


def _is_truncated(writer: Writer, last: LastLoaded) -> bool:
    """Tell whether the log of a server has a TRUNCATE of the table since rows were loaded last."""
    if _may_hold(writer, last):
        return False
    at = writer.target
    # The log has names in quotes where they need some, as a keyword does in some versions.
    names = [f"{database}.{table}" for database in (at.database, sql.name(at.database))
             for table in (at.table, sql.name(at.table))]  # fmt: skip
    try:
        found = writer.engine.ask(
            f"SELECT 1 FROM system.query_log WHERE event_date >= toDate({quote(last.at)}, 'UTC') - "
            f"1 AND event_time_microseconds > toDateTime64({quote(last.at)}, 3, 'UTC') AND "
            "type = 'QueryFinish' AND query_kind = 'Drop' AND "
            f"hasAny(tables, [{quoted_list(names)}]) AND match(query, {quote(_TRUNCATE)}) LIMIT 1 "
            f"SETTINGS max_execution_time = {_LOG_SECONDS}"
        )
    except RowfallError as error:
        if error.transient:
            raise
        return False  # there is no log, or it may not be read, or it is too long
    return bool(found)


def _may_hold(writer: Writer, last: LastLoaded) -> bool:
    """Tell whether the table may hold rows of the load that came last, by the numbers of parts.

    Its rows got numbers above those that were there when it was counted, and rows that come behind
    a TRUNCATE higher ones.
    """
    into = (writer.target.database, writer.target.table)
    moves = [
        move for move in last.moves
        if (move.database, move.table) == into and move.node in ("", writer.node)
    ]  # fmt: skip
    if not moves:
        return True  # it has brought nothing here, or nobody knows the numbers any more
    lowest = dict(writer.engine.ask(
        f"SELECT partition_id, min(min_block_number) FROM system.parts WHERE {_of(writer)} AND "
        "active AND rows > 0 GROUP BY partition_id"
    ))  # fmt: skip
    return any(
        int(lowest[move.partition_id]) <= move.highest_block + 1
        for move in moves
        if move.partition_id in lowest
    )


def _waits_for_parts(writer: Writer) -> bool:
    """Tell whether a replica may get rows that others have: it has not read or fetched all.

    True as well where the user may not see it.
    """
    engine: Engine = writer.engine
    try:
        rows = engine.ask(
            # Both are 0 while nothing has been written into any replica.
            "SELECT is_readonly OR is_session_expired OR queue_size > 0 OR (log_pointer <= "
            f"log_max_index AND log_max_index > 0) FROM system.replicas WHERE {_of(writer)}"
        )
    except RowfallError as error:
        if error.code not in (ACCESS_DENIED, UNKNOWN_TABLE):
            raise
        return bool(engine.ask(
            f"SELECT 1 FROM system.tables WHERE database = {quote(writer.target.database)} AND "
            f"name = {quote(writer.target.table)} AND engine LIKE 'Replicated%'"
        ))  # fmt: skip
    return any(bool(waits) for (waits,) in rows)
