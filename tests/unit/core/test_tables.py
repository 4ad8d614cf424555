"""Patterns of tables, and their names in the target."""

from __future__ import annotations

import re

import pytest

from rowfall.core.errors import UsageError
from rowfall.core.tables import (
    FoundTable,
    TableProblem,
    TableReport,
    check_clashes,
    choose,
    in_path,
    outcome_of,
    places,
    split_patterns,
)

FOUND = (
    FoundTable("public", "orders"),
    FoundTable("public", "order_items"),
    FoundTable("public", "events"),
    FoundTable("public", "events_1", parent="public.events"),
    FoundTable("public", "recent", kind="view"),
    FoundTable("sales", "orders"),
    FoundTable("sales", "a.b"),
)


def chosen(patterns: str, *exclude: str) -> list[str]:
    return [t.full for t in choose(FOUND, split_patterns(patterns), exclude, "db").tables]


@pytest.mark.parametrize(
    ("patterns", "exclude", "names"),
    [
        ("*", (), ["public.orders", "public.order_items", "public.events", "sales.orders",
                   "sales.a.b"]),
        ("public.*", (), ["public.orders", "public.order_items", "public.events"]),
        ("orders", (), ["public.orders", "sales.orders"]),
        ("order?*,sales.a.b", ("sales.orders",), ["public.orders", "public.order_items",
                                                  "sales.a.b"]),
        ("a.b", (), ["sales.a.b"]),
        ("public.recent", (), ["public.recent"]),
        ("events_1", (), ["public.events_1"]),
        ("events_1,events", (), ["public.events"]),
        ("events*,events_1", ("events",), ["public.events_1"]),
        ("public.o*,public.orders", (), ["public.orders", "public.order_items"]),
    ],
)  # fmt: skip
def test_patterns_choose(patterns: str, exclude: tuple[str, ...], names: list[str]) -> None:
    assert chosen(patterns, *exclude) == names


@pytest.mark.parametrize("name", ["a?b", "a*b", "a[1]", "s.a?b"])
def test_a_name_with_wildcards_is_that_table(name: str) -> None:
    bare = name.removeprefix("s.")
    found = [FoundTable("s", one) for one in (bare, "axb", "a1", "a2b")]
    assert [t.name for t in choose(found, (name,), (), "db").tables] == [bare]


def test_what_is_left_out_is_said() -> None:
    found = choose(FOUND, ("public.*",), (), "db")
    assert found.notes == (
        "1 table whose rows another one has, too, as partitions do: left out (public.events_1)",
        "1 view left out, as none is named in full: public.recent",
    )
    assert choose(FOUND, ("public.*", "public.recent"), (), "db").notes[1:] == ()


@pytest.mark.parametrize(
    ("patterns", "exclude", "text"),
    [
        ("ordres", (), "db has no table like ordres"),
        ("orders,nothing*", (), "db has no table like nothing*"),
        ("orders", ("public.ordres",), "db has no table like --exclude public.ordres"),
        ("orders", ("orders",), "nothing is left to load"),
        ("rec*", (), "db has no tables like rec*, only other things: view"),
        ("a,,b", (), "'a,,b' has an empty pattern"),
    ],
)
def test_patterns_that_mean_nothing(patterns: str, exclude: tuple[str, ...], text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)) as refused:
        chosen(patterns, *exclude)
    if "ordres" in text:
        assert "Did you mean" in str(refused.value.hint)
        assert "public.orders, public.order_items" in str(refused.value.hint)


def of(
    *names: str, to: str | None = None, table: str | None = None, takes: bool = True
) -> list[tuple[str | None, str | None]]:
    tables = [FoundTable(*name.split("/")) for name in names]
    found = places(tables, to, table, takes_name=takes)
    check_clashes(tables, found, folds_case=False)
    return [(place.to, place.table) for place in found]


def test_names_in_the_target() -> None:
    assert of("s/a", "t/b.c") == [(None, "a"), (None, "b_c")]
    assert of("s/a", "t/a", table="{schema}_{table}") == [(None, "s_a"), (None, "t_a")]
    assert of("s/a", "t/a", table="{schema}.{table}") == [(None, "s.a"), (None, "t.a")]
    assert of("s/a", table="other") == [(None, "other")]
    files = of("s/a", "s/.x", to="out/{schema}/{table}_{n}.csv", takes=False)
    assert files == [("out/s/a_{n}.csv", None), ("out/s/_x_{n}.csv", None)]
    assert of("s/a", "s/b", to="null:", takes=False) == [("null:", None)] * 2
    assert in_path("bad/{table}.tsv", FoundTable("s", "a/b")) == "bad/a_b.tsv"


@pytest.mark.parametrize(
    ("table", "to", "takes", "text"),
    [
        (None, None, True, "s.a and t.a would both be loaded into a"),
        ("x", None, True, "2 tables cannot all be loaded into x"),
        ("{name}", None, True, "--table {name}: {name} stands for nothing"),
        (None, "out/{n}.csv", False, "2 tables cannot all be written to out/{n}.csv"),
        (None, "out/{tabel}.csv", False, "--to out/{tabel}.csv: {tabel} stands for nothing"),
        (None, "out/{table}.csv", False, "s.a and t.a would both be loaded into out/a.csv"),
        ("x_{table}", "out/{table}.csv", False, "--table x_{table} names a table"),
    ],
)
def test_names_that_cannot_be(
    table: str | None, to: str | None, takes: bool, text: str
) -> None:  # fmt: skip
    with pytest.raises(UsageError, match=re.escape(text)):
        of("s/a", "t/a", to=to, table=table, takes=takes)


def test_names_that_differ_in_case_meet_where_the_target_folds_it() -> None:
    tables = [FoundTable("s", "A"), FoundTable("s", "a")]
    found = places(tables, None, None, takes_name=True)
    check_clashes(tables, found, folds_case=False)
    with pytest.raises(UsageError, match=r"s\.A and s\.a would both"):
        check_clashes(tables, found, folds_case=True)


def test_the_worst_exit_code_counts() -> None:
    good = TableReport("s.a", "a", "done")
    bad = TableReport("s.b", "b", "failed", problem=TableProblem("no", None, 4))
    half = TableReport("s.c", "c", "partial", problem=TableProblem("no", None, 1))
    assert outcome_of([good]) == ("done", 0)
    assert outcome_of([good, half]) == ("partial", 1)
    assert outcome_of([bad, half, good]) == ("partial", 4)
    assert outcome_of([bad]) == ("failed", 4)
