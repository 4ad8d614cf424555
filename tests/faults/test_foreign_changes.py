"""What other people do to the target of a running load: drop it, replace it, stop its server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from faults.conftest import Survived
from faults.kills import sample
from faults.places import Loader, Make
from faults.test_server_steps import REPLACE, SIDES, TYPES, changes, with_old_rows
from lab.clickhouse import ClickHouse
from lab.faulty import Fault, nth
from lab.rows import Rows, checksum, leftovers, make_rows

SMALL = ("--attempt-bytes", "1KB")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", sample("dropped", [(), ("--atomic",)]), ids=str)
def test_the_target_is_dropped_in_the_middle(
    place: Make, few: Rows, survived: Survived, kind: tuple[str, ...]
) -> None:
    """Nothing of half a load is left, and the next run loads all of it into a new table."""
    here = place(*SMALL, *kind, *TYPES, of=few)
    scene = here.scene
    steps = changes(scene.steps())
    for request in sample("dropped at", steps, least=2):
        for side in sample("dropped on", SIDES):
            scene.fresh()

            def drop() -> None:
                scene.server.query(f"DROP TABLE {scene.database}.t SYNC")

            fault = Fault(before=drop) if side == "before" else Fault(after=drop)
            scene.proxy.script = nth(request.number, fault)
            code = scene.run()
            print(side, request, code, scene.said[-1])  # noqa: T201 - for failing tests
            scene.proxy.script = None
            assert code in (0, 5)
            if code == 5:
                assert f"{scene.database}.t was dropped by somebody else" in scene.said[-1]
                assert "hint: " in scene.said[-1]
            scene.finish()
            survived("target dropped in the middle")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", sample("made anew", [(), ("--atomic",)]), ids=str)
def test_the_target_is_dropped_and_made_anew_in_the_middle(
    place: Make, few: Rows, survived: Survived, kind: tuple[str, ...]
) -> None:
    """By one statement of the server, as `CREATE OR REPLACE` does it: nothing fails, so what is
    made visible goes into another table than the load began with. That one must have every row
    once after the next run, and nothing before that it would get twice."""
    here = place(*SMALL, *kind, *TYPES, of=few)
    scene = here.scene
    steps = changes(scene.steps())
    last = [r for r in steps if "ATTACH PARTITION" in r.sql][-1]
    others = [r for r in steps if r is not last]
    for request in (last, *sample("made anew at", others)):
        for side in SIDES if request is last else sample("made anew on", SIDES):
            scene.fresh()

            def make_anew() -> None:
                scene.server.query(f"CREATE OR REPLACE TABLE {scene.database}.t AS "
                                   f"{scene.database}.like_t")  # fmt: skip

            create = scene.server.query(f"SHOW CREATE TABLE {scene.database}.t FORMAT TSVRaw")
            scene.server.query(create.replace(f"{scene.database}.t", f"{scene.database}.like_t"))
            fault = Fault(before=make_anew) if side == "before" else Fault(after=make_anew)
            scene.proxy.script = nth(request.number, fault)
            code = scene.run()
            print(side, request, code, scene.said[-1])  # noqa: T201 - for failing tests
            scene.proxy.script = None
            assert code in (0, 5)
            if code == 5:
                assert f"{scene.database}.t was dropped by somebody else" in scene.said[-1]
            scene.finish()
            survived("target made anew in the middle")


# --- two that replace the same table --------------------------------------------------------------


@pytest.fixture(scope="session")
def others(server: ClickHouse, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return make_rows(server, tmp_path_factory.mktemp("others") / "files", files=3, rows=2000)


@pytest.mark.long
@pytest.mark.parametrize("home", sample("homes", ["", "other"]))
def test_two_replace_the_same_table_at_once(
    place: Make, few: Rows, others: Rows, tmp_path: Path, survived: Survived, home: str
) -> None:
    here = place(*SMALL, *REPLACE, of=few, create=with_old_rows)
    scene = here.scene
    second = Loader(scene.server, here.loader.home, [f"{others.folder}/*"], *SMALL, *REPLACE)
    scene.fresh()
    together = [
        here.loader(scene.proxy.port, scene.database),
        second(scene.proxy.port, scene.database, home=home),
    ]
    assert [scene.ended(each) for each in together] == [0, 0], scene.said
    second.close()
    assert checksum(scene.server, f"{scene.database}.t") in (few.checksum, others.checksum)
    assert leftovers(scene.server, scene.database) == []
    survived("--replace twice at once")


@pytest.mark.sampled(1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", SIDES)
def test_another_replaces_the_table_around_the_exchange(
    place: Make, few: Rows, others: Rows, server: ClickHouse, survived: Survived, side: str
) -> None:
    """The answer to the exchange is lost, and the user may not read what became of it: doing it
    again would bring back the old rows."""
    rights = "SELECT, INSERT, ALTER DELETE, CREATE TABLE, DROP TABLE ON *.*"
    blind = server.add_user("blind", rights, without=["SELECT ON system.query_log"])
    here = place(*SMALL, *REPLACE, of=few, create=with_old_rows, account=blind)
    scene = here.scene
    second = Loader(scene.server, here.loader.home, [f"{others.folder}/*"], *SMALL, *REPLACE)

    def replace() -> None:
        other = second(scene.server.http_port, scene.database, home="other")
        assert scene.ended(other) == 0, scene.said

    scene.fresh()
    done = iter([None])
    fault = Fault(before=replace, reset="before") if side == "before" else Fault(
        after=replace, reset="after"
    )  # fmt: skip
    scene.proxy.script = lambda request: (
        fault if request.sql.startswith("EXCHANGE") and next(done, 1) is None else None
    )
    assert scene.run() == 0
    second.close()
    # Before: ours was the later one. After: the other one replaced what we had made visible.
    last = few if side == "before" else others
    assert checksum(scene.server, f"{scene.database}.t") == last.checksum
    assert leftovers(scene.server, scene.database) == []
    assert scene.proxy.errors == []
    survived("--replace around another's exchange")


# --- the server -----------------------------------------------------------------------------------


def test_a_server_that_is_down_is_said_at_once(place: Make, few: Rows, survived: Survived) -> None:
    here = place(*SMALL, of=few)
    scene = here.scene
    scene.fresh()
    cable = here.loader.network(scene.proxy.port)
    cable.refuse()
    begin = time.monotonic()
    code = scene.run()
    assert code == 5
    assert (
        time.monotonic() - begin < 10
    )  # its start included; no waiting for a server that was not there
    assert "cannot connect" in scene.said[-1]
    assert "hint: " in scene.said[-1]
    cable.accept()
    scene.finish()
    survived("server down at the start")
