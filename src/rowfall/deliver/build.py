"""Builds: rowfall-decode writes finished parts of staging, which are only attached and completed.

It reads the source itself, or a pipe of Native blocks that the engine writes of whatever it reads.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rowfall.contracts.delivery import DeliveryOrder
from rowfall.core import sql
from rowfall.core.dataclass import dataclass
from rowfall.core.errors import EngineError, TargetError
from rowfall.core.listing import Split
from rowfall.core.model import Column, Encoding, HelperSeconds, Kind, Outcome, Schema, Statement
from rowfall.core.sqltext import SqlText, quote
from rowfall.core.type_names import parse_type
from rowfall.decoder import documents
from rowfall.decoder.documents import Spec
from rowfall.decoder.installed import PROGRAM
from rowfall.decoder.process import Answers
from rowfall.deliver.decode import (
    PROGRESS_MS,
    DeclinedError,
    Decode,
    DecoderRun,
    decoder_inputs,
    decoder_spec,
    let_go,
    release,
)
from rowfall.deliver.streams import into_file
from rowfall.engines.base import Engine, Tick
from rowfall.plan import attempts, keys, merging, statements, table_definition
from rowfall.plan.keys import PartitionKey, SortingKey
from rowfall.plan.table_definition import Definition
from rowfall.schema.projection import Scan
from rowfall.systems.clickhouse.codes import MEMORY_LIMIT, QUERY_WAS_CANCELLED

# As often as the decoder reports its progress.
_BUILD_POLL_SECONDS = PROGRESS_MS / 1e3
_UNLIMITED = 4 << 30
# Rows are only held by blocks: one that fits into the cache is sorted faster, and each partition of
# it should have some of them.
_HELD_BLOCK = (4 << 20, 32 << 20)
_HELD_SLICE = 64 << 10
# Clear of those on which statements run.
_ASKING_LANES = 2000
# One thread keeps the rows in their order, and a column may be called like an expression.
IN_ORDER = {"max_threads": 1, "prefer_column_name_to_alias": 1}


@dataclass(slots=True)
class BuildRun(DecoderRun):
    """One attempt whose parts are being written.

    Attributes:
        table: the definition of its staging table; ``place``: where the engine finds its parts.
        sorting, partitioning: keys whose values the engine computes; None where there is none.
    """

    table: Definition | None = None
    place: Path = Path()
    sorting: SortingKey | None = None
    partitioning: PartitionKey | None = None


class Build(Decode):
    """Delivers through the decoder, which writes the parts of staging by itself.

    The engine then neither reads nor sorts nor compresses a row. Two million taxi rows of 51
    columns in csv.gz take a third less CPU than through pipes.
    """

    # Parts are moved into the folder of the table, whose disk must be that one.
    _moves = True

    def _begin(self, order: DeliveryOrder, outputs: Sequence[str], lane: int) -> BuildRun:
        return BuildRun(order, outputs, lane)

    def _prepare(self, run: DecoderRun, asked: Spec) -> Spec:
        run = _of(run)
        order, table = run.order, self._definition(run)
        by_name = {column.name: column for column in asked.columns}
        codecs = {c.name: table_definition.codecs(c) for c in table.columns}
        # In nested types the table quotes some names of elements that need no quotes.
        types = {c.name: c.type for c in table.columns if parse_type(c.type).nested}
        columns = [by_name[c.name] for c in table.columns if c.name in by_name]
        loaded = {column.name: column for column in order.schema.columns}
        held = [loaded[column.name] for column in columns]
        asked = replace(
            asked,
            parts=True,
            columns=tuple(
                replace(c, type=types.get(c.name, c.type), codecs=codecs[c.name]) for c in columns
            ),
            layout=self._layout(table, set(loaded)),
        )
        asked = self._partitioned(run, table, held, self._sorted(run, table, held, asked))
        return self._merged(run, table, asked)

    def _sorted(
        self, run: BuildRun, table: Definition, stored: Sequence[Column], asked: Spec
    ) -> Spec:
        """Return the spec with what it says about the order of rows.

        Args:
            stored: the columns of the parts, in their order.

        Raises:
            DeclinedError: only the engine sorts by the key of the table.
        """
        question = keys.question_of_types(table.sorting_key, stored)
        types = [str(row[1]) for row in self._engine.ask(question)] if question else []
        others = [column.name for column in table.columns]
        found = keys.sorting_key(table.sorting_key, stored, others, types)
        if isinstance(found, str):
            raise DeclinedError(f"parts of the table cannot be built: {found}", None)
        run.sorting = found
        file = str(Path(run.outputs[0]).parent / "values")
        return replace(
            asked,
            sort_by=found.places(len(stored)),
            primary=table.primary_elements,
            computed=found.computed(file),
        )

    def _partitioned(
        self, run: BuildRun, table: Definition, stored: Sequence[Column], asked: Spec
    ) -> Spec:
        """Return the spec with what it says about the partitions of the table, if it has any.

        Args:
            stored: the columns of the parts, in their order.

        Raises:
            DeclinedError: only the engine finds the partitions of rows.
        """
        text = table.clauses.get("PARTITION", "").removeprefix("BY ")
        if not keys.elements(text):
            return asked
        found = keys.partition_key(text, stored, [c.name for c in table.columns])
        if isinstance(found, str):
            raise DeclinedError(found, None)
        run.partitioning, order = found, run.order
        held = documents.PartPartition(
            found.used,
            file=str(Path(run.outputs[0]).parent / "keys.native"),
            max_partitions=int(order.settings.get("max_partitions_per_insert_block", 0)),
            hold_bytes=held_bytes(order),
        )
        least, most = _HELD_BLOCK
        block = min(most, max(least, order.schema.layout.partitions * _HELD_SLICE))
        return replace(asked, partition_by=held, block_bytes=block)

    def _merged(self, run: BuildRun, table: Definition, asked: Spec) -> Spec:
        """Return the spec with what it says about merging all blocks into one part, if they are."""
        apart = asked.partition_by is not None
        if apart or not merging.of_table(table, asked.format, spares=not self._moves):
            return asked
        file = str(Path(run.outputs[0]).parent / "rows")
        held = documents.PartMerge(held_bytes(run.order), file, merging.HELD_BLOCK)
        return replace(asked, merge=held)

    def _answers(self, run: DecoderRun) -> Answers:
        """Return a function that computes sorting or partition keys of values from the decoder.

        It runs expressions in the engine, and raises EngineError for any other question.
        """
        run = _of(run)

        def answer(question: str, about: Mapping[str, Any]) -> Mapping[str, Any]:
            # The engine may be reading for the program on the order's own lane.
            lane, schema = _ASKING_LANES + run.lane, run.order.schema
            if question == "keys" and run.sorting is not None:
                return self._compute_keys(run.sorting, schema, about, lane)
            if question != "partitions":
                raise EngineError(f"nobody knows {question}")
            with self._readable(about["file"]) as place:
                return self._partitions(run, handed_rows(schema, about, place), lane)

        return answer

    def _partitions(self, run: BuildRun, rows: SqlText, lane: int) -> Mapping[str, Any]:
        """Return the partitions of values, see :func:`partitions`."""
        if run.partitioning is None:
            raise EngineError("the table has no partitions")
        return partitions(run.partitioning, self._engine, rows, lane)

    def _readable(self, file: str) -> AbstractContextManager[SqlText]:
        """Let the engine read a file; gives the name and first arguments of a table function."""
        return nullcontext(SqlText.of(f"file({sql.literal(file)}"))

    def _compute_keys(
        self, key: SortingKey, schema: Schema, about: Mapping[str, Any], lane: int
    ) -> Mapping[str, Any]:
        """Write the values of some expressions of a sorting key into a file, in the Native format.

        Args:
            about: the file with the values, the names of their columns, the numbers of the
                expressions, and the file that is to be made.

        Raises:
            EngineError: the engine cannot compute them.
        """
        with self._readable(about["file"]) as place:
            query = key_values(key, about["expressions"], handed_rows(schema, about, place))
            self._write_native(query, about["into"], lane)
        return {}

    def _write_native(self, query: SqlText, file: str, lane: int) -> None:
        """Write the result of a query into a file of this machine."""
        self._engine.run(Statement(into_file(query, file), IN_ORDER, alters=None), lane=lane)

    def _layout(self, table: Definition, filled: Collection[str]) -> documents.PartLayout:
        """Return how the parts of a table are laid out; ``filled``: columns of the load."""
        return table_definition.layout(table, filled)

    def _definition(self, run: BuildRun) -> Definition:
        """Return the definition of the staging table, by which its parts are made.

        Raises:
            DeclinedError: they cannot be made; somebody has altered the table since the plan.
        """
        order = run.order
        ((text, path),) = self._engine.ask(
            "SELECT create_table_query, data_paths[1] FROM system.tables WHERE "
            f"database = {quote(self._input.target.database)} AND name = {quote(order.staging)}",
        )
        found = table_definition.parse(text)
        why = "its definition is not understood"
        if found is not None:
            filled = {c.name for c in order.schema.columns}
            why = table_definition.refusal(found, filled, moves=self._moves) or ""
        if found is None or why:
            raise DeclinedError(f"parts of the table cannot be built: {why}", None)
        run.table = found
        run.place = Path(self._input.target.folder or "", path, "detached")
        return found

    def complete(self, run: BuildRun, table: Definition) -> float:
        """Let the engine make what attached parts lack; returns its CPU seconds.

        Raises:
            DeclinedError: it cannot, or rows break a constraint; it may say so itself.
        """
        order, lane = run.order, run.lane
        at = sql.qualified(self._input.target.database, order.staging)
        cpu = 0.0
        try:
            asked = table_definition.violations(table, at)
            if asked is not None and int(self._engine.ask(asked, lane=lane)[0][0]):
                raise DeclinedError("rows break a constraint of the table", None)
            filled = {c.name for c in order.schema.columns}
            for number, commands in enumerate(table_definition.completions(table, filled)):
                statement = Statement(
                    SqlText.of(f"ALTER TABLE {at} {commands}"), {"mutations_sync": 1},
                    query_id=self._completion_id(order, number), alters=order.staging,
                )  # fmt: skip
                cpu += self._engine.run(statement, lane=lane).cpu_seconds
        except EngineError as error:
            if error.transient or error.code in (MEMORY_LIMIT, QUERY_WAS_CANCELLED):
                raise
            raise DeclinedError(f"parts cannot be completed: {error.message}", None) from None
        return cpu

    def _completion_id(self, order: DeliveryOrder, number: int) -> str:
        """Return the query id of a statement that completes parts."""
        return order.attempt

    def _insert_blocks(self, run: DecoderRun, tick: Tick) -> Outcome:
        began = time.monotonic()
        run = _of(run)
        order, child = run.order, run.process
        while not child.wait(_BUILD_POLL_SECONDS):
            tick({})
        report = self.result_of(child, order)
        if report is None:
            return Outcome()
        parts: dict[str, Path] = {}
        for output in run.outputs:
            for part in Path(output).iterdir():
                number, (id_, _, _) = len(parts) + 1, part.name.rpartition("_")
                parts[f"{id_ or 'all'}_{number}_{number}_0"] = part
        cpu = 0.0
        if parts:
            cpu = self._hand_over(run, parts)
            if run.table is not None:
                cpu += self.complete(run, run.table)
        return Outcome(
            rows_read=report.rows,
            rows_written=report.rows,
            seconds=time.monotonic() - began,
            cpu_seconds=cpu,
            helper=HelperSeconds(writing=report.writing_seconds),
        )

    def _hand_over(self, run: BuildRun, parts: Mapping[str, Path]) -> float:
        """Bring parts into staging; returns CPU seconds of the engine.

        Args:
            parts: their folders, by the names that they have there.

        Raises:
            TargetError: the folder of the table cannot be written.
        """
        order, place = run.order, run.place
        try:
            for name, part in parts.items():
                move(part, place / name)
        except OSError as error:
            raise TargetError(f"parts cannot be moved to {place}: {error.strerror}") from None
        staging = sql.qualified(self._input.target.database, order.staging)
        statement = Statement(
            SqlText.of(f"ALTER TABLE {staging} ATTACH PARTITION ALL"),
            query_id=order.attempt, alters=None,
        )  # fmt: skip
        return self._engine.run(statement, lane=run.lane).cpu_seconds


def held_bytes(order: DeliveryOrder) -> int:
    """Return the bytes of rows that one attempt may hold in memory until they are a part."""
    limit = int(order.settings.get("max_memory_usage", 0)) or _UNLIMITED
    return limit // attempts.HELD_SHARE


def _of(run: DecoderRun) -> BuildRun:
    """Return the state of an attempt as that of a build, which it is."""
    assert isinstance(run, BuildRun)  # noqa: S101 - made by Build._begin
    return run


def move(part: Path, place: Path) -> None:
    """Move a finished part to where staging finds it, under the name that it has there."""
    os.rename(part, place)


def partitions(key: PartitionKey, engine: Engine, rows: SqlText, lane: int) -> Mapping[str, Any]:
    """Return the partitions of values: the name of each, and the key as parts hold it.

    Args:
        rows: a query of the values.

    Raises:
        EngineError: the engine cannot compute the key, or it may be NULL and has a type of which
            only the engine knows the partitions.
    """
    values, types = ", ".join(key.elements), []
    if key.nullable:
        question = key.question_of_types(rows)
        types = [str(row[1]) for row in engine.ask(question, lane=lane)]
    identifier = key.identifier(types)
    if identifier is None:
        raise EngineError(f"a partition key that may be NULL, of {', '.join(types)}")
    found = engine.ask(
        SqlText.of(f"SELECT {identifier}, hex(formatRow('RowBinary', {values})) FROM (", rows, ")"),
        {"max_threads": 1},
        lane=lane,
    )
    return {"partitions": found}


def key_values(key: SortingKey, numbers: Sequence[int], rows: SqlText) -> SqlText:
    """Return a query of the values of some expressions of a sorting key, in the order of rows."""
    values = ", ".join(
        f"{key.expressions[n].value} AS {sql.name(keys.key_name(n))}" for n in numbers
    )
    return SqlText.of(f"SELECT {values} FROM (", rows, ")")


def handed_rows(schema: Schema, about: Mapping[str, Any], place: SqlText) -> SqlText:
    """Return a query of the rows that the program has handed over for a question.

    Args:
        place: the beginning of a table function that reads them.
    """
    sent = {column.name: statements.sent_type(column) for column in schema.reads}
    own = {column.name: column.type for column in schema.columns}
    names = about["columns"]
    given = sql.literal(sql.structure([(name, sent[name]) for name in names]))
    # With the types that the columns have in the table.
    cast = ", ".join(f"CAST({sql.name(n)}, {sql.literal(own[n])}) AS {sql.name(n)}" for n in names)
    return SqlText.of(f"SELECT {cast} FROM ", place, f", 'Native', {given})")


# What the engine reads, on its way to the program: one block after the other.
NATIVE = Encoding("Native", "none", Kind.TYPED)
# Sizes of what goes into a part, which the program puts together; the engine's own are better here.
_OF_PARTS = ("input_format_parquet_max_block_size", "input_format_parquet_prefer_block_bytes")


class FromEngine(Decode):
    """Delivers what the engine reads: it writes Native blocks into a pipe of rowfall-decode."""

    def _insert(self, order: DeliveryOrder, lane: int, on_tick: Tick, folder: Path) -> Outcome:
        pipe = str(folder / "blocks")
        os.mkfifo(pipe, 0o600)
        columns = order.schema.columns
        sent = Schema(tuple(Column(c.name, c.type, source=c.name) for c in columns))
        outputs = [str(folder / str(n)) for n in range(self._pipes(order))]
        inputs = decoder_inputs([Split("", pipe, "", None)])
        asked = decoder_spec(inputs, NATIVE, sent, order.settings, outputs)
        asked = replace(asked, sort_by=self._input.sort_by or None)
        run = self._begin(order, outputs, lane)
        child = self._start(run, asked)
        done = threading.Event()
        threading.Thread(target=release, args=(child, [pipe], done), daemon=True).start()
        settings = {k: v for k, v in order.settings.items() if k not in _OF_PARTS}
        input_ = self._input
        scan = Scan(input_.source, order.splits, input_.read, order.schema, input_.headers)
        query = statements.select_handed_over(scan, order.select)
        names = [column.name for column in asked.columns]
        if names != [column.name for column in columns]:
            query = SqlText.of(f"SELECT {', '.join(map(sql.name, names))} FROM (", query, ")")
        try:
            statement = Statement(
                into_file(query, pipe), self._engine.facts.known(settings), query_id=order.attempt,
                alters=None,
            )  # fmt: skip
            made = self._engine.run(statement, lane=lane, on_tick=on_tick)
            let_go(pipe)  # of no rows the engine might not have opened it
            built = self._insert_blocks(run, _silent)
        except BaseException as error:
            self._abandon(run, pipe)
            self.result_of(child, order)  # what the program reports explains what the engine met
            raise error
        finally:
            done.set()
        report = self.result_of(child, order)
        if report is None:
            raise EngineError(f"{PROGRAM} did not end by itself", transient=True)
        return replace(
            made,
            rows_written=built.rows_written,
            cpu_seconds=made.cpu_seconds + built.cpu_seconds + report.cpu_seconds,
            helper=HelperSeconds(report.cpu_seconds, built.helper.writing, report.waited_seconds),
        )

    def _abandon(self, run: DecoderRun, pipe: str) -> None:
        """End the program: the engine has failed."""
        run.process.kill()


class BuildFromEngine(FromEngine, Build):
    """Delivers what the engine reads as parts.

    The engine then neither sorts nor compresses a row. It halves the CPU of tables of numbers.
    """

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        if order.engine_reads:
            return self._input.fallback.insert(order, lane, on_tick)
        return self.in_folder(order, lane, on_tick)


def _silent(progress: object) -> None:
    """Ignore the progress of the program: the engine has told that of reading."""
