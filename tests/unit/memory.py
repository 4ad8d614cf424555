"""A real in-memory engine for the unit tests: chDB takes one path per process, so it is shared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import EngineError
from rowfall.core.listing import Listing, Split
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, FileChecks, Kind, Schema
from rowfall.core.sqltext import SqlText, quote
from rowfall.schema.text.whole_rows import guarded, read_as, read_structure
from rowfall.schema.types.reader_settings import reader_settings

CSV = Encoding("CSV", "none", Kind.TEXT)
TSV = Encoding("TSV", "none", Kind.TEXT)
JSON = Encoding("JSONEachRow", "none", Kind.JSON)


class ChdbError(EngineError):
    """What the engine said, with its code."""

    def __init__(self, message: str) -> None:
        code = int(message.split("Code: ")[1].split(".")[0]) if "Code: " in message else 0
        super().__init__(message, code=code)


class Chdb:
    """Runs statements in this process.

    Attributes:
        each: of long lists of cases, only every so many-th is tried in the gate.
    """

    each = 2

    def __init__(self) -> None:
        import chdb  # late: tests that never ask for an engine start faster

        self._connection = chdb.connect(":memory:")

    def run(self, text: str, format: str = "JSONCompact") -> str:
        try:
            return str(self._connection.query(text, format))
        except Exception as error:
            raise ChdbError(str(error)) from None

    def ask(self, text: SqlText, settings: Mapping[str, str | int | float]) -> list[list[Any]]:
        fixed = {**settings, "output_format_json_quote_64bit_integers": 0}
        answer = self.run(text.reveal() + sql.settings_clause(fixed), "JSONCompactEachRow")
        return [json.loads(line) for line in answer.splitlines()]

    def read(self, path: Path, encoding: Encoding, columns: Sequence[Column]) -> list[list[Any]]:
        """What :meth:`load` gives, by a SELECT: a table for each of 10,000 values is slow."""
        reader = {s.name: s.value for s in reader_settings(encoding, columns)}
        names = ", ".join(f"toString(CAST({sql.name(c.name)}, {quote(c.type)}))" for c in columns)
        inner = f"SELECT {sql.projection(columns)} FROM {from_file(str(path), encoding, columns)}"
        return self.ask(SqlText.of(f"SELECT {names} FROM ({inner})"), reader)

    def load(self, path: Path, encoding: Encoding, columns: Sequence[Column]) -> list[list[Any]]:
        """Insert a file the way a load does it and give back the rows as text."""
        reader = {s.name: s.value for s in reader_settings(encoding, columns)}
        self.run("DROP TABLE IF EXISTS t")
        types = ", ".join(f"{sql.name(c.name)} {c.type}" for c in columns)
        self.run(f"CREATE TABLE t ({types}) ENGINE = Memory")
        relation = SqlText.of(from_file(str(path), encoding, columns))
        insert = sql.insert_select(SqlText.of("t"), columns, relation).reveal()
        self.run(insert + sql.settings_clause(reader))
        names = ", ".join(f"toString({sql.name(c.name)})" for c in columns)
        return self.ask(SqlText.of(f"SELECT {names} FROM t"), {})


def from_file(path: str, encoding: Encoding, columns: Sequence[Column]) -> str:
    text, read = read_structure(columns, encoding), read_as(columns, encoding)
    relation = f"file({quote(path)}, {quote(read.format)}, {quote(text)})"
    schema = Schema(tuple(columns), checks=FileChecks(ends_known=True))
    return guarded(schema, encoding, SqlText.of(relation)).reveal()


class Files:
    """The smallest source: given local files."""

    remote = False
    replayable = True
    secrets: tuple[Secret, ...] = ()
    fds: tuple[int, ...] = ()
    made: Schema | None = None

    def __init__(self, *paths: Path) -> None:
        self.text = str(paths[0])
        self._paths = paths

    def listing(self) -> Listing:
        listing = Listing()
        for path in self._paths:
            listing.add(str(path), "1", path.stat().st_size)
        return listing

    def sample(self, listing: Listing, most: int) -> Sequence[Split]:
        return [listing.split(i, "t") for i in range(min(most, len(listing)))]

    def relation(
        self, splits: Sequence[Split], encoding: Encoding | None, structure: str
    ) -> SqlText:
        assert encoding is not None
        uris = ", ".join(quote(s.uri) for s in splits)
        more = f", {quote(structure)}" if structure else ""
        return SqlText.of(f"file([{uris}], {quote(encoding.format)}{more})")

    def encoding(self, listing: Listing) -> Encoding | None:
        return CSV

    def changed(self, splits: Sequence[Split]) -> list[tuple[Split, str]]:
        return []
