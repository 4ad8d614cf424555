"""Every kind of target has a receiver; a file becomes visible under its name when it is whole."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowfall.core.errors import EngineError, RowfallError, SourceError, TargetError
from rowfall.core.events import silent
from rowfall.core.model import Outcome
from rowfall.engines.database import Committing
from rowfall.publish.receiver import (
    CountError,
    Delivered,
    Notes,
    Receiving,
    Revivals,
    TableWriter,
    open_receiver,
)
from rowfall.publish.recover import end_open_attempts
from rowfall.targets.base import Caps, Publish


def given(kind: Publish, tmp_path: Path, **more: Any) -> Receiving:
    notes = Notes(lambda event: None)
    target: Any = SimpleNamespace(
        caps=SimpleNamespace(publish=kind), table="t",
        staging_name=lambda attempt, number, encoding: str(tmp_path / f"part_{number}.csv"),
    )  # fmt: skip
    plan: Any = SimpleNamespace(encoding=None, schema=SimpleNamespace(filters=False))
    engine: Any = SimpleNamespace(ask=lambda text, lane=0: [[more.pop("failed", 0)]])
    ledger: Any = SimpleNamespace(attempts_into=lambda staging: more.get("attempts", 1))
    leases: Any = None
    database: Any = SimpleNamespace()
    if kind is Publish.COMMIT:
        names = [name for name in vars(Committing) if not name.startswith("_")]
        database = SimpleNamespace(**dict.fromkeys(names, len))
    writer: Any = SimpleNamespace(writer=SimpleNamespace(shard=0), staging=None)
    writers: tuple[TableWriter, ...] = (writer,) if kind is Publish.ATTACH else ()
    return Receiving(
        engine, target, ledger, leases, "key", plan, more.get("overwrite", False), notes,
        Revivals(notes), threading.Event(), None, writers, database=database,
    )  # fmt: skip


def delivered(staging: Path) -> Delivered:
    return Delivered("a_1", str(staging), 3, (), None, Outcome(rows_read=2, rows_written=2), False)


@pytest.mark.parametrize("kind", list(Publish))
def test_every_kind_of_target_has_a_receiver(kind: Publish, tmp_path: Path) -> None:
    assert open_receiver(given(kind, tmp_path)).in_background is (kind is Publish.ATTACH)


@pytest.mark.parametrize("kind", [Publish.RENAME, Publish.AT_ONCE, Publish.NONE])
def test_a_committed_attempt_without_tables_is_written_again(kind: Publish) -> None:
    found: list[str] = []
    attempt: Any = SimpleNamespace(id="a_1", state="loaded", gathers=False, staging="x")
    ledger: Any = SimpleNamespace(
        open_attempts=lambda: [attempt],
        attempt_ended=lambda attempt_id, state, why: found.append(f"{attempt_id} {state}"),
    )
    target: Any = SimpleNamespace(caps=Caps(kind, ""), table="")
    engine: Any = None  # it is not asked
    end_open_attempts(engine, ledger, target, silent)
    assert found == ["a_1 lost"]


def test_a_file_gets_its_name_when_it_is_published(tmp_path: Path) -> None:
    receiver = open_receiver(given(Publish.RENAME, tmp_path))
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
    receiver = open_receiver(given(Publish.RENAME, tmp_path, failed=1))
    with pytest.raises(TargetError, match="the disk is full"):
        receiver.count(delivered(tmp_path / "staged"), checksum=False)


@pytest.mark.parametrize(
    ("attempts", "overwrite", "own"), [(1, False, 0), (2, False, 1), (1, True, 1)]
)
def test_an_object_is_overwritten_only_where_it_is_our_own(
    tmp_path: Path, attempts: int, overwrite: bool, own: int
) -> None:
    receiver = open_receiver(
        given(Publish.AT_ONCE, tmp_path, attempts=attempts, overwrite=overwrite)
    )
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
