"""Attempts: which splits are loaded by one statement, how many at once, and what they take. Pure.

Rates are those of one core; forecasts and the sizes of attempts come from them, never anything that
has to be exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rowfall.contracts.facts import FirstFacts, LoadFacts
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import (
    BUILD,
    ENGINE,
    HERE,
    PULL,
    PUSH,
    DeliveryForecast,
    Encoding,
    Facts,
    Forecast,
    Group,
    Kind,
    MergeWork,
    Setting,
    Transport,
)
from rowfall.core.options import DISTRIBUTED, FILTER, Options
from rowfall.core.units import parse_size
from rowfall.decoder.abilities import flat_types
from rowfall.plan import balance, merging
from rowfall.plan.decoding import read_encoding, zone
from rowfall.plan.settings import (
    ENGINE_BASE,
    LEAST_WIDE_BYTES,
    LoadShape,
    block,
    chosen_settings,
    compute_settings,
    in_order,
    insert_threads,
)
from rowfall.schema.text.text_format import UNSURE
from rowfall.sources.base import LacksLengths

# Stored bytes that one core turns into table rows per second, by kind of source (measured on
# trips and taxi data, chDB 26.9; text is compressed or not).
_RATES: dict[tuple[Kind, bool], float] = {
    (Kind.TEXT, True): 25e6,
    (Kind.TEXT, False): 90e6,
    (Kind.JSON, True): 15e6,
    (Kind.JSON, False): 80e6,
    (Kind.TYPED, True): 60e6,
    (Kind.TYPED, False): 60e6,
}


@dataclass(frozen=True, slots=True)
class _Cost:
    """CPU seconds of what rowfall-decode parses.

    Attributes:
        byte: of a stored byte that is read and unpacked.
        value: of a value that is parsed, sorted and written; ``row``: of a row besides its values.
        column: of a column of a table with wide parts: its files, and what is compressed for them.
    """

    byte: float
    value: float
    row: float = 0.0
    column: float = 3.5e-3


# Values tell more than bytes: those of taxi and hits differ by a third where a stored byte of one
# is worth two of another. Fitted to bench/results-forecast.json (2 cores, three rounds): trips,
# taxi, lineitem and hits in csv.gz, json.gz and Parquet, 3 to 105 columns, are within 25 % of its
# seconds.
_COSTS: dict[tuple[Kind, bool], _Cost] = {
    (Kind.TEXT, True): _Cost(12.6e-9, 6.9e-9),
    (Kind.JSON, True): _Cost(9.7e-9, 12.9e-9),
    (Kind.TYPED, True): _Cost(3.5e-9, 8.4e-9, column=3e-4),
    (Kind.TYPED, False): _Cost(3.5e-9, 8.4e-9, column=3e-4),
}
# Of rows by the protocol of a database on this machine, its own work with them included: 20 M trips
# of 3 columns and 0.5 M hits of 105 columns, tables of 1 GB. What a table takes on disk tells
# nothing.
_ROWS_OF_DATABASES = _Cost(0.0, 90e-9, 110e-9)
_FORMAT_COSTS = {"PostgreSQL": _ROWS_OF_DATABASES, "MySQL": _ROWS_OF_DATABASES}
# Seconds that a load of objects takes longer than one of files here: it lists them, signs and asks;
# and CPU seconds of a byte that comes through a socket. 24 loads of 32 to 175 MB from a store on
# this machine took 0.04 to 0.74 s longer, with their bytes.
_REMOTE_SECONDS, _REMOTE_BYTE = 0.18, 2.5e-9
# Memory bytes that remote objects take besides: what is fetched before it is parsed. The same loads
# took 39 to 225 MB more.
_FETCHED_TIMES, _FETCHED_MOST = 1.5, 160 << 20
# Parquet that rowfall-decode copies is read column by column where it can be: 0.4 to 1.0 of what
# blocks of all columns would take.
_BY_COLUMN = 0.75
# The same of Parquet that the engine reads.
_ENGINE_COSTS = _Cost(5.5e-9, 20e-9)
# Of the cores while a load runs: the first rows and the last are not everybody's (1.70 to 1.76 of 2
# cores in bench/results.json).
_BUSY = 0.87
# What a plan asks of a store or a database says nothing about how fast it gives rows.
_UNMEASURED = "the speed of the source and of the network"
# Seconds before the first row is read and behind the last, of processes that start, of publishing,
# checking and closing. By bench/forecast.py with the decoder that users get (2 cores, before all
# others), 20 M trips and 1 M taxi rows, csv.gz and Parquet: loads took 0.13 to 0.35 s longer than
# with 0.1.
_START_SECONDS = 0.3
# Memory bytes that one core generates, sorts and writes per second.
_MADE_RATE = 120e6
# An attempt's fixed cost (staging, count, publish, idle threads at its end) is 0.1 to 0.4 s: at
# 20 s of work it stays under 2 %. More would only mean more to repeat after a crash.
ATTEMPT_SECONDS = 20.0
# Files are not taken apart, so at the end of an attempt cores wait for the last ones: of 1,000 of
# 210 MB, 16 cores get 38 in 20 s, which take 3 rounds where 2.4 would do. Four rounds at least
# make that 6 % at most.
ATTEMPT_ROUNDS = 4
# Of a load that several machines share there are attempts for all of them: eight workers have four
# each, so that the last one to end keeps the others waiting for a quarter of its time; none of them
# of less than two seconds of work, of which the fixed cost is 5 to 20 %.
FLEET_ATTEMPTS, FLEET_SECONDS = 32, 2.0
# The statement names every object of its attempt; beyond this the text is slow to parse.
MOST_SPLITS = 2_000
# Raw bytes per stored byte of compressed text (trips 4.6, taxi 2.9).
_RATIO = 4.0
# Bytes of Parquet that stored bytes of a source become.
_OF_SOURCE = {(Kind.TEXT, False): 0.25, (Kind.JSON, False): 0.15}
# Rows of built partitions are held in this part of an attempt's memory: as much may be written
# while others are held, the rows of a partition are copied once more, and sorted. 50 M trips in one
# partition with --memory 512MiB: 471 MiB of all processes together, and 544 with 4.
HELD_SHARE = 6
# Resident before the first row where rowfall-decode makes the parts: rowfall itself (60 MB) and an
# engine that only attaches them (240 MB).
BUILD_BASE = 290 << 20
# Bytes in memory of the rows of a part for a server, where there is room: each file of a part costs
# a server 0.3 CPU-ms, 1,230 files of 2 M taxi rows in 6 parts more than half of what it took for
# them. The builder takes as much CPU as with half of it, and 0.4 GB more memory.
SERVER_BLOCK = 512 << 20
# Of each row that is sorted: where it goes, its key, and what is packed of it. Measured of all
# processes with trips (9 and 24 bytes a row), taxi and lineitem, 0.25 to 20 M rows of csv.gz,
# json.gz and Parquet: 18 to 27 for small rows; without, 20 M trips in Parquet were 26 % below.
SORT_BYTES = 20
# More parts than this in one partition and MergeTree delays inserts (parts_to_delay_insert).
DELAY_PARTS = 1_000


FOREGROUND = (
    Setting("distributed_foreground_insert", 1, "rows are on their shards when it ends"),
    # The source is read where the statement runs, not by a statement on each shard.
    Setting("parallel_distributed_insert_select", 0, "one shard's share", routine=True),
    # Its own shard's share is written by the statement itself, and counted with it.
    Setting("prefer_localhost_replica", 1, "rows of the shard itself stay there", routine=True),
)


# --- sizes ---------------------------------------------------------------------------------------


def core_rate(encoding: Encoding | None) -> float:
    """Return the stored bytes (of generators: bytes in memory) that one core loads in a second."""
    if encoding is None:
        return _MADE_RATE
    packed = encoding.compression not in ("none", "auto")
    return _RATES.get((encoding.kind, packed), 30e6)


def weight(listing: Listing, index: int, row_bytes: float) -> float:
    """Return the bytes of a split in the unit of :func:`core_rate`.

    Args:
        row_bytes: of a row in memory.
    """
    made = listing.rows(index)
    if made is not None:
        return made * row_bytes
    return float(listing.size(index) or 0)


def rows(facts: FirstFacts, todo: Sequence[int]) -> int | None:
    """Return about how many rows some splits hold, None when nothing tells."""
    listing, encoding, schema = facts.listing, facts.encoding, facts.schema
    made, sizes = [listing.rows(i) for i in todo], [listing.size(i) for i in todo]
    stored = float(sum(s or 0 for s in sizes))
    found: int | None
    if all(r is not None for r in made):
        found = sum(r or 0 for r in made)
    elif encoding is None or any(s is None for s in sizes):
        found = None
    elif facts.rows_per_byte is not None:
        found = round(stored * facts.rows_per_byte)
    else:
        packed = encoding.compression not in ("none", "auto")
        # Text is about as long as its row in memory and a half; Parquet stores a third of it.
        raw = stored * (_RATIO if packed else 1.0)
        if encoding.kind is Kind.TYPED:
            raw = stored * 3.0
        found = int(raw / max(1.0, schema.row_bytes * 1.2))
    return schema.limit if schema.limit and (found is None or found > schema.limit) else found


# --- attempts ------------------------------------------------------------------------------------


def cut_evenly(
    facts: LoadFacts, options: Options, cores: int, todo: Sequence[int],
    limit: Callable[[float, float], float] = lambda usual, _: usual,
) -> tuple[Group, ...]:  # fmt: skip
    """Put neighbouring splits into equal attempts; what is near by name is often near by key.

    Args:
        cores: of the engine that loads them.
        todo: indexes of the splits.
        limit: gives the bytes of an attempt, by those that a table would get and those of all
            splits. ``--attempt-bytes`` wins.
    """
    groups: list[Group] = []
    # Rows are checked in another way for ranges of files than for files.
    for some in facts.listing.whole_and_ranges(todo):
        weights = [weight(facts.listing, i, facts.schema.row_bytes) for i in some]
        if options.attempt_bytes:
            most = float(parse_size(options.attempt_bytes))
        else:
            mean = sum(weights) / max(1, len(weights))
            usual = attempt_bytes(core_rate(facts.encoding), cores, mean)
            if options.fleet is not None:
                least = FLEET_SECONDS * core_rate(facts.encoding) * cores
                usual = min(usual, max(sum(weights) / FLEET_ATTEMPTS, least))
            most = limit(usual, sum(weights))
        parts = balance.cut(weights, most, MOST_SPLITS)
        groups += [_group(facts.listing, [some[n] for n in part]) for part in parts]
    return tuple(groups)


def attempt_bytes(rate: float, cores: int, mean: float) -> float:
    """Return the bytes of one attempt.

    Args:
        rate: bytes per second of one core. ``mean``: bytes of a file.
    """
    return max(ATTEMPT_SECONDS * rate, ATTEMPT_ROUNDS * mean) * cores


def parquet_share(encoding: Encoding | None) -> float:
    """Return the bytes of Parquet that about one byte of a source becomes."""
    if encoding is None:
        return 0.5
    return _OF_SOURCE.get((encoding.kind, encoding.compression not in ("none", "auto")), 1.0)


def as_one(listing: Listing, groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return one group of all splits of some, in the order of the listing."""
    indexes = sorted(i for group in groups for i in group.indexes)
    return (replace(_group(listing, indexes), indexes=tuple(indexes)),)


def _group(listing: Listing, indexes: Sequence[int]) -> Group:
    sizes = [listing.size(i) for i in indexes]
    known = None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)
    # Largest first: the last thread to finish then has little left (longest processing time).
    # Ranges stay in order: neighbours are read as one.
    if indexes and listing.rows(0) is None and listing.part(indexes[0]) is None:
        indexes = sorted(indexes, key=lambda i: -(listing.size(i) or 0))
    return Group(tuple(indexes), known)


def cut_files(listing: Listing, files: int, todo: Sequence[int]) -> tuple[Group, ...]:
    """Return one group for each file of an export, over the whole listing so that numbers stay.

    Raises:
        UsageError: there are to be more files than the source has pieces.
    """
    total = len(listing)
    if not total and files == 1:  # nobody has asked for a number of files
        return (Group((), 0),)
    if files > total:
        raise UsageError(
            f"--files {files} is more than the {total} pieces of the source",
            hint="A file is written from whole pieces (source files or generated ranges).",
        )
    wanted = set(todo)
    groups = []
    for start, stop in file_bounds(total, files):
        # A file whose pieces are all loaded keeps its (empty) group, so that n stays n.
        missing = [i for i in range(start, stop) if i in wanted]
        groups.append(_group(listing, range(start, stop)) if missing else Group((), 0))
    return tuple(groups)


def file_bounds(pieces: int, files: int) -> Iterator[tuple[int, int]]:
    """Give the half-open ranges of the pieces that go into each file of an export."""
    return pairwise(pieces * n // files for n in range(files + 1))


# --- the share of one writer ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlannedShare:
    """The share of one writer in a load: its attempts, and what is expected of them."""

    groups: tuple[Group, ...]
    lanes: int
    settings: tuple[Setting, ...]
    forecast: Forecast


def plan_writer(
    facts: LoadFacts, options: Options, transport: Transport, number: int, todo: Sequence[int]
) -> PlannedShare:
    """Return attempts, settings and forecast of one writer.

    Args:
        todo: indexes of its splits.
    """
    engine = facts.writers[number].engine
    if transport.delivery.value == BUILD and facts.reach is not None:
        # Statements do nothing that depends on cores; parts are built on those of this machine.
        engine = replace(engine, cores=max(1, facts.cores_here // len(facts.writers)))
    cut = facts.destination.cut(facts, options, engine.cores, todo)
    if cut is None:
        cut = cut_evenly(facts, options, engine.cores, todo)
    if facts.schema.limit:
        cut = as_one(facts.listing, cut)  # only one statement can count its rows
    groups = tuple(replace(group, writer=number) for group in cut)
    busy = sum(1 for group in groups if group.indexes)
    lanes = facts.destination.lanes(facts, options, engine.cores, busy)
    share = share_of(engine, max(lanes, transport.streams))
    shape = shape_of(facts, transport, groups, todo)
    settings = compute_settings(share, shape, chosen_settings(options.set))
    if facts.schema.limit:
        settings = in_order(settings, facts.schema.limit)
    if facts.placement != "embedded":
        # The log of a server hides keys, and is the evidence after a lost connection.
        settings = tuple(s for s in settings if s.name != "log_queries" or not s.routine)
    if sends_rows(transport):
        settings += FOREGROUND
    work = WriterWork(engine, share, shape, todo, groups, lanes)
    return PlannedShare(groups, lanes, settings, expect(facts, transport, work))


def share_of(engine: Facts, sharing: int) -> Facts:
    """Return what each of so many lanes or streams has of an engine's cores and memory."""
    if sharing < 2:
        return engine
    return replace(
        engine,
        cores=max(1, engine.cores // sharing),
        memory=ENGINE_BASE + max(0, engine.memory - ENGINE_BASE) // sharing,
    )


def shape_of(
    facts: LoadFacts, transport: Transport, groups: Sequence[Group], todo: Sequence[int]
) -> LoadShape:
    """Return the shape of the load of some attempts.

    Args:
        todo: indexes of their splits.
    """
    listing, schema = facts.listing, facts.schema
    decoded = transport.parser.value != ENGINE or transport.delivery.value == BUILD
    return LoadShape(
        files=max((len(g.indexes) for g in groups), default=1),
        biggest=max((listing.size(i) or 0 for i in todo), default=0),
        row_bytes=schema.row_bytes,
        partitions=schema.layout.partitions,
        columns=schema.reads,
        encoding=facts.encoding,
        remote=facts.remote,
        decoded=decoded,
        stream_bytes=_stream_bytes(facts, transport, groups, todo),
        sent=decoded and transport.delivery.value == PUSH,
    )


def _stream_bytes(
    facts: LoadFacts, transport: Transport, groups: Sequence[Group], todo: Sequence[int]
) -> int:
    """Return the bytes in memory of a connection in a mean attempt; 0 where nobody knows.

    What rowfall-decode builds is no part of another size: a thread that parses writes it, too.
    """
    count = rows(facts, todo)
    busy = sum(1 for group in groups if group.indexes)
    inserts = facts.destination.makes_parts and transport.delivery.value != BUILD
    if count is None or not busy or not inserts:
        return 0
    return int(count * facts.schema.row_bytes / busy) // max(1, transport.streams)


def sends_rows(transport: Transport) -> bool:
    """Tell whether a Distributed table may send rows to shards; also those that are not built."""
    built = transport.delivery.value == BUILD and transport.sharding.value == FILTER
    return built or transport.sharding.value == DISTRIBUTED


# --- forecasts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriterWork:
    """The work of one writer.

    Attributes:
        engine: the writer's. ``share``: what one of its ``lanes`` has of it.
        shape: of its attempts.
        todo: indexes of its splits, in ``groups``.
    """

    engine: Facts
    share: Facts
    shape: LoadShape
    todo: Sequence[int]
    groups: Sequence[Group]
    lanes: int


def expect(facts: LoadFacts, transport: Transport, work: WriterWork) -> Forecast:
    """Return the forecast of one writer's work: its rows, seconds, bytes of memory and parts."""
    engine, share, shape, todo = work.engine, work.share, work.shape, work.todo
    groups, lanes = work.groups, work.lanes
    listing, encoding = facts.listing, facts.encoding
    count = rows(facts, todo)
    size = sum(weight(listing, i, facts.schema.row_bytes) for i in todo)
    unknown = encoding is not None and listing.total_size is None
    fetched = facts.remote and _of_database(facts) is None
    seconds = None
    if not unknown:
        cpu = _cpu_seconds(facts, transport.parser.value, size, count)
        seconds = _START_SECONDS + cpu / (_BUSY * engine.cores)
        if fetched:
            seconds += _REMOTE_SECONDS + size * _REMOTE_BYTE / (_BUSY * engine.cores)
    block_rows, block_bytes = block(share, shape)
    threads = insert_threads(share, shape)
    block_size = min(block_bytes, int(block_rows * shape.row_bytes))
    built = transport.delivery.value == BUILD
    merged = built and merging.of_load(facts, _built_of(facts, transport))
    if built and facts.reach is not None and shape.partitions <= 1:
        block_size, block_rows = SERVER_BLOCK, int(SERVER_BLOCK / max(1.0, shape.row_bytes))
    if count is not None and groups:
        block_size = min(block_size, int(count * shape.row_bytes / threads))
    if merged:
        block_size = min(block_size, merging.HELD_BLOCK)
    memory = ENGINE_BASE + lanes * 3 * threads * block_size
    if built:
        # A part is made of the only copy of its block, in the order of the key.
        sorting = SORT_BYTES if facts.schema.layout.order_by not in ("", "tuple()") else 0
        held = lanes * threads * block_size
        held += int(held / max(1.0, shape.row_bytes)) * sorting
        if encoding is not None and encoding.kind is Kind.TYPED:
            held = int(held * _BY_COLUMN)
        memory = BUILD_BASE + held
        if merged and count is not None:
            memory += min(int(count * shape.row_bytes), lanes * share.memory // HELD_SHARE)
    if fetched:
        memory += int(min(size * _FETCHED_TIMES, _FETCHED_MOST))
    parts, merges = 0, None
    if count is not None and facts.destination.makes_parts:
        held_back = built and shape.partitions > 1
        for group in groups:
            own = count * len(group.indexes) / max(1, len(todo))
            blocks = max(1, round(own / block_rows + threads / 2))
            if merged:
                blocks = 1
            elif held_back:
                # The rows of a partition are held until they are a part.
                blocks = math.ceil(own * shape.row_bytes / (share.memory // HELD_SHARE))
            parts += max(1, blocks) * shape.partitions
        stored = int(count * shape.row_bytes)
        into = max(1, shape.partitions)
        merges = MergeWork.of(parts, into, stored, stored // into, engine.cores)
    return Forecast(
        count,
        seconds,
        min(memory, engine.memory),
        parts,
        _advice(facts, transport, parts),
        merges=merges,
        unmeasured=_UNMEASURED if facts.remote and seconds is not None else "",
    )


def _built_of(facts: LoadFacts, transport: Transport) -> str:
    """Return the format of what rowfall-decode makes parts of."""
    if facts.encoding is None or transport.parser.value == ENGINE:
        return "Native"
    return facts.encoding.format


# CPU seconds of a server, measured on 24.10 (docs/decisions/0120-parts-for-servers.md): of a byte
# in memory that comes as sorted blocks (400,000 to 10 M rows of trips and taxi: 1e-9 to 3e-9); of a
# byte on disk and of an attempt whose parts it takes over.
_TAKEN_BLOCKS, _TAKEN_PARTS, _TAKEN_ATTEMPT = 2e-9, 3e-9, 0.03
# CPU seconds here of a byte in memory that becomes part of a file: 2 M taxi rows of 1.08 GB took
# 5.4 seconds built and 3.4 sent, 6 M of lineitem in Parquet (0.85 GB) 3.7 and 2.8.
_BUILT_BYTE = 1.5e-9


def expect_deliveries(
    facts: LoadFacts, transport: Transport, groups: int
) -> tuple[DeliveryForecast, ...]:
    """Return what each delivery into servers would cost; () where that is not known.

    Args:
        groups: number of attempts.
    """
    todo, reach = facts.todo, facts.reach
    count = rows(facts, todo)
    if reach is None or count is None or facts.encoding is None or not todo:
        return ()
    size = sum(weight(facts.listing, i, facts.schema.row_bytes) for i in todo)
    stored = sum(facts.listing.size(i) or 0 for i in todo)
    memory = round(count * facts.schema.row_bytes)
    disk = None if facts.stored_row_bytes is None else round(count * facts.stored_row_bytes)
    parsed = _cpu_seconds(facts, ENGINE if facts.program is None else HERE, size, count)
    cores = sum(writer.engine.cores for writer in facts.writers)
    near = facts.writers[0].link.near

    def one(
        delivery: str, here: float, servers: float, sent: int | None, why: str
    ) -> DeliveryForecast:
        busiest = max(here / facts.cores_here, servers / cores)
        if near:  # both work on the same cores
            busiest = (here + servers) / facts.cores_here
        there = stored if delivery == PULL else 0
        return DeliveryForecast(
            delivery, _START_SECONDS + busiest / _BUSY, here, servers, stored - there, there, sent,
            why,
        )  # fmt: skip

    inside = all(writer.no_decoder is None for writer in facts.writers)
    pulled = _cpu_seconds(facts, HERE if inside else ENGINE, size, count)
    taken = groups * _TAKEN_ATTEMPT + (disk or memory // 4) * _TAKEN_PARTS
    unbuilt = "" if transport.delivery.value == BUILD else transport.parts.reason
    return (
        one(BUILD, parsed + memory * _BUILT_BYTE, taken, disk, unbuilt),
        one(PUSH, parsed, memory * _TAKEN_BLOCKS, memory, facts.rows_refused or ""),
        one(PULL, 0.0, pulled, 0, "" if reach.pull else reach.reason),
    )


def _of_database(facts: LoadFacts) -> _Cost | None:
    """Return what rows cost that come by the protocol of a database; None for all others."""
    read = read_encoding(facts.source, facts.encoding)
    return _FORMAT_COSTS.get(read.format) if read is not None else None


def _cpu_seconds(
    facts: LoadFacts, parser: str, size: float, count: int | None
) -> float:  # fmt: skip
    """Return the CPU seconds of some rows.

    Args:
        parser: who parses them, see :attr:`rowfall.core.model.Transport.parser`.
        size: bytes, by :func:`weight`. ``count``: number of rows, None where it is unknown.
    """
    encoding = facts.encoding
    if encoding is not None and count is not None:
        packed = encoding.compression not in ("none", "auto")
        cost = _of_database(facts) or _COSTS.get((encoding.kind, packed))
        if parser == ENGINE:
            # It parses text for three times as much, which its rate by bytes knows.
            cost = _ENGINE_COSTS if encoding.kind is Kind.TYPED else None
        if cost is not None:
            columns = len(facts.schema.reads)
            each = columns * cost.value + cost.row
            wide = count * facts.schema.row_bytes >= LEAST_WIDE_BYTES
            return size * cost.byte + count * each + wide * columns * cost.column
    return size / core_rate(encoding)


def side_by_side(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the forecast of all writers together: the longest time, and the sum of the rows."""
    counts = [f.rows for f in forecasts]
    seconds = [f.seconds for f in forecasts]
    return Forecast(
        None if None in counts else sum(r or 0 for r in counts),
        None if None in seconds else max(s or 0.0 for s in seconds),
        max(f.memory for f in forecasts),
        sum(f.parts for f in forecasts),
        tuple(dict.fromkeys(advice for f in forecasts for advice in f.advice)),
        merges=MergeWork.together(f.merges for f in forecasts),
        unmeasured=next((f.unmeasured for f in forecasts if f.unmeasured), ""),
    )


def _about_lengths(facts: LoadFacts) -> list[str]:
    """Say of which files a server that pulls cannot tell whether they have come whole."""
    if facts.reach is None or not isinstance(facts.reach.source, LacksLengths):
        return []
    names = facts.reach.source.without_length(facts.encoding)
    if not names:
        return []
    return [
        f"The web server does not say how long {units.counted(len(names), 'file')} is "
        f"({names[0]}): a ClickHouse server takes one that is cut at the end of a line for whole; "
        "--push has it read here, and compared with the listing."
    ]


def _advice(facts: LoadFacts, transport: Transport, parts: int) -> tuple[str, ...]:
    advice = [text for subject, text in facts.schema.notes if subject == UNSURE]
    advice += _about_zones(facts)
    there = facts.reach is not None and not transport.reads_here
    unpinned = facts.unpinned_there if there else facts.unpinned
    if unpinned and transport.parser.value == ENGINE:
        advice.append(f"{unpinned}: one that changes meanwhile, and changes back, is not noticed.")
    if there:
        advice += _about_lengths(facts)
    partitions = facts.schema.layout.partitions
    if partitions > 100:
        existing = facts.table.existing
        key = facts.schema.layout.partition_by or (existing.partition_key if existing else "")
        advice.append(
            f"The partition key {key} has about {partitions:,} values: "
            f"every block is cut into as many parts ({parts:,} in all). A coarser key "
            "(toYYYYMM of a date) or none loads and reads faster."
        )
    if partitions and parts / partitions > DELAY_PARTS:
        advice.append(
            f"About {parts // partitions:,} parts per partition are more than MergeTree likes "
            f"({DELAY_PARTS:,}); give the load more --memory, so that blocks get larger."
        )
    return tuple(advice)


def _about_zones(facts: LoadFacts) -> list[str]:
    """Warn that the same text is another moment on another shard: nobody sees that afterwards."""
    zones = sorted({writer.engine.timezone for writer in facts.writers})
    if len(zones) < 2 or facts.encoding is None or facts.encoding.kind is Kind.TYPED:
        return []
    local = [c.name for c in facts.schema.columns if "" in map(zone, flat_types(c.type))]
    if not local:
        return []
    return [
        f"The shards are in different time zones ({', '.join(zones)}), and each reads "
        f"{', '.join(local)} in its own: give such a column a zone, as in DateTime('UTC')."
    ]
