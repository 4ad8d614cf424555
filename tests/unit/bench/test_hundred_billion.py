"""The run of 100 billion rows: goes on where it stopped, is killed, and says what it has done."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench.hundred_billion import TARGET, Bench
from bench.measure import BenchError

PROGRAM = Path(__file__).resolve().parents[3] / "bench/hundred_billion.py"


def given(work: Path, **changed: Any) -> Namespace:
    asked = {
        "work": work, "rows": 1e11, "files": 1000, "distinct": 1e9, "kills": 2, "attempt_bytes": "",
    }  # fmt: skip
    return Namespace(**{**asked, **changed})


def test_the_page_says_how_much_has_been_loaded_so_far(tmp_path: Path) -> None:
    bench = Bench(given(tmp_path))
    assert (bench.rows, bench.file_rows, bench.distinct_files) == (TARGET, 100_000_000, 10)
    bench.state.found |= {"source_bytes": 4_000_000_000}
    bench.state.found["slices"] = [
        {"before": 0, "after": 2 * 10**9, "wall": 1000.0, "cpu": 2000.0, "ended": "slice"}
    ]
    bench.loaded = lambda: [f"/x/vehicles_{n:04d}.csv.gz" for n in range(20)]  # type: ignore[method-assign]
    page = bench.page()
    assert (
        "1,000,000,000 distinct rows in 10 csv.gz files (4.00 GB), each file loaded under 100"
        in page
    )
    assert "Loaded so far: **2,000,000,000 of 100,000,000,000 rows** (2.0%)" in page
    assert "| rowfall, " in page
    assert "| 2,000,000,000 | 16 min 40 s | 33.3 | 1.00 M |" in page
    # As published: 32 vCPUs for 1,115.4 s.
    assert "| 100,000,000,000 | 18 min 35 s | 595 | 2.80 M |" in page
    assert "row: none yet" in page
    assert "the checksum not yet" in page


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="do not go into 7 files of equal size"):
        Bench(given(tmp_path, files=7))
    with pytest.raises(BenchError, match="each of 3 distinct ones as often"):
        Bench(given(tmp_path, distinct=3e8))
    Bench(given(tmp_path, rows=1000, files=10, distinct=100)).state.save()
    with pytest.raises(BenchError, match=r"holds a run of .*give the same numbers"):
        Bench(given(tmp_path, rows=2000, files=10, distinct=200))


@pytest.mark.long
def test_a_small_run_in_slices_is_killed_and_ends_with_every_row_once(tmp_path: Path) -> None:
    command = [
        sys.executable, str(PROGRAM), "--work", str(tmp_path / "work"), "--rows", "4e7",
        "--files", "40", "--distinct", "4e6", "--kills", "1", "--slice-rows", "1.5e7",
        # Attempts of two or three files: one of all would be there as a whole, or not at all.
        "--attempt-bytes", "5MB",
    ]  # fmt: skip
    for _ in range(8):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if "40,000,000 of 40,000,000 rows; see" in done.stdout:
            break
    state = json.loads((tmp_path / "work/state.json").read_text())
    ended = [one["ended"] for one in state["slices"]]
    assert "kill -9" in ended
    assert ended[-1] == "done"
    assert state["checks"][-1]["rows"] == 40_000_000
    page = (tmp_path / "work/RESULTS-100b.md").read_text()
    assert "Checked: 40,000,000 rows" in page
