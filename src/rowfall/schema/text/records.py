"""The lines of text files: what a header names, and where a record ends. Pure.

A record of CSV ends at a line end outside of quotes, one of TSV at a line end that no backslash
escapes, one of JSONEachRow at a line end between ``}`` and ``{``. :func:`record_starts` reads a
file from its beginning and knows; :func:`find_record` sees a piece of it and has to prove it;
:func:`find_line` takes any line end, for a reader that notices a wrong one.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from rowfall.core.charsets import BOM
from rowfall.core.header_line import unique_names
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.sources.base import Source

APART = (
    "Load files of different columns on their own, into one table with --on-new-column add "
    "--on-missing-column default."
)
"""The hint about files of text whose headers differ."""

Read = Callable[[int, int], bytes]
"""(offset, length) -> bytes; fewer only where the file ends."""

IN_ORDER = {
    "max_threads": 1, "input_format_parallel_parsing": 0, "query_plan_filter_push_down": 0,
    "input_format_parquet_preserve_order": 1,
}  # fmt: skip
"""Settings of a query that numbers the records of a file as it reads them.

Of Parquet one thread is not enough: row groups of 1,500 rows came in another order in a quarter of
the runs.
"""

_BOM = BOM.encode()

# Read at a time: larger is no faster.
SCAN = 1 << 20
# A run of quotes or backslashes that is longer than this is not text that anybody understands.
LONGEST_RUN = 1 << 20
# Lines of CSV that are examined: a quote that opens a field is in the first, where there is any.
TRIES = 64
# `}` and `{` are neighbours without a comma at the top only, and the quote behind them opens a name
# unless what follows could stand behind a closing one.
_JSON = regex(rb'\}\r?\n(?=\{"[^",:\]}\s\\])')
_RUN = regex(rb'"+')


def lines_relation(
    source: Source, splits: Sequence[Split], encoding: Encoding, column: str = "line"
) -> SqlText:
    """Return the FROM part that reads the lines of objects as one column of strings."""
    lines = encoding.read_as("LineAsString")
    return source.relation(splits, lines, f"`{column}` String")


# --- headers -------------------------------------------------------------------------------------


def header_line(data: bytes) -> bytes | None:
    """Return the first line of a file with its end; None where it is not plain.

    A byte order mark, a line break inside quotes and escapes are not plain.
    """
    line, end, _ = data.partition(b"\n")
    odd = not end or line.startswith(_BOM) or line.count(b'"') % 2 or b"\\" in line
    return None if odd else line + end


def header_names(line: str | bytes, encoding: Encoding, *, strict: bool = False) -> tuple[str, ...]:
    """Return the column names in the first line of ``line``, as the load names them.

    Args:
        strict: raise for what is no CSV or no UTF-8, instead of reading as much as can be read.

    Raises:
        csv.Error, UnicodeDecodeError: only if ``strict``.
    """
    if isinstance(line, bytes):
        line = line.partition(b"\n")[0].decode(errors="strict" if strict else "replace")
    text = line.removeprefix(BOM).removesuffix("\n").removesuffix("\r")
    names: Sequence[str] = text.split("\t")
    if encoding.is_csv:
        names = next(csv.reader([text], delimiter=encoding.delimiter, strict=strict), [])
    return column_names(names, encoding)


def column_names(names: Sequence[str], encoding: Encoding) -> tuple[str, ...]:
    """Return the names of the columns by the fields of a header.

    Behind a delimiter that ends each row there is none.
    """
    if encoding.trailing and len(names) > 1 and not names[-1]:
        names = names[:-1]
    if encoding.renamed and len(names) == len(encoding.header):
        return encoding.header
    return unique_names(names) if encoding.header else tuple(names)


# --- where records end, known from the beginning of a file ---------------------------------------


def record_starts(read: Read, size: int, encoding: Encoding, every: int) -> Iterator[int]:
    """Give offsets at which records start, each at least ``every`` bytes behind the one before.

    The rules are those of the engine's readers. All bytes before an offset are taken into account,
    except of TSV, whose rule needs no state. Stops early where the file is not what its format
    promises; the offsets given until then are right.

    Args:
        size: of the file, in bytes.
    """
    if encoding.is_csv:
        return _csv_cuts(read, size, every, encoding.delimiter.encode())
    if encoding.is_tsv:
        return _tsv_cuts(read, size, every)
    return _json_cuts(read, size, every)


def _chunks(read: Read, size: int, run: bytes) -> Iterator[tuple[int, bytes]]:
    """Give (offset, bytes) of the whole; only the last may end within a run of the byte ``run``."""
    at, carry = 0, b""
    while at < size:
        data = read(at, min(SCAN, size - at))
        if not data:
            return
        chunk, start = carry + data, at - len(carry)
        at += len(data)
        body = chunk.rstrip(run) if at < size else chunk
        carry = chunk[len(body) :]
        if len(carry) > LONGEST_RUN:
            return
        yield start, body


def _csv_cuts(read: Read, size: int, every: int, delimiter: bytes) -> Iterator[int]:
    """Cut behind newlines that have an even number of quotes before them.

    They end a record as long as a quote opens a field only at its start: ``12" x 3`` is a value of
    the engine's reader, too. So every quote with an even number before it is checked for a
    delimiter or a newline in front; one without ends the search, and what was found stays true.
    Speed of a core: 2.7 GB/s without quotes, 0.2 GB/s with 20 quoted fields of 51.
    """
    inside, before, target = 0, b"\n", every
    for start, chunk in _chunks(read, size, b'"'):
        text = chunk.removeprefix(_BOM) if start == 0 else chunk
        quotes = chunk.count(b'"')
        if quotes and not _opens_at_starts(text, inside, before, delimiter):
            return
        at, odd = 0, inside
        if target > start:
            at = target - start - 1
            odd ^= chunk.count(b'"', 0, at) & 1
        while (end := chunk.find(b"\n", at)) >= 0:
            odd ^= chunk.count(b'"', at, end) & 1
            at = end + 1
            if not odd and _starts_record(chunk, at):
                yield start + at
                target = start + at + every
                skip = target - start - 1
                odd ^= chunk.count(b'"', at, skip) & 1
                at = skip
        inside ^= quotes & 1
        before = chunk[-1:] or before


def _opens_at_starts(text: bytes, inside: int, before: bytes, delimiter: bytes) -> bool:
    """Check that all quotes that open a field stand at its start; ``inside`` 1: within quotes."""
    # Two quotes are an escaped one or an empty field: neither opens nor closes anything.
    parts = text.replace(b'""', b"").split(b'"')
    outside = b'"'.join(parts[inside::2])
    if (len(parts) - 1 + inside) & 1:
        outside += b'"'  # the last of them is closed behind this chunk
    good = outside.count(delimiter + b'"') + outside.count(b'\n"')
    if outside.startswith(b'"'):
        good += before in (delimiter, b"\n")
    return outside.count(b'"') == good


def _starts_record(chunk: bytes, at: int) -> bool:
    r"""Check that a reader that starts here sees what one that goes on here sees.

    Not behind ``\n`` of ``\n\r``, which is one line end, and not where it would skip a byte order
    mark. The end of a chunk is no place, for what follows is not known.
    """
    return at < len(chunk) and chunk[at] != 0x0D and not chunk.startswith(_BOM, at)


def _tsv_cuts(read: Read, size: int, every: int) -> Iterator[int]:
    """Cut behind newlines that no backslash (not one of a pair) is in front of.

    The rule needs no state, so only what is near the cuts is read.
    """
    at = every
    while at < size:
        chunk = read(at, min(SCAN, size - at))
        if not chunk:
            return
        found = next(_tsv_starts(chunk), None)
        if found is None:
            at += max(1, len(chunk) - 1)
        else:
            yield at + found
            at += found + every


def _json_cuts(read: Read, size: int, every: int) -> Iterator[int]:
    """Cut behind newlines between ``}`` and ``{``, outside of strings.

    No other place of valid JSON looks so: within arrays there is a comma.
    """
    inside, target = 0, every
    for start, chunk in _chunks(read, size, b"\\"):
        at, counted, odd = max(0, target - start - 1), 0, inside
        while (end := chunk.find(b"\n{", at)) >= 0:
            at = end + 1
            if chunk[:end][-2:].removesuffix(b"\r")[-1:] != b"}":
                continue
            odd ^= _quotes(chunk[counted:end])
            counted = end
            if not odd:
                yield start + end + 1
                target = start + end + 1 + every
                at = max(at, target - start - 1)
        inside = odd ^ _quotes(chunk[counted:])


def _quotes(text: bytes) -> int:
    """Return 1 where ``text`` holds an odd number of quotes that are not escaped, else 0.

    Args:
        text: of JSON, not beginning with an escaped byte.
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"') & 1


# --- where records end, proven by what is near --------------------------------------------------


def find_record(data: bytes, encoding: Encoding, width: int) -> int | None:
    """Find the first offset behind the first byte at which a record starts beyond doubt.

    Nothing is known of the bytes before ``data``. A line end of TSV and the ``}`` and ``{`` around
    one of JSONEachRow are proof enough. Of CSV a place between quotes has to be excluded: were it
    inside, the next quote would have to close the field, and a comma or a line end to follow. A
    quote in front of anything else proves that it opens one. Where no quote is near, lines have to
    have as many fields as a record. A value longer than ``data`` that consists of lines that look
    like rows would deceive that; the range that ends in it then fails, because its quote is not
    closed.

    Args:
        width: fields of a record of CSV, 0 where it is not known.
    """
    if encoding.kind is Kind.JSON:
        match = _JSON.search(data)
        return match.end() if match else None
    if encoding.is_tsv:
        return next(_tsv_starts(data), None)
    return next(_csv_starts(data, encoding.delimiter.encode(), width), None)


def find_line(data: bytes, encoding: Encoding) -> int | None:
    """Find the first offset behind a line end of ``data``.

    It may lie inside of quotes: for ranges whose reader notices that. A backslash in front of a
    line end is one of TSV's escapes.
    """
    found = data.find(b"\n")
    while found >= 0:
        if not (encoding.is_tsv and data[found - 1 : found] in (b"\\", b"")):
            return found + 1
        found = data.find(b"\n", found + 1)
    return None


def _line_ends(data: bytes) -> Iterator[int]:
    """Give the offsets behind line ends at which a reader may start."""
    end = data.find(b"\n")
    while end >= 0:
        if _starts_record(data, end + 1):
            yield end + 1
        end = data.find(b"\n", end + 1)


def _tsv_starts(data: bytes) -> Iterator[int]:
    """Give offsets behind line ends without a backslash, not one of a pair, in front of them."""
    for at in _line_ends(data):
        slashes = at - 1 - len(data[: at - 1].rstrip(b"\\"))
        # A run that reaches back to the first byte may have begun before it.
        if slashes < at - 1 and slashes % 2 == 0:
            yield at


def _csv_starts(data: bytes, delimiter: bytes, width: int) -> Iterator[int]:
    """Give offsets that are proven by the quotes behind them, or by the width of the lines."""
    for at in islice(_line_ends(data), TRIES):
        if _outside(data, at, delimiter):
            yield at
        elif data.find(b'"', at) < 0:
            if _even(data, at, delimiter, width):
                yield at
            return


def _outside(data: bytes, at: int, delimiter: bytes) -> bool:
    """Check that ``at`` cannot be inside of quotes: what follows would be no CSV."""
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
    """Check that all whole lines from ``at`` on have as many fields as a record."""
    lines = data[at:].split(b"\n")[:-1]
    return width > 1 and len(lines) > 1 and all(x.count(delimiter) == width - 1 for x in lines)
