"""Loads that several machines share, in simulated time: ``--focus fleet``.

Four machines load one source, each with a clock of its own, which is wrong by up to an hour.
Leaders and workers are killed, paused for longer than any lease, and lose requests; some join late.
The code is that of :mod:`rowfall.run.fleet` and :mod:`rowfall.ledger.team`; the table beside the
target is a list of lines here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from rowfall.core.results import Report
from rowfall.engines.small_tables import SmallTables
from rowfall.ledger.pipeline_log import ALIVE, LogLine
from rowfall.ledger.team import Team
from rowfall.run.fleet import Worker
from simulator.properties import ViolationError

if TYPE_CHECKING:
    from rowfall.contracts.destination import LoadRun, PreparedLoad, Session
    from rowfall.contracts.load import Done
    from rowfall.core.model import Plan
    from simulator.network import Connection
    from simulator.server import Server
    from simulator.world import Process, World

LINE = "LINE "
HOMES = ("m0", "m1", "m2", "m3")
FAULTS = (
    "kill", "kill with a request under way", "pause", "merge", "lost request", "lost answer",
    "late request", "late answer", "server killed", "power cut", "clock jumps",
)  # fmt: skip
# Seconds that the clock of each machine is wrong by.
SKEWS = {"m0": 0.0, "m1": 3_600.0, "m2": -3_600.0, "m3": 1_000.0}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table; ``at`` is by the server's clock."""

    key: str
    event: str
    owner: str
    item: str
    detail: str
    at: float


class SimulatedLog:
    """Stands for :class:`rowfall.ledger.pipeline_log.SharedLog`."""

    shared = ordered = True

    def __init__(self, tables: Any, key: str, *_: Any, make: bool = True) -> None:
        self._at: Connection = tables
        self._key = key

    def append(self, event: str, owner: str = "", item: str = "", detail: str = "") -> None:
        at = self._at
        if event == ALIVE and at.process.silent:
            return  # all threads of it are stopped
        at.send(LINE + json.dumps([self._key, event, owner, item, detail]))

    def lines(self, *, files: bool = False, recent: float = 0.0) -> list[LogLine]:
        at = self._at
        if at._before("SELECT lines") != "ok":
            raise at.lost()
        last: dict[tuple[str, str, str], LogLine] = {}
        for number, line in enumerate(at.world.lines, 1):
            idle = at.server.clock - line.at
            if line.key != self._key or bool(line.item) != files:
                continue
            if line.event == ALIVE and recent and idle >= recent:
                continue
            name = line.event, line.owner, line.item
            last[name] = LogLine(number, line.event, line.owner, line.item, line.detail, idle)
        return sorted(last.values(), key=lambda line: line.number)

    def forget(self, owners: Collection[str]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Do nothing."""


def write(world: World, server: Server, text: str) -> None:
    """Carry out what :meth:`SimulatedLog.append` has sent, now or late."""
    key, event, owner, item, detail = json.loads(text.removeprefix(LINE))
    world.lines.append(Line(key, event, owner, item, detail, server.clock))


def join(world: World, process: Process, session: Session) -> Worker:
    """Let a process take part, as :func:`rowfall.run.fleet.joined` does."""
    tables = cast("SmallTables", session.engine)
    return Worker(session, Team(tables, "f", patience=600.0))


def end(
    world: World, worker: Worker, load: LoadRun, plan: Plan, done: Done, prepared: PreparedLoad
) -> None:
    """Let a worker end its part, and check the report of who leads."""
    counts = done.total
    outcome = "partial" if counts.failures else "done"
    own = Report(
        load.id, outcome, "s", "t", "t", "", splits=len(plan.listing), splits_loaded=counts.loaded,
        rows=counts.amounts.rows, splits_failed=len(counts.failures), failures=counts.failures,
    )  # fmt: skip
    report = worker.end(load, plan, own, prepared)
    if report.workers and worker._plan is not None:
        world.reports += 1
        check_report(world, report, worker._plan.said)


def check_report(world: World, report: Report, said: Mapping[str, Any]) -> None:
    """Check that the report of all workers counts each row and file once."""
    if report.outcome != "done":
        return
    rows, splits = (
        sum(w.rows for w in report.workers), sum(w.splits for w in report.workers)
    )  # fmt: skip
    if (rows, splits) != (report.rows, report.splits_loaded):
        raise ViolationError(f"{rows} rows of workers, and {report.rows} of all: {report.workers}")
    there = sum(len(rows) for rows in world.server.contents.values())
    before = report.splits - report.splits_loaded
    if report.splits_skipped != before or before < 0:
        raise ViolationError(f"{report.splits_skipped} files of {before} were loaded before")
    expected = rows_since(world, report, int(said["place"]))
    if rows != expected or (not before and rows != there):
        raise ViolationError(f"{rows} rows are reported, and {expected} of {there} were loaded")


def rows_since(world: World, report: Report, place: int) -> int:
    """Return the rows that workers have loaded since the load was planned, by the journal."""
    loads = {worker.load_id for worker in report.workers}
    found: dict[str, dict[str, int]] = {}
    for line in world.server.rows_of("d", "_rowfall_journal"):
        if line["attempt"].partition("_")[0] not in loads:
            continue
        events = found.setdefault(line["attempt"], {})
        value = line["rows"] if line["event"] == "commit" else line["_block_number"]
        events.setdefault(line["event"], value)
    return sum(e["commit"] for e in found.values() if e.get("landed", 0) > place)
