"""Hints of rowfall.read name keywords, where those of commands name options."""

from __future__ import annotations

import pytest

from rowfall.run.read import in_keywords


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("Leave bad rows out with --max-errors 3.", "Leave bad rows out with max_errors=3."),
        ("--dates day-first reads them", "dates='day-first' reads them"),
        # Of other programs: the command is to be pasted as it is.
        ("pip install --upgrade rowfall-decode==0.1.0",) * 2,
    ],
)
def test_options_become_keywords(hint: str, expected: str) -> None:
    assert in_keywords(hint) == expected
