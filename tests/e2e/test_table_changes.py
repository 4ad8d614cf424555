"""Tables that files need to be wider, or to have more or fewer columns."""

from __future__ import annotations

import gzip
import re
import shlex
import threading
from typing import Any

import pytest

from e2e.fleet import Fleet
from e2e.lake import Lake
from e2e.tools import Shell, csv, made
from lab.clickhouse import ClickHouse
from rowfall.cluster import open as cluster_open
from rowfall.core.errors import TargetError

TYPES = "SELECT name, type FROM system.columns WHERE table = '{}' AND database = currentDatabase()"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def table(shell: Shell, columns: str, name: str = "t", *, key: str = "id") -> None:
    """A table in the folder with a single row whose values are all 1 or the like."""
    (shell.folder / "rowfall-data").mkdir(exist_ok=True)
    shell.ok(
        "query", "--write", f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY {key}"
    )


def types(shell: Shell, name: str = "t") -> dict[str, str]:
    return dict(shell.rows(TYPES.format(name)))


def hinted(talk: str, command: str) -> list[list[str]]:
    """The options that hints give, as a shell reads them."""
    hints = re.findall(
        r"hint: [^\n]*?(--widen|--table NAME)((?: --type '(?:[^']|'\"'\"')*')+)", talk
    )
    return [[command, *shlex.split(f"{first}{rest}")] for first, rest in hints]


# --- wider types ----------------------------------------------------------------------------------

NARROW = "id Int64, n Int32, d Date, e Enum8('a' = 1), f FixedString(2), x Decimal(9, 2), b UInt8"
HEAD = ("id", "n", "d", "e", "f", "x", "b")
WIDE = [(2, 3_000_000_000, "2024-01-01 10:11:12", "b", "long", "1.2345", ""),
        (3, 4, "2024-01-02 10:11:12", "a", "ab", "7", 5)]  # fmt: skip
WIDER = {
    "id": "Int64", "n": "Int64", "d": "DateTime('UTC')", "e": "Enum8('a' = 1, 'b' = 2)",
    "f": "String", "x": "Decimal(11, 4)", "b": "Nullable(UInt8)",
}  # fmt: skip
FOUND = [
    [1, 1, "2024-01-01 00:00:00", "a", "ab", 1.5, 1],
    [2, 3_000_000_000, "2024-01-01 10:11:12", "b", "long", 1.2345, None],
    [3, 4, "2024-01-02 10:11:12", "a", "ab", 7, 5],
]


def test_all_columns_become_wider_before_the_load(shell: Shell) -> None:
    table(shell, NARROW)
    shell.ok("query", "--write", "INSERT INTO t VALUES (1, 1, '2024-01-01', 'a', 'ab', 1.5, 1)")
    shell.write("w.csv", csv(WIDE, *HEAD))
    plan = " ".join(shell.ok("plan", "w.csv", "--table", "t", "--widen").out.split())
    assert "widens n from Int32 to Int64; widens d from Date to DateTime('UTC')" in plan
    assert types(shell)["n"] == "Int32"
    done = shell.ok(
        "load", "w.csv", "--table", "t", "--widen", "--verify", "--json", "--force-append"
    )
    assert any("widens b from UInt8 to Nullable(UInt8)" in x for x in done.document["notes"])
    assert types(shell) == WIDER
    assert shell.rows("SELECT id, n, d, e, f, toFloat64(x), b FROM t ORDER BY id") == FOUND
    again = shell.ok("load", "w.csv", "--table", "t", "--widen")
    assert "widens" not in again.talk


def test_a_server_s_table_becomes_wider(lake: Lake) -> None:
    lake.do(f"CREATE TABLE {{db}}.t ({NARROW}) ENGINE = MergeTree ORDER BY id",
            "INSERT INTO {db}.t VALUES (1, 1, '2024-01-01', 'a', 'ab', 1.5, 1)")  # fmt: skip
    lake.shell.write("w.csv", csv(WIDE, *HEAD))
    lake.load("w.csv", "--table", "t", "--widen", "--verify", "--force-append")
    assert lake.rows("SELECT id, n, d, e, f, toFloat64(x), b FROM {db}.t ORDER BY id") == FOUND
    # A view would cut the values to the types of its own table.
    lake.do("CREATE TABLE {db}.u (n Int64) ENGINE = MergeTree ORDER BY n",
            "CREATE MATERIALIZED VIEW {db}.v TO {db}.u AS SELECT n FROM {db}.t")  # fmt: skip
    lake.shell.write("s.csv", csv([(4, "x", "", "a", "ab", "7", 5)], *HEAD))
    refused = lake.ends(5, "load", "s.csv", "--table", "t", "--widen")
    assert "feeds materialized views" in refused.talk


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["jsonl", "parquet", "tsv"])
def test_other_formats_become_wider(shell: Shell, end: str) -> None:
    table(shell, "id Int64, n Int32, s LowCardinality(FixedString(2)), b UInt8")
    format_ = {"jsonl": "JSONEachRow", "parquet": "Parquet", "tsv": "TSVWithNames"}[end]
    rows = "SELECT 2::Int64 AS id, 3000000000::Int64 AS n, 'long' AS s, NULL::Nullable(UInt8) AS b"
    shell.write(f"w.{end}", made(rows, format_))
    failed = shell.ends(1, "load", f"w.{end}", "--table", "t")
    for words in ('"n"', '"s"', '"b"'):
        assert words in failed.talk, failed.talk
    shell.ok("load", f"w.{end}", "--table", "t", "--widen")
    assert types(shell) == {
        "id": "Int64", "n": "Int64", "s": "LowCardinality(String)", "b": "Nullable(UInt8)",
    }  # fmt: skip
    assert shell.rows("SELECT * FROM t") == [[2, 3_000_000_000, "long", None]]


@pytest.mark.long
def test_values_behind_the_sample_name_the_command_that_works(shell: Shell) -> None:
    table(shell, "id Int64, n Int32, d Date, b UInt8")
    rows: list[tuple[object, ...]] = [(i, 1, "2024-01-01", 7) for i in range(40_000)]
    rows[25_000] = (25_000, 2**40, "2024-01-01", 7)
    rows[26_000] = (26_000, 1, "2222-01-01", "")
    shell.write("late.csv", csv(rows, "id", "n", "d", "b"))
    failed = shell.ends(1, "load", "late.csv", "--table", "t", "--widen")
    assert f'line 25002 column "n": "{2**40}" does not fit Int32' in failed.talk
    assert '"2222-01-01" in "d" Date, an empty value in "b" UInt8' in failed.talk
    ((_, *options),) = hinted(failed.err, "load")
    shell.ok("load", "late.csv", "--table", "t", *options, "--verify")
    assert types(shell) == {"id": "Int64", "n": "Int64", "d": "Date32", "b": "Nullable(UInt8)"}
    assert shell.row("SELECT count(), max(n), max(d), countIf(b IS NULL) FROM t") == [
        40_000, 2**40, "2222-01-01", 1,
    ]  # fmt: skip


def test_a_column_of_a_key_names_what_can_be_done(shell: Shell) -> None:
    table(shell, "id Int32, n Int32")
    shell.write("k.csv", "id,n\n3000000000,4000000000\n")
    for options in ([], ["--widen"]):
        code = 5 if options else 1
        failed = shell.ends(code, "load", "k.csv", "--table", "t", *options)
        ((_, *hint),) = hinted(failed.err, "load")
        assert hint == ["--table", "NAME", "--type", "id Int64", "--type", "n Int64"]
        name = f"u{len(options)}"
        shell.ok("load", "k.csv", *[name if x == "NAME" else x for x in hint])
        assert shell.rows(f"SELECT * FROM {name}") == [[3_000_000_000, 4_000_000_000]]
    assert types(shell)["n"] == "Int32"


def test_no_value_of_the_table_changes(shell: Shell) -> None:
    table(shell, "id Int64, n Int64, d Date")
    shell.ok("query", "--write",
             "INSERT INTO t VALUES (1, 9007199254740993, '2149-01-01')")  # fmt: skip
    shell.write("w.csv", "id,n,d\n2,1.5,2024-01-01 10:11:12\n")
    refused = shell.ends(
        2, "load", "w.csv", "--table", "t", "--widen", "--type", "n Float64", "--force-append"
    )
    assert "would change" in refused.talk
    ((_, *hint),) = hinted(refused.err, "load")
    shell.ok("load", "w.csv", *["u" if x == "NAME" else x for x in hint])
    shell.ok("load", "w.csv", "--table", "t", "--widen")
    assert shell.rows("SELECT id, concat('=', toString(n)), toString(d) FROM t ORDER BY id") == [
        [1, "=9007199254740993", "2149-01-01 00:00:00"], [2, "=1.5", "2024-01-01 10:11:12"],
    ]  # fmt: skip


# --- columns that come and go ---------------------------------------------------------------------


def source(shell: Shell, end: str) -> str:
    """A file with a column that the table lacks and without one that it has."""
    if end == "csv":
        content: str | bytes = "city,id\nOslo,2\nBern,3\n"
    elif end == "tsv":
        content = "city\tid\nOslo\t2\nBern\t3\n"
    elif end == "jsonl":
        content = '{"city":"Oslo","id":2}\n{"city":"Bern","id":3}\n'
    else:
        format_ = {"parquet": "Parquet", "orc": "ORC", "avro": "Avro"}[end]
        content = made("SELECT ['Oslo', 'Bern'][number + 1] AS city, (number + 2)::Int64 AS id "
                       "FROM numbers(2)", format_)  # fmt: skip
    shell.write(f"f.{end}", content)
    return f"f.{end}"


@pytest.mark.parametrize("end", ["csv", "tsv", "jsonl", "parquet", "orc", "avro"])
@pytest.mark.sampled(1)
def test_columns_that_only_files_or_only_the_table_have(shell: Shell, end: str) -> None:
    name = source(shell, end)
    for n in range(3):
        table(shell, "id Int64, need Int32", f"t{n}")
        shell.ok("query", "--write", f"INSERT INTO t{n} VALUES (1, 7)")
    refused = shell.ends(5, "load", name, "--table", "t0", "--force-append")
    assert "lacks need, which the table needs; the table lacks city" in refused.talk
    assert "--on-new-column add" in refused.talk
    assert "--on-missing-column default" in refused.talk
    missing = ("--on-missing-column", "default", "--force-append")
    plan = shell.ok("plan", name, "--table", "t1", "--on-new-column", "add", *missing).out
    line = "adds city Nullable(String); takes defaults for need, which files lack"
    assert line in " ".join(plan.split())
    done = shell.ok("load", name, "--table", "t1", "--on-new-column", "add", *missing)
    assert line in done.talk
    assert shell.rows("SELECT id, need, city FROM t1 ORDER BY id") == [
        [1, 7, None], [2, 0, "Oslo"], [3, 0, "Bern"],
    ]  # fmt: skip
    shell.ok("load", name, "--table", "t2", "--on-new-column", "ignore", *missing)
    assert shell.rows("SELECT * FROM t2 ORDER BY id") == [[1, 7], [2, 0], [3, 0]]
    # A column that was added may be missing in files: it has a default.
    shell.write("old.csv", "id,need\n9,9\n")
    shell.ok("load", "old.csv", "--table", "t1")
    assert shell.row("SELECT * FROM t1 WHERE id = 9") == [9, 9, None]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", ["auto", "always", "never"])
def test_keys_behind_the_sample_are_ignored(shell: Shell, how: str) -> None:
    table(shell, "id Int64, s Nullable(String), b Int64")
    lines = [f'{{"id":{i},"b":1,"x":[1]}}' for i in range(30_000)]
    lines[25_000] = '{"id":25000,"later":{"a":1},"s":"late","b":1}'
    shell.write("f.jsonl", "\n".join(lines) + "\n")
    shell.ok("load", "f.jsonl", "--table", "t", "--on-new-column", "ignore", "--decoder", how,
             "--verify")  # fmt: skip
    assert shell.row("SELECT count(), sum(b), countIf(s = 'late') FROM t") == [30_000, 30_000, 1]
    # A value that does not fit is named all the same, and a key that is missing.
    shell.write("g.jsonl", '{"id":1,"b":"x","y":2}\n')
    bad = shell.ends(1, "load", "g.jsonl", "--table", "t", "--on-new-column", "ignore")
    assert 'column "b": "x" does not fit Int64' in bad.talk


def test_folders_are_new_columns_too(shell: Shell) -> None:
    table(shell, "id Int64")
    shell.write("in/dt=2024-01-02/a.csv", "id,city\n1,Oslo\n")
    shell.ok("load", "in", "--table", "t", "--on-new-column", "add", "--rename", "city=town")
    assert types(shell) == {"id": "Int64", "town": "Nullable(String)", "dt": "Nullable(Date)"}
    assert shell.rows("SELECT id, town, dt FROM t") == [[1, "Oslo", "2024-01-02"]]


def test_a_word_that_is_no_choice(shell: Shell) -> None:
    shell.write("a.csv", "id\n1\n")
    for flag in ("--on-new-column", "--on-missing-column"):
        assert "is not one of" in shell.ends(2, "load", "a.csv", flag, "perhaps").talk


# --- files that differ from each other ------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["orc", "avro", "arrow"])
def test_the_union_of_files_that_name_their_types(shell: Shell, end: str) -> None:
    format_ = {"orc": "ORC", "avro": "Avro", "arrow": "Arrow"}[end]

    def write(name: str, select: str) -> None:
        shell.write(f"{name}.{end}", made(select, format_))

    write("in/a", "SELECT 1::Int32 AS id, 'n' AS s")
    write("in/b", "SELECT 'm' AS s, 2::Int32 AS id, 7::Int64 AS extra")
    write("in/c", "SELECT 3::Int32 AS id, 8::Int64 AS extra")
    shell.ok("load", "in", "--table", "u", "--union-by-name", "--verify")
    assert shell.rows("SELECT id, s, extra FROM u ORDER BY id") == [
        [1, "n", None], [2, "m", 7], [3, None, 8],
    ]  # fmt: skip
    # What no file of the sample has is no silence, and no column is made of nothing.
    write("late/d", "SELECT 4::Int32 AS id, 'x' AS s, 1::Int64 AS extra, 5 AS other")
    write("late/e", "SELECT 'x' AS s, 1::Int64 AS extra")
    write("late/f", "SELECT 6.5 AS id, 'x' AS s, 1::Int64 AS extra")
    for name in ("d", "e", "f"):
        shell.run("load", f"late/{name}.{end}", "--table", "u", "--union-by-name")
    assert shell.row("SELECT count() FROM u WHERE id NOT IN (1, 2, 3)") == [0]


def test_csv_files_that_differ_are_loaded_one_after_the_other(shell: Shell) -> None:
    """What the refusal of files with different headers says."""
    shell.write("a.csv", "id,s\n1,n\n")
    shell.write("b.csv", "extra,id\n7,2\n")
    refused = shell.ends(2, "load", "*.csv", "--table", "t")
    hint = re.search(r"(--on-new-column add --on-missing-column default)", refused.talk)
    assert hint is not None
    for name in ("a.csv", "b.csv"):
        shell.ok("load", name, "--table", "t", *shlex.split(hint[1]))
    assert shell.rows("SELECT id, s, extra FROM t ORDER BY id") == [[1, "n", None], [2, "", 7]]


def united(shell: Shell, end: str, folder: str = "in") -> str:
    """Three headers in four files: other columns, another order, and the first once more."""
    mark = "," if end == "csv" else "\t"
    for name, text in {
        "a": "id,s,day\n1,n,2024-01-01\n2,,2024-01-02\n",
        "b": "s,extra,id\nm,7,3\nk,8,4\n",
        "c": "extra,id\n9,5\n,6\n",
        "d": "day,id,s\n2024-01-03,7,x\n",
    }.items():
        shell.write(f"{folder}/{name}.{end}", text.replace(",", mark))
    return f"{folder}/*.{end}"


UNITED = [
    [1, "n", "2024-01-01", None], [2, None, "2024-01-02", None], [3, "m", None, 7],
    [4, "k", None, 8], [5, None, None, 9], [6, None, None, None], [7, "x", "2024-01-03", None],
]  # fmt: skip
_LOOK = "SELECT id, s, toString(day), extra FROM {} ORDER BY id"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decoder", ["auto", "never"])
@pytest.mark.parametrize("end", ["csv", "tsv"])
def test_the_union_of_text_files(shell: Shell, end: str, decoder: str) -> None:
    files = united(shell, end)
    done = shell.ok("load", files, "--table", "t", "--union-by-name", "--verify", "--decoder",
                    decoder)  # fmt: skip
    assert "verified: 7 rows" in done.talk
    # An empty string of TSV is a string.
    wanted = [[n, "" if n == 2 and end == "tsv" else s, d, x] for n, s, d, x in UNITED]
    assert shell.rows(_LOOK.format("t")) == wanted
    assert "nothing" in shell.ok("load", files, "--table", "t", "--union-by-name").talk
    # Without the option they differ, as before.
    shell.ends(2, "load", files, "--table", "u")


def test_columns_in_another_order_go_through_the_decoder(shell: Shell) -> None:
    shell.write("in/a.csv", "id,s\n1,n\n")
    shell.write("in/b.csv", "s,id\nm,2\n")
    shell.ok("load", "in", "--table", "t", "--union-by-name", "--decoder", "always")
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, "n"], [2, "m"]]


@pytest.mark.long
def test_the_union_of_packed_files_and_bad_rows(shell: Shell) -> None:
    shell.write("in/a.csv.gz", gzip.compress(b"id,s\n1,n\n"))
    shell.write("in/b.csv.gz", gzip.compress(b"extra,id\n7,2\nx,3\n8,4,5\n"))
    args = ("load", "in", "--table", "t", "--union-by-name", "--type", "extra Nullable(Int64)",
            "--type", "id Int64")  # fmt: skip
    failed = shell.ends(1, *args)
    assert 'b.csv.gz line 3 column "extra"' in failed.talk
    assert shell.rows("SELECT * FROM t") == [[1, "n", None]]
    shell.ok(*args, "--max-errors", "2")
    assert shell.rows("SELECT * FROM t ORDER BY id") == [[1, "n", None], [2, None, 7]]
    assert "b.csv.gz\t3\textra" in (shell.folder / "rowfall-rejects.tsv").read_text()


@pytest.mark.long
def test_the_union_and_a_table(shell: Shell) -> None:
    """New columns go by --on-new-column; what takes no NULL is not filled in."""
    shell.write("old.csv", "id,s\n0,z\n")
    shell.ok("load", "old.csv", "--table", "t")
    files = united(shell, "csv")
    refused = shell.ends(5, "load", files, "--table", "t", "--union-by-name")
    assert "--on-new-column add" in refused.talk
    more = ("--union-by-name", "--on-new-column", "add")
    refused = shell.ends(2, "load", files, "--table", "t", *more)
    assert "some files lack s, which takes no NULL in the table" in refused.talk
    shell.ok("query", "--write", "ALTER TABLE t MODIFY COLUMN s Nullable(String)")
    shell.ok("load", files, "--table", "t", *more)
    assert shell.rows(_LOOK.format("t WHERE id > 0")) == UNITED


def test_what_the_union_does_not_take(shell: Shell) -> None:
    shell.write("in/a.csv", "id,s\n1,n\n")
    shell.write("in/b.csv", "1;2\n3;4\n")
    refused = shell.ends(2, "load", "in", "--table", "t", "--union-by-name")
    assert "b.csv" in refused.talk
    shell.write("in/b.csv", "id;b\n3;4\n5;6\n")
    refused = shell.ends(2, "load", "in", "--table", "t", "--union-by-name")
    assert "other marks than the first file" in refused.talk


@pytest.mark.long
def test_the_union_of_text_on_a_server(lake: Lake) -> None:
    files = united(lake.shell, "csv")
    for way in ("--push", "--pull"):
        if way == "--pull":
            lake.ends(5, "load", files, "--table", "pulled", "--union-by-name", way)
            continue
        lake.load(files, "--table", "t", "--union-by-name", "--verify", way)
        assert lake.rows(_LOOK.format("{db}.t")) == UNITED


# --- clusters -------------------------------------------------------------------------------------


def test_a_table_of_a_cluster_is_altered_on_all_nodes(fleet: Fleet) -> None:
    fleet.shell.write("a.csv", "id,n\n1,2\n")
    fleet.load("a.csv", "--table", "t", "--schema", "id Int64, n Int32", "--order-by", "id")
    for n in range(4):
        fleet.shell.write(f"in/{n}.csv", f"id,n,city\n{n + 2},3000000000,c{n}\n")
    fleet.load("in/*.csv", "--table", "t", "--widen", "--on-new-column", "add")
    for node in fleet.cluster.nodes:
        for name in ("t_local", "t"):
            found = fleet.ask(node, "SELECT name, type FROM system.columns WHERE database = '{db}' "
                              f"AND table = '{name}'")  # fmt: skip
            assert found == [["id", "Int64"], ["n", "Int64"], ["city", "Nullable(String)"]]
    fleet.sync("t_local")
    wanted = [[1, 2, None], *([n + 2, 3_000_000_000, f"c{n}"] for n in range(4))]
    assert fleet.ask(fleet.cluster.nodes[0], "SELECT * FROM {db}.t ORDER BY id") == wanted
    # An earlier load was killed between two nodes, or before the Distributed table.
    fleet.do("ALTER TABLE {db}.t MODIFY COLUMN n Int32, DROP COLUMN city", fleet.cluster.nodes[1])
    first = fleet.cluster.nodes[0]
    fleet.do("ALTER TABLE {db}.t_local ADD COLUMN later Nullable(String) DEFAULT NULL", first)
    fleet.shell.write("b.csv", "id,n,city,later\n9,3000000000,c9,x\n")
    fleet.load("b.csv", "--table", "t", "--widen", "--on-new-column", "add")
    fleet.sync("t_local")
    for node in fleet.cluster.nodes:
        found = fleet.ask(node, "SELECT id, n, city, later FROM {db}.t WHERE id = 9")
        assert found == [[9, 3_000_000_000, "c9", "x"]]


@pytest.mark.long
def test_a_load_waits_while_another_one_alters_node_after_node(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.shell.write("a.csv", "id,n\n1,2\n")
    fleet.load("a.csv", "--table", "t", "--schema", "id Int64, n Int32", "--order-by", "id")
    nodes, seen, look = fleet.first(), [], cluster_open.find_tables
    add = "ALTER TABLE {db}.t_local ADD COLUMN city Nullable(String) DEFAULT NULL"
    fleet.do(add, nodes[0])

    def find_tables(*args: Any, **more: Any) -> Any:
        try:
            return look(*args, **more)
        except TargetError:
            seen.append(args)
            fleet.do(add, nodes[1])
            raise

    monkeypatch.setattr(cluster_open, "find_tables", find_tables)
    fleet.shell.write("b.csv", "id,n\n2,3\n")
    fleet.load("b.csv", "--table", "t")
    assert len(seen) == 1
    assert sum(fleet.counts("t_local")) == 2


@pytest.mark.long
def test_two_loads_add_the_same_column_at_once(lake: Lake) -> None:
    lake.do("CREATE TABLE {db}.t (id Int64, n Int32) ENGINE = MergeTree ORDER BY id")
    for n in range(2):
        rows = [(n * 1000 + i, 2**40, f"c{n}") for i in range(1000)]
        lake.shell.write(f"{n}.csv", csv(rows, "id", "n", "city"))
    ends: list[int] = []

    def load(n: int) -> None:
        done = lake.shell.cli("load", f"{n}.csv", "--to", lake.to, "--table", "t", "--widen",
                              "--on-new-column", "add")  # fmt: skip
        ends.append(done.returncode)

    both = [threading.Thread(target=load, args=(n,)) for n in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert ends == [0, 0]
    assert lake.row("SELECT count(), uniqExact(id), min(n), uniqExact(city) FROM {db}.t") == [
        2000, 2000, 2**40, 2,
    ]  # fmt: skip
