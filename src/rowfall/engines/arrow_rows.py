"""Rows that an engine or rowfall-decode writes as a stream of Arrow, for a library."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rowfall.core.pieces import Pieces
from rowfall.engines.database import RefusedRowError

if TYPE_CHECKING:
    import pyarrow as pa

_READ_BYTES = 1 << 20


class TextBatches:
    """The batches of a stream of Arrow; a text that is not UTF-8 ends it.

    Args:
        rows: the bytes of the stream.
        seen_as: ``binary`` for columns whose strings are bytes, ``timestamp`` for those whose
            moments have no zone.
    """

    def __init__(self, rows: Iterator[bytes], seen_as: Mapping[str, str]) -> None:
        self._rows, self._seen_as = rows, seen_as
        self._failed: BaseException | None = None

    @contextlib.contextmanager
    def reader(self) -> Iterator[pa.RecordBatchReader | None]:
        """Give a reader for a library that hides what went wrong: it is raised at the end.

        None where there are no rows: the engine writes nothing then.

        Raises:
            RefusedRowError: a text is not UTF-8. Or what the bytes have met.
        """
        import pyarrow as pa

        file = io.BufferedReader(Pieces(self._pieces()), _READ_BYTES)
        try:
            if not file.peek(1):
                yield None
                return
            stream = pa.ipc.open_stream(pa.PythonFile(file, "r"))
            schema = pa.schema([field.with_type(self._type(field)) for field in stream.schema])
            yield pa.RecordBatchReader.from_batches(schema, self._batches(stream, schema))
        except Exception:
            if self._failed is not None:
                raise self._failed from None
            raise

    def _type(self, field: pa.Field) -> pa.DataType:
        import pyarrow as pa

        wanted, type_ = self._seen_as.get(field.name), field.type
        if wanted == "binary" and pa.types.is_string(type_):
            return pa.binary()
        if wanted == "timestamp" and pa.types.is_timestamp(type_):
            return pa.timestamp(type_.unit)
        return type_

    def _pieces(self) -> Iterator[bytes]:
        try:
            yield from self._rows
        except BaseException as error:
            self._failed = error
            raise

    def _batches(self, stream: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in stream:
            columns = [
                column if column.type == field.type else column.view(field.type)
                for field, column in zip(schema, batch.columns, strict=True)
            ]
            found = pa.RecordBatch.from_arrays(columns, schema=schema)
            try:
                found.validate(full=True)
            except pa.ArrowInvalid:
                self._failed = RefusedRowError("a text is not UTF-8", uri="")
                self._failed.no_text = True
                raise
            yield found
