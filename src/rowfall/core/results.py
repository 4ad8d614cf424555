"""Results: the report of a load, and of a verification. No I/O, stdlib only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Failure:
    """One split that was not loaded."""

    split: str
    error: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ShardReport:
    """The share of one shard of a cluster in one run.

    Attributes:
        shard: its number; ``node``: the replica that loaded, ``host:port``.
        splits: landed there; ``bytes_source`` as stored, 0 when unknown.
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
class Report:
    """The report of a load; ``--json`` prints it field by field (docs/reference/json.md).

    Attributes:
        outcome: ``done``, ``partial``, ``failed``, ``interrupted``, ``running`` or ``lost``.
        splits_landed: by this run; ``splits_skipped`` had landed before it, or were landed by
            another process meanwhile.
        rows: rows that this run landed. ``rows_rejected`` went to the rejects file.
        bytes_source: bytes of the landed splits as stored, 0 when unknown.
        bytes_raw: the same after decompression, as the engine counted them.
        bytes_written: bytes on disk of the parts written.
        seconds: wall seconds from the first statement to the last publish.
        cpu_seconds: of the engine process; on a server, of the load's statements.
        cpu_seconds_here: of this machine, where rows were read here and pushed.
        parts_written, parts_active: parts staged by this run; active in the target at the end.
        peak_memory: bytes resident in the engine process at its highest; on a server, bytes
            that the load's statements held.
        merge_seconds: seconds that ``--wait merges=N`` took.
        phases: share of engine time, 0..1, of ``read``, ``convert``, ``insert``, ``publish``.
        limited_by: one sentence.
        settings: as sent.
        load_id, started (UTC, ISO 8601): which run.
        unit: what people call a split, ``file`` or ``range`` (some are ranges of files or rows).
        shards: of a cluster; ``imbalance`` is how much more than the average the fullest of them
            has got, by bytes of the source.
    """

    load_id: str
    outcome: str
    source: str
    target: str
    table: str
    started: str
    splits: int = 0
    splits_landed: int = 0
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


@dataclass(frozen=True, slots=True)
class VerifiedSplit:
    """One split on both sides.

    Attributes:
        split: the object, with its range where it has one.
        source_checksum: as in :class:`Verification`, of this split alone.
        landed_rows: its rows in the target; None where it is not known, because rows that are
            missing (or there too often) are in other splits as well.
    """

    split: str
    source_rows: int
    source_checksum: str
    landed_rows: int | None


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
