"""A server process of the lab: program, free ports, an unprivileged user, its log, its end."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path

from rowfall.core import disk, environment
from rowfall.core.errors import EngineError, Exit
from rowfall.core.patterns import regex

VARIABLE = "ROWFALL_CLICKHOUSE"
# Below 32768, where Linux starts to hand out ports for outgoing connections: nothing can take a
# port of a service that is down for a moment.
_PORTS = range(10_000, 22_000)
# Given by this process: a lock does not keep its own holder out.
_reserved: set[int] = set()
_NOBODY, _NOGROUP = "nobody", "nogroup"
# A server of the lab ends in 0.5 s; one that has to finish a merge may need some seconds more.
_PATIENCE = 20.0
_VERSION = regex(r"version (\d[\w.]*)")
_FRAME = regex(r"^(\d+\. )?\S.* @ 0x[0-9a-f]{8,}$")


class LabError(EngineError):
    """A server did not start, ended, or gave another answer than it should."""


class LabUsageError(LabError):
    """The command cannot be carried out on this lab."""

    exit = Exit.USAGE


def find_clickhouse(given: str | None = None) -> Path | None:
    """Return the program: ``given``, else of ROWFALL_CLICKHOUSE, else on PATH, or None.

    Nothing is ever downloaded.

    Raises:
        LabUsageError: what was named is not a program.
    """
    for origin, named in (("--clickhouse ", given), (f"{VARIABLE}=", os.environ.get(VARIABLE))):
        if named:
            if not (os.path.isfile(named) and os.access(named, os.X_OK)):
                raise LabUsageError(f"{origin}{named} is not a program")
            return Path(named).absolute()
    on_path = shutil.which("clickhouse")
    return Path(on_path).absolute() if on_path else None


def clickhouse_version(binary: Path) -> str:
    """Return the version of a ClickHouse program.

    Raises:
        LabUsageError: it cannot be run, or is something else.
    """
    try:
        done = subprocess.run(
            [binary, "server", "--version"],
            stdin=subprocess.DEVNULL,
            env=environment.of_child(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,  # takes 0.2 s; 500 MB from a cold disk take some seconds
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabUsageError(f"run {binary}: {error}") from None
    found = _VERSION.search(done.stdout)
    if found is None or "ClickHouse" not in done.stdout:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise LabUsageError(
            f"{binary} is not a ClickHouse server" + (f": {said[-1]}" if said else ""),
            hint="Name the one program that is server, client and keeper.",
        )
    return found[1]


def free_ports(count: int) -> list[int]:
    """Return free ports of 127.0.0.1, which no other process of this user gets from here.

    A server listens some seconds after its ports were chosen, and not while it is started anew.

    Raises:
        OSError: the file of reservations cannot be opened.
    """
    return list(islice(filter(reserve, random.sample(_PORTS, len(_PORTS))), count))


def reserve(port: int) -> bool:
    """Reserve a free port of 127.0.0.1 until this process ends; False where it is taken.

    Raises:
        OSError: the file of reservations cannot be opened.
    """
    if port in _reserved or not is_free(port):
        return False
    try:  # by a lock on the byte of that number
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _reserved.add(port)
    return True


@cache
def _reservations() -> int:
    """Open the file whose bytes are locked; it is empty, and stays open: closing it unlocks all."""
    # Not in TMPDIR, which may be another one for every process.
    path = Path(f"/var/tmp/rowfall-ports-{os.geteuid()}")  # noqa: S108 - open_own follows no link
    return disk.open_own(path, os.O_RDWR | os.O_CREAT)


def is_free(port: int) -> bool:
    """Tell whether a port of 127.0.0.1 is free."""
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
        log: its output is appended here.
        environment: all variables but PATH and HOME, which are set.

    Raises:
        OSError: the program cannot be run.
    """
    root = os.geteuid() == 0
    # In a folder that the service may write: what has this name may be a link of its making.
    with os.fdopen(disk.open_own(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab") as output:
        give(output.fileno())  # the service may open it itself
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


def give(path: Path | int) -> None:
    """Give a path, or an open file, to the user that :func:`spawn` runs as."""
    if os.geteuid() == 0:
        shutil.chown(path, _NOBODY, _NOGROUP)


def closed(path: Path) -> Path | None:
    """Return the first folder above ``path`` that the user of :func:`spawn` may not enter."""
    if os.geteuid() != 0:
        return None
    above = [*reversed(path.resolve().parents)]
    return next((f for f in above if f.exists() and not f.stat().st_mode & 0o001), None)


def program(binary: Path, folder: Path) -> Path:
    """Return ``binary``, or a link in ``folder`` where the user of :func:`spawn` may not run it.

    Home folders are often closed, and that of root always is.
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
    """Return the command line of a process, NUL between arguments; "" when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that run."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def end(pid: int, number: signal.Signals) -> None:
    """Send a signal, wait until the process has ended, and kill it when it does not.

    Raises:
        LabError: it does not end; it may wait for a broken disk.
        PermissionError: it belongs to another user.
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
    raise LabError(f"end process {pid}: it still runs {_PATIENCE:g} s after it was killed")


def _ended(pid: int) -> bool:
    """Tell whether a process is gone or a zombie: only then its files and sockets are closed."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def log_end(path: Path) -> str:
    """Return the last lines of a log, without stack traces."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 20_000))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join([line for line in lines if line and not _FRAME.search(line)][-20:])


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds, asked every 50 ms; OSError counts as no.

    Raises:
        LabError: it does not hold within ``seconds``.
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
