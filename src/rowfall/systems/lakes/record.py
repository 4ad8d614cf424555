"""The record of what is loaded into a table of Iceberg, which lies beside it.

``_rowfall/ID.json`` in its folder, one file for each commit, with the ids of the splits and the
name of the record before it. The commit of the rows sets the table's property :data:`PROPERTY` to
its own record, so rows and record become visible in one step, and the record outlives the snapshot
that came with it. Its folder begins with an underscore: what removes orphan files (Spark's
procedure) leaves such folders alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import TargetError

PROPERTY = "rowfall.loaded"
"""Property of a table: the name of the newest record of what is loaded."""

FOLDER = "_rowfall"
# A record with fewer ids is written once more, with the next one: the chain that is read stays
# short, and no commit writes more than 400 kB of what is known already.
_FULL = 10_000


@dataclass(frozen=True, slots=True)
class CommittedLoad:
    """Entry of the record about one load.

    Attributes:
        attempts: that were committed; ``ids`` of the splits.
    """

    attempts: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    rows: int = 0
    at: str = ""

    def joined(self, other: CommittedLoad) -> CommittedLoad:
        """Return both as one."""
        return CommittedLoad(
            (*self.attempts, *other.attempts), tuple(dict.fromkeys((*self.ids, *other.ids))),
            self.rows + other.rows, max(self.at, other.at),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LakeRecord:
    """Loads that a chain of files records.

    Attributes:
        name: of the newest file, "" for none. ``before``: of the one before it.
        head: loads of the newest file. ``older``: of all files before it.
    """

    name: str = ""
    head: Mapping[str, CommittedLoad] = field(default_factory=dict)
    before: str = ""
    older: Sequence[Mapping[str, CommittedLoad]] = ()

    def loads(self) -> Iterator[tuple[str, CommittedLoad]]:
        for part in (self.head, *self.older):
            yield from part.items()

    def ids(self) -> set[str]:
        return {id_ for _, one in self.loads() for id_ in one.ids}

    def has(self, attempt: str) -> bool:
        """Return whether an attempt was committed."""
        return any(attempt in one.attempts for _, one in self.loads())

    def with_load(self, load: str, own: CommittedLoad) -> tuple[dict[str, CommittedLoad], str]:
        """Return the loads of the next file and the name of the one before it."""
        if sum(len(one.ids) for one in self.head.values()) >= _FULL:
            return {load: own}, self.name
        known = self.head.get(load)
        return {**self.head, load: known.joined(own) if known else own}, self.before

    def without(self, load: str) -> dict[str, CommittedLoad]:
        """Return all other loads, for one file that stands for the whole chain."""
        kept: dict[str, CommittedLoad] = {}
        for name, one in self.loads():
            if name != load:
                kept[name] = kept[name].joined(one) if name in kept else one
        return kept


class RecordGoneError(TargetError):
    """A file of the record is gone.

    Attributes:
        name: of the file. ``left``: what the files say that are there, as one that is not written.
    """

    def __init__(self, name: str, left: LakeRecord) -> None:
        super().__init__(
            f"the record of what is loaded is gone: {name}",
            hint="Put it back; the next load into the table says what else can be done.",
        )
        self.name, self.left = name, left


def read_record(newest: str, read: Callable[[str], bytes]) -> LakeRecord:
    """Read the record of loads from a chain of files, of which each names the one before.

    Args:
        newest: name of the newest file, "" for none.

    Raises:
        RecordGoneError: ``read`` has raised FileNotFoundError.
    """
    parts: list[Mapping[str, CommittedLoad]] = []
    name, before = newest, ""
    while name:
        try:
            data = json.loads(read(name))
        except FileNotFoundError:
            left = LakeRecord(head=LakeRecord(older=parts).without(""))
            raise RecordGoneError(name, left) from None
        parts.append({
            load: CommittedLoad(
                tuple(one["attempts"]), tuple(one["splits"]), one["rows"], one["at"]
            )
            for load, one in data["loads"].items()
        })  # fmt: skip
        name = data["before"]
        before = before if len(parts) > 1 else name
    return LakeRecord(newest, parts[0] if parts else {}, before, tuple(parts[1:]))


def record_file(loads: Mapping[str, CommittedLoad], before: str) -> bytes:
    """Return one file of the chain."""
    return json.dumps({"before": before, "loads": {
        load: {"attempts": one.attempts, "splits": one.ids, "rows": one.rows, "at": one.at}
        for load, one in loads.items()
    }}).encode()  # fmt: skip
