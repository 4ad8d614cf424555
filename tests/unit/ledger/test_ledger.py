"""The ledger: what it remembers, and what it refuses."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rowfall.core.errors import Exit, LedgerError
from rowfall.core.listing import Listing, Split
from rowfall.ledger import Ledger, StagedPartition, target_key, target_key_parts

INTO = target_key("default", "t")


def split(number: int) -> Split:
    return Split(f"{number:032x}", f"/data/{number}.csv", "1-1", 10)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "deep" / "rowfall.ledger")
    ledger.begin("a", "print", "src", "tgt", INTO, "{}")
    return ledger


def test_into_key_keeps_dots_apart() -> None:
    assert target_key_parts(target_key("a.b", "c")) == ["a.b", "c"]
    assert target_key("a.b", "c") != target_key("a", "b.c")


def test_published_splits_are_loaded_and_survive_reopening(ledger: Ledger) -> None:
    ledger.add_splits("a", [split(1), split(2)])
    ledger.attempt_started("a_1", "a", "st", INTO, [split(1), split(2)])
    assert ledger.loaded(INTO) == set()
    ledger.attempt_committed("a_1", 30, [StagedPartition("d", "t", "st", "p", 30, 0, -1)])
    assert ledger.loaded(INTO) == set()
    ledger.attempt_published("a_1", INTO)
    ledger.close()
    again = Ledger(ledger.path)
    assert again.loaded(INTO) == {split(1).id, split(2).id}
    assert again.loaded(target_key("default", "other")) == set()
    assert again.loaded_rows(INTO) == 30


def test_only_the_attempts_own_splits_land(ledger: Ledger) -> None:
    ledger.add_splits("a", [split(1), split(2)])
    ledger.attempt_started("a_1", "a", "st", INTO, [split(1), split(2)])
    ledger.attempt_ended("a_1", "failed", "bad value")
    ledger.attempt_started("a_2", "a", "st2", INTO, [split(2)])
    ledger.attempt_committed("a_2", 1, [])
    ledger.attempt_published("a_2", INTO)
    assert ledger.loaded(INTO) == {split(2).id}


def test_open_attempts_are_those_that_were_left(ledger: Ledger) -> None:
    for name in ("a_1", "a_2", "a_3"):
        ledger.attempt_started(name, "a", f"st_{name}", INTO, [])
    ledger.attempt_committed("a_2", 5, [])
    ledger.attempt_ended("a_3", "lost", "gone")
    assert [(a.id, a.state) for a in ledger.open_attempts()] == [
        ("a_1", "started"),
        ("a_2", "loaded"),
    ]


def test_unfinished_load_is_found_by_its_fingerprint(ledger: Ledger) -> None:
    found = ledger.unfinished("print")
    assert found is not None
    assert found.id == "a"
    assert ledger.unfinished("other") is None
    ledger.end("a", "done", "{}")
    assert ledger.unfinished("print") is None


def test_another_table_of_the_same_name_forgets_what_its_predecessor_held(ledger: Ledger) -> None:
    ledger.set_table(INTO, "uuid-1")
    ledger.add_splits("a", [split(1)])
    ledger.attempt_started("a_1", "a", "st", INTO, [split(1)])
    ledger.attempt_committed("a_1", 1, [])
    ledger.attempt_published("a_1", INTO)
    assert ledger.set_table(INTO, "uuid-1") == 0
    assert ledger.loaded(INTO) == {split(1).id}
    assert ledger.set_table(INTO, "uuid-2") == 1
    assert ledger.loaded(INTO) == set()


def test_a_shadow_counts_for_nothing_once_the_target_has_its_rows(ledger: Ledger) -> None:
    """A kill before the shadow is dropped: it must not be gathered a second time."""
    shadow = target_key(INTO, "a")
    ledger.set_table(shadow, "uuid-1")
    ledger.add_splits("a", [split(1)])
    for attempt, staging, into in (
        ("a_1", "_rowfall_a_1", shadow), ("a_whole2", "_rowfall_a_whole", INTO),
    ):  # fmt: skip
        ledger.attempt_started(attempt, "a", staging, into, [split(1)])
        ledger.attempt_committed(attempt, 1, [])
        assert ledger.table_uuid(shadow) == "uuid-1"
        ledger.attempt_published(attempt, into)
        assert ledger.loaded(into) == {split(1).id}
    assert ledger.loaded(shadow) == set()
    assert ledger.table_uuid(shadow) == ""


def test_failed_splits_are_pending_again_on_the_next_run(ledger: Ledger) -> None:
    ledger.add_splits("a", [split(1)])
    ledger.split_failed("a", split(1).id, "bad", "fix it")
    ledger.add_splits("a", [split(1)])
    rows = sqlite3.connect(ledger.path).execute("SELECT state, error FROM split").fetchall()
    assert rows == [("pending", None)]


def test_a_failed_change_leaves_nothing_behind(ledger: Ledger) -> None:
    ledger.attempt_started("a_1", "a", "st", INTO, [])
    with pytest.raises(LedgerError):
        # The second move violates the primary key: the first must go with it.
        ledger.attempt_committed("a_1", 2, [StagedPartition("d", "t", "st", "p", 1, 0, -1)] * 2)
    assert ledger.moves("a_1") == []
    assert ledger.attempt_state("a_1") == "started"


class TestRefuses:
    def test_a_damaged_file(self, tmp_path: Path) -> None:
        path = tmp_path / "rowfall.ledger"
        path.write_bytes(b"this is no database, but long enough to be read as one" * 100)
        with pytest.raises(LedgerError, match="damaged") as caught:
            Ledger(path)
        assert caught.value.exit == Exit.LEDGER
        assert caught.value.hint is not None

    def test_one_from_a_newer_version(self, ledger: Ledger) -> None:
        ledger.close()
        with sqlite3.connect(ledger.path) as db:
            db.execute("PRAGMA user_version=99")
        with pytest.raises(LedgerError, match="newer rowfall"):
            Ledger(ledger.path)

    def test_one_that_is_locked(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        other = sqlite3.connect(ledger.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        ledger._store._db.execute("PRAGMA busy_timeout=50")
        with pytest.raises(LedgerError, match="locked"):
            ledger.end("a", "done", "{}")
        other.close()

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LedgerError, match="cannot create"):
            Ledger(tmp_path / "file" / "x" / "rowfall.ledger")


def test_one_of_two_processes_takes_an_unfinished_load_up(tmp_path: Path) -> None:
    """Both have seen it unfinished; two runs of one load would use the same staging names."""
    path = tmp_path / "rowfall.ledger"
    ledger, other = Ledger(path), Ledger(path)
    ledger.begin("a", "print", "src", "tgt", INTO, "{}")
    ledger.end("a", "interrupted", "{}")
    seen = [ledger.unfinished("print"), other.unfinished("print")]
    assert seen[0] is not None
    assert seen[1] is not None
    assert ledger.take_up(seen[0], "{}")
    assert not other.take_up(seen[1], "{}")
    ledger.close()
    other.close()


def test_its_files_are_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        ledger = Ledger(tmp_path / "state" / "rowfall.ledger")
        ledger.begin("a", "print", "src", "tgt", INTO, "{}")
    finally:
        os.umask(before)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in ledger.path.parent.iterdir()}
    assert found == dict.fromkeys(
        ["rowfall.ledger", "rowfall.ledger-wal", "rowfall.ledger-shm"], 0o600
    )
    assert stat.S_IMODE(ledger.path.parent.stat().st_mode) == 0o700
    ledger.close()


def test_numbers_of_attempts_go_on_after_the_last_one(ledger: Ledger) -> None:
    """Of two that began at once, a crash may have come before the first was written down."""
    assert ledger.attempts("a") == 0
    ledger.attempt_started("a_2", "a", "st2", INTO, [split(1)])
    assert ledger.attempts("a") == 2
    ledger.attempt_started("a_whole13", "a", "st", INTO, [split(2)])
    assert ledger.attempts("a") == 13
    assert ledger.attempts("other") == 0


def test_what_was_committed_for_a_table_that_is_gone(ledger: Ledger) -> None:
    ledger.set_table(INTO, "before")
    ledger.add_splits("a", [split(1), split(2), split(3)])
    for number in (1, 2, 3):
        ledger.attempt_started(f"a_{number}", "a", f"st{number}", INTO, [split(number)])
    assert ledger.stopped(INTO) == {}
    for number, rows in ((1, 30), (3, 50)):
        ledger.attempt_committed(f"a_{number}", rows, [])
    for number in (1, 2):
        ledger.attempt_ended(f"a_{number}", "lost", "the target table was dropped")
    ledger.attempt_ended("a_3", "failed", "given up by the user")
    assert ledger.stopped(INTO) == {"a_1": 30}
    ledger.set_table(INTO, "after")  # who has said what the new one holds is not asked again
    assert ledger.stopped(INTO) == {}


def test_what_later_versions_have_added_is_made_in_older_ledgers(ledger: Ledger) -> None:
    with ledger._store.change() as db:
        db.execute("DROP TABLE staged_files")
    ledger.close()
    again = Ledger(ledger.path)
    again.attempt_started("a_1", "a", "st", INTO, [])
    moves = [
        StagedPartition("d", "t", "st", "p", 1, 0, -1, staged_at=17),
        StagedPartition("d", "t", "st", "q", 1, 0, -1),
    ]
    again.attempt_committed("a_1", 2, moves)
    assert again.moves("a_1") == moves


def batch(ledger: Ledger, load_id: str, start: int, stop: int, state: str = "done") -> None:
    """One batch of a stream that is followed: a load of one range."""
    listing = Listing(continued=True)
    listing.add("kafka://t/0", "v", None, start, stop)
    splits = list(listing.splits(INTO))
    if load_id != "a":
        ledger.begin(load_id, "print", "src", "tgt", INTO, "{}")
    ledger.add_splits(load_id, splits)
    ledger.attempt_started(f"{load_id}_1", load_id, "st", INTO, splits)
    ledger.attempt_committed(
        f"{load_id}_1", stop - start, [StagedPartition("d", "t", "st", "p", 1, 0, -1, staged_at=7)]
    )
    ledger.attempt_published(f"{load_id}_1", INTO)
    ledger.end(load_id, state, "{}")


def test_loads_that_are_joined_leave_what_is_loaded(ledger: Ledger) -> None:
    for load_id, start in (("a", 0), ("b", 10), ("c", 30), ("d", 40)):
        batch(ledger, load_id, start, start + 10)
    before = ledger.published_attempts()
    ledger.explain(
        "b", "{}"
    )  # or the next load of a stream that is followed ended in SQLite's words
    assert ledger.join_load("b", "a", INTO, ranges=True)
    assert [row.id for row in ledger.loads()] == ["d", "c", "a"]
    # Whoever copies the folder meanwhile sees that nothing has become visible.
    assert ledger.published_attempts() == before
    assert {i[32:] for i in ledger.loaded(INTO)} == {"[0:20]", "[30:40]", "[40:50]"}
    assert ledger.join_load("c", "a", INTO, ranges=True)
    assert ledger.join_load("d", "a", INTO, ranges=False)
    assert {i[32:] for i in ledger.loaded(INTO)} == {"[0:20]", "[30:40]", "[40:50]"}
    assert ledger.loaded_rows(INTO) == 40
    assert ledger.moves("b_1") == []
    assert ledger.forget("a") == 3
    assert ledger.loaded(INTO) == set()


def test_loads_that_are_not_done_or_have_made_tables_are_not_joined(ledger: Ledger) -> None:
    batch(ledger, "a", 0, 10)
    batch(ledger, "b", 10, 20, state="interrupted")
    batch(ledger, "c", 20, 30)
    ledger.step("c", "made 7", "done")
    ledger.begin("d", "print", "src", "tgt", INTO, "{}")
    ledger.end("d", "done", "{}")
    for load_id, into in (("b", "a"), ("c", "a"), ("a", "d")):
        assert not ledger.join_load(load_id, into, INTO, ranges=True)
    assert {i[32:] for i in ledger.loaded(INTO)} == {"[0:10]", "[10:20]", "[20:30]"}


def test_a_load_that_never_began_takes_its_plan_along(ledger: Ledger) -> None:
    ledger.begin("z", "print", "src", "tgt", INTO, "{}")
    ledger.explain("z", "{}")
    ledger.never_began("z")
    assert ledger.explained("z") is None
    assert [row.id for row in ledger.loads()] == ["a"]


def files(ledger: Ledger, load_id: str, names: range, into: str = INTO) -> list[str]:
    """One load of whole files by one attempt; returns their ids."""
    listing = Listing()
    for number in names:
        listing.add(f"/in/{number}.csv", "v", 5)
    splits = list(listing.splits(into))
    if load_id != "a":
        ledger.begin(load_id, "print", "src", "tgt", into, "{}")
    ledger.add_splits(load_id, splits)
    ledger.attempt_started(f"{load_id}_1", load_id, "st", into, splits)
    ledger.attempt_committed(f"{load_id}_1", len(splits), [], once=True)
    ledger.attempt_published(f"{load_id}_1", into)
    ledger.end(load_id, "done", "{}")
    return [split.id for split in splits]


def steps(ledger: Ledger, do: Callable[[], object]) -> int:
    """Return how many instructions SQLite runs for something, in hundreds."""
    counted = 0

    def count() -> None:
        nonlocal counted
        counted += 1

    ledger._store._db.set_progress_handler(count, 100)
    do()
    return counted


def test_what_many_files_cost_grows_with_their_number_and_not_with_its_square(
    ledger: Ledger,
) -> None:
    count = 2_000
    ids = files(ledger, "a", range(count))
    found: set[str] = set()
    assert steps(ledger, lambda: found.update(ledger.loaded_uris(INTO))) < count
    assert found == {f"/in/{number}.csv" for number in range(count)}
    by_uri: dict[str, frozenset[str]] = {}
    assert steps(ledger, lambda: by_uri.update(ledger.ids_by_uri(set(ids)))) < count
    assert by_uri["/in/7.csv"] == {ids[7]}
    # Another attempt does not look through what is loaded.
    assert steps(ledger, lambda: files(ledger, "b", range(count, count + 1))) < 20
    assert ledger.join_load("b", "a", INTO, ranges=True)
    assert ledger.loaded(INTO) == set()
    asked = [*ids[:10], *(f"{number:032x}" for number in range(count))]
    there: set[str] = set()
    assert steps(ledger, lambda: there.update(ledger.joined_among(INTO, asked))) < count
    assert there == set(ids[:10])


def test_what_another_attempt_is_about_to_publish_is_not_committed(ledger: Ledger) -> None:
    listing = Listing()
    listing.add("/in/1.csv", "v", 5)
    splits = list(listing.splits(INTO))
    ledger.begin("b", "print", "src", "tgt", INTO, "{}")
    for load_id in ("a", "b"):
        ledger.add_splits(load_id, splits)
        ledger.attempt_started(f"{load_id}_1", load_id, "st", INTO, splits)
    ledger.attempt_committed("a_1", 1, [], once=True)
    with pytest.raises(LedgerError, match=r"the same files meanwhile \(attempt a_1\)"):
        ledger.attempt_committed("b_1", 1, [], once=True)
    ledger.attempt_published("a_1", INTO)
    with pytest.raises(LedgerError, match=r"the same files meanwhile \(attempt a_1\)"):
        ledger.attempt_committed("b_1", 1, [], once=True)
