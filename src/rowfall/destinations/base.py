"""What destinations without tables of ClickHouse have in common."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from rowfall.contracts.destination import Opened, Opening
from rowfall.contracts.facts import LoadFacts
from rowfall.contracts.load import Done, Finished, LoadRun, Settled
from rowfall.contracts.session import Session
from rowfall.core.errors import RowfallError, TargetError, VerifyError
from rowfall.core.model import MergeWork, Plan
from rowfall.core.options import Options
from rowfall.core.results import Verification
from rowfall.destinations.options_check import check_options
from rowfall.targets.base import Target


class BaseDestination:
    """A destination whose ledger alone knows its loads, and where nothing is merged."""

    writes = ""
    offers: ClassVar[frozenset[str]] = frozenset()

    def check(self, target: Target, options: Options) -> None:
        check_options(target, options, self.offers)

    def open(self, opening: Opening) -> Opened:
        return Opened()

    def refusal(self, session: Session) -> TargetError | None:
        return None

    def key(self, session: Session, load_id: str) -> str:
        return session.target_key

    def knows_more(self, session: Session, load_id: str) -> bool:
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
        from rowfall.destinations.verify import verify_table

        found = verify_table(load.session, load.id)
        if not found.ok:
            raise VerifyError(
                f"source and target differ: {found.source_rows:,} rows and {found.target_rows:,}",
                hint=f"rowfall verify {load.id[:8]} says which files.",
            )
        return found

    def merge_work(self, session: Session) -> tuple[int, MergeWork | None]:
        return 0, None


class BasePrepared:
    """A load that has nothing to renew, and nothing that waits for its end."""

    def leased(self) -> AbstractContextManager[None]:
        return nullcontext()

    def cause(self, error: RowfallError) -> RowfallError:
        return error

    def finish(self, plan: Plan, done: Done) -> Finished:
        return Finished(problem=done.problem)
