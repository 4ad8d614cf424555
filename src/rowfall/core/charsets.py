"""Names of character encodings: what people write, and what WHATWG calls it. Pure."""

from __future__ import annotations

import difflib

from rowfall.core.errors import UsageError

UTF_8, BINARY = "utf-8", "binary"
CHARSETS = frozenset((
    UTF_8, "utf-16le", "utf-16be", "ibm866", "iso-8859-2", "iso-8859-3", "iso-8859-4", "iso-8859-5",
    "iso-8859-6", "iso-8859-7", "iso-8859-8", "iso-8859-10", "iso-8859-13", "iso-8859-14",
    "iso-8859-15", "iso-8859-16", "koi8-r", "koi8-u", "macintosh", "windows-874", "windows-1250",
    "windows-1251", "windows-1252", "windows-1253", "windows-1254", "windows-1255", "windows-1256",
    "windows-1257", "windows-1258", "x-mac-cyrillic", "gbk", "gb18030", "big5", "euc-jp",
    "iso-2022-jp", "shift_jis", "euc-kr",
))  # fmt: skip
"""Those that rowfall-decode reads."""

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
    near = difflib.get_close_matches(plain, known, 1)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"{name!r} is no character encoding that can be read",
        hint=f"{guess}Others are converted first: iconv -f {name} -t utf-8 FILE | rowfall load -.",
    )
