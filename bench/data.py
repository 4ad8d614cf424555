"""What is loaded: tables, cases, and the files, made once into a cache folder by rowfall itself."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import BenchError, run
from rowfall.core.options import Options
from rowfall.core.sql import literal, structure
from rowfall.sources import open_source

ROWFALL = Path(sys.executable).parent / "rowfall"
ROWS = {"trips": 50_000_000, "taxi": 2_000_000, "hits": 1_000_000}
FILES = {"trips": 20, "taxi": 4, "hits": 4}
BUCKET = "rowfall-bench"
SMALL = "small"


@dataclass(frozen=True, slots=True)
class Case:
    """One table in one format at one place.

    Attributes:
        table: a generator of rowfall.
        suffix: extension of the files; decides format and compression for rowfall.
        format: the engine's name of the format.
        remote: read from the S3 service, not from disk.
        partition_by: partition key of the target, "" for none.
        merged: merges behind the load are measured, too.
    """

    name: str
    title: str
    table: str
    suffix: str
    format: str
    remote: bool = False
    partition_by: str = ""
    merged: bool = False


_ALL = (
    Case("trips-disk", "trips, csv.gz on disk", "trips", "csv.gz", "CSV", merged=True),
    Case("trips-s3", "trips, csv.gz in S3", "trips", "csv.gz", "CSV", remote=True),
    Case("taxi-csv", "taxi, csv.gz on disk", "taxi", "csv.gz", "CSV"),
    Case("taxi-json", "taxi, json.gz on disk", "taxi", "json.gz", "JSONEachRow"),
    Case("taxi-parquet", "taxi, Parquet on disk", "taxi", "parquet", "Parquet"),
    Case(
        "trips-partitioned", "trips, csv.gz on disk, into 56 partitions", "trips", "csv.gz", "CSV",
        partition_by="duration_seconds", merged=True,
    ),
    Case("hits-tsv", "hits (105 columns), tsv.gz on disk", "hits", "tsv.gz", "TSVWithNames"),
    Case("hits-parquet", "hits (105 columns), Parquet on disk", "hits", "parquet", "Parquet"),
)  # fmt: skip
CASES = {case.name: case for case in _ALL}


def select(text: str | None) -> list[str]:
    """Names of the cases in ``text`` (comma-separated; nothing means all), :data:`SMALL` included.

    Raises:
        BenchError: a name that is no case, or no name at all: a run must not measure nothing.
    """
    known = [*CASES, SMALL]
    if text is None:
        return known
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        said = f"no case is called {', '.join(unknown)}" if unknown else "no case is named"
        raise BenchError(f"{said}; cases are {', '.join(known)}")
    return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and sorting key, as the generator gives them."""

    columns: tuple[tuple[str, str], ...]
    order_by: str

    @property
    def structure(self) -> str:
        return structure(self.columns)

    def sums(self) -> str:
        """A SELECT list that touches every column and costs next to nothing beyond reading it."""
        return ", ".join(f"sum({_number(name, kind)})" for name, kind in self.columns)


def _number(name: str, kind: str) -> str:
    if "String" in kind:
        return f"length(`{name}`)"
    return f"toUInt32(`{name}`)" if "Date" in kind else f"`{name}`"


def table(name: str) -> Table:
    made = open_source((f"generate://{name}",), Options()).made
    if made is None:
        raise BenchError(f"{name} is no generator")
    return Table(tuple((c.name, c.type) for c in made.columns), made.layout.order_by)


@dataclass(frozen=True, slots=True)
class Input:
    """A case that is ready to be read.

    Attributes:
        source: SOURCE of ``rowfall load``.
        relation: the same as the engine's table function.
        files, size: how many files and their bytes.
        env: what rowfall needs in its environment (keys of the S3 service).
    """

    case: Case
    table: Table
    rows: int
    files: int
    size: int
    source: str
    relation: str
    env: Mapping[str, str] = field(default_factory=dict)


def make(root: Path, name: str, suffix: str, rows: int, files: int) -> list[Path]:
    """The files of one table in one format, written by ``rowfall load`` unless they are there.

    Raises:
        BenchError: rowfall failed, or wrote other rows than asked for.
    """
    folder = root / f"{name}-{rows}-{files}-{suffix}"
    if not folder.exists():
        print(f"writing {rows:,} rows of {name} into {files} {suffix} files ...", flush=True)
        growing = root / f"{folder.name}.growing"
        shutil.rmtree(growing, ignore_errors=True)
        command: list[str | Path] = [
            ROWFALL, "load", f"generate://{name}?rows={rows}", "--json",
            "--to", growing / f"part_{{n}}.{suffix}", "--files", str(files),
        ]  # fmt: skip
        # A ledger of its own: the user's would remember files that have been deleted since.
        state = {"ROWFALL_HOME": str(growing / "state")}
        written = report(run(command, env=state).output)["rows"]
        if written != rows:
            raise BenchError(f"rowfall wrote {written:,} rows of {name} instead of {rows:,}")
        shutil.rmtree(growing / "state", ignore_errors=True)
        growing.rename(folder)
    found = sorted(folder.glob(f"part_*.{suffix}"))
    if len(found) != files:
        raise BenchError(f"{folder} holds {len(found)} files instead of {files}; delete it")
    return found


def report(output: bytes) -> dict[str, Any]:
    """The report of ``rowfall load --json``. Raises BenchError when it was not done."""
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError:
        raise BenchError(f"rowfall printed no report: {output[:200]!r}") from None
    if found.get("outcome") != "done":
        raise BenchError(f"rowfall ended as {found.get('outcome')}: {found.get('failures')}")
    return found


def scaled(name: str, scale: float) -> int:
    """Rows of a table at a scale, at least enough for a few in every file."""
    return max(int(ROWS[name] * scale), 100 * FILES[name])


@contextlib.contextmanager
def opened(case: Case, root: Path, scale: float) -> Iterator[Input]:
    """The case's files on disk or in an S3 service that runs as long as the block."""
    rows, count = scaled(case.table, scale), FILES[case.table]
    files = make(root, case.table, case.suffix, rows, count)
    size = sum(len(path.read_bytes()) for path in files)  # now they are in the page cache as well
    columns = table(case.table)
    tail = f"{literal(case.format)}, {literal(columns.structure)})"
    if not case.remote:
        pattern = str(files[0].parent / f"part_*.{case.suffix}")
        relation = f"file({literal(pattern)}, {tail}"
        yield Input(case, columns, rows, count, size, pattern, relation)
        return
    with served(files) as (url, env):
        keys = (env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"])
        place = ", ".join(map(literal, (f"{url}/{BUCKET}/part_*.{case.suffix}", *keys)))
        source = f"s3://{BUCKET}/part_*.{case.suffix}"
        yield Input(case, columns, rows, count, size, source, f"s3({place}, {tail}", env)


@contextlib.contextmanager
def served(files: Sequence[Path]) -> Iterator[tuple[str, dict[str, str]]]:
    """A real S3 service that holds ``files``: its URL, and the variables that point to it."""
    from lab.seaweed import Seaweed  # the tests' own starter

    with Seaweed() as service:
        service.create_bucket(BUCKET)
        for path in files:
            service.put(BUCKET, path.name, path.read_bytes())
        yield service.endpoint, service.env
