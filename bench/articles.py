"""``rowfall bench`` with all services that the tests can start: ``python bench/articles.py all``.

What is behind the name goes to ``rowfall bench``. ClickHouse and MariaDB are the tests' own, found
by their variables; PostgreSQL is installed by apt; Kafka and HDFS run for as long as this does.
Writes the page ``articles.html`` into the folder of the run, and beside this file, unless the scale
is tiny or rowfall-decode the one for tests, ``results-articles.json`` and ``RESULTS-articles.md``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import is_release
from lab.clickhouse import binary
from lab.hdfs import Hdfs
from lab.kafka import Kafka, jars
from lab.mariadb import programs
from lab.postgresql import BIN, PostgresqlServer
from lab.process import ServiceError

HERE = Path(__file__).resolve().parent
ROWFALL = Path(sys.executable).parent / "rowfall"
# The Kafka engine of the tests' server (24.10) reads nothing from brokers of 4.3: "Required feature
# not supported by broker".
BROKER = "3.9.1"


def main() -> int:
    arguments = sys.argv[1:] or ["all"]
    kept = "tiny" not in arguments and "--scale=tiny" not in arguments and is_release()
    env = {**os.environ, "ROWFALL_CLICKHOUSE": str(binary()), "ROWFALL_MARIADB": str(programs()),
           "ROWFALL_KAFKA": str(jars(BROKER))}  # fmt: skip
    if not (BIN / "postgres").exists():
        PostgresqlServer().close()  # installs it
    given: list[str] = []
    with contextlib.ExitStack() as stack:
        # One that cannot be had is said by the rows that would need it.
        with contextlib.suppress(ServiceError, OSError):
            given += ["--service", f"kafka={stack.enter_context(Kafka(version=BROKER)).servers}"]
        with contextlib.suppress(ServiceError, OSError):
            given += ["--service", f"hdfs={stack.enter_context(Hdfs()).at('')}"]
        folder = Path(tempfile.gettempdir(), "rowfall-bench")
        folder.mkdir(exist_ok=True)
        command: list[str | Path] = [
            ROWFALL, "bench", *arguments, *given, "--folder", folder,
            "--html", folder / "articles.html",
            *(("--markdown", HERE / "RESULTS-articles.md") if kept else ()),
        ]  # fmt: skip
        code = subprocess.run(command, env=env, check=False).returncode
        if kept and (folder / "results.json").exists():
            shutil.copy(folder / "results.json", HERE / "results-articles.json")
    return code


if __name__ == "__main__":
    sys.exit(main())
