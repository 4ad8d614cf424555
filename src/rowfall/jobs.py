"""One request with everything that is opened for it: source, target, engine, ledger."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rowfall import bodies, complaint, decoding, infer, planner, staging, views
from rowfall.engines.base import Engine
from rowfall.engines.codes import DATA_CODES
from rowfall.engines.embedded import Embedded
from rowfall.engines.prestart import prestart
from rowfall.errors import DataError, RowfallError, TargetError, UsageError
from rowfall.events import Listener, Note
from rowfall.journal import Journal
from rowfall.ledger import Ledger, into_key
from rowfall.model import Encoding, Kind, Listing, Plan, Schema, Statement
from rowfall.options import Options
from rowfall.publish import ask, read_rows
from rowfall.reach import Reach, reach, same_machine
from rowfall.secrets import Secret
from rowfall.shadow import table_uuid
from rowfall.sources import open_source
from rowfall.sources.base import Source
from rowfall.sqltext import SqlText, quote
from rowfall.targets import default_table, open_target
from rowfall.targets.base import Publish, ServerAt, Target
from rowfall.units import parse_size

if TYPE_CHECKING:
    from rowfall.engines.server import Server

# Databases that an error names; some servers have thousands.
MOST_NAMES = 8


@dataclass(slots=True)
class Job:
    """One request with everything that had to be opened for it.

    Attributes:
        engine: stores the rows. ``reader`` reads the source from here; the same when embedded.
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


def plan_job(job: Job, known: Collection[str] | None = None) -> tuple[Plan, set[int]]:
    """The plan, and the indexes of splits that have landed before.

    Args:
        known: ids of landed splits; None to ask ledger and journal.
    """
    planner.check_clauses(job.options)
    _check_settings(job)
    schema = _schema(job)
    if known is None:
        known = landed_ids(job)
    landed: set[int] = set()
    if known and job.ledger is not None:
        splits = job.listing.splits(job.into)
        landed = {i for i, split in enumerate(splits) if split.id in known}
        if len(known) > len(landed) and not job.options.force:
            _warn_of_new_versions(job, job.ledger, landed)
    if landed and job.target.caps.publish is Publish.RENAME:
        landed -= _missing_files(job)
    fed: tuple[str, ...] = ()
    if job.target.table and schema.exists and not job.options.direct:
        database, table = job.target.database, job.target.table
        fed = views.discover(lambda text: ask(job.engine, text), database, table).names
    job.how = _nearer(job, schema)
    pulls = job.how is None or job.how.pull
    inputs = planner.Inputs(
        source=job.puller,
        target=job.target,
        listing=job.listing,
        encoding=job.encoding,
        schema=schema,
        facts=job.engine.facts,
        options=job.options,
        landed=frozenset(landed),
        remote=job.remote,
        placement="server" if job.target.server else "embedded",
        delivery="pull" if pulls else "push",
        why=job.how.reason if job.how else "",
        views=fed,
        undecoded=_undecoded(job, schema),
        exact=_reads_exactly(job),
    )
    made = planner.make_plan(inputs)
    job.cpu_before = job.cpu_here
    return made, landed


def _reads_exactly(job: Job) -> bool:
    """Whether the engine that stores takes floats of text exactly: not 24.10, for one."""
    if job.target.server is None or job.encoding is None or job.encoding.kind is Kind.TYPED:
        return True
    statement = Statement(
        SqlText.of(bodies.FLOAT_PROBE), {"precise_float_parsing": 1}, format="TSV"
    )
    try:
        return job.engine.run(statement).data == b"1\n"
    except RowfallError:  # a right is missing that a load needs, too
        return False


def _nearer(job: Job, schema: Schema) -> Reach | None:
    """How rows get to a server, now that the decoder's part is known.

    Where the CPU is this machine's either way, pushing decoded blocks takes less than half of what
    a server needs to parse by itself (50 M rows of csv.gz: 3.4 CPU-seconds, 8.2 when it pulls).
    """
    how, wish = job.how, job.options.decoder
    if how is None or not how.pull or job.options.pull or wish == "never":
        return how
    if decoding.refusal(job.listing, job.encoding, schema, job.engine.facts):
        return how
    if decoding.program() is None or job.target.server is None:
        return how
    if wish == "always":
        return Reach(False, f"{decoding.PROGRAM} reads here, as asked for", job.source)
    if not same_machine(cast("Server", job.engine), job.target.server.host):
        return how
    why = "the server is on this machine, where rowfall-decode parses for less than half the CPU"
    return Reach(False, why, job.source, how.seconds)


def _undecoded(job: Job, schema: Schema) -> str:
    """Why the engine parses, "" when rowfall-decode does.

    Raises:
        UsageError: ``--decoder always``, and it cannot.
    """
    wish = job.options.decoder
    why = "--decoder never" if wish == "never" else ""
    if not why and job.how is not None and job.how.pull:
        why = "the server reads the source itself"
    why = why or decoding.refusal(job.listing, job.encoding, schema, job.engine.facts)
    if not why and decoding.program() is None:
        why = f"{decoding.PROGRAM} is not installed"
    if why and wish == "always":
        raise UsageError(f"{decoding.PROGRAM} cannot be used: {why}",
                         hint="Leave out --decoder always.")  # fmt: skip
    return why


def landed_ids(job: Job) -> set[str]:
    """Ids of the splits that the target holds, as far as ledger and journal know."""
    if not job.target.caps.remembers:
        return set()
    known = job.ledger.landed(job.into) if job.ledger is not None else set()
    if job.target.server is None:
        return known
    uuid = table_uuid(job.engine, job.target.database, job.target.table)
    journal = Journal(job.engine, job.target.database, uuid)
    if not uuid:
        return set()
    if not journal.there():
        return known
    # The journal knows what other machines have landed and forgotten, too.
    return (known | journal.landed_ids()) - journal.forgotten_ids()


def _check_settings(job: Job) -> None:
    """A value of --set that the engine does not take is said before anything is created."""
    chosen = planner.chosen_settings(job.options.set)
    known = {name: value for name, value in chosen.items() if name in job.engine.facts.settings}
    if not known:
        return
    try:
        job.engine.run(Statement(SqlText.of("SELECT 1"), known))
    except RowfallError as error:
        cause = error.message.removeprefix(f"Code: {error.code}. DB::Exception: ")
        raise UsageError(
            f"the engine refuses --set {' '.join(job.options.set)}: {cause.split(' (')[0]}",
            hint="See its type: rowfall query 'SELECT name, type FROM system.settings'.",
        ) from None


def _missing_files(job: Job) -> set[int]:
    """Pieces of exported files that somebody has removed since: they are written again."""
    missing: set[int] = set()
    bounds = planner.file_bounds(len(job.listing), job.options.files or 1)
    for number, (start, stop) in enumerate(bounds):
        if not Path(job.target.staging_name("", number, job.encoding)).exists():
            missing.update(range(start, stop))
    return missing


def _warn_of_new_versions(job: Job, ledger: Ledger, landed: set[int]) -> None:
    """An object that was overwritten since it landed is another split: its rows come on top."""
    known = ledger.landed_uris(job.into)
    again = [s.name for i, s in enumerate(job.listing.splits(job.into))
             if i not in landed and s.name in known]  # fmt: skip
    if again:
        some = ", ".join(again[:3]) + (f" and {len(again) - 3:,} more" if len(again) > 3 else "")
        job.emit(
            Note(
                "warning",
                f"changed since an earlier version of it was loaded: {some}; "
                "the rows of the new version are added, the old ones stay",
            )
        )


def _schema(job: Job) -> Schema:
    """The existing table's columns, the generator's own, or what the data says."""

    # What a server pulls it can look at, too: the engine here is then not even started.
    pulls = job.how is not None and job.how.pull and job.source.made is None
    engine, source = (job.engine, job.puller) if pulls else (job.reader, job.source)

    def asks(text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        fixed = {"output_format_json_quote_64bit_integers": 0}
        known = engine.facts.settings
        values = {k: v for k, v in {**settings, **fixed}.items() if not known or k in known}
        statement = Statement(text, values, format="JSONCompactEachRow")
        return read_rows(engine.run(statement).data)

    listing, existing = job.listing, _existing(job)
    while True:
        try:
            job.encoding, schema = infer.schema_for(
                source, listing, job.encoding, job.options, asks, existing
            )
            return schema
        except RowfallError as error:
            listing = _without_broken(listing, error)


def _without_broken(listing: Listing, error: RowfallError) -> Listing:
    """The listing for another sample without the object that cannot be read: its split will fail
    with a reason of its own, and the others land.

    Raises:
        RowfallError: ``error``, in better words where it is about the only object.
    """
    if isinstance(error, DataError):
        said = error
    elif error.code in DATA_CODES:
        said = complaint.explain_engine_error(error.code, error.message)
        inner = re.search(r"Code: (\d+)\. DB::Exception: (.+)", error.message)
        if inner:
            said = complaint.explain_engine_error(int(inner[1]), inner[2], said.uri)
    else:
        raise error
    rest = Listing()
    for split in listing.splits(""):
        if not split.uri.endswith(said.uri.lstrip("/")):
            rest.add(split.uri, split.version, split.size)
    if not 0 < len(rest) < len(listing):
        raise said from None
    return rest


def _existing(job: Job) -> list[list[Any]] | None:
    """Rows of system.columns of the target table, None when it does not exist."""
    if not job.target.table:
        return None
    where = f"database = {quote(job.target.database)} AND table = {quote(job.home)}"
    rows = ask(
        job.engine,
        f"SELECT name, type, default_kind FROM system.columns WHERE {where} ORDER BY position",
    )
    return rows or None
