"""Who parses text: rowfall-decode here, rowfall-decode inside the server, or the engine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from rowfall.core import sql
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.model import Kind, Schema, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.version import __version__
from rowfall.engines.ask import ask
from rowfall.plan import bodies, decoder
from rowfall.plan.reach import Reach, same_machine
from rowfall.plan.session import Session
from rowfall.sources.base import Addressed

if TYPE_CHECKING:
    from rowfall.engines.server import Server


# A look must not hold up a plan; the program answers within milliseconds.
LOOK_MS = 5_000
_TUPLE = re.compile(r"(?:tuple)?\((.*)\)", re.S)


@dataclass(frozen=True, slots=True)
class Parsing:
    """How rows get to the engine, now that the decoder's part is known.

    Attributes:
        how: as the session had it, or changed.
        engine: why the engine parses; "" when rowfall-decode does, where the rows are read.
    """

    how: Reach | None
    engine: str


def choose(session: Session, schema: Schema) -> Parsing:
    """Take the decoder wherever it can be used.

    Where the CPU is this machine's either way, pushing decoded blocks takes less than half of what
    a server needs to parse by itself (50 M rows of csv.gz: 3.4 CPU-seconds, 8.2 when it pulls).

    Raises:
        UsageError: ``--decoder always``, and it cannot.
    """
    wish, how = session.options.decoder, session.how
    if wish == "never":
        return Parsing(how, "--decoder never")
    facts = session.engine.facts
    if len({writer.engine.facts.timezone for writer in session.writers}) > 1:
        facts = replace(facts, timezone="")  # each shard reads times without a zone in its own
    why = decoder.refusal(session.listing, session.encoding, schema, facts)
    if not why and how is not None and how.pull:
        why = _outside(session, how)
        if not why:
            there = f"{how.reason}; {decoder.PROGRAM} parses there"
            return Parsing(replace(how, reason=there), "")
        nearer = _nearer(session, how)
        if nearer is not None:
            return Parsing(nearer, "")
    elif not why and decoder.program() is None:
        why = f"{decoder.PROGRAM} is not installed"
    if why and wish == "always":
        raise UsageError(
            f"{decoder.PROGRAM} cannot be used: {why}",
            hint="Leave out --decoder always; rowfall install-decoder puts it into a server.",
        )
    return Parsing(how, why)


def _outside(session: Session, how: Reach) -> str:
    """Why the decoder cannot run inside the server that reads the source, "" if it can."""
    if not isinstance(how.source, Addressed):
        return "the server reads its own files"
    for writer in session.writers:
        if why := obstacle_inside(cast("Server", writer.engine)):
            return f"{why} ({writer.place})" if writer.place else why
    return ""


def _nearer(session: Session, how: Reach) -> Reach | None:
    """Reading and parsing here instead of pulling, where that is better or asked for."""
    server = session.target.server
    if session.options.pull or decoder.program() is None or server is None:
        return None
    if session.options.decoder == "always":
        return Reach(False, f"{decoder.PROGRAM} reads here, as asked for", session.source)
    if session.far or not same_machine(cast("Server", session.engine), server.host):
        return None
    why = f"the server is on this machine, where {decoder.PROGRAM} parses for half the CPU"
    return Reach(False, why, session.source, how.seconds)


def presort(session: Session, schema: Schema, engine: str) -> tuple[str, ...]:
    """Columns that rowfall-decode sorts blocks by, before they are sent.

    ``auto`` sorts wherever it can: that took less CPU in all that was measured
    (:func:`rowfall.plan.decoder.sort_columns`).

    Args:
        engine: why the engine parses; "" when rowfall-decode does.

    Raises:
        UsageError: ``--presort on``, and it cannot.
    """
    wish = session.options.presort
    if wish == "off":
        return ()
    found: tuple[int, ...] = ()
    if engine:
        why = f"the engine parses: {engine}"
    elif not session.target.table:
        why = "rows go into no table"
    else:
        key = sorting_key(session, schema)
        found = decoder.sort_columns(key, schema)
        why = f"the table's key is ({key}), not just flat columns of the load" if key else ""
        why = why or "the table has no key"
    if found or wish == "auto":
        return tuple(schema.columns[n].name for n in found)
    raise UsageError(f"blocks cannot be sorted: {why}", hint="Leave out --presort on.")


def sorting_key(session: Session, schema: Schema) -> str:
    """``a, b``: of the table that is there, or of the one that will be made."""
    if schema.exists:
        rows = ask(
            session.engine,
            "SELECT sorting_key FROM system.tables WHERE "
            f"database = {quote(session.local.database)} AND name = {quote(session.home)}",
        )
        return str(rows[0][0]) if rows else ""
    found = _TUPLE.fullmatch(schema.order_by.strip())
    return found[1] if found else schema.order_by


def reads_exactly(session: Session) -> bool:
    """Whether the engines that store take floats of text exactly: not 24.10, for one."""
    if (
        session.target.server is None
        or session.encoding is None
        or session.encoding.kind is Kind.TYPED
    ):
        return True
    statement = Statement(
        SqlText.of(bodies.FLOAT_PROBE), {"precise_float_parsing": 1}, format="TSV"
    )
    try:
        return all(writer.engine.run(statement).data == b"1\n" for writer in session.writers)
    except RowfallError:  # a right is missing that a load needs, too
        return False


def obstacle_inside(server: Server) -> str:
    """Why the server cannot run this version of the program, as half a sentence; "" if it can."""
    try:
        said = _look(server, decoder.PROGRAM)
    except RowfallError:
        return f"the server has no {decoder.PROGRAM}"
    if said != f"{decoder.PROGRAM} {__version__}":
        return f"the server has {said or decoder.PROGRAM}, and this is {__version__}"
    return ""


def refusal_inside(server: Server, program: str) -> str:
    """What the server says when it is to run a program; "" when it can."""
    try:
        _look(server, program)
    except RowfallError as error:
        return error.message
    return ""


def _look(server: Server, program: str) -> str:
    relation = f"executable({sql.literal(f'{program} --version')}, 'LineAsString', 'line String', "
    look = f"SETTINGS check_exit_code = 1, command_read_timeout = {LOOK_MS})"
    text = SqlText.of(f"SELECT line FROM {relation}{look}")
    return server.run(Statement(text, format="TabSeparatedRaw")).data.decode().strip()
