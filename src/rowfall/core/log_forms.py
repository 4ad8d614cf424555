"""Tells logs by their lines: access logs of nginx and Apache, and logfmt. Pure."""

from __future__ import annotations

from rowfall.core.patterns import regex

ACCESS = regex(r'\S+ \S+ \S+ \[[^\]]+\] "(?:[^"\\]|\\.)*" \d{3} (?:\d+|-)(?:\s*\Z|( ".*))')
"""A line of an access log; a group for referer and agent, where it has them."""
ALWAYS = frozenset({"remote_addr", "time", "path", "status"})
"""Columns of access logs that each line has; others may be -."""
_BEHIND = regex(r' ("(?:[^"\\]|\\.)*"|[^ "]\S*)')
_PAIR = regex(r'([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?(?:\s+|\Z)')
_WORD = regex(r'\s*([^\s="]+)(?=\s)')
_FLAGS = 4  # lines at least for each word that they begin with
_LEAST = 2 / 3  # of the lines have to be of a form that is found by looking
_LOOKED_AT = 100


def form_of(head: bytes) -> str:
    """Return the format of a text's first lines, as ``--format`` takes it; "" for no log."""
    text = head.decode("utf-8", "replace")
    lines = [line for line in text.split("\n")[:_LOOKED_AT] if line.strip()]
    if sum(map(bool, map(ACCESS.match, lines))) > _LEAST * len(lines):
        return "nginx"
    found = sum(len(keys_of(line)) > 1 and _mostly_pairs(line) for line in lines)
    # Flags without a value come again. A word of its own in each line is none: FR name="France".
    words = {word[1] for line in lines if (word := _WORD.match(line))}
    many = len(words) > 1 and len(words) * _FLAGS > len(lines)
    return "logfmt" if found > _LEAST * len(lines) and not many else ""


def _mostly_pairs(line: str) -> bool:
    """Tell a line of logfmt from a sentence, as of syslog, in which some word has a = in it."""
    return line.count("=") * 2 > len(keys_of(line))


def fields_behind(line: str) -> list[str]:
    """Return the fields of an access log behind its bytes: referer, agent, and what follows."""
    found = ACCESS.match(line)
    return _BEHIND.findall((found[1] or "").rstrip()) if found else []


def keys_of(line: str) -> list[str]:
    """Return the keys of a line of logfmt; none where it is none, or holds no value."""
    keys, at, text, pairs = list[str](), 0, line.strip(), False
    while at < len(text):
        found = _PAIR.match(text, at)
        if found is None:
            return []
        keys.append(found[1])
        pairs = pairs or found[2] is not None
        at = found.end()
    return keys if pairs else []
