"""The end report as text and JSON; the list of loads; the result of a verification."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from rowfall.core.model import MergeWork
from rowfall.core.results import Failure, Report, ShardReport, Verification, VerifiedSplit
from rowfall.report.html import report_html
from rowfall.report.loads import (
    SHOWN_FAILURES,
    SHOWN_SHARDS,
    loads_document,
    loads_text,
    query_command,
    report_document,
    report_text,
    short_report_text,
    verification_document,
    verification_text,
)
from rowfall.run.history import from_json

DONE = Report(
    load_id="3f2a9c1e77aa4b10",
    outcome="done",
    source="s3://bucket/trips/*.csv.gz",
    target="./rowfall-data",
    table="default.trips",
    started="2026-11-21T09:14:05Z",
    splits=100,
    splits_loaded=100,
    rows=100_000_000,
    bytes_source=4_200_000_000,
    bytes_raw=12_600_000_000,
    bytes_written=1_310_000_000,
    seconds=8.0,
    total_seconds=9.1,
    cpu_seconds=62.5,
    parts_written=112,
    parts_active=9,
    peak_memory=3 << 30,
    attempts=10,
    phases={"read": 0.62, "insert": 0.30, "write": 0.076, "publish": 0.004},
    limited_by="the CPU: 7.8 of 8 cores were busy",
    settings={"max_insert_threads": 4},
)
FAILURE = Failure("s3://bucket/trips/003.csv.gz", "cannot parse '12,5' as Float64", "Use --type.")
PARTIAL = replace(
    DONE,
    load_id="77aa4b103f2a9c1e",
    outcome="partial",
    target="./other data",
    splits_loaded=57,
    splits_skipped=40,
    splits_failed=3,
    rows_rejected=12,
    retries=2,
    failures=(FAILURE,) * 3,
)


EQUAL = Verification(
    load_id="3f2a9c1e77aa4b10",
    ok=True,
    source_rows=100,
    target_rows=100,
    source_checksum="00c0ffee",
    target_checksum="00c0ffee",
    scope="the whole table",
    seconds=1.5,
    splits=tuple(VerifiedSplit(f"s3://bucket/part_{n}.csv", 50, "0", 50) for n in range(2)),
)


def shards(count: int) -> tuple[ShardReport, ...]:
    return tuple(
        ShardReport(n, f"10.0.0.{n}:9000", 25_123_456, 1_234, 5_234_567_890, 3_000_000_000, 120,
                    100.0 + n, 1_234.5, 3 << 30, 12_345, 1_000)
        for n in range(1, count + 1)
    )  # fmt: skip


def test_report_of_a_cluster_has_a_line_a_shard() -> None:
    text = report_text(replace(DONE, shards=shards(2), imbalance=0.012))
    assert "shard 2  25.1M  1,234  5.23 GB  3.00 GB   102.0  1,234.5  3.00 GiB" in text
    assert "The fullest shard got 1 % more data than the average. The nodes" in text
    assert max(map(len, text.split("\n")[:-2])) <= 80
    many = report_text(replace(DONE, shards=shards(SHOWN_SHARDS + 5)))
    assert "shard 5 " not in many
    assert "shard 6 " in many
    assert "5 shards that took less time are not shown." in many


def test_report_of_a_finished_load() -> None:
    assert report_text(DONE) == "\n".join(
        [
            "load 3f2a9c1e  done: everything is loaded",
            "",
            "  source  s3://bucket/trips/*.csv.gz",
            "  target  default.trips in ./rowfall-data",
            "  files   100 of 100 loaded",
            "",
            "  rows     100,000,000  12.5M rows/s, 1.60M rows per CPU second",
            "  read         4.20 GB  525 MB/s",
            "  decoded      12.6 GB  1.57 GB/s",
            "  written      1.31 GB  on disk, 13.1 bytes a row",
            "  time           8.0 s  62.5 CPU seconds, 7.8 at a time",
            "  in all         9.1 s  from start to end",
            "  parts            112  written, 9 active in the table now",
            "  memory      3.00 GiB  at the peak",
            "",
            "  read      62 %  ━━━━━━━━━━━━━━━━━━━━━━━━━",
            "  insert    30 %  ━━━━━━━━━━━━",
            "  write      8 %  ━━━",
            "  publish  0.4 %  ━",
            "",
            "  Limited by: the CPU: 7.8 of 8 cores were busy",
            "",
            "  look at it: rowfall query 'SELECT * FROM default.trips LIMIT 5'",
        ]
    )


def test_report_says_what_merges_have_left_to_do() -> None:
    left = MergeWork.of(280, 56, 450_000_000, 9_000_000, 2)
    assert left == MergeWork(280, 56, 450_000_000, 2.25)
    line = "  merges           280  parts left, into 56: 450 MB, about 2 s"
    assert line in report_text(replace(DONE, merges=left)).split("\n")
    assert "280 parts into 56: 450 MB, about 2 s" in report_html(replace(DONE, merges=left))
    assert from_json(json.dumps(asdict(replace(DONE, merges=left)))).merges == left


def test_a_stored_report_of_the_first_version_is_read() -> None:
    stored = asdict(DONE)
    stored["splits_landed"] = stored.pop("splits_loaded")
    assert from_json(json.dumps(stored)) == DONE
    assert "merges" not in report_text(DONE)
    short = MergeWork(4, 1, 1_000, 0.0)
    assert "merges" not in report_text(replace(DONE, merges=short))
    # One thread merges a partition, however many cores there are.
    one = MergeWork.of(3, 2, 1_000_000_000, 900_000_000, 16)
    assert one is not None
    assert one.seconds == 9.0
    assert MergeWork.of(56, 56, 1, 1, 2) is None


def test_short_report_of_a_finished_load_has_at_most_five_lines() -> None:
    assert short_report_text(DONE).split("\n") == [
        "load 3f2a9c1e  done in 9.1 s: 100,000,000 rows from 100 files into default.trips",
        "  rate   12.5M rows/s, 525 MB/s",
        "  limit  the CPU: 7.8 of 8 cores were busy",
        "  look at it: rowfall query 'SELECT * FROM default.trips LIMIT 5'",
    ]
    few = replace(DONE, rows=3, splits=1, splits_loaded=1, seconds=0.1, total_seconds=0.6)
    assert short_report_text(few).split("\n") == [
        "load 3f2a9c1e  done in 0.60 s: 3 rows from 1 file into default.trips",
        "  look at it: rowfall query 'SELECT * FROM default.trips LIMIT 5'",
    ]


def test_short_report_keeps_what_went_wrong_and_says_no_failure_again() -> None:
    text = short_report_text(replace(PARTIAL, total_seconds=83.0))
    assert text.split("\n") == [
        "load 77aa4b10  partial after 1 min 23 s: 100,000,000 rows from 57 of 100 files",
        "  (40 loaded before, 3 failed) into default.trips",
        "  rejected  12 bad rows, <0.1 % of all rows",
        "  rate      12.5M rows/s, 525 MB/s",
        "  limit     the CPU: 7.8 of 8 cores were busy",
        "  To resume, run the same command again: what is loaded is skipped.",
        "  look at it: rowfall query 'SELECT * FROM default.trips LIMIT 5' --to './other data'",
    ]
    assert "\x1b[1mload 77aa4b10" in short_report_text(PARTIAL, color=True)


def test_report_of_a_partial_load_says_what_failed_and_how_to_go_on() -> None:
    text = report_text(PARTIAL)
    assert "57 of 100 loaded, 40 loaded before, 3 failed, 2 retries" in text
    assert "rejected           12  <0.1 % of all rows" in text
    assert text.count("cannot parse '12,5' as Float64") == 3
    assert text.count("hint: Use --type.") == 1
    assert "To resume, run the same command again" in text
    assert "--to './other data'" in text


def test_report_fits_eighty_columns_and_has_no_escapes() -> None:
    for report in (DONE, replace(PARTIAL, target="./rowfall-data", limited_by="word " * 60)):
        text = report_text(report, verbose=True)
        assert max(map(len, text.split("\n"))) <= 80
        assert "\x1b" not in text
        assert "\x1b[1m" in report_text(report, color=True)


def test_words_longer_than_a_line_stay_whole() -> None:
    source = "s3://bucket/" + "long/" * 30 + "*.csv.gz"
    text = report_text(replace(DONE, source=source, limited_by="word " * 60))
    assert f"  source  {source}\n" in text
    assert sum(len(line) > 80 for line in text.split("\n")) == 1


def test_report_of_nothing_is_readable() -> None:
    empty = Report("3f2a", "failed", "x.csv", "null:", "", "2026-11-21T09:14:05Z")
    text = report_text(empty)
    assert "nothing was loaded" in text
    assert "rowfall query" not in text


def test_report_keeps_long_lists_of_failures_short() -> None:
    many = replace(PARTIAL, failures=(FAILURE,) * (SHOWN_FAILURES + 5))
    assert "and 5 more; --json lists all of them" in report_text(many)


def test_report_defuses_names_from_outside() -> None:
    evil = replace(PARTIAL, source="a\x1b[2Jb", failures=(Failure("\x07.csv", "x\ny"),))
    text = report_text(evil)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_settings_are_shown_when_asked_for() -> None:
    assert "max_insert_threads" not in report_text(DONE)
    assert "max_insert_threads  4" in report_text(DONE, verbose=True)


def test_query_command_quotes_for_sql_and_shell() -> None:
    assert (
        query_command("default.trips", "") == "rowfall query 'SELECT * FROM default.trips LIMIT 5'"
    )
    assert "`my table`" in query_command("my table", "")
    assert query_command("t", "/a b").endswith("--to '/a b'")


def test_report_json_is_the_report_field_by_field() -> None:
    document = json.loads(json.dumps(report_document(PARTIAL)))
    assert document.pop("rowfall_report") == 2
    assert document == json.loads(json.dumps(asdict(PARTIAL)))


def test_loads_as_table_and_json() -> None:
    assert loads_text([]) == "no loads yet"
    head, first, second = loads_text([DONE, PARTIAL]).split("\n")
    assert head.split()[:3] == ["load", "outcome", "started"]
    assert first.startswith("3f2a9c1e  done     11-21 09:14")
    assert second.split()[4] == "97/100"
    assert len(first) <= 80
    name = "t" * 90
    line = loads_text([replace(DONE, table=name)]).split("\n")[1]
    assert len(line) <= 80
    assert line.endswith(name[-10:])
    assert "…" in line
    document = json.loads(json.dumps(loads_document([DONE, PARTIAL])))
    assert document["rowfall_loads"] == 2
    assert [r["load_id"] for r in document["loads"]] == [DONE.load_id, PARTIAL.load_id]


def test_loads_of_one_command_with_many_tables_have_one_line() -> None:
    """Also where it was run again: each table counts by its newest load."""

    def one(name: str, outcome: str = "done", **more: Any) -> Report:
        return replace(DONE, load_id=f"{name}{outcome}", source=f"postgresql://h/db/{name}",
                       table=name, outcome=outcome, tables="public.*", rows=5, **more)  # fmt: skip

    again, first = [one("a"), one("b", "failed")], [one("a"), one("b", "failed"), one("c")]
    lines = loads_text([*again, PARTIAL, *first]).split("\n")
    assert len(lines) == 3
    assert lines[1].split()[:4] == ["tables", "1", "not", "done"]
    assert "2/3" in lines[1]
    assert " 25 " in lines[1]
    assert lines[1].endswith("public.*")
    assert len(loads_text([*again, PARTIAL, *first], verbose=True).split("\n")) == 7
    other = replace(one("d"), source="postgresql://h/other/d")
    assert len(loads_text([*again, other]).split("\n")) == 3
    running = one("e", "running")
    assert "running" in loads_text([running, *again])


@pytest.mark.parametrize(
    ("target_rows", "words"), [(90, "10 rows missing"), (103, "3 rows too many")]
)
def test_verification_that_differs(target_rows: int, words: str) -> None:
    text = verification_text(replace(EQUAL, ok=False, target_rows=target_rows))
    assert "different" in text
    assert words in text


def test_verification_that_agrees() -> None:
    text = verification_text(EQUAL)
    assert "load 3f2a9c1e  equal" in text
    assert "Compared: the whole table, in 1.5 s." in text
    assert "part_" not in text
    assert "part_1.csv" in verification_text(EQUAL, verbose=True)
    document = verification_document(EQUAL)
    assert document == {"rowfall_verification": 2, **asdict(EQUAL)}


def test_verification_names_the_splits_that_differ() -> None:
    short = (EQUAL.splits[0], VerifiedSplit("in/part_1.csv", 50, "0", 45))
    text = verification_text(replace(EQUAL, ok=False, target_rows=95, splits=short))
    assert text.split("\n")[-4:-1] == [
        "  in the source  in the target  file",
        "             50             45  part_1.csv",
        "",
    ]
    unclear = tuple(VerifiedSplit(f"in/part_{n}.csv", 50, "0", None) for n in range(30))
    text = verification_text(
        replace(EQUAL, ok=False, target_rows=95, splits=unclear, foreign_rows=7)
    )
    assert "7 rows of the target are in no file of the source" in text
    assert "             50      not clear  part_19.csv\n" in text
    assert "and 10 more; -v shows all" in text


def test_a_folder_here_is_named_as_a_person_types_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    select = "rowfall query 'SELECT * FROM t LIMIT 5'"
    assert query_command("t", str(tmp_path / "lake")) == f"{select} --to lake"
    assert query_command("t", str(tmp_path / "rowfall-data")) == select
    assert query_command("t", f"{tmp_path}2/lake") == f"{select} --to {tmp_path}2/lake"
