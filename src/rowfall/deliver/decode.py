"""Runs rowfall-decode beside an engine or inside a server, which store rows and do not parse.

Beside: Native blocks come through named pipes. The embedded engine reads them itself; for a server
each is the body of an INSERT. Inside: the server starts the programs, by ``executable()``.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import cast

from rowfall.contracts.delivery import Delivery, DeliveryOrder
from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, RowfallError, TargetError, UnclosedQuoteError
from rowfall.core.listing import Split
from rowfall.core.long_records import RecordPlace, too_long
from rowfall.core.masked import Secret
from rowfall.core.model import Column, Encoding, Notation, Outcome, Schema, Statement
from rowfall.core.sqltext import SqlText
from rowfall.decoder import documents, rewriting
from rowfall.decoder.abilities import TEXT_FORMATS
from rowfall.decoder.documents import Input, Spec, encode
from rowfall.decoder.installed import PROGRAM
from rowfall.decoder.process import Answers, DecoderFailure, DecoderProcess, Summary
from rowfall.deliver.pull import QUIET_SECONDS
from rowfall.deliver.ranges import LEAST, Ranges, cut_files, join_ranges, length
from rowfall.engines.base import SOURCE_BYTES, Engine, Tick
from rowfall.plan import balance, decoding
from rowfall.plan.statements import block_structure, insert_decoded_blocks, select_blocks, sent_type
from rowfall.schema.text.headers import Headers
from rowfall.schema.types import reader_settings, strict_reading
from rowfall.sources import pipes
from rowfall.sources.base import Addressed, HttpAddress, Ranged, Source, Streamed
from rowfall.systems.clickhouse.codes import CHILD_FAILED, CHILD_GONE, DATA_CODES
from rowfall.targets.base import Target

PIPES = "rowfall.pipes"
# Begins the names of what loads of this process make.
_OWN = f"rowfall-{secrets.token_hex(4)}-"
# Stored bytes of a file from which on several threads read it, as of ranges of plain text: of less,
# each thread would leave a part of little.
SHARED_LEAST = LEAST
# Of bz2, whose blocks of 900 kB of text are unpacked in several threads: one takes 30 ms for each.
_SHARED_LEAST_BZ2 = 128 << 10
# A reader that comes after the decoder has gone would wait for a writer for ever.
POLL_SECONDS = 0.1
# A pipe holds 64 KiB unless it is asked for more; reads give what is there.
CHUNK = 1 << 20
_LANES = 1000  # of the streams to a server, clear of all others
# The program gives up a store that is silent for shorter than this, and says why; 10 s, the
# server's default, is less than a retry takes.
SILENCE_MS = 600_000
_LIMITS = (
    f"SETTINGS check_exit_code = 1, command_read_timeout = {SILENCE_MS}, "
    f"command_write_timeout = {SILENCE_MS}, stderr_reaction = 'none'"
)


MOST_RECORD = 256 << 20
"""Bytes of a record that the program reads; each of its threads may hold one. A load that allows
longer ones has the engine read what the program declines."""


class DeclinedError(RowfallError):
    """The decoder met something that only the engine's reader may judge.

    Attributes:
        split: the object, None when it does not say which.
        said: what the program has said about it; None where it has said nothing.
    """

    def __init__(
        self, message: str, split: Split | None, said: DecoderFailure | None = None
    ) -> None:
        super().__init__(message)
        self.split, self.said = split, said


def block_by_block(settings: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """Return settings with which an engine makes a part of each block that the decoder has made.

    The decoder ends a block by its own count of bytes. An engine that counts fewer in it would put
    two together, and sort them once more: 1 M rows of lineitem in blocks of 29 MiB cost a server
    0.58 CPU-seconds in place of 0.32.
    """
    found = dict(settings)
    if _PARQUET_ROWS in found:
        return found  # of Parquet half of a block is enough already
    for name in ("min_insert_block_size_rows", "min_insert_block_size_bytes"):
        value = found.get(name)
        if isinstance(value, int):
            found[name] = -(-value // 2)  # 0 would be no limit
    return found


@dataclass(frozen=True, slots=True)
class DecoderInput:
    """The input of every delivery through the decoder.

    Attributes:
        source: gives the addresses of what are no files.
        encoding: of what the program reads; ``read``: of what the engine would read, None where it
            makes the rows.
        sort_by: columns to sort blocks by, as indexes; none to leave them as they come.
        fallback: the delivery of orders that the decoder does not take.
        headers: of the files; all of them the same where columns are found by position.
        most: bytes of a record of text, 0 where nothing is said.
    """

    source: Source
    target: Target
    encoding: Encoding
    read: Encoding | None
    sort_by: tuple[int, ...]
    fallback: Delivery
    headers: Headers
    most: int = 0

    def takes(self, order: DeliveryOrder) -> bool:
        """Tell whether the decoder delivers an order: it has not declined it and can read it.

        Raises:
            DataError: columns are found by position, and a header names other ones.
        """
        if order.select is not None or order.engine_reads:
            return False
        if self.encoding.header:  # otherwise the program itself goes by the names
            self.headers.groups(order.splits, order.schema.reading)
        return True

    def spec(self, order: DeliveryOrder, found: Ranges, outputs: Sequence[str]) -> Spec:
        """Return the order for rowfall-decode: ranges to read, and outputs for their rows."""
        inputs = decoder_inputs(found.splits, self.addresses(found.splits))
        asked = decoder_spec(
            inputs, found.encoding, order.schema, order.settings, outputs, found.names
        )
        asked = replace(asked, sort_by=self.sort_by or None)
        return replace(asked, record_bytes=min(self.most, MOST_RECORD)) if self.most else asked

    def addresses(self, splits: Sequence[Split]) -> Sequence[HttpAddress]:
        return self.source.addresses(splits) if isinstance(self.source, Addressed) else ()

    def ranges(self, order: DeliveryOrder, pipes: int) -> Ranges:
        """Return the objects to read, or ranges of them where that fills more of the pipes.

        Args:
            pipes: number of pipes that carry rows.

        Raises:
            DeclinedError: ranges are read of files whose headers differ.
        """
        cut = None
        if decoding.copies(self.encoding):
            return Ranges(tuple(order.splits), self.encoding)
        if order.splits[0].part is not None:
            found = join_ranges(
                order.splits, self.encoding, pipes, cast("Ranged", self.source).part
            )
            if found is None:
                raise DeclinedError("the headers of these files differ", None)
            return found
        if isinstance(self.source, Ranged):
            cut = cut_files(order.splits, self.encoding, order.schema.reads, pipes, self._part)
        return cut or Ranges(tuple(order.splits), self.encoding)

    def piped(self, found: Ranges) -> Ranges:
        """Return ranges that the decoder can open: pipes in place of what only this process reads.

        Raises:
            SourceError: the temp folder takes no pipes.
        """
        if not isinstance(self.source, Streamed):
            return found
        paths = self.source.pipes(found.splits)
        # Nobody knows their bytes beforehand.
        splits = (
            replace(split, uri=path, start=None, stop=None, size=None)
            for split, path in zip(found.splits, paths, strict=True)
        )
        return replace(found, splits=tuple(splits))

    def _part(self, split: Split, start: int, length: int) -> bytes:
        """Read a part; nothing of an object that cannot be read: who reads all of it says why."""
        with suppress(RowfallError):
            return cast("Ranged", self.source).part(split, start, length)
        return b""


@dataclass(slots=True)
class DecoderRun:
    """One attempt on its way through the decoder; a delivery may keep more of it.

    Attributes:
        outputs: paths that the program writes into.
        child: the program; None before it has started.
        stdout: descriptor of what it writes as "-".
    """

    order: DeliveryOrder
    outputs: Sequence[str]
    lane: int
    child: DecoderProcess | None = None
    stdout: int = subprocess.DEVNULL

    @property
    def process(self) -> DecoderProcess:
        """Return the program, which has started."""
        assert self.child is not None  # noqa: S101 - asked for while it runs
        return self.child


class Decode:
    """Delivers through the decoder.

    Args:
        program: path of rowfall-decode.
    """

    _packed = False
    _nice = 0

    def __init__(self, program: str, engine: Engine, input_: DecoderInput) -> None:
        self._program = program
        self._engine = engine
        self._input = input_
        self._running: dict[str, DecoderRun] = {}
        self._pipe_folder: Path | None = None
        folder = input_.target.folder
        if folder is not None:
            self._pipe_folder = folder / PIPES
            _make_anew(self._pipe_folder)

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        if not self._input.takes(order):
            return self._input.fallback.insert(order, lane, on_tick)
        return self.in_folder(order, lane, on_tick)

    def in_folder(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        """Insert by way of a folder for pipes and parts, which is removed."""
        folder = Path(tempfile.mkdtemp(prefix=_OWN, dir=self._pipe_folder))
        try:
            return self._insert(order, lane, on_tick, folder)
        finally:
            self._running.pop(order.attempt, None)
            shutil.rmtree(folder, ignore_errors=True)

    def _pipes(self, order: DeliveryOrder) -> int:
        return max(1, int(order.settings.get("max_insert_threads", 1)))

    def _insert(self, order: DeliveryOrder, lane: int, on_tick: Tick, folder: Path) -> Outcome:
        input_ = self._input
        found = input_.ranges(order, self._pipes(order))
        pipes = self._pipes(order)
        # Fewer files than cores: threads of their own unpack them for all others.
        few = len(found.splits) < pipes
        if not decoding.copies(input_.encoding) and not (few and is_shared(found)):
            pipes = min(pipes, len(found.splits))
        outputs = [str(folder / str(n)) for n in range(pipes)]
        found = input_.piped(found)
        asked = replace(input_.spec(order, found, outputs), read_ahead=few)
        run = self._begin(order, outputs, lane)
        child = self._start(run, asked)
        child.inputs = found.splits
        done = threading.Event()
        threading.Thread(target=release, args=(child, outputs, done), daemon=True).start()
        seen: Mapping[str, int] = {}
        makes = decoding.makes(input_.encoding)

        def tick(progress: Mapping[str, int]) -> None:
            nonlocal seen
            seen = progress or seen
            rows = max(child.rows, progress.get("read_rows", 0))
            if makes:  # nothing that is stored anywhere
                on_tick({**progress, "read_rows": rows})
                return
            sent = child.stored(progress.get("read_rows"))
            on_tick({**progress, "read_rows": rows, "sent_bytes": sent})

        # An engine says nothing as long as no block comes, and one may hold half of a file.
        child.on_progress = lambda: tick(seen)
        try:
            outcome = self._insert_blocks(run, tick)
        except BaseException as error:
            child.kill()
            self.result_of(child, order)  # what the decoder reports explains what the engine met
            raise error
        finally:
            child.on_progress = None
            done.set()
        report = self.result_of(child, order)
        if report is None:
            raise EngineError(f"{PROGRAM} did not end by itself", transient=True)
        # More is no fault: each view on the table reads the rows again. Staging is counted later.
        if outcome.rows_read < report.rows:
            raise EngineError(
                f"{report.rows:,} rows were decoded and {outcome.rows_read:,} were read",
                transient=True,
            )
        return replace(
            outcome,
            bytes_read=report.bytes_raw,
            cpu_seconds=outcome.cpu_seconds + report.cpu_seconds,
            helper=replace(outcome.helper, cpu=report.cpu_seconds, waited=report.waited_seconds),
        )

    def _begin(self, order: DeliveryOrder, outputs: Sequence[str], lane: int) -> DecoderRun:
        """Return the state of an attempt."""
        return DecoderRun(order, outputs, lane)

    def _start(self, run: DecoderRun, asked: Spec) -> DecoderProcess:
        """Start the program for an attempt.

        Args:
            asked: its spec so far; this kind of delivery says more.
        """
        spec = self._prepare(run, asked)
        run.child = DecoderProcess(
            self._program, spec, self._answers(run), run.stdout, self._nice
        )  # fmt: skip
        self._running[run.order.attempt] = run
        return run.child

    def _answers(self, run: DecoderRun) -> Answers | None:
        """Return the function that answers questions of rowfall-decode; None where it asks none."""
        return None

    def _prepare(self, run: DecoderRun, asked: Spec) -> Spec:
        """Make what the decoder writes into; returns the spec with what it says about that."""
        for pipe in run.outputs:
            os.mkfifo(pipe, 0o600)
        return replace(asked, output_compression="lz4" if self._packed else "none")

    def _insert_blocks(self, run: DecoderRun, tick: Tick) -> Outcome:
        """Insert what comes out of the pipes, and return when all of them have ended."""
        order, schema = run.order, run.order.schema
        # An array: with a pattern the engine waited for ever.
        files = ", ".join(sql.literal(pipe) for pipe in run.outputs)
        structure = block_structure(schema.reads)
        rows = select_blocks(schema, [f"file([{files}], 'Native', {structure})"])
        text = sql.insert(self._input.target.into(order.staging, schema), schema.columns, rows)
        statement = Statement(text, block_by_block(order.settings), order.attempt, alters=None)
        return self._engine.run(statement, lane=run.lane, on_tick=tick)

    def result_of(self, child: DecoderProcess, order: DeliveryOrder) -> Summary | None:
        """Return the decoder's summary; None where it ended because of an error of the engine.

        Raises:
            DeclinedError: the decoder declined the input, or could not read it.
            RecordTooLongError: a record is longer than it may be.
            UnclosedQuoteError: a quote is opened and never closed.
            EngineError: the decoder was killed.
        """
        ended = child.result()
        if not isinstance(ended, DecoderFailure):
            return ended
        named = ended.uri
        if named is None:
            raise DeclinedError(ended.message, None, ended if ended.no_memory else None)
        # The decoder knows a stream by its pipe, and by that its split has its id only.
        ids = {s.id for s in child.inputs if s.uri == named}
        one = [s for s in order.splits if s.uri == named or s.id in ids]
        split = one[0] if len(one) == 1 else None
        name = split.name if split is not None else named
        # Lines are counted from the beginning of a range on.
        begins = next((s.start for s in child.inputs if s.uri == named), 0)
        line = 0 if begins else ended.line
        if ended.too_long and MOST_RECORD >= self._input.most > 0:
            place = RecordPlace(line, ended.offset)
            raise too_long(name, place, self._input.most, self._input.encoding)
        if ended.unclosed:
            raise UnclosedQuoteError(
                f"line {line}" if line else f"byte {ended.offset:,}", uri=name,
                split_id=split.id if split is not None else "",
                line=line or None, column=ended.column or None,
            )  # fmt: skip
        raise DeclinedError(f"{name}: {ended.message}", split, replace(ended, line=line))

    def kill(self, attempt: str) -> None:
        run = self._running.get(attempt)
        if run is not None:
            run.process.kill()
        self._input.fallback.kill(attempt)


class DecodePush(Decode):
    """Delivers to a server: each pipe of the decoder is the body of an INSERT FORMAT Native.

    Args:
        packed: blocks are sent in ClickHouse's own compressed frames. LZ4 with a checksum each: a
            server checks and unpacks 1 GB of them in 0.15 CPU-seconds.
    """

    def __init__(
        self,
        program: str,
        server: Engine,
        input_: DecoderInput,
        streams: int,
        *,
        packed: bool = False,
    ) -> None:
        super().__init__(program, server, input_)
        self._server = server
        self._streams = streams
        self._packed = packed

    def _pipes(self, order: DeliveryOrder) -> int:
        return min(self._streams, order.most_streams or self._streams)

    def _insert_blocks(self, run: DecoderRun, tick: Tick) -> Outcome:
        order, outputs = run.order, run.outputs
        into = self._input.target.into(order.staging, order.schema)
        text = insert_decoded_blocks(into, order.schema)
        # A row that waits in the server's queue would be missing when staging is counted.
        settings = block_by_block(order.settings)
        settings = self._server.facts.known({**settings, "async_insert": 0})
        if self._packed:
            settings["decompress"] = 1  # of the HTTP interface
        seen: list[Mapping[str, int]] = [{} for _ in outputs]

        def send(number: int) -> Outcome:
            def own(progress: Mapping[str, int]) -> None:
                seen[number] = progress
                tick({k: sum(p.get(k, 0) for p in seen) for k in progress})

            return self._server.run(
                Statement(text, settings, query_id=f"{order.attempt}_{number}", alters=None),
                lane=_LANES + number, on_tick=own, body=chunks(outputs[number], QUIET_SECONDS),
            )  # fmt: skip

        # A pool takes 8 ms to import, and whoever calls ends the decoder.
        found = [send(0)] if len(outputs) == 1 else self._at_once(send, run)
        return Outcome(
            rows_read=sum(o.rows_read for o in found),
            rows_written=sum(o.rows_written for o in found),
            seconds=max(o.seconds for o in found),
            cpu_seconds=sum(o.cpu_seconds for o in found),
            peak_memory=sum(o.peak_memory for o in found),
        )

    @staticmethod
    def _at_once(send: Callable[[int], Outcome], run: DecoderRun) -> list[Outcome]:
        from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

        count = len(run.outputs)
        with ThreadPoolExecutor(count) as pool:
            sent = [pool.submit(send, number) for number in range(count)]
            wait(sent, return_when=FIRST_EXCEPTION)
            if any(s.done() and s.exception() for s in sent):
                # Without the decoder the other bodies end, and with them their statements.
                run.process.kill()
            return [s.result() for s in sent]

    def kill(self, attempt: str) -> None:
        super().kill(attempt)
        for number in range(self._streams):
            self._server.kill(f"{attempt}_{number}")


def chunks(pipe: str, quiet: float) -> Iterator[bytes]:
    """Give what is written into a pipe until it is closed.

    After every ``quiet`` seconds without any bytes it gives an empty piece: a store that answers
    slowly must not be taken for a lost connection.
    """
    with open(pipe, "rb", buffering=0) as end:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        while True:
            if not poll.poll(1e3 * quiet):
                yield b""
            elif chunk := end.read(CHUNK):
                yield chunk
            else:
                return


def _make_anew(folder: Path) -> None:
    """Make the folder of the pipes, and remove what killed runs have left there.

    No other process uses it, but other loads of this one may.

    Raises:
        TargetError: it cannot be made, or something else is in its place.
    """
    try:
        folder.mkdir(0o700, exist_ok=not folder.is_symlink())  # never what a link leads to
        for left in folder.iterdir():
            if left.is_dir() and not left.is_symlink():
                if not left.name.startswith(_OWN):
                    shutil.rmtree(left, ignore_errors=True)  # another load may do so as well
            else:
                left.unlink(missing_ok=True)
    except OSError as error:
        what = f"{folder.name} is a symbolic link" if folder.is_symlink() else error.strerror
        raise TargetError(
            f"the folder {folder} cannot be made anew: {what}",
            hint="rowfall needs that name for itself: remove what has it.",
        ) from None


def is_shared(found: Ranges) -> bool:
    """Tell whether several threads are worth it for each file: each leaves a part."""
    sizes = [length(s) if s.size is not None or s.stop is not None else None for s in found.splits]
    least = _SHARED_LEAST_BZ2 if found.encoding.compression == pipes.BZ2 else SHARED_LEAST
    return found.encoding.format in TEXT_FORMATS and (
        None in sizes or max(filter(None, sizes), default=0) >= least
    )


def release(child: DecoderProcess, pipes: Sequence[str], done: threading.Event) -> None:
    """Wait for the decoder to end, then unblock readers that open one of its pipes only now."""
    child.wait()
    while not done.wait(POLL_SECONDS):
        for pipe in pipes:
            let_go(pipe)


def let_go(pipe: str) -> None:
    """Open and close both ends of a pipe, so that nobody waits for either of them to be opened."""
    with suppress(OSError):  # it is not a pipe, or it is gone
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))


class DecodeInside:
    """Delivers by one INSERT SELECT whose rows come from programs that the server starts.

    What a program is asked to do holds signed addresses; it travels as a table that only the
    statement sees, so that no log of the server has it.

    Args:
        row_bytes: stored bytes of a row, about, for progress: the server sees rows only.
    """

    def __init__(self, server: Engine, input_: DecoderInput, row_bytes: float) -> None:
        self._server = server
        self._input = input_
        self._row_bytes = row_bytes

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        if not self._input.takes(order):
            return self._input.fallback.insert(order, lane, on_tick)
        programs = max(1, int(order.settings.get("max_insert_threads", 1)))
        found = self._input.ranges(order, programs)
        texts = {}
        for n, own in enumerate(shares(found, programs)):
            asked = replace(self._input.spec(order, own, ["-"]), progress_ms=0)
            texts[f"rowfall_{n}"] = Secret(encode(asked))
        most = sum(split.size or 0 for split in order.splits)

        def tick(progress: Mapping[str, int]) -> None:
            seen = int(progress.get("read_rows", 0) * self._row_bytes)
            on_tick({**progress, SOURCE_BYTES: min(seen, most)})

        statement = Statement(
            self._statement(order, list(texts)),
            self._server.facts.known(block_by_block(order.settings)),
            query_id=order.attempt, alters=None, texts=texts,
        )  # fmt: skip
        try:
            return self._server.run(statement, lane=lane, on_tick=tick)
        except RowfallError as error:
            # What it made and is not whole is its fault, not that of the objects.
            if not _is_of_program(error):
                raise
            raise DeclinedError(f"{PROGRAM}: {error.message}", None) from None

    def kill(self, attempt: str) -> None:
        self._server.kill(attempt)

    def _statement(self, order: DeliveryOrder, tables: Sequence[str]) -> SqlText:
        schema = order.schema
        columns = schema.columns
        program = sql.literal(f"{PROGRAM} run --spec native-block")
        rows = select_blocks(schema, [
            f"executable({program}, 'Native', {block_structure(schema.reads)}, "
            f"(SELECT text FROM {sql.name(table)}), {_LIMITS})"
            for table in tables
        ])  # fmt: skip
        if order.only is not None:
            rows = sql.only(rows, columns, order.only)
        return sql.insert(self._input.target.into(order.staging, order.schema), columns, rows)


def _is_of_program(error: RowfallError) -> bool:
    gone = error.code == CHILD_GONE and "ShellCommandSource" in error.message
    return gone or error.code == CHILD_FAILED or error.code in DATA_CODES


def shares(found: Ranges, most: int) -> list[Ranges]:
    """Return at most ``most`` shares of about equal bytes."""
    splits = found.splits
    count = max(1, min(most, len(splits)))
    assigned = balance.assign(map(length, splits), [1.0] * count)
    return [replace(found, splits=tuple(splits[i] for i in own)) for own in assigned.members()]


# --- the order for rowfall-decode -----------------------------------------------------------------


# Progress is drawn four times a second.
PROGRESS_MS = 250


def decoder_spec(
    inputs: Sequence[Input],
    encoding: Encoding,
    schema: Schema,
    settings: Mapping[str, str | int | float],
    outputs: Sequence[str],
    names: Sequence[str] = (),
) -> Spec:
    """Return the order for ``rowfall-decode run``: inputs, format, columns, limits and outputs.

    Args:
        inputs: see :func:`decoder_inputs`.
        settings: of the INSERT: a block of the decoder is a block of the engine, so nothing is
            put together again.
        names: of the columns in the files, where ranges of them lack the header.
    """
    names = names or encoding.header
    by_position = bool(encoding.header) or not encoding.has_names
    limit = int(settings.get("max_memory_usage", 0)) or None
    dialect = encoding.dialect
    return Spec(
        inputs=tuple(inputs),
        format=encoding.format,
        columns=tuple(
            _column(column, _position(column, n, names) if by_position else None)
            for n, column in enumerate(schema.reads)
        ),
        outputs=tuple(outputs),
        compression=encoding.compression,
        delimiter=encoding.delimiter,
        null=encoding.null,
        trim_strings=not encoding.keep_blanks,
        trailing=encoding.trailing,
        tuples="fields" if reader_settings.tuples_apart(encoding, schema.reads) else "value",
        allow_line_breaks=not strict_reading.refuses_line_breaks(schema),
        binary=encoding.binary,
        dialect=None if dialect is None else rewriting.known_dates(dialect),
        unknown="skip" if encoding.ignores else "error",
        input_types=tuple(encoding.types),
        file_columns=len(names) or None,
        skip_header=bool(encoding.header and encoding.has_header),
        timezone="UTC",
        block_rows=_size(settings, _PARQUET_ROWS, "min_insert_block_size_rows", 1_000_000),
        block_bytes=_size(settings, _PARQUET_BYTES, "min_insert_block_size_bytes", 256 << 20),
        progress_ms=PROGRESS_MS,
        # Whoever wrote the file says how much memory its values take.
        memory_bytes=limit if decoding.copies(encoding) else None,
    )


def decoder_inputs(
    splits: Sequence[Split], addresses: Sequence[HttpAddress] = ()
) -> tuple[Input, ...]:
    """Return splits as inputs of the decoder.

    Args:
        addresses: one a split where they are no files. The document then holds their secrets, as
            :class:`rowfall.core.masked.Secret`.
    """
    found = tuple(Input(s.uri, start=s.start or 0, stop=s.stop, size=s.size) for s in splits)
    if not addresses:
        return found
    return tuple(
        replace(
            input_,
            url=address.url,
            headers=address.headers or None,
            version=None if address.any_version else split.version,
            by_query=address.by_query,
            blocks=tuple(block for block in address.blocks if _has(split, block)),
        )
        for input_, split, address in zip(found, splits, addresses, strict=True)
    )


def _position(column: Column, number: int, names: Sequence[str]) -> int:
    """Return a column's position in the file (from 0), by its name where ``names`` has any.

    Raises:
        ValueError: ``names`` lacks the column.
    """
    return names.index(column.source or column.name) if names else number


def _column(column: Column, position: int | None) -> documents.InputColumn:
    notation = column.notation or Notation()
    return documents.InputColumn(
        column.name,
        sent_type(column),
        column.source or column.name,
        position,
        "T" if notation.times == "T" else "Z" if notation.times == "Z" else "",
        notation.canonical,
        blank=notation.blank,
        padded=notation.padded,
    )


def _has(split: Split, block: documents.BlockInput) -> bool:
    """Tell whether a block has bytes of a range."""
    behind = split.stop is not None and block.start >= split.stop
    return not behind and block.start + block.bytes > (split.start or 0)


# The engine's reader makes whole blocks of Parquet, and then half of one is enough for a part.
_PARQUET_ROWS = "input_format_parquet_max_block_size"


_PARQUET_BYTES = "input_format_parquet_prefer_block_bytes"


def _size(settings: Mapping[str, str | int | float], whole: str, part: str, otherwise: int) -> int:
    return int(settings.get(whole, settings.get(part, otherwise)))
