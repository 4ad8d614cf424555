"""Finds out how lines are written that no delimiter divides: access logs, logfmt, fixed widths.

rowfall-decode rewrites such lines to CSV (crates/rowfall-decode/src/line_forms.rs), also
those of the sample; whose first fields and names then tell the columns, as of any CSV.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rowfall.core import charsets
from rowfall.core.dataclass import dataclass
from rowfall.core.dialect import DialectOptions, LineOptions, MarkOptions, TextSample, sniff
from rowfall.core.errors import SourceError, UsageError
from rowfall.core.header_line import body_of
from rowfall.core.log_forms import ACCESS, fields_behind, keys_of
from rowfall.core.model import Dialect, Encoding
from rowfall.core.value_kinds import value_class
from rowfall.decoder import rewriting

_COMMON = (
    "remote_addr", "ident", "remote_user", "time", "method", "path", "protocol", "status", "bytes",
)  # fmt: skip
NAMES = {"common": _COMMON, "combined": (*_COMMON, "referer", "user_agent")}
"""Columns of access logs."""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Encoding and columns of text files, by their first bytes.

    Attributes:
        encoding: delimiter and header as found.
        names: of all columns, with the class of their first values, see :func:`value_class`.
        bom: some file begins with a byte order mark.
        notes: (subject, reason) for the plan.
    """

    encoding: Encoding
    names: tuple[tuple[str, str], ...]
    bom: bool
    notes: tuple[tuple[str, str], ...]


def find_format(
    samples: Sequence[TextSample], encoding: Encoding, asked: DialectOptions
) -> TextFormat:
    """Find out how the lines of files are written.

    Args:
        encoding: its dialect names the form of the lines.

    Raises:
        SourceError: no line is of that form. UsageError: --columns names another number of them.
    """
    dialect = encoding.dialect or Dialect()
    form, *words = dialect.lines
    lines = [line for sample in samples for line in _lines_of(sample, dialect.charset)]
    notes: list[tuple[str, str]] = []
    if form == "widths":
        names, width = asked.columns, len(words)
    else:
        form, names = _of_log(form, lines, samples)
        words, width = [*names] if form == "logfmt" else [*names[len(NAMES[form]) :]], len(names)
        if form == "combined" and words:
            notes.append(("columns", f"{', '.join(words)} stand behind those of combined"))
        if form == "logfmt":
            notes.append(("columns", f"the keys of the first {len(lines):,} lines"))
    if asked.columns and len(asked.columns) != width:
        raise UsageError(
            f"--columns names {len(asked.columns)} columns, and the lines have {width}",
            hint="Name all of them, in their order.",
        )
    dialect = replace(
        dialect, lines=(form, *words), comment=asked.marks.comment or "",
        skip_lines=asked.lines.skip_lines or 0, fill=asked.lines.short_rows == "null",
        columns=width if asked.lines.short_rows == "null" else 0,
    )  # fmt: skip
    encoding = replace(encoding, format="CSV", delimiter=",", fields=width, dialect=dialect)
    rewriting.check(encoding)
    plain = [
        TextSample(s.uri, rewriting.head([_whole_lines(s)], encoding, "none", len(s.data) * 2 + 1))
        for s in samples
    ]
    marks = MarkOptions(",", '"', '"', "")
    found = sniff(plain, DialectOptions(
        True, marks, LineOptions(skip_lines=0, blanks="keep"),
        asked.header if form == "widths" else False, asked.columns or tuple(names),
    ))  # fmt: skip
    if not found.files or found.width != width:
        raise SourceError(
            f"{samples[0].uri}: most of its first lines are no {_WHAT[form]}",
            hint="Look at them, and name another --format, or other --widths.",
        )
    body = body_of(found.files, width)
    classes = [value_class([row[n] for row in body[:512]], dialect.nulls) for n in range(width)]
    if found.header:
        notes.append(("header", found.why))
        odd = tuple(found.given) != found.names or bool(asked.columns)
        encoding = replace(
            encoding, format="CSVWithNames", names=found.names, renamed=bool(asked.columns),
            header=found.names if odd else (),
        )  # fmt: skip
    named = tuple(zip(found.names, classes, strict=True))
    return TextFormat(encoding, named, found.bom, tuple(notes))


_WHAT = {
    "widths": "rows of these widths", "logfmt": "logfmt", "common": "lines of an access log",
    "combined": "lines of an access log",
}  # fmt: skip


def _of_log(
    form: str, lines: Sequence[str], samples: Sequence[TextSample]
) -> tuple[str, tuple[str, ...]]:
    """Return the form of a log and the names of its columns."""
    if form == "logfmt":
        keys = tuple(dict.fromkeys(key for line in lines for key in keys_of(line)))
        if keys:
            return form, keys
    else:
        ends = [bool(found[1]) for found in map(ACCESS.match, lines) if found]
        if ends:
            if sum(ends) * 2 <= len(ends):
                return "common", _COMMON
            return "combined", (*NAMES["combined"], *_names_behind(lines))
    raise SourceError(
        f"{samples[0].uri}: none of its first lines are {_WHAT[form]}",
        hint="Look at them, and name another --format.",
    )


def _names_behind(lines: Sequence[str]) -> list[str]:
    """Return names of the columns behind those of combined, as most lines have them."""
    ends = [found for found in map(fields_behind, lines) if found]
    most = Counter(map(len, ends)).most_common(1)[0][0]
    odd = next(found for found in ends if len(found) == most)[2:]
    if len(odd) == 1 and odd[0].startswith('"'):  # the format main of nginx as it is packaged
        return ["x_forwarded_for"]
    return [f"field_{len(NAMES['combined']) + n}" for n in range(1, len(odd) + 1)]


def _lines_of(sample: TextSample, charset: str) -> list[str]:
    text = charsets.decode(_whole_lines(sample), charset).removeprefix(charsets.BOM)
    return [line for line in text.splitlines() if line.strip()]


def _whole_lines(sample: TextSample) -> bytes:
    """Return the sample without the line that it may have cut."""
    end = sample.data.rfind(b"\n") + 1
    return sample.data if sample.whole or not end else sample.data[:end]
