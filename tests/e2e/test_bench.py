"""``rowfall bench``, run as it is typed; its parts are in ``unit/measure/bench``."""

from __future__ import annotations

import json
import signal

import pytest

from e2e.tools import Shell
from lab.process import wait_until

pytestmark = pytest.mark.long
BARE = {"PATH": "/nowhere", "ROWFALL_CLICKHOUSE": "", "ROWFALL_MARIADB": "/nowhere"}


def test_an_article_without_services(shell: Shell) -> None:
    done = shell.ok("bench", "a4", "--scale", "tiny", "--rounds", "1", "--markdown", "a4.md",
                    "--html", "a4.html", env=BARE)  # fmt: skip
    assert "not run: LOAD DATA, 4 connections, rowfall load generate://random" in " ".join(
        done.out.split()
    )
    found = json.loads((shell.folder / "rowfall-bench/results.json").read_text())
    ran = {row["method"] for row in found["rows"] if row["rounds"]}
    assert ran == {"rowfall load generate:// --to null:"}
    assert "rowfall load generate:// --to null:" in (shell.folder / "a4.md").read_text()
    assert (shell.folder / "a4.html").stat().st_size > 100_000
    # Nothing but the results is left.
    assert [path.name for path in (shell.folder / "rowfall-bench").iterdir()] == ["results.json"]


def test_ctrl_c_keeps_the_rounds_that_are_done(shell: Shell) -> None:
    process = shell.cli.start("bench", "A3", "--scale", "tiny", "--rounds", "1", env=BARE)
    results = shell.folder / "rowfall-bench/results.json"
    wait_until(results.exists, 60, "a round to be written")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "the same command goes on" in str(out)
    assert any(row["rounds"] for row in json.loads(results.read_text())["rows"])
    assert [path.name for path in results.parent.iterdir()] == ["results.json"]
