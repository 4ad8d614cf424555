"""Numbers for people keep their width and their meaning."""

from __future__ import annotations

import random

import pytest

from rowfall.core import units
from rowfall.core.errors import UsageError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (42, "42"),
        (999, "999"),
        (999.6, "1.00k"),
        (1000, "1.00k"),
        (9_996, "10.0k"),
        (99_960, "100k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (5.12e6, "5.12M"),
        (1e9, "1.00G"),
        (0.4, "0.40"),
        (-5, "0"),
    ],
)
def test_count(value: float, text: str) -> None:
    assert units.count(value) == text


def test_a_number_is_never_wider_than_its_field() -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        value = 10 ** chance.uniform(-3, 17)
        assert len(units.count(value)) <= 5
        assert len(units.size(value)) <= 7
        assert len(units.memory(value)) <= 8
        assert len(units.clock(value)) <= 7


def test_rates_count_in_tens_and_memory_in_twos() -> None:
    assert units.byte_rate(512e6) == "512 MB/s"
    assert units.row_rate(5_120_000) == "5.12M rows/s"
    assert units.memory(4 * 2**30) == "4.00 GiB"
    assert units.size_of(4.2e9, 10e9) == "4.2/10.0 GB"
    assert units.exact(1_000_000) == "1,000,000"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.42, "0.42 s"),
        (0.996, "1.0 s"),
        (8.06, "8.1 s"),
        (59.96, "1 min"),
        (83, "1 min 23 s"),
        (3_720, "1 h 2 min"),
        (100_000, "1 d 3 h"),
        (float("inf"), "?"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.62, "62 %"), (0.004, "0.4 %"), (1e-6, "<0.1 %"), (1, "100 %")],
)
def test_percent(share: float, text: str) -> None:
    assert units.percent(share) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100", 100),
        ("100B", 100),
        ("4GiB", 4 * 2**30),
        ("4 gib", 4 * 2**30),
        ("512m", 512 * 2**20),
        ("2Gi", 2 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("1e9", 10**9),
        ("1k", 1024),
    ],
)
def test_parse_size(text: str, value: int) -> None:
    assert units.parse_size(text) == value


@pytest.mark.parametrize("text", ["", "many", "4 XB", "-1", "4GiBs", "nan", "1e999", "GB", "1..5"])
def test_parse_size_refuses(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        units.parse_size(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("30s", 30), ("5m", 300), ("5 min", 300), ("1.5h", 5400), ("1D", 86400)],
)
def test_parse_duration(text: str, value: float) -> None:
    assert units.parse_duration(text) == value


@pytest.mark.parametrize("text", ["", "0", "0s", "-1s", "soon", "5x", "1m30s", "1e999h"])
def test_parse_duration_refuses(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e8", 10**8),
        ("100_000_000", 10**8),
        ("1.5M", 1_500_000),
        ("2G", 2 * 10**9),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_parse_rows(text: str, value: int) -> None:
    assert units.parse_rows(text) == value


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5GiB", "lots", "1e999"])
def test_parse_rows_refuses(text: str) -> None:
    with pytest.raises(UsageError):
        units.parse_rows(text)


def test_printable_defuses_control_characters() -> None:
    assert units.printable("a\x1b[31mb\nc") == "a\\x1b[31mb c"
    assert units.printable("größe ━") == "größe ━"
    assert units.printable("\udc80").isprintable()


def test_a_failure_names_its_split_once() -> None:
    assert units.failure("a.csv", "a.csv line 3 is bad") == "a.csv line 3 is bad"
    assert units.failure("a.csv[5:90]", "a.csv line 3 is bad") == "a.csv line 3 is bad"
    assert units.failure("a.csv[5:90]", "not found") == "a.csv[5:90]: not found"
