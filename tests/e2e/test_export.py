"""Exports: each row of the source is once in the files, and the report says how many there are."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from e2e.tools import Shell
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer
from lab.process import wait_until
from lab.seaweed import Seaweed

Rows = list[dict[str, Any]]


def of_csv(data: bytes) -> Rows:
    return list(csv.DictReader(io.StringIO(data.decode())))


def of_json(data: bytes) -> Rows:
    return [json.loads(line) for line in data.splitlines()]


def of_parquet(data: bytes) -> Rows:
    rows: Rows = parquet.read_table(io.BytesIO(data)).to_pylist()
    return rows


READERS: dict[str, Callable[[bytes], Rows]] = {
    "csv": of_csv, "jsonl": of_json, "parquet": of_parquet,
    "csv.gz": lambda data: of_csv(gzip.decompress(data)),
}  # fmt: skip


def read(path: Path) -> Rows:
    """Read a file as somebody else would."""
    return READERS[path.name.partition(".")[2]](path.read_bytes())


def values(rows: Rows, name: str = "c0") -> list[str]:
    return sorted(str(row[name]) for row in rows)


def exported(shell: Shell, *args: str, code: int = 0) -> dict[str, Any]:
    done = shell.ends(code, "load", *args, "--json") if code else shell.ok("load", *args, "--json")
    return done.document


def hidden(folder: Path) -> list[str]:
    """Return what is left of attempts."""
    return [p.name for p in folder.rglob(".*") if not p.name.endswith(".rowfall")]


# --- attempts that are cut ------------------------------------------------------------------------

# The decoder declines the second: a quote stands where none belongs.
DECLINED = {"a.csv": "c0\n1.5\n2.5\n", "b.csv": 'c0\n"1"\n"3"\n8231569218"\n"9"\n'}
DECLINED_VALUES = ["1", "1.5", "2.5", "3", '8231569218"', "9"]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("options", [(), ("--max-errors", "5")], ids=["strict", "max-errors"])
def test_a_file_that_the_decoder_declines(
    shell: Shell, name: str, options: tuple[str, ...]
) -> None:
    for source, text in DECLINED.items():
        shell.write(source, text)
    report = exported(shell, "a.csv", "b.csv", "--to", f"out.{name}", *options)
    rows = read(shell.folder / f"out.{name}")
    assert values(rows) == DECLINED_VALUES
    assert report["rows"] == len(rows)
    assert not hidden(shell.folder)


def test_files_of_which_each_output_has_one_that_is_declined(shell: Shell) -> None:
    for n in range(3):
        for source, text in DECLINED.items():
            shell.write(f"in/{n}{source}", text)
    report = exported(shell, "in", "--to", "out/p_{n}.csv", "--files", "3", "--decoder", "always")
    rows = [row for path in (shell.folder / "out").glob("*.csv") for row in read(path)]
    assert values(rows) == sorted(DECLINED_VALUES * 3)
    assert report["rows"] == 18


def test_json_that_the_decoder_declines(shell: Shell) -> None:
    shell.write("a.jsonl", '{"id":1,"v":"x"}\n{"id":2,"v":"y"}\n')
    shell.write("b.jsonl", '{"id":3,"v":"x","v":"y"}\n')  # a key twice
    shell.write("c.jsonl", '{"id":4,"v":"z"}\n')
    report = exported(shell, "a.jsonl", "b.jsonl", "c.jsonl", "--to", "out.csv", code=1)
    assert values(read(shell.folder / "out.csv"), "id") == ["1", "2", "4"]
    assert report["rows"] == 3


def test_a_field_that_is_left_open_is_read_in_another_way(shell: Shell) -> None:
    shell.write("a.csv", 'a,b\n1,"x\ny"\n2,"z"\n')
    shell.write("b.csv", "a,b\n3,p\n4,'q")
    shell.write("c.csv", "a,b\n5,r\n6,s")
    report = exported(shell, "a.csv", "b.csv", "c.csv", "--to", "out.jsonl")
    rows = read(shell.folder / "out.jsonl")
    assert values(rows, "a") == ["1", "2", "3", "4", "5", "6"]
    assert report["rows"] == 6


@pytest.mark.parametrize("broken", [1, 3])
def test_a_broken_file_is_left_out_of_an_output(shell: Shell, broken: int) -> None:
    """What no error names is looked for in halves, each of which is a part of the output."""
    for n in range(5):
        data = gzip.compress(f"id,v\n{n},{n}\n{n + 10},1\n".encode())
        shell.write(f"in/{n}.csv.gz", data[:-12] + b"x" * 12 if n == broken else data)
    report = exported(shell, "in", "--to", "out.csv", code=1)
    rows = read(shell.folder / "out.csv")
    assert report["rows"] == len(rows) == 8
    assert report["splits_failed"] == 1
    assert not {str(broken), str(broken + 10)} & set(values(rows, "id"))
    assert not hidden(shell.folder)


def test_bad_rows_are_counted_and_bounded(shell: Shell) -> None:
    shell.write("bad.csv", "id,v\n1,2\n3,4\nx,5\n6,7\n")
    options = ("--type", "id Int64", "--to", "out.csv")
    report = exported(shell, "bad.csv", *options, "--max-errors", "1")
    assert (report["rows"], report["rows_rejected"]) == (3, 1)
    assert values(read(shell.folder / "out.csv"), "id") == ["1", "3", "6"]
    assert "x,5" in (shell.folder / "rowfall-rejects.tsv").read_text()
    shell.write("worse.csv", "id,v\n1,2\nx,4\ny,5\n6,7\n")
    worse = ("load", "worse.csv", "--type", "id Int64", "--to", "no.csv", "--max-errors", "1")
    done = shell.ends(1, *worse)
    assert "more than the 1 allowed" in done.talk
    assert not (shell.folder / "no.csv").exists()


def test_a_file_of_bad_rows_only_has_none(shell: Shell) -> None:
    shell.write("bad.csv", "id,v\nx,2\ny,4\n")
    report = exported(
        shell, "bad.csv", "--type", "id Int64", "--to", "out.csv", "--max-errors", "5"
    )
    assert (report["rows"], report["rows_rejected"]) == (0, 2)


@pytest.mark.long
def test_an_object_that_holds_a_declined_file(shell: Shell, s3: Seaweed, bucket: str) -> None:
    shell.env |= s3.env
    for source, text in DECLINED.items():
        s3.put(bucket, f"in/{source}", text.encode())
    report = exported(shell, f"s3://{bucket}/in/", "--to", f"s3://{bucket}/out/p.csv")
    rows = of_csv(s3.get(bucket, "out/p.csv"))
    assert values(rows) == DECLINED_VALUES
    assert report["rows"] == len(rows)


@pytest.mark.long
def test_objects_of_an_unfinished_export(shell: Shell, s3: Seaweed, bucket: str) -> None:
    shell.env |= s3.env
    for n in range(6):
        shell.write(f"in/{n}.csv", f"id,v\n{n},a\n{n + 10},b\n")
    to = ("--to", f"s3://{bucket}/out/p_{{n}}.csv")
    exported(shell, "in", *to, "--files", "3")
    assert "holds all of it" in shell.ok("load", "in", *to, "--files", "3").talk
    assert "finished export" in shell.ends(5, "load", "in", *to, "--files", "2").talk
    key = "out/.p_{n}.csv.rowfall"
    manifest = json.loads(s3.get(bucket, key))
    del manifest["outputs"][1:]  # as a crash leaves it
    s3.put(bucket, key, json.dumps(manifest | {"state": "writing"}).encode())
    s3.delete(bucket, "out/p_1.csv")
    exported(shell, "in", *to, "--files", "2")
    keys = [name for name in s3.list(bucket, "out/") if name != key]
    assert keys == ["out/p_0.csv", "out/p_1.csv"]
    rows = [row for name in keys for row in of_csv(s3.get(bucket, name))]
    assert values(rows, "id") == sorted(str(n) for n in (*range(6), *range(10, 16)))


@pytest.mark.long
@pytest.mark.parametrize("how", [(), ("--files", "1"), ("--replace",)])
def test_no_part_of_a_killed_export_stays(
    shell: Shell, s3: Seaweed, bucket: str, how: tuple[str, ...]
) -> None:
    """Parts of an upload that nobody completes are listed by no tool, and paid for."""
    shell.env |= s3.env
    source = "generate://random?rows=4e6&bytes=100&seed=3"
    load = ("load", source, "--to", f"s3://{bucket}/out/p_{{n}}.csv", "--files", "2")
    s3.start_upload(bucket, "out/other.csv")  # somebody else's
    process = shell.cli.start(*load, env=s3.env)
    wait_until(lambda: len(s3.uploads(bucket)) > 1 or process.poll() is not None, 60, "an upload")
    process.kill()
    process.wait()
    assert process.returncode == -9
    assert len(s3.uploads(bucket)) > 1
    shell.ok(*(load[:-2] if "--files" in how else load), *how)
    assert s3.uploads(bucket) == ["out/other.csv"]


@pytest.mark.long
def test_no_object_is_left_of_what_fails(shell: Shell, s3: Seaweed, bucket: str) -> None:
    shell.env |= s3.env
    shell.write("bad.csv", "id,v\n1,2\nx,4\ny,5\n6,7\n")
    options = ("--type", "id Int64", "--max-errors", "1")
    to = f"s3://{bucket}/out/p.csv"
    shell.ends(1, "load", "bad.csv", *options, "--to", to)
    assert s3.list(bucket, "out/") == ["out/.p.csv.rowfall"]
    shell.write("good.csv", "id,v\n1,2\n")
    s3.put(bucket, "out/q.csv", b"mine")
    failed = shell.ends(5, "load", "good.csv", "--to", f"s3://{bucket}/out/q.csv")
    assert "is there already" in failed.talk
    assert s3.get(bucket, "out/q.csv") == b"mine"


# --- tables of databases --------------------------------------------------------------------------


ROWS = 60_000
"""Enough to be cut into ranges."""
TABLE = "SELECT {} AS id, {} AS v"


def check_table(shell: Shell, source: str, files: int) -> None:
    report = exported(shell, source, "--to", "out/t_{n}.csv", "--files", str(files))
    rows = [row for path in (shell.folder / "out").glob("*.csv") for row in read(path)]
    assert report["rows"] == len(rows) == ROWS
    assert sum(int(row["id"]) for row in rows) == ROWS * (ROWS + 1) // 2
    assert all(row["v"] == f"text, {row['id']}" for row in rows)


@pytest.mark.long
@pytest.mark.parametrize("files", [1, 3])
def test_tables_of_postgresql(shell: Shell, postgresql: PostgresqlServer, files: int) -> None:
    shell.env["PGPASSWORD"] = postgresql.password
    postgresql.run(
        f"CREATE TABLE out_{files} (id bigint PRIMARY KEY, v text, pad text, d date)",
        f"INSERT INTO out_{files} SELECT i, 'text, ' || i, repeat('x', 500), "
        f"CASE i WHEN 50000 THEN DATE '1800-01-01' ELSE DATE '2024-01-01' END "
        f"FROM generate_series(1, {ROWS}) i",
        f"ANALYZE out_{files}",
    )
    check_table(shell, f"{postgresql.uri}/out_{files}", files)


@pytest.mark.long
@pytest.mark.parametrize("files", [1, 3])
def test_tables_of_mariadb(shell: Shell, mariadb: MariaDB, files: int) -> None:
    database = f"exports_{files}"
    mariadb.query(
        f"CREATE DATABASE {database}",
        "SET sql_mode = ''",
        f"CREATE TABLE {database}.t (id bigint PRIMARY KEY, v text, pad text, d date)",
        f"INSERT INTO {database}.t SELECT seq, concat('text, ', seq), repeat('x', 500), "
        f"if(seq = 50000, '0000-00-00', '2024-01-01') FROM {database}.seq_1_to_{ROWS}",
        f"ANALYZE TABLE {database}.t",
    )
    check_table(shell, mariadb.uri(f"{database}/t"), files)


# --- verify ---------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["csv", "jsonl", "parquet"])
def test_verify_reads_what_was_written(shell: Shell, name: str) -> None:
    for n in range(4):
        shell.write(f"in/{n}.csv", f"id,v,d\n{n},,2024-01-0{n + 1}\n{n + 10},\\N,1925-01-01\n")
    to = ("--to", f"out/p_{{n}}.{name}", "--files", "2")
    load = exported(shell, "in", *to, "--verify")["load_id"]
    found = shell.ok("verify", load, "--json").document
    assert (found["ok"], found["source_rows"], found["target_rows"]) == (True, 8, 8)
    (shell.folder / f"out/p_1.{name}").unlink()
    assert shell.ends(7, "verify", load, "--json").document["target_rows"] == 4
    exported(shell, "in", *to)
    path = shell.folder / "out/p_0.csv"
    if path.exists():
        path.write_text(path.read_text().replace("11,", "99,"))
        changed = shell.ends(7, "verify", load, "--json").document
        assert (changed["target_rows"], changed["foreign_rows"]) == (8, 1)
        path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
        said = " ".join(shell.ends(7, "verify", load).out.split())
        assert "p_0.csv holds 5 rows, and 4 were written" in said
    shell.write("in/0.csv", "id,v,d\n0,other,2024-01-01\n")
    assert "as it was exported" in shell.ends(4, "verify", load).talk


def test_verify_leaves_bad_rows_out(shell: Shell) -> None:
    shell.write("bad.csv", "id,v\n1,2\n3,4\nx,5\n6,7\n")
    options = ("--type", "id Int64", "--max-errors", "1")
    exported(shell, "bad.csv", *options, "--to", "out.csv", "--verify")


def test_an_export_that_lacks_a_file_does_not_end_well(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault that exports had: a part of an output that overwrites the other."""
    for source, text in DECLINED.items():
        shell.write(source, text)
    monkeypatch.setattr("rowfall.run.pieces.OutputPieces.of", lambda self, work, works: works)
    done = shell.ends(3, "load", "a.csv", "b.csv", "--to", "out.csv")
    assert "the files hold 1 of the 2 objects" in done.talk


# --- data folders of rowfall ----------------------------------------------------------------------


def test_the_tables_of_a_data_folder_are_no_files(shell: Shell) -> None:
    """They are what is read of it; a folder that holds one is loaded without it."""
    shell.write("a.csv", "id,v\n1,x\n2,y\n")
    shell.ok("load", "a.csv", "--table", "my table")
    shell.ok("load", "rowfall-data", "--to", "out.csv")
    assert (shell.folder / "out.csv").read_text() == '"id","v"\n1,"x"\n2,"y"\n'
    (shell.folder / "out.csv").unlink()
    shell.write("b.csv", "id,v\n3,z\n")
    done = shell.ok("load", ".", "--table", "all")
    assert "left out" in done.talk
    assert shell.row("SELECT count() FROM all") == [3]


def test_a_load_waits_for_queries(shell: Shell) -> None:
    """A query in a loop, and one that takes its time: the load begins when it has ended."""
    shell.write("a.csv", "id,v\n1,x\n")
    shell.ok("load", "a.csv", "--table", "t")
    reading = shell.cli.start("query", "SELECT count(), sleepEachRow(1) FROM numbers(3)")
    lock = shell.folder / "rowfall-data" / "rowfall.lock"
    wait_until(lambda: lock.read_text().endswith(" query"), 30, "a query that has the folder")
    shell.write("b.csv", "id,v\n2,y\n")
    shell.ok("load", "b.csv", "--table", "t")
    assert reading.wait(30) == 0, "both have ended well"
    assert shell.row("SELECT count() FROM t") == [2]


@pytest.mark.parametrize("more", [(), ("--decoder", "never")])
def test_what_is_no_number_of_json(shell: Shell, more: tuple[str, ...]) -> None:
    """It is text by whoever writes, also in lists; NULL alone is null, and CSV has words."""
    shell.write("a.csv", "n,v\n1,nan\n2,inf\n3,-inf\n4,0.5\n5,\n")
    type_ = ("--type", "v Nullable(Float64)", *more)
    done = shell.ok("load", "a.csv", "--to", "o.jsonl", *type_, "--verify")
    assert "verified: 5 rows" in done.talk
    lines = (shell.folder / "o.jsonl").read_text().splitlines()
    wanted = ["nan", "inf", "-inf", 0.5, None]
    assert [json.loads(line)["v"] for line in lines] == wanted
    shell.ok("load", "a.csv", "--to", "l.jsonl", *type_, "--select", "n, [v] AS v")
    lines = (shell.folder / "l.jsonl").read_text().splitlines()
    assert [json.loads(line)["v"] for line in lines] == [[value] for value in wanted]
    shell.ok("load", "a.csv", "--to", "o.csv", *type_)
    assert (shell.folder / "o.csv").read_text().splitlines()[1:4] == ["1,nan", "2,inf", "3,-inf"]
