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
from contextlib import suppress
from dataclasses import replace

from rowfall.contracts.destination import Session
from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.events import Listener, Note, silent
from rowfall.core.masked import Secret
from rowfall.core.model import BUILD, PUSH, SEND, Plan
from rowfall.core.options import Options
from rowfall.core.results import DoctorReport, Improvement, Link, LinkKind, Report
from rowfall.destinations.network_links import LATENCY, SENDING
from rowfall.ledger import scratches
from rowfall.measure.samples import (
    FEW,
    OF_SOURCE,
    SAMPLE_SECONDS,
    LoadSample,
    Samples,
    measured_load,
    nothing,
)
from rowfall.measure.source_links import READING, listing_link, read_source
from rowfall.measure.trials import TooSlowError, Trial, Trials
from rowfall.targets.null import Null

UNPACKING, PARSING, MAKING = "unpacking", "parsing", "making rows"
READY, PROTOCOL = "ready rows", "one row"
"""Names of links."""
# Seconds of work at the planner's rate in the first sample, which only says how fast it goes. The
# second one takes SAMPLE_SECONDS: with less, its start counts for more than its rows, and with more
# all of it takes longer than 20 s.
_FIRST_SECONDS = 0.5
# The second sample may have at most so many times the bytes of the first.
_MOST_GROWTH = 16.0
# A change that gains less than this is not worth a word: trials differ as much.
_LEAST_GAIN = 1.05
_MOST_CHANGES = 2
# The same of a change that was tried once, for a second or two.
_LEAST_MEASURED = 1.15
# Unpacking and parsing are told apart where parsing alone takes less than this share of both.
_APART = 0.95
# No change is tried when so many seconds have passed.
_TRY_SECONDS = 16.0
# Seconds that a few rows take from which on they say how slow the target is: samples are smaller
# then. Of others they only say how a load starts.
_SLOW_FEW = 0.1
# A sample is ended after so many seconds. They are made to take 3 at most, of what is known before
# of source and target; a disk that keeps the first rows in memory is found out only then.
_MOST_SECONDS = 8.0
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
    with (
        measured_load(sources, to, table, options, password, emit) as (session, facts, plan),
        Trials(scratches.DOCTOR, to, session.target, password) as trials,
    ):
        samples = Samples(tuple(sources), session, facts, plan, trials)
        found = _Examination(session, plan, samples)
        found.measure_source()
        found.keep_rows()
        session.reader.close()  # the engine of a folder is needed by the trials
        emit(Note("info", "loading samples into the target"))
        found.load_samples()
        emit(Note("info", "measuring what reading and the target take by themselves"))
        found.take_apart()
        found.try_changes(began + _TRY_SECONDS)
        return found.report(began)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A sample that was loaded.

    Attributes:
        seconds: without the work of others on this machine. ``crowd``: threads for each core.
    """

    sample: LoadSample
    report: Report
    seconds: float
    crowd: float

    @classmethod
    def of(cls, sample: LoadSample, trial: Trial, cores: int) -> _Loaded:
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

    def __init__(self, session: Session, plan: Plan, samples: Samples) -> None:
        self._session, self._plan, self._samples = session, plan, samples
        self._trials, self._cores = samples.trials, samples.cores
        self._links: list[Link] = []
        self._notes: list[str] = []
        self._start = self._start_alone = 0.0  # seconds of a load of one row
        self._few: _Loaded | None = None  # the first ready rows
        self._largest: _Loaded  # of the samples; the figures of the prediction are its
        self._engine: Mapping[str, float] = {}
        self._changes: list[Improvement] = []

    # --- the source -------------------------------------------------------------------------------

    def measure_source(self) -> None:
        """List it once more and read it for a second or two."""
        source, plan = self._session.source, self._plan
        self._links.append(listing_link(source))
        splits = list(plan.listing.splits("", range(min(len(plan.listing), _MOST_FILES))))
        links, self._samples.rate = read_source(source, splits, self._cores)
        self._links += links
        self._links += self._session.destination.network(self._session)

    def keep_rows(self) -> None:
        """Keep the first rows of the source in files here."""
        self._notes += self._samples.keep()

    # --- samples ----------------------------------------------------------------------------------

    def _load(
        self, sample: LoadSample, options: Options | None = None, most: float | None = None
    ) -> _Loaded:
        """Load a sample.

        Args:
            most: seconds after which it is ended.

        Raises:
            TooSlowError: it was.
            RowfallError: as a load of the same.
        """
        if self._few is not None and self._few.sample == sample and options is None:
            return self._few
        with self._trials.load(
            sample.sources, options or sample.options, listing=sample.listing, most=most
        ) as trial:
            times = trial.session.destination.engine_times(trial.session, trial.report.load_id)
            self._engine = self._engine if times is None else times
            return _Loaded.of(sample, trial, self._cores)

    def load_samples(self) -> None:
        """Load one row, a little and then more, as the load does."""
        if self._samples.kept.one is not None:
            one = self._load(self._samples.kept.one)
            self._start, self._start_alone = one.report.seconds, one.seconds
        self._few = few = self._load_few()
        samples = self._samples
        if few is not None and few.report.seconds - self._start > _FIRST_SECONDS:
            self._largest = few  # a sample of half a second would have less of them
        else:
            try:
                self._largest = self._load_bounded(samples.sample(samples.wanted(_FIRST_SECONDS)))
            except TooSlowError:
                if few is None:
                    raise
                self._largest = few
                return
        taken = self._largest.report.seconds
        if taken > SAMPLE_SECONDS:
            # A disk or a network that has kept the first rows for later.
            rate = self._largest.report.rows / taken
            samples.takes = min(rate, samples.takes or rate)
        growth = min(_MOST_GROWTH, SAMPLE_SECONDS / max(taken, 0.05))
        wanted = samples.wanted(_FIRST_SECONDS) * growth
        if self._largest.sample.here and self._session.remote:
            # Its rows lay here: how long the source takes for more, it does not tell.
            wanted = min(wanted, samples.wanted(SAMPLE_SECONDS))
        larger = samples.sample(wanted)
        if (
            growth > _WORTH_AGAIN
            and not self._largest.sample.whole
            and larger != self._largest.sample
        ):
            with suppress(TooSlowError):
                self._largest = self._load_bounded(larger)
        if not self._largest.report.rows:
            raise nothing(self._plan)

    def _load_few(self) -> _Loaded | None:
        """Load some ready rows, fewer where they take too long; tell how slow the target is."""
        for rows in (FEW, 0):
            sample = self._samples.ready(rows)
            if sample is None:
                return None
            try:
                # The fewest are needed in any case.
                few = self._load_bounded(sample) if rows else self._load(sample)
            except TooSlowError:
                continue
            taken = few.report.seconds - self._start
            if taken > _SLOW_FEW:
                self._samples.takes = few.report.rows / taken
            return few
        return None

    def _load_bounded(self, sample: LoadSample) -> _Loaded:
        """Load a sample; note where it was ended, and raise TooSlowError."""
        try:
            return self._load(sample, most=_MOST_SECONDS)
        except TooSlowError as error:
            self._notes.append(f"{error.message}: fewer rows were taken instead")
            raise

    def take_apart(self) -> None:
        """Measure reading and parsing without the target, and the target with ready rows."""
        sample = self._largest.sample
        if self._session.remote and self._samples.kept.copy is not None:
            sample = (
                self._samples.kept.copy
            )  # only its CPU time counts, and a slow store is waited for
        # Where they take too long, it is not for parsing.
        with suppress(TooSlowError):
            self._link_reading(self._into_nothing(sample))
        self._link_target()
        self._link_protocol()

    def _into_nothing(self, sample: LoadSample) -> _Loaded:
        null = Null(self._trials.folder / "null.ledger")
        kept = Options()
        names = (*OF_SOURCE, "memory", "threads", "set", "s3_endpoint", "s3_region", "s3_profile",
                 "s3_anonymous", "decoder", "patience")  # fmt: skip
        options = replace(kept, **{name: getattr(sample.options, name) for name in names})
        options = replace(options, pull=False)
        with self._trials.load(
            sample.sources, options, listing=sample.listing, target=null, most=_MOST_SECONDS
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
        if self._samples.kept.text is not None:
            parsing = self._into_nothing(self._samples.kept.text).cpu
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
        samples, merging = self._samples, None
        rows = samples.takes * SAMPLE_SECONDS or math.inf
        if self._few is not None:
            rows = max(rows, self._few.report.rows)
        ready = samples.ready(rows)
        if ready is None:
            return
        taken = self._few
        if taken is None or taken.sample != ready:
            # What the target takes is told by the few where these take too long.
            with (
                suppress(TooSlowError),
                self._trials.load(ready.sources, ready.options, most=_MOST_SECONDS) as trial,
            ):
                taken = _Loaded.of(ready, trial, self._cores)
                merging = trial.session.destination.merging(trial.session)
        if taken is None:
            return
        report = taken.report
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
        size = self._samples.row_size
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
        return self._samples.total / rows if rows and self._samples.total else None

    def _source_rows(self) -> float | None:
        size = self._stored_bytes()
        return self._samples.rate.rate / size if self._samples.rate is not None and size else None

    def _predict(self) -> tuple[float, float | None, int | None]:
        """Return rows a second, and seconds and rows of the load where they are known."""
        report = self._largest.report
        if self._largest.sample.whole:
            return report.rows / max(report.seconds, 1e-3), report.seconds, report.rows
        size, rows = self._stored_bytes(), self._plan.forecast.rows
        if size and self._samples.total and not self._largest.sample.here:
            rows = round(self._samples.total / size)
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
            self._changes.append(Improvement("a source that is nearer or faster", could / now))
            self._more_readers()
        elif slowest.part is LinkKind.NETWORK and others:
            self._changes.append(Improvement("a nearer or faster network", min(others) / now))
        elif slowest.part is LinkKind.PROTOCOL:
            self._changes.append(Improvement(
                "loading more rows at once", (1 / self._row_seconds) / now,
            ))  # fmt: skip
        largest = self._largest
        busy = min(self._cores, largest.cpu * largest.report.rows / largest.seconds)
        if busy > _BUSY * self._cores and slowest.name != READING:
            one_more = (self._cores + 1) / self._cores
            self._changes.append(
                Improvement("another core", 1 + (one_more - 1) * busy / self._cores)
            )
            self._change_of_packing()
        self._try_options(until)

    def _more_readers(self) -> None:
        rate = self._samples.rate
        if rate is not None and rate.more and rate.more > rate.rate * _LEAST_GAIN:
            count = self._cores * 2
            self._changes.append(Improvement(
                "more readers beside each other", rate.more / rate.rate, f"--threads {count}"
            ))  # fmt: skip

    def _change_of_packing(self) -> None:
        """Say what files that are not packed would gain."""
        unpacking = next((x for x in self._links if x.name == UNPACKING), None)
        if unpacking is None or not unpacking.rows_per_second:
            return
        cpu = self._cores / unpacking.rows_per_second
        share = min(0.9, cpu / self._largest.cpu)
        self._changes.append(Improvement(
            "files that are packed with zstd or lz4, or not at all", 1 / (1 - share * _UNPACKED)
        ))  # fmt: skip

    def _try_options(self, until: float) -> None:
        """Load the sample once more with each option that the plan has not chosen."""
        least = self._largest.report
        for option, options in self._other_options():
            if time.monotonic() + least.seconds > until:
                return
            try:
                loaded = self._load(self._largest.sample, options, _MOST_SECONDS)
            except RowfallError:
                continue  # not for this load
            gain = self._largest.seconds / loaded.seconds
            if gain >= _LEAST_MEASURED:
                self._changes.append(
                    Improvement("tried on the sample", gain, option, measured=True)
                )

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
            tuple(self._notes), time.monotonic() - began, self._plan.to.deliveries,
        )  # fmt: skip
