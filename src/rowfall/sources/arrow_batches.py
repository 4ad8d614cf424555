"""Batches of Arrow: the types in which the engine reads them without a loss, and their streams."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import SourceError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

# Version 1, blocks of up to 4 MiB that do not depend on each other, no checksums.
_LZ4_HEAD, _LZ4_END = b"\x04\x22\x4d\x18\x60\x70\x73", b"\0\0\0\0"
_LZ4_MOST, _STORED = 4 << 20, 1 << 31
# Smaller buffers (lengths, null masks, padding) are put together first: one system call for many.
_SMALL = 64 << 10


# --- types ---------------------------------------------------------------------------------------


def readable(schema: pa.Schema) -> pa.Schema:
    """Return the schema that the engine reads without a loss.

    Raises:
        UsageError: a column is of a type that it lacks.
    """
    import pyarrow as pa

    fields = [field.with_type(_type(field.type, field.name)) for field in schema]
    return pa.schema([field.remove_metadata() for field in fields])


def _type(type_: pa.DataType, name: str) -> pa.DataType:
    """Return the type that a column is sent as."""
    import pyarrow as pa

    kind = pa.types
    if isinstance(type_, pa.BaseExtensionType) and type_.extension_name == "pandas.period":
        raise UsageError(
            f"the column {name!r} holds periods, which Arrow keeps as bare numbers",
            hint=f"Make them times or text: frame[{name!r}] = frame[{name!r}].dt.to_timestamp().",
        )
    if isinstance(type_, pa.BaseExtensionType):
        return _type(type_.storage_type, name)
    if kind.is_dictionary(type_):
        return _type(type_.value_type, name)
    if kind.is_run_end_encoded(type_):
        return _type(type_.value_type, name)
    if str(type_) in _VIEWS:
        return {"string_view": pa.large_string(), "binary_view": pa.large_binary()}[str(type_)]
    if kind.is_float16(type_):
        return pa.float32()
    if kind.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    if kind.is_map(type_):
        return pa.map_(_type(type_.key_type, name), _type(type_.item_type, name))
    if kind.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(_type(type_.value_type, name)))
    if kind.is_list(type_) or kind.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_type(type_.value_type, name)))
    if kind.is_struct(type_):
        inner = [type_.field(n) for n in range(type_.num_fields)]
        return pa.struct([field.with_type(_type(field.type, name)) for field in inner])
    if any(
        is_kind(type_)
        for is_kind in (kind.is_null, kind.is_union, kind.is_duration, kind.is_interval)
    ):
        raise UsageError(
            f"the column {name!r} is of the Arrow type {type_}, which no column can keep",
            hint=f"Cast it first, to text or a number, or leave it out: "
            f"table.drop_columns([{name!r}]).",
        )
    return type_


_VIEWS = ("string_view", "binary_view")


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema, empties: bool) -> pa.RecordBatch:
    """Return a batch as it is sent.

    Raises:
        SourceError: a value does not fit, or a list or map is NULL.
    """
    import pyarrow as pa

    columns = []
    for field, column in zip(schema, batch.columns, strict=True):
        found = column
        try:
            if isinstance(found, pa.ExtensionArray):
                found = found.storage
            if pa.types.is_run_end_encoded(found.type):
                import pyarrow.compute as pc

                found = pc.run_end_decode(found)
            if pa.types.is_dictionary(found.type) and str(found.type.value_type) in _VIEWS:
                # pyarrow (26) takes no values of it.
                words = found.dictionary.cast(field.type)
                found = pa.DictionaryArray.from_arrays(found.indices, words)
            if found.type != field.type:
                found = found.cast(field.type)
        except pa.ArrowException as error:
            raise SourceError(f"cannot read the column {field.name!r}: {error}") from error
        if not empties and pa.types.is_nested(field.type):
            _check_nested(found, field.name)
        columns.append(found)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _check_nested(array: pa.Array, name: str) -> None:
    """Check that no list or map is NULL, which no column can keep; a struct may be.

    Raises:
        SourceError: one is.
    """
    import pyarrow as pa

    if not pa.types.is_nested(array.type):
        return
    if pa.types.is_struct(array.type):
        inner = array.drop_null().flatten()  # what a NULL struct hides is not a value
    elif array.null_count:
        raise SourceError(
            f"the column {name!r} holds a NULL of the type {array.type}, and arrays, maps and "
            "tuples cannot be NULL",
            hint="null_lists='empty' stores an empty list or map in its place.",
        )
    elif pa.types.is_map(array.type):
        inner = [array.items]
    else:
        inner = [array.flatten()]
    for part in inner:
        _check_nested(part, name)


# --- streams -------------------------------------------------------------------------------------


def ipc_pieces(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[memoryview]:
    """Give batches as an Arrow IPC stream, buffer by buffer, without a copy of large ones."""
    import pyarrow as pa

    sink = _Sink()
    writer = pa.ipc.new_stream(pa.PythonFile(sink, "w"), schema)
    for batch in batches:
        writer.write_batch(batch)
        yield from sink.take()
    writer.close()
    yield from sink.take()


class _Sink:
    """A file that keeps what is written until it is taken."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[memoryview] = []
        self._small = bytearray()
        self._at = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._at += len(view)
        if len(view) < _SMALL:
            self._small += view
        else:
            self._flush()
            self._pieces.append(view)
        return len(view)

    def take(self) -> list[memoryview]:
        """Return all of it, and forget it."""
        self._flush()
        found, self._pieces = self._pieces, []
        return found

    def _flush(self) -> None:
        if self._small:
            self._pieces.append(memoryview(self._small))
            self._small = bytearray()

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Do nothing: :meth:`take` does."""

    def close(self) -> None:
        """Do nothing: what was written can still be taken."""


def in_frames(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Give the stream inside LZ4 frames that pack nothing."""
    yield _LZ4_HEAD
    for piece in ipc_pieces(schema, iter(batches)):
        for at in range(0, len(piece), _LZ4_MOST):
            block = piece[at : at + _LZ4_MOST]
            yield struct.pack("<I", len(block) | _STORED)
            yield block  # type: ignore[misc] # whoever writes it takes any buffer
    yield _LZ4_END


def rows_in_frames(data: bytes) -> list[list[Any]]:
    """Return the rows of a whole stream inside LZ4 frames, as Python's values."""
    import pyarrow as pa

    with pa.input_stream(pa.py_buffer(data), compression="lz4") as stream:
        table = pa.ipc.open_stream(stream).read_all()
    return [list(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
