"""Serve the figures to Prometheus: ``--metrics-port``."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from rowfall.core import extras
from rowfall.core.errors import UsageError
from rowfall.telemetry.figures import (
    BOUNDS,
    COUNTER,
    HISTOGRAM,
    Durations,
    Figures,
    Labels,
    Metric,
    Value,
)

if TYPE_CHECKING:
    from prometheus_client import Metric as Family

LOCAL = "127.0.0.1"
COMMON = ("pipeline", "table")
# Prometheus gives up after ten seconds by default (scrape_timeout).
REQUEST_SECONDS = 10.0


class Collector:
    """Gives the figures as families of the official client, when they are asked for."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Family]:
        for metric, values in self._figures.read():
            if values:
                yield _family(metric, values)


class MetricsServer:
    """A server of ``/metrics``.

    Args:
        host, port: to listen on; port 0 is a free one.

    Attributes:
        url: of the metrics.

    Raises:
        UsageError: prometheus-client is not installed, the port is in use or not this user's to
            take, or the host is none of this machine.
    """

    def __init__(self, figures: Figures, host: str, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
            from prometheus_client.process_collector import ProcessCollector
        except ModuleNotFoundError:
            raise extras.missing("--metrics-port needs prometheus-client", "metrics") from None
        registry = CollectorRegistry()
        registry.register(Collector(figures))
        ProcessCollector(registry=registry)
        kind = _Server6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, make_wsgi_app(registry), kind, _Handler)
        except (OSError, OverflowError) as error:
            said = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot serve metrics on {_at(host, port)}: {said}",
                hint="Take another port with --metrics-port; 0 is a free one.",
            ) from None
        self.port: int = self._server.server_address[1]
        self.url = f"http://{_at(host, self.port)}/metrics"
        # It looks ten times a second whether it is to stop; a load that has ended waits for that.
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: whoever scrapes may go at any time."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a scrape every 15 seconds is no news."""


def is_local(host: str) -> bool:
    """Tell whether nobody but this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _at(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _family(metric: Metric, values: dict[Labels, Value]) -> Family:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    kinds: dict[str, Any] = {COUNTER: CounterMetricFamily, HISTOGRAM: HistogramMetricFamily}
    name, names = f"rowfall_{metric.name}", (*COMMON, *metric.labels)
    family: Family = kinds.get(metric.kind, GaugeMetricFamily)(name, metric.help)
    for labels, value in values.items():
        # An empty label is none: Prometheus takes both for the same.
        shown = {k: v for k, v in zip(names, labels, strict=True) if v}
        if isinstance(value, Durations):
            total = 0
            for bound, count in zip((*map(str, BOUNDS), "+Inf"), value.counts, strict=True):
                total += count
                family.add_sample(f"{name}_bucket", shown | {"le": bound}, total)
            family.add_sample(f"{name}_count", shown, total)
            family.add_sample(f"{name}_sum", shown, value.sum)
        else:
            family.add_sample(f"{name}_total" if metric.kind == COUNTER else name, shown, value)
    return family
