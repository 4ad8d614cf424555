"""Who watches a load never ends it, and costs nothing where nobody has asked for it."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path

import pytest

from rowfall.core.errors import SourceError, UsageError
from rowfall.core.events import Doing, Event, LoadPlanned, LoadStarted, Note
from rowfall.core.listing import Listing
from rowfall.telemetry import open as opening
from rowfall.telemetry.open import Watching, wants_lineage, wants_otlp, watched
from unit.telemetry.plans import plan_of

EXPORTERS = ("prometheus_client", "opentelemetry", "openlineage", "rowfall.telemetry.figures")


@pytest.fixture(autouse=True)
def _nothing_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OPENLINEAGE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_without_the_option_the_listener_is_the_same() -> None:
    heard: list[Event] = []
    emit = heard.append
    with watched(emit, Watching()) as listener:
        assert listener is emit


@pytest.mark.parametrize(
    ("env", "otlp"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_what_turns_otlp_on(env: dict[str, str], otlp: bool) -> None:
    assert wants_otlp(env) is otlp


def test_what_turns_lineage_on(tmp_path: Path) -> None:
    assert not wants_lineage({})
    assert wants_lineage({"OPENLINEAGE_URL": "http://m:5000"})
    assert wants_lineage({"OPENLINEAGE__TRANSPORT__TYPE": "file"})
    assert not wants_lineage({"OPENLINEAGE_URL": "http://m", "OPENLINEAGE_DISABLED": "true"})
    Path("openlineage.yml").write_text("transport: {type: noop}\n")
    assert wants_lineage({})
    Path("openlineage.yml").unlink()
    (tmp_path / ".openlineage").mkdir()
    (tmp_path / ".openlineage/openlineage.yml").write_text("transport: {type: noop}\n")
    assert wants_lineage({})


def metrics(heard: list[Event]) -> str:
    (said,) = [e.text for e in heard if isinstance(e, Note) and e.text.startswith("metrics: ")]
    with urllib.request.urlopen(said.removeprefix("metrics: "), timeout=10) as answer:
        return str(answer.read().decode())


def test_metrics_are_served_from_the_first_moment() -> None:
    heard: list[Event] = []
    with watched(heard.append, Watching(0, pipeline="clicks")) as emit:
        assert "rowfall_build_info" in metrics(heard)
        emit(Doing("x"))
        listing = Listing()
        listing.add("/in/a.csv", "1", 9)
        emit(LoadPlanned("a", plan_of(listing)))
        emit(LoadStarted("a", "s", "t", "shop.orders", 1, 0, 9, None))
        text = metrics(heard)
    assert 'rowfall_running_loads{pipeline="clicks",table="shop.orders"} 1.0' in text
    assert heard[1] == Doing("x"), "others hear it, too"


def test_two_loads_of_a_process_share_a_port() -> None:
    from lab.process import free_ports

    (port,) = free_ports(1)
    heard: list[Event] = []
    with watched(heard.append, Watching(port)):
        with watched(lambda _: None, Watching(port)):
            pass
        assert "rowfall_build_info" in metrics(heard), "the first one still serves"
    with pytest.raises(OSError, match="refused"):
        metrics(heard)


def test_another_address_is_warned_about() -> None:
    heard: list[Event] = []
    with watched(heard.append, Watching(0, "0.0.0.0")):  # noqa: S104 - what is warned about
        pass
    (warning,) = [e.text for e in heard if isinstance(e, Note) and e.level == "warning"]
    assert "without a password" in warning


def test_a_port_in_use_is_an_error_before_the_load() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match="Address already in use"),
            watched(lambda _: None, Watching(port)),
        ):
            raise AssertionError("it began")
    # A server that could not be opened is not kept as if it were open.
    with watched(lambda _: None, Watching(port)):
        pass


def test_what_listens_and_fails_does_not_end_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def hear(self, event: Event) -> None:
            raise ValueError("no\nmore")

        def close(self, error: BaseException | None) -> None:
            raise AssertionError("it is gone")

    monkeypatch.setattr(opening, "_Counted", lambda *_: Broken())
    heard: list[Event] = []
    with watched(heard.append, Watching(0)) as emit:
        emit(Doing("1"))
        emit(Doing("2"))
    assert [e.text for e in heard if isinstance(e, Doing)] == ["1", "2"]
    (warning,) = [e.text for e in heard if isinstance(e, Note) and e.level == "warning"]
    assert warning == "broken ends: ValueError: no"


def test_an_error_before_the_first_run_is_counted() -> None:
    heard: list[Event] = []
    with watched(heard.append, Watching(0)):
        with pytest.raises(SourceError), watched(lambda _: None, Watching(0, pipeline="late")):
            raise SourceError("no such bucket", code=499)
        text = metrics(heard)
    assert 'rowfall_errors_total{code="499",exit="4",of="load",pipeline="late"} 1.0' in text


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("OTEL_EXPORTER_OTLP_ENDPOINT", "opentelemetry", "otel"),
     ("OPENLINEAGE_URL", "openlineage", "openlineage")],
)  # fmt: skip
def test_a_library_that_is_missing_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, name: str, library: str, extra: str
) -> None:
    for module in [m for m in sys.modules if m.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    heard: list[Event] = []
    with watched(heard.append, Watching()) as emit:
        emit(Doing("x"))
    assert heard[1] == Doing("x")
    (warning,) = [e.text for e in heard if isinstance(e, Note) and e.level == "warning"]
    assert warning.startswith(f"{name} is set and {library}")
    assert f"install 'rowfall[{extra}]'" in warning
