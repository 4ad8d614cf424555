"""What a sample of the source shows: header, names, and facts about each column's values.

One query for the first lines, one DESCRIBE where the format names its columns, and one query
with up to twenty aggregates per column (51 columns, 8,000 rows: 0.12 s). Where the types of the
table are known already, only what their codecs use is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import DataError, RowfallError, SourceError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.sqltext import SqlText, quote
from rowfall.schema import header
from rowfall.schema.codec import parse_type
from rowfall.schema.header import Ask
from rowfall.schema.reader_settings import reader_settings
from rowfall.schema.sample_facts import Found, Wanted, aggregates, grouped
from rowfall.sources.base import Source

FILES, ROWS = 8, 20_000
"""Objects looked at, rows of all of them together."""
VALID_LINES = 1_000
"""Lines of broken JSON that are looked at: they travel inside the statement."""
VALUES = 400_000
"""Wide tables are looked at in fewer rows: 51 columns of 20,000 took 0.4 s of every start."""
KNOWN_VALUES = 100_000
"""The same of JSON whose columns all have a type: 51 columns then take 0.2 instead of 0.36 s of CPU
of every start, and in it there are no two ways to write NULL that only a look tells apart."""
WIDTH_ROWS = 1_000
"""Rows of one object that tell how long its strings are, when that is all there is to know."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The sample: ``encoding`` says whether there is a header, ``example`` names one object."""

    encoding: Encoding
    columns: tuple[Found, ...]
    splits: tuple[Split, ...]
    example: str
    notes: tuple[tuple[str, str], ...] = field(default=())


def look(
    source: Source,
    listing: Listing,
    encoding: Encoding,
    ask: Ask,
    *,
    fixed: bool,
    tolerant: bool = False,
    wanted: Wanted | None = None,
) -> Survey:
    """Look at up to :data:`FILES` objects.

    Args:
        fixed: the user has named the format.
        tolerant: bad rows will be left out, so lines that are not JSON are passed over here.
        wanted: everything by default.

    Raises:
        SourceError: there is nothing to look at.
        UsageError: the objects differ in header or column count.
    """
    splits, wanted = tuple(source.sample(listing, FILES)), wanted or Wanted()
    if not splits:
        raise SourceError(f"{source.text} holds no data to infer columns from")
    notes: tuple[tuple[str, str], ...] = ()
    if encoding.kind is Kind.TEXT:
        encoding, names, marked, notes = header.read(source, splits, encoding, ask, fixed)
        columns = [Found(name, guess) for name, guess in names]
        # The reader takes the mark away in front of a header only.
        columns[0] = replace(columns[0], bom=marked and not encoding.has_names)
        found = _measure(source.relation, splits, encoding, columns, ask, wanted)
        if encoding.is_csv:
            encoding = replace(
                encoding,
                null="\\N" if any(c.marks for c in found) else "",
                # Numbers with blanks around them are trimmed by their own expression.
                keep_blanks=any(c.padded for c in found),
            )
        return Survey(encoding, found, splits, splits[0].uri, notes)
    relation: Relate = source.relation
    read = splits
    if tolerant and encoding.kind is Kind.JSON:
        relation, read = _valid_lines(source, splits, encoding, ask), splits[:1]
    try:
        columns = _described(relation, read, encoding, ask, wanted.names)
    except RowfallError as error:
        if encoding.kind is not Kind.JSON or not source.replayable:
            raise
        raise _broken_line(source, splits, encoding, ask) or error from None
    found = _measure(relation, read, encoding, columns, ask, wanted)
    return Survey(encoding, found, splits, splits[0].uri, notes)


def settings(encoding: Encoding, *, strict: bool = False) -> dict[str, str | int | float]:
    """Reader settings of a probe: strict as a load, or reading all that can be read."""
    chosen = {s.name: s.value for s in reader_settings(encoding)}
    if not strict and encoding.kind is Kind.TEXT:
        kind = "csv" if encoding.is_csv else "tsv"
        chosen[f"input_format_{kind}_allow_variable_number_of_columns"] = 1
    # A parser per file that stops at the LIMIT, not one that reads ahead on all cores.
    return {
        **chosen, "input_format_skip_unknown_fields": 1, "input_format_parallel_parsing": 0,
        "max_block_size": ROWS // FILES, "max_threads": 4,
        "compile_expressions": 0, "compile_aggregate_expressions": 0,
    }  # fmt: skip


Relate = Callable[[Sequence[Split], Encoding | None, str], SqlText]
"""``Source.relation``, or what stands in for it."""


def _valid_lines(source: Source, splits: Sequence[Split], encoding: Encoding, ask: Ask) -> Relate:
    """A relation of the JSON objects among the first lines of the splits, as one text."""
    lines = replace(encoding, format="LineAsString")
    limit = max(VALID_LINES // len(splits), 1)
    parts: list[str | SqlText] = []
    for split in splits:
        parts += [" UNION ALL " if parts else "", "SELECT line FROM "]
        parts += [source.relation([split], lines, "`line` String"), f" LIMIT {limit}"]
    query = SqlText.of(
        "SELECT line FROM (", *parts, ") WHERE isValidJSON(line) AND JSONType(line) = 'Object'"
    )
    rows = ask(query, {"max_threads": 4, "input_format_parallel_parsing": 0})
    text = quote("\n".join(str(row[0]) for row in rows))

    def relation(splits: Sequence[Split], encoding: Encoding | None, structure: str) -> SqlText:
        columns = f"{quote(structure)}, " if structure else ""
        return SqlText.of(f"format(JSONEachRow, {columns}{text})")

    return relation


def _broken_line(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: Ask
) -> DataError | None:
    """The first line that is no JSON object, by object and number; None when there is none."""
    lines = replace(encoding, format="LineAsString")
    for split in splits:
        relation = source.relation([split], lines, "`line` String")
        query = SqlText.of(
            "SELECT n, substringUTF8(line, 1, 60) FROM (SELECT rowNumberInAllBlocks() + 1 AS n, "
            "line FROM ", relation, ") WHERE notEmpty(trim(BOTH ' \\t\\r' FROM line)) "
            "AND NOT (isValidJSON(line) AND JSONType(line) = 'Object') LIMIT 1",
        )  # fmt: skip
        for number, text in ask(query, {"max_threads": 1, "input_format_parallel_parsing": 0}):
            return DataError(
                f"{split.uri} line {number} is not a JSON object: {text}",
                uri=split.uri, line=int(number), value=str(text),
                hint="Correct the file, or leave bad rows out with --max-errors N.",
            )  # fmt: skip
    return None


def sample_relation(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[tuple[str, str]],
    limit: int = 0,
) -> SqlText:
    """The first rows of every split, as one relation; ``limit`` rows of each."""
    limit = limit or max(ROWS // len(splits), 1)
    names = ", ".join(sql.name(n) for n, _ in columns)
    parts: list[str | SqlText] = []
    for split in splits:
        relation = relate([split], encoding, sql.structure(columns))
        parts += [" UNION ALL " if parts else "", f"SELECT {names} FROM ", relation]
        parts += [f" LIMIT {limit}"]
    return SqlText.of("(", *parts, ")")


# --- columns ----------------------------------------------------------------------------------


def _described(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    ask: Ask,
    names: Collection[str] = (),
    limit: int = ROWS // FILES,
) -> list[Found]:
    """Names and types as the engine tells them; the keys of all sampled files for JSON.

    Args:
        names: that are known to be wanted: fewer rows of JSON are looked at if they hold them all.
        limit: rows of each file of JSON. Every file adds its keys, so each gives few.
    """
    if encoding.kind is Kind.JSON and names:
        few = max(KNOWN_VALUES // len(names) // len(splits), 1)
        if few < limit:
            columns = _described(relate, splits, encoding, ask, limit=few)
            if {column.name for column in columns}.issuperset(names):
                return columns
    fixed: dict[str, str | int | float] = {
        "input_format_try_infer_dates": 0, "input_format_try_infer_datetimes": 0,
        "input_format_json_try_infer_numbers_from_strings": 0, "use_hive_partitioning": 0,
        "schema_inference_make_columns_nullable": 3, "input_format_parallel_parsing": 0,
        "input_format_max_rows_to_read_for_schema_inference": ROWS // 4,
        "input_format_json_infer_incomplete_types_as_strings": 1,
    }  # fmt: skip
    if encoding.kind is Kind.JSON:
        fixed["schema_inference_mode"] = "union"
        fixed["schema_inference_make_columns_nullable"] = 1
        fixed["input_format_max_rows_to_read_for_schema_inference"] = limit
    else:
        splits = splits[:1]
    rows = ask(SqlText.of("DESCRIBE TABLE ", relate(splits, encoding, "")), fixed)
    columns = []
    for row in rows:
        type_ = parse_type(str(row[1]))
        nested = type_.base in ("Array", "Tuple", "Map", "JSON", "Object", "Variant", "Dynamic")
        nested = nested or type_.base == "Nested"
        declared = str(row[1]) if encoding.kind is Kind.TYPED or nested else type_.bare
        columns.append(Found(str(row[0]), declared, nested))
    if not columns:
        raise SourceError(f"{splits[0].uri} holds no columns")
    return columns


def _measure(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[Found],
    ask: Ask,
    wanted: Wanted,
) -> tuple[Found, ...]:
    """Facts about every column, in one query.

    Columns that are asked for the same facts stand in one array, and so does every answer: the
    engine needs 0.2 s only to analyse a thousand aggregates of single columns.
    """
    groups = grouped(columns, encoding, wanted)
    if not groups:
        return tuple(columns)
    known = encoding.kind is Kind.JSON and wanted.names
    values = KNOWN_VALUES if known else VALUES
    limit = max(min(ROWS, values // len(columns)) // len(splits), 1)
    if all(facts == ("bytes_each",) for _, facts in groups):
        splits, limit = [max(splits, key=lambda split: split.size or 0)], WIDTH_ROWS
    typed = encoding.kind is Kind.TYPED
    asked = sorted(number for members in groups.values() for number in members) if typed else None
    reads = [
        (column.name, column.declared if typed else "Nullable(String)")
        for number, column in enumerate(columns)
        if asked is None or number in asked
    ]
    chosen = {**settings(encoding), "max_block_size": limit}
    if encoding.format == "Parquet":
        chosen["input_format_parquet_max_block_size"] = limit  # more is decoded for nothing
    relation = sample_relation(relate, splits, encoding, reads, limit)
    (row,) = ask(SqlText.of(aggregates(groups, columns, encoding), relation, ")"), chosen)
    given: list[dict[str, Any]] = [{"rows": int(row[0])} for _ in columns]
    if encoding.kind is Kind.TEXT:
        given = [{**facts, "declared": ""} for facts in given]
    answers = iter(row[1:])
    for (_, facts), members in groups.items():
        for fact in facts:
            for number, value in zip(members, next(answers), strict=False):  # no rows, no values
                if value is not None:
                    given[number][fact] = int(value) if fact in ("low", "high") else value
    return tuple(replace(column, **facts) for column, facts in zip(columns, given, strict=True))
