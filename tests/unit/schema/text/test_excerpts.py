"""Lines from the middle and the end of files, and what they change in the types chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rowfall.core.model import Encoding
from rowfall.core.options import Options
from rowfall.schema import inference
from rowfall.schema.text.excerpts import excerpts
from rowfall.sources import open_source
from unit.memory import CSV, JSON, TSV, Chdb

Write = Callable[[str, str | bytes], Path]
ROWS = 60_000


def types(engine: Chdb, path: Path, encoding: Encoding) -> dict[str, str]:
    source = open_source((str(path),), Options())
    _, made = inference.schema_for(source, source.listing(), encoding, Options(), engine.ask)
    return {c.name: c.type for c in made.columns}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("encoding", "sign", "where"),
    [(CSV, ",", ROWS // 2 + 100), (TSV, "\t", ROWS - 2), (JSON, "", ROWS - 2)],
    ids=["middle of csv", "end of tsv", "end of json"],
)
def test_what_comes_late_in_a_file_counts(
    chdb_engine: Chdb, write: Write, encoding: Encoding, sign: str, where: int
) -> None:
    rows = [["2024-01-01 10:00:00", str(i % 7), str(i % 5)] for i in range(ROWS)]
    for row in rows[where : where + 2]:
        row[1], row[2] = "2.5", "n/a"
    if sign:
        lines = [sign.join(("day", "n", "code")), *map(sign.join, rows)]
    else:
        values = [[d, float(n), c if c == "n/a" else int(c)] for d, n, c in rows]
        lines = [json.dumps(dict(zip(("day", "n", "code"), v, strict=True))) for v in values]
    path = write("x", "\n".join([*lines, ""]))
    assert path.stat().st_size > 1 << 20
    rows_type = {"day": "DateTime('UTC')", "n": "Float64", "code": "LowCardinality(String)"}
    assert types(chdb_engine, path, encoding) == rows_type


def test_pieces_whose_records_may_be_torn_are_left_out(write: Write) -> None:
    line = "1,2\n" * 3 + '3,"a\nb"\n'
    path = write("x.csv", line * 200_000)
    source = open_source((str(path),), Options())
    splits = list(source.listing().splits(""))
    assert excerpts(source, splits, CSV, ("a", "b")) == ""
    path.write_text("1,2\n" * 600_000 + "7,8")  # no newline at the end
    lines = excerpts(source, list(source.listing().splits("")), CSV, ("a", "b")).split("\n")
    assert set(lines) == {"1,2", "7,8"}


def test_files_with_another_order_of_columns_are_left_out(write: Write) -> None:
    path = write("x.csv", "b,a\n" + "1,2\n" * 600_000)
    source = open_source((str(path),), Options())
    named = Encoding("CSVWithNames", "none", CSV.kind)
    assert excerpts(source, list(source.listing().splits("")), named, ("a", "b")) == ""
    assert excerpts(source, list(source.listing().splits("")), named, ("b", "a")) != ""
