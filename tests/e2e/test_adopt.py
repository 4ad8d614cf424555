"""A table with rows that nobody has on record is a question, and its answers are remembered."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
from pathlib import Path

import pytest

from e2e.tools import Shell

COUNT = "SELECT count() FROM t"


def files(shell: Shell, *names: str) -> None:
    for n, name in enumerate(names):
        rows = "".join(f"{100 * n + i},x\n" for i in range(10))
        shell.write(f"{name}.csv", f"id,name\n{rows}")


def count(shell: Shell) -> int:
    ((found,),) = shell.rows(COUNT)
    return int(found)


def answers(hint: str) -> dict[str, list[str]]:
    """The commands that a question names, as a shell takes them, by their first words."""
    lines = [line.strip() for line in hint.splitlines() if ": rowfall " in line]
    commands = [shlex.split(line.partition(": rowfall ")[2]) for line in lines]
    return {words[0]: words for words in commands}


def lose(shell: Shell, how: str) -> None:
    ledger = shell.folder / "rowfall-data/rowfall.ledger"
    for more in ("-wal", "-shm"):
        ledger.with_name(ledger.name + more).unlink(missing_ok=True)
    if how == "deleted":
        ledger.unlink()
    elif how == "empty":
        ledger.write_bytes(b"")
    elif how == "another folder's":
        shell.write("other.csv", "n\n1\n")
        shell.ok("load", "other.csv", "--to", "elsewhere", "--table", "other")
        shutil.copy(shell.folder / "elsewhere/rowfall.ledger", ledger)


@pytest.mark.parametrize("how", ["deleted", "empty", "another folder's"])
def test_a_ledger_that_is_gone(shell: Shell, how: str) -> None:
    files(shell, "a", "b")
    shell.ok("load", "[ab].csv", "--table", "t")
    lose(shell, how)
    plan = shell.ok("plan", "[ab].csv", "--table", "t").out
    assert "It would fail: default.t holds 20 rows that nobody has on record" in " ".join(
        plan.split()
    )
    done = shell.ends(3, "load", "[ab].csv", "--table", "t")
    assert "default.t holds 20 rows that nobody has on record" in done.err
    assert count(shell) == 20
    found = answers(done.err)
    assert shell.ok(*found["adopt"], "--dry-run").out.count(".csv") == 2
    shell.ends(3, "load", "[ab].csv", "--table", "t")
    assert shell.ok(*found["adopt"], "--json").document["splits"] == [
        str(shell.folder / "a.csv"), str(shell.folder / "b.csv")
    ]  # fmt: skip
    assert shell.ok(*found["adopt"], "--json").document["splits"] == []
    assert "nothing to load" in shell.ok("load", "[ab].csv", "--table", "t").talk
    shell.write("c.csv", "id,name\n7,x\n")
    shell.ok("load", "[abc].csv", "--table", "t")
    assert count(shell) == 21
    # The answer can be taken back.
    adopted = [r["load_id"] for r in shell.ok("status", "--json").document["loads"]
               if r["outcome"] == "adopted"]  # fmt: skip
    shell.ok("forget", adopted[0], "--yes")
    shell.ok("load", "[abc].csv", "--table", "t")
    assert count(shell) == 41


def test_the_first_rows_into_a_table_of_one_s_own(shell: Shell) -> None:
    """--force-append is an answer for good: later loads do not ask, and people may insert."""
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", "--write", "CREATE TABLE t (id Int64, name String) ORDER BY id")
    files(shell, "a", "b")
    shell.ok("load", "a.csv", "--table", "t")  # an empty one is nobody's question
    shell.ok("query", "--write", "INSERT INTO t VALUES (1000, 'own')")
    shell.ok("load", "b.csv", "--table", "t")
    assert count(shell) == 21
    shell.ok("query", "--write", "CREATE TABLE u (id Int64, name String) ORDER BY id")
    shell.ok("query", "--write", "INSERT INTO u VALUES (1000, 'own')")
    done = shell.ends(3, "load", "a.csv", "--table", "u", "--type", "name String")
    command = answers(done.err)["load"]
    assert command[:2] == ["load", "a.csv"]
    assert command[-2:] == ["--type", "name String"]
    shell.ok(*command)
    shell.ok("load", "b.csv", "--table", "u")
    assert shell.rows("SELECT count() FROM u") == [[21]]
    assert [r["outcome"] for r in shell.ok("status", "--json").document["loads"]].count("lost") == 0


def test_the_answer_stays_where_the_load_fails(shell: Shell) -> None:
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", "--write", "CREATE TABLE t (id Int64) ORDER BY id")
    shell.ok("query", "--write", "INSERT INTO t VALUES (1)")
    shell.write("bad.csv", "id\nx\n")
    shell.ends(1, "load", "bad.csv", "--table", "t", "--force-append", "--schema", "id Int64")
    shell.write("good.csv", "id\n2\n")
    shell.ok("load", "good.csv", "--table", "t")
    assert count(shell) == 2


def test_by_time(shell: Shell) -> None:
    files(shell, "a", "b", "c")
    shell.ok("load", "[ab].csv", "--table", "t")
    for name, day in (("a", 1), ("b", 2), ("c", 3)):
        moment = day * 86_400
        os.utime(shell.folder / f"{name}.csv", (moment, moment))
    (shell.folder / "rowfall-data/rowfall.ledger").unlink()
    shell.ends(3, "load", "[abc].csv", "--table", "t")
    found = shell.ok("adopt", "[abc].csv", "--table", "t", "--before", "1970-01-03", "--json")
    assert [Path(name).name for name in found.document["splits"]] == ["a.csv", "b.csv"]
    assert found.document["newer"] == 1
    shell.ok("load", "[abc].csv", "--table", "t")
    assert count(shell) == 30
    assert (
        "--before soon is not a time"
        in shell.ends(2, "adopt", "a.csv", "--table", "t", "--before", "soon").err
    )


def test_a_large_file_that_is_cut(shell: Shell) -> None:
    """What is adopted whole is never cut into ranges."""
    text = "id,name\n" + "".join(f"{i},{'x' * 90}\n" for i in range(100_000))
    shell.write("a.csv", text)
    shell.ok("load", "a.csv", "--table", "t")
    (shell.folder / "rowfall-data/rowfall.ledger").unlink()
    shell.ok("adopt", "a.csv", "--table", "t")
    shell.ok("load", "a.csv", "--table", "t")
    assert count(shell) == 100_000


@pytest.mark.parametrize(
    ("to", "code"),
    [(("--to", "out.csv"), 2), (("--to", "null:"), 2), (("--table", "none"), 5)],
)
def test_what_cannot_be_adopted(shell: Shell, to: tuple[str, ...], code: int) -> None:
    files(shell, "a")
    shell.ok("load", "a.csv", "--table", "t")
    assert "hint: " in shell.ends(code, "adopt", "a.csv", *to).err


def test_rows_in_memory_and_stdin(shell: Shell) -> None:
    files(shell, "a")
    shell.ok("load", "a.csv", "--table", "t")
    lose(shell, "deleted")
    done = shell.ends(3, "load", "-", "--format", "CSVWithNames", "--table", "t",
                      stdin="id,name\n7,x\n")  # fmt: skip
    assert list(answers(done.err)) == ["load"]


def test_the_ledger_keeps_no_trace_of_a_question(shell: Shell) -> None:
    files(shell, "a")
    shell.ok("load", "a.csv", "--table", "t")
    lose(shell, "deleted")
    shell.ends(3, "load", "a.csv", "--table", "t")
    with sqlite3.connect(shell.folder / "rowfall-data/rowfall.ledger") as ledger:
        assert ledger.execute("SELECT count(*) FROM load").fetchone() == (0,)
