"""Types of MySQL and MariaDB: what a column becomes in ClickHouse, and which text it takes.

The server itself joins the fields of a row: one expression for each column gives its text, so that
of each row one value comes back. Whatever a reader of the engine cannot take apart (zero dates,
floats of six digits) is written so that it can. Between the fields are bytes that no text in UTF-8
holds (:class:`Marks`); only where some column holds any bytes does the server escape what has a
meaning in TSV, for which it needs two to four times as much CPU for a text. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError
from rowfall.core.patterns import regex
from rowfall.core.sql import literal
from rowfall.sources.key_ranges import (
    SourceColumn,
)
from rowfall.systems.mysql.catalogue import BLOBS, TEXTS, DecimalDigits, MySQLColumn
from rowfall.systems.mysql.client import name, quote

_INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 32, "int": 32, "integer": 32, "bigint": 64}
_SHAPES = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
    "geometrycollection", "geomcollection", "geography", "geographypoint",
})  # fmt: skip
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii"})
# What stands for itself in a line of TSV is a backslash and a letter.
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
# FixedString pads with zero bytes as BINARY does; more than some bytes are no id or digest.
_FIXED_MOST = 256
_MEMBER = regex(r"'((?:[^']|'')*)'")
# As servers write them in a type, with the sql_mode of our sessions.
_ESCAPED, _CONTROLS = regex(r"\\(.)"), {"0": "\0", "n": "\n", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Marks:
    """Separator, NULL and end of a row, as SQL of the server.

    Attributes:
        end: the same as a byte.
        escaped: fields are those of TSV already.
    """

    between: str
    null: str
    end: bytes
    escaped: bool

    def line(self, fields: Iterable[str]) -> str:
        """Return SQL of a whole row, its end included, by the SQL of its fields."""
        end = f"_binary X'{self.end.hex()}'"
        return f"CONCAT(CONCAT_WS({self.between}, {', '.join(fields)}), {end})"


TSV = Marks("_binary X'09'", "_binary X'5C4E'", b"\n", escaped=True)
# One byte of them stands for one of TSV: NULL is a byte and the letter N.
BYTES = Marks("_binary X'FF'", "_binary X'FE4E'", b"\xfd", escaped=False)


def marks_of(columns: Iterable[MySQLColumn]) -> Marks:
    """Return the marks that no value of some columns holds."""
    return TSV if any(column.bytes for column in columns) else BYTES


def columns_of(
    columns: Sequence[MySQLColumn],
    table: str,
    *,
    query: str = "",
    command: Callable[[str], str] = "--query {}".format,
) -> tuple[SourceColumn, ...]:
    """Return the source columns with their ClickHouse types, and the marks of :func:`marks_of`.

    Args:
        command: that loads a query instead, for errors.
        table: for errors; ``query``: that gives the columns, "" for those of a table.

    Raises:
        SourceError: a column has a type that ClickHouse has no counterpart of; names all of them.
    """
    marks = marks_of(columns)
    found = [column_of(column, marks) for column in columns]
    odd = [column for column, one in zip(columns, found, strict=True) if one is None]
    if odd:
        named = ", ".join(f"{column.name} {column.whole}" for column in odd)
        casts = ", ".join(
            f"{_cast(column)} AS {name(column.name)}" if column in odd else name(column.name)
            for column in columns
        )
        raise SourceError(
            f"{table} has columns of types that ClickHouse has no type for: {named}",
            hint="Convert them in the query."
            if query
            else f"Convert them: {command(f'SELECT {casts} FROM {table}')}",
        )
    return tuple(one for one in found if one is not None)


def _cast(column: MySQLColumn) -> str:
    x = name(column.name)
    return f"ST_AsText({x})" if column.kind in _SHAPES else f"HEX({x})"


def column_of(column: MySQLColumn, marks: Marks) -> SourceColumn | None:
    """Return one column with its ClickHouse type; None where its type has no counterpart."""
    bare = _bare(column, marks)
    if bare is None:
        return None
    type_, text, reason = bare
    if column.kind in ("date", "datetime", "timestamp"):
        # A day or a month of 0 is not a date of ClickHouse, whose readers make 1970 of it. Where
        # there is no NULL, the text goes on as it is, and reading it strictly raises.
        reason += f"; zero dates are {'NULL' if column.nullable else 'refused'}"
    if column.nullable:
        x = name(column.name)
        dated = column.kind in ("date", "datetime", "timestamp")
        text = (
            f"IF(DAYOFMONTH({x}) AND MONTH({x}), {x}, {marks.null})"
            if dated
            else f"IFNULL({text}, {marks.null})"
        )
        type_ = f"Nullable({type_})"
    whole = f"{column.whole}: {reason}"
    return SourceColumn(
        column.name, type_, whole, text, _width(column), _binary(column), bytes=column.bytes
    )


def _binary(column: MySQLColumn) -> str:
    """Return SQL whose value comes in binary, or as plain text where that has no use.

    The server writes texts in the connection's UTF-8, and zeros for dates that are zero.
    """
    kind, x = column.kind, name(column.name)
    if kind == "bit" or (kind in ("decimal", "numeric") and "zerofill" in column.whole):
        return f"{x} + 0"
    return f"CAST({x} AS CHAR)" if kind in ("time", "uuid", "inet4", "inet6") else x


def _width(column: MySQLColumn) -> float:
    """Return about how many bytes a value takes in memory."""
    if column.kind in _INTEGERS:
        return _INTEGERS[column.kind] / 8
    if column.kind in TEXTS or column.kind in BLOBS or column.kind in ("json", "set"):
        return min(max(column.length, 16) / 2, 32.0) + 8
    return float(column.length or 8)


def _bare(column: MySQLColumn, marks: Marks) -> tuple[str, str, str] | None:
    """Return type, SQL of the text and reason of a column that holds no NULL."""
    kind, x = column.kind, name(column.name)
    if kind in _INTEGERS:
        # Zeros in front of what is declared ZEROFILL are no part of the number.
        text = f"{x} + 0" if "zerofill" in column.whole else x
        return f"{'U' if column.unsigned else ''}Int{_INTEGERS[kind]}", text, "as wide as there"
    if kind in ("decimal", "numeric"):
        return (
            f"Decimal({column.decimal.precision}, {column.decimal.scale})",
            _unfilled(column),
            "exact",
        )
    if kind == "float":
        # As it is, it would be printed with six digits.
        return "Float32", f"{x} + 0e0", "all digits are read"
    if kind in ("double", "real"):
        return "Float64", _unfilled(column), "all digits are read"
    if kind == "bit":
        bits = next((n for n in (8, 16, 32, 64) if column.decimal.precision <= n), 64)
        return f"UInt{bits}", f"{x} + 0", "a number"
    if kind in TEXTS or kind == "json":
        why = "bytes" if column.bytes else "JSON text" if kind == "json" else "text"
        return "String", _text(column, marks), why
    if kind == "binary" and 0 < column.length <= _FIXED_MOST:
        return f"FixedString({column.length})", _text(column, marks), "bytes of one length"
    if kind in BLOBS or kind == "binary":
        return "String", _text(column, marks), "bytes"
    if kind == "enum":
        return _enum(column, marks)
    if kind == "set":
        return "String", _text(column, marks), "members with commas between"
    return _time(column)


def _unfilled(column: MySQLColumn) -> str:
    x = name(column.name)
    return f"{x} + 0" if "zerofill" in column.whole else x


def _enum(column: MySQLColumn, marks: Marks) -> tuple[str, str, str]:
    """Return an Enum with the members and numbers of the column's."""
    text = _text(column, marks)
    members = _members(column.whole)
    if not members:
        return "String", text, "its members are not known"
    if "" not in members:
        # What the server wrote for a value that was not a member.
        members = ["", *members]
        numbered = list(enumerate(members))
    else:
        numbered = list(enumerate(members, 1))
    return _enum_type(numbered), text, f"{len(members)} members"


def _members(whole: str) -> list[str]:
    """Return the members of an ENUM as it is declared."""
    return [
        _ESCAPED.sub(lambda one: _CONTROLS.get(one[1], one[1]), found.replace("''", "'"))
        for found in _MEMBER.findall(whole)
    ]


def _enum_type(numbered: Sequence[tuple[int, str]]) -> str:
    bits = 8 if len(numbered) <= 127 else 16
    listed = ", ".join(f"{literal(member)} = {number}" for number, member in numbered)
    return f"Enum{bits}({listed})"


def _time(column: MySQLColumn) -> tuple[str, str, str] | None:
    kind, x, digits = column.kind, name(column.name), column.digits
    if kind == "date":
        return "Date32", x, "a day"
    if kind == "datetime":
        why = "its clock, written down as UTC"
        return f"DateTime64({digits}, 'UTC')", x, why
    if kind == "timestamp":
        # 1970 to 2038, so four bytes hold it.
        type_ = f"DateTime64({digits}, 'UTC')" if digits else "DateTime('UTC')"
        return type_, x, "a moment, read in UTC"
    if kind == "time":
        return "String", x, "up to 838 hours and negative, for which 24.10 has no type"
    if kind == "year":
        return "UInt16", x, "a number"
    if kind == "uuid":
        return "UUID", f"CAST(CAST({x} AS CHAR) AS BINARY)", "the same"
    if kind in ("inet4", "inet6"):
        return f"IPv{kind[-1]}", f"CAST(CAST({x} AS CHAR) AS BINARY)", "the same"
    return None


def _text(column: MySQLColumn, marks: Marks) -> str:
    """Return SQL of a text in UTF-8, as bytes: texts of two collations do not mix."""
    text = name(column.name)
    if not column.bytes and column.charset not in _UTF8:
        text = f"CONVERT({text} USING utf8mb4)"
    text = f"CAST({text} AS BINARY)"
    for plain, escaped in _ESCAPES if marks.escaped else ():
        text = f"REPLACE({text}, {quote(plain)}, {quote(escaped)})"
    return text


def of_result(fields: Iterable[Any]) -> list[MySQLColumn]:
    """Return the columns of a result, as PyMySQL describes them."""
    return [_of_field(one) for one in fields]


# By the number of a type in the protocol.
_CODES = {
    0: "decimal", 1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp",
    8: "bigint", 9: "mediumint", 10: "date", 11: "time", 12: "datetime", 13: "year", 15: "varchar",
    16: "bit", 245: "json", 246: "decimal", 247: "enum", 248: "set", 249: "tinyblob",
    250: "mediumblob", 251: "longblob", 252: "blob", 253: "varchar", 254: "char", 255: "geometry",
    6: "char",
}  # fmt: skip
_NOT_NULL, _UNSIGNED, _ZEROFILL, _ENUM, _SET = 1, 32, 64, 256, 2048
_NO_CHARSET = 63
_FLOATING = 31
"""Digits after the point, of what has no fixed number of them."""


def _of_field(one: Any) -> MySQLColumn:
    kind = _CODES.get(one.type_code, f"type {one.type_code}")
    flags, length = one.flags, one.length
    plain = one.charsetnr == _NO_CHARSET
    if flags & _ENUM or flags & _SET:
        kind = "varchar"  # their members are not told
    elif kind.endswith("blob") and not plain:
        kind = "longtext"
    elif kind == "varchar" and plain:
        kind = "varbinary"
    elif kind == "char" and plain:
        kind = "binary"
    digits = one.scale if one.scale < _FLOATING else 6
    # The width counts a sign and a point.
    precision = length - (one.scale > 0) - (not flags & _UNSIGNED) if kind == "decimal" else length
    signs = (" unsigned" if flags & _UNSIGNED else "") + (" zerofill" if flags & _ZEROFILL else "")
    return MySQLColumn(
        one.name, kind, kind + signs, not flags & _NOT_NULL,
        DecimalDigits(max(1, precision), min(one.scale, _FLOATING)), digits, length, "",
    )  # fmt: skip


# --- columns that take rows -----------------------------------------------------------------------

_DECLARED = regex(r"(\w+)(?:\(([^)]*)\))?")
_NULL = regex(r" (NOT )?NULL\Z")


def taken_column(column: MySQLColumn) -> tuple[str, str, str]:
    """Return name, type of ClickHouse, and where its values come from if a load has none."""
    found = _taken(column)
    if column.nullable:
        found = f"Nullable({found})"
    given = "AUTO_INCREMENT" in column.extra or "INVISIBLE" in column.extra
    given = given or column.default not in (None, "NULL")
    return column.name, found, "MATERIALIZED" if column.computed else "DEFAULT" if given else ""


def declared_type(declared: str) -> str:
    """Return the type of ClickHouse for one that stands in a CREATE TABLE, but for NULL."""
    whole = _NULL.sub("", declared)
    found = _DECLARED.match(whole)
    kind, sizes = (found[1].lower(), found[2]) if found else (whole.lower(), None)
    kind = {"boolean": "tinyint", "json": "longtext"}.get(kind, kind)
    numbers = [int(n) for n in sizes.split(",")] if sizes and kind != "enum" else [0]
    number, scale = (*numbers, 0)[:2]
    whole = whole if kind == "enum" else whole.lower()
    return _taken(MySQLColumn("", kind, whole, False, DecimalDigits(number, scale), number, number))


def _taken(column: MySQLColumn) -> str:
    """Return the type of a column that holds no NULL: the engine refuses what it cannot hold."""
    kind, length = column.kind, column.length
    if kind in _INTEGERS:
        return f"{'U' if 'unsigned' in column.whole else ''}Int{_INTEGERS[kind]}"
    if kind in ("decimal", "numeric"):
        return f"Decimal({column.decimal.precision}, {column.decimal.scale})"
    if kind == "enum":
        return _taken_enum(column.whole)
    if kind == "binary" and 0 < length <= 255:
        return f"FixedString({length})"
    plain = {
        "float": "Float32", "double": "Float64", "real": "Float64", "bit": "UInt64",
        "date": "Date32", "datetime": f"DateTime64({column.digits}, 'UTC')",
        # 1970 to 2038: what is beyond is refused by the server.
        "timestamp": f"DateTime64({column.digits}, 'UTC')",
        "year": "UInt16", "uuid": "UUID", "inet4": "IPv4", "inet6": "IPv6",
    }  # fmt: skip
    return plain.get(kind, "String")


def _taken_enum(whole: str) -> str:
    members = _members(whole)
    if not members:
        return "String"
    return _enum_type(list(enumerate(members, 1)))


def unfit(columns: Sequence[MySQLColumn], column: str) -> str:
    """Return SQL of the engine that is true of values ``{}`` that a column does not hold.

    "" where there is no saying; values that the engine itself refuses are not among them.
    """
    kind, length = next(((one.kind, one.length) for one in columns if one.name == column), ("", 0))
    if kind in ("char", "varchar") and length:
        return f"lengthUTF8(toString({{}})) > {length}"
    if kind in ("binary", "varbinary", "tinytext", "text", "tinyblob", "blob") and length:
        return f"length(toString({{}})) > {length}"
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


def result_column(field: Any) -> tuple[str, str]:
    """Return name and type of a column of a result, as PyMySQL describes it."""
    if field.type_code in _SIGNED:
        kind = f"{'U' if field.flags & _UNSIGNED else ''}Int{_SIGNED[field.type_code]}"
    else:
        kind = {4: "Float32", 5: "Float64"}.get(field.type_code, "String")
    return str(field.name), kind if field.flags & _NOT_NULL else f"Nullable({kind})"


_TSV_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"})


def tsv(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Give rows of a small result as lines of TSV."""
    for row in rows:
        yield ("\t".join(map(_field, row)) + "\n").encode("utf-8", "surrogateescape")


def _field(value: object) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "surrogateescape")
    return str(value).translate(_TSV_ESCAPES)
