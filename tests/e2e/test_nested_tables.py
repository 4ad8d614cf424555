"""Tables whose columns are filled in another way than by their names."""

from __future__ import annotations

import re
import shlex

import pytest

from e2e.tools import Shell
from lab.clickhouse import ClickHouse


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def make(shell: Shell, columns: str) -> None:
    shell.write("x.csv", "x\n1\n")
    shell.ok("load", "x.csv")
    shell.ok("query", f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY id", "--write")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('[{"a":1,"b":"x"},{"a":2,"b":"y"}]', "[]"),
        ('{"a":[1,2],"b":["x","y"]}', '{"a":[],"b":[]}'),
    ],
)
def test_nested_columns_of_lists_of_objects(shell: Shell, first: str, second: str) -> None:
    make(shell, "id Int64, n Nested(a Int64, b String)")
    shell.write("a.jsonl", f'{{"id":1,"n":{first}}}\n{{"id":2,"n":{second}}}\n')
    told = shell.ends(5, "load", "a.jsonl", "--table", "t").talk
    found = re.search(r"--select '[^']+'", told)
    assert found
    shell.ok("load", "a.jsonl", "--table", "t", *shlex.split(found.group(0)))
    assert shell.rows("SELECT id, n.a, n.b FROM t ORDER BY id") == [
        [1, [1, 2], ["x", "y"]],
        [2, [], []],
    ]


EPHEMERAL = (
    "id Int64, e Int64 EPHEMERAL, f Int64 DEFAULT e * 2, g String DEFAULT concat('<', e, '>')"
)
FILLED = {
    "ephemeral": (
        EPHEMERAL, "id,e\n1,5\n2,6\n", "SELECT id, f, g", [[1, 10, "<5>"], [2, 12, "<6>"]],
    ),
    "ephemeral, of odd names": (
        "id Int64, `select` Int64 EPHEMERAL, `a b` Int64 DEFAULT `select` + 1",
        "id,select\n1,5\n2,6\n", "SELECT id, `a b`", [[1, 6], [2, 7]],
    ),
    "ephemeral, needed by none": (
        "id Int64, e Int64 EPHEMERAL", "id,e\n1,5\n2,6\n", "SELECT id", [[1], [2]],
    ),
    "a state of sum": (
        "id Int64, s AggregateFunction(sum, Int64)", "id,s\n1,20240101\n2,6\n",
        "SELECT id, sumMerge(s)", [[1, 20240101], [2, 6]],
    ),
    "states of text and of parameters": (
        "id Int64, `u s` AggregateFunction(uniqExact, String), q "
        "AggregateFunction(quantiles(0.5, 0.9), UInt16)", "id,u s,q\n1,007,5\n2,x,7\n",
        "SELECT id, uniqExactMerge(`u s`), quantilesMerge(0.5, 0.9)(q)",
        [[1, 1, [5, 5]], [2, 1, [7, 7]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", ["embedded", "server"])
@pytest.mark.parametrize("name", FILLED)
@pytest.mark.sampled(3)
def test_columns_that_are_filled_by_what_is_selected(
    shell: Shell, request: pytest.FixtureRequest, place: str, name: str
) -> None:
    columns, text, select, rows = FILLED[name]
    lake = request.getfixturevalue("lake") if place == "server" else None
    to = () if lake is None else ("--to", lake.to)
    table = f"t ({columns}) ENGINE = MergeTree ORDER BY id"
    if lake is None:
        make(shell, columns)
    else:
        lake.do(f"CREATE TABLE {{db}}.{table}")
    shell.write("a.csv", text)
    told = shell.ends(5, "load", "a.csv", "--table", "t", *to).talk
    options = told[told.index(" --", told.index("hint:")) :]
    shell.ok("load", "a.csv", "--table", "t", *to, *shlex.split(options))
    # What its states do is not for JSON: the groups are those of the rows.
    query = f"{select} FROM {'t' if lake is None else '{db}.t'} GROUP BY ALL ORDER BY id"
    assert (shell.rows(query) if lake is None else lake.rows(query)) == rows


def test_states_of_which_a_value_makes_none(shell: Shell) -> None:
    """They have no hint that would fail; a state itself is taken."""
    for number, state in enumerate(("count", "argMax, Int64, Int64")):
        shell.write("a.csv", "id,s\n1,5\n")
        schema = f"id Int64, s AggregateFunction({state})"
        told = shell.ends(5, "load", "a.csv", "--table", f"t{number}", "--schema", schema).talk
        assert "files hold values: s AggregateFunction" in told
        assert "--select" not in told
    made = "initializeAggregation('sumState', number::Int64) AS s"
    query = f"SELECT 1::Int64 AS id, {made} FROM numbers(3)"
    native = shell.ok("query", query, "--format", "RowBinaryWithNamesAndTypes").out
    shell.write("s.bin", native.encode("utf-8", "surrogateescape"))
    make(shell, "id Int64, s AggregateFunction(sum, Int64)")
    shell.ok("load", "s.bin", "--format", "RowBinaryWithNamesAndTypes", "--table", "t")
    assert shell.row("SELECT sumMerge(s) FROM t") == [3]


def test_nested_columns_that_are_not_flattened(shell: Shell) -> None:
    shell.write("x.csv", "x\n1\n")
    shell.ok("load", "x.csv")
    shell.ok(
        "query", "CREATE TABLE t (id Int64, n Nested(a UInt8, b String), m Array(Nested(a UInt8))) "
        "ENGINE = MergeTree ORDER BY id SETTINGS flatten_nested = 0", "--write",
    )  # fmt: skip
    shell.write("a.jsonl", '{"id":1,"n":[{"a":1,"b":"x"}],"m":[[{"a":1}]]}\n')
    shell.ok("load", "a.jsonl", "--table", "t")
    assert shell.rows("SELECT id, n.a, n.b, m.a FROM t") == [[1, [1], ["x"], [[1]]]]
    for odd in ('"n":[],"m":[[{"a":256}]]', '"n":[{"a":256,"b":""}],"m":[]'):
        shell.write("odd.jsonl", f'{{"id":2,{odd}}}\n')
        assert (
            'odd.jsonl line 1 column "' in shell.ends(1, "load", "odd.jsonl", "--table", "t").talk
        )


def test_a_type_names_one_column(shell: Shell) -> None:
    shell.write("a.csv", "id,n\n1,2\n")
    said = shell.ends(2, "load", "a.csv", "--type", "n UInt8, m UInt8").talk
    assert "--type n 'UInt8, m UInt8' is more than one type" in said
