"""A load that becomes visible as a whole: rows gather in a shadow table until the end.

``--atomic`` attaches the shadow's parts to the target in one statement, which MergeTree commits
under one lock (a replicated table one partition after the other: the planner refuses those with
partitions). ``--replace`` exchanges the two tables. Either way readers see nothing or all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rowfall.contracts.receiver import Staged
from rowfall.core import retry, sql
from rowfall.core.errors import EngineError, LedgerError, RowfallError, TargetError
from rowfall.core.model import Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import Engine, table_uuid
from rowfall.ledger import Ledger
from rowfall.publish.altered import AlteredTableError, alter_alike
from rowfall.publish.attach import MOST_IDS, Publisher
from rowfall.publish.fence import new_name, rename, renamed, wait_for
from rowfall.publish.tables import CommittedParts, StagingTables, TableWriter
from rowfall.systems.clickhouse import staging
from rowfall.systems.clickhouse.codes import TABLE_EXISTS
from rowfall.targets.base import SHADOW_SUFFIX, STAGING_PREFIX

SWAP = "swap"


def shadow_name(load_id: str) -> str:
    return f"{STAGING_PREFIX}{load_id}{SHADOW_SUFFIX}"


class Shadow:
    """The shadow of one load.

    Args:
        target_key: the ledger's key of the target; ``key`` that of the shadow.
    """

    def __init__(
        self, engine: Engine, ledger: Ledger, database: str, table: str, load_id: str,
        target_key: str, key: str,
    ) -> None:  # fmt: skip
        self._engine, self._ledger = engine, ledger
        self._database, self._table, self._load_id = database, table, load_id
        self._target_key, self._key = target_key, key
        self.name = shadow_name(load_id)

    # --- --atomic -----------------------------------------------------------------------------

    def create(self, tables: StagingTables, settings: Mapping[str, int]) -> None:
        """Make the shadows of the target and of the tables behind its views.

        Those that are there are altered like their tables.

        Args:
            settings: for CREATE TABLE.

        Raises:
            AlteredTableError: what has been gathered cannot follow its table.
        """
        if table_uuid(self._engine, self._database, self.name):
            self.follow(tables)
            return
        self.drop()
        # The target's own comes last: where it is, the others are.
        for statement in (
            *tables.views.create_tables(self.name, gathers=True),
            *staging.clone(tables.facts, self.name, gathers=True),
        ):
            self._engine.run(Statement(statement, settings))

    def follow(self, tables: StagingTables) -> None:
        """Alter what has been gathered like its tables, if somebody has altered these."""
        try:
            for pair in tables.gathered():
                alter_alike(self._engine, pair)
        except AlteredTableError as error:
            error.hint = (
                f"{error.hint} Or run rowfall clean, which drops what this load has gathered, and "
                "then the same command again."
            )
            raise

    def publish(self, attempt: str, at: TableWriter, committed: CommittedParts) -> Staged:
        """Make everything in the shadows visible, as the work of ``attempt``.

        Args:
            attempt: in the ledger, with the splits that the shadow holds, and their lease.
            at: the writer, with the shadow among its staging tables.

        Raises:
            LedgerError: another process has ended the lease.
            AlteredTableError: what has been gathered cannot follow its table.
        """
        leases = committed.leases
        pairs = at.staging.gathered()
        leases.counting(attempt)
        try:
            self.follow(at.staging)
        except AlteredTableError as error:
            leases.release(attempt)
            self._ledger.attempt_ended(attempt, "failed", error.message)
            raise
        # Merging all that was gathered would cost more than to attach its parts.
        staged = Publisher(self._engine, self._ledger).staged(
            pairs, 0.0, [p.staging for p in pairs]
        )
        # What has gathered was flushed attempt by attempt, before each was recorded.
        if not leases.commit(attempt, staged.rows, staged.moves):
            self._ledger.attempt_ended(attempt, "lost", "its lease ran out")
            raise LedgerError(
                "another rowfall has ended the lease of this process, which it did not renew in "
                "time, so nothing was made visible",
                hint="Run the same command again: what has been gathered is not loaded twice.",
                transient=True,
            )
        at.writer.engine.check_alone()
        uuid = self._ledger.table_uuid(self._target_key) or ""
        marks = bool(staged.moves) and at.writer.engine.keeps_mark(uuid)
        self._ledger.attempt_committed(
            attempt, staged.rows, staged.moves, marks=uuid if marks else "",
            parts=staged.part_ids if len(staged.part_ids) <= MOST_IDS else (),
        )  # fmt: skip
        moves = committed.attach(attempt, staged.moves, at)
        self._engine.sync()
        committed.check(attempt, moves, at)
        leases.loaded(attempt)
        self._ledger.attempt_published(attempt, self._target_key)
        self.drop()
        return staged

    # --- --replace ----------------------------------------------------------------------------

    def swapped(self) -> bool:
        """Tell whether a stopped run has exchanged the tables; finish what is left of it."""
        step = self._ledger.steps(self._load_id).get(SWAP)
        known = self._ledger.table_uuid(self._key if step == "started" else self._target_key)
        if step == "started" and known:
            # An exchange that the stopped run has sent may still come; not under another name.
            self.name = self._put_aside(known) or self.name
        if not step or not known or self._target() != known:
            return False
        if step == "started":
            self._finish_swap(known)
        return True

    def swap(self) -> None:
        """Put the shadow in the target's place; the old table is dropped."""
        # Not what has the shadow's name now: an exchange that a stopped run has sent may come late.
        known = self._ledger.table_uuid(self._key) or ""
        if not known or (self._target() != known and not self._shadow_of(known)):
            raise TargetError(
                f"the table {self._database}.{self.name} with the rows of this load was dropped by "
                "somebody else",
                hint="Run the same command again: it loads everything once more.",
            )
        # A stopped run may have sent the exchange.
        again = SWAP in self._ledger.steps(self._load_id)
        self._ledger.step(self._load_id, SWAP, "started")
        for tries in range(retry.MOST_TRANSIENT + 1):
            try:
                name = self._put_aside(known) if again else self.name
                # Not where it is in place, or where another load has replaced it since.
                if name:
                    self._exchange(name)
                break
            except RowfallError as error:
                made_meanwhile = error.code == TABLE_EXISTS
                if tries == retry.MOST_TRANSIENT or not (error.transient or made_meanwhile):
                    raise
                time.sleep(retry.pause(tries))
                if not error.code:
                    self._engine.revive()
            again = True
        self._finish_swap(known)

    def _put_aside(self, known: str) -> str:
        """Rename the shadow, so that an exchange that was sent before cannot be carried out.

        Twice would bring the old rows back, and the new ones would be dropped with the shadow.

        Returns:
            Its new name; "" where it is not a shadow any more.
        """
        if not self._engine.shared:  # the embedded engine forgets a statement when it dies
            return self._shadow_of(known)
        if name := self._shadow_of(known):
            rename(self._engine, self._database, name, new_name(self.name))
            wait_for(self._engine, self._swap_id)
        return self._shadow_of(known)

    def _shadow_of(self, known: str) -> str:
        """Return the name of a shadow with that UUID; "" where there is none."""
        names = self._asks(
            f"SELECT name FROM system.tables WHERE database = {quote(self._database)} AND "
            f"match(name, {quote(renamed(self.name))})"
        )
        for (name,) in names:
            if table_uuid(self._engine, self._database, str(name)) == known:
                return str(name)
        return ""

    @property
    def _swap_id(self) -> str:
        """Query id of the statement that exchanges the tables."""
        return f"{self._load_id}_swap"

    def _exchange(self, name: str) -> None:
        target = sql.qualified(self._database, self._table)
        shadow = sql.qualified(self._database, name)
        text = f"RENAME TABLE {shadow} TO {target}"
        if self._target():
            text = f"EXCHANGE TABLES {shadow} AND {target}"
        self._engine.run(Statement(SqlText.of(text), query_id=self._swap_id))

    def _target(self) -> str:
        return table_uuid(self._engine, self._database, self._table)

    def _finish_swap(self, uuid: str) -> None:
        self._engine.sync()  # before the old table is gone, and the ledger knows the new one
        if self._shadow_of(uuid):
            raise EngineError(
                f"{self._database}.{self._table} is the old table again: was the machine of the "
                "server without power?",
                hint="Run the same command again: it puts the new table into its place.",
                transient=True,
            )
        self.drop()
        self._ledger.swapped(self._key, self._target_key, uuid)
        self._ledger.step(self._load_id, SWAP, "done")

    # --- both ---------------------------------------------------------------------------------

    def drop_foreign(self) -> None:
        """Remove a table that has the shadow's name and is not the shadow.

        It is the old target, where an exchange was interrupted and somebody has changed the target
        since; or a shadow whose rows the target has (its uuid is "" in the ledger).
        """
        known = self._ledger.table_uuid(self._key)
        found = table_uuid(self._engine, self._database, self.name)
        if known is not None and found and found != known:
            self.drop()

    def drop(self) -> None:
        """Remove the shadow tables (after a swap: the old table)."""
        for statement in staging.discard(self._asks, shadow_name(self._load_id)):
            self._engine.run(Statement(statement))

    def _asks(self, text: str) -> list[list[Any]]:
        return self._engine.ask(text)
