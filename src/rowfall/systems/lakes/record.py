"""The record of what is loaded into a table of Iceberg, which lies beside it.

``_rowfall/ID.ids`` in its folder: files of ids, each of which names the one before it. The commit
of the rows sets the table's property :data:`PROPERTY` to its own file, so rows and record become
visible in one step, and the record outlives the snapshot that came with it. Its folder begins with
an underscore: what removes orphan files (Spark's procedure) leaves such folders alone.

A file that is written is never changed. Where the newest :data:`FAN` files are of one level, the
next commit writes all of them as one file of the level above, so an id is written four times or
so, however many there are, and few files are read. Who asks for some ids reads some pages of a file
that is mapped (:mod:`rowfall.engines.id_files`), and no process holds all ids in memory.
"""

from __future__ import annotations

import json
import mmap
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from rowfall.core.errors import TargetError
from rowfall.engines.id_files import (
    EPOCH,
    ID_BYTES,
    SMALL,
    CommittedLoad,
    Drops,
    PlannedFile,
    RecordFile,
    digest_of,
    file_of,
    of_loads,
    packed,
    place_among,
)

PROPERTY = "rowfall.loaded"
"""Property of a table: the name of the newest record of what is loaded."""

FOLDER = "_rowfall"
SUFFIX = ".ids"
FAN = 32
# Ids of a file that is not written once more: a merge takes a second or two, and 30 MB of memory.
_MOST = 4_000_000
# Files of the chain with fewer ids are one set in memory, of at most some 10 MB.
_FEW = 10_000
# As files were written before ids were packed; they are left as they are.
_OLD_LEVEL = 99


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
        short = packed(id_)
        if short is None:
            return id_ in self._others
        return short in self._few or any(file.holds(short) for file in self._large)

    def has(self, attempt: str) -> bool:
        """Return whether an attempt was committed."""
        digest = digest_of(attempt)
        return any(place_among(file.attempts(), digest) >= 0 for file in self.files)

    def of_load(self, load: str) -> set[str]:
        """Return the ids that a load has loaded."""
        return {id_ for file in self.files for id_ in file.of_loads(of_loads((load,)))}

    def with_load(self, own: CommittedLoad, name: str) -> list[PlannedFile]:
        """Return the file that records a load, and what becomes one file with it.

        Args:
            name: of the file.
        """
        parts, left, level = [file_of((own,))], list(self.files), 0
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
        last = int(time.time() // 86_400) - EPOCH - days
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
    if ids is not None and ids * (ID_BYTES + 4) < SMALL:
        return RecordFile(name, read(name))
    file = opened(name)
    try:
        start = file.read(SMALL)
        if len(start) < SMALL:
            return RecordFile(name, bytes(start))
        with tempfile.TemporaryFile() as copy:
            while start:
                copy.write(start)
                start = file.read(SMALL)
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
    file = file_of(loads)
    file.name, file.before, file.level = name, said["before"], _OLD_LEVEL
    return file
