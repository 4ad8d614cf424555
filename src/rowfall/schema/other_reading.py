"""Reads files of Parquet, ORC and Arrow by pyarrow, for a comparison with what the engine has read.

A reader that verifies its own work finds no mistake of its own. pyarrow shares no code with the
engine's readers of Parquet and ORC; the rows reach an engine as a stream of Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rowfall.core.errors import SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Schema
from rowfall.core.options import Options
from rowfall.core.type_names import parse_type
from rowfall.schema.types import nested_reading
from rowfall.schema.types.null_lists import as_file
from rowfall.sources.base import Ranged, Source
from rowfall.stores.frames import ArrowStreams, arrow_rows

_FORMATS = frozenset({"Parquet", "ORC"})
# Types that a stream of Arrow has as such, so that both readings mean the same.
_SAME = frozenset({"Bool", "Float32", "Float64", "String", "Date32", "DateTime64", "Decimal"})


def why_not_read_again(source: Source, encoding: Encoding | None, schema: Schema) -> str | None:
    """Return the reason that pyarrow cannot read a load's files again; None where it can."""
    if encoding is None or encoding.format not in _FORMATS:
        return "of this format there is one reader here"
    if encoding.compression not in ("none", "auto") or not isinstance(source, Ranged):
        return "it is not read in parts"
    if schema.projection is not None:
        return "columns are made of others"
    for column in schema.reads:
        for leaf in nested_reading.leaves(column.read_type or column.type):
            if not (leaf.bits in (8, 16, 32, 64) or leaf.base in _SAME):
                return f"{leaf.full} of {column.name} is not a type of Arrow"
        if parse_type(column.read_type or column.type).full.startswith("Nullable(Tuple"):
            return f"{column.name} is a tuple that may be NULL"
    return None


def read_by_pyarrow(source: Source, split: Split, encoding: Encoding) -> ArrowStreams | None:
    """Return the rows of a file as a source of a stream of Arrow; None where its types differ.

    Raises:
        SourceError: pyarrow cannot read the file.
    """
    import pyarrow as pa

    if not isinstance(source, Ranged):
        return None
    file = as_file(source, split)
    try:
        schema, batches = _opened(file, encoding.format)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceError(f"{split.name} is not read by pyarrow: {error}") from error
    if not all(_is_plain(field.type) for field in schema):
        return None
    if split.rows is not None and split.start is not None:
        batches = _cut(batches, split.start, split.rows)
    rows = pa.RecordBatchReader.from_batches(schema, batches)
    # One stream, as the batches come one after the other; its NULL lists were asked about before.
    return arrow_rows(rows, "", Options(threads=1, null_lists="empty"))


def _opened(file: Any, format_: str) -> tuple[Any, Iterator[Any]]:
    if format_ == "Parquet":
        import pyarrow.parquet as parquet

        opened = parquet.ParquetFile(file)
        return opened.schema_arrow, opened.iter_batches()
    import pyarrow.orc as orc

    stripes = orc.ORCFile(file)
    return stripes.schema, (stripes.read_stripe(n) for n in range(stripes.nstripes))


def _cut(batches: Iterator[Any], start: int, count: int) -> Iterator[Any]:
    """Give ``count`` rows from the row ``start`` on."""
    for batch in batches:
        skipped = min(start, batch.num_rows)
        start -= skipped
        taken = batch.slice(skipped, count)
        count -= taken.num_rows
        if taken.num_rows:
            yield taken
        if not count:
            return


def _is_plain(type_: Any) -> bool:
    """Tell whether values of a type of Arrow are the same by both readings."""
    from pyarrow import types

    if types.is_struct(type_):
        return all(_is_plain(type_.field(n).type) for n in range(type_.num_fields))
    if types.is_list(type_) or types.is_large_list(type_):
        return _is_plain(type_.value_type)
    if types.is_map(type_):
        return _is_plain(type_.key_type) and _is_plain(type_.item_type)
    known = (
        types.is_integer, types.is_boolean, types.is_float32, types.is_float64, types.is_string,
        types.is_large_string, types.is_binary, types.is_large_binary, types.is_date32,
        types.is_timestamp, types.is_decimal128, types.is_decimal256,
    )  # fmt: skip
    return any(is_(type_) for is_ in known)
