"""Keyword options of the library: what Python code may give for the text of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rowfall.core.options import LOAD, SCALE, Options, from_keywords


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"type": "a UInt8"}, {"type": ("a UInt8",)}),
        ({"type": {"a b": "UInt8", "c": "Date"}}, {"type": ("`a b` UInt8", "c Date")}),
        ({"rename": {"a": "b"}, "skip": ["x"]}, {"rename": ("a=b",), "skip": ("x",)}),
        ({"set": {"max_threads": 4}}, {"set": ("max_threads=4",)}),
        ({"header": True, "direct": True}, {"header": "yes", "direct": True}),
        ({"memory": 1 << 30, "max_errors": 3}, {"memory": "1073741824", "max_errors": 3}),
        ({"rejects": Path("a/b.tsv")}, {"rejects": "a/b.tsv"}),
    ],
)
def test_python_values_become_options(given: dict[str, Any], taken: dict[str, Any]) -> None:
    assert from_keywords(LOAD, None, given) == Options(**taken)


def test_keywords_win_over_options() -> None:
    base = Options(files=3, memory="1GiB")
    assert from_keywords(LOAD, base, {"files": 4}) == Options(files=4, memory="1GiB")


def test_an_unknown_name_is_a_type_error_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match=r"load\(\) got .* 'delimeter'; did you mean 'delimiter'"):
        from_keywords(LOAD, None, {"delimeter": ";"})
    with pytest.raises(TypeError, match=r"scale\(\) got .* 'replace'"):
        from_keywords(SCALE, None, {"replace": True})
