"""Values of formats with types (Parquet, Arrow, ORC, Avro), which columns of other types take.

A column of a file has a type of its own, mostly a wider one than that of the table; the values are
drawn at the ends of both. What may be stored is judged by :mod:`contract.judged_values`: the same
number, the same day, the same point in time.
"""

from __future__ import annotations

import io
import ipaddress
import random
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from contract.judged_values import (
    REFUSED,
    Cell,
    Kind,
    integer,
    judged,
    leaves,
    nested,
    nullable,
    string,
    together,
)

FORMATS = ("parquet", "arrow", "orc", "avro")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Own:
    """The type of values in a file.

    Attributes:
        draw: a value, sometimes one that only this type holds.
        text: the value as text, for the judge.
        sure: a value that is the same may not be refused.
        parts: of nested types.
    """

    type: pa.DataType
    draw: Callable[[random.Random], Any]
    text: Callable[[Any], str]
    sure: bool = True
    parts: tuple[Own, ...] = ()


def _integer(bits: int, signed: bool) -> Own:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    ends = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        256,
        300,
        32767,
        65536,
        2**31,
        2**32,
        -(2**31) - 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        low,
        high,
    ]
    known = [n for n in ends if low <= n <= high]
    return Own(
        getattr(pa, f"{'' if signed else 'u'}int{bits}")(),
        lambda r: r.choice((*known, r.randint(0, 100), r.randint(low, high))),
        str,
    )


def _decimal(precision: int, scale: int) -> Own:
    type_ = pa.decimal128 if precision <= 38 else pa.decimal256

    def draw(r: random.Random) -> Decimal:
        most = 10**precision - 1
        number = r.choice(
            (
                0,
                1,
                most,
                -most,
                10**scale * 255,
                10**scale * 256,
                10**scale * -7,
                10**scale * (10**7),
                123 * 10 ** max(scale - 2, 0),
                r.randint(-most, most),
            )
        )
        number = number if abs(number) <= most else 0
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    return Own(type_(precision, scale), draw, lambda v: format(v, "f"))


def _float(kind: Kind, bits: int = 64) -> Own:
    # A decimal of a float is that of its shortest text, an integer all of it.
    exact = "Decimal" not in kind.name
    known = (0.5, 1.0, -3.0, 255.0, 256.0, 1e300, 0.1, 16777217.0, -1.5, 2.0**53, 2.0**63, 1e19)
    ends = (float("inf"), float("-inf"), float("nan"), -0.0, 5e-324, 3.4028234663852886e38)
    if bits == 16:
        known, ends = (0.5, 1.0, -3.0, 255.0, 65504.0, 2.0**-24), ends[:4]
    if bits == 32:
        known, ends = (0.5, 1.0, -3.0, 256.0, 16777216.0, 2.0**53, 2.0**63), (*ends[:4], ends[5])

    def text(value: float) -> str:
        if value != value or abs(value) == float("inf"):
            return str(value)
        return format(Decimal(value if exact else _shortest(value, bits)), "f")

    type_ = {16: pa.float16(), 32: pa.float32(), 64: pa.float64()}[bits]
    return Own(type_, lambda r: r.choice((*known, *known, *ends)), text, bits != 16)


def _shortest(value: float, bits: int) -> str:
    """Return the shortest text that means a float, among those of its width."""
    if bits != 32:
        return repr(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(t for t in texts if struct.pack("f", float(t)) == struct.pack("f", value))


def _truth(kind: Kind) -> Own:
    as_text = str.lower if kind.name.startswith(("Bool", "Nullable(Bool")) else _digit
    return Own(pa.bool_(), lambda r: r.random() < 0.5, lambda v: as_text(str(v)), as_text != _digit)


def _digit(text: str) -> str:
    return str(int(text == "True"))


def _text(kind: Kind, type_: pa.DataType | None = None) -> Own:
    draw = lambda r: kind.odd(r) if r.random() < 0.3 else kind.good(r)  # noqa: E731
    return Own(type_ or pa.string(), draw, str, type_ is None)


def _bytes(size: int, text: Callable[[bytes], str]) -> Own:
    return Own(pa.binary(size), lambda r: bytes(r.choices(b"abcxyz", k=size)), text, False)


def _day(form: str) -> Own:
    known = [
        "1970-01-01",
        "1969-12-31",
        "2149-06-06",
        "2149-06-07",
        "2024-02-29",
        "1900-01-01",
        "1899-12-31",
        "2299-12-31",
        "2300-01-01",
        "2500-01-01",
        "0079-08-24",
        "9999-12-31",
        "0001-01-01",
    ]
    return Own(pa.date32(), lambda r: date.fromisoformat(r.choice(known)), lambda v: v.isoformat())


_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _moment(unit: str, form: str, zone: str | None = None, *, day: bool = False) -> Own:
    """Points in time; with ``zone`` the text says that it is of UTC.

    Args:
        day: those at the begin of a day are that day.
    """
    digits = _UNITS[unit]
    known = [
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59",
        "2106-02-07 06:28:14",
        "2106-02-07 06:28:16",
        "2024-02-29 12:30:00",
        "2024-02-29 00:00:00",
        "2024-03-31 01:30:00",
        "2024-10-27 01:30:00",
        "1900-01-01 00:00:00",
        "1899-12-31 23:59:59",
        "2299-12-31 23:59:59",
        "2500-01-01 00:00:00",
        "0079-08-24 00:00:00",
        "9999-12-31 23:59:59",
    ]
    # Nanoseconds are 64 bits, and the reader of ORC makes some of all.
    if form == "orc" or unit == "ns":
        known = [text for text in known if "1900" <= text < "2262"]

    def draw(r: random.Random) -> int:
        span = datetime.fromisoformat(r.choice(known)) - _EPOCH
        seconds = span.days * 86_400 + span.seconds
        more = r.choice((0, 0, 10**digits // 2, 123 * 10 ** max(digits - 3, 0), 10**digits - 1))
        return seconds * 10**digits + (more if digits and seconds < 253_402_300_799 else 0)

    def text(value: int) -> str:
        seconds, rest = divmod(value, 10**digits)
        at = (_EPOCH + timedelta(seconds=seconds)).isoformat(" ")
        more = str(rest).rjust(digits, "0").rstrip("0") if digits else ""
        if day and not more and at.endswith(" 00:00:00"):
            return at[:10]
        return at + ("." + more if more else "") + ("Z" if zone else "")

    return Own(pa.timestamp(unit, zone), draw, text, not day)


def _seconds(bits: int) -> Own:
    """Whole seconds, which are a time of day or a longer one of up to 999 hours."""
    known = [0, 1, 59, 3600, 86_399, 86_400, 3_599_999, 3_600_000, -5, 2**31 - 1]
    known += [2**40, 2**62, -(2**63)] if bits == 64 else []

    def text(value: int) -> str:
        hours, rest = divmod(abs(value), 3600)
        return f"{'-' if value < 0 else ''}{hours:02}:{rest // 60:02}:{rest % 60:02}"

    return Own(getattr(pa, f"int{bits}")(), lambda r: r.choice(known), text)


def _time(unit: str) -> Own:
    digits = _UNITS[unit]

    def draw(r: random.Random) -> int:
        seconds = r.choice((0, 1, 45_000, 86_399))
        return seconds * 10**digits + r.choice((0, 0, 123 * 10**digits // 1000, 10**digits - 1))

    def text(value: int) -> str:
        seconds, rest = divmod(value, 10**digits)
        more = f".{rest:0{digits}}" if rest else ""
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{more}"

    return Own((pa.time32 if digits < 6 else pa.time64)(unit), draw, text)


def _bare(kind: Kind) -> str:
    name = kind.name
    for around in ("LowCardinality(", "Nullable("):
        if name.startswith(around):
            name = name.removeprefix(around).removesuffix(")")
    return name


def _own(kind: Kind, r: random.Random, form: str) -> Own | None:
    """Return a type of files whose values may become those of a kind; None for others."""
    name = _bare(kind)
    arrow = form in ("parquet", "arrow")
    if name.startswith(("Int", "UInt", "Decimal")):
        numbers = [
            _integer(64, True),
            _integer(32, True),
            _decimal(38, 4),
            _decimal(9, 2),
            _float(kind),
            _float(kind, 32),
            _text(kind),
        ]
        if arrow:
            numbers += [_integer(n, signed) for n in (8, 16, 32, 64) for signed in (False, True)]
            numbers += [_decimal(76, 10), _decimal(18, 0), _decimal(38, 38)]
        if "Int" in name:
            numbers.append(_truth(kind))
        return r.choice(numbers)
    if "Float" in name:
        floats = [_text(kind), _integer(32, True), _integer(64, True), _float(kind)]
        floats += [_float(kind, 32), _decimal(38, 4)]
        floats += [_integer(64, False)] if arrow else []
        floats += [_float(kind, 16)] if form == "arrow" else []
        return r.choice(floats)
    if name == "Bool":
        return r.choice((_truth(kind), _truth(kind), _integer(32, True), _text(kind)))
    if name in ("Date", "Date32"):
        days = [_day(form), _text(kind), _moment("us", form, day=True)]
        days += [replace(_day(form), type=pa.date64())] if form == "arrow" else []
        return r.choice(days)
    if name.startswith("DateTime"):
        units = {"avro": ("ms", "us"), "orc": ("ms", "us", "ns")}.get(form, tuple(_UNITS))
        zone = "UTC" if "UTC" not in name or r.random() < 0.3 else None
        # Files of Arrow say the zone that their writer was in; those of the others do not.
        zone = r.choice((zone, "Asia/Tokyo")) if zone and arrow else zone
        return r.choice((_moment(r.choice(units), form, zone), _text(kind)))
    if name.startswith("Time"):
        times = [_seconds(64), _seconds(32), _text(kind)]
        return r.choice([*times, *map(_time, _UNITS)] if arrow else times)
    texts = [_text(kind)] * 3
    if arrow:
        of_some = pa.dictionary(pa.int32(), pa.string())
        texts += [_text(kind, type_) for type_ in (pa.large_string(), of_some)]
    if name.startswith("FixedString("):
        size = int(name[12:-1])
        texts.append(_bytes(size, bytes.decode))
    if name == "UUID" and arrow:
        texts.append(_bytes(16, lambda v: str(uuid.UUID(bytes=v))))
    if name == "IPv6" and arrow:
        texts.append(_bytes(16, lambda v: str(ipaddress.IPv6Address(v))))
    known = name.startswith(("FixedString", "Enum")) or name in ("String", "UUID", "IPv4", "IPv6")
    return r.choice(texts) if known else None


def draw_sheet(
    r: random.Random, sheet: Any, *, modern: bool, columns: int, rows: int, form: str
) -> Any:
    """Draw columns, each with a type in the file, and rows in which any value may not fit.

    A value that does not fit stands alone in its row: the others are NULL, or fit.
    """
    known = leaves(modern=modern)
    # The reader of ORC of 24.10 refuses a NULL in a map.
    bases = ("Array", "Tuple", "Map") if modern or form != "orc" else ("Array", "Tuple")
    pairs = [
        _draw_column(r, known, form, bases, r.choice((0, 0, 0, 1, 2, 3))) for _ in range(columns)
    ]
    kinds, owns = tuple(kind for kind, _ in pairs), tuple(own for _, own in pairs)
    found, odd = [], []
    for _ in range(rows):
        place = r.randrange(columns) if r.random() < 0.85 else None
        found.append(tuple(_cell(r, *pair, odd=n == place) for n, pair in enumerate(pairs)))
        odd.append(place)
    return sheet(kinds, tuple(found), tuple(odd), owns)


def _draw_column(
    r: random.Random, known: list[Kind], form: str, bases: tuple[str, ...], depth: int
) -> tuple[Kind, Own]:
    base = r.choice(bases) if depth else ""
    if not base:
        while True:
            kind = r.choice(known)
            if (own := _own(kind, r, form)) is not None:
                return (nullable(kind) if r.random() < 0.4 and not kind.nullable else kind), own
    count = r.randint(1, 3) if base == "Tuple" else 1
    inner = [_draw_column(r, known, form, bases, depth - 1) for _ in range(count)]
    if base == "Map":
        key = (string(), Own(pa.string(), lambda r: r.choice("abcdefg"), str))
        if form in ("parquet", "arrow") and r.random() < 0.3:
            key = (integer(64, True), Own(pa.int64(), lambda r: r.randint(-9, 2**40), str))
        inner.insert(0, key)
    names = tuple("xyz"[:count]) if base == "Tuple" else ()
    types = [own.type for _, own in inner]
    if base == "Tuple":
        made = pa.struct([pa.field(n, t) for n, t in zip(names, types, strict=True)])
    elif base == "Map":
        made = pa.map_(*types)
    else:
        large = form in ("parquet", "arrow") and r.random() < 0.2
        made = (pa.large_list if large else pa.list_)(types[0])
    kind = nested(base, tuple(kind for kind, _ in inner), names)
    return kind, Own(made, _none, str, parts=tuple(own for _, own in inner))


def _none(_: random.Random) -> Any:
    raise AssertionError("a nested type has no values of its own")


def _cell(r: random.Random, kind: Kind, own: Own, *, odd: bool) -> Cell:
    if kind.base == "Tuple":
        place = r.randrange(len(kind.parts)) if odd else -1
        pairs = zip(kind.parts, own.parts, strict=True)
        return together([_cell(r, *pair, odd=n == place) for n, pair in enumerate(pairs)])
    if kind.base:
        count = 1 if odd else r.randint(0, 2)
        inner = [_cell(r, kind.parts[-1], own.parts[-1], odd=odd) for _ in range(count)]
        if kind.base == "Array":
            return together(inner)
        keys: dict[Any, Cell] = {own.parts[0].draw(r): cell for cell in inner}
        return together([together([Cell(k, k, True), cell]) for k, cell in keys.items()])
    if odd and r.random() < 0.1:
        return Cell(None, None if kind.nullable else REFUSED, False)
    for _ in range(200):
        tree = own.draw(r)
        value = judged(kind.judge, own.text(tree))
        if odd or (value is not REFUSED and _is_plain(kind, own, tree, value)):
            return Cell(tree, value, not odd and own.sure)
    # Nothing of this type of files fits: NULL, or the whole row is one that may be refused.
    return Cell(None, None if kind.nullable else REFUSED, False)


def _is_plain(kind: Kind, own: Own, tree: Any, value: Any) -> bool:
    """Tell whether a value is written in the only way there is, and is the same number."""
    if isinstance(tree, str):
        odd = ("E" in tree and "Decimal" in kind.name) or tree in ("inf", "-inf", "nan")
        text = kind.name.rstrip(")").endswith("String") or isinstance(value, bool)
        return not odd and (text or bool(str(value) == tree))
    if isinstance(value, float):
        return value == value and Decimal(value) == Decimal(own.text(tree))
    return isinstance(tree, bool | bytes) or "e" not in str(tree)


def written(sheet: Any, form: str, rows: Sequence[int]) -> bytes:
    """Return a file with some rows."""
    owns: tuple[Own, ...] = sheet.owns
    names = [f"c{n}" for n in range(len(owns))]
    columns = [pa.array(list(rows), pa.int64())]
    fields = [pa.field("id", pa.int64(), nullable=False)]
    for n, (kind, own) in enumerate(zip(sheet.kinds, owns, strict=True)):
        values = [_plain(kind, sheet.rows[row][n].tree) for row in rows]
        columns.append(pa.array(values, own.type))
        fields.append(pa.field(names[n], own.type))
    table = pa.table(columns, pa.schema(fields))
    out = io.BytesIO()
    if form == "parquet":
        # The same for the same columns: pages and values may be written in many ways.
        r = random.Random(" ".join(kind.name for kind in sheet.kinds))
        pa.parquet.write_table(
            table, out, use_dictionary=r.random() < 0.5, data_page_version=r.choice(("1.0", "2.0")),
            store_decimal_as_integer=r.random() < 0.5, store_schema=r.random() < 0.8,
            compression=r.choice(("none", "snappy", "gzip", "zstd", "lz4", "brotli")),
        )  # fmt: skip
    elif form == "orc":
        pa.orc.write_table(table, out)
    elif form == "arrow":
        with pa.ipc.new_file(out, table.schema) as file:
            file.write_table(table)
    else:
        _write_avro(table, out)
    return out.getvalue()


def _plain(kind: Kind, tree: Any) -> Any:
    if tree is None:
        return None
    if kind.base == "Tuple":
        pairs = zip(kind.names, kind.parts, tree, strict=True)
        return {name: _plain(part, one) for name, part, one in pairs}
    if kind.base == "Array":
        return [_plain(kind.parts[0], one) for one in tree]
    if kind.base == "Map":
        return [(key, _plain(kind.parts[1], one)) for key, one in tree]
    return tree


def _write_avro(table: pa.Table, out: io.BytesIO) -> None:
    import fastavro

    number = iter(range(1_000_000))

    def schema(type_: pa.DataType) -> Any:
        if pa.types.is_map(type_):
            return {"type": "map", "values": ["null", schema(type_.item_type)]}
        if pa.types.is_fixed_size_binary(type_):
            return {"type": "fixed", "name": f"f{next(number)}", "size": type_.byte_width}
        if pa.types.is_list(type_):
            return {"type": "array", "items": ["null", schema(type_.value_type)]}
        if pa.types.is_struct(type_):
            inner = [{"name": f.name, "type": ["null", schema(f.type)]} for f in type_]
            return {"type": "record", "name": f"s{next(number)}", "fields": inner}
        if pa.types.is_decimal(type_):
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": type_.precision,
                "scale": type_.scale,
            }
        if pa.types.is_date(type_):
            return {"type": "int", "logicalType": "date"}
        if pa.types.is_timestamp(type_):
            unit = {"ms": "millis", "us": "micros"}[type_.unit]
            return {"type": "long", "logicalType": f"timestamp-{unit}"}
        same = {"int64": "long", "int32": "int"}
        return same.get(str(type_), str(type_).replace("bool", "boolean"))

    def value(one: Any, type_: pa.DataType) -> Any:
        if one is None:
            return None
        if pa.types.is_map(type_):
            return {key: value(v, type_.item_type) for key, v in one}
        if pa.types.is_list(type_):
            return [value(v, type_.value_type) for v in one]
        if pa.types.is_struct(type_):
            return {key: value(v, type_.field(key).type) for key, v in one.items()}
        return one.replace(tzinfo=UTC) if isinstance(one, datetime) else one

    fields = []
    for field in table.schema:
        found = schema(field.type)
        plain = not field.nullable or (
            isinstance(found, dict) and found["type"] in ("array", "record", "map")
        )
        fields.append({"name": field.name, "type": found if plain else ["null", found]})
    record = {"type": "record", "name": "row", "fields": fields}
    own = pa.struct(table.schema)
    fastavro.writer(
        out, fastavro.parse_schema(record), [value(row, own) for row in table.to_pylist()]
    )
