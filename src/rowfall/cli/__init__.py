"""The command line. Here is what has to happen before anything else is imported.

Imports api, agents, service, project, report, telemetry, run, systems, lab, core.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_USAGE, _INTERRUPTED = 2, 130  # see rowfall.core.errors.Exit, which is not imported yet


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with a code of :class:`rowfall.core.errors.Exit`."""
    _fill_closed_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if arguments is None and not sys.flags.utf8_mode and sys.getfilesystemencoding() != "utf-8":
        _restart_in_utf8()
    began = _process_began()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    # Imports leave nothing to collect; looking for it every 700 objects is 5 % of their time, and
    # once takes 25 ms. A small load makes 55,000 objects in all.
    gc.set_threshold(200_000)
    # numpy comes with some libraries, and nothing here multiplies matrices: the threads that its
    # OpenBLAS starts for each core spin for 0.1 CPU-seconds, a quarter of a small load.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        os.getcwd()
    except OSError as error:  # relative names mean nothing, and each command asks for it somewhere
        sys.stderr.write(
            f"rowfall: error: the working directory cannot be read: {error.strerror}\n"
            "  hint: It was removed or replaced: cd to one that is there, and run it again.\n"
        )
        os._exit(_USAGE)
    from rowfall.systems.clickhouse.prestart import prestart_early

    prestart_early(given)
    from rowfall.cli import app  # click takes 20 ms, in which the engine's process starts
    from rowfall.core import signals

    signals.ends_with_load = True
    try:
        if signal.getsignal(signal.SIGINT) is _leave:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = app.run(given, began)
    except KeyboardInterrupt:  # before or after what app.run answers itself
        code = _INTERRUPTED
    # The work is done or given up, and its exit code is known.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, ValueError):  # nobody listens
        sys.stdout.flush()
        sys.stderr.flush()
    # Temporary folders that somebody still holds: copies of stdin may be as large as the data.
    atexit._run_exitfuncs()
    # Everything is said and closed. The interpreter's own end would take 15 ms; and it would end
    # by SIGINT where a Ctrl-C was caught inside of an exec(), by which every dataclass is made.
    os._exit(code)


def _fill_closed_streams() -> None:
    """Open /dev/null in place of stdin, stdout and stderr that whoever started us has closed.

    The next file that is opened would get the number, and be read or written instead.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free is this one, as those before it are taken.
            stream = open(os.devnull, "w" if number else "r")  # noqa: SIM115 - until the end
            os.set_inheritable(stream.fileno(), True)  # as the streams of all other processes
            setattr(sys, name, stream)


def _restart_in_utf8() -> None:
    """Start this command again with names of files in UTF-8, as engines and other programs have it.

    Python takes names in the locale's characters (ISO-8859-1, ASCII), so that a file would not be
    found by the name that it has. What is printed stays in the locale's.
    """
    os.environ["PYTHONUTF8"] = "1"
    os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - itself


def _process_began() -> float:
    """Return when the kernel started this process, as of ``time.monotonic``; now if not known.

    The interpreter takes 20 to 100 ms before it comes here, in which the user waits already.
    """
    now = time.monotonic()
    try:
        with open("/proc/self/stat", "rb") as stat:
            ticks = int(stat.read().rpartition(b")")[2].split()[19])
        # Both clocks go on since the machine's start; only this one counts its sleep, as ticks do.
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - max(age, 0.0)


def _leave(*_: object) -> NoReturn:
    """End at a Ctrl-C during the first imports, when nothing has begun.

    An exception would be a traceback, or be lost where an import calls back into Python.
    """
    os._exit(_INTERRUPTED)
