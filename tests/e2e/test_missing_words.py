"""Words such as NA are NULL in columns of numbers and times, and text everywhere else."""

from __future__ import annotations

import pytest

from e2e.tools import Shell

# NA is a country, too: Namibia. "NA" in quotes is a text.
TEXT = (
    '"","name","age","land","day"\n1,a,5,DE,2024-01-01\n2,NA,NA,NA,NA\n'
    '3,c,7.5,NA,2024-01-03\n4,"NA",,NA,2024-01-04\n'
)
ROWS = [
    [1, "a", 5.0, "DE", "2024-01-01"], [2, "NA", None, "NA", None],
    [3, "c", 7.5, "NA", "2024-01-03"], [4, "NA", None, "NA", "2024-01-04"],
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "decoder"), [("a.csv", "auto"), ("a.csv", "never"), ("a.tsv", "always")]
)
def test_words_are_null_where_all_else_is_numbers(shell: Shell, name: str, decoder: str) -> None:
    text = TEXT.replace('"NA"', "NA").replace(",", "\t") if name.endswith("tsv") else TEXT
    shell.write(name, text.replace('"', "") if name.endswith("tsv") else text)
    done = shell.ok("load", name, "--decoder", decoder)
    assert "note: NA is NULL in age, day, where all else is a number or a time" in done.talk
    assert "warning" not in done.talk
    assert shell.rows("SELECT * FROM a ORDER BY 1") == ROWS
    assert "Nullable(Float64)" in shell.ok("query", "DESCRIBE a").out


def test_the_option_that_is_named_keeps_the_text(shell: Shell) -> None:
    shell.write("a.csv", TEXT)
    shell.ok("load", "a.csv", "--type", "age String")
    assert shell.rows("SELECT age, day FROM a ORDER BY c1")[1] == ["NA", None]


def test_a_table_that_is_there_decides(shell: Shell) -> None:
    """Text stays as it is written, and a column without NULL refuses the word."""
    shell.ok(
        "query",
        "--write",
        "CREATE TABLE t (n String, v Nullable(Int64)) ENGINE = MergeTree ORDER BY n",
    )
    shell.ok("query", "--write", "CREATE TABLE u (n String, v Int64) ENGINE = MergeTree ORDER BY n")
    shell.write("a.csv", "n,v\n1,5\nNA,NA\n3,7\n")
    shell.ok("load", "a.csv", "--table", "t")
    assert shell.rows("SELECT * FROM t ORDER BY n") == [[1, 5], [3, 7], ["NA", None]]
    done = shell.ends(1, "load", "a.csv", "--table", "u")
    assert 'a.csv line 3 column "v": "NA" does not fit Int64' in done.talk


def test_files_with_another_order_of_columns(shell: Shell) -> None:
    shell.write("in/a.csv", "x,land\n1,DE\nNA,NA\n")
    shell.write("in/b.csv", "land,x\nNA,2\nNO,NA\n")
    shell.ok("load", "in", "--table", "t")
    rows = shell.rows("SELECT x, land FROM t ORDER BY x, land")
    assert rows == [[1, "DE"], [2, "NA"], [None, "NA"], [None, "NO"]]


def test_a_file_that_is_not_seen_as_a_whole(shell: Shell) -> None:
    """What the sample shows holds further on, and what does not is refused by its place."""
    body = "".join(f"{n},{n}.5,{'NA' if n % 2 else n}\n" for n in range(20_000))
    shell.write("a.csv", f"id,w,v\n{body}")
    done = shell.ok("load", "a.csv")
    assert "note: NA is NULL in v, where all else is a number or a time" in done.talk
    assert shell.row("SELECT count(), countIf(v IS NULL) FROM a") == [20_000, 10_000]
    shell.write("b.csv", f"id,w,v\n{body}20000,1,x\n")
    done = shell.ends(1, "load", "b.csv")
    assert 'b.csv line 20002 column "v": "x" does not fit' in done.talk


def test_files_that_are_not_in_the_sample(shell: Shell) -> None:
    """They may hold anything, as what follows in a file that is not seen as a whole."""
    for n in range(20):
        shell.write(f"in/{n:02}.csv", f"id,v\n{n},{'x' if n == 1 else n}\n{n},NA\n")
    done = shell.ok("load", "in", "--table", "t")
    assert "v; --null NA makes numbers and dates of it" in done.talk
    assert shell.row("SELECT count(), countIf(v = 'NA'), countIf(v = 'x') FROM t") == [40, 20, 1]


@pytest.mark.parametrize(
    "text", ["id,v\n1,5\n2,-\n", "id,v\n1,5\n2,NA\n3,x\n", "id,v\n1,?\n2,NA\n"]
)
def test_other_words_are_said(shell: Shell, text: str) -> None:
    shell.write("a.csv", text)
    shell.ok("load", "a.csv")
    assert "String" in shell.ok("query", "DESCRIBE a").out.splitlines()[2]


def test_columns_by_name_and_servers_that_read(
    shell: Shell, request: pytest.FixtureRequest
) -> None:
    """Where text cannot be rewritten it stays as it is, and the option is named."""
    shell.write("in/a.csv", "x,y\n1,DE\nNA,NA\n")
    shell.write("in/b.csv", "x,z\n1,DE\nNA,NA\n")
    done = shell.ok("load", "in", "--table", "t", "--union-by-name")
    assert "--null NA makes numbers and dates of it" in done.talk
    assert shell.row("SELECT count() FROM t WHERE x = 'NA'") == [2]
