"""Source and target compared by the engine: rows, and a checksum that ignores their order."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rowfall import planner, sql
from rowfall.errors import LedgerError, UsageError, VerifyError
from rowfall.events import Note
from rowfall.jobs import Job, plan_job
from rowfall.model import Plan, Statement
from rowfall.publish import ask, checksum
from rowfall.sqltext import SqlText, quote
from rowfall.targets.base import Publish

MASK64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Verification:
    """Source and target compared by the engine: rows, and a checksum that ignores their order.

    Attributes:
        source_checksum, target_checksum: sum over all rows of a 64-bit hash of all columns.
        scope: what was compared, in words.
        seconds: how long it took.
    """

    load_id: str
    ok: bool
    source_rows: int
    target_rows: int
    source_checksum: str
    target_checksum: str
    scope: str
    seconds: float


def _source_checksum(job: Job, made: Plan, indexes: Sequence[int]) -> tuple[int, int]:
    schema = made.schema
    rows, total = 0, 0
    # What the server has pulled it can read again; what was pushed only this machine can.
    reads = job.engine if made.delivery == "pull" else job.reader
    structure = sql.structure((c.source or c.name, c.read_type or c.type) for c in schema.columns)
    settings = {s.name: s.value for s in made.settings}
    for start in range(0, len(indexes), planner.MOST_SPLITS):
        splits = list(job.listing.splits(job.into, indexes[start : start + planner.MOST_SPLITS]))
        source = job.puller if made.delivery == "pull" else job.source
        relation = source.relation(splits, job.encoding, structure)
        # Converted as the INSERT converts: a Float64 that becomes Float32 hashes as Float32.
        typed = ", ".join(
            f"CAST({c.expression or sql.name(c.source or c.name)}, {quote(c.type)}) "
            f"AS {sql.name(c.name)}"
            for c in schema.columns
        )
        text = SqlText.of(
            f"SELECT {checksum(schema.columns)} FROM (SELECT {typed} FROM ",
            relation, ")",
        )  # fmt: skip
        fixed = {**settings, "output_format_json_quote_64bit_integers": 0}
        out = reads.run(Statement(text, fixed, format="JSONCompactEachRow")).data
        found = json.loads(out)
        rows, total = rows + found[0], (total + found[1]) & MASK64
    return rows, total


def verify_table(job: Job, load_id: str) -> Verification:
    start = time.monotonic()
    ledger = job.ledger
    if ledger is None or job.target.caps.publish is not Publish.ATTACH:
        raise UsageError(
            f"load {load_id} kept no table to compare",
            hint="Only loads into a table can be verified afterwards.",
        )
    made, landed = plan_job(job)
    others = len(ledger.landed(job.into)) - len(landed)
    if others:
        raise LedgerError(
            f"{job.table_text} also holds {others:,} splits of other loads or older versions "
            "of these objects, so it cannot be compared as a whole",
            hint="Use --verify when loading: it compares before the rows are mixed.",
        )
    source = _source_checksum(job, made, sorted(landed))
    table = sql.qualified(job.target.database, job.target.table)
    ((rows, total),) = ask(job.engine, f"SELECT {checksum(made.schema.columns)} FROM {table}")
    return _verdict(load_id, source, (rows, total or 0), "the whole table", start)


def _verdict(
    load_id: str, source: tuple[int, int], target: tuple[int, int], scope: str, start: float
) -> Verification:
    return Verification(
        load_id, source == target, source[0], target[0], f"{source[1]:016x}",
        f"{target[1]:016x}", scope, time.monotonic() - start,
    )  # fmt: skip


def compare_staged(
    job: Job, made: Plan, staged: tuple[int, int], landed: set[str], load_id: str
) -> Verification:
    """Compare what the attempts of this run held in staging with their source, read again.

    Args:
        staged: (rows, checksum) summed over the attempts before they were moved.
        landed: ids of the splits they came from.

    Raises:
        VerifyError: they differ.
    """
    start = time.monotonic()
    splits = enumerate(job.listing.splits(job.into))
    indexes = [i for i, split in splits if split.id in landed]
    source = _source_checksum(job, made, indexes)
    found = _verdict(load_id, source, staged, "the rows of this run", start)
    if not found.ok:
        raise VerifyError(
            f"source and target differ: {found.source_rows:,} rows with checksum "
            f"{found.source_checksum} against {found.target_rows:,} with {found.target_checksum}",
            hint="The source may have changed while it was loaded; see rowfall report.",
        )
    job.emit(
        Note(
            "info",
            f"verified: {found.source_rows:,} rows, checksum {found.source_checksum} on both "
            f"sides ({found.seconds:.1f} s)",
        )
    )
    return found
