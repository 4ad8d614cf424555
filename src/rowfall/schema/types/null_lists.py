"""Finds lists and maps that are NULL in files of Parquet, ORC and Arrow.

The engine's readers of these formats make ``[]`` and ``{}`` of them. rowfall-decode looks at
Parquet and Arrow; what it declines, and ORC, are pyarrow's, which comes with the embedded
engine. Only the lists are read, and of Parquet only row groups whose footers count a NULL.
The engine is asked for these counts: pyarrow's own way to them (``RowGroupMetaData.column``) ends
the process where a footer contradicts itself, by a C++ exception that nobody may catch.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rowfall.core import extras
from rowfall.core.errors import RowfallError
from rowfall.core.formats import ARROW, LAKES
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import elements, parse_type
from rowfall.schema.column_facts import RunSelect
from rowfall.schema.types import parquet_files
from rowfall.sources.base import HasDataFiles, Ranged, Source
from rowfall.stores.objects import ObjectSource

if TYPE_CHECKING:
    import pyarrow as pa
    from _typeshed import WriteableBuffer

FORMATS = frozenset({"Parquet", "ORC", "Arrow", "ArrowStream", *LAKES})
"""Formats whose readers do not tell a NULL list from an empty one."""
# Rows that are looked at together: pyarrow's own batch, some MB of most lists.
_ROWS = 65_536


def holds_lists(type_: str) -> bool:
    """Tell whether a value of a type holds a list or a map."""
    kind = parse_type(type_)
    if kind.base in ("Array", "Map"):
        return True
    return kind.base == "Tuple" and any(map(holds_lists, elements(kind.args)))


def can_be_looked_at(source: Source, encoding: Encoding) -> bool:
    """Tell whether files of a source can be read here in parts, as they are."""
    plain = encoding.compression in ("none", "auto")
    return plain and source.replayable and isinstance(source, Ranged | HasDataFiles)


def null_lists(
    source: Source, split: Split, encoding: Encoding, columns: Sequence[Column], ask: RunSelect
) -> list[str]:
    """Return the columns of a file in which a list or a map is NULL.

    Args:
        columns: those to look at, see :func:`holds_lists`.
        ask: runs a statement in an engine.

    Raises:
        SourceError: the file cannot be read here.
    """
    names = {column.source or column.name: column.name for column in columns}
    owner: Ranged
    if isinstance(source, HasDataFiles):
        owner, split, renamed = source.in_file(split)
        names = {renamed[n]: own for n, own in names.items() if n in renamed}
    elif isinstance(source, Ranged):
        owner = source
    else:
        return []
    kind = "Parquet" if encoding.format in LAKES else encoding.format
    if kind == "Parquet" or kind in ARROW:
        plain = Encoding(kind, "none", Kind.TYPED)
        told = parquet_files.null_lists(owner, split, plain, list(names))
        if told is not None:
            return sorted(names[name] for name in told)
    try:
        import pyarrow as pa
    except ImportError:
        what = f"lists and maps of {kind} are looked at by pyarrow, which is not installed"
        raise extras.missing(what, "arrow") from None
    counted = _paths_with_nulls(owner, split, ask) if kind == "Parquet" else None
    try:
        with as_file(owner, split) as file:
            arrays = _arrays(file, kind, list(names), counted)
            return sorted({names[name] for name, array in arrays if _has_null(array)})
    except RowfallError:
        raise
    except (pa.ArrowException, OSError, ValueError):
        return []  # broken, encrypted or of a kind that pyarrow does not know: its reader says so


def _paths_with_nulls(owner: Ranged, split: Split, ask: RunSelect) -> list[list[str]] | None:
    """Return the leaves of each row group whose footer does not exclude a NULL; None if unknown."""
    metadata = Encoding("ParquetMetadata", "none", Kind.TYPED)
    if not isinstance(owner, ObjectSource):
        return None
    counts = "ifNull(tupleElement(tupleElement(c, 'statistics'), 'null_count'), 1) != 0"
    query = SqlText.of(
        "SELECT arrayMap(g -> arrayMap(c -> tupleElement(c, 'path'), "
        f"arrayFilter(c -> {counts}, tupleElement(g, 'columns'))), row_groups) FROM ",
        owner.relation([parquet_files.whole_file(split)], metadata, ""),
    )
    with suppress(RowfallError):  # a broken footer: whoever reads the rows says so
        for (groups,) in ask(query, {}):
            return [list(map(str, paths)) for paths in groups]
    return None


def _arrays(
    file: Any, format_: str, names: Sequence[str], counted: Sequence[Sequence[str]] | None
) -> Iterator[tuple[str, pa.Array]]:
    """Give the columns of a file in pieces, but for pieces that are known to hold no NULL."""
    import pyarrow as pa

    if format_ == "Parquet":
        import pyarrow.parquet as parquet

        opened = parquet.ParquetFile(file)
        groups = range(opened.metadata.num_row_groups)
        known = counted if counted is not None and len(counted) == len(groups) else None
        for group in groups:
            wanted = list(names) if known is None else _among(names, known[group])
            if wanted:
                for batch in opened.iter_batches(_ROWS, row_groups=[group], columns=wanted):
                    yield from _named(batch, wanted)
    elif format_ == "ORC":
        import pyarrow.orc as orc

        stripes = orc.ORCFile(file)
        wanted = [name for name in names if name in stripes.schema.names]
        for number in range(stripes.nstripes if wanted else 0):
            yield from _named(stripes.read_stripe(number, columns=wanted), wanted)
    elif format_ == "Arrow":
        batches = pa.ipc.open_file(file)
        for number in range(batches.num_record_batches):
            yield from _named(batches.get_batch(number), names)
    else:
        for batch in pa.ipc.open_stream(file):
            yield from _named(batch, names)


def _named(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, pa.Array]]:
    places = {name: place for place, name in enumerate(batch.schema.names)}
    yield from ((name, batch.column(places[name])) for name in names if name in places)


def _among(names: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Return the columns that some leaves belong to; names with points go by their first part."""
    found = {path.split(".", 1)[0] for path in paths}
    return [name for name in names if name.split(".", 1)[0] in found]


def _has_null(array: pa.Array) -> bool:
    """Tell whether a list or a map of an array is NULL; what a NULL struct hides is not a value."""
    import pyarrow as pa

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not pa.types.is_nested(array.type) or pa.types.is_union(array.type):
        return False
    if pa.types.is_struct(array.type):
        return any(map(_has_null, array.drop_null().flatten()))
    if array.null_count:
        return True
    if pa.types.is_map(array.type):
        return _has_null(array.items.slice(array.offsets[0].as_py()))
    return _has_null(array.flatten())


def as_file(source: Ranged, split: Split) -> Any:
    """Return an object as a file of pyarrow, which is read by its ranges."""
    import pyarrow as pa

    return pa.PythonFile(io.BufferedReader(_Parts(source, split), 1 << 20), "r")


class _Parts(io.RawIOBase):
    """An object as a file, read by its ranges."""

    def __init__(self, source: Ranged, split: Split) -> None:
        self._source, self._split, self._at = source, parquet_files.whole_file(split), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self._at, self._split.size or 0)[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        left = max((self._split.size or 0) - self._at, 0)
        data = self._source.part(self._split, self._at, min(len(view), left)) if left else b""
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
