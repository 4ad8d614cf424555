"""Runs ``rowfall``, and stops it at one moment until a file says that it may go on.

    python paused.py MOMENT WITHOUT FOLDER load ...

MOMENT is ``commit`` (before the ledger records an attempt as loaded) or ``publish`` (right after
that). WITHOUT names guards that are switched off, with commas between them: ``lock`` (the check of
the lock file before a commit), ``beside`` (the look for other loads before it begins).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from rowfall.cli import main
from rowfall.ledger import Ledger
from rowfall.systems.clickhouse.embedded import Embedded


def wait(folder: Path) -> None:
    (folder / "met").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)


def patch(moment: str, without: str, folder: Path) -> None:
    loaded, check, seen = Ledger.attempt_committed, Embedded.check_alone, []

    def attempt_committed(*args: Any, **more: Any) -> None:
        if not seen:
            seen.append(moment)
            if moment == "publish":
                loaded(*args, **more)
                wait(folder)
                return
        loaded(*args, **more)

    def check_alone(engine: Embedded) -> None:
        if moment == "commit" and not seen:
            seen.append(moment)
            wait(folder)
        if "lock" not in without.split(","):
            check(engine)

    Ledger.attempt_committed = attempt_committed  # type: ignore[method-assign]
    Embedded.check_alone = check_alone  # type: ignore[method-assign]
    if "beside" in without.split(","):
        Ledger.running_beside = lambda *_: None  # type: ignore[method-assign]


if __name__ == "__main__":
    patch(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    main(sys.argv[4:])
