"""Staging tables on both engines: made, filled, attached and dropped as a load does it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.engines import run, text
from lab.process import let_pass, wait_until
from rowfall.core.errors import TargetError
from rowfall.core.model import Ask, StagingPair
from rowfall.ledger import Ledger
from rowfall.publish.attach import Publisher
from rowfall.systems.clickhouse.embedded import Embedded
from rowfall.systems.clickhouse.server import Server
from rowfall.systems.clickhouse.staging import (
    TableFacts,
    TableId,
    allowances,
    clone,
    discard,
    drop,
    facts,
    plain_engine,
)

pytestmark = pytest.mark.xdist_group("engine")

Engine = Embedded | Server
_numbers = itertools.count()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "rowfall.ledger")
    yield ledger
    ledger.close()


@pytest.fixture
def database(engine: Engine) -> Iterator[str]:
    name = new_database(engine)
    yield name
    run(engine, f"DROP DATABASE {name} SYNC")


def new_database(engine: Engine) -> str:
    name = f"staging_{os.getpid()}_{next(_numbers)}"
    run(engine, f"CREATE DATABASE {name}")
    return name


def asking(engine: Engine) -> Ask:
    def own(text: str) -> list[list[Any]]:
        return engine.ask(text)

    return own


def seen(engine: Engine, database: str, table: str = "t") -> TableFacts:
    found = facts(asking(engine), database, table)
    assert found is not None
    return found


def stage(engine: Engine, database: str, table: str = "t", twin: str = "_rowfall_x") -> TableFacts:
    found = seen(engine, database, table)
    for statement in clone(found, twin):
        run(engine, *statement.parts)
    return found


def attach(engine: Engine, database: str, table: str = "t", twin: str = "_rowfall_x") -> None:
    run(engine, f"ALTER TABLE {database}.{table} ATTACH PARTITION ALL FROM {database}.{twin}")


COLUMNS = "k UInt64, v UInt64"
TABLES = {
    "plain": f"({COLUMNS}) ENGINE = MergeTree ORDER BY k",
    "no key": f"({COLUMNS}) ENGINE = MergeTree ORDER BY tuple()",
    "partitions": f"({COLUMNS}) ENGINE = MergeTree PARTITION BY (k % 3, v > 5) ORDER BY (k, v) "
    "PRIMARY KEY k",
    "sample": f"({COLUMNS}) ENGINE = MergeTree ORDER BY (k, intHash32(v)) SAMPLE BY intHash32(v)",
    "index": f"({COLUMNS}, INDEX i v TYPE minmax GRANULARITY 2, INDEX `b f` k TYPE bloom_filter) "
    "ENGINE = MergeTree ORDER BY k",
    "projection": f"({COLUMNS}, PROJECTION p (SELECT v, sum(k) GROUP BY v), "
    "PROJECTION o (SELECT * ORDER BY v)) ENGINE = MergeTree ORDER BY k",
    "codec": "(k UInt64 CODEC(Delta(8), ZSTD(3)), v UInt64 CODEC(NONE)) ENGINE = MergeTree "
    "ORDER BY k",
    "constraint": f"({COLUMNS}, CONSTRAINT c CHECK v < 1000, CONSTRAINT a ASSUME k >= 0) "
    "ENGINE = MergeTree ORDER BY k",
    "defaults": "(k UInt64, v UInt64, d UInt64 DEFAULT v + 1, m UInt64 MATERIALIZED v * 2, "
    "a UInt64 ALIAS v * 3, e String EPHEMERAL 'x', f String DEFAULT concat(e, 'y')) "
    "ENGINE = MergeTree ORDER BY k",
    "ttl": "(k UInt64, v UInt64, d DateTime DEFAULT '2100-01-01 00:00:00', "
    "s String DEFAULT 'gone' TTL d + INTERVAL 1 DAY) ENGINE = MergeTree ORDER BY k "
    "TTL d + INTERVAL 1 MONTH DELETE WHERE v > 7, d + INTERVAL 1 YEAR RECOMPRESS CODEC(ZSTD(9))",
    "policy": f"({COLUMNS}) ENGINE = MergeTree ORDER BY k SETTINGS storage_policy = 'default', "
    "min_rows_for_wide_part = 5, min_bytes_for_wide_part = 0, index_granularity = 4",
    "own limits": f"({COLUMNS}) ENGINE = MergeTree ORDER BY k SETTINGS "
    "non_replicated_deduplication_window = 100, parts_to_throw_insert = 3, "
    "parts_to_delay_insert = 2, min_age_to_force_merge_seconds = 1, async_insert = 1, "
    "assign_part_uuids = 0",
    "nullable key": "(k Nullable(UInt64), v UInt64) ENGINE = MergeTree ORDER BY k "
    "SETTINGS allow_nullable_key = 1",
    "quotes": "(k UInt64, v UInt64, `a ``b` String DEFAULT 'it''s -- \\\\ `x', `SETTINGS` UInt8) "
    "ENGINE = MergeTree PARTITION BY `SETTINGS` ORDER BY (k, `a ``b`) COMMENT 'SETTINGS a = 1'",
    "lightweight": f"({COLUMNS}) ENGINE = MergeTree ORDER BY k SETTINGS "
    "enable_block_number_column = 1, enable_block_offset_column = 1",
    "replacing": f"({COLUMNS}) ENGINE = ReplacingMergeTree(v) ORDER BY k",
    "summing": f"({COLUMNS}) ENGINE = SummingMergeTree((v)) ORDER BY k",
    "aggregating": "(k UInt64, v SimpleAggregateFunction(sum, UInt64)) "
    "ENGINE = AggregatingMergeTree ORDER BY k",
    "collapsing": f"({COLUMNS}, s Int8 DEFAULT 1) ENGINE = CollapsingMergeTree(s) ORDER BY k",
    "versioned": f"({COLUMNS}, s Int8 DEFAULT 1) ENGINE = VersionedCollapsingMergeTree(s, v) "
    "ORDER BY (k, v)",
}


@pytest.mark.parametrize("definition", TABLES.values(), ids=TABLES.keys())
def test_attach(engine: Engine, database: str, definition: str) -> None:
    """Whatever the table has, its twin takes the rows and the table takes the twin's parts."""
    run(engine, f"CREATE TABLE {database}.t {definition}")
    found = stage(engine, database)
    assert found.publish_kind == "attach"
    collapses = found.engine != "MergeTree"
    assert found.collapses == collapses
    assert found.partitioned == ("PARTITION BY" in definition)
    settings = {"optimize_on_insert": 0} if collapses else {}
    rows = "(k, v) SELECT intDiv(number, 2), number % 10 FROM numbers(20)"
    for _ in range(4):  # equal blocks, more than the table's own limits would take
        run(engine, f"INSERT INTO {database}._rowfall_x {rows}", settings=settings)
    assert text(engine, f"SELECT count(), sum(v) FROM {database}._rowfall_x") == "80\t360"
    attach(engine, database)
    assert text(engine, f"SELECT count(), sum(v) FROM {database}.t") == "80\t360"
    uuids = text(
        engine,
        "SELECT count(), uniqExact(uuid), countIf(toUInt128(uuid) = 0) FROM system.parts WHERE "
        f"database = '{database}' AND table = 't' AND active",
    ).split("\t")
    assert uuids[0] == uuids[1]
    assert uuids[2] == "0"
    run(engine, f"CHECK TABLE {database}.t", format="TabSeparated")


def test_structure_is_kept(engine: Engine, database: str) -> None:
    """Nothing but the settings differs between the two definitions."""
    for name, definition in TABLES.items():
        if name in ("own limits", "quotes"):
            continue
        run(engine, f"CREATE OR REPLACE TABLE {database}.t {definition}")
        own = stage(engine, database, twin="_rowfall_s")
        twin = seen(engine, database, "_rowfall_s")
        head = f"CREATE TABLE {database}."
        first, second = (
            f.create_query.removeprefix(f"{head}{f.table} ").partition(" SETTINGS ")[0]
            for f in (own, twin)
        )
        assert first == second
        assert own.storage_policy == twin.storage_policy
        run(engine, f"DROP TABLE {database}._rowfall_s SYNC")


def test_suspicious_types(engine: Engine, database: str) -> None:
    """What needed a setting when the table was made needs it again."""
    settings = allowances(engine.facts.settings)
    run(
        engine,
        f"CREATE TABLE {database}.t (a LowCardinality(UInt8), b FixedString(500)) "
        "ENGINE = MergeTree ORDER BY a",
        settings=settings,
    )
    for statement in clone(seen(engine, database), "_rowfall_x"):
        run(engine, *statement.parts, settings=settings)
    run(engine, f"INSERT INTO {database}._rowfall_x SELECT 1, 'x'")
    attach(engine, database)


def test_facts(engine: Engine, database: str) -> None:
    own = asking(engine)
    assert facts(own, database, "t") is None
    assert facts(own, "no such database", "t") is None
    run(engine, f"CREATE TABLE {database}.`it's ``odd` (a UInt8) ENGINE = MergeTree ORDER BY a")
    found = facts(own, database, "it's `odd")
    assert found is not None
    assert (found.database, found.table, found.engine) == (database, "it's `odd", "MergeTree")
    assert found.storage_policy == "default"
    assert not found.replicated
    assert not found.partitioned
    assert found.views == ()
    assert len(found.id.uuid) == 36
    for statement in clone(found, "_rowfall_odd"):
        run(engine, *statement.parts)


@pytest.mark.parametrize("name", ["Memory", "Log", "TinyLog", "StripeLog"])
def test_direct(engine: Engine, database: str, name: str) -> None:
    run(engine, f"CREATE TABLE {database}.t (a UInt8) ENGINE = {name}")
    found = seen(engine, database)
    assert found.publish_kind == "direct"
    assert not found.collapses
    with pytest.raises(TargetError, match="no parts"):
        clone(found, "_rowfall_x")


def test_null(engine: Engine, database: str) -> None:
    run(engine, f"CREATE TABLE {database}.t (a UInt8, b UInt8 DEFAULT a + 1) ENGINE = Null")
    assert stage(engine, database).publish_kind == "null"
    assert seen(engine, database, "_rowfall_x").engine == "Null"


REFUSED = {
    "Buffer": ("TABLE {db}.t (a UInt8) ENGINE = Buffer({db}, u, 1, 1, 1, 1, 1, 1, 1)", "behind"),
    "Merge": ("TABLE {db}.t (a UInt8) ENGINE = Merge({db}, '^u$')", "unites"),
    "View": ("VIEW {db}.t AS SELECT a FROM {db}.u", "reads from"),
    "MaterializedView": (
        "MATERIALIZED VIEW {db}.t ENGINE = Memory AS SELECT a FROM {db}.u",
        "it fills",
    ),
    "Set": ("TABLE {db}.t (a UInt8) ENGINE = Set", "MergeTree family"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(engine: Engine, database: str, name: str) -> None:
    made, hint = REFUSED[name]
    run(engine, f"CREATE TABLE {database}.u (a UInt8) ENGINE = MergeTree ORDER BY a")
    run(engine, f"CREATE {made.format(db=database)}")
    with pytest.raises(TargetError, match=f"its engine is {name}") as caught:
        facts(asking(engine), database, "t")
    assert hint in str(caught.value.hint)


def test_nothing_is_merged_or_expired_in_staging(engine: Engine, database: str) -> None:
    """Rows that are past their TTL are attached like any others; the table deletes them."""
    run(
        engine,
        f"CREATE TABLE {database}.t (k UInt64, d DateTime, s String TTL d + INTERVAL 1 DAY) "
        "ENGINE = ReplacingMergeTree ORDER BY k TTL d + INTERVAL 1 DAY SETTINGS "
        "merge_with_ttl_timeout = 0, min_age_to_force_merge_seconds = 1, "
        "max_number_of_merges_with_ttl_in_pool = 10",
    )
    stage(engine, database)
    for _ in range(5):
        run(
            engine,
            f"INSERT INTO {database}._rowfall_x SELECT number, '2001-01-01 00:00:00', 'x' "
            "FROM numbers(100)",
            settings={"optimize_on_insert": 0},
        )
    let_pass(4, "an unguarded copy of the table has lost its rows by then")
    query = (
        "SELECT count(), sum(rows), max(level) FROM system.parts "
        f"WHERE active AND database = '{database}' AND table = "
    )
    assert text(engine, f"{query}'_rowfall_x'") == "5\t500\t0"
    attach(engine, database)
    run(engine, f"OPTIMIZE TABLE {database}.t FINAL")
    assert text(engine, f"SELECT count() FROM {database}.t") == "0"


def test_an_unguarded_twin_expires(engine: Engine, database: str) -> None:
    """What the test above would miss if a second of waiting were not enough."""
    run(
        engine,
        f"CREATE TABLE {database}.t (k UInt64, d DateTime) ENGINE = MergeTree ORDER BY k "
        "TTL d + INTERVAL 1 DAY SETTINGS merge_with_ttl_timeout = 0",
    )
    run(engine, f"INSERT INTO {database}.t SELECT number, '2001-01-01 00:00:00' FROM numbers(9)")
    count = f"SELECT count() FROM {database}.t"
    wait_until(lambda: text(engine, count) == "0", 10, "the table to delete its rows")


@pytest.mark.parametrize(
    ("family", "rest"),
    [
        ("MergeTree", "('{path}', '{{replica}}') ORDER BY k"),
        (
            "MergeTree",
            "('{path}', '{{replica}}') PARTITION BY k % 2 ORDER BY k TTL d + INTERVAL 1 YEAR",
        ),
        (
            "ReplacingMergeTree",
            "('{path}', '{{replica}}', v) ORDER BY k SETTINGS index_granularity = 16",
        ),
        ("SummingMergeTree", "('{path}', '{{replica}}', (v, w)) ORDER BY k"),
        ("AggregatingMergeTree", "('{path}', '{{replica}}') ORDER BY k"),
        ("CollapsingMergeTree", "('{path}', '{{replica}}', s) ORDER BY k"),
        ("VersionedCollapsingMergeTree", "('{path}', '{{replica}}', s, v) ORDER BY k"),
    ],
)
def test_replicated(keeper: Server, family: str, rest: str) -> None:
    """The twin is plain; equal loads are not taken for repetitions."""
    database = new_database(keeper)
    path = f"/clickhouse/tables/{database}"
    run(
        keeper,
        f"CREATE TABLE {database}.t (k UInt64, v UInt64, w UInt64, s Int8, d DateTime) "
        f"ENGINE = Replicated{family}{rest.format(path=path)}",
    )
    for number in range(2):
        twin = f"_rowfall_{number}"
        found = stage(keeper, database, twin=twin)
        assert found.replicated
        assert found.publish_kind == "attach"
        assert found.collapses == (family != "MergeTree")
        assert seen(keeper, database, twin).engine == family
        run(
            keeper,
            f"INSERT INTO {database}.{twin} SELECT number, 1, 1, 1, '2100-01-01 00:00:00' "
            "FROM numbers(100)",
            settings={"optimize_on_insert": 0},
        )
        attach(keeper, database, twin=twin)
    assert text(keeper, f"SELECT count() FROM {database}.t") == "200"
    run(keeper, f"DROP DATABASE {database} SYNC")


@pytest.mark.parametrize("then", ["taken back", "merged"])
def test_outdated_parts_of_a_replica(keeper: Server, ledger: Ledger, then: str) -> None:
    """What a replica has taken back is listed like what it has merged; only that is attached again.

    DROP PART leaves a part in the list as an ATTACH does that Keeper has not confirmed.
    """
    database = new_database(keeper)
    run(
        keeper,
        f"CREATE TABLE {database}.t (k UInt64) ENGINE = ReplicatedMergeTree"
        f"('/clickhouse/tables/{database}', '{{replica}}') ORDER BY k PARTITION BY k % 2",
    )
    run(keeper, f"SYSTEM STOP CLEANUP {database}.t")  # or what is dropped is not listed for long
    stage(keeper, database, twin="_rowfall_a")
    for start in (0, 100):
        run(keeper, f"INSERT INTO {database}._rowfall_a SELECT {start} + number FROM numbers(100)")
    publisher = Publisher(keeper, ledger)
    moves = publisher.staged([StagingPair(database, "t", "_rowfall_a")], 8.0).moves
    attach(keeper, database, twin="_rowfall_a")  # under no id that the log knows
    parts = f"FROM system.parts WHERE database = '{database}' AND table = 't' AND rows > 0"
    if then == "merged":
        run(keeper, f"OPTIMIZE TABLE {database}.t FINAL")
    else:
        ((name,),) = keeper.ask(f"SELECT min(name) {parts} AND active")
        run(keeper, f"ALTER TABLE {database}.t DROP PART '{name}'")
    listed = keeper.ask(f"SELECT countIf(NOT active) {parts}")
    assert listed == [[4 if then == "merged" else 1]], "what this test is about is not there"
    settled = publisher.settle("a", moves)
    assert {move.state for move in settled} == {"attached" if then == "merged" else "pending"}
    publisher.publish("a", settled)
    assert text(keeper, f"SELECT count(), uniqExact(k) FROM {database}.t") == "200\t200"
    run(keeper, f"DROP DATABASE {database} SYNC")


def test_discard(engine: Engine, database: str) -> None:
    """All of an attempt goes, in every database, and nothing else."""
    other = new_database(engine)
    make = "ENGINE = MergeTree ORDER BY a"
    for name in (f"{database}._rowfall_1", f"{other}._rowfall_1_t0", f"{database}._rowfall_12",
                 f"{other}.`xrowfall_1_t`", f"{other}.t"):  # fmt: skip
        run(engine, f"CREATE TABLE {name} (a UInt8) {make}")
    run(
        engine,
        f"CREATE MATERIALIZED VIEW {database}._rowfall_1_v0 TO {other}._rowfall_1_t0 "
        f"AS SELECT a FROM {database}._rowfall_1",
    )
    statements = discard(asking(engine), "_rowfall_1")
    assert [str(s).split()[1] for s in statements] == ["VIEW", "TABLE", "TABLE"]
    here = discard(asking(engine), "_rowfall_1", [database])
    assert [str(s).split()[1] for s in here] == ["VIEW", "TABLE"]
    for statement in (*statements, *statements):  # a second time does no harm
        run(engine, *statement.parts)
    left = text(
        engine,
        f"SELECT name FROM system.tables WHERE database IN ('{database}', '{other}') ORDER BY name",
    )
    assert left.split("\n") == ["_rowfall_12", "t", "xrowfall_1_t"]
    assert discard(asking(engine), "_rowfall_1") == ()
    run(engine, f"DROP DATABASE {other} SYNC")


def test_drop_of_a_huge_table(engine: Engine, database: str) -> None:
    run(engine, f"CREATE TABLE {database}.t (a UInt8) ENGINE = MergeTree ORDER BY a")
    statement = drop(database, "t", size=1 << 36)
    assert "max_table_size_to_drop = 0" in str(statement)
    run(engine, *statement.parts)
    assert facts(asking(engine), database, "t") is None


# --- without an engine -------------------------------------------------------------------------


def fake(engine_full: str) -> TableFacts:
    name = engine_full.replace("(", " ").split()[0]
    return TableFacts("d", "t", TableId(""), name, engine_full, "default", False, "")


@pytest.mark.parametrize(
    ("full", "plain"),
    [
        (
            "ReplicatedGraphiteMergeTree('/a/(b)', '{replica}', 'rollup') ORDER BY (a, `SETTINGS`) "
            "SETTINGS storage_policy = 'x, y', assign_part_uuids = 0",
            "GraphiteMergeTree('rollup') ORDER BY (a, `SETTINGS`) "
            "SETTINGS storage_policy = 'x, y', assign_part_uuids = 1, ",
        ),
        ("GraphiteMergeTree('rollup') ORDER BY a", "GraphiteMergeTree('rollup') ORDER BY a "),
        ("ReplicatedReplacingMergeTree(v) ORDER BY a", "ReplacingMergeTree(v) ORDER BY a SETT"),
        ("ReplicatedMergeTree ORDER BY a", "MergeTree ORDER BY a SETTINGS assign_part_uuids = 1"),
    ],
)
def test_plain_engine(full: str, plain: str) -> None:
    assert plain_engine(fake(full)).startswith(plain)


def test_distributed() -> None:
    with pytest.raises(TargetError, match="engine is Distributed") as caught:
        _ = fake("Distributed('c', 'd', 'u')").publish_kind
    assert "cluster=NAME" in str(caught.value.hint)


def test_old_syntax() -> None:
    with pytest.raises(TargetError, match="old syntax"):
        plain_engine(fake("MergeTree(d, (a, b), 8192)"))


def test_hidden_secrets() -> None:
    full = "MergeTree ORDER BY a SETTINGS disk = disk(secret_access_key = '[HIDDEN]')"
    made = clone(fake(full), "_rowfall_x")
    assert len(made) == 2
    assert "HIDDEN" not in "".join(map(str, made))
    with pytest.raises(TargetError, match="secret"):
        clone(fake(f"Replicated{full}"), "_rowfall_x")
