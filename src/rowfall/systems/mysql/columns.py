"""Columns of MySQL as those of ClickHouse whose text they take, and results as TSV. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rowfall.core.patterns import regex
from rowfall.core.sql import literal

_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 32, "int": 32, "integer": 32, "bigint": 64}
_MEMBER = regex(r"'((?:[^']|'')*)'")
_DECLARED = regex(r"(\w+)(?:\(([^)]*)\))?")
_NULL = regex(r" (NOT )?NULL\Z")
_GENERATED = ("VIRTUAL", "STORED", "PERSISTENT", "GENERATED", "COMPUTED")


BYTES = frozenset({
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob",
})  # fmt: skip
"""Types whose values are bytes, in the words of the catalogue."""


def catalogue_column(row: Sequence[Any]) -> tuple[str, str, str]:
    """Return name, type of ClickHouse, and where its values come from if a load has none.

    Args:
        row: of information_schema.COLUMNS, see ``MySQL.columns`` of the database.
    """
    column, extra, default = str(row[0]), str(row[9] or "").upper(), row[10]
    found = _bare(row)
    if str(row[3]) == "YES":
        found = f"Nullable({found})"
    # DEFAULT_GENERATED is a default of MySQL 8 that is an expression.
    made = any(word in extra.replace("DEFAULT_GENERATED", "").split() for word in _GENERATED)
    given = "AUTO_INCREMENT" in extra or "INVISIBLE" in extra or default not in (None, "NULL")
    return column, found, "MATERIALIZED" if made else "DEFAULT" if given else ""


def declared_type(declared: str) -> str:
    """Return the type of ClickHouse for one that stands in a CREATE TABLE, but for NULL."""
    whole = _NULL.sub("", declared)
    found = _DECLARED.match(whole)
    kind, sizes = (found[1].lower(), found[2]) if found else (whole.lower(), None)
    kind = {"boolean": "tinyint", "json": "longtext"}.get(kind, kind)
    numbers = [int(n) for n in sizes.split(",")] if sizes and kind != "enum" else [0]
    number, scale = (*numbers, 0)[:2]
    whole = whole if kind == "enum" else whole.lower()
    return _bare((None, kind, whole, None, number, scale, number, number, None))


def _bare(row: Sequence[Any]) -> str:
    """Return the type of a column that holds no NULL: the engine refuses what it cannot hold."""
    _, kind, whole, _, precision, scale, digits, length, _, *_ = row
    kind, whole = str(kind).lower(), str(whole)
    if kind in _INTEGERS:
        return f"{'U' if 'unsigned' in whole else ''}Int{_INTEGERS[kind]}"
    if kind in ("decimal", "numeric"):
        return f"Decimal({int(precision)}, {int(scale)})"
    if kind == "enum":
        return _enum(whole)
    if kind == "binary" and 0 < int(length or 0) <= 255:
        return f"FixedString({int(length)})"
    plain = {
        "float": "Float32", "double": "Float64", "real": "Float64", "bit": "UInt64",
        "date": "Date32", "datetime": f"DateTime64({int(digits or 0)}, 'UTC')",
        # 1970 to 2038: what is beyond is refused by the server.
        "timestamp": f"DateTime64({int(digits or 0)}, 'UTC')",
        "year": "UInt16", "uuid": "UUID", "inet4": "IPv4", "inet6": "IPv6",
    }  # fmt: skip
    return plain.get(kind, "String")


def _enum(whole: str) -> str:
    members = [found.replace("''", "'") for found in _MEMBER.findall(whole)]
    if not members:
        return "String"
    bits = 8 if len(members) <= 127 else 16
    listed = ", ".join(f"{literal(member)} = {at}" for at, member in enumerate(members, 1))
    return f"Enum{bits}({listed})"


def unfit(columns: Sequence[Sequence[Any]], column: str) -> str:
    """Return SQL of the engine that is true of values ``{}`` that a column does not hold.

    "" where there is no saying; values that the engine itself refuses are not among them.

    Args:
        columns: see :func:`catalogue_column`.
    """
    kind, length = next(
        ((str(row[1]).lower(), row[7]) for row in columns if row[0] == column), ("", None)
    )
    if kind in ("char", "varchar") and length:
        return f"lengthUTF8(toString({{}})) > {int(length)}"
    if kind in ("binary", "varbinary", "tinytext", "text", "tinyblob", "blob") and length:
        return f"length(toString({{}})) > {int(length)}"
    plain = {
        "timestamp": "toUnixTimestamp64Micro(toDateTime64({}, 6, 'UTC')) "
        "NOT BETWEEN 1 AND 2147483647999999",
        # The greatest one is, as text, beyond what the server takes.
        "float": "(NOT isFinite({}) OR abs({}) > 3.4028234e38)", "double": "NOT isFinite({})",
        "year": "{} NOT BETWEEN 1901 AND 2155 AND {} != 0",
        "json": "NOT isValidJSON(toString({}))",
    }  # fmt: skip
    return plain.get(kind, "")


_SIGNED = {1: 8, 2: 16, 3: 32, 8: 64, 9: 32}
_NOT_NULL, _UNSIGNED = 1, 32


def result_column(field: Any) -> tuple[str, str]:
    """Return name and type of a column of a result, as PyMySQL describes it."""
    if field.type_code in _SIGNED:
        kind = f"{'U' if field.flags & _UNSIGNED else ''}Int{_SIGNED[field.type_code]}"
    else:
        kind = {4: "Float32", 5: "Float64"}.get(field.type_code, "String")
    return str(field.name), kind if field.flags & _NOT_NULL else f"Nullable({kind})"


_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def tsv(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Give rows of a small result as lines of TSV."""
    for row in rows:
        yield ("\t".join(map(_field, row)) + "\n").encode("utf-8", "surrogateescape")


def _field(value: object) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return str(value).translate(_ESCAPES)
