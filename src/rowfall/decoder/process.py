"""Runs rowfall-decode for one attempt: its document, its questions, its progress, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, cast

from rowfall.core import environment
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.listing import Split
from rowfall.decoder.documents import Spec, encode
from rowfall.decoder.installed import PROGRAM, ProgramExit, check_known

# The program writes its last line when its pipes are closed; it has nothing else to do then.
END_SECONDS = 30.0

# Answers the question of a program, by its name and what it is about.
Answers = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


# What a program of Rust says behind the reason why it ends itself.
_ADVICE = b"note: run with"
_NO_MEMORY = "memory allocation of"


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of a run of the program, as it prints them at its end.

    Attributes:
        bytes_raw: of text, decompressed. ``waited_seconds``: for the disk, of all threads.
        writing_seconds: of parts.
    """

    rows: int
    bytes_raw: int
    cpu_seconds: float
    writing_seconds: float = 0.0
    waited_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DecoderFailure:
    """An error of the program: what it declined or could not read, or why it gave up.

    Attributes:
        uri: of the input as the program knows it; None where it is about none, "" for several.
        too_long: a record is longer than it may be; ``line`` and ``offset`` are where it begins.
        unclosed: a quote in ``column`` is opened at ``line`` and ``offset`` and never closed.
        line: of text, from 1; 0 where it is not known.
        column: its name, "" where it is about none; ``type``: of its values.
        value: the text that was declined, of at most 100 characters.
        no_memory: the system refused it more memory than it may have.
    """

    message: str
    uri: str | None = None
    too_long: bool = False
    line: int = 0
    offset: int = 0
    unclosed: bool = False
    column: str = ""
    value: str = ""
    type: str = ""
    no_memory: bool = False


@dataclass(frozen=True, slots=True)
class RowsBeforeFailure:
    """Rows of a program that has failed while it wrote Arrow.

    Attributes:
        inputs: rows that were decoded of each input, in their order, up to the last one that was
            begun; more may be in memory than were written.
        failed: number of the input that it is about; behind the last one for none.
    """

    inputs: tuple[int, ...]
    failed: int


class DecoderProcess:
    """The running program. Its spec, which may hold signed addresses, goes through stdin only.

    stdin stays open: its end tells the program that rowfall has been killed.

    Args:
        stdout: descriptor that the output "-" goes to.
        nice: how much less of the cores it gets than this process, from 0 to 19.

    Attributes:
        given: what a program says that has failed while it wrote Arrow; None where it says nothing.
        killed: by this process.
        filled: set when it holds what it was to hold before it sends, or has ended.
        on_progress: called when the program has said how far it is.
        inputs: what it reads; of a stream with the path of its pipe.
    """

    def __init__(
        self, program: str, spec: Spec, answers: Answers | None = None,
        stdout: int = subprocess.DEVNULL, nice: int = 0,
    ) -> None:  # fmt: skip
        self._answers = answers
        self.inputs: Sequence[Split] = ()
        self.on_progress: Callable[[], None] | None = None
        self.given: RowsBeforeFailure | None = None
        to = spec.output_connection
        self._process = subprocess.Popen(
            [program, "run", "--spec", "stdin-line"],
            pass_fds=() if to is None else (to.descriptor,),
            stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE,
            env=environment.of_child(),
        )  # fmt: skip
        if nice:  # its threads, which it has once it has the spec, inherit that
            with suppress(ProcessLookupError):
                own = os.getpriority(os.PRIO_PROCESS, 0)
                os.setpriority(os.PRIO_PROCESS, self._process.pid, min(19, own + nice))
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._written = self._read = (0, 0)
        self._last = b""
        self.killed = False
        self.filled = threading.Event()
        # No answer goes out before the spec.
        self._sending = threading.Lock()
        self._listener = threading.Thread(
            target=self._hear, args=(cast("IO[bytes]", self._process.stderr),), daemon=True
        )
        self._listener.start()
        self._send(encode(spec))

    def _send(self, line: str) -> None:
        # A program that is dead already is judged by its end.
        with suppress(BrokenPipeError, ValueError), self._sending:
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()

    def _answer(self, question: str, about: Mapping[str, Any]) -> None:
        try:
            if self._answers is None:
                raise EngineError(f"nobody knows {question}")
            answer = self._answers(question, about)
        except (RowfallError, OSError) as error:
            answer = {"error": str(error)}
        self._send(json.dumps(answer))

    def _hear(self, pipe: IO[bytes]) -> None:
        try:
            self._listen(pipe)
        finally:
            self.filled.set()

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                try:
                    report = json.loads(line)
                    if "question" in report:
                        self._answer(report["question"], report["about"])
                        continue
                    if "held_bytes" in report:
                        self.filled.set()
                        continue
                    if "input_rows" in report:
                        self.given = RowsBeforeFailure(
                            tuple(report["input_rows"]), report["failed"]
                        )
                        continue
                    self._written = (report["written_rows"], report["written_bytes"])
                    # Older programs count what they have written only.
                    rows, stored = self._written
                    self._read = (
                        int(report.get("decoded_rows", rows)), int(report.get("read_bytes", stored))
                    )  # fmt: skip
                except (ValueError, KeyError, TypeError):
                    if not line.startswith(_ADVICE):
                        self._last = line
                    continue
                if (heard := self.on_progress) is not None:
                    # An engine that just died is no reason to leave the pipe: it would fill up.
                    with suppress(RowfallError, ValueError, OSError):
                        heard()

    def stored(self, rows: int | None) -> int:
        """Return the bytes of the objects that were read, less those on their way to the engine.

        Args:
            rows: that the engine has got; None where there is no such way. Megabytes of what has
                gone into the pipes may be between here and a server.
        """
        written, stored = self._written
        on_the_way = 0
        if rows is not None and rows < written:
            on_the_way = stored - stored * rows // written
        return max(self._read[1] - on_the_way, 0)

    @property
    def rows(self) -> int:
        """Return the rows that the program has decoded so far."""
        return self._read[0]

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most so many seconds; return True when the program has ended."""
        # It closes stderr by ending. Waiting for a process with a timeout only looks every 50 ms.
        self._listener.join(seconds)
        if self._listener.is_alive():
            return False
        self._process.wait()
        return True

    @property
    def failed(self) -> bool:
        """True where the program has ended, and not well."""
        return bool(self._process.poll())

    def kill(self) -> None:
        if self._process.poll() is None:
            self.killed = True
            self._process.kill()

    def end(self) -> tuple[int, str]:
        """Return exit status and last line of a program that has nothing more to do."""
        if not self.wait(END_SECONDS):
            self.kill()
        code = self._process.wait()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._listener.join()
        return code, self._last.decode(errors="replace").strip()

    def result(self) -> Summary | DecoderFailure | None:
        """Return the summary or refusal of the program; None where it left as another part failed.

        Raises:
            EngineError: the program was killed.
            UsageError: the program is of another version.
        """
        code, last = self.end()
        try:
            said: dict[str, Any] = json.loads(last)
        except ValueError:
            said = {}
        if code == ProgramExit.OK and "rows" in said:
            return Summary(
                int(said["rows"]), int(said["bytes_raw"]), float(said["cpu_seconds"]),
                float(said["writing_seconds"]), float(said.get("waited_seconds", 0.0)),
            )  # fmt: skip
        if code in (ProgramExit.DECLINED, ProgramExit.BROKEN):
            what, line = str(said.get("message", last)), int(said.get("line", 0))
            kind = said.get("error")
            if kind == "malformed":
                what = f"line {line}: {what}"
            offset = int(said.get("offset", 0))
            return DecoderFailure(
                what, str(said.get("uri", "")), kind == "too_long", line, offset,
                kind == "unclosed", str(said.get("column", "")), str(said.get("value", "")),
                str(said.get("type", "")),
            )  # fmt: skip
        if code == ProgramExit.READER_LEFT or (code == -signal.SIGKILL and self.killed):
            return None
        if code == -signal.SIGABRT:
            what = f"{PROGRAM} gave up: {last[:300] or 'aborted'}"
            return DecoderFailure(what, no_memory=_NO_MEMORY in last)
        if code < 0:
            raise EngineError(
                f"{PROGRAM} was killed by signal {-code}",
                hint="Signal 9 often means that the machine ran out of memory; lower --memory.",
                transient=True,
            )
        check_known(last)
        return DecoderFailure(f"{PROGRAM} ended with {code}: {last[:300]}")
