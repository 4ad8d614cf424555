"""Makes texts in hundreds of dialects, each with what is true of it.

``PYTHONPATH=tests python -m unit.schema.text_shapes`` writes docs/reference/sniffing.md.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from rowfall.core import formats
from rowfall.core.dialect import FoundDialect, TextSample, sniff
from rowfall.core.errors import UsageError
from rowfall.schema.text import text_format

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "sniffing.md"

MARKS = (",", ";", "\t", "|", "^", "~", "\x01", " ", ":", "||", "::")
ROWS = 24


@dataclass(frozen=True, slots=True)
class Shape:
    """One text and the truth about it.

    Attributes:
        group: what is special about it.
        plain: both readers take it as it is.
        ragged: some row has another number of fields: found while loading at the latest.
    """

    group: str
    name: str
    data: bytes
    delimiter: str
    header: bool
    columns: int
    plain: bool = True
    ragged: bool = False


Table = tuple[tuple[str, ...], list[list[str]]]


def tables() -> dict[str, Table]:
    """Return tables of different kinds: names and rows."""
    made = random.Random(17)
    people = ("Anna", "Bob", "Chen", "Dora", "Emil", "Finn", "Gül", "Hana")
    cities = ("Oslo", "Bern", "Rome", "Lima", "Köln")
    return {
        "people": (
            ("id", "name", "city", "joined", "amount"),
            [[str(n + 1), made.choice(people), made.choice(cities), f"2024-03-{n + 1:02d}",
              f"{made.uniform(1, 900):.2f}"] for n in range(ROWS)],
        ),
        "text": (
            ("First name", "City", "Remark"),
            [[made.choice(people), made.choice(cities),
              " ".join(made.choices(("good", "late", "paid", "open"), k=made.randint(1, 4)))]
             for _ in range(ROWS)],
        ),
        "sensor": (
            ("at", "value", "ok"),
            [[f"2024-03-01T10:{n:02d}", str(made.randint(-40, 400)), made.choice(("true", "false"))]
             for n in range(ROWS)],
        ),
        "numbers": (
            ("a", "b", "c", "d"),
            [[str(made.randint(0, 9999)) for _ in range(4)] for _ in range(ROWS)],
        ),
        "odd names": (
            ("", "Order ID", "Total $", "Total $", "2019"),
            [[str(n), f"A{made.randint(100, 999)}", f"{made.uniform(1, 90):.1f}", "3", "7"]
             for n in range(ROWS)],
        ),
        "users": (
            ("user", "state", "plan"),
            [[f"user_{n}", made.choice(("active", "idle")), made.choice(("free", "pro", "team"))]
             for n in range(ROWS)],
        ),
        "codes": (
            ("CODE", "Land", "E-Mail"),
            [[made.choice(("DE", "FR", "NO")), made.choice(("Köln", "Oslo", "Lyon")),
              f"{made.choice(people).lower()}{n}@example.org"] for n in range(ROWS)],
        ),
        "one column": (("amount",), [[f"{made.uniform(1, 90):.2f}"] for _ in range(ROWS)]),
        "years": (
            ("country", "2019", "2020", "2021"),
            [[made.choice(cities), *(f"{made.uniform(1, 90):.2f}" for _ in range(3))]
             for _ in range(ROWS)],
        ),
    }  # fmt: skip


def written(
    rows: Sequence[Sequence[str]], mark: str, *, quote: str = '"', escape: str = "",
    every: bool = False, end: str = "\n", last: bool = True, tail: str = "",
) -> str:  # fmt: skip
    """Return rows as text."""

    def field(text: str) -> str:
        needs = every or mark in text or "\n" in text or (bool(quote) and quote in text)
        if not needs or not quote:
            return text
        return quote + text.replace(quote, (escape or quote) + quote) + quote

    lines = [mark.join(map(field, row)) + tail for row in rows]
    return end.join(lines) + (end if last else "")


def shapes() -> Iterator[Shape]:
    """Give all shapes."""
    known = tables()
    for (title, (names, rows)), mark, header, every in product(
        known.items(), MARKS, (True, False), (False, True)
    ):
        if title == "one column" and mark != ",":
            continue
        if mark in " :" and (
            title in ("text", "sensor", "users", "codes") or (title == "odd names" and header)
        ):
            continue  # in times and sentences
        if not header and title in ("odd names", "years"):
            continue
        body = [list(names), *rows] if header else rows
        text = written(body, mark, every=every)
        how = f"{title}, {formats.spelled(mark)}, {'header' if header else 'no header'}"
        yield Shape(
            "delimiters and headers", how + (", all quoted" if every else ""), text.encode(), mark,
            header, len(names), len(mark) == 1,
        )  # fmt: skip
    for title, mark, header in product(("people", "numbers"), (",", ";", "\t", "|"), (True, False)):
        names, rows = known[title]
        body = [list(names), *rows] if header else rows
        yield from _variants(title, mark, header, body, names)


def _variants(
    title: str, mark: str, header: bool, body: list[list[str]], names: Sequence[str]
) -> Iterator[Shape]:
    said = f"{title}, {formats.spelled(mark)}, {'header' if header else 'no header'}"

    def made(group: str, text: str | bytes, *, plain: bool = True, ragged: bool = False) -> Shape:
        data = text if isinstance(text, bytes) else text.encode()
        return Shape(group, said, data, mark, header, len(names), plain, ragged)

    text = written(body, mark)
    yield made("CRLF", written(body, mark, end="\r\n"))
    yield made("CR alone", written(body, mark, end="\r"), plain=False)
    yield made("no last line end", written(body, mark, last=False))
    yield made("UTF-8 with a mark", "\ufeff" + text)
    yield made("Latin-1", text.replace("Anna", "Jörg").replace("1", "1", 1).encode("latin-1"),
               plain="ö" not in text and "Anna" not in text)  # fmt: skip
    yield made("UTF-16 with a mark", text.encode("utf-16"), plain=False)
    yield made("a title before", "Report of March\n\n" + text, plain=False)
    yield made(
        "comment lines", "# made by hand\n" + text.replace("\n", "\n# half\n", 9), plain=False
    )
    if header or mark == "|":
        yield made("delimiter behind all lines", written(body, mark, tail=mark))
    if header:
        rest = written(body[1:], mark, tail=mark)
        yield made("delimiter behind rows only", written(body[:1], mark) + rest)
    for word in ("", "NULL", "NA", "\\N", "-"):
        rows = [[word if (r + c) % 7 == 3 and r > 1 else v for c, v in enumerate(row)]
                for r, row in enumerate(body)]  # fmt: skip
        yield made(f"null is {word or 'nothing'}", written(rows, mark))
    first = int(header)
    longer = [[*row, "x"] if n == first + 5 else row for n, row in enumerate(body)]
    yield made("one row longer", written(longer, mark), ragged=True)
    shorter = [row[:-1] if n == first + 5 else row for n, row in enumerate(body)]
    yield made("one row shorter", written(shorter, mark), ragged=True)
    if title == "people":
        inside = [[*row[:1], f'{row[1]}{mark} "Jr."\nthe {n}th', *row[2:]] if n >= first else row
                  for n, row in enumerate(body)]  # fmt: skip
        yield made("delimiters and line breaks inside", written(inside, mark))
        yield made("backslash before quotes", written(inside, mark, escape="\\"), plain=False)
        single = [[f.replace('"', "") for f in row] for row in inside]
        yield made("single quotes", written(single, mark, quote="'"), plain=False)
    if mark != ",":
        comma = [[f.replace(".", ",") if c == len(row) - 1 else f for c, f in enumerate(row)]
                 for row in body]  # fmt: skip
        yield made("decimal comma", written(comma, mark))


RIGHT, REFUSED, WARNED, WRONG = "right", "refused", "warned", "wrong"


def judge(shape: Shape) -> tuple[str, FoundDialect | None]:
    """Return what becomes of a shape, and what was found.

    A shape that no reader takes has to be found, so that it can be rewritten or refused.
    """
    try:
        found = sniff([TextSample("x.csv", shape.data, whole=True)])
    except UsageError:
        return REFUSED, None
    truth = (shape.delimiter, shape.header, shape.columns)
    if (found.marks.delimiter, found.header, len(found.names)) == truth:
        if shape.plain or text_format.unplain(found):
            return RIGHT, found
        return WRONG, found
    if text_format.unplain(found):
        return REFUSED, found
    return (WARNED if not found.sure or found.others else WRONG), found


@cache
def judged() -> list[tuple[Shape, str, FoundDialect | None]]:
    """Return all shapes and what becomes of them."""
    return [(shape, *judge(shape)) for shape in shapes()]


def page() -> str:
    """Return the page of the reference."""
    counts: dict[str, Counter[str]] = {}
    others: list[str] = []
    for shape, verdict, found in judged():
        counts.setdefault(shape.group, Counter())[verdict] += 1
        if verdict != RIGHT:
            taken = "nothing" if found is None else (
                f"{formats.spelled(found.marks.delimiter)}, "
                f"header {'yes' if found.header else 'no'}, "
                f"{len(found.names)} columns"
            )  # fmt: skip
            others.append(f"| {shape.group} | {_cell(shape.name)} | {_cell(taken)} | {verdict} |")
    total = sum(sum(c.values()) for c in counts.values())
    right = sum(c[RIGHT] for c in counts.values())
    lines = [
        "# What the sniffer finds", "",
        "Made by `PYTHONPATH=tests python -m unit.schema.text_shapes`. The tests make these texts,",
        "sniff each and compare delimiter, header and number of columns with the truth. *Right*",
        "means as well that text which no reader takes as it is was recognised as such; *warned*:",
        "something else was found, and the load says that it is unsure; *wrong*: in silence.", "",
        f"Right: {right} of {total} ({100 * right / total:.1f} %).", "",
        "| texts | right | refused | warned | wrong |", "|---|---:|---:|---:|---:|",
    ]  # fmt: skip
    for group, found_ in counts.items():
        cells = " | ".join(str(found_[v]) for v in (RIGHT, REFUSED, WARNED, WRONG))
        lines.append(f"| {group} | {cells} |")
    if others:
        lines += ["", "Not right:", "", "| texts | one of them | found | |", "|---|---|---|---|"]
        lines += others
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
