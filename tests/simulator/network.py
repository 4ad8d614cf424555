"""The way of one process to a server: the engine that it sees, and what becomes of a request.

Every request is a moment at which something may happen (:mod:`faults`): to the request, to the
process, to the server, or to its tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rowfall.core.errors import EngineError, LockLostError
from rowfall.core.model import Facts, Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import EngineQuestions
from simulator.server import Running, Server, Table, refusal

if TYPE_CHECKING:
    from simulator.world import Process, World

FACTS = Facts("24.10.1.1", 2, 1 << 30)
OK = "ok"
KEEPER_EXCEPTION = 999


class Connection(EngineQuestions):
    """The engine of one process: see :class:`rowfall.engines.base.Engine`.

    Attributes:
        shared: it is a server; otherwise the process has the data folder to itself.
    """

    pause = 0.5
    facts = FACTS
    query_log = True
    ddl_settings = False
    readonly = 0
    rows_refused = None

    def __init__(self, world: World, process: Process, server: Server, shared: bool) -> None:
        self.world, self.process, self.server, self.shared = world, process, server, shared
        self.kind = "server" if shared else "embedded"

    def run(self, statement: Statement, **_: Any) -> Outcome:
        found = self.send(statement.sql.reveal(), statement.query_id)
        return Outcome(rows_read=len(found), data=b"")

    def ask(
        self, sql: str | SqlText, settings: Mapping[str, Any] | None = None, *, lane: int = 0
    ) -> list[list[Any]]:
        return self.send(sql if isinstance(sql, str) else sql.reveal())

    def probe(self, sql: Any, seconds: float, settings: Any = None) -> list[list[Any]]:
        return self.ask(sql)

    def send(self, text: str, query_id: str = "") -> list[list[Any]]:
        """Send one statement, and wait for its answer if there is one."""
        world, process, server = self.world, self.process, self.server
        began = server.starts
        fate = self._before(text)
        if server.starts != began and not self.shared:
            raise self.lost()  # the child of the process has died
        if fate == OK:
            found = world.carry_out(server, text, query_id, process.name)
            world.after(process, server, text)
            return found
        if fate == "lost request":
            raise self.lost()
        if fate in ("late request", "late answer"):
            # Nobody waits for it; the server may have begun already, or get it later.
            server.running.append(Running(text, query_id, fate == "late answer", process.name))
            raise self.lost()
        if fate == "lost answer":
            world.carry_out(server, text, query_id, process.name)
            raise self.lost()
        if fate == "keeper":
            world.lose_keeper(server, text, query_id)
            raise refusal(KEEPER_EXCEPTION, "Session expired")
        if fate == "torn":
            world.tear(server, text, query_id)
            raise self.lost()
        raise AssertionError(fate)

    def _before(self, text: str) -> str:
        """Let a moment pass, and return what becomes of a request.

        Raises:
            EngineError: the server does not answer.
        """
        fate = self.world.before(self.process, self.server, text)
        if not self.server.up:
            raise self.lost()
        return fate

    def lost(self) -> EngineError:
        return EngineError("the connection was lost", transient=True)

    def finished(self, query_id: str, *, since_start: bool = False) -> bool | None:
        with suppress(EngineError):
            self._before("finished")
        if not self.server.up:
            return None
        ends = self.server.log.get(query_id)
        if not ends or not self.shared:
            return None  # a data folder has no log that outlives its process
        if since_start and self.server.log_runs.get(query_id) != self.server.starts:
            return None
        # Two processes may send a statement of the same id: one success is enough.
        return any(ends)

    def runs(self, query_id: str) -> bool:
        self._before("runs")
        return any(r.arrived and r.query_id == query_id for r in self.server.running)

    def kill(self, query_id: str) -> None:
        self._before(f"KILL {query_id}")
        running = self.server.running
        running[:] = [r for r in running if not (r.arrived and r.query_id == query_id)]

    def sync(self) -> None:
        self._before("sync")
        if "no sync" not in self.world.old:
            self.world.note(f"{self.process.name}: sync")
            self.server.sync()

    def check_alone(self) -> None:
        """See :class:`rowfall.engines.base.Engine`: another process may have the folder's lock."""
        self._before("the lock")
        last = self.world.lock_taken_by
        if not self.shared and last is not None and last is not self.process:
            raise LockLostError("the lock of the folder was replaced")

    def keeps_mark(self, uuid: str) -> bool:
        return not self.shared and "no mark" not in self.world.old and self._named(uuid) is not None

    def mark(self, uuid: str, text: str, *, at_once: bool = False) -> None:
        self._before("mark")
        table = self._named(uuid)
        if table is not None:
            self.world.note(f"{self.process.name}: mark {text}")
            table.mark = text
            if at_once and "marks stay in memory" not in self.world.old:
                table.mark_on_disk = text

    def marked(self, uuid: str) -> str:
        table = self._named(uuid)
        return "" if table is None or not self.keeps_mark(uuid) else table.mark

    def _named(self, uuid: str) -> Table | None:
        return next((t for t in self.server.tables.values() if t.uuid == uuid), None)

    def revive(self) -> None:
        """Wait until the server is there again."""
        if not self.server.up:
            self.world.sleep(self.server.back - self.world.scheduler.clock)

    def resident(self) -> tuple[int, int]:
        return 0, 0

    def same_machine(self) -> bool:
        return not self.shared

    def cpu_seconds(self) -> float:
        return 0.0

    def sync_refused(self) -> None:
        """Return None: this user may flush."""

    def check_writes(self) -> None:
        """Do nothing: this user may write."""

    def check_rights(self, tables: object, *, replicated: bool = False) -> None:
        """Do nothing: this user may do everything."""

    def abandon(self) -> None:
        """Do nothing: nobody presses Ctrl-C."""

    def close(self) -> None:
        """Do nothing."""
