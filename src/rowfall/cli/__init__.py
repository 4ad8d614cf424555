"""The command line. Here is what has to happen before anything else is imported."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys

from rowfall.engines.prestart import prestart_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

COMMANDS = (
    "load", "plan", "query", "status", "report", "verify", "resume", "forget", "clean", "scale",
    "install-decoder", "lab",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with a code of :class:`rowfall.core.errors.Exit`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    # Imports leave nothing to collect; looking for it every 700 objects is 5 % of their time.
    gc.set_threshold(50_000)
    prestart_early(given)
    from rowfall.cli import app  # click takes 20 ms, in which the engine's process starts

    code = app.run(given)
    with contextlib.suppress(OSError, ValueError):  # nobody listens
        sys.stdout.flush()
        sys.stderr.flush()
    # Temporary folders that somebody still holds: copies of stdin may be as large as the data.
    atexit._run_exitfuncs()
    # Everything is said and closed. The interpreter's own end would take 15 ms; and it would end
    # by SIGINT where a Ctrl-C was caught inside of an exec(), by which every dataclass is made.
    os._exit(code)
