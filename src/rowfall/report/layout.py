"""Aligned text for people: paragraphs, tables without rules, bars; with or without colours."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rowfall.core import units
from rowfall.core.model import MergeWork
from rowfall.core.patterns import regex

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

WIDTH = 80
ENDLESS = 1 << 16  # columns
_LAST_COLUMN = 16  # of a table; what is narrower is read word by word
# A word of SQL with the blanks behind it; blanks inside of quotes are part of it. A quote that a
# backslash escapes ends nothing.
_SQL_WORD = regex(
    r"""(?:'(?:\\.|[^'\\])*'?|`(?:\\.|[^`\\])*`?|"(?:\\.|[^"\\])*"?|[^\s'`"])+\s*|\s+"""
)


def render(parts: Iterable[RenderableType], *, color: bool = False, width: int = WIDTH) -> str:
    """Return parts below each other. A ``str`` stays as it is: SQL to paste, wrapped lines."""
    out = io.StringIO()
    parts = list(parts)
    console: Console | None = None
    if not all(isinstance(part, str) for part in parts):
        from rich.console import Console  # 15 ms that a short report saves

        console = Console(
            file=out,
            width=ENDLESS,
            force_terminal=color,
            force_jupyter=False,
            color_system="standard" if color else None,
            no_color=not color,
        )
    for part in parts:
        if isinstance(part, str):
            out.write(units.for_terminal(part) + "\n")
        elif console is not None:
            # A word longer than a line (a URI, a path) stays whole, so that it can be copied.
            part = _shown(part)
            console.print(part, width=max(width, console.measure(part).minimum))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).removesuffix("\n")


def _shown(part: Any) -> Any:
    """Return text of rich without control characters, which it would print; others as they are."""
    text = getattr(part, "plain", "")
    safe = units.for_terminal(text)
    if safe == text:
        return part
    from rich.text import Text

    return Text(safe, part.style)


def merges_left(work: MergeWork | None) -> str:
    """Return the work left to merges: ``280 parts into 56: 450 MB, about 3 s``.

    "" for less than a second of work, which is over when the load ends.
    """
    if work is None or work.seconds < 1:
        return ""
    parts, into = units.counted(work.parts, "part"), units.exact(work.into)
    return f"{parts} into {into}: {units.size(work.bytes)}, {units.forecast(work.seconds)}"


def grid(
    rows: Iterable[Sequence[str | Text]], *, right: Collection[int] = (), indent: int = 2
) -> RenderableType:
    """Return aligned columns, those in ``right`` to the right; only the last one is wrapped."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    cells = [
        [Text(units.printable(x)) if isinstance(x, str) else _shown(x) for x in row] for row in rows
    ]
    table = Table.grid(padding=(0, 2, 0, 0))
    for number, column in enumerate(list(zip(*cells, strict=True))[:-1]):
        widest = max(1, *(cell.cell_len for cell in column))
        table.add_column(justify="right" if number in right else "left", width=widest)
    table.add_column()
    for row in cells:
        table.add_row(*row)
    return Padding(table, (0, 0, 0, indent))


def listed(
    head: Sequence[str], rows: Sequence[Sequence[str | Text]], *, right: Collection[int],
    width: int, indent: int = 0,
) -> RenderableType:  # fmt: skip
    """Return a table with names of its columns; in a narrow terminal each row takes several lines.

    A line of a table that a terminal breaks says nothing.
    """
    plain = [[str(cell) for cell in row] for row in rows]
    needed = [max(map(len, column)) for column in zip(head, *plain, strict=True)]
    last = min(needed[-1], _LAST_COLUMN)  # it is wrapped
    if width >= WIDTH or indent + sum(needed[:-1]) + 2 * (len(needed) - 1) + last <= width:
        return grid([[_dim(name) for name in head], *rows], right=right, indent=indent)
    lines = []
    for row in plain:
        lines.append(f"{'':{indent}}{units.printable(row[0])}")
        named = zip(head[1:], row[1:], strict=True)
        lines.append(plain_facts(named, width=width, indent=indent + 2))
    return "\n".join(lines)


def _dim(name: str) -> Text:
    from rich.text import Text

    return Text(name, "dim")


def facts(rows: Iterable[tuple[str, str]], *, indent: int = 2) -> RenderableType:
    """Return lines of ``name  text``, without those that have no text."""
    return grid([row for row in rows if row[1]], indent=indent)


def plain_facts(rows: Iterable[tuple[str, str]], *, width: int = WIDTH, indent: int = 2) -> str:
    """Return the text of :func:`facts` in plain letters, without the 45 ms to import rich."""
    found = [(units.printable(name), units.printable(text)) for name, text in rows if text]
    column = indent + max((len(name) for name, _ in found), default=0) + 2
    # A word longer than a line stays whole, and then there is as much room in all lines.
    words = [word for _, text in found for word in text.split()]
    width = max(width, column + max(map(len, words), default=0))
    return "\n".join(
        wrap(text, first=f"{'':{indent}}{name}".ljust(column), indent=" " * column, width=width)
        for name, text in found
    )


def wrap(
    text: str, *, indent: str = "", first: str | None = None, width: int = WIDTH, whole: str = ""
) -> str:
    """Return ``text`` in lines; words longer than a line stay whole, and so does ``whole``."""
    first = indent if first is None else first
    text, whole = units.printable(text), units.printable(whole)
    if whole:
        text = text.replace(whole, whole.replace(" ", "\0"))  # printable() has left no other
    lines = textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\0", " ")


def wrap_sql(text: str, width: int = WIDTH) -> str:
    """Return SQL whose long lines are broken at blanks outside of quotes; it stays pastable."""
    lines: list[str] = []
    for line in text.split("\n"):
        if line.lstrip().startswith("--"):  # a comment ends with its line
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        current = ""
        for word in _SQL_WORD.findall(line):
            if current.strip() and len(current) + len(word.rstrip()) > width:
                lines.append(current.rstrip())
                current = indent + word
            else:
                current += word
        lines.append(current.rstrip())
    return "\n".join(lines)


def bar(share: float, width: int) -> str:
    """Return a bar of at most ``width`` characters; a share above zero is never invisible."""
    share = min(max(share, 0.0), 1.0)
    return "━" * max(round(share * width), 1 if share > 0 else 0)
