"""Measures records of text as their bytes pass, without looking into them."""

from __future__ import annotations

from codecs import BOM_UTF8

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RecordTooLongError
from rowfall.core.model import Encoding

PIECE = 1 << 20
"""Bytes that are looked at at a time: limits below this would not hold."""
# Quotes behind the last record of a piece that are looked at; 0.2 us each.
_MOST_QUOTES = 10_000
_SHOWN = 60  # bytes of a record that an error shows


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where a record begins: its line, 0 where that is not known, and its offset in the text.

    Attributes:
        shown: the first bytes of an array of JSON that holds no objects; "" for other records.
    """

    line: int
    offset: int
    shown: str = ""


def too_long(uri: str, place: RecordPlace, most: int, encoding: Encoding) -> RecordTooLongError:
    """Return the error about a record that is longer than ``--max-record``."""
    line = f" line {place.line}" if place.line else ""
    if place.shown:  # more of it would not be a record either
        return RecordTooLongError(
            f"{uri}{line} is not a JSON object: {place.shown}...", uri=uri, line=place.line or None,
            hint='Rows are objects: write each element of the array as one, like {"value": 1}.',
        )  # fmt: skip
    quoted = "a quote that is never closed may be the reason; " if encoding.is_csv else ""
    return RecordTooLongError(
        f"{uri}{line}: a record of more than {units.memory(most)} begins at byte "
        f"{place.offset:,}",
        uri=uri, line=place.line or None,
        hint=f"Look at that line: {quoted}longer records are read with --max-record "
        f"{units.memory(4 * most).replace(' ', '')}, and a --memory of several times that.",
    )  # fmt: skip


class Records:
    """Follows where records begin in text that comes in pieces.

    Args:
        most: bytes of a record.
        quotes: a line end between two of them ends no record.
        objects: where the text is one array of JSON, each object in it is a record: such a file is
            most often a single line. An array of objects within a record is not told from it.

    It takes 0.3 s of CPU for a GB of short lines.
    """

    def __init__(self, most: int, *, quotes: bool, objects: bool = False) -> None:
        self._most, self._quotes, self._objects = most, quotes, objects
        self._begin = self._line = self._at = self._lines = 0
        self._open = False
        self._array = ""

    def pass_by(self, piece: bytes) -> RecordPlace | None:
        """Follow the next piece; return where a record begins that is too long, None for none."""
        if self._objects and not self._at:
            text = piece.removeprefix(BOM_UTF8).lstrip()
            self._objects = text[:1] == b"["
            if self._objects and text[1:].lstrip()[:1] not in (b"{", b""):
                self._array = text[:_SHOWN].decode("utf-8", "replace")
        end = _last_end(piece, self._open) if self._quotes else piece.rfind(b"\n")
        between = piece.rfind(b"},") if self._objects else -1
        end = max(end, between)
        if end >= 0:
            # The first record of the piece may end in it and be too long.
            first = piece.find(b"\n" if between < 0 else b"},")
            if self._at + first - self._begin > self._most and not self._open:
                return self._place()
            self._begin = self._at + end + 1
            self._line = self._lines + piece.count(b"\n", 0, end + 1)
        self._lines += piece.count(b"\n")
        if self._quotes and piece.count(b'"') % 2:
            self._open = not self._open
        self._at += len(piece)
        if self._at - self._begin > self._most:
            return self._place()
        return None

    def _place(self) -> RecordPlace:
        return RecordPlace(self._line + 1, self._begin, "" if self._begin else self._array)


def _last_end(piece: bytes, open_quote: bool) -> int:
    """Return where the last record of a piece ends; -1 where none does, or that is not known."""
    outside = (piece.count(b'"') % 2 == 1) == open_quote
    at = len(piece)
    for _ in range(_MOST_QUOTES):
        quote = piece.rfind(b'"', 0, at)
        if outside and (end := piece.rfind(b"\n", quote + 1, at)) >= 0:
            return end
        if quote < 0:
            break
        at, outside = quote, not outside
    return -1
