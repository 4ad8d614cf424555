"""Builds: rowfall-decode writes finished parts of staging, which are only attached.

It reads the source itself, or a pipe of Native blocks that the engine writes of whatever it reads.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall.core import sql
from rowfall.core.errors import EngineError, TargetError
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, Kind, Outcome, Schema, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.deliver.decode import Child, Decode, let_go, release
from rowfall.deliver.delivery import Order
from rowfall.deliver.streams import into_file
from rowfall.engines.base import Tick
from rowfall.plan import decoder, statements
from rowfall.sources import rewriting

# As often as the decoder reports its progress.
_BUILD_POLL_SECONDS = decoder.PROGRESS_MS / 1e3


class Build(Decode):
    """Delivers through the decoder, which writes the parts of staging by itself.

    The engine then neither reads nor sorts nor compresses a row. Two million taxi rows of 51
    columns in csv.gz take a third less CPU than through pipes.
    """

    def _prepare(self, outputs: list[str]) -> Mapping[str, Any]:
        return {"parts": True}

    def _insert_blocks(self, order: Order, outputs: list[str], lane: int, tick: Tick) -> Outcome:
        began = time.monotonic()
        child = self._running[order.attempt]
        while not child.wait(_BUILD_POLL_SECONDS):
            tick({})
        report = self.result_of(child, order)
        if not report:
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
            staging = sql.qualified(self._input.target.database, order.staging)
            statement = Statement(
                SqlText.of(f"ALTER TABLE {staging} ATTACH PARTITION tuple()"),
                query_id=order.attempt,
            )
            cpu = self._engine.run(statement, lane=lane).cpu_seconds
        rows = int(report["rows"])
        return Outcome(
            rows_read=rows,
            rows_written=rows,
            seconds=time.monotonic() - began,
            cpu_seconds=cpu,
            writing_seconds=float(report["writing_seconds"]),
        )

    def _detached(self, staging: str, lane: int) -> Path:
        """Return the folder in which the engine finds parts that are to be attached."""
        ((path,),) = self._engine.ask(
            "SELECT data_paths[1] FROM system.tables WHERE "
            f"database = {quote(self._input.target.database)} AND name = {quote(staging)}",
            lane=lane,
        )
        return Path(self._input.target.folder or "", path, "detached")


# What the engine reads, on its way to the program: one block after the other.
NATIVE = Encoding("Native", "none", Kind.TYPED)
# Sizes of what goes into a part, which the program puts together; the engine's own are better here.
_OF_PARTS = ("input_format_parquet_max_block_size", "input_format_parquet_prefer_block_bytes")


class HandOver(Build):
    """Delivers what the engine reads: it writes Native blocks into a pipe, of which parts are made.

    The engine then neither sorts nor compresses a row. It halves the CPU of tables of numbers.
    """

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        if order.engine_reads:
            return self._input.fallback.insert(order, lane, on_tick)
        return self.in_folder(order, lane, on_tick)

    def _insert(self, order: Order, lane: int, on_tick: Tick, folder: Path) -> Outcome:
        pipe = str(folder / "blocks")
        os.mkfifo(pipe, 0o600)
        columns = order.schema.columns
        sent = Schema(tuple(Column(c.name, c.type, source=c.name) for c in columns))
        outputs = [str(folder / str(n)) for n in range(self._pipes(order))]
        asked = decoder.spec(
            [Split("", pipe, "", None)], NATIVE, sent, order.settings, outputs, self._input.sort_by
        )
        child = Child(self._program, {**asked, "parts": True})
        self._running[order.attempt] = child
        done = threading.Event()
        threading.Thread(target=release, args=(child, [pipe], done), daemon=True).start()
        settings = {k: v for k, v in order.settings.items() if k not in _OF_PARTS}
        query = statements.select_handed_over(
            self._input.source, order.schema, self._input.read, order.splits, order.select,
            self._input.headers,
        )  # fmt: skip
        try:
            statement = Statement(
                into_file(query, pipe), self._engine.facts.known(settings), query_id=order.attempt
            )
            made = self._engine.run(statement, lane=lane, on_tick=on_tick)
            let_go(pipe)  # of no rows the engine might not have opened it
            built = self._insert_blocks(order, outputs, lane, _silent)
        except BaseException as error:
            child.kill()
            self.result_of(child, order)  # what the program reports explains what the engine met
            raise error
        finally:
            done.set()
        report = self.result_of(child, order)
        if not report:
            raise EngineError(f"{rewriting.PROGRAM} did not end by itself", transient=True)
        spent = float(report["cpu_seconds"])
        return replace(
            made,
            rows_written=built.rows_written,
            cpu_seconds=made.cpu_seconds + built.cpu_seconds + spent,
            helper_seconds=spent,
            writing_seconds=built.writing_seconds,
            waited_seconds=float(report.get("waited_seconds", 0.0)),
        )


def _silent(progress: object) -> None:
    """Ignore the progress of the program: the engine has told that of reading."""
