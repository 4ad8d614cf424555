"""Put files on disk so that a power cut does not take them back; open rowfall's own safely.

The kernel keeps what was written in memory for up to 30 seconds, names of files included. Who
records that something is there flushes it first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path


def sync_file_system(folder: Path) -> None:
    """Flush the file system of a folder: all that any process has written to it.

    One call for thousands of files. Where there is no ``syncfs`` (macOS), ``sync`` flushes every
    file system.

    Raises:
        OSError: some of it could not be written (Linux 5.8 and newer say so).
    """
    syncfs = _syncfs()
    if syncfs is None:
        os.sync()
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(opened):
            import ctypes

            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
    finally:
        os.close(opened)


@functools.cache
def _syncfs() -> Callable[[int], int] | None:
    """Return the C library's ``syncfs``, which Python does not have."""
    import ctypes  # 2 ms that loads into servers save

    try:
        found = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None
    found.argtypes, found.restype = (ctypes.c_int,), ctypes.c_int
    return found


def sync_file(path: Path) -> None:
    """Flush one file; its name is flushed with :func:`sync_folder`."""
    _sync(path, os.O_RDWR)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder."""
    _sync(folder, os.O_RDONLY)


# Types of file systems that other machines may write to at the same moment. FUSE: sshfs, buckets.
_SHARED = frozenset((
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "nfs",
    "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
    "wekafs",
))  # fmt: skip


def is_shared(folder: Path) -> bool:
    """Tell whether a folder is on a file system that other machines may write to."""
    try:
        device = os.stat(folder).st_dev
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw (proc_pid_mountinfo(5))
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in reversed(mounts.splitlines()):
        before, _, after = line.partition(" - ")
        if before.split(" ", 3)[2] == number:
            kind = after.partition(" ")[0]
            return kind in _SHARED or kind == "fuse" or kind.startswith("fuse.")
    return False


def try_lock(opened: int, *, shared: bool = False) -> bool | None:
    """Lock an open file (flock) unless somebody else has it locked; return whether that was done.

    The kernel ends the lock with the process, in whatever container it runs.

    Returns:
        None where the file system knows no such locks.
    """
    try:
        fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


# NFS without its service for locks, some of FUSE.
_NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))


def says_no_locks(error: OSError) -> bool:
    """Tell whether a lock was refused because the file system has none, not because it is held."""
    return error.errno in _NO_LOCKS


def gives_locks(folder: Path) -> bool:
    """Tell whether files in a folder can be locked; True where it cannot be tried.

    A file of its own is tried: closing one that is in use would end what is locked there (POSIX).
    """
    import tempfile  # 8 ms that only folders of a network and errors take

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not says_no_locks(error)
    return True


def is_read_only(path: Path) -> bool:
    """Tell whether a file is there, and on a file system that nobody writes to by this name."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it that are missing, and flush their names.

    Args:
        mode: of the folder itself, less what the umask takes away.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode, parents=True, exist_ok=True)
    for one in reversed(missing):
        with contextlib.suppress(PermissionError):  # one that may be written and not be read
            sync_folder(one.parent)


def open_own(path: Path, flags: int) -> int:
    """Open a file whose name others know, to write it; a new one is for this user alone.

    A link in its place would have the file overwritten that it leads to, and a pipe or a device
    would take what is written.

    Raises:
        OSError: it is not an ordinary file, or cannot be opened.
    """
    try:
        # Without O_NONBLOCK a pipe would be waited at.
        opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, f"{path.name} is a symbolic link", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, f"{path.name} is not an ordinary file", str(path))
    return opened


def _sync(path: Path, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def changed_at(path: Path) -> int:
    """Return when a file was changed, linked or unlinked last, in ns; 0 where that is not known."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return 0


def is_past(moment: int) -> bool:
    """Wait for at most some steps of the kernel's clock, until it is later than ``moment``.

    Files get the time of its last step, 1 to 10 ms ago: what changes from then on has a later one.

    Args:
        moment: in ns.

    Returns:
        False where it is still not: somebody has set the clock back.
    """
    clock = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
    for _ in range(20):
        if time.clock_gettime_ns(clock) > moment:
            return True
        time.sleep(0.002)
    return False


def free_bytes(folder: Path | None) -> int | None:
    """Return the bytes that this user may still write into a folder, which need not be there."""
    while folder is not None and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        found = os.statvfs(folder or ".")
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
