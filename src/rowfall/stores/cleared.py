"""What becomes of files of a store once they are loaded (``--after``): moved, tagged or deleted.

Only the version that was loaded is touched. A move in a bucket is a copy and a delete; one that a
crash has cut in between is done again, into the same place. On a disk it is a rename.
"""

from __future__ import annotations

import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from rowfall.core import uri
from rowfall.core.after import DELETE, MOVE, TAG, After, with_version
from rowfall.core.errors import ObjectChangedError, SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.stores import globs

if TYPE_CHECKING:
    from rowfall.stores.buckets import Bucket, StoredObject


def folder_of(patterns: Iterable[str], name: str) -> str:
    """Return the folder, with a slash at its end, below which a name was looked for.

    Args:
        patterns: paths or keys, as they were asked for: names, folders and globs.
    """
    found = ""
    for pattern in patterns:
        start = globs.constant_prefix(pattern) if pattern != name else pattern
        if start == pattern and pattern != name and not pattern.endswith("/") and pattern:
            start = f"{pattern}/"
        folder = start[: start.rfind("/") + 1]
        if name.startswith(folder) and len(folder) > len(found):
            found = folder
    return found


def lists(patterns: Iterable[str], name: str) -> bool:
    """Tell whether one of the patterns finds a name; folders find what is not hidden in them."""
    for pattern in patterns:
        if name == pattern:
            return True
        if globs.has_meta(pattern):
            if globs.compile_glob(pattern).match(name):
                return True
            continue
        folder = pattern if not pattern or pattern.endswith("/") else f"{pattern}/"
        if name.startswith(folder) and not _is_hidden(name[len(folder) :]):
            return True
    return False


def _is_hidden(below: str) -> bool:
    return any(part[:1] in ("_", ".") for part in below.split("/"))


def _check_folder(patterns: Iterable[str], folder: str, shown: str) -> None:
    """Check that no folder that is loaded holds the one that files are moved to.

    Patterns say it of each name, see ``would_list``.

    Raises:
        UsageError: one does.
    """
    whole = [pattern for pattern in patterns if not globs.has_meta(pattern)]
    if any(lists([pattern], f"{folder}x.csv") for pattern in whole):
        raise inside(shown)


def inside(prefix: str) -> UsageError:
    """Return the error for a folder of moved files in which the next load would find them."""
    return UsageError(
        f"--after move:{prefix} is inside of what is loaded: moved files would be loaded again",
        hint="Name a folder beside it, or one that begins with _, which no load of a folder reads.",
    )


def changed(name: str, action: After) -> ObjectChangedError:
    """Return the error about a file that is another version than the one that was loaded."""
    return ObjectChangedError(
        f"{name} has changed since it was loaded: it is not {action.past}",
        hint="Its new version is loaded by the next run, and then it is its turn.",
    )


class ClearsObjects(ABC):
    """The part of a source over buckets that moves, tags and deletes objects.

    See :class:`rowfall.sources.base.ClearsFiles`.
    """

    scheme: ClassVar[str]
    _patterns: list[tuple[str, str]]

    @abstractmethod
    def _bucket(self, name: str) -> Bucket: ...

    @abstractmethod
    def _bucket_and_key(self, text: str) -> tuple[str, str]: ...

    def check_after(self, action: After) -> None:
        for bucket in dict.fromkeys(name for name, _ in self._patterns):
            self._bucket(bucket).check_after(action)
            if action.kind == MOVE:
                folder = self._moved_to(bucket, action)
                _check_folder(self._keys(bucket), folder, action.prefix)

    def moved_name(self, name: str, action: After) -> str:
        bucket, key = self._bucket_and_key(name)
        below = key[len(folder_of(self._keys(bucket), key)) :]
        return f"{self.scheme}://{bucket}/{self._moved_to(bucket, action)}{below}"

    def would_list(self, name: str) -> bool:
        bucket, key = self._bucket_and_key(name)
        return lists(self._keys(bucket), key)

    def clear(self, split: Split, action: After) -> bool:
        name, key = self._bucket_and_key(split.uri)
        bucket = self._bucket(name)
        now = bucket.head(key)
        if now is None:
            return False
        if now.version != split.version:
            raise changed(split.uri, action)
        if action.kind == TAG:
            bucket.tag(key, action.key, action.value)
            return True
        if action.kind == MOVE:
            to = self.moved_name(split.uri, action).partition("://")[2].partition("/")[2]
            there = bucket.head(to)
            if there is not None and not _is_copy(bucket, there, now):
                # Another version had that name before.
                to = with_version(to, split.version)
            bucket.copy(now, to)
        bucket.delete(now)
        return True

    def _keys(self, bucket: str) -> list[str]:
        return [pattern for name, pattern in self._patterns if name == bucket]

    def _moved_to(self, bucket: str, action: After) -> str:
        """Return the prefix of keys that objects of a bucket are moved to.

        Raises:
            UsageError: it is in another bucket or store.
        """
        prefix = action.prefix
        if "://" in prefix:
            scheme, _, rest = prefix.partition("://")
            named, _, prefix = rest.partition("/")
            if (scheme, named) != (self.scheme, bucket):
                raise UsageError(
                    f"--after move:{uri.mask(action.prefix)} is another bucket than "
                    f"{self.scheme}://{bucket}",
                    hint=f"Files stay in their bucket: --after move:{self.scheme}://{bucket}/done/",
                )
        return f"{prefix.strip('/')}/"


def _is_copy(bucket: Bucket, there: StoredObject, now: StoredObject) -> bool:
    """Tell whether an object is the copy of another one that a killed process has left.

    Copies of objects of several parts, and all in Azure, have ETags of their own. A copy of an
    earlier version is older than the object that has taken its place; where both are of one second,
    their bytes tell.
    """
    if there.size != now.size:
        return False
    of_content = "-" not in now.version and len(now.version) == 32  # an MD5
    if there.version == now.version or of_content:
        return there.version == now.version
    made, written = there.modified or 0.0, now.modified or 0.0
    if made != written:
        return made > written
    copy, original = bucket.pieces(there.key, there.size), bucket.pieces(now.key, now.size)
    return all(a == b for a, b in zip(copy, original, strict=True))


class ClearsLocalFiles:
    """The part of a source of local files that moves, tags and deletes them.

    See :class:`rowfall.sources.base.ClearsFiles`.
    """

    _texts: tuple[str, ...]

    def check_after(self, action: After) -> None:
        if action.kind != MOVE:
            return
        if "://" in action.prefix and not action.prefix.startswith("file://"):
            raise UsageError(
                f"--after move:{uri.mask(action.prefix)} is no folder of this machine",
                hint="Files stay on their machine: --after move:done/",
            )
        _check_folder(self._paths(), self._to(action), action.prefix)

    def moved_name(self, name: str, action: After) -> str:
        return self._to(action) + name[len(folder_of(self._paths(), name)) :]

    def would_list(self, name: str) -> bool:
        return lists(self._paths(), name)

    def clear(self, split: Split, action: After) -> bool:
        name = split.uri
        try:
            status = os.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _refused(name, action, error) from error
        if version_of(status) != split.version:
            raise changed(name, action)
        try:
            if action.kind == TAG:
                # Its time of change, which is no part of the version, is all that this changes.
                os.setxattr(name, f"user.{action.key}", action.value.encode())
            elif action.kind == DELETE:
                os.unlink(name)
            else:
                _move(split, self.moved_name(name, action), action)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _refused(name, action, error) from error
        return True

    def _paths(self) -> list[str]:
        found = []
        for text in self._texts:
            path = os.path.expanduser(uri.file_path(text))
            path = os.path.abspath(path)
            found.append(f"{path}/" if os.path.isdir(path) and path != "/" else path)
        return found

    def _to(self, action: After) -> str:
        path = os.path.abspath(os.path.expanduser(uri.file_path(action.prefix)))
        return path if path.endswith("/") else f"{path}/"


def version_of(status: os.stat_result) -> str:
    """Return the version of a local file."""
    return f"{status.st_size}-{status.st_mtime_ns}"


def _move(split: Split, to: str, action: After) -> None:
    """Rename a file; over file systems it is copied, and the copy renamed.

    Raises:
        ObjectChangedError: another version took its name meanwhile; it has its name again.
        OSError: it cannot be.
    """
    if os.path.lexists(to):
        # Of this version if the copy over file systems was cut before the delete.
        if _version_at(to) == split.version and os.stat(to).st_dev != os.stat(split.uri).st_dev:
            os.unlink(split.uri)
            return
        to = with_version(to, split.version)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    try:
        os.rename(split.uri, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(split, to, action)
        return
    if _version_at(to) != split.version:
        # A writer was faster than the question before: its file goes back, unless a third one has
        # the name by now.
        with suppress(FileExistsError):
            os.link(to, split.uri)
            os.unlink(to)
        raise changed(split.uri, action)


def _copy(split: Split, to: str, action: After) -> None:
    folder, name = os.path.split(to)
    half = os.path.join(folder, f".{name}.rowfall-half")
    shutil.copy2(split.uri, half)  # with its times
    with open(half, "rb") as file:
        os.fsync(file.fileno())  # before the only other copy goes
    if _version_at(half) != split.version or _version_at(split.uri) != split.version:
        os.unlink(half)
        raise changed(split.uri, action)
    os.rename(half, to)
    os.unlink(split.uri)


def _version_at(path: str) -> str:
    return version_of(os.stat(path))


def _refused(name: str, action: After, error: OSError) -> SourceError:
    cause = (error.strerror or str(error)).lower()
    hint = "The user that runs rowfall needs the right to write into the folder of the file."
    if action.kind == TAG and error.errno == errno.ENOTSUP:
        hint = "This file system keeps no extended attributes: take move or delete."
    return SourceError(f"{name} cannot be {action.past}: {cause}", hint=hint)
