"""ClickHouse embedded (chDB) in a child process that rowfall starts, watches and can lose.

A data folder belongs to one rowfall at a time, and to the engine that this one has started.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import queue
import re
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from rowfall.core import disk, extras, own_files, units
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import (
    EngineError,
    LockLostError,
    MemoryOverrunError,
    RowfallError,
    TargetError,
    UsageError,
)
from rowfall.core.machine import free_memory, local_timezone, resident, usable_cores
from rowfall.core.masked import Secret, redact
from rowfall.core.model import Facts, Outcome, Statement
from rowfall.core.sql import DefinitionQuestion, settings_clause
from rowfall.core.sqltext import SqlText, quote
from rowfall.engines.base import (
    POLL_SECONDS,
    Body,
    EngineQuestions,
    ExistingTable,
    Settings,
    Tick,
    table_uuid,
)
from rowfall.systems.clickhouse.chdb_child import OVERRUN
from rowfall.systems.clickhouse.codes import MEMORY_LIMIT, translate
from rowfall.systems.clickhouse.prestart import PrestartedChild, is_installed, take

# The lane of KILL and of the watch queries: never busy with a long statement.
CONTROL_LANE = 99
# Opening a large folder (thousands of parts) takes seconds; a child that says nothing for this
# long is hanging.
START_TIMEOUT = 120.0
# An engine that is asked to go is gone in milliseconds; longer means that the machine hangs.
CLOSE_TIMEOUT = 5.0
# A bit of the ninth field of /proc/PID/stat, see proc(5) and linux/sched.h: since 2.6 the same.
PF_EXITING = 0x4
# For questions with small answers: compiling an expression that is seen for the fourth time takes
# 20 ms.
_SMALL = {"compile_expressions": 0, "compile_aggregate_expressions": 0}
# Tables of the system are read by one thread in any case; others only start and end: 25 % of the
# CPU time of such a question, and a load asks 20.
_CATALOGUE = {**_SMALL, "max_threads": 1}

VERSION = "26.9"
"""The engine of the chDB that pyproject.toml names, as far as plans depend on it."""
LOCK_NAME = "rowfall.lock"
STATUS_NAME = "status"
"""File that the engine writes its process number to."""
MARK_NAME = "rowfall.mark"
"""In the folder of a table: the attempt that has brought the last of its rows."""
NUMBERING_NAME = "rowfall.numbering"
"""In the folder of a table: a word for each partition whose block numbers began anew."""
MOST_SAID = 64  # bytes of a lock that are read: a process number and a word
QUERY, PLAN = "query", "plan"
"""The holder that only reads a folder; see :func:`take_folder`."""
_OF_ENGINE = ("metadata", "store")
"""Folders of the engine in a data folder, without which there is no table in it."""
# The engine of a rowfall that was killed ends when it notices its closed stdin: at once, unless
# the kernel is still writing out its memory.
ORPHAN_SECONDS = 15.0
# A query or a plan has a folder for its own time, most often less than a second. A load waits for
# it: another query in a loop begins some 0.2 s after the last one, and a load looks four times in
# that. One that takes longer than this is said to be in the way.
READER_SECONDS = 60.0


_Waiting = dict[int, queue.SimpleQueue[dict[str, Any]]]
"""Queues for the answers of one process, by the number of the request; 0 is its opening."""


def _check_installed(folder: Path | None) -> None:
    """Check that there is an engine to start.

    Raises:
        UsageError: chDB is not installed.
    """
    if is_installed():
        return
    what = f"the folder {folder}" if folder else "this load"
    raise UsageError(
        f"{what} needs the embedded ClickHouse (chDB), which is not installed",
        hint=f"Install it: {extras.command('embedded')}. Without it, CSV, TSV, JSON lines, Parquet "
        "and databases load into servers of ClickHouse, and text into other databases.",
    )


class Embedded(EngineQuestions):
    """The embedded engine on one folder (``None``: in memory).

    Args:
        folder: data folder, created when missing.
        memory: bytes the load may use altogether; default half of what is free.
        threads: override of the usable cores.
        fds: descriptors that the child inherits (stdin sources, output of queries).
        idle: start the child only when there is something to run; "late": until then what a plan
            asks of the engine is what it will be.
        durable: what was written is flushed when :meth:`sync` asks for it.
        reads: what has the folder only to read it ("query"), for those that wait for it.
        work: folder to work in: "." is the current one, so that relative file names in a user's
            statement are meant there. A file in it with the name of a table would be that table;
            by default there are none. Readers of lake tables take those below it only.

    The folder is opened while the caller goes on: what is wrong with it is said by the first
    statement (EngineError), or by :meth:`opened`.

    Raises:
        TargetError: the folder cannot be created or written, or another process uses it.
        UsageError: chDB is not installed.
    """

    kind: Literal["embedded"] = "embedded"
    shared = query_log = ddl_settings = False
    rows_refused: str | None = None
    readonly = 0

    def __init__(
        self,
        folder: Path | None,
        *,
        memory: int | None = None,
        threads: int | None = None,
        fds: Sequence[int] = (),
        idle: bool | Literal["late"] = False,
        work: str = "",
        durable: bool = True,
        reads: str = "",
    ) -> None:
        self._facts: Facts | None = None
        self._rests = False
        if folder is not None:
            _check_installed(folder)  # before a folder is made
        self.folder = folder
        self._assumed = idle == "late"
        self.pause = POLL_SECONDS
        self._work = work
        self._durable = durable
        self._fds = tuple(fds)
        self._lock = take_folder(folder, reads) if folder else None
        # Until a statement may have made a table. A load into a new folder asks two questions.
        self._new = folder is None or not any((folder / n).exists() for n in _OF_ENGINE)
        self._pending: _Waiting = {}
        self._guard = threading.Lock()
        self._next = 0
        self._highest = 0
        self.cores = threads or usable_cores()
        self._memory = memory or free_memory() // 2
        self._process: PrestartedChild | None = None
        self._gone: list[PrestartedChild] = []  # their waiters still ask for the cause
        self._opening = threading.RLock()  # guards the process and the two that follow
        self._version = self._timezone = ""
        # Answers about the tables of the folder. They hold until a statement of this engine alters
        # these, as nobody else has the folder open; a load asks half of them twice or more.
        self._answered: dict[DefinitionQuestion, list[list[Any]]] = {}
        self._altered = self._altering = 0  # statements that may have altered, and those running
        if not idle:
            self._start()

    def _start(self) -> PrestartedChild:
        """Start a child that opens the folder.

        Raises:
            UsageError: chDB is not installed.
        """
        _check_installed(self.folder)
        self._forget(0, "")
        child = self._process = take(self._fds)
        # Each process has its own: its listener may notice the end long after the next one began.
        pending = self._pending = {0: queue.SimpleQueue()}
        threading.Thread(target=self._listen, args=(child.stdout, pending), daemon=True).start()
        path = str(self.folder.absolute()) if self.folder else ""
        words = [text.encode("utf-8", "surrogatepass") for text in (path, LOCK_NAME, self._work)]
        sizes = " ".join(str(number) for number in (self._memory, *map(len, words)))
        self._send(child, f"open {sizes}", b"".join(words))
        return child

    def assume(self, facts: Facts | None) -> None:
        """Answer who asks for facts with these, so that no child is started for them."""
        self._facts = facts

    def rest(self) -> None:
        """Start no child any more, where none has been needed: it would tell of itself only."""
        self._rests = self._process is None

    def opened(self) -> PrestartedChild:
        """Wait until the folder is open.

        Raises:
            EngineError: chDB cannot open it; or see :meth:`rest`.
        """
        with self._opening:
            if self._rests:
                raise EngineError("the engine has run nothing")
            child = self._process or self._start()
            if self._version and child.process.poll() == OVERRUN:
                self._version = ""  # it has ended itself, and another one goes on
                self._gone.append(child)
                child = self._start()
            if self._version:
                return child
            try:
                answer = self._pending[0].get(timeout=START_TIMEOUT)
            except queue.Empty:
                child.process.kill()
                raise EngineError(
                    f"the engine did not open {self.folder} within {START_TIMEOUT:.0f} seconds"
                ) from None
            if "ok" not in answer:
                self._pending[0].put(answer)  # for the next caller
                error = self._start_error(answer)
                self.close()
                raise error
            version, self._timezone = answer["data"].decode().split("\t")
            self._version = version
            return child

    def _start_error(self, answer: Mapping[str, Any]) -> RowfallError:
        said = answer.get("data", b"").decode("utf-8", "backslashreplace")
        if "held" in answer:
            holder = re.search(r"PID: (\d+)", said)
            return FolderInUseError(
                f"the target folder {self.folder} is in use by another engine"
                + (f" (pid {holder[1]})" if holder else ""),
                hint="Close it there (chDB or clickhouse-local), or load into another folder.",
            )
        text = said.strip()
        if not text and self._process is not None:
            text = f"{self._death(self._process).message}, before it said a word"
        return EngineError(
            f"cannot open the data folder {self.folder}: {(text.splitlines() or [''])[0][:300]}",
            hint="If it was written by another version of the engine, give another folder "
            "with --to.",
        )

    @property
    def memory(self) -> int:
        """Return the bytes that a load may use altogether; no child is started for it."""
        return self._memory

    @property
    def idle(self) -> bool:
        """Tell whether no child was needed so far."""
        return self._process is None and not self._version

    @property
    def facts(self) -> Facts:
        """Return what is known of the engine; until one that begins idle is needed, what it is.

        A plan asks for version and time zone. The version is that which pyproject.toml names.
        """
        if self._facts is not None:
            return self._facts
        if self._assumed and self.idle:
            return Facts(VERSION, self.cores, self._memory, timezone=local_timezone())
        self.opened()
        if not hasattr(self, "_settings"):
            rows = self.run(
                Statement(
                    SqlText.of("SELECT name FROM system.settings"),
                    format="TabSeparatedRaw",
                    alters=None,
                )
            ).data
            self._settings = frozenset(rows.decode().split())
        return Facts(self._version, self.cores, self._memory, self._settings, self._timezone)

    def run(
        self,
        statement: Statement,
        *,
        lane: int = 0,
        on_tick: Tick | None = None,
        body: Body | None = None,
        encoding: str = "",
        out_fd: int | None = None,
    ) -> Outcome:
        """See :class:`rowfall.engines.base.Engine`; ``out_fd`` streams the result there."""
        if body is not None or encoding or statement.texts:
            raise EngineError("the embedded engine reads rows by itself; none can be sent to it")
        self.logged(statement)
        settings, sql = statement.settings, statement.sql.reveal()
        if self._assumed and settings:  # chosen before the engine has said what it knows
            self.opened()
            settings = self.facts.known(settings)
        if statement.format and out_fd is None:
            settings = {**(_CATALOGUE if _of_catalogue(sql) else _SMALL), **settings}
        if statement.alters is None:
            return self._sent(statement, sql, settings, lane, on_tick, out_fd)
        with self._alters(statement.alters):
            return self._sent(statement, sql, settings, lane, on_tick, out_fd)

    def ask(
        self, sql: str | SqlText, settings: Settings | None = None, *, lane: int = 0
    ) -> list[list[Any]]:
        """See :class:`rowfall.engines.base.Engine`; what is known of tables is not asked again."""
        # Files of the folder to work in are tables, too, and come and go.
        if not isinstance(sql, DefinitionQuestion) or settings or self._work:
            return super().ask(sql, settings, lane=lane)
        if self._new and sql.users:
            return []  # a new folder has none
        with self._guard:
            known, altered = self._answered.get(sql), self._altered
        if known is None:
            known = super().ask(sql, lane=lane)
            with self._guard:
                if altered == self._altered and not self._altering:
                    self._answered[sql] = known
        return [list(row) for row in known]

    @contextlib.contextmanager
    def _alters(self, beginning: str) -> Iterator[None]:
        """Forget what is known of tables now, and again when the statement has ended.

        Args:
            beginning: of the names of those that it may alter.
        """
        self._new = False
        self._forget(1, beginning)
        try:
            yield
        finally:
            self._forget(-1, beginning)

    def _forget(self, running: int, beginning: str) -> None:
        def concerns(question: DefinitionQuestion) -> bool:
            names = question.names
            return names is None or any(name.startswith(beginning) for name in names)

        with self._guard:
            self._altered += 1
            self._altering += running
            self._answered = {q: rows for q, rows in self._answered.items() if not concerns(q)}

    def _sent(
        self, statement: Statement, sql: str, settings: Settings, lane: int,
        on_tick: Tick | None = None, out_fd: int | None = None,
    ) -> Outcome:  # fmt: skip
        """Send a statement to the child and wait for its answer."""
        sql += settings_clause(settings)
        if statement.query_id:
            # chDB takes no query id; a comment makes the statement findable in system.processes.
            sql = f"/* {statement.query_id} */ {sql}"
        child = self.opened()
        answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self._guard:
            self._next += 1
            tag = self._next
            self._pending[tag] = answers
            form, text = (statement.format or "").encode(), sql.encode("utf-8", "surrogatepass")
            to = -1 if out_fd is None else out_fd
            self._send(child, f"run {tag} {lane} {to} {len(form)} {len(text)}", form + text)
        try:
            secrets = [p for p in statement.sql.parts if isinstance(p, Secret)]
            # The engine quotes statements in its errors: a secret may show in its escaped form.
            secrets += [Secret(quote(p.reveal())[1:-1]) for p in secrets]
            return self._await(child, answers, on_tick, secrets)
        finally:
            self._pending.pop(tag, None)

    def existing_table(self, database: str, table: str) -> ExistingTable | None:
        """See :class:`rowfall.engines.base.Engine`; most often it is known that there is none."""
        return (
            super().existing_table(database, table) if table_uuid(self, database, table) else None
        )

    def probe(
        self, sql: str | SqlText, seconds: float, settings: Settings | None = None
    ) -> list[list[Any]]:
        """See :class:`rowfall.engines.base.Engine`; waits for as long as it takes."""
        return self.ask(sql, settings, lane=CONTROL_LANE)

    def same_machine(self) -> bool:
        """True: it is a child of this process."""
        return True

    def sync_refused(self) -> None:
        """Return None: a process that writes files may flush them."""

    def check_writes(self) -> None:
        """Do nothing: the folder could be locked, so it can be written."""

    def check_rights(self, tables: Sequence[tuple[str, str]], *, replicated: bool = False) -> None:
        """Do nothing: the embedded engine has no users."""

    def _send(self, child: PrestartedChild, line: str, data: bytes = b"") -> None:
        try:
            child.stdin.write(line.encode() + b"\n" + data)
            child.stdin.flush()
        except OSError:
            raise self._death(child) from None

    def _await(
        self,
        child: PrestartedChild,
        answers: queue.SimpleQueue[dict[str, Any]],
        on_tick: Tick | None,
        secrets: Sequence[Secret],
    ) -> Outcome:
        while True:
            answer = answers.get()
            if "tick" in answer:
                if on_tick is not None:
                    on_tick(answer["tick"])
            elif "error" in answer:
                text = answer["data"].decode("utf-8", "backslashreplace")
                raise translate(redact(text, *secrets))
            elif "overrun" in answer:
                child.process.wait()
                raise self._overrun(own=True)
            elif "death" in answer:
                raise self._death(child)
            else:
                return Outcome(data=answer["data"], **answer["ok"])

    def _overrun(self, *, own: bool) -> MemoryOverrunError:
        return MemoryOverrunError(
            "the engine's process took more memory than --memory allows "
            f"({units.memory(self._memory)}) and was ended",
            code=MEMORY_LIMIT, own=own,
        )  # fmt: skip

    def _death(self, child: PrestartedChild) -> EngineError:
        code = child.process.wait()
        if code == OVERRUN:
            return self._overrun(own=False)
        cause = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        hint = "Run the same command again: what is loaded is not loaded twice."
        if code == -9:
            hint = "Signal 9 often means that the machine ran out of memory; lower --memory."
        last: list[str] = []
        with contextlib.suppress(ValueError):  # the engine was closed meanwhile
            child.stderr.seek(0)
            last = child.stderr.read()[-400:].decode(errors="replace").strip().splitlines()
        said = f" ({last[-1]})" if last and code > 0 else ""
        return EngineError(f"the engine's process {cause}{said}", hint=hint, transient=True)

    @staticmethod
    def _listen(out: IO[bytes], pending: _Waiting) -> None:
        """Read the child's answers and hand each to the caller that waits for it."""
        with contextlib.suppress(OSError, ValueError):  # it was closed while it was read
            for line in out:
                try:
                    answer = json.loads(line)
                except ValueError:
                    break  # the child died in the middle of a line
                size = answer.get("size", 0)
                answer["data"] = out.read(size) if size else b""
                if len(answer["data"]) < size:
                    break  # the child died in the middle of a result
                waiting = pending.get(answer["id"])
                if waiting is not None:
                    waiting.put(answer)
        for waiting in list(pending.values()):
            waiting.put({"death": True})

    def kill(self, query_id: str) -> None:
        """End a running statement. The comment in front of it is how it is found."""
        if self.idle:
            return
        with contextlib.suppress(EngineError):
            self.run(
                Statement(
                    SqlText.of(
                        "KILL QUERY WHERE position(query, "
                        + quote(f"/* {query_id} */")
                        + ") = 1 SYNC"
                    ),
                    alters=None,
                ),
                lane=CONTROL_LANE,
            )

    def resident(self) -> tuple[int, int]:
        """Return the bytes resident in the child now, and the kernel's high-water mark."""
        now, highest = resident(self.pid)
        self._highest = max(self._highest, highest)
        return now, self._highest

    def cpu_seconds(self) -> float:
        """Return the user and system seconds that the child has used (0 when it is gone)."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            # Fields 14 and 15 of proc(5), counted after the command name in parentheses.
            fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    @property
    def pid(self) -> int:
        """Return the number of the child process; 0 where none was needed yet."""
        return self._process.process.pid if self._process else 0

    def runs(self, query_id: str) -> bool:
        """Return False: a statement that nobody waits for has ended with its process."""
        return False

    def finished(self, query_id: str, *, since_start: bool = False) -> bool | None:
        """Return None: a folder has no log that outlives its process."""
        return None

    def abandon(self) -> None:
        """End the child now; what it was doing is lost, what it had written is not."""
        if self._process is not None:
            self._process.process.kill()
            self._process.process.wait()

    def sync(self) -> str | None:
        """Flush the file system of the data folder, see :class:`rowfall.engines.base.Engine`.

        Raises:
            TargetError: the disk is full, or broken.
        """
        if self.folder is None or not self._durable:
            return None
        try:
            disk.sync_file_system(self.folder)
        except OSError as error:
            raise TargetError(
                f"what was loaded cannot be flushed to the disk of {self.folder}: {error.strerror}",
                hint="Check the disk, then run the same command again.",
            ) from None
        return None

    def revive(self) -> None:
        """Start a new child on the same folder after the old one died."""
        with self._opening:
            if self._version and self._process and self._process.process.poll() is None:
                return  # another thread has met the same death and was faster
            self.abandon()
            if self._process is not None:
                self._gone.append(self._process)
            self._version = ""
            self._start()
            self.opened()

    def check_alone(self) -> None:
        """See :class:`rowfall.engines.base.Engine`: the lock is that of the file at its path.

        Somebody may have removed it, or a file system that does not share locks has let another
        rowfall, of this machine or another one, write itself into it.
        """
        if self.folder is None or self._lock is None:
            return
        path = self.folder / LOCK_NAME
        try:
            there, own = path.lstat(), os.fstat(self._lock.descriptor)
            same = (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
            if same and os.pread(self._lock.descriptor, MOST_SAID, 0) == self._lock.said:
                return
            why = "was written by another rowfall" if same else "was replaced"
        except OSError:
            why = "is gone"
        raise LockLostError(
            f"the lock of {self.folder} {why} while this load ran: another rowfall may load into "
            "the folder, too, so nothing more is made visible",
            hint=f"Leave {path} where it is, and give a folder to one machine at a time. When no "
            "other load runs, run the same command again: what is loaded is skipped.",
        )

    def _marked_folder(self, uuid: str) -> Path | None:
        """Return the folder of a table, which the engine removes with it; None if not known."""
        if self.folder is None or not uuid:
            return None
        found = self.folder / "store" / uuid[:3] / uuid
        return found if found.is_dir() else None

    def keeps_mark(self, uuid: str) -> bool:
        """See :class:`rowfall.engines.base.Engine`: where the table lies on the default disk."""
        return self._marked_folder(uuid) is not None

    def mark(self, uuid: str, text: str, *, at_once: bool = False) -> None:
        """See :class:`rowfall.engines.base.Engine`: a file that the engine does not look at."""
        folder = self._marked_folder(uuid)
        if folder is None:
            return
        new = folder / f"{MARK_NAME}.new"
        try:
            new.unlink(missing_ok=True)
            opened = disk.open_own(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(opened, "w") as file:
                file.write(text)
                if flushes := at_once and self._durable:
                    file.flush()
                    os.fsync(file.fileno())
            new.replace(folder / MARK_NAME)
            if flushes:
                disk.sync_folder(folder)
        except OSError as error:
            raise TargetError(
                f"cannot write {new}: {error.strerror}",
                hint="Give this user the right to write there, or free some space.",
            ) from None

    def marked(self, uuid: str) -> str:
        folder = self._marked_folder(uuid)
        return "" if folder is None else _read(folder / MARK_NAME).strip()

    def renumber(self, uuid: str, partition: str, word: str) -> None:
        """Record by a word that blocks of a partition may get numbers that others had before.

        Where the table lies on the default disk; see :mod:`rowfall.systems.clickhouse.data_folder`.
        """
        folder = self._marked_folder(uuid)
        if folder is None:
            return
        known = numbering(folder)
        opened = disk.open_own(folder / NUMBERING_NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(opened, "w") as file:
            json.dump({**known, partition: word}, file)

    def close(self) -> None:
        """Ask the child to end, then force it; unlock the folder.

        Nothing writes into the folder afterwards. The next to open it may have to wait for some
        milliseconds until the child's lock is gone as well.
        """
        self.resident()
        for child in (*self._gone, *([self._process] if self._process else ())):
            _end(child)
        if self._lock is not None:
            self._lock.give_back()
            self._lock = None


def numbering(folder: Path) -> dict[str, str]:
    """Return the word of each partition of a table whose blocks were numbered anew."""
    text = _read(folder / NUMBERING_NAME)
    return dict(json.loads(text)) if text else {}


def _of_catalogue(sql: str) -> bool:
    """Tell whether a statement reads from tables of the system only."""
    reads = sql.count("FROM ")
    return reads > 0 and reads == sql.count("FROM system.") + sql.count("FROM (SELECT")


def _end(child: PrestartedChild) -> None:
    process = child.process
    with contextlib.suppress(OSError, ValueError):  # it has gone already, or was closed before
        child.stdin.write(b"quit\n")
        child.stdin.flush()
    if not _ends(process, CLOSE_TIMEOUT):
        process.kill()
        process.wait()

    def clear_away() -> None:
        process.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            with contextlib.suppress(OSError, ValueError):
                pipe.close()

    # In a thread: the kernel needs 60 ms to take 2 GB back.
    threading.Thread(target=clear_away, daemon=True).start()


def _ends(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Wait until a process that was asked to go runs no more code: then nothing of it can write.

    Its memory and its lock on the folder are given back a little later, in that order.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None or _ending(process.pid):
            return True
        time.sleep(0.001)
    return False


def _ending(pid: int) -> bool:
    """Tell whether all threads of a process run no more code (Linux: PF_EXITING)."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            stat = Path(f"/proc/{pid}/task/{task}/stat").read_text()
            if not int(stat.rpartition(")")[2].split()[6]) & PF_EXITING:
                return False
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has gone meanwhile: asked again soon
    return True


# --- the lock of the folder ---------------------------------------------------------------------


class FolderInUseError(TargetError):
    """Another process has the folder: two engines must never share one."""


@dataclass(frozen=True, slots=True)
class FolderLock:
    """The lock of a data folder.

    Attributes:
        said: what the file holds: the number of this process, and a word that no other one has.
    """

    descriptor: int
    said: bytes

    def give_back(self) -> None:
        """Unlock the folder."""
        # The engine is to be waited for, not this process. What another one has written stays.
        with contextlib.suppress(OSError):
            if os.pread(self.descriptor, MOST_SAID, 0) == self.said:
                os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


def take_folder(folder: Path, reads: str = "") -> FolderLock:
    """Create the folder and lock it for this process.

    A new folder is for this user alone. Who only reads it is waited for, but not by a query, which
    reads a copy meanwhile.

    Args:
        reads: what has it only to read it, "" for what may change it.

    Raises:
        UsageError: it is not to be trusted. TargetError: it cannot be written.
    """
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        why = distrust(folder.stat(), folder.absolute().parent.stat(), os.geteuid())
        if why is not None:
            raise UsageError(
                f"the target folder {folder} belongs to another user, and {why}",
                hint="Give a folder of your own with --to.",
            )
        lock = disk.open_own(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT)
        if (folder / STATUS_NAME).is_symlink():  # the engine would write where it leads to
            os.close(lock)
            raise OSError(errno.ELOOP, f"{STATUS_NAME} is a symbolic link")
    except OSError as error:
        hint = "Give a folder that you may write to with --to."
        if error.errno in (errno.ELOOP, errno.EINVAL):
            hint = "Find out who has put it there, and remove it."
        raise TargetError(
            f"cannot write to the target folder {folder}: {error.strerror}", hint=hint
        ) from None
    try:
        _wait_for_locks(folder, lock, reads)
    except OSError:
        os.close(lock)
        raise TargetError(
            f"the file system of {folder} has no locks, which a data folder needs",
            hint="Give a folder on a disk of this machine with --to.",
        ) from None
    said = f"{os.getpid()} {os.urandom(8).hex()} {reads}".strip().encode()
    os.ftruncate(lock, 0)
    os.pwrite(lock, said, 0)
    if any(folder.glob(f"{own_files.COPIES}*")):
        from rowfall.systems.clickhouse.snapshot import remove_stale  # 5 ms that others save

        remove_stale(folder)
    return FolderLock(lock, said)


def _wait_for_locks(folder: Path, lock: int, reads: str) -> None:
    """Lock a folder by its open lock file, which is closed where another process keeps it.

    Args:
        reads: see :func:`take_folder`.

    Raises:
        FolderInUseError: another process keeps it. OSError: the file system has no locks.
    """
    began = time.monotonic()
    # The lock of the open file is rowfall's, the record lock is its engine's: it is held until
    # the engine of a killed rowfall has gone, too.
    for take_lock in (_lock_file, _lock_record):
        while not take_lock(lock):
            text = os.pread(lock, MOST_SAID, 0).decode(errors="replace")
            holder, _, reader = (*text.split(" "), "", "")[:3]
            waits = ORPHAN_SECONDS
            if _alive(holder):
                waits = READER_SECONDS if reader and reads != QUERY else 0.0
            waited = time.monotonic() - began
            if waited > waits or not waits:
                os.close(lock)
                what = f"read by a {reader}" if reader else "in use"
                raise FolderInUseError(
                    f"the target folder {folder} is {what} "
                    f"{'of' if reader else 'by'} another rowfall process"
                    + (f" (pid {holder})" if holder else "")
                    + (f", which was waited for {waited:.0f} s" if waited > 1 else ""),
                    hint="Wait for it to end, or load into another folder.",
                )
            time.sleep(0.05)


def distrust(folder: os.stat_result, above: os.stat_result, user: int) -> str | None:
    """Return a clause: why others may have put links into a folder; None where nobody could.

    The engine writes wherever a link leads. The owner of a folder is trusted, for whom root may
    load, and so is the group that the owner has let in.

    Args:
        folder: its status. ``above``: status of the folder that it is in.
        user: id of this process's user; 0 is root.
    """
    if folder.st_uid in (user, 0):
        return None
    if folder.st_mode & stat.S_IWOTH:
        return "everybody may write into it"
    if user == 0 and above.st_mode & stat.S_IWOTH:  # a user without rights could not write there
        return "everybody may make one of that name"
    return None


def _lock_file(lock: int) -> bool:
    """Return True when no other rowfall holds the folder.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if disk.says_no_locks(error):
            raise
        return False
    return True


def _lock_record(lock: int) -> bool:
    """Return True when no engine holds it; the new engine takes it when it opens the folder.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(lock, fcntl.LOCK_UN)
    except OSError as error:
        if disk.says_no_locks(error):
            raise
        return False
    return True


def _alive(pid: str) -> bool:
    """Tell whether the process that wrote its number into the lock runs (a zombie does not)."""
    if not pid.isdigit() or int(pid) == os.getpid():
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
