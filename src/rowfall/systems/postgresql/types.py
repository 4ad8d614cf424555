"""Types of PostgreSQL and ClickHouse, each as the other has them, and SQL of texts. Pure.

COPY writes what a reader of TSV takes but for booleans, arrays and ``bytea``: those a SELECT writes
in its way (docs/guides/databases.md has the types). For rowfall-decode it writes numbers, times and
texts in binary, and of all else that text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column
from rowfall.core.native import NativeType
from rowfall.core.type_names import parse_type
from rowfall.decoder.abilities import writes_postgresql
from rowfall.engines.database import Binary
from rowfall.sources.key_ranges import (
    KeyKind,
)


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of the catalogue, domains resolved.

    Attributes:
        shown: as people write it: ``numeric(10,2)``.
        name: in pg_type; ``kind`` its typtype: b, e (enum), c, r, ...
        modifier: atttypmod; -1 for none.
        element: of an array, ``dims``: of how many dimensions it is declared.
        declared: as any server declares a column of it; "" where it has to be defined first.
    """

    shown: str
    name: str
    kind: str = "b"
    modifier: int = -1
    element: PgType | None = None
    dims: int = 1
    declared: str = ""


_PLAIN = {
    "bool": ("Bool", 1.0), "int2": ("Int16", 2.0), "int4": ("Int32", 4.0), "int8": ("Int64", 8.0),
    "oid": ("UInt32", 4.0), "float4": ("Float32", 4.0), "float8": ("Float64", 8.0),
    "date": ("Date32", 4.0), "uuid": ("UUID", 16.0),
}  # fmt: skip
"""Types whose values are the same in both: as ClickHouse has them, and bytes of a value."""
_TEXT = frozenset((
    "text", "varchar", "bpchar", "char", "name", "citext", "json", "jsonb", "xml", "inet", "cidr",
    "macaddr", "macaddr8", "time", "timetz", "interval", "bit", "varbit",
))  # fmt: skip
# As COPY writes them: a cast to text appends /32 to a host and cuts blanks.
_SHOWN = {"inet": "textin(inet_out({x}))", "bpchar": "textin(bpcharout({x}))"}
# What COPY writes in binary as rowfall-decode takes it, and of texts those whose bytes it writes.
_BINARY = frozenset((
    "bool", "int2", "int4", "int8", "oid", "float4", "float8", "date", "uuid", "numeric",
))  # fmt: skip
_BYTES = frozenset(("text", "varchar", "bpchar", "name", "json"))
# Elements of arrays stand in quotes. COPY as text escapes what else has a meaning in TSV; in binary
# nobody does, and rowfall-decode knows quotes behind a backslash only.
_DOUBLED = "replace({x}, '''', '''''')"
_ESCAPED = "replace(replace({x}, chr(92), chr(92) || chr(92)), '''', chr(92) || '''')"
# Built-in types whose values come as they take them. Enums, citext and the like may not be defined
# in another database; oid names things of one database.
_NATIVE = frozenset((
    "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar",
    "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8", "date", "time", "timetz",
    "timestamp", "timestamptz", "interval", "bit", "varbit", "uuid", "bytea",
))  # fmt: skip
_TEXT_BYTES = 24.0
_MOST_DIGITS = 76
_MOST_DIMS = 2

_DECLARED = {
    "Bool": "boolean", "Int8": "smallint", "UInt8": "smallint", "Int16": "smallint",
    "UInt16": "integer", "Int32": "integer", "UInt32": "bigint", "Int64": "bigint",
    "UInt64": "numeric(20)", "Int128": "numeric(39)", "UInt128": "numeric(39)",
    "Int256": "numeric(77)", "UInt256": "numeric(78)", "Float32": "real", "BFloat16": "real",
    "Float64": "double precision", "Date": "date", "Date32": "date", "UUID": "uuid",
    "IPv4": "inet", "IPv6": "inet", "JSON": "jsonb", "Map": "jsonb", "Tuple": "jsonb",
}  # fmt: skip
NESTED = ("Array", "Map", "Tuple", "Variant", "Dynamic")
STRINGS = ("String", "FixedString")
CLOCKS = ("time", "timetz", "interval")
"""Types whose text only the server reads: it takes 1005 for five past ten, or for seconds."""
# Digits of a second that PostgreSQL keeps.
SECOND_DIGITS = 6
BINARY = "PostgreSQL binary"
"""The rows, as rowfall-decode calls them."""


def map_type(type_: PgType) -> tuple[str, str, float, str] | None:
    """Return type of ClickHouse, SQL of its text over ``{x}``, bytes in memory and a remark.

    None for a type that has to be cast.
    """
    name = type_.name
    if type_.element is not None:
        return _map_array(type_.element, type_.dims)
    if name in _PLAIN:
        found, width = _PLAIN[name]
        return found, "{x}::int" if name == "bool" else "{x}", width, ""
    if type_.kind == "e":
        return "LowCardinality(String)", "{x}", 2.0, "an enum"
    if name == "numeric":
        return _map_numeric(type_.modifier)
    if name in ("timestamp", "timestamptz"):
        found = _moment(type_.modifier)
        if name == "timestamp":
            return found, "{x}", 8.0, "shown as it was written"
        return found, "{x}::timestamp", 8.0, "the same moment, in UTC"
    if name == "bytea":
        return "String", "encode({x}, 'hex')", _TEXT_BYTES, "bytes"  # that have no other text
    if name in _SHOWN:
        return "String", _SHOWN[name], _TEXT_BYTES, "as text"
    if name in _TEXT:
        return "String", "{x}", _TEXT_BYTES, "as text" if name not in ("text", "varchar") else ""
    return None


def native_type(type_: PgType, *, nullable: bool) -> NativeType | None:
    """Return a type as a new column has it; None where its values do not come as it takes them.

    What comes as text is what the server writes, which it reads again. Arrays of two dimensions
    come as JSON, and bytes in arrays as hex digits.
    """
    inner = type_.element
    if inner is None:
        found = type_.declared if type_.name in _NATIVE else ""
        return NativeType(found, type_.name, nullable) if found else None
    if inner.element is not None or type_.dims > 1 or inner.name == "bytea":
        return None
    element = native_type(inner, nullable=True)
    if element is None:
        return None
    return NativeType(f"{element.declared}[]", f"_{element.name}", nullable)


def in_binary(type_: PgType, select: str, name: str) -> tuple[str, str]:
    """Return SQL whose value COPY writes in binary, and the type that rowfall-decode reads.

    Args:
        select: SQL of its text, see :func:`map_type`; all that has no binary form of its own.
        name: the quoted name of the column.
    """
    if type_.element is not None:
        inner = map_type(type_.element)
        select = select if inner is None else _array_text(inner, _ESCAPED)
    elif type_.name in _BINARY:
        return name, type_.name
    elif type_.name in ("timestamp", "timestamptz"):
        return name, "timestamp"  # both count microseconds, the second one those in UTC
    elif type_.name in _BYTES or type_.name == "bytea" or type_.kind == "e":
        return name, "text"  # whose bytes nobody looks at
    return f"({select.replace('{x}', name)})::text", "text"


def _map_numeric(modifier: int) -> tuple[str, str, float, str]:
    if modifier < 0:
        return "String", "{x}", 16.0, "of any precision: as text; --type NAME='Decimal(38, 10)'"
    precision, scale = _digits(modifier)
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > _MOST_DIGITS:
        return "String", "{x}", 16.0, f"more than {_MOST_DIGITS} digits: as text"
    return f"Decimal({precision}, {scale})", "{x}", 4.0 if precision < 10 else 8.0, "exact"


def _map_array(element: PgType, dims: int) -> tuple[str, str, float, str] | None:
    inner = map_type(element)
    if inner is None:
        return None
    type_, _, width, _ = inner
    type_ = "String" if type_.startswith("LowCardinality") else type_
    sql = _array_text(inner, _DOUBLED)
    if dims == _MOST_DIMS:
        return f"Array(Array(Nullable({type_})))", sql, 16 + 8 * width, "not NULL"
    return f"Array(Nullable({type_}))", sql, 16 + 4 * width, "of one dimension, and not NULL"


def _array_text(inner: tuple[str, str, float, str], escaped: str) -> str:
    """Return SQL of the text of an array ``{x}``, whose elements ``inner`` describes.

    Args:
        escaped: SQL of a text ``{x}`` as it may stand in quotes.
    """
    type_, select, _, _ = inner
    value = select.replace("{x}", "e")
    if not type_.startswith(("Int", "UInt", "Float", "Decimal", "Bool")):
        value = "'''' || " + escaped.replace("{x}", f"{value}::text") + " || ''''"
    # As many brackets as a value has dimensions, whatever the column is declared as: the reader
    # says with the row where they are others. What has more than two keeps its braces.
    listed = f"string_agg(coalesce(({value})::text, 'NULL'), ',' ORDER BY n)"
    elements = "unnest({x}) WITH ORDINALITY AS u(e, n)"
    rows = (
        f"SELECT (n - 1) / array_length({{x}}, 2) AS m, '[' || {listed} || ']' AS r "
        f"FROM {elements} GROUP BY 1"
    )
    return (
        f"CASE WHEN array_ndims({{x}}) > {_MOST_DIMS} THEN {{x}}::text "
        f"WHEN array_ndims({{x}}) = {_MOST_DIMS} THEN '[' || (SELECT string_agg(r, ',' ORDER BY m) "
        f"FROM ({rows}) AS w) || ']' "
        f"WHEN {{x}} IS NOT NULL THEN '[' || coalesce((SELECT {listed} FROM {elements}), '') "
        "|| ']' END"
    )


KEYS = {
    "int2": KeyKind.INTEGER, "int4": KeyKind.INTEGER, "int8": KeyKind.INTEGER,
    "date": KeyKind.DAY, "timestamp": KeyKind.MOMENT, "timestamptz": KeyKind.MOMENT,
    "uuid": KeyKind.UUID,
}  # fmt: skip
"""Types by which a table can be cut into ranges."""


# --- columns that take rows -----------------------------------------------------------------------


def read_type(name: str, modifier: int, *, nullable: bool) -> str:
    """Return the type as which values of a type in pg_type are read.

    Text where only the server knows what is a value.
    """
    found, _ = _PLAIN.get(name, ("String", 0.0))
    if name in ("timestamp", "timestamptz"):
        found = _moment(modifier)
    if name == "numeric" and modifier >= 0:
        precision, scale = _digits(modifier)
        if precision <= _MOST_DIGITS and 0 <= scale <= precision:
            found = f"Decimal({precision}, {scale})"
    return f"Nullable({found})" if nullable else found


def taken_type(name: str, modifier: int, *, nullable: bool) -> str:
    """Return the type of ClickHouse whose values a column of a type in pg_type takes."""
    if name.startswith("_"):  # an array, of which any element may be NULL
        # As wide as there is: the server says which element does not fit.
        wide = {"int2": "int8", "int4": "int8", "float4": "float8"}.get(name[1:], name[1:])
        return f"Array({read_type(wide, modifier, nullable=True)})"
    return read_type(name, modifier, nullable=nullable)


def _moment(modifier: int) -> str:
    return f"DateTime64({SECOND_DIGITS if modifier < 0 else modifier}, 'UTC')"


def _digits(modifier: int) -> tuple[int, int]:
    """Return precision and scale of a numeric; negative scales are there since version 15."""
    precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    return precision, scale - 0x800 if scale & 0x400 else scale


def declared_type(column: Column) -> str:
    """Return the type of a column in a new table."""
    type_ = parse_type(column.type)
    if type_.base in ("DateTime", "DateTime32", "DateTime64"):
        zoned = "'" in type_.args
        kind = "timestamptz" if zoned else "timestamp"
        return f"{kind}({min(type_.digits, SECOND_DIGITS)})"
    if type_.base == "Decimal":
        return f"numeric({type_.args})"
    if type_.base == "Array":
        element = parse_type(type_.args)
        if element.base in NESTED:
            return "jsonb"
        return f"{declared_type(Column('', element.full, binary=column.binary))}[]"
    if column.binary and type_.base in STRINGS:
        return "bytea"
    return _DECLARED.get(type_.base, "text")


def takes_binary(name: str, column_type: str) -> bool:
    """Tell whether a column of PostgreSQL takes values of a type in binary.

    Only what is the same value either way: 0.1 of a Float32 is 0.1 to a double as text, and
    0.10000000149 as a number; bytes of text are other bytes to bytea.

    Args:
        name: of the column's type in pg_type.
    """
    return writes_postgresql(name, parse_type(column_type))


def binary_of(columns: Sequence[Column], names: Mapping[str, str]) -> Binary | None:
    """Return the binary encoding of columns; None where one of them can be sent as text only.

    Args:
        names: types of the table's columns in pg_type, by column.
    """
    kinds = tuple(names.get(column.name, "") for column in columns)
    if not all(takes_binary(kind, c.type) for kind, c in zip(kinds, columns, strict=True)):
        return None
    return Binary(BINARY, names=kinds)
