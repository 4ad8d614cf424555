"""Parts that rowfall-decode merges of many sorted blocks, against one INSERT of the same rows.

The engine sorts one block of all rows; so rows with equal keys are in the order of the file.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from contract.test_build import (
    COMPACT,
    NULL,
    SEED,
    TYPES,
    WIDE,
    Columns,
    Parts,
    assert_found,
    compared,
    parts,
    pool,
    table_of,
    wide,
)  # fmt: skip

__all__ = ["parts"]
# Rows that are merged: blocks of a prime number, in memory, partly, or all in the file.
HELD = ((1009, 1 << 30), (1009, 1 << 18), (3001, 0))
OLD = (
    ", serialization_info_version = 'basic', string_serialization_version = 'single_stream', "
    "propagate_types_serialization_versions_to_nested_types = 0, "
    "write_marks_for_substreams_in_compact_parts = 0"
)


class Merged:
    """The same tables; what is built comes in many blocks."""

    def __init__(self, parts: Parts, held: tuple[int, int]) -> None:
        self._parts = parts
        self._held = held
        self._numbers = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parts, name)

    def build(
        self, table: str, columns: Columns, key: str, paths: Sequence[Path], **spec: Any
    ) -> None:
        rows, size = self._held
        file = self._parts._folder / f"merged{next(self._numbers)}"
        more = {"block_rows": rows, "merge": {"hold_bytes": size, "file": str(file)}}
        self._parts.build(table, columns, key, paths, **{**more, **spec})
        assert not file.exists()


@pytest.fixture(params=HELD, ids=["memory", "both", "file"])
def merged(request: pytest.FixtureRequest, parts: Parts) -> Any:
    return Merged(parts, request.param)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.sampled(1)
def test_a_key_of_every_type(type_: str, merged: Any) -> None:
    rng = random.Random(f"{SEED} {type_}")
    low = type_.startswith("Low")
    nullable = "LowCardinality(Nullable(String))" if low else f"Nullable({type_})"
    columns = {"k": type_, "m": nullable, "n": "UInt32", "s": "String"}
    count = 20_000
    rows = table_of(
        pool(rng, type_, count, 0.2, some=30), pool(rng, type_, count, 0.2, 0.2, some=300),
        map(str, range(count)), pool(rng, "String", count, 0.95),
    )  # fmt: skip
    for key in ("k", "(m, k)", "(k, s, m)"):
        more = ", allow_nullable_key = 1"
        merged.drop(compared(merged, columns, key, rows, settings=more))


@pytest.mark.parametrize("key", ["", "(b, a)", "(some_12, few_3, b)"])
@pytest.mark.parametrize(
    "settings",
    [WIDE, COMPACT, WIDE + OLD, ", index_granularity = 100" + WIDE,
     ", index_granularity_bytes = 20000" + WIDE,
     ", ratio_of_defaults_for_sparse_serialization = 1" + WIDE,
     ", ratio_of_defaults_for_sparse_serialization = 0.2" + WIDE],
    ids=["wide", "compact", "old", "short", "bytes", "dense", "sparse"],
)  # fmt: skip
@pytest.mark.sampled(2)
def test_columns_of_every_type(key: str, settings: str, merged: Any) -> None:
    columns, rows = wide(random.Random(f"{SEED} {key}"), TYPES, 9_000)
    # By bytes granules are other ones: strings count about as much as they take.
    granules = "_bytes" not in settings
    merged.drop(compared(merged, columns, key, rows, settings=settings, granules=granules))


@pytest.mark.parametrize(
    ("type_", "codec"),
    [("Int64", "Delta, ZSTD(3)"), ("DateTime", "DoubleDelta"), ("Int64", "T64, LZ4HC"),
     ("Float64", "Gorilla")],
)  # fmt: skip
@pytest.mark.long
def test_codecs(type_: str, codec: str, merged: Any) -> None:
    rng = random.Random(f"{SEED} {codec}")
    columns = {"k": "UInt16", "n": type_}
    rows = table_of(*(pool(rng, type_, 20_000, 0.3) for type_ in columns.values()))
    merged.drop(compared(merged, columns, "k", rows, codecs={"n": codec}, settings=WIDE))


@pytest.mark.sampled(1)
def test_threads_write_columns_of_one_part(merged: Any) -> None:
    """Of several files and threads: the rows are those of one part that OPTIMIZE FINAL leaves."""
    rng = random.Random(SEED)
    columns, rows = wide(rng, TYPES, 9_000)
    paths = [merged.file(columns, rows[n::5]) for n in range(5)]
    ours, plain = (merged.create(columns, "(b, a)", WIDE) for _ in range(2))
    merged.build(ours, columns, "(b, a)", paths, outputs=3)
    for path in paths:
        merged.insert(plain, columns, path)
    merged.sql(f"OPTIMIZE TABLE {plain} FINAL")
    assert merged.check(ours) == []
    order = "SELECT count(), sum(cityHash64(rowNumberInAllBlocks(), a, b)) FROM "
    everything = "SELECT sum(cityHash64(*)), groupBitXor(cityHash64(*)) FROM "
    for query in (order, everything):
        found = [merged.sql(query + table, max_threads=1) for table in (ours, plain)]
        assert found[0] == found[1]
    # Granules are those of one INSERT; merges of the engine cut wide rows in another way.
    listed = "SELECT count(), sum(rows) FROM system.parts WHERE active AND table = "
    assert merged.sql(f"{listed}'{ours}'") == merged.sql(f"{listed}'{plain}'") == f"1\t{len(rows)}"
    for condition in ("b = ''", "b > 'k' AND a < 0", "b < 'c' AND a >= 0"):
        assert_found(merged, ours, condition)
    # What the engine merges it with is merged right.
    merged.insert(ours, columns, paths[0])
    merged.sql(f"OPTIMIZE TABLE {ours} FINAL")
    assert merged.check(ours) == []
    assert count_of(merged, ours) == len(rows) + len(rows[0::5])
    merged.drop(ours, plain)


def count_of(merged: Any, table: str) -> int:
    return int(merged.sql(f"SELECT count() FROM {table} WHERE NOT ignore(*)"))


def quoted(*values: str) -> list[str]:
    return [f'"{value}"' for value in values]


# Values whose order is easily got wrong.
ODD = {
    "Float32": ["nan", "-0.0", "0", "inf", "-inf", "1e-45", "-1e-45", "1"],
    "Float64": ["nan", "-0.0", "0", "inf", "-inf", "5e-324", "-5e-324", "1"],
    "String": quoted("", "\0", "\0\0", "\0a", "a", "a\0", "a\0\0", "a\x01", "a\0b", "é", "z" * 300),
    "FixedString(3)": quoted("\0\0a", "a", "a\0b", "a\x01", "é"),
    "Int64": [str(-(1 << 63)), str((1 << 63) - 1), "0", "-1"],
    "UInt64": [str((1 << 64) - 1), "0", "1"],
    "Int128": [str(-(1 << 127)), str((1 << 127) - 1), "0", "-1"],
}


@pytest.mark.parametrize("type_", ODD)
@pytest.mark.long
def test_keys_of_odd_values(type_: str, merged: Any) -> None:
    """NULLs, NaN, both zeros, ends of strings; whole blocks of them, and of one value."""
    rng = random.Random(f"{SEED} {type_}")
    columns = {"k": f"Nullable({type_})", "l": type_, "m": "Nullable(UInt64)", "n": "UInt32"}
    values, most = ODD[type_], str((1 << 64) - 1)
    rows = [
        [
            rng.choice([*values, NULL]) if not 2000 < n < 5100 else NULL,
            rng.choice(values) if not 4000 < n < 9000 else values[0],
            rng.choice([NULL, "0", most] if n > 7000 else [NULL]),
            str(n),
        ]
        for n in range(12_000)
    ]
    for key in ("k", "(l, k)", "(m, l)", "(m, k, l)"):
        # Text with nan and inf is the engine's to read.
        format = "Native" if type_.startswith("Float") else "CSV"
        more = ", allow_nullable_key = 1"
        merged.drop(compared(merged, columns, key, rows, format=format, settings=more))


@pytest.mark.parametrize("count", [0, 1, 2, 1009, 1010, 8191, 8192, 8193, 32_768, 32_769])
@pytest.mark.long
def test_sizes_at_limits(count: int, merged: Any) -> None:
    """Of blocks, granules and pieces."""
    rng = random.Random(f"{SEED} {count}")
    columns = {"a": "UInt8", "s": "String", "n": "Nullable(Int32)"}
    rows = table_of(
        pool(rng, "UInt8", count, 0.2), pool(rng, "String", count, 0.2),
        pool(rng, "Int32", count, 0.2, 0.2),
    )  # fmt: skip
    if not count:
        path = merged.file(columns, rows)
        table = merged.create(columns, "a")
        merged.build(table, columns, "a", [path])
        assert count_of(merged, table) == 0
        return
    for key in ("", "a", "(s, a)"):
        merged.drop(compared(merged, columns, key, rows, settings=WIDE))


@pytest.mark.long
def test_long_keys_and_wide_rows(merged: Any) -> None:
    """A piece has a few rows only; keys are longer than those that are looked at together."""
    rng = random.Random(SEED)
    columns = {"k": "String", "n": "UInt32", "w": "String"}
    rows = [
        [rng.choice("ab") * rng.randrange(9_000), str(n), "w" * rng.randrange(20_000)]
        for n in range(2_500)
    ]
    merged.drop(compared(merged, columns, "(k, n)", rows, settings=WIDE))
