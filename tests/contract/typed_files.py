"""Values of formats with types (Parquet, Arrow, ORC, Avro), which columns of other types take.

A column of a file has a type of its own, mostly a wider one than that of the table; the values are
drawn at the ends of both. What may be stored is judged by :mod:`contract.judged_values`: the same
number, the same day, the same point in time.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from contract.judged_values import REFUSED, Cell, Kind, judged, leaves, nested, nullable, string

FORMATS = ("parquet", "arrow", "orc", "avro")
_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Own:
    """The type of values in a file.

    Attributes:
        draw: a value, sometimes one that only this type holds.
        text: the value as text, for the judge.
    """

    type: pa.DataType
    draw: Callable[[random.Random], Any]
    text: Callable[[Any], str]


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

    return Own(pa.decimal128(precision, scale), draw, lambda v: format(v, "f"))


def _float(kind: Kind) -> Own:
    # A decimal of a float is that of its shortest text, an integer all of it.
    exact = "Decimal" not in kind.name
    return Own(
        pa.float64(),
        lambda r: r.choice(
            (0.5, 1.0, -3.0, 255.0, 256.0, 1e300, 0.1, 16777217.0, -1.5, 2.0**53, 2.0**63, 1e19)
        ),
        lambda v: format(Decimal(v if exact else repr(v)), "f"),
    )


def _text(kind: Kind) -> Own:
    return Own(pa.string(), lambda r: kind.odd(r) if r.random() < 0.3 else kind.good(r), str)


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


def _moment(unit: str, form: str) -> Own:
    step = {"ms": timedelta(milliseconds=1), "us": timedelta(microseconds=1)}[unit]
    known = [
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59",
        "2106-02-07 06:28:14",
        "2106-02-07 06:28:16",
        "2024-02-29 12:30:00",
        "1900-01-01 00:00:00",
        "1899-12-31 23:59:59",
        "2299-12-31 23:59:59",
        "2500-01-01 00:00:00",
        "0079-08-24 00:00:00",
        "9999-12-31 23:59:59",
    ]
    if form == "orc":  # whose reader makes nanoseconds, in 64 bits, of all
        known = [text for text in known if "1900" <= text < "2262"]

    def draw(r: random.Random) -> datetime:
        at = datetime.fromisoformat(r.choice(known))
        return at + r.choice((0, 0, 500, 123)) * step if at.year < 9999 else at

    def text(value: datetime) -> str:
        more = f"{value.microsecond:06}".rstrip("0")
        return value.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + ("." + more if more else "")

    return Own(pa.timestamp(unit), draw, text)


def _seconds(bits: int) -> Own:
    """Whole seconds, which are a time of day or a longer one of up to 999 hours."""
    known = [0, 1, 59, 3600, 86_399, 86_400, 3_599_999, 3_600_000, -5, 2**31 - 1]
    known += [2**40, 2**62, -(2**63)] if bits == 64 else []

    def text(value: int) -> str:
        hours, rest = divmod(abs(value), 3600)
        return f"{'-' if value < 0 else ''}{hours:02}:{rest // 60:02}:{rest % 60:02}"

    return Own(getattr(pa, f"int{bits}")(), lambda r: r.choice(known), text)


def _time() -> Own:
    known = ["00:00:00", "12:30:00", "23:59:59", "12:30:00.123", "12:30:00.123456"]
    return Own(pa.time64("us"), lambda r: time.fromisoformat(r.choice(known)), time.isoformat)


def _own(kind: Kind, r: random.Random, form: str) -> Own | None:
    """Return a type of files whose values may become those of a kind; None for others."""
    name = kind.name.removeprefix("Nullable(").rstrip(")")
    if name.startswith(("Int", "UInt", "Decimal")):
        numbers = [
            _integer(64, True),
            _integer(32, True),
            _decimal(38, 4),
            _float(kind),
            _text(kind),
        ]
        if form in ("parquet", "arrow"):
            numbers += [_integer(64, False), _integer(16, False), _integer(8, True)]
        return r.choice(numbers)
    if name.startswith("Float"):
        return r.choice((_text(kind), _integer(32, True), _integer(64, True)))
    if name in ("Date", "Date32"):
        return r.choice((_day(form), _text(kind)))
    if name.startswith("DateTime") and "UTC" in name:
        return r.choice(
            (_moment("us" if form == "avro" else r.choice(("ms", "us")), form), _text(kind))
        )
    if name.startswith("DateTime"):
        return _text(kind)
    if name.startswith("Time"):
        times = [_seconds(64), _seconds(32), _text(kind)]
        return r.choice([*times, _time()] if form in ("parquet", "arrow") else times)
    texts = name.startswith("FixedString") or name in ("String", "UUID", "IPv4", "IPv6")
    return _text(kind) if texts else None


def draw_sheet(
    r: random.Random, sheet: Any, *, modern: bool, columns: int, rows: int, form: str
) -> Any:
    """Draw columns, each with a type in the file, and rows in which any value may not fit.

    A value that does not fit stands alone in its row: the others are NULL, or fit.
    """
    known = leaves(modern=modern)
    kinds, owns = [], []
    while len(kinds) < columns:
        kind = r.choice(known)
        own = _own(kind, r, form)
        if own is None:
            continue
        kind = nullable(kind) if r.random() < 0.4 else kind
        # The reader of ORC of 24.10 refuses a NULL in a map.
        bases = ("Array", "Tuple", "Map") if modern or form != "orc" else ("Array", "Tuple")
        for base in r.sample(bases, r.choice((0, 0, 1, 2))):
            parts = (string(), kind) if base == "Map" else (kind,)
            kind = nested(base, parts, ("x",) if base == "Tuple" else ())
        kinds.append(kind)
        owns.append(own)
    found, odd = [], []
    for _ in range(rows):
        place = r.randrange(columns) if r.random() < 0.85 else None
        found.append(
            tuple(
                _cell(r, kind, own, odd=n == place)
                for n, (kind, own) in enumerate(zip(kinds, owns, strict=True))
            )
        )
        odd.append(place)
    return sheet(tuple(kinds), tuple(found), tuple(odd), tuple(owns))


def _cell(r: random.Random, kind: Kind, own: Own, *, odd: bool) -> Cell:
    if kind.base:
        inner = [
            _cell(r, kind.parts[-1], own, odd=odd and n == 0)
            for n in range(1 if kind.base == "Tuple" or odd else r.randint(0, 2))
        ]
        wrong = any(cell.value is REFUSED for cell in inner)
        values = REFUSED if wrong else [cell.value for cell in inner]
        trees = [cell.tree for cell in inner]
        if kind.base == "Map":
            trees = [(f"k{n}", tree) for n, tree in enumerate(trees)]
            values = values if wrong else [(f"k{n}", v) for n, v in enumerate(values)]
        return Cell(trees, values, all(cell.plain for cell in inner))
    if odd and r.random() < 0.1:
        return Cell(None, None if kind.nullable else REFUSED, False)
    for _ in range(200):
        tree = own.draw(r)
        value = judged(kind.judge, own.text(tree))
        if odd or (value is not REFUSED and _is_plain(kind, own, tree, value)):
            return Cell(tree, value, not odd)
    # Nothing of this type of files fits: NULL, or the whole row is one that may be refused.
    return Cell(None, None if kind.nullable else REFUSED, False)


def _is_plain(kind: Kind, own: Own, tree: Any, value: Any) -> bool:
    """Tell whether a value is written in the only way there is, and is the same number."""
    if own.type == pa.string():
        odd = "E" in tree and "Decimal" in kind.name
        return not odd and (kind.name.endswith("String") or bool(str(value) == tree))
    if isinstance(value, float):
        return Decimal(value) == Decimal(own.text(tree))
    return "e" not in str(tree)


def written(sheet: Any, form: str, rows: Sequence[int]) -> bytes:
    """Return a file with some rows."""
    owns: tuple[Own, ...] = sheet.owns
    names = [f"c{n}" for n in range(len(owns))]
    columns = [pa.array(list(rows), pa.int64())]
    fields = [pa.field("id", pa.int64(), nullable=False)]
    for n, (kind, own) in enumerate(zip(sheet.kinds, owns, strict=True)):
        type_ = _arrow(kind, own)
        columns.append(pa.array([_plain(kind, sheet.rows[row][n].tree) for row in rows], type_))
        fields.append(pa.field(names[n], type_))
    table = pa.table(columns, pa.schema(fields))
    out = io.BytesIO()
    if form == "parquet":
        pa.parquet.write_table(table, out)
    elif form == "orc":
        pa.orc.write_table(table, out)
    elif form == "arrow":
        with pa.ipc.new_file(out, table.schema) as file:
            file.write_table(table)
    else:
        _write_avro(table, out)
    return out.getvalue()


def _arrow(kind: Kind, own: Own) -> pa.DataType:
    if kind.base == "Array":
        return pa.list_(_arrow(kind.parts[0], own))
    if kind.base == "Map":
        return pa.map_(pa.string(), _arrow(kind.parts[1], own))
    if kind.base == "Tuple":
        return pa.struct([pa.field("x", _arrow(kind.parts[0], own))])
    return own.type


def _plain(kind: Kind, tree: Any) -> Any:
    if kind.base == "Tuple":
        return {"x": _plain(kind.parts[0], tree[0])}
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
        if pa.types.is_list(type_):
            return {"type": "array", "items": ["null", schema(type_.value_type)]}
        if pa.types.is_struct(type_):
            inner = {"name": "x", "type": ["null", schema(type_[0].type)]}
            return {"type": "record", "name": f"s{next(number)}", "fields": [inner]}
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
            return {"type": "long", "logicalType": "timestamp-micros"}
        return {"int64": "long", "int32": "int", "double": "double", "string": "string"}[str(type_)]

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
