"""Says what a load takes on disk, and where it cannot fit. Pure.

What is needed is what the rows take in the table. Staged rows are linked into it and not copied, so
they take nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.facts import LoadFacts
from rowfall.core import units
from rowfall.core.model import Forecast

# What is on disk at most during a load, as a multiple of what is there at its end. Measured with
# 390 MB of taxi rows: a folder 1.04 (16 parts, few merges in the time of a load); a server of 24.10
# 1.8 with 35 attempts (merged parts stay for 8 minutes), 1.01 with one. Merges take no more than
# half of what is free, so they shrink where it is little.
PEAK_FOLDER, PEAK_SERVER = 1.1, 1.8


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
