"""Bad input of every kind: what is said, what stays invisible, what lands all the same."""

from __future__ import annotations

import bz2
import functools
import gzip
import http.server
import json
import lzma
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import rowfall as library
from e2e.tools import Done, Shell, made
from lab.http import SilentServer, Web
from lab.seaweed import Seaweed
from rowfall.core.events import AttemptStarted, Event

COLUMNS = "id UInt32, name String, amount UInt32, day Date"
HEAD = "id,name,amount,day\n"
GOOD = (
    HEAD + "1,a,10,2024-01-01\n2,b,20,2024-01-02\n",
    HEAD + "3,c,30,2024-01-03\n4,d,40,2024-01-04\n",
)
GOOD_SUM = [4, 10]
FIRST = HEAD + "7,x,70,2024-01-07\n"
MANY = HEAD + "".join(f"{i % 90},n{i % 7},{i % 50},2024-01-{i % 28 + 1:02}\n" for i in range(26000))
LINES = MANY.count("\n")
MANY_SUM = [LINES - 1, sum(i % 90 for i in range(26000))]


@dataclass(frozen=True, slots=True)
class Case:
    """A bad file among good ones.

    Attributes:
        content: of the bad file.
        says: pieces of the error, all of which have to be there; ``{bad}`` is the file.
        hint: a piece of the hint.
    """

    content: str | bytes
    says: Sequence[str]
    hint: str


def load_bad(
    shell: Shell, case: Case, extension: str, good: Sequence[str | bytes], *args: str
) -> Done:
    """Load good files and a bad one; check exit code, words and that nothing of it is visible."""
    for number, content in enumerate(good):
        shell.write(f"in/good_{number}.{extension}", content)
    bad = shell.write(f"in/bad.{extension}", case.content)
    done = shell.ends(1, "load", f"in/*.{extension}", "--table", "t", "--json", *args)
    report = done.document
    assert (report["outcome"], report["splits_failed"]) == ("partial", 1)
    (failure,) = report["failures"]
    assert failure["split"] == str(bad)
    for piece in (str(bad), *case.says):
        assert piece in failure["error"], failure["error"]
        assert " ".join(piece.split()) in done.talk, "what --json says is said on stderr, too"
    assert case.hint in failure["hint"]
    return done


OUT = "--max-errors"
TEXT = {
    "too few fields": Case(FIRST + "8,y\n", ("line 3 ", "2 fields instead of 4"), OUT),
    "too many fields": Case(FIRST + "8,y,80,2024-01-08,z\n", ("line 3 ", "5 fields inst"), OUT),
    "quote never closed": Case(
        FIRST + '8,"y,80,2024-01-08\n9,z,90,2024-01-09\n',
        ('line 3 column "name"', "a quote is opened here and not closed"),
        "Close the quote",
    ),
    "overflow": Case(
        FIRST + "8,y,4294967296,2024-01-08\n",
        ('line 3 column "amount": "4294967296" does not fit UInt32',),
        "amount UInt64",
    ),
    "negative": Case(
        FIRST + "8,y,-1,2024-01-08\n",
        ('line 3 column "amount": "-1" does not fit UInt32',),
        "amount Int64",
    ),
    "bad date": Case(
        FIRST + "8,y,80,2024-02-30\n",
        ('line 3 column "day": "2024-02-30" does not fit Date',),
        "day String",
    ),
    "text in a number": Case(
        FIRST + "8,y,eighty,2024-01-08\n",
        ('line 3 column "amount": "eighty" does not fit UInt32',),
        "amount String",
    ),
    "text behind a number": Case(
        FIRST + "8,y,80x,2024-01-08\n",
        ('line 3 column "amount": "80x" does not fit UInt32',),
        "amount String",
    ),
    "empty number": Case(
        FIRST + "8,y,,2024-01-08\n",
        ('line 3 column "amount" is empty or NULL, and UInt32 takes no NULL',),
        "Nullable(UInt32)",
    ),
    "NUL in a number": Case(
        FIRST + "8,y,8\0000,2024-01-08\n", ('line 3 column "amount"', "does not fit UInt32"), OUT
    ),
    "invalid UTF-8 in a number": Case(
        FIRST.encode() + b"8,y,\xff80,2024-01-08\n",
        (r'line 3 column "amount": "\xff80" does not fit UInt32',),
        OUT,
    ),
}  # fmt: skip


OPEN = {
    # In a file that is looked at as a whole the value holds the only line breaks.
    "with the rest": ('id,name\n1,a\n2,"open\n3,b\n4,c\n', 'line 3 column "name"'),
    "at the very end": ('id,name\n1,a\n2,"cut off', 'line 3 column "name"'),
    "others with line breaks": (
        "id,name\n" + "".join(f'{n},"a\nb{n}"\n' for n in range(30_000)) + '1,"open\n3,b\n',
        'line 60002 column "name"',
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_rows_behind_a_quote_never_closed_are_not_one_value(shell: Shell, name: str) -> None:
    """The engine's own reader takes all that follows for the value of the last row."""
    text, place = OPEN[name]
    shell.write("in/a.csv", "id,name\n1,a\n")
    bad = shell.write("in/b.csv", text)
    done = shell.ends(1, "load", "in/*.csv", "--table", "t", "--json")
    (failure,) = done.document["failures"]
    assert (
        failure["error"]
        == f"{bad} {place}: a quote is opened here and not closed before the file ends"
    )
    assert done.document["rows"] == 1
    if "--quote none" in failure["hint"] and text.count("\n") < 10:
        again = shell.ok("load", "in/b.csv", "--table", "u", "--quote", "none", "--json")
        assert again.document["rows"] == text.count("\n") + (not text.endswith("\n")) - 1


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.sampled(1)
def test_a_bad_row_fails_its_file_only(shell: Shell, name: str) -> None:
    load_bad(shell, TEXT[name], "csv", GOOD, "--schema", COLUMNS)
    assert shell.row("SELECT count(), sum(id) FROM t") == GOOD_SUM


# The bad line comes behind what is looked at, so that types are inferred without it.
LATE = {
    "overflow": ("5,n1,70000,2024-01-01\n", '"amount": "70000" does not fit Int16', "Int32"),
    "negative": ("5,n1,-70000,2024-01-01\n", '"amount": "-70000" does not fit Int16', "Int32"),
    "bad date": ("5,n1,7,2024-13-01\n", 'column "day": "2024-13-01" does not fit Date', "String"),
    "fraction": ("5,n1,1.5,2024-01-01\n", 'column "amount": "1.5" does not fit Int16', "Float64"),
    "text": ("5,n1,seven,2024-01-01\n", 'column "amount": "seven" does not fit Int16', "String"),
    "empty": ("5,n1,,2024-01-01\n", 'column "amount" is empty', "Nullable(Int16)"),
    "too few fields": ("5,n1\n", "has 2 fields instead of 4", OUT),
    "too many fields": ("5,n1,7,2024-01-01,9\n", "has 5 fields instead of 4", OUT),
    "quote": ('5,"n1,7,2024-01-01\n', 'column "name": a quote is opened here', "Close the quote"),
}


@pytest.mark.parametrize("name", ["with the rest", "at the very end"])
def test_a_quote_never_closed_in_a_short_stream(shell: Shell, name: str) -> None:
    text = OPEN[name][0]
    done = shell.ends(4, "load", "-", "--table", "t", "--format", "csv", stdin=text)
    assert "stdin line 3: a quote is opened here and not closed" in done.talk
    # Letters of values, and doubled ones: an odd number of them.
    fine = 'id,name\n1,5" tall\n2,"y ""z"""\n'
    assert shell.ok("load", "-", "--table", "u", "--json", stdin=fine).document["rows"] == 2


def test_a_quote_never_closed_behind_the_sample_of_stdin(shell: Shell) -> None:
    text = MANY + '5,"n1,7,2024-01-01\n6,n2,8,2024-01-02\n'
    done = shell.ends(1, "load", "-", "--table", "t", "--format", "csv", stdin=text)
    assert f"stdin line {LINES + 1}: a quote is opened here and not closed" in done.talk
    assert "while executing" not in done.talk


@pytest.mark.parametrize("name", LATE)
@pytest.mark.sampled(1)
def test_a_value_that_the_sample_missed(shell: Shell, name: str) -> None:
    line, says, hint = LATE[name]
    bad = Case(MANY + line + "6,n2,8,2024-01-02\n", (f"line {LINES + 1} ", says), hint)
    load_bad(shell, bad, "csv", [MANY], "--narrow")
    assert shell.row("SELECT count(), sum(id) FROM t") == MANY_SUM


def test_a_bad_value_in_a_file_that_was_not_sampled(shell: Shell) -> None:
    for number in range(20):
        shell.write(f"in/f{number:02}.csv", HEAD + f"{number},n,{number},2024-01-01\n")
    files = sorted((shell.folder / "in").glob("*.csv"))
    # Which eight are looked at is not promised: the schema is fixed while the values are small.
    shell.ok("load", "in/*.csv", "--table", "t", "--type", "amount UInt8")
    files[8].write_text(HEAD + "8,n,70000,2024-01-01\n")
    done = shell.ends(1, "load", "in/*.csv", "--table", "t")
    assert f'{files[8]} line 2 column "amount": "70000" does not fit UInt8' in done.talk
    assert "--widen --type 'amount UInt32'" in done.talk


def test_a_file_that_is_corrected_lands_alone(shell: Shell) -> None:
    load_bad(shell, TEXT["text in a number"], "csv", GOOD, "--schema", COLUMNS)
    shell.write("in/bad.csv", FIRST)
    again = shell.ok("load", "in/*.csv", "--table", "t", "--json").document
    assert (again["splits_loaded"], again["splits_skipped"], again["rows"]) == (1, 2, 1)
    assert shell.row("SELECT count(), sum(id) FROM t") == [5, 17]


def test_five_bad_files_and_no_good_one_stop_the_load(shell: Shell) -> None:
    for number in range(12):
        shell.write(f"in/f{number:02}.csv", HEAD + "1,n,ten,2024-01-01\n")
    done = shell.ends(1, "load", "in/*.csv", "--table", "t", "--schema", COLUMNS, "--json")
    assert done.document["outcome"] == "failed"
    assert "not a single file could be loaded" in done.talk
    assert shell.row("SELECT count() FROM t") == [0]


# --- bytes that are not text --------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("late", [False, True], ids=["sampled", "late"])
def test_strings_take_any_byte(shell: Shell, late: bool) -> None:
    start = MANY if late else FIRST
    shell.write("in/a.csv", start.encode() + b"9,\xff\xfe,90,2024-01-09\n9,y\0z,90,2024-01-09\n")
    binary = ("--encoding", "binary")
    shell.ok("load", "in/a.csv", "--table", "t", "--verify", "--schema", COLUMNS, *binary)
    found = shell.rows("SELECT hex(name) FROM t WHERE amount = 90 ORDER BY 1")
    assert found == [["79007A"], ["FFFE"]]
    shell.ok("load", "in/a.csv", "--table", "inferred", *binary)
    assert shell.row("SELECT count() FROM inferred WHERE hex(name) IN ('79007A', 'FFFE')") == [2]


def test_a_binary_file_with_a_csv_name(shell: Shell) -> None:
    """What is sampled has to look alike: nothing is loaded and the odd file is named."""
    shell.write("in/a.csv", GOOD[0])
    shell.write("in/bad.csv", bytes(range(256)) * 40)
    done = shell.ends(2, "load", "in/*.csv", "--table", "t", "--schema", COLUMNS)
    assert "bad.csv" in done.talk
    assert "Load files of different columns on their own" in done.talk


# --- empty, nearly empty, other line ends ---------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "more"),
    [
        ("", [0, 0]),
        (HEAD, [0, 0]),
        (HEAD.rstrip("\n"), [0, 0]),
        ("\ufeff" + FIRST, [1, 7]),
        (FIRST.replace("\n", "\r\n"), [1, 7]),
        (FIRST.rstrip("\n"), [1, 7]),
        (FIRST + '8,"y\nz",80,2024-01-08\n', [2, 15]),
        (HEAD + '"7","x","70","2024-01-07"\n', [1, 7]),
    ],
    ids=[
        "empty", "header only", "header without line end", "byte order mark", "CRLF",
        "no line end", "line break in quotes", "all quoted",
    ],
)  # fmt: skip
@pytest.mark.sampled(1)
def test_unusual_files_load(shell: Shell, content: str, more: list[int]) -> None:
    for number, good in enumerate(GOOD):
        shell.write(f"in/good_{number}.csv", good)
    shell.write("in/odd.csv", content)
    shell.ok("load", "in/*.csv", "--table", "t", "--verify")
    names = shell.row("SELECT groupArray(name) FROM system.columns WHERE table = 't'")
    assert names == [["id", "name", "amount", "day"]]
    wanted = [a + b for a, b in zip(GOOD_SUM, more, strict=True)]
    assert shell.row("SELECT count(), sum(id) FROM t") == wanted


def test_columns_in_another_order(shell: Shell) -> None:
    for number, good in enumerate(GOOD):
        shell.write(f"in/good_{number}.csv", good)
    shell.write("in/odd.csv", "day,amount,id,name\n2024-01-07,70,7,x\n")
    command = ("load", "in/*.csv", "--table", "t", "--format", "CSVWithNames", "--verify")
    shell.ok(*command, "--schema", COLUMNS)
    assert shell.row("SELECT count(), sum(id), sum(amount) FROM t") == [5, 17, 170]


@pytest.mark.parametrize("content", ["", HEAD], ids=["empty", "header only"])
def test_nothing_but_an_empty_file(shell: Shell, content: str) -> None:
    shell.write("in/a.csv", content)
    done = shell.run("load", "in/a.csv", "--table", "t")
    if content:
        assert done.code == 0, done.err
        assert shell.row("SELECT count() FROM t") == [0]
    else:
        assert done.code == 4, done.err
        assert "are empty" in done.talk
        assert not (shell.folder / "rowfall-data").exists()


# --- archives -------------------------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


@functools.cache
def packed(data: bytes, end: str) -> bytes:
    """Compressed as a file of that ending; by the engine where Python cannot."""
    if end == "gz":
        return gzip.compress(data)
    if end == "bz2":
        return bz2.compress(data)
    if end == "xz":
        return lzma.compress(data)
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as nowhere:
        path = Path(folder) / f"x.{end}"
        into = f"INSERT INTO FUNCTION file('{path}', 'RawBLOB', 'x String') "
        library.query(f"{into} SELECT unhex('{data.hex()}')", to=folder, write=True,
                      out_fd=nowhere.fileno())  # fmt: skip
        return path.read_bytes()


LONG = HEAD.encode() + b"".join(
    f"{i},n{i * 7919 % 99991},{i},2024-01-07\n".encode() for i in range(20000)
)
ARCHIVES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "cut gzip": ("gz", lambda: cut(gzip.compress(LONG)), "not a whole gzip file"),
    "gzip without its end": ("gz", lambda: gzip.compress(LONG)[:-4], "not a whole gzip file"),
    "gzip that is not gzip": ("gz", lambda: LONG, "not a whole gzip file"),
    "gzip with a wrong sum": (
        "gz", lambda: gzip.compress(LONG)[:-8] + bytes(4) + gzip.compress(LONG)[-4:],
        "not a whole gzip file",
    ),
    "gzip with rubbish behind": (
        "gz", lambda: gzip.compress(LONG) + b"rubbish", "not a whole gzip file"
    ),
    "cut bzip2": ("bz2", lambda: cut(bz2.compress(LONG)), "bz2 stream is broken: it ends in the"),
    "bzip2 that is not bzip2": ("bz2", lambda: LONG, "bz2 stream is broken"),
    "cut xz": ("xz", lambda: cut(lzma.compress(LONG)), "not a whole xz file"),
    "xz that is not xz": ("xz", lambda: LONG, "not a whole xz file"),
    "cut zstd": ("zst", lambda: cut(packed(LONG, "zst")), "zstd"),
    "zstd that is not zstd": ("zst", lambda: LONG, "not a whole zstd file"),
    "cut lz4": ("lz4", lambda: cut(packed(LONG, "lz4")), "lz4"),
    "lz4 that is not lz4": ("lz4", lambda: LONG, "not a whole lz4 file"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
@pytest.mark.sampled(1)
def test_a_broken_archive_fails_alone(shell: Shell, name: str) -> None:
    end, content, says = ARCHIVES[name]
    good = [packed(text.encode(), end) for text in GOOD]
    bad = Case(content(), (says,), "")
    load_bad(shell, bad, f"csv.{end}", good, "--schema", COLUMNS)
    assert shell.row("SELECT count(), sum(id) FROM t") == GOOD_SUM


def test_a_broken_archive_alone(shell: Shell) -> None:
    # Text alone would be read as what it is, whatever its name says.
    path = shell.write("in/a.csv.gz", b"\x1f\x8b\x08" + gzip.compress(GOOD[0].encode())[:20])
    done = shell.ends(4, "load", "in/a.csv.gz", "--table", "t")
    assert f"{path} is not a whole gzip file" in done.talk
    assert "hint: It was cut off, or is not gzip" in done.talk


# --- JSON -----------------------------------------------------------------------------------------


def obj(i: int, **change: Any) -> str:
    row = {"id": i, "name": "n", "amount": i, "day": "2024-01-01", **change}
    return json.dumps({k: v for k, v in row.items() if v is not ...}) + "\n"


JSON = {
    "breaks off": Case(obj(7) + obj(8)[:20], ("line 2 is not a JSON object",), OUT),
    "not JSON": Case(obj(7) + "hello\n", ("line 2 is not a JSON object: hello",), OUT),
    "an array": Case("[1, 2]\n", ("line 1 is not a JSON object",), OUT),
    "missing key": Case(obj(7) + obj(8, amount=...), ('line 2 column "amount"',), "Nullable"),
    "null": Case(obj(7) + obj(8, amount=None), ('line 2 column "amount"',), "Nullable"),
    "text": Case(
        obj(7) + obj(8, amount="eight"), ('line 2 column "amount": "eight" does not fit',), OUT
    ),
    "overflow": Case(
        obj(7) + obj(8, amount=5 * 10**9), ('line 2 column "amount": "5000000000"',), "UInt64"
    ),
    "bad date": Case(
        obj(7) + obj(8, day="2024-02-30"), ('line 2 column "day": "2024-02-30"',), OUT
    ),
}


@pytest.mark.parametrize("name", JSON)
@pytest.mark.sampled(1)
def test_bad_json_fails_its_file_only(shell: Shell, name: str) -> None:
    good = [obj(1) + obj(2), obj(3) + obj(4)]
    load_bad(shell, JSON[name], "ndjson", good, "--schema", COLUMNS)
    assert shell.row("SELECT count(), sum(id) FROM t") == GOOD_SUM


def test_an_extra_key_behind_the_sample(shell: Shell) -> None:
    many = "".join(obj(i % 100) for i in range(26000))
    bad = Case(many + obj(7, more=1), ("line 26001 has a key that the table lacks",), "--schema")
    load_bad(shell, bad, "ndjson", [many])
    assert shell.row("SELECT count() FROM t") == [26000]


def test_keys_that_differ_within_the_sample_make_nullable_columns(shell: Shell) -> None:
    shell.write("a.ndjson", obj(1) + obj(2, more=5) + obj(3, amount=...))
    shell.ok("load", "a.ndjson", "--verify")
    assert shell.rows("SELECT id, amount, more FROM a ORDER BY id") == [
        [1, 1, None], [2, 2, 5], [3, None, None],
    ]  # fmt: skip


# --- typed formats --------------------------------------------------------------------------------


def parquet(sql: str) -> bytes:
    return made(sql, "Parquet")


def test_a_parquet_file_with_another_schema(shell: Shell) -> None:
    first = parquet("SELECT toUInt32(number + 1) AS id, 'n' AS name FROM numbers(4)")
    names = [f"in/p{n:02}.parquet" for n in range(10)]
    for name in names[:-1]:
        shell.write(name, first)
    others = {  # the table's types are those of the first file: id UInt32, name String
        "other columns": "SELECT toUInt32(1) AS key, 'x' AS label",
        "a column less": "SELECT toUInt32(1) AS id",
        "text": "SELECT 'one' AS id, 'x' AS name",
    }
    for number, (what, sql) in enumerate(others.items()):
        bad = shell.write(names[-1], parquet(sql))
        table = f"t{number}"
        done = shell.ends(1, "load", "in/*.parquet", "--table", table)
        assert f"{bad}" in done.talk, what
        assert "hint:" in done.err
        assert shell.row(f"SELECT count(), sum(id) FROM {table}") == [36, 90], what


def test_a_parquet_file_with_a_wider_type(shell: Shell) -> None:
    shell.write("in/a.parquet", parquet("SELECT toUInt32(number + 1) AS id FROM numbers(4)"))
    bad = shell.write("in/b.parquet", parquet("SELECT toUInt64(5e9) AS id"))
    done = shell.run("load", "in/a.parquet", "in/b.parquet", "--table", "t")
    if done.code == 0:  # a type that takes both is as good as an error
        assert shell.row("SELECT count(), max(id) FROM t") == [5, 5_000_000_000]
    else:
        assert str(bad) in done.talk


def test_a_cut_parquet_file(shell: Shell) -> None:
    whole = parquet("SELECT toUInt32(number) AS id FROM numbers(1000)")
    shell.write("in/good.parquet", whole)
    bad = shell.write("in/bad.parquet", cut(whole))
    done = shell.ends(1, "load", "in/*.parquet", "--table", "t")
    assert str(bad) in done.talk
    assert shell.row("SELECT count() FROM t") == [1000]


# --- column lists ---------------------------------------------------------------------------------


def test_a_column_list_that_does_not_match(shell: Shell) -> None:
    shell.write("a.csv", GOOD[0])
    shell.write("bare.csv", GOOD[0].removeprefix(HEAD))
    cases: Sequence[tuple[tuple[str, ...], str]] = (
        (("a.csv", "--schema", "id UInt32, name String"), "the schema lacks amount, day"),
        (("a.csv", "--schema", COLUMNS + ", more String"), "lacks more, which the schema needs"),
        (("bare.csv", "--schema", "id UInt32, name String"), "the schema has 2 columns"),
        (("a.csv", "--type", "colour String"), "names the column 'colour'"),
        (("a.csv", "--schema", "id UInt33"), "UInt33"),
        (("a.csv", "--schema", "id UInt32,, x"), "make no sense"),
        (("a.csv", "--order-by", "nothing"), "ORDER BY nothing makes no sense"),
        (("a.csv", "--engine", "Nonsense"), "the table cannot be created: Unknown table engine"),
        (("a.csv", "--partition-by", "nothing"), "PARTITION BY nothing makes no sense"),
    )
    for args, says in cases:
        done = shell.ends(2, "load", *args)
        assert says in done.talk, done.err
        assert "hint:" in done.err
    assert shell.row("SELECT count() FROM system.tables WHERE database = 'default'") == [0]
    shell.ok("load", "a.csv")


def test_a_table_that_does_not_match(shell: Shell) -> None:
    shell.write("a.csv", GOOD[0])
    shell.write("bare.csv", GOOD[0].removeprefix(HEAD))
    create = "CREATE TABLE t (id UInt32, label String) ENGINE = MergeTree ORDER BY id"
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", create, "--write")
    named = shell.ends(5, "load", "a.csv", "--table", "t")
    assert "lacks label, which the table needs" in named.talk
    placed = shell.ends(5, "load", "bare.csv", "--table", "t")
    assert "the table takes 2 columns" in placed.talk
    given = shell.ends(2, "load", "a.csv", "--table", "t", "--schema", COLUMNS)
    assert "the table exists already" in given.talk
    assert shell.row("SELECT count() FROM t") == [0]


def test_files_of_different_columns(shell: Shell) -> None:
    shell.write("in/a.csv", GOOD[0])
    shell.write("in/b.csv", "key,label\n1,x\n")
    done = shell.ends(2, "load", "in/*.csv", "--table", "t")
    assert "in/b.csv has another header than" in done.talk
    shell.write("in/b.csv", "key,label\n1,x\n")
    shell.write("pos/a.csv", "1,2\n3,4\n")
    shell.write("pos/b.csv", "1,2,3\n")
    done = shell.ends(2, "load", "pos/*.csv", "--table", "t")
    assert "columns" in done.talk


# --- what cannot be found or read -----------------------------------------------------------------


def test_nothing_matches(shell: Shell) -> None:
    shell.write("in/a.csv", GOOD[0])
    for source, says in (
        ("in/*.parquet", "no file matches"),
        ("nowhere/*.csv", "no file matches"),
        ("in/b.csv", "no such file"),
        ("in/b{1..3}.csv", "no file matches"),
    ):
        done = shell.ends(4, "load", source)
        assert says in done.talk
        assert "hint: The nearest existing folder is" in done.talk
    assert not (shell.folder / "rowfall-data").exists(), "nothing to load, nothing made"


def test_files_that_cannot_be_read(shell: Shell) -> None:
    shell.write("in/a.csv", GOOD[0])
    secret = shell.write("in/b.csv", GOOD[1])
    secret.chmod(0)
    done = shell.powerless("load", "in/*.csv")
    assert done.code == 4, done.err
    assert f"cannot read {secret}: permission denied" in done.talk
    (shell.folder / "closed").mkdir(mode=0)
    done = shell.powerless("load", "closed/*.csv")
    assert done.code == 4, done.err
    assert "cannot list the folder" in done.talk
    (shell.folder / "odd" / "x.csv").mkdir(parents=True)
    done = shell.ends(4, "load", "odd/*.csv")
    assert "It matches 1 folder;" in done.talk
    (shell.folder / "link.csv").symlink_to("nowhere.csv")
    done = shell.ends(4, "load", "link.csv")
    assert "cannot read" in done.talk
    os.mkfifo(shell.folder / "pipe.csv")
    done = shell.ends(4, "load", "pipe.csv")
    assert "rowfall load - <" in done.talk


def test_targets_that_cannot_be_written(shell: Shell) -> None:
    shell.write("a.csv", GOOD[0])
    closed = shell.folder / "closed"
    closed.mkdir(mode=0o555)
    for to in ("closed/data", "closed"):
        done = shell.powerless("load", "a.csv", "--to", to)
        assert done.code == 5, done.err
        assert "cannot write to the target folder" in done.talk
        assert "hint:" in done.err
    done = shell.powerless("load", "a.csv", "--to", "closed/out.csv")
    assert done.code == 5, done.err
    assert "closed" in done.talk
    done = shell.ends(5, "load", "a.csv", "--to", "a.csv/data")
    assert "cannot write to the target folder" in done.talk
    assert not list(closed.iterdir())


# --- S3 and HTTP ----------------------------------------------------------------------------------


def test_s3_errors(shell: Shell, s3: Seaweed, bucket: str) -> None:
    s3.put(bucket, "a.csv", GOOD[0].encode())
    env = s3.env
    missing = shell.ends(4, "load", "s3://no-such-bucket-here/*.csv", env=env)
    assert "no-such-bucket-here" in missing.talk
    assert "bucket" in missing.talk
    assert "hint:" in missing.err
    nothing = shell.ends(4, "load", f"s3://{bucket}/*.parquet", env=env)
    assert "match" in nothing.talk
    key = shell.ends(4, "load", f"s3://{bucket}/b.csv", env=env)
    assert "b.csv" in key.talk
    wrong = shell.ends(
        4, "load", f"s3://{bucket}/*.csv", env={**env, "AWS_SECRET_ACCESS_KEY": "wrong-secret"}
    )
    assert "wrong-secret" not in wrong.err
    assert "hint:" in wrong.err
    anonymous = shell.ends(4, "load", f"s3://{bucket}/*.csv", "--s3-anonymous", env=env)
    assert "hint:" in anonymous.err
    none = shell.ends(4, "load", f"s3://{bucket}/*.csv", "--s3-endpoint", s3.endpoint)
    assert "no S3 credentials found" in none.talk
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        endpoint = shell.ends(
            4, "load", f"s3://{bucket}/*.csv", "--s3-endpoint", f"http://127.0.0.1:{port}", env=env
        )
    assert str(port) in endpoint.talk
    assert "hint:" in endpoint.err
    assert not (shell.folder / "rowfall-data").exists()


class Refusing(http.server.BaseHTTPRequestHandler):
    """Answers 403 to everything."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the base class calls it so

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@pytest.fixture
def refusing() -> Iterator[str]:
    server = SilentServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_http_errors(shell: Shell, web: Web, refusing: str) -> None:
    done = shell.ends(4, "load", web.url("no/such.csv"))
    assert "404" in done.talk or "not found" in done.talk.lower()
    done = shell.ends(4, "load", f"{refusing}/a.csv")
    assert "403" in done.talk or "refus" in done.talk.lower()
    assert "hint:" in done.err
    done = shell.ends(4, "load", "http://127.0.0.1:9/a.csv")
    assert "127.0.0.1:9" in done.talk
    done = shell.ends(4, "load", f"{web.endpoint}/*.csv")
    assert "wildcards (*) are not possible over HTTP" in done.talk


def test_an_object_replaced_during_the_load(
    shell: Shell, s3: Seaweed, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in s3.env.items():
        monkeypatch.setenv(key, value)
    for number, good in enumerate(GOOD):
        s3.put(bucket, f"g{number}.csv", good.encode())
    s3.put(bucket, "bad.csv", FIRST.encode())

    def replace() -> None:
        s3.put(bucket, "bad.csv", (FIRST + "8,y,80,2024-01-08\n").encode())

    report = load_changing(shell, f"s3://{bucket}/*.csv", replace)
    (failure,) = report.failures
    assert failure.split == f"s3://{bucket}/bad.csv"
    assert shell.row("SELECT count(), sum(id) FROM t") == GOOD_SUM


# --- changes during the load ----------------------------------------------------------------------


def load_changing(shell: Shell, source: str, change: Callable[[], None]) -> library.Report:
    """Load into t; ``change`` comes after the listing and before the first byte is read."""
    done: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, AttemptStarted) and not done:
            done.append(event.attempt_id)
            change()

    to = str(shell.folder / "rowfall-data")
    try:
        report = library.load(source, to=to, table="t", on_event=listen)
    except library.LoadError as error:
        report = error.report
    assert done
    return report


CHANGES: dict[str, Callable[[Path], Any]] = {
    "vanishes": Path.unlink,
    "grows": lambda path: path.write_text(path.read_text() + "8,y,80,2024-01-08\n"),
    "shrinks": lambda path: path.write_text(HEAD),
    "is rewritten": lambda path: path.write_text(FIRST.replace("7", "9")),
    "becomes empty": lambda path: path.write_text(""),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "change",
    [
        "vanishes",
        "is rewritten",
        *(pytest.param(c, marks=pytest.mark.long) for c in ("grows", "shrinks", "becomes empty")),
    ],
)
def test_a_file_that_changes_during_the_load(shell: Shell, change: str) -> None:
    for number, good in enumerate(GOOD):
        shell.write(f"in/good_{number}.csv", good)
    bad = shell.write("in/bad.csv", FIRST)
    source = str(shell.folder / "in/*.csv")
    report = load_changing(shell, source, lambda: CHANGES[change](bad))
    assert report.outcome == "partial"
    (failure,) = report.failures
    assert failure.split == str(bad)
    assert ("gone" if change == "vanishes" else "changed") in failure.error
    assert failure.hint is not None
    assert "same command again" in failure.hint
    assert shell.row("SELECT count(), sum(id) FROM t") == GOOD_SUM
    shell.write("in/bad.csv", FIRST)
    library.load(source, to=str(shell.folder / "rowfall-data"), table="t")
    assert shell.row("SELECT count(), sum(id) FROM t") == [5, 17]


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB; where mounting is not allowed there is nothing to show."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(disk)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield disk
    subprocess.run([shutil.which("umount") or "umount", "-l", str(disk)], check=True)


def test_a_full_disk_leaves_a_load_that_goes_on(shell: Shell, small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(48 << 20))
    command = (
        "load", "generate://random?rows=30_000&bytes=1000", "--to", str(small_disk / "data"),
        "--table", "t", "--attempt-bytes", "4MB", "--memory", "1GiB",
        "--no-space-check",
    )  # fmt: skip
    full = shell.run(*command)
    assert full.code == 5, full.err
    assert "hint: Free some space and run the same command again." in full.talk
    filler.unlink()
    shell.ok(*command)
    to = ("--to", str(small_disk / "data"))
    assert shell.row("SELECT count(), uniqExact(document_id) FROM t", *to) == [30_000, 30_000]
    left = shell.rows("SELECT name FROM system.tables WHERE database = 'default'", *to)
    assert left == [["t"]]


def test_an_export_to_a_full_disk_shows_no_file(shell: Shell, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(50 << 20))
    command = ("load", "generate://random?rows=30_000&bytes=1000", "--to",
               str(small_disk / "out" / "part_{n}.csv"))  # fmt: skip
    full = shell.run(*command)
    assert full.code == 5, full.err
    assert [p.name for p in (small_disk / "out").iterdir()] == [".part_{n}.csv.rowfall"]
    (small_disk / "filler").unlink()
    shell.ok(*command)
    (file,) = (small_disk / "out").glob("*.csv")
    assert file.read_bytes().count(b"\n") == 1 + 30_000, "names and rows"


# --- names ----------------------------------------------------------------------------------------

NASTY = (
    "a'; DROP TABLE keep; --",
    'a"; DROP TABLE keep; --',
    "a`; DROP TABLE keep; --",
    "a\\'); DROP TABLE keep; --",
    "a [x] 100% ü, b",
)


def test_names_full_of_quotes(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=10", "--table", "keep")
    for name in NASTY:
        path = f"in/{name}.csv"
        shell.write(path, f'"{name.replace(chr(34), chr(34) * 2)}",n\nx,1\n')
        shell.ok("load", path, "--table", name, "--format", "CSVWithNames", "--quiet")
    shell.ok("load", "in", "--table", "all", "--format", "CSV")
    shell.ok("verify", "last")
    tables = {row[0] for row in shell.rows("SELECT name FROM system.tables WHERE name != ''"
                                           " AND database = 'default'")}  # fmt: skip
    assert tables == {"keep", "all", *NASTY}
    names = {
        r[0]
        for r in shell.rows(
            "SELECT name FROM system.columns WHERE database = 'default'"
            " AND position = 1 AND table NOT IN ('keep', 'all')"
        )
    }
    assert names == set(NASTY)
    assert shell.row("SELECT count() FROM keep") == [10]
    assert shell.row("SELECT count() FROM all") == [2 * len(NASTY)]


def test_sql_in_options_is_no_second_statement(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=10", "--table", "keep")
    shell.write("a.csv", GOOD[0])
    for option in ("--order-by", "--partition-by", "--engine", "--schema"):
        done = shell.ends(2, "load", "a.csv", option, "id; DROP TABLE keep")
        assert "semicolon" in done.talk
    done = shell.ends(2, "load", "a.csv", "--set", "max_threads=1; DROP TABLE keep")
    assert "the engine refuses --set" in done.talk
    assert shell.row("SELECT count() FROM keep") == [10]


# --- leaving bad rows out -------------------------------------------------------------------------

MIXED = HEAD + (
    "5,e,50,2024-01-05\n"
    "6,f,sixty,2024-01-06\n"
    "7,g\n"
    '8,"h\ti",80,2024-01-08\n'
    "9,j,90,2024-02-30\n"
    "10,k,100,2024-01-10,more\n"
)


def rejects(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_bad_rows_are_left_out_up_to_a_number(shell: Shell) -> None:
    shell.write("in/good.csv", GOOD[0])
    bad = shell.write("in/mixed.csv", MIXED)
    command = ("load", "in/*.csv", "--table", "t", "--schema", COLUMNS, "--rejects", "out.tsv")
    few = shell.ends(1, *command, "--max-errors", "3")
    assert "are more than the 3 allowed" in few.talk
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]
    done = shell.ok("load", "in/*.csv", "--table", "t", "--rejects", "out.tsv",
                    "--max-errors", "4", "--json").document  # fmt: skip
    assert (done["rows"], done["rows_rejected"], done["splits_loaded"]) == (2, 4, 1)
    assert shell.row("SELECT count(), sum(id) FROM t") == [4, 16]
    head, *rows = rejects(shell.folder / "out.tsv")
    assert head == ["object", "line", "column", "reason", "text"]
    assert [row[:3] for row in rows] == [
        [str(bad), "3", "amount"], [str(bad), "4", "amount"],
        [str(bad), "6", "day"], [str(bad), "7", ""],
    ]  # fmt: skip
    assert rows[0][4] == "6,f,sixty,2024-01-06"


def test_bad_rows_are_left_out_up_to_a_share(shell: Shell) -> None:
    lines = [f"{i},n,{i},2024-01-01\n" for i in range(1000)]
    for i in range(0, 1000, 100):
        lines[i] = f"{i},n,x{i},2024-01-01\n"
    shell.write("a.csv", HEAD + "".join(lines))
    command = ("load", "a.csv", "--table", "t", "--schema", COLUMNS)
    few = shell.ends(1, *command, "--max-error-ratio", "0.005")
    assert "allowed" in few.talk
    shell.ok(*command, "--max-error-ratio", "0.01", "--verify")  # compares the rows that fit
    assert shell.row("SELECT count() FROM t") == [990]
    assert "equal" in shell.ok("verify", "last").out
    assert len(rejects(shell.folder / "rowfall-rejects.tsv")) == 11


def test_bad_json_rows_are_left_out(shell: Shell) -> None:
    shell.write("a.ndjson", obj(1) + "hello\n" + obj(2, amount="x") + obj(3) + '{"id": 4, "na')
    shell.ok("load", "a.ndjson", "--schema", COLUMNS, "--max-errors", "3", "--rejects", "r.tsv",
             "--verify")  # fmt: skip
    assert shell.row("SELECT count(), sum(id) FROM a") == [2, 4]
    assert [row[1:3] for row in rejects(shell.folder / "r.tsv")[1:]] == [
        ["2", ""], ["3", "amount"], ["5", ""],
    ]  # fmt: skip


def test_an_unclosed_quote_is_as_many_errors_as_it_swallows(shell: Shell) -> None:
    lines = "".join(f"{i},n,{i},2024-01-01\n" for i in range(50))
    shell.write("a.csv", HEAD + '100,"n,1,2024-01-01\n' + lines)
    few = shell.ends(1, "load", "a.csv", "--schema", COLUMNS, "--max-errors", "20")
    assert "20 allowed" in few.talk


def test_a_broken_archive_is_no_bad_row(shell: Shell) -> None:
    shell.write("in/good.csv.gz", gzip.compress(GOOD[0].encode()))
    shell.write("in/bad.csv.gz", cut(gzip.compress(LONG)))
    done = shell.ends(1, "load", "in/*.csv.gz", "--table", "t", "--schema", COLUMNS,
                      "--max-errors", "1000000")  # fmt: skip
    assert "not a whole gzip file" in done.talk
    assert shell.row("SELECT count(), sum(id) FROM t") == [2, 3]


def test_a_rejects_file_that_cannot_be_written(shell: Shell) -> None:
    shell.write("a.csv", MIXED)
    (shell.folder / "r.tsv").mkdir()
    done = shell.ends(5, "load", "a.csv", "--schema", COLUMNS, "--max-errors", "9",
                      "--rejects", "r.tsv")  # fmt: skip
    assert "cannot write the rejects file" in done.talk
    assert "--rejects" in done.talk
