"""One request with everything that is opened for it: source, target, engine, ledger."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from rowfall import sql, staging
from rowfall.cluster.keys import Keyed
from rowfall.engines.base import Engine
from rowfall.engines.embedded import Embedded
from rowfall.engines.prestart import prestart
from rowfall.errors import TargetError, UsageError
from rowfall.events import Listener
from rowfall.ledger import Ledger
from rowfall.ledger.rows import into_key
from rowfall.listing import Listing
from rowfall.model import Encoding
from rowfall.options import Options
from rowfall.packing import WISHES
from rowfall.publish import asker
from rowfall.reach import Reach, reach
from rowfall.secrets import Secret
from rowfall.sources import open_source
from rowfall.sources.base import Source
from rowfall.targets import default_table, open_target
from rowfall.targets.base import ServerAt, Target
from rowfall.targets.table import Table
from rowfall.units import parse_size
from rowfall.ways import BY_HAND, FILTER, METHODS

if TYPE_CHECKING:
    from rowfall.engines.server import Server
    from rowfall.shards import Shards

_WAIT = re.compile(r"merges=[1-9]\d*|replicas")

# Databases that an error names; some servers have thousands.
MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Seat:
    """One engine that stores rows of a job: the only one, or the chosen replica of a shard.

    Attributes:
        number: of its line in the queue.
        place: its node, ``host:port``; "" where there is only one engine.
        target: with the table that gets its rows.
        shard: that it is a replica of; 0 where there is only one engine.
    """

    number: int
    place: str
    engine: Engine
    target: Target
    shard: int = 0

    @property
    def server(self) -> Server | None:
        """The engine, where it is a server."""
        if self.target.server is None:
            return None
        from rowfall.engines.server import Server  # http.client takes 20 ms that others save

        return self.engine if isinstance(self.engine, Server) else None


@dataclass(slots=True)
class Job:
    """One request with everything that had to be opened for it.

    Attributes:
        engine: stores the rows; of a cluster, the node that keeps the journal. ``reader`` reads
            the source from here; the same when embedded.
        seats: every engine that stores rows; ``engine`` is that of the first.
        shards: the cluster that they are of, None where there is none.
        keyed: which of them a row belongs on, None where any will do.
        scout: looks at the source where servers read it; of a cluster, one that is reached from
            here (see :attr:`rowfall.shards.Shards.scout`), otherwise ``engine``.
        home: the table whose columns count when it exists: the target, or its shadow.
        cpu_before: :attr:`cpu_here` when the plan was made.
        how: whether a server reads the source itself, and why; None for the embedded engine.
    """

    sources: tuple[str, ...]
    to: str | None
    options: Options
    source: Source
    target: Target
    listing: Listing
    encoding: Encoding | None
    engine: Engine
    reader: Embedded
    ledger: Ledger | None
    emit: Listener
    home: str = ""
    how: Reach | None = None
    cpu_before: float = 0.0
    seats: tuple[Seat, ...] = ()
    shards: Shards | None = None
    keyed: Keyed | None = None
    scout: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.seats = self.seats or (Seat(0, "", self.engine, self.target),)
        of_cluster = self.shards is not None and self.options.method not in BY_HAND
        self.scout = self.shards.scout if self.shards and of_cluster else self.engine

    @property
    def into(self) -> str:
        if self.target.table:
            # Two Distributed tables over one local table are two names of the same rows.
            return into_key(self.local.database, self.local.table)
        return into_key(self.target.text)

    @property
    def local(self) -> Target:
        """The target as it is on ``engine``: of a cluster, the first shard's own table."""
        return self.seats[0].target

    @property
    def far(self) -> str:
        """Which node gets statements, but no rows from here; "" when all of them get both."""
        if self.target.server is None:
            return ""
        far = [(s.place, t) for s in self.seats if (t := cast("Server", s.engine).through)]
        return f"{far[0][0]} is only reached through {far[0][1]}" if far else ""

    @property
    def all_rows(self) -> str:
        """SQL that reads the whole target: the table, or those of all shards."""
        shards, table = self.shards, sql.qualified(self.target.database, self.target.table)
        if shards is None or not shards.tables.direct:
            return table
        return f"cluster({sql.name(shards.cluster.name)}, {table})"

    @property
    def table_text(self) -> str:
        """``database.table`` for people, "" where there is no table."""
        return f"{self.target.database}.{self.target.table}" if self.target.table else ""

    @property
    def cpu_here(self) -> float:
        """CPU seconds of this process and of the engine that reads here."""
        return self.reader.cpu_seconds() + time.process_time()

    @property
    def puller(self) -> Source:
        """The source as the engine that stores has to name it, where it reads it itself."""
        return self.how.source if self.how is not None and self.how.pull else self.source

    @property
    def remote(self) -> bool:
        return self.sources[0].startswith(("s3://", "gs://", "az://", "http://", "https://"))


@contextmanager
def open_job(
    sources: Sequence[str] | str,
    to: str | None,
    table: str | None,
    options: Options,
    emit: Listener,
    *,
    dry: bool,
    password: Secret | None = None,
) -> Iterator[Job]:
    """Source, target, listing, engines and ledger; closed in the other order.

    ``dry`` touches no target: a data folder that does not exist is not made (the engine then
    works in memory), and the ledger is only read.
    """
    texts = (sources,) if isinstance(sources, str) else tuple(sources)
    if not texts:
        raise UsageError("no source given", hint="Name files, a glob, or generate://trips.")
    _check_choices(options)
    by_hand = options.method in BY_HAND
    if by_hand:
        options = replace(options, direct=True, pull=True, decoder="never")
    elif options.method == FILTER:
        options = replace(options, pull=True)
    prestart(texts, to)  # it imports while the source is listed
    source = open_source(texts, options)
    target = open_target(to, table or default_table(texts[0]), options, password)
    _check_target(target, options)
    with ExitStack() as stack:
        server = None if target.server is None else connect(target.server, options)
        shards = None
        if server is not None:
            stack.callback(server.close)
            shards = shards_of(server, target, options, stack, emit)
            for engine, there in () if by_hand else _places(server, target, shards):
                _check_place(engine, there, options, dry, may_lack_database=shards is not None)
        listing = source.listing()
        encoding = source.encoding(listing)
        folder = target.folder
        if folder is not None and dry and not folder.is_dir():
            folder = None
        memory = parse_size(options.memory) if options.memory and server is None else None
        reader = Embedded(
            folder, memory=memory, threads=options.threads, fds=source.fds, idle=server is not None
        )
        stack.callback(reader.close)
        ledger = None
        if not dry or target.ledger_path.exists():
            ledger = Ledger(target.ledger_path)
            stack.callback(ledger.close)
        seats: tuple[Seat, ...] = ()
        keyed = None
        if shards is not None and not by_hand:
            keyed = shards.check(options)
            server = shards.nodes[0][1]
            seats = tuple(
                Seat(number, node.address, engine, there, node.shard)
                for number, (node, engine, there) in enumerate(shards.nodes)
            )
        job = Job(
            texts, to, options, source, target, listing, encoding, server or reader, reader,
            ledger, emit, seats[0].target.table if seats else target.table, seats=seats,
            shards=shards, keyed=keyed,
        )  # fmt: skip
        if server is not None:
            # FROM clauses that the oldest node understands in full are safe on all of them.
            oldest = "" if shards is None or by_hand else shards.oldest
            scout = cast("Server", job.scout)
            job.how = reach(scout, source, listing, encoding, options, oldest=oldest)
        yield job


def shards_of(
    entry: Server, target: Target, options: Options, stack: ExitStack, emit: Listener
) -> Shards | None:
    """The cluster that the target names, None when it names a server only."""
    at = target.server
    if at is None or not at.cluster or not isinstance(target, Table):
        return None
    from rowfall.shards import open_shards

    def connects(there: ServerAt, through: Server | None) -> Server:
        return connect(there, options, through=through)

    skip = options.skip_unavailable_shards
    return open_shards(entry, at, target, connects, stack, emit, skip=skip)


def _places(
    server: Server, target: Target, shards: Shards | None
) -> Iterator[tuple[Server, Target]]:
    """Every server that gets rows, and the target as it is there."""
    if shards is None:
        yield server, target
        return
    for _, engine, there in shards.nodes:
        yield engine, there


def connect(
    at: ServerAt, options: Options, database: str = "", through: Server | None = None
) -> Server:
    """The engine of a server target.

    Args:
        database: where unqualified names live.
        through: another server that passes everything on, where this one is out of reach.

    Raises:
        TargetError: it cannot be reached, or refuses the user.
    """
    from rowfall.engines.server import Server  # http.client takes 20 ms that others save

    return Server(
        at.host, at.port, tls=at.tls, user=at.user, password=at.password,
        options=at.options, threads=options.threads, database=database,
        memory=parse_size(options.memory) if options.memory else None, sharing=at.sharing,
        through=through,
    )  # fmt: skip


def _check_place(
    server: Server, target: Target, options: Options, dry: bool, *, may_lack_database: bool = False
) -> None:
    """What a load needs at a server, looked at before anything is read or made.

    Args:
        may_lack_database: the load makes it where it is missing, as on a cluster.

    Raises:
        TargetError: no such database, a table that takes no rows, or (unless ``dry``) a right
            that is missing.
    """

    asks = asker(server)
    if server.readonly == 1 or not dry:  # 1: not even the settings of our questions may change
        server.check_writes()
    database = target.database
    names = [str(name) for (name,) in asks("SELECT name FROM system.databases ORDER BY name")]
    if database not in names and may_lack_database:
        return
    if database not in names:
        shown = [n for n in names if n.lower() not in ("system", "information_schema")]
        raise TargetError(
            f"the server has no database {database!r} that this user may see",
            hint=f"Create it first, or name another one in --to or --table: {_some(shown)}.",
        )
    facts = staging.facts(asks, database, target.table)
    if not dry and not options.direct and (facts is None or facts.publish_kind == "attach"):
        server.check_rights(database, target.table)


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return (", ".join(names[:MOST_NAMES]) or "there is none yet") + (
        f" and {more} more" if more > 0 else ""
    )


def refusal(job: Job) -> TargetError | None:
    """Why the server would refuse a load, for its plan: a right that is missing."""
    if job.target.server is not None and not job.options.direct:
        try:
            for seat in job.seats:
                if seat.server is not None:
                    _check_place(
                        seat.server, seat.target, job.options, dry=False,
                        may_lack_database=job.shards is not None,
                    )  # fmt: skip
        except TargetError as error:
            return error
    return None


def _check_choices(options: Options) -> None:
    """Options that contradict each other.

    Raises:
        UsageError: which two.
    """
    for one, other in (
        ("pull", "push"), ("atomic", "replace"), ("direct", "atomic"), ("direct", "replace"),
    ):  # fmt: skip
        if getattr(options, one) and getattr(options, other):
            raise UsageError(f"--{one} and --{other} exclude each other")
    if options.method not in METHODS:
        raise UsageError(f"--method {options.method} is not one of {', '.join(METHODS)}")
    if options.decoder not in ("auto", "always", "never"):
        raise UsageError(f"--decoder {options.decoder} is not one of auto, always, never")
    for name in ("presort", "build"):
        if (wish := getattr(options, name)) not in ("auto", "on", "off"):
            raise UsageError(f"--{name} {wish} is not one of auto, on, off")
    if options.compress not in WISHES:
        raise UsageError(f"--compress {options.compress} is not one of {', '.join(WISHES)}")
    if options.wait and not all(_WAIT.fullmatch(one) for one in options.wait.split(",")):
        raise UsageError(
            f"--wait {options.wait} is not something to wait for",
            hint="Write --wait merges=3000: until fewer than 3000 parts are active; of a cluster "
            "--wait replicas: until all of them have the rows.",
        )


def _check_target(target: Target, options: Options) -> None:
    """Options that say nothing for this kind of target.

    Raises:
        UsageError: which one.
    """
    if target.server is None:
        for name in ("pull", "push", "streams"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} is about a server, and {target.text} is none",
                    hint="Give a server with --to clickhouse://host:8123/database.",
                )
    if target.server is None or not target.server.cluster:
        for name in ("shard_key", "replicated", "skip_unavailable_shards", "method"):
            if getattr(options, name) not in (None, False, "local"):
                raise UsageError(
                    f"--{name.replace('_', '-')} is about a cluster, and {target.text} is none",
                    hint="Name one with --to 'clickhouse://host:8123/database?cluster=NAME'.",
                )
        if "replicas" in (options.wait or "").split(","):
            raise UsageError(f"--wait replicas is about a cluster, and {target.text} is none")
    else:
        for name in ("atomic", "replace"):
            if getattr(options, name):
                raise UsageError(
                    f"--{name} is about one table, and each shard of a cluster has its own",
                    hint="Without it each file becomes visible as a whole, on its shard.",
                )
    if not target.table:
        for name in ("atomic", "direct", "wait"):
            if getattr(options, name):
                raise UsageError(f"--{name} is about tables, and {target.text} holds none")
