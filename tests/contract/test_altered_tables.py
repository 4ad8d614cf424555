"""Tables that somebody alters after rows were staged for them: the rows arrive all the same."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from contract.engines import run, text
from lab.process import let_pass
from rowfall.core.model import StagingPair
from rowfall.ledger import Ledger
from rowfall.publish import altered
from rowfall.publish.altered import AlteredTableError
from rowfall.publish.attach import Publisher
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.staging import clone, facts

pytestmark = pytest.mark.xdist_group("engine")

Engine = Embedded | Server
_numbers = itertools.count()
TABLE = (
    "(k UInt64, v UInt32, s String, d DateTime DEFAULT '2100-01-01 00:00:00', INDEX i0 k TYPE "
    "minmax, PROJECTION p0 (SELECT d, count() GROUP BY d)) ENGINE = {engine} PARTITION BY k % 4 "
    "ORDER BY k TTL d + INTERVAL 1 YEAR"
)


@dataclass(frozen=True)
class Case:
    """What is altered, and what the one row (1, 2, 'x') is afterwards.

    Attributes:
        shows: what is selected. ``row``: what it is.
    """

    alter: str
    shows: str
    row: str


CASES = {
    "add": Case("ADD COLUMN c UInt8 DEFAULT 7 CODEC(ZSTD(3)) AFTER k", "k, v, s, c", "1 2 x 7"),
    "add first": Case("ADD COLUMN `a b` Array(UInt8) FIRST", "k, v, `a b`", "1 2 []"),
    "materialized": Case("ADD COLUMN c UInt64 MATERIALIZED k + 1", "k, c", "1 2"),
    "alias": Case("ADD COLUMN c UInt64 ALIAS k + 1", "k, c", "1 2"),
    "two that need each other": Case(
        "ADD COLUMN c UInt64 DEFAULT k + 5, ADD COLUMN e UInt64 DEFAULT c + 1", "c, e", "6 7"
    ),
    "drop": Case("DROP COLUMN s", "k, v", "1 2"),
    "drop and add": Case("DROP COLUMN s, ADD COLUMN t String DEFAULT 'y'", "k, v, t", "1 2 y"),
    "type": Case("MODIFY COLUMN v Nullable(UInt64)", "k, v, toTypeName(v)", "1 2 Nullable(UInt64)"),
    "default, codec": Case("MODIFY COLUMN v UInt32 DEFAULT 9 CODEC(ZSTD)", "k, v", "1 2"),
    "rename": Case("RENAME COLUMN s TO `s t`", "k, v, `s t`", "1 2 x"),
    "rename twice": Case("RENAME COLUMN s TO t; RENAME COLUMN t TO u", "k, v, u", "1 2 x"),
    "rename, drop and add": Case(
        "RENAME COLUMN s TO t; DROP COLUMN v; ADD COLUMN w UInt8", "k, t, w", "1 x 0"
    ),
    "rename, add the old name": Case(
        "RENAME COLUMN s TO t; ADD COLUMN s String DEFAULT 'y'", "k, s, t", "1 y x"
    ),
    "index": Case("DROP INDEX i0, ADD INDEX i1 v TYPE minmax GRANULARITY 3", "k, v, s", "1 2 x"),
    "projection": Case(
        "DROP PROJECTION p0; ADD PROJECTION p1 (SELECT * ORDER BY v)", "k, v, s", "1 2 x"
    ),
    "ttl": Case("MODIFY TTL d + INTERVAL 1 DAY", "k, v, s", "1 2 x"),
    "no ttl": Case("REMOVE TTL", "k, v, s", "1 2 x"),
    "settings": Case("MODIFY SETTING max_parts_in_total = 9999", "k, v, s", "1 2 x"),
    "key": Case("ADD COLUMN z UInt8, MODIFY ORDER BY (k, z)", "k, v, z", "1 2 0"),
    "constraint": Case("ADD CONSTRAINT c CHECK v < 1000", "k, v, s", "1 2 x"),
}  # fmt: skip
GATE = ("rename, drop and add", "type", "key", "projection")
EACH = [
    pytest.param(case, id=name, marks=[] if name in GATE else [pytest.mark.long])
    for name, case in CASES.items()
]


@dataclass(frozen=True)
class Table:
    """A table with a row of its own, and one row in staging.

    Attributes:
        pair: of it and its staging table.
    """

    engine: Engine
    publisher: Publisher
    pair: StagingPair

    def alter(self, what: str) -> None:
        """Alter the table, in several statements where ``;`` separates them."""
        for one in what.split("; "):
            run(self.engine, f"ALTER TABLE {self.pair.database}.{self.pair.table} {one}")

    def publish(self) -> None:
        moves = self.publisher.staged([self.pair], 0.0, [self.pair.staging]).moves
        # Each staging table is another attempt: a_1, a_2, a_whole.
        self.publisher.publish(f"a{self.pair.staging.removeprefix('_rowfall_x')}", moves)

    def rows(self, shows: str) -> list[str]:
        found = text(self.engine, f"SELECT {shows} FROM {self.pair.database}.{self.pair.table} "
                     "ORDER BY k")  # fmt: skip
        return [line.replace("\t", " ") for line in found.splitlines()]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "rowfall.ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def table(engine: Engine, ledger: Ledger) -> Iterator[Table]:
    database = f"altered_{os.getpid()}_{next(_numbers)}"
    yield make(engine, ledger, database, "MergeTree")
    run(engine, f"DROP DATABASE {database} SYNC")


def make(engine: Engine, ledger: Ledger, database: str, kind: str) -> Table:
    run(engine, f"CREATE DATABASE {database}")
    run(engine, f"CREATE TABLE {database}.t {TABLE.format(engine=kind)}")
    run(engine, f"INSERT INTO {database}.t (k, v, s) VALUES (0, 0, 'old')")
    found = facts(engine.ask, database, "t")
    assert found is not None
    for statement in clone(found, "_rowfall_x_1"):
        run(engine, *statement.parts)
    run(engine, f"INSERT INTO {database}._rowfall_x_1 (k, v, s) VALUES (1, 2, 'x')")
    return Table(engine, Publisher(engine, ledger), StagingPair(database, "t", "_rowfall_x_1"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", EACH)
def test_rows_follow_their_table(table: Table, case: Case) -> None:
    table.alter(case.alter)
    table.publish()
    assert len(table.rows(case.shows)) == 2
    assert table.rows(case.shows)[1] == case.row


def test_the_second_statement_knows_what_happened_before_the_first(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server tells in seconds when a table was altered: let one go by before each statement."""
    ran = altered._run

    def run_slowly(*what: Any) -> None:
        let_pass(1.1, "the server tells in whole seconds when a table was altered")
        ran(*what)

    monkeypatch.setattr(altered, "_run", run_slowly)
    table.alter(CASES["rename, drop and add"].alter)
    table.publish()
    assert table.rows("k, t, w")[1] == "1 x 0"


@pytest.mark.long
@pytest.mark.parametrize("name", ["add", "rename", "rename, add the old name", "type",
                                  "projection", "key"])  # fmt: skip
def test_rows_follow_a_replicated_table(keeper: Server, ledger: Ledger, name: str) -> None:
    database, case = f"altered_{os.getpid()}_{next(_numbers)}", CASES[name]
    path = f"ReplicatedMergeTree('/altered/{database}', 'one')"
    table = make(keeper, ledger, database, path)
    table.alter(case.alter)
    table.publish()
    assert table.rows(case.shows)[1] == case.row
    run(keeper, f"DROP DATABASE {database} SYNC")


@pytest.mark.long
def test_what_has_arrived_before_is_not_attached_twice(keeper: Server, ledger: Ledger) -> None:
    """A replicated table commits partition by partition: it was altered between two of them."""
    database = f"altered_{os.getpid()}_{next(_numbers)}"
    table = make(keeper, ledger, database, f"ReplicatedMergeTree('/altered/{database}', 'one')")
    staging = f"{database}.{table.pair.staging}"
    run(keeper, f"INSERT INTO {staging} (k, v, s) VALUES (2, 3, 'y')")
    moves = table.publisher.staged([table.pair], 0.0, [table.pair.staging]).moves
    run(keeper, f"ALTER TABLE {database}.t ATTACH PARTITION ID '1' FROM {staging}")
    table.alter("MODIFY COLUMN v UInt64")
    table.publisher.publish("a_1", moves)
    assert table.rows("k, v, s") == ["0 0 old", "1 2 x", "2 3 y"]
    run(keeper, f"DROP DATABASE {database} SYNC")


def test_a_rename_that_nobody_has_written_down(table: Table) -> None:
    """A column has gone, another one has come: its values may not be lost."""
    table.alter("RENAME COLUMN s TO t")
    database = table.pair.database
    create = text(table.engine, f"SHOW CREATE TABLE {database}.t")
    run(table.engine, f"DROP TABLE {database}.t SYNC")
    run(table.engine, create.replace("\\n", "\n").replace("\\'", "'"))
    with pytest.raises(AlteredTableError, match="the column s is gone, and t has come") as caught:
        table.publish()
    assert "rowfall forget a_1" in str(caught.value.hint)
    # What the hint says helps.
    run(table.engine, f"ALTER TABLE {database}._rowfall_x_1 RENAME COLUMN s TO t")
    table.publish()
    assert table.rows("k, v, t") == ["1 2 x"]


def test_columns_that_have_changed_names_with_each_other(table: Table) -> None:
    swap = "RENAME COLUMN v TO x; RENAME COLUMN s TO v; RENAME COLUMN x TO s"
    table.alter(swap)
    with pytest.raises(AlteredTableError, match="columns have changed places, s, v") as caught:
        table.publish()
    staging = f"{table.pair.database}.{table.pair.staging}"
    assert f"Alter {table.pair.database}.t back, or `" in str(caught.value.hint)
    # What the hint says helps. The server tells in seconds when it was done.
    let_pass(1.1, "the server tells in whole seconds when a table was altered")
    for one in swap.split("; "):
        run(table.engine, f"ALTER TABLE {staging} {one}")
    table.publish()
    assert table.rows("k, s, v") == ["0 0 old", "1 2 x"]


def test_values_that_do_not_fit_the_new_type(table: Table) -> None:
    """Nothing is changed then: parts that the server cannot write anew would break the table."""
    staging = f"{table.pair.database}.{table.pair.staging}"
    run(table.engine, f"TRUNCATE TABLE {table.pair.database}.t")
    table.alter("MODIFY COLUMN s UInt64")
    with pytest.raises(AlteredTableError, match=r"cannot follow: .*parse"):
        table.publish()
    assert text(table.engine, f"SELECT k, s FROM {staging}") == "1\tx"


@pytest.mark.long
def test_another_key_is_not_followed(table: Table) -> None:
    """Staging that was made in the same moment has the columns already, but not the key."""
    table.alter("ADD COLUMN z UInt8, MODIFY ORDER BY (k, z)")
    run(table.engine, f"ALTER TABLE {table.pair.database}.{table.pair.staging} ADD COLUMN z UInt8")
    with pytest.raises(AlteredTableError, match="key"):
        table.publish()


@pytest.mark.parametrize("alter", [
    "RENAME COLUMN s TO t; ADD COLUMN c UInt8 DEFAULT 7",
])  # fmt: skip
def test_a_shadow_and_later_staging_follow_the_table(table: Table, alter: str) -> None:
    """One was made before the table was altered, the other after it."""
    database, engine = table.pair.database, table.engine
    found = facts(engine.ask, database, "t")
    assert found is not None
    for statement in clone(found, "_rowfall_x_whole", gathers=True):
        run(engine, *statement.parts)
    early = replace(table, pair=StagingPair(database, "_rowfall_x_whole", "_rowfall_x_1"))
    early.publish()
    table.alter(alter)
    found = facts(engine.ask, database, "t")
    assert found is not None
    for statement in clone(found, "_rowfall_x_2"):
        run(engine, *statement.parts)
    run(engine, f"INSERT INTO {database}._rowfall_x_2 (k, v, t) VALUES (5, 6, 'z')")
    replace(table, pair=StagingPair(database, "_rowfall_x_whole", "_rowfall_x_2")).publish()
    replace(table, pair=StagingPair(database, "t", "_rowfall_x_whole")).publish()
    assert table.rows("k, v, t, c") == ["0 0 old 7", "1 2 x 7", "5 6 z 7"]


def test_tables_that_differ_in_what_nobody_can_alter(table: Table) -> None:
    """The message is the server's."""
    database = table.pair.database
    run(table.engine, f"CREATE TABLE {database}.u (k UInt64) ENGINE = MergeTree PARTITION BY k "
        "ORDER BY k")  # fmt: skip
    run(table.engine, f"CREATE TABLE {database}._rowfall_x_2 (k UInt64) ENGINE = MergeTree "
        "ORDER BY k SETTINGS assign_part_uuids = 1")  # fmt: skip
    run(table.engine, f"INSERT INTO {database}._rowfall_x_2 VALUES (1)")
    other = replace(table, pair=StagingPair(database, "u", "_rowfall_x_2"))
    with pytest.raises(AlteredTableError, match="partition"):
        other.publish()
