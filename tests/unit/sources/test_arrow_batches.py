"""Streams of Arrow inside LZ4 frames are read back as they were written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rowfall.sources.arrow_batches import in_frames, rows_in_frames


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_rows_of_frames_are_those_of_the_batches(batches: int) -> None:
    """Tabs and line ends are part of values; a stream of no rows has none."""
    schema = pa.schema({"name": pa.string(), "size": pa.int64()})
    rows = [["a\tb\n", 1 << 62], ["", None]]
    batch = pa.record_batch(list(zip(*rows, strict=True)), schema=schema)
    found = rows_in_frames(b"".join(in_frames(schema, [batch] * batches)))
    assert found == rows * batches
