"""Runs rowfall-decode inside a server, by ``executable()``: the server reads and stores, but does
not parse.

What the program is asked to do holds signed addresses; it travels as a table that only the
statement sees, so that no log of the server has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rowfall.core import sql
from rowfall.core.errors import RowfallError
from rowfall.core.masked import Secret
from rowfall.core.model import Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.deliver.decode import DeclinedError, DecoderInput
from rowfall.deliver.delivery import Order
from rowfall.deliver.ranges import Ranges, length
from rowfall.engines.base import SOURCE_BYTES, Engine, Tick
from rowfall.engines.codes import CHILD_FAILED, CHILD_GONE, DATA_CODES
from rowfall.plan import balance, decoder
from rowfall.plan.statements import block_structure, select_blocks

# The program gives up a store that is silent for shorter than this, and says why; 10 s, the
# server's default, is less than a retry takes.
SILENCE_MS = 600_000
_LIMITS = (
    f"SETTINGS check_exit_code = 1, command_read_timeout = {SILENCE_MS}, "
    f"command_write_timeout = {SILENCE_MS}, stderr_reaction = 'none'"
)


class DecodeInside:
    """Delivers by one INSERT SELECT whose rows come from programs that the server starts.

    Args:
        row_bytes: stored bytes of a row, about, for progress: the server sees rows only.
    """

    def __init__(self, server: Engine, input_: DecoderInput, row_bytes: float) -> None:
        self._server = server
        self._input = input_
        self._row_bytes = row_bytes

    def insert(self, order: Order, lane: int, on_tick: Tick) -> Outcome:
        if not self._input.takes(order):
            return self._input.fallback.insert(order, lane, on_tick)
        programs = max(1, int(order.settings.get("max_insert_threads", 1)))
        found = self._input.ranges(order, programs)
        texts = {
            f"rowfall_{n}": Secret(json.dumps(self._spec(order, own), default=Secret.reveal))
            for n, own in enumerate(shares(found, programs))
        }
        most = sum(split.size or 0 for split in order.splits)

        def tick(progress: Mapping[str, int]) -> None:
            seen = int(progress.get("read_rows", 0) * self._row_bytes)
            on_tick({**progress, SOURCE_BYTES: min(seen, most)})

        statement = Statement(
            self._statement(order, list(texts)),
            self._server.facts.known(order.settings),
            query_id=order.attempt,
        )
        try:
            return self._server.run(statement, lane=lane, on_tick=tick, texts=texts)
        except RowfallError as error:
            # What it made and is not whole is its fault, not that of the objects.
            if not _is_of_program(error):
                raise
            raise DeclinedError(f"{decoder.PROGRAM}: {error.message}", None) from None

    def kill(self, attempt: str) -> None:
        self._server.kill(attempt)

    def _spec(self, order: Order, own: Ranges) -> dict[str, object]:
        asked = decoder.spec(
            own.splits, own.encoding, order.schema, order.settings, ["-"], self._input.sort_by,
            self._input.addresses(own.splits), own.names,
        )  # fmt: skip
        return {**asked, "progress_ms": 0}

    def _statement(self, order: Order, tables: Sequence[str]) -> SqlText:
        columns = order.schema.columns
        program = sql.literal(f"{decoder.PROGRAM} run --spec handed")
        rows = select_blocks(columns, [
            f"executable({program}, 'Native', {block_structure(columns)}, "
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
