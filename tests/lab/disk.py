"""A disk of a few megabytes that can be filled and emptied: a tmpfs, where mounting is allowed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lab.process import ServiceError


class MountError(ServiceError):
    """This machine, or the container that we are in, does not allow mounting."""


class SmallDisk:
    """A file system of its own, mounted below ``folder``.

    Args:
        megabytes: its size.

    Attributes:
        path: where it is mounted; not removed by :meth:`close`, only unmounted.

    Raises:
        MountError: not root, or mounting is not allowed here.
    """

    def __init__(self, path: Path, megabytes: int) -> None:
        self.path = path
        self._ballast = path / "ballast"
        path.mkdir()
        mount = shutil.which("mount")
        if os.geteuid() != 0 or mount is None:
            raise MountError("only root may mount a small file system")
        done = subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise MountError(f"mounting is not allowed here: {done.stderr.strip()}")

    @property
    def free(self) -> int:
        """Bytes that are left."""
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Leave only so many bytes."""
        self.empty()
        size = self.free - leave
        if size > 0:
            with self._ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)

    def empty(self) -> None:
        """Give back what :meth:`fill` took."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        if self.path.is_mount():
            # Lazy: a process that was just killed may hold a file for another moment.
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)  # noqa: S607
