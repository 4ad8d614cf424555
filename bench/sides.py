"""The sides of the comparison: each is a command that loads one input into a fresh folder."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.data import ROWFALL, Input, report
from bench.measure import BenchError, Result, run
from rowfall.core.sql import settings_clause

ENGINE, LOAD = "engine", "rowfall"
ENGINE_FLOOR, READ_FLOOR = "engine floor", "rowfall floor"
ROWFALL_NAME = "rowfall load"
TABLE = "t"
_SCRIPT = Path(__file__).with_name("engine_load.py")

# Asked of every loaded folder after its run, outside of the measurement. A tuple is hashed, so
# that NULLs count; the sum does not depend on the order of rows.
_PARTS = (
    "SELECT count(), toUInt64(sum(bytes_on_disk)) FROM system.parts "
    f"WHERE active AND rows > 0 AND database = 'default' AND table = '{TABLE}'"
)
_SUM = f"SELECT toString(count()), toString(sum(cityHash64(tuple(*)))) FROM {TABLE}"
_SHAPE = (
    "SELECT engine, sorting_key, partition_key, (SELECT groupArray((name, type)) FROM "
    "(SELECT name, type FROM system.columns WHERE database = 'default' "
    f"AND table = '{TABLE}' ORDER BY position)) FROM system.tables "
    f"WHERE database = 'default' AND name = '{TABLE}'"
)


@dataclass(frozen=True, slots=True)
class Side:
    """One way to load: a name for the tables, what kind it is, and what it sets by hand."""

    name: str
    kind: str
    settings: Mapping[str, int] = field(default_factory=dict)

    def result(self) -> Result:
        return Result(self.name, self.kind, dict(self.settings))


def published(cores: int, memory: int) -> list[Side]:
    """The engine as it comes, and as two well-known articles tune it.

    Args:
        memory: bytes a load may use: the same half of what is free that rowfall takes.
    """
    threads = max(1, cores // 2)
    return [
        Side("engine, defaults", ENGINE),
        Side(
            "engine, tuned as in \"100B rows\"", ENGINE,
            {
                "max_threads": cores,
                "max_insert_threads": cores,
                "input_format_parallel_parsing": 0,
                "min_insert_block_size_rows": 5_000_000,
            },
        ),
        Side(
            "engine, tuned by formula", ENGINE,
            {
                "max_insert_threads": threads,
                "min_insert_block_size_bytes": memory // (3 * threads),
                "min_insert_block_size_rows": 0,
            },
        ),
    ]  # fmt: skip


def sweep(cores: int, *, text: bool) -> list[Side]:
    """Every cell of the sweep; only text formats have parallel parsing to switch."""
    threads = sorted({1, cores})
    blocks = (1_000_000, 2_500_000, 5_000_000, 10_000_000)
    cells = itertools.product(threads, blocks, (0, 1) if text else (0,))
    return [
        Side(
            cell_name(insert, rows, parallel), ENGINE,
            {
                "max_threads": cores,
                "max_insert_threads": insert,
                "min_insert_block_size_rows": rows,
                # The default of 256 MiB would end blocks of wide rows first: all cells the same.
                "min_insert_block_size_bytes": 0,
                "input_format_parallel_parsing": parallel,
            },
        )
        for insert, rows, parallel in cells
    ]  # fmt: skip


def cell_name(threads: int, rows: int, parallel: int) -> str:
    return f"{threads} x {rows / 1e6:g} M rows, parallel parsing {'on' if parallel else 'off'}"


def final(opponents: list[Side], best: Side) -> list[Side]:
    """The sides of the interleaved rounds, in the order they take turns."""
    tuned = Side("engine, best of the sweep", ENGINE, best.settings)
    reading = {k: v for k, v in best.settings.items() if not k.startswith(("max_ins", "min_ins"))}
    return [
        *opponents,
        tuned,
        Side(ROWFALL_NAME, LOAD),
        Side("read only: rowfall load --to null:", READ_FLOOR),
        Side("read only: engine, SELECT sum(...)", ENGINE_FLOOR, reading),
    ]


def once(side: Side, given: Input, folder: Path, result: Result, *, merged: bool = False) -> None:
    """Run a side once in a fresh folder, check what it left, and add both to ``result``.

    Args:
        merged: let the plain engine merge what was left, and measure that, too.

    Raises:
        BenchError: it failed, or the table is not the table of the other sides.
    """
    # Nothing is removed before all sides have had their turns: for minutes after files have been
    # deleted ext4 looks for inodes that are none of theirs, which took up to a tenth of the CPU of
    # the loads behind, the more the more files they make.
    folder.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(dir=folder))
    try:
        _once(side, given, own, result)
        if merged and side.kind in (LOAD, ENGINE):
            _merge(own / "data", result)
    except BenchError as error:
        raise BenchError(f"{side.name}: {error}") from None


def _once(side: Side, given: Input, folder: Path, result: Result) -> None:
    to = folder / "data"
    if side.kind in (LOAD, READ_FLOOR):
        state = {"ROWFALL_HOME": str(folder / "state"), **given.env}
        target = str(to) if side.kind == LOAD else "null:"
        sample = run(_rowfall(given, target, table=side.kind == LOAD), env=state)
        told = report(sample.output)
        result.add(sample, told["rows"])
        kept = ("seconds", "cpu_seconds", "phases", "settings", "attempts", "limited_by")
        result.notes.append({name: told.get(name) for name in kept})
    else:
        sample = run(
            [sys.executable, _SCRIPT], stdin=json.dumps(_request(side, given, to)).encode()
        )
        told = json.loads(sample.output)
        rows = int(told["answers"][0][0][0]) if side.kind == ENGINE_FLOOR else given.rows
        result.add(sample, rows)
        result.notes.append({"seconds": told["seconds"]})
    if side.kind in (LOAD, ENGINE):
        _check(given, to, result)


def _merge(to: Path, result: Result) -> None:
    request = {"path": str(to), "run": [], "ask": [_SUM], "merge": TABLE}
    sample = run([sys.executable, _SCRIPT], stdin=json.dumps(request).encode())
    told = json.loads(sample.output)
    ((rows, checksum),) = told["answers"][0]
    result.rows.append(int(rows))
    result.checksums.append(checksum)
    single, final = told["merged"]
    result.single.append(tuple(single))
    result.final.append(tuple(final))


def _rowfall(given: Input, to: str, *, table: bool) -> list[str | Path]:
    command: list[str | Path] = [
        ROWFALL, "load", given.source, "--json", "--to", to, "--schema", given.table.structure,
    ]  # fmt: skip
    if table:
        command += ["--table", TABLE, "--order-by", given.table.order_by]
        if given.case.partition_by:
            command += ["--partition-by", given.case.partition_by]
    return command


def _request(side: Side, given: Input, to: Path) -> dict[str, Any]:
    clause = settings_clause(side.settings)
    if side.kind == ENGINE_FLOOR:
        # A bare count() could come from a cache; sums have to read every column.
        ask = f"SELECT toString(count()), {given.table.sums()} FROM {given.relation}{clause}"
        return {"path": str(to), "run": [], "ask": [ask]}
    partition = f" PARTITION BY {given.case.partition_by}" if given.case.partition_by else ""
    create = (
        f"CREATE TABLE {TABLE} ({given.table.structure}) ENGINE = MergeTree{partition} "
        f"ORDER BY {given.table.order_by}"
    )
    insert = f"INSERT INTO {TABLE} SELECT * FROM {given.relation}{clause}"
    return {"path": str(to), "run": [create, insert], "ask": []}


def _check(given: Input, to: Path, result: Result) -> None:
    """Rows, parts, checksum and definition, read by the plain engine whoever loaded the table."""
    stop = "SYSTEM STOP MERGES"
    request = {"path": str(to), "run": [stop], "ask": [_PARTS, _SUM, _SHAPE]}
    sample = run([sys.executable, _SCRIPT], stdin=json.dumps(request).encode())
    ((parts, stored),), ((rows, checksum),), shape = json.loads(sample.output)["answers"]
    result.rows[-1] = int(rows)
    result.parts.append(int(parts))
    result.stored.append(int(stored))
    result.checksums.append(checksum)
    wanted = ["MergeTree", given.table.order_by.strip("()"), given.case.partition_by,
              [list(column) for column in given.table.columns]]  # fmt: skip
    if shape != [wanted]:
        raise BenchError(f"the table is {shape} instead of {wanted}")
