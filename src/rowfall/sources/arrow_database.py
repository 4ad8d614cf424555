"""Databases whose drivers give batches of Arrow, whose buffers go into pipes as they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.sources import arrow_batches as arrow
from rowfall.sources.databases import (
    DatabaseAddress,
    DatabaseSource,
)

if TYPE_CHECKING:
    import pyarrow as pa

_ENCODING = Encoding("ArrowStream", "none", Kind.TYPED)


class ArrowDatabaseSource(DatabaseSource):
    """A table or query whose rows come as batches of Arrow."""

    tells_null_lists = True

    def __init__(self, address: DatabaseAddress, options: Options) -> None:
        super().__init__(address, options)
        self._empties = options.null_lists == "empty"

    @abstractmethod
    def read(self, split: Split) -> AbstractContextManager[Any]:
        """Give a reader of the batches of a range: an object with ``schema``, and an iterator.

        Raises:
            SourceError: it cannot be read.
        """

    def encoding(self, listing: Listing) -> Encoding:
        return _ENCODING

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the rows of a range as a stream of Arrow.

        Raises:
            SourceError: they cannot be read, or a list or map is NULL.
        """
        with self.read(split) as reader:
            schema = arrow.readable(reader.schema)
            yield from cast("Iterator[bytes]", arrow.ipc_pieces(schema, self._cast(reader, schema)))

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return the FROM part that reads the splits through pipes, in frames that it can skip."""
        framed = replace(encoding or _ENCODING, compression="lz4")
        openers = [(split.name, partial(self._framed, split)) for split in splits]
        return self._streams.function(openers, framed, structure, packed=False).text

    def _framed(self, split: Split) -> Iterator[bytes]:
        with self.read(split) as reader:
            schema = arrow.readable(reader.schema)
            yield from arrow.in_frames(schema, self._cast(reader, schema))

    def _cast(self, reader: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return (arrow.cast_batch(batch, schema, self._empties) for batch in reader)
