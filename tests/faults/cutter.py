"""Runs ``rowfall`` on a disk image, and copies the image before and after each of its steps.

Each copy is what the disk holds if the machine loses power there. The steps are those of
``stepper.py``, and every sync of a file system. Copies that are equal are kept once.

    python cutter.py IMAGE FOLDER load ...
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from rowfall.cli import main
from rowfall.core import disk as core_disk

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from kills import children  # noqa: E402
from stepper import Steps, patch  # noqa: E402

from lab.disk import copy_image  # noqa: E402


class Cuts(Steps):
    """Copies an image at every step."""

    def __init__(self, image: Path, folder: Path) -> None:
        super().__init__(folder / "steps", 0, "", "")
        self._image, self._folder = image, folder
        self._seen: set[str] = set()
        self._turn = threading.Lock()

    def at(self, number: int, side: str) -> None:
        with self._turn:
            copy = self._folder / f"{number:03} {side}.img"
            stopped = [child for child in children(os.getpid()) if _stop(child)]
            try:
                digest = copy_image(self._image, copy)
            finally:
                for child in stopped:
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGCONT)
            if digest in self._seen:
                copy.unlink()
            self._seen.add(digest)


def _stop(pid: int) -> bool:
    """Stop a process, and wait until the kernel does nothing for it any more.

    Returns:
        False where it has ended.
    """
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        while any(
            (task / "stat").read_text().rpartition(")")[2].split()[0] not in "tTZX"
            for task in Path(f"/proc/{pid}/task").iterdir()
        ):
            time.sleep(0.001)
        return True
    return False


def cut_syncs(cuts: Cuts) -> None:
    sync = core_disk.sync_file_system

    def stepping(folder: Path) -> None:
        number = cuts.begin("sync")
        cuts.at(number, "before")
        sync(folder)
        cuts.at(number, "after")

    core_disk.sync_file_system = stepping


if __name__ == "__main__":
    image, folder, *arguments = sys.argv[1:]
    cuts = Cuts(Path(image), Path(folder))
    patch(cuts)
    cut_syncs(cuts)
    sys.argv[1:] = arguments
    sys.exit(main())
