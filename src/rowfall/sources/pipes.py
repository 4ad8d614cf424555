"""Named pipes that rowfall fills: streams of databases and queues, ranges of text, and bz2.

What only this process can read (:class:`Streams`) goes through pipes to whoever parses it, the
engine of this machine or rowfall-decode. The engine also unpacks no bz2 and reads no ranges of text
files. rowfall-decode does both; where it does not parse a load (it is not installed, or it declines
a type), pipes do.

One thread per pipe that the engine has opened reads the object, unpacks it and writes it; pipes
that nobody has opened yet cost no thread. At most as many threads unpack at a time as there are
cores. No thread keeps its core while it waits for the engine: a statement may hold one pipe open
and full while it reads another.

The engine takes the end of a pipe for the end of the data. So what went wrong is remembered
before the pipe is closed, and :meth:`Pipes.broken` tells it before anything becomes visible.
"""

from __future__ import annotations

import bz2
import contextlib
import fcntl
import lzma
import os
import re
import select
import shutil
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from typing import Any, TypeGuard

from rowfall.core import formats
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import RowfallError, SourceError, UsageError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Kind
from rowfall.core.sqltext import SqlText
from rowfall.decoder import rewriting
from rowfall.sources import from_clause
from rowfall.sources.base import EMBEDDED, ReaderFeatures
from rowfall.sources.compression import compression_of
from rowfall.sources.from_clause import TableFunction

Opener = Callable[[], Iterator[bytes]]
"""Gives an object's stored bytes in pieces."""

BZ2, GZIP = "bz2", "gzip"
CHUNK = 1 << 20
"""Stored bytes read at a time."""

SMALL = 16 << 10
"""Stored bytes up to which an object of an archive is handed over as a file: until its reader is
noticed a pipe takes 2 ms, which are minutes for 100,000 members. An attempt has 2,000 at most."""

_SLICE = 16 << 10  # of stored bytes: a stream is 14 bytes at least, a call 1 us
_PIECE = 1 << 20  # unpacked at a time: bz2 packs up to 45,000 to 1, one chunk may hold 45 GB
_PIPE = 1 << 20  # Linux lets a pipe grow to this; fewer wake-ups of reader and writer
_SAMPLE = 4 << 20  # unpacked bytes of a sample file
_STALE = 60.0  # seconds after which a pipe asked for again is one that nobody will open
# Pipes are tried every 2 ms while the engine opens some, every 20 ms when it does not: the 64 that
# are next in line, and 64 of the others in turn. A try costs 3 us.
_SHORT, _LONG, _NEAR = 0.002, 0.02, 64
# A thread whose pipe nobody reads sees it when it writes; one that waits for a store may not.
_LAST_SECONDS = 1.0
_AFFINITY = getattr(os, "sched_getaffinity", None)
_CORES = threading.BoundedSemaphore(len(_AFFINITY(0)) if _AFFINITY else os.cpu_count() or 1)


class BrokenStreamError(Exception):
    """The bytes are no whole stream of bz2, or of ``packed``; the text says why."""

    def __init__(self, text: str, packed: str = BZ2) -> None:
        super().__init__(text)
        self.packed = packed


STREAMS: dict[str, Callable[[], Any]] = {
    GZIP: lambda: zlib.decompressobj(wbits=31),
    BZ2: bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}
"""Makes what unpacks one stream, by the compressions that Python's own library knows."""


@dataclass(frozen=True, slots=True)
class _NamedPipe:
    """One pipe that the engine has not opened yet; ``made`` in clock seconds.

    ``packed``: it is unpacked here; ``encoding``: of an object that is rewritten on its way.
    """

    path: str
    uri: str
    open: Opener
    packed: bool
    encoding: Encoding | None = None
    made: float = field(default_factory=time.monotonic)


class Pipes:
    """The pipes of one source, made and filled as the engine needs them.

    Args:
        owner: the source; when it is gone, or the process ends, all files are removed.
    """

    def __init__(self, owner: object) -> None:
        self._wake = threading.Condition()
        self._folder = ""
        self._made = 0
        self._waiting: list[_NamedPipe] = []
        self._running = False
        self._closed = False
        self._broken: dict[str, Exception] = {}
        self._filled: list[str] = []
        self._files: dict[str, str] = {}
        self._samples: dict[str, str] = {}
        weakref.finalize(owner, self.close)

    def function(
        self, objects: Sequence[tuple[str, Opener]], encoding: Encoding | None, structure: str,
        *, packed: bool = True, small: Collection[str] = (),
    ) -> TableFunction:  # fmt: skip
        """Return ``file(...)`` over fresh pipes, one for each (URI, opener).

        ``packed``: in bz2 or gzip, which is unpacked here; ``small``: see :meth:`open`.

        With an empty structure over short ordinary files instead: the engine opens what it
        describes several times.

        Raises:
            SourceError: a sample cannot be unpacked, or the temp folder takes no files.
        """
        if encoding is None:
            raise ValueError("a source of bytes needs an encoding")
        foreign = encoding if encoding.dialect is not None else None
        if structure:
            small = () if packed or foreign is not None else small
            paths = self._pipes(objects, packed, foreign, small)
        else:
            paths = [self._sample(uri, opener, packed, foreign) for uri, opener in objects]
        # What is not unpacked here the engine unpacks itself; ranges are of plain files.
        unpacked = packed or foreign is not None or encoding.compression == formats.AUTO
        plain = replace(encoding, compression="none") if unpacked else encoding
        tail = from_clause.last_arguments(plain, structure)
        return TableFunction(SqlText.of(f"file({from_clause.file_argument(paths)}{tail})"))

    def open(self, objects: Sequence[tuple[str, Opener]], small: Collection[str] = ()) -> list[str]:
        """Return the path of a fresh pipe for each (name, opener), for a reader that opens it once.

        Args:
            small: names of those that have no more than ``SMALL`` bytes: files take their place.

        Raises:
            SourceError: the temp folder takes no files.
        """
        return self._pipes(objects, packed=False, foreign=None, small=small)

    def error(self, name: str) -> Exception | None:
        """Return the error of the last sending of this object, or None; see :meth:`broken`."""
        with self._wake:
            if path := self._files.pop(name, None):
                _unlink(path)
            self._remove(lambda pipe: pipe.uri == name)
            # Whoever reads it may have met what is wrong sooner than whoever sends it.
            self._wake.wait_for(lambda: name not in self._filled, _LAST_SECONDS)
            return self._broken.get(name)

    def broken(self, uri: str) -> str | None:
        """Return the error of the last sending of this object as a predicate; None for none.

        Asked after the statement has ended: pipes of the object still unopened are removed.

        Raises:
            RowfallError: it was transient, so all may be tried again.
        """
        error = self.error(uri)
        if isinstance(error, RowfallError) and error.transient:
            raise error
        return describe(error, uri) if error else None

    def close(self) -> None:
        """Remove everything; pipes that the engine still reads end with it."""
        with self._wake:
            self._closed = True
            self._waiting.clear()
            self._files.clear()
            folder, self._folder = self._folder, ""
            self._wake.notify_all()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    # --- files --------------------------------------------------------------------------------

    def _pipes(
        self, objects: Sequence[tuple[str, Opener]], packed: bool, foreign: Encoding | None,
        small: Collection[str] = (),
    ) -> list[str]:  # fmt: skip
        old = time.monotonic() - _STALE
        names = {uri for uri, _ in objects}
        with self._wake:
            self._closed = False
            self._remove(lambda pipe: pipe.uri in names and pipe.made < old)
            pipes, files, paths = [], [], []
            for uri, opener in objects:
                self._broken.pop(uri, None)
                paths.append(self._path(uri))
                if uri in small:
                    files.append((paths[-1], uri, opener))
                    continue
                pipe = _NamedPipe(paths[-1], uri, opener, packed, foreign)
                try:
                    os.mkfifo(pipe.path, 0o600)
                except OSError as error:
                    raise _no_room(pipe.path, error) from error
                pipes.append(pipe)
            # The newest in front: the statement about to run opens those.
            self._waiting = pipes + self._waiting
            if self._waiting and not self._running:
                self._running = True
                threading.Thread(target=self._watch, daemon=True, name="pipe-watch").start()
            self._wake.notify_all()
        for path, uri, opener in files:
            self._write_file(path, uri, opener)
        return paths

    def _write_file(self, path: str, uri: str, opener: Opener) -> None:
        try:
            data = b"".join(opener())
        except Exception as error:  # as of a pipe: an empty file, and the load asks what it was
            with self._wake:
                self._broken[uri] = error
            data = b""
        try:
            with open(path, "wb", buffering=0) as file:
                file.write(data)
        except OSError as error:
            raise _no_room(path, error) from error
        with self._wake:
            former, self._files[uri] = self._files.get(uri), path
        if former:
            _unlink(former)

    def _sample(self, uri: str, opener: Opener, packed: bool, foreign: Encoding | None) -> str:
        """Write a file of the first rows of an object and return its path."""
        if uri in self._samples and os.path.exists(self._samples[uri]):
            return self._samples[uri]
        head = bytearray()
        try:
            if foreign is not None:
                packing = compression_of(uri, foreign)
                head += rewriting.head(stored(opener), foreign, packing, _SAMPLE)
            pieces = unpack(opener()) if packed else opener()
            for piece in pieces if foreign is None else ():
                head += piece
                if len(head) >= _SAMPLE:
                    del head[head.rfind(b"\n") + 1 or len(head) :]
                    break
        except Exception as error:  # of whatever reads the object
            if not head:  # else there are rows for the schema; the load will find the break
                if not packed and isinstance(error, SourceError):
                    raise
                gzip = isinstance(error, BrokenStreamError) and error.packed == GZIP
                raise SourceError(
                    f"cannot read {uri}: {describe(error, uri)}",
                    hint="Test it with gzip -t." if gzip else "Test it with bzip2 -t.",
                ) from error
        with self._wake:
            path = self._path(uri)
        try:
            with open(path, "wb") as file:
                file.write(head)
        except OSError as error:
            raise _no_room(path, error) from error
        self._samples[uri] = path
        return path

    def _path(self, uri: str) -> str:
        """Return a new path that ends like the object, for the engine's messages."""
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="rowfall-pipes-")
        self._made += 1
        name = re.sub(r"[^\w.-]", "_", uri.rpartition("/")[2].removesuffix(".bz2"), flags=re.ASCII)
        return os.path.join(self._folder, f"{self._made}-{name[-100:]}")

    def _remove(self, unwanted: Callable[[_NamedPipe], bool]) -> None:
        for pipe in [pipe for pipe in self._waiting if unwanted(pipe)]:
            self._waiting.remove(pipe)
            _unlink(pipe.path)

    # --- threads ------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Start a thread for every pipe that the engine opens; end when none is left."""
        pause, turn = _SHORT, 0
        while True:
            with self._wake:
                if not self._waiting:
                    self._running = False
                    return
                others = self._waiting[_NEAR:]
                turn = turn + _NEAR if turn + _NEAR < len(others) else 0
                near = self._waiting[:_NEAR] + others[turn : turn + _NEAR]
                opened = [(pipe, sink) for pipe in near if (sink := _open(pipe.path)) is not None]
                for pipe, sink in opened:
                    self._waiting.remove(pipe)
                    self._filled.append(pipe.uri)
                    _unlink(pipe.path)  # both ends are open: the name is needed no more
                    threading.Thread(
                        target=self._fill, args=(pipe, sink), daemon=True, name="pipe"
                    ).start()
                pause = _SHORT if opened else min(pause * 1.5, _LONG)
                if self._waiting and self._wake.wait(pause):
                    pause = _SHORT

    def _fill(self, pipe: _NamedPipe, sink: int) -> None:
        try:
            self._write(pipe, sink)
        finally:
            with self._wake:
                self._filled.remove(pipe.uri)
                self._wake.notify_all()  # the engine opens its next pipe at once

    def _write(self, pipe: _NamedPipe, sink: int) -> None:
        with os.fdopen(sink, "wb", buffering=0) as file:
            try:
                if pipe.encoding is not None:
                    packed = compression_of(pipe.uri, pipe.encoding)
                    child = rewriting.ObjectRewriting(
                        stored(pipe.open), pipe.encoding, packed, file.fileno()
                    )
                    child.end()
                    return
                stream = pipe.open()
                for piece in unpack(stream) if pipe.packed else stream:
                    if not (write(file.fileno(), piece) if piece else _is_read(file.fileno())):
                        break  # a LIMIT is reached, or the statement failed: no error of ours
                if isinstance(stream, Generator):
                    stream.close()  # what it holds (a connection) is free before the pipe ends
            except Exception as error:  # whatever it is, the load must not take it for the end
                with self._wake:
                    self._broken[pipe.uri] = error


class Streams:
    """All that a source needs whose splits are streams which this process gets: see ``stream``.

    A :class:`rowfall.sources.base.Streamed` source derives from it; pipes carry its streams.
    """

    def __init__(self) -> None:
        self._streams = Pipes(self)

    def stream(self, split: Split) -> Iterator[bytes]:
        """Give the bytes of a split, as :class:`rowfall.sources.base.Streamed` says."""
        raise NotImplementedError

    def pipes(self, splits: Sequence[Split]) -> list[str]:
        """Return the path of a fresh named pipe for each split."""
        return self._streams.open(self._openers(splits))

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return the FROM part that reads the splits through pipes."""
        openers = self._openers(splits)
        return self._streams.function(openers, encoding, structure, packed=False).text

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return the splits whose stream broke for a reason of no known kind.

        Raises:
            RowfallError: the reason, where the source said it.
        """
        broken = [(split, error) for split in splits if (error := self.error(split.name))]
        known = [error for _, error in broken if isinstance(error, RowfallError)]
        # One that lasts is told first: trying again would only meet it again.
        for error in sorted(known, key=lambda error: error.transient):
            raise error
        return [(split, describe(error, split.name)) for split, error in broken]

    def error(self, name: str) -> Exception | None:
        """Return the error of the last sending of a stream; None where it went well."""
        return self._streams.error(name)

    def close(self) -> None:
        """Remove the pipes; a source that holds connections ends them, too."""
        self._streams.close()

    def _openers(self, splits: Sequence[Split]) -> list[tuple[str, Opener]]:
        return [(split.name, partial(self.stream, split)) for split in splits]


def packed_in_bz2(
    splits: Sequence[Split], encoding: Encoding | None, reader: ReaderFeatures = EMBEDDED
) -> tuple[list[Split], list[Split]]:
    """Return the splits whose bz2 the engine cannot unpack, and the others."""
    if reader.bz2:
        return [], list(splits)
    packed = encoding.compression if encoding else "none"
    piped = [split for split in splits if compression_of(split.uri, packed) == BZ2]
    kept = {split.uri for split in piped}
    return piped, [split for split in splits if split.uri not in kept]


Part = Callable[[Split, int, int], bytes]


def text_ranges(
    splits: Sequence[Split], structure: str, reader: ReaderFeatures, part: Part
) -> tuple[list[tuple[str, Opener]], list[Split]]:
    """Return the ranges of text, each with what gives its bytes, and the other splits.

    Args:
        part: reads bytes of an object.
    """
    cut = [s for s in splits if structure and s.of_text]
    if cut and reader is not EMBEDDED:
        raise ValueError("only the engine of this machine reads ranges of text")
    found: list[tuple[str, Opener]] = [(s.name, partial(_range, s, part)) for s in cut]
    return found, [split for split in splits if split not in cut] if cut else list(splits)


def _range(split: Split, part: Part) -> Iterator[bytes]:
    """Give the bytes of a range, behind the header of its file.

    Raises:
        SourceError: the object cannot be read, or is shorter than it was.
    """
    start, stop = split.start or 0, split.stop or 0
    if split.part is None:
        raise ValueError("a whole file is not a range")
    file = replace(split, size=split.part.size)
    if split.part.head:
        yield part(file, 0, split.part.head)
    for at in range(start, stop, CHUNK):
        data = part(file, at, min(CHUNK, stop - at))
        if len(data) < min(CHUNK, stop - at):
            raise SourceError(f"cannot read {split.name}: it is shorter than it was")
        yield data


def check_bz2(encoding: Encoding, names: Iterable[str]) -> Encoding:
    """Return ``encoding``, unless pipes cannot carry it.

    Raises:
        UsageError: a format that is read from its end, packed with bz2.
    """
    packed = encoding.compression
    if encoding.kind is Kind.TYPED and (
        packed == BZ2 or any(compression_of(name, packed) == BZ2 for name in names)
    ):
        raise UsageError(
            f"{encoding.format} packed with bz2 cannot be read",
            hint="Unpack it first (bunzip2); bz2 is for CSV, TSV and JSONEachRow.",
        )
    return encoding


def unpack(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Give the content of gzip or bz2, as its first bytes say, in pieces of at most 1 MiB.

    Raises:
        BrokenStreamError: see :func:`unpack_streams`.
    """
    stored = iter(chunks)
    first = next(stored, b"")
    whole = chain((first,), stored)
    yield from unpack_streams(whole, GZIP if first.startswith(b"\x1f\x8b") else BZ2)
    if isinstance(stored, Generator):
        stored.close()


def unpack_bz2(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Give the content of a bz2 file, see :func:`unpack_streams`."""
    return unpack_streams(chunks, BZ2)


def unpack_streams(chunks: Iterable[bytes], packed: str) -> Iterator[bytes]:
    """Give the content of gzip, bz2 or xz of one or many streams, in pieces of at most 1 MiB.

    Raises:
        BrokenStreamError: it is none, it is cut, or something else follows; zero bytes are padding.
    """
    begin = STREAMS[packed]
    current: Any = None
    members = 0
    for data in _slices(chunks):
        # One of bz2 keeps what it was given, one of gzip gives it back.
        while data or not getattr(current, "needs_input", True):
            if current is None:
                data = data.lstrip(b"\0") if members else data
                if not data:
                    break
                current = begin()
                members += 1
            with _CORES:
                try:
                    piece = current.decompress(data, _PIECE)
                except (zlib.error, lzma.LZMAError, OSError) as error:
                    raise BrokenStreamError(str(error).lower(), packed) from error
            data = getattr(current, "unconsumed_tail", b"")
            if current.eof:
                data, current = current.unused_data, None
            if piece:
                yield piece
    if current is not None:
        raise BrokenStreamError("it ends in the middle", packed)
    if not members:
        raise BrokenStreamError("it is empty", packed)


def _slices(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Give chunks in slices: what is behind the end of a stream is copied each time, so that a
    million empty streams in chunks of 1 MiB took minutes."""
    for chunk in chunks:
        for at in range(0, len(chunk), _SLICE):
            yield chunk[at : at + _SLICE]


def stored(opener: Opener) -> Iterator[bytes] | str:
    """Return the path of a file here, or the stored bytes of any other object."""
    return opener.args[0] if _is_file(opener) else opener()


def _is_file(opener: Opener) -> TypeGuard[partial[Iterator[bytes]]]:
    return isinstance(opener, partial) and opener.func is read_file


def read_file(path: str) -> Iterator[bytes]:
    """Give a local file in pieces."""
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def describe(error: Exception, uri: str) -> str:
    """Return an error as a predicate that can follow the object's name."""
    if isinstance(error, BrokenStreamError):
        return f"its {error.packed} stream is broken: {error}"
    if isinstance(error, RowfallError):
        return f"reading it failed: {error.message.removeprefix(f'cannot read {uri}: ')}"
    cause = error.strerror if isinstance(error, OSError) else None
    return f"reading it failed: {(cause or str(error) or type(error).__name__).lower()}"


def _open(path: str) -> int | None:
    """Return the writing end of a pipe, None while the engine has not opened the other one."""
    try:
        sink = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.set_blocking(sink, True)
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE)
    return sink


def write(sink: int, data: bytes) -> bool:
    """Write all of it; False when the reader has gone."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(sink, view) :]
    except BrokenPipeError:
        return False
    return True


def _is_read(sink: int) -> bool:
    """Tell whether the reading end of a pipe is open."""
    ask = select.poll()
    ask.register(sink, 0)
    return not ask.poll(0)


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _no_room(path: str, error: OSError) -> SourceError:
    return SourceError(
        f"cannot write {path}: {(error.strerror or str(error)).lower()}",
        hint="bz2 is unpacked through the temp folder: make room, or set TMPDIR.",
    )
