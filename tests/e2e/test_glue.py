"""Tables of a Glue catalogue as sources and as targets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from e2e.tools import Shell
from lab.glue import Glue

# Packages of 120 MB once for each machine.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.xdist_group("glue")]

_WRITE = """
import sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog
catalogue, start, stop = load_catalog("lab"), *map(int, sys.argv[1:])
catalogue.create_namespace_if_not_exists("sales")
rows = pa.table({"id": range(start, stop), "name": [f"n{n}" for n in range(start, stop)]})
catalogue.create_table_if_not_exists("sales.orders", rows.schema).append(rows)
"""
_READ = """
import json
from pyiceberg.catalog import load_catalog
rows = load_catalog("lab").load_table("sales.made").scan().to_arrow()
print(json.dumps([rows.num_rows, sum(rows["id"].to_pylist())]))
"""


@pytest.fixture(scope="module")
def glue() -> Iterator[Glue]:
    with Glue() as service:
        service.create_bucket("lake")
        yield service


def python(code: str, *arguments: str, env: Mapping[str, str]) -> str:
    """Run in a process of its own, which has the library of Glue; returns stdout."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env={**os.environ, **env}, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_table_of_glue_is_loaded_once_and_goes_on(shell: Shell, glue: Glue) -> None:
    env = glue.catalogue("lab", "s3://lake/wh")

    def load() -> int:
        done = shell.cli("load", "iceberg://lab/sales.orders", "--json", env=env)
        assert done.returncode == 0, done.stderr
        return int(json.loads(done.stdout)["rows"])

    python(_WRITE, "0", "50", env=env)
    assert load() == 50
    assert load() == 0
    python(_WRITE, "50", "80", env=env)
    assert load() == 30
    assert shell.row("SELECT count(), uniqExact(name), sum(id) FROM orders") == [80, 80, 3160]


def test_rows_go_into_a_table_of_glue(shell: Shell, glue: Glue) -> None:
    env = glue.catalogue("lab", "s3://lake/wh")
    python(_WRITE, "0", "1", env=env)  # for the namespace
    for part in range(2):
        rows = "".join(f"{n},n{n}\n" for n in range(part * 100, part * 100 + 100))
        (shell.folder / f"{part}.csv").write_text(f"id,name\n{rows}")
        done = shell.cli("load", "*.csv", "--to", "iceberg://lab/sales.made", "--json", env=env)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] == 100
    assert json.loads(python(_READ, env=env)) == [200, sum(range(200))]


def test_what_is_missing_is_said(shell: Shell, glue: Glue) -> None:
    """Its library, a table, and a place for new tables."""
    env = glue.catalogue("lab", "")
    command = ("load", "iceberg://lab/sales.nothing")
    done = shell.cli(*command, env={**env, "PYTHONPATH": ""})
    assert (done.returncode, "pip install 'pyiceberg[glue]'" in done.stderr) == (4, True)
    done = shell.cli(*command, env=env)
    assert (done.returncode, "has no table sales.nothing" in done.stderr) == (4, True)
    (shell.folder / "rows.csv").write_text("id\n1\n")
    done = shell.cli("load", "rows.csv", "--to", "iceberg://lab/sales.more", env=env)
    assert done.returncode == 5
    assert "PYICEBERG_CATALOG__LAB__WAREHOUSE" in done.stderr
