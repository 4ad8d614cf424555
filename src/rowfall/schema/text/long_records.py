"""Finds the record that is too long to be read: bytes are looked at in small pieces.

An engine has to hold a record as a whole, and where a quote is never closed that is the rest of the
file: 2 GB of one letter are 2 MB of gzip. So statements that read text have a limit of memory, and
where one meets it the file is looked through here, for the place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from rowfall.core import units
from rowfall.core.errors import RecordTooLongError, RowfallError, SourceError
from rowfall.core.listing import Split
from rowfall.core.long_records import PIECE, RecordPlace, Records, too_long
from rowfall.core.model import Encoding, Kind
from rowfall.sources.base import Source
from rowfall.sources.compression import compression_of
from rowfall.sources.pipes import STREAMS, BrokenStreamError, unpack_streams
from rowfall.stores.first_bytes import AHEAD
from rowfall.stores.objects import ObjectSource
from rowfall.systems.clickhouse.codes import MEMORY_LIMIT

# Behind that an error without a place is given: Python unpacks 5 to 20 GB of such files until then.
_MOST_SECONDS = 30.0
UNREADABLE = (BrokenStreamError, OSError, EOFError, ValueError)
"""Errors that :func:`unpacked` and its source raise for a broken file."""
_BY_PYARROW = {"zstd": "zstd", "lz4": "lz4", "br": "brotli", "brotli": "brotli"}


def find(
    source: Source, splits: Sequence[Split], encoding: Encoding | None, most: int, *,
    within: int | None = None,
) -> RecordTooLongError | None:  # fmt: skip
    """Return the error about the first record of more than ``most`` bytes; None for none.

    Args:
        within: bytes of each file that are looked through; None for all.

    Takes some :data:`PIECE` of memory and half a minute at most.
    """
    if encoding is None or encoding.kind is Kind.TYPED or not isinstance(source, ObjectSource):
        return None
    until = time.monotonic() + _MOST_SECONDS
    for split in {s.uri: s for s in splits}.values():
        packed = compression_of(split.uri, encoding)
        with suppress(RowfallError, *UNREADABLE):
            pieces = unpacked(source.pieces(split), packed)
            if within is not None:
                pieces = islice(pieces, -(-within // PIECE))
            place = in_pieces(pieces, encoding, most, until)
            if place is not None:
                return too_long(split.uri, place, most, encoding)
    return None


def too_large_stream(name: str, memory: int) -> SourceError:
    """Return the error about a packed stream of which a record takes more than ``memory`` bytes.

    It cannot be looked through for the place, as it is gone. One that is not packed is measured on
    its way.
    """
    return SourceError(
        f"{name}: a record takes more memory than --memory allows ({units.memory(memory)})",
        hint="A quote that is never closed may be the reason. Unpacked in front of rowfall, as in "
        "'zcat FILE | rowfall load -', its line is named; longer ones are read with more --memory.",
        code=MEMORY_LIMIT,
    )


def may_begin(source: Source, split: Split, packed: str) -> bool:
    """Tell whether the first :data:`PIECE` of a text end inside of a very long line."""
    if not isinstance(source, ObjectSource):
        return False
    head, size = bytearray(), split.size
    with suppress(RowfallError, *UNREADABLE):
        # All of a small file has been read already.
        small = size is not None and size <= AHEAD
        stored = [source.part(split, 0, size or 0)] if small else source.pieces(split)
        for piece in unpacked(stored, packed):
            head += piece[:PIECE]
            if len(head) >= PIECE:
                return head.rfind(b"\n", 0, PIECE) < PIECE // 2
    return False


def unpacked(pieces: Iterable[bytes], packed: str) -> Iterator[bytes]:
    """Give the unpacked bytes of a file, about :data:`PIECE` at a time however well it is packed.

    Raises:
        ValueError: nothing here unpacks it.
    """
    if packed == "none":
        yield from pieces
    elif packed in STREAMS:
        yield from unpack_streams(pieces, packed)
    elif packed in _BY_PYARROW:
        import pyarrow

        from rowfall.core.pieces import Pieces

        file = pyarrow.PythonFile(Pieces(pieces), "r")
        with pyarrow.CompressedInputStream(file, _BY_PYARROW[packed]) as stream:
            while data := stream.read(PIECE):
                yield data
    else:
        raise ValueError(packed)


def in_pieces(
    pieces: Iterable[bytes], encoding: Encoding, most: int, until: float = float("inf")
) -> RecordPlace | None:
    """Return where the first record of more than ``most`` bytes begins; None for none."""
    records = Records(most, quotes=encoding.is_csv, objects=encoding.kind is Kind.JSON)
    for piece in pieces:
        if (place := records.pass_by(piece)) is not None:
            return place
        if time.monotonic() > until:
            return None
    return None
