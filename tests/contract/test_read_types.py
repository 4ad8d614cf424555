"""Each type of ClickHouse as ``rowfall.read`` gives it to pyarrow, by both ways to the values.

What the values are is said by Python's own constructors, and not by rowfall.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import gate
import rowfall

BERLIN = ZoneInfo("Europe/Berlin")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _zoned(zone: Any) -> Callable[[str], datetime]:
    return lambda text: datetime.fromisoformat(text).replace(tzinfo=zone)


def listed(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", type_, nullable=False))


WORDS = pa.dictionary(pa.int32(), pa.string())
# Type of ClickHouse, type of Arrow, how Python reads a text, the texts of CSV.
CASES: list[tuple[str, pa.DataType, Callable[[str], Any], list[str]]] = [
    ("Int8", pa.int8(), int, ["-128", "127"]),
    ("Int16", pa.int16(), int, ["-32768", "32767"]),
    ("Int32", pa.int32(), int, ["-2147483648", "0"]),
    ("Int64", pa.int64(), int, ["-9223372036854775808", "9223372036854775807"]),
    ("UInt8", pa.uint8(), int, ["0", "255"]),
    ("UInt16", pa.uint16(), int, ["65535", "1"]),
    ("UInt32", pa.uint32(), int, ["4294967295", "1"]),
    ("UInt64", pa.uint64(), int, ["18446744073709551615", "1"]),
    ("Int128", pa.string(), str, ["-170141183460469231731687303715884105728", "1"]),
    ("UInt256", pa.string(), str, [str(2**256 - 1), "0"]),
    ("Float32", pa.float32(), float, ["0.5", "-1.25"]),
    ("Float64", pa.float64(), float, ["0.1", "1e300"]),
    ("Bool", pa.bool_(), lambda text: text == "true", ["true", "false"]),
    ("Decimal(9, 2)", pa.decimal128(9, 2), Decimal, ["1234567.89", "-0.01"]),
    ("Decimal(18, 4)", pa.decimal128(18, 4), Decimal, ["12345678901234.5678", "0.0001"]),
    ("Decimal(38, 10)", pa.decimal128(38, 10), Decimal, ["1" * 28 + ".0000000001"]),
    ("Decimal(76, 1)", pa.string(), str, ["9" * 60 + ".5"]),
    ("String", pa.string(), str, ["é", "a b", "x" * 300]),
    ("FixedString(3)", pa.binary(3), lambda text: text.encode(), ["abc", "xyz"]),
    ("LowCardinality(String)", WORDS, str, ["a", "b", "a", ""]),
    ("Enum8('a' = -3, 'b' = 7)", pa.dictionary(pa.int16(), pa.string()), str, ["b", "a", "b"]),
    ("Enum16('x' = 1000)", pa.dictionary(pa.int16(), pa.string()), str, ["x"]),
    ("UUID", pa.string(), lambda text: str(uuid.UUID(text)), [str(uuid.UUID(int=7 << 90))]),
    ("IPv4", pa.string(), str, ["127.0.0.1", "255.255.255.255"]),
    ("IPv6", pa.string(), str, ["2001:db8::1", "::"]),
    ("Date", pa.date32(), date.fromisoformat, ["1970-01-01", "2149-06-06"]),
    ("Date32", pa.date32(), date.fromisoformat, ["1900-01-01", "2299-12-31"]),
    ("DateTime", pa.timestamp("s"), _moment, ["2024-02-29 23:59:59", "1970-01-01 00:00:00"]),
    ("DateTime('UTC')", pa.timestamp("s", "UTC"), _zoned(UTC), ["2106-02-07 06:28:15"]),
    ("DateTime('Europe/Berlin')", pa.timestamp("s", "Europe/Berlin"), _zoned(BERLIN),
     ["2024-07-01 12:00:00", "2024-01-01 12:00:00"]),
    ("DateTime64(3, 'UTC')", pa.timestamp("ms", "UTC"), _zoned(UTC), ["1901-01-01 00:00:00.123"]),
    ("DateTime64(5)", pa.timestamp("us"), _moment, ["2024-01-01 00:00:00.12345"]),
    ("DateTime64(7)", pa.timestamp("ns"), lambda text: _moment(text[:-1]),
     ["2024-01-01 00:00:00.1234560"]),
    ("Array(Int32)", listed(pa.int32()), json.loads, ["[1,-2]", "[]"]),
    ("Array(Array(String))", listed(listed(pa.string())),
     lambda text: json.loads(text.replace("'", '"')), ["[['a','é'],[]]", "[]"]),
    ("Map(String, UInt8)", pa.map_(pa.string(), pa.field("value", pa.uint8(), nullable=False)),
     lambda text: list(json.loads(text.replace("'", '"')).items()), ["{'a':1,'b':2}", "{}"]),
]  # fmt: skip


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def made(texts: list[str], nullable: bool) -> list[str | None]:
    return [*texts, None] if nullable else [*texts]


@pytest.mark.parametrize("way", ["decoder", "engine"])
@pytest.mark.parametrize("case", gate.part(CASES, 12, 3), ids=lambda case: case[0])
def test_values_arrive_as_they_are(
    case: tuple[str, pa.DataType, Callable[[str], Any], list[str]], way: str, tmp_path: Path
) -> None:
    type_, arrow, parse, texts = case
    nested = type_.startswith(("Array", "Map"))
    types = [(type_, False)]
    if not nested:
        inner = type_.removeprefix("LowCardinality(").removesuffix(")")
        low = type_.startswith("LowCardinality")
        types.append((f"LowCardinality(Nullable({inner}))" if low else f"Nullable({type_})", True))
    for own, nullable in types:
        values = made(texts, nullable)
        path = tmp_path / f"{nullable}.csv"
        with path.open("w", newline="") as file:
            file.write("n,v\n")
            for n, value in enumerate(values):
                # A quoted empty field is an empty string, and a bare one NULL.
                file.write(f"{n},{'' if value is None else quoted(value)}\n")
        columns = f"n UInt32, v {own}"
        table = rowfall.read(
            path, schema=columns, header=True, decoder="always" if way == "decoder" else "never"
        ).arrow()
        assert table.schema.field("v").type == arrow
        if not pa.types.is_dictionary(arrow):  # nanoarrow calls all of these nullable
            assert table.schema.field("v").nullable is nullable
        found = table.column("v")
        if _is_ns(arrow):  # of which Python has no time
            found = found.cast(pa.timestamp("us", arrow.tz))
        wanted = [None if value is None else parse(value) for value in values]
        assert found.to_pylist() == wanted
        table.validate(full=True)


def _is_ns(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) and arrow.unit == "ns")


def test_nested_values_of_json(tmp_path: Path) -> None:
    made = [
        {"id": n, "a": [{"x": n, "y": [f"s{n}"]}] * (n % 3), "o": {"p": {"q": n / 2}, "r": "é"}}
        for n in range(50)
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in made))
    for decoder in ("always", "never"):
        assert rowfall.read(path, decoder=decoder).arrow().to_pylist() == made


def test_times_that_arrow_has_no_nanoseconds_for(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t\n2262-04-12 00:00:00.0000001\n")
    with pytest.raises(rowfall.LoadError, match="after 2262"):
        rowfall.read(path, schema="t DateTime64(7)").arrow()
