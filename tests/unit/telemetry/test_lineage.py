"""Events of OpenLineage, as a receiver gets them and as the client's own classes take them."""

from __future__ import annotations

import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowfall.core.errors import Interrupted, SourceError
from rowfall.core.events import Event, Listener, LoadPlanned, Note, RunBegan, RunEnded
from rowfall.core.listing import Listing
from rowfall.core.results import Failure, Report
from rowfall.telemetry import lineage
from rowfall.telemetry.open import Watching, watched
from unit.telemetry.plans import plan_of

RUN = "0176a8c2-fe01-7439-87e6-56a1a1b4029f"


class Marquez:
    """What stands where Marquez would: it keeps the events of each request."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        marquez = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/api/v1/lineage"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                marquez.headers = dict(self.headers)
                marquez.events.append(json.loads(body))
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def states(self) -> list[str]:
        return [event["eventType"] for event in self.events]


@pytest.fixture
def marquez(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Marquez]:
    marquez = Marquez()
    clean(monkeypatch, tmp_path)
    monkeypatch.setenv("OPENLINEAGE_URL", marquez.url)
    yield marquez
    marquez.close()


def clean(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    import os

    # The client adds variables of its own to the environment.
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in [n for n in os.environ if n.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)


def listing() -> Listing:
    found = Listing()
    found.add("s3://lake/in/a.csv", "etag-a", 100)
    found.add("s3://lake/in/b.csv", "etag-b", 300)
    return found


def begin(load_id: str = "f00") -> RunBegan:
    return RunBegan(load_id, "s3://lake/in/*.csv", "clickhouse://host/shop", "shop.orders", False)


def run(load_id: str = "f00", outcome: str = "done", **ended: Any) -> Iterator[Event]:
    yield begin(load_id)
    yield LoadPlanned(load_id, plan_of(listing()))
    failures = (Failure("b.csv", "no"),) if outcome == "partial" else ()
    report = Report(
        load_id, outcome, "s", "t", "shop.orders", "", rows=10, bytes_written=50, splits_loaded=2,
        failures=failures,
    )  # fmt: skip
    yield RunEnded(load_id, report, **ended)


def sent(*events: Event, **asked: Any) -> list[Event]:
    heard: list[Event] = []
    with watched(heard.append, Watching(**asked)) as emit:
        tell(emit, *events)
    return heard


def tell(emit: Listener, *events: Event) -> None:
    for event in events:
        emit(event)


def warnings(heard: list[Event]) -> list[str]:
    return [e.text for e in heard if isinstance(e, Note) and e.level == "warning"]


def rebuilt(event: dict[str, Any]) -> None:
    """Make the client's own classes of an event; they refuse what the specification has not."""
    from openlineage.client import event_v2, facet_v2

    classes: dict[str, Any] = {
        "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
        "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
        "inputStatistics": facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
        "outputStatistics":
            facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
        "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
        "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
        "jobType": facet_v2.job_type_job.JobTypeJobFacet,
        "parent": facet_v2.parent_run.ParentRunFacet,
        "tags": facet_v2.tags_run.TagsRunFacet,  # the client adds its version
    }  # fmt: skip

    def facets(found: dict[str, Any]) -> None:
        for name, facet in found.items():
            own = {k: v for k, v in facet.items() if not k.startswith("_")}
            again = classes[name](**own)
            assert facet["_schemaURL"] == again._get_schema()
            assert facet["_producer"].startswith("https://pypi.org/project/rowfall/")

    facets(event["run"]["facets"])
    facets(event["job"]["facets"])
    for each in (*event["inputs"], *event["outputs"]):
        facets(each.get("facets", {}))
        facets({**each.get("inputFacets", {}), **each.get("outputFacets", {})})
    again = event_v2.RunEvent(
        eventTime=event["eventTime"], eventType=event_v2.RunState(event["eventType"]),
        run=event_v2.Run(event["run"]["runId"]),
        job=event_v2.Job(event["job"]["namespace"], event["job"]["name"]),
    )  # fmt: skip
    assert event["schemaURL"] == again.schemaURL


def test_a_load_from_start_to_end(marquez: Marquez) -> None:
    assert not warnings(sent(*run()))
    assert marquez.states == ["START", "RUNNING", "COMPLETE"]
    for event in marquez.events:
        rebuilt(event)
    assert len({event["run"]["runId"] for event in marquez.events}) == 1
    last = marquez.events[-1]
    assert last["job"]["namespace"] == "rowfall"
    assert last["job"]["name"] == "load.shop.orders"
    assert last["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    read = [(i["namespace"], i["name"], i["facets"]["version"]["datasetVersion"],
             i["inputFacets"]["inputStatistics"]["size"]) for i in last["inputs"]]  # fmt: skip
    assert read == [("s3://lake", "in/a.csv", "etag-a", 100),
                    ("s3://lake", "in/b.csv", "etag-b", 300)]  # fmt: skip
    (written,) = last["outputs"]
    assert (written["namespace"], written["name"]) == ("clickhouse://host:8123", "shop.orders")
    fields = [(f["name"], f["type"]) for f in written["facets"]["schema"]["fields"]]
    assert fields == [("id", "UInt32"), ("name", "String")]
    assert "outputStatistics" not in marquez.events[1]["outputs"][0]["outputFacets"]
    counted = written["outputFacets"]["outputStatistics"]
    assert (counted["rowCount"], counted["size"]) == (10, 50)


@pytest.mark.parametrize(
    ("outcome", "ended", "state", "error"),
    [
        ("partial", {}, "FAIL", "b.csv: no"),
        ("done", {"error": "rows differ", "exit": 7}, "FAIL", "rows differ"),
        ("failed", {"error": "away: http://h/?sig=hunter22", "exit": 5}, "FAIL", "away: "),
        ("interrupted", {"error": "interrupted", "exit": 130}, "ABORT", "interrupted"),
    ],
)
def test_how_a_load_ends(
    marquez: Marquez, outcome: str, ended: dict[str, Any], state: str, error: str
) -> None:
    sent(*run(outcome=outcome, **ended))
    assert marquez.states == ["START", "RUNNING", state]
    last = marquez.events[-1]
    rebuilt(last)
    assert last["run"]["facets"]["errorMessage"]["message"].startswith(error)
    assert "hunter22" not in json.dumps(marquez.events)


def test_a_resumed_load_keeps_its_run(marquez: Marquez) -> None:
    sent(*run(outcome="partial"))
    sent(*run())
    sent(*run("f01"))
    ids = [event["run"]["runId"] for event in marquez.events]
    assert ids[0] == ids[3]
    assert ids[6] != ids[0]


def test_the_environment_names_namespace_and_parents(
    marquez: Marquez, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "warehouse")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "abc")
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"http://airflow/prod/dag.task/{RUN}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"airflow/dag/{RUN}")
    sent(*run())
    assert marquez.headers["Authorization"] == "Bearer abc"
    (first, *_) = marquez.events
    assert first["job"]["namespace"] == "warehouse"
    parent = first["run"]["facets"]["parent"]
    assert parent["job"] == {"namespace": "http://airflow/prod", "name": "dag.task", "facets": {}}
    assert parent["run"]["runId"] == parent["root"]["run"]["runId"] == RUN
    assert parent["root"]["job"]["name"] == "dag"


def test_a_stream_is_one_run(marquez: Marquez) -> None:
    """Its batches are no runs of their own: one every two seconds would flood any service."""
    sent(*run("b1"), *run("b2"), *run("b3"), pipeline="clicks", streaming=True)
    assert marquez.states == ["START", "RUNNING", "COMPLETE"]
    for event in marquez.events:
        rebuilt(event)
        assert event["job"]["name"] == "clicks"
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    (written,) = marquez.events[-1]["outputs"]
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 30


def test_a_stream_that_ends_with_an_error(marquez: Marquez) -> None:
    with pytest.raises(SourceError), watched(lambda _: None, Watching(streaming=True)) as emit:
        _break(emit, SourceError("the topic is gone"), *run("b1"))
    assert marquez.states == ["START", "RUNNING", "FAIL"]
    assert marquez.events[-1]["run"]["facets"]["errorMessage"]["message"] == "the topic is gone"


def test_a_load_that_is_left_is_aborted(marquez: Marquez) -> None:
    with pytest.raises(Interrupted), watched(lambda _: None, Watching()) as emit:
        _break(emit, Interrupted("interrupted"), begin())
    assert marquez.states == ["START", "ABORT"]
    for event in marquez.events:
        rebuilt(event)


def _break(emit: Listener, error: Exception, *events: Event) -> None:
    tell(emit, *events)
    raise error


def test_the_file_of_the_client_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(monkeypatch, tmp_path)
    log = tmp_path / "events.json"
    Path("openlineage.yml").write_text(
        f"transport: {{type: file, log_file_path: {log}, append: true}}\n"
    )
    assert not warnings(sent(*run()))
    states = [json.loads(line)["eventType"] for line in log.read_text().splitlines()]
    assert states == ["START", "RUNNING", "COMPLETE"]


def test_a_file_that_is_wrong_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(monkeypatch, tmp_path)
    Path("openlineage.yml").write_text("transport: {type: carrier-pigeon}\n")
    (warning,) = warnings(sent(*run()))
    assert warning.startswith("OpenLineage gets no events, the load goes on: ")


def test_an_endpoint_that_hangs_costs_the_time_that_is_said(
    marquez: Marquez, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lineage, "EXIT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        (warning,) = warnings(sent(*run()))
        assert time.monotonic() - began < 1.5
    assert "no answer within 0.3 s at the end of the load" in warning
    assert capfd.readouterr().err == ""


def test_events_do_not_gather_without_end(marquez: Marquez) -> None:
    sender = lineage.Sender(lambda _: None, streaming=False)
    told = lineage.LineageEvent("RUNNING", "2026-11-27T00:00:00Z", RUN, "j")
    for _ in range(lineage.MOST_WAITING * 3):
        sender.put(told)
    assert sender._waiting.qsize() <= lineage.MOST_WAITING
    sender.close(0.0)
