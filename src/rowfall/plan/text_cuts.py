"""Where large text files can be cut without a look at what is before: places beyond doubt.

Each shard loads its ranges on its own, so a cut has to be right by itself. A line end of TSV and
the ``}`` and ``{`` around one of JSONEachRow show it. Of CSV a place between quotes has to be
excluded: were it inside, the next quote would have to close the field, and a comma or a line end
to follow. A quote in front of anything else proves that it opens one. Where no quote is near, lines
have to have as many fields as a record. A value longer than a look that consists of lines that look
like rows would deceive that; the range that ends in it then fails, because its quote is not closed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice, pairwise

from rowfall.core.listing import Part, Split
from rowfall.core.model import Encoding, Kind
from rowfall.schema.codec import BOM

Read = Callable[[Split, int, int], bytes]
"""``(object, offset, length)``: its bytes, fewer where it ends, none where no part can be had."""

# Most records end within the first look; where none does within the second, there is no cut.
LOOKS = (1 << 16, 1 << 20)
# At a time: a store reads a piece of some MB for each, and 32 of them took longer than its client
# waits on a machine of two busy cores.
REQUESTS = 8
# Lines of CSV that are looked at: a quote that opens a field is in the first, where there is any.
TRIES = 64
# `}` and `{` are neighbours without a comma at the top only, and the quote behind them opens a name
# unless what follows could stand behind a closing one.
_JSON = re.compile(rb'\}\r?\n(?=\{"[^",:\]}\s\\])')
_RUN = re.compile(rb'"+')


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
            found = record(data, encoding, width)
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


def record(data: bytes, encoding: Encoding, width: int) -> int | None:
    """The first offset behind the first byte where beyond doubt a record starts."""
    if encoding.kind is Kind.JSON:
        match = _JSON.search(data)
        return match.end() if match else None
    tsv = encoding.format.startswith("TSV")
    return next(_tsv(data) if tsv else _csv(data, encoding.delimiter.encode(), width), None)


def _line_ends(data: bytes) -> Iterator[int]:
    """Offsets behind line ends, where a reader that starts sees what one that goes on sees."""
    end = data.find(b"\n")
    while end >= 0:
        at = end + 1
        if at < len(data) and data[at] != 0x0D and not data.startswith(BOM.encode(), at):
            yield at
        end = data.find(b"\n", at)


def _tsv(data: bytes) -> Iterator[int]:
    """A line end is one unless a backslash, not one of a pair, is in front of it."""
    for at in _line_ends(data):
        slashes = at - 1 - len(data[: at - 1].rstrip(b"\\"))
        # A run that reaches back to the first byte may have begun before it.
        if slashes < at - 1 and slashes % 2 == 0:
            yield at


def _csv(data: bytes, delimiter: bytes, width: int) -> Iterator[int]:
    for at in islice(_line_ends(data), TRIES):
        if _outside(data, at, delimiter):
            yield at
        elif data.find(b'"', at) < 0:
            if _even(data, at, delimiter, width):
                yield at
            return


def _outside(data: bytes, at: int, delimiter: bytes) -> bool:
    """Whether ``at`` cannot be inside of quotes: what follows would be no CSV."""
    inside = True
    for run in _RUN.finditer(data, at):
        if run.end() == len(data):
            return False  # it may go on
        if inside and (run.end() - run.start()) % 2:
            if data[run.end() : run.end() + 1] not in (delimiter, b"\n", b"\r", b" ", b"\t"):
                return True
            inside = False
        elif not inside:
            # It may open a field, or be a letter in one without quotes.
            return False
    return False


def _even(data: bytes, at: int, delimiter: bytes, width: int) -> bool:
    """Whether all whole lines from ``at`` on have as many fields as a record."""
    lines = data[at:].split(b"\n")[:-1]
    return width > 1 and len(lines) > 1 and all(x.count(delimiter) == width - 1 for x in lines)
