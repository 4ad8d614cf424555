"""What a load imports and starts: heavy packages and the engine only where it needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.clickhouse import ClickHouse
from lab.mariadb import MariaDB
from lab.postgresql import PostgresqlServer

# Processes of their own, half a second of CPU each, and three services.
pytestmark = pytest.mark.long

# A package that is looked for is named on stderr and is not there; so is an engine that is started.
_RUN = """\
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("chdb", "pandas", "numpy", "pyarrow", "botocore"):
            print("wanted:", name, file=sys.stderr, flush=True)
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from rowfall.systems.clickhouse import prestart
def spawned(fds):
    print("wanted: an engine", file=sys.stderr, flush=True)
    raise SystemExit(70)
prestart._spawn = spawned
from rowfall.cli import main
main()
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    rows = range(5000)
    (folder / "a.csv").write_text("id,name\n" + "".join(f"{n},n{n % 9}\n" for n in rows))
    (folder / "a.jsonl").write_text("".join(f'{{"id": {n}, "name": "n{n % 9}"}}\n' for n in rows))
    names = pa.array([f"n{n % 9}" for n in rows])
    lists = pa.array([[n] for n in rows], pa.list_(pa.int32()))
    for number in range(2):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({"id": pa.array(rows), "name": names, "tags": lists}), path)
    return folder


@pytest.mark.parametrize("source", ["a.csv", "a.jsonl", "*.parquet"])
def test_files_into_a_server(files: Path, clickhouse: ClickHouse, source: str) -> None:
    _load(files, str(files / source), clickhouse.uri("default"), f"light_{source[2:]}")


@pytest.mark.parametrize("source", ["a.csv", "a.jsonl"])
def test_text_into_databases(
    files: Path, postgresql: PostgresqlServer, mariadb: MariaDB, source: str
) -> None:
    mariadb.query("CREATE DATABASE IF NOT EXISTS light")
    for to in (_with_password(postgresql), mariadb.uri("light")):
        _load(files, str(files / source), to, f"light_{source[2:]}")


def test_databases_into_a_server(
    files: Path, clickhouse: ClickHouse, postgresql: PostgresqlServer, mariadb: MariaDB
) -> None:
    postgresql.run("CREATE TABLE light AS SELECT g AS id, 'x' AS name FROM generate_series(1, 9) g")
    mariadb.query("CREATE DATABASE IF NOT EXISTS light", "CREATE TABLE light.t AS SELECT 7 AS id")
    for number, source in enumerate(
        (f"{_with_password(postgresql)}/light", mariadb.uri("light/t"))
    ):
        _load(files, source, clickhouse.uri("default"), f"light_from_{number}")


def test_what_needs_the_engine_says_so(files: Path) -> None:
    """The test of the tests: a load into a folder starts one."""
    done = _run(files, str(files / "a.csv"), "folder", "t")
    assert "wanted: an engine" in done.stderr


def _with_password(server: PostgresqlServer) -> str:
    return server.uri.replace("@", f":{server.password}@", 1)


def _load(folder: Path, source: str, to: str, table: str) -> None:
    done = _run(folder, source, to, table)
    assert done.returncode == 0, done.stderr
    assert "wanted:" not in done.stderr


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    source, to, table = words
    return subprocess.run(
        [sys.executable, "-c", _RUN, "load", source, "--to", to, "--table", table],
        cwd=folder, env={**os.environ, "ROWFALL_HOME": str(folder / "home")}, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
