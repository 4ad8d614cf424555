"""Definitions of tables: what is read out of them, refused, and made by the engine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rowfall.plan.table_definition import Definition, completions, parse, refusal, violations

TABLE = (
    "CREATE TABLE d.`t (x` (`a` UInt32, `s, (` String DEFAULT concat('), ', toString(a)) "
    "COMMENT 'a, b' CODEC(Delta(4), ZSTD(1)), `t` DateTime TTL t + toIntervalDay(1), "
    "`m` UInt8 MATERIALIZED a + 1, "
    "`n` UInt8 ALIAS m + 1, `o` UInt8 DEFAULT n + rand(), `e` Array(Tuple(x UInt8, y String)), "
    "INDEX i s TYPE set(0) GRANULARITY 1, INDEX `j j` a TYPE minmax GRANULARITY 4, "
    "CONSTRAINT c CHECK (a > 0) AND (s != ')'), CONSTRAINT d ASSUME a < 9, "
    "PROJECTION p (SELECT s, count() GROUP BY s)) ENGINE = ReplacingMergeTree(a) ORDER BY (a, t) "
    "TTL t + toIntervalYear(1) SETTINGS index_granularity = 8192, storage_policy = 'default'"
)


def table(text: str = TABLE) -> Definition:
    found = parse(text)
    assert found is not None
    return found


def plain(column: str = "", tail: str = "ORDER BY a") -> Definition:
    return table(f"CREATE TABLE d.t (`a` UInt32{column}) ENGINE = MergeTree {tail}")


def test_what_a_definition_says() -> None:
    found = table()
    assert [(c.name, c.type, c.kind) for c in found.columns] == [
        ("a", "UInt32", ""), ("s, (", "String", "DEFAULT"), ("t", "DateTime", ""),
        ("m", "UInt8", "MATERIALIZED"), ("n", "UInt8", "ALIAS"), ("o", "UInt8", "DEFAULT"),
        ("e", "Array(Tuple(x UInt8, y String))", ""),
    ]  # fmt: skip
    assert found.columns[1].expression == "concat('), ', toString(a))"
    assert found.columns[1].codec == "Delta(4), ZSTD(1)"
    assert found.engine == "ReplacingMergeTree"
    assert found.indices == ("i", "j j")
    assert found.projections == ("p",)
    assert found.constraints == ("(a > 0) AND (s != ')')",)
    assert found.settings == {"index_granularity": "8192", "storage_policy": "default"}
    assert found.clauses["ORDER"] == "BY (a, t)"
    assert found.expires
    assert refusal(found, {"a", "t"}) is None
    assert violations(found, "`d`.`x`") == (
        "SELECT count() FROM `d`.`x` WHERE NOT (ifNull(((a > 0) AND (s != ')')), 0))"
    )
    assert violations(plain(), "`d`.`x`") is None


def test_a_default_is_made_after_what_it_is_computed_from() -> None:
    assert completions(table(), {"a", "t"}) == [
        "MATERIALIZE COLUMN `s, (`, MATERIALIZE COLUMN `m`, UPDATE `e` = defaultValueOfTypeName("
        "'Array(Tuple(x UInt8, y String))') WHERE 1",
        "MATERIALIZE COLUMN `o`, MATERIALIZE INDEX `i`, MATERIALIZE INDEX `j j`, "
        "MATERIALIZE PROJECTION `p`",
        "MATERIALIZE TTL",
    ]
    assert completions(plain(), {"a"}) == []


@pytest.mark.parametrize(
    ("column", "tail", "filled", "why"),
    [
        (" CODEC(FPC)", "ORDER BY a", "a", "only the engine writes the codec FPC (column a)"),
        (" CODEC(FPC)", "ORDER BY tuple()", "", None),
        (" CODEC(Delta(4), T64('bit'), ZSTD(22))", "ORDER BY a", "a", None),
        (" CODEC(Delta(4), LZ4HC(9), ZSTD(3, 27))", "ORDER BY a", "a", None),
        (" CODEC(GCD, LZ4)", "ORDER BY a", "a",
         "only the engine writes the codec GCD (column a)"),
        ("", "ORDER BY a SETTINGS index_granularity_bytes = 0", "a",
         "its setting index_granularity_bytes = 0 is the engine's"),
        ("", "ORDER BY a SETTINGS max_compress_block_size = 100", "a",
         "its compressed blocks have up to 100 bytes"),
        (", `b` UInt8 EPHEMERAL", "ORDER BY a", "a", "the column b is EPHEMERAL"),
        (" STATISTICS(tdigest)", "ORDER BY a", "a", "the column a has STATISTICS (tdigest)"),
        ("", "ORDER BY a SAMPLE BY a", "a", None),
        ("", "PRIMARY KEY b ORDER BY (a, b)", "a",
         "its primary key is not the beginning of its sorting key"),
        ("", "ORDER BY (a, b DESC)", "a", "its key is reversed (b DESC)"),
        ("", "PRIMARY KEY a ORDER BY (a, b)", "a", None),
        ("", "PRIMARY KEY (a, -b) ORDER BY (a, -b, d)", "a", None),
        ("", "PRIMARY KEY tuple() ORDER BY a", "a", None),
        ("", "ORDER BY a TTL d + toIntervalDay(1) TO DISK 'x'", "a",
         "its TTL moves rows to other disks"),
        ("", "ORDER BY a SETTINGS storage_policy = 'hot'", "a",
         "its setting storage_policy = hot is the engine's"),
        ("", "ORDER BY a SETTINGS merge_max_block_size = 100, old_parts_lifetime = 5", "a", None),
        ("", "ORDER BY a SETTINGS min_rows_for_wide_part = 1, min_level_for_wide_part = 1, "
         "compact_parts_max_bytes_to_buffer = 5", "a", None),
        (", `b` UInt8 DEFAULT 1", "ORDER BY a SETTINGS min_bytes_for_wide_part = 20000000", "a",
         "min_bytes_for_wide_part = 20000000 asks for compact parts, all of which the engine would "
         "write again for what they lack"),
        (", `b` UInt8 DEFAULT 1", "ORDER BY a SETTINGS min_bytes_for_wide_part = 10000000", "a",
         None),
        ("", "ORDER BY a SETTINGS compress_per_column_in_compact_parts = 0", "a",
         "its setting compress_per_column_in_compact_parts = 0 is the engine's"),
        ("", "ORDER BY a SETTINGS string_serialization_version = 'single_stream', "
         "serialization_info_version = 'basic', write_marks_for_substreams_in_compact_parts = 0",
         "a", None),
        ("", "ORDER BY a SETTINGS serialization_info_version = 'new'", "a",
         "its setting serialization_info_version = new is the engine's"),
        ("", "ORDER BY a SETTINGS propagate_types_serialization_versions_to_nested_types = 0", "a",
         "its setting propagate_types_serialization_versions_to_nested_types = 0 is the engine's"),
    ],
)  # fmt: skip
def test_what_is_refused(column: str, tail: str, filled: Sequence[str], why: str | None) -> None:
    assert refusal(plain(column, tail), set(filled)) == why


@pytest.mark.parametrize(
    ("tail", "key", "primary"),
    [
        ("(s, v) ORDER BY (k, f(b))", "(k, f(b), v)", 2),
        ("(s, `v x`) PRIMARY KEY k ORDER BY (k, b)", "(k, b, `v x`)", 1),
        ("(s, v) ORDER BY tuple()", "(v)", 0),
    ],
)
@pytest.mark.parametrize("replicated", [False, True])
def test_versions_are_sorted_by_and_in_no_index(
    tail: str, key: str, primary: int, replicated: bool
) -> None:
    engine = f"VersionedCollapsingMergeTree{tail}"
    if replicated:
        engine = f"Replicated{engine}".replace("(s", "('/path', '{replica}', s")
    found = parse(f"CREATE TABLE d.t (`k` UInt8) ENGINE = {engine}")
    assert found is not None
    assert (found.sorting_key, found.primary_elements) == (key, primary)
