"""Runs ``rowfall`` and kills it right after its first ATTACH; marks are on disk only where flushed.

A file system may keep the rows in a power cut and lose what nobody has flushed. So the marks of
tables are put back as they were flushed last: by a flush of the file, and of its name, or by one of
the whole file system.

    python lossy.py DATA load ...
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rowfall.cli import main
from rowfall.core import disk
from rowfall.systems.clickhouse.embedded import MARK_NAME, Embedded


class Marks:
    """What the disk holds of the marks of a data folder.

    Args:
        data: the folder.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._on_disk = dict(self._now())
        self._flushed: set[int] = set()

    def _now(self) -> Iterator[tuple[Path, str]]:
        for path in self._data.glob(f"store/*/*/{MARK_NAME}"):
            yield path, path.read_text()

    def patch(self) -> None:
        """Watch what is flushed, and lose power behind the first ATTACH."""
        fsync, sync_folder, sync_all = os.fsync, disk.sync_folder, disk.sync_file_system
        run = Embedded.run

        def of_file(descriptor: int) -> None:
            fsync(descriptor)
            self._flushed.add(os.fstat(descriptor).st_ino)

        def of_folder(folder: Path) -> None:
            sync_folder(folder)
            for path, text in self._now():
                if path.parent == folder and path.stat().st_ino in self._flushed:
                    self._on_disk[path] = text

        def of_all(folder: Path) -> None:
            sync_all(folder)
            self._on_disk = dict(self._now())

        def run_step(engine: Embedded, statement: Any, **options: Any) -> Any:
            found = run(engine, statement, **options)
            if " ATTACH PARTITION ALL FROM " in statement.sql.reveal():
                self._lose()
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        os.fsync, disk.sync_folder, disk.sync_file_system = of_file, of_folder, of_all
        Embedded.run = run_step  # type: ignore[method-assign]

    def _lose(self) -> None:
        for path, _ in list(self._now()):
            path.unlink()
        for path, text in self._on_disk.items():
            path.write_text(text)


if __name__ == "__main__":
    _, folder, *arguments = sys.argv
    Marks(Path(folder)).patch()
    sys.argv[1:] = arguments
    sys.exit(main())
