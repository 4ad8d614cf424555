"""The words of rowfall as frozen values: splits, columns, statements, plans. No I/O, stdlib only.

A plan over one million objects has to stay under 500 MB, so the listing keeps columns (three
flat sequences) and makes :class:`Split` objects only when somebody asks for one.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rowfall.sqltext import SqlText


@dataclass(frozen=True, slots=True)
class Part:
    """What a range of a file is a part of, and how an engine that filters finds its rows.

    Attributes:
        size: bytes of the whole file.
        column: of Parquet, the column whose values tell the range; "" of text.
        low, high: ``low <= column < high``, as SQL; "" no bound.
        head: of text, bytes of the header that each range is read with.
    """

    size: int
    column: str = ""
    low: str = ""
    high: str = ""
    head: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """The smallest piece that is loaded, retried and recorded on its own.

    Attributes:
        id: 32 hex digits, see :func:`split_id`.
        uri: the object, without secrets (``/data/a.csv``, ``s3://bucket/key``, ``generate://trips``).
        version: what changes when the content does: ETag, or ``size-mtime_ns``.
        size: bytes as stored (compressed), None when unknown (stdin, generated).
        start, stop: half-open range inside the object (rows for generators and Parquet, bytes of
            text), or None for all.
        part: of a range of a file, what it is a part of; ``whole`` is the id of that.
    """

    id: str
    uri: str
    version: str
    size: int | None
    start: int | None = None
    stop: int | None = None
    part: Part | None = None
    whole: str = ""

    @property
    def rows(self) -> int | None:
        """Rows of a range that is known by them: of Parquet, as its footer says; else None."""
        if self.part is None or not self.part.column or self.start is None or self.stop is None:
            return None
        return self.stop - self.start

    @property
    def mark(self) -> str:
        """Of a range: says that some range of its file has been claimed."""
        return f"{MARK}{self.whole}"

    @property
    def rivals(self) -> tuple[str, ...]:
        """Ids and marks of what holds the same rows: of a range the file, of a file its ranges."""
        if self.whole:
            return (self.whole,)
        return (f"{MARK}{self.id}",) if (self.size or 0) >= CUT_LEAST else ()

    @property
    def name(self) -> str:
        """Short text for people: the URI, with the range where there is one."""
        if self.start is None:
            return self.uri
        return f"{self.uri}[{self.start}:{self.stop}]"


# A smaller file is never cut: half of it would be a range of less than a second of work.
CUT_LEAST = 8 << 20
MARK = "~"
"""In front of the id of a file: some range of it."""


def split_id(uri: str, version: str, start: int | None, stop: int | None, into: str) -> str:
    """Identity of a split: object, version, range and target table; nothing about the run.

    Never batch size, thread count, pid or time: a later run with other settings must recognise
    what has landed (DESIGN section 2).
    """
    text = "\0".join((uri, version, str(start), str(stop), into))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


class Listing:
    """What a source holds, as flat columns: about 200 bytes an object.

    Generators give ranges without sizes; files give sizes and versions, and ranges where they
    are cut.
    """

    __slots__ = ("_parts", "_sizes", "_starts", "_stops", "_uris", "_versions")

    def __init__(self) -> None:
        self._uris: list[str] = []
        self._versions: list[str] = []
        self._sizes: array[int] = array("q")
        self._starts: array[int] = array("q")
        self._stops: array[int] = array("q")
        self._parts: dict[int, Part] = {}

    def add(
        self,
        uri: str,
        version: str,
        size: int | None,
        start: int | None = None,
        stop: int | None = None,
        part: Part | None = None,
    ) -> None:
        """Append one split; ``size`` in bytes (None: unknown)."""
        if part is not None:
            self._parts[len(self)] = part
        self._uris.append(uri)
        self._versions.append(version)
        self._sizes.append(-1 if size is None else size)
        self._starts.append(-1 if start is None else start)
        self._stops.append(-1 if stop is None else stop)

    def __len__(self) -> int:
        return len(self._uris)

    def uri(self, index: int) -> str:
        return self._uris[index]

    def size(self, index: int) -> int | None:
        size = self._sizes[index]
        return None if size < 0 else size

    def part(self, index: int) -> Part | None:
        """Of a range of a file, what it is a part of."""
        return self._parts.get(index)

    @property
    def parts(self) -> int:
        """How many of the splits are ranges of files."""
        return len(self._parts)

    def rows(self, index: int) -> int | None:
        """Rows of a generated range, None for files (unknown before they are read)."""
        if self._starts[index] < 0 or index in self._parts:
            return None
        return self._stops[index] - self._starts[index]

    def split(self, index: int, into: str) -> Split:
        """The split at ``index`` for target table ``into`` (part of its identity)."""
        start: int | None = self._starts[index]
        stop: int | None = self._stops[index]
        start, stop = (None, None) if start == -1 else (start, stop)
        uri, version, part = self._uris[index], self._versions[index], self._parts.get(index)
        whole = split_id(uri, version, None, None, into) if part is not None else ""
        id_ = split_id(uri, version, start, stop, into)
        return Split(id_, uri, version, self.size(index), start, stop, part, whole)

    def splits(self, into: str, indexes: Iterable[int] | None = None) -> Iterator[Split]:
        for index in range(len(self)) if indexes is None else indexes:
            yield self.split(index, into)

    @property
    def total_size(self) -> int | None:
        """Bytes of all objects, None when any is unknown."""
        return None if any(s < 0 for s in self._sizes) else sum(self._sizes)

    @property
    def total_rows(self) -> int | None:
        if not len(self) or self._parts or min(self._starts) < 0:
            return None
        return sum(self._stops) - sum(self._starts)


class Kind(StrEnum):
    """How a format tells its columns: decides inference, strictness and error positions."""

    TEXT = "text"  # CSV, TSV: positions or header names, every value is text
    JSON = "json"  # JSONEachRow: names and JSON types in every row
    TYPED = "typed"  # Parquet, ORC, Avro, Native: names and types in the file
    MADE = "made"  # generated by the engine: columns are known beforehand


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the bytes of a source are to be read.

    Attributes:
        format: the engine's format name, e.g. ``CSVWithNames``.
        compression: ``none``, ``gzip``, ``zstd``, ``lz4``, ``xz``, ``bz2``.
        kind: see :class:`Kind`.
        delimiter: field delimiter of CSV, one character.
        null: text of CSV that means NULL: the empty field, or ``\\N`` where the sample shows it.
        keep_blanks: blanks around the strings of CSV are kept; slower, so only where there are any.
    """

    format: str
    compression: str
    kind: Kind
    delimiter: str = ","
    null: str = ""
    keep_blanks: bool = True

    @property
    def has_names(self) -> bool:
        return self.kind is not Kind.TEXT or self.format.endswith("WithNames")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the target and how it is read from the source.

    Attributes:
        name: column of the target table.
        type: its type there.
        reason: why this type, for ``plan -v`` and the DDL comment lines.
        source: name of the column in the source (differs from ``name`` only when positional).
        read_type: type to parse the source text as; wide enough that nothing wraps unseen.
        expression: SQL over ``source`` that gives the value or raises; ``""`` = the bare column.
        lenient: SQL over the column read as ``Nullable(String)``: the value, or NULL when the
            text does not fit; used to find and to reject bad rows. ``""`` = no check possible.
        bad: SQL over the same that is 1 when the text does not fit (NULL may fit).
        shape: for rowfall-decode: how points in time are written (see codec.Evidence); None where
            only the engine can read the column as strictly as it has to be.
    """

    name: str
    type: str
    reason: str = ""
    source: str = ""
    read_type: str = ""
    expression: str = ""
    lenient: str = ""
    bad: str = ""
    shape: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns and layout of the target table.

    Attributes:
        columns: in the order of the INSERT.
        engine: table engine with its arguments, e.g. ``MergeTree``.
        order_by, partition_by: SQL expressions; ``tuple()`` / ``""`` for none.
        exists: the table is already there and keeps its own definition.
        notes: (subject, reason) for the layout, e.g. why this ORDER BY.
        partitions: distinct values of the partition key seen in the sample; 1 when unpartitioned.
        row_bytes: average bytes of a row in memory, from the sample.
    """

    columns: tuple[Column, ...]
    engine: str = "MergeTree"
    order_by: str = "tuple()"
    partition_by: str = ""
    exists: bool = False
    notes: tuple[tuple[str, str], ...] = ()
    partitions: int = 1
    row_bytes: float = 32.0


@dataclass(frozen=True, slots=True)
class Setting:
    """One engine setting of a plan with the formula and the numbers that led to it.

    Attributes:
        routine: the same for every load; plans show it on request only.
    """

    name: str
    value: str | int | float
    reason: str = ""
    routine: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement for an engine.

    Attributes:
        sql: what to run, without its SETTINGS clause.
        settings: name -> value; the engine appends or sets them.
        query_id: known before the statement is sent, written to the ledger first.
        format: output format for SELECT, None for statements without rows.
    """

    sql: SqlText
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    query_id: str = ""
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one statement did.

    Attributes:
        rows_read, rows_written: rows.
        bytes_read: bytes as the engine counts them after decompression.
        seconds: wall seconds in the engine.
        cpu_seconds: user + system seconds of the engine process meanwhile.
        peak_memory: bytes at the statement's highest point, 0 when unknown.
        data: the result in the asked format.
        events: the engine's ProfileEvents, name -> count.
        helper_seconds: of ``cpu_seconds``, those of another process than the engine's.
    """

    rows_read: int = 0
    rows_written: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    data: bytes = b""
    helper_seconds: float = 0.0
    events: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the planner may know about the machine an engine runs on.

    Attributes:
        version: the engine's version, e.g. ``26.9.2.1``.
        cores: usable CPU cores (affinity and cgroup quota respected).
        memory: bytes that a load may use altogether.
        settings: every setting name the engine knows; unknown ones are not sent.
        timezone: what a DateTime without a zone of its own is in; "" when not known.
    """

    version: str
    cores: int
    memory: int
    settings: frozenset[str] = frozenset()
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the planner expects; every number is an estimate and says so where it is printed.

    Attributes:
        rows: rows, None when unknown.
        seconds: wall seconds.
        memory: bytes at the peak.
        parts: parts written before merges.
        advice: sentences for the user (partition explosion and the like).
    """

    rows: int | None
    seconds: float | None
    memory: int
    parts: int
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """A table that gets rows, and the staging table in the same database whose parts become its.

    One attempt has a pair for the target table and one for every table behind its views.
    """

    database: str
    table: str
    staging: str


@dataclass(frozen=True, slots=True)
class Group:
    """Splits that one attempt loads together, as indexes into the listing.

    ``seat``: number of the engine that is to load them, 0 where there is only one.
    """

    indexes: Sequence[int]
    size: int | None
    seat: int = 0


@dataclass(frozen=True, slots=True)
class PlannedSeat:
    """What one shard of a cluster is to do.

    Attributes:
        shard: its number; ``node``: the replica that loads, ``host:port``.
        version, cores, memory: of its server; ``memory`` is what a load may use, in bytes.
        splits: how many it is given, in ``attempts``; ``bytes`` as stored, None when not known.
        settings: for the INSERT of every attempt there.
    """

    shard: int
    node: str
    version: str
    cores: int
    memory: int
    splits: int
    bytes: int | None
    attempts: int
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a load will do, before it does anything.

    Attributes:
        source, target: as typed, without secrets.
        database, table: where rows go; empty for exports and ``null:``.
        delivery: ``pull``, ``push`` or ``build`` (DESIGN section 2).
        placement: ``embedded``, ``server``, ``shard N``.
        why: why this delivery, one sentence; "" where there is only one.
        views: materialized views that the load feeds, ``database.name``.
        promise: what the target guarantees after a crash, one sentence.
        encoding: format and compression, None for generators.
        ddl: CREATE TABLE as it will run, or "" when the table exists or there is none.
        groups: one per attempt, in the order they run.
        lanes: attempts that run at the same time.
        streams: connections that rows are pushed over, 0 when they are pulled.
        decoder: who parses text: ``rowfall-decode``, or ``engine``. ``why_decoder``: if the
            engine, why.
        sorted_by: columns that rowfall-decode sorts blocks by before they are sent.
        settings: for the INSERT of every attempt.
        example: the SQL of one attempt, ready to paste (secrets masked).
        landed: splits of the listing that are in the target already.
        seats: the shards of a cluster, in the order of their numbers in ``groups``; ``settings``
            are those of the first.
        spread: how rows get to the shards that a sharding key says: ``filter`` (each reads all
            files and keeps its own rows) or ``distributed`` (each sends on what is not its own);
            "" without one. ``why_spread``: what both cost.
        cutting: which large files are loaded in ranges, and why others are not.
    """

    source: str
    target: str
    database: str
    table: str
    delivery: str
    placement: str
    promise: str
    encoding: Encoding | None
    schema: Schema
    ddl: str
    listing: Listing
    groups: tuple[Group, ...]
    lanes: int
    settings: tuple[Setting, ...]
    forecast: Forecast
    facts: Facts
    example: str
    landed: int = 0
    why: str = ""
    streams: int = 0
    decoder: str = "engine"
    why_decoder: str = ""
    sorted_by: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    seats: tuple[PlannedSeat, ...] = ()
    spread: str = ""
    why_spread: str = ""
    cutting: tuple[str, ...] = ()
