"""Forks the engine's process from one that has loaded the engine, for commands of this process.

Loading it takes 0.2 s of CPU, half of what a load of few rows takes, and the tests run some two
thousand commands inside of their own process. From the fork on everything is as in a process that
prestart has started: descriptors, session, environment, current folder. Tests of how the engine is
started, and commands that run as processes of their own, do not come here.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import io
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import IO, Any, cast

from rowfall.core import environment
from rowfall.systems.clickhouse import prestart

started = prestart._spawn
"""As users start it."""
MOST = 1 << 17
"""Bytes of a message: the environment of a child is 2 kB."""
MOST_FDS = 64


class Forked:
    """A process forked by the server, as far as the engine's code handles one."""

    def __init__(self, server: Server, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self._server = server
        self.pid = pid
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self._end = os.pidfd_open(pid)
        self._lock = threading.Lock()  # one asks for the end, and then there is nothing to ask for

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._end], [], [], 0)[0]:
                self.returncode = self._server.reap(self.pid)
                os.close(self._end)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("engine", cast("float", timeout))
            with contextlib.suppress(OSError, ValueError):  # closed by another thread's poll
                select.select([self._end], [], [], 0.5)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)

    def __del__(self) -> None:
        if self.returncode is None and contextlib is not None:  # None when Python is ending
            with contextlib.suppress(OSError):
                os.close(self._end)


class _Raw(io.FileIO):
    """A pipe that is closed in silence with an engine that a test has left: where users start it,
    ``subprocess`` would say so, and tests/embedded does."""

    def _dealloc_warn(self, source: object) -> None:
        """Say nothing."""


class Server:
    """The process that has loaded the engine and forks. It ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = theirs.fileno()
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-P", "-c", f"import forking; forking.serve({number})"],
            stdin=subprocess.DEVNULL, pass_fds=[number], start_new_session=True,
            env={**environment.of_child(), "PYTHONPATH": path},
        )  # fmt: skip
        theirs.close()
        atexit.register(self._close)

    def _close(self) -> None:
        self._channel.close()
        self._process.wait()

    def _ask(self, message: dict[str, Any], fds: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(message).encode()], list(fds))
            return int(self._channel.recv(MOST))

    def reap(self, pid: int) -> int:
        return self._ask({"reap": pid})

    def spawn(self, fds: Sequence[int]) -> prestart.PrestartedChild:
        """Start a child as ``prestart._spawn`` does."""
        stderr = io.BufferedRandom(_Raw(os.memfd_create("stderr"), "w+b"))
        own_in, stdin = os.pipe()
        stdout, own_out = os.pipe()
        message = {"cwd": os.getcwd(), "env": environment.of_child(), "fds": [0, 1, 2, *fds]}
        pid = self._ask(message, [own_in, own_out, stderr.fileno(), *fds])
        os.close(own_in)
        os.close(own_out)
        pipes = io.BufferedWriter(_Raw(stdin, "wb")), io.BufferedReader(_Raw(stdout, "rb"))
        made = Forked(self, pid, *pipes)
        return prestart.PrestartedChild(cast("subprocess.Popen[bytes]", made), stderr)


_servers: dict[int, Server] = {}


def spawn(fds: Sequence[int]) -> prestart.PrestartedChild:
    """Start a child by the server of this process."""
    server = _servers.get(os.getpid())
    if server is None:
        server = _servers[os.getpid()] = Server()
    return server.spawn(fds)


# --- the process that forks ----------------------------------------------------------------------


def serve(number: int) -> None:
    """Fork a child for each request, until the process that asks has gone."""
    from rowfall.systems.clickhouse import chdb_child

    channel = socket.socket(fileno=number)
    chdb_child.engine()
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would be missing in each child"
    while True:
        message, fds, _, _ = socket.recv_fds(channel, MOST, MOST_FDS)
        if not message:
            os._exit(0)
        asked = json.loads(message)
        if "reap" in asked:
            _, status = os.waitpid(asked["reap"], 0)
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            try:
                channel.close()
                _become(asked, fds)
                chdb_child.main()
            except BaseException:
                traceback.print_exc()  # to what is the engine's own stderr by now
            finally:
                os._exit(1)
        for fd in fds:
            os.close(fd)
        channel.send(str(pid).encode())


def _become(asked: dict[str, Any], fds: Sequence[int]) -> None:
    """Take folder, environment and descriptors as a new process would have got them."""
    os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    time.tzset()
    above = max(asked["fds"]) + 1
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, wanted in zip(kept, asked["fds"], strict=True):
        os.dup2(fd, wanted)
        os.close(fd)
