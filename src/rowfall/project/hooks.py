"""Run the hooks of a load: SQL in its target, or a command, each bounded in time.

Hooks run at least once: a load that is run again runs them again, whatever it has found to load.
Exactly once stays with the rows. SQL runs in a process of its own (:mod:`.sql_hook`), so that it
can be ended at its time, whatever client it is in.
"""

from __future__ import annotations

import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rowfall.core.errors import HookError, UsageError, headline
from rowfall.core.masked import redact
from rowfall.core.options import Options
from rowfall.core.run_results import HookRun
from rowfall.core.units import as_json
from rowfall.core.units import duration as duration_text
from rowfall.destinations import open_destination
from rowfall.project.file import AFTER, BEFORE, ON_ERROR
from rowfall.project.values import Hook, NamedLoad
from rowfall.targets import open_target

LOAD, HOOK, OUTCOME, ROWS, REPORT = (
    "ROWFALL_LOAD", "ROWFALL_HOOK", "ROWFALL_OUTCOME", "ROWFALL_ROWS", "ROWFALL_REPORT",
)  # fmt: skip
# What a failed command has said last, for the message; the rest has gone to stderr.
_TAIL = 16 << 10
_LINES = 10
# Between SIGTERM and SIGKILL: a client tells its server that the statement is over.
_GRACE = 5.0
_SHOWN = 60


def check(load: NamedLoad) -> None:
    """Check that the target of a load takes the SQL of its hooks, before anything is loaded.

    Raises:
        UsageError: it does not.
    """
    hooks = (*load.hooks.before, *load.hooks.after, *load.hooks.on_error)
    with_sql = next((hook for hook in hooks if hook.sql), None)
    if with_sql is None:
        return
    target = open_target(load.to, load.table or "any", Options(), load.password)
    if not open_destination(target).runs_sql:
        raise UsageError(
            f"{with_sql.where}: the hook is SQL, and {target.text} runs none",
            hint='Hooks beside it are commands: { command = ["PROGRAM", "ARGUMENT"] }.',
        )


def run(
    when: str, load: NamedLoad, given: Mapping[str, Any] | None, say: Callable[[str], None]
) -> Iterator[HookRun]:
    """Run the hooks of one moment, one after the other; the first that fails is the last.

    Args:
        when: ``before``, ``after`` or ``on_error``.
        given: the JSON document of the load's report, or of its error; None before it.
        say: gets each line that commands print.

    Raises:
        Interrupted: by whoever handles the signal; the hook is ended first.
    """
    hooks: dict[str, Sequence[Hook]] = {
        BEFORE: load.hooks.before, AFTER: load.hooks.after, ON_ERROR: load.hooks.on_error,
    }  # fmt: skip
    for hook in hooks[when]:
        began = time.monotonic()
        error = ""
        try:
            _run(when, hook, load, given, say)
        except HookError as failed:
            error = failed.message
        yield HookRun(when, text_of(hook), error, round(time.monotonic() - began, 3))
        if error:
            return


def text_of(hook: Hook) -> str:
    """Return SQL or command of a hook in one line, shortened."""
    text = " ".join("; ".join(hook.sql).split()) if hook.sql else shlex.join(hook.command)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _run(
    when: str, hook: Hook, load: NamedLoad, given: Mapping[str, Any] | None,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Run one hook.

    Raises:
        HookError: it has failed, or has taken too long.
    """
    where = f"the {when} hook of {load.name} ({hook.where})"
    if hook.sql:
        request = json.dumps({
            "to": load.to, "sql": hook.sql,
            "password": load.password.reveal() if load.password is not None else None,
        })  # fmt: skip
        command = [sys.executable, "-m", "rowfall.project.sql_hook"]
        code, said = _ended(command, hook, where, lambda _: None, request.encode())
        if code:
            text = headline(said) or f"its process has ended with {code}"
            raise HookError(f"{where} has failed: {redact(text, load.password)}")
        return
    with _environment(when, load, given) as environment:
        code, said = _ended(hook.command, hook, where, say, b"", environment)
    if code:
        last = [line for line in said.splitlines() if line.strip()][-_LINES:]
        more = f": {last[-1].strip()}" if last else ""
        ended = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise HookError(f"{where} has ended {ended}{more}")


@contextmanager
def _environment(
    when: str, load: NamedLoad, given: Mapping[str, Any] | None
) -> Iterator[dict[str, str]]:
    """Give the environment of a command, with the report in a file that only this user reads."""
    environment = {**os.environ, LOAD: load.name, HOOK: when}
    if given is None:
        yield environment
        return
    handle, path = tempfile.mkstemp(prefix=f"rowfall-{load.name}-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(as_json(given, indent=1) + "\n")
        yield environment | {
            REPORT: path, OUTCOME: str(given.get("outcome", "failed")),
            ROWS: str(given.get("rows", 0)),
        }  # fmt: skip
    finally:
        Path(path).unlink(missing_ok=True)


def _ended(
    command: Sequence[str], hook: Hook, where: str, say: Callable[[str], None], stdin: bytes,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:  # fmt: skip
    """Run a program to its end; return its exit code and the end of what it has printed.

    Raises:
        HookError: it cannot be started, or has not ended in time.
    """
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment,
            # A Ctrl-C is for rowfall, which then ends the hook with all that it has started.
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise HookError(
            f"{where}: cannot run {command[0]}: {(error.strerror or str(error)).lower()}",
            hint="No shell runs it: name a program and its arguments.",
        ) from None
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
    try:
        try:
            process.stdin.write(stdin)  # of a hook with SQL, a line that any pipe holds
            process.stdin.close()
        except OSError:
            pass  # it has ended already, and its exit code says why
        said = _listen(process, time.monotonic() + hook.timeout, say)
        if process.poll() is None:
            raise HookError(
                f"{where} has not ended within {duration_text(hook.timeout)} and was stopped",
                hint='Give it longer: timeout = "1h" beside its sql or command.',
            )
        return process.returncode, said
    finally:
        if process.poll() is None:
            _end(process)
        process.stdout.close()


def _listen(process: subprocess.Popen[bytes], until: float, say: Callable[[str], None]) -> str:
    """Hear what a process prints until it has ended, or until a time; return the end of it."""
    assert process.stdout is not None  # noqa: S101 - a pipe
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    tail, line = b"", b""
    open_ = True
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        # A process that it has left behind may hold the pipe for ever, so its own end counts, too.
        ended = os.pidfd_open(process.pid)
        try:
            selector.register(ended, selectors.EVENT_READ)
            while open_ or process.poll() is None:
                left = until - time.monotonic()
                ready = selector.select(max(left, 0.0))
                if not ready:
                    return tail.decode("utf-8", "replace")
                gone = any(key.fd == ended for key, _ in ready)
                while open_:
                    try:
                        piece = os.read(descriptor, 1 << 16)
                    except BlockingIOError:
                        break
                    if not piece:
                        open_ = False
                        selector.unregister(descriptor)
                    tail = (tail + piece)[-_TAIL:]
                    *lines, line = (line + piece).split(b"\n")
                    for each in lines:
                        say(each.decode("utf-8", "replace"))
                    line = line[-_TAIL:]
                if gone:
                    process.wait()
                    break
        finally:
            os.close(ended)
    if line:
        say(line.decode("utf-8", "replace"))
    return tail.decode("utf-8", "replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue
