"""What can be said of a pipeline: who follows it, since when, what it has loaded, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rowfall.core.dataclass import dataclass
from rowfall.ledger.pipeline_lease import LeaseState, judge
from rowfall.ledger.pipeline_log import CLAIM, EXPIRE, PAUSE, QUIT, RESUME
from rowfall.service import background
from rowfall.service.background import BackgroundWatcher
from rowfall.service.file_marks import FailedFile, FileMarks
from rowfall.service.pipeline import Pipeline
from rowfall.service.watcher import PAUSED, Health

STOPPED, LOST = "stopped", "lost"
"""Nobody has the lease; or who has it is dead, and nobody has taken over."""
# Of many failed files the first ones are named.
MOST_FAILED = 1_000


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline at one moment.

    Attributes:
        state: of :class:`rowfall.service.watcher.Health`, or ``stopped``, or ``lost``.
        health: what the watcher said last, or why it has ended; None where there is none.
        holder: host and pid of the watcher with the lease; ``idle``: seconds since its last sign.
        standing_by: hosts and pids of the others.
        paused: it is not to load, whoever follows.
        background: the watcher that this machine runs in the background.
        failed: files that need somebody; ``failed_count``: how many there are.
    """

    pipeline: Pipeline
    state: str
    health: Mapping[str, Any] | None
    holder: Mapping[str, Any] | None
    idle: float
    standing_by: tuple[Mapping[str, Any], ...]
    paused: bool
    background: BackgroundWatcher | None
    failed: tuple[FailedFile, ...]
    failed_count: int


def state_of(pipeline: Pipeline) -> PipelineStatus:
    """Ask the log of a pipeline how it is.

    Raises:
        TargetError: the target, which has the log, is out of reach.
    """
    with pipeline.log() as log:
        standing = judge(log.lines(), "", shared=log.shared)
        marks = FileMarks(log)
    failed = sorted(marks.failed.values(), key=lambda one: one.at, reverse=True)
    runs = bool(standing.holder) and not standing.dead
    known = set(Health.__dataclass_fields__)
    told = standing.sign if standing.holder else _last_words(standing)
    said = {key: value for key, value in told.items() if key in known}
    state = str(said.get("state", "standing by")) if runs else LOST if standing.holder else STOPPED
    if standing.paused and not runs:
        state = PAUSED
    who: dict[str, Any] = {
        key: standing.sign[key] for key in ("host", "pid") if key in standing.sign
    }
    return PipelineStatus(
        pipeline, state, said or None, who or None, round(standing.idle, 1), _others(standing),
        standing.paused, background.running(pipeline), tuple(failed[:MOST_FAILED]), len(failed),
    )  # fmt: skip


def _last_words(standing: LeaseState) -> Mapping[str, Any]:
    """Return why the pipeline has ended by itself; nothing where it was stopped or killed."""
    import json

    ends = [line for line in standing.lines if line.event in (EXPIRE, QUIT)]
    last = max(ends, key=lambda line: line.number, default=None)
    return json.loads(last.detail) if last and last.event == QUIT and last.detail else {}


def _others(standing: LeaseState) -> tuple[Mapping[str, Any], ...]:
    import json

    from rowfall.ledger.leases import has_ended

    return tuple(
        json.loads(line.detail) for line in standing.lines
        if line.event == CLAIM and line.owner != standing.holder and line.detail
        and line.owner not in standing.ended and not has_ended(line.owner)
    )  # fmt: skip


def set_paused(pipeline: Pipeline, *, paused: bool) -> bool:
    """Pause a pipeline or let it go on, whoever follows it now or later; False where it is so."""
    with pipeline.log() as log:
        if judge(log.lines(), "", shared=log.shared).paused == paused:
            return False
        log.append(PAUSE if paused else RESUME)
        return True


def try_again(pipeline: Pipeline, file: str) -> FailedFile:
    """Let a failed file be tried once more.

    Raises:
        UsageError: no file of this name has failed.
    """
    with pipeline.log() as log:
        return FileMarks(log).again(file)


def leave_out(pipeline: Pipeline, file: str) -> FailedFile:
    """Leave the version of a file out that has failed.

    Raises:
        UsageError: no file of this name has failed.
    """
    with pipeline.log() as log:
        return FileMarks(log).skip(file)


def state_document(found: PipelineStatus) -> dict[str, Any]:
    """Return the JSON document of a pipeline, see docs/reference/json.md."""
    from dataclasses import asdict

    health: Mapping[str, Any] = found.health or {}
    lag = health.get("lag") or {}
    return {
        "rowfall_pipeline": 1,
        "name": found.pipeline.name,
        "state": found.state,
        "paused": found.paused,
        "source": found.pipeline.source_text,
        "target": found.pipeline.target.text,
        "table": found.pipeline.table_text,
        "since": health.get("since", ""),
        "files": health.get("files", 0),
        "rows": health.get("rows", 0),
        "last_batch": health.get("last_batch", ""),
        "lag_objects": lag.get("objects", 0),
        "lag_bytes": lag.get("bytes", 0),
        "lag_seconds": round(float(lag.get("seconds", 0.0)), 1),
        "waiting": lag.get("waiting", 0),
        "last_error": health.get("last_error", ""),
        "last_error_at": health.get("last_error_at", ""),
        "watcher": None if found.holder is None else {**found.holder, "idle": found.idle},
        "standing_by": list(found.standing_by),
        "background": None if found.background is None else asdict(found.background),
        "failed": found.failed_count,
        "failed_files": [asdict(one) for one in found.failed],
    }
