"""Who parses text: rowfall-decode here, rowfall-decode inside the server, or the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from rowfall import bodies, decoding, inside
from rowfall.errors import RowfallError, UsageError
from rowfall.jobs import Job
from rowfall.model import Kind, Schema, Statement
from rowfall.publish import ask
from rowfall.reach import Reach, same_machine
from rowfall.sources.base import Addressed
from rowfall.sqltext import SqlText, quote

if TYPE_CHECKING:
    from rowfall.engines.server import Server


_TUPLE = re.compile(r"(?:tuple)?\((.*)\)", re.S)


@dataclass(frozen=True, slots=True)
class Parsing:
    """How rows get to the engine, now that the decoder's part is known.

    Attributes:
        how: as the job had it, or changed.
        engine: why the engine parses; "" when rowfall-decode does, where the rows are read.
    """

    how: Reach | None
    engine: str


def choose(job: Job, schema: Schema) -> Parsing:
    """Take the decoder wherever it can be used.

    Where the CPU is this machine's either way, pushing decoded blocks takes less than half of what
    a server needs to parse by itself (50 M rows of csv.gz: 3.4 CPU-seconds, 8.2 when it pulls).

    Raises:
        UsageError: ``--decoder always``, and it cannot.
    """
    wish, how = job.options.decoder, job.how
    if wish == "never":
        return Parsing(how, "--decoder never")
    facts = job.engine.facts
    if len({seat.engine.facts.timezone for seat in job.seats}) > 1:
        facts = replace(facts, timezone="")  # each shard reads times without a zone in its own
    why = decoding.refusal(job.listing, job.encoding, schema, facts)
    if not why and how is not None and how.pull:
        why = _outside(job, how)
        if not why:
            there = f"{how.reason}; {decoding.PROGRAM} parses there"
            return Parsing(replace(how, reason=there), "")
        nearer = _nearer(job, how)
        if nearer is not None:
            return Parsing(nearer, "")
    elif not why and decoding.program() is None:
        why = f"{decoding.PROGRAM} is not installed"
    if why and wish == "always":
        raise UsageError(
            f"{decoding.PROGRAM} cannot be used: {why}",
            hint="Leave out --decoder always; rowfall install-decoder puts it into a server.",
        )
    return Parsing(how, why)


def _outside(job: Job, how: Reach) -> str:
    """Why the decoder cannot run inside the server that reads the source, "" if it can."""
    if not isinstance(how.source, Addressed):
        return "the server reads its own files"
    for seat in job.seats:
        if why := inside.obstacle(cast("Server", seat.engine)):
            return f"{why} ({seat.place})" if seat.place else why
    return ""


def _nearer(job: Job, how: Reach) -> Reach | None:
    """Reading and parsing here instead of pulling, where that is better or asked for."""
    server = job.target.server
    if job.options.pull or decoding.program() is None or server is None:
        return None
    if job.options.decoder == "always":
        return Reach(False, f"{decoding.PROGRAM} reads here, as asked for", job.source)
    if job.far or not same_machine(cast("Server", job.engine), server.host):
        return None
    why = f"the server is on this machine, where {decoding.PROGRAM} parses for half the CPU"
    return Reach(False, why, job.source, how.seconds)


def presort(job: Job, schema: Schema, engine: str) -> tuple[str, ...]:
    """Columns that rowfall-decode sorts blocks by, before they are sent.

    ``auto`` sorts wherever it can: that took less CPU in all that was measured
    (:func:`rowfall.decoding.sort_columns`).

    Args:
        engine: why the engine parses; "" when rowfall-decode does.

    Raises:
        UsageError: ``--presort on``, and it cannot.
    """
    wish = job.options.presort
    if wish == "off":
        return ()
    found: tuple[int, ...] = ()
    if engine:
        why = f"the engine parses: {engine}"
    elif not job.target.table:
        why = "rows go into no table"
    else:
        key = sorting_key(job, schema)
        found = decoding.sort_columns(key, schema)
        why = f"the table's key is ({key}), not just flat columns of the load" if key else ""
        why = why or "the table has no key"
    if found or wish == "auto":
        return tuple(schema.columns[n].name for n in found)
    raise UsageError(f"blocks cannot be sorted: {why}", hint="Leave out --presort on.")


def sorting_key(job: Job, schema: Schema) -> str:
    """``a, b``: of the table that is there, or of the one that will be made."""
    if schema.exists:
        rows = ask(
            job.engine,
            "SELECT sorting_key FROM system.tables WHERE "
            f"database = {quote(job.local.database)} AND name = {quote(job.home)}",
        )
        return str(rows[0][0]) if rows else ""
    found = _TUPLE.fullmatch(schema.order_by.strip())
    return found[1] if found else schema.order_by


def reads_exactly(job: Job) -> bool:
    """Whether the engines that store take floats of text exactly: not 24.10, for one."""
    if job.target.server is None or job.encoding is None or job.encoding.kind is Kind.TYPED:
        return True
    statement = Statement(
        SqlText.of(bodies.FLOAT_PROBE), {"precise_float_parsing": 1}, format="TSV"
    )
    try:
        return all(seat.engine.run(statement).data == b"1\n" for seat in job.seats)
    except RowfallError:  # a right is missing that a load needs, too
        return False
