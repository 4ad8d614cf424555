"""Tell OpenLineage what a load reads and writes: START, RUNNING, and COMPLETE, FAIL or ABORT.

The official client finds its configuration (``OPENLINEAGE_URL``, ``openlineage.yml``) and sends.
Both, and its import of 0.3 CPU-seconds, happen in a thread of their own: an endpoint that is away
costs one warning, and at most :data:`EXIT_SECONDS` at the end.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import queue
import threading
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit, Interrupted
from rowfall.core.events import Event, Listener, LoadPlanned, Note, RunBegan, RunEnded
from rowfall.core.masked import redact
from rowfall.core.model import Plan
from rowfall.core.patterns import regex
from rowfall.core.results import Report
from rowfall.core.version import __version__
from rowfall.telemetry.names import Dataset, inputs_of, output_of

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset

# An event is answered in milliseconds, and in a second across an ocean; whoever waits for the
# command does not wait longer for a service that is away. The client would try for half a minute.
EXIT_SECONDS = 3.0
INTERRUPTED_SECONDS = 0.5
# A stream is one run for as long as it is followed: its batches are told so often at most, as a
# service keeps each event.
RUNNING_SECONDS = 60.0
# Events that wait for a service that is away, the oldest are dropped.
MOST_WAITING = 100
_PRODUCER = f"https://pypi.org/project/rowfall/{__version__}"
# By which the ids of runs are made of those of loads; any constant does.
_IDS = uuid.UUID("6d0f5f0e-3c0b-5a53-9f0e-0f2b8a1c7d11")
_LOGGERS = ("openlineage", "urllib3")
_MOST_TEXT = 300
_SYSTEM = regex(r"\[Errno -?\d+\] ([^\"')\]]+)")
# Of EXIT_SECONDS, where the endpoint has refused: long enough for a connection that was stale.
RETRY_SECONDS = 0.3

START, RUNNING, COMPLETE, FAIL, ABORT = "START", "RUNNING", "COMPLETE", "FAIL", "ABORT"


@dataclass(frozen=True, slots=True)
class LineageEvent:
    """One event, before the client's classes are made of it.

    Attributes:
        state: one of the constants above. ``at``: ISO 8601 with a zone.
        run, job: id of the run and name of the job.
        plan: what is read and written, None before that is known.
        rows, bytes: written so far; None where the run has not come to it.
        error: "" for none.
    """

    state: str
    at: str
    run: str
    job: str
    plan: Plan | None = None
    rows: int | None = None
    bytes: int | None = None
    error: str = ""


class Lineage:
    """The lineage of one load, or of a stream as long as it is followed.

    Args:
        pipeline: its name, which is that of the job; "" for a load, whose job is named after the
            table.

    Raises:
        ModuleNotFoundError: the client is not installed.
    """

    def __init__(self, emit: Listener, pipeline: str, *, streaming: bool) -> None:
        if importlib.util.find_spec("openlineage") is None:
            raise ModuleNotFoundError("openlineage")
        self._pipeline, self._streaming = pipeline, streaming
        self._sender = Sender(emit, streaming=streaming)
        self._run = self._job = ""
        self._plan: Plan | None = None
        self._rows = self._bytes = 0
        self._told = 0.0
        self._open = False
        self._failed: RunEnded | None = None

    def hear(self, event: Event) -> None:
        match event:
            case RunBegan():
                self._begin(event)
            case LoadPlanned():
                self._plan = event.plan
                if not self._streaming or not self._told:
                    self._tell(RUNNING)
            case RunEnded():
                self._end(event)
            case _:
                pass

    def close(self, error: BaseException | None) -> None:
        interrupted = isinstance(error, Interrupted | KeyboardInterrupt)
        if self._open:
            if interrupted:
                self._tell(ABORT, "interrupted")
            elif error is not None or self._failed is not None:
                said = self._failed.error if self._failed is not None else ""
                self._tell(FAIL, said or str(error))
            else:
                self._tell(COMPLETE)
        self._sender.close(INTERRUPTED_SECONDS if interrupted else EXIT_SECONDS)

    def _begin(self, event: RunBegan) -> None:
        self._failed = None
        if self._open:  # the next batch of a stream
            return
        # A load that is resumed goes on with its run. Ids of loads have 40 bits: what is loaded
        # tells those of two targets apart.
        key = "\0".join((event.load_id, event.target, event.table, event.source))
        self._run = str(uuid.uuid5(_IDS, key))
        self._job = self._pipeline or f"load.{event.table or event.target}"
        self._plan, self._open = None, True
        self._rows = self._bytes = 0
        self._tell(START)

    def _end(self, event: RunEnded) -> None:
        report = event.report
        if report is not None:
            self._add(report)
        failed = bool(event.exit) or (report is not None and report.outcome != "done")
        if self._streaming:
            self._failed = event if failed else None
            if not failed and time.monotonic() - self._told >= RUNNING_SECONDS:
                self._tell(RUNNING)
            return
        if event.exit == Exit.INTERRUPTED:
            self._tell(ABORT, event.error)
        elif failed:
            self._tell(FAIL, event.error or _failures(report))
        else:
            self._tell(COMPLETE)
        self._open = False

    def _add(self, report: Report) -> None:
        self._rows += report.rows
        self._bytes += report.bytes_written

    def _tell(self, state: str, error: str = "") -> None:
        if state == RUNNING:
            self._told = time.monotonic()
        counted = self._rows > 0 or state not in (START, RUNNING)
        self._sender.put(LineageEvent(
            state, datetime.now(UTC).isoformat(timespec="milliseconds"), self._run, self._job,
            self._plan, self._rows if counted else None, self._bytes if counted else None,
            redact(error.partition("\n")[0])[:_MOST_TEXT],
        ))  # fmt: skip


def _failures(report: Report | None) -> str:
    first = report.failures[0] if report is not None and report.failures else None
    return f"{first.split}: {first.error}" if first is not None else "files could not be loaded"


class Sender:
    """Sends events one after the other, in a thread that nothing waits for but the end."""

    def __init__(self, emit: Listener, *, streaming: bool) -> None:
        self._emit, self._streaming = emit, streaming
        self._waiting: queue.Queue[LineageEvent | None] = queue.Queue(MOST_WAITING)
        self._warned = False
        self._heard = _Heard()
        self._thread = threading.Thread(target=self._send, daemon=True, name="openlineage")
        self._thread.start()

    def put(self, told: LineageEvent) -> None:
        """Send an event as soon as its turn comes."""
        while True:
            try:
                self._waiting.put_nowait(told)
                return
            except queue.Full:
                with suppress(queue.Empty):
                    self._waiting.get_nowait()

    def close(self, seconds: float) -> None:
        """Wait until all events are sent, but no longer than so many seconds."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._heard.at = 0.0  # one that was away for a while may be there again
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(0.02)
            if self._heard.at:  # one that has refused is not there a second later
                deadline = min(deadline, self._heard.at + RETRY_SECONDS)
        if self._thread.is_alive():
            why = f"no answer within {seconds:g} s at the end of the load"
            self._warn(self._heard.why or why)

    def _send(self) -> None:
        for name in _LOGGERS:  # otherwise Python prints what nobody listens to
            logging.getLogger(name).addHandler(self._heard)
        try:
            client = _client()
            while (told := self._waiting.get()) is not None:
                try:
                    client.emit(made(told, streaming=self._streaming))
                except Exception as error:
                    self._warn(_reason(error))
            client.close(EXIT_SECONDS)
        except Exception as error:  # a configuration that is wrong
            self._warn(_reason(error))
        finally:
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(self._heard)

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            self._emit(Note("warning", f"OpenLineage gets no events, the load goes on: {why}"))


class _Heard(logging.Handler):
    """Hears what the client's connection says when it tries once more.

    Attributes:
        at: when it last did, as of ``time.monotonic``; 0.0 for never. ``why``: what it said.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.at, self.why = 0.0, ""

    def emit(self, record: logging.LogRecord) -> None:
        found = _SYSTEM.search(record.getMessage())
        if found:
            self.at, self.why = time.monotonic(), found[1]


def _client() -> Any:
    """Return the official client, which reads the environment and ``openlineage.yml``."""
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import set_producer

    set_producer(_PRODUCER)
    return OpenLineageClient()


def _reason(error: BaseException) -> str:
    """Return why in one line: what the system said of the innermost of several exceptions."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    text = getattr(cause, "strerror", None) or str(cause).partition("\n")[0] or type(cause).__name__
    return redact(str(text))[:_MOST_TEXT]


# --- as the client's classes ----------------------------------------------------------------------


def made(told: LineageEvent, *, streaming: bool) -> Any:
    """Return an event of the official client."""
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import (
        error_message_run,
        job_type_job,
        parent_run,
        processing_engine_run,
    )

    run: dict[str, Any] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(__version__, "rowfall"),
    }
    if (parent := _parent(parent_run)) is not None:
        run["parent"] = parent
    if told.error:
        run["errorMessage"] = error_message_run.ErrorMessageRunFacet(told.error, "PYTHON")
    kind = job_type_job.JobTypeJobFacet(
        processingType="STREAMING" if streaming else "BATCH", integration="ROWFALL", jobType="LOAD"
    )
    plan = told.plan
    return RunEvent(
        eventTime=told.at,
        eventType=RunState(told.state),
        run=Run(told.run, run),
        job=Job(namespace(), told.job, {"jobType": kind}),
        inputs=[_input(each) for each in inputs_of(plan)] if plan is not None else [],
        outputs=_outputs(plan, told) if plan is not None else [],
    )


def namespace() -> str:
    """Return the namespace of jobs, as the variable of all integrations says."""
    return os.environ.get("OPENLINEAGE_NAMESPACE") or "rowfall"


def _input(dataset: Dataset) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import dataset_version_dataset, input_statistics_input_dataset

    facets: dict[str, Any] = {}
    if dataset.version:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(dataset.version)
    counted = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
        size=dataset.bytes, fileCount=dataset.objects
    )
    return InputDataset(
        dataset.at.namespace, dataset.at.name, facets=facets,
        inputFacets={"inputStatistics": counted},
    )  # fmt: skip


def _outputs(plan: Plan, told: LineageEvent) -> list[OutputDataset]:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset, schema_dataset

    at = output_of(plan.to)
    if at is None:
        return []
    columns = [
        schema_dataset.SchemaDatasetFacetFields(name=column.name, type=column.type)
        for column in plan.schema.columns
    ]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(columns)}
    counted: dict[str, Any] = {}
    if told.rows is not None:
        counted["outputStatistics"] = (
            output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=told.rows, size=told.bytes
            )
        )
    return [OutputDataset(at.namespace, at.name, facets=facets, outputFacets=counted)]


def _parent(facets: Any) -> Any:
    """Return the run that has started this one, of ``namespace/job/run`` in the environment."""
    parent = _names("OPENLINEAGE_PARENT_ID")
    if parent is None:
        return None
    root = _names("OPENLINEAGE_ROOT_PARENT_ID")
    found = None
    if root is not None:
        found = facets.Root(
            run=facets.RootRun(runId=root[2]), job=facets.RootJob(namespace=root[0], name=root[1])
        )
    return facets.ParentRunFacet(
        run=facets.Run(runId=parent[2]), job=facets.Job(namespace=parent[0], name=parent[1]),
        root=found,
    )  # fmt: skip


def _names(variable: str) -> tuple[str, str, str] | None:
    parts = os.environ.get(variable, "").rsplit("/", 2)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 and all(parts) else None
