"""One reader of CSV in a process of its own, for parse.py: reads the files and drops what it read.

Reads a JSON object from stdin: {"reader", "files", "columns": [[name, ClickHouse type]], "null",
"spec": of rowfall-decode, "program": its path}. Writes one to stdout: {"rows", "cpu", "wall",
"version"}: seconds from after the imports to the end, of this process and those it started.

Runs with whatever Python has the reader; of rowfall nothing is imported.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

Job = dict[str, Any]
# What a reader gives back before it is timed: the reading itself, which returns rows.
Ready = Callable[[], int]
_COPIED = 1 << 20  # bytes that are read and copied at once: they stay in the cache


def bare(type_: str) -> str:
    """``Nullable(FixedString(1))`` is a String for everybody but ClickHouse."""
    found = re.fullmatch(r"Nullable\((.*)\)", type_)
    name = found[1] if found else type_
    return "String" if name.startswith("FixedString") else name


def pyarrow(job: Job) -> Ready:
    import pyarrow as pa
    from pyarrow import csv

    types = {
        "String": pa.string(), "DateTime": pa.timestamp("s"), "Float32": pa.float32(),
        "Float64": pa.float64(), "Int8": pa.int8(), "UInt8": pa.uint8(), "UInt32": pa.uint32(),
    }  # fmt: skip
    options = {
        "read_options": csv.ReadOptions(column_names=[name for name, _ in job["columns"]]),
        "convert_options": csv.ConvertOptions(
            column_types={name: types[bare(type_)] for name, type_ in job["columns"]},
            null_values=[job["null"]], strings_can_be_null=True,
        ),
    }  # fmt: skip
    return lambda: sum(csv.read_csv(path, **options).num_rows for path in job["files"])


def polars(job: Job) -> Ready:
    import polars as pl

    types = {
        "String": pl.String, "DateTime": pl.Datetime, "Float32": pl.Float32,
        "Float64": pl.Float64, "Int8": pl.Int8, "UInt8": pl.UInt8, "UInt32": pl.UInt32,
    }  # fmt: skip
    schema = {name: types[bare(type_)] for name, type_ in job["columns"]}

    def read() -> int:
        null = [job["null"]]
        return sum(
            pl.read_csv(path, has_header=False, schema=schema, null_values=null).height
            for path in job["files"]
        )

    return read


def duckdb(job: Job) -> Ready:
    import duckdb

    types = {
        "String": "VARCHAR", "DateTime": "TIMESTAMP", "Float32": "FLOAT", "Float64": "DOUBLE",
        "Int8": "TINYINT", "UInt8": "UTINYINT", "UInt32": "UINTEGER",
    }  # fmt: skip
    columns = {name: types[bare(type_)] for name, type_ in job["columns"]}
    relation = (
        f"read_csv({job['files']!r}, header = false, auto_detect = false, delim = ',', "
        f"quote = '\"', nullstr = '{job['null']}', columns = {columns!r})"
    )
    connection = duckdb.connect()

    def read() -> int:
        # The one way to run a SELECT * that keeps nothing: its result is dropped by the engine.
        text = f"EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM {relation}"
        plan = connection.execute(text).fetchall()[0][1]
        return max(int(n) for n in re.findall(r'"rows_scanned": (\d+)', plan))

    return read


def chdb(job: Job) -> Ready:
    import chdb

    connection = chdb.connect(":memory:")
    folder, _, last = job["files"][0].rpartition("/")
    pattern = f"{folder}/part_*.{last.partition('.')[2]}"
    structure = ", ".join(f"{name} {type_}" for name, type_ in job["columns"]).replace("'", "\\'")

    def read() -> int:
        text = f"SELECT * FROM file('{pattern}', 'CSV', '{structure}')"
        return int(connection.query(text, "Null").storage_rows_read())

    return read


def rowfall_decode(job: Job) -> Ready:
    def read() -> int:
        done = subprocess.run(
            [job["program"], "run", "--spec", "-"],
            input=json.dumps(job["spec"]).encode(), capture_output=True,
        )  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr.decode())
        return int(json.loads(done.stderr.splitlines()[-1])["rows"])

    return read


def copy(job: Job) -> Ready:
    """Read and memcpy: what nobody who looks at every byte can be faster than."""

    def read() -> int:
        one, other = bytearray(_COPIED), bytearray(_COPIED)
        source, target = memoryview(one), memoryview(other)
        for path in job["files"]:
            with open(path, "rb", buffering=0) as file:
                while count := file.readinto(source):
                    target[:count] = source[:count]
        return 0

    return read


def gzip(job: Job) -> Ready:
    program = shutil.which("gzip") or sys.exit("there is no gzip")

    def read() -> int:
        subprocess.run([program, "-dc", *job["files"]], stdout=subprocess.DEVNULL, check=True)
        return 0

    return read


def isal(job: Job) -> Ready:
    from isal import igzip

    def read() -> int:
        buffer = memoryview(bytearray(_COPIED))
        for path in job["files"]:
            with igzip.open(path, "rb") as file:
                while file.readinto(buffer):
                    pass
        return 0

    return read


READERS: dict[str, Callable[[Job], Ready]] = {
    "rowfall-decode": rowfall_decode, "pyarrow": pyarrow, "polars": polars, "duckdb": duckdb,
    "chdb": chdb, "memcpy": copy, "gzip": gzip, "isal": isal,
}  # fmt: skip


def version(name: str) -> str:
    """Of the package, or "" for what is no package."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def cpu() -> float:
    """User and system seconds of this process and of those it waited for."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    job = json.load(sys.stdin)
    read = READERS[job["reader"]](job)
    start, before = time.perf_counter(), cpu()
    rows = read()
    wall, spent = time.perf_counter() - start, cpu() - before
    found = {"rows": rows, "cpu": spent, "wall": wall, "version": version(job["reader"])}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
