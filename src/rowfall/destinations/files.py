"""Files on this machine and objects of a store; a manifest beside them says what they hold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from rowfall.contracts.destination import LoadRun, ReceiverInputs, Session
from rowfall.contracts.facts import ExportState, LoadFacts
from rowfall.contracts.load import Done, Finished, Settled
from rowfall.contracts.receiver import Notes
from rowfall.core.errors import RowfallError, UsageError
from rowfall.core.events import Note
from rowfall.core.listing import Listing
from rowfall.core.model import Group, Plan, Schema, Statement
from rowfall.core.options import Options
from rowfall.core.results import Verification
from rowfall.destinations.base import BaseDestination, BasePrepared
from rowfall.destinations.options_check import FILES
from rowfall.ledger import Ledger
from rowfall.plan import attempts, exports
from rowfall.publish.export_record import ExportRecord
from rowfall.publish.files import FileReceiver, ObjectReceiver, end_open_files
from rowfall.targets.base import Target
from rowfall.targets.export import PIECE


class PreparedExport(BasePrepared):
    """The files of one run of an export.

    Args:
        receiver: of one attempt, for files or for objects.
        record: of what is written; None where there is nothing to write.
    """

    def __init__(
        self, load: LoadRun, receiver: type[ObjectReceiver], record: ExportRecord | None
    ) -> None:
        super().__init__(load)
        self._receiver, self._record = receiver, record

    def receiver(self, given: ReceiverInputs) -> ObjectReceiver:
        return self._receiver(given, self._record)

    def finish(self, plan: Plan, done: Done) -> Finished:
        """Write into the manifest how the export has ended."""
        notes, problem = Notes(self._load.session.emit), done.problem
        if self._record is not None and problem is not None:
            self._record.abandon()
        elif self._record is not None:
            try:
                if said := self._record.end(complete=not done.total.failures):
                    notes.add("info", said)
            except RowfallError as error:
                problem = error
        # An engine whose rowfall was killed ends a moment later, and may have begun a file since.
        for attempt, staging in self._load.ledger.ended_in_vain(self._load.id).items():
            _remove(attempt, staging)
        return Finished(tuple(notes.texts), problem=problem)


class WrittenObjects(BaseDestination):
    """Objects of a store, which shows them only when they are complete."""

    rows_become = "files"
    continues = False
    visible_when = "each object as soon as it is complete"
    offers = frozenset({FILES})

    receiver: type[ObjectReceiver] = ObjectReceiver

    def settle(self, load: LoadRun) -> Settled:
        """End what dead exports have begun; the manifest says what need not be written again."""
        _remove_unfinished(load.ledger, load.others)
        end_open_files(load.ledger, load.others)
        return Settled("", frozenset())

    def prepare(
        self, load: LoadRun, settled: Settled, facts: LoadFacts, plan: Plan
    ) -> PreparedExport:
        """Make the folder, and take the files over.

        Raises:
            TargetError, LedgerError: what is there is not this export's to overwrite.
        """
        session = load.session
        for statement in session.target.create(plan.schema):
            session.engine.run(Statement(statement))
        record = _open_record(load, facts)
        return PreparedExport(load, self.receiver, record)

    def export(
        self, session: Session, listing: Listing, schema: Schema, load_id: str
    ) -> ExportState:
        """Ask the manifest, which alone knows what the files hold."""
        return exports.look(session.target, session.options, listing, schema, load_id)

    def cut(
        self, facts: LoadFacts, options: Options, cores: int, todo: Sequence[int]
    ) -> tuple[Group, ...]:
        """Make one attempt of each file."""
        return attempts.cut_files(facts.listing, options.files or 1, todo)

    def lanes(self, facts: LoadFacts, options: Options, cores: int, busy: int) -> int:
        """Write as many files as there are cores: one thread compresses a file."""
        return max(1, min(cores, busy))

    def verify(self, session: Session, load_id: str) -> Verification:
        from rowfall.destinations.verify import verify_export

        return verify_export(session, load_id)

    def forget(self, target: Target, load_id: str, options: Options) -> int:
        raise UsageError(
            f"load {load_id} has written files, and the manifest beside them says what they hold",
            hint="Write them anew with --replace, or remove a file to have it written again.",
        )

    def erase(self, session: Session) -> None:
        exports.erase(session.target, session.options)

    def verified(self, load: LoadRun) -> Verification:
        found = super().verified(load)
        load.session.emit(Note(
            "info",
            f"verified: {found.source_rows:,} rows, checksum {found.source_checksum} in source and "
            f"files ({found.seconds:.1f} s)",
        ))  # fmt: skip
        return found


class WrittenFiles(WrittenObjects):
    """Files, which are renamed when they are complete."""

    receiver = FileReceiver
    flushes = True
    visible_when = "each file as soon as it is complete"


def _open_record(load: LoadRun, facts: LoadFacts) -> ExportRecord | None:
    """Take the files of an export over; return None where there is nothing to write."""
    state = facts.export
    if state is None:
        return None
    if state.refusal is not None:
        raise state.refusal
    for note in state.notes:
        load.session.emit(Note("info", note))
    if state.finished:
        return None
    record = ExportRecord(state, load.id)
    record.begin()
    return record


def _remove_unfinished(ledger: Ledger, running: Collection[str]) -> None:
    """Remove the files that dead exports have begun, which have names of their own.

    Args:
        running: other loads of this process.
    """
    for attempt in ledger.open_attempts():
        if attempt.load_id not in running:
            _remove(attempt.id, attempt.staging)


def _remove(attempt: str, staging: str) -> None:
    """Remove what an attempt has begun to write, under a name of its own."""
    path = Path(staging)
    if path.name.endswith(attempt) or path.name.endswith(PIECE):
        with suppress(OSError):
            path.unlink(missing_ok=True)
