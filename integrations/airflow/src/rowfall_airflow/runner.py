"""The process that a load runs in: ``python runner.py FOLDER DESCRIPTOR``.

It leads a session of its own, so it outlives the worker that has started it. It runs the command
of ``FOLDER/command.json``, keeps what that prints in ``out`` and ``log``, and writes its exit code
into ``exit`` as its last act. The descriptor holds the lock that tells others that the load runs;
the command inherits it, so the lock is held as long as either of them lives.

It imports nothing but the standard library: Airflow alone would take more memory than many a load.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def main(folder: Path, lock: int) -> None:
    """Run the command, and write down how it has ended."""
    # Ctrl-C of the group is for the command, which then has something to write down.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    command = json.loads((folder / "command.json").read_text(encoding="utf-8"))
    with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=log, pass_fds=(lock,),
                preexec_fn=_heeding, check=False,
            ).returncode  # fmt: skip
        except OSError as error:
            log.write(f"cannot run {command[0]}: {error.strerror}\n".encode())
            code = 127  # as a shell says it
    written = folder / "exit.new"
    written.write_text(str(code), encoding="utf-8")
    written.rename(folder / "exit")


def _heeding() -> None:
    """Let the command hear the signals that its parent ignores: to ignore is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


if __name__ == "__main__":
    os.umask(0o077)
    main(Path(sys.argv[1]), int(sys.argv[2]))
