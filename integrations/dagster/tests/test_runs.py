"""Loads that Dagster runs: into a folder and into a server, whole and in partitions."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from scene import PASSWORD, ProjectFolder

from lab.clickhouse import ClickHouse
from rowfall_dagster import Rowfall, rowfall_assets

WAREHOUSE = """
[connections.warehouse]
uri = "clickhouse://{user}@127.0.0.1:{port}/{database}"
password = "env:WAREHOUSE_PASSWORD"
"""


def assets_of(project: ProjectFolder, **options: Any) -> dg.AssetsDefinition:
    @rowfall_assets(project.path, **options)
    def assets(context: dg.AssetExecutionContext, rowfall: Rowfall) -> Iterator[Any]:
        yield from rowfall.run(context)

    return assets


def run(
    assets: dg.AssetsDefinition, rowfall: Rowfall | None = None, **more: Any
) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [assets], resources={"rowfall": rowfall or Rowfall()}, raise_on_error=False, **more
    )


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Return the metadata of what was materialized, by asset."""
    return {
        event.asset_key.to_user_string(): {
            key: value.value for key, value in event.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
    }


def query(project: ProjectFolder, sql: str, *to: str) -> list[str]:
    """Return the values of the only row."""
    done = subprocess.run(
        [sys.executable, "-m", "rowfall", "query", sql, "--format", "TSV", *to],
        cwd=project.folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    (line,) = done.stdout.splitlines()
    return line.split("\t")


def failures(result: dg.ExecuteInProcessResult) -> list[dg.Failure | Any]:
    return [event.step_failure_data for event in result.all_events if event.is_step_failure]


def retries(result: dg.ExecuteInProcessResult) -> int:
    return sum(event.is_step_up_for_retry for event in result.all_events)


@pytest.fixture
def warehouse(server: ClickHouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the toml of a connection into a database of its own."""
    database = f"d{abs(hash(tmp_path)):x}"
    server.query(f"CREATE DATABASE {database}")
    monkeypatch.setenv(PASSWORD, server.password)
    return WAREHOUSE.format(user=server.user, port=server.http_port, database=database)


def test_all_loads_into_a_folder_and_again(project: ProjectFolder) -> None:
    project.csv("orders/1.csv", "1,2.5", "2,3")
    project.csv("lines/1.csv", "7,1")
    project.toml(
        '[loads.lines]\nsource = "lines/*.csv"\ntable = "lines"\nneeds = ["orders"]\n'
        '[loads.orders]\nsource = "orders/*.csv"\ntable = "orders"\n'
    )
    assets = assets_of(project)
    result = run(assets, Rowfall(verify=True, memory="1GiB"))
    assert result.success
    orders, lines = (metadata(result)[name] for name in ("orders", "lines"))
    assert (orders["rows"], orders["bytes"], orders["files"]) == (2, 19, 1)
    assert len(orders["checksum"]) == 16
    assert len(orders["load_id"]) == 10
    assert orders["seconds"] > 0
    assert orders["dagster/table_name"] == "default.orders"
    columns = {one.name: one.type for one in orders["dagster/column_schema"].columns}
    assert columns == {"id": "Int64", "total": "Float64"}
    assert lines["rows"] == 1

    project.csv("orders/2.csv", "3,4")
    again = metadata(run(assets, selection=[dg.AssetKey("orders")]))
    assert list(again) == ["orders"]
    assert (again["orders"]["rows"], again["orders"]["files_loaded_before"]) == (1, 1)
    assert query(project, "SELECT count(), sum(total) FROM orders") == ["3", "9.5"]


def test_each_partition_is_loaded_once_into_a_server(
    project: ProjectFolder, server: ClickHouse, warehouse: str
) -> None:
    for day in (1, 2, 3):
        project.csv(f"in/day=2026-01-0{day}/a.csv", *(f"{day}{n},1" for n in range(day)))
    project.toml(
        f'{warehouse}\n[loads.events]\nparams = ["partition"]\nto = "warehouse"\n'
        'source = "in/day={partition}/*.csv"\ntable = "events"\n'
    )
    days = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-05")
    assets = assets_of(project, partitions_def=days, backfill_policy=dg.BackfillPolicy.single_run())
    for day, rows in (("2026-01-02", 2), ("2026-01-02", 0), ("2026-01-01", 1)):
        result = run(assets, partition_key=day)
        assert result.success
        assert metadata(result)["events"]["rows"] == rows
    result = run(assets, tags={  # all in one run, as a backfill does
        "dagster/asset_partition_range_start": "2026-01-01",
        "dagster/asset_partition_range_end": "2026-01-03",
    })  # fmt: skip
    assert result.success
    found = {value["rows"] for value in metadata(result).values()}
    assert found == {3}
    sql = "SELECT count(), uniq(id), uniq(day) FROM events"
    assert query(project, sql, "--to", "warehouse") == ["6", "6", "3"]
    empty = run(assets, partition_key="2026-01-04")
    (failure,) = failures(empty)
    assert "no file matches" in failure.error.message
    assert retries(empty) == 0
    assert server.password not in repr(result.all_events) + repr(empty.all_events)


def test_partitions_of_two_dimensions(project: ProjectFolder) -> None:
    project.csv("in/de/2026.csv", "1,1")
    project.csv("in/fr/2026.csv", "2,1")
    project.toml(
        '[loads.sales]\nparams = ["year", "region"]\nsource = "in/{region}/{year}.csv"\n'
        'table = "sales"\n'
    )
    both = dg.MultiPartitionsDefinition({
        "region": dg.StaticPartitionsDefinition(["de", "fr"]),
        "year": dg.StaticPartitionsDefinition(["2026"]),
    })  # fmt: skip
    assets = assets_of(project, partitions_def=both)
    key = dg.MultiPartitionKey({"region": "fr", "year": "2026"})
    assert metadata(run(assets, partition_key=key))["sales"]["rows"] == 1
    assert query(project, "SELECT id FROM sales") == ["2"]


def test_tables_of_a_source_are_verified_and_what_fails_is_said(project: ProjectFolder) -> None:
    with sqlite3.connect(project.folder / "shop.db") as base:
        base.executescript("CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1), (2);"
                           "CREATE TABLE b (x INTEGER); INSERT INTO b VALUES (3);")  # fmt: skip
    shop = '[loads.shop]\nsource = "shop.db"\ntables = "*"\n'
    project.toml(shop)
    found = metadata(run(assets_of(project), Rowfall(verify=True)))["shop"]
    assert found["rows"] == 3
    assert len(found["checksum"].split()) == 2
    with sqlite3.connect(project.folder / "shop.db") as base:
        base.execute("INSERT INTO a VALUES ('many')")  # no number, and SQLite takes it
    project.toml(f'{shop}to = "./other"\n')
    (failure,) = failures(run(assets_of(project, retry_policy=dg.RetryPolicy(max_retries=0))))
    assert "shop: a: " in repr(failure)


def test_a_bad_value_fails_at_once_and_the_other_load_is_done(project: ProjectFolder) -> None:
    project.csv("good/1.csv", "1,1")
    project.csv("bad/1.csv", *(f"{n},1" for n in range(20_000)), "x,1")
    project.toml(
        '[loads.bad]\nsource = "bad/*.csv"\ntable = "bad"\ntype = { id = "Int64" }\n'
        '[loads.good]\nsource = "good/*.csv"\ntable = "good"\n'
        '[loads.after]\nsource = "good/*.csv"\ntable = "after"\nneeds = ["bad"]\n'
    )
    result = run(assets_of(project, retry_policy=dg.RetryPolicy(max_retries=2)))
    assert not result.success
    assert list(metadata(result)) == ["good"]
    (failure,) = failures(result)
    said = failure.error.message
    assert "bad/1.csv" in said
    assert "after: it needs bad, which is not done" in said
    assert failure.user_failure_data.metadata["bad exit code"].value == 1
    assert retries(result) == 0  # it would be as bad again


def test_a_server_that_is_away_is_tried_again(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 is retried by the policy, and by no other one."""
    codes = iter([1, 1, 0])

    def answer(self: Any, context: Any, words: Sequence[str], quiet: bool = False) -> Any:
        if words[0] == "query":
            return 0, {}
        code = next(codes)
        away = {"error": "it is away", "lasting": False}
        report = {"rowfall_report": 2, "table": "", "failures": [away]} | {
            key: 0 for key in ("bytes_source", "splits_loaded", "splits_skipped", "rows_rejected")
        } | {"load_id": "1", "source": "s"}  # fmt: skip
        one = {"name": "orders", "exit": code, "rows": 1, "seconds": 1.0, "report": report}
        return code, {"rowfall_run": 1, "loads": [one]}

    monkeypatch.setattr("rowfall_dagster.resource._Loads.command", answer)
    project.toml('[loads.orders]\nsource = "orders/*.csv"\ntable = "orders"\n')
    result = run(assets_of(project, retry_policy=dg.RetryPolicy(max_retries=2)))
    assert result.success
    assert retries(result) == 2
    codes = iter([5, 0])
    assert not run(assets_of(project, retry_policy=dg.RetryPolicy(max_retries=2))).success


def test_what_rowfall_says_is_logged_without_secrets(
    project: ProjectFolder, server: ClickHouse, warehouse: str, capfd: pytest.CaptureFixture[str]
) -> None:
    project.csv("orders/1.csv", "1,2.5")
    project.toml(f'{warehouse}\n[loads.orders]\nsource = "orders/*.csv"\nto = "warehouse"\n')
    result = run(assets_of(project))
    assert result.success
    said = "".join(capfd.readouterr())
    assert "rowfall: load " in said
    os.environ[PASSWORD] = wrong = "a-wrong-password-777"
    refused = run(assets_of(project))
    assert not refused.success
    said += "".join(capfd.readouterr()) + repr(result.all_events) + repr(refused.all_events)
    assert "hint: " in said
    assert server.password not in said
    assert wrong not in said


DEFINITIONS = """
from pathlib import Path

import dagster as dg

from rowfall_dagster import Rowfall, rowfall_assets

days = dg.StaticPartitionsDefinition(["2026-01-01", "2026-01-02"])


@rowfall_assets(Path(__file__).with_name("rowfall.toml"), partitions_def=days, param="day")
def by_day(context: dg.AssetExecutionContext, rowfall: Rowfall):
    yield from rowfall.run(context)


@rowfall_assets(Path(__file__).with_name("rowfall.toml"))
def others(context: dg.AssetExecutionContext, rowfall: Rowfall):
    yield from rowfall.run(context)


defs = dg.Definitions([by_day, others], resources={"rowfall": Rowfall()})
"""


def dagster(project: ProjectFolder, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("dagster"), *words, "-f", "defs.py"],
        cwd=project.folder, check=False, capture_output=True, text=True,
    )  # fmt: skip


def test_the_command_of_dagster(project: ProjectFolder, server: ClickHouse, warehouse: str) -> None:
    project.csv("in/2026-01-01.csv", "1,1", "2,1")
    project.csv("in/2026-01-02.csv", "3,1")
    project.csv("orders/1.csv", "1,2.5")
    project.toml(
        f'{warehouse}\n[loads.events]\nparams = ["day"]\nsource = "in/{{day}}.csv"\n'
        'to = "warehouse"\ntable = "events"\n'
        '[loads.orders]\nsource = "orders/*.csv"\nto = "warehouse"\ntable = "orders"\n'
    )
    (project.folder / "defs.py").write_text(DEFINITIONS)
    for _ in range(2):
        done = dagster(
            project, "asset", "materialize", "--select", "events", "--partition", "2026-01-01"
        )
        assert done.returncode == 0, done.stderr
    assert dagster(project, "asset", "materialize", "--select", "orders").returncode == 0
    sql = "SELECT (SELECT count() FROM events), (SELECT count() FROM orders)"
    assert query(project, sql, "--to", "warehouse") == ["2", "1"]
    (project.folder / "orders/1.csv").unlink()
    failed = dagster(project, "asset", "materialize", "--select", "orders")
    assert failed.returncode != 0
    assert "no file matches" in failed.stderr
    assert server.password not in done.stderr + failed.stderr


def test_a_run_that_is_ended_ends_its_load(project: ProjectFolder) -> None:
    """A load with a hook that waits: SIGTERM, and SIGKILL, which nothing can pass on."""
    project.csv("orders/1.csv", "1,2.5")
    pid = project.folder / "pid"
    project.toml(
        '[loads.orders]\nsource = "orders/*.csv"\ntable = "orders"\n'
        f'before = {{ command = ["sh", "-c", "echo $PPID > {pid}; sleep 600"] }}\n'
    )
    (project.folder / "defs.py").write_text(DEFINITIONS[: DEFINITIONS.index("days =")] + (
        DEFINITIONS[DEFINITIONS.index('@rowfall_assets(Path(__file__).with_name("rowfall.toml"))'):]
        .replace("[by_day, others]", "[others]")
    ))  # fmt: skip
    for how in (signal.SIGTERM, signal.SIGKILL):
        pid.unlink(missing_ok=True)
        command = [Path(sys.executable).with_name("dagster"), "asset", "materialize", "--select",
                   "orders", "-f", "defs.py"]  # fmt: skip
        with subprocess.Popen(command, cwd=project.folder, stderr=subprocess.DEVNULL) as process:
            try:
                deadline = time.monotonic() + 250  # Dagster starts two processes
                while not (pid.exists() and pid.read_text().strip()):
                    assert time.monotonic() < deadline
                    threading.Event().wait(0.1)
                load = int(pid.read_text())
                step = process.pid
                if how == signal.SIGKILL:  # the process of the step
                    parent = Path(f"/proc/{load}/stat").read_text().rpartition(")")[2].split()[1]
                    step = int(parent)
                os.kill(step, how)
                deadline = time.monotonic() + 60  # the hook alone would take 600
                while Path(f"/proc/{load}").exists():
                    assert time.monotonic() < deadline, f"still there after {how.name}"
                    threading.Event().wait(0.1)
            finally:
                process.kill()
