"""Where Parquet files can be cut: between row groups that a column keeps apart.

No engine reads row groups by their number. ``_row_number`` is new (24.10 has none), and a condition
on it skips nothing: 26.9 reads all 2,000,000 rows for one of 16 groups. What 24.10 and 26.9 do skip
are groups whose minimum and maximum of a column exclude a condition: the 130,818 rows of that group
are all that is read. So a file is cut where all values of some column before are smaller than all
after. The conditions of all ranges cover every value once, whatever the statistics say; only how
much is read depends on them, and each range has to give the rows that the footer says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from rowfall.core.listing import Part, Split
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.schema.type_names import parse_type
from rowfall.sources.base import Source

_FOOTER = Encoding("ParquetMetadata", "none", Kind.TYPED)
_INTEGERS = re.compile(r"U?Int(8|16|32|64|128|256)")
# Decimal digits of a second in Parquet's timestamps, and the function that makes one a value.
_UNITS = {
    "milliseconds": (3, "fromUnixTimestamp64Milli"),
    "microseconds": (6, "fromUnixTimestamp64Micro"),
    "nanoseconds": (9, "fromUnixTimestamp64Nano"),
}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: rows, bytes as stored, and of some columns (minimum, maximum)."""

    rows: int
    size: int
    bounds: dict[str, tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class Footer:
    """What is known of one file: the columns that might cut it, with how each value is written."""

    columns: dict[str, _Value]
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True)
class _Value:
    """How a number of the statistics is compared.

    Attributes:
        function: makes it a value of the column; "" for plain integers.
        every: it has to be a multiple of this, or the column as it is read would round it.
        least: of those that can be told.
    """

    function: str = ""
    every: int = 1
    least: int = -(1 << 63)

    def text(self, value: int) -> str:
        return f"{self.function}({value})" if self.function else str(value)


def question(source: Source, split: Split, columns: Sequence[Column]) -> SqlText:
    """Asks an engine for the footer of one file, for :func:`footer`."""
    names = ", ".join(literal(c.source or c.name) for c in columns)
    return SqlText.of(
        # Statistics of texts are no text: any bytes.
        f"WITH arrayFilter(c -> c.path IN ({names}) AND c.physical_type IN ('INT32', 'INT64'), "
        "columns) AS numbers SELECT arrayMap(c -> (c.path, c.physical_type, c.logical_type, "
        "c.max_definition_level), numbers), arrayMap(g -> (g.num_rows, g.total_compressed_size, "
        "arrayMap(c -> (c.path, c.have_statistics, c.statistics.null_count, c.statistics.min, "
        "c.statistics.max), arrayFilter(c -> has(numbers.path, c.path), g.columns))), row_groups) "
        "FROM ",
        source.relation([split], _FOOTER, ""),
    )


def footer(row: Sequence[Any], columns: Sequence[Column]) -> Footer:
    """What the answer to :func:`question`, one row of JSON, says."""
    told, groups = row
    read = {c.source or c.name: c.read_type or c.type for c in columns}
    values: dict[str, _Value] = {}
    required: set[str] = set()
    for path, physical, logical, level in told:
        value = _value(str(physical), str(logical), read[str(path)])
        if value is not None:
            values[str(path)] = value
        if int(level) == 0:
            required.add(str(path))
    found = []
    for rows, size, own in groups:
        bounds = {
            str(path): (int(low), int(high))
            if there and low is not None and high is not None
            # What is shown of unsigned numbers is signed: those from 2^63 on come out negative.
            and values[str(path)].least <= int(low) <= int(high)
            and (str(path) in required or str(nulls) == "0")
            else None
            for path, there, nulls, low, high in own
            if str(path) in values
        }  # fmt: skip
        found.append(RowGroup(int(rows), int(size), bounds))
    return Footer(values, tuple(found))


def _value(physical: str, logical: str, read: str) -> _Value | None:
    """How the statistics of a column are compared with what is read; None: not at all."""
    kind = parse_type(read)
    if physical not in ("INT32", "INT64"):
        return None
    if _INTEGERS.fullmatch(kind.base) and (logical == "None" or logical.startswith("Int(")):
        return _Value(least=0) if "isSigned=false" in logical else _Value()
    if logical == "Date" and kind.base in ("Date", "Date32"):
        return _Value("toDate32")
    unit = next((u for u in _UNITS if f"timeUnit={u}" in logical), "")
    if unit and kind.base in ("DateTime", "DateTime64"):
        digits, function = _UNITS[unit]
        kept = int(kind.args.split(",")[0]) if kind.base == "DateTime64" else 0
        return _Value(function, 10 ** max(0, digits - kept))
    return None


def parts(split: Split, known: Footer, step: int) -> list[Split] | str:
    """Ranges of whole row groups, of about ``step`` stored bytes each; or why there are none.

    All cuts or none, and always at the same places: ranges of a file must be the same in every run,
    whatever column tells them apart.
    """
    at = [0, *accumulate(group.size for group in known.groups)]
    rows = [0, *accumulate(group.rows for group in known.groups)]
    cuts = [n for n in range(1, len(known.groups)) if at[n] // step != at[n - 1] // step]
    if not cuts:
        return "it is one row group; row groups of 100 MB or less can be loaded by several shards"
    for column, value in known.columns.items():
        lows = _lows(known.groups, column, cuts)
        if lows is None or any(low % value.every for low in lows):
            continue
        edges = [0, *cuts, len(known.groups)]
        texts = ["", *map(value.text, lows), ""]
        return list(_ranges(split, column, edges, texts, rows, at))
    return (
        "no column keeps its row groups apart, and the engine skips no others; a file sorted by a "
        "number or a time can be loaded by several shards"
    )


def _lows(groups: Sequence[RowGroup], column: str, cuts: Sequence[int]) -> list[int] | None:
    """The smallest value behind each cut, where all values before are smaller; None: they are not.

    Groups without rows have no values.
    """
    bounds: list[tuple[int, int]] = []
    places: list[int] = []
    for number, group in enumerate(groups):
        if not group.rows:
            continue
        own = group.bounds.get(column)
        if own is None:
            return None
        bounds.append(own)
        places.append(number)
    highest = list(accumulate((high for _, high in bounds), max))
    lowest = list(accumulate((low for low, _ in reversed(bounds)), min))[::-1]
    found = []
    for cut in cuts:
        after = sum(place < cut for place in places)
        if not 0 < after < len(places) or highest[after - 1] >= lowest[after]:
            return None
        found.append(lowest[after])
    return found


def _ranges(
    split: Split, column: str, edges: Sequence[int], texts: Sequence[str], rows: Sequence[int],
    at: Sequence[int],
) -> Iterator[Split]:  # fmt: skip
    size = split.size or 0
    for number, (first, last) in enumerate(pairwise(edges)):
        part = Part(size, column, texts[number], texts[number + 1])
        # The footer's own bytes are nobody's.
        yield Split(
            "", split.uri, split.version, at[last] - at[first], rows[first], rows[last], part
        )
