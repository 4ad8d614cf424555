"""Loading as a user does it: sources, formats, targets, schema, settings, repeating."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import rowfall as library
from e2e.tools import Shell, csv, made
from gate import ALL
from lab.http import Web
from lab.process import let_pass, wait_until
from lab.seaweed import Seaweed

COUNT = "SELECT count(), sum(id) FROM t"


def rows(start: int, stop: int) -> str:
    return csv([(i, f"n{i}") for i in range(start, stop)], "id", "name")


def ten_files(shell: Shell) -> None:
    """in/f1.csv .. in/f10.csv: file n holds the one row with id n."""
    for number in range(1, 11):
        shell.write(f"in/f{number}.csv", rows(number, number + 1))


# --- local sources --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "ids"),
    [
        (["in/f3.csv"], [3]),
        (["in/*.csv"], range(1, 11)),
        (["in/f?.csv"], range(1, 10)),
        (["in/f{1..9}.csv"], range(1, 10)),
        (["in/f{2,7}.csv"], [2, 7]),
        (["in/f[1-3].csv"], [1, 2, 3]),
        (["in"], range(1, 11)),
        (["in/f1.csv", "in/f{2..3}.csv", "in/f3.csv"], [1, 2, 3]),
        (["**/*.csv"], [*range(1, 11), 100, 200]),
        (["deep/**/*.csv"], [100, 200]),
        (["deep"], [100, 200]),
    ],
    ids=str,
)
@pytest.mark.sampled(1)
def test_paths_and_globs(shell: Shell, sources: list[str], ids: Sequence[int]) -> None:
    ten_files(shell)
    shell.write("deep/a/b/f100.csv", rows(100, 101))
    shell.write("deep/a/f200.csv", rows(200, 201))
    shell.write("deep/a/_SUCCESS", "")
    shell.write("deep/.hidden/f300.csv", rows(300, 301))
    shell.ok("load", *sources, "--table", "t")
    assert shell.row("SELECT arraySort(groupArray(id)) FROM t") == [list(ids)]


@pytest.mark.parametrize("how", ["CSV", "gzip", "JSON", "Parquet", "Native"])
@pytest.mark.sampled(1)
def test_stdin(shell: Shell, how: str) -> None:
    content = {
        "CSV": lambda: rows(1, 5).encode(),
        "gzip": lambda: gzip.compress(rows(1, 5).encode()),
        "JSON": lambda: b"".join(b'{"id": %d, "name": "x"}\n' % i for i in range(1, 5)),
        "Parquet": lambda: made("SELECT number + 1 AS id, 'n' AS name FROM numbers(4)", "Parquet"),
        "Native": lambda: made("SELECT number + 1 AS id, 'n' AS name FROM numbers(4)", "Native"),
    }[how]()
    path = shell.write("stream", content)
    options = ["--format", "Native"] if how == "Native" else []
    with path.open("rb") as stdin:
        process = shell.cli.start("load", "-", "--table", "t", *options, stdin=stdin.fileno())
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert shell.row(COUNT) == [4, 10]
    # A pipe, not a file that could be read again.
    shell.ok("load", "-", "--table", "u", stdin=rows(1, 3))
    assert shell.row("SELECT count(), sum(id) FROM u") == [2, 3]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["trips", "taxi", "hits", "random"])
def test_generators(shell: Shell, name: str) -> None:
    shell.ok("load", f"generate://{name}?rows=5_000", "--verify")
    shell.ok("load", f"generate://{name}?rows=5e3&seed=2", "--table", "other")
    columns, count = shell.row(
        f"SELECT (SELECT count() FROM system.columns WHERE table = '{name}'), count() FROM {name}"
    )
    assert (columns, count) == ({"trips": 3, "taxi": 51, "hits": 105, "random": 2}[name], 5_000)
    check = "sum(sipHash64(toString(tuple(*))))"
    one, other = shell.row(f"SELECT {check}, (SELECT {check} FROM other) FROM {name}")
    assert one != other, "another seed makes other rows"


def test_trips_are_the_trips_of_the_tests(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=20_000")
    assert shell.row(
        "SELECT min(vehicle_id), max(vehicle_id), arraySort(groupUniqArray(distance_miles)), "
        "countIf(duration_seconds != distance_miles * vehicle_id) FROM trips"
    ) == [1, 10, [1, 5, 10, 25, 50, 75, 100, 125, 150, 175], 0]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl"])
def test_the_beginning_of_a_file_is_asked_for_once(shell: Shell, web: Web, name: str) -> None:
    """Format, compression, text, header, density and ranges are all told by the same bytes."""
    text = "".join(f'{{"id":{n},"name":"a"}}\n' for n in range(5000))
    if "csv" in name:
        text = "id,name\n" + "".join(f"{n},a\n" for n in range(20_000))
    data = text.encode()
    web.put(name, gzip.compress(data) if name.endswith(".gz") else data)
    web.requests.clear()
    shell.ok("plan", web.url(name))
    beginnings = [span for _, _, span in web.requests if span.startswith("bytes=0-")]
    # The engine asks with one byte whether the server gives ranges.
    assert len([span for span in beginnings if span != "bytes=0-0"]) == 1


@pytest.mark.long
def test_http(shell: Shell, web: Web) -> None:
    folder = shell.folder.parent.name
    urls = [web.put(f"{folder}/f{n}.csv.gz", gzip.compress(rows(n, n + 1).encode()))
            for n in (1, 2, 3)]  # fmt: skip
    shell.ok("load", urls[0], "--table", "one", "--verify")
    shell.ok("load", f"{web.endpoint}/{folder}/f{{1..3}}.csv.gz", "--table", "t", "--verify")
    again = shell.ok("load", *urls, "--table", "t", "--json").document
    assert (again["splits_loaded"], again["splits_skipped"]) == (0, 3)
    assert shell.row(COUNT) == [3, 6]


# --- S3 -------------------------------------------------------------------------------------------


def test_s3(shell: Shell, s3: Seaweed, bucket: str) -> None:
    for number in range(1, 4):
        s3.put(
            bucket, f"in/day={number}/f.csv.gz", gzip.compress(rows(number, number + 1).encode())
        )
    source = f"s3://{bucket}/in/**/*.csv.gz"
    shell.ok("load", source, "--table", "t", "--verify", env=s3.env)
    keys = {k: v for k, v in s3.env.items() if k != "AWS_ENDPOINT_URL"}
    shell.ok("load", f"s3://{bucket}/in/day={{1,3}}/f.csv.gz", "--table", "named",
             "--s3-endpoint", s3.endpoint, "--s3-region", "us-east-1", env=keys)  # fmt: skip
    profile = shell.write(
        "aws/credentials",
        f"[default]\n[lab]\naws_access_key_id = {s3.access_key}\n"
        f"aws_secret_access_key = {s3.secret_key}\n",
    )
    config = shell.write("aws/config", f"[profile lab]\nendpoint_url = {s3.endpoint}\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": str(profile), "AWS_CONFIG_FILE": str(config)}
    shell.ok("load", f"s3://{bucket}/in/day=2/f.csv.gz", "--table", "profiled",
             "--s3-profile", "lab", env=files)  # fmt: skip
    assert shell.row(
        "SELECT count(), sum(id), (SELECT sum(id) FROM named), (SELECT sum(id) FROM profiled) "
        "FROM t"
    ) == [3, 6, 4, 2]
    plan = shell.ok("plan", source, "--table", "fresh", "--json", env=s3.env).out
    assert s3.secret_key not in plan
    assert (
        s3.secret_key.encode()
        not in (shell.folder / "rowfall-data" / "rowfall.ledger").read_bytes()
    )


@pytest.mark.long
def test_export_to_s3_and_back(shell: Shell, s3: Seaweed, bucket: str) -> None:
    shell.ok("load", "generate://trips?rows=3_000", env=s3.env)
    for end, options in (("csv.gz", ["--to-format", "CSVWithNames"]), ("parquet", [])):
        to = f"s3://{bucket}/out/part_{{n}}.{end}"
        shell.ok("load", "generate://trips?rows=3_000", "--to", to, "--files", "3", *options,
                 env=s3.env)  # fmt: skip
        manifest = f"out/.part_{{n}}.{end}.rowfall"
        assert s3.list(bucket, "out/") == [manifest, *(f"out/part_{n}.{end}" for n in range(3))]
        table = end.replace(".", "_")
        shell.ok("load", f"s3://{bucket}/out/*.{end}", "--table", table, "--verify", env=s3.env)
        for key in s3.list(bucket, "out/"):
            s3.delete(bucket, key)
    columns = "vehicle_id, distance_miles, duration_seconds"
    sums = [
        shell.row(f"SELECT count(), sum(cityHash64(toUInt32(vehicle_id), toUInt32(distance_miles), "
                  f"toUInt32(duration_seconds))) FROM (SELECT {columns} FROM {table})")
        for table in ("trips", "csv_gz", "parquet")
    ]  # fmt: skip
    assert sums[0] == sums[1] == sums[2]


# --- formats, both ways ---------------------------------------------------------------------------

PACKED = ("", ".gz", ".zst", ".lz4", ".xz", ".bz2")  # the engine reads bzip2, but writes none
# Each pair is two loads; contract/test_pull.py reads all of them in an engine that runs.
SOME = PACKED if ALL else ("", ".lz4")
MATRIX = [
    ("CSV", "csv", PACKED), ("CSVWithNames", "csv", ("", ".gz")), ("TSV", "tsv", SOME),
    ("TSVWithNames", "tsv", ("", ".zst")), ("JSONEachRow", "ndjson", SOME),
    ("Parquet", "parquet", ("",)), ("ORC", "orc", ("",)), ("Avro", "avro", ("",)),
    ("Native", "native", ("", ".gz")),
]  # fmt: skip
# One of each kind: numbers of several widths, text with everything, times, NULLs.
HARD = """SELECT
    toUInt64(number * 1234567890123) AS big, toInt32(-number) AS low, number / 7 AS part,
    concat('a,"b"\\'c\\\\', toString(number), '\\t\\n;', char(240, 159, 140, 141)) AS words,
    toDate32(19000 + number) AS day, toDateTime64(1700000000.123 + number, 3, 'UTC') AS moment,
    if(number % 3 = 0, NULL, toString(number)) AS maybe, if(number % 2, NULL, number) AS some
FROM numbers(500)"""
CHECK = (
    "count(), sum(cityHash64(toString(big), toString(low), toString(part), words, "
    "toString(moment), ifNull(maybe, '-'), ifNull(toString(some), '-')))"
)


@pytest.mark.parametrize(("name", "end", "packed"), MATRIX, ids=[m[0] for m in MATRIX])
@pytest.mark.sampled(1)
def test_every_format_both_ways(
    shell: Shell, name: str, end: str, packed: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(shell.folder / "state"))
    data = str(shell.folder / "rowfall-data")
    shell.write("hard.native", made(HARD, "Native"))
    hard = str(shell.folder / "hard.native")
    library.load(hard, to=data, table="hard")
    create = shell.ok("query", "SHOW CREATE TABLE hard", "--format", "TSVRaw").out
    schema = str(shell.write("hard.sql", create.partition("SETTINGS")[0]))
    tables = []
    for ending in packed:
        pattern = str(shell.folder / f"x_{{n}}.{end}{ending}")
        if ending == ".bz2":
            whole = (shell.folder / f"x_0.{end}").read_bytes()
            shell.write(f"x_0.{end}.bz2", bz2.compress(whole))
        else:
            out = library.load(hard, to=pattern, options=library.Options(to_format=name))
            assert (out.outcome, out.rows) == ("done", 500)
        table = f"t{ending.replace('.', '_')}"
        options = library.Options(format=name, schema_file=schema, verify=True)
        back = library.load(pattern.replace("{n}", "0"), to=data, table=table, options=options)
        assert (back.outcome, back.rows) == ("done", 500), back.failures
        tables.append(table)
    (wanted,) = shell.rows(f"SELECT {CHECK} FROM hard")
    union = " UNION ALL ".join(f"SELECT {CHECK} FROM {table}" for table in tables)
    assert shell.rows(union) == [wanted] * len(packed)
    # Without any option: formats and compressions as the names say, types as the text shows.
    if not name.endswith("WithNames"):
        library.load(str(shell.folder / f"x_0.{end}*"), to=data, table="all")
        assert shell.row("SELECT count() FROM all") == [500 * len(packed)]


def test_parquet_with_snappy_inside(shell: Shell) -> None:
    shell.write("s.parquet", made(
        "SELECT number AS id FROM numbers(1000) "
        "SETTINGS output_format_parquet_compression_method = 'snappy'", "Parquet"))  # fmt: skip
    shell.ok("load", "s.parquet", "--table", "t", "--verify")
    assert shell.row(COUNT) == [1000, 499500]


def test_formats_can_be_said(shell: Shell) -> None:
    shell.write("data.txt", gzip.compress(b"1;a\n2;b\n"))
    done = shell.ok("load", "data.txt", "--table", "found")
    assert "data.txt is read as CSV, as its first bytes look like it" in done.talk
    assert shell.rows("SELECT * FROM found ORDER BY 1") == [[1, "a"], [2, "b"]]
    shell.ok("load", "data.txt", "--format", "CSV", "--compression", "gzip", "--delimiter", ";",
             "--table", "t", "--schema", "id UInt8, name String")  # fmt: skip
    assert shell.row(COUNT) == [2, 3]


def test_mixed_formats_are_listed(shell: Shell) -> None:
    ten_files(shell)
    odd = [shell.write(f"in/{name}", "{}") for name in ("x.ndjson", "y.parquet")]
    done = shell.ends(2, "load", "in")
    assert "10 of 12 files are CSV" in done.talk
    for path in odd:
        assert str(path) in done.talk
    assert "hint: Load each format on its own" in done.talk


# --- targets --------------------------------------------------------------------------------------


def test_export_to_files(shell: Shell) -> None:
    command = ("load", "generate://trips?rows=1_000", "--to", "out/p_{n}.csv", "--files", "12")
    shell.ok(*command)
    files = sorted((shell.folder / "out").glob("*.csv"))
    assert [f.name for f in files] == [f"p_{n:02}.csv" for n in range(12)]
    assert sum(f.read_text().count("\n") - 1 for f in files) == 1_000
    assert all(f.read_text()[1:2].isalpha() for f in files), "each has a header"
    done = shell.ends(2, "load", "generate://trips?rows=10", "--to", "one.csv", "--files", "2")
    assert "{n}" in done.talk
    done = shell.ends(2, "load", "generate://trips?rows=10", "--to", "one.csv.bz2")
    assert "bz2 files can be read, not written" in done.talk


def test_the_schema_of_a_table_makes_another(shell: Shell) -> None:
    shell.ok("load", "generate://trips?rows=10")
    create = shell.ok("query", "SHOW CREATE TABLE trips", "--format", "TSVRaw").out
    shell.write("trips.sql", create)
    shell.ok("load", "generate://trips?rows=10", "--to", "one.csv")
    shell.ok("load", "one.csv", "--table", "more", "--schema-file", "trips.sql")


def test_null_keeps_nothing(shell: Shell) -> None:
    document = shell.ok("load", "generate://trips?rows=10_000", "--to", "null:", "--json").document
    assert document["rows"] == 10_000
    assert document["table"] == ""
    assert not (shell.folder / "rowfall-data").exists()
    again = shell.ok("load", "generate://trips?rows=10_000", "--to", "null:", "--json").document
    assert again["rows"] == 10_000, "nothing is kept, so nothing is skipped"


def test_a_database_in_the_table_name(shell: Shell) -> None:
    shell.write("a.csv", rows(1, 4))
    shell.ok("load", "a.csv", "--table", "sales.t", "--to", "elsewhere")
    assert shell.row("SELECT count() FROM sales.t", "--to", "elsewhere") == [3]


@pytest.mark.long
def test_a_file_with_the_name_of_the_table(shell: Shell) -> None:
    """The embedded engine takes a file of the current folder for a table of that name."""
    shell.write("trips", "no table at all\n")
    shell.write("a.csv", rows(1, 4))
    shell.ok("plan", "a.csv", "--table", "trips")
    for _ in range(2):
        shell.ok("load", "a.csv", "--table", "trips")
        assert shell.row("SELECT count(), sum(id) FROM trips") == [3, 6]
    # A query's own words: there, a relative name is a file of the user's folder.
    assert shell.row("SELECT count() FROM file('a.csv', 'CSVWithNames')") == [3]


# --- schema ---------------------------------------------------------------------------------------


def types(shell: Shell, table: str) -> dict[str, str]:
    found = shell.rows(f"SELECT name, type FROM system.columns WHERE table = '{table}'")
    return {str(name): str(type_) for name, type_ in found}


def test_an_existing_table_wins(shell: Shell) -> None:
    shell.write("named.csv", "name,id\nx,1\ny,2\n")
    shell.write("bare.csv", "3,z\n4,\n")
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", "CREATE TABLE t (id Int64, name Nullable(String), at DateTime DEFAULT 7) "
             "ENGINE = MergeTree ORDER BY id", "--write")  # fmt: skip
    shell.ok("load", "named.csv", "--table", "t", "--verify")
    shell.ok("load", "bare.csv", "--table", "t", "--verify")
    assert shell.rows("SELECT id, ifNull(name, '-'), toUInt32(at) FROM t ORDER BY id") == [
        [1, "x", 7], [2, "y", 7], [3, "z", 7], [4, "-", 7],
    ]  # fmt: skip
    assert types(shell, "t")["id"] == "Int64"


def test_schema_options(shell: Shell) -> None:
    shell.write("a.csv", "id,name,day\n1,x,2024-01-01\n2,y,2024-02-01\n")
    shell.ok("load", "a.csv", "--table", "plain")
    shell.ok("load", "a.csv", "--table", "listed", "--schema",
             "id UInt64, name LowCardinality(String), day Date32")  # fmt: skip
    shell.write("list.sql", "id Int16,\n  name String, -- a comment\n  day String\n")
    shell.ok("load", "a.csv", "--table", "filed", "--schema-file", "list.sql")
    shell.write(
        "create.sql",
        "CREATE TABLE x (id UInt32, name String, day Date) ENGINE = ReplacingMergeTree\n"
        "PARTITION BY toYYYYMM(day) ORDER BY (day, id);\n",
    )
    shell.ok("load", "a.csv", "--table", "created", "--schema-file", "create.sql")
    shell.ok("load", "a.csv", "--table", "typed", "--type", "id Decimal(9, 2)", "--type",
             "name FixedString(3)", "--order-by", "(name, id)", "--partition-by", "toYear(day)",
             "--engine", "ReplacingMergeTree")  # fmt: skip
    assert types(shell, "plain") == {"id": "Int64", "name": "String", "day": "Date"}
    assert types(shell, "listed")["name"] == "LowCardinality(String)"
    assert types(shell, "filed") == {"id": "Int16", "name": "String", "day": "String"}
    assert types(shell, "typed") == {
        "id": "Decimal(9, 2)", "name": "FixedString(3)", "day": "Date"
    }  # fmt: skip
    assert shell.rows("SELECT name, engine, sorting_key, partition_key, total_rows "
                      "FROM system.tables WHERE name IN ('created', 'typed') ORDER BY name") == [
        ["created", "ReplacingMergeTree", "day, id", "toYYYYMM(day)", 2],
        ["typed", "ReplacingMergeTree", "name, id", "toYear(day)", 2],
    ]  # fmt: skip


# --- again ----------------------------------------------------------------------------------------


def test_only_what_is_new_is_loaded(shell: Shell) -> None:
    ten_files(shell)
    first = shell.ok("load", "in/*.csv", "--table", "t", "--json").document
    assert (first["splits"], first["splits_loaded"], first["rows"]) == (10, 10, 10)
    shell.write("in/f11.csv", rows(11, 12))
    more = shell.ok("load", "in/*.csv", "--table", "t", "--json").document
    assert (more["splits_loaded"], more["splits_skipped"], more["rows"]) == (1, 10, 1)
    none = shell.ok("load", "in", "--table", "t")
    assert "nothing to load: all 11 files are loaded already" in none.talk
    assert shell.row(COUNT) == [11, 66]
    shell.ok("load", "in", "--table", "t", "--force")
    assert shell.row(COUNT) == [22, 132]
    shell.ok("load", "in", "--table", "t", "--replace")
    assert shell.row(COUNT) == [11, 66]
    shell.ok("query", "DROP TABLE t", "--write")
    again = shell.ok("load", "in", "--table", "t")
    assert "was dropped since the last load" in again.talk
    assert shell.row(COUNT) == [11, 66]


def test_verify_last(shell: Shell) -> None:
    ten_files(shell)
    shell.ok("load", "in/*.csv", "--table", "t")
    document = shell.ok("verify", "last", "--json").document
    assert document["rowfall_verification"] == 2
    assert (document["ok"], document["source_rows"], document["target_rows"]) == (True, 10, 10)
    assert document["source_checksum"] == document["target_checksum"]
    assert [(s["source_rows"], s["loaded_rows"]) for s in document["splits"]] == [(1, 1)] * 10
    total = sum(int(s["source_checksum"], 16) for s in document["splits"])
    assert document["source_checksum"] == f"{total % 2**64:016x}"
    shell.ok("query", "ALTER TABLE t UPDATE name = 'changed' WHERE id = 3 "
             "SETTINGS mutations_sync = 2", "--write")  # fmt: skip
    differ = shell.ends(7, "verify", "last")
    assert "differ" in differ.out.lower()
    document = shell.ends(7, "verify", "last", "--json").document
    loaded = {Path(s["split"]).name: s["loaded_rows"] for s in document["splits"]}
    assert (loaded.pop("f3.csv"), set(loaded.values())) == (0, {1})
    assert document["foreign_rows"] == 1


def test_verify_says_which_files_are_short(shell: Shell) -> None:
    shell.write("in/a.csv", "id,x\n1,own\n2,own\n3,both\n")
    shell.write("in/b.csv", "id,x\n4,own\n3,both\n5,own\n")
    shell.write("in/c.csv", "id,x\n6,own\n")
    shell.ok("load", "in/*.csv", "--table", "t")

    def loaded() -> list[int | None]:
        return [
            s["loaded_rows"] for s in shell.ends(7, "verify", "last", "--json").document["splits"]
        ]

    shell.ok("query", "INSERT INTO t VALUES (4, 'own'), (4, 'own')", "--write")
    assert loaded() == [3, 5, 1]
    shell.ok("query", "ALTER TABLE t DELETE WHERE id = 6 SETTINGS mutations_sync = 2", "--write")
    assert loaded() == [3, 5, 0]
    assert "c.csv" in shell.ends(7, "verify", "last").out
    shell.ok("query", "INSERT INTO t VALUES (3, 'both')", "--write")
    assert loaded() == [None, None, 0], "the row is in two files"


@pytest.mark.long
def test_verify_counts_where_rows_are_collapsed_or_mixed(shell: Shell) -> None:
    shell.write("in/a.csv", "id,x\n1,a\n1,b\n2,c\n")
    shell.write("in/b.csv", "id,x\n2,d\n3,e\n")
    engine = ("--engine", "ReplacingMergeTree", "--order-by", "id")
    shell.ok("load", "in/*.csv", "--table", "t", *engine)
    shell.ok("query", "OPTIMIZE TABLE t FINAL", "--write")
    assert shell.row("SELECT count() FROM t") == [3]
    document = shell.ok("verify", "last", "--json").document
    assert (document["source_rows"], document["target_rows"]) == (5, 5)
    assert [s["loaded_rows"] for s in document["splits"]] == [3, 2]
    assert "ReplacingMergeTree makes fewer rows of them" in document["scope"]
    assert document["target_checksum"] == ""
    # A file that has changed since is another source than the one that was loaded.
    shell.write("more/a.csv", "id,x\n7,a\n8,b\n")
    shell.write("more/b.csv", "id,x\n9,a\n")
    shell.ok("load", "in/*.csv", "--table", "two", "--order-by", "id")
    shell.ok("load", "more/*.csv", "--table", "two")
    document = shell.ok("verify", "last", "--json").document
    assert (document["source_rows"], document["target_rows"]) == (3, 3)
    assert "also holds 2 files of other loads" in document["scope"]


# --- plan and reports -----------------------------------------------------------------------------


def listing(folder: Path) -> set[str]:
    """Files that are rowfall's or a table's; the engine's own logs and status come and go."""
    engine = ("status", "tmp", "preprocessed_configs", "store/", "access", "user_files")
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return {name for name in found if not name.startswith(engine)}


def test_plan_touches_nothing(shell: Shell) -> None:
    ten_files(shell)
    text = shell.ok("plan", "in/*.csv", "--table", "t").out
    assert "CREATE TABLE" in text
    shell.ok("plan", "in/*.csv", "--to", "null:")
    shell.ok("plan", "generate://trips?rows=100", "--to", "s/p_{n}.csv", "--files", "2")
    assert not (shell.folder / "rowfall-data").exists()
    assert not (shell.folder / "s").exists()
    assert sorted(p.name for p in shell.folder.iterdir()) == ["in"]
    shell.ok("load", "in/f1.csv", "--table", "t")
    before = listing(shell.folder / "rowfall-data")
    document = shell.ok("plan", "in/*.csv", "--table", "t", "--json").document
    assert document["loaded"] == 1
    assert listing(shell.folder / "rowfall-data") == before
    assert shell.rows("SELECT name, total_rows FROM system.tables WHERE database = 'default'") == [
        ["t", 1]
    ]


def test_the_sql_of_a_plan_can_be_pasted(shell: Shell) -> None:
    ten_files(shell)
    document = shell.ok("plan", "in/f{1..3}.csv", "--table", "t", "--json").document
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", document["ddl"], "--write")
    shell.ok("query", document["example"], "--write")
    assert shell.row(COUNT) == [3, 6]


def documented(page: str) -> dict[str, set[str]]:
    """Fields of every table of the reference of JSON documents, by heading."""
    fields: dict[str, set[str]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("| `"):
            fields.setdefault(heading, set()).add(line.split("`")[1])
    return fields


def test_documents_hold_what_is_documented(shell: Shell) -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
    fields = documented(page.read_text())
    ten_files(shell)
    plan = shell.ok("plan", "in/*.csv", "--table", "t", "--json", "--all").document
    assert set(plan) == fields["rowfall_plan"]
    for part in ("encoding", "schema", "listing", "forecast", "facts"):
        assert set(plan[part]) == fields[part], part
    ones = {
        "columns": plan["schema"]["columns"][0],
        "groups": plan["groups"][0],
        "settings": plan["settings"][0],
        "all": plan["listing"]["all"][0],
    }
    for part, one in ones.items():
        assert set(one) <= fields[part], part
    shell.write("in/bad.csv", "id,name\nx,y\n")
    report = shell.ends(1, "load", "in/*.csv", "--table", "t", "--json", "--schema",
                        "id UInt8, name String").document  # fmt: skip
    assert set(report) == fields["rowfall_report"]
    assert set(report["failures"][0]) == fields["failures"]
    assert (report["rowfall_report"], plan["rowfall_plan"]) == (2, 3)
    assert (report["outcome"], report["rows"], report["splits_failed"]) == ("partial", 10, 1)
    known = shell.ok("status", "--json").document
    assert set(known) == fields["rowfall_loads"]
    assert [load["load_id"] for load in known["loads"]] == [report["load_id"]]
    same = shell.ok("report", report["load_id"][:6], "--json").document
    assert same == report
    assert shell.ok("status", "last", "--json").document == report
    assert report["load_id"][:8] in shell.ok("status").out
    assert "in/bad.csv" in shell.ok("report", "last").out
    rows_ = json.loads(shell.ok("query", "SELECT count() AS n FROM t", "--json").out)["data"]
    assert int(rows_[0]["n"]) == 10


# --- settings, memory, partitions -----------------------------------------------------------------


@pytest.mark.long
def test_threads_and_memory(shell: Shell) -> None:
    document = shell.ok("load", "generate://taxi?rows=20_000", "--threads", "1", "--memory",
                        "600MiB", "--json").document  # fmt: skip
    assert document["settings"]["max_threads"] == 1
    assert document["settings"]["max_memory_usage"] <= 600 << 20
    assert document["peak_memory"] <= 600 << 20
    assert document["rows"] == 20_000
    little = shell.ends(2, "plan", "generate://taxi?rows=10", "--memory", "100MiB")
    assert "too little for a load" in little.talk
    chosen = shell.ok("plan", "generate://taxi?rows=10", "--set", "max_insert_threads=7", "-v").out
    assert "given with --set" in chosen
    unknown = shell.ends(2, "plan", "generate://taxi?rows=10", "--set", "max_insert_thread=7")
    assert "has no setting 'max_insert_thread'" in unknown.talk


@pytest.mark.long
def test_a_memory_error_makes_smaller_blocks(shell: Shell) -> None:
    command = ("load", "generate://random?rows=60_000&bytes=2_000", "--table", "t", "--set")
    done = shell.ok(*command, "max_memory_usage=250000000", "--json")
    assert "out of memory: blocks are made smaller, and the files are tried once more" in done.talk
    report = done.document
    assert (report["rows"], report["retries"]) == (60_000, 1)
    assert any("out of memory" in note for note in report["notes"])
    assert shell.row("SELECT count(), uniqExact(document_id) FROM t") == [60_000, 60_000]
    hopeless = shell.ends(6, "load", "generate://random?rows=60_000&bytes=2_000", "--table", "u",
                          "--set", "max_memory_usage=1000000")  # fmt: skip
    assert "hint:" in hopeless.err
    assert shell.row("SELECT count() FROM system.tables WHERE name ILIKE '%rowfall%'") == [0]


def test_many_partitions(shell: Shell) -> None:
    done = shell.ok("load", "generate://trips?rows=50_000", "--partition-by", "duration_seconds",
                    "--verify", "--json").document  # fmt: skip
    assert done["rows"] == 50_000
    partitions, count = shell.row(
        "SELECT uniqExact(partition), sum(rows) FROM system.parts WHERE table = 'trips' AND active"
    )
    # 10 distances x 10 speeds, some of them alike.
    assert 50 < partitions <= 100
    assert count == 50_000


def test_a_partition_explosion_is_forecast(shell: Shell) -> None:
    lines = [(i % 150, i) for i in range(5000)]
    shell.write("a.csv", csv(lines, "key", "value"))
    plan = shell.ok("plan", "a.csv", "--partition-by", "key", "--json").document
    (advice,) = plan["forecast"]["advice"]
    assert "The partition key key has about" in advice
    done = shell.ok("load", "a.csv", "--partition-by", "key")
    warned = done.talk.index("The partition key key has about")
    assert warned < done.talk.index("done in ")
    assert shell.row("SELECT count(), uniqExact(_partition_id) FROM a") == [5000, 150]
    # So it is for a table that is there.
    shell.write("b.csv", csv(lines, "key", "value"))
    plan = shell.ok("plan", "b.csv", "--table", "a", "--json").document
    assert "The partition key key has about" in plan["forecast"]["advice"][0]


# --- temporary files ------------------------------------------------------------------------------


@pytest.fixture
def scratch(shell: Shell) -> Path:
    """Where the commands put their temporary files, and nobody else does."""
    folder = shell.folder / "scratch"
    folder.mkdir()
    shell.env["TMPDIR"] = str(folder)
    return folder


@pytest.mark.parametrize(
    ("code", "what", "command"),
    [
        (0, "CSV", ("load", "-", "--table", "t")),
        (0, "Parquet", ("load", "-", "--table", "t")),  # as a whole: it cannot be read as it comes
        (1, "bad", ("load", "-", "--table", "t")),
        (0, "CSV", ("plan", "-", "--table", "t")),
        (0, "bz2", ("load", "x.csv.bz2", "--table", "t")),
        (1, "bad bz2", ("load", "x.csv.bz2", "--table", "t")),
        (0, "", ("load", "generate://trips?rows=9", "--to", "x.csv.gz")),  # a database in memory
        (0, "", ("load", "generate://trips?rows=9", "--to", "null:")),
        (0, "", ("query", "SELECT 1")),
    ],
)
@pytest.mark.sampled(1)
def test_no_temporary_file_is_left(
    shell: Shell, scratch: Path, code: int, what: str, command: Sequence[str]
) -> None:
    content = rows(1, 9).encode() + (b"x,y\n" if "bad" in what else b"")
    if what == "Parquet":
        content = made("SELECT number AS id FROM numbers(4)", what)
    if "bz2" in what:
        shell.write("x.csv.bz2", bz2.compress(content))
    given = ["--schema", "id UInt64, name String"] if "bad" in what else []
    shell.ends(code, *command, *given, stdin=content.decode(errors="surrogateescape"))
    assert not list(scratch.iterdir())


def test_no_temporary_file_is_left_by_a_kill(shell: Shell, scratch: Path) -> None:
    command = ("load", "generate://taxi?rows=20_000_000", "--to", "x.csv.gz")
    process = shell.cli.start(*command, env=shell.env)
    wait_until(lambda: any(scratch.iterdir()), 60, "the engine")
    let_pass(0.5, "rows are written by then")
    process.kill()
    # The engine sees that nobody is left to answer to.
    wait_until(lambda: not any(scratch.iterdir()), 20, "the engine to end")


# --- talk -----------------------------------------------------------------------------------------


def test_stdout_is_data_and_quiet_is_quiet(shell: Shell) -> None:
    ten_files(shell)
    done = shell.ok("load", "in/*.csv", "--table", "t")
    assert done.out == ""
    assert " done in " in done.err
    quiet = shell.ok("load", "in/*.csv", "--table", "u", "--quiet")
    assert (quiet.out, quiet.err) == ("", "")
    assert shell.ok("query", "SELECT id FROM t WHERE id < 3 ORDER BY id").out == "id\n1\n2\n"
    refused = shell.run("query", "DROP TABLE t")
    assert refused.code != 0
    assert "--write" in refused.talk


def test_a_small_load_says_six_lines_and_a_failure_once(shell: Shell) -> None:
    shell.write("a.csv", "id,city,amount\n1,Oslo,2.5\n2,Bern,3.5\n3,Rome,4.5\n")
    done = shell.ok("load", "a.csv", "--table", "t")
    # A busy machine lets the progress be seen.
    lines = [line for line in done.err.splitlines() if not re.match(r"\d+s, ", line)]
    assert len(lines) <= 6, done.err
    assert "note: creating default.t: 3 columns, sorted by id" in lines
    assert any(re.search(r"done in \d.*: 3 rows from 1 file into default\.t", x) for x in lines)
    assert "CREATE TABLE" not in done.err
    assert "CREATE TABLE" in shell.ok("load", "a.csv", "--table", "u", "-v").err
    assert "Limited by" in shell.ok("report", "last").out
    shell.write("bad.csv", "id,city,amount\n4,Oslo,x\n")
    failed = shell.ends(1, "load", "bad.csv", "--table", "t")
    assert failed.err.count("does not fit Float64") == 1
    assert failed.err.count("hint:") == 1
    report = shell.ok("load", "a.csv", "--table", "v", "--json").document
    assert report["total_seconds"] >= report["seconds"]


def test_a_wrong_command_leaves_no_load_behind(shell: Shell) -> None:
    shell.write("a.csv", "id,city\n1,Oslo\n")
    shell.ends(2, "load", "a.csv", "--table", "t", "--order-by", "nope")
    shell.ends(2, "load", "a.csv", "--table", "t", "--type", "nope=String")
    assert shell.ok("status", "--json").document["loads"] == []
    assert "no load is unfinished" in shell.ends(2, "resume").talk
    shell.write("bad.csv", "id,city\nx,Oslo\n")
    shell.ok("load", "a.csv", "--table", "t")
    shell.ends(1, "load", "bad.csv", "--table", "t")
    assert "has loaded nothing" in shell.ends(2, "verify", "last").talk


def test_progress_moves_on_a_terminal(shell: Shell) -> None:
    # An attempt a file takes 20 ms of a fast machine, and the line is drawn eight times a second.
    for number in range(60):
        shell.write(f"in/{number}.csv", rows(number * 500, number * 500 + 500))
    shown = shell.typed("", "load", "in/*.csv", "--table", "t", "--attempt-bytes", "1")
    assert len(set(re.findall(r"(\d+)% ", shown))) > 2, shown
    assert len(set(re.findall(r"(\d+)/60 files", shown))) > 2
    assert "30,000 rows from 60 files" in " ".join(shown.split())


def test_a_running_load_can_be_looked_at(shell: Shell) -> None:
    """By status, which says how far it is, and by queries of the folder that it holds."""
    shell.write("a.csv", "id,city\n1,Oslo\n")
    shell.ok("load", "a.csv", "--table", "t")
    process = shell.cli.start("load", "generate://taxi?rows=20_000_000", "--threads", "1")

    def said() -> dict[str, Any]:
        loads = shell.ok("status", "--to", "rowfall-data", "--json").document["loads"]
        return loads[0] if loads else {}

    wait_until(lambda: (said().get("progress") or 0) > 0, 60, "no progress was said")
    assert said()["outcome"] == "running"
    assert re.search(r"running \d+ %", shell.ok("status", "--to", "rowfall-data").out)
    assert re.search(r"running: \d+ % done", shell.ok("status", "last").out)
    assert shell.row("SELECT city FROM t") == ["Oslo"]
    refused = shell.ends(5, "query", "--write", "DROP TABLE t")
    assert "of generate://taxi?rows=20_000_000 runs since" in refused.talk
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert said()["outcome"] == "interrupted"
    assert not list((shell.folder / "rowfall-data").glob("*.running*"))


def test_a_result_takes_its_place_among_other_output(shell: Shell) -> None:
    path = shell.folder / "out"
    query = [sys.executable, "-m", "rowfall", "query", "SELECT 2", "--format", "TSV"]
    with path.open("wb") as out:
        out.write(b"1\n")
        out.flush()
        subprocess.run(query, stdout=out, check=True, cwd=shell.folder)
        out.seek(0, os.SEEK_CUR)
        os.write(out.fileno(), b"3\n")
    assert path.read_bytes() == b"1\n2\n3\n"


def test_sigterm_is_ctrl_c(shell: Shell) -> None:
    process = shell.cli.start("load", "generate://taxi?rows=20_000_000", "--threads", "2",
                              "--memory", "1GiB")  # fmt: skip
    ledger = shell.folder / "rowfall-data" / "rowfall.ledger"

    def begun() -> bool:
        """Tell whether the first attempt is recorded: what stops before has nothing to resume."""
        if not ledger.exists():
            return False
        with (
            closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as base,
            suppress(sqlite3.OperationalError),  # its tables are being made
        ):
            return bool(base.execute("SELECT count(*) FROM attempt").fetchone()[0])
        return False

    wait_until(begun, 60, "no attempt has begun")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "same command again" in err
    assert shell.ok("status", "last", "--json").document["outcome"] == "interrupted"


def test_an_empty_table_that_a_failed_load_has_made_goes_away(shell: Shell) -> None:
    """With ``rowfall clean``, or when the next load makes it anew; one with rows stays."""
    shell.write("bad.csv", csv([(1, "a"), ("x", "b")], "id", "name"))
    wrong = ("load", "bad.csv", "--table", "t", "--schema", "id UInt64, name String")
    shell.ends(1, *wrong)
    there = "SELECT count() FROM system.tables WHERE name = 't'"
    assert shell.row(there) == [1]
    to = ("--to", "rowfall-data")
    found = shell.ok("clean", *to, "--dry-run", "--json").document["leftovers"]
    assert [(each["name"], each["rows"]) for each in found] == [("t", 0)]
    shell.ok("clean", *to, "--yes")
    assert shell.row(there) == [0]
    shell.ends(1, *wrong)
    shell.ok("load", "bad.csv", "--table", "t", "--type", "id String")
    assert shell.row("SELECT count() FROM t") == [2]
    assert "nothing to clean" in shell.ok("clean", *to, "--yes").talk
    shell.rows("TRUNCATE TABLE t", "--write")
    # It has been loaded: that it is empty now is somebody's wish.
    assert "nothing to clean" in shell.ok("clean", *to, "--yes").talk


def test_a_table_can_be_made_before_the_first_load(shell: Shell) -> None:
    """It was made in memory, and nothing said so."""
    shell.ok("query", "--write", "CREATE TABLE t (id Int64, name String) ORDER BY id")
    assert shell.rows("SHOW TABLES") == [["t"]]


def test_files_of_one_name_in_several_folders_are_said(shell: Shell) -> None:
    shell.write("x/sales.csv", "id,v\n1,2\n")
    shell.write("y/sales.csv", "id,v\n3,4\n")
    shell.write("y/costs.csv", "id,v\n5,6\n")
    said = "x/sales.csv and y/sales.csv have one name, so both are loaded into default.sales"
    done = shell.ok("load", "x/sales.csv", "y/sales.csv")
    assert said in done.talk
    assert done.talk.index(said) < done.talk.index("creating")
    for table in ("a", "b"):  # each in a command of its own
        shell.ok("load", f"{'x' if table == 'a' else 'y'}/sales.csv", "--table", table)
    assert shell.row("SELECT (SELECT sum(id) FROM a), (SELECT sum(id) FROM b)") == [1, 3]
    for sources in (["x/sales.csv", "y/costs.csv"], ["x/*.csv", "y/*.csv"], ["x", "y"]):
        assert "have one name" not in shell.ok("load", *sources, "--force").talk
    named = shell.ok("load", "x/sales.csv", "y/sales.csv", "--table", "c")
    assert "have one name" not in named.talk
