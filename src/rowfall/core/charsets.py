"""Character encodings: their names as people and WHATWG write them, and what bytes show. Pure."""

from __future__ import annotations

import codecs

from rowfall.core.errors import UsageError

UTF_8, BINARY = "utf-8", "binary"
BOM = "\ufeff"
"""Byte order mark: the first character of many files that Windows writes."""
CHARSETS = frozenset((
    UTF_8, "utf-16le", "utf-16be", "ibm866", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5",
    "iso-8859-6", "iso-8859-7", "iso-8859-8", "iso-8859-10", "iso-8859-13", "iso-8859-14",
    "iso-8859-15", "iso-8859-16", "koi8-r", "koi8-u", "macintosh", "windows-874", "windows-1250",
    "windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255", "windows-1256",
    "windows-1257", "windows-1258", "x-mac-cyrillic", "gbk", "gb18030", "big5", "euc-jp",
    "iso-2022-jp", "shift_jis", "euc-kr",
))  # fmt: skip
"""Character encodings that rowfall-decode reads."""

# windows-1252 is Latin-1 with letters where that has control characters that no text uses.
_ALIASES = {
    "utf8": UTF_8, "utf-8-sig": UTF_8, "ascii": UTF_8, "us-ascii": UTF_8,
    "utf-16": "utf-16le", "utf16": "utf-16le", "unicode": "utf-16le", "ucs-2": "utf-16le",
    "utf16le": "utf-16le", "utf16be": "utf-16be", "utf-16-le": "utf-16le", "utf-16-be": "utf-16be",
    "latin-1": "windows-1252", "latin1": "windows-1252", "l1": "windows-1252",
    "iso-8859-1": "windows-1252", "iso8859-1": "windows-1252", "ansi": "windows-1252",
    "latin-2": "iso-8859-2", "latin2": "iso-8859-2", "latin-9": "iso-8859-15",
    "latin9": "iso-8859-15", "iso-8859-9": "windows-1254", "latin-5": "windows-1254",
    "latin5": "windows-1254", "iso-8859-11": "windows-874", "mac": "macintosh",
    "mac-roman": "macintosh", "macroman": "macintosh", "sjis": "shift_jis", "cp932": "shift_jis",
    "shift-jis": "shift_jis", "ms932": "shift_jis", "eucjp": "euc-jp", "gb2312": "gbk",
    "cp936": "gbk", "cp949": "euc-kr", "cp950": "big5", "cp866": "ibm866", "koi8": "koi8-r",
    "bytes": BINARY,
} | {f"cp{n}": f"windows-{n}" for n in (874, *range(1250, 1259))}  # fmt: skip


def find(name: str) -> str:
    """Return the name that WHATWG gives a character encoding, or ``binary``.

    Raises:
        UsageError: it is none that can be read.
    """
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    plain = _ALIASES.get(plain, "shift_jis" if plain == "shift-jis" else plain)
    if plain in CHARSETS or plain == BINARY:
        return plain
    known = sorted({*CHARSETS, *_ALIASES, BINARY})
    import difflib  # 2 ms that others save

    near = difflib.get_close_matches(plain, known, 1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"{name!r} is not a character encoding that can be read",
        hint=f"{guess}Others are converted first: iconv -f {name} -t utf-8 FILE | rowfall load -",
    )


# That of UTF-32 begins with that of UTF-16.
_MARKS = ((codecs.BOM_UTF32_LE, "utf-32le"), (codecs.BOM_UTF32_BE, "utf-32be"),
          (codecs.BOM_UTF16_LE, "utf-16le"), (codecs.BOM_UTF16_BE, "utf-16be"))  # fmt: skip
# What WHATWG calls them and Python does not.
_CODECS = {
    "windows-1252": "cp1252", "macintosh": "mac-roman", "windows-874": "cp874", "ibm866": "cp866",
    "x-mac-cyrillic": "mac-cyrillic", "shift_jis": "cp932", "euc-kr": "cp949", "big5": "cp950",
    "utf-32le": "utf-32-le", "utf-32be": "utf-32-be",
}  # fmt: skip


def marked(data: bytes) -> str:
    """Return the charset that a byte order mark names, "" for UTF-8 and for none."""
    return next((charset for mark, charset in _MARKS if data.startswith(mark)), "")


def guess(data: bytes) -> str:
    """Return the charset that the beginning of a text most likely has; it may be cut anywhere."""
    if wide := marked(data):
        return wide
    # Every other byte of UTF-16 is zero, which UTF-8 allows and nobody writes.
    even, odd = data[:4096:2].count(0), data[1:4096:2].count(0)
    if max(even, odd) > min(len(data), 4096) // 8:
        return "utf-16be" if even > odd else "utf-16le"
    return UTF_8 if _wrong_at(data) < 0 else "windows-1252"


def invalid_at(data: bytes) -> int:
    """Return the offset of the first byte that is not UTF-8; -1 where there is none.

    The last character may be cut.
    """
    at = _wrong_at(data)
    return data.find(0) if at < 0 and guess(data).startswith("utf-16") else at


def _wrong_at(data: bytes) -> int:
    try:
        codecs.getincrementaldecoder(UTF_8)().decode(data)
    except UnicodeDecodeError as error:
        return error.start
    return -1


def decode(data: bytes, charset: str) -> str:
    """Return bytes as text for a look at it: what is not of the charset is replaced."""
    return data.decode(codec(charset), errors="replace")


def codec(charset: str) -> str:
    """Return the name that Python gives a charset."""
    return _CODECS.get(charset, charset)


def names_binary(encoding: str | None) -> bool:
    """Tell whether an answer of ``--encoding`` means bytes that are not text."""
    return encoding is not None and find(encoding) == BINARY
