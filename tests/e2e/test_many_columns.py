"""Files of very many columns, and lines that are longer than a sample."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from e2e.tools import Shell

COUNT = 30


def write(path: Path, count: int, name: str = "c") -> None:
    names = [f"{name}{n}" for n in range(count)]
    rows = [[n * (row + 1) for n in range(count)] for row in range(2)]
    if path.suffix == ".json":
        lines = [",".join(f'"{n}":{v}' for n, v in zip(names, row, strict=True)) for row in rows]
        path.write_text("".join(f"{{{line}}}\n" for line in lines))
    elif path.suffix == ".parquet":
        values = [pa.array(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(dict(zip(names, values, strict=True))), path)
    else:
        lines = [",".join(map(str, line)) for line in (names, *rows)]
        path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet"])
def test_more_columns_than_allowed_are_refused(shell: Shell, name: str) -> None:
    """200,000 took minutes until the engine gave up; the hint loads them."""
    write(shell.folder / name, COUNT)
    load = ("load", name, "--table", "t")
    done = shell.ends(4, *load, "--max-columns", str(COUNT - 1))
    said = " ".join(done.talk.split())
    assert f"{name} has {COUNT} columns or more, and at most {COUNT - 1} are read" in said
    more = re.search(r"--max-columns (\d+)", said)
    assert more
    assert int(more[1]) >= COUNT
    shell.ok(*load, "--max-columns", more[1])
    assert shell.row(f"SELECT count(), sum(c{COUNT - 1}) FROM t") == [2, 3 * (COUNT - 1)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_the_bound_of_columns_is_met_at_once(shell: Shell, name: str) -> None:
    write(shell.folder / name, 100_000)
    said = " ".join(shell.ends(4, "plan", name).talk.split())
    assert "and at most 10,000 are read" in said


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_header_that_is_longer_than_a_sample(shell: Shell, name: str) -> None:
    """The names behind the first 256 KiB were lost, and then the header did not fit."""
    path = shell.folder / name
    write(path.with_name("a.csv"), 300, "x" * 1000)
    if name.endswith("gz"):
        import gzip

        path.write_bytes(gzip.compress(path.with_name("a.csv").read_bytes()))
    shell.ok("load", name, "--table", "t", "--header", "yes")
    last = "x" * 1000 + "299"
    assert shell.row(f"SELECT count(), sum({last}) FROM t") == [2, 3 * 299]
