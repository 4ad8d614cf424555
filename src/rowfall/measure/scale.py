"""Project a load to clusters of several sizes: list the source, find the rates, compute."""

from __future__ import annotations

import math
import os
import re
import time
from array import array
from collections.abc import Mapping, Sequence
from heapq import heapreplace
from random import Random

from rowfall.core import formats, units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing
from rowfall.core.machine import resident, usable_cores
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.results import (
    ATTEMPT_COST,
    START_SECONDS,
    Limit,
    LoadWork,
    NodeCapacity,
    Rates,
    ScaleProjection,
    ScaleReport,
)
from rowfall.destinations.clickhouse.opening import connect
from rowfall.measure import rates
from rowfall.measure.rates import source_bytes
from rowfall.plan.attempts import MOST_SPLITS, attempt_bytes
from rowfall.plan.balance import Assignment, assign, cut, lower_bound
from rowfall.sources import open_source
from rowfall.targets import open_target

# 10 Gbit/s, what servers of 16 and more cores have as a rule.
NETWORK = 1.25e9
# Larger than any cluster; each node is a list of files of its own.
MOST_NODES = 10_000
# Folders of a bucket that are told apart: beyond, requests limit nothing.
MOST_PREFIXES = 10_000


@dataclass(frozen=True, slots=True)
class ScaleSource:
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
    price, network = _price("price", options.price), _rate("network", options.network)
    simulated = any(uri.scheme_of(text) == SCHEME for text in sources)
    found = simulate(sources, options) if simulated else _real(sources, to, options)
    sizes, unknown = _sizes(found)
    node = NodeCapacity(
        cores, found.rates.core, network or (NETWORK if found.remote else math.inf), price,
        options.replicas, _price("zone-price", options.zone_price),
    )  # fmt: skip
    work = _work(found, sizes, options)
    made = tuple(project(work, node, count) for count in counts)
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


_PRICES = {
    "price": "Give the price of a node for an hour, as --price 1.53.",
    "zone-price": "Give the price of a GB that crosses zones, as --zone-price 0.02.",
}


def _price(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise UsageError(f"--{name} {text} is not a price", hint=_PRICES[name])
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
    at = target.server
    if at is None:
        return usable_cores()
    server = connect(at, options)
    try:
        return server.facts.cores
    finally:
        server.close()


def _real(sources: Sequence[str], to: str | None, options: Options) -> ScaleSource:
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
    return ScaleSource(
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


def _sizes(found: ScaleSource) -> tuple[array[float], tuple[str, ...]]:
    """Return the source bytes of all files in order, and a note if some are not known."""
    each = [source_bytes(found.listing, i, found.row_bytes) for i in range(len(found.listing))]
    known = [size for size in each if size is not None]
    mean = math.fsum(known) / len(known)
    sizes = array("d", (mean if size is None else size for size in each))
    if len(known) == len(each):
        return sizes, ()
    missing = f"{len(each) - len(known):,} of {len(each):,}"
    return sizes, (f"The sizes of {missing} files are not known; each counts as the average.",)


def _work(found: ScaleSource, sizes: array[float], options: Options) -> LoadWork:
    store, why = _rate("store", options.store), "as given"
    if store is None and found.bucket:
        store = requests_rate(sizes, found.prefixes)
        many = "one prefix" if found.prefixes == 1 else f"each of {found.prefixes:,} prefixes"
        why = f"S3 promises {PREFIX_REQUESTS:,} requests a second for {many}"
    rows = found.rows
    if rows is None and found.rates.rows_per_byte:
        rows = found.rates.rows_per_byte * math.fsum(sizes)
    return LoadWork(
        sizes, is_whole(found.encoding), START_SECONDS + found.listing_seconds,
        store or math.inf, why, rows, _rate("attempt-bytes", options.attempt_bytes),
    )  # fmt: skip


# --- the formula ---------------------------------------------------------------------------------

# Requests a second that S3 promises for each prefix of a bucket (GET and HEAD).
PREFIX_REQUESTS = 5_500
# An object is looked at when it is planned and before it is published, and read in ranges of this.
LOOKS = 2
RANGE_BYTES = 4 << 20
# Work so much longer than with all cores busy to the end is the files' fault, not the rate's.
UNEVEN = 1.1


def is_whole(encoding: Encoding | None) -> bool:
    """Return true if a file keeps one core busy: only plain text and Parquet can be cut."""
    if encoding is None or encoding.format == "Parquet":
        return False
    return encoding.kind is Kind.TYPED or encoding.compression != "none"


def requests_rate(sizes: Sequence[float], prefixes: int) -> float:
    """Return the most bytes a second of S3, at :data:`PREFIX_REQUESTS` for each prefix."""
    requests = sum(LOOKS + math.ceil(size / RANGE_BYTES) for size in sizes)
    total = math.fsum(sizes)
    return total * PREFIX_REQUESTS * prefixes / requests if total else math.inf


@dataclass(frozen=True, slots=True)
class _Slowest:
    """The node that works longest: seconds of work, and of that with all files in one attempt."""

    seconds: float
    at_once: float
    attempts: int


def project(work: LoadWork, node: NodeCapacity, nodes: int) -> ScaleProjection:
    """Project the load to ``nodes`` equal nodes; a million files on 1,000 take 4 to 5 s."""
    total = math.fsum(work.sizes)
    rate = min(node.cores * node.core_rate, node.network, work.store / nodes)
    given = assign(work.sizes, array("d", [rate]) * nodes)
    slowest = _slowest(work, node, given, rate)
    costs = slowest.attempts * ATTEMPT_COST
    wall = work.start + slowest.seconds + costs
    limit, sentence = _limit(work, node, nodes, rate, slowest, wall)
    # Objects of one region are read for nothing, by the node that loads them: only parts cross.
    crossing = total * (node.replicas - 1)
    best = given.lower_bound
    if work.whole:
        cores = array("d", [node.core_rate]) * (node.cores * nodes)
        best = max(best, lower_bound(array("d", sorted(work.sizes, reverse=True)), cores))
    return ScaleProjection(
        nodes=nodes,
        seconds=wall,
        node_seconds=nodes * wall,
        cost=None if node.price is None else node.price * nodes * wall / 3600,
        bytes_per_second=total / wall,
        rows_per_second=None if work.rows is None else work.rows / wall,
        node_rate=rate,
        start_seconds=work.start,
        attempts=slowest.attempts,
        attempt_seconds=costs,
        idle_seconds=max(0.0, slowest.seconds - slowest.at_once),
        files_least=min(given.counts),
        files_most=max(given.counts),
        imbalance=given.imbalance,
        makespan=slowest.seconds,
        lower_bound=best,
        limit=limit,
        limited_by=sentence,
        zone_bytes=crossing,
        zone_cost=None if node.zone_price is None else node.zone_price * crossing / 1e9,
    )


def _slowest(work: LoadWork, node: NodeCapacity, given: Assignment, rate: float) -> _Slowest:
    mean = math.fsum(work.sizes) / max(1, len(work.sizes))
    most = work.attempt or attempt_bytes(node.core_rate, node.cores, mean)

    def seconds(sizes: Sequence[float]) -> float:
        even = math.fsum(sizes) / rate
        return max(even, _busiest(sizes, node.cores) / node.core_rate) if work.whole else even

    worst, longest, mine = 0.0, array("d"), [range(0)]
    for members in given.members():
        sizes = array("d", (work.sizes[index] for index in members))
        parts = cut(sizes, most, MOST_SPLITS)
        took = math.fsum(seconds(sizes[part.start : part.stop]) for part in parts)
        if took >= worst:
            worst, longest, mine = took, sizes, parts
    return _Slowest(worst, seconds(longest), len(mine))


def _busiest(sizes: Sequence[float], cores: int) -> float:
    """Return the bytes of the busiest core, with the largest files given first.

    balance.assign also tells which core gets which file: 2 s instead of 0.5 for a million files.
    """
    loads = [0.0] * cores
    for size in sorted(sizes, reverse=True):
        heapreplace(loads, loads[0] + size)
    return max(loads)


def _limit(
    work: LoadWork, node: NodeCapacity, nodes: int, rate: float, slowest: _Slowest, wall: float
) -> tuple[Limit, str]:
    """Find what limits the speed and say it; ``rate`` is the bytes a second of a node."""
    if wall - slowest.seconds > slowest.seconds:
        return (
            Limit.START,
            "starting and bookkeeping: there is too little to load",
        )
    uneven = slowest.at_once * nodes * rate / math.fsum(work.sizes)
    waiting = slowest.seconds / slowest.at_once
    if uneven > UNEVEN and uneven >= waiting:
        return _uneven(work, node, nodes, rate, slowest.at_once)
    if waiting > UNEVEN:
        files = len(work.sizes) / nodes / slowest.attempts
        return Limit.ATTEMPTS, (
            f"the end of each attempt: {node.cores} cores share {files:,.1f} files, and those that "
            "are done wait for the last one; a larger --attempt-bytes makes them wait less often"
        )
    if rate == node.cores * node.core_rate:
        return Limit.CORES, f"the cores: each node loads {units.byte_rate(rate)}"
    could = f"the cores of a node could load {units.byte_rate(node.cores * node.core_rate)}"
    if rate == node.network:
        return Limit.NETWORK, f"the network: {units.byte_rate(rate)} reach each node; {could}"
    return Limit.STORE, (
        f"the store: it gives {units.byte_rate(work.store)} to all nodes together "
        f"({work.why_store}); {could}"
    )


def _uneven(
    work: LoadWork, node: NodeCapacity, nodes: int, rate: float, seconds: float
) -> tuple[Limit, str]:
    """Say that one file is too large, or that there are too few files."""
    largest, alone = max(work.sizes), node.core_rate if work.whole else rate
    slots = nodes * node.cores if work.whole else nodes
    equal = largest < 2 * math.fsum(work.sizes) / len(work.sizes)
    if largest / alone > seconds / UNEVEN and not (equal and len(work.sizes) < slots):
        what = "keeps one core busy" if work.whole else "is read by one node"
        return Limit.LARGEST, (
            f"the largest file: it has {units.size(largest)} and {what} for "
            f"{units.duration(largest / alone)}"
        )
    what = "cores" if work.whole else "nodes"
    if len(work.sizes) < slots:
        return Limit.FILES, (
            f"too few files: {len(work.sizes):,} for {slots:,} {what}, so some {what} have nothing "
            "to do"
        )
    return Limit.FILES, (
        f"too few files: {len(work.sizes) / slots:.2f} for each of {slots:,} {what}, so that some "
        "load one more than others"
    )


# --- simulated listings --------------------------------------------------------------------------

SCHEME = "simulate"
DEFAULTS = {
    "files": "1000", "size": "100MB", "sigma": "0", "rows": "", "prefixes": "1",
}  # fmt: skip
# Names cost 100 bytes each; ten million of them are what a laptop holds.
MOST_FILES = 10_000_000
# exp(sigma^2): beyond 5 one file holds nearly everything, and floats end.
MOST_SIGMA = 5.0
_EXAMPLE = "Write it as simulate://csv.gz?files=1e6&size=25MB&sigma=1."


def simulate(sources: Sequence[str], options: Options) -> ScaleSource:
    """Return the listing of a ``simulate://`` URI; the same text always gives the same sizes.

    Raises:
        UsageError: a second source, or a parameter that does not exist or makes no sense.
    """
    if len(sources) > 1:
        raise UsageError(
            "simulate:// cannot be combined with other sources",
            hint="Ask for more files with files=N instead.",
        )
    parsed = uri.parse(sources[0])
    for name in parsed.query:
        if name not in DEFAULTS:
            known = ", ".join(DEFAULTS)
            raise UsageError(f"simulate:// has no parameter {name!r}", hint=f"Parameters: {known}.")
    ending = parsed.host or "csv.gz"
    encoding = formats.detect([f"x.{ending}"], options)
    values = DEFAULTS | dict(parsed.query)
    files, prefixes = _whole(values, "files"), _whole(values, "prefixes")
    listing = Listing()
    base = f"{SCHEME}://bucket"
    for index, size in enumerate(_simulated_sizes(values, files)):
        listing.add(f"{base}/{index % prefixes}/{index}.{ending}", "", size)
    core = (
        rates.rates_given(options.rate) if options.rate
        else rates.planned_rates(encoding, "a simulated source cannot be measured")
    )  # fmt: skip
    rows = units.parse_rows(values["rows"]) if values["rows"] else None
    return ScaleSource(
        listing, encoding, core, 0.0, rows, prefixes, True, True, 0.0,
        ("The time to list the bucket is not included, as the files are simulated.",),
    )  # fmt: skip


def _simulated_sizes(values: Mapping[str, str], files: int) -> list[int]:
    mean, sigma = units.parse_size(values["size"]), _sigma(values["sigma"])
    if mean < 1:
        raise UsageError("simulate:// with size=0 is nothing to load", hint=_EXAMPLE)
    chance = Random(1)  # noqa: S311 - sizes, no secrets
    middle = math.log(mean) - sigma * sigma / 2  # so that the mean is what was asked for
    if not sigma:
        return [mean] * files
    return [max(1, round(chance.lognormvariate(middle, sigma))) for _ in range(files)]


def _whole(values: Mapping[str, str], name: str) -> int:
    try:
        number = units.parse_rows(values[name])
    except UsageError:
        number = 0
    if not 1 <= number <= MOST_FILES:
        raise UsageError(
            f"simulate:// with {name}={values[name]} is not possible: 1 to {MOST_FILES:,}",
            hint=_EXAMPLE,
        )
    return number


def _sigma(text: str) -> float:
    try:
        sigma = float(text)
    except ValueError:
        sigma = math.nan
    if not 0 <= sigma <= MOST_SIGMA:
        raise UsageError(
            f"simulate:// with sigma={text} is not possible: 0 to {MOST_SIGMA:.0f}", hint=_EXAMPLE
        )
    return sigma
