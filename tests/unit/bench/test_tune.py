"""What ``bench/tune.py`` keeps of cases, so that a run can be split."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench.tune import CASES, Results, overview

HOW = {"commit": "abc", "scale": 0.5, "budget": "20s", "rounds": 3}
FOUND = {"ratio": 1.01}


def test_a_case_is_in_the_file_as_soon_as_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first, second = ("-".join(case) for case in CASES[:2])
    results = Results(path, HOW)
    results.add(second, FOUND)
    assert list(json.loads(path.read_text())["cases"]) == [second]
    results.add(first, FOUND)
    held = json.loads(path.read_text())["cases"]
    assert list(held) == [first, second]
    assert held[first] == {"run": HOW, "ratio": 1.01}
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]


def test_a_run_goes_on_where_another_ended(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    known, other, new = CASES[:3]
    Results(path, HOW).add("-".join(known), FOUND)
    Results(path, HOW | {"commit": "older"}).add("-".join(other), FOUND)
    results = Results(path, HOW)
    assert results.left(CASES[:3], again=False, missing=False) == [other, new]
    assert results.left(CASES[:3], again=False, missing=True) == [new]
    assert results.left(CASES[:3], again=True, missing=False) == [known, other, new]
    assert Results(path, HOW | {"scale": 1.0}).left([known], again=False, missing=False) == [known]


def test_the_overview_has_a_place_for_every_case() -> None:
    text = overview({"trips-json-s3-server": FOUND, "lineitem-parquet-disk-folder": {"ratio": 0.9}})
    lines = text.splitlines()
    assert len(lines) == 2 + 9
    assert "| trips json |  |  |  | 1.01 |" in lines
    assert lines[-1] == "| lineitem parquet | 0.90 |  |  |  |"
    assert lines[0] == "| | disk to folder | s3 to folder | disk to server | s3 to server |"
