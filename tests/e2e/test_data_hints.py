"""Options that hints about data name are pasted as they are printed, and load that data.

``unit/cli/data_hints.py`` lists all such hints; those that are pasted here have no test beside what
they are about.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from e2e.test_hint_commands import typed
from e2e.tools import Shell


@dataclass(frozen=True, slots=True)
class Pasted:
    """A load, and the options that what it says names.

    Attributes:
        load: what is typed; it ends with ``code``.
        said: a pattern of the options, each of which is pasted by itself.
        rows: of the table ``NAME`` then.
    """

    files: Mapping[str, str | bytes]
    load: str
    said: str
    rows: int
    code: int = 1
    found: int = 1
    more: str = field(default="")


CASES = {
    "bytes that are no text of the encoding": Pasted(
        {"a.csv": b"id,s\n1,\xfc\x81\x8d\xff\n2,b\n"}, "load a.csv --encoding shift_jis",
        r"(--encoding (?:windows-1252|binary))", 2, found=2,
    ),
    "rows of keys that hold columns": Pasted(
        {"a.json": '{"a":[1,2],"b":[3,4]}'}, "load a.json", r"(--format JSONColumns)", 2, code=0,
    ),
    "NULL in a key": Pasted(
        {"a.csv": "id,n\n1,2\n,3\n"}, "load a.csv --upsert id",
        r"(--where '[^']+')", 1, code=4, more="--upsert id",
    ),
    "a blank line behind the sample": Pasted(
        {"a.csv": "id,n\n" + "1,2\n" * 30_000 + "\n3,4\n"}, "load a.csv",
        r"(--blank-lines skip)", 30_001,
    ),
    "a key that the table lacks": Pasted(
        {"a.jsonl": '{"a":1}\n' * 30_000 + '{"a":2,"b":[3]}\n'}, "load a.jsonl",
        r"(--on-new-column ignore|--schema '[^']+')", 30_001, found=2,
    ),
    "commas between thousands": Pasted(
        {"a.csv": 'id,n\n1,"68,527.00"\n2,"1,234.50"\n'}, "load a.csv",
        r"(--type '[^']+')", 2, code=0,
    ),
    "tabs that rows lack at their end": Pasted(
        {"a.tsv": "a\tb\tc\n" + "1\t2\t3\n" * 9 + "1\t2\n"}, "load a.tsv",
        r"(--short-rows error)", 9, code=0, more="--max-errors 1",
    ),
    "rows that are longer than most": Pasted(
        {"a.csv": "1,2\n" * 9 + "1,2,3\n"}, "load a.csv --header no",
        r"(--short-rows null)", 10, more="--header no", code=1,
    ),
    "lines about numbers": Pasted(
        {"a.csv": "depth,speed\nkm,km/s\nmodel,x\n" + "1.5,2.5\n2.5,3.5\n" * 9}, "load a.csv",
        r"(--skip-lines 2) reads", 18, code=0,
    ),
    "blanks at the beginning of lines": Pasted(
        {"a.csv": "name,n\n Ann,1\nBob,2\n Eve,3\n"}, "load a.csv",
        r"2 rows; (--blanks trim) leaves", 3, code=0,
    ),
    "lines above a table": Pasted(
        {"a.csv": '"Export of it"\n' + '"Name:","x"\n' * 230 + '\n"n","day","what"\n\n'
         + '"1","2024-01-05","a"\n' * 700}, "load a.csv",
        r"(--skip-lines 232) reads", 700, code=2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(2)
def test_options_that_are_named_load_the_data(shell: Shell, name: str) -> None:
    case = CASES[name]
    for file, content in case.files.items():
        shell.write(file, content)
    done = typed(shell, f"rowfall {case.load}")
    assert done.code == case.code, done.err
    options = re.findall(case.said, " ".join(done.err.split()))
    assert len({*options}) == case.found, done.err
    for number, option in enumerate(options):
        words = shlex.split(f"{case.load.partition(' --')[0]} {option} {case.more}")
        shell.ok(*words, "--table", f"n{number}")
        assert shell.row(f"SELECT count() FROM n{number}") == [case.rows], option


def test_files_of_parquet_with_other_columns(shell: Shell) -> None:
    parquet.write_table(pa.table({"a": [1], "b": [2]}), shell.folder / "a.parquet")
    parquet.write_table(pa.table({"a": [1]}), shell.folder / "b.parquet")
    refused = shell.ends(1, "load", "a.parquet", "b.parquet", "--table", "t")
    assert "--table, or all files into a new one with --union-by-name" in refused.talk
    shell.ok("load", "b.parquet", "--table", "u")
    shell.ok("load", "a.parquet", "b.parquet", "--table", "v", "--union-by-name")
    assert shell.row("SELECT count(), sum(b) FROM v") == [2, 2]


@pytest.mark.parametrize("header", ["id, t, u", "id,t,u"])
def test_blanks_behind_delimiters(shell: Shell, header: str) -> None:
    """Below names without blanks the texts got theirs without a word."""
    shell.write("a.csv", f"{header}\n1, Oslo N, b\n2, Bern S, c\n3, Rome W, d\n")
    done = shell.ok("load", "a.csv")
    command = re.search(r"if that is wrong: (rowfall load .*--blanks trim .*)$", done.err, re.M)
    assert command, done.err
    assert typed(shell, command[1]).code == 0
    assert shell.rows("SELECT t, u FROM a WHERE id = 1") == [["Oslo N", "b"]]
