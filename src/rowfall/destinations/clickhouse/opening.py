"""Connect to the servers that hold a table of ClickHouse, and check what a load needs there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import Opened, OpenRequest, Session
from rowfall.core.errors import TargetError
from rowfall.core.events import Listener
from rowfall.core.options import ADD, Options
from rowfall.core.server_address import ServerAt
from rowfall.core.units import parse_duration, parse_size
from rowfall.engines import server_class
from rowfall.engines.base import Engine
from rowfall.systems.clickhouse.target import Table
from rowfall.targets.base import Target

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster
    from rowfall.systems.clickhouse.staging import CatalogueTables

# Databases that an error names; some servers have thousands.
MOST_NAMES = 8


def open_servers(request: OpenRequest, at: ServerAt) -> Opened:
    """Connect to a server, and to all shards of its cluster where the target is one.

    Raises:
        TargetError: as in :func:`_check_writer`.
    """
    from rowfall.ledger.journal import TABLE as JOURNAL  # 2 ms that loads into folders save
    from rowfall.ledger.journal import make_durable

    target, options, stack, dry = request.target, request.options, request.stack, request.dry
    server = connect(at, options)
    stack.callback(server.close)
    shards = shards_of(server, target, options, stack, request.emit)
    writers = shards.writers if shards is not None else (Writer(0, "", server, target),)
    request.check_setting_names(server)
    for writer in writers:
        found = _check_writer(writer, options, dry, may_lack_database=shards is not None)
        journal = found.tables.get(JOURNAL)
        if journal is not None and not dry and not request.scratch:
            make_durable(writer.engine, journal)
    if shards is not None:
        shards.sharding_key(options)
    return Opened(writers, shards=shards)


def shards_of(
    entry: Engine, target: Target, options: Options, stack: ExitStack, emit: Listener
) -> OpenCluster | None:
    """Open the cluster that the target names; return None when it names a server only."""
    at = target.server
    if at is None or not at.cluster or not isinstance(target, Table):
        return None
    from rowfall.cluster.open import ClusterTarget, open_cluster

    def connects(there: ServerAt, through: Engine | None) -> Engine:
        return connect(there, options, through=through)

    wanted = ClusterTarget(
        at, target, skip=options.skip_unavailable_shards,
        altering=options.widen or options.on_new_column == ADD,
    )  # fmt: skip
    return open_cluster(entry, wanted, connects, stack, emit)


def connect(
    at: ServerAt, options: Options, database: str = "", through: Engine | None = None
) -> Engine:
    """Return the engine of a server target.

    Args:
        database: where unqualified names live.
        through: another server that passes everything on, where this one is out of reach.

    Raises:
        TargetError: it cannot be reached, or refuses the user.
    """
    opened = server_class(at.kind)  # http.client takes 20 ms that others save
    return opened(
        at.host, at.port, tls=at.tls, user=at.user, password=at.password,
        options=at.options, threads=options.threads, database=database,
        memory=parse_size(options.memory) if options.memory else None, sharing=at.sharing,
        through=through, durable=not options.no_sync,
        patience=parse_duration(options.patience),
    )  # fmt: skip


def _check_writer(
    writer: Writer, options: Options, dry: bool, *, may_lack_database: bool = False
) -> CatalogueTables:
    """Check what a load needs at a server before anything is read or made; return its tables.

    Args:
        may_lack_database: the load makes it where it is missing, as on a cluster.

    Raises:
        TargetError: no such database, a table that takes no rows, or (unless ``dry``) a right
            that is missing.
        UsageError: the table has replicas on other servers, and no cluster is named.
    """
    from rowfall.destinations.clickhouse.loaded_state import (
        check_identity,  # 20 ms that loads into folders save
    )
    from rowfall.ledger.journal import TABLE as JOURNAL
    from rowfall.systems.clickhouse import staging, views

    engine, target = writer.engine, writer.target
    asks = engine.ask
    if engine.readonly == 1 or not dry:  # 1: not even the settings of our questions may change
        engine.check_writes()
    database = target.database
    found = staging.ask_catalogue(engine, database, target.table, *[JOURNAL] * engine.shared)
    facts = found.tables.get(target.table)
    lacks, names, kinds = False, list[str](), dict[str, str]()
    # Where one of its tables has an identity, the database is there and fit.
    if not any(table.id.uuid.strip("0-") for table in found.tables.values()):
        kinds = dict(asks("SELECT name, engine FROM system.databases ORDER BY name"))
        names = [str(name) for name in kinds]
        lacks = database not in names
    if lacks and may_lack_database:
        if not dry and not options.direct:
            engine.check_rights([(database, target.table)])
        return found
    if lacks:
        shown = [n for n in names if n.lower() not in ("system", "information_schema")]
        raise TargetError(
            f"the server has no database {database!r} that this user may see",
            hint=f"Create it first, or name another one in --to or --table: {_some(shown)}.",
        )
    if kinds:
        check_identity(database, str(kinds[database]))
    if facts is not None:
        _ = facts.publish_kind  # raises where it takes no rows
    if facts is not None and facts.replicated and not writer.node:
        from rowfall.cluster.alone import check_alone  # 10 ms that other loads save

        check_alone(asks, target.text, database, target.table)
    if not dry and not options.direct and (facts is None or facts.publish_kind != "direct"):
        # The tables that views fill are staged and attached as well.
        viewed = facts is not None and bool(facts.views) and not options.replace
        behind = views.discover(asks, database, target.table, facts).tables if viewed else ()
        filled = [table for table in (facts, *behind) if table is not None]
        engine.check_rights(
            [(database, target.table), *((table.database, table.table) for table in behind)],
            replicated=any(table.replicated for table in filled),
        )
    return found


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return (", ".join(names[:MOST_NAMES]) or "there is none yet") + (
        f" and {more} more" if more > 0 else ""
    )


def refusal(session: Session) -> TargetError | None:
    """Return the error that a load would end with for a missing right; None where it has all.

    None as well with ``--direct``, of which nothing is checked.
    """
    if session.options.direct:
        return None
    from rowfall.destinations.clickhouse.nodes import nodes_of

    may_lack = nodes_of(session).may_lack_database
    try:
        for writer in session.writers:
            _check_writer(writer, session.options, dry=False, may_lack_database=may_lack)
    except TargetError as error:
        return error
    return None
