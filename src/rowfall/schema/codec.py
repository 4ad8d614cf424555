"""How one column is read so that a value either arrives unchanged or raises. Pure.

The engine's readers wrap (300 as UInt8 is 44), clip (2200-01-01 as Date is 2149-06-06), cut
(1.239 as Decimal(9,2) is 1.23) and fill in (nothing as UInt8 is 0). So a column is read as a type
in which that cannot happen, and an expression converts it and checks. Measured on chDB 26.9.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from rowfall.core import sql
from rowfall.core.model import Column, Kind
from rowfall.core.sqltext import quote
from rowfall.schema.records import BOM

TAG = "rowfall: "
"""Start of every message that a guard raises inside the engine."""

MISSING = "\nmissing"
"""Stands for the field of a column that the header or a short row lacks: it fits no type."""

NUMBERS = frozenset({"Int128 DEFAULT 0", "Nullable(Int128) DEFAULT 0"})
"""What :func:`_read_as_number` reads; the mark of a column that has a more careful way."""

_INT = re.compile(r"U?Int(8|16|32|64|128|256)\Z")
_CALL = re.compile(r"(\w+)(?:\((.*)\))?\Z", re.S)
_NAMES = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_LENGTHS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_KNOWN = frozenset((
    "Float32", "Float64", "Bool", "UUID", "IPv4", "IPv6", "Decimal", "String", "FixedString",
    "Enum", "Enum8", "Enum16", "Date", "Date32", "DateTime", "DateTime64",
))  # fmt: skip
_TIMES = ("Date", "Date32", "DateTime", "DateTime32", "DateTime64", "Time", "Time64")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the sample showed about the text of a column; the default trusts nothing.

    Attributes:
        blank: ``""`` stands for "no value" in a column that is not a string.
        padded: blanks around the values are to be ignored.
        shape: how points in time are written: ``""`` is ``2020-01-31 23:59:59``, ``T`` has a T,
            ``Z`` a T and a Z, ``date`` no time, ``epoch`` counts seconds.
        infinite: the text ``inf`` is a value; otherwise infinity is an overflow (1e400).
        breaks: values hold line breaks; otherwise one is the sign of a quote never closed.
        bom: files start with a byte order mark, which this first column would keep.
        nonzero: integers, none of them 0: see :func:`_read_as_number`.
        native: the reader of CSV itself takes ``\\N`` for NULL.
    """

    blank: bool = False
    padded: bool = False
    shape: str = ""
    infinite: bool = False
    breaks: bool = False
    bom: bool = False
    nonzero: bool = False
    native: bool = False


@dataclass(frozen=True, slots=True)
class Type:
    """A type name taken apart: ``LowCardinality(Nullable(String))`` is a nullable ``String``."""

    full: str
    base: str
    args: str
    nullable: bool

    @property
    def bare(self) -> str:
        """The type without Nullable and LowCardinality."""
        return f"{self.base}({self.args})" if self.args else self.base

    @property
    def bits(self) -> int:
        """Width of an integer type, 0 for all others."""
        found = _INT.match(self.base)
        return int(found[1]) if found else 0

    @property
    def text(self) -> bool:
        return self.base in ("String", "FixedString")

    @property
    def known(self) -> bool:
        """Whether its text can be checked here; other types only the engine can read."""
        return bool(self.bits) or self.base in _KNOWN


def parse_type(text: str) -> Type:
    """Take a type name apart; unknown types come back as they are."""
    full = inner = text.strip()
    nullable = False
    while (found := _CALL.match(inner)) and found[1] in ("Nullable", "LowCardinality") and found[2]:
        nullable = nullable or found[1] == "Nullable"
        inner = found[2].strip()
    found = _CALL.match(inner)
    base, args = (found[1], (found[2] or "").strip()) if found else (inner, "")
    if base in _LENGTHS:
        base, args = "Decimal", f"{_LENGTHS[base]}, {args}"
    return Type(full, base, args, nullable)


def codec(
    name: str,
    source: str,
    target_type: str,
    kind: Kind,
    source_type: str = "",
    *,
    csv: bool = True,
    seen: Evidence | None = None,
) -> Column:
    """How to read ``source`` into a column of ``target_type``.

    Args:
        name, source: column of the table, column of the file.
        kind: of the format; ``source_type`` is the declared type where the format has types.
        csv: TEXT only: fields may be quoted and empty ones mean NULL (False: TSV).
        seen: what the sample showed, nothing by default.
    """
    target, seen = parse_type(target_type), seen or Evidence()
    column = Column(name=name, type=target_type, source=source)
    if kind is Kind.MADE:
        return column
    if kind is Kind.TYPED:
        return _typed(column, target, parse_type(source_type or target_type))
    if not target.known:
        note = "nested values are checked by the engine's reader only"
        return replace(column, read_type=target_type, reason=note)
    csv = csv and kind is Kind.TEXT
    # What the sample shows to be unusual is the engine's: the decoder would decline it anyway.
    shape = seen.shape if target.base.startswith("DateTime") else ""
    if not (seen.padded or seen.infinite or seen.bom) and shape in ("", "T", "Z"):
        column = replace(column, shape=shape)
    direct = _direct(target, kind, seen)
    if direct:
        return _read_directly(column, target, direct, kind, csv)
    text = _read_as_text(column, target, kind, csv, seen)
    if (
        kind is Kind.TEXT
        and seen.nonzero
        and 0 < target.bits <= 64
        and not (seen.padded or seen.blank or seen.bom)
    ):
        return _read_as_number(text, target)
    return text


def _read_as_number(text: Column, target: Type) -> Column:
    """An integer column whose sample holds no 0, read as a number with a guard against 0.

    The integer reader takes a quoted empty field for 0, and a column that the header lacks gets 0
    here: the guard raises, and :mod:`rowfall.schema.fast_path` reads the objects again as text, in
    which a real 0 is fine. Int128 wraps from 39 digits on (Int64 would take 2^64 + 5 for 5).
    Measured on 50 M rows of three integers: 6.9 CPU-seconds, 7.8 as text, 6.5 without any check.
    """
    x = sql.name(text.source)
    wanted = f"Nullable({target.bare})" if target.nullable else target.bare
    read = "Nullable(Int128)" if target.nullable else "Int128"
    zero = f"ifNull({x} = 0, 0)" if target.nullable else f"{x} = 0"
    expression = _checked(f"accurateCast({x}, {quote(wanted)})", zero, text)
    return replace(text, read_type=f"{read} DEFAULT 0", expression=expression)


def _direct(target: Type, kind: Kind, seen: Evidence) -> str:
    """The type that the reader can parse without a loss, or "" where only text is safe.

    Integers of CSV and TSV are text where they can be 0: the reader takes a quoted empty field for
    0 and wraps whatever its width. JSON integers up to 32 bits go through Float64, which refuses
    ``""``, for half the cost of text; more than 17 digits are rounded before they are checked.
    """
    if seen.padded or seen.blank or seen.bom or seen.infinite:
        return ""
    if target.base in ("Float32", "Float64"):
        return target.base
    return "Float64" if kind is Kind.JSON and 0 < target.bits <= 32 else ""


def _read_directly(column: Column, target: Type, read: str, kind: Kind, csv: bool) -> Column:
    x = sql.name(column.source)
    text = f"trimBoth({x}, ' \\t')" if csv else x  # as the reader does around CSV numbers
    parsed = f"accurateCastOrNull({text}, {quote(read)})"
    if target.bits:
        wanted = f"Nullable({target.bare})" if target.nullable else target.bare
        expression = f"accurateCast({x}, {quote(wanted)})"
        lenient = f"accurateCastOrNull({parsed}, {quote(target.bare)})"
    else:
        # Too large a number is read as infinity, and so is a column that the header lacks.
        wrong = f"ifNull(isInfinite({x}), 0)"
        value = x if target.nullable else f"assumeNotNull({x})"
        wrong = wrong if target.nullable else f"isNull({x}) OR {wrong}"
        expression = _checked(value, wrong, column)
        lenient = f"if(ifNull(isInfinite({parsed}), 0), NULL, {parsed})"
    bad = f"isNull({lenient})"
    if target.nullable:
        bad = f"isNotNull({x}) AND {bad}"
    read = f"Nullable({read})" + (" DEFAULT inf" if kind is Kind.TEXT else "")
    return replace(column, read_type=read, expression=expression, lenient=lenient, bad=bad)


def _read_as_text(column: Column, target: Type, kind: Kind, csv: bool, seen: Evidence) -> Column:
    x, tsv = sql.name(column.source), kind is Kind.TEXT and not csv
    read = "String" if csv and not target.nullable else "Nullable(String)"
    if kind is Kind.TEXT:
        read += f" DEFAULT {quote(MISSING)}"
    text = f"if(startsWith({x}, '{BOM}'), substring({x}, 4), {x})" if seen.bom else x
    if seen.padded and not target.text:
        text = f"trimBoth({text}, ' \\t')"
    if target.nullable and csv and target.text and not seen.native:
        text = f"nullIf({text}, '\\\\N')"
    # What means NULL fits no other type, so its conversion gives NULL anyway: comparing is enough,
    # and unlike nullIf it copies no strings.
    blank = tsv or seen.blank or (csv and seen.native)
    nulls = [*(["\\N"] if csv else []), *([""] if blank else [])] if target.nullable else []
    if target.base in _TIMES:
        for null in nulls:  # toDateTime64OrNull makes 1970 of nothing
            text = f"nullIf({text}, {quote(null)})"
        nulls = []
    value, wrong = _convert(text, target, seen)
    if target.text and kind is Kind.TEXT:
        # MISSING holds a line break, so one look finds both it and a quote never closed.
        broken = csv and not seen.breaks
        guard = f"position({x}, '\\n') > 0" if broken else f"{x} = {quote(MISSING)}"
        wrong = f"ifNull({guard}, 0)" + (f" OR {wrong}" if wrong != "0" else "")
    lenient, bad = value, wrong
    if target.nullable:
        if target.base != "String":
            bad = f"isNotNull({text}) AND ({wrong})"
        if nulls and not target.text:
            others = " AND ".join(f"{text} != {quote(null)}" for null in nulls)
            bad = f"isNotNull({text}) AND {others} AND ({wrong})"
        expression = _checked(value, bad, column) if bad != "0" else value
    elif target.base == "String" and not csv:
        whole, wrong = f"assumeNotNull({value})", f"isNull({x}) OR {wrong}"
        bad, expression = wrong, _checked(whole, wrong, column)
    elif target.bits and target.bits <= 64:
        expression = f"accurateCast({text}, {quote(target.bare)})"
    else:
        whole = value if target.base == "String" else f"assumeNotNull({value})"
        expression = _checked(whole, wrong, column) if wrong != "0" else whole
    if csv and target.text and not target.nullable:
        # Read leniently, an empty field is NULL; in a String column it is the empty string.
        lenient, bad = lenient.replace(x, f"ifNull({x}, '')"), bad.replace(x, f"ifNull({x}, '')")
    return replace(column, read_type=read, expression=expression, lenient=lenient, bad=bad)


def _checked(value: str, wrong: str, column: Column) -> str:
    """``value``, after raising when ``wrong``; a tuple costs nothing, ``if`` would copy strings."""
    line = "line break in" if "'\\n') > 0" in wrong else "a value does not fit"
    message = f"{TAG}{line} {column.name} {column.type}"
    return f"tupleElement(({value}, throwIf({wrong}, {quote(message)})), 1)"


def _convert(t: str, target: Type, seen: Evidence) -> tuple[str, str]:
    """(value or NULL, "is wrong" as 0/1) for text ``t``; NULL text counts as wrong here."""
    base, bare = target.base, target.bare
    if base == "String":
        return t, "0"
    cast = f"accurateCastOrNull({t}, {quote(bare)})"
    if base in _TIMES:
        return _convert_time(t, target, seen.shape)
    if base == "UUID":
        return f"toUUIDOrNull({t})", f"ifNull(toString(toUUIDOrNull({t})) != lower({t}), 1)"
    if base == "IPv4":
        return f"toIPv4OrNull({t})", f"ifNull(toString(toIPv4OrNull({t})) != {t}, 1)"
    if base == "IPv6":
        return f"toIPv6OrNull({t})", f"isNull(toIPv6OrNull({t}))"
    if base.startswith("Enum"):
        names = ", ".join(_NAMES.findall(target.args))
        first = _NAMES.findall(target.args)[0]
        # The cast alone would take '1' for the element numbered 1, and raises in a lenient read.
        known = f"if({t} IN ({names}), {t}, NULL)"
        value = f"CAST(ifNull({known}, {first}), {quote(bare)})"
        return f"if(isNull({known}), NULL, {value})", f"ifNull({t} NOT IN ({names}), 1)"
    if base == "Decimal":
        scale = target.args.split(",")[1].strip() if "," in target.args else "0"
        extra = f"length(trim(TRAILING '0' FROM {t})) - position({t}, '.') > {scale}"
        # The engine takes a lone sign for 0 and 1.2.3 for 1.23; an exponent would move the point.
        odd = f"position(lower({t}), 'e') > 0 OR {t} IN ('-', '+', '.', '-.', '+.')"
        odd += f" OR countSubstrings({t}, '.') > 1"
        return cast, f"ifNull((position({t}, '.') > 0 AND {extra}) OR {odd}, 1) OR isNull({cast})"
    if target.bits > 64:  # the engine checks no overflow of its widest integers
        return cast, f"ifNull(toString({cast}) != {t}, 1)"
    if base.startswith("Float") and not seen.infinite:
        return cast, f"ifNull(isInfinite({cast}), 1)"
    return cast, f"isNull({cast})"


def _convert_time(t: str, target: Type, shape: str) -> tuple[str, str]:
    """Points in time count as read only when they print as the text they came from."""
    base, args = target.base, [a.strip() for a in target.args.split(",") if a.strip()]
    if base in ("Date", "Date32"):
        value = f"to{base}OrNull({t})"
        return value, f"ifNull(toString({value}) != {t}, 1)"
    if shape == "epoch" and base == "DateTime":
        value = f"CAST(accurateCastOrNull({t}, 'UInt32'), {quote(f'Nullable({target.bare})')})"
        return value, f"isNull({value})"
    digits = int(args.pop(0)) if base == "DateTime64" and args else 3 * (base == "DateTime64")
    zone = "'UTC'" if shape == "Z" else (args[0] if args else "")
    source = f"substring({t}, 1, length({t}) - 1)" if shape == "Z" else t
    parts = [source, *([str(digits)] if base == "DateTime64" else []), *([zone] if zone else [])]
    value = f"to{base}OrNull({', '.join(parts)})"
    zeros = quote("." + "0" * digits) if digits else "''"
    mark = {"T": "T", "Z": "T"}.get(shape, " ")
    if shape == "date":
        expected = f"concat({t}, {quote(' 00:00:00' + (zeros[1:-1] if digits else ''))})"
    elif digits:
        # Fewer digits than the type has are fine, more are not: fill up and compare.
        expected = f"concat({source}, substring({zeros}, greatest(length({source}) - 18, 1)))"
    else:
        expected = source
    printed = f"toString({value})"
    if mark == "T":
        printed = f"replaceOne({printed}, ' ', 'T')"
    wrong = f"{printed} != {expected}"
    if shape == "Z":
        wrong = f"({wrong} OR NOT endsWith({t}, 'Z'))"
        value = f"CAST({value}, {quote(f'Nullable({target.bare})')})"
    return value, f"ifNull({wrong}, 1)"


def _typed(column: Column, target: Type, source: Type) -> Column:
    """Formats with types: the bare column, or a cast that is compared with where it came from."""
    x = sql.name(column.source)
    read = source.full
    if source.bare == target.bare or not (target.known and source.known):
        if target.full == source.full or (source.bare == target.bare and not source.nullable):
            return replace(column, read_type=read)
        if target.nullable and source.bare == target.bare:
            return replace(column, read_type=read)
        return replace(
            column,
            read_type=read,
            expression=f"accurateCast({x}, {quote(target.full)})",
            lenient=x if source.bare == target.bare else "",
            bad=f"isNull({x})" if source.bare == target.bare and not target.nullable else "",
        )
    if source.text and not target.text:
        value, wrong = _convert(x, target, Evidence(infinite=True))
    else:
        value = f"accurateCastOrNull({x}, {quote(target.bare)})"
        wrong = f"isNull({value})"
        exact = (*_TIMES, "Decimal", "Bool")
        if target.text or (source.base == "Decimal" and target.base.startswith("Float")):
            pass  # rounding a decimal to a float is what was asked for; text holds everything
        elif target.base in exact or source.base in exact:
            wrong = f"ifNull(CAST({value}, {quote(f'Nullable({source.bare})')}) != {x}, 1)"
    bad = f"isNotNull({x}) AND {wrong}" if target.nullable else wrong
    whole = value if target.nullable else f"assumeNotNull({value})"
    return replace(
        column, read_type=read, expression=_checked(whole, bad, column), lenient=value, bad=bad
    )
