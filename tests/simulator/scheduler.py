"""Threads that take turns: one runs at a time, and a seed decides who is next.

Whoever runs comes to :meth:`Scheduler.point` before and after everything that others could see.
There it may go on, or hand over. Time passes only here.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

# Two processes that load four files come to some 400 points; rescuers that wait for each other to
# some thousands.
MOST_POINTS = 60_000
POINT_SECONDS = 0.01


class Killed(BaseException):
    """kill -9: nothing of the process runs on."""


class HangError(AssertionError):
    """Somebody waits for ever."""


class _Hand:
    """A thread that runs one fiber after the other: to start one takes as long as 20 points."""

    def __init__(self) -> None:
        self.work: Callable[[], None] | None = None
        self.wake = threading.Lock()
        self.wake.acquire()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.wake.acquire()
            assert self.work is not None
            self.work()


_idle: list[_Hand] = []


@dataclass
class Fiber:
    """One thread of one process.

    Attributes:
        owner: the process; a killed one's fibers end at their next turn.
        wakes: it sleeps until then. ``waits``: it runs on when this is true.
        turn: released when it may run.
    """

    name: str
    owner: object
    body: Callable[[], None]
    wakes: float = 0.0
    waits: Callable[[], bool] | None = None
    ended: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)


class Scheduler:
    """Decides who runs.

    Attributes:
        random: everything that is left to chance comes from here.
        clock: seconds of the simulated world.
        error: of the simulation itself, or a property that does not hold.
    """

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)
        self.clock = 0.0
        self.points = 0
        self.fibers: list[Fiber] = []
        self.current: Fiber | None = None
        self.error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    # --- fibers -------------------------------------------------------------------------------

    def start(self, name: str, owner: object, body: Callable[[], None]) -> Fiber:
        """Add a fiber; it begins when it is chosen."""
        fiber = Fiber(name, owner, body)
        fiber.turn.acquire()
        self.fibers.append(fiber)
        hand: list[_Hand] = []

        def life() -> None:
            fiber.turn.acquire()
            try:
                if self.error is None:
                    fiber.body()
            except Killed:
                pass
            except BaseException as error:
                self.fail(error)
            fiber.ended = True
            self.fibers.remove(fiber)
            following = self._choose()
            _idle.append(hand[0])
            self._hand_over(following)

        one = _idle.pop() if _idle else _Hand()
        hand.append(one)
        one.work = life
        one.wake.release()
        return fiber

    def fail(self, error: BaseException) -> None:
        """End everything: the simulation has found what it looks for, or does not work."""
        self.error = self.error or error

    def stop(self, error: BaseException) -> None:
        """End everything at once, from wherever it was found."""
        if self.current is None:
            raise error
        self.fail(error)
        raise Killed

    def run(self) -> None:
        """Let all fibers run to their ends.

        Raises:
            AssertionError: a property does not hold.
        """
        following = self._choose()
        if following is not None:
            self._hand_over(following)
            self._done.acquire()
        if self.error is not None:
            raise self.error

    def _hand_over(self, fiber: Fiber | None) -> None:
        self.current = fiber
        (self._done if fiber is None else fiber.turn).release()

    def _choose(self, others: Fiber | None = None) -> Fiber | None:
        """Return who runs next; time passes where all sleep. None when all have ended."""
        if self.error is not None:
            return self.fibers[0] if self.fibers else None
        while self.fibers:
            able = [f for f in self.fibers if f.wakes <= self.clock
                    and f is not others and (f.waits is None or f.waits())]  # fmt: skip
            if able:
                chosen = able[0] if len(able) == 1 else self.random.choice(able)
                chosen.waits = None
                return chosen
            if others is not None:
                return others
            asleep = [f.wakes for f in self.fibers if f.wakes > self.clock]
            if not asleep:
                self.fail(HangError("all wait for each other: "
                                    + ", ".join(f.name for f in self.fibers)))  # fmt: skip
                return self.fibers[0]
            self.clock = min(asleep)
        return None

    # --- for the running fiber ----------------------------------------------------------------

    def point(self) -> None:
        """Let a moment pass."""
        self.clock += POINT_SECONDS
        self.points += 1
        if self.current is not None:
            self._alive(self.current)
        if self.points > MOST_POINTS:
            self.fail(HangError(f"{self.points} points, and no end"))
            raise Killed

    def switch(self) -> None:
        """Let another one run, if there is one."""
        me = self.current
        assert me is not None
        following = self._choose(me)
        if following is not me:
            self._hand_over(following)
            me.turn.acquire()
        self._alive(me)

    def _alive(self, me: Fiber) -> None:
        if self.error is not None or getattr(me.owner, "killed", False):
            raise Killed

    def sleep(self, seconds: float) -> None:
        """Let others run for a while."""
        me = self.current
        assert me is not None
        self.point()
        me.wakes = self.clock + seconds
        self._suspend(me)

    def wait(self, until: Callable[[], bool]) -> None:
        """Let others run until something is true."""
        me = self.current
        assert me is not None
        self.point()
        if until():
            return
        me.waits = until
        self._suspend(me)

    def _suspend(self, me: Fiber) -> None:
        following = self._choose()
        if following is not me:
            self._hand_over(following)
            me.turn.acquire()
        me.wakes, me.waits = 0.0, None
        self._alive(me)
