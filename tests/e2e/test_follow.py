"""Folders and buckets that are followed: each version of each object once, whatever happens."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from functools import partial
from pathlib import Path

import pytest

import rowfall
from e2e.following import Follower, put
from e2e.tools import Shell
from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.results import LoadError
from rowfall.run import follow, object_watch
from rowfall.stores import file_walks


@pytest.fixture
def folder(shell: Shell) -> Path:
    found = shell.folder / "in"
    found.mkdir()
    return found


def rows(shell: Shell) -> list[int]:
    found = shell.rows("SELECT a FROM t ORDER BY a", "--to", "d")
    return [row[0] for row in found]


def test_new_late_and_overwritten_files(shell: Shell, folder: Path) -> None:
    """Without a listing between them: the kernel tells of each."""

    def below() -> None:
        (folder / "x/y").mkdir(parents=True)
        put(folder / "x/y/z.csv", 5)

    follower = Follower(
        lambda: put(folder / "m.csv", 1),
        lambda: put(folder / "a.csv", 2),
        lambda: put(folder / "m.csv", 3, 4),
        below,
        lambda: os.utime(folder / "a.csv", (1, 1)),  # not written: no new version is told of
    )
    report = follower.run(str(folder), shell.folder / "d")
    assert (report.outcome, report.rows) == ("done", 5)
    assert rows(shell) == [1, 2, 3, 4, 5]
    assert follower.failed == []
    # Another process knows all of it, by name and version.
    again = Follower(lambda: put(folder / "b.csv", 6)).run(str(folder), shell.folder / "d")
    assert again.rows == 2  # and a.csv, whose time is another one
    assert rows(shell) == [1, 2, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_overwritten_files_may_be_left_out(shell: Shell, folder: Path) -> None:
    put(folder / "m.csv", 1)
    follower = Follower(lambda: put(folder / "m.csv", 2), lambda: put(folder / "n.csv", 3))
    follower.run(str(folder), shell.folder / "d", on_change="ignore")
    put(folder / "m.csv", 4)
    Follower().run(str(folder), shell.folder / "d", on_change="ignore")
    assert rows(shell) == [1, 3]


def test_overwritten_files_are_errors_that_people_settle(shell: Shell, folder: Path) -> None:
    """Also where the first version was loaded before by who noted no names, or by name alone."""
    put(folder / "m.csv", 1)
    put(folder / "n.csv", 2)
    Follower().run(str(folder / "m.csv"), shell.folder / "d")
    follower = Follower(
        lambda: put(folder / "m.csv", 3, 33),
        lambda: put(folder / "o.csv", 4),
        lambda: put(folder / "o.csv", 5, 55, 555),
        lambda: put(folder / "p.csv", 6),
    )
    follower.run(str(folder), shell.folder / "d", on_change="error")
    assert rows(shell) == [1, 2, 4, 6]
    (first, one), (second, _) = follower.failed
    assert (Path(first).name, Path(second).name) == ("m.csv", "o.csv")
    assert re.fullmatch(
        r"overwritten since it was loaded: 4 bytes of \S+ \S+ UTC were loaded, and now it has 7 "
        r"bytes of \S+ \S+ UTC", one,
    )  # fmt: skip
    # The next process knows them, and loads what people ask for.
    again = Follower(lambda: put(folder / "p.csv", 7, 77))
    again.wanted = {str(folder / "m.csv")}
    again.run(str(folder), shell.folder / "d", on_change="error")
    assert [name.rpartition("/")[2] for name, _ in again.failed] == ["o.csv", "p.csv"]
    assert rows(shell) == [1, 2, 3, 4, 6, 33]


def test_what_was_loaded_by_its_name_alone_is_an_error_later(shell: Shell, folder: Path) -> None:
    put(folder / "m.csv", 1)
    Follower().run(str(folder), shell.folder / "d", on_change="ignore")
    follower = Follower(lambda: put(folder / "m.csv", 3, 33))
    follower.run(str(folder), shell.folder / "d", on_change="error")
    assert (rows(shell), len(follower.failed)) == ([1], 1)


def test_an_overwritten_file_ends_who_has_no_observer(shell: Shell, folder: Path) -> None:
    put(folder / "m.csv", 1)
    Follower().run(str(folder), shell.folder / "d", on_change="error")
    put(folder / "m.csv", 3, 33)
    words = ("--follow", "--on-change", "error", "--batch-seconds", "0")
    talk = shell.ends(4, "load", str(folder), "--table", "t", "--to", "d", *words).talk
    assert "m.csv: overwritten since it was loaded: 4 bytes of" in talk
    assert "--on-change load adds the rows" in talk
    assert rows(shell) == [1]


def test_without_the_kernel_files_are_listed(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_walks, "Inotify", refused)
    follower = Follower(
        lambda: put(folder / "m.csv", 1),
        lambda: put(folder / "a.csv", 2),
        lambda: put(folder / "m.csv", 3),
    )
    follower.run(str(folder), shell.folder / "d", at_rest="0")
    assert rows(shell) == [1, 2, 3]
    assert "fs.inotify.max_user_watches" in " ".join(follower.said)


def test_a_bad_file_does_not_stop_the_others(shell: Shell, folder: Path) -> None:
    """Broken at its end, of other columns, and of no format; a repaired one is loaded."""
    put(folder / "a.csv", 1)

    def bad() -> None:
        for name, text in (("b.csv", "a\n2\nx\n"), ("c.csv", "a,b\n1,2\n"), ("d.parquet", "no")):
            (folder / f".{name}").write_text(text)
            (folder / f".{name}").rename(folder / name)
        put(folder / "e.csv", 3)

    follower = Follower(bad, lambda: put(folder / "b.csv", 4))
    follower.run(str(folder), shell.folder / "d", header="yes")
    assert rows(shell) == [1, 3, 4]
    assert sorted(Path(name).name for name, _ in follower.failed) == [
        "b.csv", "c.csv", "d.parquet",
    ]  # fmt: skip
    said = dict((Path(name).name, error) for name, error in follower.failed)
    assert "line 3" in said["b.csv"], said
    assert "b" in said["c.csv"]


def test_a_bad_file_of_the_second_pattern_is_named(shell: Shell, folder: Path) -> None:
    for name in ("one", "two"):
        (folder / name).mkdir()
    put(folder / "one/a.csv", 1)

    def bad() -> None:
        (folder / ".b.csv").write_text("a\n2\nx\n")
        (folder / ".b.csv").rename(folder / "two/b.csv")

    follower = Follower(bad)
    follower.run([f"{folder}/{name}/*.csv" for name in ("one", "two")], shell.folder / "d",
                 header="yes")  # fmt: skip
    assert rows(shell) == [1]
    assert [Path(name).name for name, _ in follower.failed] == ["b.csv"]


def test_a_bad_file_stops_who_has_no_observer(shell: Shell, folder: Path) -> None:
    put(folder / "a.csv", 1)
    shell.ok("load", str(folder), "--table", "t", "--to", "d")
    (folder / "b.csv").write_text("a\n2\nx\n")
    with pytest.raises((LoadError, RowfallError), match=r"b\.csv"):
        rowfall.load(str(folder), to=str(shell.folder / "d"), table="t", follow=True,
                     at_rest="0", header="yes")  # fmt: skip


def test_a_folder_that_is_unmounted_and_comes_back(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty mount point says nothing about what was loaded."""
    monkeypatch.setattr(file_walks, "_LOOK_SECONDS", 0.0)
    away = folder.with_name("away")
    put(folder / "a.csv", 1)

    def unmounted() -> None:
        folder.rename(away)
        folder.mkdir()

    def back() -> None:
        folder.rmdir()
        put(away / "b.csv", 2)
        away.rename(folder)

    follower = Follower(unmounted, lambda: None, back, lambda: put(folder / "c.csv", 3))
    follower.run(str(folder), shell.folder / "d")
    assert rows(shell) == [1, 2, 3]


@pytest.mark.long
def test_thousands_of_files_at_once(shell: Shell, folder: Path) -> None:
    """More than are held: a million is measured by many_objects.py."""
    objects = 8_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_watch, "MOST_HELD", 2_000)

        def come() -> None:
            for number in range(objects):
                (folder / f"{number * 7919 % objects:06}.csv").write_text(f"a\n{number}\n")

        follower = Follower(come)
        follower.run(str(folder), shell.folder / "d", header="yes", at_rest="0")
    assert len(follower.batches) >= 4
    assert shell.rows("SELECT count(), uniqExact(a), sum(a) FROM t", "--to", "d") == [
        [objects, objects, objects * (objects - 1) // 2]
    ]


def test_a_folder_has_to_be_there_at_first(shell: Shell) -> None:
    with pytest.raises(SourceError, match="no such folder"):
        Follower().run(str(shell.folder / "nowhere/*.csv"), shell.folder / "d")


def test_a_marker_says_what_is_complete(shell: Shell, folder: Path) -> None:
    put(folder / "a.csv", 1)
    put(folder / "b.csv", 2)
    (folder / "a.csv.done").touch()
    follower = Follower()
    follower.idle = lambda lag: follower.control.stop() if follower.batches else None  # type: ignore[method-assign]
    follower.run(str(folder), shell.folder / "d", marker="{name}.done")
    assert rows(shell) == [1]
    (folder / "b.csv.done").touch()
    Follower().run(str(folder), shell.folder / "d", marker="{name}.done")
    assert rows(shell) == [1, 2]


def test_a_file_that_is_replaced_while_it_is_read(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowfall.run import attempts

    monkeypatch.setattr(object_watch, "AGAIN_SECONDS", 0.01)
    put(folder / "a.csv", 1)
    replaced = []
    checked = attempts.AttemptRunner._check_source

    def check(self: attempts.AttemptRunner, splits: object) -> None:
        if not replaced:
            replaced.append(1)
            put(folder / "a.csv", 2, 3)
        checked(self, splits)  # type: ignore[arg-type]

    monkeypatch.setattr(attempts.AttemptRunner, "_check_source", check)
    follower = Follower()
    follower.run(str(folder), shell.folder / "d")
    assert rows(shell) == [2, 3]
    assert follower.failed == []


@pytest.mark.long
def test_the_record_of_older_batches_is_small_and_known(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "KEPT", 2)

    def file(number: int) -> None:
        put(folder / f"{number}.csv", number)

    Follower(*(partial(file, number) for number in range(1, 5))).run(
        str(folder), shell.folder / "d"
    )
    with sqlite3.connect(shell.folder / "d/rowfall.ledger") as db:
        ((loads, joined, landed),) = db.execute(
            "SELECT (SELECT count(*) FROM load), (SELECT count(*) FROM joined), "
            "(SELECT count(*) FROM landed)"
        )
    assert (loads, joined, landed) == (2, 3, 1)
    Follower(partial(file, 5)).run(str(folder), shell.folder / "d")
    assert rows(shell) == [1, 2, 3, 4, 5]
    # A load that does not follow knows them as well; what is forgotten is loaded again.
    assert (
        json.loads(shell.ok("load", str(folder), "--table", "t", "--to", "d", "--json").out)[
            "splits_skipped"
        ]
        == 5
    )
    oldest = json.loads(shell.ok("status", "--to", "d", "--json").out)["loads"][-1]["load_id"]
    shell.ok("query", "--write", "TRUNCATE TABLE t", "--to", "d")
    shell.ok("forget", oldest, "--to", "d", "--yes")
    assert (
        json.loads(
            shell.ok(
                "load", str(folder), "--table", "t", "--to", "d", "--loaded", "all", "--json"
            ).out
        )["splits_loaded"]
        >= 3
    )


@pytest.mark.long
def test_what_is_older_than_the_bound_is_forgotten_and_not_loaded(
    shell: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no object twice: one that is forgotten is too old to be loaded."""
    monkeypatch.setattr(follow, "KEPT", 2)
    monkeypatch.setattr(follow, "JOINED_AT_ONCE", 1)
    for number in range(1, 4):
        put(folder / f"{number}.csv", number)
        Follower().run(str(folder), shell.folder / "d", forget_after="90d")
    with sqlite3.connect(shell.folder / "d/rowfall.ledger") as db:
        db.execute("UPDATE joined SET day = day - 100")
    for number in range(1, 3):
        os.utime(folder / f"{number}.csv", (0, 0))
    put(folder / "4.csv", 4)
    follower = Follower(lambda: put(folder / "5.csv", 5))
    follower.run(str(folder), shell.folder / "d", forget_after="90d")
    with sqlite3.connect(shell.folder / "d/rowfall.ledger") as db:
        assert db.execute("SELECT count(*) FROM joined WHERE day < 19000").fetchone() == (0,)
    assert rows(shell) == [1, 2, 3, 4, 5]
    assert "--forget-after" in " ".join(follower.said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--follow", "--marker", "a/b"), "not the name of an object"),
        (("--follow", "--on-change", "x"), "is not one of load, ignore, error"),
        (("--follow", "--forget-after", "5s"), "less than an hour"),
        (("--marker", "_SUCCESS"), "Give --follow as well"),
    ],
)
def test_options_that_make_no_sense(
    shell: Shell, folder: Path, options: tuple[str, ...], said: str
) -> None:
    put(folder / "a.csv", 1)
    talk = shell.ends(2, "load", str(folder), "--table", "t", "--to", "d", *options).talk
    assert said in talk
