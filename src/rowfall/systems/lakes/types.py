"""Types of Iceberg, Delta and ClickHouse, each as the others have them. Pure.

Types of Iceberg are as its metadata writes them: a word (``long``, ``decimal(9, 2)``), or a mapping
with the key ``type`` (``struct``, ``list``, ``map``). Those of Delta take the same form, with their
own words (``short``, ``timestamp_ntz``), which Iceberg gives no other meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column
from rowfall.core.patterns import regex
from rowfall.core.type_names import Type, arguments, parse_type

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

IcebergType = str | Mapping[str, Any]

UNREADABLE = ""
"""Type of a column that no type of ClickHouse holds."""

_READ = {
    "boolean": "Bool", "int": "Int32", "long": "Int64", "float": "Float32", "double": "Float64",
    "date": "Date32", "timestamp": "DateTime64(6, 'UTC')", "timestamptz": "DateTime64(6, 'UTC')",
    "timestamp_ns": "DateTime64(9, 'UTC')", "timestamptz_ns": "DateTime64(9, 'UTC')",
    "string": "String", "uuid": "UUID", "binary": "String",
    # Of Delta alone.
    "byte": "Int8", "short": "Int16", "integer": "Int32", "timestamp_ntz": "DateTime64(6, 'UTC')",
}  # fmt: skip
_WITH_SIZE = regex(r"(decimal|fixed)[(\[]([\d, ]+)[)\]]")
_MICROSECONDS = 6
_MOST_DIGITS = 38
# What holds every value of the other: Iceberg has no unsigned integers and none below 32 bits.
_WRITTEN: dict[str, tuple[str, str]] = {
    "Bool": ("boolean", "Bool"),
    **dict.fromkeys(("Int8", "Int16", "Int32", "UInt8", "UInt16"), ("int", "Int32")),
    **dict.fromkeys(("UInt32", "Int64"), ("long", "Int64")),
    "UInt64": ("decimal(20, 0)", "Decimal(20, 0)"),
    **dict.fromkeys(("Float32", "BFloat16"), ("float", "Float32")),
    "Float64": ("double", "Float64"),
    "UUID": ("uuid", "UUID"),
    **dict.fromkeys(("Date", "Date32"), ("date", "Date32")),
    **dict.fromkeys(("DateTime", "DateTime32"), ("timestamptz", "DateTime64(6, 'UTC')")),
    **dict.fromkeys(
        ("String", "Enum", "Enum8", "Enum16", "IPv4", "IPv6", "JSON"), ("string", "String")
    ),
}
_FIELD = regex(r"(`(?:[^`\\]|\\.)*`|\w+)\s+(.+)", re.S)


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type of ClickHouse as a table of Iceberg has it.

    Attributes:
        type: of Iceberg, with ids of 0. ``written``: of ClickHouse, as the Parquet file has it.
    """

    type: IcebergType
    written: str
    required: bool


def stored(type_: str, *, binary: bool = False) -> StoredType:
    """Return the type of Iceberg that holds every value of one of ClickHouse.

    Args:
        binary: strings of any bytes, which ``string`` does not hold, are ``binary``.

    Raises:
        ValueError: there is none; the text says why.
    """
    known = parse_type(type_)
    if known.nested:
        return _nested(known, binary=binary)
    found = _WRITTEN.get(known.base) or _sized(known)
    if binary and known.base == "String":
        found = ("binary", "String")
    return _optional(*found, nullable=known.nullable)


def _optional(type_: IcebergType, written: str, *, nullable: bool) -> StoredType:
    return StoredType(type_, f"Nullable({written})" if nullable else written, not nullable)


def _sized(known: Type) -> tuple[str, str]:
    """Return the types of what has a size: decimals, times, strings of a fixed length."""
    numbers = [int(n) for n in re.findall(r"\A\d+|(?<=, )\d+", known.args)]
    if known.base == "Decimal":
        digits, scale = (*numbers, 0)[:2]
        if digits <= _MOST_DIGITS:
            return f"decimal({digits}, {scale})", f"Decimal({digits}, {scale})"
        raise ValueError(f"decimals have {_MOST_DIGITS} digits there at most")
    if known.base == "DateTime64":
        if not numbers or numbers[0] <= _MICROSECONDS:
            return "timestamptz", "DateTime64(6, 'UTC')"
        raise ValueError("times have microseconds there, and no finer parts of a second")
    if known.base == "FixedString" and numbers:
        return f"fixed[{numbers[0]}]", f"FixedString({numbers[0]})"
    raise ValueError("Iceberg has no type that holds all its values")


def _nested(known: Type, *, binary: bool) -> StoredType:
    parts = arguments(known.args)
    if known.base == "Array":
        one = stored(known.args, binary=binary)
        element = {"type": "list", "element-id": 0, "element": one.type,
                   "element-required": one.required}  # fmt: skip
        return StoredType(element, f"Array({one.written})", True)
    if known.base == "Map":
        key, value = (stored(part, binary=binary) for part in parts)
        pair = {"type": "map", "key-id": 0, "key": key.type, "value-id": 0, "value": value.type,
                "value-required": value.required}  # fmt: skip
        return StoredType(pair, f"Map({key.written}, {value.written})", True)
    fields, texts = [], []
    for part in parts:
        found = _FIELD.fullmatch(part)
        if found is None or (name := sql.identifier(found[1])) is None:
            raise ValueError("the elements of a tuple need names there")
        one = stored(found[2], binary=binary)
        fields.append({"id": 0, "name": name, "required": one.required, "type": one.type})
        texts.append(f"{sql.name(name)} {one.written}")
    struct = {"type": "struct", "fields": fields}
    return _optional(struct, f"Tuple({', '.join(texts)})", nullable=known.nullable)


def of_delta(type_: Any) -> IcebergType:
    """Return a type of Delta's log in the form of Iceberg's; the words of plain ones are kept."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return {"type": "struct", "fields": [
            {"name": f["name"], "required": not f.get("nullable", True),
             "type": of_delta(f["type"])}
            for f in type_["fields"]
        ]}  # fmt: skip
    if type_["type"] == "array":
        return {"type": "list", "element": of_delta(type_["elementType"]),
                "element-required": not type_.get("containsNull", True)}  # fmt: skip
    if type_["type"] == "map":
        return {"type": "map", "key": of_delta(type_["keyType"]),
                "value": of_delta(type_["valueType"]),
                "value-required": not type_.get("valueContainsNull", True)}  # fmt: skip
    return str(type_["type"])


def readable(type_: IcebergType, *, required: bool) -> str:
    """Return the type of ClickHouse for one of the table; UNREADABLE where there is none."""
    if isinstance(type_, str):
        found = _READ.get(type_, UNREADABLE)
        if sized := _WITH_SIZE.fullmatch(type_):
            sizes = ", ".join(sized[2].replace(" ", "").split(","))
            found = f"{'Decimal' if sized[1] == 'decimal' else 'FixedString'}({sizes})"
        return found if required or not found else f"Nullable({found})"
    if type_["type"] == "struct":
        inner = [
            (str(f["name"]), readable(f["type"], required=bool(f["required"])))
            for f in type_["fields"]
        ]
        if not all(t for _, t in inner):
            return UNREADABLE
        return f"Tuple({', '.join(f'{sql.name(n)} {t}' for n, t in inner)})"
    if type_["type"] == "list":
        element = readable(type_["element"], required=bool(type_["element-required"]))
        return element and f"Array({element})"
    if type_["type"] == "map":
        key = readable(type_["key"], required=True)
        value = readable(type_["value"], required=bool(type_["value-required"]))
        return f"Map({key}, {value})" if key and value else UNREADABLE
    return UNREADABLE


# --- for people ----------------------------------------------------------------------------------


def words(type_: IcebergType) -> str:
    """Return a type as Iceberg's own tools show it."""
    if isinstance(type_, str):
        return type_
    if type_["type"] == "list":
        return f"list<{words(type_['element'])}>"
    if type_["type"] == "map":
        return f"map<{words(type_['key'])}, {words(type_['value'])}>"
    inner = (
        f"{f['id']}: {f['name']}: {'required' if f['required'] else 'optional'} {words(f['type'])}"
        for f in type_["fields"]
    )
    return f"struct<{', '.join(inner)}>"


def spark_words(type_: IcebergType) -> str:
    """Return a type as a statement of Spark has it."""
    if isinstance(type_, str):
        return {"long": "bigint", "timestamptz": "timestamp"}.get(type_, type_)
    if type_["type"] == "struct":
        fields = (f"{one['name']}: {spark_words(one['type'])}" for one in type_["fields"])
        return f"struct<{', '.join(fields)}>"
    if type_["type"] == "list":
        return f"array<{spark_words(type_['element'])}>"
    return f"map<{spark_words(type_['key'])}, {spark_words(type_['value'])}>"


# --- schemas of pyiceberg ------------------------------------------------------------------------


def readable_columns(schema: Schema) -> Iterator[tuple[str, str, bool, Any]]:
    """Give the name, the type of ClickHouse, whether a value is required, and the own type."""
    for each in schema.model_dump(by_alias=True)["fields"]:
        type_, required = _plain(each["type"]), bool(each["required"])
        yield str(each["name"]), readable(type_, required=required), required, each["type"]


def _plain(type_: Any) -> Any:
    """Return a type of pyiceberg as the metadata writes it."""
    if isinstance(type_, Mapping):
        return {key: _plain(value) for key, value in type_.items()}
    if isinstance(type_, list | tuple):
        return [_plain(one) for one in type_]
    return type_ if isinstance(type_, bool | int) else str(type_)


def new_schema(columns: Sequence[Column]) -> Schema:
    """Return the schema of a new table."""
    from pyiceberg.schema import Schema

    fields = []
    for column in columns:
        found = stored(column.type, binary=column.binary)
        fields.append({"id": 0, "name": column.name, "required": found.required,
                       "type": found.type})  # fmt: skip
    numbered = _numbered({"type": "struct", "fields": fields}, iter(range(1, 1 << 30)))
    return Schema.model_validate({**numbered, "schema-id": 0})


def bytes_columns(schema: Schema) -> frozenset[str]:
    """Return the names of columns that take any bytes, in lists, too."""
    from pyiceberg.types import BinaryType, FixedType, ListType

    found = set()
    for field in schema.fields:
        kind = field.field_type
        while isinstance(kind, ListType):
            kind = kind.element_type
        if isinstance(kind, BinaryType | FixedType):
            found.add(field.name)
    return frozenset(found)


def _numbered(type_: Any, numbers: Iterator[int]) -> Any:
    """Return a type with ids: those of all fields of a struct, then those inside of them."""
    if not isinstance(type_, Mapping):
        return type_
    if type_["type"] == "struct":
        fields = [{**each, "id": next(numbers)} for each in type_["fields"]]
        return {**type_, "fields": [
            {**each, "type": _numbered(each["type"], numbers)} for each in fields
        ]}  # fmt: skip
    found = dict(type_)
    inner = [name for name in ("element", "key", "value") if name in found]
    for name in inner:
        found[f"{name}-id"] = next(numbers)
    return {**found, **{name: _numbered(found[name], numbers) for name in inner}}
