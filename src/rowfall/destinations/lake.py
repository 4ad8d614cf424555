"""Tables of data files, as Iceberg's: what attempts write becomes visible by one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from rowfall.cluster.writer import Writer
from rowfall.contracts.delivery import Delivery
from rowfall.contracts.destination import LoadRun, Query, ReceiverInputs, Session
from rowfall.contracts.facts import LoadFacts, SourceColumns, TargetFacts
from rowfall.contracts.load import Done, Finished, Settled
from rowfall.contracts.receiver import Notes
from rowfall.core.errors import RowfallError
from rowfall.core.events import Listener
from rowfall.core.listing import Split, without_salt
from rowfall.core.model import WRITE, Choice, Group, Plan, Schema, Transport
from rowfall.core.options import Options
from rowfall.core.results import Leftover, Verification
from rowfall.deliver.route import open_writing
from rowfall.destinations import cursor_rows
from rowfall.destinations.base import BasePrepared, ledger_of
from rowfall.destinations.database import (
    RecordedDatabase,
    among,
    database_of,
    open_database,
    resolve,
)
from rowfall.destinations.notes import created, dropped
from rowfall.engines.base import ExistingTable
from rowfall.engines.database import FileTable
from rowfall.ledger import Ledger, target_key
from rowfall.plan import attempts
from rowfall.publish.commit import CommitReceiver, commit_gathered, drop_gathered, end_open_commits
from rowfall.publish.transaction import hold_streams, loaded_in
from rowfall.schema.types.strict_reading import only_utf8
from rowfall.sources.cursor import CursorRows
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.targets.base import FileTarget, Target

# Bytes of a data file: what Iceberg's other writers aim at (write.target-file-size-bytes).
_DATA_FILE = 512 << 20
# A file of that size is encoded by several threads; while one is brought to its store, the next
# is written.
_CORES_EACH, _LEAST_FILES, _MOST_FILES = 4, 2, 8


def table_of(session: Session) -> FileTable:
    """Return the table of files that the session has opened for its target."""
    table = database_of(session)
    assert isinstance(table, FileTable)  # noqa: S101 - opened for targets of this kind
    return table


class PreparedCommit(BasePrepared):
    """A load whose attempts are gathered for one commit."""

    def __init__(self, load: LoadRun) -> None:
        super().__init__(load)
        self._table = table_of(load.session)

    def delivery(self, session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        target = writer.target
        assert isinstance(target, FileTarget)  # noqa: S101 - by its kind
        layout = self._table.layout()
        return open_writing(session, facts, plan, writer, target, layout)

    def receiver(self, given: ReceiverInputs) -> CommitReceiver:
        return CommitReceiver(given, self._table)

    def finish(self, plan: Plan, done: Done) -> Finished:
        """Commit what was gathered; with ``--replace`` only where no file has failed."""
        if done.problem is not None:
            return Finished(problem=done.problem)
        notes, problem = Notes(self._load.session.emit), None
        try:
            self._commit(plan, done, notes)
        except RowfallError as error:
            problem = error
        return Finished(tuple(notes.texts), problem=problem)

    def _commit(self, plan: Plan, done: Done, notes: Notes) -> None:
        load, session = self._load, self._load.session
        replaces = session.options.replace
        if replaces and done.total.failures:
            what = f"nothing is replaced in {session.table_text}: some files failed"
            notes.add("warning", what)
            return
        if replaces and plan.work.loaded and not load.ledger.gathered(load.key):
            return  # a stopped run has brought it to its end, but for the report
        commit_gathered(
            self._table, load.ledger, load.id, session.target_key,
            list(plan.listing.splits(session.target_key)), notes,
            loaded=done.total.amounts.rows, salt=load.salt, replace=replaces,
        )  # fmt: skip


def _open(target: Target) -> FileTable:
    """Open the table of a target, for what is done besides loads."""
    table = open_database(target, Options())
    assert isinstance(table, FileTable)  # noqa: S101 - by its kind
    return table


class LakeTable(RecordedDatabase):
    """A table whose data files are added, or replaced, by a commit of its metadata."""

    rows_become = "files"
    visible_when = "nothing until the end of the load, then all rows in one moment"

    def ask_rows(self, session: Session, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
        """Have an engine of its own, which may read any folder, read the files."""
        with closing(Embedded(None, work="/")) as engine:
            return cursor_rows.of_engine(engine, table_of(session).relation(), wanted)

    def key(self, session: Session, load_id: str) -> str:
        return target_key(session.target_key, load_id)

    def survey(
        self, session: Session, listed: ExistingTable | None, found: SourceColumns, *,
        thorough: bool,
    ) -> tuple[Schema, TargetFacts]:  # fmt: skip
        """Check besides that texts are UTF-8, but where any bytes are taken."""
        schema, facts = super().survey(session, listed, found, thorough=thorough)
        but = table_of(session).of_bytes(schema.columns)
        return replace(schema, columns=only_utf8(schema.columns, found.encoding, but)), facts

    def cut(
        self, facts: LoadFacts, options: Options, cores: int, todo: Sequence[int]
    ) -> tuple[Group, ...]:
        """Make attempts of about one data file."""
        most = _DATA_FILE / attempts.parquet_share(facts.encoding)
        return attempts.cut_evenly(facts, options, cores, todo, lambda usual, total: most)

    def lanes(self, facts: LoadFacts, options: Options, cores: int, busy: int) -> int:
        return max(1, min(max(_LEAST_FILES, min(_MOST_FILES, cores // _CORES_EACH)), busy))

    def adapt_transport(
        self, facts: LoadFacts, options: Options, transport: Transport
    ) -> Transport:
        return replace(transport, delivery=Choice(WRITE, "the table is made of Parquet files"))

    def verify(self, session: Session, load_id: str) -> Verification:
        from rowfall.destinations.verify import verify_files

        return verify_files(session, ledger_of(session, load_id), load_id, table_of(session))

    def query(self, target: Target, query: Query) -> None:
        from rowfall.destinations.query import query_files

        with closing(_open(target)) as table:
            query_files(target, table, query)

    def clean(self, target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
        """Remove data files that dead loads have written into the table and not committed."""
        if not target.ledger_path.exists():
            return []
        with closing(_open(target)) as table, closing(Ledger(target.ledger_path)) as ledger:
            key = target_key(target.database, target.table)
            alive = frozenset(
                row.id for row in ledger.loads("WHERE state = 'running'")
                if ledger.runs(row)
            )  # fmt: skip
            if not dry:
                end_open_commits(table, ledger, target, key, alive, emit)
            found = []
            for load_id, attempt, ids in ledger.attempts_gathered(key):
                files = [move for move in ledger.moves(attempt) if move.state == "pending"]
                if load_id in alive or not files:
                    continue
                found += [
                    Leftover("", file.staging, load_id, file.rows, file.highest_block, False)
                    for file in files
                ]
                if not dry:
                    drop_gathered(table, ledger, attempt, target_key(key, load_id), ids)
            return found

    def record_adopted(
        self, session: Session, ledger: Ledger, attempt: str, splits: Sequence[Split]
    ) -> None:
        table, load_id = table_of(session), attempt.partition("_")[0]
        table.commit(attempt, load_id, [split.id for split in splits], (), replace=False)
        ledger.set_table(session.target_key, table.table_id())

    def settle(self, load: LoadRun) -> Settled:
        session, ledger, table = load.session, load.ledger, table_of(load.session)
        key = session.target_key
        end_open_commits(table, ledger, session.target, key, load.others, session.emit)
        known, there = ledger.table_uuid(key), table.table_id()
        if known and known != there:
            if forgotten := ledger.set_table(key, there):
                session.emit(dropped(session, forgotten))
            for attempt, ids in ledger.gathered(load.key).items():  # of the table that is gone
                drop_gathered(table, ledger, attempt, load.key, ids)
        resolve(session, table)
        loaded = loaded_in(
            table, load.id, force=session.options.force, among=among(session, table),
            splits=lambda: session.listing.splits(key),
        )  # fmt: skip
        if session.options.replace:
            loaded = frozenset(map(without_salt, table.loaded_by(load.id)))
        return Settled(session.target.table, loaded | ledger.loaded(load.key))

    def prepare(
        self, load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan
    ) -> PreparedCommit:
        """Make the table where it is missing; the commit says what others are loaded."""
        session, table = load.session, table_of(load.session)
        statements = () if plan.schema.exists else session.target.create(plan.schema)
        if statements:
            session.emit(created(session, plan))
            table.make(plan.schema.columns)
        else:
            table.mend()
        load.ledger.set_table(session.target_key, table.table_id())
        todo = [i for g in plan.work.groups for i in g.indexes]
        hold_streams(table, plan.listing.splits(session.target_key, todo))
        return PreparedCommit(load)
