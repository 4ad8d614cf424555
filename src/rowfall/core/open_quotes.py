"""Finds a quote of CSV that is opened and not closed before a text ends, by its end. Pure.

Such a quote is behind every other one that could close it: most often in the last line.
"""

from __future__ import annotations

from rowfall.core.charsets import BOM
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import UnclosedQuoteError
from rowfall.core.model import Encoding

END = 64 << 10
"""Bytes of an end that are looked at at least: they are as quick to read as one, far away, too."""
_BLANKS, _BOM = b" \t", BOM.encode()


def error(uri: str, found: tuple[int, int], split_id: str = "") -> UnclosedQuoteError:
    """Return the error about a quote at a line, 0 where it is not known, and a byte."""
    line, at = found
    place = f"line {line}" if line else f"byte {at:,}"
    return UnclosedQuoteError(place, uri=uri, split_id=split_id, line=line or None, column=None)


class OpenQuotes:
    """Follows text that comes in pieces; keeps what has to be known of its end."""

    def __init__(self, encoding: Encoding, most: int, *, breaks: bool) -> None:
        self._encoding, self._most, self._breaks = encoding, most, breaks
        self._kept, self._begin, self._lines, self._whole = bytearray(), 0, 1, True
        self._given_up = False

    def pass_by(self, piece: bytes) -> None:
        """Follow the next piece: where it has a quote whose meaning is plain, it is kept only."""
        if self._given_up:
            return
        self._kept += piece
        if not self._breaks:
            cut = self._kept.rfind(b"\n") + 1
        else:
            last = _last_plain(self._kept, self._encoding, whole=self._whole)
            # What stands in front of a quote tells its meaning: a delimiter and some blanks.
            cut = max(0, last.start - 64) if last.plain else 0
        if cut and len(self._kept) > END:
            self._lines += self._kept.count(b"\n", 0, cut)
            self._begin += cut
            del self._kept[:cut]
            self._whole = not self._breaks
        self._given_up = len(self._kept) > self._most  # a record that nobody reads

    def end(self) -> tuple[int, int] | None:
        """Return line and offset of the quote that is open at the end; None for none."""
        at = find_open(self._kept, self._encoding, whole=self._whole, breaks=self._breaks)
        if at is None or at < 0 or self._given_up:
            return None
        return self._lines + self._kept.count(b"\n", 0, at), self._begin + at


@dataclass(frozen=True, slots=True)
class _Last:
    """The last quote whose meaning is plain.

    Attributes:
        plain: there is one. ``start``: its offset. ``inside``: it opens a value.
        later: how many follow that might open or close one, and ``latest``, the last of those.
    """

    plain: bool
    start: int
    inside: bool
    later: int
    latest: int


def find_open(
    text: bytes | bytearray, encoding: Encoding, *, whole: bool, breaks: bool
) -> int | None:
    """Return the offset of the quote that is open at the end of a text; -1 for none.

    None where more of the text is needed to tell.

    Args:
        whole: the text begins where a record begins. ``breaks``: values may hold line breaks.
    """
    skipped = 0
    if not breaks and (skipped := text.rfind(b"\n") + 1):
        text, whole = text[skipped:], True
    last = _last_plain(text, encoding, whole=whole)
    if not last.plain and not whole:
        return None
    if last.inside == bool(last.later % 2):
        return -1
    return skipped + (last.latest if last.later else last.start)


def _last_plain(text: bytes | bytearray, encoding: Encoding, *, whole: bool) -> _Last:
    """Go back from the end of a text to a quote that can only open, or only close, a value.

    One that opens follows a delimiter or a line end, one that closes stands in front of one; two in
    a row are a letter of the value, or an empty one. The engine has taken all rows, so each quote
    within quotes is doubled.
    """
    marks = encoding.delimiter.encode() + b"\r\n"
    blanks = bytes(set(_BLANKS) - set(marks))
    at, later, latest = len(text), 0, 0
    while stop := text.rfind(b'"', 0, at) + 1:
        start = stop - 1
        while start and text[start - 1] == 0x22:
            start -= 1
        at = start
        if (stop - start) % 2 == 0:
            continue
        before, after = start, stop
        while before and text[before - 1] in blanks:
            before -= 1
        if not before and not whole:
            break  # what stands in front of it is not here
        while after < len(text) and text[after] in blanks:
            after += 1
        head = bytes(text[: len(_BOM)]) if before == len(_BOM) else b""
        opens = not before or text[before - 1] in marks or head == _BOM
        closes = after == len(text) or text[after] in marks
        if not opens or not closes:
            return _Last(True, start, opens, later, latest)
        later, latest = later + 1, latest if later else start
    return _Last(False, 0, False, later, latest)
