"""Bring attempts that a crash left open to an end, by evidence.

Where this process has the target to itself, the ledger says which attempts are open. On a shared
target the journal does, and other processes may end the same attempts at the same moment. What is
to be done about each is :func:`rowfall.publish.protocol.after_crash`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.contracts.destination import Session
from rowfall.core import sql
from rowfall.core.errors import EngineError, LedgerError, TargetError, UsageError
from rowfall.core.events import Listener, Note
from rowfall.core.model import StagingPair, Statement
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import Attempt, Ledger, StagedPartition, target_key_parts
from rowfall.ledger.journal import Journal, JournalEntry
from rowfall.ledger.ledger import coming
from rowfall.publish.altered import AlteredTableError
from rowfall.publish.attach import Publisher, pairs_of
from rowfall.publish.evidence import LoadedAnswer
from rowfall.publish.fence import MOST_WAIT, POLL_SECONDS, fence, wait_for
from rowfall.publish.protocol import Action, Evidence, Recorded, after_crash
from rowfall.publish.target_tables import OwnTable, TargetTables
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.codes import GONE
from rowfall.targets.base import SHADOW_SUFFIX, STAGING_PREFIX

if TYPE_CHECKING:
    from rowfall.cluster.open import OpenCluster

# States in the ledger of attempts that need their staging tables no more.
_ENDED = ("published", "failed", "lost")
_WHOLE = regex(rf"(?<={SHADOW_SUFFIX})\d+\Z")


def staging_of(attempt: str) -> str:
    """Return the prefix of the names of an attempt's staging tables.

    One that makes a gathered load visible has its shadow, whatever its number.
    """
    return STAGING_PREFIX + _WHOLE.sub("", attempt)


def staged_attempts(engine: Engine) -> set[str]:
    """Return the attempts that staging tables are named after."""
    rows = engine.ask(sql.tables_called(STAGING_PREFIX))
    names = (str(name).removeprefix(STAGING_PREFIX).split("_") for (name,) in rows)
    return {"_".join(parts[:2]) for parts in names}


def _discard(engine: Engine, prefix: str) -> None:
    """Drop the staging tables of an attempt, all of whose names begin with ``prefix``."""
    for statement in staging.discard(engine.ask, prefix):
        engine.run(Statement(statement))


# --- a target of this process alone ---------------------------------------------------------------


def end_open_attempts(
    engine: Engine, ledger: Ledger, emit: Listener, answer: LoadedAnswer | None = None,
    running: Collection[str] = (),
) -> dict[str, AlteredTableError]:  # fmt: skip
    """End every open attempt of a folder, whose tables only this process uses.

    The engine was restarted since (it ends with rowfall), so no statement of them still runs. What
    a finished attempt left, because rowfall was killed before the drop, is dropped as well.

    Args:
        answer: see :class:`rowfall.publish.evidence.LoadedAnswer`.
        running: other loads of this process, whose attempts are not open but at work.

    Returns:
        The attempts that are kept as they are, each with the reason.

    Raises:
        LedgerError: ledger and target contradict each other.
    """
    kept: dict[str, AlteredTableError] = {}
    for attempt in ledger.open_attempts():
        if attempt.load_id in running:
            continue
        if _action(engine, ledger, attempt) is not Action.DISCARD:
            try:
                _publish_rest(engine, ledger, attempt, emit, answer)
            except AlteredTableError as error:
                _keep(attempt.id, error, kept, emit)
            continue
        dropped = attempt.committed
        if dropped or not attempt.gathers:
            _discard(engine, attempt.staging)
        why = "the target table was dropped" if dropped else "rowfall or its engine was stopped"
        ledger.attempt_ended(attempt.id, "lost", why)
    for attempt_id in staged_attempts(engine):
        if attempt_id.partition("_")[0] in running:
            continue
        if ledger.attempt_state(attempt_id) in _ENDED:
            _discard(engine, f"{STAGING_PREFIX}{attempt_id}")
    return kept


def _keep(
    attempt: str, error: AlteredTableError, kept: dict[str, AlteredTableError], emit: Listener
) -> None:
    """Leave a committed attempt as it is that cannot become visible; warn of it once."""
    if after_crash(Recorded.COMMITTED, Evidence.UNFIT) is not Action.KEEP:
        raise error
    if attempt not in kept:
        emit(Note("warning", f"{error.message}. {error.hint}"))
    kept[attempt] = error


def _action(engine: Engine, ledger: Ledger, attempt: Attempt) -> Action:
    """Return the next action for an open attempt: DISCARD, or one that completes its publishing.

    Raises:
        LedgerError: somebody else has dropped its staging tables.
    """
    if not attempt.committed:
        return after_crash(Recorded.STARTED)
    return after_crash(Recorded.COMMITTED, _evidence(engine, ledger, attempt))


def _evidence(engine: Engine, ledger: Ledger, attempt: Attempt) -> Evidence:
    """Find out what became of a committed attempt that is staged in tables.

    Raises:
        LedgerError: somebody else has dropped its staging tables.
    """
    pairs = pairs_of(ledger.moves(attempt.id))
    there = _existing(engine, pairs)
    for pair in pairs:
        if (pair.database, pair.table) not in there or not _is_own(engine, ledger, attempt, pair):
            return Evidence.TARGET_GONE
        gone = (pair.database, pair.staging) not in there
        # rowfall drops staging only after the attempt is recorded as published.
        if gone and after_crash(Recorded.COMMITTED, Evidence.STAGING_GONE) is Action.STOP:
            raise LedgerError(
                f"the staging table {pair.database}.{pair.staging} with {attempt.rows or 0:,} "
                "loaded rows was dropped by somebody else",
                hint=f"Check whether {pair.database}.{pair.table} holds them; a load with --force "
                "adds them.",
            )
    # Perhaps none of them, perhaps all: Publisher.settle compares part by part.
    return Evidence.SOME_PARTS


def _existing(engine: Engine, pairs: Sequence[StagingPair]) -> set[tuple[str, str]]:
    """Return those tables of some pairs that exist, as (database, name)."""
    wanted = " OR ".join(
        f"(database = {quote(p.database)} AND name IN ({quote(p.table)}, {quote(p.staging)}))"
        for p in pairs
    )
    rows = engine.ask(f"SELECT database, name FROM system.tables WHERE {wanted or '0'}")
    return {(str(database), str(name)) for database, name in rows}


def _is_own(engine: Engine, ledger: Ledger, attempt: Attempt, pair: StagingPair) -> bool:
    """Tell whether a table is still the one that an attempt was loaded for.

    True for shadows and for the tables behind views, whose UUIDs nobody has written down.
    """
    known = ledger.table_uuid(attempt.target_key)
    if not known or [pair.database, pair.table] != target_key_parts(attempt.target_key):
        return True
    return table_uuid(engine, pair.database, pair.table) == known


def _publish_rest(
    engine: Engine, ledger: Ledger, attempt: Attempt, emit: Listener, answer: LoadedAnswer | None
) -> None:
    """Publish what of a committed attempt is not visible yet."""
    publisher, moves = Publisher(engine, ledger, answer=answer), ledger.moves(attempt.id)
    settled = publisher.settle(attempt.id, moves)
    _check_unmarked(publisher, attempt, moves, settled)
    publisher.publish(attempt.id, settled)
    engine.sync()
    ledger.attempt_published(attempt.id, attempt.target_key)
    _discard(engine, attempt.staging)
    emit(Note("info", f"published {attempt.rows or 0:,} rows that a stopped run had loaded"))


def _check_unmarked(
    publisher: Publisher,
    attempt: Attempt,
    moves: Sequence[StagedPartition],
    settled: Sequence[StagedPartition],
) -> None:
    """Check that an attempt whose table has no mark of it has all of its rows in staging.

    The mark is written before the first ATTACH, so nothing of them can be anywhere else.

    Args:
        settled: by :meth:`Publisher.settle`.

    Raises:
        LedgerError: some are gone: table and staging are of an earlier moment.
    """
    uuid = publisher.ledger.marks(attempt.id)
    if not uuid or publisher.engine.marked(uuid) in (coming(attempt.id), attempt.id):
        return
    pairs = pairs_of(settled)
    staged = publisher.staged(pairs, 0.0, [pair.staging for pair in pairs])
    rows, left = sum(m.rows for m in moves), sum(m.rows for m in staged.moves)
    if left < rows:
        raise LedgerError(
            f"{rows - left:,} of the {rows:,} rows of the attempt {attempt.id} are neither in the "
            "table nor staged: the folder was set back to an earlier state, or copied while it was "
            "loaded",
            hint="Put back a ledger and rows of one moment. The same command, once more, says what "
            "else can be done.",
        )


def give_up_alone(engine: Engine, ledger: Ledger, attempt_id: str) -> None:
    """Drop the rows of a committed attempt in a folder, so that its splits can be loaded again.

    Raises:
        UsageError: there is no such attempt.
        LedgerError: some of its rows are visible.
    """
    found = [a for a in ledger.open_attempts() if a.id == attempt_id and a.committed]
    if not found:
        raise _nothing_to_give_up(attempt_id)
    publisher, moves = Publisher(engine, ledger), ledger.moves(attempt_id)
    _check_hidden(publisher, moves, publisher.settle(attempt_id, moves))
    ledger.attempt_ended(attempt_id, "failed", "given up by the user")
    _discard(engine, found[0].staging)


def _nothing_to_give_up(attempt: str) -> UsageError:
    return UsageError(
        f"there is no attempt {attempt} of a dead load whose rows are staged and not visible",
        hint="To load again what a load has made visible, forget the load.",
    )


def _check_hidden(
    publisher: Publisher, moves: Sequence[StagedPartition], settled: Sequence[StagedPartition]
) -> None:
    """Check that nothing of an attempt is visible.

    Args:
        settled: by :meth:`Publisher.settle`.

    Raises:
        LedgerError: something is.
    """
    pairs = pairs_of(settled)
    left = publisher.staged(pairs, 0.0, [pair.staging for pair in pairs])
    rows, hidden = sum(m.rows for m in moves), sum(m.rows for m in left.moves)
    if rows != hidden:
        raise LedgerError(
            f"{rows - hidden:,} of the {rows:,} rows of this attempt are visible already",
            hint="To load its files again would double them. Alter staging by hand, as the load "
            "says, or delete these rows from the table and forget the whole load.",
        )


# --- a target shared with other processes ---------------------------------------------------------


def follow_journal(ledger: Ledger, journal: Journal, key: str) -> None:
    """Bring the ledger's open attempts into one shared table up to what its journal says.

    Args:
        key: the ledger's key of the table.
    """
    mine = [a for a in ledger.open_attempts() if a.target_key == key]
    if not mine:
        return
    found = {e.attempt: e for e in journal.entries()}
    for attempt in mine:
        entry = found.get(attempt.id, JournalEntry(attempt.id, ""))
        if entry.blocks.loaded and not entry.blocks.forgotten:
            ledger.attempt_published(attempt.id, key)
        elif _recorded(entry) is not Recorded.COMMITTED:  # else it is kept, see Recovery
            ledger.attempt_ended(attempt.id, "lost", "rowfall or the server was stopped")


def _recorded(entry: JournalEntry) -> Recorded:
    """Return the state of an attempt by its entry in the journal."""
    if not entry.blocks.claimed:
        return Recorded.NOTHING
    if entry.blocks.loaded:
        return Recorded.PUBLISHED
    if entry.ended or entry.blocks.forgotten:
        return Recorded.ENDED
    return Recorded.COMMITTED if entry.binding else Recorded.STARTED


def _is_open(entry: JournalEntry) -> bool:
    return _recorded(entry) in (Recorded.STARTED, Recorded.COMMITTED)


class NodeRecovery:
    """Ends, on one node, what dead processes have staged there.

    Args:
        journal: of the table whose attempts are ended.
        emit: hears what was done.
        node: ``host:port`` that ``engine`` is; only attempts that stage there are ended.
        own: the journal's table, None where it need not be checked.
        answer: see :class:`rowfall.publish.evidence.LoadedAnswer`.
    """

    def __init__(
        self, engine: Engine, ledger: Ledger, journal: Journal, database: str, emit: Listener,
        node: str = "", own: OwnTable | None = None, answer: LoadedAnswer | None = None,
    ) -> None:  # fmt: skip
        self.node = node
        self.engine = engine
        self._ledger = ledger
        self._journal = journal
        self._database = database
        self.emit = emit
        self.own = own
        self._answer = answer
        self._publisher = Publisher(engine, ledger, answer=answer)

    def on(self, engine: Engine, node: str, own: OwnTable | None) -> NodeRecovery:
        """Return the recovery of another node."""
        return NodeRecovery(
            engine,
            self._ledger,
            self._journal,
            self._database,
            self.emit,
            node,
            own,
            self._answer,
        )

    def discard_ended(self, entries: Sequence[JournalEntry]) -> None:
        """Drop what is left of attempts that died between their last line and the drop."""
        # Of a living owner that was not expired, the owner drops it.
        ended = {
            e.attempt for e in entries
            if self.node in e.nodes and not _is_open(e) and (e.dead or e.blocks.expired)
        }  # fmt: skip
        for attempt in ended & staged_attempts(self.engine):
            self.discard(attempt)

    def table_gone(self) -> None:
        """Drop what dead processes had staged for a table that does not exist any more."""
        entries = self._journal.entries()
        there = staged_attempts(self.engine)
        for entry in entries:
            staged = entry.attempt in there
            if self.node not in entry.nodes or not entry.dead:
                continue
            if entry.blocks.loaded and staged:
                self.discard(entry.attempt)
            if entry.blocks.loaded or not (staged or entry.binding):
                continue
            self.kill(entry.attempt)
            # Killed before it could see that another table had taken the place of this one.
            self._publisher.take_back(entry.moves_on(self.node))
            if staged:
                self.discard(entry.attempt)

    def kill(self, attempt: str) -> None:
        """End what a dead process has started and may still run on the server."""
        mine = (
            f"query_id = {quote(attempt)} OR startsWith(query_id, {quote(attempt + '_')}) "
            # What another node sends here on its behalf has an id of its own.
            f"OR initial_query_id = {quote(attempt)}"
        )
        for (query_id,) in self._ask(f"SELECT query_id FROM system.processes WHERE {mine}"):
            if "_into_" in query_id:
                wait_for(self.engine, query_id)  # a publishing statement may finish
            else:
                self.engine.kill(query_id)

    def publish(self, attempt: str, moves: Sequence[StagedPartition]) -> None:
        """Make visible what :meth:`fence` has put aside, as far as it is not."""
        self._publisher.check_own(moves, self.own)
        settled = self._publisher.settle(attempt, moves, self._journal, self.node)
        self._publisher.publish(attempt, settled, self.own, self._journal, self.node)
        self.engine.sync()
        self._publisher.check_attached(attempt, settled, self._journal, self.node)

    def drop(self, moves: Sequence[StagedPartition], *, there: bool = False) -> None:
        """Drop the staging tables that :meth:`fence` has put aside.

        Args:
            there: see :func:`rowfall.systems.clickhouse.staging.drop`.
        """
        for database, name in dict.fromkeys((m.database, m.staging) for m in moves):
            self.engine.run(Statement(staging.drop(database, name, there=there)))

    def check_hidden(self, attempt: str, moves: Sequence[StagedPartition]) -> None:
        """Check that nothing is visible of what :meth:`fence` has put aside.

        Raises:
            LedgerError: something is.
        """
        settled = self._publisher.settle(attempt, moves, self._journal, self.node)
        _check_hidden(self._publisher, moves, settled)

    def fence(self, entry: JournalEntry) -> list[StagedPartition]:
        """Rename the staging tables of an attempt; return its moves under the new names.

        A process that was only slow finds its staging table gone and can do no harm: what it has
        sent before is waited for, what it sends after fails.

        Raises:
            EngineError: another one has renamed some of them at the same moment (codes.GONE).
            LedgerError: some of them are gone, and nobody has said that the attempt is loaded.
        """
        for name in self._views(entry.attempt):
            self._run(f"DROP TABLE IF EXISTS {sql.qualified(self._database, name)} SYNC")
        return fence(
            self.engine, entry.attempt, entry.moves_on(self.node),
            lambda: _has_loaded(self._journal, entry.attempt),
        )  # fmt: skip

    def _views(self, attempt: str) -> list[str]:
        """Return the names of the views that fill an attempt's staging tables."""
        prefix = f"{STAGING_PREFIX}{attempt}"
        rows = self._ask(
            f"SELECT name, engine LIKE '%View' FROM system.tables WHERE "
            f"database = {quote(self._database)} AND "
            f"(name = {quote(prefix)} OR startsWith(name, {quote(prefix + '_')}))"
        )
        return [str(name) for name, view in rows if view]

    def discard(self, attempt: str) -> None:
        """Drop everything that an attempt has staged here."""
        _discard(self.engine, f"{STAGING_PREFIX}{attempt}")

    def discard_shown(self, attempt: str) -> None:
        """Drop what is left of an attempt that is loaded: of a gathered load, its shadow."""
        _discard(self.engine, staging_of(attempt))

    def _ask(self, text: str) -> list[list[Any]]:
        return self.engine.ask(text)

    def _run(self, text: str) -> None:
        self.engine.run(Statement(SqlText.of(text)))


class Recovery:
    """Ends attempts of dead processes, each on every node that it may have staged on.

    Two that do it at once do not harm each other.

    Args:
        nodes: those that load.
        shards: the cluster that they are of; attempts may have staged on other nodes of it.

    Attributes:
        kept: committed attempts that cannot become visible, because their table was altered, each
            with the reason. They stay as they are; nobody may load their splits.
    """

    def __init__(
        self, journal: Journal, nodes: Sequence[NodeRecovery], shards: OpenCluster | None = None
    ) -> None:
        self._journal = journal
        self._first = nodes[0]
        self._nodes = {one.node: one for one in nodes}
        self._shards = shards
        self.kept: dict[str, AlteredTableError] = {}

    def end_all(self) -> None:
        """End every attempt of a dead process.

        Raises:
            LedgerError: journal and target contradict each other.
            TargetError: a node is away that holds rows which must be published.
        """
        entries = self._journal.entries()
        # Another replica may have staged while the one that loads now was away.
        for node in {node for e in entries for node in e.nodes}:
            self._on(node)
        here = set(self._nodes)
        # First those that can be ended: one whose node is away is an error.
        for away in (False, True):
            self.end([
                e.attempt for e in entries
                if _is_open(e) and e.dead and away is not here.issuperset(e.nodes)
            ])  # fmt: skip
        for recovery in self._nodes.values():
            recovery.discard_ended(entries)

    def table_gone(self) -> None:
        """Drop what dead processes had staged for a table that does not exist any more."""
        for recovery in self._nodes.values():
            recovery.table_gone()

    def end(self, attempts: Sequence[str]) -> None:
        """End named attempts: publish what was committed, drop what was not.

        Those that cannot become visible come into :attr:`kept`.
        """
        for attempt in attempts:
            entry = self._journal.expire(attempt)
            if not _is_open(entry) and not entry.blocks.expired:
                continue  # it has ended by itself in the meantime
            found = {node: self._on(node) for node in entry.nodes}
            there = [one for one in found.values() if one is not None]
            publishes = entry.binding and not entry.blocks.loaded
            if publishes:
                # Before anything becomes visible: of an attempt on several nodes all of it can.
                _check_there(entry, [node for node, one in found.items() if one is None])
            for one in there:
                one.kill(attempt)
            if publishes:
                try:
                    self._publish_committed(entry, there)
                except AlteredTableError as error:
                    _keep(attempt, error, self.kept, self._first.emit)
                    continue
            # A load that finds another node of it drops what is there.
            for one in there:
                if publishes:
                    one.discard_shown(attempt)
                else:
                    one.discard(attempt)

    def give_up(self, attempt: str) -> None:
        """Drop the rows of a committed attempt, so that its splits can be loaded again.

        Raises:
            UsageError: there is no such attempt of a dead process.
            LedgerError: some of its rows are visible.
            EngineError: another process goes on with it at this moment (codes.GONE).
        """
        entry = next((e for e in self._journal.entries() if e.attempt == attempt), None)
        if entry is None or not entry.dead or _recorded(entry) is not Recorded.COMMITTED:
            raise _nothing_to_give_up(attempt)
        found = {node: self._on(node) for node in entry.nodes}
        _check_there(entry, [node for node, one in found.items() if one is None])
        there = [one for one in found.values() if one is not None]
        for one in there:
            one.kill(attempt)
        fenced = [(one, one.fence(entry)) for one in there]
        for one, moves in fenced:
            one.check_hidden(attempt, moves)
        # Whoever else wants to publish them renames them first: then this fails.
        for one, moves in fenced:
            one.drop(moves, there=True)
        self._journal.forget_attempt(attempt)
        for one in there:
            one.discard_shown(attempt)

    def _on(self, name: str) -> NodeRecovery | None:
        """Return the recovery of a node; None where no such node answers.

        An attempt of the node "" was made before the table was loaded as one of a cluster: then it
        was staged on the first node.
        """
        if name not in self._nodes and self._shards is not None:
            nodes = self._shards.cluster.up
            node = next((n for n in nodes if n.address == name), None)
            if node is not None:
                self._nodes[name] = self._first.on(self._shards.connect(node), name, None)
            elif not name:
                self._nodes[name] = self._first.on(self._first.engine, name, self._first.own)
        return self._nodes.get(name)

    def _publish_committed(self, entry: JournalEntry, nodes: Sequence[NodeRecovery]) -> None:
        """Publish what a dead process had committed.

        Others may do the same at this moment: who fences last goes on, the one before finds its
        tables gone and asks again.
        """
        deadline = time.monotonic() + MOST_WAIT
        while not _has_loaded(self._journal, entry.attempt):
            try:
                fenced = [(node, node.fence(entry)) for node in nodes]
                for node, moves in fenced:
                    node.publish(entry.attempt, moves)
                self._journal.loaded(entry.attempt)
                for node, moves in fenced:
                    node.drop(moves)
                for node in nodes[:1]:
                    text = f"published {entry.rows:,} rows that a stopped run had loaded"
                    node.emit(Note("info", text))
                return
            except EngineError as error:
                if error.code not in GONE or time.monotonic() > deadline:
                    raise
            # Of two that take turns, one has to ask again sooner than the other.
            time.sleep(POLL_SECONDS * (1 + secrets.randbelow(10)))


def open_journal(session: Session, uuid: str, load_id: str = "", salt: str = "") -> Journal:
    """Return the journal of the target table with that UUID; see :class:`Journal`."""
    shards = session.shards
    shard_of = {node.address: node.shard for node in shards.cluster.nodes} if shards else {}
    return Journal(session.engine, session.first_target.database, uuid, load_id, salt, shard_of)


def open_recovery(
    tables: TargetTables,
    journal: Journal,
    first: OwnTable | None = None,
    answer: LoadedAnswer | None = None,
) -> Recovery:
    """Return who ends the attempts of dead processes into the target tables of a load.

    Args:
        first: the table of the first writer where it is not known in ``tables`` yet.
        answer: notes that it was needed; by default that of the session, which nobody reads.
    """
    session = tables.session
    answer = answer or LoadedAnswer(session.options.loaded)
    return Recovery(journal, [
        NodeRecovery(
            writer.engine, tables.ledger, journal, session.first_target.database, session.emit,
            writer.node, first if first and not writer.number else tables.of(writer), answer,
        )
        for writer in session.writers
    ], session.shards)  # fmt: skip


def _check_there(entry: JournalEntry, away: Sequence[str]) -> None:
    """Raise TargetError when a node is away that holds rows of a committed attempt."""
    for node in away:
        if rows := sum(move.rows for move in entry.moves_on(node)):
            raise TargetError(
                f"the node {node or 'that was loaded alone'} does not answer here, and holds "
                f"{rows:,} rows that a stopped load has staged and must make visible",
                hint="Start it and run the same command again. Only where its disk is gone and its "
                "rows never reached another replica: rowfall forget, and load again.",
            )


def _has_loaded(journal: Journal, attempt: str) -> bool:
    return any(e.attempt == attempt and e.blocks.loaded for e in journal.entries())
