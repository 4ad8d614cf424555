"""What Prometheus reads: its text format, by the parser of the official client."""

from __future__ import annotations

import socket
import sys
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rowfall.core.errors import UsageError
from rowfall.telemetry.figures import BOUNDS, Figures
from rowfall.telemetry.prometheus import MetricsServer, is_local


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def server(figures: Figures) -> Iterator[MetricsServer]:
    server = MetricsServer(figures, "127.0.0.1", 0)
    yield server
    server.close()


def scraped(server: MetricsServer) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    with urllib.request.urlopen(server.url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_counted_is_scraped(figures: Figures, server: MetricsServer) -> None:
    figures.add("rows", 7, ("", "shop.orders"))
    figures.set("lag_offsets", 3, ("clicks", "t", 'top"ic', "0"))
    figures.observe("load_duration_seconds", 0.3, ("", "t"))
    figures.observe("load_duration_seconds", 1e9, ("", "t"))
    found = scraped(server)
    assert found["rowfall_rows_total", frozenset({("table", "shop.orders")})] == 7
    labels = {"pipeline": "clicks", "table": "t", "topic": 'top"ic', "partition": "0"}
    assert found["rowfall_lag_offsets", frozenset(labels.items())] == 3
    buckets = [
        found["rowfall_load_duration_seconds_bucket", frozenset({("table", "t"), ("le", le)})]
        for le in (*map(str, BOUNDS), "+Inf")
    ]
    assert buckets == [0, 0, *[1] * (len(BOUNDS) - 2), 2]
    assert found["rowfall_load_duration_seconds_count", frozenset({("table", "t")})] == 2
    assert any(name == "rowfall_build_info" for name, _ in found)
    memory = found["rowfall_memory_bytes", frozenset({("process", "rowfall")})]
    assert memory == pytest.approx(found["process_resident_memory_bytes", frozenset()], rel=0.1)


def test_a_port_that_is_in_use(figures: Figures, server: MetricsServer) -> None:
    where = f"127.0.0.1:{server.port}"
    with pytest.raises(UsageError, match=f"cannot serve metrics on {where}: Address") as refused:
        MetricsServer(figures, "127.0.0.1", server.port)
    assert "--metrics-port" in str(refused.value.hint)


def test_a_host_that_is_none_of_this_machine(figures: Figures) -> None:
    with pytest.raises(UsageError, match=r"cannot serve metrics on 192\.0\.2\.1:0: "):
        MetricsServer(figures, "192.0.2.1", 0)


def test_without_the_client_the_error_says_what_to_install(
    figures: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match="--metrics-port needs prometheus-client") as refused:
        MetricsServer(figures, "127.0.0.1", 0)
    assert "install 'rowfall[metrics]'" in str(refused.value.hint)


def test_the_port_is_free_after_the_load(figures: Figures) -> None:
    server = MetricsServer(figures, "127.0.0.1", 0)
    server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
    MetricsServer(figures, "127.0.0.1", server.port).close()


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False),  # noqa: S104 - nothing is bound
     ("::", False), ("10.0.0.5", False), ("metrics.example", False)],
)  # fmt: skip
def test_who_reaches_an_address(host: str, local: bool) -> None:
    assert is_local(host) is local
