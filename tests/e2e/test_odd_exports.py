"""Text whose values look like something else: the table is what people expect, or it is said.

A command that is printed is pasted, and what it loads is compared, too.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.test_hint_commands import typed
from e2e.tools import Shell

MANY = 25_000


@dataclass(frozen=True, slots=True)
class Odd:
    """A file, the rows of its table, and what is said.

    Attributes:
        said: before the first row; "" for nothing.
        then: rows of the table that the printed command makes; None where none is printed.
    """

    name: str
    text: str
    rows: list[list[Any]]
    said: str = ""
    then: list[list[Any]] | None = None


ODD = {
    "codes with an e": Odd(
        "a.csv", "sku,n\n1234e56,1\n5678e12,2\n,3\n", [["", 3], ["1234e56", 1], ["5678e12", 2]],
        'text as it is written: sku for "5678e12", which may be a code; '
        "--type 'sku Nullable(Float64)' makes numbers of it",
        [[5678e12, 2], [1234e56, 1], [None, 3]],
    ),
    "codes beyond all numbers": Odd(
        "a.csv", "sku,n\n12e560,1\n34e12,2\n", [["12e560", 1], ["34e12", 2]],
        'text as it is written: sku for "12e560", which may be a code',
    ),
    "short codes with an e": Odd(
        "a.csv", "flat,n\n1E5,1\n12,2\n", [[12, 2], [100000, 1]],
        "flat holds 1E5, which is read as the number 100000; --type 'flat String' keeps it",
        [[12, 2], ["1E5", 1]],
    ),
    "numbers as programs write them": Odd(
        "a.csv", "v,w\n1.2e5,1e-7\n3.25,2.5E+3\n1e300,1\n",
        [[3.25, 2500], [1.2e5, 1e-7], [1e300, 1]],
    ),
    "versions": Odd(
        "a.csv", "version,n\n1.10,1\n2.0,2\n", [["1.10", 1], ["2.0", 2]],
    ),
    "sections": Odd(
        "a.csv", "section,n\n1.9,1\n1.10,2\n", [["1.10", 2], ["1.9", 1]],
    ),
    "zeros at the end": Odd(
        "a.csv", "rank,n\n1.9,1\n1.10,2\n", [[1.1, 2], [1.9, 1]],
        "rank holds 1.10, which is read as the number 1.1; --type 'rank String' keeps it",
        [["1.10", 2], ["1.9", 1]],
    ),
    "amounts": Odd("a.csv", "price,n\n1.10,1\n2.50,2\n3.99,3\n", [[1.1, 1], [2.5, 2], [3.99, 3]]),
    "numbers of pandas": Odd("a.csv", "v,n\n1.0,1\n2.25,2\n", [[1, 1], [2.25, 2]]),
    "years of two digits": Odd(
        "a.csv", "day,n\n01/02/23,1\n15/04/99,2\n,3\n", [["", 3], ["01/02/23", 1], ["15/04/99", 2]],
        "text as it is written: day, with years of two digits; --select",
        [[1, "2023-02-01"], [2, "1999-04-15"], [3, None]],
    ),
    "days and months of one digit": Odd(
        "a.csv", "t,n\n1/2/23 09:30,1\n15/4/23 10:00,2\n",
        [["1/2/23 09:30", 1], ["15/4/23 10:00", 2]],
        "text as it is written: t, with years of two digits; --select",
        [[1, "2023-02-01 09:30:00"], [2, "2023-04-15 10:00:00"]],
    ),
    "years of two digits and halves of days": Odd(
        "a.csv", "t,n\n01/02/24 12:00:00 PM,1\n01/13/24 01:00:00 AM,2\n",
        [["01/02/24 12:00:00 PM", 1], ["01/13/24 01:00:00 AM", 2]],
        "text as it is written: t, with years of two digits; --select",
        [[1, "2024-01-02 12:00:00"], [2, "2024-01-13 01:00:00"]],
    ),
    "two-digit years of either order": Odd(
        "a.csv", "day,n\n01/02/23,1\n03/04/23,2\n", [["01/02/23", 1], ["03/04/23", 2]],
        "day, with years of two digits; --select .*%d/%m/%y.* or --select .*%m/%d/%y",
    ),
    "days in two orders": Odd(
        "a.csv", "day,n\n13/04/2023,1\n04/15/2023,2\n", [["04/15/2023", 2], ["13/04/2023", 1]],
        "text as it is written: day, which holds days in two orders, 13/04/2023 and 04/15/2023",
    ),
    "keys in two cases": Odd(
        "a.jsonl", '{"ID":1,"v":2}\n{"id":2,"v":3}\n', [[1, 2, None], [None, 3, 2]],
        "ID and id are the same but for the case of letters, and no row has both",
        [[2, 1], [3, 2]],
    ),
    "keys in two cases of one row": Odd("a.jsonl", '{"ID":1,"id":2}\n', [[1, 2]]),
    "keys of two types": Odd(
        "a.jsonl", '{"ID":1,"v":2}\n{"id":"x","v":3}\n', [[1, 2, None], [None, 3, "x"]],
        "no row has both: each is a column",
    ),
    "record separators as delimiters": Odd("a.csv", "a\x1eb\n1\x1ex\n", [[1, "x"]]),
    "broken bars": Odd("a.csv", 'a¦b\n1¦x\n2¦"y¦z"\n', [[1, "x"], [2, "y¦z"]]),
    "three characters": Odd("a.csv", "a|~|b\n1|~|x\n2|~|y\n", [[1, "x"], [2, "y"]]),
    "carets with a pipe": Odd("a.csv", "a^|^b\n1^|^x\n2^|^y\n", [[1, "x"], [2, "y"]]),
    "paragraph signs": Odd(
        "a.csv", "a§b\n1§x\n2§y\n", [["1§x"], ["2§y"], ["a§b"]],
        "one column only, but § splits most lines into 2: --delimiter '§'", [[1, "x"], [2, "y"]],
    ),
    "line breaks in quotes of TSV": Odd(
        "a.tsv", '"id"\t"text"\n1\t"two\nlines"\n2\t"x"\n', [[1, "two\nlines"], [2, "x"]],
    ),
    "one line break in quotes of TSV": Odd(
        "a.tsv", 'id\ttext\tn\n1\t"say ""hi""\nthere"\t5\n2\tx\t6\n',
        [[1, 'say "hi"\nthere', 5], [2, "x", 6]],
    ),
    "quotes as letters of TSV": Odd(
        "a.tsv", 'id\ttext\n1\t"hello\n2\tworld"\n', [[1, '"hello'], [2, 'world"']],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.sampled(5)
def test_odd_values_are_right_or_said(shell: Shell, name: str) -> None:
    odd = ODD[name]
    shell.write(odd.name, odd.text)
    done = shell.ok("load", odd.name, "--table", "t")
    assert shell.rows("SELECT * FROM t ORDER BY ALL NULLS LAST") == odd.rows
    assert bool(re.search(odd.said, done.err)) if "*" in odd.said else odd.said in done.err, (
        done.err
    )
    assert ("warning" in done.err) == bool(odd.said), done.err
    commands = re.findall(r"if that is wrong: (rowfall .*)", done.err)
    wanted = [c for c in commands if "--header" not in c]
    assert bool(wanted) == (odd.then is not None), done.err
    if odd.then is not None:
        again = typed(shell, wanted[-1])
        assert again.code == 0, f"{wanted[-1]}\n{again.err}"
        assert shell.rows("SELECT * FROM t ORDER BY ALL NULLS LAST") == odd.then
        assert odd.said not in again.err


def test_a_key_without_a_name(shell: Shell) -> None:
    shell.write("a.jsonl", '{"a":1}\n{"":1,"a":2}\n')
    done = shell.ends(4, "load", "a.jsonl", "--table", "t")
    assert 'a.jsonl row 2 has a key "", and no column is called so' in done.talk
    shell.write("b.jsonl", '{"a":1}\n' * MANY + '{"":1,"a":2}\n')
    done = shell.ends(1, "load", "b.jsonl", "--table", "t")
    assert f'b.jsonl line {MANY + 1} has a key that the table lacks: ""' in done.talk
    assert "Leave such keys out with --on-new-column ignore" in done.talk
    shell.ok("load", "b.jsonl", "--table", "t", "--on-new-column", "ignore")
    assert shell.row("SELECT count(), sum(a) FROM t") == [MANY + 1, MANY + 2]


def test_files_with_other_headers_are_loaded_as_the_hint_says(shell: Shell) -> None:
    shell.write("1.csv", "id,name\n1,a\n")
    shell.write("2.csv", "2,b\n")
    shell.write("3.csv", "NAME,Id\nc,3\n")
    shell.ok("load", "1.csv", "--table", "t")
    for name in ("2.csv", "3.csv"):
        done = shell.ends(2, "load", "1.csv", name, "--table", "t")
        hint = re.search(r"by itself into the same --table, with (--.*)\n", done.err)
        assert hint, done.err
        typed(shell, f"rowfall load {name} --table t {hint[1].rstrip('.')}")
    assert shell.rows("SELECT id, name FROM t ORDER BY id") == [[1, "a"], [2, "b"], [3, "c"]]
    # What is no row and no other spelling is a file of other columns.
    shell.write("4.csv", "id,town\n1,Rome\n")
    done = shell.ends(2, "load", "1.csv", "4.csv", "--table", "t")
    assert "Load files of different columns on their own" in done.err


def test_records_without_lines(shell: Shell) -> None:
    shell.write("a.txt", "id\x1fname\x1e1\x1fx\x1e2\x1fy\x1e")
    done = shell.ends(2, "load", "a.txt", "--table", "t")
    assert "a.txt ends its records with \\x1e and has no lines" in done.err
    line = done.err.partition("Make lines of them: ")[2].strip()
    typed(shell, line.replace("NAME", "t"))
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, "x"], [2, "y"]]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_lines_that_end_twice(shell: Shell, pack: Callable[[bytes], bytes]) -> None:
    name = "a.csv" if pack is bytes else "a.csv.gz"
    shell.write(name, pack(b"id,name\r\r\n1,x\r\r\n2,y\r\r\n"))
    done = shell.ends(2, "load", name, "--table", "t")
    assert f"{name} ends its lines with \\r\\r\\n, which is two line ends" in done.err
    line = done.err.partition("Make one of them: ")[2].strip()
    typed(shell, line.replace("NAME", "t"))
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, "x"], [2, "y"]]
