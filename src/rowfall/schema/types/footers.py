"""Columns of Parquet files that differ from file to file, by what their footers say.

An int in one file is a double in the next as soon as pandas has met a NULL. The reader casts to the
type that it is given, without a word, so a type is chosen that every value of every file fits, and
each file's footer is compared with it before its rows are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding
from rowfall.core.options import IGNORE, Options
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import Type, parse_type
from rowfall.sources.base import Source

NAMED = frozenset({"ORC", "Arrow", "Avro"})
"""Formats besides Parquet whose files name their columns and types."""
_PLAIN = {"INT32": "Int32", "INT64": "Int64", "FLOAT": "Float32", "DOUBLE": "Float64",
          "BOOLEAN": "Bool", "BYTE_ARRAY": "String", "BYTE_ARRAY String": "String"}  # fmt: skip
_INT = regex(r"INT(?:32|64) Int\(bitWidth=(\d+), isSigned=(true|false)\)")
_MANTISSA = {"Float32": 24, "Float64": 53}


@dataclass(frozen=True, slots=True)
class FileColumn:
    """One column of a file: its type in Parquet's words; ``exact``: its values fit Float64."""

    type: str
    exact: bool


@dataclass(frozen=True, slots=True)
class Footer:
    """Files with the same columns, by path."""

    columns: Mapping[str, FileColumn]
    paths: tuple[str, ...]


def question(source: Source, splits: Sequence[Split], encoding: Encoding) -> SqlText:
    """Return the question for the columns of Parquet files, see :func:`read_answer`."""
    metadata = replace(encoding, format="ParquetMetadata", compression="none")
    within = "ifNull(abs(toInt64OrNull({})) <= 9007199254740992, 0)"
    exact = (
        "c.physical_type != 'INT64' OR arrayAll(g -> arrayAll(x -> x.path != c.path OR ("
        "x.have_statistics AND (x.statistics.null_count = g.num_rows OR "
        f"{within.format('x.statistics.min')} "
        f"AND {within.format('x.statistics.max')})), g.columns), row_groups)"
    )
    return SqlText.of(
        "SELECT arraySort(arrayMap(c -> (c.path, concat(c.physical_type, "
        "if(c.logical_type = 'None', '', concat(' ', c.logical_type))), "
        f"toUInt8({exact})), columns)) AS k, groupUniqArray(_path) FROM ",
        source.relation(splits, metadata, ""),
        " GROUP BY k",
    )


def read_answer(rows: Iterable[Sequence[Any]]) -> list[Footer]:
    """Return the footers in an answer to :func:`question`."""
    return [
        Footer(
            {str(path): FileColumn(str(type_), bool(exact)) for path, type_, exact in columns},
            tuple(map(str, paths)),
        )
        for columns, paths in rows
    ]


def supertype(one: str, other: str) -> str | None:
    """Return a type that every value of both fits unchanged; None where there is none.

    A Float64 is one for 64-bit integers as well, so callers have to check values beyond 2^53.
    """
    a, b = parse_type(one), parse_type(other)
    nullable = a.nullable or b.nullable
    bare = a.bare if a.bare == b.bare else _bare(a, b) or _bare(b, a)
    if bare is None:
        return None
    return f"Nullable({bare})" if nullable else bare


def _bare(a: Type, b: Type) -> str | None:
    if a.bits and b.bits:
        signed = a.base.startswith("Int") or b.base.startswith("Int")
        if not signed:
            return a.bare if a.bits >= b.bits else None
        bits = max(t.bits if t.base.startswith("Int") else 2 * t.bits for t in (a, b))
        return f"Int{bits}" if bits <= 64 else None
    if a.base in _MANTISSA and b.base in _MANTISSA:
        return "Float64"
    if a.base in _MANTISSA and b.bits:
        return "Float64"
    return "String" if a.text and b.text else None


def some_columns(options: Options) -> bool:
    """Tell whether files may have columns that are not read."""
    return bool(options.skip) or options.on_new_column == IGNORE


def misfits(footer: Footer, known: Footer, reads: Sequence[Column], *, some: bool) -> list[str]:
    """Return clauses on columns of files that differ from those to read, [] where they fit.

    Args:
        known: of the file that the types were taken from.
        some: not all columns of the files are read.
    """
    by_name = {column.source: column for column in reads}
    found = []
    for name in {**known.columns, **footer.columns}:
        own, first = footer.columns.get(name), known.columns.get(name)
        column = by_name.get(name.split(".")[0])
        if column is None:
            if own is not None and not some:
                found.append(f"{name} is {own.type} instead of missing")
        elif own is None:
            if not column.optional:
                found.append(f"{name} is missing instead of {first.type if first else '?'}")
        elif (why := _misfit(own, first, column)) is not None:
            found.append(f"{name} is {why}")
    return found


def _misfit(own: FileColumn, first: FileColumn | None, column: Column) -> str | None:
    """Return a clause where the reader would change values of a file's column, else None."""
    wanted, type_ = parse_type(column.read_type or column.type), plain_type(own.type)
    if type_ == "Int64" and wanted.base in _MANTISSA and not own.exact:
        return f"{own.type} with values beyond 2^53, which {wanted.base} would change"
    if first is not None and own.type == first.type:
        return None
    if type_ is not None and supertype(type_, wanted.bare) == wanted.bare:
        return None
    return f"{own.type} instead of {first.type if first else wanted.full}"


def other_columns(
    names: Sequence[tuple[str, str]], reads: Sequence[Column], *, some: bool
) -> list[str]:
    """Return clauses on columns of one file, (name, type), that differ from those to read."""
    by_name, there = {column.source: column for column in reads}, dict(names)
    found = [f"{name} is {type_} instead of missing" for name, type_ in names
             if name not in by_name and not some]  # fmt: skip
    for name, column in by_name.items():
        own, wanted = there.get(name), parse_type(column.read_type or column.type)
        if own is None:
            found += [] if column.optional else [f"{name} is missing instead of {wanted.full}"]
        elif (known := parse_type(own)).bare != wanted.bare and not (
            supertype(known.bare, wanted.bare) == wanted.bare
            and not (known.bits == 64 and wanted.base in _MANTISSA)
        ):
            found.append(f"{name} is {own} instead of {wanted.full}")
    return found


def plain_type(text: str) -> str | None:
    """Return the engine's type for one of Parquet; None for what may have several."""
    found = _INT.fullmatch(text)
    if found:
        return f"{'' if found[2] == 'true' else 'U'}Int{found[1]}"
    return _PLAIN.get(text)
