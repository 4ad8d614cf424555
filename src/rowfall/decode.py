"""Runs rowfall-decode beside the embedded engine: one named pipe a writer, Native blocks in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall import decoding, sql
from rowfall.delivery import Delivery, Order
from rowfall.engines.base import Engine, Tick
from rowfall.errors import EngineError, RowfallError
from rowfall.model import Encoding, Outcome, Split, Statement
from rowfall.sqltext import SqlText
from rowfall.targets.base import Target

DECLINED, BROKEN = 3, 4
PIPES = "rowfall.pipes"
# A reader that comes after the decoder has gone would wait for a writer for ever.
LOOK_SECONDS = 0.1
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


class Decode:
    """Delivers through the decoder; what it declined goes through ``reader``.

    Args:
        program: path of rowfall-decode.
        sort_by: see :func:`rowfall.decoding.spec`.
        reader: the delivery of orders that say ``engine_reads``, or read in a way of their own.
    """

    def __init__(
        self, program: str, engine: Engine, target: Target, encoding: Encoding,
        sort_by: tuple[int, ...], reader: Delivery,
    ) -> None:  # fmt: skip
        self._program = program
        self._engine = engine
        self._target = target
        self._encoding = encoding
        self._sort_by = sort_by
        self._reader = reader
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._place: Path | None = None
        if target.folder is not None:
            # Nobody else uses the folder: what is there, a killed run has left.
            self._place = target.folder / PIPES
            shutil.rmtree(self._place, ignore_errors=True)
            self._place.mkdir()

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        if order.select is not None or order.engine_reads:
            return self._reader.insert(order, lane, on_tick)
        folder = Path(tempfile.mkdtemp(prefix="rowfall-", dir=self._place))
        try:
            return self._insert(order, lane, on_tick, folder)
        finally:
            self._running.pop(order.attempt, None)
            shutil.rmtree(folder, ignore_errors=True)

    def _insert(self, order: Order, lane: int, on_tick: Tick, folder: Path) -> Outcome:
        writers = max(1, int(order.settings.get("max_insert_threads", 1)))
        pipes = [str(folder / str(n)) for n in range(min(writers, len(order.splits)))]
        for pipe in pipes:
            os.mkfifo(pipe, 0o600)
        asked = decoding.spec(
            order.splits, self._encoding, order.schema, order.settings, pipes, self._sort_by
        )
        path = folder / "spec.json"
        path.write_text(json.dumps(asked))
        child = subprocess.Popen(
            [self._program, "run", "--spec", str(path)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._running[order.attempt] = child
        done = threading.Event()
        threading.Thread(target=_release, args=(child, pipes, done), daemon=True).start()

        def tick(progress: Mapping[str, int]) -> None:
            on_tick({**progress, "sent_bytes": _bytes_read(child.pid)})

        try:
            outcome = self._engine.run(self._statement(order, pipes), lane=lane, on_tick=tick)
        except BaseException as error:
            child.kill()
            self._judge(child, order)  # what the decoder says explains what the engine met
            raise error
        finally:
            done.set()
        said = self._judge(child, order)
        if said["rows"] != outcome.rows_read:
            raise EngineError(
                f"{said['rows']:,} rows were decoded and {outcome.rows_read:,} were read",
                transient=True,
            )
        return replace(
            outcome,
            bytes_read=int(said["bytes_raw"]),
            cpu_seconds=outcome.cpu_seconds + float(said["cpu_seconds"]),
            helper_seconds=float(said["cpu_seconds"]),
        )

    def _statement(self, order: Order, pipes: list[str]) -> Statement:
        columns = order.schema.columns
        structure = sql.structure((c.name, c.type) for c in columns)
        names = ", ".join(sql.name(c.name) for c in columns)
        # An array: with a pattern the engine waited for ever.
        files = ", ".join(sql.literal(pipe) for pipe in pipes)
        text = SqlText.of(
            "INSERT INTO ", self._target.into(order.staging, order.schema), f" ({names})\n",
            f"SELECT {names}\nFROM file([{files}], 'Native', {sql.literal(structure)})",
        )  # fmt: skip
        return Statement(text, order.settings, query_id=order.attempt)

    def _judge(self, child: subprocess.Popen[bytes], order: Order) -> dict[str, Any]:
        """What the decoder said at its end.

        Raises:
            DeclinedError: it declined, or could not read.
            EngineError: it died.
        """
        try:
            _, text = child.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            _, text = child.communicate()
        last = text.decode(errors="replace").strip().rpartition("\n")[2]
        try:
            said: dict[str, Any] = json.loads(last)
        except ValueError:
            said = {}
        if child.returncode == 0 and "rows" in said:
            return said
        if child.returncode in (DECLINED, BROKEN):
            named = str(said.get("uri", ""))
            split = next((s for s in order.splits if s.uri == named), None)
            raise DeclinedError(f"{named}: {said.get('message', last)}", split)
        if child.returncode == -9:
            return {}  # ended by us: the engine's own error is the cause
        raise DeclinedError(f"{decoding.PROGRAM} ended with {child.returncode}: {last[:300]}", None)

    def kill(self, attempt: str) -> None:
        child = self._running.get(attempt)
        if child is not None:
            child.kill()
        self._reader.kill(attempt)


def _release(child: subprocess.Popen[bytes], pipes: list[str], done: threading.Event) -> None:
    """After the decoder has gone: let go a reader that opens its pipe only now."""
    child.wait()
    while not done.wait(LOOK_SECONDS):
        for pipe in pipes:
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError:
                continue  # nobody waits there


def _bytes_read(pid: int) -> int:
    """Bytes that a process has read so far; 0 where the kernel does not tell."""
    try:
        return int(Path(f"/proc/{pid}/io").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
