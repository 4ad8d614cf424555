"""Names of types of the engine, taken apart: what is nullable, how wide, which elements. Pure.

Tuples matter for CSV: ClickHouse writes and reads their elements as fields of their own by default,
so a line may have more fields than its header has names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex

_INT = regex(r"U?Int(8|16|32|64|128|256)\Z")
_CALL = regex(r"(\w+)(?:\((.*)\))?\Z", re.S)
_LENGTHS = {"Decimal32": 9, "Decimal64": 18, "Decimal128": 38, "Decimal256": 76}
_KNOWN = frozenset((
    "Float32", "Float64", "Bool", "UUID", "IPv4", "IPv6", "Decimal", "String", "FixedString",
    "Enum", "Enum8", "Enum16", "Date", "Date32", "DateTime", "DateTime64", "Time", "Time64",
    "BFloat16",
))  # fmt: skip
_TUPLE = regex(r"Tuple\s*\((.*)\)\s*\Z", re.S)
# What cuts a list of types, and the names in which it does not.
_PIECE = regex(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[(),]|[^'`(),]+")
# The name of an element, before its type.
_NAME = regex(r"(?:`[^`]+`|\w+)\s+(?=\w)", re.ASCII)
_NESTED = regex(r"\bNested\s*\Z")
_ENUM = regex(r"'((?:[^'\\]|\\.)*)'\s*=")
SECOND_DIGITS = 6
"""Digits of a second that most databases keep."""
TIMES = ("Date", "Date32", "DateTime", "DateTime32", "DateTime64", "Time", "Time64")


@dataclass(frozen=True, slots=True)
class Type:
    """A type name taken apart: ``LowCardinality(Nullable(String))`` is a nullable ``String``."""

    full: str
    base: str
    args: str
    nullable: bool

    @property
    def bare(self) -> str:
        """Return the type without Nullable and LowCardinality."""
        return f"{self.base}({self.args})" if self.args else self.base

    @property
    def bits(self) -> int:
        """Return the width of an integer type in bits, 0 for all others."""
        found = _INT.match(self.base)
        return int(found[1]) if found else 0

    @property
    def digits(self) -> int:
        """Return the digits of a second that a DateTime64 has, 0 for all others."""
        return int(self.args.split(",")[0] or 3) if self.base == "DateTime64" else 0

    @property
    def text(self) -> bool:
        """True for a string type."""
        return self.base in ("String", "FixedString")

    @property
    def nested(self) -> bool:
        """True where a value holds others."""
        return self.base in ("Array", "Map", "Tuple")

    @property
    def known(self) -> bool:
        """True where text can be checked value by value; other types only the engine can read."""
        return bool(self.bits) or self.base in _KNOWN or self.base.startswith("Interval")


def parse_type(text: str) -> Type:
    """Take a type name apart; unknown types come back as they are."""
    full = inner = text.strip()
    nullable = False
    while (found := _CALL.match(inner)) and found[1] in ("Nullable", "LowCardinality") and found[2]:
        nullable = nullable or found[1] == "Nullable"
        inner = found[2].strip()
    found = _CALL.match(inner)
    base, args = (found[1], (found[2] or "").strip()) if found else (inner, "")
    if base == "Nested" and args:
        base, args = "Array", f"Tuple({args})"
    if base in _LENGTHS:
        base, args = "Decimal", f"{_LENGTHS[base]}, {args}"
    return Type(full, base, args, nullable)


def text_columns(given: Iterable[str]) -> set[str]:
    """Return the columns whose type is text among those of ``--type``, as ``name String``."""
    pairs = (item.split(None, 1) for item in given)
    return {name for name, *type_ in pairs if type_ and parse_type(type_[0]).text}


def without_nested(type_: str) -> str:
    """Return a type with the arrays of tuples that ``Nested(...)`` stands for, at any depth."""
    parts: list[str] = []
    closing: list[str] = []
    for piece in _PIECE.findall(type_):
        if piece == "(":
            named = bool(parts) and _NESTED.search(parts[-1]) is not None
            if named:
                parts[-1] = _NESTED.sub("Array(Tuple", parts[-1])
            closing.append("))" if named else ")")
        parts.append(closing.pop() if piece == ")" and closing else piece)
    return "".join(parts)


def arguments(text: str) -> list[str]:
    """Return the types of a list, ``a UInt8, Map(String, UInt8)``, with their names if any."""
    parts, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def elements(arguments_: str) -> list[str]:
    """Return the types of a tuple's elements, without their names."""
    parts = ((part, _NAME.match(part)) for part in arguments(arguments_))
    return [part[found.end() :] if found else part for part, found in parts]


def element_names(arguments_: str) -> list[str]:
    """Return the names of a tuple's elements: where they have none, their numbers."""
    named = [_NAME.match(part) for part in arguments(arguments_)]
    return [
        found[0].strip().strip("`") if found else str(number)
        for number, found in enumerate(named, 1)
    ]


@dataclass(frozen=True, slots=True)
class NestedForms:
    """How a system writes nested types: arrays, maps and tuples, and the names of elements."""

    array: str
    map: str
    tuple: str
    quote: Callable[[str], str]

    def of(self, base: str, types: Iterable[str], names: Iterable[str] = ()) -> str:
        """Return a nested type.

        Args:
            base: ``Array``, ``Map`` or ``Tuple``. ``types``: what it is made of.
            names: of the elements of a tuple.
        """
        if base != "Tuple":
            return (self.map if base == "Map" else self.array) % tuple(types)
        named = zip(map(self.quote, names), types, strict=True)
        return self.tuple % ", ".join(f"{name} {type_}" for name, type_ in named)


def in_other_words(type_: str, leaf: Callable[[Type], str], forms: NestedForms) -> str:
    """Return a type in the words of another system.

    Args:
        leaf: gives those of a type that is not nested.
    """
    found = parse_type(type_)
    if found.base in ("Array", "Map"):
        inner = (in_other_words(t, leaf, forms) for t in arguments(found.args))
        return forms.of(found.base, inner)
    if found.base not in ("Tuple", "Nested"):
        return leaf(found)
    types = (in_other_words(t, leaf, forms) for t in elements(found.args))
    one = forms.of("Tuple", types, element_names(found.args))
    return forms.array % one if found.base == "Nested" else one


def enum_names(arguments_: str) -> list[str]:
    """Return the names of an enum's values."""
    return [re.sub(r"\\(.)", r"\1", name) for name in _ENUM.findall(arguments_)]


def enum_numbers(arguments_: str) -> list[int]:
    """Return the numbers of an enum's values."""
    return [int(number) for number in re.findall(r"-?[0-9]+", _ENUM.sub("", arguments_))]


def csv_fields(type_: str) -> int:
    """Return the number of CSV fields of a column, where each element of a tuple has its own."""
    found = _TUPLE.match(type_.strip())
    return sum(map(csv_fields, elements(found[1]))) if found else 1


def first_fields(types: Sequence[str]) -> list[int]:
    """Return the first field of each column, and the number of all fields, of CSV.

    Elements of tuples have fields of their own.
    """
    return [0, *accumulate(map(csv_fields, types))]
