"""How each column is read so that a value either arrives unchanged or raises. Pure.

The engine's readers wrap (300 as UInt8 is 44), clip (2200-01-01 as Date is 2149-06-06), cut
(1.239 as Decimal(9,2) is 1.23) and fill in (nothing as UInt8 is 0). So a column is read as a type
in which that cannot happen, and an expression converts it and checks: :func:`strict_column`. The
settings of the readers (reader_settings.py) are as strict. Measured on chDB 26.9.

Two readings are guesses by the sample that cost less: integers as numbers where none of them is 0,
and line breaks in strings as the sign of a quote never closed. What they refuse may be fine: the
last section gives the schema that reads the same rows without the guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from rowfall.core import sql
from rowfall.core.charsets import BOM
from rowfall.core.dataclass import dataclass
from rowfall.core.model import Column, Encoding, Kind, Notation, Schema, ValueCheck
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import TIMES, Type, arguments, elements, enum_numbers, parse_type
from rowfall.decoder import abilities
from rowfall.schema.types import nested_reading
from rowfall.schema.types.engine_readers import AS_TEXT
from rowfall.schema.types.nested_nulls import as_tuples
from rowfall.schema.types.reader_settings import tuples_apart

# --- values of the texts of a file ----------------------------------------------------------------

# SQL, each value with a test whether the text is one: convert() knows how each type is written and
# what the engine would make of other texts; convert_element() does the same inside nested values.

ANY_SHAPE = "any"
"""Points in time are written in several ways; see :func:`_convert_any_shape`."""

_NAMES = regex(r"'(?:[^'\\]|\\.|'')*'")
_EXACT = 2**53
"""Not all integers beyond it have a Float64 of their own; the next one becomes it."""


@dataclass(frozen=True, slots=True)
class FileTraits:
    """Traits of a whole file; the default trusts nothing.

    Attributes:
        csv: fields of text may be quoted, and empty ones mean NULL (False: TSV).
        native: the reader of CSV itself takes ``\\N`` for NULL.
        binary: strings may hold bytes that are not UTF-8.
        bom: it starts with a byte order mark, which the first column would keep.
        numbered: the text of a time or an Enum may be its number.
    """

    csv: bool = True
    native: bool = False
    binary: bool = False
    bom: bool = False
    numbered: bool = False

    @classmethod
    def of(cls, encoding: Encoding) -> FileTraits:
        """Return the traits of files of an encoding, without a byte order mark."""
        return cls(
            encoding.is_csv, bool(encoding.null), encoding.binary,
            numbered=encoding.format in AS_TEXT,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextTraits:
    """Traits of the values of a column, by the sample; the default trusts nothing.

    Attributes:
        blank: ``""`` stands for "no value" in a column that is not a string.
        padded: blanks around the values are to be ignored.
        shape: how points in time are written: ``""`` is ``2020-01-31 23:59:59``, ``T`` has a T,
            ``Z`` a T and a Z, ``date`` no time, ``epoch`` counts seconds, ``any`` any but a date.
        infinite: the text ``inf`` is a value; otherwise infinity is an overflow (1e400).
        breaks: values hold line breaks; otherwise one is the sign of a quote never closed.
        nonzero: integers, none of them 0: they are read as numbers, see strict_reading.py.
        canonical: numbers and Bools have to be written as inference takes them: what it would have
            kept as text (``007``, ``+1``) becomes no number behind the sample.
        whole: a tuple of CSV is one field, and not one for each of its elements.
        hex: values are bytes, written as hex digits.
        file: what holds for all columns.
    """

    blank: bool = False
    padded: bool = False
    shape: str = ""
    infinite: bool = False
    breaks: bool = False
    nonzero: bool = False
    canonical: bool = False
    whole: bool = False
    hex: bool = False
    file: FileTraits = FileTraits()


def has_spellings(target: Type) -> bool:
    """Tell whether text of other spellings than inference takes makes values of a type, too."""
    return target.base in ("Bool", "Float64") or 0 < target.bits <= 64


def convert(t: str, target: Type, traits: TextTraits) -> tuple[str, str]:
    """Return (value or NULL, "is wrong" as 0/1) for text ``t``; NULL text counts as wrong here."""
    base, bare = target.base, target.bare
    if base == "String":
        return t, "0"
    if base == "Variant":
        return _convert_variant(t, target)
    cast = f"accurateCastOrNull({t}, {quote(bare)})"
    if base in TIMES:
        return _convert_time(t, target, traits.shape)
    if base == "UUID":
        return f"toUUIDOrNull({t})", f"ifNull(toString(toUUIDOrNull({t})) != lower({t}), 1)"
    if base == "IPv4":
        return f"toIPv4OrNull({t})", f"ifNull(toString(toIPv4OrNull({t})) != {t}, 1)"
    if base == "IPv6":
        # The engine takes 2001:db8:::1, and :: among eight groups, where it stands for none.
        groups = f"countSubstrings({t}, ':') - startsWith({t}, '::') - endsWith({t}, '::')"
        odd = f"position({t}, ':::') > 0 OR (position({t}, '::') > 0 AND {groups} > 7)"
        return f"toIPv6OrNull({t})", f"ifNull(isNull(toIPv6OrNull({t})) OR {odd}, 1)"
    if base.startswith("Enum"):
        names = ", ".join(_NAMES.findall(target.args))
        first = _NAMES.findall(target.args)[0]
        # The cast alone would take '1' for the element numbered 1, and raises in a lenient read.
        known = f"if({t} IN ({names}), {t}, NULL)"
        value = f"CAST(ifNull({known}, {first}), {quote(bare)})"
        return f"if(isNull({known}), NULL, {value})", f"ifNull({t} NOT IN ({names}), 1)"
    if base == "Decimal":
        precision, _, scale = (part.strip() for part in target.args.partition(","))
        scale = scale or "0"
        extra = f"length(trim(TRAILING '0' FROM {t})) - position({t}, '.') > {scale}"
        # The engine takes a lone sign for 0 and 1.2.3 for 1.23; an exponent would move the point.
        odd = f"position(lower({t}), 'e') > 0 OR {t} IN ('-', '+', '.', '-.', '+.')"
        odd += f" OR countSubstrings({t}, '.') > 1"
        wrong = f"ifNull((position({t}, '.') > 0 AND {extra}) OR {odd}, 1)"
        return cast, f"{wrong} OR ifNull({beyond(cast, int(precision), int(scale))}, 1)"
    if target.bits > 64:  # the engine checks no overflow of its widest integers
        return cast, f"ifNull(toString({cast}) != {t}, 1)"
    if base.startswith("Interval"):
        cast = f"CAST(accurateCastOrNull({t}, 'Int64'), {quote(f'Nullable({bare})')})"
    if base == "JSON":
        cast = f"accurateCastOrNull({_with_long_decimals(t, target)}, {quote(bare)})"
        return cast, " OR ".join((f"isNull({cast})", *_wrong_paths(t, target, cast)))
    odd = f" OR {misspelled(t, target, cast)}" if traits.canonical else ""
    if "Float" in base and not traits.infinite:
        return cast, f"ifNull(isInfinite({cast}), 1){odd}"
    return cast, f"isNull({cast}){odd}"


def convert_element(x: str, target: Type, traits: TextTraits) -> tuple[str, str]:
    """Return (value, "is wrong") of an element of a nested value, read as nullable text."""
    canonical = traits.canonical and has_spellings(target)
    text = without_point(x) if target.bits else x
    value, wrong = convert(text, target, TextTraits(shape=ANY_SHAPE, canonical=canonical))
    if target.base == "String":
        wrong = "0" if traits.file.binary else f"ifNull(NOT isValidUTF8({x}), 0)"
    if target.nullable or target.base == "Variant":
        return value, wrong if wrong == "0" else f"(isNotNull({x}) AND ({wrong}))"
    missing = f"isNull({x})"
    return f"assumeNotNull({value})", missing if wrong == "0" else f"({missing} OR {wrong})"


def any_text(_: Type) -> str:
    return "Nullable(String)"


def without_point(t: str) -> str:
    """Return SQL for a number of JSON, which means 1 by 1.0 as well."""
    whole = f"replaceRegexpOne({t}, '^(-?[0-9]+)\\\\.0+$', '\\\\1')"
    return f"if(position({t}, '.') > 0, {whole}, {t})"


def _convert_variant(t: str, target: Type) -> tuple[str, str]:
    """Convert a text to the first type of a Variant that it is a value of, as inference takes it.

    The engine's reader makes a day of 2024-02-31 and 1.23 of 1.239 before it tries the next type.
    """
    tests, texts = [f"isNull({t})", f"CAST(NULL, {quote(target.bare)})"], False
    for one in nested_reading.variants(target):
        texts = texts or one.base == "String"
        if one.base == "String":
            continue
        traits = TextTraits(shape=ANY_SHAPE, canonical=has_spellings(one))
        value, wrong = convert(t, one, traits)
        tests += [f"NOT ({wrong})", f"CAST({value}, {quote(target.bare)})"]
    last = f"CAST({t}, {quote(target.bare)})" if texts else tests[1]
    wrong = "ifNull(NOT isValidUTF8({0}), 0)" if texts else "isNull({1})"
    value = f"multiIf({', '.join(tests)}, {last})"
    return value, wrong.format(t, value)


def typed_paths(target: Type) -> list[tuple[str, str]]:
    """Return the paths of a type JSON that have types which can be checked, (path, type)."""
    found = []
    for part in arguments(target.args) if target.base == "JSON" and target.args else ():
        path = regex(r"(?:`([^`]+)`|([\w.]+))\s+(?!REGEXP\b)(\w.*)", re.DOTALL).fullmatch(part)
        if path and path[2] != "SKIP" and nested_reading.is_checkable(path[3], null_tuples=True):
            found.append((path[1] or path[2], path[3]))
    return found


def _with_long_decimals(t: str, target: Type) -> str:
    """Return SQL for JSON whose decimals of a path are in quotes where a float has fewer digits.

    The engine reads numbers with fractions as floats before they become decimals. Only the one
    that stands at the path is changed: elsewhere the quotes would make a text of a number.
    """
    # A column may have the name of a parameter, and is named inside.
    text = "rowfall_text"
    json = nested_reading.with_numbers_as_strings(f"ifNull({t}, '{{}}')")
    for path, type_ in typed_paths(target):
        if parse_type(type_).base == "Decimal":
            key, digits = re.escape(path.rpartition(".")[2]), "-?[0-9.]{16,}"
            long = rf'([{{,]\s*"{key}"\s*:\s*)({digits})(\s*[,}}])'
            keys = ", ".join(map(quote, path.split(".")))
            own = f"match(JSONExtractString({json}, {keys}), {quote(f'^{digits}$')})"
            quoted = f"replaceRegexpAll({text}, {quote(long)}, '\\\\1\"\\\\2\"\\\\3')"
            one = f"if(countMatches({text}, {quote(long)}) = 1 AND {own}, {quoted}, {text})"
            # Written once: each path would make the statement three times as long.
            t = f"arrayElement(arrayMap({text} -> {one}, [{t}]), 1)"
    return t


def _wrong_paths(t: str, target: Type, stored: str) -> list[str]:
    """Return SQL that is 1 where a path of an object has a value that its type does not hold.

    Args:
        stored: SQL for the object, nullable. What it holds is compared: its reader makes floats of
            decimals, and true of the 5 of a Variant with Bool.
    """
    # A column may have the name of a parameter, and is named inside.
    json = nested_reading.with_numbers_as_strings(f"ifNull({t}, '{{}}')")
    found = []
    for path, type_ in typed_paths(target):

        def element(x: str, leaf: Type) -> tuple[str, str]:
            return convert_element(x, leaf, TextTraits())

        keys = ", ".join(map(quote, path.split(".")))
        value, wrong = nested_reading.convert("rowfall_value", type_, element)
        read = f"getSubcolumn(assumeNotNull({stored}), {quote(path)})"
        wrong = f"(({wrong}) OR ifNull(toString({value}) != toString({read}), 0))"
        mirror = quote(nested_reading.mirror(type_, any_text))
        value = (
            f"arrayExists(rowfall_value -> {wrong}, [JSONExtract(rowfall_json, {keys}, {mirror})])"
        )
        leaf = parse_type(type_)
        # The engine fills in what is not there.
        missing = int(leaf.known and not leaf.nullable)
        wrong = f"if(JSONHas(rowfall_json, {keys}), {value}, {missing})"
        found.append(f"arrayExists(rowfall_json -> {wrong}, [{json}])")
    return found


def misspelled(t: str, target: Type, value: str) -> str:
    """Return SQL that is 1 where inference would have kept a text, and a cast makes a value of it.

    Comparisons of text cost a fifth of a regular expression: between ``00`` and ``0:`` is all that
    begins with a 0 and a digit.

    Args:
        value: SQL for the number, of floats.
    """
    if target.base == "Bool":
        return f"ifNull(lower({t}) NOT IN ('true', 'false'), 0)"
    zeros = " OR ".join(f"({t} >= '{s}00' AND {t} < '{s}0:')" for s in ("", "-"))
    plus = f"startsWith({t}, '+')"
    if target.base == "Float64":
        # What prints as it was read is the nearest: 2571428571428571600, not 9007199254740993.
        lost = f"(abs({value}) >= {_EXACT} AND toString({value}) != {t}) OR {plus}"
        plus = f"(({lost}) AND match({t}, '^[-+]?[0-9]+$')) OR ({t} >= '+00' AND {t} < '+0:')"
    return f"ifNull({zeros} OR {plus}, 0)"


def beyond(value: str, precision: int, scale: int) -> str:
    """Return SQL that is 1 where a decimal has more digits than its type is said to have.

    The engine looks at the width in bytes only.
    """
    # abs() of the least integer of its width is that integer.
    most, least = (
        f"toDecimal256({quote(sign + '9' * (precision - scale) + '.' + '9' * scale)}, {scale})"
        for sign in ("", "-")
    )
    return f"({value} > {most} OR {value} < {least})"


def _convert_time(t: str, target: Type, shape: str) -> tuple[str, str]:
    """Convert points in time, which count as read only when they print as the text again."""
    base, args = target.base, [a.strip() for a in target.args.split(",") if a.strip()]
    if base in ("Time", "Time64"):
        return _convert_time_of_day(t, base, int(args[0]) if args else 3)
    if shape == ANY_SHAPE:
        return _convert_any_shape(t, target)
    if base in ("Date", "Date32"):
        value = f"to{base}OrNull({t})"
        return value, f"ifNull(toString({value}) != {t}, 1)"
    if shape == "epoch" and base == "DateTime":
        value = f"CAST(accurateCastOrNull({t}, 'UInt32'), {quote(f'Nullable({target.bare})')})"
        return value, f"isNull({value})"
    digits = int(args.pop(0)) if base == "DateTime64" and args else 3 * (base == "DateTime64")
    zone = "'UTC'" if shape == "Z" else (args[0] if args else "")
    source = f"substring({t}, 1, length({t}) - 1)" if shape == "Z" else t
    # Without digits releases before 26 take it for a DateTime, which ends in 2106.
    read_digits = [str(digits or 1)] if base == "DateTime64" else []
    value = f"to{base}OrNull({', '.join([source, *read_digits, *([zone] if zone else [])])})"
    if base == "DateTime64" and not digits:
        value = f"CAST({value}, {quote(f'Nullable({target.bare})')})"
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


def _convert_time_of_day(t: str, base: str, digits: int) -> tuple[str, str]:
    """Convert times of day, which count as read only when they print as the text again."""
    if base == "Time":
        value, expected = f"toTimeOrNull({t})", t
    else:
        value = f"toTime64OrNull({t}, {digits})"
        zeros = quote("." + "0" * digits) if digits else "''"
        whole = f"position(concat({t}, '.'), '.') - 1"
        expected = f"concat({t}, substring({zeros}, greatest(length({t}) - ({whole}) + 1, 1)))"
    # Hours may have three digits; 24:00:00 is one of those times. An hour of one digit prints as
    # two.
    return value, f"ifNull(toString({value}) != {expected}, 1)"


def _convert_any_shape(t: str, target: Type) -> tuple[str, str]:
    """Convert points in time inside of nested values, of which the sample shows no notation.

    A number is the seconds since 1970, and only for a DateTime: of a DateTime64 versions of the
    engine differ in whether it counts seconds or ticks.
    """
    if not target.base.startswith("DateTime"):
        return _convert_time(t, target, "")
    bare = quote(f"Nullable({target.bare})")
    found = {mark: _convert_time(t, target, mark) for mark in ("", "T", "Z", "epoch")}
    tests = [f"endsWith({t}, 'Z')", f"substring({t}, 11, 1) = 'T'"]
    marks = ["Z", "T", ""]
    if target.base == "DateTime":
        tests.insert(0, f"match({t}, '^[0-9]{{1,10}}$')")
        marks.insert(0, "epoch")
    values = [f"CAST({found[mark][0]}, {bare})" for mark in marks]
    wrongs = [found[mark][1] for mark in marks]

    def chosen(parts: list[str]) -> str:
        pairs = ", ".join(f"ifNull({a}, 0), {b}" for a, b in zip(tests, parts, strict=False))
        return f"multiIf({pairs}, {parts[-1]})"

    return chosen(values), chosen(wrongs)


# --- columns --------------------------------------------------------------------------------------


TAG = "rowfall: "
"""Start of every message that a guard raises inside the engine."""

MISSING = "\nmissing"
"""Stands for the field of a column that the header or a short row lacks: it fits no type."""


_SHAPES = ("", "T", "Z")
NUMBERS = frozenset({"Int128 DEFAULT 0", "Nullable(Int128) DEFAULT 0"})
"""Types that :func:`_read_as_number` reads: the mark of a column that can be read as text."""


def strict_column(
    name: str,
    source: str,
    target_type: str,
    kind: Kind,
    source_type: str = "",
    traits: TextTraits | None = None,
) -> Column:
    """Return the column that reads ``source`` into ``target_type``, refusing what does not fit.

    Args:
        name, source: column of the table, column of the file.
        kind: of the format; ``source_type`` is the declared type where the format has types.
        traits: how the values are written; by default nothing is known.
    """
    target, traits = parse_type(target_type), traits or TextTraits()
    csv = traits.file.csv and kind is Kind.TEXT
    column = Column(name=name, type=target_type, source=source)
    if kind is Kind.MADE:
        return column
    if kind is Kind.TYPED:
        source_ = parse_type(source_type or target_type)
        return _typed(column, target, source_, numbered=traits.file.numbered)
    if target.base == "SimpleAggregateFunction":
        # Its values are those of a type, and it is written as they are.
        inner = strict_column(name, source, arguments(target.args)[-1], kind, traits=traits)
        return replace(inner, type=target_type, notation=None)
    if nested_reading.is_nested(target_type) and nested_reading.is_checkable(
        target_type, null_tuples=kind is Kind.JSON
    ):
        # Types of nested text are not inferred.
        traits = replace(traits, canonical=traits.canonical and kind is Kind.JSON)
        return _read_nested(column, kind, csv, traits)
    # Objects of the type JSON are read as they stand and converted, so that each can be checked.
    objects = target.base == "JSON" and (kind is Kind.JSON or bool(typed_paths(target)))
    if nested_reading.variants(target):
        target = replace(target, nullable=True)  # in the way of its own
    elif not target.known and not objects:
        note = "nested values are checked by the engine's reader only"
        column = replace(column, read_type=target_type, reason=note)
        if regex(r"\bDynamic\b").search(target_type) is None:
            return column
        value = _checked_dynamic(column, target, csv=csv)
        check = ValueCheck(bad=_infinite_dynamic(column, target, kind))
        return replace(column, expression=value, check=check)
    # What the sample shows to be unusual is for the engine: the decoder would decline it anyway.
    traits = replace(traits, canonical=traits.canonical and has_spellings(target))
    shape = traits.shape if target.base.startswith("DateTime") else ""
    padded = traits.padded and not (target.text or target.base.startswith("Enum"))
    # Objects of the type JSON come as strings, which the engine makes objects of.
    decoded = target.base in abilities.TYPES or (target.base == "JSON" and not typed_paths(target))
    odd = traits.infinite or traits.file.bom
    if decoded and not odd and shape in _SHAPES:
        column = replace(column, notation=Notation(shape, traits.canonical, traits.blank, padded))
    if target.base in ("Float32", "Float64") and _is_read_directly(traits):
        return _read_directly(column, target, kind, csv)
    text = _read_as_text(column, target, kind, csv, traits)
    if (
        kind is Kind.TEXT
        and traits.nonzero
        and 0 < target.bits <= 64
        and not (traits.padded or traits.blank or traits.file.bom or traits.canonical)
    ):
        return _read_as_number(text, target)
    return text


def _checked_dynamic(column: Column, target: Type, *, csv: bool) -> str:
    """Return SQL for values with a Dynamic that raises at a number too large for a float, 1e400.

    The reader makes infinity of it. Strings inside of others are left out before that is looked
    for.

    Args:
        csv: fields of CSV, where the reader keeps what means NULL as text.
    """
    x, infinity = sql.name(column.source), r"\binf\b"
    string = quote(r"'(?:[^'\\]|\\.)*'")
    printed = f"replaceRegexpAll(ifNull(toString({x}), ''), {string}, '')"
    wrong = f"match({printed}, {quote(infinity)})"
    if target.base != "Dynamic":
        return _checked(x, wrong, column)
    wrong = f"dynamicType({x}) != 'String' AND {wrong}"
    null = f"if(toString({x}) IN ('', '\\\\N'), CAST(NULL, 'Dynamic'), {x})" if csv else x
    return _checked(null, wrong, column)


def _infinite_dynamic(column: Column, target: Type, kind: Kind) -> str:
    """Return SQL that is 1 where the text of a value with a Dynamic holds such a number.

    It names the row. What else such values are is known to the reader only.
    """
    x = f"ifNull({sql.name(column.source)}, '')"
    infinite = "ifNull(isInfinite(accurateCastOrNull({}, 'Float64')), 0)"
    if kind is Kind.TEXT and target.base == "Dynamic":
        return infinite.format(x)
    mark = '"' if kind is Kind.JSON else "'"
    string = quote(rf"{mark}(?:[^{mark}\\]|\\.)*{mark}")
    numbers = quote(r"-?[0-9]+(?:[.][0-9]*)?(?:[eE][-+]?[0-9]+)?")
    outside = f"extractAll(replaceRegexpAll({x}, {string}, ''), {numbers})"
    return f"arrayExists(n -> {infinite.format('n')}, {outside})"


def _read_as_number(text: Column, target: Type) -> Column:
    """Return an integer column whose sample holds no 0, read as a number with a guard against 0.

    The integer reader takes a quoted empty field for 0, and a column that the header lacks gets 0
    here: the guard raises, and :func:`with_integers_as_text` reads the objects again, so that a
    real 0 is fine. Int128 wraps from 39 digits on (Int64 would take 2^64 + 5 for 5).
    Measured on 50 M rows of three integers: 6.9 CPU-seconds, 7.8 as text, 6.5 without any check.
    """
    x = sql.name(text.source)
    wanted = f"Nullable({target.bare})" if target.nullable else target.bare
    read = "Nullable(Int128)" if target.nullable else "Int128"
    zero = f"ifNull({x} = 0, 0)" if target.nullable else f"{x} = 0"
    expression = _checked(f"accurateCast({x}, {quote(wanted)})", zero, text)
    return replace(text, read_type=f"{read} DEFAULT 0", expression=expression)


def _is_read_directly(traits: TextTraits) -> bool:
    """Tell whether the reader can parse floats without a loss.

    It cannot parse integers: those of CSV and TSV take a quoted empty field for 0 and wrap
    whatever their width, and what goes through Float64 takes 0.99999999999999999999 for 1.
    """
    odd = traits.padded or traits.blank or traits.file.bom
    return not (odd or traits.infinite or traits.canonical)


def _read_directly(column: Column, target: Type, kind: Kind, csv: bool) -> Column:
    x = sql.name(column.source)
    text = f"trimBoth({x}, ' \\t')" if csv else x  # as the reader does around CSV numbers
    parsed = f"accurateCastOrNull({text}, {quote(target.base)})"
    # Too large a number is read as infinity, and so is a column that the header lacks.
    wrong = f"ifNull(isInfinite({x}), 0)"
    value = x if target.nullable else f"assumeNotNull({x})"
    wrong = wrong if target.nullable else f"isNull({x}) OR {wrong}"
    expression = _checked(value, wrong, column)
    lenient = f"if(ifNull(isInfinite({parsed}), 0), NULL, {parsed})"
    bad = f"isNull({lenient})"
    if target.nullable:
        bad = f"isNotNull({x}) AND {bad}"
    read = f"Nullable({target.base})" + (" DEFAULT inf" if kind is Kind.TEXT else "")
    return replace(column, read_type=read, expression=expression, check=ValueCheck(lenient, bad))


def _read_as_text(
    column: Column, target: Type, kind: Kind, csv: bool, traits: TextTraits
) -> Column:
    x, tsv = sql.name(column.source), kind is Kind.TEXT and not csv
    # A text that takes no NULL is read with it: only unquoted \\N is one, to that reader.
    marked = csv and traits.file.native and target.text and not target.nullable
    read = "String" if csv and not (target.nullable or marked) else "Nullable(String)"
    if kind is Kind.TEXT:
        read += f" DEFAULT {quote(MISSING)}"
    text = f"if(startsWith({x}, '{BOM}'), substring({x}, 4), {x})" if traits.file.bom else x
    floats = csv and traits.canonical and "Float" in target.base  # read so but for their spelling
    if kind is Kind.JSON and target.bits:
        text = without_point(text)
    # The blanks of a name belong to it.
    if (traits.padded or floats) and not (target.text or target.base.startswith("Enum")):
        text = f"trimBoth({text}, ' \\t')"
    if traits.hex:
        text = f"unhex({text})"
    if target.nullable and csv and target.text and not traits.file.native:
        text = f"nullIf({text}, '\\\\N')"
    # What means NULL fits no other type, so its conversion gives NULL anyway: comparing is enough,
    # and unlike nullIf it copies no strings.
    blank = tsv or traits.blank or (csv and traits.file.native)
    nulls = [*(["\\N"] if csv else []), *([""] if blank else [])] if target.nullable else []
    if target.base in TIMES:
        for null in nulls:  # toDateTime64OrNull makes 1970 of nothing
            text = f"nullIf({text}, {quote(null)})"
        nulls = []
    value, wrong = convert(text, target, traits)
    utf8 = target.base == "String" and not traits.file.binary
    if target.text and kind is Kind.TEXT:
        # MISSING holds a line break, so one test finds both it and a quote never closed.
        broken = csv and not traits.breaks
        guard = f"position({x}, '\\n') > 0" if broken else f"{x} = {quote(MISSING)}"
        if marked:
            guard = f"isNull({x}) OR {guard}"
        elif csv and not target.nullable:  # NULL, which the column does not take
            guard += f" OR {x} = '\\\\N'"
        if utf8:
            guard += f" OR NOT isValidUTF8({x})"
        wrong = f"ifNull({guard}, 0)" + (f" OR {wrong}" if wrong != "0" else "")
    elif utf8:
        wrong = f"ifNull(NOT isValidUTF8({x}), 0)"
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
        if traits.canonical:
            expression = _checked(expression, misspelled(text, target, ""), column)
    else:
        plain = target.base == "String" and not marked
        whole = value if plain else f"assumeNotNull({value})"
        expression = _checked(whole, wrong, column) if wrong != "0" else whole
    if csv and target.text and not (target.nullable or marked):
        # Read leniently, an empty field is NULL; in a String column it is the empty string.
        lenient, bad = lenient.replace(x, f"ifNull({x}, '')"), bad.replace(x, f"ifNull({x}, '')")
    return replace(column, read_type=read, expression=expression, check=ValueCheck(lenient, bad))


def _read_nested(column: Column, kind: Kind, csv: bool, traits: TextTraits) -> Column:
    """Return a column of arrays, maps or tuples whose elements are checked as columns would be."""
    x, type_ = sql.name(column.source), column.type

    def element(x: str, target: Type) -> tuple[str, str]:
        return convert_element(x, target, traits)

    def of_text(text: str, part: str) -> tuple[str, str]:
        json = nested_reading.json_of_text(text)
        mirror = nested_reading.mirror(part, any_text, named=False)
        value, wrong = of_json(json, part, mirror, "isValidJSON(j)")
        return value, f"NOT {nested_reading.is_written(text, part)} OR {wrong}"

    def of_json(json: str, part: str, mirror: str, whole: str) -> tuple[str, str]:
        # Each is written once, whatever the number of elements: a statement has to fit a request.
        value, wrong = nested_reading.convert("m", part, element)
        found = nested_reading.extract("j", mirror)
        wrong = f"arrayExists(m -> NOT {whole} OR {wrong}, [{found}])"
        made = nested_reading.extract(json, mirror)
        made = made if value == "m" else f"arrayElement(arrayMap(m -> {value}, [{made}]), 1)"
        return made, f"arrayExists(j -> {wrong}, [{json}])"

    def typed(value: str) -> str:
        return f"CAST({value}, {quote(type_)})"

    if kind is Kind.JSON:
        mirror = nested_reading.mirror(type_, any_text)
        value, wrong = nested_reading.convert(x, type_, element)
        # Read leniently, it is the text as it stands in the line.
        json = nested_reading.with_numbers_as_strings(f"ifNull({x}, 'null')")
        lenient, unfit = of_json(json, type_, mirror, nested_reading.is_whole("j", "m"))
        null = parse_type(type_).nullable
        unfit = f"isNotNull({x}) AND ({unfit})" if null else f"isNull({x}) OR {unfit}"
        return replace(
            column, notation=Notation(canonical=True) if traits.canonical else None,
            read_type=mirror,
            check=ValueCheck(typed(lenient), f"ifNull({unfit}, 1)"),
            expression=_checked(typed(value), wrong, column),
        )  # fmt: skip
    if csv and not traits.whole and nested_reading.shape_of(type_).base == "Tuple":
        mirror, value, wrong = _fields_of_tuple(x, type_, element, of_text)
        return replace(
            column, read_type=mirror, expression=_checked(typed(value), wrong, column),
            reason="elements have fields of their own: bad rows cannot be left out",
        )  # fmt: skip
    value, wrong = of_text(x, type_)
    lenient, unfit = of_text(f"ifNull({x}, '')", type_)
    read = f"{'String' if csv else 'Nullable(String)'} DEFAULT {quote(MISSING)}"
    wrong = wrong if csv else unfit
    value = value if csv else lenient
    return replace(
        column, read_type=read, expression=_checked(typed(value), wrong, column),
        check=ValueCheck(typed(lenient), unfit),
    )  # fmt: skip


def with_whole_tuples(schema: Schema, encoding: Encoding) -> Schema:
    """Return the schema whose tuples of CSV are one field each, where they are written so."""
    if not encoding.is_csv or not any(map(_has_fields, schema.reads)):
        return schema
    if tuples_apart(encoding, schema.reads):
        return schema
    traits = TextTraits(whole=True, file=FileTraits(binary=encoding.binary))
    return _again(schema, encoding, _has_fields, traits)


def _has_fields(column: Column) -> bool:
    return nested_reading.shape_of(column.type).base == "Tuple"


def _fields_of_tuple(
    x: str, type_: str, element: nested_reading.Leaf,
    of_text: Callable[[str, str], tuple[str, str]],
) -> tuple[str, str, str]:  # fmt: skip
    """Return (type to read, value, "is wrong") of a tuple whose elements are fields of CSV."""
    kind = nested_reading.shape_of(type_)
    if kind.base != "Tuple":
        if nested_reading.is_nested(type_):
            return "String", *of_text(x, type_)
        value, wrong = element(x if kind.nullable else f"toNullable({x})", kind)
        return "Nullable(String)" if kind.nullable else "String", value, wrong
    found = [
        _fields_of_tuple(f"tupleElement({x}, {n})", part, element, of_text)
        for n, part in enumerate(elements(kind.args), 1)
    ]
    wrong = " OR ".join(f"({wrong})" for *_, wrong in found if wrong != "0") or "0"
    return (
        f"Tuple({', '.join(read for read, *_ in found)})",
        f"tuple({', '.join(value for _, value, _ in found)})",
        wrong,
    )


def _checked(value: str, wrong: str, column: Column) -> str:
    """Return SQL for ``value`` that raises when ``wrong``.

    A tuple costs nothing, ``if`` would copy strings.
    """
    if wrong == "0":
        return value
    line = "line break in" if "'\\n') > 0" in wrong else "a value does not fit"
    message = f"{TAG}{line} {column.name} {column.type}"
    return f"tupleElement(({value}, throwIf({wrong}, {quote(message)})), 1)"


# Of days of 86,400 seconds, 128 x 675, the reader keeps 32 bits: that many days begin at 0 again.
_DAYS = 1 << 25
_OF_675 = pow(675, -1, _DAYS)


def with_days(column: Column, stored: str, days: str) -> Column:
    """Return a column of Arrow that is read as points in time, with the days that it has.

    The engine's reader takes date64, milliseconds that make whole days, for seconds since 1970 in
    32 bits: 1960-01-01 is 2096-02-06 06:28:16. All days of 45,000 years are known by those bits.

    Args:
        column: as if its days were read as ``days``, a type with Date32.
        stored: the same type with DateTime, as the reader gives it.
    """
    epoch = date(1970, 1, 1)
    first, last = ((date.fromisoformat(end) - epoch).days for end in (WIDE.first, WIDE.last))

    def leaf(x: str, wanted: Type, own: Type) -> tuple[str, str] | None:
        if own.base != "DateTime":
            return x, "0"
        # What a NULL hides may be no day, at which a later cast would throw.
        known = f"ifNull({x}, 0)" if own.nullable else x
        seconds = f"toUInt64(toUInt32({known}))"
        turn = f"bitAnd(intDiv({seconds}, 128) * {_OF_675}, {_DAYS - 1})"
        number = f"toInt32(if({turn} < {_DAYS // 2}, toInt64({turn}), toInt64({turn}) - {_DAYS}))"
        within = f"if({number} < {first}, {first}, if({number} > {last}, {last}, {number}))"
        day = f"addDays(toDate32('1970-01-01'), {within})"
        # A reader of fewer years prints its own last day for a later one.
        kept = f"toInt32(toDate32OrNull(toString({day})))"
        lost = f"isNotNull({x}) AND ifNull({number} != {kept}, 1)"
        wrong = f"(ifNull({seconds} % 128 != 0, 0) OR ({lost}))"
        return f"if(isNull({x}), NULL, {day})" if own.nullable else day, wrong

    x = sql.name(column.source)
    found = nested_reading.convert_typed(x, stored, days, leaf)
    if found is None:
        raise ValueError(f"{stored} is not {days}")
    value, wrong = f"CAST({found[0]}, {quote(days)})", found[1]

    def of_days(expression: str, value: str) -> str:
        return f"arrayElement(arrayMap({x} -> {expression}, [{value}]), 1)" if expression else value

    bad = f"({wrong})"
    if column.check.bad:
        bad += f" OR {of_days(column.check.bad, value)}"
    check = ValueCheck(
        of_days(column.check.lenient, value),
        bad,
        f"if({wrong}, toString({x}), toString({found[0]}))",
    )
    return replace(
        column, read_type=stored, check=check,
        expression=of_days(column.expression, _checked(value, wrong, column)),
    )  # fmt: skip


def days_of(type_: str) -> str:
    """Return a type with Date32 where a reader of Arrow gives DateTime: it means date64."""
    return regex(r"\bDateTime\b(?!\()").sub("Date32", type_)


def _typed(column: Column, target: Type, source: Type, *, numbered: bool) -> Column:
    """Return a column of a format with types: bare, or a cast that is compared with its origin."""
    x = sql.name(column.source)
    column = replace(column, read_type=source.full)
    if source.bare == target.bare and (target.nullable or not source.nullable):
        return column
    nested = nested_reading.is_nested(source.full) and nested_reading.is_nested(target.full)
    if nested and source.bare != target.bare:
        element = partial(_typed_element, numbered=numbered)
        found = nested_reading.convert_typed(x, source.full, target.full, element)
        if found is not None:
            value, wrong = found
            value = f"CAST({value}, {quote(target.full)})"
            return replace(
                column, expression=_checked(value, wrong, column),
                check=ValueCheck(value, f"ifNull({wrong}, 1)" if wrong != "0" else ""),
            )  # fmt: skip
    if nested and (made := as_tuples(x, source, target)):
        return replace(column, expression=made, check=ValueCheck(made))
    if source.bare == target.bare:
        return replace(
            column,
            expression=f"accurateCast({x}, {quote(target.full)})",
            check=ValueCheck(x, "" if target.nullable else f"isNull({x})"),
        )
    if not (target.known and source.known):
        # What the engine alone knows has to print as it did.
        value = f"accurateCast({x}, {quote(target.full)})"
        wrong = f"ifNull(toString({value}) != toString({x}), 0)"
        return replace(
            column, expression=_checked(value, wrong, column), check=ValueCheck(value, wrong)
        )  # fmt: skip
    value, wrong = _typed_value(x, target, source, numbered=numbered)
    bad = f"isNotNull({x}) AND ({wrong})" if target.nullable else wrong
    whole = value if target.nullable else f"assumeNotNull({value})"
    return replace(column, expression=_checked(whole, bad, column), check=ValueCheck(value, bad))


def _typed_element(x: str, target: Type, source: Type, *, numbered: bool) -> tuple[str, str] | None:
    """Return (value, "is wrong") of an element of a nested value; None for types not known."""
    if source.bare == target.bare:
        if target.nullable or not source.nullable:
            return x, "0"
        return f"assumeNotNull({x})", f"isNull({x})"
    if not (target.known and source.known):
        return None
    value, wrong = _typed_value(x, target, source, numbered=numbered)
    if target.nullable:
        return value, f"(isNotNull({x}) AND ({wrong}))"
    return f"assumeNotNull({value})", f"({wrong})"


def _typed_value(x: str, target: Type, source: Type, *, numbered: bool = False) -> tuple[str, str]:
    """Return (value or NULL, "is wrong") of a value of another type; NULL counts as wrong."""
    if source.text and not target.text:
        # Most functions of text take no FixedString.
        text = f"toString({x})" if source.base == "FixedString" else x
        convert_ = _text_or_number if numbered else convert
        return convert_(text, target, TextTraits())
    if source.base.startswith("Enum") and target.base.startswith("Enum"):
        # The cast goes by the number, which may be that of another name.
        return convert(f"toString({x})", target, TextTraits())
    if source.bits and target.base in ("Enum8", "Enum16") and enum_numbers(target.args):
        return _numbered_enum(x, target)
    whole = source.base == "Decimal" and target.bits > 0
    if whole or (target.base == "Decimal" and (source.bits > 64 or "Float" in source.base)):
        # A cast of those raises where a number does not fit, or does not exist, or makes
        # 9007199254740992.0003505796 of a float, whose text is the shortest that means the same.
        return convert(f"toString({x})", target, TextTraits())
    if source.base == "Time64" and target.base == "Time":  # between which there is no cast
        text = f"replaceRegexpOne(toString({x}), '[.]0*$', '')"
        return convert(text, target, TextTraits())
    # The engine divides one float by another, which is the nearest one of few digits only.
    floated = source.base == "Decimal" and "Float" in target.base
    if floated and int(source.args.partition(",")[0]) > (15 if target.base == "Float64" else 7):
        x = f"toString({x})"
    value = f"accurateCastOrNull({_within(x, source, target)}, {quote(target.bare)})"
    wrong = f"isNull({value})"
    exact = (*TIMES, "Decimal", "Bool")
    if target.base == "Decimal":
        precision, _, scale = target.args.partition(",")
        wrong = f"ifNull({beyond(value, int(precision), int(scale or 0))}, 1)"
    if target.text or floated:
        return value, wrong  # rounding a decimal to a float is what was asked for
    if target.base in exact or source.base in exact:
        same = f"ifNull(CAST({value}, {quote(f'Nullable({source.bare})')}) != {x}, 1)"
        if source.bits and target.base == "Decimal":  # a cast back throws at what a NULL hides
            same = f"ifNull(toString({value}) != toString({x}), 1)"
        wrong = f"{same} OR {wrong}" if target.base == "Decimal" else same
    return value, wrong


def _text_or_number(t: str, target: Type, traits: TextTraits) -> tuple[str, str]:
    """Convert a text that may be the number of a time, an address or an Enum.

    The value, or NULL, and "is wrong" as :func:`convert` gives them.
    """
    if target.base not in (*TIMES, "Enum8", "Enum16", "IPv4"):
        return convert(t, target, traits)
    number = f"accurateCastOrNull({t}, 'Int64')"
    if target.base == "IPv4":
        unfit = f"ifNull({number} < 0 OR {number} > 4294967295, 1)"
        known = f"if({unfit}, 0, ifNull({number}, 0))"
        given = f"toIPv4OrNull(IPv4NumToString(toUInt32({known})))"
    else:
        given, unfit = _typed_value(number, target, parse_type("Nullable(Int64)"))
    value, wrong = convert(t, target, replace(traits, shape=ANY_SHAPE))
    is_number = f"isNotNull({number})"
    return f"if({is_number}, {given}, {value})", f"if({is_number}, {unfit}, {wrong})"


def _numbered_enum(x: str, target: Type) -> tuple[str, str]:
    """Convert the number of an Enum: releases before 26 store one that it does not have."""
    numbers = enum_numbers(target.args)
    known, bits = ", ".join(map(str, numbers)), "Int8" if target.base == "Enum8" else "Int16"
    wrong = f"ifNull({x} NOT IN ({known}), 1)"
    number = f"CAST(if({wrong}, {numbers[0]}, assumeNotNull({x})), '{bits}')"
    return f"if({wrong}, NULL, CAST({number}, {quote(target.bare)}))", wrong


# What a cast throws at, which then names no row: date_time_overflow_behavior is throw.
_BOUNDS = {
    ("Date32", "Date"): ("toDate32('1970-01-01')", "toDate32('2149-06-06')"),
    ("DateTime64", "Date"): (
        "toDateTime64('1970-01-01 00:00:00', 0, 'UTC')",
        "toDateTime64('2149-06-06 00:00:00', 0, 'UTC')",
    ),
    ("DateTime64", "DateTime"): (
        "toDateTime64('1970-01-01 00:00:00', 0, 'UTC')",
        # The engine refuses the last second that a DateTime has.
        "toDateTime64('2106-02-07 06:28:14', 0, 'UTC')",
    ),
}


# The first and last days that numbers of 64 bits count in so many digits of a second.
_NUMBERS_END = {8: ("0001-01-01", "4892-10-07"), 9: ("1677-09-22", "2262-04-11")}


def _within(x: str, source: Type, target: Type) -> str:
    """Return SQL for days and points in time that another type holds: the nearest one."""
    bounds = _BOUNDS.get((source.base, target.base))
    # In as many digits all are in range, and the ends of fewer would be none of the numbers there.
    fewer = target.digits in _NUMBERS_END and source.digits < target.digits
    if fewer and source.base in ("Date32", "DateTime64"):
        first, last = _NUMBERS_END[target.digits]
        if source.base == "Date32":
            bounds = f"toDate32('{first}')", f"toDate32('{last}')"
        else:
            bounds = f"toDateTime64('{first}', 0, 'UTC')", f"toDateTime64('{last}', 0, 'UTC')"
    if bounds is None:
        return x
    # What a NULL hides is cast, too, so it must not stand for others.
    return f"if({x} < {bounds[0]}, {bounds[0]}, if({x} > {bounds[1]}, {bounds[1]}, {x}))"


def within(
    columns: Sequence[Column], times: TimeRange, kind: Kind, timezone: str = ""
) -> tuple[Column, ...]:
    """Return the columns with a check that what is stored is within the engine's range of time.

    Whoever reads may know more years than who stores; and formats with types hold any number, which
    the engine prints as the last day that it knows.

    Args:
        kind: of the format. Text is compared with what it prints as, in all years of ours.
        timezone: of types that name none; "" for UTC.
    """
    if kind is Kind.MADE or (times == WIDE and kind is not Kind.TYPED):
        return tuple(columns)
    found = []
    for column in columns:
        x = column.expression or sql.name(column.source or column.name)
        wrong = _beyond_range(column.type, x, times, timezone or "UTC")
        if not wrong or _RANGE_CHECKED in column.expression:
            found.append(column)
            continue
        checked = _checked(x, wrong, column).replace(f"{TAG}a value", f"{TAG}{_RANGE_CHECKED}")
        lenient = column.check.lenient or ("" if column.expression else x)
        bad = column.check.bad
        if lenient:
            beyond = _beyond_range(column.type, lenient, times, timezone or "UTC")
            bad = f"({bad}) OR {beyond}" if bad else beyond
        found.append(replace(
            column, expression=checked, check=replace(column.check, lenient=lenient, bad=bad),
            read_type=column.read_type or column.type,
        ))  # fmt: skip
    return tuple(found)


_RANGE_CHECKED = "a day or point in time"


def _beyond_range(type_: str, x: str, times: TimeRange, timezone: str, depth: int = 0) -> str:
    """Return SQL that is 1 where a time of a value is out of range; "" for types without times."""
    kind = nested_reading.shape_of(type_)
    if kind.base == "Date32":
        ends = f"toDate32({quote(times.first)})", f"toDate32({quote(times.last)})"
        return f"ifNull({x} < {ends[0]} OR {x} > {ends[1]}, 0)"
    if kind.base == "DateTime64":
        zone = kind.args.partition(",")[2].strip() or quote(timezone)
        first = f"toDateTime64({quote(times.first + ' 00:00:00')}, 0, {zone})"
        last = f"toDateTime64({quote(times.last + ' 23:59:59')}, 0, {zone})"
        # With nine digits of a second numbers of 64 bits end in 1677 and 2262. Whole seconds are
        # compared, as the last day in nanoseconds is more than those.
        if kind.digits == 9:
            return f"ifNull({x} < {first}, 0)" if times != WIDE else ""
        whole = f"toDateTime64({x}, 0, {zone})" if kind.digits else x
        return f"ifNull({x} < {first} OR {whole} > {last}, 0)"
    if kind.base == "Array":
        inner = _beyond_range(kind.args, f"e{depth}", times, timezone, depth + 1)
        return inner and f"arrayExists(e{depth} -> {inner}, {x})"
    tests: list[str] = []
    if kind.base == "Map":
        parts = zip(("mapKeys", "mapValues"), arguments(kind.args), strict=True)
        tests = [
            _beyond_range(f"Array({part})", f"{name}({x})", times, timezone, depth)
            for name, part in parts
        ]
    elif kind.base == "Tuple":
        whole = f"assumeNotNull({x})" if kind.nullable else x
        tests = [
            _beyond_range(part, f"tupleElement({whole}, {n})", times, timezone, depth)
            for n, part in enumerate(elements(kind.args), 1)
        ]
        if kind.nullable and any(tests):
            return f"(isNotNull({x}) AND ({' OR '.join(filter(None, tests))}))"
    return " OR ".join(filter(None, tests))


def only_utf8(
    columns: Sequence[Column], encoding: Encoding | None, but: Collection[str]
) -> tuple[Column, ...]:
    """Return the columns with a check that texts are UTF-8, for a target whose texts have to be.

    Text that is read as UTF-8 has been checked already.

    Args:
        encoding: None for rows that are made. ``but``: names of columns that take any bytes.
    """
    known = encoding is not None and encoding.kind in (Kind.TEXT, Kind.JSON)
    known = known and encoding is not None and not encoding.binary
    found = []
    for column in columns:
        nested = parse_type(column.type).nested
        x = column.expression or sql.name(column.source or column.name)
        wrong = "" if column.name in but or (known and not nested) else _no_utf8(column.type, x)
        if not wrong:
            found.append(column)
            continue
        message = f"{TAG}bytes that are not UTF-8 in {column.name} {column.type}"
        checked = f"tupleElement(({x}, throwIf({wrong}, {quote(message)})), 1)"
        bad = f"({column.check.bad}) OR {wrong}" if column.check.bad else wrong
        check = replace(column.check, lenient=column.check.lenient or x, bad=bad)
        kind = column.read_type or column.type
        found.append(replace(column, expression=checked, check=check, read_type=kind))
    return tuple(found)


_SIGNED = regex(r"(?:Replicated)?(Versioned)?CollapsingMergeTree\((.*?)\)")
SIGN = "neither 1 nor -1 in the sign"
"""Part of the message about the sign of a table that collapses rows: the mark of such a column."""


def with_sign(schema: Schema, engine: str) -> Schema:
    """Return the schema with a check of the sign of a table that collapses rows, if it is one.

    An INSERT of the engine checks it only while it collapses rows, which a load switches off to
    count them; FINAL then leaves such rows out, and merges fail.

    Args:
        engine: with its arguments.
    """
    found = _SIGNED.match(engine)
    if found is None:
        return schema
    arguments_ = [argument.strip() for argument in found[2].split(",")]
    name = arguments_[-2 if found[1] else -1].strip('`"')
    columns = tuple(_signed(c) if c.name == name else c for c in schema.columns)
    return replace(schema, columns=columns)


def _signed(column: Column) -> Column:
    x = column.expression or sql.name(column.source or column.name)
    lenient = column.check.lenient or x
    message = f"{TAG}{SIGN} {column.name} {column.type}"
    expression = f"tupleElement(({x}, throwIf(({x}) NOT IN (1, -1), {quote(message)})), 1)"
    wrong = f"ifNull(({lenient}) NOT IN (1, -1), 1)"
    bad = f"({column.check.bad}) OR {wrong}" if column.check.bad else wrong
    return replace(
        column, notation=None, expression=expression, check=ValueCheck(lenient, bad),
        read_type=column.read_type or column.type,
    )  # fmt: skip


def _no_utf8(type_: str, x: str, depth: int = 0) -> str:
    """Return SQL that is 1 where a text of a value is not UTF-8; "" for types without texts."""
    kind = parse_type(type_)
    if kind.base == "String":
        return f"ifNull(NOT isValidUTF8({x}), 0)"
    if kind.base == "Array":
        inner = _no_utf8(kind.args, f"e{depth}", depth + 1)
        return inner and f"arrayExists(e{depth} -> {inner}, {x})"
    if kind.base == "Map":
        parts = zip(("mapKeys", "mapValues"), arguments(kind.args), strict=True)
        tests = [_no_utf8(f"Array({part})", f"{name}({x})", depth) for name, part in parts]
    elif kind.base == "Tuple":
        tests = [
            _no_utf8(part, f"tupleElement({x}, {n})", depth)
            for n, part in enumerate(elements(kind.args), 1)
        ]
    else:
        return ""
    return " OR ".join(filter(None, tests))


# --- other readings of the same rows -------------------------------------------------------------


def reads_numbers(schema: Schema) -> bool:
    """Tell whether some integer is read as a number because the sample held no 0."""
    return any(c.read_type in NUMBERS for c in schema.reads)


def with_integers_as_text(schema: Schema, encoding: Encoding) -> Schema:
    """Return the schema with all integers of text formats read as text."""
    traits = TextTraits(file=FileTraits.of(encoding))
    return _again(schema, encoding, lambda c: c.read_type in NUMBERS, traits)


def refuses_line_breaks(schema: Schema) -> bool:
    """Tell whether some string column takes a line break for a quote never closed."""
    return any(_refuses(c) for c in schema.reads)


def holds_line_breaks(columns: Sequence[Column]) -> bool:
    """Tell whether some string of CSV was seen to hold line breaks, which are not refused then."""
    return any(parse_type(c.type).text and not _refuses(c) for c in columns)


def with_line_breaks(schema: Schema, encoding: Encoding) -> Schema:
    """Return the schema whose strings may hold line breaks: all quotes are known to be closed."""
    traits = TextTraits(breaks=True, file=FileTraits.of(encoding))
    return _again(schema, encoding, _refuses, traits)


def _refuses(column: Column) -> bool:
    return "line break in" in column.expression


def _again(
    schema: Schema, encoding: Encoding, which: Callable[[Column], bool], traits: TextTraits
) -> Schema:
    traits = replace(traits, file=replace(traits.file, csv=encoding.is_csv))

    def made(column: Column) -> Column:
        found = strict_column(column.name, column.source, column.type, Kind.TEXT, traits=traits)
        found = replace(found, reason=column.reason, optional=column.optional)
        # What the table asks of a value is asked however it is read.
        return _signed(found) if SIGN in column.expression else found

    return schema.with_reads(tuple(made(c) if which(c) else c for c in schema.reads))
