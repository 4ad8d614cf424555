"""Every kind of target has a receiver; a file becomes visible under its name when it is whole."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from rowfall.contracts.destination import Destination
from rowfall.contracts.receiver import CountError, Notes, Revivals, StagedAttempt
from rowfall.core.errors import EngineError, RowfallError, SourceError, TargetError
from rowfall.core.events import silent
from rowfall.core.model import Outcome, Statement
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText, quote
from rowfall.destinations import open_destination
from rowfall.engines.base import Engine
from rowfall.ledger import Ledger
from rowfall.publish.files import FileReceiver, ObjectReceiver, end_open_files
from rowfall.targets import open_target
from rowfall.targets.base import Publish
from unit.small_load import small_load


class Mortal:
    """Counts how often an engine is revived; nothing else of one is asked for."""

    def __init__(self) -> None:
        self.revived = 0

    def revive(self) -> None:
        self.revived += 1

    @property
    def engine(self) -> Engine:
        return cast("Engine", self)


def delivered(staging: Path) -> StagedAttempt:
    return StagedAttempt(
        "a_1", str(staging), 3, (), None, Outcome(rows_read=2, rows_written=2), False
    )


TARGETS = {
    "folder": Publish.ATTACH_ALONE,
    "clickhouse://h/d": Publish.ATTACH,
    "postgresql://h/d": Publish.TRANSACTION,
    "kafka://h/t": Publish.MESSAGES,
    "iceberg+lake": Publish.COMMIT,
    "out.csv": Publish.RENAME,
    "s3://bucket/out.csv": Publish.AT_ONCE,
    "null:": Publish.NONE,
}


# A stream of Arrow has no address: rowfall.read opens it.
@pytest.mark.parametrize("kind", [kind for kind in Publish if kind is not Publish.STREAM])
def test_every_kind_of_target_has_a_destination(kind: Publish) -> None:
    (address,) = (text for text, own in TARGETS.items() if own is kind)
    target = open_target(address, "t", Options(s3_anonymous=True))
    assert target.caps.publish is kind
    destination = open_destination(target)
    for name in (name for name in vars(Destination) if not name.startswith("_")):
        found = getattr(destination, name)
        assert callable(found) or isinstance(found, bool), name


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
    with small_load(tmp_path, "part_{n}.csv") as given:
        receiver = FileReceiver(given, None)
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
    with small_load(tmp_path, "part_{n}.csv") as given:
        receiver, attempt = FileReceiver(given, None), delivered(tmp_path / "staged")
        assert receiver.count(attempt, checksum=False).rows == 2
        into = quote("/dev/full")
        with suppress(EngineError):  # ends well or not, by the size of its buffers
            given.writer.engine.run(Statement(SqlText.of(
                f"INSERT INTO FUNCTION file({into}, 'CSV', 'a UInt64') "
                "SELECT number FROM numbers(1000000)"
            )))  # fmt: skip
        with pytest.raises(TargetError, match="the disk is full"):
            receiver.count(attempt, checksum=False)


@pytest.mark.parametrize(
    ("attempts", "overwrite", "own"), [(1, False, 0), (2, False, 1), (1, True, 1)]
)
def test_an_object_is_overwritten_only_where_it_is_our_own(
    tmp_path: Path, attempts: int, overwrite: bool, own: int
) -> None:
    with small_load(tmp_path, "part_{n}.csv", replace=overwrite) as given:
        load = given.load
        for number in range(attempts):
            load.ledger.attempt_started(
                f"{load.id}_{number}", load.id, "s3://bucket/o", load.key, ()
            )
        receiver = ObjectReceiver(given, None)
        assert receiver.settings("s3://bucket/o") == {"s3_truncate_on_insert": own}


def test_an_engine_is_revived_a_few_times_in_a_row() -> None:
    notes, engine = Notes(silent), Mortal()
    revivals = Revivals(notes)
    lost = EngineError("the connection was lost", transient=True)
    for _ in range(2):
        revivals.revive(lost, engine.engine)
    with pytest.raises(EngineError):
        revivals.revive(lost, engine.engine)
    revivals.worked()
    revivals.revive(lost, engine.engine)
    assert engine.revived == 3
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
    engine = Mortal()
    Revivals(Notes(silent)).revive(error, engine.engine)
    assert engine.revived == 0
