"""Local files: paths, folders, globs, ``file:///``."""

from __future__ import annotations

import base64
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from rowfall.core import own_files, units, uri
from rowfall.core.errors import NothingFoundError, SourceError
from rowfall.core.events import Listener
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import EMBEDDED, Probe, ReaderFeatures
from rowfall.sources.from_clause import TableFunction
from rowfall.stores import completeness, globs
from rowfall.stores.cleared import ClearsLocalFiles, version_of
from rowfall.stores.file_walks import FileWalk, Inotify, open_notices
from rowfall.stores.objects import ObjectSource, with_data

# The engine has no way to quote these in a file name (commas and "::" are plain letters there).
_UNQUOTABLE = frozenset("*?{}")
_SHOWN = 3


class LocalFiles(ClearsLocalFiles, ObjectSource):
    """One source for any number of paths; splits are files sorted by name."""

    remote = False
    secrets: tuple[Secret, ...] = ()
    rest_seconds = 2.0

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        # What is nearly an address has a password in it, which no file does.
        shown = (
            uri.mask_almost(text) if "://" in text or uri.is_almost_address(text) else text
            for text in texts
        )
        super().__init__(" ".join(shown), options)
        self._texts = tuple(texts)
        self._left = SkippedOwnFiles()

    def _found(self) -> Iterator[tuple[str, str, int]]:
        """Give all files, absolute; ``version`` is ``size-mtime_ns``."""
        paths: set[str] = set()
        for text in self._texts:
            everything = self._options.format is not None
            paths.update(find(uri.file_path(text), everything=everything, left=self._left))
        for path in sorted(paths):
            status = _status(path)
            yield path, version_of(status), status.st_size

    def _left_out(self) -> str:
        return self._left.said

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        answers = ((split, self._problem(split)) for split in splits)  # nothing to wait for
        return [(split, text) for split, text in answers if text]

    def _part(self, split: Split, start: int, length: int) -> bytes:
        try:
            with open(split.uri, "rb", buffering=0) as file:
                return os.pread(file.fileno(), length, start)
        except OSError as error:
            raise SourceError(f"cannot read {split.uri}: {_cause(error)}") from error

    def size_of(self, name: str) -> int | None:
        """Return the bytes of a file, None where there is none.

        Raises:
            SourceError: it may not be looked at.
        """
        try:
            return os.stat(name).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SourceError(f"cannot read {name}: {_cause(error)}") from error

    def names_in(self, folder: str) -> Iterator[str]:
        """Give the files right in a folder; nothing where there is none."""
        if os.path.isdir(folder):
            yield from (entry.path for entry in _scan(folder, hidden=True) if entry.is_file())

    def probe(self, split: Split) -> Probe:
        """Ask for size, time and first bytes: another machine may have a file of that name."""
        try:
            status = os.stat(split.uri)
        except OSError as error:
            raise SourceError(f"cannot read {split.uri}: {_cause(error)}") from error
        head = self.part(split, 0, from_clause.HEAD)
        (function,) = self._functions([split], *from_clause.head_columns(len(head)))
        columns = "toString(_size), toString(toUnixTimestamp(_time)), " + from_clause.head_text(
            len(head)
        )
        wanted = (
            ("size", str(status.st_size)),
            ("time", str(int(status.st_mtime))),
            ("beginning", base64.b64encode(head).decode()),
        )
        return Probe(from_clause.probe_query(function, columns), wanted)

    def modified(self, split: Split) -> float | None:
        """See :class:`rowfall.sources.base.HasModificationTimes`: as it was listed."""
        return int(split.version.rpartition("-")[2]) / 1e9

    def walks(self) -> list[FileWalk]:
        everything = self._options.format is not None
        paths = [_absolute(uri.file_path(text)) for text in self._texts]
        walks = [FileWalk(path, everything=everything, version=version_of) for path in paths]
        for walk in walks:
            walk.check()
        return walks

    def notices(self, emit: Listener) -> Inotify | None:
        return open_notices(self.walks(), emit)

    def renew(self) -> None:
        """Do nothing: files have no credentials."""

    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[TableFunction]:
        return _file_functions([split.uri for split in splits], encoding, structure, self.reader)

    def _opener(self, split: Split) -> pipes.Opener:
        return partial(pipes.read_file, split.uri)

    def _problem(self, split: Split) -> str | None:
        packed = self._packing(split.uri)
        try:
            status = os.stat(split.uri)
            if (now := version_of(status)) != split.version:
                return f"changed from {split.version} to {now} (size-mtime)"
            return self._pipes.broken(split.name) or completeness.check_file(
                split.uri, status.st_size, packed
            )
        except OSError as error:
            return f"the file is gone ({_cause(error)})"


def relation(paths: Sequence[str], encoding: Encoding | None, structure: str) -> SqlText:
    """Return ``file(...)`` of exactly these absolute paths; the engine raises for a missing one."""
    return from_clause.joined(_file_functions(paths, encoding, structure, EMBEDDED), structure)


def _file_functions(
    paths: Sequence[str], encoding: Encoding | None, structure: str, reader: ReaderFeatures
) -> list[TableFunction]:
    """Return one function for all plain names, and one for each that the engine cannot quote."""
    tail = from_clause.last_arguments(encoding, structure)
    census = from_clause.last_arguments(from_clause.ONE, from_clause.ONE_COLUMN)
    functions: list[TableFunction] = []
    for name, only, count in _names(paths, reader):
        pattern = only is not None or count > 1  # a single file raises by itself
        counted = SqlText.of(f"file({name}{census})") if pattern and not reader.arrays else None
        functions.append(TableFunction(SqlText.of(f"file({name}{tail})"), only, counted, count))
    return functions


def _names(paths: Sequence[str], reader: ReaderFeatures) -> Iterator[tuple[str, str | None, int]]:
    """Give first arguments of ``file()``, each with the path to narrow it to (or None) and how many
    files it names."""
    odd = {path: _is_odd(path, reader) for path in paths}
    plain = [path for path in paths if not odd[path]]
    if reader.arrays and plain:
        yield from_clause.file_argument(plain), None, len(plain)
    elif not reader.arrays:
        listed = [path for path in plain if "," not in path]
        if len(listed) > 1:
            yield literal(from_clause.braces(listed)), None, len(listed)
            plain = [path for path in plain if "," in path]
        for path in plain:
            yield literal(path), None, 1
    for path in paths:
        if odd[path]:
            yield literal(from_clause.wildcard(path).replace("::", "??")), path, 1


def _is_odd(path: str, reader: ReaderFeatures) -> bool:
    """Check for characters that the engine would not take letter by letter."""
    # 24.10 looks for an archive before "::", chDB 26.9 takes it for letters.
    return bool(_UNQUOTABLE & set(path)) or (not reader.arrays and "::" in path)


class SkippedOwnFiles:
    """Keeps what a search has met that belongs to rowfall itself."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.files: list[str] = []

    def __call__(self, entries: Sequence[os.DirEntry[str]], folder: str) -> bool:
        """Tell whether a folder is left out as a whole."""
        own = own_files.is_data_folder([entry.name for entry in entries])
        if own and folder not in self.folders:
            self.folders.append(folder)
        return own

    @property
    def said(self) -> str:
        """Return the line that says so; "" for nothing."""
        named = [f"{folder} (a data folder of rowfall)" for folder in self.folders] + self.files
        more = f" and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else ""
        return f"left out: {', '.join(named[:_SHOWN])}{more}" if named else ""


def find(
    path: str, *, everything: bool = False, left: SkippedOwnFiles | None = None
) -> Iterator[str]:
    """Give the absolute paths of the files that ``path`` names; not sorted, may repeat.

    Args:
        path: file, folder or glob; a file that exists exactly as typed is not a glob.
        everything: take all files of a folder instead of those with a known extension.
        left: gets what is rowfall's own and is not taken for data.

    Raises:
        SourceError: nothing found, or not readable; or it is a data folder of rowfall.
    """
    left = SkippedOwnFiles() if left is None else left
    path = _absolute(path)
    if os.path.isdir(path):
        return _folder(path.rstrip("/") or "/", everything, left)
    if os.path.lexists(path):
        return iter([path])
    if not globs.has_meta(path):
        raise SourceError(f"no such file or folder: {uri.mask_almost(path)}", hint=_nearest(path))
    return _matches(path, left)


def _absolute(path: str) -> str:
    if path.startswith("~") and not os.path.lexists(path):
        path = os.path.expanduser(path)
    return os.path.abspath(path) + ("/" if path.endswith("/") and path.strip("/") else "")


def _folder(path: str, everything: bool, left: SkippedOwnFiles) -> Iterator[str]:
    def nothing(others: int) -> SourceError:
        return NothingFoundError(
            f"no data file in the folder {path}",
            hint=f"It holds {units.counted(others, 'file')} with other extensions; name the format "
            "with --format to load them all, or archives by a glob such as '*.zip'."
            if others
            else left.said or "It holds no files at all (hidden ones are not counted).",
        )

    return with_data(_below(path, left, top=True), str, everything, nothing)


def _below(path: str, left: SkippedOwnFiles, *, top: bool = False) -> Iterator[str]:
    """Give files at any depth, but none that is hidden or begins with ``_``, as writers' own do.

    Raises:
        SourceError: the topmost folder is a data folder of rowfall.
    """
    entries = list(_scan(path))
    if left(entries, path):
        if top:
            raise SourceError(
                f"{path} is a data folder of rowfall: its files are not data, its tables are",
            )
        return
    for entry in entries:
        if own_files.is_own(entry.name):
            left.files.append(entry.path)
            continue
        if entry.name.startswith("_"):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path, left)
        elif entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path)):
            # A link that leads nowhere is an error, as it is where a glob finds it.
            yield entry.path


def _matches(pattern: str, left: SkippedOwnFiles) -> Iterator[str]:
    folders: set[str] = set()
    found = False
    for one in globs.expand_slashes(pattern):
        for path in _walk("/", one.strip("/").split("/"), left):
            if os.path.isdir(path):
                folders.add(path)
            else:
                found = True
                yield path
    if found:
        return
    hint = left.said or _nearest(globs.constant_prefix(pattern))
    if folders:
        found_folders = units.counted(len(folders), "folder")
        hint = f"It matches {found_folders}; add /** to load the files below."
    raise NothingFoundError(f"no file matches {uri.mask_almost(pattern)}", hint=hint)


def _walk(folder: str, segments: Sequence[str], left: SkippedOwnFiles) -> Iterator[str]:
    """Give the paths below ``folder`` that match one pattern a segment."""
    segment, rest = segments[0], segments[1:]
    if segment == "**":
        entries = list(_scan(folder))
        if left(entries, folder):
            return
        yield from _walk(folder, rest or ["*"], left)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, segments, left)
        return
    if not globs.has_meta(segment):
        path = os.path.join(folder, segment)
        ledger = os.path.join(folder, own_files.LEDGER_NAME)
        if rest and os.path.lexists(ledger) and left(list(_scan(folder)), folder):
            return
        if os.path.lexists(path):
            yield from _walk(path, rest, left) if rest else [path]
        return
    wanted = globs.compile_glob(segment)
    entries = list(_scan(folder, hidden=segment.startswith(".")))
    if rest and left(entries, folder):
        return  # right beside a ledger there may be files of others, below it there are none
    for entry in entries:
        if wanted.match(entry.name):
            if own_files.is_own(entry.name):
                left.files.append(entry.path)
            elif not rest:
                yield entry.path
            elif entry.is_dir():
                yield from _walk(entry.path, rest, left)


def _scan(folder: str, *, hidden: bool = False) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if hidden or not entry.name.startswith("."):
                    yield entry
    except NotADirectoryError:
        return
    except OSError as error:
        raise SourceError(
            f"cannot list the folder {folder}: {_cause(error)}",
            hint="The user that runs rowfall needs the rights to read and enter it.",
        ) from error


def _status(path: str) -> os.stat_result:
    """Return the status of a file.

    Raises:
        SourceError: it is none, or this process may not read it.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"cannot read {path!r}: its name is not valid UTF-8",
            hint="Rename the file."
            if sys.getfilesystemencoding() == "utf-8"
            else f"Python takes names for {sys.getfilesystemencoding()} here: python -X utf8 helps",
        ) from None
    try:
        status = os.stat(path)
    except OSError as error:
        raise SourceError(
            f"cannot read {path}: {_cause(error)}", hint="A broken link leads nowhere."
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise SourceError(
            f"cannot read {path}: it is not a file",
            hint="A pipe is loaded through stdin: rowfall load - < PIPE.",
        )
    if not os.access(path, os.R_OK):
        raise SourceError(
            f"cannot read {path}: permission denied",
            hint="The user that runs rowfall needs the right to read it.",
        )
    return status


def _cause(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _nearest(path: str) -> str:
    """Return the hint that names the nearest folder that exists and what it holds."""
    folder = path if path.endswith("/") else os.path.dirname(path)
    while not os.path.isdir(folder) and folder not in ("", "/"):
        folder = os.path.dirname(folder)
    folder = folder.rstrip("/") or "/"
    try:
        names = sorted(entry.name for entry in _scan(folder) if entry.is_file())
    except SourceError:
        return f"The nearest existing folder is {folder}."
    shown = ", ".join(islice(names, _SHOWN)) + (", ..." if len(names) > _SHOWN else "")
    what = f"{units.counted(len(names), 'file')} ({shown})" if names else "no files"
    return f"The nearest existing folder is {folder}, which holds {what}."
