"""Source and target compared by the engine: rows, and a checksum that ignores their order."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from rowfall.core.errors import UsageError, VerifyError
from rowfall.core.events import Note
from rowfall.core.listing import Split
from rowfall.core.model import Plan
from rowfall.core.results import Verification, VerifiedSplit
from rowfall.engines.ask import asker
from rowfall.ledger import Ledger
from rowfall.plan.facts import LoadFacts
from rowfall.plan.planner import make_plan
from rowfall.plan.session import Session
from rowfall.plan.survey import survey
from rowfall.run.sides import MASK64, Sides
from rowfall.targets import staging
from rowfall.targets.base import Publish


def verify_table(session: Session, load_id: str) -> Verification:
    """Compare the table of a load with its source, read again.

    Raises:
        UsageError: the load went into no table. SourceError: the source is gone or changed.
    """
    start = time.monotonic()
    ledger = session.ledger
    if ledger is None or session.target.caps.publish is not Publish.ATTACH:
        raise UsageError(
            f"load {load_id} kept no table to compare",
            hint="Only loads into a table can be verified afterwards.",
        )
    facts = survey(session)
    made, landed = make_plan(facts, session.options), facts.landed
    splits = _splits(session, made, landed)
    sides = Sides(session, facts, made)
    source = sides.source(splits)
    obstacle = _obstacle(session, ledger, len(landed))
    if obstacle:
        return _counted(session, ledger, load_id, splits, source, obstacle, start)
    rows, total = sides.target()
    landed_rows: list[int | None] = [rows for rows, _ in source]
    foreign, scope = 0, "the whole table"
    if (rows, total) != _sum(source):
        difference = sides.difference(splits)
        foreign = difference.foreign
        landed_rows = difference.landed([rows for rows, _ in source])
        if difference.share < 1:
            scope += f"; where it differs by looking at {difference.share:.0%} of the rows"
    return _verdict(load_id, splits, source, (rows, total), landed_rows, foreign, scope, start)


def _splits(session: Session, made: Plan, indexes: Collection[int]) -> list[Split]:
    return [made.listing.split(index, session.target_key) for index in sorted(indexes)]


def _sum(parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """(rows, checksum) of several together."""
    return sum(rows for rows, _ in parts), sum(total for _, total in parts) & MASK64


def _obstacle(session: Session, ledger: Ledger, landed: int) -> str:
    """Why the table as it is now says nothing about this load, "" if it does."""
    others = len(ledger.landed(session.target_key)) - landed
    if others > 0:
        return f"the table also holds {others:,} splits of other loads or older versions"
    found = staging.facts(
        asker(session.engine), session.first_target.database, session.first_target.table
    )
    if found is not None and found.collapses:
        return f"{found.engine} makes fewer rows of them when it merges"
    if found is not None and "TTL" in found.create_query:
        return "the table's TTL removes rows"
    return ""


def _counted(
    session: Session, ledger: Ledger, load_id: str, splits: Sequence[Split],
    source: Sequence[tuple[int, int]], obstacle: str, start: float,
) -> Verification:  # fmt: skip
    """Source and ledger compared: the rows that each attempt had staged when it was published."""
    known = {split.id: n for n, split in enumerate(splits)}
    landed: list[int | None] = [None] * len(splits)
    ok, total = True, 0
    for rows, ids in ledger.landed_attempts(session.target_key):
        own = [known[i] for i in ids if i in known]
        if len(own) < len(ids):
            continue  # of another load, or a version that is gone
        total += rows
        if rows == sum(source[n][0] for n in own):
            for n in own:
                landed[n] = source[n][0]
        else:
            ok = False
            if len(own) == 1:
                landed[own[0]] = rows
    unknown = sum(rows is None for rows in landed) if ok else 0
    scope = f"rows as they were counted before they became visible, because {obstacle}"
    if unknown:
        scope += f"; {unknown:,} splits were loaded from another machine, which has their counts"
        total += sum(source[n][0] for n, rows in enumerate(landed) if rows is None)
    return _verdict(load_id, splits, source, (total, None), landed, 0, scope, start, ok=ok)


def _verdict(
    load_id: str, splits: Sequence[Split], source: Sequence[tuple[int, int]],
    target: tuple[int, int | None], landed: Sequence[int | None], foreign: int, scope: str,
    start: float, *, ok: bool = True,
) -> Verification:  # fmt: skip
    rows, total = _sum(source)
    return Verification(
        load_id,
        ok and rows == target[0] and target[1] in (None, total),
        rows,
        target[0],
        f"{total:016x}",
        "" if target[1] is None else f"{target[1]:016x}",
        scope,
        time.monotonic() - start,
        tuple(
            VerifiedSplit(split.name, count, f"{own:016x}", there)
            for split, (count, own), there in zip(splits, source, landed, strict=True)
        ),
        foreign,
    )


def compare_staged(
    session: Session,
    facts: LoadFacts,
    made: Plan,
    staged: tuple[int, int],
    landed: set[str],
    load_id: str,
) -> Verification:
    """Compare what the attempts of this run held in staging with their source, read again.

    Args:
        staged: (rows, checksum) summed over the attempts before they were moved.
        landed: ids of the splits they came from.

    Raises:
        VerifyError: they differ.
    """
    start = time.monotonic()
    splits = [split for split in made.listing.splits(session.target_key) if split.id in landed]
    source = Sides(session, facts, made).source(splits)
    rows = [rows for rows, _ in source]
    found = _verdict(load_id, splits, source, staged, rows, 0, "the rows of this run", start)
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
            f"verified: {found.source_rows:,} rows, checksum {found.source_checksum} on both "
            f"sides ({found.seconds:.1f} s)",
        )
    )
    return found
