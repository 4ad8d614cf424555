"""Several loads of a project: each in a process of its own, in the order of their needs.

A process for each load, because one engine, one working directory and one set of signal handlers
belong to a process. Requests go through a pipe, so that no secret is an argument.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import IO, Any

from rowfall.core import units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import Exit, headline
from rowfall.core.machine import free_memory, usable_cores
from rowfall.core.run_results import (
    DONE,
    FAILED,
    INTERRUPTED,
    SKIPPED,
    LoadReport,
    NamedRun,
    RunReport,
)
from rowfall.core.tables import TableProblem, TableReport, TablesReport
from rowfall.plan.settings import LEAST_MEMORY
from rowfall.project.project import Project
from rowfall.report.run import named_run
from rowfall.run.history import from_json
from rowfall.targets import DEFAULT_FOLDER

# A load that is stopped ends its statements on servers within two seconds, and gives up a server
# that does not answer after some more.
_STOP_SECONDS = 60.0
_SERVERS = ("clickhouse", "clickhouses")
_MOST_LINE = 64 << 10


@dataclass(frozen=True, slots=True)
class ManyRuns:
    """A request to run several loads.

    Attributes:
        names: in an order in which each stands behind what it needs.
        flags: options of the command line for each of them, by their names in Python.
        config: the file of ``--config``; None to look for it.
        memory: bytes for all of them together; 0 for half of what is free.
        at_once: loads that run at the same time at most; 0 to choose.
        say: gets (name, line) of what the loads say.
    """

    project: Project
    names: Sequence[str]
    flags: Mapping[str, Any]
    config: str | None
    memory: int
    at_once: int
    say: Callable[[str, str], None]


@dataclass(slots=True)
class _Child:
    """A load that runs."""

    name: str
    process: subprocess.Popen[bytes]
    memory: int
    began: float
    out: bytearray = field(default_factory=bytearray)
    line: bytes = b""
    open: int = 2


def run_many(asked: ManyRuns) -> RunReport:
    """Run loads, in parallel where nothing is in the way; the others go on when one fails.

    After Ctrl-C all that run are stopped, and each can be resumed.
    """
    return _Runs(asked).run()


class _Runs:
    """The loads that wait, run and have ended."""

    def __init__(self, asked: ManyRuns) -> None:
        self._asked = asked
        self._began = time.monotonic()
        self._memory = asked.memory or free_memory() // 2
        # A load uses all cores by itself, and waits for its source, its server or its start in
        # between; measured on two cores, as many loads as cores at once are done first, see
        # docs/decisions/0095-run-at-once.md. Each needs the least memory that a load can do with.
        most = asked.at_once or usable_cores()
        self._at_once = max(1, min(most, self._memory // LEAST_MEMORY, len(asked.names)))
        self._waiting = list(asked.names)
        self._running: dict[str, _Child] = {}
        self._done: dict[str, NamedRun] = {}
        targets = {name: self._target(name) for name in asked.names}
        self._places = {name: _place(*target) for name, target in targets.items()}
        # Their memory is that of the server, of which a load takes half of what is left by itself.
        served = () if asked.memory else _SERVERS
        self._served = {name for name, (to, _) in targets.items() if uri.scheme_of(to) in served}
        self._selector = selectors.DefaultSelector()
        self._stopped = 0.0

    def run(self) -> RunReport:
        try:
            while self._waiting or self._running:
                try:
                    self._start()
                    self._hear()
                except KeyboardInterrupt:
                    self._stop()
        finally:
            for child in self._running.values():
                child.process.kill()
                child.process.wait()
            self._selector.close()
        loads = tuple(self._done[name] for name in self._asked.names)
        seconds = round(time.monotonic() - self._began, 3)
        return RunReport(loads, self._at_once, self._memory, seconds)

    def _target(self, name: str) -> tuple[str, str]:
        """Return the address of a load's target, and the folder that it is seen from."""
        made = self._asked.project.assembled("loads", name, None)
        to = str(made.values["to"][0]) if "to" in made.values else DEFAULT_FOLDER
        to = str(self._asked.flags.get("to") or (made.connection.uri if made.connection else to))
        return to, str(made.file.folder)

    def _start(self) -> None:
        """Start what can be started."""
        for name in list(self._waiting):
            needs = [each for each in self._asked.project.needs(name) if each in self._asked.names]
            failed = [each for each in needs if each in self._done
                      and self._done[each].outcome != DONE]  # fmt: skip
            if self._stopped:
                self._skip(name, "it had not begun when the run was stopped", Exit.INTERRUPTED)
            elif failed:
                why = f"it needs {failed[0]}, which is not done"
                self._skip(name, why, self._done[failed[0]].exit)
            elif all(each in self._done for each in needs):
                busy = {self._places[each] for each in self._running} - {""}
                if len(self._running) < self._at_once and self._places[name] not in busy:
                    self._launch(name)

    def _skip(self, name: str, why: str, code: int) -> None:
        self._waiting.remove(name)
        outcome = INTERRUPTED if code == Exit.INTERRUPTED and self._stopped else SKIPPED
        self._done[name] = NamedRun(name, outcome, code, None, why, "", (), 0, 0.0)
        self._asked.say(name, f"skipped: {why}")

    def _launch(self, name: str) -> None:
        """Start a load with its share of the memory: of what is free, for those still to come."""
        free = self._memory - sum(child.memory for child in self._running.values())
        others = min(self._at_once - len(self._running), len(self._waiting))
        share = 0 if name in self._served else max(free // max(others, 1), LEAST_MEMORY)
        self._waiting.remove(name)
        config = ["--config", self._asked.config] if self._asked.config else []
        request = {"flags": dict(self._asked.flags), "memory": share, "parent": os.getpid()}
        process = subprocess.Popen(
            [sys.executable, "-m", "rowfall", "run", name, "--child", "--json", *config],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # Ctrl-C of a terminal is for this process, which then stops all of them.
            start_new_session=True,
        )  # fmt: skip
        pipes = process.stdin, process.stdout, process.stderr
        assert all(pipe is not None for pipe in pipes)  # noqa: S101
        child = _Child(name, process, share, time.monotonic())
        self._running[name] = child
        for pipe in pipes[1:]:
            assert pipe is not None  # noqa: S101
            self._selector.register(pipe, selectors.EVENT_READ, child)
        try:
            assert process.stdin is not None  # noqa: S101
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        except OSError:
            pass  # it has ended already, and what it has said tells why
        self._asked.say(name, "begins")

    def _hear(self) -> None:
        """Wait for something that a load prints, or for its end."""
        timeout = None
        if self._stopped:
            timeout = max(0.0, self._stopped + _STOP_SECONDS - time.monotonic())
        ready = self._selector.select(timeout) if self._running else []
        if self._running and not ready:
            for child in self._running.values():  # it has had its time
                child.process.kill()
        for key, _ in ready:
            child = key.data
            pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
            piece = os.read(pipe.fileno(), 1 << 16)
            if not piece:
                self._selector.unregister(pipe)
                pipe.close()
                child.open -= 1
            elif pipe is child.process.stdout:
                child.out += piece
            else:
                *lines, child.line = (child.line + piece).split(b"\n")
                child.line = child.line[-_MOST_LINE:]
                for line in lines:
                    self._asked.say(child.name, line.decode("utf-8", "replace"))
            if not child.open:
                self._ended(child)

    def _ended(self, child: _Child) -> None:
        code = child.process.wait()
        del self._running[child.name]
        self._done[child.name] = found = _found(child, code)
        rows = f", {units.counted(found.rows, 'row')} in {units.duration(found.seconds)}"
        why = rows if found.outcome == DONE else ""
        if found.error not in ("", found.outcome):
            why = f": {found.error}"
        self._asked.say(child.name, f"{found.outcome}{why}")

    def _stop(self) -> None:
        """Ask all loads to stop; each can be resumed."""
        self._stopped = self._stopped or time.monotonic()
        for child in self._running.values():
            child.process.send_signal(signal.SIGTERM)


def _place(to: str, folder: str) -> str:
    """Return what only one load at a time can have open: a folder, or a file; "" for none."""
    if uri.scheme_of(to) not in (uri.FILE, "duckdb"):
        return ""
    return os.path.abspath(os.path.join(folder, uri.parse(to).path.split("?")[0]))


def _found(child: _Child, code: int) -> NamedRun:
    """Return what a load says of itself; what its process has ended with where it says nothing."""
    seconds = round(time.monotonic() - child.began, 3)
    try:
        document = json.loads(child.out)
        if "rowfall_run" in document:
            (one,) = document["loads"]
            return named_run(one, _report(one.pop("report")))
        said, hint = document["error"], document["hint"] or ""
    except (ValueError, KeyError, TypeError):
        by = f"signal {-code}" if code < 0 else f"exit code {code}"
        said, hint = f"its process has ended by {by} and has said nothing", ""
        if child.line:
            said += f": {headline(child.line.decode('utf-8', 'replace'))}"
        code = code if code > 0 else int(Exit.BUG)
    outcome = INTERRUPTED if code == Exit.INTERRUPTED else FAILED
    return NamedRun(child.name, outcome, code, None, said, hint, (), 0, seconds)


def _report(document: dict[str, Any] | None) -> LoadReport | None:
    """Return the report that a document holds."""
    if document is None:
        return None
    if document.pop("rowfall_tables", None) is None:
        document.pop("rowfall_report")
        return from_json(json.dumps(document))
    document.pop("rows")
    tables = []
    for table in document.pop("tables"):
        problem = table.pop("problem")
        found = None if problem is None else TableProblem(**problem)
        tables.append(TableReport(**table, problem=found))
    return TablesReport(**document | {"notes": tuple(document["notes"])}, tables=tuple(tables))


def die_with(parent: int) -> None:
    """End this process as by SIGTERM when its parent is gone, which can no longer ask for it."""
    import ctypes

    death_signal = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
    ctypes.CDLL(None).prctl(death_signal, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it has gone before
        os.kill(os.getpid(), signal.SIGTERM)
