"""Cuts large files into ranges, so that no shard of a cluster waits for another one's file.

Which files are cut may differ from run to run: it depends on the shards and on what is left to do.
Where a file is cut never does: on a grid that only its size decides. Of a file that has been begun
in ranges only ranges are loaded, and one that is loaded as a whole is never cut; the journal keeps
two processes that decide otherwise at the same moment apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import FirstFacts, LoadFacts, PossibleRanges
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.listing import CUT_LEAST, MARK, Listing, Part, Split
from rowfall.core.model import ENGINE, Choice, Column, Encoding, Kind, Schema
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.core.type_names import parse_type
from rowfall.decoder import rewriting
from rowfall.plan import balance
from rowfall.plan.reach import source_reader
from rowfall.plan.transport import decoder_may_parse
from rowfall.schema.text.records import find_record, header_line, header_names
from rowfall.schema.types import reader_settings, strict_reading
from rowfall.sources.base import Ranged, Source

# Bytes that hold any header.
HEADER = 1 << 16

Read = Callable[[Split, int, int], bytes]
"""``(object, offset, length)``: its bytes, fewer where it ends, none where no part can be had."""

# Shards may end so much later than they would on average: DESIGN asks for no more.
AIM = 0.03
# Ranges are at least this long, and a file has at most so many: 1,024 ranges give 32 shards shares
# that differ by 3 %. Neither may ever change: ranges that are loaded would not be known again.
LEAST, MOST = CUT_LEAST // 2, 1024


@dataclass(frozen=True, slots=True)
class Cutting:
    """The listing, perhaps with ranges; ``notes`` say what was cut, or why it was not."""

    listing: Listing
    notes: tuple[str, ...] = ()


def step(size: int) -> int:
    """Return the bytes between two places of the grid of a file: a power of two, from 4 MiB on."""
    return max(LEAST, 1 << (-(-size // MOST) - 1).bit_length())


def ask_ranges(session: Session, facts: FirstFacts, known: Collection[str]) -> PossibleRanges:
    """Ask for the ranges of what has been begun in ranges, and of what may keep shards waiting.

    Only where :func:`cuts_files`.

    Args:
        known: ids that are loaded, with the marks of files of which ranges have.

    Raises:
        SourceError: a file that has been begun in ranges cannot be read.
    """
    key, options = session.target_key, session.options
    begun, wanted = _begun(facts, known, key), _wanted(facts, options, known, key)
    if not begun and not wanted:
        return PossibleRanges()
    found: dict[int, tuple[Split, ...] | str] = {}
    # A thousand places of a file are looked at: not where only an engine could read its text.
    typed = facts.encoding is not None and facts.encoding.format == "Parquet"
    if ranges_refused(facts, options) is None and (typed or decoder_may_parse(facts, options)):
        for index in sorted(begun | wanted):
            try:
                ranges = _file_ranges(session, facts, facts.listing.split(index, key))
            except SourceError as error:
                if index in begun or not error.transient:
                    raise
                ranges = error.message  # whoever loads it has the patience
            found[index] = ranges if isinstance(ranges, str) else tuple(ranges)
    return PossibleRanges(frozenset(begun), frozenset(wanted - begun), found)


def cut(facts: LoadFacts, options: Options, parser: Choice) -> Cutting:
    """Cut what has been begun in ranges, and what would keep shards waiting for each other.

    Args:
        parser: who parses text.

    Raises:
        UsageError: a file has been begun in ranges, and now cannot be cut.
    """
    known = facts.cuts
    if not known.begun and not known.wanted:
        return Cutting(facts.listing)
    why = ranges_refused(facts, options) or ranges_refused_by(parser, facts)
    cuts: dict[int, Sequence[Split]] = {}
    reasons: dict[str, int] = {}
    for index in sorted(known.begun | known.wanted):
        found = why or known.found[index]
        if not isinstance(found, str):
            cuts[index] = found
            continue
        if index in known.begun:
            raise UsageError(
                f"{facts.listing.uri(index)} was loaded in part by ranges and cannot be cut now: "
                f"{found}",
                hint="Load it with the options and tables of that run.",
            )
        reasons[found] = reasons.get(found, 0) + 1
    notes = [_kept_whole(facts, count, reason) for reason, count in reasons.items()]
    if cuts:
        total = sum(map(len, cuts.values()))
        files, ranges = units.counted(len(cuts), "file"), units.counted(total, "range")
        notes.insert(0, f"{files} loaded in {ranges}, so that all {_workers(facts)} work")
    return Cutting(_with(facts.listing, cuts), tuple(notes))


def _workers(facts: FirstFacts) -> str:
    return "connections" if facts.destination.takes_text else "shards"


def _kept_whole(facts: FirstFacts, count: int, reason: str) -> str:
    files = units.counted(count, "file")
    return f"{files} kept whole, so some {_workers(facts)} may be done before others: {reason}"


def _begun(facts: FirstFacts, known: Collection[str], key: str) -> set[int]:
    """Return the files of which ranges are loaded."""
    if not known:
        return set()
    listing = facts.listing
    large = (i for i in range(len(listing)) if (listing.size(i) or 0) >= CUT_LEAST)
    return {
        i for i in large
        if (id_ := listing.split(i, key).id) not in known and f"{MARK}{id_}" in known
    }  # fmt: skip


def _wanted(
    facts: FirstFacts, options: Options, known: Collection[str], key: str
) -> set[int]:  # fmt: skip
    """Return the files that would make some writer or connection work longer than the others."""
    speeds = [float(writer.engine.cores) for writer in facts.writers]
    if (connections := facts.destination.connections(facts, options)) is not None:
        speeds = [1.0] * connections
    if len(speeds) < 2:
        return set()
    splits = facts.listing.splits(key)
    todo = {i: split.size or 0 for i, split in enumerate(splits) if split.id not in known}
    if not todo or balance.assign(todo.values(), speeds).imbalance <= AIM:
        return set()
    # Smaller ones fill what the ranges of the larger leave.
    share = sum(todo.values()) / len(speeds)
    return {i for i, size in todo.items() if size >= max(CUT_LEAST, AIM * share)}


def _file_ranges(session: Session, facts: FirstFacts, split: Split) -> list[Split] | str:
    """Return the ranges of one file, or why there are none."""
    encoding, columns = facts.encoding, facts.schema.reads
    if facts.schema.filters:
        # What is stored of a range of rows is compared with what its footer says.
        return "--where leaves rows out"
    if not isinstance(facts.source, Ranged):
        return "it can be read from its beginning only"
    if encoding is not None and encoding.format != "Parquet":
        return _text_file_ranges(facts.source, encoding, facts.schema, split)
    engine, source = source_reader(session, facts.reach)
    (row,) = engine.ask(footer_question(source, split, columns))
    return row_ranges(split, read_footer(row, columns), step(split.size or 0))


def _text_file_ranges(
    source: Ranged, encoding: Encoding, schema: Schema, split: Split
) -> list[Split] | str:
    data = source.part(split, 0, HEADER)
    if not data:
        return "its server sends whole files only"
    head, count = b"", len(schema.reads)
    if encoding.has_header:
        head = header_line(data) or b""
        names = header_names(head, encoding)
        wanted = {c.source or c.name for c in schema.reads}
        if len(set(names)) < len(names) or not wanted <= set(names):
            return "its header is not that of the table"
        count = len(names)
    width = reader_settings.line_fields(encoding, schema.reads, count)
    every = step(split.size or 0)
    return text_ranges(split, encoding, head, width, every, source.part)


def _with(listing: Listing, cuts: Mapping[int, Sequence[Split]]) -> Listing:
    """Return the listing with some files replaced by their ranges."""
    if not cuts:
        return listing
    found = Listing(listing.projection)
    found.by_name = listing.by_name
    for index, split in enumerate(listing.splits("")):
        for one in cuts.get(index, (split,)):
            found.add(one.uri, one.version, one.size, one.start, one.stop, one.part)
    return found


# --- text: between records -----------------------------------------------------------------------

# Bytes read for one cut: most records end within the first; where none does within the second,
# there is no cut.
READ_SIZES = (1 << 16, 1 << 20)
# At a time: a store reads a piece of some MB for each, and 32 of them took longer than its client
# waits on a machine of two busy cores.
REQUESTS = 8


def text_ranges(
    split: Split, encoding: Encoding, head: bytes, width: int, step: int, read: Read
) -> list[Split] | str:
    """Return ranges of whole records, of about ``step`` bytes each; or why there are none.

    Each shard loads its ranges on its own, so a cut has to be right by itself: see
    :func:`rowfall.schema.text.records.find_record`.

    Args:
        head: the header with its line end, b"" where there is none: no range holds it.
        width: fields of a record, 0 where it is not known.

    Raises:
        SourceError: the file cannot be read.
    """
    size = split.size or 0

    def place(at: int) -> int | None:
        for size in READ_SIZES:
            data = read(split, at - 1, size)
            found = find_record(data, encoding, width)
            if found is not None:
                return at - 1 + found
            if len(data) < size:
                break
        return None

    from concurrent.futures import ThreadPoolExecutor  # 4 ms that others save

    with ThreadPoolExecutor(REQUESTS) as pool:
        found = set(pool.map(place, range(step, size, step)))
    stops = sorted(stop for stop in found if stop is not None and len(head) < stop < size)
    if not stops:
        return "no place shows beyond doubt that a record ends there"
    edges = [len(head), *stops, size]
    return [
        replace(split, id="", size=b - a, start=a, stop=b, part=Part(size, head=len(head)))
        for a, b in pairwise(edges)
    ]


# --- Parquet: between row groups that a column keeps apart ---------------------------------------

# No engine reads row groups by their number. ``_row_number`` is new (24.10 has none), and a
# condition on it skips nothing: 26.9 reads all 2,000,000 rows for one of 16 groups. What 24.10 and
# 26.9 do skip are groups whose minimum and maximum of a column exclude a condition: the 130,818
# rows of that group are all that is read. So a file is cut where all values of some column before
# are smaller than all after. The conditions of all ranges cover every value once, whatever the
# statistics say; only how much is read depends on them, and each range has to give the rows that
# the footer says.

_FOOTER = Encoding("ParquetMetadata", "none", Kind.TYPED)
_INTEGERS = regex(r"U?Int(8|16|32|64|128|256)")
# Decimal digits of a second in Parquet's timestamps, and the function that makes one a value.
_UNITS = {
    "milliseconds": (3, "fromUnixTimestamp64Milli"),
    "microseconds": (6, "fromUnixTimestamp64Micro"),
    "nanoseconds": (9, "fromUnixTimestamp64Nano"),
}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: rows, bytes as stored, and of some columns (minimum, maximum)."""

    rows: int
    size: int
    bounds: dict[str, tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class RowGroups:
    """One file: the columns that might cut it, with how each value is written; its row groups."""

    columns: dict[str, _Value]
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True, slots=True)
class _Value:
    """Meaning of a number of the statistics, by which it is compared.

    Attributes:
        function: makes it a value of the column; "" for plain integers.
        every: it has to be a multiple of this, or the column as it is read would round it.
        least: of those that the statistics show.
    """

    function: str = ""
    every: int = 1
    least: int = -(1 << 63)

    def text(self, value: int) -> str:
        return f"{self.function}({value})" if self.function else str(value)


def footer_question(source: Source, split: Split, columns: Sequence[Column]) -> SqlText:
    """Return the question for the footer of one file, see :func:`read_footer`."""
    names = ", ".join(literal(c.source or c.name) for c in columns)
    return SqlText.of(
        # Statistics of texts are not text: any bytes.
        f"WITH arrayFilter(c -> c.path IN ({names}) AND c.physical_type IN ('INT32', 'INT64'), "
        "columns) AS numbers SELECT arrayMap(c -> (c.path, c.physical_type, c.logical_type, "
        "c.max_definition_level), numbers), arrayMap(g -> (g.num_rows, g.total_compressed_size, "
        "arrayMap(c -> (c.path, c.have_statistics, c.statistics.null_count, c.statistics.min, "
        "c.statistics.max), arrayFilter(c -> has(numbers.path, c.path), g.columns))), row_groups) "
        "FROM ",
        source.relation([split], _FOOTER, ""),
    )


def read_footer(row: Sequence[Any], columns: Sequence[Column]) -> RowGroups:
    """Return the row groups in an answer to :func:`footer_question`, with usable statistics."""
    described, groups = row
    read = {c.source or c.name: c.read_type or c.type for c in columns}
    values: dict[str, _Value] = {}
    required: set[str] = set()
    for path, physical, logical, level in described:
        value = _value(str(physical), str(logical), read[str(path)])
        if value is not None:
            values[str(path)] = value
        if int(level) == 0:
            required.add(str(path))
    found = []
    for rows, size, own in groups:
        bounds = {
            str(path): (int(low), int(high))
            if there and low is not None and high is not None
            # What is shown of unsigned numbers is signed: those from 2^63 on come out negative.
            and values[str(path)].least <= int(low) <= int(high)
            and (str(path) in required or str(nulls) == "0")
            else None
            for path, there, nulls, low, high in own
            if str(path) in values
        }  # fmt: skip
        found.append(RowGroup(int(rows), int(size), bounds))
    return RowGroups(values, tuple(found))


def _value(physical: str, logical: str, read: str) -> _Value | None:
    """Return the way to compare statistics of a Parquet column with values of the type read.

    None where they cannot be compared.
    """
    kind = parse_type(read)
    if physical not in ("INT32", "INT64"):
        return None
    if _INTEGERS.fullmatch(kind.base) and (logical == "None" or logical.startswith("Int(")):
        return _Value(least=0) if "isSigned=false" in logical else _Value()
    if logical == "Date" and kind.base in ("Date", "Date32"):
        return _Value("toDate32")
    unit = next((u for u in _UNITS if f"timeUnit={u}" in logical), "")
    if unit and kind.base in ("DateTime", "DateTime64"):
        digits, function = _UNITS[unit]
        kept = int(kind.args.split(",")[0]) if kind.base == "DateTime64" else 0
        return _Value(function, 10 ** max(0, digits - kept))
    return None


def row_ranges(split: Split, known: RowGroups, step: int) -> list[Split] | str:
    """Return ranges of whole row groups of about ``step`` stored bytes, or why there are none.

    All cuts or none, and always at the same places: ranges of a file must be the same in every run,
    whichever column keeps them apart.
    """
    at = [0, *accumulate(group.size for group in known.groups)]
    rows = [0, *accumulate(group.rows for group in known.groups)]
    cuts = [n for n in range(1, len(known.groups)) if at[n] // step != at[n - 1] // step]
    if not cuts:
        return "it is one row group; row groups of 100 MB or less can be loaded by several shards"
    for column, value in known.columns.items():
        lows = _lows(known.groups, column, cuts)
        if lows is None or any(low % value.every for low in lows):
            continue
        edges = [0, *cuts, len(known.groups)]
        texts = ["", *map(value.text, lows), ""]
        return list(_ranges_between(split, column, edges, texts, rows, at))
    return (
        "no column keeps its row groups apart, and the engine skips no others; a file sorted by a "
        "number or a time can be loaded by several shards"
    )


def _lows(groups: Sequence[RowGroup], column: str, cuts: Sequence[int]) -> list[int] | None:
    """Return the smallest value behind each cut; None where values before it are not smaller.

    Groups without rows have no values.
    """
    bounds: list[tuple[int, int]] = []
    places: list[int] = []
    for number, group in enumerate(groups):
        if not group.rows:
            continue
        own = group.bounds.get(column)
        if own is None:
            return None
        bounds.append(own)
        places.append(number)
    highest = list(accumulate((high for _, high in bounds), max))
    lowest = list(accumulate((low for low, _ in reversed(bounds)), min))[::-1]
    found = []
    for cut in cuts:
        after = sum(place < cut for place in places)
        if not 0 < after < len(places) or highest[after - 1] >= lowest[after]:
            return None
        found.append(lowest[after])
    return found


def _ranges_between(
    split: Split, column: str, edges: Sequence[int], texts: Sequence[str], rows: Sequence[int],
    at: Sequence[int],
) -> Iterator[Split]:  # fmt: skip
    size = split.size or 0
    for number, (first, last) in enumerate(pairwise(edges)):
        part = Part(size, column, texts[number], texts[number + 1])
        # The footer's own bytes are nobody's.
        yield Split(
            "", split.uri, split.version, at[last] - at[first], rows[first], rows[last], part
        )


# --- whether files are cut at all -----------------------------------------------------------------


def cuts_files(facts: FirstFacts) -> bool:
    """Tell whether ranges of files are splits: of one embedded engine the pipes share a file."""
    return facts.placement != "embedded" or facts.destination.takes_text


def ranges_refused(facts: FirstFacts, options: Options) -> str | None:
    """Return the reason that no parser can cut any file; None where it depends on the file."""
    encoding, views = facts.encoding, facts.table.views.names
    if facts.sharding is not None:
        return "every file holds rows of all shards, by the sharding key"
    if encoding is None or not cuts_files(facts) or options.method != "local":
        return "there are no files"
    if options.force:
        return "--force loads files as they are"
    if options.max_errors or options.max_error_ratio:
        return "bad rows are counted and shown by the lines of whole files"
    if options.direct:
        return "--direct has no staging in which the rows of a range are counted"
    if views:
        return f"the table feeds materialized views ({', '.join(views)})"
    if encoding.format == "Parquet":
        return None
    if facts.rows_refused:
        return (
            f"what rowfall-decode declines of a range is sent from here, and {facts.rows_refused}"
        )
    return _not_cut(encoding, facts.schema)


def _not_cut(encoding: Encoding, schema: Schema) -> str | None:
    """Return the reason that files of this encoding cannot be cut into ranges; None if they can."""
    if encoding.dialect is not None:
        return f"{rewriting.describe(encoding.dialect)} is rewritten from its beginning"
    if encoding.kind in (Kind.TEXT, Kind.JSON) and encoding.compression != "none":
        return (
            f"{encoding.compression} can be unpacked from its beginning only; several smaller "
            "files, or plain ones, can be loaded by several shards"
        )
    if encoding.kind not in (Kind.TEXT, Kind.JSON):
        return f"{encoding.format} is read from its beginning to its end"
    if encoding.is_csv and strict_reading.holds_line_breaks(schema.columns):
        return "its fields hold line breaks, so no place shows that a record ends there"
    return None


def ranges_refused_by(parser: Choice, facts: FirstFacts) -> str | None:
    """Return the reason that the chosen parser cannot read ranges of text; None if it can."""
    if parser.value == ENGINE and facts.encoding is not None and facts.encoding.format != "Parquet":
        return f"only rowfall-decode reads ranges of text, and {parser.reason}"
    return None
