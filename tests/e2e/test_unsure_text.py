"""What is unsure about text is said before the first row, with the command for the other way."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import sys

import pytest

from e2e.test_hint_commands import typed
from e2e.tools import Shell

_COMMAND = re.compile(r"if that is wrong: (rowfall load .*)$", re.M)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("alice,berlin\nbob,paris\n", [["bob", "paris"]]),
        ("the quick fox\nthe slow dog\na red hen\n",
         [["a", "red", "hen"], ["the", "quick", "fox"], ["the", "slow", "dog"]]),
        ("id\n1\n\n2\n", [[1], [2]]),
        ("time,temp\ns,C\n0,5.5\n1,6.5\n2,7.5\n", [[0, 5.5], [1, 6.5], [2, 7.5]]),
        ("id,n\n1,5\n2,-\n3,7\n", [[1, 5], [2, None], [3, 7]]),
        ("city;year;n\nOslo;2020;1\nBern;2021;2\nRome;2022;3\nTotal;;6\n",
         [["Bern", 2021, 2], ["Oslo", 2020, 1], ["Rome", 2022, 3]]),
        ("city,year,n\nOslo,2020,1\nBern,2021,2\nRome,2022,3\n,,\nSource: the city's office,,\n",
         [["Bern", 2021, 2], ["Oslo", 2020, 1], ["Rome", 2022, 3]]),
        ("id, city\n1, Oslo\n2, Bern\n", [[1, "Oslo"], [2, "Bern"]]),
        ("City,2019\nOslo,5\nBern,7\nRome,6\n",
         [["Bern", 7], ["City", 2019], ["Oslo", 5], ["Rome", 6]]),
    ],
)  # fmt: skip
@pytest.mark.sampled(3)
def test_the_whole_command_repairs(shell: Shell, text: str, rows: list[list[object]]) -> None:
    shell.write("my file.csv", text)
    done = shell.ok("load", "my file.csv", "--to", "a folder", "--table", "t")
    found = _COMMAND.search(done.err)
    assert found, done.err
    assert done.err.index("if that is wrong") < done.err.index("creating")
    again = typed(shell, found[1])
    assert again.code == 0, again.err
    assert shell.rows("SELECT * FROM t ORDER BY 1", "--to", "a folder") == rows


def test_a_first_row_with_decimal_commas_holds_no_units(shell: Shell) -> None:
    shell.write("a.csv", "name;share\nx;0,61\ny;0,5\nz;0,7\nx;0,9\n")
    assert "units" not in shell.ok("load", "a.csv").err


def test_a_sheet_with_titles_and_prices_in_euro_needs_no_option(shell: Shell) -> None:
    """Delimiters behind a title made names of it, and a comma in a price another delimiter."""
    shell.write("a.csv", "Turnover by city,,\n,,\ncity,year,n\nOslo,2020,1\nBern,2021,2\n")
    shell.write("b.csv", "name;price\nTea;€ 12,50\nRice;€ 3,10\n")
    shell.ok("load", "a.csv")
    assert shell.rows("SELECT * FROM a ORDER BY 1") == [["Bern", 2021, 2], ["Oslo", 2020, 1]]
    shell.ok("load", "b.csv")
    assert shell.rows("SELECT * FROM b ORDER BY 1") == [["Rice", 3.1], ["Tea", 12.5]]


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("a.tsv", '"id"\t"city"\n1\t"Oslo"\n2\t"New York"\n', [[1, "Oslo"], [2, "New York"]]),
        ("a.tsv", 'id\tcity\n1\t"Oslo"\n2\tNA\n3\t"Rome"\n', [[1, "Oslo"], [2, "NA"], [3, "Rome"]]),
        ("a.txt", '"id"\t"city"\r\n1\t"Oslo"\r\n2\t"Bern"\r\n', [[1, "Oslo"], [2, "Bern"]]),
        ("a.tsv", 'id\tsaid\n1\t"no"\n2\tyes\n', [[1, '"no"'], [2, "yes"]]),
        ("a.tsv", 'id\tsize\n1\t3" pipe\n2\t4"\n', [[1, '3" pipe'], [2, '4"']]),
        ("a.csv", "id | city | n\n1 | Oslo | 5\n2 | New York | \n",
         [[1, "Oslo", 5], [2, "New York", None]]),
        ("a.csv", "id|city|n\n1| Oslo |5\n2|Bern |6\n", [[1, " Oslo ", 5], [2, "Bern ", 6]]),
    ],
)  # fmt: skip
@pytest.mark.sampled(4)
def test_quotes_and_blanks_that_a_person_would_take_away(
    shell: Shell, name: str, text: str, rows: list[list[object]]
) -> None:
    """TSV as R writes it has quotes around texts, and tables made by hand blanks around pipes."""
    shell.write(name, text)
    shell.ok("load", name, "--table", "t")
    assert shell.rows("SELECT * FROM t ORDER BY 1") == rows


def test_an_array_of_objects_is_json_on_stdin_too(shell: Shell) -> None:
    shell.ok("load", "-", "--table", "t", stdin='[{"id": 1},\n {"id": 2}]\n')
    assert shell.rows("SELECT id FROM t ORDER BY 1") == [[1], [2]]
    done = shell.ok("load", "-", "--table", "u", stdin='{"data": [{"id": 1}, {"id": 2}]}')
    assert "jq -c '.data[]' FILE | rowfall load -" in done.talk


def test_addresses_and_times_are_no_two_columns(shell: Shell) -> None:
    shell.write("a.csv", "http://a.b/c\nhttps://d.e/f\n")
    shell.write("b.csv", "10:30\n9:45\n")
    for name in ("a.csv", "b.csv"):
        assert "splits most lines" not in shell.ok("load", name).talk


LAST = {
    "a total": ("Total,,5", "the last line holds a total", ["String", "Float64"], 60_000),
    "a note": ("Source: Office,,", "one text at most", ["String", "Nullable(Float64)"], 60_000),
    "a word": ("7,a,NA", "--null NA --type 'v Nullable(Float64)' makes numbers of it",
               ["Int64", "Nullable(Float64)"], 60_001),
    "words": ("-,a,-", "text as it is written", ["Nullable(Int64)", "Nullable(Float64)"], 60_001),
    "a text": ("x,y,1.5", 'id for "x" further down', None, 0),
    "zeros": ("007,y,1.5", "", None, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", LAST)
@pytest.mark.sampled(2)
def test_a_last_line_that_makes_text_of_a_column_is_said(shell: Shell, name: str) -> None:
    """One word behind 60,000 numbers made text of them, and nothing was said."""
    last, why, types, rows = LAST[name]
    body = "".join(f"{n},name {n},{n}.5\n" for n in range(60_000))
    shell.write("a.csv", f"id,name,v\n{body}{last}\n")
    done = shell.ok("load", "a.csv", "--table", "t")
    assert why in done.talk if why else "warning" not in done.err
    commands = _COMMAND.findall(done.err)
    if types is None:
        assert not commands
        return
    assert len(commands) == 1
    again = typed(shell, commands[0])
    assert again.code == 0, again.err
    assert shell.row("SELECT count() FROM t") == [rows]
    found = shell.row("SELECT any(toTypeName(id)), any(toTypeName(v)) FROM t")
    assert found == types


def test_a_table_that_was_there_is_not_replaced(shell: Shell) -> None:
    shell.write("a.csv", "x,5\n")
    shell.ok("load", "a.csv", "--table", "t", "--schema", "c1 String, c2 String")
    shell.write("b.csv", "alice,berlin\nbob,paris\n")
    done = shell.ok("load", "b.csv", "--table", "t")
    for command in _COMMAND.findall(done.err):
        assert "--replace" not in command


def asked(shell: Shell, answer: str, *args: str) -> tuple[int, str]:
    """Run on a terminal, answer the question, and return exit code and what was shown."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.folder)
        env = {**os.environ, "HOME": str(shell.cli.home), "TERM": "xterm"}
        os.execve(sys.executable, [sys.executable, "-m", "rowfall", *args], env)  # noqa: S606
    shown = b""
    with contextlib.suppress(OSError):  # EIO: its end
        while piece := os.read(terminal, 4096):
            shown += piece
            if answer and b"[Y/n]" in shown:
                os.write(terminal, answer.encode() + b"\n")
                answer = ""
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_a_person_is_asked(shell: Shell) -> None:
    shell.write("a.csv", "alice,berlin\nbob,paris\n")
    code, shown = asked(shell, "n", "load", "a.csv")
    assert code == 2, shown
    assert "nothing was loaded" in shown
    assert shell.rows("SELECT name FROM system.tables WHERE database = 'default'") == []
    assert "no loads yet" in shell.ok("status").out
    code, shown = asked(shell, "y", "load", "a.csv")
    assert code == 0, shown
    assert shell.row("SELECT count() FROM a") == [2]
    code, shown = asked(shell, "", "load", "a.csv", "--table", "b", "--yes")
    assert (code, "[Y/n]" in shown) == (0, False), shown
