"""Projects of real dbt: sources are loaded, and models are built on what was loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from lab.clickhouse import ClickHouse
from lab.postgresql import PostgresqlServer

_BIN = Path(sys.executable).parent

_SOURCES = """\
sources:
  - name: shop
    schema: {schema}
    tables:
      - name: orders
        loaded_at_field: _loaded_at
        config:
          freshness: {{error_after: {{count: 1, period: hour}}}}
          meta:
            rowfall:
              source: data/orders*.csv
              type: {{id: Int64}}
              select: "*, now() AS _loaded_at"
              {before}
        columns:
          - name: id
            data_tests: [unique, not_null]
      - name: raw_items
        identifier: items
        meta: {{rowfall: {{source: [data/items.csv], needs: shop.orders}}}}
      - name: by_hand
"""
_MODEL = """\
select item, sum(o.price) as total, count(*) as orders
from {{ source('shop', 'orders') }} o join {{ source('shop', 'raw_items') }} i on o.id = i.id
group by item
"""


class Project:
    """A project of dbt in a folder of its own.

    Attributes:
        environment: of commands.
    """

    def __init__(self, folder: Path, output: str) -> None:
        self.folder = folder
        for name in ("models", "data"):
            (folder / name).mkdir()
        (folder / "dbt_project.yml").write_text("name: shop\nversion: '1.0'\nprofile: shop\n")
        (folder / "profiles.yml").write_text(
            f"shop:\n  target: dev\n  outputs:\n    dev: {output}\n    other: {{type: duckdb}}\n"
        )
        self.environment = {
            **os.environ, "PATH": f"{_BIN}:{os.environ['PATH']}",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "XDG_STATE_HOME": str(folder / "state"),
        }  # fmt: skip
        (folder / "data" / "orders1.csv").write_text("id,price\n1,1.5\n2,2\n")
        (folder / "data" / "items.csv").write_text("id,item\n1,a\n2,a\n3,b\n")
        (folder / "models" / "prices.sql").write_text(_MODEL)

    def sources(self, schema: str, before: str = "") -> None:
        text = _SOURCES.format(schema=schema, before=before)
        (self.folder / "models" / "sources.yml").write_text(text)

    def run(
        self, *command: str, code: int = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [_BIN / command[0], *command[1:]], cwd=cwd or self.folder, env=self.environment,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def loads(self, *arguments: str) -> Mapping[str, int]:
        """Run the sources; return the rows of each."""
        document = json.loads(self.run("rowfall-dbt", "run", "--json", *arguments).stdout)
        return {load["name"]: load["rows"] for load in document["loads"]}

    def rows(self, sql: str) -> list[str]:
        done = self.run("rowfall-dbt", "query", sql, "--format", "TSV")
        return done.stdout.splitlines()

    def texts(self) -> Iterator[bytes]:
        for path in self.folder.rglob("*"):
            if path.is_file() and path.suffix != ".yml":
                yield path.read_bytes()


def _whole_way(project: Project, schema: str) -> None:
    """Load sources, build on them, see that they are fresh, load what has come since."""
    assert project.loads() == {"shop--orders": 2, "shop--raw_items": 3}
    built = project.run("dbt", "build")
    assert "PASS=3" in built.stdout  # two tests of the source and the model
    assert "PASS freshness of shop.orders" in project.run("dbt", "source", "freshness").stdout
    (project.folder / "data" / "orders2.csv").write_text("id,price\n3,4\n")
    assert project.loads("--select", "source:shop.orders") == {"shop--orders": 1}
    project.run("dbt", "build")
    assert project.rows("SELECT item, orders FROM prices ORDER BY item") == ["a\t2", "b\t1"]
    assert project.rows(
        f"SELECT count(*) AS n, count(DISTINCT id) AS ids FROM {schema}.orders"
    ) == ["3\t3"]
    assert project.loads() == {"shop--orders": 0, "shop--raw_items": 0}
    assert [*project.folder.glob(".rowfall-dbt-*")] == []


def test_duckdb_from_sources_to_models(tmp_path: Path) -> None:
    project = Project(tmp_path, "{type: duckdb, path: shop.duckdb}")
    project.sources("raw", 'before: {sql: "CREATE SCHEMA IF NOT EXISTS raw"}')
    _whole_way(project, "raw")
    # From elsewhere, as with dbt; a source of one's own into the schema of the profile.
    (tmp_path / "elsewhere").mkdir()
    project.run(
        "rowfall-dbt", "--project-dir", "..", "load", "../data/items.csv", "--table", "mine",
        cwd=tmp_path / "elsewhere",
    )  # fmt: skip
    assert project.rows("SELECT count(*) FROM main.mine") == ["3"]


def test_postgresql_by_a_secret_of_the_environment(tmp_path: Path) -> None:
    with PostgresqlServer() as server:
        project = Project(
            tmp_path,
            f"{{type: postgres, host: 127.0.0.1, port: {server.port}, user: {server.user}, "
            f"dbname: {server.database}, schema: public, "
            "password: \"{{ env_var('DBT_ENV_SECRET_SHOP') }}\"}",
        )
        project.environment["DBT_ENV_SECRET_SHOP"] = server.password
        project.sources("raw", 'before: {sql: "CREATE SCHEMA IF NOT EXISTS raw"}')
        _whole_way(project, "raw")
        assert not [text for text in project.texts() if server.password.encode() in text]
        del project.environment["DBT_ENV_SECRET_SHOP"]
        said = project.run("rowfall-dbt", "run", code=2).stderr
        assert 'rowfall-dbt: error: dbt: Runtime Error Credentials in profile "shop"' in said


def test_clickhouse_by_a_profile_outside_of_the_project(tmp_path: Path) -> None:
    with ClickHouse() as server:
        server.query("CREATE DATABASE raw")
        project = Project(
            tmp_path,
            f"{{type: clickhouse, host: 127.0.0.1, port: {server.http_port}, driver: http, "
            f"user: {server.user}, password: '{server.password}', schema: marts}}",
        )
        (tmp_path / "profiles").mkdir()
        (tmp_path / "profiles.yml").rename(tmp_path / "profiles" / "profiles.yml")
        project.environment["DBT_PROFILES_DIR"] = str(tmp_path / "profiles")
        project.sources("raw")
        _whole_way(project, "raw")
        assert not [text for text in project.texts() if server.password.encode() in text]


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (("source: data/orders*.csv", "format: CSV"), (), "meta.rowfall of shop.orders names no"),
        (("source: data", "table: t\n              source: data"), (), "has table, which is the"),
        (("data/orders*", "data/none*"), (), "no file"),
        (("", ""), ("--select", "source:other"), "no table of a source is to be loaded"),
        (("", ""), ("--target", "nowhere"), "does not have a target named 'nowhere'"),
        (("", ""), ("--target", "other"), "the profile's DuckDB is :memory:"),
        (("type: {", "tpye: {"), (), "tpye"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, change: tuple[str, str], arguments: tuple[str, ...], said: str
) -> None:
    project = Project(tmp_path, "{type: duckdb, path: shop.duckdb}")
    project.sources("main")
    sources = tmp_path / "models" / "sources.yml"
    sources.write_text(
        sources.read_text().replace(*change, 1) if change[0] else sources.read_text()
    )
    code = 4 if "none" in change[1] else 2
    assert said in project.run("rowfall-dbt", "run", *arguments, code=code).stderr
    assert [*project.folder.glob(".rowfall-dbt-*")] == []


def test_a_scheduler_that_ends_it_ends_its_load(tmp_path: Path) -> None:
    program, pid = tmp_path / "rowfall", tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600\n")
    program.chmod(0o755)
    code = (
        f"import sys; from rowfall_dbt.cli import _rowfall; sys.executable = '{tmp_path}/python'; "
        "sys.exit(_rowfall([], ''))"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        deadline = time.monotonic() + 60
        while not pid.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        load = int(pid.read_text())
        try:
            process.terminate()
            assert process.wait(30) != 0
            assert not Path(f"/proc/{load}").exists()
        finally:
            with suppress(ProcessLookupError):
                os.kill(load, signal.SIGKILL)
