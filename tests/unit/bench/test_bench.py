"""The benchmark's own arithmetic and words: medians, ratios, verdicts, tables, selection."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench import data, plan_probe, run, sides, sources, table
from bench.measure import BenchError, Result, agree, fastest, median, overlap, ratio
from bench.measure import run as run_command

from rowfall.core.sql import settings_clause

MiB = 1 << 20
TITLES = {name: case.title for name, case in data.CASES.items()}


def result(name: str, kind: str, *wall: float, checksum: str = "7", rows: int = 100) -> Result:
    count = len(wall)
    loaded = kind in ("engine", "rowfall")
    return Result(
        name,
        kind,
        wall=list(wall),
        cpu=[2 * w for w in wall],
        largest=[300 * MiB] * count,
        rows=[rows] * count,
        parts=[4] * count if loaded else [],
        stored=[1000] * count if loaded else [],
        checksums=[checksum] * count if loaded else [],
    )


ENGINE = result("engine, defaults", "engine", 3.0, 3.2, 3.1)
TUNED = result("engine, best of the sweep", "engine", 2.0, 2.4, 2.2)
ROWFALL = result("rowfall load", "rowfall", 1.0, 1.1, 1.3)
FLOOR = result("read only", "engine floor", 0.5, 0.5, 0.6)
SIDES = [ENGINE, TUNED, ROWFALL, FLOOR]


class TestArithmetic:
    def test_median_of_odd_and_even_counts(self) -> None:
        assert median([3.0, 1.0, 2.0]) == 2.0
        assert median([1.0, 2.0, 4.0, 9.0]) == 3.0

    def test_nothing_has_no_median(self) -> None:
        with pytest.raises(BenchError):
            median([])

    def test_ratio_is_of_medians_and_to_the_base(self) -> None:
        assert ratio(TUNED, ROWFALL) == pytest.approx(2.0)
        assert ratio(ROWFALL, ROWFALL) == 1.0

    def test_one_slow_round_does_not_change_who_is_fastest(self) -> None:
        steady, lucky = result("a", "engine", 2, 2, 2), result("b", "engine", 1, 3, 3)
        assert fastest([lucky, steady]) is steady

    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [((1.0, 1.2), (1.3, 1.5), False), ((1.0, 1.4), (1.3, 1.5), True), ((1, 9), (2, 3), True)],
    )
    def test_overlap_of_rounds(
        self, one: tuple[float, ...], other: tuple[float, ...], expected: bool
    ) -> None:
        a, b = result("a", "engine", *one), result("b", "rowfall", *other)
        assert overlap(a, b) is overlap(b, a) is expected


class TestMerges:
    def test_load_and_merges_are_added_round_by_round(self) -> None:
        ours = result("rowfall load", "rowfall", 1.0, 2.0, 3.0)
        ours.single, ours.final = [(0.0, 0.0)] * 3, [(1.0, 2.0)] * 3
        theirs = result("engine, defaults", "engine", 4.0, 4.0, 4.0)
        theirs.single, theirs.final = [(4.0, 8.0)] * 3, [(5.0, 10.0)] * 3
        assert table.merged_seconds(ours, "final", 0) == 3.0
        assert table.merged_seconds(theirs, "single", 1) == 16.0
        lines = table.merged_table([theirs, ours, FLOOR], ours)
        assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
            "engine, defaults", "8.00 (4.00)", "16.00 (4.00)", "9.00 (3.00)", "18.00 (3.00)",
        ]  # fmt: skip
        assert len(lines) == 4
        assert table.merged_table(SIDES, ROWFALL) == []


class TestAgreement:
    def test_equal_sides_give_their_checksum(self) -> None:
        assert agree(SIDES, 100) == "7"

    def test_other_rows_fail_and_name_the_side(self) -> None:
        odd = result("lossy", "engine floor", 1.0, rows=99)
        with pytest.raises(BenchError, match="lossy: 99 rows instead of 100"):
            agree([*SIDES, odd], 100)

    def test_another_checksum_fails(self) -> None:
        odd = result("odd", "rowfall", 1.0, checksum="8")
        with pytest.raises(BenchError, match="odd has 8"):
            agree([*SIDES, odd], 100)

    def test_another_checksum_in_one_round_fails(self) -> None:
        odd = result("odd", "rowfall", 1.0, 1.0)
        odd.checksums[1] = "8"
        with pytest.raises(BenchError, match="different rows"):
            agree([odd], 100)


class TestSelection:
    def test_nothing_means_everything(self) -> None:
        assert data.select(None) == [*data.CASES, data.SMALL]

    def test_names_are_taken_once_and_in_order(self) -> None:
        assert data.select("taxi-csv, trips-disk,taxi-csv") == ["taxi-csv", "trips-disk"]

    @pytest.mark.parametrize("text", ["trips", "trips-disk,taxi-xml", "", " , "])
    def test_unknown_or_no_names_are_refused(self, text: str) -> None:
        with pytest.raises(BenchError, match="cases are trips-disk"):
            data.select(text)

    def test_the_command_refuses_before_it_does_anything(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run.main(["--cases", "nope", "--data", str(tmp_path / "none")]) == 2
        assert "no case is called nope" in capsys.readouterr().err
        assert not (tmp_path / "none").exists()

    def test_full_size_needs_three_rounds(self) -> None:
        with pytest.raises(SystemExit):
            run.main(["--rounds", "2"])


class TestSides:
    def test_the_sweep_has_every_cell_once(self) -> None:
        cells = sides.sweep(8, text=True)
        assert len(cells) == len({cell.name for cell in cells}) == 16
        assert len(sides.sweep(1, text=True)) == 8
        assert len(sides.sweep(8, text=False)) == 8

    def test_the_formula_is_memory_by_three_times_threads(self) -> None:
        (formula,) = [s for s in sides.published(8, 12 << 30) if "formula" in s.name]
        assert formula.settings == {
            "max_insert_threads": 4,
            "min_insert_block_size_bytes": 1 << 30,
            "min_insert_block_size_rows": 0,
        }

    def test_every_setting_can_be_written(self) -> None:
        for side in [*sides.published(1, 1 << 30), *sides.sweep(2, text=True)]:
            assert settings_clause(side.settings).count("=") == len(side.settings)

    def test_the_floor_reads_as_the_best_cell_does_and_writes_nothing(self) -> None:
        best = sides.sweep(4, text=True)[0]
        floor = sides.final(sides.published(4, 1 << 30), best)[-1]
        assert set(floor.settings) == {"max_threads", "input_format_parallel_parsing"}

    def test_sums_touch_every_column(self) -> None:
        taxi = data.table("taxi")
        assert taxi.sums().count("sum(") == len(taxi.columns) == 51
        assert "sum(length(`vendor_id`))" in taxi.sums()
        assert "sum(toUInt32(`pickup_datetime`))" in taxi.sums()


class TestMarkdown:
    def test_cells_are_aligned_and_bars_escaped(self) -> None:
        assert table.markdown(("side", "s"), [("a|b", "1.50"), ("long name", "10")]) == [
            "| side      |    s |",
            "| --------- | ---: |",
            "| a\\|b      | 1.50 |",
            "| long name |   10 |",
        ]

    def test_a_line_per_side_with_medians_and_ratio(self) -> None:
        lines = table.sides_table(SIDES, ROWFALL)
        assert [c.strip() for c in lines[3].split("|")[1:-1]] == [
            "engine, best of the sweep", "2.20 (2.00-2.40)", "4.40", "45.5", "4", "300 MiB", "2.00",
        ]  # fmt: skip
        assert [c.strip() for c in lines[5].split("|")[5:-1]] == ["-", "300 MiB", "0.45"]

    def test_the_opponent_is_the_fastest_loading_engine_side(self) -> None:
        assert table.opponent(SIDES) is TUNED

    def test_verdicts(self) -> None:
        slow = result("rowfall load", "rowfall", 2.5, 2.6, 2.7)
        near = result("rowfall load", "rowfall", 1.9, 2.1, 2.1)
        assert table.verdict([ENGINE, TUNED, ROWFALL]) == table.MET
        assert table.verdict([ENGINE, TUNED, slow]) == table.NOT_MET
        assert table.verdict([ENGINE, TUNED, near]) == table.OPEN
        assert "2.00 times as fast" in table.verdict_words([TUNED, ROWFALL])
        assert "takes 1.18 times as long" in table.verdict_words([TUNED, slow])
        assert "too close to call" in table.verdict_words([TUNED, near])


def document(**changes: Any) -> str:
    about = {
        "date": "2026-01-31", "scale": 1.0, "load": 0.1, "cores": 2, "cpu": "A CPU",
        "memory": 8 << 30, "kernel": "Linux 6", "rowfall": "0.1.0", "source": "ab", "chdb": "4.4.0",
        "engine": "26.9", "python": "3.11.7",
    }  # fmt: skip
    case = {
        "date": "2026-01-31", "source": "ab", "rows": 100, "files": 20, "bytes": 12345, "rounds": 3,
        "sweep_rounds": 1, "sweep": [TUNED.to_json()], "sides": [s.to_json() for s in SIDES],
        "best_cell": "x", "checksum": "7",
    }  # fmt: skip
    load = {"files": 20, "bytes": 1, "limit": 1 << 30, "limit_text": "1GiB", "wall": 1.0,
            "cpu": 1.0, "largest": 1 << 29, "together": 2 << 30, "retries": 0}  # fmt: skip
    small = {
        "date": "2026-01-31", "source": "ab",
        "help": {"wall": 0.1, "all": [0.1] * 10},
        "tiny": {"rows": 1000, "wall": 0.5, "all": [0.5] * 5},
        "plan": {"objects": 1_000_000, "attempts": 9, "listing_seconds": 1.0,
                 "plan_seconds": 2.0, "peak": 400_000_000},
        "memory": [load],
    }  # fmt: skip
    broken = {**case, "error": "rowfall load: exit code 6"}
    results = {
        "about": {**about, **changes.pop("about", {})},
        "cases": {"trips-disk": case, "taxi-csv": broken},
        "small": small,
        **changes,
    }
    return table.document(results, TITLES)


class TestDocument:
    def test_says_every_aim_whether_met_failed_or_not_measured(self) -> None:
        text = document()
        aims = {
            cells[1].strip(): (cells[2].strip(), cells[3].strip())
            for cells in (line.split("|") for line in text.splitlines())
            if len(cells) == 5
        }
        faster = "faster than the best engine side: "
        assert aims[faster + TITLES["trips-disk"]] == ("2.00 times as fast", table.MET)
        assert aims[faster + TITLES["taxi-csv"]] == ("failed", table.NOT_MET)
        assert aims[faster + TITLES["trips-s3"]] == ("not measured", "-")
        assert aims["1,000,000 objects planned in 500 MB"] == ("400 MB", table.MET)
        limit = "20 files with --memory 1GiB: all processes below it"
        assert aims[limit] == ("2.00 GiB", table.NOT_MET)

    def test_a_failed_case_shows_its_cause_and_no_figures(self) -> None:
        section = document().split("## Taxi, csv.gz on disk")[1].split("\n## ")[0]
        assert "exit code 6" in section
        assert "wall s" not in section

    def test_rehearsals_and_busy_machines_say_so(self) -> None:
        assert "rehearsal" not in document()
        assert "rehearsal" in document(about={"scale": 0.02})
        assert "not idle" not in document()
        assert "not idle" in document(about={"load": 3.0})

    def test_changed_code_is_said(self) -> None:
        assert "code changed" in document(about={"changed": True})

    def test_runs_without_small_figures(self) -> None:
        assert "## Small figures" not in document(small={})


def test_results_survive_json() -> None:
    assert Result.from_json(ROWFALL.to_json()) == ROWFALL


def test_older_cases_are_kept_for_the_same_machine_and_say_their_code(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    about = {"source": "ab", "cores": 2, "cpu": "c", "memory": 1, "kernel": "k", "chdb": "4",
             "python": "3", "scale": 1.0, "date": "2026-01-31"}  # fmt: skip
    assert run.kept(path, about)["cases"] == {}
    run.write(tmp_path, {"about": {**about, **FULL}, "cases": {"taxi-csv": FAILED}, "small": {}})
    again = run.kept(path, {**about, **FULL, "date": "2026-02-01"})
    assert again["cases"] == {"taxi-csv": FAILED}
    assert again["about"]["date"] == "2026-02-01"
    later = run.kept(path, {**about, **FULL, "source": "cd"})
    assert "2026-01-31, an earlier state of rowfall." in table.document(later, TITLES)
    assert "earlier state" not in table.document(again, TITLES)
    assert run.kept(path, {**about, **FULL, "cpu": "d"})["cases"] == {}


FULL = {"load": 0.1, "rowfall": "0.1.0", "engine": "26.9"}
FAILED = {"date": "2026-01-31", "source": "ab", "rows": 1, "files": 1, "bytes": 1, "rounds": 3,
          "sweep_rounds": 1, "error": "x"}  # fmt: skip


def test_a_failing_command_is_an_error_that_quotes_it() -> None:
    script = "import sys; sys.exit('no such thing')"
    with pytest.raises(BenchError, match="exit code 1\nno such thing"):
        run_command([sys.executable, "-c", script])


def test_a_command_gets_its_input_and_environment_and_is_measured() -> None:
    script = "import os, sys; print(sys.stdin.read() + os.environ['BENCH_WORD'])"
    sample = run_command([sys.executable, "-c", script], stdin=b"in ", env={"BENCH_WORD": "out"})
    assert sample.output == b"in out\n"
    assert sample.wall > 0
    assert sample.largest > MiB


def test_every_object_of_the_probe_is_its_own() -> None:
    listing = plan_probe.Objects(1000).listing()
    assert len({listing.uri(i) for i in range(1000)}) == 1000
    assert len({split.version for split in listing.splits("")}) == 1000
    assert listing.uri(0) == "s3://bucket/year=2024/month=01/part-000000.csv.gz"
    assert listing.uri(999).startswith("s3://bucket/year=2024/month=12/")


class TestSources:
    def test_the_programs_of_its_sides_are_python(self) -> None:
        """They are texts, which nothing reads before somebody measures."""
        texts = {name: text for name, text in vars(sources).items()
                 if isinstance(text, str) and text.startswith("\nimport ")}  # fmt: skip
        assert {"_READ", "_INSERT", "_PIPE", "_LAKES"} <= set(texts)
        for name, text in texts.items():
            compile(text, name, "exec")
