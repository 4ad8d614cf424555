"""The engine's own process: chDB and a line protocol, nothing else. The only importer of chDB.

Why a process: chDB allows one folder per process and a crash or an OOM kill takes the process
with it. Started by :mod:`rowfall.engines.prestart`; nothing travels in argv. Few imports: a load
waits for this process to be ready.

Protocol, one JSON object a line. Requests on stdin:
    {"path", "lock", "stay"}                                 first; "" is a database in memory
    {"id", "op": "run", "lane", "sql", "format", "out_fd"}   |   {"op": "quit"}
Answers on the descriptor that was stdout:
    {"id", "tick": {...}}                                    progress of a running statement
    {"id", "ok": {...}, "size": n} and then n bytes of result
    {"id", "error": "text of the engine"}
End of stdin means that the parent has gone: the process ends at once, whatever it is doing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import sys
import threading
import time
from _queue import SimpleQueue
from importlib import import_module
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO, NoReturn

    Request = dict[str, Any]


STATUS = "status"
"""File that each engine locks in its folder; it holds the engine's process id."""
FREE_SECONDS = 5.0
"""How long a folder may still be held by an engine that has ended: moments, on a busy machine."""


class Lane(threading.Thread):
    """One thread with its own connection: a connection shared by threads would serialise them.

    It runs the statements of one lane of the parent after the other, and then those of any other
    lane: a load uses four, most often one at a time.
    """

    def __init__(self, path: str, answers: Answers, connection: Any = None) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.answers = answers
        self.connection = connection
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.guard = threading.Lock()
        self.number, self.left = 0, 0  # the parent's lane, and requests that are not answered

    def take(self, request: Request, *, busy: bool) -> bool:
        """Take a request; if ``busy`` of the lane that this one is busy with, or else if idle."""
        with self.guard:
            if busy != bool(self.left) or (busy and self.number != request["lane"]):
                return False
            self.number = request["lane"]
            self.left += 1
        self.requests.put(request)
        return True

    def run(self) -> None:
        connection = self.connection or connect(self.path)
        while True:
            request = self.requests.get()
            try:
                done, data = self.answer(connection, request)
            except Exception as error:  # the engine's text is all there is; the parent maps it
                done, data = {"error": text_of(error)}, b""
                # What a failed statement had put out already would come with the next result.
                with contextlib.suppress(Exception):
                    connection.query("SELECT 1", "Null")
            with self.guard:
                self.left -= 1  # first: the next request comes at once
            self.answers.send({"id": request["id"], **done}, data)

    def answer(self, connection: Any, request: Request) -> tuple[dict[str, Any], bytes]:
        tag = request["id"]
        last: dict[str, int] = {}

        def on_progress(progress: dict[str, int]) -> None:
            last.update(progress)
            self.answers.send({"id": tag, "tick": progress})

        connection.set_progress_callback(on_progress)
        cpu, start = cpu_seconds(), time.monotonic()
        if request.get("out_fd") is not None:
            data = b""
            self.stream(connection, request)
        else:
            # bytes() copies once; results that travel this way are small (counts, samples, DDL).
            result = connection.query(request["sql"], request["format"] or "Null")
            data = bytes(result.bytes() or b"")
        done = {
            "rows_read": last.get("read_rows", 0),
            "rows_written": last.get("written_rows", 0),
            "bytes_read": last.get("read_bytes", 0),
            "seconds": time.monotonic() - start,
            "cpu_seconds": cpu_seconds() - cpu,
        }
        return {"ok": done, "size": len(data)}, data

    @staticmethod
    def stream(connection: Any, request: Request) -> None:
        """Let the engine write a result of any size to an inherited descriptor.

        chDB's own streaming gives each block as a whole document (a header every 65,000 rows,
        Parquet files end to end), so a SELECT gets the engine's INTO OUTFILE. SHOW loses its rows
        there; what else there is answers with something small.
        """
        import re  # by queries only, not by loads

        text = request["sql"]
        select = r"\s*(/\*.*?\*/\s*|--[^\n]*\n\s*)*(SELECT|WITH|\()"
        if re.match(select, text, re.IGNORECASE | re.DOTALL):
            named = re.search(r"\bFORMAT\s+(\w+)\s*\Z", text, re.IGNORECASE)
            form = named[1] if named else request["format"]
            text = text[: named.start()] if named else text
            try:
                with piped(request["out_fd"]) as end:
                    out = f"\nINTO OUTFILE '/dev/fd/{end}' APPEND FORMAT {form}"
                    connection.query(text + out, "Null")
                return
            except RuntimeError as error:
                if "SYNTAX_ERROR" not in str(error):
                    raise  # else: the statement has an INTO OUTFILE or SETTINGS of its own
        data = connection.query(request["sql"], request["format"]).bytes() or b""
        with os.fdopen(request["out_fd"], "wb", closefd=False) as file:
            file.write(data)


class Answers:
    """Sends answers to the parent; lanes take turns."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def send(self, answer: dict[str, Any], data: bytes = b"") -> None:
        line = json.dumps(answer).encode() + b"\n"
        with self._lock:
            self._out.write(line + data)
            self._out.flush()


@contextlib.contextmanager
def piped(out_fd: int) -> Iterator[int]:
    """Make a descriptor to open by name whose bytes go on to ``out_fd``.

    A file opened by name has a position of its own, so what others write to the same file would
    be overwritten; and the engine says nothing of a full disk.

    Raises:
        OSError: ``out_fd`` takes no more.
    """
    import shutil

    failed: list[OSError] = []
    source, end = os.pipe()

    def copy() -> None:
        try:
            with os.fdopen(source, "rb", 0) as pipe, os.fdopen(out_fd, "wb", closefd=False) as out:
                shutil.copyfileobj(pipe, out, 1 << 18)
        except OSError as error:
            failed.append(error)

    copier = threading.Thread(target=copy, daemon=True)
    copier.start()
    try:
        yield end
    finally:
        os.close(end)
        copier.join()
    if failed:
        raise OSError(f"cannot write the result: {failed[0].strerror}")


def engine() -> Any:
    """Import chDB's extension without the Python package around it.

    ``import chdb`` opens a database in memory only to ask for its version, and closes it before
    ours is opened: 0.1 s of every start. What the package adds to a connection (data frames,
    progress bars, cursors) is not used here. Where its parts are not where they were, it is
    imported as a whole.
    """
    try:
        return sys.modules["chdb._chdb"]
    except KeyError:
        pass
    spec = PathFinder.find_spec("chdb")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if any(os.path.exists(os.path.join(folder, "_chdb.abi3.so")) for folder in folders):
        package = type(sys)("chdb")
        package.__path__ = folders
        sys.modules["chdb"] = package
        flags = sys.getdlopenflags()
        try:
            # As the package does it: the engine has its own copies of libraries that Python has.
            sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
            return import_module("chdb._chdb")
        except (AttributeError, ImportError, OSError):
            del sys.modules["chdb"]
        finally:
            sys.setdlopenflags(flags)
    import chdb

    return chdb._chdb


def connect(path: str) -> Any:
    """Connect to the database in a folder, or to one in memory."""
    config = os.path.join(os.path.dirname(__file__), "embedded.xml")
    connection = engine().connect(f"{path or ':memory:'}?config-file={config}")
    # A statement names every file of its attempt; the default of 256 KiB is too short for that.
    # What a statement is given for one server must not follow a redirect to another.
    connection.query(
        "SET max_query_size = 67108864, max_ast_elements = 10000000, "
        "max_expanded_ast_elements = 10000000, s3_max_redirects = 0, max_http_get_redirects = 0",
        "Null",
    )
    return connection


def wait_until_free(path: str) -> str | None:
    """Wait until no engine has a folder open; return the holder's own words where one keeps it.

    The kernel gives the engine's lock back some moments after the one that rowfall's child holds,
    because record locks go when a process closes its files and the others when that is done. chDB
    does not wait for it, and says nothing but "Error initializing EmbeddedServer".
    """
    try:
        status = os.open(os.path.join(path, STATUS), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None  # a new folder, or one that the engine has to refuse
    deadline = time.monotonic() + FREE_SECONDS
    try:
        while True:
            try:
                fcntl.flock(status, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > deadline:
                    return os.pread(status, 256, 0).decode(errors="replace")
                time.sleep(0.005)
            else:
                return None
    finally:
        os.close(status)


def value_of(connection: Any, sql: str) -> str:
    """Return the only row of a statement."""
    return bytes(connection.query(sql, "TabSeparatedRaw").bytes()).decode().strip()


def leave_folder(work: str) -> None:
    """Leave the current folder for one in which no file has the name of a table.

    Args:
        work: a folder to work in; "" for one that holds no files at all.

    To the engine a file of the current folder is a table of the default database: with a file
    ``trips`` there, CREATE TABLE IF NOT EXISTS trips would do nothing.
    """
    try:
        os.chdir(work or "/proc/self/task")  # nothing but folders whose names are numbers
    except OSError:
        os.chdir("/")


def text_of(error: Exception) -> str:
    """Return the engine's message; values that it quotes need not be valid text."""
    if isinstance(error, UnicodeDecodeError):
        return error.object.decode("utf-8", "backslashreplace")
    return str(error)


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def leave(code: int, scratch: str) -> NoReturn:
    """End at once, without the folder of a database in memory, which closing it would delete."""
    if scratch:
        import shutil  # by few, and at the end

        shutil.rmtree(scratch, ignore_errors=True)
    os._exit(code)


def main() -> None:
    # The engine may print; nothing but answers may reach the parent's pipe.
    answers = Answers(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    engine()  # while the parent still finds out what to open
    opening = requests.readline()
    if not opening:
        os._exit(0)  # no engine was needed
    path, lock, work = (json.loads(opening)[key] for key in ("path", "lock", "work"))
    if work != ".":
        leave_folder(work)
    try:
        if path:
            # Held until this process ends: see embedded.take_folder.
            fcntl.lockf(os.open(os.path.join(path, lock), os.O_RDWR | os.O_NOFOLLOW), fcntl.LOCK_EX)
            held = wait_until_free(path)
            if held is not None:
                answers.send({"id": 0, "error": "another program has it open", "held": held})
                os._exit(1)
        first = connect(path)
        version, timezone = value_of(first, "SELECT version(), timezone()").split("\t")
        # The temporary folder of a database in memory.
        disk = "SELECT path FROM system.disks WHERE name = 'default'"
        scratch = "" if path else value_of(first, disk)
        if scratch:
            os.chmod(scratch, 0o700)  # what does not fit into memory is written there
    except Exception as error:
        answers.send({"id": 0, "error": str(error)})
        os._exit(1)
    answers.send({"id": 0, "ok": {"version": version, "timezone": timezone}, "size": 0})
    lanes = [Lane(path, answers, first)]
    lanes[0].start()
    for line in requests:
        request = json.loads(line)
        if request["op"] == "quit":
            break
        if not any(lane.take(request, busy=busy) for busy in (True, False) for lane in lanes):
            lanes.append(Lane(path, answers))
            lanes[-1].start()
            lanes[-1].take(request, busy=False)
    else:
        # No "quit": the parent is gone. Stop in the middle, the ledger knows what is unfinished.
        leave(2, scratch)
    # What statements have answered for is in files. Shutting the engine down would add nothing to
    # that but 12 ms, and noise of the interpreter's own shutdown.
    leave(0, scratch)
