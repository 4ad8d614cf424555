"""Pieces of FROM clauses that several sources share. Text only.

What the engine does with names was found out by trying (chDB 26.9):

* ``file(['a', 'b'])`` raises for a missing file, ``file('{a,b}')`` leaves it out silently;
* ``s3('{a,b}')`` asks for each key and raises for a missing one;
* ``url('{a,b}')`` skips a missing one unless ``http_skip_not_found_url_for_globs = 0``;
* there is no escape for ``*``, ``?``, ``{`` and ``}`` in names, but a pattern that matches more
  than wanted may be narrowed by ``WHERE _path = '<the name>'``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rowfall.model import Encoding, Listing, Split
from rowfall.secrets import Secret
from rowfall.sql import literal
from rowfall.sqltext import SqlText

_WILD = str.maketrans("*{}", "???")
_MANY = 8  # beyond it, what the paths have in common is written once


def union(parts: Sequence[SqlText]) -> SqlText:
    """One relation of several: the only one as it is, else a UNION ALL in parentheses."""
    if len(parts) == 1:
        return parts[0]
    pieces: list[str | SqlText] = []
    for part in parts:
        pieces += ["\n    UNION ALL " if pieces else "", "SELECT * FROM ", part]
    return SqlText.of("(", *pieces, ")")


def joined(
    calls: Sequence[tuple[SqlText, str | None]], structure: str, *, settings: str = ""
) -> SqlText:
    """One relation of several (call, path to narrow it to or None); a plain one stays as it is."""
    if len(calls) == 1 and calls[0][1] is None and not settings:
        return calls[0][0]
    # All members of a UNION have to show the same columns.
    return union([narrowed(call, structure, path=only, settings=settings) for call, only in calls])


def files(paths: Sequence[str]) -> str:
    """The first argument of ``file()``: one path, or an array, which never skips a missing one."""
    if len(paths) == 1:
        return literal(paths[0])
    if len(paths) <= _MANY:
        return "[" + ", ".join(map(literal, paths)) + "]"
    prefix, parts, suffix = factor(paths)
    listed = ", ".join(map(literal, parts))
    return f"arrayMap(x -> concat({literal(prefix)}, x, {literal(suffix)}), [{listed}])"


def wildcard(name: str) -> str:
    """A pattern that matches ``name`` (and maybe more) though the engine cannot quote it."""
    return name.translate(_WILD)


def narrowed(
    call: SqlText, structure: str, *, path: str | None = None, settings: str = ""
) -> SqlText:
    """``(SELECT ... FROM call [WHERE _path = path] [settings])``, virtual columns kept.

    With an empty structure only the data's own columns are selected, for DESCRIBE.
    """
    columns = "*, _path, _file" if structure else "*"
    where = f" WHERE _path = {literal(path)}" if path is not None else ""
    return SqlText.of(f"(SELECT {columns} FROM ", call, f"{where}{settings})")


def arguments(encoding: Encoding | None, structure: str) -> str:
    """``, 'Format', 'structure', 'compression'`` as every table function ends."""
    if encoding is None:
        raise ValueError("a source of bytes needs an encoding")
    return ", " + ", ".join(
        literal(text) for text in (encoding.format, structure or "auto", encoding.compression)
    )


def factor(names: Sequence[str]) -> tuple[str, list[str], str]:
    """Common prefix, the parts that differ (none of them empty), common suffix.

    ``names`` are distinct and at least two.
    """
    prefix = os.path.commonprefix(names)  # noqa: RUF071 - of characters, as meant
    rest = [name[len(prefix) :] for name in names]
    suffix = os.path.commonprefix([name[::-1] for name in rest])[::-1]  # noqa: RUF071
    if len(suffix) == min(map(len, rest)):
        # One alternative would be empty, which the engine reads as the end of the pattern.
        suffix = suffix[1:]
    if any(not part for part in rest):
        prefix = prefix[:-1]
        rest = [name[len(prefix) :] for name in names]
    return prefix, [part[: len(part) - len(suffix)] for part in rest], suffix


def spread(listing: Listing, most: int) -> list[Split]:
    """At most ``most`` splits, evenly over the listing, first and last among them."""
    count = len(listing)
    most = max(1, min(most, count))
    if most == 1:
        return [listing.split(0, "")] if count else []
    chosen = dict.fromkeys(round(n * (count - 1) / (most - 1)) for n in range(most))
    return [listing.split(index, "") for index in chosen]


def secrets_of(*values: Secret | None) -> tuple[Secret, ...]:
    return tuple(value for value in values if value)
