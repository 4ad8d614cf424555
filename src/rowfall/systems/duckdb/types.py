"""Types of DuckDB and ClickHouse, each as the other has them, and SQL between them. Pure."""

from __future__ import annotations

import re
from typing import Any

from rowfall.core import sql as engine_sql
from rowfall.core.patterns import regex
from rowfall.core.sqltext import identifier, literal
from rowfall.core.type_names import Type, in_other_words
from rowfall.sources.databases import or_null

# Of a type of DuckDB (DuckDBPyType.id): as ClickHouse has it, SQL of what is read over {x}, and
# bytes of a value. Arrow has no numbers of 128 bits and no times of a day that a column keeps.
_TEXT = "{x}::VARCHAR"
# An element, by a name that is no column's: DuckDB would take the column.
_E = "_rowfall_element"
# Arrow has no infinity, and would give the highest number. {c}: a literal that names the column.
_FINITE = "CASE WHEN isfinite({x}) IS NOT FALSE THEN {x} ELSE error({c} || {x}::VARCHAR) END"
_READ = {
    "boolean": ("Bool", "", 1.0), "tinyint": ("Int8", "", 1.0), "smallint": ("Int16", "", 2.0),
    "integer": ("Int32", "", 4.0), "bigint": ("Int64", "", 8.0), "utinyint": ("UInt8", "", 1.0),
    "usmallint": ("UInt16", "", 2.0), "uinteger": ("UInt32", "", 4.0),
    "ubigint": ("UInt64", "", 8.0), "hugeint": ("Int128", _TEXT, 20.0),
    "uhugeint": ("UInt128", _TEXT, 20.0), "float": ("Float32", "", 4.0),
    "double": ("Float64", "", 8.0), "varchar": ("String", "", 24.0), "blob": ("String", "", 24.0),
    "date": ("Date32", _FINITE, 4.0), "timestamp": ("DateTime64(6, 'UTC')", _FINITE, 8.0),
    "timestamp_s": ("DateTime64(0, 'UTC')", _FINITE, 8.0),
    "timestamp_ms": ("DateTime64(3, 'UTC')", _FINITE, 8.0),
    "timestamp_ns": ("DateTime64(9, 'UTC')", _FINITE, 8.0),
    "timestamp with time zone": ("DateTime64(6, 'UTC')", _FINITE, 8.0),
    "uuid": ("UUID", _TEXT, 16.0), "enum": ("LowCardinality(String)", _TEXT, 2.0),
    **dict.fromkeys(
        ("bignum", "bit", "time", "time_ns", "time with time zone"), ("String", _TEXT, 24.0)
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
    "Dynamic": "JSON",
}  # fmt: skip
# Sent as text: Arrow has no type for them, or the engine writes other bytes.
_AS_TEXT = frozenset((
    "Int128", "Int256", "UInt128", "UInt256", "UUID", "IPv4", "IPv6", "Enum8", "Enum16", "JSON",
    "Variant", "Dynamic", "Time", "Time64",
))  # fmt: skip
_WORD = regex(r"'((?:[^'\\]|\\.)*)'")
_MOST_DIGITS = 38
_SECOND_DIGITS = 6


def read_type(type_: Any, *, nullable: bool) -> tuple[str, str, float] | None:
    """Return type of ClickHouse, SQL of what is read over ``{x}`` and bytes of a value.

    None for a type that has to be cast. "" for SQL is the value itself.

    Args:
        type_: a DuckDBPyType.
    """
    kind = type_.id
    if kind == "decimal":
        (_, precision), (_, scale) = type_.children
        found: tuple[str, str, float] | None = (f"Decimal({precision}, {scale})", "", 16.0)
    elif kind in ("list", "array"):
        inner = read_type(type_.children[0][1], nullable=True)
        if inner is None:
            return None
        sql = f"{{x}}::{type_.children[0][1]}[]" if kind == "array" else ""
        if inner[1]:
            sql = f"list_transform({{x}}, lambda {_E}: {inner[1].replace('{x}', _E)})"
        return f"Array({inner[0]})", sql, 16 + 4 * inner[2]
    elif kind == "map":
        return _read_map(type_)
    elif kind == "struct":
        return _read_struct(type_)
    else:
        found = _READ.get("varchar" if str(type_) == "JSON" else kind)
    if found is None:
        return None
    return (or_null(found[0]) if nullable else found[0]), *found[1:]


def select(name: str, sql: str) -> str:
    """Return what is read of a column, by its name; see :func:`read_type`."""
    own = identifier(name)
    told = literal(f"column {name} holds ")
    return f"{(sql or own).replace('{x}', own).replace('{c}', told)} AS {own}"


def _read_map(type_: Any) -> tuple[str, str, float] | None:
    (_, key_type), (_, value_type) = type_.children
    key, value = read_type(key_type, nullable=False), read_type(value_type, nullable=True)
    if key is None or value is None:
        return None
    sql = ""
    if key[1] or value[1]:
        parts = [
            f"{name} := {(inner[1] or '{x}').replace('{x}', f'{_E}.{name}')}"
            for name, inner in (("key", key), ("value", value))
        ]
        entry = f"struct_pack({', '.join(parts)})"
        sql = f"map_from_entries(list_transform(map_entries({{x}}), lambda {_E}: {entry}))"
    return f"Map({key[0]}, {value[0]})", sql, 16 + 4 * (key[2] + value[2])


def _read_struct(type_: Any) -> tuple[str, str, float] | None:
    names, parts, width, changed = [], [], 0.0, False
    for name, element_type in type_.children:
        inner = read_type(element_type, nullable=True)
        if inner is None:
            return None
        own = f"{{x}}.{identifier(name)}"
        names.append(f"{engine_sql.name(name)} {inner[0]}")
        parts.append(f"{identifier(name)} := {inner[1].replace('{x}', own) or own}")
        width, changed = width + inner[2], changed or bool(inner[1])
    # A NULL stays one.
    sql = f"CASE WHEN {{x}} IS NOT NULL THEN struct_pack({', '.join(parts)}) END" if changed else ""
    return f"Tuple({', '.join(names)})", sql, width


def declared_type(type_: str, *, binary: bool) -> str:
    """Return the type of DuckDB of a new column.

    Args:
        type_: of ClickHouse. ``binary``: its strings are bytes.
    """

    def leaf(found: Type) -> str:
        if found.base == "Decimal" and not _is_wide(found):
            return f"DECIMAL({found.args})"
        if found.base.startswith("DateTime"):
            if found.digits > _SECOND_DIGITS:
                return "TIMESTAMP_NS"
            return "TIMESTAMP WITH TIME ZONE" if "'" in found.args else "TIMESTAMP"
        if found.base.startswith("Enum"):
            words = (re.sub(r"\\(.)", r"\1", word) for word in _WORD.findall(found.args))
            return f"ENUM({', '.join(literal(word) for word in words)})"
        # Any bytes, of which some may be zeros at its end.
        if found.base == "FixedString" or (binary and found.text):
            return "BLOB"
        return _DECLARED.get(found.base, "VARCHAR")

    return in_other_words(type_, leaf, ("%s[]", "MAP(%s, %s)", "STRUCT(%s)"), identifier)


def sent_type(type_: str) -> str:
    """Return the type of ClickHouse as which values are written into Arrow."""

    def leaf(found: Type) -> str:
        sent = found.bare
        if _is_wide(found) or found.base in _AS_TEXT:
            sent = "String"
        elif found.base.startswith("DateTime"):
            sent = f"DateTime64({found.digits}, 'UTC')"
        elif found.base == "BFloat16":
            sent = "Float32"
        return f"Nullable({sent})" if found.nullable else sent

    return in_other_words(type_, leaf, ("Array(%s)", "Map(%s, %s)", "Tuple(%s)"), engine_sql.name)


def _is_wide(found: Type) -> bool:
    return found.base == "Decimal" and int(found.args.partition(",")[0]) > _MOST_DIGITS
