"""Hints for tables of databases name nothing that only tables of ClickHouse can do."""

from __future__ import annotations

import pytest

from rowfall.publish.transaction import hint_of_database
from rowfall.schema.text.records import APART


@pytest.mark.parametrize(
    ("hint", "there"),
    [
        (APART, "Load files of different columns into tables of their own, with --table."),
        ("Load it with --widen --type 'n Nullable(Int64)', or leave bad rows out with "
         "--max-errors N", "Change the type of the column in the table, or leave bad rows out with "
         "--max-errors N"),
        ("Load it with --widen --type 'n Nullable(Int64)' --short-rows null: that fills the fields "
         "that a row lacks with NULL. Correct the file.",
         "Change the type of the column in the table, and load with --short-rows null: that fills "
         "the fields that a row lacks with NULL. Correct the file."),
        ("Correct the file.", "Correct the file."),
    ],
)  # fmt: skip
def test_what_only_clickhouse_can_do_is_not_named(hint: str, there: str) -> None:
    """--on-new-column add was named for PostgreSQL, which refuses the option."""
    assert hint_of_database(hint) == there
