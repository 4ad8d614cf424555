"""Samples of a source that are loaded in trials: some of its files, or its first rows kept here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, SourceError, UsageError, headline
from rowfall.core.events import Listener, Note, silent
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind, Plan, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.measure.rates import some_files, source_bytes
from rowfall.measure.source_links import SourceRate
from rowfall.measure.trials import Trials
from rowfall.plan import statements
from rowfall.plan.attempts import core_rate
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.run.session import Request, open_session
from rowfall.schema.projection import Scan
from rowfall.targets.export import Export

# Files of more than this many times what is wanted are not loaded as a whole: their first rows are.
_MOST_TIMES = 1.5
# Seconds of work at the planner's rate, and bytes in memory, of the rows that are kept ready.
_READY_SECONDS, _READY_BYTES = 1.5, 192e6
# Seconds of the largest sample that is loaded without being asked for more.
SAMPLE_SECONDS = 3.0
# Rows that are loaded before a sample: they say how a load starts.
FEW = 10_000
# Ready rows are also kept in so many, for targets that would take minutes for all of them: a row
# in 0.1 s is as slow as one may be, and 100,000 are about a second of one that writes 10 MB/s.
_STEPS = (100, FEW, 100_000)
# Rows of a block as the engine reads text.
_BLOCK_ROWS = 65_409
# The smallest sample that anybody asks for, in seconds of work at the planner's rate.
_LEAST_SECONDS = 0.4
# Options that say where rows come from and what becomes of them: not of rows that are ready.
OF_SOURCE = (
    "format", "compression", "delimiter", "header", "columns", "quote", "escape", "comment",
    "skip_lines", "blanks", "null_lists", "short_rows", "blank_lines", "encoding", "null",
    "decimal", "thousands", "dates", "snapshot", "since", "query", "start_at", "until", "schema",
    "schema_file", "type", "select", "where", "rename", "add_column", "max_errors",
    "max_error_ratio", "pull", "max_record", "tuned",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoadSample:
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
class SampleFiles:
    """Rows of the source in files here; each None where there is no need of it.

    Attributes:
        one: a row. ``ready``: rows in blocks. ``steps``: fewer of them, by their number.
        text: the same as text that is not packed.
        copy: the same as the source has them, where its files are too large for a sample.
    """

    one: LoadSample | None = None
    ready: LoadSample | None = None
    steps: Mapping[int, LoadSample] = field(default_factory=dict)
    text: LoadSample | None = None
    copy: LoadSample | None = None


class Samples:
    """Makes samples of one load's source.

    Args:
        sources: as typed. ``plan``: of the load.

    Attributes:
        total: bytes of the source, 0 where they are not known. ``row_bytes``: of a row in memory.
        rate: bytes a second of the source; None where nobody has measured it.
        takes: rows a second that a slow target takes; 0 where it is not known to be slow.
        kept: after :meth:`keep`; ``row_size`` and ``ready_rows`` of the rows that are ready.
    """

    def __init__(
        self, sources: tuple[str, ...], session: Session, facts: LoadFacts, plan: Plan,
        trials: Trials,
    ) -> None:  # fmt: skip
        self._sources, self._session = sources, session
        self._options = session.options
        self._facts, self._plan, self.trials = facts, plan, trials
        self.row_bytes, self.cores = plan.schema.row_bytes, max(1, session.reader.cores)
        self.total = self._listed_bytes(plan.listing)
        self.rate: SourceRate | None = None
        self.takes = 0.0
        self.kept = SampleFiles()
        self.row_size, self.ready_rows = self.row_bytes, 0

    def keep(self) -> list[str]:
        """Keep the first rows of the source in files here; return notes: why they could not be."""
        try:
            self._keep()
        except RowfallError as error:
            return [f"no rows could be kept: {headline(error.message)}"]
        return []

    def _keep(self) -> None:
        plan, encoding = self._plan, self._plan.encoding
        rows = self.rows_of(self.wanted(_READY_SECONDS))
        rows = max(1.0, min(rows, _READY_BYTES / self.row_bytes))
        group = next(g for g in plan.work.groups if g.indexes)
        found = {s.name: s for s in map(_whole_file, plan.listing.splits("", group.indexes[:64]))}
        some = list(found.values())[: self.cores]
        query = statements.select_handed_over(
            Scan(self._facts.source, some, self._facts.encoding, plan.schema)
        )
        ready = self._write("ready.native", query, int(rows))
        again = SqlText.of(f"SELECT * FROM file({quote(str(ready))}, 'Native')")
        one = self._write("one.native", again, 1)
        self.ready_rows = self._counted(ready)
        steps = {
            count: self._here(str(self._write(f"{count}.native", again, count)))
            for count in _STEPS
            if count < self.ready_rows
        }
        self.row_size = ready.stat().st_size / max(1, self.ready_rows)
        text = copies = None
        if encoding is not None and _is_packed_text(encoding):
            path = self._write(f"plain.{_extension(encoding, 'none')}", again, int(rows))
            text = self._here(str(path))
        if self._files(self.wanted(_LEAST_SECONDS)) is None:
            count = max(1, min(len(plan.listing), self.cores))
            ending = "native" if encoding is None else _extension(encoding, encoding.compression)
            path = self._write(f"rows.{ending}", again, max(1, int(rows / count)))
            copies = self._here(*_linked(path, count))
        self.kept = SampleFiles(self._here(str(one)), self._here(str(ready)), steps, text, copies)

    def _write(self, name: str, query: SqlText, rows: int) -> Path:
        """Write some rows of a query into a file here, in the format that its name says."""
        plan, reader = self._plan, self._session.reader
        path = self.trials.folder / name
        into = Export(str(path), path, Options()).into(str(path), plan.schema)
        settings = {s.name: s.value for s in plan.work.settings}
        # A block has no more than is wanted: a slow store is read until one is whole.
        block = max(1_000, min(_BLOCK_ROWS, -(-rows // self.cores)))
        known = reader.facts.known(
            {**settings, "input_format_parallel_parsing": 0, "max_block_size": block}
        )
        reader.run(Statement(
            SqlText.of("INSERT INTO ", into, "\n", query, f" LIMIT {rows}"), known, alters=None
        ))  # fmt: skip
        return path

    def _counted(self, path: Path) -> int:
        ((count,),) = self._session.reader.ask(f"SELECT count() FROM file({quote(str(path))})")
        return int(count)

    def _here(self, *paths: str) -> LoadSample:
        """Return files here as a sample that goes into a table like the load's."""
        default, schema = Options(), self._plan.schema
        kept = replace(self._options, **{name: getattr(default, name) for name in OF_SOURCE})
        if not schema.exists and self._session.destination.makes_parts:
            # As the plan has found them in the source: a sample may show another order.
            kept = replace(
                kept,
                order_by=schema.layout.order_by,
                partition_by=schema.layout.partition_by or None,
            )
        if self._facts.reach is not None and paths[0].endswith(".native"):
            # No parts for servers are made of what an engine has read.
            kept = replace(kept, build="auto", spare_servers=False)
        return LoadSample(paths, kept, here=True)

    def _listed_bytes(self, listing: Listing) -> float:
        sizes = (source_bytes(listing, i, self.row_bytes) for i in range(len(listing)))
        return sum(size or 0.0 for size in sizes)

    def _files(self, wanted: float) -> Listing | None:
        """Return files of about so many bytes; None where all are much larger."""
        if not self.total:
            return None
        return some_files(self._plan.listing, wanted, self.row_bytes, _MOST_TIMES, self.cores)

    def rows_of(self, size: float) -> float:
        """Return the rows in some bytes of the source, about."""
        rows = self._plan.forecast.rows
        return size * rows / self.total if rows and self.total else size / self.row_bytes

    def wanted(self, seconds: float) -> float:
        """Return the bytes of the source that take so long at the planner's rate, or its own."""
        rate = core_rate(self._plan.encoding) * self.cores
        if self.rate is not None and self._session.remote:
            # A sample's few files are read one by each core; the rate is one of more readers.
            rate = min(rate, self.rate.rate * self.cores / max(self.cores, self.rate.readers))
        if self.takes:
            rate = min(rate, self.takes * self.total / max(1.0, self.rows_of(self.total)))
        return seconds * rate

    def sample(self, wanted: float) -> LoadSample:
        """Return about so many bytes of the source, or rows of it that are kept here."""
        if self.total and self.total <= wanted * _MOST_TIMES:
            return LoadSample(self._sources, self._options, whole=True)
        files = self._files(wanted)
        if files is not None:
            return LoadSample(self._sources, self._options, files)
        if self.takes and (ready := self.ready(self.rows_of(wanted))) is not None:
            return ready
        if self.kept.copy is not None:
            return self._copies(self.kept.copy, wanted)
        return LoadSample(self._sources, self._options, whole=True)

    def ready(self, rows: float) -> LoadSample | None:
        """Return at most so many ready rows, but as few as are kept at least; None without any."""
        if rows >= self.ready_rows or not self.kept.steps:
            return self.kept.ready
        return self.kept.steps[max((n for n in self.kept.steps if n <= rows), default=min(_STEPS))]

    def size_of(self, sample: LoadSample) -> float:
        """Return the bytes of a sample, in the unit of :attr:`total`; of copies those here."""
        if sample.listing is not None:
            return self._listed_bytes(sample.listing)
        return float(sum(Path(path).stat().st_size for path in sample.sources))

    def _copies(self, copy: LoadSample, wanted: float) -> LoadSample:
        """Return as many copies of the rows that are kept as make about so many bytes."""
        size = sum(Path(path).stat().st_size for path in copy.sources) / len(copy.sources)
        count = max(len(copy.sources), round(wanted / max(1.0, size)))
        return replace(copy, sources=tuple(_linked(Path(copy.sources[0]), count)))


@contextmanager
def measured_load(
    sources: Sequence[str],
    to: str | None,
    table: str | None,
    options: Options,
    password: Secret | None,
    emit: Listener,
) -> Iterator[tuple[Session, LoadFacts, Plan]]:
    """Survey and plan a load that is to be measured, and check that it can be.

    Raises:
        UsageError: the source can be read only once.
        SourceError: there is nothing to measure.
        RowfallError: as a load of the same.
    """
    options = replace(
        options, force=False, force_append=False, loaded=None, verify=False, rejects=None,
        wait=None, follow=False, replace=False,
        # What rows take on disk is not told, and asking a slow store for it takes a minute.
        no_space_check=True,
    )  # fmt: skip
    with open_session(Request(sources, to, table, options, password), silent, dry=True) as session:
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
        yield session, facts, plan


def _check_rows(plan: Plan) -> None:
    listing = plan.listing
    empty = not len(listing) or listing.total_rows == 0 or listing.total_size == 0
    if empty or plan.forecast.rows == 0:
        raise nothing(plan)


def nothing(plan: Plan) -> SourceError:
    return SourceError(
        f"nothing to measure: {plan.source} is empty", hint="Name files that hold some rows."
    )


def _linked(path: Path, count: int) -> list[str]:
    """Return the paths of as many files with the same rows, the first included; they take no room.

    Those that are there already are taken.
    """
    found = [path.with_name(f"{n}-{path.name}" if n else path.name) for n in range(count)]
    for other in found:
        if not other.exists():
            os.link(path, other)
    return [str(other) for other in found]


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
