"""Runs a program where it can reach only some ports of this machine; others, who can reach all of
them, notice nothing.

    python islet.py PORT,PORT... -m rowfall load ...

The program gets a network namespace with nothing but a loopback of its own. Listening sockets that
were made in there are handed to a helper outside, which connects each caller to the same port of
the real loopback. The program keeps the process id, so that it can be killed by it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import threading

# sched.h, prctl.h, sockios.h, if.h
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_DIE_WITH_PARENT = 1
_SET_FLAGS, _UP = 0x8914, 0x1
_PIECE = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


def only(*ports: int) -> tuple[str, str]:
    """What stands between ``python`` and its arguments, so that they reach these ports only."""
    return __file__, ",".join(map(str, ports))


def leave() -> None:
    """Into a network namespace of our own, whose loopback is up.

    Raises:
        OSError: the system does not let us.
    """
    # Whoever is not root may do so in a user namespace only.
    if _libc.unshare(_NEW_NET | (0 if os.geteuid() == 0 else _NEW_USER)):
        raise OSError(ctypes.get_errno(), "a network namespace cannot be made")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            end.shutdown(how)


def _join(near: socket.socket, port: int) -> None:
    with near:
        try:
            far = socket.create_connection(("127.0.0.1", port))
        except OSError:
            return  # nobody is there: the caller sees a connection that ends at once
        with far:
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)
            back.join()


def _serve(listener: socket.socket, port: int) -> None:
    while True:
        near, _ = listener.accept()
        threading.Thread(target=_join, args=(near, port), daemon=True).start()


def ferry(channel: socket.socket, ports: list[int]) -> None:
    """Connect callers of the sockets that come over the channel, until our parent has ended."""
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    _, handles, *_ = socket.recv_fds(channel, 1, len(ports))
    for handle, port in zip(handles, ports, strict=True):
        threading.Thread(target=_serve, args=(socket.socket(fileno=handle), port)).start()


def main() -> None:
    ports = [int(port) for port in sys.argv[1].split(",")]
    here, there = socket.socketpair()
    if os.fork() == 0:
        # Whoever reads what the program says waits until nobody holds that any more.
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        here.close()
        ferry(there, ports)
        return
    there.close()
    leave()
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
    socket.send_fds(here, [b"."], [listener.fileno() for listener in listeners])
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])  # noqa: S606 - it keeps its id


if __name__ == "__main__":
    main()
