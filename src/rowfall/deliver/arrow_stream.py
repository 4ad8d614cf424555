"""Gives rows to a program of this process: rowfall-decode writes Arrow into a channel.

It reads the source itself, or a pipe of Native blocks that the engine writes: there is one who
makes Arrow of values, whoever has parsed them. Rows that the program has got are never given again:
who reads the rest of an attempt that has failed leaves them out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from rowfall.contracts.delivery import DeliveryOrder
from rowfall.core.arrow_channel import ArrowChannel, ChannelStream, StreamClosedError
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import DataError, EngineError, RowfallError, UsageError, headline
from rowfall.core.events import Listener, Note
from rowfall.core.listing import Split
from rowfall.core.model import Column, Outcome, Schema
from rowfall.decoder.abilities import TEXT_FORMATS
from rowfall.decoder.documents import ArrowOutput, Spec
from rowfall.decoder.installed import PROGRAM
from rowfall.decoder.process import DecoderProcess, Summary
from rowfall.deliver.build import NATIVE, FromEngine
from rowfall.deliver.decode import (
    DeclinedError,
    Decode,
    DecoderInput,
    DecoderRun,
    decoder_spec,
    let_go,
)
from rowfall.engines.base import Engine, Tick
from rowfall.engines.database import RefusedRowError
from rowfall.stores.objects import ObjectSource

# Rows and bytes of a batch. Each costs whoever takes it some work, and a few wait in memory.
_BATCH_ROWS, _BATCH_BYTES = 65_536, 8 << 20
# One thread, so that rows come as they stand in the file, each time.
_IN_ORDER: dict[str, str | int | float] = {
    "max_threads": 1, "max_insert_threads": 1, "input_format_parallel_parsing": 0,
    "input_format_parquet_preserve_order": 1, "session_timezone": "UTC",
}  # fmt: skip


@dataclass(slots=True)
class StreamRun(DecoderRun):
    """One attempt, and the stream that it writes."""

    stream: ChannelStream | None = None


class _Streaming(Decode):
    """Lets rowfall-decode write a stream of a channel.

    Args:
        given: rows that the reader has got of splits which are read again, by the ids of these.
    """

    def __init__(
        self, program: str, engine: Engine, input_: DecoderInput, channel: ArrowChannel,
        given: dict[str, int],
    ) -> None:  # fmt: skip
        super().__init__(program, engine, input_)
        self._channel, self._given = channel, given
        self._broken: RowfallError | None = None  # why nothing may be read again
        self._failed_at = 0  # number of the split of the last attempt that was declined

    def _pipes(self, order: DeliveryOrder) -> int:
        return 1

    def _begin(self, order: DeliveryOrder, outputs: Sequence[str], lane: int) -> StreamRun:
        stream, writes = self._channel.offer()
        return StreamRun(order, outputs, lane, stdout=writes, stream=stream)

    def _prepare(self, run: DecoderRun, asked: Spec) -> Spec:
        encoding = self._input.read
        packed = asked.format in TEXT_FORMATS and asked.compression != "none"
        return replace(
            asked, outputs=("-",), output_format="ArrowStream",
            output_arrow=ArrowOutput(self._known(run.order)),
            binary=encoding is not None and encoding.binary,
            block_rows=_BATCH_ROWS, block_bytes=_BATCH_BYTES,
            # Unpacked by a thread of its own, while another one parses.
            read_ahead=packed,
        )  # fmt: skip

    def _known(self, order: DeliveryOrder) -> int:
        """Return the first rows of an order that the reader has got: they are left out."""
        # Those of a split that was read in part come last: _note has it so.
        return sum(self._given.get(split.id, 0) for split in order.splits)

    def _start(self, run: DecoderRun, asked: Spec) -> DecoderProcess:
        try:
            return super()._start(run, asked)
        finally:
            os.close(run.stdout)  # the program has its own: without it, the stream ends

    def _insert_blocks(self, run: DecoderRun, tick: Tick) -> Outcome:
        """Return when the reader has got all rows, or those before an error."""
        child = run.process
        _of(run).wait()
        child.wait()
        if self._channel.stopped.is_set():
            raise StreamClosedError("the reader was closed")
        try:
            report = self.result_of(child, run.order)
        except RowfallError:
            try:
                self._note(run)
            except RowfallError as error:
                self._broken = error
                raise
            told = child.given
            self._failed_at = 0 if told is None else told.failed
            raise
        rows = 0 if report is None else report.rows
        got = self._known(run.order) + _of(run).rows
        if report is not None and got != rows:  # somebody else has read from the pipe
            raise EngineError(f"{rows:,} rows were decoded, and {got:,} arrived")
        return Outcome(rows_read=rows, rows_written=rows)

    def result_of(self, child: DecoderProcess, order: DeliveryOrder) -> Summary | None:
        """See :meth:`Decode.result_of`; whoever asks what has failed hears why that is the end."""
        if self._broken is not None:
            raise self._broken
        return super().result_of(child, order)

    def _note(self, run: DecoderRun) -> None:
        """Note which rows of which splits the reader has got, before they are read again.

        Raises:
            EngineError: nobody knows.
            StreamClosedError: they may come in another order then.
        """
        order, told = run.order, run.process.given
        rows = _of(run).rows
        if rows and not isinstance(self._input.source, ObjectSource):
            raise StreamClosedError(
                f"reading {order.splits[0].name} failed after {rows:,} rows: the others cannot be "
                "told from them when it is read again",
                hint="Call rowfall.read again, and take all rows anew.",
            )
        if rows and told is None and len(order.splits) > 1:
            raise EngineError(f"{PROGRAM} was ended, and has not said which files its rows were of")
        left, last = self._known(order) + rows, len(order.splits) - 1
        for number, split in enumerate(order.splits):
            whole = told is not None and number < min(told.failed, len(told.inputs), last)
            count = min(left, told.inputs[number]) if told is not None and whole else left
            self._given[split.id] = count
            left -= count


class _FromEngine(FromEngine, _Streaming):
    """Reader of one split at a time by the engine: its rows can be told from those of others."""

    def _abandon(self, run: DecoderRun, pipe: str) -> None:
        """Let the program end by itself, which ends its last batch."""
        let_go(pipe)
        _of(run).wait()
        run.process.wait()
        self._note(run)


class StreamRows(_Streaming):
    """Delivers into a channel.

    Args:
        emit: hears what the engine has to read.
        decodes: rowfall-decode can parse the source.
    """

    def __init__(
        self, program: str, engine: Engine, input_: DecoderInput, channel: ArrowChannel,
        emit: Listener, *, decodes: bool,
    ) -> None:  # fmt: skip
        super().__init__(program, engine, input_, channel, {})
        self._emit, self._decodes = emit, decodes
        self._from_engine = _FromEngine(program, engine, input_, channel, self._given)

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        if self._channel.failed:
            return Outcome()  # the reader gets an error, and wants nothing behind it
        projected = order.schema.projection is not None or order.select is not None
        decodes = self._decodes and not projected and self._input.takes(order)
        found, splits = Outcome(), list(order.splits)
        declined: DeclinedError | None = None
        while splits:
            try:
                if decodes:
                    on_tick({"read_rows": 0, "sent_bytes": 0})  # no engine need be asked
                    made = self.in_folder(replace(order, splits=tuple(splits)), lane, on_tick)
                    return _sum(found, made)
            except DeclinedError as error:
                # In their order: what it has read before, then what the engine has to read.
                done = self._begun(splits)
                found = _sum(found, Outcome(rows_written=sum(self._given[s.id] for s in done)))
                splits = splits[len(done) :]
                declined = error
                text = f"{headline(error.message)[:200]}; the engine reads it instead"
                self._emit(Note("info", text))
            made = self._by_engine(replace(order, splits=(splits.pop(0),)), lane, on_tick, declined)
            found = _sum(found, made)
        return found

    def _begun(self, splits: Sequence[Split]) -> Sequence[Split]:
        """Return the splits in front of the one that was declined, whose rows have been given."""
        declined = self._failed_at
        return splits[: min(declined, len(splits) - 1)]

    def _by_engine(
        self, order: DeliveryOrder, lane: int, on_tick: Tick, declined: DeclinedError | None
    ) -> Outcome:
        """Give the rows of one split, which the engine reads.

        Raises:
            RefusedRowError: Arrow has no such value.
            DataError: rowfall-decode has declined a value, and there is no engine to read it.
        """
        order = replace(order, settings={**order.settings, **_IN_ORDER})
        try:
            return self._from_engine.in_folder(order, lane, on_tick)
        except DeclinedError as error:
            raise _refused(error) from None
        except UsageError as error:
            if declined is None:
                raise
            raise DataError(
                declined.message,
                uri=order.splits[0].uri,
                hint=f"Only ClickHouse's own reader takes it, if at all. {error.hint}",
            ) from None

    def kill(self, attempt: str) -> None:
        super().kill(attempt)
        self._from_engine.kill(attempt)


def write_no_rows(program: str, channel: ArrowChannel, schema: Schema) -> None:
    """Write the columns of a stream without rows, and wait until the reader has them.

    Raises:
        EngineError: rowfall-decode did not write them.
    """
    columns = tuple(Column(c.name, c.type, source=c.name) for c in schema.columns)
    asked = replace(
        decoder_spec((), NATIVE, Schema(columns), {}, ["-"]),
        output_format="ArrowStream", output_arrow=ArrowOutput(0),
    )  # fmt: skip
    stream, writes = channel.offer()
    try:
        child = DecoderProcess(program, asked, stdout=writes)
    finally:
        os.close(writes)
    stream.wait()
    if not isinstance(child.result(), Summary) and not channel.stopped.is_set():
        raise EngineError(f"{PROGRAM} wrote no columns")


def _of(run: DecoderRun) -> ChannelStream:
    """Return the stream of an attempt."""
    assert isinstance(run, StreamRun) and run.stream is not None  # noqa: S101, PT018 - see _begin
    return run.stream


def _sum(one: Outcome, other: Outcome) -> Outcome:
    return Outcome(
        rows_read=one.rows_read + other.rows_read,
        rows_written=one.rows_written + other.rows_written,
        seconds=one.seconds + other.seconds,
        cpu_seconds=one.cpu_seconds + other.cpu_seconds,
        bytes_read=one.bytes_read + other.bytes_read,
    )


def _refused(error: DeclinedError) -> RefusedRowError:
    """Return the error about a value that Arrow has not, in a row that is looked for by it."""
    text = error.message.removeprefix(": ")
    found = RefusedRowError(
        text, uri="",
        hint="Read such strings as bytes with encoding='binary'.",
    )  # fmt: skip
    found.no_text = "UTF-8" in text
    return found
