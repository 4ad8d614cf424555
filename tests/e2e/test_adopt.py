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


@pytest.mark.sampled(2)
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


# --- the ledger of a folder is older than its rows ------------------------------------------------


def kept(shell: Shell, name: str = "rowfall-data") -> Path:
    """A copy of the folder as it is now."""
    to = shell.folder / f"copy-{len(list(shell.folder.iterdir()))}"
    shutil.copytree(shell.folder / name, to, symlinks=True)
    return to


def put_back(shell: Shell, copy: Path, *names: str) -> None:
    data = shell.folder / "rowfall-data"
    for name in names:
        for more in ("", "-wal", "-shm") if name == "rowfall.ledger" else ("",):
            old, now = copy / (name + more), data / (name + more)
            shutil.rmtree(now) if now.is_dir() else now.unlink(missing_ok=True)
            if old.is_dir():
                shutil.copytree(old, now, symlinks=True)
            elif old.exists():
                shutil.copy(old, now)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("load", [(), ("--atomic",)])
def test_an_older_copy_of_the_ledger(shell: Shell, merged: bool, load: tuple[str, ...]) -> None:
    """Merges take the UUIDs of parts, and other people's rows change nothing."""
    files(shell, "a", "b", "c")
    shell.ok("load", "a.csv", "--table", "t", *load)
    copy = kept(shell)
    shell.ok("load", "b.csv", "--table", "t", *load)
    if merged:
        shell.ok("query", "--write", "INSERT INTO t VALUES (1000, 'own')")
        shell.ok("query", "--write", "OPTIMIZE TABLE t FINAL")
    put_back(shell, copy, "rowfall.ledger")
    assert "It would fail" in shell.ok("plan", "[abc].csv", "--table", "t").out
    done = shell.ends(3, "load", "[abc].csv", "--table", "t", *load)
    assert "it is older than the rows, or that of another folder" in done.err
    assert count(shell) == 20 + merged
    shell.ok("adopt", "b.csv", "--table", "t")
    shell.ok("load", "[abc].csv", "--table", "t", *load)
    assert count(shell) == 30 + merged


def test_rows_that_are_older_than_the_ledger(shell: Shell) -> None:
    files(shell, "a", "b")
    shell.ok("load", "a.csv", "--table", "t")
    copy = kept(shell)
    shell.ok("load", "b.csv", "--table", "t")
    later = kept(shell)
    put_back(shell, copy, "store", "metadata")
    done = shell.ends(3, "load", "[ab].csv", "--table", "t")
    assert "the table was set back to an earlier state" in done.err
    assert count(shell) == 10
    # As the hint says: forget what the table lacks, and say that it is right as it is.
    newest = shell.ok("status", "--json").document["loads"][0]["load_id"]
    shell.ok("forget", newest, "--yes")
    shell.ok(*answers(done.err)["load"])
    assert count(shell) == 20
    put_back(shell, later, "store", "metadata", "rowfall.ledger")
    assert "nothing to load" in shell.ok("load", "[ab].csv", "--table", "t").talk


def test_a_folder_that_was_moved_copied_or_renamed_in(shell: Shell) -> None:
    """The ledger comes along, and the mark with the rows."""
    files(shell, "a", "b", "c")
    shell.ok("load", "a.csv", "--table", "t")
    (shell.folder / "rowfall-data").rename(shell.folder / "moved")
    shell.ok("load", "[ab].csv", "--table", "t", "--to", "moved")
    shutil.copytree(shell.folder / "moved", shell.folder / "copied", symlinks=True)
    shell.ok("load", "[abc].csv", "--table", "t", "--to", "copied")
    shell.ok("query", "--write", "RENAME TABLE t TO u", "--to", "copied")
    shell.write("d.csv", "id,name\n7,x\n")
    shell.ok("load", "d.csv", "--table", "u", "--to", "copied")
    shell.ok("query", "--write", "RENAME TABLE u TO t", "--to", "copied")
    assert "nothing to load" in shell.ok("load", "[abc].csv", "--table", "t", "--to", "copied").talk
    assert shell.rows("SELECT count() FROM t", "--to", "copied") == [[31]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["--replace", "--upsert", "--force"])
def test_the_mark_goes_with_every_way_to_load(shell: Shell, way: str) -> None:
    """No later load asks, and an older ledger is noticed after each of them."""
    files(shell, "a", "b")
    more = ("--upsert", "id") if way == "--upsert" else (way,)
    shell.ok("load", "a.csv", "--table", "t")
    copy = kept(shell)
    for _ in range(2):
        shell.ok("load", "[ab].csv", "--table", "t", *more)
        shell.ok("load", "[ab].csv", "--table", "t")
    before = count(shell)
    put_back(shell, copy, "rowfall.ledger")
    shell.ends(3, "load", "[ab].csv", "--table", "t")
    assert count(shell) == before
