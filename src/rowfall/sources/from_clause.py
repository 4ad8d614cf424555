"""FROM clauses: the text of table functions that read exactly the objects of some splits.

What the engine does with names was found out by trying (chDB 26.9):

* ``file(['a', 'b'])`` raises for a missing file, ``file('{a,b}')`` leaves it out silently;
* ``s3('{a,b}')`` asks for each key and raises for a missing one;
* ``url('{a,b}')`` skips a missing one unless ``http_skip_not_found_url_for_globs = 0``;
* ClickHouse before 25.1 lists the bucket for ``s3('{a,b}')`` and leaves out what is missing, and
  24.10 takes no array in ``file()``: there a census counts the objects first, in the same
  statement (1,000 keys of 3,000: 0.11 s beside 0.86 s for reading them; one ``s3()`` a key, which
  would raise by itself: 3.4 s);
* there is no escape for ``*``, ``?``, ``{`` and ``}`` in names, but a pattern that matches more
  than wanted may be narrowed by ``WHERE _path = '<the name>'``, but not for Parquet.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind
from rowfall.core.patterns import regex
from rowfall.core.sql import CHANGED, literal, name
from rowfall.core.sqltext import SqlText
from rowfall.sources.base import Probe
from rowfall.sources.compression import compression_of

_WILD = str.maketrans("*{}", "???")
ONE = Encoding("One", "none", Kind.TYPED)
"""Reads nothing and gives one row an object."""
ONE_COLUMN = "dummy UInt8"
HEAD = 4096
"""Bytes of an object that a probe compares."""
PARQUET = "Parquet"
_FIXED = 256
_MANY = 8  # beyond it, what the paths have in common is written once
_REDIRECTS = 10
_FIRST = regex(r"`(?:[^`\\]|\\.)*`")
_RANGE = ".."  # the engine takes it for {1..9} wherever it stands inside braces
_EXPANDED = 1000  # names in braces that the engine accepts by default


@dataclass(frozen=True, slots=True)
class TableFunction:
    """One call of a table function.

    Attributes:
        text: ``s3(...)``.
        path: what ``_path`` has to be, where the name is only a pattern that may match more.
        census: the same objects in format One, where the engine leaves out what is missing.
        objects: how many rows the census has to give.
        where: the condition on its rows; "" for all.
        check: an expression that raises where rows are of another version; "" for none.
        settings: the clause `` SETTINGS ...`` that only it needs, or "".
    """

    text: SqlText
    path: str | None = None
    census: SqlText | None = None
    objects: int = 1
    where: str = ""
    check: str = ""
    settings: str = ""

    @property
    def plain(self) -> bool:
        """True where the call needs no subselect."""
        return (
            self.path is None
            and self.census is None
            and not (self.where or self.check or self.settings)
        )


def whole_files(splits: Sequence[Split], encoding: Encoding | None) -> list[Split]:
    """Return the files that are read as a whole.

    Where not the rows of Parquet are asked for but its footer, each file comes once, however many
    ranges of it there are.
    """
    if encoding is not None and encoding.format == PARQUET:
        return [split for split in splits if split.part is None]
    return list({split.uri: split for split in splits}.values())


def row_ranges(splits: Sequence[Split], encoding: Encoding | None) -> Iterator[tuple[Split, str]]:
    """Give the ranges of rows of Parquet files, neighbours merged, each with its condition."""
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
    """Return the condition for the rows of neighbouring ranges."""
    first, last = run[0].part, run[-1].part
    if first is None or last is None:
        raise ValueError("a split without a range")
    column = name(first.column)
    tests = [f"{column} >= {first.low}"] if first.low else []
    tests += [f"{column} < {last.high}"] if last.high else []
    return " AND ".join(tests)


def union(parts: Sequence[SqlText]) -> SqlText:
    """Return one relation of several: a single one as it is, else a UNION ALL in parentheses."""
    if len(parts) == 1:
        return parts[0]
    pieces: list[str | SqlText] = []
    for part in parts:
        pieces += ["\n    UNION ALL " if pieces else "", "SELECT * FROM ", part]
    return SqlText.of("(", *pieces, ")")


def joined(functions: Sequence[TableFunction], structure: str) -> SqlText:
    """Return one relation of several functions; a single plain one stays as it is."""
    if len(functions) == 1 and functions[0].plain:
        return functions[0].text
    # All members of a UNION have to show the same columns.
    return union([_narrowed(function, structure) for function in functions])


def file_argument(paths: Sequence[str]) -> str:
    """Return the first argument of ``file()``: a path, or an array, which skips no missing one."""
    if len(paths) == 1:
        return literal(paths[0])
    if len(paths) <= _MANY:
        return "[" + ", ".join(map(literal, paths)) + "]"
    prefix, parts, suffix = factor(paths)
    listed = ", ".join(map(literal, parts))
    return f"arrayMap(x -> concat({literal(prefix)}, x, {literal(suffix)}), [{listed}])"


def braces(names: Sequence[str], encode: Callable[[str], str] = str) -> str:
    """Return one pattern for all names: the parts that differ stand in braces, ``encode``d.

    ``names`` are distinct, at least two, and hold none of ``*?{},``.
    """
    prefix, parts, suffix = factor(names)
    return f"{encode(prefix)}{{{','.join(map(encode, parts))}}}{encode(suffix)}"


def wildcard(name: str) -> str:
    """Return a pattern that matches ``name`` (and maybe more), which the engine cannot quote."""
    return name.translate(_WILD)


def _narrowed(function: TableFunction, structure: str) -> SqlText:
    """Return ``(SELECT ... FROM function [WHERE ...] [settings])``, virtual columns kept.

    With an empty structure only the data's own columns are selected, for DESCRIBE.
    """
    columns = "*, _path, _file" if structure else "*"
    if function.check and (first := _FIRST.match(structure)):
        # Beside a value that is needed anyway: in a WHERE the reader of Parquet would look for the
        # virtual columns in the file (26.9).
        checked = f"tupleElement(({first[0]}, {function.check}), 1)"
        columns = f"* REPLACE ({checked} AS {first[0]}), _path, _file"
    named = "" if function.path is None else f"_path = {literal(function.path)}"
    only = " AND ".join(filter(None, (named, function.where)))
    tests: list[str | SqlText] = [f" WHERE {only}" if only else ""]
    if function.census is not None and structure:
        # A scalar subquery is evaluated first, and even where nothing matches and nothing is read.
        tests += [" AND " if only else " WHERE "]
        tests += [f"(SELECT throwIf(count() != {function.objects}, 'an object is missing') FROM "]
        tests += [function.census, f" WHERE {named}) = 0" if named else ") = 0"]
    return SqlText.of(f"(SELECT {columns} FROM ", function.text, *tests, f"{function.settings})")


def probe_query(function: TableFunction, columns: str) -> SqlText:
    """Return a query about the one object of a function, which reads no more than it needs."""
    only = "" if function.path is None else f" WHERE _path = {literal(function.path)}"
    end = f"{only} LIMIT 1{function.settings}"
    return SqlText.of(f"SELECT {columns} FROM ", function.text, end)


def head_columns(length: int) -> tuple[Encoding, str]:
    """Return the encoding and structure that give the first ``length`` bytes of an object.

    Longer strings of a fixed length need a setting that not every user may change.
    """
    sizes = [min(_FIXED, length - start) for start in range(0, length, _FIXED)]
    columns = ", ".join(f"x{n} FixedString({size})" for n, size in enumerate(sizes))
    return Encoding("RowBinary", "none", Kind.TYPED), columns


def head_text(length: int) -> str:
    """Return the expression that gives as text what :func:`head_columns` reads."""
    parts = ", ".join(f"x{n}" for n in range(-(-length // _FIXED)))
    return f"base64Encode(concat('', {parts}))"


def last_arguments(encoding: Encoding | None, structure: str) -> str:
    """Return ``, 'Format', 'structure', 'compression'``, the end of every table function."""
    if encoding is None:
        raise ValueError("a source of bytes needs an encoding")
    return ", " + ", ".join(
        literal(text) for text in (encoding.format, structure or "auto", encoding.compression)
    )


def factor(names: Sequence[str]) -> tuple[str, list[str], str]:
    """Split names into common prefix, parts that differ (none of them empty), common suffix.

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


def secrets_of(*values: Secret | None) -> tuple[Secret, ...]:
    """Return the values that are there."""
    return tuple(value for value in values if value)


# --- one version of an object --------------------------------------------------------------------

APART = 4
"""Objects of one statement that are each read by a call of their own, to send its ETag with it.

All calls of a statement have their readers open at once, with buffers of their own.
"""
OTHER_ETAG = '"rowfall-asks-whether-this-is-refused"'
"""The ETag of no object: a server that answers a request for it does not look at If-Match."""
# What buckets.version_of gives without an ETag. Those of S3 may end with a number of parts,
# which has five digits at most.
_TIMED = regex(r"\d+-\d{6,}")


@dataclass(frozen=True, slots=True)
class Pin:
    """Makes an engine read one version of an object and no other, or raise.

    Attributes:
        etag: sent as ``If-Match`` with every request; "" for none.
        check: an expression that raises; "" for none.
        settings: of the call.
        weak: another version may be read unseen, or several mixed.
    """

    etag: str = ""
    check: str = ""
    settings: tuple[str, ...] = ()
    weak: bool = False


NO_PIN = Pin()
# The engine takes 412 for a busy server and asks 10 times, in 33 s: that many times it is 0.7 s.
_TRIES = "http_max_tries = 4"


def etag_of(version: str) -> str:
    """Return the ETag that the version of a stored object stands for; "" where it is none."""
    made = not version or version.startswith("W/") or _TIMED.fullmatch(version)
    return "" if made else f'"{version}"'


def bare(etag: str) -> str:
    """Return an ETag without its quotes, and without the mark of a weak one."""
    return etag.removeprefix("W/").strip('"')


def if_match(etag: str) -> str:
    """Return the argument of a table function that sends ``If-Match`` with every request."""
    return f", headers('If-Match' = {literal(etag)})"


def pin_by_request(etag: str) -> Pin:
    """Return the pin of an object that is asked for by its ETag from a web server."""
    return Pin(etag, settings=(_TRIES,))


def pin_by_etags(etags: Iterable[str], *, weak: bool) -> Pin:
    """Return the pin of objects in S3 whose ETags the engine shows."""
    found = "replaceRegexpAll(_etag, '^W/|\"', '')"
    return Pin(check=_one_of(found, map(bare, etags)), weak=weak)


def _one_of(value: str, wanted: Iterable[str]) -> str:
    """Return the expression that raises where a value is known and is none of these.

    Looked at once for each block that is read: all rows of a block are of one object.
    """
    known = ", ".join(map(literal, sorted({"", *wanted})))
    test = f"throwIf({value} NOT IN ({known}), {literal(CHANGED)})"
    return f"if(rowNumberInBlock() = 0, {test}, 0)"


# --- web servers, and stores whose objects have an address ---------------------------------------


@dataclass(frozen=True, slots=True)
class UrlObject:
    """One object as an engine is asked to read it from a web server.

    Attributes:
        url: encoded so that it holds nothing the engine takes for a pattern.
        hidden: the URL holds a secret.
        signature: the Authorization header, for this origin only.
        redirects: it may lead to another address.
    """

    url: str
    hidden: bool = False
    signature: Secret | None = None
    redirects: bool = False
    pin: Pin = NO_PIN


def url_functions(
    objects: Mapping[str, UrlObject], encoding: Encoding | None, structure: str
) -> list[TableFunction]:
    """Return ``url(...)`` of these objects; a missing one makes the engine raise.

    Args:
        objects: by their names.
    """
    together: dict[object, list[str]] = {}
    for each, given in objects.items():
        # Headers are sent to all addresses of a call.
        together.setdefault((given.pin, given.signature, given.redirects), []).append(each)
    functions = []
    for names in together.values():
        first = objects[names[0]]
        for group, packed in _readable_together(names, encoding):
            urls = [objects[each].url for each in group]
            hidden = any(objects[each].hidden for each in group)
            functions.append(TableFunction(
                _url_function(urls, hidden, packed, structure, first),
                check=first.pin.check, settings=_url_settings(len(group), first),
            ))  # fmt: skip
    return functions


def _url_settings(count: int, given: UrlObject) -> str:
    """Return the settings to follow redirects, to miss no file, and to take many at once."""
    found = list(given.pin.settings)
    if given.signature:
        # The engine would send the password to whatever address it is led to.
        found.append("max_http_get_redirects = 0")
    elif given.redirects:
        found.append(f"max_http_get_redirects = {_REDIRECTS}")
    if count > 1:
        found.append("http_skip_not_found_url_for_globs = 0")
    if count > _EXPANDED:
        found.append(f"glob_expansion_max_elements = {count}")
    return " SETTINGS " + ", ".join(found) if found else ""


def url_probe(function: TableFunction, size: int | None, head: bytes) -> Probe:
    """Ask for size and first bytes of the object that a function of :func:`head_columns` reads."""
    # Some versions give the size 0 or NULL where they did not ask for it.
    columns = "toString(nullIf(_size, 0)), " + head_text(min(HEAD, size or 1))
    wanted = (
        ("size", "" if size is None else str(size)),
        ("beginning", b64encode(head).decode()),
    )
    return Probe(probe_query(function, columns), wanted)


def _url_function(
    urls: Sequence[str], hidden: bool, encoding: Encoding | None, structure: str, given: UrlObject
) -> SqlText:
    address = urls[0] if len(urls) == 1 else braces(urls)
    tail: list[str | Secret] = [last_arguments(encoding, structure)]
    matched = f"'If-Match' = {literal(given.pin.etag)}" if given.pin.etag else ""
    if given.signature:
        more = f", {matched})" if matched else ")"
        tail += [", headers('Authorization' = ", given.signature, more]
    elif matched:
        tail.append(f", headers({matched})")
    first = Secret(address) if hidden else literal(address)
    return SqlText.of("url(", first, *tail, ")")


def _readable_together(
    names: Sequence[str], encoding: Encoding | None
) -> list[tuple[list[str], Encoding | None]]:
    """Group the names that one call can read: one compression, no ``..`` in braces."""
    together: dict[str, list[str]] = {}
    alone: list[tuple[list[str], Encoding | None]] = []
    for each in names:
        own = encoding
        if encoding is not None:
            # With braces, url() goes by the end of the whole pattern, not of each name.
            own = replace(encoding, compression=compression_of(each, encoding))
        if _RANGE in each:
            alone.append(([each], own))
        else:
            together.setdefault(own.compression if own else "", []).append(each)
    joined: list[tuple[list[str], Encoding | None]] = [
        (group, replace(encoding, compression=packed) if encoding else None)
        for packed, group in together.items()
    ]
    return joined + alone
