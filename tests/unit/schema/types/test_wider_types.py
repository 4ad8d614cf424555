"""Types that take what a column holds and what it is to hold."""

from __future__ import annotations

import pytest

from rowfall.schema.column_facts import ColumnFacts, DeclaredType
from rowfall.schema.types.wider_types import Values, keeps_key, lossless, wider


def measured(**facts: int | str) -> ColumnFacts:
    return ColumnFacts("x").measured(**facts)


def numbers(low: int, high: int, **more: int) -> ColumnFacts:
    return measured(rows=9, integers=9, floats=9, low=low, high=high, **more)


def times(digits: int, first: str, last: str) -> ColumnFacts:
    return measured(rows=9, moments=9, integers=0, floats=0, days=0, digits=digits,
                    first=first, last=last)  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "found", "values", "wanted"),
    [
        ("Int32", numbers(0, 3_000_000_000), {}, ["Int64", "String"]),
        ("UInt8", numbers(0, 300), {}, ["UInt16", "String"]),
        ("UInt8", numbers(-1, 3), {}, ["Int16", "String"]),
        ("UInt64", numbers(-1, 3), {}, ["Int128", "String"]),
        ("Int64", numbers(0, 2**63), {}, ["Int128", "String"]),
        ("Nullable(Int32)", numbers(0, 2**40), {}, ["Nullable(Int64)", "Nullable(String)"]),
        ("Int32", numbers(0, 5), {"wrong": 0, "nulls": 1}, ["Nullable(Int32)"]),
        ("Int32", measured(rows=9, integers=5, floats=9, low=1, high=7), {},
         ["Float64", "String"]),
        ("Int32", measured(rows=9, integers=5, floats=9, low=1, high=2**60), {},
         ["String"]),
        ("Int32", measured(rows=9, integers=5, floats=8), {}, ["String"]),
        ("Float32", measured(rows=9, integers=0, floats=9), {}, ["Float64", "String"]),
        ("Date", measured(rows=9, integers=0, days=9), {}, ["Date32", "String"]),
        ("Date", times(0, "2024-01-01 00:00:00", "2024-01-02 00:00:00"), {},
         ["DateTime('UTC')", "DateTime64(0, 'UTC')", "String"]),
        ("Date", times(2, "2024-01-01 00:00:00", "2024-01-02 00:00:00"), {},
         ["DateTime64(3, 'UTC')", "String"]),
        ("DateTime('Asia/Tokyo')", times(6, "2024-01-01 00:00:00", "2024-01-02"), {},
         ["DateTime64(6, 'Asia/Tokyo')", "String"]),
        ("Enum8('a' = 1, 'b' = 5)", measured(rows=9), {"names": ("'d'", "'c'")},
         ["Enum8('a' = 1, 'b' = 5, 'c' = 6, 'd' = 7)", "String"]),
        ("Enum8('a' = 127)", measured(rows=9), {"names": ("'c'",)},
         ["Enum16('a' = 127, 'c' = 128)", "String"]),
        ("Decimal(9, 2)", measured(rows=9), {"whole": 9, "places": 4},
         ["Decimal(13, 4)", "String"]),
        ("Decimal(9, 2)", measured(rows=9), {}, ["String"]),
        ("FixedString(3)", measured(rows=9), {}, ["String"]),
        ("LowCardinality(FixedString(3))", measured(rows=9), {},
         ["LowCardinality(String)"]),
        ("UUID", measured(rows=9), {"nulls": 1}, ["Nullable(String)"]),
        ("Int32", ColumnFacts("x", DeclaredType("Nullable(Int64)")), {}, ["Int64", "String"]),
        ("Int64", ColumnFacts("x", DeclaredType("Float64")), {}, ["Float64", "String"]),
        ("Array(Int8)", ColumnFacts("x"), {}, []),
    ],
)  # fmt: skip
def test_the_type_that_values_need(
    type_: str, found: ColumnFacts, values: dict[str, int], wanted: list[str]
) -> None:
    assert wider(type_, found, Values(**{"wrong": 1, **values})) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Int32", "Int64", True), ("Int64", "Int32", False), ("UInt32", "Int32", False),
        ("UInt32", "Int64", True), ("Int8", "UInt64", False), ("Int32", "Nullable(Int32)", True),
        ("Nullable(Int32)", "Int64", False), ("Int32", "Float64", True),
        ("Int64", "Float64", False), ("Float32", "Float64", True), ("UUID", "String", True),
        ("Date", "Date32", True), ("Date", "DateTime('UTC')", False),
        ("Date", "DateTime64(0, 'UTC')", True), ("Date32", "DateTime64(9, 'UTC')", False),
        ("DateTime('UTC')", "DateTime64(3, 'UTC')", True),
        ("DateTime('UTC')", "DateTime64(3, 'Asia/Tokyo')", False),
        ("DateTime64(6)", "DateTime64(3)", False), ("DateTime64(3)", "DateTime64(9)", False),
        ("Enum8('a' = 1)", "Enum16('a' = 1, 'b' = 2)", True),
        ("Enum8('a' = 1)", "Enum8('a' = 2)", False),
        ("Decimal(9, 2)", "Decimal(11, 4)", True), ("Decimal(9, 2)", "Decimal(9, 4)", False),
        ("Array(Int8)", "Array(Int8)", True), ("Array(Int8)", "String", False),
    ],
)  # fmt: skip
def test_a_type_that_no_value_is_changed_by(old: str, new: str, same: bool) -> None:
    assert lossless(old, new) is same


def test_only_an_enum_of_a_key_grows() -> None:
    assert keeps_key("Enum8('a' = 1)", "Enum8('a' = 1, 'b' = 2)")
    assert not keeps_key("Enum8('a' = 1)", "Enum16('a' = 1, 'b' = 200)")
    assert not keeps_key("Int32", "Int64")
