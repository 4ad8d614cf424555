"""The fault proxy forwards faithfully and breaks exactly what it is told to break."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from lab.proxy import Proxy


class Echo:
    """Sends back whatever it gets."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._echo, args=(connection,), daemon=True).start()

    @staticmethod
    def _echo(connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(1 << 16):
                    connection.sendall(data)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    echo = Echo()
    with Proxy(echo.port) as proxy:
        yield proxy
    echo.close()


def client(proxy: Proxy) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def test_forwards_everything_and_the_end(proxy: Proxy) -> None:
    sent = bytes(range(256)) * 8192
    with client(proxy) as connection:
        feeder = threading.Thread(target=connection.sendall, args=(sent,))
        feeder.start()
        assert exactly(connection, len(sent)) == sent
        feeder.join()
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert proxy.accepted == 1
    assert proxy.passed == {"up": len(sent), "down": len(sent)}


def test_cut_resets_open_connections_only(proxy: Proxy) -> None:
    with client(proxy) as connection:
        connection.sendall(b"one")
        assert exactly(connection, 3) == b"one"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with client(proxy) as connection:
        connection.sendall(b"two")
        assert exactly(connection, 3) == b"two"


def test_refuse_and_accept_again(proxy: Proxy) -> None:
    with client(proxy) as connection:
        connection.sendall(b"a")
        assert exactly(connection, 1) == b"a"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            client(proxy)
        connection.sendall(b"still")
        assert exactly(connection, 5) == b"still"
    port = proxy.port
    proxy.accept()
    assert proxy.port == port
    with client(proxy) as connection:
        connection.sendall(b"b")
        assert exactly(connection, 1) == b"b"


def test_stall_holds_bytes(proxy: Proxy) -> None:
    with client(proxy) as connection:
        proxy.stall()
        connection.sendall(b"held")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(10)
        proxy.resume()
        assert exactly(connection, 4) == b"held"


@pytest.mark.parametrize("way", ["up", "down"])
def test_drops_after_so_many_bytes_once(proxy: Proxy, way: str) -> None:
    proxy.drop_after(**{way: 1000})
    with client(proxy) as connection:
        connection.sendall(b"x" * 600)
        assert exactly(connection, 600) == b"x" * 600
        connection.sendall(b"y" * 600)
        with pytest.raises(ConnectionResetError):
            exactly(connection, 1200)
    assert proxy.dropped.wait(5)
    assert proxy.passed["up" if way == "up" else "down"] == 1000
    with client(proxy) as connection:
        connection.sendall(b"z" * 2000)
        assert exactly(connection, 2000) == b"z" * 2000


def test_throttles(proxy: Proxy) -> None:
    proxy.throttle(20_000)
    with client(proxy) as connection:
        start = time.monotonic()
        connection.sendall(b"s" * 10_000)
        assert exactly(connection, 10_000) == b"s" * 10_000
        assert time.monotonic() - start > 0.4
        proxy.throttle(None)


def test_a_service_that_is_down_resets(proxy: Proxy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    # The reset may come as early as while connecting.
    with Proxy(port) as dead, pytest.raises(ConnectionResetError), client(dead) as connection:
        connection.recv(1)


def test_close_ends_everything(proxy: Proxy) -> None:
    with client(proxy) as connection:
        connection.sendall(b"a")
        assert exactly(connection, 1) == b"a"
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_delay_is_far_and_not_narrow(proxy: Proxy) -> None:
    """A round trip takes twice the delay, and many pieces no longer than one."""
    proxy.delay(0.1)
    with client(proxy) as connection:
        data, began = b"x" * (1 << 20), time.monotonic()
        thread = threading.Thread(target=connection.sendall, args=(data,))
        thread.start()
        assert exactly(connection, 1) == b"x"
        assert time.monotonic() - began >= 0.2
        assert exactly(connection, len(data) - 1) == data[1:]
        thread.join()
        assert time.monotonic() - began < 1.5  # 16 pieces of 64 KiB, 3.2 s one after the other
