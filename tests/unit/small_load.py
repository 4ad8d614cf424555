"""A real small load for unit tests: a file, its target, a ledger, the engine of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rowfall.contracts.destination import ReceiverInputs, Session
from rowfall.contracts.receiver import Notes, Revivals
from rowfall.core.events import Listener, silent
from rowfall.core.options import Options
from rowfall.plan.planner import make_plan
from rowfall.plan.survey import survey
from rowfall.run.load import open_load
from rowfall.run.session import Request, open_session


@contextmanager
def small_session(
    folder: Path, to: str, *, emit: Listener = silent, **options: Any
) -> Iterator[Session]:
    """Open a load of two rows into ``to``, which is below ``folder`` or an address."""
    source = folder / "small.csv"
    source.write_text("a\n1\n2\n")
    target = to if "://" in to else str(folder / to)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROWFALL_HOME", str(folder / "state"))  # the ledger of files
        asked = Options(**options)
        request = Request(str(source), target, None, asked)
        with open_session(request, emit, dry=False) as session:
            yield session


@contextmanager
def small_load(folder: Path, to: str, **options: Any) -> Iterator[ReceiverInputs]:
    """Bring a load as far as its plan, and return what its receiver is made of."""
    with small_session(folder, to, **options) as session, open_load(session) as load:
        settled = session.destination.settle(load)
        facts = survey(session, settled.known, settled.table, load_id=load.id)
        plan = make_plan(facts, session.options)
        notes = Notes(silent)
        yield ReceiverInputs(
            load, plan, session.writers[0], notes, Revivals(notes), threading.Event()
        )
