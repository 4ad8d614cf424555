"""One server process of the lab: free ports, an unprivileged user, its log, an end by pid."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rowfall.core.errors import EngineError, Exit

# Main and gRPC ports both stay below 32768, where Linux starts to hand out ports for outgoing
# connections: nothing can take a port of a service that is down for a moment.
_PORTS = range(10_000, 22_000)
_GRPC = 10_000
_NOBODY, _NOGROUP = "nobody", "nogroup"
# A server of the lab ends in 0.5 s; one that has to finish a merge may need some seconds more.
_PATIENCE = 20.0
_FRAME = re.compile(r"^(\d+\. )?\S.* @ 0x[0-9a-f]{8,}$")


class LabError(EngineError):
    """A service did not start, died, or answered something else than it should."""


class LabUsageError(LabError):
    """What was asked of the lab makes no sense."""

    exit = Exit.USAGE


def free_ports(count: int, *, grpc: bool = False) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on; with ``grpc``, port + 10000 is free as well."""
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            break
        if is_free(port) and (not grpc or is_free(port + _GRPC)):
            ports.append(port)
    return ports


def is_free(port: int) -> bool:
    """Whether nobody listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def spawn(
    command: Sequence[str | Path], folder: Path, log: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a process in ``folder``, as an unprivileged user when we are root.

    Args:
        log: what it prints is appended here.
        environment: the whole of it, but PATH and HOME, which are set.

    Raises:
        OSError: the program cannot be run.
    """
    root = os.geteuid() == 0
    with log.open("ab") as output:
        give(log)  # the service may open it itself
        return subprocess.Popen(
            [os.fspath(part) for part in command],
            cwd=folder,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C at the terminal is for us to handle
            user=_NOBODY if root else None,
            group=_NOGROUP if root else None,
            extra_groups=[] if root else None,
        )


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put Ctrl-C and SIGTERM off until the block is done.

    A server that was started a moment before, and whose process id is not written down yet, would
    outlive the command, and no other would find it. Python hands signals to the main thread alone;
    in others there is nothing to put off.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: came.append(number))
        for each in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def give(path: Path) -> None:
    """Give ``path`` to the user that :func:`spawn` runs as."""
    if os.geteuid() == 0:
        shutil.chown(path, _NOBODY, _NOGROUP)


def closed(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that the user of :func:`spawn` may not enter."""
    if os.geteuid() != 0:
        return None
    ways = [*reversed(path.resolve().parents)]
    return next((way for way in ways if way.exists() and not way.stat().st_mode & 0o001), None)


def program(binary: Path, folder: Path) -> Path:
    """``binary``, or a link in ``folder`` where the user of :func:`spawn` may not run it.

    Homes are often closed, and that of root always is.
    """
    if os.geteuid() != 0 or (closed(binary) is None and binary.stat().st_mode & 0o005 == 0o005):
        return binary
    here = folder / binary.name
    if not here.exists():
        try:
            here.hardlink_to(binary.resolve())
        except OSError:  # another file system
            shutil.copy(binary, here)
    return here


def command_of(pid: int) -> str:
    """The command line of a process, arguments apart by NUL; "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def end(pid: int, number: signal.Signals) -> None:
    """Send a signal, wait until the process has ended, and kill it when it does not.

    Raises:
        LabError: it does not end, as one that waits for a broken disk.
        PermissionError: it belongs to somebody else.
    """
    for sent in (number, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, sent)
            os.kill(pid, signal.SIGCONT)  # a paused process would not see SIGTERM
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if _ended(pid):
                return
            time.sleep(0.02)
    raise LabError(f"end process {pid}: it is there {_PATIENCE:g} s after it was killed")


def _ended(pid: int) -> bool:
    """Whether it is gone or a zombie: only then its files and sockets are closed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def log_end(path: Path) -> str:
    """The last lines of a log, without stack traces."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 20_000))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if line and not _FRAME.search(line)][-20:])


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask every 50 ms; OSError counts as no.

    Raises:
        LabError: after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    last: OSError | None = None
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError as error:
            last = error
        time.sleep(0.05)
    raise LabError(f"waited {seconds:g} s for {what}" + (f" ({last})" if last else ""))
