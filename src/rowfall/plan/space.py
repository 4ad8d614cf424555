"""Ask what a load takes on disk and what is free; say where it cannot fit.

What is needed is what the rows take in the table. Staged rows are linked into it and not copied, so
they take nothing twice.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rowfall.cluster.writer import Writer
from rowfall.contracts.destination import Session
from rowfall.contracts.facts import FirstFacts, LoadFacts, Space
from rowfall.core import sql, units
from rowfall.core.errors import RowfallError
from rowfall.core.model import Encoding, Forecast, Schema, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine
from rowfall.plan.reach import source_reader
from rowfall.schema import sampling
from rowfall.schema.projection import Scan
from rowfall.sources.base import any_version

# Rows of a table that is there say better than any sample what the next ones take.
KNOWN_ROWS = 100_000
# A sample that zlib packs in 0.1 s.
_SAMPLE_ROWS, _SAMPLE_BYTES, _SAMPLE_FILES = 65_536, 8 << 20, 4
# LZ4 of the engine makes this much more of columns than zlib's first level: 97 MB of taxi rows that
# were foretold as 80 by 1.25. No column gets longer by it.
_LZ4 = 1.5
# More rows make runs of equal keys longer: the rows of a sample that has eight times as many take
# less each. It is not foretold that they go on to do so for ever.
_STEEPEST, _STEP = 0.5, 8
# LZ4 packs nothing better, marks included: 133 to 222 bytes into one, of 2 to 5 M rows of few
# values that are sorted by all of them. They were foretold as down to a sixth of what they took.
_LZ4_BEST = 150
# A guess at first, where nothing is asked: rows in memory are never smaller than on disk.
_SURELY = 1.2
# What is on disk at most during a load, as a multiple of what is there at its end. Measured with
# 390 MB of taxi rows: a folder 1.04 (16 parts, few merges in the time of a load); a server of 24.10
# 1.8 with 35 attempts (merged parts stay for 8 minutes), 1.01 with one. Merges take no more than
# half of what is free, so they shrink where it is little.
PEAK_FOLDER, PEAK_SERVER = 1.1, 1.8


def ask_space(session: Session, facts: FirstFacts, rows: int | None, *, sample: bool) -> Space:
    """Ask what is free for each writer, and what a row takes on disk.

    Args:
        rows: about how many there are to load.
        sample: look at the data in any case, not only where they may not fit.
    """
    free = tuple(_free(session, writer) for writer in session.writers)
    least = min((f for f in free if f is not None), default=None)
    if rows is None or least is None or session.options.no_space_check:
        return Space(free)
    if not sample and rows * facts.schema.row_bytes * _SURELY < least:
        return Space(free)
    return Space(free, _of_table(session) or _of_sample(session, facts, rows))


# --- what is free --------------------------------------------------------------------------------


def _free(session: Session, writer: Writer) -> int | None:
    """Return the bytes that are free for the table of a writer; None where that is not known."""
    if writer.engine.kind == "embedded":
        return free_bytes(session.target.folder)
    target = writer.target
    policy = (
        "SELECT any(storage_policy) FROM system.tables WHERE database = "
        f"{quote(target.database)} AND name = {quote(target.table)}"
    )
    try:
        # A new table gets the policy "default". Object storage has no end: 2^63 and more.
        ((there, free),) = writer.engine.ask(
            "SELECT count(), sum(toFloat64(unreserved_space)) FROM system.disks WHERE name IN "
            "(SELECT arrayJoin(disks) FROM system.storage_policies WHERE policy_name = "
            f"ifNull(nullIf(({policy}), ''), 'default'))"
        )
    except RowfallError:  # a right that a load does not need
        return None
    return int(free) if there and free < 1 << 60 else None


def free_bytes(folder: Path | None) -> int | None:
    """Return the bytes that this user may still write into a folder, which need not be there."""
    while folder is not None and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder or ".")
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


# --- what a row takes ----------------------------------------------------------------------------


def _of_table(session: Session) -> float | None:
    """Return the bytes on disk of a row that is in the table; None where it has too few."""
    target = session.first_target
    if session.options.replace:
        return None
    try:
        ((rows, stored),) = session.engine.ask(
            "SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = "
            f"{quote(target.database)} AND table = {quote(target.table)}"
        )
    except RowfallError:
        return None
    return float(stored) / float(rows) if rows >= KNOWN_ROWS else None


def _of_sample(session: Session, facts: FirstFacts, rows: int) -> float | None:
    """Return the bytes on disk of a row by a sample, sorted by the key and packed."""
    encoding, schema = facts.encoding, facts.schema
    engine, source = source_reader(session, facts.reach)
    source = any_version(source)
    most = int(max(1_000, min(_SAMPLE_ROWS, _SAMPLE_BYTES / schema.row_bytes)))
    try:
        splits = list(source.sample(facts.listing, _SAMPLE_FILES))[:_SAMPLE_FILES]
        taken = _packed(engine, [
            SqlText.of("SELECT ", sql.projection(schema.columns), " FROM ",
                       Scan(source, [split], encoding, schema).relation(),
                       f" LIMIT {max(1, most // len(splits))}")
            for split in splits
        ], encoding, schema, most)  # fmt: skip
    except (RowfallError, OSError, ZeroDivisionError):
        return None  # whoever loads it says what is wrong with it
    if taken is None:
        return None
    few, many, count, raw = taken
    steep = min(_STEEPEST, math.log(few / many, _STEP)) if few > many > 0 else 0.0
    foretold: float = many * (count / max(rows, count)) ** steep
    return max(foretold, raw / _LZ4_BEST)


def _packed(
    engine: Engine, parts: Sequence[SqlText], encoding: Encoding | None, schema: Schema, most: int
) -> tuple[float, float, int, float] | None:
    """Return the packed bytes of a row in an eighth of the sample and in all of it; its rows, and
    the bytes of one that is not packed."""
    settings = sampling.probe_settings(encoding, strict=True) if encoding is not None else {}
    inner: list[str | SqlText] = []
    for part in parts:
        inner += [" UNION ALL " if inner else "", "(", part, ")"]
    order = (
        "" if schema.layout.order_by in ("", "tuple()") else f" ORDER BY {schema.layout.order_by}"
    )
    found = []
    for limit in (max(1, most // _STEP), most):
        text = SqlText.of("SELECT * FROM (SELECT * FROM (", *inner, f") LIMIT {limit}){order}")
        known = engine.facts.known({**settings, "max_block_size": most})
        counted = SqlText.of("SELECT count() FROM (", text, ")")
        ((rows,),) = engine.ask(counted, known)
        if not rows:
            return None
        data = engine.run(Statement(text, known, format="Native", alters=None)).data
        packed = min(len(zlib.compress(data, 1)) * _LZ4, len(data))
        found.append((packed / rows, int(rows), len(data) / rows))
    return found[0][0], *found[1]


# --- what a load needs ---------------------------------------------------------------------------


def needed(facts: LoadFacts, rows: int | None) -> int | None:
    """Return the bytes that ``rows`` take on disk; None where that is not known."""
    if rows is None or facts.stored_row_bytes is None:
        return None
    return round(rows * facts.stored_row_bytes)


def with_space(
    forecast: Forecast, facts: LoadFacts, rows: Sequence[int | None], *, by_key: bool
) -> Forecast:
    """Return the forecast with what the load needs of all disks, what is free, and what is short.

    Args:
        rows: of each writer's share of the files.
        by_key: rows go where a key says, about as many to each writer.
    """
    if by_key and None not in rows:
        rows = [sum(r or 0 for r in rows) // len(rows)] * len(rows)
    short: list[str] = []
    tight: list[str] = []
    needs = [needed(facts, count) for count in rows]
    peak = PEAK_FOLDER if facts.placement == "embedded" else PEAK_SERVER
    for writer, need in zip(facts.writers, needs, strict=True):
        free = writer.disk_free
        if need is None or free is None:
            continue
        twice = facts.table.stored.bytes if facts.table.stored is not None else 0
        if twice and need + twice > free:
            tight.append(
                f"--upsert needs up to {units.size(twice)} more while old and new parts are there, "
                f"and {units.size(free)} are free."
            )
        said = (
            f"the rows take about {units.size(need)} on disk, and "
            f"{f'{writer.node} has' if writer.node else 'there are'} {units.size(free)} free"
        )
        if need > free:
            short.append(said)
        elif need * peak > free:
            tight.append(
                f"{said[:1].upper()}{said[1:]}: merges need some of it, too, and keep merged parts "
                "for 8 minutes."
            )
    frees = [writer.disk_free for writer in facts.writers]
    return replace(
        forecast,
        disk=None if None in needs else sum(need or 0 for need in needs),
        disk_free=None if None in frees else sum(free or 0 for free in frees),
        short="; ".join(short),
        advice=(*forecast.advice, *tight),
    )
