"""Members of archives as files: zip, tar, and tar packed with gzip, zstd, bz2 or xz.

``a.zip`` stands for all data files in it, ``a.zip::b.csv`` for one, ``a.zip::**/*.csv`` for those
that match. The archives themselves are found and read by the source of their scheme. This process
unpacks and the readers take members through pipes, as they take bz2
(docs/decisions/0070-archives-unpacked-here.md says why). Nothing is ever written under the name
of a member.

* zip: the directory at its end says where each member begins; a checksum is behind each.
* tar: a member is a range of bytes. Nothing says how many there are but the end mark, so an archive
  without one was cut off.
* packed tar: it can only be read from its beginning, so it is unpacked once, into a temporary file
  without a name, which goes with this process however that ends.
"""

from __future__ import annotations

import errno
import io
import os
import re
import tempfile
import threading
import weakref
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any, cast

from rowfall.core import formats, own_files, units, uri
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.core.pieces import Pieces
from rowfall.core.sqltext import SqlText
from rowfall.sources import from_clause, pipes
from rowfall.sources.base import Renamed, Source
from rowfall.sources.compression import path_of
from rowfall.sources.pipes import Opener
from rowfall.stores import globs, spool
from rowfall.stores.first_bytes import FirstBytes
from rowfall.stores.objects import ObjectSource, by_compression

if TYPE_CHECKING:
    from zipfile import ZipInfo

    from _typeshed import WriteableBuffer

MARK = "::"
"""Between an archive and a member, as in the engine's own ``file('a.zip :: b.csv')``."""

_NAME = regex(r"\.(zip|tar|tgz|tbz2?|txz|tzst|tar\.(gz|gzip|bz2|xz|zst|zstd))\Z", re.I)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_LOCAL = 30  # bytes of the header in front of a member of a zip file, before its name
_ZIPPED = frozenset({0, 8, 12})  # stored, deflate, bz2: what the standard library unpacks streaming
_BLOCK = 512  # of tar
_PIECE = 4 << 20  # a range of it arrives within a store's patience, see buckets
_HEADERS = 64 << 10  # read at a time while the headers of a tar file are walked
_AHEAD = 1 << 20  # read at once for what is smaller than that in an archive that is far away
_SHOWN = 3


def split_name(text: str) -> tuple[str, str] | None:
    """Return an archive and the pattern of its members ("": all data files); None for no archive.

    A file that exists exactly as typed is not a member.
    """
    at = text.find(MARK)
    while at >= 0:
        archive = text[:at].rstrip()
        if _NAME.search(path_of(archive)):
            local = uri.scheme_of(text) == uri.FILE
            exists = local and os.path.lexists(uri.file_path(text))
            return None if exists else (archive, text[at + len(MARK) :].lstrip())
        at = text.find(MARK, at + 1)
    return (text, "") if _NAME.search(path_of(text)) else None


def open_archives(
    texts: Sequence[str], options: Options, opens: Callable[[Sequence[str], Options], ObjectSource]
) -> Archives | None:
    """Open the source of the members that texts name; None where none of them names an archive.

    Args:
        opens: the source of a scheme.

    Raises:
        UsageError: archives and other files at once.
    """
    names = [split_name(text) for text in texts]
    given = [name for name in names if name is not None]
    if not given:
        return None
    if len(given) < len(names):
        other = texts[names.index(None)]
        raise UsageError(
            f"one load reads archives or other files, but these differ: {uri.mask(given[0][0])}, "
            f"{uri.mask(other)}",
            hint="Run one load after the other into the same table.",
        )
    plain = replace(options, compression=None)  # that is said of the members
    by_pattern: dict[str, list[str]] = {}
    for archive, pattern in given:
        by_pattern.setdefault(pattern, []).append(archive)
    opened = [(opens(some, plain), pattern) for pattern, some in by_pattern.items()]
    return Archives(opened, options)


@dataclass(frozen=True, slots=True)
class _Content:
    """The bytes that members are ranges of: those of an archive, or of its unpacked copy."""

    size: int
    read: Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class _Copies:
    """Unpacked copies of archives, which have no names, and a sentence for the user about each."""

    files: list[IO[bytes]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def close(self) -> None:
        for file in self.files:
            file.close()


@dataclass(frozen=True, slots=True)
class _Member:
    """One member of an archive.

    Attributes:
        source, archive: where it comes from.
        at: offset of its first byte; of a zip file of the header in front of it.
        info: of a zip file.
        link: it is not a file, but a link, a device or a sparse file.
    """

    name: str
    size: int
    source: ObjectSource
    archive: Split
    content: _Content
    at: int
    info: ZipInfo | None = None
    link: bool = False


class Archives(ObjectSource):
    """One source for the members of any number of archives.

    Args:
        archives: sources of archives, each with the pattern of the members that are wanted.
    """

    kind = "members"

    def __init__(self, archives: Sequence[tuple[ObjectSource, str]], options: Options) -> None:
        super().__init__(" ".join(_text(one.text, wanted) for one, wanted in archives), options)
        self._archives = archives
        self.remote = any(one.remote for one, _ in archives)
        self.secrets: tuple[Secret, ...] = ()
        self._members: dict[str, _Member] = {}
        self._skipped: dict[str, list[str]] = defaultdict(list)
        self._without: list[SourceError] = []
        self._copies = _Copies()
        weakref.finalize(self, self._copies.close)

    def _found(self) -> Iterator[tuple[str, str, int]]:
        """Give the members; ``version`` is that of their archive."""
        for source, pattern in self._archives:
            listing = source.listing()
            self.secrets += cast("Source", source).secrets
            for archive in (listing.split(index, "") for index in range(len(listing))):
                members = _directory(source, archive, self._copies)
                found = self._wanted(members, pattern, archive.uri)
                self._members |= {_member_uri(archive.uri, one.name): one for one in found}
                if not found:
                    self._without.append(_nothing(archive.uri, members, pattern))
        if not self._members and self._without:
            raise self._without[0]
        for name in sorted(self._members):
            member = self._members[name]
            yield name, member.archive.version, member.size

    def _wanted(self, members: Sequence[_Member], pattern: str, archive: str) -> list[_Member]:
        """Return the members that are loaded; remember those that are not.

        Raises:
            SourceError: one of them cannot be read.
        """
        compiled = globs.compile_glob(pattern) if pattern else None
        found = []
        for member in members:
            name = member.name
            if name == pattern and not member.link:
                found.append(member)
            elif compiled is not None and not compiled.match(name):
                continue
            elif _is_hidden(name, matched=compiled is not None):
                self._skipped["hidden or of macOS"].append(name)
            elif own_files.is_own_path(name):
                self._skipped["rowfall's own"].append(name)
            elif member.link:
                self._skipped["a link, a device or a sparse file"].append(name)
            elif compiled is not None or formats.is_data(name) or self._nameless(name):
                found.append(member)
            else:
                self._skipped["no extension of a format"].append(name)
        for name, count in Counter(member.name for member in found).items():
            if count > 1:
                raise SourceError(
                    f"{archive} holds {name} {count} times, and nobody can tell which one counts",
                    hint="Make it anew, or unpack it into a folder and load that.",
                )
        for member in found:
            _check(member)
        return found

    def former_name(self, name: str) -> str:
        member = self._members.get(name)
        if member is None or not isinstance(member.source, Renamed):
            return name
        return _member_uri(member.source.former_name(member.archive.uri), member.name)

    def _nameless(self, name: str) -> bool:
        """Tell whether a member is loaded whose name says no format; archives are refused later."""
        return self._options.format is not None or _NAME.search(name) is not None

    def _path(self, name: str) -> str:
        return path_of(name)

    def encoding(self, listing: Listing) -> Encoding:
        found = super().encoding(listing)
        if found.kind is Kind.TYPED:
            first = self._members[listing.uri(0)].archive.uri
            raise UsageError(
                f"{found.format} inside an archive is not read: its readers seek in a file",
                hint=f"Unpack it first, and load the folder: {unpack_command(first)}",
            )
        notes = [
            f"{units.counted(len(names), 'member')} skipped ({why}): {_some(names)}"
            for why, names in self._skipped.items()
        ]
        without = [f"skipped: {error.message}" for error in self._without]
        self.notes = (*self._copies.notes, *without, *notes, *self.notes)
        return found

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        members = list({split.uri: split for split in splits}.values())
        if encoding is not None and encoding.dialect is not None:
            return super().relation(members, encoding, structure)
        functions = []
        for stored, group in by_compression(members, encoding).items():
            objects = [(split.uri, self._opener(split)) for split in group]
            packed = stored.compression == pipes.BZ2
            small = self._small(group)
            functions.append(
                self._pipes.function(objects, stored, structure, packed=packed, small=small)
            )
        return from_clause.joined(functions, structure)

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the bytes of a member.

        Raises:
            SourceError: it is damaged, or the archive cannot be read.
        """
        return _pieces(self._members[split.uri], split.uri)

    def pipes(self, splits: Sequence[Split]) -> list[str]:
        objects = [(split.name, self._opener(split)) for split in splits]
        return self._pipes.open(objects, self._small(splits))

    def _small(self, splits: Sequence[Split]) -> set[str]:
        """Return the names of the members that are handed over as files."""
        return {s.name for s in splits if s.size is not None and s.size <= pipes.SMALL}

    def close(self) -> None:
        self._pipes.close()
        self._copies.close()

    def _part(self, split: Split, start: int, length: int) -> bytes:
        """Read a part; members are read from their beginning only."""
        found = bytearray()
        if start == 0:
            for piece in self.stream(split):
                found += piece
                if len(found) >= length:
                    break
        return bytes(found[:length])

    def _functions(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> list[from_clause.TableFunction]:
        raise ValueError("members are read through pipes")

    def _opener(self, split: Split) -> Opener:
        return partial(self.stream, split)

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """See :class:`rowfall.sources.base.Source`; each archive is asked for once."""
        groups: dict[str, list[Split]] = defaultdict(list)
        for split in splits:
            groups[self._members[split.uri].archive.uri].append(split)
        found = []
        for members in groups.values():
            first = self._members[members[0].uri]
            # What has been unpacked once is not read again.
            said = [f"its archive {text}" for _, text in first.source.changed([first.archive])]
            problems = ((split, said[0] if said else self._problem(split)) for split in members)
            found += [(split, text) for split, text in problems if text]
        return found

    def _problem(self, split: Split) -> str | None:
        return self._pipes.broken(split.name)


def _member_uri(archive: str, name: str) -> str:
    """Return the URI of a member; the query of an HTTP address stays behind the path."""
    path, mark, query = archive, "", ""
    if archive.startswith(("http://", "https://")):
        path, mark, query = archive.partition("?")
        name = name.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return f"{path}{MARK}{name}{mark}{query}"


def _text(archives: str, pattern: str) -> str:
    return f"{archives}{MARK}{pattern}" if pattern else archives


def _is_hidden(name: str, *, matched: bool) -> bool:
    """Tell whether a member is one of the system's or of a program's own, as in folders.

    Args:
        matched: by a pattern, which may name what begins with ``_``.
    """
    parts = [part for part in name.split("/") if part not in (".", "..")]
    begins = "." if matched else (".", "_")
    return parts[0] == "__MACOSX" or any(part.startswith(begins) for part in parts)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def unpack_command(archive: str) -> str:
    import shlex

    name = "ARCHIVE" if "://" in archive else shlex.quote(archive)
    zipped = path_of(archive).lower().endswith(".zip")
    return f"unzip {name} -d FOLDER" if zipped else f"mkdir FOLDER; tar xf {name} -C FOLDER"


def _nothing(archive: str, members: Sequence[_Member], pattern: str) -> SourceError:
    """Return the error about an archive of which nothing is wanted."""
    names = [member.name for member in members]
    holds = f"It holds {units.counted(len(names), 'member')}: {_some(names)}."
    if pattern:
        return SourceError(
            f"no member of {archive} matches {pattern}",
            hint=f"{holds} * stops at /, ** does not.",
        )
    return SourceError(
        f"no data file in the archive {archive}",
        hint=f"{holds} Name the format with --format; of some members 'data.zip{MARK}**/*.txt'.",
    )


def _check(member: _Member) -> None:
    """Check that a member can be read.

    Raises:
        SourceError: it is encrypted, an archive itself, or packed in a way that is not read.
    """
    name, archive, info = member.name, member.archive.uri, member.info
    if _NAME.search(name):
        raise SourceError(
            f"{archive} holds another archive, {name}",
            hint=f"Name the members to load, as in 'data.zip{MARK}**/*.csv', or unpack it first: "
            f"{unpack_command(archive)}",
        )
    if info is not None and info.flag_bits & 1:
        raise SourceError(
            f"{name} in {archive} is encrypted", hint=f"Unpack it first: {unpack_command(archive)}"
        )
    if info is not None and info.compress_type not in _ZIPPED:
        how = {9: "deflate64", 14: "lzma", 93: "zstd", 95: "xz"}.get(info.compress_type, "rare")
        raise SourceError(
            f"{name} in {archive} is packed by the method {info.compress_type} ({how}), which is "
            "not read",
            hint=f"Unpack it first: {unpack_command(archive)}",
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"{archive} holds {name!r}, whose name is not valid UTF-8",
            hint=f"Unpack it first: {unpack_command(archive)}",
        ) from None


# --- directories ---------------------------------------------------------------------------------


def _directory(source: ObjectSource, archive: Split, copies: _Copies) -> list[_Member]:
    """Return the files in an archive, in its order, without folders.

    Args:
        copies: collects the copies of archives that had to be made to read them.

    Raises:
        SourceError: it is not an archive, damaged, or cannot be read.
    """
    read: Callable[[int, int], bytes] = partial(source.part, archive)
    size = archive.size or 0
    content = _Content(size, _Window(read, size) if source.remote and size else read)
    head = content.read(0, _BLOCK)
    if not head:  # a web server that gives whole files only
        content = _copy(source.pieces(archive), archive.uri, copies)
        head = content.read(0, _BLOCK)
    if head.startswith(_ZIP):
        return _of_zip(source, archive, content)
    packed = FirstBytes(archive.uri, head).packed
    if packed != "none":
        pieces = source.pieces(archive) if content.size == archive.size else _all(content)
        content = _copy(_unpacked(pieces, packed, archive.uri), archive.uri, copies)
    return _of_tar(source, archive, content)


def _of_zip(source: ObjectSource, archive: Split, content: _Content) -> list[_Member]:
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(io.BufferedReader(_File(content), _HEADERS)) as opened:
            found = opened.infolist()
    except (BadZipFile, EOFError, NotImplementedError, ValueError, OSError) as error:
        raise SourceError(
            f"cannot read {archive.uri}: it is a zip archive that is damaged or cut off ({error})",
            hint="Fetch it again. What can be saved of it: zip -FF",
        ) from error
    return [
        _Member(i.filename, i.file_size, source, archive, content, i.header_offset, i)
        for i in found if not i.is_dir()
    ]  # fmt: skip


def _of_tar(source: ObjectSource, archive: Split, content: _Content) -> list[_Member]:
    import tarfile

    from rowfall.stores.tar_headers import BoundedHeader

    found = []
    try:
        file = cast("IO[bytes]", io.BufferedReader(_File(content), _HEADERS))
        with tarfile.open(fileobj=file, mode="r:", tarinfo=BoundedHeader) as opened:
            for info in opened:
                name, link = info.name.removeprefix("./"), not info.isreg() or info.issparse()
                if not info.isdir():
                    size, at = 0 if link else info.size, info.offset_data
                    found.append(_Member(name, size, source, archive, content, at, link=link))
            end = opened.offset
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise SourceError(
            f"cannot read {archive.uri}: it is not a tar archive, or a damaged one ({error})",
            hint="Fetch it again, or name it as what it is.",
        ) from error
    # The library takes whatever is not a header for the end.
    for at in range(end, max(content.size, end + 1), _PIECE):
        rest = content.read(at, min(_PIECE, max(content.size - at, 0)))
        if rest.strip(b"\0") or (at == end and len(rest) < _BLOCK):
            raise SourceError(
                f"cannot read {archive.uri}: its tar archive is damaged or cut off at byte {at:,}",
                hint="Fetch it again, or make it anew.",
            )
    return found


class _Window:
    """Reads what is small in pieces of what is far away: members in a row take one request."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self._read, self._size = read, size
        self._guard = threading.Lock()
        self._at, self._data = 0, b""

    def __call__(self, at: int, length: int) -> bytes:
        if length > _HEADERS:
            return self._read(at, length)
        with self._guard:
            if not self._at <= at <= at + length <= self._at + len(self._data):
                self._at, self._data = at, self._read(at, min(_AHEAD, self._size - at))
            return self._data[at - self._at :][:length]


class _File(io.RawIOBase):
    """The bytes of an archive as a file, for the libraries that read directories."""

    def __init__(self, content: _Content) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._at, self._content.size)[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "it is shorter than its directory")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        length = min(len(view), self._content.size - self._at)
        data = self._content.read(self._at, length) if length > 0 else b""
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


# --- contents ------------------------------------------------------------------------------------


def _pieces(member: _Member, name: str) -> Iterator[bytes]:
    """Give the bytes of a member.

    Raises:
        SourceError: fewer than there should be, or others than its checksum says.
    """
    if member.info is None:
        left = member.size
        for at in range(member.at, member.at + member.size, _PIECE):
            data = member.content.read(at, min(_PIECE, left))
            if len(data) < min(_PIECE, left):
                raise SourceError(f"cannot read {name}: its archive is shorter than it was")
            left -= len(data)
            yield data
        return
    from zipfile import BadZipFile, ZipExtFile

    size = 0
    try:
        head = member.content.read(member.at, _LOCAL)
        if not head.startswith(_ZIP[0]) or len(head) < _LOCAL:
            raise BadZipFile("there is no header where its directory says")
        lengths = (int.from_bytes(head[at : at + 2], "little") for at in (26, 28))
        # One that is small is not read with all that stands behind it.
        buffered = min(_PIECE, max(member.info.compress_size, io.DEFAULT_BUFFER_SIZE))
        file = io.BufferedReader(_File(member.content), buffered)
        file.seek(member.at + _LOCAL + sum(lengths))
        with ZipExtFile(cast("Any", file), "r", member.info) as opened:
            while piece := opened.read(pipes.CHUNK):
                size += len(piece)
                yield piece
        if size != member.size:
            raise BadZipFile(f"{size:,} bytes instead of {member.size:,}")
    except (BadZipFile, EOFError, zlib.error, OSError) as error:
        if isinstance(error, RowfallError):
            raise
        raise SourceError(
            f"cannot read {name}: it is damaged ({str(error) or 'it ends in the middle'})",
            hint="Fetch the archive again.",
        ) from error


def _all(content: _Content) -> Iterator[bytes]:
    for at in range(0, content.size, _PIECE):
        yield content.read(at, _PIECE)


def _copy(pieces: Iterable[bytes], name: str, copies: _Copies) -> _Content:
    """Write what cannot be read from any place into a temporary file without a name.

    Raises:
        SourceError: the temporary folder has no room.
    """
    file = tempfile.TemporaryFile(prefix="rowfall-archive-")  # noqa: SIM115 - lives with its reads
    copies.files.append(file)
    copies.notes.append(spool.copy(pieces, file, f"what {name} holds"))
    size = file.tell()
    return _Content(size, lambda at, length: os.pread(file.fileno(), length, at))


def _unpacked(pieces: Iterable[bytes], packed: str, name: str) -> Iterator[bytes]:
    """Give the content of a packed stream.

    Raises:
        SourceError: it is damaged or cut off.
    """
    try:
        if packed in pipes.STREAMS:
            yield from pipes.unpack_streams(pieces, packed)
        elif packed == "zstd":
            yield from _of_zstd(pieces)
        else:
            raise pipes.BrokenStreamError(f"{packed} is not read there")
    except (pipes.BrokenStreamError, OSError) as error:
        raise SourceError(
            f"cannot unpack {name}: its {packed} stream is broken ({error})",
            hint="Fetch it again.",
        ) from error


def _of_zstd(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack zstd by the library that comes with the embedded engine: Python 3.11 has none."""
    import pyarrow

    stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(Pieces(pieces), "r"), "zstd")
    while data := stream.read(pipes.CHUNK):
        yield data
