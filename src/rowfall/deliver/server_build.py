"""Builds for servers: parts are made on this machine, and a server only takes them over.

It restores them from this process (:mod:`rowfall.systems.clickhouse.part_server`) into staging. So
it neither reads a source nor parses, sorts, compresses or merges: it copies files.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, NoReturn

from rowfall.contracts.delivery import DeliveryOrder
from rowfall.core import machine, sql, units
from rowfall.core.dataclass import dataclass
from rowfall.core.disk import free_bytes
from rowfall.core.errors import EngineError, RowfallError, TargetError
from rowfall.core.model import Column, Outcome, Statement
from rowfall.core.sqltext import SqlText
from rowfall.core.version import __version__
from rowfall.decoder.documents import Input, InputColumn, PartLayout, Spec
from rowfall.decoder.installed import PROGRAM
from rowfall.decoder.process import DecoderProcess, Summary
from rowfall.deliver.build import IN_ORDER, Build, BuildRun
from rowfall.deliver.decode import DeclinedError, DecoderInput, DecoderRun
from rowfall.deliver.proven_layouts import ProvenLayout
from rowfall.engines.base import Engine, Tick
from rowfall.plan import attempts, table_definition
from rowfall.plan.statements import plain_type
from rowfall.plan.table_definition import Definition
from rowfall.systems.clickhouse.codes import CONCURRENT_RESTORE, GONE, QUERY_WAS_CANCELLED
from rowfall.systems.clickhouse.part_server import TABLE, PartServer, pace_for

FOLDER = "rowfall-parts-"
"""Begins the names of folders, in the temporary one, with parts on their way to a server."""
# Of what is free on the disk for parts, this much is left to others.
_RESERVE = 256 << 20
# Rows that prove that a server reads these parts: they take it milliseconds.
_PROBE_ROWS = 1_000
_COMPLETES = "_completes"
# A RESTORE of a load's own parts takes a second or so; somebody else's may take hours.
_TURN_SECONDS, _TURN_PAUSE_SECONDS = 60.0, 0.2
# A server tries each request to a builder that is gone a thousand times by default, for hours, and
# is not ended by KILL QUERY then (24.10). With these it gives up after 1.6 s where nothing listens,
# and after some minutes where nothing answers.
_PATIENCE = {
    "backup_restore_s3_retry_attempts": 6, "s3_retry_attempts": 6, "s3_max_single_read_retries": 2,
    "s3_connect_timeout_ms": 5_000, "s3_request_timeout_ms": 20_000,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class BuilderRules:
    """Share of this machine that a builder has, and whether it may leave the work to a server.

    Attributes:
        threads: each of which makes parts.
        strict: a server that cannot take parts is an error (``--build on``).
        lanes: attempts that are built at the same time.
        near: a server is on this machine, too.
        spares: queries of the server come first (``--spare-servers``).
    """

    threads: int
    strict: bool
    lanes: int = 1
    near: bool = False
    spares: bool = False


class BuildForServer(Build):
    """Delivers parts to a server, which restores them over HTTP.

    Before the first one it is proven that the server can read them: it restores some rows of every
    column, whose hashes and checksums are compared. Where it cannot, it gets the rows another way.
    """

    _moves = False

    def __init__(
        self, program: str, server: Engine, input_: DecoderInput, parts: PartServer,
        rules: BuilderRules,
    ) -> None:  # fmt: skip
        super().__init__(program, server, input_)
        self.given = program, server, input_, parts, rules
        self._parts, self._rules = parts, rules
        # A server on this machine comes first: of cores that both want it gets 98 %.
        self._nice = 19 if rules.near else 0
        self._pipe_folder = temporary_folder()
        self._pace = pace_for(server.facts.cores) if rules.spares else None
        self._proving = threading.Lock()
        self._proven: str | None = None  # "" once it is, else why it cannot be
        self._recalled: ProvenLayout | None = None  # of an earlier load, not of this one
        self._tried: set[str] = set()  # ids of splits of which parts were handed over

    def insert(self, order: DeliveryOrder, lane: int, on_tick: Tick) -> Outcome:
        if self._proven or not self._input.takes(order):
            return self._input.fallback.insert(order, lane, on_tick)
        with self._proving:
            ids = {split.id for split in order.splits}
            if self._proven is None:
                self.prove(order, lane)
            elif ids & self._tried:  # what was taken over may have been counted short
                self.prove_anew(order, lane)
            self._tried |= ids
        self._check_room(order)
        try:
            return self.in_folder(order, lane, on_tick)
        except EngineError as error:
            if error.code not in (*GONE, QUERY_WAS_CANCELLED):
                with self._proving:
                    self.prove_anew(order, lane)
            raise

    def _pipes(self, order: DeliveryOrder) -> int:
        return self._rules.threads

    def _check_room(self, order: DeliveryOrder) -> None:
        """Check that the parts of an order find room here: packed text is about as large as they.

        So are their rows in the file in which those wait that memory does not hold.

        Raises:
            DeclinedError: they do not.
        """
        needed = 2 * sum(split.size or 0 for split in order.splits)
        free = free_bytes(self._pipe_folder) or 0
        if free - _RESERVE < needed:
            raise DeclinedError(
                f"parts of {units.memory(needed)} are not built: {units.memory(free)} are free in "
                f"{tempfile.gettempdir()} (TMPDIR names another folder)",
                None,
            )

    def _prepare(self, run: DecoderRun, asked: Spec) -> Spec:
        """Return the spec of parts; what it holds in memory is this machine's, not the server's."""
        asked = super()._prepare(run, asked)
        room = machine.free_memory() // 2 // self._rules.lanes
        # Each thread holds some blocks: one is parsed, one is written.
        most = max(4 << 20, min(attempts.SERVER_BLOCK, room // (4 * self._rules.threads)))
        if asked.partition_by is None:
            rows = asked.block_rows * max(1, most // asked.block_bytes)
            asked = replace(asked, block_bytes=most, block_rows=rows)
        asked = replace(asked, block_bytes=min(asked.block_bytes, most))
        if asked.partition_by is not None:
            held = replace(asked.partition_by, hold_bytes=room // attempts.HELD_SHARE)
            asked = replace(asked, partition_by=held)
        if asked.merge is not None:
            merge = replace(asked.merge, hold_bytes=room // attempts.HELD_SHARE)
            asked = replace(asked, merge=merge)
        return asked

    def _layout(self, table: Definition, filled: Collection[str]) -> PartLayout:
        """Return the layout of 24.8, which all later servers read: replicas may be of any version.

        A server leaves a part that is of a newer layout aside, and says so in its log only.
        """
        return oldest(table_definition.layout(table, filled))

    # --- handing over -------------------------------------------------------------------------

    def _hand_over(self, run: BuildRun, parts: Mapping[str, Path]) -> float:
        order = run.order
        return self.restore(order.staging, parts, order.attempt, run.lane)

    def _completion_id(self, order: DeliveryOrder, number: int) -> str:
        """See :meth:`Build._completion_id`: a lost connection is asked for by the id alone."""
        return f"{order.attempt}{_COMPLETES}{number}"

    def restore(self, table: str, parts: Mapping[str, Path], query_id: str, lane: int) -> float:
        """Let the server restore parts into an empty table; returns its CPU seconds.

        Raises:
            RowfallError: it cannot; the table then holds any of them.
        """
        offer = self._parts.offer_parts(parts, self._pace)
        try:
            into = sql.qualified(self._input.target.database, table)
            statement = Statement(
                # An empty table is asked for: what is restored once is never restored again.
                SqlText.of(
                    f"RESTORE TABLE {TABLE} AS {into} FROM S3(", offer.access(),
                    ") SETTINGS create_table = 'must-exist', allow_different_table_def = 1",
                ),
                self._engine.facts.known(_PATIENCE), query_id=query_id, alters=table,
            )  # fmt: skip
            return self._alone(statement, lane)
        finally:
            self._parts.withdraw(offer)

    def _alone(self, statement: Statement, lane: int) -> float:
        """Run a RESTORE, after others where the server allows one at a time; returns CPU seconds.

        Raises:
            DeclinedError: the others take long.
        """
        deadline = time.monotonic() + _TURN_SECONDS
        while True:
            try:
                return self._engine.run(statement, lane=lane).cpu_seconds
            except EngineError as error:
                if error.code != CONCURRENT_RESTORE:
                    raise
                if time.monotonic() > deadline:
                    raise DeclinedError(
                        "another RESTORE runs there, and its allow_concurrent_restores is off", None
                    ) from None
                time.sleep(_TURN_PAUSE_SECONDS)

    # --- questions ----------------------------------------------------------------------------

    @contextmanager
    def _readable(self, file: str) -> Iterator[SqlText]:
        offer = self._parts.offer({"rows": Path(file)})
        try:
            yield SqlText.of("s3(", offer.access("rows"))
        finally:
            self._parts.withdraw(offer)

    def _write_native(self, query: SqlText, file: str, lane: int) -> None:
        with open(file, "wb") as opened:
            settings = self._engine.facts.known(IN_ORDER)
            statement = Statement(query, settings, format="Native", alters=None)
            self._engine.run(statement, lane=lane, out_fd=opened.fileno())

    # --- proving ------------------------------------------------------------------------------

    def prove(self, order: DeliveryOrder, lane: int) -> None:
        """Prove that the server reads parts with the columns of a load, as they were written.

        Raises:
            DeclinedError: it does not, and may get the rows in another way.
            TargetError: it does not, and parts are asked for.
            RowfallError: the server cannot be asked at the moment.
        """
        run = BuildRun(order, (), lane)
        table = self._definition(run)
        layout = self._proven_layout(order, table, lane)
        if layout is not None and layout.known():
            self._proven, self._recalled = "", layout
            return
        try:
            why = self._refusal(order, table, lane)
        except RowfallError as error:
            if error.transient or error.code in (*GONE, QUERY_WAS_CANCELLED):
                raise
            why = error.message
        self._proven = why or ""
        if why is not None:
            self.refuse(why)
        if layout is not None:
            layout.remember()

    def prove_anew(self, order: DeliveryOrder, lane: int) -> None:
        """Prove it again where the proof is of an earlier load, and parts were refused or missed.

        Raises:
            RowfallError: see :meth:`prove`.
        """
        if self._recalled is not None:
            self._recalled.forget()
            self._recalled = self._proven = None
            self.prove(order, lane)

    def _proven_layout(
        self, order: DeliveryOrder, table: Definition, lane: int
    ) -> ProvenLayout | None:
        """Return where the result of a probe is kept; None where the server does not name itself.

        Several servers may answer at one address.
        """
        try:
            ((*server,),) = self._engine.ask("SELECT version(), buildId(), serverUUID()", lane=lane)
            program = os.stat(self._program)
        except (RowfallError, OSError):
            return None
        filled = {c.name for c in order.schema.columns}
        host = self._parts.address.rpartition(":")[0]
        return ProvenLayout(
            server, __version__, program.st_size, program.st_mtime_ns, host,
            self._layout(table, filled), sorted((c.type, c.codec) for c in _kinds(table, filled)),
        )  # fmt: skip

    def refuse(self, why: str) -> NoReturn:
        """Leave all rows of the load to another way.

        Args:
            why: parts cannot be handed over, a clause.

        Raises:
            DeclinedError: the server may get the rows in another way.
            TargetError: parts are asked for.
        """
        self._proven = why
        if self._rules.strict:
            raise TargetError(
                f"the server does not take parts that are built here: {why}",
                hint="Leave out --build on: the rows are sent, or read by the server, then.",
            )
        raise DeclinedError(f"parts cannot be handed over: {why}", None)

    def definition(self, order: DeliveryOrder, lane: int) -> Definition:
        """Return the definition of an order's staging table, see :meth:`Build._definition`."""
        return self._definition(BuildRun(order, (), lane))

    def _refusal(self, order: DeliveryOrder, table: Definition, lane: int) -> str | None:
        """Return the reason that a server cannot take over parts; None if it can.

        The rows are random ones of the server, in Native format: what is compared is how they are
        stored.
        """
        filled = {c.name for c in order.schema.columns}
        columns = _kinds(table, filled)
        # As rowfall-decode reads columns: it makes dictionaries itself.
        plain = [Column(c.name, plain_type(c.type)) for c in columns]
        structure = sql.literal(sql.structure((c.name, c.type) for c in plain))
        name = f"{order.staging}_probe"
        at = sql.qualified(self._input.target.database, name)
        listed = ", ".join(
            f"{sql.name(c.name)} {c.type}{f' CODEC({c.codec})' if c.codec else ''}" for c in columns
        )

        def do(text: str) -> None:
            self._engine.run(Statement(SqlText.of(text), alters=name), lane=lane)

        allowed = {k: 1 for k in self._engine.facts.settings if k.startswith("allow_suspicious_")}
        folder = Path(tempfile.mkdtemp(dir=self._pipe_folder))
        try:
            self._engine.run(
                Statement(
                    SqlText.of(f"CREATE TABLE {at} ({listed}) ENGINE = MergeTree ORDER BY tuple()"),
                    allowed, alters=name,
                ),
                lane=lane,
            )  # fmt: skip
            rows = folder / "rows"
            self._write_native(
                SqlText.of(
                    f"SELECT * FROM generateRandom({structure}, 1, 20, 3) LIMIT {_PROBE_ROWS}"
                ),
                str(rows), lane,
            )  # fmt: skip
            layout = self._layout(table, filled)
            forms = [replace(layout, wide_bytes=0, wide_rows=n) for n in (0, 2 * _PROBE_ROWS)]
            parts = {
                f"all_{n}_{n}_0": self._built(rows, columns, form, folder / str(n))
                for n, form in enumerate(forms, 1)
            }
            self.restore(name, parts, f"{order.attempt}_probe", lane)
            hashed = f"SELECT {sql.checksum(plain)} FROM "
            with self._readable(str(rows)) as place:
                wanted = self._engine.ask(
                    SqlText.of("SELECT 2 * tupleElement(x, 1), 2 * tupleElement(x, 2) FROM (",
                               f"SELECT tuple({sql.checksum(plain)}) AS x FROM ", place,
                               f", 'Native', {structure}))"),
                    lane=lane,
                )  # fmt: skip
            found = self._engine.ask(f"{hashed}{at}", lane=lane)
            if found != wanted:
                return f"{wanted[0][0]} rows were built, and it reads others ({found[0][0]})"
            checked = self._engine.ask(
                f"CHECK TABLE {at}", {"check_query_single_value_result": 1}, lane=lane
            )
            return None if checked == [[1]] else "its CHECK TABLE finds them broken"
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(RowfallError):
                do(f"DROP TABLE IF EXISTS {at} SYNC")

    def _built(
        self, rows: Path, columns: Sequence[table_definition.DefinedColumn], layout: PartLayout,
        output: Path,
    ) -> Path:  # fmt: skip
        """Return a part of rows in the Native format.

        Raises:
            EngineError: it cannot be built.
        """
        spec = Spec(
            inputs=(Input(str(rows)),), format="Native", outputs=(str(output),), parts=True,
            columns=tuple(
                InputColumn(c.name, c.type, c.name, codecs=table_definition.codecs(c))
                for c in columns
            ),
            layout=layout, timezone="UTC",
        )  # fmt: skip
        child = DecoderProcess(self._program, spec)
        child.wait()
        ended = child.result()
        if not isinstance(ended, Summary):
            said = "it was ended" if ended is None else ended.message
            raise EngineError(f"{PROGRAM} did not build the rows of a probe: {said}")
        (part,) = output.iterdir()
        return part

    def kill(self, attempt: str) -> None:
        run = self._running.get(attempt)
        super().kill(attempt)
        self.kill_statements(attempt, run)

    def kill_statements(self, attempt: str, run: DecoderRun | None) -> None:
        """End what the server does for an attempt; ``run``: None where it has none."""
        self._engine.kill(attempt)
        if isinstance(run, BuildRun) and run.table is not None:
            filled = {c.name for c in run.order.schema.columns}
            for number in range(len(table_definition.completions(run.table, filled))):
                self._engine.kill(self._completion_id(run.order, number))

    @property
    def refused(self) -> str | None:
        """Return why the server takes no parts; "" if it does, None before it was asked."""
        return self._proven


def _kinds(table: Definition, filled: Collection[str]) -> list[table_definition.DefinedColumn]:
    """Return a column of each type and codec.

    A server takes as long for a file of a probe as for one of a load.

    Args:
        filled: the columns of the load.
    """
    kinds = {(c.type, c.codec): c for c in reversed(table.columns) if c.name in filled}
    return list(reversed(kinds.values()))


def oldest(layout: PartLayout) -> PartLayout:
    """Return a layout with what all servers read that rowfall loads into."""
    return replace(layout, strings="inline", substream_marks=False)


# --- the folder of parts --------------------------------------------------------------------------

_locked: list[IO[bytes]] = []


@functools.cache
def temporary_folder() -> Path:
    """Make a folder for parts of this process, and remove those that killed processes have left.

    Each has a file that its process has locked for as long as it lives.
    """
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{FOLDER}*"):
        with suppress(OSError), open(left / "lock", "rb") as lock:
            if os.fstat(lock.fileno()).st_uid != os.getuid():
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER))
    own = open(folder / "lock.new", "wb")  # noqa: SIM115 - locked until this process ends
    fcntl.flock(own, fcntl.LOCK_EX)
    os.rename(folder / "lock.new", folder / "lock")
    _locked.append(own)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
