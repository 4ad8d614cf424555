"""Types of DuckDB and ClickHouse, each as the other has them, and SQL between them. Pure."""

from __future__ import annotations

from typing import Any

from rowfall.core import sql as engine_sql
from rowfall.core.sqltext import identifier, literal
from rowfall.core.type_names import SECOND_DIGITS, NestedForms, Type, enum_names, in_other_words
from rowfall.sources.databases import or_null

_TEXT = "VARCHAR"
# Of a type of DuckDB (DuckDBPyType.id): as ClickHouse has it, bytes of a value, and as what it is
# read where Arrow lacks it. Arrow has no numbers of 128 bits, and columns keep no times of a day.
_READ: dict[str, tuple[str, float, str]] = {
    "boolean": ("Bool", 1, ""), "tinyint": ("Int8", 1, ""), "smallint": ("Int16", 2, ""),
    "integer": ("Int32", 4, ""), "bigint": ("Int64", 8, ""), "utinyint": ("UInt8", 1, ""),
    "usmallint": ("UInt16", 2, ""), "uinteger": ("UInt32", 4, ""), "ubigint": ("UInt64", 8, ""),
    "hugeint": ("Int128", 20, _TEXT), "uhugeint": ("UInt128", 20, _TEXT),
    "float": ("Float32", 4, ""), "double": ("Float64", 8, ""), "varchar": ("String", 24, ""),
    "blob": ("String", 24, ""), "date": ("Date32", 4, ""), "uuid": ("UUID", 16, _TEXT),
    "timestamp": ("DateTime64(6, 'UTC')", 8, ""), "timestamp_s": ("DateTime64(0, 'UTC')", 8, ""),
    "timestamp_ms": ("DateTime64(3, 'UTC')", 8, ""),
    "timestamp_ns": ("DateTime64(9, 'UTC')", 8, ""),
    "timestamp with time zone": ("DateTime64(6, 'UTC')", 8, ""),
    "enum": ("LowCardinality(String)", 2, _TEXT),
    **dict.fromkeys(
        ("bignum", "bit", "time", "time_ns", "time with time zone"), ("String", 24, _TEXT)
    ),
}  # fmt: skip
KEYS = frozenset(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"))
"""Types of columns that are cut into ranges."""
_DECLARED = {
    "Bool": "BOOLEAN", "Int8": "TINYINT", "Int16": "SMALLINT", "Int32": "INTEGER",
    "Int64": "BIGINT", "Int128": "HUGEINT", "Int256": "BIGNUM", "UInt8": "UTINYINT",
    "UInt16": "USMALLINT", "UInt32": "UINTEGER", "UInt64": "UBIGINT", "UInt128": "UHUGEINT",
    "UInt256": "BIGNUM", "Float32": "FLOAT", "BFloat16": "FLOAT", "Float64": "DOUBLE",
    "Date": "DATE", "Date32": "DATE", "UUID": "UUID", "JSON": "JSON", "Variant": "JSON",
    "Dynamic": "JSON", "FixedString": "BLOB",
}  # fmt: skip
_MOST_DIGITS = 38
_NESTED = {"list": "Array", "array": "Array", "map": "Map", "struct": "Tuple"}
_FORMS = NestedForms("%s[]", "MAP(%s, %s)", "STRUCT(%s)", identifier)


def read_type(type_: Any, *, nullable: bool) -> tuple[str, float, str] | None:
    """Return type of ClickHouse, bytes of a value, and the type of DuckDB as which it is read; None
    for a type that has to be cast."""
    kind = type_.id
    if kind == "decimal":
        digits = "{}, {}".format(*(number for _, number in type_.children))
        found: tuple[str, float, str] | None = (f"Decimal({digits})", 16, "")
    elif kind in _NESTED:
        return _read_nested(type_, _NESTED[kind])
    else:
        found = _READ.get("varchar" if str(type_) == "JSON" else kind)
    if found is None:
        return None
    return or_null(found[0]) if nullable else found[0], found[1], found[2] or str(type_)


def _read_nested(type_: Any, base: str) -> tuple[str, float, str] | None:
    children = type_.children[: 1 if type_.id == "array" else None]  # behind it is its length
    inner = [read_type(t, nullable=name != "key") for name, t in children]
    parts = [part for part in inner if part is not None]
    if len(parts) < len(inner):
        return None
    types, widths, reads = zip(*parts, strict=True)
    names = [name for name, _ in children]
    width = 16 + 4 * sum(widths)
    return engine_sql.NESTED.of(base, types, names), width, _FORMS.of(base, reads, names)


def select(name: str, type_: Any, read: str) -> str:
    """Return SQL of what is read of a column as a type of DuckDB, by its name."""
    own = identifier(name)
    if read != str(type_) and str(type_) != "JSON":
        return f"{own}::{read} AS {own}"
    if type_.id == "date" or type_.id.startswith("timestamp"):
        # Arrow has no infinity, and would give the highest number.
        told = literal(f"column {name} holds ")
        finite = f"isfinite({own}) IS NOT FALSE"
        return f"CASE WHEN {finite} THEN {own} ELSE error({told} || {own}::VARCHAR) END AS {own}"
    return own


def declared_type(type_: str, *, binary: bool) -> str:
    """Return the type of DuckDB for one of ClickHouse; ``binary``: its strings are bytes."""

    def leaf(found: Type) -> str:
        if found.base == "Decimal" and int(found.args.partition(",")[0]) <= _MOST_DIGITS:
            return f"DECIMAL({found.args})"
        if found.base.startswith("DateTime"):
            if found.digits > SECOND_DIGITS:
                return "TIMESTAMP_NS"
            return "TIMESTAMP WITH TIME ZONE" if "'" in found.args else "TIMESTAMP"
        if found.base.startswith("Enum"):
            return f"ENUM({', '.join(map(literal, enum_names(found.args)))})"
        return "BLOB" if binary and found.text else _DECLARED.get(found.base, "VARCHAR")

    return in_other_words(type_, leaf, _FORMS)
