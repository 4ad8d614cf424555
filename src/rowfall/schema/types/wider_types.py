"""Types that take what a column holds and what it is to hold. Pure.

A type is *lossless* for another where every value of that other one prints the same in it. Where
that depends on the values (a Date beyond 2106 is no DateTime), the table is asked.
"""

from __future__ import annotations

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex
from rowfall.core.type_names import Type, parse_type
from rowfall.schema.column_facts import ColumnFacts

EXACT = 2**53
"""Integers beyond it have no Float64 of their own."""
MOST_NAMES = 200
"""New names of an Enum: more are no enumeration."""
_NAMES = regex(r"('(?:[^'\\]|\\.)*')\s*=\s*(-?\d+)")
_DECIMAL = 76
_LAST_DATETIME = "2100"


@dataclass(frozen=True, slots=True)
class Values:
    """Misfits of one column, beside the facts about all of its values.

    Attributes:
        wrong: values that do not fit, ``nulls`` those that are not there.
        names: different values of an Enum that it lacks, as literals.
        whole, places: most digits before and behind the point, -1 where some are no decimals.
    """

    wrong: int = 0
    nulls: int = 0
    names: tuple[str, ...] = ()
    whole: int = -1
    places: int = -1


def wider(type_: str, found: ColumnFacts, values: Values) -> list[str]:
    """Return the types that a column may get, the best one first; [] where none is known.

    Args:
        found: about all values of the column that were seen. Of a format with types only
            ``declared`` counts.
    """
    known = parse_type(type_)
    if not known.known:
        return []
    nullable = known.nullable or values.nulls > 0
    bare = _bare(known, found, values) if values.wrong else [known.bare]
    return [_wrapped(one, known, nullable=nullable) for one in bare]


def _wrapped(bare: str, known: Type, *, nullable: bool) -> str:
    text = f"Nullable({bare})" if nullable else bare
    short = parse_type(bare).text and known.full.startswith("LowCardinality(")
    return f"LowCardinality({text})" if short else text


def _bare(t: Type, found: ColumnFacts, values: Values) -> list[str]:
    """Return types without Nullable for a column some of whose values do not fit."""
    text = [] if t.base == "String" else ["String"]
    filled = found.filled + found.values.hollow  # which the types of a table may not take
    declared = parse_type(found.declared.type or "?")
    if t.text:
        return text
    if declared.known and declared.base != "String" and found.kinds.integers < 0:
        return [*_of_declared(t, declared), *text]
    if t.base.startswith("Enum"):
        return [*_enum(t, values), *text]
    if t.base == "Decimal":
        return [*_decimal(t, values), *text]
    if (found.numbers.zeros or found.numbers.plus) and (t.bits or t.base.startswith("Float")):
        return text  # 007 is a text where it is not said that it is a number
    if t.bits and found.kinds.integers == filled:
        return [*_integer(t, found.numbers.low, found.numbers.high), *text]
    if (t.bits or t.base.startswith("Float")) and found.kinds.floats == filled:
        exact = found.kinds.integers <= 0 or found.numbers.largest <= EXACT
        return ["Float64", *text] if exact and t.base != "Float64" else text
    if t.base == "Date" and found.kinds.days == filled:
        return ["Date32", *text]
    if t.base in ("Date", "Date32", "DateTime", "DateTime64") and found.kinds.moments == filled:
        return [*_moments(t, found), *text]
    return text


def _of_declared(t: Type, declared: Type) -> list[str]:
    """Return types for values whose own type is known."""
    if t.bits and declared.bits:
        low = 0 if declared.base.startswith("U") else -(2 ** (declared.bits - 1))
        return _integer(t, low, 2 ** (declared.bits - (low < 0)) - 1)
    if declared.base.startswith("Float") and (t.bits or t.base.startswith("Float")):
        return ["Float64"]
    return [declared.bare] if lossless(t.bare, declared.bare) else []


def _integer(t: Type, low: int, high: int) -> list[str]:
    own = 0 if t.base.startswith("U") else -(2 ** (t.bits - 1))
    least, most = min(low, own), max(high, 2 ** (t.bits - (own < 0)) - 1)
    for bits in (8, 16, 32, 64, 128, 256):
        if least >= 0 and most < 2**bits:
            return [f"UInt{bits}"]
        if least < 0 and -(2 ** (bits - 1)) <= least and most < 2 ** (bits - 1):
            return [f"Int{bits}"]
    return []


def _decimal(t: Type, values: Values) -> list[str]:
    digits, scale = _digits(t)
    if values.whole < 0:
        return []
    scale, whole = max(scale, values.places), max(digits - scale, values.whole)
    return [f"Decimal({whole + scale}, {scale})"] if whole + scale <= _DECIMAL else []


def _digits(t: Type) -> tuple[int, int]:
    first, _, second = t.args.partition(",")
    return int(first or 10), int(second or 0)


def _enum(t: Type, values: Values) -> list[str]:
    there = {name: int(number) for name, number in _NAMES.findall(t.args)}
    if not there or not values.names or len(values.names) > MOST_NAMES:
        return []
    number, top = max(there.values()), 2**15 - 1
    for name in sorted(values.names):
        number += 1
        there[name] = number
    if number > top:
        return []
    base = "Enum8" if t.base == "Enum8" and number < 2**7 else "Enum16"
    return [f"{base}({', '.join(f'{name} = {n}' for name, n in there.items())})"]


def _moments(t: Type, found: ColumnFacts) -> list[str]:
    if not found.times.alike(found.filled):
        return []  # written in several ways
    args = [a.strip() for a in t.args.split(",") if a.strip()]
    zone = next((a for a in args if a.startswith("'")), "")
    zone = zone or ("" if t.base.startswith("DateTime") else "'UTC'")
    own = int(args[0]) if t.base == "DateTime64" and args and args[0].isdigit() else 0
    digits = next((d for d in (0, 3, 6, 9) if d >= max(found.times.digits, own)), None)
    first, last = found.times.first, found.times.last
    if digits is None or (digits == 9 and not "1900" <= first < last < "2262"):
        return []
    long = [f"DateTime64({digits}{', ' if zone else ''}{zone})"]
    if t.base == "Date" and digits == 0 and first > "1970" and last < _LAST_DATETIME:
        return [f"DateTime({zone})", *long]
    return long


def lossless(old: str, new: str) -> bool:
    """Tell whether each value of one type has the same meaning in another, whatever it is."""
    a, b = parse_type(old), parse_type(new)
    if not (a.known and b.known):
        return a.full == b.full
    if a.nullable and not b.nullable:
        return False
    if a.bare == b.bare or b.base == "String":
        return True
    if a.bits and b.bits:
        signed, other = a.base.startswith("Int"), b.base.startswith("Int")
        return a.bits - signed <= b.bits - other and (other or not signed)
    if b.base == "Float64":
        return a.base == "Float32" or 0 < a.bits <= 32
    if a.base.startswith("Enum") and b.base.startswith("Enum"):
        return set(_NAMES.findall(a.args)) <= set(_NAMES.findall(b.args))
    if a.base == b.base == "Decimal":
        (p, s), (q, r) = _digits(a), _digits(b)
        return s <= r and p - s <= q - r
    if b.base == "DateTime64":
        nine = b.args.startswith("9")
        zones = [t.args[t.args.index("'") :] if "'" in t.args else "" for t in (a, b)]
        same = a.base.startswith("DateTime") and zones[0] == zones[1]
        own = a.args[:1] if a.base == "DateTime64" else "0"
        return (
            (a.base == "Date" or (a.base == "Date32" and not nine) or same)
            and (not own.isdigit() or own <= b.args[:1])
            and not (nine and a.base == "DateTime64" and own != "9")
        )
    return a.base == "Date" and b.base == "Date32"


def keeps_key(old: str, new: str) -> bool:
    """Tell whether the engine changes the type even of a column of a key."""
    a, b = parse_type(old), parse_type(new)
    return a.base == b.base and a.base.startswith("Enum") and a.nullable == b.nullable
