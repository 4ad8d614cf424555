"""Types that readers of the engine take values as, where they would change those of narrower ones.

The readers of MessagePack and Cap'n Proto keep as many bits of a number as the column has:
1,700,000,000,000 was a day of 2080 as DateTime, and 300 was 44 as UInt8. So numbers are read in 64
bits. That of Protobuf cuts fractions off and takes 2024-02-31 for a day, so values come as text.
That of RowBinary takes numbers of an Enum that it does not have. An expression converts and checks
each value then (strict_reading.py). Pure.
"""

from __future__ import annotations

from rowfall.core import sql
from rowfall.core.type_names import TIMES, NestedForms, Type, in_other_words

AS_TEXT = frozenset({"Protobuf", "ProtobufList", "ProtobufSingle"})
"""Formats whose numbers are read as text: of times and enums as well as of numbers."""
_FORMS = NestedForms("Array(%s)", "Map(%s, %s)", "Tuple(%s)", lambda name: str(sql.name(name)))
_NUMBERS = frozenset({"Bool", "Date", "Date32", "DateTime", "DateTime32"})
"""Types besides integers that are numbers in a file of MessagePack."""
_TEXTS = frozenset({"Bool", "Decimal", "Enum8", "Enum16", "FixedString", "IPv4", *TIMES})
"""Types besides integers that values of Protobuf are made of which are read as text."""
_DIGITS = 18
"""Digits of decimals that are numbers of 64 bits there."""
_ENUMS = {"Enum8": "Int8", "Enum16": "Int16"}


def read_as(format_: str, type_: str) -> str:
    """Return the type that values of a format are read as which are to be of another one."""
    if format_ == "MsgPack":
        return in_other_words(type_, _wide, _FORMS)
    if format_ == "CapnProto":
        return in_other_words(type_, _plain, _FORMS)
    if format_ in AS_TEXT:
        return in_other_words(type_, _text, _FORMS)
    if format_.startswith("RowBinary"):
        return in_other_words(type_, lambda t: _maybe_null(_ENUMS.get(t.base, ""), t), _FORMS)
    return type_


def _maybe_null(read: str, type_: Type) -> str:
    if not read:
        return type_.full
    return f"Nullable({read})" if type_.nullable else read


def _plain(type_: Type) -> str:
    """Return the type of plain numbers alone: others are taken from their own type of field."""
    if 0 < type_.bits < 64:
        return _maybe_null("Int64", type_)
    return _maybe_null("Float64" if type_.base == "Float32" else "", type_)


def _wide(type_: Type) -> str:
    wide = ""
    if 0 < type_.bits < 64 or type_.base in _NUMBERS:
        wide = "Int64"
    elif type_.base == "Float32":
        wide = "Float64"
    elif type_.base == "Decimal":
        digits, _, scale = type_.args.partition(",")
        wide = f"Decimal({_DIGITS}, {scale.strip() or 0})" if int(digits) <= _DIGITS else ""
    return _maybe_null(wide, type_)


def _text(type_: Type) -> str:
    if type_.base == "Float32":
        return _maybe_null("Float64", type_)
    return _maybe_null("String" if type_.bits or type_.base in _TEXTS else "", type_)
