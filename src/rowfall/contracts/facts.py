"""The facts of a load: frozen values that the survey fills in and the planner reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from rowfall.cluster.sharding_keys import ShardingKey
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.listing import MARK, Listing, Split
from rowfall.core.model import Encoding, Facts, Group, Plan, Schema, Transport
from rowfall.core.options import Options
from rowfall.core.tuned import Cell
from rowfall.engines.base import ExistingTable
from rowfall.sources.base import Source
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.ledger.manifest import (  # 2 ms that loads into tables save
        Manifest,
        ManifestStore,
        Range,
    )


@dataclass(frozen=True, slots=True)
class NetworkLink:
    """The network to a server.

    Attributes:
        near: the server is known to share the CPU of this machine.
        rate: bytes per second; None where not measured.
        back: why the server cannot reach this machine; None where it can.
    """

    near: bool = False
    rate: float | None = None
    back: str | None = "it was not asked"


@dataclass(frozen=True, slots=True)
class WriterFacts:
    """One engine that stores rows.

    Attributes:
        engine: version, cores, memory and settings.
        kind: ``embedded`` or ``server``.
        shard: that it is a replica of; 0 where the target is not a cluster.
        node: ``host:port``; "" where there is only one writer.
        rows_refused: why rows that are read here cannot be sent to it; None where they can.
        no_decoder: why it cannot run rowfall-decode itself; None where it can.
        link: the network to it.
        exact_floats: it reads text, floats above all, as the engine here.
        sync_refused: why what is recorded cannot be flushed to its disk; None where it can.
        disk_free: bytes free on the disks of its table; None where that is not known.
    """

    engine: Facts
    kind: str = "embedded"
    shard: int = 0
    node: str = ""
    rows_refused: str | None = None
    no_decoder: str | None = "it was not asked"
    link: NetworkLink = NetworkLink()
    exact_floats: bool = True
    sync_refused: str | None = None
    disk_free: int | None = None


@dataclass(frozen=True, slots=True)
class Reach:
    """The source as servers see it.

    Attributes:
        pull: the server can read the source itself.
        reason: how that was found out, or why it cannot; one clause, holds no secrets.
        source: names the objects as the server reads them: a copy of the source. The embedded
            engine keeps reading the original.
        seconds: what finding out took.
        hint: what would help where it cannot.
    """

    pull: bool
    reason: str
    source: Source
    seconds: float = 0.0
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The columns of a source, before its target is asked whether it takes them.

    Attributes:
        encoding: None for generators.
        reach: what servers can read of the source; None where the embedded engine stores the rows.
    """

    listing: Listing
    encoding: Encoding | None
    schema: Schema
    reach: Reach | None = None


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A table that gets rows of the load: the target, or one behind its views.

    Attributes:
        name: ``database.table``.
        engine: its name without arguments.
        partitioned: it has a partition key.
        computed: its MATERIALIZED columns.
    """

    name: str
    engine: str
    partitioned: bool
    computed: tuple[str, ...] = ()

    @property
    def replicated(self) -> bool:
        return self.engine.startswith("Replicated")

    @property
    def merge_tree(self) -> bool:
        return self.engine.endswith("MergeTree")

    @property
    def collapses(self) -> bool:
        """True when it unites rows of equal keys."""
        return self.merge_tree and self.engine not in ("MergeTree", "ReplicatedMergeTree")


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows and parts that the table of a load with ``--upsert`` holds.

    Attributes:
        bytes: on disk. ``partition_columns``: those that its partition key is made of.
    """

    rows: int
    bytes: int
    parts: int
    partitions: int
    partition_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewFacts:
    """Materialized views that read what is inserted into a table.

    Attributes:
        names: ``database.name``.
        columns: of a MergeTree table, those that they use.
    """

    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """Facts that another database than ClickHouse tells about itself and the target table.

    Attributes:
        upkeep: what each row costs besides; "" for nothing.
        binary: it takes rows in binary that rowfall-decode writes.
        link: the network to it, where its protocol can be compressed; else None.
    """

    upkeep: str = ""
    binary: bool = False
    link: NetworkLink | None = None


@dataclass(frozen=True, slots=True)
class ShardingFacts:
    """The sharding key of a table whose rows belong on certain shards.

    Attributes:
        refused: why the key cannot be computed from the columns that are loaded; None if it can.
        doubled: a Distributed table would write each row to all replicas, which replicate it, too.
    """

    key: ShardingKey
    refused: str | None = None
    doubled: bool = False


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Tells what a target table is on the nodes of a cluster.

    Attributes:
        replicas: shards have further replicas of it.
        sharding: None where any row may be stored by any writer.
    """

    replicas: bool = False
    sharding: ShardingFacts | None = None


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Target of the rows on each writer.

    Attributes:
        name: of the target's own table there, "" where rows go into no table.
        existing: None where it is made by the load.
        views: that read what is inserted.
        filled: the target's own table, then those behind its views; () where there is no table.
        promise: what holds instead of the target's promise; "" where that holds.
        stored: what is in it, where rows of it are to be replaced by their key.
        database: what another database than ClickHouse tells of itself.
        key_types: of the elements of its sorting key; () where all are columns, or nobody asked.
        ddl: statements that make a table of ClickHouse; "" where there is nothing to make.
    """

    name: str = ""
    existing: ExistingTable | None = None
    views: ViewFacts = ViewFacts()
    cluster: ClusterFacts = ClusterFacts()
    filled: tuple[FilledTable, ...] = ()
    promise: str = ""
    stored: StoredRows | None = None
    database: DatabaseFacts = DatabaseFacts()
    key_types: tuple[str, ...] = ()
    ddl: str = ""

    @property
    def computed(self) -> frozenset[str]:
        """The MATERIALIZED columns of the target's own table."""
        listed = self.existing.columns if self.existing else ()
        return frozenset(name for name, _, kind in listed if kind == "MATERIALIZED")


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """The manifest of an export, as it was found.

    Attributes:
        place: that it is in, with all outputs.
        tag: of the one that was read; None where there was none, as is ``recorded``.
    """

    place: ManifestStore
    name: str
    tag: str | None
    recorded: Manifest | None = None


@dataclass(frozen=True, slots=True)
class ExportState:
    """State of the files of an export.

    Attributes:
        base: the folder or prefix that all outputs are in.
        found: the manifest there, as it was read.
        names: of the outputs, by number; ``present``: versions of those that are there.
        manifest: to begin with: with the outputs that stay. None where there is none yet.
        wanted: what all outputs are to hold together.
        done: numbers of the outputs that are there with all their rows.
        refusal: why nothing may be written; None where it may.
        notes: what becomes of files that are there. ``loaded``: indexes of the listing that they
            hold.
    """

    base: str
    found: FoundManifest
    names: tuple[str, ...]
    present: Mapping[str, str]
    manifest: Manifest
    done: frozenset[int]
    refusal: RowfallError | None = None
    notes: tuple[str, ...] = ()
    loaded: frozenset[int] = frozenset()
    wanted: frozenset[Range] = frozenset()

    @property
    def finished(self) -> bool:
        """True where nothing is left to do, and the manifest says so."""
        return self.manifest.state == "whole" and len(self.done) == len(self.names)


@dataclass(frozen=True, slots=True)
class FirstFacts:
    """The first answers: with them the survey knows which further questions matter.

    Attributes:
        listing: what there is to load, whole files.
        encoding: None for generators.
        writers: the engines that store rows, the first one first.
        reach: what servers can read of the source; None where the embedded engine stores the rows.
        remote: the source is read over the network.
        cores_here: usable CPU cores of this machine.
        program: path of rowfall-decode on this machine; None where it is not, for ``no_program``.
        rows_per_byte: rows in a stored byte, by a sample; None where only the types of columns
            give an idea of it.
    """

    source: Source
    target: Target
    destination: DestinationRules
    listing: Listing
    encoding: Encoding | None
    schema: Schema
    writers: tuple[WriterFacts, ...]
    table: TargetFacts = TargetFacts()
    reach: Reach | None = None
    remote: bool = False
    cores_here: int = 1
    program: str | None = None
    no_program: str = "rowfall-decode is not installed"
    rows_per_byte: float | None = None

    @property
    def engine(self) -> Facts:
        """Return the facts of the first writer's engine."""
        return self.writers[0].engine

    @property
    def common_engine(self) -> Facts:
        """Return the first writer's engine, without a time zone where the writers' zones differ."""
        if len({writer.engine.timezone for writer in self.writers}) > 1:
            return replace(self.engine, timezone="")
        return self.engine

    @property
    def sharding(self) -> ShardingFacts | None:
        """Return the sharding key of the table; None where any writer may store any row."""
        return self.table.cluster.sharding

    @property
    def placement(self) -> str:
        """Return ``embedded``, ``server`` or ``shards``."""
        first = self.writers[0]
        return "shards" if first.shard else first.kind

    @property
    def rows_refused(self) -> str | None:
        """Return the first writer that rows cannot be sent to, and the reason; None for none."""
        refusals = (f"{w.node} {w.rows_refused}".strip() for w in self.writers if w.rows_refused)
        return next(refusals, None)


@dataclass(frozen=True, slots=True)
class PossibleRanges:
    """Ranges that large files can be loaded in, for those where that may be wanted.

    Attributes:
        begun: indexes of the files of which ranges are loaded.
        found: of each file that was looked at its ranges, or why it has none.
        wanted: indexes of other files that would keep some writer or connection busy for longer
            than the rest.
    """

    begun: frozenset[int] = frozenset()
    wanted: frozenset[int] = frozenset()
    found: Mapping[int, tuple[Split, ...] | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Space:
    """Room on the disks of the target.

    Attributes:
        free: bytes for each writer; None where that is not known.
        row_bytes: of a row on disk, by the rows that are there or a sample; None where nobody
            looked, because they fit in any case.
    """

    free: tuple[int | None, ...]
    row_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class LoadFacts(FirstFacts):
    """Everything that a plan is made from, besides the options.

    Attributes:
        known: ids of splits that are loaded, as far as anybody has a record; ``key`` is the
            target's, by which they are made.
        loaded: indexes of the listing that need not be loaded.
        cuts: what is known of ranges of large files.
        unpinned: why an engine here may read objects in another version than the one listed, or "";
            ``unpinned_there`` the same of servers that read the source.
        export: state of the files to write; None where the target is none.
        stored_row_bytes: see :class:`Space`.
    """

    loaded: frozenset[int] = frozenset()
    known: frozenset[str] = frozenset()
    key: str = ""
    cuts: PossibleRanges = field(default_factory=PossibleRanges)
    unpinned: str = ""
    unpinned_there: str = ""
    stored_row_bytes: float | None = None
    export: ExportState | None = None

    @property
    def todo(self) -> list[int]:
        """Return the indexes of the listing that have to be loaded."""
        return [i for i in range(len(self.listing)) if i not in self.loaded]

    @property
    def marked(self) -> bool:
        """True where the table holds some rows of files only, or ranges of them."""
        return any(id_.startswith(MARK) for id_ in self.known)

    def loaded_of(self, listing: Listing) -> frozenset[int]:
        """Return the indexes of loaded splits in a listing: this one, or one with ranges in it."""
        if listing is self.listing or not self.known:
            return self.loaded
        splits = enumerate(listing.splits(self.key))
        return frozenset(i for i, split in splits if split.id in self.known)

    def source_for(self, transport: Transport) -> Source:
        """Return the source, which names its objects as the engine that reads them has to."""
        if self.reach is None or transport.reads_here:
            return self.source
        return self.reach.source


class DestinationRules(Protocol):
    """Tell a plan what holds for the kind of its destination; nothing of it asks or opens.

    Attributes:
        takes_text: rows that are read here go into it as text.
        flushes: what counts as loaded is on disk, unless ``--no-sync`` says otherwise.
        makes_parts: rows become parts, which are merged. ``builds_parts``: these can be written
            here, into a folder of the engine.
    """

    takes_text: bool
    flushes: bool
    makes_parts: bool
    builds_parts: bool

    def cut(
        self, facts: LoadFacts, options: Options, cores: int, todo: Sequence[int]
    ) -> tuple[Group, ...] | None:
        """Put the splits of ``todo`` into attempts; None where their sizes are the planner's.

        Raises:
            UsageError: an export is to have more files than its source has pieces.
        """

    def lanes(self, facts: LoadFacts, options: Options, cores: int, busy: int) -> int:
        """Return the number of attempts that run at once on one writer, at most ``busy``."""

    def connections(self, facts: FirstFacts, options: Options) -> int | None:
        """Return the number of connections for sending rows; None where writers take them."""

    def adapt_transport(
        self, facts: LoadFacts, options: Options, transport: Transport
    ) -> Transport:
        """Return the transport, changed where the target takes rows otherwise than tables do."""

    def visibility(self, facts: LoadFacts, transport: Transport, options: Options) -> str:
        """Return a clause: what readers see while rows become visible; "" for nothing."""

    def ddl(self, facts: LoadFacts) -> str:
        """Return the statements that make the target; "" where there is nothing to make."""

    def example(
        self, facts: LoadFacts, options: Options, transport: Transport, splits: Sequence[Split]
    ) -> str:
        """Return the statement that loads some splits, to show in the plan; "" for an INSERT."""

    def cells(self, facts: LoadFacts, plan: Plan, options: Options, rows: int) -> list[Cell]:
        """Return the combinations of what can be chosen of a load, the planned one first.

        Args:
            rows: of the largest sample that they are going to be tried with.
        """
