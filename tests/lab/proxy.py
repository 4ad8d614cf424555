"""A TCP proxy on 127.0.0.1 that breaks connections on request: cut, refuse, stall, drop, slow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Literal, Self, TypeVar

Direction = Literal["up", "down"]
"""``up``: from the client to the service; ``down``: back."""

T = TypeVar("T")
# Linger 0: close() then sends RST, and what is still in the buffers is lost.
_RESET = struct.pack("ii", 1, 0)
_PIECE = 1 << 16
# A switch takes effect within microseconds; anything near this is a hang of the test.
_SWITCH_SECONDS = 10.0


class Proxy:
    """Forwards :attr:`port` to a port of a service, until told otherwise. Use as context manager.

    Args:
        to: port of the service.
        host: where it listens.

    Attributes:
        port: of the proxy, on 127.0.0.1.
        accepted: connections so far.
        passed: bytes forwarded so far, by direction.
        dropped: set when :meth:`drop_after` has cut a connection.
        held: set when :meth:`hold_at` holds everything back.
    """

    def __init__(self, to: int, host: str = "127.0.0.1") -> None:
        self._to = (host, to)
        self.accepted = 0
        self.passed: dict[Direction, int] = {"up": 0, "down": 0}
        self.dropped = threading.Event()
        self.held = threading.Event()
        self._left: dict[Direction, int | None] = {"up": None, "down": None}
        self._mark: tuple[bytes, bool, int] | None = None
        self._hold: tuple[bytes, int] | None = None
        self._rate: int | None = None
        self._delay = 0.0
        self._links: dict[asyncio.Task[None], tuple[socket.socket, ...]] = {}
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = 0
        self.accept()

    def cut(self) -> None:
        """Reset every open connection, on both sides, now."""
        self._do(self._cut_all())

    def refuse(self) -> None:
        """Refuse new connections (nothing listens); open ones go on."""
        self._do(self._refuse())

    def accept(self) -> None:
        """Listen (again), on the same port."""
        self._do(self._accept())

    def stall(self) -> None:
        """Hold all bytes back; connections stay open and new ones are accepted."""
        self._do(self._set_flowing(False))

    def resume(self) -> None:
        """Let held bytes go on."""
        self._do(self._set_flowing(True))

    def drop_after(self, *, up: int | None = None, down: int | None = None) -> None:
        """Reset the connection that carries the last of so many further bytes; once each."""
        self.dropped.clear()
        self._left = {"up": up, "down": down}

    def drop_at(self, mark: bytes, *, passes: bool, at: int = 1) -> None:
        """Reset a connection whose client sends ``mark``, once.

        Args:
            passes: the service gets it, and its answer is lost; otherwise it never arrives.
            at: which time that it is sent.
        """
        self.dropped.clear()
        self._mark = mark, passes, at

    def hold_at(self, mark: bytes, *, at: int = 1) -> None:
        """Hold the answer back, and all that follows, when a client sends ``mark``; once.

        The service gets it. :meth:`resume` lets the answer go on.

        Args:
            at: which time that it is sent.
        """
        self.held.clear()
        self._hold = mark, at

    def throttle(self, bytes_per_second: int | None) -> None:
        """Slow each direction of each connection down; None for full speed."""
        self._rate = bytes_per_second

    def delay(self, seconds: float) -> None:
        """Be so far away: new connections get each byte so much later, in either direction."""
        self._delay = seconds

    def close(self) -> None:
        """Reset everything and give the port back; safe to call twice."""
        if self._loop.is_closed():
            return
        self.refuse()
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SWITCH_SECONDS)

    async def _set_flowing(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _accept(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
            self._listener.setblocking(False)
            self.port = self._listener.getsockname()[1]
            self._accepting = self._loop.create_task(self._serve(self._listener))

    async def _refuse(self) -> None:
        if self._listener is not None and self._accepting is not None:
            await _ended(self._accepting)
            self._listener.close()
            self._listener = self._accepting = None

    async def _cut_all(self) -> None:
        for task, ends in list(self._links.items()):
            await _ended(task)
            _reset(*ends)
        self._links.clear()

    async def _serve(self, listener: socket.socket) -> None:
        while True:
            client, _ = await self._loop.sock_accept(listener)
            self.accepted += 1
            client.setblocking(False)
            service = socket.socket()
            service.setblocking(False)
            for end in (client, service):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._link(client, service))
            self._links[task] = (client, service)

    async def _link(self, client: socket.socket, service: socket.socket) -> None:
        clean = False
        try:
            await self._loop.sock_connect(service, self._to)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(client, service, "up"))
                both.create_task(self._pump(service, client, "down"))
            clean = True
        except* OSError:
            pass  # one side has gone, or drop_after: the other one is told by a reset
        finally:
            task = asyncio.current_task()
            if task is not None and self._links.pop(task, None) is not None:
                if clean:
                    client.close()
                    service.close()
                else:
                    _reset(client, service)

    async def _pump(self, source: socket.socket, sink: socket.socket, way: Direction) -> None:
        far = _Far(self._loop, sink, self._delay) if self._delay else None
        try:
            await self._forward(source, sink, way, far)
        finally:
            if far is not None:
                far.close()

    async def _forward(
        self, source: socket.socket, sink: socket.socket, way: Direction, far: _Far | None
    ) -> None:
        while True:
            rate = self._rate
            # Twenty pieces a second are smooth enough and keep every sleep short.
            data = await self._loop.sock_recv(source, max(1, rate // 20) if rate else _PIECE)
            await self._flowing.wait()
            if way == "up" and self._mark is not None and self._mark[0] in data:
                text, passes, times = self._mark
                self._mark = (text, passes, times - 1) if times > 1 else None
                if self._mark is None:
                    self._left = {"up": None, "down": 0} if passes else {"up": 0, "down": None}
            if way == "up" and self._hold is not None and self._hold[0] in data:
                mark, times = self._hold
                self._hold = (mark, times - 1) if times > 1 else None
                if self._hold is None:
                    self._flowing.clear()
                    self.held.set()
            left = self._left[way]
            if left is not None:
                data, self._left[way] = data[:left], max(0, left - len(data))
            if far is None:
                await self._loop.sock_sendall(sink, data)
            else:
                await far.send(data)
            self.passed[way] += len(data)
            if self._left[way] == 0:
                self._left[way] = None
                self.dropped.set()
                raise ConnectionResetError
            if not data:
                if far is not None:
                    await far.arrived()
                with contextlib.suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                return
            if rate:
                await asyncio.sleep(len(data) / rate)


class _Far:
    """Sends bytes later; more of them are on their way meanwhile, as in a long cable."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sink: socket.socket, delay: float) -> None:
        self._loop, self._sink, self._delay = loop, sink, delay
        # 4 MiB at most: 80 MB/s at 50 ms.
        self._way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)
        self._task = loop.create_task(self._deliver())

    async def send(self, data: bytes) -> None:
        if self._task.done():
            self._task.result()  # the other side has gone
        await self._way.put((self._loop.time() + self._delay, data))

    async def arrived(self) -> None:
        """Wait until everything has been sent, ended by an empty piece."""
        await self._task

    async def _deliver(self) -> None:
        while True:
            due, data = await self._way.get()
            await asyncio.sleep(max(0.0, due - self._loop.time()))
            if not data:
                return
            await self._loop.sock_sendall(self._sink, data)

    def close(self) -> None:
        self._task.cancel()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _reset(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.close()
