"""A server in memory that knows the statements of the protocol and no other.

Tables hold parts with uuid, partition, block numbers and level; merges and the clearing of outdated
parts are done by the test. Whatever statement it does not know is an error, so the model cannot
drift away from what is really sent.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

from rowfall.core.errors import EngineError
from rowfall.publish.evidence import NO_UUID
from rowfall.systems.clickhouse.codes import UNKNOWN_TABLE

TARGET, TARGET_UUID = "t", "11111111-1111-1111-1111-111111111111"
JOURNAL = "_rowfall_journal"
PARTITIONS = ("a", "b")

Row = tuple[str, str]
"""Split and partition: every split has one row in each partition."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part; ``rows`` in the order of arrival."""

    uuid: str
    partition: str
    rows: tuple[Row, ...]
    first: int
    last: int
    level: int = 0
    active: bool = True

    @property
    def name(self) -> str:
        return f"{self.partition}_{self.first}_{self.last}_{self.level}"

    @property
    def merged(self) -> bool:
        return self.uuid == NO_UUID and self.level > 0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal."""

    block: int
    event: str
    owner: str
    attempt: str
    splits: tuple[str, ...]
    rows: int
    detail: str
    at: float


@dataclass
class Fake:
    """The server's state; :meth:`run` takes one statement.

    Attributes:
        clock: the server's, in seconds. It stands, and jumps when the test wants it to.
    """

    tables: dict[str, list[Part]] = field(default_factory=lambda: {TARGET: []})
    journal: list[Line] = field(default_factory=list)
    log: dict[str, bool] = field(default_factory=dict)
    torn: bool = False
    clock: float = 0.0

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._blocks = itertools.count(1)

    def visible(self) -> list[Row]:
        return [row for part in self.tables[TARGET] if part.active for row in part.rows]

    def merge(self, partition: str) -> None:
        """All active parts of a partition of the target become one."""
        parts = [p for p in self.tables[TARGET] if p.active and p.partition == partition]
        if len(parts) < 2:
            return
        one = Part(
            NO_UUID, partition, tuple(r for p in parts for r in p.rows),
            min(p.first for p in parts), max(p.last for p in parts),
            1 + max(p.level for p in parts),
        )  # fmt: skip
        self.tables[TARGET] = [
            replace(p, active=False) if p in parts else p for p in self.tables[TARGET]
        ] + [one]

    def clear(self) -> None:
        """Outdated parts are listed for some minutes only."""
        self.tables[TARGET] = [p for p in self.tables[TARGET] if p.active]

    def run(self, text: str, query_id: str, tear: int | None = None) -> list[list[Any]]:
        """One statement.

        Args:
            tear: the server is killed when an ATTACH has taken so many parts.
        """
        for pattern, act in STATEMENTS:
            match = re.fullmatch(pattern, text, re.DOTALL)
            if match:
                if act is _attach:
                    return self._logged(match, query_id, tear)
                return list(act(self, *match.groups()))
        raise AssertionError(f"a statement that the model does not know: {text}")

    def _logged(self, match: re.Match[str], query_id: str, tear: int | None) -> list[list[Any]]:
        try:
            _attach(self, match[1], match[2], tear)
        except EngineError:
            self.log[query_id] = False
            raise
        if tear is None:
            self.log[query_id] = True
        else:
            self.torn = True
        return []

    def parts(self, name: str) -> list[Part]:
        """Of an existing table."""
        if name not in self.tables:
            raise EngineError(f"table {name} does not exist", code=UNKNOWN_TABLE)
        return self.tables[name]

    def number(self) -> int:
        return next(self._numbers)

    def block(self) -> int:
        return next(self._blocks)


Found = Iterator[list[Any]]


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"'([^']*)'", text))


# --- the journal ----------------------------------------------------------------------------------


def _append(
    fake: Fake, event: str, owner: str, attempt: str, splits: str, rows: str, detail: str
) -> Found:
    fake.journal.append(
        Line(fake.block(), event, owner, attempt, _words(splits), int(rows), detail, fake.clock)
    )
    return iter(())


def _entries(fake: Fake, asked: str | None, chosen: str) -> Found:
    wanted = _words(asked or "")
    if asked is not None:
        names = {
            line.attempt
            for line in fake.journal
            if line.event == "claim" and set(wanted) & set(line.splits)
        }
    elif "position(detail, " in chosen:
        names = {line.attempt for line in fake.journal if line.event == "commit"}
    elif chosen == "1":
        names = {line.attempt for line in fake.journal}
    else:
        names = set(_words(chosen))
    read = [x for x in fake.journal if x.attempt in names or x.event in ("alive", "quit")]
    for line in read:
        hits = [s for s in line.splits if s in wanted]
        yield [line.event, line.attempt, line.owner, line.block, line.rows, line.detail,
               hits, fake.clock - line.at]  # fmt: skip


def _ids(fake: Fake, event: str) -> Found:
    forgotten = {line.attempt for line in fake.journal if line.event == "forget"}
    names = {line.attempt for line in fake.journal if line.event == event}
    if event == "landed":
        names -= forgotten
    found = {s for x in fake.journal if x.event == "claim" and x.attempt in names for s in x.splits}
    return iter([[s] for s in sorted(found)])


def _written(fake: Fake, attempt: str, event: str, split: str | None) -> Found:
    count = sum(
        line.attempt == attempt and line.event == event and (not split or split in line.splits)
        for line in fake.journal
    )
    return iter([[count]])


# --- tables ---------------------------------------------------------------------------------------


def _nothing(fake: Fake, *_: str) -> Found:
    return iter(())


def _there(fake: Fake) -> Found:
    return iter([[1]])


def _exists(fake: Fake, name: str) -> Found:
    return iter([[1]] if name in fake.tables else [])


def _own_tables(fake: Fake) -> Found:
    return iter([[n] for n in (*fake.tables, JOURNAL) if n.startswith("_rowfall_")])


def _matching(fake: Fake, pattern: str) -> Found:
    known = re.compile(pattern.replace("\\\\", "\\"))
    return iter([[n] for n in fake.tables if known.search(n)])


def _prefixed(fake: Fake, name: str, prefix: str) -> Found:
    return iter([[n, 0] for n in fake.tables if n == name or n.startswith(prefix)])


def _discarded(fake: Fake, name: str, prefix: str) -> Found:
    return iter([["d", n, 0, 0] for n in fake.tables if n == name or n.startswith(prefix)])


def _drop(fake: Fake, name: str) -> Found:
    assert name not in (TARGET, JOURNAL)
    fake.tables.pop(name, None)
    return iter(())


def _rename(fake: Fake, old: str, new: str) -> Found:
    fake.parts(old)
    assert new not in fake.tables
    fake.tables[new] = fake.tables.pop(old)
    return iter(())


def _create(fake: Fake, name: str) -> Found:
    assert name not in fake.tables, "names of staging tables are never used again"
    fake.tables[name] = []
    return iter(())


def _insert(fake: Fake, name: str, splits: str) -> Found:
    parts = fake.parts(name)
    for partition in PARTITIONS:
        number = fake.number()
        rows = tuple((split, partition) for split in splits.split(","))
        parts.append(Part(f"{number:08x}-{NO_UUID[9:]}", partition, rows, number, number))
    return iter(())


def _attach(fake: Fake, target: str, staging: str, tear: int | None = None) -> Found:
    parts = [p for p in fake.parts(staging) if p.active]
    for part in parts if tear is None else parts[:tear]:
        number = fake.number()
        fake.parts(target).append(replace(part, first=number, last=number))
    return iter(())


def _drop_part(fake: Fake, table: str, name: str) -> Found:
    parts = fake.parts(table)
    (gone,) = [p for p in parts if p.name == name]
    parts.remove(gone)
    return iter(())


# --- parts ----------------------------------------------------------------------------------------


def _listed(fake: Fake, name: str) -> list[Part]:
    return fake.tables.get(name, [])


def _rows(fake: Fake, name: str) -> Found:
    return iter([[sum(len(p.rows) for p in _listed(fake, name) if p.active)]])


def _missing(fake: Fake, staging: str, target: str) -> Found:
    there = {p.uuid for p in _listed(fake, target)}
    return iter([[sum(p.active and p.uuid not in there for p in _listed(fake, staging))]])


def _partitioned(fake: Fake, staging: str, target: str) -> Found:
    for partition in PARTITIONS:
        own = [p for p in _listed(fake, staging) if p.active and p.partition == partition]
        there = [p for p in _listed(fake, target) if p.partition == partition]
        if own:
            rows = sum(len(p.rows) for p in own)
            others = sum(len(p.rows) for p in there if p.active)
            yield [
                partition,
                rows,
                len(own),
                rows,
                others,
                max((p.last for p in there), default=-1),
                sum(p.active for p in there),
            ]


def _left(fake: Fake, name: str) -> Found:
    return iter(
        [[p.name, p.uuid, p.partition, len(p.rows)] for p in _listed(fake, name) if p.active]
    )


def _arrived(fake: Fake, name: str, uuids: str) -> Found:
    return (
        [p.uuid, int(p.active), int(not p.active), p.partition, p.first, p.last]
        for p in _listed(fake, name)
        if p.uuid in _words(uuids)
    )


def _partitions(fake: Fake, name: str, partitions: str) -> Found:
    for p in _listed(fake, name):
        if p.partition in _words(partitions):
            yield [p.partition, p.name, p.first, p.last, int(p.active), len(p.rows), p.level,
                   p.first, p.uuid, "MergeTree"]  # fmt: skip


def _none(fake: Fake, *_: str) -> Found:
    return iter([[0]])


def _columns(fake: Fake) -> Found:
    return iter([["k", "String", 1], ["p", "String", 0]])


def _sorting_key(fake: Fake) -> Found:
    return iter([["k"]])


def _hash(row: Row) -> int:
    return crc32(repr(row).encode())


def _sample(fake: Fake, name: str, partition: str, parts: str, step: str) -> Found:
    for part in _listed(fake, name):
        if part.active and part.partition == partition and part.name in _words(parts):
            yield from ([_hash(row)] for row in part.rows[:: int(step)])


def _found(fake: Fake, name: str, partition: str, hashes: str, without: str | None) -> Found:
    rows = {
        _hash(row) for part in _listed(fake, name) for row in part.rows
        if part.active and part.partition == partition and part.name not in _words(without or "")
    }  # fmt: skip
    return iter([[len(rows & set(map(int, hashes.split(", "))))]])


_J = r"`d`\.`_rowfall_journal`"
_INTO = rf"into = toUUID\('{TARGET_UUID}'\)"
_HASH = r"cityHash64\(`k`, `p`\)"
_OF = r"database = 'd' AND table = '(\w+)'"

STATEMENTS: list[tuple[str, Callable[..., Found]]] = [
    (rf"CREATE TABLE IF NOT EXISTS {_J} \(.*", _nothing),
    (rf"INSERT INTO {_J} \(.*?\) SELECT '(\w+)', toUUID\('{TARGET_UUID}'\), '([^']*)', '([^']*)', "
     r"CAST\(\[(.*?)\], 'Array\(String\)'\), (\d+), '(.*)'", _append),
    (r"(?:WITH \[(.*?)\] AS asked )?SELECT event, attempt, owner, _block_number, rows, detail, "
     rf"(?:\[\]|arrayIntersect\(splits, asked\)), dateDiff\('millisecond', at, now64\(3\)\) / 1000 "
     rf"FROM {_J} WHERE (?:{_INTO}|\({_INTO} OR into IN "
     r"\(SELECT uuid FROM system\.tables\)\)) AND "
     r"\((.*) OR \(event IN \('alive', 'quit'\) AND "
     r"dateDiff\('millisecond', at, now64\(3\)\) < \d+\)\) ORDER BY _block_number", _entries),
    (rf"SELECT DISTINCT arrayJoin\(splits\) FROM {_J} WHERE {_INTO} AND event = 'claim' AND "
     rf"attempt IN \(SELECT attempt FROM {_J} WHERE {_INTO} AND event = '(\w+)'.*\)", _ids),
    (rf"SELECT count\(\) FROM {_J} WHERE {_INTO} AND attempt = '(\w+)' AND event = '(\w+)'"
     r" AND owner = '[^']*' AND detail = '.*?'(?: AND has\(splits, '(\w+)'\))?", _written),
    (rf"SELECT count\(\) FROM system\.tables WHERE database = 'd' AND name = '{JOURNAL}'", _there),
    (rf"SELECT database FROM system\.tables WHERE name = '{JOURNAL}' AND database != 'd'",
     _nothing),
    (r"SELECT query_id FROM system\.processes WHERE .*", _nothing),
    (r"SELECT DISTINCT name FROM system\.tables WHERE startsWith\(name, '_rowfall_'\)",
     _own_tables),
    (r"SELECT name FROM system\.tables WHERE database = 'd' AND match\(name, '(.*)'\)", _matching),
    (r"SELECT 1 FROM system\.tables WHERE database = 'd' AND name = '(\w+)'", _exists),
    (r"SELECT name, engine LIKE '%View' FROM system\.tables WHERE database = 'd' AND "
     r"\(name = '(\w+)' OR startsWith\(name, '(\w+)'\)\)", _prefixed),
    (r"SELECT database, name, engine LIKE '%View' AS view, ifNull\(total_bytes, 0\) FROM "
     r"system\.tables WHERE \(name = '(\w+)' OR startsWith\(name, '(\w+)'\)\).* ORDER BY .*",
     _discarded),
    (r"DROP TABLE IF EXISTS `d`\.`(\w+)` SYNC", _drop),
    (r"RENAME TABLE `d`\.`(\w+)` TO `d`\.`(\w+)`", _rename),
    (r"CREATE TABLE `d`\.`(\w+)` AS `d`\.`t`", _create),
    (r"INSERT INTO `d`\.`(\w+)` SPLITS ([\w,]+)", _insert),
    (r"ALTER TABLE `d`\.`(\w+)` ATTACH PARTITION ALL FROM `d`\.`(\w+)`", _attach),
    (r"ALTER TABLE `d`\.`(\w+)` DROP PART '(\w+)'", _drop_part),
    (rf"SELECT sum\(rows\) FROM system\.parts WHERE {_OF} AND active", _rows),
    (rf"SELECT count\(\) FROM system\.parts WHERE {_OF} AND active AND rows > 0 AND uuid NOT IN "
     rf"\(SELECT uuid FROM system\.parts WHERE {_OF}\)", _missing),
    (r"SELECT partition_id, sumIf\(.* FROM system\.parts WHERE database = 'd' AND "
     r"table IN \('(\w+)', '(\w+)'\) GROUP BY partition_id HAVING parts > 0 "
     r"ORDER BY partition_id", _partitioned),
    (rf"SELECT name, toString\(uuid\), partition_id, rows FROM system\.parts WHERE {_OF} AND "
     r"active AND rows > 0", _left),
    # The tables are not replicated.
    (r"SELECT latest_fail_reason FROM system\.mutations WHERE .*", _nothing),
    (r"SELECT is_readonly OR is_session_expired, zookeeper_path, replica_path FROM "
     r"system\.replicas WHERE .*", _nothing),
    (r"SELECT toString\(uuid\), active, toUnixTimestamp\(remove_time\) > 0, partition_id, "
     rf"min_block_number, max_block_number FROM system\.parts WHERE {_OF} AND toString\(uuid\) IN "
     r"\((.*)\)", _arrived),
    (r"SELECT partition_id, name, min_block_number, max_block_number, active, rows, level, "
     rf"data_version, toString\(uuid\), engine FROM system\.parts WHERE {_OF} AND "
     r"partition_id IN \((.*)\)", _partitions),
    # Nobody detaches, moves or mutates anything.
    (r"SELECT partition_id, name, max_block_number FROM system\.detached_parts WHERE .*", _nothing),
    (r"SELECT (?:DISTINCT )?partition_id, database, table FROM system\.parts WHERE .*", _nothing),
    (r"SELECT count\(\) FROM system\.mutations WHERE .*", _none),
    (r"SELECT name, type, max\(is_in_sorting_key\) FROM system\.columns WHERE .*", _columns),
    (r"SELECT sorting_key FROM system\.tables WHERE .*", _sorting_key),
    (rf"SELECT {_HASH} FROM `d`\.`(\w+)` WHERE _partition_id = '(\w+)' AND _part IN \((.*?)\) AND "
     r"_part_offset % (\d+) = 0 LIMIT \d+", _sample),
    (rf"SELECT uniqExact\({_HASH}\) FROM `d`\.`(\w+)` WHERE _partition_id = '(\w+)' AND {_HASH} IN "
     rf"\(([\d, ]+)\) AND \(k\) IN \(SELECT k FROM .*? AND {_HASH} IN \([\d, ]+\)\)"
     r"(?: AND _part NOT IN \((.*)\))?", _found),
]  # fmt: skip


def as_lines(rows: list[list[Any]]) -> bytes:
    """Rows as JSONCompactEachRow."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
