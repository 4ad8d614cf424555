"""Tables whose columns are filled in another way than by their names."""

from __future__ import annotations

import re
import shlex

import pytest

from e2e.tools import Shell


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


def test_columns_that_only_serve_others(shell: Shell) -> None:
    make(shell, "id Int64, e Int64 EPHEMERAL, f Int64 DEFAULT e * 2")
    shell.write("a.csv", "id,e\n1,5\n2,6\n")
    told = shell.ends(5, "load", "a.csv", "--table", "t").talk
    assert "What the table computes of e, which it does not store, is to be selected" in told
    select = "* EXCEPT (e), e * 2 AS f"
    shell.ok("load", "a.csv", "--table", "t", "--select", select)
    assert shell.rows("SELECT id, f FROM t ORDER BY id") == [[1, 10], [2, 12]]
