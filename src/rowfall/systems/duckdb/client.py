"""The client: opening a file, names as SQL, and what errors mean."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from rowfall.core import extras
from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.machine import limit_memory, total_memory, usable_cores
from rowfall.core.open_file import OpenFile, open_when_free
from rowfall.core.options import ERROR, Options
from rowfall.core.patterns import regex
from rowfall.core.units import parse_size
from rowfall.sources.file_database import FileReader

ABOUT = (
    "SELECT {} FROM duckdb_{}() WHERE database_name = current_database() AND schema_name = ? "
    "AND {}_name = ? {}"
)
"""Question to the catalogue about a table or view: what, of which list, ``table`` or ``view``."""
UNIQUE = "AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type"
_LISTED = "WHERE database_name = current_database() AND NOT internal AND NOT temporary"
LIST_TABLES = (
    f"SELECT schema_name, table_name, estimated_size, NULL::BIGINT FROM duckdb_tables() {_LISTED} "
    "AND NOT starts_with(table_name, '_rowfall_') ORDER BY 1, 2"
)
LIST_VIEWS = f"SELECT schema_name, view_name, NULL, NULL FROM duckdb_views() {_LISTED} ORDER BY ALL"
ROWS = 122_880
"""Rows of a row group."""
BATCH_ROWS = 8_192
"""Rows of a batch of Arrow, which is in memory as a whole: 82 MB of rows of 10 kB. Small batches
take no more CPU."""
# Of all memory of a load: the engine has the rest. Less does not hold the row groups of a thread.
_SHARE, _LEAST_MEMORY = 4, 128 << 20
_SORTING = 2.5  # to sort 20 million rows takes so many times what DuckDB counts
_HOLDER = regex(r"Conflicting lock is held in (.*?) \(PID (\d+)\)")
_HINTS = (
    ("No such file", "Check the path, and that its folder is there."),
    ("database does not exist", "Check the path."),
    ("different configuration", "It is the source and the target of this load: copy the table in "
     "DuckDB itself, CREATE TABLE new AS FROM old"),
    ("newer version", "Install a newer DuckDB: pip install -U duckdb"),
)  # fmt: skip
_PREFIX = regex(r"\A(?:[A-Z][\w-]* )+Error: ")


def driver() -> ModuleType:
    """Return the driver, through which rows go in and out as Arrow."""
    return extras.driver("DuckDB is not installed", "duckdb", "duckdb", "pyarrow")


def said(error: Exception) -> str:
    """Return the first line of a driver's error, without its prefix and links."""
    text = _PREFIX.sub("", str(error).strip().partition("\n")[0].partition("\x1b")[0])
    return re.sub(r" See also https?://\S+|\. However, you would be able.*", "", text)


def connect(path: str, options: Options, kind: type[RowfallError], *, read_only: bool) -> Any:
    """Open the database in a file.

    Another process that holds the file is waited for as long as ``--patience`` says: DuckDB lets
    one process write, or several read.

    Args:
        kind: of the error.

    Raises:
        RowfallError: it cannot be opened.
    """
    duckdb = driver()
    memory = parse_size(options.memory) if options.memory else total_memory() // 2
    config = {
        "threads": str(options.threads or usable_cores()),
        "memory_limit": f"{max(_LEAST_MEMORY, memory // _SHARE) >> 10}KiB",
        # Row groups that a thread holds: five of 51 columns are a tenth of the CPU in page faults.
        "write_buffer_row_group_count": "1",
        # Rows have an order where one has the key of another; to keep it takes memory.
        "preserve_insertion_order": str(options.on_conflict != ERROR).lower(),
    }
    try:
        connection = open_when_free(
            lambda: duckdb.connect(path, read_only=read_only, config=config),
            lambda error: _HOLDER.search(str(error)), options.patience,
        )  # fmt: skip
        connection.execute("SET TimeZone = 'UTC'")
        return connection
    except duckdb.Error as error:
        if holder := _HOLDER.search(str(error)):
            raise kind(
                f"{path} is held by process {holder[2]} ({os.path.basename(holder[1])}), and "
                "DuckDB lets one process write, or several read",
                hint=f"End it, or wait longer: --patience 10m. What it is: ps -p {holder[2]}",
            ) from None
        hint = next((hint for word, hint in _HINTS if word in str(error)), None)
        raise kind(f"cannot open {path}: {said(error)}", hint=hint) from None


def columns_of(file: OpenFile, query: str) -> dict[str, Any]:
    """Return the columns of a query with their types."""
    with file.asking() as cursor:
        found = cursor.sql(f"{query} LIMIT 0")
        return dict(zip(found.columns, found.types, strict=True))


@contextlib.contextmanager
def computed_rows(asked: Mapping[str, Any], options: Options, most: int) -> Iterator[Any]:
    """Give the rows of a query in a process that has ``most`` bytes of memory.

    A function may make a value of any length, ``range(200000000)``, and DuckDB does not count it as
    its memory. What it reads from a file it counts: rows of a table need no process.
    """
    file = READER.open(asked["text"], asked["path"], options)
    with file.asking() as cursor:
        cursor.execute(f"SET memory_limit = '{int(most / _SORTING) >> 10}KiB'")
        limit_memory(most)
        with cursor.sql(asked["rows"]).to_arrow_reader(BATCH_ROWS) as reader:
            yield reader


READER = FileReader(
    "duckdb", ("schema", "table", "key"),
    lambda path, options: connect(path, options, SourceError, read_only=True),
    lambda: driver().Error, lambda error, path: (said(error), None), "DuckDB",
    no_memory=lambda: driver().OutOfMemoryException,
)  # fmt: skip
