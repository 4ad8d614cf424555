"""An attempt of a dead process whose parts have been merged, on a real server without a log of it.

Another attempt has published into the same partition meanwhile: rows can be counted only as far as
the journal says what that one has added, and when.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.engines import run, text
from lab.process import wait_until
from rowfall.core.errors import LedgerError, TargetError
from rowfall.core.events import silent
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import StagingPair
from rowfall.engines.base import table_uuid
from rowfall.ledger import Ledger, leases
from rowfall.ledger.journal import Journal
from rowfall.publish.attach import Publisher
from rowfall.publish.evidence import Partition, Search
from rowfall.publish.recover import NodeRecovery, Recovery
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.staging import clone, facts

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
        journal, pair = (
            self.journal(load_id),
            StagingPair(self.database, "t", f"_rowfall_{load_id}_1"),
        )
        journal.counting(f"{load_id}_1")
        staged = self.publisher.staged([pair], 8.0)
        assert journal.commit(f"{load_id}_1", staged.rows, staged.moves)

    def attach(self, load_id: str) -> None:
        """Under no id of ours: the server was killed before it wrote its log."""
        run(self.server, f"ALTER TABLE {self.database}.t ATTACH PARTITION ALL FROM "
            f"{self.database}._rowfall_{load_id}_1")  # fmt: skip

    def loaded(self, load_id: str) -> None:
        self.journal(load_id).loaded(f"{load_id}_1")
        run(self.server, f"DROP TABLE {self.database}._rowfall_{load_id}_1 SYNC")

    def publish(self, load_id: str) -> None:
        """All at once, nothing lost."""
        self.commit(load_id)
        self.attach(load_id)
        self.loaded(load_id)

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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("attached", [True, False])
def test_another_attempt_has_loaded_since_the_count(scene: Scene, attached: bool) -> None:
    scene.overtaken(attached=attached)
    scene.merge()
    scene.rescue()
    assert scene.holds("a", "b")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("attached", [True, False])
def test_another_attempt_has_loaded_before_the_count(scene: Scene, attached: bool) -> None:
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


@pytest.mark.sampled(1)
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


@pytest.mark.sampled(1)
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


@pytest.mark.sampled(1)
@pytest.mark.parametrize("attached", [True, False])
def test_rows_of_others_that_nobody_wrote_down(scene: Scene, attached: bool) -> None:
    """They are merged with the rest, so that no sum is right."""
    scene.overtaken(attached=attached)
    run(scene.server, f"INSERT INTO {scene.database}.t SELECT number FROM numbers(13)")
    scene.merge()
    with pytest.raises(LedgerError, match=f"{213 if attached else 113} rows were added"):
        scene.rescue()


@pytest.mark.sampled(1)
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
    listed, calls = Search._partitions, itertools.count(1)

    def counted(*arguments: Any) -> dict[str, Partition]:
        if next(calls) == 2:  # the first time it only looks whether there is anything to count
            scene.publish("c")
        return listed(*arguments)

    monkeypatch.setattr(Search, "_partitions", counted)
    with pytest.raises(LedgerError, match="200 rows were added"):
        scene.rescue()
    monkeypatch.undo()
    scene.merge()
    scene.rescue()
    assert scene.holds("a", "b", "c")


# --- rights -------------------------------------------------------------------------------------

# What docs/guides/servers.md grants, on the database and besides.
RIGHTS = ("SELECT", "INSERT", "ALTER DELETE", "CREATE TABLE", "DROP TABLE")
SYSTEM = ("parts", "merge_tree_settings", "processes")


class Limited:
    """Somebody with the rights of the guide and no others.

    Attributes:
        engine: the server as this user sees it.
    """

    def __init__(self, scene: Scene, admin: Server) -> None:
        self._admin, self.name = admin, f"limited_{scene.database}"
        replicated = text(admin, "SELECT count() FROM system.replicas WHERE database = "
                          f"'{scene.database}'") == "1"  # fmt: skip
        system = (*SYSTEM, "replicas") if replicated else SYSTEM
        self.replicated = replicated
        self.grants = [f"{right} ON {scene.database}.*" for right in RIGHTS]
        self.grants += [f"SELECT ON system.{table}" for table in system]
        run(admin, f"CREATE USER {self.name} IDENTIFIED BY 'pw'")
        for grant in self.grants:
            self.give(grant)
        port = admin._address.port
        self.engine = Server("127.0.0.1", port, user=self.name, password=Secret("pw"))

    def give(self, grant: str) -> None:
        run(self._admin, f"GRANT {grant} TO {self.name}")

    def take(self, grant: str) -> None:
        run(self._admin, f"REVOKE {grant} FROM {self.name}")


@pytest.fixture
def limited(scene: Scene) -> Iterator[Limited]:
    found = Limited(scene, scene.server)
    yield found
    found.engine.close()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("attached", [True, False])
def test_the_rights_of_the_guide_end_a_dead_load(
    scene: Scene, limited: Limited, attached: bool
) -> None:
    """Its fence renames, its parts are found and attached, the rest is dropped."""
    scene.journals.clear()
    admin, scene.server = scene.server, limited.engine
    scene.publisher = Publisher(limited.engine, scene.ledger)
    limited.engine.check_rights([(scene.database, "t")], replicated=limited.replicated)
    scene.stage("a")
    scene.stage("b")
    scene.commit("a")
    if attached:
        scene.attach("a")
    scene.rescue()  # b was not committed
    scene.server = admin
    assert scene.holds("a")


def test_the_rights_of_the_guide_take_rows_back(scene: Scene, limited: Limited) -> None:
    """Another table has taken the target's place: it loses what it was given."""
    scene.stage("a")
    scene.commit("a")
    scene.attach("a")
    (move,) = scene.journal("a").entries()[0].moves
    Publisher(limited.engine, scene.ledger).take_back([move])
    assert text(scene.server, f"SELECT count() FROM {scene.database}.t") == "50"


def test_a_user_who_may_not_merge_attaches_small_parts(scene: Scene, limited: Limited) -> None:
    scene.stage("a")
    staging = "_rowfall_a_1"
    run(scene.server, f"INSERT INTO {scene.database}.{staging} SELECT number FROM numbers(120)",
        settings={"max_block_size": 1, "min_insert_block_size_rows": 1,
                  "min_insert_block_size_bytes": 1, "max_threads": 1})  # fmt: skip
    pair = StagingPair(scene.database, "t", staging)
    found = Publisher(limited.engine, scene.ledger).staged([pair], 8.0)
    assert (found.rows, found.parts) == (ROWS + 120, 122)


def test_each_missing_right_is_named_with_the_grant_that_helps(
    scene: Scene, limited: Limited
) -> None:
    tables = [(scene.database, "t")]
    for grant in limited.grants:
        limited.take(grant)
        with pytest.raises(TargetError) as caught:
            limited.engine.check_rights(tables, replicated=limited.replicated)
        right = grant.partition(" ON ")[0]
        found = re.search(rf"GRANT ({right} ON \S+) TO {limited.name}", caught.value.hint or "")
        assert found, (grant, caught.value.hint)
        limited.give(found[1])  # what the hint says is what helps
        limited.engine.check_rights(tables, replicated=limited.replicated)


def test_tables_behind_views_need_the_same_rights(scene: Scene, limited: Limited) -> None:
    other = f"other_{scene.database}"
    run(scene.server, f"CREATE DATABASE {other}")
    with pytest.raises(TargetError) as caught:
        limited.engine.check_rights([(scene.database, "t"), (other, "o")])
    named = re.search(rf"GRANT (.+ ON {other}\.\*) TO", caught.value.hint or "")
    assert named, caught.value.hint
    assert set(named[1].partition(" ON ")[0].split(", ")) == set(RIGHTS)
    limited.give(named[1])
    limited.engine.check_rights([(scene.database, "t"), (other, "o")])
    run(scene.server, f"DROP DATABASE {other} SYNC")


def test_the_right_to_flush_disks(limited: Limited) -> None:
    assert "SYSTEM SYNC FILE CACHE" in str(limited.engine.sync_refused())
    limited.give("SYSTEM SYNC FILE CACHE ON *.*")
    assert limited.engine.sync_refused() is None
    assert limited.engine.sync() is None
