"""What one core does in a second: as given, from past loads, from a sample, or from the table.

Bytes are counted per CPU second and not per second: other processes of the machine, a slow disk or
a slow network do not change what a core can do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rowfall.core import formats, units, uri
from rowfall.core.errors import LedgerError, RowfallError, UsageError
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options, restored
from rowfall.core.results import Report
from rowfall.measure.sampling import Sample, measure
from rowfall.plan.attempts import core_rate
from rowfall.run import history
from rowfall.sources.base import Source

# Past loads that count: the newest of the same kind; old ones were of other versions and machines.
MOST_LOADS = 5
# How far back they are looked for.
MOST_REPORTS = 100
# A load of less tells how long starting takes.
LEAST_CPU = 0.5


@dataclass(frozen=True, slots=True)
class Rates:
    """What one core does.

    Attributes:
        core: source bytes (generated rows: bytes in memory) turned into rows of a table, a second.
        reading: the same when rows are dropped; None when not known.
        rows_per_byte: rows in a source byte; None when not known.
        origin: ``given``, ``ledger``, ``sample`` or ``planner``.
        why: where they are from, one clause.
    """

    core: float
    reading: float | None
    rows_per_byte: float | None
    origin: str
    why: str


def find_rates(
    source: Source, texts: Sequence[str], listing: Listing, encoding: Encoding | None,
    to: str | None, options: Options,
) -> Rates:  # fmt: skip
    """The best that is known.

    Raises:
        UsageError: ``--rate`` is no size.
        RowfallError: the sample cannot be loaded.
    """
    row_bytes = source.made.row_bytes if source.made is not None else 0.0
    found = _past(texts, encoding, row_bytes, to)
    if options.rate:
        return given(options.rate, found)
    if found is not None:
        return found
    sample = measure(source, listing, encoding, options)
    if isinstance(sample, Sample):
        return _sampled(sample, row_bytes)
    return planned(encoding, f"{sample}, and no past load is of the same format")


def given(text: str, known: Rates | None = None) -> Rates:
    """``--rate``; how many rows are in a byte is still that of past loads."""
    core = units.parse_size(text)
    if core < 1:
        raise UsageError("--rate has to be above zero", hint="Write it as --rate 25MB.")
    return Rates(core, None, known.rows_per_byte if known else None, "given", "as given")


def planned(encoding: Encoding | None, why: str) -> Rates:
    """The planner's own table, which was measured on trips and taxi data."""
    rate = core_rate(encoding)
    return Rates(rate, None, None, "planner", f"the planner's figure for this format: {why}")


def _sampled(sample: Sample, row_bytes: float) -> Rates:
    stored, read = sample.stored, sample.read
    files = units.counted(sample.files, "file")
    size = _bytes(stored, row_bytes)
    return Rates(
        size / _cpu(stored),
        _bytes(read, row_bytes) / _cpu(read),
        stored.rows / size,
        "sample",
        f"{files} ({units.size(size)}) were loaded here into a table of their own, in "
        f"{units.duration(stored.seconds)}",
    )


def _past(
    texts: Sequence[str], encoding: Encoding | None, row_bytes: float, to: str | None
) -> Rates | None:
    """The median of the newest loads of the same source, or else of the same format."""
    paths = [os.path.abspath(text) if uri.scheme_of(text) == uri.FILE else text for text in texts]
    same: list[Report] = []
    alike: list[Report] = []
    try:
        reports = history.reports(to)
    except LedgerError:  # it stops a load, which says so; here it only leaves the past unknown
        return None
    for report in reports[:MOST_REPORTS]:
        counts = report.table and report.rows and _bytes(report, row_bytes)
        if not counts or _cpu(report) < LEAST_CPU:
            continue
        try:
            request = history.request(report.load_id, to)
        except RowfallError:
            continue  # forgotten between the two looks
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
        f"{len(used)} past {loads} of {what} ({', '.join(_ids(used))})",
    )


def _ids(reports: Sequence[Report]) -> Iterator[str]:
    return (report.load_id[:8] for report in reports)


def _kind(request: dict[str, Any]) -> tuple[str, str]:
    """Format and compression of a past load, by what was typed; "" where that does not tell."""
    options = restored(request["options"])
    text = str(request["sources"][0])
    if uri.scheme_of(text) == "generate":
        return text.partition("?")[0], ""
    if uri.scheme_of(text).startswith("http"):
        text = text.partition("?")[0]  # elsewhere it is a wildcard
    try:
        encoding = formats.detect([text], options)
    except UsageError:
        return "", ""
    return _plain(encoding)


def _kind_of(texts: Sequence[str], encoding: Encoding | None) -> tuple[str, str]:
    return (texts[0].partition("?")[0], "") if encoding is None else _plain(encoding)


def _plain(encoding: Encoding) -> tuple[str, str]:
    """CSV with and without names are read alike, and which of them it is inference tells."""
    name = encoding.format.removesuffix("WithNames") if encoding.kind is Kind.TEXT else ""
    return name or encoding.format, encoding.compression


def _bytes(report: Report, row_bytes: float) -> float:
    return report.rows * row_bytes if row_bytes else float(report.bytes_source)


def _cpu(report: Report) -> float:
    """CPU seconds of all machines: a cluster's nodes read, parse and store themselves."""
    return report.cpu_seconds + report.cpu_seconds_here
