"""One load into a server, hurt at a chosen request or moment, then repeated until it succeeds."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from typing import Literal, Self

from faults.kills import CODES, Process
from lab.clickhouse import ClickHouse
from lab.faulty import Fault, Faulty, Request, nth
from lab.process import let_pass, wait_until
from lab.rows import Rows, check_exact, create_target

Side = Literal["before", "after"]
Hurt = Callable[[Process], object]
Start = Callable[[int, str], Process]
"""Starts the command against a port of 127.0.0.1 and a database, and returns at once."""

# The slowest load here takes 2 s; a run that waits for a server may take a while longer.
_RUN_SECONDS = 90.0
_TRIES = 6
_numbers = itertools.count()


class Scene:
    """A server behind a fault proxy, the rows to load, and the command that loads them.

    Args:
        server: may be killed; it is started again before the command is repeated.
        rows: what must be in the table in the end.
        start: runs the command. It always gets the same port, so it is always the same target.
        create: makes the database and its table ``t``; by default one with 20 partitions.

    Attributes:
        database: of the current load; :meth:`fresh` takes a new one.
        proxy: the way to the server. Its script is removed before the command is repeated.
        said: stderr of every run of the current load, for messages.
        mends: called once before the command is repeated: they repair what was broken.
        codes: what a hurt run may end with.
    """

    def __init__(
        self,
        server: ClickHouse,
        rows: Rows,
        start: Start,
        create: Callable[[ClickHouse, str], None] = create_target,
    ) -> None:
        self.server = server
        self.rows = rows
        self._start = start
        self._create = create
        self.proxy = Faulty(server.http_port)
        self.database = ""
        self.said: list[str] = []
        self.mends: list[Callable[[], object]] = []
        self.codes: tuple[int, ...] = CODES

    def fresh(self) -> None:
        """A new empty table in a new database; the last one is dropped."""
        self.proxy.script = None
        self._mend()
        if self.database:
            self.server.query(f"DROP DATABASE IF EXISTS {self.database} SYNC")
        database = f"scene_{os.getpid()}_{next(_numbers)}"
        self._create(self.server, database)
        self.database = database
        self.proxy.reset_count()
        self.said = []

    def steps(self) -> list[Request]:
        """Load without a fault, and return the requests that it took."""
        self.fresh()
        assert self.run() == 0, self.said
        taken = list(self.proxy.requests)
        check_exact(self.server, self.database, self.rows)
        return taken

    def hurt_at(self, number: int, side: Side, hurt: Hurt, *, fresh: bool = True) -> bool:
        """Start a fresh load, hurt it at one request, finish it, and check everything.

        Args:
            number: of the request, from 1.
            side: ``before`` it reaches the server, or ``after`` the server has answered; the
                command sees a reset connection in both cases.
            hurt: called once with the process.
            fresh: call :meth:`fresh` first.

        Returns:
            False when the load ended without so many requests; it is checked all the same.
        """
        met, known, done = threading.Event(), threading.Event(), threading.Event()
        running: list[Process] = []

        def act() -> None:
            known.wait(_RUN_SECONDS)
            met.set()
            try:
                hurt(running[0])
            finally:
                done.set()

        fault = (
            Fault(before=act, reset="before")
            if side == "before"
            else Fault(after=act, reset="after")
        )
        if fresh:
            self.fresh()
        self.proxy.script = nth(number, fault)
        running.append(self._start(self.proxy.port, self.database))
        known.set()
        self.ended(running[0])
        # A killed command has ended before the server, which is killed after it.
        assert not met.is_set() or done.wait(_RUN_SECONDS)
        self.finish()
        return met.is_set()

    def hurt_after(self, seconds: float, hurt: Hurt) -> bool:
        """Start (or repeat) the load and hurt it at that moment; see :meth:`finish`.

        Args:
            seconds: after its first request: on a busy machine it takes long to begin, and before
                that there is nothing to hurt.

        Returns:
            Whether it was still running.
        """
        asked = len(self.proxy.requests)
        process = self._start(self.proxy.port, self.database)
        wait_until(
            lambda: len(self.proxy.requests) > asked or process.poll() is not None,
            _RUN_SECONDS, "a request",
        )  # fmt: skip
        let_pass(seconds, "a random moment of the load")
        running = process.poll() is None
        if running:
            hurt(process)
        self.ended(process)
        return running

    def run(self) -> int:
        """The command once, as things are now. Returns its exit code."""
        return self.ended(self._start(self.proxy.port, self.database))

    def finish(self) -> None:
        """Repair what is broken, repeat the command until it succeeds, and check everything."""
        self.proxy.script = None
        self._mend()
        assert any(self.run() == 0 for _ in range(_TRIES)), "\n---\n".join(self.said)
        check_exact(self.server, self.database, self.rows)
        assert self.proxy.errors == []

    def _mend(self) -> None:
        if self.server.pid is None:
            self.server.start()
        while self.mends:
            self.mends.pop()()

    def close(self) -> None:
        self.proxy.close()
        if self.database and self.server.pid is not None:
            self.server.query(f"DROP DATABASE IF EXISTS {self.database} SYNC")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ended(self, process: Process) -> int:
        """Wait for a run; returns its exit code."""
        _, err = process.communicate(timeout=_RUN_SECONDS)
        self.said.append(f"[{process.returncode}] {err}")
        assert process.returncode in self.codes, self.said[-1]
        assert "Traceback" not in err, err
        return int(process.returncode)
