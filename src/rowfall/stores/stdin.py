"""Standard input: ``-``, read once."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import stat
import sys
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rowfall.core import formats, open_quotes, units
from rowfall.core.errors import RowfallError, SourceError
from rowfall.core.listing import Listing, Split, split_id
from rowfall.core.long_records import Records, too_long
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.core.open_quotes import OpenQuotes
from rowfall.core.options import Options
from rowfall.core.sql import literal
from rowfall.core.sqltext import SqlText
from rowfall.decoder import rewriting
from rowfall.sources import from_clause, pipes
from rowfall.stores import completeness, files, first_bytes, spool

HEAD = 4 << 20
"""Bytes read ahead to tell format and schema."""

_CHUNK = 1 << 20
_PIPE = 1 << 20  # Linux lets a pipe grow to this; fewer wake-ups of reader and writer
_URI = "stdin://"

_Broken = list[str | RowfallError]
"""One element: why the stream broke off, "" where it did not."""


class StandardInput:
    """A stream that is read once, through a pipe that the engine's process inherits.

    The first bytes are kept in a temporary file for the schema. Formats whose reader needs the
    whole file (Parquet, ORC, Arrow, Avro, Native), and zstd or lz4 longer than the head (the
    standard library cannot cut them into a sample), are written to a temporary file in the system
    temp folder first and are an ordinary file from then on, as is what options or the sample want
    to read twice. bz2 is unpacked on its way.

    Two runs are two loads: a stream has no identity that a later run could recognise.
    """

    text = "-"
    remote = False
    secrets: tuple[Secret, ...] = ()
    notes: tuple[str, ...] = ()
    made: Schema | None = None

    def __init__(self, texts: Sequence[str], options: Options) -> None:
        self._options = options
        self._input = -1 if sys.stdin is None else sys.stdin.fileno()
        self._head = b""
        self._folder = ""
        self._spooled = ""
        self._listing: Listing | None = None
        self._encoding: Encoding | None = None
        self._broken: _Broken = [""]  # filled by the pump
        self._unpacked_in_copy = False
        self._local = files.LocalFiles((), options)  # reads the sample, and the copy
        self.fds: tuple[int, ...] = ()
        self.replayable = False

    def listing(self) -> Listing:
        """Return one split; asked again, the same answer.

        Raises:
            SourceError: stdin is a terminal, closed or empty; no room to spool.
        """
        if self._listing is not None:
            return self._listing
        self._head, ended = self._read_head()
        self._encoding, seekable = self._detect()
        self._folder = tempfile.mkdtemp(prefix="rowfall-stdin-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        listing = Listing()
        unknown = self._encoding.compression in ("zstd", "lz4") and not ended
        if seekable or unknown or self._is_padded(ended) or _read_twice(self._options):
            self.spool()
            listing.add(self._spooled, uuid.uuid4().hex, os.path.getsize(self._spooled))
        else:
            self._write_sample(ended)
            listing.add(_URI, uuid.uuid4().hex, len(self._head) if ended else None)
            self._start_pump()
        self._listing = listing
        return listing

    def encoding(self, listing: Listing) -> Encoding:
        if self._encoding is None:
            raise ValueError("stdin is described after its listing")
        if self._encoding.dialect is not None and not self._spooled:  # the pump rewrites it
            charset = self._encoding.dialect.charset
            return replace(self._encoding, compression="none", charset=charset, dialect=None)
        return self._encoding

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        """Return the copy of the first bytes (the whole, where it was spooled)."""
        path = self._spooled or os.path.join(self._folder, "sample")
        version = f"{os.path.getsize(path)}"
        return [Split(split_id(path, version, None, None, ""), path, version, int(version))]

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        """Return ``file('/dev/fd/N', ...)`` for the stream, an ordinary file for the sample."""
        (split,) = splits
        if split.uri == _URI and not self._spooled:
            path = f"/dev/fd/{self.fds[0]}"
            if encoding is not None and encoding.compression == pipes.BZ2:
                encoding = replace(encoding, compression="none")  # the pump unpacks it
            return SqlText.of(
                f"file({literal(path)}{from_clause.last_arguments(encoding, structure)})"
            )
        path = self._copy_of(split)
        if encoding is not None:
            path, encoding = self.sample_file(split, encoding)
        return self._local.relation([replace(split, uri=path)], encoding, structure)

    def sample_file(self, split: Split, encoding: Encoding) -> tuple[str, Encoding]:
        path, packed = self._copy_of(split), encoding.compression
        if path != self._spooled:
            # The sample is kept unpacked, because a packed stream cannot be cut anywhere.
            packed = packed if packed in ("zstd", "lz4") else "none"
        elif self._unpacked_in_copy:
            packed = "none"
        return path, replace(encoding, compression=packed)

    def _copy_of(self, split: Split) -> str:
        """Return the path of the whole stream, or of its sample."""
        return self._spooled if split.uri == _URI else split.uri

    def lines_in(self, split: Split, encoding: Encoding, lines: Sequence[int]) -> list[int]:
        if not self._spooled:
            return list(lines)
        return self._local.lines_in(replace(split, uri=self._spooled), encoding, lines)

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        """Return the stream if reading it broke off or it is cut: the engine saw only its end.

        Raises:
            RecordTooLongError: that is why it was broken off.
        """
        broken = self._broken[0]
        if isinstance(broken, RowfallError):
            raise broken
        return [(split, text) for split in splits if (text := broken or self._cut())]

    def pieces(self, split: Split) -> Iterator[bytes]:
        """Give the first bytes of the stream, as they came or as they are in its copy."""
        if not self._spooled:
            yield self._head
            return
        with open(self._spooled, "rb") as file:
            yield file.read(HEAD)

    def _cut(self) -> str | None:
        path = self._spooled or os.path.join(self._folder, "sample")
        if self._encoding is None or self._encoding.compression not in ("zstd", "lz4"):
            return None
        return completeness.check_file(path, os.path.getsize(path), self._encoding.compression)

    def _read_head(self) -> tuple[bytes, bool]:
        """Read up to :data:`HEAD` bytes; also return whether the stream has ended with them."""
        hint = "Write a command before it: zcat trips.csv.gz | rowfall load -"
        if os.isatty(self._input):
            raise SourceError("cannot read stdin: it is a terminal", hint=hint)
        chunks: list[bytes] = []
        size = 0
        try:
            while size < HEAD and (chunk := os.read(self._input, min(_CHUNK, HEAD - size))):
                chunks.append(chunk)
                size += len(chunk)
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise SourceError(f"cannot read stdin: {cause}", hint=hint) from error
        if not size:
            raise SourceError("cannot read stdin: it is empty", hint="Check the command before it.")
        return b"".join(chunks), size < HEAD

    def _detect(self) -> tuple[Encoding, bool]:
        """Return the encoding (options, else first bytes), and whether a whole file is needed."""
        head = first_bytes.FirstBytes("stdin", self._head)
        by_magic, packed = head.format, head.packed
        if self._options.compression:
            packed = formats.find_compression(self._options.compression)
        if self._options.format:
            found = formats.find(self._options.format)
        elif by_magic:
            found = formats.find(by_magic)
        elif packed in ("zstd", "lz4"):
            raise SourceError(
                f"the format of stdin is not known: it is packed with {packed}",
                hint="Name it with --format, e.g. --format CSV.",
            )
        else:
            found = formats.find(formats.guess_text(self._unpacked(packed)))
        delimiter = formats.delimiter(self._options, found)
        encoding = formats.with_dialect(
            Encoding(found.name, packed, found.kind, delimiter), self._options
        )
        examined = first_bytes.examine([head], encoding, self._options)
        self.notes = examined.notes
        encoding = rewriting.check(pipes.check_bz2(examined.encoding, ()))
        if encoding.dialect is not None and packed in ("zstd", "lz4"):
            raise SourceError(
                f"{rewriting.describe(encoding.dialect)} packed with {packed} is not read from "
                "stdin",
                hint=f"Unpack it before: {packed} -dc FILE | rowfall load -",
            )
        return encoding, found.seekable

    def _is_padded(self, ended: bool) -> bool:
        """Tell whether zeros follow its gzip: the copy is read without them, as any file is.

        Where stdin is a pipe longer than the head, its end is not known yet: see :func:`_pump`.
        """
        packed = self._encoding.compression if self._encoding else "none"
        if ended:
            return packed == pipes.GZIP and completeness.ends_padded(self._head)
        status = os.fstat(self._input)
        if not stat.S_ISREG(status.st_mode):
            return False
        return completeness.is_padded(
            lambda at, n: os.pread(self._input, n, at), status.st_size, packed
        )

    def _write_sample(self, ended: bool) -> None:
        encoding = self._encoding
        packed = encoding.compression if encoding else "none"
        data = self._head
        if encoding is not None and encoding.dialect is not None:
            data = rewriting.head(iter((data,)), encoding, packed, HEAD)
            data = data[: data.rfind(b"\n") + 1] or data
        elif packed not in ("zstd", "lz4"):  # those are whole here
            data = self._unpacked(packed)
            if packed != "none" or not ended:
                data = data[: data.rfind(b"\n") + 1] or data
        with open(os.path.join(self._folder, "sample"), "wb") as file:
            file.write(data)

    def _unpacked(self, packed: str) -> bytes:
        # 16 times as much: numbers in text pack to a fifth, and all of it is a sample.
        return first_bytes.unpack(self._head, packed, 16 * HEAD)

    def spool(self) -> None:
        if self._spooled:
            return
        path = os.path.join(self._folder, "stdin")
        with open(path, "wb") as file:
            said = spool.copy(self._rest(), file, "stdin")
        if self._broken[0]:
            raise SourceError(f"cannot read stdin: {self._broken[0]}")
        self.notes = (*self.notes, said)
        self._spooled, self._head, self.replayable = path, b"", True

    def _rest(self) -> Iterator[bytes]:
        """Give all that has not been read: by this process, or by the pump that has begun."""
        if self._listing is None:
            yield from _stream(self._head, io.FileIO(self._input, closefd=False))
            return
        self._unpacked_in_copy = self._encoding is not None and (
            self._encoding.compression == pipes.BZ2
        )
        while chunk := os.read(self.fds[0], _CHUNK):
            yield chunk

    def _start_pump(self) -> None:
        read_end, write_end = os.pipe()
        os.set_inheritable(read_end, True)
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import fcntl

            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIPE)
        self.fds = (read_end,)
        head, self._head = self._head, b""
        threading.Thread(
            target=_pump,
            # A descriptor of its own: a closed number may be given to another file at once.
            args=(
                os.dup(self._input),
                write_end,
                head,
                self._encoding,
                self._broken,
                units.parse_size(self._options.max_record),
            ),
            daemon=True,
            name="stdin",
        ).start()


def _read_twice(options: Options) -> bool:
    """Tell whether options need the rows again: to find columns, or rows that do not fit."""
    marks = (options.decimal, options.thousands, options.dates)
    more = options.widen or options.max_errors or options.max_error_ratio
    return bool(more) or any(mark is not None for mark in marks)


def _pump(
    source: int, sink: int, head: bytes, encoding: Encoding | None, broken: _Broken, most: int
) -> None:
    """Copy head and rest to the engine's pipe, then close both; its end is the stream's end.

    What goes wrong is noted before the pipe is closed: the engine cannot tell it from the end.

    Args:
        most: bytes of a record of text: an engine would hold as many as it may.
    """
    with os.fdopen(source, "rb", buffering=0) as stream, os.fdopen(sink, "wb", buffering=0) as pipe:
        pieces = _stream(head, stream)
        compression = encoding.compression if encoding else "none"
        try:
            if encoding is not None and encoding.dialect is not None:
                rewriting.ObjectRewriting(pieces, encoding, compression, pipe.fileno()).end()
                return
            records = _records(encoding, most)
            quotes = _quotes(encoding, most)
            if compression == pipes.GZIP:
                pieces = _without_padding(pieces)
            for piece in pipes.unpack_bz2(pieces) if compression == pipes.BZ2 else pieces:
                if records and encoding and (place := records.pass_by(piece)) is not None:
                    broken[0] = too_long(_URI, place, most, encoding)
                    return
                # The engine closes its end early when it fails; it reports why.
                if not pipes.write(pipe.fileno(), piece):
                    return
                if quotes is not None:
                    quotes.pass_by(piece)
            if quotes is not None and (opened := quotes.end()) is not None:
                broken[0] = open_quotes.error("stdin", opened)
        except SourceError as error:
            broken[0] = error
        except Exception as error:
            broken[0] = pipes.describe(error, _URI)


def _without_padding(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Give a gzip stream as it is.

    Raises:
        SourceError: zeros follow it, which the engine cannot read, nor can they be taken off:
            how many of them belong to its checksum is seen by unpacking only.
    """
    end = b""
    for piece in pieces:
        end = (end + piece)[-completeness.LEAST_PADDING :]
        yield piece
    if completeness.ends_padded(end):
        raise SourceError(
            "zeros follow the gzip stream of stdin, as on tapes and disks",
            hint="Unpack it before: gzip -dc FILE | rowfall load -",
        )


def _records(encoding: Encoding | None, most: int) -> Records | None:
    """Return the object that finds the ends of records; None where they are packed or no text."""
    text = encoding is not None and encoding.kind in (Kind.TEXT, Kind.JSON)
    if encoding is None or not text or encoding.compression not in ("none", pipes.BZ2):
        return None
    return Records(most, quotes=encoding.is_csv, objects=encoding.kind is Kind.JSON)


def _quotes(encoding: Encoding | None, most: int) -> OpenQuotes | None:
    """Return the object that finds a quote never closed; None where CSV is packed or absent."""
    if encoding is None or not encoding.is_csv or _records(encoding, most) is None:
        return None
    return OpenQuotes(encoding, most, breaks=True)


def _stream(head: bytes, rest: io.RawIOBase) -> Iterator[bytes]:
    chunk: bytes | None = head
    while chunk:
        yield chunk
        chunk = rest.read(_CHUNK)
