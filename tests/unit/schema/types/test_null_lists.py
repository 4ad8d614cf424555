"""NULL lists are found in a range of rows, too: the footer is at the end of the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rowfall.core.listing import Part
from rowfall.core.model import Column, Encoding, Kind
from rowfall.core.options import Options
from rowfall.core.sqltext import SqlText
from rowfall.schema.other_reading import _cut, _opened
from rowfall.schema.types.null_lists import as_file, null_lists
from rowfall.sources import open_source

PARQUET = Encoding("Parquet", "none", Kind.TYPED)


@pytest.mark.parametrize("null", [False, True])
def test_a_range_of_rows(tmp_path: Path, null: bool) -> None:
    lists = pa.array([[1], None if null else [], [2, 3]] * 1000)
    table = pa.table({"id": pa.array(range(3000)), "v": lists})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1000)
    source = open_source((str(tmp_path / "a.parquet"),), Options())
    whole = source.listing().split(0, "")
    part = Part(whole.size or 0, "id", "1000", "2000")
    split = replace(whole, size=(whole.size or 0) // 3, start=1000, stop=2000, part=part)
    columns = [Column("v", "Array(Int64)", source="v")]

    def ask(query: SqlText, settings: object) -> list[list[list[list[str]]]]:
        assert "ParquetMetadata" in query.reveal()
        return [[[["v.list.element"]] * 3]]

    assert null_lists(source, split, PARQUET, columns, ask) == (["v"] if null else [])
    _, batches = _opened(as_file(source, split), "Parquet")
    rows = pa.Table.from_batches(_cut(batches, 1000, 1000))
    assert rows.column("id").to_pylist() == list(range(1000, 2000))
