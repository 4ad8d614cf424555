"""Rows of a source for a program of this process: a load into a stream of Arrow.

The load runs in a thread of its own, and waits whenever its rows are not taken. Its record is made
for it alone and goes with it.
"""

from __future__ import annotations

import atexit
import html
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rowfall.core import extras, units, uri
from rowfall.core.arrow_channel import ArrowChannel
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.events import Event, Listener, LoadPlanned, SplitFailed
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.results import Failure, LoadError, Report
from rowfall.core.signals import stopped_by
from rowfall.run.session import Request, open_session
from rowfall.targets.arrow_stream import TEXT, ArrowStream

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from _typeshed import WriteableBuffer

# An option in a hint, with its value; and what does not concern one who only reads.
_OPTION = regex(r"--([a-z][a-z-]*)[ =]('[^']*'|[\w.:/](?:[\w.:/-]*[\w:/-])?)")
_INTO_TABLE = regex(r"Load (?:it|all files) (?:into a new table )?with (--table NAME |--widen )?")
# An engine that is asked to stop is left after a second.
_END_SECONDS = 5.0


class RowReader:
    """The rows of a source, as a stream of Arrow that is read once.

    polars, DuckDB, pandas, pyarrow and whatever else has the Arrow PyCapsule interface take it as
    it is: ``polars.DataFrame(reader)``. Nothing is read before the first of them asks. As a context
    manager it ends what reads where the block is left.

    Args:
        request: of the load; its target is this reader.
        on_event: hears the load.
    """

    def __init__(self, request: Request, on_event: Listener) -> None:
        self._request, self._on_event = request, on_event
        self._loading: _Loading | None = None
        self._stream: Any = None
        self._schema: Any = None
        self._taken = self._closed = False
        self._opening = threading.RLock()  # two threads may ask for the rows at once

    # --- what others ask --------------------------------------------------------------------------

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the capsule of the stream; whoever takes it gets all rows.

        Args:
            requested_schema: is not followed: the types are those of :attr:`schema`.

        Raises:
            UsageError: the rows have been taken. RowfallError: why they cannot be read.
        """
        capsule: object = self._take().__arrow_c_stream__()
        return capsule

    def __arrow_c_schema__(self) -> object:
        """Return the capsule of the schema; it is read from the source, and no row is taken."""
        capsule: object = self.schema.__arrow_c_schema__()
        return capsule

    @property
    def schema(self) -> Any:
        """Return names and types of the columns, which ``pyarrow.schema`` and others take."""
        if self._schema is None:
            self._opened()
        return self._schema

    def __iter__(self) -> Iterator[Any]:
        """Give the batches of rows, which ``pyarrow.record_batch`` and others take."""
        from nanoarrow import Array

        stream = self._take()
        try:
            while True:
                try:
                    batch = stream.get_next()
                except StopIteration:
                    return
                except Exception as error:
                    raise self._own(error) from None
                yield Array(batch)
        finally:
            stream.release()
            self.close()

    def arrow(self) -> pyarrow.Table:
        """Return all rows as a ``pyarrow.Table``."""
        return self._all("pyarrow", lambda library: library.table(self))

    def df(self) -> pandas.DataFrame:
        """Return all rows as a ``pandas.DataFrame``, which needs pyarrow."""
        frame: pandas.DataFrame = self._all("pandas", lambda p: p.DataFrame.from_arrow(self))
        return frame

    def pl(self) -> polars.DataFrame:
        """Return all rows as a ``polars.DataFrame``."""
        frame: polars.DataFrame = self._all("polars", lambda library: library.DataFrame(self))
        return frame

    def _all(self, name: str, made: Callable[[Any], Any]) -> Any:
        from importlib import import_module

        try:
            library = import_module(name)
        except ImportError as error:
            raise UsageError(
                f"{name} is not installed: {error}", hint=f"Install it, e.g. pip install {name}."
            ) from None
        try:
            return made(library)
        except RowfallError:
            raise
        except Exception as error:
            raise self._own(error) from None

    # --- what it is -------------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Return the number of rows that have been taken so far."""
        return 0 if self._loading is None else self._loading.channel.rows

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return names and types of the columns, in ClickHouse's words."""
        self._opened()
        assert self._loading is not None  # noqa: S101 - as opened
        return self._loading.columns

    @property
    def report(self) -> Report | None:
        """Return the report of the load; None before the last row is taken."""
        return None if self._loading is None else self._loading.report

    @property
    def error(self) -> BaseException | None:
        """Return why the rows have ended early, in full; None where they have not."""
        return None if self._loading is None else self._loading.channel.error

    def __repr__(self) -> str:
        state, lines = self._described()
        width = max((len(name) for name, _ in lines), default=0)
        return "\n".join([state, *(f"  {name:<{width}}  {type_}" for name, type_ in lines)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _described(self) -> tuple[str, list[tuple[str, str]]]:
        asked = self._request.sources
        texts = (asked,) if isinstance(asked, str) else () if callable(asked) else tuple(asked)
        more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
        name = f"rows of {uri.mask(texts[0]) if texts else 'memory'}{more}"
        if self._loading is None:
            return f"{name}: not read yet", []
        count = units.counted(self.rows, "row")
        ended = "" if self.report is None else ", all of them"
        if self.error is not None:
            ended = ", and then an error"
        elif self._closed and not ended:
            ended = ", then closed"
        return f"{name}: {count} taken so far{ended}", self._loading.columns

    # --- its life ---------------------------------------------------------------------------------

    def close(self) -> None:
        """End what reads; safe to call twice, and after the last row."""
        self._closed = True
        self._stream = None
        if self._loading is not None:
            self._loading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> Any:
        with self._opening:
            if self._taken:
                raise UsageError(
                    "the rows of this reader have been taken",
                    hint="Each is read once: call rowfall.read again, or keep what took them.",
                )
            stream = self._opened()
            self._taken, self._stream = True, None
            return stream

    def _opened(self) -> Any:
        """Begin to read, unless that has happened; return the stream."""
        with self._opening:
            return self._stream if self._stream is not None or self._taken else self._begun()

    def _begun(self) -> Any:
        """Begin to read; return the stream."""
        if self._closed:
            raise UsageError("this reader is closed", hint="Call rowfall.read again.")
        try:
            from nanoarrow import Schema, c_array_stream
            from nanoarrow.ipc import InputStream
        except ImportError:
            raise extras.missing(
                "rowfall.read needs nanoarrow, which is not installed", "read"
            ) from None
        self._loading = _Loading(self._request, self._on_event)
        self._loading.start()
        try:
            self._stream = c_array_stream(InputStream.from_readable(_Bytes(self._loading)))
            self._schema = Schema(self._stream.get_schema())
        except Exception as error:
            raise self._own(error) from None
        return self._stream

    def _own(self, error: Exception) -> BaseException:
        """Return the error of the load in place of what a library has made of its text."""
        own = self.error
        self.close()
        if own is None:
            return error
        return own


class _Bytes:
    """The bytes of a stream for a library, which lets go of them when it wants no more.

    Attributes:
        readinto: fills a buffer; an Exception is all that it raises.
    """

    def __init__(self, loading: _Loading) -> None:
        self._loading = loading
        filling = _filling(loading.channel)
        next(filling)
        self.readinto = filling.send

    def __del__(self) -> None:
        self._loading.close()


def _filling(channel: ArrowChannel) -> Generator[int, WriteableBuffer, None]:
    """Fill each buffer that is sent, and give how many bytes are in it.

    nanoarrow takes an exception that is no Exception for the end of the rows, and Ctrl-C raises one
    where a function begins, in front of its first ``try``. A generator goes on inside of it.
    """
    done = 0
    while True:
        try:
            done = channel.readinto((yield done))
        except GeneratorExit:
            return
        except BaseException as error:
            raise RuntimeError(channel.break_off(error)) from None


# Of this process, to be ended before its threads are.
_RUNNING: weakref.WeakSet[_Loading] = weakref.WeakSet()


class _Loading:
    """The load behind a reader.

    Attributes:
        columns: names and types, once it is planned.
        report: None before its end.
    """

    def __init__(self, request: Request, on_event: Listener) -> None:
        self.channel = ArrowChannel()
        self.columns: list[tuple[str, str]] = []
        self.report: Report | None = None
        self._request, self._on_event = request, on_event
        self._thread = threading.Thread(target=self._run, name="rowfall.read", daemon=True)

    def start(self) -> None:
        """Begin."""
        _RUNNING.add(self)
        self._thread.start()

    def close(self) -> None:
        """End it, and wait until its programs have ended."""
        self.channel.close()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_END_SECONDS)

    def _hear(self, event: Event) -> None:
        if isinstance(event, LoadPlanned):
            self.columns = [(c.name, c.type) for c in event.plan.schema.columns]
        elif isinstance(event, SplitFailed):
            self.channel.failed = True
        self._on_event(event)

    def _run(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="rowfall-read-"))
        try:
            with stopped_by(self.channel.stopped):
                self.report = self._load(folder)
            failed = self.report.failures
            self.channel.end(_failure(self.report, failed[0]) if failed else None)
        except BaseException as error:  # for whoever takes the rows
            if isinstance(error, RowfallError) and error.hint:
                error.hint = in_keywords(error.hint)
            self.channel.end(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _load(self, folder: Path) -> Report:
        from rowfall.run.load import run_load

        target = ArrowStream(folder / "read_0.ledger", self.channel)
        request = self._request
        asked = Request(
            request.sources, TEXT, request.table, request.options, began=request.began,
            scratch=target,
        )  # fmt: skip
        with open_session(asked, self._hear, dry=False) as session:
            return run_load(session)


def _failure(report: Report, first: Failure) -> LoadError:
    """Return the error of rows that end early; the message names file, line, column and value."""
    return LoadError(first.error, report, hint=first.hint and in_keywords(first.hint))


def in_keywords(hint: str) -> str:
    """Return a hint with keywords in place of the options of commands; those of pip stay."""

    def keyword(found: re.Match[str]) -> str:
        name, value = found[1].replace("-", "_"), found[2]
        if name not in Options.__annotations__:
            return found[0]
        quoted = value[:1] == "'" or value.isdigit() or value.isupper()
        return f"{name}={value if quoted else repr(value)}"

    return _OPTION.sub(keyword, _INTO_TABLE.sub("Read it with ", hint))


def _end_all() -> None:
    """End what reads before the interpreter ends, which would leave its programs behind."""
    for loading in list(_RUNNING):
        loading.close()


def _forsake_all() -> None:
    """Leave what reads to the process that was forked, which has its threads."""
    for loading in list(_RUNNING):
        loading.channel.forsake()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forsake_all)
