"""Traces and metrics by OTLP, as a receiver of the official protocol reads them."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.otelcol import Receiver
from lab.process import wait_until
from rowfall.core.errors import Interrupted, SourceError
from rowfall.core.events import (
    AttemptEnded,
    Event,
    Listener,
    LoadEnded,
    LoadPlanned,
    LoadStarted,
    Note,
    Progressed,
    RunBegan,
    RunEnded,
    StageEnded,
)
from rowfall.core.listing import Listing
from rowfall.core.results import AttemptRecord, Report
from rowfall.telemetry import otlp
from rowfall.telemetry.figures import METRICS
from rowfall.telemetry.open import Watching, watched
from unit.telemetry.plans import plan_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if "receiver" in request.fixturenames:
        url = request.getfixturevalue("receiver").url
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)


def run(table: str = "shop.orders", *, exit: int = 0) -> Iterator[Event]:
    """A load of one file in two attempts, the first of which fails."""
    listing = Listing()
    listing.add("s3://lake/a.csv", "etag", 100)
    target = "clickhouse://me:[HIDDEN]@host:8123/shop"
    yield RunBegan("f00", "https://lake/a.csv?token=hunter22", target, table, False)
    yield LoadPlanned("f00", plan_of(listing, table=table.partition(".")[2]))
    yield StageEnded("plan", 0.25)
    yield LoadStarted("f00", "s", "t", table, 1, 0, 100, None)
    failed = AttemptRecord(
        "f00_1", 1, "a", seconds=0.5, outcome="failed", error="no: http://u:pw@h/?sig=hunter22"
    )
    yield AttemptEnded(failed, (("deliver", 0.5),), 6, 241)
    yield Progressed(10, 100, 3, 1 << 20, 1.0)
    done = AttemptRecord("f00_2", 1, "a", 10, 100, 50, 2, seconds=1.0)
    yield AttemptEnded(done, (("lease", 0.125), ("deliver", 0.625), ("publish", 0.25)))
    yield LoadEnded("f00", "done")
    report = Report("f00", "done", "s", "t", table, "", rows=10)
    yield RunEnded("f00", report, "rows differ" if exit else "", exit)


def exported(*events: Event, **asked: str) -> list[Event]:
    heard: list[Event] = []
    with watched(heard.append, Watching(**asked)) as emit:  # type: ignore[arg-type]
        for event in events:
            emit(event)
    return heard


def test_a_run_is_a_trace(receiver: Receiver) -> None:
    exported(*run(), pipeline="nightly")
    spans = receiver.spans()
    ids = {span["spanId"]: span["name"] for span in spans}
    assert len({span["traceId"] for span in spans}) == 1
    inside = sorted((ids.get(s.get("parentSpanId", ""), ""), s["name"]) for s in spans)
    assert inside == [
        ("", "load"), ("attempt", "deliver"), ("attempt", "deliver"), ("attempt", "lease"),
        ("attempt", "publish"), ("load", "attempt"), ("load", "attempt"), ("load", "plan"),
    ]  # fmt: skip
    (load,) = [span for span in spans if span["name"] == "load"]
    attributes = load["attributes"]
    assert (attributes["rowfall.load_id"], attributes["rowfall.table"]) == ("f00", "shop.orders")
    assert attributes["rowfall.pipeline"] == "nightly"
    assert {k: attributes[f"rowfall.{k}"] for k in ("rows", "bytes", "files_loaded", "files")} == {
        "rows": 10, "bytes": 100, "files_loaded": 1, "files": 1,
    }  # fmt: skip
    attempts = {s["attributes"]["rowfall.outcome"]: s for s in spans if s["name"] == "attempt"}
    first, second = attempts["failed"], attempts["published"]
    assert (first["status"]["code"], first["attributes"]["rowfall.error_code"]) in (
        (2, 241), ("STATUS_CODE_ERROR", 241),
    )  # fmt: skip
    assert "status" not in second or not second["status"]
    assert second["attributes"]["rowfall.rows"] == 10
    (publish,) = [span for span in spans if span["name"] == "publish"]
    length = int(publish["endTimeUnixNano"]) - int(publish["startTimeUnixNano"])
    assert length == pytest.approx(0.25e9, abs=1e6)
    assert int(publish["endTimeUnixNano"]) == pytest.approx(int(second["endTimeUnixNano"]), abs=1e6)


def test_no_secret_is_exported(receiver: Receiver) -> None:
    exported(*run())
    assert receiver.spans()
    assert "hunter22" not in receiver.text
    assert "u:pw" not in receiver.text


def test_metrics_are_the_same_numbers(receiver: Receiver) -> None:
    exported(*run("shop.otlp"))
    found = receiver.metrics()
    of = {"table": "shop.otlp"}

    def number(name: str, **labels: str) -> float:
        return next(value for attributes, value in found[name] if attributes == {**of, **labels})

    assert number("rowfall.rows") == 10
    assert number("rowfall.bytes") == 100
    assert number("rowfall.stage_seconds", stage="deliver") == 1.125
    assert number("rowfall.errors", of="attempt", exit="6", code="241") == 1
    assert number("rowfall.attempt_duration_seconds") == 2
    assert found.keys() <= {otlp.otel_name(metric) for metric in METRICS.values()}
    assert receiver.units()["rowfall.rows"] == "", "a collector would call it rowfall_rows_ratio"
    assert receiver.units()["rowfall.stage_seconds"] == "s"


def test_the_variables_are_honoured(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEPARENT", PARENT)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly-loads")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,team=lake")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    exported(*run())
    assert receiver.headers["authorization"] == "Bearer abc"
    for resource in receiver.resources():
        assert resource["service.name"] == "nightly-loads"
        assert (resource["team"], resource["deployment.environment"]) == ("lake", "test")
        assert resource["service.version"]
    (load,) = [span for span in receiver.spans() if span["name"] == "load"]
    assert (load["traceId"], load["parentSpanId"]) == tuple(PARENT.split("-")[1:3])


@pytest.mark.parametrize(
    ("variables", "name"),
    [({}, "rowfall"), ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=other"}, "other")],
)
def test_the_name_of_the_service(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    exported(*run())
    assert {resource["service.name"] for resource in receiver.resources()} == {name}


def test_one_signal_alone(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    exported(*run())
    assert receiver.spans()
    assert not receiver.metrics()
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    monkeypatch.delenv("OTEL_METRICS_EXPORTER")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{receiver.url}/v1/metrics")
    before = len(receiver.spans())
    exported(*run())
    assert (len(receiver.spans()), bool(receiver.metrics())) == (before, True)


def test_a_load_that_does_not_verify_has_failed(receiver: Receiver) -> None:
    exported(*run(exit=7))
    (load,) = [span for span in receiver.spans() if span["name"] == "load"]
    assert load["status"]["message"] == "rows differ"
    assert load["attributes"]["rowfall.exit_code"] == 7


def test_an_error_before_a_run_is_a_span(receiver: Receiver) -> None:
    with pytest.raises(SourceError), watched(lambda _: None, Watching()):
        raise SourceError("no bucket: http://h/?token=hunter22")
    # Exporters of tests before this one may still find theirs away, and then nothing is waited for.
    wait_until(receiver.spans, 20, "the span")
    (load,) = receiver.spans()
    assert load["status"]["message"].startswith("no bucket")
    assert "hunter22" not in receiver.text


# --- a collector that is away ---------------------------------------------------------------------


def warnings(heard: list[Event]) -> list[str]:
    return [e.text for e in heard if isinstance(e, Note) and e.level == "warning"]


def test_a_collector_that_refuses_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    began = time.monotonic()
    (warning,) = warnings(exported(*run()))
    assert time.monotonic() - began < otlp.EXIT_SECONDS
    assert warning.startswith(f"traces or metrics do not reach 127.0.0.1:{port}, the load goes on")
    assert capfd.readouterr().err == "", "the SDK prints nothing by itself"
    assert not [h for h in logging.getLogger("opentelemetry").handlers if "Failures" in repr(h)]


def test_a_collector_that_hangs_costs_the_time_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "EXIT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        began = time.monotonic()
        (warning,) = warnings(exported(*run()))
        assert 0.25 < time.monotonic() - began < 1.5
        assert "no answer within 0.3 s at the end of the load" in warning


def test_after_ctrl_c_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "INTERRUPTED_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
        began = time.monotonic()
        with pytest.raises(Interrupted), watched(lambda _: None, Watching()) as emit:
            _interrupt(emit)
        assert time.monotonic() - began < 1.0


def _interrupt(emit: Listener) -> None:
    for event in run():
        emit(event)
    raise Interrupted("interrupted")


def test_an_answer_that_refuses_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver(401) as refusing:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refusing.url)
        (warning,) = warnings(exported(*run()))
    assert "code: 401" in warning
