"""Where big text files can be cut: offsets at which a record starts, beyond doubt.

The rules are those of the server's readers. Pure but for the function that reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rowfall.core.model import Encoding
from rowfall.schema.codec import BOM

Read = Callable[[int, int], bytes]
"""(offset, length) -> bytes; fewer only where the file ends."""

# Read at a time: larger is no faster.
SCAN = 1 << 20
# A run of quotes or backslashes that is longer than this is no text that anybody understands.
LONGEST_RUN = 1 << 20

_MARK = BOM.encode()


def cuts(read: Read, size: int, encoding: Encoding, every: int) -> Iterator[int]:
    """Offsets where records start, each at least ``every`` bytes behind the one before.

    Ends early where the file is not what its format promises.
    """
    if encoding.format.startswith("CSV"):
        return _csv_cuts(read, size, every, encoding.delimiter.encode())
    if encoding.format.startswith("TSV"):
        return _tsv_cuts(read, size, every)
    return _json_cuts(read, size, every)


def _chunks(read: Read, size: int, run: bytes) -> Iterator[tuple[int, bytes]]:
    """(offset, bytes) of the whole; none but the last ends within a run of the byte ``run``."""
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
    """A newline with an even number of quotes before it ends a record.

    That holds as long as a quote opens a field only at its start: ``12" x 3`` is a value of the
    engine's reader, too. So every quote with an even number before it is checked for a delimiter
    or a newline in front; one without ends the search, and what was found before stays true.
    Speed of a core: 2.7 GB/s without quotes, 0.2 GB/s with 20 quoted fields of 51.
    """
    inside, before, target = 0, b"\n", every
    for start, chunk in _chunks(read, size, b'"'):
        text = chunk.removeprefix(_MARK) if start == 0 else chunk
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
    """Whether all quotes that open a field stand at its start; ``inside`` 1: within quotes."""
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
    r"""Whether a reader that starts here sees what one that goes on here sees.

    Not behind ``\n`` of ``\n\r``, which is one line end, and not where it would skip a byte order
    mark. The end of a chunk is no place, for what follows is not known.
    """
    return at < len(chunk) and chunk[at] != 0x0D and not chunk.startswith(_MARK, at)


def _tsv_cuts(read: Read, size: int, every: int) -> Iterator[int]:
    """A newline ends a record unless a backslash (not one of a pair) is in front of it.

    The rule needs no state, so only what is near the cuts is read.
    """
    at = every
    while at < size:
        chunk = read(at, min(SCAN, size - at))
        if not chunk:
            return
        end = chunk.find(b"\n", 1)
        while end >= 0:
            slashes = end - len(chunk[:end].rstrip(b"\\"))
            # A run that reaches back to the first byte may have begun before it.
            if slashes < end and slashes % 2 == 0 and _starts_record(chunk, end + 1):
                break
            end = chunk.find(b"\n", end + 1)
        if end >= 0:
            yield at + end + 1
            at += end + 1 + every
        else:
            at += max(1, len(chunk) - 1)


def _json_cuts(read: Read, size: int, every: int) -> Iterator[int]:
    """A newline between ``}`` and ``{``, outside of strings, ends a record.

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
    """Whether ``text`` (of JSON, not beginning with an escaped byte) has an odd number of quotes
    that are not escaped: 1 or 0."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"') & 1
