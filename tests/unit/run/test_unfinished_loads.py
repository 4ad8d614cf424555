"""What the loader says about options that differ from those of the load it would go on with."""

from __future__ import annotations

import pytest

from rowfall.run.load import _difference


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (True, None, "--x was given, now it is not"),
        (None, True, "--x was not given, now it is"),
        ("CSV", "TSV", "--x was CSV, now it is TSV"),
        ("CSV", None, "--x was CSV, now it is not given"),
        (None, "TSV", "--x was not given, now it is TSV"),
    ],
)
def test_how_an_option_differs(before: object, now: object, words: str) -> None:
    assert _difference("--x", before, now) == words
