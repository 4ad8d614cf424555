"""ORC and Parquet whose headers lie about lengths and numbers of rows, and ``--memory``."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from faults import bombs
from faults.test_bombs import SECONDS, kept

pytestmark = [pytest.mark.long, pytest.mark.timeout(20 * SECONDS)]

# Of a group one load reads all files, each of which fails or loads by itself.
GROUPS, EACH = 24, 25
CODECS = {
    "orc": ("uncompressed", "zlib", "zstd", "snappy"),
    "parquet": ("none", "gzip", "zstd", "snappy"),
}


def sound(path: Path, form: str, compression: str, rows: int) -> tuple[bytes, int]:
    """Return a file with columns of each family, in two parts or more, and its footer's length."""
    import pyarrow as pa
    from pyarrow import orc, parquet

    table = pa.table({
        "id": pa.array(range(rows), pa.int64()),
        "t": pa.array([f"text {n % 97}" for n in range(rows)]),
        "u": pa.array([f"{n * 7919:x}" * 3 for n in range(rows)]),
        "d": pa.array([n / 3 for n in range(rows)]),
        "l": pa.array([[n, n + 1] for n in range(rows)], pa.list_(pa.int32())),
        "m": pa.array([[("k", n)] for n in range(rows)], pa.map_(pa.string(), pa.int32())),
    })  # fmt: skip
    if form == "orc":
        orc.write_table(table, path, compression=compression, stripe_size=1 << 16)
        return path.read_bytes(), 1 << 10
    parquet.write_table(
        table, path, compression=compression, row_group_size=rows // 2, store_schema=False,
        data_page_version="2.0" if rows % 3 else "1.0", use_dictionary=["t", "u"],
        data_page_size=1 << 12,
    )  # fmt: skip
    data = path.read_bytes()
    return data, int.from_bytes(data[-8:-4], "little") + 8


def mutated(r: random.Random, data: bytes, tail: int) -> bytes:
    """Return a file some of whose bytes are others: in its tail, mostly; lengths become large."""
    found = bytearray(data)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        at = r.randrange(len(found) - tail, len(found)) if r.random() < 0.7 else None
        at = r.randrange(3, len(found)) if at is None else at
        how = r.randrange(5)
        if how == 0:
            found[at] ^= 1 << r.randrange(8)
        elif how == 1:
            found[at] = r.choice((0, 0x7F, 0x80, 0xFF))
        else:  # a varint of several bytes, up to 2^35
            for more in range(min(r.randrange(1, 5), len(found) - 1 - at)):
                found[at + more] |= 0x80
    return bytes(found)


@pytest.mark.parametrize(
    ("form", "group"),
    [*(("orc", group) for group in range(GROUPS)), ("parquet", 0)],
)
def test_lying_headers(rowfall: Any, tmp_path: Path, form: str, group: int) -> None:
    rows = (400, 20_000, 4_999)[group // 4 % 3]
    data, tail = sound(tmp_path / f"sound.{form}", form, CODECS[form][group % 4], rows)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(EACH):
        r = random.Random(f"{group} {number}")
        (folder / f"f{number}.{form}").write_bytes(mutated(r, data, tail))
    own = {**os.environ, "HOME": str(rowfall.home), "ROWFALL_HOME": str(rowfall.home / "state")}
    words = bombs.rowfall("load", f"{folder}/*.{form}", "--table", "t", "--memory", "1GiB")
    taken = bombs.measure(words, rowfall.cwd, own, 4 * SECONDS)
    kept(taken)
    assert taken.code in (0, 1, 4), taken.out
