"""COPY in binary: what goes around the rows that rowfall-decode writes, and who takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rowfall.core.model import Column
from rowfall.core.type_names import parse_type
from rowfall.engines.database import Binary

FORMAT = "PostgreSQL binary"
"""The rows, as rowfall-decode calls them."""

# A signature, no flags, nothing more; https://www.postgresql.org/docs/current/sql-copy.html.
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"

_INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
_MOST_DIGITS = 6  # of a second
_TEXTS = frozenset({"String", "FixedString", "Enum8", "Enum16"})
# Only what is the same value either way: 0.1 of a Float32 is 0.1 to a double as text, and
# 0.10000000149 as a number; bytes of text are other bytes to bytea.
_TAKES: Mapping[str, frozenset[str]] = {
    "bool": frozenset({"Bool"}), "float4": frozenset({"Float32"}),
    "float8": frozenset({"Float64"}), "date": frozenset({"Date", "Date32"}),
    "timestamp": frozenset({"DateTime", "DateTime64"}),
    "timestamptz": frozenset({"DateTime", "DateTime64"}), "uuid": frozenset({"UUID"}),
    "inet": frozenset({"IPv4", "IPv6"}), "text": _TEXTS, "varchar": _TEXTS, "bpchar": _TEXTS,
    "json": _TEXTS, "jsonb": _TEXTS,
}  # fmt: skip


def takes(name: str, column_type: str) -> bool:
    """Tell whether a column of PostgreSQL takes values of a type in binary.

    The same as ``Field::of`` of rowfall-decode.

    Args:
        name: of the column's type in pg_type.
    """
    type_ = parse_type(column_type)
    signed = not type_.base.startswith("U")
    if name in _INTEGERS:
        return bool(type_.bits) and type_.bits + (0 if signed else 1) <= _INTEGERS[name]
    if name == "numeric":
        return bool(type_.bits) or type_.base == "Decimal"
    return type_.base in _TAKES.get(name, ()) and type_.digits <= _MOST_DIGITS


def binary(columns: Sequence[Column], names: Mapping[str, str]) -> Binary | None:
    """Return how columns are sent; None where one of them can be sent as text only.

    Args:
        names: types of the table's columns in pg_type, by column.
    """
    kinds = tuple(names.get(column.name, "") for column in columns)
    if not all(takes(kind, c.type) for kind, c in zip(kinds, columns, strict=True)):
        return None
    return Binary(FORMAT, names=kinds)


def framed(rows: Iterator[bytes]) -> Iterator[bytes]:
    """Give rows with what COPY expects around them."""
    yield _HEAD
    yield from rows
    yield _END
