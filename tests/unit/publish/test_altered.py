"""How a staging table has to change when its table was altered: values never change columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from rowfall.publish.altered import Became, StoredDefinition, UnclearError, changes


def table(columns: str, key: str = "k", **named: Mapping[str, str]) -> StoredDefinition:
    """A table whose columns are given by their names; those in capitals are strings."""
    types = {name: "String" if name.isupper() else "UInt8" for name in columns}
    written = {name: f"`{name}` {type_}" for name, type_ in types.items()}
    empty: dict[str, str] = {}
    return StoredDefinition(
        types, written, named.get("indices", empty), named.get("projections", empty), key
    )


@pytest.mark.parametrize(
    ("now", "then", "history", "expected"),
    [
        ("ka", "ka", [], []),
        ("kab", "ka", [], ["ADD COLUMN `b` UInt8"]),
        # Older than staging: the name is none of its columns, or both columns were there already.
        ("kab", "ka", [("x", "a")], ["ADD COLUMN `b` UInt8"]),
        ("kabc", "kab", [("a", "b")], ["ADD COLUMN `c` UInt8"]),
        ("k", "ka", [("a", "")], ["DROP COLUMN `a`"]),
        ("k", "ka", [], ["DROP COLUMN `a`"]),
        ("kb", "ka", [("a", "b")], ["RENAME COLUMN `a` TO `b`"]),
        ("kc", "ka", [("a", "b"), ("b", "c")], ["RENAME COLUMN `a` TO `c`"]),
        ("kb", "ka", [("a", "")], ["DROP COLUMN `a`", "ADD COLUMN `b` UInt8"]),
        # Renamed, and another one of the old name was added.
        ("kab", "ka", [("a", "b")], ["RENAME COLUMN `a` TO `b`"]),
        # Dropped and made again: it gets the values.
        ("kab", "ka", [("a", "")], ["ADD COLUMN `b` UInt8"]),
        ("kbc", "kab", [("a", "c")], ["RENAME COLUMN `a` TO `c`"]),
    ],
)  # fmt: skip
def test_columns(now: str, then: str, history: Sequence[Became], expected: list[str]) -> None:
    assert changes(table(now), table(then), history) == expected


@pytest.mark.parametrize(
    ("now", "then", "history"),
    [
        ("kb", "ka", []),
        ("kbc", "ka", [("a", "x")]),
        # Two have changed places, and one was added.
        ("kabc", "kab", [("a", "x"), ("b", "a"), ("x", "b")]),
        # Was it made again before staging was?
        ("kb", "ka", [("a", ""), ("a", "b")]),
    ],
)
def test_what_is_not_clear(now: str, then: str, history: Sequence[Became]) -> None:
    with pytest.raises(UnclearError):
        changes(table(now), table(then), history)


def test_a_type() -> None:
    altered = StoredDefinition({"k": "UInt8", "a": "String"}, {"a": "`a` String"}, {}, {}, "k")
    assert changes(altered, table("ka"), []) == ["MODIFY COLUMN `a` String"]


def test_a_key_grows_with_its_columns() -> None:
    assert changes(table("kz", "k, z"), table("k"), []) == [
        "ADD COLUMN `z` UInt8", "MODIFY ORDER BY (k, z)",
    ]  # fmt: skip


def test_indices_go_before_anything_else_and_come_after_it() -> None:
    old = table("ka", indices={"i": "INDEX i a TYPE minmax"})
    new = table("kb", indices={"i": "INDEX i b TYPE minmax"},
                projections={"p": "PROJECTION p (SELECT k ORDER BY b)"})  # fmt: skip
    history = [("a", "b")]
    assert changes(new, old, history) == ["DROP INDEX `i`"]
    assert changes(new, table("ka"), history) == ["RENAME COLUMN `a` TO `b`"]
    assert changes(new, table("kb"), []) == [
        "ADD INDEX i b TYPE minmax", "ADD PROJECTION p (SELECT k ORDER BY b)",
    ]  # fmt: skip
