"""Rows in memory: data frames, Arrow tables and readers, as ``rowfall.load(frame, ...)`` gets them.

Their batches go through named pipes as Arrow IPC, so a reader of any length takes the memory of a
few batches. One batch of the user is one split: it becomes visible as a whole. Of rows that can be
read again rowfall-decode makes parts, through one pipe; what it declines the engine reads.

Measured with 4 million rows of five columns (chDB 26.9, CPU seconds with the insert): chDB's own
``Python()`` in the same process 0.45, two pipes 0.55, files in shared memory 0.7 and twice the
memory. The engine skips padding by seeking in what it takes for a file, which a pipe cannot do; so
the stream is an LZ4 frame of blocks that are stored as they are, which costs a copy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rowfall.core import extras, uri
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.listing import Listing, Split, split_id
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.sources import from_clause, pipes
from rowfall.sources.arrow_batches import cast_batch, in_frames, ipc_pieces, readable
from rowfall.stores import files

if TYPE_CHECKING:
    import pyarrow as pa

SCHEME = "arrow"
# Rows of a batch: the engine inserts blocks of its own size, which it puts together itself.
_ROWS = 1 << 16
# Of the sample, in pieces from all over a table.
_SAMPLE, _PIECES = 20_000, 8
# Versions of the only object: a batch is known by its name alone.
_ALL, _HEAD = "batch", "sample"
_ENCODING = Encoding("ArrowStream", "none", Kind.TYPED)
# Characters of a value that an error shows.
_MOST_SHOWN = 60
_INDEX = regex(r"__index_level_\d+__")


def is_arrow(data: object) -> bool:
    """Tell whether rows can be taken from an object: pandas, polars, pyarrow, and what is alike."""
    kind = type(data)
    module = kind.__module__.partition(".")[0]
    return hasattr(data, "__arrow_c_stream__") or (
        (module, kind.__name__) in {("pandas", "DataFrame"), ("pyarrow", "RecordBatch")}
        or (module == "pyarrow" and hasattr(data, "scanner"))
    )


def open_arrow(texts: Sequence[str], options: Options) -> ArrowStreams:
    """Refuse to open rows by their name: only the process that has them can load them.

    Raises:
        UsageError: always.
    """
    raise UsageError(
        f"the rows of {texts[0]} were handed over in Python, and are not kept",
        hint="Call rowfall.load(frame, table=..., batch_id=...) with them again.",
    )


class ArrowStreams:
    """A source of one split: the rows of one object."""

    remote = False
    replayable = True
    secrets: tuple[Secret, ...] = ()
    fds: tuple[int, ...] = ()
    made: Schema | None = None
    notes: tuple[str, ...] = ()
    tells_null_lists = True

    def __init__(self, rows: _Rows, batch: str, options: Options) -> None:
        self.text = f"{SCHEME}://{uri.encode(batch, '') or uuid.uuid4().hex}"
        self._rows = rows
        self._pipes = pipes.Pipes(self)
        self._names: list[str] = []
        self._folder = ""
        # As many streams as the engine inserts at once.
        self._threads = options.threads or min(8, os.cpu_count() or 1)

    def listing(self) -> Listing:
        listing = Listing()
        listing.add(self.text, _ALL, self._rows.size)
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        return _ENCODING

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        size = os.path.getsize(self._sample())
        return [Split(split_id(self.text, _HEAD, None, None, ""), self.text, _HEAD, size)]

    def bytes_columns(self) -> frozenset[str]:
        from pyarrow import types

        kinds = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
        fields = ((field.name, field.type) for field in self._rows.schema)
        return frozenset(name for name, type_ in fields if any(is_(type_) for is_ in kinds))

    def _sample(self) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="rowfall-arrow-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            with open(os.path.join(self._folder, "sample"), "wb") as file:
                for piece in ipc_pieces(self._rows.schema, self._rows.sample()):
                    file.write(piece)
        return os.path.join(self._folder, "sample")

    def sample_file(self, split: Split, encoding: Encoding) -> tuple[str, Encoding]:
        return self._sample(), encoding

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return ``file([...])`` over pipes that share the batches; of the sample an ordinary file.

        Raises:
            SourceError: nothing can be written to the temp folder.
        """
        (split,) = splits
        if not structure or split.version == _HEAD:
            return files.relation([self._sample()], encoding, structure)
        shared = _Shared(self._rows.batches)
        self._names = [f"{self.text}#{number}" for number in range(self._threads)]
        opener = partial(in_frames, self._rows.schema, shared)
        stored = replace(encoding or _ENCODING, compression="lz4")
        objects = [(name, opener) for name in self._names]
        function = self._pipes.function(objects, stored, structure, packed=False)
        return from_clause.joined([function], structure)

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return the split if reading it broke off: who read the pipe saw only an end."""
        for name in self._names:
            if (why := self._pipes.broken(name)) is not None:
                return [(split, why) for split in splits]
        return []


class ArrowTable(ArrowStreams):
    """Rows that can be read again: a :class:`rowfall.sources.base.Streamed` source, too."""

    def stream(self, split: Split) -> Iterator[bytes]:
        return cast("Iterator[bytes]", ipc_pieces(self._rows.schema, self._rows.batches()))

    def pipes(self, splits: Sequence[Split]) -> list[str]:
        self._names = [split.uri for split in splits]
        return self._pipes.open([(split.uri, partial(self.stream, split)) for split in splits])

    def close(self) -> None:
        self._pipes.close()


def arrow_rows(data: object, batch: str, options: Options) -> ArrowStreams:
    """Return the source of the rows of an object.

    Args:
        batch: what the user calls these rows; another object by the same name is not loaded. ""
            for rows that are loaded whatever was loaded before.
    """
    if options.format or options.compression:
        raise UsageError("rows in memory have no format", hint="Leave out --format.")
    rows = _open(data)
    rows.empties = options.null_lists == "empty"
    return (ArrowTable if rows.again else ArrowStreams)(rows, batch, options)


# --- what the rows are in ------------------------------------------------------------------------


class _Rows:
    """Rows as batches of one schema.

    Attributes:
        schema: as the engine reads it.
        size: bytes in memory, None where unknown.
        again: they can be read more than once.
        empties: lists and maps that are NULL are taken as empty ones.
    """

    def __init__(
        self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]],
        sample: Callable[[], Iterator[pa.RecordBatch]], size: int | None, *, again: bool = True,
    ) -> None:  # fmt: skip
        _check_names(schema.names)
        if not schema.names:
            raise UsageError("the rows have no columns", hint="Check what makes them.")
        self.schema = readable(schema)
        self.size, self.again, self.empties = size, again, False
        self._batches, self._some = batches, sample

    def batches(self) -> Iterator[pa.RecordBatch]:
        return (cast_batch(b, self.schema, self.empties) for b in self._batches())

    def sample(self) -> Iterator[pa.RecordBatch]:
        return (cast_batch(b, self.schema, self.empties) for b in self._some())


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(
            f"several columns are named {twice[0]!r}", hint="Rename them: a table has one each."
        )


def _open(data: Any) -> _Rows:
    try:
        import pyarrow as pa
    except ImportError:
        raise extras.missing(
            "rows in memory are read with pyarrow, which is not installed", "arrow"
        ) from None
    if type(data).__module__.partition(".")[0] == "pandas":
        if not hasattr(data, "columns"):  # one column alone
            data = data.to_frame("value" if data.name is None else data.name)
        _check_names([str(name) for name in data.columns])
        # A named index is data; what pandas numbers rows with is not.
        named = any(name is not None for name in data.index.names)
        try:
            data = pa.Table.from_pandas(data, preserve_index=named)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise _mixed(data, error) from None
        data = data.drop_columns([name for name in data.schema.names if _INDEX.fullmatch(name)])
    elif isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif hasattr(data, "scanner"):  # a data set can be read again
        return _Rows(
            data.schema, lambda: iter(data.to_batches()),
            lambda: iter(data.head(_SAMPLE).to_batches()), None,
        )  # fmt: skip
    elif not isinstance(data, pa.Table):
        if type(data).__module__.partition(".")[0] == "polars":
            data = _of_polars(data)
        if not hasattr(data, "__len__"):
            return _of_reader(pa.RecordBatchReader.from_stream(data))
        data = pa.table(data)
    return _of_table(data)


def _mixed(frame: Any, error: Exception) -> SourceError:
    """Return the error that names column, row and value at which pyarrow has failed."""
    import pyarrow as pa

    for name in frame.columns:
        series = frame[name]
        try:
            pa.Array.from_pandas(series)
            continue
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            pass
        first = None
        for row, value in enumerate(series):
            if value is None or value != value:
                continue
            first = type(value) if first is None else first
            number = isinstance(value, int) and not isinstance(value, bool)
            why = ""
            if number and not -(1 << 63) <= value < 1 << 63:
                why = "a number of more than 63 bits among objects"
            elif type(value) is not first:
                why = f"of the type {type(value).__name__}, and others are {first.__name__}"
            elif not _is_known(value):
                why = f"of the type {type(value).__name__}, which Arrow lacks"
            if why:
                return SourceError(
                    f"cannot read the column {name!r}: row {row + 1} is {_shown(value)}, {why}",
                    hint=f"Make them one type: frame[{name!r}] = frame[{name!r}].astype(str)"
                    + (f", and type={{{name!r}: 'Int256'}} where it is loaded." if number else "."),
                )
        return SourceError(
            f"cannot read the column {name!r} of the type {series.dtype}, which Arrow lacks",
            hint=f"Make it text: frame[{name!r}] = frame[{name!r}].astype(str).",
        )
    return SourceError(f"cannot read the frame: {error}")


def _is_known(value: object) -> bool:
    import pyarrow as pa

    try:
        pa.array([value])
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _of_polars(frame: Any) -> Any:
    """Return a frame of polars as something that pyarrow reads.

    Raises:
        UsageError: it has a column that Arrow lacks.
    """
    import polars as pl

    if isinstance(frame, pl.Series):
        frame = frame.to_frame()
    if not isinstance(frame, pl.DataFrame):
        return frame
    for name, type_ in frame.schema.items():
        # An object would arrive as its address in memory.
        lacks = [word for word in ("Int128", "Object") if word in str(type_)]
        if lacks:
            text = f"frame.with_columns(pl.col({name!r}).cast(pl.String))"
            if lacks == ["Object"]:
                text = f"frame.with_columns(pl.col({name!r}).map_elements(str, pl.String))"
            typed = f", and type={{{name!r}: {str(type_)!r}}} where it is loaded"
            whole = str(type_) in ("Int128", "UInt128")
            raise UsageError(
                f"the column {name!r} is of the polars type {type_}, which Arrow lacks",
                hint=f"Make it text: {text}{typed if whole else ''}.",
            )
    if any("Categorical" in str(type_) or "Enum" in str(type_) for type_ in frame.schema.values()):
        # Of dictionaries of views pyarrow (26) takes no values.
        return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return frame


def _of_table(table: pa.Table) -> _Rows:
    import pyarrow as pa

    def some() -> Iterator[pa.RecordBatch]:
        count = table.num_rows
        for n in range(_PIECES if count > _SAMPLE else 1):
            at, rows = n * count // _PIECES, _SAMPLE // _PIECES if count > _SAMPLE else count
            yield from table.slice(at, rows).to_batches()

    # All values are here: whatever holds no NULL gets a column that takes none.
    fields = [
        field.with_nullable(table.column(n).null_count > 0) for n, field in enumerate(table.schema)
    ]
    schema = pa.schema(fields)
    return _Rows(schema, lambda: iter(table.to_batches(max_chunksize=_ROWS)), some, table.nbytes)


def _of_reader(reader: pa.RecordBatchReader) -> _Rows:
    """Read the first batches for the sample, and all of them once."""
    head: list[pa.RecordBatch] = []
    count = 0
    for batch in reader:
        head.append(batch)
        count += batch.num_rows
        if count >= _SAMPLE:
            break
    begun = False

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal begun
        if begun:
            raise SourceError(
                "a reader can be read once, and this one was read before",
                hint="Call rowfall.load with a new reader, or with a table.",
            )
        begun = True
        while head:
            yield head.pop(0)
        yield from reader

    first = list(head)

    def some() -> Iterator[pa.RecordBatch]:
        found, first[:] = list(first), []
        return iter(found)

    return _Rows(reader.schema, batches, some, None, again=False)


# --- streams -------------------------------------------------------------------------------------


class _Shared:
    """Batches that several streams share: each takes the next one."""

    def __init__(self, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._lock = threading.Lock()
        self._open = batches
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._broken: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            with self._lock:
                if self._broken is not None:
                    raise self._broken
                try:
                    if self._batches is None:
                        self._batches = self._open()
                    batch = next(self._batches, None)
                except Exception as error:  # of whatever makes the rows: for each of the streams
                    self._broken = _described(error)
                    raise self._broken from error
            if batch is None:
                return
            yield batch


def _described(error: Exception) -> Exception:
    if isinstance(error, RowfallError):
        return error
    return SourceError(f"the rows cannot be read: {str(error) or type(error).__name__}")
