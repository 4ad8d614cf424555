"""Defaults of destinations, and of loads that are prepared there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from rowfall.contracts.destination import Gauge, Opened, OpenRequest, Query
from rowfall.contracts.undo import Undo
from rowfall.core.errors import LedgerError, RowfallError, TargetError, UsageError, VerifyError
from rowfall.core.events import Listener
from rowfall.core.listing import Listing, Split
from rowfall.core.load_record import PartSizes
from rowfall.core.model import Group, MergeWork, Plan, Schema, Transport
from rowfall.core.options import Options
from rowfall.core.results import Leftover, Link, Undone, Verification
from rowfall.core.tuned import Cell
from rowfall.destinations.options_check import check_options
from rowfall.destinations.questions import about_load
from rowfall.engines.base import ExistingTable
from rowfall.targets.base import Target

# Imported where it is used: an embedded engine opens meanwhile, 50 ms.
if TYPE_CHECKING:
    from rowfall.cluster.writer import Writer
    from rowfall.contracts.delivery import Delivery
    from rowfall.contracts.destination import LoadRun, Session
    from rowfall.contracts.facts import (
        ExportState,
        FirstFacts,
        LoadFacts,
        SourceColumns,
        TargetFacts,
    )
    from rowfall.contracts.load import Done, Finished, Settled
    from rowfall.engines.small_tables import SmallTables
    from rowfall.ledger import Ledger
    from rowfall.schema.table_changes import TargetColumns
    from rowfall.sources.cursor import CursorRows


def no_tables(target: Target) -> UsageError:
    """Return the error of a target that holds no tables of loads."""
    return UsageError(
        f"{target.text} keeps no tables", hint="Give a data folder or a server with --to."
    )


def nothing_kept(load_id: str) -> UsageError:
    """Return the error of a load that left nothing to compare."""
    return UsageError(
        f"load {load_id} kept no table to compare",
        hint="Only loads into a table can be verified afterwards.",
    )


def ledger_of(session: Session, load_id: str) -> Ledger:
    """Return the ledger that knows a load.

    Raises:
        UsageError: the target has none.
    """
    if session.ledger is None:
        raise nothing_kept(load_id)
    return session.ledger


class BaseDestination:
    """A destination whose ledger alone knows its loads, and where nothing is merged."""

    rows_become = ""
    replaces = False
    follows = True
    keeps = True
    continues = True
    takes_text = False
    runs_sql = False
    flushes = False
    makes_parts = builds_parts = shares_loads = False
    visible_when = ""
    """Text of a plan: what readers see while rows become visible."""
    offers: ClassVar[frozenset[str]] = frozenset()

    def check(self, target: Target, options: Options) -> None:
        check_options(target, options, self.offers)

    def open(self, request: OpenRequest) -> Opened:
        return Opened()

    def refusal(self, session: Session) -> TargetError | None:
        return None

    def key(self, session: Session, load_id: str) -> str:
        return session.target_key

    def has_unknown_attempts(self, session: Session, load_id: str) -> bool:
        return False

    def settle_again(self, load: LoadRun, known: frozenset[str]) -> Settled | None:
        return None

    def verify_loaded(self, load: LoadRun, facts: LoadFacts, plan: Plan, done: Done) -> None:
        """Read everything again, where ``--verify`` asks for it."""
        if load.session.options.verify:
            self.verified(load)

    def verified(self, load: LoadRun) -> Verification:
        """Compare what the target holds now with the source.

        Raises:
            VerifyError: they differ.
        """
        found = self.verify(load.session, load.id)
        if not found.ok:
            raise VerifyError(
                f"source and target differ: {found.source_rows:,} rows and {found.target_rows:,}",
                hint=f"It says which files: {about_load(load.session, 'verify', load.id[:8])}",
            )
        return found

    def verify(self, session: Session, load_id: str) -> Verification:
        raise nothing_kept(load_id)

    def query(self, target: Target, query: Query) -> None:
        raise UsageError(f"{target.text} has no tables to query")

    def tables_query(self, target: Target) -> str | None:
        return None

    def clean(self, target: Target, *, dry: bool, emit: Listener) -> list[Leftover]:
        raise no_tables(target)

    def forget(self, target: Target, load_id: str, options: Options) -> int:
        raise no_tables(target)

    def forget_attempt(self, target: Target, attempt: str) -> int:
        raise no_tables(target)

    def undo(self, target: Target, asked: Undo) -> Undone:
        raise UsageError(
            f"what a load has brought into {target.text} cannot be taken out again",
            hint="Tables of ClickHouse, PostgreSQL, MySQL and MariaDB can give rows back; others "
            "are loaded anew with --replace.",
        )

    def named(self, session: Session) -> tuple[str, str]:
        return session.target.text, session.table_text

    def adopts(self, target: Target) -> bool:
        return False

    def table_exists(self, session: Session) -> bool:
        return False

    def accept(self, session: Session, ledger: Ledger, load_id: str) -> None:
        raise no_tables(session.target)

    def record_adopted(
        self, session: Session, ledger: Ledger, attempt: str, splits: Sequence[Split]
    ) -> None:
        raise no_tables(session.target)

    def join_record(self, session: Session) -> None:
        """Do nothing: see the destinations that have something to join."""

    def prune_record(self, session: Session, days: int) -> None:
        """Do nothing: the record is kept for ever."""

    def loaded_among(self, session: Session, ids: Sequence[str]) -> set[str]:
        return self.loaded_ids(session).intersection(ids)

    def loaded_ids(self, session: Session) -> set[str]:
        return set()

    def stored_rows(self, session: Session, wanted: CursorRows) -> Iterable[Sequence[Any]] | None:
        return None

    def contradiction(self, session: Session) -> LedgerError | None:
        return None

    def is_older(self, session: Session) -> bool:
        return False

    def stored_columns(self, session: Session, table: str | None) -> TargetColumns:
        from rowfall.schema.table_changes import TargetColumns

        return TargetColumns(json_type=False)

    def options_here(self, session: Session) -> Options:
        return session.options

    def survey(
        self, session: Session, listed: ExistingTable | None, found: SourceColumns, *,
        thorough: bool,
    ) -> tuple[Schema, TargetFacts]:  # fmt: skip
        from rowfall.contracts.facts import TargetFacts

        return found.schema, TargetFacts(session.first_target.table)

    def export(
        self, session: Session, listing: Listing, schema: Schema, load_id: str
    ) -> ExportState | None:
        return None

    def cut(
        self, facts: LoadFacts, options: Options, cores: int, todo: Sequence[int]
    ) -> tuple[Group, ...] | None:
        return None

    def lanes(self, facts: LoadFacts, options: Options, cores: int, busy: int) -> int:
        return 1

    def connections(self, facts: FirstFacts, options: Options) -> int | None:
        return None

    def adapt_transport(
        self, facts: LoadFacts, options: Options, transport: Transport
    ) -> Transport:
        return transport

    def visibility(self, facts: LoadFacts, transport: Transport, options: Options) -> str:
        return self.visible_when

    def ddl(self, facts: LoadFacts) -> str:
        """Return the target as it is going to be made, where it has a table."""
        if facts.schema.exists or not facts.target.table:
            return ""
        return ";\n".join(map(str, facts.target.create(facts.schema)))

    def example(
        self, facts: LoadFacts, options: Options, transport: Transport, splits: Sequence[Split]
    ) -> str:
        return ""

    def cells(self, facts: LoadFacts, plan: Plan, options: Options, rows: int) -> list[Cell]:
        """Offer threads: what an engine here reads, and how many files are written at once."""
        from rowfall.plan.tuning import of_threads

        return of_threads(facts, options)

    def gauge(self, session: Session, writer: Writer) -> Gauge | None:
        return None

    def make_scratch(self, session: Session, like: str) -> None:
        """Do nothing: the load makes what it needs."""

    def erase(self, session: Session) -> None:
        """Do nothing: what lies in a folder of its own is removed with it."""

    def network(self, session: Session) -> Sequence[Link]:
        return ()

    def merging(self, session: Session) -> Link | None:
        return None

    def engine_times(self, session: Session, load_id: str) -> Mapping[str, float] | None:
        return None

    def join_loads(self, session: Session, ledger: Ledger, load_id: str, older: str) -> bool:
        """Join them in the ledger, whose ranges of streams are all that is known."""
        return ledger.join_load(load_id, older, session.target_key, ranges=True)

    def record_place(self, session: Session) -> int:
        return 0

    def loaded_by(
        self, session: Session, loads: Sequence[str], behind: int
    ) -> Mapping[str, tuple[int, int]]:
        return {}

    def small_tables(self, session: Session) -> SmallTables | None:
        return None

    def beside(self, target: Target) -> AbstractContextManager[SmallTables | None]:
        return nullcontext()

    def merge_work(self, session: Session) -> tuple[int, MergeWork | None]:
        return 0, None

    def part_sizes(self, session: Session) -> PartSizes | None:
        return None


class BasePrepared:
    """A load that has nothing to renew, and nothing that waits for its end."""

    def __init__(self, load: LoadRun) -> None:
        self._load = load

    def pull(self, plan: Plan) -> Done | None:
        return None

    def delivery(self, session: Session, facts: LoadFacts, plan: Plan, writer: Writer) -> Delivery:
        from rowfall.deliver.route import open_delivery

        return open_delivery(session, facts, plan, writer)

    def leased(self) -> AbstractContextManager[None]:
        return nullcontext()

    def cause(self, error: RowfallError) -> RowfallError:
        return error

    def end_dead(self) -> None:
        """Do nothing: nobody else leaves anything."""

    def finish(self, plan: Plan, done: Done) -> Finished:
        from rowfall.contracts.load import Finished

        return Finished(problem=done.problem)
