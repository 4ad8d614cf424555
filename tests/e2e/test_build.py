"""Parts that rowfall-decode writes itself: the same table as the engine's own, or the engine's."""

from __future__ import annotations

import decimal
import functools
import gzip
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc  # type: ignore[import-untyped]
import pyarrow.parquet as pq
import pytest

from e2e.tools import Shell, decoder_of
from lab.http import Web
from rowfall.decoder import installed
from rowfall.deliver.decode import PIPES
from rowfall.run.limits import SHORT_SECONDS

ROWS = 300_000
# Tests of so many rows stay on one worker, which makes their files once: 2 s.
LARGE = pytest.mark.xdist_group("large parts")
COUNT = "SELECT count(), sum(cityHash64(*)), uniqExact(id) FROM t"
PARTS = (
    "SELECT count(), min(part_type), max(part_type), sum(rows), uniqExact(uuid) "
    "FROM system.parts WHERE active AND table = 't'"
)


@pytest.fixture(autouse=True)
def _installed() -> None:
    assert installed.program(), "make test builds it: make decoder"


@functools.cache
def packed(name: str, start: int, count: int) -> bytes:
    """Unsorted ids, a text of few values, a long one, numbers with gaps."""
    lines = ["id,kind,note,price,maybe"]
    lines += [
        f"{i * 7919 % 1_000_003},k{i % 11},row {i} of the file {name},{i % 997}.{i % 90 + 10},"
        f"{'' if i % 3 else i}"
        for i in range(start, start + count)
    ]
    return gzip.compress("\n".join([*lines, ""]).encode(), 1)


def rows(shell: Shell, name: str, start: int, count: int) -> None:
    """Write ``in/NAME.csv.gz``."""
    path = shell.folder / "in" / f"{name}.csv.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed(name, start, count))


def delivery(shell: Shell, *args: str) -> tuple[str, str]:
    made = shell.ok("plan", "in/*.csv.gz", "--table", "t", "--json", *args).document
    return made["delivery"], made["why_unbuilt"]


@LARGE
def test_a_load_is_built_where_it_is_large(shell: Shell) -> None:
    for n in range(2):
        rows(shell, f"f{n}", n * ROWS, ROWS)
    options = ("--order-by", "(kind, id)")
    assert delivery(shell, *options) == ("build", "")
    plan = " ".join(shell.ok("plan", "in/*.csv.gz", *options).out.split())
    assert (
        "delivery build: this machine writes finished parts, and the engine attaches them" in plan
    )
    built = shell.ok("load", "in/*.csv.gz", "--table", "t", "--json", *options).document
    off = ("--build", "off", "--to", "off")
    shell.ok("load", "in/*.csv.gz", "--table", "t", *options, *off)
    assert shell.ok("query", COUNT).out == shell.ok("query", COUNT, "--to", "off").out
    assert built["rows"] == 2 * ROWS
    # A shorter load does not say where its time went.
    assert built["seconds"] < SHORT_SECONDS or built["phases"]["insert"] > 0.05
    found = shell.ok("query", PARTS, "--format", "TSV").out.split()
    assert found[1:4] == ["Wide", "Wide", str(2 * ROWS)]
    assert found[0] == found[4] == str(built["parts_active"])
    checks = shell.ok(
        "query", "CHECK TABLE t SETTINGS check_query_single_value_result = 0", "--format", "TSV"
    ).out
    assert [line.split("\t")[1] for line in checks.splitlines()] == ["1"] * int(found[0])
    key = "SELECT count() FROM t WHERE kind = 'k3' AND id BETWEEN 1000 AND 50000"
    assert (
        shell.ok("query", f"{key} SETTINGS force_primary_key = 1").out
        == shell.ok("query", f"{key} SETTINGS use_primary_key = 0").out
    )
    assert not list((shell.folder / "rowfall-data" / PIPES).iterdir())
    again = shell.ok("load", "in/*.csv.gz", "--table", "t", "--json", *options).document
    assert (again["rows"], again["splits_skipped"]) == (0, 2)
    # Blocks of both threads are merged: there is nothing left for the engine.
    assert (found[0], built["merges"]) == ("1", None)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["kind", "(id % 3, kind)"])
def test_partitions_are_built(shell: Shell, key: str) -> None:
    """One part for each partition, as the engine would fill them, and again nothing."""
    for n in range(2):
        rows(shell, f"f{n}", n * 20_000, 20_000)
    options = ("in/*.csv.gz", "--order-by", "id", "--partition-by", key, "--table", "t")
    assert shell.ok("load", *options, "--json", "--build", "on").document["notes"] == []
    shell.ok("load", *options, "--build", "off", "--to", "off")
    for query in (
        COUNT,
        "SELECT _partition_id, count(), sum(cityHash64(*)) FROM t GROUP BY 1 ORDER BY 1",
    ):
        assert shell.ok("query", query).out == shell.ok("query", query, "--to", "off").out
    found = shell.ok(
        "query",
        "SELECT count(), uniqExact(partition_id) FROM system.parts WHERE active AND table = 't'",
        "--format", "TSV",
    ).out.split()  # fmt: skip
    assert found[0] == found[1]
    assert int(found[1]) >= 11
    checks = shell.ok("query", "CHECK TABLE t SETTINGS check_query_single_value_result = 1").out
    assert checks.split()[-1] == "1"
    again = shell.ok("load", *options, "--json").document
    assert (again["rows"], again["splits_skipped"]) == (0, 2)


NESTED = (
    "id UInt32, day Date, tags Array(LowCardinality(String)), place Tuple(x Float64, `at of` "
    "Nullable(String)), counts Map(String, Array(Nullable(UInt16)))"
)
NESTED_MADE = """SELECT toUInt32(number * 7919 % 20000) AS id, toDate(20000 + number % 9) AS day,
    arrayMap(i -> ['a', 'it''s', '"q"', 'two\\twords', 'ä'][i % 5 + 1], range(number % 7)) AS tags,
    CAST((number / 8, if(number % 4 = 0, NULL, 'somewhere')),
        'Tuple(x Float64, `at of` Nullable(String))') AS place,
    CAST(if(number % 3 = 0, map(), map('k', [1, NULL, number % 999], 'x y', [])),
        'Map(String, Array(Nullable(UInt16)))') AS counts
    FROM numbers(20000) FORMAT """


@pytest.mark.long
@pytest.mark.parametrize("form", ["CSV", "TSV", "JSONEachRow"])
@pytest.mark.parametrize("key", [None, "day"])
def test_nested_columns_are_built(shell: Shell, form: str, key: str | None) -> None:
    null = " SETTINGS format_csv_null_representation = ''" if form == "CSV" else ""
    (shell.folder / "in.data").write_text(shell.ok("query", NESTED_MADE + form + null).out)
    options = ["in.data", "--format", form, "--schema", NESTED, "--order-by", "id", "--table", "t"]
    options += ["--partition-by", key] if key else []
    assert shell.ok("load", *options, "--json", "--build", "on").document["notes"] == []
    again = shell.ok("load", *options, "--json").document
    assert (again["rows"], again["splits_skipped"]) == (0, 1)
    shell.ok("load", *options, "--build", "off", "--to", "off")
    sums = (
        "SELECT count(), sum(cityHash64(id, day, tags, toString(place), toString(counts))) FROM t"
    )
    for query in (
        sums,
        "SELECT place.x, counts['k'] FROM t WHERE id BETWEEN 70 AND 80 ORDER BY id",
    ):
        assert shell.ok("query", query).out == shell.ok("query", query, "--to", "off").out
    checks = shell.ok("query", "CHECK TABLE t SETTINGS check_query_single_value_result = 1").out
    assert checks.split()[-1] == "1"
    shell.ok("load", *options[:3], "--table", "t", "--force", "--build", "off")
    shell.ok("query", "OPTIMIZE TABLE t FINAL", "--write")
    found = shell.ok("query", "SELECT count(), sum(length(tags)) FROM t", "--format", "TSV").out
    assert found.split()[0] == "40000"


def test_tuples_that_may_be_null_are_the_engines(shell: Shell) -> None:
    lists = pa.array([[{"x": n}] for n in range(1000)], pa.list_(pa.struct([("x", pa.int32())])))
    orc.write_table(pa.table({"id": range(1000), "list": lists}), shell.folder / "in.orc")
    done = shell.run("load", "in.orc", "--order-by", "id", "--table", "t", "--build", "on")
    assert done.code == 2
    assert "only the engine writes Array(Nullable(Tuple(" in done.talk


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "key", "condition"),
    [
        ("in/*.csv.gz", "id % 7, cityHash64(note), upper(kind)", "id % 7 = 3"),
        ("generate://trips?rows=50000", "intDiv(vehicle_id, 3), -distance_miles", "vehicle_id < 3"),
    ],
    ids=["files", "generated"],
)
def test_keys_of_expressions(source: str, key: str, condition: str, shell: Shell) -> None:
    """The rows are in the order that the plan tells, whoever has made them."""
    rows(shell, "a", 0, 30_000)
    options = (source, "--order-by", f"({key})", "--table", "t")
    made = shell.ok("plan", *options, "--json", "--build", "on").document
    assert made["delivery"] == "build"
    assert ", ".join(made["sorted_by"]) == key
    for build in ("on", "off"):
        done = shell.ok("load", *options, "--json", "--build", build, "--to", build).document
        assert not [note for note in done["notes"] if "engine reads" in str(note)]
    found = [
        shell.ok("query", "SELECT count(), sum(cityHash64(*)) FROM t", "--to", to).out
        for to in ("on", "off")
    ]
    assert found[0] == found[1]
    check = "CHECK TABLE t SETTINGS check_query_single_value_result = 1"
    assert shell.ok("query", check, "--to", "on", "--format", "TSV").out == "1\n"
    counts = [
        shell.ok("query", f"SELECT count() FROM t WHERE {condition} SETTINGS {how}", "--to", to).out
        for to, how in (("on", "force_primary_key = 1"), ("off", "use_primary_key = 0"))
    ]
    assert counts[0] == counts[1]


@pytest.mark.long
def test_a_limit_of_partitions_is_the_engines_error(shell: Shell) -> None:
    rows(shell, "a", 0, 1_000)
    done = shell.run(
        "load", "in/*.csv.gz", "--order-by", "id", "--partition-by", "kind", "--table", "t",
        "--build", "on", "--set", "max_partitions_per_insert_block=5",
    )  # fmt: skip
    assert done.code != 0
    assert "Too many partitions for single INSERT block" in done.talk
    assert shell.ok("query", "SELECT count() FROM t", "--format", "TSV").out == "0\n"


def test_parts_of_the_engine_and_built_ones_merge(shell: Shell) -> None:
    rows(shell, "a", 0, 40_000)
    shell.ok("load", "in/a.csv.gz", "--table", "t", "--order-by", "id", "--build", "off")
    rows(shell, "b", 40_000, 40_000)
    shell.ok("load", "in/b.csv.gz", "--table", "t", "--build", "on")
    before = shell.ok("query", COUNT).out
    shell.ok("query", "OPTIMIZE TABLE t FINAL", "--write")
    assert shell.ok("query", COUNT).out == before
    assert shell.ok("query", PARTS, "--format", "TSV").out.startswith("1\t")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("option", ["--atomic", "--replace"])
def test_all_at_once(shell: Shell, option: str) -> None:
    rows(shell, "a", 0, 30_000)
    shell.ok("load", "in/a.csv.gz", "--table", "t", "--order-by", "id")
    rows(shell, "b", 30_000, 30_000)
    done = shell.ok("load", "in/b.csv.gz", "--table", "t", "--build", "on", "--json", option)
    assert done.document["rows"] == 30_000
    total = 30_000 if option == "--replace" else 60_000
    assert shell.ok("query", COUNT, "--format", "TSV").out.split()[0] == str(total)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--partition-by", "toDate(now()) > kind::Date"], "the partition key uses now"),
        (["--engine", "Memory"], "its engine is Memory"),
        (["--decoder", "never"], "rowfall-decode does not parse: --decoder never"),
        (["--presort", "off"], "blocks are not sorted by its key (id)"),
        (["--order-by", "(id % 7, [id])"], "only the engine sorts by Array("),
        (["--direct"], "rows go straight into the table"),
        (["--to", "null:"], "rows go into no table of the embedded engine"),
        (["--set", "materialize_statistics_on_insert=1"], "--set materialize_statistics_on_insert"),
    ],
)
def test_build_says_why_it_cannot(shell: Shell, options: list[str], why: str) -> None:
    rows(shell, "a", 0, 100)
    key = [] if "--order-by" in options else ["--order-by", "id"]
    table = [] if "null:" in options else ["--table", "t"]
    done = shell.run("load", "in/*.csv.gz", "--build", "on", *table, *key, *options)
    assert done.code == 2
    assert f"parts cannot be built: {why}" in done.talk


def test_a_table_that_asks_for_more_is_the_engines(shell: Shell) -> None:
    rows(shell, "a", 0, 1000)
    shell.ok("load", "in/*.csv.gz", "--table", "other")  # a folder to make tables in
    asks = [
        (
            "CODEC(FPC)", "ORDER BY id", "only the engine writes the codec FPC(12) (column price)",
        ),
        (", x UInt8 EPHEMERAL", "ORDER BY id", "the column x is EPHEMERAL"),
        (
            ", made UInt32 DEFAULT id", "ORDER BY (id, made + 1)",
            "its key uses made, which the load does not fill",
        ),
        (
            "", "ORDER BY id DESC SETTINGS allow_experimental_reverse_key = 1",
            "its key is reversed (id DESC)",
        ),
        (
            "", "ORDER BY id SETTINGS compress_per_column_in_compact_parts = 0",
            "its setting compress_per_column_in_compact_parts = 0 is the engine's",
        ),
        (
            "", "ORDER BY id SETTINGS add_minmax_index_for_numeric_columns = 1",
            "its setting add_minmax_index_for_numeric_columns = 1 is the engine's",
        ),
    ]  # fmt: skip
    columns = "id UInt32, kind String, note String, maybe Nullable(UInt32), price Float64"
    for number, (column, tail, why) in enumerate(asks):
        table = f"t{number}"
        definition = f"({columns} {column}) ENGINE = MergeTree {tail}"
        shell.ok("query", f"CREATE TABLE {table} {definition}", "--write")
        done = shell.run("plan", "in/*.csv.gz", "--table", table, "--build", "on")
        assert done.code == 2, definition
        assert f"parts cannot be built: {why}" in done.talk


# More than columns and a key, and what the engine makes of the parts after they are attached.
TABLES = {
    "defaults": (
        "(made UInt64 DEFAULT id * 2, maybe Nullable(UInt32), price Float64, plain Array(String), "
        "id UInt32, after UInt64 DEFAULT made + twice, kind LowCardinality(String), "
        "big String MATERIALIZED upper(note), twice UInt64 ALIAS made * 2, note String, "
        "fixed DateTime DEFAULT toDateTime(100000)) ENGINE = MergeTree ORDER BY (kind, id)"
    ),
    "indices": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32), "
        "l UInt8 DEFAULT length(note), INDEX i note TYPE bloom_filter GRANULARITY 2, "
        "INDEX j l TYPE minmax, PROJECTION p (SELECT kind, count(), sum(price) GROUP BY kind), "
        "PROJECTION q (SELECT id, note ORDER BY note)) ENGINE = MergeTree ORDER BY id"
    ),
    "expiry": (
        "(id UInt32, kind String, note String TTL toDateTime('2000-01-01') + toIntervalSecond(id), "
        "price Float64, maybe Nullable(UInt32)) ENGINE = MergeTree ORDER BY id "
        "TTL toDateTime('2020-01-01 00:00:00') + toIntervalDay(id)"
    ),
    "codecs": (
        "(id UInt32 CODEC(Delta, ZSTD(3)), kind LowCardinality(String) CODEC(ZSTD(1)), "
        "note String CODEC(LZ4HC(3)), price Float64 CODEC(Gorilla, ZSTD(2, 20)), "
        "maybe Nullable(UInt32) CODEC(T64), "
        "at DateTime DEFAULT toDateTime(id) CODEC(DoubleDelta, LZ4HC(9))) "
        "ENGINE = MergeTree ORDER BY id SETTINGS index_granularity = 512"
    ),
    "constraints": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32), "
        "CONSTRAINT c CHECK id < 2000000, CONSTRAINT d CHECK note != '') "
        "ENGINE = MergeTree ORDER BY (id, kind)"
    ),
    "replacing": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)) "
        "ENGINE = ReplacingMergeTree(id) ORDER BY kind"
    ),
    "summing": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)) "
        "ENGINE = SummingMergeTree ORDER BY (kind, note) SETTINGS min_bytes_for_wide_part = 0"
    ),
    "aggregating": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)) "
        "ENGINE = AggregatingMergeTree ORDER BY (kind, id)"
    ),
    "collapsing": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32), "
        "sign Int8 DEFAULT if(id % 3 = 0, -1, 1)) "
        "ENGINE = CollapsingMergeTree(sign) ORDER BY (kind, maybe) SETTINGS allow_nullable_key = 1"
    ),
    "coalescing": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)) "
        "ENGINE = CoalescingMergeTree ORDER BY (kind, price)"
    ),
    "expressions": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32), "
        "l UInt8 DEFAULT length(note), INDEX i l TYPE minmax) "
        "ENGINE = MergeTree PARTITION BY kind PRIMARY KEY (id % 10, upper(kind)) "
        "ORDER BY (id % 10, upper(kind), cityHash64(note)) SETTINGS min_bytes_for_wide_part = 0"
    ),
    "partitions of NULL": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)) "
        "ENGINE = MergeTree PARTITION BY (maybe % 3, kind) ORDER BY (id, cityHash64(note)) "
        "SAMPLE BY cityHash64(note) SETTINGS allow_nullable_key = 1"
    ),
    "key with NULL": (
        "(id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)) "
        "ENGINE = MergeTree PARTITION BY kind ORDER BY (maybe, id) SETTINGS allow_nullable_key = 1"
    ),
}


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(k, marks=pytest.mark.long) for k in TABLES if k != "indices"), "indices"],
)
def test_tables_that_ask_for_more(kind: str, shell: Shell) -> None:
    """Parts are completed: all of the table is as if the engine had inserted the rows."""
    rows(shell, "a", 0, 20_000)
    rows(shell, "b", 20_000, 12_000)
    whole = (
        "SELECT count(), sum(cityHash64(*)) FROM t "
        "SETTINGS asterisk_include_materialized_columns = 1"
    )
    options = ("--table", "t", "--on-missing-column", "default")
    found = {}
    for build in ("on", "off"):
        to = ("--to", build)
        shell.ok("load", "in/a.csv.gz", "--table", "other", *to)  # makes the folder
        shell.ok("query", f"CREATE TABLE t {TABLES[kind]}", "--write", *to)
        shell.ok("query", "SYSTEM STOP MERGES t", "--write", *to)
        load = ("load", "in/*.csv.gz", *options, "--build", build, "--json", *to)
        assert "the engine reads" not in str(shell.ok(*load).document["notes"])
        assert shell.ok(*load).document["splits_skipped"] == 2
        found[build] = [
            shell.ok("query", text, *to).out
            for text in (
                whole,
                "SELECT sum(rows), min(delete_ttl_info_min), max(delete_ttl_info_max) "
                "FROM system.parts WHERE table = 't' AND active",
                "SELECT name, min(rows) > 0 FROM system.projection_parts WHERE table = 't' "
                "AND active GROUP BY name ORDER BY name",
                "SELECT name, data_uncompressed_bytes > 0 FROM system.data_skipping_indices "
                "WHERE table = 't' ORDER BY name",
            )
        ]
        check = "CHECK TABLE t SETTINGS check_query_single_value_result = 1"
        assert shell.ok("query", check, *to, "--format", "TSV").out == "1\n"
        shell.ok("query", "OPTIMIZE TABLE t FINAL", "--write", *to)
        found[build].append(shell.ok("query", whole, *to).out)
        if kind == "indices":
            query = "SELECT kind, count() FROM t GROUP BY kind ORDER BY kind"
            forced = f"{query} SETTINGS force_optimize_projection = 1"
            assert shell.ok("query", forced, *to).out == shell.ok("query", query, *to).out
    assert found["on"] == found["off"]


@pytest.mark.parametrize("key", ["`a b`", "(`key 0` % 7, lower(`\u00e4.-`))"])
def test_columns_whose_names_are_no_words(key: str, shell: Shell) -> None:
    (shell.folder / "in").mkdir(exist_ok=True)
    lines = (f"{n * 7919 % 6007},x{n % 50},{n % 9},{n % 4}\n" for n in range(20_000))
    head = f"a b,\u00e4.-,key 0,{'long ' * 40}\n"
    (shell.folder / "in/names.csv").write_text(head + "".join(lines))
    options = ("in/names.csv", "--table", "t", "--order-by", key, "--partition-by", "`key 0` % 2")
    assert shell.ok("load", *options, "--json", "--build", "on").document["notes"] == []
    shell.ok("load", *options, "--build", "off", "--to", "off")
    whole = "SELECT count(), sum(cityHash64(*)), sum(`a b`), max(`\u00e4.-`) FROM t"
    assert shell.ok("query", whole).out == shell.ok("query", whole, "--to", "off").out
    shell.ok("query", "OPTIMIZE TABLE t FINAL", "--write")
    assert shell.ok("query", whole).out == shell.ok("query", whole, "--to", "off").out
    checks = shell.ok("query", "CHECK TABLE t SETTINGS check_query_single_value_result = 1").out
    assert checks.split()[-1] == "1"


def test_a_constraint_that_a_row_breaks(shell: Shell) -> None:
    """The file fails, not the run: another one of the same command is loaded."""
    rows(shell, "a", 0, 1000)
    shell.ok("load", "in/*.csv.gz", "--table", "other")
    definition = TABLES["constraints"].replace("id < 2000000", "id < 900000")
    shell.ok("query", f"CREATE TABLE t {definition}", "--write")
    for build in ("off", "on"):
        failed = shell.run("load", "in/*.csv.gz", "--table", "t", "--build", build)
        assert failed.code == 1
        assert (
            "a.csv.gz has a row that breaks the constraint c of the table, id < 900000: id = "
            in (" ".join(failed.talk.split()))
        )
    assert shell.ok("query", "SELECT count() FROM t", "--format", "TSV").out == "0\n"
    rows(shell, "b", 0, 100)  # of ids below 800,000
    assert shell.run("load", "in/*.csv.gz", "--table", "t").code == 1
    assert shell.ok("query", "SELECT count() FROM t", "--format", "TSV").out == "100\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["id", "(kind, id)", "tuple()"])
def test_a_plain_table_that_is_there_is_built(shell: Shell, key: str) -> None:
    rows(shell, "a", 0, 1000)
    shell.ok("load", "in/*.csv.gz", "--table", "other")
    shell.ok(
        "query",
        "CREATE TABLE t (id UInt32, kind LowCardinality(String), note String, price Float64, "
        f"maybe Nullable(UInt32)) ENGINE = MergeTree ORDER BY {key}",
        "--write",
    )  # fmt: skip
    assert delivery(shell, "--build", "on") == ("build", "")
    assert delivery(shell) == ("pull", "there are few rows")
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "on")
    assert shell.ok("query", PARTS, "--format", "TSV").out.split()[1] == "Compact"
    assert writers(shell) == {"rowfall"}


def writers(shell: Shell) -> set[str]:
    """Who wrote the parts of a table: rowfall-decode packs ``checksums.txt`` as LZ4."""
    query = "SELECT path FROM system.parts WHERE active AND table = 't'"
    found = set()
    for path in shell.ok("query", query, "--format", "TSV").out.split():
        packed = (shell.folder / "rowfall-data" / path / "checksums.txt").read_bytes()
        method = packed[len("checksums format version: 4\n") + 16]
        found.add({0x82: "rowfall", 0x90: "engine"}[method])
    return found


@LARGE
def test_a_table_of_compact_parts_is_built(shell: Shell) -> None:
    for n in range(2):
        rows(shell, f"f{n}", n * ROWS, ROWS)
    shell.ok("load", "in/f0.csv.gz", "--table", "other")
    shell.ok(
        "query",
        "CREATE TABLE t (id UInt32, kind LowCardinality(String), note String, price Float64, "
        "maybe Nullable(UInt32)) ENGINE = MergeTree ORDER BY (kind, id) "
        "SETTINGS min_bytes_for_wide_part = 1000000000",
        "--write",
    )  # fmt: skip
    assert delivery(shell) == ("build", "")
    shell.ok("load", "in/*.csv.gz", "--table", "t")
    assert shell.ok("query", PARTS, "--format", "TSV").out.split()[1:3] == ["Compact"] * 2
    assert writers(shell) == {"rowfall"}
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "off", "--to", "off")
    assert shell.ok("query", COUNT).out == shell.ok("query", COUNT, "--to", "off").out


@pytest.mark.long
@LARGE
def test_small_partitions_are_built(shell: Shell) -> None:
    """As compact parts; what the engine has to complete would be wide parts of many files."""
    for n in range(2):
        rows(shell, f"f{n}", n * ROWS, ROWS)
    options = ("--order-by", "id", "--partition-by", "id % 90")
    assert delivery(shell, *options) == ("build", "")
    shell.ok("load", "in/*.csv.gz", "--table", "t", *options)
    found = shell.ok("query", PARTS, "--format", "TSV").out.split()
    assert found[:4] == ["90", "Compact", "Compact", str(2 * ROWS)]
    assert writers(shell) == {"rowfall"}
    shell.ok(
        "query",
        "CREATE TABLE u (id UInt32, kind String, note String, price Float64, "
        "maybe Nullable(UInt32), made UInt8 DEFAULT 1) ENGINE = MergeTree PARTITION BY id % 200 "
        "ORDER BY id",
        "--write",
    )  # fmt: skip
    made = shell.ok("plan", "in/*.csv.gz", "--table", "u", "--json").document
    assert (made["delivery"], made["why_unbuilt"]) == ("pull", "its partitions are small")


VIEWS = (
    "CREATE TABLE sums (kind String, n UInt64) ENGINE = SummingMergeTree ORDER BY kind",
    "CREATE MATERIALIZED VIEW v TO sums AS SELECT kind, count() AS n FROM t GROUP BY kind",
    "CREATE TABLE few (kind String, id UInt32) ENGINE = MergeTree ORDER BY id",
    "CREATE MATERIALIZED VIEW w TO few AS SELECT * EXCEPT (note, price, maybe) FROM t "
    "WHERE id % 7 = 0",
    "CREATE MATERIALIZED VIEW x ENGINE = MergeTree ORDER BY n AS SELECT max(id) AS n FROM few",
)
SEEN = (
    COUNT,
    "SELECT kind, sum(n) FROM sums GROUP BY kind ORDER BY kind",
    "SELECT count(), sum(cityHash64(*)) FROM few",
    "SELECT max(n) FROM x",
)


def with_views(shell: Shell, *to: str) -> None:
    """A table of 1,000 rows, and three views of it that have seen none of them."""
    shell.ok("load", "in/a.csv.gz", "--table", "t", "--order-by", "id", *to)
    for statement in VIEWS:
        shell.ok("query", statement, "--write", *to)


def test_views_are_fed_with_built_parts(shell: Shell) -> None:
    """They see each row once, also those of a file that the decoder declines."""
    rows(shell, "a", 0, 1000)
    off = ("--to", "off")
    with_views(shell)
    with_views(shell, *off)
    rows(shell, "b", 1000, 20_000)
    odd = "id,kind,note,price,maybe\n1000004,k1,a note,1,\n 6,k2,another,2,\n"
    (shell.folder / "in/c.csv.gz").write_bytes(gzip.compress(odd.encode()))
    done = shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "on", "--json").document
    assert any("the engine reads it instead" in note for note in done["notes"])
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "off", *off)
    for query in SEEN:
        assert shell.ok("query", query).out == shell.ok("query", query, *off).out
    assert shell.ok("query", "SELECT sum(n) FROM sums", "--format", "TSV").out == "20002\n"
    names = "SELECT count() FROM system.tables WHERE startsWith(name, '_rowfall_')"
    assert shell.ok("query", names, "--format", "TSV").out == "0\n"


@pytest.mark.parametrize(
    "select",
    [
        "count() AS n FROM t",  # uses no column
        "sum(half) + max(length(note)) AS n FROM t",  # an ALIAS, and what it is made of
        "sum(s.x * t.id) + count(*) AS n FROM t AS s",
        "sum(y) AS n FROM t WHERE other != 'x'",  # a default
    ],
)
@pytest.mark.sampled(1)
def test_views_see_the_columns_that_they_name(shell: Shell, select: str) -> None:
    (shell.folder / "in").mkdir()
    for name, start in (("a", 0), ("b", 100)):
        lines = [f"{i},note {i},{i % 10},7" for i in range(start, start + 100)]
        text = "\n".join(["id,note,x,y", *lines, ""])
        (shell.folder / f"in/{name}.csv").write_text(text)
    for to in ((), ("--to", "off")):
        shell.ok("load", "in/a.csv", "--table", "other", *to)
        for statement in (
            "CREATE TABLE t (id UInt32, note String, x UInt32, y UInt8, half UInt32 ALIAS x * "
            "id, other String DEFAULT concat(note, '?'), rate UInt32 DEFAULT intDiv(100, y), "
            "inverse UInt32 MATERIALIZED intDiv(100, y), CONSTRAINT c CHECK x < 11) "
            "ENGINE = MergeTree ORDER BY id",
            f"CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY n AS SELECT {select}",
        ):
            shell.ok("query", statement, "--write", *to)
        build = "off" if to else "on"
        shell.ok("load", "in/*.csv", "--table", "t", "--build", build, *to)
    found = shell.ok("query", "SELECT sum(n) FROM v").out
    assert found == shell.ok("query", "SELECT sum(n) FROM v", "--to", "off").out
    assert found.split()[-1] != "0"


@pytest.mark.parametrize("select", ["*, m", "id, m"])
@pytest.mark.sampled(1)
def test_views_get_the_computed_values_of_the_table(shell: Shell, select: str) -> None:
    """Also such that nobody computes twice; ``*`` does not take them."""
    rows(shell, "a", 0, 3000)
    for statement in (
        "CREATE TABLE t (id UInt32, kind String, note String, price Float64, maybe "
        "Nullable(UInt32), m UInt64 MATERIALIZED rand64()) ENGINE = MergeTree ORDER BY id",
        f"CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY id AS SELECT {select} FROM t",
    ):
        shell.ok("query", statement, "--write")
    done = shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "on", "--json").document
    assert (done["rows"], done["notes"]) == (3000, [])
    same = "SELECT count(), countIf(t.m = v.m) FROM t JOIN v USING id"
    assert shell.ok("query", same, "--format", "TSV").out == "3000\t3000\n"


def test_what_views_fill_may_have_computed_values(shell: Shell) -> None:
    """Where the table has some as well, the engine writes the parts."""
    rows(shell, "a", 0, 1000)
    shell.ok("load", "in/a.csv.gz", "--table", "t", "--order-by", "id")
    for statement in (
        "CREATE TABLE o (id UInt32, m UInt32 MATERIALIZED id + 1) ENGINE = MergeTree ORDER BY id",
        "CREATE MATERIALIZED VIEW v TO o AS SELECT id FROM t",
    ):
        shell.ok("query", statement, "--write")
    rows(shell, "b", 1000, 1000)
    assert delivery(shell, "--build", "on") == ("build", "")
    shell.ok("query", "ALTER TABLE t ADD COLUMN n UInt32 MATERIALIZED id", "--write")
    failed = shell.ends(2, "load", "in/*.csv.gz", "--table", "t", "--build", "on")
    assert "views fill the MATERIALIZED column m of default.o" in failed.talk
    shell.ok("load", "in/*.csv.gz", "--table", "t")
    assert shell.ok("query", "SELECT sum(m - id) FROM o", "--format", "TSV").out == "1000\n"


def test_a_view_that_fails_stops_built_parts(shell: Shell) -> None:
    """Nothing of its attempt is visible, neither in the table nor behind other views."""
    rows(shell, "a", 0, 1000)
    with_views(shell)
    bad = "CREATE MATERIALIZED VIEW y TO few AS SELECT throwIf(id = 7919) + id AS id FROM t"
    shell.ok("query", bad, "--write")
    rows(shell, "b", 1_000_003, 500)  # ids begin anew: the second one is 7919
    failed = shell.run("load", "in/*.csv.gz", "--table", "t", "--build", "on")
    assert failed.code == 1
    assert "throwIf" in failed.err
    assert shell.ok("query", "SELECT count() FROM t", "--format", "TSV").out == "1000\n"
    assert shell.ok("query", "SELECT count() FROM few", "--format", "TSV").out == "0\n"
    shell.ok("query", "DROP VIEW y", "--write")
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "on")
    assert shell.ok("query", "SELECT sum(n) FROM sums", "--format", "TSV").out == "500\n"


def test_views_of_a_table_that_gets_a_computed_column(shell: Shell) -> None:
    rows(shell, "a", 0, 1000)
    with_views(shell)
    shell.ok("query", "ALTER TABLE t ADD COLUMN r UInt32 MATERIALIZED rand()", "--write")
    rows(shell, "b", 1000, 500)
    shell.ok("load", "in/*.csv.gz", "--table", "t", "--build", "on")
    assert shell.ok("query", "SELECT sum(n) FROM sums", "--format", "TSV").out == "500\n"


def test_what_the_decoder_declines_the_engine_reads(shell: Shell) -> None:
    """The good file is built, the other is not, and both are in the table."""
    rows(shell, "a", 0, 20_000)
    odd = "id,kind,note,price,maybe\n5,k,a note,1,\n 6,k,another,2,\n"
    (shell.folder / "in/b.csv.gz").write_bytes(gzip.compress(odd.encode()))
    schema = "id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)"
    done = shell.ok(
        "load", "in/*.csv.gz", "--table", "t", "--schema", schema, "--order-by", "id", "--build",
        "on", "--json",
    ).document  # fmt: skip
    assert any("the engine reads it instead" in note for note in done["notes"])
    assert done["rows"] == 20_002
    assert writers(shell) == {"rowfall", "engine"}


@LARGE
def test_a_killed_decoder_is_started_again(shell: Shell) -> None:
    for n in range(2):
        rows(shell, f"f{n}", n * ROWS, ROWS)
    process = shell.cli.start(
        "load", "in/*.csv.gz", "--table", "t", "--order-by", "id", "--build", "on", "--json"
    )
    os.kill(decoder_of(process), signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    report = json.loads(out)
    assert report["rows"] == 2 * ROWS
    assert any("rowfall-decode was killed by signal 9" in note for note in report["notes"])


def columns_file(path: Path, count: int, **options: Any) -> None:
    """A Parquet file whose columns a part can have as they are."""
    ids = [i * 7919 % 1_000_003 for i in range(count)]
    table = pa.table({
        "id": pa.array(ids, pa.uint32()),
        "kind": [f"k{i % 11}" for i in ids],
        "note": [None if i % 5 == 0 else f"row {i} " * (i % 4) for i in ids],
        "price": [i / 8 for i in ids],
        "at": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", "UTC")),
    })  # fmt: skip
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, **options)


def decider(shell: Shell, *args: str) -> tuple[str, str]:
    made = shell.ok("plan", *args, "--table", "t", "--json", "--build", "on").document
    return made["delivery"], made["decoder"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["(kind, id)", "tuple()"])
def test_columns_of_parquet_are_copied(shell: Shell, key: str) -> None:
    for n in range(2):
        columns_file(shell.folder / f"in/f{n}.parquet", 20_000 + n, row_group_size=7_000)
    options = ("in/*.parquet", "--order-by", key, "--null-lists", "empty")
    assert decider(shell, *options) == ("build", "rowfall-decode")
    built = shell.ok("load", *options, "--table", "t", "--json", "--build", "on").document
    assert (built["rows"], built["notes"]) == (40_001, [])
    shell.ok("load", *options, "--table", "t", "--build", "off", "--to", "off")
    whole = "SELECT count(), sum(cityHash64(id, kind, ifNull(note, '-'), price, at)) FROM t"
    assert shell.ok("query", whole).out == shell.ok("query", whole, "--to", "off").out
    checks = shell.ok("query", "CHECK TABLE t SETTINGS check_query_single_value_result = 1").out
    assert checks.split()[-1] == "1"
    again = shell.ok("load", *options, "--table", "t", "--json").document
    assert (again["rows"], again["splits_skipped"]) == (0, 2)


_Cents = decimal.Decimal
CASTS: dict[str, tuple[pa.DataType, str, Callable[[int], object], object]] = {
    # Type in the file and in the table, value of a row, and one that does not fit.
    "narrow": (pa.int64(), "UInt16", lambda i: i, 65_536),
    "unsigned": (pa.int32(), "UInt64", lambda i: i, -1),
    "signed": (pa.uint64(), "Int16", lambda i: i, 32_768),
    "wide": (pa.int64(), "Int128", lambda i: i - 2000, None),
    "wide_unsigned": (pa.int64(), "UInt256", lambda i: i, -1),
    "whole": (pa.float64(), "Int32", float, 2.5),
    "short_whole": (pa.float32(), "Int8", lambda i: float(i % 100 - 50), 128.0),
    "short": (pa.float64(), "Float32", lambda i: i / 8, 0.1),
    "long": (pa.float32(), "Float64", lambda i: i / 8, None),
    "float": (pa.int64(), "Float64", lambda i: i, 2**53 + 1),
    "short_float": (pa.int64(), "Float32", lambda i: i, 2**24 + 1),
    "yes": (pa.int32(), "Bool", lambda i: i % 2, 2),
    "one": (pa.bool_(), "UInt8", lambda i: i % 2 == 0, None),
    "more_digits": (pa.decimal128(12, 2), "Decimal(18, 4)", lambda i: _Cents(i) / 4, None),
    "fewer_digits": (pa.decimal128(12, 4), "Decimal(9, 1)", lambda i: _Cents(i), _Cents("0.25")),
    "number": (pa.decimal128(20, 2), "UInt32", lambda i: _Cents(i), _Cents("0.5")),
    "price": (pa.int64(), "Decimal(38, 10)", lambda i: i, None),
    "low_price": (pa.int32(), "Decimal(9, 2)", lambda i: i, 30_000_000),
    "second": (pa.timestamp("ms", "UTC"), "DateTime", lambda i: i * 1000, 1),
    "of_micros": (pa.timestamp("us", "UTC"), "DateTime", lambda i: i * 10**6, -(10**6)),
    "of_nanos": (pa.timestamp("ns", "UTC"), "DateTime", lambda i: i * 10**9, 5 * 10**18),
    "coarse": (pa.timestamp("us"), "DateTime64(3)", lambda i: i * 1000, 1),
    "fine": (pa.timestamp("ms"), "DateTime64(6, 'UTC')", lambda i: i, None),
    "day": (pa.date32(), "Date", lambda i: i, -1),
    "padded": (pa.string(), "FixedString(3)", lambda i: "ab"[: i % 3], "abcd"),
}


def casts(shell: Shell, number: int = -1) -> str:
    """``in/a.parquet`` of all casts; the last row of one column may not fit. Returns the schema."""
    columns = {"id": pa.array(range(4000), pa.uint32())}
    for at, (name, (own, _, value, wrong)) in enumerate(CASTS.items()):
        for nulls in (False, True):
            values = [None if nulls and i % 7 == 3 else value(i) for i in range(4000)]
            values[-1] = wrong if at == number else values[-1]
            stored = pa.int64() if pa.types.is_timestamp(own) else own
            made = pa.array(values, pa.int32() if pa.types.is_date(own) else stored)
            columns[f"{name}{'_null' if nulls else ''}"] = made.cast(own)
    path = shell.folder / "in/a.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=1500)
    types = ", ".join(f"{n} {c[1]}, {n}_null Nullable({c[1]})" for n, c in CASTS.items())
    return f"id UInt32, {types}"


def test_columns_of_parquet_are_cast(shell: Shell) -> None:
    """Into the types of the table, as the engine casts them."""
    options = ("in/a.parquet", "--order-by", "id", "--schema", casts(shell))
    assert decider(shell, *options) == ("build", "rowfall-decode")
    built = shell.ok("load", *options, "--table", "t", "--json", "--build", "on").document
    assert (built["rows"], built["notes"]) == (4_000, [])
    shell.ok("load", *options, "--table", "t", "--decoder", "never", "--to", "off")
    query = ("query", "SELECT * FROM t ORDER BY id", "--format", "TSV")
    assert shell.ok(*query).out == shell.ok(*query, "--to", "off").out


@pytest.mark.parametrize("name", [name for name, cast in CASTS.items() if cast[3] is not None])
@pytest.mark.sampled(2)
def test_a_value_that_its_column_does_not_hold(shell: Shell, name: str) -> None:
    """The decoder declines it, and the engine names row and column."""
    schema = casts(shell, list(CASTS).index(name))
    load = ("load", "in/a.parquet", "--table", "t", "--order-by", "id", "--schema", schema)
    built = shell.run(*load, "--build", "on")
    engine = shell.run(*load, "--decoder", "never", "--to", "off")
    assert built.code == engine.code == 1
    said = [line for line in engine.err.splitlines() if line.startswith("failed: ")]
    assert f'row 4000 column "{name}"' in said[0]
    assert said == [line for line in built.err.splitlines() if line.startswith("failed: ")]
    assert shell.ok("query", "SELECT count() FROM t", "--format", "TSV").out == "0\n"


def nested_table(count: int) -> pa.Table:
    """Lists, maps and structs, some of them NULL, of values that are."""
    ids = [i * 7919 % 1_000_003 for i in range(count)]
    pair = pa.struct([("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    return pa.table({
        "id": pa.array(ids, pa.uint32()),
        "tags": [None if i % 7 == 0 else [f"t{i % n}" for n in range(1, i % 4)] for i in ids],
        "counts": pa.array(
            [[(f"k{n}", i % n or None) for n in range(1, i % 5)] for i in ids],
            pa.map_(pa.string(), pa.int64()),
        ),
        "steps": pa.array(
            [[{"name": f"s{n}", "at": n * i * 1_000_000} for n in range(i % 3)] for i in ids],
            pa.list_(pa.field("element", pair, nullable=False)),
        ),
        "place": pa.array(
            [{"x": i / 8, "inner": [[i], [], None][: i % 4]} if i % 9 else None for i in ids],
            pa.struct([("x", pa.float64()), ("inner", pa.list_(pa.list_(pa.int32())))]),
        ),
    })  # fmt: skip


WHOLE = "SELECT count(), sum(sipHash64(toString(tuple(*)))) FROM t"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("key", ["id", "tuple()"])
def test_nested_columns_of_parquet_are_copied(shell: Shell, key: str) -> None:
    """Into parts and into blocks, with the rows that the engine reads."""
    (shell.folder / "in").mkdir()
    for n in range(2):
        pq.write_table(
            nested_table(20_000 + n), shell.folder / f"in/f{n}.parquet", row_group_size=7_000
        )
    options = ("in/*.parquet", "--order-by", key, "--null-lists", "empty")
    assert decider(shell, *options) == ("build", "rowfall-decode")
    built = shell.ok("load", *options, "--table", "t", "--json", "--build", "on").document
    assert (built["rows"], built["notes"]) == (40_001, [])
    blocks = ("--build", "off", "--decoder", "always", "--to", "blocks", "--json")
    assert shell.ok("load", *options, "--table", "t", *blocks).document["notes"] == []
    shell.ok("load", *options, "--table", "t", "--decoder", "never", "--to", "engine")
    found = {shell.ok("query", WHOLE, "--to", to).out for to in ("blocks", "engine")}
    assert found == {shell.ok("query", WHOLE).out}
    checks = shell.ok("query", "CHECK TABLE t SETTINGS check_query_single_value_result = 1").out
    assert checks.split()[-1] == "1"


def test_nested_columns_that_take_no_null(shell: Shell) -> None:
    """The column of a table is stricter than that of the file: a NULL is an error, by its name."""
    folder = shell.folder
    fine = pa.table({"id": range(9_000), "v": [[n % 5] * (n % 3) for n in range(9_000)]})
    pq.write_table(fine, folder / "fine.parquet")
    schema = ("--schema", "id Int64, v Array(Int64)", "--order-by", "id", "--table", "t")
    assert decider(shell, "fine.parquet", *schema[:-2]) == ("build", "rowfall-decode")
    done = shell.ok("load", "fine.parquet", *schema, "--build", "on", "--json").document
    assert (done["rows"], done["notes"]) == (9_000, [])
    shell.ok("load", "fine.parquet", *schema, "--decoder", "never", "--to", "engine")
    assert shell.ok("query", WHOLE).out == shell.ok("query", WHOLE, "--to", "engine").out
    rows = fine.slice(0, 8_000).append_column("w", pa.array([[1]] * 7_999 + [[None]]))
    odd = rows.select(["id", "w"]).rename_columns(["id", "v"])
    pq.write_table(odd, folder / "odd.parquet")
    failed = shell.run("load", "odd.parquet", "--table", "t", "--build", "on")
    assert failed.code in (1, 4)
    assert "odd.parquet" in failed.talk
    assert shell.ok("query", "SELECT count() FROM t", "--format", "TSV").out == "9000\n"


def test_nested_columns_are_handed_over(shell: Shell) -> None:
    """What the engine reads itself, or makes: Native blocks with arrays, maps and tuples."""
    table = nested_table(9_000).drop_columns(["place", "steps"])
    ids = table["id"].cast(pa.int64())  # ORC has signed integers only
    orc.write_table(table.set_column(0, "id", ids), shell.folder / "a.orc")
    options = ("a.orc", "--order-by", "id", "--null-lists", "empty", "--table", "t")
    assert decider(shell, *options[:-2]) == ("build", "engine")
    done = shell.ok("load", *options, "--build", "on", "--json").document
    assert (done["rows"], done["notes"]) == (9_000, [])
    shell.ok("load", *options, "--build", "off", "--to", "engine")
    assert shell.ok("query", WHOLE).out == shell.ok("query", WHOLE, "--to", "engine").out
    selected = (
        "a.orc", "--select", "id, [tags, ['x']] AS v, CAST(map(toString(id % 3), (id, 'y')), "
        "'Map(LowCardinality(String), Tuple(a Int64, b LowCardinality(String)))') AS w",
        "--order-by", "id", "--null-lists", "empty", "--table", "t",
    )  # fmt: skip
    done = shell.ok("load", *selected, "--build", "on", "--to", "made", "--json").document
    assert (done["rows"], done["notes"]) == (9_000, [])
    shell.ok("load", *selected, "--build", "off", "--to", "off")
    assert (
        shell.ok("query", WHOLE, "--to", "made").out == shell.ok("query", WHOLE, "--to", "off").out
    )


def test_what_the_engine_reads_is_handed_over(shell: Shell) -> None:
    """Parts of columns that are cast, and of what the engine makes itself."""
    columns_file(shell.folder / "in/a.parquet", 9_000)
    options = ("in/a.parquet", "--order-by", "id", "--type", "price String")
    assert decider(shell, *options) == ("build", "engine")
    done = shell.ok("load", *options, "--table", "t", "--build", "on", "--json").document
    assert (done["rows"], done["notes"]) == (9_000, [])
    query = "SELECT count(), sum(toFloat64(price)) = sum(id) / 8 FROM t"
    assert shell.ok("query", query, "--format", "TSV").out == "9000\t1\n"
    made = ("load", "generate://taxi?rows=5000", "--table", "t", "--json")
    assert shell.ok(*made, "--to", "made", "--build", "on").document["rows"] == 5_000
    shell.ok(*made, "--to", "off", "--build", "off")
    whole = "SELECT count(), sum(sipHash64(toString(tuple(*)))) FROM t"
    assert (
        shell.ok("query", whole, "--to", "made").out == shell.ok("query", whole, "--to", "off").out
    )


def test_parquet_that_is_damaged_or_unusual(shell: Shell) -> None:
    """Times of INT96 are copied like others; a file that is cut off is the engine's to judge."""
    columns_file(shell.folder / "in/a.parquet", 9_000)
    columns_file(shell.folder / "in/b.parquet", 9_000, use_deprecated_int96_timestamps=True)
    schema = "id UInt32, kind String, note Nullable(String), price Float64, at DateTime64(9, 'UTC')"
    load = (
        "load",
        "in/b.parquet",
        "--table",
        "t",
        "--order-by",
        "id",
        "--json",
        "--schema",
        schema,
    )
    done = shell.ok(*load, "--build", "on").document
    assert (done["rows"], done["notes"]) == (9_000, [])
    shell.ok(*load, "--decoder", "never", "--to", "engine")
    assert shell.ok("query", COUNT).out == shell.ok("query", COUNT, "--to", "engine").out
    data = (shell.folder / "in/a.parquet").read_bytes()
    (shell.folder / "in/cut.parquet").write_bytes(data[:-300])
    failed = shell.run(
        "load", "in/a.parquet", "in/cut.parquet", "--table", "u", "--build", "on", "--order-by",
        "id",
    )  # fmt: skip
    assert failed.code in (1, 4)
    assert "cut.parquet" in failed.talk
    assert shell.ok("query", "SELECT count() FROM u", "--format", "TSV").out == "9000\n"


def test_columns_of_parquet_behind_http(shell: Shell) -> None:
    """The footer, then row groups as a whole; an object that changes is no mixture."""
    with Web() as web:
        for n in range(2):
            columns_file(shell.folder / f"f{n}.parquet", 30_000 + n, row_group_size=20_000)
            web.put(f"f{n}.parquet", (shell.folder / f"f{n}.parquet").read_bytes())
        options = (web.url("f") + "{0,1}.parquet", "--order-by", "(kind, id)")
        assert decider(shell, *options) == ("build", "rowfall-decode")
        done = shell.ok("load", *options, "--table", "t", "--build", "on", "--json").document
        assert (done["rows"], done["notes"]) == (60_001, [])
        shell.ok("load", *options, "--table", "t", "--build", "off", "--to", "off")
        whole = "SELECT count(), sum(cityHash64(id, kind, ifNull(note, '-'), price, at)) FROM t"
        assert shell.ok("query", whole).out == shell.ok("query", whole, "--to", "off").out
