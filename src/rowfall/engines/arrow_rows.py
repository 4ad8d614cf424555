"""Rows that an engine or rowfall-decode writes as a stream of Arrow, for a library."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from rowfall.core.pieces import Pieces
from rowfall.engines.database import RefusedRowError

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import WriteableBuffer

# Longer reads go past the buffer, straight to where pyarrow wants them.
_BUFFER_BYTES = 64 << 10
# Of a stream whose texts rowfall-decode has checked (output/arrow.rs).
_CHECKED = (b"rowfall.text", b"utf-8")


class TextBatches:
    """The batches of a stream of Arrow; a text that is not UTF-8 ends it.

    Args:
        rows: the bytes of the stream, as pieces or as a file.
        binary: columns whose strings are bytes. ``moments``: those whose times have no zone.
    """

    def __init__(
        self, rows: Iterator[bytes], binary: Collection[str], moments: Collection[str]
    ) -> None:
        self._rows, self._binary, self._moments = _Watched(rows), binary, moments
        self._refused: RefusedRowError | None = None

    @contextlib.contextmanager
    def reader(self) -> Iterator[pa.RecordBatchReader | None]:
        """Give a reader to a library that hides the errors of reading; raise them at the end.

        None where there are no rows: the engine writes nothing then.

        Raises:
            RefusedRowError: a text is not UTF-8. Any error of reading the bytes is raised as well.
        """
        import pyarrow as pa

        file = io.BufferedReader(self._rows, _BUFFER_BYTES)
        try:
            if not file.peek(1):
                yield None
                return
            stream = pa.ipc.open_stream(pa.PythonFile(file, "r"))
            schema = pa.schema([field.with_type(self._type(field)) for field in stream.schema])
            yield pa.RecordBatchReader.from_batches(schema, self._batches(stream, schema))
        except Exception:
            if (failed := self._rows.failed or self._refused) is not None:
                raise failed from None
            raise

    def _type(self, field: pa.Field) -> pa.DataType:
        import pyarrow as pa

        if field.name in self._binary:
            return _as_binary(field.type)
        if field.name in self._moments and pa.types.is_timestamp(field.type):
            return pa.timestamp(field.type.unit)
        return field.type

    def _batches(self, stream: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        checked = _CHECKED in (stream.schema.metadata or {}).items()
        for batch in stream:
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for field, column in zip(schema, batch.columns, strict=True)
            ]
            found = pa.RecordBatch.from_arrays(columns, schema=schema)
            try:
                if not checked:
                    found.validate(full=True)
            except pa.ArrowInvalid:
                self._refused = RefusedRowError("a text is not UTF-8", uri="")
                self._refused.no_text = True
                raise
            yield found


class _Watched(io.RawIOBase):
    """The bytes of a stream as a file, which keeps the error that reading has met.

    Attributes:
        failed: the error.
    """

    def __init__(self, rows: Iterator[bytes]) -> None:
        self._file = rows if isinstance(rows, io.RawIOBase) else Pieces(rows)
        self.failed: BaseException | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        try:
            return self._file.readinto(buffer)
        except BaseException as error:
            self.failed = error
            raise


def _as_binary(type_: pa.DataType) -> pa.DataType:
    """Return the type with binary instead of all strings, which is the same data in memory."""
    import pyarrow as pa

    if pa.types.is_map(type_):
        return pa.map_(_as_binary(type_.key_type), _as_binary(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_as_binary(type_.value_type)))
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_as_binary(field.type)) for field in type_])
    return pa.binary() if pa.types.is_string(type_) else type_
