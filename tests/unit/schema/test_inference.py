"""Header, types, layout and what the user asks of the table, on a real engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rowfall.core.dialect import DialectOptions
from rowfall.core.errors import SourceError, TargetError, UsageError
from rowfall.core.model import Column, Dialect, Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.decoder import installed
from rowfall.schema import inference, projection, sampling
from rowfall.schema.column_facts import ColumnFacts, DeclaredType, FactQuery, WantedFacts
from rowfall.schema.table_changes import TargetColumns
from rowfall.schema.text import text_format
from unit.memory import CSV, JSON, TSV, Chdb, Files

Write = Callable[[str, str | bytes], Path]
PARQUET = Encoding("Parquet", "none", Kind.TYPED)


def schema(
    engine: Chdb,
    encoding: Encoding,
    *paths: Path,
    existing: list[list[Any]] | None = None,
    **options: Any,
) -> tuple[Encoding, Schema]:
    source = Files(*paths)
    found, made = inference.schema_for(
        source, source.listing(), encoding, Options(**options), engine.ask, TargetColumns(existing)
    )
    assert found is not None
    return found, made


def types(made: Schema) -> dict[str, str]:
    return {c.name: c.type for c in made.columns}


def one_type(engine: Chdb, write: Write, values: list[str]) -> str:
    """The type of a column with these values beside a counter."""
    path = write("x.csv", "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    return types(schema(engine, CSV, path)[1])["c2"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "10"], "Int64"),
        (["1", "10"] * 100, "UInt8"),
        (["1", "127"] * 100, "UInt8"),
        (["1", "128"] * 100, "UInt16"),
        (["-1", "60"] * 100, "Int8"),
        (["-1", "100"] * 100, "Int16"),
        (["0", "2147483647"] * 100, "UInt32"),
        (["0", "2147483648"] * 100, "UInt64"),
        (["0", "9223372036854775807"], "Int64"),
        (["+4912345678", "17"], "String"),
        (["+4912345678", "1.5"], "String"),
        (["623456789012345678", "6.2E+17"], "String"),
        (["9007199254740992", "1.5"], "Float64"),
        (["0", "18446744073709551615"], "UInt64"),
        (["0", "18446744073709551616"], "String"),
        (["-9223372036854775808", "1"], "Int64"),
        (["-1", "18446744073709551615"], "String"),
        (["1" * 39, "2" * 39], "String"),
        (["9" * 77, "1" * 77], "String"),
        (["007", "010"], "String"),
        (["1.5", "2"], "Float64"),
        (["1e5", "2.25"], "Float64"),
        (["inf", "2.25"], "Float64"),
        (["true", "False"], "Bool"),
        (["yes", "no"], "String"),
        (["0", "1"], "Int64"),
        (["2020-01-01", "2024-02-29"], "Date"),
        (["2020-01-01", "2024-02-30"], "String"),
        (["1960-01-01", "2024-02-29"], "Date32"),
        (["2020-01-01 10:00:00", "2020-01-01 11:00:00"], "DateTime('UTC')"),
        (["2020-01-01 10:00:00", "2200-01-01 11:00:00"], "DateTime64(0, 'UTC')"),
        (["2020-01-01 10:00:00.5", "2020-01-01 11:00:00"], "DateTime64(3, 'UTC')"),
        (["2020-01-01T10:00:00.123456Z", "2020-01-01T10:00:00Z"], "DateTime64(6, 'UTC')"),
        (["2020-01-01T10:00:00Z", "2020-01-01 10:00:00"], "String"),
        (["2020-01-01T10:00:00Z", "2020-01-01T10:00:00"], "String"),
        (["61f0c404-5cb3-11e7-907b-a6006ad3dba0"] * 2, "UUID"),
        (["a", "b"], "String"),
        (["a", "\\N"], "Nullable(String)"),
        (["a", ""], "String"),
        (["a", "", "", ""], "Nullable(String)"),
        (["", ""], "Nullable(String)"),
        (["1", ""], "Nullable(Int64)"),
        (["1", '""'], "Nullable(Int64)"),
        (["1.5", "\\N"], "Nullable(Float64)"),
        (["1", "a"], "String"),
        (["[1]", "[2]"], "String"),
    ],
)
def test_types_of_csv_and_that_they_load(
    chdb_engine: Chdb, write: Write, values: list[str], type_: str
) -> None:
    path = write("x.csv", "".join(f"{i},{v}\n" for i, v in enumerate(values)))
    for narrow in (False, True):
        encoding, made = schema(chdb_engine, CSV, path, narrow=narrow)
        wide = "UInt64" if type_ == "UInt64" and "18446744073709551615" in values else "Int64"
        integer = re.fullmatch(r"U?Int\d+", type_) is not None
        assert made.columns[1].type == (wide if integer and not narrow else type_)
        assert len(chdb_engine.load(path, encoding, made.columns)) == len(values)


def test_low_cardinality_is_measured(chdb_engine: Chdb, write: Write) -> None:
    assert one_type(chdb_engine, write, [f"v{i % 7}" for i in range(2000)]) == (
        "LowCardinality(String)"
    )
    assert one_type(chdb_engine, write, [f"v{i % 7}" for i in range(500)]) == "String"
    assert one_type(chdb_engine, write, [f"v{i % 700}" for i in range(2000)]) == "String"


def test_counters_get_room_to_grow(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", "".join(f"{i},{i % 5}\n" for i in range(1000)))
    _, made = schema(chdb_engine, CSV, path)
    assert types(made) == {"c1": "Int64", "c2": "Int64"}
    _, made = schema(chdb_engine, CSV, path, narrow=True)
    assert types(made) == {"c1": "Int64", "c2": "UInt8"}
    assert "may grow" in made.columns[0].reason
    assert made.columns[1].reason == "0..4 seen in all the data, fits UInt8 with room"


def test_integers_get_room_where_the_sample_is_not_all_the_data(
    chdb_engine: Chdb, write: Write
) -> None:
    rows = (f"{i % 9},{i % 2},{i % 5},{i % 1500}\n" for i in range(sampling.ROWS + 1))
    path = write("x.csv", "user_id,flag,seats,zone\n" + "".join(rows))
    _, made = schema(chdb_engine, CSV, path)
    assert set(types(made).values()) == {"Int64"}
    _, made = schema(chdb_engine, CSV, path, narrow=True)
    assert types(made) == {"user_id": "Int64", "flag": "Int8", "seats": "Int16", "zone": "Int32"}
    reasons = {c.name: c.reason for c in made.columns}
    assert reasons["user_id"] == "0..8 seen, fits Int64: a key"
    assert reasons["seats"] == "0..4 seen in a sample: fits Int16 with room"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id,name\n1,a\n2,b\n", ["id", "name"]),
        ("1,a\n2,b\n", ["c1", "c2"]),
        ("a,b\n1,2\n", ["a", "b"]),
        ("alice,berlin\nbob,paris\n", ["c1", "c2"]),  # in doubt it is data: no row is lost
        ("user_name,city\nbob,paris\n", ["user_name", "city"]),
        ("x,x\n1,2\n", ["x", "x_2"]),
        (",a b,Total $\n0,1,2\n1,5,6\n", ["c1", "a b", "Total $"]),
        ("id,days ,2019\n1,2,3\n", ["id", "days", "2019"]),
        ("user_1,active\nuser_2,idle\n", ["c1", "c2"]),
        ("\ufeffid,name\n1,a\n", ["id", "name"]),
        ("\ufeff1,a\n2,b\n", ["c1", "c2"]),
        ('"id","full name"\n1,"a, b"\n', ["id", "full name"]),
    ],
)
def test_headers_of_csv(chdb_engine: Chdb, write: Write, text: str, names: list[str]) -> None:
    path = write("x.csv", text)
    encoding, made = schema(chdb_engine, CSV, path)
    assert [c.name for c in made.columns] == names
    assert encoding.has_names == (names != ["c1", "c2"])
    rows = len(text.splitlines()) - encoding.has_names
    assert len(chdb_engine.load(path, encoding, made.columns)) == rows


def test_a_named_format_is_believed(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", "id,name\n1,a\n")
    _, made = schema(chdb_engine, CSV, path, format="CSV")
    assert types(made) == {"c1": "String", "c2": "String"}


def test_the_same_first_line_everywhere_is_a_header(chdb_engine: Chdb, write: Write) -> None:
    paths = [write(f"{i}.csv", f"alice,berlin\nbob{i},paris\n") for i in range(3)]
    encoding, _ = schema(chdb_engine, CSV, *paths)
    assert encoding.format == "CSVWithNames"


def test_files_of_different_columns_are_named(chdb_engine: Chdb, write: Write) -> None:
    one, two = write("1.csv", "a,b\n1,2\n"), write("2.csv", "a,c\n1,2\n")
    with pytest.raises(UsageError, match=r"2\.csv has another header than .*1\.csv: a,c"):
        schema(chdb_engine, CSV, one, two)
    three = write("3.csv", "1,2,3\n")
    with pytest.raises(UsageError, match=r"3\.csv"):
        schema(chdb_engine, CSV, one, one, three)
    four = write("4.csv", "1,2\n")
    with pytest.raises(UsageError, match=r"3\.csv has 3 columns, .*4\.csv has 2"):
        schema(chdb_engine, CSV, four, three)


@pytest.mark.parametrize("mark", [";", "|", "\t", "^", "~", "\x01"])
def test_other_delimiters_are_found(chdb_engine: Chdb, write: Write, mark: str) -> None:
    path = write("x.csv", f"a{mark}b{mark}c\n1{mark}{mark}x\n2{mark}3{mark}\n")
    encoding, made = schema(chdb_engine, CSV, path)
    assert encoding.delimiter == mark
    rows = chdb_engine.load(path, encoding, made.columns)
    assert rows == [["1", None, "x"], ["2", "3", ""]]


def test_an_existing_table_gets_columns_of_odd_headers_by_name(
    chdb_engine: Chdb, write: Write
) -> None:
    path = write("x.csv", "id ,zip,zip\n1,2,3\n")
    rows = [["zip_2", "String", ""], ["id", "UInt64", ""], ["zip", "String", ""]]
    encoding, made = schema(chdb_engine, CSV, path, existing=rows)
    assert encoding.header == ("id", "zip", "zip_2")
    assert [c.name for c in made.columns] == ["zip_2", "id", "zip"]
    structure = projection.read_structure(made, encoding)
    names = [part.split("`")[1] for part in structure.split(", ")[:-1]]
    assert names == ["id", "zip", "zip_2"]


def test_names_that_are_given_take_the_place_of_a_header(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", "a,b\n1,x\n")
    encoding, made = schema(chdb_engine, CSV, path, columns="n,s", header="yes")
    assert (types(made), encoding.header) == ({"n": "Int64", "s": "String"}, ("n", "s"))
    assert chdb_engine.load(path, encoding, made.columns) == [["1", "x"]]
    encoding, made = schema(chdb_engine, CSV, write("y.csv", "1,x\n"), columns="n,s")
    assert (list(types(made)), encoding.has_header) == (["n", "s"], False)
    with pytest.raises(UsageError, match=r"--columns names 1 columns, .* has 2"):
        schema(chdb_engine, CSV, path, columns="n")


@pytest.mark.parametrize(
    ("data", "dialect"),
    [
        (b"a,b\r1,2\r3,4\r", Dialect()),
        (b"\n\na,b\n1,2\n", Dialect()),
        (b"Report\n\na,b\n1,2\n", Dialect(skip_lines=2)),
        (b"a,b\n#x\n1,2\n", Dialect(comment="#")),  # seen whole
        (b'a,b\n"x \\"y\\", z",1\n"q",2\n', Dialect(escape="\\")),
        (b"'a, b',1\n'c, d',2\n", Dialect(quote="'", escape="'")),
        (b"a||b\n1||2\n", Dialect(delimiter="||")),
        (b"'a'|1|\n'c'|2|\n", Dialect(delimiter="|", quote="'", escape="'", trailing=True)),
    ],
)
def test_what_no_reader_takes_is_rewritten(
    chdb_engine: Chdb, write: Write, monkeypatch: pytest.MonkeyPatch, data: bytes, dialect: Dialect
) -> None:
    monkeypatch.setattr(installed, "program", lambda: "rowfall-decode")
    source = Files(write("x.csv", data))
    splits = source.sample(source.listing(), 1)
    found = text_format.find_text_format(source, splits, CSV, chdb_engine.ask, DialectOptions())
    assert (found.encoding.dialect, found.encoding.delimiter) == (dialect, ",")
    assert len(found.names) == 2


@pytest.mark.parametrize(("data", "mark"), [(b"1|x|\n2|y|\n", "|"), (b"a,b\n1,2,\n3,4,\n", ",")])
def test_a_delimiter_at_the_end_of_rows_is_read_as_it_is(
    chdb_engine: Chdb, write: Write, data: bytes, mark: str
) -> None:
    source = Files(write("x.csv", data))
    splits = source.sample(source.listing(), 1)
    found = text_format.find_text_format(
        source, splits, CSV, chdb_engine.ask, DialectOptions()
    ).encoding
    assert (found.dialect, found.delimiter, found.trailing, found.fields) == (None, mark, True, 2)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("Größe,b\n1,2\n".encode("latin-1"), "written in windows-1252"),
        ("a,b\n1,2\n".encode("utf-16"), "written in utf-16le"),
    ],
)
def test_charsets_that_are_not_named_are_refused(
    chdb_engine: Chdb, write: Write, data: bytes, said: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        schema(chdb_engine, CSV, write("x.csv", data))


def test_what_may_be_otherwise_in_other_files_is_refused(chdb_engine: Chdb, write: Write) -> None:
    one, two = write("1.csv", "Report\na,b\n1,2\n"), write("2.csv", "a,b\n1,2\n")
    with pytest.raises(UsageError, match="others have not as many"):
        schema(chdb_engine, CSV, one, two)
    with pytest.raises(UsageError, match="3 lines before"):
        schema(chdb_engine, CSV, write("3.csv", "Report\nof\nMay\n" + "1,2\n" * 5))


def test_empty_files(chdb_engine: Chdb, write: Write) -> None:
    with pytest.raises(SourceError, match="holds no rows"):
        schema(chdb_engine, CSV, write("x.csv", ""))


def test_line_breaks_in_quotes_and_quotes_never_closed(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", '1,"a\nb"\n2,c\n')
    encoding, made = schema(chdb_engine, CSV, path)
    assert chdb_engine.load(path, encoding, made.columns) == [["1", "a\nb"], ["2", "c"]]
    path = write("x.csv", '1,"a\n2,c\n3,d\n')
    encoding, made = schema(chdb_engine, CSV, path)
    with pytest.raises(Exception, match="rowfall"):
        chdb_engine.load(path, encoding, made.columns)


def test_tsv(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.tsv", "1\t\\N\tx y\t\n2\t5\t\\tz\tq\n")
    encoding, made = schema(chdb_engine, TSV, path)
    wanted = {"c1": "Int64", "c2": "Nullable(Int64)", "c3": "String", "c4": "String"}
    assert types(made) == wanted
    rows = [["1", None, "x y", ""], ["2", "5", "\tz", "q"]]
    assert chdb_engine.load(path, encoding, made.columns) == rows


def test_json(chdb_engine: Chdb, write: Write) -> None:
    rows: list[dict[str, Any]] = [
        {"n": i % 3, "zip": f"0{i}", "at": "2024-01-01T10:00:00Z", "tags": ["a"], "o": {"x": i}}
        for i in range(200)
    ]
    rows[7]["f"], rows[9]["ok"], rows[3]["p"] = 1.5, True, None
    rows[4]["p"] = [1]
    path = write("x.json", "".join(json.dumps(r) + "\n" for r in rows))
    encoding, made = schema(chdb_engine, JSON, path)
    assert types(made) == {
        "n": "Int64", "zip": "String", "at": "DateTime('UTC')", "tags": "Array(Nullable(String))",
        "o": "Tuple(x Nullable(Int64))", "f": "Nullable(Float64)", "ok": "Nullable(Bool)",
        "p": "Nullable(String)",
    }  # fmt: skip
    assert len(chdb_engine.load(path, encoding, made.columns)) == 200


def test_json_keys_of_all_files(chdb_engine: Chdb, write: Write) -> None:
    one, two = write("1.json", '{"a":1}\n'), write("2.json", '{"a":2,"b":"x"}\n')
    _, made = schema(chdb_engine, JSON, one, two)
    assert types(made) == {"a": "Int64", "b": "Nullable(String)"}


def test_parquet_keeps_declared_types(chdb_engine: Chdb, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    chdb_engine.run(
        f"INSERT INTO FUNCTION file('{path}', 'Parquet') SELECT number::Nullable(UInt32) AS a, "
        "if(number = 1, NULL, 1.5) AS b, toString(number % 5) AS s FROM numbers(5000)"
    )
    _, made = schema(chdb_engine, PARQUET, path)
    assert types(made) == {"a": "UInt32", "b": "Nullable(Float64)", "s": "LowCardinality(String)"}
    assert "no row holds a NULL" in made.columns[0].reason
    assert len(chdb_engine.load(path, PARQUET, made.columns)) == 5000


def test_footers_that_all_fit_are_not_read_again(chdb_engine: Chdb, tmp_path: Path) -> None:
    """They are where a column is not read, and where the type of another file rounds numbers."""

    def write(name: str, sql: str) -> Path:
        path = tmp_path / name
        chdb_engine.run(f"INSERT INTO FUNCTION file('{path}', 'Parquet') SELECT {sql}")
        return path

    one, two = (write(f"{n}.parquet", f"{n}::Int64 AS a, 'x' AS s") for n in (1, 9007199254740993))
    other = write("3.parquet", "3::Int32 AS a, 'x' AS s")
    assert schema(chdb_engine, PARQUET, one, two)[1].checks.footers_fit
    assert not schema(chdb_engine, PARQUET, one, two, schema="a Int64")[1].checks.footers_fit
    assert schema(chdb_engine, PARQUET, one, two, skip=("s",))[1].checks.footers_fit
    assert schema(chdb_engine, PARQUET, one, other)[1].checks.footers_fit
    real = write("4.parquet", "1.5 AS a, 'x' AS s")
    assert schema(chdb_engine, PARQUET, real, one)[1].checks.footers_fit
    assert not schema(chdb_engine, PARQUET, real, two)[1].checks.footers_fit


def test_sorting_key(chdb_engine: Chdb, write: Write) -> None:
    rows = "".join(f"{i},c{i % 9},2024-01-{1 + i % 28:02d} 00:00:00,{i / 7}\n" for i in range(2000))
    path = write("x.csv", "trip_id,country,picked_at,fare\n" + rows)
    _, made = schema(chdb_engine, CSV, path)
    assert made.layout.order_by == "(`country`, `picked_at`, `trip_id`)"
    assert "country (9 values)" in dict(made.notes)["ORDER BY"]
    _, made = schema(chdb_engine, CSV, path, order_by="fare, trip_id")
    assert made.layout.order_by == "(fare, trip_id)"
    _, made = schema(chdb_engine, CSV, write("y.csv", "1,2\n3,4\n"))
    assert made.layout.order_by == "tuple()"


def test_partitions_are_counted(chdb_engine: Chdb, write: Write) -> None:
    rows = "".join(f"{i},2024-{1 + i % 12:02d}-01\n" for i in range(2000))
    path = write("x.csv", "id,day\n" + rows)
    _, made = schema(chdb_engine, CSV, path, partition_by="toYYYYMM(day)")
    assert (made.layout.partitions, "PARTITION BY" in dict(made.notes)) == (12, False)
    _, made = schema(chdb_engine, CSV, path, partition_by="id")
    assert made.layout.partitions == 2000
    assert "growing" in dict(made.notes)["PARTITION BY"]
    with pytest.raises(UsageError, match="makes no sense"):
        schema(chdb_engine, CSV, path, partition_by="toYYYYMM(nothing)")


def test_given_types(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", "id,zip\n1,2\n")
    _, made = schema(chdb_engine, CSV, path, type=("zip LowCardinality(String)",))
    assert types(made) == {"id": "Int64", "zip": "LowCardinality(String)"}
    with pytest.raises(UsageError, match="zap"):
        schema(chdb_engine, CSV, path, type=("zap UInt8",))
    with pytest.raises(UsageError, match="does not name a column and its type"):
        schema(chdb_engine, CSV, path, type=("zip",))
    with pytest.raises(UsageError, match="make no sense"):
        schema(chdb_engine, CSV, path, type=("zip Strong",))


def test_given_schema_by_name_and_by_position(chdb_engine: Chdb, write: Write) -> None:
    named = write("x.csv", "id,zip\n1,2\n")
    _, made = schema(chdb_engine, CSV, named, schema="zip String, id Int64")
    assert types(made) == {"zip": "String", "id": "Int64"}
    bare = write("y.csv", "1,2\n")
    encoding, made = schema(chdb_engine, CSV, bare, schema="a Int8, b Int16")
    assert [(c.name, c.source) for c in made.columns] == [("a", "c1"), ("b", "c2")]
    assert chdb_engine.load(bare, encoding, made.columns) == [["1", "2"]]
    with pytest.raises(UsageError, match="has 1 columns"):
        schema(chdb_engine, CSV, bare, schema="a Int8")
    with pytest.raises(UsageError, match="lacks zip"):
        schema(chdb_engine, CSV, named, schema="id Int8")


def test_schema_file_with_create_table(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", "id,day\n1,2024-01-01\n")
    ddl = write("t.sql", "CREATE TABLE t (id UInt64, day Date) ENGINE = ReplacingMergeTree "
                "PARTITION BY toYYYYMM(day) ORDER BY (day, id);\n")  # fmt: skip
    _, made = schema(chdb_engine, CSV, path, schema_file=str(ddl))
    assert types(made) == {"id": "UInt64", "day": "Date"}
    layout = (made.layout.engine, made.layout.order_by, made.layout.partition_by)
    assert layout == ("ReplacingMergeTree", "(day, id)", "toYYYYMM(day)")
    for more in ("id UInt64 CODEC(ZSTD), day Date", "id UInt64, day Date, INDEX i id TYPE minmax"):
        other = write("u.sql", f"CREATE TABLE t ({more}) ENGINE = MergeTree ORDER BY id")
        with pytest.raises(UsageError, match="does not create"):
            schema(chdb_engine, CSV, path, schema_file=str(other))
    with pytest.raises(UsageError, match="cannot read"):
        schema(chdb_engine, CSV, path, schema_file="/nowhere.sql")


def test_existing_tables(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", "id,zip\n1,2\n")
    rows = [["zip", "String", ""], ["id", "UInt64", ""], ["at", "DateTime", "DEFAULT"],
            ["twice", "UInt64", "MATERIALIZED"], ["other", "UInt64", "ALIAS"]]  # fmt: skip
    _, made = schema(chdb_engine, CSV, path, existing=rows)
    assert made.exists
    assert [(c.name, c.type) for c in made.columns] == [("zip", "String"), ("id", "UInt64")]
    with pytest.raises(TargetError, match="lacks need, which the table needs"):
        schema(chdb_engine, CSV, path, existing=[*rows, ["need", "UInt8", ""]])
    with pytest.raises(TargetError, match="the table lacks zip"):
        schema(chdb_engine, CSV, path, existing=rows[1:])
    filled = write("z.csv", "id,zip,twice\n1,2,3\n")
    with pytest.raises(TargetError, match="the table takes no values of twice"):
        schema(chdb_engine, CSV, filled, existing=rows)
    bare = write("y.csv", "1,2\n")
    _, made = schema(chdb_engine, CSV, bare, existing=rows)
    assert [(c.name, c.source) for c in made.columns] == [("zip", "c1"), ("id", "c2")]
    with pytest.raises(TargetError, match="takes 1 columns"):
        schema(chdb_engine, CSV, bare, existing=rows[:1])
    with pytest.raises(UsageError, match="exists already"):
        schema(chdb_engine, CSV, path, existing=rows, type=("id UInt8",))


def asked(
    engine: Chdb, monkeypatch: pytest.MonkeyPatch, encoding: Encoding, path: Path, **more: Any
) -> tuple[Schema, list[str]]:
    """The schema and the queries that look at values."""
    texts: list[str] = []
    ask = engine.ask

    def listen(text: Any, settings: Any) -> list[list[Any]]:
        texts.append(text.reveal())
        return ask(text, settings)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "ask", listen)
        made = schema(engine, encoding, path, **more)[1]
    return made, [text for text in texts if text.startswith("SELECT count()")]


@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=["csv", "tsv", "json"])
def test_what_is_known_is_not_looked_for_and_reading_stays_the_same(
    chdb_engine: Chdb, write: Write, monkeypatch: pytest.MonkeyPatch, encoding: Encoding
) -> None:
    rows = [
        [str(i + 1), ["", "5"][i % 2], ["1.5", "inf"][i % 2], "2020-01-31T10:00:00Z",
         f"{1_600_000_000 + i}", "2020-01-31", ["true", ""][i % 2], f" text {i}"]
        for i in range(300)
    ]  # fmt: skip
    names = [f"c{i + 1}" for i in range(8)]
    if encoding is JSON:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        lines = [("," if encoding is CSV else "\t").join(row) for row in rows]
    path = write("x.txt", "\n".join(lines) + "\n")
    wanted = ["UInt32", "Nullable(UInt8)", "Float32", "DateTime64(3)", "DateTime", "DateTime",
              "Nullable(Bool)", "String"]  # fmt: skip
    text = ", ".join(f"{n} {t}" for n, t in zip(names, wanted, strict=True))
    source = Files(path)
    seen = sampling.take_sample(source, source.listing(), encoding, chdb_engine.ask)

    def columns(*, given: bool) -> list[Column]:
        pairs = zip(seen.columns, wanted, strict=True)
        return [inference.column(c.name, type_, c, seen, "", given=given) for c, type_ in pairs]

    given, (short,) = asked(chdb_engine, monkeypatch, encoding, path, schema=text, order_by="c1")
    assert [replace(c, reason="") for c in given.columns] == columns(given=True)
    existing = [[n, t, ""] for n, t in zip(names, wanted, strict=True)]
    same, (again,) = asked(chdb_engine, monkeypatch, encoding, path, existing=existing)
    assert [c.expression for c in same.columns] == [c.expression for c in columns(given=False)]
    # Only a sorting key that has to be chosen asks how many different values there are.
    _, (layout,) = asked(chdb_engine, monkeypatch, encoding, path, schema=text)
    assert ["uniqForEach" in query for query in (short, again, layout)] == [False, False, True]
    assert "accurateCastOrNull(t, 'Int128')" in short or encoding is JSON
    assert len(layout) > len(short)


def test_typed_formats_need_values_only_for_the_width_of_strings(
    chdb_engine: Chdb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.parquet"
    chdb_engine.run(
        f"INSERT INTO FUNCTION file('{path}', 'Parquet') SELECT toUInt32(number) AS a, "
        "now() AS t, if(number % 2 = 0, NULL, repeat('x', 20)) AS s FROM numbers(5000)"
    )
    known = {"order_by": "a", "schema": "a UInt32, t DateTime"}
    made, texts = asked(chdb_engine, monkeypatch, PARQUET, path, **known)
    assert (texts, made.row_bytes) == ([], 8)
    known["schema"] += ", s Nullable(String)"
    made, texts = asked(chdb_engine, monkeypatch, PARQUET, path, **known)
    assert len(texts) == 1
    assert "`a`" not in texts[0]
    # 8 + 1 bytes besides the 20 of every second value: what the engine itself counts.
    assert made.row_bytes == pytest.approx(8 + 10 + 9)


@pytest.mark.parametrize(("format", "layout", "wanted"), [
    ("Iceberg", True, {"name": ("bytes_each", "distinct"), "n": ("distinct",)}),
    ("Iceberg", False, {"name": ("bytes_each", "distinct")}),
    ("Parquet", True, {"id": ("nulls", "distinct"), "name": ("nulls", "bytes_each", "distinct"),
                       "n": ("distinct",)}),
])  # fmt: skip
def test_only_columns_that_a_decision_depends_on_are_sampled(
    format: str, layout: bool, wanted: dict[str, tuple[str, ...]]
) -> None:
    columns = [
        ColumnFacts(name, DeclaredType(declared))
        for name, declared in (
            ("id", "Nullable(Int64)"), ("name", "Nullable(String)"), ("n", "Int32"),
        )
    ]  # fmt: skip
    asked = WantedFacts(layout=layout)
    groups = FactQuery.of(columns, Encoding(format, "none", Kind.TYPED), asked).groups
    found = {columns[n].name: facts for (_, facts), members in groups.items() for n in members}
    assert found == wanted


def test_names_of_columns_are_not_those_of_the_question(chdb_engine: Chdb, write: Write) -> None:
    """A column called x1 is no array of others."""
    named = replace(CSV, format="CSVWithNames")
    rows = f"{'4' * 77},true,abc,2024-01-01\n{'5' * 77},false,def,2024-01-02\n"
    found = []
    for names in ("a,b,c,d", "x1,x0,x2,x3", "x2,x1,x3,x0", "t1,t0,t2,t3"):
        path = write(f"{names}.csv", f"{names}\n{rows}")
        found.append([*types(schema(chdb_engine, named, path)[1]).values()])
    assert found[1:] == found[:1] * 3
