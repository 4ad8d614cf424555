"""Numbers for people and back: sizes, counts, rates, durations. Pure text, no I/O.

One convention everywhere: what is read, written or done per second counts in powers of ten
(GB, MB/s, M rows/s), as disks and networks do; memory counts in powers of two (GiB), as limits
of machines do. Every number has three significant digits, so that its width stays put.
"""

from __future__ import annotations

import json
import math
import re

from rowfall.core.errors import UsageError
from rowfall.core.patterns import regex

_SI = ("", "k", "M", "G", "T", "P", "E")
_IEC = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_NUMBER = regex(r"(\d[\d_]*\.?\d*(?:e\+?\d+)?)\s*([a-z]*)\Z", re.IGNORECASE)
_PERCENT = regex(r"(\d{1,3}(?:\.\d{1,4})?)\s*%?\Z")
SHARES = 1_000_000
"""Shares in which rows can be counted: a percentage has four decimal places."""
_RANGE = regex(r"\[\d+:\d+\]\Z")  # behind the name of a file, see Split.name
_PAIRS = ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s"))
_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def _scaled(value: float, base: float, steps: int) -> tuple[str, int]:
    """Return three digits and the power of ``base``; 999.6 takes the next power, never ``1000``."""
    power = 0
    value = max(value, 0.0)
    while power < steps - 1 and round(value) >= 1000:
        value /= base
        power += 1
    if power == 0 and value == int(value):
        return str(int(value)), 0
    for digits in (2, 1):
        if round(value, digits) < 10 ** (3 - digits):
            return f"{value:.{digits}f}", power
    return f"{value:.0f}", power


def count(value: float) -> str:
    """Return ``42``, ``42.1k``, ``1.00G``: at most five characters up to 10^21."""
    digits, power = _scaled(value, 1000.0, len(_SI))
    return digits + _SI[power]


def exact(value: int) -> str:
    """Return ``1,000,000``."""
    return f"{value:,}"


def counted(number: int, noun: str) -> str:
    """Return ``1 split``, ``2,000 splits``."""
    return f"{exact(number)} {noun}" + ("" if number == 1 else "s")


def size(value: float) -> str:
    """Return stored or moved bytes in powers of ten: ``4.20 GB``."""
    digits, power = _scaled(value, 1000.0, len(_SI))
    return f"{digits} {_SI[power]}B"


def size_of(done: float, total: float) -> str:
    """Return ``4.20/10.0 GB``, both in the unit of the total so that only digits change."""
    digits, power = _scaled(total, 1000.0, len(_SI))
    done = max(done, 0.0) / 1000.0**power
    places = len(digits.partition(".")[2])
    return f"{done:.{places}f}/{digits} {_SI[power]}B"


def memory(value: float) -> str:
    """Return memory in powers of two: ``2.10 GiB``."""
    digits, power = _scaled(value, 1024.0, len(_IEC))
    return f"{digits} {_IEC[power]}"


def row_rate(value: float) -> str:
    """Return ``5.12M rows/s``."""
    return f"{count(value)} rows/s"


def byte_rate(value: float) -> str:
    """Return ``512 MB/s``."""
    return f"{size(value)}/s"


def duration(seconds: float) -> str:
    """Return ``0.42 s``, ``8.1 s``, ``1 min 23 s``, ``1 h 2 min``, ``3 d 4 h``: two units at most.

    A second unit of 0 is left out.
    """
    if not math.isfinite(seconds):
        return "?"
    seconds = max(seconds, 0.0)
    for limit, digits in ((0.995, 2), (59.95, 1)):
        if seconds < limit:
            return f"{seconds:.{digits}f} s"
    whole = round(seconds)
    for large, small, above, below in _PAIRS:
        if whole >= large:
            rest = whole % large // small
            return f"{whole // large:,} {above}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def forecast(seconds: float) -> str:
    """Return a duration that is estimated: no parts of a second."""
    if seconds < 1:
        return "less than a second"
    return f"about {f'{seconds:.0f} s' if seconds < 59.5 else duration(seconds)}"


def clock(seconds: float) -> str:
    """Return ``1m 23s`` for a line that is redrawn: whole seconds, at most seven characters."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    days = whole // 86400
    if days < 100:
        return f"{days}d {whole % 86400 // 3600:02}h"
    return f"{days}d" if days < 1000 else "999d+"


def percent(share: float) -> str:
    """Return ``42 %``; under one per cent ``0.4 %`` or ``<0.1 %``: small is never shown as 0."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0 < share < 0.0095:
        return f"{share * 100:.1f} %"
    return f"{share * 100:.0f} %"


def parse_size(text: str) -> int:
    """Return the bytes of ``4GiB``, ``512m``, ``1.5 GB``, ``1000000``.

    ``KiB``, ``MiB``... and the bare letters ``k``, ``m``, ``g``, ``t`` are powers of two, as in
    limits of containers; ``kB``, ``MB``, ``GB`` are powers of ten.
    """
    found = _NUMBER.match(text.strip())
    if found:
        number, unit = found.groups()
        unit = unit.lower()
        power = _POWERS.get(unit[:1], 0)
        base = 0
        if unit in ("", "b"):
            base = 1
        elif power and unit[1:] in ("", "i", "ib"):
            base = 1024
        elif power and unit[1:] == "b":
            base = 1000
        if base and math.isfinite(value := float(number.replace("_", "")) * base**power):
            return int(value)
    raise UsageError(f"{text!r} is not a size", hint="Sizes look like 4GiB, 512m or 1.5GB.")


def parse_duration(text: str) -> float:
    """Return the seconds of ``90``, ``30s``, ``5m``, ``1.5h``, ``1d``.

    Raises:
        UsageError: it is none, or 0.
    """
    found = _NUMBER.match(text.strip())
    if found:
        number, unit = found.groups()
        seconds = float(number.replace("_", "")) * _SECONDS.get(unit.lower(), 0)
        if 0 < seconds < math.inf:
            return seconds
    raise UsageError(f"{text!r} is not a duration", hint="Durations look like 30s, 5m or 1.5h.")


def parse_rows(text: str) -> int:
    """Return the rows of ``1e8``, ``100_000_000``, ``1.5M``, ``2G``; always powers of ten."""
    found = _NUMBER.match(text.strip())
    if found:
        number, unit = found.groups()
        power = _POWERS.get(unit.lower(), 0)
        value = float(number.replace("_", "")) * 1000**power
        if (power or not unit) and math.isfinite(value):
            plain = number.replace("_", "")
            # Whole numbers go round the float: above 2^53 it would lose digits.
            rows: int = int(plain) * 1000**power if plain.isdigit() else round(value)
            if rows > 0:
                return rows
    raise UsageError(
        f"{text!r} is not a number of rows", hint="Row counts look like 1e8, 1.5M or 100_000_000."
    )


def parse_share(text: str) -> int:
    """Return the millionths that a percentage names, as in ``1%``.

    Raises:
        UsageError: it is none above 0 and at most 100, to four places.
    """
    found = _PERCENT.match(text.strip())
    share = round(float(found[1]) * SHARES / 100) if found else 0
    if not 0 < share <= SHARES:
        raise UsageError(
            f"{text!r} is not a share of the rows",
            hint="Write it as 1%: more than 0 and at most 100, to four decimal places.",
        )
    return share


# What a terminal obeys instead of showing it: C0 (but tab and newline), DEL, C1, and what turns the
# order of the letters around, which makes a name look like another.
_COMMANDS = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# What rich writes: colours, one line up, to the first column, the rest erased, the cursor shown.
_STYLES = regex(r"\x1b\[[\d;]*m|\x1b\[\d*[AK]|\x1b\[\?25[hl]|\r")


def for_terminal(text: str, *, styled: bool = False) -> str:
    """Return ``text`` without what a terminal would obey: control characters are escaped.

    Args:
        styled: it was made by rich, whose own sequences stay.
    """
    if text.isascii() and text.isprintable():
        return text
    if not styled:
        return _COMMANDS.sub(lambda found: ascii(found[0])[1:-1], text)
    plain, kept = _STYLES.split(text), _STYLES.findall(text)
    parts = [for_terminal(part) for part in plain]
    return "".join(one + more for one, more in zip(parts, [*kept, ""], strict=True))


def as_json(document: object, indent: int | None = None) -> str:
    """Return JSON in ASCII, DEL escaped as well: a terminal shows it as it is."""
    return json.dumps(document, indent=indent).replace("\x7f", "\\u007f")


def printable(text: str) -> str:
    """Return ``text`` on one line without control characters, which file names may hold."""
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    return " " if char in "\t\n\r" else ascii(char)[1:-1]


def failure(split: str, error: str) -> str:
    """Return ``error`` with the split in front, unless it names that or a line of its file."""
    file = _RANGE.sub("", split)
    return error if error.startswith((split, f"{file} line ")) else f"{split}: {error}"
