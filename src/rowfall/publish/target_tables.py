"""The tables that a load makes rows visible in, one a writer: which they are, whether they still
are those, and what dead processes have left that is bound for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowfall.core import units
from rowfall.core.errors import TargetError
from rowfall.core.events import Note
from rowfall.engines.ask import table_uuid
from rowfall.ledger import Ledger, target_key
from rowfall.ledger.journal import Journal
from rowfall.plan.session import Session, Writer
from rowfall.publish.reconcile import follow
from rowfall.publish.rescue import Rescue, Rescuers


class Homes:
    """The homes of one load.

    Args:
        salt: see :class:`rowfall.ledger.journal.Journal`.
    """

    def __init__(self, session: Session, ledger: Ledger, load_id: str, salt: str) -> None:
        self._session, self._ledger, self._load_id, self._salt = session, ledger, load_id, salt
        # By writer: a table of the same name made meanwhile is not the one we load into. "" until
        # they are known, and where the table is replaced.
        self._own = [""] * len(session.writers)

    # --- which they are -----------------------------------------------------------------------

    @property
    def first(self) -> str:
        """uuid of the first writer's table: the journal's entries are of that one."""
        return self._own[0]

    def remember(self) -> None:
        """They are what stands there now."""
        for writer in self._session.writers:
            self._own[writer.number] = self._uuid(writer)
            if writer.node:
                self._ledger.set_table(self._key(writer), self._own[writer.number])
        self._ledger.set_table(self._session.target_key, self.first)

    def check(self, writer: Writer) -> None:
        """Rows are only made visible in the table that the load began with: what has landed in it
        would be missing in another.

        Raises:
            TargetError: somebody has dropped it, or replaced it.
        """
        own = self._own[writer.number]
        if own and self._uuid(writer) != own:
            raise dropped(self.text(writer))

    def check_together(self) -> None:
        """What has landed is known for the whole table: a shard that has lost its own, while others
        have not, would be taken for full, or the others be filled twice.

        Raises:
            TargetError: which one.
        """
        same: list[Writer] = []
        other: list[Writer] = []
        for writer in self._session.writers:
            known = self._ledger.table_uuid(self._key(writer)) if writer.node else None
            if known:
                (same if self._uuid(writer) == known else other).append(writer)
        if same and other:
            raise TargetError(
                f"{self.text(other[0])} is not the table that was loaded before, and "
                f"{self.text(same[0])} is: what had landed on the first is gone",
                hint="Bring it back; or drop the table on all nodes, and load everything again.",
            )

    def text(self, writer: Writer) -> str:
        """The table of a writer for people."""
        place = f" on {writer.node}" if writer.node else ""
        return f"{writer.target.database}.{writer.target.table}{place}"

    def _uuid(self, writer: Writer) -> str:
        return table_uuid(writer.engine, writer.target.database, writer.target.table)

    def _key(self, writer: Writer) -> str:
        """The ledger's key of one node's table."""
        return target_key(self._session.target_key, writer.node)

    # --- what is bound for them ---------------------------------------------------------------

    def settle(self, key: str, name: str) -> bool:
        """Settle what was published into one table; forget what its predecessor held.

        Args:
            key: of the ledger. ``name``: of the table, in the database of the first writer.

        Returns:
            Whether it had one that is gone.
        """
        session, ledger = self._session, self._ledger
        uuid = table_uuid(session.engine, session.first_target.database, name)
        if uuid and session.target.server is not None:
            self._rescue_all(uuid, key, name)
        known = ledger.table_uuid(key)
        if known is None or known == uuid:
            return False
        if known and session.target.server is not None:
            old = self.journal(known)
            if old.there():
                self.rescuers(old).table_gone()
        forgotten = ledger.set_table(key, uuid)
        if forgotten and key == session.target_key:
            session.emit(
                Note("info", f"{session.table_text} was dropped since the last load: "
                             f"loading {units.counted(forgotten, 'split')} again")
            )  # fmt: skip
        return bool(known)

    def _rescue_all(self, uuid: str, key: str, name: str) -> None:
        def check(writer: Writer) -> None:
            # The journal's uuid is that of the first node's table.
            if (
                not writer.number
                and table_uuid(writer.engine, writer.target.database, name) != uuid
            ):
                raise dropped(self.text(writer))

        journal = self.journal(uuid)
        if journal.there():
            self.rescuers(journal, check).all_dead()
            follow(self._ledger, journal, key)

    def journal(self, uuid: str) -> Journal:
        """The journal of the table with that uuid, for this load."""
        session = self._session
        shards = session.shards
        shard_of = {node.address: node.shard for node in shards.cluster.nodes} if shards else {}
        return Journal(
            session.engine, session.first_target.database, uuid, self._load_id, self._salt, shard_of
        )

    def rescuers(self, journal: Journal, check: Callable[[Writer], None] | None = None) -> Rescuers:
        """Who ends the attempts of dead processes.

        Args:
            check: raises TargetError when a writer's table has another one in its place.
        """
        session, ledger, database = self._session, self._ledger, self._session.first_target.database
        check = check or self.check

        def more(place: str) -> Rescue | None:
            """Of a replica that does not load now; or "", before the table was loaded as one of a
            cluster: then it was the first node's."""
            shards, first = session.shards, session.writers[0]
            if shards is None:
                return None
            node = next((n for n in shards.cluster.up if n.address == place), None)
            if node is None and place:
                return None
            engine = first.engine if node is None else shards.connect(node)
            own = partial(check, first) if node is None else lambda: None
            return Rescue(engine, ledger, journal, database, session.emit, place, own)

        return Rescuers(journal, [
            Rescue(writer.engine, ledger, journal, database, session.emit, writer.node,
                   partial(check, writer))
            for writer in session.writers
        ], more)  # fmt: skip


def dropped(table: str) -> TargetError:
    """What a load says when its table is gone."""
    return TargetError(
        f"the table {table} was dropped by somebody else during the load",
        hint="Run the same command again: it loads everything into the table that is there then, "
        "or into a new one.",
    )
