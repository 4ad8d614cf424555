"""Decides how the columns of a table that is there and those of files are made to fit.

Columns that the table lacks are added or left out, those that files lack get their defaults, and
types become wider, each only where an option says so.
:mod:`rowfall.destinations.clickhouse.alter` carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import ColumnChange, Kind, Schema, TableFit
from rowfall.core.options import ADD, DEFAULT, IGNORE
from rowfall.core.patterns import regex
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import parse_type
from rowfall.engines.base import ExistingTable
from rowfall.schema import projection
from rowfall.schema.bad_rows.data_errors import type_options
from rowfall.schema.bad_rows.misfits import FileRows, find_misfits
from rowfall.schema.bad_rows.queries import LenientReader
from rowfall.schema.bad_rows.search import BadRowSearch
from rowfall.schema.column_facts import ColumnFacts, RunSelect
from rowfall.schema.sampling import SourceSample, rows_each
from rowfall.schema.table_options import ColumnOptions, TableOptions, constant_type
from rowfall.schema.text.excerpts import excerpts
from rowfall.schema.types.wider_types import keeps_key, lossless
from rowfall.sources.base import Source

Rows = Sequence[Sequence[Any]]
"""(name, type, default_kind) of the columns of a table."""
Defaults = Callable[[], Mapping[str, str]]
"""Gives the expressions of the columns of a table that have one."""
FILLED = ("", "DEFAULT")
"""Kinds of columns that an INSERT may name."""


@dataclass(frozen=True, slots=True)
class TableQuestions:
    """Questions to a table before its columns change, or are filled in another way.

    Attributes:
        keys: gives the columns of its keys, whose types the engine does not change.
        keeps: tells whether all values of a column are the same in another type.
    """

    keys: Callable[[], frozenset[str]]
    keeps: Callable[[str, str], bool]
    defaults: Defaults


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """Columns of the table that is there, and the types that the target has.

    Attributes:
        existing: its columns, None where there is no table yet.
        table: its definition on the first writer; None where it is not there.
        questions: to it, where its columns may be changed.
        partition_key: of it; "" for none.
        json_type: there is the type JSON, for objects whose keys vary.
        null_tuples: there is the type Nullable(Tuple). ``time_types``: there are Time and Time64.
        times: that the target holds.
        alone: no engine runs that could be asked about the source for nothing.
        clocks: columns of the table that take times of day as text.
    """

    existing: Rows | None = None
    questions: TableQuestions | None = None
    partition_key: str = ""
    json_type: bool = True
    null_tuples: bool = True
    time_types: bool = True
    times: TimeRange = WIDE
    alone: bool = False
    clocks: frozenset[str] = frozenset()
    table: ExistingTable | None = None


@dataclass(frozen=True, slots=True)
class MatchedColumns:
    """Columns of a table and of files that fit each other by name.

    Attributes:
        columns: those of the table that are loaded, with those that are added.
        skips: columns of the source that are read to be left out, of all that are.
    """

    sample: SourceSample
    columns: list[list[Any]]
    skips: tuple[str, ...] = ()
    fit: TableFit = TableFit()


def fit_names(
    sample: SourceSample, listing: Listing, own: ColumnOptions, asked: TableOptions,
    existing: Rows, infer: Callable[[ColumnFacts], str],
) -> MatchedColumns:  # fmt: skip
    """Add columns, leave them out, or leave them to their defaults, as the options say.

    Columns that no option is about stay as they are; matching the columns refuses them later.
    """
    columns = [list(row) for row in existing]
    taken = {str(name) for name, *_ in existing}
    filled = {str(n) for n, _, kind in existing if kind in FILLED}
    given = {
        own.renames.get(found.name, found.name): found
        for found in sample.columns
        if found.name not in own.skips
    }
    keys = {
        own.renames.get(key, key): key
        for key in projection.folder_keys(listing)
        if key not in own.skips and key not in {found.name for found in sample.columns}
    }
    extra = {name: found for name, found in given.items() if name not in filled}
    left_out = tuple(found.name for found in extra.values())
    left_out = left_out if own.on_new == IGNORE else ()
    skips = left_out
    changes = []
    if own.on_new == ADD:
        types = {name: infer(found) for name, found in extra.items()}
        for name, key in {**keys, **own.added}.items():
            nulls = int(None in set(projection.constants(listing, key)))
            found = ColumnFacts(name, origin=key).measured(nulls=nulls)
            types[name] = constant_type(found, listing)[0]
        for name in types.keys() - taken:
            types[name] = asked.types.get(name) or nullable(types[name])
        changes = [ColumnChange(n, t) for n, t in types.items() if n not in taken]
        columns += [[change.name, change.type, "DEFAULT"] for change in changes]
    lacking = [
        (name, type_) for name, type_, kind in columns
        if kind == "" and name not in given and name not in keys and name not in own.added
    ]  # fmt: skip
    if sample.encoding.kind is Kind.JSON:
        if own.on_new == IGNORE:
            # Later objects may have more of them: the reader passes by what it is not asked for.
            kept = tuple(c for c in sample.columns if c.name not in left_out)
            encoding, skips = replace(sample.encoding, ignores=True), ()
            sample = replace(sample, columns=kept, encoding=encoding)
        # A key may be missing in any number of rows: NULL is what it means.
        seen = [ColumnFacts(n) for n, t in lacking if parse_type(t).nullable]
        sample = replace(sample, columns=(*sample.columns, *seen))
        lacking = [(n, t) for n, t in lacking if not parse_type(t).nullable]
    defaulted: tuple[str, ...] = ()
    if own.on_missing == DEFAULT:
        defaulted = tuple(name for name, _ in lacking)
        columns = [row for row in columns if row[0] not in defaulted]
    return MatchedColumns(sample, columns, skips, TableFit(tuple(changes), left_out, defaulted))


def nullable(type_: str) -> str:
    """Return the type with NULL among its values, where there is one: for rows of before."""
    known = parse_type(type_)
    if known.nullable or not (known.known or known.base == "JSON"):
        return type_
    if known.full.startswith("LowCardinality("):
        return f"LowCardinality(Nullable({known.bare}))"
    return f"Nullable({known.full})"


# --- wider types ----------------------------------------------------------------------------------


def asked_types(
    types: Mapping[str, str], existing: Rows, table: TableQuestions
) -> tuple[ColumnChange, ...]:
    """Return the changes that ``--type`` asks for; none where a column is as wide already.

    Raises:
        UsageError: values of the table would change.
        TargetError: the engine does not change a column of a key.
    """
    there = {str(name): str(type_) for name, type_, _ in existing}
    changes = []
    for name, type_ in types.items():
        old = there.get(name)
        if old is None or old == type_ or lossless(type_, old):
            continue
        if not _widens(name, old, type_, table):
            raise UsageError(
                f"{name} cannot be widened to {type_}: values of the table, which are {old}, "
                "would change",
                hint=f"Load into a new table: --table NAME {type_options([(name, type_)])}.",
            )
        changes.append(ColumnChange(name, type_, old))
    _check_keys(changes, table)
    return tuple(changes)


def _widens(name: str, old: str, new: str, table: TableQuestions) -> bool:
    if lossless(old, new) or _becomes_json(old, new):
        return True
    narrower = lossless(new, old) or (parse_type(old).nullable and not parse_type(new).nullable)
    return not narrower and table.keeps(name, new)


def _becomes_json(old: str, new: str) -> bool:
    """Tell whether objects with known keys become objects with any; NULL and no key are one."""
    t = parse_type(old)
    named = t.base == "Tuple" and bool(_NAMED.match(t.args))
    return new == "JSON" and (named or (t.base == "Map" and t.args.startswith("String")))


# The elements of a tuple have names: Tuple(a Int64), and not Tuple(Int64).
_NAMED = regex(r"\s*(`(?:[^`\\]|\\.)+`|\w+)\s+\w")


def sampled_types(
    source: Source, sample: SourceSample, schema: Schema, ask: RunSelect, target: TargetColumns,
    names: Sequence[str],
) -> tuple[ColumnChange, ...]:  # fmt: skip
    """Return the changes after which the values of a sample fit.

    Args:
        names: of all columns of the source.
        schema: with the types that the table has.

    Raises:
        TargetError: the engine does not change a column of a key; it names all of them.
    """
    encoding, existing, table = sample.encoding, target.existing, target.questions
    if not source.replayable or existing is None or table is None:
        return ()
    there = {str(name): str(type_) for name, type_, _ in existing}
    search = BadRowSearch(source, encoding, schema.reading, ask)
    splits = [(split, search.header_of(split)) for split in sample.splits]
    rows = FileRows(
        splits, rows_each(len(names), len(splits)),
        more=excerpts(source, sample.splits, encoding, names),
        names=names if encoding.has_header else (),
    )  # fmt: skip
    facts = {column.source: column for column in sample.columns}
    found = find_misfits(LenientReader(source, encoding, schema.reading), rows, ask, facts)
    changes = []
    for misfit in found:
        name = misfit.column.name
        old = there.get(name, misfit.column.type)
        fits = (new for new in misfit.types if _widens(name, old, new, table))
        if (new := next(fits, None)) is not None:
            changes.append(ColumnChange(name, new, old))
    _check_keys(changes, table)
    return tuple(changes)


def _check_keys(changes: Sequence[ColumnChange], table: TableQuestions) -> None:
    changed = [c for c in changes if not keeps_key(c.before, c.type)]
    keys = table.keys() if changed else frozenset()
    refused = [change for change in changed if change.name in keys]
    if refused:
        what = ", ".join(f"{c.name} ({c.before} to {c.type})" for c in refused)
        raise TargetError(
            f"the engine does not change columns of a key, and values do not fit {what}",
            hint="Load into a new table with --table NAME "
            f"{type_options([(c.name, c.type) for c in changes])}.",
        )


def with_types(existing: Rows, changes: Sequence[ColumnChange]) -> list[list[Any]]:
    """Return the columns of a table as they are after its changes."""
    types = {change.name: change.type for change in changes}
    return [[name, types.get(str(name), type_), kind] for name, type_, kind in existing]
