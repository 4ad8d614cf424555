"""Export traces and metrics by OTLP, as the variables of OpenTelemetry say.

Exports run in threads of the SDK. A collector that is away costs a load nothing but one warning,
and at most :data:`EXIT_SECONDS` at its end.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rowfall.core.errors import Exit, Interrupted
from rowfall.core.events import (
    AttemptEnded,
    Event,
    Listener,
    LoadPlanned,
    Note,
    RunBegan,
    RunEnded,
    StageEnded,
)
from rowfall.core.masked import redact
from rowfall.core.patterns import regex
from rowfall.core.version import __version__
from rowfall.telemetry.figures import (
    BOUNDS,
    COUNTER,
    HISTOGRAM,
    METRICS,
    Durations,
    Figures,
    Labels,
    Metric,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.trace import Span

# What is left is exported at the end of a load within this time, then dropped: a collector answers
# in 0.3 s from another continent, and one that is away would hold up whoever waits.
EXIT_SECONDS = 3.0
# Of that, where the collector has refused: long enough for a connection that was stale.
RETRY_SECONDS = 0.3
# After Ctrl-C the command ends within two seconds.
INTERRUPTED_SECONDS = 0.5
# Units as UCUM writes them, which OTLP asks for. None for numbers of things: of a gauge in "1"
# collectors make a name for Prometheus that ends in _ratio.
_UNITS = {"seconds": "s", "bytes": "By", "ratio": "1", "": ""}
_LOGGER = "opentelemetry"
_SYSTEM = regex(r"\[Errno -?\d+\] ([^\"')\]]+)")
_COMMON = ("pipeline", "table")
# Of an error, what a span holds.
_MOST_TEXT = 300


class Exporting:
    """The providers of one process; loads of it share them.

    Args:
        emit: hears one warning, where an export fails.

    Raises:
        ModuleNotFoundError: OpenTelemetry's SDK is not installed.
    """

    def __init__(self, figures: Figures, emit: Listener) -> None:
        from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: F401 - it is there
        from opentelemetry.sdk.resources import Resource

        self._figures = figures
        self._failures = _Failures(emit)
        self._log = logging.getLogger(_LOGGER)
        # With a handler of its own, nothing of the SDK is printed by Python's last resort.
        self._log.addHandler(self._failures)
        named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        own = {"service.version": __version__}
        if not named and not os.environ.get("OTEL_SERVICE_NAME"):
            own["service.name"] = "rowfall"
        resource = Resource.create(own)
        self._tracing = self._tracer(resource) if _exports("TRACES") else None
        self._metering = self._meter(resource) if _exports("METRICS") else None
        self._interrupted = False

    @property
    def tracer(self) -> Any:
        """Return what makes spans, which go nowhere where traces are not exported."""
        from opentelemetry.trace import NoOpTracer

        if self._tracing is None:
            return NoOpTracer()
        return self._tracing.get_tracer("rowfall", __version__)

    def interrupted(self) -> None:
        """Note that whoever waits for the end has pressed Ctrl-C."""
        self._interrupted = True

    def close(self) -> None:
        """Export what is left, within :data:`EXIT_SECONDS`."""
        seconds = INTERRUPTED_SECONDS if self._interrupted else EXIT_SECONDS
        ends: list[Callable[..., object]] = [
            each.shutdown for each in (self._tracing, self._metering) if each is not None
        ]
        # Side by side, and left alone when the time is over: daemons do not hold up the process.
        threads = [threading.Thread(target=_quietly, args=(end,), daemon=True) for end in ends]
        self._failures.happened = 0.0  # one that was away for a while may be there again
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + seconds
        while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
            threads[0].join(0.01)
            threads[-1].join(0.01)
            if self._failures.happened:  # one that has refused is not there a second later
                deadline = min(deadline, self._failures.happened + RETRY_SECONDS)
        if any(thread.is_alive() for thread in threads):
            self._failures.tell(f"no answer within {seconds:g} s at the end of the load")
        self._failures.close_with(self._log)
        self._figures.observers.clear()

    def _tracer(self, resource: Any) -> Any:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return provider

    def _meter(self, resource: Any) -> Any:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        meter = provider.get_meter("rowfall", __version__)
        durations: dict[str, Any] = {}
        for metric in METRICS.values():
            name, unit = otel_name(metric), _UNITS[metric.unit]
            if metric.kind == HISTOGRAM:
                durations[metric.name] = meter.create_histogram(
                    name, unit, metric.help, explicit_bucket_boundaries_advisory=BOUNDS
                )
                continue
            make: Any = (
                meter.create_observable_counter
                if metric.kind == COUNTER
                else meter.create_observable_gauge
            )
            make(name, [self._observations(metric)], unit, metric.help)

        def observe(metric: Metric, seconds: float, labels: Labels) -> None:
            durations[metric.name].record(seconds, _attributes(metric, labels))

        self._figures.observers.append(observe)
        return provider

    def _observations(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def look(_: CallbackOptions) -> Iterator[Observation]:
            from opentelemetry.metrics import Observation

            for labels, value in self._figures.of(metric.name).items():
                if not isinstance(value, Durations):
                    yield Observation(value, _attributes(metric, labels))

        return look


class Spans:
    """The trace of each run of a load: its plan, attempts, finish and verification.

    Args:
        pipeline: its name, "" for a load.
    """

    def __init__(self, exporting: Exporting, pipeline: str) -> None:
        self._exporting, self._pipeline = exporting, pipeline
        self._tracer = exporting.tracer
        self._parent = _parent()
        self._run: Span | None = None
        self._context: Context | None = None
        self._files = self._bytes = 0
        self._ran = False

    def hear(self, event: Event) -> None:
        match event:
            case RunBegan():
                self._begin(event)
            case LoadPlanned() if self._run is not None:
                plan = event.plan
                self._run.set_attribute("rowfall.files", len(plan.listing))
                self._run.set_attribute("rowfall.attempts", len(plan.work.groups))
                self._run.set_attribute("rowfall.delivery", plan.transport.delivery.value)
            case StageEnded() if self._run is not None:
                self._past(event.stage, event.seconds)
            case AttemptEnded() if self._run is not None:
                self._attempt(event)
            case RunEnded():
                self._end(event)
            case _:
                pass

    def close(self, error: BaseException | None) -> None:
        interrupted = isinstance(error, Interrupted | KeyboardInterrupt)
        if interrupted:
            self._exporting.interrupted()
        if self._run is not None or (error is not None and not self._ran):
            # It failed before a run began, where source or target could not be opened.
            run = self._run or self._tracer.start_span("load", context=self._parent)
            self._fail(run, str(error or "it was left"))
            run.end()
            self._run = None

    def _begin(self, event: RunBegan) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        self._ran = True
        attributes: dict[str, str | bool] = {
            "rowfall.load_id": event.load_id, "rowfall.source": redact(event.source),
            "rowfall.target": redact(event.target), "rowfall.resumed": event.resumed,
        }  # fmt: skip
        for name, value in (("table", event.table), ("pipeline", self._pipeline)):
            if value:
                attributes[f"rowfall.{name}"] = value
        self._run = self._tracer.start_span(
            "load", context=self._parent, kind=SpanKind.INTERNAL, attributes=attributes
        )
        self._context = set_span_in_context(self._run)
        self._files = self._bytes = 0

    def _past(self, name: str, seconds: float, **attributes: str | int) -> Span:
        """Add a span that ends now."""
        now = time.time_ns()
        span: Span = self._tracer.start_span(
            name, context=self._context, start_time=now - int(seconds * 1e9), attributes=attributes
        )
        span.end(now)
        return span

    def _attempt(self, event: AttemptEnded) -> None:
        from opentelemetry.trace import set_span_in_context

        record, now = event.record, time.time_ns()
        began = now - int(sum(seconds for _, seconds in event.steps) * 1e9)
        span = self._tracer.start_span(
            "attempt", context=self._context, start_time=began,
            attributes={
                "rowfall.attempt_id": record.id, "rowfall.rows": record.rows,
                "rowfall.bytes": record.bytes_source, "rowfall.files": record.splits,
                "rowfall.parts": record.parts, "rowfall.outcome": record.outcome,
            },
        )  # fmt: skip
        inside = set_span_in_context(span)
        at = began
        for step, seconds in event.steps:
            end = at + int(seconds * 1e9)
            # Steps that took no time are many, and say nothing.
            if step in _SHOWN_STEPS:
                self._tracer.start_span(step, context=inside, start_time=at).end(end)
            at = end
        if record.outcome == "published":
            self._files += record.splits
            self._bytes += record.bytes_source
        else:
            span.set_attribute("rowfall.error_code", event.code)
            self._fail(span, record.error)
        span.end(now)

    def _end(self, event: RunEnded) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        run.set_attribute("rowfall.bytes", self._bytes)
        run.set_attribute("rowfall.files_loaded", self._files)
        if event.report is not None:
            run.set_attribute("rowfall.rows", event.report.rows)
            run.set_attribute("rowfall.outcome", event.report.outcome)
        if event.exit:
            run.set_attribute("rowfall.exit_code", event.exit)
            run.set_attribute("rowfall.error_code", event.code)
            self._fail(run, event.error)
        elif event.report is not None and event.report.outcome != "done":
            failed = event.report.splits_failed
            self._fail(run, f"{failed} of {event.report.splits} could not be loaded")
        if event.exit == Exit.INTERRUPTED:
            self._exporting.interrupted()
        run.end()

    @staticmethod
    def _fail(span: Span, error: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        text = redact(error.partition("\n")[0])[:_MOST_TEXT]
        span.set_status(Status(StatusCode.ERROR, text))


# Of the twelve steps of an attempt, those in which time goes.
_SHOWN_STEPS = frozenset((
    "lease", "stage", "deliver", "wait_turn", "check_source", "count", "wait_merges", "commit",
    "publish", "drop",
))  # fmt: skip


def otel_name(metric: Metric) -> str:
    """Return the name of a metric in OpenTelemetry, which translates to that in Prometheus."""
    return f"rowfall.{metric.name}"


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    names = (*_COMMON, *metric.labels)
    return {name: value for name, value in zip(names, labels, strict=True) if value}


def _exports(signal: str) -> bool:
    """Tell whether the variables say where ``TRACES`` or ``METRICS`` go, and not that they go
    nowhere.
    """
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp").strip().lower() == "none":
        return False
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"):
        if os.environ.get(name):
            return True
    return False


def _parent() -> Context | None:
    """Return the span that is open in this program, or that of TRACEPARENT; None for no parent."""
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    if get_current_span().get_span_context().is_valid:
        return None  # the SDK takes the current one
    carrier = {
        name: os.environ[name.upper()]
        for name in ("traceparent", "tracestate") if os.environ.get(name.upper())
    }  # fmt: skip
    return TraceContextTextMapPropagator().extract(carrier) if carrier else None


def _quietly(act: Callable[..., object]) -> None:
    with suppress(Exception):
        act()


class _Failures(logging.Handler):
    """Makes one warning of all that the SDK logs about exports that fail.

    Attributes:
        happened: when the first one failed, as of ``time.monotonic``; 0.0 for never.
    """

    def __init__(self, emit: Listener) -> None:
        super().__init__(logging.WARNING)
        self.happened = 0.0
        self._emit = emit
        self._told = False

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage().partition("\n")[0]
        # Of what requests wraps in three exceptions, the one that the system has said.
        found = _SYSTEM.search(said)
        self.tell(found[1] if found else redact(said)[:_MOST_TEXT])

    def tell(self, why: str) -> None:
        self.happened = self.happened or time.monotonic()
        if self._told:
            return
        self._told = True
        where = urlsplit(next(
            value for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                               "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
            if (value := os.environ.get(name))
        ))  # fmt: skip
        at = where.hostname or where.path
        at = f"{at}:{where.port}" if where.port else at
        self._emit(Note(
            "warning", f"traces or metrics do not reach {at}, the load goes on: {why}"
        ))  # fmt: skip

    def close_with(self, log: logging.Logger) -> None:
        """Stop listening; what threads that are left say later is dropped."""
        self._told = True
        log.removeHandler(self)
        log.addHandler(logging.NullHandler())
