"""The heart: each text either arrives as exactly its value or raises, whatever the type."""

from __future__ import annotations

import json
import math
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gate import ALL, part
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.type_names import Type, parse_type
from rowfall.schema.types.strict_reading import FileTraits, TextTraits, strict_column
from unit.memory import CSV, JSON, TSV, Chdb, ChdbError

Write = Callable[[str, str | bytes], Path]
ERROR = object()

INTS = [f"{u}Int{b}" for b in (8, 16, 32, 64, 128, 256) for u in ("U", "")]
FLOATS = ["Float32", "Float64"]
OTHERS = [
    "Bool", "String", "FixedString(3)", "LowCardinality(String)", "UUID", "IPv4", "IPv6",
    "Enum8('a' = 1, 'it\\'s' = 2)", "Decimal(9, 2)", "Decimal(38, 10)", "Decimal(76, 0)",
]  # fmt: skip
TIMES = ["Date", "Date32", "DateTime", "DateTime('UTC')", "DateTime64(3)", "DateTime64(9, 'UTC')"]
TYPES = [*INTS, *FLOATS, *OTHERS, *TIMES]

NUMBERS = [
    "0", "1", "-1", "+5", "-0", "007", "127", "128", "-128", "-129", "255", "256", "300", "32767",
    "32768", "65535", "65536", "2147483648", "4294967295", "4294967296", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "18446744073709551621",
    "170141183460469231731687303715884105727", "170141183460469231731687303715884105728",
    "340282366920938463463374607431768211455", "340282366920938463463374607431768211461",
    str(2**255 - 1), str(2**255), str(2**256 - 1), str(2**256), str(-(2**255) - 1), "9" * 90,
    "1.5", "-1.25", "1.239", "1.230", "1e2", "1e400", "-1e400", "1e-400", "1e39", ".5", "5.",
    "0.1", "0.30000000000000004", "8.41e21", "9007199254740993", "16777217", "5e-324",
    "1234567.89", "12345678.9", "99999999999999999999999999999999999999.9", "1.00000000001",
    "--5", "5x", "0x10", "1_000", "1 000", " 5", "5 ", "-", "+", ".", "e5", "1e", "inf", "nan",
]  # fmt: skip
WORDS = [
    "", " ", "a", "abc", "abcd", "it's", "NULL", "null", "None", "true", "false", "TRUE", "yes",
    "2", "tru", "\\", 'say "hi"', "a,b", "a\tb", "\u00e4\u00f6\u00fc", "\U0001f600", "x" * 1000,
    "61f0c404-5cb3-11e7-907b-a6006ad3dba0", "61F0C404-5CB3-11E7-907B-A6006AD3DBA0",
    "61f0c404-5cb3-11e7-907b-a6006ad3dbzz", "61f0c404-5cb3-11e7-907b-a6006ad3dba",
    "61f0c4045cb311e7907ba6006ad3dba0", "1.2.3.4", "1.2.3.256", "01.2.3.4", "1.2.3", "::1",
    "2001:db8::1", "::ffff:1.2.3.4", "1:2", "[1,2]", "{}",
]  # fmt: skip
MOMENTS = [
    "2020-01-31", "2020-02-29", "2021-02-29", "2020-02-30", "2020-13-45", "2020-00-10",
    "2020-1-5", "20200105", "2020/01/05", "05/06/2020", "1970-01-01", "1969-12-31", "2149-06-06",
    "2149-06-07", "2200-01-01", "1900-01-01", "1899-12-31", "2299-12-31", "2300-01-01",
    "9999-12-31", "2020-01-01junk", "2020-01-01 10:00:00", "2020-01-01 23:59:59",
    "2020-01-01 24:00:00", "2020-01-01 25:00:00", "2020-01-01 10:60:00", "2020-01-01 10:00:60",
    "2020-01-01T10:00:00", "2020-01-01T10:00:00Z", "2020-01-01 10:00:00+02:00",
    "2020-01-01 10:00:00.1", "2020-01-01 10:00:00.123", "2020-01-01 10:00:00.1230",
    "2020-01-01 10:00:00.123456789", "2020-01-01 10:00:00.1234567891", "2020-01-01 10:00",
    "1970-01-01 00:00:00", "1969-12-31 23:59:59", "2106-02-07 06:28:15", "2106-02-07 06:28:16",
    "2200-01-01 00:00:00", "2020-02-30 10:00:00", "0000-00-00 00:00:00", "1600000000",
    "16000000000", "2262-04-11 23:47:16.854775807", "2262-04-11 23:47:17", "2020-01-01 1:2:3",
]  # fmt: skip


def exact(target: Type, text: str) -> Any:
    """The one value that ``text`` may become as ``target``; ERROR when there is none."""
    try:
        return _exact(target, text)
    except (ValueError, ArithmeticError):
        return ERROR


def _exact(target: Type, text: str) -> Any:
    base, text = target.base, text if target.text else text.strip(" \t")
    if target.bits:
        low = 0 if base.startswith("U") else -(2 ** (target.bits - 1))
        high = low + 2**target.bits - 1
        number = Decimal(_one_sign(text))
        return int(number) if number == int(number) and low <= number <= high else ERROR
    match base:
        case "Float32" | "Float64":
            value = float(_one_sign(text))
            if math.isinf(value):
                return ERROR
            return struct.unpack("f", struct.pack("f", value))[0] if base == "Float32" else value
        case "Decimal":
            precision, scale = (int(a) for a in target.args.split(","))
            number = Decimal(text)
            digits = number.scaleb(scale, _WIDE)
            fits = digits == digits.to_integral_value() and abs(digits) < 10**precision
            return number if fits else ERROR
        case "Bool":
            true = ("true", "TRUE", "yes", "1")
            return text in true if text in (*true, "false", "0", "no") else ERROR
        case "String":
            return text
        case "FixedString":
            return text.encode().ljust(3, b"\0") if len(text.encode()) <= 3 else ERROR
        case "UUID":
            return uuid.UUID(text) if len(text) == 36 else ERROR
        case "IPv4":
            return IPv4Address(text)
        case "IPv6":
            return IPv6Address("::ffff:" + text if "." in text and ":" not in text else text)
        case "Date" | "Date32":
            return date.fromisoformat(text) if len(text) == 10 else ERROR
        case "Enum8":
            return text if text in ("a", "it's") else ERROR
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d*)?", text)
    if not found:
        return ERROR
    digits = (found[2] or ".")[1:].rstrip("0")
    limit = int(target.args.split(",")[0]) if base == "DateTime64" else 0
    return (datetime.fromisoformat(found[1]), digits) if len(digits) <= limit else ERROR


def _one_sign(text: str) -> str:
    """The engine's float reader takes ``--5`` for -5: the one garbage that it accepts."""
    return text[1:] if text.startswith(("--", "+-")) else text


_WIDE = __import__("decimal").Context(prec=200)


def same(target: Type, got: str, wanted: Any) -> bool:
    """Whether the engine's text for the loaded value is the wanted value."""
    if target.text:
        wanted = wanted if isinstance(wanted, str) else wanted.decode()
        return got == wanted.rstrip("\0")
    if target.base == "Float32":
        return struct.pack("f", float(got)) == struct.pack("f", wanted)
    if target.base == "Float64" and math.isnan(wanted):
        return math.isnan(float(got))
    if target.base == "Float64":
        return float(got) == wanted
    if target.base == "Bool":
        return got == ("true" if wanted else "false")
    if target.base in ("UUID", "IPv6", "IPv4"):
        return type(wanted)(got) == wanted
    return bool(exact(target, got) == wanted)


def in_file(encoding: Encoding, text: str, *, quoted: bool, number: bool = False) -> str:
    """One row with the text in column v, and a 1 in column k."""
    if encoding.kind is Kind.JSON:
        return '{"k": 1, "v": ' + (text if number else json.dumps(text)) + "}\n"
    if encoding is TSV:
        escaped = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
        return f"1\t{escaped}\n"
    return '1,"' + text.replace('"', '""') + '"\n' if quoted else f"1,{text}\n"


def columns_for(encoding: Encoding, type_: str, seen: TextTraits) -> list[Column]:
    csv = encoding.format.startswith("CSV")
    seen = replace(seen, file=replace(seen.file, csv=csv))
    return [
        strict_column(name, name, wanted, encoding.kind, traits=seen)
        for name, wanted in (("k", "Int32"), ("v", type_))
    ]


def outcome(engine: Chdb, path: Path, encoding: Encoding, columns: list[Column]) -> Any:
    try:
        return engine.read(path, encoding, columns)[0][-1]
    except ChdbError as error:
        if error.code in (0, 43, 46, 47, 62, 115, 386):
            raise  # our SQL is wrong, not the value
        return ERROR


def ways(encoding: Encoding, type_: str, text: str) -> list[tuple[str, TextTraits]]:
    """The rows that may hold the text, each with what a sample would have shown."""
    plain = not any(c in text for c in '",\n\r') and text != "\\"
    if encoding.kind is Kind.JSON:
        rows = [(in_file(encoding, text, quoted=True), TextTraits())]
        if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", text):
            rows.append((in_file(encoding, text, quoted=False, number=True), TextTraits()))
        return rows
    if encoding is TSV:
        return [(in_file(encoding, text, quoted=False), TextTraits())]
    rows = [(in_file(encoding, text, quoted=True), TextTraits())]
    if plain:
        rows.append((in_file(encoding, text, quoted=False), TextTraits()))
    return rows


def check(engine: Chdb, write: Write, encoding: Encoding, type_: str, text: str) -> list[bool]:
    """Assert value-or-error for every way to write the text; says which ways were accepted."""
    accepted = []
    target = parse_type(type_)
    for row, seen in ways(encoding, type_, text):
        for nullable in (False, True) if len(text) % 3 == 0 else (False,):
            wanted = exact(target, text)
            full = type_ if not nullable else f"Nullable({target.bare})"
            got = outcome(engine, write("v", row), encoding, columns_for(encoding, full, seen))
            if got is not ERROR:
                where = f"{text!r} as {full} in {row!r} ({seen}) became {got!r}"
                empty = text.strip() == "" and (encoding is TSV or row == f"1,{text}\n")
                if got is None:
                    assert nullable, where
                    assert empty, where
                    continue
                if text == "1e-400" and target.bits:
                    continue  # JSON integers come through Float64, whose smallest number is 5e-324
                assert wanted is not ERROR, where
                assert same(target, got, wanted), where
            accepted.append(got is not ERROR)
    return accepted


@pytest.mark.sampled(12)
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=lambda e: e.format)
def test_every_text_is_its_value_or_an_error(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str
) -> None:
    own = NUMBERS if type_ in (*INTS, *FLOATS) else MOMENTS if type_ in TIMES else WORDS
    for texts in (NUMBERS, WORDS, MOMENTS):
        # In the gate a type meets half of the texts that look like its values and some others.
        start = TYPES.index(type_) + len(encoding.format)
        for text in part(texts, chdb_engine.each * (2 if texts is own else 6), start):
            check(chdb_engine, write, encoding, type_, text)


@pytest.mark.sampled
@pytest.mark.parametrize("type_", INTS)
@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=lambda e: e.format)
def test_integers_load_up_to_their_limits(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str
) -> None:
    target = parse_type(type_)
    low = 0 if type_.startswith("U") else -(2 ** (target.bits - 1))
    for value in (low, 0, 1, low + 2**target.bits - 1):
        assert all(check(chdb_engine, write, encoding, type_, str(value)))
    for value in (low - 1, low + 2**target.bits, low + 2 ** (target.bits + 1)):
        assert not any(check(chdb_engine, write, encoding, type_, str(value)))


ACCEPTED = [
    ("Float64", "0.1"), ("Float64", "1e300"), ("Float64", "-5"), ("Float32", "0.1"),
    ("Bool", "true"), ("Bool", "false"), ("String", ""), ("String", " a "), ("String", "a,\"b"),
    ("FixedString(3)", "abc"), ("LowCardinality(String)", "x"), ("UUID", WORDS[22]),
    ("UUID", WORDS[23]), ("IPv4", "1.2.3.4"), ("IPv6", "2001:db8::1"),
    ("Enum8('a' = 1, 'it\\'s' = 2)", "it's"), ("Decimal(9, 2)", "1234567.89"),
    ("Decimal(9, 2)", "1.230"), ("Decimal(9, 2)", "-5"), ("Decimal(38, 10)", "1.0000000001"),
    ("Date", "1970-01-01"), ("Date", "2149-06-06"), ("Date", "2020-02-29"),
    ("Date32", "1900-01-01"), ("Date32", "2299-12-31"), ("DateTime", "1970-01-01 00:00:00"),
    ("DateTime('UTC')", "2106-02-07 06:28:15"), ("DateTime64(3)", "2020-01-01 10:00:00"),
    ("DateTime64(3)", "2020-01-01 10:00:00.1"), ("DateTime64(3)", "2020-01-01 10:00:00.123"),
    ("DateTime64(9, 'UTC')", "2262-04-11 23:47:16.854775807"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "text"), ACCEPTED)
@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=lambda e: e.format)
def test_good_values_are_not_refused(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str, text: str
) -> None:
    assert all(check(chdb_engine, write, encoding, type_, text))


@pytest.mark.sampled
@pytest.mark.parametrize("type_", ["UInt8", "Int32", "UInt64", "Int64", "Int128", "UInt256"])
@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=lambda e: e.format)
def test_any_string_of_digits(
    chdb_engine: Chdb, tmp_path: Path, encoding: Encoding, type_: str
) -> None:
    def write(name: str, data: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    @settings(max_examples=25 if ALL else 8)
    @given(st.from_regex(r"\A[-+]?[0-9]{1,45}\Z"))
    @example(str(2**64 + 5))
    @example("0" * 30 + "7")
    def run(text: str) -> None:
        check(chdb_engine, write, encoding, type_, text)

    run()


@pytest.mark.sampled
@pytest.mark.parametrize("type_", TYPES)
def test_nothing_is_never_a_value(chdb_engine: Chdb, write: Write, type_: str) -> None:
    target, nulls = parse_type(type_), []
    rows = {CSV: ["1,\n", "1,\\N\n"], TSV: ["1\t\n", "1\t\\N\n"],
            JSON: ['{"k":1}', '{"k":1,"v":null}']}  # fmt: skip
    for encoding, texts in rows.items():
        for row in texts:
            path = write("v", row)
            got = outcome(chdb_engine, path, encoding, columns_for(encoding, type_, TextTraits()))
            if target.base == "String" and encoding.kind is Kind.TEXT and "N" not in row:
                assert got == ""
            elif target.text and encoding is CSV:
                assert got in ("\\N", "", ERROR)  # the text itself
            elif target.text and encoding is TSV and "N" not in row:
                assert got == ""
            else:
                assert got is ERROR, f"{row!r} as {type_} became {got!r}"
            full = f"Nullable({target.bare})"
            nulls.append(
                (
                    row,
                    outcome(chdb_engine, path, encoding, columns_for(encoding, full, TextTraits())),
                )
            )
    for row, got in nulls:
        if target.text and row == "1\t\n":
            assert got == ""
        elif target.base in FLOATS and row in ("1\t\n", "1,\\N\n"):
            assert got is ERROR  # read as text, and NULL, where the sample has such fields
        else:
            assert got is None, f"{row!r} as Nullable({type_}) became {got!r}"


@pytest.mark.parametrize(
    ("type_", "shape", "text", "wanted"),
    [
        ("DateTime('UTC')", "T", "2020-01-01T10:00:00", "2020-01-01 10:00:00"),
        ("DateTime('UTC')", "Z", "2020-01-01T10:00:00Z", "2020-01-01 10:00:00"),
        ("DateTime('Asia/Tokyo')", "Z", "2020-01-01T10:00:00Z", "2020-01-01 19:00:00"),
        ("DateTime64(3, 'Asia/Tokyo')", "Z", "2020-01-01T10:00:00.5Z", "2020-01-01 19:00:00.500"),
        ("DateTime64(3)", "T", "2020-01-01T10:00:00.123", "2020-01-01 10:00:00.123"),
        ("DateTime64(3, 'UTC')", "Z", "2020-01-01T10:00:00.1234Z", ERROR),
        ("DateTime('UTC')", "Z", "2020-01-01T10:00:00", ERROR),
        ("DateTime('UTC')", "Z", "2020-02-30T10:00:00Z", ERROR),
        ("DateTime('UTC')", "date", "2020-01-01", "2020-01-01 00:00:00"),
        ("DateTime64(3, 'UTC')", "date", "2020-01-01", "2020-01-01 00:00:00.000"),
        ("DateTime('UTC')", "date", "2020-02-30", ERROR),
        ("DateTime('UTC')", "epoch", "1600000000", "2020-09-13 12:26:40"),
        ("DateTime('UTC')", "epoch", "4294967296", ERROR),
        ("DateTime('UTC')", "epoch", "-1", ERROR),
        ("DateTime('Europe/Berlin')", "", "2021-03-28 02:30:00", ERROR),  # clocks went forward
    ],
)
@pytest.mark.parametrize("encoding", [CSV, TSV, JSON], ids=lambda e: e.format)
def test_shapes_of_time(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str, shape: str, text: str,
    wanted: object,
) -> None:  # fmt: skip
    columns = columns_for(encoding, type_, TextTraits(shape=shape))
    path = write("v", in_file(encoding, text, quoted=True))
    assert outcome(chdb_engine, path, encoding, columns) == wanted


def test_a_quote_never_closed_does_not_swallow_rows(chdb_engine: Chdb, write: Write) -> None:
    path = write("v", '1,"abc\n2,def\n')
    columns = columns_for(CSV, "String", TextTraits())
    with pytest.raises(ChdbError, match="rowfall: line break in v"):
        chdb_engine.load(path, CSV, columns)
    allowed = columns_for(CSV, "String", TextTraits(breaks=True))
    path = write("v", '1,"abc\ndef"\n')
    assert chdb_engine.load(path, CSV, allowed) == [["1", "abc\ndef"]]


@pytest.mark.parametrize("type_", ["Nullable(Int64)", "Nullable(Float64)", "Nullable(Date)"])
@pytest.mark.parametrize("row", ['1,""\n', '"1",""\n'])
def test_quoted_empty_fields_are_null_where_the_sample_had_them(
    chdb_engine: Chdb, write: Write, type_: str, row: str
) -> None:
    path = write("v", row)
    assert outcome(chdb_engine, path, CSV, columns_for(CSV, type_, TextTraits())) is ERROR
    seen = columns_for(CSV, type_, TextTraits(blank=True))
    assert chdb_engine.load(path, CSV, seen) == [["1", None]]


def test_blanks_around_values_where_the_sample_had_them(chdb_engine: Chdb, write: Write) -> None:
    path = write("v", "1, 2020-01-01 , x \n")
    text = strict_column("s", "s", "String", Kind.TEXT)
    plain = [*columns_for(CSV, "Date", TextTraits()), text]
    assert outcome(chdb_engine, path, CSV, plain) is ERROR
    padded = [*columns_for(CSV, "Date", TextTraits(padded=True)), text]
    assert chdb_engine.load(path, CSV, padded) == [["1", "2020-01-01", " x "]]
    # Without strings the reader itself may trim.
    path = write("v", "1, 2020-01-01 \n")
    assert chdb_engine.load(path, CSV, plain[:2]) == [["1", "2020-01-01"]]


@pytest.mark.parametrize("missing", ["k", "v"])
@pytest.mark.parametrize(
    "type_", ["String", "Int32", "Float64", "Nullable(Float64)", "Nullable(Date)", "FixedString(9)"]
)
@pytest.mark.parametrize("encoding", [CSV, TSV], ids=lambda e: e.format)
def test_a_column_that_the_header_lacks_raises(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str, missing: str
) -> None:
    named = Encoding(f"{encoding.format}WithNames", "none", Kind.TEXT)
    plain = TextTraits(file=FileTraits(csv=encoding is CSV))
    for seen in (plain, replace(plain, breaks=True)):
        columns = [strict_column(n, n, type_, Kind.TEXT, traits=seen) for n in ("k", "v")]
        value = {"Date": "2020-01-01"}.get(parse_type(type_).base, "1")
        path = write("v", ("v" if missing == "k" else "k") + f"\n{value}\n")
        assert outcome(chdb_engine, path, named, columns) is ERROR


@pytest.mark.parametrize("type_", ["String", "Int32", "Float64", "Date"])
def test_a_byte_order_mark_is_no_value(chdb_engine: Chdb, write: Write, type_: str) -> None:
    text = {"String": "a", "Int32": "1", "Float64": "1.5", "Date": "2020-01-01"}[type_]
    path = write("v", f"\ufeff{text}\n{text}\n")
    column = strict_column("v", "v", type_, Kind.TEXT, traits=TextTraits(file=FileTraits(bom=True)))
    assert chdb_engine.load(path, CSV, [column]) == [[text], [text]]
    if type_ != "String":
        plain = strict_column("v", "v", type_, Kind.TEXT)
        assert outcome(chdb_engine, path, CSV, [plain]) in (ERROR, text)


def test_empty_lines_of_one_column_are_rows(chdb_engine: Chdb, write: Write) -> None:
    column = strict_column("v", "v", "String", Kind.TEXT)
    assert chdb_engine.load(write("v", "a\n\n\n"), CSV, [column]) == [["a"], [""], [""]]
    two = columns_for(CSV, "String", TextTraits())
    assert chdb_engine.load(write("v", "1,a\n\n"), CSV, two) == [["1", "a"]]


def test_infinity_is_a_value_only_when_the_sample_had_it(chdb_engine: Chdb, write: Write) -> None:
    path = write("v", "1,inf\n")
    assert outcome(chdb_engine, path, CSV, columns_for(CSV, "Float64", TextTraits())) is ERROR
    seen = columns_for(CSV, "Float64", TextTraits(infinite=True))
    assert chdb_engine.load(path, CSV, seen) == [["1", "inf"]]


@pytest.mark.parametrize(
    "row", ["1\n", "1,2,3\n", '1,"2"x\n'], ids=["short", "long", "text after quote"]
)
def test_malformed_csv_rows_raise(chdb_engine: Chdb, write: Write, row: str) -> None:
    columns = columns_for(CSV, "String", TextTraits())
    assert outcome(chdb_engine, write("v", row), CSV, columns) is ERROR


@pytest.mark.parametrize(
    "row",
    ['{"k":1,"v":}', '{"k":1,"v":"5"', '{"k":1,"v":5,"w":6}', '{"k":true,"v":5}', '{"k":"","v":5}'],
)
def test_malformed_json_rows_raise(chdb_engine: Chdb, write: Write, row: str) -> None:
    for type_ in ("Int64", "Int8", "Float64", "String", "Bool", "Date"):
        columns = columns_for(JSON, type_, TextTraits())
        assert outcome(chdb_engine, write("v", row + "\n"), JSON, columns) is ERROR


TYPED = [
    ("Int64", "300", "UInt8", ERROR), ("Int64", "200", "UInt8", "200"),
    ("Nullable(Int64)", "NULL", "UInt8", ERROR), ("Nullable(Int64)", "NULL", "Int64", ERROR),
    ("Nullable(Int64)", "7", "Int64", "7"), ("Int64", "7", "Nullable(Int64)", "7"),
    ("Float64", "1.5", "Int32", ERROR), ("Float64", "2", "Int32", "2"),
    ("Float64", "0.1", "Float32", ERROR), ("Int64", "16777217", "Float32", ERROR),
    ("Date32", "'2200-01-01'", "Date", ERROR), ("Date32", "'2020-01-01'", "Date", "2020-01-01"),
    ("DateTime64(3)", "'2020-01-01 00:00:00.123'", "DateTime", ERROR),
    ("DateTime64(3)", "'2020-01-01 00:00:00'", "DateTime", "2020-01-01 00:00:00"),
    ("DateTime64(6)", "'2020-01-01 00:00:00.123456'", "DateTime64(3)", ERROR),
    ("DateTime", "'2020-01-01 10:00:00'", "Date", ERROR), ("Int64", "70000", "Date", ERROR),
    ("Decimal(9, 3)", "1.239", "Decimal(9, 2)", ERROR),
    ("Decimal(9, 3)", "1.23", "Decimal(9, 2)", "1.23"), ("Decimal(9, 1)", "1.5", "UInt8", ERROR),
    ("Int64", "5", "Bool", ERROR), ("Int64", "1", "Bool", "true"),
    ("String", "'2020-02-30'", "Date", ERROR), ("String", "'300'", "UInt8", ERROR),
    ("String", "'x'", "LowCardinality(String)", "x"), ("Int64", "5", "String", "5"),
    ("Nullable(Date32)", "NULL", "Nullable(Date)", None),
    ("Array(Int64)", "[1]", "Array(Int64)", "[1]"),
    ("UUID", "toUUID('" + WORDS[22] + "')", "UUID", WORDS[22]),
    ("FixedString(16)", "'2001:db8::1'", "IPv6", "2001:db8::1"),
    ("Array(FixedString(16))", "['::1', '2001:db8::1']", "Array(IPv6)", "['::1','2001:db8::1']"),
    ("FixedString(16)", "'2001:db8:::1'", "IPv6", ERROR),
    # 0001-01-01 in nanoseconds is no number of 64 bits.
    ("DateTime64(9)", "'2020-01-01 00:00:00.5'", "DateTime64(8)", "2020-01-01 00:00:00.50000000"),
    ("DateTime64(9)", "'2020-01-01 00:00:00.000000001'", "DateTime64(8)", ERROR),
    ("Decimal(38, 4)", "'2366316874624148267020507473689561.8680'", "Float64",
     "2.3663168746241483e33"),
    ("Array(Decimal(18, 4))", "['16777217.0001']", "Array(Float32)", "[16777218]"),
    ("DateTime64(3)", "'1969-12-31 00:00:00'", "Date", ERROR),
    ("Array(DateTime64(3))", "['2024-02-29 00:00:00']", "Array(Date)", "['2024-02-29']"),
    # Numbers that do not fit leave something behind the NULL, in blocks that a file makes of it.
    ("Array(Nullable(UInt32))", "[0, 255]", "Array(Nullable(Decimal(38, 38)))", ERROR),
    ("Array(Int32)", "[-255]", "Array(Decimal(9, 2))", "[-255]"),
    ("Decimal(9, 2)", "1.1", "Float32", "1.1"), ("Decimal(9, 2)", "0.5", "Float64", "0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "value", "target", "wanted"), TYPED)
def test_typed_formats(
    chdb_engine: Chdb, tmp_path: Path, source: str, value: str, target: str, wanted: object
) -> None:
    path = tmp_path / "v.parquet"
    chdb_engine.run(
        f"INSERT INTO FUNCTION file('{path}', 'Native') "
        f"SELECT 1::Int32 AS k, CAST({value} AS {source}) AS v"
    )
    encoding = Encoding("Native", "none", Kind.TYPED)
    columns = [strict_column("k", "k", "Int32", Kind.TYPED, "Int32")]
    columns.append(strict_column("v", "v", target, Kind.TYPED, source))
    assert outcome(chdb_engine, path, encoding, columns) == wanted


def test_a_decimal_becomes_the_shortest_of_floats(chdb_engine: Chdb, tmp_path: Path) -> None:
    """There is no cast back, which older engines have no such type for."""
    path = tmp_path / "v.native"
    chdb_engine.run(
        f"INSERT INTO FUNCTION file('{path}', 'Native') "
        "SELECT 1::Int32 AS k, CAST(1.5 AS Decimal(9, 2)) AS v"
    )
    encoding = Encoding("Native", "none", Kind.TYPED)
    columns = [strict_column("k", "k", "Int32", Kind.TYPED, "Int32")]
    columns.append(strict_column("v", "v", "BFloat16", Kind.TYPED, "Decimal(9, 2)"))
    assert outcome(chdb_engine, path, encoding, columns) == "1.5"


NESTED = [
    # type, JSON, what is stored: None for nothing.
    ("Array(UInt8)", "[1, 255]", "[1,255]"),
    ("Array(UInt8)", "[300]", None),
    ("Array(UInt8)", "[null]", None),
    ("Array(UInt8)", '[""]', None),
    ("Array(UInt8)", '"[1]"', None),
    ("Array(UInt8)", "null", None),
    ("Array(Nullable(UInt8))", "[null, 7]", "[NULL,7]"),
    ("Array(Int64)", "[9223372036854775807]", "[9223372036854775807]"),
    ("Array(Int64)", "[9223372036854775808]", None),
    ("Array(UInt64)", "[99999999999999999999999]", None),
    ("Array(Date)", '["2024-02-29"]', "['2024-02-29']"),
    ("Array(Date)", '["2024-02-31"]', None),
    ("Array(Date)", '["2200-01-01"]', None),
    ("Array(DateTime('UTC'))", "[1700000000]", "['2023-11-14 22:13:20']"),
    ("Array(DateTime64(3, 'UTC'))", "[1700000000]", None),
    ("Array(DateTime64(3, 'UTC'))", '["2024-01-01T00:00:00.5Z"]', "['2024-01-01 00:00:00.500']"),
    ("Array(DateTime64(3, 'UTC'))", '["2024-01-01 00:00:00.1239"]', None),
    ("Map(String, UInt8)", '{"k": 255, "a\\u00e9": 1}', "{'k':255,'a\u00e9':1}"),
    ("Map(String, UInt8)", '{"k": 300}', None),
    ("Map(UInt8, String)", '{"300": "a"}', None),
    ("Tuple(k UInt8, l Array(Bool))", '{"l": [true], "k": 255}', "(255,[true])"),
    ("Tuple(k UInt8)", '{"k": 256}', None),
    ("Tuple(k Nullable(UInt8), l UInt8)", '{"l": 1}', None),
    ("Tuple(UInt8, String)", '[7, "a\'b"]', "(7,'a\\'b')"),
    ("Array(Array(Decimal(9, 2)))", "[[1.23], [-4]]", "[[1.23],[-4]]"),
    ("Array(Array(Decimal(9, 2)))", "[[1.239]]", None),
    ("Array(Decimal(10, 2))", "[9999999999999999.99]", None),
    ("Array(Enum8('a' = 1))", '["a"]', "['a']"),
    ("Array(Enum8('a' = 1))", "[1]", None),
    ("Array(Float64)", "[1.239, 1e400]", None),
    ("Array(Float64)", "[1.239]", "[1.239]"),
    ("Array(UUID)", '["61f0c404-5cb3-11e7-907b-a6006ad3dbzz"]', None),
    ("Array(Tuple(a Array(UInt8)))", '[{"a": [1]}, {"a": [256]}]', None),
    ("Point", "[1.5, 2]", "(1.5,2)"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "text", "wanted"), NESTED)
def test_elements_are_checked_as_columns_are(
    chdb_engine: Chdb, write: Write, type_: str, text: str, wanted: str | None
) -> None:
    """The engine's own reader takes 300 for 44 and "" for 0 there, too."""
    path = write("v.jsonl", f'{{"k": 1, "v": {text}}}\n')
    found = outcome(chdb_engine, path, JSON, columns_for(JSON, type_, TextTraits()))
    assert found == (ERROR if wanted is None else wanted)


NESTED_TEXT = [
    ("Array(UInt8)", "[1, 255]", "[1,255]"),
    ("Array(UInt8)", "[256]", None),
    ("Array(UInt8)", "[1", None),
    ("Array(UInt8)", "", None),
    ("Array(Nullable(Int64))", "[NULL,-1]", "[NULL,-1]"),
    ("Array(String)", r"['a\'b','c\\d','e,f']", r"['a\'b','c\\d','e,f']"),
    ("Array(String)", r"['a\',\'b']", r"['a\',\'b']"),
    ("Map(String, UInt8)", r"{'a\'b':1}", r"{'a\'b':1}"),
    ("Map(String, UInt8)", "{'a':256}", None),
    ("Array(Tuple(UInt8, String))", "[(1,'a'),(2,'b')]", "[(1,'a'),(2,'b')]"),
    ("Array(Tuple(UInt8, String))", "[(1,'a'),(256,'b')]", None),
    ("Array(Date)", "['2024-02-31']", None),
    ("Array(Array(Float64))", "[[1.5],[]]", "[[1.5],[]]"),
]


@pytest.mark.parametrize("encoding", [CSV, TSV], ids=["CSV", "TSV"])
@pytest.mark.parametrize(("type_", "text", "wanted"), NESTED_TEXT)
def test_elements_of_text_are_checked_as_columns_are(
    chdb_engine: Chdb, write: Write, encoding: Encoding, type_: str, text: str, wanted: str | None
) -> None:
    line = '1,"' + text.replace('"', '""') + '"' if encoding is CSV else f"1\t{text}"
    path = write("v.txt", line + "\n")
    found = outcome(chdb_engine, path, encoding, columns_for(encoding, type_, TextTraits()))
    assert found == (ERROR if wanted is None else wanted)


def test_types_of_which_only_the_engine_knows_the_values_say_it() -> None:
    for type_ in ("Array(Dynamic)", "Array(Point3D)"):
        column = strict_column("v", "v", type_, Kind.JSON)
        assert (column.read_type, column.check.lenient) == (type_, "")
        # That a number is too large for a float can be seen in the text.
        assert ("isInfinite" in column.check.bad) == ("Dynamic" in type_)
        assert "engine's reader only" in column.reason


@pytest.mark.parametrize(
    ("text", "bare", "nullable"),
    [
        ("LowCardinality(Nullable(String))", "String", True),
        ("Nullable(DateTime64(3, 'UTC'))", "DateTime64(3, 'UTC')", True),
        ("Decimal64(4)", "Decimal(18, 4)", False),
        ("Array(Nullable(Int8))", "Array(Nullable(Int8))", False),
    ],
)
def test_parse_type(text: str, bare: str, nullable: bool) -> None:
    assert (parse_type(text).bare, parse_type(text).nullable) == (bare, nullable)
