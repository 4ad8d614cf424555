"""SQL as tokens: names, literals, brackets and lists in text that the engine has formatted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_OPEN, _CLOSE, _QUOTES = frozenset("([{"), frozenset(")]}"), frozenset("'`\"")
_TOKEN = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/
    | '(?:[^'\\]|\\.|'')*' | `(?:[^`\\]|\\.|``)*` | "(?:[^"\\]|\\.|"")*"
    | [A-Za-z_]\w* | \d\w* | .""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def tokens(text: str) -> list[str]:
    """Split SQL into words, names, literals, signs, blanks and comments; joined they are the text.

    A quote that nothing ends is a token by itself.
    """
    return _TOKEN.findall(text)


def identifier(word: str) -> str | None:
    """Return the name that a token stands for; None for what is no name."""
    if word[:1] in ("`", '"'):
        inner = word[1:-1].replace(word[0] * 2, word[0])
        return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)
    return word if re.match(r"[A-Za-z_]", word) else None


def closing(words: Sequence[str], start: int) -> int:
    """Return the position at which the bracket that opens at ``start`` closes.

    Raises:
        ValueError: it does not.
    """
    for i, depth in _depths(words, start):
        if words[i] in _QUOTES:
            break
        if not depth:
            return i
    raise ValueError(f"a bracket without an end: {''.join(words[start:])[:80]!r}")


def items(words: Sequence[str]) -> list[str]:
    """Return the items of a list that commas separate."""
    found, begin = [], 0
    for i, depth in _depths(words):
        if words[i] == "," and not depth:
            found.append("".join(words[begin:i]).strip())
            begin = i + 1
    found.append("".join(words[begin:]).strip())
    return [item for item in found if item]


def _depths(words: Sequence[str], start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield each position with the number of brackets that are open after it."""
    depth = 0
    for i in range(start, len(words)):
        depth += (words[i] in _OPEN) - (words[i] in _CLOSE)
        yield i, depth


def find_last(words: Sequence[str], word: str) -> int:
    """Return the last position of a word outside all brackets; the length where there is none."""
    places = [i for i, depth in _depths(words) if words[i] == word and not depth]
    return places[-1] if places else len(words)
