"""The record of what is loaded into a table of Iceberg, which lies beside it.

``_rowfall/ID.ids`` in its folder: files of ids, each of which names the one before it. The commit
of the rows sets the table's property :data:`PROPERTY` to its own file, so rows and record become
visible in one step, and the record outlives the snapshot that came with it. Its folder begins with
an underscore: what removes orphan files (Spark's procedure) leaves such folders alone.

A file that is written is never changed. Where the newest :data:`FAN` files are of one level, the
next commit writes all of them as one file of the level above, so an id is written four times or
so, however many there are, and few files are read. A file holds 16 bytes of each id in ascending
order, then the number of its load, then the loads and attempts by their digests: who asks for some
ids reads some pages of a file that is mapped, and no process holds all ids in memory.
"""

from __future__ import annotations

import io
import json
import mmap
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from hashlib import md5
from itertools import chain
from typing import IO, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.patterns import regex

PROPERTY = "rowfall.loaded"
"""Property of a table: the name of the newest record of what is loaded."""

FOLDER = "_rowfall"
SUFFIX = ".ids"
FAN = 32
# Ids of a file that is not written once more: a merge takes a second or two, and 30 MB of memory.
_MOST = 4_000_000
# Files of the chain with fewer ids are one set in memory, of at most some 10 MB.
_FEW = 10_000
# Larger files are mapped from a disk; ids that are merged at the same time.
_SMALL, _SLICE = 1 << 20, 50_000
_MAGIC = b"rowfall ids 1\n"
_ID, _LOAD, _DAY = 16, 16, 2
# As files were written before ids were packed; they are left as they are.
_OLD_LEVEL = 99
_HEX = regex(r"[0-9a-f]{32}")
_EPOCH = 18_262  # 2020-01-01 in days since 1970

Drops = Callable[[bytes, int], bool]


@dataclass(frozen=True, slots=True)
class CommittedLoad:
    """What one commit records.

    Attributes:
        attempts: that are committed; ``ids`` of the splits. ``at``: time in ISO 8601.
    """

    load: str
    attempts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    rows: int = 0
    at: str = ""


class RecordFile:
    """One file of the record.

    Attributes:
        name: "" of one that is not written. ``before``: name of the file before it, "" for none.
        end: as long as this is the newest file, the name of one that is forgotten with all before.
        level: of files that may become one with it. ``ids``: how many ids of 16 bytes.
        others: texts of ids that are no 16 bytes, with the number of their load.
        newest: day of its last load, since 2020.
    """

    def __init__(self, name: str, data: Any) -> None:
        self.name, self._data = name, data
        start = len(_MAGIC)
        if data[:start] != _MAGIC:
            raise TargetError(f"{name} is no record of loads", hint="Put back the file that was.")
        end = data.find(b"\n", start)
        said = json.loads(data[start:end])
        self.before, self.before_ids = str(said["before"]), int(said["before_ids"])
        self.end = str(said["end"])
        self.level, self.ids, self.loads = int(said["level"]), int(said["ids"]), int(said["loads"])
        self.newest = int(said["newest"])
        self.others: list[tuple[str, int]] = [(text, load) for text, load in said["others"]]
        self._width, self._ids = int(said["width"]), end + 1
        self._marks = self._ids + self.ids * _ID
        self._loads = self._marks + self.ids * self._width
        self._attempts = self._loads + self.loads * (_LOAD + _DAY)

    def id_at(self, index: int) -> bytes:
        at = self._ids + index * _ID
        return bytes(self._data[at : at + _ID])

    def place(self, id_: bytes) -> int:
        """Return the number of ids that are less than one."""
        return bisect_left(range(self.ids), id_, key=self.id_at)

    def holds(self, id_: bytes) -> bool:
        # Ids are digests: the first bits tell where one is, to within some hundreds.
        near = int.from_bytes(id_[:8], "big") * self.ids >> 64
        low, high, step = near, near, 64
        while low > 0 and self.id_at(low) > id_:
            low, step = max(0, low - step), 2 * step
        step = 64
        while high < self.ids and self.id_at(high) < id_:
            high, step = min(self.ids, high + step), 2 * step
        at = bisect_left(range(self.ids), id_, low, min(self.ids, high + 1), key=self.id_at)
        return at < self.ids and self.id_at(at) == id_

    def all_ids(self) -> Iterator[bytes]:
        return map(self.id_at, range(self.ids))

    def load_of(self, index: int) -> int:
        at = self._marks + index * self._width
        return int.from_bytes(self._data[at : at + self._width], "little")

    def load_digests(self) -> Iterator[tuple[bytes, int]]:
        """Yield the digest and the day of each load, in the order of their numbers."""
        for at in range(self._loads, self._attempts, _LOAD + _DAY):
            digest = bytes(self._data[at : at + _LOAD])
            yield digest, int.from_bytes(self._data[at + _LOAD : at + _LOAD + _DAY], "little")

    def attempts(self) -> bytes:
        """Return the digests of all attempts."""
        return bytes(self._data[self._attempts :])

    def of_load(self, load: str) -> Iterator[str]:
        """Yield the ids that a load has loaded."""
        numbers = {n for n, (one, _) in enumerate(self.load_digests()) if one == _digest(load)}
        if numbers:
            for index in range(self.ids):
                if self.load_of(index) in numbers:
                    yield self.id_at(index).hex()
            yield from (text for text, number in self.others if number in numbers)

    def part(self, low: int, high: int, marks: Sequence[bytes | None]) -> list[bytes]:
        """Return ids with the mark of their load, but those of loads that have none.

        Args:
            low, high: of the ids, as numbers.
        """
        ids, width = self._data[self._ids + low * _ID : self._ids + high * _ID], self._width
        if not width:
            mark = marks[0] if marks else None
            return (
                [] if mark is None else [ids[a : a + _ID] + mark for a in range(0, len(ids), _ID)]
            )
        own = self._data[self._marks + low * width : self._marks + high * width]
        found = (marks[int.from_bytes(own[a : a + width], "little")]
                 for a in range(0, len(own), width))  # fmt: skip
        return [
            ids[n * _ID : (n + 1) * _ID] + mark for n, mark in enumerate(found) if mark is not None
        ]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is to be written, behind others.

    Attributes:
        parts: files that become it. ``drops``: tells loads that do not, by digest and day.
        said: what people who open it read of the commit.
    """

    name: str
    parts: tuple[RecordFile, ...]
    level: int
    before: str = ""
    before_ids: int = 0
    end: str = ""
    drops: Drops | None = None
    said: CommittedLoad | None = None

    @property
    def is_large(self) -> bool:
        return sum(part.ids for part in self.parts) * (_ID + 4) > _SMALL

    def write(self, into: IO[bytes]) -> None:
        """Write the file."""
        numbers: dict[tuple[bytes, int], int] = {}
        taken: list[list[int | None]] = [
            [
                None if self.drops is not None and self.drops(*one)
                else numbers.setdefault(one, len(numbers))
                for one in part.load_digests()
            ]
            for part in self.parts
        ]  # fmt: skip
        width = (max(0, len(numbers) - 1).bit_length() + 7) // 8
        others = {
            text: own[number] for part, own in zip(self.parts, taken, strict=True)
            for text, number in part.others if own[number] is not None
        }  # fmt: skip
        marks = [[None if n is None else n.to_bytes(width, "little") for n in own] for own in taken]
        ids = 0
        with _spooled() as own_ids, _spooled() as own_marks:
            for entries in self._slices(marks):
                ids += len(entries)
                own_ids.write(b"".join(entry[:_ID] for entry in entries))
                own_marks.write(b"".join(entry[_ID:] for entry in entries))
            header: dict[str, object] = {
                "before": self.before, "before_ids": self.before_ids, "end": self.end,
                "level": self.level, "ids": ids, "loads": len(numbers), "width": width,
                "newest": max((day for _, day in numbers), default=0),
                "others": list(others.items()),
            }  # fmt: skip
            if self.said is not None:
                header["commit"] = {
                    "load": self.said.load, "attempts": self.said.attempts,
                    "rows": self.said.rows, "at": self.said.at,
                }  # fmt: skip
            into.write(_MAGIC + json.dumps(header, separators=(",", ":")).encode() + b"\n")
            for own_file in (own_ids, own_marks):
                own_file.seek(0)
                while piece := own_file.read(_SMALL):
                    into.write(piece)
        into.write(b"".join(digest + day.to_bytes(_DAY, "little") for digest, day in numbers))
        into.writelines(part.attempts() for part in self.parts)

    def _slices(self, marks: Sequence[Sequence[bytes | None]]) -> Iterator[list[bytes]]:
        """Yield entries in ascending order, some at a time; of an id that is there twice one."""
        most = sum(part.ids for part in self.parts)
        steps = -(-most // _SLICE)
        lows = [0] * len(self.parts)
        for step in range(1, steps + 1):
            highs = [part.ids for part in self.parts]
            if step < steps:
                bound = ((step << 64) // steps).to_bytes(8, "big")
                highs = [part.place(bound) for part in self.parts]
            entries: list[bytes] = []
            for part, low, high, own in zip(self.parts, lows, highs, marks, strict=True):
                entries += part.part(low, high, own)
            lows = highs
            yield sorted({entry[:_ID]: entry for entry in entries}.values())


class LakeRecord:
    """Loads that a chain of files records.

    Attributes:
        name: of the newest file, "" for none. ``files``: the newest first.
        broken: the file before the last of them is gone.
    """

    def __init__(self, files: Sequence[RecordFile] = (), *, broken: bool = False) -> None:
        self.files, self.broken = tuple(files), broken
        self.name = self.files[0].name if self.files else ""
        few = [file for file in self.files if file.ids <= _FEW]
        self._few = frozenset(chain.from_iterable(file.all_ids() for file in few))
        self._large = [file for file in self.files if file.ids > _FEW]
        self._others = {text for file in self.files for text, _ in file.others}

    def others(self) -> set[str]:
        """Return the ids that are no 16 bytes: ranges of streams, and loads by force."""
        return self._others

    def ids(self) -> set[str]:
        found = {id_.hex() for file in self.files for id_ in file.all_ids()}
        return found | self._others

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids that are recorded."""
        return {id_ for id_ in ids if self._holds(id_)}

    def _holds(self, id_: str) -> bool:
        if not _HEX.fullmatch(id_):
            return id_ in self._others
        packed = bytes.fromhex(id_)
        return packed in self._few or any(file.holds(packed) for file in self._large)

    def has(self, attempt: str) -> bool:
        """Return whether an attempt was committed."""
        digest = _digest(attempt)
        return any(_aligned(file.attempts(), digest) for file in self.files)

    def of_load(self, load: str) -> set[str]:
        """Return the ids that a load has loaded."""
        return {id_ for file in self.files for id_ in file.of_load(load)}

    def with_load(self, own: CommittedLoad, name: str) -> list[PlannedFile]:
        """Return the file that records a load, and what becomes one file with it.

        Args:
            name: of the file.
        """
        parts, left, level = [_file_of((own,))], list(self.files), 0
        if self.broken:  # one file stands for what is left
            return [PlannedFile(name, (*parts, *left), _OLD_LEVEL, said=own)]
        while True:
            ids, same = sum(part.ids for part in parts), list[RecordFile]()
            for file in left:
                ids += file.ids
                if file.level != level or ids > _MOST or len(same) == FAN - 1:
                    break
                same.append(file)
            if len(same) < FAN - 1:
                break
            parts, left, level = [*parts, *same], left[len(same) :], level + 1
        before, before_ids = (left[0].name, left[0].ids) if left else ("", 0)
        return [PlannedFile(name, tuple(parts), level, before, before_ids, self.end, said=own)]

    @property
    def end(self) -> str:
        return self.files[0].end if self.files else ""

    def forgotten(self, days: int, name: str) -> tuple[list[PlannedFile], list[str]]:
        """Return a file behind which the record ends earlier, and the names of those that go.

        They are files of loads that were all committed more than so many days ago; () for none.
        """
        last = int(time.time() // 86_400) - _EPOCH - days
        kept = list(self.files)
        while kept and kept[-1].newest < last:
            kept.pop()
        gone = [file.name for file in self.files[len(kept) :]]
        if not gone:
            return [], []
        before, before_ids = (kept[0].name, kept[0].ids) if kept else ("", 0)
        return [PlannedFile(name, (), 0, before, before_ids, gone[0])], gone

    def without(self, drops: Drops, names: Callable[[], str]) -> list[PlannedFile]:
        """Return the files that say the same of all loads but some.

        Files before the first that says something of them stay as they are.

        Args:
            drops: tells them by digest and day. ``names``: gives names of files.
        """
        planned: list[PlannedFile] = []
        before, before_ids = "", 0
        for file in reversed(self.files):
            if not planned and not any(drops(*one) for one in file.load_digests()):
                before, before_ids = file.name, file.ids
                continue
            name = names()
            planned.append(
                PlannedFile(name, (file,), file.level, before, before_ids, self.end, drops)
            )
            before, before_ids = name, file.ids
        return planned


class RecordGoneError(TargetError):
    """A file of the record is gone.

    Attributes:
        name: of the file. ``left``: what the files say that are there, as files to be written.
    """

    def __init__(self, name: str, left: LakeRecord) -> None:
        super().__init__(
            f"the record of what is loaded is gone: {name}",
            hint="Put it back; the next load into the table says what else can be done.",
        )
        self.name, self.left = name, left


def read_record(newest: str, read: Callable[[str, int | None], RecordFile]) -> LakeRecord:
    """Read the record of loads from a chain of files, of which each names the one before.

    Args:
        newest: name of the newest file, "" for none.
        read: gives a file by its name, and the ids that it has at most where that is known.

    Raises:
        RecordGoneError: ``read`` has raised FileNotFoundError.
    """
    files: list[RecordFile] = []
    name, ids = newest, None
    while name:
        try:
            files.append(read(name, ids))
        except FileNotFoundError:
            raise RecordGoneError(name, LakeRecord(files, broken=True)) from None
        name, ids = files[-1].before, files[-1].before_ids
        if name == files[0].end:
            break
    return LakeRecord(files)


def read_file(name: str, ids: int | None, read: Callable[[str], bytes],
              opened: Callable[[str], Any]) -> RecordFile:  # fmt: skip
    """Read one file of the record; a large one is mapped, from a copy that goes with the process.

    Args:
        ids: that it has at most, None where that is not known.

    Raises:
        FileNotFoundError: there is none.
    """
    if not name.endswith(SUFFIX):
        return old_file(name, read(name))
    if ids is not None and ids * (_ID + 4) < _SMALL:
        return RecordFile(name, read(name))
    file = opened(name)
    try:
        start = file.read(_SMALL)
        if len(start) < _SMALL:
            return RecordFile(name, bytes(start))
        with tempfile.TemporaryFile() as copy:
            while start:
                copy.write(start)
                start = file.read(_SMALL)
            copy.flush()
            return RecordFile(name, mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ))
    finally:
        file.close()


def old_file(name: str, data: bytes) -> RecordFile:
    """Return a file of JSON, as it was written before ids were packed."""
    said = json.loads(data)
    loads = [
        CommittedLoad(load, tuple(o["attempts"]), tuple(o["splits"]), o["rows"], o["at"])
        for load, o in said["loads"].items()
    ]
    file = _file_of(loads)
    file.name, file.before, file.level = name, said["before"], _OLD_LEVEL
    return file


def _file_of(loads: Sequence[CommittedLoad]) -> RecordFile:
    """Return a file with loads that is not written."""
    width = (max(0, len(loads) - 1).bit_length() + 7) // 8
    packed: dict[bytes, bytes] = {}
    others: dict[str, int] = {}
    for number, one in enumerate(loads):
        mark = number.to_bytes(width, "little")
        for id_ in one.ids:
            if _HEX.fullmatch(id_):
                packed[bytes.fromhex(id_)] = mark
            else:
                others[id_] = number
    days = [_day(one.at) for one in loads]
    header = {
        "before": "", "before_ids": 0, "end": "", "level": 0, "ids": len(packed),
        "loads": len(loads), "width": width, "newest": max(days, default=0),
        "others": list(others.items()),
    }  # fmt: skip
    ordered = sorted(packed)
    return RecordFile("", b"".join((
        _MAGIC, json.dumps(header).encode(), b"\n", *ordered, *(packed[id_] for id_ in ordered),
        *(_digest(one.load) + day.to_bytes(_DAY, "little")
          for one, day in zip(loads, days, strict=True)),
        *(_digest(attempt) for one in loads for attempt in one.attempts),
    )))  # fmt: skip


def of_loads(loads: Collection[str]) -> Drops:
    """Return what tells loads by their names."""
    digests = {_digest(load) for load in loads}
    return lambda digest, _: digest in digests


def file_bytes(planned: PlannedFile) -> bytes:
    """Return the bytes of a file that is not large."""
    into = io.BytesIO()
    planned.write(into)
    return into.getvalue()


def _spooled() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(_SMALL)


def _digest(text: str) -> bytes:
    return md5(text.encode(), usedforsecurity=False).digest()


def _aligned(digests: bytes, one: bytes) -> bool:
    at = digests.find(one)
    while at > 0 and at % _LOAD:
        at = digests.find(one, at + 1)
    return at >= 0


def _day(at: str) -> int:
    """Return the day of a time since 2020; 0 where there is none."""
    return max(0, datetime.fromisoformat(at).toordinal() - 719_163 - _EPOCH) if at else 0
