"""Choose the load to go on with, and end what earlier runs have left.

Here are also the tables that a load has made and that nothing has come into. Their types may be
wrong, so the next load makes them anew, and ``rowfall clean`` drops them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowfall.core import chance, sql, units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.digest import hexdigest
from rowfall.core.errors import LockLostError, RowfallError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import overlap, without_salt
from rowfall.core.model import Statement
from rowfall.core.options import changed
from rowfall.core.patterns import regex
from rowfall.engines.base import Engine, table_uuid
from rowfall.engines.database import Committing, Database
from rowfall.ledger import Ledger, LoadRow, target_key, target_key_parts
from rowfall.ledger.journal import Journal
from rowfall.plan.memory import check_identity
from rowfall.plan.session import Session
from rowfall.plan.survey import landed_ids
from rowfall.publish.altered import AlteredTableError
from rowfall.publish.evidence import Answer
from rowfall.publish.recover import (
    end_open_attempts,
    follow_journal,
    open_journal,
    open_recovery,
    staging_of,
)
from rowfall.publish.shadow import Shadow, shadow_name
from rowfall.publish.target_tables import OwnTable, TargetTables
from rowfall.publish.upsert import settle_upserts
from rowfall.targets import staging, views
from rowfall.targets.base import Publish
from rowfall.targets.export import PIECE
from rowfall.targets.table import DEFAULT_DATABASE

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

# After the name of a file of which a part was loaded.
_RANGE = regex(r"\[-?\d+:-?\d+\]\Z")
# Loads that this process runs now: another thread's load is not an unfinished one.
_ACTIVE: set[str] = set()
MADE, OVER = "made", "over"
"""Steps of the ledger, followed by the UUID of the table that a load has made, and by the name of
the Distributed table that it has made over it."""


@dataclass(frozen=True, slots=True)
class LoadRun:
    """One run of one load.

    Attributes:
        begun: UTC, ISO 8601.
        key: the ledger's key of the target, or of the shadow where this load gathers in one.
        salt: see :class:`rowfall.ledger.journal.Journal`.
        shadow: gathers the attempts until the end of the load; None where each becomes visible by
            itself.
        new: no run has had its id before.
    """

    id: str
    begun: str
    ledger: Ledger
    key: str
    salt: str
    shadow: Shadow | None
    new: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """Starting point of a run, after earlier ones were brought to an end.

    Attributes:
        session: with the cluster as it is now.
        table: that rows gather in on the first writer: the target's own, or its shadow.
        known: ids of splits that need not be loaded again.
        replaced: a stopped run has brought ``--replace`` to its end, but for the report.
    """

    session: Session
    table: str
    known: frozenset[str]
    replaced: bool


@contextmanager
def open_load(session: Session) -> Iterator[LoadRun]:
    """Take up the unfinished load of the same request, or begin a new one.

    Raises:
        UsageError: it has landed something and was run with options that read otherwise.
    """
    ledger = session.ledger
    assert ledger is not None  # noqa: S101 - only dry sessions have none
    load_id, new = _choose_load(session, ledger, _ACTIVE)
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    options, target = session.options, session.target
    key, shadow = session.target_key, None
    if target.caps.publish is Publish.COMMIT:
        key = target_key(session.target_key, load_id)
    elif target.table and (options.gathers or options.replace):
        key = target_key(session.target_key, load_id)
        shadow = Shadow(
            session.engine, ledger, target.database, target.table, load_id, session.target_key, key
        )
    _ACTIVE.add(load_id)
    try:
        yield LoadRun(load_id, begun, ledger, key, load_id if options.force else "", shadow, new)
    except RowfallError:
        ledger.stopped_running(load_id)
        raise
    finally:
        _ACTIVE.discard(load_id)


def settle(session: Session, load: LoadRun) -> Settled:
    """End what crashes left open, and notice a table that is not the one it was.

    Raises:
        LedgerError: ledger or journal and target contradict each other.
        TargetError: a shard has lost its table, or holds rows and does not answer.
        AlteredTableError: rows of this load are staged, and cannot become visible; see
            :attr:`rowfall.publish.recover.Recovery.kept`.
    """
    if session.database is not None:
        return _settle_database(session, load, session.database)
    ledger, shadow = load.ledger, load.shadow
    answer = Answer(session.options.loaded)
    if session.first_target.table and session.shards is None:
        # Before anything else looks at the tables: they may have been exchanged.
        settle_upserts(session, ledger, load.id, new=load.new)
    if session.target.caps.one_file_per_group:
        _remove_unfinished_files(ledger, _ACTIVE - {load.id})
    if not session.target.caps.journal:
        _check_alone(session, ledger, load)
        if not session.options.replace:
            from rowfall.run.doubts import resolve_older

            # First: what it says of open attempts is as old.
            resolve_older(session, ledger, load.id)
        kept = end_open_attempts(session.engine, ledger, session.target, session.emit, answer)
        _refuse_kept(session, ledger, kept)
    table = session.first_target.table
    if not table:
        return Settled(session, table, _known(session, load, replaced=False), replaced=False)
    # A server was asked when it was opened, and a folder's default database is the engine's own.
    if not session.target.caps.journal and session.first_target.database != DEFAULT_DATABASE:
        check_identity(session.engine, session.first_target.database)
    TargetTables(session, ledger).check_together()
    replaced = False
    if session.options.replace and shadow is not None:
        replaced = shadow.swapped() and _all_landed(session, ledger)
        if not replaced:
            table = shadow.name
    elif not ledger.landed(load.key):
        session = _without_own_empty_table(session, ledger, load.id)
    replaced_target = _settle_table(
        session, load, session.target_key, session.first_target.table, answer
    )
    if shadow is not None:
        if replaced_target and session.options.gathers:
            shadow.drop()  # made like a table that is gone
        # Only now: the target's journal may say that the shadow's rows are there.
        shadow.drop_foreign()
        _drop_superseded(session, load, shadow)
        _settle_table(session, load, load.key, shadow.name, answer)
        _drop_shadow_that_was_set_back(session, ledger, load, shadow)
    return Settled(session, table, _known(session, load, replaced=replaced), replaced)


def _check_alone(session: Session, ledger: Ledger, load: LoadRun) -> None:
    """Check that no other process of this machine loads into the folder that this one has locked.

    Raises:
        LockLostError: one does.
    """
    other = None if session.target.folder is None else ledger.running_beside(load.id)
    if other is not None:
        ledger.never_began(load.id)
        raise LockLostError(
            f"another rowfall (load {other.id}) still loads into {session.target.text}, whose lock "
            "file was removed or replaced meanwhile",
            hint="Wait for it to end, then run the same command again.",
        )


def go_on(session: Session, load: LoadRun, known: frozenset[str]) -> Settled | None:
    """Return the starting point of a load right behind another one of this session.

    Args:
        known: ids of splits that need not be loaded again.

    Returns:
        None where something has come between, so that all has to be asked as at the first time.
    """
    if session.database is not None:
        return None  # it is asked in one statement
    database, table = session.first_target.database, session.first_target.table
    uuid = table_uuid(session.engine, database, table)
    if not uuid or uuid != load.ledger.table_uuid(load.key) or load.ledger.open_attempts():
        return None
    TargetTables(session, load.ledger).check_together()
    return Settled(session, table, known, replaced=False)


def _remove_unfinished_files(ledger: Ledger, running: Collection[str]) -> None:
    """Remove the files that dead exports have begun, which have names of their own.

    Args:
        running: other loads of this process.
    """
    for attempt in ledger.open_attempts():
        path = Path(attempt.staging)
        own = path.name.endswith(attempt.id) or path.name.endswith(PIECE)
        if own and attempt.load_id not in running:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _settle_database(session: Session, load: LoadRun, database: Database) -> Settled:
    """End what crashes left open in a database, which itself knows what is loaded."""
    # 50 kB of code that tables of ClickHouse do without.
    from rowfall.publish.commit import drop_gathered, end_open_commits
    from rowfall.publish.transaction import end_open_transactions, landed_in

    ledger, key = load.ledger, session.target_key
    others = _ACTIVE - {load.id}
    if isinstance(database, Committing):
        end_open_commits(database, ledger, session.target, key, others, session.emit)
    else:
        end_open_transactions(database, ledger, key, others, session.emit)
    known, there = ledger.table_uuid(key), database.table_id()
    if known and known != there:
        forgotten = ledger.set_table(key, there)
        if forgotten:
            session.emit(_dropped(session, forgotten))
        if isinstance(database, Committing):
            for attempt, ids in ledger.gathered(load.key).items():  # of the table that is gone
                drop_gathered(database, ledger, attempt, load.key, ids)
    from rowfall.run.doubts import resolve

    resolve(session, ledger, load.id, used=False)
    landed = landed_in(database, load.id, force=session.options.force)
    if isinstance(database, Committing):
        if session.options.replace:
            landed = frozenset(map(without_salt, database.landed_by(load.id)))
        landed |= ledger.landed(load.key)
    return Settled(session, session.target.table, landed, replaced=False)


def _dropped(session: Session, forgotten: int) -> Note:
    """Return the line that says why what was loaded is loaded again."""
    return Note("info", f"{session.table_text} was dropped since the last load: "
                        f"loading {units.counted(forgotten, 'split')} again")  # fmt: skip


def _all_landed(session: Session, ledger: Ledger) -> bool:
    landed = ledger.landed(session.target_key)
    return all(s.id in landed for s in session.listing.splits(session.target_key))


def _known(session: Session, load: LoadRun, *, replaced: bool) -> frozenset[str]:
    """Return the ids of splits that need not be loaded again."""
    ledger = load.ledger
    if not session.target.caps.remembers or session.target.caps.one_file_per_group:
        return frozenset()  # of an export, its manifest knows
    if session.options.force:
        return frozenset(ledger.landed_by(load.id))
    gathered = ledger.landed(session.target_key if replaced else load.key)
    if session.options.replace:
        return frozenset(gathered)
    return frozenset(landed_ids(session) | gathered)


def _settle_table(session: Session, load: LoadRun, key: str, name: str, answer: Answer) -> bool:
    """End what was to be published into one table; forget what its predecessor held.

    Args:
        key: of the ledger. ``name``: of the table, in the database of the first writer.

    Returns:
        True where it had a predecessor, which is gone.
    """
    ledger, journaled = load.ledger, session.target.caps.journal
    uuid = table_uuid(session.engine, session.first_target.database, name)
    tables = TargetTables(session, ledger)
    if uuid and journaled:
        journal = open_journal(session, uuid, load.id, load.salt)
        if journal.there():
            before = ledger.table_uuid(key)
            if before and before != uuid and before in journal.predecessors():
                ledger.set_table(key, uuid, keep=True)
            first = session.writers[0]
            # The journal's UUID is that of the first node's table.
            own = OwnTable(first.engine, first.target.database, name, uuid, tables.text(first))
            recovery = open_recovery(tables, journal, own, answer)
            recovery.end_all()
            for attempt, error in recovery.kept.items():
                if staging_of(attempt) == shadow_name(load.id):
                    raise error  # everything that this load has gathered
            follow_journal(ledger, journal, key)
    known = ledger.table_uuid(key)
    of_target = key == session.target_key
    if uuid and of_target and session.options.replace:
        return bool(known) and known != uuid  # what the ledger knows of its rows stays until then
    if uuid and of_target:
        from rowfall.run.doubts import resolve

        resolve(session, ledger, load.id, used=answer.used)
    if known is None or known == uuid:
        return False
    if known and journaled:
        old = open_journal(session, known, load.id, load.salt)
        if old.there():
            open_recovery(tables, old).table_gone()
    forgotten = ledger.set_table(key, uuid)
    if forgotten and of_target:
        session.emit(_dropped(session, forgotten))
    return bool(known)


def _refuse_kept(session: Session, ledger: Ledger, kept: Mapping[str, AlteredTableError]) -> None:
    """Raise why an attempt was kept whose files this load would load once more.

    On a shared target their leases say so, and only they fail.
    """
    if not kept or session.options.force or session.options.replace:
        return
    files = {split.uri for split in session.listing.splits(session.target_key)}
    for attempt in ledger.open_attempts():
        keys = (attempt.target_key, target_key_parts(attempt.target_key)[0])
        if attempt.id in kept and session.target_key in keys:
            names = {_RANGE.sub("", name) for name in ledger.split_names(attempt.id)}
            if names & files:
                raise kept[attempt.id]


def _drop_superseded(session: Session, load: LoadRun, shadow: Shadow) -> None:
    """Drop a shadow that may never become visible: others have loaded some of its files."""
    if not session.options.gathers or session.options.force:
        return
    gathered = load.ledger.landed(load.key)
    if gathered and (taken := overlap(gathered, landed_ids(session))):
        shadow.drop()
        session.emit(Note(
            "warning",
            f"{units.counted(len(taken), 'file')} that this load had gathered were loaded into "
            f"{session.table_text} by another load meanwhile: what was gathered is dropped, and "
            "the other files are loaded again",
        ))  # fmt: skip


def _drop_shadow_that_was_set_back(
    session: Session, ledger: Ledger, load: LoadRun, shadow: Shadow
) -> None:
    """Drop a shadow of which the ledger knows more than its journal: nobody has seen its rows."""
    if not session.target.caps.journal:
        return
    gathered = ledger.landed(load.key)
    uuid = ledger.table_uuid(load.key)
    if not gathered or not uuid:
        return
    journal = open_journal(session, uuid, load.id)
    known = set(map(without_salt, journal.landed_ids())) if journal.there() else set()
    if not gathered <= known:
        shadow.drop()
        ledger.set_table(load.key, "")


# --- which load -----------------------------------------------------------------------------------


def _choose_load(
    session: Session, ledger: Ledger, active: Collection[str]
) -> tuple[str, bool]:  # fmt: skip
    """Return the unfinished load of the same sources into the same table, or a new one and True.

    Args:
        active: loads that this process runs now, which are not unfinished.

    Raises:
        UsageError: it has landed something and was run with options that read otherwise.
    """
    # By absolute paths: rowfall resume knows the load again from any folder.
    sources = [os.path.abspath(s) if "://" not in s and s != "-" else s for s in session.sources]
    web = {s: uri.object_name(s) for s in sources if uri.scheme_of(s) in ("http", "https")}
    request_print = _request_print(session, [web.get(s, s) for s in sources])
    given = changed(session.options)
    old = None
    if session.source.replayable:
        # Older versions took the addresses with their secrets, or with fewer digests.
        former = [uri.former_name(s) if s in web else s for s in sources]
        old = (
            ledger.unfinished(request_print)
            or ledger.unfinished(_request_print(session, former))
            or ledger.unfinished(_request_print(session, sources))
        )
    if old is not None and old.id in active:
        old = None
    if old is not None and _is_ahead(session, ledger, old.id):
        ledger.give_up(old.id)
        old = None
    if old is not None:
        _same_options(old, given, ledger)
    request = json.dumps({
        "sources": [uri.mask(s) for s in sources],
        "folder": os.getcwd(),
        "to": str(session.target.folder or session.target.text),
        "table": session.table_text or None,
        "options": {k: v for k, v in given.items() if k not in _ANSWERS},
    })  # fmt: skip
    if old is not None and ledger.take_up(old, request):
        return old.id, False
    load_id = chance.token_hex(5)
    ledger.begin(
        load_id,
        request_print,
        session.source.text,
        session.target.text,
        session.target_key,
        request,
    )
    return load_id, True


def _request_print(session: Session, sources: Sequence[str]) -> str:
    """Return what a re-run of the same request is known by."""
    # A forced load is another one: it loads what the others have landed.
    text = json.dumps([sorted(sources), session.target_key, session.options.force])
    return hexdigest(text.encode("utf-8", "surrogateescape"), 16)


def _is_ahead(session: Session, ledger: Ledger, load_id: str) -> bool:
    """Tell whether the journal knows attempts of an unfinished load that its own ledger does not.

    Then the ledger was set back, or another machine goes on with a copy of it. The next attempt
    would have the name of one that the journal has known for long.
    """
    if not session.target.caps.journal:
        return False
    journal = open_journal(session, "")
    if not journal.there():
        return False
    ahead = [a for a in journal.attempts_of(load_id) if not ledger.attempt_state(a)]
    if ahead:
        session.emit(Note(
            "warning",
            f"the ledger {ledger.path} does not know {units.counted(len(ahead), 'attempt')} of its "
            f"own load {load_id} that the journal knows: it was set back, or there are two of it; "
            "what the journal knows counts, under a new load",
        ))  # fmt: skip
    return bool(ahead)


# Said once, about what was found then: no part of what is resumed.
_ANSWERS = ("force", "force_append", "verify", "loaded")
# What decides how bytes become rows, or where they gather: half a load in each way is no load.
_BINDING = ("format", "compression", "delimiter", "atomic", "replace", "upsert")


def _same_options(old: LoadRow, given: Mapping[str, Any], ledger: Ledger) -> None:
    if not ledger.landed_by(old.id):
        return
    before = json.loads(old.request)["options"]
    differ = [
        _difference(f"--{name.replace('_', '-')}", before.get(name), given.get(name))
        for name in _BINDING
        if before.get(name) != given.get(name)
    ]
    if differ:
        raise UsageError(
            f"load {old.id} of these files is unfinished and was run with other options: "
            + "; ".join(differ),
            hint=f"Give the same options to go on, or begin anew after rowfall forget {old.id}.",
        )


def _difference(option: str, before: object, now: object) -> str:
    """Say how an option was given otherwise; flags are True, None is "not given"."""
    if True in (before, now):
        return f"{option} was {'' if before else 'not '}given, now it is{'' if now else ' not'}"
    was = "not given" if before is None else before
    return f"{option} was {was}, now it is {'not given' if now is None else now}"


# --- tables that were made and stayed empty -------------------------------------------------------


def _without_own_empty_table(session: Session, ledger: Ledger, load_id: str) -> Session:
    """Drop a table that a failed load has made and left empty; return the session without it."""
    database, table = session.first_target.database, session.first_target.table
    shards = session.shards
    nodes: dict[str, Engine] = {"": session.engine}
    if shards is not None:
        if len(shards.cluster.up) < len(shards.cluster.nodes):
            return session  # a node that is away would keep its own
        # First the one that keeps the journal.
        order = sorted(shards.cluster.nodes, key=lambda n: n.address != shards.writers[0].node)
        nodes = {node.address: shards.connect(node) for node in order}
    if not is_own_and_empty(nodes, ledger, database, table, load_id=load_id):
        return session
    uuid = table_uuid(session.engine, database, table)
    for node, *name in drop_order(nodes, ledger, database, table, uuid):
        nodes[node].run(Statement(staging.drop(*name, if_empty=True)))
    if shards is None:
        return session
    return replace(session, shards=replace(shards, tables=shards.find_tables()))


def made_tables(ledger: Ledger) -> Iterator[tuple[str, str, str, str]]:
    """Yield (load, database, table, UUID) of each that a load has made, whatever became of it."""
    for load_id, key, uuid in ledger.steps_called(MADE):
        database, table = target_key_parts(key)[:2]
        yield load_id, database, table, uuid


def is_own_and_empty(
    nodes: Mapping[str, Engine], ledger: Ledger, database: str, table: str, *, load_id: str = ""
) -> bool:
    """Tell whether a load of this ledger has made a table, and nothing has come into it.

    Nobody has put anything into it on any of these engines, reads from it by a view, or loads into
    it now.

    Args:
        nodes: the first has the journal, if the target has one.
        load_id: of the load that asks.
    """
    first = next(iter(nodes.values()))
    key, uuid = target_key(database, table), table_uuid(first, database, table)
    # One of the same name that somebody else has made has another uuid.
    if not uuid or uuid not in {made for *_, made in made_tables(ledger)} or ledger.landed(key):
        return False
    if ledger.others_load(load_id, key):
        return False  # one that has just begun has written nothing into the journal yet
    if any(a.target_key == key and a.state == "loaded" for a in ledger.open_attempts()):
        return False  # what it has staged must be published
    if first.shared and _loaded_by_others(Journal(first, database, uuid)):
        return False
    name = sql.qualified(database, table)
    for engine in nodes.values():
        if table_uuid(engine, database, table) and (
            engine.ask(f"SELECT count() FROM {name}") != [[0]]
            or views.discover(engine.ask, database, table)
        ):
            return False
    return True


def _loaded_by_others(journal: Journal) -> bool:
    return journal.there() and any(
        e.landed or e.binding or not (e.ended or e.dead) for e in journal.entries()
    )


def remember_made(ledger: Ledger, load_id: str, uuid: str, shards: OpenCluster | None) -> None:
    """Record that a load has made its table; of a cluster perhaps the Distributed one, too.

    Args:
        shards: as they were before.
    """
    ledger.step(load_id, f"{MADE} {uuid}", "done")
    if shards is not None and not shards.tables.direct and shards.tables.like_over is None:
        over = (shards.tables.database, shards.tables.table)
        ledger.step(load_id, f"{OVER} {json.dumps(over)}", "done")


def drop_order(
    nodes: Collection[str], ledger: Ledger, database: str, table: str, uuid: str
) -> Iterator[tuple[str, str, str]]:
    """Yield (node, database, table) of what has to be dropped with such a table, in order."""
    over = _over(ledger, uuid)
    for name in ((over,) if over else ()) + ((database, table),):
        # The first node's last: by that one it is known again, if we are killed between them.
        for node in reversed(list(nodes)):
            yield node, *name


def _over(ledger: Ledger, uuid: str) -> tuple[str, str] | None:
    """Return database and name of the Distributed table made over the one with this UUID."""
    loads = {load_id for load_id, *_, made in made_tables(ledger) if made == uuid}
    for load_id, _, name in ledger.steps_called(OVER):
        if load_id in loads:
            database, table = json.loads(name)
            return str(database), str(table)
    return None
