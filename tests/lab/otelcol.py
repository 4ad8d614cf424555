"""A real OpenTelemetry collector, built of its Go modules, and what gets its exports.

The collector takes OTLP as rowfall sends it and passes it on as JSON to a :class:`Receiver`, which
takes exports without a collector as well.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from lab.process import Service, ServiceError, free_ports, reachable

_SOURCE = Path(__file__).parent / "otelcol_src"
_CONFIG = """receivers:
  otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}
exporters:
  otlphttp:
    {{endpoint: "{to}", encoding: json, compression: none, sending_queue: {{enabled: false}}}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlphttp]}}
    metrics: {{receivers: [otlp], exporters: [otlphttp]}}
"""


class Collector(Service):
    """One private collector.

    Attributes:
        url: for ``OTEL_EXPORTER_OTLP_ENDPOINT``.
    """

    name = "otelcol"

    def __init__(self, to: str) -> None:
        """``to``: address of the :class:`Receiver`."""
        super().__init__()
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._config = self.folder / "config.yaml"
        self._config.write_text(_CONFIG.format(port=self._port, to=to))
        self._own(self._config)

    def command(self) -> Sequence[str | Path]:
        return [reachable(binary()), f"--config=file:{self._config}"]

    def healthy(self) -> bool:
        import socket

        with socket.create_connection(("127.0.0.1", self._port), timeout=2):
            return True


def binary() -> Path:
    """Return the program, built once for a machine: three minutes of two cores."""
    sources = sorted(_SOURCE.iterdir())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "rowfall-lab")
    cache.mkdir(parents=True, exist_ok=True)
    found = cache / f"otelcol-{digest}"
    with (cache / "otelcol.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found.exists():
            return found
        go = shutil.which("go")
        if go is None:
            raise ServiceError("the collector is built by go, which is not there")
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            for path in sources:
                shutil.copy(path, folder)
            done = subprocess.run(
                [go, "build", "-o", "otelcol", "."],
                cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise ServiceError(f"go cannot build the collector: {done.stderr[-1000:]}")
            Path(folder, "otelcol").rename(found)
    return found


class Receiver:
    """Takes exports, of a collector as JSON or of an exporter as protobuf.

    Args:
        answers: status of each answer.

    Attributes:
        url: for ``OTEL_EXPORTER_OTLP_ENDPOINT``. ``headers``: of the last request.
    """

    def __init__(self, answers: int = 200) -> None:
        self.headers: dict[str, str] = {}
        self._requests: list[tuple[str, dict[str, Any]]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.headers = {k.lower(): v for k, v in self.headers.items()}
                receiver._requests.append((self.path, _decoded(self.path, body, self.headers)))
                self.send_response(answers)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def text(self) -> str:
        """Everything that came, as JSON."""
        return json.dumps(self._requests)

    def resources(self) -> list[dict[str, Any]]:
        """Attributes of the resource of each request."""
        return [
            _attributes(each["resource"]) for _, body in self._requests
            for key in ("resourceSpans", "resourceMetrics") for each in body.get(key, ())
        ]  # fmt: skip

    def spans(self) -> list[dict[str, Any]]:
        """All spans, with ``attributes`` as a mapping, in the order of their beginning."""
        found = [
            {**span, "attributes": _attributes(span)}
            for span in self._inside("resourceSpans", "scopeSpans", "spans")
        ]
        return sorted(found, key=lambda span: int(span["startTimeUnixNano"]))

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """The last (attributes, value) of each metric; of a histogram its count."""
        found = {}
        for metric in self._inside("resourceMetrics", "scopeMetrics", "metrics"):
            kind = next(k for k in ("sum", "gauge", "histogram") if k in metric)
            found[metric["name"]] = [
                (_attributes(point), float(
                    point.get("asDouble", point.get("asInt", point.get("count", 0)))
                ))
                for point in metric[kind]["dataPoints"]
            ]  # fmt: skip
        return found

    def units(self) -> dict[str, str]:
        """The unit of each metric."""
        every = self._inside("resourceMetrics", "scopeMetrics", "metrics")
        return {metric["name"]: metric.get("unit", "") for metric in every}

    def _inside(self, resources: str, scopes: str, items: str) -> Iterator[dict[str, Any]]:
        for _, body in list(self._requests):
            for resource in body.get(resources, ()):
                for scope in resource[scopes]:
                    yield from scope[items]


def _decoded(path: str, body: bytes, headers: Any) -> dict[str, Any]:
    if headers["Content-Type"] == "application/json":
        found: dict[str, Any] = json.loads(body)
        return found
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

    kind: Any = metrics_service_pb2.ExportMetricsServiceRequest
    if path.endswith("/v1/traces"):
        kind = trace_service_pb2.ExportTraceServiceRequest
    found = MessageToDict(kind.FromString(body))
    for resource in found.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:  # OTLP's JSON has ids in hex
                for key in ("traceId", "spanId", "parentSpanId"):
                    if key in span:
                        span[key] = base64.b64decode(span[key]).hex()
    return found


def _attributes(thing: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in thing.get("attributes", ()):
        ((kind, value),) = each["value"].items()
        found[each["key"]] = int(value) if kind == "intValue" else value
    return found
