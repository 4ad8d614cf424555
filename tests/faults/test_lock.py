"""The lock of a data folder is removed, replaced, or not shared: no file is loaded twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.process import wait_until
from rowfall.ledger import leases

SCRIPT = Path(__file__).with_name("paused.py")
COMMAND = ("load", "in/*.csv", "--table", "t", "--attempt-bytes", "1KB", "--memory", "1GiB")
ROWS = 600
SUM = f"{ROWS}\t{ROWS * (ROWS - 1) // 2}"


def _remove(data: Path) -> None:
    (data / "rowfall.lock").unlink()
    (data / "status").unlink()


def _replace(data: Path) -> None:
    _remove(data)
    (data / "rowfall.lock").touch(0o600)


HURTS: dict[str, Callable[[Path], None]] = {"removed": _remove, "replaced": _replace}
CASES = [
    pytest.param("removed", "commit", "", id="removed before a commit"),
    # What the check of the lock does not see the ledger does: it asks in one transaction.
    pytest.param("removed", "commit", "lock,beside", id="nobody looks"),
    pytest.param("replaced", "publish", "", id="replaced behind a commit"),
    pytest.param("removed", "publish", "", id="behind a commit", marks=pytest.mark.long),
    pytest.param("replaced", "commit", "", id="replaced", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("how", "moment", "without"), CASES)
def test_two_loads_use_one_folder(rowfall: Any, how: str, moment: str, without: str) -> None:
    folder = rowfall.cwd
    (folder / "in").mkdir()
    for number in range(3):
        ids = range(number * ROWS // 3, (number + 1) * ROWS // 3)
        (folder / f"in/{number}.csv").write_text("id\n" + "".join(f"{i}\n" for i in ids))
    # So that the table is there, and no engine makes it while the other one runs.
    made = rowfall("load", "in/0.csv", "--table", "t")
    assert made.returncode == 0, made.stderr
    with subprocess.Popen(
        [sys.executable, SCRIPT, moment, without, folder, *COMMAND],
        cwd=folder, env=rowfall._environment(None), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        try:
            met = folder / "met"
            wait_until(lambda: met.exists() or first.poll() is not None, 60, "the moment")
            assert first.poll() is None, first.communicate()
            HURTS[how](folder / "rowfall-data")
            (folder / "second").mkdir()
            second = subprocess.run(
                [sys.executable, SCRIPT, "none", without, folder / "second", *COMMAND],
                cwd=folder, env=rowfall._environment(None), capture_output=True, text=True,
                check=False, timeout=90,
            )  # fmt: skip
            (folder / "go").touch()
            out, err = first.communicate(timeout=90)
        finally:
            first.kill()
    said = f"{out}\n{err}\n--- second ({second.returncode})\n{second.stdout}\n{second.stderr}"
    if without:
        # The two have loaded the same files, and only one of them says that all is well.
        assert (first.returncode, second.returncode) == (3, 0), said
    else:
        assert second.returncode == 3, said
        assert "still loads into" in second.stderr, said
        assert first.returncode == 3, said
        assert "lock of" in err, said
    for _ in range(3):
        again = rowfall(*COMMAND)
        if again.returncode == 0:
            break
    assert again.returncode == 0, f"{again.stderr}\n{said}"
    found = rowfall("query", "SELECT count(), sum(id) FROM t", "--format", "TSV")
    assert found.stdout.strip() == SUM, said


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "where", ["{other}/{numbers}", "{boot}/pid:[1]"], ids=["boot", "container"]
)
@pytest.mark.parametrize("moment", ["commit", "publish"])
def test_a_killed_load_goes_on_after_a_reboot(rowfall: Any, moment: str, where: str) -> None:
    """Or in a new container: the number of the process that was killed says nothing there."""
    folder = rowfall.cwd
    (folder / "in").mkdir()
    for number in range(3):
        ids = range(number * ROWS // 3, (number + 1) * ROWS // 3)
        (folder / f"in/{number}.csv").write_text("id\n" + "".join(f"{i}\n" for i in ids))
    with subprocess.Popen(
        [sys.executable, SCRIPT, moment, "", folder, *COMMAND],
        cwd=folder, env=rowfall._environment(None), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        met = folder / "met"
        wait_until(lambda: met.exists() or first.poll() is not None, 60, "the moment")
        assert first.poll() is None, first.communicate()
        first.kill()
        first.communicate(timeout=90)
    boot, _, numbers = leases.machine_id().partition("/")
    other = "0" * 8 + boot[8:]
    words = where.format(other=other, boot=boot, numbers=numbers)
    with closing(sqlite3.connect(folder / "rowfall-data/rowfall.ledger")) as ledger, ledger:
        changed = ledger.execute(
            "UPDATE load SET owner = ? || substr(owner, instr(owner, ' '))", (words,)
        )
        assert changed.rowcount == 1
    again = rowfall(*COMMAND)
    assert again.returncode == 0, again.stderr
    found = rowfall("query", "SELECT count(), sum(id) FROM t", "--format", "TSV")
    assert found.stdout.strip() == SUM
    assert "running" not in rowfall("status", "--to", "rowfall-data").stdout


def test_locks_are_not_shared(rowfall: Any) -> None:
    """Another machine gets the lock, too, and writes itself into the file."""
    folder = rowfall.cwd
    (folder / "in").mkdir()
    (folder / "in/0.csv").write_text("id\n1\n")
    with subprocess.Popen(
        [sys.executable, SCRIPT, "commit", "", folder, *COMMAND],
        cwd=folder, env=rowfall._environment(None), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        try:
            met = folder / "met"
            wait_until(lambda: met.exists() or first.poll() is not None, 60, "the moment")
            assert first.poll() is None, first.communicate()
            (folder / "rowfall-data/rowfall.lock").write_text("4711 another")
            (folder / "go").touch()
            _, err = first.communicate(timeout=90)
        finally:
            first.kill()
    assert first.returncode == 3, err
    assert "was written by another rowfall" in err
    assert (folder / "rowfall-data/rowfall.lock").read_text() == "4711 another"
    (folder / "rowfall-data/rowfall.lock").write_text("")
    assert rowfall(*COMMAND).returncode == 0
    assert rowfall("query", "SELECT count() FROM t", "--format", "TSV").stdout == "1\n"
