"""Which ClickHouse the lab runs: one that is on this machine; nothing is ever downloaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from rowfall.lab.process import LabUsageError

VARIABLE = "ROWFALL_CLICKHOUSE"
_VERSION = re.compile(r"version (\d[\w.]*)")


def find(given: str | None = None) -> Path | None:
    """The binary: ``given``, else of ROWFALL_CLICKHOUSE, else ``clickhouse`` on PATH, or None.

    Raises:
        LabUsageError: the one that was named is no program.
    """
    for origin, named in (("--clickhouse ", given), (f"{VARIABLE}=", os.environ.get(VARIABLE))):
        if named:
            if not (os.path.isfile(named) and os.access(named, os.X_OK)):
                raise LabUsageError(f"{origin}{named} is not a program")
            return Path(named).absolute()
    on_path = shutil.which("clickhouse")
    return Path(on_path).absolute() if on_path else None


def version(binary: Path) -> str:
    """The version of a ClickHouse server.

    Raises:
        LabUsageError: it cannot be run, or is something else.
    """
    try:
        done = subprocess.run(
            [binary, "server", "--version"],
            stdin=subprocess.DEVNULL,
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
            f"{binary} is no ClickHouse server" + (f": {said[-1]}" if said else ""),
            hint="It has to be the one binary that is server, client and keeper.",
        )
    return found[1]
