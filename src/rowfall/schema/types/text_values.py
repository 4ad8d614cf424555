"""SQL that makes values of the texts of a file, each with a test whether the text is one. Pure.

:func:`convert` knows how each type is written and what the engine would make of other texts;
:func:`convert_element` does the same inside of nested values. Measured on chDB 26.9.
"""

from __future__ import annotations

import re

from rowfall.core.dataclass import dataclass
from rowfall.core.model import Encoding
from rowfall.core.patterns import regex
from rowfall.core.sqltext import quote
from rowfall.core.type_names import TIMES, Type, arguments, parse_type
from rowfall.schema.types import nested_reading

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
    """

    csv: bool = True
    native: bool = False
    binary: bool = False
    bom: bool = False

    @classmethod
    def of(cls, encoding: Encoding) -> FileTraits:
        """Return the traits of files of an encoding, without a byte order mark."""
        return cls(encoding.is_csv, bool(encoding.null), encoding.binary)


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
