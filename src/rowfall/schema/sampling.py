"""Samples a source: header, column names, and facts about each column's values.

One query for the first lines, one DESCRIBE where the format names its columns, and one query
for facts about values (:mod:`rowfall.schema.column_facts`). Where the types of the table are known
already, rowfall-decode tells these of clean CSV and TSV in files
(:mod:`rowfall.schema.text.text_facts`).
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import islice
from typing import Any

from rowfall.core import engine_formats, formats, sql
from rowfall.core.dataclass import dataclass
from rowfall.core.dialect import DialectOptions
from rowfall.core.errors import (
    EngineError,
    RowfallError,
    SourceError,
    UsageError,
    headline,
)
from rowfall.core.formats import LAKES
from rowfall.core.header_line import AGAIN
from rowfall.core.listing import Listing, Split
from rowfall.core.load_command import quoted
from rowfall.core.model import Encoding, Kind
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.time_range import WIDE, TimeRange
from rowfall.core.type_names import parse_type
from rowfall.core.value_kinds import NULL_WORDS
from rowfall.decoder import installed
from rowfall.schema import avro_blocks, file_units, json_sample, time_units
from rowfall.schema.bad_rows import data_errors
from rowfall.schema.bad_rows.data_errors import same_object
from rowfall.schema.column_facts import (
    ColumnFacts,
    DeclaredType,
    FactQuery,
    Groups,
    Relate,
    RunSelect,
    WantedFacts,
    typed_facts,
)
from rowfall.schema.declared_columns import (
    as_described,
    described,
    merged_columns,
    note_geometries,
)
from rowfall.schema.json_sample import KNOWN_VALUES, OBJECTS, JsonSample
from rowfall.schema.text.excerpts import excerpts
from rowfall.schema.text.last_rows import find_last_rows, odd_values
from rowfall.schema.text.text_facts import text_facts
from rowfall.schema.text.text_format import OTHERWISE, UNSURE, check_width, find_text_format
from rowfall.schema.text.united_headers import SAMPLED_FILES, unite
from rowfall.schema.types import arrow_files, footers, json_objects, npy_files, parquet_files
from rowfall.schema.types.engine_readers import read_as
from rowfall.schema.types.footers import Footer
from rowfall.schema.types.parquet_files import TypedSample
from rowfall.schema.types.reader_settings import MISSING_COLUMNS, reader_settings
from rowfall.sources.base import Source
from rowfall.stores.objects import ObjectSource
from rowfall.systems.clickhouse.codes import MEMORY_LIMIT

FILES, ROWS = SAMPLED_FILES, OBJECTS
"""Objects in a sample, rows of all of them together."""
TYPED_FILES = 3
"""Objects of a sample of a format with types, first and last among them: whole pages of each column
are read of each. 22 columns of strings of 8 files take 0.13 s of CPU, and as many rows of 3 0.04.
"""
VALUES = 400_000
"""Values in a sample: wide tables give fewer rows (51 columns of 20,000 took 0.4 s)."""
_READ_AHEAD = 1 << 20
"""Bytes of Parquet that are decoded ahead of a sample, of all its files together."""
_ORC_ROWS = 16
"""Rows of ORC that are read at once: the reader takes what their values need before anybody counts
it. 60 values of 32 MB were 2 GiB."""
WIDTH_ROWS = 1_000
"""Rows of one object that tell how long its strings are, where nothing else is unknown."""


@dataclass(frozen=True, slots=True)
class NoNulls:
    """Columns that hold no NULL anywhere.

    Attributes:
        filled: of a format with types, as footers say, or a sample that holds every row.
        no_null_lists: lists, maps and structs of Parquet, as footers say.
    """

    filled: frozenset[str] = frozenset()
    no_null_lists: frozenset[str] = frozenset()


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
        nulls: what is known to hold none.
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
    footers: tuple[Footer, ...] = ()
    nulls: NoNulls = NoNulls()


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """Options of a load that a sample depends on.

    Attributes:
        text: what the user has said about text; None for nothing.
        union: files may lack columns.
        skip_bad_lines: bad rows will be left out, so lines that are not JSON are left out here.
        alone: no engine reads the files, as none runs or the load spares it: rowfall-decode is
            asked first about Parquet and Arrow, and about text that lies in a store.
        registry: the address of the registry of schemas, of messages of Avro.
    """

    text: DialectOptions | None = None
    union: bool = False
    skip_bad_lines: bool = False
    alone: bool = False
    registry: str = ""


def take_sample(
    source: Source, listing: Listing, encoding: Encoding, ask: RunSelect,
    options: SampleOptions | None = None, wanted: WantedFacts | None = None,
) -> SourceSample:  # fmt: skip
    """Read the first rows of up to :data:`FILES` objects, and some of the middle and the end.

    Args:
        wanted: everything by default.

    Raises:
        SourceError: there is no data, or there are more columns.
        UsageError: the objects differ in header or column count.
    """
    splits = tuple(source.sample(listing, FILES))
    if not splits:
        raise SourceError(f"{source.text} holds no data to infer columns from")
    sampler = _Sampler(source, listing, splits, encoding, ask, wanted or WantedFacts())
    options = options or SampleOptions()
    sampler = replace(sampler, alone=options.alone)
    if encoding.kind is Kind.TEXT:
        return sampler.sample_text(options)
    if engine_formats.is_engine_only(encoding.format):
        return sampler.sample_by_engine(options)
    if encoding.kind is Kind.JSON:
        return sampler.sample_json(options)
    if encoding.format == "Avro" and isinstance(source, ObjectSource):
        everything = (listing.split(n, "") for n in range(len(listing)))
        if (error := avro_blocks.endless(source, everything, encoding)) is not None:
            raise error
    return sampler.sample_typed(options)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """The objects of a sample, with the source that they are of and the engine that reads them.

    Attributes:
        splits: the objects of the sample.
        alone: see :class:`SampleOptions`.
    """

    source: Source
    listing: Listing
    splits: tuple[Split, ...]
    encoding: Encoding
    ask: RunSelect
    wanted: WantedFacts
    alone: bool = False

    # --- text ---------------------------------------------------------------------------------

    def sample_text(self, options: SampleOptions) -> SourceSample:
        source, splits, encoding, ask = self.source, self.splits, self.encoding, self.ask
        asked, optional = options.text or DialectOptions(), frozenset[str]()
        if FILES <= len(splits) < len(self.listing):  # the others may hold anything
            asked = replace(asked, lines=replace(asked.lines, as_they_are=True))
        united = None
        if options.union and len(self.listing) > 1:
            united = unite(source, self.listing, splits, encoding, ask, asked)
        if united is None:
            shape = find_text_format(source, splits, encoding, ask, asked)
        else:
            shape, optional, splits = united.found, united.optional, united.splits
        own = replace(self, splits=splits, encoding=shape.encoding)
        columns = [
            ColumnFacts(n, DeclaredType(guess), optional=n in optional) for n, guess in shape.names
        ]
        # The reader takes the mark away in front of a header only.
        columns[0] = replace(columns[0], bom=shape.bom and not shape.encoding.has_header)
        return own.sample_found(columns, shape.notes)

    def sample_found(
        self, columns: Sequence[ColumnFacts], notes: tuple[tuple[str, str], ...]
    ) -> SourceSample:
        """Return a sample of text whose marks and columns are known."""
        encoding, splits = self.encoding, self.splits
        more = excerpts(self.source, splits, encoding, [column.name for column in columns])
        here = self.measure_here(columns, more)
        found = here or self.measure(columns, more)
        seen = any(AGAIN in why for _, why in notes)
        types = self.wanted.types(encoding, [column.name for column in columns])
        # Where all types are known, no header among the values changes them.
        open_ = not here or any(column.name not in types for column in columns)
        if open_ and (seen or (encoding.has_header and _may_repeat_header(found))):
            # The header among their values made the kinds of columns unknown.
            unknown = [replace(column, declared=DeclaredType()) for column in columns]
            anew = unknown if seen else columns
            again = self.measure(anew, more, but_header=True)
            repeated = found[0].values.rows - again[0].values.rows
            if repeated:
                found = again
                notes = (*notes, *_repeated(again, repeated, own=bool(self.wanted.names)))
        if encoding.is_csv:
            encoding = replace(
                encoding,
                null="\\N" if any(c.values.marks for c in found) else "",
            )
        if more and not self.wanted.names:
            notes = (*notes, *_behind(columns, found, more, encoding, one=len(splits) == 1))
        if not self.wanted.names:
            notes = (*notes, *_unlike(columns, found, notes))
        whole = self.is_whole(found)
        return SourceSample(encoding, found, splits, splits[0].uri, notes, whole=whole)

    def measure_here(self, columns: Sequence[ColumnFacts], more: str) -> tuple[ColumnFacts, ...]:
        """Return the facts about every column as rowfall-decode finds them.

        Returns () where the engine has to be asked: about text that is not clean.
        """
        query = FactQuery.of(columns, self.encoding, self.wanted)
        groups = query.groups
        if any(c.bom for c in columns) or (self.source.remote and not self.alone):
            return ()
        names = [column.name for column in columns]
        splits, limit = self.rows_to_read(columns, groups)
        found = text_facts(self.source, splits, self.encoding, names, limit, more)
        if found is None:
            return ()
        given: list[dict[str, Any]] = [{"rows": found.rows} for _ in columns]
        for (_, facts), members in groups.items():
            for number in members:
                told = found.columns[number]
                if missing := [name for name in facts if name not in told]:
                    raise installed.outdated(f"the fact {missing[0]!r} about a column")
                given[number] |= typed_facts({name: told[name] for name in facts})
        return query.with_facts(given)

    # --- JSON ---------------------------------------------------------------------------------

    def sample_json(self, options: SampleOptions) -> SourceSample:
        source, splits, encoding = self.source, self.splits, self.encoding
        lines = JsonSample(source, splits, encoding, self.ask, self.wanted, self.alone)
        notes: tuple[tuple[str, str], ...] = ()
        relate: Relate = source.relation
        read = splits
        if options.skip_bad_lines:
            objects = lines.valid_lines()
            if not objects:
                lines.check_lines()
            relate, read = json_sample.as_text(objects), splits[:1]
            columns = lines.keys(objects)
        else:
            objects = lines.clean_objects()
            columns = lines.keys(objects)
            uris = [split.uri if source.replayable else "FILE" for split in splits]
            around = json_objects.rows_inside(objects, uris)
            notes = ((UNSURE, around),) if around else ()
            if not self.wanted.names:
                notes += tuple(json_sample.of_same_letters(objects, columns))
                texts = [c.name for c in columns if not c.declared.nested]
                notes += tuple(json_sample.of_zoned_times(objects, texts))
        if options.text is not None:
            check_width(splits, len(columns), options.text.most_columns)
        more = excerpts(source, splits, encoding, ()) if read == splits else ""
        try:
            own = replace(self, splits=read)
            here = own.measure_here(columns, more) if read == splits else ()
            found = here or own.measure(columns, more, relate=relate)
        except RowfallError as error:
            if not source.replayable:
                raise
            raise lines.broken_line() or error from None
        whole = self.is_whole(found)
        return SourceSample(encoding, found, splits, splits[0].uri, notes, whole=whole)

    # --- formats with types -------------------------------------------------------------------

    def sample_typed(self, options: SampleOptions) -> SourceSample:
        splits, encoding = self.splits, self.encoding
        found_footers: tuple[Footer, ...] = ()
        notes: tuple[tuple[str, str], ...] = ()
        if encoding.format == "Parquet" and len(self.listing) > 1:
            columns, found_footers = self.columns_of_footers(union=options.union)
            notes = note_geometries(columns)
        elif options.union and encoding.format in footers.NAMED and len(self.listing) > 1:
            columns = self.columns_of_each()
        else:
            columns = self.described(splits)
            notes = note_geometries(columns)
        columns = self.with_units(columns, options)
        if options.text is not None:
            check_width(splits, len(columns), options.text.most_columns)
        more = excerpts(self.source, splits, encoding, ())
        read = [c for c in columns if c.name not in self.wanted.without]
        found = self.measure_typed(read or columns) or self.measure(read or columns, more)
        if 0 < len(read) < len(columns):
            facts = {c.name: c for c in found}
            found = tuple(facts.get(c.name, c) for c in columns)
        whole = self.is_whole(found)
        return SourceSample(
            encoding, found, splits, splits[0].uri, notes, whole=whole, footers=found_footers,
            nulls=NoNulls(
                frozenset(self.filled(found, whole=whole)), self.without_null_lists(found)
            ),
        )  # fmt: skip

    def with_units(
        self, columns: Sequence[ColumnFacts], options: SampleOptions
    ) -> list[ColumnFacts]:
        """Return the columns with the units of numbers that are times, as files say."""
        if self.encoding.format not in file_units.FORMATS:
            return list(columns)
        few = len(self.splits) if self.encoding.format in file_units.ANY_TIMES else 1
        files = (
            file_units.units_of(self.source, split, self.encoding, options.registry)
            for split in self.splits[:few]
        )
        return time_units.with_units(columns, (file for file in files if file))

    def described(self, splits: Sequence[Split]) -> list[ColumnFacts]:
        file = self.footers_here(splits[:1])
        own = arrow_files if self.encoding.format in formats.ARROW else parquet_files
        if file and (known := own.described(file[0])):
            found = as_described(known, self.encoding)
        else:
            found = described(self.source.relation, splits, self.encoding, self.ask)
        moments = any("DateTime64" in column.declared.type for column in found)
        if not moments or self.encoding.format != "Parquet":
            return found
        with suppress(RowfallError):  # a broken file: the load finds out
            leaves = self.footers_of(splits[:1])[0].columns
            return [parquet_files.with_times_of_day(column, leaves) for column in found]
        return found

    def footers_here(self, splits: Sequence[Split]) -> Sequence[Mapping[str, Any]]:
        """Return what files say of their columns; () where the engine has to be asked."""
        sample = self.sample_here(splits)
        return sample.files if sample is not None else ()

    def sample_here(
        self, splits: Sequence[Split], names: Sequence[str] = (), rows: int = 0
    ) -> TypedSample | None:
        """Sample files with types by rowfall-decode; None where the engine has to be asked."""
        if not self.alone:
            return None
        if self.encoding.format in formats.ARROW:
            return arrow_files.read(self.source, splits, self.encoding, names, rows)
        return parquet_files.read(self.source, splits, self.encoding, names, rows)

    def measure_typed(self, columns: Sequence[ColumnFacts]) -> tuple[ColumnFacts, ...]:
        """Return the facts about columns of Parquet and Arrow as rowfall-decode finds them.

        Returns () where the engine has to be asked.
        """
        query = FactQuery.of(columns, self.encoding, self.wanted)
        numbers = sorted(n for members in query.groups.values() for n in members)
        if not self.alone or not numbers:
            return () if numbers else tuple(columns)
        splits, limit = self.rows_to_read(columns, query.groups)
        names = [columns[number].name for number in numbers]
        sample = self.sample_here(splits, names, limit)
        if sample is None:
            return ()
        told = dict(zip(numbers, sample.columns, strict=True))
        given: list[dict[str, Any]] = [{"rows": sample.rows} for _ in columns]
        for (_, facts), members in query.groups.items():
            for number in members:
                given[number] |= typed_facts({fact: told[number][fact] for fact in facts})
        return query.with_facts(given)

    def looked_at(self) -> Sequence[Split]:
        """Return the files whose columns are looked at: of files here more than are sampled."""
        if self.source.remote:
            return self.splits
        return list(islice(self.listing.splits(""), MOST_FOOTERS))

    def columns_of_footers(self, *, union: bool) -> tuple[list[ColumnFacts], tuple[Footer, ...]]:
        """Return the columns of Parquet files with types that the values of all of them fit.

        And the footers of the files, that of the first one first; () where not all were read.

        Args:
            union: columns that only some have are taken, too. Otherwise those of the first file
                are.
        """
        splits = self.looked_at()
        first = self.described(splits[:1])
        found: list[tuple[Footer, list[ColumnFacts]]] = []
        with suppress(RowfallError):  # a broken file: the load finds out which
            for footer in self.footers_of(splits):
                own = [s for s in splits if any(same_object(s.uri, path) for path in footer.paths)]
                if own[0] == splits[0]:
                    found.insert(0, (footer, first))
                else:
                    found.append((footer, self.described(own[:1])))
        if not found:
            return first, ()
        read = sum(len(footer.paths) for footer, _ in found)
        every = len(splits) == len(self.listing) == read
        kinds = [columns for _, columns in found]
        all_footers = tuple(footer for footer, _ in found) if every else ()
        return merged_columns(kinds, union=union), all_footers

    def footers_of(self, splits: Sequence[Split]) -> list[Footer]:
        if here := self.footers_here(splits):
            return parquet_files.footers_of(here)
        question = footers.question(self.source, splits, self.encoding)
        return footers.read_answer(self.ask(question, {}))

    def columns_of_each(self) -> list[ColumnFacts]:
        """Return the columns of all files that name their columns, each of which is asked."""
        splits = self.looked_at()
        kinds = []
        for split in splits:
            with suppress(RowfallError):  # a broken file: the load finds out
                kinds.append(self.described([split]))
        if not kinds:
            return self.described(splits[:1])
        return merged_columns(kinds, union=True)

    def null_counts(self, *, some: bool) -> set[str]:
        """Return the paths of leaves whose row groups may hold a NULL, or surely hold none.

        Args:
            some: those that may.

        Raises:
            RowfallError: a footer is broken.
        """
        splits = [self.listing.split(n, "") for n in range(len(self.listing))]
        if here := self.footers_here(splits):
            return parquet_files.leaves_with_nulls(here, some=some)
        metadata = replace(self.encoding, format="ParquetMetadata", compression="none")
        query = SqlText.of(
            "SELECT tupleElement(c, 'path') FROM (SELECT arrayJoin(arrayFlatten(arrayMap("
            "g -> tupleElement(g, 'columns'), row_groups))) AS c FROM ",
            self.source.relation(splits, metadata, ""), ") GROUP BY 1 HAVING countIf("
            "ifNull(tupleElement(tupleElement(c, 'statistics'), 'null_count'), 1) != 0)"
            f" {'> 0' if some else '= 0'}",
        )  # fmt: skip
        return {str(path) for (path,) in self.ask(query, {})}

    def without_null_lists(self, columns: Sequence[ColumnFacts]) -> frozenset[str]:
        """Return the lists, maps and structs in Parquet none of which is NULL or empty."""
        names = {c.name for c in columns if parse_type(c.declared.type).nested}
        if not names or self.encoding.format != "Parquet" or len(self.listing) > FOOTERS:
            return frozenset()
        try:
            paths = self.null_counts(some=True)
        except RowfallError:  # a broken footer: whoever reads the file says so
            return frozenset()
        return frozenset(n for n in names if not any(p.startswith(f"{n}.") for p in paths))

    def filled(self, found: Sequence[ColumnFacts], *, whole: bool) -> Collection[str]:
        """Return the columns declared Nullable of which it is certain that they hold no NULL."""
        nullable = (c for c in found if c.declared.type.startswith("Nullable("))
        names = {c.name for c in nullable if not c.values.nulls}
        if not names or self.encoding.format in LAKES:  # the table says what may be NULL one day
            return ()
        if whole:
            return names
        if self.encoding.format != "Parquet" or len(self.listing) > FOOTERS:
            return ()
        with suppress(RowfallError):  # a broken footer: whoever reads the file says so
            return names & self.null_counts(some=False)
        return ()

    def sample_by_engine(self, options: SampleOptions) -> SourceSample:
        """Sample a format that is the engine's alone.

        Raises:
            UsageError: it cannot be read without what has to be given besides.
        """
        encoding, splits = self.encoding, self.splits
        columns: list[ColumnFacts] = []
        if self.wanted.names and engine_formats.are_given(encoding.format):
            known = self.wanted.types(encoding, ())
            array = self.type_of_array() if len(known) == 1 else ""
            columns = [
                ColumnFacts(name, DeclaredType(array or read_as(encoding.format, type_)))
                for name, type_ in known.items()
            ]
        try:
            # Who has no schema file, as the engine here, asks nothing about values.
            unread = bool(columns) and engine_formats.has_schema_file(encoding.format)
            columns = columns or self.described(splits)
            found = tuple(columns) if unread else ()
            found = found or self.measure_typed(columns) or self.measure(columns)
        except EngineError as error:
            needs = engine_formats.needs(encoding.format)
            if not needs:
                raise
            cause = headline(error.message)
            cause = cause.removeprefix(f"Code: {error.code}. DB::Exception: ")
            raise UsageError(
                f"{splits[0].uri} cannot be read as {encoding.format}: {cause[:200]}",
                hint=f"It needs {needs}. See docs/reference/formats.md.",
            ) from error
        found = tuple(self.with_units(found, options))
        return SourceSample(encoding, found, splits, splits[0].uri)

    def type_of_array(self) -> str:
        """Return the type that an array of NumPy has; "" of other formats and unknown ones."""
        if self.encoding.format != npy_files.FORMAT:
            return ""
        own = npy_files.header(self.source, self.splits[0], self.encoding)
        return own.whole if own is not None else ""

    # --- any format ---------------------------------------------------------------------------

    def measure(
        self, columns: Sequence[ColumnFacts], more: str = "", *, relate: Relate | None = None,
        but_header: bool = False,
    ) -> tuple[ColumnFacts, ...]:  # fmt: skip
        """Return the facts about every column, by one query.

        Args:
            more: lines from elsewhere in the objects, without a header.
            relate: gives the rows of splits; the source by default.
            but_header: leave out rows that hold the names of the columns.
        """
        encoding = self.encoding
        query = FactQuery.of(columns, encoding, self.wanted)
        groups, typed = query.groups, encoding.kind is Kind.TYPED
        if not groups:
            return tuple(columns)
        splits, limit = self.rows_to_read(columns, groups)
        asked = sorted(n for members in groups.values() for n in members) if typed else None
        reads = [
            (column.name, column.declared.read if typed else "Nullable(String)")
            for number, column in enumerate(columns)
            if asked is None or number in asked
        ]
        settings = {**probe_settings(encoding), "max_block_size": limit}
        if encoding.format in ("Parquet", *LAKES):
            # More is decoded for nothing: of 8 files of 125,000 rows all of them, for half of the
            # CPU of their load.
            settings["input_format_parquet_max_block_size"] = limit
            settings["input_format_parquet_memory_high_watermark"] = _READ_AHEAD
        if encoding.format == "ORC":
            settings["input_format_orc_row_batch_size"] = _ORC_ROWS
        relate = relate or self.source.relation
        relation = sample_relation(relate, splits, encoding, reads, limit, more)
        if but_header:
            header = (f"ifNull({sql.name(c.name)} = {quote(c.name)}, 0)" for c in columns)
            relation = SqlText.of(relation, f" WHERE NOT ({' AND '.join(header)})")
        try:
            (row,) = self.ask(query.over(relation), settings)
        except RowfallError as error:
            if error.code != MEMORY_LIMIT or not typed or len(columns) == 1:
                raise
            # The reader of Parquet fetches what a row group holds of each column, whatever part of
            # it is wanted: five columns of 6 million rows took 290 MB together, and 70 one by one.
            half = len(columns) // 2
            parts = (columns[:half], columns[half:])
            return tuple(f for part in parts for f in self.measure(part, more, relate=relate))
        return query.read(row)

    def rows_to_read(
        self, columns: Sequence[ColumnFacts], groups: Groups
    ) -> tuple[list[Split], int]:
        """Return the objects that facts are found in, and the rows of each."""
        splits, encoding = list(self.splits), self.encoding
        counts_nulls = any("nulls" in facts for _, facts in groups)  # of any file they count
        if encoding.kind is Kind.TYPED and not counts_nulls and len(splits) > TYPED_FILES:
            last = len(splits) - 1
            splits = [splits[n * last // (TYPED_FILES - 1)] for n in range(TYPED_FILES)]
        if groups and all(facts == ("bytes_each",) for _, facts in groups):
            return [max(splits, key=lambda split: split.size or 0)], WIDTH_ROWS
        known = encoding.kind is Kind.JSON and self.wanted.names
        return splits, rows_each(len(columns), len(splits), KNOWN_VALUES if known else VALUES)

    def is_whole(self, columns: Sequence[ColumnFacts]) -> bool:
        """Tell whether a sample of so many rows can have left none out."""
        most = rows_each(len(columns), len(self.splits)) if columns else 0
        return (
            len(self.splits) == len(self.listing)
            and bool(columns)
            and max(c.values.rows for c in columns) < most
        )


def _behind(
    columns: Sequence[ColumnFacts], found: Sequence[ColumnFacts], more: str, encoding: Encoding,
    *, one: bool,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield the notes about lines from the middle and the end that are not like the first ones.

    Args:
        columns: as the first rows show them, ``found`` as all lines do.
        one: all lines are of one file.
    """
    lines = more.split("\n")
    rows = list(csv.reader(lines, delimiter=encoding.delimiter)) if encoding.is_csv else [
        line.split("\t") for line in lines
    ]  # fmt: skip
    names = [column.name for column in columns]
    rows = [row for row in rows if len(row) == len(names)]
    last = find_last_rows(names, rows) if one and encoding.has_header else None
    if last is not None:
        why, flags = last
        yield UNSURE, f"{why}; {flags} leaves out such rows" if flags else why
        if flags:
            yield OTHERWISE, flags
        return
    odd = odd_values(names, [column.declared.type for column in columns], rows)
    left: list[str] = []
    words: set[str] = set()
    types: dict[str, str] = {}
    for n, values in odd.items():
        facts, own = found[n], {*values}
        if (
            own <= NULL_WORDS
            and columns[n].declared.type == "number"
            and facts.filled - facts.kinds.most <= len(values)
        ):
            words |= own
            whole = facts.kinds.integers == facts.kinds.most
            types[names[n]] = f"Nullable({'Int64' if whole else 'Float64'})"
        else:
            left.append(f'{names[n]} for "{values[0]}"')
    if types:
        listed = ",".join(sorted(words))
        # Rewritten text shows its first rows only, and no NULL among them.
        flags = f"--null{'=' if listed.startswith('-') else ' '}{shlex.quote(listed)}"
        flags += f" {data_errors.type_options([*types.items()])}"
        yield UNSURE, f"text as it is written: {', '.join(types)}; {flags} makes numbers of it"
        yield OTHERWISE, flags
    if left:
        shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        yield UNSURE, f"text as it is written: {shown} further down; numbers or dates before it"


def _unlike(
    columns: Sequence[ColumnFacts], found: Sequence[ColumnFacts], notes: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the note about columns that are text for rows which no other note is about.

    The first lines are looked at one by one, and those of the middle and the end; of the rows
    between them there are counts.

    Args:
        columns: as the first lines show them, ``found`` as all rows of the sample do.
    """
    begin, left = "text as it is written: ", []
    lists = (why.removeprefix(begin).partition(";")[0] for _, why in notes if begin in why)
    # A name that is cut or has a comma is told twice, which is better than not at all.
    told = {item.partition(' for "')[0] for names in lists for item in names.split(", ")}
    for first, facts in zip(columns, found, strict=True):
        kinds = facts.kinds
        # A day has no time of day, and is no other kind of value.
        same = max(kinds.most, kinds.days + kinds.moments)
        odd = facts.filled - same if kinds.most > 0 else 0
        if first.declared.type not in ("", "text") and odd > 0 and first.name not in told:
            left.append(f"{first.name} for {odd:,} of {facts.values.rows:,} rows")
    if left:
        shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        yield UNSURE, f"{begin}{shown}; all others are numbers or dates"


def _repeated(
    columns: Sequence[ColumnFacts], count: int, *, own: bool
) -> tuple[tuple[str, str], ...]:
    """Return the notes about a header that stands again: what the types refuse, and what not.

    Args:
        own: all columns are named, so that types may be given which show nothing of the sample.
    """
    if own or any(0 < c.filled == c.kinds.most for c in columns):
        return ((UNSURE, _REPEATED.format(count)),)
    name = columns[0].name
    flags = f"--where {quoted(f'{sql.bare_name(name)} != {sql.literal(name)}')}"
    return (UNSURE, _REPEATED_TEXT.format(count, flags)), (OTHERWISE, flags)


_REPEATED_TEXT = (
    "the header stands again in {:,} of the lines seen, and as all columns are text it is loaded "
    "as rows; {} leaves such lines out"
)
_REPEATED = (
    "the header stands again in {:,} of the lines seen: types are those of the other lines, and "
    "--max-errors N leaves such lines out"
)


def _is_broken(found: ColumnFacts) -> bool:
    """Tell whether nearly all values of a column are of one kind, and a few are not."""
    most = found.kinds.most
    return 0 < found.filled - most <= max(8, found.filled // 20) and most > 0


def _may_repeat_header(found: Sequence[ColumnFacts]) -> bool:
    """Tell whether a row may hold the names of the columns: that breaks all columns of a kind.

    The names in it are no numbers. To look for such rows takes the engine, 0.3 s to start.
    """
    whole = (c for c in found if c.kinds.most and c.filled == c.kinds.most)
    return any(map(_is_broken, found)) and not any(_WORD.fullmatch(c.name.lower()) for c in whole)


_WORD = regex(r"(?!(?:true|false|nan|inf|infinity|null)\Z)[a-z][a-z_]*[0-9]{0,3}")


def rows_each(columns: int, splits: int, values: int = VALUES) -> int:
    """Return the number of rows to read of each object in a sample, at least 1."""
    return max(min(ROWS, values // columns) // splits, 1)


MOST_FOOTERS = 256
"""Files here whose footers are looked at before a load: a few milliseconds each."""
FOOTERS = 64
"""Files of Parquet whose footers are read for their counts of NULL: a few milliseconds each."""


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
