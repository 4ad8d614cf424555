"""Replace the rows of a table by their key (``--upsert``): rebuild it beside, exchange the two.

The rows of the load have gathered in a shadow. A copy of the table gets links to all of its parts
at one moment, loses the rows whose key is in the shadow (a mutation writes only the parts anew that
hold such rows), and gets the parts of the shadow. ``EXCHANGE TABLES`` puts it into the place of the
table, so readers see the old rows or the new ones.

Until the exchange nothing is visible and everything may be made anew. What others do to the table
meanwhile is found by its blocks, of which a list was kept: rows that they have inserted are carried
over; where they have deleted or changed some, the copy is made once more. After the exchange the
old table is only dropped when nobody writes into it any more and its last rows are carried over. On
a server the journal says which table has followed which, so any rowfall can do that.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rowfall.contracts.destination import Session
from rowfall.core import sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, LedgerError, RowfallError, SourceError, TargetError
from rowfall.core.events import Note
from rowfall.core.listing import Split
from rowfall.core.model import StagingPair, Statement
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote, quoted_list
from rowfall.engines.base import Engine, table_uuid
from rowfall.engines.database import null_in_key
from rowfall.ledger import Ledger, target_key
from rowfall.ledger.journal import Journal
from rowfall.ledger.ledger import REBUILT
from rowfall.publish.attach import Publisher
from rowfall.publish.fence import POLL_SECONDS, renamed
from rowfall.publish.recover import Recovery, open_journal, open_recovery
from rowfall.publish.shadow import SWAP, Shadow
from rowfall.publish.tables import TableWriter
from rowfall.publish.target_tables import OwnTable, TargetTables, table_dropped
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.codes import NO_DEFINITION, NOT_ALIKE, TABLE_EXISTS
from rowfall.systems.clickhouse.staging import REBUILT_PREFIX
from rowfall.targets.base import STAGING_PREFIX

# Behind the name of a rebuilt table: links to the parts that it was made from, and their list.
_LINKS, _LIST = "_links", "_list"
# Between a list of the parts and their links a merge may unite new ones with old ones: then both
# are made again.
_SNAPSHOTS = 20
# Who changes rows all the time does so for good.
_REBUILDS = 3
# A load of others, or an INSERT that began before the exchange, may be a long one.
_MOST_WAIT = 600.0
# What is grouped goes to disk beyond this.
_GROUPING = {"max_bytes_before_external_group_by": 1 << 30}
_WHOLE = regex(r"_whole\d+\Z")
_KEPT_COLUMNS = "default_kind NOT IN ('ALIAS', 'EPHEMERAL', 'MATERIALIZED')"


def rebuilt_key(target: str, load_id: str) -> str:
    """Return the ledger's key of the rebuilt table of a load."""
    return target_key(target, load_id, REBUILT)


class RebuiltTable(Shadow):
    """A rebuilt table on its way into the target's place."""

    def __init__(
        self, engine: Engine, ledger: Ledger, database: str, table: str, load_id: str, key: str,
        name: str,
    ) -> None:  # fmt: skip
        super().__init__(engine, ledger, database, table, load_id, key, rebuilt_key(key, load_id))
        self.name = name

    def in_place(self, known: str) -> bool:
        """Tell whether a stopped run has exchanged the tables; from now on it cannot happen late.

        Args:
            known: UUID of the rebuilt table.
        """
        self._put_aside(known)
        return self._target() == known

    def _finish_swap(self, uuid: str) -> None:
        self._engine.sync()  # before the ledger knows the new table
        if self._shadow_of(uuid):
            raise EngineError(
                f"{self._database}.{self._table} is the old table again: was the machine of the "
                "server without power?",
                hint="Run the same command again: it makes the new one once more.",
                transient=True,
            )
        record_exchange(self._ledger, self._load_id, self._target_key, uuid)


def record_exchange(ledger: Ledger, load_id: str, key: str, uuid: str) -> None:
    """Record that a rebuilt table is the target now, which holds what the load has gathered."""
    ledger.upserted(load_id, target_key(key, load_id), key, uuid)
    ledger.set_table(rebuilt_key(key, load_id), "")
    ledger.step(load_id, SWAP, "done")


@dataclass(frozen=True, slots=True)
class _Block:
    """A part as the list has it, or as it is now."""

    name: str
    partition: str
    low: int
    high: int
    rows: int
    version: int


@dataclass(frozen=True, slots=True)
class PartChanges:
    """Changes of a table since the list of its parts was made.

    Attributes:
        inserted: names of parts that hold only rows of others. ``mixed``: partitions whose new rows
            have been merged with others, or whose deleted rows were merged away.
        gone: rows may have been deleted or changed by others.
    """

    inserted: tuple[str, ...] = ()
    mixed: tuple[str, ...] = ()
    gone: bool = False


def compare(before: Sequence[_Block], now: Sequence[_Block]) -> PartChanges:
    """Return the changes of a table between two lists of its parts. Pure.

    Block numbers are never used twice: a part of now holds the parts of before that lie within its
    blocks of the same partition, and rows of others where it has more rows than these.
    """
    by_partition: dict[str, list[_Block]] = {}
    for one in before:
        by_partition.setdefault(one.partition, []).append(one)
    inserted: list[str] = []
    mixed: dict[str, None] = {}
    gone, covered = False, 0
    for part in now:
        held = [
            one for one in by_partition.get(part.partition, ())
            if part.low <= one.low and one.high <= part.high
        ]  # fmt: skip
        covered += len(held)
        if not held:
            inserted.append(part.name)
        elif sum(one.rows for one in held) != part.rows:
            mixed[part.partition] = None
        # A mutation gives its number to every part.
        gone |= bool(held) and part.version > max(part.low, *(one.version for one in held))
    gone |= covered < len(before)
    return PartChanges(tuple(inserted), tuple(mixed), gone)


def came_before(
    before: Sequence[_Block], now: Sequence[_Block], linked: int
) -> list[_Block] | None:
    """Return the parts that came after a list of all was made and before these were linked. Pure.

    An INSERT gets its block number at the moment when it becomes visible, so those that came before
    have lower numbers than those that came after.

    Args:
        before: the list. ``now``: the parts after they were linked. ``linked``: rows of the links.

    Returns:
        None where it cannot be told which were linked: rows were taken away, or merged with others.
    """
    changes = compare(before, now)
    if changes.gone or changes.mixed:
        return None
    missing = linked - sum(one.rows for one in before)
    found: list[_Block] = []
    names = set(changes.inserted)
    for one in sorted((one for one in now if one.name in names), key=lambda one: one.low):
        if missing <= 0:
            break
        found.append(one)
        missing -= one.rows
    return found if missing == 0 else None


class Upsert:
    """One load with ``--upsert``, whose rows are in its shadow.

    Args:
        key: columns. ``whole``: leases of the target, see :class:`rowfall.run.prepare.Prepared`.
        salt: see :class:`rowfall.ledger.journal.Journal`.
    """

    def __init__(
        self, session: Session, ledger: Ledger, shadow: Shadow, at: TableWriter,
        key: Sequence[str], load_id: str, salt: str, whole: Journal | None,
        recovery: Recovery | None,
    ) -> None:  # fmt: skip
        self._session, self._ledger, self._shadow, self._at = session, ledger, shadow, at
        self._load_id, self._salt, self._whole, self._recovery = load_id, salt, whole, recovery
        self._engine = at.writer.engine
        self._database, self._table = at.writer.target.database, at.writer.target.table
        self._key = key
        self._columns = ", ".join(map(sql.name, key))

    def run(self, attempt: str, splits: Sequence[Split]) -> None:
        """Replace the rows of the table, and add the new ones, as the work of an attempt.

        Args:
            attempt: in the ledger, with the splits that the shadow holds, and their lease.

        Raises:
            SourceError: a key occurs twice in the load, or is NULL; what was gathered is dropped.
            TargetError: others change the table all the time, or it is gone.
        """
        try:
            rows = self._check_keys()
            self._wait_for_others(attempt)
            rebuilt = self._build(attempt)
        except RowfallError as error:
            self._drop_own()
            if self._whole is not None:
                self._whole.release(attempt)
            self._ledger.attempt_ended(attempt, "failed", error.message)
            if isinstance(error, SourceError):
                self._shadow.drop()
                self._ledger.set_table(target_key(self._session.target_key, self._load_id), "")
                self._ledger.give_up(self._load_id)
            raise
        self._exchange(rebuilt, splits, rows)
        if self._whole is not None:
            self._whole.release(attempt)
        end_exchanged(self._session, self._ledger, self._load_id)
        self._drop_own()
        self._shadow.drop()

    def _check_keys(self) -> int:
        """Check that each key is in the shadow once; return the rows there."""
        at = sql.qualified(self._database, self._shadow.name)
        null = " OR ".join(f"isNull({sql.name(one)})" for one in self._key)
        ((rows, nulls),) = self._engine.ask(f"SELECT count(), countIf({null}) FROM {at}")
        if nulls:
            raise null_in_key(int(nulls), self._key)
        twice = (
            f"SELECT {self._columns}, count() AS rowfall_n FROM {at} GROUP BY {self._columns} "
            "HAVING rowfall_n > 1"
        )
        found = self._engine.ask(f"{twice} ORDER BY rowfall_n DESC LIMIT 1", _GROUPING)
        if found:
            ((keys,),) = self._engine.ask(f"SELECT count() FROM ({twice})", _GROUPING)
            *values, times = found[0]
            said = ", ".join(f"{k} = {v}" for k, v in zip(self._key, values, strict=True))
            more = f", and {units.counted(int(keys) - 1, 'other key')} more than once"
            raise SourceError(
                f"{said} occurs {times} times in the load{more if keys > 1 else ''}: nothing says "
                "which of these rows is the last",
                hint="Leave all but one row of each key out of the files. Or load without --upsert "
                "into a table with --engine 'ReplacingMergeTree(version)', where the row with the "
                "highest version stays.",
            )
        return int(rows)

    # --- others -------------------------------------------------------------------------------

    def _others(self, attempt: str) -> tuple[list[str], bool]:
        """Return the attempts of dead processes that are open, and whether living ones are.

        Of two that wait for each other, the one that has asked first goes on.
        """
        if self._whole is None:
            return [], False
        entries = {e.attempt: e for e in self._whole.entries()}
        mine = entries[attempt].blocks.claimed
        found = [
            e for e in entries.values()
            if not e.over and not e.attempt.startswith(f"{self._load_id}_")
            and (e.blocks.claimed < mine or not _WHOLE.search(e.attempt))
        ]  # fmt: skip
        return [e.attempt for e in found if e.dead], any(not e.dead for e in found)

    def _wait_for_others(self, attempt: str) -> None:
        """Wait until no other rowfall is about to make rows visible in the table.

        Raises:
            TargetError: they load on and on; or another one has exchanged the table.
        """
        deadline, told = time.monotonic() + _MOST_WAIT, False
        while True:
            dead, living = self._others(attempt)
            if dead and self._recovery is not None:
                self._recovery.end(dead)
                for one in dead:
                    if one in self._recovery.kept:
                        raise self._recovery.kept[one]
                continue
            if not living:
                break
            if not told:
                text = f"waiting for another rowfall that loads into {self._session.table_text}"
                self._session.emit(Note("info", text))
            told = True
            if time.monotonic() > deadline:
                raise TargetError(
                    f"another rowfall has loaded into {self._session.table_text} for "
                    f"{_MOST_WAIT:.0f} seconds, and --upsert exchanges the table",
                    hint="Run the same command again when it has ended: what is gathered stays.",
                    transient=True,
                )
            time.sleep(POLL_SECONDS)
        self._at.own.check()

    # --- the rebuilt table --------------------------------------------------------------------

    def _build(self, attempt: str) -> str:
        """Return the name of a rebuilt table that misses nothing but rows inserted since."""
        for _ in range(_REBUILDS):
            name = f"{REBUILT_PREFIX}{self._load_id}_{secrets.token_hex(3)}"
            definition = self._copy(name)
            self._shadow.follow(self._at.staging)  # somebody may have altered the table
            try:
                self._replace_rows(name)
            except RowfallError as error:
                if error.code not in NOT_ALIKE or definition == self._definition():
                    raise
            self._engine.sync()
            self._wait_for_others(attempt)
            changes = compare(
                self._listed(name), _blocks(self._engine, self._database, self._table)
            )
            if not changes.gone and definition == self._definition():
                return name
            self._session.emit(Note(
                "warning",
                f"others have deleted or changed rows of {self._session.table_text}, or altered "
                "it: it is rebuilt once more",
            ))  # fmt: skip
            self._drop_own()
        raise TargetError(
            f"others have changed {self._session.table_text} each time that it was rebuilt "
            f"({_REBUILDS} times): an exchange would lose that",
            hint="Run the same command again when nobody deletes, updates or alters there: what is "
            "gathered stays.",
            transient=True,
        )

    def _copy(self, name: str) -> str:
        """Make a copy of the table as it is at one moment; return its definition."""
        facts = staging.facts(self._engine.ask, self._database, self._table)
        if facts is None:
            raise table_dropped(self._session.table_text)
        copy, links, list_ = (
            sql.qualified(self._database, name + end) for end in ("", _LINKS, _LIST)
        )
        self._run(
            f"CREATE TABLE {list_} (name String, partition_id String, low Int64, high Int64, "
            "rows UInt64, version Int64) ENGINE = MergeTree ORDER BY tuple()"
        )
        for text in (SqlText.of(f"CREATE TABLE {copy} AS {facts.qualified}"),
                     *staging.clone(facts, name + _LINKS)):  # fmt: skip
            self._engine.run(Statement(text, self._at.settings))
        for _ in range(_SNAPSHOTS):
            self._wait_for_mutations()
            self._run(f"INSERT INTO {list_} {_select_blocks(self._database, self._table)}")
            self._attach(facts.qualified, links)
            now = _blocks(self._engine, self._database, self._table)
            linked = sum(b.rows for b in _blocks(self._engine, self._database, name + _LINKS))
            more = came_before(self._listed(name), now, linked)
            if more is not None:
                if more:
                    self._run(f"INSERT INTO {list_} VALUES {', '.join(map(_values, more))}")
                self._attach(links, copy)
                return facts.create_query
            self._run(f"TRUNCATE TABLE {list_}")
            self._run(f"TRUNCATE TABLE {links}")
            time.sleep(POLL_SECONDS * secrets.randbelow(10) / 10)
        raise TargetError(
            f"the parts of {self._session.table_text} change all the time, so that no moment of it "
            "could be copied",
            hint="Run the same command again when less is changed there: what is gathered stays.",
            transient=True,
        )

    def _attach(self, source: str, into: str) -> None:
        self._run(f"ALTER TABLE {into} ATTACH PARTITION ALL FROM {source}")

    def _wait_for_mutations(self) -> None:
        """Wait until nobody changes the rows of the table: a copy would not get the change."""
        deadline = time.monotonic() + _MOST_WAIT
        text = (
            f"SELECT count() FROM system.mutations WHERE NOT is_done AND "
            f"{sql.table_is(self._database, self._table)}"
        )
        while self._engine.ask(text) != [[0]]:
            if time.monotonic() > deadline:
                raise TargetError(
                    f"a mutation of {self._session.table_text} does not end, and the table cannot "
                    "be copied meanwhile",
                    hint="Look into system.mutations: KILL MUTATION ends one.",
                    transient=True,
                )
            time.sleep(POLL_SECONDS)

    def _replace_rows(self, name: str) -> None:
        """Take the rows with loaded keys out of a copy, and bring the loaded ones into it."""
        copy = sql.qualified(self._database, name)
        shadow = sql.qualified(self._database, self._shadow.name)
        key = f"({self._columns})"
        before = self._rows(copy)
        for partition in self._partitions():
            only = f" IN PARTITION ID {quote(partition)}" if partition else ""
            where = f" WHERE _partition_id = {quote(partition)}" if partition else ""
            self._run(
                f"ALTER TABLE {copy} DELETE{only} WHERE {key} IN (SELECT {self._columns} FROM "
                f"{shadow}{where})",
                {"mutations_sync": 1},
            )
        left = self._rows(copy)
        self._attach(shadow, copy)
        loaded = self._rows(shadow)
        if self._rows(copy) != left + loaded:
            raise LedgerError(
                f"{copy} holds {self._rows(copy):,} rows and should hold {left + loaded:,}",
                hint="Run the same command again.",
            )
        self._session.emit(Note(
            "info",
            f"upsert: {units.counted(before - left, 'row')} of {self._session.table_text} with a "
            f"loaded key {'is' if before - left == 1 else 'are'} replaced, {left:,} stay",
        ))  # fmt: skip

    def _partitions(self) -> list[str]:
        """Return the partitions whose rows are replaced one after the other; "" for all at once.

        Where the key holds the columns of the partition key, equal keys are in one partition: the
        others are not looked at, and memory holds the keys of one.
        """
        rows = self._engine.ask(
            "SELECT name FROM system.columns WHERE is_in_partition_key AND "
            f"{sql.table_is(self._database, self._table)}"
        )
        if not rows or not {str(name) for (name,) in rows} <= set(self._key):
            return [""]
        return [str(name) for (name,) in self._engine.ask(
            "SELECT DISTINCT partition_id FROM system.parts WHERE active AND rows > 0 AND "
            f"{sql.table_is(self._database, self._shadow.name)} ORDER BY partition_id"
        )]  # fmt: skip

    def _rows(self, table: str) -> int:
        return int(self._engine.ask(f"SELECT count() FROM {table}")[0][0])

    def _listed(self, name: str) -> list[_Block]:
        return _listed(self._engine, self._database, name)

    def _definition(self) -> str:
        facts = staging.facts(self._engine.ask, self._database, self._table)
        return facts.create_query if facts is not None else ""

    # --- the exchange -------------------------------------------------------------------------

    def _exchange(self, name: str, splits: Sequence[Split], rows: int) -> None:
        """Put a rebuilt table into the target's place; from then on its rows are visible."""
        ledger, key = self._ledger, self._session.target_key
        before = table_uuid(self._engine, self._database, self._table)
        uuid = table_uuid(self._engine, self._database, name)
        self._at.own.check()
        if self._whole is not None:
            # Whoever finds the new table finds what it holds, at whatever moment this one ends.
            journal = open_journal(self._session, uuid, self._load_id)
            journal.carry_over(before)
            journal.follows(before, name)
            journal.keep(self._load_id, [f"{s.id}{self._salt}" for s in splits], rows)
        ledger.set_table(rebuilt_key(key, self._load_id), uuid)
        ledger.step(self._load_id, f"{REBUILT} {name}", "done")
        RebuiltTable(
            self._engine, ledger, self._database, self._table, self._load_id, key, name
        ).swap()

    def _drop_own(self) -> None:
        """Drop the rebuilt tables of this load, which nobody can see."""
        drop_rebuilt(self._engine, self._load_id)

    def _run(self, text: str, settings: dict[str, Any] | None = None) -> None:
        self._engine.run(Statement(SqlText.of(text), {**self._at.settings, **(settings or {})}))


# --- after a crash --------------------------------------------------------------------------------


def settle_upserts(session: Session, ledger: Ledger, load_id: str, *, new: bool) -> None:
    """End what stopped loads have begun with ``--upsert`` in the target table.

    Args:
        load_id: of the load that asks. Loads that others run now are left alone.
        new: no run of it has left anything.
    """
    engine, key = session.engine, session.target_key
    database, table = session.first_target.database, session.first_target.table
    rows = {row.id: row for row in ledger.loads("WHERE into_table = ?", key)}
    names: dict[str, str] = {}
    for load, into, name in ledger.steps_called(REBUILT):
        if into == key:
            names[load] = name
            known = ledger.table_uuid(rebuilt_key(key, load))
            row = rows.get(load)
            lives = row is not None and ledger.runs(row)
            if not known or (lives and load != load_id):
                continue
            rebuilt = RebuiltTable(engine, ledger, database, table, load, key, name)
            if rebuilt.in_place(known):
                record_exchange(ledger, load, key, known)
            else:
                ledger.set_table(rebuilt_key(key, load), "")
    end_exchanged(session, ledger, load_id)
    if not new:
        drop_rebuilt(engine, load_id)
    for load in names:
        row = rows.get(load)
        if row is None or not ledger.runs(row):
            drop_rebuilt(engine, load)


def drop_rebuilt(engine: Engine, load_id: str) -> None:
    """Drop the tables that a load has rebuilt; of an exchange, once its end is recorded."""
    for statement in staging.discard(engine.ask, f"{REBUILT_PREFIX}{load_id}"):
        engine.run(Statement(statement))


def end_exchanged(session: Session, ledger: Ledger, load_id: str) -> None:
    """Carry over what others have inserted into a table before it was exchanged; drop that.

    Args:
        load_id: of the load that asks. What another load does that lives is left to it.

    Raises:
        TargetError: others have deleted or changed rows of it at the same moment.
    """
    engine = session.engine
    if not engine.shared:
        return  # nobody else inserts
    database, table = session.first_target.database, session.first_target.table
    uuid = table_uuid(engine, database, table)
    journal = open_journal(session, uuid, load_id)
    if not uuid or not journal.there():
        return
    for followed in journal.followed():
        if followed.done or (
            followed.lives and not followed.name.startswith(f"{REBUILT_PREFIX}{load_id}_")
        ):
            continue
        with journal:
            _Old(session, ledger, journal, load_id, followed.before, followed.name).end()
        journal.follows_no_more(followed.name)


class _Old:
    """The old table after an exchange, under the name that the new one had."""

    def __init__(
        self, session: Session, ledger: Ledger, journal: Journal, load_id: str, uuid: str, name: str
    ) -> None:
        self._session, self._ledger, self._journal = session, ledger, journal
        self._load_id, self._uuid, self._name = load_id, uuid, name
        self._engine, self._database = session.engine, session.first_target.database
        self._table = session.first_target.table

    def end(self) -> None:
        """Carry over the last rows of others, then drop it."""
        own = self._own_name()
        if own:
            self._wait_for_inserts(own)
            self._journal.carry_over(self._uuid)  # what was recorded while the copy was made
            before = _listed(self._engine, self._database, self._name)
            changes = compare(before, _blocks(self._engine, self._database, own))
            if changes.gone or changes.inserted or changes.mixed:
                self._carry(own, changes)
            self._engine.run(Statement(staging.drop(self._database, own)))
        for end in (_LINKS, _LIST):
            self._engine.run(Statement(staging.drop(self._database, self._name + end)))

    def _own_name(self) -> str:
        """Return the name of the old table; "" where it has been dropped. Attach it if need be.

        A process that was killed while it waited for INSERTs has left it detached.
        """
        there = self._names()
        if there:
            return there[0]
        if not table_uuid(self._engine, self._database, self._name + _LIST):
            return ""
        try:
            self._attach(self._name)
        except RowfallError as error:
            if error.code != NO_DEFINITION:
                raise
        return next(iter(self._names()), "")

    def _names(self) -> list[str]:
        rows = self._engine.ask(
            f"SELECT name FROM system.tables WHERE database = {quote(self._database)} AND "
            f"match(name, {quote(renamed(self._name))})"
        )
        return [
            str(name) for (name,) in rows
            if table_uuid(self._engine, self._database, str(name)) == self._uuid
        ]  # fmt: skip

    def _wait_for_inserts(self, own: str) -> None:
        """Wait until every statement has ended that began before the exchange.

        They write into the table that had the name when they began. The server attaches a table
        only when no statement uses it any more.
        """
        self._run(f"DETACH TABLE {sql.qualified(self._database, own)}")
        self._attach(own)

    def _attach(self, name: str) -> None:
        deadline = time.monotonic() + _MOST_WAIT
        while True:
            try:
                self._run(f"ATTACH TABLE IF NOT EXISTS {sql.qualified(self._database, name)}")
                return
            except RowfallError as error:
                if error.code != TABLE_EXISTS or time.monotonic() > deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def _carry(self, own: str, changes: PartChanges) -> None:
        """Bring rows of others from the old table into the new one, as an attempt of its own.

        Raises:
            TargetError: they have deleted or changed others, too.
        """
        facts = staging.facts(self._engine.ask, self._database, self._table)
        if facts is None:
            raise table_dropped(self._session.table_text)
        expires = "TTL" in facts.create_query
        if (changes.gone or self._removed(own, changes.mixed)) and not expires:
            raise TargetError(
                f"others have deleted or changed rows of {self._session.table_text} at the moment "
                f"when it was exchanged: the old table is still there as {self._database}.{own}, "
                "and the new one does not know of that",
                hint=f"Do the same to the new table, then DROP TABLE {self._database}.{own}, and "
                "run the same command again.",
            )
        selects = list(self._selects(own, changes))
        token = self._name.rpartition("_")[2]
        split = Split(f"others{token}", self._name, "", None)
        own_table = OwnTable(
            self._engine, self._database, self._table,
            table_uuid(self._engine, self._database, self._table), self._session.table_text,
        )  # fmt: skip
        tables = TargetTables(self._session, self._ledger)
        recovery = open_recovery(tables, self._journal, own_table)
        attempt = f"{self._load_id}_others{token}{secrets.token_hex(2)}"
        while True:
            lease = self._journal.lease(attempt, [split])
            if lease.whole:
                break
            self._journal.release(attempt)
            if lease.loaded:
                return
            recovery.end(lease.lost)
            attempt = f"{self._load_id}_others{token}{secrets.token_hex(2)}"
            time.sleep(POLL_SECONDS)
        staged = f"{STAGING_PREFIX}{attempt}"
        for text in staging.clone(facts, staged):
            self._engine.run(Statement(text))
        columns = self._columns()
        for select in selects:
            self._run(f"INSERT INTO {sql.qualified(self._database, staged)} ({columns}) {select}")
        self._journal.counting(attempt)
        publisher = Publisher(self._engine, self._ledger)
        pair = StagingPair(self._database, self._table, staged)
        found = publisher.staged([pair], 0.0, [staged])
        self._engine.sync()
        if found.rows:
            if not self._journal.commit(attempt, found.rows, found.moves):
                raise EngineError(
                    "another rowfall has ended the lease of this process",
                    hint="Run the same command again.",
                    transient=True,
                )
            publisher.publish(attempt, found.moves, own_table, self._journal)
            self._engine.sync()
            self._session.emit(Note(
                "info",
                f"{units.counted(found.rows, 'row')} that others had inserted before the exchange "
                "are carried over",
            ))  # fmt: skip
            self._journal.loaded(attempt)
        else:
            self._journal.release(attempt)
        self._engine.run(Statement(staging.drop(self._database, staged)))

    def _columns(self) -> str:
        rows = self._engine.ask(
            f"SELECT name FROM system.columns WHERE {sql.table_is(self._database, self._table)} "
            f"AND {_KEPT_COLUMNS} ORDER BY position"
        )
        return ", ".join(sql.name(str(name)) for (name,) in rows)

    def _selects(self, own: str, changes: PartChanges) -> Iterator[str]:
        """Yield queries of the rows that others have inserted."""
        columns, old = self._columns(), sql.qualified(self._database, own)
        mixed = quoted_list(changes.mixed)
        if changes.inserted:
            rest = f" AND _partition_id NOT IN ({mixed})" if changes.mixed else ""
            yield (
                f"SELECT {columns} FROM {old} WHERE _part IN "
                f"({quoted_list(changes.inserted)}){rest}"
            )
        for partition in changes.mixed:
            yield (
                f"SELECT {columns} FROM ({self._gained(own, partition)}) ARRAY JOIN "
                "range(toUInt64(greatest(rowfall_n, 0))) AS rowfall_i "
                "SETTINGS max_bytes_before_external_group_by = 1073741824"
            )

    def _gained(self, own: str, partition: str) -> str:
        """Return a query of the rows of a partition, and how many of each it holds more."""
        columns = self._columns()
        at = f"WHERE _partition_id = {quote(partition)}"
        old = sql.qualified(self._database, own)
        links = sql.qualified(self._database, self._name + _LINKS)
        return (
            f"SELECT {columns}, sum(rowfall_one) AS rowfall_n FROM (SELECT {columns}, "
            f"toInt64(1) AS rowfall_one FROM {old} {at} UNION ALL SELECT {columns}, toInt64(-1) "
            f"FROM {links} {at}) GROUP BY {columns}"
        )

    def _removed(self, own: str, partitions: Sequence[str]) -> bool:
        """Tell whether partitions have lost rows."""
        return any(
            self._engine.ask(
                f"SELECT count() FROM ({self._gained(own, one)}) WHERE rowfall_n < 0", _GROUPING
            ) != [[0]]
            for one in partitions
        )  # fmt: skip

    def _run(self, text: str) -> None:
        self._engine.run(Statement(SqlText.of(text)))


def _select_blocks(database: str, table: str) -> str:
    """Return a query of the parts of a table; a part that was mutated has the mutation's number."""
    return (
        "SELECT name, partition_id, min_block_number, max_block_number, rows, data_version FROM "
        f"system.parts WHERE active AND rows > 0 AND {sql.table_is(database, table)}"
    )


def _blocks(engine: Engine, database: str, table: str) -> list[_Block]:
    rows = engine.ask(f"{_select_blocks(database, table)} ORDER BY name")
    return [_Block(str(n), str(p), int(a), int(b), int(r), int(v)) for n, p, a, b, r, v in rows]


def _values(one: _Block) -> str:
    return (
        f"({quote(one.name)}, {quote(one.partition)}, {one.low}, {one.high}, {one.rows}, "
        f"{one.version})"
    )


def _listed(engine: Engine, database: str, name: str) -> list[_Block]:
    """Return the parts that a rebuilt table was made from."""
    rows = engine.ask(
        "SELECT name, partition_id, low, high, rows, version FROM "
        f"{sql.qualified(database, name + _LIST)} ORDER BY name"
    )
    return [_Block(str(n), str(p), int(a), int(b), int(r), int(v)) for n, p, a, b, r, v in rows]
