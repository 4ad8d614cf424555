"""The flow of docs/guides/orchestrators.md, as it stands there, run by Prefect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs/guides/orchestrators.md"
(FLOW,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
FILE = """
[loads.orders]
source = "orders/*.csv"
table = "orders"
type = { id = "Int64" }
before = { command = ["sh", "-c", "echo $ROWFALL_LOAD >> tries"] }

[loads.events]
params = ["day"]
source = "events/{day}.csv"
table = "events"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert FLOW.count("[60, 120, 240]") == 1
    flow = FLOW.replace("[60, 120, 240]", "[0, 0, 0]")  # the same number of tries, in less time
    (tmp_path / "flow.py").write_text(f'{flow}\n\nprint("rows", nightly("2026-01-31"))\n')
    (tmp_path / "rowfall.toml").write_text(FILE)
    for name in ("orders", "events"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders/1.csv").write_text("id\n1\n2\n")
    (tmp_path / "events/2026-01-31.csv").write_text("id\n7\n")
    return tmp_path


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "HOME": str(folder), "PREFECT_HOME": str(folder / "prefect"),
        "ROWFALL_HOME": str(folder / "h"),
        "XDG_CONFIG_HOME": str(folder / "c"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "flow.py"], cwd=folder, env=environment, check=False,
        capture_output=True, text=True,
    )  # fmt: skip


def test_the_flow_loads_each_row_once(folder: Path) -> None:
    for rows in (1, 0):
        done = run(folder)
        assert done.returncode == 0, done.stderr
        assert f"rows {rows}" in done.stdout
    assert "2 rows from 1 file into default.orders" in done.stdout + done.stderr or (
        "already loaded" in done.stdout + done.stderr
    )


def test_exit_code_1_is_tried_again_and_others_are_not(folder: Path) -> None:
    (folder / "orders/2.csv").write_text("id\n" + "1\n" * 20_000 + "x\n")
    done = run(folder)
    assert done.returncode != 0
    assert "exit code 1" in done.stderr
    assert (folder / "tries").read_text().split() == ["orders"] * 4
    (folder / "tries").unlink()
    for path in (folder / "orders").iterdir():
        path.unlink()
    done = run(folder)
    assert done.returncode != 0
    assert "exit code 4" in done.stderr
    assert "no file matches" in done.stderr
    assert (folder / "tries").read_text().split() == ["orders"]
