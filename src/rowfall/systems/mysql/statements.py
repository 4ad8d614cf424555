"""The statements of an attempt: LOAD DATA, INSERT, and those that change rows by their key."""

from __future__ import annotations

from collections.abc import Sequence

from rowfall.core.errors import UsageError
from rowfall.core.options import REPLACE, SKIP, Options
from rowfall.core.server_address import ServerAt
from rowfall.engines.database import RECORD, check_key_given
from rowfall.systems.mysql.client import TSV_LINES, name
from rowfall.systems.mysql.connections import MySQLConnections
from rowfall.systems.mysql.record import LoadedSplits
from rowfall.systems.mysql.types import taken_column
from rowfall.targets.transactional import RECORD_NAME

# By the reader of LOAD DATA: no text is converted where all columns have UTF-8.
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4", "ascii", "binary"})
_IDS = frozenset({"uuid", "inet4", "inet6"})


class LoadStatements(MySQLConnections):
    """One table and its record, and the statements that bring rows into it."""

    def __init__(self, at: ServerAt, database: str, table: str, options: Options) -> None:
        super().__init__(at, database, table, options)
        self._record_name, self._gathers = at.options.get(RECORD_NAME, RECORD), ""
        self.record = LoadedSplits(self, database, table, self._record_name, self._patience)
        self._gathered: LoadedSplits | None = None

    @property
    def taking(self) -> LoadedSplits:
        """Return the record of the table that takes rows: of the one beside where there is one."""
        return self._gathered or self.record

    def insert_statement(self, columns: Sequence[str]) -> str:
        """Return the INSERT of parameters."""
        listed, marks = ", ".join(map(name, columns)), ", ".join("?" * len(columns))
        return f"INSERT INTO {self.taking.table} ({listed}) VALUES ({marks})"

    def load_statement(self, columns: Sequence[str]) -> str:
        """Return LOAD DATA for lines of TSV."""
        if self.on_conflict == REPLACE and self.distributed:
            self._check_whole_rows(columns)
        # Of rows with one key in a temporary table that which came last stays.
        table = self.rows_name if self.updates else self.taking.table
        skip = "SKIP DUPLICATE KEY ERRORS " if self.distributed else "IGNORE "
        action = {SKIP: skip, REPLACE: "REPLACE "}.get(self.on_conflict, "")
        kinds = {column.name: column.kind for column in self.columns}
        computed = {column.name for column in self.columns if column.computed}
        # Text in a BIT column would be taken for its bits, and in a YEAR "0" for 2000.
        numbers = {column: f"@number_{at}" for at, column in enumerate(columns)
                   if kinds.get(column) in ("bit", "year")}  # fmt: skip
        # What the server computes is left out.
        numbers |= {column: f"@computed_{at}" for at, column in enumerate(columns)
                    if column in computed}  # fmt: skip
        charsets = {column.charset for column in self.columns if column.charset}
        # 6 % less CPU on the server, where nothing is converted; bytes are not text of a UUID.
        plain = charsets <= _UTF8 and not _IDS & set(kinds.values())
        charset = "binary" if plain else "utf8mb4"
        listed = ", ".join(numbers.get(column) or name(column) for column in columns)
        made = ", ".join(
            # Of two digits the server would make four.
            f"{name(column)} = IF({text} + 0 BETWEEN 1 AND 99, -1, {text} + 0)"
            # A sum is a DOUBLE, which has 53 bits.
            if kinds[column] == "year" else f"{name(column)} = CAST({text} AS UNSIGNED)"
            for column, text in numbers.items() if column not in computed
        )  # fmt: skip
        return (
            f"LOAD DATA LOCAL INFILE 'rowfall' {action}INTO TABLE {table} "
            + ("" if self.distributed else f"CHARACTER SET {charset} ")
            + f"{TSV_LINES} ({listed})"
            + (f" SET {made}" if made else "")
        )

    def _check_whole_rows(self, columns: Sequence[str]) -> None:
        """Check that a row in place of another one resets none of its columns.

        Raises:
            UsageError: the files lack some.
        """
        lacks = [
            name for name, _, kind in map(taken_column, self.columns)
            if kind != "MATERIALIZED" and name not in columns
        ]  # fmt: skip
        if lacks:
            raise UsageError(
                f"--on-conflict replace: SingleStore would reset {lacks[0]}, which the files lack, "
                "in rows that are there",
                hint="Give the files all columns of the table, or take --on-conflict skip.",
            )

    def staging_statements(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the statements that make a temporary table for rows that change others.

        They end no transaction.

        Raises:
            UsageError: the files lack a column of the key.
        """
        key, columns = self.key(), self._taken(columns)
        check_key_given(key, columns)
        listed, keyed = ", ".join(map(name, columns)), ", ".join(map(name, key))
        return (
            f"DROP TEMPORARY TABLE IF EXISTS {self.rows_name}",
            f"CREATE TEMPORARY TABLE {self.rows_name} (UNIQUE KEY ({keyed})) ENGINE=InnoDB AS "
            f"SELECT {listed} FROM {self.whole_name} LIMIT 0",
        )

    def merge_statements(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the statements that change the rows with a key that is there, and insert others.

        One INSERT ... ON DUPLICATE KEY UPDATE would do, but for rows that share another unique
        key with a row: that one would be changed. Here they are refused.
        """
        key, columns = self.key(), self._taken(columns)
        same = " AND ".join(f"t.{name(column)} = s.{name(column)}" for column in key)
        sets = ", ".join(f"t.{name(c)} = s.{name(c)}" for c in columns if c not in key)
        listed = ", ".join(map(name, columns))
        update = f"UPDATE {self.taking.table} t JOIN {self.rows_name} s ON {same} SET {sets}"
        insert = (
            f"INSERT INTO {self.taking.table} ({listed}) SELECT "
            + ", ".join(f"s.{name(column)}" for column in columns)
            + f" FROM {self.rows_name} s LEFT JOIN {self.taking.table} t ON {same} "
            f"WHERE t.{name(key[0])} IS NULL"
        )
        return (update, insert) if sets else (insert,)

    def _taken(self, columns: Sequence[str]) -> list[str]:
        """Return the columns whose values the server takes: it computes the others."""
        computed = {column.name for column in self.columns if column.computed}
        return [column for column in columns if column not in computed]

    @property
    def rows_name(self) -> str:
        """Return the temporary table of rows that change others, as SQL."""
        return f"{name(self._database)}.`_rowfall_rows`"
