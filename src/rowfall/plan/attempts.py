"""Attempts: which splits are loaded by one statement, how many at once, and what a core does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rowfall.core.errors import UsageError
from rowfall.core.model import Encoding, Group, Kind
from rowfall.core.units import parse_size
from rowfall.plan import balance
from rowfall.plan.inputs import Inputs

# Stored bytes that one core turns into table rows per second, by kind of source (measured on
# trips and taxi data, chDB 26.9; text is compressed or not). Used for forecasts and for cutting
# attempts, never for anything that has to be exact.
_RATES: dict[tuple[Kind, bool], float] = {
    (Kind.TEXT, True): 25e6,
    (Kind.TEXT, False): 90e6,
    (Kind.JSON, True): 15e6,
    (Kind.JSON, False): 80e6,
    (Kind.TYPED, True): 60e6,
    (Kind.TYPED, False): 60e6,
}
# Memory bytes that one core generates, sorts and writes per second.
_MADE_RATE = 120e6
# An attempt's fixed cost (staging, count, publish, idle threads at its end) is 0.1 to 0.4 s: at
# 20 s of work it stays under 2 %. More would only mean more to repeat after a crash.
ATTEMPT_SECONDS = 20.0
# Files are not taken apart, so at the end of an attempt cores wait for the last ones: of 1,000 of
# 210 MB, 16 cores get 38 in 20 s, which take 3 rounds where 2.4 would do. Four rounds at least
# make that 6 % at most.
ATTEMPT_ROUNDS = 4
# The statement names every object of its attempt; beyond this the text is slow to parse.
MOST_SPLITS = 2_000


def core_rate(encoding: Encoding | None) -> float:
    """Stored bytes (generators: bytes in memory) that one core loads in a second."""
    if encoding is None:
        return _MADE_RATE
    packed = encoding.compression not in ("none", "auto")
    return _RATES.get((encoding.kind, packed), 30e6)


def weight(inputs: Inputs, index: int) -> float:
    """Bytes of a split in the unit of :func:`core_rate`: stored, or made in memory."""
    rows = inputs.listing.rows(index)
    if rows is not None:
        return rows * inputs.schema.row_bytes
    return float(inputs.listing.size(index) or 0)


def cut(inputs: Inputs, todo: Sequence[int]) -> tuple[Group, ...]:
    """Neighbouring splits in equal attempts; what is near by name is often near by key."""
    if inputs.target.caps.one_file_per_group:
        return _file_groups(inputs, todo)
    # Of ranges of rows another count is checked than of files, see landing.
    both = inputs.listing.apart(todo)
    return tuple(group for some in both if some for group in _groups(inputs, some))


def _groups(inputs: Inputs, todo: Sequence[int]) -> list[Group]:
    weights = [weight(inputs, i) for i in todo]
    if inputs.options.attempt_bytes:
        most = float(parse_size(inputs.options.attempt_bytes))
    else:
        mean = sum(weights) / max(1, len(weights))
        most = attempt_bytes(core_rate(inputs.encoding), inputs.facts.cores, mean)
    parts = balance.cut(weights, most, MOST_SPLITS)
    return [_group(inputs, [todo[n] for n in part]) for part in parts]


def attempt_bytes(rate: float, cores: int, mean: float) -> float:
    """Bytes of one attempt.

    Args:
        rate: bytes a second of one core. ``mean``: bytes of a file.
    """
    return max(ATTEMPT_SECONDS * rate, ATTEMPT_ROUNDS * mean) * cores


def _group(inputs: Inputs, indexes: Sequence[int]) -> Group:
    sizes = [inputs.listing.size(i) for i in indexes]
    known = None if any(s is None for s in sizes) else sum(s or 0 for s in sizes)
    # Largest first: the last thread to finish then has little left (longest processing time).
    # Ranges stay in order: neighbours are read as one.
    if indexes and inputs.listing.rows(0) is None and inputs.listing.part(indexes[0]) is None:
        indexes = sorted(indexes, key=lambda i: -(inputs.listing.size(i) or 0))
    return Group(tuple(indexes), known)


def _file_groups(inputs: Inputs, todo: Sequence[int]) -> tuple[Group, ...]:
    """Exports: one group per output file, over the whole listing so that numbers stay."""
    files = inputs.options.files or 1
    total = len(inputs.listing)
    if files > total:
        raise UsageError(
            f"--files {files} is more than the {total} pieces of the source",
            hint="A file is written from whole pieces (source files or generated ranges).",
        )
    wanted = set(todo)
    groups = []
    for start, stop in file_bounds(total, files):
        # A file whose pieces have all landed keeps its (empty) place, so that n stays n.
        missing = [i for i in range(start, stop) if i in wanted]
        groups.append(_group(inputs, range(start, stop)) if missing else Group((), 0))
    return tuple(groups)


def file_bounds(pieces: int, files: int) -> Iterator[tuple[int, int]]:
    """Half-open ranges of the pieces that go into each file of an export."""
    return pairwise(pieces * n // files for n in range(files + 1))


def lanes(inputs: Inputs, groups: Sequence[Group]) -> int:
    """Attempts at once. A table is fed by one statement that uses every core; a file is written
    by one thread (compression is a single stream), so as many files as cores are written."""
    if not inputs.target.caps.one_file_per_group:
        return 1
    return max(1, min(inputs.facts.cores, sum(1 for g in groups if g.indexes)))


def streams(inputs: Inputs) -> int:
    """Connections to push over: one a core of the server, where parsing and sorting happen; more
    than eight fill any network (1.2 GB/s of text at 150 MB/s a core). Where rows are parsed here,
    two a core of this machine, so that one works while the other waits for the server: with four a
    core, 4 shards took 4 % more CPU."""
    if not inputs.source.replayable:
        return 1
    # This machine serves the streams of all shards.
    most = 8 if inputs.undecoded else min(8, 2 * inputs.cores_here)
    most //= max(1, len(inputs.writers))
    return inputs.options.streams or max(1, min(most, inputs.facts.cores))
