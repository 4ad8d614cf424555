"""Databases in a file that one process opens: what they share, whatever their driver.

No other process loads the same splits meanwhile, and a commit has ended when the file is opened
again, so the record of what is loaded needs no locks.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from rowfall.core.errors import RowfallError, SourceError, TargetError, UsageError
from rowfall.core.listing import MARK
from rowfall.core.open_file import OpenFile
from rowfall.core.options import ERROR, REPLACE, Options
from rowfall.core.patterns import regex
from rowfall.core.server_address import ServerAt
from rowfall.core.sqltext import SqlText, identifier, literal, qualified
from rowfall.engines import packed_ids
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import (
    ACCEPTED,
    RECORD,
    PlainTransaction,
    SplitRecord,
    Transactions,
    check_key_given,
    no_key_to_replace,
    null_in_key,
)

_KEPT, _KEPT_LINES = "_rowfall_kept", "_rowfall_kept_lines"
# Whoever comes back asks by the attempt how a commit has ended; then by the id of each split.
_JOINED_AGE = "1 hour"
# The catalogue as the standard has it: what, and of which tables and views of a schema.
_TABLES = (
    "SELECT {} FROM information_schema.tables WHERE table_catalog = current_database() AND "
    "table_schema = ? AND {}"
)
_ID = regex(r"\[rowfall ([0-9a-f]{16})\]")
GATHERS = "_rowfall_gathers_"
"""Beginning of the name of a table beside the target; the id of the load and the target follow."""
# A statement that was cancelled ends when its rows do; the process that writes them is ended, too.
_LAST_SECONDS = 10.0


class FileDatabase(Transactions):
    """One table of a file; see :class:`rowfall.engines.database.Database`.

    Attributes:
        path: of the file. ``table``, ``record``: as SQL; ``name``: for people.
        into: the table that takes rows: ``table``, or one beside it; as SQL.
    """

    def __init__(self, at: ServerAt, schema: str, table: str, options: Options) -> None:
        super().__init__()
        self.path, self.schema, self.bare = at.options["database"], schema, table
        self.options = options
        self.name = f"{schema}.{table}"
        self.table = f"{identifier(schema)}.{identifier(table)}"
        self.record = f"{identifier(schema)}.{identifier(RECORD)}"
        self.into = self.table
        self._gathers = ""
        self._read_only = False
        self.file = OpenFile(lambda: self.connect(read_only=self._read_only), self.translated)

    def rows_from(
        self, columns: Sequence[str], low: str, *, quoted: bool, most: int
    ) -> Iterator[Sequence[str]]:
        names = [identifier(name) for name in columns]
        texts = ", ".join(f"{name}::VARCHAR" for name in names)
        value = literal(low) if quoted else low
        with self.file.asking() as cursor:
            yield from cursor.execute(
                f"SELECT {texts} FROM {self.table} WHERE {names[-1]} >= {value} LIMIT {most}"
            ).fetchall()

    # --- what a driver says -----------------------------------------------------------------------

    @abstractmethod
    def connect(self, *, read_only: bool) -> Any:
        """Open the file; return a connection as DB-API has them.

        Raises:
            TargetError: it cannot be opened.
        """

    @abstractmethod
    def errors(self) -> type[Exception]:
        """Return the class of the driver's errors."""

    @abstractmethod
    def ours(self, error: Exception) -> RowfallError:
        """Return our error for one of the driver's."""

    @abstractmethod
    def existing_table(self) -> ExistingTable | None:
        """Return the definition of the table; None where there is none."""

    @abstractmethod
    def comment_of(self, table: str) -> str:
        """Return the comment of a table of the schema; "" for none."""

    @abstractmethod
    def make_beside(self, cursor: Any, name: str) -> None:
        """Make a table that takes and refuses the same rows as the target, where it is missing."""

    @abstractmethod
    def hanging(self) -> list[str]:
        """Return the statements that make what goes with the target: indexes, and comments."""

    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """Return the columns whose values rows may not share, of the primary key first; () for
        none."""

    # --- what they share --------------------------------------------------------------------------

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of the driver into ours."""
        try:
            yield
        except self.errors() as error:
            raise self.ours(error) from None

    def take_place(self, cursor: Any, name: str) -> None:
        """Put a table that was made so into the place of the target, with all that hangs on it."""
        comment = self.comment_with_id_of(name)
        for statement in (
            f"DROP TABLE {self.table}",
            f"ALTER TABLE {qualified(self.schema, name)} RENAME TO {identifier(self.bare)}",
            f"COMMENT ON TABLE {self.table} IS {literal(comment)}",
            *self.hanging(),
        ):
            cursor.execute(statement)

    def read_only(self, *, only: bool) -> None:
        """Open the file for reading only, if it is not open."""
        self._read_only = only

    def rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a question; none where there is no file: :meth:`prepare` makes it."""
        if not self.file.is_open and not os.path.exists(self.path):
            return []
        return self.file.rows(text, *values)

    def check(self, *, dry: bool) -> None:
        self.read_only(only=dry)
        place = self.path if os.path.exists(self.path) else os.path.dirname(self.path)
        if not os.access(place, os.W_OK):
            raise TargetError(
                f"cannot write {self.path}: {place} "
                f"{'may not be written' if os.path.exists(place) else 'does not exist'}",
                hint="Name a file in a folder that you may write.",
            )
        kind = self.kind_of(self.bare)
        if kind not in ("", "table"):
            raise TargetError(
                f"{self.name} is a {kind}, and rows are loaded into tables",
                hint="Name another one with --table.",
            )

    def kind_of(self, table: str) -> str:
        """Return ``table`` or what else there is by a name in the schema; "" for nothing."""
        found = self.rows(_TABLES.format("table_type", "table_name = ?"), self.schema, table)
        return str(found[0][0]).removeprefix("BASE ").lower() if found else ""

    def named(self, prefix: str) -> list[str]:
        """Return the tables of the schema whose names begin so."""
        begins = f"table_type = 'BASE TABLE' AND left(table_name, {len(prefix)}) = ?"
        asked = _TABLES.format("table_name", begins)
        return [str(name) for (name,) in self.rows(asked, self.schema, prefix)]

    def id_of(self, table: str) -> str:
        """Return the id of a table of the schema; "" for none.

        It is in the comment of the table, with which it goes: numbers that a file has for its
        tables may be others each time that it is opened.
        """
        found = _ID.search(self.comment_of(table))
        return found[1] if found else ""

    def give_id(self, cursor: Any, table: str) -> None:
        """Give a table an id where it has none."""
        if not self.id_of(table):
            text = f"{self.comment_of(table)} [rowfall {uuid.uuid4().hex[:16]}]".strip()
            at = qualified(self.schema, table)
            cursor.execute(f"COMMENT ON TABLE {at} IS {literal(text)}")

    def comment_with_id_of(self, other: str) -> str:
        """Return the comment of the target, with the id of another table instead of its own."""
        own = _ID.sub("", self.comment_of(self.bare)).strip()
        return f"{own} {self.comment_of(other)}".strip()

    def filled(self) -> list[str]:
        """Return the columns of the table that an INSERT may name."""
        found = self.existing_table()
        return [name for name, _, made in found.columns if not made] if found else []

    def table_id(self) -> str:
        return self.id_of(self.bare)

    def promise(self) -> str:
        return ""

    def prepare(self, statements: Sequence[SqlText]) -> None:
        with self.file.asking() as cursor:
            cursor.execute("BEGIN")
            for statement in statements:
                cursor.execute(statement.reveal())
            self._make_record(cursor)
            cursor.execute("COMMIT")
            self.give_id(cursor, self.bare)
            if self._gathers:
                self.make_beside(cursor, self._gathers)
                self.give_id(cursor, self._gathers)

    def _make_record(self, cursor: Any) -> None:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self.record} (table_id VARCHAR, split VARCHAR, "
            "attempt VARCHAR NOT NULL, load VARCHAR NOT NULL, name VARCHAR NOT NULL, "
            'whole VARCHAR NOT NULL, "rows" BIGINT, "at" TIMESTAMP DEFAULT CURRENT_TIMESTAMP, '
            "PRIMARY KEY (table_id, split))"
        )

    def make_like(self, table: str) -> None:
        """Do nothing: a scratch is a file of its own, in which there is no other table."""

    def erase(self) -> None:
        """Do nothing: the process that made a scratch file removes it."""

    def _recorded(self, what: str, condition: str = "1 = 1", *values: object) -> list[Any]:
        """Return rows of the record about this table."""
        return self._recorded_of(self.table_id(), what, condition, *values)

    def _recorded_of(
        self, number: str, what: str, condition: str = "1 = 1", *values: object
    ) -> list[Any]:
        if not number or not self.kind_of(RECORD):
            return []
        asked = f"SELECT {what} FROM {self.record} WHERE table_id = ? AND {condition}"
        return self.rows(asked, number, *values)

    def loaded(self) -> set[str]:
        if self._gathers and self.options.replace:  # all of it is loaded anew
            return self._gathered()
        return _ids(self._recorded("split, whole"))

    def settled(self, attempt: str) -> bool:
        numbers = (self.table_id(), self.into_id())
        return any(self._recorded_of(n, "1", "attempt = ? LIMIT 1", attempt) for n in numbers)

    # --- a load that gathers beside the table -----------------------------------------------------

    def gather(self, load: str) -> set[str]:
        self._gathers = f"{GATHERS}{load}_{self.bare}"
        self.into = f"{identifier(self.schema)}.{identifier(self._gathers)}"
        return self._gathered()

    def _gathered(self) -> set[str]:
        return _ids(self._recorded_of(self.into_id(), "split, whole"))

    def into_id(self) -> str:
        """Return the id of the table that takes rows; "" without a table."""
        return self.id_of(self._gathers or self.bare)

    def loaded_into(self, ids: Sequence[str]) -> set[str]:
        """Return those of some ids, and marks of files, that need not be loaded any more."""
        there = self._gathered().intersection(ids)
        return there if self._gathers and self.options.replace else there | self.loaded_among(ids)

    def loaded_by(self, load: str) -> set[str]:
        return _ids(self._recorded("split, whole", "load = ?", load))

    def publish_gathered(self, attempt: str, key: Sequence[str], *, replace: bool) -> None:
        if key:
            self._check_key(key)
        target, beside = self.table_id(), self.into_id()
        with self.file.asking() as cursor:
            cursor.execute("BEGIN")
            try:
                if replace:
                    self.take_place(cursor, self._gathers)
                    self._forget_table(cursor, target)
                    target = beside  # the id of a table goes with it
                else:
                    self._add(cursor, key)
                    cursor.execute(f"DROP TABLE {self.into}")
                cursor.execute(
                    f"UPDATE {self.record} SET table_id = ?, attempt = ? WHERE table_id = ?",
                    [target, attempt, beside],
                )
                cursor.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):  # the error may have ended it
                    cursor.execute("ROLLBACK")
                raise

    def _add(self, cursor: Any, key: Sequence[str]) -> None:
        """Insert what was gathered, after the rows that have its keys are removed."""
        if key:
            same = " AND ".join(f"old.{k} = new.{k}" for k in map(identifier, key))
            cursor.execute(f"DELETE FROM {self.table} old USING {self.into} new WHERE {same}")
        names = ", ".join(map(identifier, self.filled()))
        cursor.execute(f"INSERT INTO {self.table} ({names}) SELECT {names} FROM {self.into}")

    def _check_key(self, key: Sequence[str]) -> None:
        """Check that the key tells each gathered row from the others.

        Raises:
            SourceError: it does not.
        """
        keys = ", ".join(map(identifier, key))
        null = " OR ".join(f"{identifier(k)} IS NULL" for k in key)
        ((nulls,),) = self.rows(f"SELECT count(*) FROM {self.into} WHERE {null}")
        if nulls:
            raise null_in_key(int(nulls), key)
        twice = self.rows(
            f"SELECT count(*), {keys} FROM {self.into} GROUP BY {keys} HAVING count(*) > 1 "
            "ORDER BY ALL DESC LIMIT 1"
        )
        if twice:
            times, *values = twice[0]
            said = ", ".join(f"{k} = {v}" for k, v in zip(key, values, strict=True))
            raise SourceError(
                f"{said} occurs {times} times in the load: nothing says which of these rows is "
                "the last",
                hint="Leave all but one row of each key out of the files.",
            )

    def drop_gathered(self) -> None:
        self.drop_left(self._gathers)

    def drop_left(self, name: str) -> None:
        number = self.id_of(name)
        with self.file.asking() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(f"DROP TABLE IF EXISTS {identifier(self.schema)}.{identifier(name)}")
            if number and self.kind_of(RECORD):
                cursor.execute(f"DELETE FROM {self.record} WHERE table_id = ?", [number])
            cursor.execute("COMMIT")

    def gathered_tables(self) -> list[tuple[str, str, int]]:
        found = []
        for name in self.named(GATHERS):
            ((rows,),) = self.rows(
                f"SELECT count(*) FROM {identifier(self.schema)}.{identifier(name)}"
            )
            found.append((name, name.removeprefix(GATHERS).partition("_")[0], int(rows)))
        return found

    def forget(self, load_id: str) -> int:
        return self.forget_loads((load_id,))

    # --- what was loaded long ago -----------------------------------------------------------------

    def _packed(self) -> packed_ids.PackedIds:
        """Return the ids of this table that the record has no more."""
        number = self.table_id()
        return packed_ids.PackedIds(
            self._packed_tables(self.rows, number),
            lambda: bool(number and self.kind_of(packed_ids.RUNS)),
            lambda _: self._packing(number),
        )

    def _packed_tables(self, rows: packed_ids.Rows, number: str) -> packed_ids.PackedTables:
        ids, runs = (
            f"{identifier(self.schema)}.{identifier(name)}"
            for name in (packed_ids.IDS, packed_ids.RUNS)
        )
        return packed_ids.PackedTables(
            rows, ids, runs, literal(number), lambda digits: f"from_hex('{digits}')"
        )

    @contextlib.contextmanager
    def _packing(self, number: str) -> Iterator[packed_ids.PackedTables]:
        """Begin a transaction; no other process has the file open."""
        with self._changing() as cursor:
            yield self._packed_tables(lambda text: list(cursor.execute(text).fetchall()), number)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Any]:
        """Begin a transaction, and commit it at its end."""
        with self.file.asking() as cursor:
            cursor.execute("BEGIN")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):  # the error may have ended it
                    cursor.execute("ROLLBACK")
                raise

    def _forget_table(self, cursor: Any, number: str) -> None:
        """Remove all that is recorded of a table, in a transaction that has begun."""
        cursor.execute(f"DELETE FROM {self.record} WHERE table_id = ?", [number])
        if self.kind_of(packed_ids.RUNS):
            packed_ids.remove_runs(
                self._packed_tables(lambda text: list(cursor.execute(text).fetchall()), number)
            )

    def loaded_among(self, ids: Sequence[str]) -> set[str]:
        wholes = [i.removeprefix(MARK) for i in ids if i.startswith(MARK)]
        found = {str(i) for (i,) in self._recorded("split", "list_contains(?, split)", list(ids))}
        if wholes:
            rows = self._recorded("DISTINCT whole", "list_contains(?, whole)", wholes)
            found |= {f"{MARK}{whole}" for (whole,) in rows}
        left = {bytes.fromhex(i) for i in ids if len(i) == 32 and i not in found}
        return found | {i.hex() for i in self._packed().among(left)}

    def join_record(self) -> None:
        number = self.table_id()
        if not number or not self.kind_of(RECORD):
            return
        # By the newest line: a table that nobody loads into for a while keeps its last lines, which
        # tell whether it was emptied.
        old = (
            "table_id = ? AND whole = '' AND \"rows\" IS NOT NULL AND length(split) = 32 AND "
            f'"at" < (SELECT max("at") FROM {self.record} WHERE table_id = ?) - '
            f"INTERVAL '{_JOINED_AGE}'"
        )
        with self._changing() as cursor:
            days = "date_diff('day', DATE '1970-01-01', current_date)"
            taken = cursor.execute(
                f"SELECT split, load, {days} FROM {self.record} WHERE {old}", [number, number]
            ).fetchall()
            if not taken:
                return
            self._make_packed(cursor)
            packed_ids.add(
                self._packed_tables(lambda text: list(cursor.execute(text).fetchall()), number),
                [packed_ids.PackedId(bytes.fromhex(i), load, day) for i, load, day in taken],
            )
            # Made anew: a table with a key keeps the room of rows that are deleted.
            kept = f"CREATE TEMP TABLE {_KEPT_LINES} AS SELECT * FROM {self.record} WHERE NOT"
            cursor.execute(f"{kept} ({old})", [number, number])
            cursor.execute(f"DROP TABLE {self.record}")
            self._make_record(cursor)
            cursor.execute(f"INSERT INTO {self.record} SELECT * FROM {_KEPT_LINES}")
            cursor.execute(f"DROP TABLE {_KEPT_LINES}")
        self._packed().merge()

    def _make_packed(self, cursor: Any) -> None:
        ids, runs = (
            f"{identifier(self.schema)}.{identifier(name)}"
            for name in (packed_ids.IDS, packed_ids.RUNS)
        )
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {ids} (place BIGINT PRIMARY KEY, ids BLOB NOT NULL, "
            "marks BLOB NOT NULL)"
        )
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {runs} (run BIGINT, target VARCHAR, bits INTEGER, "
            "ids BIGINT, oldest INTEGER, merged_into BIGINT, steps BIGINT)"
        )

    def forget_loads(self, loads: Collection[str]) -> int:
        named = list(loads)
        ((found,),) = self._recorded("count(*)", "list_contains(?, load)", named) or ((0,),)
        if found:
            asked = f"DELETE FROM {self.record} WHERE table_id = ? AND list_contains(?, load)"
            self.rows(asked, self.table_id(), named)
        return int(found) + self._packed().forget(named)

    def prune_record(self, days: int) -> None:
        self._packed().prune(days)

    def unrecorded(self) -> bool:
        there = self.kind_of(self.bare) and self.rows(f"SELECT 1 FROM {self.table} LIMIT 1")
        told = self._recorded("1", "1 = 1 LIMIT 1") or self._packed().holds_any()
        return bool(there) and not told

    def is_emptied(self) -> bool:
        """See :meth:`rowfall.engines.database.NoticesEmptied.is_emptied`.

        Where rows of others came since, nothing shows it: a file has no history.
        """
        if not self.kind_of(self.bare) or self.rows(f"SELECT 1 FROM {self.table} LIMIT 1"):
            return False
        accepted = self._recorded("1", "split = ? LIMIT 1", ACCEPTED)
        return not accepted and bool(self._recorded("1", '"rows" > 0 LIMIT 1'))

    def forget_all(self) -> None:
        number = self.table_id()
        with self._changing() as cursor:
            self._forget_table(cursor, number)

    def accept(self) -> None:
        self.prepare(())
        self.rows(
            f"INSERT INTO {self.record} (table_id, split, attempt, load, name, whole) "
            "VALUES (?, ?, '', '', 'rows of others', '') ON CONFLICT DO NOTHING",
            self.table_id(), ACCEPTED,
        )  # fmt: skip

    def count(self) -> int:
        return int(self.rows(f"SELECT count(*) FROM {self.table}")[0][0])

    def close(self) -> None:
        self.cancel_all()
        self.file.close()


def _ids(rows: Iterable[Sequence[Any]]) -> set[str]:
    """Return the ids that rows of the record (split, whole) tell, with marks of whole files."""
    rows = list(rows)
    return {str(split) for split, _ in rows} | {f"{MARK}{whole}" for _, whole in rows if whole}


class FileTransaction(PlainTransaction):
    """An attempt; see :class:`rowfall.engines.database.Transaction`."""

    def __init__(self, database: FileDatabase, cursor: Any) -> None:
        self.database, self.cursor = database, cursor
        self._columns: Sequence[str] = ()
        self._attempt, self._taken = "", 0
        self._running = threading.Lock()

    @contextlib.contextmanager
    def _run(self) -> Iterator[None]:
        """Run statements; a connection takes one at a time."""
        with self._running, self.database.translated():
            yield

    @abstractmethod
    def insert(self, into: str, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        """Send rows into a table, given as SQL; return how many the database has taken."""

    def lease(self, attempt: str, load: str, records: Sequence[SplitRecord]) -> frozenset[str]:
        self._attempt = attempt
        asked = {r.id for r in records} | {r.whole for r in records} - {""}
        there = self.database.loaded_into([*asked, *(f"{MARK}{r.id}" for r in records)])
        loaded = frozenset(
            r.id for r in records
            if r.id in there or (r.whole and r.whole in there) or f"{MARK}{r.id}" in there
        )  # fmt: skip
        if not loaded:
            number = self.database.into_id()
            with self._run():
                self.cursor.execute("BEGIN")
                self.cursor.executemany(
                    f"INSERT INTO {self.database.record} (table_id, split, attempt, load, name, "
                    "whole) VALUES (?, ?, ?, ?, ?, ?)",
                    [[number, r.id, attempt, load, r.name, r.whole] for r in records],
                )
        return loaded

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        self._columns, into = columns, self.database.into
        with self._run():
            if self.database.options.on_conflict != ERROR:
                names = ", ".join(map(identifier, columns))
                self.cursor.execute(
                    f"CREATE TEMP TABLE IF NOT EXISTS {_KEPT} AS SELECT {names} FROM {into} LIMIT 0"
                )
                into = _KEPT
            taken = self.insert(into, columns, rows)
        self._taken += taken
        return taken

    def finish(self, rows: int) -> int:
        with self._run():
            if self.database.options.on_conflict != ERROR and self._taken:
                rows = self._merge()
            self.cursor.execute(
                f'UPDATE {self.database.record} SET "rows" = ? WHERE attempt = ?',
                [rows, self._attempt],
            )
        return rows

    def _merge(self) -> int:
        """Insert what was kept as ``--on-conflict`` says; return the rows that have come.

        Raises:
            UsageError: the table has no key, the files lack some of it, or have a column rowid.
        """
        if "rowid" in map(str.lower, self._columns):
            raise UsageError(
                "--on-conflict goes by the order of rows, which a column rowid hides",
                hint="Rename the column in the table, and here with --rename rowid=NAME.",
            )
        names = ", ".join(map(identifier, self._columns))
        chosen, action = f"SELECT {names}", "DO NOTHING"
        if self.database.options.on_conflict == REPLACE:
            key = self.database.key()
            if not key:
                raise no_key_to_replace(self.database.name)
            check_key_given(key, self._columns)
            keys = ", ".join(map(identifier, key))
            # Of rows with one key only one may be inserted: that which came last.
            chosen = (
                f"SELECT {names} FROM (SELECT *, row_number() OVER (PARTITION BY {keys} ORDER BY "
                f"rowid DESC) AS _rowfall_n FROM {_KEPT}) WHERE _rowfall_n = 1"
            )
            others = [identifier(name) for name in self._columns if name not in key]
            sets = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
            action = f"({keys}) DO UPDATE SET {sets}" if sets else f"({keys}) DO NOTHING"
        else:
            chosen = f"SELECT {names} FROM {_KEPT} ORDER BY rowid"
        ((count,),) = self.cursor.execute(
            f"INSERT INTO {self.database.into} ({names}) {chosen} ON CONFLICT {action}"
        ).fetchall()
        return int(count)

    def commit(self) -> None:
        with self._run():
            self.cursor.execute("COMMIT")

    def cancel(self) -> None:
        with contextlib.suppress(RowfallError), self.database.translated():
            self.cursor.interrupt()

    def release(self) -> None:
        self.cancel()
        if self._running.acquire(timeout=_LAST_SECONDS):
            with contextlib.suppress(RowfallError), self.database.translated():
                self.cursor.execute("ROLLBACK")
            self.cursor.close()
            self._running.release()
