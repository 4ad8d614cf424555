"""Pieces of FROM clauses that several sources share. Text only.

What the engine does with names was found out by trying (chDB 26.9):

* ``file(['a', 'b'])`` raises for a missing file, ``file('{a,b}')`` leaves it out silently;
* ``s3('{a,b}')`` asks for each key and raises for a missing one;
* ``url('{a,b}')`` skips a missing one unless ``http_skip_not_found_url_for_globs = 0``;
* ClickHouse before 25.1 lists the bucket for ``s3('{a,b}')`` and leaves out what is missing, and
  24.10 takes no array in ``file()``: there a census counts the objects first, in the same
  statement (1,000 keys of 3,000: 0.11 s beside 0.86 s for reading them; one ``s3()`` a key, which
  would raise by itself: 3.4 s);
* there is no escape for ``*``, ``?``, ``{`` and ``}`` in names, but a pattern that matches more
  than wanted may be narrowed by ``WHERE _path = '<the name>'``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind
from rowfall.core.sql import literal, name
from rowfall.core.sqltext import SqlText

_WILD = str.maketrans("*{}", "???")
ONE = Encoding("One", "none", Kind.TYPED)
"""Reads nothing and gives one row an object."""
ONE_COLUMN = "dummy UInt8"
HEAD = 4096
"""Bytes of an object that a probe compares."""
PARQUET = "Parquet"
_FIXED = 256
_MANY = 8  # beyond it, what the paths have in common is written once


@dataclass(frozen=True, slots=True)
class Call:
    """One table function.

    Attributes:
        text: ``s3(...)``.
        path: what ``_path`` has to be, where the name is only a pattern that may match more.
        census: the same objects in format One, where the engine leaves out what is missing.
        objects: how many rows the census has to give.
        where: which of its rows are meant; "" all.
        settings: `` SETTINGS ...`` that only it needs.
    """

    text: SqlText
    path: str | None = None
    census: SqlText | None = None
    objects: int = 1
    where: str = ""
    settings: str = ""

    @property
    def plain(self) -> bool:
        return self.path is None and self.census is None and not (self.where or self.settings)


def whole(splits: Sequence[Split], encoding: Encoding | None) -> list[Split]:
    """The files that are read as a whole: where not the rows of Parquet are asked for but its
    footer, each once, however many ranges of it there are."""
    if encoding is not None and encoding.format == PARQUET:
        return [split for split in splits if split.part is None]
    return list({split.uri: split for split in splits}.values())


def runs(splits: Sequence[Split], encoding: Encoding | None) -> Iterator[tuple[Split, str]]:
    """Ranges of rows of Parquet files, neighbours put together, each with its condition."""
    if encoding is None or encoding.format != PARQUET:
        return
    ranged = sorted((s for s in splits if s.part is not None), key=lambda s: (s.uri, s.start or 0))
    run: list[Split] = []
    for split in ranged:
        if run and (run[-1].uri, run[-1].stop) != (split.uri, split.start):
            yield run[0], _between(run)
            run = []
        run.append(split)
    if run:
        yield run[0], _between(run)


def _between(run: Sequence[Split]) -> str:
    first, last = run[0].part, run[-1].part
    if first is None or last is None:
        raise ValueError("a run is of ranges")
    column = name(first.column)
    tests = [f"{column} >= {first.low}"] if first.low else []
    tests += [f"{column} < {last.high}"] if last.high else []
    return " AND ".join(tests)


def union(parts: Sequence[SqlText]) -> SqlText:
    """One relation of several: the only one as it is, else a UNION ALL in parentheses."""
    if len(parts) == 1:
        return parts[0]
    pieces: list[str | SqlText] = []
    for part in parts:
        pieces += ["\n    UNION ALL " if pieces else "", "SELECT * FROM ", part]
    return SqlText.of("(", *pieces, ")")


def joined(calls: Sequence[Call], structure: str) -> SqlText:
    """One relation of several; a plain one stays as it is."""
    if len(calls) == 1 and calls[0].plain:
        return calls[0].text
    # All members of a UNION have to show the same columns.
    return union([_narrowed(call, structure) for call in calls])


def files(paths: Sequence[str]) -> str:
    """The first argument of ``file()``: one path, or an array, which never skips a missing one."""
    if len(paths) == 1:
        return literal(paths[0])
    if len(paths) <= _MANY:
        return "[" + ", ".join(map(literal, paths)) + "]"
    prefix, parts, suffix = factor(paths)
    listed = ", ".join(map(literal, parts))
    return f"arrayMap(x -> concat({literal(prefix)}, x, {literal(suffix)}), [{listed}])"


def braces(names: Sequence[str], encode: Callable[[str], str] = str) -> str:
    """One pattern for all: what they differ in stands in braces, each part ``encode``d.

    ``names`` are distinct, at least two, and hold none of ``*?{},``.
    """
    prefix, parts, suffix = factor(names)
    return f"{encode(prefix)}{{{','.join(map(encode, parts))}}}{encode(suffix)}"


def wildcard(name: str) -> str:
    """A pattern that matches ``name`` (and maybe more) though the engine cannot quote it."""
    return name.translate(_WILD)


def _narrowed(call: Call, structure: str) -> SqlText:
    """``(SELECT ... FROM call [WHERE ...] [settings])``, virtual columns kept.

    With an empty structure only the data's own columns are selected, for DESCRIBE.
    """
    columns = "*, _path, _file" if structure else "*"
    named = "" if call.path is None else f"_path = {literal(call.path)}"
    only = " AND ".join(filter(None, (named, call.where)))
    tests: list[str | SqlText] = [f" WHERE {only}" if only else ""]
    if call.census is not None and structure:
        # A scalar subquery is evaluated first, and even where nothing matches and nothing is read.
        tests += [" AND " if only else " WHERE "]
        tests += [f"(SELECT throwIf(count() != {call.objects}, 'an object is missing') FROM "]
        tests += [call.census, f" WHERE {named}) = 0" if named else ") = 0"]
    return SqlText.of(f"(SELECT {columns} FROM ", call.text, *tests, f"{call.settings})")


def probe(call: Call, columns: str) -> SqlText:
    """A question about the one object of a call; nothing more of it is read than needed."""
    only = "" if call.path is None else f" WHERE _path = {literal(call.path)}"
    return SqlText.of(f"SELECT {columns} FROM ", call.text, f"{only} LIMIT 1{call.settings}")


def head(length: int) -> tuple[Encoding, str]:
    """Encoding and structure that give the first ``length`` bytes of an object; see :func:`base64`.

    Longer strings of a fixed length need a setting that not every user may change.
    """
    sizes = [min(_FIXED, length - start) for start in range(0, length, _FIXED)]
    columns = ", ".join(f"x{n} FixedString({size})" for n, size in enumerate(sizes))
    return Encoding("RowBinary", "none", Kind.TYPED), columns


def base64(length: int) -> str:
    """The expression for what :func:`head` reads, as text."""
    parts = ", ".join(f"x{n}" for n in range(-(-length // _FIXED)))
    return f"base64Encode(concat('', {parts}))"


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
