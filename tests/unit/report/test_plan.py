"""A plan as text to read and paste from, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from rowfall.cli.output import error_document
from rowfall.core import config_results, results, run_results, sql
from rowfall.core import tables as many
from rowfall.core.bench_results import BenchReport, BenchRound, BenchRow, PublishedFigure
from rowfall.core.listing import Listing
from rowfall.core.load_record import PartSizes
from rowfall.core.model import (
    ENGINE,
    PULL,
    Choice,
    Column,
    Encoding,
    Facts,
    FileChecks,
    Forecast,
    Group,
    Kind,
    MergeWork,
    Notation,
    Plan,
    PlannedTarget,
    PlannedWork,
    PlannedWriter,
    PlanTexts,
    Schema,
    Setting,
    Sorting,
    TableFit,
    TableLayout,
    Transport,
)
from rowfall.core.options import Options
from rowfall.core.results import Report
from rowfall.core.steering import SteeringStep
from rowfall.core.tuned import Cell, CellFigures, TunedCell, TuneReport
from rowfall.measure.scale import project_source
from rowfall.project import NamedLoad
from rowfall.report.bench import bench_document
from rowfall.report.config import config_document
from rowfall.report.doctor import doctor_document
from rowfall.report.explain import explain_document
from rowfall.report.html import plan_html
from rowfall.report.loads import loads_document, report_document, verification_document
from rowfall.report.pipelines import preview_document
from rowfall.report.plan import plan_document, plan_text
from rowfall.report.run import run_document
from rowfall.report.scale import scale_document
from rowfall.report.tables import tables_document, tables_plan_document
from rowfall.report.tune import tune_document
from rowfall.service.pipeline import open_pipeline
from rowfall.service.state import PipelineStatus, state_document

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
SCHEMA = Schema(
    (
        Column(
            "trip_id", "UInt64", "whole numbers from 1 to 99,999,934 in every row of the sample"
        ),
        Column("fare", "Decimal(9, 2)", "two digits after the point"),
    ),
    layout=TableLayout(order_by="trip_id"),
    notes=(("ORDER BY", "trip_id rises with the file"),),
)
TRANSPORT = Transport(
    Choice(PULL, "the only engine"), Choice(ENGINE, "--decoder never"), Choice(PULL, "the same"),
    Sorting("unsorted", "the engine parses"), Choice(ENGINE, "the engine parses"),
    Choice("", "no rows are sent"), Choice("any", "one writer"),
)  # fmt: skip
SQL = "INSERT INTO t (`trip_id`, `fare`)\nSELECT a, b\nFROM s3('s3://bucket/000.csv.gz', 'CSV')"


def listing(count: int = 100) -> Listing:
    made = Listing()
    for number in range(count):
        made.add(f"s3://bucket/{number:03}.csv.gz", "etag", 42_000_000)
    return made


def a_plan(schema: Schema = SCHEMA) -> Plan:
    return Plan(
        source="s3://bucket/*.csv.gz",
        to=PlannedTarget(
            text="./rowfall-data",
            database="default",
            table="trips",
            placement="embedded",
            promise="Every row lands exactly once.",
        ),
        transport=TRANSPORT,
        encoding=Encoding("CSVWithNames", "gzip", Kind.TEXT),
        schema=schema,
        texts=PlanTexts(
            ddl="" if schema.exists else sql.create_table("default", "trips", schema), example=SQL
        ),
        listing=listing(),
        work=PlannedWork(
            groups=tuple(Group(range(i, i + 10), 420_000_000) for i in range(0, 100, 10)),
            lanes=2,
            settings=(Setting("max_insert_threads", 4, "8 cores / 2 lanes"),),
            writers=(a_writer(0),),
        ),
        forecast=Forecast(100_000_000, 12.2, 3 << 30, 112, ("Parts stay few.",)),
        facts=Facts("26.9.2.1", 8, 16 << 30, frozenset({"max_threads"})),
    )


def a_writer(shard: int) -> PlannedWriter:
    settings = (Setting("max_insert_threads", 4, "8 cores / 2 lanes"),)
    return PlannedWriter(
        shard, f"10.0.0.{shard}:9000", "24.10.2.80", 8, 16 << 30, 50, 2_100_000_000, 5, settings
    )


def test_plan_of_a_cluster_says_what_each_shard_is_given() -> None:
    text = plan_text(
        replace(
            a_plan(),
            to=replace(a_plan().to, placement="shards"),
            work=replace(a_plan().work, writers=(a_writer(1), a_writer(2))),
        )
    )
    assert "shard 2  10.0.0.2:9000  50 files 2.10 GB, 5 statements" in text
    assert max(map(len, text.split("\n"))) <= 80


_SECTIONS = (
    "Table", "First rows", "Warnings", "Source", "Target", "Settings", "SQL of one statement"
)  # fmt: skip


def test_the_first_rows_fit_into_a_line() -> None:
    rows = (("1", "a\tb\x1b[31m"), (None, "x" * 50))
    text = plan_text(replace(a_plan(), texts=replace(a_plan().texts, first_rows=rows)))
    assert text.partition("First rows\n")[2].split("\n\n")[0].split("\n") == [
        "  trip_id  fare", "  1        a b\\x1b[31m", f"  NULL     {'x' * 23}…",
    ]  # fmt: skip
    narrow = plan_text(replace(a_plan(), texts=replace(a_plan().texts, first_rows=rows)), width=12)
    assert "and 1 column more" in " ".join(narrow.split())


def test_plan_has_every_section() -> None:
    text = plan_text(a_plan(), verbose=True)
    for line in (
        "  from        s3://bucket/*.csv.gz",
        "  format      csv, delimiter comma, header yes, utf-8, gzip",
        "  files       100, 4.20 GB, the largest has 42.0 MB",
        "  statements  10, 420 MB each on average, 2 at a time",
        "  delivery  pull: the engine that stores the rows reads the source itself",
        "  max_insert_threads  4  8 cores / 2 lanes",
        "  time    about 12 s (8.20M rows/s)",
        "  ! Parts stay few.",
    ):
        assert line in text.split("\n")
    assert text.endswith(SQL)
    short = plan_text(a_plan())
    assert sql.create_table("default", "trips", SCHEMA) in short
    assert [name for name in _SECTIONS if f"{name}\n" in short] == ["Table", "Warnings", "Source",
        "Target"]  # fmt: skip
    assert "parts into" not in text
    plan = a_plan()
    left = MergeWork(280, 56, 450_000_000, 2.25)
    plan = replace(plan, forecast=replace(plan.forecast, merges=left))
    assert "  merges  280 parts into 56: 450 MB, about 2 s" in plan_text(plan).split("\n")
    assert "280 parts into 56: 450 MB, about 2 s" in plan_html(plan)


def test_reasons_are_aligned_comments_that_leave_the_sql_intact() -> None:
    plan = a_plan()
    text = plan_text(plan, verbose=True)
    shown = text[text.index("CREATE TABLE") : text.index("\n\n", text.index("CREATE TABLE"))]
    comments = [line.index("-- ") for line in shown.split("\n") if "-- " in line]
    assert len(comments) >= 3
    assert len(set(comments)) == 1
    stripped = [line.split("-- ")[0].rstrip() for line in shown.split("\n")]
    assert "\n".join(line for line in stripped if line) == plan.texts.ddl
    assert "trip_id rises with the file" in text


def test_reasons_go_above_columns_where_there_is_no_room() -> None:
    wide = Column("x" * 50, "LowCardinality(String)", "five\nvalues")
    text = plan_text(a_plan(replace(SCHEMA, columns=(wide,))), verbose=True)
    assert "\n    -- five values\n    `xxx" in text


def test_reasons_of_settings_go_below_where_there_is_no_room() -> None:
    reason = "one writer per core, and half of them where memory is short"
    for name in ("max_threads", "deduplicate_blocks_in_dependent_materialized_views"):
        text = plan_text(
            replace(a_plan(), work=replace(a_plan().work, settings=(Setting(name, 4, reason),))),
            verbose=True,
        )
        shown = text.partition("Settings\n")[2].partition("\n\n")[0]
        assert max(map(len, shown.split("\n"))) <= 80
        assert reason in " ".join(shown.split())
        assert (" = 4\n      one writer" in shown) == (name != "max_threads")


def test_an_existing_table_is_said_to_keep_its_definition() -> None:
    text = plan_text(a_plan(replace(SCHEMA, exists=True)), verbose=True)
    assert "default.trips exists and keeps its definition" in text
    assert "    `trip_id` UInt64" in text


def test_every_split_only_when_asked_for() -> None:
    assert "s3://bucket/007.csv.gz" not in plan_text(a_plan())
    assert "     42.0 MB  s3://bucket/007.csv.gz" in plan_text(a_plan(), every_split=True)


def test_generated_rows_count_in_rows() -> None:
    made = Listing()
    made.add("generate://trips", "1", None, 0, 10**9)
    plan = replace(
        a_plan(),
        encoding=None,
        listing=made,
        work=replace(a_plan().work, groups=(Group(range(1), None),)),
        texts=replace(a_plan().texts, example=""),
    )
    text = plan_text(plan, every_split=True)
    assert "ranges  1, 1,000,000,000 rows" in text
    assert "generate://trips[0:1000000000]" in text
    assert "SQL of one statement" not in text


def test_plan_fits_eighty_columns() -> None:
    text = plan_text(a_plan(), verbose=True, every_split=True)
    assert max(map(len, text.split("\n"))) <= 80
    assert "\x1b" not in text
    assert "\x1b[1mSource" in plan_text(a_plan(), color=True)


def test_plan_json_has_the_fields_of_the_plan() -> None:
    document = json.loads(json.dumps(plan_document(a_plan())))
    assert document.pop("rowfall_plan") == 3
    transport = {
        "delivery", "why", "streams", "decoder", "why_decoder", "sorted_by", "why_unbuilt",
        "compress", "why_compress", "spread", "why_spread", "cutting", "deliveries",
    }  # fmt: skip
    target = {"target", *(f.name for f in fields(PlannedTarget))} - {"text"}
    named = {f.name for kind in (Plan, PlannedWork, PlanTexts) for f in fields(kind)}
    assert set(document) == named - {"transport", "to", "work", "texts"} | target | transport
    parts = (Schema, TableLayout, TableFit, FileChecks)
    schema = {f.name for part in parts for f in fields(part)} - {"layout", "fit", "checks"}
    assert set(document["schema"]) == schema
    assert document["listing"] == {"splits": 100, "bytes": 4_200_000_000, "rows": None}
    assert "settings" not in document["facts"]
    everything = json.loads(json.dumps(plan_document(a_plan(), every_split=True)))
    assert len(everything["listing"]["all"]) == 100
    assert everything["groups"][1]["indexes"] == list(range(10, 20))


# The page about JSON and the documents themselves


def documented() -> dict[str, set[str]]:
    """Fields by path of headings: ``{"rowfall_report/failures": {"split", ...}}``."""
    found: dict[str, set[str]] = {}
    top = path = ""
    for line in PAGE.read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            top = path = line[3:]
        elif line.startswith("### "):
            path = f"{top}/{line[4:]}"
        elif top and line.startswith("| `"):
            found.setdefault(path, set()).add(line.split("`")[1])
    return found


def shapes(name: str, document: Mapping[str, Any]) -> dict[str, set[str]]:
    """The same from a document: one entry per object in it."""
    found = {name: set(document)}
    top = name.partition("/")[0]
    for key, value in document.items():
        items = value if isinstance(value, list | tuple) else [value]
        # phases, and the settings of a report, are maps by name and have no fields of their own.
        plain = top == "rowfall_report" and key in ("phases", "settings")
        if items and isinstance(items[0], Mapping) and not plain:
            found |= shapes(f"{top}/{key}", items[0])
    return found


def test_the_page_about_json_lists_the_fields_that_there_are(tmp_path: Path) -> None:
    left = MergeWork(2, 1, 10, 0.1)
    report = Report(
        "id",
        "done",
        "s",
        "t",
        "x",
        "now",
        failures=(results.Failure("a", "b"),),
        shards=(results.ShardReport(1, "h:9000", 1, 1, 1, 1, 1, 1.0, 1.0, 1, 1, 1),),
        merges=left,
        part_sizes=PartSizes(((1024, 1),), 1, 3000, 1.0, 1000, 3000),
        steering=(SteeringStep(1.0, "back off", "parts", "so", 0.5, 1.0, waits=False),),
        workers=(results.WorkerReport("h", 1, "id", "done"),),
    )
    plan = replace(a_plan(), work=replace(a_plan().work, writers=(a_writer(1),)))
    plan = replace(plan, forecast=replace(plan.forecast, merges=left))
    split = results.VerifiedSplit("a", 1, "0", 1)
    verified = results.Verification("id", True, 1, 1, "0", "0", "all", 1.0, (split,))
    real = shapes("rowfall_report", report_document(report))
    real |= shapes("rowfall_plan", plan_document(plan, every_split=True))
    real |= shapes("rowfall_verification", verification_document(verified))
    projected = project_source(("simulate://csv.gz?files=10",), None, Options(nodes="1", cores=4))
    real |= shapes("rowfall_scale", scale_document(projected))
    adopted = results.Adopted("id", "s", "t", "x", ("a",), 0, 0)
    real["rowfall_adopted"] = {"rowfall_adopted", "recorded", *asdict(adopted)}
    real["rowfall_loads"] = set(loads_document([]))
    adopted = results.Adopted("id", "s", "t", "x", (), 0, 0)
    real["rowfall_adopted"] = {"rowfall_adopted", "recorded", *asdict(adopted)}
    figure = PublishedFigure("one server", 1.0, 1.0, 1, "an article")
    measured = BenchRow("A1", "a", "b", "rowfall", figure, [BenchRound(1.0, 1.0, 0.0, 1, 1)])
    machine = {"cores": 1, "cpu": "", "memory": 1, "kernel": "", "rowfall": "", "python": "",
               "load": 0.0}  # fmt: skip
    real |= shapes("rowfall_bench", bench_document(BenchReport(machine, 1.0, 1, [measured])))
    del real["rowfall_bench/more"]  # by name
    link = results.Link(results.LinkKind.SOURCE, "reading", 1.0, "bytes/s", "1 reader", 1.0)
    examined = results.DoctorReport(
        "s", "t", "x", 1, (link,), link, 1.0, 1.0, (results.Improvement("more", 2.0),), 1, 1.0,
        (("working", 1.0),), (), 1.0,
    )  # fmt: skip
    real |= shapes("rowfall_doctor", doctor_document(examined))
    del real["rowfall_doctor/engine"]  # by name, as the phases of a report
    planned = results.PlannedLoad(
        1, 1.0, 1, 1, 1, (("delivery", "pull", "so"),), (("max_threads", "1", "so"),), 1, 1, 1, "",
        "",
    )  # fmt: skip
    attempts = (results.AttemptRecord("id_1", 1, "a"),)
    cell = TunedCell(Cell((), {}), CellFigures(1, 1.0, 1.0, 0.0, 1.0, 1, 1, 1, 1))
    tuned = shapes(
        "rowfall_tune", tune_document(TuneReport("s", "t", "x", (cell,), cell, 1, (), 1))
    )
    del tuned["rowfall_tune/best"]  # one of the cells
    real |= {name: fields for name, fields in tuned.items() if fields}
    document = explain_document(results.Explanation(report, planned, attempts))
    assert document["report"] == asdict(report)
    real |= shapes("rowfall_explanation", {**document, "report": None})
    problem = many.TableProblem("no", None, 4)
    several = many.TablesReport(
        "s", "t", "now", "failed", 4, 1.0,
        (many.TableReport("s.a", "a", "failed", problem=problem),), "one snapshot", 4,
    )  # fmt: skip
    real |= shapes("rowfall_tables", tables_document(several))
    listed = (many.PlannedTable("s.a", "a", 1, 1, "s/a"),)
    real |= shapes(
        "rowfall_tables_plan",
        tables_plan_document(many.TablesPlan("s", "t", listed, "one snapshot", 4, "so")),
    )
    hook = run_results.HookRun("after", "a", "", 1.0)
    ran = run_results.NamedRun("a", "done", 0, None, "", "", (hook,), 1, 1.0)
    real |= shapes("rowfall_run", run_document(run_results.RunReport((ran,), 1, 0, 1.0)))
    shown = config_results.ShownProject(
        ("a",), "", "", (config_results.ShownValue("a", 1, "default", ""),),
        (("loads", "a", "b"),), (), (),
    )  # fmt: skip
    real |= shapes("rowfall_config", config_document(shown))
    pipeline = open_pipeline(
        NamedLoad("a", tmp_path / "rowfall.toml", ("s",), str(tmp_path), "x", None, Options())
    )
    standing = PipelineStatus(pipeline, "stopped", None, None, 0.0, (), False, None, (), 0)
    real |= shapes("rowfall_pipeline", state_document(standing))
    real |= shapes(
        "rowfall_pipeline_test", preview_document("a", "x", "f", 1, ((), ()), (True, ""))
    )
    undone = results.Undone("id", "t", "x", 1, 1, "file")
    real["rowfall_undo"] = {"rowfall_undo", "done", *asdict(undone)}
    listed_table = results.TargetTable("x", 1, 1, True)
    tables = {"rowfall_target_tables": 1, "tables": [asdict(listed_table)]}
    real |= shapes("rowfall_target_tables", tables)
    real["rowfall_pipelines"] = {"rowfall_pipelines", "pipelines"}
    real["rowfall_plan/notation"] = {field.name for field in fields(Notation)}
    real["rowfall_error"] = set(error_document("a", None, 1))
    assert documented() == real
