"""Reads the beginning of each object once, for all who look at it.

Format, compression, text, header, columns and places to cut are told by the same first bytes, one
after the other. Each used to open the file, or to send a request, for itself: three times for a
small CSV file here, five with gzip, and a request takes 20 to 30 ms in
a store far away; to HDFS it costs name node and data node 30 ms of CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowfall.core.listing import Split

HEAD = 64 << 10
"""Bytes of an object that are read at once, whoever asks for some of them first: one small request,
and hundreds of lines."""
AHEAD = 256 << 10
"""Bytes of the beginnings of all objects that are looked at together: what inference reads, so one
text file is read this far, four of them 64 KiB each."""
_MOST = 4 << 20
"""Bytes that are kept: 64 beginnings. The headers of thousands of files pass through."""

Part = Callable[[Split, int, int], bytes]
"""``(object, offset, length)``: its bytes, fewer where it ends."""


class FirstBytesCache:
    """The first bytes of objects, kept by name and version.

    Args:
        read: reads them from the store.
    """

    def __init__(self, read: Part) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[bytes, bool]] = {}
        self._size = 0

    def part(self, split: Split, start: int, length: int) -> bytes:
        """Return a part of an object; what lies in its beginning is read once.

        An object without a version is read anew each time: it may be another one.
        """
        stop = start + length
        near = 0 <= start < stop and (stop <= HEAD or (start == 0 and stop <= AHEAD))
        if not near or not split.version:
            return self._read(split, start, length)
        key = split.uri, split.version
        with self._lock:
            data, whole = self._known.get(key, (b"", False))
        wanted = max(stop, HEAD)
        if split.size is not None:
            wanted = min(wanted, max(split.size, 1))
        if len(data) < wanted and not whole:
            data = self._read(split, 0, wanted)
            # Nothing comes from a server that sends whole files only.
            if data:
                self._keep(key, data, len(data) < wanted)
        return data[start:stop]

    def _keep(self, key: tuple[str, str], data: bytes, whole: bool) -> None:
        with self._lock:
            self._size += len(data) - len(self._known.pop(key, (b"", False))[0])
            self._known[key] = data, whole
            while self._size > _MOST and len(self._known) > 1:
                oldest = next(iter(self._known))
                self._size -= len(self._known.pop(oldest)[0])
