"""Text files whose headers name different columns: ``--union-by-name``.

Each file is read by its own header (:class:`rowfall.schema.text.headers.Headers`); a column that it
lacks is NULL. So all headers have to be known before the types are chosen: of files here all that
are looked at for any format, of stores those of the sample. One that comes later and names what
nobody has named is an error of its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from rowfall.core import units
from rowfall.core.dataclass import dataclass
from rowfall.core.dialect import DialectOptions
from rowfall.core.errors import UsageError
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Kind, Schema
from rowfall.schema.text.headers import Headers
from rowfall.schema.text.log_lines import TextFormat
from rowfall.schema.text.records import APART
from rowfall.schema.text.text_format import RunSelect, find_text_format
from rowfall.sources.base import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLED_FILES = 8
"""Files in a sample."""
MOST_FILES = 256
"""Files here whose headers are read before a load: 0.1 ms each."""
MOST_HEADERS = 64
"""Different headers; each is a SELECT of its own in every statement that meets its files."""


@dataclass(frozen=True, slots=True)
class UnitedHeaders:
    """Encoding and columns of files with different headers.

    Attributes:
        found: with the columns of all files.
        optional: columns that some files lack.
        splits: of each header some, for a sample of values.
    """

    found: TextFormat
    optional: frozenset[str]
    splits: tuple[Split, ...]


def unite(
    source: Source, listing: Listing, splits: Sequence[Split], encoding: Encoding,
    ask: RunSelect, asked: DialectOptions,
) -> UnitedHeaders | None:  # fmt: skip
    """Find out what the files have; None where all have the same columns in the same order.

    Args:
        splits: those of a sample.

    Raises:
        UsageError: a file has no header, or differs in more than its columns.
    """
    asked = replace(asked, lines=replace(asked.lines, as_they_are=True))
    looked = list(splits if source.remote else islice(listing.splits(""), MOST_FILES))
    first = find_text_format(source, looked[:1], encoding, ask, asked)
    _check(first, first, looked[0])
    groups: dict[tuple[str, ...], list[Split]] = {}
    headers = Headers(source, first.encoding, lambda: ask).names_of(looked)
    for split, names in zip(looked, headers, strict=True):
        if names:  # else it is empty
            groups.setdefault(names, []).append(split)
    if len(groups) < 2:
        return None
    if len(groups) > MOST_HEADERS:
        raise UsageError(
            f"{len(groups)} of {len(looked)} files have each another header", hint=APART
        )
    formats = {names: first for names in islice(groups, 1)}
    for names, own in islice(groups.items(), 1, None):
        formats[names] = find_text_format(source, own[:1], encoding, ask, asked)
        _check(formats[names], first, own[0])
    return _merged(groups, formats, first)


def _check(found: TextFormat, first: TextFormat, split: Split) -> None:
    """Check that only the columns of a file are others than those of the first.

    Raises:
        UsageError: it has no names, names that are told apart by their place, or other marks.
    """
    own = found.encoding
    if not own.has_header:
        raise UsageError(
            f"{split.uri} has no header, so its columns have no names to go by",
            hint="Say --header yes where its first line is one, or leave out --union-by-name.",
        )
    if own.header or own.dialect is not None:
        why = (
            "some names can be told apart by their place only" if own.header else "it is rewritten"
        )
        raise UsageError(
            f"{split.uri} cannot be read by the names of its columns: {why}", hint=APART
        )
    if _marks(own) != _marks(first.encoding):
        raise UsageError(
            f"{split.uri} is written with other marks than the first file",
            hint=f"{APART} Where one delimiter is right for all, say --delimiter.",
        )


def _marks(encoding: Encoding) -> Encoding:
    return replace(encoding, names=(), fields=0, header=())


def _merged(
    groups: Mapping[tuple[str, ...], Sequence[Split]],
    formats: Mapping[tuple[str, ...], TextFormat], first: TextFormat,
) -> UnitedHeaders:  # fmt: skip
    classes: dict[str, set[str]] = {}
    for found in formats.values():
        for name, class_ in found.names:
            classes.setdefault(name, set()).add(class_)
    optional = frozenset(name for name in classes if any(name not in names for names in groups))
    # A column that is empty in one file is of the class that it has in another.
    kinds = {name: own - {""} for name, own in classes.items()}
    names = tuple((n, next(iter(own)) if len(own) == 1 else "") for n, own in kinds.items())
    each = max(1, SAMPLED_FILES // len(groups))
    lacking = f"; some lack {', '.join(sorted(optional))}" if optional else ""
    count = units.counted(len(groups), "header")
    note = ("union", f"{count} in {sum(map(len, groups.values()))} files{lacking}")
    encoding = replace(first.encoding, names=tuple(classes), fields=len(classes))
    notes = (note, *dict.fromkeys(n for found in formats.values() for n in found.notes))
    bom = any(found.bom for found in formats.values())
    splits = tuple(split for own in groups.values() for split in own[:each])
    return UnitedHeaders(TextFormat(encoding, names, bom, notes), optional, splits)


def lacks_columns(schema: Schema, encoding: Encoding | None) -> bool:
    """Tell whether some files of text lack columns that are read."""
    text = encoding is not None and encoding.kind is Kind.TEXT
    return text and any(column.optional for column in schema.reads)


def check_nulls(schema: Schema, encoding: Encoding) -> None:
    """Check that columns which some files lack take NULL.

    Raises:
        UsageError: one does not.
    """
    if not lacks_columns(schema, encoding):
        return
    for column in _without_null(schema):
        raise UsageError(
            f"some files lack {column}, which takes no NULL in the table",
            hint="Load the files that lack it on their own: --on-missing-column default",
        )


def _without_null(schema: Schema) -> Iterator[str]:
    for column in schema.reads:
        if column.optional and "Nullable(" not in column.type:
            yield column.name
