"""Parquet files of Iceberg tables: their columns get the ids of the table, and its metadata them.

The engine writes no ids of columns. Without them a reader goes by the names, and so does it after
a column was renamed: so the footer is written once more, with ids, behind the data. Only the part
of the footer that describes the columns changes, the rest of it is copied.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_MAGIC = b"PAR1"
_END = 8  # the length of the footer, and PAR1
# Types of the compact protocol of Thrift.
_STOP, _TRUE, _FALSE, _BYTE, _I32, _DOUBLE = 0, 1, 2, 3, 5, 7
_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
# Numbers of fields in FileMetaData and SchemaElement of parquet.thrift.
_SCHEMA = 2
_NAME, _CHILDREN, _CONVERTED, _FIELD_ID, _LOGICAL = 4, 5, 6, 9, 10
# Of the union LogicalType, and of its member for times.
_TIMESTAMP, _ADJUSTED = 8, 1


def row_count(path: Path) -> int:
    """Return the rows of a Parquet file."""
    import pyarrow.parquet as parquet

    return int(parquet.read_metadata(path).num_rows)


def add_ids(path: Path, schema: Schema) -> int:
    """Give the columns of a Parquet file the ids of a table's schema; return its bytes.

    Raises:
        ValueError: it is no Parquet file, or has a column that the table lacks.
    """
    with path.open("r+b") as file:
        file.seek(-_END, os.SEEK_END)
        end = file.read(_END)
        if end[4:] != _MAGIC:
            raise ValueError(f"{path} is no Parquet file")
        (length,) = struct.unpack("<I", end[:4])
        begin = file.seek(-_END - length, os.SEEK_END)
        footer = _with_ids(file.read(length), schema)
        file.seek(begin)
        file.write(footer + struct.pack("<I", len(footer)) + _MAGIC)
        file.truncate()  # what was said of columns of bytes is gone
        return file.tell()


def _with_ids(footer: bytes, schema: Schema) -> bytes:
    reader = _Reader(footer)
    for number, type_ in reader.fields():
        if number != _SCHEMA:
            reader.skip(type_)
            continue
        begin = reader.at
        size, _ = reader.list_head()
        elements = [reader.struct() for _ in range(size)]
        end = reader.at
        places = iter(elements)
        _number_struct(next(places), schema.as_struct().fields, places)
        written = bytearray()
        _write_list_head(written, size)
        for element in elements:
            _write_struct(written, element)
        return footer[:begin] + bytes(written) + footer[end:]
    raise ValueError("its footer has no schema")


# --- which column has which id --------------------------------------------------------------------


def _number_struct(group: _Fields, fields: Any, rest: Iterator[_Fields]) -> None:
    """Number the children of a group, which come behind it one after the other."""
    known = {each.name: each for each in fields}
    for _ in range(group.number(_CHILDREN)):
        element = next(rest)
        name = element.text(_NAME)
        if name not in known:
            raise ValueError(f"the table has no column {name}")
        found = known[name]
        _number(element, found.field_id, found.field_type, rest)


def _number(element: _Fields, id_: int, type_: Any, rest: Iterator[_Fields]) -> None:
    from pyiceberg.types import (
        BinaryType,
        ListType,
        MapType,
        StructType,
        TimestampNanoType,
        TimestampType,
    )

    element.values[_FIELD_ID] = (_I32, id_)
    if isinstance(type_, StructType):
        _number_struct(element, type_.fields, rest)
    elif isinstance(type_, ListType):
        next(rest)  # the repeated group between a list and its elements has no id
        _number(next(rest), type_.element_id, type_.element_type, rest)
    elif isinstance(type_, MapType):
        next(rest)
        _number(next(rest), type_.key_id, type_.key_type, rest)
        _number(next(rest), type_.value_id, type_.value_type, rest)
    elif isinstance(type_, BinaryType):
        # The engine says of all strings that they are UTF-8, and some readers check it.
        for name in (_CONVERTED, _LOGICAL):
            element.values.pop(name, None)
    elif isinstance(type_, TimestampType | TimestampNanoType):
        # The engine writes moments only; this type is a time on no clock in particular.
        logical = element.values.get(_LOGICAL)
        if logical is not None and _TIMESTAMP in logical[1].values:
            logical[1].values[_TIMESTAMP][1].values[_ADJUSTED] = (_FALSE, None)


# --- the compact protocol of Thrift ---------------------------------------------------------------


@dataclass(slots=True)
class _Fields:
    """A struct: (type, value) by the number of the field."""

    values: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def number(self, field_: int) -> int:
        return int(self.values.get(field_, (0, 0))[1])

    def text(self, field_: int) -> str:
        return bytes(self.values[field_][1]).decode()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """Give number and type of each field of a struct; the value is to be read in between."""
        number = 0
        while (head := self._byte()) != _STOP:
            step = head >> 4
            number = number + step if step else self._zigzag()
            yield number, head & 15

    def list_head(self) -> tuple[int, int]:
        head = self._byte()
        size = head >> 4
        return (self._varint() if size == 15 else size), head & 15

    def struct(self) -> _Fields:
        return _Fields({number: (type_, self._value(type_)) for number, type_ in self.fields()})

    def skip(self, type_: int) -> None:
        self._value(type_)

    def _value(self, type_: int) -> Any:
        if type_ in (_TRUE, _FALSE):
            return None
        if type_ == _BYTE:
            return self._byte()
        if type_ == _BINARY:
            size = self._varint()
            self.at += size
            return self._data[self.at - size : self.at]
        if type_ == _DOUBLE:
            self.at += 8
            return self._data[self.at - 8 : self.at]
        if type_ == _STRUCT:
            return self.struct()
        if type_ in (_LIST, _SET):
            size, inner = self.list_head()
            # Booleans of a list have a byte each.
            return inner, [self._byte() if inner <= _FALSE else self._value(inner)
                           for _ in range(size)]  # fmt: skip
        if type_ == _MAP:
            raise ValueError("footers hold no maps")
        return self._zigzag()


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else ~(value << 1))


def _write_list_head(out: bytearray, size: int, type_: int = _STRUCT) -> None:
    if size < 15:
        out.append(size << 4 | type_)
        return
    out.append(15 << 4 | type_)
    _write_varint(out, size)


def _write_struct(out: bytearray, fields: _Fields) -> None:
    before = 0
    for number, (type_, value) in sorted(fields.values.items()):
        step = number - before
        if 0 < step < 16:
            out.append(step << 4 | type_)
        else:
            out.append(type_)
            _write_zigzag(out, number)
        before = number
        _write_value(out, type_, value)
    out.append(_STOP)


def _write_value(out: bytearray, type_: int, value: Any) -> None:
    if type_ in (_TRUE, _FALSE):
        return
    if type_ == _BYTE:
        out.append(value)
    elif type_ == _BINARY:
        _write_varint(out, len(value))
        out += value
    elif type_ == _DOUBLE:
        out += value
    elif type_ == _STRUCT:
        _write_struct(out, value)
    elif type_ in (_LIST, _SET):
        inner, items = value
        _write_list_head(out, len(items), inner)
        for item in items:
            if inner <= _FALSE:
                out.append(item)
            else:
                _write_value(out, inner, item)
    else:
        _write_zigzag(out, value)


# --- what the metadata of the table says of a file ------------------------------------------------


def describe(file: Any, path: str, size: int, metadata: TableMetadata) -> DataFile:
    """Return the manifest entry of a Parquet file: size in bytes, rows, column statistics.

    Args:
        file: what ``pyarrow.parquet.ParquetFile`` opens.
    """
    import pyarrow.parquet as parquet
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    opened = parquet.ParquetFile(file)
    schema = metadata.schema()
    found = data_file_statistics_from_parquet_metadata(
        parquet_metadata=opened.metadata,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=_partition(opened, metadata),
        file_size_in_bytes=size,
        sort_order_id=metadata.default_sort_order_id or None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **found.to_serialized_dict(),
    )


def _partition(opened: Any, metadata: TableMetadata) -> Any:
    """Return the partition of a file: that of its first row, as all rows are of the same."""
    from pyiceberg.partitioning import partition_record_value
    from pyiceberg.typedef import Record

    spec, schema = metadata.spec(), metadata.schema()
    if spec.is_unpartitioned():
        return Record()
    names = {each.source_id: schema.find_column_name(each.source_id) for each in spec.fields}
    row: Mapping[str, Any] = next(
        opened.iter_batches(batch_size=1, row_groups=[0], columns=list(set(names.values())))
    ).to_pylist()[0]
    values = []
    for each in spec.fields:
        value = partition_record_value(each, row[names[each.source_id] or ""], schema)
        values.append(each.transform.transform(schema.find_field(each.source_id).field_type)(value))
    return Record(*values)
