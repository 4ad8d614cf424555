"""Faults of loads into tables of Iceberg: afterwards each row is in the table once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from faults.kills import CODES, sample
from lab.lake_tables import engine_rows
from lab.process import wait_until
from lab.seaweed import Seaweed

STEPPER = Path(__file__).with_name("stepper.py")
FILES, ROWS = 3, 2_000
_TRIES = 4


class Target:
    """A table, some files, and the command that loads them."""

    def __init__(self, rowfall: Any, to: str, store: Seaweed | None) -> None:
        self.rowfall, self.to, self.store = rowfall, to, store
        self.env: dict[str, str] = {}
        if store is not None:
            self.env = {**store.environment(), "AWS_ENDPOINT_URL": store.endpoint}
        for number in range(FILES):
            path = rowfall.cwd / f"in/{number}.csv"
            path.parent.mkdir(exist_ok=True)
            ids = range(number * ROWS, (number + 1) * ROWS)
            path.write_text("id,pad\n" + "".join(f"{i},{'x' * 40}\n" for i in ids))
        self.command = (
            "load", "in/*.csv", "--to", to, "--attempt-bytes", "1KB", "--threads", "2",
            "--memory", "1GiB",
        )  # fmt: skip

    def hurt(self, kind: str, number: int, side: str, *more: str) -> tuple[int, Path]:
        """Run once, and hurt it at a step; 0 for none. Returns its exit code and its steps."""
        steps = self.rowfall.cwd / f"steps-{number}-{side}"
        done = subprocess.run(
            [sys.executable, str(STEPPER), str(steps), str(number), side, kind, *self.command,
             *more],
            cwd=self.rowfall.cwd, capture_output=True, text=True, check=False, timeout=100,
            env={**self.rowfall._environment(None), **self.env},
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, steps

    def load(self, *more: str) -> list[str]:
        """Run until it succeeds, a few times at most."""
        said = []
        for _ in range(_TRIES):
            done = self.rowfall(*self.command, *more, env=self.env)
            said.append(f"[{done.returncode}] {done.stderr}")
            assert "Traceback" not in done.stderr
            if done.returncode == 0:
                return said
        raise AssertionError("\n".join(said))

    def check(self, copies: int = 1) -> None:
        """Check rows and checksum, and that no file lies about that no snapshot has."""
        count = FILES * ROWS
        columns = "count(), uniqExact(id), sum(id)"
        found = engine_rows(self.to.removeprefix("iceberg+"), columns, self.store)
        assert found == [[count * copies, count, copies * count * (count - 1) // 2]]


@pytest.fixture(params=["local", "s3"])
def target(request: pytest.FixtureRequest, rowfall: Any) -> Iterator[Target]:
    if request.param == "local":
        yield Target(rowfall, f"iceberg+{rowfall.cwd}/lake/t", None)
        return
    store: Seaweed = request.getfixturevalue("s3")
    name = f"steps-{time.monotonic_ns()}"
    store.create_bucket(name)
    yield Target(rowfall, f"iceberg+s3://{name}/lake/t", store)


def _named(to: str, name: str) -> str:
    return f"{to.rpartition('/')[0]}/{name}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("target", "more"), [("local", ()), ("local", ("--replace",)), ("s3", ())],
    indirect=["target"],
)  # fmt: skip
def test_kills_at_every_step(target: Target, more: tuple[str, ...]) -> None:
    """Killed before and after each step; the next run brings the load to its end."""
    base, local = target.to, target.store is None
    code, steps = target.hurt("none", 0, "before", *more)
    assert code == 0
    target.check()
    count = len(steps.read_text().splitlines())
    assert count > 20
    places = [(n, side) for n in range(1, count + 1) for side in ("before", "after")]
    for number, side in sample(f"iceberg {local} {more}", places):
        target.to = _named(base, f"t{number}{side}")
        target.command = tuple(target.to if a.startswith("iceberg+") else a for a in target.command)
        code, steps = target.hurt("kill -9 rowfall", number, side, *more)
        assert code in CODES
        # At its end nothing is left to do; the number of steps differs from run to run.
        assert code == -signal.SIGKILL or not steps.with_suffix(".met").exists()
        target.load(*more)
        target.check()
        done = target.rowfall(*target.command, *more, "--json", env=target.env)
        # To replace everything once more is another load.
        assert json.loads(done.stdout)["rows"] == (FILES * ROWS if more else 0)
        target.check()
        target.rowfall("clean", "--to", target.to, "--yes", env=target.env)
        target.check()
        _no_leftovers(target)


def _no_leftovers(target: Target) -> None:
    """Check that the folder of a local table holds no data file and no staging of a dead load."""
    if target.store is not None:
        return
    folder = Path(target.to.removeprefix("iceberg+"))
    table = StaticTable.from_metadata(str(folder))
    live = {
        Path(entry.data_file.file_path).name
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    assert live == {path.name for path in (folder / "data").iterdir()}
    assert not [p for p in (folder / "_rowfall").iterdir() if p.is_dir()]


@pytest.mark.long
@pytest.mark.parametrize("target", ["local", "s3"], indirect=True)
def test_two_loads_of_the_same_files_at_once(target: Target) -> None:
    """Ledgers of two machines: the table alone says what the other one has loaded."""
    homes = [str(target.rowfall.cwd / f"home{n}") for n in range(2)]
    processes = [
        target.rowfall.start(*target.command, env={**target.env, "ROWFALL_HOME": home})
        for home in homes
    ]
    for process in processes:
        _, err = process.communicate(timeout=100)
        assert process.returncode in (0, 1, 3, 5), err
        assert "Traceback" not in err
    target.load()
    target.check()


@pytest.mark.long
@pytest.mark.parametrize("target", ["local", "s3"], indirect=True)
def test_commits_of_others_are_kept(target: Target) -> None:
    """Loads of other files commit at the same time, again and again: nothing is lost."""
    others, each = 4, 3
    failed: list[str] = []

    def load(number: int) -> None:
        for turn in range(each):
            name = f"other/{number}-{turn}.csv"
            path = target.rowfall.cwd / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"id,pad\n{10**6 + number * 100 + turn},y\n")
            env = {**target.env, "ROWFALL_HOME": str(target.rowfall.cwd / f"home{number}")}
            done = target.rowfall("load", name, "--to", target.to, env=env)
            if done.returncode:
                failed.append(done.stderr)

    target.load()
    threads = [threading.Thread(target=load, args=(n,)) for n in range(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    place = target.to.removeprefix("iceberg+")
    (found,) = engine_rows(place, "count(), uniqExact(id)", target.store)
    assert found == [FILES * ROWS + others * each] * 2


@pytest.mark.long
def test_the_store_goes_away_and_comes_back(rowfall: Any) -> None:
    with Seaweed() as store:
        store.create_bucket("lake")
        target = Target(rowfall, "iceberg+s3://lake/t", store)
        process = rowfall.start(*target.command, env=target.env)
        wait_until(lambda: bool(_keys(store, "t/data/")), 60, "a data file")
        store.kill()
        _, err = process.communicate(timeout=200)
        assert process.returncode in (0, 1, 5), err
        assert "Traceback" not in err
        assert process.returncode == 0 or "does not answer" in err
        store.start()
        target.load()
        target.check()


def _keys(store: Seaweed, prefix: str) -> list[str]:
    found = store._client.list_objects_v2(Bucket="lake", Prefix=prefix)
    return [item["Key"] for item in found.get("Contents", ())]
