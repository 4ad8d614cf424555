"""Formats that need more than a name: expressions, delimiters, schema files."""

from __future__ import annotations

import struct

import pytest

from e2e.tools import Shell, made

NGINX = (
    '10.0.0.1 - - [05/Mar/2024:10:00:01 +0000] "GET /a?b=1 HTTP/1.1" 200 512 "-" "curl/8.1"\n'
    '10.0.0.2 - bob [05/Mar/2024:10:00:02 +0000] "POST /x HTTP/1.1" 404 0 "http://h/" "M (X; Y)"\n'
)
EXPRESSION = r'format_regexp=^(\S+) - (\S+) \[([^\]]+)\] "([^"]*)" (\d+) (\d+) "([^"]*)" "([^"]*)"'
COLUMNS = (
    "ip IPv4, user String, at String, request String, status UInt16, bytes UInt64, "
    "referrer String, agent String"
)


def test_an_access_log_by_a_regular_expression(shell: Shell) -> None:
    shell.write("access.log", NGINX)
    options = ("access.log", "--format", "regexp", "--set", EXPRESSION, "--schema", COLUMNS)
    plan = " ".join(shell.ok("plan", *options, "--table", "log").out.split())
    assert "the engine's Regexp reader: rowfall checks the number of rows" in plan
    shell.ok("load", *options, "--table", "log")
    query = "SELECT ip, user, status, bytes, request FROM log ORDER BY ip"
    assert shell.ok("query", query, "--format", "TSV").out == (
        "10.0.0.1\t-\t200\t512\tGET /a?b=1 HTTP/1.1\n10.0.0.2\tbob\t404\t0\tPOST /x HTTP/1.1\n"
    )
    # A line that is no entry is an error, not a row less.
    shell.write("odd.log", NGINX + "restarted\n")
    refused = shell.ends(2, "load", "odd.log", *options[1:5], "--table", "log")
    assert "doesn't match the number of columns" in refused.talk
    assert shell.ok("query", "SELECT count() FROM log", "--format", "TSV").out == "2\n"


def test_other_separators(shell: Shell) -> None:
    shell.write("in.data", "1||a b||2.5\n2||c||\\N\n")
    shell.ok(
        "load", "in.data", "--format", "CustomSeparated", "--table", "t",
        "--set", "format_custom_field_delimiter=||", "--set", "format_custom_escaping_rule=CSV",
        "--schema", "id Int64, name String, price Nullable(Float64)",
    )  # fmt: skip
    out = shell.ok("query", "SELECT * FROM t ORDER BY id", "--format", "TSV").out
    assert out == "1\ta b\t2.5\n2\tc\t\\N\n"


def test_what_a_format_needs_is_said(shell: Shell) -> None:
    message = b"\x08\x01\x12\x02ab"
    shell.write("in.pb", bytes([len(message)]) + message)
    refused = shell.ends(2, "load", "in.pb", "--format", "Protobuf", "--table", "u")
    assert "It needs a server; --schema; and --set format_schema=FILE:MESSAGE" in refused.talk
    refused = shell.ends(2, "load", "in.pb", "--format", "rowbinary", "--table", "u")
    assert "It needs --schema, or a table that is there." in refused.talk


def test_a_document_of_clickhouse_and_rows_without_names(shell: Shell) -> None:
    document = '{"meta":[{"name":"id","type":"UInt16"}],"data":[{"id":1},{"id":2}],"rows":2}'
    shell.write("in.data", document)
    shell.ok("load", "in.data", "--format", "JSON", "--table", "t")
    out = shell.ok("query", "SELECT id, toTypeName(id) FROM t ORDER BY id", "--format", "TSV").out
    assert out == "1\tUInt16\n2\tUInt16\n"
    shell.write("more.data", "[3]\n[4]\n")
    shell.ok("load", "more.data", "--format", "jsoncompacteachrow", "--table", "t")
    assert shell.ok("query", "SELECT sum(id) FROM t", "--format", "TSV").out == "10\n"


@pytest.mark.parametrize(("format", "suffix"), [("Parquet", "parquet"), ("ORC", "orc")])
def test_a_null_behind_the_sample_is_null(shell: Shell, format: str, suffix: str) -> None:
    """The files declare that their columns may be NULL, and the first 30,000 rows are not."""
    rows = "SELECT number AS id, if(number = 30_000, NULL, number) AS n FROM numbers(30_001)"
    shell.write(f"late.{suffix}", made(rows, format))
    shell.ok("load", f"late.{suffix}", "--table", "t", "--verify")
    assert shell.row("SELECT count(), count(n) FROM t") == [30_001, 30_000]
    assert shell.row("SELECT id FROM t WHERE n IS NULL") == [30_000]


def test_native_columns_are_selected(shell: Shell) -> None:
    shell.write("a.csv", "id,n\n1,x\n2,y\n")
    shell.ok("load", "a.csv", "--to", "a.native")
    shell.ok("load", "a.native", "--select", "n", "--to", "some")
    assert shell.rows("SELECT * FROM a ORDER BY n", "--to", "some") == [["x"], ["y"]]


def test_moments_of_bson_are_milliseconds(shell: Shell) -> None:
    """The engine says that they have six digits of a second, and read 2023 as 1970."""
    moment = b"\x09a\0" + struct.pack("<q", 1_700_000_000_123)
    inside = b"\x04l\0" + struct.pack("<i", 16) + b"\x090\0" + moment[3:] + b"\0"
    document = moment + inside + b"\0"
    shell.write("a.bson", struct.pack("<i", len(document) + 4) + document)
    exact = "2023-11-14 22:13:20.123"
    shell.ok("load", "a.bson", "--table", "t")
    assert shell.row("SELECT toString(a), toString(l[1]) FROM t") == [exact, exact]
    shell.ok("load", "a.bson", "--table", "n", "--type", "a DateTime64(6, 'UTC')")
    assert shell.row("SELECT toString(a) FROM n") == [f"{exact}000"]
    shell.ends(1, "load", "a.bson", "--table", "s", "--type", "a DateTime('UTC')")


def packed(number: int) -> bytes:
    """A whole number as MessagePack has it, in 64 bits."""
    signed = number < 0
    return b"\xd3\xcf"[not signed : 2 - signed] + struct.pack(">q" if signed else ">Q", number)


WRAPPED = {
    "DateTime('UTC')": (1_700_000_000, "2023-11-14 22:13:20", 1_700_000_000_000, -1),
    "Date": (19_675, "2023-11-14", 1_700_000_000, 65_536, -1),
    "Date32": (-1, "1969-12-31", 1 << 32, 4_294_967_295),
    "UInt8": (255, "255", 256, -1),
    "Int16": (-32_768, "-32768", 32_768),
    "UInt32": (4_294_967_295, "4294967295", 1 << 32, -1),
    "Bool": (1, "true", 256, 2),
    "Decimal(9, 2)": (-1234, "-12.34", 1_000_000_001, 4_294_967_297),
    "Nullable(DateTime)": (0, "1970-01-01 00:00:00", 1 << 32),
}


@pytest.mark.parametrize("type_", [
    pytest.param(type_, marks=() if type_ == "DateTime('UTC')" else pytest.mark.long)
    for type_ in WRAPPED
])  # fmt: skip
def test_numbers_of_messagepack_that_do_not_fit(shell: Shell, type_: str) -> None:
    """Milliseconds as DateTime were days of 2080: the reader keeps as many bits as fit."""
    fits, shown, *others = WRAPPED[type_]
    given = ("--format", "MsgPack", "--schema", f"id UInt64, a {type_}")
    last = (1 << 64) - 1
    shell.write("good.data", packed(last) + packed(fits))
    shell.ok("load", "good.data", *given, "--table", "t")
    found = shell.row("SELECT toString(id), toString(a) FROM t")
    assert [*map(str, found)] == [str(last), shown]
    for number, other in enumerate(others):
        shell.write(f"{number}.data", packed(1) + packed(fits) + packed(2) + packed(other))
        done = shell.ends(1, "load", f"{number}.data", *given, "--table", "t")
        assert f"{number}.data row 2" in done.talk
        assert str(other) in done.talk.replace(".", "")
    assert shell.row("SELECT count() FROM t") == [1]
    shell.ok("load", "0.data", *given, "--table", "t", "--max-errors", "1")
    assert shell.row("SELECT count() FROM t") == [2]


@pytest.mark.long
def test_numbers_inside_of_values_of_messagepack(shell: Shell) -> None:
    """They are checked as those outside, and into a table that is there, too."""
    made = "CREATE TABLE t (a Array(UInt8), m Map(String, DateTime('UTC'))) ORDER BY ()"
    shell.ok("query", "--write", made)
    moment, late = packed(1_700_000_000), packed(1_700_000_000_000)
    rows = {
        "good": b"\x92" + packed(1) + packed(255) + b"\x81\xa1k" + moment,
        "array": b"\x91" + packed(256) + b"\x80",
        "map": b"\x90" + b"\x81\xa1k" + late,
    }
    for name, row in rows.items():
        shell.write(f"{name}.data", row)
        code = 0 if name == "good" else 1
        shell.ends(code, "load", f"{name}.data", "--format", "MsgPack", "--table", "t")
    assert shell.row("SELECT a, m['k'] = toDateTime('2023-11-14 22:13:20', 'UTC') FROM t") == [
        [1, 255], 1,
    ]  # fmt: skip
