"""Publishing by ATTACH PARTITION, and what a crash in the middle of it leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded.conftest import Run
from lab.process import wait_until
from rowfall.core.errors import LedgerError
from rowfall.core.events import silent
from rowfall.core.listing import Split
from rowfall.core.model import Column, Schema, StagingPair, Statement, TableLayout
from rowfall.engines.base import table_uuid
from rowfall.ledger import Ledger, target_key
from rowfall.publish.attach import Publisher
from rowfall.publish.recover import end_open_attempts
from rowfall.systems.clickhouse import staging as twin
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.target import Table, embedded

INTO = target_key("default", "t")
SCHEMA = Schema(
    (Column("x", "UInt32"), Column("p", "UInt8")),
    layout=TableLayout(order_by="x", partition_by="p", partitions=4),
)
SPLIT = Split("ab" * 16, "/data/a.csv", "1-1", 10)


@pytest.fixture
def target(folder: Path) -> Table:
    return embedded(folder, "default", "t")


@pytest.fixture
def publisher(engine: Embedded, ledger: Ledger, target: Table) -> Publisher:
    for statement in target.create(SCHEMA):
        engine.run(Statement(statement))
    ledger.begin("load", "fp", "source", "target", INTO, "{}")
    ledger.add_splits("load", [SPLIT])
    return Publisher(engine, ledger)


def stage(
    engine: Embedded, ledger: Ledger, target: Table, run: Run, attempt: str = "load_1"
) -> str:
    """An attempt with 4 partitions of 2 parts each, 100 rows a part, recorded as started."""
    staging = target.staging_name(attempt, 0, None)
    ledger.attempt_started(attempt, "load", staging, INTO, [SPLIT])
    facts = twin.facts(lambda text: engine.ask(text), "default", "t")
    assert facts is not None
    for statement in twin.clone(facts, staging):
        engine.run(Statement(statement))
    for start in (0, 400):
        run(f"INSERT INTO {staging} SELECT number, number % 4 FROM numbers({start}, 400)")
    return staging


def pair(staging: str) -> StagingPair:
    return StagingPair("default", "t", staging)


def totals(run: Run) -> tuple[int, int]:
    ((rows, total),) = run("SELECT count(), sum(x) FROM t")
    return int(rows), int(total)


ALL = (800, sum(range(800)))


def test_publish_shows_every_row_once(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged([pair(staging)], 5.0)
    assert (staged.rows, staged.parts, len(staged.moves)) == (800, 8, 4)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    publisher.publish("load_1", staged.moves)
    ledger.attempt_published("load_1", INTO)
    assert totals(run) == ALL
    assert ledger.loaded(INTO) == {SPLIT.id}
    assert ledger.open_attempts() == []


def test_staging_never_merges(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    for start in range(800, 8000, 400):
        run(f"INSERT INTO {staging} SELECT number, number % 4 FROM numbers({start}, 400)")
    assert run(f"SELECT max(level), count() FROM system.parts WHERE table = '{staging}'") == [
        ["0", "80"]
    ]


def test_started_attempt_is_dropped_and_forgotten(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    end_open_attempts(engine, ledger, silent)
    assert totals(run) == (0, 0)
    assert run(f"EXISTS TABLE {staging}") == [["0"]]
    assert ledger.attempt_state("load_1") == "lost"
    assert ledger.loaded(INTO) == set()


def test_loaded_attempt_is_attached_on_the_next_run(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged([pair(staging)], 5.0)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    end_open_attempts(engine, ledger, silent)
    assert totals(run) == ALL
    assert ledger.loaded(INTO) == {SPLIT.id}
    assert run(f"EXISTS TABLE {staging}") == [["0"]]


def attach(run: Run, staging: str, parts: list[str]) -> None:
    """What a server killed inside ATTACH leaves: some parts of staging are in the target, too."""
    aside = [
        name
        for (name,) in run(
            f"SELECT name FROM system.parts WHERE table = '{staging}' AND active AND rows > 0"
        )
        if name not in parts
    ]
    for name in aside:
        run(f"ALTER TABLE {staging} DETACH PART '{name}'")
    run(f"ALTER TABLE t ATTACH PARTITION ALL FROM {staging}")
    for name in aside:
        run(f"ALTER TABLE {staging} ATTACH PART '{name}'")


@pytest.mark.parametrize("then", ["", "merged", "merged and cleared", "written to", "both"])
@pytest.mark.parametrize("copied", [0, 1, 3, 8])
@pytest.mark.sampled(2)
def test_parts_in_both_tables_are_told_apart(
    engine: Embedded,
    ledger: Ledger,
    target: Table,
    publisher: Publisher,
    run: Run,
    copied: int,
    then: str,
) -> None:
    extra = 7
    run("INSERT INTO t SELECT number + 10000, 0 FROM numbers(7)")
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged([pair(staging)], 5.0)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    names = run(
        f"SELECT name FROM system.parts WHERE table = '{staging}' AND active AND rows > 0 "
        "ORDER BY partition_id, name"
    )
    attach(run, staging, [name for (name,) in names[:copied]])
    if then in ("written to", "both"):
        run("INSERT INTO t SELECT number + 10000, 0 FROM numbers(7, 13)")
        extra += 13
    if then in ("merged", "merged and cleared", "both"):
        run("OPTIMIZE TABLE t FINAL")
    if then == "merged and cleared":
        run("ALTER TABLE t MODIFY SETTING old_parts_lifetime = 0")
        run("DETACH TABLE t")
        run("ATTACH TABLE t")
    end_open_attempts(engine, ledger, silent)
    assert totals(run) == (ALL[0] + extra, ALL[1] + sum(range(10000, 10000 + extra)))
    assert run(f"EXISTS TABLE {staging}") == [["0"]]


def test_equal_rows_of_an_earlier_load_are_not_mistaken_for_this_one(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    first = stage(engine, ledger, target, run)
    staged = publisher.staged([pair(first)], 5.0)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    publisher.publish("load_1", staged.moves)
    ledger.attempt_published("load_1", INTO)
    second = stage(engine, ledger, target, run, "load_2")
    again = publisher.staged([pair(second)], 5.0)
    ledger.attempt_committed("load_2", again.rows, again.moves)
    end_open_attempts(engine, ledger, silent)
    assert totals(run) == (2 * ALL[0], 2 * ALL[1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", [0, 800], ids=["the same keys", "other keys"])
def test_rows_that_were_united_with_others_are_not_taken_for_missing(
    engine: Embedded, ledger: Ledger, target: Table, run: Run, first: int
) -> None:
    """With the same keys no partition gains a row, as if nothing had been attached."""
    run(
        "CREATE TABLE t (x UInt32, p UInt8) ENGINE = ReplacingMergeTree ORDER BY x PARTITION BY p "
        "SETTINGS old_parts_lifetime = 0, cleanup_delay_period = 0, max_cleanup_delay_period = 1, "
        "cleanup_delay_period_random_add = 0"
    )
    ledger.begin("load", "fp", "source", "target", INTO, "{}")
    ledger.add_splits("load", [SPLIT])
    run(f"INSERT INTO t SELECT {first} + number, number % 4 FROM numbers(800)")
    staging = stage(engine, ledger, target, run)
    staged = Publisher(engine, ledger).staged([pair(staging)], 5.0, [staging])
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    run(f"ALTER TABLE t ATTACH PARTITION ALL FROM {staging}")
    run("OPTIMIZE TABLE t FINAL")
    wait_until(
        lambda: run("SELECT count() FROM system.parts WHERE table = 't' AND NOT active") == [["0"]],
        60,
        "the outdated parts have gone",
    )
    if first:
        end_open_attempts(engine, ledger, silent)
        assert totals(run) == (1600, sum(range(1600)))
        return
    with pytest.raises(LedgerError, match=": 0 rows were added, 0 or 200 expected"):
        end_open_attempts(engine, ledger, silent)


@pytest.mark.long
def test_foreign_change_that_hides_the_evidence_is_refused(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged([pair(staging)], 5.0)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    run(f"ALTER TABLE t ATTACH PARTITION ID '0' FROM {staging}")
    run("INSERT INTO t SELECT number, 0 FROM numbers(13)")
    # Outdated parts are what tells; a table without them has only row counts, which disagree.
    run(
        "ALTER TABLE t MODIFY SETTING old_parts_lifetime = 0, cleanup_delay_period = 0, "
        "max_cleanup_delay_period = 1"
    )
    # Attached again it cleans up by these settings at once, and not after the 30 s of the old ones.
    run("DETACH TABLE t")
    run("ATTACH TABLE t")
    run("OPTIMIZE TABLE t PARTITION ID '0' FINAL")
    wait_until(
        lambda: run("SELECT count() FROM system.parts WHERE table = 't' AND NOT active") == [["0"]],
        60,
        "the outdated parts have gone",
    )
    with pytest.raises(LedgerError, match="was changed"):
        end_open_attempts(engine, ledger, silent)


def test_dropped_target_loses_the_attempt_only(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    staged = publisher.staged([pair(staging)], 5.0)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    run("DROP TABLE t SYNC")
    end_open_attempts(engine, ledger, silent)
    assert ledger.attempt_state("load_1") == "lost"
    assert run(f"EXISTS TABLE {staging}") == [["0"]]


def test_a_target_made_anew_gets_nothing_of_the_attempt(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    """The next run loads all files into the new table: these rows would be there twice."""
    staging = stage(engine, ledger, target, run)
    ledger.set_table(INTO, table_uuid(engine, "default", "t"))
    staged = publisher.staged([pair(staging)], 5.0)
    ledger.attempt_committed("load_1", staged.rows, staged.moves)
    run("DROP TABLE t SYNC")
    for statement in target.create(SCHEMA):
        engine.run(Statement(statement))
    end_open_attempts(engine, ledger, silent)
    assert totals(run) == (0, 0)
    assert ledger.attempt_state("load_1") == "lost"
    assert run(f"EXISTS TABLE {staging}") == [["0"]]


def test_many_small_parts_are_merged_before_they_are_attached(
    engine: Embedded, ledger: Ledger, target: Table, publisher: Publisher, run: Run
) -> None:
    staging = stage(engine, ledger, target, run)
    for start in range(100_000, 140_000, 400):
        run(f"INSERT INTO {staging} SELECT number, number % 4 FROM numbers({start}, 400)")
    staged = publisher.staged([pair(staging)], 5.0)
    assert staged.parts == 408
    left = run(
        f"SELECT count() FROM system.parts WHERE table = '{staging}' AND active AND rows > 0"
    )
    assert left == [["4"]]
    assert staged.rows == 40_800
