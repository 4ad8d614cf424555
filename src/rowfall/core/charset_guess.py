"""Tells which charsets text that is not UTF-8 may be written in, the likeliest first. Pure.

Nearly every charset decodes nearly every byte, and the wrong one gives letters, too. What tells
them apart is how the words look: letters of one script, capitals at their beginning, no signs
between letters, characters that texts use. So the words with such bytes are read in each charset,
and the best readings are shown to a person, who knows.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from rowfall.core import charsets
from rowfall.core.patterns import regex

CONVERTED = {"cp437": "cp437", "cp850": "cp850", "cp852": "cp852"}
"""Charsets of DOS: told, but not read by rowfall-decode; iconv and Python know them by these."""

_SINGLE = (
    "windows-1252", "macintosh", "cp850", "cp437", "windows-1250", "iso-8859-2", "windows-1254",
    "windows-1257", "windows-1251", "koi8-r", "ibm866", "iso-8859-5", "windows-1253",
    "windows-1255", "windows-1256", "windows-874", "cp852",
)  # fmt: skip
_DOUBLE = ("gb18030", "shift_jis", "euc-jp", "euc-kr", "big5")
_WORDS = 400  # with such bytes; a name or two may look right in any charset, so many do not
_WORD = re.compile(rb'[^\x00-\x20,;|"]*[\x80-\xff][^\x00-\x20,;|"]*')
# What languages write beside ASCII: those of the west, and of the middle and east of Europe.
_COMMON = frozenset("äöüÄÖÜßéèêëàâáçñóíúôîïûùãõœæøåÅÆØÉÇÑ€°–’“”")  # noqa: RUF001
_SIGNS = frozenset("©®°£§±²³½")  # stand alone, or behind a number
_RARER = frozenset("łńśćżźąęŁŚŻšžčřěůýďťňŠŽČŘőűığşİŞāēīūėųģķļ")


def guess_charsets(data: bytes, most: int = 3) -> list[str]:
    """Return charsets that read all of a text, the likeliest first; each reads it differently."""
    words = _WORD.findall(data)[:_WORDS]
    found = []
    for place, name in enumerate((*_DOUBLE, *_SINGLE)):
        try:
            texts = tuple(decode(word, name) for word in words)
        except UnicodeDecodeError:
            continue
        looks = _looks_double if name in _DOUBLE else _looks_single
        found.append((sum(looks(text, name) for text in texts), -place, name, texts))
    found.sort(reverse=True)
    best: dict[tuple[str, ...], str] = {}
    for _, _, name, texts in found:
        best.setdefault(texts, name)
    return list(best.values())[:most]


def decode(data: bytes, charset: str) -> str:
    """Return bytes as text.

    Raises:
        UnicodeDecodeError: they are not of the charset.
    """
    return data.decode(CONVERTED.get(charset) or charsets.codec(charset))


def _looks_single(word: str, charset: str) -> float:
    """Return a score for a word in a single-byte charset: about 1 for letters alone, less else."""
    points, foreign = 0.0, 0
    for before, letter, after in zip(f" {word}", word, f"{word[1:]} ", strict=False):
        if letter.isascii():
            continue
        foreign += 1
        kind = unicodedata.category(letter)
        beside = before.isalpha() or after.isalpha()
        if not beside and (letter in _SIGNS or kind[0] == "L"):
            points += 0.7 if letter in _SIGNS else 0.3  # few letters are words
        elif kind in ("Ll", "Lo", "Lm", "Mn"):
            points += 1
        elif kind == "Lu":
            inside = before.islower() or (before.isalpha() and after.islower())
            points += -2 if inside else 1
        elif kind[0] in "SPN":
            points -= 2 if beside else 0.3
        else:
            points -= 4
        points += 0.5 if letter in _COMMON else 0.35 if letter in _RARER else 0
    scripts = {unicodedata.name(c, "").partition(" ")[0] for c in word if c.isalpha()}
    if len(scripts) > 1:
        points -= 1.5 * foreign
    elif "LATIN" in scripts and foreign > 2 and foreign * 5 > len(word) * 3:
        points -= foreign  # no language writes words of accents alone
    return points / max(foreign, 1)


def _looks_double(word: str, charset: str) -> float:
    """Return a score for a word in a double-byte charset; 1 where its letters are frequent."""
    points, foreign = 0.0, 0
    for letter in word:
        if letter.isascii():
            continue
        foreign += 1
        try:
            high, low = letter.encode(_FREQUENT[charset][0])[:2]
        except (UnicodeEncodeError, ValueError):
            high = low = 0
        frequent = high in _FREQUENT[charset][1] and low >= _FREQUENT[charset][2]
        if "\u4e00" <= letter <= "\u9fff":
            points += -1.5 if charset == "euc-kr" else 1.1 if frequent else -0.6
        elif "\u3040" <= letter <= "\u30ff":
            points += 1.3 if charset in ("shift_jis", "euc-jp") else -0.8
        elif "\uac00" <= letter <= "\ud7a3":
            points += 1.2 if charset == "euc-kr" and frequent else -1.5
        else:
            points -= 1.3
    letters = [(a, b) for a, b in pairwise(word) if a.isalpha() and b.isalpha()]
    mixed = sum(a.isascii() != b.isascii() for a, b in letters)
    return (points - 0.9 * mixed) / max(foreign, 1)


# The codec whose order shows how frequent a letter is, its first bytes of frequent letters, and the
# least second byte.
_FREQUENT = {
    "gb18030": ("gb2312", range(0xB0, 0xD8), 0xA1),
    "shift_jis": ("euc-jp", range(0xB0, 0xD0), 0xA1),
    "euc-jp": ("euc-jp", range(0xB0, 0xD0), 0xA1),
    "euc-kr": ("cp949", range(0xB0, 0xC9), 0xA1),
    "big5": ("big5", range(0xA4, 0xC7), 0x40),
}


# Letters beside ASCII of languages, and the charsets of the machines that write them. A word of
# another one is none of these, whatever letters it gives: "Dvoøák" is no word of any language.
_WEST = ("äöüÄÖÜßéèà", "àâæçéèêëîïôœùûüÀÂÆÇÉÊËÎÏÔŒÙÛÜ", "áéíóúñüÁÉÍÓÚÑÜ",
         "ãáàâçéêíóôõúüÃÁÀÂÇÉÊÍÓÔÕÚ", "åäöæøÅÄÖÆØéüÉ", "àèéìòù")  # fmt: skip
_LANGUAGES: dict[str, tuple[str, ...]] = {
    "windows-1252": _WEST,
    "windows-1250": ("ąćęłńóśźżĄĆĘŁŃÓŚŹŻ", "áčďéěíňóřšťúůýžäôľÁČĎÉĚÍŇÓŘŠŤÚŮÝŽĽ",
                     "áéíóöőúüűÁÉÍÓÖŐÚÜŰ", "čćđšžČĆĐŠŽ", "äöüÄÖÜß"),
}  # fmt: skip
_LANGUAGES["iso-8859-2"] = _LANGUAGES["windows-1250"]
# What stands beside letters all the same, in front of words or behind them.
_ALONE = regex(
    "(?<![A-Za-z\u0400-\u04ff])[\u00ab\u201e\u201c\u2018\u2013\u2014\u2026\u2022\u00a7\u00a9\u00a0\u20ac\u00a3\u00b7]"
    "|[\u00bb\u201c\u201d\u2019\u2013\u2014\u2026\u2122\u00ae\u00a0\u20ac\u00a3\u00bd](?![A-Za-z\u0400-\u04ff])"
    "|(?<=[A-Za-z])\u2019(?=[A-Za-z])|\u00b0(?=[CFKcN]?(?:\\W|\\Z))|\u00b5(?=[a-zA-Z])"
    "|(?<=[a-z])[\u00b2\u00b3](?![A-Za-z])|\u2116(?=\\W|\\d)"
)
_SURE_ALONE = frozenset("\u20ac\u00b0\u00a7\u00a9\u00ae\u00b5\u00b2\u00b3\u00bd\u00a0")
# Letters in places where no language has them: those of Italian within a word, of Portuguese in
# front of others, capitals behind small letters, and those of two scripts side by side.
_CYRILLIC = "\u0400-\u04ff"
_MISPLACED = regex(
    "[\u00ec\u00f2\u00cc\u00d2](?=\\w)|\u00e3(?![oes\\W]|\\Z)|\u00f5(?!e)|[\u00c8\u00d9](?=[a-z])"
    f"|[\u0430-\u044f\u0451](?=[\u0410-\u042f])|[A-Za-z](?=[{_CYRILLIC}])|[{_CYRILLIC}](?=[A-Za-z])"
)


def sure_charset(data: bytes) -> str:
    """Return the charset by which all words of a text are of a language, where only one is; or "".

    What is not UTF-8 by one byte is damaged, or of several charsets: it reads as no language. Nor
    does Greek or Russian: words of either are letters of the other in its charset.
    """
    words = _WORD.findall(data)[:_WORDS]
    if not words:
        return ""
    found: dict[tuple[str, ...], str] = {}
    for name, languages in _LANGUAGES.items():
        try:
            texts = tuple(decode(word, name) for word in words)
        except UnicodeDecodeError:
            continue
        # Words of the west stand beside each other, names of people above all.
        ways = [languages] if name == "windows-1252" else [(one,) for one in languages]
        if _shows(name, texts) and any(all(_is_word(t, way) for t in texts) for way in ways):
            found.setdefault(texts, name)
    return next(iter(found.values())) if len(found) == 1 else ""


def _shows(charset: str, texts: tuple[str, ...]) -> bool:
    """Tell whether words hold enough: of the west one letter, of others two in two words."""
    held = {c for text in texts for c in text if not c.isascii()}
    letters = {c for c in held if c.isalpha()}
    if charset == "windows-1252":
        return bool(letters) or held <= _SURE_ALONE
    return len(letters) > 1 and len({*texts}) > 1


def _is_word(text: str, languages: tuple[str, ...]) -> bool:
    """Tell whether the letters of a word are those of one language, where it has them."""
    left = _ALONE.sub("", text)
    if _MISPLACED.search(left):
        return False
    letters = {c for c in left if not c.isascii()}
    return any(letters <= set(one) for one in languages)


def shown_readings(line: bytes, data: bytes) -> list[tuple[str, str]]:
    """Return charsets, the likeliest first, with a line as it reads in each.

    Args:
        data: all that is there to guess by; the line is a part of it.
    """
    readings: dict[str, str] = {}
    for charset in guess_charsets(data, 4):
        codec = CONVERTED.get(charset) or charsets.codec(charset)
        text = line.decode(codec, "ignore")  # the line may be cut within a character
        readings.setdefault(_BREAKS.sub(" ", text), charset)
    return [(charset, text) for text, charset in readings.items()][:3]


_BREAKS = regex(r"[\x00-\x1f\x7f-\x9f]+")
