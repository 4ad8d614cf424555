"""Tries types on the value at hand, before a hint names one of them.

A type that should do by what is known of a column may not take the value all the same: DateTime64
has no 23:59:60 either. So each is read as a load would read it, a few milliseconds of the engine
for a load that has failed anyway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import Type, parse_type
from rowfall.schema.bad_rows.queries import WHOLE
from rowfall.schema.column_facts import RunSelect
from rowfall.schema.types import nested_reading
from rowfall.schema.types.strict_reading import FileTraits, TextTraits, days_of, strict_column

_PADDED = regex(r"\btrim(Both\(|\(BOTH\b)")
_INTEGER = regex(r"\bU?Int\d+\b")
_NUMBER = regex(r"\b(U?Int\d+|Float\d+)\b")


def taken_types(
    column: Column, value: str | None, types: Sequence[str], encoding: Encoding, ask: RunSelect,
    settings: Mapping[str, str | int | float],
) -> tuple[str, ...]:  # fmt: skip
    """Return those of some types that a value is taken as, in their order.

    Args:
        value: as it stands in the source, None for NULL.
        settings: of the reader.
    """
    if len(value or "") > WHOLE:  # what was cut is not a value
        return tuple(t for t in types if parse_type(t).base == "String")
    return tuple(
        type_
        for type_ in dict.fromkeys(types)
        if _is_taken(column, value, type_, encoding, ask, settings)
    )


def _is_taken(
    column: Column, value: str | None, type_: str, encoding: Encoding, ask: RunSelect,
    settings: Mapping[str, str | int | float],
) -> bool:  # fmt: skip
    if type_ == "JSON":
        return _fits_json(value)
    typed = encoding.kind is Kind.TYPED
    given = column.read_type if typed else "Nullable(String)"
    given = days_of(given) if column.check.shown else given  # the value is one as it is shown
    shape = column.notation.times if column.notation else ""
    padded = _PADDED.search(column.check.bad) is not None
    traits = TextTraits(
        padded=padded, shape=shape, infinite=value == "inf",
        breaks=True, file=FileTraits.of(encoding),
    )  # fmt: skip
    read = strict_column(
        column.name, column.source, type_, encoding.kind, given if typed else "",
        traits,
    )  # fmt: skip
    if read.reason and not read.check.bad:
        return False  # nobody can tell by a value alone
    literal = "NULL" if value is None else quote(value)
    cell = f"CAST(CAST({literal}, 'Nullable(String)'), {quote(given)})"
    query = f"SELECT ifNull(toUInt8({read.check.bad or '0'}), 1) FROM (SELECT {cell} AS "
    try:
        ((wrong,),) = ask(SqlText.of(f"{query}{sql.name(column.source)})"), settings)
    except RowfallError:
        return False
    return not int(wrong)


def candidates(column: Column, value: str | None, *, long_integers: bool = False) -> list[str]:
    """Return types that may take a value and what a column holds besides, the best one first.

    Args:
        long_integers: nested values hold integers of which a float may lose digits.
    """
    target = parse_type(column.type)
    found: list[str] = []
    if nested_reading.is_nested(column.type):
        if not long_integers:
            found.append(_INTEGER.sub("Float64", column.type))
        found.append(_NUMBER.sub("String", column.type))
        if target.base == "Tuple":
            found.insert(0, "JSON")
    elif not value:
        found.append(f"Nullable({target.bare})")
    else:
        bare = _wider(target, value)
        found.append(f"Nullable({bare})" if target.nullable else bare)
    found.append("Nullable(String)" if target.nullable or value is None else "String")
    return [type_ for type_ in found if type_ != column.type]


def _wider(target: Type, value: str) -> str:
    """Return a type without NULL that takes ``value`` and what ``target`` took."""
    if re.match(r"[-+]?0\d|\+", value):
        return "String"
    if target.bits and re.fullmatch(r"[-+]?\d+", value):
        number, signed = int(value), target.base.startswith("Int") or value.startswith("-")
        for bits in (b for b in (8, 16, 32, 64, 128, 256) if b > target.bits):
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
            if low <= number < high:
                return f"{'' if signed else 'U'}Int{bits}"
    elif target.bits and re.fullmatch(r"[-+]?\d*\.?\d+([eE][-+]?\d+)?", value):
        return "Float64"
    elif target.base == "Date":
        return "Date32"
    return "String"


def _fits_json(value: str | None) -> bool:
    """Tell whether a value is an object that a column JSON takes: no key stands twice in it.

    A key with a point may be a path that is there already, and one that was cut is not known.
    """

    def one_of_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs) or any("." in key for key in found):
            raise ValueError
        return found

    def no_number(_: str) -> None:
        raise ValueError

    try:
        found = json.loads(value or "", object_pairs_hook=one_of_each, parse_constant=no_number)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)
