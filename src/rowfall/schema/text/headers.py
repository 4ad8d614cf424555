"""Reads the headers of the files of an attempt, for a reader that goes by position."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from rowfall.core.charsets import BOM
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import DataError, SourceError
from rowfall.core.listing import Split
from rowfall.core.model import Encoding, Schema
from rowfall.core.sqltext import SqlText
from rowfall.decoder import rewriting
from rowfall.schema.bad_rows.data_errors import header_error
from rowfall.schema.text.records import column_names, header_names, lines_relation
from rowfall.schema.text.text_format import RunSelect
from rowfall.schema.text.whole_rows import by_position
from rowfall.sources.base import Source
from rowfall.stores.first_bytes import beginning

BYTES, MOST_BYTES, LINES = 1 << 16, 16 << 20, 16
"""Bytes of a file that hold nearly every header (9,000 names take 80 KB), bytes that hold any; and
lines of a file that only the engine unpacks."""
REQUESTS, SELECTS = 32, 50
"""Reads at a time: 30 ms each in a store far away. Files of one statement: each opens a reader."""
_QUICK = {"max_threads": 4, "max_block_size": LINES, "input_format_parallel_parsing": 0}

Group = tuple[tuple[str, ...], list[Split]]
"""Names in the order of the header, () where there is none, and the files that have it."""


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of files.

    Attributes:
        ask: runs a SELECT in an engine of this machine.
    """

    source: Source
    encoding: Encoding | None
    ask: Callable[[], RunSelect]

    def groups(self, splits: Sequence[Split], schema: Schema) -> list[Group]:
        """Return the splits by the order in which their headers name the columns.

        Raises:
            DataError: a header names other columns.
            SourceError: a file cannot be read.
        """
        encoding = self.encoding
        if encoding is None or not encoding.has_header:
            return [((), list(splits))]
        lack = any(column.optional for column in schema.reads)
        if not (encoding.header or by_position(encoding) or lack):
            return [((), list(splits))]  # the reader finds columns by their names
        if encoding.renamed or not self.source.replayable:
            # The names are given, or those of the stream have been sampled.
            return [(encoding.header or encoding.names, list(splits))]
        files = {split.uri: split for split in splits}
        names = dict(zip(files, self.names_of(list(files.values())), strict=True))
        groups: dict[tuple[str, ...], list[Split]] = {}
        for split in splits:
            if wrong := _wrong(split, schema, names[split.uri], encoding):
                raise wrong
            groups.setdefault(names[split.uri], []).append(split)
        return list(groups.items())

    def names_of(self, splits: Sequence[Split]) -> list[tuple[str, ...]]:
        """Return the names in the header of each file; () where there is none.

        Raises:
            SourceError: a file cannot be read.
        """
        encoding = self.encoding
        if encoding is None:
            raise ValueError("text has an encoding")
        files = [
            replace(
                split, start=None, stop=None, part=None,
                size=split.part.size if split.part is not None else split.size,
            )
            for split in splits
        ]  # fmt: skip
        if len(files) == 1:
            heads = [self._head(files[0], encoding)]
        else:
            from concurrent.futures import ThreadPoolExecutor  # 4 ms that one file saves

            with ThreadPoolExecutor(min(REQUESTS, len(files))) as pool:
                heads = list(pool.map(lambda split: self._head(split, encoding), files))
        missing = [n for n, head in enumerate(heads) if head is None]
        for start in range(0, len(missing), SELECTS):
            some = missing[start : start + SELECTS]
            for n, head in zip(some, self._asked([files[n] for n in some], encoding), strict=True):
                heads[n] = head
        charset = "latin-1" if encoding.binary else "utf-8"
        return [parse_header((h or b"").decode(charset, "replace"), encoding) for h in heads]

    def _head(self, split: Split, encoding: Encoding) -> bytes | None:
        """Return the first bytes of a file as text; None where only the engine can tell them."""
        plain, length = replace(encoding, dialect=None), BYTES
        while True:
            found = beginning(self.source, split, plain, length)
            if found is None:
                return None
            if encoding.dialect is not None:
                whole = found.stored < length
                head = _rewritten(found.text, encoding, whole=whole)
                if head is not None or whole or length >= MOST_BYTES:
                    return head
            elif b"\n" in found.text or found.stored < length or length >= MOST_BYTES:
                return found.text
            length *= 16

    def _asked(self, files: Sequence[Split], encoding: Encoding) -> list[bytes]:
        parts: list[str | SqlText] = []
        for number, split in enumerate(files):
            relation = lines_relation(self.source, [split], encoding)
            parts += [" UNION ALL " if parts else ""]
            parts += [f"SELECT {number} AS n, base64Encode(line) AS line FROM ", relation]
            parts += [f" LIMIT {LINES}"]
        lines: list[list[bytes]] = [[] for _ in files]
        for number, line in self.ask()(SqlText.of(*parts), _QUICK):
            lines[int(number)].append(base64.b64decode(str(line)))
        return [b"\n".join(text) for text in lines]


def _rewritten(text: bytes, encoding: Encoding, *, whole: bool) -> bytes | None:
    """Return the beginning of a text as it is read; None where that is not a whole record.

    Args:
        whole: the text is not cut.
    """
    try:
        plain = rewriting.head([text], encoding, "none", 2 * len(text) + 1)
    except SourceError:
        return None  # whoever reads all of it says what is wrong
    # What was cut may end in the middle of a record.
    return plain if whole or plain.count(b"\n") > 1 else None


def parse_header(text: str, encoding: Encoding) -> tuple[str, ...]:
    """Return the names in the first record; () where there is none.

    Where rows end with a delimiter, the empty name behind it is none.
    """
    if not encoding.is_csv:
        return header_names(text.partition("\n")[0], encoding)
    names: Sequence[str] = ()
    rows = io.StringIO(text.removeprefix(BOM), newline="")
    with suppress(csv.Error):
        names = next(csv.reader(rows, delimiter=encoding.delimiter), ())
    return column_names(names, encoding)


def _wrong(
    split: Split, schema: Schema, header: tuple[str, ...], encoding: Encoding
) -> DataError | None:
    """Return the error for a header that names other columns than the sampled files."""
    names = encoding.header or encoding.names
    if header in ((), names):
        return None  # an empty file has none
    unique = len(set(header)) == len(header)
    optional = {c.source for c in schema.reads if c.optional}
    lacks = set(names) - set(header)
    if not encoding.header and unique and set(header) <= set(names) and lacks <= optional:
        return None  # in another order, or without what some files lack
    wrong = header_error(split, schema, header, encoding)
    text = f"{split.name} line 1: the header names a column twice, or not at all"
    return wrong or DataError(text, uri=split.uri, line=1, hint="Correct the header.")
