"""A set of ids of 16 bytes that is kept in temporary files: many take no more memory than few.

Ids come in batches. A batch is a *run*: sorted ids that are in the set from then on, or no longer.
Where the newest :data:`_FAN` runs are of one level, they become one of the next, so an id is
written two or three times, however many there are. Of a file every 1,024th id is in memory, so who
asks for an id reads 16 kB of each run: 35 of them are a hundred million ids.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.engines.id_files import ID_BYTES, place_among

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Runs of one level that become one. Those of the first are batches in memory, of 320 kB at most.
_FAN = 16
# Ids of a run that is not written once more: it is there twice for some seconds, in 1 GB.
_MOST = 32_000_000
# Ids from one in memory to the next: 0.8 MB for a hundred million.
_BLOCK = 1024
# Ids that are merged at the same time: with what sorting them takes some 10 MB.
_SLICE = 1 << 17
# Blocks that are read together where most of them are asked for.
_TOGETHER = 64
_TYPE = f"S{ID_BYTES}"


class _SortedIds:
    """Ids in ascending order, in memory or in a file.

    Args:
        ids: all of them; every 1,024th where they are in a file.
    """

    def __init__(self, ids: NDArray[Any], count: int = 0, file: IO[bytes] | None = None) -> None:
        self.count = count if file is not None else len(ids)
        self.samples = ids if file is not None else ids[::_BLOCK]
        self._ids, self._file = ids, file
        if file is not None:  # whoever still reads a run that was merged keeps it
            weakref.finalize(self, file.close)

    def part(self, low: int, high: int) -> NDArray[Any]:
        """Return the ids from one place to before another."""
        import numpy as np

        if self._file is None:
            return self._ids[low:high]
        return np.frombuffer(self._bytes(low, high), _TYPE)

    def _bytes(self, low: int, high: int) -> bytes:
        assert self._file is not None  # noqa: S101 - ids in memory are not read
        high = min(high, self.count)
        return os.pread(self._file.fileno(), (high - low) * ID_BYTES, low * ID_BYTES)

    def place(self, id_: Any) -> int:
        """Return the number of ids that are less than one."""
        import numpy as np

        block = int(np.searchsorted(self.samples, id_))
        if not block:
            return 0
        low = (block - 1) * _BLOCK
        own = self.part(low, min(self.count, low + _BLOCK))
        return low + int(np.searchsorted(own, id_))

    def among(self, ids: NDArray[Any]) -> NDArray[Any]:
        """Tell of each of some ids, in ascending order, whether it is one of these."""
        import numpy as np

        found = np.zeros(len(ids), bool)
        if not self.count:
            return found
        if self._file is None:
            return _equal(self._ids, ids)
        blocks = np.searchsorted(self.samples, ids, side="right") - 1
        if len(ids) < len(self.samples):
            for at in np.flatnonzero(blocks >= 0).tolist():
                low = int(blocks[at]) * _BLOCK
                block = self._bytes(low, low + _BLOCK)
                found[at] = place_among(block, bytes(ids[at]).ljust(ID_BYTES, b"\0")) >= 0
            return found
        at = int(np.searchsorted(blocks, 0))
        while at < len(ids):
            first = int(blocks[at])
            end = at + int(np.searchsorted(blocks[at:], first + _TOGETHER))
            own = self.part(first * _BLOCK, min(self.count, (first + _TOGETHER) * _BLOCK))
            found[at:end] = _equal(own, ids[at:end])
            at = end
        return found


def _equal(ids: NDArray[Any], asked: NDArray[Any]) -> NDArray[Any]:
    """Tell of each of ``asked`` whether it is one of some ids in ascending order, not none."""
    import numpy as np

    places = np.minimum(np.searchsorted(ids, asked), len(ids) - 1)
    same: NDArray[Any] = ids[places] == asked
    return same


@dataclass(frozen=True, slots=True)
class _Run:
    """Ids that were added to the set, and those that were removed from what was before."""

    level: int
    added: _SortedIds
    removed: _SortedIds

    @property
    def count(self) -> int:
        return self.added.count + self.removed.count


class IdSet:
    """Ids of 16 bytes. One thread changes it at a time; others may ask meanwhile."""

    def __init__(self) -> None:
        self._runs: tuple[_Run, ...] = ()  # the oldest first

    def add(self, ids: bytes) -> None:
        """Add ids, given one behind the other.

        Raises:
            TargetError: the temporary folder takes no more.
        """
        self._push(ids, b"")

    def discard(self, ids: bytes) -> None:
        """Remove ids, given one behind the other, where they are there.

        Raises:
            TargetError: the temporary folder takes no more.
        """
        if self._runs:
            self._push(b"", ids)

    def _push(self, added: bytes, removed: bytes) -> None:
        import numpy as np

        if not added and not removed:
            return
        ids = [_SortedIds(np.unique(np.frombuffer(some, _TYPE))) for some in (added, removed)]
        runs = [*self._runs, _Run(0, *ids)]
        while (tail := runs[-_FAN:]) and len(tail) == _FAN:
            level = tail[-1].level
            if tail[0].level != level or sum(run.count for run in tail) > _MOST:
                break
            runs[-_FAN:] = [_merged(tail, level + 1, is_oldest=len(runs) == _FAN)]
        self._runs = tuple(runs)

    def among(self, ids: Collection[bytes]) -> set[bytes]:
        """Return those of some ids that are in the set."""
        import numpy as np

        runs, found = self._runs, set[bytes]()
        left = np.sort(np.array(list(ids), _TYPE)) if ids and runs else np.array([], _TYPE)
        for run in reversed(runs):
            there = run.added.among(left)
            found |= _texts(left[there])
            left = left[~(there | run.removed.among(left))]
        return found

    def __contains__(self, id_: bytes) -> bool:
        return bool(self.among((id_,)))

    def __iter__(self) -> Iterator[bytes]:
        for added, _ in _slices(self._runs):
            yield from _texts(added)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None


def _texts(ids: NDArray[Any]) -> set[bytes]:
    """Return ids with the zeros at their end, which numpy takes off."""
    return {id_.ljust(ID_BYTES, b"\0") for id_ in ids.tolist()}


def _slices(runs: Sequence[_Run]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield in ascending order, some at a time, what runs add and what they remove, as one."""
    import numpy as np

    parts = [part for run in runs for part in (run.removed, run.added) if part.count]
    if not parts:
        return
    adds = np.array([part is run.added for run in runs for part in (run.removed, run.added)
                     if part.count])  # fmt: skip
    samples = np.sort(np.concatenate([part.samples for part in parts]), kind="stable")
    step = _SLICE // _BLOCK
    lows = [0] * len(parts)
    for bound in [*samples[step::step], None]:
        highs = [part.count if bound is None else part.place(bound) for part in parts]
        pieces = [part.part(*ends) for part, *ends in zip(parts, lows, highs, strict=True)]
        lows = highs
        ids = np.concatenate(pieces)
        if not len(ids):
            continue
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        # Of an id that several runs tell of the newest counts.
        newest = np.append(ids[1:] != ids[:-1], True)
        is_added = np.repeat(adds, [len(piece) for piece in pieces])[order][newest]
        ids = ids[newest]
        yield ids[is_added], ids[~is_added]


def _merged(runs: Sequence[_Run], level: int, *, is_oldest: bool) -> _Run:
    added, removed = _Writer(), _Writer()
    for more, less in _slices(runs):
        added.write(more)
        if not is_oldest:  # there is nothing that they could be removed from
            removed.write(less)
    return _Run(level, added.done(), removed.done())


class _Writer:
    """Writes sorted ids into a temporary file, where there are some."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._samples: list[NDArray[Any]] = []
        self._count = 0

    def write(self, ids: NDArray[Any]) -> None:
        if not len(ids):
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="rowfall-ids-")  # noqa: SIM115 - lives with its reads
            self._file.write(ids.tobytes())
            self._file.flush()
        except OSError as error:
            if self._file is not None:
                self._file.close()
            raise TargetError(
                f"cannot write what is loaded into {tempfile.gettempdir()}: "
                f"{(error.strerror or str(error)).lower()}",
                hint="Make room (16 bytes for each loaded object), or name another folder with "
                "the variable TMPDIR.",
            ) from error
        self._samples.append(ids[-self._count % _BLOCK :: _BLOCK].copy())
        self._count += len(ids)

    def done(self) -> _SortedIds:
        """Return what was written."""
        import numpy as np

        if self._file is None:
            return _SortedIds(np.array([], _TYPE))
        return _SortedIds(np.concatenate(self._samples), self._count, self._file)
