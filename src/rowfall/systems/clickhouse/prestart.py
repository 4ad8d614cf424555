"""Starting the engine's process before it is known what it will open: importing takes 0.15 s.

Few imports, and those first: the commands that will want an engine start it before all else.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from itertools import pairwise

from rowfall.core import environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO


class PrestartedChild:
    """A child that waits for the line that says what to open; ``stderr`` is its own file.

    It works in the ``folder`` that this process was in.
    """

    __slots__ = ("folder", "process", "stderr", "stdin", "stdout")

    def __init__(self, process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
        self.process = process
        self.stdin: IO[bytes] = process.stdin
        self.stdout: IO[bytes] = process.stdout
        self.stderr = stderr
        self.folder = _folder()

    def drop(self) -> None:
        """End it, whatever it does; it has opened nothing."""
        self.process.kill()
        self.process.wait()
        for file in (self.stdin, self.stdout, self.stderr):
            file.close()


_waiting: list[PrestartedChild] = []
_SERVERS = ("clickhouse://", "clickhouses://", "arrow:")
_DATABASES = ("postgresql://", "postgres://", "mysql://", "mariadb://", "duckdb://", "kafka://")
_DUCKDB = (".duckdb", ".ddb")
_TEXT = re.compile(r"\.(csv|tsv|tab|txt|jsonl|ndjson|json|log|fwf)(\.\w+)?$", re.IGNORECASE)
_TYPED = re.compile(r"\.(parquet|pq|arrow|feather)$", re.IGNORECASE)
"""Ends of names for which an engine is rarely wanted: a server or a database stores the rows."""
_START = "from rowfall.systems.clickhouse.chdb_child import main; main()"


def prestart(sources: Sequence[str], to: str | None) -> None:
    """Start a child for the next :func:`take`, where the command will want one.

    stdin's descriptor has to be inherited, so its child cannot start early; a server most often
    reads remote sources by itself, and text is rowfall-decode's. An unused child ends with this
    process.
    """
    served = to is not None and to.startswith(_SERVERS)
    unused = served and all(
        "://" in source or _TEXT.search(source) or _TYPED.search(source) for source in sources
    )
    if to is not None and (to.startswith(_DATABASES) or to.endswith(_DUCKDB)):
        own = (*_DATABASES, *_SERVERS, "generate://")
        unused = all(s.startswith(own) or _TEXT.search(s) or _TYPED.search(s) for s in sources)
    if not _waiting and "-" not in sources and not unused and is_installed():
        # What keeps Python from being started is said where the engine is wanted.
        with contextlib.suppress(OSError):
            _waiting.append(_spawn(()))


def prestart_early(arguments: Sequence[str]) -> None:
    """Start a child for a command line that is not parsed yet: click takes 20 ms to import.

    Only where there is no doubt; other commands start it when they know more.
    """
    doubtful = {"-", "-h", "--help"}.intersection(arguments) or "clickhouse" in " ".join(arguments)
    to = next((b for a, b in pairwise(arguments) if a == "--to"), "")
    doubtful = doubtful or to.startswith(_DATABASES) or to.endswith(_DUCKDB)
    if arguments[:1] in (["load"], ["plan"]) and len(arguments) > 1 and not doubtful:
        prestart(arguments[1:], None)


def is_installed() -> bool:
    """Tell whether chDB is there; importing it to find out takes 0.15 s."""
    return any(os.path.exists(os.path.join(folder, "chdb", "__init__.py")) for folder in sys.path)


def take(fds: Sequence[int]) -> PrestartedChild:
    """Return the waiting child, or a new one when descriptors have to be inherited.

    One that waits since a call that failed may be in another folder, in which relative names of a
    statement mean other files.
    """
    if _waiting and not fds:
        child = _waiting.pop()
        if child.process.poll() is None:
            if child.folder == _folder():
                return child
            child.drop()
    try:
        return _spawn(fds)
    except OSError as error:
        from rowfall.core.errors import EngineError  # not before the engine has started

        python = sys.executable or "Python, which does not know its own path"
        raise EngineError(
            f"cannot start the engine's process: {python}: {error.strerror}",
            hint="Check that you may run this Python: the engine is a process of its own.",
        ) from None


def _folder() -> str:
    """Return the current folder, "" where somebody has removed it."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _spawn(fds: Sequence[int]) -> PrestartedChild:
    path = os.pathsep.join(each for each in sys.path if each)
    # In memory: tempfile takes 8 ms to import. Lives as long as the child.
    stderr = os.fdopen(os.memfd_create("stderr"), "w+b")
    process = subprocess.Popen(
        # -S: what site would find is in PYTHONPATH already; -P: nothing of the current folder.
        [sys.executable, "-S", "-P", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        # A session of its own: Ctrl-C in the terminal reaches rowfall only, which then asks.
        start_new_session=True,
        pass_fds=tuple(fds),
        env={**environment.of_child(), "PYTHONPATH": path},
    )
    return PrestartedChild(process, stderr)
