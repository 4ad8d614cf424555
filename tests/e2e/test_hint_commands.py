"""The command of each hint is typed as it is printed, behind the mistake that prints it.

A hint that comes with a service is run beside it, in the test that ``unit/cli/hint_runs.py`` names.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.tools import Done, Shell

CSV = "id,city,n\n1,Oslo,5\n2,Bern,7\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A mistake, and what its hint says.

    Attributes:
        hint: as it stands in the code, {} for what is filled in.
        refused: the command line, which ends with ``code``.
        then: what is typed afterwards, {0} for what was filled in first, as a shell takes it; or
            several command lines.
        files: that are there; ``before`` are commands that were run.
    """

    hint: str
    refused: str
    then: str | tuple[str, ...]
    code: int = 2
    files: Mapping[str, str | bytes] = field(default_factory=lambda: {"a.csv": CSV})
    before: tuple[str, ...] = ()


def _zip(name: str, text: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, text)
    return data.getvalue()


def _tar(name: str, text: str) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    return data.getvalue()


_STATUS = "rowfall status --all lists all loads."
_SETTINGS = "rowfall query 'SELECT name, description FROM system.settings'"
_LINES = "--format LineAsString loads each line as it is. Of a table name the format: --format CSV."
_CUT = "It was cut off, or is not {0}: test it with {0} -t."
_TRUNCATED = {"gzip": "gz", "xz": "xz"}
# Those of others, which a machine may lack.
PROGRAMS = {"unzip", "tar", "iconv", "gzip", "bzip2", "bunzip2", "xz", "zstd", "lz4", "sqlite3"}
_STDIN = "printf 'id,n\\n1,2\\nx,3\\n' |"

CASES = [
    Case("'rowfall bench all' runs all of them, 'rowfall bench --list' shows them.", "bench",
         "rowfall bench --list"),
    Case(_STATUS, "report deadbeef", "rowfall status --all", before=("load a.csv",)),
    Case(_STATUS, "resume", "rowfall status --all", before=("load a.csv",)),
    Case("rowfall report {} says why.", "verify last", "rowfall report {0}",
         files={"a.csv": "id,n\n" + "1,2\n" * 30_000 + "x,y\n"},
         before=("!load a.csv --schema 'id UInt8, n UInt8'",)),
    Case("To load it: rowfall load {}. ", "'my file.csv'", "rowfall load {0}",
         files={"my file.csv": CSV}),
    Case("Name one: rowfall completion bash, zsh or fish.", "completion",
         ("rowfall completion bash", "rowfall completion zsh", "rowfall completion fish")),
    Case("Run it again with --yes: {}", "forget last",
         ("{0}", "rowfall load a.csv"), before=("load a.csv",)),
    Case("Options: rowfall help load.", "load a.csv --to p", "rowfall help load",
         files={"a.csv": CSV, "rowfall.toml": '[connections.p]\nuri = "data"\nthread = 2\n'}),
    Case("Name its target with --to, or make one: rowfall load FILE --table NAME", "init",
         ("rowfall load a.csv --table t", "rowfall init")),
    Case("It is a load: rowfall run {}", "watch a", "rowfall run {0}",
         files={"a.csv": CSV, "rowfall.toml": '[loads.a]\nsource = "a.csv"\n'}),
    Case("It says where rows go and which programs run: chmod o-w {}", "run a",
         "chmod o-w {0} && rowfall run a", before=("--version; chmod o+w rowfall.toml",),
         files={"a.csv": CSV, "rowfall.toml": '[loads.a]\nsource = "a.csv"\n'}),
    Case("To load it: rowfall load {}", "run a.csv", "rowfall load {0}"),
    Case("Take another name: rowfall init --name {}", "init", "rowfall init --name {0}",
         before=("load a.csv", "init")),
    Case("Take letters, digits, '-' and '_': rowfall init --name orders", "init --name '1 x'",
         "rowfall init --name orders", before=("load a.csv",)),
    Case("Name one of files: rowfall status lists the loads.", "init last", "rowfall status",
         before=("load - --table t < a.csv",)),
    Case("Did you mean --to {}? A new folder of that name: --to ./{}", "load a.csv --to prodd",
         ("rowfall load a.csv --to {0}", "rowfall load a.csv --to ./{1}"),
         files={"a.csv": CSV, "rowfall.toml": '[connections.prod]\nuri = "data"\n'}),
    Case("{}Others are converted first: iconv -f {} -t utf-8 FILE | rowfall load -",
         "load a.csv --encoding cp500", "iconv -f {1} -t utf-8 a.csv | rowfall load -",
         files={"a.csv": CSV.encode("cp500")}),
    Case("Check the names; rowfall query 'SHOW TABLES' lists them.", "query 'SELECT * FROM b'",
         "rowfall query 'SHOW TABLES'", code=6, before=("load a.csv",)),
    Case("rowfall query 'SHOW TABLES' lists the tables; CREATE TABLE IF NOT EXISTS leaves one that "
         "is there as it is, and a load adds rows to it: rowfall load SOURCE...",
         "query --write 'CREATE TABLE a (id Int64) ORDER BY id'",
         ("rowfall query 'SHOW TABLES'",
          "rowfall query --write 'CREATE TABLE IF NOT EXISTS a (id Int64) ORDER BY id'"),
         code=5, before=("load a.csv",)),
    Case("Name the files whose rows the table holds: rowfall adopt SOURCE... --table NAME. ",
         "adopt --table a", "rowfall adopt a.csv --table a", before=("load a.csv",)),
    Case("Write --type {}.", "load a.csv --type id:UInt8", "rowfall load a.csv --type {0}"),
    Case("Give at least --memory {}.", "load a.csv --memory 1MB",
         "rowfall load a.csv --memory {0}"),
    Case("{}List them: rowfall query 'SELECT name, description FROM system.settings'.",
         "load a.csv --set max_thread=8", _SETTINGS),
    Case("See its type: rowfall query 'SELECT name, type FROM system.settings'.",
         "load a.csv --set max_block_size=many",
         "rowfall query 'SELECT name, type FROM system.settings'"),
    Case("Give one another name with --rename, or leave it out with --skip {}.",
         "load a.csv --rename n=city", "rowfall load a.csv --skip {0}"),
    Case("Cast what fits, as in {}, and leave out --widen; or load into a new table with "
         "--table NAME.",
         "load b.csv --table t --widen --select 'id, n * 2 AS n'",
         "rowfall load b.csv --table t --select 'id::UInt8 AS id, CAST(n * 2 AS UInt8) AS n'",
         files={"a.csv": "id,n\n1,2\n", "b.csv": "id,n\n3,4\n"},
         before=("load a.csv --table t --schema 'id UInt8, n UInt8'",)),
    Case("{} To read text as the table has it: {}.",
         "load a.csv --schema 'id UInt8, n Nullable(UInt8)' --select 'id, n + 1 AS n'",
         "rowfall load a.csv --schema 'id UInt8, n Nullable(UInt8)' --select 'id, n + 1 AS n' {1}",
         files={"a.csv": "id,n\n1,\n2,\n"}),
    Case("Create the table first with rowfall query, then load into it.",
         "load a.csv --schema 'id UInt8, city String, n UInt8 DEFAULT 3'",
         ("rowfall query --write 'CREATE TABLE a (id UInt8, city String, n UInt8 DEFAULT 3) "
          "ORDER BY id'", "rowfall load a.csv")),
    Case("R writes the names of rows so, without a name of their own: --columns {}.",
         "load a.csv", "rowfall load a.csv --columns {0}",
         files={"a.csv": "speed,dist\n1,4,2\n2,4,10\n3,7,4\n"}),
    Case("{} Name the format with --format; of some members 'data.zip{}**/*.txt'.",
         "load a.zip", ("rowfall load a.zip --format CSV",
                        "rowfall load 'a.zip::**/*.txt' --format CSV --force"),
         code=4, files={"a.zip": _zip("in/x.txt", CSV)}),
    Case("Unpack it first, and load the folder: {}", "load 'a b.zip'",
         ("mkdir FOLDER; {0}", "rowfall load FOLDER --format LineAsString"),
         files={"a b.zip": _zip("a.parquet", "PAR1")}),
    Case("It holds {} with other extensions; name the format with --format to load them all, or "
         "archives by a glob such as '*.zip'.",
         "load in", "rowfall load in --format CSV", code=4, files={"in/a.txt": "1,2\n3,4\n"}),
    Case(_LINES, "load a.log", ("rowfall load a.log --format LineAsString",
                                "rowfall load a.log --format CSV --table t"),
         files={"a.log": "Nov 26 10:00:00 host sshd: ok, fine\nNov 26 10:00:01 host sshd: a, b\n"}),
    Case("--format LineAsString loads each line as it is.", "load b.log",
         "rowfall load b.log --format LineAsString",
         files={"b.log": "Nov 26 10:00:00 host sshd: a\nNov 26 10:00:01 host sshd: a, b, c\n" * 2}),
    Case("Load it on its own with --format {}.", "load a.csv b.csv",
         "rowfall load b.csv --format {0}", code=4,
         before=("load a.csv --to p.parquet", "--version; mv p.parquet b.csv")),
    Case("{} -dc FILE | rowfall load -", "load 'a b.csv.gz'",
         "gzip -dc 'a b.csv.gz' | rowfall load -", code=4,
         files={"a b.csv.gz": gzip.compress(gzip.compress(CSV.encode()))}),
    Case('--encoding {} reads "{}"', "load a.csv", "rowfall load a.csv --encoding {0}", code=4,
         files={"a.csv": b"id,city\n1,\xcc\xee\xf1\xea\xe2\xe0\n2,\xca\xe8\xe5\xe2\n"}),
    Case("{}; --encoding binary loads the bytes as they are.", "load a.csv",
         "rowfall load a.csv --encoding binary", code=4,
         files={"a.csv": b"id,city\n1,\xcc\xee\xf1\xea\xe2\xe0\n2,\xca\xe8\xe5\xe2\n"}),
    Case('Name its encoding: --encoding {} reads "{}"', "load a.csv",
         "rowfall load a.csv --encoding {0}", code=4,
         files={"a.csv": "id,city\n1,Oslo\n2,Bern\n".encode("utf-16-le")}),
    Case("iconv -f {} -t utf-8 FILE | rowfall load - --table NAME", "load a.csv",
         "iconv -f {0} -t utf-8 {1} | rowfall load - --table NAME", code=4,
         files={"a.csv": "id,city\n1,Zürich\n2,Köln\n".encode("cp850")}),
    Case("{} unzip FILE -d FOLDER", "load 'it is.csv'", ("unzip {1} -d FOLDER",
         "rowfall load FOLDER"), code=4, files={"it is.csv": _zip("a.csv", CSV)}),
    Case("{} tar xf FILE", "load 'it is.csv'", ("tar xf {1}", "rowfall load a.csv"),
         code=4, files={"it is.csv": _tar("a.csv", CSV)}),
    Case("Write them to a file, as --to out.csv; rowfall query prints rows.",
         "load a.csv --to -", ("rowfall load a.csv --to out.csv", "rowfall query 'SELECT 1'")),
    Case("{}A folder of that name: --to {}", "load a.csv --to 'my host:8123'",
         "rowfall load a.csv --to {1}"),
    Case("A pipe is loaded through stdin: rowfall load - < PIPE.", "load pipe",
         "cat a.csv > pipe & rowfall load - < pipe", code=4, files={"a.csv": CSV, "pipe": "FIFO"}),
    Case("Unpack it before: {} -dc FILE | rowfall load -",
         "load - --encoding windows-1252 --format CSV < a.csv.zst",
         "zstd -dc a.csv.zst | rowfall load - --encoding windows-1252 --format CSV", code=4,
         before=("--version; zstd -q a.csv",)),
    Case("Give the same options to go on, or begin anew after {}",
         "load a.csv b.csv --table t --format CSVWithNames --delimiter ,",
         ("{0} --yes", "rowfall load a.csv --table t --format CSVWithNames"),
         files={"a.csv": "id,n\n1,2\n", "b.csv": "id,n\n" + "1,2\n" * 30_000 + "x,y\n"},
         before=("!load a.csv b.csv --table t",)),
    Case("Pipe the data into rowfall load once more.", "resume",
         f"{_STDIN} rowfall load - --table t --max-errors 1",
         before=("!load - --table t --schema 'id UInt8, n UInt8' < a.csv",),
         files={"a.csv": "id,n\n1,2\nx,3\n"}),
    Case("{}: --delimiter {}", "load a.csv", "rowfall load a.csv --delimiter {1} --table t",
         code=0, files={"a.csv": "the quick fox\nthe slow dog\na red hen\n"}),
    Case("Say --skip-lines {} if that is so in all files.", "load a.csv",
         "rowfall load a.csv --skip-lines {0}",
         files={"a.csv": "a list\n1,2,x\n2,3,y\n"}),
    *(Case(_CUT.format(name), f"load a.csv.{end} --decoder never", f"!{name} -t a.csv.{end}",
           files={"b.csv": "".join(f"{n * 7919 % 100_003},{n}\n" for n in range(9000))}, code=4,
           before=(f"--version; {name} -c b.csv > c; head -c 5000 c > a.csv.{end}",))
      for name, end in _TRUNCATED.items()),
    Case("Unpack it first (bunzip2); bz2 is for CSV, TSV and JSONEachRow.", "load b.parquet.bz2",
         ("bunzip2 b.parquet.bz2", "rowfall load b.parquet"),
         before=("load a.csv --to b.parquet", "--version; bzip2 b.parquet")),
    Case("Name it as --format MySQLDump.", "load a.sql", "rowfall load a.sql --format MySQLDump",
         code=4, files={"a.sql": "-- MySQL dump 10.13\n\nDROP TABLE IF EXISTS `t`;\n"
                        "CREATE TABLE `t` (\n  `a` int DEFAULT NULL\n) ENGINE=InnoDB;\n\n"
                        "LOCK TABLES `t` WRITE;\n"
                        "INSERT INTO `t` VALUES (1),(2);\nUNLOCK TABLES;\n"}),
]  # fmt: skip


def printed(template: str, err: str) -> list[str] | None:
    """What stands at the places of a template in what was said, as a shell would read it.

    FILE is a place, too: it is filled in where there is one file.
    """
    words = [re.escape(piece) for piece in template.removesuffix(".").split("{}")]
    pattern = "(.*?)".join(words).replace("FILE", "(.*?)")
    pattern += r"\.?$" if template.endswith(("{}", "{}.", "FILE", "FILE.")) else ""
    found = re.search(pattern, err, re.M)
    return None if found is None else list(found.groups())


@pytest.mark.parametrize("case", CASES, ids=[f"{n}" for n in range(len(CASES))])
@pytest.mark.sampled
def test_the_command_of_a_hint(shell: Shell, case: Case) -> None:
    for name, content in case.files.items():
        if content == "FIFO":
            os.mkfifo(shell.folder / name)
        else:
            shell.write(name, content)
    for line in case.before:
        failing = line.startswith("!")
        done = typed(shell, f"rowfall {line.removeprefix('!')}")
        assert (done.code != 0) == failing, done.err
    refused = typed(shell, f"rowfall {case.refused}", SHELL="/bin/tcsh")
    assert refused.code == case.code, refused.err
    filled = printed(case.hint, refused.err)
    assert filled is not None, refused.err
    for line in (case.then,) if isinstance(case.then, str) else case.then:
        failing = line.startswith("!")
        done = typed(shell, line.removeprefix("!").format(*filled))
        assert (done.code != 0) == failing, f"{line}\n{done.out}{done.err}"


def test_the_command_that_looks_at_the_table(shell: Shell) -> None:
    """Whatever the table and the folder are called."""
    shell.write("it's 1.csv", CSV)
    for more in ([], ["--to", "my data"], ["--table", "select"], ["--table", "ünï"]):
        done = shell.ok("load", "it's 1.csv", *more)
        command = re.findall(r"look at it: (rowfall query .*)$", done.err, re.M)[0]
        seen = typed(shell, command)
        assert seen.out == "id\tcity\tn\n1\tOslo\t5\n2\tBern\t7\n", f"{command}\n{seen.err}"


def test_the_command_before_stdin(shell: Shell) -> None:
    shell.write("trips.csv.gz", gzip.compress(CSV.encode()))
    typed(shell, "zcat trips.csv.gz | rowfall load - --table t")
    assert shell.row("SELECT count(), sum(n) FROM t") == [2, 12]


def test_the_commands_for_those_who_know_other_tools(shell: Shell) -> None:
    """What the hints of rowfall.core.other_tools name, with names filled in."""
    shell.write("a.csv", CSV)
    typed(shell, "rowfall load a.csv --limit 1 --table few")
    assert shell.row("SELECT count() FROM few") == [1]
    for line in (
        "rowfall load a.csv --table trips",
        "rowfall load a.csv --table some --where 'cityHash64(id) % 2 = 0'",
        "rowfall load a.csv --to out.parquet",
        "rowfall plan a.csv",
        "rowfall status",
        "rowfall tables",
        "rowfall query 'SHOW TABLES'",
        "rowfall query 'SELECT * FROM trips LIMIT 5'",
        "rowfall query 'DESCRIBE TABLE trips'",
        "rowfall query --write 'DELETE FROM trips WHERE id = 1'",
        "rowfall clean",
    ):
        assert (done := typed(shell, line)).code == 0, f"{line}\n{done.err}"
    assert shell.row("SELECT groupArray(id) FROM trips") == [[2]]
    load = next(line for line in shell.ok("status").out.split("\n") if "default.trips" in line)
    typed(shell, f"rowfall forget {load.split()[0]} --yes")
    typed(shell, "rowfall load a.csv --table trips")
    assert shell.row("SELECT arraySort(groupArray(id)) FROM trips") == [[1, 2, 2]]
    assert typed(shell, "rowfall query --write 'DROP TABLE trips'").code == 0


def typed(shell: Shell, line: str, **variables: str) -> Done:
    """What comes of a command line that is typed into a shell."""
    words = shlex.split(line)
    for name in PROGRAMS & set(words):
        if shutil.which(name) is None:
            pytest.skip(f"there is no {name} here")
    if words[0] == "rowfall" and not re.search(r" [|<&;] |; ", line):
        return shell.run(*words[1:], env=variables)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**shell.cli._environment(None), **shell.env, **variables, "PATH": path}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],  # noqa: S607
        cwd=shell.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)
