"""Addresses of databases, and keys cut into ranges: every value is in one range."""

from __future__ import annotations

import itertools
import sqlite3
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing
from rowfall.core.options import Options
from rowfall.sources.databases import (
    parse,
)
from rowfall.sources.key_ranges import (
    END,
    Key,
    KeyKind,
    count_ranges,
    cut,
    without,
)

KEYS = {kind: Key("k", "k", kind) for kind in KeyKind}
NUMBERS = st.integers(-(1 << 63), END)


@given(st.lists(st.none() | NUMBERS), st.integers(1, 40), st.integers(1, END))
def test_ranges_cover_everything_and_never_overlap(
    values: list[int | None], count: int, end: int
) -> None:
    ranges = cut(values, count, end)
    assert 1 <= len(ranges) <= count
    assert ranges[0][0] == 0
    assert ranges[-1][1] == end
    assert all(start < stop for start, stop in ranges)
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))


@given(st.lists(st.integers(1, 10_000), min_size=400, max_size=400, unique=True))
def test_ranges_are_balanced(values: list[int]) -> None:
    ranges = cut(values, 8, END)
    assert {sum(start <= v < stop for v in values) for start, stop in ranges} <= {49, 50, 51}


PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda p: (p[0], sum(p))))


@given(PAIRS, PAIRS)
def test_what_is_loaded_is_left_out(
    ranges: list[tuple[int, int]], loaded: list[tuple[int, int]]
) -> None:
    ranges = [r for n, r in enumerate(ranges) if all(r[0] >= b for _, b in ranges[:n])]
    left = without(ranges, loaded)

    def numbers(some: list[tuple[int, int]]) -> list[int]:
        return [n for start, stop in some for n in range(start, stop)]

    gone = set(numbers(loaded))
    assert numbers(left) == [n for n in numbers(ranges) if n not in gone]


@given(
    st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1), max_size=40),
    st.lists(st.integers(-50, END), max_size=8), st.booleans(),
)  # fmt: skip
def test_each_row_is_in_one_range(rows: list[int | None], sample: list[int], grows: bool) -> None:
    """As a database judges the conditions, NULL and all."""
    key = Key("k", "k", KeyKind.INTEGER, nullable=True)
    highest = max((r for r in rows if r is not None), default=0)
    end = highest + 1 if grows and highest > 0 and highest < END else END
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE t (k INTEGER)")
        base.executemany("INSERT INTO t VALUES (?)", [(row,) for row in rows])
        found: list[Any] = []
        for start, stop in cut([*sample, *rows], 5, end):
            where = key.condition(start, stop)
            text = "SELECT k FROM t" + (f" WHERE {where}" if where else "")
            found += [row for (row,) in base.execute(text)]
    assert sorted(found, key=str) == sorted(rows, key=str)


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)))
def test_a_moment_is_its_number(moment: datetime) -> None:
    key = KEYS[KeyKind.MOMENT]
    number = key.number(moment.isoformat(" "))
    assert number == (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert key.literal(number or 0) == f"'{moment.isoformat(' ')}'"


@given(st.uuids(), st.uuids())
def test_uuids_keep_their_order(one: UUID, other: UUID) -> None:
    key = KEYS[KeyKind.UUID]
    a, b = key.number(str(one)), key.number(str(other))
    if a is None or b is None:
        return  # the first ones, in the first range
    assert (a < b) <= (one < other)
    assert UUID(key.literal(a).strip("'")) <= one


@pytest.mark.parametrize("text", ["infinity", "-infinity", "0044-03-15 BC", "12026-01-01", ""])
def test_values_without_a_number(text: str) -> None:
    assert KEYS[KeyKind.MOMENT].number(text) is None
    assert KEYS[KeyKind.DAY].number(text) is None


def test_how_many_ranges() -> None:
    assert count_ranges(0) == count_ranges(3 << 20) == 1
    assert count_ranges(5 << 20) == 16
    assert count_ranges(1 << 40) == 512


# --- addresses ----------------------------------------------------------------------------------


def address(*texts: str, **options: Any) -> Any:
    return parse(texts, Options(**options), port=5432, variable="PW", settings=("sslmode",))


def test_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "from the environment")
    found = address("postgresql://me:s%40crt@h:7/shop/sales.orders?sslmode=require&key=id")
    login = found.login
    assert (login.host, login.port, login.user, found.database) == ("h", 7, "me", "shop")
    assert (found.schema, found.table, found.key) == ("sales", "orders", "id")
    assert login.password.reveal() == "s@crt"
    assert "s%40crt" not in found.text
    assert found.settings == {"sslmode": "require"}
    assert address("postgresql://h/shop/orders").login.password.reveal() == "from the environment"
    dotted = address("postgresql://h/shop/a.b?schema=s")
    assert (dotted.schema, dotted.table) == ("s", "a.b")


@pytest.mark.parametrize(
    ("texts", "options", "said"),
    [
        (["postgresql://h/d/a", "postgresql://h/d/b"], {}, "one table"),
        (["postgresql://h"], {}, "names no database"),
        (["postgresql://h/d"], {}, "names no table"),
        (["postgresql://h/d/a/b"], {}, "too many parts"),
        (["postgresql://h/d/a"], {"query": "SELECT 1"}, "exclude each other"),
        (["postgresql://h/d/a?shema=s"], {}, "no parameter 'shema'"),
        (["postgresql://h/d/a"], {"format": "CSV"}, "--format is for files"),
    ],
)
def test_what_is_no_address(texts: list[str], options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        address(*texts, **options)


# --- ranges for people ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "start", "stop", "label"),
    [
        (KEYS[KeyKind.INTEGER], 0, END, ""),
        (KEYS[KeyKind.INTEGER], 0, 500, "[:500]"),
        (KEYS[KeyKind.INTEGER], 500, 900, "[500:900]"),
        (KEYS[KeyKind.INTEGER], 500, END, "[500:]"),
        (KEYS[KeyKind.DAY], 86_400_000_000, END, "[1970-01-02 to last]"),
        (KEYS[KeyKind.MOMENT], 0, 90_000_000, "[first to 1970-01-01 00:01:30]"),
        (KEYS[KeyKind.UUID], 1 << 62, END, "[80000000-0000-0000-0000-000000000000:]"),
        (Key("ctid", "ctid", KeyKind.BLOCK, low=7 << 32, end=(8 << 32) - 1), 7 << 32, (7 << 32) + 9,
         "[:9]"),
        (Key("ctid", "ctid", KeyKind.BLOCK, low=7 << 32, end=(8 << 32) - 1), (7 << 32) + 9,
         (8 << 32) - 1, "[9:]"),
    ],
)  # fmt: skip
def test_people_read_values_of_the_key(key: Key, start: int, stop: int, label: str) -> None:
    assert key.label(start, stop) == label
    listing = Listing(continued=True)
    listing.label = key.label
    listing.add("db/t", "", 1, start, stop)
    (split,) = listing.splits("")
    assert split.name == f"db/t{label}"
    assert split.id.endswith(f"[{start}:{stop}]")
