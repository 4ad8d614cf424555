"""Which tables get one part of an attempt."""

from __future__ import annotations

import pytest

from rowfall.plan import merging, table_definition


@pytest.mark.parametrize(
    ("columns", "engine", "format_", "merged"),
    [
        (12, "MergeTree", "CSV", True),
        (13, "MergeTree", "CSV", False),
        (3, "MergeTree PARTITION BY c0", "CSV", False),
        (3, "MergeTree", "Parquet", False),
        (3, "ReplacingMergeTree", "CSV", False),
    ],
)
def test_narrow_plain_tables(columns: int, engine: str, format_: str, merged: bool) -> None:
    names = ", ".join(f"`c{n}` Int64" for n in range(columns))
    table = table_definition.parse(f"CREATE TABLE d.t ({names}) ENGINE = {engine} ORDER BY c0")
    assert table is not None
    assert merging.of_table(table, format_) == merged


@pytest.mark.parametrize(
    ("engine", "format_", "merged"),
    [
        ("MergeTree", "CSV", True),
        ("MergeTree", "Parquet", True),
        ("ReplicatedMergeTree", "CSV", True),
        ("MergeTree PARTITION BY c0", "CSV", False),
        ("ReplacingMergeTree", "CSV", False),
        ("ReplicatedReplacingMergeTree", "CSV", False),
    ],
)
def test_servers_are_spared_the_merges_of_wide_tables(
    engine: str, format_: str, merged: bool
) -> None:
    names = ", ".join(f"`c{n}` Int64" for n in range(51))
    table = table_definition.parse(f"CREATE TABLE d.t ({names}) ENGINE = {engine} ORDER BY c0")
    assert table is not None
    assert merging.of_table(table, format_, spares=True) == merged
