"""The chart library that pages hold is what ``make charts`` builds from the lock file."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KEPT = ROOT / "src/rowfall/report/page"


def test_the_library_is_of_the_locked_version_and_its_licences_are_there() -> None:
    locked = json.loads((ROOT / "charts/package-lock.json").read_text())["packages"]
    version = locked["node_modules/@observablehq/plot"]["version"]
    library = (KEPT / "charts.js").read_text("utf-8")
    assert library.startswith(f"/* Observable Plot {version} and what it needs;")
    assert len(library) < 300_000
    assert "</script" not in library.lower()  # it stands inside of one
    licences = (KEPT / "charts.LICENSE").read_text()
    for name in ("@observablehq/plot", "d3-scale", "isoformat", "interval-tree-1d"):
        assert f"{name} {locked[f'node_modules/{name}']['version']} (" in licences
    # An index of somebody's own may serve the packages: only names and digests are locked.
    assert all("resolved" not in each for each in locked.values())


@pytest.mark.long
def test_the_library_is_built_again_byte_by_byte(tmp_path: Path) -> None:
    folder = tmp_path / "charts"
    shutil.copytree(ROOT / "charts", folder, ignore=shutil.ignore_patterns("node_modules"))
    made = tmp_path / "made"
    made.mkdir()
    for command in (
        ["npm", "ci", "--no-audit", "--no-fund"], ["node", "build.mjs", str(made)],
    ):  # fmt: skip
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    for name in ("charts.js", "charts.LICENSE"):
        assert (made / name).read_bytes() == (KEPT / name).read_bytes(), name
