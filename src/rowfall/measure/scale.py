"""Project a load to clusters of several sizes: list the source, find the rates, compute."""

from __future__ import annotations

import math
import os
import re
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from rowfall.core import units, uri
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.projection import START_SECONDS, LoadWork, NodeCapacity, Rates, ScaleReport
from rowfall.engines.machine import resident, usable_cores
from rowfall.measure import formula, rates
from rowfall.measure.rates import source_bytes
from rowfall.measure.simulated import SCHEME, simulate
from rowfall.run.session import connect
from rowfall.sources import open_source
from rowfall.targets import open_target

# 10 Gbit/s, what servers of 16 and more cores have as a rule.
NETWORK = 1.25e9
# Larger than any cluster; each node is a list of files of its own.
MOST_NODES = 10_000
# Folders of a bucket that are told apart: beyond, requests limit nothing.
MOST_PREFIXES = 10_000


@dataclass(frozen=True, slots=True)
class _Found:
    """A listing, real or simulated, with the facts that a projection needs."""

    listing: Listing
    encoding: Encoding | None
    rates: Rates
    row_bytes: float
    rows: float | None
    prefixes: int
    remote: bool
    bucket: bool
    listing_seconds: float
    notes: tuple[str, ...]


def project_source(
    sources: Sequence[str], to: str | None, options: Options, password: Secret | None = None
) -> ScaleReport:
    """Project a load of ``sources`` to each number of nodes; writes nothing to the target.

    Raises:
        UsageError: numbers that are none, a target without tables, or a source of unknown size.
        RowfallError: the source cannot be listed, or its sample not be loaded.
    """
    started = time.process_time()
    counts = parse_nodes(options.nodes)
    cores = options.cores or _cores(to, options, password)
    price, network = _price(options.price), _rate("network", options.network)
    simulated = any(uri.scheme_of(text) == SCHEME for text in sources)
    found = _simulated(sources, options) if simulated else _real(sources, to, options)
    sizes, unknown = _sizes(found)
    node = NodeCapacity(
        cores, found.rates.core, network or (NETWORK if found.remote else math.inf), price
    )
    work = _work(found, sizes, options)
    made = tuple(formula.project(work, node, count) for count in counts)
    return ScaleReport(
        source=" ".join(uri.mask(text) for text in sources),
        target=uri.mask(to) if to else "",
        encoding=found.encoding,
        files=len(sizes),
        bytes=math.fsum(sizes),
        largest=max(sizes),
        rates=found.rates,
        work=work,
        node=node,
        projections=made,
        notes=(*found.notes, *unknown),
        planning_cpu_seconds=time.process_time() - started,
        peak_memory=resident(os.getpid())[1],
    )


def parse_nodes(text: str) -> tuple[int, ...]:
    """Parse ``1,2,4``.

    Raises:
        UsageError: it is empty, no number, 0, or more than :data:`MOST_NODES`.
    """
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not re.fullmatch(r"[0-9]{1,9}", part) or not 1 <= int(part) <= MOST_NODES:
            raise UsageError(
                f"--nodes {text}: {part!r} is not a number of nodes from 1 to {MOST_NODES:,}",
                hint="Write it as --nodes 1,2,4,10.",
            )
    return tuple(int(part) for part in parts)


def _price(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise UsageError(
            f"--price {text} is not a price",
            hint="Give the price of a node for an hour, as --price 1.53.",
        )
    return price


def _rate(name: str, text: str | None) -> float | None:
    """Parse ``--network`` and ``--store`` (bytes a second) and ``--attempt-bytes`` (bytes)."""
    if text is None:
        return None
    rate = units.parse_size(text)
    if rate < 1:
        raise UsageError(f"--{name} must be above zero", hint=f"Write it as --{name} 1.25GB.")
    return float(rate)


def _cores(to: str | None, options: Options, password: Secret | None) -> int:
    """Return the cores of the server in ``to``, or of this machine."""
    target = open_target(to, "any", options, password)
    if not target.table:
        raise UsageError(
            f"rowfall scale projects loads into tables, and {target.text} has none",
            hint="Leave out --to, or name a server.",
        )
    if target.server is None:
        return usable_cores()
    server = connect(target.server, options)
    try:
        return server.facts.cores
    finally:
        server.close()


def _simulated(sources: Sequence[str], options: Options) -> _Found:
    if len(sources) > 1:
        raise UsageError(
            "simulate:// cannot be combined with other sources",
            hint="Ask for more files with files=N instead.",
        )
    made = simulate(sources[0], options)
    known = rates.rates_given(options.rate) if options.rate else None
    return _Found(
        made.listing, made.encoding,
        known or rates.planned_rates(made.encoding, "a simulated source cannot be measured"),
        0.0, made.rows, made.prefixes, True, True, 0.0,
        ("The time to list the bucket is not included, as the files are simulated.",),
    )  # fmt: skip


def _real(sources: Sequence[str], to: str | None, options: Options) -> _Found:
    source = open_source(sources, options)
    if not source.replayable:
        raise UsageError(
            "the size of stdin is not known before it is read",
            hint="Write it to a file, or describe it with simulate://.",
        )
    started = time.monotonic()
    listing = source.listing()
    seconds = time.monotonic() - started
    encoding = source.encoding(listing)
    _check_sizes(listing)
    notes = () if source.remote or source.made else (
        "The files are on this machine. The projection assumes that each node has its share of "
        "them on a disk of its own.",
    )  # fmt: skip
    return _Found(
        listing, encoding, rates.find_rates(source, sources, listing, encoding, to, options),
        source.made.row_bytes if source.made else 0.0, listing.total_rows, _prefixes(listing),
        source.remote, uri.scheme_of(sources[0]) == "s3", seconds, notes,
    )  # fmt: skip


def _check_sizes(listing: Listing) -> None:
    """Raise UsageError if not even one size is known."""
    if all(listing.size(i) is None and listing.rows(i) is None for i in range(len(listing))):
        raise UsageError(
            f"the size of {listing.uri(0)} is not known, and a projection needs it",
            hint="Describe the files with simulate://csv.gz?files=1000&size=100MB.",
        )


def _prefixes(listing: Listing) -> int:
    found: set[str] = set()
    for index in range(len(listing)):
        found.add(listing.uri(index).rpartition("/")[0])
        if len(found) >= MOST_PREFIXES:
            break
    return len(found)


def _sizes(found: _Found) -> tuple[array[float], tuple[str, ...]]:
    """Return the source bytes of all files in order, and a note if some are not known."""
    each = [source_bytes(found.listing, i, found.row_bytes) for i in range(len(found.listing))]
    known = [size for size in each if size is not None]
    mean = math.fsum(known) / len(known)
    sizes = array("d", (mean if size is None else size for size in each))
    if len(known) == len(each):
        return sizes, ()
    missing = f"{len(each) - len(known):,} of {len(each):,}"
    return sizes, (f"The sizes of {missing} files are not known; each counts as the average.",)


def _work(found: _Found, sizes: array[float], options: Options) -> LoadWork:
    store, why = _rate("store", options.store), "as given"
    if store is None and found.bucket:
        store = formula.requests_rate(sizes, found.prefixes)
        many = "one prefix" if found.prefixes == 1 else f"each of {found.prefixes:,} prefixes"
        why = f"S3 promises {formula.PREFIX_REQUESTS:,} requests a second for {many}"
    rows = found.rows
    if rows is None and found.rates.rows_per_byte:
        rows = found.rates.rows_per_byte * math.fsum(sizes)
    return LoadWork(
        sizes, formula.is_whole(found.encoding), START_SECONDS + found.listing_seconds,
        store or math.inf, why, rows, _rate("attempt-bytes", options.attempt_bytes),
    )  # fmt: skip
