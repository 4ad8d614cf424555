"""Rows that DuckDB computes, read in a child: ``python -m rowfall.systems.duckdb.computed``.

A function of a view or query may make a value of any length, ``range(200000000)``, and DuckDB does
not count it as its memory: so such rows are made in a process whose memory is limited. It gets a
request as JSON and writes a stream of Arrow; what is wrong goes to stderr as JSON. Rows of a table
are read without it: what DuckDB reads from a file it counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from rowfall.core.errors import SourceError
from rowfall.core.machine import limit_memory, total_memory
from rowfall.core.options import Options
from rowfall.core.units import memory, parse_size
from rowfall.systems.duckdb.client import BATCH_ROWS, READER, driver

# Of all memory of a load half: a value is in the child three times, then here, and in the engine.
# To sort 20 million rows takes 2.5 times what DuckDB counts as its own.
_SORTING = 2.5
_LEAST = 384 << 20  # less does not hold the row groups of a thread
_NO_MEMORY = 2
_OPTIONS = ("memory", "threads", "patience", "on_conflict", "query")


class _Rows:
    """Batches that a child writes, and their schema."""

    def __init__(self, child: subprocess.Popen[bytes], text: str, options: Options) -> None:
        import pyarrow as pa

        self._child, self._text, self._options = child, text, options
        with self._checked():
            self._reader = pa.ipc.open_stream(pa.PythonFile(child.stdout, "r"))
        self.schema = self._reader.schema

    def __iter__(self) -> Iterator[Any]:
        with self._checked():
            yield from self._reader
        self._check()

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        """Raise what the child says where its stream ends early."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowInvalid, OSError):
            self._check()
            raise

    def _check(self) -> None:
        """Check how the child has ended.

        Raises:
            SourceError: it could not read the rows, or not within its memory.
        """
        _, said = self._child.communicate()
        if self._child.returncode == 0:
            return
        try:
            found: dict[str, Any] = json.loads(said.splitlines()[-1])
        except (ValueError, IndexError):  # without memory a process may end anywhere
            asked = self._options.memory or memory(total_memory() // 2)
            raise SourceError(
                f"cannot read {self._text}: its rows take more than the {asked} of --memory",
                hint="Give more with --memory, or load it by a --query that leaves long values "
                "out.",
            ) from None
        raise SourceError(found["error"], hint=found["hint"])


@contextlib.contextmanager
def computed_rows(path: str, query: str, text: str, options: Options) -> Iterator[_Rows]:
    """Give the rows of a query, as batches of Arrow.

    Args:
        text: the source, in errors.

    Raises:
        SourceError: they cannot be read, or not within ``--memory``.
    """
    kept = {name: getattr(options, name) for name in _OPTIONS}
    child = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert child.stdin is not None  # noqa: S101 - it is a pipe
        request = {"path": path, "query": query, "text": text, "options": kept}
        child.stdin.write(json.dumps(request).encode())
        child.stdin.close()
        child.stdin = None
        yield _Rows(child, text, options)
    finally:
        child.kill()
        child.communicate()


# --- the program ----------------------------------------------------------------------------------


def main() -> int:
    """Read the request on stdin and write the rows on stdout."""
    asked = json.load(sys.stdin)
    # That of Arrow's own reserves a gigabyte at once, whatever is asked for.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    options = Options(**asked["options"])
    file = READER.open(asked["text"], asked["path"], options)
    most = max(_LEAST, (parse_size(options.memory) if options.memory else total_memory() // 2) // 2)
    try:
        with file.asking() as cursor, os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as out:
            cursor.execute(f"SET memory_limit = '{int(most / _SORTING) >> 10}KiB'")
            limit_memory(most)
            import pyarrow as pa

            with (
                cursor.sql(asked["query"]).to_arrow_reader(BATCH_ROWS) as reader,
                pa.ipc.new_stream(out, reader.schema) as sink,
            ):
                for batch in reader:
                    sink.write_batch(batch)
    except BrokenPipeError:
        return 1
    except SourceError as error:
        if isinstance(error.__cause__, driver().OutOfMemoryException):
            return _NO_MEMORY
        json.dump({"error": error.message, "hint": error.hint}, sys.stderr)
        return 1
    except MemoryError:
        return _NO_MEMORY
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
