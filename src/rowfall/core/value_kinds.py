"""Tells of what kind a value of text is: a number, a time, a UUID, true or false, or text. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from rowfall.core.patterns import regex

NULL_WORDS = frozenset(
    (
        "NULL", "null", "Null", "NA", "N/A", "n/a", "#N/A", "-", "--", "None", "none", "nil", "\\N",
        "(null)", "<NA>", "NONE", "NIL", "n.a.", "N.A.", "n.d.", "nd", "missing", "unknown",
        ".", "..", "...", "*", "?", ":", "---", "\u2013", "\u2014",
        "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!",
    )
)  # fmt: skip
"""Words that stand where a value is missing."""

MISSING_WORDS = frozenset(("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "?"))
"""Words that mean nothing else than a missing value in a column of numbers or times."""

_NUMBER = regex(r"[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf(inity)?|nan)%?\Z", re.I)
_COMMA = regex(r"[-+]?(\d{1,3}([. ]\d{3})+|\d+),\d+\Z")
_GROUPED = regex(r"[-+]?\d{1,3}([,. '\u00a0]\d{3})+([.,]\d+)?\Z")
_CLOCK = r"\d{1,2}:\d\d(:\d\d([.,]\d+)?)?( ?[AaPp][Mm])?"
_TIME = regex(
    r"(\d{4}([-/.])\d{1,2}\2\d{1,2}|\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d\d))"
    rf"([ T]{_CLOCK} ?(Z|UTC|[-+]\d\d(:?\d\d)?)?)?\Z|{_CLOCK}\Z"
)
_UUID = regex(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_WORDS = frozenset(("true", "false"))


@lru_cache(1 << 15)  # of a wide sample; each value is asked for two or three times
def kind_of(value: str, mark: str = ",") -> str:
    """Return the kind of one value; "" for text."""
    value = value.strip()
    if _NUMBER.match(value) or _GROUPED.match(value) or (mark != "," and _COMMA.match(value)):
        return "number"
    if _TIME.match(value):
        return "time"
    if _UUID.match(value):
        return "uuid"
    return "bool" if value.lower() in _WORDS else ""


def kind(values: Iterable[str], mark: str) -> str:
    """Return the kind of all values of a column that are there; "" for text, ? for none."""
    kinds: set[str] = set()
    for value in dict.fromkeys(map(str.strip, values)):
        if value and value not in NULL_WORDS:
            kinds.add(kind_of(value, mark))
            if "" in kinds or len(kinds) > 1:
                return ""
    return kinds.pop() if kinds else "?"


def most_kind(values: Counter[str], mark: str) -> str:
    """Return the kind of nine of ten values at least, of ten values or more; else that of all.

    A column of numbers often has a word for a missing one that nobody else uses.
    """
    left = {v: n for v, n in values.items() if v and v not in NULL_WORDS}
    total = sum(left.values())
    if not total:
        return "?"
    allowed = total // 10 if total >= _ENOUGH else 0
    counts: Counter[str] = Counter()
    for value, times in left.items():
        found = kind_of(value, mark)
        counts[found] += times
        if counts[""] > allowed:
            return ""
    name, times = counts.most_common(1)[0]
    return name if total - times <= allowed else ""


_ENOUGH = 10


_PLAIN = regex(r"[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf(inity)?|nan)\Z", re.I)
# No reader takes a Z without a T.
_ISO = regex(r"\d{4}-\d\d-\d\d(?:(?:[ T](?=[^Z]*\Z)|T)([01]\d|2[0-3])(:[0-5]\d){2}(\.\d+)?Z?)?\Z")


def value_class(values: Sequence[str], nulls: Sequence[str] = ()) -> str:
    """Return the class of a column that readers need no option for; "" where all are empty."""
    kept = set(map(str.strip, values)).difference(("", "\\N"), nulls)
    for name, test in (("number", _PLAIN), ("time", _ISO), ("uuid", _UUID)):
        if kept and all(test.match(v) for v in kept):
            return name
    if kept and all(v.lower() in ("true", "false") for v in kept):
        return "bool"
    return "text" if kept else ""
