"""Whether a text file has a header, what its columns are called, and of which class they look."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding
from rowfall.core.sqltext import SqlText
from rowfall.schema.records import BOM
from rowfall.sources.base import Source

Ask = Callable[[SqlText, Mapping[str, str | int | float]], list[list[Any]]]
"""Runs a SELECT with settings in the engine and gives its rows."""

LINES = 64
"""First lines looked at of each file."""

_NUMBER = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|inf(inity)?|nan)\Z", re.I)
_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d+)?Z?)?\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_NAME = re.compile(r"[^\W\d][\w .:/()%#\-]*\Z")
_PLAIN = re.compile(r"[A-Za-z_]\w*\Z")
_WORDS = re.compile(
    r"id|name|date|time|timestamp|type|value|key|code|status|state|city|country|email|user|title"
    r"|description|category|price|amount|count|url|address|phone|text|message|level|gender"
)


def read(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: Ask, fixed: bool
) -> tuple[Encoding, list[tuple[str, str]], bool, tuple[tuple[str, str], ...]]:
    """Encoding with or without names, (name, class) of the columns, byte order mark, notes.

    Args:
        fixed: the user has named the format, so nothing is guessed.

    Raises:
        SourceError: there are no rows.
        UsageError: files differ in header or column count; a header has a name twice.
    """
    records, marked = _records(source, splits, encoding, ask)
    tables = [(split.uri, rows) for split, rows in zip(splits, records, strict=True) if rows]
    if not tables:
        for split, what in source.changed(splits):
            raise SourceError(f"{split.uri}: {what}")
        raise SourceError(f"{splits[0].uri} holds no rows to infer columns from")
    notes: list[tuple[str, str]] = []
    named = encoding.has_names
    if not named and not fixed:
        named, why = _has_header(tables)
        notes.append(("header", why))
    first = tables[0][1][0]
    for uri, rows in tables[1:]:
        if named and sorted(rows[0]) != sorted(first):
            odd = f"{uri} has another header than {tables[0][0]}: {_brief(rows[0])}"
            raise UsageError(odd, hint="Load files of different columns on their own.")
        if len(rows[0]) != len(first):
            odd = f"{uri} has {len(rows[0])} columns, {tables[0][0]} has {len(first)}"
            raise UsageError(odd, hint="Load files of different columns on their own.")
    if named:
        doubled = next((n for n in first if first.count(n) > 1), None)
        if doubled is not None or "" in first:
            what = f"the column {doubled!r} twice" if doubled else "a column without a name"
            raise UsageError(
                f"the header of {tables[0][0]} has {what}",
                hint="Correct the header, or remove it and name the columns with --schema.",
            )
        if not encoding.has_names:
            encoding = replace(encoding, format=encoding.format + "WithNames")
    if encoding.is_csv:
        widths = Counter(len(row) for _, rows in tables for row in rows[int(named) :])
        encoding = replace(encoding, fields=max(widths, key=widths.__getitem__, default=0))
    if len(first) == 1:
        notes += _other_delimiter(tables, encoding)
    names = first if named else [f"c{i + 1}" for i in range(len(first))]
    body = [row for _, rows in tables for row in rows[int(named) :] if len(row) == len(first)]
    guesses = [_guess([row[i] for row in body]) for i in range(len(first))]
    return encoding, list(zip(names, guesses, strict=True)), marked, tuple(notes)


def _records(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: Ask
) -> tuple[list[list[list[str]]], bool]:
    """The first records of every split, taken apart; whether one has a byte order mark."""
    lines = replace(encoding, format="LineAsString")
    parts: list[str | SqlText] = []
    for number, split in enumerate(splits):
        relation = source.relation([split], lines, "`line` String")
        parts += [" UNION ALL " if parts else "", f"SELECT {number} AS n, line FROM ", relation]
        parts += [f" LIMIT {LINES}"]
    quick = {"max_block_size": LINES, "input_format_parallel_parsing": 0, "max_threads": 4}
    by_split: list[list[str]] = [[] for _ in splits]
    for number, line in ask(SqlText.of(*parts), quick):
        by_split[int(number)].append(str(line).removesuffix("\r"))
    marked = any(texts and texts[0].startswith(BOM) for texts in by_split)
    return [_take_apart(texts, encoding) for texts in by_split], marked


def _take_apart(lines: list[str], encoding: Encoding) -> list[list[str]]:
    if lines:
        lines[0] = lines[0].removeprefix(BOM)
    if not encoding.is_csv:
        return [line.split("\t") for line in lines]
    records: list[list[str]] = []
    reader = csv.reader((line + "\n" for line in lines), delimiter=encoding.delimiter)
    with suppress(csv.Error):  # a field of more than 128 KB; what came before it is enough
        records.extend(row for row in reader if row)
    # The last record may be cut inside quotes.
    return records[:-1] if len(records) > 2 and len(lines) == LINES else records


def _has_header(tables: Sequence[tuple[str, list[list[str]]]]) -> tuple[bool, str]:
    """Whether the first record names the columns; in doubt it is data, because data is kept."""
    first = tables[0][1][0]
    looks = all(_NAME.match(f) for f in first) and len(set(first)) == len(first)
    looks = looks and not any(f.lower() in ("true", "false", "null", "nan", "inf") for f in first)
    if not looks:
        return False, "the first line holds values, so there is no header"
    body = [row for _, rows in tables for row in rows[1:] if len(row) == len(first)]
    same = sum(rows[0] == first for _, rows in tables)
    if len(tables) > 1 and same == len(tables):
        return True, f"the first line of all {same} files looked at is the same and names columns"
    if len(tables) > 1 and same > 1:
        odd = next(uri for uri, rows in tables if rows[0] != first)
        raise UsageError(
            f"{odd} does not start with the header of {tables[0][0]}: {_brief(first)}",
            hint="Say --format CSV when that line is data, or load the files on their own.",
        )
    kinds = [_guess([row[i] for row in body]) for i in range(len(first))]
    if any(kind not in ("", "text") for kind in kinds):
        return True, "the first line holds names, the lines below numbers or times"
    plain = all(_PLAIN.match(f) for f in first) and len(first) > 1
    repeated = any(row[i] == f for row in body for i, f in enumerate(first))
    known = any("_" in f or _WORDS.fullmatch(f.lower()) for f in first)
    if plain and known and not repeated:
        return True, "the first line looks like names; say --format CSV if it is data"
    return False, "the first line looks like data; say --format CSVWithNames if it names columns"


def _other_delimiter(
    tables: Sequence[tuple[str, list[list[str]]]], encoding: Encoding
) -> list[tuple[str, str]]:
    for mark, said in ((";", "';'"), ("|", "'|'"), ("\t", "'\\t'"), (",", "','")):
        rows = [row[0] for _, rows in tables for row in rows]
        if mark != encoding.delimiter and all(mark in row for row in rows):
            why = f"one column only, but every line has {said}: --delimiter {said}"
            return [("delimiter", why)]
    return []


def _brief(fields: Sequence[str]) -> str:
    text = ",".join(fields)
    return text if len(text) <= 80 else text[:77] + "..."


def _guess(values: Sequence[str]) -> str:
    """The class of a column by its first values, "" when all are empty."""
    kept = [v.strip() for v in values if v.strip() not in ("", "\\N")]
    for name, test in (("number", _NUMBER), ("time", _TIME), ("uuid", _UUID)):
        if kept and all(test.match(v) for v in kept):
            return name
    if kept and all(v.lower() in ("true", "false") for v in kept):
        return "bool"
    return "text" if kept else ""
