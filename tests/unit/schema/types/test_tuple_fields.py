"""Tuple columns of CSV: how many fields they take, and in which of two forms they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.type_names import csv_fields
from rowfall.schema.types.reader_settings import line_fields, reader_settings, tuples_apart

CSV = Encoding("CSV", "none", Kind.TEXT)
COLUMNS = (Column("a", "UInt8"), Column("t", "Tuple(UInt8, Tuple(x String, `y z` Date))"))


@pytest.mark.parametrize(
    ("type_", "count"),
    [
        ("UInt8", 1),
        ("Array(Tuple(UInt8, UInt8))", 1),
        ("Map(String, Tuple(UInt8, UInt8))", 1),
        ("Tuple(UInt8)", 1),
        ("Tuple(a Decimal(9, 2), b Enum8('x,(' = 1, ')' = 2))", 2),
        ("Tuple(UInt8, Tuple(String, Array(UInt8)), Tuple(a Tuple(Bool, Bool)))", 5),
    ],
)
def test_fields_of_a_column(type_: str, count: int) -> None:
    assert csv_fields(type_) == count


@pytest.mark.parametrize(("seen", "own"), [(0, True), (2, False), (3, True), (4, True)])
def test_the_number_of_fields_tells_the_form(seen: int, own: bool) -> None:
    encoding = replace(CSV, fields=seen)
    assert tuples_apart(encoding, COLUMNS) == own
    assert line_fields(encoding, COLUMNS, 2) == (4 if own else 2)
    given = {s.name: s.value for s in reader_settings(encoding, COLUMNS)}
    assert given["input_format_csv_deserialize_separate_columns_into_tuple"] == int(own)


def test_one_element_is_one_field_either_way() -> None:
    assert tuples_apart(replace(CSV, fields=1), (Column("t", "Tuple(UInt8)"),))


def test_tsv_has_one_field_a_column() -> None:
    assert line_fields(replace(CSV, format="TSV"), COLUMNS, 2) == 2
