"""Loads a few files of a source, to measure what one core does. Nothing of it stays."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rowfall.core.events import silent
from rowfall.core.listing import Listing
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.results import Report
from rowfall.engines.embedded import Embedded
from rowfall.ledger import Ledger
from rowfall.plan.attempts import core_rate
from rowfall.plan.session import Session, Writer
from rowfall.run.loader import load_session
from rowfall.sources.base import Source
from rowfall.targets.base import Target
from rowfall.targets.null import Null
from rowfall.targets.table import embedded

# Seconds of work at the planner's rate that are read (dropped, then stored). With the start of two
# engines it took 3 to 5 s; half the planner's rate still fits into 10 s.
READ_SECONDS = 0.5
STORE_SECONDS = 1.5
# A source that is read so slowly is not read a second time.
SLOW_SECONDS = 4.0
# One file may be that much more than wanted; of larger ones nothing is read.
MOST_TIMES = 4.0
# More files than this say nothing more, but each costs a request.
MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Sample:
    """Reports of a load into ``null:`` and of one into a table, and how many files they read."""

    read: Report
    stored: Report
    files: int


def measure(
    source: Source, listing: Listing, encoding: Encoding | None, options: Options
) -> Sample | str:
    """Load some files, spread over the listing, in at most about 10 s; or why that was not done.

    Raises:
        RowfallError: as a load of those files.
    """
    second = core_rate(encoding) * Embedded(None, threads=options.threads, idle=True).cores
    row_bytes = source.made.row_bytes if source.made is not None else 0.0
    few = _some(listing, READ_SECONDS * second, row_bytes)
    if few is None:
        return "no file is small enough for a sample"
    with tempfile.TemporaryDirectory(prefix="rowfall-scale-") as name:
        folder = Path(name)
        null = Null(folder / "null.ledger")
        read = _load(source, few, encoding, options, null, None)
        if read.seconds > SLOW_SECONDS:
            return f"a sample was read too slowly ({read.seconds:.0f} s)"
        more = _some(listing, STORE_SECONDS * second, row_bytes) or few
        table = embedded(folder / "data", "default", "sample")
        stored = _load(source, more, encoding, options, table, folder / "data")
    for report in (read, stored):
        if report.outcome != "done" or not report.cpu_seconds:
            return "a sample could not be loaded" + (
                f": {report.failures[0].error}" if report.failures else ""
            )
    return Sample(read, stored, len(more))


def _load(
    source: Source, listing: Listing, encoding: Encoding | None, options: Options,
    target: Target, folder: Path | None,
) -> Report:  # fmt: skip
    engine = Embedded(folder, threads=options.threads)
    ledger = Ledger(target.ledger_path)
    try:
        session = Session(
            (source.text,), target.text, options, source, target, listing, encoding,
            engine, (Writer(0, "", engine, target),), ledger, silent,
        )  # fmt: skip
        return load_session(session)
    finally:
        ledger.close()
        engine.close()


def _some(listing: Listing, wanted: float, row_bytes: float) -> Listing | None:
    """Files of about ``wanted`` bytes, spread over the listing; None: none is small enough."""
    sizes = [weight(listing, i, row_bytes) or 0.0 for i in range(len(listing))]
    filled = [i for i, size in enumerate(sizes) if size]
    if not filled:
        return None
    fitting = wanted * len(filled) / sum(sizes)
    count = max(1, min(MOST_FILES, len(filled), round(fitting)))
    chosen, total = [], 0.0
    for index in (filled[len(filled) * n // count] for n in range(count)):
        if total + sizes[index] <= wanted:
            chosen.append(index)
            total += sizes[index]
    if not chosen:
        small = min(filled, key=sizes.__getitem__)
        if sizes[small] > MOST_TIMES * wanted:
            return None
        chosen = [small]
    return _subset(listing, chosen)


def _subset(listing: Listing, indexes: list[int]) -> Listing:
    found = Listing()
    for split in listing.splits("", indexes):
        found.add(split.uri, split.version, split.size, split.start, split.stop)
    return found


def weight(listing: Listing, index: int, row_bytes: float) -> float | None:
    """Source bytes of a split; of generated ones the bytes in memory; None when not known."""
    rows = listing.rows(index)
    return listing.size(index) if rows is None else rows * row_bytes
