"""Tuple columns of CSV: their elements stand in fields of their own, or in one as ``(1, 'x')``.

ClickHouse writes and reads them apart by default, so a line may have more fields than its header
has names. Which it is shows in the number of fields.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from rowfall.core.model import Column, Encoding

_CALL = re.compile(r"Tuple\s*\((.*)\)\s*\Z", re.S)
# What cuts a list of types, and the names in which it does not.
_PIECE = re.compile(r"'(?:[^'\\]|\\.)*'|`[^`]*`|[(),]|[^'`(),]+")
# The name of an element, before its type.
_NAME = re.compile(r"(?:`[^`]+`|\w+)\s+(?=\w)", re.ASCII)


def arguments(text: str) -> list[str]:
    """The types of a list, ``a UInt8, Map(String, UInt8)``, with their names if they have any."""
    parts, depth = [""], 0
    for piece in _PIECE.findall(text):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts]


def elements(arguments_: str) -> list[str]:
    """The types of a tuple's elements, without their names."""
    return [_NAME.sub("", part) for part in arguments(arguments_)]


def fields(type_: str) -> int:
    """Fields of CSV that a column takes where elements stand apart."""
    found = _CALL.match(type_.strip())
    return sum(map(fields, elements(found[1]))) if found else 1


def starts(types: Sequence[str]) -> list[int]:
    """The first field of each column where elements stand apart, and the number of all fields."""
    return [0, *accumulate(map(fields, types))]


def apart(encoding: Encoding, columns: Sequence[Column]) -> bool:
    """Whether elements stand apart: unless there is one field for each column."""
    takes = starts([c.type for c in columns])[-1]
    return not (takes > len(columns) == encoding.fields)


def width(encoding: Encoding, columns: Sequence[Column], names: int) -> int:
    """Fields of a line of ``names`` columns, among them ``columns``."""
    csv = encoding.is_csv
    more = starts([c.type for c in columns])[-1] - len(columns)
    return names + (more if csv and apart(encoding, columns) else 0)
