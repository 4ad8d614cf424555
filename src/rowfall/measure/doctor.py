"""Find the slowest link of a load: measure each by itself, and predict the load from samples.

What a load is going to do is decided by the planner, and the samples are loaded by the deliveries
that it has chosen (:mod:`rowfall.measure.trials`):

* a part of the source into the target: what the load does;
* the same into nothing: reading, unpacking and parsing, by the CPU time that they take;
* the same rows, ready as blocks, into the target: what the target takes;
* one row into the target: what is asked and answered before and behind the rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.session import Session
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.events import Listener, Note, silent
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import BUILD, PUSH, SEND, Encoding, Kind, Plan, Statement
from rowfall.core.options import Options
from rowfall.core.results import Change, DoctorReport, Link, LinkKind, Report
from rowfall.core.sqltext import SqlText, quote
from rowfall.destinations.network_links import LATENCY, SENDING
from rowfall.ledger import scratches
from rowfall.measure.rates import some_files, source_bytes
from rowfall.measure.source_links import READING, SourceRate, listing_link, read_source
from rowfall.measure.trials import Trial, Trials
from rowfall.plan import statements
from rowfall.plan.attempts import core_rate
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.run.session import Request, open_session
from rowfall.schema.projection import Scan
from rowfall.targets.export import Export
from rowfall.targets.null import Null

UNPACKING, PARSING, MAKING = "unpacking", "parsing", "making rows"
READY, PROTOCOL = "ready rows", "one row"
"""Names of links."""
# Seconds of work at the planner's rate in the first sample, which only says how fast it goes, and
# seconds that the second one is to take: with less, its start counts for more than its rows, and
# with more all of it takes longer than 20 s.
_FIRST_SECONDS, _SAMPLE_SECONDS = 0.5, 3.0
# The second sample may have at most so many times the bytes of the first.
_MOST_GROWTH = 16.0
# Files of more than this many times what is wanted are not loaded as a whole: their first rows are.
_MOST_TIMES = 1.5
# Seconds of work at the planner's rate, and bytes in memory, of the rows that are kept ready.
_READY_SECONDS, _READY_BYTES = 1.5, 192e6
# A change that gains less than this is not worth a word: trials differ as much.
_LEAST_GAIN = 1.05
_MOST_CHANGES = 2
# The same of a change that was tried once, for a second or two.
_LEAST_MEASURED = 1.15
# Unpacking and parsing are told apart where parsing alone takes less than this share of both.
_APART = 0.95
# No change is tried when so many seconds have passed.
_TRY_SECONDS = 16.0
# Rows that are loaded before a sample, and seconds from which on they say how slow the target is:
# samples are smaller then. Of others they only say how a load starts.
_FEW, _SLOW_FEW = 10_000, 0.1
# Splits that are read to measure the source.
_MOST_FILES = 64
# The first sample is enough where the second would not be much larger.
_WORTH_AGAIN = 1.5
# A round trip that is worth a word, in seconds: on one machine and in one room it is less.
_FAR = 0.002
# Share of the time of unpacking gzip that zstd or lz4 save.
_UNPACKED = 0.7
# Threads for each core from which on others are in the way; a load alone has one or two.
_CROWD = 2.5
# Share of the cores that is busy from which on more of them help.
_BUSY = 0.6
# A network that carries less than this share of the rows that were taken through it was measured
# too slow: by a busy server, or by bytes that are packed when they are rows.
_LESS = 0.8
# A network that carries less than so many times what the target takes is named in its place.
_AS_SLOW = 1.3
# Options that say where rows come from and what becomes of them: not of rows that are ready.
_OF_SOURCE = (
    "format", "compression", "delimiter", "header", "columns", "quote", "escape", "comment",
    "skip_lines", "blanks", "null_lists", "short_rows", "blank_lines", "encoding", "null",
    "decimal", "thousands", "dates", "snapshot", "since", "query", "start_at", "until", "schema",
    "schema_file", "type", "select", "where", "rename", "add_column", "max_errors",
    "max_error_ratio", "pull", "max_record",
)  # fmt: skip


def examine(
    sources: Sequence[str], to: str | None, table: str | None, options: Options,
    password: Secret | None = None, emit: Listener = silent,
) -> DoctorReport:  # fmt: skip
    """Measure every link between a source and a target; nothing stays at either.

    Raises:
        UsageError: the source can be read only once.
        SourceError: there is nothing to measure.
        RowfallError: as a load of the same.
    """
    began = time.monotonic()
    options = replace(
        options, force=False, force_append=False, loaded=None, verify=False, rejects=None,
        wait=None, follow=False, replace=False,
    )  # fmt: skip
    request = Request(sources, to, table, options, password)
    with open_session(request, silent, dry=True) as session:
        if not session.source.replayable:
            raise UsageError(
                f"{session.source.text} can be read only once, and samples of it are loaded "
                "several times",
                hint="Write it to a file first.",
            )
        refused = session.destination.refusal(session)
        if refused is not None:
            raise refused
        emit(Note("info", "measuring the source"))
        facts = survey(session, set(), thorough=True)
        plan = make_plan(facts, options)
        _check_rows(plan)
        with Trials(scratches.DOCTOR, to, session.target, password) as trials:
            found = _Examination(tuple(sources), options, session, facts, plan, trials)
            found.measure_source()
            found.keep_rows()
            session.reader.close()  # the engine of a folder is needed by the trials
            emit(Note("info", "loading samples into the target"))
            found.load_samples()
            emit(Note("info", "measuring what reading and the target take by themselves"))
            found.take_apart()
            found.try_changes(began + _TRY_SECONDS)
            return found.report(began)


def _check_rows(plan: Plan) -> None:
    listing = plan.listing
    empty = not len(listing) or listing.total_rows == 0 or listing.total_size == 0
    if empty or plan.forecast.rows == 0:
        raise _nothing(plan)


def _nothing(plan: Plan) -> SourceError:
    return SourceError(
        f"nothing to measure: {plan.source} is empty", hint="Name files that hold some rows."
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Something to load in trials.

    Attributes:
        listing: what of ``sources`` is loaded; None for all of them.
        whole: it is all that the load has.
        here: it lies in files on this machine: reading the source is no part of it.
    """

    sources: tuple[str, ...]
    options: Options
    listing: Listing | None = None
    whole: bool = False
    here: bool = False


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows of the source in files here; each None where there is no need of it.

    Attributes:
        one, few: a row, and :data:`_FEW`. ``ready``: rows in blocks.
        text: the same as text that is not packed.
        copy: the same as the source has them, where its files are too large for a sample.
    """

    one: _Sample | None = None
    few: _Sample | None = None
    ready: _Sample | None = None
    text: _Sample | None = None
    copy: _Sample | None = None


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A sample that was loaded.

    Attributes:
        seconds: without the work of others on this machine. ``crowd``: threads for each core.
    """

    sample: _Sample
    report: Report
    seconds: float
    crowd: float

    @classmethod
    def of(cls, sample: _Sample, trial: Trial, cores: int) -> _Loaded:
        """Return the figures of a trial, whose session ends."""
        alone = trial.machine.without(trial.report.seconds, trial.cpu, cores)
        return cls(sample, trial.report, alone, trial.machine.factor)

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of a row, on all machines together."""
        used = self.report.cpu_seconds + self.report.cpu_seconds_here
        return used / max(1, self.report.rows)


class _Examination:
    """The chain of links of one load, and what is known of it."""

    def __init__(
        self, sources: tuple[str, ...], options: Options, session: Session, facts: LoadFacts,
        plan: Plan, trials: Trials,
    ) -> None:  # fmt: skip
        self._sources, self._options, self._session = sources, options, session
        self._facts, self._plan, self._trials = facts, plan, trials
        self._row_bytes, self._cores = plan.schema.row_bytes, max(1, session.reader.cores)
        listing = plan.listing
        sizes = (source_bytes(listing, i, self._row_bytes) for i in range(len(listing)))
        self._total = sum(size or 0.0 for size in sizes)
        self._links: list[Link] = []
        self._notes: list[str] = []
        self._rate: SourceRate | None = None
        self._kept = _Kept()
        self._start = self._start_alone = 0.0  # seconds of a load of one row
        self._row_size = self._row_bytes  # of a ready row
        self._ready_rows = 0
        self._takes = 0.0  # rows a second of the target, by a few; 0 where it is not known
        self._largest: _Loaded  # of the samples; the figures of the prediction are its
        self._engine: Mapping[str, float] = {}
        self._changes: list[Change] = []

    # --- the source -------------------------------------------------------------------------------

    def measure_source(self) -> None:
        """List it once more and read it for a second or two."""
        source, plan = self._session.source, self._plan
        self._links.append(listing_link(source))
        splits = list(plan.listing.splits("", range(min(len(plan.listing), _MOST_FILES))))
        links, self._rate = read_source(source, splits, self._cores)
        self._links += links
        self._links += self._session.destination.network(self._session)

    def keep_rows(self) -> None:
        """Keep the first rows of the source in files here."""
        try:
            self._kept = self._keep()
        except RowfallError as error:
            self._notes.append(f"no rows could be kept: {error.message.splitlines()[0]}")

    def _keep(self) -> _Kept:
        plan, encoding = self._plan, self._plan.encoding
        rows = self._rows_of(self._wanted(_READY_SECONDS))
        rows = max(1.0, min(rows, _READY_BYTES / self._row_bytes))
        group = next(g for g in plan.work.groups if g.indexes)
        found = {s.name: s for s in map(_whole_file, plan.listing.splits("", group.indexes[:64]))}
        some = list(found.values())[: self._cores]
        query = statements.select_handed_over(
            Scan(self._facts.source, some, self._facts.encoding, plan.schema)
        )
        ready = self._write("ready.native", query, int(rows))
        again = SqlText.of(f"SELECT * FROM file({quote(str(ready))}, 'Native')")
        one, few = self._write("one.native", again, 1), self._write("few.native", again, _FEW)
        self._ready_rows = self._counted(ready)
        self._row_size = ready.stat().st_size / max(1, self._ready_rows)
        text = copies = None
        if encoding is not None and _is_packed_text(encoding):
            path = self._write(f"plain.{_extension(encoding, 'none')}", again, int(rows))
            text = self._here(str(path))
        if self._files(self._wanted(_SAMPLE_SECONDS)) is None:
            count = max(1, min(len(plan.listing), self._cores))
            ending = "native" if encoding is None else _extension(encoding, encoding.compression)
            path = self._write(f"rows.{ending}", again, max(1, int(rows / count)))
            copies = self._here(*self._trials.copies(path, count))
        return _Kept(
            self._here(str(one)), self._here(str(few)), self._here(str(ready)), text, copies
        )

    def _write(self, name: str, query: SqlText, rows: int) -> Path:
        """Write some rows of a query into a file here, in the format that its name says."""
        plan, reader = self._plan, self._session.reader
        path = self._trials.folder / name
        into = Export(str(path), path, Options()).into(str(path), plan.schema)
        known = reader.facts.known({s.name: s.value for s in plan.work.settings})
        reader.run(Statement(
            SqlText.of("INSERT INTO ", into, "\n", query, f" LIMIT {rows}"), known, alters=None
        ))  # fmt: skip
        return path

    def _counted(self, path: Path) -> int:
        ((count,),) = self._session.reader.ask(f"SELECT count() FROM file({quote(str(path))})")
        return int(count)

    def _here(self, *paths: str) -> _Sample:
        """Return files here as a sample that goes into a table like the load's."""
        default, schema = Options(), self._plan.schema
        kept = replace(self._options, **{name: getattr(default, name) for name in _OF_SOURCE})
        if not schema.exists and self._session.destination.makes_parts:
            # As the plan has found them in the source: a sample may show another order.
            kept = replace(
                kept,
                order_by=schema.layout.order_by,
                partition_by=schema.layout.partition_by or None,
            )
        return _Sample(paths, kept, here=True)

    def _files(self, wanted: float) -> Listing | None:
        """Return files of about so many bytes; None where all are much larger."""
        if not self._total:
            return None
        return some_files(self._plan.listing, wanted, self._row_bytes, _MOST_TIMES, self._cores)

    def _rows_of(self, size: float) -> float:
        """Return the rows in some bytes of the source, about."""
        rows = self._plan.forecast.rows
        return size * rows / self._total if rows and self._total else size / self._row_bytes

    def _wanted(self, seconds: float) -> float:
        """Return the bytes of the source that take so long at the planner's rate, or its own."""
        rate = core_rate(self._plan.encoding) * self._cores
        if self._rate is not None and self._session.remote:
            rate = min(rate, self._rate.rate)
        if self._takes:
            rate = min(rate, self._takes * self._total / max(1.0, self._rows_of(self._total)))
        return seconds * rate

    # --- samples ----------------------------------------------------------------------------------

    def _sample(self, wanted: float) -> _Sample:
        """Return about so many bytes of the source, or rows of it that are kept here."""
        if self._total and self._total <= wanted * _MOST_TIMES:
            return _Sample(self._sources, self._options, whole=True)
        files = self._files(wanted)
        if files is not None:
            return _Sample(self._sources, self._options, files)
        if self._takes and self._kept.few is not None:
            return self._kept.few
        if self._kept.copy is not None:
            return self._kept.copy
        return _Sample(self._sources, self._options, whole=True)

    def _load(self, sample: _Sample, options: Options | None = None) -> _Loaded:
        with self._trials.load(
            sample.sources, options or sample.options, listing=sample.listing
        ) as trial:
            times = trial.session.destination.engine_times(trial.session, trial.report.load_id)
            self._engine = self._engine if times is None else times
            return _Loaded.of(sample, trial, self._cores)

    def load_samples(self) -> None:
        """Load one row, a little and then more, as the load does."""
        if self._kept.one is not None:
            one = self._load(self._kept.one)
            self._start, self._start_alone = one.report.seconds, one.seconds
        if self._kept.few is not None:
            few = self._load(self._kept.few).report
            taken = few.seconds - self._start
            if taken > _SLOW_FEW:
                self._takes = few.rows / taken
        self._largest = self._load(self._sample(self._wanted(_FIRST_SECONDS)))
        growth = min(_MOST_GROWTH, _SAMPLE_SECONDS / max(self._largest.report.seconds, 0.05))
        larger = self._sample(self._wanted(_FIRST_SECONDS) * growth)
        if (
            growth > _WORTH_AGAIN
            and not self._largest.sample.whole
            and larger != self._largest.sample
        ):
            self._largest = self._load(larger)
        if not self._largest.report.rows:
            raise _nothing(self._plan)

    def take_apart(self) -> None:
        """Measure reading and parsing without the target, and the target with ready rows."""
        read = self._into_nothing(self._largest.sample)
        self._link_reading(read)
        self._link_target()
        self._link_protocol()

    def _into_nothing(self, sample: _Sample) -> _Loaded:
        null = Null(self._trials.folder / "null.ledger")
        kept = Options()
        names = (*_OF_SOURCE, "memory", "threads", "set", "s3_endpoint", "s3_region", "s3_profile",
                 "s3_anonymous", "decoder", "patience")  # fmt: skip
        options = replace(kept, **{name: getattr(sample.options, name) for name in names})
        options = replace(options, pull=False)
        with self._trials.load(
            sample.sources, options, listing=sample.listing, target=null
        ) as trial:
            return _Loaded.of(sample, trial, self._cores)

    def _link_reading(self, read: _Loaded) -> None:
        """Add the links whose work is done on this machine, by CPU time, as others may use it."""
        encoding, all_of_it = self._plan.encoding, read.cpu
        cores = units.counted(self._cores, "core")
        if encoding is None:
            self._add_cpu(MAKING, all_of_it, cores)
            return
        name, parsing, why = PARSING, all_of_it, cores
        if self._kept.text is not None:
            parsing = self._into_nothing(self._kept.text).cpu
            if parsing < all_of_it * _APART:
                unpacking = all_of_it - parsing
                self._add_cpu(UNPACKING, unpacking, f"{cores}, {encoding.compression}")
            else:
                name, parsing = f"{UNPACKING} and {PARSING}", all_of_it
        self._add_cpu(name, parsing, why)

    def _add_cpu(self, name: str, cpu: float, why: str) -> None:
        if cpu > 0:
            rate = self._cores / cpu
            self._links.append(Link(LinkKind.SOURCE, name, rate, "rows/s", why, rate))

    def _link_target(self) -> None:
        """Add what the target takes of ready rows, its network, and merges."""
        ready = self._kept.ready
        if self._takes and self._rows_of(self._wanted(_SAMPLE_SECONDS)) < self._ready_rows:
            ready = self._kept.few
        if ready is None:
            return
        with self._trials.load(ready.sources, ready.options) as trial:
            report, taken = trial.report, _Loaded.of(ready, trial, self._cores)
            merging = trial.session.destination.merging(trial.session)
        rate = report.rows / max(taken.seconds - self._start_alone, 0.2 * taken.seconds)
        if merging is not None:
            self._links.append(merging)
        self._links = [self._of_rows_sent(x, rate) if x.name == SENDING else x for x in self._links]
        self._links.append(Link(
            LinkKind.TARGET, READY, rate, "rows/s", f"{units.count(report.rows)} rows", rate
        ))  # fmt: skip

    def _of_rows_sent(self, link: Link, taken: float) -> Link:
        """Return the network with the rows that it carries, where they are sent over it.

        Args:
            taken: rows a second that the target takes through it.
        """
        if self._plan.transport.delivery.value not in (PUSH, SEND):
            return link
        size = self._row_size
        carries = link.figure / size
        # Rows that have come have come, whatever the network did to the bytes that measured it.
        if not link.limits or carries < taken * _LESS:
            return replace(link, row_bytes=size)
        return replace(link, row_bytes=size, rows_per_second=carries)

    def _link_protocol(self) -> None:
        """Add what a load costs whatever its rows are."""
        if not self._start:
            return
        trip = next((link.figure for link in self._links if link.name == LATENCY), 0.0)
        why = "a load of it"
        if trip > _FAR:
            why = f"about {round(self._start / trip)} round trips"
        rows = self._plan.forecast.rows
        self._links.append(Link(
            LinkKind.PROTOCOL, PROTOCOL, self._start, "seconds", why,
            rows / (self._start * self._rounds(self._plan)) if rows else None,
        ))  # fmt: skip

    # --- what follows -----------------------------------------------------------------------------

    @staticmethod
    def _rounds(plan: Plan) -> int:
        """Return the number of attempts that a lane makes one after the other, at least 1."""
        attempts = sum(1 for group in plan.work.groups if group.indexes)
        return max(1, math.ceil(attempts / max(1, plan.work.lanes * len(plan.work.writers))))

    @property
    def _row_seconds(self) -> float:
        """Return the seconds of a row in a long load."""
        report = self._largest.report
        taken = max(report.seconds - self._start, 0.5 * report.seconds) / max(1, report.rows)
        if self._largest.sample.here and (source := self._source_rows()):
            taken = max(taken, 1 / source)
        return taken

    def _stored_bytes(self) -> float | None:
        """Return the bytes of a row as the source has them."""
        report, rows = self._largest.report, self._plan.forecast.rows
        if report.bytes_source and report.rows and not self._largest.sample.here:
            return report.bytes_source / report.rows
        return self._total / rows if rows and self._total else None

    def _source_rows(self) -> float | None:
        size = self._stored_bytes()
        return self._rate.rate / size if self._rate is not None and size else None

    def _predict(self) -> tuple[float, float | None, int | None]:
        """Return rows a second, and seconds and rows of the load where they are known."""
        report = self._largest.report
        if self._largest.sample.whole:
            return report.rows / max(report.seconds, 1e-3), report.seconds, report.rows
        size, rows = self._stored_bytes(), self._plan.forecast.rows
        if size and self._total and not self._largest.sample.here:
            rows = round(self._total / size)
        if not rows:
            return 1 / self._row_seconds, None, None
        seconds = rows * self._row_seconds + self._start * self._rounds(self._plan)
        return rows / seconds, seconds, rows

    def try_changes(self, until: float) -> None:
        """Find what would help: by the links, and by trying options on the sample."""
        self._give_source_rows()
        slowest = self._slowest()
        others = [x.rows_per_second for x in self._links if x is not slowest and x.rows_per_second]
        now = self._predict()[0]
        if slowest.name == READING and others:
            could = min(min(others), slowest.rows_per_second * 4 if slowest.rows_per_second else 0)
            self._changes.append(Change("a source that is nearer or faster", could / now))
            self._more_readers()
        elif slowest.part is LinkKind.NETWORK and others:
            self._changes.append(Change("a nearer or faster network", min(others) / now))
        elif slowest.part is LinkKind.PROTOCOL:
            self._changes.append(Change(
                "loading more rows at once", (1 / self._row_seconds) / now,
            ))  # fmt: skip
        largest = self._largest
        busy = min(self._cores, largest.cpu * largest.report.rows / largest.seconds)
        if busy > _BUSY * self._cores and slowest.name != READING:
            one_more = (self._cores + 1) / self._cores
            self._changes.append(Change("another core", 1 + (one_more - 1) * busy / self._cores))
            self._change_of_packing()
        self._try_options(until)

    def _more_readers(self) -> None:
        rate = self._rate
        if rate is not None and rate.more and rate.more > rate.rate * _LEAST_GAIN:
            count = self._cores * 2
            self._changes.append(Change(
                "more readers beside each other", rate.more / rate.rate, f"--threads {count}"
            ))  # fmt: skip

    def _change_of_packing(self) -> None:
        """Say what files that are not packed would gain."""
        unpacking = next((x for x in self._links if x.name == UNPACKING), None)
        if unpacking is None or not unpacking.rows_per_second:
            return
        cpu = self._cores / unpacking.rows_per_second
        share = min(0.9, cpu / self._largest.cpu)
        self._changes.append(Change(
            "files that are packed with zstd or lz4, or not at all", 1 / (1 - share * _UNPACKED)
        ))  # fmt: skip

    def _try_options(self, until: float) -> None:
        """Load the sample once more with each option that the plan has not chosen."""
        least = self._largest.report
        for option, options in self._other_options():
            if time.monotonic() + least.seconds > until:
                return
            try:
                loaded = self._load(self._largest.sample, options)
            except RowfallError:
                continue  # not for this load
            gain = self._largest.seconds / loaded.seconds
            if gain >= _LEAST_MEASURED:
                self._changes.append(Change("tried on the sample", gain, option, measured=True))

    def _other_options(self) -> list[tuple[str, Options]]:
        """Return options that may help, by how the rows travel."""
        transport, given = self._plan.transport, self._largest.sample.options
        found: list[tuple[str, Options]] = []
        builds = self._session.destination.builds_parts
        if builds and transport.delivery.value != BUILD and given.build == "auto":
            found.append(("--build on", replace(given, build="on")))
        if transport.streams and not given.streams and transport.delivery.value in (PUSH, SEND):
            more = max(transport.streams, 1) * 2
            found.append((f"--streams {more}", replace(given, streams=more)))
        if transport.compression.value and given.compress == "auto":
            other = "none" if transport.compression.value != "none" else "lz4"
            if transport.delivery.value == PUSH:
                found.append((f"--compress {other}", replace(given, compress=other)))
        if self._session.destination.flushes and not given.no_sync:
            found.append(("--no-sync", replace(given, no_sync=True)))
        return found

    def _give_source_rows(self) -> None:
        """Turn the bytes a second of the source into rows, by the sample."""
        size = self._stored_bytes()
        if size:
            self._links = [
                replace(x, row_bytes=size, rows_per_second=x.figure / size)
                if x.name == READING else x for x in self._links
            ]  # fmt: skip

    def _slowest(self) -> Link:
        """Return the link that would make the load slow if all others took no time."""
        found = [link for link in self._links if link.rows_per_second]
        if not found:
            rate = self._predict()[0]
            return Link(LinkKind.TARGET, READY, rate, "rows/s", "the whole load", rate)
        slow = min(found, key=lambda link: link.rows_per_second or math.inf)
        # What the target takes has come through the network: one that is as slow is the reason.
        network = next((link for link in found if link.name == SENDING), None)
        if slow.name == READY and network is not None:
            carries, taken = network.rows_per_second or math.inf, slow.rows_per_second or 0.0
            return network if carries < taken * _AS_SLOW else slow
        return slow

    def report(self, began: float) -> DoctorReport:
        """Return everything that was found."""
        rate, seconds, rows = self._predict()
        order = list(LinkKind)
        links = sorted(self._links, key=lambda link: order.index(link.part))
        changes = sorted(self._changes, key=lambda change: -change.gain)
        if self._engine == {} and self._session.engine.query_log:
            self._notes.append("the target's own counters may not be read by this user, so they "
                               "are left out")  # fmt: skip
        if self._largest.sample.here:
            self._notes.append("the files are large, so their first rows were loaded from copies "
                               "here; reading the source was measured by itself")  # fmt: skip
        if self._plan.to.views:
            self._notes.append("materialized views of the table were not filled")
        if self._largest.crowd > _CROWD:
            self._notes.append(
                f"{self._largest.crowd:.0f} threads wanted each core of this machine meanwhile: "
                "the prediction is for one that is as busy"
            )
        return DoctorReport(
            self._plan.source, self._plan.to.text, self._session.table_text, rows, tuple(links),
            self._slowest(), rate, seconds,
            tuple(c for c in changes if c.gain >= _LEAST_GAIN)[:_MOST_CHANGES],
            self._largest.report.rows, self._largest.report.seconds, tuple(self._engine.items()),
            tuple(self._notes), time.monotonic() - began,
        )  # fmt: skip


def _whole_file(split: Split) -> Split:
    """Return the file in place of a range of text, which no SQL names."""
    return replace(split, start=None, stop=None, part=None) if split.of_text else split


def _is_packed_text(encoding: Encoding) -> bool:
    return encoding.kind in (Kind.TEXT, Kind.JSON) and encoding.compression != "none"


def _extension(encoding: Encoding, compression: str) -> str:
    """Return the end of the name of a file that is like those of an encoding."""
    plain = {Kind.TEXT: "csv", Kind.JSON: "json"}.get(encoding.kind, "parquet")
    if encoding.format.startswith("TSV") or encoding.format.startswith("TabSeparated"):
        plain = "tsv"
    # bz2 is not written here; xz takes about as long to unpack.
    packed = {"gzip": ".gz", "zstd": ".zst", "lz4": ".lz4", "xz": ".xz", "bz2": ".xz"}
    return plain + ("" if encoding.kind is Kind.TYPED else packed.get(compression, ""))
