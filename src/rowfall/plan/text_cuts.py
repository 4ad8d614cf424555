"""Cuts large text files into ranges where a record ends beyond doubt.

Each shard loads its ranges on its own, so a cut has to be right by itself: see
:func:`rowfall.schema.records.find_record`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

from rowfall.core.listing import Part, Split
from rowfall.core.model import Encoding
from rowfall.schema.records import find_record

Read = Callable[[Split, int, int], bytes]
"""``(object, offset, length)``: its bytes, fewer where it ends, none where no part can be had."""

# Most records end within the first look; where none does within the second, there is no cut.
LOOKS = (1 << 16, 1 << 20)
# At a time: a store reads a piece of some MB for each, and 32 of them took longer than its client
# waits on a machine of two busy cores.
REQUESTS = 8


def parts(
    split: Split, encoding: Encoding, head: bytes, width: int, step: int, read: Read
) -> list[Split] | str:
    """Ranges of whole records, of about ``step`` bytes each; or why there are none.

    Args:
        head: the header with its line end, b"" where there is none: no range holds it.
        width: fields of a record, 0 where it is not known.

    Raises:
        SourceError: the file cannot be read.
    """
    size = split.size or 0

    def place(at: int) -> int | None:
        for look in LOOKS:
            data = read(split, at - 1, look)
            found = find_record(data, encoding, width)
            if found is not None:
                return at - 1 + found
            if len(data) < look:
                break
        return None

    with ThreadPoolExecutor(REQUESTS) as pool:
        found = set(pool.map(place, range(step, size, step)))
    stops = sorted(stop for stop in found if stop is not None and len(head) < stop < size)
    if not stops:
        return "no place shows beyond doubt that a record ends there"
    edges = [len(head), *stops, size]
    return [
        replace(split, id="", size=b - a, start=a, stop=b, part=Part(size, head=len(head)))
        for a, b in pairwise(edges)
    ]
