"""What source and target of a load hold: sums of row hashes by split, and where they differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rowfall.core import sql
from rowfall.core.listing import Split
from rowfall.core.model import PUSH, Plan
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.ask import ask
from rowfall.engines.base import Engine
from rowfall.plan import attempts
from rowfall.plan.facts import LoadFacts
from rowfall.plan.session import Session
from rowfall.publish.publisher import checksum, row_hash

MASK64 = (1 << 64) - 1
# Each split has a SELECT of its own in one statement: servers take 256 KiB of text, and every
# reader of the statement holds its buffers at once.
MOST_TEXT, MOST_READERS = 150_000, 32
# Rows are compared by 1,024 ranges of their hash first; only ranges that differ are looked into.
BUCKETS = 1024
# Distinct rows that are brought here to be compared one by one, about 100 bytes each.
MOST_ROWS = 500_000


@dataclass(slots=True)
class Difference:
    """Where the two sides differ.

    Attributes:
        delta: by position of the split: its rows that the target has too often (or, negative, not).
        unclear: splits of which some differing row is in another split as well.
        foreign: rows of the target that no split holds.
        share: of the differing rows, how many were looked at.
    """

    delta: Counter[int] = field(default_factory=Counter)
    unclear: set[int] = field(default_factory=set)
    foreign: int = 0
    share: float = 1.0

    def landed(self, rows: Sequence[int]) -> list[int | None]:
        """Rows of each split in the target, None where that cannot be told."""
        if self.share < 1:
            whole: list[int | None] = [None] * len(rows)
            return whole
        return [None if n in self.unclear else r + self.delta[n] for n, r in enumerate(rows)]


class Sides:
    """Reads source and target of one load.

    Args:
        made: its plan: how rows are read, and by whom.
    """

    def __init__(self, session: Session, facts: LoadFacts, made: Plan) -> None:
        self._session, self._encoding = session, made.encoding
        self._columns = made.schema.columns
        # What a server has pulled it can read again; what was pushed only this machine can.
        listing = made.listing
        texts = any(map(listing.of_text, range(len(listing))))
        pulled = made.transport.delivery.value != PUSH and not texts
        self._reads: Engine = session.source_engine if pulled else session.reader
        self._source = facts.source_for(made.transport) if pulled else session.source
        self._settings = {
            s.name: s.value for s in made.settings if pulled or not s.name.startswith("max_memory")
        }
        self._table = session.all_rows

    def source(self, splits: Sequence[Split]) -> list[tuple[int, int]]:
        """(rows, sum of their hashes) of each split."""
        found = [(0, 0)] * len(splits)
        for group in self._grouped(splits, checksum(self._columns)):
            for n, rows, total in self._ask(_union(group)):
                found[n] = (rows, total or 0)
        return found

    def target(self) -> tuple[int, int]:
        """(rows, sum of their hashes) of the table."""
        question = f"SELECT {checksum(self._columns)} FROM {self._table}"
        ((rows, total),) = ask(self._session.engine, question)
        return rows, total or 0

    def difference(self, splits: Sequence[Split]) -> Difference:
        """Find the rows that the sides do not both hold."""
        there = self._target_buckets()
        here: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for start in range(0, len(splits), attempts.MOST_SPLITS):
            relation = self._rows(splits[start : start + attempts.MOST_SPLITS])
            for bucket, rows, total in self._ask(_by_bucket(relation, row_hash(self._columns))):
                before = here[bucket]
                here[bucket] = (before[0] + rows, (before[1] + total) & MASK64)
        differ = [b for b in range(BUCKETS) if here[b] != there.get(b, (0, 0))]
        sizes = {b: max(here[b][0], there.get(b, (0, 0))[0]) for b in differ}
        chosen: list[int] = []
        for bucket in differ:
            if chosen and sum(sizes[b] for b in chosen) + sizes[bucket] > MOST_ROWS:
                break
            chosen.append(bucket)
        found = self._compare(splits, chosen)
        found.share = sum(sizes[b] for b in chosen) / max(1, sum(sizes.values()))
        return found

    def _compare(self, splits: Sequence[Split], buckets: Sequence[int]) -> Difference:
        found = Difference()
        if not buckets:
            return found
        value = row_hash(self._columns)
        only = f"bitAnd(h, {BUCKETS - 1}) IN ({', '.join(map(str, buckets))})"
        there = Counter(dict(map(tuple, ask(
            self._session.engine,
            f"SELECT h, count() FROM (SELECT {value} AS h FROM {self._table}) WHERE {only} "
            "GROUP BY h",
        ))))  # fmt: skip
        held: dict[int, dict[int, int]] = defaultdict(dict)
        for group in self._grouped(splits, f"{value} AS h"):
            text = SqlText.of("SELECT n, h, count() FROM (", _union(group), f") WHERE {only} ",
                              "GROUP BY n, h")  # fmt: skip
            for n, h, rows in self._ask(text):
                held[h][n] = rows
        for h in held.keys() | there.keys():
            owners = held.get(h, {})
            delta = there[h] - sum(owners.values())
            if not owners:
                found.foreign += delta
            elif delta and len(owners) == 1:
                found.delta[next(iter(owners))] += delta
            elif delta:
                found.unclear |= owners.keys()
        return found

    def _target_buckets(self) -> dict[int, tuple[int, int]]:
        relation = SqlText.of(self._table)
        rows = ask(self._session.engine, str(_by_bucket(relation, row_hash(self._columns))))
        return {bucket: (rows, total) for bucket, rows, total in rows}

    # --- reading the source --------------------------------------------------------------------

    def _rows(self, splits: Sequence[Split]) -> SqlText:
        """The rows of splits as the table holds them: what is a Float32 there hashes as one."""
        structure = sql.structure(
            (c.source or c.name, c.read_type or c.type) for c in self._columns
        )
        typed = ", ".join(
            f"CAST({c.expression or sql.name(c.source or c.name)}, {quote(c.type)}) "
            f"AS {sql.name(c.name)}"
            for c in self._columns
        )
        relation = self._source.relation(splits, self._encoding, structure)
        return SqlText.of(f"(SELECT {typed} FROM ", relation, ")")

    def _grouped(self, splits: Sequence[Split], values: str) -> Iterator[list[SqlText]]:
        """SELECTs of (position, values), one a split, as many together as a statement takes."""
        group: list[SqlText] = []
        length = 0
        for n, split in enumerate(splits):
            one = SqlText.of(f"SELECT {n} AS n, {values} FROM ", self._rows([split]))
            size = len(one.reveal())
            if group and (length + size > MOST_TEXT or len(group) == MOST_READERS):
                yield group
                group, length = [], 0
            group.append(one)
            length += size
        if group:
            yield group

    def _ask(self, text: SqlText) -> list[list[Any]]:
        return self._reads.ask(text, self._settings)


def _union(selects: Sequence[SqlText]) -> SqlText:
    pieces: list[str | SqlText] = []
    for select in selects:
        pieces += [" UNION ALL " if pieces else "", select]
    return SqlText.of(*pieces)


def _by_bucket(relation: SqlText, value: str) -> SqlText:
    return SqlText.of(
        f"SELECT bitAnd(h, {BUCKETS - 1}) AS b, count(), sum(h) FROM (SELECT {value} AS h FROM ",
        relation, ") GROUP BY b",
    )  # fmt: skip
