"""Columns that are not those of the files: renamed, left out, computed, of folders' names."""

from __future__ import annotations

import shlex

import pytest

from e2e.lake import Lake
from e2e.tools import Shell, csv, made
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed

ALL = "SELECT * FROM t ORDER BY id"


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def days(shell: Shell, end: str = "csv") -> str:
    """Two folders of events, a file in each; column ``junk`` is no use to anybody."""
    for day, first in (("2024-01-01", 1), ("2024-01-02", 4)):
        rows = [
            (n, f"n{n}", 1704067200000000000 + n, '"a ""b"', n % 2) for n in range(first, first + 3)
        ]
        if end == "csv":
            content: str | bytes = csv(rows, "id", "name", "ts", "junk", "flag")
        elif end == "jsonl":
            content = "".join(
                f'{{"id":{i},"name":"{n}","ts":{t},"junk":{{"a":[{f}]}},"flag":{f}}}\n'
                for i, n, t, _, f in rows
            )
        else:
            content = made(
                f"SELECT {first} + number AS id, concat('n', toString(id)) AS name, "
                "1704067200000000000 + id AS ts, [1, 2] AS junk, id % 2 AS flag FROM numbers(3)",
                "Parquet",
            )
        shell.write(f"ev/dt={day}/kind=a%20b/x.{end}", content)
    return "ev"


# --- names of folders and files ------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["csv", "jsonl", "parquet"])
def test_folders_of_hive_are_columns(shell: Shell, end: str) -> None:
    source = days(shell, end)
    shell.ok("load", source, "--table", "t", "--verify", "--skip", "junk", "--skip", "ts")
    wanted = [
        [n, f"n{n}", n % 2, "2024-01-01" if n < 4 else "2024-01-02", "a b"] for n in range(1, 7)
    ]
    assert shell.rows(ALL) == wanted
    types = dict(shell.rows("SELECT name, type FROM system.columns WHERE table = 't'"))
    assert types["dt"] == "Date"
    assert types["kind"] == "LowCardinality(String)"
    again = shell.ok("load", source, "--table", "t", "--skip", "junk", "--skip", "ts")
    assert "nothing to load" in again.talk
    assert shell.row("SELECT count() FROM t") == [6]


def test_a_table_without_a_column_for_a_folder_is_loaded_without(shell: Shell) -> None:
    source = days(shell)
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", "--write", "CREATE TABLE t (id Int64, kind String, flag UInt8) "
             "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    plan = shell.ok("plan", source, "--table", "t", "--skip", "junk", "--skip", "name", "--skip",
                    "ts", "-v")  # fmt: skip
    assert "the table has no column for dt: left out" in " ".join(plan.out.split())
    shell.ok("load", source, "--table", "t", "--skip", "junk", "--skip", "name", "--skip", "ts")
    assert shell.rows(ALL)[0] == [1, "a b", 1]


def test_the_values_of_folders_have_one_type(shell: Shell) -> None:
    for value in ("7", "-3", "__HIVE_DEFAULT_PARTITION__"):
        shell.write(f"in/n={value}/m=0{value[-1]}/x.csv", "id,b\n1,2\n")
    shell.ok("load", "in", "--table", "t", "--add-column", "file=_path", "--verify")
    found = shell.rows("SELECT n, concat('m', m), file FROM t ORDER BY n")
    assert [row[:2] for row in found] == [[-3, "m03"], [7, "m07"], [None, "m0_"]]
    assert found[0][2] == str(shell.folder / "in/n=-3/m=03/x.csv")
    types = dict(shell.rows("SELECT name, type FROM system.columns WHERE table = 't'"))
    assert types["n"] == "Nullable(Int64)"
    assert types["m"] == "LowCardinality(String)"


def test_a_column_of_the_file_comes_before_that_of_its_folder(shell: Shell) -> None:
    shell.write("in/id=9/x.csv", "id,b\n1,2\n")
    shell.ok("load", "in", "--table", "t")
    assert shell.rows("SELECT id, b FROM t") == [[1, 2]]


def test_folders_of_a_bucket(shell: Shell, s3: Seaweed, bucket: str) -> None:
    for day in ("2024-01-01", "2024-01-02"):
        s3.put(bucket, f"ev/dt={day}/x.csv", b"id,b\n1,2\n")
    shell.ok("load", f"s3://{bucket}/ev/**", "--table", "t", "--verify", env=s3.env)
    assert shell.rows("SELECT dt, id FROM t ORDER BY dt") == [["2024-01-01", 1], ["2024-01-02", 1]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "how", [["--push"], ["--decoder", "never"], []], ids=["push", "raw", "auto"]
)
def test_columns_of_a_server(lake: Lake, how: list[str]) -> None:
    source = days(lake.shell)
    lake.load(source, "--table", "t", *how, "--skip", "junk", "--rename", "name=who", "--verify",
              "--where", "id != 2", "--add-column", "f=_file")  # fmt: skip
    found = lake.rows("SELECT id, who, dt, f FROM {db}.t ORDER BY id")
    assert found[:2] == [[1, "n1", "2024-01-01", "x.csv"], [3, "n3", "2024-01-01", "x.csv"]]
    assert len(found) == 5
    # Without columns of the names of files rowfall-decode parses, or files go as they are.
    lake.load(str(lake.shell.folder / source / "*/*/*.csv"), "--table", "u", *how, "--select",
              "id, toUInt8(flag + 1) AS f", "--where", "flag", "--skip", "dt", "--skip", "kind",
              "--verify")  # fmt: skip
    assert lake.rows("SELECT * FROM {db}.u ORDER BY id") == [[1, 2], [3, 2], [5, 2]]


# --- renamed, left out, computed -----------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decoder", ["always", "never"])
@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_columns_are_left_out_and_renamed(shell: Shell, end: str, decoder: str) -> None:
    days(shell, end)
    shell.ok("load", "ev", "--table", "t", "--decoder", decoder, "--skip", "junk", "--skip", "ts",
             "--skip", "dt", "--skip", "kind", "--rename", "name=flag", "--rename", "flag=name",
             "--verify")  # fmt: skip
    assert shell.rows("SELECT id, flag, name FROM t ORDER BY id")[0] == [1, "n1", 1]


def test_columns_without_a_header(shell: Shell) -> None:
    shell.write("x.csv", "1,a,7\n2,b,8\n")
    shell.ok("load", "x.csv", "--table", "t", "--skip", "c2", "--rename", "c1=id", "--verify")
    assert shell.rows("SELECT id, c3 FROM t ORDER BY id") == [[1, 7], [2, 8]]
    shell.ok("load", "x.csv", "--table", "t", "--skip", "c2", "--force")  # by position
    assert shell.row("SELECT count(), sum(c3) FROM t") == [4, 30]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("decoder", ["always", "never"])
def test_what_is_selected_is_loaded_once(shell: Shell, decoder: str) -> None:
    days(shell)
    asked = ["ev", "--table", "t", "--decoder", decoder, "--skip", "dt", "--skip", "kind",
             "--select", "id, fromUnixTimestamp64Nano(ts) AS at, upper(name) AS who"]  # fmt: skip
    shell.ok("load", *asked, "--where", "flag = 1", "--verify")
    assert shell.rows(ALL)[0] == [1, "2024-01-01 00:00:00.000000001", "N1"]
    assert "nothing to load" in shell.ok("load", *asked, "--where", "flag = 1").talk
    assert shell.row("SELECT count() FROM t") == [3]
    # Other rows of the same files.
    other = shell.ok("load", *asked, "--where", "flag = 0")
    assert "loaded before with another --select or --where" in other.talk
    assert shell.row("SELECT count(), uniqExact(id) FROM t") == [6, 6]
    none = shell.ok("load", *asked, "--where", "id > 100", "--verify", "--json").document
    assert none["rows"] == 0


def test_what_is_selected_fits_the_table_or_fails(shell: Shell) -> None:
    days(shell)
    (shell.folder / "rowfall-data").mkdir()
    shell.ok("query", "--write", "CREATE TABLE t (id UInt8, n UInt8, d Date DEFAULT '2020-01-01') "
             "ENGINE = MergeTree ORDER BY id")  # fmt: skip
    shell.ok("load", "ev", "--table", "t", "--select", "id, id * 10 AS n", "--verify")
    assert shell.row("SELECT sum(n), any(d) FROM t") == [210, "2020-01-01"]
    done = shell.ends(1, "load", "ev", "--table", "t", "--select", "id, id * 100 AS n")
    assert "does not fit n UInt8" in done.talk
    assert shell.row("SELECT count() FROM t") == [6]


def test_expressions_over_a_column_that_the_sample_takes_for_text(shell: Shell) -> None:
    """Nothing but empty values, or zeros in front: the table's own type is named, and works."""
    shell.write("a.csv", "id,n,code\n1,,007\n2,,008\n")
    table = ["--schema", "id UInt8, n Nullable(UInt8), code UInt16"]
    made = ["--select", "id, n + 1 AS n, code * 2 AS code"]
    refused = shell.ends(2, "load", "a.csv", *table, *made).talk
    assert "over the columns of the source: id Int64, n Nullable(String), code String" in refused
    hint = refused.partition("as the table has it: ")[2]
    assert hint == "--type 'n Nullable(UInt8)' --type 'code UInt16'"
    shell.ok("load", "a.csv", *table, *made, *shlex.split(hint))
    assert shell.row("SELECT count(), sum(code), countIf(n IS NULL) FROM a") == [2, 30, 2]
    where = ["--where", "code > 7", "--force"]
    assert shell.ok("load", "a.csv", *where, "--json").document["rows"] == 1  # as the table has it


def test_widening_and_expressions(shell: Shell) -> None:
    """--where leaves the columns as they are; what --select makes is looked at by nobody."""
    shell.write("a.csv", "id,n\n1,2\n")
    shell.write("b.csv", "id,n\n2,70000\n3,1\n")
    shell.ok("load", "a.csv", "--table", "t", "--schema", "id UInt8, n UInt8")
    shell.ok("load", "b.csv", "--table", "t", "--widen", "--where", "n > 5")
    assert shell.rows("SELECT id, n, toTypeName(n) FROM t ORDER BY id") == [
        [1, 2, "UInt32"], [2, 70000, "UInt32"],
    ]  # fmt: skip
    made = ["--select", "id, n * 9 AS n"]
    refused = shell.ends(2, "load", "b.csv", "--table", "t", "--widen", *made)
    assert "not for what --select gives: id Int64 into UInt8, n Int64 into UInt32" in refused.talk
    wide = ["--select", "id::UInt8 AS id, (n % 7)::UInt16 AS n", "--widen"]
    assert shell.ok("load", "b.csv", "--table", "t", *wide, "--json").document["rows"] == 2


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--select", "count()"], "more than the row itself (Aggregating)"),
        (["--select", "arrayJoin([id, 1]) AS x"], "more than the row itself (arrayJoin)"),
        (["--select", "id, row_number() OVER () AS n"], "--select holds OVER"),
        (["--select", "id FROM numbers(3)"], "--select holds FROM"),
        (["--select", "id) FROM numbers(3"], "--select is not complete"),
        (["--select", "nothing_there"], "the engine refuses --select or --where"),
        (["--select", "id, flag AS id"], "two columns one name"),
        (["--where", "id > 1; DROP TABLE t"], "--where is not complete"),
        (["--where", "id > 1 LIMIT 3"], "--where holds LIMIT"),
        (["--rename", "nobody=x"], "--rename names the column 'nobody'"),
        (["--rename", "id"], "does not name two columns"),
        (["--rename", "id=name"], "two columns would be named name"),
        (["--skip", "nobody"], "--skip names the column 'nobody'"),
        (["--add-column", "f=_size"], "_size is not one of _path, _file"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_options_that_make_no_sense(shell: Shell, options: list[str], said: str) -> None:
    days(shell)
    assert said in shell.ends(2, "load", "ev", "--table", "t", *options).talk


def test_files_of_selected_rows(shell: Shell) -> None:
    """Exports and bad rows know what is selected, too."""
    shell.write("in/a.csv", "id,n,junk\n" + "".join(f"{i},{i}.5,x\n" for i in range(1, 101)))
    shell.ok("load", "in", "--to", "out/part_{n}.csv", "--files", "1", "--select", "id, n",
             "--where", "id > 98")  # fmt: skip
    (found,) = (shell.folder / "out").glob("*.csv")
    assert found.read_text().splitlines()[-2:] == ["99,99.5", "100,100.5"]
    shell.write("bad/a.csv", "id,n\n1,2\nx,3\n5,6\n")
    done = shell.ok("load", "bad", "--table", "t", "--type", "id Int64", "--max-errors", "1",
                    "--select", "id + 1 AS m", "--json")  # fmt: skip
    assert done.document["rows"] == 2
    assert shell.row("SELECT sum(m) FROM t") == [8]


def test_many_folders_beside_a_large_file(shell: Shell) -> None:
    for n in range(300):
        shell.write(f"in/n={n}/s.csv", f"id,b\n{n},1\n")
    shell.write("in/n=1000/large.csv", "id,b\n" + "".join(f"{i},2\n" for i in range(200_000)))
    report = shell.ok("load", "in", "--table", "t", "--json").document
    assert report["rows"] == 200_300
    assert shell.row("SELECT uniqExact(n) FROM t") == [301]


# --- files whose columns differ ------------------------------------------------------------------


def parquet(sql: str) -> bytes:
    return made(sql, "Parquet")


def test_parquet_files_of_other_types_get_one_that_fits_all(shell: Shell) -> None:
    shell.write("in/a.parquet", parquet("SELECT 1::Int32 AS id, 7::Nullable(Int64) AS x"))
    shell.write("in/b.parquet", parquet("SELECT 5000000000::Int64 AS id, 1.5 AS x"))
    shell.write("in/c.parquet", parquet("SELECT 3::UInt16 AS id, 2::Float32 AS x"))
    shell.ok("load", "in", "--table", "t", "--verify")
    assert shell.rows("SELECT id, toString(x) FROM t ORDER BY id") == [
        [1, 7], [3, 2], [5_000_000_000, "1.5"],
    ]  # fmt: skip


def test_no_integer_of_parquet_is_rounded_by_the_type_of_another_file(shell: Shell) -> None:
    shell.write("in/a.parquet", parquet("SELECT 1 AS id, 1.5 AS x"))
    shell.write("in/b.parquet", parquet("SELECT 2 AS id, 9007199254740993::Int64 AS x"))
    done = shell.ends(1, "load", "in", "--table", "t")
    assert "x is INT64 with values beyond 2^53, which Float64 would change" in done.talk
    assert shell.rows("SELECT id FROM t") == [[1]]
    # What the hint says.
    shell.ok("load", "in/b.parquet", "--table", "u")
    assert shell.rows("SELECT x FROM u") == [[9007199254740993]]


def test_columns_that_some_parquet_files_lack(shell: Shell) -> None:
    shell.write("in/a.parquet", parquet("SELECT 1 AS id, 'n' AS s"))
    shell.write("in/b.parquet", parquet("SELECT 2 AS id, 'm' AS s, 7 AS extra"))
    shell.write("in/c.parquet", parquet("SELECT 3 AS id"))
    done = shell.ends(1, "load", "in", "--table", "t")
    assert "s is missing" in done.talk
    assert "--union-by-name" in done.talk
    assert "at rest" not in done.talk
    shell.ok("load", "in", "--table", "u", "--union-by-name", "--verify")
    assert shell.rows("SELECT id, s, extra FROM u ORDER BY id") == [
        [1, "n", None], [2, "m", 7], [3, None, None],
    ]  # fmt: skip
    shell.write("x.native", made("SELECT 1 AS a", "Native"))
    refused = shell.ends(2, "load", "x.native", "--table", "v", "--union-by-name")
    assert "--union-by-name reads CSV, TSV, Parquet" in refused.talk


def test_a_broken_parquet_file_is_called_broken(shell: Shell) -> None:
    whole = parquet("SELECT number AS id FROM numbers(1000)")
    shell.write("in/a.parquet", whole)
    shell.write("in/b.parquet", whole[: len(whole) // 2])
    done = shell.ends(1, "load", "in", "--table", "t")
    assert "b.parquet is not a whole file of its format" in done.talk
    assert "--max-errors" not in done.talk


def test_a_link_that_leads_nowhere_is_no_silence(shell: Shell) -> None:
    shell.write("in/a.csv", "id,b\n1,2\n")
    (shell.folder / "in/b.csv").symlink_to("nowhere.csv")
    done = shell.ends(4, "load", "in", "--table", "t")
    assert "in/b.csv" in done.talk
    assert "A broken link leads nowhere" in done.talk


def test_a_table_with_a_primary_key_and_settings_as_schema_file(shell: Shell) -> None:
    shell.write("a.csv", "id,name\n1,x\n2,y\n")
    shell.write("t.sql", "CREATE TABLE x (id Int64, name String) ENGINE = MergeTree\n"
                "PRIMARY KEY id ORDER BY (id, name) SETTINGS index_granularity = 9;\n")  # fmt: skip
    shell.ok("load", "a.csv", "--table", "t", "--schema-file", "t.sql", "--verify")
    ((text,),) = shell.rows("SELECT create_table_query FROM system.tables WHERE name = 't'")
    assert "PRIMARY KEY id ORDER BY (id, name) SETTINGS index_granularity = 9" in text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["n", "my n"])
def test_the_command_of_a_hint_works(shell: Shell, name: str) -> None:
    """A later file needs a wider type: what the hint says can be pasted."""
    shell.write("in/a.csv", f"id,{name}\n" + "1,2\n")
    shell.ok("load", "in", "--table", "t", "--type", f"`{name}` UInt8")
    shell.write("in/b.csv", f"id,{name}\n" + "1,70000\n")
    done = shell.ends(1, "load", "in", "--table", "t")
    hint = done.talk[done.talk.index("--widen --type") :]
    words = shlex.split(hint[: hint.index(", or leave")])
    shell.ok("load", "in", "--table", "t", *words)
    assert shell.row(f"SELECT sum(`{name}`) FROM t") == [70002]


def test_rows_that_are_made_are_selected_as_those_of_files(shell: Shell) -> None:
    rows = "generate://random?rows=1000&bytes=8"
    args = (
        "--select",
        "document_id AS id, length(payload) AS size",
        "--where",
        "document_id >= 10",
    )
    shell.ok("load", rows, *args, "--table", "t")
    shell.ok("load", rows, *args, "--table", "t")
    assert shell.row("SELECT count(), uniqExact(id), min(id), sum(size) FROM t") == [
        990, 990, 10, 990 * 8,
    ]  # fmt: skip
    assert shell.row("SELECT sorting_key FROM system.tables WHERE name = 't'") == [""]
    refused = shell.ends(2, "load", rows, "--rename", "document_id=id", "--table", "u")
    assert "--select 'a, b AS c'" in refused.talk
