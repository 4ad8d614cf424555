"""Run one statement: stream its result to a file descriptor, or keep it for a program."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rowfall.contracts.destination import Query
from rowfall.core import sql, uri
from rowfall.core.errors import Interrupted, RowfallError, TargetError, UsageError
from rowfall.core.header_line import unique_names
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind, Statement
from rowfall.core.nearest import nearest
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.server_address import ServerAt
from rowfall.core.signals import terminable
from rowfall.core.sqltext import SqlText
from rowfall.destinations import open_destination
from rowfall.destinations.clickhouse.opening import connect
from rowfall.destinations.database import open_database
from rowfall.engines.base import Engine
from rowfall.engines.database import FileTable, Result
from rowfall.ledger import Ledger
from rowfall.sources.pipes import Streams
from rowfall.systems.clickhouse.codes import TABLE_EXISTS, UNKNOWN_TABLE
from rowfall.systems.clickhouse.embedded import QUERY, Embedded, FolderInUseError
from rowfall.systems.clickhouse.snapshot import snapshot
from rowfall.targets.base import STAGING_PREFIX, Target

# Compared with what was typed: 20 ms of difflib.
MOST_TABLES = 2_000
_UNKNOWN = regex(r"Unknown table expression identifier '([^']+)'|[Tt]able (\S+) does not exist")

ARROW = "ArrowStream"
NO_ROWS = "Null"
"""Format of a statement whose rows nobody wants."""
# Settings that keep a statement from writing do not keep it from writing files.
_WRITES_FILE = regex(r"\b(?:OUTFILE|DUMPFILE)\b", re.I)
_SELECT = regex(r"\s*(\(|SELECT\b|WITH\b|FROM\b)", re.I)
# What Arrow has no type for arrives as bare numbers or bytes: a time as seconds, an Enum without
# its names. Dots of JSON(a.b DateTime) are no matter: JSON arrives as text whatever is in it.
_ARROWS = (
    (regex(r"\bDateTime\((?=')"), "DateTime64(0, "),
    (regex(r"\bDateTime\b(?!\()"), "DateTime64(0)"),
    (regex(r"\b(?:Enum8|Enum16)\((?:'(?:\\.|[^'\\])*'|[^')])*\)"), "String"),
    (regex(r"\b(?:IPv4|IPv6|U?Int128|U?Int256)\b"), "String"),
    (regex(r"\bBFloat16\b"), "Float32"),
)


def keep_result(target: Target, text: str, *, write: bool) -> int:
    """Run ``text`` in ``target``; otherwise as :func:`run_query`.

    Returns:
        The descriptor of a file without a name that holds the rows in Arrow's stream format.
    """
    with tempfile.TemporaryFile(prefix="rowfall-query-") as out:
        run_query(target, text, ARROW, write=write, out_fd=out.fileno(), convert=True)
        return os.dup(out.fileno())


def _for_arrow(engine: Engine, text: SqlText) -> SqlText:
    """Return the statement with its columns as types that Arrow has, where that is not so."""
    if not _SELECT.match(str(text)):
        return text
    try:
        columns = engine.ask(SqlText.of("DESCRIBE TABLE (\n", text, "\n)"), lane=1)
    except RowfallError as error:
        if not error.code:  # the engine itself has said nothing
            raise
        return text  # it runs as it is, and the engine says what is wrong with it
    casts = []
    for name, declared, *_ in columns:
        wanted = str(declared)
        for pattern, better in _ARROWS:
            wanted = pattern.sub(better, wanted)
        if wanted != declared:
            column = sql.name(str(name))
            casts.append(f"CAST({column} AS {wanted}) AS {column}")
    if not casts:
        return text
    return SqlText.of(f"SELECT * REPLACE ({', '.join(casts)}) FROM (\n", text, "\n)")


def run_query(
    target: Target, text: str, format: str, *, write: bool, out_fd: int, convert: bool = False
) -> None:
    """Run ``text`` in ``target``; without a folder yet in memory, or, to write, in a new one.

    Args:
        convert: give what Arrow has no type for another one.

    Raises:
        UsageError: the target holds no tables. EngineError: the statement fails.
        BrokenPipeError: nobody reads ``out_fd`` any more.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the statement is not valid UTF-8: {text[error.start - 20 : error.end]!r}",
            hint="Write the character in UTF-8, or as an escape of the string: '\\xFF'",
        ) from None
    if not write and (found := _WRITES_FILE.search(text)):
        raise UsageError(
            f"the statement writes a file ({found[0]}), and it may only read",
            hint="Give --write, or send what is printed into a file: --format CSVWithNames > FILE",
        )
    open_destination(target).query(target, Query(text, format, write, out_fd, convert))


def query_server(target: Target, at: ServerAt, query: Query) -> None:
    """Run a statement in a server, which gives its rows the format."""
    server = connect(at, Options(), target.database)
    # 2: no writes, but settings may change; formats need that.
    settings = {} if query.write or server.readonly else {"readonly": 2}
    statement = query.statement
    if query.convert:
        statement = _for_arrow(server, statement)
    query_id = f"query-{secrets.token_hex(8)}"
    _stream(server, Statement(statement, settings, query_id, query.format), query.out_fd)


def query_folder(target: Target, folder: Path, query: Query) -> None:
    """Run a statement in a data folder; to read, in a copy where a load uses it."""
    if query.write:
        folder.mkdir(parents=True, exist_ok=True)  # what is made in memory is gone at the end
    try:
        _query_folder(folder if folder.is_dir() else None, query)
    except FolderInUseError as error:
        ledger = Ledger(target.ledger_path)
        try:
            if query.write:
                raise _in_use(ledger, error) from None
            with snapshot(folder, ledger.published_attempts) as copy:
                _query_folder(copy, query)
        finally:
            ledger.close()


_QUERY = Split("", "query", "", None)


class _QueryRows(Streams):
    """The rows of a query in another database, which an engine here reads."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self._result = result

    def stream(self, split: Split) -> Iterator[bytes]:
        return self._result.rows

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        encoding = Encoding(self._result.format, self._result.packed, Kind.TEXT)
        # PostgreSQL calls both columns of `count(*), count(DISTINCT id)` count.
        names = unique_names([name for name, _ in self._result.columns])
        types = (type_ for _, type_ in self._result.columns)
        return super().relation(splits, encoding, sql.structure(zip(names, types, strict=True)))


def query_database(target: Target, query: Query) -> None:
    """Run a statement in another database; an engine here gives its rows the format."""
    database = open_database(target, Options())
    out = os.dup(query.out_fd)
    try:
        found = database.result(query.text, write=query.write)
        if found is None:
            return
        if query.format == NO_ROWS:
            for _ in found.rows:
                pass
            return
        rows = _QueryRows(found)
        try:
            text = SqlText.of("SELECT * FROM ", rows.relation([_QUERY], None, ""))
            statement = Statement(text, {}, "query", query.format)
            _stream(Embedded(None, fds=(out,)), statement, out)
            rows.changed([_QUERY])
        finally:
            rows.close()
    finally:
        os.close(out)
        database.close()


def query_files(target: Target, table: FileTable, query: Query) -> None:
    """Run a statement over a table of files, which an engine here reads under its own name.

    Raises:
        UsageError: it is to change something. TargetError: there is no such table.
    """
    if query.write:
        raise UsageError(
            f"{target.text} is only read here",
            hint="Load into it, or change it with its own tools.",
        )
    if not table.table_id():
        raise TargetError(f"there is no table {target.table}", hint=_load_first(target))
    statement, out = query.statement, os.dup(query.out_fd)
    try:
        name = sql.name(uri.lake_name(target.table))
        engine = Embedded(None, fds=(out,), work="/")
        try:
            engine.run(Statement(
                SqlText.of(f"CREATE VIEW {name} AS SELECT * FROM ", table.relation())
            ), lane=1)  # fmt: skip
            engine.run(Statement(SqlText.of("SET readonly = 2")), lane=1)
            if query.convert:
                statement = _for_arrow(engine, statement)
        except BaseException:
            engine.close()
            raise
        _stream(engine, Statement(statement, query_id="query", format=query.format), out)
    finally:
        os.close(out)


def _load_first(target: Target) -> str:
    return f"Load something into it first: rowfall load FILE --to {shlex.quote(target.text)}"


def _in_use(ledger: Ledger, error: FolderInUseError) -> FolderInUseError:
    """Return the error of a folder that is in use, with the load that uses it."""
    for row in ledger.loads("WHERE state = 'running'"):
        if ledger.runs(row):
            since = row.started[:16].replace("T", " ")
            what = f"load {row.id[:8]} of {row.source} runs since {since} UTC"
            return FolderInUseError(f"{error.message}: {what}", hint=error.hint)
    return error


def _query_folder(folder: Path | None, query: Query) -> None:
    # The child uses 0 to 2 itself, so the output gets another number there.
    statement, out = query.statement, os.dup(query.out_fd)
    try:
        engine = Embedded(folder, fds=(out,), work=".", reads="" if query.write else QUERY)
        if not query.write:
            engine.run(Statement(SqlText.of("SET readonly = 2")), lane=1)
        try:
            if query.convert:
                statement = _for_arrow(engine, statement)
            before = _last_blocks(engine) if query.write else {}
        except BaseException:
            engine.close()
            raise
        _stream(engine, Statement(statement, query_id="query", format=query.format), out,
                lambda: _renumber(engine, before))  # fmt: skip
    finally:
        os.close(out)


def _last_blocks(engine: Embedded) -> dict[tuple[str, str], int]:
    """Return the highest block number of each partition, by the UUID of its table."""
    rows = engine.ask(
        "SELECT splitByChar('/', path)[-3], partition_id, toInt64(max(max_block_number)) "
        "FROM system.parts WHERE active GROUP BY 1, 2", lane=1
    )  # fmt: skip
    return {(str(uuid), str(partition)): int(last) for uuid, partition, last in rows}


def _renumber(engine: Embedded, before: Mapping[tuple[str, str], int]) -> None:
    """Write down which partitions have lost their last blocks: new rows get the numbers of those.

    Loads out of the folder know rows by the numbers of their blocks.
    """
    after = _last_blocks(engine) if before else {}
    for (uuid, partition), last in before.items():
        if after.get((uuid, partition), -1) < last:
            engine.renumber(uuid, partition, secrets.token_hex(4))


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


def _stream(
    engine: Engine, statement: Statement, out_fd: int, then: Callable[[], None] | None = None
) -> None:
    try:
        with terminable():
            engine.run(statement, lane=1, out_fd=out_fd)
        if then is not None:
            then()
    except Interrupted:
        if engine.shared:  # the statement would go on without us
            engine.kill(statement.query_id)
        engine.abandon()
        raise
    except RowfallError as error:
        if "Broken pipe" in error.message:
            # `rowfall query ... | head`: the reader has seen enough.
            raise BrokenPipeError from None
        if error.code == TABLE_EXISTS:  # with a load it is the name of an attempt
            error.hint = (
                "rowfall query 'SHOW TABLES' lists the tables; CREATE TABLE IF NOT EXISTS leaves "
                "one that is there as it is, and a load adds rows to it: rowfall load SOURCE..."
            )
        if error.code == UNKNOWN_TABLE:
            error.hint = f"{_nearest_table(engine, error.message)}{error.hint or ''}"
        raise
    finally:
        engine.close()
