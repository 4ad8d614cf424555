"""Globs as shells write them: ``*``, ``?``, ``[abc]``, ``{1..9}``, ``{a,b}``, ``**``. Pure.

The standard library knows neither braces nor ranges, and its ``*`` crosses ``/`` in keys.

Matching is done here and never by the engine: the engine answers a glob that matches nothing
with zero rows and no error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex

MOST_EXPANDED = 1_000_000
"""Names that one pattern may stand for where each costs a request (HTTP)."""

_META = regex(r"[*?\[{]")
_RANGE = regex(r"(\d+)\.\.(\d+)\Z")


def has_meta(text: str) -> bool:
    """Check for pattern characters; a lone ``{`` counts, so that its error is shown."""
    return _META.search(text) is not None


def constant_prefix(pattern: str) -> str:
    """Return everything before the first metacharacter."""
    match = _META.search(pattern)
    return pattern if match is None else pattern[: match.start()]


def expand(pattern: str) -> Iterator[str]:
    """Give all texts that the braces of ``pattern`` stand for, in order; wildcards stay.

    Raises:
        UsageError: more than :data:`MOST_EXPANDED` texts, or a brace that is not closed.
    """
    for count, text in enumerate(islice(_expand(pattern), MOST_EXPANDED + 1)):
        if count == MOST_EXPANDED:
            raise UsageError(f"{pattern} stands for more than {MOST_EXPANDED:,} names")
        yield text


def expand_slashes(pattern: str) -> list[str]:
    """Expand only when a brace holds a slash, so that every other part is one path segment."""
    depth = 0
    for char in pattern:
        depth += (char == "{") - (char == "}")
        if char == "/" and depth > 0:
            return list(dict.fromkeys(expand(pattern)))
    return [pattern]


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for whole names; ``*`` and ``?`` stop at ``/``, ``**`` does not.

    Raises:
        UsageError: a brace that is not closed.
    """
    return re.compile(_translate(pattern) + r"\Z", re.DOTALL)


def range_regex(low: int, high: int, width: int) -> str:
    """Return a regex for the numbers from ``low`` to ``high`` with at least ``width`` digits.

    An alternation of the numbers would be tried one by one for each of a million keys.
    """
    parts: list[str] = []
    while low <= high:
        digits = len(str(low))
        stop = min(high, 10**digits - 1)
        parts.append(_same_width(str(low).zfill(width), str(stop).zfill(width)))
        low = stop + 1
    return "(?:" + "|".join(parts) + ")"


def _expand(pattern: str) -> Iterator[str]:
    start = pattern.find("{")
    if start < 0:
        yield pattern
        return
    body, stop = _group(pattern, start)
    head, tail = pattern[:start], pattern[stop:]
    for item in _choices(body):
        for middle in _expand(item):
            for rest in _expand(tail):
                yield head + middle + rest


def _choices(body: str) -> Iterator[str]:
    bounds = _RANGE.match(body)
    if bounds is None:
        items = _split(body)
        # "{a}" is not a choice, but the braces are gone as in the engine's own patterns.
        yield from items
        return
    low, high, width = _bounds(bounds)
    for number in range(low, high + 1):
        yield str(number).zfill(width)


def _bounds(match: re.Match[str]) -> tuple[int, int, int]:
    """Return a range in rising order and the width of its numbers (any leading zero pads)."""
    first, last = match.groups()
    padded = any(len(n) > 1 and n[0] == "0" for n in (first, last))
    low, high = sorted((int(first), int(last)))
    return low, high, max(len(first), len(last)) if padded else 1


def _group(pattern: str, start: int) -> tuple[str, int]:
    """Return the text inside the brace at ``start`` and the index after its end."""
    depth = 0
    for index in range(start, len(pattern)):
        depth += (pattern[index] == "{") - (pattern[index] == "}")
        if depth == 0:
            return pattern[start + 1 : index], index + 1
    raise UsageError(
        f"the pattern {pattern} has a brace that is not closed",
        hint="Write {a,b} or {1..9}; a name that holds braces must exist exactly as typed.",
    )


def _split(body: str) -> list[str]:
    """Split at commas outside inner braces."""
    items, depth, last = [], 0, 0
    for index, char in enumerate(body):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            items.append(body[last:index])
            last = index + 1
    return [*items, body[last:]]


def _translate(pattern: str) -> str:
    out: list[str] = []
    index = 0
    while index < len(pattern):
        piece, index = _token(pattern, index)
        out.append(piece)
    return "".join(out)


def _token(pattern: str, index: int) -> tuple[str, int]:
    """Return the regex of the token at ``index`` and where the next one starts."""
    char = pattern[index]
    if char == "{":
        body, stop = _group(pattern, index)
        bounds = _RANGE.match(body)
        if bounds is not None:
            return range_regex(*_bounds(bounds)), stop
        return "(?:" + "|".join(_translate(item) for item in _split(body)) + ")", stop
    if pattern.startswith("**/", index) and (index == 0 or pattern[index - 1] == "/"):
        return "(?:[^/]+/)*", index + 3
    if pattern.startswith("**", index):
        return ".*", index + 2
    if char == "*":
        return "[^/]*", index + 1
    if char == "?":
        return "[^/]", index + 1
    if char == "[" and (stop := pattern.find("]", index + 2)) > 0:
        body = pattern[index + 1 : stop]
        negated = body[0] in "!^"
        body = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body)
        return f"(?!/)[{'^' if negated else ''}{body}]", stop + 1
    return re.escape(char), index + 1


def _same_width(low: str, high: str) -> str:
    """Return a regex for the digit strings between two of equal length, inclusive."""
    if low == high:
        return low
    if low[0] == high[0]:
        return low[0] + _same_width(low[1:], high[1:])
    rest = len(low) - 1
    if not rest:
        return f"[{low}-{high}]"
    first, last = int(low[0]), int(high[0])
    parts = []
    if low[1:].strip("0"):
        parts.append(low[0] + _same_width(low[1:], "9" * rest))
        first += 1
    if high[1:].strip("9"):
        parts.append(high[0] + _same_width("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        many = f"{{{rest}}}" if rest > 1 else ""
        parts.append(f"[{first}-{last}][0-9]{many}")
    return "(?:" + "|".join(parts) + ")"
