"""One request with everything that is opened for it: source, target, engine, ledger."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rowfall.core import signals
from rowfall.core.errors import Interrupted, NoSpaceError, TargetError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.masked import Secret
from rowfall.core.model import Plan
from rowfall.core.options import (
    ADD,
    ALL,
    COMPRESSIONS,
    DEFAULT,
    ERROR,
    FILTER,
    IGNORE,
    JOURNAL,
    METHODS,
    NONE,
    REPLACE,
    SKIP,
    Options,
    projection_of,
)
from rowfall.core.patterns import regex
from rowfall.core.units import memory as memory_text
from rowfall.core.units import parse_duration, parse_size
from rowfall.engines import database_class, server_class
from rowfall.engines.base import Engine
from rowfall.engines.database import Database
from rowfall.engines.embedded import PLAN, Embedded, total_memory
from rowfall.engines.prestart import prestart
from rowfall.sources import check_options, open_source
from rowfall.sources.base import Folders, Queried, Streamed
from rowfall.targets import default_table, open_target
from rowfall.targets.base import Publish, ServerAt, Target
from rowfall.targets.table import Table
from rowfall.targets.transactional import TransactionalTable

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster
    from rowfall.contracts.session import Session, Writer
    from rowfall.sources.base import Source

    OpenSource = Callable[[Options], Source]
    """Opens a source of rows that this process has in memory."""

_WAIT = regex(r"merges=[1-9]\d*|replicas")

# Databases that an error names; some servers have thousands.
MOST_NAMES = 8

GO_ON = "Run the same command again to go on."
"""The hint of a load that was interrupted."""


@contextmanager
def open_session(
    sources: Sequence[str] | str | OpenSource,
    to: str | None,
    table: str | None,
    options: Options,
    emit: Listener,
    *,
    dry: bool,
    password: Secret | None = None,
    began: float = 0.0,
) -> Iterator[Session]:
    """Open source, target, listing, engines and ledger; close them in the other order.

    ``sources`` may be what opens a source of rows in memory. ``dry`` touches no target: a data
    folder that does not exist is not made (the engine then works in memory), and the ledger is only
    read.
    """
    given = None
    if callable(sources):
        given = sources(options)
        texts: tuple[str, ...] = (given.text,)
        check_options(texts, options)
    else:
        texts = (sources,) if isinstance(sources, str) else tuple(sources)
    if not texts:
        raise UsageError("no source given", hint="Name files, a glob, or generate://trips.")
    _check_choices(options)
    _check_values(options)
    if options.method == FILTER:
        options = replace(options, pull=True)
    prestart(texts, to)  # it imports while the source is listed
    source = given or open_source(texts, options)
    if options.query is not None and not isinstance(source, Queried):
        raise UsageError(
            f"--query is for databases, and {source.text} is none",
            hint="Columns and rows of files are chosen with --select and --where.",
        )
    named = default_table(texts) if table is None else table
    target = open_target(to, named, options, password)
    # What is remembered of a load names the topic as its table.
    fixed = target.caps.topic or target.caps.publish is Publish.COMMIT
    foreign = fixed and table != target.table
    if given is not None and table is None and target.table == named and not fixed:
        raise UsageError(
            "rows in memory have no name that could be that of a table",
            hint='Give one: rowfall.load(frame, table="trips").',
        )
    if table is not None and (target.caps.one_file_per_group or foreign):
        what = "a topic" if target.caps.topic else "a file to write"
        if target.caps.publish is Publish.COMMIT:
            what = "a table already"
        raise UsageError(
            f"--table {table} names a table, and {target.text} is {what}",
            hint="Leave out --table, or name a folder or a server with --to.",
        )
    _check_target(target, options)
    with ExitStack() as stack:
        if isinstance(source, Streamed):
            stack.callback(source.close)
        server = None if target.server is None else connect(target.server, options)
        shards = None
        if server is not None:
            from rowfall.contracts.session import Writer
            from rowfall.ledger.journal import make_durable

            stack.callback(server.close)
            shards = shards_of(server, target, options, stack, emit)
            found = shards.writers if shards is not None else (Writer(0, "", server, target),)
            if options.set:
                _check_setting_names(server, options)
            for writer in found:
                _check_writer(writer, options, dry, may_lack_database=shards is not None)
                if not dry:
                    make_durable(writer.engine, writer.target.database)
        database = reader = None
        if target.address is not None:
            # It opens while the database is asked, 0.1 s either; but the descriptor of stdin, which
            # the engine inherits, is made when it is listed.
            if source.replayable:
                reader = _engine_here(source, None, options)
                stack.callback(reader.close)
            database = open_database(target.address, target, options)
            stack.callback(database.close)
            database.check(dry=dry)
        folder = target.folder
        if folder is not None and dry and not folder.is_dir():
            folder = None
        if options.set and reader is None and server is None and source.replayable:
            reader = _engine_here(source, folder, options)
            stack.callback(reader.close)
            _check_setting_names(reader, options)
        listing = source.listing()
        listing.projection = projection_of(options)
        encoding = source.encoding(listing)
        for note in source.notes:
            emit(Note("info", note))
        if reader is None:
            reader = _engine_here(
                source, folder, options, served=server is not None, reads=PLAN if dry else ""
            )
            stack.callback(reader.close)
        # 50 ms, in which the engine of this machine opens the folder.
        from rowfall.contracts.session import Session, Writer
        from rowfall.destinations import open_destination
        from rowfall.ledger import Ledger

        ledger = None
        if not dry or target.ledger_path.exists():
            ledger = Ledger(target.ledger_path)
            stack.callback(ledger.close)
        writers: tuple[Writer, ...] = (Writer(0, "", server or reader, target),)
        if shards is not None:
            shards.sharding_key(options)
            writers = shards.writers
        yield Session(
            texts, to, options, source, target, open_destination(target), listing, encoding, reader,
            writers, ledger, emit, shards, began or time.monotonic(), database,
            table is None and not fixed,
        )  # fmt: skip


def _engine_here(
    source: Source, folder: Path | None, options: Options, *, served: bool = False, reads: str = ""
) -> Embedded:
    """Return the engine of this machine; it opens meanwhile, unless a server does the work."""
    return Embedded(
        folder, memory=_memory_here(options) if options.memory and not served else None,
        threads=options.threads, fds=source.fds, idle=served, durable=not options.no_sync,
        work=source.work if isinstance(source, Folders) else "", reads=reads,
    )  # fmt: skip


def _memory_here(options: Options) -> int:
    """Return what ``--memory`` says.

    Raises:
        UsageError: this machine does not have it.
    """
    asked, there = parse_size(options.memory or ""), total_memory()
    if there and asked > there:
        raise UsageError(
            f"--memory {options.memory} is more than the {memory_text(there)} of this machine",
            hint="Leave it out to use half of what is free.",
        )
    return asked


def shards_of(
    entry: Engine, target: Target, options: Options, stack: ExitStack, emit: Listener
) -> OpenCluster | None:
    """Open the cluster that the target names; return None when it names a server only."""
    at = target.server
    if at is None or not at.cluster or not isinstance(target, Table):
        return None
    from rowfall.cluster.open import open_cluster

    def connects(there: ServerAt, through: Engine | None) -> Engine:
        return connect(there, options, through=through)

    return open_cluster(
        entry, at, target, connects, stack, emit, skip=options.skip_unavailable_shards,
        altering=options.widen or options.on_new_column == ADD,
    )  # fmt: skip


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


def open_database(at: ServerAt, target: Target, options: Options) -> Database:
    """Return the database that holds the table of a target; nothing is connected yet."""
    opened = database_class(at.kind)  # its driver takes time that others save
    return opened(
        at.host, at.port, at.user, at.password, at.options, target.database, target.table, options
    )


def _check_writer(
    writer: Writer, options: Options, dry: bool, *, may_lack_database: bool = False
) -> None:
    """Check what a load needs at a server before anything is read or made.

    Args:
        may_lack_database: the load makes it where it is missing, as on a cluster.

    Raises:
        TargetError: no such database, a table that takes no rows, or (unless ``dry``) a right
            that is missing.
        UsageError: the table has replicas on other servers, and no cluster is named.
    """

    from rowfall.plan.memory import check_identity  # 20 ms that loads into folders save
    from rowfall.targets import staging, views

    engine, target = writer.engine, writer.target
    asks = engine.ask
    if engine.readonly == 1 or not dry:  # 1: not even the settings of our questions may change
        engine.check_writes()
    database = target.database
    names = [str(name) for (name,) in asks("SELECT name FROM system.databases ORDER BY name")]
    lacks = database not in names
    if lacks and may_lack_database:
        if not dry and not options.direct:
            engine.check_rights([(database, target.table)])
        return
    if lacks:
        shown = [n for n in names if n.lower() not in ("system", "information_schema")]
        raise TargetError(
            f"the server has no database {database!r} that this user may see",
            hint=f"Create it first, or name another one in --to or --table: {_some(shown)}.",
        )
    check_identity(engine, database)
    facts = staging.facts(asks, database, target.table)
    if facts is not None and facts.replicated and not writer.node:
        from rowfall.cluster.alone import check_alone  # 10 ms that other loads save

        check_alone(asks, target.text, database, target.table)
    if not dry and not options.direct and (facts is None or facts.publish_kind != "direct"):
        # The tables that views fill are staged and attached as well.
        viewed = facts is not None and bool(facts.views) and not options.replace
        behind = views.discover(asks, database, target.table).tables if viewed else ()
        filled = [table for table in (facts, *behind) if table is not None]
        engine.check_rights(
            [(database, target.table), *((table.database, table.table) for table in behind)],
            replicated=any(table.replicated for table in filled),
        )


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return (", ".join(names[:MOST_NAMES]) or "there is none yet") + (
        f" and {more} more" if more > 0 else ""
    )


def refusal(session: Session) -> TargetError | None:
    """Return why the server would refuse a load, for its plan: a right that is missing."""
    if session.database is not None:
        try:
            session.database.check(dry=False)
        except TargetError as error:
            return error
    if session.target.server is not None and not session.options.direct:
        try:
            for writer in session.writers:
                _check_writer(
                    writer, session.options, dry=False,
                    may_lack_database=session.shards is not None,
                )  # fmt: skip
        except TargetError as error:
            return error
    return None


def no_space(plan: Plan, options: Options) -> TargetError | None:
    """Return why the rows do not fit on the target's disks; None where they do."""
    if not plan.forecast.short or options.no_space_check:
        return None
    return NoSpaceError(
        f"the load does not fit: {plan.forecast.short}",
        hint="Free some space or load into another place. The forecast comes from a sample: "
        "--no-space-check loads all the same.",
    )


def _check_choices(options: Options) -> None:
    """Check that options do not contradict each other.

    Raises:
        UsageError: which two.
    """
    for one, other in (
        ("pull", "push"), ("atomic", "replace"), ("direct", "atomic"), ("direct", "replace"),
        ("upsert", "replace"), ("upsert", "atomic"), ("upsert", "direct"),
        ("direct", "widen"),
    ):  # fmt: skip
        if getattr(options, one) and getattr(options, other):
            raise UsageError(f"--{one} and --{other} exclude each other")
    if options.method not in METHODS:
        raise UsageError(f"--method {options.method} is not one of {', '.join(METHODS)}")
    if options.decoder not in ("auto", "always", "never"):
        raise UsageError(f"--decoder {options.decoder} is not one of auto, always, never")
    if options.loaded not in (None, ALL, JOURNAL, NONE):
        raise UsageError(f"--loaded {options.loaded} is not one of all, journal, none")
    for name, words in (("on_new_column", (ADD, IGNORE, ERROR)),
                        ("on_missing_column", (DEFAULT, ERROR)),
                        ("on_conflict", (ERROR, SKIP, REPLACE))):  # fmt: skip
        if (wish := getattr(options, name)) not in words:
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} {wish} is not one of {', '.join(words)}")
    for name in ("presort", "build"):
        if (wish := getattr(options, name)) not in ("auto", "on", "off"):
            raise UsageError(f"--{name} {wish} is not one of auto, on, off")
    parse_duration(options.patience)
    if options.compress not in COMPRESSIONS:
        raise UsageError(f"--compress {options.compress} is not one of {', '.join(COMPRESSIONS)}")
    if options.wait and not all(_WAIT.fullmatch(one) for one in options.wait.split(",")):
        raise UsageError(
            f"--wait {options.wait} is not something to wait for",
            hint="Write --wait merges=3000: until fewer than 3000 parts are active; of a cluster "
            "--wait replicas: until all of them have the rows.",
        )


# Pieces of text that are read together are not much smaller: shorter limits would not hold.
_LEAST_RECORD = 1 << 20


def _check_values(options: Options) -> None:
    """Check the values of options by themselves: a listing may take minutes, a sample seconds.

    Raises:
        UsageError: one makes no sense, whatever the source holds.
    """
    if options.memory:
        from rowfall.plan.settings import check_memory  # 10 ms that loads without the option save

        check_memory(parse_size(options.memory))
    if options.attempt_bytes:
        parse_size(options.attempt_bytes)
    if parse_size(options.max_record) < _LEAST_RECORD:
        raise UsageError(
            f"--max-record {options.max_record} is too little for records of text",
            hint="Give at least --max-record 1MiB.",
        )
    # Imports that loads without such options save.
    if options.rename or options.add_column or options.select or options.where:
        from rowfall.schema.column_options import check_syntax

        check_syntax(options)
    if options.type:
        from rowfall.schema.table_options import named_types

        list(named_types(options))
    if options.set:
        from rowfall.plan.planner import chosen_settings

        chosen_settings(options.set)
    if options.rejects and not Path(options.rejects).absolute().parent.is_dir():
        raise UsageError(
            f"--rejects {options.rejects}: there is no folder {Path(options.rejects).parent}",
            hint="Make it first, or name a file in one that is there.",
        )


def _check_setting_names(engine: Engine, options: Options) -> None:
    """Check that the engine has the settings of ``--set``.

    Raises:
        UsageError: it lacks one.
    """
    from rowfall.plan.planner import chosen_settings
    from rowfall.plan.settings import check_names

    check_names(engine.facts, chosen_settings(options.set))


def _check_target(target: Target, options: Options) -> None:
    """Check that every option applies to this kind of target.

    Raises:
        UsageError: which one.
    """
    if target.address is None:
        for name in ("unlogged", "on_conflict", "prefill"):
            if getattr(options, name) not in (False, ERROR):
                raise UsageError(
                    f"--{name.replace('_', '-')} is for tables of other databases, and "
                    f"{target.text} is not one",
                    hint="Leave it out, or give one with --to postgresql://user@host/database.",
                )
    if not target.caps.topic:
        for name in ("key", "transactional", "partitions"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} is for topics, and {target.text} is not one",
                    hint="Leave it out, or name a topic with --to kafka://host:9092/topic.",
                )
    takes: tuple[str, ...] = ()
    if isinstance(target, TransactionalTable):
        takes = ("streams", "push", *target.takes)  # rows are pushed in any case
    if target.server is None:
        for name in ("pull", "push", "streams"):
            if getattr(options, name) and name not in takes:
                if target.address is not None:
                    raise UsageError(
                        f"--{name} is not for {target.text}: rows are read here and sent",
                        hint="Leave it out.",
                    )
                raise UsageError(
                    f"--{name} needs a server, and {target.text} is not one",
                    hint="Give a server with --to clickhouse://host:8123/database.",
                )
    if target.server is None or not target.server.cluster:
        for name in ("shard_key", "replicated", "skip_unavailable_shards", "method"):
            if getattr(options, name) not in (None, False, "local") and name not in takes:
                raise UsageError(
                    f"--{name.replace('_', '-')} needs a cluster, and {target.text} is not one",
                    hint="Name one with --to 'clickhouse://host:8123/database?cluster=NAME'.",
                )
        if "replicas" in (options.wait or "").split(","):
            raise UsageError(f"--wait replicas needs a cluster, and {target.text} is not one")
    else:
        if options.where:
            raise UsageError(
                "--where needs a single table: on a cluster all rows of a file are counted",
                hint="Load all rows, or load into the table of one server.",
            )
        for name in ("atomic", "replace", "upsert"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} needs a single table, and each shard of a cluster has its own",
                    hint="Leave it out: rowfall plan says what readers then see.",
                )
    for name in ("files", "to_format") if not target.caps.one_file_per_group else ():
        if getattr(options, name) and name not in takes:
            raise UsageError(
                f"--{name.replace('_', '-')} is for files to write, and {target.text} is not one",
                hint="Write files with --to 'part_{n}.csv.gz'.",
            )
    if not target.caps.tables:
        for name in ("atomic", "direct", "wait", "widen", "upsert"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} needs a table of ClickHouse, and {target.text} has none"
                )
        if target.address is not None and options.on_new_column == ADD:
            raise UsageError(
                f"--on-new-column add is for tables of ClickHouse, and {target.text} has none",
                hint="Add the column to the table before the load, or take ignore.",
            )


# --- Ctrl-C and SIGTERM --------------------------------------------------------------------------


@contextmanager
def terminable(hint: str | None = None) -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a load in a stopped container can be resumed.

    A second signal changes nothing: stopping takes two seconds at most and must not be cut short.

    Raises:
        Interrupted: one of them came, wherever the block was; with ``hint``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if not stopping:
            stopping = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted", hint=hint) from None
    finally:
        for number, handler in before.items():
            ignored = stopping and signals.ends_with_load
            signal.signal(number, signal.SIG_IGN if ignored else handler)
