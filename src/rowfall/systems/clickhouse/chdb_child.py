"""The engine's own process: chDB and a line protocol, nothing else. The only importer of chDB.

Why a process: chDB allows one folder per process and a crash or an OOM kill takes the process
with it. Started by :mod:`rowfall.systems.clickhouse.prestart`; nothing travels in argv. Few
imports: a load waits for this process to be ready, and json, threading and contextlib take 15 ms.

Protocol: lines, and counted bytes of UTF-8 behind them. Requests on stdin:
    open BYTES SIZE SIZE SIZE and then path, name of the lock, folder to work in  first
    run ID LANE FD SIZE SIZE and then format and statement       FD: -1 for an answer
    quit
BYTES is the memory of the load. The path "" is a database in memory. Answers, JSON, on the
descriptor that was stdout:
    {"id", "tick": {...}}                                    progress of a running statement
    {"id", "ok": {...}, "size": n} and then n bytes of result
    {"id", "error": true, "size": n} and then the text of the engine
    {"id", "overrun": true, "size": 0}                       it has taken more than all memory
End of stdin means that the parent has gone: the process ends at once, whatever it is doing.
"""

from __future__ import annotations

import fcntl
import os
import resource
import sys
import time
from _queue import SimpleQueue
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, BinaryIO, Literal, NoReturn

    Done = Mapping[str, float] | Literal["error", "held", "overrun"]
    Request = tuple[int, int, int, str, str]
    """Its number, lane, descriptor for the result or -1, format, statement."""


STATUS = "status"
"""File that each engine locks in its folder; it holds the engine's process id."""
UTF8 = ("utf-8", "surrogatepass")
"""Encoding of what the parent sends, and what is done about half of a character."""
GIVE_BACK_FROM, GIVE_BACK_SHARE = 60, 20
"""Percentage of the memory from which on freed pages are given back, and the part of it by which
the process grows until that is done again."""
FILL_SPEED = 8e9
"""Bytes a second that no process fills faster; between two looks (7 us each) it stays below."""
OVERRUN = 3
"""Status with which this process ends when it holds more than it may, see :func:`watch_memory`."""
MOST_SHARE, BESIDE, FILLED = 110, 160 << 20, 32 << 20
"""Percentage of the memory that all processes of a load may hold; bytes of those beside this one
(measured 90-150 MB), and bytes that may come until this process has ended, on a busy machine."""
FREE_SECONDS = 5.0
"""How long a folder may still be held by an engine that has ended: moments, on a busy machine."""


class Lane:
    """One thread with its own connection: a connection shared by threads would serialise them.

    It runs the statements of one lane of the parent after the other, and then those of any other
    lane: a load uses four, most often one at a time.
    """

    def __init__(self, path: str, answers: AnswerSender, connection: Any = None) -> None:
        self.path = path
        self.answers = answers
        self.connection = connection
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.guard = allocate_lock()
        self.number, self.left = 0, 0  # the parent's lane, and requests that are not answered
        self.running: Request | None = None
        start_new_thread(self.run, ())

    def take(self, request: Request, *, busy: bool) -> bool:
        """Take a request; if ``busy`` of the lane that this one is busy with, or else if idle."""
        with self.guard:
            if busy != bool(self.left) or (busy and self.number != request[1]):
                return False
            self.number = request[1]
            self.left += 1
        self.requests.put(request)
        return True

    def run(self) -> None:
        connection = self.connection or connect(self.path)
        while True:
            request = self.running = self.requests.get()
            done: Done = "error"
            try:
                done, data = self.answer(connection, request)
            except Exception as error:  # the engine's text is all there is; the parent maps it
                data = text_of(error)
                clear(connection)
            self.running = None
            with self.guard:
                self.left -= 1  # first: the next request comes at once
            self.answers.send(request[0], done, data)

    def answer(self, connection: Any, request: Request) -> tuple[Mapping[str, float], bytes]:
        tag, _, out_fd, form, sql = request
        last: dict[str, int] = {}

        def on_progress(progress: dict[str, int]) -> None:
            last.update(progress)
            self.answers.tick(tag, progress)

        connection.set_progress_callback(on_progress)
        cpu, start = cpu_seconds(), time.monotonic()
        if out_fd >= 0:
            data = b""
            self.stream(connection, sql, form, out_fd)
        else:
            # bytes() copies once; results that travel this way are small (counts, samples, DDL).
            data = bytes(connection.query(sql, form or "Null").bytes() or b"")
        return {
            "rows_read": last.get("read_rows", 0),
            "rows_written": last.get("written_rows", 0),
            "bytes_read": last.get("read_bytes", 0),
            "seconds": time.monotonic() - start,
            "cpu_seconds": cpu_seconds() - cpu,
        }, data

    @staticmethod
    def stream(connection: Any, sql: str, form: str, out_fd: int) -> None:
        """Let the engine write a result of any size to an inherited descriptor.

        chDB's own streaming gives each block as a whole document (a header every 65,000 rows,
        Parquet files end to end), so a SELECT gets the engine's INTO OUTFILE. SHOW loses its rows
        there; what else there is answers with something small.
        """
        import re  # by queries only, not by loads

        text = sql
        select = r"\s*(/\*.*?\*/\s*|--[^\n]*\n\s*)*(SELECT|WITH|\()"
        if re.match(select, text, re.IGNORECASE | re.DOTALL):
            named = re.search(r"\bFORMAT\s+(\w+)\s*\Z", text, re.IGNORECASE)
            given = named[1] if named else form
            text = text[: named.start()] if named else text
            try:
                with piped(out_fd) as end:
                    out = f"\nINTO OUTFILE '/dev/fd/{end}' APPEND FORMAT {given}"
                    connection.query(text + out, "Null")
                return
            except RuntimeError as error:
                if "SYNTAX_ERROR" not in str(error):
                    raise  # else: the statement has an INTO OUTFILE or SETTINGS of its own
        data = connection.query(sql, form).bytes() or b""
        with os.fdopen(out_fd, "wb", closefd=False) as file:
            file.write(data)


class AnswerSender:
    """Sends answers to the parent; lanes take turns."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._lock = allocate_lock()

    def send(self, tag: int, done: Done, data: bytes) -> None:
        """Send the answer to a request: what it took, or that ``data`` says why it failed."""
        what = f'"{done}": true' if isinstance(done, str) else f'"ok": {{{numbers(done)}}}'
        self._send(f'{{"id": {tag}, {what}, "size": {len(data)}}}', data)

    def tick(self, tag: int, progress: Mapping[str, int]) -> None:
        self._send(f'{{"id": {tag}, "tick": {{{numbers(progress)}}}}}')

    def _send(self, line: str, data: bytes = b"") -> None:
        with self._lock:
            self._out.write(line.encode() + b"\n" + data)
            self._out.flush()


def numbers(named: Mapping[str, float]) -> str:
    """Return numbers as the members of a JSON object."""
    return ", ".join(f'"{name}": {value}' for name, value in named.items())


def piped(out_fd: int) -> AbstractContextManager[int]:
    """Make a descriptor to open by name whose bytes go on to ``out_fd``.

    A file opened by name has a position of its own, so what others write to the same file would
    be overwritten; and the engine says nothing of a full disk.

    Raises:
        OSError: ``out_fd`` takes no more.
    """
    import contextlib  # all of these by queries only, not by loads
    import shutil
    import threading

    @contextlib.contextmanager
    def pipe_of_its_own() -> Iterator[int]:
        failed: list[OSError] = []
        source, end = os.pipe()

        def copy() -> None:
            try:
                out = os.fdopen(out_fd, "wb", closefd=False)
                with os.fdopen(source, "rb", 0) as pipe, out:
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

    return pipe_of_its_own()


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
    folders = [os.path.join(folder, "chdb") for folder in sys.path]
    folders = [f for f in folders if os.path.exists(os.path.join(f, "_chdb.abi3.so"))][:1]
    if folders:
        package = type(sys)("chdb")
        package.__path__ = folders
        sys.modules["chdb"] = package
        flags = sys.getdlopenflags()
        try:
            # As the package does it: the engine has its own copies of libraries that Python has.
            sys.setdlopenflags(flags | os.RTLD_DEEPBIND)
            import chdb._chdb as found

            return found
        except (AttributeError, ImportError, OSError):
            del sys.modules["chdb"]
        finally:
            sys.setdlopenflags(flags)
    import chdb

    return chdb._chdb


def clear(connection: Any) -> None:
    """Take what a failed statement had put out already out of the way of the next result."""
    try:
        connection.query("SELECT 1", "Null")
    except Exception:
        return  # it fails as the other did


def connect(path: str) -> Any:
    """Connect to the database in a folder, or to one in memory."""
    config = os.path.join(os.path.dirname(__file__), "embedded.xml")
    connection = engine().connect(f"{path or ':memory:'}?config-file={config}")
    # A statement names every file of its attempt; the default of 256 KiB is too short for that.
    # What a statement is given for one server must not follow a redirect to another.
    # An answer that hangs is asked for anew from where it stopped. With the defaults (30 s, ten
    # times) that took five minutes, now a minute and a half; a server that is busy has 16 s in
    # place of 33, and then another attempt.
    connection.query(
        "SET max_query_size = 67108864, max_ast_elements = 10000000, "
        "max_expanded_ast_elements = 10000000, s3_max_redirects = 0, max_http_get_redirects = 0, "
        "http_receive_timeout = 15, http_max_tries = 6, http_retry_initial_backoff_ms = 500",
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


def watch_memory(path: str, memory: int, lanes: list[Lane], scratch: str) -> None:
    """Give freed pages back whenever this process holds much of ``memory`` bytes; end over it.

    The engine counts what it uses, but freed pages stay with its allocator for seconds: a buffer
    that grows to 420 MiB by 1 MiB at a time left 3.3 GiB behind, where the limit was 850 MiB. An
    allocator that keeps none (dirty_decay_ms:0) makes loads of text a quarter slower.

    Readers of some formats unpack a block, or make room for a value, before the engine looks at
    its limit (Avro, ORC): 4 MB of deflate are 4 GB. Nothing but the end of the process stops them.
    """
    threshold = memory * GIVE_BACK_FROM // 100
    most = max(memory - FILLED, memory * MOST_SHARE // 100 - BESIDE)
    kept = 0  # held after the last time: what is in use is not given back
    connection = None
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY)
        page = os.sysconf("SC_PAGE_SIZE")
        while True:
            held = int(os.pread(statm, 128, 0).split()[1]) * page
            kept = min(kept, held)
            if held >= max(threshold, min(kept + memory // GIVE_BACK_SHARE, most)):
                connection = connection or connect(path)
                connection.query("SYSTEM JEMALLOC PURGE", "Null")
                kept = int(os.pread(statm, 128, 0).split()[1]) * page
                if kept > most:
                    end_overrun(connection, lanes, scratch)
            time.sleep(min(max((threshold - held) / FILL_SPEED, 0.005), 1.0))
    except Exception:  # no /proc, or another allocator: nothing can be given back
        return


def end_overrun(connection: Any, lanes: list[Lane], scratch: str) -> NoReturn:
    """End this process, and tell the parent which statement takes most of its memory."""
    running = [(lane, request) for lane in lanes if (request := lane.running)]
    if len(running) > 1:
        sql = "SELECT query FROM system.processes ORDER BY memory_usage DESC LIMIT 1"
        # Statements that take much have a comment in front that names them.
        largest = value_of(connection, sql)[:64]
        running = [(o, r) for o, r in running if r[4].lstrip().startswith(largest)] or running
    for lane, request in running[:1]:
        lane.answers.send(request[0], "overrun", b"")
    leave(OVERRUN, scratch)


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


def text_of(error: Exception) -> bytes:
    """Return the engine's message; values that it quotes need not be valid text."""
    if isinstance(error, UnicodeDecodeError):
        return error.object
    return str(error).encode("utf-8", "backslashreplace")


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
    answers = AnswerSender(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    engine()  # while the parent still finds out what to open
    opening = requests.readline().split()
    if not opening:
        os._exit(0)  # no engine was needed
    path, lock, work = (requests.read(int(size)).decode(*UTF8) for size in opening[2:])
    if work != ".":
        leave_folder(work)
    try:
        if path:
            # Held until this process ends: see embedded.take_folder.
            fcntl.lockf(os.open(os.path.join(path, lock), os.O_RDWR | os.O_NOFOLLOW), fcntl.LOCK_EX)
            held = wait_until_free(path)
            if held is not None:
                answers.send(0, "held", held.encode())
                os._exit(1)
        first = connect(path)
        version = value_of(first, "SELECT version(), timezone()")
        # The temporary folder of a database in memory.
        disk = "SELECT path FROM system.disks WHERE name = 'default'"
        scratch = "" if path else value_of(first, disk)
        if scratch:
            os.chmod(scratch, 0o700)  # what does not fit into memory is written there
    except Exception as error:
        answers.send(0, "error", text_of(error))
        os._exit(1)
    answers.send(0, {}, version.encode())
    lanes = [Lane(path, answers, first)]
    start_new_thread(watch_memory, (path, int(opening[1]), lanes, scratch))
    while words := requests.readline().split():
        if words[0] == b"quit":
            break
        number, lane, out_fd, *sizes = map(int, words[1:])
        form, sql = (requests.read(size).decode(*UTF8) for size in sizes)
        request = (number, lane, out_fd, form, sql)
        if not any(one.take(request, busy=busy) for busy in (True, False) for one in lanes):
            lanes.append(Lane(path, answers))
            lanes[-1].take(request, busy=False)
    else:
        # No "quit": the parent is gone. Stop in the middle, the ledger knows what is unfinished.
        leave(2, scratch)
    # What statements have answered for is in files. Shutting the engine down would add nothing to
    # that but 12 ms, and noise of the interpreter's own shutdown.
    leave(0, scratch)
