"""Formats that need more than a name: expressions, delimiters, schema files."""

from __future__ import annotations

import struct

import pytest

from e2e.lake import Lake
from e2e.tools import Shell, made
from lab.clickhouse import ClickHouse


@pytest.fixture(scope="module")
def server(clickhouse: ClickHouse) -> ClickHouse:
    return clickhouse


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


def array(kind: str, shape: str, content: bytes) -> bytes:
    """A file of an array of NumPy."""
    words = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    words += b" " * (-(len(words) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words + content


def numbers(*values: int) -> bytes:
    return array("<i8", f"({len(values)},)", struct.pack(f"<{len(values)}q", *values))


FLOATS = "<f8", "(1,)"
ARRAYS = {
    "UInt8": (numbers(1, 300), "2", "300", numbers(255), "255"),
    "DateTime('UTC')": (
        numbers(1_700_000_000_000), "1", "1700000000000",
        numbers(1_700_000_000), "2023-11-14 22:13:20",
    ),
    "UInt64": (
        numbers(-1), "1", "-1",
        array(">u8", "(1,)", b"\xff" * 8), "18446744073709551615",
    ),
    "Int64": (array(*FLOATS, struct.pack("<d", float("nan"))), "1", "nan", numbers(-5), "-5"),
    "Float32": (
        array(*FLOATS, struct.pack("<d", 1e300)), "1", "1e300",
        array("<f2", "(1,)", struct.pack("<e", 1.5)), "1.5",
    ),
    "Array(UInt8)": (
        array("<i8", "(2, 1)", struct.pack("<2q", 1, 300)), "2", "[300]",
        array("|u1", "(1, 2)", b"\x01\xff"), "[1,255]",
    ),
    "Enum8('a' = 1)": (numbers(1, 5), "2", "5", numbers(1), "a"),
    "Nullable(Decimal(9, 2))": (
        array(*FLOATS, struct.pack("<d", 1.239)), "1", "1.239", numbers(7), "7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("type_", [
    pytest.param(type_, marks=() if type_ == "UInt8" else pytest.mark.long) for type_ in ARRAYS
])  # fmt: skip
def test_numbers_of_numpy_that_do_not_fit(shell: Shell, type_: str) -> None:
    """The reader keeps as many bits as fit, whatever the array says of itself."""
    wrong, row, value, good, shown = ARRAYS[type_]
    shell.ok("query", "--write", f"CREATE TABLE t (a {type_}) ENGINE = MergeTree ORDER BY ()")
    shell.write("wrong.npy", wrong)
    done = shell.ends(1, "load", "wrong.npy", "--table", "t")
    assert f'wrong.npy row {row} column "a": "{value}" does not fit {type_}' in done.talk
    shell.write("good.npy", good)
    shell.ok("load", "good.npy", "--table", "t")
    assert [str(cell) for cell in shell.row("SELECT toString(a) FROM t")] == [shown]


@pytest.mark.long
def test_arrays_of_other_types_and_characters(shell: Shell) -> None:
    """Each file says its type, and the reader keeps a byte of each character."""
    shell.write("n/0.npy", array("<i4", "(1,)", struct.pack("<i", 7)))
    shell.write("n/1.npy", numbers(1 << 32))
    done = shell.ends(1, "load", "n/*.npy", "--table", "new")
    assert "n/1.npy: the array is int64, which is not read as Int32" in done.talk
    shell.write("ascii.npy", array("<U3", "(2,)", "abcde\0".encode("utf-32-le")))
    shell.ok("load", "ascii.npy", "--table", "u")
    assert shell.rows("SELECT array FROM u ORDER BY 1") == [["abc"], ["de"]]
    shell.write("u.npy", array("<U3", "(2,)", "abc\u0141\0\0".encode("utf-32-le")))
    done = shell.ends(1, "load", "u.npy", "--table", "u")
    assert "row 2 of it has a character" in done.talk
    assert "numpy.save(file, numpy.char.encode(array, 'utf-8'))" in done.talk
    assert shell.row("SELECT count() FROM u") == [2]


def test_longer_numbers_of_bson_behind_the_sample(shell: Shell) -> None:
    """MongoDB writes numbers of 32 and of 64 bits into one field: 2^33 was 0."""

    def document(field: bytes) -> bytes:
        return struct.pack("<i", len(field) + 5) + field + b"\0"

    short = document(b"\x10a\0" + struct.pack("<i", 1))
    shell.write("a.bson", short * 30_000 + document(b"\x12a\0" + struct.pack("<q", 1 << 33)))
    shell.ok("load", "a.bson", "--table", "t")
    assert shell.row("SELECT max(a), count() FROM t") == [1 << 33, 30_001]


def test_enums_go_by_their_names(shell: Shell) -> None:
    """The cast of the engine goes by the number, which may be that of another name."""
    shell.write("b.native", made("SELECT CAST('b', 'Enum8(\\'b\\' = 1)') AS a", "Native"))
    for names, number in (("'a' = 1, 'b' = 2", 2), ("'a' = 1", 0)):
        table = f"t{number}"
        shell.ok("query", "--write", f"CREATE TABLE {table} (a Enum8({names})) ORDER BY ()")
        shell.ends(0 if number else 1, "load", "b.native", "--table", table)
        assert shell.rows(f"SELECT toInt8(a) FROM {table}") == [[number]] * bool(number)


@pytest.mark.long
def test_numbers_of_no_enum_in_rowbinary(shell: Shell) -> None:
    shell.ok("query", "--write", "CREATE TABLE t (a Array(Enum8('a' = 1))) ORDER BY ()")
    shell.write("a.data", b"\x01\x01\x01\x05")
    done = shell.ends(1, "load", "a.data", "--format", "RowBinary", "--table", "t")
    assert 'a.data row 2 column "a": "[5]" does not fit' in done.talk


PROTO = """\
syntax = "proto3";
enum E { A = 0; B = 1; C = 7; }
message Int { int64 a = 1; }
message Float { double a = 1; }
message Text { string a = 1; }
message Enumerated { E a = 1; }
message List { repeated int64 a = 1; }
"""
CAPNP = """\
@0xbf5147cbbecf40c1;
struct Int { a @0 : Int64; }
struct Float { a @0 : Float64; }
"""


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def message(value: object) -> tuple[str, bytes]:
    """The message of :data:`PROTO` for a value, and its bytes."""
    if isinstance(value, float):
        return "Float", b"\x09" + struct.pack("<d", value)
    if isinstance(value, bytes):
        return "Text", b"\x0a" + varint(len(value)) + value
    if isinstance(value, list):
        return "List", b"".join(b"\x08" + varint(number) for number in value)
    assert isinstance(value, int)
    return "Int", b"\x08" + varint(value) if value else b""  # 0 is left out


SAID = [
    ("Int8", 127, "127"), ("Int8", 300, None), ("UInt8", b"255", "255"), ("UInt8", b"300", None),
    ("UInt8", 0, "0"), ("Nullable(UInt8)", -1, None), ("Int64", 2.0, "2"), ("Int64", 1.5, None),
    ("Int64", float("nan"), None), ("Date", b"2024-02-29", "2024-02-29"),
    ("Date", b"2024-02-31", None), ("DateTime('UTC')", 1_700_000_000, "2023-11-14 22:13:20"),
    ("DateTime('UTC')", 1_700_000_000_000, None), ("DateTime64(3, 'UTC')", 2.5, None),
    ("Decimal(9, 2)", 1.25, "1.25"), ("Decimal(9, 2)", 1.239, None),
    ("Enum8('a' = 1)", 1, "a"), ("Enum8('a' = 1)", 257, None), ("IPv4", 1 << 33, None),
    ("IPv4", 300, "0.0.1.44"), ("FixedString(3)", b"abcd", None), ("String", b"a", "a"),
    ("Array(UInt8)", [1, 255], "[1,255]"), ("Array(UInt8)", [1, 256], None),
    ("Float32", 1e300, None), ("Bool", 0, "false"), ("Bool", 2, None),
]  # fmt: skip


@pytest.mark.long
def test_messages_that_do_not_fit(lake: Lake) -> None:
    """Protobuf and Cap'n Proto, which a server reads: fractions were cut, and bits left out."""
    schemas = lake.server.folder / "format_schemas"
    (schemas / "m.proto").write_text(PROTO)
    (schemas / "m.capnp").write_text(CAPNP)
    cases = [("Protobuf", type_, *message(value), shown) for type_, value, shown in SAID]
    cases.append(("Protobuf", "Enum8('C' = 1)", "Enumerated", b"\x08\x07", "C"))
    for type_, kind, field, shown in (
        ("UInt8", "Int", struct.pack("<q", 200), "200"),
        ("UInt8", "Int", struct.pack("<q", 300), None),
        ("Float32", "Float", struct.pack("<d", 1e300), None),
    ):
        # A segment of two words: a struct with one word of data, and that.
        begin = struct.pack("<IIHHHH", 0, 2, 0, 0, 1, 0)
        cases.append(("CapnProto", type_, kind, begin + field, shown))
    for number, (form, type_, kind, content, shown) in enumerate(cases):
        lake.do(f"CREATE TABLE {{db}}.t{number} (a {type_}) ENGINE = MergeTree ORDER BY ()")
        before = varint(len(content)) if form == "Protobuf" else b""
        lake.shell.write(f"{number}.data", before + content)
        schema = f"format_schema=m.{'proto' if form == 'Protobuf' else 'capnp'}:{kind}"
        given = (f"{number}.data", "--format", form, "--set", schema, "--table", f"t{number}")
        done = lake.ends(0 if shown is not None else 1, "load", *given)
        if shown is None:
            assert f"{number}.data was refused: a " in done.talk
            assert f" does not fit a {type_}" in done.talk
        found = lake.rows(f"SELECT toString(a) FROM {{db}}.t{number}")
        assert found == ([] if shown is None else [[shown]])
