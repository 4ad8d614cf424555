"""Engine settings computed from the machine, the source and the table, each with its reason.

The formula is the one of ClickHouse's own guide for large loads (insert threads, then block
bytes = memory / (3 x insert threads)), with what was measured here in place of its 3.
Everything whose default differs between engine versions is sent explicitly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError, UsageError
from rowfall.core.formats import LAKES
from rowfall.core.model import Column, Encoding, Facts, Kind, Setting
from rowfall.core.nearest import did_you_mean
from rowfall.core.units import counted
from rowfall.core.units import memory as bytes_text
from rowfall.schema.types.reader_settings import reader_settings
from rowfall.systems.clickhouse.codes import forbidden

# Resident before the first row: the engine's code and its caches (measured 270-330 MB, chDB 26.9).
ENGINE_BASE = 350 << 20
# Less than this leaves no room for one block and its sorted copy.
LEAST_MEMORY = 512 << 20
# A block is held while it is read and squashed, as its sorted copy, and as compressed columns being
# written: 3.9 copies (51 columns, two insert threads, blocks of 30 and of 60 MB).
COPIES_PER_BLOCK = 4
# Larger blocks than this did not load faster (sweep of 1 to 20 M rows); sorting leaves the cache.
MOST_BLOCK_ROWS = 5_000_000
# Wide rows: reading the next block has to overlap with sorting and writing this one (51 columns:
# 3.7 s with blocks of 256 MiB, 4.8 s with blocks of 1 GiB).
MOST_BLOCK_BYTES = 256 << 20
LEAST_BLOCK_BYTES = 8 << 20
# What one column of a part costs its engine, in bytes that are sent and inserted meanwhile: 1.4 ms
# of CPU, be it of 3 columns or of 51, and 1.3 s a GB (10 M trips and 0.5 M taxi rows into a server
# of 24.10 on this machine, blocks of 4 to 100 MiB).
BYTES_PER_PART_COLUMN = 1 << 20
# Of 3 columns, blocks of 8 MiB were not faster than those of 16, and their parts are twice as many.
LEAST_SHARED_BYTES = 16 << 20
# Each partition of a block is written by a stream of its own: buffers of about 1 MiB per column
# file are held at once, see max_insert_delayed_streams_for_parallel_write.
BYTES_PER_PARTITION_STREAM = 1 << 20
# An insert thread holds two buffers of 1 MiB for each file of its part: what is to be compressed
# (max_compress_block_size) and what is to be written. For 51 columns that is 165 MiB.
BYTES_PER_FILE = 2 << 20
# The engine's limit counts what is reserved, touched or not, and a part is written while the one
# before is finished: 545 MiB for a thread with 51 columns in 121 files, blocks not counted. Parts
# below min_bytes_for_wide_part (10 MiB) are one file each and need none of it.
RESERVED_PER_FILE = 9 << 19
LEAST_WIDE_BYTES = 10 << 20
# Blocks count three times there, five times those that come through a pipe; and what reads one
# object: a row group of 89 MB in pages and columns, or a stretch of text.
RESERVED_COPIES, PIPED_COPIES = 3, 2
PARQUET_PER_READER, TEXT_PER_READER = 115 << 20, 32 << 20
# Blocks that are sent to a server are in no pipe, and its buffers are smaller: 478 MB with blocks
# of 21 MB, 700 with 110 MB (24.10, 51 columns in 125 files).
SENT_PER_FILE, SENT_COPIES = 7 << 19, 2.5
# Below this a server makes, links and deletes the files of a part for longer than it fills them:
# 1 M rows in 125 files took it 4.0 CPU-seconds as 22 parts, 2.1 as 6. Larger blocks won nothing.
LEAST_OF_SENT_FILE = 1 << 20
# One insert thread with larger blocks is faster than two with blocks of 15 MiB (4.1 and 5.4 s).
WORTH_A_THREAD = 32 << 20
# What the Parquet reader may hold before it waits for the rest of the pipeline: its default of 4
# GiB is more than a small --memory; 1/8 was not slower (2 M rows of 51 columns: 2.1 s with both).
PARQUET_SHARE = 8
# What rowfall-decode has fetched of remote objects and not yet parsed, for each pipe: 16 MiB of
# the object that it is in, and as much of those whose turn comes next.
FETCHED_AHEAD = 32 << 20

# Rows of a block that is read or made: the engine's own size, and the least that is worth it.
READ_ROWS = 65_409
LEAST_READ_ROWS = 512
# The ORC reader's own size; it takes what the values of so many rows need before the engine counts
# it.
ORC_ROWS = 100_000
_ORC_ROWS = "input_format_orc_row_batch_size"
# The Parquet reader's own sizes.
PARQUET_WAITING = "input_format_parquet_memory_high_watermark"
_PARQUET_ROWS = "input_format_parquet_max_block_size"
_PARQUET_BYTES = "input_format_parquet_prefer_block_bytes"
_OWN_BYTES = 16 << 20
OWN_PARQUET = {_PARQUET_ROWS: READ_ROWS, _PARQUET_BYTES: _OWN_BYTES}


@dataclass(frozen=True, slots=True)
class LoadShape:
    """The shape of a load: settings depend on it and on the engine.

    Attributes:
        files: objects to read; 1 for stdin.
        biggest: bytes of the biggest object, 0 when unknown.
        row_bytes: bytes of a row in memory.
        partitions: partitions that one block is spread over.
        columns: of the table.
        encoding: None for generators.
        remote: read over the network.
        decoded: rowfall-decode makes the blocks, and holds one for each pipe itself.
        stream_bytes: in memory, of the rows of one attempt that come by one connection or one
            statement; 0 where that is unknown, and where no engine inserts blocks.
        sent: it sends them to a server, whose memory they take.
    """

    files: int
    biggest: int
    row_bytes: float
    partitions: int
    columns: tuple[Column, ...]
    encoding: Encoding | None
    remote: bool
    decoded: bool = False
    stream_bytes: int = 0
    sent: bool = False


def compute_settings(
    facts: Facts, shape: LoadShape, chosen: dict[str, str | int | float]
) -> tuple[Setting, ...]:
    """Return the settings of every INSERT; ``chosen`` (``--set``) wins.

    Raises:
        UsageError: memory too small, or a chosen setting that this engine does not know.
        TargetError: the user's profile forbids a setting that decides how rows are read.
    """
    check_memory(facts.memory)
    reading = reader_settings(shape.encoding, shape.columns) if shape.encoding is not None else ()
    settings = [*_threads(facts, shape), *_blocks(facts, shape), *_fixed(), *reading]
    needed = _NEEDED | {setting.name for setting in reading}
    allowed = (
        _allowed(facts, setting, needed=setting.name in needed)
        for setting in settings
        if setting.name not in chosen
    )
    known = [
        s for s in allowed
        if s is not None and (not facts.settings or s.name in facts.settings)
    ]  # fmt: skip
    check_names(facts, chosen)
    return (*known, *(Setting(n, v, "given with --set") for n, v in chosen.items()))


def chosen_settings(texts: Sequence[str]) -> dict[str, str | int | float]:
    """Return ``--set name=value`` as a mapping; numbers become numbers.

    Raises:
        UsageError: no ``=``, or a name that is not a setting's.
    """
    chosen: dict[str, str | int | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(
                f"--set {text!r} has no value", hint="Write it as --set max_threads=8."
            )
        sql.settings_clause({name: 0})
        try:
            chosen[name] = int(value)
        except ValueError:
            chosen[name] = value
    return chosen


def check_memory(memory: int) -> None:
    """Check that a load can do with so many bytes of memory.

    Raises:
        UsageError: it cannot.
    """
    if memory < LEAST_MEMORY:
        given, least = bytes_text(memory), bytes_text(LEAST_MEMORY)
        given = f"less than {least}" if given == least else given
        raise UsageError(
            f"{given} of memory is too little for a load",
            hint=f"Give at least --memory {least.replace(' ', '')}.",
        )


def check_names(facts: Facts, chosen: Iterable[str]) -> None:
    """Check that the engine has the settings of ``--set``.

    Raises:
        UsageError: it lacks one.
    """
    for name in chosen:
        if facts.settings and name not in facts.settings:
            raise UsageError(
                f"the engine ({facts.version}) has no setting {name!r}",
                hint=f"{did_you_mean(name, facts.settings)}List them: "
                "rowfall query 'SELECT name, description FROM system.settings'.",
            )


def _allowed(facts: Facts, setting: Setting, *, needed: bool) -> Setting | None:
    """Return a setting as the user's profile allows it; None where it is left to the profile.

    Raises:
        TargetError: it may not be left to the profile.
    """
    if facts.allows(setting.name, setting.value):
        return setting
    if needed:
        raise not_allowed(facts, setting.name, setting.value)
    constraint = facts.constraints[setting.name]
    if constraint.fixed or setting.routine or not isinstance(setting.value, int):
        return None
    near = constraint.nearest(setting.value)
    return replace(setting, value=near, reason="the nearest value that the user's profile allows")


def not_allowed(facts: Facts, name: str, value: str | int | float) -> TargetError:
    """Return the error of a load that needs a setting which the user's profile forbids."""
    why = "without which rows would be read or stored otherwise"
    return forbidden(name, facts.constraints[name].value, value, "", why)


def insert_threads(facts: Facts, shape: LoadShape) -> int:
    """Return the threads that insert: all cores up to 4, half of them above (others parse)."""
    return _thread_counts(facts, shape)[1]


def _thread_counts(facts: Facts, shape: LoadShape) -> tuple[int, int]:
    """Return the threads that read and those that insert: as many as the memory has blocks for."""
    readers = facts.cores
    most = facts.cores if facts.cores <= 4 else math.ceil(facts.cores / 2)
    room = (facts.memory - ENGINE_BASE) // (COPIES_PER_BLOCK * LEAST_BLOCK_BYTES)
    inserting = max(1, min(most, room))
    typed = _parquet_memory(facts, shape) > 0
    if not (typed or shape.decoded) and most_block(facts, shape, inserting) < LEAST_WIDE_BYTES:
        return readers, inserting
    while inserting > 1 and _reservable(facts, shape, readers, inserting) < WORTH_A_THREAD:
        inserting -= 1
    # Text costs a reader little: fewer of them would only be slower.
    while (
        typed and readers > 1 and _reservable(facts, shape, readers, inserting) < LEAST_WIDE_BYTES
    ):
        readers -= 1
    return readers, inserting


def _threads(facts: Facts, shape: LoadShape) -> list[Setting]:
    readers, inserting = _thread_counts(facts, shape)
    many = shape.files >= facts.cores
    text = shape.encoding is not None and shape.encoding.kind in (Kind.TEXT, Kind.JSON)
    parallel = 0 if many or not text else 1
    why = (
        f"{counted(shape.files, 'file')} for {counted(facts.cores, 'thread')}: one parser each is "
        "cheaper"
        if many
        else "few files: several threads parse one of them"
    )
    settings = [
        Setting(
            "max_threads",
            readers,
            f"{facts.cores} usable cores"
            + (", fewer for their memory" if readers < facts.cores else ""),
        ),
        Setting(
            "max_insert_threads",
            inserting,
            "one thread per core up to 4 cores, half of them above, fewer for their memory",
        ),
        Setting("input_format_parallel_parsing", parallel, why if text else "not a text format"),
    ]
    if shape.remote:
        # Ranged GETs help few big objects; many objects are parallel by themselves.
        settings.append(
            Setting(
                "max_download_threads",
                1 if many else max(4, facts.cores),
                "one stream per object" if many else "ranged reads of few large objects",
            )
        )
    return settings


def _files(type_: str) -> int:
    """Return the files of a column in a part: NULLs, sizes and dictionaries have their own."""
    return 1 + ("Nullable(" in type_) + ("String" in type_)


def _partition_buffers(shape: LoadShape) -> int:
    """Return the bytes of buffers of the streams that write the partitions of a block."""
    return min(shape.partitions, 1000) * len(shape.columns) * BYTES_PER_PARTITION_STREAM // 8


def _fixed_memory(facts: Facts, shape: LoadShape, inserting: int) -> int:
    """Return the bytes that are taken whatever the size of blocks."""
    buffers = max(
        _partition_buffers(shape),
        inserting * BYTES_PER_FILE * sum(_files(c.type) for c in shape.columns),
    )
    ahead = inserting * FETCHED_AHEAD if shape.decoded and shape.remote else 0
    return ENGINE_BASE + buffers + ahead + _parquet_memory(facts, shape)


def most_block(facts: Facts, shape: LoadShape, inserting: int) -> int:
    """Return the bytes of the largest block of which so many insert threads can hold all copies."""
    copies = COPIES_PER_BLOCK + shape.decoded
    return max(facts.memory - _fixed_memory(facts, shape, inserting), 0) // (copies * inserting)


def _reservable(facts: Facts, shape: LoadShape, readers: int, inserting: int) -> int:
    """Return the bytes of a block with which a statement stays below its own limit."""
    reading = PARQUET_PER_READER if _parquet_memory(facts, shape) else TEXT_PER_READER
    reading = min(reading, 4 * shape.biggest) if shape.biggest else reading
    taken = inserting * RESERVED_PER_FILE * sum(_files(c.type) for c in shape.columns)
    if shape.decoded:
        readers = 0  # another process
    left = statement_limit(facts) - facts.memory // 16 - readers * reading - taken
    return max(left, 0) // ((RESERVED_COPIES + PIPED_COPIES * shape.decoded) * inserting)


def statement_limit(facts: Facts) -> int:
    """Return the bytes that a statement may take of an engine's memory."""
    return facts.memory - ENGINE_BASE // 2


def _parquet_memory(facts: Facts, shape: LoadShape) -> int:
    """Return the bytes that the Parquet reader may hold, 0 for other formats."""
    if shape.encoding is None or shape.encoding.format not in {"Parquet", *LAKES}:
        return 0
    return parquet_memory(facts)


def parquet_memory(facts: Facts) -> int:
    """Return the bytes that a reader of Parquet may hold of an engine's memory."""
    return max(LEAST_BLOCK_BYTES, (facts.memory - ENGINE_BASE) // PARQUET_SHARE)


def block(facts: Facts, shape: LoadShape) -> tuple[int, int]:
    """Return the rows and bytes at which a block becomes a part.

    bytes = (memory - base - buffers) / (4 x insert threads), less where the statement would
    reserve more than it may, and where an attempt is short (:func:`shared_block`).
    """
    readers, inserting = _thread_counts(facts, shape)
    room = most_block(facts, shape, inserting)
    if room >= LEAST_WIDE_BYTES:
        room = min(room, max(_reservable(facts, shape, readers, inserting), LEAST_WIDE_BYTES))
    if shape.sent:
        room = max(room, _sent_block(facts, shape, inserting))
    size = max(LEAST_BLOCK_BYTES, min(MOST_BLOCK_BYTES, room, shared_block(shape, inserting)))
    # More partitions cut a block into more parts: larger blocks keep the parts from being tiny.
    most = MOST_BLOCK_ROWS * (4 if shape.partitions > 10 else 1)
    # Both ends of a connection count bytes, and of databases a row is foretold at twice what it is.
    likely = most if shape.sent else int(size / max(shape.row_bytes, 1.0))
    return max(65_536, min(most, likely)), size


def _sent_block(facts: Facts, shape: LoadShape, inserting: int) -> int:
    """Return the bytes of a block whose part is worth its files, if the statement has room."""
    files = sum(_files(column.type) for column in shape.columns)
    taken = _partition_buffers(shape) + inserting * SENT_PER_FILE * files
    left = max(statement_limit(facts) - facts.memory // 16 - taken, 0)
    return min(int(left / (SENT_COPIES * inserting)), files * LEAST_OF_SENT_FILE)


def shared_block(shape: LoadShape, inserting: int) -> int:
    """Return the bytes of a block with which reading and inserting an attempt overlap best.

    A block is sent, sorted and written when its last row has been read. Of n blocks, the last one
    is inserted while nothing is read any more: a time of 1/n. Each costs a part of all columns, a
    time of n. Both together are least where a block is the square root of (bytes x bytes of a
    part), and near it they hardly change: an estimate of the rows that is off by half does no harm.
    """
    held = shape.stream_bytes // inserting
    parts = max(1, min(shape.partitions, 1000)) * len(shape.columns)
    size = math.isqrt(held * parts * BYTES_PER_PART_COLUMN)
    if 2 * held <= 3 * size:
        return MOST_BLOCK_BYTES  # one block is nearer to the best than two
    return max(LEAST_SHARED_BYTES, size)


def block_settings(facts: Facts, shape: LoadShape, size: int) -> dict[str, int]:
    """Return the settings by which blocks have this size, where the engine has them."""
    rows = max(1, int(size / max(shape.row_bytes, 1.0)))
    found = {"min_insert_block_size_rows": rows, "min_insert_block_size_bytes": size}
    if _parquet_memory(facts, shape):
        # What the reader gives is a block already: as _parquet.
        found = {name: value // 2 for name, value in found.items()}
        found |= {_PARQUET_ROWS: rows, _PARQUET_BYTES: size}
    return facts.known(found)


def _blocks(facts: Facts, shape: LoadShape) -> list[Setting]:
    rows, size = block(facts, shape)
    inserting = insert_threads(facts, shape)
    fixed = bytes_text(_fixed_memory(facts, shape, inserting))
    memory = (
        f"({bytes_text(facts.memory)} - {fixed} for engine and buffers) / "
        f"({COPIES_PER_BLOCK + shape.decoded} x {inserting} threads), at most "
        f"{bytes_text(MOST_BLOCK_BYTES)} and what the statement's limit allows"
        + (
            f"; up to {bytes_text(LEAST_OF_SENT_FILE)} for each file of a part, if that is allowed"
            if shape.sent
            else ""
        )
    )
    shared = (
        f"{bytes_text(shape.stream_bytes // inserting)} of each thread in blocks so small that "
        f"most are inserted while others are read, and so large that parts of "
        f"{counted(len(shape.columns), 'column')} are few"
    )
    # Blocks on their way are smaller; of wide rows the engine's own size would be too much.
    passing = max(LEAST_READ_ROWS, int(size / 4 / max(shape.row_bytes, 1.0)))
    reading = Setting(
        "max_block_size", passing, f"a quarter of a block / {shape.row_bytes:.0f} bytes a row"
    )
    held = _parquet_memory(facts, shape)
    waiting = Setting(
        PARQUET_WAITING,
        held,
        f"1/{PARQUET_SHARE} of the memory that is left may wait to be sorted",
    )
    orc = shape.encoding is not None and shape.encoding.format == "ORC"
    batch = max(1, int(size / 4 / max(shape.row_bytes, 1.0)))
    is_shared = size == shared_block(shape, inserting) < MOST_BLOCK_BYTES
    typed = _parquet(rows, size) if held and (is_shared or size >= 2 * _OWN_BYTES) else []
    least = 2 if typed else 1
    return [
        *([reading] if passing < READ_ROWS else []),
        *([replace(reading, name=_ORC_ROWS, value=batch)] if orc and batch < ORC_ROWS else []),
        *([waiting] if held else []),
        *typed,
        Setting(
            "min_insert_block_size_rows",
            rows // least,
            ("half of " if typed else "")
            + f"at most {MOST_BLOCK_ROWS:,} rows"
            + (", four times that for many partitions" if shape.partitions > 10 else "")
            + ("" if shape.sent else f", and block bytes / {shape.row_bytes:.0f} bytes a row"),
        ),
        Setting(
            "min_insert_block_size_bytes",
            size // least,
            ("half of " if typed else "") + (shared if is_shared else memory),
        ),
        Setting(
            "max_memory_usage",
            statement_limit(facts),
            "the statement's share of --memory; it fails alone, not the machine",
        ),
    ]


def _parquet(rows: int, size: int) -> list[Setting]:
    """Return the settings by which blocks of the Parquet reader become parts as they are.

    Many blocks of the engine's own 65,409 rows are copied into one: a tenth of a load of 51
    columns. The
    end of a row group is a smaller block: half of a block is enough for a part.
    """
    whole = "a block of the reader becomes a part without being copied into a larger one"
    return [
        Setting(_PARQUET_ROWS, rows, whole),
        Setting(_PARQUET_BYTES, size, whole),
    ]


def _fixed() -> list[Setting]:
    moved = "default differs between engine versions"
    staged = "staging makes retries safe; the engine's own deduplication only costs"
    return [
        Setting(name, value, reason, routine=True)
        for name, value, reason in (
            ("max_insert_threads_min_free_memory_per_thread", 0, "threads are computed above"),
            ("async_insert", 0, moved),
            ("insert_deduplicate", 0, staged),
            ("deduplicate_insert", "disable", staged),
            ("deduplicate_insert_select", "disable", staged),
            ("deduplicate_blocks_in_dependent_materialized_views", 0, moved),
            ("parallel_distributed_insert_select", 2, moved),
            ("parallel_replicas_for_cluster_engines", 0, moved),
            ("optimize_on_insert", 0, "rows are counted before an engine collapses them"),
            ("max_partitions_per_insert_block", 0, "the forecast warns instead"),
            ("use_strict_insert_block_limits", 0, moved),
            ("materialize_statistics_on_insert", 0, moved),
            # A pipe (stdin) has size 0: skipping would lose all of it without a word.
            ("engine_file_skip_empty_files", 0, "nothing is left out unsaid"),
            ("s3_skip_empty_files", 0, "nothing is left out unsaid"),
            ("engine_url_skip_empty_files", 0, "nothing is left out unsaid"),
            ("hdfs_skip_empty_files", 0, "nothing is left out unsaid"),
            ("s3_ignore_file_doesnt_exist", 0, "nothing is left out unsaid"),
            ("hdfs_ignore_file_doesnt_exist", 0, "nothing is left out unsaid"),
            ("http_skip_not_found_url_for_globs", 0, "nothing is left out unsaid"),
            # 100 in 24.10: a refused endpoint would hold a statement for more than two minutes.
            ("s3_retry_attempts", 10, "an outage is answered by another attempt"),
            ("engine_file_truncate_on_insert", 1, "an export's own unfinished file"),
            ("s3_truncate_on_insert", 0, "an export overwrites only what is its own"),
            ("s3_create_new_file_on_insert", 0, "names are the plan's"),
            ("storage_file_read_method", "pread", "counts source bytes for progress and ETA"),
            ("prefer_column_name_to_alias", 1, "columns keep their names after checks"),
            ("max_execution_time", 0, "a load takes as long as it takes"),
            ("log_queries", 0, "statements may hold keys"),
        )
    ]


# Of those, what decides which rows come in.
_NEEDED = frozenset({
    "engine_file_skip_empty_files",
    "s3_skip_empty_files",
    "engine_url_skip_empty_files",
    "hdfs_skip_empty_files",
    "s3_ignore_file_doesnt_exist",
    "hdfs_ignore_file_doesnt_exist",
    "http_skip_not_found_url_for_globs",
    "prefer_column_name_to_alias",
    # Rows that are sent would come into staging after it was counted.
    "async_insert",
})  # fmt: skip

_LOWERED: dict[str, Callable[[int], int]] = {
    "min_insert_block_size_rows": lambda rows: max(8_192, rows // 4),
    "min_insert_block_size_bytes": lambda size: max(1 << 20, size // 4),
    "max_block_size": lambda rows: max(LEAST_READ_ROWS, rows // 16),
    "max_insert_threads": lambda threads: max(1, threads // 2),
    "max_threads": lambda threads: max(1, threads // 2),
    # These may have been raised to whole blocks.
    _PARQUET_ROWS: lambda rows: min(OWN_PARQUET[_PARQUET_ROWS], rows // 4),
    _PARQUET_BYTES: lambda size: min(OWN_PARQUET[_PARQUET_BYTES], size // 4),
}


def in_order(settings: tuple[Setting, ...], limit: int) -> tuple[Setting, ...]:
    """Return the settings of a statement that takes the first rows of what it reads.

    One thread, so that these are always the same; and blocks that end with the last row, because a
    block is read, and its values are converted, as a whole.
    """
    blocks = -(-limit // READ_ROWS)
    rows = -(-limit // blocks)
    own = dict.fromkeys(("max_block_size", _PARQUET_ROWS), rows) | {
        "max_threads": 1, "max_insert_threads": 1, "input_format_parallel_parsing": 0,
    }  # fmt: skip
    kept = (setting for setting in settings if setting.name not in own)
    return (*kept, *(Setting(name, value, "the rows of --limit") for name, value in own.items()))


def lower(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """Return the settings with blocks a quarter as large and half the threads: after code 241."""
    if all(item.name != "max_block_size" for item in settings):
        settings = (*settings, Setting("max_block_size", READ_ROWS))
    return tuple(
        Setting(s.name, _LOWERED[s.name](int(s.value)), "lowered after a memory error")
        if s.name in _LOWERED
        else s
        for s in settings
    )
