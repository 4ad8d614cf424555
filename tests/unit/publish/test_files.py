"""Hints of exports name nothing that only tables have."""

from __future__ import annotations

import pytest

from rowfall.publish.files import hint_of_file


@pytest.mark.parametrize(
    ("hint", "there"),
    [
        ("Load it with --widen --type 'n Nullable(Int64)', or leave bad rows out with "
         "--max-errors N", "Load it with --type 'n Nullable(Int64)', or leave bad rows out with "
         "--max-errors N"),
        ("Load it as JSON with --widen --type 'v JSON', or all files into a new table with "
         "--table NAME --type 'v String'.",
         "Load it as JSON with --type 'v JSON', or all files with --type 'v String'."),
        ("Correct the file, or load all into a new table with --table NAME --schema 'n String'.",
         "Correct the file, or load all with --schema 'n String'."),
        ("Load it with --blank-lines skip, which leaves blank lines out.",
         "Load it with --blank-lines skip, which leaves blank lines out."),
    ],
)  # fmt: skip
def test_a_file_has_no_columns_to_widen(hint: str, there: str) -> None:
    assert hint_of_file(hint) == there
