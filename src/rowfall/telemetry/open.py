"""Open what a load is watched with: one call for loads, streams and pipelines."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rowfall.core import extras
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError
from rowfall.core.events import Event, Listener, Note, RunEnded, one_at_a_time
from rowfall.core.results import LoadError

if TYPE_CHECKING:
    from rowfall.telemetry.figures import Figures

LOCAL = "127.0.0.1"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Watching:
    """What a user has asked for, beside the variables of OpenTelemetry and OpenLineage.

    Attributes:
        port: of ``--metrics-port``, 0 for a free one; None for no metrics.
        host: address to serve them on.
        pipeline: its name, a label of all metrics; "" for a load.
        streaming: it goes on with what comes into its source.
    """

    port: int | None = None
    host: str = LOCAL
    pipeline: str = ""
    streaming: bool = False


class Sink(Protocol):
    """One receiver of events; what it raises ends it and nothing else."""

    def hear(self, event: Event) -> None: ...

    def close(self, error: BaseException | None) -> None:
        """End it; ``error`` is what has ended the load, None where nothing did."""


@contextmanager
def watched(emit: Listener, asked: Watching) -> Iterator[Listener]:
    """Give the listener that tells ``emit`` and all who watch.

    Without the option and the variables it is ``emit`` itself. Loads of one process may share a
    port: their figures are told apart by pipeline and table.

    Raises:
        UsageError: ``--metrics-port`` cannot be served, before anything of the load has begun.
    """
    env = os.environ
    otlp, lineage = wants_otlp(env), wants_lineage(env)
    if asked.port is None and not otlp and not lineage:
        yield emit
        return
    with ExitStack() as stack:
        from rowfall.telemetry.figures import Figures

        sinks: list[Sink] = []
        figures = _shared(stack, "figures", Figures, keep=True)
        if asked.port is not None or otlp:
            sinks.append(_Counted(figures, asked.pipeline))
        if asked.port is not None:
            _serve(stack, emit, asked, figures)
        if otlp:
            _try(emit, "OTEL_EXPORTER_OTLP_ENDPOINT", "opentelemetry-sdk", "otel",
                 lambda: sinks.append(_traces(stack, emit, asked, figures)))  # fmt: skip
        if lineage:
            _try(emit, "OPENLINEAGE_URL", "openlineage-python", "openlineage",
                 lambda: sinks.append(_lineage(emit, asked)))  # fmt: skip
        yield from _hearing(emit, sinks)


def wants_otlp(env: Mapping[str, str]) -> bool:
    """Tell whether the variables of OpenTelemetry ask for an export."""
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return any(
        env.get(f"OTEL_EXPORTER_OTLP_{which}ENDPOINT") for which in ("", "TRACES_", "METRICS_")
    )


def wants_lineage(env: Mapping[str, str]) -> bool:
    """Tell whether OpenLineage is configured where its client looks for that."""
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if env.get("OPENLINEAGE_URL") or env.get("OPENLINEAGE_CONFIG"):
        return True
    if any(name.startswith("OPENLINEAGE__TRANSPORT") for name in env):
        return True
    home = os.path.expanduser("~/.openlineage")
    return any(os.path.isfile(os.path.join(f, "openlineage.yml")) for f in ("", home))


def _serve(stack: ExitStack, emit: Listener, asked: Watching, figures: Figures) -> None:
    from rowfall.telemetry.prometheus import MetricsServer, is_local

    port, host = asked.port or 0, asked.host
    if port:
        server = _shared(stack, f"{host}:{port}", lambda: MetricsServer(figures, host, port))
    else:
        server = MetricsServer(figures, host, 0)
        stack.callback(server.close)
    emit(Note("info", f"metrics: {server.url}"))
    if not is_local(host):
        emit(Note(
            "warning", f"everybody who reaches {host} may read the metrics, without a password: "
            "names of tables and topics, rows, errors",
        ))  # fmt: skip


def _traces(stack: ExitStack, emit: Listener, asked: Watching, figures: Figures) -> Sink:
    from rowfall.telemetry.otlp import Exporting, Spans

    exporting = _shared(stack, "otlp", lambda: Exporting(figures, emit))
    return Spans(exporting, asked.pipeline)


def _lineage(emit: Listener, asked: Watching) -> Sink:
    from rowfall.telemetry.lineage import Lineage

    return Lineage(emit, asked.pipeline, streaming=asked.streaming)


def _try(emit: Listener, variable: str, library: str, extra: str, add: Callable[[], None]) -> None:
    """Open an export that a variable asks for; a load goes on without it."""
    try:
        add()
    except ModuleNotFoundError:
        emit(Note(
            "warning", f"{variable} is set and {library} is not installed: nothing is exported; "
            f"install it: {extras.command(extra)}",
        ))  # fmt: skip
    except Exception as error:
        emit(Note("warning", f"{variable}: nothing is exported: {_short(error)}"))


def _hearing(emit: Listener, sinks: list[Sink]) -> Iterator[Listener]:
    """Give the listener; whatever a sink raises, the load goes on without it."""

    def tell(act: Callable[[Sink], None]) -> None:
        for sink in tuple(sinks):
            try:
                act(sink)
            except Exception as error:
                sinks.remove(sink)
                emit(Note("warning", f"{type(sink).__name__.strip('_').lower()} ends: "
                          f"{_short(error)}"))  # fmt: skip

    hear = one_at_a_time(lambda event: tell(lambda sink: sink.hear(event)))

    def both(event: Event) -> None:
        emit(event)
        hear(event)

    failed: BaseException | None = None
    try:
        yield both
    except BaseException as error:
        failed = error
        raise
    finally:
        tell(lambda sink: sink.close(failed))


def _short(error: BaseException) -> str:
    text = str(error).partition("\n")[0][:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Counted:
    """The figures of one load or pipeline."""

    def __init__(self, figures: Figures, pipeline: str) -> None:
        from rowfall.telemetry.figures import EventCounter

        self._counting = EventCounter(figures, pipeline)
        self._told = False  # a run has counted the error that ended it

    def hear(self, event: Event) -> None:
        self._counting.hear(event)
        if isinstance(event, RunEnded):
            self._told = bool(event.exit)

    def close(self, error: BaseException | None) -> None:
        # Failed files alone are counted one by one.
        if isinstance(error, RowfallError) and not isinstance(error, LoadError) and not self._told:
            self._counting.failed(error.exit_code, error.code)


# --- what loads of one process share --------------------------------------------------------------

_GUARD = threading.Lock()
_OPEN: dict[str, tuple[Any, int]] = {}


def _shared(stack: ExitStack, key: str, make: Callable[[], _T], *, keep: bool = False) -> _T:
    """Return what another load of this process has opened, or make it; the last one closes it.

    Args:
        keep: it is never closed: counters go on as long as the process.
    """
    with _GUARD:
        thing, users = _OPEN.get(key, (None, 0))
        if thing is None:
            thing = make()
        _OPEN[key] = (thing, users + 1)

    def leave() -> None:
        with _GUARD:
            thing, users = _OPEN[key]
            _OPEN[key] = (thing, users - 1)
            if users > 1 or keep:
                return
            del _OPEN[key]
        thing.close()

    stack.callback(leave)
    found: _T = thing
    return found
