"""Types for sampled JSON: what is stable, what varies, what no type keeps."""

from __future__ import annotations

import time

import pytest

from rowfall.schema.types import json_objects
from rowfall.schema.types.json_objects import JsonColumn, columns_of, is_object


def column(*values: str) -> JsonColumn:
    """The column ``p`` of objects with these values."""
    (found,) = columns_of(f'{{"p":{value}}}' for value in values)
    return found


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        # plain values: the sample's query decides about their width
        (["1", "2"], "Float64"),
        (["1", "2.5", "null"], "Float64"),
        (["true", "null"], "Bool"),
        (['"x"', "null"], "String"),
        (["null"], "String"),
        (["1", '"x"'], "String"),
        (["true", "1"], "String"),
        (["617000000000000001", "6.2e17"], "String"),  # a Float64 would change the first
        # the same keys always
        (['{"a":1}', '{"a":2}'], "Tuple(a Nullable(Int64))"),
        (['{"a":1,"b":"x"}', '{"b":null,"a":2}'], "Tuple(a Nullable(Int64), b Nullable(String))"),
        (['{"a":{"b":[1.5]}}'], "Tuple(a Tuple(b Array(Nullable(Float64))))"),
        (['{"a b":1}'], "Tuple(`a b` Nullable(Int64))"),
        (['{"a":18446744073709551615}'], "Tuple(a Nullable(UInt64))"),
        # keys that vary, of one type
        (['{"a":1}', '{"b":2}'], "Map(String, Nullable(Int64))"),
        (['{"a":1}', "{}"], "Map(String, Nullable(Int64))"),
        (['{"a":{"x":1}}', '{"b":{"x":2}}'], "Map(String, Tuple(x Nullable(Int64)))"),
        # and of several
        (['{"a":1}', '{"b":"x"}'], "JSON"),
        (['{"a":1}', '{"a":"x"}'], "JSON"),
        (['{"a":{"x":1}}', '{"a":null}'], "JSON"),
        (['{"a":[1,"x"]}'], "JSON"),
        (["{}"], "JSON"),
        # arrays
        (["[]", "[1,null]"], "Array(Nullable(Int64))"),
        (["[]"], "Array(Nullable(String))"),
        (['[{"a":1},{"a":2}]'], "Array(Tuple(a Nullable(Int64)))"),
        (['[{"a":1},{"b":"x"}]'], "String"),
        (['[1,"x"]'], "String"),
        # what is of no one kind
        (['{"a":1}', "[1]"], "String"),
        (['{"a":1}', "5"], "String"),
        # what JSON would not keep
        (['{"a":1}', '{"a.b":"x"}'], "String"),
        (['{"a":1}', '{"b":"x","b":"y"}'], "String"),
        (['{"a":1,"b":18446744073709551616}', '{"a":"x"}'], "String"),
        (['{"a":1}', '{"b":[true,1]}'], "String"),
        (['{"a":1}', '{"b":[9007199254740993,0.5]}'], "String"),
        (['{"a":1}', '{"b":[[1e400]]}'], "String"),
    ],
)  # fmt: skip
def test_types(values: list[str], type_: str) -> None:
    assert column(*values).type == type_


def test_reasons() -> None:
    assert column('{"a":1}', '{"b":"x"}').reason == (
        "keys vary and their values differ in type: null members and the order of keys are not kept"
    )
    assert column('{"a":1}', '{"b":"x","c.d":1}').reason == (
        "keys vary and their values differ in type; a dot in the key c.d: kept as JSON text"
    )
    assert column("1", '"x"').reason == "integers and text mixed: kept as text"
    assert column('{"a":1}', "5").reason == "integers and objects mixed: kept as JSON text"
    assert column('[1,"x"]').reason == "integers and text mixed: kept as JSON text"
    assert column('{"a":1}').nullable == "JSON"
    assert column('{"a.b":1}').nullable == column("[1]").nullable == "String"


def test_keys_come_in_their_order_and_known_types_are_not_looked_at() -> None:
    found = columns_of(['{"b":1,"a":{"x":1}}', '{"c":2,"a":{"y":"z"}}'], ["a"])
    assert [(c.name, c.type, c.nested) for c in found] == [
        ("b", "Float64", False), ("a", "String", False), ("c", "Float64", False)
    ]  # fmt: skip


@pytest.mark.parametrize("levels", [22, 99, 5_000])
def test_deep_objects_take_no_time(levels: int) -> None:
    began = time.monotonic()
    text = '{"a":' * levels + "1" + "}" * levels
    found = columns_of([f'{{"id":1,"p":{text}}}'] * 20)
    assert time.monotonic() - began < 5
    if levels < 1_000:  # Python itself takes no more
        assert [c.type for c in found] == ["Float64", "JSON"]
    assert is_object(text)


def test_nested_values_are_looked_at_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_objects, "NODES", 10)
    budget = json_objects._Budget(10)
    root = json_objects._Node()
    for _ in range(9):
        root.add(json_objects._Pairs([("a", 1), ("b", 2), ("c", 3)]), 0, budget)
    assert root.objects == 4
    assert json_objects._column("p", root).type.startswith("Tuple(a ")


@pytest.mark.parametrize(
    ("objects", "files", "query"),
    [
        (['{"n": 2, "data": [{"a": 1}, {"a": 2}]}'], ["a b.json"], "jq -c '.data[]' 'a b.json' |"),
        (['{"x-y": [{"a": 1}]}'], ["a.json"], "jq -c '.[\"x-y\"][]' a.json |"),
        (['{"d": [{}]}', '{"d": [{}], "e": []}'], ["a", "b"], "2 objects in its key d"),
        (['{"d": [{}]}', '{"d": [{}]}'], ["a"], None),  # rows that have an array each
        (['{"d": [1, 2]}'], ["a"], None),
        (['{"d": [{}], "e": [{}]}'], ["a"], None),  # which one is meant?
        (['{"a": 1}'], ["a"], None),
        (['{"r": {"n": 2, "x-y": [{"a": 1}]}}'], ["a"], 'jq -c \'.["r"]["x-y"][]\' a |'),
        (['{"r": {"s": {"t": [{"a": 1}, {}]}}}'], ["a"], "jq -c '.r.s.t[]' a |"),
        (['{"r": {"d": [{}]}, "s": {"e": [{}]}}'], ["a"], None),
        (['{"id": [1, 2], "name": ["a", null]}'], ["a"], "--format JSONColumns"),
        (['{"id": [1, 2], "name": ["a"]}'], ["a"], None),
        (['{"1": {"n": 1}, "2": {"n": 2}}'], ["a"], "2 keys hold objects with the same keys"),
        (['{"1": {"n": 1}, "2": {"m": 2}}'], ["a"], None),
        (["[1]"], ["a"], None),
    ],
)
def test_rows_inside_of_one_object(objects: list[str], files: list[str], query: str | None) -> None:
    found = json_objects.rows_inside(objects, files)
    assert found is None if query is None else query in (found or "")
