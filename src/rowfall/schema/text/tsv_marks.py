"""Tells quotes and backslashes of TSV that are marks from those that are letters. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rowfall.core.dialect import DialectOptions, TextSample
from rowfall.core.patterns import regex


def with_tsv_marks(samples: Sequence[TextSample], asked: DialectOptions) -> DialectOptions:
    """Return ``asked`` with a tab as delimiter of a TSV file, and quotes if samples show them."""
    quoted = any(_QUOTED_TSV.search(sample.data) for sample in samples)
    if not asked.fixed and not any(b"\t" in sample.data for sample in samples):
        return asked
    quoted = quoted or any(_has_quoted_columns(sample.data) for sample in samples)
    letters = asked.marks.escape is None and not asked.fixed and any(
        _are_letters(sample.data) for sample in samples
    )  # fmt: skip
    marks = replace(
        asked.marks,
        escape="" if letters else asked.marks.escape,
        delimiter=asked.marks.delimiter or "\t",
        quote=asked.marks.quote if asked.marks.quote is not None else '"' if quoted else "",
        # A file that begins with one has comments; elsewhere it may be a value.
        comment=asked.marks.comment
        if asked.marks.comment is not None or any(s.data.startswith(b"#") for s in samples)
        else "",
    )
    return replace(asked, marks=marks)


def _are_letters(data: bytes) -> bool:
    """Tell whether backslashes in TSV escape nothing: as of regular expressions and of smileys.

    Programs that write escapes write them in front of few characters, and never before a tab.
    """
    if b"\\" not in data or _NULL_FIELD.search(data):
        return False
    if _NO_ESCAPE.search(data):
        return True
    lines = data.split(b"\n")[:-1]
    before_tabs = [line.count(b"\t") for line in lines if _BEFORE_TAB.search(line)]
    usual = Counter(line.count(b"\t") for line in lines if line.strip()).most_common(1)
    return bool(before_tabs) and all(count == usual[0][0] for count in before_tabs)


_NULL_FIELD = regex(rb"(?:^|\t)\\N(?=\t|\r?$)", re.M)  # as programs write it that escape
_BEFORE_TAB = regex(rb"(?<!\\)(?:\\\\)*\\\t")  # two of them are one that is escaped
# What neither MySQL, PostgreSQL nor ClickHouse writes behind one.
# PostgreSQL ends its rows with a line of \. alone.
_NO_ESCAPE = regex(rb"(?!^\\\.\r?$)(?<!\\)(?:\\\\)*\\[sSwWdD.()\[\]|*+?{}^$-]", re.M)
# A field in quotes that holds what quotes are for.
_QUOTED_TSV = regex(rb'(?:^|\t)"(?:[^"\n]|"")*(?:\t|"")(?:[^"\n]|"")*"(?=\t|\r?\n|\Z)', re.M)


def _has_quoted_columns(data: bytes) -> bool:
    """Tell whether TSV has quotes around all names, or all texts of a column, as R writes it.

    A quote elsewhere is a letter, and a backslash then an escape of TSV.
    """
    if b'"' not in data or b'\\"' in data or b'"\\' in data:
        return False
    if b"\\" not in data and _are_wide_in_quotes(data):
        return True
    lines = data.split(b"\n", _QUOTED_LINES + 1)[:_QUOTED_LINES]
    head, *rows = [line.rstrip(b"\r").split(b"\t") for line in lines if line.strip()] or [[]]
    fields = [field for row in (head, *rows) for field in row]
    if not rows or any(f[:1] == b'"' and not _IN_QUOTES.fullmatch(f) for f in fields):
        return False
    if all(map(_IN_QUOTES.fullmatch, head)):
        return True
    columns = [[f for f in column if f not in (b"", b"NA")] for column in zip(*rows, strict=False)]
    return any(len(own) > 1 and all(map(_IN_QUOTES.fullmatch, own)) for own in columns)


_IN_QUOTES = regex(rb'"[^"]*"')
_OVER_LINES = regex(rb'(?<![^\t\n])"(?:[^"\n]|"")*\n(?:[^"]|"")*"(?=\t|\r?\n|\Z)')


def _are_wide_in_quotes(data: bytes) -> bool:
    """Tell whether all rows of TSV have as many fields only if quotes keep line breaks.

    A quote that begins a field may as well be a letter, far above another one.
    """
    if not _OVER_LINES.search(data):
        return False
    widths = [
        {line.count(b"\t") for line in text.split(b"\n")[:_QUOTED_LINES] if line.strip()}
        for text in (data[: data.rfind(b"\n")], _OVER_LINES.sub(b'""', data[: data.rfind(b"\n")]))
    ]
    return len(widths[0]) > 1 and len(widths[1]) == 1 and widths[1] != {0}


_QUOTED_LINES = 200  # show what the others are like
