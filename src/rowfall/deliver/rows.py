"""Sends rows as text to a database.

rowfall-decode writes them, or an engine here does, as it writes a file; then who reads the source
and who parses it is the business of the delivery inside. Either writes into a pipe, and the bytes
are handed on in pieces; where a row ends is no matter here.
"""

from __future__ import annotations

import fcntl
import io
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rowfall.contracts.delivery import Delivery, DeliveryOrder
from rowfall.contracts.receiver import CountError
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError
from rowfall.core.model import Column, Outcome, Refused
from rowfall.core.sqltext import SqlText
from rowfall.decoder.documents import OutputConnection, Spec
from rowfall.decoder.process import DecoderProcess
from rowfall.deliver.decode import (
    CHUNK,
    DeclinedError,
    Decode,
    DecoderInput,
    DecoderRun,
)
from rowfall.deliver.refused import write_good
from rowfall.deliver.streams import AGAIN_SECONDS, PIPE_BYTES, POLL_SECONDS, Pipe, readings
from rowfall.engines.base import Engine, Tick
from rowfall.engines.database import (
    Binary,
    Database,
    NoBinaryError,
    Socket,
)
from rowfall.plan import decoding
from rowfall.targets.transactional import TransactionalTable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# Bytes of each connection that ``--prefill`` has ready, and how long it waits for those of others:
# an attempt whose files another process holds brings none.
_FILL, _FILL_SECONDS = 64 << 20, 60.0
# Rows of a block that is thrown away: it stays in the cache.
_CHECKED_ROWS = 4096


class Prefill:
    """Lets the first attempts of all connections fill their buffers before any of them sends.

    Attributes:
        started: when they began to send, as of ``time.monotonic``; None before.
    """

    def __init__(self, connections: int) -> None:
        self.started: float | None = None
        self._all = threading.Barrier(connections, self._start, _FILL_SECONDS)

    def _start(self) -> None:
        self.started = time.monotonic()

    @property
    def waits(self) -> bool:
        """True as long as no connection sends."""
        return self.started is None and not self._all.broken

    def wait(self) -> None:
        """Wait, with what is sent first, until all connections have theirs."""
        with suppress(threading.BrokenBarrierError):
            self._all.wait()

    def over(self, rows: Iterator[bytes]) -> Iterator[bytes]:
        """Give rows, the first of them when all connections have theirs."""
        if self.waits:
            held: list[bytes] = []
            size = 0
            for piece in rows:
                held.append(piece)
                size += len(piece)
                if size >= _FILL:
                    break
            self.wait()
            held.reverse()
            while held:  # what is sent is let go
                yield held.pop()
        yield from rows

    def end(self) -> None:
        """Wait no more: an attempt has failed."""
        self._all.abort()


class SendRows:
    """Delivers into the transaction of each attempt.

    Args:
        inside: brings the rows into a file of the target's format, which is a pipe here.
        prefill: None where rows are sent as they come.
    """

    def __init__(
        self, inside: Delivery, target: TransactionalTable, database: Database,
        prefill: Prefill | None = None,
    ) -> None:  # fmt: skip
        self._inside, self._target, self._database = inside, target, database
        self.prefill = prefill

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        schema, select = self._target.sent(order.schema), order.select
        if select is not None and schema is not order.schema:
            texts = self._target.select_written(order.schema.columns)
            select = SqlText.of(f"SELECT {texts} FROM (", select, ")")
        with tempfile.TemporaryDirectory(prefix="rowfall-rows-") as folder:
            path = os.path.join(folder, "rows")
            os.mkfifo(path, 0o600)
            sending = _Sending(self._database, self._inside, order, path, self.prefill)
            try:
                outcome = self._inside.insert(
                    replace(
                        order,
                        schema=schema,
                        select=select,
                        staging=path,
                        settings={**order.settings, **self._target.rows.settings},
                    ),
                    lane,
                    on_tick,
                )
            except BaseException as error:
                sending.stop()
                raise sending.failed or error from None
            taken = sending.result()
        refused = sending.refused
        if taken + len(refused) != outcome.rows_written:
            raise CountError(
                f"{outcome.rows_written:,} rows were written here and {taken:,} have arrived",
                transient=True,
            )
        return replace(outcome, rows_written=taken, refused=refused)

    def kill(self, attempt: str) -> None:
        self._inside.kill(attempt)
        self._database.cancel(attempt)


@dataclass(slots=True)
class WriteRun(DecoderRun):
    """One attempt whose rows the program writes for a database.

    Attributes:
        binary: how they are sent in binary; None for text.
        socket: where the program itself sends them; None where they come through a pipe.
    """

    binary: Binary | None = None
    socket: Socket | None = None


def _of(run: DecoderRun) -> WriteRun:
    """Return the state of an attempt as the one that :class:`WriteRows` has made."""
    assert isinstance(run, WriteRun)  # noqa: S101 - made by WriteRows._begin
    return run


class WriteRows(Decode):
    """Delivers into the transaction of each attempt what rowfall-decode writes as text.

    Args:
        input_: its fallback, in which an engine writes, gets what rowfall-decode declines.
        prefill: None where rows are sent as they come.
    """

    def __init__(
        self, program: str, engine: Engine, input_: DecoderInput, target: TransactionalTable,
        database: Database, prefill: Prefill | None = None,
    ) -> None:  # fmt: skip
        super().__init__(program, engine, input_)
        self._target, self._database, self.prefill = target, database, prefill
        # What is declined has to be known before rows are sent that nobody takes back.
        checks = not (target.takes_back or decoding.makes(input_.encoding))
        self._check = _CheckRows(program, engine, input_) if checks else None

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        # What is read in another way than planned may have other types; and where refused rows are
        # left out, their lines are counted in the order of the engine.
        schema = order.schema
        only = any(map(self._target.only_engine_writes, schema.columns))
        if only or schema.projection is not None or order.most_refused is not None:
            return self._input.fallback.insert(order, lane, on_tick)
        if self._check is None or not self._input.takes(order):
            return super().insert(order, lane, on_tick)
        checked = self._check.in_folder(order, lane, lambda _: None)
        sent = super().insert(order, lane, on_tick)
        return replace(
            sent, cpu_seconds=sent.cpu_seconds + checked.cpu_seconds,
            helper=sent.helper + checked.helper,
        )  # fmt: skip

    def kill(self, attempt: str) -> None:
        if self._check is not None:
            self._check.kill(attempt)
        super().kill(attempt)

    def _pipes(self, order: DeliveryOrder) -> int:
        return 1  # an attempt is one transaction on one connection

    def _begin(self, order: DeliveryOrder, outputs: Sequence[str], lane: int) -> WriteRun:
        binary = self._in_binary(order.schema.columns)
        to = None if binary is not None else self._socket(order)
        return WriteRun(order, outputs, lane, binary=binary, socket=to)

    def _prepare(self, run: DecoderRun, asked: Spec) -> Spec:
        for pipe in run.outputs:
            os.mkfifo(pipe, 0o600)
        binary, to = _of(run).binary, _of(run).socket
        if binary is not None:
            return replace(
                asked, output_format=binary.format, output_texts=tuple(binary.texts),
                output_types=tuple(binary.names),
            )  # fmt: skip
        asked = replace(asked, output_format=self._target.rows.decoder)
        if to is None:
            return asked
        fills = _FILL if self.prefill is not None and self.prefill.waits else 0
        connection = OutputConnection(to.descriptor, to.number, to.packet_bytes, fills)
        return replace(asked, output_connection=connection)

    def _socket(self, order: DeliveryOrder) -> Socket | None:
        """Return where the program itself sends the rows; None where they come through a pipe."""
        return self._database.transaction(order.attempt).socket()

    def _in_binary(self, columns: Sequence[Column]) -> Binary | None:
        """Return the binary encoding of the columns for the database; None where rows go as text.

        Only of a source that can be read again: refused rows are sent once more, as text, to find
        their lines.
        """
        return self._database.binary(columns) if self._input.source.replayable else None

    def _insert_blocks(self, run: DecoderRun, tick: Tick) -> Outcome:
        """Send what the program writes, and return when the database has taken all of it."""
        began = time.monotonic()
        order, child = run.order, run.process
        transaction = self._database.transaction(order.attempt)
        columns = [column.name for column in order.schema.columns]
        text = _Written(child, run.outputs[0])
        rows = text if self.prefill is None else self.prefill.over(text)
        binary, to = _of(run).binary, _of(run).socket
        try:
            if binary is not None:
                taken = transaction.write_binary(columns, binary, rows)
            elif to is None:
                taken = transaction.write_text(columns, rows)
            else:
                if self.prefill is not None and self.prefill.waits:
                    child.filled.wait()
                    self.prefill.wait()
                taken = transaction.write_sent(columns, text)
        except BaseException as error:
            if self.prefill is not None:
                self.prefill.end()
            if isinstance(error, NoBinaryError):
                what = f"{self._target.text} does not take the rows in binary: {error}"
                raise DeclinedError(what, None) from None
            raise
        finally:
            text.close()
        report = self.result_of(child, order)
        written = taken if report is None else report.rows
        if taken != written:
            raise CountError(
                f"{written:,} rows were written here and {taken:,} have arrived", transient=True
            )
        return Outcome(rows_read=taken, rows_written=taken, seconds=time.monotonic() - began)


class _CheckRows(Decode):
    """Reads the rows of an attempt and throws them away: what is declined is known then."""

    def _prepare(self, run: DecoderRun, asked: Spec) -> Spec:
        for output in run.outputs:
            os.symlink(os.devnull, output)
        return replace(asked, block_rows=_CHECKED_ROWS)

    def _insert_blocks(self, run: DecoderRun, tick: Tick) -> Outcome:
        run.process.wait()
        report = self.result_of(run.process, run.order)
        return Outcome(rows_read=0 if report is None else report.rows)


class _Written(io.RawIOBase):
    """Reads what rowfall-decode writes into a pipe, which it opens when the first is wanted.

    The rows end where the program has ended well. Where it sends them by itself, the pipe has the
    number of the next packet only, see ``connection.rs`` of rowfall-decode.
    """

    def __init__(self, child: DecoderProcess, path: str) -> None:
        self._child, self._path = child, path
        self._file: io.FileIO | None = None

    @property
    def _end(self) -> io.FileIO:
        if self._file is None:
            self._file = open(self._path, "rb", buffering=0)  # noqa: SIM115 - see close
            with suppress(OSError, AttributeError):
                fcntl.fcntl(self._file, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return self._file

    def number(self) -> int | None:
        return next(iter(self._end.read(1)), None)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if piece := self._end.read(CHUNK):
            return piece
        self.check()
        raise StopIteration

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read into memory of a reader that takes a file; the end is checked as of pieces."""
        if not (length := self._end.readinto(buffer)):
            self.check()
        return length

    def check(self) -> None:
        """Check, at the end of the pipe, that the program has written all rows.

        Raises:
            EngineError: it has failed.
        """
        self._child.wait()
        if self._child.failed:
            raise EngineError("rowfall-decode was ended before its last row", transient=True)

    def close(self) -> None:
        """Close the pipe; who still writes into it is ended."""
        if self._file is not None:
            self._file.close()
        super().close()


class _StoppedError(Exception):
    """The engine has ended with an error: what it has written is not all."""


class _Sending:
    """Hands what comes out of a pipe to a transaction, in a thread of its own.

    Attributes:
        failed: what the database has said; None where it has said nothing.
        refused: rows that it would not have, and that are left out.
    """

    def __init__(
        self, database: Database, inside: Delivery, order: DeliveryOrder, path: str,
        prefill: Prefill | None,
    ) -> None:  # fmt: skip
        self.failed: BaseException | None = None
        self.refused: tuple[Refused, ...] = ()
        self._prefill = prefill
        self._database, self._inside, self._order = database, inside, order
        self._pipe = Pipe(path)
        self._ended, self._stopped = threading.Event(), threading.Event()
        self._taken = 0
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def result(self) -> int:
        """Return the rows that the database has taken, when it has taken the last one.

        Raises:
            RowfallError: what it has said.
        """
        self._end()
        if self.failed is not None:
            raise self.failed
        return self._taken

    def stop(self) -> None:
        """End it: the engine has failed."""
        self._stopped.set()
        if self._prefill is not None:
            self._prefill.end()
        self._end()

    def _end(self) -> None:
        self._ended.set()
        while self._thread.is_alive():  # a join without timeout would keep Ctrl-C waiting
            self._thread.join(POLL_SECONDS)
        self._pipe.close()

    def _send(self) -> None:
        order = self._order
        try:
            transaction = self._database.transaction(order.attempt)
            columns = [column.name for column in order.schema.columns]
            body = self._body()
            if self._prefill is not None:
                body = self._prefill.over(body)
            if order.most_refused is None or not self._database.marks:
                self._taken = transaction.write(columns, body)
            else:
                most = order.most_refused
                self._taken, self.refused = write_good(transaction, columns, body, most)
        except _StoppedError:
            return
        except BaseException as error:
            if not self._stopped.is_set():
                self.failed = error
            if self._prefill is not None:
                self._prefill.end()
            self._empty()

    def _body(self) -> Iterator[bytes]:
        for data in readings(self._pipe.read, self._check, lambda: not self._ended.is_set()):
            if data:
                yield data
        self._check()

    def _check(self) -> None:
        if self._stopped.is_set():
            raise _StoppedError

    def _empty(self) -> None:
        """Take what the engine writes until it is ended: it could not be while it waits."""
        killed = 0.0
        while not self._ended.is_set():
            if time.monotonic() - killed > AGAIN_SECONDS:
                killed = time.monotonic()
                threading.Thread(target=self._kill, daemon=True).start()
            if not self._pipe.read():
                self._ended.wait(POLL_SECONDS)

    def _kill(self) -> None:
        with suppress(RowfallError):  # it has ended by itself
            self._inside.kill(self._order.attempt)
