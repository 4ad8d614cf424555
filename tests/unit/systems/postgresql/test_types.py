"""Types of PostgreSQL as types of ClickHouse; the rows themselves are in e2e/test_postgresql.py."""

from __future__ import annotations

import pytest

from rowfall.systems.postgresql.types import PgType, in_binary, map_type


def numeric(precision: int, scale: int) -> int:
    return ((precision << 16) | (scale & 0x7FF)) + 4


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (PgType("bigint", "int8"), "Int64"),
        (PgType("boolean", "bool"), "Bool"),
        (PgType("numeric", "numeric"), "String"),
        (PgType("", "numeric", modifier=numeric(10, 2)), "Decimal(10, 2)"),
        (PgType("", "numeric", modifier=numeric(3, -2)), "Decimal(5, 0)"),
        (PgType("", "numeric", modifier=numeric(2, 4)), "Decimal(4, 4)"),
        (PgType("", "numeric", modifier=numeric(80, 4)), "String"),
        (PgType("", "timestamp"), "DateTime64(6, 'UTC')"),
        (PgType("", "timestamptz", modifier=0), "DateTime64(0, 'UTC')"),
        (PgType("mood", "mood", "e"), "LowCardinality(String)"),
        (PgType("", "_int4", element=PgType("integer", "int4")), "Array(Nullable(Int32))"),
        (PgType("", "_mood", element=PgType("mood", "mood", "e")), "Array(Nullable(String))"),
        (PgType("bytea", "bytea"), "String"),
        (PgType("interval", "interval"), "String"),
    ],
)
def test_types(type_: PgType, expected: str) -> None:
    found = map_type(type_)
    assert found is not None
    assert found[0] == expected


@pytest.mark.parametrize("name", ["point", "tsvector", "money", "int4range", "record"])
def test_types_that_have_to_be_cast(name: str) -> None:
    assert map_type(PgType(name, name)) is None
    assert map_type(PgType(f"{name}[]", f"_{name}", element=PgType(name, name))) is None


@pytest.mark.parametrize(
    ("type_", "sql", "wire"),
    [
        (PgType("integer", "int4"), '"x"', "int4"),
        (PgType("numeric(10,2)", "numeric", modifier=numeric(10, 2)), '"x"', "numeric"),
        (PgType("", "timestamptz"), '"x"', "timestamp"),
        (PgType("mood", "mood", "e"), '"x"', "text"),
        (PgType("jsonb", "jsonb"), '("x")::text', "text"),
        (PgType("bytea", "bytea"), '"x"', "text"),
    ],
)
def test_what_comes_in_binary(type_: PgType, sql: str, wire: str) -> None:
    found = map_type(type_)
    assert found is not None
    assert in_binary(type_, found[1], '"x"') == (sql, wire)


def test_nobody_escapes_texts_of_arrays_in_binary() -> None:
    type_ = PgType("", "_text", element=PgType("text", "text"))
    found = map_type(type_)
    assert found is not None
    assert "chr(92)" not in found[1]
    escaped = "replace(replace(e::text, chr(92), chr(92) || chr(92)), '''', chr(92) || '''')"
    assert escaped in in_binary(type_, found[1], '"x"')[0]
