"""Tells whether the first record of text names the columns, and what the names are. Pure.

Each field of the first record is compared with the values below it. A word above numbers, or a date
above numbers, is a name; a number above numbers may be one (a year, a code), so it needs a reason:
it is not a value of its column, or the fields beside it are names. In doubt the answer is unsure,
and the caller says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex
from rowfall.core.value_kinds import NULL_WORDS, kind_of, most_kind

RECORDS = 400
"""Records of a sample whose values are looked at: 8 files of 50 each still show a type."""


@dataclass(frozen=True, slots=True)
class FileRecords:
    """The records of one sample from the header, or the first row, on.

    Attributes:
        skipped: lines before them; ``titles`` where some of these are neither blank nor comments.
        blank: blank lines between them.
    """

    uri: str
    rows: tuple[tuple[str, ...], ...]
    skipped: int = 0
    titles: bool = False
    blank: int = 0


@dataclass(frozen=True, slots=True)
class _Column:
    """A field of the first record, the values below it, and their kinds."""

    first: str
    own: str
    kind: str
    values: Counter[str]
    rows: int


def body_of(files: Sequence[FileRecords], width: int) -> list[tuple[str, ...]]:
    """Return rows of all files without the first of each, at most :data:`RECORDS`."""
    each = max(RECORDS // max(len(files), 1), 8)
    return [row for f in files for row in f.rows[1 : each + 1] if len(row) == width]


def has_header(files: Sequence[FileRecords], mark: str, width: int) -> tuple[bool, str, bool]:
    """Tell whether the first record names the columns, why, and whether that is sure.

    Where it differs in kind from the values of any column it is a header. Of text above text, and
    of numbers above numbers that may be values, it is data in doubt: no row is lost.

    Raises:
        UsageError: some files begin with the same line and others do not.
    """
    first = files[0].rows[0]
    if not any(f.strip() for f in first):
        return False, "the first line is empty", True
    body = body_of(files, width)
    columns = [_column(f, [row[n] for row in body if n < len(row)], mark)
               for n, f in enumerate(first)]  # fmt: skip
    if tuple(first) in map(tuple, body) and _stands_again(first, body, mark):
        return True, f"the first line holds names, and {AGAIN}", True
    same = sum(f.rows[0] == first for f in files)
    # Copies of one file have their second lines in common, too.
    seconds = {f.rows[1] for f in files if f.rows[1:2]}
    everywhere = same == len(files) > 1 and (len(seconds) > 1 or len(files) == 2)
    everywhere = everywhere and bool(seconds - {first})
    if not body and any(c.own not in ("", "?") for c in columns):
        return False, _VALUES, True
    names = [c for c in columns if c.own == "" and c.kind not in ("", "?")]
    others = [c for c in columns if c.own not in ("", "?", c.kind) and c.kind not in ("", "?")]
    alike = [c for c in columns if c.own not in ("", "?") and c.own == c.kind]
    if names and len(files) > 1 and 1 < same < len(files):
        _odd_start(files, first)
    if names and not alike:
        return True, "the first line holds names, the lines below numbers or times", True
    if _sequence(first, [c.own for c in columns], body, named=bool(names)) and not others:
        return True, "the first line counts the columns", True
    if everywhere and len(files) > 2:
        return True, f"the first line of all {same} sampled files is the same", True
    index = _is_index(columns)
    if index and [c.first.strip() for c in columns[1:]] == ["0"]:
        return True, "the first line names a series as pandas does", True
    if names or others or (index and alike):
        return _differing(columns, names + others, alike, index=index)
    if alike:
        return _numbered(columns, alike)
    if above := [c for c in columns if c.own not in ("", "?") and _is_text(c)]:
        counted = len(above) > 1 and len(_steps([c.first for c in above])) == 1
        texts = [c for c in columns if c.own == "" and c.first.strip()]
        named = bool(texts) and _share(texts) >= 1 and not any(map(_repeats, texts))
        return (True, _MAYBE, False) if counted and (index or named) else (False, _NO, False)
    if everywhere:
        return True, f"the first line of all {same} sampled files is the same", True
    if len(files) > 1 and same > 1 and same * 2 > len(files) and not any(map(_repeats, columns)):
        _odd_start(files, first)
    return _by_words(columns, index=index)


AGAIN = "stands again below"
"""Part of the reason for a header that is among the lines below it, too."""


def _stands_again(first: Sequence[str], body: Sequence[Sequence[str]], mark: str) -> bool:
    """Tell whether a line that is there several times is a header: texts above numbers or times.

    Files that were put together by cat keep their headers.
    """
    others = [row for row in body if tuple(row) != tuple(first)]
    columns = [_column(f, [row[n] for row in others if n < len(row)], mark)
               for n, f in enumerate(first)]  # fmt: skip
    named = all(c.own == "" and c.first.strip() for c in columns)
    if any(c.kind not in ("", "?") for c in columns):
        return named
    # Text above text: rows of the same few words stand again, too, and those are in other rows.
    apart = len(set(first)) == len(first) > 1 and bool(others)
    return named and apart and not any(c.first.strip() in c.values for c in columns)


_NO = "the first line looks like data; say --header yes if it names columns"
_MAYBE = "the first line looks like names; say --header no if it is data"
_VALUES = "the first line holds values, so there is no header"
# What stands where a value is missing, beside NULL_WORDS: no name either.
_MISSING = frozenset((".", "*", "?", "..", "...", "unknown", "missing", "n.a.", "nd", "n.d."))


def _column(first: str, values: Sequence[str], mark: str) -> _Column:
    text = first.strip()
    nothing = text in ("", *NULL_WORDS) or text.lower() in _MISSING
    counted = Counter(map(str.strip, values))
    return _Column(first, "?" if nothing else kind_of(text, mark), most_kind(counted, mark),
                   counted, len(values))  # fmt: skip


def _is_text(column: _Column) -> bool:
    """Tell whether all values, three at least, are text."""
    filled = [v for v in column.values if v]
    return column.kind == "" and len(filled) > 2 and not any(map(kind_of, filled))


def _is_index(columns: Sequence[_Column]) -> bool:
    """Tell whether only the first name is empty, above values that are all there, each once.

    So pandas and R write the numbers or names of rows.
    """
    head, *rest = columns
    return (
        not head.first.strip() and bool(rest) and all(c.first.strip() for c in rest)
        and head.rows > 0 and "" not in head.values and len(head.values) == head.rows
    )  # fmt: skip


def _differing(
    columns: Sequence[_Column], unlike: Sequence[_Column], alike: Sequence[_Column], *, index: bool
) -> tuple[bool, str, bool]:
    """Judge a first line that differs in kind from what is below it, in some columns."""
    why = "the first line holds other kinds of values than the lines below"
    apart = [c for c in alike if _stands_apart(c)]
    rows = max(c.rows for c in columns)
    if index and len(alike) > 2 and _rises([c.first for c in alike]):
        apart = list(alike)  # what tables of two keys have at their top
    if len(alike) > 2 and _are_codes(alike):
        apart = list(alike)
    if any(map(_shaped_alike, columns)) and not index:
        return False, _NO, False
    if len(apart) == len(alike):
        sure = rows > 2 and (index or len(unlike) >= len(alike) or not alike)
        return True, why if sure else _MAYBE, sure or not alike
    if len(unlike) + index > len(alike) - len(apart):
        return True, _MAYBE, False
    return False, _NO, False


def _numbered(columns: Sequence[_Column], alike: Sequence[_Column]) -> tuple[bool, str, bool]:
    """Judge a first line that holds numbers or times where the lines below do, and else text."""
    if any(map(_shaped_alike, columns)):
        return False, _VALUES, True
    texts = [c for c in columns if c.own == "" and c.first.strip()]
    apart = all(map(_stands_apart, alike))
    share = _share(texts) if texts else 0.0
    if apart and share >= 1:
        return True, _MAYBE, False
    if texts and (apart or (share >= 1.5 and not any(map(_repeats, texts)))):
        return False, _NO, False
    return False, _VALUES, True


def _stands_apart(column: _Column) -> bool:
    """Tell whether the first of a column is hardly one of its numbers or times.

    A year above other numbers, a percentage above what has no sign, or what is farther from all of
    them than they are from each other.
    """
    values = [v for v in column.values if v]
    if column.first.strip() in column.values or not values:
        return False
    if column.own != "number":
        return False
    if column.first.strip().endswith("%") and not any(v.endswith("%") for v in values):
        return True
    try:
        first, *numbers = (float(re.sub(r"[, '\u00a0%]", "", v)) for v in (column.first, *values))
    except ValueError:
        return False
    low, high = min(numbers), max(numbers)
    if _is_year(column.first):
        return sum(map(_is_year, values)) * 2 <= len(values)
    return len(numbers) > 1 and not low - (high - low) <= first <= high + (high - low)


def _are_codes(columns: Sequence[_Column]) -> bool:
    """Tell whether integers that rise stand above columns of fractions alone: codes, depths."""
    first = [c.first.strip() for c in columns]
    values = [v for c in columns for v in c.values if v and v not in NULL_WORDS]
    whole = all(f.isdecimal() for f in first) and _rises(first)
    return whole and len(values) >= _FRACTIONS and all("." in v for v in values)


_FRACTIONS = 20  # values: of a few rows none may happen to be whole


def _rises(numbers: Sequence[str]) -> bool:
    """Tell whether each number is greater than the one before it."""
    try:
        return all(a < b for a, b in pairwise(map(float, numbers)))
    except ValueError:
        return False


def _is_year(value: str) -> bool:
    value = value.strip()
    return len(value) == 4 and value.isdecimal() and 1800 <= int(value) <= 2200


def _odd_start(files: Sequence[FileRecords], first: Sequence[str]) -> None:
    odd = next((f.uri for f in files if f.rows[0] != first), None)
    if odd is not None and not any(
        sorted(x.strip() for x in f.rows[0]) == sorted(x.strip() for x in first)
        for f in files if f.uri == odd
    ):  # fmt: skip
        raise UsageError(
            f"{odd} does not start with the header of {files[0].uri}: {brief(first)}",
            hint="Say --header no when that line is data, or load the files on their own.",
        )


def _steps(numbers: Sequence[str]) -> set[int]:
    """Return the differences between integers one behind the other; of others {}."""
    if not all(n.strip().isdecimal() for n in numbers):
        return set()
    return {b - a for a, b in pairwise(map(int, numbers))}


def _sequence(
    first: Sequence[str], own: Sequence[str], body: Sequence[Sequence[str]], *, named: bool
) -> bool:
    """Tell whether the numbers in the first line name columns: years, or 0, 1, 2 as of pandas.

    Below them are other numbers: no years, and none that count on.

    Args:
        named: there are names above numbers besides.
    """
    places = [n for n, kind in enumerate(own) if kind == "number"]
    numbers = [int(first[n]) if first[n].strip().isdecimal() else -1 for n in places]
    steps = {b - a for a, b in pairwise(numbers)}
    if not numbers or (len(numbers) < 2 and not named) or len(steps) > 1 or not body:
        return False
    below = [row[n].strip() for row in body for n in places if n < len(row) and row[n].strip()]
    if all(1800 <= n <= 2200 for n in numbers) and steps <= {1, -1, 5, 10}:
        return sum(map(_is_year, below)) * 2 <= len(below)
    if steps != {1} or numbers[0] not in (0, 1) or len(numbers) < len(first) - 1:
        return False
    fractions = any("." in v or "," in v for v in below)
    return not first[0].strip() or (numbers[0] == 0 and len(numbers) > 2 and fractions)


# --- words --------------------------------------------------------------------------------------


def _repeats(column: _Column) -> bool:
    return bool(column.first.strip()) and column.first.strip() in column.values


_TOKEN = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+")
_NAME_WORDS = """
id ids name names date time timestamp datetime day month year type value values key code status
state city country region email mail user username customer client title description category
kind price amount count url address street zip postcode phone text message level gender sex age
order orders product item sku quantity qty total sum currency number no nr num first last full
middle created updated modified deleted at by from to start end begin source target label tag
tags class group department company brand model color colour size weight height width length lat
lon latitude longitude location place comment comments note notes remark remarks content body
subject author language lang version score rank rating index parent child account balance rate
ratio percent tax discount cost salary job role active flag is has ip host port path file
filename folder method event action session device browser os platform query result error reason
field column col attribute feature species genre artist album song movie film book team player
club league home away winner school vorname nachname strasse ort land datum betrag preis menge
kunde bestellung anzahl wert nom prenom ville pays montant prix fecha nombre ciudad importe
precio nome cidade data sepal petal sender recipient receiver
"""
_NAMED = frozenset(_NAME_WORDS.split())


def _by_words(columns: Sequence[_Column], *, index: bool) -> tuple[bool, str, bool]:
    """Judge a first line above columns of text alone."""
    first = [c.first for c in columns]
    rows = max((c.rows for c in columns), default=0)
    filled = [f.strip() for f in first if f.strip()]
    if any(len(f) > 60 or f.count(" ") > 6 for f in first):
        return False, _NO, False
    if _marked_alike(columns[0]):
        return False, "the first line is written like those below", False
    again = sum(map(_repeats, columns))
    counted = _counts_letters(filled)
    points = _points(columns) + 2 * index + 2 * counted * len(columns)
    if len(columns) > 1 and all(map(_alone_has_capital, columns)):
        points += 1.5 * len(columns)
    share = points / max(len(first), 1)
    shaped = any(_shaped_alike(c) for c in columns)
    if again * 2 > len(columns) and _full_alone(columns):
        return True, _MAYBE, False
    if again * 2 > len(columns) or (again and share < 1) or len(set(filled)) < len(filled) - 1:
        return False, _NO, again > 0 and rows > 3 and points <= 0
    if shaped and not counted:
        return False, "the first line is written like those below", share < 1
    if len(set(filled)) < len(filled):
        return share >= 1, _MAYBE if share >= 1 else _NO, False
    if len(first) == 1:
        return (share >= 1.5 and rows > 1), _NO if share < 1.5 else _MAYBE, False
    if points >= 1.5 and share >= 0.4:
        return True, _MAYBE, share >= 1 and not again
    return False, _NO, False


def _full_alone(columns: Sequence[_Column]) -> bool:
    """Tell whether the first line is full and others are sparse: marks of words stand there.

    A mark may be the name of its column again.
    """
    first = {c.first.strip() for c in columns}
    cells = sum(c.rows for c in columns)
    filled = cells - sum(c.values[""] for c in columns)
    full = len(columns) >= _MANY and len(first) == len(columns) and "" not in first
    return full and columns[0].rows >= _MANY and filled * 2 < cells


def _marked_alike(column: _Column) -> bool:
    """Tell whether a first field begins with a sign, as others below it do: ``@title``."""
    sign = column.first.strip()[:1]
    marked = bool(sign) and not sign.isalnum() and sign not in "_#\"'"
    return marked and any(value[:1] == sign for value in column.values)


def _alone_has_capital(column: _Column) -> bool:
    """Tell whether a name begins with a capital and none of many values below it does."""
    values = [v for v in column.values if v]
    named = column.first.strip()[:1].isupper() and column.first.isascii()
    return named and len(values) >= _MANY and not any(v[:1].isupper() for v in values)


_MANY = 8  # values: of a few, none may happen to have one


def _counts_letters(names: Sequence[str]) -> bool:
    """Tell whether names are letters or words that count the columns: a, b, c or V1, V2, V3."""
    if len(names) < 2:
        return False
    if all(len(n) == 1 and n.isalpha() for n in names):
        return {ord(b) - ord(a) for a, b in pairwise(names)} == {1}
    parts = [_COUNTED.fullmatch(n) for n in names]
    if not all(parts) or len({p[1] for p in parts if p}) > 1:
        return False
    return _steps([p[2] for p in parts if p]) == {1}


_COUNTED = regex(r"([A-Za-z]+[_ ]?)(\d+)")


def _share(columns: Sequence[_Column]) -> float:
    return _points(columns) / max(len(columns), 1)


def _points(columns: Sequence[_Column]) -> float:
    """Return a score for the first fields as names of the columns below them; more is likelier."""
    points = 0.0
    for column in columns:
        f, held = column.first, column.values
        values = {v: n for v, n in held.items() if v}
        count = sum(values.values())
        if f.strip() in values:
            points -= 1
            continue
        tokens = [t.lower() for t in _TOKEN.findall(f)]
        if any(t in _NAMED for t in tokens) and f.count(" ") < 4:
            points += 1.5
        elif "_" in f.strip("_") and not any("_" in v for v in values):
            points += 1
        if count >= 8 and len(values) * 3 <= count:
            points += 1.5  # each value comes again, this one does not
        sizes = {len(v) for v in values}
        if count >= 4 and len(sizes) == 1 and len(f) not in sizes:
            points += 1
        if count >= 3 and all(_DIGIT.search(v) for v in values):
            points += 0 if _DIGIT.search(f) else 1.5
        if count >= 3 and all(" " in v for v in values) and " " not in f.strip():
            points += 0.5
    return points


_DIGIT = regex(r"[\d@]")


def _shaped_alike(column: _Column) -> bool:
    """Tell whether most values are written like the first: ``user_1`` like ``user_2``."""
    shape = _shape(column.first)
    if not shape or column.own != "":
        return False
    like = sum(n for v, n in column.values.items() if _shape(v) == shape)
    return like * 2 > column.rows


def _shape(text: str) -> str:
    """Return the shape of a value with digits: ``a_9`` for ``user_1``; "" without a digit."""
    made = re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text.strip()))
    return made if "9" in made else ""


# --- names ---------------------------------------------------------------------------------------


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names without blanks around them: ``c3`` for an empty third, ``a_2`` for a second a.

    One that stands there as it is keeps its name: of ``a,a,a_2`` the second becomes ``a_3``.
    """
    trimmed = [" ".join(name.split()) if "\n" in name else name.strip() for name in names]
    taken = {name for name in trimmed if name}
    seen: set[str] = set()
    made: list[str] = []
    for number, name in enumerate(trimmed, 1):
        wanted = name or f"c{number}"
        if wanted in seen or (not name and wanted in taken):
            count = 2
            while f"{wanted}_{count}" in taken or f"{wanted}_{count}" in seen:
                count += 1
            wanted = f"{wanted}_{count}"
        seen.add(wanted)
        made.append(wanted)
    return tuple(made)


def brief(fields: Sequence[str]) -> str:
    """Return fields for a message, shortened."""
    text = ",".join(fields)
    return text if len(text) <= 80 else text[:77] + "..."
