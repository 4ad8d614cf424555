"""Columns of Parquet files, by what their footers say."""

from __future__ import annotations

import pytest

from rowfall.schema.column_facts import ColumnFacts, DeclaredType
from rowfall.schema.types.footers import FileColumn
from rowfall.schema.types.parquet_files import with_times_of_day

DAY = FileColumn("INT64 Time(isAdjustedToUTC=true, timeUnit=microseconds)", True)
MOMENT = FileColumn("INT64 Timestamp(isAdjustedToUTC=false, timeUnit=microseconds, a=b)", True)
OLD = FileColumn("INT96", True)
OTHER = FileColumn("INT32", True)


@pytest.mark.parametrize(
    ("leaves", "declared", "type_"),
    [
        ({"t": DAY}, "Nullable(DateTime64(6, 'UTC'))", "Nullable(Time64(6))"),
        ({"t": MOMENT, "tt": DAY}, "DateTime64(6, 'UTC')", "DateTime64(6, 'UTC')"),
        ({"t.list.element": DAY}, "Array(DateTime64(3))", "Array(Time64(3))"),
        ({"t.a": DAY, "t.b": OTHER}, "Tuple(a DateTime64(9, 'UTC'), b Int32)",
         "Tuple(a Time64(9), b Int32)"),
        ({"t.a": DAY, "t.b": MOMENT}, "Tuple(a DateTime64(6, 'UTC'), b DateTime64(6, 'UTC'))",
         "Tuple(a DateTime64(6, 'UTC'), b DateTime64(6, 'UTC'))"),
        ({"t.a": DAY, "t.b": OLD}, "Tuple(a DateTime64(6, 'UTC'), b DateTime64(9, 'UTC'))",
         "Tuple(a DateTime64(6, 'UTC'), b DateTime64(9, 'UTC'))"),
    ],
)  # fmt: skip
def test_times_of_day(leaves: dict[str, FileColumn], declared: str, type_: str) -> None:
    found = with_times_of_day(ColumnFacts("t", DeclaredType(declared)), leaves)
    assert found.declared.type == type_
