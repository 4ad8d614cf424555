"""Bad rows are found with file, line and column, and can be left out, on a real engine."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rowfall.core.errors import DataError, UsageError
from rowfall.core.listing import Part
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.schema.bad_rows import search
from rowfall.schema.bad_rows.data_errors import explain_engine_error
from rowfall.schema.bad_rows.queries import LenientReader
from rowfall.schema.bad_rows.search import BadRowSearch, line_in_file
from rowfall.schema.types.strict_reading import FileTraits, TextTraits, strict_column
from rowfall.sources import open_source
from unit.memory import CSV, JSON, TSV, Chdb, ChdbError, Files

Write = Callable[[str, str | bytes], Path]
NAMED = Encoding("CSVWithNames", "none", Kind.TEXT)
GZIP = Encoding("CSV", "gzip", Kind.TEXT)
ABC = (("a", "UInt8"), ("b", "String"), ("c", "Nullable(Date)"))


def schema(
    encoding: Encoding, *columns: tuple[str, str], traits: TextTraits | None = None
) -> Schema:
    seen = replace(traits or TextTraits(), file=FileTraits(csv=encoding.is_csv))
    pairs = columns or ABC
    return Schema(tuple(strict_column(n, n, t, encoding.kind, traits=seen) for n, t in pairs))


def errors_of(engine: Chdb, encoding: Encoding, made: Schema, *paths: Path) -> list[DataError]:
    source = Files(*paths)
    splits = source.sample(source.listing(), 99)
    with pytest.raises(ChdbError) as caught:
        [engine.load(path, encoding, made.columns) for path in paths]
    return [
        e for _, e in BadRowSearch(source, encoding, made, engine.ask).explain(splits, caught.value)
    ]


def split_rows(
    engine: Chdb, encoding: Encoding, made: Schema, path: Path
) -> tuple[list[list[object]], list[list[object]]]:
    source = Files(path)
    splits = source.sample(source.listing(), 1)
    reader = LenientReader(source, encoding, made)
    good = SqlText.of("SELECT * FROM ", reader.good_rows(splits))
    bad = reader.rejects_query(splits[0])
    return engine.ask(good, reader.settings), engine.ask(bad, reader.settings)


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("1,x,\n300,y,\n", 2, 'column "a": "300" does not fit UInt8', "--type 'a UInt16'"),
        ("-5,y,\n", 1, 'column "a": "-5" does not fit UInt8', "--type 'a Int16'"),
        ("1.5,y,\n", 1, 'column "a": "1.5" does not fit UInt8', "--type 'a Float64'"),
        ("k,y,\n", 1, 'column "a": "k" does not fit UInt8', "--type 'a String'"),
        (",y,\n", 1, '"a" is empty or NULL, and UInt8 takes no NULL', "--type 'a Nullable(UInt8)'"),
        ('1,y,""\n', 1, 'column "c" is empty text, which is no Nullable(Date)', "without quotes"),
        ("1,y,2020-02-30\n", 1, '"2020-02-30" does not fit Nullable(Date)', "Nullable(String)"),
        ("1,y,2200-01-01\n", 1, '"2200-01-01" does not fit Nullable(Date)', "Nullable(Date32)"),
        ("1,x,\n2,y\n", 2, "has 2 fields instead of 3", "--max-errors"),
        ("1,x,\n2,y,,4\n", 2, "has 4 fields instead of 3", "--max-errors"),
        ('1,x,\n2,"y,\n3,z,\n', 2, 'column "b": a quote is opened here', "Close the quote"),
    ],
)
def test_csv_errors_name_line_and_column(
    chdb_engine: Chdb, write: Write, text: str, line: int, message: str, hint: str
) -> None:
    (error,) = errors_of(chdb_engine, CSV, schema(CSV), path := write("x.csv", text))
    assert error.message.startswith(f"{path} line {line} ")
    assert message in error.message
    assert (error.uri, error.line) == (str(path), line)
    assert error.hint is not None
    assert hint in error.hint


def test_lines_count_header_and_line_breaks(chdb_engine: Chdb, write: Write) -> None:
    made = schema(NAMED, traits=TextTraits(breaks=True))
    path = write("x.csv", 'b,a,c\n"one\ntwo",1,\nx,300,\n')
    (error,) = errors_of(chdb_engine, NAMED, made, path)
    assert error.line == 4
    assert error.column == "a"


def test_only_files_with_bad_rows_are_named(chdb_engine: Chdb, write: Write) -> None:
    paths = [write(f"{i}.csv", f"{i},x,\n") for i in range(5)]
    paths.append(write("bad.csv", "1,x,\n2,y,zzz\n"))
    source = Files(*paths)
    splits = source.sample(source.listing(), 99)
    made = schema(CSV)
    error = ChdbError("Code: 395. rowfall: a value does not fit c Nullable(Date)")
    ((split, found),) = BadRowSearch(source, CSV, made, chdb_engine.ask).explain(splits, error)
    assert split.uri == str(paths[-1])
    assert found.message == f'{paths[-1]} line 2 column "c": "zzz" does not fit Nullable(Date)'


@pytest.mark.parametrize(
    ("header", "message"),
    [("a,b", "it lacks c"), ("a,b,c,d", "it has d besides"), ("a,b,x", "it lacks c and has x")],
)
def test_headers_that_differ(chdb_engine: Chdb, write: Write, header: str, message: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    path = write("x.csv", f"{header}\n{row}\n")
    (error,) = errors_of(chdb_engine, NAMED, schema(NAMED), path)
    assert error.message.startswith(f"{path} line 1: the header differs: ")
    assert message in error.message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("1\tx\t\\N\n300\ty\t\\N\n", 2, '"300" does not fit UInt8'),
        ("1\t\\N\t\\N\n", 1, 'column "b" is NULL, and String takes no NULL'),
        ("1\tx\n", 1, "has 2 fields instead of 3"),
        ("1\tx\t\\N\ty\n", 1, "has 4 fields instead of 3"),
    ],
)
def test_tsv_errors(chdb_engine: Chdb, write: Write, text: str, line: int, message: str) -> None:
    (error,) = errors_of(chdb_engine, TSV, schema(TSV), write("x.tsv", text))
    assert error.line == line
    assert message in error.message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('{"a":1,"b":"x"}\n\n{"a":300,"b":"x"}\n', 3, '"300" does not fit UInt8'),
        ('{"a":1}\n', 1, 'column "b" is NULL or missing, and String takes no NULL'),
        ('{"a":1,"b":"x"}\n{"a":1,"b"\n', 2, "is not a JSON object"),
        ('{"a":1,"b":"x","d":1}\n', 1, "has a key that the table lacks"),
    ],
)
def test_json_errors(chdb_engine: Chdb, write: Write, text: str, line: int, message: str) -> None:
    (error,) = errors_of(chdb_engine, JSON, schema(JSON), write("x.json", text))
    assert error.line == line
    assert message in error.message


def test_parquet_errors_name_the_row(chdb_engine: Chdb, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    chdb_engine.run(f"INSERT INTO FUNCTION file('{path}') SELECT number AS a FROM numbers(500)")
    encoding = Encoding("Parquet", "none", Kind.TYPED)
    made = Schema((strict_column("a", "a", "UInt8", Kind.TYPED, "UInt64"),))
    (error,) = errors_of(chdb_engine, encoding, made, path)
    assert error.message == f'{path} row 257 column "a": "256" does not fit UInt8'


@pytest.mark.parametrize("data", [gzip.compress(b"1,x,\n" * 99_999)[:-99], b"1,x,\n"])
def test_broken_containers(chdb_engine: Chdb, write: Write, data: bytes) -> None:
    path = write("x.csv.gz", data)
    (error,) = errors_of(chdb_engine, GZIP, schema(GZIP), path)
    assert error.message == f"{path} is not a whole gzip file"


def test_good_and_bad_rows_of_csv(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", '1,x,2020-01-01\n300,y,\n2,z\n3,"",\n4,"a,b",,9\n5,,2020-02-30\n')
    good, bad = split_rows(chdb_engine, CSV, schema(CSV), path)
    assert good == [[1, "x", "2020-01-01"], [3, "", None]]
    assert [row[1:] for row in bad] == [
        [2, "a", "does not fit UInt8", 1, "300,y,"],
        [3, "c", "too few fields", 1, "2,z,"],
        [5, "", "too many fields", 1, '4,"a,b",'],
        [6, "c", "does not fit Nullable(Date)", 1, "5,,2020-02-30"],
    ]


def test_a_quote_never_closed_counts_as_all_its_lines(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.csv", '1,x,\n2,"y,\n3,z,\n4,z,\n')
    good, bad = split_rows(chdb_engine, CSV, schema(CSV), path)
    assert good == [[1, "x", None]]
    assert [(row[1], row[4]) for row in bad] == [(2, 4)]


def test_good_and_bad_rows_of_tsv_and_json(chdb_engine: Chdb, write: Write) -> None:
    path = write("x.tsv", "1\tx\t\\N\n2\t\t2020-01-01\n300\tq\t\\N\n3\ty\n")
    good, bad = split_rows(chdb_engine, TSV, schema(TSV), path)
    assert good == [[1, "x", None], [2, "", "2020-01-01"]]
    assert [row[1] for row in bad] == [3, 4]
    path = write("x.json", '{"a":1,"b":1.50}\n{"a":"2","b":"y","c":"2020-01-01"}\n{"a":1\n'
                 '{"a":1,"b":true}\n{"a":1,"b":null}\n')  # fmt: skip
    good, bad = split_rows(chdb_engine, JSON, schema(JSON), path)
    assert good == [[1, "1.50", None], [2, "y", "2020-01-01"], [1, "true", None]]
    assert [row[1] for row in bad] == [3, 5]


def test_nested_columns_cannot_be_left_out(write: Write) -> None:
    source = Files(write("x.json", "{}"))
    splits = source.sample(source.listing(), 1)
    made = schema(JSON, ("a", "Array(Dynamic)"))
    with pytest.raises(UsageError, match="cannot be checked"):
        LenientReader(source, JSON, made).good_rows(splits)


@pytest.mark.parametrize(
    ("code", "message", "wanted"),
    [
        (354, "inflate failed: (in file/uri /d/a.gz): While", "/d/a.gz is not a whole gzip file"),
        (561, "ZSTD stream decoding failed: error 'Frame requires too much memory for decoding': "
         "While reading from: /d/a.zst (in file/uri /d/a.zst).", "/d/a.zst looks back further than "
         "its reader does: it was packed with a larger window"),
        (636, "The table structure cannot be extracted from a Avro format file. Error:\n"
         "avro::Exception, e.what() = Unknown codec in data file: xz (version 26.9.2.1).\n"
         "(in file/uri /d/a.avro).",
         "/d/a.avro is packed with xz, which the engine's reader of Avro does not know"),
        (50, "Native Arrow IPC reader does not support the `null` type in schema inference "
         "(field 'n') (in file/uri /d/a.arrow).", "/d/a.arrow has a column n of the type null, "
         "which the engine does not read from Arrow"),
        (27, "Cannot parse input: expected ',': (at row 7)\n: (in file/uri /d/a.csv): Whil",
         "/d/a.csv row 7 holds a value that does not fit: Cannot parse input: expected ','"),
        (117, "Expected end of line: (at row 3)\n: (in file/uri /d/a.csv)",
         "/d/a.csv row 3 has another number of fields, or text after a closing quote"),
        (33, "Unexpected end of stream while parsing: (in file/uri /d/a.json): While",
         "/d/a.json breaks off in the middle"),
        (117, "Unknown field found while parsing JSONEachRow format: d: (at row 2)",
         "the source row 2 has the key d, which the table lacks"),
        (27, ": (in file/uri /d/a.csv): \n\nCannot parse input: expected ','\nbuffer: x",
         "/d/a.csv holds a value that does not fit: Cannot parse input: expected ','"),
        (117, "Unknown field found while parsing JSONEachRow format: : (at row 2)",
         'the source row 2 has the key "", which the table lacks'),
        (349, "Cannot convert NULL value to non-Nullable type",
         "the source holds a NULL where the table takes none"),
    ],
)  # fmt: skip
def test_words_for_what_the_engine_says(code: int, message: str, wanted: str) -> None:
    assert explain_engine_error(code, message).message == wanted


TEXTS = ["1", "+5", "007", "-0", "256", "300", " 5", "", "1.5", "1e2", "x", "true", "2020-01-01",
         "2020-02-30", "2020-01-01 10:00:00", "1.239", "--5", "inf", "abc", "abcd", "a b",
         "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "1.2.3.4"]  # fmt: skip


@pytest.mark.parametrize(
    "type_",
    ["UInt8", "Int64", "UInt128", "Float64", "Bool", "String", "FixedString(3)", "Date",
     "DateTime('UTC')", "DateTime64(3)", "Decimal(9, 2)", "UUID", "IPv4", "Enum8('a b' = 1)",
     "Nullable(UInt8)", "Nullable(Float64)", "Nullable(String)", "Nullable(Date)"],
)  # fmt: skip
@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=lambda e: e.format)
@pytest.mark.sampled(4)
def test_strict_and_lenient_reading_agree(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str
) -> None:
    made = schema(encoding, ("k", "String"), ("v", type_))
    rows = {
        Kind.TEXT: [f"k{',' if encoding is CSV else chr(9)}{t}\n" for t in TEXTS],
        Kind.JSON: [f'{{"k":"k","v":"{t}"}}\n' for t in TEXTS],
    }[encoding.kind]
    strict = []
    if "Float" in type_:
        # Garbage that only the reader takes; and blanks, of which the sample has to tell it.
        rows = [row for row in rows if "--5" not in row and not (encoding is CSV and " 5" in row)]
    for row in rows:
        try:
            strict += chdb_engine.read(write("x", row), encoding, made.columns)
        except ChdbError:
            continue
    good, bad = split_rows(chdb_engine, encoding, made, write("x", "".join(rows)))
    chdb_engine.run("DROP TABLE IF EXISTS t")
    assert len(good) == len(strict)
    assert len(bad) == len(rows) - len(good)


def test_a_line_of_a_range_is_one_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from its beginning where that is cheap, else from the byte that is named."""
    head, body = "a,b\n", "".join(f'{n},"x\ny"\n' for n in range(2_000_000))
    path = tmp_path / "big.csv"
    path.write_text(head + body)
    source = open_source([str(path)], Options())
    (whole,) = source.listing().splits("")
    start = len(head) + body.index('1900000,"x')
    assert start > 2 * (8 << 20)
    size = path.stat().st_size
    part = Part(size, head=len(head))
    split = replace(whole, start=start, stop=size, size=size - start, part=part)
    line = 1 + 2 * 1_900_000 + 5
    assert line_in_file(source, split, 5) == (line, f"{path} line {line}")
    monkeypatch.setattr(search, "NEAR", 1000)
    text = f"{path} line 5 from byte {start:,} on"
    assert line_in_file(source, split, 5) == (5, text)
