"""Faults of loads into a file of DuckDB: afterwards each row is in the table once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.values import duckdb_at
from faults.kills import CODES, sample
from lab.disk import MountError, PowerDisk, SmallDisk
from lab.process import let_pass

STEPPER, CUTTER = (Path(__file__).with_name(name) for name in ("stepper.py", "cutter.py"))
FILES, ROWS = 4, 500
WIDE = 2000  # a file of 1 MB: more than pipes hold
# The record is of the table that is called so now.
OF_TABLE = (
    "table_id = (SELECT regexp_extract(comment, '[0-9a-f]{16}') FROM duckdb_tables() "
    "WHERE table_name = 't')"
)


class Target:
    """A file, some sources, and the command that loads them."""

    def __init__(self, rowfall: Any, file: Path) -> None:
        self.rowfall, self.file = rowfall, file
        self.command = (
            "load", "in/*.csv", "--table", "t", "--to", str(file), "--attempt-bytes", "1KB",
            "--streams", "2", "--threads", "2", "--memory", "1GiB",
        )  # fmt: skip
        (rowfall.cwd / "in").mkdir()
        for number in range(FILES):
            ids = range(number * ROWS, (number + 1) * ROWS)
            text = "id,pad\n" + "".join(f"{i},{'x' * WIDE}\n" for i in ids)
            (rowfall.cwd / f"in/{number}.csv").write_text(text)

    def fresh(self) -> None:
        for path in self.file.parent.glob(f"{self.file.name}*"):
            path.unlink()

    def load(self, *more: str) -> None:
        done = self.rowfall(*self.command, *more)
        assert done.returncode == 0, done.stderr
        self.check()

    def check(self) -> None:
        count = FILES * ROWS
        with duckdb_at(self.file) as do:
            found = do("SELECT count(*), count(DISTINCT id), sum(id) FROM t").fetchall()
            assert found == [(count, count, count * (count - 1) // 2)]
            found = do("SELECT count(*), count(DISTINCT split), sum(rows) FROM _rowfall_loaded "
                       f"WHERE {OF_TABLE}")  # fmt: skip
            assert found.fetchall() == [(FILES, FILES, count)]

    def stepped(self, number: int, side: str, kind: str) -> tuple[list[str], str]:
        steps = self.rowfall.cwd / "steps"
        steps.unlink(missing_ok=True)
        process = self.rowfall.start(
            *self.command,
            program=[sys.executable, str(STEPPER), str(steps), str(number), side, kind],
        )
        out, err = process.communicate(timeout=100)
        assert process.returncode in CODES, f"{process.returncode}\n{out}\n{err}"
        return steps.read_text().splitlines(), f"step {number} {side}, {kind}\n{err}"


@pytest.fixture
def target(rowfall: Any) -> Target:
    return Target(rowfall, rowfall.cwd / "into.duckdb")


@pytest.mark.parametrize(
    "kind",
    [
        "kill -9 rowfall",
        *(pytest.param(k, marks=pytest.mark.long) for k in ("kill -9 engine child", "Ctrl-C")),
    ],
)
def test_a_kill_at_any_step(target: Target, kind: str) -> None:
    steps, _ = target.stepped(0, "before", "")
    target.check()
    assert len([s for s in steps if "database:" in s]) >= 4 * FILES
    places = [(n, side) for n in range(1, len(steps) + 1) for side in ("before", "after")]
    # Always: around the commit.
    last = next(int(s.split()[0]) for s in steps if s.endswith("database: commit"))
    for number, side in [*sample(kind, places), (last, "before"), (last, "after")]:
        target.fresh()
        _, said = target.stepped(number, side, kind)
        try:
            target.load()
        except AssertionError as error:
            raise AssertionError(f"{said}\n{error}") from None


GATHERED = (("--replace",), ("--upsert", "id"), ("--atomic",))


@pytest.mark.long
@pytest.mark.parametrize("option", GATHERED, ids=lambda option: option[0])
def test_a_kill_while_rows_gather_beside_the_table(target: Target, option: tuple[str, ...]) -> None:
    """Readers see the old rows or the new ones, and the same command ends with the new ones."""
    # The one has the key of a loaded row.
    old = [(-1, "old")] if option == ("--atomic",) else [(0, "old"), (-1, "old")]

    def fresh() -> None:
        target.fresh()
        lines = "".join(f"{id_},{pad}\n" for id_, pad in old)
        (target.rowfall.cwd / "old.csv").write_text(f"id,pad\n{lines}")
        done = target.rowfall("load", "old.csv", "--table", "t", "--to", str(target.file))
        assert done.returncode == 0, done.stderr

    def rows(condition: str) -> list[Any]:
        with duckdb_at(target.file) as do:
            return list(do(f"SELECT id, pad FROM t WHERE {condition} ORDER BY id DESC").fetchall())

    def check(said: str) -> None:
        left = [] if option == ("--replace",) else [(-1, "old")]
        assert rows("pad = 'old'") == left, said
        with duckdb_at(target.file) as do:
            found = do("SELECT count(*), count(DISTINCT id), sum(id) FROM t WHERE id >= 0")
            count = FILES * ROWS
            assert found.fetchall() == [(count, count, count * (count - 1) // 2)], said
            tables = do("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
            assert tables == [("_rowfall_loaded",), ("t",)], said
            found = do(
                f"SELECT count(*), count(DISTINCT split) FROM _rowfall_loaded WHERE {OF_TABLE}"
            )
            files = FILES + (option != ("--replace",))
            assert found.fetchall() == [(files, files)], said

    def seen() -> None:
        """All of the old rows and none of the new, or what there is at the end."""
        if len(rows("pad <> 'old'")) != FILES * ROWS:
            assert rows("true") == old

    target.command = (*target.command, *option)
    fresh()
    steps, _ = target.stepped(0, "before", "")
    check("no kill")
    places = [(n, side) for n in range(1, len(steps) + 1) for side in ("before", "after")]
    last = [int(s.split()[0]) for s in steps if " file: " in s and "prepare" not in s]
    assert len(last) == 2
    # In the transaction and behind it: the ledger does not know.
    for number, side in [*sample(option[0], places), *((n, "after") for n in last)]:
        fresh()
        _, said = target.stepped(number, side, "kill -9 rowfall")
        seen()
        done = target.rowfall(*target.command)
        assert done.returncode == 0, f"{said}\n{done.stderr}"
        check(said)


@contextmanager
def holding(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Run another process that has the file open until its stdin ends."""
    program = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); " \
              "sys.stdin.read()"  # fmt: skip
    command = [sys.executable, "-c", program, str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.communicate()


def test_another_process_holds_the_file(target: Target) -> None:
    """It is waited for as long as --patience says, and named with its number then."""
    with duckdb_at(target.file) as do:
        do("CREATE TABLE other (id INT)")
    with holding(target.file) as process:
        done = target.rowfall(*target.command, "--patience", "1s")
        assert done.returncode == 5
        assert f"is held by process {process.pid} (python" in done.stderr
        assert f"ps -p {process.pid}" in done.stderr
        done = target.rowfall("load", f"duckdb://{target.file}/other", "--patience", "1s",
                              "--to", "null:")  # fmt: skip
        assert done.returncode == 4
        assert f"is held by process {process.pid} (python" in done.stderr
        waiting = target.rowfall.start(*target.command)
        let_pass(1, "it would have ended if it did not wait")
        assert waiting.poll() is None
    _, err = waiting.communicate(timeout=100)
    assert waiting.returncode == 0, err
    target.check()


def test_two_loads_of_the_same_files(target: Target) -> None:
    first, second = (target.rowfall.start(*target.command) for _ in range(2))
    for process in (first, second):
        _, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
    target.check()


def test_a_full_disk_stops_the_load_until_there_is_room(rowfall: Any) -> None:
    try:
        disk = SmallDisk(rowfall.cwd / "small", 16)
    except MountError as error:
        pytest.skip(str(error))
    with closing(disk):
        target = Target(rowfall, disk.path / "into.duckdb")
        disk.fill(leave=256 << 10)
        done = rowfall(*target.command)
        assert done.returncode == 5, done.stderr
        assert "Free some space there" in done.stderr
        disk.empty()
        target.load()


def copies(target: Target, power: PowerDisk, folder: Path) -> tuple[dict[int, str], list[Path]]:
    """Load, and return the steps of the load with copies of its disk, the first one first."""
    folder.mkdir()
    process = target.rowfall.start(
        *target.command, program=[sys.executable, str(CUTTER), str(power.image), str(folder)]
    )
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    steps = {int(s.split()[0]): s for s in (folder / "steps").read_text().splitlines()}
    return steps, sorted(folder.glob("*.img"))


def again(target: Target, image: Path, seen: Callable[[str], None]) -> None:
    """Look at what a power cut has left, and run the same command there.

    Args:
        seen: looks at the file before that; gets the name of the copy.
    """
    home = target.rowfall.cwd / f"home of {image.stem}"
    with closing(PowerDisk(image)) as disk:
        target.command = tuple(
            str(disk.path / "into.duckdb") if word == str(target.file) else word
            for word in target.command
        )
        target.file = disk.path / "into.duckdb"
        seen(image.stem)
        done = target.rowfall(*target.command, env={**os.environ, "ROWFALL_HOME": str(home)})
        assert done.returncode == 0, f"{image.stem}\n{done.stderr}"
        target.check()
        # The ledger of that machine is lost here: what was gathered waits for clean.
        clean = ("clean", "--yes", "--to", str(target.file))
        done = target.rowfall(*clean, env={**os.environ, "ROWFALL_HOME": str(home)})
        assert done.returncode == 0, f"{image.stem}\n{done.stderr}"
        with duckdb_at(target.file) as do:
            tables = do("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
        assert tables == [("_rowfall_loaded",), ("t",)], image.stem


def test_what_is_recorded_survives_a_power_cut(rowfall: Any, tmp_path: Path) -> None:
    """After exit code 0, and around each commit: the same command ends with each row once."""
    try:
        power = PowerDisk()
    except MountError as error:
        pytest.skip(str(error))
    with closing(power):
        target = Target(rowfall, power.path / "into.duckdb")
        steps, images = copies(target, power, tmp_path / "cuts")
    commits = [n for n, text in steps.items() if text.endswith("database: commit")]
    # Of equal copies one is kept, under the number of whichever step of the two streams was first.
    images = [i for i in images if int(i.stem.split()[0]) >= commits[0] - 1]
    assert images
    for image in images[:: max(1, len(images) // 6)]:
        again(target, image, lambda _: None)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_power_cut_around_the_exchange_of_two_tables(rowfall: Any, tmp_path: Path) -> None:
    """--replace: the file holds the old rows or all new ones, and the same command ends with these.

    At every step, and of the exchange before and behind it and its commit.
    """
    try:
        power = PowerDisk()
    except MountError as error:
        pytest.skip(str(error))
    with closing(power):
        target = Target(rowfall, power.path / "into.duckdb")
        (rowfall.cwd / "old.csv").write_text("id,pad\n0,old\n-1,old\n")
        done = rowfall("load", "old.csv", "--table", "t", "--to", str(target.file))
        assert done.returncode == 0, done.stderr
        target.command = (*target.command, "--replace")
        steps, images = copies(target, power, tmp_path / "cuts")
    assert any(text.endswith("file: take_place") for text in steps.values())
    count, found = FILES * ROWS, set()

    def seen(image: str) -> None:
        with duckdb_at(target.file) as do:
            (rows,) = do("SELECT count(*), count(DISTINCT id), sum(id) FROM t").fetchall()
        found.add(rows)
        assert rows in ((2, 2, -1), (count, count, count * (count - 1) // 2)), image

    for image in images:
        again(target, image, seen)
    assert len(found) == 2, "cuts before the exchange and behind it"
