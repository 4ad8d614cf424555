"""Says what rowfall-decode can do, for plans that may use it."""

from __future__ import annotations

from functools import lru_cache

from rowfall.core import type_names
from rowfall.core.type_names import Type, parse_type
from rowfall.decoder.abilities_table import ABILITIES

TEXT_FORMATS = frozenset(ABILITIES["text_formats"])
"""Formats whose records it finds before it parses them: several threads read one file."""
ROW_FORMATS = frozenset(ABILITIES["row_formats"])
"""Formats of rows in binary, as databases send them."""
COMPRESSIONS = frozenset(ABILITIES["compressions"])
"""Formats of text; what has columns or rows is read as it is."""
TYPES = frozenset(ABILITIES["types"])
"""Flat types, without arguments, of which it knows values."""
CODECS = frozenset(ABILITIES["codecs"])
"""Codecs of columns that it writes, without arguments."""
ZONES = frozenset((*ABILITIES["utc"], *ABILITIES["timezones"]))
UTC = frozenset(ABILITIES["utc"])
_NESTED = frozenset(ABILITIES["nested_types"])
_DICTIONARIES = frozenset(ABILITIES["dictionary_types"])
_CONVERTED = {own: frozenset(wanted) for own, wanted in ABILITIES["converted"].items()}
_POSTGRESQL = {name: frozenset(types) for name, types in ABILITIES["postgresql"].items()}
# What Arrow has; wider ones are of engines.
_DECIMAL_DIGITS = 38


def knows_flat(type_: str) -> bool:
    """Tell whether it knows the values of a flat type: dictionaries are of strings only."""
    base = parse_type(type_).base
    dictionary = type_.startswith("LowCardinality")
    return base in (_DICTIONARIES if dictionary else TYPES)


def converts(own: Type, wanted: Type) -> bool:
    """Tell whether it makes values of a type of values that files have in another one.

    What would become another value is an error, which the engine says: the program declines it.
    """
    if own.base == "Decimal" and int(own.args.partition(",")[0]) > _DECIMAL_DIGITS:
        return False
    if wanted.base == "DateTime" and own.bits:
        return False  # so engines send moments; in a file it is a number, which the engine converts
    return wanted.base in _CONVERTED.get(own.base, ())


def knows_zone(zone: str | None, engine: str) -> bool:
    """Tell whether it knows a time zone; "" is that of the engine, which is not told to it."""
    return zone is None or zone in ZONES or (zone == "" and engine in UTC)


def writes_postgresql(name: str, type_: Type) -> bool:
    """Tell whether it writes a type in binary for a column whose type PostgreSQL calls ``name``."""
    digits: int = ABILITIES["postgresql_second_digits"]
    return type_.base in _POSTGRESQL.get(name, ()) and type_.digits <= digits


@lru_cache(maxsize=256)
def flat_types(type_: str) -> tuple[str, ...]:
    """Return the types that values consist of: of ``Map(String, Array(UInt8))`` String and UInt8.

    Whatever nested type the program does not take is given back as it is.
    """
    kind = parse_type(type_)
    if not kind.nested or kind.nullable or kind.base not in _NESTED:
        return (kind.full,)
    named = kind.base == "Tuple"
    types = type_names.elements(kind.args) if named else type_names.arguments(kind.args)
    nested_keys = kind.base == "Map" and parse_type(types[0]).nested
    if nested_keys or len(types) > ABILITIES["tuple_elements"]:
        return (kind.full,)
    return tuple(flat for part in types for flat in flat_types(part))
