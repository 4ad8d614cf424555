"""Types that readers of the engine take numbers as, where they would change those of narrower ones.

The reader of MessagePack keeps as many bits of a number as the column has: 1,700,000,000,000 was a
day of 2080 as DateTime, and 300 was 44 as UInt8. So numbers are read in 64 bits, and an expression
converts and checks each (strict_reading.py). Pure.
"""

from __future__ import annotations

from rowfall.core import sql
from rowfall.core.type_names import NestedForms, Type, in_other_words

_FORMS = NestedForms("Array(%s)", "Map(%s, %s)", "Tuple(%s)", lambda name: str(sql.name(name)))
_NUMBERS = frozenset({"Bool", "Date", "Date32", "DateTime", "DateTime32"})
"""Types besides integers that are numbers in a file of MessagePack."""
_DIGITS = 18
"""Digits of decimals that are numbers of 64 bits there."""


def read_as(format_: str, type_: str) -> str:
    """Return the type that values of a format are read as which are to be of another one."""
    return in_other_words(type_, _wide, _FORMS) if format_ == "MsgPack" else type_


def _wide(type_: Type) -> str:
    wide = ""
    if 0 < type_.bits < 64 or type_.base in _NUMBERS:
        wide = "Int64"
    elif type_.base == "Decimal":
        digits, _, scale = type_.args.partition(",")
        wide = f"Decimal({_DIGITS}, {scale.strip() or 0})" if int(digits) <= _DIGITS else ""
    if not wide:
        return type_.full
    return f"Nullable({wide})" if type_.nullable else wide
