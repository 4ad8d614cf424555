"""Small tables beside a target: who runs their statements."""

from __future__ import annotations

from rowfall.core.errors import EngineError
from rowfall.core.model import Statement
from rowfall.core.patterns import regex
from rowfall.core.sqltext import SqlText
from rowfall.engines.base import Engine
from rowfall.engines.database import Database
from rowfall.engines.small_tables import (
    CLICKHOUSE,
    DUCKDB,
    MYSQL,
    POSTGRESQL,
    SmallTables,
    TableDialect,
    Value,
)

# A lane of its own: statements about pipelines wait for no attempt, and none for them.
_LANE = 96
_DIALECTS: dict[str, TableDialect] = {
    "postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL, "singlestore": MYSQL,
    "duckdb": DUCKDB,
}  # fmt: skip
_ESCAPE = regex(r"\\(.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}


def of_engine(engine: Engine, database: str) -> SmallTables:
    """Return the tables of a database of ClickHouse."""
    return SmallTables(_Engine(engine), CLICKHOUSE, database)


def of_database(database: Database, kind: str) -> SmallTables | None:
    """Return the tables beside a table of a database; None where it has none of SQL."""
    dialect = _DIALECTS.get(kind)
    return None if dialect is None else SmallTables(_Database(database), dialect, "")


class _Engine:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, text: str) -> None:
        self._engine.run(Statement(SqlText.of(text)), lane=_LANE)

    def ask(self, text: str) -> list[list[Value]]:
        return self._engine.ask(text, lane=_LANE)


class _Database:
    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, text: str) -> None:
        self._twice(text)

    def ask(self, text: str) -> list[list[Value]]:
        return self._twice(text)

    def _twice(self, text: str) -> list[list[Value]]:
        """Run a statement, once more where the connection was lost: who was idle may lose it.

        An event or error that is written twice says the same.
        """
        try:
            return self._rows(text)
        except EngineError as error:
            if not error.transient:
                raise
        return self._rows(text)

    def _rows(self, text: str) -> list[list[Value]]:
        found = self._database.result(text, write=True)
        if found is None:
            return []
        data = b"".join(found.rows)
        if found.format == "ArrowStream":
            from rowfall.sources.arrow_batches import rows_in_frames

            return rows_in_frames(data)
        lines = data.decode("utf-8", "replace").split("\n")
        return [[_value(field) for field in line.split("\t")] for line in lines[:-1]]


def _value(field: str) -> Value:
    if field == "\\N":
        return None
    return _ESCAPE.sub(lambda found: _LETTERS.get(found[1], found[1]), field)
