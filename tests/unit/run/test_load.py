"""However a load ends, the ledger says how: ``lost`` is for processes that were killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from rowfall.contracts.destination import Session
from rowfall.core import signals
from rowfall.core.errors import Interrupted, TargetError
from rowfall.core.results import Failure, Report
from rowfall.core.signals import stopped_by, terminable
from rowfall.ledger import Ledger, LoadRow
from rowfall.run import load
from rowfall.run.history import WatchedLoad, record
from unit.small_load import small_session

NO_RIGHT = TargetError("no right to make a table", hint="GRANT CREATE", code=497)


def last(session: Session) -> Report:
    """What ``rowfall status`` says of the newest load."""
    assert session.ledger is not None
    row = session.ledger.loads()[0]
    watched = WatchedLoad(session.ledger.path, row.id).now()
    assert watched is not None
    return watched.report


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def step(*_: Any, **__: Any) -> NoReturn:
        raise error

    return step


def stop(session: Session, phase: str, error: BaseException) -> Report:
    """Run a load that an error ends in a phase, and return what is said of it."""
    with pytest.MonkeyPatch.context() as patch:
        if phase == "plan":
            patch.setattr(load, "survey", raising(error))
        else:
            patch.setattr(type(session.destination), "prepare", raising(error))
        with pytest.raises(type(error)):
            load.run_load(session)
    return last(session)


@pytest.mark.parametrize("to", ["data", "out.csv", "t.duckdb"])
def test_a_load_that_is_stopped_before_its_first_attempt(tmp_path: Path, to: str) -> None:
    told = None
    with small_session(tmp_path, to) as session:
        for phase in ("plan", "prepare"):
            for stopped in (KeyboardInterrupt(), Interrupted("interrupted")):
                told = stop(session, phase, stopped)
                assert (told.outcome, told.failures) == ("interrupted", ())
            told = stop(session, phase, NO_RIGHT)
            assert told.outcome == "failed"
            why = Failure(session.source.text, NO_RIGHT.message, "GRANT CREATE", True, 497)
            assert told.failures == (why,)
            told = stop(session, phase, RuntimeError("at https://h/?token=hunter22"))
            assert told.outcome == "failed"
            assert told.failures[0].error.startswith("RuntimeError: at https://h/")
            assert "hunter22" not in told.failures[0].error
        done = load.run_load(session)
        assert told is not None
        assert (done.outcome, done.load_id) == ("done", told.load_id)
        assert last(session).outcome == "done"


def test_one_that_goes_on_keeps_the_figures_of_the_run_before(tmp_path: Path) -> None:
    with small_session(tmp_path, "data") as session:
        report = load.run_load(session)
        assert session.ledger is not None
        record(session.ledger, replace(report, outcome="partial"))
        told = stop(session, "plan", KeyboardInterrupt())
        assert told == replace(report, outcome="interrupted")


def test_a_signal_while_the_load_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, take_up = Ledger.begin, Ledger.take_up

    def begun(ledger: Ledger, *given: str) -> None:
        begin(ledger, *given)
        signal.raise_signal(signal.SIGHUP)

    def taken(ledger: Ledger, old: LoadRow, request: str) -> bool:
        taken_up = take_up(ledger, old, request)
        signal.raise_signal(signal.SIGINT)
        return taken_up

    monkeypatch.setattr(signals, "ends_with_load", False)
    # With nohup, which may have started the tests, SIGHUP ends nothing.
    monkeypatch.setattr(signals, "ending", lambda: [signal.SIGINT, signal.SIGHUP])
    monkeypatch.setattr(Ledger, "begin", begun)
    monkeypatch.setattr(Ledger, "take_up", taken)
    with small_session(tmp_path, "data") as session:
        for _ in range(2):
            with pytest.raises(Interrupted), terminable():
                load.run_load(session)
            assert last(session).outcome == "interrupted"
        monkeypatch.undo()
        assert load.run_load(session).outcome == "done"
        assert session.ledger is not None
        assert len(session.ledger.loads()) == 1


def test_one_of_many_tables_ends_before_it_is_prepared(tmp_path: Path) -> None:
    stopped = threading.Event()
    stopped.set()
    with small_session(tmp_path, "data") as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(session.destination), "prepare", raising(AssertionError()))
        with stopped_by(stopped), pytest.raises(KeyboardInterrupt):
            load.run_load(session)
        assert last(session).outcome == "interrupted"
