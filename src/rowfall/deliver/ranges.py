"""Cuts big plain files and objects for rowfall-decode, so that a single one keeps all pipes busy.

A cut is made behind any line end near its place, whatever is before it: inside of quotes it would
be wrong. That is found out while decoding: a range that is right at its start and wrong at
its end ends inside of quotes, which the decoder declines. So if no range is declined, every range
begins where a record begins, the first one at the beginning of the file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind
from rowfall.schema.text.records import find_line, header_line, header_names
from rowfall.schema.types.strict_reading import holds_line_breaks

# Ranges of less would spend their time at the ends: a block is about this long as text.
LEAST = 16 << 20
# Ranges for each pipe: when one has ended, the others have little left.
EACH = 4
# Where no line ends within this, there is no cut: records so long are rare. Most are shorter than
# what is read first, which takes a store no longer than one byte.
MOST_READ = 1 << 20
FIRST_READ = 1 << 16
HEADER = 1 << 16
# Of JSON: what rowfall-decode looks at to tell an array.
BEGINNING = 64
# Reads at a time: 30 ms each in a store far away, and at most 1 MiB.
REQUESTS = 32

Read = Callable[[Split, int, int], bytes]
"""``(object, offset, length)``: its bytes, fewer at its end, none where it has to stay whole."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges that the decoder reads in place of whole files.

    Attributes:
        splits: ranges, each with ``start`` and ``stop``.
        encoding: without a header: it is not in the ranges.
        names: of the columns in the files, () where the files never had names.
    """

    splits: tuple[Split, ...]
    encoding: Encoding
    names: tuple[str, ...] = ()


def length(split: Split) -> int:
    """Return the bytes of an object, or of a range of it."""
    return (split.size or 0) if split.stop is None else split.stop - (split.start or 0)


def cut_files(
    splits: Sequence[Split], encoding: Encoding, columns: Sequence[Column], pipes: int,
    read: Read, *, least: int = LEAST,
) -> Ranges | None:  # fmt: skip
    """Cut the files of an attempt for ``pipes``; None where they are better left whole.

    Files with a header are cut when all have the same one.

    Args:
        least: bytes of the smallest range.
    """
    sizes = [split.size or 0 for split in splits]
    plain = encoding.compression == "none" and encoding.kind in (Kind.TEXT, Kind.JSON)
    plain = plain and encoding.dialect is None
    whole = all(split.size is not None and split.start is None for split in splits)
    every = max(least, sum(sizes) // (pipes * EACH))
    if not plain or not whole or pipes < 2 or max(sizes, default=0) < every + least:
        return None
    if encoding.is_csv and holds_line_breaks(columns):
        return None  # most cuts would be wrong
    names: tuple[str, ...] = ()
    skip = 0
    if encoding.kind is Kind.JSON:
        # Of an array only its beginning says what it is; a large one is decoded in pieces anyway.
        large = (split for split in splits if length(split) >= every + least)
        if any(read(split, 0, BEGINNING).lstrip().startswith(b"[") for split in large):
            return None
    if encoding.has_header:
        from concurrent.futures import ThreadPoolExecutor  # 4 ms that others save

        with ThreadPoolExecutor(REQUESTS) as pool:
            heads = {header_line(data) for data in pool.map(lambda s: read(s, 0, HEADER), splits)}
        head = heads.pop()
        if heads or head is None:
            return None
        names, skip = header_names(head, encoding), len(head)
        if len(set(names)) < len(names) or not {c.source or c.name for c in columns} <= set(names):
            return None  # the decoder, or the engine, says what is wrong with it
        encoding = encoding.without_header()
    cut = tuple(_cut_at_lines(splits, skip, (every, least), encoding, read))
    return Ranges(cut, encoding, names) if len(cut) > len(splits) else None


def join_ranges(
    splits: Sequence[Split], encoding: Encoding, pipes: int, read: Read
) -> Ranges | None:  # fmt: skip
    """Join neighbours among ranges that the plan has cut; None where the headers differ.

    Raises:
        SourceError: a file cannot be read.
    """
    names: tuple[str, ...] = ()
    if encoding.has_header:
        heads = {header_line(read(split, 0, HEADER)) for split in _files(splits)}
        head = heads.pop()
        if heads or head is None:
            return None
        names = header_names(head, encoding)
        encoding = encoding.without_header()
    most = sum(map(length, splits)) // (pipes * EACH)
    found: list[Split] = []
    for split in sorted(splits, key=lambda s: (s.uri, s.start or 0)):
        whole = split.part.size if split.part is not None else split.size
        last = found[-1] if found else None
        if (
            last is not None
            and (last.uri, last.stop) == (split.uri, split.start)
            and length(last) < most
        ):
            found[-1] = replace(last, stop=split.stop)
        else:
            found.append(replace(split, size=whole))
    return Ranges(tuple(found), encoding, names)


def _files(splits: Sequence[Split]) -> list[Split]:
    return [
        split if split.part is None else replace(split, size=split.part.size)
        for split in {split.uri: split for split in splits}.values()
    ]


def _cut_at_lines(
    splits: Sequence[Split], skip: int, lengths: tuple[int, int], encoding: Encoding, read: Read
) -> Iterator[Split]:
    """Give the files in ranges. All places are read together: each costs a request far away."""
    every, least = lengths
    wanted = [
        (split, place)
        for split in splits
        for place in range(skip + every, (split.size or 0) - least + 1, every)
    ]
    from concurrent.futures import ThreadPoolExecutor  # 4 ms that others save

    with ThreadPoolExecutor(REQUESTS) as pool:
        found = list(pool.map(lambda at: _line_start(at[0], at[1], encoding, read), wanted))
    stops: dict[str, set[int]] = defaultdict(set)
    for (split, _), stop in zip(wanted, found, strict=True):
        if stop is not None and (split.size or 0) - stop >= least:
            stops[split.uri].add(stop)
    for split in splits:
        size, own = split.size or 0, sorted(stops[split.uri])
        if not own and not skip:
            yield split  # a server without ranges gives it as one stream
            continue
        bounds = [min(skip, size), *own, size]
        yield from (replace(split, start=a, stop=b) for a, b in pairwise(bounds))


def _line_start(split: Split, at: int, encoding: Encoding, read: Read) -> int | None:
    """Find the first offset from ``at`` on at which a line begins."""
    for size in (FIRST_READ, MOST_READ):
        data = read(split, at - 1, size)
        found = find_line(data, encoding)
        if found is not None:
            return at - 1 + found
        if len(data) < size:
            break
    return None
