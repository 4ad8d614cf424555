"""Local files that are followed: their names in order, and what the kernel tells of new ones."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from rowfall.core import formats, own_files
from rowfall.core.errors import SourceError
from rowfall.core.events import Listener, Note
from rowfall.core.patterns import regex
from rowfall.sources.base import ListedObject, ListedPage, NotifiedObjects
from rowfall.stores import globs

# Names of a page: they are looked at one by one, which takes 2 ms a thousand.
PAGE = 1000
# A folder that is another one (a mount) is noticed so late; a look is two system calls.
_LOOK_SECONDS = 2.0
_DOT = regex(r"(^|/)\.")
# File systems whose changes on other machines no kernel tells of here.
_REMOTE = frozenset((
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs",
    "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs", "virtiofs", "afs", "beegfs",
))  # fmt: skip


class FileWalk:
    """The files that one path, folder or glob stands for.

    Args:
        path: absolute; a file that exists exactly as typed is not a glob.
        everything: take all files of a folder instead of those with a known extension.
        version: of a file by its status.
    """

    resumes = False

    def __init__(
        self, path: str, *, everything: bool, version: Callable[[os.stat_result], str]
    ) -> None:
        self.text = path
        self._version, self._everything = version, everything
        self._glob = None
        self.deep = True
        if os.path.isdir(path):
            self.root = path.rstrip("/") or "/"
        elif globs.has_meta(path) and not os.path.lexists(path):
            self._glob = globs.compile_glob(path)
            prefix = globs.constant_prefix(path)
            self.root = os.path.dirname(prefix) or "/"
            rest = path[len(self.root) :].strip("/")
            self.deep = "/" in rest or "**" in rest
            self._hidden = _DOT.search(rest) is not None
        else:
            self._glob = re.compile(re.escape(path) + r"\Z")
            self.root, self.deep, self._hidden = os.path.dirname(path) or "/", False, True

    def check(self) -> None:
        """Check that the folder is there.

        Raises:
            SourceError: it is not, or may not be entered.
        """
        if not os.path.isdir(self.root):
            raise SourceError(
                f"no such folder: {self.root}",
                hint="A folder may be empty at first, but it has to be there.",
            )
        if own_files.is_data_folder_at(self.root) and self._glob is None:
            raise SourceError(
                f"{self.root} is a data folder of rowfall: its files are not data, its tables are"
            )

    def enters(self, folder: str) -> bool:
        """Tell whether files below a folder may belong."""
        name = os.path.basename(folder)
        if self._glob is not None:
            return self.deep and (self._hidden or not name.startswith("."))
        return not name.startswith((".", "_"))

    def belongs(self, path: str) -> bool:
        """Tell whether a file of this name belongs to the source, as ``rowfall load`` chooses."""
        name = os.path.basename(path)
        if own_files.is_own(name):
            return False
        if self._glob is not None:
            return self._glob.match(path) is not None and (self._hidden or not name.startswith("."))
        if name.startswith((".", "_")):
            return False
        return self._everything or formats.is_data(path)

    def pages(self, after: str = "") -> Iterator[ListedPage]:
        return self._paged(self._paths(self.root, after, top=True))

    def pages_in(self, folder: str) -> Iterator[ListedPage]:
        """Give the files of a folder below, at any depth."""
        return self._paged(self._paths(folder, ""))

    def _paged(self, paths: Iterator[str]) -> Iterator[ListedPage]:
        found: list[ListedObject] = []
        last, seen = "", 0
        for path in paths:
            last, seen = path, seen + 1
            if (item := self._item(path)) is not None:
                found.append(item)
            if seen % PAGE == 0:
                yield ListedPage(found, last)
                found = []
        if found or seen % PAGE:
            yield ListedPage(found, last)

    def _paths(self, folder: str, after: str, *, top: bool = False) -> Iterator[str]:
        """Give the paths of files that belong, in the order of their names.

        Raises:
            SourceError: the topmost folder cannot be listed.
        """
        try:
            with os.scandir(folder) as entries:
                # A folder sorts as its files do: by its name with a slash behind it.
                found = sorted(
                    f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name for e in entries
                )
        except OSError as error:
            if not top:
                return  # it was removed meanwhile, or is not ours to read
            cause = (error.strerror or str(error)).lower()
            raise SourceError(
                f"cannot list the folder {folder}: {cause}",
                hint="The user that runs rowfall needs the rights to read and enter it.",
            ) from error
        if not top and own_files.is_data_folder([name.rstrip("/") for name in found]):
            return
        base = "/" if folder == "/" else f"{folder}/"
        for name in found:
            path = f"{base}{name}"
            if name.endswith("/"):
                below = path[:-1]
                # What is below comes before the name with the next letter behind the slash.
                if self.enters(below) and not f"{below}0" <= after:
                    yield from self._paths(below, after)
            elif path > after and self.belongs(path):
                yield path

    def look(self, name: str) -> ListedObject | None:
        return self._item(name) if self.belongs(name) else None

    def _item(self, path: str) -> ListedObject | None:
        try:
            status = os.stat(path)
        except OSError:
            return None  # gone since, or a link that leads nowhere
        if not stat.S_ISREG(status.st_mode) or self._is_twin(path):
            return None
        return ListedObject(path, self._version(status), status.st_size, status.st_mtime)

    def _is_twin(self, path: str) -> bool:
        """Tell whether a link leads to a file that belongs to the source by its own name."""
        if not os.path.islink(path):
            return False
        real = os.path.realpath(path)
        return real.startswith(f"{self.root}/") and self.belongs(real)

    def folders(self, top: str = "") -> Iterator[str]:
        """Give the folders whose files may belong, from ``top`` on; the topmost one first."""
        yield top or self.root
        if not self.deep:
            return
        for folder, names, _ in os.walk(top or self.root):
            names[:] = [
                name for name in names
                if self.enters(path := os.path.join(folder, name))
                and not os.path.islink(path) and not own_files.is_data_folder_at(path)
            ]  # fmt: skip
            for name in names:
                yield os.path.join(folder, name)


def open_notices(walks: Sequence[FileWalk], emit: Listener) -> Inotify | None:
    """Return what the kernel tells of new files; None, with the reason said, where it cannot."""
    if sys.platform != "linux":
        return None
    for walk in walks:
        if (kind := _file_system(walk.root)) in _REMOTE:
            _say(emit, f"{walk.root} is on {kind}, whose changes elsewhere this machine hears not")
            return None
    try:
        return Inotify(walks)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        if error.errno == 28:  # ENOSPC: all watches of the user are taken
            why = "all watches of this user are taken (fs.inotify.max_user_watches)"
        elif error.errno == 24:  # EMFILE
            why = "all instances of this user are taken (fs.inotify.max_user_instances)"
        _say(emit, f"the kernel does not tell of new files: {why}")
        return None


def _say(emit: Listener, why: str) -> None:
    emit(Note("warning", f"{why}; the folder is listed again and again instead"))


def _file_system(path: str) -> str:
    """Return the kind of file system that holds a path; "" where nobody knows."""
    real, best, kind = os.path.realpath(path), "", ""
    with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            _, at, name, *_ = line.split(" ")
            at = at.replace("\\040", " ")
            inside = real == at or real.startswith(f"{at.rstrip('/')}/")
            if inside and len(at) >= len(best):
                best, kind = at, name
    return kind


class Inotify:
    """What inotify tells of the folders of some walks.

    A file is complete when who has written it closes it, or when it is moved here.

    Raises:
        OSError: a limit of the kernel is reached.
    """

    def __init__(self, walks: Sequence[FileWalk]) -> None:
        from inotify_simple import INotify, flags

        self._flags = flags
        self._mask = (
            flags.CLOSE_WRITE | flags.MOVED_TO | flags.CREATE | flags.DELETE_SELF
            | flags.MOVE_SELF | flags.ONLYDIR
        )  # fmt: skip
        self._walks = walks
        self._watched: dict[int, tuple[FileWalk, str]] = {}
        self._told = INotify()
        self._look_at = 0.0
        self._roots: list[tuple[int, int]] = []
        try:
            self._watch_all()
        except OSError:
            self.close()
            raise

    def _add_below(self, walk: FileWalk, folders: Iterator[str]) -> None:
        for folder in folders:
            with suppress(FileNotFoundError, NotADirectoryError):  # removed just now
                self._watched[self._told.add_watch(folder, self._mask)] = walk, folder

    def read(self, seconds: float) -> NotifiedObjects:
        complete: dict[str, ListedObject] = {}
        young: list[ListedObject] = []
        missed, flags = self._moved_away(), self._flags
        for event in self._told.read(timeout=int(seconds * 1000)):
            walk, folder = self._watched.get(event.wd, (None, ""))
            if event.mask & flags.IGNORED:
                # The kernel has removed the watch: of a folder below that was deleted, that is all.
                self._watched.pop(event.wd, None)
                missed = missed or (walk is not None and folder == walk.root)
            elif walk is None or event.mask & (flags.Q_OVERFLOW | flags.UNMOUNT):
                missed = True
            elif event.mask & flags.ISDIR:
                path = os.path.join(folder, event.name)
                if walk.deep and walk.enters(path):
                    # What has come into it before it was watched, perhaps not to its end.
                    self._add_below(walk, walk.folders(path))
                    young += [item for page in walk.pages_in(path) for item in page.objects]
            elif event.mask & (flags.CLOSE_WRITE | flags.MOVED_TO):
                item = walk.look(os.path.join(folder, event.name))
                if item is not None:
                    complete[item.name] = item
        if missed:
            self._watch_all()
        return NotifiedObjects(list(complete.values()), young, missed)

    def is_closed(self, name: str) -> bool:
        try:
            # Not to wait for who writes into a pipe that has taken the name of a file.
            opened = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            # Who opens it to write while the lease is held waits for its end, and this process is
            # told: by a signal that does nothing, as the default one would end it.
            fcntl.fcntl(opened, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            return True
        except OSError:
            return False  # somebody writes, it is not ours, or the file system has no leases
        finally:
            os.close(opened)  # the lease ends with it

    def _moved_away(self) -> bool:
        """Tell whether a topmost folder is another one than the one that is watched.

        A file system that is mounted on it brings one, and nothing tells of that.
        """
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK_SECONDS
        return self._roots != self._find_roots()

    def _find_roots(self) -> list[tuple[int, int]]:
        found = []
        for walk in self._walks:
            try:
                status = os.stat(walk.root)
                found.append((status.st_dev, status.st_ino))
            except OSError:
                found.append((0, 0))
        return found

    def _watch_all(self) -> None:
        """Watch the folders that are there now."""
        self._roots = self._find_roots()
        for walk in self._walks:
            if os.path.isdir(walk.root):
                self._add_below(walk, walk.folders())

    def close(self) -> None:
        self._told.close()
