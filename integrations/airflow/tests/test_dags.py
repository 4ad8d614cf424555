"""DAGs that the real ``airflow dags test`` runs, into folders and a real ClickHouse server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.clickhouse import Account, ClickHouse
from lab.postgresql import PostgresqlServer
from lab.seaweed import Seaweed

if TYPE_CHECKING:
    from conftest import Home

_ROWFALL = str(Path(sys.executable).with_name("rowfall"))


def wait(true: Callable[[], object], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def csv(path: Path, rows: int, start: int = 0) -> Path:
    lines = (f"{n},item {n % 100}\n" for n in range(start, start + rows))
    path.write_text("id,item\n" + "".join(lines))
    return path


def asked(sql: str, to: Path) -> str:
    return subprocess.run(
        [_ROWFALL, "query", sql, "--format", "TSV", "--to", str(to)],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip


def test_a_folder_is_loaded_by_templates_and_the_report_is_pushed(
    airflow: Home, tmp_path: Path
) -> None:
    csv(tmp_path / f"orders-{airflow.day}.csv", 1000)
    to = tmp_path / "data"
    arguments = (
        f"source='{tmp_path}/orders-{{{{ ds }}}}.csv', to='{to}',"
        "table='orders_{{ ds_nodash }}',"
        "options={'order_by': 'id', 'header': True, 'type': {'id': 'UInt64'}}"
    )
    said = airflow.run(arguments)
    assert airflow.task() == ("success", 1), said
    table = f"orders_{airflow.day.replace('-', '')}"
    assert asked(f"SELECT count(), sum(id), toTypeName(any(id)) FROM {table}", to) == (
        "1000\t499500\tUInt64"
    )
    result = airflow.result()
    assert (result["rows"], result["files"], result["outcome"]) == (1000, 1, "done")
    assert result["table"] == f"default.{table}"
    assert result["bytes"] == (tmp_path / f"orders-{airflow.day}.csv").stat().st_size
    assert result["seconds"] > 0
    assert len(result["load"]) >= 8
    assert "running " in said
    assert "1 file" in said  # what rowfall has said is in the log of the task
    assert airflow.loads() == []

    again = airflow.run(arguments)
    assert airflow.task() == ("success", 1), again
    result = airflow.result()
    assert (result["rows"], result["files"], result["files_loaded_before"]) == (0, 0, 1)


def test_a_server_is_loaded_by_its_connection_and_its_password_is_nowhere(
    airflow: Home, server: ClickHouse, tmp_path: Path
) -> None:
    account = Account("loader", "t0p-s3cret/&%-42")
    server.query(f"CREATE USER loader IDENTIFIED WITH sha256_password BY '{account.password}'")
    server.query("GRANT CURRENT GRANTS ON *.* TO loader")
    airflow.connect(
        "warehouse", conn_type="clickhouse", host="127.0.0.1", port=server.http_port,
        login=account.user, password=account.password, schema="lake",
        extra={"secure": False, "session_settings": {"max_threads": 2}},
    )  # fmt: skip
    csv(tmp_path / "a.csv", 500)
    said = airflow.run(
        f"source='{tmp_path}/*.csv', to_conn_id='warehouse', table='items',"
        "options={'verify': True}"
    )
    assert airflow.task() == ("success", 1), said
    assert server.query("SELECT count(), sum(id) FROM lake.items").split() == ["500", "124750"]
    assert airflow.result()["target"] == (
        f"clickhouse://loader@127.0.0.1:{server.http_port}/lake?max_threads=2"
    )
    # In no text of Airflow, and not in what anybody sees of the process: its arguments.
    assert account.password not in said
    assert "s3cret" not in said
    assert [path for path, text in airflow.texts() if b"s3cret" in text] == []


def test_a_load_that_is_killed_is_retried_and_each_row_is_there_once(
    airflow: Home, server: ClickHouse, tmp_path: Path
) -> None:
    for number in range(40):
        csv(tmp_path / f"{number:02}.csv", 5_000, number * 5_000)
    airflow.connect(
        "warehouse", conn_type="clickhouse", host="127.0.0.1", port=server.http_port,
        login=server.user, password=server.password, schema="lake",
    )  # fmt: skip
    run = airflow.start(
        f"source='{tmp_path}/*.csv', to_conn_id='warehouse', table='killed', retries=2,"
        "options={'attempt_bytes': '60KB', 'streams': 1}"
    )

    def some() -> bool:
        there = "1" in server.query("EXISTS lake.killed")
        return there and int(server.query("SELECT count() FROM lake.killed")) > 0

    wait(some, "nothing is loaded")
    (folder,) = airflow.loads()
    os.killpg(json.loads((folder / "pid").read_text())["pid"], signal.SIGKILL)
    time.sleep(0.5)
    seen = int(server.query("SELECT count() FROM lake.killed"))
    assert 0 < seen < 200_000  # it was killed in the middle
    said, _ = run.communicate(timeout=300)
    assert airflow.task() == ("success", 2), said
    assert "the load was lost" in said
    found = server.query("SELECT count(), uniqExact(id), sum(id) FROM lake.killed").split()
    assert found == ["200000", "200000", str(sum(range(200_000)))]


def test_bad_data_and_a_wrong_option_fail_without_a_retry(airflow: Home, tmp_path: Path) -> None:
    csv(tmp_path / "good.csv", 10)
    (tmp_path / "bad.csv").write_text("id,item\n1,a\nnone,b\n")
    said = airflow.run(
        f"source='{tmp_path}/*.csv', to='{tmp_path}/data', table='t', retries=3,"
        "options={'type': {'id': 'Int64'}}"
    )
    assert airflow.task() == ("failed", 1), said
    assert "bad.csv line 3 column" in said
    assert "the same load would fail again" in said
    assert asked("SELECT count() FROM t", tmp_path / "data") == "10"  # what is good is loaded

    said = airflow.run(f"source='{tmp_path}/none.csv', to='{tmp_path}/data', retries=3")
    assert airflow.task() == ("failed", 1), said
    assert "exit code 4: no such file" in said

    said = airflow.run(f"source='{tmp_path}', to='clickhouse://me:pw-in-dag@h/d', retries=3")
    assert airflow.task() == ("failed", 1), said
    assert "holds a password" in said


def test_a_deferred_load_runs_on_without_a_worker(
    airflow: Home, server: ClickHouse, tmp_path: Path, held: tuple[str, Path]
) -> None:
    command, go = held
    csv(tmp_path / "a.csv", 700)
    airflow.connect(
        "warehouse", conn_type="clickhouse", host="127.0.0.1", port=server.http_port,
        login=server.user, password=server.password, schema="lake",
    )  # fmt: skip
    run = airflow.start(
        f"source='{tmp_path}/*.csv', to_conn_id='warehouse', table='deferred', deferrable=True,"
        f"poll_seconds=0.1, rowfall='{command}'"
    )
    wait(lambda: airflow.loads() and (airflow.loads()[0] / "pid").exists(), "no load has begun")
    pid = json.loads((airflow.loads()[0] / "pid").read_text())["pid"]
    assert os.getsid(pid) == pid != os.getsid(run.pid)
    go.touch()
    said, _ = run.communicate(timeout=300)
    assert airflow.task() == ("success", 1), said
    assert "running trigger in line" in said
    assert "1 file" in said
    assert airflow.result()["rows"] == 700
    assert server.query("SELECT count() FROM lake.deferred").strip() == "700"


_WORKER = """\
import json, sys
from types import SimpleNamespace
from rowfall_airflow import RowfallOperator
instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)
operator = RowfallOperator(task_id="t", **json.loads(sys.argv[1]))
operator.log.info = lambda text, *values: print(text % values, file=sys.stderr)
print(json.dumps(operator.execute({"ti": instance})))
"""


def test_a_load_outlives_its_worker_and_the_next_one_finds_it(
    airflow: Home, tmp_path: Path, held: tuple[str, Path]
) -> None:
    """``airflow dags test`` makes a run of its own each time, so two workers are made here."""
    command, go = held
    csv(tmp_path / "a.csv", 300)
    values = json.dumps(
        {"source": f"{tmp_path}/a.csv", "to": f"{tmp_path}/data", "table": "t", "rowfall": command}
    )

    def worker() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _WORKER, values], env=airflow.environment, cwd=tmp_path,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    first = worker()
    wait(lambda: airflow.loads() and (airflow.loads()[0] / "pid").exists(), "no load has begun")
    load = json.loads((airflow.loads()[0] / "pid").read_text())["pid"]
    first.kill()
    first.communicate()
    os.kill(load, 0)  # it lives

    second = worker()
    assert second.stderr is not None
    wait(lambda: "an earlier try" in second.stderr.readline(), "the load is not found")
    go.touch()
    printed, said = second.communicate(timeout=120)
    # The report is that of the load itself; a second one would have found nothing to do.
    assert json.loads(printed.splitlines()[-1])["rows"] == 300, said
    assert asked("SELECT count() FROM t", tmp_path / "data") == "300"
    assert airflow.loads() == []


def test_sources_by_connections_of_postgresql_and_s3(airflow: Home, tmp_path: Path) -> None:
    with PostgresqlServer() as database:
        with database.connect() as shop:
            shop.execute("CREATE TABLE orders (id int PRIMARY KEY, price numeric(9, 2))")
            shop.execute("INSERT INTO orders SELECT n, n / 4.0 FROM generate_series(1, 900) AS n")
        airflow.connect(
            "shop", conn_type="postgres", host="127.0.0.1", port=database.port,
            login=database.user, password=database.password, schema=database.database,
        )  # fmt: skip
        said = airflow.run(f"source='orders', source_conn_id='shop', to='{tmp_path}/data'")
    assert airflow.task() == ("success", 1), said
    assert asked("SELECT count(), sum(price) FROM orders", tmp_path / "data") == "900\t101362.5"
    assert database.password not in said

    with Seaweed() as store:
        store.create_bucket("lake")
        store.put("lake", "in/a.csv", b"id,x\n1,a\n2,b\n")
        airflow.connect(
            "bucket", conn_type="aws", login=store.access_key, password=store.secret_key,
            extra={"endpoint_url": store.endpoint, "region_name": "us-east-1"},
        )  # fmt: skip
        said = airflow.run(
            "source='s3://lake/in/*.csv', source_conn_id='bucket',"
            f"to='{tmp_path}/data', table='from_s3'"
        )
    assert airflow.task() == ("success", 1), said
    assert asked("SELECT count() FROM from_s3", tmp_path / "data") == "2"
    assert store.secret_key not in said


def test_openlineage_names_the_data_sets_with_rows_and_bytes(airflow: Home, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    airflow.environment["AIRFLOW__OPENLINEAGE__TRANSPORT"] = json.dumps(
        {"type": "file", "log_file_path": str(events), "append": True}
    )
    path = csv(tmp_path / "a.csv", 20)
    said = airflow.run(f"source='{path}', to='{tmp_path}/data', table='t'")
    assert airflow.task() == ("success", 1), said
    told = [json.loads(line) for line in events.read_text().splitlines()]
    (done,) = [
        event for event in told
        if event["eventType"] == "COMPLETE" and event["job"]["name"] == "loads.load"
    ]  # fmt: skip
    (read,), (written,) = done["inputs"], done["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(path))
    assert read["inputFacets"]["inputStatistics"]["size"] == path.stat().st_size
    assert (written["namespace"], written["name"]) == ("file", f"{tmp_path}/data/default.t")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 20


def test_the_dag_of_the_guide_runs(airflow: Home, server: ClickHouse, tmp_path: Path) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "airflow.md"
    dag = guide.read_text().split("```py\n")[1].split("```")[0]
    assert "/data/orders" in dag
    (tmp_path / airflow.day).mkdir()
    csv(tmp_path / airflow.day / "a.csv", 50)
    dag = dag.replace("/data/orders", str(tmp_path)).replace("*.csv.gz", "*.csv")
    airflow.connect(
        "warehouse", conn_type="clickhouse", host="127.0.0.1", port=server.http_port,
        login=server.user, password=server.password, schema="lake",
    )  # fmt: skip
    said = airflow.run_dag("orders", dag)
    assert airflow.task("orders") == ("success", 1), said
    assert server.query("SELECT count() FROM lake.orders").strip() == "50"
