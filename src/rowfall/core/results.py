"""Results as values: the report of a load, of a verification, and of ``rowfall scale``. No I/O."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit, RowfallError
from rowfall.core.load_record import LoadRecord, PartSizes
from rowfall.core.model import DeliveryForecast, Encoding, MergeWork
from rowfall.core.steering import SteeringStep


@dataclass(frozen=True, slots=True)
class Failure:
    """One split that was not loaded.

    Attributes:
        lasting: the same command fails in the same way again until something else is changed: bad
            data, other columns, a right that is missing.
        code: of the engine; 0 for none.
        line: of the file, from 1; None where it is not known. ``column``, ``value``: likewise.
    """

    split: str
    error: str
    hint: str | None = None
    lasting: bool = False
    code: int = 0
    line: int | None = None
    column: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ClearedFiles:
    """Counts the loaded files of a run that were moved, tagged or deleted (``--after``).

    Attributes:
        action: ``move``, ``tag`` or ``delete``.
        files: that have got it. ``changed``: left alone, because they are other versions by now.
        failed: that the store refuses to change; ``error`` is the first reason.
    """

    action: str
    files: int = 0
    changed: int = 0
    failed: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The share of one shard of a cluster in one run.

    Attributes:
        shard: its number; ``node``: the replica that loaded, ``host:port``.
        splits: loaded there; ``bytes_source`` as stored, 0 when unknown.
        bytes_written: on disk, of the ``parts`` written.
        seconds: from its first statement to the end of its last.
        cpu_seconds, peak_memory (bytes): of the load's statements.
        requests: to the object store or HTTP server.
        bytes_received: from other servers and clients by ClickHouse's own protocols: what has
            passed between nodes; rows that it pulls from a store are not in it.
    """

    shard: int
    node: str
    rows: int
    splits: int
    bytes_source: int
    bytes_written: int
    parts: int
    seconds: float
    cpu_seconds: float
    peak_memory: int
    requests: int
    bytes_received: int


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The share of one worker in a load that several machines share (``--fleet``).

    Attributes:
        host, pid: where it runs, or ran. ``load_id``: of its own part of the load.
        state: ``joining``, ``loading``, ``done``, ``partial``, ``failed``, ``interrupted``, or
            ``lost`` where it has died; others have then loaded what it had not.
        leads: it has planned the load, or taken that over, and adds the report up.
        rows, splits: loaded by it; of a ``loading`` one the rows are those that it has read.
        bytes_source: of these splits, as stored; 0 when unknown.
        seconds: since it began to load; ``cpu_seconds``: of the server and of its own machine.
    """

    host: str
    pid: int
    load_id: str
    state: str
    leads: bool = False
    rows: int = 0
    splits: int = 0
    bytes_source: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """The report of a load; ``--json`` prints it field by field (docs/reference/json.md).

    Attributes:
        outcome: ``done``, ``partial``, ``failed``, ``interrupted``, ``running`` or ``lost``.
        splits_loaded: by this run; ``splits_skipped`` were loaded before it, or by
            another process meanwhile.
        rows: rows that this run loaded. ``rows_rejected`` went to the rejects file.
        bytes_source: bytes of the loaded splits as stored, 0 when unknown.
        bytes_raw: the same after decompression, as the engine counted them.
        bytes_written: bytes on disk of the parts written.
        seconds: wall seconds from the first statement to the last publish.
        total_seconds: wall seconds that the user waited: from the start of the process (of the
            call, where the library was called) to the end; 0 when unknown.
        progress: share of a running load that is done, 0..1; None when not known.
        cpu_seconds: of the engine process; on a server, of the load's statements.
        cpu_seconds_here: of this machine, where rows were read here and pushed.
        parts_written, parts_active: parts staged by this run; active in the target at the end.
        peak_memory: bytes resident in the engine process at its highest; on a server, bytes
            that the load's statements held.
        merge_seconds: seconds that ``--wait merges=N`` took.
        merges: what merges have left to do in the target at the end, None for nothing.
        phases: share of engine time, 0..1, of ``read``, ``convert``, ``insert``, ``publish``.
        limited_by: one sentence.
        settings: as sent.
        load_id, started (UTC, ISO 8601): which run.
        unit: what people call a split, ``file`` or ``range`` (some are ranges of files or rows).
        visibility: what readers saw while rows became visible; "" where nobody reads them.
        part_sizes: of the target at the end; None where nobody asked: of small loads, or without
            parts.
        shards: of a cluster; ``imbalance`` is how much more than the average the fullest of them
            has got, by bytes of the source.
        steering: what was changed between attempts, for a server that others use.
        tables: patterns of ``--tables`` in the command that it was part of; "" of one by itself.
        after: what became of loaded files; None where nothing was to.
        workers: of a load that several machines share, each of them; all figures are then those of
            all together.
    """

    load_id: str
    outcome: str
    source: str
    target: str
    table: str
    started: str
    splits: int = 0
    splits_loaded: int = 0
    splits_skipped: int = 0
    splits_failed: int = 0
    rows: int = 0
    rows_rejected: int = 0
    bytes_source: int = 0
    bytes_raw: int = 0
    bytes_written: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    cpu_seconds_here: float = 0.0
    parts_written: int = 0
    parts_active: int = 0
    peak_memory: int = 0
    merge_seconds: float = 0.0
    attempts: int = 0
    retries: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    limited_by: str = ""
    settings: Mapping[str, str | int | float] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    engine_version: str = ""
    rowfall_version: str = ""
    shards: tuple[ShardReport, ...] = ()
    imbalance: float = 0.0
    unit: str = "file"
    visibility: str = ""
    total_seconds: float = 0.0
    progress: float | None = None
    merges: MergeWork | None = None
    part_sizes: PartSizes | None = None
    steering: tuple[SteeringStep, ...] = ()
    after: ClearedFiles | None = None
    tables: str = ""
    workers: tuple[WorkerReport, ...] = ()

    @property
    def unfinished(self) -> bool:
        """Return whether no process has recorded the end of the load: it runs, or was killed."""
        return self.outcome in ("running", "lost")


@dataclass(frozen=True, slots=True)
class VerifiedSplit:
    """One split on both sides.

    Attributes:
        split: the object, with its range where it has one.
        source_checksum: as in :class:`Verification`, of this split alone.
        loaded_rows: its rows in the target; None where it is not known, because rows that are
            missing (or there too often) are in other splits as well.
    """

    split: str
    source_rows: int
    source_checksum: str
    loaded_rows: int | None


@dataclass(frozen=True, slots=True)
class Verification:
    """Source and target compared by the engine: rows, and a checksum that ignores their order.

    Attributes:
        source_checksum, target_checksum: sum over all rows of a 64-bit hash of all columns;
            ``target_checksum`` is "" where only rows could be counted.
        scope: what was compared, in words.
        seconds: how long it took.
        splits: each of the load's splits.
        foreign_rows: rows of the target that no split holds.
    """

    load_id: str
    ok: bool
    source_rows: int
    target_rows: int
    source_checksum: str
    target_checksum: str
    scope: str
    seconds: float
    splits: tuple[VerifiedSplit, ...] = ()
    foreign_rows: int = 0


@dataclass(frozen=True, slots=True)
class Adopted:
    """Files that count as loaded from now on, because their rows are in the table.

    Attributes:
        load_id: under which they are recorded, for ``rowfall forget``; "" where nothing was.
        splits: names of those that are recorded now.
        known: number of those that counted as loaded before.
        newer: number of those that were changed after ``--before``, which are left to be loaded.
        unit: what people call a split, ``file`` or ``range``.
    """

    load_id: str
    source: str
    target: str
    table: str
    splits: tuple[str, ...]
    known: int
    newer: int
    unit: str = "file"

    def recorded_as(self, load_id: str) -> Adopted:
        """Return the same with the id of the load that it is recorded under."""
        return replace(self, load_id=load_id)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A table or view that a dead load made for itself, or its target, if nothing came into it.

    Attributes:
        load_id: of the load. ``rows`` and ``bytes`` (on disk) are 0 for views.
        committed: its rows are bound to be published, and cleaning does so.
        node: of a cluster, where it is: ``host:port``; "" otherwise.
    """

    database: str
    name: str
    load_id: str
    rows: int
    bytes: int
    committed: bool
    node: str = ""


# --- rowfall explain -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """The record of one attempt of a load.

    Attributes:
        id: of the attempt; its statements' ids on a server begin with it.
        splits: how many; ``first`` is the name of one of them.
        rows, bytes_source, bytes_written, parts: 0 where it has failed.
        seconds: from its beginning to its end: ``insert_seconds`` until its rows were staged,
            ``waited_seconds`` until the attempt before it was published, ``publish_seconds`` to
            count and publish them.
        core_seconds: its threads were ready so long while others had the cores.
        outcome: ``published`` or ``failed``, then with an ``error``.
    """

    id: str
    splits: int
    first: str
    rows: int = 0
    bytes_source: int = 0
    bytes_written: int = 0
    parts: int = 0
    seconds: float = 0.0
    insert_seconds: float = 0.0
    waited_seconds: float = 0.0
    publish_seconds: float = 0.0
    core_seconds: float = 0.0
    outcome: str = "published"
    error: str = ""


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """The forecast and the choices of a plan, kept with the load that it was made for.

    Attributes:
        rows, seconds, memory, parts, disk: of the forecast; None for what was not known.
        choices: (name, value, reason) of how rows travel.
        settings: (name, value, reason). ``lanes``, ``attempts``: how many; ``cores`` of an engine.
        ddl, sql: of the table and of one attempt, secrets masked; "" for none.
    """

    rows: int | None
    seconds: float | None
    memory: int
    parts: int
    disk: int | None
    choices: tuple[tuple[str, str, str], ...]
    settings: tuple[tuple[str, str, str], ...]
    lanes: int
    attempts: int
    cores: int
    ddl: str
    sql: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of ``rowfall explain``.

    Attributes:
        plan: of the last run; None of a load from before plans were kept.
        attempts: of the last run, in the order in which they ended.
        left_out: attempts that were not kept.
        record: samples over time and what happened; empty of a load from before they were kept.
    """

    report: Report
    plan: PlannedLoad | None
    attempts: tuple[AttemptRecord, ...] = ()
    left_out: int = 0
    record: LoadRecord = LoadRecord()


# --- rowfall scale -------------------------------------------------------------------------------

# Seconds before the first row is read: processes start, the first statement is planned (as in the
# planner's forecast; a load of 1,000 rows takes 0.44 s in all).
START_SECONDS = 0.3
# Seconds that an attempt costs beside its rows: staging, counting, publishing, 0.1 to 0.4 measured.
ATTEMPT_COST = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of one core.

    Attributes:
        core: source bytes (generated rows: bytes in memory) turned into rows of a table, a second.
        reading: the same when rows are dropped; None when not known.
        rows_per_byte: rows in a source byte; None when not known.
        origin: ``given``, ``ledger``, ``sample`` or ``planner``.
        why: where they are from, one clause.
    """

    core: float
    reading: float | None
    rows_per_byte: float | None
    origin: str
    why: str


class Limit(StrEnum):
    """The limit of a load: what would have to be faster."""

    CORES = "cores"
    NETWORK = "network"
    STORE = "store"
    LARGEST = "largest file"
    ATTEMPTS = "attempts"
    FILES = "files"
    START = "start"


@dataclass(frozen=True, slots=True)
class LoadWork:
    """The work of a load that is projected.

    Attributes:
        sizes: source bytes of the files, in the order of the listing.
        whole: a file keeps one core busy, because it cannot be cut.
        store: bytes a second that the store gives all nodes together, inf for no limit;
            ``why_store`` says where that is from.
        start: seconds until the first node begins.
        rows: all rows, None when not known.
        attempt: bytes of an attempt; None for those that the planner chooses.
    """

    sizes: array[float]
    whole: bool
    start: float = START_SECONDS
    store: float = math.inf
    why_store: str = ""
    rows: float | None = None
    attempt: float | None = None


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """One of the equal servers.

    Attributes:
        cores: of one node.
        core_rate: source bytes that a core turns into rows of a table in a second.
        network: bytes a second that a node can get, inf for no limit.
        price: of a node for an hour, None when not known.
        replicas: of its rows, in zones of their own; ``zone_price``: of a GB that crosses zones,
            None when not known.
    """

    cores: int
    core_rate: float
    network: float = math.inf
    price: float | None = None
    replicas: int = 1
    zone_price: float | None = None


@dataclass(frozen=True, slots=True)
class ScaleProjection:
    """The projection of a load to one number of nodes.

    Attributes:
        seconds: wall time: ``start_seconds``, ``makespan`` and ``attempt_seconds``.
        node_seconds: of all nodes together. ``cost``: what they cost, None without a price.
        zone_bytes: that cross zones on the way to other replicas, if parts are as large as the
            source is as stored; ``zone_cost``: what that costs, None without a price.
        rows_per_second: None where rows are not known.
        node_rate: bytes a second of one node while all of its cores are busy.
        attempts: of the slowest node; ``attempt_seconds`` is what they cost beside their rows.
        idle_seconds: of ``makespan``, what the slowest node would save if its cores did not wait
            for the end of each attempt.
        files_least, files_most: of the node with the fewest and the most.
        imbalance: how much longer than the average the slowest node takes, by bytes alone.
        makespan: seconds of work of the slowest node; nothing can beat ``lower_bound``.
        limit, limited_by: see :class:`Limit`, and the same as a sentence.
    """

    nodes: int
    seconds: float
    node_seconds: float
    cost: float | None
    bytes_per_second: float
    rows_per_second: float | None
    node_rate: float
    start_seconds: float
    attempts: int
    attempt_seconds: float
    idle_seconds: float
    files_least: int
    files_most: int
    imbalance: float
    makespan: float
    lower_bound: float
    limit: Limit
    limited_by: str
    zone_bytes: float = 0.0
    zone_cost: float | None = None


@dataclass(frozen=True, slots=True)
class ScaleReport:
    """The answer of ``rowfall scale``.

    Attributes:
        source, target: as typed, without secrets; ``target`` "" for the default.
        encoding: None for generated rows, whose ``bytes`` are those in memory.
        files, bytes, largest: of the listing.
        projections: one for each number of nodes, in the order asked for.
        notes: what the numbers leave out.
        planning_cpu_seconds: of this process for all of it, a sample's engine not among them.
        peak_memory: bytes resident in this process at its highest.
    """

    source: str
    target: str
    encoding: Encoding | None
    files: int
    bytes: float
    largest: float
    rates: Rates
    work: LoadWork
    node: NodeCapacity
    projections: tuple[ScaleProjection, ...]
    notes: tuple[str, ...]
    planning_cpu_seconds: float
    peak_memory: int


# --- rowfall doctor ------------------------------------------------------------------------------


class LinkKind(StrEnum):
    """The place of a link, in the order in which people look for what is slow."""

    SOURCE = "source"
    NETWORK = "network"
    TARGET = "target"
    PROTOCOL = "protocol"


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain from source to target, measured by itself.

    Attributes:
        part: see :class:`LinkKind`; ``name``: which link of it.
        figure: measured, in ``unit``: ``bytes/s``, ``rows/s`` or ``seconds``.
        rows_per_second: that this load would have if every other link took no time; None where the
            figure alone says nothing of it.
        why: what was measured, one clause.
        row_bytes: bytes of a row on this link, to turn ``bytes/s`` into rows; None where not known.
        limits: it can limit a load: not what goes on behind it, nor a network that is none.
    """

    part: LinkKind
    name: str
    figure: float
    unit: str
    why: str
    rows_per_second: float | None = None
    row_bytes: float | None = None
    limits: bool = True


@dataclass(frozen=True, slots=True)
class Improvement:
    """Something that would make a load faster.

    Attributes:
        text: what to do, one clause; ``option``: to add to the command, "" for none.
        gain: predicted rows per second with it, divided by those without.
        measured: it was tried on a sample; otherwise it follows from the links.
    """

    text: str
    gain: float
    option: str = ""
    measured: bool = False


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The answer of ``rowfall doctor``.

    Attributes:
        source, target: as typed, without secrets; ``table``: that would be loaded.
        rows: about how many there are to load; None where nobody knows.
        links: in the order of :class:`LinkKind`.
        slowest: the link that limits the load.
        predicted_seconds: of the whole load; None where its rows are not known.
        changes: those that would help most, the best first.
        sample_rows: loaded to measure; ``sample_seconds`` of the largest of these loads.
        engine: (counter, seconds) of the target's engine, of all its threads together.
        notes: what the figures leave out.
        seconds: that measuring took.
        deliveries: into servers, what each way would cost; none where rows are not known.
    """

    source: str
    target: str
    table: str
    rows: int | None
    links: tuple[Link, ...]
    slowest: Link
    predicted_rows_per_second: float
    predicted_seconds: float | None
    changes: tuple[Improvement, ...]
    sample_rows: int
    sample_seconds: float
    engine: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]
    seconds: float
    deliveries: tuple[DeliveryForecast, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """Rows of a load that were taken out of its target again.

    Attributes:
        splits: files and ranges that the next load loads again.
        parts: that were detached, with those of tables behind views; 0 where rows were deleted.
        by: how they were told from others: ``parts``, or the column with the names of files.
        views: tables behind views that lose rows, too.
    """

    load_id: str
    target: str
    table: str
    rows: int
    splits: int
    unit: str
    parts: int = 0
    by: str = "parts"
    views: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table of a target, and what is known of loads into it.

    Attributes:
        rows, bytes: as its catalogue has them; None where it does not say. Those of PostgreSQL,
            MySQL and DuckDB are estimates.
        there: the table is there; None where nobody can be asked.
        loads: done by this user; ``last``: when the last one began (UTC, ISO 8601), "" for none.
        source: of the last load.
    """

    name: str
    rows: int | None
    bytes: int | None
    there: bool | None
    loads: int = 0
    last: str = ""
    source: str = ""


class LoadError(RowfallError):
    """Some files, or all of them, could not be loaded; the library raises it at the end of a load.

    Attributes:
        report: of the load, a :class:`rowfall.Report`; its ``failures`` say what and why.
    """

    exit = Exit.PARTIAL

    def __init__(self, message: str, report: Report, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.report = report
