"""Two tables whose views fill a third one, and a crash: what that one holds is in two journals.

Row counts are all that is left, and both attempts have the same number of rows.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.engines import run, text
from lab.process import wait_until
from rowfall.core.events import silent
from rowfall.core.listing import Split
from rowfall.core.model import StagingPair
from rowfall.engines.base import table_uuid
from rowfall.ledger import Ledger, leases
from rowfall.ledger.journal import Journal
from rowfall.ledger.leases import AddedRows
from rowfall.publish.attach import Publisher
from rowfall.publish.recover import NodeRecovery, Recovery
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.staging import clone, facts

_numbers = itertools.count()
ROWS = 100


class Writer:
    """A dead process that has loaded into one table, whose views fill ``u``."""

    def __init__(self, scene: Scene, load_id: str, database: str, table: str) -> None:
        self.scene, self.attempt = scene, f"{load_id}_1"
        server = scene.server
        self.journal = Journal(server, database, table_uuid(server, database, table), load_id)
        self.journal._owner = f"{leases.machine_id()} 4194303 1 {load_id}"
        self.journal.create()
        self.database = database
        self.pairs = (
            StagingPair(database, table, f"_rowfall_{self.attempt}"),
            StagingPair(scene.database, "u", f"_rowfall_{self.attempt}_u"),
        )

    def commit(self) -> None:
        server, number = self.scene.server, ord(self.attempt[0])
        split = Split(f"{number:032x}", "/data/x.csv", "1-1", 10)
        assert self.journal.lease(self.attempt, [split]).whole
        for pair in self.pairs:
            found = facts(lambda sql: server.ask(sql), pair.database, pair.table)
            assert found is not None
            for statement in clone(found, pair.staging):
                run(server, *statement.parts)
            run(server, f"INSERT INTO {pair.database}.{pair.staging} SELECT {1000 * number} + "
                f"number FROM numbers({ROWS})")  # fmt: skip
        self.journal.counting(self.attempt)
        staged = self.scene.publisher.staged(self.pairs, 8.0)
        assert self.journal.commit(self.attempt, staged.rows, staged.moves)

    def attach(self) -> None:
        """Under no id of ours: no log knows it."""
        for pair in self.pairs:
            run(self.scene.server, f"ALTER TABLE {pair.database}.{pair.table} ATTACH PARTITION ALL "
                f"FROM {pair.database}.{pair.staging}")  # fmt: skip

    def loaded(self) -> None:
        self.journal.loaded(self.attempt)
        for pair in self.pairs:
            run(self.scene.server, f"DROP TABLE {pair.database}.{pair.staging} SYNC")

    def rescue(self) -> None:
        node = NodeRecovery(
            self.scene.server, self.scene.ledger, self.journal, self.database, silent
        )
        Recovery(self.journal, [node]).end_all()


class Scene:
    """Tables ``t`` and ``u`` in one database, ``w`` in the same or in another one."""

    def __init__(self, server: Server, ledger: Ledger, other: bool) -> None:
        self.server, self.ledger = server, ledger
        self.publisher = Publisher(server, ledger)
        self.database = f"writers_{os.getpid()}_{next(_numbers)}"
        self.other = f"{self.database}_other" if other else self.database
        for database in dict.fromkeys((self.database, self.other)):
            run(server, f"CREATE DATABASE {database}")
        tables = (f"{self.database}.t", f"{self.database}.u", f"{self.other}.w")
        for table in tables:
            run(server, f"CREATE TABLE {table} (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS "
                "old_parts_lifetime = 0, cleanup_delay_period = 0, max_cleanup_delay_period = 1, "
                "cleanup_delay_period_random_add = 0")  # fmt: skip
        run(server, f"INSERT INTO {self.database}.u SELECT 1000000 + number FROM numbers(50)")

    def merge(self) -> None:
        """Make one part of all that ``u`` has, and wait until it lists no other."""
        run(self.server, f"OPTIMIZE TABLE {self.database}.u FINAL")
        listed = f"SELECT count() FROM system.parts WHERE database = '{self.database}' AND table"
        wait_until(lambda: text(self.server, f"{listed} = 'u'") == "1", 60, "parts are cleared")

    def filled(self) -> str:
        return text(self.server, f"SELECT count(), uniqExact(k) FROM {self.database}.u")


@pytest.fixture(params=["one database", "two databases"])
def scene(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Scene]:
    ledger = Ledger(tmp_path / "rowfall.ledger")
    scene = Scene(server, ledger, request.param == "two databases")
    yield scene
    for database in dict.fromkeys((scene.database, scene.other)):
        run(server, f"DROP DATABASE {database} SYNC")
    ledger.close()


@pytest.mark.parametrize("attached", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "first", [False, pytest.param(True, marks=pytest.mark.long)],
    ids=["after the count", "before the count"],
)  # fmt: skip
def test_views_of_two_tables_fill_one(scene: Scene, first: bool, attached: bool) -> None:
    a = Writer(scene, "a", scene.database, "t")
    b = Writer(scene, "b", scene.other, "w")
    for one in (b, a) if first else (a, b):
        one.commit()
        if one is b:
            b.attach()
            b.loaded()
    if attached:
        a.attach()
    if not first or attached:
        scene.merge()
    a.rescue()
    assert scene.filled() == f"{50 + 2 * ROWS}\t{50 + 2 * ROWS}"
    assert text(scene.server, f"SELECT count() FROM {scene.database}.t") == str(ROWS)


def test_bounds_come_from_all_journals(scene: Scene) -> None:
    """What another table's load has added since is known, what it added before is not counted."""
    a = Writer(scene, "a", scene.database, "t")
    b, c = (Writer(scene, name, scene.other, "w") for name in "bc")
    for one in (b, a, c):
        one.commit()
        if one is not a:
            one.attach()
            one.loaded()
    (entry,) = [e for e in a.journal.entries() if e.attempt == a.attempt]
    (move,) = [m for m in entry.moves if m.table == "u"]
    assert a.journal.added(a.attempt, move) == AddedRows(ROWS)
