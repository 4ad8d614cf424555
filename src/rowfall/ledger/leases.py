"""Leases of splits: who may load which, and whether the process that holds one still runs.

A target that others share keeps its leases in a journal; one that this process has to itself
needs none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Protocol

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Split
from rowfall.core.model import StagingPair

_PROC = Path("/proc")


@cache
def machine_id() -> str:
    """Return a name for this boot and this space of process numbers; "" if none is known.

    Process numbers are unique only within both: two containers of one host count on their own.
    """
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        return ""


def this_process() -> str:
    """Return a name of this process for :func:`has_ended`: machine, number, and start."""
    return f"{machine_id()} {os.getpid()} {_started(os.getpid())}"


def has_ended(text: str, beside: Path | None = None) -> bool:
    """Tell whether the process that called itself ``text`` (and maybe more) has certainly ended.

    A process of another machine has not: nothing is known about it.

    Args:
        beside: the file in which it called itself so. On a file system that only this machine
            mounts, a process of another boot ran before this machine's last boot, and has ended: a
            power cut leaves loads that say that they run.
    """
    where, number, started, *_ = (*text.split(" "), "", "", "")
    if not where or not machine_id():
        return False
    if where == machine_id():
        return number.isdigit() and _started(int(number)) != started
    return beside is not None and _boot(where) != _boot(machine_id()) and not _shared(beside)


def is_of_other_pid_namespace(text: str, beside: Path) -> bool:
    """Tell whether a process of this machine called itself so under another boot or PID namespace.

    So it ran in another container, or before the last boot, and its PID says nothing here.
    """
    where = text.partition(" ")[0]
    return bool(where and machine_id()) and where != machine_id() and not _shared(beside)


def _boot(where: str) -> str:
    return where.partition("/")[0]


@cache
def _shared(file: Path) -> bool:
    return disk.is_shared(file.parent)


# Processes whose pipeline another one has taken over: their leases of files are over. The order of
# the lines of a journal decides, so a wrong guess costs them an attempt.
_PRESUMED: set[str] = set()


def presume_ended(text: str) -> None:
    """Take a process for ended that called itself so, in what journals say of it."""
    _PRESUMED.add(_process(text))


def is_presumed_ended(text: str) -> bool:
    """Tell whether :meth:`presume_ended` was told so."""
    return bool(_PRESUMED) and _process(text) in _PRESUMED


def _process(text: str) -> str:
    return " ".join(text.split(" ")[:3])


def is_running_here(text: str) -> bool:
    """Return True where a process of this machine called itself so, and certainly still runs."""
    return bool(machine_id()) and text.startswith(f"{machine_id()} ") and not has_ended(text)


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since boot; "" for none and for a zombie.

    A process number comes back after a while; together with its start it does not.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """One partition of a loaded attempt on its way from ``staging`` into ``database.table``.

    Attributes:
        rows_before: what the partition held when the attempt was counted.
        highest_block: number of the last block that the partition held then.
        node: of a cluster, the one that holds both tables, where the attempt stages on several.
        staged_at: where the files are to be seen from here, the time (ns) of the last change to
            those in staging: a part that is attached has a later one. 0: not known.
    """

    database: str
    table: str
    staging: str
    partition_id: str
    rows: int
    rows_before: int
    highest_block: int
    state: str = "pending"
    node: str = ""
    staged_at: int = 0

    @property
    def pair(self) -> StagingPair:
        return StagingPair(self.database, self.table, self.staging)


@dataclass(frozen=True, slots=True)
class Lease:
    """The answer to an attempt that asked for splits.

    Attributes:
        loaded: ids that another process has loaded.
        busy: ids that a living process holds.
        lost: attempts of dead processes that hold some of the others: expire them, ask again.
        of_lost: the ids that each of these holds.
    """

    loaded: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    of_lost: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """True where all splits were given; any other lease has to be released."""
        return not (self.loaded or self.busy or self.lost)


class Ownership(Enum):
    """Says what others have done with an attempt that this process goes on with."""

    OWN = "nothing"
    TAKEN = "expired: another process has ended its lease"
    LOADED = "published"


# Ten attempts whose order nobody knows; more of them leave the question to a person.
_MOST_SUMS = 1 << 10


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Rows that other attempts may have brought into a partition since it was counted.

    Attributes:
        least: rows that have come since.
        whole: rows of each attempt that is there and came either before the count or since.
        part: rows of attempts of which all, some or none may be there.
    """

    least: int = 0
    whole: tuple[int, ...] = ()
    part: int = 0

    @property
    def most(self) -> int:
        """Return the most rows that may have come since."""
        return self.least + sum(self.whole) + self.part

    def may_be(self, rows: int) -> bool:
        """Tell whether that many rows may have come since: some of the attempts make the sum."""
        sums = {self.least}
        for one in self.whole:
            sums |= {known + one for known in sums}
            if len(sums) > _MOST_SUMS:
                return self.least <= rows <= self.most
        return any(known <= rows <= known + self.part for known in sums)


class Leases(Protocol):
    """Grants splits to attempts and records how far these are; see :class:`Journal`."""

    def lease(self, attempt: str, splits: Sequence[Split], nodes: str = "") -> Lease: ...
    def counting(self, attempt: str) -> None: ...
    def commit(self, attempt: str, rows: int, moves: Sequence[StagedPartition]) -> bool: ...
    def loaded(self, attempt: str) -> None: ...
    def added(self, attempt: str, move: StagedPartition, node: str = "") -> AddedRows: ...
    def release(self, attempt: str) -> None: ...
    def ownership(self, attempt: str) -> Ownership: ...


class NoLeases:
    """Leases of a target that one process has to itself (a data folder, a file): all are given."""

    def lease(self, attempt: str, splits: Sequence[Split], nodes: str = "") -> Lease:
        """Give all splits."""
        return Lease()

    def counting(self, attempt: str) -> None:
        """Do nothing: nobody else changes what is counted."""

    def commit(self, attempt: str, rows: int, moves: Sequence[StagedPartition]) -> bool:
        """Return True: nobody can have expired the attempt."""
        return True

    def loaded(self, attempt: str) -> None:
        """Do nothing: the ledger is the only memory."""

    def release(self, attempt: str) -> None:
        """Do nothing: nothing is held."""

    def ownership(self, attempt: str) -> Ownership:
        """Return OWN: nobody else is there."""
        return Ownership.OWN

    def added(self, attempt: str, move: StagedPartition, node: str = "") -> AddedRows:
        """Return none: nobody else adds rows."""
        return AddedRows()
