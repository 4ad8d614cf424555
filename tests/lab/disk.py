"""Disks of a few megabytes, where mounting is allowed: one that can be filled and emptied, and one
that loses its power."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
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
        _unmount(self.path)


class JournaledDisk:
    """An ext4 file system with a journal on a loop device, as ``mkfs.ext4`` makes it.

    Where the disk of a machine has none (some virtual machines), the kernel looks at each file that
    was deleted in the last seconds before it makes a new one: half of what a server needs to take
    over parts.

    Args:
        folder: exists; gets the image, and the place where it is mounted.
        megabytes: its size; it takes what is in it.

    Attributes:
        path: where it is mounted.

    Raises:
        MountError: not root, no loop devices, or mounting is not allowed here.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="rowfall-disk-", dir=folder))
        self._folder.chmod(0o711)  # services run as somebody else
        self.path = self._folder / "disk"
        self.path.mkdir()
        image = self._folder / "image"
        try:
            with image.open("wb") as file:
                file.truncate(megabytes << 20)
            _mounting("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))
            _mounting("mount", "-o", "loop", str(image), str(self.path))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        _unmount(self.path)
        shutil.rmtree(self._folder, ignore_errors=True)


class PowerDisk:
    """An ext4 file system on a loop device, which can lose its power.

    Args:
        image: what another disk held when its power was cut; made anew by default.
        megabytes: its size; it takes what is in it.

    Attributes:
        path: where it is mounted.

    Raises:
        MountError: not root, no loop devices, or mounting is not allowed here.
    """

    def __init__(self, image: Path | None = None, megabytes: int = 1024) -> None:
        # In memory, where it can be: the cuts are many, and nobody measures the disk.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
        self._folder = Path(tempfile.mkdtemp(prefix="rowfall-power-", dir=memory))
        self._folder.chmod(0o711)  # services run as somebody else
        self.image = self._folder / "image"
        self.path = self._folder / "disk"
        self.path.mkdir()
        try:
            if os.geteuid() != 0:
                raise MountError("only root may mount a disk image")
            if image is not None:
                copy_image(image, self.image)
            else:
                with self.image.open("wb") as file:
                    file.truncate(megabytes << 20)
                # A small journal and few inodes: each cut is a copy of all of it.
                _mounting("mkfs.ext4", "-q", "-m", "0", "-J", "size=4", "-N", "16384", "-E",
                          "lazy_itable_init=0,lazy_journal_init=0", str(self.image))  # fmt: skip
            # The kernel's own flushes would hide that nobody has asked for one.
            _mounting("mount", "-o", "loop,commit=600", str(self.image), str(self.path))
        except BaseException:
            self.close()
            raise

    def cut(self) -> None:
        """Forget what the block device does not hold. Nobody may use the disk meanwhile."""
        held = self._folder / "held"
        copy_image(self.image, held)
        _unmount(self.path)
        held.replace(self.image)
        _mounting("mount", "-o", "loop,commit=600", str(self.image), str(self.path))

    def close(self) -> None:
        _unmount(self.path)
        shutil.rmtree(self._folder, ignore_errors=True)


def copy_image(image: Path, to: Path) -> str:
    """Copy a disk image as it is, without flushing anything; what is empty stays empty.

    What the file system has in memory only is not in it: that is what a power cut takes. Where
    something is written to the disk meanwhile, it is copied again.

    Returns:
        A digest of what it holds.
    """
    while True:
        digest = _copy(image, to)
        if _copy(image, None) == digest:
            return digest


def _copy(image: Path, to: Path | None) -> str:
    """Copy an image once, or only read it; return its digest."""
    digest = hashlib.blake2b(digest_size=16)
    with image.open("rb", buffering=0) as source, (to or Path(os.devnull)).open("wb") as copy:
        size = os.fstat(source.fileno()).st_size
        if to is not None:
            copy.truncate(size)
        start = 0
        while start < size:
            try:
                start = os.lseek(source.fileno(), start, os.SEEK_DATA)
            except OSError:  # nothing but a hole up to the end
                break
            end = os.lseek(source.fileno(), start, os.SEEK_HOLE)
            while start < end:
                piece = os.pread(source.fileno(), min(1 << 20, end - start), start)
                digest.update(b"%d " % start)
                digest.update(piece)
                if to is not None:
                    os.pwrite(copy.fileno(), piece, start)
                start += len(piece)
    return digest.hexdigest()


def _unmount(path: Path) -> None:
    if path.is_mount():
        # Lazy: a process that was just killed may hold a file for another moment.
        subprocess.run(["umount", "--lazy", str(path)], check=True)  # noqa: S607


def _mounting(*command: str) -> None:
    """Run a command that a machine or a container may refuse."""
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise MountError(f"there is no {command[0]} here")
    done = subprocess.run(
        [program, *command[1:]],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise MountError(f"{command[0]} is not possible here: {done.stderr.strip()}")
