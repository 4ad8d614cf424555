"""One request with everything that is opened for it: source, target, engine, ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from rowfall.contracts.destination import OpenRequest
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import NoSpaceError, UsageError
from rowfall.core.events import Listener, noted
from rowfall.core.listing import Listing
from rowfall.core.machine import total_memory
from rowfall.core.masked import Secret
from rowfall.core.model import Plan
from rowfall.core.options import (
    ADD,
    ALL,
    COMPRESSIONS,
    DEFAULT,
    ERROR,
    FILTER,
    FOLLOW_ONLY,
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
from rowfall.core.units import parse_duration, parse_share, parse_size
from rowfall.destinations import open_destination
from rowfall.engines.base import Engine
from rowfall.sources import check_options, open_source
from rowfall.sources.base import ByCursor, Folders, HasFolderTables, ListedSource, Queried, Streamed
from rowfall.systems.clickhouse.embedded import PLAN, Embedded
from rowfall.systems.clickhouse.prestart import prestart
from rowfall.targets import default_table, open_target

if TYPE_CHECKING:
    from rowfall.contracts.destination import Session
    from rowfall.sources.base import Source
    from rowfall.targets.base import Target

    OpenSource = Callable[[Options], Source]
    """Opens a source of rows that this process has in memory."""

_WAIT = regex(r"merges=[1-9]\d*|replicas")


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a command: sources, target and options.

    Attributes:
        sources: as typed, or what opens a source of rows in memory.
        to, table: as typed; None for the default.
        began: when the user began to wait, as of ``time.monotonic``; 0 for now.
        scratch: stands for the target that ``to`` names.
        shared: what this load shares with others that run at the same time.
    """

    sources: Sequence[str] | str | OpenSource
    to: str | None
    table: str | None
    options: Options
    password: Secret | None = None
    began: float = 0.0
    scratch: Target | None = None
    shared: SharedParts | None = None


class SharedParts(Protocol):
    """What one of several loads of a process shares with the others."""

    def open_source(self, options: Options) -> Source:
        """Return the source, over connections that others read from as well."""

    def engine(self, source: Source, folder: Path | None) -> Embedded | None:
        """Return a part of an engine; None where this load needs one of its own."""


@contextmanager
def open_session(request: Request, emit: Listener, *, dry: bool) -> Iterator[Session]:
    """Open source, target, listing, engines and ledger; close them in the other order.

    Args:
        dry: touch no target: a data folder that does not exist is not made (the engine then works
            in memory), and the ledger is only read.
    """
    sources, to, table = request.sources, request.to, request.table
    options, scratch, shared = request.options, request.scratch, request.shared
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
    if shared is None:
        prestart(texts, to)  # it imports while the source is listed
        source = given or open_source(texts, options)
    else:
        source = shared.open_source(options)
    if options.query is not None and not isinstance(source, Queried):
        raise UsageError(
            f"--query is for databases, and {source.text} is none",
            hint="Columns and rows of files are chosen with --select and --where.",
        )
    if options.cursor is not None and not isinstance(source, ByCursor):
        raise UsageError(
            f"--cursor is for tables and queries of databases, and {source.text} is none",
            hint="Files are known by their names and versions: the same command again loads the "
            "new ones.",
        )
    if options.cursor_overlap is not None and options.cursor is None:
        raise UsageError("--cursor-overlap is for --cursor", hint="Name a column with --cursor.")
    named = default_table(texts) if table is None else table
    derived = table is None
    # Of many tables that are loaded together the reader is shared, and each is chosen.
    kept = source if shared is None and isinstance(source, HasFolderTables) else None
    if kept is not None:
        if read := kept.choose(table):
            named, table, derived = read, None, False  # that of the target has the same name
        texts = (kept.address,)  # whoever goes on with the load knows which table it was
    target = scratch or open_target(to, named, options, request.password)
    destination = open_destination(target)
    # What is remembered of a load then names the target as its table.
    fixed = not target.caps.takes_table_name
    derived = derived and scratch is None
    if given is not None and derived and target.table == named and not fixed:
        raise UsageError(
            "rows in memory have no name that could be that of a table",
            hint='Give one: rowfall.load(frame, table="trips").',
        )
    if fixed and scratch is None and table not in (None, target.table):
        raise UsageError(
            f"--table {table} names a table, and {target.text} is {target.caps.noun}",
            hint="Leave out --table, or name a folder or a server with --to.",
        )
    destination.check(target, options)
    if options.cursor is not None and not (destination.continues and destination.follows):
        raise UsageError(
            f"--cursor needs a table that keeps what is loaded, and {target.text} is none",
            hint="Name a folder, a server or a database with --to.",
        )
    memory = parse_size(options.memory) if options.memory else None
    with ExitStack() as stack:
        if isinstance(source, HasFolderTables):
            from rowfall.run import folder_source  # 50 ms of the ledger that others save

            folder_source.check_other(source.folder, target)
            if kept is not None:
                theirs = None
                if memory is not None:
                    theirs, memory = folder_source.split_memory(memory)
                kept.read_with(stack.enter_context(
                    folder_source.open_reader(kept.folder, theirs, options.threads)
                ))  # fmt: skip
        if isinstance(source, Streamed):
            stack.callback(source.close)
        folder = target.folder
        if folder is not None and dry and not folder.is_dir():
            folder = None

        def open_reader(*, served: bool = False, late: bool = False) -> Embedded:
            opened = None if shared is None else shared.engine(source, folder)
            if opened is None:
                opened = _engine_here(
                    source,
                    folder,
                    options,
                    memory,
                    idle="late" if late else served,
                    reads=PLAN if dry else "",
                )
            stack.callback(opened.close)
            return opened

        def check_names(engine: Engine) -> None:
            if options.set:
                _check_setting_names(engine, options)

        opened = destination.open(OpenRequest(
            target, options, emit, stack, dry, check_names,
            # The descriptor of stdin, which the engine inherits, is made when it is listed.
            open_reader if source.replayable else None, scratch is not None,
        ))  # fmt: skip
        reader, served = opened.reader, bool(opened.writers)
        if options.set and reader is None and not served and source.replayable:
            reader = open_reader()
            check_names(reader)
        # What is followed may be empty now, or hold millions of objects: each batch is listed.
        watched = options.follow and isinstance(source, ListedSource)
        listing = Listing() if watched else source.listing()
        listing.projection = projection_of(options)
        encoding = None if watched else source.encoding(listing)
        for note in () if watched else source.notes:
            emit(noted(note))
        if reader is None:
            reader = open_reader(served=served)
        # 50 ms, in which the engine of this machine opens the folder.
        from rowfall.cluster.writer import Writer
        from rowfall.contracts.destination import Session
        from rowfall.ledger import Ledger

        ledger = None
        if not dry or target.ledger_path.exists():
            ledger = Ledger(target.ledger_path)
            stack.callback(ledger.close)
        yield Session(
            texts, to, options, source, target, destination, listing, encoding, reader,
            opened.writers or (Writer(0, "", reader, target),), ledger, emit, opened.shards,
            request.began or time.monotonic(), opened.database, derived and not fixed,
            scratch is not None,
        )  # fmt: skip


def _engine_here(
    source: Source,
    folder: Path | None,
    options: Options,
    memory: int | None,
    *,
    idle: bool | Literal["late"] = False,
    reads: str = "",
) -> Embedded:
    """Return the engine of this machine; it opens meanwhile, unless others do the work.

    Args:
        memory: bytes for it, of those that ``--memory`` allows.
        idle: a server stores the rows; "late": a database does, of what rowfall-decode reads.
    """
    if memory is not None and idle is not True:
        _check_memory(options)
    return Embedded(
        folder, memory=memory, threads=options.threads, fds=source.fds, idle=idle,
        durable=not options.no_sync,
        work=source.work if isinstance(source, Folders) else "", reads=reads,
    )  # fmt: skip


def _check_memory(options: Options) -> None:
    """Check that this machine has what ``--memory`` says.

    Raises:
        UsageError: it has less.
    """
    asked, there = parse_size(options.memory or ""), total_memory()
    if there and asked > there:
        raise UsageError(
            f"--memory {options.memory} is more than the {memory_text(there)} of this machine",
            hint="Leave it out to use half of what is free.",
        )


def check_tuned(plan: Plan, session: Session) -> None:
    """Check that a load is of the kinds that its ``--tuned`` was measured with.

    Raises:
        UsageError: it is of others.
    """
    name = session.options.tuned
    if name is None:
        return
    from rowfall.plan.tuning import source_kind, target_kind
    from rowfall.targets import tuned

    become = session.destination.rows_become
    tuned.check_kinds(name, source_kind(plan), target_kind(plan, become))


def no_space(plan: Plan, options: Options) -> NoSpaceError | None:
    """Return an error where the forecast exceeds the free space of the target's disks, else None.

    None as well with ``--no-space-check``.
    """
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
        ("upsert", "replace"), ("upsert", "atomic"), ("upsert", "direct"), ("cursor", "atomic"),
        ("direct", "widen"), ("limit", "sample"), ("limit", "follow"), ("sample", "follow"),
        ("limit", "cursor"), ("sample", "cursor"), ("limit", "fleet"),
        ("sample", "fleet"),
    ):  # fmt: skip
        if getattr(options, one) and getattr(options, other):
            raise UsageError(f"--{one} and --{other} exclude each other")
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"--limit {options.limit} is no number of rows", hint="Give 1 or more.")
    if options.limit and options.files not in (None, 1):
        raise UsageError("--limit writes one file", hint="Leave out --files, or take --sample 1%.")
    if options.workers is not None and options.on is None:
        raise UsageError(
            "--workers says how many --on starts on a cluster, and it is not given",
            hint="For more cores of this machine it is --threads N, for more connections to a "
            "server --streams N.",
        )
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
    for name in FOLLOW_ONLY if not options.follow else ():
        if getattr(options, name) != getattr(Options(), name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is for loads that go on", hint="Give --follow as well.")
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
    if options.sample is not None:
        parse_share(options.sample)
    # Imports that loads without such options save.
    if options.rename or options.add_column or options.select or options.where:
        from rowfall.schema.table_options import check_syntax

        check_syntax(options)
    if options.type:
        from rowfall.schema.table_options import named_types

        list(named_types(options))
    if options.set:
        from rowfall.plan.settings import chosen_settings

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
    from rowfall.plan.settings import check_names, chosen_settings

    check_names(engine.facts, chosen_settings(options.set))
