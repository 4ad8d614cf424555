"""What a followed listing held the last time, in 100 bytes for a thousand names.

All names in their order are cut into chunks of about a thousand. Of each only its first name and a
digest of all names and versions are kept: where the digest is the same as in the pass before,
nothing in the chunk is new, and nobody has to be asked. Ten million names are ten thousand chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from hashlib import blake2b

from rowfall.core.dataclass import dataclass
from rowfall.sources.base import ListedObject

# Names of a new chunk, and of the largest: where one has more it is cut anew. Half a second of
# questions to a record is ten times as many.
LEAST, MOST = 1000, 4000
# Objects that are asked about together.
ASKED = 10_000

Judge = Callable[[Sequence[ListedObject]], Sequence[bool]]
"""Tells of each object whether nothing is left to do about this version of it."""


@dataclass(slots=True)
class NameChunks:
    """The chunks of a walk.

    Attributes:
        starts: first name of each, in order. ``digests``: None where something in it was not done.
    """

    starts: list[str] = field(default_factory=list)
    digests: list[bytes | None] = field(default_factory=list)

    def add(self, start: str, digest: bytes | None) -> None:
        """Append a chunk."""
        self.starts.append(start)
        self.digests.append(digest)


class ChunkPass:
    """One pass over all names, compared with the pass before.

    Args:
        before: the chunks of the pass before.
        judge: asked about the objects of chunks that have changed.
    """

    def __init__(self, before: NameChunks, judge: Judge) -> None:
        self._before, self._judge = before, judge
        self._found = NameChunks()
        self._at = 0
        self._start: str | None = before.starts[0] if before.starts else None
        self._items: list[ListedObject] = []
        # Chunk, its digest and its objects.
        self._asked: list[tuple[int, bytes, Sequence[ListedObject]]] = []
        self._count = 0

    def add(self, objects: Sequence[ListedObject]) -> None:
        """Take the next objects; those in chunks that have changed are judged, now or later."""
        starts, last = self._before.starts, len(self._before.starts) - 1
        for item in objects:
            while self._at < last and item.name >= starts[self._at + 1]:
                self._close()
                self._at += 1
                self._start = starts[self._at]
            if len(self._items) >= MOST:
                self._close()
                self._start = item.name
            self._items.append(item)

    def _close(self) -> None:
        """End the chunk whose objects have all been taken."""
        items, self._items = self._items, []
        if not items:
            return
        length = len(items) if len(items) < 2 * LEAST else LEAST
        for begin in range(0, len(items), length):
            piece = items[begin : begin + length]
            start = (self._start if begin == 0 else None) or piece[0].name
            digest = _digest(piece)
            known = self._known(start) == digest
            self._found.add(start, digest if known else None)
            if not known:
                self._asked.append((len(self._found.starts) - 1, digest, piece))
                self._count += len(piece)
        if self._count >= ASKED:
            self.settle()

    def _known(self, start: str) -> bytes | None:
        """Return the digest of the pass before of the chunk that begins so."""
        before, at = self._before, self._at
        same = at < len(before.starts) and before.starts[at] == start
        return before.digests[at] if same else None

    def settle(self) -> None:
        """Judge what waits for it."""
        asked, self._asked, self._count = self._asked, [], 0
        if not asked:
            return
        done = iter(self._judge([item for _, _, items in asked for item in items]))
        for index, digest, items in asked:
            if all([next(done) for _ in items]):
                self._found.digests[index] = digest

    def end(self, *, complete: bool = True) -> NameChunks:
        """Return the chunks for the next pass.

        Args:
            complete: False for one that has broken off: what follows is as it was.
        """
        if complete:
            self._close()
            self.settle()
            return self._found
        before, found = self._before, self._found
        if self._start is not None:
            found.add(self._start, None)
        for at in range(self._at + 1, len(before.starts)):
            found.add(before.starts[at], before.digests[at])
        return found


def _digest(items: Sequence[ListedObject]) -> bytes:
    text = "\0".join([f"{item.name}\0{item.version}" for item in items])
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
