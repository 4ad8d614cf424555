"""Airflow as a user has it: its own home with SQLite, and DAGs that ``airflow dags test`` runs."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.clickhouse import ClickHouse

_BIN = Path(sys.executable).parent
_HEAD = """\
from datetime import datetime, timedelta
from airflow.sdk import DAG
from rowfall_airflow import RowfallOperator

with DAG("loads", start_date=datetime(2026, 1, 1), schedule=None):
    RowfallOperator(task_id="load", retry_delay=timedelta(0), {arguments})
"""


class Home:
    """One installation of Airflow.

    Attributes:
        folder: ``AIRFLOW_HOME``. ``environment``: of its commands, which tests add to.
        day: for which DAGs are run.
    """

    day = "2026-01-02"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "dags").mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "ROWFALL"))}
        self.environment = {
            **kept,
            "AIRFLOW_HOME": str(folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self.command("db", "migrate")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Airflow that succeeds."""
        run = subprocess.run(
            [_BIN / "airflow", *arguments], env=self.environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
        return run

    def connect(self, name: str, **values: Any) -> None:
        """Give Airflow a connection, as its documentation says: JSON in a variable."""
        self.environment[f"AIRFLOW_CONN_{name.upper()}"] = json.dumps(values)

    def start(self, arguments: str) -> subprocess.Popen[str]:
        """Start ``airflow dags test`` of a DAG with one task of these arguments."""
        return self._start("loads", textwrap.dedent(_HEAD.format(arguments=arguments)))

    def run(self, arguments: str) -> str:
        """Run such a DAG to its end; return what it has said."""
        said, _ = self.start(arguments).communicate(timeout=300)
        return said

    def run_dag(self, name: str, text: str) -> str:
        """Run a DAG to its end; return what it has said."""
        said, _ = self._start(name, text).communicate(timeout=300)
        return said

    def _start(self, name: str, text: str) -> subprocess.Popen[str]:
        (self.folder / "dags" / f"{name}.py").write_text(text)
        return subprocess.Popen(
            [_BIN / "airflow", "dags", "test", name, self.day], env=self.environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder,
        )  # fmt: skip

    def task(self, dag: str = "loads") -> tuple[str, int]:
        """Return the state of the task of a DAG's last run, and the number of its tries."""
        found = self._ask(
            f"SELECT state, try_number FROM task_instance WHERE dag_id = '{dag}' "
            "ORDER BY start_date DESC LIMIT 1"
        )
        return found[0], found[1]

    def result(self) -> Mapping[str, Any]:
        """Return what the task has pushed."""
        (value,) = self._ask(
            "SELECT value FROM xcom WHERE key = 'return_value' ORDER BY timestamp DESC LIMIT 1"
        )
        value = json.loads(value)
        return json.loads(value) if isinstance(value, str) else value

    def loads(self) -> list[Path]:
        """Return the folders of loads that are not done."""
        return [*(self.folder / "rowfall").glob("*")]

    def texts(self) -> Iterator[tuple[Path, bytes]]:
        """Give all files of the installation: logs, database, folders of loads."""
        for path in self.folder.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes()

    def _ask(self, sql: str) -> tuple[Any, ...]:
        database = sqlite3.connect(self.folder / "airflow.db")
        try:
            found = database.execute(sql).fetchone()
        finally:
            database.close()
        assert found is not None, sql
        return tuple(found)

    def forget(self) -> None:
        """Forget the runs of the test before."""
        for name in [n for n in self.environment if n.startswith("AIRFLOW_CONN_")]:
            del self.environment[name]
        for folder in self.loads():
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("airflow"))


@pytest.fixture
def airflow(installed: Home) -> Iterator[Home]:
    before = dict(installed.environment)
    yield installed
    installed.environment = before
    installed.forget()


@pytest.fixture(scope="session")
def server() -> Iterator[ClickHouse]:
    with ClickHouse() as running:
        running.query("CREATE DATABASE lake")
        yield running


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Give a command that becomes rowfall as soon as a file is there, and that file."""
    go, command = tmp_path / "go", tmp_path / "held-rowfall"
    # Whatever becomes of the test, nobody waits for longer than it may take.
    command.write_text(
        f"#!/bin/sh\nn=0; while [ ! -e {go} ] && [ $n -lt 3000 ]; do sleep 0.1; n=$((n+1)); done\n"
        f'exec {_BIN / "rowfall"} "$@"\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    yield str(command), go
    go.touch()
