"""Tells what objects are by their first bytes, and compares that with names and options. Pure.

An extension is a promise of whoever wrote the name. gzip called ``.csv`` was loaded as one row of
rubbish, Latin-1 as replacement characters, both with exit code 0. So the beginnings of a few
objects are read before anything is created: what can be told for sure is read as what it is, and
what is not a table is refused with what would help.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import shlex
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol

from rowfall.core import charsets, formats, log_forms
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import DataError, SourceError, UsageError
from rowfall.core.events import WarningText
from rowfall.core.file_databases import NAMES, scheme_of_head
from rowfall.core.listing import Split
from rowfall.core.model import Dialect, Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.patterns import regex
from rowfall.sources.base import Ranged
from rowfall.sources.compression import compression_of
from rowfall.stores.boxes import box_in
from rowfall.stores.unnamed import format_of

HEAD = 64 << 10
"""Bytes of an object that are read at once, whoever asks for some of them first: one small request,
and hundreds of lines."""
AHEAD = 256 << 10
"""Bytes of the beginnings of all objects that are looked at together: what inference reads, so one
text file is read this far, four of them 64 KiB each."""
UNPACKED = 1 << 20
"""Bytes of them after unpacking, about."""
_STEP = 1 << 14  # unpacked at a time

# Signatures of what holds no rows that the engine reads, what it is, and what helps.
_NO_TABLES = (
    (b"%PDF-", "a PDF document", "Export its table as CSV."),
    (b"PARE", "a Parquet file whose footer is encrypted",
     "Have it decrypted: rowfall takes no keys of Parquet."),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook (.xls)",
     "Save the sheet as CSV, or as Parquet."),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it first: 7z x FILE."),
    (b"Rar!\x1a\x07", "a RAR archive", "Unpack it first: unrar x FILE."),
    (b"\x7fELF", "a program", "Check the name of the file."),
    (b"\x00\x05\x16\x07", "what macOS keeps beside a file on foreign disks (AppleDouble)",
     "It holds no rows: load the file of the same name without ._ in front."),
)  # fmt: skip
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<body", b"<table", b"<?xml")
# What begins the dumps of databases; the engine reads those of MySQL as a format of its own.
_MYSQL = (b"-- mysql dump", b"-- mariadb dump", b"/*!")
_SCRIPTS = (
    *_MYSQL, b"-- postgresql database dump", b"--\n-- postgresql database", b"create table ",
    b"drop table ", b"insert into ", b"pragma foreign_keys",
)  # fmt: skip
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_AS_ARCHIVE = (
    "Archives are loaded on their own, by names or globs that end in .zip or .tar, as in "
    "'FOLDER/*.zip'. Or unpack it first:"
)
_SHEET = (b"[Content_Types].xml", b"xl/", b"_rels/")


class _Decompressor(Protocol):
    def decompress(self, data: bytes, most: int, /) -> bytes: ...


UNPACKED_HERE = frozenset({"none", "gzip", "bz2", "xz"})
"""Compressions that :func:`unpack` knows."""

_DECOMPRESSORS: dict[str, Callable[[], _Decompressor]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}


class FirstBytes:
    """The first bytes of one object, and what they say; nothing of them is unpacked twice.

    Attributes:
        name: of the object, for messages; its extension says what is expected of it.
        data: as they are stored.
        format: that has their signature, None for none.
        packed: what they are packed with, by their signature; ``none`` for nothing.
    """

    __slots__ = ("_texts", "data", "format", "name", "packed")

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data
        self.format, self.packed = formats.sniff(data)
        self._texts: dict[str, bytes] = {}

    def compression(self, declared: str) -> str:
        """Return the compression that they have, where ``declared`` is what the name says."""
        # The first bytes of a packed file that was cut behind them are no row.
        return declared if formats.is_cut(self.data, declared) else self.packed

    def text(self, compression: str | None = None) -> bytes:
        """Return the first bytes unpacked; b"" where they cannot be unpacked here.

        Args:
            compression: None for the one that they have.
        """
        packed = self.packed if compression is None else compression
        if packed not in self._texts:
            self._texts[packed] = b""
            with suppress(SourceError):  # damaged: reading all of it will say so
                self._texts[packed] = unpack(self.data, packed)
        return self._texts[packed]

    @property
    def is_whole(self) -> bool:
        """Tell whether the object ends here, and all of it was unpacked."""
        return len(self.data) < HEAD and len(self.text()) < UNPACKED


@dataclass(frozen=True, slots=True)
class FoundEncoding:
    """Encoding of objects by their first bytes.

    Attributes:
        notes: sentences about what differs from the names, for the user.
    """

    encoding: Encoding
    notes: tuple[str, ...] = ()


class TextBeginning(NamedTuple):
    """The beginning of a text: unpacked, and how many stored bytes that took."""

    text: bytes
    stored: int


def examine(heads: Sequence[FirstBytes], declared: Encoding, options: Options) -> FoundEncoding:
    """Return format and compression of objects by their first bytes.

    Args:
        declared: by names and options.

    Raises:
        SourceError: they hold no rows that can be read, or not as the options say.
        DataError: their text is not UTF-8, and nothing says what it is.
    """
    heads = [head for head in heads if head.data]
    if not heads:
        return FoundEncoding(declared)
    _refuse_no_tables({head.name: head.data for head in heads}, options)
    encoding, notes = _compression(heads, declared, options)
    unpacked = {head.name: head.text(compression_of(head.name, encoding)) for head in heads}
    texts = {name: text for name, text in unpacked.items() if text}
    if not texts:
        return FoundEncoding(encoding, notes)
    _refuse_no_tables(texts, options)
    _refuse_packed(texts, encoding)
    encoding, more = _format(texts, encoding, options)
    notes += more
    if encoding.kind not in (Kind.TEXT, Kind.JSON) or encoding.binary:
        return FoundEncoding(encoding, notes)
    encoding, more = _charset(texts, encoding, options)
    return FoundEncoding(encoding, notes + more)


def with_format(
    heads: Sequence[FirstBytes], names: Sequence[str], options: Options
) -> tuple[Options, tuple[str, ...]]:
    """Return the options with a format where no name has an extension that says one, and notes.

    Raises:
        UsageError: the first bytes do not say it either.
    """
    if options.format or any(map(formats.is_data, names)):
        return options, ()
    _refuse_no_tables({head.name: head.data for head in heads}, options)
    if options.widths:
        return replace(options, format="CSV"), ()
    filled = {head.name: head for head in heads if head.text()}
    texts = {name: head.text() for name, head in filled.items()}
    _refuse_no_tables(texts, options)
    if not texts:
        raise UsageError(
            f"{names[0]} does not end with the extension of a known format",
            hint="Name it with --format, e.g. --format CSV.",
        )
    found = {
        name: formats.sniff(texts[name])[0]
        or log_forms.form_of(texts[name])
        or format_of(name, texts[name], whole=head.is_whole)
        for name, head in filled.items()
    }
    first, only = next(iter(found.items()))
    odd = next((name for name, kind in found.items() if kind != only), None)
    if odd is not None:
        raise UsageError(
            f"no name says the format, and {first} looks like {only}, {odd} like {found[odd]}",
            hint="Load each format on its own, or name the format of all with --format.",
        )
    note = f"{_some(texts)} is read as {only}, as its first bytes look like it"
    return replace(options, format=only), (note,)


def beginning(
    source: object, split: Split, encoding: Encoding, length: int
) -> TextBeginning | None:
    """Return the beginning of a text, unpacked; None where it cannot be unpacked here.

    Whoever reads all of it says what is wrong with it.

    Args:
        split: a whole object.
        length: stored bytes, fewer where the object ends.

    Raises:
        SourceError: it cannot be read.
    """
    packed = compression_of(split.uri, encoding)
    if packed not in UNPACKED_HERE or not isinstance(source, Ranged):
        return None
    data = source.part(split, 0, min(length, split.size or length))
    with suppress(SourceError):
        return TextBeginning(unpack(data, packed, max(length, UNPACKED)), len(data))
    return None


def unpack(head: bytes, compression: str, most: int = UNPACKED) -> bytes:
    """Unpack the beginning of a packed stream, about ``most`` bytes.

    Nothing of zstd and lz4, which the standard library of Python 3.11 lacks.

    Raises:
        SourceError: the bytes are not what ``compression`` says.
    """
    if compression == "none":
        return head
    maker = _DECOMPRESSORS.get(compression)
    if maker is None:
        return b""
    decompressor = maker()
    out = bytearray()
    try:
        # No more than is wanted: 16 KiB of bz2 may hold 300 MB of zeros.
        for start in range(0, len(head), _STEP):
            out += decompressor.decompress(head[start : start + _STEP], most + 1 - len(out))
            if len(out) > most or getattr(decompressor, "eof", False):
                break
    except (zlib.error, OSError, lzma.LZMAError) as error:
        raise SourceError(
            f"cannot unpack it as {compression}: {error}",
            hint="Name the compression with --compression.",
        ) from error
    return bytes(out)


def _some(names: Mapping[str, object]) -> str:
    """Return the first name, and how many there are besides."""
    first, *others = names
    return f"{first} and {len(others)} more of the files looked at" if others else first


# --- no tables -----------------------------------------------------------------------------------


def _refuse_no_tables(heads: Mapping[str, bytes], options: Options) -> None:
    """Raise SourceError for the first object that is a document, a database or an archive."""
    for name, head in heads.items():
        for magic, what, hint in _NO_TABLES:
            if head.startswith(magic):
                raise SourceError(f"{name} is {what}, not a table", hint=_with_name(hint, name))
        if scheme := scheme_of_head(head):
            raise SourceError(
                f"{name} is a {NAMES[scheme]} database, not a table",
                hint=_with_name("Name it alone, as a local file: rowfall load FILE", name),
            )
        if head.startswith(_ZIP):
            if any(mark in head for mark in _SHEET):
                raise SourceError(
                    f"{name} is an Excel workbook or another office document, not a table",
                    hint="Save the sheet as CSV, or as Parquet.",
                )
            raise SourceError(
                f"{name} is a zip archive",
                hint=_with_name(f"{_AS_ARCHIVE} unzip FILE -d FOLDER", name),
            )
        if head[257:262] == b"ustar":
            raise SourceError(
                f"{name} is a tar archive", hint=_with_name(f"{_AS_ARCHIVE} tar xf FILE", name)
            )
        # A table may begin so, where its user says that it is one.
        start = head.removeprefix(codecs.BOM_UTF8).lstrip()[:64].lower()
        if options.format is None and start.startswith(_PAGES):
            what = "XML" if start.startswith(b"<?xml") else "an HTML page"
            raise SourceError(
                f"{name} is {what}, not a table",
                hint="A server may have answered with an error or a login page: look at the file. "
                "Where it is a table all the same, name its format with --format.",
            )
        if options.format is None and _is_json(name, head):
            raise SourceError(
                f"{name} is JSON, not what its name says",
                hint="A server may have answered with an error: look at the file. Where its rows "
                "are objects, name the format: --format json",
            )
        if options.format is None and (box := box_in(head)):
            raise SourceError(f"{name} is {box[0]}, not a table that can be read", hint=box[1])
        if options.format is None and start.startswith(_SCRIPTS):
            dump = start.startswith(_MYSQL)
            raise SourceError(
                f"{name} is a script of SQL, not a table",
                hint="Name it as --format MySQLDump."
                if dump
                else "Run it in its database, and load the table from there: postgresql:// and "
                "mysql:// are sources.",
            )


def _is_json(name: str, head: bytes) -> bool:
    """Tell whether a file with the name of delimited text holds an object of JSON."""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    named = formats.by_name(name.partition("?")[0] if "://" in name else name)[0]
    if not text.startswith(b"{") or named is None or named.kind is not Kind.TEXT:
        return False
    import json  # by files that begin so only

    for value in (text.partition(b"\n")[0], text):
        with suppress(ValueError):
            return isinstance(json.loads(value), dict)
    return False


def _refuse_packed(texts: Mapping[str, bytes], encoding: Encoding) -> None:
    """Raise SourceError for the first object that is packed twice."""
    for name, text in texts.items():
        outer, inner = compression_of(name, encoding), formats.sniff(text)[1]
        if "none" not in (outer, inner):
            command = f"{_PROGRAMS[outer]} -dc FILE | rowfall load -"
            raise SourceError(
                f"{name} is packed twice: {outer} around {inner}",
                hint=_with_name(f"Unpack it once: {command}", name),
            )


# Those whose output is looked at here, see :func:`unpack`.
_PROGRAMS = {"gzip": "gzip", "bz2": "bzip2", "xz": "xz"}


def _with_name(hint: str, name: str) -> str:
    """Return a hint whose command names the file, where it is one of this machine."""
    return hint if "://" in name else hint.replace("FILE", shlex.quote(name), 1)


# --- compression ---------------------------------------------------------------------------------


def _compression(
    heads: Sequence[FirstBytes], declared: Encoding, options: Options
) -> tuple[Encoding, tuple[str, ...]]:
    """Return the encoding with the compression that the objects really have.

    Raises:
        SourceError: they differ, or ``--compression`` says something else.
    """
    named = {head.name: compression_of(head.name, declared) for head in heads}
    found = {head.name: head.compression(named[head.name]) for head in heads}
    odd = {name: kind for name, kind in found.items() if kind != named[name]}
    if not odd:
        return declared, ()
    kinds = set(found.values())
    first = next(iter(odd))
    is_ = "not packed" if found[first] == "none" else found[first]
    if options.compression and "none" not in kinds:
        raise SourceError(
            f"{_some(odd)} is {is_}, and --compression says {declared.compression}",
            hint="Leave out --compression: what the first bytes say is used.",
        )
    if len(kinds) == 1 and not options.compression:
        was = named[first]
        said = "its name says nothing of that" if was == "none" else f"not {was}, as its name says"
        return replace(declared, compression=found[first]), (f"{_some(odd)} is {is_}: {said}",)
    if found[first] == "none":
        return declared, ()  # it fails alone, and the others land
    raise SourceError(
        f"{_some(odd)} is {is_}, and other files are not",
        hint="Give packed files the extension of what they are packed with, or load them alone.",
    )


# --- format --------------------------------------------------------------------------------------


def _format(
    texts: Mapping[str, bytes], encoding: Encoding, options: Options
) -> tuple[Encoding, tuple[str, ...]]:
    """Return the encoding with the format whose signature the objects have.

    Raises:
        SourceError: ``--format`` says something else, or only some have it.
    """
    if encoding.kind is Kind.TYPED:
        return encoding, ()
    if encoding.kind is Kind.JSON and not options.format and all(map(_is_features, texts.values())):
        features = formats.find("GeoJSON")
        read = Encoding(features.name, encoding.compression, features.kind)
        return read, (f"{_some(texts)} is GeoJSON: each feature is a row",)
    odd = {name: text for name, text in texts.items() if formats.sniff(text)[0]}
    if not odd:
        return encoding, ()
    first = next(iter(odd))
    found = formats.find(formats.sniff(texts[first])[0] or "")
    if options.format or len(odd) < len(texts):
        raise SourceError(
            f"{_some(odd)} is {found.name}, not {encoding.format}",
            hint=f"Load it on its own with --format {found.name}.",
        )
    read = Encoding(found.name, encoding.compression, found.kind)
    return read, (f"{_some(odd)} is {found.name}, whatever its name says",)


_COLLECTION = regex(rb'"type"\s*:\s*"FeatureCollection"')
_NEXT_OBJECT = regex(rb"\}\s*\n\s*\{[^\[\]{}]*\"FeatureCollection\"")


def _is_features(text: bytes) -> bool:
    """Tell whether JSON is one FeatureCollection, which says so in front of its features.

    Of lines that each hold one, each is a row.
    """
    front, named, _ = text.partition(b'"features"')
    begun = front.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"{")
    return (
        begun and bool(named) and bool(_COLLECTION.search(front)) and not _NEXT_OBJECT.search(text)
    )


# --- charset -------------------------------------------------------------------------------------


def _charset(
    texts: Mapping[str, bytes], encoding: Encoding, options: Options
) -> tuple[Encoding, tuple[str, ...]]:
    """Return the encoding with the charset of text that begins with the mark of UTF-16.

    Raises:
        DataError: none of the texts is UTF-8, and ``--encoding`` says nothing.
    """
    marked = {name: mark for name, text in texts.items() if (mark := charsets.marked(text))}
    if encoding.dialect is not None and encoding.dialect.charset != "utf-8":
        return encoding, ()  # named with --encoding
    for name, charset in marked.items():
        if charset not in charsets.CHARSETS:
            raise SourceError(
                f"{name} is {charset.upper()}, which is not read",
                hint=_with_name(
                    f"Convert it: iconv -f {charset} -t utf-8 FILE | rowfall load -", name
                ),
            )
    if marked and len(marked) == len(texts) and len(set(marked.values())) == 1:
        charset = next(iter(marked.values()))
        dialect = replace(encoding.dialect or Dialect(), charset=charset)
        return replace(encoding, dialect=dialect), (f"{_some(texts)} is {charset.upper()}",)
    wrong = [
        (name, text, at) for name, text in texts.items() if (at := charsets.invalid_at(text)) >= 0
    ]
    # Where only some are, they fail alone and say why, as do rows that may be left out.
    if len(wrong) == len(texts) and not (options.max_errors or options.max_error_ratio):
        if encoding.kind is Kind.TEXT and (charset := _sure_charset(wrong)):
            dialect = replace(encoding.dialect or Dialect(), charset=charset)
            return replace(encoding, dialect=dialect), (_told(wrong[0], charset),)
        name, text, at = wrong[0]
        raise not_utf8(name, text, at)
    return encoding, ()


def _sure_charset(wrong: Sequence[tuple[str, bytes, int]]) -> str:
    """Return the charset in which all texts hold words of a language, where only one is; or ""."""
    if any(charsets.guess(text) != "windows-1252" for _, text, _ in wrong):
        return ""
    from rowfall.core.charset_guess import sure_charset  # only what is not UTF-8 needs it

    # The last line may be cut within a character.
    found = {sure_charset(text[: text.rfind(b"\n") + 1] or text) for _, text, _ in wrong}
    return found.pop() if len(found) == 1 else ""


def _told(wrong: tuple[str, bytes, int], charset: str) -> WarningText:
    """Return what is said of text in a charset that nothing names, with a line of it."""
    name, text, at = wrong
    begin = text.rfind(b"\n", 0, at) + 1
    line = text[begin:].partition(b"\n")[0].rstrip(b"\r")[:_LINE]
    shown = line.decode(charsets.codec(charset), "ignore")
    return WarningText(
        f'{name} is not UTF-8 and is read as {charset}: "{shown}"; --encoding NAME reads '
        "it otherwise"
    )


def not_utf8(name: str, text: bytes, at: int) -> DataError:
    """Return the error about the byte at an offset that is not UTF-8."""
    line = text.count(b"\n", 0, at) + 1
    begin = text.rfind(b"\n", 0, at) + 1
    shown = _shown(text[max(begin, at - 20) : at + 20].partition(b"\n")[0])
    return DataError(
        f"{name} line {line} is not UTF-8: byte 0x{text[at]:02X} in {shown}",
        uri=name, line=line, value=shown,
        hint=f"{_readings(name, text, begin)}; --encoding binary loads the bytes as they are.",
    )  # fmt: skip


def _readings(name: str, text: bytes, begin: int) -> str:
    """Return the encodings that text may have, each with the line that begins there as it reads."""
    if (wide := charsets.guess(text)).startswith("utf-16"):
        first = charsets.decode(text, wide).partition("\n")[0].strip()[:_LINE]
        return f'Name its encoding: --encoding {wide} reads "{first}"'
    from rowfall.core.charset_guess import CONVERTED, shown_readings  # only what fails needs it

    line = text[begin : begin + _LINE].partition(b"\n")[0].rstrip(b"\r")
    whole = text[: text.rfind(b"\n") + 1]  # the last line may be cut within a character
    found = shown_readings(line, line if whole.isascii() else whole)
    reads = [f'--encoding {c} reads "{shown}"' for c, shown in found if c not in CONVERTED]
    reads = reads or ["--encoding windows-1252 takes any byte"]
    # Nothing stands where what was piped in could be read again.
    converted = [(c, shown) for c, shown in found if c in CONVERTED and name != "stdin"]
    if converted:
        command = f"iconv -f {converted[0][0]} -t utf-8 FILE | rowfall load - --table NAME"
        reads.append(f'{_with_name(command, name)} reads "{converted[0][1]}"')
    if converted and found[0] == converted[0]:
        reads.reverse()
    return f"Name its encoding: {', '.join(reads)}"


_LINE = 120  # bytes of the line that is shown: it may be cut within a character of two bytes


def _shown(text: bytes) -> str:
    """Return bytes for a message, those that are not text as escapes."""
    return '"' + text.decode("utf-8", "backslashreplace").strip("\r") + '"'
