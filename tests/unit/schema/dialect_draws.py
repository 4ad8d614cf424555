"""Draws text files as people have them, by seed, each with the table that it holds.

A draw is a table (names, columns of many kinds), a way to write it (delimiter, quotes, escapes,
line ends, encoding), a header of some kind and at most two quirks (titles, comments, blank lines,
blanks before quotes, delimiters at line ends, short rows, ...). The weights are those of files as
they were met, not of what is hard. The table is what was written: no code of rowfall reads it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

WORDS = ("open", "paid", "late", "good", "north", "south", "red", "blue", "alpha", "beta")
NAMES = ("Anna", "Bob", "Chen", "Dora", "Emil", "Finn", "Gül", "Hana", "José", "Zoë")
CITIES = ("Oslo", "Bern", "Rome", "Lima", "Köln", "São Paulo", "New York", "Málaga")
COUNTRIES = ("Norway", "Italy", "Chad", "Peru", "Japan", "Kenya", "Spain", "India")


@dataclass
class Draw:
    """One file and what it holds.

    Attributes:
        names: of the columns, None where there is no header; rows are as wide.
        quirks: what is special about it, for people.
        ragged: some row is short, so that the file is refused.
    """

    seed: int
    data: bytes = b""
    suffix: str = ".csv"
    names: tuple[str, ...] | None = ()
    rows: list[list[str]] = field(default_factory=list)
    quirks: list[str] = field(default_factory=list)
    ragged: bool = False


def draw(seed: int) -> Draw:
    """Return the file of a seed."""
    made = random.Random(seed)
    one = Draw(seed)
    count = made.choice((2, 3, 5, 8, 13, 20, 40, 60))
    columns = _columns(made, count)
    kind = made.choices(
        ("plain", "spaced", "years", "number", "dates", "twice", "index", "codes", "odd", "none"),
        (52, 8, 5, 4, 2, 3, 5, 4, 3, 14),
    )[0]  # fmt: skip
    if kind in ("years", "dates", "number"):
        columns = _pivot(made, count, kind)
    elif kind == "index":
        columns = [("", [str(n) for n in range(count)]), *columns]
    elif kind == "none":
        # Words alone may be names as well as values: files without names hold numbers or times.
        numbers = [str(1000 + 7 * n) for n in range(count)]
        columns = [("", numbers), *columns]
    names = _headings(made, kind, [name for name, _ in columns])
    rows = [list(row) for row in zip(*(values for _, values in columns), strict=True)]
    one.quirks.append(f"{kind} names, {len(columns)} columns, {count} rows")
    one.names = None if kind == "none" else tuple(names)
    one.rows = rows
    _write(made, one)
    return one


# --- the table -----------------------------------------------------------------------------------


def _columns(made: random.Random, count: int) -> list[tuple[str, list[str]]]:
    start = made.randint(1, 5000)
    pick = made.choice

    def several(values: Sequence[str]) -> list[str]:
        return [pick(values) for _ in range(count)]

    def numbers(low: int, high: int) -> list[str]:
        return [str(made.randint(low, high)) for _ in range(count)]

    def money() -> list[str]:
        return [f"{made.uniform(0, 900):.2f}" for _ in range(count)]

    def days() -> list[str]:
        return [f"{made.randint(2015, 2024)}-{made.randint(1, 12):02d}-{made.randint(1, 28):02d}"
                for _ in range(count)]  # fmt: skip

    def sentence() -> str:
        text = " ".join(made.choices(WORDS, k=made.randint(1, 5)))
        odd = made.random()
        if odd < 0.15:
            return f"{text}, {pick(WORDS)}"
        if odd < 0.22:
            return f'the "{text}" one'
        if odd < 0.26:
            return f"{text}\n{pick(WORDS)}"
        return f"{text}; {pick(WORDS)}" if odd < 0.30 else text

    everything = {
        "id": [str(start + n) for n in range(count)],
        "order_id": [f"A-{made.randint(1000, 9999)}" for _ in range(count)],
        "name": several(NAMES),
        "city": several(CITIES),
        "country": several(COUNTRIES),
        "amount": money(),
        "price": money(),
        "quantity": numbers(0, 40),
        "population": numbers(1000, 9_000_000),
        "temperature": [f"{made.uniform(-20, 40):.1f}" for _ in range(count)],
        "share": [f"{made.random():.4f}" for _ in range(count)],
        "date": days(),
        "created_at": [f"{day} {made.randint(0, 23):02d}:{made.randint(0, 59):02d}:07"
                       for day in days()],
        "birthday": [".".join(reversed(day.split("-"))) for day in days()],
        "time": [f"{made.randint(0, 23):02d}:{made.randint(0, 59):02d}" for _ in range(count)],
        "active": several(("true", "false")),
        "status": several(("new", "open", "done")),
        "uuid": [f"{made.getrandbits(32):08x}-0000-4000-8000-{made.getrandbits(48):012x}"
                 for _ in range(count)],
        "email": [f"{pick(WORDS)}{n}@example.org" for n in range(count)],
        "phone": [f"+49 {made.randint(100, 999)} {made.randint(10000, 99999)}"
                  for _ in range(count)],
        "zip": [f"{made.randint(0, 99999):05d}" for _ in range(count)],
        "ratio": several(("16:9", "4:3", "21:9", "1:1")),
        "url": [f"https://example.org/{pick(WORDS)}?q={n}" for n in range(count)],
        "path": [f"C:\\data\\{pick(WORDS)}.txt" for _ in range(count)],
        "note": [sentence() for _ in range(count)],
        "user": [f"user_{made.randint(1, 400)}" for _ in range(count)],
    }  # fmt: skip
    names = made.sample(sorted(everything), made.choice((2, 3, 4, 5, 7, 10)))
    found = [(name, everything[name]) for name in names]
    for _, values in found:
        if made.random() < 0.12:  # some are missing
            for n in made.sample(range(count), max(1, count // 6)):
                values[n] = ""
    if all(not any(values) for _, values in found):
        found[0] = ("id", everything["id"])
    return found


def _pivot(made: random.Random, count: int, kind: str) -> list[tuple[str, list[str]]]:
    """Return a table of keys whose other columns are years, days, or have a number as a name."""
    width = made.randint(2, 6)
    if kind == "years":
        first = made.randint(1960, 2018)
        names = [str(first + n) for n in range(width)]
    elif kind == "dates":
        names = [f"2024-01-{n + 1:02d}" for n in range(width)]
    else:
        names = [made.choice(("2019", "2020", "2023"))]
    keys = made.sample(COUNTRIES, min(count, len(COUNTRIES)))
    rows = len(keys)
    fraction = made.random() < 0.5
    found = [(made.choice(("country", "Country", "state", "city")), keys)]
    for name in names:
        values = [f"{made.uniform(0, 90):.2f}" if fraction else str(made.randint(0, 90_000))
                  for _ in range(rows)]  # fmt: skip
        found.append((name, values))
    return found


def _headings(made: random.Random, kind: str, names: list[str]) -> list[str]:
    if kind == "spaced":
        return [name.replace("_", " ").title() for name in names]
    if kind == "twice":
        return [*names[:-1], names[0]]
    if kind == "codes":
        return [f"Q{n + 1}" for n in range(len(names))]
    if kind == "odd":
        marks = ("Größe", "Total $", "% of all", "E-Mail (work)", "Straße", "no.", "x/y")
        return [made.choice(marks) + (f" {n}" if n else "") for n in range(len(names))]
    return names


# --- how it is written ---------------------------------------------------------------------------


def _write(made: random.Random, one: Draw) -> None:
    mark = made.choices((",", ";", "\t", "|", "^"), (62, 20, 12, 5, 1))[0]
    tsv = mark == "\t" and made.random() < 0.5
    one.suffix = ".tsv" if tsv else ".csv"
    style = made.choices(("minimal", "all", "text"), (74, 16, 10))[0]
    end = made.choices(("\n", "\r\n", "\r"), (72, 26, 2))[0]
    escape = "\\" if made.random() < 0.03 and mark != "\t" else '"'
    quote = "'" if made.random() < 0.02 and mark == ";" else '"'
    quirks = set(made.choices(
        ("", "title", "comment", "blank lines", "blank end", "trailing", "blanks", "short", "nulls",
         "decimal comma", "spaces"),
        (80, 3, 3, 3, 4, 3, 3, 1, 2, 2, 2), k=2,
    ))  # fmt: skip
    if escape == "\\" or quote == "'" or any("\\" in v for row in one.rows for v in row):
        escape, quote = '"', '"'
    if tsv or mark == "\t":
        one.rows = [[v.replace("\n", " ").replace("\\", "/") for v in row] for row in one.rows]
        one.rows = [[v.replace('"', "") for v in row] for row in one.rows]
        quirks -= {"blanks", "trailing", "title", "comment"}
        style = "minimal"
    one.quirks += [f"delimiter {mark!r}", style, repr(end), *sorted(quirks - {""})]
    if "decimal comma" in quirks and mark == ";":
        one.rows = [[_comma(v) for v in row] for row in one.rows]
    if "nulls" in quirks:
        word = made.choice(("NA", "NULL", "N/A", "-"))
        one.rows = [[word if v == "" else v for v in row] for row in one.rows]
    table = [list(one.names), *one.rows] if one.names is not None else one.rows

    def field_of(text: str, *, heading: bool) -> str:
        number = bool(text) and text.replace(".", "").replace("-", "").isdigit()
        needs = mark in text or "\n" in text or "\r" in text or text.startswith(" ")
        needs |= quote in text and not tsv
        needs |= style == "all" or (style == "text" and not number and text != "" and not heading)
        if not needs:
            return text
        return quote + text.replace(quote, escape + quote) + quote

    joint = mark + " " if "blanks" in quirks and style != "minimal" else mark
    lines = []
    for n, row in enumerate(table):
        fields = [field_of(v, heading=n == 0 and one.names is not None) for v in row]
        if "spaces" in quirks and one.names is not None and n == 0:
            fields = [f"{f} " if f == f.strip() and '"' not in f and f else f for f in fields]
        lines.append(joint.join(fields))
    if "short" in quirks and len(one.rows) > 4 and len(table[0]) > 2 and "\n" not in lines[-1]:
        lines[-1] = mark.join(lines[-1].split(mark)[:-1])
        one.ragged = True
    if "trailing" in quirks and one.names is not None and mark == ";":
        lines = [line + mark for line in lines]
    body = int(one.names is not None)
    if "blank lines" in quirks and len(lines) > body + 1 and len(table[0]) > 1:
        lines.insert(made.randint(body + 1, len(lines) - 1), "")
    if "comment" in quirks and one.names is not None and len(table[0]) > 2:
        lines.insert(0, "# exported by a program")
    if "title" in quirks and one.names is not None and len(table[0]) > 2:
        lines[:0] = ["Report of March", ""]
    text = end.join(lines) + (end if made.random() < 0.85 else "")
    if "blank end" in quirks and len(table[0]) > 1:
        text += end * (1 + (not text.endswith(end)))
    charset = made.choices(("utf-8", "utf-8-sig", "windows-1252", "utf-16"), (82, 12, 4, 2))[0]
    if charset == "windows-1252" and not text.isascii():
        one.quirks.append(charset)
    one.data = text.encode("cp1252" if charset == "windows-1252" else charset)
    if charset == "utf-16":
        one.quirks.append(charset)


def as_meant(rows: list[list[str]]) -> list[list[str]]:
    """Return rows without the words for NULL in columns of numbers, dates, UUIDs and truth."""
    plain = re.compile(
        r"[-+]?\d+(\.\d+)?|\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d)?"
        r"|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|true|false"
    )
    words = ("", "NA", "NULL", "N/A")
    columns = [
        all(v.strip() in words or plain.fullmatch(v.strip()) for v in column)
        for column in zip(*rows, strict=True)
    ]
    return [
        ["" if own and v.strip() in words else v for v, own in zip(row, columns, strict=True)]
        for row in rows
    ]


def with_iso_days(rows: list[list[str]]) -> list[list[str]]:
    """Return rows whose columns of days, which are drawn as day, month, year, hold ISO's days."""
    written = re.compile(r"(\d\d)\.(\d\d)\.(\d{4})")
    columns = [[v.strip() for v in column] for column in zip(*rows, strict=True)]
    days = [
        all(written.fullmatch(v) for v in own if v not in ("", "NA", "NULL", "N/A"))
        for own in columns
    ]
    return [
        [written.sub(r"\3-\2-\1", v) if own else v for v, own in zip(row, days, strict=True)]
        for row in rows
    ]


def with_points(rows: list[list[str]]) -> list[list[str]]:
    """Return rows whose columns of numbers with decimal commas hold points."""
    number = re.compile(r"-?\d+(?:,\d+)?")
    columns = [[v.strip() for v in column] for column in zip(*rows, strict=True)]
    numbers = [
        all(number.fullmatch(v) for v in own if v not in ("", "NA", "NULL", "N/A"))
        for own in columns
    ]
    return [
        [v.replace(",", ".") if own else v for v, own in zip(row, numbers, strict=True)]
        for row in rows
    ]


def _comma(value: str) -> str:
    whole, point, rest = value.partition(".")
    return f"{whole},{rest}" if point and (whole.lstrip("-") + rest).isdigit() else value
