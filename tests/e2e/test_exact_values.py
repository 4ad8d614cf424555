"""Values that a reader of the engine changes: each arrives as it is, or its row is refused."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from datetime import date, time
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import rowfall
from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from rowfall.stores.files import LocalFiles

DAYS = [date(1960, 1, 1), date(1970, 1, 2), date(2024, 2, 29), date(2299, 12, 31), None]


@pytest.fixture
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


def _days(path: Any) -> None:
    table = pa.table({
        "n": range(len(DAYS)), "v": pa.array(DAYS, pa.date64()),
        "l": pa.array([[day] for day in DAYS], pa.list_(pa.date64())),
        "s": pa.array([{"x": 1, "d": d} for d in DAYS],
                      pa.struct([("x", pa.int8()), ("d", pa.date64())])),
    })  # fmt: skip
    pyarrow.feather.write_feather(table, path, compression="uncompressed")


ASKED = "SELECT toString(v), toString(l[1]), toString(tupleElement(s, 'd')) FROM {} ORDER BY n"
SAID = [[day and day.isoformat()] * 3 for day in DAYS]


@pytest.mark.parametrize("more", [(), ("--type", "v Nullable(Date32)"), ("--max-errors", "1")])
def test_days_of_arrow_in_milliseconds(shell: Shell, more: tuple[str, ...]) -> None:
    """The engine's reader makes 2096-02-06 06:28:16 of 1960-01-01."""
    _days(shell.folder / "a.arrow")
    shell.ok("load", "a.arrow", "--table", "t", *more)
    assert shell.rows(ASKED.format("t")) == SAID
    shell.ok("load", "a.arrow", "--table", "t", *more, "--force-append", "--force")
    assert shell.row("SELECT count(), uniqExact(v) FROM t") == [10, 4]


def test_days_of_arrow_into_an_older_server(lake: Lake) -> None:
    _days(lake.shell.folder / "a.arrow")
    lake.ok("load", "a.arrow", "--table", "t")
    assert lake.rows(ASKED.format("{db}.t")) == SAID
    # What a NULL hides is no day, at which a cast threw.
    some = pa.table({"v": pa.array([date(2024, 2, 29), None], pa.date64())})
    pyarrow.feather.write_feather(some, lake.shell.folder / "c.arrow", compression="uncompressed")
    lake.ok("load", "c.arrow", "--table", "w", "--type", "v Nullable(Date)")
    assert lake.rows("SELECT toString(v) FROM {db}.w ORDER BY v") == [["2024-02-29"], [None]]
    # A time of day is no day: what the format does not allow is not guessed.
    odd = pa.table({"v": pa.array([3_723_000], pa.int64()).cast(pa.date64(), safe=False)})
    pyarrow.feather.write_feather(odd, lake.shell.folder / "b.arrow", compression="uncompressed")
    assert 'b.arrow row 1 column "v"' in lake.ends(1, "load", "b.arrow", "--table", "u").talk


def test_days_of_frames_in_milliseconds(shell: Shell) -> None:
    to = shell.folder / "d"
    rowfall.load(pa.table({"v": pa.array(DAYS[:2], pa.date64())}), to=to, table="t")
    found = [row[0] for row in rowfall.query("SELECT toString(v) FROM t ORDER BY v", to=to)]
    assert found == ["1960-01-01", "1970-01-02"]


def test_days_beyond_an_older_server(lake: Lake) -> None:
    """The message showed the second that the reader makes of it, and the hint was refused."""
    table = pa.table({"v": pa.array([date(9999, 12, 31)], pa.date64())})
    pyarrow.feather.write_feather(table, lake.shell.folder / "a.arrow", compression="uncompressed")
    talk = lake.ends(1, "load", "a.arrow", "--table", "t").talk
    assert 'row 1 column "v": "9999-12-31" does not fit Date32' in talk
    assert "--type 'v String'" in talk
    lake.ok("load", "a.arrow", "--table", "u", "--type", "v String")
    assert lake.rows("SELECT v FROM {db}.u") == [["9999-12-31"]]


MARKED = 'n,v\n1,a\n2,\\N\n3,"\\N"\n4,\n'


@pytest.mark.parametrize("decoder", ["auto", "never"])
@pytest.mark.parametrize("type_", ["String", "FixedString(2)"])
def test_a_mark_of_null_is_no_text(shell: Shell, decoder: str, type_: str) -> None:
    r"""Where ``\N`` is shown, a quoted one is a text, and the other one NULL."""
    shell.write("in.csv", MARKED)
    ways = ("--table", "t", "--type", f"v {type_}", "--decoder", decoder)
    failed = shell.ends(1, "load", "in.csv", *ways)
    assert f'in.csv line 3 column "v" is NULL, and {type_} takes no NULL' in failed.talk
    assert f"--widen --type 'v Nullable({type_})'" in failed.talk
    shell.ok("load", "in.csv", *ways, "--max-errors", "1")
    assert shell.rows("SELECT n, toString(v) FROM t WHERE n = 3") == [[3, "\\N"]]
    assert shell.row("SELECT count() FROM t") == [3]


@pytest.mark.parametrize("decoder", ["auto", "never"])
def test_a_mark_of_null_behind_the_sample(shell: Shell, decoder: str) -> None:
    rows = "".join(f"{n},a{n % 7}\n" for n in range(20_010))
    shell.write("in.csv", f"n,v\n{rows}-1,\\N\n")
    ways = ("--table", "t", "--decoder", decoder)
    failed = shell.ends(1, "load", "in.csv", *ways)
    assert 'in.csv line 20012 column "v" is NULL, and' in failed.talk
    shell.ok("load", "in.csv", *ways, "--widen", "--type", "v Nullable(String)")
    assert shell.row("SELECT count(), countIf(isNull(v)) FROM t") == [20_011, 1]


ENGINE_ONLY = [
    ("Nullable(Tuple(x UInt8))", {"x": 300}, {"x": 44}),
    ("Nullable(Tuple(x Date))", {"x": "2024-02-31"}, {"x": "2024-02-29"}),
    ("Array(Nullable(Tuple(x Decimal(9, 2))))", [None, {"x": 1.239}], [None, {"x": 1.23}]),
    ("Variant(Date, UInt8)", "2024-02-31", "2024-02-29"),
    ("JSON(a Date)", {"a": "2024-02-31"}, {"a": "2024-02-29"}),
    ("JSON(a.b Array(UInt8))", {"a": {"b": [300]}}, {"a": {"b": [44]}}),
    ("JSON(a Decimal(9, 2))", {"a": 1.239}, {"a": 1.23}),
    ("JSON(a Date)", {"b": 1}, {"a": "2024-02-29", "b": 1}),
    ("JSON(a Variant(Bool, Int64))", {"a": 5}, {"a": True}),
    ("Nested(a UInt8)", [{"a": 300}], [{"a": 44}]),
    ("Array(Nested(a UInt8, b String))", [[{"a": 300, "b": ""}]], [[{"a": 44, "b": ""}]]),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("type_", "odd", "good"), ENGINE_ONLY, ids=lambda v: str(v))
def test_types_whose_values_the_engine_alone_reads(
    shell: Shell, type_: str, odd: Any, good: Any
) -> None:
    ways = ("--table", "t", "--type", f"v {type_}", "--order-by", "n")
    shell.write("good.jsonl", json.dumps({"n": 1, "v": good}) + "\n")
    shell.ok("load", "good.jsonl", *ways)
    assert shell.row("SELECT toJSONString(v) FROM t") == [json.dumps(good).replace(" ", "")]
    shell.write(
        "odd.jsonl", json.dumps({"n": 2, "v": good}) + "\n" + json.dumps({"n": 3, "v": odd})
    )
    failed = shell.ends(1, "load", "odd.jsonl", *ways)
    assert 'odd.jsonl line 2 column "v"' in failed.talk
    shell.ok("load", "odd.jsonl", *ways, "--max-errors", "1")
    assert shell.row("SELECT max(n), count() FROM t") == [2, 2]


def test_a_number_without_a_type_stays_one_beside_a_decimal_of_its_name(shell: Shell) -> None:
    shell.write("a.jsonl", '{"n":1,"v":{"b":{"y":1.2345678901234567},"a":{"y":1.5}}}\n')
    ways = ("--type", "v JSON(a.y Decimal(38, 20))", "--order-by", "n")
    shell.ok("load", "a.jsonl", "--table", "t", *ways)
    asks = "SELECT dynamicType(v.b.y), toString(v.a.y) FROM t FORMAT TSV"
    assert shell.ok("query", asks).out.split() == ["Float64", "1.5"]


def test_decimals_of_a_path_keep_their_digits(shell: Shell) -> None:
    rows = ('{"p": 12345678901234567.89, "q": {"p": 2.5}}', '{"o": 1, "p" : 0.1}')
    shell.write("in.jsonl", "".join(f'{{"n": {n}, "v": {v}}}\n' for n, v in enumerate(rows)))
    ways = ("--type", "v JSON(p Decimal(38, 4))", "--order-by", "n")
    for table, more in (("t", ()), ("u", ("--max-errors", "1"))):
        shell.ok("load", "in.jsonl", "--table", table, *ways, *more)
        found = shell.rows(f"SELECT toString(v.p), toString(v.q.p) FROM {table} ORDER BY n")
        assert found[0] == ["12345678901234567.89", "2.5"]
        assert found[1][0] == "0.1"
    # Within brackets they are read as floats, which is refused where it loses any.
    shell.write(
        "odd.jsonl", '{"n": 1, "v": {"p": [0.25]}}\n{"n": 2, "v": {"p": [12345678901234567.89]}}'
    )
    odd = ("odd.jsonl", "--table", "w", "--type", "v JSON(p Array(Decimal(38, 4)))")
    assert 'odd.jsonl line 2 column "v"' in shell.ends(1, "load", *odd).talk
    shell.ok("load", *odd, "--max-errors", "1")
    assert shell.row("SELECT count() FROM w") == [1]


def test_a_dynamic_holds_no_infinity_and_takes_null(shell: Shell) -> None:
    values = ["null", "5", '"007"', '["inf"]', '"inf"', "18446744073709551615"]
    shell.write("in.jsonl", "".join(f'{{"n": {n}, "v": {v}}}\n' for n, v in enumerate(values)))
    ways = ("--table", "t", "--type", "v Dynamic")
    shell.ok("load", "in.jsonl", *ways)
    assert shell.rows("SELECT toString(dynamicType(v)) FROM t ORDER BY n") == [
        ["None"], ["Int64"], ["String"], ["Array(String)"], ["String"], ["UInt64"],
    ]  # fmt: skip
    own = '{"n": 0, "v": ["1e400", "1e999"]}\n'
    lists = ("--table", "l", "--type", "v Array(Dynamic)")
    for value, more in (("1e400", ways), ("[1, -1e999]", ways), ("[1, 1e400]", lists)):
        shell.write("odd.jsonl", own + f'{{"n": 1, "v": {value}}}\n')
        said = shell.ends(1, "load", "odd.jsonl", *more).talk
        assert f'odd.jsonl line 2 column "v": "{value}" does not fit {more[-1][2:]}' in said
    # Beside a list that would hide a NULL, none is read.
    shell.write("null.jsonl", '{"v": null, "l": [[1]]}\n')
    types = ("--type", "v Dynamic", "--type", "l Array(Array(Int64))")
    said = shell.ends(1, "load", "null.jsonl", "--table", "u", *types).talk
    assert 'column "v": holds a NULL, which the engine does not read there' in said


@pytest.mark.parametrize(("value", "stored"), [
    (300, "300"), ("2024-02-31", "2024-02-31"), ("007", "007"), (1.5, "1.5"), (200, 200),
    ("2024-02-29", "2024-02-29"), (None, None),
])  # fmt: skip
@pytest.mark.sampled(3)
def test_a_variant_has_the_first_type_that_a_value_fits(
    shell: Shell, value: Any, stored: Any
) -> None:
    shell.write("in.jsonl", json.dumps({"v": value, "l": [value]}) + "\n")
    types = ("--type", "v Variant(UInt8, Date, String)", "--type",
             "l Array(Variant(UInt8, Date, String))")  # fmt: skip
    shell.ok("load", "in.jsonl", "--table", "t", *types)
    shown = "" if stored is None else str(stored)  # the engine shows none of it
    assert shell.row("SELECT toString(v) IS NOT DISTINCT FROM toString(l[1]) FROM t") == [1]
    assert shell.ok("query", "SELECT toString(v) FROM t FORMAT JSONCompactEachRow").out.strip() == (
        json.dumps([shown])
    )
    kind = "Date" if stored == "2024-02-29" else "UInt8" if stored == 200 else "String"
    said = "None" if value is None else kind
    assert shell.row("SELECT toString(variantType(v)) FROM t") == [said]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("format_", ["parquet", "arrow"])
def test_times_of_day_by_numbers_and_other_times(shell: Shell, format_: str) -> None:
    def write(name: str, values: list[Any], type_: pa.DataType) -> None:
        table = pa.table({"v": pa.array(values, type_)})
        if format_ == "parquet":
            pyarrow.parquet.write_table(table, shell.folder / f"{name}.{format_}")
        else:
            pyarrow.feather.write_feather(
                table, shell.folder / f"{name}.{format_}", compression="uncompressed"
            )

    for name, type_ in (("i64", pa.int64()), ("i32", pa.int32())):
        for into in ("Time", "Time64(6)"):
            write(name, [0, 86_399, 3_599_999], type_)
            table = f"{name}_{into[:6].lower()}"
            shell.ok(
                "load", f"{name}.{format_}", "--table", table, "--type", f"v {into}", "--force"
            )
            zeros = "" if into == "Time" else ".000000"
            assert shell.row(f"SELECT toString(max(v)) FROM {table}") == [f"999:59:59{zeros}"]
            write("odd", [1, 3_600_000], type_)
            failed = shell.ends(1, "load", f"odd.{format_}", "--table", table)
            assert f'odd.{format_} row 2 column "v": "3600000" does not fit {into}' in failed.talk
    write("t", [time(12, 30), None], pa.time64("us"))
    shell.ok("load", f"t.{format_}", "--table", "t", "--type", "v Nullable(Time)")
    assert shell.rows("SELECT toString(v) FROM t ORDER BY v") == [["12:30:00"], [None]]
    write("u", [time(12, 30, 0, 5)], pa.time64("us"))
    assert (
        f'u.{format_} row 1 column "v"'
        in shell.ends(1, "load", f"u.{format_}", "--table", "t").talk
    )


def test_decimals_of_the_least_integer(shell: Shell) -> None:
    """abs() of the least integer of 64 bits is negative."""
    least = -(2**63)
    pyarrow.parquet.write_table(pa.table({"v": pa.array([1, least])}), shell.folder / "a.parquet")
    failed = shell.ends(1, "load", "a.parquet", "--table", "t", "--type", "v Decimal(18, 0)")
    assert 'a.parquet row 2 column "v"' in failed.talk


def test_blanks_belong_to_the_name_of_an_enum(shell: Shell) -> None:
    shell.write("in.tsv", "n\tv\n1\ta\n 2\ta \n")
    types = ("--type", "v Enum8('a' = 1, 'b' = 2)")
    assert 'line 3 column "v"' in shell.ends(1, "load", "in.tsv", "--table", "t", *types).talk


def test_the_engine_does_not_verify_itself(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that gives other values gives them twice; pyarrow gives those of the file."""
    for name, values in (("a", [1, 2]), ("b", [1, 3])):
        pyarrow.parquet.write_table(pa.table({"v": values}), shell.folder / f"{name}.parquet")
    load = ("load", "a.parquet", "--table", "t", "--decoder", "never", "--verify")
    true = LocalFiles.relation

    def other(self: Any, splits: Any, encoding: Any, structure: str) -> Any:
        if structure and encoding.format == "Parquet":
            splits = [replace(s, uri=s.uri.replace("a.parquet", "b.parquet")) for s in splits]
        return true(self, splits, encoding, structure)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "relation", other)
        failed = shell.ends(7, *load)
        assert "source and target differ" in failed.talk
    shell.ok(*load, "--force", "--replace")
    done = shell.ok("verify", "last", "--to", "rowfall-data")
    assert "is not found" not in done.talk
    by = "the source was read again by"
    assert f"{by} pyarrow, and loaded by the engine" in " ".join(done.out.split())
    shell.write("c.csv", "a,b\n1,2\n")
    said = shell.ok("load", "c.csv", "--table", "c", "--decoder", "never", "--verify")
    assert "a mistake of that reader is not found" in " ".join(said.talk.split())
    done = shell.ok("verify", "last", "--to", "rowfall-data", "--json")
    assert done.document["scope"].endswith(f"{by} the engine, which has loaded it, too")
    shell.ok("load", "c.csv", "--table", "d", "--decoder", "always")
    done = shell.ok("verify", "last", "--to", "rowfall-data", "--json")
    assert done.document["scope"].endswith(f"{by} the engine, and loaded by rowfall-decode")


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_nan_and_infinity_of_exports(shell: Shell, name: str) -> None:
    odd = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]
    values = [float("nan"), odd, float("inf"), -float("inf"), -0.0, 1.5, None]
    table = pa.table({"v": pa.array(values, pa.float64()), "w": pa.array(values, pa.float32())})
    pyarrow.parquet.write_table(table, shell.folder / "a.parquet")
    done = shell.ok("load", "a.parquet", "--to", name, "--verify")
    assert "verified: 7 rows" in done.talk
    shell.ok("verify", "last", "--to", name)
    if name == "out.jsonl":
        rows = map(json.loads, (shell.folder / name).read_text().splitlines())
        assert [row["v"] for row in rows] == ["nan", "-nan", "inf", "-inf", 0, 1.5, None]
        return
    shell.ok("load", name, "--table", "t")
    found = shell.row("SELECT countIf(isNaN(v)), countIf(isInfinite(v)), countIf(isNull(w)) FROM t")
    assert found == [2, 2, 1]


@pytest.mark.parametrize("name", ["j", "s", pytest.param("m", marks=pytest.mark.long)])
def test_a_column_may_have_any_name(shell: Shell, name: str) -> None:
    """Its values are checked inside of expressions that have names of their own."""
    value = '{"a":true,"d":1234567890123456.789,"k":[1]}'
    shell.write("a.jsonl", f'{{"{name}":{value}}}\n')
    type_ = f"{name} JSON(a Bool, d Decimal(38, 10), k Array(UInt8))"
    shell.ok("load", "a.jsonl", "--table", "t", "--type", type_)
    assert shell.row(f"SELECT toString({name}) FROM t") == [value]
    shell.write("b.jsonl", f'{{"{name}":{{"a":true,"d":1,"k":[300]}}}}\n')
    refused = shell.ends(1, "load", "b.jsonl", "--table", "t", "--type", type_)
    assert f'b.jsonl line 1 column "{name}"' in refused.talk
