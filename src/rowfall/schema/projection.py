"""SQL of a projection: what is read from the source, and what the table's columns are made of.

Three SELECTs, one in the other: the columns of the objects, with the constants of each file; every
value converted strictly to its type; what the user selects of it. The one around them, which the
INSERT takes, converts to the types of the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.listing import Listing, Split
from rowfall.core.model import Encoding, Schema
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText, quote
from rowfall.schema.text import whole_rows
from rowfall.schema.text.headers import Headers
from rowfall.sources.base import Source

PATH, FILE = "_path", "_file"
FILE_COLUMNS = (PATH, FILE)
"""Constants of a file beside the values of its folders."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Word that Hive and Spark write for NULL in names of folders."""

_FOLDER = regex(r"([A-Za-z_]\w*)=([^/]*)")


def read_structure(schema: Schema, encoding: Encoding | None) -> str:
    """Return the columns of the objects as they are read; by position, in their own order."""
    return whole_rows.read_structure(schema.reads, encoding, loose=schema.checks.loose_blanks)


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows that an engine reads of a source: which, and how.

    Attributes:
        encoding: None for rows that the engine makes.
        headers: of the files; None where all are taken to be those of the sample.
    """

    source: Source
    splits: Sequence[Split]
    encoding: Encoding | None
    schema: Schema
    headers: Headers | None = None

    def relation(self) -> SqlText:
        """Return the relation that the columns of the table are selected from."""
        return of_raw(self.schema, self._raw())

    def select_typed(self) -> SqlText:
        """Return a SELECT of what a projection is made of, every column in its own type."""
        return _typed(self.schema, self._raw())

    def _raw(self) -> SqlText:
        """Return the relation of the columns as the reader gives them, with constants of files."""
        schema, projection = self.schema, self.schema.projection
        if projection is None or not projection.constants:
            return self._whole(self.splits)
        names = "".join(f"{sql.name(c.source)}, " for c in schema.reads)
        groups: dict[tuple[str | None, ...], list[Split]] = {}
        for split in self.splits:
            values = tuple(constant(split.uri, name) for name in projection.constants)
            groups.setdefault(values, []).append(split)
        parts: list[str | SqlText] = []
        for values, members in groups.items():
            given = ", ".join(
                f"CAST({'NULL' if value is None else quote(value)}, 'Nullable(String)') "
                f"AS {sql.name(name)}"
                for name, value in zip(projection.constants, values, strict=True)
            )
            parts += ["\n    UNION ALL " if parts else "", f"SELECT {names}{given} FROM "]
            parts += [self._whole(members)]
        return SqlText.of("(", *parts, ")")

    def _whole(self, splits: Sequence[Split]) -> SqlText:
        """Return the relation of the columns of objects, which raises at a row of another length.

        Args:
            splits: some of those of the scan.
        """
        schema, encoding, headers = self.schema, self.encoding, self.headers
        groups = [((), list(splits))] if headers is None else headers.groups(splits, schema.reading)
        parts = []
        for names, some in groups:
            parts.append(whole_rows.relation(self.source, some, encoding, schema, names))
        if len(parts) == 1:
            return parts[0]
        listed = ", ".join(sql.name(c.source) for c in schema.reads)
        pieces: list[str | SqlText] = []
        for part in parts:
            pieces += [" UNION ALL " if pieces else "(", f"SELECT {listed} FROM ", part]
        return SqlText.of(*pieces, ")")


def of_raw(schema: Schema, relation: SqlText) -> SqlText:
    """Return the relation to select the table's columns from, given the reader's raw columns.

    Args:
        relation: with the constants of its files, where the projection has any.
    """
    if schema.projection is None:
        return relation
    return of_typed(schema, SqlText.of("(", _typed(schema, relation), ")"))


def _typed(schema: Schema, relation: SqlText) -> SqlText:
    columns = schema.projection.columns if schema.projection else schema.columns
    typed = ", ".join(
        f"CAST({c.expression or sql.name(c.source or c.name)}, {quote(c.type)}) "
        f"AS {sql.name(c.name)}"
        for c in columns
    )
    return SqlText.of(f"SELECT {typed}\nFROM ", relation)


def of_typed(schema: Schema, relation: SqlText) -> SqlText:
    """Return the relation to select the table's columns from, given columns in final types."""
    projection = schema.projection
    if projection is None:
        return relation
    tests = [f"({projection.where})"] if projection.where else []
    if projection.keep_all:
        names = ", ".join(sql.name(c.name) for c in projection.columns)
        tests.append(f"NOT ignore({names})")
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    order = f" ORDER BY {projection.order_by}" if projection.order_by else ""
    if projection.limit:
        # Of the rows as they are read: nothing is computed, or sorted, of those behind them.
        limited = SqlText.of("(SELECT * FROM ", relation, f"{where} LIMIT {projection.limit})")
        return SqlText.of(f"(SELECT {projection.select} FROM ", limited, f"{order})")
    return SqlText.of(f"(SELECT {projection.select} FROM ", relation, f"{where}{order})")


# --- what the names of files say -----------------------------------------------------------------


def folder_values(uri: str) -> dict[str, str]:
    """Return the values of the folders ``key=value`` that a file lies in."""
    # A member of an archive may lie in folders, too: a.zip::dt=2024-01-01/b.csv.
    found = (_FOLDER.fullmatch(part) for part in uri.replace("::", "/").split("/")[:-1])
    return {match[1]: unquote(match[2]) for match in found if match}


def folder_keys(listing: Listing) -> tuple[str, ...]:
    """Return the keys of folders that all files lie in; () where some lie in others."""
    if not listing.folders:
        return ()
    keys: tuple[str, ...] | None = None
    for folder in _folders(listing):
        own = tuple(folder_values(folder + "/"))
        if keys is None:
            keys = own
        if own != keys or not keys:
            return ()
    return keys or ()


def constants(listing: Listing, name: str) -> Iterable[str | None]:
    """Return the different values of a constant in all files."""
    if name in FILE_COLUMNS:
        return (constant(listing.uri(i), name) for i in range(len(listing)))
    return {constant(folder + "/", name) for folder in _folders(listing)}


def constant(uri: str, name: str) -> str | None:
    """Return the value of a constant in one file; None for NULL."""
    if name == PATH:
        return uri
    if name == FILE:
        return os.path.basename(uri).rpartition("::")[2]
    value = folder_values(uri).get(name)
    return None if value == NO_VALUE else value


def _folders(listing: Listing) -> list[str]:
    return list(dict.fromkeys(os.path.dirname(listing.uri(i)) for i in range(len(listing))))
