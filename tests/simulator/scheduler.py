"""Threads that take turns: one runs at a time, and a seed decides who is next.

They are greenlets: to wake threads of the kernel would take a quarter of the time.

Whoever runs comes to :meth:`Scheduler.point` before and after everything that others could see.
There it may go on, or hand over. Time passes only here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from greenlet import getcurrent, greenlet

# Two processes that load four files come to some 400 points; rescuers that wait for each other to
# some thousands.
MOST_POINTS = 60_000
POINT_SECONDS = 0.01


class Killed(BaseException):
    """kill -9: nothing of the process runs on."""


class HangError(AssertionError):
    """Somebody waits for ever."""


@dataclass
class Fiber:
    """One thread of one process.

    Attributes:
        owner: the process; a killed one's fibers end at their next turn.
        wakes: it sleeps until then. ``waits``: it runs on when this is true.
        run: where it stands.
    """

    name: str
    owner: object
    body: Callable[[], None]
    wakes: float = 0.0
    waits: Callable[[], bool] | None = None
    ended: bool = False
    run: greenlet | None = None


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
        self._outside = getcurrent()

    # --- fibers -------------------------------------------------------------------------------

    def start(self, name: str, owner: object, body: Callable[[], None]) -> Fiber:
        """Add a fiber; it begins when it is chosen."""
        fiber = Fiber(name, owner, body)
        fiber.run = greenlet(lambda: self._live(fiber), self._outside)
        self.fibers.append(fiber)
        return fiber

    def _live(self, fiber: Fiber) -> None:
        """Let a fiber run to its end, after which :meth:`run` goes on."""
        try:
            if self.error is None:
                fiber.body()
        except Killed:
            pass
        except BaseException as error:
            self.fail(error)
        fiber.ended = True
        self.fibers.remove(fiber)

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
        while (following := self._choose()) is not None:  # at first, and when one has ended
            self._hand_over(following)
        self.current = None
        if self.error is not None:
            raise self.error

    def _hand_over(self, fiber: Fiber) -> None:
        """Let another one run, until somebody hands over to who called this."""
        self.current = fiber
        assert fiber.run is not None
        fiber.run.switch()

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
        if following is not me and following is not None:
            self._hand_over(following)
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
        if following is not me and following is not None:
            self._hand_over(following)
        me.wakes, me.waits = 0.0, None
        self._alive(me)
