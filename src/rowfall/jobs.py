"""One request with everything that is opened for it: source, target, engine, ledger."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rowfall import staging
from rowfall.engines.base import Engine
from rowfall.engines.embedded import Embedded
from rowfall.engines.prestart import prestart
from rowfall.errors import TargetError, UsageError
from rowfall.events import Listener
from rowfall.ledger import Ledger, into_key
from rowfall.model import Encoding, Listing
from rowfall.options import Options
from rowfall.publish import ask
from rowfall.reach import Reach, reach
from rowfall.secrets import Secret
from rowfall.sources import open_source
from rowfall.sources.base import Source
from rowfall.targets import default_table, open_target
from rowfall.targets.base import ServerAt, Target
from rowfall.units import parse_size

if TYPE_CHECKING:
    from rowfall.engines.server import Server

# Databases that an error names; some servers have thousands.
MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class Seat:
    """One engine that stores rows of a job: the only one, or the chosen replica of a shard.

    Attributes:
        number: of its line in the queue.
        place: its node, ``host:port``; "" where there is only one engine.
        target: with the table that gets its rows.
    """

    number: int
    place: str
    engine: Engine
    target: Target


@dataclass(slots=True)
class Job:
    """One request with everything that had to be opened for it.

    Attributes:
        engine: stores the rows; of a cluster, the node that keeps the journal. ``reader`` reads
            the source from here; the same when embedded.
        seats: every engine that stores rows; ``engine`` is that of the first.
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

    def __post_init__(self) -> None:
        self.seats = self.seats or (Seat(0, "", self.engine, self.target),)

    @property
    def into(self) -> str:
        if self.target.table:
            return into_key(self.target.database, self.target.table)
        return into_key(self.target.text)

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
        return self.sources[0].startswith(("s3://", "http://", "https://"))


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
    prestart(texts, to)  # it imports while the source is listed
    source = open_source(texts, options)
    target = open_target(to, table or default_table(texts[0]), options, password)
    _check_target(target, options)
    with ExitStack() as stack:
        server = None if target.server is None else connect(target.server, options)
        if server is not None:
            stack.callback(server.close)
            _check_place(server, target, options, dry)
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
        job = Job(
            texts, to, options, source, target, listing, encoding, server or reader, reader,
            ledger, emit, target.table,
        )  # fmt: skip
        if server is not None:
            job.how = reach(server, source, listing, encoding, options)
        yield job


def connect(at: ServerAt, options: Options, database: str = "") -> Server:
    """The engine of a server target; ``database`` is where unqualified names live.

    Raises:
        TargetError: it cannot be reached, or refuses the user.
    """
    from rowfall.engines.server import Server  # http.client takes 20 ms that others save

    return Server(
        at.host, at.port, tls=at.tls, user=at.user, password=at.password,
        options=at.options, threads=options.threads, database=database,
        memory=parse_size(options.memory) if options.memory else None,
    )  # fmt: skip


def _check_place(server: Server, target: Target, options: Options, dry: bool) -> None:
    """What a load needs at a server, looked at before anything is read or made.

    Raises:
        TargetError: no such database, a table that takes no rows, or (unless ``dry``) a right
            that is missing.
    """

    def asks(text: str) -> list[list[Any]]:
        return ask(server, text)

    if server.readonly == 1 or not dry:  # 1: not even the settings of our questions may change
        server.check_writes()
    database = target.database
    names = [str(name) for (name,) in asks("SELECT name FROM system.databases ORDER BY name")]
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
            _check_place(cast("Server", job.engine), job.target, job.options, dry=False)
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
    if options.decoder not in ("auto", "always", "never"):
        raise UsageError(f"--decoder {options.decoder} is not one of auto, always, never")
    if options.presort not in ("auto", "never"):
        raise UsageError(f"--presort {options.presort} is not one of auto, never")
    if options.wait and not re.fullmatch(r"merges=[1-9]\d*", options.wait):
        raise UsageError(
            f"--wait {options.wait} is not something to wait for",
            hint="Write --wait merges=3000: until fewer than 3000 parts are active.",
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
    if not target.table:
        for name in ("atomic", "direct", "wait"):
            if getattr(options, name):
                raise UsageError(f"--{name} is about tables, and {target.text} holds none")
