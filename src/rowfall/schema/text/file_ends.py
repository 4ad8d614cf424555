"""Finds files of CSV that end in a delimiter, without a line end: their last field is empty.

The engine's reader takes it for the empty string, see :mod:`rowfall.schema.text.whole_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Schema
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.schema.column_facts import RunSelect
from rowfall.schema.text.records import IN_ORDER, lines_relation
from rowfall.schema.text.whole_rows import by_position, last_name
from rowfall.sources.base import Ranged, Source


def matters(schema: Schema, encoding: Encoding) -> bool:
    """Tell whether it makes a difference how the last field of a file is read."""
    if not by_position(encoding) or encoding.null or encoding.trailing or encoding.dialect:
        return False
    last = last_name(schema, encoding)
    return any(c.source == last and parse_type(c.type).nullable for c in schema.reads)


def open_ended(
    source: Source, encoding: Encoding, splits: Sequence[Split], ask: RunSelect | None
) -> list[Split]:
    """Return the splits that end in a delimiter.

    Args:
        ask: runs a SELECT; None where compressed files are not worth reading for it.
    """
    mark = encoding.delimiter
    found: list[Split] = []
    if encoding.compression == "none" and isinstance(source, Ranged):
        last = [(split, _last_byte(source, split)) for split in splits]
        found = [split for split, byte in last if byte == mark.encode()]
        # Of what is read from its beginning only, all has to be read.
        splits = [split for split, byte in last if byte == b""]
    if ask is None:
        return found
    for split in splits:
        text = SqlText.of(
            f"SELECT endsWith(argMax(line, n), {quote(mark)}) FROM (SELECT line, "
            "rowNumberInAllBlocks() AS n FROM ", lines_relation(source, [split], encoding), ")",
        )  # fmt: skip
        # A line end behind it cannot be seen here, and does no harm: then the field is NULL anyway.
        if any(int(row[0] or 0) for row in ask(text, IN_ORDER)):
            found.append(split)
    return found


def quoted_last(source: Source, encoding: Encoding, split: Split, ask: RunSelect) -> bool:
    """Tell whether some line of a split ends in ``,""``, an empty string that is no NULL."""
    end = encoding.delimiter + '""'
    # Old releases know trimRight with one argument only.
    ends = " OR ".join(f"endsWith(line, {quote(mark)})" for mark in (end, f"{end}\r"))
    text = SqlText.of(
        f"SELECT countIf({ends}) FROM ",
        lines_relation(source, [split], encoding),
    )
    return any(int(row[0]) for row in ask(text, {}))


def _last_byte(source: Ranged, split: Split) -> bytes | None:
    """Return the last byte of a file; b"" where it cannot be had, None for none of this split."""
    size = split.part.size if split.part is not None else split.size
    if not size or (split.stop is not None and split.stop < size):
        return None
    return source.part(replace(split, size=size, part=None), size - 1, 1)
