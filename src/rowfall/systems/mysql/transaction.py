"""One transaction of a load into MySQL: the record of its splits, LOAD DATA, COMMIT.

LOAD DATA LOCAL never fails for a value: what does not fit is clipped and what is there already is
left out, whatever sql_mode says, and only counted as warnings. So a transaction is taken back
unless LOAD DATA has had none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from rowfall.core.options import SKIP
from rowfall.engines.base import NETWORK_ERROR
from rowfall.engines.database import (
    LEASE_SECONDS,
    RECORD,
    Binary,
    BusyError,
    ExternalWriter,
    NoBinaryError,
    PlainTransaction,
    RefusedRowError,
    RolledBackError,
    Socket,
    SplitRecord,
    UnknownEndError,
    replace_escape,
)
from rowfall.systems.mysql import bulk, wire
from rowfall.systems.mysql.client import (
    DEADLOCK,
    DUPLICATE,
    LOCKED,
    LOST,
    PASSING,
    PATIENCE_SECONDS,
    column_in,
    driver,
    names_row,
    number_of,
    quote,
    row_in,
    value_in,
)
from rowfall.systems.mysql.statements import LoadStatements
from rowfall.systems.mysql.types import unfit

# How long rows wait for locks of others, as servers do by themselves.
_LOCK_SECONDS = 50
# The engine's TSV has an escape more than LOAD DATA knows, which reads \f as the letter.
_FORM_FEED = (b"\\f", b"\f")
# Records of one INSERT: well below the smallest max_allowed_packet that servers come with.
_RECORDS_AT_ONCE = 500
_MOST_NAME = 500
# A conflict that is there again is one with another unique key.
_MERGES = 3
_COLUMNS = "target, split, attempt, load_id, name, whole, attempt_rows, session, loaded"


class MySQLTransaction(PlainTransaction):
    """One transaction of a load, on a connection of its own."""

    def __init__(self, database: LoadStatements) -> None:
        self._database = database
        self._connection: Any = None
        self._attempt = ""
        self._added = self._marked = 0
        # Of the temporary table, where rows go there first.
        self._staged: tuple[str, ...] = ()

    def lease(self, attempt: str, load: str, records: Sequence[SplitRecord]) -> frozenset[str]:
        database, self._attempt = self._database, attempt
        self._connection = self._connection or database.take()
        target = quote(database.taking.target)
        ordered = sorted(records, key=lambda record: record.id)  # or two would wait for each other
        try:
            self._execute("BEGIN")
            self._wait(LEASE_SECONDS)
            for start in range(0, len(ordered), _RECORDS_AT_ONCE):
                values = ", ".join(
                    f"({target}, {quote(one.id)}, {quote(attempt)}, {quote(load)}, "
                    f"{quote(one.name[:_MOST_NAME])}, {quote(one.whole)}, NULL, CONNECTION_ID(), "
                    "UTC_TIMESTAMP())"
                    for one in ordered[start : start + _RECORDS_AT_ONCE]
                )
                self._execute(f"INSERT INTO {database.record.at} ({_COLUMNS}) VALUES {values}")
            replaced = bool(self._execute(database.taking.swap_question))
            # Behind the lines, whose keys keep others from moving these meanwhile.
            joined, numbers = database.taking.joined, database.taking.set_numbers()
            old = joined.among(numbers, [one.id for one in ordered], self._execute)
            self._wait(_LOCK_SECONDS)
        except (driver().err.MySQLError, OSError) as error:
            self.release()
            number = number_of(error)
            if number in DUPLICATE:
                return self._known(ordered)
            if number in (LOCKED, DEADLOCK):
                raise BusyError("another load holds these files", transient=True) from None
            raise database.explained(error, f"write to {RECORD}") from None
        if replaced:
            # Who reads that line behind its own ones writes into no table that is renamed.
            self.release()
            database.taking.settle_swap(waits=False)
            raise BusyError("another load replaces the table", transient=True)
        if old:
            self.release()
        return frozenset(old)

    def _known(self, records: Sequence[SplitRecord]) -> frozenset[str]:
        """Return the ids of the splits that the record has by now.

        Raises:
            BusyError: it has none of them; try again.
        """
        found = frozenset(self._database.taking.loaded_among([one.id for one in records]))
        if not found:
            raise BusyError("another load holds these files", transient=True)
        return found

    def write(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        return self._write(columns, replace_escape(rows, *_FORM_FEED))

    def write_text(self, columns: Sequence[str], rows: Iterator[bytes]) -> int:
        return self._write(columns, rows)

    def socket(self) -> Socket | None:
        return wire.socket_of(self._connection, self._database.packet)

    def write_sent(self, columns: Sequence[str], sent: ExternalWriter) -> int:
        return self._write(columns, iter(()), sent)

    def _write(
        self, columns: Sequence[str], rows: Iterator[bytes], sent: ExternalWriter | None = None
    ) -> int:
        database = self._database
        skips = database.on_conflict == SKIP
        try:
            if database.updates and not self._staged:
                self._staged = tuple(columns)
                for text in database.staging_statements(columns):
                    self._execute(text)
            done = wire.load_data(
                self._connection, database.load_statement(columns), rows, database.packet, sent
            )
            left_out = done.skipped if skips else 0
            if done.warnings != left_out or done.skipped != left_out:
                raise self._refused(self._warnings())
        except wire.NoFileWantedError:
            raise database.no_files() from None
        except (driver().err.MySQLError, OSError) as error:
            number, said = number_of(error), str(error.args[-1])
            if number not in PASSING and (number in DUPLICATE or names_row(said)):
                raise self._refused([(number, said)]) from None
            raise database.explained(error, "load rows") from None
        self._added += done.records - done.skipped - done.deleted
        return done.records

    def write_binary(self, columns: Sequence[str], binary: Binary, rows: Iterator[bytes]) -> int:
        database = self._database
        try:
            # Between two frames the session waits for the source as LOAD DATA does.
            self._execute(f"SET SESSION wait_timeout = {PATIENCE_SECONDS}")
            taken = bulk.insert(
                self._connection, database.insert_statement(columns), binary.types, rows,
                int(database.settings["max_allowed_packet"]),
            )  # fmt: skip
        except (driver().err.MySQLError, OSError) as error:
            if number_of(error) in PASSING or isinstance(error, OSError):
                raise database.explained(error, "load rows") from None
            raise NoBinaryError(str(error.args[-1])) from None
        self._added += taken
        return taken

    def _warnings(self) -> list[tuple[int, str]]:
        """Return number and text of warnings; those about keys last where these are left out."""
        found = [(int(number), str(text)) for _, number, text in self._execute("SHOW WARNINGS")]
        skips = self._database.on_conflict == SKIP
        return sorted(found, key=lambda one: skips and one[0] in DUPLICATE)

    def _refused(self, said: Sequence[tuple[int, str]]) -> RefusedRowError:
        """Return the error of a row that the database would have changed or left out."""
        database = self._database
        number, text = said[0] if said else (0, "warnings that it does not name")
        if number in DUPLICATE:
            return RefusedRowError(
                f"{database.text}: {text}", uri="", value=value_in(text),
                hint="--on-conflict skip leaves such rows out, --on-conflict replace puts them in "
                "the place of those that are there.",
            )  # fmt: skip
        column = column_in(text)
        more = f" (and {len(said) - 1} more)" if len(said) > 1 else ""
        error = RefusedRowError(
            f"{database.text} cannot hold a value: {text}{more}", uri="", column=column,
            value=value_in(text),
            hint="Nothing of it was loaded: change the column, or convert the value with --select.",
        )  # fmt: skip
        error.condition = unfit(database.columns, column or "")
        error.sent_row = row_in(text)
        return error

    def mark(self) -> None:
        self._marked = self._added
        self._savepoint("SAVEPOINT rowfall")

    def back(self) -> None:
        self._added = self._marked
        self._savepoint("ROLLBACK TO SAVEPOINT rowfall")

    def _savepoint(self, text: str) -> None:
        try:
            self._execute(text)
        except (driver().err.MySQLError, OSError) as error:
            raise self._database.explained(error, "set a savepoint") from None

    def finish(self, rows: int) -> int:
        database = self._database
        if self._staged:
            self._merge()
        try:
            # Behind the rows: from then on nobody drops or alters the table before the commit.
            self._execute(
                f"UPDATE {database.record.at} SET attempt_rows = {rows}{self._identity()} "
                f"WHERE attempt = {quote(self._attempt)}"
            )
        except (driver().err.MySQLError, OSError) as error:
            raise database.explained(error, f"write to {RECORD}") from None
        return self._added

    def _merge(self) -> None:
        """Change the rows with the keys that have come, and insert the others.

        A row with the same key that another attempt commits in between is found the second time.
        """
        database, columns = self._database, self._staged
        tries = 0
        while True:
            try:
                with self._connection.cursor() as cursor:
                    for text in database.merge_statements(columns):
                        self._added = cursor.execute(text)
                    cursor.execute(f"DROP TEMPORARY TABLE {database.rows_name}")
                return
            except (driver().err.MySQLError, OSError) as error:
                number, said = number_of(error), str(error.args[-1])
                tries += 1
                if number in DUPLICATE and tries < _MERGES:
                    continue
                if number not in PASSING and not isinstance(error, OSError):
                    raise self._refused([(number, said)]) from None
                raise database.explained(error, "change rows") from None

    def _identity(self) -> str:
        """Return SQL assignments that identify the table in the record, each behind a comma.

        "" where the server has no creation time of it.
        """
        database = self._database
        made = None if database.distributed else self._execute(database.taking.made_question)[0][0]
        if made is None:
            return ""
        sample = database.taking.sample()
        text = "NULL" if sample is None else quote(sample)
        return f", gained = {self._added}, table_made = {quote(str(made))}, sample = {text}"

    def commit(self) -> None:
        database, connection = self._database, self._connection
        try:
            with connection.cursor() as cursor:
                # Not the driver's commit(): it waits where a server answers by asking for a file.
                cursor.execute("COMMIT")
        except (driver().err.MySQLError, OSError) as error:
            found = database.explained(error, "commit")
            self.release()
            if number_of(error) in LOST or isinstance(error, OSError):
                raise UnknownEndError(found.message, transient=True, code=NETWORK_ERROR) from None
            raise RolledBackError(found.message, transient=found.transient) from None
        self._connection = None
        database.leave(connection, clean=True)

    def release(self) -> None:
        connection, self._connection = self._connection, None
        self._added, self._staged = 0, ()
        if connection is not None:
            self._database.leave(connection)

    def cancel(self) -> None:
        """End what the transaction waits for, from another thread."""
        connection = self._connection
        if connection is None:
            return
        thread = connection.thread_id()
        connection.wire.shutdown()  # before the server is asked: it may not answer
        threading.Thread(target=self._database.kill, args=(thread,), daemon=True).start()

    def _wait(self, seconds: int) -> None:
        """Set how long the next statements wait for locks of others."""
        setting = "lock_wait_timeout" if self._database.distributed else "innodb_lock_wait_timeout"
        self._execute(f"SET SESSION {setting} = {seconds}")

    def _execute(self, text: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())
