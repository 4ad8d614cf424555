"""The child that computes rows: ``python -m rowfall.systems.duckdb.computed``.

A function may make a value of any length, ``range(200000000)``, and DuckDB does not count it as its
memory. What it reads from a file it counts: rows of a table need no child.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from rowfall.core.machine import limit_memory
from rowfall.core.options import Options
from rowfall.sources.limited_rows import serve
from rowfall.systems.duckdb.client import BATCH_ROWS, READER, driver

_SORTING = 2.5  # to sort 20 million rows takes so many times what DuckDB counts


@contextlib.contextmanager
def _rows(asked: Mapping[str, Any], options: Options, most: int) -> Iterator[Any]:
    file = READER.open(asked["text"], asked["path"], options)
    with file.asking() as cursor:
        cursor.execute(f"SET memory_limit = '{int(most / _SORTING) >> 10}KiB'")
        limit_memory(most)
        with cursor.sql(asked["rows"]).to_arrow_reader(BATCH_ROWS) as reader:
            yield reader


if __name__ == "__main__":
    raise SystemExit(serve(_rows, lambda: driver().OutOfMemoryException))
