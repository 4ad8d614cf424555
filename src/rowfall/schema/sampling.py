"""Samples a source: header, column names, and facts about each column's values.

One query for the first lines, one DESCRIBE where the format names its columns, and one query
with up to twenty aggregates per column (51 columns, 8,000 rows: 0.12 s). Where the types of the
table are known already, only the facts that their reading depends on are asked for, and of clean
CSV and TSV in files rowfall-decode tells them (:mod:`rowfall.schema.text.text_facts`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from typing import Any

from rowfall.core import engine_formats, sql
from rowfall.core.charsets import BOM
from rowfall.core.dataclass import dataclass
from rowfall.core.dialect import Asked
from rowfall.core.errors import DataError, EngineError, RowfallError, SourceError, UsageError
from rowfall.core.formats import LAKES
from rowfall.core.header_line import AGAIN
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import Type, parse_type
from rowfall.decoder import installed
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.bad_rows.data_errors import same_object
from rowfall.schema.bad_rows.queries import WHOLE
from rowfall.schema.text.excerpts import excerpts
from rowfall.schema.text.records import lines_relation
from rowfall.schema.text.text_facts import FACTS, text_facts
from rowfall.schema.text.text_format import OTHERWISE, UNSURE, check_width, find_text_format
from rowfall.schema.text.united_headers import unite
from rowfall.schema.types import footers, json_objects, nested_reading
from rowfall.schema.types.footers import Footer
from rowfall.schema.types.reader_settings import MISSING_COLUMNS, reader_settings
from rowfall.schema.types.strict_reading import ANY_SHAPE, TextTraits, days_of, has_spellings
from rowfall.sources.base import Source


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Facts about one column of the sample; counts are of rows.

    Attributes:
        name: in the source; ``declared`` its type there (formats with types and JSON).
        nested: an array, map, tuple or other type that is passed through.
        nulls: NULL or missing, unquoted empty CSV fields among them; ``marks`` are written \\N.
        blanks: the empty string; ``filled`` all the others.
        zeros: numbers with leading zeros; ``plus``: integers with a plus sign.
        rounded: a fraction of more digits than Float64 keeps, "" for none; ``places`` is how many
            such fractions have behind the point at most; ``exponents`` are numbers such as 1e5.
        optional: some files lack it.
        origin: its name in the source, where it is to have another one.
        bom: the first column of a file that starts with a byte order mark.
        why: the reason for ``declared``, of JSON; ``nullable`` the type where NULLs are among
            nested values, which only text and JSON can be.
        first, last: least and greatest text of dates and times; ``digits`` after the second.
        texts: texts stand in nested JSON where the table has numbers or Bools.
        stored: the type that the reader gives, where ``declared`` is made of it.
    """

    name: str
    declared: str = ""
    nested: bool = False
    rows: int = 0
    nulls: int = 0
    blanks: int = 0
    marks: int = 0
    padded: int = 0
    breaks: int = 0
    swallowed: int = 0
    distinct: int = 0
    bytes_each: float = 16.0
    integers: int = -1
    zeros: int = 0
    plus: int = 0
    low: int = 0
    high: int = 0
    floats: int = -1
    infinite: int = 0
    rounded: str = ""
    places: int = 0
    exponents: int = 0
    booleans: int = -1
    uuids: int = -1
    days: int = -1
    moments: int = -1
    with_t: int = 0
    with_z: int = 0
    digits: int = 0
    first: str = ""
    last: str = ""
    bom: bool = False
    why: str = ""
    nullable: str = "String"
    origin: str = ""
    optional: bool = False
    texts: bool = False
    stored: str = ""

    @property
    def source(self) -> str:
        """Return the name of the column in the source."""
        return self.origin or self.name

    @property
    def filled(self) -> int:
        return self.rows - self.nulls - self.blanks

    def is_canonical(self, target: Type) -> bool:
        """Tell whether all values of the sample are written as inference takes those of a type."""
        if target.nested:
            return not self.texts
        if target.base == "Bool":
            return self.booleans == self.filled
        return not self.zeros and not self.plus

    def traits(self, encoding: Encoding) -> TextTraits:
        """Return how the values are written, as far as reading depends on it."""
        shape = "Z" if self.with_z else "T" if self.with_t else ""
        if shape and max(self.with_t, self.with_z) < self.filled:
            shape = ANY_SHAPE
        if self.filled and self.days == self.filled:
            shape = "date"
        elif self.filled and self.integers == self.filled:
            shape = "epoch"
        return TextTraits(
            blank=self.blanks + (0 if encoding.null else self.marks) > 0
            and encoding.kind is not Kind.TYPED,
            padded=self.padded > 0 and encoding.kind is Kind.TEXT,
            shape=shape,
            infinite=self.infinite > 0,
            breaks=self.breaks > 0 and not self.swallowed,
            bom=self.bom,
            native=bool(encoding.null),
            binary=encoding.binary,
            hex=self.source in encoding.hex,
            nonzero=0 < self.filled == self.integers and (self.low > 0 or self.high < 0),
        )


Types = Callable[[Encoding, Sequence[str]], Mapping[str, str]]
"""The table's type for each column of the source, by its name there, as far as it is known; ""
for one that is not loaded."""


@dataclass(frozen=True, slots=True)
class WantedFacts:
    """The facts that a sample has to show.

    Attributes:
        types: columns whose type is known already.
        layout: whether a sorting key will be chosen by what is found.
        names: of all columns of the load, where they are known and each has a type.
        there: the types are those of a table, and nobody has given them for this load.
    """

    types: Types = lambda encoding, names: {}
    layout: bool = True
    names: frozenset[str] = frozenset()
    there: bool = False


RunSelect = Callable[[SqlText, Mapping[str, str | int | float]], list[list[Any]]]
"""Runs a SELECT with settings in the engine and gives its rows."""

FILES, ROWS = 8, 20_000
"""Objects in a sample, rows of all of them together."""
VALID_LINES = 1_000
"""Lines of broken JSON that are sampled: they travel inside the statement."""
OBJECT_BYTES = 8 << 20
"""Bytes of JSON that are looked at, of all sampled files together: 0.3 s of Python."""
TYPED_FILES = 3
"""Objects of a sample of a format with types, first and last among them: whole pages of each column
are read of each. 22 columns of strings of 8 files take 0.13 s of CPU, and as many rows of 3 0.04.
"""
OBJECTS_READ = 256
"""Objects of JSON that are read at once: one that is not needed any more may be large."""
VALUES = 400_000
"""Values in a sample: wide tables give fewer rows (51 columns of 20,000 took 0.4 s)."""
KNOWN_VALUES = 100_000
"""Values in a sample of JSON whose columns all have a type: 51 columns then take 0.2 instead of
0.36 s of CPU of every start, and JSON has no two ways to write NULL that only the data tell apart.
"""
_READ_AHEAD = 1 << 20
"""Bytes of Parquet that are decoded ahead of a sample, of all its files together."""
_ORC_ROWS = 16
"""Rows of ORC that are read at once: the reader takes what their values need before anybody counts
it. 60 values of 32 MB were 2 GiB."""
WIDTH_ROWS = 1_000
"""Rows of one object that tell how long its strings are, where nothing else is unknown."""


@dataclass(frozen=True, slots=True)
class SourceSample:
    """A sample and what it showed.

    Attributes:
        encoding: with or without a header, as found.
        columns: their facts, in the order of the source.
        splits: that were sampled.
        example: name of one object.
        notes: (subject, reason) for the plan.
        whole: it holds every row of the source.
        narrow: integers get the narrowest type that the sample allows, not 64 bits.
        times: the days that the target holds.
        filled: columns of a format with types that hold no NULL anywhere, as footers say, or a
            sample that holds every row.
        no_null_lists: lists, maps and structs of Parquet of which footers say that none is NULL.
        footers: of all Parquet files, that of the first one first; () where not all were read.
    """

    encoding: Encoding
    columns: tuple[ColumnFacts, ...]
    splits: tuple[Split, ...]
    example: str
    notes: tuple[tuple[str, str], ...] = field(default=())
    whole: bool = False
    narrow: bool = False
    times: TimeRange = WIDE
    filled: frozenset[str] = frozenset()
    footers: tuple[Footer, ...] = ()
    no_null_lists: frozenset[str] = frozenset()


def take_sample(
    source: Source,
    listing: Listing,
    encoding: Encoding,
    ask: RunSelect,
    *,
    text: Asked | None = None,
    skip_bad_lines: bool = False,
    union: bool = False,
    wanted: WantedFacts | None = None,
    without: Collection[str] = (),
) -> SourceSample:
    """Read the first rows of up to :data:`FILES` objects, and some of the middle and the end.

    Args:
        text: what the user has said about text; nothing by default.
        union: files may lack columns.
        skip_bad_lines: bad rows will be left out, so lines that are not JSON are left out here.
        wanted: everything by default.
        without: columns of formats with types that are not read, as nobody may be able to.

    Raises:
        SourceError: there is no data, or there are more columns.
        UsageError: the objects differ in header or column count.
    """
    splits, wanted = tuple(source.sample(listing, FILES)), wanted or WantedFacts()
    if not splits:
        raise SourceError(f"{source.text} holds no data to infer columns from")
    notes: tuple[tuple[str, str], ...] = ()
    if encoding.kind is Kind.TEXT:
        asked, optional = text or Asked(), frozenset[str]()
        united = None
        if union and len(listing) > 1:
            united = unite(source, listing, splits, encoding, ask, asked, most=FILES)
        if united is None:
            shape = find_text_format(source, splits, encoding, ask, asked)
        else:
            shape, optional, splits = united.found, united.optional, united.splits
        encoding, notes = shape.encoding, shape.notes
        columns = [ColumnFacts(n, guess, optional=n in optional) for n, guess in shape.names]
        # The reader takes the mark away in front of a header only.
        columns[0] = replace(columns[0], bom=shape.bom and not encoding.has_header)
        more = excerpts(source, splits, encoding, [name for name, _ in shape.names])
        here = _measure_here(source, splits, encoding, columns, wanted, more)
        found = here or _measure(source.relation, splits, encoding, columns, ask, wanted, more)
        seen = any(AGAIN in why for _, why in notes)
        # Where all types are known, no header among the values changes them.
        if not here and (seen or (encoding.has_header and any(map(_is_broken, found)))):
            # The header among their values made the kinds of columns unknown.
            anew = [replace(column, declared="") for column in columns] if seen else columns
            again = _measure(
                source.relation, splits, encoding, anew, ask, wanted, more, but_header=True
            )
            repeated = found[0].rows - again[0].rows
            if repeated:
                found = again
                notes = (*notes, *_repeated(again, repeated, own=bool(wanted.names)))
        if encoding.is_csv:
            encoding = replace(
                encoding,
                null="\\N" if any(c.marks for c in found) else "",
            )
        whole = _is_whole(listing, splits, found)
        return SourceSample(encoding, found, splits, splits[0].uri, notes, whole=whole)
    relation: Relate = source.relation
    read = splits
    found_footers: tuple[Footer, ...] = ()
    if engine_formats.is_engine_only(encoding.format):
        return _of_engine(source, splits, encoding, ask, wanted)
    if encoding.format == "Parquet" and len(listing) > 1:
        columns, found_footers = _of_footers(source, listing, read, encoding, ask, union=union)
        notes = _note_geometries(columns)
    elif union and encoding.format in footers.NAMED and len(listing) > 1:
        columns = _of_each(source, listing, read, encoding, ask)
    elif encoding.kind is not Kind.JSON:
        columns = described(relation, read, encoding, ask)
        notes = _note_geometries(columns)
    elif skip_bad_lines:
        objects = _valid_lines(source, splits, encoding, ask)
        relation, read = _as_text(objects), splits[:1]
        columns = _keys(objects, encoding, splits, wanted)
    else:
        try:
            objects = _objects(source, splits, encoding, ask, wanted.names)
        except RowfallError as error:
            if not source.replayable:
                raise
            raise _broken_line(source, splits, encoding, ask) or error from None
        if source.replayable and not all(map(json_objects.is_object, objects)):
            broken = _broken_line(source, splits, encoding, ask)
            if broken is not None:
                raise broken
        columns = _keys(objects, encoding, splits, wanted)
        around = json_objects.rows_inside(objects, [split.uri for split in splits])
        notes = ((UNSURE, around),) if around else ()
    if text is not None:
        check_width(splits, len(columns), text.most_columns)
    more = excerpts(source, splits, encoding, ()) if read == splits else ""
    read_too = [c for c in columns if c.name not in without or encoding.kind is not Kind.TYPED]
    try:
        found = _measure(relation, read, encoding, read_too or columns, ask, wanted, more)
    except RowfallError as error:
        if encoding.kind is not Kind.JSON or not source.replayable:
            raise
        raise _broken_line(source, splits, encoding, ask) or error from None
    if 0 < len(read_too) < len(columns):
        facts = {c.name: c for c in found}
        found = tuple(facts.get(c.name, c) for c in columns)
    whole = _is_whole(listing, splits, found)
    filled: Collection[str] = ()
    if encoding.kind is Kind.TYPED:
        filled = _filled(source, listing, encoding, found, ask, whole=whole)
    return SourceSample(
        encoding, found, splits, splits[0].uri, notes, whole=whole, filled=frozenset(filled),
        footers=found_footers,
        no_null_lists=_without_null_lists(source, listing, encoding, found, ask),
    )  # fmt: skip


def _repeated(
    columns: Sequence[ColumnFacts], count: int, *, own: bool
) -> tuple[tuple[str, str], ...]:
    """Return the notes about a header that stands again: what the types refuse, and what not.

    Args:
        own: all columns are named, so that types may be given which show nothing of the sample.
    """
    if own or any(0 < c.filled == max(_kinds(c)) for c in columns):
        return ((UNSURE, _REPEATED.format(count)),)
    name = columns[0].name
    plain = name.isascii() and name.isidentifier()
    condition = f"{name if plain else sql.name(name)} != {quote(name)}"
    flags = f'--where "{condition}"' if plain else f"--where {shlex.quote(condition)}"
    return (UNSURE, _REPEATED_TEXT.format(count, flags)), (OTHERWISE, flags)


_REPEATED_TEXT = (
    "the header stands again in {:,} of the lines seen, and as all columns are text it is loaded "
    "as rows; {} leaves such lines out"
)
_REPEATED = (
    "the header stands again in {:,} of the lines seen: types are those of the other lines, and "
    "--max-errors N leaves such lines out"
)


def _kinds(found: ColumnFacts) -> tuple[int, ...]:
    """Return how many values are of each kind that is not text."""
    return (
        found.integers, found.floats, found.days, found.moments, found.booleans, found.uuids,
    )  # fmt: skip


def _is_broken(found: ColumnFacts) -> bool:
    """Tell whether nearly all values of a column are of one kind, and a few are not."""
    kinds = _kinds(found)
    return 0 < found.filled - max(kinds) <= max(8, found.filled // 20) and max(kinds) > 0


def _is_whole(listing: Listing, splits: Sequence[Split], columns: Sequence[ColumnFacts]) -> bool:
    """Tell whether a sample of so many rows can have left none out."""
    return (
        len(splits) == len(listing)
        and bool(columns)
        and max(c.rows for c in columns) < rows_each(len(columns), len(splits))
    )


def rows_each(columns: int, splits: int, values: int = VALUES) -> int:
    """Return how many rows of each object are read."""
    return max(min(ROWS, values // columns) // splits, 1)


FOOTERS = 64
"""Files of Parquet whose footers are read for their counts of NULL: a few milliseconds each."""


def _null_counts(source: Source, listing: Listing, encoding: Encoding, nulls: str) -> SqlText:
    """Return the question for the paths of leaves that have so many NULLs by their footers."""
    metadata = replace(encoding, format="ParquetMetadata", compression="none")
    splits = [listing.split(n, "") for n in range(len(listing))]
    return SqlText.of(
        "SELECT tupleElement(c, 'path') FROM (SELECT arrayJoin(arrayFlatten(arrayMap("
        "g -> tupleElement(g, 'columns'), row_groups))) AS c FROM ",
        source.relation(splits, metadata, ""), ") GROUP BY 1 "
        "HAVING countIf(ifNull(tupleElement(tupleElement(c, 'statistics'), 'null_count'), 1) != 0)"
        f" {nulls}",
    )  # fmt: skip


def _without_null_lists(
    source: Source,
    listing: Listing,
    encoding: Encoding,
    columns: Sequence[ColumnFacts],
    ask: RunSelect,
) -> frozenset[str]:
    """Return the lists, maps and structs in Parquet none of which is NULL or empty, by footers."""
    names = {c.name for c in columns if parse_type(c.declared).nested}
    if not names or encoding.format != "Parquet" or len(listing) > FOOTERS:
        return frozenset()
    try:
        rows = ask(_null_counts(source, listing, encoding, "> 0"), {})
    except RowfallError:  # a broken footer: whoever reads the file says so
        return frozenset()
    paths = [str(path) for (path,) in rows]
    return frozenset(n for n in names if not any(p.startswith(f"{n}.") for p in paths))


def _filled(
    source: Source,
    listing: Listing,
    encoding: Encoding,
    found: Sequence[ColumnFacts],
    ask: RunSelect,
    *,
    whole: bool,
) -> Collection[str]:
    """Return the columns declared Nullable of which it is certain that they hold no NULL."""
    names = {c.name for c in found if c.declared.startswith("Nullable(") and not c.nulls}
    if not names or encoding.format in LAKES:  # the table says what may be NULL one day
        return ()
    if whole:
        return names
    if encoding.format != "Parquet" or len(listing) > FOOTERS:
        return ()
    query = _null_counts(source, listing, encoding, "= 0")
    with suppress(RowfallError):  # a broken footer: whoever reads the file says so
        return names & {str(row[0]) for row in ask(query, {})}
    return ()


def probe_settings(encoding: Encoding, *, strict: bool = False) -> dict[str, str | int | float]:
    """Return reader settings of a sample: as strict as a load, or reading all that can be read."""
    settings = {s.name: s.value for s in reader_settings(encoding)}
    if not strict and encoding.kind is Kind.TEXT:
        kind = "csv" if encoding.is_csv else "tsv"
        settings[f"input_format_{kind}_allow_variable_number_of_columns"] = 1
    if not strict and encoding.kind is Kind.TYPED:
        settings |= dict.fromkeys(MISSING_COLUMNS, 1)
    # A parser per file that stops at the LIMIT, not one that reads ahead on all cores.
    return {
        **settings, "input_format_skip_unknown_fields": 1, "input_format_parallel_parsing": 0,
        "input_format_with_names_use_header": int(not encoding.header),
        "max_block_size": ROWS // FILES, "max_threads": 4,
        "compile_expressions": 0, "compile_aggregate_expressions": 0,
    }  # fmt: skip


Relate = Callable[[Sequence[Split], Encoding | None, str], SqlText]
"""``Source.relation``, or what stands in for it."""


def _objects(
    source: Source,
    splits: Sequence[Split],
    encoding: Encoding,
    ask: RunSelect,
    names: frozenset[str],
    limit: int = ROWS,
) -> list[str]:
    """Return the first objects of every split as text, file by file.

    As many as :data:`OBJECT_BYTES` hold: a log of 4 KB a line gives 2,000 of them.

    Args:
        names: of all columns of the load, if known: fewer objects are enough if they have them all.
    """
    if names and (few := KNOWN_VALUES // len(names)) < limit:
        objects = _objects(source, splits, encoding, ask, frozenset(), few)
        if names.issubset(c.name for c in json_objects.columns_of(objects, names)):
            return objects
    limit = max(limit // len(splits), 1)
    texts = encoding.read_as("JSONAsString")
    parts: list[str | SqlText] = []
    for number, split in enumerate(splits):
        relation = source.relation([split], texts, "`line` String")
        parts += [" UNION ALL " if parts else "", f"SELECT {number} AS n, line FROM ("]
        parts += ["SELECT line, sum(length(line)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND "]
        parts += ["CURRENT ROW) - length(line) AS before FROM (SELECT line FROM ", relation]
        parts += [f" LIMIT {limit})) WHERE before < {OBJECT_BYTES // len(splits)}"]
    quick = {"max_threads": 4, "input_format_parallel_parsing": 0, "max_block_size": OBJECTS_READ}
    by_split: list[list[str]] = [[] for _ in splits]
    for number, line in ask(SqlText.of(*parts), quick):
        by_split[int(number)].append(str(line))
    return [line for lines in by_split for line in lines]


def _keys(
    objects: Sequence[str], encoding: Encoding, splits: Sequence[Split], wanted: WantedFacts
) -> list[ColumnFacts]:
    """Return the keys of objects with what their values are.

    Raises:
        SourceError: there are no objects with keys.
    """
    types = wanted.types(encoding, ())
    nested = {
        name: type_
        for name, type_ in types.items()
        if wanted.there
        and nested_reading.is_nested(type_)
        and any(map(has_spellings, nested_reading.leaves(type_)))
    }
    found = json_objects.columns_of(objects, types, nested)
    if not found:
        raise SourceError(f"{splits[0].uri} holds no columns")
    return [
        ColumnFacts(c.name, c.type, c.nested, why=c.reason, nullable=c.nullable, texts=c.texts)
        for c in found
    ]


def _valid_lines(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: RunSelect
) -> list[str]:
    """Return the JSON objects among the first lines of the splits."""
    limit = max(VALID_LINES // len(splits), 1)
    parts: list[str | SqlText] = []
    for split in splits:
        parts += [" UNION ALL " if parts else "", "SELECT line FROM "]
        parts += [lines_relation(source, [split], encoding), f" LIMIT {limit}"]
    # Numbers of any size are JSON, but not for the engine's own test.
    fits = nested_reading.is_row("line", nested_reading.with_numbers_as_strings("line"))
    query = SqlText.of("SELECT line FROM (", *parts, f") WHERE {fits}")
    rows = ask(query, {"max_threads": 4, "input_format_parallel_parsing": 0})
    return [str(row[0]) for row in rows]


def _as_text(objects: Sequence[str]) -> Relate:
    """Return a relation of objects that stand in the statement itself."""
    text = quote("\n".join(objects))

    def relation(splits: Sequence[Split], encoding: Encoding | None, structure: str) -> SqlText:
        columns = f"{quote(structure)}, " if structure else ""
        return SqlText.of(f"format(JSONEachRow, {columns}{text})")

    return relation


def _broken_line(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: RunSelect
) -> DataError | None:
    """Find the first line that is no JSON object, by object and number."""
    fits = nested_reading.is_row("line", nested_reading.with_numbers_as_strings("line"))
    for split in splits:
        relation = lines_relation(source, [split], encoding)
        query = SqlText.of(
            f"SELECT n, substringUTF8(line, 1, {WHOLE + 1}) FROM (SELECT rowNumberInAllBlocks() + "
            "1 AS n, line FROM ", relation, ") WHERE notEmpty(trim(BOTH ' \\t\\r' FROM line)) "
            f"AND NOT {fits} LIMIT 1",
        )  # fmt: skip
        for number, text in ask(query, {"max_threads": 1, "input_format_parallel_parsing": 0}):
            others = bool(_valid_lines(source, splits, encoding, ask))
            return data_errors.broken_json(split, int(number), str(text), others=others)
    return None


def sample_relation(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[tuple[str, str]],
    limit: int = 0,
    more: str = "",
) -> SqlText:
    """Return the first rows of every split, as one relation; ``limit`` rows of each.

    ``more`` are lines that follow them.
    """
    limit = limit or max(ROWS // len(splits), 1)
    names = ", ".join(sql.name(n) for n, _ in columns)
    parts: list[str | SqlText] = []
    for split in splits:
        relation = relate([split], encoding, sql.structure(columns))
        parts += [" UNION ALL " if parts else "", f"SELECT {names} FROM ", relation]
        parts += [f" LIMIT {limit}"]
    if more:
        format_ = encoding.without_header().format
        parts += [f" UNION ALL SELECT {names} FROM "]
        parts += [f"format({format_}, {quote(sql.structure(columns))}, {quote(more)})"]
    return SqlText.of("(", *parts, ")")


# --- facts about columns -------------------------------------------------------------------------


def _of_engine(
    source: Source, splits: Sequence[Split], encoding: Encoding, ask: RunSelect, wanted: WantedFacts
) -> SourceSample:
    """Sample a format that is the engine's alone.

    Raises:
        UsageError: it cannot be read without what has to be given besides.
    """
    columns: list[ColumnFacts] = []
    if wanted.names and engine_formats.are_given(encoding.format):
        known = wanted.types(encoding, ())
        columns = [ColumnFacts(name, type_) for name, type_ in known.items()]
    try:
        columns = columns or described(source.relation, splits, encoding, ask)
        found = _measure(source.relation, splits, encoding, columns, ask, wanted)
    except EngineError as error:
        needs = engine_formats.needs(encoding.format)
        if not needs:
            raise
        cause = error.message.splitlines()[0].removeprefix(f"Code: {error.code}. DB::Exception: ")
        raise UsageError(
            f"{splits[0].uri} cannot be read as {encoding.format}: {cause[:200]}",
            hint=f"It needs {needs}. See docs/reference/formats.md.",
        ) from error
    return SourceSample(encoding, found, tuple(splits), splits[0].uri)


def described(
    relate: Relate, splits: Sequence[Split], encoding: Encoding, ask: RunSelect
) -> list[ColumnFacts]:
    """Return names and types as the engine describes them."""
    fixed: dict[str, str | int | float] = {
        "input_format_try_infer_dates": 0, "input_format_try_infer_datetimes": 0,
        "use_hive_partitioning": 0, "schema_inference_make_columns_nullable": 3,
        "input_format_parallel_parsing": 0,
    }  # fmt: skip
    rows = ask(SqlText.of("DESCRIBE TABLE ", relate(splits[:1], encoding, "")), fixed)
    columns = []
    for row in rows:
        type_ = parse_type(str(row[1]))
        if type_.base in _SHAPES and encoding.format == "Parquet":
            columns.append(ColumnFacts(str(row[0]), "Nullable(String)", why=_WKB))
            continue
        nested = type_.base in ("Array", "Tuple", "Map", "JSON", "Object", "Variant", "Dynamic")
        declared = str(row[1])
        days = days_of(declared) if encoding.format in ("Arrow", "ArrowStream") else declared
        columns.append(
            ColumnFacts(
                str(row[0]), days, nested, stored=declared if days != declared else ""
            )
        )  # fmt: skip
    if not columns:
        raise SourceError(f"{splits[0].uri} holds no columns")
    return columns


# What the engine makes of the geometries of GeoParquet. None of them takes NULL: where one stands,
# reading fails, or gives the point (0, 0) in a column of several shapes.
_SHAPES = frozenset((
    "Point", "Ring", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "Geometry",
))  # fmt: skip
_WKB = "geometries of GeoParquet as their bytes (WKB), as those of the engine take no NULL"


def _note_geometries(columns: Sequence[ColumnFacts]) -> tuple[tuple[str, str], ...]:
    names = [column.name for column in columns if column.why == _WKB]
    if not names:
        return ()
    how = f"readWKBPoint({names[0]}) and its like read them, --type '{names[0]} Point' loads points"
    return ((UNSURE, f"{', '.join(names)}: {_WKB}; {how}"),)


def declared_as(found: ColumnFacts, type_: str) -> str:
    """Return what a column is read as; a shape that somebody has named is made by the engine.

    Not ``Geometry``, in which NULL would be a point.
    """
    wanted = parse_type(type_)
    shape = found.why == _WKB and wanted.base in _SHAPES and wanted.base != "Geometry"
    return type_ if shape else found.declared


MOST_FOOTERS = 256
"""Files here whose footers are looked at before a load: a few milliseconds each."""


def _of_footers(
    source: Source, listing: Listing, splits: Sequence[Split], encoding: Encoding, ask: RunSelect,
    *, union: bool,
) -> tuple[list[ColumnFacts], tuple[Footer, ...]]:  # fmt: skip
    """Return the columns of Parquet files with types that the values of all of them fit.

    And the footers of the files, that of the first one first; () where not all were read.

    Args:
        union: columns that only some have are taken, too. Otherwise those of the first file are.
    """
    if not source.remote:
        splits = list(islice(listing.splits(""), MOST_FOOTERS))
    first = described(source.relation, splits[:1], encoding, ask)
    found: list[tuple[Footer, list[ColumnFacts]]] = []
    with suppress(RowfallError):  # a broken file: the load finds out which
        for footer in footers.read_answer(ask(footers.question(source, splits, encoding), {})):
            own = [s for s in splits if any(same_object(s.uri, path) for path in footer.paths)]
            if own[0] == splits[0]:
                found.insert(0, (footer, first))
            else:
                found.append((footer, described(source.relation, own[:1], encoding, ask)))
    if not found:
        return first, ()
    every = len(splits) == len(listing) == sum(len(footer.paths) for footer, _ in found)
    kinds = [columns for _, columns in found]
    return _merged(kinds, union=union), tuple(footer for footer, _ in found) if every else ()


def _of_each(
    source: Source, listing: Listing, splits: Sequence[Split], encoding: Encoding, ask: RunSelect
) -> list[ColumnFacts]:
    """Return the columns of all files that name their columns, each of which is asked."""
    if not source.remote:
        splits = list(islice(listing.splits(""), MOST_FOOTERS))
    kinds = []
    for split in splits:
        with suppress(RowfallError):  # a broken file: the load finds out
            kinds.append(described(source.relation, [split], encoding, ask))
    if not kinds:
        return described(source.relation, splits[:1], encoding, ask)
    return _merged(kinds, union=True)


def _merged(kinds: Sequence[Sequence[ColumnFacts]], *, union: bool) -> list[ColumnFacts]:
    """Return columns with types that the values of several files fit, those of the first first."""
    merged = {column.name: column for column in kinds[0]}
    for columns in kinds[1:]:
        for column in columns:
            known = merged.get(column.name)
            if known is None:
                if union:
                    merged[column.name] = replace(column, optional=True)
                continue
            type_ = footers.supertype(known.declared, column.declared)
            if type_ is not None:
                merged[column.name] = replace(known, declared=type_)
    for columns in kinds if union else ():
        for name in merged.keys() - {column.name for column in columns}:
            merged[name] = replace(merged[name], optional=True)
    return [
        replace(c, declared=_nullable(c.declared), stored=c.stored and _nullable(c.stored))
        if c.optional
        else c
        for c in merged.values()
    ]


def _nullable(type_: str) -> str:
    known = parse_type(type_)
    return f"Nullable({known.bare})" if known.known and not known.nullable else type_


def _measure(
    relate: Relate,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[ColumnFacts],
    ask: RunSelect,
    wanted: WantedFacts,
    more: str = "",
    *,
    but_header: bool = False,
) -> tuple[ColumnFacts, ...]:
    """Return the facts about every column, by one query.

    Args:
        more: lines from elsewhere in the objects, without a header.
        but_header: leave out rows that hold the names of the columns.

    Columns that are asked for the same facts stand in one array, and so does every answer: the
    engine needs 0.2 s only to analyse a thousand aggregates of single columns.
    """
    groups = _grouped(columns, encoding, wanted)
    if not groups:
        return tuple(columns)
    known = encoding.kind is Kind.JSON and wanted.names
    values = KNOWN_VALUES if known else VALUES
    typed = encoding.kind is Kind.TYPED
    counts_nulls = any("nulls" in facts for _, facts in groups)  # of any file they count
    if typed and not counts_nulls and len(splits) > TYPED_FILES:
        last = len(splits) - 1
        splits = [splits[n * last // (TYPED_FILES - 1)] for n in range(TYPED_FILES)]
    limit = rows_each(len(columns), len(splits), values)
    if all(facts == ("bytes_each",) for _, facts in groups):
        splits, limit = [max(splits, key=lambda split: split.size or 0)], WIDTH_ROWS
    asked = sorted(number for members in groups.values() for number in members) if typed else None
    reads = [
        (column.name, (column.stored or column.declared) if typed else "Nullable(String)")
        for number, column in enumerate(columns)
        if asked is None or number in asked
    ]
    settings = {**probe_settings(encoding), "max_block_size": limit}
    header = " AND ".join(f"ifNull({sql.name(c.name)} = {quote(c.name)}, 0)" for c in columns)
    if encoding.format in ("Parquet", *LAKES):
        # More is decoded for nothing: of 8 files of 125,000 rows all of them, for half of the CPU
        # of their load.
        settings["input_format_parquet_max_block_size"] = limit
        settings["input_format_parquet_memory_high_watermark"] = _READ_AHEAD
    if encoding.format == "ORC":
        settings["input_format_orc_row_batch_size"] = _ORC_ROWS
    relation = sample_relation(relate, splits, encoding, reads, limit, more)
    if but_header:
        relation = SqlText.of(relation, f" WHERE NOT ({header})")
    (row,) = ask(SqlText.of(_aggregates(groups, columns, encoding), relation, ")"), settings)
    return _answered(row, groups, columns, encoding)


def _measure_here(
    source: Source,
    splits: Sequence[Split],
    encoding: Encoding,
    columns: Sequence[ColumnFacts],
    wanted: WantedFacts,
    more: str,
) -> tuple[ColumnFacts, ...]:
    """Return the facts about every column as rowfall-decode finds them.

    Returns () where the engine has to be asked: for other facts, and about text that is not clean.
    """
    groups = _grouped(columns, encoding, wanted)
    if any(c.bom for c in columns) or not all(FACTS.issuperset(facts) for _, facts in groups):
        return ()
    names = [column.name for column in columns]
    limit = rows_each(len(columns), len(splits), VALUES)
    found = text_facts(source, splits, encoding, names, limit, more)
    if found is None:
        return ()
    given: list[dict[str, Any]] = [{"rows": found.rows, "declared": ""} for _ in columns]
    for (_, facts), members in groups.items():
        for number in members:
            told = found.columns[number]
            if missing := [name for name in facts if name not in told]:
                raise installed.outdated(f"the fact {missing[0]!r} about a column")
            if "infinite" in facts and told["infinite"]:
                return ()  # which of them are numbers is the engine's to say
            given[number] |= _typed({name: told[name] for name in facts})
    return tuple(replace(column, **facts) for column, facts in zip(columns, given, strict=True))


def _typed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that are known; integers of any width come as text."""
    return {
        name: int(value) if name in ("low", "high") else value
        for name, value in facts.items()
        if value is not None
    }


def _answered(
    row: Sequence[Any], groups: Groups, columns: Sequence[ColumnFacts], encoding: Encoding
) -> tuple[ColumnFacts, ...]:
    given: list[dict[str, Any]] = [{"rows": int(row[0])} for _ in columns]
    if encoding.kind is Kind.TEXT:
        given = [{**facts, "declared": ""} for facts in given]
    answers = iter(row[1:])
    for (_, facts), members in groups.items():
        # No rows, no values.
        if counted := _counted(facts):
            each = [(number, fact) for number in members for fact in counted]
            for (number, fact), value in zip(each, next(answers), strict=False):
                given[number][fact] = value
        for fact in facts:
            if fact in _MEASURES:
                for number, value in zip(members, next(answers), strict=False):
                    given[number] |= _typed({fact: value})
    return tuple(replace(column, **facts) for column, facts in zip(columns, given, strict=True))


def measure_text(
    relation: SqlText, columns: Sequence[ColumnFacts], encoding: Encoding, ask: RunSelect,
    settings: Mapping[str, str | int | float],
) -> tuple[ColumnFacts, ...]:  # fmt: skip
    """Return all facts about columns that a relation gives as text, of formats without types."""
    text = replace(encoding, kind=Kind.TEXT)
    groups = _grouped(columns, text, WantedFacts())
    query = SqlText.of(_aggregates(groups, columns, text), relation, ")")
    (row,) = ask(query, settings)
    return _answered(row, groups, columns, text)


Groups = dict[tuple[str, tuple[str, ...]], list[int]]
"""(type where it is declared, facts) -> numbers of the columns that are asked for them."""


def _grouped(columns: Sequence[ColumnFacts], encoding: Encoding, wanted: WantedFacts) -> Groups:
    types = wanted.types(encoding, [column.name for column in columns])
    groups: Groups = {}
    for number, column in enumerate(columns):
        facts = _facts_of(_class_of(column, encoding), column.nested, encoding)
        if column.name in types:
            type_ = types[column.name]
            needed = _needed(parse_type(type_), encoding, wanted.layout) if type_ else set()
            facts = [name for name in facts if name in needed]
        elif encoding.kind is Kind.TYPED:
            useless = _useless(parse_type(column.declared), encoding, wanted.layout)
            facts = [name for name in facts if name not in useless]
        if facts:
            kind = column.declared if encoding.kind is Kind.TYPED else ""
            groups.setdefault((kind, tuple(facts)), []).append(number)
    return groups


def _aggregates(groups: Groups, columns: Sequence[ColumnFacts], encoding: Encoding) -> str:
    """Return the beginning of the query: rows, then each fact of each group as an array."""
    conditions = _conditions(len(columns) + encoding.trailing, encoding)
    text = encoding.kind is Kind.TEXT
    inner, outer = [], ["count()"]
    for number, ((_, facts), members) in enumerate(groups.items()):
        x, t = f"x{number}", f"t{number}"
        inner.append(f"[{', '.join(_value(columns[m]) for m in members)}] AS {x}")
        bare = f"arrayMap(x -> trim(BOTH ' \\t' FROM x), {x})" if text else x
        inner.append(f"{bare} AS {t}")
        counted = ", ".join(f"ifNull({conditions[fact]}, 0)" for fact in _counted(facts))
        if counted:
            outer.append(f"sumForEach(arrayFlatten(arrayMap((x, t) -> [{counted}], {x}, {t})))")
        for fact in facts:
            if fact in _MEASURES:
                aggregate, each = _MEASURES[fact]
                if encoding.kind is Kind.TYPED and fact == "bytes_each":
                    each = "toFloat64(byteSize(x))"
                outer.append(f"{aggregate}ForEach(arrayMap((x, t) -> {each}, {x}, {t}))")
    return f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM "


def _counted(facts: Sequence[str]) -> list[str]:
    """Return those facts that count values: they are asked for in one array.

    The engine needs 1 ms to analyse an array and its aggregate, and a column has a dozen of them.
    """
    return [fact for fact in facts if fact not in _MEASURES]


def _value(column: ColumnFacts) -> str:
    x = sql.name(column.name)
    return f"if(startsWith({x}, '{BOM}'), substring({x}, 4), {x})" if column.bom else x


def _class_of(column: ColumnFacts, encoding: Encoding) -> str:
    """Return the class of a column, which says which facts are worth asking for."""
    if encoding.kind is Kind.TYPED:
        return "typed"
    if column.nested:
        return "nested"
    if encoding.kind is Kind.TEXT:
        return column.declared or "any"
    base = parse_type(column.declared)
    if base.base == "Bool":
        return "bool"
    # What is written in quotes stays text, even digits; only times and UUIDs have no type in JSON.
    return "number" if base.bits or base.base == "Float64" else "quoted"


def _facts_of(kind: str, nested: bool, encoding: Encoding) -> list[str]:
    """Return the names of the facts that can be found out about a column."""
    if nested or kind == "typed":
        return ["nulls", "bytes_each", *([] if nested else ["distinct"])]
    facts = ["nulls", "blanks", "distinct", "bytes_each"]
    if encoding.kind is Kind.TEXT:
        facts += ["marks", "padded"]
        if encoding.is_csv:
            facts += ["breaks", "swallowed"]
    if kind in ("number", "any"):
        facts += ["integers", "low", "high", "floats", "infinite", "rounded", "places", "exponents"]
    if kind in ("number", "any", "quoted"):
        # A table may have numbers and Bools where objects have texts.
        facts += ["zeros", "plus"]
    if kind in ("time", "any", "quoted"):
        facts += ["days", "moments", "with_t", "with_z", "digits", "first", "last"]
    facts += ["booleans"] if kind in ("bool", "any", "quoted") else []
    return facts + (["uuids"] if kind in ("uuid", "any", "quoted") else [])


def _needed(target: Type, encoding: Encoding, layout: bool) -> set[str]:
    """Return the facts that reading a known type depends on, with its width.

    See :meth:`ColumnFacts.traits`.
    """
    fixed = bool(target.bits) or target.base in _FIXED
    facts = set() if fixed else {"bytes_each"}
    facts |= {"distinct"} if layout else set()
    if encoding.kind is Kind.TYPED:
        return facts
    facts |= {"nulls", "blanks", "marks", "padded"}
    if target.text:
        facts |= {"breaks", "swallowed"}
    elif target.bits:
        facts |= {"integers", "low", "high", "infinite", "zeros", "plus"}
    elif target.base.startswith("Float"):
        facts |= {"infinite", "zeros", "plus"}
    elif target.base == "Bool":
        facts |= {"booleans"}
    elif target.base.startswith(("Date", "Time")):
        facts |= {"integers", "days", "with_t", "with_z"}
    return facts


def _useless(declared: Type, encoding: Encoding, layout: bool) -> set[str]:
    """Return the facts about a column of a format with types on which nothing depends.

    Of 51 columns of taxi in a lake table 29 need not be read at all.
    """
    lake = encoding.format in LAKES
    facts = set() if declared.nullable and not lake else {"nulls"}
    if declared.bits or declared.base in _FIXED:
        facts.add("bytes_each")
        # Only strings become LowCardinality; what stays Nullable is in no sorting key.
        if not layout or (declared.nullable and lake):
            facts.add("distinct")
    return facts


_FIXED = ("Bool", "Date", "Date32", "DateTime", "DateTime64", "UUID", "IPv4", "IPv6", "Float32",
          "Float64", "Decimal", "Enum8")  # fmt: skip


# Digits from the first to the last one that is not 0. A double keeps 15 of them whatever they are.
_DIGITS = "trim(BOTH '0' FROM replaceAll(extract({}, '^[-+]?([0-9]*[.]?[0-9]*)'), '.', ''))"
_ROUNDED = (
    "length(t) > 16 AND match(t, '^[-+]?[0-9]*[.][0-9]+([eE][-+]?[0-9]+)?$') AND "
    f"length({_DIGITS.format('t')}) > 15 AND "
    f"{_DIGITS.format('t')} != {_DIGITS.format('toString(toFloat64OrZero(t))')}"
)
_MEASURES = {
    "distinct": ("uniq", "x"),
    "bytes_each": ("avg", "length(ifNull(x, ''))"),
    "low": ("min", "accurateCastOrNull(t, 'Int128')"),
    "high": ("max", "accurateCastOrNull(t, 'Int128')"),
    "digits": ("max", "length(extract(t, '^.{19}\\\\.([0-9]+)'))"),
    "rounded": ("max", f"if({_ROUNDED}, t, '')"),
    "places": ("max", f"if({_ROUNDED}, length(extract(t, '[.]([0-9]+)')), 0)"),
    "first": ("min", "nullIf(t, '')"),
    "last": ("max", "t"),
}
"""Facts of :class:`ColumnFacts` that no condition counts, as (aggregate, expression), see
:func:`_conditions`."""


def _conditions(width: int, encoding: Encoding) -> dict[str, str]:
    """Return the condition of each fact that counts values, over ``x`` or ``t``.

    ``t`` is ``x`` without blanks around it.
    """
    text = encoding.kind is Kind.TEXT
    shape = "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\\\\.[0-9]+)?Z?$"
    real = "toString(toDate32OrNull(substring(t, 1, 10))) = substring(t, 1, 10)"
    commas = f"countSubstrings(l, {sql.literal(encoding.delimiter)}) = {width - 1}"
    lines = f"arrayCount(l -> {commas}, splitByChar('\\n', ifNull(x, '')))"
    return {
        "nulls": "isNull(x) OR x = '\\\\N'" if text else "isNull(x)",
        "blanks": "x = ''",
        "marks": "x = '\\\\N'",
        "padded": "x != t",
        "breaks": "position(x, '\\n') > 0",
        "swallowed": f"position(x, '\\n') > 0 AND {lines} > 1" if width > 1 else "0",
        "integers": "match(t, '^[-+]?[0-9]{1,38}$')",
        "zeros": "match(t, '^[-+]?0[0-9]')",
        "plus": "match(t, '^[+][0-9]{1,38}$')",
        "floats": "isNotNull(accurateCastOrNull(t, 'Float64'))",
        "exponents": "position(lower(t), 'e') > 0",
        # 1e400 is no infinity but a number too large.
        "infinite": "isInfinite(accurateCastOrNull(t, 'Float64')) AND match(t, '(?i)inf')",
        "days": f"length(t) = 10 AND {real}",
        "moments": f"match(t, '{shape}') AND {real}",
        "with_t": f"match(t, '{shape}') AND position(t, 'T') = 11",
        "with_z": f"match(t, '{shape}') AND endsWith(t, 'Z')",
        "booleans": "lower(t) IN ('true', 'false')",
        "uuids": "toString(toUUIDOrNull(t)) = lower(t)",
    }
