"""Small tables that rowfall keeps beside a target for pipelines: their events and their errors.

The columns are texts, numbers and times; each system has its own types, clock and numbering for
them, which :class:`TableDialect` names. Rows are few and short, so they are sent as SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from rowfall.core.dataclass import dataclass
from rowfall.core.sqltext import identifier, literal, quote

TEXT, INTEGER, TIME, LONG_TEXT, DIGEST = "text", "integer", "time", "long text", "digest"

Value = str | int | None
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class TableDialect:
    """The words of one system.

    Attributes:
        types: of columns; a digest has 32 hex digits.
        now: the time of the server, as a value of a column of times.
        name, text: quote a name, and a text.
        numbered: column of a table whose order counts: its definition; "" where rows have numbers.
        number: SQL of the number of a row, which rises in the order of commits or of inserts.
        idle: SQL of the seconds since a time; ``{}`` is the column.
        tail: behind the columns of a CREATE TABLE; ``{order}`` and ``{until}``, see
            :meth:`SmallTables.make`.
        ages: SQL of the time so many seconds ago; ``{}`` are the seconds. "": tables have a TTL.
        ordered: whoever has written a row sees every row that has a smaller number.
    """

    types: Mapping[str, str]
    now: str
    name: Callable[[str], str]
    text: Callable[[str], str]
    numbered: str
    number: str
    idle: str
    tail: str
    ages: str
    ordered: bool = True

    @property
    def trims(self) -> bool:
        """True where old rows are deleted one by one; ClickHouse has a TTL for that."""
        return bool(self.ages)


def _backquoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


CLICKHOUSE = TableDialect(
    {TEXT: "String", LONG_TEXT: "String", INTEGER: "Int64", TIME: "DateTime64(3, 'UTC')",
     DIGEST: "String"},
    "now64(3)", _backquoted, quote, "", "_block_number",
    "dateDiff('millisecond', {}, now64(3)) / 1000",
    # Blocks keep their numbers through merges, as in the journal; a line is on disk when it is
    # written.
    " ENGINE = MergeTree ORDER BY ({order}){until} SETTINGS enable_block_number_column = 1, "
    "fsync_after_insert = 1, fsync_part_directory = 1",
    "",
)  # fmt: skip
POSTGRESQL = TableDialect(
    {TEXT: "text", LONG_TEXT: "text", INTEGER: "bigint", TIME: "timestamptz", DIGEST: "text"},
    "clock_timestamp()", identifier, literal, "n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "n", "extract(epoch FROM clock_timestamp() - {})", "",
    "clock_timestamp() - {} * interval '1 second'", ordered=False,
)  # fmt: skip
MYSQL = TableDialect(
    # Texts of a key are short; utf8mb4 takes four bytes a letter.
    {TEXT: "varchar(512)", LONG_TEXT: "mediumtext", INTEGER: "bigint", TIME: "datetime(3)",
     DIGEST: "char(32) CHARACTER SET ascii COLLATE ascii_bin"},
    "utc_timestamp(3)", _backquoted, quote, "n bigint AUTO_INCREMENT PRIMARY KEY",
    "n", "timestampdiff(MICROSECOND, {}, utc_timestamp(3)) / 1000000",
    " CHARACTER SET utf8mb4", "utc_timestamp(3) - INTERVAL {} SECOND",
    ordered=False,
)  # fmt: skip
DUCKDB = TableDialect(
    {TEXT: "varchar", LONG_TEXT: "varchar", INTEGER: "bigint", TIME: "timestamptz",
     DIGEST: "varchar"},
    "now()", identifier, literal, "", "rowid", "epoch(now() - {})", "",
    "now() - to_seconds({})",
)  # fmt: skip


class RunsSql(Protocol):
    """Runs the statements of small tables."""

    def run(self, text: str) -> None:
        """Run one statement that gives no rows.

        Raises:
            RowfallError: it fails.
        """

    def ask(self, text: str) -> list[list[Value]]:
        """Return the rows of a SELECT; numbers may be texts."""


@dataclass(frozen=True, slots=True)
class SmallTables:
    """Tables of one database or schema beside a target.

    Attributes:
        place: the database or schema; "" for that of the connection.
    """

    runner: RunsSql
    dialect: TableDialect
    place: str

    def name(self, table: str) -> str:
        """Return the name of a table as it stands in SQL."""
        quoted = self.dialect.name
        return f"{quoted(self.place)}.{quoted(table)}" if self.place else quoted(table)

    def make(
        self, table: str, columns: Sequence[tuple[str, str]], order: Sequence[str], kept: str = ""
    ) -> None:
        """Make a table where it is missing; ``at`` is a column of it, the time of each row.

        Args:
            columns: names, and kinds of this module.
            order: names of those that rows are looked for by.
            kept: SQL of ClickHouse: rows that it removes by itself, and when; "" for none.
        """
        words = self.dialect
        defined = [words.numbered] if words.numbered else []
        defined += [f"{words.name(name)} {words.types[kind]}" for name, kind in columns]
        tail = words.tail.format(
            order=", ".join(map(words.name, order)), until=f" TTL {kept}" if kept else ""
        )
        self.runner.run(
            f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({', '.join(defined)}){tail}"
        )

    def make_keyed(
        self, table: str, columns: Sequence[tuple[str, str]], key: Sequence[str]
    ) -> None:
        """Make a table whose rows are looked for by a key, of which each has another value.

        ClickHouse keeps rows of one key that are inserted twice; others refuse the second.

        Args:
            columns: as in :meth:`make`. ``key``: names of digests.
        """
        words = self.dialect
        defined = [f"{words.name(name)} {words.types[kind]}" for name, kind in columns]
        names = ", ".join(map(words.name, key))
        if words is not CLICKHOUSE:
            defined.append(f"PRIMARY KEY ({names})")
        tail = words.tail.format(order=names, until="")
        self.runner.run(
            f"CREATE TABLE IF NOT EXISTS {self.name(table)} ({', '.join(defined)}){tail}"
        )

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Append rows; ``at`` is added to each, by the clock of the server."""
        words = self.dialect
        names = ", ".join(map(words.name, (*columns, "at")))
        values = ", ".join(f"({', '.join([*map(self.value, row), words.now])})" for row in rows)
        self.runner.run(f"INSERT INTO {self.name(table)} ({names}) VALUES {values}")

    def ask(self, text: str) -> list[list[Value]]:
        """Return the rows of a SELECT."""
        return self.runner.ask(text)

    def value(self, value: Value) -> str:
        """Return a value as it stands in SQL."""
        if value is None:
            return "NULL"
        return str(value) if isinstance(value, int) else self.dialect.text(value)

    def drop_signs(self, table: str, where: str) -> None:
        """Delete all but the newest of some rows, where the table does not do so by itself."""
        if self.dialect.trims:
            number = self.dialect.number
            newest = f"SELECT max({number}) FROM {self.name(table)} WHERE {where}"
            # MySQL reads no table that it deletes from, unless as a table of its own.
            self.delete(table, f"{where} AND {number} < (SELECT * FROM ({newest}) AS newest)")

    def delete(self, table: str, where: str) -> None:
        """Delete rows."""
        self.runner.run(f"DELETE FROM {self.name(table)} WHERE {where}")
