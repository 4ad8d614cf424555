"""Finds every column of a table that some value does not fit, and the type that it would need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import TIMES, parse_type
from rowfall.schema.bad_rows.queries import WHOLE, LenientReader, UnfitColumn
from rowfall.schema.column_facts import ColumnFacts, DeclaredType, RunSelect, measure_text
from rowfall.schema.types.strict_reading import MISSING
from rowfall.schema.types.wider_types import MOST_NAMES, Values, wider
from rowfall.sources.base import Source

MOST_ROWS = 20_000_000
"""Rows of a file that are looked at once it has failed: some 20 seconds of a narrow one."""


_DATE = regex(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are read as if they were an object; see :mod:`rowfall.schema.text.excerpts`."""

    text: str

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return the lines as the FROM part of a SELECT."""
        format_ = encoding.without_header().format if encoding is not None else "CSV"
        columns = f"{quote(structure)}, " if structure else ""
        return SqlText.of(f"format({format_}, {columns}{quote(self.text)})")


@dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of some files.

    Attributes:
        splits: each with its header, () where there is none.
        limit: rows of each at most.
        more: further lines, without a header; ``names`` is theirs, () where files have none.
    """

    splits: Sequence[tuple[Split, Sequence[str]]]
    limit: int = MOST_ROWS
    more: str = ""
    names: Sequence[str] = ()

    def relation(self, reader: LenientReader, columns: Sequence[Column]) -> SqlText:
        """Return columns of all files as one relation, every field as text."""
        listed = ", ".join(sql.name(c.source) for c in columns)
        readers = [(reader, split, header) for split, header in self.splits]
        if self.more:
            lines = replace(reader, source=cast(Source, Lines(self.more)))
            readers.append((lines, self.splits[0][0], self.names))
        parts: list[str | SqlText] = []
        for one, split, header in readers:
            parts += [" UNION ALL " if parts else "(", f"SELECT {listed} FROM "]
            parts += [one.relation(split, header), f" LIMIT {self.limit}"]
        return SqlText.of(*parts, ")")


def find_misfits(
    reader: LenientReader, rows: FileRows, ask: RunSelect,
    facts: Mapping[str, ColumnFacts] | None = None,
) -> list[UnfitColumn]:  # fmt: skip
    """Return all columns that values of some files do not fit.

    Args:
        facts: about the columns that are read, by their names in the source; by default they are
            measured, those of the misfits alone.
    """
    columns = [c for c in reader.schema.columns if c.check.bad]
    if not columns or not rows.splits:
        return []
    relation = rows.relation(reader, columns)
    settings = {**reader.settings, "max_threads": 4, "input_format_parallel_parsing": 1}
    asked = [f"[{_counts(c)}]" for c in columns]
    shown = [f"anyIf({_text(c)}, {_wrong(c)})" for c in columns]
    query = f"SELECT [{', '.join(asked)}], [{', '.join(shown)}] FROM "
    ((counts, values),) = ask(SqlText.of(query, relation), settings)
    found = [
        (column, int(wrong), int(empty), int(nulls), value)
        for column, (wrong, empty, nulls), value in zip(columns, counts, values, strict=True)
        if int(wrong) + int(empty) and parse_type(column.type).base != "String"
    ]
    if not found:
        return []
    of_them = [column for column, *_ in found]
    if facts is None:
        facts = _measured(reader, rows, of_them, ask)
    misfits = []
    details = _details(reader, relation, of_them, ask)
    for column, wrong, empty, nulls, value in found:
        known = replace(details.get(column.name, Values()), wrong=wrong, nulls=empty)
        types = wider(column.type, facts.get(column.source, ColumnFacts(column.source)), known)
        text = str(value) if wrong else None
        times = reader.schema.times
        if text is not None and _DATE.match(text) and not times.holds(text):
            types = [t for t in types if parse_type(t).base not in TIMES]
        others = tuple(t for t in types if t != column.type)
        misfits.append(UnfitColumn(column, text, others, nulls > 0))
    return misfits


def are_all(
    word: str, columns: Sequence[Column], reader: LenientReader, rows: FileRows, ask: RunSelect
) -> bool:
    """Tell whether a word is all that does not fit some columns."""
    others = " OR ".join(
        f"({_wrong(c)}) AND trim(toString({sql.name(c.source)})) != {quote(word)}" for c in columns
    )
    query = SqlText.of(f"SELECT max({others}) FROM ", rows.relation(reader, columns))
    settings = {**reader.settings, "max_threads": 4}
    return not int(ask(query, settings)[0][0] or 0)


def _text(column: Column) -> str:
    value = column.check.shown or f"toString({sql.name(column.source)})"
    return f"substringUTF8(ifNull({value}, ''), 1, {WHOLE + 1})"


def _empty(column: Column) -> str:
    return f"ifNull(toString({sql.name(column.source)}), '') = ''"


def _bad(column: Column) -> str:
    """Return SQL for what does not fit, fields that a short row lacks apart."""
    there = f"ifNull(toString({sql.name(column.source)}) != {quote(MISSING)}, 1)"
    return f"ifNull({column.check.bad}, 0) AND {there}"


def _wrong(column: Column) -> str:
    return f"({_bad(column)}) AND NOT ({_empty(column)})"


def _counts(column: Column) -> str:
    """Return SQL for how many values do not fit: texts, those that are empty, NULL among these."""
    bad, null = _bad(column), f"isNull({sql.name(column.source)})"
    empty = f"({bad}) AND {_empty(column)}"
    return f"countIf({_wrong(column)}), countIf({empty}), countIf(({bad}) AND {null})"


def _details(
    reader: LenientReader, relation: SqlText, columns: Sequence[Column], ask: RunSelect
) -> dict[str, Values]:
    """Return the names of Enums and the digits of Decimals among the values, by column name."""
    asked: list[tuple[Column, str, str, str]] = []
    for column in columns:
        x = f"toString({sql.name(column.source)})"
        base = parse_type(column.type).base
        if base.startswith("Enum"):
            names = f"groupUniqArrayIf({MOST_NAMES + 1})({x}, {_wrong(column)})"
            asked.append((column, names, "toInt64(-1)", "toInt64(-1)"))
        elif base == "Decimal":
            t = f"trim(BOTH ' \\t' FROM ifNull({x}, ''))"
            plain = f"match({t}, '^[-+]?[0-9]+(\\\\.[0-9]*)?$') OR {t} = ''"
            most = [
                f"if(min({plain}), toInt64(max(length(extract({t}, {quote(pattern)})))), -1)"
                for pattern in ("^[-+]?0*([0-9]*)", "\\.([0-9]*?)0*$")
            ]
            asked.append((column, "CAST([], 'Array(String)')", most[0], most[1]))
    if not asked:
        return {}
    parts = ", ".join(f"({', '.join(one)})" for _, *one in asked)
    ((found,),) = ask(SqlText.of(f"SELECT [{parts}] FROM ", relation), reader.settings)
    return {
        column.name: Values(names=tuple(map(quote, names)), whole=int(whole), places=int(places))
        for (column, *_), (names, whole, places) in zip(asked, found, strict=True)
    }


def _measured(
    reader: LenientReader, rows: FileRows, columns: Sequence[Column], ask: RunSelect
) -> dict[str, ColumnFacts]:
    """Return the facts about the values of some columns, without further lines."""
    if reader.encoding.kind is Kind.TYPED:
        return {c.source: ColumnFacts(c.source, DeclaredType(c.read_type)) for c in columns}
    relation = replace(rows, more="").relation(reader, columns)
    facts = [ColumnFacts(c.source) for c in columns]
    found = measure_text(relation, facts, reader.encoding, ask, reader.settings)
    return {fact.name: fact for fact in found}
