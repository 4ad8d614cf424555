"""The workers of a load that several machines share, as a small table beside its target tells.

Lines are only appended, and their order decides, by the clock of the server alone. The earliest
claim that has not ended leads: it writes down what is to be loaded, and adds the report up. No row
depends on who leads: each worker runs a load of its own, with leases of files in the journal.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.results import WorkerReport
from rowfall.core.version import __version__
from rowfall.engines.small_tables import SmallTables
from rowfall.ledger import leases
from rowfall.ledger.pipeline_lease import LeaseState, judge
from rowfall.ledger.pipeline_log import ALIVE, CLAIM, EXPIRE, QUIT, LogLine, SharedLog

TABLE = "_rowfall_workers"
# ClickHouse removes what is older by itself; nobody asks how a load of last month was shared.
_KEPT = (
    "toDateTime(at) + INTERVAL 30 DAY, toDateTime(at) + INTERVAL 1 DAY DELETE WHERE event = 'alive'"
)
# Events besides those of pipelines. WORK is a sign of life that is kept.
PLAN, FILES, WORK = "plan", "files", "work"
_T = TypeVar("_T")
AWAY_SECONDS = 0.5
"""Between two tries while the target is away."""
BEAT_SECONDS = 5.0
"""Between two signs of life: a hundred workers make twenty small inserts a second."""
# A worker of another machine that says nothing for so long counts as dead: five signs are lost. It
# only decides who adds the report up; leases of files have a time of their own, of a minute.
SILENT_SECONDS = 30.0
# Older signs of life say nothing that the silence since then does not say; of a hundred workers
# there are 70,000 an hour.
_RECENT_SECONDS = 4 * SILENT_SECONDS
# A line of some 100 KB, packed: 100 lines for a million files.
_FILES_PER_LINE = 10_000

JOINING, LOADING, WAITING, ENDED, LOST = "joining", "loading", "waiting", "ended", "lost"
"""States of a worker: behind LOADING its part is done, and WAITING is for those of the others."""
STOPPED = "failed"
"""State of one that an error has ended."""

File = tuple[str, str, int | None, int | None]
"""URI, version, start and stop of a split, as :class:`rowfall.core.listing.Split` has them."""


@dataclass(frozen=True, slots=True)
class TeamMember:
    """One worker.

    Attributes:
        number: of its claim. ``says``: what it has said last; ``idle``: seconds since then.
        dead: it has certainly ended without a word, or is silent. ``quits``: it has said its end.
    """

    owner: str
    number: int
    says: Mapping[str, Any]
    idle: float
    dead: bool
    quits: bool = False

    @property
    def state(self) -> str:
        """Return one of the states above, or how its part of the load has ended."""
        found = str(self.says.get("state", JOINING))
        if found not in (JOINING, LOADING, WAITING):
            return found
        return LOST if self.dead else STOPPED if self.quits else found

    @property
    def load_id(self) -> str:
        """Return the id of its own load; "" before it has one."""
        return str(self.says.get("load", ""))

    @property
    def works(self) -> bool:
        """True while it may still load something of this load."""
        return self.state == LOADING

    def report(self) -> WorkerReport:
        """Return its share, as it has told it last."""
        says, state = self.says, self.state
        if state in (WAITING, ENDED):
            state = str(says.get("outcome", "done"))
        return WorkerReport(
            str(says.get("host", "")), int(says.get("pid", 0)), self.load_id, state,
            bool(says.get("led")), int(says.get("rows", 0)), int(says.get("splits", 0)),
            int(says.get("bytes", 0)), float(says.get("seconds", 0.0)),
            float(says.get("cpu", 0.0)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Plan of a shared load: all of its workers have to agree on it.

    Attributes:
        owner: who has written it. ``idle``: seconds since then.
        said: version, host, load (id of it), sources, to, table, key, options, files (the key that
            they are kept under), splits (their number), before (those that were loaded when it
            began), place (in the record, at that moment), since (number of the first claim), age
            (seconds that the load had run before).
    """

    owner: str
    said: Mapping[str, Any]
    idle: float

    @property
    def seconds(self) -> float:
        """Return the seconds since the load began, by the clock of the server."""
        return self.idle + float(self.said.get("age", 0.0))


@dataclass(frozen=True, slots=True)
class TeamState:
    """State of a shared load at one moment, as the lines say.

    Attributes:
        standing: who leads.
        plan: that of who leads; None before it is written.
        last: the newest plan of anybody.
        members: of the newest plan, in the order in which they came.
    """

    standing: LeaseState
    plan: SharedPlan | None
    last: SharedPlan | None
    members: tuple[TeamMember, ...]

    @property
    def leads(self) -> bool:
        """True where this process leads."""
        return self.standing.mine

    @property
    def added_up(self) -> TeamMember | None:
        """Return who has added the report up; None where nobody has."""
        done = (m for m in self.members if m.says.get("led") and m.state == ENDED)
        return next(done, None)


def read_lines(lines: Sequence[LogLine], me: str = "") -> TeamState:
    """Return what the lines of one name say.

    Args:
        me: owner of the claim of this process; "" for one who only looks.
    """
    said: dict[str, LogLine] = {}
    expired: dict[str, int] = {}
    for line in lines:
        if line.event in (CLAIM, WORK, ALIVE, QUIT):
            said[line.owner] = line  # lines come in their order
        elif line.event == EXPIRE:
            expired[line.owner] = line.number
    spoken = {owner: _json(line) for owner, line in said.items()}
    # Whose load has ended leads no other, however long its process looks at the rows again.
    over = {owner for owner, says in spoken.items() if says.get("state") == ENDED}
    standing = judge(
        [line for line in lines if line.owner not in over], me, shared=True, silent=SILENT_SECONDS
    )
    plans = [SharedPlan(line.owner, _json(line), line.idle) for line in lines if line.event == PLAN]
    last = plans[-1] if plans else None
    plan = next((p for p in reversed(plans) if p.owner == standing.holder), None)
    counts = plan or last
    since = int(counts.said.get("since", 0)) if counts is not None else 0
    claims = {line.owner: line.number for line in lines if line.event == CLAIM}
    members = []
    for owner, number in claims.items():
        if number < since or owner not in said or spoken[owner].get("state") == "refused":
            continue
        idle = abs(said[owner].idle)  # abs: the clock of the server has jumped back
        quits = said[owner].event == QUIT
        dead = not quits and (
            expired.get(owner, 0) > said[owner].number
            or leases.has_ended(owner)
            or (idle > SILENT_SECONDS and owner != me)
        )
        members.append(TeamMember(owner, number, spoken[owner], idle, dead, quits))
    return TeamState(standing, plan, last, tuple(sorted(members, key=lambda m: m.number)))


def _json(line: LogLine) -> dict[str, Any]:
    found = json.loads(line.detail) if line.detail else {}
    return found if isinstance(found, dict) else {}


class Team:
    """The workers of one name; this process may be one of them.

    Args:
        tables: beside the target. ``name``: of the load, as ``--fleet`` has it.
        make: the table, where it is missing.
        patience: seconds that the target may be away.
    """

    def __init__(
        self, tables: SmallTables, name: str, *, make: bool = True, patience: float = 0.0
    ) -> None:
        self._tables, self._name, self._patience = tables, name, patience
        self._log = SharedLog(tables, name, TABLE, _KEPT, make=make)
        self._guard = threading.Lock()
        self.owner = ""
        self._says: dict[str, Any] = {}

    def join(self) -> None:
        """Write down that this process takes part."""
        self.owner = f"{leases.this_process()} {secrets.token_hex(4)}"
        self._says = {"host": socket.gethostname(), "pid": os.getpid(), "version": __version__}
        self._append(CLAIM, self.owner, json.dumps(self._says))

    def _append(self, event: str, owner: str, detail: str = "") -> None:
        """Write a line, twice where the answer was lost: it says the same, a claim a little later.

        Raises:
            RowfallError: the target is away for longer than it may be.
        """
        self._patiently(lambda: self._log.append(event, owner, detail=detail))

    def _patiently(self, do: Callable[[], _T]) -> _T:
        until = time.monotonic() + self._patience
        while True:
            try:
                return do()
            except RowfallError as error:
                if not error.transient or time.monotonic() >= until:
                    raise
                time.sleep(AWAY_SECONDS)

    def look(self) -> TeamState:
        """Return how things are; the lease of a dead leader is ended, where this is a worker.

        Raises:
            RowfallError: the target is away.
        """
        while True:
            lines = self._patiently(lambda: self._log.lines(recent=_RECENT_SECONDS))
            found = read_lines(lines, self.owner)
            if self.owner and self.owner in found.standing.ended:
                # Taken for dead: behind all others.
                self.sign(CLAIM)
            elif self.owner and found.standing.dead:
                self._append(EXPIRE, found.standing.holder)
            else:
                return found

    def says(self, **said: Any) -> None:
        """Change what the next sign of life tells."""
        with self._guard:
            self._says = {**self._says, **said}

    def sign(self, event: str = ALIVE) -> None:
        """Give a sign of life, or say that this process takes part no more (``QUIT``)."""
        with self._guard:
            detail = json.dumps(self._says)
        self._append(event, self.owner, detail)

    def write_plan(self, said: Mapping[str, Any]) -> None:
        """Write down what is to be loaded, as who leads."""
        self._append(PLAN, self.owner, json.dumps(said))

    def write_files(self, files: Iterable[File]) -> str:
        """Write down the files of a plan; return the key that they are kept under."""
        key = f"{self._name} {secrets.token_hex(8)}"
        log = SharedLog(self._tables, key, TABLE, make=False)
        for number, some in enumerate(batched(files, _FILES_PER_LINE)):
            line = partial(log.append, FILES, item=f"{number:06}", detail=_packed(some))
            self._patiently(line)
        return key

    def files(self, key: str) -> Iterator[File]:
        """Give the files of a plan."""
        log = SharedLog(self._tables, key, TABLE, make=False)
        for line in self._patiently(lambda: log.lines(files=True)):
            for file in json.loads(zlib.decompress(base64.b64decode(line.detail))):
                uri, version, start, stop = file
                yield uri, version, start, stop


# Shorter ones are names: of the ids of a month some begin with any letter, or any two.
_LEAST_ID = 6


def name_of(tables: SmallTables, load_id: str) -> str:
    """Return the name under which a load is shared, by that name or the beginning of its id.

    Args:
        load_id: a name that is one already is no id.

    Raises:
        UsageError: several loads begin so. RowfallError: the table is not there.
    """
    if len(load_id) < _LEAST_ID or not load_id.isalnum():
        return load_id
    like, text = tables.value(f'%"load": "{load_id}%'), tables.value(load_id)
    found = tables.ask(
        f"SELECT DISTINCT pipeline FROM {tables.name(TABLE)} WHERE event = {tables.value(PLAN)} "
        f"AND (detail LIKE {like} OR pipeline = {text})"
    )
    names = {str(row[0]) for row in found}
    if load_id in names or not names:
        return load_id
    if len(names) > 1:
        raise UsageError(
            f"the ids of several shared loads begin with {load_id}: {', '.join(sorted(names))}",
            hint="Give the name of one, or more of its id.",
        )
    return names.pop()


def batched(files: Iterable[File], size: int) -> Iterator[Sequence[File]]:
    """Give files in groups of that size; :mod:`itertools` has it from Python 3.12 on."""
    left = iter(files)
    while some := list(islice(left, size)):
        yield some


def _packed(files: Sequence[File]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(files).encode())).decode()
