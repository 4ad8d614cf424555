"""Run one statement for ``rowfall query`` and stream its result to a file descriptor."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from rowfall.core.errors import Interrupted, RowfallError, UsageError
from rowfall.core.model import Statement
from rowfall.core.nearest import nearest
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import Engine
from rowfall.engines.codes import UNKNOWN_TABLE
from rowfall.engines.embedded import Embedded, FolderInUseError
from rowfall.engines.snapshot import snapshot
from rowfall.ledger import Ledger
from rowfall.ledger.leases import has_ended
from rowfall.run.session import connect, terminable
from rowfall.targets.base import STAGING_PREFIX, Target

# Compared with what was typed: 20 ms of difflib.
MOST_TABLES = 2_000
_UNKNOWN = re.compile(
    r"Unknown table expression identifier '([^']+)'|[Tt]able (\S+) does not exist"
)


def run_query(target: Target, text: str, format: str, *, write: bool, out_fd: int) -> None:
    """Run ``text`` in ``target``; without a folder yet in memory, or, to write, in a new one.

    Raises:
        UsageError: the target holds no tables. EngineError: the statement fails.
        BrokenPipeError: nobody reads ``out_fd`` any more.
    """
    statement = SqlText.of(text.strip().rstrip(";"))
    if target.server is not None:
        server = connect(target.server, Options(), target.database)
        # 2: no writes, but settings may change; formats need that.
        settings = {} if write or server.readonly else {"readonly": 2}
        query_id = f"query-{secrets.token_hex(8)}"
        _stream(server, Statement(statement, settings, query_id, format), out_fd)
        return
    if target.folder is None:
        raise UsageError(f"{target.text} has no tables to query")
    if write:
        target.folder.mkdir(
            parents=True, exist_ok=True
        )  # what is made in memory is gone at the end
    folder = target.folder if target.folder.is_dir() else None
    try:
        _query_folder(folder, statement, format, write=write, out_fd=out_fd)
    except FolderInUseError as error:
        ledger = Ledger(target.ledger_path)
        try:
            if write:
                raise _in_use(ledger, error) from None
            with snapshot(target.folder, ledger.published_attempts) as copy:
                _query_folder(copy, statement, format, write=False, out_fd=out_fd)
        finally:
            ledger.close()


def _in_use(ledger: Ledger, error: FolderInUseError) -> FolderInUseError:
    """Return the error of a folder that is in use, with the load that uses it."""
    for row in ledger.loads("WHERE state = 'running'"):
        if not has_ended(row.owner):
            since = row.started[:16].replace("T", " ")
            what = f"load {row.id[:8]} of {row.source} runs since {since} UTC"
            return FolderInUseError(f"{error.message}: {what}", hint=error.hint)
    return error


def _query_folder(
    folder: Path | None, statement: SqlText, format: str, *, write: bool, out_fd: int
) -> None:
    # The child uses 0 to 2 itself, so the output gets another number there.
    out = os.dup(out_fd)
    try:
        engine = Embedded(folder, fds=(out,), stay=True)
        if not write:
            engine.run(Statement(SqlText.of("SET readonly = 2")), lane=1)
        _stream(engine, Statement(statement, query_id="query", format=format), out)
    finally:
        os.close(out)


def _nearest_table(engine: Engine, message: str) -> str:
    """Return ``Did you mean TABLE? `` for the error of an unknown table; "" if none is near."""
    named = _UNKNOWN.search(message)
    if named is None:
        return ""
    wanted = (named[1] or named[2]).replace("`", "")
    try:
        rows = engine.ask(
            "SELECT name, database, database = currentDatabase() FROM system.tables WHERE database "
            "NOT IN ('system', 'information_schema', 'INFORMATION_SCHEMA') AND NOT startsWith("
            f"name, '{STAGING_PREFIX}') LIMIT {MOST_TABLES}"
        )
    except RowfallError:  # a right that a query needs not
        return ""
    names = [f"{database}.{name}" for name, database, _ in rows]
    names += [str(name) for name, _, here in rows if here]
    # In another database it has the same name.
    near = nearest(wanted, names) or next(
        (f"{d}.{n}" for n, d, _ in rows if n == wanted.rpartition(".")[2]), None
    )
    return f"Did you mean {near}? " if near else ""


def _stream(engine: Engine, statement: Statement, out_fd: int) -> None:
    try:
        with terminable():
            engine.run(statement, lane=1, out_fd=out_fd)
    except Interrupted:
        if engine.shared:  # the statement would go on without us
            engine.kill(statement.query_id)
        engine.abandon()
        raise
    except RowfallError as error:
        if "Broken pipe" in error.message:
            # `rowfall query ... | head`: the reader has seen enough.
            raise BrokenPipeError from None
        if error.code == UNKNOWN_TABLE:
            error.hint = f"{_nearest_table(engine, error.message)}{error.hint or ''}"
        raise
    finally:
        engine.close()
