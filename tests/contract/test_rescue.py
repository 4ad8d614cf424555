"""An attempt of a dead process whose parts have been merged, on a real server without a log of it.

Another attempt has published into the same partition meanwhile: rows can be counted only as far as
the journal says what that one has added, and when.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.engines import run, text
from lab.process import wait_until
from rowfall.core.errors import LedgerError
from rowfall.core.events import silent
from rowfall.core.listing import Split
from rowfall.core.model import Pair
from rowfall.engines.base import table_uuid
from rowfall.engines.server import Server
from rowfall.ledger import Ledger, leases
from rowfall.ledger.journal import Journal
from rowfall.publish.attach import Publisher
from rowfall.publish.recover import NodeRecovery, Recovery
from rowfall.targets.staging import clone, facts

# Of equal size: a sum of rows does not tell one attempt from the other.
ROWS = 100
_numbers = itertools.count()


@pytest.fixture(params=["MergeTree", "ReplicatedMergeTree('/tables/{database}', 'r')"])
def scene(request: pytest.FixtureRequest, keeper: Server, tmp_path: Path) -> Iterator[Scene]:
    ledger = Ledger(tmp_path / "rowfall.ledger")
    scene = Scene(keeper, ledger, request.param)
    yield scene
    run(keeper, f"DROP DATABASE {scene.database} SYNC")
    ledger.close()


class Scene:
    """A table with 50 rows in one partition, whose outdated parts are cleared away at once.

    Attempts are named after their loads; each is one process, and all of them are dead.
    """

    def __init__(self, server: Server, ledger: Ledger, engine: str) -> None:
        self.server, self.ledger = server, ledger
        self.database = f"rescue_{os.getpid()}_{next(_numbers)}"
        run(server, f"CREATE DATABASE {self.database}")
        run(server, f"CREATE TABLE {self.database}.t (k UInt64) "
            f"ENGINE = {engine.replace('{database}', self.database)} ORDER BY k "
            "SETTINGS old_parts_lifetime = 0, cleanup_delay_period = 0, "
            "max_cleanup_delay_period = 1, cleanup_delay_period_random_add = 0")  # fmt: skip
        run(server, f"INSERT INTO {self.database}.t SELECT 1000000 + number FROM numbers(50)")
        self.publisher = Publisher(server, ledger)
        self.journals: dict[str, Journal] = {}
        self.journal("z").create()

    def journal(self, load_id: str) -> Journal:
        if load_id not in self.journals:
            uuid = table_uuid(self.server, self.database, "t")
            made = Journal(self.server, self.database, uuid, load_id)
            made._owner = f"{leases.machine_id()} 4194303 1 {load_id}"
            self.journals[load_id] = made
        return self.journals[load_id]

    def stage(self, load_id: str) -> None:
        """Rows of its own, in two parts; claimed and staged."""
        number = ord(load_id)
        split = Split(f"{number:032x}", f"/data/{load_id}.csv", "1-1", 10)
        assert self.journal(load_id).lease(f"{load_id}_1", [split]).whole
        found = facts(lambda sql: self.server.ask(sql), self.database, "t")
        assert found is not None
        for statement in clone(found, f"_rowfall_{load_id}_1"):
            run(self.server, *statement.parts)
        for start in (0, ROWS // 2):
            run(self.server, f"INSERT INTO {self.database}._rowfall_{load_id}_1 SELECT "
                f"{1000 * number + start} + number FROM numbers({ROWS // 2})")  # fmt: skip

    def commit(self, load_id: str) -> None:
        """As rowfall.publish.tables does it."""
        journal, pair = self.journal(load_id), Pair(self.database, "t", f"_rowfall_{load_id}_1")
        journal.counting(f"{load_id}_1")
        staged = self.publisher.staged([pair], 8.0)
        assert journal.commit(f"{load_id}_1", staged.rows, staged.moves)

    def attach(self, load_id: str) -> None:
        """Under no id of ours: the server was killed before it wrote its log."""
        run(self.server, f"ALTER TABLE {self.database}.t ATTACH PARTITION ALL FROM "
            f"{self.database}._rowfall_{load_id}_1")  # fmt: skip

    def landed(self, load_id: str) -> None:
        self.journal(load_id).landed(f"{load_id}_1")
        run(self.server, f"DROP TABLE {self.database}._rowfall_{load_id}_1 SYNC")

    def publish(self, load_id: str) -> None:
        """All at once, nothing lost."""
        self.commit(load_id)
        self.attach(load_id)
        self.landed(load_id)

    def overtaken(self, *, attached: bool) -> None:
        """``a`` is committed, and attached or not; then ``b`` is published."""
        self.stage("a")
        self.stage("b")
        self.commit("a")
        if attached:
            self.attach("a")
        self.publish("b")

    def merge(self) -> None:
        """All parts become one, and the outdated ones are not listed any more."""
        run(self.server, f"OPTIMIZE TABLE {self.database}.t FINAL")
        listed = f"SELECT count() FROM system.parts WHERE database = '{self.database}' AND table"
        wait_until(lambda: text(self.server, f"{listed} = 't'") == "1", 60, "parts are cleared")

    def rescue(self) -> None:
        journal = self.journal("z")
        node = NodeRecovery(self.server, self.ledger, journal, self.database, silent)
        Recovery(journal, [node]).end_all()

    def holds(self, *loads: str) -> bool:
        """Whether the rows of these loads are there, each once, and nobody's staging is left."""
        found = text(self.server, f"SELECT count(), uniqExact(k) FROM {self.database}.t")
        left = text(self.server, "SELECT count() FROM system.tables WHERE database = "
                    f"'{self.database}' AND name LIKE '\\_rowfall\\_%\\_1%'")  # fmt: skip
        return (found, left) == (f"{50 + ROWS * len(loads)}\t{50 + ROWS * len(loads)}", "0")


@pytest.mark.parametrize("attached", [True, False])
def test_another_attempt_has_landed_since_the_count(scene: Scene, attached: bool) -> None:
    scene.overtaken(attached=attached)
    scene.merge()
    scene.rescue()
    assert scene.holds("a", "b")


@pytest.mark.parametrize("attached", [True, False])
def test_another_attempt_has_landed_before_the_count(scene: Scene, attached: bool) -> None:
    """While this one was staged, which takes most of its time."""
    scene.stage("a")
    scene.stage("b")
    scene.publish("b")
    scene.commit("a")
    if attached:
        scene.attach("a")
    else:  # something has to hide that it is not there
        scene.stage("c")
        scene.publish("c")
    scene.merge()
    scene.rescue()
    assert scene.holds("a", "b") if attached else scene.holds("a", "b", "c")


@pytest.mark.parametrize("first", ["a", "b"])
def test_both_were_attached_and_neither_has_said_so(scene: Scene, first: str) -> None:
    for load_id in ("ab", "ba")[first == "b"]:
        scene.stage(load_id)
    scene.commit("a")
    scene.commit("b")
    scene.attach("a")
    scene.attach("b")
    scene.merge()
    scene.rescue()
    assert scene.holds("a", "b")


@pytest.mark.parametrize("attached", ["a", "b"])
def test_one_of_two_was_attached_and_nobody_knows_which(scene: Scene, attached: str) -> None:
    for load_id in ("a", "b"):
        scene.stage(load_id)
    for load_id in ("a", "b"):
        scene.commit(load_id)
    scene.attach(attached)
    scene.merge()
    with pytest.raises(LedgerError, match="100 rows were added, 0 or 100 expected, and other"):
        scene.rescue()
    assert text(scene.server, f"SELECT count() FROM {scene.database}.t") == "150"
    staged = f"SELECT count() FROM merge('{scene.database}', '^_rowfall_[ab]_1')"
    assert text(scene.server, staged) == "200"


@pytest.mark.parametrize("attached", [True, False])
def test_rows_of_others_that_nobody_wrote_down(scene: Scene, attached: bool) -> None:
    """They are merged with the rest, so that no sum is right."""
    scene.overtaken(attached=attached)
    run(scene.server, f"INSERT INTO {scene.database}.t SELECT number FROM numbers(13)")
    scene.merge()
    with pytest.raises(LedgerError, match=f"{213 if attached else 113} rows were added"):
        scene.rescue()


def test_an_attempt_that_is_published_while_rows_are_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then what was counted is not what the journal says."""
    scene.stage("a")
    scene.stage("b")
    scene.stage("c")
    scene.commit("a")
    scene.publish("b")
    scene.merge()
    count = Publisher._gained

    def gained(*arguments: object) -> tuple[int, str]:
        scene.publish("c")
        return count(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Publisher, "_gained", gained)
    with pytest.raises(LedgerError, match="200 rows were added"):
        scene.rescue()
    monkeypatch.undo()
    scene.merge()
    scene.rescue()
    assert scene.holds("a", "b", "c")
