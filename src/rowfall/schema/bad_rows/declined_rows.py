"""Names the value that rowfall-decode has declined, where no engine is here to look for it."""

from __future__ import annotations

from dataclasses import replace

from rowfall.core import extras
from rowfall.core.errors import DataError, RowfallError, SourceError, headline
from rowfall.core.listing import Split
from rowfall.decoder.process import DecoderFailure
from rowfall.schema.bad_rows.data_errors import shorten
from rowfall.sources.base import Ranged, Source

_HINT = (
    "Correct the row. More ways to write values are read, and rows left out with --max-errors, "
    "by the embedded ClickHouse: {}"
)
_PIECE = 8 << 20  # bytes that are read at a time to count lines: no more memory than a block


def declined_row(
    source: Source, split: Split, said: DecoderFailure, refused: RowfallError | None = None
) -> DataError:
    """Return the error about a value, in the words of an engine that has found it.

    Args:
        refused: the error of the server that has judged the file; None where nothing has.
    """
    line = said.line or _line_at(source, split, said.offset)
    where = f"{split.name} line {line}" if line else f"{split.name} byte {said.offset:,}"
    if said.column:
        where += f' column "{said.column}"'
    what = said.message.removeprefix(f"line {said.line}: ")
    shown = shorten(said.value)
    if said.type and what == f"a value that may not fit {said.type}":
        verb = "may not" if refused is None else "does not"
        quoted = shown if shown[:1] == shown[-1:] == '"' else f'"{shown}"'
        text = f"{where}: {quoted} {verb} fit {said.type}"
    else:
        text = f"{where}: {what}" + (f": {shown}" if shown else "")
        if refused is not None:
            text += f" ({headline(refused.message)[:200]})"
    return DataError(
        text, uri=split.uri, line=line or None, column=said.column or None, value=shown or None,
        hint=_HINT.format(extras.command("embedded")),
    )  # fmt: skip


def _line_at(source: Source, split: Split, byte: int) -> int:
    """Return the line of a byte of a file that is read in ranges; 0 where it is not known."""
    if not byte or not isinstance(source, Ranged):
        return 0
    whole = split if split.part is None else replace(split, size=split.part.size)
    line = 1
    try:
        for at in range(0, byte, _PIECE):
            piece = source.part(whole, at, min(_PIECE, byte - at))
            if not piece:
                return 0
            line += piece.count(b"\n")
    except SourceError:
        return 0  # what is wrong with the file is another matter; this is about the row
    return line
