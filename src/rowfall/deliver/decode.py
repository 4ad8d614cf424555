"""Runs rowfall-decode beside an engine: one named pipe a writer, Native blocks in it.

The embedded engine reads the pipes itself; for a server each is the body of an INSERT.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

from rowfall.core import sql
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.listing import Split
from rowfall.core.masked import Secret
from rowfall.core.model import Encoding, Outcome, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.deliver.delivery import QUIET_SECONDS, Delivery, Order
from rowfall.deliver.ranges import Ranges, given, ranges
from rowfall.engines.base import Engine, Tick
from rowfall.plan import decoder
from rowfall.plan.statements import block_structure, select_blocks
from rowfall.sources.base import Addressed, HttpAddress, Ranged, Source
from rowfall.targets.base import Target

# How the program ends: it declined, it could not read, or nobody took what it wrote any more.
DECLINED, BROKEN, LEFT = 3, 4, 5
PIPES = "rowfall.pipes"
# A reader that comes after the decoder has gone would wait for a writer for ever.
LOOK_SECONDS = 0.1
# A pipe holds 64 KiB unless it is asked for more; reads give what is there.
CHUNK = 1 << 20
_LANES = 1000  # of the streams to a server, clear of all others
# The decoder writes its last line when its pipes are closed; it has nothing else to do then.
END_SECONDS = 30.0


class DeclinedError(RowfallError):
    """The decoder met something that only the engine's reader may judge.

    Attributes:
        split: the object, None when it does not say which.
    """

    def __init__(self, message: str, split: Split | None) -> None:
        super().__init__(message)
        self.split = split


@dataclass(frozen=True, slots=True)
class Given:
    """What every delivery through the decoder is given.

    Attributes:
        source: gives the addresses of what are no files.
        sort_by: see :func:`rowfall.plan.decoder.spec`.
        reader: the delivery of orders that the decoder does not take.
    """

    source: Source
    target: Target
    encoding: Encoding
    sort_by: tuple[int, ...]
    reader: Delivery

    def takes(self, order: Order) -> bool:
        """Whether an order is the decoder's: it has not declined it, and knows how to read it."""
        return order.select is None and not order.engine_reads

    def addresses(self, splits: Sequence[Split]) -> Sequence[HttpAddress]:
        return self.source.addresses(splits) if isinstance(self.source, Addressed) else ()

    def found(self, order: Order, writers: int) -> Ranges:
        """What ``writers`` are to read: the objects, or ranges of them."""
        cut = None
        if order.splits[0].part is not None:
            found = given(order.splits, self.encoding, writers, cast("Ranged", self.source).part)
            if found is None:
                raise DeclinedError("the headers of these files differ", None)
            return found
        if isinstance(self.source, Ranged):
            cut = ranges(order.splits, self.encoding, order.schema.columns, writers, self._part)
        return cut or Ranges(tuple(order.splits), self.encoding)

    def _part(self, split: Split, start: int, length: int) -> bytes:
        """Nothing of an object that cannot be read: whoever reads all of it says why."""
        with suppress(RowfallError):
            return cast("Ranged", self.source).part(split, start, length)
        return b""


class Decode:
    """Delivers through the decoder.

    Args:
        program: path of rowfall-decode.
    """

    _packed = False

    def __init__(self, program: str, engine: Engine, given: Given) -> None:
        self._program = program
        self._engine = engine
        self._given = given
        self._running: dict[str, _Child] = {}
        self._place: Path | None = None
        if given.target.folder is not None:
            # Nobody else uses the folder: what is there, a killed run has left.
            self._place = given.target.folder / PIPES
            shutil.rmtree(self._place, ignore_errors=True)
            self._place.mkdir()

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        if not self._given.takes(order):
            return self._given.reader.insert(order, lane, on_tick)
        folder = Path(tempfile.mkdtemp(prefix="rowfall-", dir=self._place))
        try:
            return self._insert(order, lane, on_tick, folder)
        finally:
            self._running.pop(order.attempt, None)
            shutil.rmtree(folder, ignore_errors=True)

    def _writers(self, order: Order) -> int:
        return max(1, int(order.settings.get("max_insert_threads", 1)))

    def _insert(self, order: Order, lane: int, on_tick: Tick, folder: Path) -> Outcome:
        given = self._given
        found = given.found(order, self._writers(order))
        writers = min(self._writers(order), len(found.splits))
        outputs = [str(folder / str(n)) for n in range(writers)]
        asked = decoder.spec(
            found.splits, found.encoding, order.schema, order.settings, outputs, given.sort_by,
            given.addresses(found.splits), found.names,
        )  # fmt: skip
        # Fewer files than cores: unpacking gets one of its own.
        asked["ahead"] = writers < self._writers(order)
        asked |= self._prepare(outputs)
        child = _Child(self._program, asked)
        self._running[order.attempt] = child
        done = threading.Event()
        threading.Thread(target=_release, args=(child, outputs, done), daemon=True).start()

        def tick(progress: Mapping[str, int]) -> None:
            on_tick({**progress, "sent_bytes": child.stored(progress.get("read_rows"))})

        try:
            outcome = self._feed(order, outputs, lane, tick)
        except BaseException as error:
            child.kill()
            self._judge(child, order)  # what the decoder says explains what the engine met
            raise error
        finally:
            done.set()
        said = self._judge(child, order)
        if not said:
            raise EngineError(f"{decoder.PROGRAM} did not end by itself", transient=True)
        # More is no fault: each view on the table reads the rows again. Staging is counted later.
        if outcome.rows_read < said["rows"]:
            raise EngineError(
                f"{said['rows']:,} rows were decoded and {outcome.rows_read:,} were read",
                transient=True,
            )
        return replace(
            outcome,
            bytes_read=int(said["bytes_raw"]),
            cpu_seconds=outcome.cpu_seconds + float(said["cpu_seconds"]),
            helper_seconds=float(said["cpu_seconds"]),
            waited_seconds=float(said.get("waited_seconds", 0.0)),
        )

    def _prepare(self, outputs: list[str]) -> Mapping[str, Any]:
        """Make what the decoder writes into; returns what its spec says about that."""
        for pipe in outputs:
            os.mkfifo(pipe, 0o600)
        return {"output_compression": "lz4" if self._packed else "none"}

    def _feed(self, order: Order, outputs: list[str], lane: int, tick: Tick) -> Outcome:
        """Insert what comes out of the pipes, and return when all of them have ended."""
        columns = order.schema.columns
        # An array: with a pattern the engine waited for ever.
        files = ", ".join(sql.literal(pipe) for pipe in outputs)
        rows = select_blocks(columns, [f"file([{files}], 'Native', {block_structure(columns)})"])
        text = sql.insert(self._given.target.into(order.staging, order.schema), columns, rows)
        statement = Statement(text, order.settings, query_id=order.attempt)
        return self._engine.run(statement, lane=lane, on_tick=tick)

    def _judge(self, child: _Child, order: Order) -> dict[str, Any]:
        """What the decoder said at its end.

        Raises:
            DeclinedError: it declined, or could not read.
            EngineError: somebody has killed it.
        """
        code, last = child.end()
        try:
            said: dict[str, Any] = json.loads(last)
        except ValueError:
            said = {}
        if code == 0 and "rows" in said:
            return said
        if code in (DECLINED, BROKEN):
            named = str(said.get("uri", ""))
            one = [s for s in order.splits if s.uri == named]
            split = one[0] if len(one) == 1 else None
            raise DeclinedError(f"{named}: {said.get('message', last)}", split)
        if code == LEFT or (code == -9 and child.killed):
            return {}  # the engine's own error is the cause
        if code < 0:
            raise EngineError(
                f"{decoder.PROGRAM} was killed by signal {-code}",
                hint="Signal 9 often means that the machine ran out of memory; lower --memory.",
                transient=True,
            )
        raise DeclinedError(f"{decoder.PROGRAM} ended with {code}: {last[:300]}", None)

    def kill(self, attempt: str) -> None:
        child = self._running.get(attempt)
        if child is not None:
            child.kill()
        self._given.reader.kill(attempt)


class DecodePush(Decode):
    """The same for a server: each pipe is the body of an INSERT ... FORMAT Native.

    Args:
        packed: blocks are sent in ClickHouse's own compressed frames. LZ4 with a checksum each: a
            server checks and unpacks 1 GB of them in 0.15 CPU-seconds.
    """

    def __init__(
        self, program: str, server: Engine, given: Given, streams: int, *, packed: bool = False
    ) -> None:
        super().__init__(program, server, given)
        self._server = server
        self._streams = streams
        self._packed = packed

    def _writers(self, order: Order) -> int:
        return self._streams

    def _feed(self, order: Order, outputs: list[str], lane: int, tick: Tick) -> Outcome:
        into = self._given.target.into(order.staging, order.schema)
        # Each is a statement of its own, so there is no need of input().
        text = sql.insert(into, order.schema.columns, SqlText.of("FORMAT Native"))
        # A row that waits in the server's queue would be missing when staging is counted.
        settings = self._server.facts.known({**order.settings, "async_insert": 0})
        if self._packed:
            settings["decompress"] = 1  # of the HTTP interface
        seen: list[Mapping[str, int]] = [{} for _ in outputs]

        def send(number: int) -> Outcome:
            def own(progress: Mapping[str, int]) -> None:
                seen[number] = progress
                tick({k: sum(p.get(k, 0) for p in seen) for k in progress})

            return self._server.run(
                Statement(text, settings, query_id=f"{order.attempt}_{number}"),
                lane=_LANES + number, on_tick=own, body=chunks(outputs[number], QUIET_SECONDS),
            )  # fmt: skip

        with ThreadPoolExecutor(len(outputs)) as pool:
            sent = [pool.submit(send, number) for number in range(len(outputs))]
            wait(sent, return_when=FIRST_EXCEPTION)
            if any(s.done() and s.exception() for s in sent):
                # Without the decoder the other bodies end, and with them their statements.
                child = self._running.get(order.attempt)
                if child is not None:
                    child.kill()
            found = [s.result() for s in sent]
        return Outcome(
            rows_read=sum(o.rows_read for o in found),
            rows_written=sum(o.rows_written for o in found),
            seconds=max(o.seconds for o in found),
            cpu_seconds=sum(o.cpu_seconds for o in found),
            peak_memory=sum(o.peak_memory for o in found),
        )

    def kill(self, attempt: str) -> None:
        super().kill(attempt)
        for number in range(self._streams):
            self._server.kill(f"{attempt}_{number}")


# As often as the decoder says how far it is.
_BUILD_LOOK_SECONDS = decoder.PROGRESS_MS / 1e3


class Build(Decode):
    """Delivers through the decoder, which writes the parts of staging by itself.

    The engine then neither reads nor sorts nor compresses a row. Two million taxi rows of 51
    columns in csv.gz take a third less CPU than through pipes.
    """

    def _prepare(self, outputs: list[str]) -> Mapping[str, Any]:
        return {"parts": True}

    def _feed(self, order: Order, outputs: list[str], lane: int, tick: Tick) -> Outcome:
        began = time.monotonic()
        child = self._running[order.attempt]
        while not child.wait(_BUILD_LOOK_SECONDS):
            tick({"read_rows": child.rows})
        said = self._judge(child, order)
        if not said:
            return Outcome()
        place = self._detached(order.staging, lane)
        parts = [part for output in outputs for part in Path(output).iterdir()]
        try:
            for number, part in enumerate(parts, 1):
                os.rename(part, place / f"all_{number}_{number}_0")
        except OSError as error:
            raise TargetError(f"parts cannot be moved to {place}: {error.strerror}") from None
        cpu = 0.0
        if parts:
            staging = sql.qualified(self._given.target.database, order.staging)
            statement = Statement(
                SqlText.of(f"ALTER TABLE {staging} ATTACH PARTITION tuple()"),
                query_id=order.attempt,
            )
            cpu = self._engine.run(statement, lane=lane).cpu_seconds
        rows = int(said["rows"])
        return Outcome(
            rows_read=rows,
            rows_written=rows,
            seconds=time.monotonic() - began,
            cpu_seconds=cpu,
            writing_seconds=float(said["writing_seconds"]),
        )

    def _detached(self, staging: str, lane: int) -> Path:
        """Where the engine looks for parts that are to be attached."""
        ((path,),) = self._engine.ask(
            "SELECT data_paths[1] FROM system.tables WHERE "
            f"database = {quote(self._given.target.database)} AND name = {quote(staging)}",
            lane=lane,
        )
        return Path(self._given.target.folder or "", path, "detached")


def chunks(pipe: str, quiet: float) -> Iterator[bytes]:
    """What is written into a pipe until its writer closes it; an empty piece after every ``quiet``
    seconds without any: a store that answers slowly must not look like a lost connection."""
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


class _Child:
    """The running program; its spec, which may hold signed addresses, goes through stdin only.

    stdin stays open: its end tells the program that rowfall has been killed.

    Attributes:
        killed: by us.
    """

    def __init__(self, program: str, spec: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [program, "run", "--spec", "held"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._written = (0, 0)
        self._last = b""
        self.killed = False
        self._listener = threading.Thread(
            target=self._listen, args=(cast("IO[bytes]", self._process.stderr),), daemon=True
        )
        self._listener.start()
        # A program that is dead already is judged by its end.
        with suppress(BrokenPipeError):
            self._stdin.write(json.dumps(spec, default=Secret.reveal).encode() + b"\n")
            self._stdin.flush()

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                try:
                    said = json.loads(line)
                    self._written = (said["written_rows"], said["written_bytes"])
                except (ValueError, KeyError, TypeError):
                    self._last = line

    def stored(self, rows: int | None) -> int:
        """Bytes of the objects behind the first ``rows`` rows: megabytes of those that have gone
        into the pipes are still on their way to a server."""
        written, stored = self._written
        return stored if rows is None or rows >= written else stored * rows // written

    @property
    def rows(self) -> int:
        """Written so far."""
        return self._written[0]

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the program ends within so many seconds."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        if self._process.poll() is None:
            self.killed = True
            self._process.kill()

    def end(self) -> tuple[int, str]:
        """Exit status and last line, of a program that has nothing more to do."""
        try:
            code = self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._listener.join()
        return code, self._last.decode(errors="replace").strip()


def _release(child: _Child, outputs: list[str], done: threading.Event) -> None:
    """After the decoder has gone: let go a reader that opens its pipe only now."""
    child.wait()
    while not done.wait(LOOK_SECONDS):
        for pipe in outputs:
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue  # nobody waits there, or it is no pipe
