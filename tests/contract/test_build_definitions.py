"""Built parts of tables that ask for more than columns and a key, taken over by a server of 24.10.

Parts hold the columns that a load fills. The server makes the rest after attaching them, by the
commands of table_definition.completions: then rows, indices and projections are those of an INSERT.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from contract.test_build import SEED, Parts, parts, pool, table_of
from contract.test_build_layouts import OLD
from lab.clickhouse import ClickHouse
from rowfall.plan import table_definition

__all__ = ["parts"]
ROWS = 9_000
FILLED = {
    "id": "UInt32", "kind": "String", "note": "String", "price": "Float64",
    "maybe": "Nullable(UInt32)",
}  # fmt: skip
PLAIN = "id UInt32, kind String, note String, price Float64, maybe Nullable(UInt32)"
# Columns, and what follows the engine: everything of a definition that is not refused.
DEFINITIONS = {
    "defaults": (
        f"{PLAIN}, made UInt64 DEFAULT id * 2, after UInt64 DEFAULT made + twice, "
        "big String MATERIALIZED upper(note), twice UInt64 ALIAS made * 2, list Array(String)",
        "ORDER BY (kind, id)",
    ),
    "minmax": (f"{PLAIN}, INDEX i price TYPE minmax GRANULARITY 2", "ORDER BY id"),
    "set": (f"{PLAIN}, INDEX i kind TYPE set(100)", "ORDER BY id"),
    "bloom filter": (f"{PLAIN}, INDEX i note TYPE bloom_filter(0.01)", "ORDER BY id"),
    "tokens": (f"{PLAIN}, INDEX i note TYPE tokenbf_v1(512, 3, 0)", "ORDER BY id"),
    "ngrams": (f"{PLAIN}, INDEX i note TYPE ngrambf_v1(3, 512, 3, 0)", "ORDER BY id"),
    "projections": (
        f"{PLAIN}, PROJECTION p (SELECT kind, count(), sum(price) GROUP BY kind), "
        "PROJECTION q (SELECT id, note ORDER BY note)",
        "ORDER BY id",
    ),
    "times to live": (
        "id UInt32, kind String, note String TTL toDateTime('2000-01-01') + toIntervalSecond(id), "
        "price Float64, maybe Nullable(UInt32)",
        "ORDER BY id TTL toDateTime('2020-01-01 00:00:00') + toIntervalDay(id % 7000)",
    ),
    "times to live of groups": (
        PLAIN,
        "ORDER BY (kind, id) TTL toDateTime('2035-01-01') + toIntervalDay(id) "
        "GROUP BY kind SET price = max(price)",
    ),
    "codecs": (
        "id UInt32 CODEC(Delta, ZSTD(3)), kind LowCardinality(String) CODEC(ZSTD(1)), "
        "note String CODEC(LZ4HC(3)), price Float64 CODEC(Gorilla, ZSTD(2, 20)), "
        "maybe Nullable(UInt32) CODEC(T64)",
        "ORDER BY id",
    ),
    "settings": (
        PLAIN,
        "ORDER BY id SETTINGS index_granularity = 512, index_granularity_bytes = 100000, "
        "min_compress_block_size = 1000, max_compress_block_size = 20000, "
        "ratio_of_defaults_for_sparse_serialization = 0.5",
    ),
    "compact": (PLAIN, "ORDER BY id SETTINGS min_bytes_for_wide_part = 1000000000"),
    "constraints": (f"{PLAIN}, CONSTRAINT c CHECK id < 2000000", "ORDER BY (id, kind)"),
    "sample": (PLAIN, "ORDER BY (kind, id) SAMPLE BY id"),
    "primary": (PLAIN, "PRIMARY KEY kind ORDER BY (kind, id)"),
    "NULL in the key": (PLAIN, "ORDER BY (maybe, id) SETTINGS allow_nullable_key = 1"),
}


@pytest.fixture
def text(parts: Parts) -> Path:
    """A file of rows with defaults and NULL, shuffled."""
    rng = random.Random(SEED)
    numbers = rng.sample(range(1_000_000), ROWS)
    kinds = [f"k{n % 11}" for n in numbers]
    notes = [f"row {n} of the file" if n % 3 else "" for n in numbers]
    return parts.file(FILLED, table_of(
        map(str, numbers), kinds, notes, pool(rng, "Float64", ROWS, 0.6),
        pool(rng, "UInt32", ROWS, 0.2, 0.5),
    ))  # fmt: skip


def taken_over(parts: Parts, table: str, service: ClickHouse) -> None:
    """Copy the parts of a table here to a server's table ``built``, and attach them there."""
    answer = service.query("SELECT data_paths[1] FROM system.tables WHERE name = 'built'")
    detached = Path(answer.strip()) / "detached"
    owner = detached.stat()
    strange = shutil.ignore_patterns("columns_substreams.txt", "invalidated_system_columns.txt")
    for number, part in enumerate(sorted(parts.place(table).glob("all_*")), 1):
        shutil.copytree(part, detached / f"all_{number}_{number}_0", ignore=strange)
    for path in detached.rglob("*"):
        shutil.chown(path, owner.st_uid, owner.st_gid)
    service.query("ALTER TABLE built ATTACH PARTITION tuple()")


@pytest.mark.long
@pytest.mark.xdist_group("server")
@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_server_completes_them(name: str, parts: Parts, service: ClickHouse, text: Path) -> None:
    columns, tail = DEFINITIONS[name]
    create = f"({columns}) ENGINE = MergeTree {tail}"
    types = FILLED | ({"kind": "LowCardinality(String)"} if name == "codecs" else {})
    for table in ("built", "own"):
        service.query(f"CREATE TABLE {table} {create}")
        service.query(f"SYSTEM STOP MERGES {table}")
    table = table_definition.parse(service.query("SHOW CREATE TABLE built FORMAT TSVRaw"))
    assert table is not None
    old = OLD if "SETTINGS" in tail else " SETTINGS " + OLD.removeprefix(", ")
    parts.sql(f"CREATE TABLE here {create}{old}")
    parts.sql("SYSTEM STOP MERGES here")
    try:
        key = table.sorting_key
        parts.build("here", types, key, [text], block_rows=4_000, primary=table.primary_elements)
        taken_over(parts, "here", service)
        count = "SELECT count(), sum(rows) FROM system.parts WHERE table = 'built' AND active"
        assert service.query(count) == f"3\t{ROWS}\n"
        synchronous = {"mutations_sync": 2}
        for commands in table_definition.completions(table, set(types)):
            service.query(f"ALTER TABLE built {commands}", settings=synchronous)
        insert = f"INSERT INTO own ({', '.join(FILLED)}) FORMAT CSV"
        service.query(insert, body=text.read_bytes())
        facts = (
            "SELECT count(), sum(cityHash64(*)) FROM {} "
            "SETTINGS asterisk_include_materialized_columns = 1",
            "SELECT sum(rows), min(delete_ttl_info_min), max(delete_ttl_info_max) "
            "FROM system.parts WHERE table = '{}' AND active",
            "SELECT name, sum(rows) > 0 FROM system.projection_parts WHERE table = '{}' AND active "
            "GROUP BY name ORDER BY name",
            "SELECT name, data_uncompressed_bytes > 0 FROM system.data_skipping_indices "
            "WHERE table = '{}' ORDER BY name",
        )

        def same() -> None:
            lines = service.query(
                "CHECK TABLE built", settings={"check_query_single_value_result": 0}
            ).splitlines()
            assert {line.split("\t")[1] for line in lines} == {"1"}, lines
            for question in facts:
                built, own = (service.query(question.format(t)) for t in ("built", "own"))
                assert built == own, question

        same()
        for t in ("built", "own"):
            service.query(f"SYSTEM START MERGES {t}")
            service.query(f"OPTIMIZE TABLE {t} FINAL")
        same()
    finally:
        for t in ("built", "own"):
            service.query(f"DROP TABLE {t} SYNC")
        parts.drop("here")
