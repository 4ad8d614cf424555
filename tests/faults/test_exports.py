"""Exports that crash at any moment and are repeated in any way: each row is there once.

The files, the manifest and the decisions are the real ones; only the engine is left out: a run
writes the rows itself, with the steps of an attempt. A crash comes at any access to the folder.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.process import wait_until
from rowfall.core.errors import LedgerError, RowfallError, TargetError
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Schema
from rowfall.core.options import Options
from rowfall.ledger import leases
from rowfall.ledger.manifest import ManifestFolder, ManifestTakenError
from rowfall.plan import exports
from rowfall.publish.export_record import ExportRecord
from rowfall.targets.export import Export

SCHEMA = Schema((Column("id", "Int64"),))
_loads = itertools.count()
# The process that has begun an export of two files, and waits.
_ELSEWHERE = """
import sys
from pathlib import Path
from rowfall.core.listing import Listing
from rowfall.core.model import Column, Schema
from rowfall.core.options import Options
from rowfall.plan import exports
from rowfall.publish.export_record import ExportRecord
from rowfall.targets.export import Export
listing = Listing()
for name in "abcd":
    listing.add(name, "0", 10)
options = Options(files=2)
target = Export(str(Path(sys.argv[1]) / "p_{n}.csv"), Path("/nowhere"), options)
record = ExportRecord(
    exports.look(target, options, listing, Schema((Column("id", "Int64"),)), "one"), "one"
)
record.begin()
record.begin()  # the lock goes to each manifest that takes the place of another
print("begun", flush=True)
sys.stdin.read()
"""


class Crash(BaseException):
    """The process dies."""


class Fragile(ManifestFolder):
    """A folder; the process dies at its access number ``left``, before or after it is done."""

    def __init__(self, path: Path, left: int, *, before: bool) -> None:
        super().__init__(path)
        self._left, self._before = left, before

    def _access(self, do: Callable[[], Any]) -> Any:
        self._left -= 1
        if not self._left and self._before:
            raise Crash
        found = do()
        if not self._left:
            raise Crash
        return found

    def write(self, name: str, data: bytes, over: str | None) -> str:
        tag: str = self._access(lambda: super(Fragile, self).write(name, data, over))
        return tag

    def remove(self, name: str) -> None:
        self._access(lambda: super(Fragile, self).remove(name))

    def publish(self, staged: Path, final: Path) -> None:
        self._access(lambda: staged.replace(final))


@dataclass
class Scene:
    """Sources by name with their version, and the folder that they are exported into."""

    folder: Path
    sources: dict[str, int] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    unfinished: str = ""

    def rows(self, *, without: str = "") -> Counter[str]:
        return Counter(
            f"{name} {version} {n}" for name, version in self.sources.items() for n in range(2)
            if name != without
        )  # fmt: skip

    def found(self) -> Counter[str]:
        """The rows that a reader of ``*.csv`` sees."""
        return Counter(
            line for path in self.folder.glob("*.csv") for line in path.read_text().splitlines()
        )

    def files(self) -> Mapping[str, str]:
        return {path.name: path.read_text() for path in self.folder.glob("*.csv")}

    def run(
        self, files: int, *, again: bool = False, crash: int = 0, before: bool = False,
        fails: str = "", columns: Schema = SCHEMA,
    ) -> str:  # fmt: skip
        """Export as a load does it; return ``done``, ``partial``, ``refused`` or ``crashed``."""
        listing = Listing()
        for name, version in sorted(self.sources.items()):
            listing.add(name, str(version), 10)
        options = Options(files=files, replace=again)
        target = Export(str(self.folder / "p_{n}.csv"), Path("/nowhere"), options)
        # The same command goes on with its load until that is done; others are new ones.
        load_id = self.unfinished or f"load{next(_loads)}"
        place = Fragile(self.folder, crash, before=before)
        owners = set(exports.RUNNING)
        try:
            state = exports.look(target, options, listing, columns, load_id)
            if state.refusal is not None:
                return "refused"
            if state.finished:
                self.unfinished = ""
                return "done"
            self.unfinished = load_id
            record = ExportRecord(replace(state, found=replace(state.found, place=place)), load_id)
            record.begin()
            splits = list(listing.splits(""))
            bounds = exports.attempts.file_bounds(len(splits), files)
            for number, (start, stop) in enumerate(bounds):
                if number in state.done:
                    continue
                own = [split for split in splits[start:stop] if split.uri != fails]
                if not own:
                    continue
                final = Path(target.staging_name("", number, None))
                staged = Path(target.staging_name(f"a_{number}", number, None))
                lines = [f"{s.uri} {s.version} {n}\n" for s in own for n in range(2)]
                staged.write_text("".join(lines))
                place.publish(staged, final)
                record.wrote(number, own, len(lines))
            record.end(complete=fails not in self.sources)
        except Crash:
            exports.RUNNING.intersection_update(owners)
            return "crashed"
        self.unfinished = "" if fails not in self.sources else load_id
        return "partial" if fails in self.sources else "done"

    def check(self, outcome: str, before: Mapping[str, str], fails: str) -> None:
        if outcome == "done":
            assert self.found() == self.rows()
        elif outcome == "refused":
            assert self.files() == before, "what is refused is not touched"


NAMES = ("a", "b", "c", "d")
RUN = st.fixed_dictionaries({
    "files": st.integers(1, 3), "again": st.booleans(), "crash": st.integers(0, 9),
    "before": st.booleans(), "fails": st.sampled_from(("", "", "a", "b")),
})  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("run"), RUN),
    st.tuples(st.just("run"), RUN),
    st.tuples(st.just("source"), st.sampled_from(NAMES)),
    st.tuples(st.just("gone"), st.sampled_from(NAMES[1:])),
    st.tuples(st.just("remove"), st.integers(0, 2)),
    st.tuples(st.just("edit"), st.integers(0, 2)),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=1, max_size=8))
def test_any_history_of_an_export(steps: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory(dir="/dev/shm") as name:
        scene = Scene(Path(name), dict.fromkeys(NAMES[:3], 0))
        edited = ""
        for what, how in steps:
            if what == "run":
                how = {**how, "files": min(how["files"], len(scene.sources))}
                before = scene.files()
                outcome = scene.run(**how)
                if edited and outcome != "refused" and not how["again"]:
                    assert before[edited] == scene.files().get(edited), "written by somebody else"
                scene.check(outcome, before, how["fails"])
                if outcome in ("done", "partial") and how["again"]:
                    edited = ""
            elif what == "source":
                scene.sources[how] = scene.sources.get(how, 0) + 1
            elif what == "gone":
                if len(scene.sources) > 1:
                    scene.sources.pop(how, None)
            elif (path := scene.folder / f"p_{how}.csv").exists():
                if what == "remove":
                    path.unlink()
                elif not edited:
                    break  # what somebody has edited has a test of its own
        # Whatever has happened: this puts it right.
        scene.unfinished = ""
        assert scene.run(min(2, len(scene.sources)), again=True) == "done"
        assert scene.found() == scene.rows()


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("crash", range(1, 8))
@pytest.mark.parametrize(("first", "second"), [(3, 3), (3, 2), (2, 3), (1, 3), (3, 1)])
def test_a_crash_at_every_step(
    tmp_path: Path, first: int, second: int, crash: int, before: bool
) -> None:
    """The same sources in as many files or in others: no option is needed to end it."""
    scene = Scene(tmp_path, dict.fromkeys(NAMES, 0))
    scene.run(first, crash=crash, before=before)
    whole = any('"state": "whole"' in path.read_text() for path in tmp_path.glob(".*.rowfall"))
    if not whole or first == second:
        assert scene.run(second) == "done"
        assert scene.found() == scene.rows()
    else:
        assert scene.run(second) == "refused", "a finished export is not written over"
        assert scene.run(first) == "done"
        assert scene.found() == scene.rows()


def test_a_crash_of_the_second_run_too(tmp_path: Path) -> None:
    for n, (one, two) in enumerate(itertools.product(range(1, 6), range(1, 8))):
        scene = Scene(tmp_path / str(n), dict.fromkeys(NAMES, 0))
        scene.folder.mkdir()
        scene.run(3, crash=one)
        scene.run(2, crash=two)
        outcome = scene.run(2)
        assert outcome in ("done", "refused")
        if outcome == "refused":
            assert scene.run(3) == "done"
        assert scene.found() == scene.rows(), (one, two)


def test_a_file_that_failed_is_written_with_the_rest(tmp_path: Path) -> None:
    scene = Scene(tmp_path, dict.fromkeys(NAMES, 0))
    assert scene.run(2, fails="b") == "partial"
    assert scene.found() == scene.rows(without="b")
    scene.sources["b"] += 1  # corrected
    assert scene.run(2) == "done"
    assert scene.found() == scene.rows()


def refusal(scene: Scene, files: int, *, again: bool = False) -> RowfallError:
    listing = Listing()
    for name, version in sorted(scene.sources.items()):
        listing.add(name, str(version), 10)
    options = Options(files=files, replace=again)
    target = Export(str(scene.folder / "p_{n}.csv"), Path("/nowhere"), options)
    found = exports.look(target, options, listing, SCHEMA).refusal
    assert found is not None
    return found


def test_what_others_have_changed_is_not_written_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, dict.fromkeys(NAMES, 0))
    scene.run(2)
    (tmp_path / "p_1.csv").write_text("mine\n")
    assert "p_1.csv was changed since" in str(refusal(scene, 2))
    assert isinstance(refusal(scene, 2), TargetError)
    (tmp_path / "p_1.csv").unlink()
    assert scene.run(2) == "done"
    assert scene.found() == scene.rows()


def test_an_unfinished_export_of_another_source_is_a_question(tmp_path: Path) -> None:
    scene = Scene(tmp_path, dict.fromkeys(NAMES, 0))
    assert scene.run(2, crash=3) == "crashed"
    assert list(tmp_path.glob("*.csv"))
    scene.sources = {"other": 0}
    found = refusal(scene, 1)
    assert isinstance(found, LedgerError)
    assert "unfinished export of another source" in str(found)


def test_two_at_once(tmp_path: Path) -> None:
    """The second one finds the first at work, or finds out at its next change."""
    scene = Scene(tmp_path, dict.fromkeys(NAMES, 0))
    listing = Listing()
    for name in NAMES:
        listing.add(name, "0", 10)
    options = Options(files=2)
    target = Export(str(tmp_path / "p_{n}.csv"), Path("/nowhere"), options)
    one, two = (exports.look(target, options, listing, SCHEMA, load) for load in ("one", "two"))
    first = ExportRecord(one, "one")
    first.begin()
    with pytest.raises(ManifestTakenError):
        ExportRecord(two, "two").begin()
    assert "another rowfall writes these files" in str(refusal(scene, 2))
    first.abandon()
    assert scene.run(2) == "done"


@pytest.mark.parametrize("again", [False, True])
def test_an_export_of_another_container(tmp_path: Path, again: bool) -> None:
    """Its PID says nothing here: the kernel tells whether it lives, by the lock of the manifest."""
    scene = Scene(tmp_path, dict.fromkeys(NAMES, 0))
    boot, _, numbers = leases.machine_id().partition("/")
    with subprocess.Popen(
        [sys.executable, "-c", _ELSEWHERE, tmp_path], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        try:
            assert first.stdout is not None
            first.stdout.readline()
            (manifest,) = tmp_path.glob(".*.rowfall")
            # As one of its own writes it, under the same name and lock.
            with manifest.open("r+b") as file:
                data = file.read()
                file.seek(0)
                other = numbers[:-2] + str(9 - int(numbers[-2])) + numbers[-1]
                file.write(data.replace(f"{boot}/{numbers}".encode(), f"{boot}/{other}".encode()))
            said = str(refusal(scene, 2, again=again))
            assert "another rowfall writes these files" in said
        finally:
            first.kill()
    assert scene.run(2, again=again) == "done"
    assert scene.found() == scene.rows()


@pytest.mark.parametrize("files", [3, 5])
def test_a_process_that_is_killed(rowfall: Any, files: int) -> None:
    """The real command, killed when its first file has its name."""
    source = "generate://random?rows=3e6&bytes=64&seed=3"
    out = rowfall.cwd / "out"
    command = ("load", source, "--to", "out/p_{n}.csv")
    process = rowfall.start(*command, "--files", "3")
    wait_until(lambda: any(out.glob("*.csv")) or process.poll() is not None, 60, "a file")
    process.kill()
    process.wait()
    killed = len(list(out.glob("*.csv"))) < 3
    done = rowfall(*command, "--files", str(files), "--json")
    if not killed and files != 3:
        assert done.returncode == 5, "it was quicker, and a finished export is not written over"
        return
    assert done.returncode == 0, done.stderr
    rows = sum(path.read_bytes().count(b"\n") - 1 for path in out.glob("*.csv"))
    assert rows == 3_000_000
    assert not [p for p in out.iterdir() if p.name.startswith(".") and p.suffix != ".rowfall"]
