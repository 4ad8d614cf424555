"""Connections of databases that rowfall-decode reads itself.

This process asks for rows, and hands the socket to rowfall-decode, so none of their bytes passes
through here. Handed over is the descriptor of a connection that nothing encrypts, by a Unix socket
in a folder of our own; an input of rowfall-decode is the path of that socket, and a number.

Only who takes an answer apart knows where it ends, as any bytes may be in a text. So at its end
rowfall-decode tells the last bytes that it has read; from them follows whether the connection can
be asked again.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from rowfall.core.errors import SourceError

# The path of a Unix socket may have 107 bytes; macOS takes 103. Behind it stand a slash and digits.
_LONGEST = 90
_NUMBER = 8  # bytes
_MOST = 32 << 10
"""More than the last bytes that are told."""
_LAST_SECONDS = 1.0
"""Within which a reader that has left says so."""


class DatabaseAnswer:
    """An answer of a database.

    Args:
        descriptor: of the socket it comes from.
        ends: tells whether the last bytes are those of an answer that is complete, or raises what
            error they are.

    Attributes:
        complete: all of it was read, so the connection can be asked again.
    """

    def __init__(self, descriptor: int, ends: Callable[[bytes], bool]) -> None:
        self.descriptor, self._ends = descriptor, ends
        self.complete = False

    def left(self, said: bytes) -> None:
        """Hear what its reader says at its end; nothing where it was killed.

        Raises:
            ConnectionError: the connection has ended before. Or what ``ends`` raises.
        """
        self.complete = self._ends(said[1:])
        if said[:1] == b"\1" and not self.complete:
            raise ConnectionError("the connection ended before the last row")


Opener = Callable[[], AbstractContextManager[DatabaseAnswer]]
"""Asks for the rows of a split."""


class SocketPassing:
    """The answers of one source, asked for when rowfall-decode comes for them.

    Args:
        owner: the source; when it is gone, or the process ends, all files are removed.
    """

    def __init__(self, owner: object) -> None:
        self._guard = threading.Condition()
        self._folder = ""
        self._door: socket.socket | None = None
        self._numbers = itertools.count()
        self._offered: dict[int, tuple[str, Opener]] = {}
        self._taken: list[str] = []
        self._broken: dict[str, Exception] = {}
        weakref.finalize(owner, self.close)

    def offer(self, answers: Sequence[tuple[str, Opener]]) -> list[str]:
        """Return a path for each (name, opener), for a reader that takes it once.

        Raises:
            SourceError: the temp folder takes no socket.
        """
        with self._guard:
            path = self._opened()
            paths = []
            for name, opener in answers:
                self._broken.pop(name, None)
                number = next(self._numbers)
                self._offered[number] = (name, opener)
                paths.append(f"{path}/{number}")
        return paths

    def error(self, name: str) -> Exception | None:
        """Return the error of the last reading of an answer, or None; withdraw unread ones."""
        with self._guard:
            for number in [n for n, (own, _) in self._offered.items() if own == name]:
                del self._offered[number]
            # Whoever reads it may have met what is wrong sooner than we hear of it.
            self._guard.wait_for(lambda: name not in self._taken, _LAST_SECONDS)
            return self._broken.get(name)

    def close(self) -> None:
        """Withdraw everything."""
        with self._guard:
            folder, self._folder = self._folder, ""
            door, self._door = self._door, None
            self._offered.clear()
        if door is not None:
            with suppress(OSError):
                door.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits at it
            door.close()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    def _opened(self) -> str:
        """Return the path of the socket."""
        if self._door is None:
            folder = tempfile.mkdtemp(prefix="rowfall-answers-")
            if len(os.fsencode(folder)) > _LONGEST:
                shutil.rmtree(folder, ignore_errors=True)
                folder = tempfile.mkdtemp(prefix="rowfall-answers-", dir="/tmp")
            door = socket.socket(socket.AF_UNIX)
            try:
                door.bind(os.path.join(folder, "s"))
                door.listen(128)
            except OSError as error:
                door.close()
                shutil.rmtree(folder, ignore_errors=True)
                raise SourceError(
                    f"cannot make a socket in {folder}: {(error.strerror or str(error)).lower()}",
                    hint="Set TMPDIR to a folder that takes sockets.",
                ) from error
            self._folder, self._door = folder, door
            threading.Thread(
                target=self._receive, args=(door,), daemon=True, name="answers"
            ).start()
        return os.path.join(self._folder, "s")

    # --- threads ------------------------------------------------------------------------------

    def _receive(self, door: socket.socket) -> None:
        while True:
            try:
                reader, _ = door.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(reader,), daemon=True, name="answer").start()

    def _serve(self, reader: socket.socket) -> None:
        with reader, suppress(OSError):
            asked = reader.recv(_NUMBER, socket.MSG_WAITALL)
            with self._guard:
                found = self._offered.pop(int.from_bytes(asked, "little"), None)
                self._taken += [found[0]] if found else []
            if found is not None:
                self._ask(*found, reader)

    def _ask(self, name: str, opener: Opener, reader: socket.socket) -> None:
        try:
            with opener() as answer:
                answer.left(_handed(reader, answer.descriptor))
        except Exception as error:  # whatever it is, the load must not take it for the end
            with self._guard:
                self._broken[name] = error
        finally:
            with self._guard:
                self._taken.remove(name)
                self._guard.notify_all()


def _handed(reader: socket.socket, descriptor: int) -> bytes:
    """Hand a socket over, and return what its reader says at its end."""
    said = b""
    with suppress(OSError):  # it was killed
        socket.send_fds(reader, [b"\0"], [descriptor])
        while piece := reader.recv(_MOST):
            said += piece
    return said
