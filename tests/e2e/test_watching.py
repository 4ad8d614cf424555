"""``deploy/prometheus`` and ``deploy/grafana``: rules and dashboard by a real Prometheus."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rowfall
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.kafka import Kafka
from lab.packages import packages
from lab.process import free_ports, wait_until
from lab.prometheus import Prometheus, promtool
from rowfall.core.events import PartsCounted
from rowfall.telemetry.figures import METRICS, Figures
from rowfall.telemetry.open import Watching, watched
from rowfall.telemetry.prometheus import MetricsServer

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus/rowfall.rules.yml"
DASHBOARD = json.loads((DEPLOY / "grafana/rowfall.json").read_text())
GRAFANA = Path(__file__).parents[1] / "lab/grafana.txt"
NAME = re.compile(r"\browfall_\w+")


def panels() -> Iterator[tuple[str, str]]:
    """Title and expression of each query of the dashboard."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def exported() -> set[str]:
    """The names that a scrape may hold."""
    found = set()
    for metric in METRICS.values():
        name = f"rowfall_{metric.name}"
        found |= {
            "counter": {f"{name}_total"},
            "gauge": {name},
            "histogram": {f"{name}_{part}" for part in ("bucket", "sum", "count")},
        }[metric.kind]
    return found


def test_the_rules_pass_their_own_tests() -> None:
    done = promtool("test", "rules", DEPLOY / "prometheus/rowfall.rules.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert promtool("check", "config", DEPLOY / "prometheus/prometheus.yml").returncode == 0
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tests = (RULES.parent / "rowfall.rules.test.yml").read_text()
    assert set(alerts) == set(re.findall(r"alertname: (\w+)", tests))


def test_promtool_finds_nothing_wrong_with_the_metrics() -> None:
    """Every metric with a value, by the linter of Prometheus' naming rules."""
    import urllib.request

    figures = Figures()
    for metric in METRICS.values():
        labels = ("p", "t", *("x" for _ in metric.labels))
        if metric.kind == "histogram":
            figures.observe(metric.name, 1.0, labels)
        else:
            figures.add(metric.name, 1, labels)
    server = MetricsServer(figures, "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(server.url, timeout=10) as answer:
            text = answer.read().decode()
    finally:
        server.close()
    done = promtool("check", "metrics", stdin=text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_rules_and_dashboard_name_what_is_exported() -> None:
    names = {name for _, expr in panels() for name in NAME.findall(expr)}
    assert names <= exported()
    assert set(NAME.findall(RULES.read_text())) <= exported()
    left = exported() - names
    assert left <= {
        "rowfall_build_info", "rowfall_read_bytes_total",
        *(n for n in left if n.endswith(("duration_seconds_sum", "duration_seconds_count"))),
    }, "what is measured is shown"  # fmt: skip


def test_the_dashboard_goes_by_its_variables() -> None:
    variables = {v["name"]: v for v in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            for target in panel["targets"]:
                assert target["datasource"]["uid"] == "${datasource}"
                used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
                assert used <= variables.keys()
                assert "job" in used
    assert "- job_name: rowfall " in (DEPLOY / "prometheus/prometheus.yml").read_text()


def lost(given: Any, taken: Any, path: str = "") -> list[str]:
    """Return the places of what is not the same in two documents."""
    if isinstance(given, dict) and isinstance(taken, dict):
        places = (lost(v, taken[k], f"{path}.{k}") if k in taken else [f"{path}.{k}"]
                  for k, v in given.items())  # fmt: skip
    elif isinstance(given, list) and isinstance(taken, list) and len(given) == len(taken):
        places = (lost(v, taken[n], f"{path}[{n}]") for n, v in enumerate(given))
    else:
        return [] if given == taken else [path]
    return [place for some in places for place in some]


@pytest.mark.long
def test_grafana_knows_every_field_of_the_dashboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Grafana's own classes of its documents: what they do not know is not there any more."""
    monkeypatch.syspath_prepend(str(packages(GRAFANA)))
    load = importlib.import_module
    load("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    read = load("grafana_foundation_sdk.models.dashboard").Dashboard.from_json
    encoder = load("grafana_foundation_sdk.cog.encoder").JSONEncoder()

    def unknown(document: dict[str, Any]) -> list[str]:
        return lost(document, json.loads(encoder.encode(read(document))))

    # Which Grafana writes itself, for its editor of variables.
    known = {f".templating.list[{n}].definition" for n in range(4)}
    assert set(unknown(DASHBOARD)) <= known
    wrong = json.loads(json.dumps(DASHBOARD).replace('"gridPos"', '"gridpos"', 1))
    assert set(unknown(wrong)) - known == {".panels[0].gridpos"}


def filled(expression: str) -> str:
    """The query as Grafana sends it with everything chosen."""
    for name, value in (("__rate_interval", "30s"), ("__range", "5m"), ("job", ".*"),
                        ("pipeline", ".*"), ("table", ".*")):  # fmt: skip
        expression = expression.replace(f"${name}", value)
    return expression


@pytest.mark.long  # a broker, a server, a Prometheus, and a load that is followed and scraped
def test_no_panel_is_empty_and_alerts_fire(
    shell: Shell, kafka: Kafka, clickhouse: ClickHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loads of files with an error among them, and a followed topic, both into a server."""
    monkeypatch.chdir(shell.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(shell.folder / "state"))
    clickhouse.query("CREATE DATABASE watching")
    to = clickhouse.uri("watching")
    topic = kafka.create(partitions=2)
    kafka.send(topic, [b'{"id": %d}' % n for n in range(1000)], 0)
    files, followed = free_ports(2)
    stream = shell.cli.start(
        "load", f"kafka://{kafka.servers}/{topic}", "--format", "NDJSON", "--to", to, "--table",
        "clicks", "--follow", "--metrics-port", str(followed),
    )  # fmt: skip
    assert stream.stderr is not None
    threading.Thread(target=stream.stderr.read, daemon=True).start()
    targets = [f"127.0.0.1:{port}" for port in (files, followed)]
    rules = shell.folder / "rules.yml"
    # As they are, but for how long something has to last.
    rules.write_text(re.sub(r"for: \d+m", "for: 1s", RULES.read_text()).replace("[15m]", "[60s]"))
    with (
        Prometheus(targets, [rules]) as prometheus,
        watched(lambda _: None, Watching(files)) as tell,
    ):
        load_files(to, files, 0)
        wait_until(lambda: prometheus.value("rowfall_rows_total{table='watching.files'}") == 20,
                   60, "the first scrape")  # fmt: skip
        for number in range(1, 4):
            load_files(to, files, number)
            kafka.send(topic, [b'{"id": %d}' % n for n in range(1000)], number % 2)
        wait_until(
            lambda: prometheus.value("sum(rowfall_rows_total{table='watching.clicks'})") == 4000,
            60, "the topic",
        )  # fmt: skip
        empty: dict[str, str] = {}

        def full() -> bool:
            empty.clear()
            empty.update({
                expr: title for title, expr in panels() if not prometheus.query(filled(expr))
            })  # fmt: skip
            return not empty

        with contextlib.suppress(Exception):
            wait_until(full, 60, "all panels")
        assert empty == {}
        assert {rule["health"] for rule in prometheus.rules()} == {"ok"}
        assert "RowfallPartsNearLimit" not in firing(prometheus)
        # A table so full would take minutes to make: what a load would say of it is enough.
        tell(PartsCounted("watching.files", 950, 1000))
        wanted = {"RowfallErrors", "RowfallPartsNearLimit"}
        wait_until(lambda: wanted <= firing(prometheus).keys(), 60, "alerts of errors and parts")
        assert "RowfallDown" not in firing(prometheus)
        stream.send_signal(signal.SIGINT)
        assert stream.wait(30) == 0
        wait_until(lambda: "RowfallDown" in firing(prometheus), 60, "the alert of a stopped one")


def firing(prometheus: Prometheus) -> dict[str, str]:
    return {name: state for name, state in prometheus.alerts().items() if state == "firing"}


def load_files(to: str, port: int, number: int) -> None:
    """Load two files of ten rows and one that is bad, with rejected rows, into a server."""
    folder = Path(f"in{number}")
    folder.mkdir()
    for name in ("a", "b"):
        lines = "".join(f"{n},x\n" for n in range(10))
        (folder / f"{name}.csv").write_text(f"id,name\n{lines}")
    (folder / "bad.csv").write_text("id,name\nx,y\n")
    options: dict[str, Any] = {"table": "files", "schema": "id UInt32, name String"}
    with contextlib.suppress(rowfall.LoadError):
        rowfall.load(f"in{number}/*.csv", to=to, metrics_port=port, **options)
