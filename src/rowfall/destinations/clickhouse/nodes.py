"""The nodes that hold a target's tables: one engine, or those of a cluster.

Nothing else asks whether there is a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from rowfall.contracts.destination import LoadRun, Session
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, UsageError
from rowfall.core.events import Listener
from rowfall.core.model import ColumnChange, Plan, Schema, Statement
from rowfall.core.patterns import regex
from rowfall.destinations.notes import created
from rowfall.engines.base import Engine, ExistingTable
from rowfall.ledger.ledger import REBUILT
from rowfall.systems.clickhouse.codes import ACCESS_DENIED, READONLY
from rowfall.systems.clickhouse.staging import REBUILT_PREFIX, CatalogueTables

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster
    from rowfall.cluster.sharding_keys import ShardingKey

# The user may not create tables (497) or is read-only (164): what the server says is the cause.
RIGHTS = (ACCESS_DENIED, READONLY)
UNPARTITIONED = ("", "tuple()")
"""Partition keys that make no partitions."""
_ENGINE_NAME = regex(r"\s*(\w+)")
_RESERVED = regex(r"column '(\w+)' .*reserved for")


@dataclass(frozen=True, slots=True)
class TargetDefinition:
    """Definition of the table that rows end in.

    Attributes:
        engine: its name, perhaps with arguments and what follows them.
        columns: (name, type, default_kind).
    """

    engine: str
    partition_key: str
    columns: tuple[tuple[str, str, str], ...]


class Nodes(Protocol):
    """Where the tables of a session's target are.

    Attributes:
        replicated: shards have further replicas of the table.
        may_lack_database: the load makes the database where it is missing.
        alone: one engine has all tables, so that one statement makes a table.
    """

    replicated: bool
    may_lack_database: bool
    alone: bool

    def definition(self, listed: ExistingTable | None) -> TargetDefinition | None:
        """Return the definition of the table; None where no node has it.

        Args:
            listed: that of the first writer.
        """

    def new_engine(self, schema: Schema) -> str:
        """Return the engine of a table that the load makes."""

    def ddl(self, schema: Schema) -> str:
        """Return the ON CLUSTER statements that create missing tables on all nodes.

        "" where there is no cluster, or nothing is missing.
        """

    def sharding_key(self) -> ShardingKey | None:
        """Return the key by which rows belong on shards; None where any will do."""

    def doubles(self) -> bool:
        """Return whether each replica would store rows forwarded between shards once more."""

    def settle_upserts(self, load: LoadRun, found: CatalogueTables) -> bool:
        """Bring exchanges of rebuilt tables to an end, which one engine has.

        Args:
            found: the tables of the first writer.

        Returns:
            True where tables may be others now.
        """

    def engines(self) -> Mapping[str, Engine] | None:
        """Return all engines that have the table, the one with the record first; None where some
        are away.
        """

    def look_again(self) -> None:
        """Ask for the tables anew: a load has dropped some."""

    def create(self, load: LoadRun, table: str, plan: Plan) -> None:
        """Make the tables where they are missing.

        Args:
            table: that rows gather in on one engine.

        Raises:
            UsageError: an engine does not take the definition.
            RowfallError: it may not be made here.
        """

    def alter(self, changes: Sequence[ColumnChange]) -> None:
        """Change the columns of the tables, as far as that is left to do."""

    def made_over(self) -> tuple[str, str] | None:
        """Return the Distributed table that the load makes over its table; None for none."""

    def wait_for_replicas(self, emit: Listener) -> None:
        """Wait until all replicas have the rows."""


class OneNode:
    """A folder, or a server by itself."""

    replicated = may_lack_database = False
    alone = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def definition(self, listed: ExistingTable | None) -> TargetDefinition | None:
        if listed is None:
            return None
        return TargetDefinition(listed.engine, listed.partition_key, listed.columns)

    def new_engine(self, schema: Schema) -> str:
        return schema.layout.engine

    def ddl(self, schema: Schema) -> str:
        return ""

    def sharding_key(self) -> ShardingKey | None:
        return None

    def doubles(self) -> bool:
        return False

    def settle_upserts(self, load: LoadRun, found: CatalogueTables) -> bool:
        # Whatever an exchange has left to do, one of its tables is still there. Those of a folder
        # are known to its ledger, or are of the load itself.
        known = self._session.engine.shared or load.new
        rebuilt = any(name.startswith(REBUILT_PREFIX) for name in found.tables)
        if known and not rebuilt and not load.ledger.steps_called(REBUILT):
            return False
        from rowfall.publish.upsert import settle_upserts

        settle_upserts(self._session, load.ledger, load.id, new=load.new)
        return True

    def engines(self) -> Mapping[str, Engine] | None:
        return {"": self._session.engine}

    def look_again(self) -> None:
        """Do nothing: it is asked each time."""

    def create(self, load: LoadRun, table: str, plan: Plan) -> None:
        session, ledger = self._session, load.ledger
        statements = () if plan.schema.exists else session.target.create(plan.schema, table)
        if not statements:
            return
        ledger.step(load.id, "create", "started")
        if plan.texts.ddl:
            session.emit(created(session, plan))
        try:
            for statement in statements:
                session.engine.run(Statement(statement))
        except EngineError as error:
            if error.transient or error.code in RIGHTS:
                raise
            cause = error.message.split(", required columns", 1)[0]
            raise UsageError(
                f"the table cannot be created: {cause}",
                hint=_hint_of_table(cause),
            ) from None
        ledger.step(load.id, "create", "done")

    def alter(self, changes: Sequence[ColumnChange]) -> None:
        from rowfall.destinations.clickhouse.alter import alter_table

        if changes:
            alter_table(self._session, changes)

    def made_over(self) -> tuple[str, str] | None:
        return None

    def wait_for_replicas(self, emit: Listener) -> None:
        """Do nothing: there are none that anybody has named."""


class ClusterNodes:
    """The nodes of a cluster that answer."""

    may_lack_database = True
    alone = False

    def __init__(self, session: Session, shards: OpenCluster) -> None:
        self._session, self._shards = session, shards
        self.replicated = shards.cluster.replicated

    def definition(self, listed: ExistingTable | None) -> TargetDefinition | None:
        """See :class:`Nodes`; it is that of some node, not only of the first."""
        like = self._shards.tables.own.like
        if like is None:
            return OneNode(self._session).definition(listed)
        engine = f"{like.engine.name}({', '.join(like.engine.arguments)})"
        return TargetDefinition(engine, like.partition_by, like.columns)

    def new_engine(self, schema: Schema) -> str:
        if self._session.options.replicated or self.replicated:
            return f"Replicated{schema.layout.engine.removeprefix('Replicated')}"
        return schema.layout.engine

    def ddl(self, schema: Schema) -> str:
        missing = self._shards.missing(schema, self._session.options)
        return ";\n".join(ddl.on_cluster for ddl in missing)

    def sharding_key(self) -> ShardingKey | None:
        return self._shards.sharding_key(self._session.options)

    def doubles(self) -> bool:
        return self.replicated and not self._shards.cluster.internal_replication

    def settle_upserts(self, load: LoadRun, found: CatalogueTables) -> bool:
        """Do nothing: no table of a cluster is exchanged."""
        return False

    def engines(self) -> Mapping[str, Engine] | None:
        shards = self._shards
        if len(shards.cluster.up) < len(shards.cluster.nodes):
            return None
        # First the one that keeps the journal.
        order = sorted(shards.cluster.nodes, key=lambda n: n.address != shards.writers[0].node)
        return {node.address: shards.connect(node) for node in order}

    def look_again(self) -> None:
        self._shards.look_again()

    def create(self, load: LoadRun, table: str, plan: Plan) -> None:
        session, shards = self._session, self._shards
        # As it is now: planning took its time, and others load too.
        missing = shards.missing(plan.schema, session.options, shards.find_tables())
        if not missing:
            return
        if not plan.schema.exists:
            load.ledger.step(load.id, "create", "started")
            session.emit(created(session, plan))
        for ddl in missing:
            shards.create(ddl, session.emit)
        if not plan.schema.exists:
            load.ledger.step(load.id, "create", "done")

    def alter(self, changes: Sequence[ColumnChange]) -> None:
        from rowfall.destinations.clickhouse.alter import alter_cluster

        alter_cluster(self._session, self._shards, changes)

    def made_over(self) -> tuple[str, str] | None:
        tables = self._shards.tables
        if tables.direct or tables.over.like is not None:
            return None
        return tables.database, tables.table

    def wait_for_replicas(self, emit: Listener) -> None:
        from rowfall.destinations.clickhouse.replicas import wait_for_replicas

        wait_for_replicas(self._shards, emit)


def nodes_of(session: Session) -> Nodes:
    """Return the nodes that hold the tables of a session's target."""
    shards = session.shards
    return ClusterNodes(session, shards) if shards is not None else OneNode(session)


def engine_name(text: str) -> str:
    """Return the name in front of an engine's arguments."""
    found = _ENGINE_NAME.match(text)
    return found[1] if found else ""


def _hint_of_table(cause: str) -> str:
    """Return the hint for an engine's error on CREATE TABLE, by the text of the error."""
    if found := _RESERVED.search(cause):
        name = found[1]
        return f"Give the column another name: --rename {name}={name.strip('_')}"
    return "Check --order-by, --engine and the other options of the table."
