"""The tables that a load makes rows visible in, one a seat: which they are, whether they still are
those, and what dead processes have left that is bound for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rowfall import units
from rowfall.errors import TargetError
from rowfall.events import Note
from rowfall.jobs import Job, Seat
from rowfall.journal import Journal
from rowfall.ledger import Ledger
from rowfall.ledger.rows import into_key
from rowfall.reconcile import follow
from rowfall.rescue import Rescue, Rescuers
from rowfall.shadow import table_uuid


class Homes:
    """The homes of one load.

    Args:
        salt: see :class:`rowfall.journal.Journal`.
    """

    def __init__(self, job: Job, ledger: Ledger, load_id: str, salt: str) -> None:
        self._job, self._ledger, self._load_id, self._salt = job, ledger, load_id, salt
        # By seat: a table of the same name made meanwhile is not the one we load into. "" until
        # they are known, and where the table is replaced.
        self._own = [""] * len(job.seats)

    # --- which they are -----------------------------------------------------------------------

    @property
    def first(self) -> str:
        """uuid of the first seat's table: the journal's entries are of that one."""
        return self._own[0]

    def remember(self) -> None:
        """They are what stands there now."""
        for seat in self._job.seats:
            self._own[seat.number] = self._uuid(seat)
            if seat.place:
                self._ledger.set_table(self._key(seat), self._own[seat.number])
        self._ledger.set_table(self._job.into, self.first)

    def check(self, seat: Seat) -> None:
        """Rows are only made visible in the table that the load began with: what has landed in it
        would be missing in another.

        Raises:
            TargetError: somebody has dropped it, or replaced it.
        """
        own = self._own[seat.number]
        if own and self._uuid(seat) != own:
            raise dropped(self.text(seat))

    def check_together(self) -> None:
        """What has landed is known for the whole table: a shard that has lost its own, while others
        have not, would be taken for full, or the others be filled twice.

        Raises:
            TargetError: which one.
        """
        same: list[Seat] = []
        other: list[Seat] = []
        for seat in self._job.seats:
            known = self._ledger.table_uuid(self._key(seat)) if seat.place else None
            if known:
                (same if self._uuid(seat) == known else other).append(seat)
        if same and other:
            raise TargetError(
                f"{self.text(other[0])} is not the table that was loaded before, and "
                f"{self.text(same[0])} is: what had landed on the first is gone",
                hint="Bring it back; or drop the table on all nodes, and load everything again.",
            )

    def text(self, seat: Seat) -> str:
        """The table of a seat for people."""
        place = f" on {seat.place}" if seat.place else ""
        return f"{seat.target.database}.{seat.target.table}{place}"

    def _uuid(self, seat: Seat) -> str:
        return table_uuid(seat.engine, seat.target.database, seat.target.table)

    def _key(self, seat: Seat) -> str:
        """The ledger's key of one node's table."""
        return into_key(self._job.into, seat.place)

    # --- what is bound for them ---------------------------------------------------------------

    def settle(self, key: str, name: str) -> bool:
        """Settle what was published into one table; forget what its predecessor held.

        Args:
            key: of the ledger. ``name``: of the table, in the database of the first seat.

        Returns:
            Whether it had one that is gone.
        """
        job, ledger = self._job, self._ledger
        uuid = table_uuid(job.engine, job.local.database, name)
        if uuid and job.target.server is not None:
            self._rescue_all(uuid, key, name)
        known = ledger.table_uuid(key)
        if known is None or known == uuid:
            return False
        if known and job.target.server is not None:
            old = self.journal(known)
            if old.there():
                self.rescuers(old).table_gone()
        forgotten = ledger.set_table(key, uuid)
        if forgotten and key == job.into:
            job.emit(
                Note("info", f"{job.table_text} was dropped since the last load: "
                             f"loading {units.counted(forgotten, 'split')} again")
            )  # fmt: skip
        return bool(known)

    def _rescue_all(self, uuid: str, key: str, name: str) -> None:
        def check(seat: Seat) -> None:
            # The journal's uuid is that of the first node's table.
            if not seat.number and table_uuid(seat.engine, seat.target.database, name) != uuid:
                raise dropped(self.text(seat))

        journal = self.journal(uuid)
        if journal.there():
            self.rescuers(journal, check).all_dead()
            follow(self._ledger, journal, key)

    def journal(self, uuid: str) -> Journal:
        """The journal of the table with that uuid, for this load."""
        job = self._job
        shards = job.shards
        shard_of = {node.address: node.shard for node in shards.cluster.nodes} if shards else {}
        return Journal(job.engine, job.local.database, uuid, self._load_id, self._salt, shard_of)

    def rescuers(self, journal: Journal, check: Callable[[Seat], None] | None = None) -> Rescuers:
        """Who ends the attempts of dead processes.

        Args:
            check: raises TargetError when a seat's table has another one in its place.
        """
        job, ledger, database = self._job, self._ledger, self._job.local.database
        check = check or self.check

        def more(place: str) -> Rescue | None:
            """Of a replica that does not load now; or "", before the table was loaded as one of a
            cluster: then it was the first node's."""
            shards, first = job.shards, job.seats[0]
            if shards is None:
                return None
            node = next((n for n in shards.cluster.up if n.address == place), None)
            if node is None and place:
                return None
            engine = first.engine if node is None else shards.reach(node)
            own = partial(check, first) if node is None else lambda: None
            return Rescue(engine, ledger, journal, database, job.emit, place, own)

        return Rescuers(journal, [
            Rescue(seat.engine, ledger, journal, database, job.emit, seat.place,
                   partial(check, seat))
            for seat in job.seats
        ], more)  # fmt: skip


def dropped(table: str) -> TargetError:
    """What a load says when its table is gone."""
    return TargetError(
        f"the table {table} was dropped by somebody else during the load",
        hint="Run the same command again: it loads everything into the table that is there then, "
        "or into a new one.",
    )
