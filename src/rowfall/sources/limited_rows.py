"""Rows that a library makes in a child process whose memory is limited, as a stream of Arrow.

For libraries that do not count all they take as their memory. The child imports the module that
reads them, gets a request as JSON and writes a stream of Arrow; what is wrong goes to stderr as
JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any

from rowfall.core import environment
from rowfall.core.errors import SourceError
from rowfall.core.machine import total_memory
from rowfall.core.options import Options
from rowfall.core.units import memory, parse_size

# Of all memory of a load half: a value is in the child three times, then here, and in the engine.
_SHARE = 2
_LEAST = 384 << 20  # less does not hold the row groups of a thread of DuckDB
_NO_MEMORY = 2
_OPTIONS = ("memory", "threads", "patience", "on_conflict", "query")

Opener = Callable[[Mapping[str, Any], Options, int], AbstractContextManager[Any]]
"""Gives a reader of batches by a request, options of the load, and the bytes that it may take."""


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
def limited_rows(
    library: str, request: Mapping[str, str], text: str, options: Options
) -> Iterator[_Rows]:
    """Give rows that a child makes, as batches of Arrow.

    Args:
        library: the module that has ``computed_rows``, an :data:`Opener`, and ``READER``, which
            knows the library's errors. ``request``: what the first of them gets.
        text: the source, in errors.

    Raises:
        SourceError: they cannot be read, or not within ``--memory``.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment.of_child(),
    )  # fmt: skip
    try:
        assert child.stdin is not None  # noqa: S101 - it is a pipe
        kept = {name: getattr(options, name) for name in _OPTIONS}
        child.stdin.write(json.dumps({**request, "text": text, "options": kept}).encode())
        child.stdin.close()
        child.stdin = None
        yield _Rows(child, text, options)
    finally:
        child.kill()
        child.communicate()


def _serve(opens: Opener, no_memory: Callable[[], type[Exception]]) -> int:
    """Read the request on stdin and write the rows on stdout.

    Returns:
        The exit code.
    """
    asked = json.load(sys.stdin)
    # That of Arrow's own reserves a gigabyte at once, whatever is asked for.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    options = Options(**asked["options"])
    most = parse_size(options.memory) if options.memory else total_memory() // 2
    most = max(_LEAST, most // _SHARE)
    try:
        with opens(asked, options, most) as reader, os.fdopen(1, "wb", closefd=False) as out:
            import pyarrow as pa

            with pa.ipc.new_stream(out, reader.schema) as sink:
                for batch in reader:
                    sink.write_batch(batch)
    except BrokenPipeError:
        return 1
    except SourceError as error:
        if isinstance(error.__cause__, no_memory()):
            return _NO_MEMORY
        json.dump({"error": error.message, "hint": error.hint}, sys.stderr)
        return 1
    except MemoryError:
        return _NO_MEMORY
    return 0


if __name__ == "__main__":
    _library = import_module(sys.argv[1])
    raise SystemExit(_serve(_library.computed_rows, _library.READER.no_memory))
