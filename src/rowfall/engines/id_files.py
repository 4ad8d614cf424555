"""Files of the ids of splits that are loaded, as records have them that no database keeps.

A file holds 16 bytes of each id in ascending order, then the number of its load, then the loads and
attempts by their digests: who asks for some ids of a large one reads some pages of it.
"""

from __future__ import annotations

import io
import json
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from hashlib import md5
from typing import IO, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError
from rowfall.core.patterns import regex

ID_BYTES = 16
SMALL = 1 << 20
"""A larger file is mapped from a disk, and written there first."""
EPOCH = 18_262
"""2020-01-01 in days since 1970."""
# Ids that are merged at the same time.
_SLICE = 50_000
_MAGIC = b"rowfall ids 1\n"
_LOAD, _DAY = 16, 2
_HEX = regex(r"[0-9a-f]{32}")

Drops = Callable[[bytes, int], bool]


def packed(id_: str) -> bytes | None:
    """Return an id as 16 bytes; None for one that tells a range, or is of a load by force."""
    return bytes.fromhex(id_) if _HEX.fullmatch(id_) else None


@dataclass(frozen=True, slots=True)
class CommittedLoad:
    """Tells what one commit records.

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
        self._marks = self._ids + self.ids * ID_BYTES
        self._loads = self._marks + self.ids * self._width
        self._attempts = self._loads + self.loads * (_LOAD + _DAY)

    def id_at(self, index: int) -> bytes:
        at = self._ids + index * ID_BYTES
        return bytes(self._data[at : at + ID_BYTES])

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

    def id_bytes(self) -> bytes:
        """Return all ids of 16 bytes, one behind the other."""
        return bytes(self._data[self._ids : self._marks])

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

    def attempt_digests(self) -> Iterator[bytes]:
        found = self.attempts()
        return (found[at : at + _LOAD] for at in range(0, len(found), _LOAD))

    def of_loads(self, takes: Drops) -> Iterator[str]:
        """Yield the ids of those loads that are told by their digests and days."""
        numbers = {n for n, one in enumerate(self.load_digests()) if takes(*one)}
        if numbers:
            for index in range(self.ids):
                if self.load_of(index) in numbers:
                    yield self.id_at(index).hex()
            yield from (text for text, number in self.others if number in numbers)

    def content(self) -> bytes:
        return bytes(self._data)

    def part(self, low: int, high: int, marks: Sequence[bytes | None]) -> list[bytes]:
        """Return ids with the mark of their load, but those of loads that have none.

        Args:
            low, high: of the ids, as numbers.
        """
        start, width = self._ids, self._width
        data = self._data[start + low * ID_BYTES : start + high * ID_BYTES]
        ids = (data[at : at + ID_BYTES] for at in range(0, len(data), ID_BYTES))
        if not width:
            mark = marks[0] if marks else None
            return [] if mark is None else [id_ + mark for id_ in ids]
        own = self._data[self._marks + low * width : self._marks + high * width]
        numbers = (own[at : at + width] for at in range(0, len(own), width))
        found = (marks[int.from_bytes(number, "little")] for number in numbers)
        return [id_ + mark for id_, mark in zip(ids, found, strict=True) if mark is not None]


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
        return sum(part.ids for part in self.parts) * (ID_BYTES + 4) > SMALL

    def write(self, into: IO[bytes]) -> None:
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
                own_ids.write(b"".join(entry[:ID_BYTES] for entry in entries))
                own_marks.write(b"".join(entry[ID_BYTES:] for entry in entries))
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
                while piece := own_file.read(SMALL):
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
            yield sorted({entry[:ID_BYTES]: entry for entry in entries}.values())


def file_of(loads: Sequence[CommittedLoad]) -> RecordFile:
    """Return a file with loads that is not written."""
    width = (max(0, len(loads) - 1).bit_length() + 7) // 8
    short: dict[bytes, bytes] = {}
    others: dict[str, int] = {}
    for number, one in enumerate(loads):
        mark = number.to_bytes(width, "little")
        for id_ in one.ids:
            if (one_id := packed(id_)) is not None:
                short[one_id] = mark
            else:
                others[id_] = number
    days = [_day(one.at) for one in loads]
    header = {
        "before": "", "before_ids": 0, "end": "", "level": 0, "ids": len(short),
        "loads": len(loads), "width": width, "newest": max(days, default=0),
        "others": list(others.items()),
    }  # fmt: skip
    ordered = sorted(short)
    return RecordFile("", b"".join((
        _MAGIC, json.dumps(header).encode(), b"\n", *ordered, *(short[id_] for id_ in ordered),
        *(digest_of(one.load) + day.to_bytes(_DAY, "little")
          for one, day in zip(loads, days, strict=True)),
        *(digest_of(attempt) for one in loads for attempt in one.attempts),
    )))  # fmt: skip


def of_loads(loads: Collection[str]) -> Drops:
    """Return what tells loads by their names."""
    digests = {digest_of(load) for load in loads}
    return lambda digest, _: digest in digests


def file_bytes(planned: PlannedFile) -> bytes:
    """Return the bytes of a file that is not large."""
    into = io.BytesIO()
    planned.write(into)
    return into.getvalue()


def _spooled() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(SMALL)


def digest_of(text: str) -> bytes:
    return md5(text.encode(), usedforsecurity=False).digest()


def place_among(values: bytes | bytearray, one: bytes) -> int:
    """Return the offset of one of many values of the same length; -1 where it is none of them."""
    at = values.find(one)
    while at > 0 and at % len(one):
        at = values.find(one, at + 1)
    return at


def _day(at: str) -> int:
    """Return the day of a time since 2020; 0 where there is none."""
    return max(0, datetime.fromisoformat(at).toordinal() - 719_163 - EPOCH) if at else 0
