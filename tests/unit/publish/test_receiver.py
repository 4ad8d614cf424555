"""Every kind of target has a receiver; a file becomes visible under its name when it is whole."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowfall.contracts.destination import Destination, Receiving
from rowfall.contracts.load import LoadRun
from rowfall.contracts.receiver import CountError, Delivered, Notes, Revivals
from rowfall.contracts.session import Writer
from rowfall.core.errors import EngineError, RowfallError, SourceError, TargetError
from rowfall.core.events import silent
from rowfall.core.model import Column, Outcome, Schema
from rowfall.core.options import Options
from rowfall.destinations import open_destination
from rowfall.ledger import Ledger
from rowfall.publish.files import FileReceiver, ObjectReceiver, end_open_files
from rowfall.targets import open_target
from rowfall.targets.base import Caps, Publish


def given(tmp_path: Path, **more: Any) -> Receiving:
    """What the receiver of an export is made of; ``more``: attempts, overwrite, failed writes."""
    notes = Notes(silent)
    target = open_target(str(tmp_path / "part_{n}.csv"), "t", Options())
    ledger: Any = SimpleNamespace(attempts_into=lambda staging: more.get("attempts", 1))
    engine: Any = SimpleNamespace(ask=lambda text, lane=0: [[more.pop("failed", 0)]])
    session: Any = SimpleNamespace(options=Options(replace=more.get("overwrite", False)))
    plan: Any = SimpleNamespace(encoding=None, schema=Schema((Column("a", "Int64"),)))
    load = LoadRun(session, "a", silent, "", ledger, "key", "", new=True)
    writer = Writer(0, "", engine, target)
    return Receiving(load, plan, writer, notes, Revivals(notes), threading.Event())


def delivered(staging: Path) -> Delivered:
    return Delivered("a_1", str(staging), 3, (), None, Outcome(rows_read=2, rows_written=2), False)


@pytest.mark.parametrize("kind", list(Publish))
def test_every_kind_of_target_has_a_destination(kind: Publish) -> None:
    target: Any = SimpleNamespace(caps=Caps(kind, ""))
    destination = open_destination(target)
    for name in (name for name in vars(Destination) if not name.startswith("_")):
        assert callable(getattr(destination, name)), name


def test_a_committed_attempt_without_tables_is_written_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.begin("a", "print", "source", "target", "key", "{}")
    for number, loaded in enumerate((True, False)):
        ledger.attempt_started(f"a_{number}", "a", "x", "key", ())
        if loaded:
            ledger.attempt_committed(f"a_{number}", 3, ())
    end_open_files(ledger)
    assert [ledger.attempt_state(f"a_{number}") for number in (0, 1)] == ["lost", "lost"]
    ledger.close()


def test_a_file_gets_its_name_when_it_is_published(tmp_path: Path) -> None:
    receiver = FileReceiver(given(tmp_path), None)
    staged = tmp_path / "staged"
    staged.write_text("1\n2\n")
    attempt = delivered(staged)
    counted = receiver.count(attempt, checksum=False)
    assert counted.rows == 2
    assert receiver.publish(attempt, counted) == 4
    assert (tmp_path / "part_3.csv").read_text() == "1\n2\n"
    assert not staged.exists()
    receiver.discard(str(staged))  # harmless
    assert receiver.publish(attempt, counted) == 0  # no rows, no file


def test_a_full_disk_is_noticed_before_a_file_is_published(tmp_path: Path) -> None:
    receiver = FileReceiver(given(tmp_path, failed=1), None)
    with pytest.raises(TargetError, match="the disk is full"):
        receiver.count(delivered(tmp_path / "staged"), checksum=False)


@pytest.mark.parametrize(
    ("attempts", "overwrite", "own"), [(1, False, 0), (2, False, 1), (1, True, 1)]
)
def test_an_object_is_overwritten_only_where_it_is_our_own(
    tmp_path: Path, attempts: int, overwrite: bool, own: int
) -> None:
    receiver = ObjectReceiver(given(tmp_path, attempts=attempts, overwrite=overwrite), None)
    assert receiver.settings("s3://b/o") == {"s3_truncate_on_insert": own}


def test_an_engine_is_revived_a_few_times_in_a_row() -> None:
    notes, revived = Notes(lambda event: None), []
    engine: Any = SimpleNamespace(revive=lambda: revived.append(1))
    revivals = Revivals(notes)
    lost = EngineError("the connection was lost", transient=True)
    for _ in range(2):
        revivals.revive(lost, engine)
    with pytest.raises(EngineError):
        revivals.revive(lost, engine)
    revivals.worked()
    revivals.revive(lost, engine)
    assert len(revived) == 3
    assert notes.texts == ["the connection was lost; starting again"] * 3


@pytest.mark.parametrize(
    "error",
    [
        CountError("2 rows were read and 1 were stored", transient=True),
        EngineError("memory", code=241, transient=True),
        EngineError("no such column"),
        SourceError("gone", transient=True),
    ],
)
def test_only_a_lost_engine_is_revived(error: RowfallError) -> None:
    engine: Any = SimpleNamespace(revive=lambda: pytest.fail("it was not lost"))
    Revivals(Notes(lambda event: None)).revive(error, engine)
