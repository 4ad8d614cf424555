"""Ids of what was loaded long ago, 26 bytes each, in tables beside the record of a database.

A line of the record has the name of its file, its load and its attempt: 90 to 360 bytes. Ids whose
load has ended for long say nothing more than that they are loaded, so they are packed, some 36 in a
row of a table. Ids are digests, evenly spread: a *run* of them is cut by their first bits into
buckets, so that a question about an id reads one row of each run. What is packed at one moment is a
run; four runs of one size become one, a range of buckets at a time, so that there are few, no
transaction is long, and each id is written about eight times in all. A crash in the middle leaves
both, each with a part of the buckets, and the next one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import md5
from itertools import groupby

from rowfall.core.dataclass import dataclass

IDS, RUNS = "_rowfall_packed", "_rowfall_packed_runs"
"""The tables: buckets of ids, and their runs with the tables that they are about."""

ID_BYTES, _LOAD_BYTES, _DAY_BYTES = 16, 8, 2
_MARK_BYTES = _LOAD_BYTES + _DAY_BYTES
# Ids of a bucket, between a half of it and this on average. What a row costs besides is 70 bytes in
# PostgreSQL; a row of more than 2,000 bytes would go to a table of its own there.
_MOST_MEAN = 48
# Runs of one size that become one: with 4, of 100 million ids there are 10 runs or so to be asked.
_FAN = 4
# Buckets of each run in one transaction: some 40,000 ids, 1 MB and a tenth of a second.
_STEP = 256
# Rows and bytes of one INSERT: 1 MB in hexadecimal digits is taken by every server.
_ROWS_AT_ONCE = 512
# Places of one question, which DuckDB finds by its index only where they are few; and ids at once.
_PLACES_AT_ONCE, _IDS_AT_ONCE = 1_000, 2_000
# How long runs are merged each time that ids were packed: what comes waits for it.
MERGE_SECONDS = 1.0
_EPOCH = 18_262  # 2020-01-01 in days since 1970

Rows = Callable[[str], list[tuple[object, ...]]]


@dataclass(frozen=True, slots=True)
class PackedId:
    """An id that is to be packed.

    Attributes:
        id: 16 bytes. ``load``: that has loaded it. ``day``: since 1970.
    """

    id: bytes
    load: str
    day: int

    def entry(self) -> bytes:
        """Return it as it is kept: the load as a digest, since whoever forgets one knows its id."""
        day = max(0, self.day - _EPOCH).to_bytes(_DAY_BYTES, "big")
        return self.id + load_digest(self.load) + day


@dataclass(frozen=True, slots=True)
class IdRun:
    """Ids in buckets by their first bits.

    Attributes:
        into: the run that this one becomes a part of, 0 for none. ``ids``: how many, at most.
        oldest: day of the first of them, since 2020. ``steps``: changes, so that who reads sees
            that there were some.
    """

    number: int
    bits: int
    ids: int
    oldest: int
    into: int = 0
    steps: int = 0


class PackedTables:
    """Statements about the tables, on one connection.

    Args:
        rows: runs a statement, and returns its rows; () of what gives none.
        ids, runs: names of the tables as SQL. ``of``: says which table runs are about, as SQL.
        blob: writes hexadecimal digits as a value of bytes.
    """

    def __init__(
        self, rows: Rows, ids: str, runs: str, of: str, blob: Callable[[str], str]
    ) -> None:
        self._rows, self._ids, self._runs, self._of, self._blob = rows, ids, runs, of, blob

    def runs(self) -> list[IdRun]:
        found = self._rows(
            f"SELECT run, bits, ids, oldest, merged_into, steps FROM {self._runs} WHERE "
            f"target = {self._of} ORDER BY run"
        )
        return [IdRun(*(int(str(value)) for value in row)) for row in found]

    def new_number(self) -> int:
        ((last,),) = self._rows(f"SELECT coalesce(max(run), 0) FROM {self._runs}")
        return int(str(last)) + 1

    def ids_at(self, places: Sequence[int]) -> list[tuple[int, bytes]]:
        listed = ", ".join(map(str, places))
        found = self._rows(f"SELECT place, ids FROM {self._ids} WHERE place IN ({listed})")
        return [(int(str(place)), _bytes(ids)) for place, ids in found]

    def first_bucket(self, runs: Iterable[int]) -> int | None:
        """Return the first bucket that some of the runs have; None where they have none."""
        firsts = []
        for run in runs:
            ((first,),) = self._rows(
                f"SELECT min(place) FROM {self._ids} WHERE {_within(run, 0, 1 << 32)}"
            )
            if first is not None:
                firsts.append(int(str(first)) & 0xFFFFFFFF)
        return min(firsts, default=None)

    def entries(self, run: int, low: int, high: int) -> dict[int, list[bytes]]:
        """Return the entries of the buckets from ``low`` to below ``high``."""
        found = self._rows(
            f"SELECT place, ids, marks FROM {self._ids} WHERE {_within(run, low, high)} "
            "ORDER BY place"
        )
        return {
            int(str(place)) & 0xFFFFFFFF: _entries(_bytes(ids), _bytes(marks))
            for place, ids, marks in found
        }

    def write(self, run: int, bits: int, entries: Collection[bytes]) -> None:
        """Write entries into buckets that the run does not have yet."""
        values = []
        ordered = sorted({entry[:ID_BYTES]: entry for entry in entries}.values())
        for bucket, some in groupby(ordered, key=lambda entry: _bucket(entry, bits)):
            chosen = list(some)
            ids = b"".join(entry[:ID_BYTES] for entry in chosen).hex()
            marks = b"".join(entry[ID_BYTES:] for entry in chosen).hex()
            values.append(f"({_place(run, bucket)}, {self._blob(ids)}, {self._blob(marks)})")
        for start in range(0, len(values), _ROWS_AT_ONCE):
            listed = ", ".join(values[start : start + _ROWS_AT_ONCE])
            self._rows(f"INSERT INTO {self._ids} (place, ids, marks) VALUES {listed}")

    def remove(self, run: int, low: int = 0, high: int = 1 << 32) -> None:
        self._rows(f"DELETE FROM {self._ids} WHERE {_within(run, low, high)}")

    def add_run(self, run: IdRun) -> None:
        self._rows(
            f"INSERT INTO {self._runs} (run, target, bits, ids, oldest, merged_into, steps) VALUES "
            f"({run.number}, {self._of}, {run.bits}, {run.ids}, {run.oldest}, {run.into}, "
            f"{run.steps})"
        )

    def change_run(self, run: IdRun) -> None:
        self._rows(
            f"UPDATE {self._runs} SET ids = {run.ids}, oldest = {run.oldest}, merged_into = "
            f"{run.into}, steps = {run.steps} WHERE run = {run.number}"
        )

    def drop_run(self, number: int) -> None:
        self.remove(number)
        self._rows(f"DELETE FROM {self._runs} WHERE run = {number}")


class PackedIds:
    """The packed ids of one table.

    Args:
        tables: reads. ``exists``: tells whether the tables are there.
        alone: begins a transaction in which no other process changes runs, and commits it at its
            end; gives None where another one has it, unless told to wait.
    """

    def __init__(
        self, tables: PackedTables, exists: Callable[[], bool],
        alone: Callable[[bool], AbstractContextManager[PackedTables | None]],
    ) -> None:  # fmt: skip
        self._tables, self.exists, self._alone = tables, exists, alone

    def holds_any(self) -> bool:
        return self.exists() and bool(self._tables.runs())

    def among(self, ids: Collection[bytes]) -> set[bytes]:
        """Return those of some ids that are packed.

        Whoever asks has read the record before: what is packed meanwhile is here by then.
        """
        if not ids or not self.exists():
            return set()
        left, found = sorted(ids), set[bytes]()
        for start in range(0, len(left), _IDS_AT_ONCE):
            found |= self._among(left[start : start + _IDS_AT_ONCE])
        return found

    def _among(self, ids: Sequence[bytes]) -> set[bytes]:
        runs = self._tables.runs()
        while True:
            found = self._among_runs(runs, ids)
            before, runs = runs, self._tables.runs()
            # Ids that a merge has moved behind the back of the questions are looked for again.
            if runs == before or len(found) == len(ids):
                return found

    def _among_runs(self, runs: Sequence[IdRun], ids: Sequence[bytes]) -> set[bytes]:
        wanted: dict[int, list[bytes]] = {}
        for run in runs:
            for one in ids:
                wanted.setdefault(_place(run.number, _bucket(one, run.bits)), []).append(one)
        places, found = sorted(wanted), set[bytes]()
        for start in range(0, len(places), _PLACES_AT_ONCE):
            for place, packed in self._tables.ids_at(places[start : start + _PLACES_AT_ONCE]):
                found.update(one for one in wanted[place] if _holds(packed, one))
        return found

    # --- changes --------------------------------------------------------------------------------

    def merge(self) -> None:
        """Let runs of one size become one, for a second or so; the next call does what is left."""
        until = time.monotonic() + MERGE_SECONDS
        while time.monotonic() < until and self._merge_step():
            pass

    def _merge_step(self) -> bool:
        """Move some buckets; return whether there may be more."""
        with self._alone(False) as tables:
            if tables is None:
                return False
            runs = tables.runs()
            merging = [run for run in runs if run.into] or _begin_merge(tables, runs)
            if not merging:
                return False
            into = next(run for run in tables.runs() if run.number == merging[0].into)
            merging = [run for run in merging if run.into == into.number]
            low = tables.first_bucket(run.number for run in merging)
            if low is None:
                for run in merging:
                    tables.drop_run(run.number)
                return True
            moved: list[bytes] = []
            for run in merging:
                for entries in tables.entries(run.number, low, low + _STEP).values():
                    moved += entries
                tables.remove(run.number, low, low + _STEP)
            tables.write(into.number, into.bits, moved)
            tables.change_run(replace(into, steps=into.steps + 1))
            return True

    def forget(self, loads: Collection[str]) -> int:
        """Remove the ids of loads; return how many there were."""
        digests = {load_digest(load) for load in loads}
        return self._remove(lambda mark: mark[:_LOAD_BYTES] in digests, lambda _: True)

    def prune(self, days: int) -> None:
        """Remove the ids that were packed more than so many days ago.

        Of a run only when it has many of them, as all of it is read: some stay for longer.
        """
        today = int(time.time() // 86_400) - _EPOCH
        last = max(0, today - days).to_bytes(_DAY_BYTES, "big")
        late = max(1, days // 8)
        self._remove(
            lambda mark: mark[_LOAD_BYTES:] < last,
            lambda run: run.oldest < today - days - late,
            max(0, today - days),
        )

    def _remove(
        self, is_gone: Callable[[bytes], bool], concerns: Callable[[IdRun], bool],
        oldest: int | None = None,
    ) -> int:  # fmt: skip
        if not self.exists():
            return 0
        gone, done = 0, set[int]()
        while left := [r for r in self._tables.runs() if concerns(r) and r.number not in done]:
            number = left[0].number
            low = 0
            while low < 1 << left[0].bits:
                with self._alone(True) as tables:
                    assert tables is not None  # noqa: S101 - it was waited for
                    gone += _remove_from(tables, number, low, is_gone)
                low += _STEP
            with self._alone(True) as tables:
                assert tables is not None  # noqa: S101
                run = next((one for one in tables.runs() if one.number == number), None)
                if run is not None and not run.into and tables.first_bucket((number,)) is None:
                    tables.drop_run(number)
                elif run is not None and oldest is not None:
                    tables.change_run(replace(run, oldest=max(run.oldest, oldest)))
            done.add(number)
        return gone

    def remove_all(self) -> None:
        """Remove all ids of the table."""
        if self.holds_any():
            with self._alone(True) as tables:
                assert tables is not None  # noqa: S101
                remove_runs(tables)


def add(tables: PackedTables, packed: Sequence[PackedId]) -> None:
    """Pack ids, in the transaction that takes them out of the record."""
    if not packed:
        return
    bits = bits_for(len(packed))
    oldest = max(0, min(one.day for one in packed) - _EPOCH)
    run = IdRun(tables.new_number(), bits, len(packed), oldest)
    tables.add_run(run)
    tables.write(run.number, bits, [one.entry() for one in packed])


def remove_runs(tables: PackedTables) -> None:
    """Remove all ids of a table, in a transaction that has begun."""
    for run in tables.runs():
        tables.drop_run(run.number)


def bits_for(ids: int) -> int:
    """Return the bits of buckets for so many ids."""
    return max(0, (-(-ids // _MOST_MEAN) - 1).bit_length())


def load_digest(load: str) -> bytes:
    """Return what stands for the id of a load."""
    return md5(load.encode(), usedforsecurity=False).digest()[:_LOAD_BYTES]


def _begin_merge(tables: PackedTables, runs: Sequence[IdRun]) -> list[IdRun]:
    """Choose runs that become one, the smallest first; () where there are too few of one size."""
    ordered = sorted(runs, key=lambda run: (run.bits, run.number))
    for bits, some in groupby(ordered, key=lambda run: run.bits):
        chosen = list(some)[:_FAN]
        if len(chosen) == _FAN:
            total = sum(run.ids for run in chosen)
            new = IdRun(
                tables.new_number(), max(bits, bits_for(total)), total,
                min(run.oldest for run in chosen),
            )  # fmt: skip
            tables.add_run(new)
            merging = [replace(run, into=new.number) for run in chosen]
            for run in merging:
                tables.change_run(run)
            return merging
    return []


def _remove_from(
    tables: PackedTables, number: int, low: int, is_gone: Callable[[bytes], bool]
) -> int:
    """Remove entries from some buckets of a run; return how many."""
    run = next((one for one in tables.runs() if one.number == number), None)
    if run is None:
        return 0  # merged by another process meanwhile
    gone = 0
    for bucket, entries in tables.entries(number, low, low + _STEP).items():
        kept = [entry for entry in entries if not is_gone(entry[ID_BYTES:])]
        if len(kept) < len(entries):
            gone += len(entries) - len(kept)
            tables.remove(number, bucket, bucket + 1)
            tables.write(number, run.bits, kept)
    if gone:
        tables.change_run(replace(run, ids=max(0, run.ids - gone), steps=run.steps + 1))
    return gone


def _bucket(id_: bytes, bits: int) -> int:
    return int.from_bytes(id_[:4], "big") >> (32 - bits)


def _place(run: int, bucket: int) -> int:
    return run << 32 | bucket


def _within(run: int, low: int, high: int) -> str:
    return f"place >= {_place(run, low)} AND place < {(run << 32) + high}"


def _holds(packed: bytes, id_: bytes) -> bool:
    at = packed.find(id_)
    while at > 0 and at % ID_BYTES:
        at = packed.find(id_, at + 1)
    return at >= 0


def _entries(ids: bytes, marks: bytes) -> list[bytes]:
    return [
        ids[at * ID_BYTES : (at + 1) * ID_BYTES] + marks[at * _MARK_BYTES : (at + 1) * _MARK_BYTES]
        for at in range(len(ids) // ID_BYTES)
    ]


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes | bytearray | memoryview)  # noqa: S101 - of a column of bytes
    return bytes(value)
