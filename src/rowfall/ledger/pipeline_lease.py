"""The lease of a pipeline: one watcher follows, others stand by and take over when it is dead.

It only says who is to follow. That no row is loaded twice is the business of the leases of files: a
watcher that was taken for dead and comes back loses an attempt, never a row.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping, Sequence

from rowfall.core.dataclass import dataclass
from rowfall.ledger import leases
from rowfall.ledger.pipeline_log import (
    ALIVE,
    CLAIM,
    EXPIRE,
    PAUSE,
    QUIT,
    RESUME,
    LogLine,
    PipelineLog,
)

BEAT_SECONDS = 2.0
"""Between two signs of life."""
# A watcher of another machine that says nothing for so long counts as dead: three signs may get
# lost, and who stands by has two seconds left of the ten in which it takes over.
SILENT_SECONDS = 7.0
LOOK_SECONDS = 1.0
"""Between two looks of one that stands by."""
# Lines of so many ended watchers are kept for people; each start and each take-over makes one.
_MOST_ENDED = 50


@dataclass(frozen=True, slots=True)
class LeaseState:
    """What a log says at one moment.

    Attributes:
        holder: owner of the lease; "" for nobody. ``mine``: this process has it.
        dead: the holder has certainly ended, or is silent.
        idle: seconds since its last sign. ``sign``: what it said then, see ``Lease.sign``.
        paused: nobody is to load. ``lines``: all of them.
        ended: owners whose lease has ended.
    """

    holder: str
    mine: bool
    dead: bool
    idle: float
    sign: dict[str, object]
    paused: bool
    lines: tuple[LogLine, ...]
    ended: tuple[str, ...]


def judge(
    lines: Sequence[LogLine], me: str, *, shared: bool, silent: float = SILENT_SECONDS
) -> LeaseState:
    """Tell who holds the lease: the earliest claim that has not ended.

    Args:
        me: an owner; "" for one who only looks.
        shared: the holder may be of another machine, so that its silence counts.
        silent: seconds without a sign after which it counts as dead then.
    """
    over = {line.owner: line.number for line in lines if line.event in (EXPIRE, QUIT)}
    claims = [line for line in lines if line.event == CLAIM]
    ended = tuple(c.owner for c in claims if over.get(c.owner, 0) > c.number)
    held = next((c for c in claims if c.owner not in ended), None)
    pauses = [line for line in lines if line.event in (PAUSE, RESUME)]
    paused = bool(pauses) and max(pauses, key=lambda line: line.number).event == PAUSE
    if held is None:
        return LeaseState("", False, False, 0.0, {}, paused, tuple(lines), ended)
    signs = [line for line in lines if line.owner == held.owner and line.event in (CLAIM, ALIVE)]
    last = max(signs, key=lambda line: line.number)
    idle = min(abs(line.idle) for line in signs)  # abs: a clock that has jumped back
    # In a log of this machine, too, after a boot or where the holder's container is gone: PIDs tell
    # only which processes of this boot and container have ended.
    elsewhere = not held.owner.startswith(f"{leases.machine_id()} ")
    silence = (shared or elsewhere) and idle > silent
    dead = held.owner != me and (leases.has_ended(held.owner) or silence)
    sign: dict[str, object] = json.loads(last.detail) if last.detail else {}
    return LeaseState(held.owner, held.owner == me, dead, idle, sign, paused, tuple(lines), ended)


class PipelineLease:
    """The claim of this process on a pipeline."""

    def __init__(self, log: PipelineLog) -> None:
        self._log = log
        self.owner = f"{leases.this_process()} {secrets.token_hex(4)}"
        self._claimed = False

    def stand(self) -> LeaseState:
        """Ask for the lease, end that of a dead watcher, and tell who has it.

        Raises:
            RowfallError: the target is away.
        """
        found = self._judged()
        if self.owner in found.ended:
            # Taken for dead: behind whoever has it now.
            self.owner = f"{leases.this_process()} {secrets.token_hex(4)}"
            self._claimed = False
        if not self._claimed:
            self._log.append(CLAIM, self.owner, detail=json.dumps(_who()))
            self._claimed = True
            found = self._judged()
        while found.dead:
            self._log.append(EXPIRE, found.holder, detail=json.dumps(_who()))
            # What it holds of files is over as well: nobody need wait for these leases to run out.
            leases.presume_ended(found.holder)
            found = self._judged()
        if found.mine and len(found.ended) > _MOST_ENDED:
            self._log.forget(found.ended)
        return found

    def sign(self, said: dict[str, object]) -> LeaseState:
        """Give a sign of life, and tell who has the lease now.

        Args:
            said: how the pipeline is, for ``rowfall pipeline status``.
        """
        if self._claimed:
            self._log.append(ALIVE, self.owner, detail=json.dumps(_who() | said))
        return self._judged()

    def quit(self, said: Mapping[str, object] | None = None) -> None:
        """Give the lease back.

        Args:
            said: why the pipeline has ended, for its status; None where somebody has stopped it.
        """
        if self._claimed:
            self._log.append(QUIT, self.owner, detail=json.dumps(said) if said else "")
            self._claimed = False

    def _judged(self) -> LeaseState:
        return judge(self._log.lines(), self.owner, shared=self._log.shared)


def _who() -> dict[str, object]:
    return {"host": socket.gethostname(), "pid": os.getpid()}
