"""Remembers which servers have read parts as this rowfall builds them, between loads.

A probe takes a server 65 ms of its CPU, a load that it only takes over some 0.2 s. What can change
its result is in the name of what is remembered: the server and its build, rowfall and its program,
the layout, types and codecs. Rows are counted in every load all the same.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from rowfall.targets.base import state_folder

# Settings of a server, of its user and of the network in between change without a trace.
_DAYS = 30


class ProvenLayout:
    """One result of a probe, as a file without content; it counts for 30 days.

    Args:
        about: everything that the result depends on.
    """

    def __init__(self, *about: object) -> None:
        name = hashlib.sha256(repr(about).encode()).hexdigest()
        self._path = _folder() / name

    def known(self) -> bool:
        """Tell whether a server has read such parts."""
        try:
            return 0 <= time.time() - self._path.stat().st_mtime < _DAYS * 86_400
        except OSError:
            return False

    def remember(self) -> None:
        """Keep the result; a probe follows at the next load where it cannot be kept."""
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            for old in self._path.parent.iterdir():
                if time.time() - old.stat().st_mtime > _DAYS * 86_400:
                    old.unlink(missing_ok=True)
            self._path.touch(mode=0o600)

    def forget(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _folder() -> Path:
    return state_folder() / "proven-layouts"
