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

_READ_BYTES = 1 << 20


class TextBatches:
    """The batches of a stream of Arrow; a text that is not UTF-8 ends it.

    Args:
        rows: the bytes of the stream.
        binary: columns whose strings are bytes.
    """

    def __init__(self, rows: Iterator[bytes], binary: Collection[str]) -> None:
        self._rows, self._binary = rows, frozenset(binary)
        self._failed: BaseException | None = None

    @contextlib.contextmanager
    def reader(self) -> Iterator[pa.RecordBatchReader]:
        """Give a reader for a library that hides what went wrong: it is raised at the end.

        Raises:
            RefusedRowError: a text is not UTF-8. Or what the bytes have met.
        """
        import pyarrow as pa

        file = pa.PythonFile(io.BufferedReader(Pieces(self._pieces()), _READ_BYTES), "r")
        try:
            stream = pa.ipc.open_stream(file)
            schema = pa.schema([
                field.with_type(pa.binary()) if field.name in self._binary else field
                for field in stream.schema
            ])  # fmt: skip
            yield pa.RecordBatchReader.from_batches(schema, self._batches(stream, schema))
        except Exception:
            if self._failed is not None:
                raise self._failed from None
            raise

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
                column.view(pa.binary()) if field.name in self._binary else column
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
