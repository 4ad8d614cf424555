"""Aligned text for people: facts in two columns, tables, bars, wrapped paragraphs. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rowfall import units

WIDTH = 80


class Style:
    """Marks parts of a text with colour, or leaves it alone."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def _wrap(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text

    def head(self, text: str) -> str:
        return self._wrap(text, "1")

    def good(self, text: str) -> str:
        return self._wrap(text, "32")

    def warn(self, text: str) -> str:
        return self._wrap(text, "33")

    def bad(self, text: str) -> str:
        return self._wrap(text, "31")

    def dim(self, text: str) -> str:
        return self._wrap(text, "2")


def wrap(text: str, *, indent: str = "", first: str | None = None, width: int = WIDTH) -> list[str]:
    """Lines of ``text``; words longer than a line (URIs) stay whole, so they can be copied."""
    return textwrap.wrap(
        units.printable(text),
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [(indent if first is None else first).rstrip()]


def facts(rows: Sequence[tuple[str, str]], *, indent: int = 2, width: int = WIDTH) -> list[str]:
    """``name  text`` with the texts aligned and wrapped below themselves; empty texts left out."""
    rows = [row for row in rows if row[1]]
    column = max((len(name) for name, _ in rows), default=0) + indent + 2
    lines: list[str] = []
    for name, text in rows:
        first = (" " * indent + name).ljust(column)
        lines += wrap(text, indent=" " * column, first=first, width=width)
    return lines


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()
) -> list[str]:
    """A table without rules; columns in ``right`` are right-aligned, the last one is ragged."""
    clean = [[units.printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in clean) for i in range(len(head))]
    return [
        "  ".join(
            cell.rjust(widths[i]) if i in right else cell.ljust(widths[i])
            for i, cell in enumerate(row)
        ).rstrip()
        for row in clean
    ]


def bar(share: float, width: int) -> str:
    """A bar of at most ``width`` characters; a share above zero is never invisible."""
    share = min(max(share, 0.0), 1.0)
    return "━" * max(round(share * width), 1 if share > 0 else 0)
