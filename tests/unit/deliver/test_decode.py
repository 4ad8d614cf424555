"""Settings of the statements that take what rowfall-decode makes."""

from __future__ import annotations

from rowfall.deliver.decode import block_by_block


def test_an_engine_puts_no_two_blocks_together() -> None:
    sizes = {"min_insert_block_size_rows": 1_000, "min_insert_block_size_bytes": 9_000}
    assert block_by_block({**sizes, "max_threads": 2, "a": "b"}) == {
        "min_insert_block_size_rows": 500, "min_insert_block_size_bytes": 4_500,
        "max_threads": 2, "a": "b",
    }  # fmt: skip
    assert block_by_block({"min_insert_block_size_rows": 1}) == {"min_insert_block_size_rows": 1}
    parquet = {**sizes, "input_format_parquet_max_block_size": 2_000}
    assert block_by_block(parquet) == parquet, "half of a block is enough already"
