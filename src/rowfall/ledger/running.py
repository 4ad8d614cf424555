"""Say how far a running load is, in a small file beside its ledger, for ``rowfall status``.

The ledger itself is flushed to disk with each change, which a line a second should not cost; what
this file says is worth nothing once its load has ended, so it is neither flushed nor kept.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from rowfall.core import disk
from rowfall.core.dataclass import dataclass
from rowfall.core.events import AttemptPublished, Event, LoadEnded, LoadStarted, Progressed
from rowfall.core.load_record import LoadRecord
from rowfall.core.results import AttemptRecord
from rowfall.ledger import recorder
from rowfall.ledger.recorder import Recorder

EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunningRecord:
    """The record that a load has written so far, while it runs.

    Attributes:
        attempts: the slowest ones and those that failed; ``others``: how many have ended besides.
        plan: as its JSON; None where it has none yet.
    """

    record: LoadRecord = LoadRecord()
    attempts: tuple[AttemptRecord, ...] = ()
    others: int = 0
    plan: dict[str, Any] | None = None


def path_of(ledger: Path, load_id: str) -> Path:
    """Return the file of a load."""
    return ledger.with_name(f"{ledger.name}.{load_id}.running")


def read(ledger: Path, load_id: str) -> dict[str, float]:
    """Return the latest progress of a load: ``share`` (0 to 1), ``rows``, ``bytes``, ``splits``,
    ``loaded``, ``skipped``, ``seconds``; {} where it has written none yet."""
    found = _read(ledger, load_id)
    return {n: float(v) for n, v in found.items() if isinstance(v, int | float)}


def read_record(ledger: Path, load_id: str) -> RunningRecord:
    """Return what a load has recorded so far; nothing where it has written nothing yet, or a
    rowfall of another version runs it."""
    found = _read(ledger, load_id)
    plan = found.get("plan")
    try:
        return RunningRecord(
            recorder.from_json(found.get("record", {})),
            tuple(AttemptRecord(*each) for each in found.get("attempts", ())),
            int(found.get("others", 0)),
            plan if isinstance(plan, dict) else None,
        )
    except (ValueError, TypeError, KeyError):
        return RunningRecord()


def _read(ledger: Path, load_id: str) -> dict[str, Any]:
    try:
        found = json.loads(path_of(ledger, load_id).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Running:
    """Records the events of a load, and writes the file from them, at most once a second."""

    def __init__(
        self, ledger: Path, load_id: str, recorder: Recorder,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._path = path_of(ledger, load_id)
        self._recorder = recorder
        self._clock = clock
        self._written = float("-inf")
        self._bytes: int | None = None
        self._rows: int | None = None
        self._says: dict[str, float | None] = {}
        self._guard = threading.Lock()
        self._removed = False

    def hear(self, event: Event) -> None:
        self._recorder.hear(event)
        match event:
            case LoadStarted():
                self._bytes, self._rows = event.total_bytes, event.total_rows
                self._says = {
                    "share": 0.0, "splits": event.splits, "skipped": event.resumed, "loaded": 0,
                }  # fmt: skip
                self._write(self._says)
            case Progressed():
                share = None
                if self._bytes and event.bytes is not None:
                    share = min(event.bytes / self._bytes, 1.0)
                elif self._rows:
                    share = min(event.rows / self._rows, 1.0)
                self._says |= {
                    "share": share, "rows": event.rows, "bytes": event.bytes,
                    "seconds": event.seconds,
                }  # fmt: skip
                if self._clock() - self._written >= EVERY_SECONDS:
                    self._write(self._says)
            case AttemptPublished():
                self._says["loaded"] = (self._says.get("loaded") or 0) + event.splits
            case LoadEnded():
                self.remove()
            case _:
                pass

    def remove(self) -> None:
        """Remove the file: the load has ended. What its threads still say is written no more."""
        with self._guard, suppress(OSError):
            self._removed = True
            self._path.unlink(missing_ok=True)

    def _write(self, says: Mapping[str, float | None]) -> None:
        """Write the file as a whole, so that nobody reads half of it; a full disk is no reason to
        stop a load."""
        self._written = self._clock()
        attempts, others = self._recorder.attempts()
        document = {
            **says,
            "record": recorder.to_json(self._recorder.record()),
            # Without names of fields, as 50 of them are written every second.
            "attempts": [[getattr(a, f.name) for f in fields(a)] for a in attempts],
            "others": others,
            "plan": self._recorder.plan,
        }
        with self._guard, suppress(OSError):
            if self._removed:
                return
            whole = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            whole.unlink(missing_ok=True)
            # In a folder that others may write to, a link of this name would lead elsewhere.
            opened = disk.open_own(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(opened, "w") as file:
                file.write(json.dumps(document))
            whole.replace(self._path)
