"""Finds numbers with a currency, a percent sign or the signs of bookkeepers: SQL reads them. Pure.

No option does: what the sign means (of which currency, a part of what) is for a person to say. The
SQL takes nothing but what it was made for, so a value behind the sample is refused. Amounts of
several currencies are said without any SQL: one number would lose which it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.patterns import regex

_CODES = ("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF", "RON",
          "RUB", "TRY", "BRL", "MXN", "CAD", "AUD", "NZD", "INR", "ZAR")  # fmt: skip
_SYMBOLS = "[$€£¥₹₽₩₺]|US\\$|R\\$|zł|kr|Kč|" + "|".join(_CODES)
_BLANKS = " \u00a0\u202f"
_VALUE = regex(
    rf"(?P<open>\()?(?P<minus>-)?(?P<before>(?:{_SYMBOLS})[{_BLANKS}]?)?(?P<inner>-)?"
    rf"(?P<number>\d(?:[\d.,'{_BLANKS}]*\d)?)(?P<after>[{_BLANKS}]?(?:{_SYMBOLS}|%))?(?P<end>-)?"
    r"(?P<close>\))?"
)
# No unit begins so: none has more letters than a currency.
_WORD = regex(r"[A-Za-z]{4}")
# Marks before decimals and between three digits, the common ones first.
_MARKS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (",", "\u00a0"),
          (",", "\u202f"), (".", "'"), (".", " "))  # fmt: skip


@dataclass(frozen=True, slots=True)
class OddNumbers:
    """Notation of all numbers of a column.

    Attributes:
        marks: before decimals and between three digits; two where nobody can tell which.
        before, after: what stands beside digits, with its blank; "" where nothing does.
        signs: how negative ones are written, of ``(``, ``-``, ``$-`` and ``5-``.
    """

    marks: Sequence[tuple[str, str]]
    before: Sequence[str]
    after: Sequence[str]
    signs: frozenset[str]


def may_be(value: str) -> bool:
    """Tell whether a value may be one of such numbers."""
    # Most columns of text hold words, for which the pattern is not compiled (4 ms).
    digits = any(map(str.isdigit, value))
    return digits and not _WORD.match(value) and _VALUE.fullmatch(value) is not None


_UNITS = (*"$€£¥₹₽₩₺%", "zł", "kr", "Kč", *_CODES)


def have_signs(values: Sequence[str]) -> bool:
    """Tell whether some value may have a unit, or be negative as bookkeepers write it.

    1 ms for 20,000 of them.
    """
    text = "\n".join(values) + "\n"
    return "(" in text or "-\n" in text or "- " in text or any(unit in text for unit in _UNITS)


def has_unit(value: str) -> bool:
    """Tell whether a value is a number with a currency or a percent sign beside it."""
    found = _VALUE.fullmatch(value)
    return found is not None and _unit(found) != ""


def of_several_units(values: Counter[str]) -> tuple[str, str] | None:
    """Return two amounts of which one has another currency or sign than the other, or none.

    None where all have the same, or some value is no number, or is a code.
    """
    by_unit: dict[str, str] = {}
    for value in values:
        found = _VALUE.fullmatch(value)
        if found is None or _sign(found) is None or _is_code(found["number"]):
            return None
        by_unit.setdefault(_unit(found), value)
    return (*by_unit.values(),)[:2] if len(by_unit) > 1 else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class NumberParts:
    """Numbers of a column, taken apart.

    Attributes:
        found: a match of each.
        digits: with their marks, without signs.
        unit: beside the digits of all; "" for none.
        bookkept: some are negative by brackets, or by a minus behind them.
        negative: some are.
    """

    found: Sequence[re.Match[str]]
    digits: tuple[str, ...]
    unit: str
    bookkept: bool
    negative: bool


def parts_of(values: Counter[str]) -> NumberParts | None:
    """Return the numbers of a column; None where some are none, or have different units."""
    parts = []
    for value in values:
        found = _VALUE.fullmatch(value)
        if found is None:
            return None
        parts.append(found)
    signs = [_sign(own) for own in parts]
    units = {_unit(own) for own in parts}
    if not parts or None in signs or len(units) != 1 or {"$-", "5-"} <= {*signs}:
        return None
    if any(own["before"] and own["after"] for own in parts):
        return None
    digits = tuple(own["number"] for own in parts)
    if any(map(_is_code, digits)):
        return None
    unit = units.pop()
    odd = {"(", "5-"}.intersection(signs)
    # (1) and 5- alone may be anything but amounts.
    cents = any(re.search(r"[.,]\d\d\Z", n) for n in digits)
    if not unit and odd and odd == {*signs} and not cents:
        return None
    return NumberParts(parts, digits, unit, bool(odd), any(signs))


def odd_numbers(values: Counter[str]) -> OddNumbers | None:
    """Return how the values of a column are written, all with one sign beside them, or in brackets.

    None where some are no such numbers, all are plain, or hold amounts of several currencies.
    """
    own_parts = parts_of(values)
    if own_parts is None or not (own_parts.unit or own_parts.bookkept):
        return None
    parts, numbers = own_parts.found, own_parts.digits
    signs = [_sign(own) for own in parts]
    read: dict[tuple[str, ...], tuple[str, str]] = {}
    for marks in _MARKS:
        pattern = re.compile(_digits(*marks))
        if all(map(pattern.fullmatch, numbers)):
            plain = tuple(n.replace(marks[1], "").replace(marks[0], ".") for n in numbers)
            read.setdefault(plain, marks)
    if not read:
        return None
    return OddNumbers(
        tuple(read.values())[:2], sorted({own["before"] or "" for own in parts}),
        sorted({own["after"] or "" for own in parts}), frozenset(filter(None, signs)),
    )  # fmt: skip


def reading(column: str, found: OddNumbers, marks: tuple[str, str]) -> str:
    """Return SQL that makes a number of a text, and raises where it is not written so.

    Args:
        column: as SQL names it.
    """
    decimal, thousands = marks

    def number(opened: str = "", closed: str = "", inner: str = "") -> str:
        shape = f"^{opened}{_one_of(found.before)}{inner}({_digits(decimal, thousands)})"
        text = f"extract({column}, {_shown(f'{shape}{_one_of(found.after)}{closed}$')})"
        for mark, plain in ((thousands, ""), (decimal, ".")):
            if mark and mark != plain:
                text = f"replaceAll({text}, {_shown(mark)}, {_shown(plain)})"
        return f"toFloat64({text})"

    made = number()
    if "5-" in found.signs:
        made = f"if(endsWith({column}, '-'), -{number(closed='-')}, {made})"
    if "$-" in found.signs:
        made = f"if(position({column}, '-') > 1, -{number(inner='-')}, {made})"
    if "-" in found.signs:
        made = f"if(startsWith({column}, '-'), -{number(opened='-')}, {made})"
    if "(" in found.signs:
        made = f"if(startsWith({column}, '('), -{number('[(]', '[)]')}, {made})"
    return made


def _shown(text: str) -> str:
    """Return a literal that a terminal shows, and that can be copied from there: blanks of others
    are written as their bytes.
    """
    found = sql.literal(text)
    for blank in _BLANKS[1:]:
        found = found.replace(blank, "".join(f"\\x{byte:02X}" for byte in blank.encode()))
    return found


def _unit(own: re.Match[str]) -> str:
    return (own["before"] or own["after"] or "").strip(_BLANKS)


def _is_code(number: str) -> bool:
    return len(number) > 1 and number[0] == "0" and number[1].isdigit()


def _sign(own: re.Match[str]) -> str | None:
    """Return how a value is negative, "" for those that are not; None where it is no number."""
    if bool(own["open"]) != bool(own["close"]):
        return None
    signs = [
        sign
        for part, sign in (("open", "("), ("minus", "-"), ("inner", "$-"), ("end", "5-"))
        if own[part]
    ]
    return "".join(signs) if len(signs) < 2 else None


def _digits(decimal: str, thousands: str) -> str:
    """Return the pattern of a number without a sign, as Python and the engine have it."""
    whole = f"(?:[0-9]{{1,3}}(?:{_as_letter(thousands)}[0-9]{{3}})+|[0-9]+)"
    return f"{whole if thousands else '[0-9]+'}(?:{_as_letter(decimal)}[0-9]+)?"


def _as_letter(mark: str) -> str:
    return "[.]" if mark == "." else mark


def _one_of(texts: Sequence[str]) -> str:
    found = [re.sub(r"[$]", "[$]", text) for text in texts if text]
    if not found:
        return ""
    alone = found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"
    return alone if "" not in texts else f"(?:{'|'.join(found)})?"
