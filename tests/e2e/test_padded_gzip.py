"""gzip that zeros follow, as tapes and disks leave them: gzip itself takes them for no data."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import subprocess
import sys

import pytest

from e2e.lake import Lake
from e2e.tools import Shell
from lab.clickhouse import ClickHouse
from lab.seaweed import Seaweed

ZEROS = bytes(512)
CSV = b"id,name\n1,a\n2,b\n"
JSON = b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n'
WAYS = ("always", "never")
WANTED = "SELECT count(), sum(id), any(name) != '' FROM t"


def padded(text: bytes, *, members: int = 1) -> bytes:
    """Pack into gzip members, with zeros between and behind them."""
    step = len(text) // members
    cuts = [*range(0, step * members, step), len(text)]
    return b"".join(gzip.compress(text[a:b]) + ZEROS for a, b in itertools.pairwise(cuts))


def home(shell: Shell) -> dict[str, str]:
    return {**os.environ, "HOME": str(shell.cli.home)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "text"), [("a.csv.gz", CSV), pytest.param("a.jsonl.gz", JSON, marks=pytest.mark.long)]
)
def test_files(shell: Shell, way: str, name: str, text: bytes) -> None:
    shell.write(name, padded(text, members=2))
    shell.ok("load", name, "--table", "t", "--decoder", way)
    assert shell.row(WANTED) == [2, 3, True]


@pytest.mark.parametrize("way", ["file", "pipe"])
def test_stdin(shell: Shell, way: str) -> None:
    path = shell.write("a", padded(CSV))
    command = [sys.executable, "-m", "rowfall", "load", "-", "--table", "t"]
    with path.open("rb") as file:
        done = subprocess.run(
            command, cwd=shell.folder, env=home(shell), check=False, capture_output=True,
            **({"stdin": file} if way == "file" else {"input": file.read()}),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert shell.row(WANTED) == [2, 3, True]


def test_a_long_pipe_says_how_to_unpack_it(shell: Shell) -> None:
    """Its end is not known before the engine has read the rest."""
    draw = random.Random(1)
    lines = "".join(f"{i},{draw.getrandbits(256):x}\n" for i in range(180_000))
    path = shell.write("a", padded(b"id,name\n" + lines.encode()))
    assert path.stat().st_size > 4 << 20
    load = f"{sys.executable} -m rowfall load - --table t"
    for first, code in (("cat", 1), ("gzip -dc", 0)):
        command = f"{first} <a | {load}"
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=shell.folder, env=home(shell), check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert ("gzip -dc FILE | rowfall load -" in done.stderr) == bool(code)
    assert shell.row("SELECT count(), uniqExact(id) FROM t") == [180_000, 180_000]


@pytest.mark.parametrize("way", WAYS)
def test_into_an_older_server(shell: Shell, clickhouse: ClickHouse, way: str) -> None:
    lake = Lake(shell, clickhouse)
    shell.write("a.csv.gz", padded(CSV))
    lake.ok("load", "a.csv.gz", "--table", "t", "--decoder", way)
    assert lake.row("SELECT count(), sum(id) FROM {db}.t") == [2, 3]


@pytest.mark.long
def test_objects(shell: Shell, s3: Seaweed, bucket: str) -> None:
    s3.put(bucket, "in/a.csv.gz", padded(CSV))
    shell.ok("load", f"s3://{bucket}/in/", "--table", "t", env=s3.env)
    assert shell.row(WANTED) == [2, 3, True]


def test_other_bytes_behind_it_are_refused(shell: Shell) -> None:
    shell.write("a.csv.gz", padded(CSV) + b"x")
    for way in WAYS:
        assert shell.run("load", "a.csv.gz", "--table", "t", "--decoder", way).code in (1, 4)
    assert shell.run("query", "SELECT * FROM t").code != 0
