"""Compare source and target: rows, and a checksum that ignores their order.

Where they differ, sums of row hashes say for each split whether its rows are there.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import field, replace
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.contracts.facts import LoadFacts
from rowfall.core import sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import SourceError, UsageError, VerifyError
from rowfall.core.events import Note
from rowfall.core.listing import Split
from rowfall.core.model import ENGINE, Encoding, Plan, Schema
from rowfall.core.results import Verification, VerifiedSplit
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.engines.database import Database, FileTable
from rowfall.ledger import Ledger
from rowfall.ledger.manifest import Manifest
from rowfall.plan import attempts
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.schema.bad_rows.rejects import BadRows
from rowfall.schema.other_reading import read_by_pyarrow, why_not_read_again
from rowfall.schema.projection import Scan
from rowfall.schema.text.file_ends import matters, open_ended
from rowfall.schema.text.headers import Headers
from rowfall.schema.text.whole_rows import last_name, with_loose_blanks, with_open_end
from rowfall.stores.frames import ArrowStreams
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.targets.export import reading

MASK64 = (1 << 64) - 1
# Each split has a SELECT of its own in one statement: servers take 256 KiB of text, and every
# reader of the statement holds its buffers at once.
MOST_TEXT, MOST_READERS = 150_000, 32
# Text that rowfall's engine has written is read as it stands: an empty value is no default.
_AS_WRITTEN = {"input_format_null_as_default": 0, "input_format_csv_empty_as_default": 0}
# Rows are compared by 1,024 ranges of their hash first; ranges that differ are read row by row.
BUCKETS = 1024
# Distinct rows that are brought here to be compared one by one, about 100 bytes each.
MOST_ROWS = 500_000


def verify_tables(session: Session, ledger: Ledger, load_id: str) -> Verification:
    """Compare a table of ClickHouse with the source of a load, read again."""
    start = time.monotonic()
    facts = survey(session)
    plan = make_plan(facts, session.options)
    loaded = facts.loaded_of(plan.listing)
    splits = _splits(session, plan, loaded)
    comparison = Comparison(session, facts, plan)
    source = SourceRows(load_id, start, splits, comparison.source(splits))
    obstacle = _obstacle(session, ledger, len(loaded))
    if obstacle is not None:
        return _counted(session, ledger, source, obstacle)
    return _compared(comparison, source)


def _compared(comparison: Comparison, source: SourceRows) -> Verification:
    """Compare all rows of the table with those of the source."""
    target = comparison.target()
    loaded: Sequence[int | None] = source.rows
    foreign, scope = 0, "the whole table"
    if target != source.total:
        difference = comparison.difference(source.splits)
        foreign, loaded = difference.foreign, difference.loaded(source.rows)
        if difference.share < 1:
            scope += f"; where it differs by looking at {difference.share:.0%} of the rows"
    return source.verdict(target, loaded, scope + comparison.read_by, foreign)


def verify_files(session: Session, ledger: Ledger, load_id: str, table: FileTable) -> Verification:
    """Compare all rows of a table of files, read by an engine here, with those of the source."""
    start = time.monotonic()
    facts = survey(session)
    plan = make_plan(facts, session.options)
    loaded = facts.loaded_of(plan.listing)
    splits = _splits(session, plan, loaded)
    others = len(table.loaded()) - len(loaded)
    with closing(Embedded(None, work="/")) as engine:
        columns = ", ".join(
            f"CAST({sql.name(c.name)}, {quote(c.type)}) AS {sql.name(c.name)}"
            for c in plan.schema.columns
        )
        relation = SqlText.of(f"(SELECT {columns} FROM ", table.relation(), ")")
        comparison = Comparison(session, facts, plan, relation, engine)
        source = SourceRows(load_id, start, splits, comparison.source(splits))
        if others > 0:
            why = f"the table also holds {others:,} files of other loads or older versions"
            return _counted(session, ledger, source, why)
        return _compared(comparison, source)


def verify_export(session: Session, load_id: str) -> Verification:
    """Compare all rows of the files of an export, read again, with those of the source.

    Raises:
        UsageError: no manifest says which files these are. SourceError: the source has changed.
    """
    start = time.monotonic()
    facts = survey(session, load_id=load_id)
    state = facts.export
    if state is None or state.found.recorded is None or not state.found.recorded.outputs:
        raise UsageError(
            f"no manifest beside {session.target.text} says what was written there",
            hint="Files of an older version have none: write them anew with --replace.",
        )
    recorded, plan = state.found.recorded, make_plan(facts, session.options)
    splits = _exported(session, recorded)
    target = session.target
    counted: dict[str, tuple[int, int]] = {}
    relations: dict[str, SqlText] = {}
    for name in recorded.outputs:
        path = f"{state.base.rstrip('/')}/{name}"
        relations[name] = reading(target.into(path, plan.schema))
        counted[name] = (0, 0)
        if state.found.place.version(name) is not None:
            question = SqlText.of(f"SELECT {sql.checksum(plan.schema.columns)} FROM ",
                                  relations[name])  # fmt: skip
            ((rows, total),) = session.reader.ask(question, _AS_WRITTEN)
            counted[name] = (rows, total or 0)
    found = _sum(list(counted.values()))
    there = [relations[name] for name in counted if state.found.place.version(name) is not None]
    names = ", ".join(sql.name(column.name) for column in plan.schema.columns)
    union = _union([SqlText.of(f"SELECT {names} FROM ", one) for one in there])
    table = SqlText.of("(", union, ")") if 0 < len(there) <= MOST_READERS else None
    comparison = Comparison(session, facts, plan, table or SqlText.of(""), session.reader)
    source = SourceRows(load_id, start, splits, comparison.source(splits))
    loaded: Sequence[int | None] = source.rows
    foreign = 0
    if found != source.total:
        loaded = [None] * len(splits)
        if table is not None:
            difference = comparison.difference(splits)
            foreign, loaded = difference.foreign, difference.loaded(source.rows)
    files = units.counted(len(recorded.outputs), "file")
    scope = f"{files} that the export has written"
    odd = [n for n, output in recorded.outputs.items() if counted[n][0] != output.rows]
    if odd:
        first = odd[0]
        scope += (
            f"; {first} holds {units.counted(counted[first][0], 'row')}, and "
            f"{recorded.outputs[first].rows:,} were written"
        )
        scope += f", and {len(odd) - 1:,} more differ" if len(odd) > 1 else ""
    return source.verdict(found, loaded, scope + comparison.read_by, foreign)


def _exported(session: Session, recorded: Manifest) -> list[Split]:
    """Return the splits whose rows the files of an export are to hold.

    Raises:
        SourceError: some are not there any more as they were read.
    """
    read = {
        (name, version): (start, stop)
        for output in recorded.outputs.values() for name, version, start, stop in output.sources
    }  # fmt: skip
    splits = [
        split
        for split in session.listing.splits(session.target_key)
        if (split.uri, split.version) in read
    ]
    gone = read.keys() - {(split.uri, split.version) for split in splits}
    if gone:
        name = min(gone)[0]
        raise SourceError(
            f"{name} is not there any more as it was exported"
            + (f", nor are {len(gone) - 1:,} others" if len(gone) > 1 else ""),
            hint="What was written can be compared only with the source that was read.",
        )
    return splits


def verify_database(
    session: Session, ledger: Ledger, load_id: str, database: Database
) -> Verification:
    """Compare the rows of each file with those that were committed with it, and their number with
    that of the table."""
    start = time.monotonic()
    facts = survey(session)
    plan = make_plan(facts, session.options)
    loaded = facts.loaded_of(plan.listing)
    splits = _splits(session, plan, loaded)
    source = SourceRows(load_id, start, splits, Comparison(session, facts, plan).source(splits))
    count, rows = database.count(), sum(source.rows)
    others = len(ledger.loaded(session.target_key)) - len(loaded)
    why = f"they were committed, and the table holds {units.counted(count, 'row')}"
    found = _counted(session, ledger, source, why)
    if others <= 0 and count < rows:
        return replace(found, ok=False, target_rows=count)
    return found


def _splits(session: Session, plan: Plan, indexes: Collection[int]) -> list[Split]:
    return [plan.listing.split(index, session.target_key) for index in sorted(indexes)]


def _sum(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return (rows, checksum) of several together."""
    return sum(rows for rows, _ in parts), sum(total for _, total in parts) & MASK64


def _obstacle(session: Session, ledger: Ledger, loaded: int) -> str | None:
    """Return the reason that counting the table proves nothing about this load; None if none."""
    others = len(ledger.loaded(session.target_key)) - loaded
    if others > 0:
        return f"the table also holds {others:,} files of other loads or older versions"
    found = staging.facts(
        session.engine.ask, session.first_target.database, session.first_target.table
    )
    if found is not None and found.collapses:
        return f"{found.engine} makes fewer rows of them when it merges"
    if found is not None and "TTL" in found.create_query:
        return "the table's TTL removes rows"
    return None


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a load as its source, read again, has them.

    Attributes:
        started: when the comparison began, by the monotonic clock.
        counts: (rows, checksum) of each split.
    """

    load_id: str
    started: float
    splits: Sequence[Split]
    counts: Sequence[tuple[int, int]]

    @property
    def rows(self) -> list[int]:
        """Return the number of rows of each split."""
        return [rows for rows, _ in self.counts]

    @property
    def total(self) -> tuple[int, int]:
        """Return (rows, checksum) of all splits together."""
        return _sum(self.counts)

    def verdict(
        self, target: tuple[int, int | None], loaded: Sequence[int | None], scope: str,
        foreign: int = 0, *, ok: bool = True,
    ) -> Verification:  # fmt: skip
        """Return the comparison of the source's rows and checksum with those of the target.

        Args:
            target: (rows, checksum) of the target; None where rows could only be counted.
            loaded: rows of each split in the target, None where that is unknown.
            foreign: rows of the target that no split holds.
            ok: False where something besides rows and checksum is known to differ.
        """
        rows, checksum = self.total
        return Verification(
            self.load_id,
            ok and rows == target[0] and target[1] in (None, checksum),
            rows,
            target[0],
            f"{checksum:016x}",
            "" if target[1] is None else f"{target[1]:016x}",
            scope,
            time.monotonic() - self.started,
            tuple(
                VerifiedSplit(split.name, count, f"{own:016x}", there)
                for split, (count, own), there in zip(self.splits, self.counts, loaded, strict=True)
            ),
            foreign,
        )


def _counted(session: Session, ledger: Ledger, source: SourceRows, obstacle: str) -> Verification:
    """Compare the source with the ledger: the rows that each attempt had staged."""
    splits, expected = source.splits, source.rows
    known = {split.id: n for n, split in enumerate(splits)}
    loaded: list[int | None] = [None] * len(splits)
    ok, total = True, 0
    for rows, ids in ledger.loaded_attempts(session.target_key):
        own = [known[i] for i in ids if i in known]
        if len(own) < len(ids):
            continue  # of another load, or a version that is gone
        total += rows
        if rows == sum(expected[n] for n in own):
            for n in own:
                loaded[n] = expected[n]
        else:
            ok = False
            if len(own) == 1:
                loaded[own[0]] = rows
    unknown = sum(rows is None for rows in loaded) if ok else 0
    scope = f"rows as they were counted before they became visible, because {obstacle}"
    if unknown:
        scope += f"; {unknown:,} files were loaded from another machine, which has their counts"
        total += sum(expected[n] for n, rows in enumerate(loaded) if rows is None)
    return source.verdict((total, None), loaded, scope, ok=ok)


def compare_staged(
    session: Session, facts: LoadFacts, plan: Plan, staged: tuple[int, int], loaded: set[str],
    load_id: str,
) -> Verification:  # fmt: skip
    """Compare what the attempts of this run held in staging with their source, read again.

    Args:
        staged: (rows, checksum) summed over the attempts before they were moved.
        loaded: ids of the splits they came from.

    Raises:
        VerifyError: they differ.
    """
    start = time.monotonic()
    splits = [split for split in plan.listing.splits(session.target_key) if split.id in loaded]
    source = SourceRows(load_id, start, splits, Comparison(session, facts, plan).source(splits))
    found = source.verdict(staged, source.rows, "the rows of this run")
    if not found.ok:
        raise VerifyError(
            f"source and target differ: {found.source_rows:,} rows with checksum "
            f"{found.source_checksum} against {found.target_rows:,} with {found.target_checksum}",
            hint="The source may have changed while it was loaded; rowfall verify tells which "
            "files differ.",
        )
    session.emit(
        Note(
            "info",
            f"verified: {found.source_rows:,} rows, checksum {found.source_checksum} in source "
            f"and target ({found.seconds:.1f} s)",
        )
    )
    return found


# --- reading both ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Difference:
    """Differences between source and target.

    Attributes:
        delta: by position of the split: its rows that the target has too often (or, negative, not).
        unclear: splits of which some differing row is in another split as well.
        foreign: rows of the target that no split holds.
        share: the part of the differing rows that was read.
    """

    delta: Counter[int] = field(default_factory=Counter)
    unclear: set[int] = field(default_factory=set)
    foreign: int = 0
    share: float = 1.0

    def loaded(self, rows: Sequence[int]) -> list[int | None]:
        """Return the rows of each split in the target, None where that cannot be told."""
        if self.share < 1:
            whole: list[int | None] = [None] * len(rows)
            return whole
        return [None if n in self.unclear else r + self.delta[n] for n, r in enumerate(rows)]


class Comparison:
    """Reads source and target of one load.

    Attributes:
        read_by: half a sentence about who reads the source, and who has read it for the load.

    Args:
        plan: how rows are read, and by whom.
        table: relation of the target, and ``engine`` that reads it, where they are not those of
            the session.
    """

    def __init__(
        self, session: Session, facts: LoadFacts, plan: Plan, table: SqlText | None = None,
        engine: Engine | None = None,
    ) -> None:  # fmt: skip
        self._session, self._encoding = session, plan.encoding
        self._columns = plan.schema.columns
        self._schema = replace(plan.schema, checks=replace(plan.schema.checks, ends_known=True))
        if plan.encoding is not None:
            self._schema = with_loose_blanks(self._schema, plan.encoding) or self._schema
        self._headers = Headers(session.source, plan.encoding, lambda: session.reader.ask)
        # What a server has pulled it can read again; what was pushed only this machine can.
        listing = plan.listing
        texts = any(map(listing.of_text, range(len(listing))))
        # Rows that the load was allowed to leave out are found here, whoever has read them.
        bad_rows = BadRows(session.source, plan, session.reader, session.options, session.source)
        self._bad_rows = bad_rows if bad_rows.may_be_left_out else None
        here = facts.reach is not None and plan.transport.reads_here
        pulled = not here and not texts and self._bad_rows is None
        self._reads: Engine = session.source_engine if pulled else session.reader
        self._source = facts.source_for(plan.transport) if pulled else session.source
        self._settings = {
            s.name: s.value
            for s in plan.work.settings
            if pulled or not s.name.startswith("max_memory")
        }
        self._others: list[ArrowStreams] = []
        self._by_pyarrow = False
        self.read_by = ""
        if plan.encoding is not None:
            self.read_by = "; the source was read again by the engine, and loaded by rowfall-decode"
        if plan.transport.parser.value == ENGINE and plan.encoding is not None:
            # The engine has read the rows of the load, too.
            why = why_not_read_again(session.source, plan.encoding, self._schema)
            why = "bad rows are left out" if self._bad_rows is not None else why
            self._by_pyarrow = why is None
            if self._by_pyarrow:
                self.read_by = "; the source was read again by pyarrow, and loaded by the engine"
                self._reads, self._source = session.reader, session.source
            else:
                self._say_same_reader(str(why))
        self._table = SqlText.of(session.all_rows) if table is None else table
        self._there = session.engine if engine is None else engine

    def _say_same_reader(self, why: str) -> None:
        self.read_by = "; the source was read again by the engine, which has loaded it, too"
        self._session.emit(Note(
            "info",
            "the source is read again by the reader that has loaded it, the engine's, so that a "
            f"mistake of that reader is not found: {why}",
        ))  # fmt: skip

    def source(self, splits: Sequence[Split]) -> list[tuple[int, int]]:
        """Return (rows, sum of their hashes) of each split."""
        found = [(0, 0)] * len(splits)
        for group in self._grouped(splits, sql.checksum(self._columns)):
            for n, rows, total in self._ask(_union(group)):
                found[n] = (rows, total or 0)
        return found

    def target(self) -> tuple[int, int]:
        """Return (rows, sum of their hashes) of the table."""
        question = SqlText.of(f"SELECT {sql.checksum(self._columns)} FROM ", self._table)
        ((rows, total),) = self._there.ask(question)
        return rows, total or 0

    def difference(self, splits: Sequence[Split]) -> Difference:
        """Find the rows that source and target do not both hold."""
        there = self._target_buckets()
        here: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for start in range(0, len(splits), attempts.MOST_SPLITS):
            relation = self._rows(splits[start : start + attempts.MOST_SPLITS])
            for bucket, rows, total in self._ask(_by_bucket(relation, sql.row_hash(self._columns))):
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
        value = sql.row_hash(self._columns)
        only = f"bitAnd(h, {BUCKETS - 1}) IN ({', '.join(map(str, buckets))})"
        rows = self._there.ask(SqlText.of(
            f"SELECT h, count() FROM (SELECT {value} AS h FROM ", self._table,
            f") WHERE {only} GROUP BY h",
        ))  # fmt: skip
        there = Counter(dict(map(tuple, rows)))
        held: dict[int, dict[int, int]] = defaultdict(dict)
        for group in self._grouped(splits, f"{value} AS h"):
            text = SqlText.of("SELECT n, h, count() FROM (", _union(group), f") WHERE {only} ",
                              "GROUP BY n, h")  # fmt: skip
            for n, h, count in self._ask(text):
                held[h][n] = count
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
        rows = self._there.ask(_by_bucket(self._table, sql.row_hash(self._columns)))
        return {bucket: (rows, total) for bucket, rows, total in rows}

    # --- reading the source --------------------------------------------------------------------

    def _rows(self, splits: Sequence[Split]) -> SqlText:
        """Return the rows of splits as the table holds them: a Float32 there hashes as one."""
        if self._bad_rows is not None:
            return self._good_rows(self._bad_rows, splits)
        encoding, opened = self._encoding, list[Split]()
        if self._by_pyarrow and encoding is not None:
            return SqlText.of("(", _union([self._other(split, encoding) for split in splits]), ")")
        if encoding is not None and matters(self._schema, encoding):
            opened = open_ended(self._session.source, encoding, splits, None)
        if opened and encoding is not None:
            closed = [split for split in splits if split not in opened]
            last = last_name(self._schema, encoding)
            both = [(closed, self._schema), (opened, with_open_end(self._schema, encoding, last))]
            return SqlText.of(
                "(", _union([self._typed(some, schema) for some, schema in both if some]), ")"
            )
        return SqlText.of("(", self._typed(splits, self._schema), ")")

    def _good_rows(self, bad_rows: BadRows, splits: Sequence[Split]) -> SqlText:
        """Return the rows of splits that fit, as the load has read them."""
        rows, lenient = bad_rows.select_good_rows(splits)
        self._settings |= lenient
        typed = ", ".join(
            f"CAST({sql.name(c.name)}, {quote(c.type)}) AS {sql.name(c.name)}"
            for c in self._columns
        )
        return SqlText.of(f"(SELECT {typed} FROM (", rows, "))")

    def _other(self, split: Split, encoding: Encoding) -> SqlText:
        """Return the rows of a file as another reader than that of the load gives them."""
        rows = read_by_pyarrow(self._session.source, split, encoding)
        if rows is None:
            self._say_same_reader(f"{split.name} has types that Arrow means otherwise")
            return self._typed([split], self._schema)
        self._others.append(rows)  # its pipe is open as long as somebody holds it
        listing = rows.listing()
        return _selected(Scan(rows, [listing.split(0, "")], rows.encoding(listing), self._schema))

    def _typed(self, splits: Sequence[Split], schema: Schema) -> SqlText:
        return _selected(Scan(self._source, splits, self._encoding, schema, self._headers))

    def _grouped(self, splits: Sequence[Split], values: str) -> Iterator[list[SqlText]]:
        """Yield SELECTs of (position, values) of splits, as many together as a statement takes."""
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


def _selected(scan: Scan) -> SqlText:
    typed = ", ".join(
        f"CAST({c.expression or sql.name(c.source or c.name)}, {quote(c.type)}) "
        f"AS {sql.name(c.name)}"
        for c in scan.schema.columns
    )
    return SqlText.of(f"SELECT {typed} FROM ", scan.relation())


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
