"""Values of every type as files write them, each with the one value that may be stored.

The judge is Python's own: ``int``, ``decimal``, ``struct``, ``datetime``, ``zoneinfo``, ``uuid``
and ``ipaddress``. A value is exactly what is written, or it has to be refused (:data:`REFUSED`).
Types are drawn up to three brackets deep; values are drawn at the ends of their range, one beyond,
and in odd spellings. Everything comes from one ``random.Random``, so a seed repeats it.
"""

from __future__ import annotations

import ipaddress
import json
import random
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

REFUSED = object()
"""Stands for the value of what no value may be made of."""

WIDE = Context(prec=400)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_BITS = (8, 16, 32, 64, 128, 256)
# The ends of each width of Decimal, and scales of none, some and all digits.
_DECIMALS = (
    (1, 0), (9, 2), (9, 9), (10, 2), (18, 0), (18, 18), (19, 4), (38, 10), (38, 38), (39, 1),
    (76, 5), (76, 76),
)  # fmt: skip
# Offsets of half an hour and of quarters, summer in the south, and summer time of half an hour.
_ZONES = ("America/New_York", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe")
_BASE = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Cell:
    """One value as it is written.

    Attributes:
        tree: texts in lists (arrays and tuples) and lists of pairs (maps); None for NULL.
        value: what has to be stored, in the same brackets; REFUSED.
        plain: written as the engine itself would write it: may not be refused.
    """

    tree: Any
    value: Any
    plain: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """A type, its values and how they are written.

    Attributes:
        name: the engine's. ``parts``: of nested types.
        good, odd: draw a text that fits, and one that may not.
        judge: gives the value of a text, or raises.
        quoted: nested texts have quotes.
    """

    name: str
    good: Callable[[random.Random], str]
    odd: Callable[[random.Random], str]
    judge: Callable[[str], Any]
    quoted: bool
    base: str = ""
    parts: tuple[Kind, ...] = ()
    names: tuple[str, ...] = ()
    nullable: bool = False


def judged(judge: Callable[[str], Any], text: str) -> Any:
    """Return the value of a text; REFUSED where it has none."""
    try:
        return judge(text)
    except (ValueError, ArithmeticError, KeyError):
        return REFUSED


# --- types without brackets ----------------------------------------------------------------------


def _whole(low: int, high: int) -> Callable[[str], int]:
    def judge(text: str) -> int:
        number = Decimal(text)
        if number != WIDE.to_integral_value(number) or not low <= number <= high:
            raise ValueError(text)
        return int(number)

    return judge


def integer(bits: int, signed: bool) -> Kind:
    low = -(2 ** (bits - 1)) if signed else 0
    high = low + 2**bits - 1

    def good(r: random.Random) -> str:
        near = r.choice((low, high, 0, r.randint(low, high), r.randint(0, 100)))
        return str(near)

    def odd(r: random.Random) -> str:
        beyond = (
            low - 1,
            high + 1,
            high + 2,
            2**64 + 5,
            2**63,
            -(2**63) - 1,
            high + 2**bits,
            2**128 + 7,
            2**256 + 3,
            10 ** r.randint(18, 90),
            -(10 ** r.randint(18, 90)),
        )
        spelled = (
            "",
            "007",
            "+5",
            "1.0",
            "1.5",
            "1e2",
            "-",
            "--5",
            "5x",
            "0x1",
            " 5",
            "1_0",
            "nan",
            "9007199254740993.0",
            "true",
            "-0",
            "12345678901234567.5",
            "1e-400",
        )
        return r.choice((str(r.choice(beyond)), r.choice(spelled)))

    return Kind(f"{'' if signed else 'U'}Int{bits}", good, odd, _whole(low, high), False)


def floating(bits: int) -> Kind:
    def nearest(text: str) -> float:
        if text in ("inf", "-inf", "nan"):  # written as such
            return float(text)
        if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) is None:
            raise ValueError(text)
        value = float(text)
        if bits == 32:
            # Not through Float64, which would round twice.
            value = _nearest_float(Decimal(text))
        if value in (float("inf"), float("-inf")):
            raise ValueError(text)
        return value

    def good(r: random.Random) -> str:
        if bits == 32:
            return repr(struct.unpack("f", struct.pack("f", r.uniform(-1e6, 1e6)))[0])
        return r.choice(
            (
                "1.239",
                "0.1",
                "-0.5",
                repr(r.uniform(-1e15, 1e15)),
                repr(r.random()),
                "3.0",
                "9007199254740991",
            )
        )

    def odd(r: random.Random) -> str:
        return r.choice(
            (
                "1e400",
                "-1e400",
                "1e39",
                "1e308",
                "5e-324",
                "1e-400",
                "",
                "1.5x",
                "abc",
                "16777217",
                "0.30000000000000004",
                "3.5215257120407011",
                "-0.0",
                "1.2.3",
                "340282356779733661637539395458142568447",
                "-",
                "1e",
                "007.5",
                "inf",
                "-inf",
                "nan",
                "123456789012345678901234567890.123456789",
            )
        )

    return Kind(f"Float{bits}", good, odd, nearest, False)


def _nearest_float(number: Decimal) -> float:
    """Return the Float32 nearest to a number; ties go to the even one."""
    try:
        guess = struct.unpack("f", struct.pack("f", float(number)))[0]
    except OverflowError:
        return float("inf")
    bits = struct.unpack("i", struct.pack("f", guess))[0]
    near = [guess]
    near += [
        struct.unpack("f", struct.pack("i", other))[0]
        for other in (bits - 1, bits + 1)
        if 0 <= other & 0x7FFFFFFF <= 0x7F800000 and -(2**31) <= other < 2**31
    ]
    finite = [v for v in near if v == v and abs(v) != float("inf")]
    best = min(abs(WIDE.subtract(Decimal(v), number)) for v in finite)
    closest = [v for v in finite if abs(WIDE.subtract(Decimal(v), number)) == best]
    even = [v for v in closest if struct.unpack("i", struct.pack("f", v))[0] % 2 == 0]
    return (
        guess if guess in closest and (len(closest) == 1 or guess in even) else (even or closest)[0]
    )


def decimal(precision: int, scale: int) -> Kind:
    def judge(text: str) -> Decimal:
        if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) is None:
            raise ValueError(text)
        number = Decimal(text)
        scaled = number.scaleb(scale, WIDE)
        whole = WIDE.to_integral_value(scaled)
        if scaled != whole or WIDE.abs(scaled) >= 10**precision:
            raise ValueError(text)
        return number

    def plain(number: int) -> str:
        digits = str(abs(number)).rjust(scale + 1, "0")
        whole = digits[: len(digits) - scale] + ("." + digits[-scale:] if scale else "")
        return ("-" if number < 0 else "") + whole

    def good(r: random.Random) -> str:
        most = 10**precision - 1
        near = r.randint(0, min(999, most))
        return plain(r.choice((most, -most, 0, r.randint(-most, most), near)))

    def odd(r: random.Random) -> str:
        over = plain(
            r.choice(
                (
                    10**precision,
                    -(10**precision),
                    10 ** (precision + 2),
                    2**63,
                    10 ** r.randint(precision, 90),
                )
            )
        )
        more = plain(r.randint(0, 9)) + ("." if not scale else "") + "9"
        return r.choice(
            (
                over,
                more,
                "1e2",
                "1E+2",
                "",
                "-",
                ".",
                "1.2.3",
                "5.",
                ".5",
                "+1",
                "007",
                "1e-1",
                "nan",
                "abc",
                "1.50000000000000000000",
                "12345678901234567.89",
            )
        )

    return Kind(f"Decimal({precision}, {scale})", good, odd, judge, False)


def day(name: str, first: date, last: date) -> Kind:
    def judge(text: str) -> str:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text) is None:
            raise ValueError(text)
        if not first <= date.fromisoformat(text) <= last:
            raise ValueError(text)
        return text

    def good(r: random.Random) -> str:
        span = (last - first).days
        return (first + timedelta(r.choice((0, span, r.randint(0, span))))).isoformat()

    def odd(r: random.Random) -> str:
        beyond = [d.isoformat() for d in (_shift(first, -1), _shift(last, 1)) if d]
        return r.choice(
            (
                *beyond,
                "2024-02-31",
                "2023-02-29",
                "2024-02-29",
                "0079-08-24",
                "2500-01-01",
                "9999-12-31",
                "0001-01-01",
                "2024-1-5",
                "20240105",
                "2024-13-01",
                "",
                "2024-01-01 00:00:00",
                "0000-00-00",
                "1700000000",
                "19000",
                "2200-01-01",
            )
        )

    return Kind(name, good, odd, judge, True)


def _shift(day_: date, days: int) -> date | None:
    try:
        return day_ + timedelta(days)
    except OverflowError:
        return None


def moment(name: str, digits: int, zone: str, first: datetime, last: datetime) -> Kind:
    own = ZoneInfo(zone)

    def judge(text: str) -> str:
        found = re.fullmatch(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d*))?(Z?)", text)
        if found is None:
            if name.startswith("DateTime(") and re.fullmatch(r"\d{1,10}", text):
                at = datetime.fromtimestamp(_whole(0, 2**32 - 1)(text), own)
                return at.strftime("%Y-%m-%d %H:%M:%S")
            raise ValueError(text)
        fraction = (found[2] or "").rstrip("0")
        if len(fraction) > digits:
            raise ValueError(text)
        written = datetime.fromisoformat(found[1].replace("T", " "))
        if found[3]:
            written = written.replace(tzinfo=UTC).astimezone(own).replace(tzinfo=None)
        at = written.replace(tzinfo=own).astimezone(UTC)
        if at.astimezone(own).replace(tzinfo=None) != written:
            raise ValueError(text)  # an hour that clocks leave out
        # Seconds are counted in UTC; days of older releases begin and end where the clock is.
        within = written.replace(tzinfo=UTC) if first.year == 1900 else at
        if within < first or (at if digits == 9 else within) > last:
            raise ValueError(text)
        more = "." + fraction.ljust(digits, "0") if digits else ""
        return f"{written:%Y-%m-%d %H:%M:%S}".rjust(19, "0") + more

    def good(r: random.Random) -> str:
        span = int((min(last, _BASE + timedelta(365 * 60)) - max(first, _BASE)).total_seconds())
        at = max(first, _BASE) + timedelta(seconds=r.randint(86_400, span - 86_400))
        text = at.astimezone(own).strftime("%Y-%m-%d %H:%M:%S")
        more = "." + "".join(r.choices("0123456789", k=digits)) if digits else ""
        text += more if r.random() < 0.7 else ""
        return text if judged(judge, text) is not REFUSED else "2024-01-01 00:00:00"

    def odd(r: random.Random) -> str:
        return r.choice(
            (
                "2024-01-01 24:00:00",
                "2016-12-31 23:59:60",
                "2024-01-01 10:00:61",
                "2024-02-30 10:00:00",
                "2024-02-29 10:00:00",
                "2024-01-01 10:00:00." + "1" * (digits + 1),
                "1700000000",
                "1700000000000",
                "2200-01-01 00:00:00",
                "2106-02-07 06:28:15",
                "2106-02-07 06:28:16",
                "1969-12-31 23:59:59",
                "0079-08-24 00:00:00",
                "2500-01-01 00:00:00",
                "1899-12-31 23:59:59",
                "9999-12-31 23:59:59",
                "2299-12-31 23:59:59",
                "2024-03-31 02:30:00",
                "2024-10-27 02:30:00",
                "2024-03-31 01:30:00",
                "2024-01-01",
                "",
                "2024-01-01T10:00:00",
                "2024-01-01T10:00:00Z",
                "2024-01-01 10:00",
                "1900-01-01 00:00:00",
                "2262-04-11 23:47:17",
                "now",
                "1960-01-01 00:00:00.5",
                "2024-01-01 10:00:00.000000000",
                "2024-01-01 10:00:00+02:00",
            )
        )

    return Kind(name, good, odd, judge, True)


def time_of_day(name: str, digits: int) -> Kind:
    def judge(text: str) -> str:
        found = re.fullmatch(r"(-?)(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.(\d*))?", text)
        if found is None or len((found[5] or "").rstrip("0")) > digits:
            raise ValueError(text)
        more = "." + (found[5] or "").rstrip("0").ljust(digits, "0") if digits else ""
        return f"{found[1]}{int(found[2]):02}:{found[3]}:{found[4]}{more}"

    def good(r: random.Random) -> str:
        text = f"{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"
        return text + ("." + "".join(r.choices("0123456789", k=digits)) if digits else "")

    def odd(r: random.Random) -> str:
        return r.choice(
            (
                "12:60:00",
                "12:30:00." + "1239"[: digits + 1],
                "12:30",
                "24:00:00",
                "1:2:3",
                "-12:30:00",
                "999:59:59",
                "1000:00:00",
                "12:30:61",
                "",
                "45000",
                "25:00:00",
                "12:30:00Z",
                "-0:00:01",
            )
        )

    return Kind(name, good, odd, judge, True)


def string() -> Kind:
    letters = "ab'\"\\,;:[](){}\t 0é漢\U0001f600N"

    def good(r: random.Random) -> str:
        return r.choice(
            (
                "a",
                "",
                "NULL",
                "it's",
                "a\\'b",
                "c\\\\d",
                "e','f",
                "[1,2]",
                "null",
                "007",
                "x" * 70,
                "".join(r.choices(letters, k=r.randint(1, 9))),
                "\\N x",
            )
        )

    return Kind("String", good, good, str, True)


def fixed(size: int) -> Kind:
    def judge(text: str) -> str:
        data = text.encode()
        if len(data) > size:
            raise ValueError(text)
        return data.ljust(size, b"\0").decode()

    return Kind(
        f"FixedString({size})",
        lambda r: "".join(r.choices("abcxyz", k=size)),
        lambda r: r.choice(("a" * (size + 1), "ab", "é" * size)),
        judge,
        True,
    )


def boolean() -> Kind:
    known = {
        "true": True,
        "false": False,
        "1": True,
        "0": False,
        "yes": True,
        "no": False,
        "True": True,
        "False": False,
        "TRUE": True,
        "FALSE": False,
    }
    return Kind(
        "Bool",
        lambda r: r.choice(("true", "false")),
        lambda r: r.choice(("1", "0", "yes", "2", "tru", "", "TRUE", "-1", "0.5")),
        lambda text: known[text],
        False,
    )


def enumeration() -> Kind:
    known = {"a": "a", "it's": "it's", "1": "1"}
    return Kind(
        "Enum8('a' = 1, 'it\\'s' = 2, '1' = 3)",
        lambda r: r.choice(list(known)),
        lambda r: r.choice(("2", "3", "b", "", "A", "a ")),
        lambda text: known[text],
        True,
    )


def wide_enumeration() -> Kind:
    names = ("", "a,b", "c (d)", "e=1", "ü")
    known = {name: name for name in names}
    listed = ", ".join(f"'{name}' = {n * 300 - 500}" for n, name in enumerate(names))
    return Kind(
        f"Enum16({listed})",
        lambda r: r.choice(names[1:]),  # the empty one is a NULL of text
        lambda r: r.choice(("-500", "a", "a, b", "Ü", "c(d)", " ü")),
        lambda text: known[text],
        True,
    )


def dictionary(kind: Kind) -> Kind:
    """Return a kind whose values a column stores once each, and their numbers."""
    return replace(kind, name=f"LowCardinality({kind.name})")


def brain_float() -> Kind:
    """Return BFloat16: the engine cuts the last 16 bits of a Float32 off, and does not round."""
    single = floating(32)

    def judge(text: str) -> float:
        bits = struct.unpack("I", struct.pack("f", single.judge(text)))[0]
        return float(struct.unpack("f", struct.pack("I", bits & 0xFFFF0000))[0])

    return replace(single, name="BFloat16", judge=judge)


def identifier() -> Kind:
    def judge(text: str) -> str:
        if len(text) != 36:
            raise ValueError(text)
        return str(uuid.UUID(text))

    text = "61f0c404-5cb3-11e7-907b-a6006ad3dba0"
    return Kind(
        "UUID",
        lambda r: str(uuid.UUID(int=r.getrandbits(128))),
        lambda r: r.choice(
            (
                text.upper(),
                text[:-1],
                text[:-1] + "z",
                text.replace("-", ""),
                "",
                "{" + text[1:-1] + "}",
                text + "0",
            )
        ),
        judge,
        True,
    )


def address(version: int) -> Kind:
    if version == 4:
        return Kind(
            "IPv4",
            lambda r: str(ipaddress.IPv4Address(r.getrandbits(32))),
            lambda r: r.choice(
                (
                    "1.2.3.256",
                    "01.2.3.4",
                    "1.2.3",
                    "",
                    "1.2.3.4.5",
                    "::1",
                    "16909060",
                    "1.2.3.4 ",
                    "0x1.2.3.4",
                )
            ),
            lambda text: str(ipaddress.IPv4Address(text.strip())),
            True,
        )

    def judge(text: str) -> str:
        if "%" in text:  # a zone, which Python knows
            raise ValueError(text)
        return str(ipaddress.IPv6Address(text))

    return Kind(
        "IPv6",
        lambda r: str(ipaddress.IPv6Address(r.getrandbits(128))),
        lambda r: r.choice(
            (
                "2001:db8:::1",
                "::ffff:1.2.3.4",
                "1:2",
                "::1",
                "",
                "12345::",
                "::1%eth0",
                "1:2:3:4:5:6:7:8:9",
                "2001:DB8::1",
                "g::1",
                "::",
            )
        ),
        judge,
        True,
    )


def leaves(*, modern: bool) -> list[Kind]:
    """Return all types without brackets; ``modern``: as of 26.7, with all years, and times."""
    first, last = (
        (date(1, 1, 1), date(9999, 12, 31)) if modern else (date(1900, 1, 1), date(2299, 12, 31))
    )
    start, end = (datetime(d.year, d.month, d.day, tzinfo=UTC) for d in (first, last))
    end += timedelta(hours=23, minutes=59, seconds=59)
    seconds = _BASE + timedelta(seconds=2**32 - 1)
    nano = (
        datetime(1678 if modern else 1900, 1, 1, tzinfo=UTC),
        datetime(2262, 4, 11, 23, 47, 16, tzinfo=UTC),
    )
    kinds = [integer(bits, signed) for bits in _BITS for signed in (False, True)]
    kinds += [floating(32), floating(64), boolean(), string(), enumeration(), wide_enumeration()]
    kinds += [fixed(size) for size in (1, 3, 16)]
    kinds += [dictionary(kind) for kind in (string(), nullable(string()), fixed(16))]
    kinds += [decimal(precision, scale) for precision, scale in _DECIMALS]
    kinds += [identifier(), address(4), address(6)]
    kinds += [day("Date", date(1970, 1, 1), date(2149, 6, 6)), day("Date32", first, last)]
    for zone in ("UTC", "Europe/Berlin"):
        kinds.append(moment(f"DateTime('{zone}')", 0, zone, _BASE, seconds))
        kinds.append(moment(f"DateTime64(3, '{zone}')", 3, zone, start, end))
    for zone in _ZONES:
        kinds.append(moment(f"DateTime('{zone}')", 0, zone, _BASE, seconds))
    for digits in range(10):
        zone = ("UTC", *_ZONES)[digits % (1 + len(_ZONES))]
        # Ticks are 64 bits: of eight digits until 4892.
        most = _BASE + timedelta(seconds=(2**63 - 1) // 10**digits) if digits > 7 else end
        ends = nano if digits == 9 else (start, min(end, most))
        kinds.append(moment(f"DateTime64({digits}, '{zone}')", digits, zone, *ends))
    kinds.append(moment("DateTime64(9, 'UTC')", 9, "UTC", *nano))
    kinds.append(moment("DateTime64(0, 'UTC')", 0, "UTC", start, end))
    if modern:
        kinds += [
            time_of_day("Time", 0),
            *(time_of_day(f"Time64({n})", n) for n in (0, 1, 3, 6, 9)),
        ]
        kinds.append(brain_float())
    return kinds


# --- types with brackets -------------------------------------------------------------------------


def variant() -> Kind:
    """Return a Variant: a text is the first of its types that it fits exactly, and NULL is one."""

    def judge(text: str) -> Any:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if re.fullmatch(r"-?(0|[1-9]\d*)", text) and -(2**63) <= int(text) < 2**63:
            return int(text)
        return text

    def good(r: random.Random) -> str:
        return r.choice(("5", "-7", "9223372036854775807", "2024-02-29", "a", "true", "x y"))

    def odd(r: random.Random) -> str:
        words = ("2024-02-31", "007", "+1", "9223372036854775808", "1.5", "1e2", "", "TRUE", "-")
        return r.choice((*words, "2200-01-01", "2024-2-1", "99999999999999999999999"))

    return Kind("Variant(Bool, Date, Int64, String)", good, odd, judge, True, nullable=True)


def dynamic() -> Kind:
    """Return a Dynamic: numbers of JSON are integers or floats, what has quotes stays text."""

    def judge(text: str) -> Any:
        if text in ("true", "false"):
            return text == "true"
        if re.fullmatch(r"-?(0|[1-9]\d*)", text):
            return int(text) if -(2**63) <= int(text) < 2**64 else text
        if _NUMBER.fullmatch(text) is None:
            return text
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise ValueError(text)
        return value

    def good(r: random.Random) -> str:
        return r.choice(("5", "-7", "9223372036854775807", "2024-02-29", "a", "true", "1.5", "x y"))

    def odd(r: random.Random) -> str:
        numbers = ("1e400", "-1e999", "1e2", "18446744073709551615", "9" * 30, "5e-324", "-0.5")
        return r.choice((*numbers, "2024-02-31", "007", "+1", "", "inf", "NULL", "nan", "1e", "-"))

    return Kind("Dynamic", good, odd, judge, False, nullable=True)


def objects(r: random.Random, known: list[Kind], *, whole: bool) -> Kind:
    """Return a JSON whose paths have types, some of them a level deeper.

    Args:
        whole: bad rows of the file are left out.
    """
    paths = r.sample(("p", "q", "o.x", "o.y.z"), r.randint(1, 3))
    parts = []
    for _ in paths:
        depth = r.choice((0, 0, 1, 2))
        # Long decimals are read in full only where no brackets are around them; beside a bad row
        # one that is no Float64 is left out, too.
        taken = [k for k in known if not (depth or whole) or "Decimal" not in k.name]
        taken = [kind for kind in taken if kind.name != "BFloat16"]  # which no JSON has
        parts.append(draw_kind(r, taken, depth, string_keys=True))
    listed = ", ".join(f"{path} {part.name}" for path, part in zip(paths, parts, strict=True))
    return Kind(f"JSON({listed})", _none, _none, str, False, "JSON", tuple(parts), tuple(paths))


def nested(base: str, parts: tuple[Kind, ...], names: tuple[str, ...] = ()) -> Kind:
    listed = [
        f"{n} {p.name}" if names else p.name for n, p in zip(names or parts, parts, strict=True)
    ]
    name = f"{base}({', '.join(listed)})"
    return Kind(name, _none, _none, str, False, base, parts, names)


def nullable(kind: Kind) -> Kind:
    name = f"Nullable({kind.name})"
    if kind.name.startswith("LowCardinality("):
        inner = kind.name.removeprefix("LowCardinality(").removesuffix(")")
        name = f"LowCardinality(Nullable({inner}))"
    return replace(kind, name=name, nullable=True)


def shapes() -> list[Kind]:
    """Return types that are others with a name of their own: points, and lists of them."""
    point = replace(nested("Tuple", (floating(64), floating(64))), name="Point")
    ring = replace(nested("Array", (point,)), name="Ring")
    return [point, ring, replace(nested("Array", (ring,)), name="Polygon")]


def _none(_: random.Random) -> str:
    raise AssertionError("a nested type has no text of its own")


def draw_kind(
    r: random.Random,
    known: list[Kind],
    depth: int,
    *,
    null_tuples: bool = False,
    string_keys: bool = False,
) -> Kind:
    """Draw a type with up to ``depth`` brackets; tuples of JSON may be NULL."""
    draw_inner = partial(draw_kind, null_tuples=null_tuples, string_keys=string_keys)
    base = r.choice(("Array", "Map", "Tuple", "")) if depth else ""
    if base == "Array":
        made = nested(base, (draw_inner(r, known, depth - 1),))
        inner = made.parts[0]
        if inner.base == "Tuple" and inner.names and not inner.nullable and r.random() < 0.5:
            return replace(made, name=f"Nested{inner.name.removeprefix('Tuple')}")
        return made
    if base == "Map":
        keys = [
            k
            for k in known
            if "Float" not in k.name
            and "Decimal" not in k.name
            and k.name not in ("Bool", "DateTime64(0, 'UTC')")
            and not (k.nullable or k.base)
        ]
        key = string() if string_keys else r.choice(keys)
        return nested(base, (key, draw_inner(r, known, depth - 1)))
    if base == "Tuple":
        parts = tuple(draw_inner(r, known, depth - 1) for _ in range(r.randint(1, 3)))
        names = tuple("xyz"[: len(parts)]) if r.random() < 0.6 else ()
        made = nested(base, parts, names)
        if null_tuples and r.random() < 0.4:
            return replace(made, name=f"Nullable({made.name})", nullable=True)
        return made
    kind = r.choice(known)
    return nullable(kind) if r.random() < 0.3 and not (kind.nullable or kind.base) else kind


def draw(r: random.Random, kind: Kind, *, odd: bool) -> Cell:
    """Draw a value; with ``odd`` one of its elements may not fit."""
    if not kind.base:
        # A NULL of a Dynamic is refused, without its row, where a column beside it could hide one.
        nulls = kind.name != "Dynamic"
        if nulls and odd and r.random() < 0.1:
            return Cell(None, None if kind.nullable else REFUSED, False)
        if nulls and not odd and kind.nullable and r.random() < 0.2:
            return Cell(None, None, True)
        text = kind.odd(r) if odd else kind.good(r)
        return Cell(text, judged(kind.judge, text), not odd)
    if kind.base in ("Tuple", "JSON"):
        if kind.nullable and not odd and r.random() < 0.2:
            return Cell(None, None, True)
        place = r.randrange(len(kind.parts)) if odd else -1
        return together([draw(r, p, odd=n == place) for n, p in enumerate(kind.parts)])
    count = r.randint(1 if odd else 0, 3)
    place = r.randrange(count) if odd else -1
    if kind.base == "Array":
        return together([draw(r, kind.parts[0], odd=n == place) for n in range(count)])
    pairs = []
    for n in range(count):
        where = r.randrange(2) if n == place else -1
        key, value = (draw(r, p, odd=m == where) for m, p in enumerate(kind.parts))
        while key.tree is None:  # which neither JSON nor the engine can write
            key = draw(r, kind.parts[0], odd=False)
        pairs.append(together([key, value]))
    return _without_twins(together(pairs), place)


def _without_twins(cell: Cell, place: int) -> Cell:
    """Leave pairs with the same key out: readers of maps differ in which they take."""
    kept: dict[Any, int] = {}
    for n, (key, _) in enumerate(cell.tree):
        kept[key] = place if kept.get(key) == place else n
    order = sorted(kept.values())
    values = REFUSED if cell.value is REFUSED else [cell.value[n] for n in order]
    return Cell([cell.tree[n] for n in order], values, cell.plain)


def together(cells: list[Cell]) -> Cell:
    wrong = any(cell.value is REFUSED for cell in cells)
    values = REFUSED if wrong else [cell.value for cell in cells]
    return Cell([cell.tree for cell in cells], values, all(cell.plain for cell in cells))


# --- as files write them -------------------------------------------------------------------------


def as_json(kind: Kind, tree: Any, r: random.Random, *, in_object: bool = False) -> str:
    """Return a value as JSON; numbers with or without quotes.

    Args:
        in_object: of a path of the type JSON, whose reader takes no Bool in quotes.
    """
    if tree is None:
        return "null"
    if kind.base == "Array" or (kind.base == "Tuple" and not kind.names):
        parts = kind.parts * len(tree) if kind.base == "Array" else kind.parts
        return (
            "["
            + ", ".join(
                as_json(p, t, r, in_object=in_object) for p, t in zip(parts, tree, strict=True)
            )
            + "]"
        )
    if kind.base == "Map":
        value = kind.parts[1]
        pairs = (
            f"{json.dumps(str(k))}: {as_json(value, v, r, in_object=in_object)}" for k, v in tree
        )
        return "{" + ", ".join(pairs) + "}"
    if kind.base in ("Tuple", "JSON"):
        members: dict[str, Any] = {}
        for name, part, one in zip(kind.names, kind.parts, tree, strict=True):
            *above, last = name.split(".") if kind.base == "JSON" else [name]
            at = members
            for key in above:
                at = at.setdefault(key, {})
            inside = in_object or kind.base == "JSON"
            at[last] = as_json(part, one, r, in_object=inside)
        return _as_object(members, r)
    bare = not kind.quoted and (tree in ("true", "false") or _NUMBER.fullmatch(tree) is not None)
    if kind.quoted and _NUMBER.fullmatch(tree) and "DateTime" in kind.name:
        bare = True
    always = kind.name == "Dynamic"  # where quotes make a text of it
    return (
        tree
        if bare
        and (always or r.random() < 0.9 or (in_object and kind.name.endswith(("Bool", "Bool)"))))
        else json.dumps(tree, ensure_ascii=r.random() < 0.5)
    )


def _as_object(members: dict[str, Any], r: random.Random) -> str:
    """Return an object of members that are objects, or JSON; in any order."""
    pairs = [
        f'"{key}":{_as_object(one, r) if isinstance(one, dict) else one}'
        for key, one in members.items()
    ]
    r.shuffle(pairs)
    return "{" + ",".join(pairs) + "}"


def as_text(kind: Kind, tree: Any) -> str:
    """Return a nested value as the engine writes it in CSV and TSV."""
    if tree is None:
        return "NULL"
    if kind.base == "Map":
        return (
            "{"
            + ",".join(f"{as_text(kind.parts[0], k)}:{as_text(kind.parts[1], v)}" for k, v in tree)
            + "}"
        )
    if kind.base:
        parts = kind.parts * len(tree) if kind.base == "Array" else kind.parts
        inner = ",".join(as_text(p, t) for p, t in zip(parts, tree, strict=True))
        return f"[{inner}]" if kind.base == "Array" else f"({inner})"
    if not kind.quoted and re.fullmatch(r"[^\s\[\](){},:'\"]+", tree):
        return str(tree)
    text = str(tree).replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")
    return f"'{text.replace(chr(10), chr(92) + 'n')}'"


def as_csv(kind: Kind, tree: Any) -> str:
    """Return a field of CSV; texts have quotes, so that an empty one is no NULL."""
    if tree is None:
        return ""
    text = as_text(kind, tree) if kind.base else str(tree)
    bare = not kind.base and not kind.quoted and text and not re.search(r'[",\s]', text)
    return text if bare else '"' + text.replace('"', '""') + '"'


def as_tsv(kind: Kind, tree: Any) -> str:
    if tree is None:
        return "\\N"
    if kind.base:
        return as_text(kind, tree)
    return str(tree).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


# --- as the table gives them back ----------------------------------------------------------------


def is_same(kind: Kind, wanted: Any, got: Any) -> bool:
    """Tell whether a value read back as JSON, objects as lists of pairs, is the one wanted."""
    if wanted is None or got is None:
        return wanted is None and got is None
    if kind.base == "Map":
        key, value = kind.parts
        return len(wanted) == len(got) and all(
            is_same(key, a, c) and is_same(value, b, d)
            for (a, b), (c, d) in zip(wanted, got, strict=True)
        )
    if kind.base == "JSON":
        found = (_at_path(got, path.split(".")) for path in kind.names)
        return all(map(is_same, kind.parts, wanted, found))
    if kind.base:
        parts = kind.parts * len(wanted) if kind.base == "Array" else kind.parts
        return len(wanted) == len(got) and all(map(is_same, parts, wanted, got))
    if isinstance(wanted, bool):
        return bool(wanted is got or str(wanted).lower() == got)
    if kind.name == "Dynamic" and isinstance(wanted, str):
        return bool(got == wanted)
    if isinstance(wanted, int):
        return int(got) == wanted
    if isinstance(wanted, float):
        value = float(got)
        if wanted != wanted:
            return value != value
        if "32" in kind.name or "BFloat16" in kind.name:
            value = struct.unpack("f", struct.pack("f", value))[0]
        return struct.pack("d", value) == struct.pack("d", wanted) or value == wanted == 0
    if isinstance(wanted, Decimal):
        return Decimal(got) == wanted
    if kind.name.endswith("IPv6") or "IPv6)" in kind.name:
        return ipaddress.IPv6Address(got) == ipaddress.IPv6Address(wanted)
    return bool(got == wanted)


def _at_path(pairs: Any, path: list[str]) -> Any:
    """Return the member of an object read as pairs; None where it has none."""
    for key in path:
        pairs = dict(pairs).get(key) if pairs is not None else None
    return pairs
