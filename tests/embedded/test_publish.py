"""Publishing by MOVE PARTITION, and what a crash in the middle of it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded.conftest import Run
from rowfall.engines.embedded import Embedded
from rowfall.errors import LedgerError
from rowfall.events import silent
from rowfall.ledger import Ledger, into_key
from rowfall.model import Column, Schema, Split, Statement
from rowfall.publish import Publisher
from rowfall.reconcile import reconcile
from rowfall.targets.table import EmbeddedTable

INTO = into_key("default", "t")
SCHEMA = Schema(
    (Column("x", "UInt32"), Column("p", "UInt8")), order_by="x", partition_by="p", partitions=4
)
SPLIT = Split("ab" * 16, "/data/a.csv", "1-1", 10)


@pytest.fixture
def target(folder: Path) -> EmbeddedTable:
    return EmbeddedTable(folder, "default", "t")


@pytest.fixture
def publisher(engine: Embedded, ledger: Ledger, target: EmbeddedTable) -> Publisher:
    for statement in target.create(SCHEMA):
        engine.run(Statement(statement))
    ledger.begin("load", "fp", "source", "target", INTO, "{}")
    ledger.add_splits("load", [SPLIT])
    return Publisher(engine, ledger, "default", "t")


def stage(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, run: Run, attempt: str = "load_1"
) -> str:
    """An attempt with 4 partitions of 2 parts each, 100 rows a part, recorded as started."""
    staging = target.staging_name(attempt, 0, None)
    ledger.attempt_started(attempt, "load", staging, [SPLIT])
    for statement in target.stage(staging, SCHEMA):
        engine.run(Statement(statement))
    for start in (0, 400):
        run(f"INSERT INTO {staging} SELECT number, number % 4 FROM numbers({start}, 400)")
    return staging


def totals(run: Run) -> tuple[int, int]:
    ((rows, total),) = run("SELECT count(), sum(x) FROM t")
    return int(rows), int(total)


ALL = (800, sum(range(800)))


def test_publish_moves_every_row_once(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged(staging, 5.0)
    assert (staged.rows, staged.parts, len(staged.moves)) == (800, 8, 4)
    ledger.attempt_loaded("load_1", staged.rows, staged.moves)
    publisher.publish("load_1", staging, staged.moves, INTO)
    assert totals(run) == ALL
    assert ledger.landed(INTO) == {SPLIT.id}
    assert ledger.open_attempts() == []


def test_staging_never_merges(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    for start in range(800, 8000, 400):
        run(f"INSERT INTO {staging} SELECT number, number % 4 FROM numbers({start}, 400)")
    assert run(f"SELECT max(level), count() FROM system.parts WHERE table = '{staging}'") == [
        ["0", "80"]
    ]


def test_started_attempt_is_dropped_and_forgotten(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    reconcile(engine, ledger, target, silent)
    assert totals(run) == (0, 0)
    assert run(f"EXISTS TABLE {staging}") == [["0"]]
    assert ledger.attempt_state("load_1") == "lost"
    assert ledger.landed(INTO) == set()


@pytest.mark.parametrize("done", [0, 1, 3, 4])
def test_loaded_attempt_goes_on_where_it_stopped(
    engine: Embedded,
    ledger: Ledger,
    target: EmbeddedTable,
    publisher: Publisher,
    run: Run,
    done: int,
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged(staging, 5.0)
    ledger.attempt_loaded("load_1", staged.rows, staged.moves)
    for move in staged.moves[:done]:
        run(f"ALTER TABLE {staging} MOVE PARTITION ID '{move.partition_id}' TO TABLE t")
    reconcile(engine, ledger, target, silent)
    assert totals(run) == ALL
    assert ledger.landed(INTO) == {SPLIT.id}
    assert run(f"EXISTS TABLE {staging}") == [["0"]]


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("copied", ["all", "one part"])
def test_parts_in_both_tables_are_told_apart(
    engine: Embedded,
    ledger: Ledger,
    target: EmbeddedTable,
    publisher: Publisher,
    run: Run,
    copied: str,
    merged: bool,
) -> None:
    """A server killed inside MOVE leaves parts in both: ATTACH ... FROM makes the same state."""
    run("INSERT INTO t SELECT number + 10000, 0 FROM numbers(7)")
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged(staging, 5.0)
    ledger.attempt_loaded("load_1", staged.rows, staged.moves)
    if copied == "all":
        run(f"ALTER TABLE t ATTACH PARTITION ID '0' FROM {staging}")
    else:
        # One part of the two: the other goes aside while the partition is copied.
        ((name,),) = run(
            f"SELECT max(name) FROM system.parts WHERE table = '{staging}' AND active "
            "AND partition_id = '0' AND rows > 0"
        )
        run(f"ALTER TABLE {staging} DETACH PART '{name}'")
        run(f"ALTER TABLE t ATTACH PARTITION ID '0' FROM {staging}")
        run(f"ALTER TABLE {staging} ATTACH PART '{name}'")
    if merged:
        run("OPTIMIZE TABLE t PARTITION ID '0' FINAL")
    reconcile(engine, ledger, target, silent)
    extra = sum(range(10000, 10007))
    assert totals(run) == (ALL[0] + 7, ALL[1] + extra)


def test_equal_rows_of_an_earlier_load_are_not_mistaken_for_this_one(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    """Parts of equal rows have equal hashes; only block numbers after the intent count."""
    first = stage(engine, ledger, target, run)
    staged = publisher.staged(first, 5.0)
    ledger.attempt_loaded("load_1", staged.rows, staged.moves)
    publisher.publish("load_1", first, staged.moves, INTO)
    second = stage(engine, ledger, target, run, "load_2")
    again = publisher.staged(second, 5.0)
    ledger.attempt_loaded("load_2", again.rows, again.moves)
    reconcile(engine, ledger, target, silent)
    assert totals(run) == (2 * ALL[0], 2 * ALL[1])


def test_foreign_change_that_hides_the_evidence_is_refused(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged(staging, 5.0)
    ledger.attempt_loaded("load_1", staged.rows, staged.moves)
    run(f"ALTER TABLE t ATTACH PARTITION ID '0' FROM {staging}")
    run("INSERT INTO t SELECT number, 0 FROM numbers(13)")
    run("OPTIMIZE TABLE t PARTITION ID '0' FINAL")
    # Outdated parts are what tells; a table without them has only row counts, which disagree.
    run("ALTER TABLE t MODIFY SETTING old_parts_lifetime = 0")
    run(f"ALTER TABLE {staging} DROP PARTITION ID '1'")
    run("DETACH TABLE t")
    run("ATTACH TABLE t")
    with pytest.raises(LedgerError, match="was changed"):
        reconcile(engine, ledger, target, silent)


def test_dropped_target_loses_the_attempt_only(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged(staging, 5.0)
    ledger.attempt_loaded("load_1", staged.rows, staged.moves)
    run("DROP TABLE t SYNC")
    reconcile(engine, ledger, target, silent)
    assert ledger.attempt_state("load_1") == "lost"
    assert run(f"EXISTS TABLE {staging}") == [["0"]]


def test_many_small_parts_are_merged_before_they_are_moved(
    engine: Embedded, ledger: Ledger, target: EmbeddedTable, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    for start in range(100_000, 140_000, 400):
        run(f"INSERT INTO {staging} SELECT number, number % 4 FROM numbers({start}, 400)")
    staged = publisher.staged(staging, 5.0)
    assert staged.parts == 408
    left = run(
        f"SELECT count() FROM system.parts WHERE table = '{staging}' AND active AND rows > 0"
    )
    assert left == [["4"]]
    assert staged.rows == 40_800
