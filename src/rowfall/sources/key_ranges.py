"""Keys of tables cut into ranges of numbers, and tables as catalogues describe them. Pure.

**Numbers.** A split is a half-open range of numbers that stand for values of a key, in their
order: integers and block numbers for themselves, points in time by microseconds, UUIDs by their
first 63 bits. Number 0 is open: it also stands for all values before it, and for NULL, which only
the key of a query can be. :data:`END` is open, too. So ranges that cover ``[0, END)`` cover every
row, whatever is inserted later, and which rows a range has does not depend on the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from rowfall.core.dataclass import dataclass
from rowfall.core.native import NativeType

END = (1 << 63) - 1
"""The number behind all values."""
WHOLE = ((0, 1),)
"""The ranges of what is one stream."""
BLOCKS = (1 << 32) - 1
"""Places of rows in a table at most: blocks, or rows."""

# A range of less does not pay its connection and its statement (20 ms); one of more would leave
# the others waiting at the end of a load.
RANGE_BYTES = 32 << 20
MOST_RANGES = 512
# Below this a table is one range.
SMALL_BYTES = 4 << 20
# A table of some size gets so many at least: streams for as many cores, which end together.
LEAST_RANGES = 16

# Each range of a column without an index reads the whole table.
UNINDEXED_RANGES = 4

_EPOCH = datetime(1970, 1, 1)
_UUID_BITS = 128 - 63


# --- keys -----------------------------------------------------------------------------------------


class KeyKind(StrEnum):
    """Kind of the values of a key."""

    INTEGER = "integer"
    DAY = "date"
    MOMENT = "timestamp"
    UUID = "uuid"
    BLOCK = "ctid"
    DECIMAL = "decimal"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Key:
    """A column whose values are cut into ranges.

    Attributes:
        sql: the column, quoted.
        grows: new rows have higher values than all others.
        nullable: some rows may have no value.
        low, end: the numbers of all values; ranges that begin or end there are open.
    """

    name: str
    sql: str
    kind: KeyKind
    grows: bool = False
    nullable: bool = False
    low: int = 0
    end: int = END

    def number(self, value: object) -> int | None:
        """Return the number that stands for a value; None where only an open range has it.

        Args:
            value: as text, or an int.
        """
        text = str(value)
        try:
            if self.kind is KeyKind.UUID:
                found = UUID(text).int >> _UUID_BITS
            elif self.kind in (KeyKind.DAY, KeyKind.MOMENT):
                found = (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)
            else:
                found = int(text)
        except (ValueError, OverflowError, TypeError):  # infinity, years before Christ
            return None
        return found if 0 < found < END else None

    def literal(self, number: int) -> str:
        """Return the least value of a number as a literal of SQL."""
        if self.kind is KeyKind.UUID:
            return f"'{UUID(int=number << _UUID_BITS)}'"
        if self.kind in (KeyKind.DAY, KeyKind.MOMENT):
            # A day begins with its first microsecond, so its values are cut between days.
            moment = _EPOCH + timedelta(microseconds=number)
            return f"'{moment.isoformat(' ')}'"
        if self.kind is KeyKind.BLOCK:
            return f"'({number - self.low},0)'"
        return str(number)

    def condition(self, start: int, stop: int) -> str:
        """Return the condition on the rows of a range; "" for all of them."""
        tests = [f"{self.sql} >= {self.literal(start)}"] if start > self.low else []
        tests += [f"{self.sql} < {self.literal(stop)}"] if stop < self.end else []
        found = " AND ".join(tests)
        if self.nullable and start == self.low and tests:
            found = f"({found} OR {self.sql} IS NULL)"
        return found

    def label(self, start: int, stop: int) -> str:
        """Return a range for people: half-open, as of a list of Python; "" for all rows."""
        low = self._shown(start) if start > self.low else ""
        high = self._shown(stop) if stop < self.end else ""
        if not low and not high:
            return ""
        if self.kind in (KeyKind.DAY, KeyKind.MOMENT):  # with colons of their own
            return f"[{low or 'first'} to {high or 'last'}]"
        return f"[{low}:{high}]"

    def _shown(self, number: int) -> str:
        if self.kind is KeyKind.BLOCK:
            return str(number - self.low)
        return Key.literal(self, number).strip("'").removesuffix(" 00:00:00")


class RowNumber(Key):
    """The number of a row in its table."""

    def literal(self, number: int) -> str:
        return str(number - self.low)


def cut(values: Iterable[int | None], count: int, end: int) -> list[tuple[int, int]]:
    """Cut ``[0, end)`` into at most ``count`` ranges that hold about as many of ``values`` each.

    Args:
        values: numbers of a sample of the key, in any order.
    """
    known = sorted(v for v in values if v is not None and 0 < v < end)
    places = {known[len(known) * n // count] for n in range(1, count)} if known else set()
    bounds = [0, *sorted(places), end]
    return list(itertools.pairwise(bounds))


def without(
    ranges: Iterable[tuple[int, int]], loaded: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the pieces of ``ranges`` that are in none of ``loaded``, as (start, stop)."""
    gone = sorted(loaded)
    left: list[tuple[int, int]] = []
    for start, stop in ranges:
        at = start
        for a, b in gone:
            if b <= at or a >= stop:
                continue
            if at < a:
                left.append((at, a))
            at = max(at, b)
        if at < stop:
            left.append((at, stop))
    return left


def count_ranges(size: int) -> int:
    """Return into how many ranges a table of so many bytes is cut."""
    if size < SMALL_BYTES:
        return 1
    return max(1, min(MOST_RANGES, max(LEAST_RANGES, size // RANGE_BYTES)))


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """One column of a table or query.

    Attributes:
        type: of ClickHouse. ``reason``: the type that it has in the database, and what that means.
        select: SQL whose text is what a reader of TSV takes for ``type``.
        bytes_each: of a value in memory, about.
        binary: SQL whose value in the database's binary protocol rowfall-decode takes for ``type``;
            "" where it has no such form. ``wire``: its type there, where rows do not say that.
        bytes: its strings are bytes, and no text.
        native: its type there; None where the values do not come in a form that it takes.
    """

    name: str
    type: str
    reason: str
    select: str
    bytes_each: float = 8.0
    binary: str = ""
    wire: str = ""
    bytes: bool = False
    native: NativeType | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """A table or query as the catalogue describes it.

    Attributes:
        name: for people, and in the URI of its splits: ``public.orders``.
        version: what changes when it is another one by that name.
        rows: about; ``key``: to cut by; None for one stream, ``why`` says why.
        ranges: to read, of numbers of the key; without one :data:`WHOLE`, () of an empty table.
        order_by: columns of its primary key.
        next_key: a number that the key of no row has reached, now or before, as far as it is known.
    """

    name: str
    version: str
    columns: tuple[SourceColumn, ...]
    rows: int
    key: Key | None
    why: str
    ranges: tuple[tuple[int, int], ...] = WHOLE
    order_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    next_key: int = END
