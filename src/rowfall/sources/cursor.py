"""Follow a table or query of a database by a column whose values grow (``--cursor``).

A split is a range of the column's values, as of any key (:mod:`rowfall.sources.key_ranges`), so the
ranges that the target's own record holds say up to which value rows are loaded.

**Late rows.** A row gets its value before it is committed, so rows at or below the last value may
come after it was read. Each run reads the last values once more, the *overlap*, and compares the
rows there with those in the target, by their key and their value of the cursor. Those that the
target lacks are read with the range that goes on behind the last value, and are recorded with it.
Where no higher value has come, that range is the next number alone: it has an id of its own, and no
two loads that find the same late rows can both load them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.nearest import did_you_mean
from rowfall.core.options import Options
from rowfall.core.sqltext import literal
from rowfall.core.type_names import SECOND_DIGITS, Type, parse_type
from rowfall.core.units import parse_duration
from rowfall.sources.key_ranges import (
    END,
    Key,
    KeyKind,
    SourceColumn,
    without,
)

MOST_ROWS = 1_000_000
"""Rows of an overlap that are compared, of source and target each: some 200 MB of texts."""
MOST_LATE = 100_000
"""Late rows that one statement names: some 5 MB of SQL."""
STEPS = 1_000
"""By so many numbers the loaded range may end above the last value: late rows that came alone."""

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
# Of a decimal, so that all values are numbers of 63 bits; of a text, seven bits for each of nine.
_DECIMAL_DIGITS, _LETTERS, _LETTER_BITS = 18, 9, 7
_UUID_BITS, _UUID_TIME_BITS = 128 - 63, 63 - 48
# The defaults of --cursor-overlap. A transaction stamps its rows when it begins and commits later:
# five minutes are longer than those of applications last, and than their clocks differ. Rows of a
# day come until its end and, by other time zones, on the next one. Sequences give numbers to
# sessions that have not committed, up to some hundred at once.
_OVERLAPS = {
    KeyKind.MOMENT: "5m", KeyKind.UUID: "5m", KeyKind.DAY: "1d", KeyKind.INTEGER: "1000",
    KeyKind.DECIMAL: "0", KeyKind.TEXT: "0",
}  # fmt: skip
_TIMES = (KeyKind.MOMENT, KeyKind.UUID, KeyKind.DAY)
_KINDS = {
    "Date": KeyKind.DAY, "Date32": KeyKind.DAY, "DateTime": KeyKind.MOMENT,
    "DateTime64": KeyKind.MOMENT, "UUID": KeyKind.UUID, "Decimal": KeyKind.DECIMAL,
    "String": KeyKind.TEXT,
}  # fmt: skip
_TAKES = "Name an integer, a date, a timestamp, a decimal of up to 18 digits, a UUID of version 7 "
_TAKES += "or a text that sorts by its bytes."

Row = tuple[str | int, ...]
"""Texts of a row's key, then the number of its cursor."""


@dataclass(frozen=True, slots=True)
class CursorKey(Key):
    """A column whose values a table is followed by.

    Attributes:
        scale: of a decimal, its digits behind the point.
        wrap: SQL around a literal, ``{}``.
    """

    scale: int = 0
    wrap: str = "{}"

    def number(self, value: object) -> int | None:
        """Return the number that stands for a value; None where none does.

        The number of a lower value is lower or the same.
        """
        try:
            found = self._number(str(value))
        except (ValueError, OverflowError, TypeError, InvalidOperation):
            return None
        return found if 0 < found < END else None

    def _number(self, text: str) -> int:
        if self.kind is KeyKind.UUID:
            return UUID(text).int >> _UUID_BITS
        if self.kind in (KeyKind.DAY, KeyKind.MOMENT):
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is not None:
                moment = moment.astimezone(UTC).replace(tzinfo=None)
            return (moment - _EPOCH) // _MICROSECOND
        if self.kind is KeyKind.DECIMAL:
            return int(Decimal(text).scaleb(self.scale))
        if self.kind is KeyKind.TEXT:
            return _number_of_text(text)
        return int(text)

    @property
    def step(self) -> int:
        """Return by how many numbers two values differ at least."""
        return _DAY if self.kind is KeyKind.DAY else 1

    def floor(self, number: int) -> int:
        """Return the number of the highest value that is not above a number."""
        return number - number % self.step

    def plain(self, number: int) -> str:
        """Return the least value of a number as the database writes it."""
        if self.kind is KeyKind.DAY:
            return (_EPOCH + timedelta(microseconds=number)).date().isoformat()
        if self.kind is KeyKind.MOMENT:
            return (_EPOCH + timedelta(microseconds=number)).isoformat(" ")
        if self.kind is KeyKind.UUID:
            return str(UUID(int=number << _UUID_BITS))
        if self.kind is KeyKind.DECIMAL:
            return str(Decimal(number).scaleb(-self.scale))
        return _text_of_number(number) if self.kind is KeyKind.TEXT else str(number)

    def literal(self, number: int) -> str:
        """Return the least value of a number as a literal of SQL."""
        text = self.plain(number)
        return self.wrap.format(
            text if self.kind in (KeyKind.INTEGER, KeyKind.DECIMAL) else literal(text)
        )

    def label(self, start: int, stop: int) -> str:
        """Return a range for people, both ends included."""
        low = self.plain(start) if start > self.low else "first"
        last = self.plain(self.floor(stop - 1)) if stop < self.end else "last"
        return f"[{low} to {last}]"


def _number_of_text(text: str) -> int:
    """Return the number of the first letters; all that begin with these have the same."""
    number = 0
    for at in range(_LETTERS):
        letter = ord(text[at]) if at < len(text) else 0
        if letter > 127:  # and what follows: lower than any higher letter, and above all of ASCII
            rest = _LETTERS - at
            return ((number + 1) << (_LETTER_BITS * rest)) - 1 if at else END - 1
        number = number << _LETTER_BITS | letter
    return number


def _text_of_number(number: int) -> str:
    letters = [chr(number >> _LETTER_BITS * at & 127) for at in reversed(range(_LETTERS))]
    return "".join(letters).rstrip("\0")


@dataclass(frozen=True, slots=True)
class CursorKeyColumn:
    """A column of the key that tells rows of the overlap apart.

    Attributes:
        type: of ClickHouse.
        sql: the column, quoted; ``text``: SQL of its text.
        cast: behind a literal that is no number.
    """

    name: str
    type: str
    sql: str
    text: str
    number: bool
    cast: str = ""


@dataclass(frozen=True, slots=True)
class CursorSql:
    """What a dialect writes for a column that is followed.

    Attributes:
        sql: the column, quoted; ``text``: SQL of a value as text, {x}.
        wrap: see :class:`CursorKey`. ``cast``: behind a literal in a list of rows.
        values: a list of rows is VALUES (...), not a list in brackets.
        indexed: an index begins with it, or rows lie in its order.
        unique: no two rows have the same value.
        escapes: a backslash in a literal is an escape.
        refused: why texts of it cannot be followed; "" where they can.
    """

    sql: str
    text: str = "{x}"
    wrap: str = "{}"
    cast: str = ""
    values: bool = False
    indexed: bool = True
    unique: bool = False
    escapes: bool = False
    refused: str = ""


@dataclass(frozen=True, slots=True)
class CursorRows:
    """Rows of the target that are asked for: those from a value of the cursor on.

    Attributes:
        columns: names in the target: of the key, then of the cursor.
        types: of the source, of ClickHouse, in the same order.
        key: of the cursor; ``low``: its least number.
        most: rows.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    key: CursorKey
    low: int
    most: int = MOST_ROWS + 1

    @property
    def plain_low(self) -> str:
        """Return the least value, as databases read it."""
        return self.key.plain(self.low)

    @property
    def is_number(self) -> bool:
        """True where the least value is a number, so that it has no quotes."""
        return self.key.kind in (KeyKind.INTEGER, KeyKind.DECIMAL)


@dataclass(frozen=True, slots=True)
class Overlap:
    """Values that are read once more, behind which a range goes on.

    Attributes:
        low, end: numbers; the range that reads the late rows begins with ``end``.
        start: of the loaded range, before which others read what comes late.
    """

    low: int
    end: int
    start: int = 0


Ask = Callable[[str], Iterable[Sequence[Any]]]
"""Runs a query in the snapshot of the load and returns its rows."""


class Cursor:
    """The column that a source is followed by, and what was found out of it.

    Attributes:
        key: the column; ``keys``: those that tell rows apart, () where the cursor does that.
        overlap: numbers that are read once more. ``said``: the same for people.
        highest: number of the highest value that is there; None of an empty table.
        digits: of a second, of a moment.
    """

    def __init__(self, column: SourceColumn, found: CursorSql, options: Options, at: str) -> None:
        self.text, self.column, self.options, self.sql = at, column, options, found
        kind, scale, self.digits = _kind_of(column, found, at)
        type_ = parse_type(column.type)
        self.key = CursorKey(
            column.name, found.sql, kind, grows=True, nullable=type_.nullable, scale=scale,
            wrap=found.wrap,
        )  # fmt: skip
        self.said = options.cursor_overlap or _OVERLAPS[kind]
        self.overlap = _overlap(self.key, self.said)
        self.keys: tuple[CursorKeyColumn, ...] = ()
        self.highest: int | None = None
        self._late: dict[int, LateRows] = {}
        self._most = END

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def is_coarse(self) -> bool:
        """True where several values have one number."""
        return self.key.kind in (KeyKind.UUID, KeyKind.TEXT)

    @property
    def compares(self) -> bool:
        """True where the overlap is read again: with 0 and no two rows of a value nothing is."""
        return self.overlap > 0 or not self.sql.unique

    def take(self, value: object | None) -> None:
        """Take the highest value that is there.

        Raises:
            SourceError: nothing can follow it.
        """
        if value is None:
            return
        number = self.key.number(value)
        if number is None or (self.key.kind is KeyKind.UUID and str(UUID(str(value)))[14] != "7"):
            what = "a UUID of another version than 7, whose values do not grow"
            if self.key.kind is not KeyKind.UUID:
                what = "no value that others follow"
            low = "1970-01-01" if self.key.kind in _TIMES else "0"
            raise SourceError(
                f"{self.text}: the highest value of {self.name} is {value}, {what}",
                hint=f"Values have to be above {low} and finite; leave other rows out with "
                "--query, or name another column.",
            )
        self.highest = number

    def ahead(self) -> bool:
        """Return whether the highest value is more than a day in the future."""
        if self.highest is None or self.key.kind not in (KeyKind.MOMENT, KeyKind.DAY):
            return False
        return self.highest > (datetime.now(UTC).replace(tzinfo=None) - _EPOCH) // _MICROSECOND + (
            _DAY
        )

    @property
    def end(self) -> int:
        """Return the number behind the highest value."""
        return 0 if self.highest is None else self.highest + self.key.step

    # --- what goes on -----------------------------------------------------------------------------

    def last(self, end: int) -> int:
        """Return the number of the last value that a loaded range may hold."""
        return self.key.floor(end) - self.key.step

    def overlaps(self, loaded: Sequence[tuple[int, int]]) -> list[Overlap]:
        """Return the overlap in front of each number at which a loaded range ends.

        Each lies within its range: what is not loaded in front of it is read as a range.
        """
        if not self.compares:
            return []
        return [
            Overlap(max(start, min(self.last(end), self._there()) - self.overlap, 0), end, start)
            for start, end in loaded
        ]

    def _there(self) -> int:
        return END if self.highest is None else self.highest

    def settled(self, overlap: Overlap, loaded: Collection[Row]) -> Overlap:
        """Return an overlap that begins before the last value that the target really has there.

        Where late rows came alone, the loaded range ends above it, see :meth:`rest`.

        Args:
            loaded: rows of the target from :data:`STEPS` before the overlap on.
        """
        last = self.last(overlap.end)
        numbers = (int(row[-1]) for row in loaded)
        highest = max((n for n in numbers if n < overlap.end), default=last)
        if not 0 < last - highest <= STEPS:
            return overlap
        low = max(overlap.start, min(overlap.low, highest - self.overlap))
        return Overlap(low, overlap.end, overlap.start)

    def went_back(self, end: int) -> bool:
        """Return whether the table ends far below what is loaded: it was set back, or emptied."""
        slack = self.overlap + STEPS if self.compares else 0
        return self.highest is not None and self.highest + slack < self.last(end)

    def stop_at(self, end: int) -> None:
        """Have nothing read from a number on."""
        self._most = end

    @property
    def stopped(self) -> bool:
        """True where values are left out that are there, see :meth:`stop_at`."""
        return self._most != END

    def read_late(self, found: LateRows) -> None:
        """Have the range that begins where an overlap ends read late rows, too.

        Raises:
            UsageError: they are too many to name.
        """
        if len(found.rows) + len(found.runs) > MOST_LATE:
            raise UsageError(
                f"{self.text}: more than {MOST_LATE:,} rows that are not loaded lie among loaded "
                f"ones in the last {self.said} of {self.name}",
                hint="Load all of it anew: the same command with --replace.",
            )
        if found.rows or found.runs:
            self._late[found.overlap.end] = found

    def rest(
        self, ranges: Iterable[tuple[int, int]], loaded: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Return what is left of ranges, and the next number where only late rows have come."""
        left = without([(a, min(b, self._most)) for a, b in ranges if a < self._most], loaded)
        starts = {start for start, _ in left}
        left += [(end, end + 1) for end in self._late if end not in starts]
        return sorted(left)

    def condition(self, start: int, stop: int) -> str:
        """Return the condition on the rows of a range, and on the late ones that it brings."""
        key = self.key
        stop = key.floor(stop) if stop < key.end else stop
        late = self._late.get(start)
        low = key.floor(start)
        if late is None:
            return key.condition(low, stop)
        bounds = key.condition(max(1, late.overlap.low), max(stop, key.floor(late.overlap.end)))
        # Where no higher value was there, none is read: one that has come since would move the end
        # from which the next overlap is counted, and rows that came with it might lie before that.
        behind = low < stop and start < self.end
        tests = [f"{key.sql} >= {key.literal(low)}"] if behind else []
        tests += [f"({key.condition(*run)})" for run in late.runs]
        tests += [self._among(late)] if late.rows else []
        return f"{bounds} AND ({' OR '.join(tests)})"

    def _among(self, found: LateRows) -> str:
        """Return the condition that a row is one of some: a key is that of one row.

        One that was changed meanwhile may have a value behind the overlap, and is read with that.
        """
        below = f"{self.key.sql} < {self.key.literal(self.key.floor(found.overlap.end))}"
        columns = [one.sql for one in self.keys] or [self.key.sql]
        listed = ", ".join(self._row(row, first=n == 0) for n, row in enumerate(found.rows))
        left = f"({', '.join(columns)})" if len(columns) > 1 else columns[0]
        return f"({below} AND {left} IN ({'VALUES ' * self.sql.values}{listed}))"

    def _row(self, row: Row, *, first: bool) -> str:
        casts = self.sql.values and first  # the types of a list of rows are those of the first
        values = [
            str(value) if one.number else self._quoted(str(value)) + one.cast * casts
            for one, value in zip(self.keys, row, strict=False)
        ] or [self.key.literal(int(row[-1])) + self.sql.cast * casts]
        text = ", ".join(values)
        return f"({text})" if self.sql.values or len(values) > 1 else text

    def _quoted(self, text: str) -> str:
        """Return a literal of the database's own dialect."""
        return literal(text.replace("\\", "\\\\") if self.sql.escapes else text)

    # --- questions --------------------------------------------------------------------------------

    def wanted(self, columns: Sequence[str], low: int) -> CursorRows:
        """Return what is asked of the target from a number on; ``columns``: their names there."""
        types = (*(one.type for one in self.keys), self.column.type)
        return CursorRows(tuple(columns), types, self.key, low)

    def question(self, relation: str, overlap: Overlap) -> str:
        """Return the query for key and value of the rows of an overlap."""
        texts = [*(one.text for one in self.keys), self.sql.text.format(x=self.key.sql)]
        where = self.key.condition(max(1, overlap.low), self.key.floor(overlap.end))
        return f"SELECT {', '.join(texts)} FROM {relation} WHERE {where} LIMIT {MOST_ROWS + 1}"

    def rows(self, found: Iterable[Sequence[Any]]) -> Iterator[Row]:
        """Give key and number of rows.

        Raises:
            RowfallError: there are too many, or a value is of another kind.
        """
        for count, values in enumerate(found):
            if count >= MOST_ROWS:
                raise self.too_many()
            number = self.key.number(values[-1])
            if number is None:
                raise SourceError(f"{self.text}: {self.name} {values[-1]!r} cannot be compared")
            yield (*map(str, values[:-1]), number)

    def too_many(self) -> UsageError:
        """Return the error of an overlap that cannot be compared."""
        return UsageError(
            f"{self.text}: more than {MOST_ROWS:,} rows lie in the overlap of {self.said} in front "
            f"of the last {self.name}",
            hint="Give a shorter one with --cursor-overlap, as long as transactions last.",
        )

    def describe_end(self, end: int) -> str:
        """Return the last value that is loaded, for people."""
        return self.key.plain(self.last(end))

    def question_back(self, end: int) -> SourceError:
        """Return the error of a table whose highest value is below what is loaded."""
        there = self.key.plain(self._there())
        return SourceError(
            f"{self.text}: rows were loaded up to {self.name} {self.describe_end(end)}, and the "
            f"highest value is {there} now: the table was set back or made anew, or its newest "
            "rows were deleted, and rows that come up to the loaded value would count as loaded",
            hint="Load all of it anew: the same command with --replace. Where only rows were "
            "deleted, --loaded all goes on behind the loaded value.",
        )


@dataclass(frozen=True, slots=True)
class LateRows:
    """Rows of an overlap that the target lacks.

    Attributes:
        count: of all. ``runs``: half-open ranges of numbers of which the target has no row.
        rows: the others, one by one.
    """

    overlap: Overlap
    count: int
    runs: tuple[tuple[int, int], ...]
    rows: tuple[Row, ...]


def late(overlap: Overlap, step: int, source: Iterable[Row], target: Collection[Row]) -> LateRows:
    """Return the rows of the source that the target lacks.

    A transaction that lasted gives thousands of one value, so what can be is named by ranges.

    Args:
        step: by how many numbers two values differ at least.
    """
    missing: dict[int, list[Row]] = {}
    mixed: set[int] = set()
    for row in source:
        if row in target:
            mixed.add(int(row[-1]))
        else:
            missing.setdefault(int(row[-1]), []).append(row)
    runs: list[tuple[int, int]] = []
    one_by_one: list[Row] = []
    open_run: list[int] = []

    def close() -> None:
        if sum(len(missing[n]) for n in open_run) > 1:
            runs.append((open_run[0], open_run[-1] + step))
        else:
            one_by_one.extend(row for n in open_run for row in missing[n])
        open_run.clear()

    for number in sorted({*missing, *mixed}):
        if number not in mixed:
            open_run.append(number)
            continue
        close()
        one_by_one += missing.get(number, ())
    close()
    count = sum(map(len, missing.values()))
    return LateRows(overlap, count, tuple(runs), tuple(one_by_one))


def _kind_of(column: SourceColumn, found: CursorSql, at: str) -> tuple[KeyKind, int, int]:
    """Return kind, decimal digits and digits of a second of a column.

    Raises:
        UsageError: its values cannot be followed.
    """
    type_: Type = parse_type(column.type)
    kind = KeyKind.INTEGER if type_.bits and type_.bits <= 64 else _KINDS.get(type_.base)
    why = "" if kind is not None else "is nothing that grows"
    scale = 0
    if kind is KeyKind.DECIMAL:
        digits, _, after = type_.args.partition(",")
        scale = int(after or 0)
        why = "has more than 18 digits" if int(digits) > _DECIMAL_DIGITS else ""
    elif kind is KeyKind.TEXT:
        why = "is bytes" if column.bytes else found.refused
    digits_of_second = type_.digits
    if digits_of_second > SECOND_DIGITS:
        why = f"has {digits_of_second} digits of a second, more than {SECOND_DIGITS}"
    if why or kind is None:
        shown = column.reason.removesuffix(" of the database")
        raise UsageError(
            f"--cursor {column.name}: {at} has it as {shown}, which {why}", hint=_TAKES
        )
    return kind, scale, digits_of_second


def _overlap(key: CursorKey, text: str) -> int:
    """Return an overlap as numbers.

    Raises:
        UsageError: it is of another kind than the column.
    """
    given = text.strip()
    if given == "0":
        return 0
    if key.kind in _TIMES:
        try:
            seconds = parse_duration(given)
        except UsageError:
            seconds = 0.0
        if seconds and not given.replace("_", "").isdigit():
            if key.kind is KeyKind.UUID:
                return int(seconds * 1000) << _UUID_TIME_BITS
            return -(-int(seconds * 1_000_000) // key.step) * key.step
        wanted = "a time: 30s, 5m, 1d"
    elif key.kind is KeyKind.TEXT:
        wanted = "0: the last value is read once more"
    else:
        try:
            value = Decimal(given.replace("_", "")).scaleb(key.scale)
            if value.is_finite() and value >= 0:
                return int(value.to_integral_value())
        except InvalidOperation:
            pass
        wanted = "a number: 1000"
    raise UsageError(
        f"--cursor-overlap {text} does not fit {key.name}, a {key.kind}", hint=f"Give {wanted}."
    )


def find_column(columns: Sequence[SourceColumn], name: str, option: str, at: str) -> SourceColumn:
    """Return the column of a name.

    Raises:
        UsageError: there is none.
    """
    found = next((column for column in columns if column.name == name), None)
    if found is None:
        names = [column.name for column in columns]
        raise UsageError(
            f"{option} {name}: {at} has no such column",
            hint=f"{did_you_mean(name, names)}Its columns: {', '.join(names[:20])}.",
        )
    return found


def key_names(options: Options, primary: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that tell rows apart: of ``--upsert`` or ``--key``, or the primary key."""
    given = options.upsert or options.key
    if given is None:
        return tuple(primary)
    return tuple(part.strip().strip('`"') for part in given.split(",") if part.strip())


def check_key_type(column: SourceColumn, at: str) -> bool:
    """Return whether a column of a key is a number.

    Raises:
        UsageError: its values have several texts.
    """
    type_ = parse_type(column.type)
    if type_.bits and type_.bits <= 64:
        return True
    if type_.base in ("String", "UUID", "Date", "Date32") and not column.bytes:
        return False
    raise UsageError(
        f"{at}: rows of the overlap cannot be compared by {column.name}, a {column.reason}",
        hint="Name other columns that tell rows apart with --key: integers, texts, dates or UUIDs.",
    )


def no_key(cursor: Cursor, at: str) -> UsageError:
    """Return the error of rows that cannot be told apart."""
    return UsageError(
        f"--cursor {cursor.name}: nothing tells rows of {at} apart that have the same "
        f"{cursor.name}, so rows that come late could not be told from loaded ones",
        hint="Name the columns whose values together only one row has: --key id",
    )
