"""Types of ClickHouse as Iceberg has them, and back."""

from __future__ import annotations

from typing import Any

import pytest

from rowfall.systems.lakes.types import UNREADABLE, of_delta, readable, stored


@pytest.mark.parametrize(
    ("given", "wanted", "written"),
    [
        ("Nullable(UInt8)", "int", "Nullable(Int32)"),
        ("LowCardinality(Nullable(String))", "string", "Nullable(String)"),
        ("UInt64", "decimal(20, 0)", "Decimal(20, 0)"),
        ("DateTime64(3, 'Europe/Oslo')", "timestamptz", "DateTime64(6, 'UTC')"),
        ("DateTime", "timestamptz", "DateTime64(6, 'UTC')"),
        ("Enum8('a' = 1)", "string", "String"),
        ("Decimal(9, 2)", "decimal(9, 2)", "Decimal(9, 2)"),
        ("Decimal64(4)", "decimal(18, 4)", "Decimal(18, 4)"),
        ("FixedString(3)", "fixed[3]", "FixedString(3)"),
    ],
)
def test_plain_types(given: str, wanted: str, written: str) -> None:
    found = stored(given)
    assert (found.type, found.written) == (wanted, written)
    assert found.required == ("Nullable" not in given)
    assert readable(found.type, required=found.required) == written


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("Array(Nullable(UInt16))", "Array(Nullable(Int32))"),
        ("Map(String, Array(Date))", "Map(String, Array(Date32))"),
        ("Tuple(a UInt32, `b c` Nullable(IPv4))", "Tuple(`a` Int64, `b c` Nullable(String))"),
        ("Nested(x UInt8, y String)", "Array(Tuple(`x` Int32, `y` String))"),
    ],
)
def test_nested_types(given: str, written: str) -> None:
    found = stored(given)
    assert found.written.replace("`", "") == written.replace("`", "")
    back = readable(found.type, required=True)
    assert back.replace("`", "") == written.replace("`", "")


@pytest.mark.parametrize("given", [
    "Int128", "Decimal(40, 2)", "DateTime64(9)", "Tuple(UInt8, UInt8)", "Variant(String, UInt8)",
    "IntervalDay", "Array(UInt256)", "Point",
])  # fmt: skip
def test_types_without_a_place(given: str) -> None:
    with pytest.raises(ValueError, match=r"there|Iceberg"):
        stored(given)


def test_types_that_clickhouse_lacks() -> None:
    assert readable("geometry", required=True) == UNREADABLE
    inner = {"type": "list", "element-id": 1, "element": "variant", "element-required": False}
    assert readable(inner, required=True) == UNREADABLE


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("short", "Int16"),
        ("timestamp_ntz", "DateTime64(6, 'UTC')"),
        ("decimal(9,2)", "Decimal(9, 2)"),
        ("decimal(9,-2)", UNREADABLE),
        ("void", UNREADABLE),
        ({"type": "udt", "class": "x"}, UNREADABLE),
        ({"type": "array", "elementType": "byte", "containsNull": True}, "Array(Nullable(Int8))"),
        (
            {"type": "map", "keyType": "string", "valueType": {"type": "struct", "fields": [
                {"name": "a b", "type": "integer", "nullable": False},
                {"name": "c", "type": "date"},
            ]}, "valueContainsNull": True},
            "Map(String, Tuple(`a b` Int32, `c` Nullable(Date32)))",
        ),
        ({"type": "array", "elementType": "variant", "containsNull": False}, UNREADABLE),
    ],
)  # fmt: skip
def test_types_of_delta(given: Any, wanted: str) -> None:
    assert readable(of_delta(given), required=True) == wanted
