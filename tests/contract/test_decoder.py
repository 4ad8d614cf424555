"""rowfall-decode against the engine's own reader, on generated values of every type."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from gate import ALL
from lab.clickhouse import ClickHouse
from lab.process import ServiceError
from rowfall.core import sql
from rowfall.core.options import Options
from rowfall.core.sqltext import quote
from rowfall.decoder import installed
from rowfall.decoder.abilities_table import ABILITIES
from rowfall.sources import open_source
from rowfall.sources.recipes import MADE_COLUMNS, RANDOM, random
from unit.memory import Chdb

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "crates/rowfall-decode/tests"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("differential.py", ["--rows", "10", "--every", "1" if ALL else "6"]),
        ("nested.py", ["--rows", "15", "--kind", "Tuple", "--types", "20"]),
    ],
    ids=["flat", "tuples"],
)
def test_what_it_accepts_the_engine_reads_the_same(script: str, options: list[str]) -> None:
    """A small seed; the scripts alone take any number of them."""
    program = installed.program()
    assert program, "make test builds it: make decoder"
    ran = subprocess.run(
        [sys.executable, SCRIPTS / script, "--first", "1", "--seeds", "1", *options],
        env={
            **os.environ,
            "ROWFALL_DECODE": program,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    accepted = ran.stdout.rsplit("{", 1)[-1]
    assert "accepted" in accepted, ran.stdout[-500:]


def compressed(rows: int, tmp_path: Path) -> bytes:
    """Blocks of the decoder, as a server takes them."""
    (tmp_path / "rows").write_text("".join(f"{n}\ttext {n % 100}\n" for n in range(rows)))
    spec = {
        "version": 2, "inputs": [{"path": str(tmp_path / "rows")}], "format": "TSV",
        "columns": [{"name": "a", "position": 0, "type": "UInt32"},
                    {"name": "b", "position": 1, "type": "String"}],
        "output_compression": "lz4", "sort_by": [1], "outputs": ["-"],
    }  # fmt: skip
    return subprocess.run(
        [str(installed.program()), "run", "--spec", "-"],
        input=json.dumps(spec).encode(), capture_output=True, check=True,
    ).stdout  # fmt: skip


def test_a_server_takes_compressed_blocks(clickhouse: ClickHouse, tmp_path: Path) -> None:
    """And says so when one is damaged: the checksum is the server's."""
    clickhouse.query("CREATE TABLE packed (a UInt32, b String) ENGINE = MergeTree ORDER BY b")
    insert = "INSERT INTO packed FORMAT Native"
    clickhouse.query(insert, body=compressed(200_000, tmp_path), settings={"decompress": 1})
    found = clickhouse.query(
        "SELECT count(), sum(a), countIf(b = concat('text ', toString(a % 100))) FROM packed"
    )
    assert found.split() == ["200000", str(sum(range(200_000))), "200000"]
    # A small block: the server turns over each of its bits, to say which one was damaged.
    damaged = b"x" + compressed(100, tmp_path)[1:]
    with pytest.raises(ServiceError, match="Checksum"):
        clickhouse.query(insert, body=damaged, settings={"decompress": 1})


FIRST, LAST, QUARTER = 86_400, 2_145_830_400, 900


@pytest.fixture(scope="module")
def engine() -> Chdb:
    return Chdb()


# Rows of one attempt, as ranges: from the first one on, in the middle, across what 32 bits hold.
_RANGES = ((0, 40), (1_000, 1_033), (2**32 - 5, 2**32 + 5), (2**62 - 3, 2**62))


@pytest.mark.sampled(14)
@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("size", [1, 2, 3, 15, 16, 17, 170, 171, 512, 4096, 100_000])
def test_it_makes_the_rows_of_the_engine(
    engine: Chdb, tmp_path: Path, seed: int, size: int
) -> None:
    """Every byte, with as many rows a block as there are, and with one."""
    recipe, path = random(seed, size), tmp_path / "native"
    for start, stop in _RANGES:
        select = recipe.select.replace("{range}", f"numbers({start}, {stop - start})")
        made = engine.run(f"SELECT sum(cityHash64(*)), count() FROM ({select})", "TSV")
        for block_rows in (1_000_000, 1):
            _make(seed, size, [(start, stop)], block_rows, path)
            columns = quote(sql.structure(MADE_COLUMNS.items()))
            found = engine.run(
                f"SELECT sum(cityHash64(*)), count() FROM file('{path}', 'Native', {columns})",
                "TSV",
            )
            assert found == made


def test_several_threads_make_rows(engine: Chdb, tmp_path: Path) -> None:
    """Of several ranges, whose rows are all there once."""
    paths = [tmp_path / str(n) for n in range(3)]
    _make(7, 300, [(0, 50_000), (70_000, 70_001), (90_000, 180_000)], 65_536, *paths)
    files = ", ".join(f"'{path}'" for path in paths)
    numbers = "SELECT number FROM numbers(180000) WHERE number < 50000 OR number IN (70000) "
    numbers += "OR number >= 90000"
    made = engine.run(
        "SELECT count(), sum(cityHash64(*)) FROM "
        f"({random(7, 300).select.replace('{range}', f'({numbers})')})",
        "TSV",
    )
    columns = quote(sql.structure(MADE_COLUMNS.items()))
    found = engine.run(
        f"SELECT count(), sum(cityHash64(*)) FROM file([{files}], 'Native', {columns})", "TSV"
    )
    assert found == made
    # Not all three: on a busy machine the others may have taken all blocks before the last begins.
    assert sum(path.stat().st_size > 0 for path in paths) > 1


def _make(
    seed: int, size: int, ranges: list[tuple[int, int]], block_rows: int, *outputs: Path
) -> None:
    """Let the decoder write rows of ``generate://random`` as Native blocks."""
    source = open_source([f"generate://random?seed={seed}&bytes={size}"], Options())
    name = source.listing().uri(0)
    spec = {
        "version": 2, "format": RANDOM, "outputs": [str(path) for path in outputs],
        "inputs": [{"path": name, "start": a, "stop": b} for a, b in ranges],
        "columns": [{"name": n, "type": t} for n, t in MADE_COLUMNS.items()],
        "block_rows": block_rows,
    }  # fmt: skip
    command = [str(installed.program()), "run", "--spec", "-"]
    subprocess.run(command, input=json.dumps(spec).encode(), capture_output=True, check=True)


@pytest.mark.parametrize("zone", sorted(ABILITIES["timezones"]))
@pytest.mark.sampled(3)
def test_local_times_are_the_engines(zone: str, engine: Chdb, tmp_path: Path) -> None:
    """Around every change of the clocks and on every day: the engine's time, or declined."""
    step = int(os.environ.get("ROWFALL_ZONE_STEP", 86_400 + QUARTER))
    text = engine.run(
        "SELECT t, o FROM (SELECT number * 900 AS t, timezoneOffset(toDateTime(t, "
        f"'{zone}')) AS o, lagInFrame(o, 1, o) OVER (ORDER BY t) AS before "
        f"FROM numbers(0, {LAST // QUARTER})) WHERE o != before OR t = 0 ORDER BY t",
        "TSV",
    )
    changes = [(int(t), int(o)) for t, o in (line.split("\t") for line in text.splitlines())]
    once, others = set(range(FIRST, LAST, step)), set()
    for (_, before), (at, after) in pairwise(changes):
        low, high = at + min(before, after), at + max(before, after)
        others |= set(range(low, high, QUARTER))
        once |= set(range(low - 8 * QUARTER, high + 8 * QUARTER, QUARTER))
    once = {t for t in once - others if FIRST <= t < LAST}
    assert _decoded(zone, once, tmp_path) is None
    structure = f"s String, a DateTime('{zone}'), b DateTime64(3, '{zone}')"
    right = f"toString(a) = s AND a = toDateTime(s, '{zone}') AND b = a"
    relation = f"file('{tmp_path / 'native'}', 'Native', {quote(structure)})"
    found = engine.run(f"SELECT count(), countIf({right}) FROM {relation}", "TSV")
    assert found.split() == [str(len(once))] * 2
    for moment in sorted(others)[:: max(1, len(others) // 8)]:
        said = _decoded(zone, {moment}, tmp_path)
        assert said, f"{moment} comes twice or never"
        assert said["error"] == "value"


def _decoded(zone: str, moments: set[int], folder: Path) -> dict[str, object] | None:
    """What the decoder says of a file of local times, None when it accepts all of them."""
    texts = [f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M:%S}" for t in sorted(moments)]
    (folder / "rows").write_text("".join(f"{t}\t{t}\t{t}\n" for t in texts))
    kinds = ("String", f"DateTime('{zone}')", f"DateTime64(3, '{zone}')")
    spec = {
        "version": 2, "inputs": [{"path": str(folder / "rows")}], "format": "TSV",
        "columns": [{"name": n, "position": p, "type": t}
                    for p, (n, t) in enumerate(zip("sab", kinds, strict=True))],
        "outputs": [str(folder / "native")],
    }  # fmt: skip
    done = subprocess.run(
        [os.environ.get("ROWFALL_DECODE") or str(installed.program()), "run", "--spec", "-"],
        input=json.dumps(spec).encode(), capture_output=True, check=False,
    )  # fmt: skip
    return None if done.returncode == 0 else json.loads(done.stderr.splitlines()[-1])


@pytest.mark.parametrize("ahead", [False, True])
def test_it_says_what_it_has_read_of_blocks_that_are_not_written(
    ahead: bool, tmp_path: Path
) -> None:
    """A block of a part holds half of a file; a thread that reads ahead is counted, too."""
    stored = gzip.compress("".join(f"{n}\ttext {n * n}\n" for n in range(600_000)).encode(), 1)
    (tmp_path / "rows.gz").write_bytes(stored)
    os.mkfifo(tmp_path / "out")
    spec = {
        "version": 2, "inputs": [{"path": str(tmp_path / "rows.gz")}], "format": "TSV",
        "compression": "gzip", "read_ahead": ahead, "progress_ms": 5, "block_rows": 10_000_000,
        "columns": [{"name": "a", "position": 0, "type": "UInt32"},
                    {"name": "b", "position": 1, "type": "String"}],
        "outputs": [str(tmp_path / "out")],
    }  # fmt: skip
    program = os.environ.get("ROWFALL_DECODE") or str(installed.program())
    with subprocess.Popen(
        [program, "run", "--spec", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stderr
        process.stdin.write(json.dumps(spec).encode())
        process.stdin.close()
        with (tmp_path / "out").open("rb") as out:
            while out.read(1 << 20):
                pass
        said = [json.loads(line) for line in process.stderr]
    *progress, report = said
    assert report["rows"] == 600_000
    assert progress[-1]["read_bytes"] == progress[-1]["written_bytes"] == len(stored)
    assert progress[-1]["decoded_rows"] == 600_000
    before = [line for line in progress if not line["written_rows"]]
    assert any(0 < line["read_bytes"] < len(stored) for line in before)
