"""Find what one core does in a second: as given, from past loads, from a sample, or the planner's.

Bytes are counted per CPU second and not per second: other processes of the machine, a slow disk or
a slow network do not change what a core can do.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import Session
from rowfall.core import formats, units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import LedgerError, RowfallError, UsageError
from rowfall.core.events import silent
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options, restored
from rowfall.core.results import Rates, Report
from rowfall.destinations import open_destination
from rowfall.ledger import Ledger
from rowfall.plan.attempts import core_rate
from rowfall.run import history
from rowfall.run.load import run_load
from rowfall.sources.base import Source
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.target import embedded
from rowfall.targets.base import Target
from rowfall.targets.null import Null

# Past loads that count: the newest of the same kind; old ones were of other versions and machines.
MOST_LOADS = 5
# How far back they are looked for.
MOST_REPORTS = 100
# A load of less tells how long starting takes.
LEAST_CPU = 0.5
# Seconds of work at the planner's rate that are read (dropped, then stored). With the start of two
# engines it took 3 to 5 s; half the planner's rate still fits into 10 s.
READ_SECONDS = 0.5
STORE_SECONDS = 1.5
# A source that is read so slowly is not read a second time.
SLOW_SECONDS = 4.0
# One file may be that much more than wanted; of larger ones nothing is read.
MOST_TIMES = 4.0
# More files than this say nothing more, but each costs a request.
SAMPLE_FILES = 200


@dataclass(frozen=True, slots=True)
class SampleReports:
    """Reports of a load into ``null:`` and of one into a table, and how many files they read."""

    read: Report
    stored: Report
    files: int


def find_rates(
    source: Source, texts: Sequence[str], listing: Listing, encoding: Encoding | None,
    to: str | None, options: Options,
) -> Rates:  # fmt: skip
    """Return the rates from the best evidence there is.

    Raises:
        UsageError: ``--rate`` is not a size.
        RowfallError: the sample cannot be loaded.
    """
    row_bytes = source.made.row_bytes if source.made is not None else 0.0
    found = _from_loads(texts, encoding, row_bytes, to)
    if options.rate:
        return rates_given(options.rate, found)
    if found is not None:
        return found
    sample = _load_sample(source, listing, encoding, options)
    if isinstance(sample, SampleReports):
        return _sampled(sample, row_bytes)
    return planned_rates(encoding, f"{sample}, and no earlier load had this format")


def rates_given(text: str, known: Rates | None = None) -> Rates:
    """Parse ``--rate``; the rows in a byte are still those of past loads."""
    core = units.parse_size(text)
    if core < 1:
        raise UsageError("--rate must be above zero", hint="Write it as --rate 25MB.")
    return Rates(core, None, known.rows_per_byte if known else None, "given", "as given")


def planned_rates(encoding: Encoding | None, why: str) -> Rates:
    """Return the planner's figures, which were measured on trips and taxi data."""
    rate = core_rate(encoding)
    return Rates(
        rate, None, None, "planner", f"the planner's figure for this format, because {why}"
    )


def _sampled(sample: SampleReports, row_bytes: float) -> Rates:
    stored, read = sample.stored, sample.read
    files = units.counted(sample.files, "file")
    size = _bytes(stored, row_bytes)
    return Rates(
        size / _cpu(stored),
        _bytes(read, row_bytes) / _cpu(read),
        stored.rows / size,
        "sample",
        f"measured here: {files} ({units.size(size)}) loaded into a temporary table in "
        f"{units.duration(stored.seconds)}",
    )


def _from_loads(
    texts: Sequence[str], encoding: Encoding | None, row_bytes: float, to: str | None
) -> Rates | None:
    """Return the median of the newest loads of the same source, or else of the same format."""
    paths = [
        os.path.abspath(text) if uri.scheme_of(text) == uri.FILE else uri.mask(text)
        for text in texts
    ]
    same: list[Report] = []
    alike: list[Report] = []
    try:
        reports = history.reports(to)
    except LedgerError:  # a load would stop here and say so; without it a sample is loaded
        return None
    for report in reports[:MOST_REPORTS]:
        counts = report.table and report.rows and _bytes(report, row_bytes)
        if not counts or _cpu(report) < LEAST_CPU:
            continue
        try:
            request = history.request(report.load_id, to)
        except RowfallError:
            continue  # forgotten since the reports were read
        if list(request["sources"]) == paths:
            same.append(report)
        elif _kind(request) == _kind_of(texts, encoding):
            alike.append(report)
    used = (same or alike)[:MOST_LOADS]
    if not used:
        return None
    loads = "load" if len(used) == 1 else "loads"
    what = "this source" if same else "the same format"
    return Rates(
        median(_bytes(report, row_bytes) / _cpu(report) for report in used),
        None,
        median(report.rows / _bytes(report, row_bytes) for report in used),
        "ledger",
        f"measured in {len(used)} earlier {loads} of {what} ({', '.join(_ids(used))})",
    )


def _ids(reports: Sequence[Report]) -> Iterator[str]:
    return (report.load_id[:8] for report in reports)


def _kind(request: dict[str, Any]) -> tuple[str, str] | None:
    """Return format and compression of an earlier load by its arguments; None if unknown."""
    options = restored(request["options"])
    text = str(request["sources"][0])
    if uri.scheme_of(text) == "generate":
        return text.partition("?")[0], ""
    if uri.scheme_of(text).startswith("http"):
        text = text.partition("?")[0]  # elsewhere it is a wildcard
    try:
        encoding = formats.detect([text], options)
    except UsageError:
        return None
    return _plain(encoding)


def _kind_of(texts: Sequence[str], encoding: Encoding | None) -> tuple[str, str]:
    return (texts[0].partition("?")[0], "") if encoding is None else _plain(encoding)


def _plain(encoding: Encoding) -> tuple[str, str]:
    """Return format and compression; CSV with and without names are read at the same rate."""
    name = encoding.format.removesuffix("WithNames") if encoding.kind is Kind.TEXT else ""
    return name or encoding.format, encoding.compression


def _bytes(report: Report, row_bytes: float) -> float:
    return report.rows * row_bytes if row_bytes else float(report.bytes_source)


def _cpu(report: Report) -> float:
    """Return the CPU seconds of all machines: the nodes of a cluster read and parse, too."""
    return report.cpu_seconds + report.cpu_seconds_here


def _load_sample(
    source: Source, listing: Listing, encoding: Encoding | None, options: Options
) -> SampleReports | str:
    """Load some files, spread over the listing, in at most about 10 s, into a temporary folder.

    Returns:
        The sample, or the reason why there is none.

    Raises:
        RowfallError: as a load of those files.
    """
    second = core_rate(encoding) * Embedded(None, threads=options.threads, idle=True).cores
    row_bytes = source.made.row_bytes if source.made is not None else 0.0
    few = some_files(listing, READ_SECONDS * second, row_bytes)
    if few is None:
        return "no file is small enough to be loaded as a sample"
    with tempfile.TemporaryDirectory(prefix="rowfall-scale-") as name:
        folder = Path(name)
        null = Null(folder / "null.ledger")
        read = _load(source, few, encoding, options, null, None)
        if read.seconds > SLOW_SECONDS:
            return f"reading a sample took too long ({read.seconds:.0f} s)"
        more = some_files(listing, STORE_SECONDS * second, row_bytes) or few
        table = embedded(folder / "data", "default", "sample")
        stored = _load(source, more, encoding, options, table, folder / "data")
    for report in (read, stored):
        if report.outcome != "done" or not report.cpu_seconds:
            return "a sample could not be loaded" + (
                f": {report.failures[0].error}" if report.failures else ""
            )
    return SampleReports(read, stored, len(more))


def _load(
    source: Source, listing: Listing, encoding: Encoding | None, options: Options,
    target: Target, folder: Path | None,
) -> Report:  # fmt: skip
    engine = Embedded(folder, threads=options.threads)
    ledger = Ledger(target.ledger_path)
    try:
        session = Session(
            (source.text,), target.text, options, source, target, open_destination(target),
            listing, encoding, engine, (Writer(0, "", engine, target),), ledger, silent,
        )  # fmt: skip
        return run_load(session)
    finally:
        ledger.close()
        engine.close()


def some_files(
    listing: Listing, wanted: float, row_bytes: float, times: float = MOST_TIMES, each: int = 1
) -> Listing | None:
    """Return files of about ``wanted`` bytes, spread over the listing; None if all are larger.

    Args:
        times: one file may have that many times what is wanted.
        each: that many files are loaded side by side, so that their number should be a multiple.
    """
    sizes = [source_bytes(listing, i, row_bytes) or 0.0 for i in range(len(listing))]
    filled = [i for i, size in enumerate(sizes) if size]
    if not filled:
        return None
    fitting = wanted * len(filled) / sum(sizes)
    count = max(1, min(SAMPLE_FILES, len(filled), round(fitting)))
    if each < count < len(filled):
        count -= count % each
    # A number of files is rounded, but one file alone is no more than it may be.
    most = wanted * min(times, max(1.0, count / max(fitting, 1e-9)))
    taken, total = [], 0.0
    for index in (filled[len(filled) * n // count] for n in range(count)):
        if total + sizes[index] <= most:
            taken.append(index)
            total += sizes[index]
    if not taken:
        small = min(filled, key=sizes.__getitem__)
        if sizes[small] > times * wanted:
            return None
        taken = [small]
    return listing.only(taken)


def source_bytes(listing: Listing, index: int, row_bytes: float) -> float | None:
    """Return the bytes of a split as stored, of generated rows in memory; None if not known."""
    rows = listing.rows(index)
    return listing.size(index) if rows is None else rows * row_bytes
