"""The places where the simulator gets under the code: time, chance, threads, processes, SQLite.

All of rowfall runs in one thread at a time and in simulated time while :func:`installed`.
"""

from __future__ import annotations

import concurrent.futures
import gc
import importlib
import pkgutil
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import rowfall.destinations.clickhouse
import rowfall.publish
import rowfall.run.load
from rowfall.core import disk
from rowfall.ledger import leases, store, team
from simulator import fleet

if TYPE_CHECKING:
    from simulator.ledgers import Ledger
    from simulator.world import World

# Everything that a load uses is there before it is changed, also what is imported late: a real
# sleep would never end.
for _package in (rowfall.destinations.clickhouse, rowfall.publish, rowfall.run):
    for _found in pkgutil.iter_modules(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_found.name)

_world: World | None = None


def use(world: World | None) -> None:
    """Make everything below belong to one world."""
    global _world
    _world = world


def _here() -> World:
    assert _world is not None
    return _world


class _Time:
    """Stands for :mod:`time`."""

    perf_counter = staticmethod(time.perf_counter)
    process_time = staticmethod(time.process_time)

    @staticmethod
    def monotonic() -> float:
        return _here().scheduler.clock

    @staticmethod
    def time() -> float:
        return _here().time_here()

    @staticmethod
    def sleep(seconds: float) -> None:
        _here().sleep(seconds)


class _Chance:
    """Stands for :mod:`secrets`."""

    @staticmethod
    def token_hex(count: int) -> str:
        return f"{_here().scheduler.random.getrandbits(8 * count):0{2 * count}x}"

    @staticmethod
    def randbelow(limit: int) -> int:
        return _here().scheduler.random.randrange(limit)


class _Thread:
    """Stands for :class:`threading.Thread`; a lease is renewed by :meth:`World.pass_time`."""

    def __init__(
        self, target: Callable[..., object], name: str = "", args: tuple[Any, ...] = (),
        daemon: bool = False,
    ) -> None:  # fmt: skip
        self._target, self._args, self._name = target, args, name
        self._fiber: Any = None

    def start(self) -> None:
        if self._name == "lease":
            _here().renews(self._target)
        elif self._name == "quit":
            self._target(*self._args)
        else:
            self._fiber = _here().fork(lambda: self._target(*self._args))

    def join(self, timeout: float | None = None) -> None:
        if self._fiber is not None and not self._fiber.ended:
            _here().scheduler.wait(lambda: self._fiber.ended)

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.ended


class _Condition:
    """Stands for :class:`threading.Condition`: one thread runs at a time."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def notify_all(self) -> None:
        """Do nothing: who waits asks again."""

    def wait(self, timeout: float = 1.0) -> None:
        _here().sleep(timeout)


class _Lock:
    """Stands for :class:`threading.Lock`: held while others run."""

    def __init__(self) -> None:
        self._held = False

    def __enter__(self) -> None:
        if self._held:
            _here().scheduler.wait(lambda: not self._held)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False


class _Event:
    """Stands for :class:`threading.Event`, which takes long to make."""

    def __init__(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float) -> bool:
        if not self._set:
            _here().sleep(timeout)
        return self._set


class _Threading:
    """Stands for :mod:`threading`."""

    Thread, Condition, Lock, Event = _Thread, _Condition, _Lock, _Event
    RLock = threading.RLock
    current_thread, main_thread = threading.current_thread, threading.main_thread


class _Sqlite:
    """Stands for :mod:`sqlite3`."""

    Error, OperationalError = sqlite3.Error, sqlite3.OperationalError
    Connection, Row = sqlite3.Connection, sqlite3.Row

    @staticmethod
    def connect(path: Any, **_: Any) -> Ledger:
        return _here().ledger(str(path))


class _Pool:
    """Stands for :class:`concurrent.futures.ThreadPoolExecutor`: one thing after the other."""

    def __init__(self, workers: int) -> None:
        """Do nothing."""

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def submit(self, do: Callable[..., Any], *values: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(do(*values))
        except Exception as error:
            done.set_exception(error)
        return done


_STANDS_FOR: dict[Any, Any] = {
    time: _Time, secrets: _Chance, threading: _Threading, sqlite3: _Sqlite,
    ThreadPoolExecutor: _Pool,
}  # fmt: skip
# These are not driven: they start programs, or watch them.
_NOT = ("rowfall.systems.clickhouse.embedded", "rowfall.systems.clickhouse.prestart", "rowfall.lab")


@contextmanager
def installed() -> Iterator[None]:
    """Let all modules of rowfall see the simulated time, chance, threads and files."""
    undo: list[tuple[Any, str, Any]] = []

    def put(where: Any, name: str, value: Any) -> None:
        undo.append((where, name, getattr(where, name)))
        setattr(where, name, value)

    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("rowfall.") or module_name.startswith(_NOT):
            continue
        for name, value in list(vars(module).items()):
            for real, stand_in in _STANDS_FOR.items():
                if value is real:
                    put(module, name, stand_in)
    # Where it is imported late.
    put(concurrent.futures, "ThreadPoolExecutor", _Pool)
    change = store.LedgerStore.change

    @contextmanager
    def change_here(self: store.LedgerStore) -> Iterator[Any]:
        # The caller of the context manager: what is written down.
        what = sys._getframe(2).f_code.co_name
        _here().before_record(what)
        with change(self) as db:
            yield db
        _here().after_record(what)

    put(store.LedgerStore, "change", change_here)
    put(disk, "make_folder", lambda path, mode: None)
    put(store, "_make_file", lambda path: None)
    put(disk, "changed_at", lambda path: _here().server.changed_at(str(path)))
    put(disk, "is_past", lambda moment: True)
    put(leases, "this_process", lambda: _here().this_process())
    put(leases, "has_ended", lambda text, beside=None: _here().has_ended(text))
    put(team, "SharedLog", fleet.SimulatedLog)
    # Looking for garbage among all that pytest has loaded would take a tenth of the time.
    often = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    try:
        yield
    finally:
        gc.set_threshold(*often)
        gc.unfreeze()
        for where, name, value in reversed(undo):
            setattr(where, name, value)
