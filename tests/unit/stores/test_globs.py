"""Globs: what they match, what they stand for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import UsageError
from rowfall.sources import from_clause
from rowfall.stores import globs


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a*.csv", ["a.csv", "abc.csv", "a{.csv"], ["b.csv", "a/b.csv", "a.csv.gz"]),
        ("a?.csv", ["ab.csv", "aé.csv"], ["a.csv", "a/.csv", "abc.csv"]),
        ("[abc].csv", ["a.csv"], ["d.csv", "[abc].csv"]),
        ("[!a-c].csv", ["d.csv"], ["a.csv", "/.csv"]),
        ("[^a].csv", ["b.csv"], ["a.csv"]),
        ("{1..12}.csv", ["1.csv", "9.csv", "12.csv"], ["0.csv", "01.csv", "13.csv"]),
        ("{01..20}.csv", ["01.csv", "20.csv"], ["1.csv", "00.csv", "21.csv"]),
        ("{a,b*}.csv", ["a.csv", "bcd.csv"], ["c.csv", "a,b.csv"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "d"]),
        ("x/**/y.csv", ["x/y.csv", "x/1/y.csv", "x/1/2/y.csv"], ["xy.csv", "x/1y.csv"]),
        ("x/**", ["x/a", "x/a/b"], ["y/a", "x"]),
        ("a.b+c$", ["a.b+c$"], ["aXb+c$", "a.bbc$"]),
        ("a[b", ["a[b"], ["ab"]),
    ],
)
def test_match(pattern: str, yes: list[str], no: list[str]) -> None:
    regex = globs.compile_glob(pattern)
    assert [name for name in yes if not regex.match(name)] == []
    assert [name for name in no if regex.match(name)] == []


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("a{1..3}", ["a1", "a2", "a3"]),
        ("{08..10}{a,b}", ["08a", "08b", "09a", "09b", "10a", "10b"]),
        ("{3..1}", ["1", "2", "3"]),
        ("x{,y}", ["x", "xy"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("plain*", ["plain*"]),
    ],
)
def test_expand(pattern: str, texts: list[str]) -> None:
    assert list(globs.expand(pattern)) == texts


def test_expand_slashes_only_where_needed() -> None:
    assert globs.expand_slashes("/d/{a,b}.csv") == ["/d/{a,b}.csv"]
    assert globs.expand_slashes("/d/{a/x,b}.csv") == ["/d/a/x.csv", "/d/b.csv"]


def test_open_brace() -> None:
    with pytest.raises(UsageError, match="brace"):
        globs.compile_glob("{a")


def test_too_many() -> None:
    with pytest.raises(UsageError, match="more than"):
        list(globs.expand("{1..2000}{1..2000}"))


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(1, 5))
def test_range_regex_equals_the_numbers(low: int, high: int, width: int) -> None:
    low, high = sorted((low, high))
    regex = re.compile(globs.range_regex(low, high, width) + r"\Z")
    for number in {
        0,
        1,
        9,
        10,
        99,
        100,
        999,
        1000,
        low - 1,
        low,
        high,
        high + 1,
        (low + high) // 2,
    }:
        if number >= 0:
            matched = regex.match(str(number).zfill(width)) is not None
            assert matched == (low <= number <= high), number


@given(st.lists(st.text("ab{}/", min_size=1, max_size=6), min_size=2, max_size=6, unique=True))
def test_factor_gives_every_name_back(names: list[str]) -> None:
    prefix, parts, suffix = from_clause.factor(names)
    assert [prefix + part + suffix for part in parts] == names
    assert all(parts)
