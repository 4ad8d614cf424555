"""Parts in the layout of older servers: as the engine writes them, and read by such a server."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from contract.test_build import (
    COMPACT,
    SEED,
    TYPES,
    WIDE,
    Parts,
    compared_file,
    parts,
    pool,
    table_of,
    wide,
)
from lab.clickhouse import ClickHouse
from rowfall.systems.clickhouse.part_server import TABLE, PartServer

__all__ = ["parts"]
# What a server of 24.10 knows: strings behind their lengths, and no versions of types.
OLD = (
    ", serialization_info_version = 'basic', string_serialization_version = 'single_stream', "
    "write_marks_for_substreams_in_compact_parts = 0"
)
# Columns that are made of others.
MADE = {
    "g_array": ("Array(String)", "[b, '', toString(a)]"),
    "g_map": ("Map(String, Array(Nullable(String)))", "map(b, [maybe, NULL], '', [])"),
    "g_tuple": ("Tuple(x UInt8, y String)", "(a % 7, if(a % 50 = 0, b, ''))"),
}


def everything(parts: Parts, types: list[str], rows: int) -> tuple[dict[str, str], Path]:
    """Columns of all kinds, and a file of them, in blocks as the engine hands them over."""
    rng = random.Random(f"{SEED} {types}")
    columns, flat = wide(rng, types, rows)
    columns |= {"same": "String", "few": "String", "maybe": "Nullable(String)"}
    more = table_of(
        (f"{n % 10:04}" for n in range(rows)),
        (f"{n}" if n % 50 == 0 else "" for n in range(rows)),
        pool(rng, "String", rows, 0.3, 0.3),
    )
    text = parts.file(columns, [(*row, *rest) for row, rest in zip(flat, more, strict=True)])
    made = ", ".join(f"{value} AS {name}" for name, (_, value) in MADE.items())
    select = f"(SELECT *, {made} FROM {parts.relation(columns, text)})"
    columns |= {name: type_ for name, (type_, _) in MADE.items()}
    return columns, parts.written(columns, select, "Native")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (OLD, "(b, a)"),
        (", string_serialization_version = 'single_stream'", "(a)"),
        (", serialization_info_version = 'basic', index_granularity = 1000", ""),
        (", string_serialization_version = 'single_stream', "
         "propagate_types_serialization_versions_to_nested_types = 0", "b"),
    ],
    ids=["old", "typed", "basic", "not nested"],
)  # fmt: skip
def test_like_the_engines(settings: str, key: str, parts: Parts) -> None:
    columns, path = everything(parts, ["Int32", "String", "LowCardinality(String)"], 9_003)
    codecs = {"same": "ZSTD(1)", "maybe": "LZ4HC(3)"}
    for kind in (WIDE, COMPACT):
        table = compared_file(
            parts, columns, key, path, format="Native", codecs=codecs, settings=settings + kind
        )
        assert not list(parts.part(table).glob("*.size.bin"))
        parts.insert(table, columns, path, "Native")
        parts.sql(f"OPTIMIZE TABLE {table} FINAL")
        assert parts.check(table) == []
        parts.drop(table)


def checksum(columns: dict[str, str], table: str) -> str:
    sums = ", ".join(f"sum(cityHash64(toString(`{name}`))), count(`{name}`)" for name in columns)
    return f"SELECT count(), {sums} FROM {table} FORMAT TSV"


@pytest.mark.sampled(1)
@pytest.mark.xdist_group("server")
@pytest.mark.parametrize("kind", [WIDE, COMPACT])
def test_a_server_of_24_10_reads_them(kind: str, parts: Parts, service: ClickHouse) -> None:
    """It attaches what was built, finds rows by the key, and merges them with parts of its own."""
    service.query("SELECT throwIf(NOT startsWith(version(), '24.10'))")
    columns, path = everything(parts, list(TYPES), 9_000)
    ours = parts.create(columns, "(b, a)", OLD + kind)
    parts.build(ours, columns, "(b, a)", [path], format="Native", block_rows=3_500)
    wanted = parts.sql(checksum(columns, ours))
    listed = ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())
    for table in ("built", "own"):
        service.query(
            f"CREATE TABLE {table} ({listed}) ENGINE = MergeTree ORDER BY (b, a) "
            f"SETTINGS {kind.removeprefix(', ')}"
        )
    try:
        place = Path(
            service.query("SELECT data_paths[1] FROM system.tables WHERE name = 'built'").strip()
        )
        for number, part in enumerate(sorted(parts.place(ours).glob("all_*")), 1):
            # 24.10 has no such files, and CHECK TABLE takes them for strangers.
            left_out = shutil.ignore_patterns(
                "columns_substreams.txt", "invalidated_system_columns.txt"
            )
            shutil.copytree(part, place / "detached" / f"all_{number}_{number}_0", ignore=left_out)
        own_user = place.stat()
        for path_ in (place / "detached").rglob("*"):
            shutil.chown(path_, own_user.st_uid, own_user.st_gid)
        service.query("ALTER TABLE built ATTACH PARTITION tuple()")
        assert (
            service.query("SELECT count() FROM system.parts WHERE table = 'built' AND active")
            == "3\n"
        )
        checked = {"check_query_single_value_result": 0}
        lines = service.query("CHECK TABLE built", settings=checked).splitlines()
        assert [line.split("\t")[1] for line in lines] == ["1"] * 3, lines
        assert service.query(checksum(columns, "built")).strip() == wanted
        found, read = (
            service.query(f"SELECT count() FROM built WHERE {b} > 'b' AND a < 1000 {settings}")
            for b, settings in (("b", "SETTINGS force_primary_key = 1"), ("identity(b)", ""))
        )
        assert found == read
        for table in ("own", "own", "built"):
            service.query(f"INSERT INTO {table} FORMAT Native", body=path.read_bytes())
            service.query(f"OPTIMIZE TABLE {table} FINAL")
        assert service.query(checksum(columns, "built")) == service.query(checksum(columns, "own"))
        lines = service.query("CHECK TABLE built", settings=checked).splitlines()
        assert [line.split("\t")[1] for line in lines] == ["1"], lines
    finally:
        for table in ("built", "own"):
            service.query(f"DROP TABLE {table} SYNC")
        parts.drop(ours)


@pytest.mark.parametrize("kind", [WIDE, pytest.param(COMPACT, marks=pytest.mark.long)])
def test_the_newest_engine_restores_parts_of_the_oldest_layout(kind: str, parts: Parts) -> None:
    """As a server does that takes over what was built for servers of any version."""
    columns, path = everything(parts, ["Int32", "String", "LowCardinality(String)"], 9_000)
    ours = parts.create(columns, "(b, a)", OLD + kind)
    parts.build(ours, columns, "(b, a)", [path], format="Native", block_rows=3_500)
    there = parts.create(columns, "(b, a)", kind)
    server = PartServer()
    try:
        folders = sorted(parts.place(ours).glob("all_*"))
        offer = server.offer_parts({f"all_{n}_{n}_0": at for n, at in enumerate(folders, 1)})
        parts.sql(
            f"RESTORE TABLE {TABLE} AS {there} FROM S3({offer.access().reveal()}) "
            "SETTINGS create_table = 'must-exist', allow_different_table_def = 1"
        )
        assert len(folders) == 3
        assert server.sent > offer.bytes / 2
    finally:
        server.close()
    assert parts.check(there) == []
    assert parts.sql(checksum(columns, there)) == parts.sql(checksum(columns, ours))
    parts.sql(f"OPTIMIZE TABLE {there} FINAL")
    assert parts.check(there) == []
    assert parts.sql(checksum(columns, there)) == parts.sql(checksum(columns, ours))
